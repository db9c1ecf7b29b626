//! Parses a filetest: a program, a command in its first line, and directives in comments.
//!
//! In `.ir` files comments start with `;`, in `.slang` files with `//`. A directive is `; key: text`, on a
//! line of its own or after code. Every comment that begins with a word in small letters and a colon is one, so
//! that a misspelt directive, or one that the command does not read, is an error and not prose. So is a word of the
//! first line that the command does not read.

use std::path::{Path, PathBuf};

/// A filetest.
#[derive(Clone, Debug)]
pub struct TestFile {
    /// Its path.
    pub path: PathBuf,
    /// The whole text.
    pub text: String,
    /// The words after `test` in the first line.
    pub command: Vec<String>,
    /// The directives in order.
    pub directives: Vec<Directive>,
}

/// A directive `; key: text`.
#[derive(Clone, Debug)]
pub struct Directive {
    /// The line, counted from 1.
    pub line: usize,
    /// The word before the colon.
    pub key: String,
    /// The text after the colon, trimmed.
    pub text: String,
}

/// The directives that a command reads.
fn keys(extension: &str, command: &str) -> &'static [&'static str] {
    match (extension, command) {
        ("slang", "run") => {
            &["stdout", "buffer", "error", "warn", "bind", "conform", "entry", "groups", "block"]
        }
        ("slang", "emit") => &["check", "not", "count", "error", "entry"],
        ("slang", "check") => &["type"],
        ("slang", _) => &[],
        (_, "dispatch") => &["stdout", "buffer", "error", "bind", "groups"],
        (_, "grad") => &["grad"],
        (_, "verify") => &["error"],
        (_, "run") => &["run", "stdout"],
        (_, "parse" | "differentiate") => &["check", "not", "run", "error"],
        _ => &["check", "not", "run", "unchanged", "passes"],
    }
}

/// The words that a command reads after its name; `None` if these are names of passes or functions, of which the
/// command itself refuses those that are unknown.
fn words(extension: &str, command: &str) -> Option<&'static [&'static str]> {
    Some(match (extension, command) {
        ("slang", "run") => {
            &["check-nan", "columns", "contract", "everywhere", "exact", "hardware", "optimised", "ordered"]
        }
        ("slang", "check") => &["columns"],
        ("slang", "emit") => {
            &["wgsl", "spirv", "spirv-asm", "msl", "hlsl", "glsl", "reflection", "subgroups"]
        }
        ("ir", "uniform") => &["rows", "packed"],
        ("ir", "dispatch") => &["ordered", "trap"],
        ("ir", "parse" | "verify" | "reads" | "run" | "grad" | "differentiate") => &[],
        _ => return None,
    })
}

impl TestFile {
    /// Reads and parses a file.
    pub fn read(path: &Path) -> Result<TestFile, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mark = if path.extension().is_some_and(|e| e == "ir") { ";" } else { "//" };
        let first = text.lines().next().unwrap_or_default();
        let command = first
            .strip_prefix(mark)
            .and_then(|rest| rest.trim().strip_prefix("test "))
            .ok_or_else(|| format!("the first line is not '{mark} test COMMAND'"))?;
        let command: Vec<String> = command.split_whitespace().map(str::to_string).collect();
        let extension = if mark == ";" { "ir" } else { "slang" };
        let name = command.first().map_or("", String::as_str);
        let keys = keys(extension, name);
        if let Some(words) = words(extension, name)
            && let Some(word) = command[1..].iter().find(|word| !words.contains(&word.as_str()))
        {
            let known = words.join(", ");
            return Err(format!("line 1: '{word}' is no word of 'test {name}'; it has {known}"));
        }
        let mut directives = Vec::new();
        for (idx, line) in text.lines().enumerate() {
            let Some((_, comment)) = line.split_once(mark) else { continue };
            let Some((key, rest)) = comment.trim_start_matches('/').trim_start().split_once(':') else {
                continue;
            };
            if key.is_empty() || !key.bytes().all(|b| b.is_ascii_lowercase()) {
                continue;
            }
            if !keys.contains(&key) {
                let known = keys.join(", ");
                return Err(format!(
                    "line {}: '{key}' is no directive of this test; it has {known}",
                    idx + 1
                ));
            }
            directives.push(Directive { line: idx + 1, key: key.to_string(), text: rest.trim().to_string() });
        }
        Ok(TestFile { path: path.to_path_buf(), text, command, directives })
    }

    /// The texts of the directives with that key, in order.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.directives.iter().filter(move |d| d.key == key).map(|d| d.text.as_str())
    }

    /// Returns true if the command line has this word after the command.
    pub fn has_option(&self, option: &str) -> bool {
        self.command.iter().skip(1).any(|word| word == option)
    }

    /// Checks that the `check:` texts occur in `output` in order, each after the one before (on the same line
    /// or a later one), that no line contains a text of `not:`, and that as many lines contain a text of `count: N TEXT`
    /// as that says. Each run of blanks is treated as a single one.
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
        for counted in self.all("count") {
            let (n, text) = counted.split_once(' ').unwrap_or((counted, ""));
            let found = output.lines().filter(|line| squeeze(line).contains(&squeeze(text))).count();
            if n.parse() != Ok(found) {
                return Err(format!("{found} lines, not {n}, have '{text}' in\n{output}"));
            }
        }
        Ok(())
    }
}

/// The text with each run of blanks replaced by a single one.
fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The folder of these tests: the one where they were built, or the copy named by the environment variable
/// `PULLBACK_TESTS`.
pub fn root() -> PathBuf {
    std::env::var_os("PULLBACK_TESTS").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

/// The programs of tests/run with their paths; the environment variable `PULLBACK_ONLY` can restrict them to
/// paths that contain a text.
pub fn programs() -> impl Iterator<Item = (String, TestFile)> {
    let only = std::env::var("PULLBACK_ONLY").unwrap_or_default();
    discover(&root()).into_iter().filter_map(move |path| {
        let name = path.display().to_string();
        if !name.contains("/run/") || !name.ends_with(".slang") || !name.contains(&only) {
            return None;
        }
        // A file with an unknown directive is an error here, and not one program fewer.
        let file = TestFile::read(&path).unwrap_or_else(|why| panic!("{name}: {why}"));
        file.command.first().is_some_and(|c| c == "run").then_some((name, file))
    })
}

/// Every filetest in the folders of the stages, ordered by path. (Those of `syntax` are run by that crate's
/// own tests.)
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

#[cfg(test)]
mod tests {
    use super::TestFile;

    fn read(name: &str, text: &str) -> Result<TestFile, String> {
        let path = std::env::temp_dir().join(format!("pullback-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("writes");
        let file = TestFile::read(&path);
        std::fs::remove_file(&path).expect("is there");
        file
    }

    #[test]
    fn a_directive_that_the_command_does_not_read_is_an_error() {
        let file = read("a.ir", "; test cse\n; Two loads: one is enough.\n; check: load\n").expect("reads");
        assert_eq!(file.all("check").collect::<Vec<_>>(), ["load"]);
        let error = read("b.ir", "; test cse\nfunc f() {} ; chekc: load\n").expect_err("is misspelt");
        assert_eq!(
            error,
            "line 2: 'chekc' is no directive of this test; it has check, not, run, unchanged, passes"
        );
        read("c.ir", "; test verify\n; check: load\n").expect_err("verify has no output");
        read("d.slang", "// test run\n// run: f(1.0) == 2.0\n").expect_err("that is for .ir files");
        let error = read("e.slang", "// test check colums\n").expect_err("is misspelt");
        assert_eq!(error, "line 1: 'colums' is no word of 'test check'; it has columns");
    }
}
