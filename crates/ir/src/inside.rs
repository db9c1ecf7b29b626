//! Reads of stacks that are certainly inside.
//!
//! A `for` of `n` trips leaves stacks of `n` elements, and the loop that reverses it reads them by its counter, of `n` trips
//! as well (or of no more, where both numbers are constants): `index` then needs no look at the length. Of a stack that is
//! itself an element of a stack, what the loop that made it yielded says how long it is.

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::function::{Function, Inst, Value};
use crate::ops::Op;
use crate::types::{TypeData, Types};

/// Stacks of stacks are looked through this far.
const DEEP: u32 = 4;

/// The results of those `index` ops of stacks that no run can find outside.
pub fn reads_inside(types: &Types, f: &Function) -> EntitySet<Value> {
    let mut found =
        Inside { f, defs: SecondaryMap::new(), trips: SecondaryMap::new(), inside: EntitySet::new() };
    let mut reads = Vec::new();
    f.walk(f.body(), &mut |inst| {
        let data = &f.insts[inst];
        for &r in &data.results {
            found.defs[r] = inst.into();
        }
        match data.op {
            Op::For(_) => found.trips[f.regions[data.regions[0]].params[0]] = data.args[0].into(),
            Op::Index if matches!(types[f.ty(data.args[0])], TypeData::Stack(_)) => reads.push(inst),
            _ => {}
        }
    });
    for read in reads {
        let data = &f.insts[read];
        let len = found.len(data.args[0], DEEP);
        if let (Some(len), Some(trips)) = (len, found.below(data.args[1]))
            && found.at_most(trips, len)
        {
            found.inside.insert(data.results[0]);
        }
    }
    found.inside
}

struct Inside<'f> {
    f: &'f Function,
    defs: SecondaryMap<Value, PackedOption<Inst>>,
    /// The number of trips of the `for` whose counter this is.
    trips: SecondaryMap<Value, PackedOption<Value>>,
    inside: EntitySet<Value>,
}

impl Inside<'_> {
    fn op(&self, v: Value) -> Option<&Op> {
        self.defs[v].expand().map(|inst| &self.f.insts[inst].op)
    }

    fn constant(&self, v: Value) -> Option<u64> {
        match self.op(v)? {
            Op::Const(bits) => Some(*bits).filter(|&n| n <= i32::MAX as u64),
            _ => None,
        }
    }

    /// Whether one number of trips is the other or known to be no larger.
    fn at_most(&self, trips: Value, len: Value) -> bool {
        trips == len
            || matches!((self.constant(trips), self.constant(len)), (Some(trips), Some(len)) if trips <= len)
    }

    /// A number of trips that `i` is below: that of the loop whose counter `i` is, or that counter from the other end.
    fn below(&self, i: Value) -> Option<Value> {
        if let Some(n) = self.trips[i].expand() {
            return Some(n);
        }
        let data = &self.f.insts[self.defs[i].expand()?];
        if data.op != Op::Sub {
            return None;
        }
        let n = self.trips[data.args[1]].expand()?;
        let last = data.args[0];
        let is_last = match (self.constant(last), self.constant(n)) {
            (Some(last), Some(n)) => last.checked_add(1) == Some(n),
            _ => self.defs[last].expand().is_some_and(|inst| {
                let data = &self.f.insts[inst];
                data.op == Op::Sub && data.args[0] == n && self.constant(data.args[1]) == Some(1)
            }),
        };
        is_last.then_some(n)
    }

    /// A number of elements that a stack has at least: that of the trips of the `for` that made it.
    fn len(&self, stack: Value, depth: u32) -> Option<Value> {
        let (maker, k) = self.maker(stack)?;
        let data = &self.f.insts[maker];
        match data.op {
            Op::For(_) => (k + 1 >= data.args.len()).then_some(data.args[0]),
            Op::Index if depth > 0 && self.inside.contains(stack) => {
                let (outer, k) = self.maker(data.args[0])?;
                let yielded = match self.f.insts[outer].op {
                    Op::For(_) => self.f.regions[self.f.insts[outer].regions[0]].results[k],
                    _ => return None,
                };
                // Another trip's number of trips is no value here, unless it is always the same.
                self.len(yielded, depth - 1).filter(|&n| self.constant(n).is_some())
            }
            _ => None,
        }
    }

    fn maker(&self, v: Value) -> Option<(Inst, usize)> {
        let inst = self.defs[v].expand()?;
        let k = self.f.insts[inst].results.iter().position(|&r| r == v)?;
        Some((inst, k))
    }
}

#[cfg(test)]
mod tests {
    use super::reads_inside;

    #[test]
    fn reads_by_counters_of_as_many_trips() {
        let text = "
func f(v0: u32, v1: u32, v2: f32) -> (f32, f32) {
    v3: u32 = const 3
    v4: u32 = const 4
    v5: u32 = const 1
    v6 = for v0 (v7) {
        yield v2
    }
    v8, v9 = for v4, v2 (v10, v11) {
        v12 = for v3 (v13) {
            yield v2
        }
        yield v11, v12
    }
    v14 = for down v0, v2 (v15, v16) {
        v17 = index v6, v15
        yield v17
    }
    v18 = for v1, v2 (v19, v20) {
        v21 = index v6, v19
        yield v21
    }
    v22 = sub v0, v5
    v23 = for v0, v2 (v24, v25) {
        v26 = sub v22, v24
        v27 = sub v0, v24
        v28 = index v6, v26
        v29 = index v6, v27
        v30 = add v28, v29
        yield v30
    }
    v31 = for down v4, v2 (v32, v33) {
        v34 = index v9, v32
        v35 = for v3, v33 (v36, v37) {
            v38 = index v34, v36
            yield v38
        }
        v39 = for v4, v35 (v40, v41) {
            v42 = index v34, v40
            yield v42
        }
        yield v39
    }
    v43 = add v14, v18
    v44 = add v43, v23
    yield v44, v31
}
";
        let module = crate::parse::parse_module(text).expect("is a module");
        let f = module.funcs.values().next().expect("has a function");
        let inside = reads_inside(&module.types, f);
        let found: Vec<String> =
            f.values.keys().filter(|&v| inside.contains(v)).map(|v| v.to_string()).collect();
        assert_eq!(found, ["v17", "v28", "v34", "v38"]);
    }
}
