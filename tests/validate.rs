//! Compiles every program of tests/run with `--verify-passes`: no pass, and no step of differentiation, changes what a
//! function gives. `PULLBACK_ONLY` restricts the programs to paths that contain a text, and `PULLBACK_REPORT` prints what
//! was not run.

use std::collections::BTreeMap;

use driver::Request;
use driver::pipeline::{self, Failure, Options};
use driver::session::{FileOptions, Session};
use driver::validate::{Summary, Validation};
use pullback_tests::file::{TestFile, programs};
use pullback_tests::on_all_cores;

/// The extent of the validation of a program, and the faults that were found.
fn validated(file: &TestFile) -> (Summary, Vec<String>) {
    let validation = Validation::default();
    let binds: Vec<_> = file.all("bind").filter_map(|text| driver::bind::parse_bind(text).ok()).collect();
    validation.bind(&binds);
    let options = FileOptions { validation: Some(validation.clone()), ..FileOptions::default() };
    let mut session = Session::new(options);
    let mut faults = Vec::new();
    if let Ok(mut loaded) = pipeline::load(&mut session, &file.path)
        && loaded.errors().is_ok()
    {
        let entries = match loaded.program.entry_points(loaded.file) {
            entries if entries.is_empty() => loaded.host_main().into_iter().collect(),
            entries => entries,
        };
        let request = Request { entries, ..Request::default() };
        if let Err(Failure::Program(all)) = loaded.compile(&request, &Options::default()) {
            let own = all.iter().filter(|d| d.code == "E0999");
            faults.extend(
                own.map(|d| format!("{}: {}: {}", file.path.display(), d.message, d.primary.message)),
            );
        }
    }
    (validation.summary(), faults)
}

#[test]
fn no_pass_changes_what_a_function_gives() {
    let all: Vec<(String, TestFile)> = programs().collect();
    let found = on_all_cores(&all, |(_, file)| validated(file));
    let (mut total, mut not_run, mut faults) = (Summary::default(), BTreeMap::new(), Vec::new());
    for (summary, own) in found {
        total.changes += summary.changes;
        total.runs += summary.runs;
        summary.not_run.into_iter().for_each(|(why, n)| *not_run.entry(why).or_insert(0) += n);
        faults.extend(own);
    }
    let without: usize = not_run.values().sum();
    eprintln!("{} changes, {without} not run, {} runs agree", total.changes, total.runs);
    if std::env::var_os("PULLBACK_REPORT").is_some() {
        not_run.iter().for_each(|(why, n)| eprintln!("  {n} not run: {why}"));
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    let is_whole = std::env::var_os("PULLBACK_ONLY").is_none();
    assert!(!is_whole || 2 * without < total.changes, "most changes are not run");
}
