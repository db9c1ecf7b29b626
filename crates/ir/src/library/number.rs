//! Numbers, integers and truth values with operators, so that functions read as formulas.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Shl, Shr, Sub};

use super::ops::Ops;
use crate::{Math, Op};

macro_rules! value {
    ($(#[doc = $doc:literal] $name:ident;)*) => {$(
        #[doc = $doc]
        pub(super) struct $name<'o, O: Ops> {
            ops: &'o O,
            pub(super) value: O::V,
        }

        impl<O: Ops> Clone for $name<'_, O> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<O: Ops> Copy for $name<'_, O> {}

        impl<'o, O: Ops> $name<'o, O> {
            #[inline(always)]
            pub(super) fn new(ops: &'o O, value: O::V) -> Self {
                $name { ops, value }
            }
        }
    )*};
}

value! {
    /// A double, or a float.
    Number;
    /// An integer of as many bits.
    Integer;
    /// A truth value.
    Truth;
}

/// Anything that operators take as a number: a number or a constant.
pub(super) trait Operand<O: Ops> {
    fn value(self, ops: &O) -> O::V;
}

impl<O: Ops> Operand<O> for Number<'_, O> {
    #[inline(always)]
    fn value(self, _: &O) -> O::V {
        self.value
    }
}

impl<O: Ops> Operand<O> for f64 {
    #[inline(always)]
    fn value(self, ops: &O) -> O::V {
        ops.number(self)
    }
}

macro_rules! operators {
    ($($op:ident $method:ident;)*) => {$(
        impl<'o, O: Ops, R: Operand<O>> $op<R> for Number<'o, O> {
            type Output = Number<'o, O>;

            #[inline(always)]
            fn $method(self, other: R) -> Number<'o, O> {
                Number::new(self.ops, self.ops.of_numbers(&Op::$op, &[self.value, other.value(self.ops)]))
            }
        }

        impl<'o, O: Ops> $op<Number<'o, O>> for f64 {
            type Output = Number<'o, O>;

            #[inline(always)]
            fn $method(self, other: Number<'o, O>) -> Number<'o, O> {
                let one = self.value(other.ops);
                Number::new(other.ops, other.ops.of_numbers(&Op::$op, &[one, other.value]))
            }
        }
    )*};
}

operators! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

impl<O: Ops> Neg for Number<'_, O> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        self.unary(&Op::Neg)
    }
}

impl<'o, O: Ops> Number<'o, O> {
    #[inline(always)]
    fn unary(self, op: &Op) -> Self {
        Number::new(self.ops, self.ops.of_numbers(op, &[self.value]))
    }

