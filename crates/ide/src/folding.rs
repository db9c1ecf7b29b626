//! Finds the parts of a file that an editor can fold: brackets, comments and imports over several lines. Only the
//! text is read, so that what is broken elsewhere does not matter.

use crate::words::{Piece, pieces};

/// The kind of a part that can be folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum FoldKind {
    Code,
    Comment,
    Imports,
    /// Between `#if` and `#endif`.
    Region,
}

/// A part that can be folded, by byte offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The kind.
    pub kind: FoldKind,
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// The parts of a text that can be folded, in order of their starts.
pub fn folds(text: &str) -> Vec<Fold> {
    let mut found = Vec::new();
    brackets(text, &mut found);
    comments(text, &mut found);
    imports(text, &mut found);
    regions(text, &mut found);
    found.retain(|fold| text[fold.start as usize..fold.end as usize].trim_end().contains('\n'));
    found.sort_by_key(|fold| (fold.start, std::cmp::Reverse(fold.end)));
    found
}

fn fold(kind: FoldKind, start: usize, end: usize) -> Fold {
    Fold { kind, start: start as u32, end: end as u32 }
}

/// `{ … }` and `( … )`
fn brackets(text: &str, found: &mut Vec<Fold>) {
    let mut open: Vec<(u8, usize)> = Vec::new();
    for (piece, start, end) in pieces(text) {
        if piece != Piece::Mark {
            continue;
        }
        let close = match text.as_bytes()[start] {
            mark @ (b'{' | b'(') => {
                open.push((mark, start));
                continue;
            }
            b'}' => b'{',
            b')' => b'(',
            _ => continue,
        };
        if let Some(at) = open.iter().rposition(|o| o.0 == close) {
            found.push(fold(FoldKind::Code, open[at].1, end));
            open.truncate(at);
        }
    }
}

/// Comments over several lines, and several lines of comments.
fn comments(text: &str, found: &mut Vec<Fold>) {
    let mut run: Option<(usize, usize)> = None;
    for (piece, start, end) in pieces(text) {
        match piece {
            Piece::Space if text[start..end].matches('\n').count() <= 1 => {}
            Piece::Comment if text[start..].starts_with("//") => {
                run = Some((run.map_or(start, |r| r.0), end))
            }
            _ => {
                found.extend(run.take().map(|(start, end)| fold(FoldKind::Comment, start, end)));
                if piece == Piece::Comment {
                    found.push(fold(FoldKind::Comment, start, end));
                }
            }
        }
    }
    found.extend(run.map(|(start, end)| fold(FoldKind::Comment, start, end)));
}

/// Lines of imports and includes, one after the other.
fn imports(text: &str, found: &mut Vec<Fold>) {
    let mut run: Option<(usize, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let (start, word) = (at, line.trim_start());
        at += line.len();
        let end = start + line.trim_end().len();
        if ["import ", "__include ", "#include", "__exported import "].iter().any(|w| word.starts_with(w)) {
            run = Some((run.map_or(start, |r| r.0), end));
        } else if !word.is_empty() {
            found.extend(run.take().map(|(start, end)| fold(FoldKind::Imports, start, end)));
        }
    }
    found.extend(run.map(|(start, end)| fold(FoldKind::Imports, start, end)));
}

fn regions(text: &str, found: &mut Vec<Fold>) {
    let mut open = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some(word) = line.trim_start().strip_prefix('#').map(str::trim_start) else { continue };
        let end = start + line.trim_end().len();
        if word.starts_with("if") {
            open.push(start);
        } else if word.starts_with("else") || word.starts_with("elif") {
            if let Some(last) = open.last_mut() {
                found.push(fold(FoldKind::Region, *last, start.saturating_sub(1)));
                *last = start;
            }
        } else if word.starts_with("endif")
            && let Some(first) = open.pop()
        {
            found.push(fold(FoldKind::Region, first, end));
        }
    }
}
