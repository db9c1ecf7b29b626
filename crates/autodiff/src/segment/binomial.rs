//! Implements `[CheckpointStates(s)]`: reverses a loop with at most `s` states kept at any time.
//!
//! The loop becomes a call of a function that runs `n` trips with `s` states to spare:
//!
//! - If `n ≤ s + 1`, it runs them, and their residuals are kept.
//! - Otherwise it runs segments, the `k`th of them by a call of itself with `s - k` states, until `s - k + 1` or
//!   fewer trips are left, which it runs as above.
//!
//! Reverse mode runs the calls of itself again ([`crate::recursion`]): it keeps the state at the start of each
//! segment, and reverses the last segment first. By then the states of the segments behind it are gone, so
//! the `k`th segment has `s - k` states for itself, and `s` is the most at any time.
//!
//! With `s` states and no trip run more than `r` times, at most `β(s, r) = C(s + r, s)` trips can be
//! reversed, and `β(s, r) = β(s, r - 1) + β(s - 1, r)` says how: the first segment has `β(s, r - 1)` trips
//! with `s` states and `r - 1` runs left, what is behind it `β(s - 1, r)` (A. Griewank, A. Walther,
//! "Algorithm 799: revolve", 2000). For `n` in between, the first segment has as many trips as that and
//! leaves `β(s - 1, r - 1)` for the rest: trips that are left for the end are kept at their first run. No
//! schedule keeps all trips to fewer runs; the total is at most 2.3 % above that of the best one, for up to 14
//! states and 400 trips.
//!
//! Where nothing says how many trips a loop has, segments of growing length take the place of the whole. Each is
//! at least as long as all before it, so there are as many as the logarithm of the number of trips.

use ir::{Builder, Func, Function, Inst, LoopInfo, Math, Op, Origin, Prefer, Slot, Type, Value};

use super::build::{convert, number, promise, unsigned};
use super::{Segment, lead};
use crate::checkpoint::known_trips;
use crate::copy::fresh;
use crate::engine::Engine;
use crate::shape::plain_slot;

/// The number of growing segments that no loop exceeds.
pub(super) const MOST_GROWING: u32 = 40;
/// The trips of a segment that does not grow further.
const LONGEST: u64 = 1 << 30;
/// The number of trips that is assumed where nothing bounds it.
const MANY: u64 = 1 << 32;

/// A loop that is reversed with a bounded number of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binomial {
    /// The maximum number of states at any time.
    pub(crate) states: u32,
    /// The maximum number of trips, if there is a bound.
    pub(crate) trips: Option<u64>,
    /// The bytes of a state.
    pub(crate) bytes: u64,
}

impl Binomial {
    /// The bytes that calls within calls hold beside the states that are kept: each holds the state that it
    /// begins with, and there are no more of them than runs of a trip.
    pub(crate) fn in_calls(&self) -> u64 {
        repetitions(self.states, self.trips.unwrap_or(MANY)).saturating_mul(self.bytes)
    }
}

/// `C(states + runs, runs)`: the most trips that so many states and runs of a trip are enough for.
fn most_trips(states: u64, runs: u64) -> u128 {
    let (less, more) = (states.min(runs), states.max(runs));
    (1..=less).fold(1, |product, k| product * u128::from(more + k) / u128::from(k))
}

/// How often a trip of a loop with so many states and trips runs at most, the primal included: the least `r` with
/// `C(states + r, states) ≥ trips`.
pub fn repetitions(states: u32, trips: u64) -> u64 {
    let states = u64::from(states.max(1));
    if states == 1 {
        return trips.saturating_sub(1);
    }
    let (mut most, mut r) = (1u128, 0u64);
    while most < u128::from(trips) {
        r += 1;
        most = most * u128::from(states + r) / u128::from(r);
    }
    r
}

/// How many trips run in all to reverse a loop of so many trips, the primal included.
///
/// Of the two parts that the first segment makes of a loop, one has as many trips as its states and runs are enough
/// for, which is `r·n - C(s + r - 1, s + 1)` runs for its `n = C(s + r, s)` trips; the other one is split further.
pub fn runs(states: u32, trips: u64) -> u64 {
    let whole = |s: u64, r: u64| {
        let saved = if r > 1 { most_trips(s + 1, r - 2) } else { 0 };
        u128::from(r) * most_trips(s, r) - saved
    };
    let (mut s, mut n, mut all) = (u64::from(states.max(1)), trips, 0u128);
    let mut r = repetitions(states, n);
    while n > s + 1 {
        let (first, rest) = (most_trips(s, r - 1), most_trips(s - 1, r - 1));
        if first + rest <= u128::from(n) {
            all += first + whole(s, r - 1);
            n -= first as u64;
            s = (s - 1).max(1);
            r = repetitions(s as u32, n);
        } else {
            n -= rest as u64;
            all += u128::from(n) + whole(s - 1, r - 1);
            r -= 1;
        }
    }
    u64::try_from(all + u128::from(n)).unwrap_or(u64::MAX)
}

