//! Defines diagnostics as data. Compiler stages append them to a list; only `driver::render` turns them into
//! text.

use crate::source::Span;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program is accepted.
    Warning,
    /// The program is rejected.
    Error,
}

/// A message attached to a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The location.
    pub span: Span,
    /// The message; may be empty.
    pub message: String,
}

/// A message to the user. Style of `message`: it starts in lower case, has no full stop, and states what was
/// found and what was expected. `help` says how to fix the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// A stable code: `E` or `W` and four digits, or the code that Slang uses for the same problem if users
    /// know it.
    pub code: &'static str,
    /// The one-line message.
    pub message: String,
    /// The location, with a short text shown under the caret.
    pub primary: Label,
    /// Other locations that explain the problem.
    pub notes: Vec<Label>,
    /// A suggestion for fixing the problem.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at a location.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            primary: Label { span, message: String::new() },
            notes: Vec::new(),
            help: None,
        }
    }

    /// A warning at a location.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Adds a text under the caret.
    pub fn label(mut self, message: impl Into<String>) -> Diagnostic {
        self.primary.message = message.into();
        self
    }

    /// Adds another location.
    pub fn note(mut self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.notes.push(Label { span, message: message.into() });
        self
    }

    /// Adds a suggestion.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}
