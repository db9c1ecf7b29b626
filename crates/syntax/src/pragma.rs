//! Implements `#pragma warning (SPECIFIER: CODE …; …)`, `(push)` and `(pop)`.
//!
//! The specifiers are `disable`, `default`, `error`, `once`, and `suppress`, which disables a code in the
//! next line. A file included by `#include` starts with the levels of the including file, and the changes
//! that it makes stay in effect after it.

use std::rc::Rc;

use crate::diagnostic::Diagnostic;
use crate::keywords as kw;
use crate::preprocess::Preprocessor;
use crate::source::{FileId, Span};
use crate::token::{Token, TokenKind};
use crate::warnings::{Level, Levels};

impl Preprocessor<'_> {
    /// Processes the rest of a `#pragma` directive.
    pub(crate) fn pragma(&mut self, rest: &[Token], span: Span) {
        match rest.first() {
            Some(t) if t.kind == TokenKind::Ident && t.symbol == kw::ONCE => self.include_once(span.file),
            Some(t) if t.kind == TokenKind::Ident && t.symbol == kw::WARNING => {
                let line = self.expand_all(&rest[1..]);
                if self.pragma_warning(&line, span).is_none() {
                    let help = "write `(disable: CODE …)`, `(push)` or `(pop)`";
                    self.report(Diagnostic::error("E0023", span, "malformed `#pragma warning`").help(help));
                }
            }
            _ => {}
        }
    }

    /// Returns `None` if the directive is malformed.
    fn pragma_warning(&mut self, line: &[Token], span: Span) -> Option<()> {
        let [open, inner @ .., close] = line else { return None };
        if open.kind != TokenKind::LParen || close.kind != TokenKind::RParen {
            return None;
        }
        if let [word] = inner {
            match word.text(&self.ast.symbols) {
                "push" => self.warnings_state.pushed.push((self.warnings_state.levels.clone(), span)),
                "pop" => match self.warnings_state.pushed.pop() {
                    Some((levels, _)) => self.set_levels(levels, span.file, span.end),
                    None => {
                        let warning =
                            Diagnostic::warning("E15611", span, "this `pop` has no `push` before it");
                        self.report(warning);
                    }
                },
                _ => return None,
            }
            return Some(());
        }
        let mut levels = self.warnings_state.levels.as_ref().clone();
        for group in inner.split(|t| t.kind == TokenKind::Semi) {
            let (word, codes) = group.split_first()?;
            let codes = match codes {
                [colon, codes @ ..] if colon.kind == TokenKind::Colon => codes,
                codes => codes,
            };
            let specifier = word.text(&self.ast.symbols).to_owned();
            let number = self.ast.warnings.number();
            let level = match specifier.as_str() {
                "disable" => Some(Level::Disabled),
                "default" => Some(Level::Default),
                "error" => Some(Level::Error),
                "once" => Some(Level::Once(number)),
                "suppress" => None,
                _ => {
                    let message = format!("`{specifier}` is unknown to `#pragma warning`");
                    let help = "specifiers are `disable`, `default`, `error`, `once` and `suppress`";
                    self.report(Diagnostic::warning("E15613", word.span, message).help(help));
                    continue;
                }
            };
            for token in codes.iter().filter(|t| t.kind != TokenKind::Comma) {
                if token.kind != TokenKind::Int {
                    return None;
                }
                let code = crate::literal::int_value(self.ast.symbols.name(token.symbol))?.0;
                let Ok(code) = u32::try_from(code) else { continue };
                match level {
                    None => self.suppress(code, span),
                    Some(level) => {
                        levels.retain(|l| l.0 != code);
                        levels.push((code, level));
                    }
                }
            }
        }
        self.set_levels(Rc::new(levels), span.file, span.end);
        Some(())
    }

    /// Disables a code in the line after a directive.
    fn suppress(&mut self, code: u32, span: Span) {
        let Some(file) = self.sources.files.get(span.file.0 as usize) else { return };
        let next = file.line_starts.partition_point(|&s| s <= span.start);
        let end = file.text.len() as u32;
        let at = |line: usize| file.line_starts.get(line).copied().unwrap_or(end);
        self.ast.warnings.disable_in(Span { file: span.file, start: at(next), end: at(next + 1) }, code);
    }

    fn set_levels(&mut self, levels: Levels, file: FileId, from: u32) {
        self.warnings_state.levels = levels.clone();
        self.ast.warnings.mark(file, from, levels);
    }

    /// Records that the current levels apply from a location on: at the begin of an included file, and where
    /// the text continues after it.
    pub(crate) fn keep_levels(&mut self, file: FileId, from: u32) {
        if !self.warnings_state.levels.is_empty() {
            self.ast.warnings.mark(file, from, self.warnings_state.levels.clone());
        }
    }

    /// Warns of each `push` that has no `pop`.
    pub(crate) fn end_pragmas(&mut self) {
        for (_, span) in std::mem::take(&mut self.warnings_state.pushed) {
            self.report(Diagnostic::warning("E15612", span, "this `push` has no `pop` after it"));
        }
    }
}
