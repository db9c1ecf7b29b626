//! Implements `[Checkpoint(n)]`: splits a loop of many trips into segments, so that reverse mode keeps little
//! of it.
//!
//! The loop becomes an outer loop that calls a function, its *segment*, which runs some of the trips. The
//! call is reversed like that of a recursive function ([`crate::recursion`]): its operands are kept, and its
//! backward derivative runs the trips of one segment again before it goes back through them. So at any time,
//! memory holds the states at the starts of all segments and the residuals of one segment. The primal runs
//! exactly once more.
//!
//! With `n` given, each segment has `n` trips. Without `n`, both the number and the length of segments are
//! about the square root of the number of trips:
//!
//! - If the number `N` of trips is known when the loop starts, the first segment has `m` trips, the next `m -
//!   1` and so on, with `m(m+1)/2 ≥ N`. While the `k`th segment is reversed there are `k` states and its own
//!   `m - k + 1` residuals, so at any time about `m ≈ √(2N)` in all. That is the binomial schedule for two
//!   forward runs of each trip: no other schedule keeps less (A. Griewank, "Achieving logarithmic growth of
//!   temporal and spatial complexity in reverse automatic differentiation", 1992).
//! - Otherwise the `k`th segment has `k` trips: `m` segments make about `m²/2` trips, however many trips
//!   there will be.
//!
//! Cells outside the loop that the loop uses are part of the state: their contents are passed to the segment
//! and returned from it.

use ir::walk::{ValueMap, copy_insts, free_values};
use ir::{
    Builder, Defs, Func, Function, Inst, LoopInfo, Math, Module, Op, Origin, Prefer, Region, Slot, Type,
    TypeData, Types, Value,
};
use rustc_hash::FxHashMap;

use crate::copy::fresh;
use crate::engine::Engine;
use crate::shape::plain_slot;

/// A segment, and the outer values that it captures.
struct Segment {
    func: Func,
    /// The maximum number of segments.
    bound: Option<u32>,
    /// The maximum number of trips of one segment.
    trips: Option<u32>,
    /// Captured values that are not cells.
    values: Vec<Value>,
    /// Captured constants, which the segment rematerialises.
    constants: Vec<Inst>,
    /// Captured cells that the loop only reads.
    read: Vec<Value>,
    /// Captured cells that the loop writes.
    written: Vec<Value>,
}

impl Engine<'_> {
    /// Splits all loops of a function that have a checkpoint attribute.
    pub(crate) fn segment(&mut self, func: Func) {
        let src = &self.module.funcs[func];
        if !src.insts.values().any(|data| checkpoint(&data.op).is_some()) {
            return;
        }
        let src = src.clone();
        let mut found = Vec::new();
        loops(&src, src.body(), &mut found);
        let segments: Vec<(Inst, Segment)> =
            found.into_iter().filter_map(|inst| Some((inst, self.outline(func, &src, inst)?))).collect();
        let Module { types, funcs, .. } = &mut *self.module;
        let mut b = Builder::resume(types, src.clone());
        let mut replaced: FxHashMap<Inst, Region> = FxHashMap::default();
        for (inst, segment) in &segments {
            replaced.insert(*inst, b.open());
            repeat(&mut b, &src, *inst, segment, &funcs[segment.func].results);
            b.close(Vec::new());
        }
        let mut body = b.func;
        body.rebuild(|body, inst, out| match replaced.get(&inst) {
            Some(&region) => out.append(&mut body.regions[region].insts),
            None => out.push(inst),
        });
        self.define(func, body);
    }

    /// Makes the segment of a loop. Returns `None` if the loop uses a part of a cell as a cell, which no loop
    /// in source code does.
    fn outline(&mut self, func: Func, src: &Function, inst: Inst) -> Option<Segment> {
        let defs = Defs::of(src);
        let body = src.insts[inst].regions[0];
        let (bound, trips) = bounds(src, &defs, inst);
        let mut segment = Segment {
            func,
            bound,
            trips,
            values: Vec::new(),
            constants: Vec::new(),
            read: Vec::new(),
            written: Vec::new(),
        };
        for v in free_values(src, body) {
            let maker = defs.inst(v);
            if let Some(made) = maker
                && matches!(src.insts[made].op, Op::Const(_) | Op::Zero | Op::Absent | Op::GlobalRef(_))
            {
                segment.constants.push(made);
            } else if !matches!(self.module.types[src.ty(v)], TypeData::Cell(_)) {
                segment.values.push(v);
            } else if defs.inst(v).is_some_and(|d| matches!(src.insts[d].op, Op::SubCell)) {
                return None;
            } else if writes(src, body, v) {
                segment.written.push(v);
            } else {
                segment.read.push(v);
            }
        }
        let types = &mut self.module.types;
        let name = format!("{}_segment", src.name);
        let made = build(types, src, inst, &segment);
        let declared = self.declare(name, Origin::Segment(func), made.params.clone(), made.results.clone());
        self.module.funcs[declared].span = src.insts[inst].span;
        self.module.funcs[declared].checkpoint.prefer = Prefer::Recompute;
        self.define(declared, made);
        segment.func = declared;
        Some(segment)
    }
}

