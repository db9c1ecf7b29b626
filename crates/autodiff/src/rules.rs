//! The tangents of ops without regions. All of calculus in the engine is here.
//!
//! `ȧ` is the tangent of `a`. A tangent that is zero for every input is absent and left out.
//!
//! | op | tangent |
//! | --- | --- |
//! | `a + b`, `a - b`, `-a` | `ȧ + ḃ`, `ȧ - ḃ`, `-ȧ` |
//! | `a * b` | `ȧ * b + ḃ * a` |
//! | `scale(d, a)` | `scale(ḋ, a) + scale(ȧ, d)`, the second where `d` is present |
//! | `q = a / b` | `(ȧ - ḃ * q) * (1 / b)` |
//! | `r = a % b` | `ȧ - ḃ * n`, with the whole number `n = (a - r) / b` |
//! | `c ? a : b` | `c ? ȧ : ḃ` |
//! | convert (float to float), splat, sum, construct, insert | the same op on the tangents |
//! | extract, index, load | the same part of the tangent; absent where the index is out of range |
//! | store, add_to | the same into the tangent cell; of an absent tangent where the index is out of range |
//!
//! All other ops have no tangent: they are constant (`detach`, memory), not on floats, or piecewise constant.
//!
//! In the layer of second tangents ([`crate::second`]) `ȧ` is the second tangent, and what is not linear has a term
//! more: `2 Σ ȧ ḃ`, over the directions, for `a * b` and `scale(a, b)`, and `-2 Σ ḃ q̇ / b` for `q = a / b`, as follows
//! from `q * b = a`.
//!
//! `1 / b` is a number of the primal: it is computed once for all directions and orders, and for all
//! quotients with the same divisor. For `c / b` with a constant `c` it is the quotient itself, up to a
//! factor. So a derivative of any order divides at most once more than its primal. Halves use a division, as
//! the reciprocals of large halves have too few digits.

use std::ops::Range;

use ir::analysis::Bounds;
use ir::build::{float_bits, float_value};
use ir::{Linearity, Op, Scalar, Type, TypeData, Value};

use crate::linearize::Linearize;

/// The factor in the tangent of a quotient, or in that of a remainder's divisor. It is not a tangent, so it
/// is emitted before the tangent.
pub(crate) fn factor(pass: &mut Linearize, data: &ir::InstData) -> Option<Value> {
    if data.op == Op::Rem {
        return whole(pass, data);
    }
    if data.op != Op::Div || data.args.iter().all(|&v| pass.find(v).is_none()) {
        return None;
    }
    let (ty, b) = (pass.src.ty(data.args[1]), pass.primal.at(data.args[1]));
    let s = pass.b.types.scalar_of(ty).filter(|s| matches!(s, Scalar::F32 | Scalar::F64))?;
    if pass.find(data.args[0]).is_none()
        && let Some(c) = constant(pass, data.args[0], s)
    {
        // If c and 1 / c are normal numbers, q can be used: where q over- or underflows, so does the
        // derivative, which is -q² / c.
        let bits = float_bits(s, 1.0 / c);
        let is_normal = |x: f64| if s == Scalar::F32 { (x as f32).is_normal() } else { x.is_normal() };
        if is_normal(c) && is_normal(float_value(s, bits)) {
            let q = pass.primal.at(data.results[0]);
            if c == 1.0 {
                return Some(q);
            }
            let by = pass.b.splat_float(ty, float_value(s, bits));
            return Some(pass.b.emit(Op::Mul, &[q, by]));
        }
    }
    let one = pass.b.splat_float(ty, 1.0);
    Some(pass.b.emit(Op::Div, &[one, b]))
}

/// The integer quotient of a remainder whose divisor has a tangent.
fn whole(pass: &mut Linearize, data: &ir::InstData) -> Option<Value> {
    pass.find(data.args[1])?;
    let [a, b, r] = [data.args[0], data.args[1], data.results[0]].map(|v| pass.primal.at(v));
    let multiple = pass.b.emit(Op::Sub, &[a, r]);
    let quotient = pass.b.emit(Op::Div, &[multiple, b]);
    Some(pass.b.emit(Op::Math(ir::Math::Round), &[quotient]))
}

