//! Writes the derivative of a function as Slang source.

use autodiff::Residual;
use check::tables::FuncRef;
use codegen_slang::Printed;
use ir::Func;
use syntax::Diagnostic;

use crate::call::Direction;
use crate::error::{Failure, source_span};
use crate::findings::problem;
use crate::pipeline::{Compiled, Loaded, Options};
use crate::{Error, Request};

/// The derivative that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivative {
    /// `(x, ẋ) ↦ (y, ẏ)`
    Forward,
    /// `(x, ȳ) ↦ x̄`
    Backward,
    /// `x ↦ (y, r)` and `(r, ȳ) ↦ x̄`, as two functions.
    Apply,
}

impl Derivative {
    /// The mode that computes it.
    pub fn direction(self) -> Direction {
        match self {
            Derivative::Forward => Direction::Forward,
            Derivative::Backward | Derivative::Apply => Direction::Reverse,
        }
    }

    /// The derivatives, each with its name and a line of help.
    pub const ALL: &'static [(Derivative, &'static str, &'static str)] = &[
        (Derivative::Forward, "fwd", "Value and tangent"),
        (Derivative::Backward, "bwd", "Gradient"),
        (
            Derivative::Apply,
            "apply",
            "Two functions: the value with what the backward pass needs, and the backward pass",
        ),
    ];
}

