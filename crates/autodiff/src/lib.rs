//! Derivatives of IR functions, as IR functions: linearise, then transpose.
//!
//! A function of the IR is a map `f : x ↦ y` from values to values. Its derivative at `x` is a linear
//! map `∂f(x)`; forward mode computes `∂f(x)·ẋ`, reverse mode its transpose `∂f(x)ᵀ·ȳ`. Four passes:
//!
//! 1. [`linearize`]: `f ↦ f'`, with `f'(x, ẋ) = (f(x), ∂f(x)·ẋ)`. Forward mode is done here.
//! 2. [`propagate`]: marks which instructions of `f'` compute a differential, in users' rules too, and
//!    checks that these are linear in the differentials.
//! 3. [`unzip`]: `f'` into `x ↦ (y, r)` and `(r, ẋ) ↦ ẏ`; what is in `r`, `checkpoint` decides.
//! 4. [`transpose`]: `(r, ẋ) ↦ ẏ` into `(r, ȳ) ↦ x̄`, mechanically: a linear program run backwards.
//!
//! The engine knows the derivatives of `+ - * /`, of moving numbers about (vectors, arrays, cells) and of
//! structure (`if`, `switch`, `for`, `loop`, calls). All else is a function with a [witness](ir::Witness).
//! Derivatives are plain functions again (the marks are dropped at the end), so they nest to any order.
//!
//! `docs/autodiff.md` has the theorem that each pass relies on.
#![forbid(unsafe_code)]

mod activity;
mod checkpoint;
mod clean;
mod copy;
mod direction;
mod engine;
mod finite;
mod linearity;
mod linearize;
mod origins;
mod propagate;
mod pullback;
mod recursion;
mod report;
mod request;
mod rule;
mod rules;
mod segment;
mod snapshot;
mod stand_in;
mod transpose;
mod unzip;
mod upward;
mod witness;

use ir::{Func, Module, Span};

pub use direction::enter;
use engine::Engine;
pub use engine::Mode;
pub use report::KeptValue;
pub use unzip::{Residual, Unzipped};

/// What the caller chooses.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Say what reverse mode keeps.
    pub report_kept: bool,
    /// Mark differentials in users' derivatives, too: [`ir::ValueData::differential`].
    pub mark_custom: bool,
    /// What is done with a function's jvp before it is split: what its primal calls is inlined where it is small, so
    /// that it can be computed again.
    pub tidy: Option<fn(&mut Module, Func) -> bool>,
    /// Functions whose derivatives are made to see whether they can be made, and not to be run: that a call in them
    /// has no tangent is no loss.
    pub unasked: Vec<Func>,
    /// Functions of which is said how many bytes reverse mode keeps: [`Report::memory`].
    pub measured: Vec<Func>,
}

impl Options {
    /// The options with a report of what is kept.
    pub fn with_report(mut self) -> Options {
        self.report_kept = true;
        self
    }

    /// The options with marks in users' derivatives.
    pub fn with_marks(mut self) -> Options {
        self.mark_custom = true;
        self
    }
}

/// Something of the user's that cannot be differentiated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub span: Span,
    /// Stable code.
    pub code: &'static str,
    /// What was found.
    pub message: String,
}

/// What [`differentiate_with_report`] has to say.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What could not be differentiated.
    pub problems: Vec<Problem>,
    /// What was, but should not be relied on.
    pub warnings: Vec<Problem>,
    /// What reverse mode keeps, if that was asked for.
    pub kept: Vec<KeptValue>,
    /// How many bytes it keeps of each function that was named; of one without a derivative there is nothing to say.
    pub memory: Vec<Option<Memory>>,
}

/// What reverse mode keeps for one call of a function, in bytes. Of loops whose trips nothing bounds: for one trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// As it is.
    pub kept: u64,
    /// If all were computed again that can be: no choice keeps less, but to run loops twice (`[Checkpoint]`).
    pub least: u64,
    /// A loop whose trips nothing bounds.
    pub unknown: Option<Span>,
}

