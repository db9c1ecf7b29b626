//! Translation validation (`--verify-passes`): after each pass, the function and its predecessor run in the interpreter,
//! on the program's memory and on random numbers, and must agree (Pnueli, Siegel and Singerman, "Translation
//! validation", 1998; by tests in place of proofs).
//!
//! The interpreter defines what a function means, so a difference is a fault of the pass, whatever the program is. A
//! pass may round differently only where it sums up differentials in another order ([`REORDER`]), or where real numbers are
//! asked for (`--fast-math`, `--fp-contract`): then floats are compared with a tolerance, otherwise by their bits.
//! [`steps`] checks differentiation, which makes other functions out of functions.
//!
//! Not every function can run by itself: one with a stack among its parameters needs what another function pushed, and
//! one that still asks for derivatives has no meaning to the interpreter. [`Summary`] counts these by reason; their code is
//! run where it has been inlined or differentiated.

mod points;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::mem::swap;
use std::sync::{Arc, Mutex};

use ir::interp::{Limits, Memory, Value, call_limited};
use ir::{Func, Function, Module, Scalar};
use syntax::Diagnostic;

use crate::bind::Bind;
use crate::error::{Failure, source_span};
use crate::inputs;
use crate::launch::{Backend, CodeOptions, Runner};
use crate::pipeline::Loaded;
use points::{Bound, Inputs};

/// The number of inputs that each function runs on.
const POINTS: u64 = 4;
/// The number of instructions after which a run is given up.
const MOST_STEPS: u64 = 100_000;
/// The interpreter's message about code that still asks for a derivative, and the reason that is given for it.
const LATER: &str = "was not differentiated";
const IS_LATER: &str = "it asks for derivatives, which are made later";
/// Passes that add up the same differentials in another order, or leave out those that are absent.
const REORDER: [&str; 4] = ["accumulators", "deliver", "differentials", "unroll-and-jam"];

/// Validates the compilations of a session.
#[derive(Clone, Debug, Default)]
pub struct Validation(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    binds: Vec<Bind>,
    summary: Summary,
}

/// The extent of a validation.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The number of functions that passes changed.
    pub functions: usize,
    /// The number of changes, and of steps of differentiation.
    pub changes: usize,
    /// How often the function before a change and the one after it ran, and agreed.
    pub runs: usize,
    /// The number of changes that no run checks, by the reason.
    pub not_run: BTreeMap<String, usize>,
}

impl Validation {
    /// The memory that programs run on: what is not named has random content.
    pub fn bind(&self, binds: &[Bind]) {
        self.with(|state| state.binds = binds.to_vec());
    }

    /// The extent of the validation so far.
    pub fn summary(&self) -> Summary {
        self.with(|state| state.summary.clone())
    }

