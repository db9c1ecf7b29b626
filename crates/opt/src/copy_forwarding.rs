//! Reads arrays that are copies of read-only memory directly from that memory.
//!
//! `for i < n { c[i] = m[i + k] }; a = load c; a[j]` ↦ `m[j + k]`, with `n` the length of `c`, `k` from before the
//! loop, and `m` memory that is only read. A parameter that is an array becomes such a copy where a kernel passes the contents
//! of a buffer. A processor reads a copy a little faster than a buffer whose length it has to compare with the index, so
//! it keeps a copy whose elements are read again and again, unless all threads make it: then the length is known
//! (`native::plan`). On a device each thread has its own copy, which does not stay in nearby memory.
//!
//! The rewrite is right because nothing else writes `c`, every read that is replaced comes after the whole
//! loop, and an index that is not certainly below `n` is tested: there may be more memory beyond the array's
//! end.

use ir::analysis::points_to::direct_global;
use ir::analysis::{Analyses, Summaries, Use};
use ir::{Function, Inst, InstData, Op, Scalar, Type, TypeData, Types, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::util::{make_number, times};
use ir::transform::Subst;

/// The minimum length of an array whose copy is worth replacing.
const LEAST: u32 = 8;

/// Which copies are not worth making.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwanted {
    /// All.
    All,
    /// Those of which few elements are read, or none more than a few times.
    HardlyRead,
}

/// The maximum number of reads for each element of a copy that is hardly read.
const MOST_READS: u64 = 4;

/// The number that is added to that of an element.
#[derive(Clone, Copy)]
enum Offset {
    Constant(u64),
    /// A value from before the loop.
    Value(Value),
}

/// An array that a loop fills from memory.
#[derive(Clone, Copy)]
struct Copy {
    /// The load that produces an element.
    load: Inst,
    /// The load's operand that is the number of the element, less `k`.
    at: usize,
    k: Option<Offset>,
    n: u32,
}

/// Replaces the reads of such copies; returns true if there were any. Only valid after AD.
pub(crate) fn run(types: &mut Types, func: &mut Function, summaries: &Summaries, unwanted: Unwanted) -> bool {
    let analyses = Analyses::of(types, func);
    // The reads to replace, each with true if its index is in range.
    let mut reads: FxHashMap<Inst, (Copy, bool)> = FxHashMap::default();
    func.walk(func.body(), &mut |local| {
        let Some((copy, fill)) = copy(&analyses, summaries, local) else { return };
        let tree = analyses.tree();
        let (mut found, mut all_found) = (Vec::new(), true);
        for &at in analyses.uses().of_value(func.result(local)) {
            // A read within the loop is before the end of the loop.
            let Use::Operand(inst, 0) = at else {
                all_found = false;
                continue;
            };
            let data = &func.insts[inst];
            let is_after = tree.order(inst) > tree.order(fill)
                && !tree.home(inst).is_some_and(|home| tree.contains(func.insts[fill].regions[0], home));
            match (&data.op, data.args.len()) {
                (Op::Load, 2) if is_after => found.push(inst),
                (Op::Load, 1) if is_after => {
                    for &at in analyses.uses().of_value(data.results[0]) {
                        match at {
                            Use::Operand(index, 0) if func.insts[index].op == Op::Index => found.push(index),
                            Use::Operand(..) | Use::Result(..) => all_found = false,
                        }
                    }
                }
                (Op::Store, _) => {}
                _ => all_found = false,
            }
        }
        if unwanted == Unwanted::HardlyRead && tree.home(local) != Some(func.body()) {
            let home = tree.home(local);
            let times = |&inst: &Inst| home.and_then(|home| times(&analyses, inst, home));
            let sum = found.iter().try_fold(0u64, |sum, inst| Some(sum.saturating_add(times(inst)?)));
            if !all_found || sum.is_none_or(|sum| sum > MOST_READS * u64::from(copy.n)) {
                return;
            }
        }
        for inst in found {
            let known = analyses.bounds().below(func.insts[inst].args[1], copy.n.into());
            reads.insert(inst, (copy, known));
        }
    });
    if reads.is_empty() {
        return false;
    }
    let mut subst = Subst::default();
    let mut changed = false;
    func.rebuild(|func, inst, out| {
        match reads.get(&inst).and_then(|&(copy, known)| read(types, func, copy, inst, known)) {
            Some((made, value)) => {
                out.extend(made);
                subst.set(func.result(inst), value);
                changed = true;
            }
            None => out.push(inst),
        }
    });
    subst.apply_everywhere(func);
    changed
}

