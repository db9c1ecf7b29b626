//! Compares the size of the code of every program of tests/run, and of every module of the IR, with what it was.
//!
//! A pass that no longer applies, or that copies too much, changes no result of a program. It changes these numbers:
//! `sizes.txt` has, for each, the instructions of its IR with all derivatives and their operands and results, optimised and
//! not, and the words of its WGSL. `PULLBACK_SIZES=overwrite` writes the file anew; its diff tells which programs a change of the
//! compiler touches.

use std::collections::BTreeMap;
use std::path::PathBuf;

use driver::gpu::{Target, emit_compiled};
use driver::pipeline::{Failure, Options, on_large_stack};
use driver::session::{FileOptions, Session};
use libtest_mimic::{Arguments, Trial};
use pullback_tests::file::{TestFile, discover, programs, root};
use pullback_tests::{on_all_cores, request, size};

fn main() {
    let table = root().join("sizes.txt");
    let overwrites = std::env::var("PULLBACK_SIZES").is_ok_and(|mode| mode == "overwrite");
    let is_module = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "ir");
    let modules = discover(&root()).into_iter().filter(is_module);
    let modules = modules.filter_map(|path| Some((path.display().to_string(), TestFile::read(&path).ok()?)));
    let all: Vec<(String, TestFile)> =
        programs().chain(modules).map(|(path, file)| (name(&path), file)).collect();
    if overwrites {
        let lines = on_all_cores(&all, |(name, file)| on_large_stack(|| line(name, file)));
        let text: String = lines.into_iter().flatten().map(|line| line + "\n").collect();
        std::fs::write(&table, text).expect("the table is written");
        return;
    }
    let text = std::fs::read_to_string(&table).expect("there is a table");
    let known: BTreeMap<String, String> = text
        .lines()
        .filter_map(|line| Some((line.split_once(' ')?.0.to_string(), line.to_string())))
        .collect();
    let trials = all.into_iter().map(|(name, file)| {
        let known = known.get(&name).cloned();
        Trial::test(name.clone(), move || {
            let found = on_large_stack(|| line(&name, &file));
            if found == known {
                return Ok(());
            }
            let [found, known] = [found, known].map(|line| line.unwrap_or_else(|| "nothing".into()));
            let what =
                format!("`{found}`, where sizes.txt has `{known}`; PULLBACK_SIZES=overwrite writes it anew");
            Err(what.into())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

/// The path below the folder of the tests.
fn name(path: &str) -> String {
    let below = PathBuf::from(path);
    below.strip_prefix(root()).unwrap_or(&below).display().to_string()
}

/// The line of a module in the table, if it is valid.
fn line_of_module(name: &str, file: &TestFile) -> Option<String> {
    let mut module = ir::parse::parse_module(&file.text).ok()?;
    let is_valid = ir::verify::verify_module(&module).is_empty()
        && autodiff::differentiate(&mut module, &autodiff::Options::default()).is_empty();
    let plain = size(&module);
    let all: Vec<ir::Func> = module.funcs.keys().collect();
    is_valid.then(|| opt::after_ad(&mut module, &opt::Options::default(), &all))?;
    let optimised = size(&module);
    Some(format!("{name} {} {} {} {}", optimised.0, optimised.1, plain.0, plain.1))
}

/// The line of a program in the table, if it compiles.
fn line(name: &str, file: &TestFile) -> Option<String> {
    if name.ends_with(".ir") {
        return line_of_module(name, file);
    }
    if file.all("error").next().is_some() {
        return None;
    }
    let mut session = Session::new(FileOptions::default());
    let mut compiled = |level| -> Result<_, Failure> {
        let entry = file.all("entry").next().filter(|entry| !entry.contains('('));
        let (mut loaded, request) = request(&mut session, &file.path, entry)?;
        let mut options = Options::default();
        options.optimise.level = level;
        loaded.compile(&request, &options)
    };
    let plain = compiled(0).ok()?;
    let compiled = compiled(Options::default().optimise.level).ok()?;
    let text = emit_compiled(&session.sources, &compiled, None, Target::Wgsl).unwrap_or_default();
    // Not its characters: a constant may have other digits on another machine.
    let words = String::from_utf8_lossy(&text).split_whitespace().count();
    let [optimised, plain] = [&compiled, &plain].map(|compiled| size(&compiled.module));
    Some(format!("{name} {} {} {} {} {words}", optimised.0, optimised.1, plain.0, plain.1))
}