impl Engine<'_> {
    /// Makes the function `(start, length, states, carried…, values…, contents…) -> (carried…, contents…)` that
    /// runs a segment by segments of its own. That of a `loop` has no `start`, and its first result says
    /// whether to go on.
    ///
    /// The whole of a `for` runs no more often than its schedule says. That of a loop of which nothing says how long it is
    /// runs once more, in segments, and so does a `for` that is `repeated`, in another loop: the trips of that
    /// one keep what it begins with only, not all of its states and residuals.
    pub(super) fn binomial(
        &mut self,
        src: &Function,
        inst: Inst,
        segment: &Segment,
        (states, repeated): (u32, bool),
    ) -> Func {
        let states = states.max(1);
        let split = self.segment_length();
        let data = &src.insts[inst];
        let counted = matches!(data.op, Op::For(_));
        let leaf = &self.module.funcs[segment.func];
        let (mut params, results, name) = (leaf.params.clone(), leaf.results.clone(), leaf.name.clone());
        let bytes = params.iter().map(|slot| self.module.types.bytes(slot.ty)).sum();
        let n_lead = 1 + usize::from(counted);
        let trip = params[n_lead - 1].ty;
        params.insert(n_lead, plain_slot(&self.module.types, trip));
        let made = self.declare(format!("{name}s"), Origin::Segment(segment.func), params, results.clone());
        self.module.funcs[made].span = data.span;
        if !counted || repeated {
            self.module.funcs[made].checkpoint.prefer = Prefer::Recompute;
        }
        let trips = known_trips(src, &ir::Defs::of(src), inst);
        self.made.binomials.insert(made, Binomial { states, trips, bytes });
        let parts = Parts {
            itself: made,
            leaf: segment.func,
            split: (split, self.module.funcs[split].results.clone()),
            results,
            counted,
            trip,
            n_carried: data.args.len() - lead(&data.op),
            n_written: segment.written.len(),
            states,
        };
        self.wrap(made, |b, _, args| parts.build(b, args))
    }

    /// The function `(trips, states) -> (length)` that computes the length of the first segment for at least
    /// `states + 2` trips, all as floats: any length is right, and these are near enough to the best.
    fn segment_length(&mut self) -> Func {
        if let Some(made) = self.made.split {
            return made;
        }
        let float = plain_slot(&self.module.types, Type::F32);
        let params = vec![float.clone(), float.clone()];
        let made = self.declare("segment_length".into(), Origin::Program, params, vec![float]);
        self.made.split = Some(made);
        self.wrap(made, |b, _, args| {
            let &[trips, states] = args else { unreachable!("two parameters are declared") };
            let one = float_number(b, 1.0);
            let zero = float_number(b, 0.0);
            // With one state or two, the runs are many: β(1, r) = r + 1, and β(2, r) = (r + 1)(r + 2) / 2 is above r² / 2.
            let two = float_number(b, 2.0);
            let is_one = b.emit(Op::Lt, &[states, two]);
            let is_two = b.emit(Op::Le, &[states, two]);
            let less = b.emit(Op::Sub, &[trips, two]);
            let twice = b.emit(Op::Add, &[trips, trips]);
            let root = b.emit(Op::Math(Math::Sqrt), &[twice]);
            let root = b.emit(Op::Math(Math::Floor), &[root]);
            let root = b.emit(Op::Sub, &[root, two]);
            let near = b.emit(Op::Select, &[is_one, less, root]);
            let near = b.emit(Op::Math(Math::Max), &[near, zero]);
            let before = b.emit(Op::Select, &[is_two, near, zero]);
            let after = b.emit(Op::Add, &[before, one]);
            let above = b.emit(Op::Add, &[after, one]);
            let product = b.emit(Op::Mul, &[after, above]);
            let half = b.emit(Op::Div, &[product, two]);
            let reached = b.emit(Op::Select, &[is_one, after, half]);
            let reached = b.emit(Op::Select, &[is_two, reached, one]);
            let region = b.open();
            // r, β(states, r), β(states, r - 1)
            let [r, most, _] = [(); 3].map(|()| b.region_param(Type::F32));
            let next = b.emit(Op::Add, &[r, one]);
            let both = b.emit(Op::Add, &[states, next]);
            let more = b.emit(Op::Mul, &[most, both]);
            let more = b.emit(Op::Div, &[more, next]);
            let again = b.emit(Op::Lt, &[more, trips]);
            b.close(vec![again, next, more, most]);
            let out = b.nest(Op::Loop(LoopInfo::default()), &[before, reached, zero], &[region]);
            let &[r, _, most] = &out[..] else { unreachable!("three values are carried") };
            // β(states - 1, r - 1) = β(states, r - 1) · states / (states + r - 1)
            let both = b.emit(Op::Add, &[states, r]);
            let both = b.emit(Op::Sub, &[both, one]);
            let rest = b.emit(Op::Mul, &[most, states]);
            let rest = b.emit(Op::Div, &[rest, both]);
            let length = b.emit(Op::Sub, &[trips, rest]);
            vec![b.emit(Op::Math(Math::Min), &[length, most])]
        })
    }
}

