//! Emits arithmetic, comparisons, conversions and mathematical functions, component by component.
//!
//! `ir::scalar` defines the meaning of each op. Instructions that are only partially defined are guarded
//! here: divisors are made harmless.

use ir::{Math, Op, Scalar, Span, Typing, scalar};

use super::{Assembler, Binary, Cast, Compare, Res, Unary, Vals, notes};
use crate::profile::Event;
use crate::runtime::Helper;

/// Emits one component of an elementwise op.
pub fn component<'m, A: Assembler<'m>>(
    e: &mut A,
    op: &Op,
    from: Scalar,
    to: Scalar,
    args: &[A::V],
    span: Span,
) -> Res<'m, A, A::V> {
    let a = args[0];
    Ok(match op {
        Op::Neg => match from {
            Scalar::F32 | Scalar::F64 => e.unary(Unary::NegF, a),
            Scalar::F16 => {
                let sign = e.constant(Scalar::U16, 0x8000);
                e.binary(Binary::Xor, a, sign)
            }
            _ => e.unary(Unary::Neg, a),
        },
        Op::Not if from == Scalar::Bool => not(e, a),
        Op::Not => e.unary(Unary::Not, a),
        Op::Convert => convert(e, from, to, a),
        Op::Bitcast if has_float(from) == has_float(to) => a,
        Op::Bitcast => e.cast(Cast::Bits, a, to),
        Op::Math(m) => math(e, *m, from, args, span)?,
        _ => combine(e, op, from, a, args[1], span)?,
    })
}

/// Returns true if registers of floats hold numbers of this kind.
fn has_float(s: Scalar) -> bool {
    matches!(s, Scalar::F32 | Scalar::F64)
}

/// Emits the negation of a truth value.
pub fn not<'m, A: Assembler<'m>>(e: &mut A, a: A::V) -> A::V {
    let yes = e.constant(Scalar::Bool, 1);
    e.binary(Binary::Xor, a, yes)
}

/// Emits an op on two numbers of the same kind.
pub fn combine<'m, A: Assembler<'m>>(
    e: &mut A,
    op: &Op,
    s: Scalar,
    a: A::V,
    b: A::V,
    span: Span,
) -> Res<'m, A, A::V> {
    match s {
        Scalar::F16 => {
            let (a, b) = (e.widen(a), e.widen(b));
            let r = combine_floats(e, op, Scalar::F32, a, b, span)?;
            Ok(if op.spec().typing == Typing::Compare { r } else { e.narrow(r) })
        }
        Scalar::F32 | Scalar::F64 => combine_floats(e, op, s, a, b, span),
        _ => combine_integers(e, op, s, a, b, span),
    }
}

fn combine_floats<'m, A: Assembler<'m>>(
    e: &mut A,
    op: &Op,
    s: Scalar,
    a: A::V,
    b: A::V,
    span: Span,
) -> Res<'m, A, A::V> {
    let compare = match op {
        Op::Add => return Ok(e.binary(Binary::AddF, a, b)),
        Op::Sub => return Ok(e.binary(Binary::SubF, a, b)),
        Op::Mul => return Ok(e.binary(Binary::MulF, a, b)),
        Op::Div => return Ok(e.binary(Binary::DivF, a, b)),
        Op::Rem => {
            let helper = if s == Scalar::F64 { Helper::RemDouble } else { Helper::RemSingle };
            return Ok(e.by_lane(s, &[a, b], |e, args| e.helper_value(helper, args)));
        }
        Op::Eq => Compare::EqualF,
        Op::Ne => Compare::NotEqualF,
        Op::Lt => Compare::LessF,
        Op::Le => Compare::LessOrEqualF,
        Op::Gt => Compare::MoreF,
        Op::Ge => Compare::MoreOrEqualF,
        _ => return e.unsupported(op, "on floats", span),
    };
    Ok(e.compare(compare, a, b))
}

