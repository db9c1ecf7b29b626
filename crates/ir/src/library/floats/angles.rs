//! Sines, cosines and tangents of floats, and their inverse functions.

use super::super::number::{Integer, Number, Truth};
use super::super::ops::Ops;
use super::super::powers::{Pair, sum_below};
use super::polynomials::{ASIN, ATAN, COS, FAR, PIO2, SIN};
use crate::Math;

/// π as a rounded float, and the remainder.
const PI: (f64, f64) = (2.0 * PIO2[0], 2.0 * PIO2[1]);

/// Just under an eighth of a turn.
const EIGHTH: f64 = 0.785;

/// The bit that is set in negative numbers.
const SIGN: i64 = i32::MIN as i64;

#[inline(always)]
pub(super) fn circular<'o, O: Ops>(m: Math, x: Number<'o, O>) -> Number<'o, O> {
    let any = |x: Number<'o, O>| {
        let near = x.abs().at_most(FAR);
        x.elsewhere(m, near, of_turns(m, x))
    };
    x.abs().at_most(EIGHTH).short_cut(x, |x| small(m, x), any)
}

/// The function of an angle of at most an eighth of a turn, from which no quarter turns are taken: as
/// [`of_turns`], to the bit.
#[inline(always)]
fn small<O: Ops>(m: Math, x: Number<'_, O>) -> Number<'_, O> {
    let a = x.abs();
    match m {
        Math::Sin => sine(a).with_sign(x),
        Math::Cos => cosine(a),
        _ => {
            let (sin, cos) = exact_sine_and_cosine([a, x.constant(0.0)]);
            quotient(sin, cos).with_sign(x)
        }
    }
}

/// The sine of at most an eighth of a turn.
#[inline(always)]
fn sine<O: Ops>(r: Number<'_, O>) -> Number<'_, O> {
    let z = r * r;
    (r * z).fma(sine_curve(z), r)
}

#[inline(always)]
fn sine_curve<O: Ops>(z: Number<'_, O>) -> Number<'_, O> {
    z.fma(z.constant(SIN[2]).fma(z, z.constant(SIN[1])), z.constant(SIN[0]))
}

/// The cosine of at most an eighth of a turn.
#[inline(always)]
fn cosine<O: Ops>(r: Number<'_, O>) -> Number<'_, O> {
    let z = r * r;
    z.fma(z.polynomial(&COS), r.constant(1.0))
}

/// The sine and the cosine of `r + rest`, each in two parts.
#[inline(always)]
fn exact_sine_and_cosine<'o, O: Ops>([r, rest]: [Number<'o, O>; 2]) -> (Pair<'o, O>, Pair<'o, O>) {
    let z = r * r;
    let sin = sum_below(r, (r * z).fma(sine_curve(z), rest));
    let cos = sum_below(r.constant(1.0), z.fma(z.polynomial(&COS), -(r * rest)));
    (sin, cos)
}

/// The quotient of two numbers of two parts each.
#[inline(always)]
fn quotient<'o, O: Ops>((top, top_low): Pair<'o, O>, (under, under_low): Pair<'o, O>) -> Number<'o, O> {
    let inverse = 1.0 / under;
    let t = top * inverse;
    let rest = (-t).fma(under_low, (-t).fma(under, top) + top_low);
    rest.fma(inverse, t)
}

/// The sine and the cosine of an angle, as [`circular`] gives them, to the bit.
#[inline(always)]
pub(in super::super) fn sine_and_cosine<O: Ops>(x: Number<'_, O>) -> [Number<'_, O>; 2] {
    let near = x.abs().at_most(FAR);
    let turns = Turns::of(x);
    let rest = turns.rest();
    [Math::Sin, Math::Cos].map(|m| x.elsewhere(m, near, turns.turned(m, x, rest)))
}

/// The function of an angle of at most [`FAR`].
#[inline(always)]
fn of_turns<'o, O: Ops>(m: Math, x: Number<'o, O>) -> Number<'o, O> {
    let turns = Turns::of(x);
    if m == Math::Tan {
        let (sin, cos) = exact_sine_and_cosine(remainder(turns.first, turns.k));
        let choose =
            |a: Pair<'o, O>, b: Pair<'o, O>| (turns.odd.select(a.0, b.0), turns.odd.select(a.1, b.1));
        let t = quotient(choose(cos, sin), choose(sin, cos));
        return (t.bits() ^ (((turns.quarter << 31) ^ x.bits()) & SIGN)).of_bits();
    }
    turns.turned(m, x, turns.rest())
}

