//! Runs code in numbers of twice a double's digits ([`Number`]), so that differences of its results are slopes with all of a
//! double's digits.
//!
//! Each double carries its rest ([`Precise::lo`]). Code that was widened to doubles thus computes in twice their digits: the
//! mathematical functions, too, and conditions and conversions see the rest. What stores a double's bits, such as memory,
//! drops it.

pub mod number;

use std::cmp::Ordering;

pub use number::Number;

use super::value::Lane;
use crate::function::Span;
use crate::ops::{Math, Op};
use crate::scalar;
use crate::types::Scalar;

/// A lane of the interpreter: canonical bits and, for a double, what it lacks to the number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precise {
    /// Canonical bits.
    pub bits: u64,
    /// The rest of a double; 0 for other types.
    pub lo: f64,
}

impl From<Number> for Precise {
    fn from(x: Number) -> Precise {
        Precise { bits: x.hi.to_bits(), lo: x.lo }
    }
}

impl Precise {
    /// The number of a double.
    pub fn number(self) -> Number {
        Number { hi: f64::from_bits(self.bits), lo: self.lo }
    }
}

impl Lane for Precise {
    fn from_bits(bits: u64) -> Precise {
        Precise { bits, lo: 0.0 }
    }

    fn bits(self) -> u64 {
        self.bits
    }

    fn cut_at(self, _here: &dyn Fn() -> Span) -> Option<Span> {
        None
    }

    fn cut(self, _at: Option<Span>) -> Precise {
        Precise::from_bits(self.bits)
    }

    fn detached(self, _at: Option<Span>) -> Precise {
        self
    }

    fn elementwise(op: &Op, from: Scalar, to: Scalar, args: &[Precise]) -> Option<Precise> {
        let bits: Vec<u64> = args.iter().map(|a| a.bits).collect();
        let plain = Precise::from_bits(scalar::elementwise(op, from, to, &bits)?);
        if let (Op::Select, &[c, a, b]) = (op, args) {
            return Some(if c.bits != 0 { a } else { b });
        }
        let x: Vec<Number> = args.iter().map(|a| a.number()).collect();
        Some(match (from, to) {
            (Scalar::F64, Scalar::F64) => number_of(op, args, &x, plain),
            (Scalar::F64, Scalar::Bool) => {
                compared(op, &x).map_or(plain, |b| Precise::from_bits(u64::from(b)))
            }
            // Integers are rounded to zero, by all of the number's digits.
            (Scalar::F64, _) if *op == Op::Convert => {
                let whole = x[0].trunc();
                let bits = scalar::convert(from, to, whole.hi.to_bits());
                let exact = whole.lo != 0.0 && whole.hi.abs() < 9e18;
                Precise::from_bits(match exact {
                    true => scalar::from_i64(to, whole.hi as i64 + whole.lo as i64),
                    false => bits,
                })
            }
            (_, Scalar::F64) if from.is_int() && *op == Op::Convert => {
                let (n, hi) = (scalar::to_i128(from, args[0].bits), f64::from_bits(plain.bits));
                Precise { bits: plain.bits, lo: (n - hi as i128) as f64 }
            }
            _ => plain,
        })
    }
}

/// The outcome of a comparison; `None` for other ops, and where a number is NaN.
fn compared(op: &Op, x: &[Number]) -> Option<bool> {
    let &[a, b] = x else { return None };
    let order = a.partial_cmp(&b)?;
    Some(match op {
        Op::Eq => order == Ordering::Equal,
        Op::Ne => order != Ordering::Equal,
        Op::Lt => order == Ordering::Less,
        Op::Le => order != Ordering::Greater,
        Op::Gt => order == Ordering::Greater,
        Op::Ge => order != Ordering::Less,
        _ => return None,
    })
}

/// The result of an op from doubles to a double, of which `plain` is the double that it gives for doubles: where that is no
/// number, or says that a differential is absent, it is the result.
fn number_of(op: &Op, args: &[Precise], x: &[Number], plain: Precise) -> Precise {
    let is_absent = |a: Precise| a.lo == 0.0 && scalar::is_absent(Scalar::F64, a.bits);
    match (op, x) {
        _ if !f64::from_bits(plain.bits).is_finite() => plain,
        (Op::Detach | Op::Convert, _) => args[0],
        (Op::Present, _) if is_absent(args[0]) => plain,
        (Op::Present, _) => args[0],
        (Op::Scale | Op::Unscale | Op::Mask, _) if is_absent(args[0]) => plain,
        (Op::Add, &[a, b]) => (a + b).into(),
        (Op::Sub, &[a, b]) => (a - b).into(),
        (Op::Mul | Op::Scale, &[a, b]) => (a * b).into(),
        (Op::Div | Op::Unscale, &[a, b]) => (a / b).into(),
        (Op::Rem, &[a, b]) => (a % b).into(),
        (Op::Mask, _) => args[1],
        (Op::Neg, &[a]) => (-a).into(),
        (Op::Math(m), _) => math(*m, args, x, plain),
        _ => plain,
    }
}

/// The result of a mathematical function.
fn math(m: Math, args: &[Precise], x: &[Number], plain: Precise) -> Precise {
    let chosen = |other: Ordering| if x[1].partial_cmp(&x[0]) == Some(other) { args[1] } else { args[0] };
    let a = x[0];
    match m {
        Math::Min | Math::Max if a.hi.is_nan() => return args[1],
        Math::Min => return chosen(Ordering::Less),
        Math::Max => return chosen(Ordering::Greater),
        _ => {}
    }
    let result = match m {
        Math::Sin => a.sin(),
        Math::Cos => a.cos(),
        Math::Tan => a.tan(),
        Math::Asin => a.asin(),
        Math::Acos => a.acos(),
        Math::Atan => a.atan(),
        Math::Atan2 => a.atan2(x[1]),
        Math::Sinh => a.sinh(),
        Math::Cosh => a.cosh(),
        Math::Tanh => a.tanh(),
        Math::Asinh => a.asinh(),
        Math::Acosh => a.acosh(),
        Math::Atanh => a.atanh(),
        Math::Exp => a.exp(),
        Math::Exp2 => a.exp2(),
        Math::Log => a.log(),
        Math::Log2 => a.log2(),
        Math::Log10 => a.log10(),
        Math::Pow => a.pow(x[1]),
        Math::Sqrt => a.sqrt(),
        Math::Floor => a.floor(),
        Math::Ceil => -(-a).floor(),
        Math::Round => a.round(),
        Math::Trunc => a.trunc(),
        Math::Abs => a.abs(),
        Math::Fma => a * x[1] + x[2],
        Math::Min
        | Math::Max
        | Math::IsNan
        | Math::IsInf
        | Math::CountBits
        | Math::ReverseBits
        | Math::FirstBitLow
        | Math::FirstBitHigh => return plain,
    };
    result.into()
}