fn float_number(b: &mut Builder, x: f32) -> Value {
    b.emit_typed(Op::Const(u64::from(x.to_bits())), &[], Type::F32)
}

/// The parts of a function that runs segments.
struct Parts {
    itself: Func,
    leaf: Func,
    split: (Func, Vec<Slot>),
    results: Vec<Slot>,
    counted: bool,
    /// The type of numbers of trips.
    trip: Type,
    n_carried: usize,
    n_written: usize,
    states: u32,
}

/// Where a function is in its trips.
#[derive(Clone)]
struct At {
    /// The trips that have been run, if they are counted.
    start: Option<Value>,
    /// The trips that are left.
    left: Value,
    /// The states that are left.
    states: Value,
    /// `again` of a `loop`, then the carried values, then the contents of cells that are written.
    state: Vec<Value>,
}

impl At {
    fn values(&self) -> Vec<Value> {
        self.start.into_iter().chain([self.left, self.states]).chain(self.state.iter().copied()).collect()
    }
}

impl Parts {
    fn build(&self, b: &mut Builder, args: &[Value]) -> Vec<Value> {
        let (start, args) = args.split_at(usize::from(self.counted));
        let &[left, states, ref rest @ ..] = args else { unreachable!("two numbers are declared") };
        let (carried, rest) = rest.split_at(self.n_carried);
        let (fixed, written) = rest.split_at(rest.len() - self.n_written);
        let mut state: Vec<Value> = if self.counted { Vec::new() } else { vec![b.bool(true)] };
        state.extend(carried.iter().chain(written));
        let first = At { start: start.first().copied(), left, states, state };
        let more = self.is_long(b, &first);
        let then = b.open();
        let at = self.segments(b, &first, fixed);
        b.close(at.values());
        let otherwise = b.open();
        b.close(first.values());
        let values = b.nest(Op::If, &[more], &[then, otherwise]);
        let at = self.at(&values);
        if self.counted {
            return self.run(b, self.leaf, &at, at.left, fixed);
        }
        let then = b.open();
        let out = self.run(b, self.leaf, &at, at.left, fixed);
        b.close(out);
        let otherwise = b.open();
        b.close(at.state.clone());
        b.nest(Op::If, &[at.state[0]], &[then, otherwise])
    }

    /// The parts of values in the order of [`At::values`].
    fn at(&self, values: &[Value]) -> At {
        let (start, values) = values.split_at(usize::from(self.counted));
        At { start: start.first().copied(), left: values[0], states: values[1], state: values[2..].to_vec() }
    }

    /// Returns whether more trips are left than can be kept.
    fn is_long(&self, b: &mut Builder, at: &At) -> Value {
        let one = number(b, self.trip, 1);
        let few = b.emit(Op::Add, &[at.states, one]);
        b.emit(Op::Lt, &[few, at.left])
    }

    /// Emits the loop over segments.
    fn segments(&self, b: &mut Builder, first: &At, fixed: &[Value]) -> At {
        let init = first.values();
        let region = b.open();
        let params: Vec<Value> = init.iter().map(|&v| b.region_param(b.func.ty(v))).collect();
        let at = self.at(&params);
        let [n, s] = [at.left, at.states].map(|v| b.emit_typed(Op::Convert, &[v], Type::F32));
        let length = b.call_func(self.split.0, &self.split.1, &[n, s])[0];
        let length = b.emit_typed(Op::Convert, &[length], self.trip);
        let one = number(b, self.trip, 1);
        let length = b.emit(Op::Math(Math::Max), &[length, one]);
        let most = b.emit(Op::Sub, &[at.left, one]);
        let length = b.emit(Op::Math(Math::Min), &[length, most]);
        let state = self.run(b, self.itself, &at, length, fixed);
        let two = number(b, self.trip, 2);
        let fewer = b.emit(Op::Math(Math::Max), &[at.states, two]);
        let next = At {
            start: at.start.map(|start| b.emit(Op::Add, &[start, length])),
            left: b.emit(Op::Sub, &[at.left, length]),
            states: b.emit(Op::Sub, &[fewer, one]),
            state,
        };
        let mut again = self.is_long(b, &next);
        if !self.counted {
            again = b.emit(Op::And, &[again, next.state[0]]);
        }
        b.close(std::iter::once(again).chain(next.values()).collect());
        let info = LoopInfo { max_iters: Some(self.states), ..LoopInfo::default() };
        let out = b.nest(Op::Loop(info), &init, &[region]);
        self.at(&out)
    }

