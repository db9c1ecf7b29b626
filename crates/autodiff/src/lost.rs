//! Warnings about derivatives that are lost: in calls, and in memory.
//!
//! # Calls
//!
//! In forward mode, a function that has only a custom backward derivative has zero tangents. A loss is reported if
//! somebody may see it: if values that depend on the call, by the rules of [`crate::activity`], are results of a
//! function whose forward derivative is asked for, or go to a derivative that writes memory. In between are the callers
//! that are differentiated along with it. So nothing is reported of the value that a backward derivative computes along
//! with the cotangents: reverse mode has the custom derivative for these, and the forward derivative of what it made of
//! the function has a tangent that is thrown away.
//!
//! # Memory
//!
//! Memory has no tangents, so what is written there and read again has none. The checker refuses this in functions that
//! are marked as differentiable; a hand-written derivative need not be, and may use memory as it likes, until it is
//! differentiated in turn. A loss is reported if a function that was differentiated writes an active value to a global
//! that may be the one from which it reads a number on which one of its results depends, itself or in a call. In case
//! of doubt about what a handle refers to, nothing is reported.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::EntitySet;
use ir::analysis::points_to::{PointsTo, direct_global};
use ir::analysis::reach;
use ir::walk::callees;
use ir::{Defs, Func, Inst, InstData, Module, Op, Origin, Step, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Problem;
use crate::activity::Activity;
use crate::engine::Engine;
use crate::shape::{Mask, Mode};
use crate::witness::{Source, source};

/// A call in forward mode of a function that has only a backward derivative.
pub(crate) struct Lost {
    /// The derivative that contains the call.
    pub(crate) made: Func,
    /// The function that it is the derivative of, and the call there.
    pub(crate) func: Func,
    pub(crate) inst: Inst,
    pub(crate) callee: Func,
}

/// A read or a write of memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Access {
    func: Func,
    inst: Inst,
    handle: Value,
    /// The way from a global to the number, as far as the handle is known to be a global, and the indices are constants.
    path: Vec<Option<u64>>,
}

impl Access {
    fn of(module: &Module, defs: &Defs, func: Func, inst: Inst) -> Access {
        let src = &module.funcs[func];
        let data = &src.insts[inst];
        let handle = data.args[0];
        let mut path = Vec::new();
        if let Op::BufferLoad(steps) | Op::BufferStore(steps) | Op::Atomic(steps, _) = &data.op
            && direct_global(src, defs, handle).is_some()
        {
            let constant = |v: &Value| Some(defs.scalar(&module.types, src, *v)?.1);
            let mut indices = data.args[1..].iter().map(constant);
            path.extend(indices.next());
            path.extend(steps.0.iter().map(|step| match step {
                Step::Static(n) => Some(u64::from(*n)),
                Step::Dynamic => indices.next().flatten(),
            }));
        }
        Access { func, inst, handle, path }
    }

    /// Returns true if both may be of the same memory.
    fn may_meet(&self, other: &Access, points_to: &PointsTo) -> bool {
        let differs = |(a, b): (&Option<u64>, &Option<u64>)| a.is_some() && b.is_some() && a != b;
        if self.path.iter().zip(&other.path).any(differs) {
            return false;
        }
        match [self, other].map(|at| points_to.memory(at.func, at.handle)) {
            [Some(a), Some(b)] => a.iter().any(|global| b.contains(global)),
            _ => (self.func, self.handle) == (other.func, other.handle),
        }
    }
}

/// A number read from memory.
struct Reading {
    at: Access,
    /// A result of the function may depend on it.
    is_result: bool,
    /// The writes to memory that may depend on it.
    written: Vec<Access>,
}

