//! Emits `for` and `loop`.
//!
//! Both test their condition at the end of a trip. A carried array has one memory, which values of the trip
//! may alias: the parameter itself, and parts that were extracted from it. So a trip writes that memory last,
//! after it has pushed to stacks, and an array that moves from one carried array to another is copied to
//! other memory first. Other carried values are parameters of the block of the trips.
//!
//! If lanes leave a loop at different times, it continues while any lane is active; lanes that have left are
//! masked. A carried value stays, for a lane, as it was when the lane left. A value that is the same for all
//! lanes in the loop stays uniform there, and only the value that lanes leave with varies.
//!
//! A reversed `for` whose count varies works the other way round: lanes enter it at different times and leave
//! it together, so that all lanes read the residuals of one trip at one place.
//!
//! The stacks of a `for` have their final size from the start; those of a `loop` double at the start of a
//! trip. If a trip allocates in the arena and passes no stack on, the arena is released at the end of each
//! trip. A stack has one length for all lanes: for a lane that has left, it holds zeros, the value that a read
//! past its end would give.
//!
//! A `loop` whose body ends with an `if` that decides whether to continue (every `while` of the source does)
//! may jump from the arms directly to the next trip or out of the loop ([`Instructions::THREADS_JUMPS`]).
//!
//! [`Instructions::THREADS_JUMPS`]: super::Instructions::THREADS_JUMPS

use ir::{Inst, InstData, LoopInfo, Op, Region, Scalar, Span, Type, TypeData, Value};

use super::blocks::{fail_if, mark, release, unless};
use super::bundles::{Pushed, pushed, set_stacks};
use super::paths::{path_arm, path_inst, path_trip};
use super::{Assembler, Binary, Compare, Odds, Res, VARYING, Vals, inst, notes, region};
use crate::runtime::{Helper, Site};
use crate::types::{is_array, size};

/// A carried value: the memory of an array, or the parts of another value at first and in a trip.
struct Held<V> {
    memory: Option<V>,
    init: Vals<V>,
    now: Vals<V>,
}

/// A carried value of a loop.
struct Carried<V> {
    ty: Type,
    /// The region's parameter.
    param: Value,
    held: Held<V>,
    /// The value that lanes leave with, if it is kept separately.
    left: Option<Held<V>>,
}

/// A loop while its body is emitted.
struct Loop<'d, A: Assembler<'d>> {
    data: &'d InstData,
    info: LoopInfo,
    /// The blocks of the trips and after the loop.
    body: A::Block,
    exit: A::Block,
    carried: Vec<Carried<A::V>>,
    /// The active lanes, if lanes leave the loop at different times.
    active: Option<A::V>,
    /// The arena's mark at the start of the trip, if the trip's allocations are released at its end.
    mark: Option<A::V>,
    /// If a `loop` makes stacks: the number of trips before this one, the capacity of the stacks, and the memory of
    /// each.
    own: Vals<A::V>,
    /// The stacks that a `loop` makes.
    stacks: Vec<Pushed>,
}

/// Keeps a value as one that varies, if it does.
fn hold<'m, A: Assembler<'m>>(e: &mut A, v: Value, varying: bool, span: Span) -> Res<'m, A, Held<A::V>> {
    let ty = e.ty(v);
    let vals = e.fit_all(ty, e.get(v), varying, span)?;
    if !is_array(e.ts, ty) {
        return Ok(Held { memory: None, init: vals, now: Vals::new() });
    }
    let to = e.memory(size(e.ts, ty), varying);
    e.store(ty, &vals, e.place(to), span)?;
    Ok(Held { memory: Some(to), init: Vals::new(), now: std::iter::once(to).collect() })
}

/// Prepares the carried values of a loop.
fn carried<'m, A: Assembler<'m>>(
    e: &mut A,
    data: &InstData,
    divergent: bool,
) -> Res<'m, A, Vec<Carried<A::V>>> {
    let (args, params, _) = data.op.carried_at();
    let region = &e.f.regions[data.regions[0]];
    let carry = |k: usize| {
        let (v, param) = (data.args[args + k], region.params[params + k]);
        let held = hold(e, v, e.varies(param), data.span)?;
        let left = match divergent && !e.varies(param) {
            true => Some(hold(e, v, VARYING, data.span)?),
            false => None,
        };
        Ok(Carried { ty: e.ty(v), param, held, left })
    };
    (0..data.n_carried()).map(carry).collect()
}

