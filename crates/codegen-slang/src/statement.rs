//! Writes functions and their statements.

use std::fmt::Write;

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::printf::{self, Replacement};
use ir::{Func, Function, Inst, InstData, Module, Op, Region, Span, Type, TypeData, Value};
use rustc_hash::FxHashMap;

use crate::expression::{Text, lane};
use crate::memory::Memory;
use crate::names::Names;
use crate::types::{Bounds, StackBounds, declarator};
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
const MAX_SIZE: u32 = 6;

type Res<T = ()> = Result<T, Unsupported>;

/// Writes one function.
pub(crate) struct Writer<'a> {
    pub(crate) module: &'a Module,
    pub(crate) src: &'a Function,
    functions: &'a FxHashMap<Func, String>,
    memory: &'a Memory,
    stacks: &'a mut StackBounds,
    out: String,
    /// The source location of what is being written.
    at: Span,
    indent: usize,
    names: Names,
    texts: FxHashMap<Value, Text>,
    /// The factors of products that are part of a larger expression.
    pub(crate) products: FxHashMap<Value, (Text, Text)>,
    bounds: FxHashMap<Value, Bounds>,
    uses: SecondaryMap<Value, u32>,
    /// True for values that are used by an instruction without regions, or yielded, in the region that
    /// defines them.
    local: SecondaryMap<Value, bool>,
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
    let src = &module.funcs[func];
    let mut w = Writer {
        module,
        src,
        functions,
        memory,
        stacks,
        out: String::new(),
        at: src.span,
        indent: 1,
        names: Names::default(),
        texts: FxHashMap::default(),
        products: FxHashMap::default(),
        bounds: FxHashMap::default(),
        uses: ir::walk::use_counts(src),
        local: SecondaryMap::new(),
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
    w.mark_local(src.body());
    let body = &src.regions[src.body()];
    let mut params = Vec::new();
    for (k, (&v, slot)) in body.params.iter().zip(&src.params).enumerate() {
        let like = given.params.get(k).cloned().unwrap_or_else(|| slot_name(slot, "p", k));
        let name = w.names.fresh(&like);
        w.texts.insert(v, Text::atom(name.clone()));
        if module.types.has_stack(slot.ty) {
            let source = given.sources.get(k).copied().flatten();
            let bounds = source.and_then(|s| w.stacks.results.get(&s).cloned());
            w.bounds.insert(v, bounds.unwrap_or_default());
        }
        params.push(match module.types[slot.ty] {
            TypeData::Buffer(_) => memory.parameter(module, slot.ty, &name, src.span)?,
            _ => w.declaration(slot.ty, &name, v)?,
        });
    }
    let single = returns_value(module, src);
    let mut outs = Vec::new();
    if !single {
        for (k, slot) in src.results.iter().enumerate() {
            let given = given.results.get(k).cloned().unwrap_or_else(|| slot_name(slot, "result", k));
            outs.push(w.names.fresh(&given));
        }
    }
    w.region(src.body())?;
    let results = body.results.clone();
    if single {
        let text = w.text(results[0]).text;
        w.line(&format!("return {text};"));
    }
    let mut declared = Vec::new();
    if !single {
        for (k, (&v, name)) in results.iter().zip(&outs).enumerate() {
            let text = w.text(v).text;
            w.line(&format!("{name} = {text};"));
            if let Some(bounds) = w.bounds.get(&v) {
                w.stacks.results.insert((func, k), bounds.clone());
            }
            declared.push(format!("out {}", w.declaration(src.results[k].ty, name, v)?));
        }
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

    /// Names a value as in the source, or otherwise like `like`.
    fn name(&mut self, v: Value, like: &str) -> String {
        let like = self.src.values[v].name.as_deref().unwrap_or(like);
        let name = self.names.fresh(like);
        self.texts.insert(v, Text::atom(name.clone()));
        name
    }

    pub(crate) fn text(&self, v: Value) -> Text {
        self.texts.get(&v).cloned().unwrap_or_else(|| Text::atom("{}"))
    }

    fn declaration(&self, ty: Type, name: &str, of: Value) -> Res<String> {
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

    fn mark_local(&mut self, region: Region) {
        let src = self.src;
        let mut here: Vec<Value> = Vec::new();
        for &inst in &src.regions[region].insts {
            let data = &src.insts[inst];
            for &v in &data.args {
                if here.contains(&v) && data.regions.is_empty() {
                    self.local[v] = true;
                }
            }
            for &nested in &data.regions {
                self.mark_local(nested);
            }
            if data.regions.is_empty() {
                here.extend(&data.results);
            }
        }
        for v in &src.regions[region].results {
            if here.contains(v) {
                self.local[*v] = true;
            }
        }
    }

    fn region(&mut self, region: Region) -> Res {
        let src = self.src;
        for &inst in &src.regions[region].insts {
            self.inst(inst)?;
        }
        Ok(())
    }

    fn is_array(&self, v: Value) -> bool {
        matches!(self.module.types[self.src.ty(v)], TypeData::Array(..) | TypeData::Stack(_))
    }

    fn inst(&mut self, inst: Inst) -> Res {
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
        match &data.op {
            Op::If => self.branch(inst),
            Op::Switch(cases) => self.switch(inst, cases),
            Op::For(_) | Op::Loop(_) => self.repeat(inst),
            Op::Call(callee) => self.call(data, *callee),
            Op::Local => {
                let init = self.text(data.args[0]).text;
                self.share_bounds(data.args[0], data.results[0]);
                self.define(data.results[0], "cell", &init)
            }
            Op::Store => {
                let (value, path) = data.args.split_last().expect("a store has operands");
                let line = format!("{} = {};", self.place(path), self.text(*value).text);
                self.line(&line);
                Ok(())
            }
            Op::AddTo => {
                let (value, path) = data.args.split_last().expect("an addition has operands");
                let (place, text) = (self.place(path), self.text(*value).text);
                self.add(&place, &text, self.src.ty(*value), data)
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
            Op::BufferLoad(path) => self.buffer_load(data, path),
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
                self.array(data)
            }
            Op::Insert(k) => self.insert(data, "v", &format!(".{}", lane(*k))),
            other if data.results.is_empty() => Err(unsupported(other, data.span)),
            _ => self.value(data),
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
    fn share_bounds(&mut self, from: Value, to: Value) {
        if let Some(bounds) = self.bounds.get(&from).cloned() {
            self.bounds.insert(to, bounds);
        }
    }

    /// The bits of a constant or zero.
    fn constant(&self, v: Value) -> Option<u64> {
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

    /// Writes an instruction that is an expression, as a part of another expression or as a variable.
    fn value(&mut self, data: &InstData) -> Res {
        let text = self.expression(data)?;
        let moves = matches!(data.op, Op::Load);
        self.variable_or_part(data, text, !moves)
    }

    /// Inlines an expression into its only use if it may move there; otherwise assigns it to a variable.
    pub(crate) fn variable_or_part(&mut self, data: &InstData, text: Text, may_move: bool) -> Res {
        let v = data.results[0];
        let constant = matches!(data.op, Op::Const(_) | Op::Zero);
        let part = self.uses[v] == 1 && self.local[v] && self.src.values[v].name.is_none() && may_move;
        if matches!(data.op, Op::Index)
            && let Some(bounds) = self.bounds.get(&data.args[0])
        {
            let inner = bounds.get(1..).map(<[u32]>::to_vec).unwrap_or_default();
            self.bounds.insert(v, inner);
        }
        let moved = matches!(data.op, Op::Index | Op::Extract(_)) && self.is_array(v);
        if matches!(data.op, Op::Mul) && part {
            self.products.insert(v, (self.text(data.args[0]), self.text(data.args[1])));
        }
        let lanes = self.summed.contains(v) && !matches!(data.op, Op::Mul);
        if constant || moved || part && text.size <= MAX_SIZE && !lanes {
            self.texts.insert(v, text);
            return Ok(());
        }
        self.define(v, "t", &text.text)
    }

    /// Writes a copy of a value, and the assignment of a part of it.
    fn insert(&mut self, data: &InstData, like: &str, part: &str) -> Res {
        let init = self.text(data.args[0]).text;
        let name = self.declare(data.results[0], like, Some(&init))?;
        let value = self.text(data.args[1]).text;
        self.line(&format!("{name}{part} = {value};"));
        Ok(())
    }

    /// Writes an array, which needs a variable.
    fn array(&mut self, data: &InstData) -> Res {
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
            Op::Insert(k) => self.insert(data, "a", &format!("[{k}]")),
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

    fn arm(&mut self, region: Region, data: &InstData, names: &[String]) -> Res {
        self.region(region)?;
        let yielded = self.src.regions[region].results.clone();
        for ((&v, name), &result) in yielded.iter().zip(names).zip(&data.results) {
            if self.uses[result] > 0 && self.texts.contains_key(&v) {
                let text = self.text(v).text;
                self.line(&format!("{name} = {text};"));
            }
        }
        Ok(())
    }

    /// Writes the arms into a buffer first, then the variables that they assign, whose bounds are known only
    /// after the arms have been written.
    fn arms(&mut self, data: &InstData, heads: &[String], tail: &str) -> Res {
        let names: Vec<String> = data
            .results
            .iter()
            .map(|&v| {
                let like = self.src.values[v].name.clone();
                let name = self.names.fresh(like.as_deref().unwrap_or("t"));
                self.texts.insert(v, Text::atom(name.clone()));
                name
            })
            .collect();
        let before = std::mem::take(&mut self.out);
        for (head, &region) in heads.iter().zip(&data.regions) {
            self.open(head);
            self.arm(region, data, &names)?;
            self.close(tail);
            for (&v, &result) in self.src.regions[region].results.iter().zip(&data.results) {
                if self.bounds.get(&v).is_some_and(|bounds| !bounds.is_empty()) {
                    self.share_bounds(v, result);
                }
            }
        }
        let arms = std::mem::replace(&mut self.out, before);
        for (&v, name) in data.results.iter().zip(&names) {
            if self.uses[v] > 0 {
                let declaration = self.declaration(self.src.ty(v), name, v)?;
                let init = if self.is_array(v) { " = {}" } else { "" };
                self.line(&format!("{declaration}{init};"));
            }
        }
        self.out += &arms;
        Ok(())
    }

    fn branch(&mut self, inst: Inst) -> Res {
        let data = &self.src.insts[inst];
        let condition = self.text(data.args[0]).text;
        let otherwise = data.regions[1];
        let empty = self.src.regions[otherwise].insts.is_empty() && data.results.is_empty();
        let heads = [format!("if ({condition})"), "else".to_string()];
        self.arms(data, if empty { &heads[..1] } else { &heads }, "")
    }

    fn switch(&mut self, inst: Inst, cases: &[i64]) -> Res {
        let data = &self.src.insts[inst];
        let tag = self.text(data.args[0]).text;
        let mut heads: Vec<String> = cases.iter().map(|c| format!("case {c}:")).collect();
        heads.push("default:".into());
        let at = self.out.len();
        self.indent += 1;
        self.arms(data, &heads, " break;")?;
        self.indent -= 1;
        // The variables must precede the `switch`.
        let made = self.out.split_off(at);
        let from = made
            .find("case ")
            .or_else(|| made.find("default:"))
            .map_or(0, |p| made[..p].rfind('\n').map_or(0, |n| n + 1));
        let (variables, arms) = made.split_at(from);
        for line in variables.lines() {
            self.line(line.trim_start());
        }
        self.line(&format!("switch ({tag})"));
        self.line("{");
        self.out += arms;
        self.line("}");
        Ok(())
    }

    /// An upper bound of a loop's trip count, if known.
    fn bound(&self, data: &InstData) -> Option<u32> {
        let info = match data.op {
            Op::For(info) | Op::Loop(info) => info,
            _ => return None,
        };
        if let Op::For(_) = data.op
            && let Ok(n) = self.text(data.args[0]).text.trim_end_matches(['u', 'l']).parse()
        {
            return Some(n);
        }
        info.max_iters
    }

    fn repeat(&mut self, inst: Inst) -> Res {
        let data = &self.src.insts[inst];
        let counted = matches!(data.op, Op::For(_));
        let is_down = matches!(data.op, Op::For(info) if info.down);
        let lead = usize::from(counted);
        let body = data.regions[0];
        let inner = &self.src.regions[body];
        let bound = self.bound(data);
        let n_carried = data.args.len() - lead;

        // Each carried value is a single variable, which also holds the result after the loop.
        let mut variables = Vec::new();
        for k in 0..n_carried {
            let (param, result) = (inner.params[lead + k], data.results[k]);
            let init = self.text(data.args[lead + k]).text;
            self.share_bounds(data.args[lead + k], param);
            self.share_bounds(data.args[lead + k], result);
            let like = self.src.values[result].name.as_deref().unwrap_or("acc").to_string();
            let name = self.declare(param, &like, Some(&init))?;
            self.texts.insert(result, Text::atom(name.clone()));
            variables.push(name);
        }
        let at = self.out.len();
        let index = if counted { self.name(inner.params[0], "i") } else { self.names.fresh("trip") };
        self.indent += 1;
        self.region(body)?;
        let again = (!counted).then(|| self.names.fresh("again"));
        if let Some(again) = &again {
            let text = self.text(inner.results[0]).text;
            self.line(&format!("{again} = {text};"));
        }
        let yielded = &inner.results[1 - lead..];
        let mut stacks = Vec::new();
        for (&v, &stack) in yielded[n_carried..].iter().zip(&data.results[n_carried..]) {
            if self.uses[stack] == 0 {
                continue;
            }
            let mut bounds: Bounds = bound.into_iter().collect();
            bounds.extend(self.bounds.get(&v).into_iter().flatten());
            self.bounds.insert(stack, if bound.is_some() { bounds } else { Bounds::new() });
            let name = self.name(stack, "kept");
            let text = self.text(v).text;
            let at =
                if is_down { format!("{} - {index}", self.last_of(data.args[0])) } else { index.clone() };
            self.line(&format!("{name}[{at}] = {text};"));
            stacks.push((stack, name));
        }
        let mut next: Vec<(String, String)> = yielded[..n_carried]
            .iter()
            .zip(&variables)
            .map(|(&v, name)| (name.clone(), self.text(v).text))
            .filter(|(name, text)| name != text)
            .collect();
        let clash = next
            .iter()
            .enumerate()
            .any(|(k, _)| next.iter().skip(k + 1).any(|(_, text)| words(text).any(|w| w == next[k].0)));
        if clash {
            for (name, text) in &mut next {
                let at = variables.iter().position(|n| n == name).expect("it is one of them");
                let v = inner.params[lead + at];
                let temporary = self.names.fresh(&format!("next_{name}"));
                let declaration = self.declaration(self.src.ty(v), &temporary, v)?;
                self.line(&format!("{declaration} = {text};"));
                *text = temporary;
            }
        }
        for (name, text) in &next {
            self.line(&format!("{name} = {text};"));
        }
        if !counted && !stacks.is_empty() {
            self.line(&format!("{index}++;"));
        }
        self.indent -= 1;
        let body_text = self.out.split_off(at);
        self.at = data.span;
        for (stack, name) in &stacks {
            let declaration = self.declaration(self.src.ty(*stack), name, *stack)?;
            self.line(&format!("{declaration} = {{}};"));
        }
        match again {
            None => {
                let count = self.text(data.args[0]).text;
                let last = self.last_of(data.args[0]);
                let (ty, _) = declarator(&self.module.types, self.src.ty(data.args[0]), &[], data.span)?;
                let is_constant = count.starts_with(|c: char| c.is_ascii_digit());
                self.limit(bound.filter(|_| !is_constant));
                let scalar = self.scalar_of(data.args[0]);
                let zero = crate::types::literal(scalar, 0);
                if is_down && scalar.is_signed_int() {
                    self.line(&format!("for ({ty} {index} = {last}; {index} >= {zero}; {index}--)"));
                    self.line("{");
                } else if is_down {
                    // An unsigned number is never below zero, so a separate counter counts up.
                    let trip = self.names.fresh("trip");
                    self.line(&format!("for ({ty} {trip} = {zero}; {trip} < {count}; {trip}++)"));
                    self.line("{");
                    self.line(&format!("    {ty} {index} = {last} - {trip};"));
                } else {
                    self.line(&format!("for ({ty} {index} = {zero}; {index} < {count}; {index}++)"));
                    self.line("{");
                }
                self.out += &body_text;
                self.line("}");
            }
            Some(again) => {
                if !stacks.is_empty() {
                    self.line(&format!("uint {index} = 0u;"));
                }
                self.line(&format!("bool {again};"));
                self.limit(bound);
                self.line("do");
                self.line("{");
                self.out += &body_text;
                self.line(&format!("}} while ({again});"));
            }
        }
        Ok(())
    }

    fn scalar_of(&self, v: Value) -> ir::Scalar {
        self.module.types.scalar_of(self.src.ty(v)).unwrap_or(ir::Scalar::I32)
    }

    /// `n - 1`.
    fn last_of(&self, n: Value) -> String {
        let text = self.text(n).text;
        let scalar = self.scalar_of(n);
        let number = text.trim_end_matches(['u', 'l']).parse::<u64>();
        match number {
            Ok(n) => crate::types::literal(scalar, n.wrapping_sub(1)),
            Err(_) if words(&text).count() == 1 && !text.contains(' ') => {
                format!("{text} - {}", crate::types::literal(scalar, 1))
            }
            Err(_) => format!("({text}) - {}", crate::types::literal(scalar, 1)),
        }
    }

    fn limit(&mut self, bound: Option<u32>) {
        if let Some(n) = bound {
            self.line(&format!("[MaxIters({n})]"));
        }
    }
}

/// The identifiers and keywords in a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}
