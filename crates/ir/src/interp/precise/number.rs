//! Numbers of twice a double's digits, and their mathematical functions.
//!
//! A number is the sum of two doubles of which the second is at most half a unit of the first one's last digit, so it
//! has at least 106 bits. The sum and the product of two doubles are exact sums of two (Dekker 1971, Knuth, TAOCP 2,
//! 4.2.2); the operations on pairs are those that Joldes, Muller and Popescu analyse ("Tight and rigorous error bounds
//! for basic building blocks of double-word arithmetic", 2017), with errors of some 2^-104. Functions reduce their
//! argument to where a Taylor series is short, or correct a double's result by one step of Newton's method; their
//! relative errors are some 1e-29, larger only where an argument is so large that its last digit is worth more.
//!
//! Where the first double is not finite or is zero, a number is that double.

use std::cmp::Ordering;
use std::f64::consts::FRAC_2_PI;
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

/// A number of twice a double's digits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Number {
    /// The double nearest to the number.
    pub hi: f64,
    /// The rest.
    pub lo: f64,
}

const fn number(hi: f64, lo: f64) -> Number {
    Number { hi, lo }
}

const LN_2: Number = number(std::f64::consts::LN_2, 2.3190468138462996e-17);
const LN_10: Number = number(std::f64::consts::LN_10, -2.1707562233822494e-16);
/// Half of π, in three parts.
const QUARTER_TURN: [f64; 3] = [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17, -1.4973849048591833e-33];

/// `a + b` and its rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    let t = s - a;
    (s, (a - (s - t)) + (b - t))
}

/// `a + b` as a number, for `|a| ≥ |b|`.
fn joined(a: f64, b: f64) -> Number {
    let s = a + b;
    // An overflow has no rest, nor has zero.
    if !s.is_finite() || s == 0.0 { Number::from(s) } else { number(s, b - (s - a)) }
}

impl From<f64> for Number {
    fn from(x: f64) -> Number {
        number(x, 0.0)
    }
}

impl Number {
    /// The product of two doubles.
    pub fn product(a: f64, b: f64) -> Number {
        let p = a * b;
        joined(p, a.mul_add(b, -p))
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        self.hi
    }

    fn is_number(self) -> bool {
        self.hi.is_finite()
    }

    fn is_negative(self) -> bool {
        self.hi < 0.0
    }

    /// The absolute value.
    pub fn abs(self) -> Number {
        number(self.hi.abs(), if self.hi.is_sign_negative() { -self.lo } else { self.lo })
    }

    /// `self * 2^n`.
    fn scaled(self, n: i32) -> Number {
        // In two steps, each of which is a power of two that doubles have.
        let power = |n: i32| 2f64.powi(n);
        let (a, b) = (power(n / 2), power(n - n / 2));
        joined(self.hi * a * b, self.lo * a * b)
    }

    /// The square root.
    pub fn sqrt(self) -> Number {
        let root = self.hi.sqrt();
        if !root.is_finite() || root == 0.0 {
            return root.into();
        }
        // One step of Newton's method, of which the double's part is exact.
        joined(root, (self - Number::product(root, root)).hi / (2.0 * root))
    }

    /// The largest integer that is not larger.
    pub fn floor(self) -> Number {
        let hi = self.hi.floor();
        if hi == self.hi { sum(hi, self.lo.floor()) } else { hi.into() }
    }

    /// The integer next to it in the direction of zero.
    pub fn trunc(self) -> Number {
        if self.is_negative() { -(-self).floor() } else { self.floor() }
    }

    /// The nearest integer, the even one in the middle.
    pub fn round(self) -> Number {
        let below = self.floor();
        let rest = self - below;
        let is_odd = (below.hi.rem_euclid(2.0) + below.lo.rem_euclid(2.0)).rem_euclid(2.0) == 1.0;
        match rest.partial_cmp(&0.5.into()) {
            Some(Ordering::Greater) => below + 1.0.into(),
            Some(Ordering::Equal) if is_odd => below + 1.0.into(),
            _ => below,
        }
    }

    /// The sum of `terms(k)` times the power of number `step * k + first` of `self`, for all terms that count.
    fn series(self, first: u32, step: u32, mut term: impl FnMut(u32) -> Number) -> Number {
        let (mut power, mut square) = (Number::from(1.0), Number::from(1.0));
        (0..first).for_each(|_| power = power * self);
        (0..step).for_each(|_| square = square * self);
        let mut sum = Number::from(0.0);
        for k in 0..60 {
            let next = term(k) * power;
            sum = sum + next;
            if next.hi.abs() <= sum.hi.abs() * 1e-34 {
                break;
            }
            power = power * square;
        }
        sum
    }

