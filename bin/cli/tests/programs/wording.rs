//! Tests that no diagnostic shows an internal name of the compiler. The wording of the main ones is in
//! `documents/check.md`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names that occur only in the compiler's sources. A program may use some of them itself.
const INTERNAL: [&str; 11] = [
    "__Builtin",
    "__Elementwise",
    "__FloatElementwise",
    "Elementwise",
    "Unknown",
    "naga",
    "LLVM ERROR",
    "<error>",
    "$lambda",
    "'$",
    "'some ",
];

/// Commands that compile a file, with the arguments after its name; `FUNCTION` stands for the first
/// differentiable function.
const COMMANDS: [&[&str]; 7] = [
    &["check"],
    &["run"],
    &["emit", "--target", "wgsl", "-o", "wording.out"],
    &["build", "-o", "wording.o"],
    &["derive", "FUNCTION"],
    &["grad", "FUNCTION", "--at", "x=1"],
    &["gradcheck", "FUNCTION", "--points", "1"],
];

/// The name of the first function that is marked [Differentiable].
fn differentiable(program: &str) -> Option<&str> {
    let rest = &program[program.find("[Differentiable]")? + "[Differentiable]".len()..];
    rest[..rest.find('(')?].split_whitespace().last()
}

/// The compiler's internal names that commands show for a file, unless the program contains them.
fn internal(path: &Path) -> Vec<String> {
    let Ok(program) = std::fs::read_to_string(path) else { return Vec::new() };
    let function = differentiable(&program);
    let mut shown = Vec::new();
    for words in COMMANDS {
        if words.contains(&"FUNCTION") && function.is_none() || !is_built(words) {
            continue;
        }
        let rest =
            words[1..].iter().map(|&word| if word == "FUNCTION" { function.unwrap_or(word) } else { word });
        let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
        command.current_dir(env!("CARGO_TARGET_TMPDIR")).arg(words[0]).arg(path).args(rest);
        if !matches!(words[0], "check" | "emit" | "build" | "derive") {
            command.args(["--seconds", "5"]);
        }
        let output = command.output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr);
        let found = INTERNAL.iter().find(|name| text.contains(**name) && !program.contains(**name));
        shown.extend(found.map(|name| format!("{name} by {words:?} in {}:\n{text}", path.display())));
    }
    shown
}

/// Returns true if this build has a command.
fn is_built(words: &[&str]) -> bool {
    match words[0] {
        "build" => cfg!(any(feature = "llvm", feature = "wasm")),
        "emit" => cfg!(feature = "gpu"),
        _ => true,
    }
}

#[test]
fn no_name_of_the_compilers_own_is_shown() {
    let folders = ["tests/codes", "tests/check", "tests/run/errors"];
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).expect("readable").map(|e| e.expect("readable").path()));
        } else if path.extension().is_some_and(|e| e == "slang") {
            files.push(path);
        }
    }
    assert!(files.len() > 150, "{}", files.len());
    let shown: Vec<String> = std::thread::scope(|scope| {
        let mut parts = Vec::new();
        for files in files.chunks(files.len().div_ceil(4)) {
            parts.push(scope.spawn(move || files.iter().flat_map(|f| internal(f)).collect::<Vec<_>>()));
        }
        parts.into_iter().flat_map(|part| part.join().expect("it ends")).collect()
    });
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}