    /// Emits a call that runs `length` trips, of the function itself or of the leaf.
    fn run(&self, b: &mut Builder, callee: Func, at: &At, length: Value, fixed: &[Value]) -> Vec<Value> {
        let state = &at.state[usize::from(!self.counted)..];
        let (carried, written) = state.split_at(self.n_carried);
        let states = (callee == self.itself).then_some(at.states);
        let lead = at.start.into_iter().chain([length]).chain(states);
        let args: Vec<Value> = lead.chain(carried.iter().chain(fixed).chain(written).copied()).collect();
        b.call_func(callee, &self.results, &args)
    }
}

/// Emits the length of the segment behind one of this length.
pub(super) fn grow(b: &mut Builder, length: Value) -> Value {
    let ty = b.func.ty(length);
    let twice = b.emit(Op::Add, &[length, length]);
    let most = number(b, ty, LONGEST);
    b.emit(Op::Math(Math::Min), &[twice, most])
}

/// Emits the call that takes the place of a `for`: `whole` is the function that runs all trips, and the number
/// of states; `slots` are its results.
pub(super) fn call(
    b: &mut Builder,
    src: &Function,
    inst: Inst,
    segment: &Segment,
    whole: (Func, u32),
    slots: &[Slot],
) {
    let data = &src.insts[inst];
    b.span = data.span;
    let (count, carried) = data.args.split_at(lead(&data.op));
    let trip = unsigned(src.ty(count[0]));
    let count = convert(b, count[0], trip);
    if let Op::For(LoopInfo { max_iters: Some(most), .. }) = data.op {
        promise(b, count, most);
    }
    let mut operands = vec![number(b, trip, 0), count, number(b, trip, u64::from(whole.1))];
    operands.extend(carried.iter().chain(&segment.values));
    let cells = segment.read.iter().chain(&segment.written);
    operands.extend(cells.map(|&cell| b.emit(Op::Load, &[cell])));
    let contents = fresh(b, slots[carried.len()..].iter().map(|slot| slot.ty).collect::<Vec<_>>());
    let results = [&data.results[..], &contents].concat();
    b.push(Op::Call(whole.0), &operands, &results, &[]);
    for (&cell, &content) in segment.written.iter().zip(&contents) {
        b.effect(Op::Store, &[cell, content]);
    }
}

#[cfg(test)]
mod tests {
    use super::{most_trips, repetitions, runs};

    #[test]
    fn repetitions_are_those_of_binomial_numbers() {
        // C(3 + 2, 3) = 10, C(3 + 3, 3) = 20
        assert_eq!((repetitions(3, 10), repetitions(3, 11), repetitions(3, 20)), (2, 3, 3));
        assert_eq!((repetitions(5, 1), repetitions(5, 6), repetitions(5, 7)), (0, 1, 2));
        assert_eq!(repetitions(1, 1000), 999);
        // C(35, 20) = 3.2e9, C(36, 20) = 7.3e9
        assert_eq!(repetitions(20, u64::from(u32::MAX)), 16);
    }

    /// The runs of the schedule that the functions of the IR follow.
    fn followed(n: u64, s: u64) -> u64 {
        if n <= s + 1 {
            return n;
        }
        let r = repetitions(s as u32, n);
        let first = (most_trips(s, r - 1) as u64).min(n - most_trips(s - 1, r - 1) as u64).min(n - 1);
        first + followed(first, s) + followed(n - first, (s - 1).max(1))
    }

    #[test]
    fn runs_are_those_of_the_schedule() {
        for s in [1, 2, 3, 7, 14, 40] {
            for n in (0..200).chain([999, 1500]) {
                assert_eq!(runs(s as u32, n), followed(n, s), "{n} trips, {s} states");
            }
        }
    }

    #[test]
    fn many_trips_are_counted_at_once() {
        assert_eq!(repetitions(1, 1 << 32), (1 << 32) - 1);
        assert!(runs(1, 1 << 32) > 1 << 62 && runs(2, 1 << 32) > 1 << 40);
    }
}
