//! Transformations that both `opt` and `autodiff` need: inlining, common subexpressions, dead code.
//!
//! A pass walks regions in order and rebuilds each list of instructions. A value that a pass replaces is not
//! rewritten at its uses at once but recorded in a [`Subst`], through which every later operand is read. That
//! is right because a definition always comes before its uses in the walk, except for the results of a loop's
//! body, which are read after the body.

mod carried;
pub mod cse;
pub mod dce;
pub mod inline;

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use smallvec::SmallVec;

use crate::entities::{Inst, Region, Value};
use crate::function::Function;

/// A substitution of values by others.
#[derive(Default)]
pub struct Subst(SecondaryMap<Value, PackedOption<Value>>);

impl Subst {
    /// The value that currently replaces `v`.
    pub fn get(&self, mut v: Value) -> Value {
        while let Some(next) = self.0[v].expand() {
            v = next;
        }
        v
    }

    /// Replaces `from` by `to` from here on.
    pub fn set(&mut self, from: Value, to: Value) {
        let to = self.get(to);
        if from != to {
            self.0[from] = to.into();
        }
    }

    /// Applies the substitution to an instruction's operands.
    pub fn apply(&self, func: &mut Function, inst: Inst) {
        for arg in &mut func.insts[inst].args {
            *arg = self.get(*arg);
        }
    }

    /// Applies the substitution to a region's results.
    pub fn apply_results(&self, func: &mut Function, region: Region) {
        for v in &mut func.regions[region].results {
            *v = self.get(*v);
        }
    }

    /// Applies the substitution to all operands and results.
    pub fn apply_everywhere(&self, func: &mut Function) {
        func.insts.values_mut().flat_map(|data| &mut data.args).for_each(|v| *v = self.get(*v));
        func.regions.values_mut().flat_map(|data| &mut data.results).for_each(|v| *v = self.get(*v));
    }
}

/// Keeps those results of a control instruction that `keep` marks, and all results beyond the end of `keep`,
/// with the yields and carried values that belong to them.
pub fn keep_results(func: &mut Function, inst: Inst, keep: &[bool]) {
    let data = &mut func.insts[inst];
    let (args, params, yields) = data.op.carried_at();
    let n_carried = data.n_carried();
    let retained = |first: usize, keep: &[bool]| {
        let keep: SmallVec<[bool; 16]> =
            std::iter::repeat_n(true, first).chain(keep.iter().copied()).collect();
        let mut marks = keep.into_iter();
        move || marks.next().unwrap_or(true)
    };
    let mut next = retained(0, keep);
    data.results.retain(|_| next());
    let carried = &keep[..n_carried.min(keep.len())];
    if n_carried > 0 {
        let mut next = retained(args, carried);
        data.args.retain(|_| next());
    }
    for region in data.regions.clone() {
        let mut next = retained(yields, keep);
        func.regions[region].results.retain(|_| next());
        if n_carried > 0 {
            let mut next = retained(params, carried);
            func.regions[region].params.retain(|_| next());
        }
    }
}
