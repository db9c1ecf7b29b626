//! Finds induction variables: loop-carried values that can be computed from the trip number, so they need not
//! be kept.
//!
//! If a loop adds the same integer `s` to a variable in every trip after which it continues, then the
//! variable is `init + t·s` at the start of trip `t`, exactly, since integers wrap. Sums of floats round, so
//! floats do not qualify.
//!
//! Loops that may exit early do the addition under a condition. After a trip that is not the last one, the
//! loop's `again` was true. This determines which arm of an `if` was taken wherever the other arm yields a
//! constant false.

use cranelift_entity::EntitySet;
use ir::{Defs, Function, Inst, InstData, Op, Scalar, Type, TypeData, Types, Value, ValueData};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::sides::Sides;

/// How to compute an induction variable at the start of a trip.
#[derive(Clone, Debug)]
pub(crate) struct Induction {
    /// The instructions, in order, which belong to no region. The result of the last one is the variable.
    pub(crate) insts: Vec<Inst>,
    /// The values that the instructions read.
    pub(crate) operands: SmallVec<[Value; 3]>,
}

/// Finds all induction variables of the loops with a linear part.
pub(crate) fn inductions(types: &Types, src: &mut Function, sides: &Sides) -> FxHashMap<Value, Induction> {
    let mut loops = Vec::new();
    src.walk(src.body(), &mut |inst| {
        if sides.mixed.contains(inst) && matches!(src.insts[inst].op, Op::For(_) | Op::Loop(_)) {
            loops.push(inst);
        }
    });
    let mut found = FxHashMap::default();
    if loops.is_empty() {
        return found;
    }
    let defs = Defs::of(src);
    for inst in loops {
        let body = src.insts[inst].regions[0];
        let counted = matches!(src.insts[inst].op, Op::For(_));
        let params = src.regions[body].params.clone();
        let (counter, carried) = if counted {
            (params[0], &params[1..])
        } else {
            let (last, rest) = params.split_last().expect("a loop counts its trips");
            (*last, rest)
        };
        let mut inside = EntitySet::new();
        src.walk(body, &mut |nested| {
            inside.extend(src.insts[nested].results.iter().copied());
            for &region in &src.insts[nested].regions {
                inside.extend(src.regions[region].params.iter().copied());
            }
        });
        inside.extend(params.iter().copied());
        let mut facts = FxHashMap::default();
        if !counted {
            imply(src, &defs, src.regions[body].results[0], true, &mut facts);
        }
        for (idx, &param) in carried.iter().enumerate() {
            let is_integer =
                matches!(types[src.ty(param)], TypeData::Scalar(s) if s != Scalar::Bool && !s.is_float());
            if !is_integer || src.is_linear(param) {
                continue;
            }
            let next = resolve(src, &defs, src.regions[body].results[idx + usize::from(!counted)], &facts);
            let Some((op, step)) = step(src, &defs, next, param) else { continue };
            let constant = defs.inst(step).map(|d| &src.insts[d].op).and_then(|op| match op {
                Op::Const(bits) => Some(*bits),
                _ => None,
            });
            if constant.is_none() && inside.contains(step) {
                continue;
            }
            let init = src.insts[inst].args[idx + usize::from(counted)];
            found.insert(param, build(src, inst, param, counter, init, (op, step, constant)));
        }
    }
    found
}

fn build(
    src: &mut Function,
    around: Inst,
    param: Value,
    counter: Value,
    init: Value,
    (op, step, constant): (Op, Value, Option<u64>),
) -> Induction {
    let ty = src.ty(param);
    let span = src.insts[around].span;
    let mut insts = Vec::new();
    let mut emit = |src: &mut Function, op: Op, args: &[Value], result: Option<Value>| {
        let v = result.unwrap_or_else(|| src.values.push(ValueData::new(ty, false)));
        insts.push(src.insts.push(InstData {
            op,
            args: args.into(),
            results: [v].into_iter().collect(),
            regions: SmallVec::new(),
            span,
        }));
        v
    };
    let mut operands: SmallVec<[Value; 3]> = [init, counter].into_iter().collect();
    let mut by = counter;
    if src.ty(counter) != ty {
        by = emit(src, Op::Convert, &[counter], None);
    }
    if constant != Some(1) {
        let step = match constant {
            Some(bits) => emit(src, Op::Const(bits), &[], None),
            None => {
                operands.push(step);
                step
            }
        };
        by = emit(src, Op::Mul, &[by, step], None);
    }
    emit(src, op, &[init, by], Some(param));
    Induction { insts, operands }
}

/// Matches `next = param op step`.
fn step(src: &Function, defs: &Defs, next: Value, param: Value) -> Option<(Op, Value)> {
    let data = &src.insts[defs.inst(next)?];
    match (&data.op, data.args.as_slice()) {
        (Op::Add, &[a, b]) if a == param => Some((Op::Add, b)),
        (Op::Add, &[a, b]) if b == param => Some((Op::Add, a)),
        (Op::Sub, &[a, b]) if a == param => Some((Op::Sub, b)),
        _ => None,
    }
}

fn constant_bool(src: &Function, defs: &Defs, v: Value) -> Option<bool> {
    let data = &src.insts[defs.inst(v)?];
    match data.op {
        Op::Const(bits) if src.ty(v) == Type::BOOL => Some(bits != 0),
        Op::Zero if src.ty(v) == Type::BOOL => Some(false),
        _ => None,
    }
}

/// The condition of an `if` or `select`, and its value for either outcome.
fn choices(src: &Function, defs: &Defs, v: Value) -> Option<(Value, Value, Value)> {
    let data = &src.insts[defs.inst(v)?];
    match data.op {
        Op::If => {
            let idx = data.results.iter().position(|&r| r == v)?;
            let arm = |k: usize| src.regions[data.regions[k]].results[idx];
            Some((data.args[0], arm(0), arm(1)))
        }
        Op::Select if src.ty(data.args[0]) == Type::BOOL => Some((data.args[0], data.args[1], data.args[2])),
        _ => None,
    }
}

/// Records all facts implied by `v` being `truth`.
fn imply(src: &Function, defs: &Defs, v: Value, truth: bool, facts: &mut FxHashMap<Value, bool>) {
    let mut work = vec![(v, truth)];
    while let Some((v, truth)) = work.pop() {
        if facts.insert(v, truth).is_some() {
            continue;
        }
        if let Some((cond, yes, no)) = choices(src, defs, v) {
            if constant_bool(src, defs, yes) == Some(!truth) {
                work.extend([(cond, false), (no, truth)]);
            } else if constant_bool(src, defs, no) == Some(!truth) {
                work.extend([(cond, true), (yes, truth)]);
            }
            continue;
        }
        let Some(inst) = defs.inst(v) else { continue };
        let data = &src.insts[inst];
        match data.op {
            Op::Not => work.push((data.args[0], !truth)),
            Op::And if truth => work.extend(data.args.iter().map(|&a| (a, true))),
            Op::Or if !truth => work.extend(data.args.iter().map(|&a| (a, false))),
            _ => (),
        }
    }
}

/// Follows `v` through the conditions that the facts decide.
fn resolve(src: &Function, defs: &Defs, mut v: Value, facts: &FxHashMap<Value, bool>) -> Value {
    while let Some((cond, yes, no)) = choices(src, defs, v) {
        match facts.get(&cond) {
            Some(true) => v = yes,
            Some(false) => v = no,
            None => break,
        }
    }
    v
}