fn checkpoint(op: &Op) -> Option<u32> {
    match op {
        Op::For(info) | Op::Loop(info) => info.checkpoint.filter(|_| !info.down),
        _ => None,
    }
}

/// The maximum number of segments of a loop and the maximum number of trips of a segment.
fn bounds(src: &Function, defs: &Defs, inst: Inst) -> (Option<u32>, Option<u32>) {
    let data = &src.insts[inst];
    let count = match data.op {
        Op::For(_) => defs.inst(data.args[0]).map(|d| &src.insts[d].op),
        _ => None,
    };
    let trips = match (count, &data.op) {
        (Some(&Op::Const(n)), _) => Some(n),
        (_, Op::For(info)) => info.max_iters.map(u64::from),
        (_, Op::Loop(info)) => info.max_iters.map(|n| u64::from(n) + 1),
        _ => None,
    };
    match checkpoint(&data.op) {
        Some(n) if n > 0 => {
            let bound = trips.and_then(|t| u32::try_from(t.div_ceil(u64::from(n))).ok());
            (bound, Some(n))
        }
        _ => {
            let root = trips.map(|t| (2.0 * t as f64).sqrt().ceil() as u32 + 1);
            (root, root)
        }
    }
}

/// The number of leading operands of a loop that are not carried.
fn lead(op: &Op) -> usize {
    usize::from(matches!(op, Op::For(_)))
}

/// Collects the loops to be split, outermost ones only, as the inner ones become part of the segment. A loop
/// that yields stacks was made by differentiation and is skipped.
fn loops(src: &Function, region: Region, found: &mut Vec<Inst>) {
    for &inst in &src.regions[region].insts {
        let data = &src.insts[inst];
        if checkpoint(&data.op).is_some() && data.results.len() == data.args.len() - lead(&data.op) {
            found.push(inst);
        } else {
            data.regions.iter().for_each(|&r| loops(src, r, found));
        }
    }
}

fn writes(src: &Function, region: Region, cell: Value) -> bool {
    let mut found = false;
    src.walk(region, &mut |inst| {
        let data = &src.insts[inst];
        found |= matches!(data.op, Op::Store | Op::AddTo | Op::SubCell) && data.args[0] == cell;
    });
    found
}

/// The type of the trip counter.
fn unsigned(ty: Type) -> Type {
    match ty {
        Type::I64 | Type::U64 => Type::U64,
        _ => Type::U32,
    }
}

fn number(b: &mut Builder, ty: Type, n: u64) -> Value {
    b.emit_typed(Op::Const(n), &[], ty)
}

fn convert(b: &mut Builder, v: Value, ty: Type) -> Value {
    if b.func.ty(v) == ty { v } else { b.emit_typed(Op::Bitcast, &[v], ty) }
}

