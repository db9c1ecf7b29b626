//! Checks that no optimisation before differentiation changes a derivative: for every differentiable function
//! of the programs in `tests` (including programs with errors, whose other functions are correct), and of
//! random programs, at each level of optimisation, in the program's number types and in doubles.
//!
//! An input is active at all levels or at none, in each direction and for each output: its derivative is
//! exactly zero or it is not. Values agree up to rounding. Memory has the content given by the program's
//! `bind:` lines. `PULLBACK_ONLY` restricts the programs to paths that contain a text, `PULLBACK_RANDOM` sets
//! the number of random programs, `PULLBACK_SEED` the first seed.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use driver::Request;
use driver::bind::{Bind, parse_bind};
use driver::call::{Callee, Point};
use driver::error::Error;
use driver::gradcheck::Random;
use driver::launch::{Backend, CodeOptions};
use driver::pipeline::{self, Failure, Listed, Loaded, Options, on_large_stack};
use driver::session::{FileOptions, Session};
use ir::{Scalar, scalar};
use pullback_tests::file::TestFile;
use pullback_tests::{generate, setting};

/// The range of inputs.
const RANGE: (f64, f64) = (0.25, 1.75);
/// A function with more differentiable numbers is left out, since each requires a call; `PULLBACK_MOST`
/// changes the limit.
const MOST: u64 = 64;

/// The results of a function at a point: values, then derivatives by forward and reverse mode.
struct Outcome {
    names: Vec<String>,
    numbers: Vec<f64>,
}

/// The reason why there is nothing to compare.
enum Left {
    /// A host cannot call the function, or memory is not bound.
    Out(String),
    /// The function cannot be run, or stops.
    Stopped(String),
}

fn left(failure: Failure) -> Left {
    match failure {
        Failure::Other(Error::Input(why)) => Left::Out(why),
        Failure::Other(error) => Left::Stopped(error.to_string()),
        Failure::Program(diagnostics) => {
            Left::Out(diagnostics.first().map_or(String::new(), |d| d.message.clone()))
        }
    }
}

fn outcome(
    loaded: &mut Loaded,
    listed: &Listed,
    binds: &[Bind],
    (level, widen): (u8, bool),
) -> Result<Outcome, Failure> {
    let mut options = Options { widen, ..Options::default() };
    options.optimise.level = level;
    let request =
        Request { functions: vec![listed.function.clone()], derivatives: true, ..Request::default() };
    let compiled = loaded.compile(&request, &options)?;
    if compiled.functions.iter().flat_map(|f| &f.params).any(|p| p.is_dynamic) {
        return Err(Error::input("a parameter of interface type").into());
    }
    let mut callee = Callee::new(compiled, Backend::INTERP, &CodeOptions::default(), binds)?;
    callee.bind(loaded, binds)?;
    let count = |numbers: &[driver::call::Number]| numbers.iter().filter(|n| n.diff).count();
    let (from, to) = (count(&callee.inputs), count(&callee.outputs));
    if from == 0 || to == 0 || (from + to) as u64 > setting("PULLBACK_MOST", MOST) {
        return Err(Error::input("no derivatives, or too many").into());
    }
    let mut random = Random::new(7);
    let point: Point = callee.point(&[], &mut |n| {
        // The number is the same at each width.
        let single = if n.scalar.is_float() { Scalar::F16 } else { n.scalar };
        Some(scalar::convert(single, n.scalar, random.scalar(single, RANGE.0, RANGE.1)))
    })?;
    let (mut names, mut numbers) = (Vec::new(), Vec::new());
    let values = callee.value(&point)?;
    for (number, bits) in callee.outputs.iter().zip(values) {
        names.push(number.name.clone());
        numbers.push(scalar::to_f64(number.scalar, bits));
    }
    for (mode, rows) in [("forward", callee.forward(&point)?), ("reverse", callee.reverse(&point)?)] {
        let outputs = callee.outputs.iter().filter(|n| n.diff);
        for (output, row) in outputs.zip(rows) {
            for (input, number) in callee.inputs.iter().filter(|n| n.diff).zip(row) {
                names.push(format!("d {}/d {} {mode}", output.name, input.name));
                numbers.push(number);
            }
        }
    }
    Ok(Outcome { names, numbers })
}

