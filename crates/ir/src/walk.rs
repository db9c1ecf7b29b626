//! Walks, copies and renumbers functions, for both `opt` and `autodiff`.
//!
//! Everything here treats an instruction as lists of operands, results and regions, and never looks at the
//! op. Only instructions that regions list are alive: instructions and values that no region reaches are not
//! visited.

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, PrimaryMap, SecondaryMap};

use crate::build::Builder;
use crate::function::{Func, Function, Inst, Region, RegionData, Value};
use crate::types::Types;

/// Maps each value of one function to a value of another function (or of the same one).
#[derive(Clone, Debug, Default)]
pub struct ValueMap {
    map: SecondaryMap<Value, PackedOption<Value>>,
}

impl ValueMap {
    /// An empty map.
    pub fn new() -> ValueMap {
        ValueMap::default()
    }

    /// Maps `from[k]` to `to[k]`.
    pub fn from_pairs(from: &[Value], to: &[Value]) -> ValueMap {
        let mut map = ValueMap::default();
        map.insert_all(from, to);
        map
    }

    /// Maps a value, replacing an earlier mapping.
    pub fn insert(&mut self, from: Value, to: Value) {
        self.map[from] = to.into();
    }

    /// Maps `from[k]` to `to[k]`.
    pub fn insert_all(&mut self, from: &[Value], to: &[Value]) {
        debug_assert_eq!(from.len(), to.len());
        for (&from, &to) in from.iter().zip(to) {
            self.insert(from, to);
        }
    }

    /// The value that `v` is mapped to.
    pub fn get(&self, v: Value) -> Option<Value> {
        self.map[v].expand()
    }

    /// The value that `v` is mapped to, or `v` itself, which is right where both sides are the same function.
    pub fn get_or_same(&self, v: Value) -> Value {
        self.get(v).unwrap_or(v)
    }

    /// Applies [`Self::get_or_same`] to each value.
    pub fn map_all(&self, values: &[Value]) -> Vec<Value> {
        values.iter().map(|&v| self.get_or_same(v)).collect()
    }
}

/// Calls `visit` for each use of a value in `region` and all nested regions: operands, and results of
/// regions.
pub fn for_each_use(f: &Function, region: Region, visit: &mut dyn FnMut(Value)) {
    let data = &f.regions[region];
    for &inst in &data.insts {
        let inst = &f.insts[inst];
        inst.args.iter().for_each(|&v| visit(v));
        for &nested in &inst.regions {
            for_each_use(f, nested, visit);
        }
    }
    data.results.iter().for_each(|&v| visit(v));
}

/// Replaces each use of a value in `region` and all nested regions by the result of `replace`.
pub fn map_uses(f: &mut Function, region: Region, replace: &mut dyn FnMut(Value) -> Value) {
    let insts = std::mem::take(&mut f.regions[region].insts);
    for &inst in &insts {
        for v in &mut f.insts[inst].args {
            *v = replace(*v);
        }
        for k in 0..f.insts[inst].regions.len() {
            map_uses(f, f.insts[inst].regions[k], replace);
        }
    }
    let data = &mut f.regions[region];
    data.insts = insts;
    for v in &mut data.results {
        *v = replace(*v);
    }
}

/// Counts the uses of each value in the function's body, including uses as results of regions.
pub fn use_counts(f: &Function) -> SecondaryMap<Value, u32> {
    let mut counts = SecondaryMap::with_capacity(f.values.len());
    if f.has_body() {
        for_each_use(f, f.body(), &mut |v| counts[v] += 1);
    }
    counts
}

/// Calls `visit` for each value that `region` and all nested regions define: parameters and results.
pub fn for_each_def(f: &Function, region: Region, visit: &mut dyn FnMut(Value)) {
    f.regions[region].params.iter().for_each(|&v| visit(v));
    for &inst in &f.regions[region].insts {
        let inst = &f.insts[inst];
        inst.results.iter().for_each(|&v| visit(v));
        for &nested in &inst.regions {
            for_each_def(f, nested, visit);
        }
    }
}

/// The values that `region` and its nested regions use but do not define, in order of first use.
pub fn free_values(f: &Function, region: Region) -> Vec<Value> {
    free_values_of(f, &[region])
}

/// The free values of several regions together, in order of first use.
pub fn free_values_of(f: &Function, regions: &[Region]) -> Vec<Value> {
    let mut known = EntitySet::new();
    for &region in regions {
        for_each_def(f, region, &mut |v| {
            known.insert(v);
        });
    }
    let mut free = Vec::new();
    for &region in regions {
        for_each_use(f, region, &mut |v| {
            if known.insert(v) {
                free.push(v);
            }
        });
    }
    free
}

/// The number of instructions in `region` and all nested regions.
pub fn size(f: &Function, region: Region) -> usize {
    let mut n = 0;
    f.walk(region, &mut |_| n += 1);
    n
}

/// The number of instructions in a function's body.
pub fn function_size(f: &Function) -> usize {
    if f.has_body() { size(f, f.body()) } else { 0 }
}

/// The functions that a function calls by any kind of call, each once, in order.
pub fn callees(f: &Function) -> Vec<Func> {
    let (mut seen, mut list) = (EntitySet::new(), Vec::new());
    if f.has_body() {
        f.walk(f.body(), &mut |inst| {
            if let Some(callee) = f.insts[inst].op.callee()
                && seen.insert(callee)
            {
                list.push(callee);
            }
        });
    }
    list
}

