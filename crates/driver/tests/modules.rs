//! Compiled modules: a program that imports one means what it means with the source, and no damage is fatal.

use std::path::{Path, PathBuf};

use pullback_driver::packed::Packed;
use pullback_driver::pipeline;
use pullback_driver::session::{FileOptions, Session};
use syntax::{Ast, NoIncludes, Severity, Sources, parse_file};
use test_support::{Random, files, repository};

/// A folder for the files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pullback-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    folder
}

fn packed(path: &Path) -> Packed {
    let mut session = Session::new(FileOptions::default());
    let loaded = pipeline::load(&mut session, path).expect("the file is there");
    session.packed(&loaded.program, loaded.file)
}

/// The diagnostics of a file, by code, place and message; the message that it cannot be read, if that is so.
fn checked(path: &Path) -> Vec<(String, u32, u32, String)> {
    pipeline::on_large_stack(|| {
        let mut session = Session::new(FileOptions::default());
        match pipeline::check(&mut session, path) {
            Ok(list) => list
                .iter()
                .map(|d| {
                    (d.code.to_string(), d.primary.span.start, d.primary.span.end, d.message.to_string())
                })
                .collect(),
            Err(error) => vec![(String::new(), 0, 0, error.to_string())],
        }
    })
}

#[test]
fn a_module_has_the_diagnostics_of_its_source() {
    let folder = folder("diagnostics-of-modules");
    let root = repository().join("tests");
    let mut n_compared = 0;
    for path in ["check", "run/interfaces", "run/language", "run/derivatives"]
        .iter()
        .flat_map(|part| files(&root.join(part), &["slang"]))
    {
        let text = std::fs::read_to_string(&path).expect("is there");
        // What it imports is beside the source, and `#pragma warning` and names of files are about the text.
        if ["import", "include", "__FILE__"].iter().any(|word| text.contains(word)) {
            continue;
        }
        let (source, module) = (folder.join("m.slang"), folder.join("m.pullback-module"));
        std::fs::write(&source, &text).expect("written");
        let expected = checked(&source);
        // With errors, it is not built.
        let mut session = Session::new(FileOptions::default());
        if pipeline::check(&mut session, &source)
            .is_ok_and(|list| list.iter().any(|d| d.severity == Severity::Error))
        {
            continue;
        }
        std::fs::write(&module, packed(&source).to_bytes()).expect("written");
        // What parsing has to say is said when it is built.
        let (mut ast, mut sources, mut said) = (Ast::default(), Sources::default(), Vec::new());
        let file = sources.add("m.slang", text);
        parse_file(&mut ast, &mut sources, file, &mut NoIncludes, &[], &mut said);
        let is_said = |code: &str, at: u32| said.iter().any(|d| d.code == code && d.primary.span.start == at);
        let expected: Vec<_> = expected.into_iter().filter(|found| !is_said(&found.0, found.1)).collect();
        assert_eq!(checked(&module), expected, "{}", path.display());
        n_compared += 1;
    }
    assert!(n_compared > 100, "{n_compared}");
}

#[test]
fn a_module_that_is_no_tree_is_refused_and_any_tree_is_checked() {
    let folder = folder("damaged-modules");
    let sources = ["interfaces", "language", "derivatives", "strings"]
        .iter()
        .flat_map(|part| files(&repository().join("tests/run").join(part), &["slang"]));
    let n = std::env::var("PULLBACK_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let mut random = Random(11);
    let (mut n_refused, mut n_read) = (0, 0);
    for path in sources {
        let whole = packed(&path);
        let module = folder.join("m.pullback-module");
        for _ in 0..n {
            let mut damaged = whole.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.tree.len());
                damaged.tree[at] = match random.below(3) {
                    0 => random.bits() as u8,
                    1 => damaged.tree[at] ^ (1 << random.below(8)),
                    _ => damaged.tree[random.below(damaged.tree.len())],
                };
            }
            // The hash is right, as if the damage was meant.
            std::fs::write(&module, damaged.to_bytes()).expect("written");
            let is_refused = checked(&module).iter().any(|found| found.3.contains("the module is damaged"));
            *(if is_refused { &mut n_refused } else { &mut n_read }) += 1;
        }
    }
    assert!(n_refused > 50 && n_read > 50, "{n_refused} {n_read}");
}
