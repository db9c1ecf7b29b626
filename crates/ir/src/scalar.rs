//! Defines the meaning of every scalar operation in one place: the interpreter, the constant folder of `opt`
//! and the runtime helpers of the JIT all call these functions, so they cannot disagree.
//!
//! A scalar is a `u64` of *canonical bits*: the value's own bits, zero-extended from its width
//! (`bool` is 0 or 1, `i8 -1` is `0xff`, `f32 1.0` is `0x3f80_0000`). Every function here takes and
//! gives canonical bits and is total:
//!
//! - integers wrap; `x / 0 = x`, `x % 0 = 0`, `MIN / -1 = MIN`, `MIN % -1 = 0`;
//! - shift amounts are taken modulo the width;
//! - float to integer truncates and saturates, NaN gives 0; anything to `bool` is `a != 0`;
//! - `f16` computes in `f32` and rounds after each operation (an integer converts to `f32` first);
//! - `min(a, b)` is `b < a || isnan(a) ? b : a`, `max(a, b)` is `b > a || isnan(a) ? b : a`: NaN loses, and
//!   of equal operands (including zeros of different sign) the first is taken;
//! - `sin`, `exp`, `pow` and similar functions are those of [`crate::library`].
//!
//! Which NaN an operation gives is not specified: two results that are both NaN count as equal.

use half::f16;

use crate::library;
use crate::ops::{Math, Op};
use crate::types::Scalar;

/// Cuts `bits` down to the width of `s`; `bool` to its lowest bit.
#[inline]
pub fn canonical(s: Scalar, bits: u64) -> u64 {
    match s {
        Scalar::Bool => bits & 1,
        Scalar::I8 | Scalar::U8 => bits as u8 as u64,
        Scalar::I16 | Scalar::U16 | Scalar::F16 => bits as u16 as u64,
        Scalar::I32 | Scalar::U32 | Scalar::F32 => bits as u32 as u64,
        Scalar::I64 | Scalar::U64 | Scalar::F64 => bits,
    }
}

/// The integer (or `bool`) that canonical bits stand for, sign-extended if the type is signed; a `u64` above
/// `i64::MAX` comes out negative.
#[inline]
pub fn to_i64(s: Scalar, bits: u64) -> i64 {
    match s {
        Scalar::I8 => bits as i8 as i64,
        Scalar::I16 => bits as i16 as i64,
        Scalar::I32 => bits as i32 as i64,
        _ => bits as i64,
    }
}

/// The integer that canonical bits stand for, exactly.
pub fn to_i128(s: Scalar, bits: u64) -> i128 {
    if s.is_signed_int() { to_i64(s, bits) as i128 } else { bits as i128 }
}

/// Canonical bits of an integer, wrapped to the type.
#[inline]
pub fn from_i64(s: Scalar, value: i64) -> u64 {
    canonical(s, value as u64)
}

/// The index below `len` that an integer stands for; `None` if it is negative or too large.
#[inline]
pub fn index(s: Scalar, bits: u64, len: usize) -> Option<usize> {
    if s.is_signed_int() && to_i64(s, bits) < 0 {
        return None;
    }
    (bits < len as u64).then_some(bits as usize)
}

/// Converts the bits of an `f16` to `f32`.
#[inline]
pub fn f16_to_f32(bits: u64) -> f32 {
    f16::from_bits(bits as u16).to_f32()
}

/// Rounds `x` to `f16` and returns its bits.
#[inline]
pub fn f32_to_f16(x: f32) -> u64 {
    f16::from_f32(x).to_bits() as u64
}

/// The float that canonical bits stand for, exactly.
#[inline]
pub fn to_f64(s: Scalar, bits: u64) -> f64 {
    match s {
        Scalar::F16 => f16_to_f32(bits) as f64,
        Scalar::F32 => f32::from_bits(bits as u32) as f64,
        _ => f64::from_bits(bits),
    }
}

