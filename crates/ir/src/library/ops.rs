//! The operations on numbers that the library is written with: a machine offers them.

use crate::Math;

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
