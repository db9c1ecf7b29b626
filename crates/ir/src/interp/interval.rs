//! Runs code in intervals (Moore, "Interval Analysis", 1966): each float carries bounds between which lie the number that
//! the program computes, the number that it would compute in real numbers, and all that it could compute if every operation
//! were rounded in another way within its error ([`crate::rounding`]).
//!
//! An operation's bounds are those of its values for all operands within theirs, computed in doubles, rounded outwards, and
//! widened by the operation's own roundings. Where operands depend on each other, bounds are wider than they need be.
//!
//! Code that decides by a number whose bounds allow several decisions (a condition, an index) stops: there the program may
//! do something else than it would in real numbers. A selection has no need to, since its bounds include both operands.
//! Memory holds no bounds, so what is read where such a number was written may be any number.

use super::value::Lane;
use crate::function::Span;
use crate::ops::{Math, Op};
use crate::rounding::{half_least, largest, roundoffs, unit};
use crate::scalar;
use crate::types::Scalar;

/// The error message for a decision that bounds do not determine.
pub const UNDECIDED: &str = "rounding errors may change what is decided here";

/// A lane of the interpreter: canonical bits and, for a float, bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Canonical bits: the number that the program computes.
    pub bits: u64,
    known: Known,
}

/// The knowledge of a lane besides its bits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    /// The number is exact.
    Exact,
    /// A float is within these bounds.
    Within(f64, f64),
    /// A number of any other type may be another one.
    Open,
}

const ANY: Known = Known::Within(f64::NEG_INFINITY, f64::INFINITY);

impl Interval {
    /// A float with bounds.
    pub fn within(bits: u64, low: f64, high: f64) -> Interval {
        Interval { bits, known: Known::Within(low, high) }
    }

    /// The bounds of a number of a float type.
    pub fn bounds(self, s: Scalar) -> (f64, f64) {
        match self.known {
            Known::Exact => {
                let x = scalar::to_f64(s, self.bits);
                if x.is_nan() { (f64::NEG_INFINITY, f64::INFINITY) } else { (x, x) }
            }
            Known::Within(low, high) => (low, high),
            Known::Open => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }

    fn is_exact(self) -> bool {
        self.known == Known::Exact
    }
}

impl Lane for Interval {
    fn from_bits(bits: u64) -> Interval {
        Interval { bits, known: Known::Exact }
    }

    fn bits(self) -> u64 {
        self.bits
    }

    fn cut_at(self, here: &dyn Fn() -> Span) -> Option<Span> {
        (!self.is_exact()).then(here)
    }

    fn cut(self, at: Option<Span>) -> Interval {
        Interval { bits: self.bits, known: if at.is_some() { ANY } else { Known::Exact } }
    }

    fn detached(self, _at: Option<Span>) -> Interval {
        self
    }

    fn decided(self) -> Result<u64, String> {
        if self.is_exact() { Ok(self.bits) } else { Err(UNDECIDED.to_string()) }
    }

    fn selected(self, a: Interval, b: Interval, s: Scalar) -> Interval {
        let taken = if self.bits != 0 { a } else { b };
        if self.is_exact() || a == b {
            return taken;
        }
        if !s.is_float() {
            return Interval { bits: taken.bits, known: Known::Open };
        }
        let ((a, b), (c, d)) = (a.bounds(s), b.bounds(s));
        Interval { bits: taken.bits, known: Known::Within(a.min(c), b.max(d)) }
    }