/// The constant that a value, or each of its lanes, is equal to.
fn constant(pass: &Linearize, v: Value, s: Scalar) -> Option<f64> {
    let src = pass.src;
    let def = |v| pass.defs.inst(v).map(|inst| &src.insts[inst]);
    match def(v)? {
        data if data.op == Op::Splat => constant(pass, data.args[0], s),
        ir::InstData { op: Op::Const(bits), .. } => Some(float_value(s, *bits)),
        _ => None,
    }
}

/// Emits `a - b` for differentials.
fn minus(pass: &mut Linearize, a: Value, b: Value) -> Value {
    let b = pass.b.opposite(b);
    pass.b.emit(Op::Add, &[a, b])
}

/// Emits `dx` scaled by a number that was made from the differential `d`: absent if `d` is absent.
fn where_present(pass: &mut Linearize, d: Value, dx: Value, by: Value) -> Value {
    let scaled = pass.b.emit(Op::Scale, &[dx, by]);
    pass.b.emit(Op::Mask, &[d, scaled])
}

/// Masks `dx`, a tangent that an access reads or writes: it is absent unless all indices of the access are in
/// range. An element that does not exist depends on nothing, so neither mode may give it a zero, which could
/// be scaled by infinity.
fn where_inside(pass: &mut Linearize, data: &ir::InstData, indices: Range<usize>, dx: Value) -> Value {
    let checks = outside(pass, pass.src.ty(data.args[0]), &data.args[indices]);
    let conditions: Vec<Value> = checks.into_iter().map(|(i, len)| is_below(pass, i, len)).collect();
    let Some(inside) = conditions.into_iter().reduce(|a, b| pass.b.emit(Op::And, &[a, b])) else { return dx };
    let absent = pass.b.absent(pass.b.func.ty(dx));
    pass.b.emit(Op::Select, &[inside, dx, absent])
}

/// The indices of a path that may be out of range, each with the number of elements. Stacks need no check:
/// beyond its end a stack reads as absent tangents.
fn outside(pass: &mut Linearize, of: Type, path: &[Value]) -> Vec<(Value, u32)> {
    let (src, types) = (pass.src, &*pass.b.types);
    let mut checks = Vec::new();
    let mut of = types.content(of).unwrap_or(of);
    for &i in path {
        if let TypeData::Array(_, n) | TypeData::Vector(_, n) = types[of] {
            let bounds = pass.bounds.get_or_insert_with(|| Bounds::of(types, src, &pass.defs));
            if !bounds.below(i, n.into()) {
                checks.push((i, n));
            }
        }
        let Some(element) = types.element(of) else { break };
        of = element;
    }
    checks
}

/// Emits `0 <= i < n`.
fn is_below(pass: &mut Linearize, i: Value, n: u32) -> Value {
    let s = pass.b.types.scalar_of(pass.src.ty(i)).expect("an index is an integer");
    let mut i = pass.primal.at(i);
    let unsigned = if s.bits() == 64 { Scalar::U64 } else { Scalar::U32 };
    if s.bits() < 32 {
        // Sign extension keeps negative indices beyond `n` after the bitcast.
        let word = if s.is_signed_int() { Scalar::I32 } else { Scalar::U32 };
        i = pass.b.emit_typed(Op::Convert, &[i], word.into());
    }
    if s.is_signed_int() {
        i = pass.b.emit_typed(Op::Bitcast, &[i], unsigned.into());
    }
    let n = pass.b.constant(unsigned, n.into());
    pass.b.emit(Op::Lt, &[i, n])
}

/// Emits the tangents of `data`'s result, or its effect on tangent cells, after the primal. `factor` is its
/// [`factor`].
pub(crate) fn tangent(pass: &mut Linearize, data: &ir::InstData, factor: Option<Value>) {
    for layer in 0..pass.tangents.len() {
        pass.layer = layer;
        in_layer(pass, data, factor);
    }
    pass.layer = 0;
}

/// Emits `a + b` for differentials that may be zero.
fn plus(pass: &mut Linearize, a: Option<Value>, b: Option<Value>) -> Option<Value> {
    match (a, b) {
        (Some(a), Some(b)) => Some(pass.b.emit(Op::Add, &[a, b])),
        (a, b) => a.or(b),
    }
}

