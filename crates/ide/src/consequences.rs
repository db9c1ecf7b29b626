//! Leaves out diagnostics that are consequences of what could not be read.
//!
//! The command line shows no errors of the checker beside an error of the parser. An editor has to, because a
//! program that is being written hardly ever parses. So each error of the parser is attributed to the unit in which
//! it is, or to the text between two units, and hides only what may follow from it there:
//!
//! - everything that the checker finds in the broken unit itself;
//! - what it finds in units that name the unit, or name such a unit, if more than the body of a function is broken;
//! - unknown names that occur in the broken text.

use driver::pipeline::{in_order, is_about_text, is_syntax_error};
use rustc_hash::FxHashSet;
use syntax::{Diagnostic, Span};

use crate::Analysis;
use crate::units::{Units, body_span};
use crate::words::words;

/// The diagnostics that the user sees, in order, each once.
pub(crate) fn shown(analysis: &Analysis, units: &Units, diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let diagnostics = analysis.program.ast.warnings.apply(diagnostics);
    let (syntax, others): (Vec<_>, Vec<_>) = diagnostics.into_iter().partition(is_syntax_error);
    let mut found = in_order(others);
    if !syntax.is_empty() {
        let broken = Broken::of(analysis, units, &syntax);
        found.retain(|d| is_about_text(d) || !broken.explains(analysis, units, d));
        found.extend(in_order(syntax));
    }
    found.retain(|d| analysis.session.is_shown(d));
    found.sort_by_key(|d| (d.primary.span.file, d.primary.span.start));
    found
}

/// The parts of a file that could not be read.
struct Broken<'a> {
    regions: Vec<Span>,
    words: FxHashSet<&'a str>,
    /// For each unit, true if it depends on the head of a broken one.
    reaching: Vec<bool>,
}

impl<'a> Broken<'a> {
    fn of(analysis: &'a Analysis, units: &Units, errors: &[Diagnostic]) -> Broken<'a> {
        let mut regions: Vec<Span> = Vec::new();
        let mut heads = vec![false; units.all.len()];
        for error in errors {
            for span in places(units, error) {
                let Some(unit) = units.at(span) else {
                    regions.push(units.gap(analysis, span));
                    continue;
                };
                let body = body_span(analysis, units.all[unit].decl).filter(|_| units.all[unit].is_function);
                heads[unit] |= body.is_none_or(|body| span.start < body.start);
                regions.push(units.all[unit].span);
            }
        }
        let words = regions.iter().flat_map(|&region| words(analysis.text(region))).collect();
        Broken { regions, words, reaching: units.reaching_by_name(&heads) }
    }

    /// Returns true if a diagnostic may be a consequence of what could not be read.
    fn explains(&self, analysis: &Analysis, units: &Units, diagnostic: &Diagnostic) -> bool {
        let span = diagnostic.primary.span;
        let is_in = |r: &Span| r.file == span.file && r.start <= span.start && span.end <= r.end;
        if self.regions.iter().any(is_in) {
            return true;
        }
        let is_unknown = matches!(diagnostic.code, "E30015" | "E30027");
        if is_unknown && words(analysis.text(span)).any(|word| self.words.contains(word)) {
            return true;
        }
        units.at(span).is_some_and(|unit| self.reaching[unit])
    }
}

/// The places that an error is about. What is missing at the end of a declaration is reported at the start of the
/// next one, which is not broken.
pub(crate) fn places(units: &Units, error: &Diagnostic) -> Vec<Span> {
    let first = error.primary.span;
    if !is_syntax_error(error) {
        return vec![first];
    }
    let is_start =
        units.at(first).is_some_and(|k| units.all[k].span.start == first.start && units.all[k].is_named);
    let before = units.before(first).filter(|_| is_start);
    match before {
        Some(_) if !error.notes.is_empty() => error.notes.iter().map(|note| note.span).collect(),
        Some(before) => vec![before],
        None => std::iter::once(first).chain(error.notes.iter().map(|note| note.span)).collect(),
    }
}
