//! Prints the result of a compiler stage as text, for `pullback emit` and `pullback explain`.

use std::fmt::Write as _;

use check::tables::FuncRef;
use ir::{Func, Module, Op};
use lower::Request;

use crate::error::{Error, Failure};
use crate::findings::problem;
use crate::pipeline::{Compiled, Loaded, Options};

/// A stage of the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The syntax tree.
    Ast,
    /// The IR after `lower`.
    Ir,
    /// The linearised function: `f ↦ f'`.
    Linearize,
    /// The same, with the differentials marked that are linear.
    Propagate,
    /// The primal and the linear half.
    Unzip,
    /// The transposed linear half.
    Transpose,
    /// The IR after all stages.
    Opt,
    /// The input to Cranelift.
    #[cfg(not(target_family = "wasm"))]
    Clif,
    /// The input to LLVM.
    #[cfg(feature = "llvm")]
    Llvm,
}

impl Stage {
    /// The stages of this build, each with its name and a line of help.
    pub const ALL: &'static [(Stage, &'static str, &'static str)] = &[
        (Stage::Ast, "ast", "The syntax tree, as source"),
        (Stage::Ir, "ir", "The IR before differentiation"),
        (Stage::Linearize, "linearize", "Derivatives by linearize"),
        (Stage::Propagate, "propagate", "Derivatives with their linear values marked"),
        (Stage::Unzip, "unzip", "Primal and linear halves"),
        (Stage::Transpose, "transpose", "Transposed linear halves"),
        (Stage::Opt, "opt", "The IR after everything"),
        #[cfg(not(target_family = "wasm"))]
        (Stage::Clif, "clif", "Cranelift's input"),
        #[cfg(feature = "llvm")]
        (Stage::Llvm, "llvm", "LLVM's input"),
    ];
}

/// The program at a stage: all that the entry point reaches or, without one, all that the file's entry points
/// and differentiable functions reach.
pub fn emit(
    loaded: &mut Loaded,
    entry: Option<&str>,
    stage: Stage,
    options: &Options,
) -> Result<String, Failure> {
    if stage == Stage::Ast {
        loaded.errors()?;
        let file = &loaded.program.ast.files[loaded.file];
        return Ok(syntax::print::print_file(&loaded.program.ast, file));
    }
    let entries = match entry {
        Some(name) => vec![loaded.entry(Some(name))?],
        None => loaded.program.entry_points(loaded.file),
    };
    let functions = if entry.is_none() { loaded.differentiable_functions() } else { Vec::new() };
    if entries.is_empty() && functions.is_empty() {
        loaded.entry(None)?;
    }
    // Derivatives are requested even for stages that do not show them: functions with custom derivatives must
    // be known as such.
    let request = Request { entries, functions, derivatives: true, ..Request::default() };
    match stage {
        Stage::Ast => Ok(String::new()),
        Stage::Ir => {
            let optimise = opt::Options { level: 0, ..options.optimise };
            let options = Options { no_autodiff: true, optimise, ..options.clone() };
            let compiled = loaded.compile(&request, &options)?;
            Ok(ir::print::print_module(&compiled.module))
        }
        Stage::Linearize | Stage::Propagate | Stage::Unzip | Stage::Transpose => {
            let options = Options { no_autodiff: true, ..options.clone() };
            let Compiled { mut module, functions, .. } = loaded.compile(&request, &options)?;
            let mut wanted: Vec<Func> = functions.iter().map(|f| f.func).collect();
            for (_, function) in &module.funcs {
                for inst in function.insts.values() {
                    if let Op::CallDerivative(_, f) = inst.op {
                        wanted.push(f);
                    }
                }
            }
            let mut seen = Vec::new();
            wanted.retain(|f| {
                !seen.contains(f) && {
                    seen.push(*f);
                    true
                }
            });
            let mut text = String::new();
            for func in wanted {
                let stages = differentiate(&mut module, func)?;
                let shown: &[Func] = match stage {
                    Stage::Linearize => &[stages.linearized],
                    Stage::Propagate => &[stages.propagated],
                    Stage::Unzip => &[stages.primal, stages.linear],
                    _ => &[stages.transposed],
                };
                for &func in shown {
                    text += &print(&module, func);
                    text.push('\n');
                }
            }
            Ok(text)
        }
        Stage::Opt => Ok(ir::print::print_module(&loaded.compile(&request, options)?.module)),
        #[cfg(not(target_family = "wasm"))]
        Stage::Clif => {
            let compiled = loaded.compile(&request, options)?;
            let functions = compiled.functions.iter().flat_map(|f| [Some(f.func), f.jvp, f.vjp]).flatten();
            let options = native::Options { functions: functions.collect(), ..Default::default() };
            codegen_cranelift::clif_text(&compiled.module, &options)
                .map_err(|e| Failure::Other(Error::Input(e.to_string())))
        }
        #[cfg(feature = "llvm")]
        Stage::Llvm => {
            let compiled = loaded.compile(&request, options)?;
            codegen_llvm::text(&compiled.module, &native::Options::default(), &codegen_llvm::machine())
                .map(|text| text.print())
                .map_err(|e| Failure::Other(Error::Input(e.to_string())))
        }
    }
}

/// A function after each pass, under one heading per pass.
pub fn explain(loaded: &mut Loaded, function: FuncRef, options: &Options) -> Result<String, Failure> {
    let request = Request { functions: vec![function], derivatives: true, ..Request::default() };
    let raw = Options {
        no_autodiff: true,
        optimise: opt::Options { level: 0, ..options.optimise },
        ..options.clone()
    };
    let lowered = loaded.compile(&request, &raw)?;
    let Compiled { mut module, functions, .. } =
        loaded.compile(&request, &Options { no_autodiff: true, ..options.clone() })?;
    let func = functions
        .first()
        .map(|f| f.func)
        .ok_or_else(|| Failure::Other(Error::Internal("the function was not lowered".into())))?;
    let mut text = String::new();
    let mut section = |title: &str, meaning: &str, body: String| {
        let _ = writeln!(text, "──── {title}: {meaning}\n\n{body}");
    };
    let lowered_func = lowered.functions.first().map_or(func, |f| f.func);
    section("lower", "the function as written, f(x) ↦ y", print(&lowered.module, lowered_func));
    section("optimise", "the same function before differentiation", print(&module, func));
    let stages = differentiate(&mut module, func)?;
    section(
        "linearize",
        "a tangent for each value that carries one, f'(x, ẋ) ↦ (y, ẏ)",
        print(&module, stages.linearized),
    );
    section("propagate", "the differentials marked `~`, found linear", print(&module, stages.propagated));
    section("unzip, primal half", "x ↦ (y, r) with the residuals r", print(&module, stages.primal));
    section("unzip, linear half", "(r, ẋ) ↦ ẏ", print(&module, stages.linear));
    section("transpose", "the linear half backwards, (r, ȳ) ↦ x̄", print(&module, stages.transposed));
    section("backward", "what `bwd_diff` calls, (x, ȳ) ↦ x̄", print(&module, stages.backward));
    opt::after_ad(&mut module, &options.optimise, &[stages.backward]);
    section("optimised", "the same after optimisation", print(&module, stages.backward));
    Ok(text)
}

fn differentiate(module: &mut Module, func: Func) -> Result<autodiff::Stages, Failure> {
    autodiff::stages(module, func)
        .map_err(|problems| Failure::Program(problems.into_iter().map(problem).collect()))
}

fn print(module: &Module, func: Func) -> String {
    ir::print::print_function(module, &module.funcs[func])
}
