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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An argument has the wrong kind.
    #[error("{0}")]
    Kind(String),
    /// An argument has the right kind, but an unsuitable value or shape.
    #[error("{0}")]
    Value(String),
    /// This machine lacks what the requested backend needs.
    #[error("{0}")]
    Machine(String),
    /// The program has errors, or stopped while running.
    #[error("{}", .0.text)]
    Program(Report),
}
