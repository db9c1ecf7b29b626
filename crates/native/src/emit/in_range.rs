//! Shows before a loop that memory has all elements that the loop accesses, so that no trip tests an index.
//!
//! ```text
//! for i < n { … buffer[a + k·i] … }  ↦  if a and a + k·(n - 1) are in range { the loop without tests } else { the loop }
//! ```
//!
//! An index of 32 bits that is made of values from outside of the loop and its counter by sums, differences and products
//! with constants is, modulo 2³², the number `a + k·i`, which is computed with 64 bits, where it cannot wrap. If that number
//! is in range, and below 2³¹, in the first and in the last trip, it is so in all trips; and the index, taken as signed or as
//! unsigned, is then that number. So the fast loop also counts with 64 bits, as addresses do.
//!
//! Only innermost loops are emitted twice, so the code at most doubles. The fast loop is for a worker that runs alone, if the
//! loop has atomic operations: these need no lock there, and no test of that either.

use ir::{Inst, LoopInfo, Op, Region, Scalar, TypeData, Value};
use rustc_hash::FxHashMap;

use super::blocks::either;
use super::bundles::pushed;
use super::{Assembler, Binary, Compare, Odds, Res, Vals, control, loops};

/// The most different accesses that are tested before a loop, and the longest loop that is emitted twice.
const MOST: usize = 12;
/// See [`MOST`].
const LONG: usize = 150;
/// A loop that is known to have fewer trips than this is emitted once.
const FEW: u64 = 8;
/// The largest factor of a counter.
const FACTOR: i64 = 1 << 20;
/// The depth of operands that are followed.
const DEPTH: u32 = 8;

/// The facts that hold in a loop of which all indices are in range.
pub(super) struct InRange<V> {
    /// By handle and index: the number `a`, and the factor `k`.
    indices: FxHashMap<(Value, Value), (V, i64)>,
    /// The counter of the current trip, with 64 bits.
    pub(super) counter: Option<V>,
    /// No other worker runs threads of the dispatch.
    pub(super) is_alone: bool,
}

/// The sum of a constant, of values from outside of a loop, each with a factor, and of a multiple of the counter.
#[derive(Default)]
struct Sum {
    constant: i64,
    terms: Vec<(Value, i64)>,
    factor: i64,
}

/// Emits a `for` of which all lanes run the same trips.
pub(super) fn for_op<'m, A: Assembler<'m>>(e: &mut A, inst: Inst, info: LoopInfo) -> Res<'m, A> {
    let Some((all, known)) = test(e, inst) else { return loops::for_op(e, inst, info, false) };
    let data = &e.f.insts[inst];
    let results = move |e: &mut A| -> Res<'m, A, Vals<A::V>> {
        loops::for_op(e, inst, info, false)?;
        let mut parts = Vals::new();
        for &result in &data.results {
            parts.extend(e.fit_all(e.ty(result), e.get(result), e.varies(result), data.span)?);
        }
        Ok(parts)
    };
    let fast = move |e: &mut A| {
        e.in_range = Some(known);
        let parts = results(e);
        e.in_range = None;
        parts
    };
    let joined = either(e, all, Odds::Likely, fast, results)?;
    let all = control::deal(e, data, joined);
    control::set_all(e, data, &all)
}

/// The number of the element that an access denotes, if that is certainly in range.
pub(super) fn index<'m, A: Assembler<'m>>(e: &mut A, args: &[Value]) -> Option<A::V> {
    let known = e.in_range.as_ref()?;
    let (&(first, factor), counter) = (known.indices.get(&(args[0], args[1]))?, known.counter?);
    Some(at(e, first, factor, counter))
}

/// `first + factor * counter`.
fn at<'m, A: Assembler<'m>>(e: &mut A, first: A::V, factor: i64, counter: A::V) -> A::V {
    match factor {
        0 => first,
        1 => e.binary(Binary::Add, first, counter),
        _ => {
            let factor = e.number(factor as u64);
            let by = e.binary(Binary::Mul, counter, factor);
            e.binary(Binary::Add, first, by)
        }
    }
}

