//! Exponentials, logarithms, and hyperbolic functions.

use crate::Math;

use super::number::{Integer, Number, Truth};
use super::ops::Ops;
use super::polynomials::{EXP, LN2, LOG, LOG10_2};

// ---- exponentials

#[inline(always)]
pub(super) fn exp<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    if x.scales() {
        return far_exp(x);
    }
    is_near(x).either([x], |[x]| near_exp(x, None), |[x]| far_exp(x))
}

/// The largest number whose exponential is not extreme.
pub(super) const MOST: f64 = 708.0;

/// Returns true if neither the exponential of `x` nor a number on the way is extreme.
#[inline(always)]
pub(super) fn is_near<O: Ops>(x: Number<'_, O>) -> Truth<'_, O> {
    x.abs().at_most(MOST)
}

/// `e^(x + more)` if [`is_near`] holds.
#[inline(always)]
pub(super) fn near_exp<'o, O: Ops>(x: Number<'o, O>, more: Option<Number<'o, O>>) -> Number<'o, O> {
    let (p, k) = exp_of(x, more);
    shifted(1.0 + p, k)
}

/// The exponential of any number.
#[inline(always)]
pub(super) fn far_exp<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    let (p, k) = exp_of(x.clamp(-750.0, 710.0), None);
    let r = scaled(1.0 + p, k);
    let r = x.more(709.782712893384).select(f64::INFINITY, r);
    if x.scales() { r } else { r.or_nan(x) }
}

/// `p 2^k`, where both `p` and the result are normal numbers.
#[inline(always)]
pub(super) fn shifted<'o, O: Ops>(p: Number<'o, O>, k: Number<'o, O>) -> Number<'o, O> {
    // The bits of the sum that represent 0 have zeros in the bits that the shift keeps.
    let exponent = (k + k.magic().0).bits() << k.exponent().1;
    (p.bits() + exponent).of_bits()
}

/// `p 2^k` for normal `p` near 1, which is also right if the result is subnormal, but not if it is too large.
#[inline(always)]
pub(super) fn lowered<'o, O: Ops>(p: Number<'o, O>, k: Number<'o, O>) -> Number<'o, O> {
    if p.scales() {
        return p.scale(k);
    }
    let is_low = k.less(if k.is_single() { -125.0 } else { -1021.0 });
    let r = shifted(p, is_low.select(k + 64.0, k));
    // This product is the only one that is rounded.
    is_low.select(r * (1.0 / 18_446_744_073_709_551_616.0), r)
}

/// `p 2^k`, which is also right for subnormal results, and infinite if the result is too large.
#[inline(always)]
pub(super) fn scaled<'o, O: Ops>(p: Number<'o, O>, k: Number<'o, O>) -> Number<'o, O> {
    if p.scales() {
        return p.scale(k);
    }
    let (bias, below) = k.exponent();
    let k = k.to_integer();
    let half = k >> 1;
    let rest = k - half;
    let power = |n: Integer<'o, O>| ((n + bias) << below).of_bits();
    p * power(half) * power(rest)
}

#[inline(always)]
pub(super) fn exp2<'o, O: Ops>(x: Number<'o, O>) -> Number<'o, O> {
    let far = |[x]: [Number<'o, O>; 1]| {
        let (p, k) = exp2_of(x.clamp(-1080.0, 1025.0));
        let r = scaled(1.0 + p, k);
        x.at_least(1024.0).select(f64::INFINITY, r).or_nan(x)
    };
    if x.scales() {
        return far([x]);
    }
    let near = |[x]: [Number<'o, O>; 1]| {
        let (p, k) = exp2_of(x);
        shifted(1.0 + p, k)
    };
    x.abs().at_most(1020.0).either([x], near, far)
}

/// `2^x = 2^k (1 + p)`.
#[inline(always)]
fn exp2_of<O: Ops>(x: Number<'_, O>) -> (Number<'_, O>, Number<'_, O>) {
    let k = x.round();
    let r = x - k;
    let by = std::f64::consts::LN_2;
    let t = r * by;
    // The rounding errors of t and of ln 2.
    let rest = r.fma(by, -t);
    let rest = r.mul_add(2.3190468138462996e-17, rest);
    let p = (t * t).mul_add(t.polynomial(&EXP), rest);
    (t + p, k)
}

/// `e^x - 1` for `x` from 0 to 40.
#[inline(always)]
fn minus_one<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    let (p, k) = exp_of(x, None);
    let power = shifted(x.constant(1.0), k);
    p.mul_add(power, power - 1.0)
}

#[inline(always)]
pub(super) fn tanh<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    let a = x.abs();
    let b = a.more(20.0).select(20.0, a);
    let t = minus_one(b + b);
    let under = t + 2.0;
    let r = t / under;
    // Corrects the rounding errors of the sum and the quotient; one over the sum is (1 - tanh) / 2.
    let of_two = under - t;
    let of_t = under - of_two;
    let lost = (t - of_t) + (2.0 - of_two);
    let rest = (-r).fma(under, t);
    let rest = (-r).mul_add(lost, rest);
    let r = rest.mul_add(0.5 * (1.0 - r), r);
    r.with_sign(x).or_nan(x)
}

