//! Traces the decisions of a function: `f ↦ fᵈ`, with `fᵈ(x, n) = (f(x), hash, count, level)`.
//!
//! A *decision* is an operation by which a real number becomes one of a discrete set: a comparison of floats, a conversion
//! to an integer, `floor`, the side of a pole. Between places where all decisions have the same outcomes, a function is
//! composed of continuous operations, so it can only jump where an outcome changes. The derivative of an integral over such
//! a function has a term for each jump (docs/edges.md), and needs to know two things about it: that there is one between two
//! places, and the function whose zero is the place of the jump.
//!
//! - `count` is the number of decisions that a run made, and `hash` depends on the outcomes of the first `n` of them. Up to
//!   the first decision that differs, two runs do the same; so the hashes for different `n` tell which one it is.
//! - `level` is the number that decision `n` (counted from 0) is about, up to a constant: `a - b` for `a < b`, `x` for
//!   `int(x)`. It is differentiable like any value, and its derivatives are those of the function whose sign decides.
//!
//! The trace is threaded through the structure of the code as three values. Calls of functions that are differentiated
//! through their bodies are replaced by calls of their traces. A function with a derivative of its own is called as before,
//! since its derivative is not that of its body, and its trace is called beside it, for its decisions only. A function with
//! [`ir::Witness::continuous`] is said to have no jumps, and is called as it is.
//!
//! The derivative of `level` is that of the number, whatever the program says of derivatives: an edge moves with what
//! decides, even if a function is not marked as differentiable, or its value is detached. So in a trace all parameters and
//! results have derivatives, and nothing is detached. The results of `f` in a trace are values only.

use cranelift_entity::SecondaryMap;
use ir::analysis::reach;
use ir::walk::callees;
use ir::{
    Builder, Defs, Func, Function, Inst, Math, Module, Op, Origin, Region, Scalar, Slot, Span, Type, Types,
    Value,
};
use rustc_hash::FxHashSet;

use crate::activity::arg_mask;
use crate::copy::{Renaming, copy_inst, fresh, like, region_param_like};
use crate::engine::Engine;
use crate::recursion::Why;
use crate::shape::{Mask, Mode, params};
use crate::witness::{Source, source};

/// The basis and the factor of the FNV-1a hash.
const BASIS: u32 = 0x811c_9dc5;
const FACTOR: u32 = 0x0100_0193;

/// The trace after some instructions.
#[derive(Clone, Copy)]
struct Trace {
    hash: Value,
    count: Value,
    level: Value,
}

impl Trace {
    const TYPES: [Type; 3] = [Type::U32, Type::U32, Type::F32];

    fn of(values: &[Value]) -> Trace {
        Trace { hash: values[0], count: values[1], level: values[2] }
    }

    fn values(self) -> [Value; 3] {
        [self.hash, self.count, self.level]
    }

    fn slots() -> [Slot; 3] {
        let slot = |ty, diff, name: &str| Slot { ty, diff, linear: false, name: Some(name.into()) };
        [slot(Type::U32, false, "hash"), slot(Type::U32, false, "count"), slot(Type::F32, true, "level")]
    }
}

/// How a call is compiled; without a plan, it is copied.
#[derive(Clone, Copy, Debug)]
struct Plan {
    traced: Func,
    /// The callee itself is called for its results.
    beside: bool,
}

