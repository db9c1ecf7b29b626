//! `pullback`, the command line: arguments, exit status, and the destinations of output.
//!
//! It is a library, so that other hosts than an operating system can call it: a browser does.
//!
//! Exit status: 0 for success, 1 for a diagnostic about the program or its inputs, 2 for wrong usage. A panic
//! of the compiler is caught and reported as an internal error, with status 1.
#![forbid(unsafe_code)]

mod absent;
mod args;
mod bench;
#[cfg(any(feature = "llvm", feature = "wasm"))]
mod build;
mod derive;
mod fit;
mod format;
mod inspect;
mod outputs;
mod page;
mod pages;
#[cfg(not(target_family = "wasm"))]
mod playground;
mod precision;
mod profile;
mod recurrence;
mod report;
mod ruletest;
mod run;
#[cfg(not(target_family = "wasm"))]
mod server;
mod sparse;
mod values;
mod verify;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;

use clap::Parser;

use args::{Cli, Command};

/// The place and message of the last panic, for the report.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// Runs the command of this process's arguments.
pub fn main() -> ExitCode {
    driver::launch::leave(command())
}

/// Runs the command of this process's arguments, and returns the exit status.
pub fn command() -> u8 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() {
                let _ = error.print();
                if let Some(note) = absent::note(&error) {
                    report::err(&note);
                }
                return 2;
            }
            report::note_lost(error.print().and_then(|()| std::io::stdout().flush()));
            return report::lost(0);
        }
    };
    let (json, file) = json_and_file(&cli.command);
    let of_hook = file.clone();
    std::panic::set_hook(Box::new(move |info| {
        if cfg!(panic = "abort") {
            report::internal(&info.to_string(), json, &of_hook);
        }
        if let Ok(mut place) = PANIC.lock() {
            *place = info.to_string();
        }
    }));
    report::watch(json);
    let work = || driver::on_large_stack(|| dispatch(cli.command));
    let result = catch_unwind(AssertUnwindSafe(work));
    if let Some(advice) = driver::device::advice() {
        report::err(&format!("note: {advice}\n"));
    }
    let status = match result {
        Ok(status) => status,
        Err(_) => {
            let place = PANIC.lock().map(|p| p.clone()).unwrap_or_default();
            report::internal(&place, json, &file)
        }
    };
    report::lost(status)
}

fn dispatch(command: Command) -> u8 {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => inspect::check(&args),
        Command::Emit(args) => inspect::emit(&args),
        Command::Explain(args) => inspect::explain(&args),
        Command::Derive(args) => inspect::derive(&args),
        Command::Grad(args) => derive::grad(&args),
        Command::Jacobian(args) => sparse::jacobian(&args),
        Command::Recurrence(args) => recurrence::recurrence(&args),
        Command::Gradcheck(args) => derive::gradcheck(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Ruletest(args) => ruletest::ruletest(&args),
        Command::Precision(args) => precision::precision(&args),
        Command::Fit(args) => fit::fit(&args),
        Command::Bench(args) => bench::bench(&args),
        #[cfg(any(feature = "llvm", feature = "wasm"))]
        Command::Build(args) => build::build(&args),
        Command::Completions(args) => pages::completions(&args),
        Command::Manual(args) => pages::manual(&args),
        Command::Fmt(args) => format::fmt(&args),
        Command::Lsp => serve(),
        #[cfg(not(target_family = "wasm"))]
        Command::Playground(args) => playground::playground(&args),
        Command::Devices(args) => inspect::devices(&args),
    }
}

/// Runs the language server until the editor ends it.
fn serve() -> u8 {
    match lsp::serve_stdio() {
        Ok(()) => 0,
        Err(error) => {
            report::err(&format!("error: {error}\n"));
            1
        }
    }
}

fn json_and_file(command: &Command) -> (bool, String) {
    let (json, source) = match command {
        Command::Lsp | Command::Fmt(_) | Command::Completions(_) | Command::Manual(_) => {
            return (false, String::new());
        }
        #[cfg(not(target_family = "wasm"))]
        Command::Playground(_) => return (false, String::new()),
        Command::Devices(a) => return (a.json, String::new()),
        Command::Run(a) => (a.json, &a.source),
        Command::Check(a) => (a.json, &a.source),
        Command::Emit(a) => (a.json, &a.source),
        Command::Explain(a) => (false, &a.source),
        Command::Derive(a) => (a.rounding.call.json, &a.rounding.call.source),
        Command::Grad(a) => (a.point.call.json, &a.point.call.source),
        Command::Jacobian(a) => (a.point.call.json, &a.point.call.source),
        Command::Recurrence(a) => (a.point.call.json, &a.point.call.source),
        Command::Gradcheck(a) => (a.call.json, &a.call.source),
        Command::Verify(a) => (a.json, &a.source),
        Command::Ruletest(a) => (a.json, &a.source),
        Command::Precision(a) => (a.rounding.call.json, &a.rounding.call.source),
        Command::Fit(a) => (false, &a.source),
        Command::Bench(a) => (a.json, &a.source),
        #[cfg(any(feature = "llvm", feature = "wasm"))]
        Command::Build(a) => (a.json, &a.source),
    };
    (json, source.file.display().to_string())
}
