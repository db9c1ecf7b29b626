//! The operations on numbers as the description of PTX defines them. A number is represented by its bits, and
//! the rest of the 64 bits are zero.

use ir::Scalar;
use ir::scalar;

use super::parse::Ty;

/// Truncates a number to the bits of its type.
pub(super) fn cut(x: u64, bits: u32) -> u64 {
    if bits >= 64 { x } else { x & ((1 << bits) - 1) }
}

/// Sign-extends a number.
pub(super) fn signed(x: u64, bits: u32) -> i64 {
    let unused = 64 - bits;
    ((x << unused) as i64) >> unused
}

fn f32_of(x: u64) -> f32 {
    f32::from_bits(x as u32)
}

fn f64_of(x: u64) -> f64 {
    f64::from_bits(x)
}

pub(super) fn half_of(x: u64) -> f64 {
    f64::from_bits(scalar::convert(Scalar::F16, Scalar::F64, x))
}

fn half_bits(x: f64) -> u64 {
    scalar::convert(Scalar::F64, Scalar::F16, x.to_bits())
}

/// An operation on floats, rounded once; on halves it is computed in doubles, where the operation is exact or
/// nearly so.
fn float(bits: u32, x: u64, y: u64, f: impl Fn(f32, f32) -> f32, d: impl Fn(f64, f64) -> f64) -> u64 {
    match bits {
        16 => half_bits(d(half_of(x), half_of(y))),
        32 => u64::from(f(f32_of(x), f32_of(y)).to_bits()),
        _ => d(f64_of(x), f64_of(y)).to_bits(),
    }
}

/// A product and a sum, rounded once; halves are computed in doubles, where the product is exact.
pub(super) fn fma(bits: u32, x: u64, y: u64, z: u64) -> u64 {
    match bits {
        16 => half_bits(half_of(x).mul_add(half_of(y), half_of(z))),
        32 => u64::from(f32_of(x).mul_add(f32_of(y), f32_of(z)).to_bits()),
        _ => f64_of(x).mul_add(f64_of(y), f64_of(z)).to_bits(),
    }
}

/// An operation on both halves of registers (`f16x2`); `None` if it is not known.
pub(super) fn in_halves(op: &str, args: &[u64]) -> Option<u64> {
    let half = |k: u32| {
        let part = |x: u64| cut(x >> (16 * k), 16);
        match *args {
            [x] => unary(op, Ty('f', 16), part(x)),
            [x, y] => binary(op, Ty('f', 16), part(x), part(y)),
            [x, y, z] if op == "fma" => Some(fma(16, part(x), part(y), part(z))),
            _ => None,
        }
    };
    Some(half(0)? | half(1)? << 16)
}

/// An operation with two operands; `None` if it is not known.
pub(super) fn binary(op: &str, ty: Ty, x: u64, y: u64) -> Option<u64> {
    let Ty(kind, bits) = ty;
    if kind == 'f' {
        return Some(match op {
            "add" => float(bits, x, y, |x, y| x + y, |x, y| x + y),
            "sub" => float(bits, x, y, |x, y| x - y, |x, y| x - y),
            "mul" => float(bits, x, y, |x, y| x * y, |x, y| x * y),
            "div" => float(bits, x, y, |x, y| x / y, |x, y| x / y),
            "min" => float(bits, x, y, f32::min, f64::min),
            "max" => float(bits, x, y, f32::max, f64::max),
            _ => return None,
        });
    }
    let (x, y) = (cut(x, bits), cut(y, bits));
    let (i, j) = (signed(x, bits), signed(y, bits));
    let is_signed = kind == 's';
    let by = cut(y, 32);
    let result = match op {
        "add" => x.wrapping_add(y),
        "sub" => x.wrapping_sub(y),
        "mul" => x.wrapping_mul(y),
        "div" if y == 0 => return None,
        "rem" if y == 0 => return None,
        "div" if is_signed => i.wrapping_div(j) as u64,
        "div" => x / y,
        "rem" if is_signed => i.wrapping_rem(j) as u64,
        "rem" => x % y,
        "min" if is_signed => i.min(j) as u64,
        "min" => x.min(y),
        "max" if is_signed => i.max(j) as u64,
        "max" => x.max(y),
        "and" => x & y,
        "or" => x | y,
        "xor" => x ^ y,
        "shl" if by >= u64::from(bits) => 0,
        "shl" => x << by,
        "shr" if is_signed => (i >> by.min(u64::from(bits) - 1)) as u64,
        "shr" if by >= u64::from(bits) => 0,
        "shr" => x >> by,
        _ => return None,
    };
    Some(cut(result, bits))
}

/// The upper half of a product.
pub(super) fn high(ty: Ty, x: u64, y: u64) -> u64 {
    let Ty(kind, bits) = ty;
    let product = match kind {
        's' => (i128::from(signed(x, bits)) * i128::from(signed(y, bits))) as u128,
        _ => u128::from(cut(x, bits)) * u128::from(cut(y, bits)),
    };
    cut((product >> bits) as u64, bits)
}

