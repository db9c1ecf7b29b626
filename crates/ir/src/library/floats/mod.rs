//! Functions of floats, in float arithmetic: twice as many numbers fit in a vector as in double arithmetic, and
//! processors of graphics have few units for doubles.
//!
//! Errors are at most 1 unit in the last place for exponentials and natural logarithms, and 2 for the other
//! functions; `tests/floats.rs` measures them over all floats, and docs/cpu.md has the table. Where a result
//! is a float, or nearly one (`exp2` of a whole number, a power like 3², a cosine of 0), the error before the
//! last rounding is less than half a unit, so that result is exact.
//!
//! The arithmetic uses fused multiply-adds, which is what makes reductions of arguments exact. A result ends in
//! one of them where possible, so that its last rounding is the only one of a number of that size.

mod angles;
mod exponential;
mod polynomials;
mod powers;

pub(super) use angles::sine_and_cosine;
pub(super) use exponential::{log_of, log_parts};
pub(super) use powers::estimated_pow;

use super::number::Number;
use super::ops::Ops;
use crate::Math;

/// Evaluates a function, as [`super::function`] does.
#[inline(always)]
pub(super) fn function<'o, O: Ops>(ops: &'o O, m: Math, args: &[O::V]) -> Number<'o, O> {
    let x = Number::new(ops, args[0]);
    match m {
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
        Math::Asinh => super::powers::asinh(x),
        Math::Acosh => super::powers::acosh(x),
        Math::Atanh => super::powers::atanh(x),
        _ => x,
    }
}