impl Engine<'_> {
    /// Warns about derivatives that are lost in memory. `all` holds the functions that existed before
    /// differentiation.
    pub(crate) fn check_memory(&mut self, all: &[Func]) {
        let reached = self.reachable(&self.asked(all));
        let made = self.made.linearized.iter().filter(|(_, made)| reached.contains(**made));
        let differentiated: Vec<(Func, Mask, Mode)> =
            made.map(|((func, mask, mode, _), _)| (*func, mask.clone(), *mode)).collect();
        let mut lossy: FxHashMap<Func, Vec<Access>> = FxHashMap::default();
        for (func, mask, mode) in &differentiated {
            if writes_in(self.module, *func, |_| true).is_empty() {
                continue;
            }
            let active = self.facts.activity.values(self.module, *func, mask, *mode);
            let writes = writes_in(self.module, *func, |v| active.contains(v));
            if !writes.is_empty() {
                lossy.entry(*func).or_default().extend(writes);
            }
        }
        if lossy.is_empty() {
            return;
        }
        let points_to = PointsTo::of(self.module, &|f| self.is_generated(f));
        let mut readings: FxHashMap<Func, Vec<Reading>> = FxHashMap::default();
        let mut lost: BTreeSet<Access> = BTreeSet::new();
        let roots: BTreeSet<Func> = differentiated.iter().map(|of| of.0).collect();
        for root in roots {
            let reached = reach([root], |func| callees(&self.module.funcs[func]));
            // Each write with the one that it leads back to.
            let first: BTreeSet<Access> =
                reached.iter().filter_map(|func| lossy.get(&func)).flatten().cloned().collect();
            if first.is_empty() {
                continue;
            }
            for func in reached.iter() {
                let read = || readings_in(self.module, &mut self.facts.activity, func);
                readings.entry(func).or_insert_with(read);
            }
            let mut work: Vec<(&Access, &Access)> = first.iter().map(|write| (write, write)).collect();
            let mut seen: FxHashSet<(&Access, &Access)> = work.iter().copied().collect();
            while let Some((write, from)) = work.pop() {
                let all = reached.iter().flat_map(|func| &readings[&func]);
                for reading in all.filter(|reading| write.may_meet(&reading.at, &points_to)) {
                    if reading.is_result {
                        lost.insert(from.clone());
                    }
                    let next = reading.written.iter().map(|next| (next, from));
                    work.extend(next.filter(|&next| seen.insert(next)));
                }
            }
        }
        for write in lost {
            let span = self.module.funcs[write.func].insts[write.inst].span;
            let message =
                "the derivative is lost here: memory has none, and a result depends on what is read there";
            let warning = Problem { span, code: "E0933", message: message.into() };
            if !self.found.warnings.contains(&warning) {
                self.found.warnings.push(warning);
            }
        }
    }

    /// The functions from which derivatives are asked for by somebody who may see a loss.
    fn asked(&self, all: &[Func]) -> Vec<Func> {
        all.iter().copied().filter(|f| !self.options.unasked.contains(f)).collect()
    }

    /// Warns about calls whose tangents are zero because the callee has only a backward derivative. `all`
    /// holds the functions that existed before differentiation.
    pub(crate) fn check_lost(&mut self, all: &[Func]) {
        if self.found.lost.is_empty() {
            return;
        }
        let reached = self.reachable(&self.asked(all));
        for lost in std::mem::take(&mut self.found.lost) {
            if !reached.contains(lost.made) || !self.is_seen(&lost, &reached) {
                continue;
            }
            let name = self.user_name(lost.callee);
            let message =
                format!("the tangent is lost in this call: '{name}' has a backward derivative only");
            let span = self.module.funcs[lost.func].insts[lost.inst].span;
            let warning = Problem { span, code: "E0915", message };
            if !self.found.warnings.contains(&warning) {
                self.found.warnings.push(warning);
            }
        }
    }

    /// Returns true if the tangent that a call loses may make a difference to anybody.
    fn is_seen(&mut self, lost: &Lost, reached: &EntitySet<Func>) -> bool {
        // The functions that have forward derivatives which run.
        let mut forward: BTreeMap<Func, Vec<Func>> = BTreeMap::new();
        for made in reached.iter() {
            if let Some(func) = self.roles.forward.get(&made) {
                forward.entry(*func).or_default().push(made);
            }
        }
        let slots = &self.module.funcs[lost.callee].results;
        let results = self.module.funcs[lost.func].insts[lost.inst].results.iter().zip(slots);
        let from: Vec<Value> = results.filter(|(_, slot)| slot.diff).map(|(&v, _)| v).collect();
        let mut known: FxHashSet<(Func, Value)> = from.iter().map(|&v| (lost.func, v)).collect();
        let mut work = vec![(lost.func, from)];
        while let Some((func, from)) = work.pop() {
            let carried = self.facts.activity.values_from(self.module, func, &from, Mode::Forward);
            if self.goes_to_memory(func, &carried) {
                return true;
            }
            let src = &self.module.funcs[func];
            let yielded = &src.regions[src.body()].results;
            let is_carried: Vec<bool> =
                yielded.iter().zip(&src.results).map(|(&v, slot)| slot.diff && carried.contains(v)).collect();
            if !is_carried.contains(&true) {
                continue;
            }
            let made = forward.get(&func).map_or(&[][..], |made| made);
            if reached.iter().any(|caller| self.asks_for(caller, made, func)) {
                return true;
            }
            for &caller in forward.keys() {
                let mut values = Vec::new();
                self.for_each_call(caller, func, &mut |results| {
                    values.extend(results.iter().zip(&is_carried).filter(|(_, is)| **is).map(|(&v, _)| v));
                });
                values.retain(|&v| known.insert((caller, v)));
                if !values.is_empty() {
                    work.push((caller, values));
                }
            }
        }
        false
    }

    /// Returns true if a function calls one of the forward derivatives `made` of a function without being the
    /// derivative of a caller of that function.
    fn asks_for(&self, caller: Func, made: &[Func], func: Func) -> bool {
        if !callees(&self.module.funcs[caller]).iter().any(|callee| made.contains(callee)) {
            return false;
        }
        let mut at = caller;
        let differentiated = loop {
            let origin = self.module.funcs[at].origin;
            match (origin, origin.parent()) {
                (Origin::Jvp(of), _) => break Some(of),
                (_, Some(parent)) => at = parent,
                (_, None) => break None,
            }
        };
        let mut follows = false;
        if let Some(of) = differentiated {
            self.for_each_call(of, func, &mut |_| follows = true);
        }
        !follows
    }

    /// Visits the results of the calls in `caller` whose derivative in forward mode is made of `func`.
    fn for_each_call(&self, caller: Func, func: Func, visit: &mut dyn FnMut(&[Value])) {
        let src = &self.module.funcs[caller];
        if !src.has_body() {
            return;
        }
        src.walk(src.body(), &mut |inst| {
            let data = &src.insts[inst];
            if let Op::Call(callee) = data.op
                && (callee == func
                    || matches!(source(self.module, callee, Mode::Forward), Source::Body(f) if f == func))
            {
                visit(&data.results);
            }
        });
    }

    /// Returns true if one of these values is given to a custom derivative that has effects.
    fn goes_to_memory(&mut self, func: Func, carried: &EntitySet<Value>) -> bool {
        let src = &self.module.funcs[func];
        let mut callees = Vec::new();
        src.walk(src.body(), &mut |inst| {
            let data = &src.insts[inst];
            if let Op::Call(callee) = data.op
                && data.args.iter().any(|&v| carried.contains(v))
            {
                callees.push(callee);
            }
        });
        let mut seen: FxHashSet<Func> = callees.iter().copied().collect();
        while let Some(callee) = callees.pop() {
            match source(self.module, callee, Mode::Forward) {
                Source::Jvp(jvp) | Source::Vjp(jvp)
                    if !self.facts.activity.only_computes(self.module, jvp) =>
                {
                    return true;
                }
                Source::Body(f) if self.module.funcs[f].has_body() => {
                    let inner = &self.module.funcs[f];
                    inner.walk(inner.body(), &mut |inst| {
                        callees.extend(inner.insts[inst].op.callee().filter(|&c| seen.insert(c)));
                    });
                }
                Source::Applied { .. } => return true,
                Source::Jvp(_) | Source::Vjp(_) | Source::Body(_) | Source::Zero => {}
            }
        }
        false
    }
}