/// The magnitude of an angle of at most [`FAR`] in quarter turns.
#[derive(Clone, Copy)]
struct Turns<'o, O: Ops> {
    /// The nearest whole number of quarter turns.
    k: Number<'o, O>,
    /// An integer whose lowest bits are those of the whole number.
    quarter: Integer<'o, O>,
    /// The whole number is odd.
    odd: Truth<'o, O>,
    /// The angle that remains after the first step of the reduction.
    first: Number<'o, O>,
}

impl<'o, O: Ops> Turns<'o, O> {
    #[inline(always)]
    fn of(x: Number<'o, O>) -> Turns<'o, O> {
        let a = x.abs();
        // The nearest whole number of quarter turns: the sum with the magic number has no bits for a fraction, and
        // its lowest bits are those of the whole number.
        let magic = x.magic().0;
        let sum = a.fma(std::f64::consts::FRAC_2_PI, x.constant(magic));
        let (k, quarter) = (sum - magic, sum.bits());
        // The remainder after the first step is below 1 and a multiple of 2^-24 (or of the unit that `a` is a
        // multiple of), so that step is exact.
        let first = (-k).fma(PIO2[0], a);
        let odd = (quarter & 1).is_not_zero();
        Turns { k, quarter, odd, first }
    }

    /// The sine and the cosine of the angle that remains.
    #[inline(always)]
    fn rest(&self) -> [Number<'o, O>; 2] {
        let r = (-self.k).fma(PIO2[2], (-self.k).fma(PIO2[1], self.first));
        [sine(r), cosine(r)]
    }

    /// The sine or cosine of the angle `x`.
    #[inline(always)]
    fn turned(&self, m: Math, x: Number<'o, O>, [sin, cos]: [Number<'o, O>; 2]) -> Number<'o, O> {
        let (v, sign): (_, Integer<'o, O>) = match m {
            Math::Sin => (self.odd.select(cos, sin), (self.quarter << 30) ^ x.bits()),
            _ => (self.odd.select(sin, cos), (self.quarter + 1) << 30),
        };
        (v.bits() ^ (sign & SIGN)).of_bits()
    }
}

/// The angle that remains after the second and third step of the reduction, in two parts.
#[inline(always)]
fn remainder<'o, O: Ops>(first: Number<'o, O>, k: Number<'o, O>) -> [Number<'o, O>; 2] {
    let second = k * PIO2[1];
    let lost = k.fma(PIO2[1], -second);
    let r1 = first - second;
    let rest = first - r1 - second - lost;
    let rest = (-k).fma(PIO2[2], rest);
    let r = r1 + rest;
    [r, (r1 - r) + rest]
}

/// The angle of `|y| / |x|`, from 0 to a quarter turn.
#[inline(always)]
fn angle<'o, O: Ops>(y: Number<'o, O>, x: Number<'o, O>) -> Number<'o, O> {
    let (a, b) = (y.abs(), x.abs());
    let steep = b.less(a);
    let (top, under) = (steep.select(b, a), steep.select(a, b));
    let t = top / under;
    // The quotient 0/0 becomes 0, and ∞/∞ the diagonal at 45 degrees.
    let t = under.is(0.0).select(0.0, t);
    let t = top.is(f64::INFINITY).select(1.0, t);
    let z = t * t;
    let curve = (z * t) * z.in_turn(&ATAN);
    let flat = t + curve;
    let rest = PIO2[0] - t;
    steep.select(rest - (curve - PIO2[1]), flat)
}

#[inline(always)]
pub(super) fn atan<O: Ops>(x: Number<'_, O>) -> Number<'_, O> {
    angle(x, x.constant(1.0)).with_sign(x).or_nan(x)
}

#[inline(always)]
pub(super) fn atan2<'o, O: Ops>(y: Number<'o, O>, x: Number<'o, O>) -> Number<'o, O> {
    let t = angle(y, x);
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
    let s = outer.select(z.sqrt(), a);
    let p = z * s * z.even_and_odd(&ASIN);
    let near = s + p;
    let r = if m == Math::Asin {
        // π/2 - 2 (s + p)
        let far = rest_of(PIO2[0], PIO2[1], s + s, p + p);
        outer.select(far, near).with_sign(x)
    } else {
        let near_minus_one = rest_of(PI.0, PI.1, s + s, p + p);
        let far = x.less(0.0).select(near_minus_one, near + near);
        // π/2 - (x + p), with the sign of x on p
        outer.select(far, rest_of(PIO2[0], PIO2[1], x, p.with_sign(x)))
    };
    a.more(1.0).select(f64::NAN, r).or_nan(x)
}

/// `whole + whole_low - (large + small)`, the large parts first.
#[inline(always)]
fn rest_of<'o, O: Ops>(
    whole: f64,
    whole_low: f64,
    large: Number<'o, O>,
    small: Number<'o, O>,
) -> Number<'o, O> {
    let rest = whole - large;
    let lost = (whole - rest) - large;
    rest + ((whole_low - small) + lost)
}
