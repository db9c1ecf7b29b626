//! Copies instructions of one function into another that is being built, and renames their values.

use ir::{Builder, Function, Inst, Op, Scalar, Type, Value};

/// Maps each source value to its copy, if there is one yet.
pub(crate) use ir::walk::ValueMap as Renaming;

/// Makes values of the given types, which may be defined later.
pub(crate) fn fresh(b: &mut Builder, types: impl IntoIterator<Item = Type>) -> Vec<Value> {
    types.into_iter().map(|ty| b.value(ty)).collect()
}

/// Makes linear values of the given types, which may be defined later.
pub(crate) fn linear_fresh(b: &mut Builder, types: impl IntoIterator<Item = Type>) -> Vec<Value> {
    types.into_iter().map(|ty| b.linear_value(ty)).collect()
}

/// Makes a value with the type and name of a source value, and without its mark.
pub(crate) fn like(b: &mut Builder, src: &Function, v: Value) -> Value {
    b.func.values.push(ir::ValueData { linear: false, ..src.values[v].clone() })
}

/// Makes a linear value with the type and name of a source value.
pub(crate) fn linear_like(b: &mut Builder, src: &Function, v: Value) -> Value {
    b.func.values.push(ir::ValueData { linear: true, differential: true, ..src.values[v].clone() })
}

/// Counts a trip of a loop of `n` trips from the end: `n - 1 - trip`.
pub(crate) fn mirror(b: &mut Builder, n: Value, trip: Value) -> Value {
    let scalar = b.types.scalar_of(b.func.ty(n)).unwrap_or(Scalar::U32);
    let one = b.constant(scalar, 1);
    let last = b.emit(Op::Sub, &[n, one]);
    b.emit(Op::Sub, &[last, trip])
}

/// Adds a parameter like a source value to the open region.
pub(crate) fn region_param_like(b: &mut Builder, src: &Function, v: Value) -> Value {
    let param = like(b, src, v);
    b.add_region_param(param)
}

/// Adds a linear parameter like a source value to the open region.
pub(crate) fn linear_region_param_like(b: &mut Builder, src: &Function, v: Value) -> Value {
    let param = linear_like(b, src, v);
    b.add_region_param(param)
}

/// Copies an instruction and everything nested in it. What is emitted next has its place in the source.
pub(crate) fn copy_inst(b: &mut Builder, src: &Function, inst: Inst, map: &mut Renaming) {
    b.span = src.insts[inst].span;
    ir::walk::copy_inst(src, inst, b, map);
}