impl Engine<'_> {
    /// Makes the function that `call_decisions` of `func` calls. Memoised.
    pub(crate) fn decisions(&mut self, func: Func, span: Span) -> Option<Func> {
        if !self.is_ready(func, span) {
            return None;
        }
        if let Some(&known) = self.made.decisions.get(&func) {
            return Some(known);
        }
        if let Some(once) = self.runs_once(func)
            && let Why::Effect(what) = once.why
        {
            let message =
                format!("an integrand runs many times where its edges are searched, but this one {what}");
            self.problem(once.span, "E0932", message);
            return None;
        }
        let traced = self.trace(func);
        let src = &self.module.funcs[func];
        if let Some(place) = src.params.len().checked_sub(1) {
            self.refuse_bits(traced, place, span);
        }
        let src = &self.module.funcs[func];
        let count = Slot { ty: Type::U32, diff: false, linear: false, name: Some("n".into()) };
        let slots: Vec<Slot> = src.params.iter().cloned().chain([count]).collect();
        let values = src.results.iter().map(|slot| Slot { diff: false, ..slot.clone() });
        let results = values.chain(Trace::slots()).collect();
        let made = self.declare(format!("{}_decisions", src.name), Origin::Variant(func), slots, results);
        self.made.decisions.insert(func, made);
        self.wrap(made, |b, funcs, args| {
            let mut args = args.to_vec();
            args.extend([b.u32(BASIS), b.u32(0), b.zero(Type::F32)]);
            b.call_func(traced, &funcs[traced].results, &args)
        });
        Some(made)
    }

    /// Makes `(params…, n, hash, count, level) -> (results…, hash, count, level)`. Memoised.
    fn trace(&mut self, func: Func) -> Func {
        if let Some(&known) = self.made.traced.get(&func) {
            return known;
        }
        let (src, types) = (&self.module.funcs[func], &self.module.types);
        let whole = |slot: &Slot| Slot { diff: types.is_differentiable(slot.ty), ..slot.clone() };
        let mut slots: Vec<Slot> = src.params.iter().map(whole).collect();
        slots.push(Slot { ty: Type::U32, diff: false, linear: false, name: Some("n".into()) });
        slots.extend(Trace::slots());
        let results: Vec<Slot> = src.results.iter().map(whole).chain(Trace::slots()).collect();
        let name = format!("{}_traced", src.name);
        let made = self.declare(name, Origin::Variant(func), slots.clone(), results.clone());
        self.made.traced.insert(func, made);

        let plans = self.plan_traces(func);
        let module = &mut *self.module;
        let src = &module.funcs[func];
        let defs = Defs::of(src);
        let mut passing_zero = SecondaryMap::new();
        src.walk(src.body(), &mut |inst| {
            if src.insts[inst].op == Op::Div {
                passing_zero[inst] = passing(module, src, &defs, src.insts[inst].args[1]);
            }
        });
        let mut b = Builder::new(&mut module.types, String::new());
        let mut map = Renaming::default();
        for (k, slot) in slots.into_iter().enumerate() {
            let v = b.param(slot);
            if let Some(&of) = params(src).get(k) {
                map.set(of, v);
            }
        }
        let own = &b.func.regions[b.func.body()].params[params(src).len()..];
        let (n, trace) = (own[0], Trace::of(&own[1..]));
        let mut pass = Tracing { src, defs, plans: &plans, passing: &passing_zero, b, map, n, trace };
        pass.region(src.body());
        let mut values = pass.map.all(&src.regions[src.body()].results);
        values.extend(pass.trace.values());
        let body = pass.b.finish(values, results);
        self.define(made, body);
        made
    }

    fn plan_traces(&mut self, func: Func) -> SecondaryMap<Inst, Option<Plan>> {
        let src = &self.module.funcs[func];
        let mut calls = Vec::new();
        src.walk(src.body(), &mut |inst| {
            if let Op::Call(callee) = src.insts[inst].op {
                calls.push((inst, callee));
            }
        });
        let mut plans = SecondaryMap::new();
        for (inst, callee) in calls {
            let through = self.is_through(callee);
            if self.differs(callee, through) {
                plans[inst] = Some(Plan { traced: self.trace(callee), beside: !through });
            }
        }
        plans
    }

    /// Returns true if the level of a decision depends on a call as on the body of the callee.
    fn is_through(&self, callee: Func) -> bool {
        let by_body = |mode| match source(self.module, callee, mode) {
            Source::Body(of) => of == callee,
            Source::Zero => self.module.funcs[callee].has_body(),
            _ => false,
        };
        by_body(Mode::Forward) && by_body(Mode::Reverse)
    }

    /// Returns true if the trace of a function is more than the function: if it makes decisions or takes bits, or if the
    /// function lacks derivatives that a trace has, which takes its place.
    fn differs(&mut self, func: Func, through: bool) -> bool {
        if let Some(&known) = self.facts.traces_differ.get(&(func, through)) {
            return known;
        }
        let module = &*self.module;
        let counts = |f: Func| module.funcs[f].has_body() && !module.witness(f).continuous;
        let reached = reach([func].into_iter().filter(|&f| counts(f)), |f| {
            callees(&module.funcs[f]).into_iter().filter(|&f| counts(f)).collect::<Vec<_>>()
        });
        let differs = reached.iter().any(|f| {
            let src = &module.funcs[f];
            let defs = Defs::of(src);
            let is_zero = source(module, f, Mode::Forward) == Source::Zero;
            let lacks = |slot: &Slot| (is_zero || !slot.diff) && module.types.is_differentiable(slot.ty);
            let mut found = through && src.params.iter().chain(&src.results).any(lacks);
            src.walk(src.body(), &mut |inst| {
                found |= is_decision(&module.types, src, &defs, inst)
                    || takes_bits(&module.types, src, inst)
                    || through && src.insts[inst].op == Op::Detach;
            });
            found
        });
        self.facts.traces_differ.insert((func, through), differs);
        differs
    }

    /// Reports bits of floats that depend on the last parameter of a trace's function, the place: every bit would be a
    /// decision. In a trace, nothing is hidden from an edge's speed, and so nothing is from this.
    fn refuse_bits(&mut self, traced: Func, place: usize, span: Span) {
        let n_params = self.module.funcs[traced].params.len();
        let mut waiting: Vec<(Func, Mask, Span)> =
            vec![(traced, (0..n_params).map(|k| k == place).collect(), span)];
        let mut seen: FxHashSet<(Func, Mask)> = FxHashSet::default();
        while let Some((func, mask, from)) = waiting.pop() {
            if !self.module.funcs[func].has_body() || !seen.insert((func, mask.clone())) {
                continue;
            }
            let active = self.facts.activity.values(self.module, func, &mask, Mode::Forward);
            let module = &*self.module;
            let src = &module.funcs[func];
            let mut bits = Vec::new();
            src.walk(src.body(), &mut |inst| {
                let data = &src.insts[inst];
                let at = if module.is_library(data.span) { from } else { data.span };
                if let Op::Call(callee) = data.op {
                    waiting.push((callee, arg_mask(&module.funcs[callee], &data.args, &active), at));
                } else if takes_bits(&module.types, src, inst) && active.contains(data.args[0]) {
                    bits.push(at);
                }
            });
            for span in bits {
                let message = "the integrand takes the bits of a number that may depend on the place, so its edges cannot \
                               be found";
                self.problem(span, "E0932", message);
            }
        }
    }
}

