//! Where the derivative of a function comes from.
//!
//! In this order: a custom derivative that serves the mode, a substitute's derivative, a declared zero,
//! the body. In reverse mode a vjp is preferred to a jvp; a jvp alone serves both modes, since it is
//! linear in its tangents and can be transposed. A vjp alone serves forward mode of a caller as zero.
//! But a function that is itself differentiable has the derivative of its body where there is no custom one.

use ir::{Func, Function, Module};

use crate::engine::Mode;

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A custom forward derivative.
    Jvp(Func),
    /// A custom backward derivative.
    Vjp(Func),
    /// A custom primal for reverse mode, and the backward derivative that takes its context.
    Applied { apply: Func, vjp: Func },
    /// The primal is called, the derivative is zero.
    Zero,
    /// The body of this function.
    Body(Func),
}

/// Where a call of `func` gets its derivative from.
pub(crate) fn source(module: &Module, func: Func, mode: Mode) -> Source {
    let mut func = func;
    // A chain of substitutes is as long as the user made it, but it may be a ring.
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

/// Whether a function has results without tangents, or none: a custom forward derivative of it is called
/// whether or not anything flows, since it may do what the function itself does not (it moves the pointer
/// to which cotangents are added along with the pointer to the values).
pub(crate) fn makes_more_than_numbers(func: &Function) -> bool {
    func.results.is_empty() || func.results.iter().any(|slot| !slot.diff)
}
