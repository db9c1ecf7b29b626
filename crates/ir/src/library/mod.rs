//! Mathematical functions as sequences of nearly branch-free operations, for one thread and for lanes.
//!
//! Each function is written once, with the operators of [`number`]. An implementation of [`Ops`] gives these
//! operators their meaning: [`evaluate`] computes with plain numbers, for the interpreter, the constant folder
//! and Cranelift's code; LLVM's backend writes them as text, for scalars or for vectors; and `opt::math` builds
//! IR from them, for devices that lack the functions. So lanes, single threads and all processors agree bit
//! for bit, and so do devices whose fused multiply-add rounds once. The functions of doubles are in this
//! folder, and those of floats, which compute with floats, in [`floats`].
//!
//! Arguments are reduced to a small range (by Cody and Waite's method, with constants split so that products
//! are exact; large angles as in [`far`]), in which a polynomial is evaluated: the polynomials are in
//! [`polynomials`]. Errors of the functions are at most 2 units in the last place; those of doubles also without
//! a fused multiply-add (the tests of [`evaluate`] and of `opt::math`).

mod angles;
mod evaluate;
mod exponential;
mod far;
mod floats;
mod number;
mod ops;
mod polynomials;
mod powers;

use crate::Math;

pub use evaluate::{double, single};
pub use far::digits_of_two_over_pi;
use number::Number;
pub use ops::Ops;

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

/// Evaluates the sine and the cosine of one number, as [`function`] does each.
#[inline(always)]
pub fn sine_and_cosine<O: Ops>(ops: &O, x: O::V) -> [O::V; 2] {
    let x = Number::new(ops, x);
    let both = if ops.single() { floats::sine_and_cosine(x) } else { angles::sine_and_cosine(x) };
    both.map(|number| number.value)
}

/// Evaluates a function. [`has`] tells which functions there are.
#[inline(always)]
pub fn function<O: Ops>(ops: &O, m: Math, args: &[O::V]) -> O::V {
    if ops.single() {
        return floats::function(ops, m, args).value;
    }
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

/// Returns true if [`estimate`] computes the function of floats in less time than [`function`].
pub fn has_estimate(m: Math) -> bool {
    m == Math::Pow
}

/// Evaluates a function of floats as fast mathematics may: `pow` with an error that grows with the logarithm of its result.
#[inline(always)]
pub fn estimate<O: Ops>(ops: &O, m: Math, args: &[O::V]) -> O::V {
    match m {
        Math::Pow if ops.single() => {
            floats::estimated_pow(Number::new(ops, args[0]), Number::new(ops, args[1])).value
        }
        _ => function(ops, m, args),
    }
}

/// The sine, cosine or tangent of any double, by operations for one thread at a time.
#[inline(always)]
pub fn far_angle<O: Ops>(ops: &O, m: Math, x: O::V) -> O::V {
    angles::far(m, Number::new(ops, x)).value
}
