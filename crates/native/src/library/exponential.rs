//! Exponentials, logarithms, and hyperbolic functions.

use ir::Math;
use ir::polynomials::{EXP, LOG};

use super::{Binary, Compare, Library, Ops, Unary};

/// ln 2 in two parts, the first of 41 bits.
pub(super) const LN2: (f64, f64) = (0.693147180559663, 2.8235290563031577e-13);

/// log10 2 in two parts, the first of 41 bits.
pub(super) const LOG10_2: (f64, f64) = (0.30102999566383914, 1.42050232272661e-13);

impl<O: Ops> Library<'_, O> {
    // ---- exponentials

    #[inline(always)]
    pub(super) fn exp(&mut self, a: O::V) -> O::V {
        // Below this limit neither the argument nor the result is extreme.
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
                // The exponent of `p 2^k` is in range, so `k` can be added to the bits of the exponent.
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

    /// The difference between the exponent bits of `2^k` and those of 1, for a whole number `k` as
    /// [`Self::exp_far`] returns it.
    #[inline(always)]
    pub(super) fn exponent(&mut self, k: O::V) -> O::V {
        // The bits of the sum that represent 0 have zeros in the bits that the shift keeps.
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

    /// `p 2^k`, which is also right for subnormal results.
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
        // The rounding errors of t and of ln 2.
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
        // Corrects the rounding errors of the sum and the quotient; one over the sum is (1 - tanh) / 2.
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

    /// As [`Self::exp_parts`], without clamping: for arguments up to 711.
    #[inline(always)]
    pub(super) fn exp_far(&mut self, x: O::V) -> (O::V, O::V) {
        self.exp_of(x, None)
    }

    /// `e^(x + more) = 2^k (1 + p)`; `more` is small beside `x`.
    #[inline(always)]
    pub(super) fn exp_of(&mut self, x: O::V, more: Option<O::V>) -> (O::V, O::V) {
        // The nearest whole number: the sum with the magic number has no bits for a fraction.
        let (turns, magic) = (self.num(std::f64::consts::LOG2_E), self.num(self.magic().0));
        let k = self.fma(x, turns, magic);
        let k = self.sub(k, magic);
        let back = self.neg(k);
        let (hi, lo) = (self.num(LN2.0), self.num(LN2.1));
        let high = self.fma(back, hi, x);
        let (r, rest) = match more {
            None => {
                let r = self.fma(back, lo, high);
                let rest = self.sub(high, r);
                (r, self.fma(back, lo, rest))
            }
            Some(more) => {
                let low = self.fma(back, lo, more);
                let r = self.add(high, low);
                let rest = self.sub(high, r);
                (r, self.add(rest, low))
            }
        };
        let q = self.polynomial(&EXP, r);
        let rr = self.mul(r, r);
        let p = self.fma(rr, q, rest);
        (self.add(r, p), k)
    }

    // ---- logarithms

    #[inline(always)]
    pub(super) fn log(&mut self, a: O::V) -> O::V {
        let (k, f) = self.log_parts(a);
        let r = self.log_of(k, f, None);
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
        // Subtracting the bits of sqrt(1/2) makes the exponent change there.
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

    /// `k ln 2 + ln(1 + f) + more`; `more` is below the last place of `1 + f`.
    #[inline(always)]
    pub(super) fn log_of(&mut self, k: O::V, f: O::V, more: Option<O::V>) -> O::V {
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
        let low = match more {
            None => self.mul(k, lo),
            Some(more) => self.fma(k, lo, more),
        };
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
}
