//! Why a call came to nothing.

/// Diagnostics as users and as scripts read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Rendered, with the lines of the program.
    pub text: String,
    /// `{"diagnostics":[…]}`, as `pullback check --json` prints it.
    pub json: String,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An argument is of the wrong kind.
    Kind(String),
    /// An argument has the right kind, but not a value or shape that will do.
    Value(String),
    /// This machine does not have what the program is to run on.
    Machine(String),
    /// The program is wrong, or stopped.
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
