//! Walks and copies functions, for both `opt` and `autodiff`.
//!
//! Everything here treats an instruction as lists of operands, results and regions, and never looks at the
//! op. Only instructions that regions list are alive: instructions and values that no region reaches are not
//! visited.

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};

use rustc_hash::FxHashMap;

use crate::build::Builder;
use crate::entities::{Func, Inst, Region, Value};
use crate::function::{Function, RegionData};
use crate::module::Module;
use crate::ops::Op;

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

    /// Maps a value, replacing an earlier mapping.
    pub fn set(&mut self, from: Value, to: Value) {
        self.map[from] = to.into();
    }

    /// The value that `v` is mapped to, if there is one yet.
    pub fn find(&self, v: Value) -> Option<Value> {
        self.map[v].expand()
    }

    /// The value that `v` is mapped to.
    pub fn at(&self, v: Value) -> Value {
        self.find(v).expect("a value is defined before its use")
    }

    /// Applies [`Self::at`] to each value.
    pub fn all(&self, values: &[Value]) -> Vec<Value> {
        values.iter().map(|&v| self.at(v)).collect()
    }

    /// Removes a mapping.
    pub fn take(&mut self, v: Value) -> Option<Value> {
        self.map[v].take()
    }

    /// The value that `v` is mapped to, or `v` itself, which is right where both sides are the same function.
    pub fn get_or_same(&self, v: Value) -> Value {
        self.find(v).unwrap_or(v)
    }

    /// Applies [`Self::get_or_same`] to each value.
    pub fn map_all(&self, values: &[Value]) -> Vec<Value> {
        values.iter().map(|&v| self.get_or_same(v)).collect()
    }
}

/// A map of values to their copies: [`ValueMap`] where most values are copied, a hash map where few are.
pub trait Renames {
    /// The copy of a value, or the value itself.
    fn renamed(&self, v: Value) -> Value;
    /// Maps a value to its copy.
    fn rename(&mut self, v: Value, copy: Value);
}

impl Renames for ValueMap {
    fn renamed(&self, v: Value) -> Value {
        self.get_or_same(v)
    }

    fn rename(&mut self, v: Value, copy: Value) {
        self.set(v, copy);
    }
}

impl Renames for FxHashMap<Value, Value> {
    fn renamed(&self, v: Value) -> Value {
        self.get(&v).copied().unwrap_or(v)
    }

    fn rename(&mut self, v: Value, copy: Value) {
        self.insert(v, copy);
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
    let (mut known, mut free) = (EntitySet::new(), Vec::new());
    for_each_def(f, region, &mut |v| _ = known.insert(v));
    for_each_use(f, region, &mut |v| {
        if known.insert(v) {
            free.push(v);
        }
    });
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

/// The functions with bodies that the roots reach by any kind of call, the roots included.
pub fn reachable(module: &Module, roots: &[Func]) -> Vec<Func> {
    let (mut seen, mut found, mut open) = (EntitySet::new(), Vec::new(), roots.to_vec());
    while let Some(func) = open.pop() {
        let f = &module.funcs[func];
        if f.has_body() && seen.insert(func) {
            found.push(func);
            open.extend(callees(f));
        }
    }
    found
}

/// Returns true if a function, or one that it reaches, has an op that `is` accepts.
pub fn reaches(module: &Module, func: Func, is: impl Fn(&Op) -> bool) -> bool {
    reachable(module, &[func]).into_iter().any(|func| {
        let (f, mut found) = (&module.funcs[func], false);
        f.walk(f.body(), &mut |inst| found |= is(&f.insts[inst].op));
        found
    })
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
    let copy = copy_one(&mut to.func, Some(from), inst, map);
    let region = to.region();
    to.func.regions[region].insts.push(copy);
    copy
}

/// Appends copies of the instructions of `region` to `out`, as [`copy_insts`] does. They are read from the
/// function `from`, or from `to` itself.
pub fn copy_list(
    to: &mut Function,
    from: Option<&Function>,
    region: Region,
    map: &mut impl Renames,
    out: &mut Vec<Inst>,
) {
    for at in 0..from.unwrap_or(to).regions[region].insts.len() {
        let inst = from.unwrap_or(to).regions[region].insts[at];
        out.push(copy_one(to, from, inst, map));
    }
}

/// A copy of an instruction, with new results and new copies of its regions; the caller inserts it.
pub fn copy_within(func: &mut Function, inst: Inst, map: &mut impl Renames) -> Inst {
    copy_one(func, None, inst, map)
}

fn copy_one(to: &mut Function, from: Option<&Function>, inst: Inst, map: &mut impl Renames) -> Inst {
    let mut data = from.unwrap_or(to).insts[inst].clone();
    data.args.iter_mut().for_each(|arg| *arg = map.renamed(*arg));
    for nested in &mut data.regions {
        *nested = copy_region(to, from, *nested, map);
    }
    copy_values(to, from, &mut data.results, map);
    to.insts.push(data)
}

fn copy_region(to: &mut Function, from: Option<&Function>, region: Region, map: &mut impl Renames) -> Region {
    let copy = to.regions.push(RegionData::default());
    let mut params = from.unwrap_or(to).regions[region].params.clone();
    copy_values(to, from, &mut params, map);
    let mut insts = Vec::new();
    copy_list(to, from, region, map, &mut insts);
    let results = from.unwrap_or(to).regions[region].results.iter().map(|&v| map.renamed(v)).collect();
    to.regions[copy] = RegionData { params, insts, results };
    copy
}

fn copy_values(to: &mut Function, from: Option<&Function>, values: &mut [Value], map: &mut impl Renames) {
    for v in values {
        let data = from.unwrap_or(to).values[*v].clone();
        let copy = to.values.push(data);
        map.rename(*v, copy);
        *v = copy;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_module;

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
    fn free_values_and_uses_are_found() {
        let module = parse_module(TEXT).expect("it parses");
        let func = module.find("f").expect("f is there");
        let f = module.funcs[func].clone();
        let body = f.insts[f.regions[f.body()].insts[0]].regions[0];
        assert_eq!(free_values(&f, body), [Value::from_u32(3)]);
        assert_eq!(use_counts(&f)[Value::from_u32(3)], 3);
        assert_eq!(size(&f, f.body()), 3);
    }
}
