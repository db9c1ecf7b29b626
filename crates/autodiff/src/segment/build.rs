//! Builds segments, and the loops over them that take the place of loops.

use ir::walk::{ValueMap, copy_insts};
use ir::{Builder, Checkpoint, Function, Inst, LoopInfo, Math, Op, Slot, Type, Types, Value};

use super::{Segment, binomial, checkpoint, lead};
use crate::copy::fresh;
use crate::shape::plain_slot;

/// The type of the trip counter.
pub(super) fn unsigned(ty: Type) -> Type {
    match ty {
        Type::I64 | Type::U64 => Type::U64,
        _ => Type::U32,
    }
}

pub(super) fn number(b: &mut Builder, ty: Type, n: u64) -> Value {
    b.emit_typed(Op::Const(n), &[], ty)
}

pub(super) fn convert(b: &mut Builder, v: Value, ty: Type) -> Value {
    if b.func.ty(v) == ty { v } else { b.emit_typed(Op::Bitcast, &[v], ty) }
}

/// Builds the segment `(start, length, carried…, values…, contents…) -> (carried…, contents…)`. The segment
/// of a `loop` has no `start`, and its first result says whether to go on.
pub(super) fn build(types: &mut Types, src: &Function, inst: Inst, segment: &Segment) -> Function {
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
pub(super) fn promise(b: &mut Builder, n: Value, most: u32) {
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
pub(super) fn repeat(b: &mut Builder, src: &Function, inst: Inst, segment: &Segment, slots: &[Slot]) {
    let data = &src.insts[inst];
    let counted = matches!(data.op, Op::For(_));
    let kind = checkpoint(&data.op).unwrap_or(Checkpoint::Root);
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
    init.push(match (kind, count) {
        (Checkpoint::Root, Some(count)) => longest(b, count),
        (Checkpoint::Root, None) => one,
        (Checkpoint::Every(n), _) => number(b, trip, u64::from(n)),
        (Checkpoint::States(states), _) => number(b, trip, u64::from(states) + 1),
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
    operands.extend(segment.binomial.map(|(_, states)| number(b, trip, u64::from(states))));
    operands.extend(state);
    operands.extend(&segment.values);
    operands.extend(fixed);
    let cells = &segment.written;
    operands.extend(cells.iter().map(|&cell| b.emit(Op::Load, &[cell])));
    let callee = segment.binomial.map_or(segment.func, |(whole, _)| whole);
    let mut out = b.call_func(callee, slots, &operands);
    let contents = out.split_off(out.len() - cells.len());
    for (&cell, &content) in cells.iter().zip(&contents) {
        b.effect(Op::Store, &[cell, content]);
    }
    let next_step = match (kind, counted) {
        (Checkpoint::Root, true) => {
            let less = b.emit(Op::Sub, &[step, one]);
            b.emit(Op::Math(Math::Max), &[less, one])
        }
        (Checkpoint::Root, false) => b.emit(Op::Add, &[step, one]),
        (Checkpoint::Every(_), _) => step,
        (Checkpoint::States(_), _) => binomial::grow(b, step),
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
