//! Finds which trip of which loop a number is, and which reads of stacks are certainly in range.
//!
//! The trip `t` of a `for` of `n` trips is its counter, or its counter subtracted from `n - 1`, as in a loop
//! that reverses another.
//!
//! A `for` of `n` trips produces stacks of `n` elements, and the loop that reverses it reads them by its
//! trips, of which there are also `n` (or no more, where both numbers are constants). `index` then needs no
//! check of the length. A `loop` produces stacks of as many elements as it makes trips, and the number is
//! known if the loop counts them. A stack that is itself an element of a stack was produced by an inner loop
//! during that trip of the outer loop. The same holds for the number of the inner loop's trips where that
//! number is an element of a stack, too.
//!
//! A value that is visible both in the loop that made a stack and where the stack is read was computed before
//! that loop, since nothing in a loop's body is visible after the loop. It is therefore the same number in
//! both places.

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};

use super::{Analyses, Defs, dense};
use crate::entities::{Inst, Value};
use crate::function::Function;
use crate::ops::Op;
use crate::types::{TypeData, Types};

/// The nesting depth to which stacks of stacks are followed.
const DEEP: u32 = 4;

/// The counters of a function's `for` loops.
pub struct Trips(SecondaryMap<Value, PackedOption<Inst>>);

impl Trips {
    /// Finds the counters of all loops.
    pub fn of(func: &Function) -> Trips {
        let mut counter = dense(func.values.len());
        if func.has_body() {
            func.walk(func.body(), &mut |inst| {
                let data = &func.insts[inst];
                if let Op::For(_) = data.op {
                    counter[func.regions[data.regions[0]].params[0]] = inst.into();
                }
            });
        }
        Trips(counter)
    }

    /// The loop that a value is the counter of.
    pub fn counter(&self, v: Value) -> Option<Inst> {
        self.0[v].expand()
    }

    /// The loop that a value is a trip of.
    pub fn trip(&self, types: &Types, func: &Function, defs: &Defs, v: Value) -> Option<Inst> {
        if let Some(of) = self.counter(v) {
            return Some(of);
        }
        let data = defs.inst(v).map(|inst| &func.insts[inst]).filter(|data| data.op == Op::Sub)?;
        let of = self.counter(data.args[1])?;
        is_last_trip(types, func, defs, data.args[0], func.insts[of].args[0]).then_some(of)
    }
}

/// Returns true if `last` is `n - 1`, the last trip of a loop of `n` trips.
pub fn is_last_trip(types: &Types, func: &Function, defs: &Defs, last: Value, n: Value) -> bool {
    let constant = |v: Value| defs.scalar(types, func, v).map(|c| c.1);
    if let (Some(last), Some(n)) = (constant(last), constant(n)) {
        return n > 0 && last == n - 1;
    }
    defs.inst(last)
        .map(|inst| &func.insts[inst])
        .is_some_and(|data| data.op == Op::Sub && data.args[0] == n && constant(data.args[1]) == Some(1))
}

/// The results of those `index` ops on stacks whose index is in range in every run.
pub fn reads_in_range(types: &Types, f: &Function) -> EntitySet<Value> {
    let analyses = Analyses::of(types, f);
    let mut found = Reads { analyses: &analyses, f, inside: EntitySet::new() };
    f.walk(f.body(), &mut |inst| {
        let data = &f.insts[inst];
        if data.op == Op::Index
            && let TypeData::Stack(_) = types[f.ty(data.args[0])]
            && let Some(of) = analyses.trip(data.args[1])
            && found.holds(data.args[0], f.insts[of].args[0], DEEP)
        {
            found.inside.insert(data.results[0]);
        }
    });
    found.inside
}

struct Reads<'f> {
    analyses: &'f Analyses<'f>,
    f: &'f Function,
    inside: EntitySet<Value>,
}

