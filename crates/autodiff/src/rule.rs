//! Derivatives that are written by hand, as functions of differentials.
//!
//! A rule computes with numbers, among which an absent differential is the number 0, and `0 * inf` is NaN. So where a
//! rule is linear in its differentials, as [`crate::propagate`] finds out, what runs is its marked variant, whose
//! arithmetic is that of differentials. A rule that is not linear is given numbers, and gives some.

use ir::Func;
use rustc_hash::FxHashMap;

use crate::engine::{Engine, Mask, Shape};

impl Engine<'_> {
    /// The marked variant of a rule whose parameters from number `shape.params` on are differentials, as are its results
    /// from number `shape.results` on; `None` if it is not linear in them.
    pub(crate) fn marked_rule(&mut self, rule: Func, shape: Shape) -> Option<Func> {
        if !self.module.funcs[rule].has_body() {
            return None;
        }
        let known = self.shapes.insert(rule, shape);
        let n = self.module.funcs[rule].params.len();
        let tangents: Mask = (0..n).map(|k| k >= shape.params).collect();
        let n_problems = self.problems.len();
        let marked = self.propagate(rule, &tangents);
        let is_linear = self.problems.len() == n_problems;
        self.problems.truncate(n_problems);
        match known {
            Some(known) => self.shapes.insert(rule, known),
            None => self.shapes.remove(&rule),
        };
        // Who needs the variant is told why there is none.
        self.propagated.retain(|_, made| made.is_some());
        marked.filter(|_| is_linear)
    }

    /// The same without marks: what forward mode calls.
    pub(crate) fn plain_rule(&mut self, rule: Func, shape: Shape) -> Option<Func> {
        let marked = self.marked_rule(rule, shape)?;
        let mut copies = std::mem::take(&mut self.unmarked);
        let plain = self.without_marks(marked, &mut copies);
        self.unmarked = copies;
        self.shapes.insert(plain, shape);
        Some(plain)
    }
}

/// Copies of marked functions without marks.
pub(crate) type Unmarked = FxHashMap<Func, Func>;
