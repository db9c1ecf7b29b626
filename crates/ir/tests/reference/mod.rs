//! The functions of doubles that those of the library are measured against.

use pullback_ir::Math;

/// Inverse hyperbolic functions by `ln(1 + u)`, within two units in the last place.
fn inverse(m: Math, x: f64) -> f64 {
    let a = x.abs();
    let u = match m {
        Math::Acosh => (x - 1.0) + ((x - 1.0) * (x + 1.0)).sqrt(),
        Math::Asinh => a + a * a / (1.0 + (1.0 + a * a).sqrt()),
        _ => return 0.5 * (2.0 * a / (1.0 - a)).ln_1p().copysign(x),
    };
    let r = if a > 1e150 && !x.is_nan() { a.ln() + std::f64::consts::LN_2 } else { u.ln_1p() };
    if m == Math::Acosh && x < 1.0 {
        return f64::NAN;
    }
    if m == Math::Acosh { r } else { r.copysign(x) }
}

/// The C library's function.
pub(crate) fn reference(m: Math, a: f64, b: f64) -> f64 {
    match m {
        Math::Sin => a.sin(),
        Math::Cos => a.cos(),
        Math::Tan => a.tan(),
        Math::Asin => a.asin(),
        Math::Acos => a.acos(),
        Math::Atan => a.atan(),
        Math::Atan2 => a.atan2(b),
        Math::Sinh => a.sinh(),
        Math::Cosh => a.cosh(),
        Math::Tanh => a.tanh(),
        Math::Exp => a.exp(),
        Math::Exp2 => a.exp2(),
        Math::Log => a.ln(),
        Math::Log2 => a.log2(),
        Math::Log10 => a.log10(),
        Math::Pow => a.powf(b),
        _ => inverse(m, a),
    }
}
