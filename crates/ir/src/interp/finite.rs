//! Formats the error message for a differential, or another value, that is not finite:
//! `([(s, lanes of x), operands…]) ↦ message`.
//!
//! Both backends call this function with the same bits, so they report the same text.

use crate::scalar;
use crate::types::Scalar;

/// The text before an operation whose result is no differential.
pub const VALUE: &str = "value ";

/// A number or vector: its scalar type and lanes.
pub type Shown = (Scalar, Vec<u64>);

/// The error message for `values[0]`, the result of the operation `what` on the other values, if it is not
/// finite.
pub fn not_finite_message(what: &str, values: &[Shown]) -> Option<String> {
    let ((s, lanes), operands) = values.split_first()?;
    if lanes.iter().all(|&bits| is_finite(*s, bits)) {
        return None;
    }
    let operands: Vec<String> = operands.iter().map(text).collect();
    let (kind, what) = match what.strip_prefix(VALUE) {
        Some(what) => ("value", what),
        None => ("derivative", what),
    };
    let made = match (what, &operands[..]) {
        ("add", [a, b]) => format!("{a} + {b}"),
        ("sub", [a, b]) => format!("{a} - {b}"),
        ("mul", [a, b]) => format!("{a} * {b}"),
        ("div", [a, b]) => format!("{a} / {b}"),
        ("neg", [a]) => format!("-({a})"),
        (_, []) => what.to_string(),
        _ => format!("{what}({})", operands.join(", ")),
    };
    Some(format!("a {kind} is not finite: {made} = {}", text(&values[0])))
}

fn is_finite(s: Scalar, bits: u64) -> bool {
    !s.is_float() || scalar::to_f64(s, bits).is_finite()
}

fn text((s, lanes): &Shown) -> String {
    let lanes: Vec<String> = lanes.iter().map(|&bits| number(*s, bits)).collect();
    match &lanes[..] {
        [one] => one.clone(),
        _ => format!("({})", lanes.join(", ")),
    }
}

fn number(s: Scalar, bits: u64) -> String {
    if is_finite(s, bits) {
        return crate::print::scalar_text(s, bits);
    }
    let x = scalar::to_f64(s, bits);
    if x.is_nan() {
        "NaN"
    } else if x > 0.0 {
        "inf"
    } else {
        "-inf"
    }
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let f = |lanes: &[f32]| (Scalar::F32, lanes.iter().map(|x| u64::from(x.to_bits())).collect());
        let message = |what: &str, values: &[Shown]| not_finite_message(what, values).unwrap_or_default();
        assert_eq!(message("div", &[f(&[1.0]), f(&[1.0]), f(&[0.0])]), "");
        assert_eq!(
            message("div", &[f(&[f32::NEG_INFINITY, 2.0]), f(&[-1.0, 2.0]), f(&[0.0, 1.0])]),
            "a derivative is not finite: (-1.0, 2.0) / (0.0, 1.0) = (-inf, 2.0)"
        );
        assert_eq!(
            message("sqrt", &[f(&[f32::NAN]), f(&[-1.0])]),
            "a derivative is not finite: sqrt(-1.0) = NaN"
        );
    }
}
