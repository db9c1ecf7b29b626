//! Warnings about forward derivatives that should not be relied on.
//!
//! Reverse mode transposes a rule, and rejects one that is not linear in its differentials. Forward mode runs
//! a nonlinear rule as it is, although no function has such a derivative; this file warns about it. The check
//! is that of [`crate::propagate`], except that a rule may add a number to a differential: such a rule stands
//! for parameters that its function does not show.

use ir::Func;

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

    fn is_written_by_user(&self, func: Func) -> bool {
        let src = &self.module.funcs[func];
        let mut found = false;
        if src.has_body() {
            src.walk(src.body(), &mut |inst| found |= !self.module.is_library(src.insts[inst].span));
        }
        found
    }
}