/// The initial carried values, as arguments of the block of the trips and of the block after the loop.
fn initial<V: Copy>(all: &[Carried<V>]) -> (Vals<V>, Vals<V>) {
    let left = |c: &Carried<V>| c.left.as_ref().map_or(Vals::new(), |left| left.init.clone());
    let trips = all.iter().flat_map(|c| c.held.init.iter().copied().chain(left(c)));
    let after = all.iter().flat_map(|c| c.left.as_ref().unwrap_or(&c.held).init.clone());
    (trips.collect(), after.collect())
}

/// Binds the carried values to parameters of the block of the trips.
fn bind<'m, A: Assembler<'m>>(e: &mut A, all: &mut [Carried<A::V>], mut params: impl Iterator<Item = A::V>) {
    for c in all {
        for held in std::iter::once(&mut c.held).chain(&mut c.left) {
            if held.memory.is_none() {
                held.now = params.by_ref().take(held.init.len()).collect();
            }
        }
        e.set(c.param, &c.held.now);
    }
}

/// Returns true if an array certainly has memory of its own.
fn is_fresh<'m, A: Assembler<'m>>(e: &A, v: Value) -> bool {
    e.def(v).is_some_and(|d| {
        matches!(d.op, Op::Construct | Op::Splat | Op::Insert(_) | Op::Call(_) | Op::BufferLoad(_) | Op::Zero)
    })
}

/// Ends a trip that yields these values: writes carried arrays, and returns the arguments of the next trip and of
/// the block after the loop.
fn carry<'m, A: Assembler<'m>>(
    e: &mut A,
    lp: &Loop<'m, A>,
    results: &[Value],
) -> Res<'m, A, [Vals<A::V>; 2]> {
    let span = lp.data.span;
    let mut yielded = Vec::new();
    for (c, &next) in lp.carried.iter().zip(results) {
        let mut vals = e.fit_all(c.ty, e.get(next), e.varies(c.param), span)?;
        if c.held.memory.is_some() && next != c.param && !is_fresh(e, next) {
            let to = e.memory(size(e.ts, c.ty), e.is_wide(vals[0]));
            e.store(c.ty, &vals, e.place(to), span)?;
            vals = std::iter::once(to).collect();
        }
        yielded.push(vals);
    }
    let (mut trips, mut after) = (Vals::new(), Vals::new());
    for ((c, &next), vals) in lp.carried.iter().zip(results).zip(yielded) {
        let mask = lp.active.filter(|_| e.varies(c.param));
        let left = c.left.as_ref().zip(lp.active);
        if let Some(to) = c.held.memory {
            if let Some((left, active)) = left
                && let Some(to) = left.memory
            {
                let wide = e.fit(c.ty, vals.clone(), VARYING, span)?;
                e.store(c.ty, &wide, e.masked(e.place(to), active), span)?;
            }
            if next != c.param {
                let place = mask.map_or(e.place(to), |mask| e.masked(e.place(to), mask));
                e.store(c.ty, &vals, place, span)?;
            }
            continue;
        }
        let now = match mask {
            Some(active) => e.pick(c.ty, active, &vals, &c.held.now, span)?,
            None => vals.clone(),
        };
        trips.extend(now.iter().copied());
        after.extend(match left {
            Some((left, active)) => {
                let wide = e.fit_all(c.ty, vals, VARYING, span)?;
                let last = e.pick(c.ty, active, &wide, &left.now, span)?;
                trips.extend(last.iter().copied());
                last
            }
            None => now,
        });
    }
    Ok([trips, after])
}

/// Sets the results that are carried to parameters of the block after the loop; returns the other parameters.
fn leave<'m, A: Assembler<'m>>(e: &mut A, lp: &Loop<'m, A>, params: Vals<A::V>) -> Vals<A::V> {
    let mut params = params.into_iter();
    for (c, &result) in lp.carried.iter().zip(&lp.data.results) {
        let last = c.left.as_ref().unwrap_or(&c.held);
        let vals: Vals<A::V> = match last.memory {
            Some(at) => std::iter::once(at).collect(),
            None => params.by_ref().take(last.init.len()).collect(),
        };
        e.set(result, &vals);
    }
    params.collect()
}