    /// The validator of one compilation.
    pub(crate) fn validator(
        &self,
        loaded: &mut Loaded,
        module: &Module,
        options: &opt::Options,
    ) -> Validator {
        let binds = self.with(|state| state.binds.clone());
        Validator {
            validation: self.clone(),
            // What does not fit is reported by the command that binds it.
            bound: bound(loaded, module, &binds).unwrap_or_default(),
            is_near: options.fast_math || options.contract,
            summary: Summary::default(),
            fault: None,
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Validates one compilation.
pub(crate) struct Validator {
    validation: Validation,
    bound: Bound,
    /// True if results may differ by rounding everywhere.
    is_near: bool,
    summary: Summary,
    fault: Option<Diagnostic>,
}

/// The outcome of a run.
enum Outcome {
    /// Its results, and the memory that it left.
    Done(Vec<Value>, Memory),
    /// The program stopped itself.
    Stopped(String),
    /// It was given up.
    TooLong,
}

/// How results are compared.
#[derive(Clone, Copy, PartialEq)]
enum Same {
    /// Every bit, but that one NaN is as good as another.
    Exactly,
    /// Floats up to this difference, relative to numbers above 1.
    Nearly(f64),
}

impl Same {
    fn agree(self, s: Scalar, a: u64, b: u64) -> bool {
        if ir::scalar::same(s, a, b) {
            return true;
        }
        let Same::Nearly(tolerance) = self else { return false };
        let (a, b) = (ir::scalar::to_f64(s, a), ir::scalar::to_f64(s, b));
        s.is_float()
            && (a == b
                || a.is_nan() && b.is_nan()
                || (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs())))
    }
}

impl Validator {
    /// Validates a transformation of a whole module, which has the same functions afterwards.
    fn module_changed(&mut self, pass: &'static str, before: &Module, after: &Module) {
        // Types are only added.
        let mut before = Module { types: after.types.clone(), ..before.clone() };
        for (f, after) in after.funcs.iter().filter(|(_, func)| func.has_body()) {
            let old = before.funcs[f].clone();
            if old.insts.len() != after.insts.len() {
                opt::Observer::changed(self, &mut before, f, old, vec![(pass, after.clone())]);
            }
        }
    }

    /// Validates what the backends' own passes make of a module.
    pub(crate) fn backends(&mut self, module: &Module) {
        let made = [
            #[cfg(feature = "llvm")]
            ("unroll-and-jam", opt::for_lanes(module, crate::device::WAYS)),
            ("copy-forwarding", opt::for_devices(module)),
        ];
        for (pass, after) in made {
            if let Some(after) = after {
                self.module_changed(pass, module, &after);
            }
        }
    }

    /// Validates the steps of differentiation.
    pub(crate) fn differentiated(&mut self, steps: &autodiff::Steps) {
        for step in &steps.steps {
            self.summary.changes += 1;
            match steps::check(steps, step, &self.bound) {
                Ok(runs) => self.summary.runs += runs,
                Err(steps::Found::NotRun(why)) => self.not_run(why, 1),
                Err(steps::Found::Fault { pass, func, inputs, wrong }) => {
                    self.fault(&steps.module, func, pass, &inputs, &wrong);
                }
            }
        }
    }

    /// Adds to the session's summary; an error if a pass was wrong.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.validation.with(|state| {
            let Summary { functions, changes, runs, not_run } = self.summary;
            state.summary.functions += functions;
            state.summary.changes += changes;
            state.summary.runs += runs;
            not_run.into_iter().for_each(|(why, n)| *state.summary.not_run.entry(why).or_default() += n);
        });
        self.fault.map_or(Ok(()), |fault| Err(Failure::Program(vec![fault])))
    }

    fn not_run(&mut self, why: impl Into<String>, n: usize) {
        *self.summary.not_run.entry(why.into()).or_default() += n;
    }

    /// Keeps the first fault.
    fn fault(&mut self, module: &Module, func: Func, pass: &str, inputs: &str, wrong: &str) {
        let func = &module.funcs[func];
        let message =
            format!("internal compiler error: the pass `{pass}` changes what `{}` gives", func.name);
        self.fault.get_or_insert_with(|| {
            Diagnostic::error("E0999", source_span(func.span), message)
                .label(format!("for {inputs}: {wrong}"))
                .help("this is a bug of the compiler; please report it")
        });
    }

    /// Runs a function before and after passes on the same inputs.
    fn compare(
        &mut self,
        module: &mut Module,
        func: Func,
        mut versions: Vec<(&'static str, Function)>,
        at: u64,
    ) -> Result<(), String> {
        let inputs = Inputs::random(module, func, &self.bound, at)?;
        let mut is_near = self.is_near || reals(module, func);
        let mut last: Option<Outcome> = None;
        for (pass, version) in &mut versions {
            swap(&mut module.funcs[func], version);
            let outcome = inputs.run(module, func);
            swap(&mut module.funcs[func], version);
            // What passes have summed up otherwise stays so.
            is_near |= REORDER.contains(pass);
            let same = if is_near { Same::Nearly(rounding(module, func)) } else { Same::Exactly };
            match (&last, &outcome) {
                (_, Outcome::TooLong) => return Err("it takes too many steps".into()),
                (Some(last), _) => match differ(module, func, last, &outcome, same) {
                    Some(wrong) => {
                        let shown = inputs.show(module, func);
                        self.fault(module, func, pass, &shown, &wrong);
                        return Ok(());
                    }
                    None => self.summary.runs += 1,
                },
                (None, Outcome::Stopped(why)) if why.contains(LATER) => return Err(IS_LATER.into()),
                (None, _) => {}
            }
            last = Some(outcome);
        }
        Ok(())
    }
}

