//! Rules that hold for every page: a test runs each of its blocks, its links lead somewhere, its pictures are small, and the
//! contents of the book name it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::blocks::{Block, COMPARISON, Kind, ROOT, blocks, faults, pages, prose, read};

/// Pages whose blocks of Rust are doc tests, with the file that makes them so.
const DOC_TESTS: &str = "tests/src/documents.rs";

/// Every block of every page is of a kind that a test runs.
pub(crate) fn every_block_is_run() -> Vec<String> {
    let doc_tests = read(DOC_TESTS);
    pages().iter().flat_map(|page| block_faults(page, &read(page), &doc_tests)).collect()
}

/// The blocks of a page that no test runs.
fn block_faults(page: &str, text: &str, doc_tests: &str) -> Vec<String> {
    let blocks = blocks(text);
    let mut found = faults(text);
    for block in &blocks {
        let fault = match block.kind() {
            Err(fault) => Some(fault),
            Ok(Kind::File(name)) => {
                (!is_used(name, &blocks)).then(|| format!("nothing uses the file `{name}`"))
            }
            Ok(Kind::Rust) => {
                let is_tested =
                    page == "crates/pullback/README.md" || doc_tests.contains(&format!("/{page}\""));
                (!is_tested).then(|| format!("{DOC_TESTS} does not name the page, which has Rust"))
            }
            Ok(Kind::Python) => {
                let is_tested =
                    page.starts_with("docs/") || ["README.md", "python/README.md"].contains(&page);
                (!is_tested).then(|| "`python/tests/test_documents.py` does not read this page".into())
            }
            Ok(Kind::Ir) => ir_fault(&block.text),
            Ok(Kind::Theirs) => (page != COMPARISON).then(|| "`theirs` is for the comparison only".into()),
            Ok(Kind::Console | Kind::Shell | Kind::Text) => None,
        };
        found.extend(fault.map(|fault| format!("line {}: {fault}", block.line)));
    }
    found.into_iter().map(|fault| format!("{page}: {fault}")).collect()
}

/// Returns true if another block names a file.
fn is_used(name: &str, blocks: &[Block]) -> bool {
    let module = name.strip_suffix(".slang").unwrap_or(name);
    blocks.iter().any(|block| {
        let is_itself = matches!(block.kind(), Ok(Kind::File(other)) if other == name);
        !is_itself && (block.text.contains(name) || block.text.contains(&format!("import {module};")))
    })
}

fn ir_fault(text: &str) -> Option<String> {
    match ir::parse::parse_module(text) {
        Err(error) => Some(format!("line {} of it: {}", error.line, error.message)),
        Ok(module) => ir::verify::verify_module(&module).first().map(ToString::to_string),
    }
}

/// Every relative link leads to a file, and every anchor to a heading.
pub(crate) fn every_link_leads_somewhere() -> Vec<String> {
    pages().iter().flat_map(|page| link_faults(page, &read(page))).collect()
}

/// The links of a page that lead nowhere.
fn link_faults(page: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (line, target) in links(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let file = match path {
            "" => page.into(),
            path => resolve(page, path),
        };
        if !Path::new(ROOT).join(&file).exists() {
            found.push(format!("{page}:{line}: there is no {file}"));
        } else if !anchor.is_empty() && !anchors(&read(&file)).iter().any(|name| name == anchor) {
            found.push(format!("{page}:{line}: {file} has no heading #{anchor}"));
        }
    }
    found
}

/// The targets of a document's links and pictures, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (line, text) in prose(text) {
        // What is between backticks is no link.
        let plain: String =
            text.split('`').enumerate().map(|(k, part)| if k % 2 == 0 { part } else { "code" }).collect();
        let targets = plain.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        links.extend(targets.map(|target| (line, target.to_string())));
        let sources = plain.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
        links.extend(sources.map(|target| (line, target.to_string())));
    }
    links
}

/// The path from the root of what a page calls `path`.
fn resolve(page: &str, path: &str) -> String {
    let mut resolved = PathBuf::from(page);
    resolved.pop();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::Normal(name) => resolved.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    resolved.to_string_lossy().replace('\\', "/")
}