/// Writes what a trip yields for a stack to the memory of the stack, at the index of the trip.
fn push<'m, A: Assembler<'m>>(
    e: &mut A,
    lp: &Loop<'m, A>,
    (stack, stacked): (&Pushed, &[Value]),
    memory: A::V,
    trip: A::V,
) -> Res<'m, A> {
    let (ty, wide) = (stack.ty, e.is_wide(memory));
    notes::kept(e, stack.first(stacked), e.stride(ty, memory));
    let by = e.times(trip, e.stride(ty, memory));
    let at = e.offset(memory, by);
    let v = match stack.element(e, stacked) {
        Ok(v) => v,
        Err(bundle) => return e.store(ty, &[bundle], e.place(at), lp.data.span),
    };
    let mut vals = e.fit_all(ty, e.get(v), wide, lp.data.span)?;
    // In stacks of stacks, inner loops have stored zeros for lanes that did not take part.
    if let Some(active) = lp.active.filter(|_| !matches!(e.ts[ty], TypeData::Stack(_))) {
        let blank = e.blank(ty);
        vals = e.pick(ty, active, &vals, &blank, lp.data.span)?;
    }
    e.store(ty, &vals, e.place(at), lp.data.span)
}

pub(super) fn for_op<'m, A: Assembler<'m>>(
    e: &mut A,
    loop_inst: Inst,
    info: LoopInfo,
    divergent: bool,
) -> Res<'m, A> {
    let f = e.f;
    let data = &f.insts[loop_inst];
    let (inner, n_carried) = (data.regions[0], data.n_carried());
    let counter = f.regions[inner].params[0];
    let results = &f.regions[inner].results;
    let (s, n_each, outer) = (e.scalar_of(data.args[0]), e.one(data.args[0]), e.mask());
    let stacks = pushed(e, loop_inst);
    if let (Some(bound), false) = (info.max_iters, stacks.is_empty()) {
        let (n64, most) = (e.zero_extend(Scalar::I64, n_each), e.number(bound.into()));
        let over = e.compare(Compare::MoreUnsigned, n64, most);
        fail_if(e, over, Site::MaxIters(bound, data.span));
    }
    let n = if divergent { e.most(n_each) } else { n_each };
    let n64 = e.zero_extend(Scalar::I64, n);
    let (mut headers, mut memories) = (Vals::new(), Vals::new());
    for stack in &stacks {
        let like = e.null();
        let like = e.widened(like, stack.wide);
        let (header, first) = e.new_stack(n64, s, e.stride(stack.ty, like));
        headers.push(header);
        memories.push(e.widened(first, stack.wide));
    }
    let mut all = carried(e, data, divergent)?;
    let (trips, after) = initial(&all);
    let (zero, one) = (e.constant(s, 0), e.constant(s, 1));
    let late = e.enters_late(counter);
    let last = (late || info.down).then(|| e.binary(Binary::Sub, if late { n } else { n_each }, one));
    let first: Vals<A::V> = std::iter::once(zero).chain(trips).collect();
    let (body, exit) = (e.block(&first), e.block(&after));
    // Lanes part where they leave the loop, unless all run it the same number of times.
    let mut together = None;
    let count = e.const_of(data.args[0]).filter(|_| !divergent);
    match count {
        Some(0) => e.jump(exit, &after),
        Some(_) => e.jump(body, &first),
        None => {
            let some = e.compare(Compare::NotEqual, n, zero);
            together = e.split_lanes(inner, some);
            e.branch(some, (body, &first), (exit, &after), Odds::Even);
        }
    }

    let copies = match (divergent, count) {
        (false, Some(n)) if A::UNROLLS => copies(e, data, n, &all),
        _ => 1,
    };
    let params = e.enter(body);
    let first = params[0];
    bind(e, &mut all, params.into_iter().skip(1));
    path_trip(e, inner);
    let mut lp = Loop {
        data,
        info,
        body,
        exit,
        carried: all,
        active: None,
        mark: None,
        own: Vals::new(),
        stacks: Vec::new(),
    };
    let mut ends = [Vals::new(), Vals::new()];
    for k in 0..copies {
        let mut i = first;
        if k > 0 {
            bind(e, &mut lp.carried, ends[0].clone().into_iter());
            let k = e.constant(s, k);
            i = e.binary(Binary::AddNoWrap, first, k);
        }
        // In a loop that lanes may enter late, a lane takes part in a trip if it has that many trips left.
        let counted = last.map_or(i, |last| e.binary(Binary::Sub, last, i));
        e.trips_left(counter, counted);
        e.set(counter, &[counted]);
        if e.in_range.is_some() {
            let mut wide = e.zero_extend(Scalar::I64, i);
            if info.down {
                let one = e.number(1);
                let last = e.binary(Binary::Sub, n64, one);
                wide = e.binary(Binary::Sub, last, wide);
            }
            e.in_range.iter_mut().for_each(|known| known.counter = Some(wide));
        }
        lp.active = divergent.then(|| {
            let here = e.compare(Compare::LessUnsigned, if late { counted } else { i }, n_each);
            e.active(here)
        });
        if lp.active.is_some() {
            e.set_mask(lp.active);
        }
        // A loop that releases what a trip has allocated has one copy of its body.
        lp.mark = e.releases_trip(inner).then(|| mark(e));
        region(e, inner)?;
        let trip = e.zero_extend(Scalar::I64, i);
        for (stack, &memory) in stacks.iter().zip(&memories) {
            push(e, &lp, (stack, &results[n_carried..]), memory, trip)?;
        }
        ends = carry(e, &lp, &results[..n_carried])?;
    }
    let [trips, after] = ends;
    e.set_mask(outer);
    release(e, lp.mark);
    let step = if copies == 1 { one } else { e.constant(s, copies) };
    let next = e.binary(Binary::AddNoWrap, first, step);
    let more = e.compare(Compare::LessUnsigned, next, n);
    if count.is_none() {
        e.split_lanes(inner, more);
    }
    let again: Vals<A::V> = std::iter::once(next).chain(trips).collect();
    e.branch(more, (body, &again), (exit, &after), Odds::Even);
    let params = e.enter(exit);
    leave(e, &lp, params);
    e.rejoin(together);
    set_stacks(e, data, (&stacks, &memories), (n64, n64), |_, k| headers[k])
}

