//! Differentiates IR functions into IR functions: linearise, then transpose.
//!
//! A function of the IR is a map `f : x ↦ y` from values to values. Its derivative at `x` is a linear map
//! `∂f(x)`; forward mode computes `∂f(x)·ẋ`, reverse mode its transpose `∂f(x)ᵀ·ȳ`. There are four passes:
//!
//! 1. [`linearize`]: `f ↦ f'`, with `f'(x, ẋ) = (f(x), ∂f(x)·ẋ)`. Forward mode needs no further pass.
//! 2. [`propagate`]: marks the instructions of `f'` that compute a differential, including those in
//!    user-written rules, and checks that they are linear in the differentials.
//! 3. [`unzip`]: splits `f'` into `x ↦ (y, r)` and `(r, ẋ) ↦ ẏ`; `checkpoint` decides what the residuals `r`
//!    contain.
//! 4. [`transpose`]: turns `(r, ẋ) ↦ ẏ` into `(r, ȳ) ↦ x̄` by running the linear program backwards.
//!
//! The functions that the passes make, each with the file that makes it (and its [`ir::Origin`]):
//!
//! ```text
//!   f : x ↦ y                        a function of the program
//!   │ segment, stand_in              loops by segments; primal substitutes in place of their originals
//!   ▼
//!   f : x ↦ y
//!   │ activity, linearize            which values depend on x; what a custom rule or the body gives
//!   ▼
//!   f' : (x, ẋ) ↦ (y, ẏ)  (Jvp) ────────────────────────────► fwd_diff(f), __linearize
//!   │ propagate                      marks: which values are linear
//!   ▼
//!   f' with marks  (Variant)
//!   │ inline, unzip                  small calls; `checkpoint` decides what is kept
//!   ├──────────────────────────┐
//!   ▼                          ▼
//!   x ↦ (y, r)  (PrimalHalf)   (r, ẋ) ↦ ẏ  (LinearHalf)
//!   │                          │ transpose
//!   │                          ▼
//!   │                          (r, ȳ) ↦ x̄  (Pullback)
//!   └────────────┬─────────────┘
//!                ▼
//!   (x, ȳ) ↦ x̄  (Pullback) ──────────────────────────────────► bwd_diff(f), __apply
//! ```
//!
//! [`request`] finds the operators that ask for a derivative and replaces them by calls of the results, callees
//! first, so `f` itself has no operators left when it is differentiated. What a pass has made of a function is
//! kept by the function (`engine::Made`), as is what it has found out (`engine::Facts`).
//!
//! The engine knows the derivatives of `+ - * /`, of data movement (vectors, arrays, cells) and of structure
//! (`if`, `switch`, `for`, `loop`, calls). The derivative of anything else comes from a function with a
//! [witness](ir::Witness). Derivatives are plain functions again (the marks are dropped at the end), so they
//! nest to any order.
//!
//! [`sparsity`] stands apart: it makes of a derivative the function that says which tangents its results are made of.
//!
//! `docs/autodiff.md` states the theorem that each pass relies on.
#![forbid(unsafe_code)]

mod activity;
mod checkpoint;
mod copy;
mod decisions;
mod direction;
mod engine;
mod finite;
mod inline;
mod linearity;
mod linearize;
mod lost;
mod propagate;
mod pullback;
mod recursion;
mod report;
mod request;
mod results;
mod rule;
mod rules;
mod second;
mod segment;
mod shape;
mod snapshot;
mod sparsity;
mod stand_in;
mod transpose;
mod unzip;
mod variant;
mod witness;

use ir::{Func, Module, Span};

pub use direction::enter;
use engine::Engine;
pub use results::{Checkpoints, KeptValue, Problem, Residual, SegmentedLoop, Step, Steps, Unzipped};
pub use segment::{repetitions, runs};
pub use shape::Mode;
pub use sparsity::sparsity;

/// Options for [`differentiate`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Report which values reverse mode keeps.
    pub report_kept: bool,
    /// Mark differentials in user-written derivatives, too: [`ir::ValueData::differential`].
    pub mark_custom: bool,
    /// Functions that are differentiated only to see whether they can be, and whose derivatives are never
    /// run. No warning is given about calls in them that have no tangent.
    pub unasked: Vec<Func>,
    /// Only problems are wanted, and what entry points run. Where nothing that runs or is differentiated asks for reverse
    /// mode, it is then followed only as far as it may find problems; zeros take the place of its results.
    pub only_problems: bool,
    /// Functions whose memory use in reverse mode is measured: [`Report::memory`].
    pub measured: Vec<Func>,
    /// Report the results of all steps: [`Report::steps`].
    pub report_steps: bool,
}

/// The result of [`differentiate_with_report`].
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Errors: code that could not be differentiated.
    pub problems: Vec<Problem>,
    /// Warnings: derivatives that were made but should not be relied on.
    pub warnings: Vec<Problem>,
    /// The report of kept values and states, if [`Options::report_kept`] is set.
    pub kept: Checkpoints,
    /// The bytes that reverse mode keeps for each function in [`Options::measured`]; `None` for a function
    /// without a derivative.
    pub memory: Vec<Option<Memory>>,
    /// The results of all steps, if [`Options::report_steps`] is set.
    pub steps: Option<Steps>,
}

