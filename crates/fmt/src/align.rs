//! Keeps columns: what a person has put below one another on consecutive lines stays there.
//!
//! Pieces are in a column if they begin in the same column of the source, with at least two spaces before one of
//! them. The column is moved to the right of its longest line.

use syntax::token::TokenKind as T;

use crate::layout::{Layout, width};
use crate::pieces::{Kind, Piece};

/// Widens `spaces` so that columns of the source are columns of the result.
pub(crate) fn align(pieces: &[Piece], layout: &Layout, spaces: &mut [usize]) {
    let mut lines: Vec<(usize, usize)> = Vec::new();
    for at in 0..pieces.len() {
        match lines.last_mut() {
            Some(line) if layout.newlines[at] == 0 => line.1 = at + 1,
            _ => lines.push((at, at + 1)),
        }
    }
    let mut run = 0;
    while run < lines.len() {
        let follows = |k: usize| {
            let (above, line) = (lines[k - 1].0, lines[k].0);
            let adjacent = layout.newlines[line] == 1 && pieces[line].newlines == 1;
            let hangs = || (above..line).any(|at| at > above && pieces[at].column == pieces[line].column);
            adjacent && (layout.columns[above] == layout.columns[line] || hangs())
        };
        let end = (run + 1..lines.len()).find(|&k| !follows(k)).unwrap_or(lines.len());
        if end > run + 1 {
            columns(pieces, layout, &lines[run..end], spaces);
        }
        run = end;
    }
}

/// Aligns the columns of lines that follow each other, from left to right.
fn columns(pieces: &[Piece], layout: &Layout, lines: &[(usize, usize)], spaces: &mut [usize]) {
    // The pieces that may be in a column, by column and line.
    let mut members: Vec<(usize, Kind, usize, usize)> = Vec::new();
    for (line, &(start, end)) in lines.iter().enumerate() {
        for at in start + 1..end {
            let piece = &pieces[at];
            let may_move = piece.newlines == 0 && piece.gap > 0 && spaces[at] > 0 && !piece.verbatim;
            if may_move && !pieces[start..at].iter().any(|p| p.text.contains('\n')) {
                members.push((piece.column, class(piece.kind), line, at));
            }
        }
    }
    members.sort_by_key(|m| (m.0, m.2));
    let mut from = 0;
    while from < members.len() {
        let mut to = from + 1;
        let joins = |a: &(usize, Kind, usize, usize), b: &(usize, Kind, usize, usize)| {
            (a.0, a.1) == (b.0, b.1) && b.2 == a.2 + 1
        };
        while to < members.len() && joins(&members[to - 1], &members[to]) {
            to += 1;
        }
        let group = &members[from..to];
        from = to;
        if group.len() < 2 || group.iter().all(|m| pieces[m.3].gap < 2) {
            continue;
        }
        let before = |at: usize, spaces: &[usize]| {
            let start = lines.iter().rfind(|l| l.0 <= at).map_or(0, |l| l.0);
            let own =
                |k: usize| width(pieces[k].text) + if k == start { layout.columns[start] } else { spaces[k] };
            (start..at).map(own).sum::<usize>()
        };
        let is_comment = group[0].1 == Kind::LineComment;
        let gap = group.iter().map(|m| pieces[m.3].gap).min().filter(|_| is_comment).unwrap_or(1);
        let target = group.iter().map(|m| before(m.3, spaces) + gap).max().unwrap_or(0);
        for m in group {
            spaces[m.3] = target - before(m.3, spaces);
        }
    }
}

/// Pieces of one class may form a column: operands, or pieces of the same kind.
fn class(kind: Kind) -> Kind {
    match kind {
        Kind::Token(T::Int | T::Float | T::String | T::Char | T::Minus | T::LParen) => Kind::Token(T::Ident),
        kind => kind,
    }
}