/// Replaces every `call_fwd` and `call_bwd` in the module by a call of a function that this makes.
/// Where that is impossible, the results are zero and a [`Problem`] says why.
pub fn differentiate(module: &mut Module, options: &Options) -> Vec<Problem> {
    differentiate_with_report(module, options).problems
}

/// [`differentiate`], with warnings, and with all that reverse mode keeps if the options ask for it.
pub fn differentiate_with_report(module: &mut Module, options: &Options) -> Report {
    let mut engine = Engine::new(module);
    engine.kept_values = options.report_kept.then(Vec::new);
    engine.mark_custom = options.mark_custom;
    engine.tidy = options.tidy;
    engine.unasked.clone_from(&options.unasked);
    let memory = options.measured.iter().map(|&f| engine.memory(f)).collect();
    engine.resolve_module();
    Report {
        memory,
        problems: engine.problems,
        warnings: engine.warnings,
        kept: engine.kept_values.unwrap_or_default(),
    }
}

/// `f ↦ f'` with a tangent for each parameter that `mask` names (all of `f`'s parameters are listed;
/// only `diff` ones count), and for each result that depends on them.
pub fn linearize(module: &mut Module, func: Func, mask: &[bool], mode: Mode) -> Func {
    Engine::new(module).linearize(func, mask, mode)
}

/// Marks the differentials of `func`, whose parameters in `tangents` are such.
pub fn propagate(module: &mut Module, func: Func, tangents: &[bool]) -> Result<Func, Vec<Problem>> {
    let mut engine = Engine::new(module);
    engine.propagate(func, tangents).ok_or(engine.problems)
}

/// Splits a function that [`propagate`] marked.
pub fn unzip(module: &mut Module, func: Func) -> Result<Unzipped, Vec<Problem>> {
    let mut engine = Engine::new(module);
    engine.unzip(func).ok_or(engine.problems)
}

/// The transpose of the linear half that [`unzip`] made.
pub fn transpose(module: &mut Module, linear: Func) -> Func {
    Engine::new(module).transpose(linear)
}

/// One function's way through the passes, for showing it.
#[derive(Clone, Debug)]
pub struct Stages {
    /// `(x, ẋ) ↦ (y, ẏ)`, without marks.
    pub linearized: Func,
    /// The same, with marks.
    pub propagated: Func,
    /// `x ↦ (y, r)`.
    pub primal: Func,
    /// `(r, ẋ) ↦ ẏ`.
    pub linear: Func,
    /// `(r, ȳ) ↦ x̄`.
    pub transposed: Func,
    /// What `r` is.
    pub residuals: Vec<Residual>,
    /// `(x, ȳ) ↦ x̄`: the signature of `call_bwd`.
    pub backward: Func,
}

/// Takes `func` through all passes with respect to all its `diff` parameters, and keeps each stage.
/// Requests inside `func` are resolved first.
pub fn stages(module: &mut Module, func: Func) -> Result<Stages, Vec<Problem>> {
    let mut engine = Engine::new(module);
    match engine.stages(func) {
        Some(stages) if engine.problems.is_empty() => Ok(stages),
        _ => Err(engine.problems),
    }
}

/// The function `(params…, tangents of diff params…) -> (results…, tangents of diff results…)`:
/// what `call_fwd` of `func` calls.
pub fn forward(module: &mut Module, func: Func) -> Result<Func, Vec<Problem>> {
    let mut engine = Engine::new(module);
    let made = engine.resolve_and(func, |engine| engine.forward(func, Span::NONE));
    made.ok_or(engine.problems)
}

/// The function `(params…, cotangents of diff results…) -> (cotangents of diff params…)`: what
/// `call_bwd` of `func` calls.
pub fn backward(module: &mut Module, func: Func) -> Result<Func, Vec<Problem>> {
    let mut engine = Engine::new(module);
    let made = engine.resolve_and(func, |engine| engine.backward(func, Span::NONE));
    made.ok_or(engine.problems)
}
