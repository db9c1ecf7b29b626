//! Sines, cosines and tangents, and their inverse functions.

use ir::Math;
use ir::polynomials::{ASIN, ATAN, COS, FAR, PIO2, SIN};

use super::{Binary, Compare, Library, Ops, Unary};

/// As [`SIN`], for floats: in `r^2` up to 0.64; error 1.3e-8.
const SIN32: [f64; 3] = [-0.166666641831398, 0.00833270326256752, -0.0001957844360731542];
/// As [`COS`], for floats: in `r^2` up to 0.64; error 9e-10.
const COS32: [f64; 3] = [0.0416666641831398, -0.0013888258254155517, 2.4538474463042803e-05];
/// π/2 as the sum of three floats, each the rounded remainder of those before it.
const PIO2_32: [f64; 3] = [1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15];
/// π/2 as a rounded double, and the remainder.
const HALF_PI: (f64, f64) = (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17);
/// As [`FAR`], for floats: the number of quarter turns fits in 16 bits, and the first step of the reduction
/// is exact.
const FAR32: f64 = 1.0e5;

impl<O: Ops> Library<'_, O> {
    #[inline(always)]
    pub(super) fn circular(&mut self, m: Math, x: O::V) -> O::V {
        let single = self.o.single();
        let far = self.num(if single { FAR32 } else { FAR });
        let a = self.abs(x);
        let near = self.o.compare(Compare::LessOrSame, a, far);
        let zero = self.num(0.0);
        let y = self.select(near, x, zero);
        let by = self.num(std::f64::consts::FRAC_2_PI);
        let k = self.mul(y, by);
        let k = self.round(k);
        let (r, rest) = if single { self.reduced_single(y, k) } else { self.reduced(y, k) };
        let (sines, cosines): (&[f64], &[f64]) = if single { (&SIN32, &COS32) } else { (&SIN, &COS) };
        let (one, half) = (self.num(1.0), self.num(0.5));
        let z = self.mul(r, r);
        let hz = self.mul(half, z);
        let w = self.sub(one, hz);
        // sin = r + (r z S + rest (1 - z/2)), cos = w + ((1 - w - z/2) + (z z C - r rest)).
        let s = self.polynomial(sines, z);
        let zr = self.mul(z, r);
        let turned = self.mul(rest, w);
        let s = self.fma(zr, s, turned);
        let sin = self.add(r, s);
        // A zero keeps its sign.
        let none = self.same(y, zero);
        let sin = self.select(none, y, sin);
        let c = self.polynomial(cosines, z);
        let zz = self.mul(z, z);
        let turned = self.mul(r, rest);
        let turned = self.neg(turned);
        let c = self.fma(zz, c, turned);
        let lost = self.sub(one, w);
        let lost = self.sub(lost, hz);
        let c = self.add(lost, c);
        let cos = self.add(w, c);
        let quarter = self.int(k);
        let constant = self.o.int(1);
        let odd = self.o.binary(Binary::And, quarter, constant);
        let constant = self.o.int(0);
        let odd = self.o.compare(Compare::Differ, odd, constant);
        let found = match m {
            Math::Tan => {
                let above = self.select(odd, cos, sin);
                let under = self.select(odd, sin, cos);
                let t = self.div(above, under);
                let back = self.neg(t);
                self.select(odd, back, t)
            }
            _ => {
                let (even, other, turn) = if m == Math::Sin { (sin, cos, 0) } else { (cos, sin, 1) };
                let v = self.select(odd, other, even);
                let constant = self.o.int(turn);
                let q = self.o.binary(Binary::Add, quarter, constant);
                let constant = self.o.int(2);
                let q = self.o.binary(Binary::And, q, constant);
                let constant = self.o.int(0);
                let minus = self.o.compare(Compare::Differ, q, constant);
                let back = self.neg(v);
                self.select(minus, back, v)
            }
        };
        self.o.elsewhere(m, near, x, found)
    }

    /// `y - k π/2` in two parts.
    #[inline(always)]
    pub(super) fn reduced(&mut self, y: O::V, k: O::V) -> (O::V, O::V) {
        let [p1, p2, p3] = PIO2.map(|p| self.num(p));
        let first = self.mul(k, p1);
        let r1 = self.sub(y, first);
        let second = self.mul(k, p2);
        let r2 = self.sub(r1, second);
        let lost = self.sub(r1, r2);
        let lost = self.sub(lost, second);
        let back = self.neg(k);
        let low = self.fma(back, p3, lost);
        let r = self.add(r2, low);
        let rest = self.sub(r2, r);
        let rest = self.add(rest, low);
        (r, rest)
    }

    /// As [`Self::reduced`], for floats. The remainder after the first step is below 1 and a multiple of
    /// 2^-23 (or of the unit that `y` is a multiple of), so that step is exact.
    #[inline(always)]
    pub(super) fn reduced_single(&mut self, y: O::V, k: O::V) -> (O::V, O::V) {
        let [p1, p2, p3] = PIO2_32.map(|p| self.num(p));
        let back = self.neg(k);
        let first = self.fma(back, p1, y);
        let second = self.mul(k, p2);
        let minus = self.neg(second);
        let lost = self.fma(k, p2, minus);
        let r1 = self.sub(first, second);
        let rest = self.sub(first, r1);
        let rest = self.sub(rest, second);
        let rest = self.sub(rest, lost);
        let rest = self.fma(back, p3, rest);
        let r = self.add(r1, rest);
        let over = self.sub(r1, r);
        (r, self.add(over, rest))
    }

    /// The angle of `|y| / |x|`, from 0 to a quarter turn, and the truth value of `|y| > |x|`.
    #[inline(always)]
    pub(super) fn angle(&mut self, y: O::V, x: O::V) -> (O::V, O::V) {
        let (a, b) = (self.abs(y), self.abs(x));
        let steep = self.less(b, a);
        let top = self.select(steep, b, a);
        let under = self.select(steep, a, b);
        // An angle near 45 degrees is computed relative to 45 degrees.
        let limit = self.num(0.41421356237309503);
        let limit = self.mul(limit, under);
        let turned = self.less(limit, top);
        let less = self.sub(top, under);
        let more = self.add(top, under);
        let above = self.select(turned, less, top);
        let below = self.select(turned, more, under);
        let t = self.div(above, below);
        // The quotient 0/0 becomes 0, and ∞/∞ the diagonal at 45 degrees.
        let zero = self.num(0.0);
        let none = self.same(under, zero);
        let t = self.select(none, zero, t);
        let infinity = self.num(f64::INFINITY);
        let both = self.same(top, infinity);
        let t = self.select(both, zero, t);
        let huge = self.same(under, infinity);
        let constant = self.o.yes();
        let not_both = self.o.binary(Binary::Xor, both, constant);
        let flat = self.o.binary(Binary::And, huge, not_both);
        let t = self.select(flat, zero, t);
        let turned = self.o.binary(Binary::Or, turned, both);
        let constant = self.o.yes();
        let not_flat = self.o.binary(Binary::Xor, flat, constant);
        let turned = self.o.binary(Binary::And, turned, not_flat);
        let z = self.mul(t, t);
        let p = self.polynomial(&ATAN, z);
        let zt = self.mul(z, t);
        // The rounding error of π/4.
        let (eighth, low) = (self.num(std::f64::consts::FRAC_PI_4), self.num(3.061616997868383e-17));
        let low = self.select(turned, low, zero);
        let p = self.fma(zt, p, low);
        let base = self.select(turned, eighth, zero);
        let sum = self.add(t, p);
        let flat_angle = self.add(base, sum);
        let (quarter, low) = (self.num(HALF_PI.0), self.num(HALF_PI.1));
        let rest = self.sub(low, sum);
        let steep_base = self.sub(quarter, base);
        let steep_angle = self.add(steep_base, rest);
        (self.select(steep, steep_angle, flat_angle), steep)
    }

    #[inline(always)]
    pub(super) fn atan2(&mut self, y: O::V, x: O::V) -> O::V {
        let (t, _) = self.angle(y, x);
        let bits = self.bits(x);
        let constant = self.o.int(0);
        let left = self.o.compare(Compare::Below, bits, constant);
        let (half, low) = (self.num(std::f64::consts::PI), self.num(2.0 * HALF_PI.1));
        let rest = self.sub(low, t);
        let other = self.add(half, rest);
        let t = self.select(left, other, t);
        let t = self.with_sign(t, y);
        let t = self.or_nan(t, x);
        self.or_nan(t, y)
    }

    #[inline(always)]
    pub(super) fn arc(&mut self, m: Math, x: O::V) -> O::V {
        let (half, one, two) = (self.num(0.5), self.num(1.0), self.num(2.0));
        let a = self.abs(x);
        let outer = self.less(half, a);
        let square = self.mul(x, x);
        let rest = self.sub(one, a);
        let rest = self.mul(half, rest);
        let z = self.select(outer, rest, square);
        let root = self.o.unary(Unary::Sqrt, z);
        let s = self.select(outer, root, a);
        let p = self.polynomial(&ASIN, z);
        let zs = self.mul(z, s);
        let p = self.mul(zs, p);
        // The rounding error of the root.
        let back = self.neg(root);
        let lack = self.fma(back, root, z);
        let twice = self.add(root, root);
        let lack = self.div(lack, twice);
        let zero = self.num(0.0);
        let none = self.same(root, zero);
        let lack = self.select(none, zero, lack);
        let lack = self.select(outer, lack, zero);
        let p = self.add(p, lack);
        let (quarter, low) = (self.num(HALF_PI.0), self.num(HALF_PI.1));
        let r = if m == Math::Asin {
            let inner = self.add(s, p);
            // π/2 - 2 (s + p), the large parts first.
            let twice_s = self.mul(two, s);
            let twice_p = self.mul(two, p);
            let small = self.sub(low, twice_p);
            let large = self.sub(quarter, twice_s);
            let lost = self.sub(quarter, large);
            let lost = self.sub(lost, twice_s);
            let small = self.add(small, lost);
            let far = self.add(large, small);
            let r = self.select(outer, far, inner);
            self.with_sign(r, x)
        } else {
            let below = self.less(x, zero);
            let sum = self.add(s, p);
            let near_one = self.mul(two, sum);
            // π - 2 (s + p)
            let (straight, low2) = (self.num(std::f64::consts::PI), self.num(2.0 * HALF_PI.1));
            let twice_s = self.mul(two, s);
            let twice_p = self.mul(two, p);
            let small = self.sub(low2, twice_p);
            let large = self.sub(straight, twice_s);
            let lost = self.sub(straight, large);
            let lost = self.sub(lost, twice_s);
            let small = self.add(small, lost);
            let near_minus_one = self.add(large, small);
            let far = self.select(below, near_minus_one, near_one);
            // π/2 - (x + p of the sign of x)
            let p = self.with_sign(p, x);
            let small = self.sub(low, p);
            let large = self.sub(quarter, x);
            let lost = self.sub(quarter, large);
            let lost = self.sub(lost, x);
            let small = self.add(small, lost);
            let inner = self.add(large, small);
            self.select(outer, far, inner)
        };
        let outside = self.less(one, a);
        let nan = self.num(f64::NAN);
        let r = self.select(outside, nan, r);
        self.or_nan(r, x)
    }
}