#[inline(always)]
pub(super) fn hyperbolic<O: Ops>(m: Math, x: Number<'_, O>) -> Number<'_, O> {
    let a = x.abs();
    // Half of the exponential, which is finite where the result is.
    let e = is_near(a).either(
        [a],
        |[a]| {
            let (p, k) = exp_of(a, None);
            shifted(1.0 + p, k - 1.0)
        },
        |[a]| {
            let over = a.more(711.0);
            let (p, k) = exp_of(over.select(711.0, a), None);
            let e = scaled(1.0 + p, k - 1.0);
            over.select(f64::INFINITY, e)
        },
    );
    if m == Math::Cosh {
        return (e + 0.25 / e).or_nan(x);
    }
    let far = a.more(22.0);
    let t = minus_one(far.select(22.0, a));
    let near = 0.5 * (t + t / (t + 1.0));
    far.select(e, near).with_sign(x).or_nan(x)
}

/// `e^(x + more) = 2^k (1 + p)`, for a sum of up to 711; `more` is small beside `x`.
#[inline(always)]
pub(super) fn exp_of<'o, O: Ops>(
    x: Number<'o, O>,
    more: Option<Number<'o, O>>,
) -> (Number<'o, O>, Number<'o, O>) {
    // The nearest whole number: the sum with the magic number has no bits for a fraction.
    let magic = x.magic().0;
    let k = x.mul_add(std::f64::consts::LOG2_E, magic) - magic;
    let back = -k;
    let high = back.mul_add(LN2.0, x);
    let (r, rest) = match more {
        None => {
            let r = back.mul_add(LN2.1, high);
            (r, back.mul_add(LN2.1, high - r))
        }
        Some(more) => {
            let low = back.mul_add(LN2.1, more);
            let r = high + low;
            (r, (high - r) + low)
        }
    };
    let p = (r * r).mul_add(r.polynomial(&EXP), rest);
    (r + p, k)
}

// ---- logarithms

#[inline(always)]
pub(super) fn log<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    is_normal(x).either([x], |[x]| near_log(x), |[x]| far_log(x))
}

/// Returns true if `x` is positive and neither subnormal nor infinite.
#[inline(always)]
pub(super) fn is_normal<O: Ops>(x: Number<'_, O>) -> Truth<'_, O> {
    x.at_least(f64::MIN_POSITIVE) & x.less(f64::INFINITY)
}

/// The logarithm if [`is_normal`] holds.
#[inline(always)]
pub(super) fn near_log<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    let (k, f) = normal_parts(x);
    log_of(k, f, None)
}

/// The logarithm of any number.
#[inline(always)]
pub(super) fn far_log<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    let (k, f) = log_parts(x);
    log_ends(x, log_of(k, f, None))
}

/// The logarithm to base 2 or 10.
#[inline(always)]
pub(super) fn log_of_base<O: Ops>(m: Math, x: Number<'_, O>) -> Number<'_, O> {
    let far = |[x]: [_; 1]| log_ends(x, of_base(m, log_parts(x)));
    is_normal(x).either([x], |[x]| of_base(m, normal_parts(x)), far)
}

#[inline(always)]
fn of_base<'o, O: Ops>(m: Math, (k, f): (Number<'o, O>, Number<'o, O>)) -> Number<'o, O> {
    let r = log_of(k.constant(0.0), f, None);
    if m == Math::Log2 {
        return r.mul_add(std::f64::consts::LOG2_E, k);
    }
    let low = r.mul_add(std::f64::consts::LOG10_E, k * LOG10_2.1);
    k.mul_add(LOG10_2.0, low)
}

/// `x = 2^k (1 + f)` with `1 + f` between the roots of 1/2 and 2.
#[inline(always)]
pub(super) fn log_parts<O: Ops>(x: Number<'_, O>) -> (Number<'_, O>, Number<'_, O>) {
    let small = x.less(f64::MIN_POSITIVE);
    let (k, f) = normal_parts(small.select(x * 18014398509481984.0, x));
    (k - small.select(54.0, 0.0), f)
}

/// As [`log_parts`], if [`is_normal`] holds.
#[inline(always)]
pub(super) fn normal_parts<O: Ops>(x: Number<'_, O>) -> (Number<'_, O>, Number<'_, O>) {
    let bits = x.bits();
    // Subtracting the bits of sqrt(1/2) makes the exponent change there.
    let k = (bits - 0x3fe6_a09e_667f_3bcd) >> 52;
    let f = (bits - (k << 52)).of_bits() - 1.0;
    (k.to_number(), f)
}

/// `k ln 2 + ln(1 + f) + more`; `more` is below the last place of `1 + f`.
#[inline(always)]
pub(super) fn log_of<'o, O: Ops>(
    k: Number<'o, O>,
    f: Number<'o, O>,
    more: Option<Number<'o, O>>,
) -> Number<'o, O> {
    let s = f / (2.0 + f);
    let z = s * s;
    let p = z.polynomial(&LOG) * z;
    let h = 0.5 * f * f;
    // ln(1 + f) = f - (h - s (h + p)).
    let low = match more {
        None => k * LN2.1,
        Some(more) => k.mul_add(LN2.1, more),
    };
    let rest = h - s.mul_add(h + p, low) - f;
    k.mul_add(LN2.0, -rest)
}

#[inline(always)]
fn log_ends<'o, O: Ops>(x: Number<'o, O>, r: Number<'o, O>) -> Number<'o, O> {
    let r = x.is(f64::INFINITY).select(f64::INFINITY, r);
    let r = x.is(0.0).select(f64::NEG_INFINITY, r);
    x.less(0.0).select(f64::NAN, r).or_nan(x)
}
