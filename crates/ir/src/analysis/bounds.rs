//! Bounds integers from above, and the number of trips of loops.
//!
//! [`Bounds::upper`] is sound: `0 ≤ v ≤ bound` holds wherever `v` is computed. So is [`Bounds::trips`]: it
//! follows from the user's `[MaxIters]`, or from a counter that goes up or down by a constant and is compared
//! with a bound whenever the loop continues ([`implied`](super::implied)).
//!
//! One walk in the order of the text finds all bounds, since a definition comes before its uses. Only the
//! carried values of a loop are used before they are known; they have no bound in the loop, and one behind it
//! if they grow by a constant in each trip. Bounds are below the middle of a type's range, so neither signs
//! nor wrapping matter.

use cranelift_entity::SecondaryMap;

use super::implied::{Implied, step};
use super::{Defs, dense};
use crate::entities::{Inst, Region, Value};
use crate::function::{Function, InstData};
use crate::ops::{Builtin, Math, Op};
use crate::types::{Scalar, TypeData, Types};

/// The bounds of a function's integers and loops.
#[derive(Default)]
pub struct Bounds {
    upper: SecondaryMap<Value, Option<u64>>,
    trips: SecondaryMap<Inst, Option<u64>>,
}

impl Bounds {
    /// Finds the bounds of a function that thread groups of any size run.
    pub fn of(types: &Types, func: &Function, defs: &Defs) -> Bounds {
        Bounds::in_groups(types, func, defs, None)
    }

    /// Finds the bounds of a function that thread groups of at most this size run.
    pub fn in_groups(types: &Types, func: &Function, defs: &Defs, group: Option<[u32; 3]>) -> Bounds {
        let bounds = Bounds { upper: dense(func.values.len()), trips: SecondaryMap::new() };
        let mut find = Find { types, func, group, defs, bounds };
        if func.has_body() {
            find.region(func.body());
        }
        find.bounds
    }

    /// An upper bound of an integer; if there is one, the integer is not negative.
    pub fn upper(&self, v: Value) -> Option<u64> {
        self.upper[v]
    }

    /// Returns true if `0 <= v < len` is certain.
    pub fn below(&self, v: Value, len: u64) -> bool {
        self.upper(v).is_some_and(|most| most < len)
    }

    /// The maximum number of times that the body of a loop runs.
    pub fn trips(&self, inst: Inst) -> Option<u64> {
        self.trips[inst]
    }
}

struct Find<'f> {
    types: &'f Types,
    func: &'f Function,
    group: Option<[u32; 3]>,
    defs: &'f Defs,
    bounds: Bounds,
}