/// The text, ready to be compiled: parameters and results are the leaves of the function's own parameters and
/// results, with their names. `notes` are lines of the comment at its head.
pub fn source(
    loaded: &mut Loaded,
    function: FuncRef,
    what: Derivative,
    notes: &[String],
) -> Result<String, Failure> {
    let name = loaded.name(function.decl).to_string();
    let span = loaded.program.name_span(function.decl);
    let mut options = Options {
        // Names and loops are kept as written.
        optimise: opt::Options { level: 1, ..opt::Options::default() },
        no_autodiff: what == Derivative::Apply,
        ..Options::default()
    };
    let request = Request { functions: vec![function], derivatives: true, ..Request::default() };
    let not_lowered = || Failure::Other(Error::Internal("the function was not lowered".into()));
    let Compiled { mut module, mut functions, .. } = loaded.compile(&request, &options)?;
    let mut stages = None;
    if what == Derivative::Apply {
        let func = functions.first().ok_or_else(not_lowered)?.func;
        match autodiff::stages(&mut module, func) {
            Ok(found) => stages = Some(found),
            // The function has a custom backward derivative, which needs the arguments.
            Err(problems) if problems.is_empty() => {
                options.no_autodiff = false;
                Compiled { module, functions, .. } = loaded.compile(&request, &options)?;
            }
            Err(problems) => return Err(Failure::Program(problems.into_iter().map(problem).collect())),
        }
    }
    let info = functions.first().ok_or_else(not_lowered)?;
    let missing = |mode: &str| {
        let message = format!("'{name}' is not {mode}-differentiable");
        let help = "mark it '[Differentiable]', or give it the derivative that is missing";
        Failure::Program(vec![Diagnostic::error("E41022", span, message).help(help)])
    };
    let returned = |module: &ir::Module, prefix: &str| -> Vec<String> {
        let slots = &module.funcs[info.func].results;
        let name = |(k, slot): (usize, &ir::Slot)| match slot.name.as_deref() {
            Some(name) => format!("{prefix}{name}"),
            None if slots.len() == 1 => format!("{prefix}result"),
            None => format!("{prefix}result{k}"),
        };
        slots.iter().enumerate().map(name).collect()
    };
    let own_params: Vec<String> = module.funcs[info.func]
        .params
        .iter()
        .enumerate()
        .map(|(k, s)| s.name.as_deref().map_or_else(|| format!("x{k}"), str::to_string))
        .collect();
    let differentials = |names: &[String], slots: &[ir::Slot]| -> Vec<String> {
        names.iter().zip(slots).filter(|(_, s)| s.diff).map(|(n, _)| n.clone()).collect()
    };
    let prefixed = |names: &[String]| -> Vec<String> { names.iter().map(|n| format!("d_{n}")).collect() };
    let diff_params = differentials(&own_params, &module.funcs[info.func].params);
    let diff_results = differentials(&returned(&module, "d_"), &module.funcs[info.func].results);
    let own_results = returned(&module, "");
    let gradients = prefixed(&diff_params);
    let printed = |suffix: &str, params: [&[String]; 2], results: [&[String]; 2]| Printed {
        name: format!("{name}_{suffix}"),
        params: params.concat(),
        results: results.concat(),
        ..Printed::default()
    };
    let vjp = || info.vjp.ok_or_else(|| missing("backward"));
    let (funcs, meaning): (Vec<(Func, Printed)>, &str) = match what {
        Derivative::Forward => {
            let func = info.jvp.ok_or_else(|| missing("forward"))?;
            let printed = printed("fwd", [&own_params, &gradients], [&own_results, &diff_results]);
            (vec![(func, printed)], "the value and its tangent")
        }
        Derivative::Backward => {
            let printed = printed("bwd", [&own_params, &diff_results], [&gradients, &[]]);
            (vec![(vjp()?, printed)], "the gradient, given that of the result")
        }
        Derivative::Apply if stages.is_none() => {
            let apply = printed("apply", [&own_params, &[]], [&own_results, &[]]);
            let pullback = printed("pullback", [&own_params, &diff_results], [&gradients, &[]]);
            (vec![(info.func, apply), (vjp()?, pullback)], "the value, and the backward pass")
        }
        Derivative::Apply => {
            let stages = stages.ok_or_else(not_lowered)?;
            let roots = [stages.primal, stages.transposed];
            for func in module.funcs.values_mut() {
                func.values.values_mut().for_each(|v| v.linear = false);
                func.params.iter_mut().chain(&mut func.results).for_each(|slot| slot.linear = false);
            }
            opt::after_ad(&mut module, &options.optimise, &roots);
            // A result of the original function may also be a residual, as for `exp`.
            let kept = |k: usize| match own_results.get(k) {
                Some(name) => name.clone(),
                None => format!("kept{}", k - own_results.len()),
            };
            let residuals: Vec<String> = stages
                .residuals
                .iter()
                .map(|r| match *r {
                    Residual::Param(k) => own_params.get(k).cloned().unwrap_or_default(),
                    Residual::Result(k) => kept(k),
                })
                .collect();
            let sources = stages.residuals.iter().map(|r| match *r {
                Residual::Param(_) => None,
                Residual::Result(k) => Some((stages.primal, k)),
            });
            let n_results = module.funcs[stages.primal].results.len();
            let more: Vec<String> = (own_results.len()..n_results).map(kept).collect();
            let apply = printed("apply", [&own_params, &[]], [&own_results, &more]);
            let pullback = Printed {
                sources: sources.collect(),
                ..printed("pullback", [&residuals, &diff_results], [&gradients, &[]])
            };
            let meaning = "the value with what the backward pass needs, and the backward pass";
            (vec![(roots[0], apply), (roots[1], pullback)], meaning)
        }
    };
    let text = codegen_slang::print(&module, &funcs).map_err(|e| {
        let place = source_span(e.span);
        let known = loaded.program.ast.files.iter().any(|f| f.file == place.file) && e.span != ir::Span::NONE;
        let message = format!("the derivative of '{name}' cannot be written as Slang: it has {}", e.message);
        Failure::Program(vec![Diagnostic::error("E0920", if known { place } else { span }, message)])
    })?;
    let notes: String = notes.iter().map(|note| format!("// {note}\n")).collect();
    let text =
        format!("// The derivative of `{name}`: {meaning}. Written by `pullback derive`.\n{notes}\n{text}");
    let style = fmt::Style { braces: Some(fmt::BraceStyle::NextLine), ..fmt::Style::default() };
    fmt::format(&text, &style).map_err(|changed| Failure::Other(Error::Internal(changed.to_string())))
}
