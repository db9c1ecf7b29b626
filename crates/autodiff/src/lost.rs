//! Warnings about tangents that forward mode loses: a function that has only a custom backward derivative has zero
//! tangents.
//!
//! A loss is reported if somebody may see it: if values that depend on the call, by the rules of
//! [`crate::activity`], are results of a function whose forward derivative is asked for, or go to a derivative that
//! writes memory. In between are the callers that are differentiated along with it. So nothing is reported of the value
//! that a backward derivative computes along with the cotangents: reverse mode has the custom derivative for these, and
//! the forward derivative of what it made of the function has a tangent that is thrown away.

use std::collections::BTreeMap;

use cranelift_entity::EntitySet;
use ir::{Func, Inst, Op, Origin, Value};
use rustc_hash::FxHashSet;

use crate::Problem;
use crate::engine::Engine;
use crate::shape::Mode;
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

impl Engine<'_> {
    /// Warns about calls whose tangents are zero because the callee has only a backward derivative. `all`
    /// holds the functions that existed before differentiation.
    pub(crate) fn check_lost(&mut self, all: &[Func]) {
        if self.found.lost.is_empty() {
            return;
        }
        let roots: Vec<Func> = all.iter().copied().filter(|f| !self.options.unasked.contains(f)).collect();
        let reached = self.reachable(&roots);
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
        let src = &self.module.funcs[caller];
        if !src.has_body() {
            return false;
        }
        let mut calls = false;
        src.walk(src.body(), &mut |inst| {
            calls |= src.insts[inst].op.callee().is_some_and(|callee| made.contains(&callee));
        });
        if !calls {
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
