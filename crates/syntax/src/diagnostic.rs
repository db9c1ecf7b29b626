//! Defines diagnostics as data. Compiler stages append them to a list; only `driver::render` turns them into
//! text.

use std::cell::Cell;
use std::fmt::Display;

use crate::source::Span;

/// A text that knows whether it names something whose cause has been reported already, such as a type that is
/// only partly known. It has no `Display`, so it becomes part of another text only where that text learns of
/// it: by [`Part`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The words.
    pub text: String,
    /// The text names the consequence of another error.
    pub is_follow_up: bool,
}

impl<T: Into<String>> From<T> for Message {
    fn from(text: T) -> Message {
        Message { text: text.into(), is_follow_up: false }
    }
}

impl Message {
    /// Joins messages with commas.
    pub fn list(parts: impl IntoIterator<Item = Message>) -> Message {
        let mut all = Message::default();
        for part in parts {
            all.text += if all.text.is_empty() { "" } else { ", " };
            all.text += &part.text;
            all.is_follow_up |= part.is_follow_up;
        }
        all
    }
}

/// A part of a message.
pub trait Part {
    /// The words of the part. Sets the flag if it names the consequence of another error.
    fn part(&self, is_follow_up: &Cell<bool>) -> impl Display;
}

impl Part for Message {
    fn part(&self, is_follow_up: &Cell<bool>) -> impl Display {
        is_follow_up.set(is_follow_up.get() | self.is_follow_up);
        &self.text
    }
}

impl<T: Display + ?Sized> Part for T {
    fn part(&self, _: &Cell<bool>) -> impl Display {
        self
    }
}

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
    /// The message or the suggestion names the consequence of another error, which is what the user wants to
    /// see instead.
    pub is_follow_up: bool,
}

impl Diagnostic {
    /// An error at a location.
    pub fn error(code: &'static str, span: Span, message: impl Into<Message>) -> Diagnostic {
        let Message { text, is_follow_up } = message.into();
        Diagnostic {
            severity: Severity::Error,
            code,
            message: text,
            primary: Label { span, message: String::new() },
            notes: Vec::new(),
            help: None,
            is_follow_up,
        }
    }

    /// A warning at a location.
    pub fn warning(code: &'static str, span: Span, message: impl Into<Message>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Adds a text under the caret.
    pub fn label(mut self, message: impl Into<String>) -> Diagnostic {
        self.primary.message = message.into();
        self
    }

    /// Adds another location. What is told there does not make the diagnostic a follow-up.
    pub fn note(mut self, span: Span, message: impl Into<Message>) -> Diagnostic {
        self.notes.push(Label { span, message: message.into().text });
        self
    }

    /// Adds a suggestion.
    pub fn help(mut self, help: impl Into<Message>) -> Diagnostic {
        let Message { text, is_follow_up } = help.into();
        self.help = Some(text);
        self.is_follow_up |= is_follow_up;
        self
    }

    /// Adds advice, if there is any.
    pub fn help_if(self, help: Option<impl Into<Message>>) -> Diagnostic {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }
}
