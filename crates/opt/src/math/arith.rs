//! Emits operations on doubles, and on sums of two doubles, from which the functions are built.
//!
//! No operation here is a fused multiply-add, since devices need not round `fma` only once. The exact product
//! of two doubles is computed from their halves of 26 bits (Dekker), and the rounding error of a sum from the
//! sum itself (Knuth). Both are right where each operation is rounded by itself, which the SPIR-V demands of
//! each operation (`spirv.rs`).

use ir::build::Builder;
use ir::{Math, Op, Scalar, Type, Value};

/// A function under construction.
pub(super) struct Lib<'a> {
    pub(super) b: Builder<'a>,
}

/// A sum of two doubles, the second at most half a unit in the last place of the first.
pub(super) type Pair = (Value, Value);

impl Lib<'_> {
    pub(super) fn num(&mut self, x: f64) -> Value {
        self.b.float(Scalar::F64, x)
    }

    pub(super) fn i64(&mut self, x: i64) -> Value {
        self.b.constant(Scalar::I64, x as u64)
    }

    pub(super) fn op(&mut self, op: Op, a: Value, b: Value) -> Value {
        self.b.emit(op, &[a, b])
    }

    pub(super) fn add(&mut self, a: Value, b: Value) -> Value {
        self.op(Op::Add, a, b)
    }

    pub(super) fn sub(&mut self, a: Value, b: Value) -> Value {
        self.op(Op::Sub, a, b)
    }

    pub(super) fn mul(&mut self, a: Value, b: Value) -> Value {
        self.op(Op::Mul, a, b)
    }

    pub(super) fn div(&mut self, a: Value, b: Value) -> Value {
        self.op(Op::Div, a, b)
    }

    pub(super) fn neg(&mut self, a: Value) -> Value {
        self.b.emit(Op::Neg, &[a])
    }

    pub(super) fn math(&mut self, m: Math, a: Value) -> Value {
        self.b.emit(Op::Math(m), &[a])
    }

    pub(super) fn abs(&mut self, a: Value) -> Value {
        self.math(Math::Abs, a)
    }

    /// Rounds to a whole number, ties to even; the sign of a zero may change.
    pub(super) fn round(&mut self, a: Value) -> Value {
        // Beyond 2^52 all numbers are whole.
        const WHOLE: f64 = 4_503_599_627_370_496.0;
        let negative = self.below(a, 0.0);
        let plus = self.num(WHOLE);
        let by = self.replace(negative, -WHOLE, plus);
        let r = self.add(a, by);
        let r = self.sub(r, by);
        let size = self.abs(a);
        let small = self.below(size, WHOLE);
        self.select(small, r, a)
    }

    /// `a x` for a constant `x`.
    pub(super) fn times(&mut self, a: Value, x: f64) -> Value {
        let x = self.num(x);
        self.mul(a, x)
    }

    /// `a + x` for a constant `x`.
    pub(super) fn plus(&mut self, a: Value, x: f64) -> Value {
        let x = self.num(x);
        self.add(a, x)
    }

    /// `a b + c`, rounded twice.
    pub(super) fn mul_add(&mut self, a: Value, b: Value, c: Value) -> Value {
        let product = self.mul(a, b);
        self.add(product, c)
    }

    pub(super) fn select(&mut self, c: Value, a: Value, b: Value) -> Value {
        self.b.emit(Op::Select, &[c, a, b])
    }

    pub(super) fn less(&mut self, a: Value, b: Value) -> Value {
        self.op(Op::Lt, a, b)
    }

    /// `a < x`
    pub(super) fn below(&mut self, a: Value, x: f64) -> Value {
        let x = self.num(x);
        self.less(a, x)
    }

    /// `a > x`
    pub(super) fn above(&mut self, a: Value, x: f64) -> Value {
        let x = self.num(x);
        self.less(x, a)
    }

    /// `a == x`
    pub(super) fn is(&mut self, a: Value, x: f64) -> Value {
        let x = self.num(x);
        self.op(Op::Eq, a, x)
    }

    pub(super) fn not(&mut self, a: Value) -> Value {
        self.b.emit(Op::Not, &[a])
    }

    pub(super) fn and(&mut self, a: Value, b: Value) -> Value {
        self.op(Op::And, a, b)
    }

    /// `c ? x : a` for a constant `x`.
    pub(super) fn replace(&mut self, c: Value, x: f64, a: Value) -> Value {
        let x = self.num(x);
        self.select(c, x, a)
    }

    /// Clamps `a` to these limits; NaN stays.
    pub(super) fn clamp(&mut self, a: Value, least: f64, most: f64) -> Value {
        let under = self.below(a, least);
        let a = self.replace(under, least, a);
        let over = self.above(a, most);
        self.replace(over, most, a)
    }

    /// `r`, but NaN where `a` is NaN.
    pub(super) fn or_nan(&mut self, r: Value, a: Value) -> Value {
        let nan = self.math(Math::IsNan, a);
        self.select(nan, a, r)
    }

    pub(super) fn bits(&mut self, a: Value) -> Value {
        self.b.emit_typed(Op::Bitcast, &[a], Type::I64)
    }

    pub(super) fn float(&mut self, a: Value) -> Value {
        self.b.emit_typed(Op::Bitcast, &[a], Type::F64)
    }

    /// True if the sign bit is set.
    pub(super) fn is_negative(&mut self, a: Value) -> Value {
        let (bits, zero) = (self.bits(a), self.i64(0));
        self.less(bits, zero)
    }

    /// `|a|` with the sign of `b`.
    pub(super) fn with_sign(&mut self, a: Value, b: Value) -> Value {
        let (a, b) = (self.bits(a), self.bits(b));
        let (rest, sign) = (self.i64(i64::MAX), self.i64(i64::MIN));
        let a = self.and(a, rest);
        let b = self.and(b, sign);
        let r = self.op(Op::Or, a, b);
        self.float(r)
    }

    /// Converts a whole number below 2^51 to an integer; the result for any other number is arbitrary and
    /// unused.
    pub(super) fn int(&mut self, a: Value) -> Value {
        // The integer is in the low bits of the sum with 1.5 * 2^52.
        let magic = 6_755_399_441_055_744.0_f64;
        let sum = self.plus(a, magic);
        let bits = self.bits(sum);
        let base = self.i64(magic.to_bits() as i64);
        self.sub(bits, base)
    }

    /// `c[0] + c[1] z + …`, by Horner's rule.
    pub(super) fn polynomial(&mut self, c: &[f64], z: Value) -> Value {
        let mut sum = self.num(c[c.len() - 1]);
        for &c in c[..c.len() - 1].iter().rev() {
            let c = self.num(c);
            sum = self.mul_add(sum, z, c);
        }
        sum
    }

    // ---- sums of two doubles

    /// Splits `a` into a number of 26 bits and the remainder.
    pub(super) fn split(&mut self, a: Value) -> Pair {
        let large = self.times(a, 134_217_729.0);
        let rest = self.sub(large, a);
        let high = self.sub(large, rest);
        (high, self.sub(a, high))
    }

    /// `a b`, exactly.
    pub(super) fn product(&mut self, a: Value, b: Value) -> Pair {
        let p = self.mul(a, b);
        let ((ah, al), (bh, bl)) = (self.split(a), self.split(b));
        let e = self.mul(ah, bh);
        let e = self.sub(e, p);
        let e = self.add_product(e, ah, bl);
        let e = self.add_product(e, al, bh);
        (p, self.add_product(e, al, bl))
    }

    /// `e + a b`, rounded twice.
    fn add_product(&mut self, e: Value, a: Value, b: Value) -> Value {
        let product = self.mul(a, b);
        self.add(e, product)
    }

    /// `a + b`, exactly.
    pub(super) fn sum(&mut self, a: Value, b: Value) -> Pair {
        let s = self.add(a, b);
        let of_b = self.sub(s, a);
        let of_a = self.sub(s, of_b);
        let (lost_a, lost_b) = (self.sub(a, of_a), self.sub(b, of_b));
        (s, self.add(lost_a, lost_b))
    }

    /// `a + b`, exactly, if `a` is the larger number in magnitude or 0.
    pub(super) fn quick_sum(&mut self, a: Value, b: Value) -> Pair {
        let s = self.add(a, b);
        let of_b = self.sub(s, a);
        (s, self.sub(b, of_b))
    }

    /// `a b` with about 100 bits.
    pub(super) fn pair_product(&mut self, a: Pair, b: Pair) -> Pair {
        let (p, e) = self.product(a.0, b.0);
        let e = self.add_product(e, a.0, b.1);
        let e = self.add_product(e, a.1, b.0);
        self.quick_sum(p, e)
    }

    /// `a + c` with about 100 bits, for two numbers of the same sign or of different magnitude.
    pub(super) fn pair_sum(&mut self, a: Pair, c: Pair) -> Pair {
        let (s, e) = self.sum(a.0, c.0);
        let low = self.add(a.1, c.1);
        let e = self.add(e, low);
        self.quick_sum(s, e)
    }

    pub(super) fn pair(&mut self, high: f64, low: f64) -> Pair {
        (self.num(high), self.num(low))
    }
}
