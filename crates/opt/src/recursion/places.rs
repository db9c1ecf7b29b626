//! Turns the handles that differ between the calls of a group into numbers.
//!
//! `f(p, q) { … f(c ? p + k : q, q) … }`
//! ↦ `f(p, which, offset, q) { at = (which == 1 ? q : p) + offset; … f(p, c ? 0 : 1, c ? offset + k : 0, q) … }`
//!
//! Devices have no handles in memory, where a loop keeps what differs between calls. But nearly every handle of
//! a group is one of few [`Origin`]s, which all calls can pass on, with an offset in elements. So a parameter is
//! replaced by the number of its origin, if there are several, and by its offset, if it has one; and likewise
//! the results of arms and what loops carry. The handle is made of these numbers again where it was defined.
//!
//! This is right because a handle is its memory and an offset: offsets add up, wrapping, also beyond the ends of
//! the memory, and each step from an origin to a handle (an offset, a selection, a way of control) is made in
//! the same order on the numbers. Where a handle comes from anything else, such as a cast or memory, the group
//! is refused if a call passes it on.

use std::collections::BTreeSet;

use ir::analysis::flow::for_each_copy;
use ir::analysis::points_to::has_handle;
use ir::{
    Defs, Func, Function, Global, Inst, Module, Op, Region, Scalar, Slot, Type, TypeData, Types, Value,
    ValueData,
};
use rustc_hash::FxHashMap;

/// The functions of a group whose calls pass on no handles but the origins.
pub(super) struct Apart {
    pub(super) functions: Vec<Function>,
    /// For each parameter that holds handles, the parameter of the first function that it always is.
    pub(super) origins: FxHashMap<(Func, Value), Value>,
    /// The values of the numbers that the first function takes behind its own parameters, in a call from
    /// outside.
    pub(super) starts: Vec<(Scalar, u64)>,
}

/// A handle that all calls of a group can pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// The parameter of the first function with this index.
    Param(usize),
    Global(Global),
    /// The null handle.
    Null,
}

/// The origins of a value that holds handles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    origins: BTreeSet<Origin>,
    /// The value may have an offset.
    moved: bool,
    /// The value may come from anything else.
    other: bool,
}

impl Known {
    fn of(origin: Origin) -> Known {
        Known { origins: BTreeSet::from([origin]), ..Known::default() }
    }

    /// Returns true if the value is always the same origin.
    fn is_fixed(&self) -> bool {
        !self.other && !self.moved && self.origins.len() == 1
    }

    fn join(&mut self, other: &Known) -> bool {
        let old = self.clone();
        self.origins.extend(&other.origins);
        self.moved |= other.moved;
        self.other |= other.other;
        *self != old
    }

    fn has_which(&self) -> bool {
        self.origins.len() > 1
    }
}

/// The numbers that a handle is made of; none that is the same in all calls.
#[derive(Clone, Copy)]
struct Numbers {
    which: Option<Value>,
    offset: Option<Value>,
}

/// The functions of a group with numbers for the handles that differ between calls; `None` if the handles of a
/// call come from elsewhere. Offsets are of type `offset`.
pub(super) fn apart(module: &Module, types: &Types, group: &[Func], offset: Scalar) -> Option<Apart> {
    let places = Places::of(module, types, group);
    for (g, &func) in group.iter().enumerate() {
        let f = &module.funcs[func];
        let holds_handles = |v: &&Value| has_handle(types, f.ty(**v));
        for &v in f.regions[f.body()].params.iter().filter(holds_handles) {
            let is_buffer = matches!(types[f.ty(v)], TypeData::Buffer(_));
            let known = places.known(g, v);
            if known.other || known.origins.is_empty() || !is_buffer && !known.is_fixed() {
                return None;
            }
        }
    }
    let mut apart = Apart { functions: Vec::new(), origins: FxHashMap::default(), starts: Vec::new() };
    let root = places.params(0);
    for (k, &v) in root.iter().enumerate().filter(|(_, v)| places.holds_handles(0, **v)) {
        let known = places.known(0, v);
        if known.has_which() {
            apart.starts.push((Scalar::U32, places.number(Origin::Param(k)).into()));
        }
        if known.moved {
            apart.starts.push((offset, 0));
        }
    }
    let mut first: Vec<(usize, Value)> = Vec::new();
    for (g, &func) in group.iter().enumerate() {
        let made = Maker::run(&places, g, offset);
        if g == 0 {
            first.clone_from(&made.origins);
        }
        for (&(_, own), &(_, root)) in made.origins.iter().zip(&first) {
            apart.origins.insert((func, own), root);
        }
        apart.functions.push(made.f);
    }
    Some(apart)
}

