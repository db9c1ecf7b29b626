//! Emits calls, `if` and `switch`.

use ir::{Func, Inst, InstData, Op, Region, Scalar, Span, scalar};

use super::blocks::either;
use super::paths::path_arm;
use super::{Assembler, Binary, Compare, Odds, Res, Vals, bundles, in_range, loops, region};
use crate::types::{is_array, size, words};

// ---- control

/// Emits calls and the ops that hold regions.
pub(super) fn control<'m, A: Assembler<'m>>(e: &mut A, inst: Inst) -> Res<'m, A> {
    let f = e.f;
    let data = &f.insts[inst];
    let divergent = e.diverges(inst);
    match &data.op {
        Op::Call(func) => {
            let results = call(e, *func, &data.args, data.span)?;
            set_all(e, data, &results)
        }
        Op::If if divergent => e.parted(data, &[]),
        Op::Switch(cases) if divergent => e.parted(data, cases),
        Op::If => if_op(e, data),
        Op::Switch(cases) => switch(e, data, cases),
        Op::For(info) if divergent => loops::for_op(e, inst, *info, divergent),
        Op::For(info) => in_range::for_op(e, inst, *info),
        Op::Loop(info) => loops::loop_op(e, inst, *info, divergent),
        _ => e.unsupported(&data.op, "a derivative that was not generated", data.span),
    }
}

/// Sets the results of an instruction, and the bundles that are results of a branch.
pub fn set_all<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, all: &[Vals<A::V>]) -> Res<'m, A> {
    for (&result, vals) in data.results.iter().zip(all) {
        e.set(result, vals);
    }
    bundles::set_joined(e, data, all.get(data.results.len()..).unwrap_or_default())
}

/// Calls a function of the module; returns the parts of each result.
pub fn call<'m, A: Assembler<'m>>(
    e: &mut A,
    func: Func,
    args: &[ir::Value],
    span: Span,
) -> Res<'m, A, Vec<Vals<A::V>>> {
    let callee = &e.module().funcs[func];
    if !callee.has_body() {
        return e.unsupported(&Op::Call(func), "a function without a body", span);
    }
    let varying = e.results_vary(Some((func, args)))?;
    let (mut parts, mut arrays) = (Vals::new(), Vals::new());
    for &arg in args {
        let (ty, vals, varying) = (e.ty(arg), e.get(arg), e.varies(arg));
        parts.extend(e.fit_all(ty, vals, varying, span)?);
    }
    for (slot, &varying) in callee.results.iter().zip(&varying) {
        if is_array(e.ts, slot.ty) {
            let to = e.memory(size(e.ts, slot.ty), varying);
            arrays.push(to);
        }
    }
    let mut returned = e.call_code(func, args, parts, &arrays, &varying).into_iter();
    let mut arrays = arrays.into_iter();
    let deal = |slot: &ir::Slot| match is_array(e.ts, slot.ty) {
        true => arrays.by_ref().take(1).collect(),
        false => returned.by_ref().take(words(e.ts, slot.ty)).collect(),
    };
    Ok(callee.results.iter().map(deal).collect())
}

/// Emits an arm; returns its results in the representation of the instruction's, and then the bundles that are results.
/// A result that is part of one has no value of its own.
pub fn arm<'m, A: Assembler<'m>>(e: &mut A, arm: Region, data: &InstData) -> Res<'m, A, Vec<Vals<A::V>>> {
    path_arm(e, arm);
    region(e, arm)?;
    let f = e.f;
    let results = f.regions[arm].results.iter().zip(&data.results);
    let mut all = Vec::with_capacity(data.results.len());
    for (&v, &result) in results {
        all.push(match e.bundles.member(result) {
            Some(_) => Vals::new(),
            None => e.fit_all(e.ty(v), e.get(v), e.varies(result), data.span)?,
        });
    }
    all.extend(bundles::of_arm(e, data, arm));
    Ok(all)
}

/// The values of an instruction's results, given all their parts in a row.
pub fn deal<'m, A: Assembler<'m>>(e: &A, data: &InstData, parts: Vals<A::V>) -> Vec<Vals<A::V>> {
    let mut parts = parts.into_iter();
    let count = |&result: &ir::Value| match e.bundles.member(result) {
        Some(_) => 0,
        None => words(e.ts, e.ty(result)),
    };
    let mut all: Vec<Vals<A::V>> =
        data.results.iter().map(|result| parts.by_ref().take(count(result)).collect()).collect();
    all.extend(parts.map(|bundle| Vals::from_slice(&[bundle])));
    all
}

fn if_op<'m, A: Assembler<'m>>(e: &mut A, data: &'m InstData) -> Res<'m, A> {
    let c = e.one(data.args[0]);
    let together = e.split_lanes(data.regions[0], c);
    let [yes, no] = [0, 1].map(|k| move |e: &mut A| parts_of_arm(e, data, data.regions[k]));
    let joined = either(e, c, Odds::Even, yes, no)?;
    e.rejoin(together);
    set_all(e, data, &deal(e, data, joined))
}

fn parts_of_arm<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, region: Region) -> Res<'m, A, Vals<A::V>> {
    Ok(arm(e, region, data)?.into_iter().flatten().collect())
}