/// Returns true if an instruction is a decision.
fn is_decision(types: &Types, src: &Function, defs: &Defs, inst: Inst) -> bool {
    let data = &src.insts[inst];
    let is_float = |v: Value| types.scalar_of(src.ty(v)).is_some_and(Scalar::is_float);
    match data.op {
        Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Rem => is_float(data.args[0]),
        Op::Convert => is_float(data.args[0]) && !is_float(data.results[0]),
        Op::Math(Math::Floor | Math::Ceil | Math::Round | Math::Trunc | Math::Atan2 | Math::Tan) => true,
        // A quotient jumps from one infinity to the other where the divisor passes zero.
        Op::Div => is_float(data.args[1]) && !matches!(defs.op(src, data.args[1]), Some(Op::Const(_))),
        Op::Math(Math::IsNan | Math::IsInf) => true,
        _ => false,
    }
}

/// The number that passes zero where a divisor only touches it: `u`, if that is `|u|` or `u²`, or the root of one or
/// slightly more.
fn passing(module: &Module, src: &Function, defs: &Defs, divisor: Value) -> Option<Value> {
    let is_constant = |v: Value| matches!(defs.op(src, v), Some(Op::Const(_)));
    let (mut at, mut found) = (divisor, None);
    while let Some(inst) = defs.inst(at) {
        let data = &src.insts[inst];
        let Some(&first) = data.args.first() else { break };
        let other = data.args.get(1).copied();
        at = first;
        match operation(module, &data.op) {
            Op::Math(Math::Abs) => found = Some(at),
            Op::Mul if other == Some(at) => found = Some(at),
            Op::Neg | Op::Math(Math::Sqrt) => {}
            Op::Add | Op::Math(Math::Max) if other.is_some_and(is_constant) => {}
            Op::Add | Op::Math(Math::Max) if is_constant(at) => match other {
                Some(other) => at = other,
                None => break,
            },
            _ => break,
        }
    }
    found
}

