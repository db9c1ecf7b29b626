//! The style of a text: what the caller asks for, and for the rest what prevails in the text itself.

use syntax::token::TokenKind as T;

use crate::pieces::{Piece, split};
use crate::structure::{Braces, Mark, Role, parse};

/// The unit of indentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indent {
    /// This number of spaces.
    Spaces(usize),
    /// A tab, shown as this number of columns.
    Tab(usize),
}

impl Indent {
    /// The number of columns.
    pub fn columns(self) -> usize {
        match self {
            Indent::Spaces(n) | Indent::Tab(n) => n,
        }
    }
}

/// The place of the brace that opens a block of several lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BraceStyle {
    /// At the end of the header's line (Kernighan and Ritchie).
    SameLine,
    /// On a line of its own (Allman).
    NextLine,
}

/// The style that the caller asks for. A part that is `None` is as it prevails in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The unit of indentation.
    pub indent: Option<Indent>,
    /// The number of columns that a line may have.
    pub max_width: usize,
    /// The place of opening braces.
    pub braces: Option<BraceStyle>,
    /// The largest number of blank lines in a row.
    pub blank_lines: u32,
}

impl Default for Style {
    fn default() -> Style {
        Style { indent: None, max_width: 120, braces: None, blank_lines: 2 }
    }
}

/// A style in which nothing is left open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved {
    pub(crate) indent: Indent,
    pub(crate) max_width: usize,
    pub(crate) blank_lines: u32,
    /// The braces of functions and types.
    pub(crate) definitions: BraceStyle,
    /// The braces of control statements.
    pub(crate) controls: BraceStyle,
    /// `else` follows the brace on its line.
    pub(crate) joined_else: bool,
    /// `case` is indented within its `switch`.
    pub(crate) indented_cases: bool,
    /// Lines break after operators, not before them.
    pub(crate) trailing_operators: bool,
}

impl Style {
    /// Decides what is left open by the text.
    pub(crate) fn resolve(&self, text: &str) -> Resolved {
        let pieces = split(text, self.indent.map_or(4, Indent::columns).max(1));
        let marks = parse(&pieces);
        let indent = self.indent.unwrap_or_else(|| indent(text, &pieces, &marks));
        let indent = match indent {
            Indent::Spaces(n) => Indent::Spaces(n.clamp(1, 16)),
            Indent::Tab(n) => Indent::Tab(n.clamp(1, 16)),
        };
        let mut votes = Votes::default();
        for at in 1..pieces.len() {
            votes.count(&pieces, &marks, at);
        }
        let prevalent = |[same, next]: [u32; 2]| match self.braces {
            Some(style) => style,
            None if same > next => BraceStyle::SameLine,
            None => BraceStyle::NextLine,
        };
        let other = |own: [u32; 2], other| if own == [0, 0] { other } else { own };
        let definitions = prevalent(other(votes.definitions, votes.controls));
        let controls = prevalent(other(votes.controls, votes.definitions));
        let joined_else = match votes.elses {
            [same, next] if same != next && self.braces.is_none() => same > next,
            _ => controls == BraceStyle::SameLine,
        };
        Resolved {
            indent,
            max_width: self.max_width.max(20),
            blank_lines: self.blank_lines,
            definitions,
            controls,
            joined_else,
            indented_cases: votes.cases[1] > votes.cases[0],
            trailing_operators: votes.operators[0] >= votes.operators[1],
        }
    }
}

#[derive(Default)]
struct Votes {
    definitions: [u32; 2],
    controls: [u32; 2],
    elses: [u32; 2],
    cases: [u32; 2],
    operators: [u32; 2],
}

impl Votes {
    fn count(&mut self, pieces: &[Piece], marks: &[Mark], at: usize) {
        let (piece, mark) = (&pieces[at], &marks[at]);
        let is_line = usize::from(piece.newlines > 0);
        let ends_line = pieces.get(at + 1).is_none_or(|n| n.newlines > 0 || n.is_comment());
        let follows = pieces[at - 1].is_token() && !marks[at - 1].ends;
        match mark.braces {
            Some(braces) if piece.is(T::LBrace) && ends_line && follows => match braces {
                Braces::Control | Braces::Switch => self.controls[is_line] += 1,
                Braces::Definition | Braces::Namespace | Braces::Enum => self.definitions[is_line] += 1,
                Braces::Free | Braces::Values => {}
            },
            _ => {}
        }
        if piece.is_word("else") && pieces[at - 1].is(T::RBrace) {
            self.elses[is_line] += 1;
        }
        if mark.role == Role::Binary && !matches!(piece.token(), Some(T::Eq | T::FatArrow)) {
            self.operators[0] += u32::from(is_line == 0 && ends_line);
            self.operators[1] += is_line as u32;
        }
        if mark.braces == Some(Braces::Switch)
            && piece.is(T::LBrace)
            && let Some(close) = mark.partner
            && let Some(case) = pieces.get(at + 1).filter(|c| c.newlines > 0)
        {
            self.cases[usize::from(case.column > pieces[close].column)] += 1;
        }
    }
}

/// The indentation that most blocks have.
fn indent(text: &str, pieces: &[Piece], marks: &[Mark]) -> Indent {
    let tabs = text.lines().filter(|line| line.starts_with('\t')).count();
    let spaces = text.lines().filter(|line| line.starts_with("  ")).count();
    if tabs > spaces {
        return Indent::Tab(4);
    }
    let mut counts = [0u32; 9];
    for (at, mark) in marks.iter().enumerate() {
        if let (Some(braces), Some(close)) = (mark.braces, mark.partner)
            && close > at
            && !matches!(braces, Braces::Values | Braces::Namespace | Braces::Switch)
            && let Some(inner) = pieces.get(at + 1)
            && inner.newlines > 0
            && inner.column > pieces[close].column
            && pieces[close].newlines > 0
        {
            counts[(inner.column - pieces[close].column).min(8)] += 1;
        }
    }
    let best = [4, 2, 3, 8].into_iter().max_by_key(|&n| (counts[n], n == 4));
    Indent::Spaces(best.filter(|&n| counts[n] > 0).unwrap_or(4))
}