/// The number of trips of a loop of `n` trips that its block emits: as many as make a body without branches long
/// enough for the counting not to matter.
fn copies<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, n: u64, all: &[Carried<A::V>]) -> u64 {
    const LONG: usize = 64;
    let f = e.f;
    let (mut insts, mut simple) = (0, all.iter().all(|c| c.held.memory.is_none()));
    f.walk(data.regions[0], &mut |inst| {
        insts += 1;
        simple &= f.insts[inst].regions.is_empty() && !matches!(f.insts[inst].op, Op::Call(_) | Op::Math(_));
    });
    if !simple || e.path_base.is_some() || e.releases_trip(data.regions[0]) {
        return 1;
    }
    [8, 4, 2].into_iter().find(|&k| n.is_multiple_of(k) && insts * k as usize <= LONG).unwrap_or(1)
}

pub(super) fn loop_op<'m, A: Assembler<'m>>(
    e: &mut A,
    loop_inst: Inst,
    info: LoopInfo,
    divergent: bool,
) -> Res<'m, A> {
    let f = e.f;
    let data = &f.insts[loop_inst];
    let inner = data.regions[0];
    let results = &f.regions[inner].results;
    let stacks = pushed(e, loop_inst);
    let outer = e.mask();
    let mut all = carried(e, data, divergent)?;
    let together = e.together(inner);
    // The stacks need the number of trips, the capacity, and the memory of each stack.
    let mut own = Vals::new();
    if !stacks.is_empty() {
        own.extend([e.number(0), e.number(0)]);
        for stack in &stacks {
            let null = e.null();
            own.push(e.widened(null, stack.wide));
        }
    }
    let (trips, after) = initial(&all);
    let lanes = divergent.then(|| e.all_lanes());
    let first: Vals<A::V> = lanes.into_iter().chain(own.iter().copied()).chain(trips).collect();
    let after: Vals<A::V> = after.into_iter().chain(own.iter().copied()).collect();
    let (body, exit) = (e.block(&first), e.block(&after));
    e.jump(body, &first);

    let mut params = e.enter(body).into_iter();
    let active = if divergent { params.next() } else { None };
    let mut own: Vals<A::V> = params.by_ref().take(own.len()).collect();
    bind(e, &mut all, params);
    path_trip(e, inner);
    if active.is_some() {
        e.set_mask(active);
    }
    make_room(e, &stacks, info.max_iters, &mut own)?;
    let mark = e.releases_trip(inner).then(|| mark(e));
    let lp = Loop { data, info, body, exit, carried: all, active, mark, own, stacks };
    trip(e, inner, results, &lp, outer)?;

    let params = e.enter(exit);
    let own = leave(e, &lp, params);
    e.rejoin(together);
    let [len, cap, ref memories @ ..] = own[..] else { return Ok(()) };
    set_stacks(e, data, (&lp.stacks, memories), (len, cap), |e, k| {
        let header = e.rare_helper(Helper::StackHeader, &[memories[k], len, cap]);
        header.expect("the helper has a result")
    })
}