/// Builds the segment `(start, length, carried…, values…, contents…) -> (carried…, contents…)`. The segment
/// of a `loop` has no `start`, and its first result says whether to go on.
fn build(types: &mut Types, src: &Function, inst: Inst, segment: &Segment) -> Function {
    let data = &src.insts[inst];
    let body = data.regions[0];
    let counted = matches!(data.op, Op::For(_));
    let carried = &data.args[lead(&data.op)..];
    let trip = if counted { unsigned(src.ty(data.args[0])) } else { Type::U32 };
    let mut b = Builder::new(types, String::new());
    b.span = data.span;
    let param = |b: &mut Builder, ty: Type, like: Option<Value>| {
        let name = like.and_then(|v| src.values[v].name.clone());
        let slot = Slot { name, ..plain_slot(b.types, ty) };
        b.param(slot)
    };
    let start = counted.then(|| param(&mut b, trip, None));
    let length = param(&mut b, trip, None);
    let inner_params = &src.regions[body].params[lead(&data.op)..];
    let first: Vec<Value> = inner_params.iter().map(|&v| param(&mut b, src.ty(v), Some(v))).collect();
    let mut map = ValueMap::new();
    for &v in &segment.values {
        let copy = param(&mut b, src.ty(v), Some(v));
        map.set(v, copy);
    }
    let cells: Vec<Value> = segment.read.iter().chain(&segment.written).copied().collect();
    let contents: Vec<Value> = cells
        .iter()
        .map(|&v| {
            let ty = b.types.content(src.ty(v)).expect("a cell has a content");
            param(&mut b, ty, Some(v))
        })
        .collect();
    for (&cell, &content) in cells.iter().zip(&contents) {
        let local = b.emit(Op::Local, &[content]);
        map.set(cell, local);
    }
    for &inst in &segment.constants {
        ir::walk::copy_inst(src, inst, &mut b, &mut map);
    }
    let info = match data.op {
        Op::For(info) | Op::Loop(info) => LoopInfo { max_iters: segment.trips, checkpoint: None, ..info },
        _ => LoopInfo::default(),
    };
    let mut args = Vec::new();
    let region;
    if let Some(start) = start {
        args.push(length);
        region = b.open();
        let at = b.region_param(trip);
        let from_start = b.emit(Op::Add, &[start, at]);
        let index = convert(&mut b, from_start, src.ty(data.args[0]));
        map.set(src.regions[body].params[0], index);
    } else {
        args.push(number(&mut b, Type::U32, 0));
        args.push(b.bool(true));
        region = b.open();
    }
    args.extend(&first);
    let counter = (!counted).then(|| {
        let counter = b.region_param(Type::U32);
        b.region_param(Type::BOOL);
        counter
    });
    for &v in inner_params {
        let copy = b.region_param(src.ty(v));
        b.func.values[copy].name = src.values[v].name.clone();
        map.set(v, copy);
    }
    let mut results = copy_insts(src, body, &mut b, &mut map);
    if let Some(counter) = counter {
        let one = number(&mut b, Type::U32, 1);
        let next = b.emit(Op::Add, &[counter, one]);
        let more = b.emit(Op::Lt, &[next, length]);
        let again = results.remove(0);
        let both = b.emit(Op::And, &[again, more]);
        results.splice(0..0, [both, next, again]);
    }
    b.close(results);
    let op = if counted { Op::For(info) } else { Op::Loop(info) };
    let mut out = b.nest(op, &args, &[region]);
    if !counted {
        out.remove(0);
    }
    debug_assert_eq!(out.len(), carried.len() + usize::from(!counted));
    for &cell in &segment.written {
        let local = map.get_or_same(cell);
        out.push(b.emit(Op::Load, &[local]));
    }
    let slots = out
        .iter()
        .map(|&v| {
            let ty = b.func.ty(v);
            plain_slot(b.types, ty)
        })
        .collect();
    b.finish(out, slots)
}

/// Emits an assertion that `n` is at most `most`, the bound given by `[MaxIters]`.
fn promise(b: &mut Builder, n: Value, most: u32) {
    let ty = b.func.ty(n);
    let bound = number(b, ty, u64::from(most));
    let fits = b.emit(Op::Le, &[n, bound]);
    b.effect(Op::Assert(ir::interp::max_iters_message(most).into()), &[fits]);
}