/// Canonical bits of `x` rounded once to the float type `s`.
#[inline]
pub fn from_f64(s: Scalar, x: f64) -> u64 {
    match s {
        Scalar::F16 => u64::from(half_of(x)),
        Scalar::F32 => (x as f32).to_bits() as u64,
        _ => x.to_bits(),
    }
}

/// The bits of the half nearest to `x`: to even in the middle. (`half` rounds to a float first on processors that
/// convert floats to halves.)
fn half_of(x: f64) -> u16 {
    let sign = (x.to_bits() >> 48) as u16 & 0x8000;
    let size = x.abs();
    sign | if x.is_nan() {
        0x7e00
    } else if size >= 65520.0 {
        0x7c00
    } else if size < f64::from(f16::MIN_POSITIVE) {
        // A multiple of the smallest half, 2^-24.
        (size * f64::from(1 << 24)).round_ties_even() as u16
    } else {
        let bits = size.to_bits();
        let rounded = bits + ((1 << 41) - 1) + ((bits >> 42) & 1);
        ((rounded >> 42) - ((1023 - 15) << 10)) as u16
    }
}

/// Returns true if the number is zero, `-0.0` included.
pub fn is_zero(s: Scalar, bits: u64) -> bool {
    if s.is_float() { to_f64(s, bits) == 0.0 } else { bits == 0 }
}

/// The bits of the number 1 in a type.
pub fn one(s: Scalar) -> u64 {
    if s.is_float() { from_f64(s, 1.0) } else { 1 }
}

/// Returns true if two results are the same: equal bits, or both NaN.
pub fn same(s: Scalar, a: u64, b: u64) -> bool {
    a == b || (s.is_float() && to_f64(s, a).is_nan() && to_f64(s, b).is_nan())
}

/// A mask of the sign bit of a float type.
fn sign(s: Scalar) -> u64 {
    1 << (s.bits() - 1)
}

/// Evaluates one of the two-operand ops `add sub mul div rem and or xor shl shr eq ne lt le gt ge`; the
/// comparisons give a `bool`. `None` for any other op and for ops that the type does not have.
pub fn binary(op: &Op, s: Scalar, a: u64, b: u64) -> Option<u64> {
    if let Op::Scale | Op::Unscale | Op::Mask = op {
        return differential(op, s, a, b);
    }
    match s {
        Scalar::F16 => float_binary(op, f16_to_f32(a), f16_to_f32(b)).map(|r| r.map_bits(f32_to_f16)),
        Scalar::F32 => float_binary(op, f32::from_bits(a as u32), f32::from_bits(b as u32))
            .map(|r| r.map_bits(|x| x.to_bits() as u64)),
        Scalar::F64 => {
            float_binary(op, f64::from_bits(a), f64::from_bits(b)).map(|r| r.map_bits(f64::to_bits))
        }
        _ => int_binary(op, s, a, b),
    }
}

/// A float, or the outcome of a comparison.
enum FloatResult<F> {
    Float(F),
    Bool(bool),
}

impl<F> FloatResult<F> {
    fn map_bits(self, bits: impl FnOnce(F) -> u64) -> u64 {
        match self {
            FloatResult::Float(x) => bits(x),
            FloatResult::Bool(b) => b as u64,
        }
    }
}

fn float_binary<F>(op: &Op, a: F, b: F) -> Option<FloatResult<F>>
where
    F: Copy
        + PartialOrd
        + std::ops::Add<Output = F>
        + std::ops::Sub<Output = F>
        + std::ops::Mul<Output = F>
        + std::ops::Div<Output = F>
        + std::ops::Rem<Output = F>,
{
    Some(match op {
        Op::Add => FloatResult::Float(a + b),
        Op::Sub => FloatResult::Float(a - b),
        Op::Mul => FloatResult::Float(a * b),
        Op::Div => FloatResult::Float(a / b),
        Op::Rem => FloatResult::Float(a % b),
        Op::Eq => FloatResult::Bool(a == b),
        Op::Ne => FloatResult::Bool(a != b),
        Op::Lt => FloatResult::Bool(a < b),
        Op::Le => FloatResult::Bool(a <= b),
        Op::Gt => FloatResult::Bool(a > b),
        Op::Ge => FloatResult::Bool(a >= b),
        _ => return None,
    })
}