/// The accesses to memory in a function that count.
fn accesses(module: &Module, func: Func, counts: impl Fn(&InstData) -> bool) -> Vec<Access> {
    let src = &module.funcs[func];
    let mut found = Vec::new();
    if src.has_body() {
        let defs = Defs::of(src);
        src.walk(src.body(), &mut |inst| {
            if counts(&src.insts[inst]) {
                found.push(Access::of(module, &defs, func, inst));
            }
        });
    }
    found
}

/// The writes to memory in a function of values for which `counts` is true.
fn writes_in(module: &Module, func: Func, counts: impl Fn(Value) -> bool) -> Vec<Access> {
    accesses(module, func, |data| {
        matches!(data.op, Op::BufferStore(_) | Op::Atomic(..)) && data.args.last().is_some_and(|&v| counts(v))
    })
}

/// The numbers that a function reads from memory.
fn readings_in(module: &Module, activity: &mut Activity, func: Func) -> Vec<Reading> {
    let src = &module.funcs[func];
    let is_number = |data: &InstData| {
        matches!(data.op, Op::BufferLoad(_) | Op::Atomic(..))
            && data.results.first().is_some_and(|&v| module.types.is_differentiable(src.ty(v)))
    };
    let mut found = Vec::new();
    for at in accesses(module, func, is_number) {
        let number = src.insts[at.inst].results[0];
        let carried = activity.values_from(module, func, &[number], Mode::Forward);
        let mut yielded = src.regions[src.body()].results.iter().zip(&src.results);
        found.push(Reading {
            at,
            is_result: yielded.any(|(&v, slot)| slot.diff && carried.contains(v)),
            written: writes_in(module, func, |v| carried.contains(v)),
        });
    }
    found
}
