//! Powers and inverse hyperbolic functions of floats.
//!
//! `x^y = 2^(y log2 x)`, where the product can be as large as 150: for an error of less than a unit, the
//! logarithm needs seven bits more than a float has, and is a sum of two floats. An inverse hyperbolic function
//! is a logarithm, as for doubles.

use super::super::number::{Number, Truth};
use super::super::ops::Ops;
use super::super::powers::{Pair, product, sum, sum_below};
use super::exponential::{is_normal, log_of, log_parts, scaled, shifted, small_exp2};
use super::polynomials::{LEAST, LOG2_E, LOG2_ODD, SQRT_2};

/// The number 2^13, beyond which `sqrt(x² ± 1)` is `x` to the last place.
const LARGE: f64 = 8192.0;

// ---- powers

#[inline(always)]
pub(super) fn pow<'o, O: Ops>(x: Number<'o, O>, y: Number<'o, O>) -> Number<'o, O> {
    let (product, low) = times(y, log2_pair(x, x.constant(0.0)));
    (is_normal(x) & product.abs().at_most(125.0)).either(
        [x, y, product, low],
        |[_, _, product, low]| {
            let k = product.round();
            shifted(small_exp2((product - k) + low), k)
        },
        |[x, y, ..]| far_pow(x, y),
    )
}

/// `y` times a logarithm.
#[inline(always)]
fn times<'o, O: Ops>(y: Number<'o, O>, (log, low): Pair<'o, O>) -> Pair<'o, O> {
    let (product, rest) = product(y, log);
    (product, y.fma(low, rest))
}

/// `log2(x) + more` of a positive normal number, right to 31 bits; `more` is a whole number.
///
/// `x = 2^k m`, and `c` is 1 or the root of 2, whichever is nearer to `m`: with `s = (m - c) / (m + c)`,
/// `log2 x = k + log2 c + log2((1 + s) / (1 - s))`, where `s` is at most 0.087, so that the terms after the
/// first need no more than a float's precision.
#[inline(always)]
fn log2_pair<'o, O: Ops>(x: Number<'o, O>, more: Number<'o, O>) -> Pair<'o, O> {
    let bits = x.bits();
    // Subtracting the bits of 2^(-1/4) makes the exponent change there.
    let exponent = (bits - 0x3f57_44fd) >> 23;
    let m = (bits - (exponent << 23)).of_bits();
    let up = m.at_least(1.189_207_115_002_721);
    let c = up.select(SQRT_2.0, 1.0);
    let c_low = up.select(SQRT_2.1, 0.0);
    let whole = exponent.to_number() + more + up.select(0.5, 0.0);
    // The difference is exact.
    let above = m - c;
    let (under, lost) = sum_below(c, m);
    let inverse = 1.0 / under;
    let s = above * inverse;
    let rest = (-s).fma(under, above) - c_low;
    let s_low = (-s).fma(lost + c_low, rest) * inverse;
    let near = s + s_low;
    let z = near * near;
    let curve = near * z * z.even_and_odd(&LOG2_ODD);
    let twice = 2.0 * LOG2_E.0;
    let log = s.fma(twice, curve);
    let low = s.fma(twice, -log) + curve;
    let low = s.fma(2.0 * LOG2_E.1, s_low.fma(twice, low));
    let (log, lost) = sum_below(whole, log);
    (log, lost + low)
}

/// The power of any numbers.
#[inline(always)]
fn far_pow<'o, O: Ops>(x: Number<'o, O>, y: Number<'o, O>) -> Number<'o, O> {
    let a = x.abs();
    let r = a.is(1.0).select(1.0, power(a, y));
    let whole = y.trunc().is(y);
    let halved = y * 0.5;
    let odd = whole & !halved.trunc().is(halved);
    let r = (x.is_negative() & odd).select(-r, r);
    let bad = x.less(0.0) & !a.is(f64::INFINITY) & !whole;
    let r = bad.select(f64::NAN, r).or_nan(x).or_nan(y);
    let r = x.is(1.0).select(1.0, r);
    y.is(0.0).select(1.0, r)
}

