//! Reads documents: their blocks of code, each with what tests it, and their links.
//!
//! A block begins and ends with a line of three backticks. The first word after them is its language, and further words
//! are the name of a file, `theirs`, or `needs=…`. No other form of code is read, and [`faults`] reports all others.

use std::path::{Path, PathBuf};

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The page whose blocks may be in other languages than this project's, marked `theirs`.
pub(crate) const COMPARISON: &str = "docs/coming-from.md";

/// Programs that install something, build the repository or need what a test does not have: lines of `sh` that begin with
/// one of these are not run.
const NOT_RUN: [&str; 13] = [
    "apt-get",
    "benches/growth.py",
    "benches/python/calls.py",
    "benches/python/splat.py",
    "cargo",
    "cd",
    "code",
    "git",
    "npm",
    "pip",
    "python",
    "python/test",
    "torchrun",
];

/// A block of code.
pub(crate) struct Block {
    /// The line of the opening backticks, from 1.
    pub(crate) line: usize,
    pub(crate) language: String,
    /// The words after the language.
    pub(crate) words: Vec<String>,
    pub(crate) text: String,
}

/// The test that runs a block.
pub(crate) enum Kind<'a> {
    /// A file of the folder in which the commands of the document run.
    File(&'a str),
    /// Commands and what they print, compared by `documents.rs`.
    Console,
    /// Commands, which `documents.rs` runs: all must succeed.
    Shell,
    /// A doc test of `tests/src/documents.rs`, or of a crate.
    Rust,
    /// A program that `python/tests/test_documents.py` runs, after the earlier ones of the document.
    Python,
    /// The textual form of the IR, which `rules.rs` parses and verifies.
    Ir,
    /// No code: formulas, layouts, commands with placeholders.
    Text,
    /// Another tool's language, on the page that compares tools.
    Theirs,
}

impl Block {
    pub(crate) fn kind(&self) -> Result<Kind<'_>, String> {
        let mut words = self.words.iter().filter(|word| !word.starts_with("needs="));
        match (self.language.as_str(), words.next().map(String::as_str), words.next()) {
            (_, _, Some(_)) => Err(format!("line {}: a block has one name at most", self.line)),
            (_, Some("theirs"), None) => Ok(Kind::Theirs),
            (_, Some(name), None) => Ok(Kind::File(name)),
            ("console", None, None) => Ok(Kind::Console),
            ("sh", None, None) => Ok(Kind::Shell),
            ("rust", None, None) => Ok(Kind::Rust),
            ("python", None, None) => Ok(Kind::Python),
            ("ir", None, None) => Ok(Kind::Ir),
            ("text", None, None) => Ok(Kind::Text),
            (other, None, None) => Err(format!(
                "line {}: no test runs a block of the language `{other}` without the name of a file",
                self.line
            )),
        }
    }

    /// The features and programs without which the block is not run.
    pub(crate) fn needs(&self) -> impl Iterator<Item = &str> {
        self.words.iter().filter_map(|word| word.strip_prefix("needs=")).flat_map(|names| names.split(','))
    }

    /// The commands of a block of `sh` that are run.
    pub(crate) fn script(&self) -> String {
        let is_run =
            |line: &&str| line.split_whitespace().next().is_some_and(|word| !NOT_RUN.contains(&word));
        self.text.lines().filter(is_run).map(|line| line.to_string() + "\n").collect()
    }
}

/// The blocks of a document, in order.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let mut words = info.split(' ').map(String::from);
        let language = words.next().unwrap_or_default();
        let words = words.collect();
        let text = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != "```")
            .collect::<Vec<_>>()
            .join("\n");
        blocks.push(Block { line: number + 1, language, words, text: text + "\n" });
    }
    blocks
}

/// The lines of a document outside of its blocks, with their numbers.
pub(crate) fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut prose = Vec::new();
    for (number, line) in text.lines().enumerate() {
        match line.starts_with("```") {
            true => is_code = !is_code,
            false if !is_code => prose.push((number + 1, line)),
            false => {}
        }
    }
    prose
}

/// Code in a form that [`blocks`] does not read.
pub(crate) fn faults(text: &str) -> Vec<String> {
    let is_hidden = |line: &str| {
        line.starts_with("    ")
            || line.starts_with('\t')
            || line.starts_with("~~~")
            || line.contains("<pre")
            || line.trim_start_matches([' ', '>', '-', '*']).starts_with("```")
    };
    let hidden = prose(text).into_iter().filter(|(_, line)| is_hidden(line));
    hidden
        .map(|(number, _)| format!("line {number}: code belongs between two lines that begin with ```"))
        .collect()
}

/// The documents for readers, by their paths from the root: those of `docs` and the ones that lead to it.
pub(crate) fn pages() -> Vec<String> {
    let mut pages: Vec<String> = [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
        "crates/README.md",
        "crates/pullback/README.md",
        "editors/vscode/README.md",
        "python/README.md",
    ]
    .map(String::from)
    .to_vec();
    let root = Path::new(ROOT);
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).expect("is there").flatten().map(|entry| entry.path());
        let (inner, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
        folders.extend(inner);
        for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "md")) {
            let path = file.strip_prefix(root).expect("is below");
            pages.push(path.to_string_lossy().replace('\\', "/"));
        }
    }
    pages.sort();
    pages
}

/// The text of a page.
pub(crate) fn read(page: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}
