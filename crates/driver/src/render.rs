//! Renders diagnostics as text, in the style of rustc, and as JSON.
//!
//! Only this file depends on the renderer. The renderer receives a few lines around a span and never the
//! whole file, and only a piece of a line that is longer than a screen, so that a message about a megabyte of
//! text takes no longer than any other.

use std::borrow::Cow;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use syntax::{Diagnostic, Label, Severity, Sources, Span};

/// The maximum number of lines shown for a span.
const MAX_LINES: usize = 8;
/// The maximum number of bytes shown of a line.
const MAX_WIDTH: usize = 240;

/// The maximum number of characters of a word quoted in a message.
const MAX_WORD: usize = 200;

/// A message in which overlong words are cut.
pub fn shortened(message: &str) -> Cow<'_, str> {
    let is_long = |word: &str| word.len() > MAX_WORD && word.chars().count() > MAX_WORD;
    if !message.split_whitespace().any(is_long) {
        return Cow::Borrowed(message);
    }
    let mut text = String::new();
    for piece in message.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end_matches(char::is_whitespace);
        if is_long(word) {
            let end: Vec<char> = word.chars().rev().take(MAX_WORD / 4).collect();
            text.extend(word.chars().take(MAX_WORD / 2));
            text.push('…');
            text.extend(end.into_iter().rev());
            text += &piece[word.len()..];
        } else {
            text += piece;
        }
    }
    Cow::Owned(text)
}

/// The style of rendered text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text without escape sequences.
    Plain,
    /// Text with a terminal's escape sequences for colours.
    Coloured,
}

/// One diagnostic as text, with or without colour.
pub fn to_text(sources: &Sources, diagnostic: &Diagnostic, style: Style) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group =
        Group::with_title(level.primary_title(shortened(&diagnostic.message)).id(diagnostic.code));
    let windows = windows(sources, diagnostic);
    if let Some((path, line, column)) = unseen(sources, diagnostic.primary.span) {
        group = group.element(Origin::path(path).line(line as usize).char_column(column as usize));
        if !diagnostic.primary.message.is_empty() {
            group = group.element(Level::NOTE.message(shortened(&diagnostic.primary.message)));
        }
    }
    for window in &windows {
        let annotations: Vec<Annotation> = window
            .labels
            .iter()
            .map(|(range, label, primary)| {
                let kind = if *primary { AnnotationKind::Primary } else { AnnotationKind::Context };
                let annotation = kind.span(range.clone());
                if label.is_empty() { annotation } else { annotation.label(shortened(label)) }
            })
            .collect();
        group = group.element(
            Snippet::source(window.text)
                .path(window.path)
                .line_start(window.first_line)
                .annotations(annotations),
        );
    }
    let renderer = match style {
        Style::Coloured => Renderer::styled(),
        Style::Plain => Renderer::plain(),
    };
    if windows.is_empty() {
        // No lines of a file are shown, so notes and help are appended below instead of beside them.
        let mut text = renderer.render(&[group]);
        let notes = diagnostic.notes.iter().map(|note| ("note", note_text(sources, note)));
        for (kind, message) in notes.chain(diagnostic.help.iter().map(|help| ("help", help.to_string()))) {
            text += &format!("\n  = {kind}: {}", shortened(&message));
        }
        text.push('\n');
        return text;
    }
    // Declarations of the library are described by their signatures, and their source is not shown. Notes
    // that merely point there are dropped.
    let is_said = |note: &&Label| {
        let is_of_library = unseen(sources, note.span).is_none();
        !(is_shown(sources, note.span) || is_of_library && note.message.ends_with(" here"))
    };
    for note in diagnostic.notes.iter().filter(is_said) {
        group = group.element(Level::NOTE.message(shortened(&note_text(sources, note)).into_owned()));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(shortened(help)));
    }
    let mut text = renderer.render(&[group]);
    text.push('\n');
    text
}

/// All diagnostics as text, and a closing line that counts them.
pub fn all_to_text(sources: &Sources, diagnostics: &[Diagnostic], style: Style) -> String {
    let mut text = String::new();
    for diagnostic in diagnostics {
        text += &to_text(sources, diagnostic, style);
        text.push('\n');
    }
    let count = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    match (errors, warnings) {
        (0, 0) => {}
        (0, w) => text += &format!("{w} warning{}\n", plural(w)),
        (e, 0) => text += &format!("{e} error{}\n", plural(e)),
        (e, w) => text += &format!("{e} error{}, {w} warning{}\n", plural(e), plural(w)),
    }
    text
}