    /// `e` to the power of the number, less 1, where the number is small.
    fn exp_m1_small(self) -> Number {
        let mut factorial = Number::from(1.0);
        self.series(1, 1, |k| {
            factorial = factorial * f64::from(k + 1).into();
            Number::from(1.0) / factorial
        })
    }

    /// `e` to the power of the number.
    pub fn exp(self) -> Number {
        let rough = self.hi.exp();
        if !rough.is_finite() || rough == 0.0 {
            return rough.into();
        }
        let n = (self.hi / LN_2.hi).round();
        // e^r = (e^(r/256))^256, from its difference to 1, which keeps the digits.
        let mut less = (self - LN_2 * n.into()).scaled(-8).exp_m1_small();
        (0..8).for_each(|_| less = less.scaled(1) + less * less);
        (less + 1.0.into()).scaled(n as i32)
    }

    /// The logarithm of the number plus 1.
    fn log_1p(self) -> Number {
        if self.hi.abs() > 0.25 {
            return (self + 1.0.into()).log();
        }
        // log (1 + x) = 2 artanh (x / (2 + x)).
        let quotient = self / (self + 2.0.into());
        quotient.series(1, 2, |k| Number::from(2.0) / f64::from(2 * k + 1).into())
    }

    /// The natural logarithm.
    pub fn log(self) -> Number {
        let rough = self.hi.ln();
        if !rough.is_finite() {
            return rough.into();
        }
        let more = self - 1.0.into();
        if more.hi.abs() <= 0.25 {
            return more.log_1p();
        }
        // log x = y + log (x / e^y), whose last term is tiny.
        let rough = Number::from(rough);
        rough + (self / rough.exp() - 1.0.into()).log_1p()
    }

    /// Sine and cosine.
    fn sin_cos(self) -> (Number, Number) {
        if !self.is_number() {
            return (f64::NAN.into(), f64::NAN.into());
        }
        let n = (self.hi * FRAC_2_PI).round();
        let x = QUARTER_TURN.iter().fold(self, |x, &part| x - Number::product(n, part));
        let mut factorial = Number::from(1.0);
        let sin = x.series(1, 2, |k| {
            if k > 0 {
                factorial = factorial * (-f64::from(2 * k * (2 * k + 1))).into();
            }
            Number::from(1.0) / factorial
        });
        let mut factorial = Number::from(1.0);
        let cos = x.series(0, 2, |k| {
            if k > 0 {
                factorial = factorial * (-f64::from(2 * k * (2 * k - 1))).into();
            }
            Number::from(1.0) / factorial
        });
        match n.rem_euclid(4.0) as u8 {
            0 => (sin, cos),
            1 => (cos, -sin),
            2 => (-sin, -cos),
            _ => (-cos, sin),
        }
    }

    /// The sine.
    pub fn sin(self) -> Number {
        if self.hi == 0.0 { self } else { self.sin_cos().0 }
    }

    /// The cosine.
    pub fn cos(self) -> Number {
        self.sin_cos().1
    }

    /// The tangent.
    pub fn tan(self) -> Number {
        let (sin, cos) = self.sin_cos();
        if self.hi == 0.0 { self } else { sin / cos }
    }

    /// The angle of the point `(x, self)`.
    pub fn atan2(self, x: Number) -> Number {
        let rough = self.hi.atan2(x.hi);
        let largest = self.hi.abs().max(x.hi.abs());
        if !largest.is_finite() || largest == 0.0 || rough == 0.0 {
            return rough.into();
        }
        // Turned back by the rough angle, the point's angle is tiny, and its tangent is it.
        let scale = Number::from(largest);
        let (y, x) = (self / scale, x / scale);
        let (sin, cos) = Number::from(rough).sin_cos();
        Number::from(rough) + (y * cos - x * sin) / (x * cos + y * sin)
    }

    /// The angle of which it is the tangent.
    pub fn atan(self) -> Number {
        if self.hi == 0.0 { self } else { self.atan2(1.0.into()) }
    }

    /// The root of `1 - x²`.
    fn other_side(self) -> Number {
        ((Number::from(1.0) - self) * (Number::from(1.0) + self)).sqrt()
    }

