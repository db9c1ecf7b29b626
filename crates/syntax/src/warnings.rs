//! `#pragma warning`: what becomes of a warning, by its place in the source.
//!
//! A directive changes the level of some codes from its place on. Each change leaves a mark with all levels, so that the
//! level at a place is that of the last mark before it in the same file; a file of `__include` starts with the levels of
//! the place that names it.

use std::rc::Rc;

use rustc_hash::FxHashSet;

use crate::diagnostic::{Diagnostic, Severity};
use crate::source::{FileId, Span};

/// What becomes of the warnings of one code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As without a directive.
    Default,
    /// It is not shown.
    Disabled,
    /// It is an error.
    Error,
    /// The first after this directive is shown. The number is that of the directive.
    Once(u32),
}

/// Levels by the number of a code; what is not there is not changed.
pub(crate) type Levels = Rc<Vec<(u32, Level)>>;

/// All directives of a program.
#[derive(Clone, Debug, Default)]
pub struct WarningLevels {
    /// In order of reading: from this place of the file on, these levels hold.
    marks: Vec<(FileId, u32, Levels)>,
    /// Lines that one code is disabled in.
    lines: Vec<(Span, u32)>,
    /// Files that are a part of another, with the place that names them.
    parts: Vec<(FileId, Span)>,
    directives: u32,
    /// Codes that are warned of: errors that are warnings, and what is silent else.
    warned: Vec<u32>,
}

/// A file may be a part of a part so often.
const MAX_PARTS: usize = 64;

impl WarningLevels {
    /// These levels hold from a place on.
    pub(crate) fn mark(&mut self, file: FileId, from: u32, levels: Levels) {
        self.marks.push((file, from, levels));
    }

    /// A code is disabled within a span.
    pub(crate) fn disable_in(&mut self, span: Span, code: u32) {
        self.lines.push((span, code));
    }

    /// A number for a directive.
    pub(crate) fn number(&mut self) -> u32 {
        self.directives += 1;
        self.directives
    }

    /// A diagnostic of this code is a warning, whether it is an error else or silent.
    pub fn warn(&mut self, code: u32) {
        self.warned.push(code);
    }

    /// True if this code is warned of because somebody asks for it.
    pub fn warns(&self, code: u32) -> bool {
        self.warned.contains(&code)
    }

    /// Makes a file start with the levels of the place that includes it.
    pub fn add_part(&mut self, file: FileId, at: Span) {
        self.parts.push((file, at));
    }

    /// The level of a code at a place.
    fn level(&self, code: u32, mut file: FileId, mut at: u32) -> Level {
        if self.lines.iter().any(|(s, c)| *c == code && s.file == file && s.start <= at && at < s.end) {
            return Level::Disabled;
        }
        for _ in 0..MAX_PARTS {
            // The last of the greatest: a file that is read twice has its marks twice.
            let before = self.marks.iter().filter(|m| m.0 == file && m.1 <= at).max_by_key(|m| m.1);
            let known = before.and_then(|m| m.2.iter().find(|l| l.0 == code));
            if let Some((_, level)) = known {
                return *level;
            }
            let Some((_, place)) = self.parts.iter().find(|p| p.0 == file) else { break };
            (file, at) = (place.file, place.start);
        }
        Level::Default
    }

    /// The diagnostics that are left, warnings turned into errors or errors into warnings where that is asked for.
    pub fn apply(&self, mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let number = |d: &Diagnostic| d.code.get(1..).and_then(|n| n.parse::<u32>().ok());
        for d in &mut diagnostics {
            if d.severity == Severity::Error && number(d).is_some_and(|n| self.warns(n)) {
                d.severity = Severity::Warning;
            }
        }
        if self.marks.is_empty() && self.lines.is_empty() {
            return diagnostics;
        }
        let mut shown = FxHashSet::default();
        diagnostics.retain_mut(|d| {
            let (Severity::Warning, Some(code)) = (d.severity, number(d)) else { return true };
            match self.level(code, d.primary.span.file, d.primary.span.start) {
                Level::Default => true,
                Level::Disabled => false,
                Level::Once(directive) => shown.insert((directive, code)),
                Level::Error => {
                    d.severity = Severity::Error;
                    true
                }
            }
        });
        diagnostics
    }
}
