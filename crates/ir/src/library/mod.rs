//! Mathematical functions as sequences of nearly branch-free operations, for one thread and for lanes.
//!
//! Each function is written once, with the operators of [`number`]. An implementation of [`Ops`] gives these
//! operators their meaning: LLVM's backend writes them as text, for scalars or for vectors; `native` evaluates
//! them, for the backend that runs a kernel until LLVM's code is ready; and `opt::math` builds IR from them,
//! for devices that lack the functions. So lanes, single threads and all backends with a fused multiply-add
//! agree bit for bit. A `float` function is the double one with its result rounded, which is nearly always
//! the nearest float; but on the CPU sines and cosines of floats are computed in single precision
//! ([`is_single`]).
//!
//! Arguments are reduced to a small range (by Cody and Waite's method, with constants split so that products
//! are exact), in which a polynomial is evaluated: the polynomials for doubles are in [`polynomials`], those
//! for floats in [`angles`]. Errors of the functions are at most 2 units in the last place
//! (`codegen-llvm/tests/mathematics.rs`), also without a fused multiply-add (the tests of `opt::math`).
//!
//! Functions that are not in the library and, on the CPU, all functions on a machine without fused
//! multiply-add and sines of numbers beyond [`polynomials::FAR`] are computed by the functions of the
//! interpreter.

mod angles;
mod exponential;
mod number;
mod polynomials;
mod powers;

use crate::Math;

use number::Number;
pub use polynomials::HALF_PI;

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
    fn float(&self, x: f64) -> Self::V;
    fn int(&self, n: i64) -> Self::V;
    fn yes(&self) -> Self::V;
    fn unary(&self, op: Unary, a: Self::V) -> Self::V;
    fn binary(&self, op: Binary, a: Self::V, b: Self::V) -> Self::V;
    fn compare(&self, op: Compare, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(&self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a * b + c`, rounded once or twice, whichever takes less time.
    fn mul_add(&self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    fn select(&self, c: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// The result of `near` on `x` if `is_near` holds in all lanes, else the result of `far`. For a lane in
    /// which `is_near` holds, both give the same bits.
    fn either(
        &self,
        is_near: Self::V,
        x: Self::V,
        near: impl FnOnce(Self::V) -> Self::V,
        far: impl FnOnce(Self::V) -> Self::V,
    ) -> Self::V;
    /// The number of quarter turns in the angle `x`, and the remaining angle in two parts; `found` holds them
    /// where `near` does. May be wrong elsewhere if [`Self::elsewhere`] is right there.
    fn turns(&self, near: Self::V, x: Self::V, found: [Self::V; 3]) -> [Self::V; 3];
    /// `found` where `near` holds, else the value of the function, from wherever it can be had.
    fn elsewhere(&self, m: Math, near: Self::V, x: Self::V, found: Self::V) -> Self::V;
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
pub fn function<O: Ops>(ops: &O, m: Math, args: &[O::V]) -> O::V {
    let x = Number::new(ops, args[0]);
    let r = match m {
        Math::Exp => exponential::exp(x),
        Math::Exp2 => exponential::exp2(x),
        Math::Log => exponential::log(x),
        Math::Log2 | Math::Log10 => exponential::log_of_base(m, x),
        Math::Sin | Math::Cos | Math::Tan => angles::circular(m, x),
        Math::Atan => angles::atan(x),
        Math::Atan2 => angles::atan2(x, Number::new(ops, args[1])),
        Math::Asin | Math::Acos => angles::arc(m, x),
        Math::Tanh => exponential::tanh(x),
        Math::Sinh | Math::Cosh => exponential::hyperbolic(m, x),
        Math::Pow => powers::pow(x, Number::new(ops, args[1])),
        Math::Asinh => powers::asinh(x),
        Math::Acosh => powers::acosh(x),
        Math::Atanh => powers::atanh(x),
        _ => x,
    };
    r.value
}
