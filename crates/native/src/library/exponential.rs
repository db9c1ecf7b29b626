//! Exponentials, logarithms, and what is made of them: hyperbolic functions, their inverses, powers.

use ir::Math;
use ir::polynomials::{EXP, LOG};

use super::{Binary, Compare, Library, Ops, Unary};

/// ln 2 in two parts, the first of 41 bits.
const LN2: (f64, f64) = (0.693147180559663, 2.8235290563031577e-13);

/// log10 2 in two parts, the first of 41 bits.
pub(super) const LOG10_2: (f64, f64) = (0.30102999566383914, 1.42050232272661e-13);

impl<O: Ops> Library<'_, O> {
    // ---- exponentials

    #[inline(always)]
    pub(super) fn exp(&mut self, a: O::V) -> O::V {
        // Neither the argument nor the result is extreme.
        let most = self.num(708.0);
        let size = self.abs(a);
        let is_near = self.o.compare(Compare::LessOrSame, size, most);
        self.o.either(
            is_near,
            a,
            |o, a| {
                let mut this = Library { o };
                let (p, k) = this.exp_far(a);
                let one = this.num(1.0);
                let p = this.add(one, p);
                // The result is no more extreme than `p 2^k` by itself, so `k` is added to the exponent.
                let up = this.exponent(k);
                let bits = this.bits(p);
                let bits = this.o.binary(Binary::Add, bits, up);
                this.float(bits)
            },
            |o, a| {
                let mut this = Library { o };
                let (p, k) = this.exp_parts(a);
                let one = this.num(1.0);
                let p = this.add(one, p);
                let r = this.scaled(p, k);
                this.exp_ends(a, r)
            },
        )
    }

    /// The exponent's bits of `2^k`, less those of 1, of a whole number as [`Self::exp_far`] gives it.
    #[inline(always)]
    pub(super) fn exponent(&mut self, k: O::V) -> O::V {
        // What stands for 0 in the sum has zeros in these bits.
        let at = self.num(self.magic().0);
        let sum = self.add(k, at);
        let bits = self.bits(sum);
        let constant = self.o.int(52);
        self.o.binary(Binary::Shl, bits, constant)
    }

    /// `e^x = 2^k (1 + p)`.
    #[inline(always)]
    pub(super) fn exp_parts(&mut self, x: O::V) -> (O::V, O::V) {
        let (low, high) = (self.num(-750.0), self.num(710.0));
        let under = self.less(x, low);
        let x = self.select(under, low, x);
        let over = self.less(high, x);
        let x = self.select(over, high, x);
        self.exp_far(x)
    }

    /// `p 2^k`, right for subnormal results.
    #[inline(always)]
    pub(super) fn scaled(&mut self, p: O::V, k: O::V) -> O::V {
        let k = self.int(k);
        let constant = self.o.int(1);
        let half = self.o.binary(Binary::Ashr, k, constant);
        let rest = self.o.binary(Binary::Sub, k, half);
        let mut r = p;
        for n in [half, rest] {
            let constant = self.o.int(1023);
            let n = self.o.binary(Binary::Add, n, constant);
            let constant = self.o.int(52);
            let n = self.o.binary(Binary::Shl, n, constant);
            let n = self.float(n);
            r = self.mul(r, n);
        }
        r
    }

    #[inline(always)]
    pub(super) fn exp_ends(&mut self, x: O::V, r: O::V) -> O::V {
        let high = self.num(709.782712893384);
        let over = self.less(high, x);
        let infinity = self.num(f64::INFINITY);
        let r = self.select(over, infinity, r);
        self.or_nan(r, x)
    }

    #[inline(always)]
    pub(super) fn exp2(&mut self, x: O::V) -> O::V {
        let (low, high) = (self.num(-1080.0), self.num(1025.0));
        let under = self.less(x, low);
        let y = self.select(under, low, x);
        let over = self.less(high, y);
        let y = self.select(over, high, y);
        let k = self.round(y);
        let r = self.sub(y, k);
        let by = self.num(std::f64::consts::LN_2);
        let t = self.mul(r, by);
        // What rounding took from t, and from ln 2.
        let back = self.neg(t);
        let rest = self.fma(r, by, back);
        let low = self.num(2.3190468138462996e-17);
        let rest = self.fma(r, low, rest);
        let q = self.polynomial(&EXP, t);
        let tt = self.mul(t, t);
        let p = self.fma(tt, q, rest);
        let p = self.add(t, p);
        let one = self.num(1.0);
        let p = self.add(one, p);
        let e = self.scaled(p, k);
        let high = self.num(1024.0);
        let too_far = self.o.compare(Compare::MoreOrSame, x, high);
        let infinity = self.num(f64::INFINITY);
        let e = self.select(too_far, infinity, e);
        self.or_nan(e, x)
    }

    /// `e^x - 1` for `x` from 0 to 40.
    #[inline(always)]
    pub(super) fn minus_one(&mut self, x: O::V) -> O::V {
        let (p, k) = self.exp_far(x);
        let one = self.num(1.0);
        let (up, bits) = (self.exponent(k), self.bits(one));
        let bits = self.o.binary(Binary::Add, bits, up);
        let power = self.float(bits);
        let less = self.sub(power, one);
        self.fma(p, power, less)
    }

    #[inline(always)]
    pub(super) fn tanh(&mut self, x: O::V) -> O::V {
        let a = self.abs(x);
        let most = self.num(20.0);
        let over = self.less(most, a);
        let b = self.select(over, most, a);
        let twice = self.add(b, b);
        let t = self.minus_one(twice);
        let two = self.num(2.0);
        let under = self.add(t, two);
        let r = self.div(t, under);
        // What the sum and the quotient lost; one over the sum is (1 - tanh) / 2.
        let of_two = self.sub(under, t);
        let of_t = self.sub(under, of_two);
        let lost_t = self.sub(t, of_t);
        let lost_two = self.sub(two, of_two);
        let lost = self.add(lost_t, lost_two);
        let back = self.neg(r);
        let rest = self.fma(back, under, t);
        let rest = self.fma(back, lost, rest);
        let (one, half) = (self.num(1.0), self.num(0.5));
        let over = self.sub(one, r);
        let over = self.mul(half, over);
        let r = self.fma(rest, over, r);
        let r = self.with_sign(r, x);
        self.or_nan(r, x)
    }

    #[inline(always)]
    pub(super) fn hyperbolic(&mut self, m: Math, x: O::V) -> O::V {
        let a = self.abs(x);
        let one = self.num(1.0);
        // Half of the exponential, which is finite where the result is.
        let (near, half) = (self.num(708.0), self.num(0.5));
        let is_near = self.o.compare(Compare::LessOrSame, a, near);
        let e = self.o.either(
            is_near,
            a,
            |o, a| {
                let mut this = Library { o };
                let (p, k) = this.exp_far(a);
                let one = this.num(1.0);
                let (p, k) = (this.add(one, p), this.sub(k, one));
                let (bits, up) = (this.bits(p), this.exponent(k));
                let bits = this.o.binary(Binary::Add, bits, up);
                this.float(bits)
            },
            |o, a| {
                let mut this = Library { o };
                let (one, most) = (this.num(1.0), this.num(711.0));
                let over = this.less(most, a);
                let b = this.select(over, most, a);
                let (p, k) = this.exp_far(b);
                let (p, k) = (this.add(one, p), this.sub(k, one));
                let e = this.scaled(p, k);
                let infinity = this.num(f64::INFINITY);
                this.select(over, infinity, e)
            },
        );
        if m == Math::Cosh {
            let quarter = self.num(0.25);
            let rest = self.div(quarter, e);
            let r = self.add(e, rest);
            return self.or_nan(r, x);
        }
        let most = self.num(22.0);
        let far = self.less(most, a);
        let b = self.select(far, most, a);
        let t = self.minus_one(b);
        let under = self.add(t, one);
        let rest = self.div(t, under);
        let near = self.add(t, rest);
        let near = self.mul(half, near);
        let r = self.select(far, e, near);
        let r = self.with_sign(r, x);
        self.or_nan(r, x)
    }

    /// As [`Self::exp_parts`], up to 711.
    #[inline(always)]
    pub(super) fn exp_far(&mut self, x: O::V) -> (O::V, O::V) {
        // The nearest whole number: what is added leaves no room for a fraction.
        let (turns, magic) = (self.num(std::f64::consts::LOG2_E), self.num(self.magic().0));
        let k = self.fma(x, turns, magic);
        let k = self.sub(k, magic);
        let back = self.neg(k);
        let (hi, lo) = (self.num(LN2.0), self.num(LN2.1));
        let high = self.fma(back, hi, x);
        let r = self.fma(back, lo, high);
        let rest = self.sub(high, r);
        let rest = self.fma(back, lo, rest);
        let q = self.polynomial(&EXP, r);
        let rr = self.mul(r, r);
        let p = self.fma(rr, q, rest);
        (self.add(r, p), k)
    }

    // ---- logarithms

    #[inline(always)]
    pub(super) fn log(&mut self, a: O::V) -> O::V {
        let (k, f) = self.log_parts(a);
        let r = self.log_of(k, f);
        self.log_ends(a, r)
    }

    /// `x = 2^k (1 + f)` with `1 + f` between the roots of 1/2 and 2.
    #[inline(always)]
    pub(super) fn log_parts(&mut self, x: O::V) -> (O::V, O::V) {
        let (least, up) = (self.num(f64::MIN_POSITIVE), self.num(18014398509481984.0));
        let small = self.less(x, least);
        let larger = self.mul(x, up);
        let y = self.select(small, larger, x);
        let bits = self.bits(y);
        // So that the exponent changes at the root of 1/2.
        let root = self.o.int(0x3fe6_a09e_667f_3bcd);
        let from = self.o.binary(Binary::Sub, bits, root);
        let constant = self.o.int(52);
        let k = self.o.binary(Binary::Ashr, from, constant);
        let constant = self.o.int(52);
        let shift = self.o.binary(Binary::Shl, k, constant);
        let mantissa = self.o.binary(Binary::Sub, bits, shift);
        let m = self.float(mantissa);
        let one = self.num(1.0);
        let f = self.sub(m, one);
        let k = self.o.unary(Unary::OfInt, k);
        let (bias, zero) = (self.num(54.0), self.num(0.0));
        let bias = self.select(small, bias, zero);
        (self.sub(k, bias), f)
    }

    /// `k ln 2 + ln(1 + f)`.
    #[inline(always)]
    pub(super) fn log_of(&mut self, k: O::V, f: O::V) -> O::V {
        let (two, half) = (self.num(2.0), self.num(0.5));
        let under = self.add(two, f);
        let s = self.div(f, under);
        let z = self.mul(s, s);
        let p = self.polynomial(&LOG, z);
        let p = self.mul(p, z);
        let hf = self.mul(half, f);
        let h = self.mul(hf, f);
        // ln(1 + f) = f - (h - s (h + p)).
        let sum = self.add(h, p);
        let (hi, lo) = (self.num(LN2.0), self.num(LN2.1));
        let low = self.mul(k, lo);
        let inner = self.fma(s, sum, low);
        let rest = self.sub(h, inner);
        let rest = self.sub(rest, f);
        let back = self.neg(rest);
        self.fma(k, hi, back)
    }

    #[inline(always)]
    pub(super) fn log_ends(&mut self, x: O::V, r: O::V) -> O::V {
        let (zero, infinity) = (self.num(0.0), self.num(f64::INFINITY));
        let top = self.same(x, infinity);
        let r = self.select(top, infinity, r);
        let bottom = self.num(f64::NEG_INFINITY);
        let none = self.same(x, zero);
        let r = self.select(none, bottom, r);
        let below = self.less(x, zero);
        let nan = self.num(f64::NAN);
        let r = self.select(below, nan, r);
        self.or_nan(r, x)
    }

    // ---- inverse hyperbolic functions, of numbers that are floats

    /// `ln(1 + u)`: what rounding took from the sum is added to first order.
    #[inline(always)]
    pub(super) fn log_of_more(&mut self, u: O::V) -> O::V {
        let one = self.num(1.0);
        let sum = self.add(one, u);
        let log = self.log(sum);
        let back = self.sub(sum, one);
        let lost = self.sub(u, back);
        let lost = self.div(lost, sum);
        let infinity = self.num(f64::INFINITY);
        let top = self.same(u, infinity);
        let r = self.add(log, lost);
        self.select(top, infinity, r)
    }

    #[inline(always)]
    pub(super) fn asinh(&mut self, x: O::V) -> O::V {
        let one = self.num(1.0);
        let a = self.abs(x);
        // a + sqrt(1 + a²) - 1
        let square = self.mul(a, a);
        let more = self.add(one, square);
        let root = self.o.unary(Unary::Sqrt, more);
        let under = self.add(one, root);
        let rest = self.div(square, under);
        let u = self.add(a, rest);
        let infinity = self.num(f64::INFINITY);
        let top = self.same(a, infinity);
        let u = self.select(top, infinity, u);
        let r = self.log_of_more(u);
        let r = self.with_sign(r, x);
        self.or_nan(r, x)
    }

    #[inline(always)]
    pub(super) fn acosh(&mut self, x: O::V) -> O::V {
        let (one, two) = (self.num(1.0), self.num(2.0));
        // x + sqrt(x² - 1) - 1
        let t = self.sub(x, one);
        let more = self.add(t, two);
        let square = self.mul(t, more);
        let root = self.o.unary(Unary::Sqrt, square);
        let u = self.add(t, root);
        let r = self.log_of_more(u);
        let below = self.less(x, one);
        let nan = self.num(f64::NAN);
        let r = self.select(below, nan, r);
        self.or_nan(r, x)
    }

    #[inline(always)]
    pub(super) fn atanh(&mut self, x: O::V) -> O::V {
        let (one, half) = (self.num(1.0), self.num(0.5));
        let a = self.abs(x);
        let twice = self.add(a, a);
        let under = self.sub(one, a);
        let u = self.div(twice, under);
        let r = self.log_of_more(u);
        let r = self.mul(half, r);
        let beyond = self.less(one, a);
        let nan = self.num(f64::NAN);
        let r = self.select(beyond, nan, r);
        let r = self.with_sign(r, x);
        self.or_nan(r, x)
    }

    // ---- powers, of numbers that are floats

    #[inline(always)]
    pub(super) fn pow(&mut self, x: O::V, y: O::V) -> O::V {
        let (zero, one, half) = (self.num(0.0), self.num(1.0), self.num(0.5));
        let infinity = self.num(f64::INFINITY);
        let a = self.abs(x);
        let log = self.log(a);
        let product = self.mul(y, log);
        let r = self.exp(product);
        let unit = self.same(a, one);
        let r = self.select(unit, one, r);
        // Whole and odd exponents.
        let whole = self.o.unary(Unary::Trunc, y);
        let whole = self.same(whole, y);
        let halved = self.mul(y, half);
        let even = self.o.unary(Unary::Trunc, halved);
        let even = self.same(even, halved);
        let constant = self.o.yes();
        let not_even = self.o.binary(Binary::Xor, even, constant);
        let odd = self.o.binary(Binary::And, whole, not_even);
        let bits = self.bits(x);
        let constant = self.o.int(0);
        let negative = self.o.compare(Compare::Below, bits, constant);
        let flips = self.o.binary(Binary::And, negative, odd);
        let back = self.neg(r);
        let r = self.select(flips, back, r);
        let below = self.less(x, zero);
        let top = self.same(a, infinity);
        let constant = self.o.yes();
        let not_top = self.o.binary(Binary::Xor, top, constant);
        let constant = self.o.yes();
        let not_whole = self.o.binary(Binary::Xor, whole, constant);
        let bad = self.o.binary(Binary::And, below, not_top);
        let bad = self.o.binary(Binary::And, bad, not_whole);
        let nan = self.num(f64::NAN);
        let r = self.select(bad, nan, r);
        let r = self.or_nan(r, x);
        let r = self.or_nan(r, y);
        let always = self.same(x, one);
        let r = self.select(always, one, r);
        let none = self.same(y, zero);
        self.select(none, one, r)
    }
}
