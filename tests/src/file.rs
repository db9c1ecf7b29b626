//! A filetest: a program, a command in its first line, and directives in comments.
//!
//! In `.ir` files comments start with `;`, in `.slang` files with `//`. A directive is
//! `; key: text`, on a line of its own or after code.

use std::path::{Path, PathBuf};

/// A filetest.
#[derive(Clone, Debug)]
pub struct TestFile {
    /// Where it is.
    pub path: PathBuf,
    /// All of it.
    pub text: String,
    /// The words after `test` in the first line.
    pub command: Vec<String>,
    /// In order.
    pub directives: Vec<Directive>,
}

/// `; key: text`
#[derive(Clone, Debug)]
pub struct Directive {
    /// Its line, from 1.
    pub line: usize,
    /// The word before the colon.
    pub key: String,
    /// What follows, trimmed.
    pub text: String,
}

const KEYS: [&str; 13] = [
    "check", "not", "error", "run", "grad", "stdout", "bind", "entry", "groups", "block", "buffer",
    "conform", "warn",
];

impl TestFile {
    /// Reads and takes apart a file.
    pub fn read(path: &Path) -> Result<TestFile, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mark = if path.extension().is_some_and(|e| e == "ir") { ";" } else { "//" };
        let first = text.lines().next().unwrap_or_default();
        let command = first
            .strip_prefix(mark)
            .and_then(|rest| rest.trim().strip_prefix("test "))
            .ok_or_else(|| format!("the first line is not '{mark} test COMMAND'"))?;
        let command = command.split_whitespace().map(str::to_string).collect();
        let mut directives = Vec::new();
        for (idx, line) in text.lines().enumerate() {
            let Some((_, comment)) = line.split_once(mark) else { continue };
            let Some((key, rest)) = comment.trim_start_matches('/').trim_start().split_once(':') else {
                continue;
            };
            if KEYS.contains(&key) {
                directives.push(Directive {
                    line: idx + 1,
                    key: key.to_string(),
                    text: rest.trim().to_string(),
                });
            }
        }
        Ok(TestFile { path: path.to_path_buf(), text, command, directives })
    }

    /// The texts of the directives of that key, in order.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.directives.iter().filter(move |d| d.key == key).map(|d| d.text.as_str())
    }

    /// Whether the command line has a word after the command.
    pub fn has_option(&self, option: &str) -> bool {
        self.command.iter().skip(1).any(|word| word == option)
    }

    /// The `check:` texts must occur in `output` in order, each after the one before (on the same line
    /// or a later one); no line may have a text of `not:`. Runs of blanks count as one.
    pub fn match_output(&self, output: &str) -> Result<(), String> {
        let text: Vec<String> = output.lines().map(squeeze).collect();
        let text = text.join("\n");
        let mut at = 0;
        for want in self.all("check") {
            let want = squeeze(want);
            match text[at..].find(&want) {
                Some(found) => at += found + want.len(),
                None => {
                    return Err(format!(
                        "nothing (after what was matched before) is\n    {want}\nin\n{output}"
                    ));
                }
            }
        }
        for unwanted in self.all("not") {
            if let Some(line) = output.lines().find(|line| squeeze(line).contains(&squeeze(unwanted))) {
                return Err(format!("the line\n    {line}\nhas '{unwanted}' in\n{output}"));
            }
        }
        Ok(())
    }
}

/// The text with each run of blanks as one.
fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The folder of these tests: where they were built, or where the environment's `PULLBACK_TESTS` says that a copy is.
pub fn root() -> PathBuf {
    std::env::var_os("PULLBACK_TESTS").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

/// The programs of tests/run by their paths, of which the environment's `PULLBACK_ONLY` may name a part.
pub fn programs() -> impl Iterator<Item = (String, TestFile)> {
    let only = std::env::var("PULLBACK_ONLY").unwrap_or_default();
    discover(&root()).into_iter().filter_map(move |path| {
        let name = path.display().to_string();
        if !name.contains("/run/") || !name.ends_with(".slang") || !name.contains(&only) {
            return None;
        }
        let file = TestFile::read(&path).ok()?;
        file.command.first().is_some_and(|c| c == "run").then_some((name, file))
    })
}

/// Every filetest under the folders of the stages, in order of path. (Those of `syntax` are run by
/// that crate's own tests.)
pub fn discover(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> =
        ["check", "ir", "opt", "autodiff", "run", "emit"].iter().map(|name| root.join(name)).collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "ir" || e == "slang") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
