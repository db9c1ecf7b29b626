//! Warnings about forward derivatives that should not be relied on.
//!
//! Reverse mode transposes a rule, and rejects one that is not linear in its differentials. Forward mode runs
//! a nonlinear rule as it is, although no function has such a derivative; this file warns about it. The check
//! is that of [`crate::propagate`], except that a rule may add a number to a differential: such a rule stands
//! for parameters that its function does not show.
//!
//! A function that has only a custom backward derivative has zero tangents in forward mode; calls that lose a
//! tangent in this way are warned about as well.

use ir::Func;

use crate::Problem;
use crate::engine::Engine;
use crate::propagate::NONLINEAR;
use crate::shape::Mask;

impl Engine<'_> {
    /// Warns about nonlinear rules that are in use and have not been transposed.
    pub(crate) fn check_rules(&mut self) {
        let mut rules: Vec<Func> = self.module.witnesses.values().filter_map(|w| w.jvp).collect();
        rules.sort_unstable();
        rules.dedup();
        for rule in rules {
            let Some(&shape) = self.roles.shapes.get(&rule).filter(|_| self.is_written_by_user(rule)) else {
                continue;
            };
            let n = self.module.funcs[rule].params.len();
            let tangents: Mask = (0..n).map(|k| k >= shape.params).collect();
            if self.made.propagated.contains_key(&(rule, tangents.clone())) {
                continue;
            }
            let before = self.found.problems.len();
            self.numbers_may_be_added = true;
            self.propagate(rule, &tangents);
            self.numbers_may_be_added = false;
            let found = self.found.problems.split_off(before);
            self.found.warnings.extend(found.into_iter().filter(|p| p.code == NONLINEAR));
        }
    }

    /// Warns about calls whose tangents are zero because the callee has only a backward derivative. `all`
    /// holds the functions that existed before differentiation.
    pub(crate) fn check_lost(&mut self, all: &[Func]) {
        if self.found.lost.is_empty() {
            return;
        }
        let roots: Vec<Func> = all.iter().copied().filter(|f| !self.options.unasked.contains(f)).collect();
        let reached = self.reachable(&roots);
        for (made, span, callee) in std::mem::take(&mut self.found.lost) {
            if reached.contains(made) {
                let name = self.user_name(callee);
                let message =
                    format!("the tangent is lost in this call: '{name}' has a backward derivative only");
                let warning = Problem { span, code: "E0915", message };
                if !self.found.warnings.contains(&warning) {
                    self.found.warnings.push(warning);
                }
            }
        }
    }

    fn is_written_by_user(&self, func: Func) -> bool {
        let src = &self.module.funcs[func];
        let mut found = false;
        if src.has_body() {
            src.walk(src.body(), &mut |inst| found |= !self.module.is_library(src.insts[inst].span));
        }
        found
    }
}