/// The bytes that reverse mode keeps for one call of a function. A loop whose number of trips has no bound
/// counts as a single trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The bytes kept by the derivative as it is.
    pub kept: u64,
    /// The bytes kept if everything that can be recomputed were. Only running trips of loops again (`[Checkpoint]`)
    /// can keep less.
    pub least: u64,
    /// A loop whose number of trips has no bound.
    pub unknown: Option<Span>,
}

/// Replaces every `call_fwd` and `call_bwd` in the module by a call of a derivative that this function makes.
/// Where that is impossible, the results are zero and a [`Problem`] says why.
pub fn differentiate(module: &mut Module, options: &Options) -> Vec<Problem> {
    differentiate_with_report(module, options).problems
}

/// Like [`differentiate`], but also returns warnings and, if the options ask for them, the values that
/// reverse mode keeps.
pub fn differentiate_with_report(module: &mut Module, options: &Options) -> Report {
    let mut engine = Engine::new(module);
    engine.found.kept = options.report_kept.then(Checkpoints::default);
    engine.options = options.clone();
    let memory = options.measured.iter().map(|&f| engine.memory(f)).collect();
    // A report needs the halves.
    if options.only_problems && !options.report_kept {
        engine.never_run = request::never_run(engine.module);
    }
    engine.resolve_module();
    Report {
        memory,
        problems: engine.found.problems,
        warnings: engine.found.warnings,
        kept: engine.found.kept.unwrap_or_default(),
        steps: engine.found.steps,
    }
}

/// Linearises `func`: `f ↦ f'`, with a tangent for each parameter that `mask` selects (the mask has an entry
/// for every parameter of `f`; only `diff` ones count) and for each result that depends on those parameters.
pub fn linearize(module: &mut Module, func: Func, mask: &[bool], mode: Mode) -> Func {
    let mut engine = Engine::new(module);
    engine.derive_transposes_in(func);
    engine.linearize(func, mask, mode)
}

/// Marks the differentials of `func`. `tangents` selects the parameters that are differentials.
pub fn propagate(module: &mut Module, func: Func, tangents: &[bool]) -> Result<Func, Vec<Problem>> {
    let mut engine = Engine::new(module);
    engine.propagate(func, tangents).ok_or(engine.found.problems)
}

/// Splits a function that [`propagate`] marked.
pub fn unzip(module: &mut Module, func: Func) -> Result<Unzipped, Vec<Problem>> {
    let mut engine = Engine::new(module);
    engine.unzip(func).ok_or(engine.found.problems)
}

/// Transposes the linear half that [`unzip`] made.
pub fn transpose(module: &mut Module, linear: Func) -> Func {
    Engine::new(module).transpose(linear)
}

/// The output of every pass for one function, for display.
#[derive(Clone, Debug)]
pub struct Stages {
    /// `(x, ẋ) ↦ (y, ẏ)`, without marks.
    pub linearized: Func,
    /// `linearized` with marks.
    pub propagated: Func,
    /// `x ↦ (y, r)`.
    pub primal: Func,
    /// `(r, ẋ) ↦ ẏ`.
    pub linear: Func,
    /// `(r, ȳ) ↦ x̄`.
    pub transposed: Func,
    /// The source of each residual in `r`.
    pub residuals: Vec<Residual>,
    /// `(x, ȳ) ↦ x̄`: the signature of `call_bwd`.
    pub backward: Func,
}

/// Takes `func` through all passes with respect to all its `diff` parameters, and keeps the output of each.
/// Derivatives that `func` itself asks for are resolved first.
pub fn stages(module: &mut Module, func: Func) -> Result<Stages, Vec<Problem>> {
    let mut engine = Engine::new(module);
    match engine.stages(func) {
        Some(stages) if engine.found.problems.is_empty() => Ok(stages),
        _ => Err(engine.found.problems),
    }
}

/// Makes the function that `call_fwd` of `func` calls: `(params…, tangents of diff params…) -> (results…,
/// tangents of diff results…)`.
pub fn forward(module: &mut Module, func: Func) -> Result<Func, Vec<Problem>> {
    let mut engine = Engine::new(module);
    let made = engine.resolve_and(func, |engine| engine.forward(func, Span::NONE));
    made.ok_or(engine.found.problems)
}

/// Makes the function that `call_second` of `func` calls for so many directions: `(params…, tangents of diff params for
/// each direction…) -> (results…, tangents of diff results for each direction…, sums of their second derivatives…)`.
pub fn second(module: &mut Module, func: Func, directions: usize) -> Result<Func, Vec<Problem>> {
    let mut engine = Engine::new(module);
    let mask: Vec<bool> = engine.module.funcs[func].params.iter().map(|slot| slot.diff).collect();
    let made = engine.resolve_and(func, |engine| engine.second(func, &mask, directions, Span::NONE));
    made.ok_or(engine.found.problems)
}

/// Makes the function that `call_bwd` of `func` calls: `(params…, cotangents of diff results…) -> (cotangents
/// of diff params…)`.
pub fn backward(module: &mut Module, func: Func) -> Result<Func, Vec<Problem>> {
    let mut engine = Engine::new(module);
    let made = engine.resolve_and(func, |engine| engine.backward(func, Span::NONE));
    made.ok_or(engine.found.problems)
}
