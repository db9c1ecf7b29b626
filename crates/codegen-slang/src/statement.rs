//! Writes functions and their statements.

use std::fmt::Write;

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::printf::{self, Replacement};
use ir::{Func, Function, Inst, InstData, Module, Op, Span, Type, TypeData, Value};
use rustc_hash::FxHashMap;

use crate::control::{Dest, Place, strip};
use crate::expression::{Text, lane};
use crate::memory::Memory;
use crate::names::Names;
use crate::order::Order;
use crate::types::{Bounds, StackBounds, declarator, open_bounds};
use crate::unsupported::{Unsupported, refused, unsupported};

/// A function to be written, with the names to use for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// Its name.
    pub name: String,
    /// The names of its parameters; parameters without an entry keep their own names.
    pub params: Vec<String>,
    /// The names of its results; results without an entry keep their own names.
    pub results: Vec<String>,
    /// For each parameter, the result of a previously written function that is passed for it; a stack
    /// parameter has the bounds of that result.
    pub sources: Vec<Option<(Func, usize)>>,
}

/// An expression with more operators than this is given a name.
const MAX_SIZE: u32 = 8;

pub(crate) type Res<T = ()> = Result<T, Unsupported>;

/// The results of a function: the parameters for them, or the type of the one that it returns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gives {
    pub(crate) outs: Vec<(String, Type)>,
    pub(crate) returned: Option<Type>,
}

/// Writes one function.
pub(crate) struct Writer<'a> {
    pub(crate) module: &'a Module,
    pub(crate) src: &'a Function,
    functions: &'a FxHashMap<Func, String>,
    memory: &'a Memory,
    pub(crate) stacks: &'a mut StackBounds,
    pub(crate) out: String,
    /// The source location of what is being written.
    pub(crate) at: Span,
    pub(crate) indent: usize,
    /// The number of loops around it.
    pub(crate) depth: u32,
    pub(crate) names: Names,
    pub(crate) texts: FxHashMap<Value, Text>,
    /// The operands of sums and products, for assignments with an operator.
    pub(crate) compound: FxHashMap<Value, (String, &'static str, String)>,
    /// The factors of products that are part of a larger expression.
    pub(crate) products: FxHashMap<Value, (Text, Text)>,
    pub(crate) bounds: FxHashMap<Value, Bounds>,
    pub(crate) uses: SecondaryMap<Value, u32>,
    pub(crate) order: Order,
    /// The results of the function.
    pub(crate) gives: Gives,
    /// Vectors whose lanes are added up by a `Sum`.
    summed: EntitySet<Value>,
    /// Memory of a single element, which is not indexed.
    pub(crate) singles: EntitySet<Value>,
    /// Memory that is never written.
    pub(crate) fixed: EntitySet<Value>,
}

