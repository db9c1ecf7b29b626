//! Implements expectations about tokens, the reporting of errors and error recovery.
//!
//! Only the first error at a token is reported, since the others are its consequences. To recover, the parser
//! skips brackets as a whole, because a `;` inside them does not end the statement around them. Each skip
//! either advances or stops at the end of a block or of the file, so parsing terminates for any text.

use super::{MAX_ERRORS, Parser, WORDS};
use crate::ast::*;
use crate::diagnostic::{Diagnostic, Severity};
use crate::keywords as kw;
use crate::source::{FileId, Span};
use crate::spelling::nearest;
use crate::token::{Token, TokenKind};

impl Parser<'_> {
    pub(crate) fn expect(&mut self, kind: TokenKind) -> bool {
        let found = self.eat(kind);
        if !found {
            self.expected(&format!("`{}`", kind.text()));
        }
        found
    }

    /// Like [`Parser::expect_close`] after the elements of a list.
    pub(crate) fn expect_list_end(&mut self, kind: TokenKind, open: Span) -> bool {
        self.eat(kind) || self.report_open(&format!("`,` or `{}`", kind.text()), open)
    }

    /// Consumes a closing bracket, or reports that it is missing and where the open bracket is.
    pub(crate) fn expect_close(&mut self, kind: TokenKind, open: Span) -> bool {
        self.eat(kind) || self.report_open(&format!("`{}`", kind.text()), open)
    }

    /// Reports an unclosed bracket: at the end of the previous line, if the current token starts a line.
    /// Returns false.
    fn report_open(&mut self, wanted: &str, open: Span) -> bool {
        // The end of a block may be many lines further up.
        let is_next_line = self.current().at_line_start() && wanted != "`}`";
        let place = self.last_character().filter(|_| is_next_line);
        let (message, span) = match place {
            Some(end) => (format!("expected {wanted} at the end of this line"), end),
            None => (format!("expected {wanted}, found {}", self.found()), self.span()),
        };
        self.report(Diagnostic::error("E0001", span, message).note(open, "to close this"));
        false
    }

    /// The last character before the current token.
    fn last_character(&self) -> Option<Span> {
        let span = self.tokens[self.pos.checked_sub(1)?].span;
        Some(Span { start: span.end.saturating_sub(1).max(span.start), ..span })
    }

    pub(crate) fn expect_word(&mut self, word: Symbol) -> bool {
        let found = self.eat_word(word);
        if !found {
            let text = self.ast.name(word).to_owned();
            self.expected(&format!("`{text}`"));
        }
        found
    }

    /// Consumes a name and returns it with its location; if there is none, reports that and returns the empty
    /// name.
    pub(crate) fn expect_name(&mut self, what: &str) -> (Symbol, Span) {
        if self.is(TokenKind::Ident) {
            let token = self.bump();
            return (token.symbol, token.span);
        }
        self.expected(what);
        (kw::EMPTY, self.span())
    }

    /// Closes generic arguments; consumes the first half of `>=` and the first third of `>>=`.
    pub(crate) fn expect_angle(&mut self, open: Span) -> bool {
        let rest = match self.kind() {
            TokenKind::Ge => TokenKind::Eq,
            TokenKind::ShrEq => TokenKind::Ge,
            _ => return self.expect_list_end(TokenKind::Gt, open),
        };
        let token = &mut self.tokens[self.pos];
        token.kind = rest;
        token.span.start = (token.span.start + 1).min(token.span.end);
        true
    }

    /// Ends a statement or declaration. If the `;` is missing, parsing continues on the next line if a
    /// statement may start there, and otherwise after the next `;` or at the end of the block.
    pub(crate) fn expect_semi(&mut self) {
        if self.eat(TokenKind::Semi) {
            return;
        }
        // An error has already been reported in this statement.
        let silent =
            self.reports.count > 0 && self.reports.last != usize::MAX && self.reports.last >= self.head;
        let place = self.last_character();
        let place = place.filter(|_| self.current().at_line_start() || self.is(TokenKind::RBrace));
        if !silent {
            self.report(match place {
                Some(end) => Diagnostic::error("E0001", end, "expected `;` at the end of this line"),
                None => {
                    let message = format!("expected `;`, found {}", self.found());
                    Diagnostic::error("E0001", self.span(), message)
                }
            });
        }
        if place.is_none() {
            self.skip_statement();
        }
    }

    /// The name of the current token in messages.
    pub(crate) fn found(&self) -> String {
        let token = self.current();
        match token.kind {
            TokenKind::Eof => "end of file".to_owned(),
            TokenKind::String => "a string".to_owned(),
            _ => format!("`{}`", token.text(&self.ast.symbols)),
        }
    }

    pub(crate) fn expected(&mut self, what: &str) {
        let message = format!("expected {what}, found {}", self.found());
        let error = Diagnostic::error("E0001", self.span(), message);
        self.report(error);
    }

    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::error(code, span, message));
    }

    /// Returns true if all errors so far have this code.
    pub(crate) fn has_only(&self, code: &str) -> bool {
        let mut errors = self.reports.diagnostics.iter().filter(|d| d.severity == Severity::Error);
        self.reports.count == 0 || errors.all(|d| d.code == code)
    }

    /// Reports an error that may be a consequence of any earlier error, and only if there was none.
    pub(crate) fn follow_up(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        if self.reports.count == 0 {
            self.error(code, span, message);
        }
    }

    /// Reports something that is accepted, but that is probably not intended.
    pub(crate) fn warn(&mut self, warning: Diagnostic) {
        if !self.stopped && !self.is_damaged() {
            self.reports.diagnostics.push(warning);
        }
    }

    /// Reports an error, but only the first at a token: the others are its consequences.
    pub(crate) fn report(&mut self, error: Diagnostic) {
        if self.stopped || self.reports.last == self.pos {
            return;
        }
        self.reports.last = self.pos;
        if self.is_damaged() {
            return;
        }
        self.reports.count += 1;
        let error = self.with_word(error);
        self.reports.diagnostics.push(error);
        if self.reports.count >= MAX_ERRORS {
            self.reports.diagnostics.push(Diagnostic::error(
                "E0008",
                self.span(),
                "too many errors; the rest of the file is not parsed",
            ));
            self.stop();
        }
    }

    /// Adds a note with the keyword that the first word of the statement may be a misspelling of.
    fn with_word(&self, error: Diagnostic) -> Diagnostic {
        let read = &self.tokens[self.head.min(self.pos)..self.pos];
        let ended = |t: &Token| matches!(t.kind, TokenKind::Semi | TokenKind::LBrace | TokenKind::RBrace);
        if error.code != "E0001" || error.help.is_some() || read.iter().any(ended) {
            return error;
        }
        let Some(first) = read.first().filter(|t| t.kind == TokenKind::Ident) else { return error };
        match nearest(self.ast.name(first.symbol), WORDS.into_iter()) {
            Some(word) => error.note(first.span, format!("did you mean `{word}`?")),
            None => error,
        }
    }

    /// Returns true if the current token, or the end of the previous one, is in damaged text.
    fn is_damaged(&self) -> bool {
        let within = |file: FileId, at: u32| {
            self.reports.damage.iter().any(|d| d.file == file && d.start <= at && at < d.end)
        };
        let before = self.pos.checked_sub(1).map(|p| self.tokens[p].span);
        within(self.span().file, self.span().start)
            || before.is_some_and(|b| within(b.file, b.end.saturating_sub(1).max(b.start)))
    }

    /// Stops parsing, as if the file ended here.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.pos = self.tokens.len() - 1;
    }

    /// Skips past the next `;`, or up to the `}` that closes the block. Nested blocks are skipped whole.
    pub(crate) fn skip_statement(&mut self) {
        loop {
            match self.kind() {
                TokenKind::Eof | TokenKind::RBrace => return,
                TokenKind::Semi => {
                    self.bump();
                    return;
                }
                TokenKind::LBrace => {
                    self.skip_brackets();
                    if self.current().at_line_start() {
                        return;
                    }
                }
                _ => {
                    self.bump();
                }
            }
        }
    }

    /// Skips past a closing bracket, or up to the likely end of what it closes.
    pub(crate) fn skip_past(&mut self, close: TokenKind) {
        use TokenKind as T;
        while self.kind() != close && !matches!(self.kind(), T::LBrace | T::RBrace | T::Semi | T::Eof) {
            self.bump();
        }
        self.eat(close);
    }

    /// Skips a bracket and its contents. If the current token is not a bracket, skips that token.
    pub(crate) fn skip_brackets(&mut self) {
        if let Some(close) = self.partner(self.pos) {
            self.pos = close;
        }
        self.bump();
    }
}
