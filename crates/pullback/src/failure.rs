//! Errors and warnings, in the words of the command line, as data and as text.

use std::fmt;

use driver::render::{self, Style};
use driver::source::Outcome;
use syntax::{Sources, Span};

/// The reason why there is no result.
///
/// Its text ([`Display`](fmt::Display)) is what the command line prints: every diagnostic with the lines that it is
/// about. The [kind](Failure::kind) and the [diagnostics](Failure::diagnostics) are for programs.
///
/// ```
/// use pullback::{Compiler, FailureKind};
///
/// let failure = Compiler::new().text("a.slang", "float f(float x) { return y; }").and_then(|m| m.function("f"));
/// let failure = failure.err().expect("`y` is not declared");
/// assert_eq!(failure.kind(), FailureKind::Program);
/// assert_eq!(failure.diagnostics()[0].place.as_ref().map(|p| (p.line, p.column)), Some((1, 27)));
/// assert!(failure.to_string().contains("float f(float x) { return y; }"), "{failure}");
/// ```
#[derive(Clone, Debug)]
pub struct Failure {
    kind: FailureKind,
    text: String,
    diagnostics: Vec<Diagnostic>,
}

/// The kind of a [`Failure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The text of the program is wrong, or a backend cannot run it; the diagnostics say where.
    Program,
    /// A file cannot be read.
    File,
    /// An argument, a name, a length or a type does not fit the program.
    Input,
    /// The layout of a Rust type differs from that of the program's memory.
    Layout,
    /// The program stopped while it ran: it was out of time or memory, or an assertion of the program failed.
    Stopped,
    /// This build or machine lacks the backend.
    Backend,
    /// A mistake of the compiler.
    Internal,
}

/// How severe a [`Diagnostic`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// There is no result.
    Error,
    /// There is a result, perhaps not the one that was meant.
    Warning,
}

/// A part of a file. Lines and columns (in characters) count from 1; the end is exclusive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Place {
    /// The path or name of the file.
    pub file: String,
    /// The first line.
    pub line: u32,
    /// The first column.
    pub column: u32,
    /// The last line.
    pub end_line: u32,
    /// The column after the last one.
    pub end_column: u32,
}

/// A message about a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// How severe it is.
    pub severity: Severity,
    /// A code that stays the same from version to version, such as `E0704`.
    pub code: &'static str,
    /// The message, in one line.
    pub message: String,
    /// The place, unless the message is about a whole file.
    pub place: Option<Place>,
    /// Other places that explain it, each with a message.
    pub notes: Vec<(Option<Place>, String)>,
    /// A suggestion.
    pub help: Option<String>,
    /// The text of the command line, with the lines of the place.
    pub rendered: String,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, text: message.into(), diagnostics: Vec::new() }
    }

    pub(crate) fn input(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Input, message)
    }

    /// A failure of the compiler, with the sources that its places refer to.
    pub(crate) fn of(sources: &Sources, failure: driver::error::Failure) -> Failure {
        match failure {
            driver::error::Failure::Program(list) => {
                let stopped = list.iter().any(|d| d.code == "E0801");
                let kind = match list.iter().any(|d| d.code == "E0999") {
                    true => FailureKind::Internal,
                    false if stopped => FailureKind::Stopped,
                    false => FailureKind::Program,
                };
                let text = render::all_to_text(sources, &list, Style::Plain).trim_end().to_string();
                Failure { kind, text, diagnostics: Diagnostic::all(sources, &list) }
            }
            driver::error::Failure::Other(error) => {
                let kind = match &error {
                    driver::Error::Read { .. } | driver::Error::Write { .. } => FailureKind::File,
                    driver::Error::Input(_) => FailureKind::Input,
                    driver::Error::Stopped(_) | driver::Error::StoppedAt { .. } => FailureKind::Stopped,
                    driver::Error::Internal(_) => FailureKind::Internal,
                };
                Failure::new(kind, error.to_string())
            }
        }
    }

    /// The result of work on a program.
    pub(crate) fn from_outcome<T>(outcome: Outcome<T>) -> Result<(T, Sources), Failure> {
        match outcome {
            (Ok(value), sources) => Ok((value, sources)),
            (Err(failure), sources) => Err(Failure::of(&sources, failure)),
        }
    }

    /// The kind of failure.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Errors and warnings about the program's text; empty for other kinds of failures.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

impl Diagnostic {
    pub(crate) fn all(sources: &Sources, list: &[syntax::Diagnostic]) -> Vec<Diagnostic> {
        list.iter().map(|d| Diagnostic::of(sources, d)).collect()
    }

    fn of(sources: &Sources, d: &syntax::Diagnostic) -> Diagnostic {
        let severity = match d.severity {
            syntax::Severity::Error => Severity::Error,
            syntax::Severity::Warning => Severity::Warning,
        };
        Diagnostic {
            severity,
            code: d.code,
            message: d.message.clone(),
            place: place(sources, d.primary.span),
            notes: d.notes.iter().map(|note| (place(sources, note.span), note.message.clone())).collect(),
            help: d.help.clone(),
            rendered: render::to_text(sources, d, Style::Plain).trim_end().to_string(),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rendered)
    }
}

fn place(sources: &Sources, span: Span) -> Option<Place> {
    let file = sources.files.get(span.file.0 as usize).filter(|_| span.is_place())?.path.clone();
    let (line, column) = sources.line_column(span.file, span.start);
    let (end_line, end_column) = sources.line_column(span.file, span.end);
    Some(Place { file, line, column, end_line, end_column })
}
