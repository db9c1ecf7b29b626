//! Copies instructions of one function into another that is being built, and renames their values.

use ir::{Builder, Function, Inst, Type, Value};

/// Maps each source value to its copy, if there is one yet.
pub(crate) use ir::walk::ValueMap as Renaming;

/// Makes values of the given types, which may be defined later.
pub(crate) fn fresh(b: &mut Builder, types: impl IntoIterator<Item = Type>, linear: bool) -> Vec<Value> {
    types.into_iter().map(|ty| b.value(ty, linear)).collect()
}

/// Makes a value with the type and name of a source value; `linear` is its mark.
pub(crate) fn like(b: &mut Builder, src: &Function, v: Value, linear: bool) -> Value {
    let data = &src.values[v];
    let differential = data.differential || linear;
    b.func.values.push(ir::ValueData { ty: data.ty, linear, differential, name: data.name.clone() })
}

/// Adds a parameter like a source value to the open region.
pub(crate) fn region_param_like(b: &mut Builder, src: &Function, v: Value, linear: bool) -> Value {
    let param = like(b, src, v, linear);
    let region = b.region();
    b.func.regions[region].params.push(param);
    param
}

/// Copies an instruction and everything nested in it. What is emitted next has its place in the source.
pub(crate) fn copy_inst(b: &mut Builder, src: &Function, inst: Inst, map: &mut Renaming) {
    b.span = src.insts[inst].span;
    ir::walk::copy_inst(src, inst, b, map);
}