    fn elementwise(op: &Op, from: Scalar, to: Scalar, args: &[Interval]) -> Option<Interval> {
        if let (Op::Select, &[c, a, b]) = (op, args) {
            return Some(c.selected(a, b, from));
        }
        let bits: Vec<u64> = args.iter().map(|a| a.bits).collect();
        let bits = scalar::elementwise(op, from, to, &bits)?;
        let units = roundoffs(op, from, to);
        if args.iter().all(|a| a.is_exact()) && units == 0.0 {
            return Some(Interval::from_bits(bits));
        }
        let known = match (from.is_float(), to.is_float()) {
            (true, true) if *op == Op::Bitcast => ANY,
            (true, true) => {
                let x: Vec<(f64, f64)> = args.iter().map(|a| a.bounds(from)).collect();
                rounded(image(op, &x), units, to)
            }
            (true, false) => decision(op, from, to, args, bits),
            // An integer that is exact is rounded once.
            (false, true) if args[0].is_exact() && *op == Op::Convert => {
                let n = scalar::to_i128(from, args[0].bits) as f64;
                rounded((n.next_down(), n.next_up()), units, to)
            }
            (false, true) => ANY,
            (false, false) => Known::Open,
        };
        Some(Interval { bits, known })
    }
}

/// Bounds, widened by the roundings of an operation.
fn rounded((low, high): (f64, f64), units: f64, s: Scalar) -> Known {
    if low.is_nan() || high.is_nan() {
        return ANY;
    }
    if units == 0.0 {
        return Known::Within(low, high);
    }
    let (unit, least) = (units * unit(s), units * half_least(s));
    let by = |x: f64| (x.abs() * unit).max(least).next_up();
    let (low, high) = ((low - by(low)).next_down(), (high + by(high)).next_up());
    // Beyond the largest number there are only infinities.
    let most = largest(s);
    let low = if low < -most { f64::NEG_INFINITY } else { low };
    let high = if high > most { f64::INFINITY } else { high };
    Known::Within(low, high)
}

/// The knowledge of the number of another type that an op makes of floats.
fn decision(op: &Op, from: Scalar, to: Scalar, args: &[Interval], bits: u64) -> Known {
    let x: Vec<(f64, f64)> = args.iter().map(|a| a.bounds(from)).collect();
    let all = |is: &dyn Fn(f64, f64) -> bool| {
        let &[(a, b), (c, d)] = &x[..] else { return false };
        is(a, c) == is(a, d) && is(b, c) == is(b, d) && is(a, c) == is(b, c)
    };
    let (apart, points) = match x[..] {
        [(a, b), (c, d)] => (b < c || d < a, a == b && c == d),
        _ => (false, false),
    };
    let is_sure = match op {
        Op::Eq | Op::Ne => apart || points,
        Op::Lt => all(&|a, b| a < b),
        Op::Le => all(&|a, b| a <= b),
        Op::Gt => all(&|a, b| a > b),
        Op::Ge => all(&|a, b| a >= b),
        Op::Convert if to == Scalar::Bool => x[0].0 > 0.0 || x[0].1 < 0.0,
        Op::Convert => {
            let whole = |x: f64| scalar::convert(Scalar::F64, to, x.to_bits());
            whole(x[0].0) == bits && whole(x[0].1) == bits
        }
        Op::Math(Math::IsNan | Math::IsInf) => x[0].0.is_finite() && x[0].1.is_finite(),
        _ => false,
    };
    if is_sure { Known::Exact } else { Known::Open }
}

/// Bounds of the values of an op on floats, in real numbers; NaN where there are none.
fn image(op: &Op, x: &[(f64, f64)]) -> (f64, f64) {
    let any = (f64::NEG_INFINITY, f64::INFINITY);
    match (op, x) {
        (Op::Convert | Op::Detach, &[a]) => a,
        (Op::Neg, &[(low, high)]) => (-high, -low),
        (Op::Add, &[(a, b), (c, d)]) => outward((a + c, b + d)),
        (Op::Sub, &[(a, b), (c, d)]) => outward((a - d, b - c)),
        (Op::Mul, &[a, b]) => product(a, b),
        (Op::Div, &[a, (c, d)]) if c > 0.0 || d < 0.0 => corners(a, (c, d), |a, b| a / b),
        (Op::Rem, &[_, (c, d)]) => {
            let most = c.abs().max(d.abs());
            (-most, most)
        }
        (Op::Math(m), x) => math(*m, x),
        _ => any,
    }
}

fn outward((low, high): (f64, f64)) -> (f64, f64) {
    (low.next_down(), high.next_up())
}

/// The bounds of a function of two numbers that has its extremes at the corners.
fn corners(a: (f64, f64), b: (f64, f64), of: impl Fn(f64, f64) -> f64) -> (f64, f64) {
    let all = [of(a.0, b.0), of(a.0, b.1), of(a.1, b.0), of(a.1, b.1)];
    if all.iter().any(|x| x.is_nan()) {
        return (f64::NAN, f64::NAN);
    }
    outward((
        all.iter().copied().fold(f64::INFINITY, f64::min),
        all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    ))
}

fn product(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    // Zero times a bound at infinity is zero, since no number is infinite.
    corners(a, b, |a, b| if a == 0.0 || b == 0.0 { 0.0 } else { a * b })
}

/// Bounds of a function that doubles compute within a few units in the last place.
fn near((low, high): (f64, f64)) -> (f64, f64) {
    let by = |x: f64| (x.abs() * 2f64.powi(-50)).max(f64::MIN_POSITIVE);
    (low - by(low), high + by(high))
}

/// Bounds of a mathematical function.
fn math(m: Math, x: &[(f64, f64)]) -> (f64, f64) {
    let (low, high) = x[0];
    // The library's functions of doubles, whose errors are known.
    let of = |x: f64| scalar::math(m, Scalar::F64, &[x.to_bits()]).map_or(f64::NAN, f64::from_bits);
    let rising = || near((of(low), of(high)));
    let falling = || near((of(high), of(low)));
    let within = |(a, b): (f64, f64), least: f64, most: f64| (a.max(least), b.min(most));
    match m {
        Math::Floor => (low.floor(), high.floor()),
        Math::Ceil => (low.ceil(), high.ceil()),
        Math::Round => (low.round_ties_even(), high.round_ties_even()),
        Math::Trunc => (low.trunc(), high.trunc()),
        Math::Abs if low >= 0.0 => (low, high),
        Math::Abs if high <= 0.0 => (-high, -low),
        Math::Abs => (0.0, high.max(-low)),
        Math::Min => (low.min(x[1].0), high.min(x[1].1)),
        Math::Max => (low.max(x[1].0), high.max(x[1].1)),
        Math::Fma => {
            let ((a, b), (c, d)) = (product(x[0], x[1]), x[2]);
            outward((a + c, b + d))
        }
        Math::Exp | Math::Exp2 => within(rising(), 0.0, f64::INFINITY),
        Math::Sqrt
        | Math::Log
        | Math::Log2
        | Math::Log10
        | Math::Sinh
        | Math::Tanh
        | Math::Asinh
        | Math::Acosh
        | Math::Atanh
        | Math::Atan
        | Math::Asin => rising(),
        Math::Acos => falling(),
        Math::Cosh if low >= 0.0 => rising(),
        Math::Cosh if high <= 0.0 => falling(),
        Math::Cosh => near((1.0, of(low).max(of(high)))),
        Math::Cos => cosine(low, high, 0.0),
        Math::Sin => cosine(low, high, 0.5),
        Math::Tan => {
            // The number of poles below.
            let turn = |x: f64| (x / std::f64::consts::PI + 0.5).floor();
            let is_far = low.abs().max(high.abs()) > 1e6;
            match turn(low) == turn(high) && high - low < 1.0 && !is_far {
                true if of(low) <= of(high) => rising(),
                _ => (f64::NAN, f64::NAN),
            }
        }
        // The angle rises or falls with each coordinate.
        Math::Atan2 if x[1].0 > 0.0 => near(corners(x[0], x[1], f64::atan2)),
        Math::Atan2 if low > 0.0 || high < 0.0 => near(corners(x[0], x[1], f64::atan2)),
        Math::Atan2 => near((-std::f64::consts::PI, std::f64::consts::PI)),
        // x^y = e^(y log x), which has its extremes at the corners.
        Math::Pow if low > 0.0 => within(power(x[0], x[1]), 0.0, f64::INFINITY),
        Math::Pow if x[1].0 == x[1].1 && x[1].0 > 0.0 && x[1].0.fract() == 0.0 => {
            let n = x[1].0;
            let (a, b) = power(x[0], x[1]);
            if n % 2.0 == 0.0 && low < 0.0 && high > 0.0 { (0.0, b) } else { (a, b) }
        }
        Math::Pow
        | Math::IsNan
        | Math::IsInf
        | Math::CountBits
        | Math::ReverseBits
        | Math::FirstBitLow
        | Math::FirstBitHigh => (f64::NAN, f64::NAN),
    }
}

/// Powers, whose relative error in doubles grows with the logarithm of the result.
fn power(x: (f64, f64), y: (f64, f64)) -> (f64, f64) {
    let (low, high) = corners(x, y, f64::powf);
    near(near((low, high)))
}

/// Bounds of the cosine of `x - turns·π`.
fn cosine(low: f64, high: f64, turns: f64) -> (f64, f64) {
    let pi = std::f64::consts::PI;
    let is_narrow = high - low < 2.0 * pi;
    if !is_narrow || low.abs().max(high.abs()) > 1e6 {
        return (-1.0, 1.0);
    }
    let of = |x: f64| if turns == 0.0 { x.cos() } else { x.sin() };
    let (a, b) = near((of(low).min(of(high)), of(low).max(of(high))));
    // Extremes are at whole multiples of π, at even ones the largest; near to one it counts as inside.
    let (first, last) = ((low / pi - turns - 1e-9).ceil(), (high / pi - turns + 1e-9).floor());
    let inside = |is_even: bool| {
        let first = if (first.rem_euclid(2.0) == 0.0) == is_even { first } else { first + 1.0 };
        first <= last
    };
    (if inside(false) { -1.0 } else { a.max(-1.0) }, if inside(true) { 1.0 } else { b.min(1.0) })
}