fn int_binary(op: &Op, s: Scalar, a: u64, b: u64) -> Option<u64> {
    let signed = s.is_signed_int();
    let (ia, ib) = (to_i64(s, a), to_i64(s, b));
    let amount = (b & (s.bits() as u64 - 1)) as u32;
    if s == Scalar::Bool && matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem | Op::Shl | Op::Shr)
    {
        return None;
    }
    let bits = match op {
        Op::Add => a.wrapping_add(b),
        Op::Sub => a.wrapping_sub(b),
        Op::Mul => a.wrapping_mul(b),
        Op::Div if b == 0 => a,
        Op::Div if signed => ia.wrapping_div(ib) as u64,
        Op::Div => a / b,
        Op::Rem if b == 0 => 0,
        Op::Rem if signed => ia.wrapping_rem(ib) as u64,
        Op::Rem => a % b,
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Shl => a << amount,
        Op::Shr if signed => (ia >> amount) as u64,
        Op::Shr => a >> amount,
        Op::Eq => (a == b) as u64,
        Op::Ne => (a != b) as u64,
        Op::Lt => (if signed { ia < ib } else { a < b }) as u64,
        Op::Le => (if signed { ia <= ib } else { a <= b }) as u64,
        Op::Gt => (if signed { ia > ib } else { a > b }) as u64,
        Op::Ge => (if signed { ia >= ib } else { a >= b }) as u64,
        _ => return None,
    };
    Some(canonical(s, bits))
}

/// Returns true if a differential is absent, that is, the number -0.
pub fn is_absent(s: Scalar, bits: u64) -> bool {
    s.is_float() && bits == absent(s)
}

/// The bits of an absent differential.
pub fn absent(s: Scalar) -> u64 {
    sign(s)
}

/// Evaluates `scale`, `unscale` or `mask`: ops whose result is absent where `a` is absent.
fn differential(op: &Op, s: Scalar, a: u64, b: u64) -> Option<u64> {
    if !s.is_float() {
        return None;
    }
    if is_absent(s, a) {
        return Some(a);
    }
    match op {
        Op::Scale => binary(&Op::Add, s, binary(&Op::Mul, s, a, b)?, 0),
        Op::Unscale => binary(&Op::Add, s, binary(&Op::Div, s, a, b)?, 0),
        _ => Some(b),
    }
}

/// Evaluates `neg`, `not` or `present`. `None` for any other op and for ops that the type does not have.
pub fn unary(op: &Op, s: Scalar, a: u64) -> Option<u64> {
    match op {
        Op::Neg if s.is_float() => Some(a ^ sign(s)),
        Op::Present if s.is_float() => binary(&Op::Add, s, a, 0),
        Op::Neg if s.is_int() => Some(canonical(s, a.wrapping_neg())),
        Op::Not if !s.is_float() => Some(canonical(s, !a)),
        _ => None,
    }
}

/// Returns true if a math function is defined for a scalar type.
pub fn has_math(m: Math, s: Scalar) -> bool {
    match m {
        Math::Min | Math::Max | Math::Abs => s != Scalar::Bool,
        Math::CountBits | Math::ReverseBits | Math::FirstBitLow | Math::FirstBitHigh => s.is_int(),
        _ => s.is_float(),
    }
}