/// The origins of the handles of a group.
struct Places<'a> {
    module: &'a Module,
    types: &'a Types,
    group: &'a [Func],
    known: FxHashMap<(usize, Value), Known>,
    /// All origins; their positions are their numbers.
    origins: Vec<Origin>,
}

impl<'a> Places<'a> {
    fn of(module: &'a Module, types: &'a Types, group: &'a [Func]) -> Places<'a> {
        let mut all = Places { module, types, group, known: FxHashMap::default(), origins: Vec::new() };
        for (k, &v) in all.params(0).iter().enumerate() {
            if all.holds_handles(0, v) {
                all.known.insert((0, v), Known::of(Origin::Param(k)));
            }
        }
        while all.propagate() {}
        let origins: BTreeSet<Origin> =
            all.known.values().flat_map(|known| &known.origins).copied().collect();
        all.origins = origins.into_iter().collect();
        all
    }

    fn function(&self, g: usize) -> &'a Function {
        &self.module.funcs[self.group[g]]
    }

    fn params(&self, g: usize) -> &'a [Value] {
        let f = self.function(g);
        &f.regions[f.body()].params
    }

    fn holds_handles(&self, g: usize, v: Value) -> bool {
        has_handle(self.types, self.function(g).ty(v))
    }

    fn known(&self, g: usize, v: Value) -> Known {
        self.known.get(&(g, v)).cloned().unwrap_or_default()
    }

    /// Returns true if a handle is made of numbers, or is an origin.
    fn is_placed(&self, g: usize, v: Value) -> bool {
        let is_buffer = matches!(self.types[self.function(g).ty(v)], TypeData::Buffer(_));
        is_buffer && self.known.get(&(g, v)).is_some_and(|known| !known.other && !known.origins.is_empty())
    }

    fn number(&self, origin: Origin) -> u32 {
        self.origins.iter().position(|&other| other == origin).expect("an origin of the group") as u32
    }

    /// The index in the group of the function that an instruction calls.
    fn callee(&self, op: &Op) -> Option<usize> {
        let Op::Call(callee) = op else { return None };
        self.group.iter().position(|g| g == callee)
    }

    /// Carries the origins on by one step; returns true if something is new.
    fn propagate(&mut self) -> bool {
        let mut changed = false;
        for g in 0..self.group.len() {
            let f = self.function(g);
            f.walk(f.body(), &mut |inst| changed |= self.step(g, inst));
        }
        changed
    }

    fn join(&mut self, to: (usize, Value), from: &Known) -> bool {
        self.known.entry(to).or_default().join(from)
    }

    fn step(&mut self, g: usize, inst: Inst) -> bool {
        let f = self.function(g);
        let data = &f.insts[inst];
        let other = Known { other: true, ..Known::default() };
        if let Some(to) = self.callee(&data.op) {
            let mut changed = false;
            for (&param, &arg) in self.params(to).iter().zip(&data.args) {
                if self.holds_handles(to, param) {
                    let from = self.known(g, arg);
                    changed |= self.join((to, param), &from);
                }
            }
            return changed;
        }
        if !data.regions.is_empty() {
            let mut copies = Vec::new();
            for_each_copy(f, inst, &mut |from, to| copies.push((from, to)));
            let mut changed = false;
            for (from, to) in copies {
                if self.holds_handles(g, to) {
                    // A stack is not what it is a stack of.
                    let from = if f.ty(from) == f.ty(to) { self.known(g, from) } else { other.clone() };
                    changed |= self.join((g, to), &from);
                }
            }
            return changed;
        }
        let from = match &data.op {
            Op::GlobalRef(global) => Known::of(Origin::Global(*global)),
            Op::Zero => Known::of(Origin::Null),
            Op::BufferOffset => Known { moved: true, ..self.known(g, data.args[0]) },
            Op::Detach => self.known(g, data.args[0]),
            Op::Select => {
                let mut both = self.known(g, data.args[1]);
                both.join(&self.known(g, data.args[2]));
                both
            }
            _ => other,
        };
        let mut changed = false;
        for &result in &data.results {
            if self.holds_handles(g, result) {
                changed |= self.join((g, result), &from);
            }
        }
        changed
    }
}

