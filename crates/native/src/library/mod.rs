//! Mathematical functions as sequences of nearly branch-free operations, for one thread and for lanes.
//!
//! Each function is written once, in terms of the operations of [`Ops`]. LLVM's backend emits them, as
//! functions of scalars or of vectors; `runtime::own` evaluates them directly, for the backend that runs a
//! kernel until LLVM's code is ready. So lanes, single threads and both backends agree bit for bit. A `float`
//! function is the double one with its result rounded, which is nearly always the nearest float; but sines
//! and cosines of floats are computed in single precision ([`is_single`]).
//!
//! Arguments are reduced to a small range (by Cody and Waite's method, with constants split so that products
//! are exact), in which a polynomial is evaluated: the polynomials for doubles are in [`ir::polynomials`],
//! those for floats in this module. Errors of the functions are at most 2 units in the last place
//! (`codegen-llvm/tests/mathematics.rs`).
//!
//! Functions that are not in the library, all functions on a machine without fused multiply-add, and sines of
//! numbers beyond [`ir::polynomials::FAR`] are computed by the functions of the interpreter.

mod angles;
mod exponential;
mod powers;

use ir::Math;

use exponential::LOG10_2;

/// The operations that the functions consist of. They work on doubles, 64-bit integers and truth values, of
/// one thread or of all lanes; or on floats and 32-bit integers.
#[expect(missing_docs, reason = "the names say it")]
pub trait Ops {
    /// A value of any of the three kinds.
    type V: Copy;

    /// Returns true if numbers are floats (and integers have 32 bits).
    fn single(&self) -> bool;
    /// Returns true if results are rounded to floats, so that they need not be exact to the last place of a
    /// double.
    fn rounds(&self) -> bool;
    fn float(&mut self, x: f64) -> Self::V;
    fn int(&mut self, n: i64) -> Self::V;
    fn yes(&mut self) -> Self::V;
    fn unary(&mut self, op: Unary, a: Self::V) -> Self::V;
    fn binary(&mut self, op: Binary, a: Self::V, b: Self::V) -> Self::V;
    fn compare(&mut self, op: Compare, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(&mut self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    fn select(&mut self, c: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// The result of `near` on `x` if `is_near` holds in all lanes, else the result of `far`. For a lane in
    /// which `is_near` holds, both give the same bits.
    fn either(
        &mut self,
        is_near: Self::V,
        x: Self::V,
        near: impl FnOnce(&mut Self, Self::V) -> Self::V,
        far: impl FnOnce(&mut Self, Self::V) -> Self::V,
    ) -> Self::V;
    /// `found` where `near` holds, else the result of the interpreter's function.
    fn elsewhere(&mut self, m: Math, near: Self::V, x: Self::V, found: Self::V) -> Self::V;
}

/// Operations on one value. `Round` rounds to the nearest whole number, and ties to even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Unary {
    Neg,
    Abs,
    Round,
    Trunc,
    Sqrt,
    /// A double to its bits.
    Bits,
    /// Bits to the double that they represent.
    OfBits,
    /// A signed integer to a double.
    OfInt,
}

/// Operations on two values of the same kind: doubles where the name ends in F, else integers. The bitwise
/// operations also take truth values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Binary {
    AddF,
    SubF,
    MulF,
    DivF,
    /// The first double with the sign of the second.
    CopySign,
    Add,
    Sub,
    And,
    Or,
    Xor,
    Shl,
    Ashr,
}

/// Comparisons. The last two compare integers, the others doubles, where only `Unordered` is true of a NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Compare {
    Less,
    LessOrSame,
    Same,
    MoreOrSame,
    Unordered,
    Differ,
    Below,
}

/// Returns true if the function of floats is computed in single precision, by operations on floats and 32-bit
/// integers.
pub const fn is_single(m: Math) -> bool {
    matches!(m, Math::Sin | Math::Cos)
}

/// Returns true if the library has the function.
pub fn has(m: Math) -> bool {
    matches!(
        m,
        Math::Sin
            | Math::Cos
            | Math::Tan
            | Math::Asin
            | Math::Acos
            | Math::Atan
            | Math::Atan2
            | Math::Sinh
            | Math::Cosh
            | Math::Tanh
            | Math::Exp
            | Math::Exp2
            | Math::Log
            | Math::Log2
            | Math::Log10
            | Math::Pow
            | Math::Asinh
            | Math::Acosh
            | Math::Atanh
    )
}

/// Evaluates a function. [`has`] tells which functions there are.
#[inline(always)]
pub fn function<O: Ops>(ops: &mut O, m: Math, args: &[O::V]) -> O::V {
    Library { o: ops }.function(m, args)
}

/// The functions, in terms of the operations `o`.
struct Library<'o, O> {
    o: &'o mut O,
}

