//! Decides between which pieces there are line ends, and how many.
//!
//! The lines of the source are kept, with these exceptions. Braces stand where the style has them, and what follows a
//! block begins a line; a block that is on one line stays so. Blank lines are kept between statements, up to the
//! number that the style allows, but not at the edges of blocks.

use syntax::token::TokenKind as T;

use crate::pieces::{Kind, Piece};
use crate::structure::{Braces, Mark, Role};
use crate::style::{BraceStyle, Resolved};

/// The number of line ends before each piece. `expanded` has the braces of blocks that no longer fit on one line.
pub(crate) fn breaks(pieces: &[Piece], marks: &[Mark], style: &Resolved, expanded: &[usize]) -> Vec<u32> {
    let lines = one_line(pieces, marks, expanded);
    let mut breaker = Breaker { pieces, marks, style, is_one_line: &lines, label: false };
    (0..pieces.len()).map(|at| breaker.before(at)).collect()
}

/// For each piece, whether it stands inside, or closes, a block that is on one line.
fn one_line(pieces: &[Piece], marks: &[Mark], expanded: &[usize]) -> Vec<bool> {
    let mut out = vec![false; pieces.len()];
    let mut at = 0;
    while at < pieces.len() {
        if let (true, Some(close), Some(_)) = (pieces[at].is(T::LBrace), marks[at].partner, marks[at].braces)
            && marks[at].braces != Some(Braces::Values)
            && close > at
            && !expanded.contains(&at)
            && pieces[at + 1..=close].iter().all(|p| p.newlines == 0 && !matches!(p.kind, Kind::Directive))
        {
            out[at + 1..=close].fill(true);
            at = close;
        }
        at += 1;
    }
    out
}

struct Breaker<'a> {
    pieces: &'a [Piece<'a>],
    marks: &'a [Mark],
    style: &'a Resolved,
    is_one_line: &'a [bool],
    /// The line began with a label.
    label: bool,
}

impl Breaker<'_> {
    fn before(&mut self, at: usize) -> u32 {
        if at == 0 {
            return 0;
        }
        let (previous, piece) = (&self.pieces[at - 1], &self.pieces[at]);
        let (before, mark) = (&self.marks[at - 1], &self.marks[at]);
        let kept = piece.newlines.min(self.style.blank_lines + 1);
        let wanted = self.wanted(at, kept);
        let forced =
            matches!(previous.kind, Kind::LineComment | Kind::Directive) || piece.kind == Kind::Directive;
        let lines = if forced { wanted.max(1) } else { wanted };
        if lines > 0 {
            self.label = false;
        }
        self.label |=
            mark.starts && (piece.is_word("case") || piece.is_word("default")) || before.role == Role::Label;
        lines
    }

    fn wanted(&self, at: usize, kept: u32) -> u32 {
        let (previous, piece) = (&self.pieces[at - 1], &self.pieces[at]);
        let (before, mark) = (&self.marks[at - 1], &self.marks[at]);
        let is_hash = piece.is(T::Hash) || piece.is(T::HashHash);
        if self.is_one_line[at] || is_hash {
            return kept;
        }
        // No blank lines at the edges of a block.
        let is_block = |mark: &Mark| mark.braces.is_some_and(|b| b != Braces::Values);
        let after_open = previous.is(T::LBrace) && is_block(before);
        if piece.is(T::RBrace) && is_block(mark) && mark.partner.is_some() {
            return u32::from(!after_open || kept > 0);
        }
        if after_open && before.partner.is_some() {
            return if piece.is_comment() { kept.min(1) } else { 1 };
        }
        if piece.is_comment() {
            return kept;
        }
        if piece.is(T::LBrace)
            && let Some(braces) = mark.braces
        {
            return self.before_brace(at, braces, kept);
        }
        let closes = previous.is(T::RBrace) && is_block(before) && !self.is_one_line[at - 1];
        if piece.is_word("else") && previous.is(T::RBrace) && mark.starts {
            return match self.is_one_line[at - 1] {
                true => kept.min(1),
                false => u32::from(!self.style.joined_else),
            };
        }
        if closes && piece.is_word("while") && mark.starts && kept == 0 {
            return 0;
        }
        if closes && before.ends {
            return kept.max(1);
        }
        // What follows a block begins a line; short statements may share one.
        let follows = before.ends && mark.starts;
        if follows && !self.label && piece.is_token() && !piece.is(T::Semi) {
            return if previous.is(T::RBrace) { kept.max(1) } else { kept };
        }
        kept
    }

    fn before_brace(&self, at: usize, braces: Braces, kept: u32) -> u32 {
        let previous = &self.pieces[at - 1];
        let is_joined = match braces {
            Braces::Values => return kept,
            Braces::Free => {
                let starts = self.marks[at - 1].ends && self.marks[at - 1].role != Role::Label
                    || previous.is(T::LBrace);
                return if starts { kept.max(1) } else { kept };
            }
            Braces::Control | Braces::Switch => self.style.controls == BraceStyle::SameLine,
            Braces::Definition | Braces::Namespace | Braces::Enum => {
                self.style.definitions == BraceStyle::SameLine
            }
        };
        let content = self.is_one_line.get(at + 1).copied().unwrap_or(false);
        let is_empty = self.pieces.get(at + 1).is_some_and(|p| p.is(T::RBrace) && p.newlines == 0);
        if content || is_empty || self.marks[at].partner.is_none() || previous.is(T::FatArrow) {
            return kept.min(1);
        }
        // A lambda in an argument keeps its layout.
        if !previous.is_token() || !self.follows_header(at) {
            return kept.min(1);
        }
        u32::from(!is_joined)
    }

    /// Returns true if the brace is not within parentheses.
    fn follows_header(&self, at: usize) -> bool {
        let mut k = at;
        while k > 0 {
            k -= 1;
            let piece = &self.pieces[k];
            if !piece.is_token() {
                continue;
            }
            if self.marks[k].starts && !piece.is(T::LBracket) || self.marks[k].ends {
                return true;
            }
            match (piece.token(), self.marks[k].partner) {
                (Some(T::RParen | T::RBracket | T::RBrace), Some(open)) if open < k => {
                    if self.marks[open].starts {
                        return true;
                    }
                    k = open;
                }
                (Some(T::LParen | T::LBracket | T::LBrace), _) => return piece.is(T::LBrace),
                _ => {}
            }
        }
        true
    }
}