/// Evaluates a math function on `m.arity()` operands of type `s`; `is_nan` and `is_inf` give a `bool`. `None`
/// if the type does not have the function.
pub fn math(m: Math, s: Scalar, args: &[u64]) -> Option<u64> {
    if !has_math(m, s) || args.len() != m.arity() {
        return None;
    }
    let arg = |idx: usize| args.get(idx).copied().unwrap_or(0);
    let (a, b, c) = (arg(0), arg(1), arg(2));
    Some(match s {
        _ if m == Math::IsNan => to_f64(s, a).is_nan() as u64,
        _ if m == Math::IsInf => to_f64(s, a).is_infinite() as u64,
        _ if m == Math::Abs && s.is_float() => a & !sign(s),
        Scalar::F16 => f32_to_f16(math_f32(m, f16_to_f32(a), f16_to_f32(b), f16_to_f32(c))),
        Scalar::F32 => {
            let [a, b, c] = [a, b, c].map(|x| f32::from_bits(x as u32));
            math_f32(m, a, b, c).to_bits() as u64
        }
        Scalar::F64 => {
            let [a, b, c] = [a, b, c].map(f64::from_bits);
            math_f64(m, a, b, c).to_bits()
        }
        _ => int_math(m, s, a, b),
    })
}

fn int_math(m: Math, s: Scalar, a: u64, b: u64) -> u64 {
    let (signed, ia, ib) = (s.is_signed_int(), to_i64(s, a), to_i64(s, b));
    let bits = match m {
        Math::Min => {
            if (signed && ib < ia) || (!signed && b < a) {
                b
            } else {
                a
            }
        }
        Math::Max => {
            if (signed && ib > ia) || (!signed && b > a) {
                b
            } else {
                a
            }
        }
        Math::Abs if signed => ia.wrapping_abs() as u64,
        Math::Abs => a,
        Math::CountBits => a.count_ones() as u64,
        Math::ReverseBits => a.reverse_bits() >> (64 - s.bits()),
        Math::FirstBitLow if a == 0 => u64::MAX,
        Math::FirstBitLow => a.trailing_zeros() as u64,
        Math::FirstBitHigh => {
            let x = if signed && ia < 0 { canonical(s, !a) } else { a };
            if x == 0 { u64::MAX } else { 63 - x.leading_zeros() as u64 }
        }
        _ => 0,
    };
    canonical(s, bits)
}

macro_rules! float_math {
    ($(#[$doc:meta])* $name:ident, $float:ident, $function:ident) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(m: Math, a: $float, b: $float, c: $float) -> $float {
            match m {
                Math::Sqrt => a.sqrt(),
                Math::Floor => a.floor(),
                Math::Ceil => a.ceil(),
                Math::Round => a.round_ties_even(),
                Math::Trunc => a.trunc(),
                Math::Min => if b < a || a.is_nan() { b } else { a },
                Math::Max => if b > a || a.is_nan() { b } else { a },
                Math::Abs => a.abs(),
                Math::Fma => a.mul_add(b, c),
                Math::IsNan => a.is_nan() as u8 as $float,
                Math::IsInf => a.is_infinite() as u8 as $float,
                Math::CountBits | Math::ReverseBits | Math::FirstBitLow | Math::FirstBitHigh => 0.0,
                _ => library::$function(m, a, b),
            }
        }
    };
}

float_math! {
    /// Evaluates a math function at `f32`; operands past its arity are ignored. `f16` computes here too.
    /// (`is_nan` and `is_inf` give 0 or 1, the integer functions 0: [`math`] handles those.)
    math_f32, f32, single
}
float_math! {
    /// Evaluates a math function at `f64`, as [`math_f32`] does at `f32`.
    math_f64, f64, double
}