fn combine_integers<'m, A: Assembler<'m>>(
    e: &mut A,
    op: &Op,
    s: Scalar,
    a: A::V,
    b: A::V,
    span: Span,
) -> Res<'m, A, A::V> {
    let signed = s.is_signed_int();
    let compare = match op {
        Op::And => return Ok(e.binary(Binary::And, a, b)),
        Op::Or => return Ok(e.binary(Binary::Or, a, b)),
        Op::Xor => return Ok(e.binary(Binary::Xor, a, b)),
        Op::Eq => Compare::Equal,
        Op::Ne => Compare::NotEqual,
        Op::Lt if signed => Compare::LessSigned,
        Op::Le if signed => Compare::LessOrEqualSigned,
        Op::Gt if signed => Compare::MoreSigned,
        Op::Ge if signed => Compare::MoreOrEqualSigned,
        Op::Lt => Compare::LessUnsigned,
        Op::Le => Compare::LessOrEqualUnsigned,
        Op::Gt => Compare::MoreUnsigned,
        Op::Ge => Compare::MoreOrEqualUnsigned,
        _ if s == Scalar::Bool => return e.unsupported(op, "on bool", span),
        Op::Add => return Ok(e.binary(Binary::Add, a, b)),
        Op::Sub => return Ok(e.binary(Binary::Sub, a, b)),
        Op::Mul => return Ok(e.binary(Binary::Mul, a, b)),
        Op::Div | Op::Rem => return Ok(divide(e, op, s, a, b)),
        Op::Shl => return Ok(e.binary(Binary::Shl, a, b)),
        Op::Shr if signed => return Ok(e.binary(Binary::ShrSigned, a, b)),
        Op::Shr => return Ok(e.binary(Binary::ShrUnsigned, a, b)),
        _ => return e.unsupported(op, "on integers", span),
    };
    Ok(e.compare(compare, a, b))
}

/// Extends an integer to the kind `wide`, of 32 bits, if the assembler cannot work on fewer; returns its
/// kind, too.
fn at_least_32<'m, A: Assembler<'m>>(e: &mut A, s: Scalar, wide: Scalar, a: A::V) -> (Scalar, A::V) {
    if s.bits() >= A::LEAST_BITS {
        return (s, a);
    }
    (wide, e.extend(wide, wide.is_signed_int(), a))
}

/// Emits a division with `x / 0 = x`, `x % 0 = 0`, `MIN / -1 = MIN` and `MIN % -1 = 0`. Replacing those
/// divisors by 1 gives the right result in the first two cases and the last; a quotient by -1 is the negation.
fn divide<'m, A: Assembler<'m>>(e: &mut A, op: &Op, s: Scalar, a: A::V, b: A::V) -> A::V {
    let signed = s.is_signed_int();
    let name = match (op, signed) {
        (Op::Div, true) => Binary::DivSigned,
        (Op::Div, false) => Binary::DivUnsigned,
        (_, true) => Binary::RemSigned,
        (_, false) => Binary::RemUnsigned,
    };
    if e.constant_of(b).is_some_and(|n| n != 0 && !(signed && scalar::to_i64(s, n) == -1)) {
        return e.binary(name, a, b);
    }
    let wide = if signed { Scalar::I32 } else { Scalar::U32 };
    let ((wide, a), (_, b)) = (at_least_32(e, s, wide, a), at_least_32(e, s, wide, b));
    let (zero, one) = (e.constant(wide, 0), e.constant(wide, 1));
    let is_zero = e.compare(Compare::Equal, b, zero);
    let mut by = e.select(is_zero, one, b);
    let mut is_minus = None;
    if signed {
        let minus_one = e.constant(wide, u64::MAX >> (64 - wide.bits()));
        let is = e.compare(Compare::Equal, b, minus_one);
        by = e.select(is, one, by);
        is_minus = Some(is).filter(|_| *op == Op::Div);
    }
    let mut r = e.binary(name, a, by);
    if let Some(is_minus) = is_minus {
        let negated = e.unary(Unary::Neg, a);
        r = e.select(is_minus, negated, r);
    }
    if wide == s { r } else { e.cast(Cast::Truncate, r, s) }
}

/// Converts a number to another kind.
fn convert<'m, A: Assembler<'m>>(e: &mut A, from: Scalar, to: Scalar, a: A::V) -> A::V {
    if from == to {
        return a;
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => match (from, to) {
            (Scalar::F16, Scalar::F32) => e.widen(a),
            (Scalar::F16, _) => {
                let a = e.widen(a);
                e.cast(Cast::Promote, a, to)
            }
            (Scalar::F32, Scalar::F16) => e.narrow(a),
            (Scalar::F32, _) => e.cast(Cast::Promote, a, to),
            (_, Scalar::F16) => e.by_lane(Scalar::U16, &[a], |e, args| {
                let bits = e.helper_value(Helper::DoubleToHalf, args);
                e.cast(Cast::Truncate, bits, Scalar::U16)
            }),
            (_, _) => e.cast(Cast::Demote, a, to),
        },
        (true, false) => {
            let (from, a) = if from == Scalar::F16 { (Scalar::F32, e.widen(a)) } else { (from, a) };
            if to == Scalar::Bool {
                let zero = e.constant(from, 0);
                return e.compare(Compare::NotEqualF, a, zero);
            }
            e.float_to_int(a, to)
        }
        (false, true) => {
            let signed = from.is_signed_int();
            let wide = if signed { Scalar::I32 } else { Scalar::U32 };
            let (_, a) = at_least_32(e, from, wide, a);
            let cast = if signed { Cast::OfSigned } else { Cast::OfUnsigned };
            if to == Scalar::F16 {
                let x = e.cast(cast, a, Scalar::F32);
                return e.narrow(x);
            }
            e.cast(cast, a, to)
        }
        (false, false) => {
            if to == Scalar::Bool {
                let zero = e.constant(from, 0);
                return e.compare(Compare::NotEqual, a, zero);
            }
            match A::register_bits(from).cmp(&A::register_bits(to)) {
                std::cmp::Ordering::Equal => a,
                std::cmp::Ordering::Greater => e.cast(Cast::Truncate, a, to),
                std::cmp::Ordering::Less => e.extend(to, from.is_signed_int(), a),
            }
        }
    }
}

