//! Powers of floats.
//!
//! `x^y = 2^(y log2 x)`, where the product can be as large as 150: for an error of less than a unit, the
//! logarithm needs seven bits more than a float has, and is a sum of two floats. An estimate has a float instead, and an
//! error that grows with the product, as processors of graphics have it.

use super::super::exponential::{lowered, scaled, shifted};
use super::super::number::Number;
use super::super::ops::Ops;
use super::super::powers::{Pair, product, sum_below};
use super::exponential::{is_normal, log2_of_normal, small_exp2};
use super::polynomials::{LEAST, LOG2_E, LOG2_ODD, SQRT_2};

#[inline(always)]
pub(super) fn pow<'o, O: Ops>(x: Number<'o, O>, y: Number<'o, O>) -> Number<'o, O> {
    let (product, low) = times(y, log2_pair(x, x.constant(0.0)));
    pow_of(x, y, product, Some(low))
}

/// The power with an error of some `1 + |y log2 x|` units where that product is at most 125, elsewhere as [`pow`].
#[inline(always)]
pub(in super::super) fn estimated_pow<'o, O: Ops>(x: Number<'o, O>, y: Number<'o, O>) -> Number<'o, O> {
    pow_of(x, y, y * log2_of_normal(x), None)
}

/// `x^y`, where `y log2 x` is `product + low` if `x` is a normal number.
#[inline(always)]
fn pow_of<'o, O: Ops>(
    x: Number<'o, O>,
    y: Number<'o, O>,
    product: Number<'o, O>,
    low: Option<Number<'o, O>>,
) -> Number<'o, O> {
    let fraction = |product: Number<'o, O>, low: Option<Number<'o, O>>, k| match low {
        Some(low) => (product - k) + low,
        None => product - k,
    };
    let near = |_| {
        let k = product.round();
        shifted(small_exp2(fraction(product, low, k)), k)
    };
    // Powers of zero, and powers that are far below others, are common: in lanes, one of them is among others.
    let any = |_| {
        let of_zero = x.is_zero() & y.more(0.0);
        let usual = (is_normal(x) | of_zero) & product.at_most(125.0);
        usual.either(
            [x, y],
            |_| {
                let vanishes = of_zero | product.less(-151.0);
                let product = vanishes.select(0.0, product);
                let low = low.map(|low| vanishes.select(0.0, low));
                let k = product.round();
                vanishes.select(0.0, lowered(small_exp2(fraction(product, low, k)), k))
            },
            |[x, y]| far_pow(x, y),
        )
    };
    (is_normal(x) & product.abs().at_most(125.0)).short_cut(x, near, any)
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