    /// The angle of which it is the sine.
    pub fn asin(self) -> Number {
        if self.hi == 0.0 { self } else { self.atan2(self.other_side()) }
    }

    /// The angle of which it is the cosine.
    pub fn acos(self) -> Number {
        self.other_side().atan2(self)
    }

    /// The hyperbolic sine.
    pub fn sinh(self) -> Number {
        if self.hi.abs() < 0.5 {
            let mut factorial = Number::from(1.0);
            return self.series(1, 2, |k| {
                if k > 0 {
                    factorial = factorial * f64::from(2 * k * (2 * k + 1)).into();
                }
                Number::from(1.0) / factorial
            });
        }
        let e = (self - LN_2).exp();
        e - (-self - LN_2).exp()
    }

    /// The hyperbolic cosine.
    pub fn cosh(self) -> Number {
        (self - LN_2).exp() + (-self - LN_2).exp()
    }

    /// The hyperbolic tangent.
    pub fn tanh(self) -> Number {
        if self.hi.abs() < 0.5 {
            return self.sinh() / self.cosh();
        }
        let e = (-self.abs().scaled(1)).exp();
        let size = (Number::from(1.0) - e) / (Number::from(1.0) + e);
        if self.is_negative() { -size } else { size }
    }

    /// The number of which it is the hyperbolic sine.
    pub fn asinh(self) -> Number {
        let x = self.abs();
        if x.hi == 0.0 || !x.is_number() {
            return self;
        }
        let y = match x.hi > 1e100 {
            true => x.log() + LN_2,
            false => {
                let square = x * x;
                (x + square / ((square + 1.0.into()).sqrt() + 1.0.into())).log_1p()
            }
        };
        if self.is_negative() { -y } else { y }
    }

    /// The positive number of which it is the hyperbolic cosine.
    pub fn acosh(self) -> Number {
        if self.hi > 1e100 {
            return self.log() + LN_2;
        }
        let less = self - 1.0.into();
        (less + (less * (self + 1.0.into())).sqrt()).log_1p()
    }

    /// The number of which it is the hyperbolic tangent.
    pub fn atanh(self) -> Number {
        if self.hi == 0.0 {
            return self;
        }
        (self.scaled(1) / (Number::from(1.0) - self)).log_1p().scaled(-1)
    }

    /// 2 to the power of the number.
    pub fn exp2(self) -> Number {
        let n = self.hi.round();
        if !self.hi.exp2().is_finite() || self.hi.exp2() == 0.0 {
            return self.hi.exp2().into();
        }
        ((self - n.into()) * LN_2).exp().scaled(n as i32)
    }

    /// The logarithm to the base 2.
    pub fn log2(self) -> Number {
        self.log() / LN_2
    }

    /// The logarithm to the base 10.
    pub fn log10(self) -> Number {
        self.log() / LN_10
    }

    /// The number to the power `y`.
    pub fn pow(self, y: Number) -> Number {
        let rough = self.hi.powf(y.hi);
        if !rough.is_finite() || rough == 0.0 || y.hi == 0.0 {
            return rough.into();
        }
        let size = (y * self.abs().log()).exp();
        if rough < 0.0 { -size } else { size }
    }
}

/// The sum of two doubles.
fn sum(a: f64, b: f64) -> Number {
    let (hi, lo) = two_sum(a, b);
    joined(hi, lo)
}

impl Add for Number {
    type Output = Number;
    fn add(self, other: Number) -> Number {
        let (hi, lo) = two_sum(self.hi, other.hi);
        if !hi.is_finite() {
            return hi.into();
        }
        let (rest, last) = two_sum(self.lo, other.lo);
        let first = joined(hi, lo + rest);
        joined(first.hi, last + first.lo)
    }
}

impl Neg for Number {
    type Output = Number;
    fn neg(self) -> Number {
        number(-self.hi, -self.lo)
    }
}

impl Sub for Number {
    type Output = Number;
    fn sub(self, other: Number) -> Number {
        self + -other
    }
}

impl Mul for Number {
    type Output = Number;
    fn mul(self, other: Number) -> Number {
        let p = self.hi * other.hi;
        if !p.is_finite() || p == 0.0 {
            return p.into();
        }
        let rest = self.hi.mul_add(other.hi, -p);
        let crossed = self.lo.mul_add(other.hi, self.hi * other.lo);
        joined(p, rest + crossed)
    }
}

