//! Errors from the world around the compiler: files, arguments, devices; and failures, which are these or the user's.
//!
//! The user's mistakes in a program are [`syntax::Diagnostic`]s and are never converted into an [`Error`];
//! the compiler's own mistakes are verifier errors and become [`Error::Internal`].

use std::path::PathBuf;

use syntax::{Diagnostic, FileId, Span};

/// An error that is not about the text of a program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("cannot read `{path}`: {why}")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The system's message.
        why: String,
    },
    /// A file could not be written.
    #[error("cannot write `{path}`: {why}")]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The system's message.
        why: String,
    },
    /// An input (binding, argument, array file) does not fit the program.
    #[error("{0}")]
    Input(String),
    /// The program stopped while it was running.
    #[error("{0}")]
    Stopped(String),
    /// The program stopped while it was running, at a known place in a file.
    #[error("{message}")]
    StoppedAt {
        /// The reason, and the thread in which it happened.
        message: String,
        /// The place in the source.
        span: syntax::Span,
    },
    /// A stage broke one of its invariants.
    #[error("internal compiler error: {0}")]
    Internal(String),
}

impl Error {
    /// Makes an error about an input that does not fit.
    pub fn input(message: impl Into<String>) -> Error {
        Error::Input(message.into())
    }

    /// The error's code, from the same numbering as the codes of diagnostics.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Read { .. } | Error::Write { .. } => "E0802",
            Error::Input(_) => "E0800",
            Error::Stopped(_) | Error::StoppedAt { .. } => "E0801",
            Error::Internal(_) => "E0999",
        }
    }

    /// Makes an error about a file that cannot be read.
    pub fn read(path: impl Into<PathBuf>, why: impl std::fmt::Display) -> Error {
        Error::Read { path: path.into(), why: why.to_string() }
    }

    /// Makes an error about a file that cannot be written.
    pub fn write(path: impl Into<PathBuf>, why: impl std::fmt::Display) -> Error {
        Error::Write { path: path.into(), why: why.to_string() }
    }
}

/// Returns an error if an entry point is a stage of a graphics pipeline, which takes and gives values that no
/// dispatch has.
pub(crate) fn only_kernels(module: &ir::Module) -> Result<(), Failure> {
    let stages = module.entries.iter().filter_map(|entry| Some((entry, entry.pipeline.as_ref()?.stage)));
    let error = |(entry, stage): (&ir::Entry, ir::pipeline::Stage)| {
        let message =
            format!("`{}` is a {} stage, which only a graphics pipeline runs", entry.name, stage.name());
        Diagnostic::error("E0707", source_span(module.funcs[entry.func].span), message).help(
            "`emit` writes it for WGSL, SPIR-V, MSL, HLSL and GLSL; a kernel is `[shader(\"compute\")]`",
        )
    };
    let errors: Vec<Diagnostic> = stages.map(error).collect();
    if errors.is_empty() { Ok(()) } else { Err(Failure::Program(errors)) }
}

/// The reason why there is no result.
#[derive(Debug)]
pub enum Failure {
    /// The program is wrong. The list also contains warnings.
    Program(Vec<Diagnostic>),
    /// Another error.
    Other(Error),
}

impl Failure {
    /// A program that a backend rejects, with the diagnostic that `in_words` makes; an internal error if the
    /// backend is at fault.
    pub(crate) fn of_backend(
        refused: &native::Unsupported,
        in_words: impl FnOnce(Span) -> Diagnostic,
    ) -> Failure {
        let span = source_span(refused.span);
        Failure::Program(vec![match refused.internal {
            true => Diagnostic::error("E0999", span, format!("internal compiler error: {refused}"))
                .help("this is a bug of the compiler; please report it"),
            false => in_words(span),
        }])
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::StoppedAt { message, span } => {
                let diagnostic = Diagnostic::error("E0801", span, message);
                Failure::Program(vec![diagnostic.label("the program stopped here")])
            }
            error => Failure::Other(error),
        }
    }
}

/// Converts an IR span to a source span.
pub fn source_span(span: ir::Span) -> Span {
    let (span, _) = crate::profile::parts::of(span);
    Span { file: FileId(span.file), start: span.start, end: span.end }
}
