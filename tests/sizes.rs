//! Compares the size of the code of every program of tests/run with what it was.
//!
//! A pass that no longer applies, or that copies too much, changes no result of a program. It changes these numbers:
//! `sizes.txt` has, for each program, the instructions of its optimised IR, their operands and results, and the characters of
//! its WGSL. `PULLBACK_SIZES=overwrite` writes the file anew; its diff tells which programs a change of the compiler touches.

use std::collections::BTreeMap;
use std::path::PathBuf;

use driver::Request;
use driver::gpu::{Target, emit_compiled};
use driver::pipeline::{Failure, Options, load, on_large_stack};
use driver::session::{FileOptions, Session};
use ir::Module;
use libtest_mimic::{Arguments, Trial};
use pullback_tests::file::{TestFile, programs, root};
use pullback_tests::on_all_cores;

fn main() {
    let table = root().join("sizes.txt");
    let overwrites = std::env::var("PULLBACK_SIZES").is_ok_and(|mode| mode == "overwrite");
    let all: Vec<(String, TestFile)> = programs().map(|(path, file)| (name(&path), file)).collect();
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

/// The line of a program in the table, if it compiles.
fn line(name: &str, file: &TestFile) -> Option<String> {
    if file.all("error").next().is_some() {
        return None;
    }
    let mut session = Session::new(FileOptions::default());
    let compiled = (|| -> Result<_, Failure> {
        let mut loaded = load(&mut session, &file.path)?;
        loaded.errors()?;
        let entry = file.all("entry").next().filter(|entry| !entry.contains('('));
        let entries = match (entry, loaded.program.entry_points(loaded.file)) {
            (None, entries) if !entries.is_empty() => entries,
            (entry, _) => vec![loaded.entry(entry)?],
        };
        loaded.compile(&Request { entries, ..Request::default() }, &Options::default())
    })();
    let compiled = compiled.ok()?;
    let text = emit_compiled(&session.sources, &compiled, None, Target::Wgsl).unwrap_or_default();
    let characters = text.iter().filter(|byte| !byte.is_ascii_whitespace()).count();
    let (instructions, operands) = size(&compiled.module);
    Some(format!("{name} {instructions} {operands} {characters}"))
}

/// The numbers of instructions, and of their operands and results with those of regions, over all functions.
fn size(module: &Module) -> (usize, usize) {
    let (mut instructions, mut operands) = (0, 0);
    for f in module.funcs.values().filter(|f| f.has_body()) {
        let mut regions = vec![f.body()];
        f.walk(f.body(), &mut |inst| {
            let data = &f.insts[inst];
            instructions += 1;
            operands += data.args.len() + data.results.len();
            regions.extend(data.regions.iter().copied());
        });
        operands +=
            regions.iter().map(|&r| f.regions[r].params.len() + f.regions[r].results.len()).sum::<usize>();
    }
    (instructions, operands)
}