/// A place as file and line.
pub fn place(sources: &Sources, span: Span) -> Option<String> {
    let file = sources.files.get(span.file.0 as usize)?;
    let (line, _) = sources.line_column(span.file, span.start);
    Some(format!("{}:{line}", file.path))
}

/// The object `{"diagnostics":[…]}` for scripts. Lines and columns count from 1; the end is exclusive. The
/// notes of a diagnostic follow it, with its code.
pub fn to_json(sources: &Sources, diagnostics: &[Diagnostic]) -> String {
    let entry = |severity: &str, code: &str, message: &str, span: Span| {
        if !span.is_place() {
            let file = sources.files.get(span.file.0 as usize).map_or("", |f| f.path.as_str());
            return without_place(severity, code, message, file);
        }
        let (line, column) = sources.line_column(span.file, span.start);
        let (end_line, end_column) = sources.line_column(span.file, span.end);
        let file = sources.files.get(span.file.0 as usize).map_or("", |f| f.path.as_str());
        serde_json::json!({
            "severity": severity,
            "code": code,
            "message": shortened(message),
            "file": file,
            "line": line,
            "column": column,
            "end_line": end_line,
            "end_column": end_column,
        })
    };
    let mut list: Vec<serde_json::Value> = Vec::new();
    for d in diagnostics {
        let severity = match d.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let mut shown = entry(severity, d.code, &d.message, d.primary.span);
        if let Some(help) = &d.help {
            shown["help"] = shortened(help).into();
        }
        list.push(shown);
        list.extend(d.notes.iter().map(|note| entry("note", d.code, &note.message, note.span)));
    }
    serde_json::json!({ "diagnostics": list }).to_string()
}

/// The same object for an error without a place in a file.
pub fn error_to_json(code: &str, message: &str, file: &str) -> String {
    serde_json::json!({ "diagnostics": [without_place("error", code, message, file)] }).to_string()
}

fn without_place(severity: &str, code: &str, message: &str, file: &str) -> serde_json::Value {
    serde_json::json!({ "severity": severity, "code": code, "message": shortened(message), "file": file })
}

/// An excerpt of a file and the labels in it.
struct Window<'a> {
    path: &'a str,
    text: &'a str,
    first_line: usize,
    /// The range of bytes in `text`, the message, and whether the label is the primary one.
    labels: Vec<(std::ops::Range<usize>, &'a str, bool)>,
}

/// Returns true if lines of the file are shown for a span.
fn is_shown(sources: &Sources, span: Span) -> bool {
    let file = sources.files.get(span.file.0 as usize);
    span.is_place() && file.is_some_and(|file| !file.path.starts_with("core/") && file.module.is_none())
}

/// Where a span is in a file of a compiled module, of which no lines can be shown.
fn unseen(sources: &Sources, span: Span) -> Option<(&str, u32, u32)> {
    let file =
        sources.files.get(span.file.0 as usize).filter(|file| span.is_place() && file.module.is_some())?;
    let (line, column) = sources.line_column(span.file, span.start);
    Some((&file.path, line, column))
}

/// The message of a note, with its place if no lines are shown for it.
fn note_text(sources: &Sources, note: &Label) -> String {
    match unseen(sources, note.span) {
        Some((path, line, column)) => format!("{} ({path}:{line}:{column})", note.message),
        None => note.message.clone(),
    }
}

/// A file, a range of its bytes, and the labels in it; `true` for the primary one.
type Marked<'a> = (usize, usize, usize, Vec<(&'a Label, bool)>);

/// One window per label, where labels close to each other share a window.
fn windows<'a>(sources: &'a Sources, diagnostic: &'a Diagnostic) -> Vec<Window<'a>> {
    let labels =
        std::iter::once((&diagnostic.primary, true)).chain(diagnostic.notes.iter().map(|note| (note, false)));
    // Ranges of bytes with their labels, in order of first mention.
    let mut ranges: Vec<Marked<'a>> = Vec::new();
    for (label, primary) in labels {
        let file_idx = label.span.file.0 as usize;
        let Some(file) = sources.files.get(file_idx) else { continue };
        if !is_shown(sources, label.span) {
            continue;
        }
        let (start, end) = lines_around(file, label.span.start as usize, label.span.end as usize);
        let near = ranges.iter_mut().find(|r| {
            r.0 == file_idx
                && start <= r.2 + 1
                && r.1 <= end + 1
                && file.text[start.min(r.1)..end.max(r.2)].lines().count() <= MAX_LINES
                && end.max(r.2) - start.min(r.1) <= MAX_WIDTH * MAX_LINES
        });
        match near {
            Some(range) => {
                range.1 = range.1.min(start);
                range.2 = range.2.max(end);
                range.3.push((label, primary));
            }
            None => ranges.push((file_idx, start, end, vec![(label, primary)])),
        }
    }
    let mut windows = Vec::new();
    for (file_idx, start, end, labels) in ranges {
        let file = &sources.files[file_idx];
        let text = &file.text[start..end];
        let first_line = sources.line_column(labels[0].0.span.file, start as u32).0 as usize;
        let labels = labels
            .into_iter()
            .map(|(label, primary)| {
                let from = floor_boundary(text, (label.span.start as usize).saturating_sub(start));
                let mut to = (label.span.end as usize).saturating_sub(start).clamp(from, text.len());
                while !text.is_char_boundary(to) {
                    to += 1;
                }
                (from..to, label.message.as_str(), primary)
            })
            .collect();
        windows.push(Window { path: &file.path, text, first_line: first_line.max(1), labels });
    }
    windows
}