/// Makes one of the functions.
struct Maker<'a> {
    places: &'a Places<'a>,
    g: usize,
    offset: Scalar,
    f: Function,
    defs: Defs,
    /// The function's own parameters for the first function's ones that hold handles, by their indices there.
    origins: Vec<(usize, Value)>,
    numbers: FxHashMap<Value, Numbers>,
    /// The handles that take the places of others.
    renames: FxHashMap<Value, Value>,
}

/// The numbers that were made at a place, by the handle that they are for.
type Made = FxHashMap<Value, Value>;

impl<'a> Maker<'a> {
    fn run(places: &'a Places<'a>, g: usize, offset: Scalar) -> Maker<'a> {
        let f = places.function(g).clone();
        let defs = Defs::of(&f);
        let mut maker = Maker {
            places,
            g,
            offset,
            f,
            defs,
            origins: Vec::new(),
            numbers: FxHashMap::default(),
            renames: FxHashMap::default(),
        };
        let body = maker.f.body();
        let mut start = maker.params();
        maker.region(body);
        start.append(&mut maker.f.regions[body].insts);
        maker.f.regions[body].insts = start;
        maker.rename();
        maker
    }

    /// Makes the parameters; returns the instructions that make handles of them.
    fn params(&mut self) -> Vec<Inst> {
        let (places, g, body) = (self.places, self.g, self.f.body());
        let old: Vec<(Slot, Value)> = self.f.params.iter().cloned().zip(places.params(g).to_vec()).collect();
        let handles: Vec<Value> =
            old.iter().map(|(_, v)| *v).filter(|&v| places.holds_handles(g, v)).collect();
        let mut new: Vec<(Slot, Value)> = Vec::new();
        for (k, (slot, v)) in old.into_iter().enumerate() {
            if !handles.contains(&v) {
                new.push((slot, v));
            } else if g == 0 {
                let own = self.f.value_like(v);
                self.origins.push((k, own));
                new.push((slot, own));
            }
        }
        for &v in &handles {
            for number in self.variables(v) {
                let slot = Slot { ty: self.f.ty(number), diff: false, linear: false, name: None };
                new.push((slot, number));
            }
        }
        if g > 0 {
            let (root, first) = (places.function(0), places.params(0));
            for (k, &v) in first.iter().enumerate().filter(|(_, v)| places.holds_handles(0, **v)) {
                let own = self.f.values.push(root.values[v].clone());
                self.origins.push((k, own));
                new.push((root.params[k].clone(), own));
            }
        }
        (self.f.params, self.f.regions[body].params) = new.into_iter().unzip();
        let mut start = Vec::new();
        handles.into_iter().for_each(|v| self.materialise(v, &mut start));
        start
    }

    /// Makes values for the numbers of a handle, and returns them.
    fn variables(&mut self, v: Value) -> Vec<Value> {
        let known = self.places.known(self.g, v);
        let which = known.has_which().then(|| self.f.values.push(ValueData::new(Type::U32)));
        let offset = known.moved.then(|| self.f.values.push(ValueData::new(self.offset.into())));
        self.numbers.insert(v, Numbers { which, offset });
        which.into_iter().chain(offset).collect()
    }

    /// Appends an instruction with a result.
    fn emit(&mut self, op: Op, args: &[Value], ty: Type, out: &mut Vec<Inst>) -> Value {
        let (inst, v) = self.f.make_value(op, args, ValueData::new(ty), self.f.span);
        out.push(inst);
        v
    }

    /// Appends what makes a handle of its numbers.
    fn materialise(&mut self, v: Value, out: &mut Vec<Inst>) {
        let (known, numbers, ty) = (self.places.known(self.g, v), self.numbers[&v], self.f.ty(v));
        let mut made: Option<Value> = None;
        for origin in known.origins {
            let own = match origin {
                Origin::Param(k) => {
                    let own = self.origins.iter().find(|own| own.0 == k);
                    own.expect("an origin is passed on").1
                }
                Origin::Global(global) => self.emit(Op::GlobalRef(global), &[], ty, out),
                Origin::Null => self.emit(Op::Zero, &[], ty, out),
            };
            made = Some(match (made, numbers.which) {
                (Some(before), Some(which)) => {
                    let number = self.places.number(origin);
                    let number = self.emit(Op::Const(number.into()), &[], Type::U32, out);
                    let is_own = self.emit(Op::Eq, &[which, number], Type::BOOL, out);
                    self.emit(Op::Select, &[is_own, own, before], ty, out)
                }
                _ => own,
            });
        }
        let mut made = made.expect("a handle has an origin");
        if let Some(offset) = numbers.offset {
            let wide = match self.offset {
                Scalar::I64 => offset,
                _ => self.emit(Op::Convert, &[offset], Type::I64, out),
            };
            made = self.emit(Op::BufferOffset, &[made, wide], ty, out);
        }
        if let Some(name) = self.f.values[v].name.clone() {
            self.f.values[made].name.get_or_insert(name);
        }
        self.renames.insert(v, made);
    }

    /// Appends what computes the numbers of a handle, as many as `shape` has.
    fn numbers_of(&mut self, v: Value, shape: &Known, out: &mut Vec<Inst>) -> Vec<Value> {
        let mut all = Vec::new();
        if shape.has_which() {
            all.push(self.which(v, &mut Made::default(), out));
        }
        if shape.moved {
            all.push(self.offset_of(v, &mut Made::default(), out));
        }
        all
    }

    fn which(&mut self, v: Value, made: &mut Made, out: &mut Vec<Inst>) -> Value {
        if let Some(&known) = made.get(&v) {
            return known;
        }
        let known = self.places.known(self.g, v);
        let number = match (self.numbers.get(&v).and_then(|numbers| numbers.which), known.origins.first()) {
            (Some(which), _) => which,
            (None, Some(&only)) if !known.has_which() => {
                let number = self.places.number(only);
                self.emit(Op::Const(number.into()), &[], Type::U32, out)
            }
            _ => self.step(v, Type::U32, &mut |maker, v, out| maker.which(v, made, out), out),
        };
        made.insert(v, number);
        number
    }

    fn offset_of(&mut self, v: Value, made: &mut Made, out: &mut Vec<Inst>) -> Value {
        if let Some(&known) = made.get(&v) {
            return known;
        }
        let ty = self.offset.into();
        let number = match self.numbers.get(&v).and_then(|numbers| numbers.offset) {
            Some(offset) => offset,
            None if !self.places.known(self.g, v).moved => self.emit(Op::Const(0), &[], ty, out),
            None => {
                let number = self.step(v, ty, &mut |maker, v, out| maker.offset_of(v, made, out), out);
                let data = &self.f.insts[self.defs.inst(v).expect("an instruction moves the handle")];
                match data.op {
                    Op::BufferOffset => {
                        let by = self.narrowed(data.args[1], out);
                        self.emit(Op::Add, &[number, by], ty, out)
                    }
                    _ => number,
                }
            }
        };
        made.insert(v, number);
        number
    }

    /// The number of a handle that an instruction makes of others, by the numbers of those.
    fn step(
        &mut self,
        v: Value,
        ty: Type,
        number: &mut dyn FnMut(&mut Self, Value, &mut Vec<Inst>) -> Value,
        out: &mut Vec<Inst>,
    ) -> Value {
        let data = self.f.insts[self.defs.inst(v).expect("an instruction makes the handle")].clone();
        match data.op {
            Op::Select => {
                let (yes, no) = (number(self, data.args[1], out), number(self, data.args[2], out));
                self.emit(Op::Select, &[data.args[0], yes, no], ty, out)
            }
            _ => number(self, data.args[0], out),
        }
    }

    /// A distance as a number of the type that offsets have, which may hold its low half only.
    fn narrowed(&mut self, by: Value, out: &mut Vec<Inst>) -> Value {
        if self.offset == Scalar::I64 {
            return by;
        }
        let ty = self.offset.into();
        let data = self.defs.inst(by).map(|inst| self.f.insts[inst].clone());
        match data.map(|data| (data.op.clone(), data.args.first().copied())) {
            Some((Op::Const(bits), _)) => self.emit(Op::Const(bits & 0xffff_ffff), &[], ty, out),
            Some((Op::Convert, Some(from))) if self.f.ty(from) == ty => from,
            Some((Op::Convert, Some(from))) if self.f.ty(from) == Type::U32 => {
                self.emit(Op::Bitcast, &[from], ty, out)
            }
            _ => self.emit(Op::Convert, &[by], ty, out),
        }
    }

    /// Makes the instructions of a region again.
    fn region(&mut self, region: Region) {
        let mut out = Vec::new();
        for inst in std::mem::take(&mut self.f.regions[region].insts) {
            let data = self.f.insts[inst].clone();
            if let Some(to) = self.places.callee(&data.op) {
                self.f.insts[inst].args = self.passed(to, &data.args, &mut out).into();
            } else if !data.regions.is_empty() {
                self.control(inst, &mut out);
                continue;
            }
            out.push(inst);
        }
        self.f.regions[region].insts = out;
    }

    /// The operands of a call of one of the functions.
    fn passed(&mut self, to: usize, args: &[Value], out: &mut Vec<Inst>) -> Vec<Value> {
        let (places, mut all, mut numbers) = (self.places, Vec::new(), Vec::new());
        let mut origins = self.origins.clone().into_iter().map(|own| own.1);
        for (&param, &arg) in places.params(to).iter().zip(args) {
            match places.holds_handles(to, param) {
                false => all.push(arg),
                true => {
                    numbers.extend(self.numbers_of(arg, &places.known(to, param), out));
                    // The first function has an origin in the place of each handle.
                    all.extend(origins.next().filter(|_| to == 0));
                }
            }
        }
        all.extend(numbers);
        if to > 0 {
            all.extend(self.origins.iter().map(|own| own.1));
        }
        all
    }

    /// Appends an instruction with regions.
    fn control(&mut self, inst: Inst, out: &mut Vec<Inst>) {
        let data = self.f.insts[inst].clone();
        let (args, params, yields) = data.op.carried_at();
        let n_carried = data.n_carried();
        // The shapes of the results that become numbers.
        let shapes: Vec<Option<Known>> = data
            .results
            .iter()
            .map(|&v| self.places.is_placed(self.g, v).then(|| self.places.known(self.g, v)))
            .collect();
        if n_carried > 0 {
            let expanded = self.expanded(&data.args, args, &shapes[..n_carried], out);
            self.f.insts[inst].args = expanded.into();
        }
        for &region in &data.regions {
            let old = self.f.regions[region].params.clone();
            let (mut new, mut start) = (old[..params.min(old.len())].to_vec(), Vec::new());
            for (k, &v) in old.iter().enumerate().skip(params) {
                match shapes.get(k - params).filter(|_| k - params < n_carried) {
                    Some(Some(_)) => {
                        new.extend(self.variables(v));
                        self.materialise(v, &mut start);
                    }
                    _ => new.push(v),
                }
            }
            self.f.regions[region].params = new;
            self.region(region);
            let yielded = self.f.regions[region].results.clone();
            let mut end = Vec::new();
            let yielded = self.expanded(&yielded, yields, &shapes, &mut end);
            let region = &mut self.f.regions[region];
            start.append(&mut region.insts);
            start.append(&mut end);
            (region.insts, region.results) = (start, yielded);
        }
        out.push(inst);
        let mut results = Vec::new();
        for (&v, shape) in data.results.iter().zip(&shapes) {
            match shape {
                Some(_) => {
                    results.extend(self.variables(v));
                    self.materialise(v, out);
                }
                None => results.push(v),
            }
        }
        self.f.insts[inst].results = results.into();
    }

    /// Values with numbers for those handles, from index `first` on, that have a shape.
    fn expanded(
        &mut self,
        values: &[Value],
        first: usize,
        shapes: &[Option<Known>],
        out: &mut Vec<Inst>,
    ) -> Vec<Value> {
        let mut all = values[..first].to_vec();
        for (k, &v) in values.iter().enumerate().skip(first) {
            match shapes.get(k - first) {
                Some(Some(shape)) => all.extend(self.numbers_of(v, shape, out)),
                _ => all.push(v),
            }
        }
        all
    }

    /// Puts the handles that were made into the places of the old ones.
    fn rename(&mut self) {
        let renames = &self.renames;
        let rename = |v: &mut Value| {
            if let Some(&new) = renames.get(v) {
                *v = new;
            }
        };
        self.f.insts.values_mut().flat_map(|data| &mut data.args).for_each(rename);
        self.f.regions.values_mut().flat_map(|region| &mut region.results).for_each(rename);
    }
}
