//! Checks that every diagnostic of docs/diagnostics.md is triggered by a file of tests/codes, and that there
//! are no others.
//!
//! The first line of `E30015.slang` is the command: `// check`, `// run --bind x=1`; the file's name is
//! inserted after its first word. The diagnostic must be at the line with the word `here`; if no line has
//! that word, the diagnostic must not be located in the file. `// chain: NAME N` makes N modules, each of
//! which imports the next.
//!
//! `rendered.txt` has what users see of each; `TRYCMD=overwrite cargo test -p pullback-cli --test codes` writes it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;

/// Diagnostics of the compiler's own mistakes, and of derivatives in the IR that cannot be transposed and
/// that the checker does not let a program request: no program is known to trigger them.
const INTERNAL: [&str; 1] = ["E0999"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The code of each file in tests/codes.
fn shown() -> Vec<String> {
    let mut codes = Vec::new();
    for entry in std::fs::read_dir(root().join("tests/codes")).expect("the folder is there") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|e| e == "slang") {
            codes.push(path.file_stem().expect("has a name").to_string_lossy().into_owned());
        }
    }
    codes.sort();
    codes
}

/// The codes in the tables of the documentation.
fn documented() -> Vec<String> {
    let text = read(&root().join("docs/diagnostics.md"));
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let mut codes: Vec<String> = rows.filter(|cell| is_code(cell)).map(str::to_string).collect();
    codes.sort();
    codes
}

fn is_code(text: &str) -> bool {
    text.strip_prefix(['E', 'W'])
        .is_some_and(|n| (4..=5).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The codes in string literals of the compiler's sources.
fn in_sources() -> Vec<String> {
    let mut codes = Vec::new();
    let mut open = vec![root().join("crates"), root().join("bin")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            if path.file_name().is_some_and(|n| n != "tests") {
                open.extend(std::fs::read_dir(&path).expect("readable").map(|e| e.expect("readable").path()));
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = read(&path);
            codes.extend(text.split('"').filter(|piece| is_code(piece)).map(str::to_string));
        }
    }
    codes.sort();
    codes.dedup();
    codes
}

/// The folder with the chain of modules that a file requests. Tests run at the same time: each has its own.
fn chain(text: &str, test: &str) -> Option<PathBuf> {
    let line = text.lines().find_map(|l| l.strip_prefix("// chain: "))?;
    let (name, n) = line.split_once(' ').expect("a name and a number");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chain-{name}-{test}"));
    std::fs::create_dir_all(&folder).expect("the test folder is writable");
    for k in 0..n.parse::<usize>().expect("a number") {
        let text = format!("import {name}{};\n", k + 1);
        std::fs::write(folder.join(format!("{name}{k}.slang")), text).expect("the test folder is writable");
    }
    std::fs::write(folder.join(format!("{name}{n}.slang")), "").expect("the test folder is writable");
    Some(folder)
}

/// The command that a file's first line gives, and the folder with its chain of modules.
fn command(text: &str, file: &str, test: &str) -> (Command, Option<PathBuf>) {
    let first = text.lines().next().and_then(|l| l.strip_prefix("// ")).expect("a command");
    let mut words = first.split(" -- ").next().unwrap_or(first).split_whitespace();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
    command.current_dir(root().join("tests/codes"));
    command.arg(words.next().expect("a command")).arg(file).args(words);
    let modules = chain(text, test);
    if let Some(modules) = &modules {
        command.arg("-I").arg(modules);
    }
    (command, modules)
}

/// The text of the diagnostics of a file, as users see it.
fn rendered(code: &str) -> String {
    let file = format!("{code}.slang");
    let text = read(&root().join("tests/codes").join(&file));
    let (mut command, modules) = command(&text, &file, "rendered");
    let out = command.output().expect("the program starts");
    let seen = String::from_utf8_lossy(&out.stderr).into_owned();
    match modules {
        Some(folder) => seen.replace(&*folder.to_string_lossy(), "MODULES"),
        None => seen,
    }
}

/// The problem with a file of tests/codes, if there is one.
fn problem(code: &str) -> Option<String> {
    let folder = root().join("tests/codes");
    let file = format!("{code}.slang");
    let text = read(&folder.join(&file));
    let mut directives = text.lines().skip(1).filter_map(|line| line.split_once("// ")?.1.split_once(": "));
    let is_known =
        |word: &str| ["chain", "here"].contains(&word) || !word.bytes().all(|b| b.is_ascii_lowercase());
    if let Some((word, _)) = directives.find(|d| !is_known(d.0)) {
        return Some(format!("{file}: there is no directive '{word}'"));
    }
    let (mut command, _) = command(&text, &file, "placed");
    command.arg("--json");
    let out = command.output().expect("the program starts");
    let stdout = String::from_utf8_lossy(&out.stdout);
    let Ok(json) = serde_json::from_str::<Json>(&stdout) else {
        return Some(format!("{file}: no diagnostics: {stdout}{}", String::from_utf8_lossy(&out.stderr)));
    };
    let is_here = |line: &str| line.split([' ', ':']).any(|word| word == "here");
    let here: Vec<u64> = (1..).zip(text.lines()).filter(|l| is_here(l.1)).map(|l| l.0).collect();
    let entries: &[Json] = json["diagnostics"].as_array().map_or(&[], Vec::as_slice);
    let found = entries.iter().any(|d| {
        let line = d["line"].as_u64().unwrap_or(0);
        let placed = here.contains(&line) && d["file"] == file.as_str();
        let nowhere = here.is_empty() && (line == 0 || d["file"] != file.as_str());
        d["code"] == code && (placed || nowhere)
    });
    let severity = if code.starts_with('W') { "warning" } else { "error" };
    let severe = |d: &Json| d["code"] != code || d["severity"] != "error" || severity == "error";
    let is_error = entries.iter().any(|d| d["severity"] == "error");
    if !found || !entries.iter().all(severe) || (out.status.code() == Some(0)) == is_error {
        return Some(format!("{file}: expected {code} at {here:?}, found {stdout}"));
    }
    None
}

#[test]
fn every_code_is_triggered_at_its_place() {
    let problems: Vec<String> = shown().iter().filter_map(|code| problem(code)).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn diagnostics_are_rendered_as_recorded() {
    let path = root().join("tests/codes/rendered.txt");
    let seen: String = shown().iter().map(|code| rendered(code) + "\n").collect();
    if std::env::var("TRYCMD").is_ok_and(|mode| mode == "overwrite") {
        std::fs::write(&path, &seen).expect("the file is writable");
    }
    let recorded = read(&path);
    let mut lines = (1..).zip(recorded.lines().zip(seen.lines()));
    if let Some((line, (recorded, seen))) = lines.find(|(_, (recorded, seen))| recorded != seen) {
        panic!("line {line} of rendered.txt: recorded\n{recorded}\nbut seen\n{seen}");
    }
    assert_eq!(recorded.len(), seen.len(), "rendered.txt has more or fewer lines than are seen");
}

#[test]
fn every_code_is_documented_and_shown() {
    let documented = documented();
    assert!(documented.windows(2).all(|w| w[0] != w[1]), "a code is there twice");
    let mut shown = shown();
    shown.extend(INTERNAL.map(str::to_string));
    shown.sort();
    assert_eq!(documented, shown, "left: docs/diagnostics.md, right: tests/codes");
    assert_eq!(documented, in_sources(), "left: docs/diagnostics.md, right: literals of the sources");
}