/// The operation of an instruction: a call of a function of one operation, as those of the library are that have a derivative of
/// their own, does that.
fn operation<'a>(module: &'a Module, op: &'a Op) -> &'a Op {
    let Op::Call(callee) = op else { return op };
    let callee = &module.funcs[*callee];
    if !callee.has_body() {
        return op;
    }
    match callee.regions[callee.body()].insts[..] {
        [inst] if callee.insts[inst].args[..] == *params(callee) => &callee.insts[inst].op,
        _ => op,
    }
}

/// Returns true if an instruction takes the bits of a float.
fn takes_bits(types: &Types, src: &Function, inst: Inst) -> bool {
    let data = &src.insts[inst];
    data.op == Op::Bitcast && types.is_differentiable(src.ty(data.args[0]))
}

/// The pass over one function.
struct Tracing<'a> {
    src: &'a Function,
    defs: Defs,
    plans: &'a SecondaryMap<Inst, Option<Plan>>,
    /// See [`passing`].
    passing: &'a SecondaryMap<Inst, Option<Value>>,
    b: Builder<'a>,
    map: Renaming,
    /// The decision that is asked for.
    n: Value,
    trace: Trace,
}

impl Tracing<'_> {
    fn region(&mut self, region: Region) {
        let src = self.src;
        for &inst in &src.regions[region].insts {
            self.inst(inst);
        }
    }

    fn inst(&mut self, inst: Inst) {
        let data = &self.src.insts[inst];
        self.b.span = data.span;
        match data.op {
            Op::If | Op::Switch(_) if self.has_trace(inst) => self.branch(inst),
            Op::For(_) if self.has_trace(inst) => self.repeat(inst, 1),
            Op::Loop(_) if self.has_trace(inst) => self.repeat(inst, 0),
            Op::Call(_) => self.call(inst),
            Op::Detach => self.map.set(data.results[0], self.map.at(data.args[0])),
            _ => {
                copy_inst(&mut self.b, self.src, inst, &mut self.map);
                self.decide(inst);
            }
        }
    }

    /// Returns true if code within an instruction has a trace.
    fn has_trace(&self, inst: Inst) -> bool {
        let mut found = false;
        for &region in &self.src.insts[inst].regions {
            self.src.walk(region, &mut |inst| {
                found |= self.plans[inst].is_some() || is_decision(self.b.types, self.src, &self.defs, inst);
            });
        }
        found
    }

    fn call(&mut self, inst: Inst) {
        let data = &self.src.insts[inst];
        let Some(Plan { traced, beside }) = self.plans[inst] else {
            return copy_inst(&mut self.b, self.src, inst, &mut self.map);
        };
        let mut results = if beside {
            copy_inst(&mut self.b, self.src, inst, &mut self.map);
            data.results.iter().map(|&v| like(&mut self.b, self.src, v)).collect()
        } else {
            self.copies(&data.results)
        };
        let mut args = self.map.all(&data.args);
        args.push(self.n);
        args.extend(self.trace.values());
        results.extend(self.next_trace());
        self.b.push(Op::Call(traced), &args, &results, &[]);
    }

    fn copies(&mut self, sources: &[Value]) -> Vec<Value> {
        let copy = |&v: &Value| {
            let copy = like(&mut self.b, self.src, v);
            self.map.set(v, copy);
            copy
        };
        sources.iter().map(copy).collect()
    }

    /// New values for the trace, to be defined by the next instruction.
    fn next_trace(&mut self) -> Vec<Value> {
        let values = fresh(&mut self.b, Trace::TYPES);
        self.trace = Trace::of(&values);
        values
    }

    fn branch(&mut self, inst: Inst) {
        let src = self.src;
        let data = &src.insts[inst];
        let args = self.map.all(&data.args);
        let before = self.trace;
        let mut regions = Vec::new();
        for &arm in &data.regions {
            self.trace = before;
            let region = self.b.open();
            self.region(arm);
            let mut results = self.map.all(&src.regions[arm].results);
            results.extend(self.trace.values());
            self.b.close(results);
            regions.push(region);
        }
        let mut results = self.copies(&data.results);
        results.extend(self.next_trace());
        self.b.span = data.span;
        self.b.push(data.op.clone(), &args, &results, &regions);
    }

    /// Traces a loop. The first `lead` operands and parameters are not carried: they are the count and the trip of a
    /// `for`. A `loop` has none, but its body's first result says whether to go on.
    fn repeat(&mut self, inst: Inst, lead: usize) {
        let src = self.src;
        let data = &src.insts[inst];
        let body = &src.regions[data.regions[0]];
        let n_carried = data.args.len() - lead;
        let mut args = self.map.all(&data.args);
        args.extend(self.trace.values());
        let region = self.b.open();
        for &param in &body.params {
            let copy = region_param_like(&mut self.b, src, param);
            self.map.set(param, copy);
        }
        let carried: Vec<Value> = Trace::TYPES.into_iter().map(|ty| self.b.region_param(ty)).collect();
        self.trace = Trace::of(&carried);
        self.region(data.regions[0]);
        let (first, stacked) = body.results.split_at(1 - lead + n_carried);
        let mut results = self.map.all(first);
        results.extend(self.trace.values());
        results.extend(self.map.all(stacked));
        self.b.close(results);
        let mut results = self.copies(&data.results[..n_carried]);
        results.extend(self.next_trace());
        results.extend(self.copies(&data.results[n_carried..]));
        self.b.span = data.span;
        self.b.push(data.op.clone(), &args, &results, &[region]);
    }

    /// Adds a decision to the trace, one for each component.
    fn decide(&mut self, inst: Inst) {
        if !is_decision(self.b.types, self.src, &self.defs, inst) {
            return;
        }
        let data = &self.src.insts[inst];
        let args = self.map.all(&data.args);
        let result = self.map.at(data.results[0]);
        let n = self.b.types.lanes(self.b.func.ty(result)).unwrap_or(1);
        for lane in 0..n {
            let part = |pass: &mut Self, v: Value| match pass.b.types.lanes(pass.b.func.ty(v)) {
                Some(_) => pass.b.emit(Op::Extract(lane), &[v]),
                None => v,
            };
            let parts: Vec<Value> = args.iter().map(|&v| part(self, v)).collect();
            let result = part(self, result);
            match data.op {
                Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => {
                    let level = self.difference(parts[0], parts[1]);
                    self.record(result, level);
                }
                // The remainder is exact and jumps where the exact quotient is whole, which a rounded one is earlier.
                Op::Rem => {
                    let quotient = self.b.emit(Op::Div, &parts);
                    let multiple = self.b.emit(Op::Sub, &[parts[0], result]);
                    let ratio = self.b.emit(Op::Div, &[multiple, parts[1]]);
                    let whole = self.b.emit(Op::Math(Math::Round), &[ratio]);
                    let level = self.single(quotient);
                    self.record(whole, level);
                }
                Op::Div => {
                    let passes = self.passing[inst].map(|v| self.map.at(v));
                    let passes = passes.map(|v| part(self, v));
                    self.divide(parts[0], parts[1], result, passes);
                }
                // Its poles have distances that do not change.
                Op::Math(Math::Tan) => {
                    let level = self.single(parts[0]);
                    self.record_sign(result, level);
                }
                Op::Math(Math::IsNan | Math::IsInf) => {
                    let level = self.b.zero(Type::F32);
                    self.record(result, level);
                }
                // It jumps where `y` changes its sign, but only for negative `x`.
                Op::Math(Math::Atan2) => {
                    let zero = self.b.zero(self.b.func.ty(parts[0]));
                    let left = self.b.emit(Op::Lt, &[parts[1], zero]);
                    let below = self.b.emit(Op::Lt, &[parts[0], zero]);
                    let both = self.b.emit(Op::And, &[left, below]);
                    let (x, y) = (self.single(parts[1]), self.single(parts[0]));
                    self.record(left, x);
                    self.record(both, y);
                }
                _ => {
                    let level = self.single(parts[0]);
                    self.record(result, level);
                }
            }
        }
    }

    /// The side of the pole of `quotient`, `a / b`. Where `b` is zero all along, there is one where `a` passes zero.
    fn divide(&mut self, a: Value, b: Value, quotient: Value, passes: Option<Value>) {
        let zero = self.b.zero(self.b.func.ty(b));
        let is_zero = self.b.emit(Op::Eq, &[b, zero]);
        if let Some(passes) = passes {
            let (side, level) = (self.side(passes), self.single(passes));
            self.record(side, level);
        } else {
            // The quotient tells zeros of both signs apart.
            let negative = self.b.emit(Op::Lt, &[b, zero]);
            let below = self.b.emit(Op::Lt, &[a, zero]);
            let falls = self.b.emit(Op::Lt, &[quotient, zero]);
            let differs = self.b.emit(Op::Xor, &[falls, below]);
            let negative = self.b.emit(Op::Select, &[is_zero, differs, negative]);
            let level = self.single(b);
            self.record(negative, level);
        }
        let (side, none, level) = (self.side(a), self.b.u32(0), self.single(a));
        let side = self.b.emit(Op::Select, &[is_zero, side, none]);
        self.record(side, level);
    }

    /// 1 below zero, 2 above, 0 between.
    fn side(&mut self, a: Value) -> Value {
        let b = &mut self.b;
        let zero = b.zero(b.func.ty(a));
        let (below, above) = (b.emit(Op::Lt, &[a, zero]), b.emit(Op::Gt, &[a, zero]));
        let (none, one, two) = (b.u32(0), b.u32(1), b.u32(2));
        let rest = b.emit(Op::Select, &[above, two, none]);
        b.emit(Op::Select, &[below, one, rest])
    }

    fn record_sign(&mut self, of: Value, level: Value) {
        let zero = self.b.zero(self.b.func.ty(of));
        let negative = self.b.emit(Op::Lt, &[of, zero]);
        self.record(negative, level);
    }

    /// `a` as a single float.
    fn single(&mut self, a: Value) -> Value {
        match self.b.func.ty(a) {
            Type::F32 => a,
            _ => self.b.emit_typed(Op::Convert, &[a], Type::F32),
        }
    }

    /// `a - b` as a single float. A difference of halves may be too great for a half, and one of doubles too small for
    /// single ones.
    fn difference(&mut self, a: Value, b: Value) -> Value {
        if self.b.func.ty(a) == Type::F64 {
            let d = self.b.emit(Op::Sub, &[a, b]);
            return self.single(d);
        }
        let (a, b) = (self.single(a), self.single(b));
        self.b.emit(Op::Sub, &[a, b])
    }

    /// The outcome of a decision in 32 bits.
    fn bits(&mut self, outcome: Value) -> Value {
        let b = &mut self.b;
        match b.types.scalar_of(b.func.ty(outcome)) {
            Some(Scalar::F64) => {
                let bits = b.emit_typed(Op::Bitcast, &[outcome], Type::U64);
                let half = b.constant(Scalar::U64, 32);
                let high = b.emit(Op::Shr, &[bits, half]);
                let low = b.emit_typed(Op::Convert, &[bits], Type::U32);
                let high = b.emit_typed(Op::Convert, &[high], Type::U32);
                b.emit(Op::Xor, &[low, high])
            }
            Some(s) if s.is_float() => {
                let single = self.single(outcome);
                self.b.emit_typed(Op::Bitcast, &[single], Type::U32)
            }
            _ if b.func.ty(outcome) == Type::U32 => outcome,
            _ => b.emit_typed(Op::Convert, &[outcome], Type::U32),
        }
    }

    fn record(&mut self, outcome: Value, level: Value) {
        let outcome = self.bits(outcome);
        let (n, Trace { hash, count, level: before }) = (self.n, self.trace);
        let b = &mut self.b;
        let is_first = b.emit(Op::Lt, &[count, n]);
        let factor = b.u32(FACTOR);
        let mixed = b.emit(Op::Xor, &[hash, outcome]);
        let mixed = b.emit(Op::Mul, &[mixed, factor]);
        // The high bits of an outcome have to reach the low ones of the hash, too.
        let shift = b.u32(15);
        let high = b.emit(Op::Shr, &[mixed, shift]);
        let mixed = b.emit(Op::Xor, &[mixed, high]);
        let hash = b.emit(Op::Select, &[is_first, mixed, hash]);
        let is_asked = b.emit(Op::Eq, &[count, n]);
        let level = b.emit(Op::Select, &[is_asked, level, before]);
        let one = b.u32(1);
        let count = b.emit(Op::Add, &[count, one]);
        self.trace = Trace { hash, count, level };
    }
}