/// Emits a math function of numbers of one kind.
fn math<'m, A: Assembler<'m>>(e: &mut A, m: Math, s: Scalar, args: &[A::V], span: Span) -> Res<'m, A, A::V> {
    if !scalar::has_math(m, s) {
        return e.unsupported(&Op::Math(m), s.name(), span);
    }
    match s {
        Scalar::F16 if m == Math::Abs => {
            let mask = e.constant(Scalar::U16, 0x7fff);
            Ok(e.binary(Binary::And, args[0], mask))
        }
        Scalar::F16 => {
            let wide: Vals<A::V> = args.iter().map(|&a| e.widen(a)).collect();
            let r = math_of_floats(e, m, Scalar::F32, &wide);
            Ok(if matches!(m, Math::IsNan | Math::IsInf) { r } else { e.narrow(r) })
        }
        Scalar::F32 | Scalar::F64 => Ok(math_of_floats(e, m, s, args)),
        _ => math_of_integers(e, m, s, args, span),
    }
}

fn math_of_floats<'m, A: Assembler<'m>>(e: &mut A, m: Math, s: Scalar, args: &[A::V]) -> A::V {
    let a = args[0];
    match m {
        Math::Min | Math::Max => {
            let compare = if m == Math::Min { Compare::LessF } else { Compare::MoreF };
            let better = e.compare(compare, args[1], a);
            let nan = e.compare(Compare::UnorderedF, a, a);
            let second = e.binary(Binary::Or, better, nan);
            e.select(second, args[1], a)
        }
        Math::IsNan => e.compare(Compare::UnorderedF, a, a),
        Math::IsInf => {
            let infinity = e.constant(s, scalar::from_f64(s, f64::INFINITY));
            let size = math_of_floats(e, Math::Abs, s, &[a]);
            e.compare(Compare::EqualF, size, infinity)
        }
        _ => match e.math_instruction(m, args) {
            Some(r) => r,
            None => {
                notes::event(e, Event::Mathematics, 1);
                e.math_call(m, s, args)
            }
        },
    }
}

fn math_of_integers<'m, A: Assembler<'m>>(
    e: &mut A,
    m: Math,
    s: Scalar,
    args: &[A::V],
    span: Span,
) -> Res<'m, A, A::V> {
    let (signed, a) = (s.is_signed_int(), args[0]);
    Ok(match m {
        Math::Min | Math::Max => {
            let compare = match (m == Math::Min, signed) {
                (true, true) => Compare::LessSigned,
                (true, false) => Compare::LessUnsigned,
                (false, true) => Compare::MoreSigned,
                (false, false) => Compare::MoreUnsigned,
            };
            let second = e.compare(compare, args[1], a);
            e.select(second, args[1], a)
        }
        Math::Abs if signed => {
            let zero = e.constant(s, 0);
            let below = e.compare(Compare::LessSigned, a, zero);
            let negated = e.unary(Unary::Neg, a);
            e.select(below, negated, a)
        }
        Math::Abs => a,
        Math::CountBits => e.unary(Unary::CountBits, a),
        Math::ReverseBits => e.unary(Unary::ReverseBits, a),
        Math::FirstBitLow | Math::FirstBitHigh => {
            let mut x = a;
            if m == Math::FirstBitHigh && signed {
                let last = e.constant(s, u64::from(s.bits()) - 1);
                let sign = e.binary(Binary::ShrSigned, a, last);
                x = e.binary(Binary::Xor, a, sign);
            }
            let (wide, x) = at_least_32(e, s, Scalar::U32, x);
            let bits = wide.bits();
            let zero = e.constant(wide, 0);
            let none = e.compare(Compare::Equal, x, zero);
            let at = if m == Math::FirstBitLow {
                e.unary(Unary::TrailingZeros, x)
            } else {
                let last = e.constant(wide, u64::from(bits) - 1);
                let zeros = e.unary(Unary::LeadingZeros, x);
                e.binary(Binary::Sub, last, zeros)
            };
            let all = e.constant(wide, u64::MAX >> (64 - bits));
            let at = e.select(none, all, at);
            if wide == s { at } else { e.cast(Cast::Truncate, at, s) }
        }
        _ => return e.unsupported(&Op::Math(m), s.name(), span),
    })
}
