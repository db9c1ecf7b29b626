//! Implements `#pragma warning`: determines how warnings are treated, depending on their location in the
//! source.
//!
//! A directive changes the level of some codes from its location on. Each change adds a mark with all levels,
//! so the level at a location is that of the last mark before it in the same file. A file included by
//! `__include` starts with the levels at the location of the `__include`.

use std::rc::Rc;

use rustc_hash::FxHashSet;

use crate::diagnostic::{Diagnostic, Severity};
use crate::source::{FileId, Span};

/// How the warnings of a code are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The level without a directive.
    Default,
    /// The warning is not shown.
    Disabled,
    /// The warning is an error.
    Error,
    /// Only the first warning after the directive with this number is shown.
    Once(u32),
}

/// Levels by the number of a code; codes that are not listed have the default level.
pub(crate) type Levels = Rc<Vec<(u32, Level)>>;

/// All `#pragma warning` directives of a program.
#[derive(Clone, Debug, Default)]
pub struct WarningLevels {
    /// The levels that apply from a location of a file on, in the order of reading.
    marks: Vec<(FileId, u32, Levels)>,
    /// Lines in which a code is disabled.
    lines: Vec<(Span, u32)>,
    /// Files that are part of another file, with the location that includes them.
    parts: Vec<(FileId, Span)>,
    directives: u32,
    /// Codes that were requested as warnings: errors reported as warnings, and diagnostics that are silent
    /// otherwise.
    warned: Vec<u32>,
}

/// A byte of a file.
pub(crate) type Place = (FileId, u32);

/// The directives of a module: its marks, the lines in which codes are disabled, and how many directives there are.
pub(crate) struct Stored {
    pub(crate) marks: Vec<(Place, Vec<(u32, Level)>)>,
    pub(crate) lines: Vec<(Span, u32)>,
    pub(crate) directives: u32,
}

/// The maximum nesting depth of files that are part of others.
const MAX_PARTS: usize = 64;

impl WarningLevels {
    /// Applies levels from a location on.
    pub(crate) fn mark(&mut self, file: FileId, from: u32, levels: Levels) {
        self.marks.push((file, from, levels));
    }

    /// Disables a code within a span.
    pub(crate) fn disable_in(&mut self, span: Span, code: u32) {
        self.lines.push((span, code));
    }

    /// The directives as data.
    pub(crate) fn stored(&self) -> Stored {
        let marks = self.marks.iter().map(|(file, from, levels)| ((*file, *from), levels.to_vec()));
        Stored { marks: marks.collect(), lines: self.lines.clone(), directives: self.directives }
    }

    /// Adds directives of other files.
    pub(crate) fn add(&mut self, stored: Stored) {
        let own = |level| match level {
            Level::Once(directive) => Level::Once(directive.saturating_add(self.directives)),
            Level::Default | Level::Disabled | Level::Error => level,
        };
        let moved =
            |levels: Vec<(u32, Level)>| levels.into_iter().map(|(code, level)| (code, own(level))).collect();
        self.marks.extend(
            stored.marks.into_iter().map(|((file, from), levels)| (file, from, Rc::new(moved(levels)))),
        );
        self.lines.extend(stored.lines);
        self.directives = self.directives.saturating_add(stored.directives);
    }

    /// Allocates a number for a directive.
    pub(crate) fn number(&mut self) -> u32 {
        self.directives += 1;
        self.directives
    }

    /// Requests a code as a warning, whether it is an error or silent otherwise.
    pub fn warn(&mut self, code: u32) {
        self.warned.push(code);
    }

    /// Returns true if the code was requested as a warning.
    pub fn warns(&self, code: u32) -> bool {
        self.warned.contains(&code)
    }

    /// Makes a file start with the levels at the location that includes it.
    pub fn add_part(&mut self, file: FileId, at: Span) {
        self.parts.push((file, at));
    }

    /// The level of a code at a location.
    fn level(&self, code: u32, mut file: FileId, mut at: u32) -> Level {
        if self.lines.iter().any(|(s, c)| *c == code && s.file == file && s.start <= at && at < s.end) {
            return Level::Disabled;
        }
        for _ in 0..MAX_PARTS {
            // The last one of those with the greatest position: a file that is read twice has its marks
            // twice.
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

    /// Returns true for an error that was not requested as a warning.
    pub fn is_error(&self, d: &Diagnostic) -> bool {
        d.severity == Severity::Error && !number(d).is_some_and(|n| self.warns(n))
    }

    /// Filters diagnostics by their levels; warnings may become errors and errors warnings as requested.
    pub fn apply(&self, mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
        for d in &mut diagnostics {
            if d.severity == Severity::Error && !self.is_error(d) {
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

/// The number in a diagnostic's code.
fn number(d: &Diagnostic) -> Option<u32> {
    d.code.get(1..)?.parse().ok()
}
