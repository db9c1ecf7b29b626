//! Exponentials, logarithms, and hyperbolic functions of floats.

use super::polynomials::{EXP, LEAST, LN2, LOG, LOG2_E, LOG10_2, LOG10_E, SINH, TANH};
use crate::Math;

use super::super::exponential::{scaled, shifted};
use super::super::number::{Number, Truth};
use super::super::ops::Ops;

// ---- exponentials

#[inline(always)]
pub(super) fn exp<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    if x.scales() {
        return far_exp(x);
    }
    x.abs().at_most(87.0).either([x], |[x]| near_exp(x), |[x]| far_exp(x))
}

/// `e^x` where the result is a normal number.
#[inline(always)]
fn near_exp<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    let (p, k) = exp_of(x);
    shifted(p, k)
}

/// The exponential of any number.
#[inline(always)]
fn far_exp<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    let (p, k) = exp_of(x.clamp(-104.0, 89.0));
    scaled(p, k)
}

/// `e^x = p 2^k`, with `p` about between the roots of 1/2 and 2.
#[inline(always)]
fn exp_of<O: Ops>(x: Number<'_, O>) -> (Number<'_, O>, Number<'_, O>) {
    // The nearest whole number: the sum with the magic number has no bits for a fraction.
    let magic = x.magic().0;
    let k = x.fma(std::f64::consts::LOG2_E, x.constant(magic)) - magic;
    // The first difference is exact.
    let high = (-k).fma(LN2.0, x);
    (small_exp((-k).fma(LN2.1, high)), k)
}

/// `e^r` for `r` in ±0.3475. Of the two roundings of numbers near 1, the first is scaled by `r`.
#[inline(always)]
fn small_exp<O: Ops>(r: Number<'_, O>) -> Number<'_, O> {
    let one = r.constant(1.0);
    r.fma(r.fma(r.even_and_odd(&EXP), one), one)
}

/// `2^r` for `r` in ±0.5.
#[inline(always)]
pub(super) fn small_exp2<O: Ops>(r: Number<'_, O>) -> Number<'_, O> {
    small_exp(r * std::f64::consts::LN_2)
}

#[inline(always)]
pub(super) fn exp2<'o, O: Ops>(x: Number<'o, O>) -> Number<'o, O> {
    let far = |[x]: [Number<'o, O>; 1]| {
        let x = x.clamp(-151.0, 129.0);
        let k = x.round();
        scaled(small_exp2(x - k), k)
    };
    if x.scales() {
        return far([x]);
    }
    let near = |[x]: [Number<'o, O>; 1]| {
        let k = x.round();
        shifted(small_exp2(x - k), k)
    };
    x.abs().at_most(125.0).either([x], near, far)
}

// ---- hyperbolic functions

#[inline(always)]
pub(super) fn tanh<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    let a = x.abs();
    let small = odd(a, &TANH);
    // From 10 on, the result is 1.
    let b = a.more(10.0).select(10.0, a);
    let large = 1.0 - 2.0 / (near_exp(b + b) + 1.0);
    a.less(0.55).select(small, large).with_sign(x).or_nan(x)
}

/// `x + x^3 p(x^2)`.
#[inline(always)]
fn odd<'o, O: Ops>(x: Number<'o, O>, p: &[f64]) -> Number<'o, O> {
    let z = x * x;
    (x * z).fma(z.even_and_odd(p), x)
}

#[inline(always)]
pub(super) fn hyperbolic<O: Ops>(m: Math, x: Number<'_, O>) -> Number<'_, O> {
    let a = x.abs();
    // Half of the exponential, which is finite where the result is.
    let e = a.at_most(87.0).either(
        [a],
        |[a]| {
            let (p, k) = exp_of(a);
            shifted(p, k - 1.0)
        },
        |[a]| {
            let (p, k) = exp_of(a.more(90.0).select(90.0, a));
            scaled(p, k - 1.0)
        },
    );
    if m == Math::Cosh {
        return e + 0.25 / e;
    }
    a.less(1.0).select(odd(a, &SINH), e - 0.25 / e).with_sign(x).or_nan(x)
}

// ---- logarithms

#[inline(always)]
pub(super) fn log<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    let far = |[x]: [_; 1]| log_ends(x, log_of(log_parts(x), None));
    is_normal(x).either([x], |[x]| log_of(normal_parts(x), None), far)
}