/// Compares the levels on a file's functions; adds differences to `differ`, and returns the number of
/// compared numbers.
fn compare(path: &Path, differ: &mut Vec<String>) -> usize {
    let mut session = Session::new(FileOptions::default());
    let Ok(mut loaded) = pipeline::load(&mut session, path) else { return 0 };
    if loaded.errors().is_err() {
        return 0;
    }
    let file = TestFile::read(path);
    let binds = file.iter().flat_map(|f| f.all("bind")).filter_map(|text| parse_bind(text).ok());
    let binds: Vec<Bind> = binds.filter(|bind| loaded.declares_global(&bind.name)).collect();
    let mut compared = 0;
    for listed in loaded.differentiable_declarations().into_iter().filter(|l| l.why_not.is_none()) {
        for (widen, near) in [(true, 1e-9), (false, 1e-3)] {
            let at = |level: u8| {
                let mut loaded = pipeline::load(&mut session, path)?;
                outcome(&mut loaded, &listed, &binds, (level, widen))
            };
            let outcomes: Vec<Result<Outcome, Failure>> = [0, 1, 2].into_iter().map(at).collect();
            let mut outcomes = outcomes.into_iter().map(|outcome| outcome.map_err(left));
            let place =
                format!("{}: {}{}", path.display(), listed.name, if widen { ", in doubles" } else { "" });
            let first = match outcomes.next() {
                Some(Ok(first)) => first,
                // The function stops at each level, or is left out.
                Some(Err(first)) => {
                    for (level, outcome) in (1..).zip(outcomes) {
                        let same = match (&first, &outcome) {
                            (Left::Out(_), Err(Left::Out(_))) | (Left::Stopped(_), Err(Left::Stopped(_))) => {
                                true
                            }
                            // An error may be found at compile time with less optimisation, and at run time
                            // otherwise.
                            _ => matches!(first, Left::Stopped(_)) && matches!(outcome, Err(Left::Out(_))),
                        };
                        if !same {
                            differ.push(format!("{place}: it runs at one of -O0, -O{level}"));
                        }
                    }
                    continue;
                }
                None => continue,
            };
            for (level, outcome) in (1..).zip(outcomes) {
                match outcome {
                    Ok(outcome) => {
                        compared += compare_numbers(&place, level, near, (&first, &outcome), differ)
                    }
                    Err(Left::Out(why) | Left::Stopped(why)) => {
                        differ.push(format!("{place}: not at -O{level}: {why}"));
                    }
                }
            }
        }
    }
    compared
}

fn compare_numbers(
    place: &str,
    level: u8,
    near: f64,
    (first, other): (&Outcome, &Outcome),
    differ: &mut Vec<String>,
) -> usize {
    let n_values = first.names.iter().filter(|name| !name.starts_with("d ")).count();
    let numbers = first.numbers.iter().zip(&other.numbers).zip(&first.names);
    for (k, ((&a, &b), name)) in numbers.enumerate() {
        let is_near = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= near * (1.0 + a.abs());
        if !is_near || k >= n_values && (a == 0.0) != (b == 0.0) {
            differ.push(format!("{place}: {name}: {a:e} at -O0, {b:e} at -O{level}"));
        }
    }
    if first.names != other.names {
        differ.push(format!("{place}: other inputs and outputs at -O{level}"));
    }
    first.names.len()
}

/// Compares files, on as many threads as there are cores.
fn check(paths: &[PathBuf], at_least: usize) {
    let work = Mutex::new((paths.iter(), Vec::new(), 0));
    let lock = || work.lock().expect("no thread has failed");
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                loop {
                    let next = lock().0.next();
                    let Some(path) = next.cloned() else { break };
                    let (found, n) = on_large_stack(move || {
                        let mut found = Vec::new();
                        let n = compare(&path, &mut found);
                        (found, n)
                    });
                    let mut work = lock();
                    work.1.extend(found);
                    work.2 += n;
                }
            });
        }
    });
    let (_, mut differ, compared) = work.into_inner().expect("no thread has failed");
    differ.sort();
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
    assert!(compared >= at_least, "only {compared} numbers were compared");
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|e| e.path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "slang") {
            found.push(path);
        }
    }
}

#[test]
fn programs_of_tests() {
    let mut paths = Vec::new();
    for folder in ["run", "emit", "check", "codes"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut paths);
    }
    paths.sort();
    let only = std::env::var("PULLBACK_ONLY").unwrap_or_default();
    paths.retain(|path| path.display().to_string().contains(&only));
    check(&paths, if only.is_empty() { 5000 } else { 0 });
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
