//! No optimisation before differentiation changes a derivative: every differentiable function of the programs in
//! `tests/run/derivatives`, and random programs, at each level of optimisation.
//!
//! An input is active at all levels or at none, in each direction and by each output: its derivative is exactly zero or
//! it is not. Values agree to rounding. `PULLBACK_RANDOM` sets how many random programs are made, `PULLBACK_SEED` the
//! first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use driver::bind::MatrixLayout;
use driver::gradcheck::Entry;
use driver::launch::Backend;
use driver::pipeline::on_large_stack;
use driver::session::{FileOptions, Session};
use driver::verify::{self, Checked, Numbers, Options};
use pullback_tests::{generate, setting};

const LEVELS: [u8; 3] = [0, 1, 2];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        // Some thousand derivatives by elements of arrays.
        if path.file_name().is_some_and(|name| name == "carried-arrays-that-are-large.slang") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "slang") {
            found.push(path);
        }
    }
}

/// Compares the levels on a file's functions; adds what differs, and gives how many derivatives were compared.
fn compare(path: &Path, differ: &mut Vec<String>) -> usize {
    let mut session = Session::new(FileOptions::default());
    let options = Options {
        functions: Vec::new(),
        at: Vec::new(),
        points: 1,
        range: (0.25, 1.75),
        seed: 7,
        tolerance: 1e-3,
        memory: (Vec::new(), MatrixLayout::default()),
        backends: vec![Backend::Interp],
        levels: LEVELS.to_vec(),
        lanes: None,
        limits: driver::launch::Limits::default(),
    };
    // A program with errors, or one that the interpreter does not run, has no derivatives.
    let Ok(verified) = verify::verify(&mut session, path, &options) else { return 0 };
    verified.functions.iter().map(|function| compare_function(path, function, differ)).sum()
}

fn compare_function(path: &Path, function: &Checked, differ: &mut Vec<String>) -> usize {
    let Ok(rows) = &function.rows else { return 0 };
    let mut compared = 0;
    for (numbers, near) in [(Numbers::Double, 1e-9), (Numbers::Declared, 1e-3)] {
        let mut first: BTreeMap<(usize, &str, &str), &Entry> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.numbers == numbers) {
            let Ok(found) = &row.found else { continue };
            for (point, entry) in &found.entries {
                let key = (*point, entry.output.as_str(), entry.input.as_str());
                let Some(other) = first.get(&key) else {
                    first.insert(key, entry);
                    continue;
                };
                compared += 1;
                for (mode, a, b) in
                    [("forward", other.forward, entry.forward), ("reverse", other.reverse, entry.reverse)]
                {
                    let is_near =
                        a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= near * (1.0 + a.abs());
                    if !is_near || (a == 0.0) != (b == 0.0) {
                        differ.push(format!(
                            "{}: {} at {}: d {}/d {} {mode} ({numbers:?}): {a:e} at -O0, {b:e} at -O{}",
                            path.display(),
                            function.name,
                            function.points[*point],
                            entry.output,
                            entry.input,
                            row.level
                        ));
                    }
                }
            }
        }
    }
    compared
}

fn check(paths: &[PathBuf], at_least: usize) {
    let (mut differ, mut compared) = (Vec::new(), 0);
    for path in paths {
        let path = path.clone();
        let (found, n) = on_large_stack(move || {
            let mut found = Vec::new();
            let n = compare(&path, &mut found);
            (found, n)
        });
        differ.extend(found);
        compared += n;
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
    assert!(compared >= at_least, "only {compared} derivatives were compared");
}

#[test]
fn programs_of_tests() {
    let mut paths = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("run/derivatives"), &mut paths);
    check(&paths, 1000);
}

#[test]
fn random_programs() {
    let (n, seed) = (setting("PULLBACK_RANDOM", 4), setting("PULLBACK_SEED", 1));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let paths: Vec<PathBuf> = (0..n)
        .map(|k| {
            let scalar = if k % 2 == 0 { "float" } else { "double" };
            let path = folder.join(format!("levels-{k}.slang"));
            let text = generate::program(seed + k, scalar).text;
            std::fs::write(&path, text).expect("the folder is Cargo's");
            path
        })
        .collect();
    check(&paths, n as usize);
}
