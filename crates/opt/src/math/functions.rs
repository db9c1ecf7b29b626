//! Emits the functions of doubles, built from the operations of [`Lib`].
//!
//! Arguments are reduced to a small range by the method of Cody and Waite, those of sines of large arguments
//! by that of Payne and Hanek, and a polynomial of [`ir::polynomials`] is evaluated there. The tests compare
//! with the standard library: no result differs from it by more than 3 units in the last place (32 for
//! `asinh`, `acosh` and `atanh`, for which the standard library itself is not exact).

use ir::polynomials::{ASIN, ATAN, COS, EXP, FAR, LOG, PIO2, SIN};
use ir::{LoopInfo, Math, Op, Type, Value};

use super::arith::{Lib, Pair};

/// π/2 as its rounded value and the remainder.
const HALF_PI: (f64, f64) = (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17);
/// ln 2 in two parts, the first of 41 bits.
const LN2: (f64, f64) = (0.693147180559663, 2.8235290563031577e-13);
/// ln 2 in two parts, the first of 26 bits.
const LN2_26: (f64, f64) = (0.6931471824645996, -1.904654299957768e-09);
/// log10 2 in two parts, the first of 41 bits.
const LOG10_2: (f64, f64) = (0.3010299956640665, -8.532344317057107e-14);
/// 1 / ln 2 in two parts, the first of 26 bits.
const LOG2_E: (f64, f64) = (1.4426950514316559, -1.0542692476429138e-08);
/// 1 / ln 10 in two parts, the first of 26 bits.
const LOG10_E: (f64, f64) = (0.4342944845557213, -2.6524694553078553e-09);

/// 2/π in digits of 24 bits.
const TWO_OVER_PI: [u32; 48] = [
    0xa2f983, 0x6e4e44, 0x1529fc, 0x2757d1, 0xf534dd, 0xc0db62, 0x95993c, 0x439041, 0xfe5163, 0xabdebb,
    0xc561b7, 0x246e3a, 0x424dd2, 0xe00649, 0x2eea09, 0xd1921c, 0xfe1deb, 0x1cb129, 0xa73ee8, 0x8235f5,
    0x2ebb44, 0x84e99c, 0x7026b4, 0x5f7e41, 0x3991d6, 0x398353, 0x39f49c, 0x845f8b, 0xbdf928, 0x3b1ff8,
    0x97ffde, 0x05980f, 0xef2f11, 0x8b5a0a, 0x6d1f6d, 0x367ecf, 0x27cb09, 0xb74f46, 0x3f669e, 0x5fea2d,
    0x7527ba, 0xc7ebe5, 0xf17b3d, 0x0739f7, 0x8a5292, 0xea6bfb, 0x5fb11f, 0x8d5d08,
];

