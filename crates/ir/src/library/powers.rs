//! Powers and inverse hyperbolic functions, by logarithms of more than working precision.
//!
//! `x^y = e^(y ln x)`: an absolute error of the product is a relative error of the result, and the product
//! can be as large as 745. For the power of a double to be right to its last place, the logarithm is
//! therefore a sum of two doubles, right to 64 bits.
//!
//! An inverse hyperbolic function is `ln(1 + u)`: the rounding errors of `u` and of the sum are added to the
//! logarithm before its last rounding, so small results have no larger error than others.

use super::exponential::{
    MOST, exp_of, is_near, is_normal, log_of, log_parts, lowered, near_exp, normal_parts, scaled,
};
use super::floats;
use super::number::{Number, Truth};
use super::ops::Ops;
use super::polynomials::{LN2, LOG_NEXT};

/// Two thirds, in two parts.
const TWO_THIRDS: (f64, f64) = (0.6666666666666666, 3.700743415417188e-17);

/// The number beyond which `sqrt(x² ± 1)` is `x` to the last place: 2^28 for doubles, 2^13 for floats.
#[inline(always)]
fn large<O: Ops>(x: Number<'_, O>) -> f64 {
    if x.is_single() { 8192.0 } else { 268_435_456.0 }
}

/// The least normal number.
#[inline(always)]
fn least<O: Ops>(x: Number<'_, O>) -> f64 {
    if x.is_single() { f64::from(f32::MIN_POSITIVE) } else { f64::MIN_POSITIVE }
}

/// A sum of two numbers, the second below the last place of the first.
pub(super) type Pair<'o, O> = (Number<'o, O>, Number<'o, O>);

/// `a + b`, exactly, where `a` is the larger in magnitude or zero.
#[inline(always)]
pub(super) fn sum_below<'o, O: Ops>(a: Number<'o, O>, b: Number<'o, O>) -> Pair<'o, O> {
    let sum = a + b;
    (sum, (a - sum) + b)
}

/// `a + b`, exactly.
#[inline(always)]
pub(super) fn sum<'o, O: Ops>(a: Number<'o, O>, b: Number<'o, O>) -> Pair<'o, O> {
    let sum = a + b;
    let of_b = sum - a;
    let of_a = sum - of_b;
    (sum, (a - of_a) + (b - of_b))
}

/// `a * b`, exactly.
#[inline(always)]
pub(super) fn product<'o, O: Ops>(a: Number<'o, O>, b: Number<'o, O>) -> Pair<'o, O> {
    let product = a * b;
    (product, a.fma(b, -product))
}

/// The logarithm of `2^k (1 + f)`, right to 64 bits.
#[inline(always)]
fn log_pair<'o, O: Ops>((k, f): Pair<'o, O>) -> Pair<'o, O> {
    // s = f / (2 + f): ln(1 + f) = 2 s + s z (2/3 + z (…)), with z = s².
    let (under, under_low) = sum_below(f.constant(2.0), f);
    let inverse = 1.0 / under;
    let s = f * inverse;
    let rest = (-s).fma(under, f);
    let rest = (-s).mul_add(under_low, rest);
    let s_low = rest * inverse;
    let (z, z_low) = product(s, s);
    let twice = s + s;
    let z_low = twice.mul_add(s_low, z_low);
    let next = z * z.polynomial(&LOG_NEXT);
    let (t, t_low) = sum_below(f.constant(TWO_THIRDS.0), next);
    let t_low = t_low + TWO_THIRDS.1;
    let t_low = z_low.mul_add(LOG_NEXT[0], t_low);
    let (u, u_low) = product(z, t);
    let u_low = z.mul_add(t_low, u_low);
    let u_low = z_low.mul_add(t, u_low);
    let (p, p_low) = product(s, u);
    let p_low = s.mul_add(u_low, p_low);
    let p_low = s_low.mul_add(u, p_low);
    let (log, low) = sum_below(twice, p);
    let low = low + p_low;
    let low = s_low.mul_add(2.0, low);
    let low = k.mul_add(LN2.1, low);
    let (log, lost) = sum_below(k * LN2.0, log);
    sum_below(log, lost + low)
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
    let (mut k, f) = if u.is_single() { floats::log_parts(whole) } else { log_parts(whole) };
    if let Some((is_large, _)) = large {
        k = k + is_large.select(1.0, 0.0);
    }
    let lost = Some(lost / whole);
    if u.is_single() { floats::log_of((k, f), lost) } else { log_of(k, f, lost) }
}

#[inline(always)]
pub(super) fn asinh<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    let a = x.abs();
    let is_large = a.more(large(x));
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
    let is_large = x.more(large(x));
    let b = is_large.select(1.0, x);
    // u = t + sqrt(t (t + 2)), where t = b - 1 is exact
    let t = b - 1.0;
    let (more, more_low) = sum(t, x.constant(2.0));
    let (square, square_low) = product(t, more);
    let square_low = t.mul_add(more_low, square_low);
    let root = square.sqrt();
    let rest = (-root).fma(root, square) + square_low;
    // If the root is zero, so is the remainder. Adding the least normal number avoids a division by zero and
    // does not change any other root.
    let rest = rest / (root + root + least(root));
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
    let rest = (-u).mul_add(lost, rest);
    let r = 0.5 * log_of_more(u, rest / under, None);
    let r = a.is(1.0).select(f64::INFINITY, r);
    a.more(1.0).select(f64::NAN, r).with_sign(x).or_nan(x)
}

// ---- powers

#[inline(always)]
pub(super) fn pow<'o, O: Ops>(x: Number<'o, O>, y: Number<'o, O>) -> Number<'o, O> {
    let (product, low) = times(y, log_pair(normal_parts(x)));
    // Powers of zero, and powers that are far below others, are common: in lanes, one of them is among others.
    let any = |_| {
        let of_zero = x.is_zero() & y.more(0.0);
        let usual = (is_normal(x) | of_zero) & product.at_most(MOST);
        usual.either(
            [x, y],
            |_| {
                let vanishes = of_zero | product.less(-750.0);
                let (product, low) = (vanishes.select(0.0, product), vanishes.select(0.0, low));
                let (p, k) = exp_of(product, Some(low));
                vanishes.select(0.0, lowered(1.0 + p, k))
            },
            |[x, y]| far_pow(x, y),
        )
    };
    (is_normal(x) & is_near(product)).short_cut(x, |_| near_exp(product, Some(low)), any)
}

/// `y` times a logarithm.
#[inline(always)]
fn times<'o, O: Ops>(y: Number<'o, O>, (log, low): Pair<'o, O>) -> Pair<'o, O> {
    let (product, rest) = product(y, log);
    (product, y.mul_add(low, rest))
}

/// `a^y` for `a` of at least 0, unless either is NaN or `a` is 1.
#[inline(always)]
fn power<'o, O: Ops>(a: Number<'o, O>, y: Number<'o, O>) -> Number<'o, O> {
    let (log, low) = log_pair(log_parts(a));
    let log = a.is(f64::INFINITY).select(f64::INFINITY, log);
    let log = a.is(0.0).select(f64::NEG_INFINITY, log);
    let (product, low) = times(y, (log, low));
    // Beyond these limits the result overflows or underflows, and the low part does not matter.
    let under = product.less(-750.0);
    let (product, low) = (under.select(-750.0, product), under.select(0.0, low));
    let over = product.more(710.0);
    let (product, low) = (over.select(710.0, product), over.select(0.0, low));
    let (p, k) = exp_of(product, Some(low));
    scaled(1.0 + p, k)
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