/// Emits `⌈√(2n)⌉`, at least 1, as the length of the first segment. It is enough, with a margin for rounding:
/// `m(m+1)/2 ≥ n + m/2`.
fn longest(b: &mut Builder, n: Value) -> Value {
    let trip = b.func.ty(n);
    let two = b.emit_typed(Op::Const(u64::from(2f32.to_bits())), &[], Type::F32);
    let n = b.emit_typed(Op::Convert, &[n], Type::F32);
    let n = b.emit(Op::Mul, &[n, two]);
    let root = b.emit(Op::Math(Math::Sqrt), &[n]);
    let m = b.emit(Op::Math(Math::Ceil), &[root]);
    let m = b.emit_typed(Op::Convert, &[m], trip);
    let least = number(b, trip, 1);
    b.emit(Op::Math(Math::Max), &[m, least])
}

/// Emits the loop over segments in place of a loop. `slots` are the results of the segment.
fn repeat(b: &mut Builder, src: &Function, inst: Inst, segment: &Segment, slots: &[Slot]) {
    let data = &src.insts[inst];
    let counted = matches!(data.op, Op::For(_));
    let length = checkpoint(&data.op).unwrap_or(0);
    let trip = if counted { unsigned(src.ty(data.args[0])) } else { Type::U32 };
    let (count, carried) = data.args.split_at(lead(&data.op));
    b.span = data.span;
    let count = count.first().map(|&n| convert(b, n, trip));
    // `[MaxIters]` is checked before each segment, so the bounds on segments and on their number hold.
    let most = match data.op {
        Op::For(info) | Op::Loop(info) => info.max_iters,
        _ => None,
    };
    if let (Some(most), Some(count)) = (most, count) {
        promise(b, count, most);
    }
    let fixed: Vec<Value> = segment.read.iter().map(|&cell| b.emit(Op::Load, &[cell])).collect();
    let one = number(b, trip, 1);
    let mut init = Vec::new();
    if counted {
        init.push(number(b, trip, 0));
    }
    init.push(match (length, count) {
        (0, Some(count)) => longest(b, count),
        (0, None) => one,
        _ => number(b, trip, u64::from(length)),
    });
    init.extend(carried);

    let total = most.filter(|_| !counted);
    if total.is_some() {
        init.insert(0, number(b, trip, 0));
    }
    let region = b.open();
    let start = (counted || total.is_some()).then(|| b.region_param(trip));
    let step = b.region_param(trip);
    let state: Vec<Value> = carried.iter().map(|&v| b.region_param(src.ty(v))).collect();
    let mut operands = Vec::new();
    let mut made = step;
    if let (Some(start), Some(count)) = (start, count) {
        let left = b.emit(Op::Sub, &[count, start]);
        made = b.emit(Op::Math(Math::Min), &[step, left]);
        operands.push(start);
    }
    if let (Some(most), Some(start)) = (total, start) {
        promise(b, start, most);
    }
    operands.push(made);
    operands.extend(state);
    operands.extend(&segment.values);
    operands.extend(fixed);
    let cells = &segment.written;
    operands.extend(cells.iter().map(|&cell| b.emit(Op::Load, &[cell])));
    let mut out = b.call_func(segment.func, slots, &operands);
    let contents = out.split_off(out.len() - cells.len());
    for (&cell, &content) in cells.iter().zip(&contents) {
        b.effect(Op::Store, &[cell, content]);
    }
    let next_step = match (length, counted) {
        (0, true) => {
            let less = b.emit(Op::Sub, &[step, one]);
            b.emit(Op::Math(Math::Max), &[less, one])
        }
        (0, false) => b.emit(Op::Add, &[step, one]),
        _ => step,
    };
    let mut results = Vec::new();
    if let (Some(start), Some(count)) = (start, count) {
        let next = b.emit(Op::Add, &[start, made]);
        results.extend([b.emit(Op::Lt, &[next, count]), next]);
    } else {
        results.push(out.remove(0));
        results.extend(start.map(|start| b.emit(Op::Add, &[start, made])));
    }
    results.push(next_step);
    results.extend(out);
    b.close(results);
    let info = LoopInfo { max_iters: segment.bound, ..LoopInfo::default() };
    // The results of the loop that is replaced are the last ones.
    let extra = &init[..init.len() - carried.len()];
    let mut results = fresh(b, extra.iter().map(|&v| b.func.ty(v)).collect::<Vec<_>>());
    results.extend(&data.results);
    b.push(Op::Loop(info), &init, &results, &[region]);
}
