//! Each mistake gives one error: a program with a single change gives exactly one, at the changed line.

use std::path::Path;

use pullback_driver::pipeline::{Failure, Loaded};
use pullback_driver::session::Session;
use syntax::Severity;

/// A program, and below it the changes: the line where an error is expected, a text of the program, and its replacement.
const FILE: &str = include_str!("recovery.slang");

/// The line and message of each error.
fn errors(text: &str) -> Vec<(u32, String)> {
    let mut session = Session::default();
    let mut program = session.program();
    let file = session.load_text(&mut program, "a.slang", text.into(), Path::new(""));
    match Loaded::new(program, file).check(false) {
        Ok(_) => Vec::new(),
        Err(Failure::Program(list)) => {
            let errors = list.iter().filter(|d| d.severity == Severity::Error);
            let line = |d: &syntax::Diagnostic| {
                session.sources.line_column(d.primary.span.file, d.primary.span.start).0
            };
            errors.map(|d| (line(d), format!("{} {}", d.code, d.message))).collect()
        }
        Err(Failure::Other(error)) => vec![(0, error.to_string())],
    }
}

#[test]
fn one_mistake_is_one_error() {
    pullback_driver::on_large_stack(|| {
        let (program, changes) = FILE.split_once("\n// CHANGES\n").expect("changes follow the program");
        assert_eq!(errors(program), []);
        let mut problems = Vec::new();
        for change in changes.lines().filter(|line| !line.is_empty() && !line.starts_with("//")) {
            let (line, texts) = change.split_once(": ").expect("a line");
            let (from, to) = texts.split_once(" → ").expect("a text and its replacement");
            let [from, to] = [from, to].map(|text| text.replace("\\n", "\n"));
            assert!(program.contains(&from), "{from}");
            let found = errors(&program.replacen(&from, &to, 1));
            if found.len() != 1 || found[0].0.to_string() != line {
                problems.push(format!("{change}: {found:#?}"));
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    });
}