/// Converts the number `bits` of type `from` to the type `to`.
pub fn convert(from: Scalar, to: Scalar, bits: u64) -> u64 {
    if from == to {
        return bits;
    }
    if to == Scalar::Bool {
        return !is_zero(from, bits) as u64;
    }
    if from.is_float() {
        // f16 and f32 are exact in f64, so one path serves all floats with a single rounding or saturation.
        let x = to_f64(from, bits);
        return match to {
            Scalar::I8 => x as i8 as u8 as u64,
            Scalar::I16 => x as i16 as u16 as u64,
            Scalar::I32 => x as i32 as u32 as u64,
            Scalar::I64 => x as i64 as u64,
            Scalar::U8 => x as u8 as u64,
            Scalar::U16 => x as u16 as u64,
            Scalar::U32 => x as u32 as u64,
            Scalar::U64 => x as u64,
            Scalar::Bool | Scalar::F16 | Scalar::F32 | Scalar::F64 => from_f64(to, x),
        };
    }
    let (signed, i) = (from.is_signed_int(), to_i64(from, bits));
    match to {
        Scalar::F64 => (if signed { i as f64 } else { bits as f64 }).to_bits(),
        Scalar::F32 => (if signed { i as f32 } else { bits as f32 }).to_bits() as u64,
        Scalar::F16 => f32_to_f16(if signed { i as f32 } else { bits as f32 }),
        _ => from_i64(to, i),
    }
}

