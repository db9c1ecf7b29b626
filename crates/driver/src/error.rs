//! What goes wrong in the world around the compiler: files, arguments, devices.
//!
//! The user's mistakes in a program are [`syntax::Diagnostic`]s and never come here; ours are
//! verifier errors and become [`Error::Internal`].

use std::path::PathBuf;

/// An error that is not about the text of a program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("cannot read `{path}`: {why}")]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's words.
        why: String,
    },
    /// A file could not be written.
    #[error("cannot write `{path}`: {why}")]
    Write {
        /// Which.
        path: PathBuf,
        /// The system's words.
        why: String,
    },
    /// An input (binding, argument, array file) does not fit the program.
    #[error("{0}")]
    Input(String),
    /// The program stopped while it ran.
    #[error("{0}")]
    Stopped(String),
    /// The program stopped while it ran, at a place in a file.
    #[error("{message}")]
    StoppedAt {
        /// Why, and in which thread.
        message: String,
        /// Where.
        span: syntax::Span,
    },
    /// A stage broke its promise.
    #[error("internal compiler error: {0}")]
    Internal(String),
}

impl Error {
    /// An input that does not fit.
    pub fn input(message: impl Into<String>) -> Error {
        Error::Input(message.into())
    }

    /// Its code among those of diagnostics.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Read { .. } | Error::Write { .. } => "E0802",
            Error::Input(_) => "E0800",
            Error::Stopped(_) | Error::StoppedAt { .. } => "E0801",
            Error::Internal(_) => "E0999",
        }
    }

    /// A file that cannot be read.
    pub fn read(path: impl Into<PathBuf>, why: impl std::fmt::Display) -> Error {
        Error::Read { path: path.into(), why: why.to_string() }
    }

    /// A file that cannot be written.
    pub fn write(path: impl Into<PathBuf>, why: impl std::fmt::Display) -> Error {
        Error::Write { path: path.into(), why: why.to_string() }
    }
}