/// The copy that is in the cell that `local` makes, and the loop that fills the cell: nothing else writes it.
fn copy(analyses: &Analyses, summaries: &Summaries, local: Inst) -> Option<(Copy, Inst)> {
    let (types, func, tree) = (analyses.types, analyses.func, analyses.tree());
    if func.insts[local].op != Op::Local {
        return None;
    }
    let cell = func.result(local);
    let TypeData::Array(_, n) = types[types.content(func.ty(cell))?] else { return None };
    let mut store = None;
    for &at in analyses.uses().of_value(cell) {
        let Use::Operand(inst, 0) = at else { return None };
        match func.insts[inst].op {
            Op::Load => {}
            Op::Store if store.is_none() => store = Some(inst),
            _ => return None,
        }
    }
    let store = store?;
    let &[_, index, x] = &func.insts[store].args[..] else { return None };
    // The store is in a loop over all elements, beside the cell.
    let body = tree.home(store)?;
    let fill = analyses.trips().counter(index)?;
    let is_whole = tree.holder(body) == Some(fill)
        && tree.home(fill) == tree.home(local)
        && analyses.constant_trips(index) == Some(u64::from(n));
    let load = analyses.inst(x)?;
    let made = &func.insts[load];
    if n < LEAST || !is_whole || !matches!(made.op, Op::BufferLoad(_)) {
        return None;
    }
    let global = direct_global(func, analyses.defs(), made.args[0])?;
    // One operand is the number of the element, or its sum with another number; the others are defined before the loop.
    let offset = |arg: Value| {
        if arg == index {
            return Some(None);
        }
        let sum = analyses.def(arg).filter(|sum| sum.op == Op::Add)?;
        let k = match sum.args[..] {
            [a, k] if a == index => k,
            [k, b] if b == index => k,
            _ => return None,
        };
        let outside = (analyses.home_of(k) != Some(body)).then_some(Offset::Value(k));
        analyses.constant(k).map(Offset::Constant).or(outside).map(Some)
    };
    let (at, k) = made.args.iter().enumerate().find_map(|(at, &arg)| Some((at, offset(arg)?)))?;
    let mut others = made.args.iter().enumerate().filter(|&(k, _)| k != at);
    let before = others.all(|(_, &arg)| analyses.home_of(arg) != Some(body));
    (before && summaries.is_constant(global)).then_some((Copy { load, at, k, n }, fill))
}

/// Makes the instructions that read memory in place of the copy's element that `inst` reads; returns them
/// with their result.
fn read(
    types: &Types,
    func: &mut Function,
    copy: Copy,
    inst: Inst,
    known: bool,
) -> Option<(SmallVec<[Inst; 8]>, Value)> {
    let InstData { args, results, span, .. } = func.insts[inst].clone();
    let (index, ty) = (args[1], func.ty(results[0]));
    let TypeData::Scalar(s @ (Scalar::I32 | Scalar::U32)) = types[func.ty(index)] else { return None };
    if let Some(Offset::Value(k)) = copy.k
        && func.ty(k) != func.ty(index)
    {
        return None;
    }
    let mut list = SmallVec::new();
    let mut load = func.insts[copy.load].clone();
    let mut emit = |op: Op, args: &[Value], ty: Type| {
        let (inst, v) = make_number(func, op, args, ty, span);
        list.push(inst);
        v
    };
    load.args[copy.at] = match copy.k {
        Some(k) => {
            let k = match k {
                Offset::Constant(k) => emit(Op::Const(k), &[], s.into()),
                Offset::Value(k) => k,
            };
            emit(Op::Add, &[index, k], s.into())
        }
        None => index,
    };
    let value = emit(load.op, &load.args, ty);
    if known {
        return Some((list, value));
    }
    let unsigned = if s == Scalar::I32 { emit(Op::Bitcast, &[index], Type::U32) } else { index };
    let n = emit(Op::Const(u64::from(copy.n)), &[], Type::U32);
    let inside = emit(Op::Lt, &[unsigned, n], Type::BOOL);
    let zero = emit(Op::Zero, &[], ty);
    let value = emit(Op::Select, &[inside, value, zero], ty);
    Some((list, value))
}
