//! The least number of programs of `tests/run` that each target must run or write, so that no target passes its tests
//! by refusing programs; and the tools without which the results of some are not checked.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// The targets, each with its least number of programs. Raise a number when a target learns something.
const FLOORS: [(&str, usize); 14] = [
    ("interp", 322),
    ("cranelift", 322),
    ("llvm", 550),
    ("wgsl", 266),
    ("spirv", 297),
    ("spirv-asm", 297),
    ("msl", 273),
    ("hlsl", 284),
    ("glsl", 262),
    ("reflection", 297),
    ("ptx", 321),
    ("simulated ptx", 308),
    ("device", 200),
    ("wasm", 370),
];

/// States how many programs a target ran or wrote; panics if these are fewer than its floor. The floor does not hold
/// where `PULLBACK_ONLY` selects programs.
pub fn hold(target: &str, ran: usize) {
    let floor = FLOORS.iter().find(|f| f.0 == target).map(|f| f.1).expect("every target has a floor");
    say(&format!("{target}: {ran} programs, at least {floor} wanted"));
    assert!(
        ran >= floor || std::env::var_os("PULLBACK_ONLY").is_some(),
        "{target} refuses what it ran before"
    );
}

/// States which of the tools that validate results are missing on this machine.
pub fn say_missing(tools: &[&str]) {
    for tool in tools {
        let run = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if run.is_err() {
            say(&format!("{tool} is not installed: what it would have checked was not checked"));
        }
    }
}

/// Prints a line that is not captured with the output of the test.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::hold;
    use crate::file::programs;

    /// The filetests run each program without an expected error on both, and fail where one does not run.
    #[test]
    fn interpreter_and_cranelift_run_all_programs() {
        let n = programs().filter(|(_, file)| file.all("error").next().is_none()).count();
        hold("interp", n);
        hold("cranelift", n);
    }
}
