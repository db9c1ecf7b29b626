//! Emits the exact remainder of two floats: `a - b trunc(a / b)`, as if computed with all digits.
//!
//! The largest `b 2^n` that is at most the current remainder is subtracted, until the remainder is less than
//! `b`. Each difference is exact, since the two numbers are within a factor of two of each other, so it does
//! not matter whether operations are fused. A subnormal divisor is handled in two steps, first with a
//! multiple of it, so that `n` follows from exponents.

use ir::build::{Builder, float_bits};
use ir::{LoopInfo, Math, Op, Scalar, Type, Value};

/// The binary format of a float type.
struct Format {
    float: Scalar,
    integer: Scalar,
    /// The number of bits of the fraction.
    fraction: u32,
    bias: i64,
    least_normal: f64,
}

fn format(s: Scalar) -> Format {
    match s {
        Scalar::F64 => Format {
            float: s,
            integer: Scalar::I64,
            fraction: 52,
            bias: 1023,
            least_normal: f64::MIN_POSITIVE,
        },
        _ => Format {
            float: Scalar::F32,
            integer: Scalar::I32,
            fraction: 23,
            bias: 127,
            least_normal: f32::MIN_POSITIVE as f64,
        },
    }
}

/// Emits the remainder of two numbers of type `f32` or `f64`.
pub(super) fn remainder(b: &mut Builder<'_>, s: Scalar, x: Value, y: Value) -> Value {
    let format = format(s);
    let float = |b: &mut Builder<'_>, x: f64| b.constant(format.float, float_bits(format.float, x));
    let (zero, one, infinity) = (float(b, 0.0), float(b, 1.0), float(b, f64::INFINITY));
    let (a, d) = (b.emit(Op::Math(Math::Abs), &[x]), b.emit(Op::Math(Math::Abs), &[y]));
    let (some, finite, fits) =
        (b.emit(Op::Lt, &[zero, d]), b.emit(Op::Lt, &[a, infinity]), b.emit(Op::Lt, &[d, infinity]));
    let good = b.emit(Op::And, &[some, finite]);
    let runs = b.emit(Op::And, &[good, fits]);
    let r = b.emit(Op::Select, &[runs, a, zero]);
    let d = b.emit(Op::Select, &[runs, d, one]);
    let least = float(b, format.least_normal);
    let tiny = b.emit(Op::Lt, &[d, least]);
    let up = float(b, 2.0f64.powi(format.fraction as i32 + 2));
    let down = float(b, 2.0f64.powi(-(format.fraction as i32) - 2));
    let (up, down) = (b.emit(Op::Select, &[tiny, up, one]), b.emit(Op::Select, &[tiny, down, one]));
    let large = b.emit(Op::Mul, &[d, up]);
    let r = reduce(b, &format, r, large);
    let r = b.emit(Op::Mul, &[r, up]);
    let r = reduce(b, &format, r, large);
    let r = b.emit(Op::Mul, &[r, down]);
    // The sign of the remainder is that of the dividend.
    let integer: Type = format.integer.into();
    let (bits, sign) = (b.emit_typed(Op::Bitcast, &[r], integer), b.emit_typed(Op::Bitcast, &[x], integer));
    let top = b.constant(format.integer, 1 << (format.integer.bits() - 1));
    let sign = b.emit(Op::And, &[sign, top]);
    let bits = b.emit(Op::Or, &[bits, sign]);
    let r = b.emit_typed(Op::Bitcast, &[bits], format.float.into());
    // An infinite divisor leaves the dividend; a divisor of 0 or an infinite dividend gives NaN.
    let all = b.emit(Op::Eq, &[y, infinity]);
    let minus = float(b, f64::NEG_INFINITY);
    let below = b.emit(Op::Eq, &[y, minus]);
    let all = b.emit(Op::Or, &[all, below]);
    let r = b.emit(Op::Select, &[all, x, r]);
    let nan = float(b, f64::NAN);
    let number = b.emit(Op::Eq, &[y, y]);
    let good = b.emit(Op::And, &[good, number]);
    b.emit(Op::Select, &[good, r, nan])
}

/// Reduces `r` modulo `d`; neither is negative, and `d` is a normal number.
fn reduce(b: &mut Builder<'_>, format: &Format, r: Value, d: Value) -> Value {
    let integer: Type = format.integer.into();
    let int = |b: &mut Builder<'_>, n: i64| {
        b.constant(format.integer, n as u64 & (u64::MAX >> (64 - format.integer.bits())))
    };
    let (fraction, bias) = (int(b, format.fraction as i64), int(b, format.bias));
    let (none, one) = (int(b, 0), int(b, 1));
    let half = b.float(format.float, 0.5);
    let of_d = b.emit_typed(Op::Bitcast, &[d], integer);
    let of_d = b.emit(Op::Shr, &[of_d, fraction]);
    let body = b.open();
    let r_in = b.region_param(format.float.into());
    let of_r = b.emit_typed(Op::Bitcast, &[r_in], integer);
    let of_r = b.emit(Op::Shr, &[of_r, fraction]);
    let n = b.emit(Op::Sub, &[of_r, of_d]);
    let n = b.emit(Op::Math(Math::Max), &[n, none]);
    // Multiply in two steps, since a single power may overflow.
    let first = b.emit(Op::Shr, &[n, one]);
    let rest = b.emit(Op::Sub, &[n, first]);
    let mut t = d;
    for n in [first, rest] {
        let n = b.emit(Op::Add, &[n, bias]);
        let n = b.emit(Op::Shl, &[n, fraction]);
        let power = b.emit_typed(Op::Bitcast, &[n], format.float.into());
        t = b.emit(Op::Mul, &[t, power]);
    }
    let over = b.emit(Op::Gt, &[t, r_in]);
    let halved = b.emit(Op::Mul, &[t, half]);
    let t = b.emit(Op::Select, &[over, halved, t]);
    let some = b.emit(Op::Le, &[d, r_in]);
    let less = b.emit(Op::Sub, &[r_in, t]);
    let next = b.emit(Op::Select, &[some, less, r_in]);
    let again = b.emit(Op::Le, &[d, next]);
    // The loop ends even where a device flushes subnormal numbers to zero.
    let moves = b.emit(Op::Lt, &[next, r_in]);
    let again = b.emit(Op::And, &[again, moves]);
    b.close(vec![again, next]);
    b.nest(Op::Loop(LoopInfo::default()), &[r], &[body])[0]
}
