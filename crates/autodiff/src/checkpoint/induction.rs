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
use ir::analysis::implied::{Implied, step};
use ir::{Defs, Function, Inst, Op, Scalar, TypeData, Types, Value, ValueData};
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

/// Finds all induction variables of the loops with a linear part that count up.
pub(crate) fn inductions(types: &Types, src: &mut Function, sides: &Sides) -> FxHashMap<Value, Induction> {
    let mut loops = Vec::new();
    src.walk(src.body(), &mut |inst| {
        let counts_up = match src.insts[inst].op {
            Op::For(info) => !info.down,
            Op::Loop(_) => true,
            _ => false,
        };
        if counts_up && sides.mixed.contains(inst) {
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
        let known =
            if counted { Implied::default() } else { Implied::by(src, &defs, src.regions[body].results[0]) };
        for (idx, &param) in carried.iter().enumerate() {
            let is_integer =
                matches!(types[src.ty(param)], TypeData::Scalar(s) if s != Scalar::Bool && !s.is_float());
            if !is_integer || src.is_linear(param) {
                continue;
            }
            let next = known.resolve(src, &defs, src.regions[body].results[idx + usize::from(!counted)]);
            let Some((op, step)) = step(src, &defs, next, param) else { continue };
            let constant = match defs.op(src, step) {
                Some(Op::Const(bits)) => Some(*bits),
                _ => None,
            };
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
        let v = result.unwrap_or_else(|| src.values.push(ValueData::new(ty)));
        insts.push(src.make(op, args, &[v], span));
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
