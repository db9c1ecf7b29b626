//! Suppresses diagnostics that are only consequences of other errors.
//!
//! Source that the parser could not read declares nothing, and neither does a file that cannot be opened:
//! every use of such a missing declaration would be reported as an error, although the use itself is correct.
//! Errors found by checking are therefore only shown for programs that could be read in full. A name that is
//! unknown in several places is reported as one error with several places.

use syntax::{Diagnostic, Severity};

/// The maximum number of further places that are shown for an unknown name.
const MAX_PLACES: usize = 3;

/// Returns true if the error means that the rest of the program is not what the user wrote: errors of the
/// lexer, the preprocessor and the parser, and files that cannot be opened.
fn is_unread(d: &Diagnostic) -> bool {
    let preprocessor = ["E0020", "E0021", "E0022", "E0023", "E0024", "E0025", "E0027", "E0028", "E0029"];
    let files = ["E0030", "E0031", "E0032", "E15300", "E15500"];
    d.severity == Severity::Error
        && (is_syntax(d) || preprocessor.contains(&d.code) || files.contains(&d.code))
}

pub(crate) fn is_syntax(d: &Diagnostic) -> bool {
    // A bit-field of a wrong width is parsed nevertheless.
    d.code.len() == 5 && d.code < "E0020" && d.code != "E0013"
}

/// Returns true if the diagnostic was found before the program was checked.
pub(crate) fn is_early(d: &Diagnostic) -> bool {
    d.code.starts_with("E00") || d.code.starts_with("E15") || d.code.starts_with("E291")
}

/// Removes diagnostics that follow from others, and merges those about the same unknown name.
pub(crate) fn without_followers(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    if diagnostics.iter().any(is_unread) {
        diagnostics.retain(is_early);
    }
    // What a faulty macro makes cannot be parsed.
    let is_of_macro = |d: &Diagnostic| d.severity == Severity::Error && matches!(d.code, "E0023" | "E0029");
    if diagnostics.iter().any(is_of_macro) {
        diagnostics.retain(|d| !is_syntax(d));
    }
    if diagnostics.iter().any(|d| d.severity == Severity::Error && !d.is_follow_up) {
        diagnostics.retain(|d| !d.is_follow_up);
    }
    let mut kept: Vec<Diagnostic> = Vec::with_capacity(diagnostics.len());
    // By the message about an unknown name: its index in `kept`, and the number of further places where the
    // name occurs.
    let mut unknown: rustc_hash::FxHashMap<String, (usize, usize)> = rustc_hash::FxHashMap::default();
    for d in diagnostics {
        if !matches!(d.code, "E30015" | "E30027") {
            kept.push(d);
            continue;
        }
        match unknown.get_mut(&d.message) {
            None => {
                unknown.insert(d.message.clone(), (kept.len(), 0));
                kept.push(d);
            }
            Some((first, n)) => {
                *n += 1;
                if *n <= MAX_PLACES {
                    kept[*first]
                        .notes
                        .push(syntax::Label { span: d.primary.span, message: "and here".into() });
                }
            }
        }
    }
    for d in &mut kept {
        let Some(&(_, n)) = unknown.get(&d.message).filter(|u| u.1 > MAX_PLACES) else { continue };
        if let Some(last) = d.notes.last_mut() {
            last.message = format!("and here, and in {} more places", n - MAX_PLACES);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use syntax::{FileId, Span};

    fn at(code: &'static str, start: u32, message: &str) -> Diagnostic {
        Diagnostic::error(code, Span { file: FileId(0), start, end: start + 1 }, message)
    }

    #[test]
    fn an_unknown_name_is_one_error() {
        let found = without_followers((0..6).map(|k| at("E30015", k, "unknown 'x'")).collect());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].notes.len(), 3);
        assert_eq!(found[0].notes[2].message, "and here, and in 2 more places");
    }

    #[test]
    fn a_program_that_cannot_be_read_is_not_checked() {
        let all =
            vec![at("E0001", 0, "expected `;`"), at("E30015", 1, "unknown 'x'"), at("E0025", 2, "#error")];
        let codes: Vec<&str> = without_followers(all).iter().map(|d| d.code).collect();
        assert_eq!(codes, ["E0001", "E0025"]);
        let fine = vec![at("E0013", 0, "bit-field"), at("E30019", 1, "type")];
        assert_eq!(without_followers(fine).len(), 2);
    }
}