impl opt::Observer for Validator {
    fn changed(
        &mut self,
        module: &mut Module,
        func: Func,
        before: Function,
        versions: Vec<(&'static str, Function)>,
    ) {
        if versions.is_empty() || self.fault.is_some() {
            return;
        }
        self.summary.functions += 1;
        self.summary.changes += versions.len();
        let n = versions.len();
        let all: Vec<_> = std::iter::once(("", before)).chain(versions).collect();
        for at in 0..POINTS {
            if let Err(why) = self.compare(module, func, all.clone(), at) {
                // At other inputs it may take fewer steps; other reasons are of the function.
                if at == 0 {
                    self.not_run(why, n);
                    break;
                }
            }
        }
    }
}

/// The memory that the user has bound.
fn bound(loaded: &mut Loaded, module: &Module, binds: &[Bind]) -> Result<Bound, Failure> {
    if binds.is_empty() {
        return Ok(Bound::default());
    }
    let code = CodeOptions::default();
    let mut runner = Runner::with_pointers(module.clone(), binds, Backend::INTERP, &code)?;
    inputs::bind(loaded, &mut runner, binds)?;
    let bytes = module.globals.keys().map(|g| runner.is_bound(g).then(|| runner.bytes_of(g).to_vec()));
    Ok(Bound(bytes.collect()))
}

/// Returns true if a function, or one that it calls, may treat floats as real numbers.
fn reals(module: &Module, func: Func) -> bool {
    let reached = ir::analysis::reach(vec![func], |f| ir::walk::callees(&module.funcs[f]));
    reached.iter().any(|f| module.funcs[f].fast_math)
}

/// Runs a function within limits.
fn run(module: &Module, func: Func, args: &[Value], memory: &Memory) -> Outcome {
    let mut memory = memory.clone();
    let limits = Limits { steps: Some(MOST_STEPS), memory: 64 << 20, ..Limits::default() };
    match call_limited(module, func, args, &mut memory, limits) {
        Ok(results) => Outcome::Done(results, memory),
        Err(error)
            if error.message == ir::interp::STEP_LIMIT_MESSAGE
                || error.message == ir::interp::memory_message(64 << 20) =>
        {
            Outcome::TooLong
        }
        Err(error) => Outcome::Stopped(error.message),
    }
}

/// How two outcomes differ; `None` if they agree.
fn differ(module: &Module, func: Func, before: &Outcome, after: &Outcome, same: Same) -> Option<String> {
    match (before, after) {
        (Outcome::Done(a, left), Outcome::Done(b, right)) => {
            let slots = &module.funcs[func].results;
            for (k, ((a, b), slot)) in a.iter().zip(b).zip(slots).enumerate() {
                let s = module.types.scalar_of(slot.ty);
                let agree = a.same(b, &module.types, slot.ty)
                    || s.is_some_and(|s| a.lanes().iter().zip(b.lanes()).all(|(&a, b)| same.agree(s, a, b)));
                if !agree {
                    let name =
                        slot.name.as_deref().map_or_else(|| format!("result {k}"), |n| format!("`{n}`"));
                    let show = |x: &Value| x.display(&module.types, slot.ty);
                    return Some(format!("{name} is {} instead of {}", show(b), show(a)));
                }
            }
            if left.printed != right.printed {
                return Some(format!("it prints {:?} instead of {:?}", right.printed, left.printed));
            }
            points::memory_differs(module, left, right, same)
        }
        (Outcome::Stopped(a), Outcome::Stopped(b)) if a == b => None,
        (Outcome::TooLong, _) | (_, Outcome::TooLong) => None,
        (before, after) => Some(format!("it {} instead of what it did: it {}", said(after), said(before))),
    }
}

fn said(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done(..) => "ended".to_string(),
        Outcome::Stopped(why) => format!("stopped: {why}"),
        Outcome::TooLong => "went on".to_string(),
    }
}

/// The difference that rounding may make in a function and in those that it calls, relative to numbers above 1: that of the
/// narrowest floats that they compute.
fn rounding(module: &Module, func: Func) -> f64 {
    match crate::wrap::narrowest(module, func) {
        None => 1e-12,
        Some(8) => 1e-9,
        Some(4) => 1e-3,
        Some(_) => 0.1,
    }
}
