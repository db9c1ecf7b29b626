//! Computes derivatives by dual numbers: `x + ẋε` with `ε² = 0`, carried at every float scalar.
//!
//! This is a third way to compute derivatives, independent of `autodiff` and of the rules of the core library: the
//! partial derivatives below are calculus, written by hand, and the control flow is simply executed. Tangents
//! are `f64` whatever the float's own width. It is used only to check other methods.
//!
//! Where a derivative is the language's choice rather than calculus, it follows the language: nothing flows
//! through `detach`, through slots that are not `diff`, through memory, through `%` or through the rounding
//! functions; a tie of `min` or `max` splits its tangent in half; `abs` has slope 0 at 0.
//!
//! A lost tangent records the place of the loss ([`Dual::cut`]), also in values that have no tangent, such as
//! integers. Where the derivative differs from the slope, the loss is the reason.

use super::value::{Lane, Value};
use super::{Host, Limits, RunError, call_limited};
use crate::entities::Func;
use crate::function::Span;
use crate::module::Module;
use crate::ops::{Math, Op};
use crate::scalar;
use crate::types::{Scalar, Type, Types};

/// A number and its tangent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dual {
    /// Canonical bits of the number.
    pub bits: u64,
    /// Its tangent; 0 for all but floats.
    pub tangent: f64,
    /// The place where a tangent of one of the number's inputs was lost first: the number may depend on the
    /// input in a way that no tangent shows.
    pub cut: Option<Span>,
}

/// Results of [`jvp`]: the primal values and their tangents, all of the types of the results.
pub type Jvp = (Vec<Value>, Vec<Value>);

/// Computes `f(x)` and `∂f(x)·ẋ`. There is one tangent for each parameter, of the parameter's type. The
/// tangent of a type without floats is ignored in parameters and zero in results.
pub fn jvp(
    module: &Module,
    func: Func,
    args: &[Value],
    tangents: &[Value],
    host: &mut dyn Host,
    limits: Limits,
) -> Result<Jvp, RunError> {
    let results = call(module, func, args, tangents, host, limits)?;
    let slots = &module.funcs[func].results;
    Ok(results.iter().zip(slots).map(|(y, slot)| split(&module.types, slot.ty, y)).unzip())
}

/// Like [`jvp`], but returns the dual numbers.
pub fn call(
    module: &Module,
    func: Func,
    args: &[Value],
    tangents: &[Value],
    host: &mut dyn Host,
    limits: Limits,
) -> Result<Vec<Value<Dual>>, RunError> {
    let args: Vec<Value<Dual>> = args
        .iter()
        .zip(tangents)
        .zip(&module.funcs[func].params)
        .map(|((x, dx), slot)| pair(&module.types, slot.ty, x, dx))
        .collect();
    call_limited(module, func, &args, host, limits)
}

/// Combines a value with its tangents, one for every float.
pub fn pair(types: &Types, ty: Type, x: &Value, dx: &Value) -> Value<Dual> {
    let s = types.scalar_of(ty).filter(|s| s.is_float());
    let mut tangents = dx.lanes().into_iter();
    x.map(&mut |bits| {
        let tangent = tangents.next();
        Dual { bits, tangent: s.zip(tangent).map_or(0.0, |(s, t)| scalar::to_f64(s, t)), cut: None }
    })
}

/// Splits a dual value into the value and the tangent, both of the type (the tangent is zero if the type has
/// no floats).
pub fn split(types: &Types, ty: Type, x: &Value<Dual>) -> (Value, Value) {
    let s = types.scalar_of(ty).filter(|s| s.is_float());
    let tangent = x.map(&mut |lane| s.map_or(0, |s| scalar::from_f64(s, lane.tangent)));
    (x.map(&mut |lane| lane.bits), tangent)
}

impl Lane for Dual {
    fn from_bits(bits: u64) -> Dual {
        Dual { bits, tangent: 0.0, cut: None }
    }

    fn bits(self) -> u64 {
        self.bits
    }

    fn cut_at(self, here: &dyn Fn() -> Span) -> Option<Span> {
        self.cut.or_else(|| (self.tangent != 0.0).then(here))
    }

    fn cut(self, at: Option<Span>) -> Dual {
        Dual { bits: self.bits, tangent: 0.0, cut: at }
    }

    fn elementwise(op: &Op, from: Scalar, to: Scalar, args: &[Dual]) -> Option<Dual> {
        let bits: Vec<u64> = args.iter().map(|a| a.bits).collect();
        let result = scalar::elementwise(op, from, to, &bits)?;
        let tangent = if !to.is_float() || !from.is_float() || args.iter().all(|a| a.tangent == 0.0) {
            0.0
        } else {
            let x: Vec<f64> = bits.iter().map(|&b| scalar::to_f64(from, b)).collect();
            let dx: Vec<f64> = args.iter().map(|a| a.tangent).collect();
            tangent(op, &x, &dx, scalar::to_f64(to, result))
        };
        Some(Dual { bits: result, tangent, cut: args.iter().find_map(|a| a.cut) })
    }
}