/// `a^y` for `a` of at least 0, unless either is NaN or `a` is 1.
#[inline(always)]
fn power<'o, O: Ops>(a: Number<'o, O>, y: Number<'o, O>) -> Number<'o, O> {
    let small = a.less(LEAST);
    let normal = small.select(a * 33_554_432.0, a);
    let (log, low) = log2_pair(normal, small.select(-25.0, 0.0));
    let log = a.is(f64::INFINITY).select(f64::INFINITY, log);
    let log = a.is(0.0).select(f64::NEG_INFINITY, log);
    let (product, low) = times(y, (log, low));
    // Beyond these limits the result overflows or underflows, and the low part does not matter.
    let is_within = product.abs().at_most(151.0);
    let low = is_within.select(low, 0.0);
    let product = product.clamp(-151.0, 129.0);
    let k = product.round();
    scaled(small_exp2((product - k) + low), k)
}

// ---- inverse hyperbolic functions

/// `ln(1 + u + low)`, or `ln(2 x)` where a number `x` is large.
#[inline(always)]
fn log_of_more<'o, O: Ops>(
    u: Number<'o, O>,
    low: Number<'o, O>,
    large: Option<(Truth<'o, O>, Number<'o, O>)>,
) -> Number<'o, O> {
    let (mut whole, lost) = sum(u.constant(1.0), u);
    let mut lost = lost + low;
    if let Some((is_large, x)) = large {
        whole = is_large.select(x, whole);
        lost = is_large.select(0.0, lost);
    }
    let (mut k, f) = log_parts(whole);
    if let Some((is_large, _)) = large {
        k = k + is_large.select(1.0, 0.0);
    }
    log_of((k, f), Some(lost / whole))
}

#[inline(always)]
pub(super) fn asinh<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    let a = x.abs();
    let is_large = a.more(LARGE);
    let b = is_large.select(1.0, a);
    // u = b + sqrt(1 + b²) - 1
    let square = b * b;
    let root = (1.0 + square).sqrt();
    let (u, low) = sum_below(b, square / (1.0 + root));
    let r = log_of_more(u, low, Some((is_large, a)));
    let r = a.is(f64::INFINITY).select(f64::INFINITY, r);
    r.with_sign(x).or_nan(x)
}

#[inline(always)]
pub(super) fn acosh<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    let is_large = x.more(LARGE);
    let b = is_large.select(1.0, x);
    // u = t + sqrt(t (t + 2)), where t = b - 1 is exact
    let t = b - 1.0;
    let (more, more_low) = sum(t, x.constant(2.0));
    let (square, square_low) = product(t, more);
    let square_low = t.fma(more_low, square_low);
    let root = square.sqrt();
    // The rounding error of the root. If the root is zero, so is the remainder.
    let rest = ((-root).fma(root, square) + square_low) / (root + root + LEAST);
    let (u, low) = sum(t, root);
    let r = log_of_more(u, low + rest, Some((is_large, x)));
    let r = x.is(f64::INFINITY).select(f64::INFINITY, r);
    x.less(1.0).select(f64::NAN, r).or_nan(x)
}

#[inline(always)]
pub(super) fn atanh<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    let a = x.abs();
    // u = 2 a / (1 - a)
    let twice = a + a;
    let under = 1.0 - a;
    let lost = (1.0 - under) - a;
    let u = twice / under;
    let rest = (-u).fma(under, twice);
    let rest = (-u).fma(lost, rest);
    let r = 0.5 * log_of_more(u, rest / under, None);
    let r = a.is(1.0).select(f64::INFINITY, r);
    a.more(1.0).select(f64::NAN, r).with_sign(x).or_nan(x)
}
