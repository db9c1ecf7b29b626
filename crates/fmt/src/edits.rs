//! The changes to a text as edits, for editors: of the whole, of a range, and while one types.

use std::ops::Range;

use crate::pieces::{Piece, split};
use crate::style::Style;
use crate::{Changed, format};

/// A replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The bytes that are replaced.
    pub range: Range<usize>,
    /// The new text.
    pub text: String,
}

/// The edits that format a text, in order, each as small as possible.
pub fn edits(text: &str, style: &Style) -> Result<Vec<Edit>, Changed> {
    let formatted = format(text, style)?;
    let (old, new) = (split(text, 4), split(&formatted, 4));
    let mut out = Vec::new();
    let mut edit = |range: Range<usize>, new: &str| {
        if text[range.clone()] != *new {
            out.push(Edit { range, text: new.to_owned() });
        }
    };
    let bom = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let (mut from, mut new_from) = (bom, bom);
    for (a, b) in old.iter().zip(&new) {
        edit(from..a.start, &formatted[new_from..b.start]);
        edit(a.start..a.end(), b.text);
        (from, new_from) = (a.end(), b.end());
    }
    edit(from..text.len(), &formatted[new_from..]);
    Ok(out)
}

/// The edits that format the lines of a range.
pub fn edits_in(text: &str, style: &Style, range: Range<usize>) -> Result<Vec<Edit>, Changed> {
    let start = text[..range.start].rfind('\n').map_or(0, |n| n + 1);
    let end = text[range.end..].find('\n').map_or(text.len(), |n| range.end + n);
    let mut edits = edits(text, style)?;
    // The white space before the first line ends in that line, and indents it.
    edits.retain(|e| e.range.end >= start && e.range.start <= end);
    for edit in &mut edits {
        if edit.range.start < start {
            // Lines above the range stay.
            let line = edit.text.rfind('\n').map_or(0, |n| n + 1);
            let kept = text[edit.range.start..start].contains('\n');
            if kept {
                *edit = Edit { range: start..edit.range.end, text: edit.text[line..].to_owned() };
            }
        }
        if edit.range.end > end && edit.range.start >= start {
            let first = edit.text.find(['\r', '\n']);
            let after = text[edit.range.start..edit.range.end].contains('\n');
            if let (Some(first), true) = (first, after) {
                let stop = text[edit.range.start..].find(['\r', '\n']).map_or(end, |n| edit.range.start + n);
                *edit = Edit { range: edit.range.start..stop, text: edit.text[..first].to_owned() };
            }
        }
    }
    edits.retain(|e| text.get(e.range.clone()).is_some_and(|old| old != e.text));
    Ok(edits)
}

/// The edits after a character was typed at the end of `text[..offset]`: the statement that `;` ends, the block that
/// `}` ends, or the indentation of a new line.
pub fn edits_on_type(text: &str, style: &Style, offset: usize, typed: char) -> Result<Vec<Edit>, Changed> {
    let line_of = |at: usize| text[..at].rfind('\n').map_or(0, |n| n + 1);
    match typed {
        '\n' => {
            let start = line_of(offset);
            let end = text[start..].find('\n').map_or(text.len(), |n| start + n);
            if !text[start..end].trim().is_empty() {
                return edits_in(text, style, start..start);
            }
            // A line without tokens is indented as a statement there would be.
            let marked = format!("{}x_{}", &text[..start], &text[start..]);
            let formatted = format(&marked, style)?;
            let (old, new) = (split(&marked, 4), split(&formatted, 4));
            let Some(at) = old.iter().position(|p| p.start == start) else { return Ok(Vec::new()) };
            let line = formatted[..new[at].start].rfind('\n').map_or(0, |n| n + 1);
            let indent = formatted[line..new[at].start].to_owned();
            let content = text[start..end].trim_end_matches('\r').len();
            if !indent.trim().is_empty() || text[start..start + content] == indent {
                return Ok(Vec::new());
            }
            Ok(vec![Edit { range: start..start + content, text: indent }])
        }
        _ => {
            let pieces = split(text, 4);
            let last = pieces.iter().rposition(|p| p.end() <= offset && p.is_token());
            let Some(last) = last.filter(|&k| pieces[k].end() == offset) else { return Ok(Vec::new()) };
            let start = if typed == '}' { block(&pieces, last) } else { None };
            edits_in(text, style, line_of(start.unwrap_or(offset))..offset)
        }
    }
}

/// The offset of the line on which the statement begins whose block a piece closes.
fn block(pieces: &[Piece], close: usize) -> Option<usize> {
    let marks = crate::structure::parse(pieces);
    let open = marks.get(close)?.partner?;
    let start = (0..open).rev().find(|&k| marks[k].starts).unwrap_or(open);
    Some(pieces[start].start)
}