/// The tangent of `y = op(x…)`.
fn tangent(op: &Op, x: &[f64], dx: &[f64], y: f64) -> f64 {
    match op {
        Op::Add => dx[0] + dx[1],
        Op::Sub => dx[0] - dx[1],
        Op::Mul => dx[0] * x[1] + x[0] * dx[1],
        Op::Div => (dx[0] - x[0] / x[1] * dx[1]) / x[1],
        Op::Rem => dx[0] - ((x[0] - y) / x[1]).round() * dx[1],
        Op::Scale | Op::Unscale | Op::Mask if x[0] == 0.0 && x[0].is_sign_negative() => 0.0,
        Op::Scale => dx[0] * x[1] + x[0] * dx[1],
        Op::Unscale => (dx[0] - x[0] / x[1] * dx[1]) / x[1],
        Op::Mask => dx[1],
        Op::Present => dx[0],
        Op::Neg => -dx[0],
        Op::Convert => dx[0],
        Op::Math(m) => {
            let partials = partials(*m, x, y);
            // A zero tangent must not be multiplied by an infinite slope.
            dx.iter().zip(partials).filter(|(dx, _)| **dx != 0.0).map(|(dx, p)| p * dx).sum()
        }
        // No other op computes floats from floats with a derivative (see the head of the file).
        _ => 0.0,
    }
}

/// The partial derivatives `∂y/∂x` for each operand.
fn partials(m: Math, x: &[f64], y: f64) -> [f64; 3] {
    let one = |p: f64| [p, 0.0, 0.0];
    let a = x[0];
    match m {
        Math::Sin => one(a.cos()),
        Math::Cos => one(-a.sin()),
        Math::Tan => one(1.0 + a.tan() * a.tan()),
        Math::Asin => one(1.0 / (1.0 - a * a).sqrt()),
        Math::Acos => one(-1.0 / (1.0 - a * a).sqrt()),
        Math::Atan => one(1.0 / (1.0 + a * a)),
        Math::Atan2 => {
            let r2 = a * a + x[1] * x[1];
            [x[1] / r2, -a / r2, 0.0]
        }
        Math::Sinh => one(a.cosh()),
        Math::Cosh => one(a.sinh()),
        Math::Tanh => one(1.0 / (a.cosh() * a.cosh())),
        Math::Asinh => one(1.0 / (a * a + 1.0).sqrt()),
        Math::Acosh => one(1.0 / (a * a - 1.0).sqrt()),
        Math::Atanh => one(1.0 / (1.0 - a * a)),
        Math::Exp => one(a.exp()),
        Math::Exp2 => one(a.exp2() * std::f64::consts::LN_2),
        Math::Log => one(1.0 / a),
        Math::Log2 => one(1.0 / (a * std::f64::consts::LN_2)),
        Math::Log10 => one(1.0 / (a * std::f64::consts::LN_10)),
        Math::Pow => [x[1] * a.powf(x[1] - 1.0), a.powf(x[1]) * a.ln(), 0.0],
        Math::Sqrt => one(0.5 / y),
        Math::Min if a == x[1] => [0.5, 0.5, 0.0],
        Math::Max if a == x[1] => [0.5, 0.5, 0.0],
        Math::Min if a < x[1] || x[1].is_nan() => one(1.0),
        Math::Max if a > x[1] || x[1].is_nan() => one(1.0),
        Math::Min | Math::Max => [0.0, 1.0, 0.0],
        Math::Abs if a == 0.0 => [0.0; 3],
        Math::Abs => one(a.signum()),
        Math::Fma => [x[1], a, 1.0],
        Math::Floor | Math::Ceil | Math::Round | Math::Trunc => [0.0; 3],
        Math::IsNan
        | Math::IsInf
        | Math::CountBits
        | Math::ReverseBits
        | Math::FirstBitLow
        | Math::FirstBitHigh => [0.0; 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partials_agree_with_differences() {
        for m in Math::ALL {
            if !scalar::has_math(m, Scalar::F64) || matches!(m, Math::IsNan | Math::IsInf) {
                continue;
            }
            let at: [f64; 3] = if m == Math::Acosh { [1.7, 0.0, 0.0] } else { [0.37, 0.81, -0.4] };
            let h = 1e-6;
            let f = |x: [f64; 3]| scalar::math_f64(m, x[0], x[1], x[2]);
            let partials = partials(m, &at, f(at));
            for (k, partial) in partials.iter().enumerate().take(m.arity()) {
                let shift = |by: f64| {
                    let mut x = at;
                    x[k] += by;
                    f(x)
                };
                let difference = (shift(h) - shift(-h)) / (2.0 * h);
                assert!((difference - partial).abs() < 1e-7, "{} in {k}: {difference} {partial}", m.name());
            }
        }
    }
}
