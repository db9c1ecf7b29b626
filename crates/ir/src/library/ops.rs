//! The operations on numbers that the library is written with: a machine offers them.

use crate::{Math, Op};

/// The operations that the functions consist of, under their names in the IR. They work on doubles and 64-bit
/// integers, of one thread or of all lanes; or on floats and 32-bit integers.
pub trait Ops {
    /// A number, an integer or a truth value.
    type V: Copy;

    /// Returns true if numbers are floats (and integers have 32 bits).
    fn single(&self) -> bool;
    /// A constant.
    fn number(&self, x: f64) -> Self::V;
    /// A constant.
    fn integer(&self, n: i64) -> Self::V;
    /// An op on numbers: `neg`, `add`, `sub`, `mul`, `div`, `eq`, `lt`, `le`, `ge`, `bitcast` to an integer, or
    /// one of the functions `abs`, `round`, `trunc`, `sqrt` and `is_nan`.
    fn of_numbers(&self, op: &Op, args: &[Self::V]) -> Self::V;
    /// An op on integers: `add`, `sub`, `and`, `xor`, `shl`, `shr`, `ne`, `lt`, and `bitcast` or `convert` to a number.
    fn of_integers(&self, op: &Op, args: &[Self::V]) -> Self::V;
    /// An op on truth values: `and`, `or`, `not`, or `select` between numbers.
    fn of_truths(&self, op: &Op, args: &[Self::V]) -> Self::V;
    /// `a` with the sign of `b`.
    fn copy_sign(&self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(&self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a * b + c`, rounded once or twice, whichever takes less time.
    fn mul_add(&self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        self.fma(a, b, c)
    }
    /// Returns true if the machine has [`Self::scale`] as one instruction, which makes tests for extreme results
    /// unnecessary.
    fn scales(&self) -> bool {
        false
    }
    /// `p 2^k` for a whole number `k`, rounded once: subnormal, zero or infinite where the result is; NaN for NaN.
    fn scale(&self, _p: Self::V, _k: Self::V) -> Self::V {
        unreachable!("the machine has no such instruction")
    }
    /// The result of `near` on the numbers if `is_near` holds in all lanes, else the result of `far`. For a lane
    /// in which `is_near` holds, both give the same bits.
    fn either<const N: usize>(
        &self,
        is_near: Self::V,
        x: [Self::V; N],
        near: impl FnOnce([Self::V; N]) -> Self::V,
        far: impl FnOnce([Self::V; N]) -> Self::V,
    ) -> Self::V;
    /// As [`Self::either`], where `any` is right for all numbers and worth avoiding only if it is for one number.
    fn short_cut(
        &self,
        _is_near: Self::V,
        x: Self::V,
        _near: impl FnOnce(Self::V) -> Self::V,
        any: impl FnOnce(Self::V) -> Self::V,
    ) -> Self::V {
        any(x)
    }
    /// `found` where `near` holds, else [`super::far_angle`] of `x` as a double.
    fn elsewhere(&self, m: Math, near: Self::V, x: Self::V, found: Self::V) -> Self::V;
    /// Two sums, which begin with zero and to which `step` adds what element number `first` of the table
    /// contributes, then the following ones, as many as `n`. Only for one thread at a time.
    fn sums(
        &self,
        table: &'static [f64],
        first: Self::V,
        n: usize,
        step: impl Fn(Self::V, [Self::V; 2]) -> [Self::V; 2],
    ) -> [Self::V; 2];
}