impl Lib<'_> {
    /// Emits the value of a function.
    pub(super) fn function(&mut self, m: Math, args: &[Value]) -> Value {
        let a = args[0];
        match m {
            Math::Exp => {
                let x = self.clamp(a, -750.0, 710.0);
                let (p, k) = self.exp_parts(x, None);
                let p = self.plus(p, 1.0);
                let r = self.scaled(p, k);
                self.or_nan(r, a)
            }
            Math::Exp2 => self.exp2(a),
            Math::Log => {
                let (k, f) = self.log_parts(a);
                let r = self.log_of(k, f);
                self.log_ends(a, r)
            }
            Math::Log2 => self.log_of_base(a, (1.0, 0.0), LOG2_E),
            Math::Log10 => self.log_of_base(a, LOG10_2, LOG10_E),
            Math::Sin | Math::Cos | Math::Tan => self.circular(m, a),
            Math::Atan => {
                let one = self.num(1.0);
                let t = self.angle(a, one);
                let t = self.with_sign(t, a);
                self.or_nan(t, a)
            }
            Math::Atan2 => self.atan2(a, args[1]),
            Math::Asin | Math::Acos => self.arc(m, a),
            Math::Tanh => self.tanh(a),
            Math::Sinh | Math::Cosh => self.hyperbolic(m, a),
            Math::Asinh | Math::Acosh | Math::Atanh => self.area(m, a),
            Math::Pow => self.pow(a, args[1]),
            Math::Round | Math::Trunc | Math::Floor | Math::Ceil => self.whole(m, a),
            _ => a,
        }
    }

    /// Rounds `a` to a whole number.
    fn whole(&mut self, m: Math, a: Value) -> Value {
        let r = match m {
            Math::Round => self.round(a),
            Math::Trunc => {
                let size = self.abs(a);
                let r = self.round(size);
                let less = self.plus(r, -1.0);
                let over = self.less(size, r);
                self.select(over, less, r)
            }
            _ => {
                let r = self.round(a);
                let step = if m == Math::Floor { -1.0 } else { 1.0 };
                let other = self.plus(r, step);
                let wrong = if m == Math::Floor { self.less(a, r) } else { self.less(r, a) };
                self.select(wrong, other, r)
            }
        };
        let r = self.with_sign(r, a);
        self.or_nan(r, a)
    }

    // ---- exponentials

    /// `e^x = 2^k (1 + p)`; the exponent is `x + more` if `more` is given.
    fn exp_parts(&mut self, x: Value, more: Option<Value>) -> (Value, Value) {
        let k = self.times(x, std::f64::consts::LOG2_E);
        let k = self.round(k);
        // A product of 11 bits and 41 bits is exact.
        let whole = self.times(k, LN2.0);
        let high = self.sub(x, whole);
        let low = self.times(k, LN2.1);
        let r = self.sub(high, low);
        let rest = self.sub(high, r);
        let rest = self.sub(rest, low);
        let (r, rest) = match more {
            Some(more) => {
                let rest = self.add(rest, more);
                self.sum(r, rest)
            }
            None => (r, rest),
        };
        let q = self.polynomial(&EXP, r);
        let rr = self.mul(r, r);
        let p = self.mul_add(rr, q, rest);
        (self.add(r, p), k)
    }

    /// `p 2^k`, correct for subnormal results.
    fn scaled(&mut self, p: Value, k: Value) -> Value {
        let k = self.int(k);
        let one = self.i64(1);
        let half = self.op(Op::Shr, k, one);
        let rest = self.sub(k, half);
        let mut r = p;
        for n in [half, rest] {
            let (bias, by) = (self.i64(1023), self.i64(52));
            let n = self.add(n, bias);
            let n = self.op(Op::Shl, n, by);
            let n = self.float(n);
            r = self.mul(r, n);
        }
        r
    }

    fn exp2(&mut self, x: Value) -> Value {
        let y = self.clamp(x, -1080.0, 1025.0);
        let k = self.round(y);
        let r = self.sub(y, k);
        // r ln 2, and the rounding error of the product.
        let (rh, rl) = self.split(r);
        let t = self.times(rh, LN2_26.0);
        let low = self.times(rl, LN2_26.0);
        let more = self.times(r, LN2_26.1);
        let low = self.add(low, more);
        let (t, rest) = self.quick_sum(t, low);
        let q = self.polynomial(&EXP, t);
        let tt = self.mul(t, t);
        let p = self.mul_add(tt, q, rest);
        let p = self.add(t, p);
        let p = self.plus(p, 1.0);
        let r = self.scaled(p, k);
        self.or_nan(r, x)
    }

    /// `e^x - 1` for `x` from 0 to 44.
    fn minus_one(&mut self, x: Value) -> Value {
        let (p, k) = self.exp_parts(x, None);
        let power = self.num(1.0);
        let power = self.scaled(power, k);
        let less = self.plus(power, -1.0);
        let far = self.mul_add(p, power, less);
        let near = self.is(k, 0.0);
        self.select(near, p, far)
    }

    fn tanh(&mut self, x: Value) -> Value {
        let a = self.abs(x);
        let b = self.clamp(a, 0.0, 22.0);
        let twice = self.add(b, b);
        let t = self.minus_one(twice);
        let under = self.plus(t, 2.0);
        let near = self.div(t, under);
        let two = self.num(2.0);
        let less = self.div(two, under);
        let one = self.num(1.0);
        let far = self.sub(one, less);
        let is_near = self.below(a, 1.0);
        let r = self.select(is_near, near, far);
        let r = self.with_sign(r, x);
        self.or_nan(r, x)
    }

    fn hyperbolic(&mut self, m: Math, x: Value) -> Value {
        let a = self.abs(x);
        // Half of the exponential, since it is finite wherever the result is.
        let b = self.clamp(a, 0.0, 711.0);
        let (p, k) = self.exp_parts(b, None);
        let p = self.plus(p, 1.0);
        let less = self.plus(k, -1.0);
        let e = self.scaled(p, less);
        let over = self.above(a, 711.0);
        let e = self.replace(over, f64::INFINITY, e);
        if m == Math::Cosh {
            let quarter = self.num(0.25);
            let rest = self.div(quarter, e);
            let r = self.add(e, rest);
            return self.or_nan(r, x);
        }
        let b = self.clamp(a, 0.0, 22.0);
        let t = self.minus_one(b);
        let under = self.plus(t, 1.0);
        let rest = self.div(t, under);
        let near = self.add(t, rest);
        let near = self.times(near, 0.5);
        let far = self.above(a, 22.0);
        let r = self.select(far, e, near);
        let r = self.with_sign(r, x);
        self.or_nan(r, x)
    }

    // ---- logarithms

    /// `x = 2^k (1 + f)` with `1 + f` between the square roots of 1/2 and 2.
    fn log_parts(&mut self, x: Value) -> (Value, Value) {
        let small = self.below(x, f64::MIN_POSITIVE);
        let larger = self.times(x, 18_014_398_509_481_984.0);
        let y = self.select(small, larger, x);
        let bits = self.bits(y);
        // Offset the bits so that the exponent changes at the square root of 1/2.
        let (root, by) = (self.i64(0x3fe6_a09e_667f_3bcd), self.i64(52));
        let from = self.sub(bits, root);
        let k = self.op(Op::Shr, from, by);
        let shift = self.op(Op::Shl, k, by);
        let mantissa = self.sub(bits, shift);
        let m = self.float(mantissa);
        let f = self.plus(m, -1.0);
        let k = self.b.emit_typed(Op::Convert, &[k], Type::F64);
        let (bias, zero) = (self.num(54.0), self.num(0.0));
        let bias = self.select(small, bias, zero);
        (self.sub(k, bias), f)
    }

    /// The parts of `ln(1 + f) = f - (h - s (h + p))`: `h` and `s (h + p)`.
    fn log_sum(&mut self, f: Value) -> (Value, Value) {
        let under = self.plus(f, 2.0);
        let s = self.div(f, under);
        let z = self.mul(s, s);
        let p = self.polynomial(&LOG, z);
        let p = self.mul(p, z);
        let h = self.times(f, 0.5);
        let h = self.mul(h, f);
        let sum = self.add(h, p);
        (h, self.mul(s, sum))
    }

    /// `k ln 2 + ln(1 + f)`.
    fn log_of(&mut self, k: Value, f: Value) -> Value {
        let (h, inner) = self.log_sum(f);
        let low = self.times(k, LN2.1);
        let inner = self.add(inner, low);
        let rest = self.sub(h, inner);
        let rest = self.sub(rest, f);
        let whole = self.times(k, LN2.0);
        self.sub(whole, rest)
    }

    /// `k l + ln(1 + f) e`, with both constants in two parts.
    fn log_of_base(&mut self, x: Value, l: (f64, f64), e: (f64, f64)) -> Value {
        let (k, f) = self.log_parts(x);
        let (h, inner) = self.log_sum(f);
        let sum = self.sub(f, h);
        let (high, _) = self.split(sum);
        let low = self.sub(f, high);
        let low = self.sub(low, h);
        let low = self.add(low, inner);
        let large = self.times(high, e.0);
        let all = self.add(low, high);
        let small = self.times(all, e.1);
        let more = self.times(low, e.0);
        let mut small = self.add(small, more);
        let whole = self.times(k, l.0);
        if l.1 != 0.0 {
            let more = self.times(k, l.1);
            small = self.add(small, more);
        }
        let (w, lost) = self.sum(whole, large);
        let small = self.add(small, lost);
        let r = self.add(w, small);
        self.log_ends(x, r)
    }

    fn log_ends(&mut self, x: Value, r: Value) -> Value {
        let top = self.is(x, f64::INFINITY);
        let r = self.replace(top, f64::INFINITY, r);
        let none = self.is(x, 0.0);
        let r = self.replace(none, f64::NEG_INFINITY, r);
        let below = self.below(x, 0.0);
        let r = self.replace(below, f64::NAN, r);
        self.or_nan(r, x)
    }

    /// `ln(1 + f)`, for `f` of at least -1/2.
    fn log_plus_one(&mut self, f: Value) -> Value {
        let one = self.num(1.0);
        let (u, lost) = self.sum(one, f);
        let (k, g) = self.log_parts(u);
        let r = self.log_of(k, g);
        let rest = self.div(lost, u);
        self.add(r, rest)
    }

    fn area(&mut self, m: Math, x: Value) -> Value {
        let a = self.abs(x);
        if m == Math::Atanh {
            let one = self.num(1.0);
            let under = self.sub(one, a);
            let twice = self.add(a, a);
            // Use 2a + 2a a / (1 - a) where that has more digits.
            let quotient = self.div(a, under);
            let near = self.mul_add(twice, quotient, twice);
            let far = self.div(twice, under);
            let is_near = self.below(a, 0.5);
            let t = self.select(is_near, near, far);
            let r = self.log_plus_one(t);
            let r = self.times(r, 0.5);
            let top = self.is(a, 1.0);
            let r = self.replace(top, f64::INFINITY, r);
            let outside = self.above(a, 1.0);
            let r = self.replace(outside, f64::NAN, r);
            let r = self.with_sign(r, x);
            return self.or_nan(r, x);
        }
        let (k, f) = self.log_parts(a);
        let large = self.log_of(k, f);
        let large = self.plus(large, std::f64::consts::LN_2);
        let is_large = self.above(a, 268_435_456.0);
        let top = self.is(a, f64::INFINITY);
        let large = self.replace(top, f64::INFINITY, large);
        if m == Math::Asinh {
            let square = self.mul(a, a);
            let root = self.plus(square, 1.0);
            let root = self.math(Math::Sqrt, root);
            let under = self.plus(root, 1.0);
            let more = self.div(square, under);
            let t = self.add(a, more);
            let r = self.log_plus_one(t);
            let r = self.select(is_large, large, r);
            let r = self.with_sign(r, x);
            return self.or_nan(r, x);
        }
        let t = self.plus(x, -1.0);
        let square = self.mul(t, t);
        let twice = self.add(t, t);
        let root = self.add(twice, square);
        let root = self.math(Math::Sqrt, root);
        let t = self.add(t, root);
        let r = self.log_plus_one(t);
        let r = self.select(is_large, large, r);
        let below = self.below(x, 1.0);
        let r = self.replace(below, f64::NAN, r);
        self.or_nan(r, x)
    }

    // ---- angles

    /// The number of quarter turns and the remaining angle in two parts, for an angle up to [`FAR`].
    fn near_turns(&mut self, y: Value) -> (Value, Pair) {
        let k = self.times(y, std::f64::consts::FRAC_2_PI);
        let k = self.round(k);
        let first = self.times(k, PIO2[0]);
        let r1 = self.sub(y, first);
        let second = self.times(k, PIO2[1]);
        let r2 = self.sub(r1, second);
        let lost = self.sub(r1, r2);
        let lost = self.sub(lost, second);
        let third = self.times(k, PIO2[2]);
        let low = self.sub(lost, third);
        let r = self.add(r2, low);
        let rest = self.sub(r2, r);
        (k, (r, self.add(rest, low)))
    }

    /// Like `near_turns`, for any larger angle: multiplies it by 2/π, digit by digit, and drops whole turns.
    fn far_turns(&mut self, x: Value) -> (Value, Pair) {
        let f64 = Type::F64;
        // The digits are scaled up by 2^120, so that none underflows.
        let scaled = self.times(x, 2.0f64.powi(-120));
        let (high, low) = self.split(scaled);
        // Digits before the first one used contribute only whole turns, and nine digits have 110 bits below a
        // turn. The numbers of the digits are not constant, which keeps compilers from unrolling this loop,
        // which hardly ever runs.
        let size = self.abs(x);
        let bits = self.bits(size);
        let (fraction, least, digit_bits) = (self.i64(52), self.i64(1023 + 54), self.i64(24));
        let exponent = self.op(Op::Shr, bits, fraction);
        let over = self.sub(exponent, least);
        let (none, most) = (self.i64(0), self.i64(TWO_OVER_PI.len() as i64 - 9));
        let over = self.b.emit(Op::Math(Math::Max), &[over, none]);
        let begin = self.op(Op::Div, over, digit_bits);
        let begin = self.b.emit(Op::Math(Math::Min), &[begin, most]);
        let begin = self.b.emit_typed(Op::Convert, &[begin], Type::U32);
        let (nine, one) = (self.b.u32(9), self.b.u32(1));
        let end = self.op(Op::Add, begin, nine);
        let zero = self.num(0.0);
        let body = self.b.open();
        let i = self.b.region_param(Type::U32, false);
        let mut sum = self.b.region_param(f64, false);
        let mut rest = self.b.region_param(f64, false);
        let digit = self.digit(i, 0, TWO_OVER_PI.len());
        for part in [high, low] {
            // A product of 27 bits and 24 bits is exact, and so is the remainder after whole turns are
            // dropped.
            let p = self.mul(part, digit);
            let turns = self.times(p, 0.25);
            let turns = self.round(turns);
            let turns = self.times(turns, 4.0);
            let p = self.sub(p, turns);
            let (s, e) = self.sum(sum, p);
            sum = s;
            rest = self.add(rest, e);
        }
        let next = self.op(Op::Add, i, one);
        let again = self.op(Op::Lt, next, end);
        self.b.close(vec![again, next, sum, rest]);
        let sums = self.b.nest(Op::Loop(LoopInfo::default()), &[begin, zero, zero], &[body]);
        let k = self.round(sums[1]);
        let left = self.sub(sums[1], k);
        let (fh, fl) = self.sum(left, sums[2]);
        let half_pi = self.pair(HALF_PI.0, HALF_PI.1);
        let (r, rest) = self.pair_product((fh, fl), half_pi);
        (k, (r, rest))
    }

    /// Digit number `i` of 2/π, for `i` in `from..to`, by binary search: drivers are slow to compile arrays.
    fn digit(&mut self, i: Value, from: usize, to: usize) -> Value {
        if to - from == 1 {
            return self.num(f64::from(TWO_OVER_PI[from]) * 2.0f64.powi(96 - 24 * from as i32));
        }
        let middle = (from + to) / 2;
        let limit = self.b.u32(middle as u32);
        let below = self.op(Op::Lt, i, limit);
        let (low, high) = (self.digit(i, from, middle), self.digit(i, middle, to));
        self.select(below, low, high)
    }

    fn circular(&mut self, m: Math, x: Value) -> Value {
        let a = self.abs(x);
        let far = self.above(a, FAR);
        let y = self.replace(far, 0.0, x);
        let there = self.b.open();
        let (k, (r, rest)) = self.far_turns(x);
        self.b.close(vec![k, r, rest]);
        let here = self.b.open();
        let (k, (r, rest)) = self.near_turns(y);
        self.b.close(vec![k, r, rest]);
        let found = self.b.nest(Op::If, &[far], &[there, here]);
        let (k, r, rest) = (found[0], found[1], found[2]);
        let one = self.num(1.0);
        let z = self.mul(r, r);
        let hz = self.times(z, 0.5);
        let w = self.sub(one, hz);
        // sin = r + (r z S + rest (1 - z/2)), cos = w + ((1 - w - z/2) + (z z C - r rest)).
        let s = self.polynomial(&SIN, z);
        let zr = self.mul(z, r);
        let turned = self.mul(rest, w);
        let s = self.mul_add(zr, s, turned);
        let sin = self.add(r, s);
        // A zero keeps its sign.
        let none = self.is(x, 0.0);
        let sin = self.select(none, x, sin);
        let c = self.polynomial(&COS, z);
        let zz = self.mul(z, z);
        let turned = self.mul(r, rest);
        let c = self.mul(zz, c);
        let c = self.sub(c, turned);
        let lost = self.sub(one, w);
        let lost = self.sub(lost, hz);
        let c = self.add(lost, c);
        let cos = self.add(w, c);
        let quarter = self.int(k);
        let (bit, next, zero) = (self.i64(1), self.i64(2), self.i64(0));
        let odd = self.and(quarter, bit);
        let odd = self.op(Op::Ne, odd, zero);
        let found = if m == Math::Tan {
            let above = self.select(odd, cos, sin);
            let under = self.select(odd, sin, cos);
            let t = self.div(above, under);
            let back = self.neg(t);
            self.select(odd, back, t)
        } else {
            let (even, other) = if m == Math::Sin { (sin, cos) } else { (cos, sin) };
            let v = self.select(odd, other, even);
            let q = if m == Math::Sin { quarter } else { self.add(quarter, bit) };
            let q = self.and(q, next);
            let minus = self.op(Op::Ne, q, zero);
            let back = self.neg(v);
            self.select(minus, back, v)
        };
        let infinite = self.is(a, f64::INFINITY);
        let found = self.replace(infinite, f64::NAN, found);
        self.or_nan(found, x)
    }

    /// The angle whose tangent is `|y| / |x|`, from 0 to a quarter turn.
    fn angle(&mut self, y: Value, x: Value) -> Value {
        let (a, b) = (self.abs(y), self.abs(x));
        let steep = self.less(b, a);
        let top = self.select(steep, b, a);
        let under = self.select(steep, a, b);
        // Near 45 degrees, measure the angle from there.
        let limit = self.times(under, 0.41421356237309503);
        let turned = self.less(limit, top);
        let less = self.sub(top, under);
        // Halve both operands where the sum would overflow.
        let more = self.add(top, under);
        let large = self.above(under, 1e300);
        let (half_top, half_under) = (self.times(top, 0.5), self.times(under, 0.5));
        let half_less = self.sub(half_top, half_under);
        let half_more = self.add(half_top, half_under);
        let less = self.select(large, half_less, less);
        let more = self.select(large, half_more, more);
        let above = self.select(turned, less, top);
        let below = self.select(turned, more, under);
        let t = self.div(above, below);
        // 0/0 and ∞/∞ are the corners of the square.
        let none = self.is(under, 0.0);
        let t = self.replace(none, 0.0, t);
        let both = self.is(top, f64::INFINITY);
        let t = self.replace(both, 0.0, t);
        let huge = self.is(under, f64::INFINITY);
        let not_both = self.not(both);
        let flat = self.and(huge, not_both);
        let t = self.replace(flat, 0.0, t);
        let turned = self.op(Op::Or, turned, both);
        let not_flat = self.not(flat);
        let turned = self.and(turned, not_flat);
        let z = self.mul(t, t);
        let p = self.polynomial(&ATAN, z);
        let zt = self.mul(z, t);
        let zero = self.num(0.0);
        // The rounding error of π/4.
        let low = self.num(3.061616997868383e-17);
        let low = self.select(turned, low, zero);
        let p = self.mul_add(zt, p, low);
        let eighth = self.num(std::f64::consts::FRAC_PI_4);
        let base = self.select(turned, eighth, zero);
        let sum = self.add(t, p);
        let flat_angle = self.add(base, sum);
        let (quarter, low) = self.pair(HALF_PI.0, HALF_PI.1);
        let rest = self.sub(low, sum);
        let steep_base = self.sub(quarter, base);
        let steep_angle = self.add(steep_base, rest);
        self.select(steep, steep_angle, flat_angle)
    }

    fn atan2(&mut self, y: Value, x: Value) -> Value {
        let t = self.angle(y, x);
        let left = self.is_negative(x);
        let (half, low) = self.pair(std::f64::consts::PI, 2.0 * HALF_PI.1);
        let rest = self.sub(low, t);
        let other = self.add(half, rest);
        let t = self.select(left, other, t);
        let t = self.with_sign(t, y);
        let t = self.or_nan(t, x);
        self.or_nan(t, y)
    }

    fn arc(&mut self, m: Math, x: Value) -> Value {
        let a = self.abs(x);
        let outer = self.above(a, 0.5);
        let square = self.mul(x, x);
        let one = self.num(1.0);
        let rest = self.sub(one, a);
        let rest = self.times(rest, 0.5);
        let z = self.select(outer, rest, square);
        let root = self.math(Math::Sqrt, z);
        let s = self.select(outer, root, a);
        let p = self.polynomial(&ASIN, z);
        let zs = self.mul(z, s);
        let p = self.mul(zs, p);
        // The rounding error of the root.
        let (sq, e) = self.product(root, root);
        let lack = self.sub(z, sq);
        let lack = self.sub(lack, e);
        let twice = self.add(root, root);
        let lack = self.div(lack, twice);
        let none = self.is(root, 0.0);
        let lack = self.replace(none, 0.0, lack);
        let zero = self.num(0.0);
        let lack = self.select(outer, lack, zero);
        let p = self.add(p, lack);
        let (quarter, low) = self.pair(HALF_PI.0, HALF_PI.1);
        let (twice_s, twice_p) = (self.times(s, 2.0), self.times(p, 2.0));
        let r = if m == Math::Asin {
            let inner = self.add(s, p);
            // π/2 - 2 (s + p), with the large parts first.
            let small = self.sub(low, twice_p);
            let far = self.angle_less(quarter, small, twice_s);
            let r = self.select(outer, far, inner);
            self.with_sign(r, x)
        } else {
            let near_one = self.add(twice_s, twice_p);
            // π - 2 (s + p)
            let (straight, low2) = self.pair(std::f64::consts::PI, 2.0 * HALF_PI.1);
            let small = self.sub(low2, twice_p);
            let near_minus_one = self.angle_less(straight, small, twice_s);
            let negative = self.below(x, 0.0);
            let far = self.select(negative, near_minus_one, near_one);
            // π/2 - (x + p), with the sign of x on p
            let p = self.with_sign(p, x);
            let small = self.sub(low, p);
            let inner = self.angle_less(quarter, small, x);
            self.select(outer, far, inner)
        };
        let outside = self.above(a, 1.0);
        let r = self.replace(outside, f64::NAN, r);
        self.or_nan(r, x)
    }

    /// `whole - part + small`
    fn angle_less(&mut self, whole: Value, small: Value, part: Value) -> Value {
        let large = self.sub(whole, part);
        let lost = self.sub(whole, large);
        let lost = self.sub(lost, part);
        let small = self.add(small, lost);
        self.add(large, small)
    }

    // ---- powers

    /// `ln a` with about 70 bits.
    fn exact_log(&mut self, a: Value) -> Pair {
        let (k, f) = self.log_parts(a);
        let two = self.num(2.0);
        // s = f / (2 + f), and with z = s s: ln(1 + f) = 2 s (1 + z/3 + z^2/5 + …).
        let (under, lost) = self.sum(two, f);
        let s = self.div(f, under);
        let (p, e) = self.product(s, under);
        let rest = self.sub(f, p);
        let rest = self.sub(rest, e);
        let more = self.mul(s, lost);
        let rest = self.sub(rest, more);
        let sl = self.div(rest, under);
        let s = (s, sl);
        let z = self.pair_product(s, s);
        let tail: Vec<f64> = (4..13).map(|n| 1.0 / f64::from(2 * n + 1)).collect();
        let tail = self.polynomial(&tail, z.0);
        let tail = self.mul(tail, z.0);
        let seventh = self.pair(0.14285714285714285, 7.93016446160826e-18);
        let (q, e) = self.quick_sum(seventh.0, tail);
        let e = self.add(e, seventh.1);
        let mut q = (q, e);
        for (high, low) in
            [(0.2, -1.1102230246251566e-17), (0.3333333333333333, 1.850371707708594e-17), (1.0, 0.0)]
        {
            let c = self.pair(high, low);
            let product = self.pair_product(z, q);
            q = self.pair_sum(c, product);
        }
        let (h, l) = self.pair_product(s, q);
        let (h, l) = (self.add(h, h), self.add(l, l));
        let (whole, low) = (self.times(k, LN2.0), self.times(k, LN2.1));
        let part = self.sum(whole, h);
        let low = self.add(low, l);
        let low = self.add(low, part.1);
        self.quick_sum(part.0, low)
    }

    fn pow(&mut self, x: Value, y: Value) -> Value {
        let a = self.abs(x);
        let log = self.exact_log(a);
        // A larger exponent also gives 0, 1 or ∞.
        let by = self.clamp(y, -(2.0f64.powi(100)), 2.0f64.powi(100));
        let (p, e) = self.product(by, log.0);
        let more = self.mul(by, log.1);
        let e = self.add(e, more);
        let (p, e) = self.quick_sum(p, e);
        let q = self.clamp(p, -750.0, 710.0);
        let inside = self.op(Op::Eq, p, q);
        let zero = self.num(0.0);
        let e = self.select(inside, e, zero);
        let (r, k) = self.exp_parts(q, Some(e));
        let r = self.plus(r, 1.0);
        let r = self.scaled(r, k);
        // The powers of 0 and ∞ depend on the sign of the exponent.
        let down = self.below(y, 0.0);
        let (none, infinity) = (self.num(0.0), self.num(f64::INFINITY));
        let of_zero = self.select(down, infinity, none);
        let of_top = self.select(down, none, infinity);
        let is_zero = self.is(a, 0.0);
        let r = self.select(is_zero, of_zero, r);
        let top = self.is(a, f64::INFINITY);
        let r = self.select(top, of_top, r);
        let unit = self.is(a, 1.0);
        let r = self.replace(unit, 1.0, r);
        // Distinguish whole and odd exponents.
        let whole = self.whole(Math::Trunc, y);
        let whole = self.op(Op::Eq, whole, y);
        let halved = self.times(y, 0.5);
        let even = self.whole(Math::Trunc, halved);
        let even = self.op(Op::Eq, even, halved);
        let not_even = self.not(even);
        let odd = self.and(whole, not_even);
        let negative = self.is_negative(x);
        let flips = self.and(negative, odd);
        let back = self.neg(r);
        let r = self.select(flips, back, r);
        let below = self.below(x, 0.0);
        let not_top = self.not(top);
        let not_whole = self.not(whole);
        let bad = self.and(below, not_top);
        let bad = self.and(bad, not_whole);
        let r = self.replace(bad, f64::NAN, r);
        let r = self.or_nan(r, x);
        let r = self.or_nan(r, y);
        let always = self.is(x, 1.0);
        let r = self.replace(always, 1.0, r);
        let none = self.is(y, 0.0);
        self.replace(none, 1.0, r)
    }
}