impl<O: Ops> Library<'_, O> {
    #[inline(always)]
    fn function(&mut self, m: Math, args: &[O::V]) -> O::V {
        let a = args[0];
        match m {
            Math::Exp => self.exp(a),
            Math::Exp2 => self.exp2(a),
            Math::Log => self.log(a),
            Math::Log2 => {
                let (k, f) = self.log_parts(a);
                let zero = self.num(0.0);
                let r = self.log_of(zero, f, None);
                let by = self.num(std::f64::consts::LOG2_E);
                let r = self.fma(r, by, k);
                self.log_ends(a, r)
            }
            Math::Log10 => {
                let (k, f) = self.log_parts(a);
                let zero = self.num(0.0);
                let r = self.log_of(zero, f, None);
                let (hi, lo) = (self.num(LOG10_2.0), self.num(LOG10_2.1));
                let by = self.num(std::f64::consts::LOG10_E);
                let low = self.mul(k, lo);
                let low = self.fma(r, by, low);
                let r = self.fma(k, hi, low);
                self.log_ends(a, r)
            }
            Math::Sin | Math::Cos | Math::Tan => self.circular(m, a),
            Math::Atan => {
                let one = self.num(1.0);
                let (t, _) = self.angle(a, one);
                let t = self.with_sign(t, a);
                self.or_nan(t, a)
            }
            Math::Atan2 => self.atan2(a, args[1]),
            Math::Asin | Math::Acos => self.arc(m, a),
            Math::Tanh => self.tanh(a),
            Math::Sinh | Math::Cosh => self.hyperbolic(m, a),
            Math::Pow => self.pow(a, args[1]),
            Math::Asinh => self.asinh(a),
            Math::Acosh => self.acosh(a),
            Math::Atanh => self.atanh(a),
            _ => a,
        }
    }

    // ---- operations

    #[inline(always)]
    fn num(&mut self, x: f64) -> O::V {
        self.o.float(x)
    }

    #[inline(always)]
    fn add(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.binary(Binary::AddF, a, b)
    }

    #[inline(always)]
    fn sub(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.binary(Binary::SubF, a, b)
    }

    #[inline(always)]
    fn mul(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.binary(Binary::MulF, a, b)
    }

    #[inline(always)]
    fn div(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.binary(Binary::DivF, a, b)
    }

    #[inline(always)]
    fn fma(&mut self, a: O::V, b: O::V, c: O::V) -> O::V {
        self.o.fma(a, b, c)
    }

    #[inline(always)]
    fn neg(&mut self, a: O::V) -> O::V {
        self.o.unary(Unary::Neg, a)
    }

    #[inline(always)]
    fn abs(&mut self, a: O::V) -> O::V {
        self.o.unary(Unary::Abs, a)
    }

    #[inline(always)]
    fn round(&mut self, a: O::V) -> O::V {
        self.o.unary(Unary::Round, a)
    }

    #[inline(always)]
    fn select(&mut self, c: O::V, a: O::V, b: O::V) -> O::V {
        self.o.select(c, a, b)
    }

    #[inline(always)]
    fn less(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.compare(Compare::Less, a, b)
    }

    #[inline(always)]
    fn same(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.compare(Compare::Same, a, b)
    }

    #[inline(always)]
    fn int(&mut self, a: O::V) -> O::V {
        let (magic, zero) = self.magic();
        let at = self.num(magic);
        let sum = self.add(a, at);
        let bits = self.bits(sum);
        let constant = self.o.int(zero);
        self.o.binary(Binary::Sub, bits, constant)
    }

    /// The addend that converts a whole number to an integer, and the bits of the sum that represent 0.
    fn magic(&self) -> (f64, i64) {
        // A whole double below 2^51 appears in the low bits of its sum with 1.5 * 2^52, and a whole float
        // below 2^22 in those of its sum with 1.5 * 2^23. A NaN gives an arbitrary number, which is not used.
        if self.o.single() {
            (12_582_912.0, i64::from(12_582_912.0_f32.to_bits()))
        } else {
            (6_755_399_441_055_744.0, 6_755_399_441_055_744.0_f64.to_bits() as i64)
        }
    }

    #[inline(always)]
    fn bits(&mut self, a: O::V) -> O::V {
        self.o.unary(Unary::Bits, a)
    }

    #[inline(always)]
    fn float(&mut self, a: O::V) -> O::V {
        self.o.unary(Unary::OfBits, a)
    }

    /// `|a|` with the sign of `b`.
    #[inline(always)]
    fn with_sign(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.binary(Binary::CopySign, a, b)
    }

    /// `r`, but NaN where `a` is.
    #[inline(always)]
    fn or_nan(&mut self, r: O::V, a: O::V) -> O::V {
        let nan = self.o.compare(Compare::Unordered, a, a);
        self.select(nan, a, r)
    }

    /// `c[0] + c[1] z + …`, by Horner's rule.
    #[inline(always)]
    fn polynomial(&mut self, c: &[f64], z: O::V) -> O::V {
        let mut sum = self.num(c[c.len() - 1]);
        for &c in c[..c.len() - 1].iter().rev() {
            let c = self.num(c);
            sum = self.fma(sum, z, c);
        }
        sum
    }
}