    #[inline(always)]
    fn compare(self, op: &Op, other: impl Operand<O>) -> Truth<'o, O> {
        Truth::new(self.ops, self.ops.of_numbers(op, &[self.value, other.value(self.ops)]))
    }

    /// A constant.
    #[inline(always)]
    pub(super) fn constant(self, x: f64) -> Self {
        Number::new(self.ops, self.ops.number(x))
    }

    #[inline(always)]
    pub(super) fn abs(self) -> Self {
        self.unary(&Op::Math(Math::Abs))
    }

    #[inline(always)]
    pub(super) fn round(self) -> Self {
        self.unary(&Op::Math(Math::Round))
    }

    #[inline(always)]
    pub(super) fn trunc(self) -> Self {
        self.unary(&Op::Math(Math::Trunc))
    }

    #[inline(always)]
    pub(super) fn sqrt(self) -> Self {
        self.unary(&Op::Math(Math::Sqrt))
    }

    /// `self * b + c`, rounded once.
    #[inline(always)]
    pub(super) fn fma(self, b: impl Operand<O>, c: Self) -> Self {
        Number::new(self.ops, self.ops.fma(self.value, b.value(self.ops), c.value))
    }

    /// `self * b + c`, rounded once or twice.
    #[inline(always)]
    pub(super) fn mul_add(self, b: impl Operand<O>, c: impl Operand<O>) -> Self {
        let (b, c) = (b.value(self.ops), c.value(self.ops));
        Number::new(self.ops, self.ops.mul_add(self.value, b, c))
    }

    /// `|self|` with the sign of `other`.
    #[inline(always)]
    pub(super) fn with_sign(self, other: Self) -> Self {
        Number::new(self.ops, self.ops.copy_sign(self.value, other.value))
    }

    #[inline(always)]
    pub(super) fn less(self, other: impl Operand<O>) -> Truth<'o, O> {
        self.compare(&Op::Lt, other)
    }

    #[inline(always)]
    pub(super) fn more(self, other: impl Operand<O>) -> Truth<'o, O> {
        let other = Number::new(self.ops, other.value(self.ops));
        other.less(self)
    }

    #[inline(always)]
    pub(super) fn at_most(self, other: impl Operand<O>) -> Truth<'o, O> {
        self.compare(&Op::Le, other)
    }

    #[inline(always)]
    pub(super) fn at_least(self, other: impl Operand<O>) -> Truth<'o, O> {
        self.compare(&Op::Ge, other)
    }

    #[inline(always)]
    pub(super) fn is(self, other: impl Operand<O>) -> Truth<'o, O> {
        self.compare(&Op::Eq, other)
    }

    /// Returns true if the sign bit is set.
    #[inline(always)]
    pub(super) fn is_negative(self) -> Truth<'o, O> {
        let zero = self.ops.integer(0);
        Truth::new(self.ops, self.ops.of_integers(&Op::Lt, &[self.bits().value, zero]))
    }

    /// See [`Ops::scales`].
    #[inline(always)]
    pub(super) fn scales(self) -> bool {
        self.ops.scales()
    }

    /// See [`Ops::scale`].
    #[inline(always)]
    pub(super) fn scale(self, k: Self) -> Self {
        Number::new(self.ops, self.ops.scale(self.value, k.value))
    }

    /// Returns true for zero that is not negative.
    #[inline(always)]
    pub(super) fn is_zero(self) -> Truth<'o, O> {
        !self.bits().is_not_zero()
    }

    /// `self`, but NaN where `other` is.
    #[inline(always)]
    pub(super) fn or_nan(self, other: Self) -> Self {
        Truth::new(self.ops, self.ops.of_numbers(&Op::Math(Math::IsNan), &[other.value])).select(other, self)
    }

    /// Clamps the number to these limits; NaN stays.
    #[inline(always)]
    pub(super) fn clamp(self, least: f64, most: f64) -> Self {
        let x = self.less(least).select(least, self);
        x.more(most).select(most, x)
    }

    #[inline(always)]
    pub(super) fn bits(self) -> Integer<'o, O> {
        Integer::new(self.ops, self.ops.of_numbers(&Op::Bitcast, &[self.value]))
    }

    /// The addend that converts a whole number to an integer, and the bits of the sum that represent 0.
    ///
    /// A whole double below 2^51 appears in the low bits of its sum with 1.5 * 2^52, and a whole float below
    /// 2^22 in those of its sum with 1.5 * 2^23. A NaN gives an arbitrary number, which is not used.
    #[inline(always)]
    pub(super) fn magic(self) -> (f64, i64) {
        if self.ops.single() {
            (12_582_912.0, i64::from(12_582_912.0_f32.to_bits()))
        } else {
            (6_755_399_441_055_744.0, 6_755_399_441_055_744.0_f64.to_bits() as i64)
        }
    }

    /// Returns true for floats, false for doubles.
    #[inline(always)]
    pub(super) fn is_single(self) -> bool {
        self.ops.single()
    }

    /// The bias of the exponent, and the number of bits below it.
    #[inline(always)]
    pub(super) fn exponent(self) -> (i64, i64) {
        if self.is_single() { (127, 23) } else { (1023, 52) }
    }

    /// Converts a whole number to an integer.
    #[inline(always)]
    pub(super) fn to_integer(self) -> Integer<'o, O> {
        let (magic, zero) = self.magic();
        (self + magic).bits() - zero
    }

    /// `c[0] + c[1] z + …` for `z = self` and up to 16 terms, by Estrin's scheme: pairs of terms, then pairs of
    /// pairs, so that few operations wait for each other.
    #[inline(always)]
    pub(super) fn polynomial(self, c: &[f64]) -> Self {
        let z2 = self * self;
        if c.len() <= 4 {
            return self.four(c, z2);
        }
        let z4 = z2 * z2;
        if c.len() <= 8 {
            return self.eight(c, z2, z4);
        }
        let (low, high) = c.split_at(8);
        self.eight(high, z2, z4).mul_add(z4 * z4, self.eight(low, z2, z4))
    }

    /// As [`Self::polynomial`], with the even and the odd terms by Horner's scheme: fewer operations, more of
    /// which wait for each other.
    #[inline(always)]
    pub(super) fn even_and_odd(self, c: &[f64]) -> Self {
        let z2 = self * self;
        let chain = |first: usize| {
            let terms = c.iter().skip(first).step_by(2).rev();
            terms.fold(None, |sum: Option<Self>, &c| {
                Some(sum.map_or(self.constant(c), |sum| sum.fma(z2, self.constant(c))))
            })
        };
        match (chain(0), chain(1)) {
            (Some(even), Some(odd)) => odd.fma(self, even),
            (even, _) => even.unwrap_or(self),
        }
    }

    /// As [`Self::polynomial`], by Horner's scheme: the most exact one where terms of different sign cancel.
    #[inline(always)]
    pub(super) fn in_turn(self, c: &[f64]) -> Self {
        let terms = c.iter().rev();
        let sum = terms.fold(None, |sum: Option<Self>, &c| {
            Some(sum.map_or(self.constant(c), |sum| sum.fma(self, self.constant(c))))
        });
        sum.unwrap_or(self)
    }

    #[inline(always)]
    fn eight(self, c: &[f64], z2: Self, z4: Self) -> Self {
        match c.split_at_checked(4) {
            Some((low, high)) if !high.is_empty() => self.four(high, z2).mul_add(z4, self.four(low, z2)),
            _ => self.four(c, z2),
        }
    }

    #[inline(always)]
    fn four(self, c: &[f64], z2: Self) -> Self {
        match *c {
            [a, b, c, d] => self.pair(c, d).mul_add(z2, self.pair(a, b)),
            [a, b, c] => self.constant(c).mul_add(z2, self.pair(a, b)),
            [a, b] => self.pair(a, b),
            _ => self.constant(c[0]),
        }
    }

    /// `a + b z`.
    #[inline(always)]
    fn pair(self, a: f64, b: f64) -> Self {
        self.constant(b).mul_add(self, a)
    }

    /// See [`Ops::sums`].
    #[inline(always)]
    pub(super) fn sums(
        self,
        table: &'static [f64],
        first: Self,
        n: usize,
        step: impl Fn(Self, [Self; 2]) -> [Self; 2],
    ) -> [Self; 2] {
        let new = |x| Number::new(self.ops, x);
        let step = |x, sums: [O::V; 2]| step(new(x), sums.map(new)).map(|x| x.value);
        self.ops.sums(table, first.value, n, step).map(new)
    }

    /// See [`Ops::elsewhere`].
    #[inline(always)]
    pub(super) fn elsewhere(self, m: Math, near: Truth<'o, O>, found: Self) -> Self {
        Number::new(self.ops, self.ops.elsewhere(m, near.value, self.value, found.value))
    }
}

