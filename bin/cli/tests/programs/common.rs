//! Runs the program as scripts do.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value as Json;

/// The result of a run.
pub(crate) struct Out {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Out {
    /// The standard output, parsed as JSON.
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}\n{}", self.stdout, self.stderr))
    }
}

/// Writes a file in the tests' folder; returns its path.
pub(crate) fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the test folder is writable");
    path.to_str().expect("a plain path").to_string()
}

/// Runs the program in the tests' folder.
pub(crate) fn pullback(args: &[&str]) -> Out {
    let out = Command::new(env!("CARGO_BIN_EXE_pullback"))
        .args(args)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Out { status: out.status.code(), stdout: text(out.stdout), stderr: text(out.stderr) }
}
