//! Functions of numbers as operations with hardly a branch, for one thread and for lanes.
//!
//! Each function is written once, on the operations of [`Ops`]. LLVM's backend emits them, as functions of numbers or of
//! vectors; `runtime::own` computes them here, for the backend that runs a kernel until LLVM's code is there. So lanes, single
//! threads and both backends agree bit for bit. A `float` function is the double one, rounded, and so nearly always the
//! nearest float; but sines and cosines of floats are computed in single precision ([`is_single`]).
//!
//! Arguments are reduced to a small range (Cody and Waite's way, constants split so that products are exact), where a
//! polynomial is evaluated: those of doubles are in [`ir::polynomials`], those of floats here. Errors of the
//! functions are at most 2 units in the last place (`codegen-llvm/tests/mathematics.rs`).
//!
//! What is not here, or on a machine without fused multiplication and addition, is computed by the functions of the
//! interpreter; so are sines of numbers beyond [`ir::polynomials::FAR`].

mod angles;
mod exponential;
mod powers;

use ir::Math;

use exponential::LOG10_2;

/// What functions of numbers are made of: doubles, integers of 64 bits and truth values, of one thread or of all lanes;
/// or floats, and integers of 32 bits.
#[expect(missing_docs, reason = "the names say it")]
pub trait Ops {
    /// A value of any of the three kinds.
    type V: Copy;

    /// Whether numbers are floats (and integers have 32 bits).
    fn single(&self) -> bool;
    /// Whether results are rounded to floats: they need not be exact to the last place of a double.
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
    /// What `near` makes of `x` if `is_near` holds in all lanes, else what `far` makes of it. Where it holds in one, both
    /// give that the same bits.
    fn either(
        &mut self,
        is_near: Self::V,
        x: Self::V,
        near: impl FnOnce(&mut Self, Self::V) -> Self::V,
        far: impl FnOnce(&mut Self, Self::V) -> Self::V,
    ) -> Self::V;
    /// `found` where `near` holds, else what the interpreter's function gives.
    fn elsewhere(&mut self, m: Math, near: Self::V, x: Self::V, found: Self::V) -> Self::V;
}

/// Operations on one value. `Round` is to the nearest whole number, of two the even one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Unary {
    Neg,
    Abs,
    Round,
    Trunc,
    Sqrt,
    /// The bits of a double.
    Bits,
    /// The double of these bits.
    OfBits,
    /// The double of a signed integer.
    OfInt,
}

/// Operations on two values of a kind: doubles where the name ends in F, else integers; truth values have the bitwise
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Binary {
    AddF,
    SubF,
    MulF,
    DivF,
    /// The first with the sign of the second, both doubles.
    CopySign,
    Add,
    Sub,
    And,
    Or,
    Xor,
    Shl,
    Ashr,
}

/// Comparisons: of doubles, where a NaN fits none but `Unordered`; the last two of integers.
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

/// Whether a function of floats is computed in single precision, by operations that are of floats and of 32-bit numbers.
pub const fn is_single(m: Math) -> bool {
    matches!(m, Math::Sin | Math::Cos)
}

/// Whether a function is here.
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

/// A function of doubles. [`has`] says which there are.
#[inline(always)]
pub fn function<O: Ops>(ops: &mut O, m: Math, args: &[O::V]) -> O::V {
    Library { o: ops }.function(m, args)
}

/// The functions, on some operations.
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

    /// What makes an integer of a number, and the bits that stand for 0.
    fn magic(&self) -> (f64, i64) {
        // A whole number below 2^51 stands in the last bits of its sum with 1.5 * 2^52, of floats one below 2^22 in that
        // with 1.5 * 2^23. A NaN gives any number, which nobody looks at.
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
