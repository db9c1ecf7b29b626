//! Makes stand-ins: copies of functions that call primal substitutes, to be differentiated in place of the
//! originals.
//!
//! A substitute replaces its function everywhere in a derivative, whether or not an active value reaches the
//! call. So before a function is differentiated, the function and its callees are copied as far as they reach
//! a substitute, and the copies call the substitutes. The later passes know nothing of substitutes, so a
//! substitute that calls its original is simply recursive. The body of a function that has a custom
//! derivative, or no derivative, runs unchanged.

use ir::analysis::reach;
use ir::walk::callees;
use ir::{Func, Inst, Op, Origin};

use crate::engine::Engine;
use crate::shape::Mode;
use crate::witness::{Source, source};

impl Engine<'_> {
    /// The stand-in of a function whose callees have been resolved; see the head of this file. Memoised.
    pub(crate) fn stand_in(&mut self, func: Func, mode: Mode) -> Func {
        let made_by_users = |w: &ir::Witness| w.substitute.is_some() && !w.is_same;
        if !self.module.witnesses.values().any(made_by_users) {
            return func;
        }
        let mut unfinished = Vec::new();
        let made = self.declare_stand_in(func, mode, &mut unfinished);
        while let Some(copy) = unfinished.pop() {
            let insts: Vec<Inst> = self.module.funcs[copy].insts.keys().collect();
            for inst in insts {
                if let Op::Call(callee) = self.module.funcs[copy].insts[inst].op {
                    let callee = self.declare_stand_in(callee, mode, &mut unfinished);
                    self.module.funcs[copy].insts[inst].op = Op::Call(callee);
                }
            }
        }
        made
    }

    fn declare_stand_in(&mut self, func: Func, mode: Mode, unfinished: &mut Vec<Func>) -> Func {
        if let Some(&known) = self.made.stand_ins.get(&(func, mode)) {
            return known;
        }
        let last = self.substitute(func, mode);
        let flags = |func: Func| {
            let src = &self.module.funcs[func];
            src.params.iter().chain(&src.results).map(|slot| slot.diff).collect::<Vec<bool>>()
        };
        let made = if last != func && flags(last) == flags(func) {
            self.declare_stand_in(last, mode, unfinished)
        } else if last != func {
            let made = self.call_of(func, last);
            unfinished.push(made);
            made
        } else if self.reaches_substitute(func, mode) {
            let mut copy = self.module.funcs[func].clone();
            copy.name = self.unique(copy.name);
            copy.origin = Origin::Variant(func);
            let made = self.module.funcs.push(copy);
            unfinished.push(made);
            made
        } else {
            func
        };
        self.made.stand_ins.insert((func, mode), made);
        made
    }

    /// The last function in the chain of a function's substitutes, up to one with a custom derivative.
    fn substitute(&self, func: Func, mode: Mode) -> Func {
        let mut at = func;
        // A chain may be arbitrarily long, and may be cyclic.
        for _ in 0..64 {
            let witness = self.module.witness(at);
            let custom = witness.jvp.is_some() || mode == Mode::Reverse && witness.vjp.is_some();
            match witness.substitute.filter(|&next| next != at && !witness.is_same && !custom) {
                Some(next) => at = next,
                None => return at,
            }
        }
        at
    }

    /// Returns true if the derivative of a function's body would run a function that has a substitute.
    fn reaches_substitute(&self, func: Func, mode: Mode) -> bool {
        let by_body = |at: &Func| {
            self.module.funcs[*at].has_body() && source(self.module, *at, mode) == Source::Body(*at)
        };
        let called = |at: Func| callees(&self.module.funcs[at]);
        let reached = reach([func].into_iter().filter(by_body), |at| called(at).into_iter().filter(by_body));
        reached.iter().any(|at| called(at).into_iter().any(|callee| self.substitute(callee, mode) != callee))
    }

    /// Makes a wrapper of `callee` with the signature of `func`, for a substitute whose slots differ in what
    /// is `diff`.
    fn call_of(&mut self, func: Func, callee: Func) -> Func {
        let src = &self.module.funcs[func];
        let (name, params, results) = (src.name.clone(), src.params.clone(), src.results.clone());
        let made = self.declare(name, Origin::Variant(func), params, results);
        self.wrap(made, |b, funcs, args| b.call_func(callee, &funcs[callee].results, args))
    }
}
