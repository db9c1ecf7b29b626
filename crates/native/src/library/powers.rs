//! Powers and inverse hyperbolic functions, by logarithms of more than working precision.
//!
//! `x^y = e^(y ln x)`: an absolute error of the product is a relative error of the result, and the product
//! can be as large as 745. For the power of a double to be right to its last place, the logarithm is
//! therefore a sum of two doubles, right to 64 bits. The power of a float is rounded from the double result,
//! so it needs no more than a double's precision.
//!
//! An inverse hyperbolic function is `ln(1 + u)`: the rounding errors of `u` and of the sum are added to the
//! logarithm before its last rounding, so small results have no larger error than others.

use ir::polynomials::LOG_NEXT;

use super::exponential::LN2;
use super::{Binary, Compare, Library, Ops, Unary};

/// Two thirds, in two parts.
const TWO_THIRDS: (f64, f64) = (0.6666666666666666, 3.700743415417188e-17);

/// The number 2^28, beyond which `sqrt(x² ± 1)` is `x` to the last place.
const LARGE: f64 = 268_435_456.0;

impl<O: Ops> Library<'_, O> {
    // ---- sums of two numbers, the second below the last place of the first

    /// `a + b`, exactly, where `a` is the larger in magnitude or zero.
    #[inline(always)]
    fn sum_below(&mut self, a: O::V, b: O::V) -> (O::V, O::V) {
        let sum = self.add(a, b);
        let lost = self.sub(a, sum);
        (sum, self.add(lost, b))
    }

    /// `a + b`, exactly.
    #[inline(always)]
    fn sum(&mut self, a: O::V, b: O::V) -> (O::V, O::V) {
        let sum = self.add(a, b);
        let of_b = self.sub(sum, a);
        let of_a = self.sub(sum, of_b);
        let (lost_a, lost_b) = (self.sub(a, of_a), self.sub(b, of_b));
        (sum, self.add(lost_a, lost_b))
    }

    /// `a * b`, exactly.
    #[inline(always)]
    fn product(&mut self, a: O::V, b: O::V) -> (O::V, O::V) {
        let product = self.mul(a, b);
        let back = self.neg(product);
        (product, self.fma(a, b, back))
    }

    /// `ln x` of a finite positive number, right to 64 bits.
    #[inline(always)]
    fn log_pair(&mut self, x: O::V) -> (O::V, O::V) {
        let (k, f) = self.log_parts(x);
        let (one, two) = (self.num(1.0), self.num(2.0));
        // s = f / (2 + f): ln(1 + f) = 2 s + s z (2/3 + z (…)), with z = s².
        let (under, under_low) = self.sum_below(two, f);
        let inverse = self.div(one, under);
        let s = self.mul(f, inverse);
        let back = self.neg(s);
        let rest = self.fma(back, under, f);
        let rest = self.fma(back, under_low, rest);
        let s_low = self.mul(rest, inverse);
        let (z, z_low) = self.product(s, s);
        let twice = self.add(s, s);
        let z_low = self.fma(twice, s_low, z_low);
        let next = self.polynomial(&LOG_NEXT, z);
        let next = self.mul(z, next);
        let (third, third_low, first) =
            (self.num(TWO_THIRDS.0), self.num(TWO_THIRDS.1), self.num(LOG_NEXT[0]));
        let (t, t_low) = self.sum_below(third, next);
        let t_low = self.add(t_low, third_low);
        let t_low = self.fma(z_low, first, t_low);
        let (u, u_low) = self.product(z, t);
        let u_low = self.fma(z, t_low, u_low);
        let u_low = self.fma(z_low, t, u_low);
        let (p, p_low) = self.product(s, u);
        let p_low = self.fma(s, u_low, p_low);
        let p_low = self.fma(s_low, u, p_low);
        let (log, low) = self.sum_below(twice, p);
        let low = self.add(low, p_low);
        let low = self.fma(two, s_low, low);
        let (hi, lo) = (self.num(LN2.0), self.num(LN2.1));
        let whole = self.mul(k, hi);
        let low = self.fma(k, lo, low);
        let (log, lost) = self.sum_below(whole, log);
        let low = self.add(lost, low);
        self.sum_below(log, low)
    }

    // ---- inverse hyperbolic functions

    /// `ln(1 + u + low)`, or `ln(2 x)` where a number `x` is large.
    #[inline(always)]
    fn log_of_more(&mut self, u: O::V, low: O::V, large: Option<(O::V, O::V)>) -> O::V {
        let (zero, one) = (self.num(0.0), self.num(1.0));
        let (mut sum, lost) = self.sum(one, u);
        let mut lost = self.add(lost, low);
        if let Some((is_large, x)) = large {
            sum = self.select(is_large, x, sum);
            lost = self.select(is_large, zero, lost);
        }
        let (mut k, f) = self.log_parts(sum);
        if let Some((is_large, _)) = large {
            let more = self.select(is_large, one, zero);
            k = self.add(k, more);
        }
        let more = self.div(lost, sum);
        self.log_of(k, f, Some(more))
    }

    #[inline(always)]
    pub(super) fn asinh(&mut self, x: O::V) -> O::V {
        let (one, most, infinity) = (self.num(1.0), self.num(LARGE), self.num(f64::INFINITY));
        let a = self.abs(x);
        let is_large = self.less(most, a);
        let b = self.select(is_large, one, a);
        // u = b + sqrt(1 + b²) - 1
        let square = self.mul(b, b);
        let more = self.add(one, square);
        let root = self.o.unary(Unary::Sqrt, more);
        let under = self.add(one, root);
        let rest = self.div(square, under);
        let (u, low) = self.sum_below(b, rest);
        let r = self.log_of_more(u, low, Some((is_large, a)));
        let top = self.same(a, infinity);
        let r = self.select(top, infinity, r);
        let r = self.with_sign(r, x);
        self.or_nan(r, x)
    }

    #[inline(always)]
    pub(super) fn acosh(&mut self, x: O::V) -> O::V {
        let (one, two, most) = (self.num(1.0), self.num(2.0), self.num(LARGE));
        let infinity = self.num(f64::INFINITY);
        let is_large = self.less(most, x);
        let b = self.select(is_large, one, x);
        // u = t + sqrt(t (t + 2)), where t = b - 1 is exact
        let t = self.sub(b, one);
        let (more, more_low) = self.sum(t, two);
        let (square, square_low) = self.product(t, more);
        let square_low = self.fma(t, more_low, square_low);
        let root = self.o.unary(Unary::Sqrt, square);
        let back = self.neg(root);
        let rest = self.fma(back, root, square);
        let rest = self.add(rest, square_low);
        // If the root is zero, so is the remainder. Adding the least normal number avoids a division by zero
        // and does not change any other root.
        let (twice, least) = (self.add(root, root), self.num(f64::MIN_POSITIVE));
        let under = self.add(twice, least);
        let rest = self.div(rest, under);
        let (u, low) = self.sum(t, root);
        let low = self.add(low, rest);
        let r = self.log_of_more(u, low, Some((is_large, x)));
        let top = self.same(x, infinity);
        let r = self.select(top, infinity, r);
        let below = self.less(x, one);
        let nan = self.num(f64::NAN);
        let r = self.select(below, nan, r);
        self.or_nan(r, x)
    }

    #[inline(always)]
    pub(super) fn atanh(&mut self, x: O::V) -> O::V {
        let (one, half, infinity) = (self.num(1.0), self.num(0.5), self.num(f64::INFINITY));
        let a = self.abs(x);
        // u = 2 a / (1 - a)
        let twice = self.add(a, a);
        let under = self.sub(one, a);
        let lost = self.sub(one, under);
        let lost = self.sub(lost, a);
        let u = self.div(twice, under);
        let back = self.neg(u);
        let rest = self.fma(back, under, twice);
        let rest = self.fma(back, lost, rest);
        let low = self.div(rest, under);
        let r = self.log_of_more(u, low, None);
        let r = self.mul(half, r);
        let top = self.same(a, one);
        let r = self.select(top, infinity, r);
        let beyond = self.less(one, a);
        let nan = self.num(f64::NAN);
        let r = self.select(beyond, nan, r);
        let r = self.with_sign(r, x);
        self.or_nan(r, x)
    }

    // ---- powers

    /// `|x|^y`, unless either is NaN or `|x|` is 1.
    #[inline(always)]
    fn power(&mut self, a: O::V, y: O::V) -> O::V {
        if self.o.rounds() {
            let log = self.log(a);
            let product = self.mul(y, log);
            return self.exp(product);
        }
        let (zero, infinity) = (self.num(0.0), self.num(f64::INFINITY));
        let (log, log_low) = self.log_pair(a);
        let top = self.same(a, infinity);
        let log = self.select(top, infinity, log);
        let none = self.same(a, zero);
        let bottom = self.num(f64::NEG_INFINITY);
        let log = self.select(none, bottom, log);
        let (product, low) = self.product(y, log);
        let low = self.fma(y, log_low, low);
        // Beyond these limits the result overflows or underflows, and the low part does not matter.
        let (least, most) = (self.num(-750.0), self.num(710.0));
        let under = self.less(product, least);
        let product = self.select(under, least, product);
        let low = self.select(under, zero, low);
        let over = self.less(most, product);
        let product = self.select(over, most, product);
        let low = self.select(over, zero, low);
        let (p, k) = self.exp_of(product, Some(low));
        let one = self.num(1.0);
        let p = self.add(one, p);
        // The result is infinite if it is too large.
        self.scaled(p, k)
    }

    #[inline(always)]
    pub(super) fn pow(&mut self, x: O::V, y: O::V) -> O::V {
        let (zero, one, half) = (self.num(0.0), self.num(1.0), self.num(0.5));
        let infinity = self.num(f64::INFINITY);
        let a = self.abs(x);
        let r = self.power(a, y);
        let unit = self.same(a, one);
        let r = self.select(unit, one, r);
        // Tests whether the exponent is whole, and whether it is odd.
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