/// Emits `a - b` for differentials that may be zero.
fn less(pass: &mut Linearize, a: Option<Value>, b: Option<Value>) -> Option<Value> {
    match (a, b) {
        (Some(a), Some(b)) => Some(minus(pass, a, b)),
        (None, Some(b)) => Some(pass.b.opposite(b)),
        (a, None) => a,
    }
}

/// The second derivative of a product `a * b` by its factors, summed over the directions: `2 Σ ȧ ḃ`. It is absent
/// where a factor's tangent is, and `None` in the layers of first tangents.
fn bend(pass: &mut Linearize, a: Value, b: Value) -> Option<Value> {
    let last = pass.second_layer().filter(|&last| pass.layer == last)?;
    let mut sum = None;
    for layer in 0..last {
        let (da, db) = (pass.tangents[layer].find(a)?, pass.tangents[layer].find(b)?);
        let product = match da == db {
            true => pass.b.emit(Op::Scale, &[da, da]),
            false => where_present(pass, da, db, da),
        };
        sum = plus(pass, sum, Some(product));
    }
    sum.map(|sum| pass.b.emit(Op::Add, &[sum, sum]))
}

/// Emits the tangent of the current layer.
fn in_layer(pass: &mut Linearize, data: &ir::InstData, factor: Option<Value>) {
    let at = |pass: &Linearize, k: usize| pass.find(data.args[k]);
    let differentiable =
        data.results.first().is_some_and(|&r| pass.b.types.is_differentiable(pass.src.ty(r)));
    let tangent = match &data.op {
        Op::Add => {
            let (a, b) = (at(pass, 0), at(pass, 1));
            plus(pass, a, b)
        }
        Op::Sub => {
            let (a, b) = (at(pass, 0), at(pass, 1));
            less(pass, a, b)
        }
        Op::Mul if data.args[0] == data.args[1] => {
            let a = pass.primal.at(data.args[0]);
            let slope = at(pass, 0).map(|da| {
                let half = pass.b.emit(Op::Scale, &[da, a]);
                pass.b.emit(Op::Add, &[half, half])
            });
            let bent = bend(pass, data.args[0], data.args[0]);
            plus(pass, slope, bent)
        }
        Op::Mul => {
            let (a, b) = (pass.primal.at(data.args[0]), pass.primal.at(data.args[1]));
            let left = at(pass, 0).map(|da| pass.b.emit(Op::Scale, &[da, b]));
            let right = at(pass, 1).map(|db| pass.b.emit(Op::Scale, &[db, a]));
            let slope = plus(pass, left, right);
            let bent = bend(pass, data.args[0], data.args[1]);
            plus(pass, slope, bent)
        }
        Op::Div => {
            let (b, q) = (pass.primal.at(data.args[1]), pass.primal.at(data.results[0]));
            let (left, right) = (at(pass, 0), at(pass, 1).map(|db| pass.b.emit(Op::Scale, &[db, q])));
            let numerator = less(pass, left, right);
            let bent = bend(pass, data.args[1], data.results[0]);
            let numerator = less(pass, numerator, bent);
            numerator.map(|x| match factor {
                Some(factor) => pass.b.emit(Op::Scale, &[x, factor]),
                None => pass.b.emit(Op::Unscale, &[x, b]),
            })
        }
        Op::Rem => {
            let (a, b) = (at(pass, 0), at(pass, 1));
            let multiple = factor.zip(b).map(|(n, b)| pass.b.emit(Op::Scale, &[b, n]));
            less(pass, a, multiple)
        }
        Op::Scale => {
            let (d, f) = (pass.primal.at(data.args[0]), pass.primal.at(data.args[1]));
            let left = at(pass, 0).map(|dd| pass.b.emit(Op::Scale, &[dd, f]));
            let right = at(pass, 1).map(|df| where_present(pass, d, df, d));
            let slope = plus(pass, left, right);
            let bent = bend(pass, data.args[0], data.args[1]);
            plus(pass, slope, bent)
        }
        Op::Unscale => {
            let (d, b) = (pass.primal.at(data.args[0]), pass.primal.at(data.args[1]));
            let q = pass.primal.at(data.results[0]);
            let (left, right) = (at(pass, 0), at(pass, 1).map(|db| where_present(pass, d, db, q)));
            let numerator = less(pass, left, right);
            let bent = bend(pass, data.results[0], data.args[1]);
            let numerator = less(pass, numerator, bent);
            numerator.map(|x| pass.b.emit(Op::Unscale, &[x, b]))
        }
        Op::Mask => {
            let d = pass.primal.at(data.args[0]);
            at(pass, 1).map(|dx| pass.b.emit(Op::Mask, &[d, dx]))
        }
        Op::Present => at(pass, 0),
        Op::Neg => at(pass, 0).map(|a| pass.b.opposite(a)),
        Op::Sum => at(pass, 0).map(|a| pass.b.emit(data.op.clone(), &[a])),
        Op::Convert | Op::Splat if differentiable => {
            let ty = pass.src.ty(data.results[0]);
            at(pass, 0).map(|a| pass.b.emit_typed(data.op.clone(), &[a], ty))
        }
        Op::Select => {
            let any = at(pass, 1).is_some() || at(pass, 2).is_some();
            any.then(|| {
                let c = pass.primal.at(data.args[0]);
                let (a, b) = (pass.tangent_or_absent(data.args[1]), pass.tangent_or_absent(data.args[2]));
                pass.b.emit(Op::Select, &[c, a, b])
            })
        }
        Op::Construct | Op::Insert(_) => {
            let any = data.args.iter().any(|&a| pass.find(a).is_some());
            any.then(|| {
                let args: Vec<Value> = data.args.iter().map(|&a| pass.tangent_or_absent(a)).collect();
                pass.b.emit_typed(data.op.clone(), &args, pass.src.ty(data.results[0]))
            })
        }
        Op::Extract(_) => at(pass, 0).map(|a| pass.b.emit(data.op.clone(), &[a])),
        Op::Index | Op::Load | Op::SubCell | Op::Local | Op::Store | Op::AddTo => of_cell(pass, data),
        // Of numbers that have no differentials.
        Op::Convert | Op::Splat => None,
        // `linearize` handles calls and regions; activity ends at ops that are never linear.
        op => {
            debug_assert!(matches!(
                op.linearity(),
                Linearity::Never | Linearity::Source | Linearity::Structure
            ));
            None
        }
    };
    if let Some(tangent) = tangent
        && differentiable
    {
        let result = data.results[0];
        pass.name_tangent(result, tangent);
        pass.set_tangent(result, tangent);
    }
}