/// Evaluates any elementwise op on one lane: operands of type `from` (for `select`: the arms' type, after the
/// `bool`), result of type `to`. `None` if the op is not elementwise or the type does not have it.
pub fn elementwise(op: &Op, from: Scalar, to: Scalar, args: &[u64]) -> Option<u64> {
    match (op, args) {
        (Op::Convert, &[a]) => Some(convert(from, to, a)),
        (Op::Bitcast, &[a]) => (from.bits() == to.bits()).then(|| canonical(to, a)),
        (Op::Detach, &[a]) => Some(a),
        (Op::Select, &[c, a, b]) => Some(if c != 0 { a } else { b }),
        (Op::Math(m), _) => math(*m, from, args),
        (_, &[a]) => unary(op, from, a),
        (_, &[a, b]) => binary(op, from, a, b),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin(op: Op, s: Scalar, a: i64, b: i64) -> i64 {
        to_i64(s, binary(&op, s, from_i64(s, a), from_i64(s, b)).expect("defined"))
    }

    #[test]
    fn doubles_are_rounded_to_halves_once() {
        for bits in 0..0x7bffu16 {
            let [low, high] = [bits, bits + 1].map(|bits| f16::from_bits(bits).to_f64());
            let middle = (low + high) / 2.0;
            let even = if bits % 2 == 0 { bits } else { bits + 1 };
            for (x, wanted) in [(middle.next_down(), bits), (middle, even), (middle.next_up(), bits + 1)] {
                assert_eq!(from_f64(Scalar::F16, x), u64::from(wanted), "{x:e}");
                assert_eq!(from_f64(Scalar::F16, -x), u64::from(wanted | 0x8000), "{x:e}");
            }
        }
        let of = |x: f64| from_f64(Scalar::F16, x);
        assert_eq!(
            [of(65519.999), of(65520.0), of(f64::INFINITY), of(-0.0)],
            [0x7bff, 0x7c00, 0x7c00, 0x8000]
        );
        assert!(f16::from_bits(of(f64::NAN) as u16).is_nan());
    }

    #[test]
    fn integers_are_total() {
        assert_eq!(bin(Op::Div, Scalar::I8, -128, -1), -128);
        assert_eq!(bin(Op::Rem, Scalar::I32, i32::MIN as i64, -1), 0);
        assert_eq!(bin(Op::Div, Scalar::I64, i64::MIN, -1), i64::MIN);
        assert_eq!(bin(Op::Div, Scalar::I32, 7, 0), 7);
        assert_eq!(bin(Op::Rem, Scalar::U32, 7, 0), 0);
        assert_eq!(bin(Op::Div, Scalar::I32, -7, 2), -3);
        assert_eq!(bin(Op::Rem, Scalar::I32, -7, 2), -1);
        assert_eq!(bin(Op::Shl, Scalar::I32, 1, 33), 2);
        assert_eq!(bin(Op::Shr, Scalar::I8, -2, 1), -1);
        assert_eq!(bin(Op::Shr, Scalar::U8, 254, 9), 127);
        assert_eq!(bin(Op::Add, Scalar::U8, 250, 10), 4);
        assert_eq!(bin(Op::Lt, Scalar::I16, -1, 0), 1);
        assert_eq!(bin(Op::Lt, Scalar::U16, -1, 0), 0);
        assert_eq!(binary(&Op::Add, Scalar::Bool, 1, 1), None);
        assert_eq!(unary(&Op::Not, Scalar::Bool, 1), Some(0));
        assert_eq!(index(Scalar::I32, from_i64(Scalar::I32, -1), 4), None);
        assert_eq!(index(Scalar::U8, 3, 4), Some(3));
    }

    #[test]
    fn conversions_saturate() {
        let f = |x: f32| x.to_bits() as u64;
        assert_eq!(convert(Scalar::F32, Scalar::I8, f(1000.0)), 127);
        assert_eq!(convert(Scalar::F32, Scalar::U32, f(-1.0)), 0);
        assert_eq!(convert(Scalar::F32, Scalar::I32, f(f32::NAN)), 0);
        assert_eq!(convert(Scalar::F32, Scalar::Bool, f(-0.0)), 0);
        assert_eq!(convert(Scalar::F32, Scalar::Bool, f(f32::NAN)), 1);
        assert_eq!(convert(Scalar::I8, Scalar::U32, 0xff), 0xffff_ffff);
        assert_eq!(convert(Scalar::U64, Scalar::F32, u64::MAX), f(1.8446744e19));
        assert_eq!(convert(Scalar::I32, Scalar::F16, 1), 0x3c00);
        assert_eq!(convert(Scalar::F16, Scalar::F64, 0xbc00), (-1.0f64).to_bits());
    }

    #[test]
    fn floats_and_bits() {
        let m = |m, s, a: &[u64]| math(m, s, a).expect("defined");
        let f = |x: f32| x.to_bits() as u64;
        assert_eq!(m(Math::Min, Scalar::F32, &[f(f32::NAN), f(2.0)]), f(2.0));
        assert_eq!(m(Math::Max, Scalar::F32, &[f(2.0), f(f32::NAN)]), f(2.0));
        assert_eq!(m(Math::Max, Scalar::F32, &[f(-0.0), f(0.0)]), f(-0.0));
        assert_eq!(m(Math::Round, Scalar::F64, &[2.5f64.to_bits()]), 2.0f64.to_bits());
        assert_eq!(m(Math::FirstBitHigh, Scalar::I32, &[0xffff_fffe]), 0);
        assert_eq!(m(Math::FirstBitHigh, Scalar::I32, &[0xffff_ffff]), 0xffff_ffff);
        assert_eq!(m(Math::FirstBitHigh, Scalar::U32, &[0xffff_ffff]), 31);
        assert_eq!(m(Math::FirstBitLow, Scalar::U8, &[0]), 0xff);
        assert_eq!(m(Math::ReverseBits, Scalar::U8, &[1]), 0x80);
        assert_eq!(m(Math::Abs, Scalar::I8, &[0x80]), 0x80);
        assert_eq!(m(Math::IsInf, Scalar::F16, &[0x7c00]), 1);
        assert_eq!(math(Math::Sin, Scalar::I32, &[1]), None);
        // 2048 + 1 is not representable in half precision: it rounds to even.
        let h = |x: f32| f32_to_f16(x);
        assert_eq!(binary(&Op::Add, Scalar::F16, h(2048.0), h(1.0)), Some(h(2048.0)));
        assert_eq!(elementwise(&Op::Bitcast, Scalar::F32, Scalar::U32, &[f(1.0)]), Some(0x3f80_0000));
    }
}