/// Writes a function with its signature.
pub(crate) fn function(
    module: &Module,
    func: Func,
    functions: &FxHashMap<Func, String>,
    given: &Printed,
    memory: &Memory,
    stacks: &mut StackBounds,
) -> Res<String> {
    let mut tidied = module.funcs[func].clone();
    crate::tidy::tidy(&module.types, &mut tidied);
    let src = &tidied;
    let mut w = Writer {
        module,
        src,
        functions,
        memory,
        stacks,
        out: String::new(),
        at: src.span,
        indent: 1,
        depth: 0,
        names: Names::default(),
        texts: FxHashMap::default(),
        products: FxHashMap::default(),
        compound: FxHashMap::default(),
        bounds: FxHashMap::default(),
        uses: ir::walk::use_counts(src),
        order: Order::new(&module.types, src),
        gives: Gives::default(),
        summed: EntitySet::new(),
        singles: EntitySet::new(),
        fixed: EntitySet::new(),
    };
    src.walk(src.body(), &mut |inst| {
        if matches!(src.insts[inst].op, Op::Sum) {
            w.summed.insert(src.insts[inst].args[0]);
        }
    });
    for name in functions.values().chain(memory.globals.values()) {
        w.names.fresh(name);
    }
    for data in src.values.values() {
        w.names.avoid(data.name.as_deref());
    }
    let body = &src.regions[src.body()];
    let mut params = Vec::new();
    for (k, (&v, slot)) in body.params.iter().zip(&src.params).enumerate() {
        let like = given.params.get(k).cloned().unwrap_or_else(|| slot_name(slot, "p", k));
        let name = w.names.fresh(&like);
        w.texts.insert(v, Text::atom(name.clone()));
        if module.types.has_stack(slot.ty) {
            let source = given.sources.get(k).copied().flatten();
            let bounds = source.and_then(|s| w.stacks.results.get(&s));
            let bounds = bounds.or_else(|| w.stacks.params.get(&(func, k))).cloned();
            w.bounds.insert(v, bounds.unwrap_or_else(|| open_bounds(&module.types, slot.ty, 0)));
        }
        params.push(match module.types[slot.ty] {
            TypeData::Buffer(_) => memory.parameter(module, slot.ty, &name, src.span)?,
            _ => w.declaration(slot.ty, &name, v)?,
        });
    }
    let single = returns_value(module, src);
    let mut dests = Vec::new();
    if single {
        w.gives.returned = Some(src.results[0].ty);
        dests.push(Dest::Return);
    } else {
        for (k, slot) in src.results.iter().enumerate() {
            let given = given.results.get(k).cloned().unwrap_or_else(|| slot_name(slot, "result", k));
            let name = w.names.fresh(&given);
            w.gives.outs.push((name.clone(), slot.ty));
            dests.push(Dest::Variable(name));
        }
    }
    w.region(src.body(), &dests, false)?;
    let mut declared = Vec::new();
    for (k, (&v, (name, ty))) in body.results.iter().zip(&w.gives.outs.clone()).enumerate() {
        if let Some(bounds) = w.bounds.get(&v) {
            w.stacks.results.insert((func, k), bounds.clone());
        }
        declared.push(format!("out {}", w.declaration(*ty, name, v)?));
    }
    let result = match single {
        true => crate::types::name(&module.types, src.results[0].ty, src.span)?,
        false => "void".into(),
    };
    params.extend(declared);
    let name = &functions[&func];
    Ok(format!("{result} {name}({})\n{{\n{}}}\n", params.join(", "), w.out))
}

/// Returns true if a function returns its only result instead of writing it to a parameter.
fn returns_value(module: &Module, function: &Function) -> bool {
    let [result] = &function.results[..] else { return false };
    matches!(module.types[result.ty], TypeData::Scalar(_) | TypeData::Vector(..))
}

/// The name of a parameter or result; that of a differential is `d_x`.
fn slot_name(slot: &ir::Slot, like: &str, k: usize) -> String {
    match slot.name.as_deref() {
        Some(name) => match name.strip_suffix(".d") {
            Some(primal) => format!("d_{primal}"),
            None => name.to_string(),
        },
        None => format!("{like}{k}"),
    }
}