macro_rules! integers {
    ($($class:ident $method:ident $op:ident;)*) => {$(
        impl<'o, O: Ops> $class<i64> for Integer<'o, O> {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: i64) -> Self {
                let other = self.ops.integer(other);
                Integer::new(self.ops, self.ops.of_integers(&Op::$op, &[self.value, other]))
            }
        }

        impl<'o, O: Ops> $class for Integer<'o, O> {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Integer::new(self.ops, self.ops.of_integers(&Op::$op, &[self.value, other.value]))
            }
        }
    )*};
}

integers! {
    Add add Add;
    Sub sub Sub;
    BitAnd bitand And;
    BitXor bitxor Xor;
    Shl shl Shl;
    Shr shr Shr;
}

impl<'o, O: Ops> Integer<'o, O> {
    /// The number with these bits.
    #[inline(always)]
    pub(super) fn of_bits(self) -> Number<'o, O> {
        Number::new(self.ops, self.ops.of_integers(&Op::Bitcast, &[self.value]))
    }

    #[inline(always)]
    pub(super) fn to_number(self) -> Number<'o, O> {
        Number::new(self.ops, self.ops.of_integers(&Op::Convert, &[self.value]))
    }

    #[inline(always)]
    pub(super) fn is_not_zero(self) -> Truth<'o, O> {
        let zero = self.ops.integer(0);
        Truth::new(self.ops, self.ops.of_integers(&Op::Ne, &[self.value, zero]))
    }
}

impl<'o, O: Ops> Truth<'o, O> {
    /// `self ? a : b`.
    #[inline(always)]
    pub(super) fn select(self, a: impl Operand<O>, b: impl Operand<O>) -> Number<'o, O> {
        let (a, b) = (a.value(self.ops), b.value(self.ops));
        Number::new(self.ops, self.ops.of_truths(&Op::Select, &[self.value, a, b]))
    }

    /// See [`Ops::either`].
    #[inline(always)]
    pub(super) fn either<const N: usize>(
        self,
        x: [Number<'o, O>; N],
        near: impl FnOnce([Number<'o, O>; N]) -> Number<'o, O>,
        far: impl FnOnce([Number<'o, O>; N]) -> Number<'o, O>,
    ) -> Number<'o, O> {
        let ops = self.ops;
        let near = |x: [O::V; N]| near(x.map(|x| Number::new(ops, x))).value;
        let far = |x: [O::V; N]| far(x.map(|x| Number::new(ops, x))).value;
        Number::new(ops, ops.either(self.value, x.map(|x| x.value), near, far))
    }

    /// See [`Ops::short_cut`].
    #[inline(always)]
    pub(super) fn short_cut(
        self,
        x: Number<'o, O>,
        near: impl FnOnce(Number<'o, O>) -> Number<'o, O>,
        any: impl FnOnce(Number<'o, O>) -> Number<'o, O>,
    ) -> Number<'o, O> {
        let ops = self.ops;
        let near = |x: O::V| near(Number::new(ops, x)).value;
        let any = |x: O::V| any(Number::new(ops, x)).value;
        Number::new(ops, ops.short_cut(self.value, x.value, near, any))
    }
}

impl<O: Ops> BitAnd for Truth<'_, O> {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Truth::new(self.ops, self.ops.of_truths(&Op::And, &[self.value, other.value]))
    }
}

impl<O: Ops> BitOr for Truth<'_, O> {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Truth::new(self.ops, self.ops.of_truths(&Op::Or, &[self.value, other.value]))
    }
}

impl<O: Ops> Not for Truth<'_, O> {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        Truth::new(self.ops, self.ops.of_truths(&Op::Not, &[self.value]))
    }
}