/// Copies the instructions of `region` (not its parameters) to the open region of `to`. `map` gives the
/// values there for the region's parameters and free values, and receives those for the values that the
/// region defines; a value that is not in the map stands for itself. Returns the region's results.
pub fn copy_insts(from: &Function, region: Region, to: &mut Builder, map: &mut ValueMap) -> Vec<Value> {
    for &inst in &from.regions[region].insts {
        copy_inst(from, inst, to, map);
    }
    map.map_all(&from.regions[region].results)
}

/// Copies one instruction with its regions to the open region of `to`, as [`copy_insts`] does.
pub fn copy_inst(from: &Function, inst: Inst, to: &mut Builder, map: &mut ValueMap) -> Inst {
    let data = &from.insts[inst];
    let args = map.map_all(&data.args);
    let regions: Vec<Region> = data.regions.iter().map(|&r| copy_region(from, r, to, map)).collect();
    let results: Vec<Value> = data.results.iter().map(|&v| copy_value(from, v, to, map)).collect();
    let span = std::mem::replace(&mut to.span, data.span);
    let copy = to.push(data.op.clone(), &args, &results, &regions);
    to.span = span;
    copy
}

/// Copies a region with its parameters and nested regions. The copy is closed, to be attached to an
/// instruction of `to`.
pub fn copy_region(from: &Function, region: Region, to: &mut Builder, map: &mut ValueMap) -> Region {
    let copy = to.open();
    for &param in &from.regions[region].params {
        let v = copy_value(from, param, to, map);
        to.func.regions[copy].params.push(v);
    }
    let results = copy_insts(from, region, to, map);
    to.close(results);
    copy
}

fn copy_value(from: &Function, v: Value, to: &mut Builder, map: &mut ValueMap) -> Value {
    let copy = to.func.values.push(from.values[v].clone());
    map.insert(v, copy);
    copy
}

/// Copies a function without its dead instructions, regions and values, and numbers everything in order.
pub fn compact(types: &mut Types, f: &Function) -> Function {
    if !f.has_body() {
        return f.clone();
    }
    let mut b = Builder::new(types, f.name.clone());
    let mut map = ValueMap::new();
    for (slot, &v) in f.params.iter().zip(&f.regions[f.body()].params) {
        let param = b.param(slot.clone());
        b.func.values[param] = f.values[v].clone();
        map.insert(v, param);
    }
    let results = copy_insts(f, f.body(), &mut b, &mut map);
    let mut copy = b.finish(results, f.results.clone());
    copy.inline = f.inline;
    copy.checkpoint = f.checkpoint;
    copy.reruns = f.reruns;
    copy.fast_math = f.fast_math;
    copy.span = f.span;
    copy
}

/// Duplicates a region within one function, for passes that fill the arenas themselves: values that the
/// region defines are created anew, free values stay.
pub fn duplicate_region(f: &mut Function, region: Region, map: &mut ValueMap) -> Region {
    let data = f.regions[region].clone();
    let mut fresh = |values: &mut PrimaryMap<Value, crate::function::ValueData>, v: Value| {
        let copy = values.push(values[v].clone());
        map.insert(v, copy);
        copy
    };
    let params = data.params.iter().map(|&v| fresh(&mut f.values, v)).collect();
    let mut insts = Vec::with_capacity(data.insts.len());
    for inst in data.insts {
        let mut inst = f.insts[inst].clone();
        inst.args.iter_mut().for_each(|v| *v = map.get_or_same(*v));
        for nested in &mut inst.regions {
            *nested = duplicate_region(f, *nested, map);
        }
        for v in &mut inst.results {
            let copy = f.values.push(f.values[*v].clone());
            map.insert(*v, copy);
            *v = copy;
        }
        insts.push(f.insts.push(inst));
    }
    let results = map.map_all(&data.results);
    f.regions.push(RegionData { params, insts, results })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_module;
    use crate::print::print_function;

    const TEXT: &str = "func f(v3: f32, v9: u32) -> (f32) {
    v7 = for v9, v3 (v10, v11) {
        v12 = add v11, v3
        yield v12
    }
    v20 = mul v7, v3
    yield v20
}
";

    #[test]
    fn compact_renumbers_and_free_values_are_found() {
        let mut module = parse_module(TEXT).expect("it parses");
        let func = module.find("f").expect("f is there");
        let f = module.funcs[func].clone();
        let body = f.insts[f.regions[f.body()].insts[0]].regions[0];
        assert_eq!(free_values(&f, body), [Value::from_u32(3)]);
        assert_eq!(use_counts(&f)[Value::from_u32(3)], 3);
        assert_eq!(size(&f, f.body()), 3);
        let small = compact(&mut module.types, &f);
        assert_eq!(small.values.len(), 7);
        let want = "func f(v0: f32, v1: u32) -> (f32) {
    v5 = for v1, v0 (v2, v3) {
        v4 = add v3, v0
        yield v4
    }
    v6 = mul v5, v0
    yield v6
}
";
        assert_eq!(print_function(&module, &small), want);
    }
}