/// The largest number of cases that are told apart in one place: LLVM's time is quadratic in the number of blocks that meet
/// in one, and groups of arms can be functions of their own.
const MOST_CASES: usize = 128;

fn switch<'m, A: Assembler<'m>>(e: &mut A, data: &'m InstData, cases: &[i64]) -> Res<'m, A> {
    let (s, tag) = (e.scalar_of(data.args[0]), e.one(data.args[0]));
    let mut arms: Vec<(u64, A::Block, Region)> = Vec::new();
    let mut seen = rustc_hash::FxHashSet::default();
    for (&case, &region) in cases.iter().zip(&data.regions) {
        let bits = scalar::from_i64(s, case);
        // A case that the tag's type cannot represent is never taken; of equal cases, the first one is.
        if scalar::to_i64(s, bits) == case && seen.insert(bits) {
            arms.push((bits, e.block(&[]), region));
        }
    }
    let default = e.block(&[]);
    let mut way = e.constant(Scalar::I32, 0);
    if e.parts_at(data.regions[0]) {
        for (&(bits, ..), k) in arms.iter().zip(1..) {
            let (case, k) = (e.constant(s, bits), e.constant(Scalar::I32, k));
            let is_case = e.compare(Compare::Equal, tag, case);
            way = e.select(is_case, k, way);
        }
    }
    let together = e.split_lanes(data.regions[0], way);
    let mut after = None;
    if arms.len() <= MOST_CASES {
        e.switch(tag, &entries(&arms), default);
        emit_arms(e, data, &arms, &mut after)?;
    } else {
        arms.sort_by_key(|arm| arm.0);
        let (known, first) = (e.block(&[]), arms[0].0);
        if arms[arms.len() - 1].0 - first == arms.len() as u64 - 1 {
            let [first, last] = [first, arms.len() as u64 - 1].map(|bits| e.constant(s, bits));
            let number = e.binary(Binary::Sub, tag, first);
            let is_known = e.compare(Compare::LessOrEqualUnsigned, number, last);
            e.branch(is_known, (known, &[]), (default, &[]), Odds::Even);
        } else {
            let all: Vec<(u64, A::Block)> = arms.iter().map(|arm| (arm.0, known)).collect();
            e.switch(tag, &all, default);
        }
        e.enter(known);
        let groups: Vec<(u64, A::Block)> =
            arms.chunks(MOST_CASES / 2).map(|group| (group[0].0, e.block(&[]))).collect();
        narrow(e, (s, tag), &groups);
        for (&(_, head), group) in groups.iter().zip(arms.chunks(MOST_CASES / 2)) {
            e.enter(head);
            // The tag is one of the group's.
            e.switch(tag, &entries(group), group[0].1);
            let mut joined = None;
            emit_arms(e, data, group, &mut joined)?;
            if let Some(joined) = joined {
                let found = e.enter(joined);
                let after = *after.get_or_insert_with(|| e.block(&found));
                e.jump(after, &found);
            }
        }
    }
    let last = data.regions.last().map(|&region| (0, default, region));
    emit_arms(e, data, last.as_slice(), &mut after)?;
    let Some(after) = after else { return Ok(()) };
    let joined = e.enter(after);
    e.rejoin(together);
    set_all(e, data, &deal(e, data, joined))
}

fn entries<B: Copy>(arms: &[(u64, B, Region)]) -> Vec<(u64, B)> {
    arms.iter().map(|arm| (arm.0, arm.1)).collect()
}

/// Jumps to the group of cases that a tag belongs to: the last whose first case is not above the tag. They are in order.
fn narrow<'m, A: Assembler<'m>>(e: &mut A, (s, tag): (Scalar, A::V), groups: &[(u64, A::Block)]) {
    if let [(_, only)] = groups {
        return e.jump(*only, &[]);
    }
    let (low, high) = groups.split_at(groups.len() / 2);
    let first = e.constant(s, high[0].0);
    let is_low = e.compare(Compare::LessUnsigned, tag, first);
    let [lower, upper] = [low, high].map(|half| (e.block(&[]), half));
    e.branch(is_low, (lower.0, &[]), (upper.0, &[]), Odds::Even);
    for (block, half) in [lower, upper] {
        e.enter(block);
        narrow(e, (s, tag), half);
    }
}

/// Emits arms, each of which jumps to the block after them.
fn emit_arms<'m, A: Assembler<'m>>(
    e: &mut A,
    data: &'m InstData,
    arms: &[(u64, A::Block, Region)],
    after: &mut Option<A::Block>,
) -> Res<'m, A> {
    for &(_, block, region) in arms {
        e.enter(block);
        let found = parts_of_arm(e, data, region)?;
        let after = *after.get_or_insert_with(|| e.block(&found));
        e.jump(after, &found);
    }
    Ok(())
}