/// A product with twice the bits of its operands.
pub(super) fn wide(ty: Ty, x: u64, y: u64) -> u64 {
    let Ty(kind, bits) = ty;
    let product = match kind {
        's' => signed(x, bits).wrapping_mul(signed(y, bits)) as u64,
        _ => cut(x, bits).wrapping_mul(cut(y, bits)),
    };
    cut(product, 2 * bits)
}

/// An operation with one operand; `None` if it is not known.
pub(super) fn unary(op: &str, ty: Ty, x: u64) -> Option<u64> {
    let Ty(kind, bits) = ty;
    if kind == 'f' {
        let sign = 1u64 << (bits - 1);
        return Some(match op {
            "neg" => x ^ sign,
            "abs" => x & !sign,
            "rcp" => float(bits, x, x, |x, _| 1.0 / x, |x, _| 1.0 / x),
            "sqrt" => float(bits, x, x, |x, _| x.sqrt(), |x, _| x.sqrt()),
            _ => return None,
        });
    }
    let x = cut(x, bits);
    let result = match op {
        "neg" => x.wrapping_neg(),
        "abs" => signed(x, bits).wrapping_abs() as u64,
        "not" => !x,
        "popc" => u64::from(x.count_ones()),
        "brev" => x.reverse_bits() >> (64 - bits),
        "clz" => u64::from(x.leading_zeros() + bits - 64),
        _ => return None,
    };
    Some(if matches!(op, "popc" | "clz") { result } else { cut(result, bits) })
}

/// A comparison; `None` if it is not known.
pub(super) fn compare(op: &str, ty: Ty, x: u64, y: u64) -> Option<bool> {
    let Ty(kind, bits) = ty;
    if kind == 'f' {
        let value = |x| match bits {
            16 => half_of(x),
            32 => f64::from(f32_of(x)),
            _ => f64_of(x),
        };
        let (a, b) = (value(x), value(y));
        let is_nan = a.is_nan() || b.is_nan();
        return Some(match op {
            "num" => !is_nan,
            "nan" => is_nan,
            "eq" => a == b,
            "ne" => !is_nan && a != b,
            "lt" => a < b,
            "le" => a <= b,
            "gt" => a > b,
            "ge" => a >= b,
            "equ" => is_nan || a == b,
            "neu" => is_nan || a != b,
            "ltu" => is_nan || a < b,
            "leu" => is_nan || a <= b,
            "gtu" => is_nan || a > b,
            "geu" => is_nan || a >= b,
            _ => return None,
        });
    }
    let (x, y) = (cut(x, bits), cut(y, bits));
    let order = if kind == 's' { signed(x, bits).cmp(&signed(y, bits)) } else { x.cmp(&y) };
    Some(match op {
        "eq" => order.is_eq(),
        "ne" => order.is_ne(),
        "lt" | "lo" => order.is_lt(),
        "le" | "ls" => order.is_le(),
        "gt" | "hi" => order.is_gt(),
        "ge" | "hs" => order.is_ge(),
        _ => return None,
    })
}

/// A conversion, with the rounding modifier; `None` if it is not known.
pub(super) fn convert(round: Option<&str>, to: Ty, from: Ty, x: u64) -> Option<u64> {
    let x = cut(x, from.1);
    match (from.0, to.0) {
        ('f', kind) => {
            let value = match from.1 {
                16 => half_of(x),
                32 => f64::from(f32_of(x)),
                _ => f64_of(x),
            };
            let whole = match round {
                Some("rni") => value.round_ties_even(),
                Some("rmi") => value.floor(),
                Some("rpi") => value.ceil(),
                Some("rzi") => value.trunc(),
                Some("rn") | None => value,
                Some(_) => return None,
            };
            Some(match kind {
                'f' if to.1 == 16 => half_bits(whole),
                'f' if to.1 == 32 => u64::from((whole as f32).to_bits()),
                'f' => whole.to_bits(),
                's' => {
                    let most = i64::MAX >> (64 - to.1);
                    cut((whole as i64).clamp(-most - 1, most) as u64, to.1)
                }
                _ => (whole as u64).min(cut(u64::MAX, to.1)),
            })
        }
        (kind, 'f') => {
            let is_signed = kind == 's';
            let number = if is_signed { signed(x, from.1) as u64 } else { x };
            let scalar = if is_signed { Scalar::I64 } else { Scalar::U64 };
            let float = match to.1 {
                16 => Scalar::F16,
                32 => Scalar::F32,
                _ => Scalar::F64,
            };
            Some(scalar::convert(scalar, float, number))
        }
        (kind, _) => {
            let number = cut(if kind == 's' { signed(x, from.1) as u64 } else { x }, to.1);
            // There are no registers of eight bits: a signed number fills the one that it is in.
            Some(if to == Ty('s', 8) { cut(signed(number, 8) as u64, 16) } else { number })
        }
    }
}
