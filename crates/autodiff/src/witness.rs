//! Determines the source of a function's derivative.
//!
//! In order of preference: a custom derivative that serves the mode, the derivative of a substitute, a
//! declared zero, the body. In reverse mode a vjp is preferred to a jvp; a jvp alone serves both modes, since
//! it is linear in its tangents and can be transposed. In forward mode of a caller, a function that has only
//! a vjp counts as having a zero derivative. However, a function that is itself differentiable uses its body
//! in a mode that has no custom derivative.

use ir::{Func, Function, Module};

use crate::shape::Mode;

/// The source of a function's derivative; see the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A custom forward derivative.
    Jvp(Func),
    /// A custom backward derivative.
    Vjp(Func),
    /// A custom primal for reverse mode, and the backward derivative that takes the context it returns.
    Applied { apply: Func, vjp: Func },
    /// The derivative is zero; only the primal is called.
    Zero,
    /// The body of this function.
    Body(Func),
}

/// The source of the derivative for a call of `func`.
pub(crate) fn source(module: &Module, func: Func, mode: Mode) -> Source {
    let mut func = func;
    // A chain of substitutes may be arbitrarily long, and may be cyclic.
    for _ in 0..64 {
        let witness = module.witness(func);
        match (mode, witness.jvp, witness.vjp) {
            (Mode::Reverse, _, Some(vjp)) => {
                return match witness.apply {
                    Some(apply) => Source::Applied { apply, vjp },
                    None => Source::Vjp(vjp),
                };
            }
            (Mode::Reverse, Some(_), None) if witness.differentiable && module.funcs[func].has_body() => {
                return Source::Body(func);
            }
            (_, Some(jvp), _) => return Source::Jvp(jvp),
            (Mode::Forward, None, Some(_)) if witness.differentiable && module.funcs[func].has_body() => {
                return Source::Body(func);
            }
            (Mode::Forward, None, Some(_)) => return Source::Zero,
            (_, None, None) => (),
        }
        match witness.substitute {
            Some(substitute) if substitute != func => func = substitute,
            _ if witness.treat_as_differentiable || !module.funcs[func].has_body() => return Source::Zero,
            _ => return Source::Body(func),
        }
    }
    Source::Zero
}

/// Returns true if a function has a result without a tangent, or no results. A custom forward derivative of
/// such a function is called even if no active value reaches the call, since the derivative may have effects
/// of its own (for example, it may advance the pointer to the cotangents along with the pointer to the
/// values).
pub(crate) fn makes_more_than_numbers(func: &Function) -> bool {
    func.results.is_empty() || func.results.iter().any(|slot| !slot.diff)
}
