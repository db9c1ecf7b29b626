//! Sines, cosines and tangents, and their inverse functions.

use crate::Math;

use super::far::far_turns;
use super::number::{Integer, Number, Truth};
use super::ops::Ops;
use super::polynomials::{ASIN, ATAN, COS, FAR, HALF_PI, PIO2, SIN};

/// π in two parts.
const PI: (f64, f64) = (std::f64::consts::PI, 2.0 * HALF_PI.1);

/// Just under an eighth of a turn.
const EIGHTH: f64 = 0.785;

#[inline(always)]
pub(super) fn circular<'o, O: Ops>(m: Math, x: Number<'o, O>) -> Number<'o, O> {
    let any = |x: Number<'o, O>| {
        let near = x.abs().at_most(FAR);
        let k = (x * std::f64::consts::FRAC_2_PI).round();
        x.elsewhere(m, near, of_turns(m, x, reduced(x, k)))
    };
    x.abs().at_most(EIGHTH).short_cut(x, |x| small(m, x), any)
}

/// The sine and the cosine of an angle, as [`circular`] gives them, to the bit.
#[inline(always)]
pub(super) fn sine_and_cosine<O: Ops>(x: Number<'_, O>) -> [Number<'_, O>; 2] {
    let near = x.abs().at_most(FAR);
    let k = (x * std::f64::consts::FRAC_2_PI).round();
    let (turns, quarter) = (reduced(x, k), k.to_integer());
    let rest = of_rest(x, turns);
    [Math::Sin, Math::Cos]
        .map(|m| x.elsewhere(m, near, turned(m, quarter, (quarter & 1).is_not_zero(), rest)))
}

/// The function of an angle of at most an eighth of a turn, from which no quarter turns are taken: as
/// [`of_turns`] with `[0, x, 0]`, to the bit.
#[inline(always)]
fn small<O: Ops>(m: Math, x: Number<'_, O>) -> Number<'_, O> {
    let z = x * x;
    let sin = || x.is(0.0).select(x, x + (z * x) * z.polynomial(&SIN));
    let cos = || {
        let hz = 0.5 * z;
        let w = 1.0 - hz;
        w + ((1.0 - w - hz) + (z * z) * z.polynomial(&COS))
    };
    match m {
        Math::Sin => sin(),
        Math::Cos => cos(),
        _ => sin() / cos(),
    }
}

/// The function of an angle that is too large for [`circular`].
#[inline(always)]
pub(super) fn far<O: Ops>(m: Math, x: Number<'_, O>) -> Number<'_, O> {
    let found = of_turns(m, x, far_turns(x));
    x.abs().less(f64::INFINITY).select(found, f64::NAN)
}

/// The function of an angle `x` of `k` quarter turns and `r + rest`.
#[inline(always)]
fn of_turns<'o, O: Ops>(m: Math, x: Number<'o, O>, turns: [Number<'o, O>; 3]) -> Number<'o, O> {
    let [sin, cos] = of_rest(x, turns);
    let quarter = turns[0].to_integer();
    let odd = (quarter & 1).is_not_zero();
    if m == Math::Tan {
        let t = odd.select(cos, sin) / odd.select(sin, cos);
        return odd.select(-t, t);
    }
    turned(m, quarter, odd, [sin, cos])
}

/// The sine and the cosine of `r + rest`, which remain of an angle `x`.
#[inline(always)]
fn of_rest<'o, O: Ops>(x: Number<'o, O>, [_, r, rest]: [Number<'o, O>; 3]) -> [Number<'o, O>; 2] {
    let z = r * r;
    let (sine, cosine) = (z.polynomial(&SIN), z.polynomial(&COS));
    let hz = 0.5 * z;
    let w = 1.0 - hz;
    // sin = r + (r z S + rest (1 - z/2)), cos = w + ((1 - w - z/2) + (z z C - r rest)).
    let sin = r + (z * r).mul_add(sine, rest * w);
    // A zero keeps its sign.
    let sin = x.is(0.0).select(x, sin);
    let c = (z * z).mul_add(cosine, -(r * rest));
    [sin, w + ((1.0 - w - hz) + c)]
}

/// The sine or cosine of an angle of so many quarter turns, given those of the rest.
#[inline(always)]
fn turned<'o, O: Ops>(
    m: Math,
    quarter: Integer<'o, O>,
    odd: Truth<'o, O>,
    [sin, cos]: [Number<'o, O>; 2],
) -> Number<'o, O> {
    let (even, other, turn) = if m == Math::Sin { (sin, cos, 0) } else { (cos, sin, 1) };
    let v = odd.select(other, even);
    let minus = ((quarter + turn) & 2).is_not_zero();
    minus.select(-v, v)
}

/// `k`, and `y - k π/2` in two parts.
#[inline(always)]
fn reduced<'o, O: Ops>(y: Number<'o, O>, k: Number<'o, O>) -> [Number<'o, O>; 3] {
    let r1 = y - k * PIO2[0];
    let second = k * PIO2[1];
    let r2 = r1 - second;
    let lost = r1 - r2 - second;
    let low = (-k).mul_add(PIO2[2], lost);
    let r = r2 + low;
    [k, r, (r2 - r) + low]
}

/// The angle of `|y| / |x|`, from 0 to a quarter turn.
#[inline(always)]
fn angle<'o, O: Ops>(y: Number<'o, O>, x: Number<'o, O>) -> Number<'o, O> {
    let (a, b) = (y.abs(), x.abs());
    let steep = b.less(a);
    let (top, under) = (steep.select(b, a), steep.select(a, b));
    // An angle near 45 degrees is computed relative to 45 degrees.
    let turned = (0.41421356237309503 * under).less(top);
    let (less, more) = (top - under, top + under);
    let t = turned.select(less, top) / turned.select(more, under);
    // The quotient 0/0 becomes 0, and ∞/∞ the diagonal at 45 degrees.
    let t = under.is(0.0).select(0.0, t);
    let both = top.is(f64::INFINITY);
    let t = both.select(0.0, t);
    let flat: Truth<'_, O> = under.is(f64::INFINITY) & !both;
    let t = flat.select(0.0, t);
    let turned = (turned | both) & !flat;
    let z = t * t;
    // The rounding error of π/4.
    let low = turned.select(3.061616997868383e-17, 0.0);
    let p = (z * t).mul_add(z.polynomial(&ATAN), low);
    let base = turned.select(std::f64::consts::FRAC_PI_4, 0.0);
    let sum = t + p;
    let flat_angle = base + sum;
    let steep_angle = (HALF_PI.0 - base) + (HALF_PI.1 - sum);
    steep.select(steep_angle, flat_angle)
}

#[inline(always)]
pub(super) fn atan<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    angle(x, x.constant(1.0)).with_sign(x).or_nan(x)
}

