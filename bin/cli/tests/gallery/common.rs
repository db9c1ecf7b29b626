//! Pages of the gallery, and their commands.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The size that a picture may have, in bytes.
const MOST_BYTES: u64 = 100_000;

/// The rows of the table that each page has.
const ROWS: [&str; 4] = ["differentiated", "data", "time", "reached"];

/// The names of all pages.
pub(crate) fn pages() -> Vec<String> {
    let entries = std::fs::read_dir(format!("{ROOT}/docs/gallery")).expect("a folder of pages").flatten();
    let paths = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "md"));
    let mut names: Vec<String> =
        paths.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    names
}

/// A command of a page, and the lines below it.
struct Example {
    line: String,
    output: Vec<String>,
}

pub(crate) struct Page {
    name: String,
    text: String,
    examples: Vec<Example>,
    /// Where the commands run: a folder with a copy of the page's examples.
    folder: PathBuf,
}

impl Page {
    pub(crate) fn read(name: &str) -> Page {
        let path = format!("{ROOT}/docs/gallery/{name}.md");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gallery").join(name);
        Page { name: name.into(), examples: examples(&text), text, folder }
    }

    /// The lacks of the page.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let has_row = |row: &str| self.text.lines().any(|line| line.starts_with(&format!("| {row} |")));
        faults.extend(ROWS.iter().filter(|row| !has_row(row)).map(|row| format!("no row `{row}`")));
        if !self.text.starts_with("# ") {
            faults.push("no title".into());
        }
        let pictures: Vec<&str> = self
            .text
            .split("(../images/gallery/")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
            .collect();
        let named = |picture: &&str| picture.rsplit_once('.').is_some_and(|(stem, _)| stem == self.name);
        if !pictures.first().is_some_and(named) {
            faults.push(format!("the first picture is not {}.png or .jpg", self.name));
        }
        for picture in pictures {
            match std::fs::metadata(format!("{ROOT}/docs/images/gallery/{picture}")) {
                Ok(data) if data.len() > MOST_BYTES => {
                    faults.push(format!("{picture} has {} bytes, more than {MOST_BYTES}", data.len()));
                }
                Ok(_) => {}
                Err(error) => faults.push(format!("{picture}: {error}")),
            }
        }
        if self.examples.len() < 2 || !self.examples.iter().any(is_check) || is_check(&self.examples[0]) {
            faults.push("the console blocks are not the command, and then its `pullback gradcheck`".into());
        }
        faults.into_iter().map(|fault| format!("docs/gallery/{}.md: {fault}", self.name)).collect()
    }

    /// Runs the first command of the page, with parts of it replaced and with more flags, and reads the last result that
    /// it prints.
    pub(crate) fn fit(&self, changes: &[(&str, &str)], flags: &str) -> Fit {
        let mut line = format!("{} {flags} --json", self.examples[0].line);
        for (from, to) in changes {
            assert!(line.contains(from), "there is no `{from}` in {line}");
            line = line.replace(from, to);
        }
        let printed = self.run("fit", &line);
        let results = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
        let last =
            results.map(|result| result.unwrap_or_else(|error| panic!("{line}: {error}\n{printed}"))).last();
        Fit(last.unwrap_or_else(|| panic!("{line} prints no result")))
    }

    /// Runs the `gradcheck` commands of the page: they succeed, and print what the page shows.
    pub(crate) fn check_gradient(&self) {
        for example in self.examples.iter().filter(|example| is_check(example)) {
            let printed = self.run("check", &example.line);
            let wanted: Vec<&str> = example.output.iter().map(String::as_str).collect();
            let found: Vec<&str> = printed.lines().collect();
            assert!(!wanted.is_empty(), "the page shows no result of {}", example.line);
            let shown = wanted.join("\n");
            assert!(
                are_alike(&wanted, &found),
                "{}\nprints\n{printed}\nbut the page has\n{shown}",
                example.line
            );
        }
    }

    /// The output of a line of a shell, in a folder that has the page's examples and no results of earlier runs.
    fn run(&self, of: &str, line: &str) -> String {
        let folder = self.folder.join(of);
        let _ = std::fs::remove_dir_all(&folder);
        let (from, to) = (Path::new(ROOT).join("examples"), folder.join("examples"));
        copy_files(&from, &to);
        copy_all(&from.join(&self.name), &to.join(&self.name));
        let bin = Path::new(env!("CARGO_BIN_EXE_pullback")).parent().expect("a folder");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        let out =
            command.args(["-c", line]).current_dir(&folder).env("PATH", path).output().expect("it runs");
        let printed = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{line}\n{printed}{}", String::from_utf8_lossy(&out.stderr));
        printed
    }
}