impl Writer<'_> {
    pub(crate) fn line(&mut self, text: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{:1$}{text}", "", 4 * self.indent);
    }

    fn open(&mut self, head: &str) {
        self.line(head);
        self.line("{");
        self.indent += 1;
    }

    fn close(&mut self, tail: &str) {
        self.indent -= 1;
        self.line(&format!("}}{tail}"));
    }

    pub(crate) fn is_used(&self, v: Value) -> bool {
        self.uses[v] > 0
    }

    pub(crate) fn fresh_name(&mut self, like: &str) -> String {
        self.names.fresh(like)
    }

    pub(crate) fn name_global(&mut self, v: Value, global: ir::Global) {
        let name = self.memory.globals.get(&global).cloned().unwrap_or_default();
        self.texts.insert(v, Text::atom(name));
    }

    /// A name for what has none in the source.
    pub(crate) fn temporary(&mut self, like: &str) -> String {
        self.names.temporary(like)
    }

    /// Names a value as in the source, or otherwise like `like`.
    pub(crate) fn name(&mut self, v: Value, like: &str) -> String {
        let name = match self.src.values[v].name.as_deref() {
            Some(own) => self.names.fresh(own),
            None => self.names.temporary(like),
        };
        self.texts.insert(v, Text::atom(name.clone()));
        name
    }

    pub(crate) fn text(&self, v: Value) -> Text {
        self.texts.get(&v).cloned().unwrap_or_else(|| Text::atom("{}"))
    }

    pub(crate) fn declaration(&self, ty: Type, name: &str, of: Value) -> Res<String> {
        let bounds = self.bounds.get(&of).map_or(&[][..], Vec::as_slice);
        let (before, after) = declarator(&self.module.types, ty, bounds, self.at)?;
        Ok(format!("{before} {name}{after}"))
    }

    /// Declares a variable with an initial value for a value.
    pub(crate) fn define(&mut self, v: Value, like: &str, init: &str) -> Res {
        self.declare(v, like, Some(init)).map(|_| ())
    }

    /// Declares a variable for a value, with an initial value if `init` is given.
    pub(crate) fn declare(&mut self, v: Value, like: &str, init: Option<&str>) -> Res<String> {
        let name = self.name(v, like);
        let declaration = self.declaration(self.src.ty(v), &name, v)?;
        match init {
            Some(init) => self.line(&format!("{declaration} = {init};")),
            None => self.line(&format!("{declaration};")),
        }
        Ok(name)
    }

    pub(crate) fn is_array(&self, v: Value) -> bool {
        matches!(self.module.types[self.src.ty(v)], TypeData::Array(..) | TypeData::Stack(_))
    }

    pub(crate) fn inst(&mut self, inst: Inst, place: &mut Place) -> Res {
        let data = &self.src.insts[inst];
        self.at = data.span;
        if let Some(&v) = data.results.first()
            && self.uses[v] == 0
            && data.results.len() == 1
            && !matches!(data.op, Op::Call(_) | Op::Atomic(..))
            && data.regions.is_empty()
        {
            return Ok(());
        }
        self.settle_cells(inst)?;
        match &data.op {
            Op::If => self.branch(inst, place),
            Op::Switch(cases) => self.switch(inst, cases, place),
            Op::For(_) | Op::Loop(_) => self.repeat(inst, place),
            Op::Call(callee) => self.call(data, *callee),
            Op::Local => {
                let init = self.text(data.args[0]).text;
                self.share_bounds(data.args[0], data.results[0]);
                self.open_bounds(data.results[0]);
                let like = self.gathered(data.results[0], place).unwrap_or_else(|| "cell".into());
                self.define(data.results[0], &like, &init)
            }
            Op::Store => {
                let (value, path) = data.args.split_last().expect("a store has operands");
                let (place, text) = (self.place(path), self.text(*value).text);
                self.assign(&place, strip(&text), *value)
            }
            Op::AddTo => {
                let (value, path) = data.args.split_last().expect("an addition has operands");
                let (place, text) = (self.place(path), self.text(*value));
                match text.without_minus() {
                    Some(positive) => self.line(&format!("{place} -= {};", strip(&positive.text))),
                    None => self.add(&place, strip(&text.text), self.src.ty(*value), data)?,
                }
                Ok(())
            }
            Op::SubCell => {
                let place = self.place(&data.args);
                self.texts.insert(data.results[0], Text::atom(place));
                Ok(())
            }
            Op::GlobalRef(global) => {
                self.global(data.results[0], *global);
                Ok(())
            }
            Op::BufferLoad(path) => self.buffer_load(data, path, place),
            Op::BufferStore(path) => self.buffer_store(data, path),
            Op::Atomic(path, op) => self.atomic(data, path, *op),
            Op::BufferLen => self.buffer_length(data),
            Op::Printf(format) => {
                let Some((format, args)) = self.without_choices(format, &data.args) else {
                    let what = "`printf` of a string that is only known when it runs";
                    return Err(refused(data.span, what));
                };
                let mut line = format!("printf({format:?}");
                for v in args {
                    line += &format!(", {}", self.text(v).text);
                }
                self.line(&(line + ");"));
                Ok(())
            }
            // Only the reversal of loops creates asserts. They check for more iterations than the loop's
            // bound, which is the size of the array here.
            Op::Assert(_) => Ok(()),
            Op::Construct | Op::Splat | Op::Zero | Op::Insert(_) | Op::Select
                if self.is_array(data.results[0]) =>
            {
                self.array(data, place)
            }
            Op::Insert(k) => {
                let n = self.module.types.lanes(self.src.ty(data.results[0])).unwrap_or(1);
                self.insert(data, "v", &lane(*k, n), place)
            }
            other if data.results.is_empty() => Err(unsupported(other, data.span)),
            _ => {
                let text = self.expression(data)?;
                let moves = !matches!(data.op, Op::Load) || self.is_read_at_once(inst, place);
                self.variable_or_part(data, text, moves, place)
            }
        }
    }

    /// A format with its choices of texts made, and the arguments that are left; `None` if one is not constant.
    fn without_choices(&self, format: &str, args: &[Value]) -> Option<(String, Vec<Value>)> {
        let (mut next, mut left, mut all_known) = (args.iter().copied(), Vec::new(), true);
        let format = printf::replace(format, |conversion| {
            let argument = next.next()?;
            if !conversion.is_choice() {
                left.push(argument);
                return None;
            }
            let number = self.constant(argument);
            all_known &= number.is_some();
            conversion.print_choice(number?).map(Replacement::Text)
        });
        left.extend(next);
        all_known.then_some((format, left))
    }

    /// Gives a value that holds stacks the bounds of another one.
    pub(crate) fn share_bounds(&mut self, from: Value, to: Value) {
        if let Some(bounds) = self.bounds.get(&from).cloned() {
            self.bounds.insert(to, bounds);
        }
    }

    /// Gives bounds to a value that holds stacks and has none: derivatives of what a loop keeps start as zero, which
    /// has no length of its own.
    pub(crate) fn open_bounds(&mut self, v: Value) {
        if self.bounds.get(&v).is_none_or(Vec::is_empty) && self.module.types.has_stack(self.src.ty(v)) {
            self.bounds.insert(v, open_bounds(&self.module.types, self.src.ty(v), self.depth));
        }
    }

    /// The bits of a constant or zero.
    pub(crate) fn constant(&self, v: Value) -> Option<u64> {
        let mut found = None;
        self.src.walk(self.src.body(), &mut |inst| {
            let data = &self.src.insts[inst];
            match data.op {
                Op::Const(bits) if data.results[0] == v => found = Some(bits),
                Op::Zero if data.results[0] == v => found = Some(0),
                _ => {}
            }
        });
        found
    }

    /// The name of a cell whose content is a result of the function.
    fn gathered(&self, cell: Value, place: &Place) -> Option<String> {
        let insts = &self.src.regions[place.region()].insts;
        let is_load = |i: &&Inst| {
            let data = &self.src.insts[**i];
            matches!(data.op, Op::Load) && data.args[..] == [cell]
        };
        let load = insts.iter().rev().find(is_load)?;
        let k = self.home(self.src.insts[*load].results[0], place)?;
        match &place.dests[k] {
            Dest::Variable(name) => Some(format!("{name}_sum")),
            _ => None,
        }
    }

    /// Returns true if nothing changes memory between a load and its only use.
    fn is_read_at_once(&self, inst: Inst, place: &Place) -> bool {
        let v = self.src.insts[inst].results[0];
        let insts = &self.src.regions[place.region()].insts;
        let rest = insts.iter().skip_while(|&&i| i != inst).skip(1);
        for &next in rest {
            let data = &self.src.insts[next];
            if data.args.contains(&v) && data.regions.is_empty() {
                return true;
            }
            if !data.op.is_pure() && !matches!(data.op, Op::Load) || !data.regions.is_empty() {
                return false;
            }
        }
        true
    }

    /// Assigns an expression to the destination that it is computed for, makes it a part of the expression that
    /// uses it, or gives it a variable.
    pub(crate) fn variable_or_part(
        &mut self,
        data: &InstData,
        text: Text,
        may_move: bool,
        place: &mut Place,
    ) -> Res {
        let v = data.results[0];
        let constant = matches!(data.op, Op::Const(_) | Op::Zero);
        let base = data.args.first().map(|&v| self.text(v).text).unwrap_or_default();
        let is_lane = matches!(data.op, Op::Extract(_)) && crate::control::words(&base).count() == 1;
        let is_sign = matches!(data.op, Op::Neg | Op::Not) && text.size <= 1 || is_lane;
        let stays = self.order.is_used_in_inner_loop(v);
        let read = matches!(data.op, Op::Index | Op::Extract(_)) && text.size == 0;
        let unnamed = self.src.values[v].name.is_none() || read;
        let part = self.uses[v] == 1 && !stays && unnamed && may_move;
        if matches!(data.op, Op::Index | Op::Load)
            && let Some(bounds) = self.bounds.get(&data.args[0])
        {
            // The innermost loops are those of the part.
            let n_levels = open_bounds(&self.module.types, self.src.ty(v), 0).len();
            let inner = bounds[bounds.len().saturating_sub(n_levels)..].to_vec();
            self.bounds.insert(v, inner);
        }
        let moved = matches!(data.op, Op::Index | Op::Extract(_)) && self.is_array(v);
        let lanes = self.summed.contains(v) && !matches!(data.op, Op::Mul);
        if !constant && !moved && !self.is_array(v) && self.assign_home(data, &text, place)? {
            return Ok(());
        }
        if constant || moved || is_sign || part && text.size <= MAX_SIZE && !lanes {
            if matches!(data.op, Op::Mul) {
                self.products.insert(v, (self.text(data.args[0]), self.text(data.args[1])));
            }
            self.texts.insert(v, text);
            return Ok(());
        }
        let like = self.like(data);
        self.define(v, &like, strip(&text.text))
    }

    /// Assigns an expression to the variable that it is computed for.
    fn assign_home(&mut self, data: &InstData, text: &Text, place: &mut Place) -> Res<bool> {
        let v = data.results[0];
        let Some((k, name)) = self.free_home(v, place, self.order.after_value(v)) else { return Ok(false) };
        let has_name = self.src.values[v].name.is_some() && place.is_kept(k);
        if self.uses[v] > 1 && (has_name || place.may_be_full(k)) {
            self.define(v, "t", strip(&text.text))?;
            let own = self.text(v).text;
            self.line(&format!("{name} = {own};"));
        } else {
            self.assign(&name, strip(&text.text), v)?;
            self.texts.insert(v, Text::atom(name));
        }
        place.mark_done(k);
        Ok(true)
    }

    /// The name of a value that has none in the source, after what computes it.
    fn like(&self, data: &InstData) -> String {
        let of = |text: &str| match text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            true if !text.is_empty() => format!("_{text}"),
            _ => String::new(),
        };
        let operand = data.args.first().map(|&v| self.text(v).text).unwrap_or_default();
        match &data.op {
            Op::Math(math) if data.args.len() == 1 && !of(&operand).is_empty() => {
                format!("{}{}", crate::expression::function(*math), of(&operand))
            }
            _ => "t".into(),
        }
    }

    /// Writes a copy of a value, unless its variable may change, and the assignment of a part of it.
    fn insert(&mut self, data: &InstData, like: &str, part: &str, place: &mut Place) -> Res {
        let v = data.results[0];
        let init = self.text(data.args[0]).text;
        let value = self.text(data.args[1]).text;
        if let Some((k, name)) = self.free_home(v, place, self.order.after_value(v))
            && name == init
        {
            self.line(&format!("{name}{part} = {value};"));
            self.texts.insert(v, Text::atom(name));
            place.mark_done(k);
            return Ok(());
        }
        let name = self.declare(v, like, Some(&init))?;
        self.line(&format!("{name}{part} = {value};"));
        Ok(())
    }

    /// Writes an array, which needs a variable.
    fn array(&mut self, data: &InstData, place: &mut Place) -> Res {
        let v = data.results[0];
        if let TypeData::Stack(_) = self.module.types[self.src.ty(v)] {
            // The empty stack needs no text: the values that it is joined with have the bounds.
            return Ok(());
        }
        match &data.op {
            Op::Construct => {
                let parts: Vec<String> = data.args.iter().map(|&a| self.text(a).text).collect();
                self.define(v, "a", &format!("{{ {} }}", parts.join(", ")))
            }
            Op::Zero if self.order.only_initialises(v) => {
                self.texts.insert(v, Text::atom("{}"));
                Ok(())
            }
            Op::Zero => self.define(v, "zero", "{}"),
            Op::Splat => {
                let element = self.text(data.args[0]).text;
                let name = self.declare(v, "a", None)?;
                let TypeData::Array(_, n) = self.module.types[self.src.ty(v)] else {
                    return Err(unsupported(&data.op, data.span));
                };
                let i = self.names.fresh("i");
                self.line(&format!("for (int {i} = 0; {i} < {n}; {i}++) {name}[{i}] = {element};"));
                Ok(())
            }
            Op::Insert(k) => self.insert(data, "a", &format!("[{k}]"), place),
            _ => {
                let [c, a, b] = [0, 1, 2].map(|k| self.text(data.args[k]).text);
                let name = self.declare(v, "a", Some(&b))?;
                self.line(&format!("if ({c}) {name} = {a};"));
                Ok(())
            }
        }
    }

    /// `place += text`, element by element.
    fn add(&mut self, place: &str, text: &str, ty: Type, data: &InstData) -> Res {
        match self.module.types[ty] {
            TypeData::Scalar(_) | TypeData::Vector(..) => {
                self.line(&format!("{place} += {text};"));
                Ok(())
            }
            TypeData::Array(element, n) => {
                let i = self.names.fresh("i");
                self.open(&format!("for (int {i} = 0; {i} < {n}; {i}++)"));
                self.add(&format!("{place}[{i}]"), &format!("{text}[{i}]"), element, data)?;
                self.close("");
                Ok(())
            }
            _ => Err(unsupported(&data.op, data.span)),
        }
    }

    fn call(&mut self, data: &InstData, callee: Func) -> Res {
        // Parameters are buffers that can be written.
        if data.args.iter().any(|&v| self.fixed.contains(v) || self.singles.contains(v)) {
            return Err(refused(data.span, "a call that is handed memory which it cannot write"));
        }
        for (k, &v) in data.args.iter().enumerate() {
            let bounds = self.bounds.get(&v).filter(|b| !b.is_empty());
            if self.module.types.has_stack(self.src.ty(v))
                && !bounds.is_some_and(|bounds| self.stacks.pass(callee, k, bounds))
            {
                return Err(refused(
                    data.span,
                    "values of loops of different lengths that one function reads",
                ));
            }
        }
        let mut args: Vec<String> = data.args.iter().map(|&v| self.text(v).text).collect();
        let name = self.functions[&callee].clone();
        if returns_value(self.module, &self.module.funcs[callee]) {
            let call = format!("{name}({})", args.join(", "));
            return self.define(data.results[0], "t", &call);
        }
        for (k, &v) in data.results.iter().enumerate() {
            if let Some(bounds) = self.stacks.results.get(&(callee, k)).cloned() {
                self.bounds.insert(v, bounds);
            }
            args.push(self.declare(v, "t", None)?);
        }
        self.line(&format!("{name}({});", args.join(", ")));
        Ok(())
    }

    pub(crate) fn scalar_of(&self, v: Value) -> ir::Scalar {
        self.module.types.scalar_of(self.src.ty(v)).unwrap_or(ir::Scalar::I32)
    }
}