impl Reads<'_> {
    fn constant(&self, v: Value) -> Option<u64> {
        self.analyses.constant(v).filter(|&n| n <= i32::MAX as u64)
    }

    /// Returns true if `trips` is the same number as `len` or is known to be no larger.
    fn at_most(&self, trips: Value, len: Value) -> bool {
        trips == len
            || matches!((self.constant(trips), self.constant(len)), (Some(trips), Some(len)) if trips <= len)
    }

    /// Returns true if a stack has at least `trips` elements.
    fn holds(&self, stack: Value, trips: Value, depth: u32) -> bool {
        let Some((maker, k)) = self.analyses.defs().result(stack) else { return false };
        let data = &self.f.insts[maker];
        match data.op {
            Op::For(_) => k + 1 >= data.args.len() && self.at_most(trips, data.args[0]),
            Op::Loop(_) => k >= data.args.len() && self.counts(maker, trips),
            Op::Index if depth > 0 => {
                let Some((outer, yielded)) = self.yielded(data.args[0]) else { return false };
                if self.inside.contains(stack) && self.holds(yielded, trips, depth - 1) {
                    return true;
                }
                // Both numbers must come from the same trip of the outer loop.
                let Some(count) = self.analyses.def(trips) else { return false };
                count.op == Op::Index
                    && count.args[1] == data.args[1]
                    && self
                        .yielded(count.args[0])
                        .is_some_and(|(of, trips)| of == outer && self.holds(yielded, trips, depth - 1))
            }
            _ => false,
        }
    }

    /// Returns true if a value is the number of trips of a `loop`: a carried value that starts at 0 and grows
    /// by 1 in each trip.
    fn counts(&self, maker: Inst, v: Value) -> bool {
        let data = &self.f.insts[maker];
        let region = &self.f.regions[data.regions[0]];
        let Some(k) = data.results.iter().position(|&r| r == v).filter(|&k| k < data.args.len()) else {
            return false;
        };
        let Some(next) = self.analyses.def(region.results[1 + k]) else { return false };
        let one = |v: &Value| self.constant(*v) == Some(1);
        self.constant(data.args[k]) == Some(0)
            && next.op == Op::Add
            && next.args.contains(&region.params[k])
            && next.args.iter().any(one)
    }

    /// The loop that made a stack, and the value that each of its trips pushes on the stack.
    fn yielded(&self, stack: Value) -> Option<(Inst, Value)> {
        let (maker, k) = self.analyses.defs().result(stack)?;
        let data = &self.f.insts[maker];
        let at = match data.op {
            Op::For(_) => k,
            Op::Loop(_) => k + 1,
            _ => return None,
        };
        Some((maker, self.f.regions[data.regions[0]].results[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::reads_in_range;

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
        assert_eq!(inside(text), ["v17", "v28", "v34", "v38"]);
    }

    fn inside(text: &str) -> Vec<String> {
        let module = crate::parse::parse_module(text).expect("is a module");
        let f = module.funcs.values().next().expect("has a function");
        let inside = reads_in_range(&module.types, f);
        f.values.keys().filter(|&v| inside.contains(v)).map(|v| v.to_string()).collect()
    }

    #[test]
    fn reads_by_the_trips_that_a_loop_counted() {
        // `v5` counts from 0 by 1; `v4` does not.
        let text = "
func f(v0: f32, v1: u32, v2: u32) -> (f32, f32) {
    v3, v4, v5, v6 = loop v0, v1, v2 (v7, v8, v9) {
        v10: f32 = const 9.0
        v11: u32 = const 1
        v12 = add v7, v0
        v13 = add v8, v11
        v14 = add v9, v11
        v15 = lt v12, v10
        yield v15, v12, v13, v14, v7
    }
    v16 = for down v5, v0 (v17, v18) {
        v19 = index v6, v17
        yield v19
    }
    v20 = for down v4, v0 (v21, v22) {
        v23 = index v6, v21
        yield v23
    }
    yield v16, v20
}
";
        assert!(inside(text).is_empty());
        let from_zero = text.replace(
            "v0: f32, v1: u32, v2: u32) -> (f32, f32) {",
            "v0: f32, v1: u32) -> (f32, f32) {
    v2: u32 = const 0",
        );
        assert_eq!(inside(&from_zero), ["v19"]);
        let by_two = from_zero.replace("v11: u32 = const 1", "v11: u32 = const 2");
        assert!(inside(&by_two).is_empty());
    }

    #[test]
    fn reads_of_inner_loops() {
        // The inner loops have a different number of trips in each trip of the outer loop, or the same
        // number.
        let text = "
func f(v0: f32, v1: u32, v2: u32) -> (f32) {
    v3: u32 = const 0
    v4: u32 = const 1
    v5: f32 = const 9.0
    v6, v7, v8 = for v1, v0 (v9, v10) {
        v11, v12, v13 = loop v10, v3 (v14, v15) {
            v16 = add v14, v0
            v17 = add v15, v4
            v18 = lt v16, v5
            yield v18, v16, v17, v14
        }
        yield v11, v12, v13
    }
    v20 = for v2 (v21) {
        v22 = for v9_ (v23) {
            yield v0
        }
        yield v22
    }
    v30 = for down v1, v6 (v31, v32) {
        v33 = index v7, v31
        v34 = index v8, v31
        v35 = for down v33, v32 (v36, v37) {
            v38 = index v34, v36
            yield v38
        }
        yield v35
    }
    v40 = for down v2, v30 (v41, v42) {
        v43 = index v20, v41
        v44 = for down v9_, v42 (v45, v46) {
            v47 = index v43, v45
            yield v47
        }
        v48 = index v7, v3
        v49 = for down v48, v44 (v50, v51) {
            v52 = index v43, v50
            yield v52
        }
        yield v49
    }
    yield v40
}
";
        assert_eq!(inside(&text.replace("v9_", "v1")), ["v33", "v34", "v38", "v43", "v47"]);
    }
}
