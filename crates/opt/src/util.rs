//! Helpers shared by the passes: definitions of values, substitutions, copies of regions.
//!
//! A pass walks regions in order and rebuilds each list of instructions. A value that a pass replaces is not
//! rewritten at its uses at once but recorded in a [`Subst`], through which every later operand is read. That
//! is right because a definition always comes before its uses in the walk, except for the results of a loop's
//! body, which are read after the body.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use ir::{Function, Inst, Op, Region, Span, Type, TypeData, Types, Value};

/// A substitution of values by others.
#[derive(Default)]
pub(crate) struct Subst(SecondaryMap<Value, PackedOption<Value>>);

impl Subst {
    /// The value that currently replaces `v`.
    pub(crate) fn get(&self, mut v: Value) -> Value {
        while let Some(next) = self.0[v].expand() {
            v = next;
        }
        v
    }

    /// Replaces `from` by `to` from here on.
    pub(crate) fn set(&mut self, from: Value, to: Value) {
        let to = self.get(to);
        if from != to {
            self.0[from] = to.into();
        }
    }

    /// Applies the substitution to an instruction's operands.
    pub(crate) fn apply(&self, func: &mut Function, inst: Inst) {
        for arg in &mut func.insts[inst].args {
            *arg = self.get(*arg);
        }
    }

    /// Applies the substitution to a region's results.
    pub(crate) fn apply_results(&self, func: &mut Function, region: Region) {
        for v in &mut func.regions[region].results {
            *v = self.get(*v);
        }
    }

    /// Applies the substitution to all operands and results.
    pub(crate) fn apply_everywhere(&self, func: &mut Function) {
        func.insts.values_mut().flat_map(|data| &mut data.args).for_each(|v| *v = self.get(*v));
        func.regions.values_mut().flat_map(|data| &mut data.results).for_each(|v| *v = self.get(*v));
    }
}

/// The number of elements of a vector or array.
pub(crate) fn length(types: &Types, ty: Type) -> Option<u32> {
    match types[ty] {
        TypeData::Vector(_, n) | TypeData::Array(_, n) => Some(n),
        TypeData::Scalar(_)
        | TypeData::Stack(_)
        | TypeData::Cell(_)
        | TypeData::Buffer(_)
        | TypeData::Residuals(_) => None,
    }
}

/// Keeps those results of a control instruction that `keep` marks, and all results beyond the end of `keep`,
/// with the yields and carried values that belong to them.
pub(crate) fn keep_results(func: &mut Function, inst: Inst, keep: &[bool]) {
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

/// Makes an instruction with one result that is not linear; the caller inserts it.
pub(crate) fn make_number(
    func: &mut Function,
    op: Op,
    args: &[Value],
    ty: Type,
    span: Span,
) -> (Inst, Value) {
    func.make_value(op, args, ir::ValueData::new(ty, false), span)
}

/// Makes an instruction with one result; the caller inserts it.
pub(crate) fn make(
    func: &mut Function,
    op: Op,
    args: &[Value],
    ty: Type,
    linear: bool,
    span: Span,
) -> (Inst, Value) {
    func.make_value(op, args, ir::ValueData::new(ty, linear), span)
}

/// Maps values to their copies; a value that is not in the map stands for itself.
pub(crate) type ValueMap = FxHashMap<Value, Value>;
