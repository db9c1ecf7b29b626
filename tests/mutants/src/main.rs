//! Measures the tests by the faults that they find: plants faults in the passes of the compiler, one at a time, and runs the
//! tests of each.
//!
//! ```text
//! cargo run --release -p pullback-mutants -- [FAULTS [SEED]]
//! ```
//!
//! works in `target/mutants`, on so many places [default: 200], chosen at random with the seed [default: 1]. A fault counts as
//! found if a test fails, or takes four times as long as without it. Some faults change no result: a rule of the optimiser
//! that is not applied, or an order that does not matter. They are listed with the others that survive.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a report is its result")]

mod campaign;
mod plant;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>());
    let (most, seed) = (arguments.next().unwrap_or(Ok(200)), arguments.next().unwrap_or(Ok(1)));
    let (Ok(most), Ok(seed)) = (most, seed) else {
        eprintln!("usage: pullback-mutants [FAULTS [SEED]]");
        return ExitCode::from(2);
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().unwrap_or(root);
    match campaign::run(&root, &root.join("target/mutants"), most as usize, seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