/// The condition that all indices of a loop are in range, and what is known then; `None` if the loop has to be emitted once.
fn test<'m, A: Assembler<'m>>(e: &mut A, inst: Inst) -> Option<(A::V, InRange<A::V>)> {
    let f = e.f;
    let data = &f.insts[inst];
    let body = data.regions[0];
    let is_number = |v: &Value| matches!(e.ts[e.ty(*v)], TypeData::Scalar(_) | TypeData::Vector(..));
    if !A::TESTS_BEFORE || e.options().trap || e.in_range.is_some() || !data.results.iter().all(is_number) {
        return None;
    }
    if e.const_of(data.args[0]).is_some_and(|n| n < FEW) || !pushed(e, inst).is_empty() {
        return None;
    }
    let (sums, has_atomics) = accesses(e, body)?;
    let (n, zero, one) = (e.one(data.args[0]), e.number(0), e.number(1));
    let n = e.zero_extend(Scalar::I64, n);
    let last = e.binary(Binary::Sub, n, one);
    let mut all = if has_atomics { Some(e.alone()) } else { None };
    let mut indices = FxHashMap::default();
    for ((handle, index), sum) in sums {
        let mut first = e.number(sum.constant as u64);
        for (v, factor) in sum.terms {
            let term = e.one(v);
            let term = e.extend(Scalar::I64, true, term);
            first = match factor {
                -1 => e.binary(Binary::Sub, first, term),
                _ => at(e, first, factor, term),
            };
        }
        let (count, most) = (e.get(handle)[1], e.number(1 << 31));
        let ends = [zero, last].map(|trip| at(e, first, sum.factor, trip));
        for &end in if sum.factor == 0 { &ends[..1] } else { &ends[..] } {
            for limit in [count, most] {
                let below = e.compare(Compare::LessUnsigned, end, limit);
                all = e.both(all, Some(below));
            }
        }
        indices.insert((handle, index), (first, sum.factor));
    }
    Some((all?, InRange { indices, counter: None, is_alone: has_atomics }))
}

/// An access by its handle and its index.
type Access = ((Value, Value), Sum);

/// The accesses of a loop of which an index has to be tested in each trip, and whether there are atomic operations among
/// them; `None` if there are none, or if the loop is long or holds others.
fn accesses<'m, A: Assembler<'m>>(e: &A, body: Region) -> Option<(Vec<Access>, bool)> {
    let f = e.f;
    let counter = f.regions[body].params[0];
    let (mut n, mut found, mut has_atomics, mut is_inner) = (0, Vec::<Access>::new(), false, true);
    f.walk(body, &mut |inst| {
        let data = &f.insts[inst];
        n += 1;
        is_inner &= !data.op.is_loop();
        if !matches!(data.op, Op::BufferLoad(_) | Op::BufferStore(_) | Op::Atomic(..)) {
            return;
        }
        let key = (data.args[0], data.args[1]);
        let is_here = |v| e.nesting.analyses.is_defined_in(v, body);
        if is_here(key.0) || e.varies(key.0) || e.varies(key.1) || found.iter().any(|other| other.0 == key) {
            return;
        }
        let handle = e.get(key.0);
        if e.constant_of(handle[2]) != Some(0) || super::memory::has_room(e, &data.args) {
            return;
        }
        let mut sum = Sum::default();
        if is_sum(e, (body, counter), key.1, 1, &mut sum, DEPTH).is_some() && sum.factor.abs() <= FACTOR {
            has_atomics |= matches!(data.op, Op::Atomic(..));
            found.push((key, sum));
        }
    });
    (is_inner && n <= LONG && !found.is_empty() && found.len() <= MOST).then_some((found, has_atomics))
}

/// Adds a multiple of a value to a sum, if the value is such a sum modulo 2³².
fn is_sum<'m, A: Assembler<'m>>(
    e: &A,
    (body, counter): (Region, Value),
    v: Value,
    by: i64,
    sum: &mut Sum,
    depth: u32,
) -> Option<()> {
    let TypeData::Scalar(Scalar::I32 | Scalar::U32) = e.ts[e.ty(v)] else { return None };
    if by.abs() > FACTOR || depth == 0 {
        return None;
    }
    if v == counter {
        sum.factor += by;
        return Some(());
    }
    let constant = |v: Value| e.const_of(v).map(|bits| i64::from(bits as u32 as i32));
    if let Some(n) = constant(v) {
        sum.constant += by * n;
        return Some(());
    }
    if !e.nesting.analyses.is_defined_in(v, body) {
        sum.terms.push((v, by));
        return (!e.varies(v)).then_some(());
    }
    let data = e.def(v)?;
    let mut part = |k: usize, by: i64| is_sum(e, (body, counter), data.args[k], by, sum, depth - 1);
    match data.op {
        Op::Add => part(0, by).and_then(|()| part(1, by)),
        Op::Sub => part(0, by).and_then(|()| part(1, -by)),
        Op::Mul => match (constant(data.args[0]), constant(data.args[1])) {
            (_, Some(n)) if n.abs() <= FACTOR => part(0, by * n),
            (Some(n), _) if n.abs() <= FACTOR => part(1, by * n),
            _ => None,
        },
        Op::Convert => part(0, by),
        _ => None,
    }
}