/// The result of a fit, as `--json` prints it.
pub(crate) struct Fit(pub(crate) Value);

impl Fit {
    /// A number, by its path: `/loss`, `/parameters/slope`.
    pub(crate) fn number(&self, path: &str) -> f64 {
        self.0.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {path} in {self}"))
    }

    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.number(&format!("/metrics/{name}"))
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut brief = self.0.clone();
        if let Some(fields) = brief.as_object_mut() {
            fields.remove("parameters");
        }
        write!(f, "{brief:#}")
    }
}

fn is_check(example: &Example) -> bool {
    example.line.starts_with("pullback gradcheck ")
}

/// The commands of the console blocks; a line that ends with a backslash goes on in the next.
fn examples(text: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    for block in text.split("\n```console\n").skip(1) {
        let mut lines = block.split("\n```").next().unwrap_or_default().lines();
        while let Some(line) = lines.next() {
            match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(command), _) => {
                    let mut line = command.to_string();
                    while line.ends_with('\\') {
                        line.pop();
                        line += lines.next().unwrap_or_default().trim_start();
                    }
                    found.push(Example { line, output: Vec::new() });
                }
                (None, Some(last)) if !line.is_empty() => last.output.push(line.into()),
                _ => {}
            }
        }
    }
    found
}

/// Compares lines with what a page shows, where `...` stands for any lines, and `[..]` for any text within one.
fn are_alike(wanted: &[&str], found: &[&str]) -> bool {
    match wanted.split_first() {
        None => found.iter().all(|line| line.is_empty()),
        Some((&"...", rest)) => (0..=found.len()).any(|skip| are_alike(rest, &found[skip..])),
        Some((first, rest)) => match found.split_first() {
            Some((&"", found)) => are_alike(wanted, found),
            Some((line, found)) => is_alike(first, line) && are_alike(rest, found),
            None => false,
        },
    }
}

fn is_alike(wanted: &str, found: &str) -> bool {
    let mut parts = wanted.split("[..]");
    let Some(mut left) = parts.next().and_then(|first| found.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    for (at, part) in parts.iter().enumerate() {
        let rest = match at + 1 == parts.len() {
            true => left.strip_suffix(part).map(|_| ""),
            false => left.find(part).map(|start| &left[start + part.len()..]),
        };
        let Some(rest) = rest else { return false };
        left = rest;
    }
    left.is_empty()
}

fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        if entry.path().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
}

/// Copies a folder, if there is one, with all that is in it.
fn copy_all(from: &Path, to: &Path) {
    if !from.is_dir() {
        return;
    }
    copy_files(from, to);
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        copy_all(&entry.path(), &to.join(entry.file_name()));
    }
}

#[test]
fn wildcards_stand_for_text_and_lines() {
    assert!(is_alike("a [..] b [..]", "a 1 b 2") && is_alike("a", "a") && is_alike("[..]", ""));
    assert!(!is_alike("a [..] b", "a 1 b 2") && !is_alike("a", "ab") && !is_alike("a [..]", "b 1"));
    assert!(are_alike(&["...", "end [..]"], &["1", "", "2", "end 3", ""]));
    assert!(!are_alike(&["...", "end"], &["end", "1"]) && !are_alike(&["1"], &["2"]));
}
