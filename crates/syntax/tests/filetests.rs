//! Runs `tests/syntax/*.slang`: a file with `// test ast` contains the expected printed tree in the
//! `// result:` lines at its end, a file with `// test diagnostics` the expected diagnostics.
//! `PULLBACK_UPDATE=1` rewrites these lines.

use std::fmt::Write as _;
use std::path::Path;

use pullback_syntax::{Ast, Diagnostic, NoIncludes, Sources, parse_file, print::print_file};

const RESULT: &str = "// result:";

fn parse(text: &str) -> (Ast, usize, Sources, Vec<Diagnostic>) {
    let (mut ast, mut sources, mut diagnostics) = (Ast::default(), Sources::default(), Vec::new());
    let file = sources.add("test.slang", text);
    let index = parse_file(&mut ast, &mut sources, file, &mut NoIncludes, &[], &mut diagnostics);
    (ast, index, sources, diagnostics)
}

fn listed(sources: &Sources, diagnostics: &[Diagnostic]) -> String {
    let mut out = String::new();
    for d in diagnostics {
        let (line, column) = sources.line_column(d.primary.span.file, d.primary.span.start);
        writeln!(out, "{line}:{column} {} {}", d.code, d.message).expect("strings grow");
    }
    out
}

fn result(text: &str) -> String {
    let (ast, index, sources, diagnostics) = parse(text);
    if text.starts_with("// test diagnostics") {
        return listed(&sources, &diagnostics);
    }
    let printed = print_file(&ast, &ast.files[index]);
    let (again, index, _, more) = parse(&printed);
    assert_eq!(print_file(&again, &again.files[index]), printed, "printing is not stable: {more:?}");
    listed(&sources, &diagnostics) + &printed
}

#[test]
fn files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/syntax");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder is in the repository")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "slang"))
        .collect();
    paths.sort();
    let mut wrong = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("readable");
        let at = text.find(RESULT).unwrap_or(text.len());
        let (source, expected) = text.split_at(at);
        let mut actual = format!("{RESULT}\n");
        for line in result(source).lines() {
            actual.push_str(format!("// {line}").trim_end());
            actual.push('\n');
        }
        if std::env::var_os("PULLBACK_UPDATE").is_some() {
            std::fs::write(&path, format!("{source}{actual}")).expect("writable");
        } else if actual != expected {
            wrong.push(format!("{}:\n{actual}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
