//! User-written derivatives, as functions of differentials.
//!
//! A rule computes with numbers, so an absent differential is the number 0 in it, and `0 * inf` is NaN. If a
//! rule is linear in its differentials, as [`crate::propagate`] determines, its marked variant runs instead,
//! whose arithmetic is that of differentials. A rule that is not linear takes and returns plain numbers.

use ir::Func;

use crate::engine::Engine;
use crate::shape::{Mask, Shape};

impl Engine<'_> {
    /// The marked variant of a rule whose parameters from index `shape.params` on are differentials, as are
    /// its results from index `shape.results` on; `None` if the rule is not linear in them.
    pub(crate) fn marked_rule(&mut self, rule: Func, shape: Shape) -> Option<Func> {
        if !self.module.funcs[rule].has_body() {
            return None;
        }
        let known = self.roles.shapes.insert(rule, shape);
        let n = self.module.funcs[rule].params.len();
        let tangents: Mask = (0..n).map(|k| k >= shape.params).collect();
        let n_problems = self.found.problems.len();
        let marked = self.propagate(rule, &tangents);
        let is_linear = self.found.problems.len() == n_problems;
        self.found.problems.truncate(n_problems);
        match known {
            Some(known) => self.roles.shapes.insert(rule, known),
            None => self.roles.shapes.remove(&rule),
        };
        // Forget failures, so that a caller that needs the variant gets the errors reported.
        self.made.propagated.retain(|_, made| made.is_some());
        marked.filter(|_| is_linear)
    }

    /// The marked variant without its marks, for forward mode.
    pub(crate) fn plain_rule(&mut self, rule: Func, shape: Shape) -> Option<Func> {
        let marked = self.marked_rule(rule, shape)?;
        let mut copies = std::mem::take(&mut self.made.unmarked);
        let plain = self.without_marks(marked, &mut copies);
        self.made.unmarked = copies;
        self.roles.shapes.insert(plain, shape);
        Some(plain)
    }
}
