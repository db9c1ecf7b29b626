//! GradBench's protocol on standard input and output, with one JSON object per line.
//!
//! The eval's program (`NAME.slang` in this folder, part of the binary) is compiled once, at `define`. For
//! each `evaluate` message the buffers are created from its input; then the primal or the derivative is run
//! as often as the message requests, on the same buffers, and only these runs are timed.

mod evals;
mod input;

use std::io::{BufRead, Write, stdin, stdout};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use driver::launch::{Backend, CodeOptions, Execution};
use driver::module::{Kernel, Module};
use driver::pipeline::Failure;
use driver::session::{FileOptions, Session};
use driver::{on_large_stack, render};
use serde_json::{Value as Json, json};

/// Takes part in GradBench: answers its messages on standard input, one JSON object per line.
#[derive(Parser)]
struct Args {
    /// The backend that runs the programs: interp, cranelift, or llvm in a build with that feature
    #[arg(long, value_parser = backend, default_value = Backend::fastest().name())]
    backend: Backend,
    /// Threads that run in lanes [default: a number that suits machine and program; 1: none]
    #[arg(long, value_name = "N")]
    lanes: Option<u32>,
    /// Worker threads; 0: one for each core
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
}

fn backend(name: &str) -> Result<Backend, String> {
    Backend::named(name).ok_or_else(|| {
        let names: Vec<&str> = Backend::ALL.iter().map(|backend| backend.name()).collect();
        format!("the backends of this build are {}", names.join(", "))
    })
}

/// A step of a run. The steps are executed in order, and all of them are timed.
enum Step {
    /// Sets a buffer to zeros.
    Clear(&'static str),
    /// Sets the value of a uniform.
    Set(&'static str, i32),
    /// Dispatches groups of a kernel.
    Dispatch(Kernel, [u32; 3]),
}

/// Computes an eval's output from the buffers.
type Output = dyn Fn(&Module) -> Result<Json, driver::Error>;

/// The steps that evaluate a function of an eval on its buffers.
struct Plan {
    steps: Vec<Step>,
    /// Reads the result of the last run.
    output: Box<Output>,
}

/// The program of the defined eval.
struct Defined {
    eval: &'static evals::Eval,
    module: Module,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let code = CodeOptions { lanes: args.lanes, flush_subnormals: true, ..CodeOptions::default() };
    let execution = Execution { backend: args.backend, code, threads: args.threads, ..Execution::default() };
    match on_large_stack(move || serve(&execution)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Answers messages until there are no more.
fn serve(execution: &Execution) -> Result<(), String> {
    let mut defined = None;
    let mut stdout = stdout().lock();
    for line in stdin().lock().lines() {
        let line = line.map_err(|error| format!("cannot read a message: {error}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let message =
            serde_json::from_str(&line).map_err(|error| format!("a message is not JSON: {error}"))?;
        let reply = answer(&message, &mut defined, execution);
        let written = writeln!(stdout, "{reply}").and_then(|()| stdout.flush());
        written.map_err(|error| format!("cannot write a reply: {error}"))?;
    }
    Ok(())
}

fn answer(message: &Json, defined: &mut Option<Defined>, execution: &Execution) -> Json {
    let id = message.get("id").cloned().unwrap_or(Json::Null);
    let text = |key: &str| message.get(key).and_then(Json::as_str).unwrap_or_default();
    let failed = |error: String| json!({ "id": id, "success": false, "error": error });
    match text("kind") {
        "start" => json!({ "id": id, "tool": "pullback" }),
        "define" => match define(text("module"), execution) {
            Ok(program) => {
                *defined = Some(program);
                json!({ "id": id, "success": true })
            }
            Err(error) => failed(error),
        },
        "evaluate" => {
            let null = Json::Null;
            let input = message.get("input").unwrap_or(&null);
            match evaluate(defined.as_mut(), text("module"), text("function"), input) {
                Ok((output, timings)) => {
                    let timings: Vec<Json> = timings
                        .into_iter()
                        .map(|(name, ns)| json!({ "name": name, "nanoseconds": ns }))
                        .collect();
                    json!({ "id": id, "success": true, "output": output, "timings": timings })
                }
                Err(error) => failed(error),
            }
        }
        _ => json!({ "id": id }),
    }
}

fn define(name: &str, execution: &Execution) -> Result<Defined, String> {
    let eval = evals::EVALS.iter().find(|e| e.name == name);
    let eval = eval.ok_or_else(|| format!("there is no program for the eval `{name}`"))?;
    let mut session = Session::new(FileOptions::default());
    let file = format!("{name}.slang");
    let module = Module::from_text(&mut session, &file, eval.source, execution);
    let module = module.map_err(|failure| match failure {
        Failure::Program(diagnostics) => {
            render::all_to_text(&session.sources, &diagnostics, driver::render::Style::Plain)
        }
        Failure::Other(error) => error.to_string(),
    })?;
    Ok(Defined { eval, module })
}

type Timings = Vec<(&'static str, u64)>;

fn evaluate(
    defined: Option<&mut Defined>,
    name: &str,
    function: &str,
    input: &Json,
) -> Result<(Json, Timings), String> {
    let Defined { eval, module } =
        defined.filter(|d| d.eval.name == name).ok_or_else(|| format!("`{name}` was not defined"))?;
    if !eval.functions.contains(&function) {
        return Err(format!("`{name}` has no function `{function}`"));
    }
    let start = Instant::now();
    let plan = (eval.prepare)(module, function, input).map_err(|e| e.to_string())?;
    let mut timings = vec![("prepare", nanoseconds(start))];
    let min_runs = input.get("min_runs").and_then(Json::as_u64).unwrap_or(1).max(1);
    let min_seconds = input.get("min_seconds").and_then(Json::as_f64).unwrap_or(0.0);
    let (mut runs, mut elapsed) = (0, 0.0);
    while runs < min_runs || elapsed < min_seconds {
        let start = Instant::now();
        run(module, &plan.steps).map_err(|e| e.to_string())?;
        let ns = nanoseconds(start);
        timings.push(("evaluate", ns));
        runs += 1;
        elapsed += ns as f64 * 1e-9;
    }
    let output = (plan.output)(module).map_err(|e| e.to_string())?;
    Ok((output, timings))
}

fn run(module: &mut Module, steps: &[Step]) -> Result<(), driver::Error> {
    for step in steps {
        match *step {
            Step::Clear(buffer) => module.clear(buffer)?,
            Step::Set(uniform, value) => module.write(uniform, &[value])?,
            Step::Dispatch(kernel, groups) => drop(module.dispatch(kernel, groups)?),
        }
    }
    Ok(())
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