/// The names of a document's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> Vec<String> {
    let mut counts = BTreeMap::new();
    let headings = prose(text).into_iter().filter(|(_, line)| line.starts_with('#'));
    let names = headings.map(|(_, line)| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let name: String = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let count = counts.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { name } else { format!("{name}-{}", *count - 1) }
    });
    names.collect()
}

/// Every picture of the documents is shown by a page, and no larger than 150 kB.
pub(crate) fn pictures_are_small_and_shown() -> Vec<String> {
    let texts: Vec<String> = pages().iter().map(|page| read(page)).collect();
    let mut found = Vec::new();
    let mut folders = vec![Path::new(ROOT).join("docs/images")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).expect("is there").flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.file_name().expect("has a name").to_string_lossy().into_owned();
            let size = std::fs::metadata(&path).expect("is a file").len();
            if size > 150_000 {
                found.push(format!("{name} has {size} bytes"));
            }
            if !texts.iter().any(|text| text.contains(&name)) {
                found.push(format!("no page shows {name}"));
            }
        }
    }
    found
}

/// `docs/SUMMARY.md`, from which the book is made, names every page of `docs`.
pub(crate) fn the_contents_name_every_page() -> Vec<String> {
    let contents: Vec<String> = links(&read("docs/SUMMARY.md"))
        .into_iter()
        .map(|(_, target)| resolve("docs/SUMMARY.md", &target))
        .collect();
    let is_missing =
        |page: &String| page.starts_with("docs/") && page != "docs/SUMMARY.md" && !contents.contains(page);
    pages().into_iter().filter(is_missing).map(|page| format!("docs/SUMMARY.md lacks {page}")).collect()
}

/// Texts that the rules must reject, each with a part of what is said about it, and texts that they must accept.
pub(crate) fn the_rules_find_faults() -> Vec<String> {
    const TICKS: &str = "```";
    let blocks = [
        ("docs/a.md", "LANG\nlet x = 1;\n", "js", "no test runs a block of the language `js`"),
        ("docs/a.md", "LANG\nfloat x;\n", "slang", "no test runs"),
        ("docs/a.md", "LANG\nfloat x;\n", "slang a.slang", "nothing uses the file `a.slang`"),
        ("docs/a.md", "LANG\nfn main() {}\n", "rust", "does not name the page"),
        ("CHANGELOG.md", "LANG\nprint(1)\n", "python", "does not read this page"),
        ("docs/a.md", "LANG\nprint(1)\n", "python theirs", "for the comparison only"),
        ("docs/a.md", "LANG\nfunc f() -> (f32) {\n    yield v0\n}\n", "ir", "line 2 of it"),
        ("docs/a.md", "LANG\nx\n", "text one two", "one name at most"),
        ("docs/a.md", "LANG\nprint(1)\n", "python", ""),
        ("docs/a.md", "LANG\nx\n", "text", ""),
    ];
    let mut missed = Vec::new();
    for (page, body, language, expected) in blocks {
        let text = body.replace("LANG", &format!("{TICKS}{language}")) + TICKS + "\n";
        let found = block_faults(page, &text, "");
        if found.is_empty() != expected.is_empty() || found.iter().any(|fault| !fault.contains(expected)) {
            missed.push(format!("{language}: {found:?}"));
        }
    }
    for hidden in ["    let x = 1;", "\tlet x = 1;", "~~~js", "- ```js", "<pre>"] {
        if block_faults("docs/a.md", hidden, "").is_empty() {
            missed.push(hidden.into());
        }
    }
    let links =
        [("[a](none.md)", 1), ("[a](ir.md#none)", 1), ("![a](images/none.png)", 1), ("[a](#none)", 1)];
    let right =
        [("[a](ir.md#numbers) and [b](../README.md)", 0), ("`[a](none.md)`", 0), ("[a](https://none)", 0)];
    for (text, count) in links.into_iter().chain(right) {
        if link_faults("docs/theory.md", text).len() != count {
            missed.push(text.into());
        }
    }
    missed
}
