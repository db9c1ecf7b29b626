//! The binary `pullback`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pullback_cli::main()
}