/// Returns true if `x` is positive and neither subnormal nor infinite.
#[inline(always)]
pub(super) fn is_normal<O: Ops>(x: Number<'_, O>) -> Truth<'_, O> {
    x.at_least(LEAST) & x.less(f64::INFINITY)
}

/// The logarithm to base 2 or 10.
#[inline(always)]
pub(super) fn log_of_base<O: Ops>(m: Math, x: Number<'_, O>) -> Number<'_, O> {
    let far = |[x]: [_; 1]| log_ends(x, of_base(m, log_parts(x)));
    is_normal(x).either([x], |[x]| of_base(m, normal_parts(x)), far)
}

/// The logarithm to base 2 of a number for which [`is_normal`] holds.
#[inline(always)]
pub(super) fn log2_of_normal<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    of_base(Math::Log2, normal_parts(x))
}

#[inline(always)]
fn of_base<'o, O: Ops>(m: Math, (k, f): (Number<'o, O>, Number<'o, O>)) -> Number<'o, O> {
    let curve = f * f * curve_of_log(f);
    if m == Math::Log2 {
        let low = f.fma(LOG2_E.1, curve * LOG2_E.0);
        return k + f.fma(LOG2_E.0, low);
    }
    let low = f.fma(LOG10_E.1, curve.fma(LOG10_E.0, k * LOG10_2.1));
    k.fma(LOG10_2.0, f.fma(LOG10_E.0, low))
}

/// `x = 2^k (1 + f)` with `1 + f` from 2/3 to 4/3.
#[inline(always)]
pub(in super::super) fn log_parts<O: Ops>(x: Number<'_, O>) -> (Number<'_, O>, Number<'_, O>) {
    let small = x.less(LEAST);
    let (k, f) = normal_parts(small.select(x * 33_554_432.0, x));
    (k - small.select(25.0, 0.0), f)
}

/// As [`log_parts`], if [`is_normal`] holds.
#[inline(always)]
fn normal_parts<O: Ops>(x: Number<'_, O>) -> (Number<'_, O>, Number<'_, O>) {
    let bits = x.bits();
    // Subtracting the bits of 2/3 makes the exponent change there.
    let k = (bits - 0x3f2a_aaab) >> 23;
    let f = (bits - (k << 23)).of_bits() - 1.0;
    (k.to_number(), f)
}

/// `k ln 2 + ln(1 + f) + more`; `more` is below the last place of `1 + f`.
#[inline(always)]
pub(in super::super) fn log_of<'o, O: Ops>(
    (k, f): (Number<'o, O>, Number<'o, O>),
    more: Option<Number<'o, O>>,
) -> Number<'o, O> {
    let low = match more {
        None => k * LN2.1,
        Some(more) => k.fma(LN2.1, more),
    };
    k.fma(LN2.0, f + (f * f).fma(curve_of_log(f), low))
}

/// `(ln(1 + f) - f) / f²`, the largest term last.
#[inline(always)]
fn curve_of_log<O: Ops>(f: Number<'_, O>) -> Number<'_, O> {
    f.fma(f.even_and_odd(&LOG[1..]), f.constant(LOG[0]))
}

#[inline(always)]
fn log_ends<'o, O: Ops>(x: Number<'o, O>, r: Number<'o, O>) -> Number<'o, O> {
    let r = x.is(f64::INFINITY).select(f64::INFINITY, r);
    let r = x.is(0.0).select(f64::NEG_INFINITY, r);
    x.less(0.0).select(f64::NAN, r).or_nan(x)
}