#[inline(always)]
pub(super) fn atan2<'o, O: Ops>(y: Number<'o, O>, x: Number<'o, O>) -> Number<'o, O> {
    // The sum of two large doubles would overflow.
    let is_large = y.abs().more(1e300) | x.abs().more(1e300);
    let by = is_large.select(0.5, 1.0);
    let t = angle(y * by, x * by);
    let other = PI.0 + (PI.1 - t);
    let t = x.is_negative().select(other, t);
    t.with_sign(y).or_nan(x).or_nan(y)
}

/// The arcus sine or cosine.
#[inline(always)]
pub(super) fn arc<O: Ops>(m: Math, x: Number<'_, O>) -> Number<'_, O> {
    let a = x.abs();
    let outer = a.more(0.5);
    let z = outer.select(0.5 * (1.0 - a), x * x);
    let root = z.sqrt();
    let s = outer.select(root, a);
    let p = z * s * z.polynomial(&ASIN);
    // The rounding error of the root.
    let lack = (-root).fma(root, z) / (root + root);
    let lack = root.is(0.0).select(0.0, lack);
    let p = p + outer.select(lack, 0.0);
    let (twice_s, twice_p) = (2.0 * s, 2.0 * p);
    let r = if m == Math::Asin {
        // π/2 - 2 (s + p)
        let far = rest_of(HALF_PI, twice_s, twice_p);
        outer.select(far, s + p).with_sign(x)
    } else {
        let near_minus_one = rest_of(PI, twice_s, twice_p);
        let far = x.less(0.0).select(near_minus_one, 2.0 * (s + p));
        // π/2 - (x + p), with the sign of x on p
        outer.select(far, rest_of(HALF_PI, x, p.with_sign(x)))
    };
    a.more(1.0).select(f64::NAN, r).or_nan(x)
}

/// `whole - (large + small)`, the large parts first.
#[inline(always)]
fn rest_of<'o, O: Ops>(whole: (f64, f64), large: Number<'o, O>, small: Number<'o, O>) -> Number<'o, O> {
    let rest = whole.0 - large;
    let lost = (whole.0 - rest) - large;
    rest + ((whole.1 - small) + lost)
}
