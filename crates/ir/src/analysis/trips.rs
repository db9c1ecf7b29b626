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
