//! Runs every file under `tests/{check,ir,opt,autodiff,run,emit}/` as a separate test.
//!
//! `cargo test -p pullback-tests --test filetest NAME` runs those whose path contains NAME.

use libtest_mimic::{Arguments, Trial};
use pullback_tests::{commands, file, floor};

/// The compiler recurses over nesting; a test thread's stack is too small for the deepest programs.
const STACK: usize = 512 << 20;

fn main() {
    let arguments = Arguments::from_args();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let trials = file::discover(root)
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
    let conclusion = libtest_mimic::run(&arguments, trials);
    floor::say_missing(&["spirv-val", "glslangValidator"]);
    conclusion.exit();
}
