//! Copies instructions of one function into another that is being built, and renames their values.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use ir::{Builder, Function, Inst, Region, Type, Value};
use smallvec::SmallVec;

/// Maps each source value to its copy, if there is one yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Renaming(SecondaryMap<Value, PackedOption<Value>>);

impl Renaming {
    pub(crate) fn find(&self, v: Value) -> Option<Value> {
        self.0[v].expand()
    }

    /// The copy of a value that has been defined.
    pub(crate) fn at(&self, v: Value) -> Value {
        self.0[v].expand().expect("a value is defined before its use")
    }

    pub(crate) fn all(&self, values: &[Value]) -> Vec<Value> {
        values.iter().map(|&v| self.at(v)).collect()
    }

    pub(crate) fn set(&mut self, from: Value, to: Value) {
        self.0[from] = Some(to).into();
    }

    pub(crate) fn take(&mut self, v: Value) -> Option<Value> {
        self.0[v].take()
    }
}

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

/// Copies an instruction and everything nested in it.
pub(crate) fn copy_inst(b: &mut Builder, src: &Function, inst: Inst, map: &mut Renaming) {
    let data = &src.insts[inst];
    let regions: SmallVec<[Region; 2]> = data.regions.iter().map(|&r| copy_region(b, src, r, map)).collect();
    let args: SmallVec<[Value; 4]> = data.args.iter().map(|&v| map.at(v)).collect();
    let mut results: SmallVec<[Value; 2]> = SmallVec::new();
    for &v in &data.results {
        let copy = like(b, src, v, src.is_linear(v));
        map.set(v, copy);
        results.push(copy);
    }
    b.span = data.span;
    b.push(data.op.clone(), &args, &results, &regions);
}

fn copy_region(b: &mut Builder, src: &Function, region: Region, map: &mut Renaming) -> Region {
    let copy = b.open();
    for &param in &src.regions[region].params {
        let to = region_param_like(b, src, param, src.is_linear(param));
        map.set(param, to);
    }
    for &inst in &src.regions[region].insts {
        copy_inst(b, src, inst, map);
    }
    let results = map.all(&src.regions[region].results);
    b.close(results);
    copy
}
