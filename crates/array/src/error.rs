//! The errors of calls.

/// Diagnostics in the forms that users and scripts read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The rendered diagnostics, with the lines of the program.
    pub text: String,
    /// `{"diagnostics":[…]}`, as `pullback check --json` prints it.
    pub json: String,
}

/// An error of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An argument has the wrong kind.
    Kind(String),
    /// An argument has the right kind, but an unsuitable value or shape.
    Value(String),
    /// This machine lacks what the requested backend needs.
    Machine(String),
    /// The program has errors, or stopped while running.
    Program(Report),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Kind(message) | Error::Value(message) | Error::Machine(message) => f.write_str(message),
            Error::Program(report) => f.write_str(&report.text),
        }
    }
}

impl std::error::Error for Error {}