impl Find<'_> {
    fn region(&mut self, region: Region) {
        let func = self.func;
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            if let Op::For(_) = data.op
                && let Some(last) = self.upper_or_max(data.args[0]).map(|n| n.saturating_sub(1))
            {
                self.set(func.regions[data.regions[0]].params[0], last);
            }
            data.regions.iter().for_each(|&nested| self.region(nested));
            match data.op {
                Op::For(info) => self.a_loop(inst, info.max_iters, self.bounds.upper(data.args[0])),
                // The trip in which `again` is false is one more.
                Op::Loop(info) => self.a_loop(inst, info.max_iters, self.counted(data)),
                Op::If | Op::Switch(_) => {
                    for (k, &r) in data.results.iter().enumerate() {
                        let mut arms = data.regions.iter().map(|&arm| func.regions[arm].results[k]);
                        let most = arms.try_fold(0, |most, v| Some(self.upper_or_max(v)?.max(most)));
                        most.into_iter().for_each(|most| self.set(r, most));
                    }
                }
                _ => {
                    if let &[r] = &data.results[..]
                        && let Some(most) = self.computed(data, r)
                    {
                        self.set(r, most);
                    }
                }
            }
        }
    }

    fn scalar(&self, v: Value) -> Option<Scalar> {
        match self.types[self.func.ty(v)] {
            TypeData::Scalar(s) if s.is_int() => Some(s),
            _ => None,
        }
    }

    /// Sets a bound, unless it is too large to be sure of signs and wrapping.
    fn set(&mut self, v: Value, most: u64) {
        self.bounds.upper[v] = self.scalar(v).map(|_| most).filter(|&most| most <= self.greatest(v));
    }

    /// The greatest number below the middle of the range of an integer's type; for a `bool`, 1.
    fn greatest(&self, v: Value) -> u64 {
        self.scalar(v).map_or(0, |s| (1u64 << (s.bits() - 1).max(1)) - 1)
    }

    /// A bound of an operand: that of its type, if nothing else is known.
    fn upper_or_max(&self, v: Value) -> Option<u64> {
        let s = self.scalar(v)?;
        let max = || (!s.is_signed_int()).then(|| u64::MAX >> (64 - s.bits()));
        self.bounds.upper(v).or_else(max)
    }

    /// A constant with its sign.
    fn constant(&self, v: Value) -> Option<i64> {
        let (s, bits) = self.defs.scalar(self.types, self.func, v).filter(|(s, _)| !s.is_float())?;
        if s.is_signed_int() { Some(crate::scalar::to_i64(s, bits)) } else { i64::try_from(bits).ok() }
    }

    fn computed(&self, data: &InstData, r: Value) -> Option<u64> {
        let s = self.scalar(r)?;
        if let Some(c) = self.constant(r) {
            return u64::try_from(c).ok();
        }
        let arg = |k: usize| self.upper_or_max(data.args[k]);
        let constant = |k: usize| self.constant(data.args[k]).and_then(|c| u64::try_from(c).ok());
        match data.op {
            Op::Add => arg(0)?.checked_add(arg(1)?),
            Op::Mul => arg(0)?.checked_mul(arg(1)?),
            // `c - i` with `i` at most `c`, as in `n - 1 - i`.
            Op::Sub => constant(0).filter(|&c| arg(1).is_some_and(|i| i <= c)),
            // A divisor of zero leaves the number as it is.
            Op::Div => arg(0).filter(|_| arg(1).is_some()),
            Op::Shr => {
                let by = constant(1).filter(|&by| by < u64::from(s.bits()));
                arg(0).map(|most| most >> by.unwrap_or(0))
            }
            Op::And => match (arg(0), arg(1)) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            Op::Rem => constant(1)?.checked_sub(1).and_then(|last| Some(arg(0)?.min(last))),
            Op::Convert | Op::Bitcast => arg(0),
            Op::Select => Some(arg(1)?.max(arg(2)?)),
            Op::Math(Math::Min) => Some(arg(0)?.min(arg(1)?)),
            Op::Math(Math::Max) => Some(arg(0)?.max(arg(1)?)),
            Op::Builtin(Builtin::GroupIndex) => {
                self.group?.iter().map(|&n| u64::from(n)).product::<u64>().checked_sub(1)
            }
            Op::Extract(k) => match self.defs.op(self.func, data.args[0])? {
                Op::Builtin(Builtin::GroupThreadId) => u64::from(self.group?[k as usize]).checked_sub(1),
                _ => None,
            },
            _ => None,
        }
    }

    /// Sets the bound of a loop's trips, and of those carried values that grow by a constant in each trip.
    fn a_loop(&mut self, inst: Inst, max_iters: Option<u32>, counted: Option<u64>) {
        let func = self.func;
        let data = &func.insts[inst];
        let (args, params, yields) = data.op.carried_at();
        let more = u64::from(matches!(data.op, Op::Loop(_)));
        let most = counted.into_iter().chain(max_iters.map(u64::from)).min();
        let Some(trips) = most.map(|n| n.saturating_add(more)) else { return };
        self.bounds.trips[inst] = Some(trips);
        let body = &func.regions[data.regions[0]];
        for (k, &init) in data.args[args..].iter().enumerate() {
            let grown = || {
                let (op, by) = step(func, self.defs, body.results[yields + k], body.params[params + k])?;
                let by = u64::try_from(self.constant(by).filter(|_| op == Op::Add)?).ok()?;
                by.checked_mul(trips)?.checked_add(u64::try_from(self.constant(init)?).ok()?)
            };
            if let Some(most) = grown() {
                self.set(data.results[k], most);
            }
        }
    }

    /// The maximum number of times that `again` of a `loop` is true.
    fn counted(&self, data: &InstData) -> Option<u64> {
        let region = &self.func.regions[data.regions[0]];
        let again = region.results[0];
        if self.constant(again) == Some(0) {
            return Some(0);
        }
        let known = Implied::by(self.func, self.defs, again);
        let facts = known.facts();
        let resolve = |v: Value| known.resolve(self.func, self.defs, v);
        let mut best: Option<u64> = None;
        for (k, &param) in region.params.iter().enumerate() {
            let next = resolve(region.results[k + 1]);
            let Some(by) = self.step_by(next, param) else { continue };
            let Some(init) = self.constant(data.args[k]) else { continue };
            let is_counter = |v: Value| v == param || resolve(v) == next;
            for &(fact, truth) in &facts {
                let Some(test) = self.defs.inst(fact).map(|inst| &self.func.insts[inst]) else { continue };
                let &[a, b] = &test.args[..] else { continue };
                let trips = self.until(&test.op, truth, [a, b], (param, init, by), &is_counter);
                best = best.into_iter().chain(trips).min();
            }
        }
        best
    }

    /// The number of trips in which a comparison of a counter, before or after its step, can hold (or not
    /// hold).
    fn until(
        &self,
        op: &Op,
        truth: bool,
        [a, b]: [Value; 2],
        (param, init, by): (Value, i64, i64),
        is_counter: &dyn Fn(Value) -> bool,
    ) -> Option<u64> {
        // `x < y` or `x <= y`.
        let (x, y, or_equal) = match (op, truth) {
            (Op::Lt, true) | (Op::Ge, false) => (a, b, false),
            (Op::Le, true) | (Op::Gt, false) => (a, b, true),
            (Op::Gt, true) | (Op::Le, false) => (b, a, false),
            (Op::Ge, true) | (Op::Lt, false) => (b, a, true),
            // A counter with a step of one reaches the value that it is compared with.
            (Op::Ne, true) | (Op::Eq, false) if by.abs() == 1 && (a == param || b == param) => {
                let limit = self.constant(if a == param { b } else { a })?;
                return ((limit - init).signum() == by).then(|| limit.abs_diff(init));
            }
            _ => return None,
        };
        let more = i64::from(or_equal);
        let distance = if by > 0 && is_counter(x) {
            i64::try_from(self.bounds.upper(y)?).ok()?.saturating_add(more).saturating_sub(init)
        } else if by < 0 && is_counter(y) {
            init.saturating_sub(self.constant(x)?).saturating_add(more)
        } else {
            return None;
        };
        Some(distance.max(0).unsigned_abs().div_ceil(by.unsigned_abs()))
    }

    /// The constant by which a carried value changes in a trip.
    fn step_by(&self, next: Value, param: Value) -> Option<i64> {
        let s = self.scalar(next)?;
        let (op, by) = step(self.func, self.defs, next, param)?;
        let by = self.constant(by)?;
        let by = if op == Op::Sub { by.checked_neg()? } else { by };
        // Adding `2^32 - 1` to an unsigned number is a decrement.
        let wraps = !s.is_signed_int() && s.bits() < 64 && by >= 1i64 << (s.bits() - 1);
        let by = if wraps { by - (1i64 << s.bits()) } else { by };
        (by != 0).then_some(by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(text: &str) -> (crate::Module, Bounds) {
        let module = crate::parse::parse_module(text).expect("is a module");
        let func = module.funcs.values().next().expect("has a function");
        let bounds = Bounds::of(&module.types, func, &Defs::of(func));
        (module, bounds)
    }

    #[test]
    fn quotients_by_negative_numbers_are_negative() {
        let (_, bounds) = bounds(
            "func f(v0: i32, v1: i32) -> (i32) {
                v2: i32 = const 7
                v3 = and v0, v2
                v4 = div v3, v1
                v5: i32 = const 2
                v6 = div v3, v5
                v7 = add v4, v6
                yield v7
            }",
        );
        assert_eq!([3, 4, 6].map(|v| bounds.upper(Value::from_u32(v))), [Some(7), None, Some(7)]);
    }

    #[test]
    fn trips_follow_from_the_comparison_that_repeats_a_loop() {
        let (module, bounds) = bounds(
            "func f(v0: f32) -> (i32) {
                v1: i32 = const 0
                v2: i32 = const 3
                v3: i32 = const 10
                v4 = loop v1 (v5) {
                    v6 = add v5, v2
                    v7 = lt v6, v3
                    yield v7, v6
                }
                yield v4
            }",
        );
        let func = module.funcs.values().next().expect("has a function");
        let body = &func.regions[func.body()];
        assert_eq!(bounds.trips(body.insts[3]), Some(5), "as many as hold, and the last");
        assert_eq!(bounds.upper(body.results[0]), Some(15));
    }
}
