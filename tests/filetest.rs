//! Runs every file under `tests/{check,ir,opt,autodiff,run,emit}/` as a separate test.
//!
//! `cargo test -p pullback-tests --test filetest NAME` runs those whose path contains NAME.

use std::path::Path;

use libtest_mimic::{Arguments, Trial};
use pullback_tests::{commands, file, floor};

/// The compiler recurses over nesting; a test thread's stack is too small for the deepest programs.
const STACK: usize = 512 << 20;

fn main() {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let trials: Vec<Trial> = file::discover(root)
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            Trial::test(name, move || {
                let run = move || file::TestFile::read(&path).and_then(|file| commands::run(&file));
                let thread = std::thread::Builder::new().stack_size(STACK).spawn(run);
                let outcome = thread.map_err(|e| e.to_string())?.join();
                outcome.unwrap_or_else(|_| Err("it panicked".to_string())).map_err(Into::into)
            })
        })
        .collect();
    let passes = opt::passes()
        .map(|pass| Trial::test(format!("tests of {pass}"), move || tests_of(pass).map_err(Into::into)));
    let trials = passes.chain(trials).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    floor::say_missing(&["spirv-val", "glslangValidator"]);
    conclusion.exit();
}

/// Checks that a pass of the optimiser has three tests, and that one of them has a function that it leaves as it is.
fn tests_of(pass: &str) -> Result<(), String> {
    let files = file::discover(Path::new(env!("CARGO_MANIFEST_DIR")));
    let files = files.iter().filter_map(|path| file::TestFile::read(path).ok());
    let files: Vec<file::TestFile> =
        files.filter(|file| file.command.iter().any(|word| word == pass)).collect();
    let is_unchanged = files.iter().any(|file| file.directives.iter().any(|d| d.key == "unchanged"));
    match (files.len(), is_unchanged) {
        (0..3, _) => Err("it has fewer than three".to_string()),
        (_, false) => Err("none has a function that is unchanged".to_string()),
        _ => Ok(()),
    }
}