/// The range of the whole lines that a span touches, cut to what fits on a screen.
fn lines_around(file: &syntax::SourceFile, start: usize, end: usize) -> (usize, usize) {
    let text = &file.text;
    let start = start.min(text.len());
    let line = file.line_starts.partition_point(|&s| s as usize <= start).saturating_sub(1);
    let last = file.line_starts.partition_point(|&s| (s as usize) < end.max(start + 1)).saturating_sub(1);
    let last = last.clamp(line, line + MAX_LINES - 1);
    let mut from = file.line_starts[line] as usize;
    let mut to = file.line_starts.get(last + 1).map_or(text.len(), |&s| s as usize);
    while to > from && matches!(text.as_bytes()[to - 1], b'\n' | b'\r') {
        to -= 1;
    }
    if start - from > MAX_WIDTH {
        from = floor_boundary(text, start - MAX_WIDTH / 4);
    }
    if to.saturating_sub(from) > MAX_WIDTH * MAX_LINES {
        to = floor_boundary(text, from + MAX_WIDTH);
    }
    (from, to.max(start).max(from))
}

/// The last character boundary at or before `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use syntax::Span;

    fn example(text: &str, start: u32, end: u32) -> String {
        let mut sources = Sources::default();
        let file = sources.add("a.slang", text);
        let diagnostic = Diagnostic::error("E0001", Span { file, start, end }, "expected `;`, found `}`")
            .label("here")
            .help("add `;`");
        to_text(&sources, &diagnostic, Style::Plain)
    }

    #[test]
    fn shows_the_line_a_caret_and_the_help() {
        let text = example("float f() {\n    return 1.0 }\n", 27, 28);
        assert!(text.contains("error[E0001]: expected `;`, found `}`"), "{text}");
        assert!(text.contains("a.slang:2:16"), "{text}");
        assert!(text.contains("return 1.0 }"), "{text}");
        assert!(text.contains("^ here"), "{text}");
        assert!(text.contains("help: add `;`"), "{text}");
    }

    #[test]
    fn long_words_are_cut() {
        let long = "é".repeat(1 << 20);
        let text = shortened(&format!("there is no `{long}` here,\n and `{long}`")).into_owned();
        assert!(text.len() < 1200 && text.starts_with("there is no `é") && text.ends_with("é`"), "{text}");
        assert!(matches!(shortened("nothing is long\n here"), Cow::Borrowed(_)));
    }

    #[test]
    fn survives_any_span() {
        let text = "ä€ \u{1F600}\n\nx";
        for start in 0..20 {
            for end in 0..20 {
                assert!(example(text, start, end).contains("E0001"));
            }
        }
        assert!(example("", 0, 0).contains("E0001"));
        let long = "x".repeat(1 << 20);
        assert!(example(&long, 1 << 19, (1 << 19) + 4).len() < 10_000);
        assert!(example(&long, 0, 1 << 20).len() < 10_000);
    }

    #[test]
    fn json_has_line_and_column() {
        let mut sources = Sources::default();
        let file = sources.add("a.slang", "x\nyz");
        let d = Diagnostic::warning("W1", Span { file, start: 3, end: 4 }, "m")
            .note(Span { file, start: 0, end: 1 }, "n");
        let json: serde_json::Value =
            serde_json::from_str(&to_json(&sources, &[d])).expect("what was written is JSON");
        let entry = &json["diagnostics"][0];
        assert_eq!((entry["line"].as_u64(), entry["column"].as_u64()), (Some(2), Some(2)));
        assert_eq!(entry["severity"], "warning");
        assert_eq!((entry["end_line"].as_u64(), entry["end_column"].as_u64()), (Some(2), Some(3)));
        let note = &json["diagnostics"][1];
        assert_eq!((note["line"].as_u64(), note["severity"].as_str()), (Some(1), Some("note")));
    }
}
