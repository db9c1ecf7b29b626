//! Errors that follow from other errors, and are not shown.
//!
//! What the parser could not read declares nothing, and a file that cannot be opened declares nothing either: every use
//! of what would be there is an error that is none. So what checking finds is only shown for programs that could be read.
//! A name that is unknown in several places is one error with several places.

use syntax::{Diagnostic, Severity};

/// So many further places of an unknown name are shown.
const MAX_PLACES: usize = 3;

/// Whether the rest of the program is not what the user wrote: errors of the lexer, the preprocessor, the parser, and of
/// files that cannot be opened.
fn is_unread(d: &Diagnostic) -> bool {
    let preprocessor = ["E0020", "E0021", "E0022", "E0023", "E0024", "E0025", "E0027", "E0028", "E0029"];
    let files = ["E0030", "E0031", "E0032", "E15300", "E15500"];
    d.severity == Severity::Error
        && (is_syntax(d) || preprocessor.contains(&d.code) || files.contains(&d.code))
}

fn is_syntax(d: &Diagnostic) -> bool {
    // Bit-fields of a wrong width are read all the same.
    d.code.len() == 5 && d.code < "E0020" && d.code != "E0013"
}

/// Whether it was found before the program was checked.
fn is_early(d: &Diagnostic) -> bool {
    d.code.starts_with("E00") || d.code.starts_with("E15")
}

/// Whether a diagnostic is about a type that has been reported as such.
fn is_about_error(d: &Diagnostic) -> bool {
    const UNKNOWN: &str = "<error>";
    d.message.contains(UNKNOWN) || d.help.as_ref().is_some_and(|h| h.contains(UNKNOWN))
}

/// The diagnostics that do not follow from others; each place once.
pub(crate) fn without_followers(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    if diagnostics.iter().any(is_unread) {
        diagnostics.retain(is_early);
    }
    if diagnostics.iter().any(|d| d.severity == Severity::Error && !is_about_error(d)) {
        diagnostics.retain(|d| !is_about_error(d));
    }
    let mut kept: Vec<Diagnostic> = Vec::with_capacity(diagnostics.len());
    // Which of `kept` names an unknown name, and in how many other places it was.
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