/// Emits a region at whose end the loop's body has these results, and the end of the trip.
fn trip<'m, A: Assembler<'m>>(
    e: &mut A,
    inner: Region,
    results: &[Value],
    lp: &Loop<'m, A>,
    outer: Option<A::V>,
) -> Res<'m, A> {
    let f = e.f;
    let last = f.regions[inner].insts.split_last().filter(|_| A::THREADS_JUMPS && lp.active.is_none());
    if let Some((&last, before)) = last
        && f.insts[last].op == Op::If
        && f.insts[last].results.contains(&results[0])
    {
        let tail = &f.insts[last];
        notes::within(e, |e| before.iter().try_for_each(|&i| inst(e, i)))?;
        path_inst(e, last);
        let (yes, no) = (e.block(&[]), e.block(&[]));
        e.branch(e.one(tail.args[0]), (yes, &[]), (no, &[]), Odds::Even);
        for (block, &arm) in [yes, no].into_iter().zip(&tail.regions) {
            let yielded = &f.regions[arm].results;
            let mapped = |&v: &Value| tail.results.iter().position(|&r| r == v).map_or(v, |k| yielded[k]);
            let results: Vec<Value> = results.iter().map(mapped).collect();
            e.enter(block);
            path_arm(e, arm);
            trip(e, arm, &results, lp, outer)?;
        }
        return Ok(());
    }
    region(e, inner)?;
    end_trip(e, results, lp, outer)
}

/// Ends a trip of a `loop`: pushes to the stacks, then continues with the next trip or leaves the loop.
fn end_trip<'m, A: Assembler<'m>>(
    e: &mut A,
    results: &[Value],
    lp: &Loop<'m, A>,
    outer: Option<A::V>,
) -> Res<'m, A> {
    let n = lp.carried.len();
    let (again, known) = (e.one(results[0]), e.const_of(results[0]));
    let mut own = lp.own.clone();
    for (stack, &memory) in lp.stacks.iter().zip(own.iter().skip(2)) {
        push(e, lp, (stack, &results[n + 1..]), memory, own[0])?;
    }
    if let Some(len) = own.first_mut() {
        if let (Some(bound), true) = (lp.info.max_iters, known != Some(0)) {
            let most = e.number(bound.into());
            let over = e.compare(Compare::MoreOrEqualUnsigned, *len, most);
            let over = e.binary(Binary::And, over, again);
            fail_if(e, over, Site::MaxIters(bound, lp.data.span));
        }
        let one = e.number(1);
        *len = e.binary(Binary::AddNoWrap, *len, one);
    }
    let [trips, after] = carry(e, lp, &results[1..=n])?;
    release(e, lp.mark);
    let (lanes, again) = match lp.active {
        Some(active) => {
            let (lanes, some) = e.remaining(active, again);
            (Some(lanes), some)
        }
        None => (None, again),
    };
    e.set_mask(outer);
    let next: Vals<A::V> = lanes.into_iter().chain(own.iter().copied()).chain(trips).collect();
    let after: Vals<A::V> = after.into_iter().chain(own).collect();
    match known.filter(|_| lanes.is_none()) {
        Some(0) => e.jump(lp.exit, &after),
        Some(_) => e.jump(lp.body, &next),
        None => {
            e.split_lanes(lp.data.regions[0], again);
            e.branch(again, (lp.body, &next), (lp.exit, &after), Odds::Even);
        }
    }
    Ok(())
}

/// Makes sure that the stacks of a `loop` have room for another trip, before the trip allocates anything. A trip more
/// than the bound of the loop only finds that it is over.
fn make_room<'m, A: Assembler<'m>>(
    e: &mut A,
    stacks: &[Pushed],
    bound: Option<u32>,
    own: &mut Vals<A::V>,
) -> Res<'m, A> {
    let [len, cap, ..] = own[..] else { return Ok(()) };
    let full = e.compare(Compare::Equal, len, cap);
    let now: Vals<A::V> = own[1..].iter().copied().collect();
    let grown = unless(e, full, Odds::Unlikely, &now, |e| {
        let doubled = e.binary(Binary::Add, cap, cap);
        let least = e.number(16);
        let mut more = e.binary(Binary::MaxUnsigned, doubled, least);
        if let Some(bound) = bound {
            let most = e.number(u64::from(bound) + 1);
            let less = e.compare(Compare::LessUnsigned, most, more);
            more = e.select(less, most, more);
        }
        let mut grown: Vals<A::V> = std::iter::once(more).collect();
        for (&memory, stack) in now[1..].iter().zip(stacks) {
            let bytes = e.number(e.stride(stack.ty, memory));
            let room = e.rare_helper(Helper::StackRoom, &[memory, len, more, bytes]);
            grown.push(e.widened(room.expect("the helper has a result"), e.is_wide(memory)));
        }
        Ok(grown)
    })?;
    own.truncate(1);
    own.extend(grown);
    Ok(())
}
