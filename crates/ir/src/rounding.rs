//! The rounding of operations on floats: how far a result may be from that of the same operation on real numbers.
//!
//! An operation `y = f(x)` on normal numbers gives `ŷ = y·(1 + δ)` with `|δ| ≤ k·u`, where `u` is the unit roundoff of
//! the type (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 2.2) and `k` is [`roundoffs`]; below
//! the normal numbers, the error is at most `k` times [`half_least`].

use crate::library;
use crate::ops::{Math, Op};
use crate::types::Scalar;

/// The binary digits of a float type, the leading one included.
pub fn digits(s: Scalar) -> i32 {
    match s {
        Scalar::F16 => 11,
        Scalar::F32 => 24,
        _ => 53,
    }
}

/// The unit roundoff of a float type: the largest relative error of a number that is rounded to the nearest one.
pub fn unit(s: Scalar) -> f64 {
    2f64.powi(-digits(s))
}

/// Half of the smallest positive number of a float type, which is the largest error of a number that is rounded and not
/// normal. For doubles, which have no half of it, the number itself.
pub fn half_least(s: Scalar) -> f64 {
    match s {
        Scalar::F16 => 2f64.powi(-25),
        Scalar::F32 => 2f64.powi(-150),
        _ => f64::from_bits(1),
    }
}

/// The largest number of a float type.
pub fn largest(s: Scalar) -> f64 {
    match s {
        Scalar::F16 => 65504.0,
        Scalar::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}

/// The error of an elementwise operation in unit roundoffs of the type `to` of its result; 0 if the result is exact. The
/// errors of mathematical functions are those that docs/cpu.md states, in whole units in the last place, each of which is
/// at most two roundoffs.
pub fn roundoffs(op: &Op, from: Scalar, to: Scalar) -> f64 {
    if !to.is_float() {
        return 0.0;
    }
    match op {
        Op::Add | Op::Sub | Op::Mul | Op::Div => 1.0,
        // An integer with fewer digits is exact.
        Op::Convert if from.is_float() => f64::from(u8::from(from.bytes() > to.bytes())),
        Op::Convert => f64::from(u8::from(from.bits() as i32 > digits(to))),
        Op::Math(m) => match m {
            Math::Sqrt | Math::Fma => 1.0,
            m if !library::has(*m) => 0.0,
            // A half's is that of a float, rounded.
            _ if to == Scalar::F16 => 1.0,
            Math::Exp | Math::Exp2 | Math::Log if to == Scalar::F32 => 2.0,
            _ => 4.0,
        },
        _ => 0.0,
    }
}
