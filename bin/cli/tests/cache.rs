//! Tests the cache of compiled kernels from the point of view of users: a compiled kernel is not compiled
//! again, even if other processes write to the folder, and damaged files are replaced.
#![cfg(feature = "llvm")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const KERNEL: &str = "
RWStructuredBuffer<float> found;
[Differentiable] float f(float x) { return sin(x) * x * x + exp(-x); }
[numthreads(16, 1, 1)] void main(uint3 tid : SV_DispatchThreadID)
{
    var p = diffPair(tid.x * 0.1f);
    bwd_diff(f)(p, 1.0f);
    found[tid.x] = p.d;
}";

/// A folder with the program and an empty cache.
fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("the folder is writable");
    std::fs::write(path.join("program.slang"), KERNEL).expect("written");
    path
}

fn start(folder: &Path, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_pullback"))
        .args(["run", "program.slang", "--bind", "found=zeros:16", "--backend", "llvm"])
        .args(more)
        .current_dir(folder)
        .env("PULLBACK_CACHE", folder.join("cache"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs")
}

fn finish(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The files in the cache.
fn kept(folder: &Path) -> Vec<PathBuf> {
    match std::fs::read_dir(folder.join("cache")) {
        Ok(entries) => entries.flatten().map(|e| e.path()).collect(),
        Err(_) => Vec::new(),
    }
}

#[test]
fn a_kernel_is_kept_and_found_again() {
    let folder = folder("cache-kept");
    let without = finish(start(&folder, &["--no-cache"]));
    assert_eq!(kept(&folder).len(), 0);
    assert_eq!(finish(start(&folder, &[])), without);
    let files = kept(&folder);
    assert_eq!(files.len(), 1);
    let before = std::fs::read(&files[0]).expect("is there");
    assert_eq!(finish(start(&folder, &[])), without);
    assert_eq!(kept(&folder), files);
    // With other options it is another kernel.
    assert_eq!(finish(start(&folder, &["--lanes", "4"])), without);
    assert_eq!(kept(&folder).len(), 2);
    // The cached file must be what runs: without it LLVM would be needed, whose path is wrong here.
    let lost = |child: &mut Command| {
        let child = child.args(["run", "program.slang", "--bind", "found=zeros:16", "--backend", "llvm"]);
        let child = child.current_dir(&folder).env("PULLBACK_CACHE", folder.join("cache"));
        child.env("PULLBACK_LIBLLVM", "/nowhere/libLLVM.so").output().expect("it runs")
    };
    let found = lost(&mut Command::new(env!("CARGO_BIN_EXE_pullback")));
    assert_eq!(String::from_utf8_lossy(&found.stdout), without);
    for file in kept(&folder) {
        std::fs::remove_file(file).expect("is there");
    }
    let found = lost(&mut Command::new(env!("CARGO_BIN_EXE_pullback")));
    let error = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(!found.status.success() && error.contains("LLVM 19 could not be opened"), "{error}");
    assert!(!before.is_empty());
}

#[test]
fn damaged_files_are_made_again() {
    let folder = folder("cache-damaged");
    let wanted = finish(start(&folder, &[]));
    let file = kept(&folder).pop().expect("is kept");
    let whole = std::fs::read(&file).expect("is there");
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    for damaged in [&whole[..whole.len() / 2], &whole[..10], &[], &changed, b"something else"] {
        std::fs::write(&file, damaged).expect("can be written");
        assert_eq!(finish(start(&folder, &[])), wanted);
        assert!(std::fs::read(&file).expect("is there") == whole, "made again");
    }
}

#[test]
fn processes_share_a_cache() {
    let folder = folder("cache-shared");
    let children: Vec<Child> = (0..4).map(|_| start(&folder, &[])).collect();
    let mut found: Vec<String> = children.into_iter().map(finish).collect();
    found.dedup();
    assert_eq!(found.len(), 1);
    assert_eq!(kept(&folder).len(), 1, "one file, and nothing left behind");
}