impl Div for Number {
    type Output = Number;
    fn div(self, other: Number) -> Number {
        let q = self.hi / other.hi;
        if !q.is_finite() || q == 0.0 || !other.is_number() {
            return q.into();
        }
        let rest = self - other * q.into();
        let next = rest.hi / other.hi;
        let last = (rest - other * next.into()).hi / other.hi;
        joined(q, next) + last.into()
    }
}

/// The remainder of a division whose quotient is rounded to zero.
impl Rem for Number {
    type Output = Number;
    fn rem(self, other: Number) -> Number {
        let rough = self.hi % other.hi;
        if !rough.is_finite() || other.hi.is_infinite() {
            return rough.into();
        }
        self - (self / other).trunc() * other
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        match self.hi.partial_cmp(&other.hi)? {
            Ordering::Equal => self.lo.partial_cmp(&other.lo),
            unequal => Some(unequal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number that a decimal stands for.
    fn decimal(text: &str) -> Number {
        let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, part) = digits.trim_start_matches('-').split_once('.').expect("a point");
        let digit = |x: Number, d: u8| x * 10.0.into() + f64::from(d - b'0').into();
        let size = whole.bytes().chain(part.bytes()).fold(Number::from(0.0), digit);
        let exponent = exponent.parse::<i32>().expect("an exponent") - part.len() as i32;
        // Powers of ten up to 22 are doubles.
        let ten = |n: i32| Number::from(10f64.powi(n.min(22))) * 10f64.powi((n - 22).max(0)).into();
        let power = (0..exponent.abs() / 30).fold(ten(exponent.abs() % 30), |x, _| x * ten(30));
        let size = if exponent < 0 { size / power } else { size * power };
        if text.starts_with('-') { -size } else { size }
    }

    fn function(name: &str, x: &[f64]) -> Number {
        let a = Number::from(x[0]);
        let b = || Number::from(x[1]);
        match name {
            "exp" => a.exp(),
            "log" => a.log(),
            "sin" => a.sin(),
            "cos" => a.cos(),
            "tan" => a.tan(),
            "asin" => a.asin(),
            "acos" => a.acos(),
            "atan" => a.atan(),
            "sinh" => a.sinh(),
            "cosh" => a.cosh(),
            "tanh" => a.tanh(),
            "asinh" => a.asinh(),
            "acosh" => a.acosh(),
            "atanh" => a.atanh(),
            "exp2" => a.exp2(),
            "log2" => a.log2(),
            "log10" => a.log10(),
            "sqrt" => a.sqrt(),
            "atan2" => a.atan2(b()),
            "pow" => a.pow(b()),
            "rem" => a % b(),
            "div" => a / b(),
            _ => unreachable!("{name}"),
        }
    }

    /// Values to 36 digits, computed by mpmath with 60.
    const VALUES: &[(&str, &[f64], &str)] = &[
        ("exp", &[0.7], "2.01375270747047643219596451918424684"),
        ("exp", &[-30.5], "5.67568523263272246187278872380665128e-14"),
        ("exp", &[200.25], "9.27833397859235465470943615321850701e+86"),
        ("exp", &[1e-09], "1.00000000100000000050000006244825819"),
        ("log", &[0.7], "-0.356674943938732442353954404107274515"),
        ("log", &[1.0000001], "0.0000000999999950583870451775160996834544912"),
        ("log", &[1e+30], "69.077552789821370540424368479186926"),
        ("log", &[3.3e-05], "-10.3190029964977937919812390128496499"),
        ("log", &[1.5], "0.405465108108164381978013115464349137"),
        ("sin", &[0.7], "0.644217687237691019706798090282512161"),
        ("sin", &[3.25], "-0.108195134530108377035830842560825001"),
        ("sin", &[1000.5], "0.995273957105213542774042442904904327"),
        ("sin", &[1e-08], "0.0000000100000000000000000425589416346180505"),
        ("cos", &[0.7], "0.764842187284488454864872359873962916"),
        ("cos", &[1.5625], "0.00829623162385837747790645833721562897"),
        ("cos", &[-250.125], "0.360108356412850651264987148306908153"),
        ("cos", &[1e-08], "0.999999999999999949999999999999998324"),
        ("tan", &[0.7], "0.842288380463079372213317642606360427"),
        ("tan", &[1.5], "14.1014199471717193876460836519877564"),
        ("tan", &[-40.0], "1.11721493092389596815924140809262734"),
        ("asin", &[0.3], "0.304692654015397496333703340286564195"),
        ("asin", &[-0.99999], "-1.56632418711311886848842413354127288"),
        ("asin", &[1e-08], "0.0000000100000000000000003758922749679514114"),
        ("acos", &[0.3], "1.26610367277949912289761835135318725"),
        ("acos", &[-0.99999], "3.13712051390801548771974582518102432"),
        ("acos", &[0.9999999], "0.000447213599109041237073408584001469703"),
        ("atan", &[0.3], "0.2914567944778670818100722854222807"),
        ("atan", &[-5000000.0], "-1.57079612679489661923398835830641804"),
        ("atan", &[1e-08], "0.0000000099999999999999998758922749679513925"),
        ("sinh", &[0.3], "0.304520293447142607352846397871991024"),
        ("sinh", &[-20.5], "-399951088.737752702727222985448623727"),
        ("sinh", &[0.75], "0.822316731935829980703661634446913849"),
        ("sinh", &[1e-08], "0.0000000100000000000000003758922749679514047"),
        ("cosh", &[0.3], "1.04533851412886048164445463381664301"),
        ("cosh", &[-20.5], "399951088.737752703977375851835366356"),
        ("tanh", &[0.3], "0.291312612451590895658160015769398948"),
        ("tanh", &[-2.5], "-0.986614298151430288881276039237349639"),
        ("tanh", &[17.0], "0.999999999999996572183136915979942359"),
        ("tanh", &[1e-08], "0.00000000999999999999999987589227496795138583"),
        ("asinh", &[0.3], "0.295673047563422428468702575296471319"),
        ("asinh", &[-2000.5], "-8.29429967132599088918104139913014268"),
        ("asinh", &[1e-08], "0.0000000100000000000000000425589416346180571"),
        ("acosh", &[1.0000001], "0.000447213591903734727073764687393880626"),
        ("acosh", &[3.5], "1.92484730023841378999103565369747369"),
        ("acosh", &[1e+20], "46.7448490404408589897770612151454607"),
        ("atanh", &[0.3], "0.309519604203111703273814331202206401"),
        ("atanh", &[-0.999], "-3.80020116725019958746460173498017099"),
        ("atanh", &[1e-08], "0.000000010000000000000000542558941634618101"),
        ("exp2", &[0.7], "1.62450479271247099521404484059470167"),
        ("exp2", &[-100.3], "6.40754160657517287640843146528265044e-31"),
        ("exp2", &[1e-09], "1.00000000069314718080017185960214649"),
        ("log2", &[0.7], "-0.514573172829758331954821649826639013"),
        ("log2", &[1e+30], "99.6578428466208704647970325293482203"),
        ("log10", &[0.7], "-0.15490195998574319683999707150128213"),
        ("log10", &[1e-20], "-20.0000000000000000238196315578823473"),
        ("sqrt", &[2.0], "1.41421356237309504880168872420969808"),
        ("sqrt", &[1e-30], "1.00000000000000004166821030379299181e-15"),
        ("atan2", &[-0.5, -3.25], "-2.98894332519452807863518199560985039"),
        ("atan2", &[200000.0, 0.001], "1.57079632179489661923132162922300955"),
        ("pow", &[0.3, -40.5], "1501720757573945785713.33099284044861"),
        ("pow", &[-1.25, 7.0], "-4.76837158203125"),
        ("pow", &[10000000000.0, 12.125], "1.77827941003892280122542119519268484e+121"),
        ("rem", &[100.7, 0.3], "0.200000000000006561418075534675153904"),
        ("div", &[1.0, 3.0], "0.333333333333333333333333333333333333"),
    ];

    #[test]
    fn functions_have_twice_the_digits_of_doubles() {
        for (name, x, text) in VALUES {
            let (value, exact) = (function(name, x), decimal(text));
            let error = ((value - exact) / exact).hi.abs();
            assert!(error < 2e-29, "{name} {x:?}: {error:e}");
        }
    }

    #[test]
    fn integers_are_found_by_all_digits() {
        let below = Number::from(3.0) - Number::from(1e-25);
        assert_eq!([below.floor().hi, below.trunc().hi, (-below).trunc().hi], [2.0, 2.0, -2.0]);
        assert_eq!([2.5, 3.5, -2.5, 2.25].map(|x| Number::from(x).round().hi), [2.0, 4.0, -2.0, 2.0]);
        assert_eq!((Number::from(2.5) + 1e-25.into()).round().hi, 3.0);
    }
}
