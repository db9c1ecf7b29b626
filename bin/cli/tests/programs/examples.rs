//! The examples that other build systems build: a library for C by CMake, and one for Rust by a `build.rs`.
//!
//! They are built where their tools are, and LLVM, which compiles libraries; otherwise the test says what is missing.

use std::path::{Path, PathBuf};
use std::process::Command;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// An empty folder for a build.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("the test folder is writable");
    path
}

/// Returns true if the compiler builds libraries here, and a tool is there.
fn is_there(tool: &str, version: &str) -> bool {
    let out = folder("examples-probe").join("probe.o");
    let built = Command::new(env!("CARGO_BIN_EXE_pullback"))
        .current_dir(example("c-library"))
        .args(["build", "spring.slang", "spring", "-o"])
        .arg(&out)
        .output()
        .expect("the program starts");
    if !built.status.success() {
        eprintln!("skipped: no library is built here: {}", String::from_utf8_lossy(&built.stderr));
        return false;
    }
    let found = Command::new(tool).arg(version).output().is_ok_and(|out| out.status.success());
    if !found {
        eprintln!("skipped: there is no `{tool}`");
    }
    found
}

/// Runs a command that must succeed, and gives what it prints.
fn run(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{command:?}: {stdout}{stderr}");
    stdout.into_owned()
}

#[test]
fn a_library_for_c_by_cmake() {
    if !is_there("cmake", "--version") {
        return;
    }
    let build = folder("examples-cmake");
    let compiler = format!("-DPULLBACK={}", env!("CARGO_BIN_EXE_pullback"));
    run(Command::new("cmake").arg("-S").arg(example("c-library")).arg("-B").arg(&build).arg(compiler));
    run(Command::new("cmake").arg("--build").arg(&build));
    let printed = run(&mut Command::new(build.join("main")));
    assert!(printed.contains("energy 0.500"), "{printed}");
}

#[test]
fn a_library_for_rust_by_a_build_script() {
    if !is_there("cargo", "--version") {
        return;
    }
    let target = folder("examples-rust");
    let printed = run(Command::new(env!("CARGO"))
        .current_dir(example("rust-build"))
        .args(["run", "--offline", "--locked", "--quiet", "--target-dir"])
        .arg(&target)
        .env("PULLBACK", env!("CARGO_BIN_EXE_pullback"))
        .env("RUSTFLAGS", "-D warnings"));
    assert!(printed.contains("energy 0.500"), "{printed}");
    assert!(printed.contains("`states` has elements of 2, which 199 do not fill"), "{printed}");
}
