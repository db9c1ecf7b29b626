//! Writes the pieces in their places.

use crate::layout::{Layout, width};
use crate::pieces::{Kind, Piece};
use crate::style::{Indent, Resolved};

/// The text of the pieces, with the line ends of the original.
pub(crate) fn write(text: &str, pieces: &[Piece], layout: &Layout, style: &Resolved) -> String {
    let crlf = text.matches("\r\n").count();
    let eol = if crlf * 2 > text.matches('\n').count() { "\r\n" } else { "\n" };
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    if text.starts_with('\u{feff}') {
        out.push('\u{feff}');
    }
    // A mark of the byte order is a name elsewhere.
    if pieces.first().is_some_and(|p| p.text.starts_with('\u{feff}')) {
        out += eol;
    }
    let mut end = 0;
    for (at, piece) in pieces.iter().enumerate() {
        let column = layout.columns[at];
        if piece.verbatim {
            let start = pieces.get(at.wrapping_sub(1)).map_or(out.len().min(piece.start), Piece::end);
            out += &text[start..piece.start];
        } else if at == 0 || layout.newlines[at] > 0 {
            // A `\` at the end of a line would continue it.
            if layout.newlines[at] > 0 && !pieces[at - 1].is_comment() && out.ends_with('\\') {
                out.push(' ');
            }
            for _ in 0..layout.newlines[at] {
                out += eol;
            }
            indent(&mut out, column, style.indent);
        } else {
            out.extend(std::iter::repeat_n(' ', column.saturating_sub(end)));
        }
        let start = out.len();
        match piece.kind {
            Kind::Token(_) => out += piece.text,
            _ if piece.verbatim => out += piece.text,
            Kind::LineComment | Kind::Directive => lines(&mut out, piece.text, eol),
            Kind::BlockComment => comment(&mut out, piece, column, style, eol),
        }
        end = match out[start..].rfind('\n') {
            Some(line) => width(&out[start + line + 1..]),
            None => column + width(&out[start..]),
        };
    }
    if let Some(last) = pieces.last() {
        match (out.ends_with('\\'), last.is_comment()) {
            // It would go on in the next line.
            (true, true) => {}
            (true, false) => out = out + " " + eol,
            (false, _) => out += eol,
        }
    }
    out
}

fn indent(out: &mut String, column: usize, indent: Indent) {
    match indent {
        Indent::Spaces(_) => out.extend(std::iter::repeat_n(' ', column)),
        Indent::Tab(n) => {
            out.extend(std::iter::repeat_n('\t', column / n));
            out.extend(std::iter::repeat_n(' ', column % n));
        }
    }
}

/// Writes lines without white space at their ends. A `\` that would then continue its line keeps it.
fn lines(out: &mut String, text: &str, eol: &str) {
    for (k, line) in text.split('\n').enumerate() {
        if k > 0 {
            *out += eol;
        }
        let line = line.strip_suffix('\r').unwrap_or(line);
        let trimmed = line.trim_ascii_end();
        *out += if trimmed.ends_with('\\') { line } else { trimmed };
    }
}

/// Writes a block comment; its further lines move with the first.
fn comment(out: &mut String, piece: &Piece, column: usize, style: &Resolved, eol: &str) {
    for (k, line) in piece.text.split('\n').enumerate() {
        let line = line.trim_ascii_end();
        if k == 0 {
            *out += line;
            continue;
        }
        *out += eol;
        let content = line.trim_ascii_start();
        if content.is_empty() {
            continue;
        }
        let mut old = 0;
        for byte in line[..line.len() - content.len()].bytes() {
            old = if byte == b'\t' {
                (old / style.indent.columns() + 1) * style.indent.columns()
            } else {
                old + 1
            };
        }
        indent(out, (old + column).saturating_sub(piece.column), style.indent);
        *out += content;
    }
}