/// The tangent of an op on a cell, or on an element that an index selects.
fn of_cell(pass: &mut Linearize, data: &ir::InstData) -> Option<Value> {
    let at = |pass: &Linearize, k: usize| pass.find(data.args[k]);
    match &data.op {
        Op::Index | Op::Load | Op::SubCell => at(pass, 0).map(|a| {
            let mut args = pass.primal.all(&data.args);
            args[0] = a;
            let part = pass.b.emit(data.op.clone(), &args);
            if data.op == Op::SubCell { part } else { where_inside(pass, data, 1..args.len(), part) }
        }),
        Op::Local => pass.active.contains(data.results[0]).then(|| {
            let init = pass.tangent_or_absent(data.args[0]);
            pass.b.emit(Op::Local, &[init])
        }),
        Op::Store => {
            if let Some(cell) = at(pass, 0) {
                let mut args = pass.primal.all(&data.args);
                let last = data.args.len() - 1;
                args[0] = cell;
                args[last] = match at(pass, last) {
                    Some(x) => where_inside(pass, data, 1..last, x),
                    None => pass.tangent_or_absent(data.args[last]),
                };
                pass.b.effect(Op::Store, &args);
            }
            None
        }
        Op::AddTo => {
            let x = at(pass, data.args.len() - 1);
            if let (Some(cell), Some(x)) = (at(pass, 0), x) {
                let mut args = pass.primal.all(&data.args);
                let last = data.args.len() - 1;
                args[0] = cell;
                args[last] = where_inside(pass, data, 1..last, x);
                pass.b.effect(Op::AddTo, &args);
            }
            None
        }
        _ => None,
    }
}
