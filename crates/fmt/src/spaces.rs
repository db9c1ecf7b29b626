//! Decides the spaces between two pieces that stand on one line.

use syntax::token::TokenKind as T;

use crate::pieces::{Kind, Piece, tokens};
use crate::structure::{Braces, Mark, Role, is_before_operand, is_control};

/// The number of spaces before each piece, if it stands on the line of the previous one.
pub(crate) fn spaces(pieces: &[Piece], marks: &[Mark]) -> Vec<usize> {
    let mut out = Vec::with_capacity(pieces.len());
    for at in 0..pieces.len() {
        out.push(if at == 0 { 0 } else { between(pieces, marks, at) });
    }
    out
}

fn between(pieces: &[Piece], marks: &[Mark], at: usize) -> usize {
    let (previous, next) = (&pieces[at - 1], &pieces[at]);
    let kept = usize::from(next.gap > 0 || next.newlines > 0);
    let (Some(p), Some(n)) = (previous.token(), next.token()) else {
        let after_bracket = matches!(previous.token(), Some(T::LParen | T::LBracket));
        return match next.kind {
            // Comments at the ends of lines keep their distance, of at least one space.
            Kind::LineComment => next.gap.max(1),
            Kind::BlockComment if next.newlines == 0 && !after_bracket => next.gap.clamp(1, 2),
            Kind::Token(T::Comma | T::Semi | T::RParen) => 0,
            _ => kept,
        };
    };
    let wanted = match wanted(pieces, marks, at, (p, n)) {
        Wanted::Spaces(n) => n,
        Wanted::Kept => kept,
    };
    // The spaces of a table are kept: `{ 1.0,  0.5 }`.
    if p == T::Comma && wanted == 1 && next.newlines == 0 && next.gap > 1 {
        return next.gap;
    }
    let was_joined = next.gap == 0 && next.newlines == 0;
    if wanted == 0 && !was_joined && !stay_apart(previous.text, next.text) {
        return 1;
    }
    // `> >` is no shift, and `>>` may be one.
    if p == T::Gt && matches!(n, T::Gt | T::Ge | T::ShrEq | T::Eq | T::EqEq) {
        let both = marks[at - 1].role == Role::Angle && matches!(n, T::Eq | T::EqEq);
        return if both { 1 } else { kept };
    }
    wanted
}

enum Wanted {
    Spaces(usize),
    Kept,
}

fn wanted(pieces: &[Piece], marks: &[Mark], at: usize, (p, n): (T, T)) -> Wanted {
    use Wanted::{Kept, Spaces};
    let (before, after) = (&marks[at - 1], &marks[at]);
    let (previous, next) = (&pieces[at - 1], &pieces[at]);
    if before.role == Role::Name || after.role == Role::Name {
        return if after.role == Role::Name || n == T::LParen { Spaces(0) } else { Kept };
    }
    let values = |mark: &Mark| mark.braces == Some(Braces::Values);
    match (p, n) {
        (T::LBrace, T::RBrace) => return Spaces(0),
        (T::LBrace, _) => return if values(before) { Kept } else { Spaces(1) },
        (_, T::RBrace) => return if values(after) { Kept } else { Spaces(1) },
        (_, T::Comma) => return Spaces(0),
        (T::Semi, T::Semi | T::RParen) => return Spaces(0),
        (_, T::Semi) => return Spaces(usize::from(p == T::LParen && next.gap > 0)),
        (T::Comma, T::RParen | T::RBracket) => return Spaces(0),
        (T::Comma | T::Semi, _) => return Spaces(1),
        (T::LParen | T::LBracket, _) | (_, T::RParen | T::RBracket) => return Spaces(0),
        (_, T::LBrace) => {
            return if p == T::Ident && values(after) && previous.text != "return" {
                Kept
            } else {
                Spaces(1)
            };
        }
        (T::RBrace, T::Dot | T::LParen) => return Spaces(0),
        (T::RBrace, T::LBracket) if after.role != Role::Attribute => return Spaces(0),
        (T::RBrace, _) => return Spaces(1),
        (T::Dot | T::ColonColon, T::Ident) => return Spaces(0),
        (_, T::Dot) => return Spaces(0),
        (_, T::ColonColon) if p == T::Ident && !is_before_operand(previous.text) => return Spaces(0),
        (T::Arrow, _) | (_, T::Arrow) => return Kept,
        _ => {}
    }
    match (before.role, after.role) {
        (Role::Binary | Role::Choice, _) | (_, Role::Binary | Role::Choice) => return Spaces(1),
        (_, Role::Postfix) => return Spaces(0),
        (Role::Prefix, _) => return Spaces(0),
        (_, Role::Label) => return Spaces(0),
        (Role::Label, _) => return Spaces(1),
        (Role::Either, _) if p == T::Colon => return Spaces(1),
        (Role::Either, _) | (_, Role::Either) => return Kept,
        (Role::Cast, _) => return Kept,
        (Role::Header, _) => return Spaces(1),
        (Role::Attribute, Role::Attribute) => return Kept,
        (Role::Attribute, _) => return Spaces(1),
        (_, Role::Angle) => return Spaces(0),
        _ => {}
    }
    match (p, n) {
        (T::Gt, T::LParen | T::LBracket | T::Gt) if before.role == Role::Angle => Spaces(0),
        (T::Lt, _) if before.role == Role::Angle => Spaces(0),
        (T::Gt, _) if before.role == Role::Angle => {
            if n == T::Ident {
                Spaces(1)
            } else {
                Kept
            }
        }
        (T::Ident, T::LParen | T::LBracket) => {
            let word = previous.text;
            let apart = is_control(word) || is_before_operand(word) && word != "out";
            if matches!(word, "functype" | "let" | "some" | "struct" | "class" | "enum") {
                Kept
            } else {
                Spaces(usize::from(apart))
            }
        }
        (T::RParen | T::RBracket, T::LParen | T::LBracket) => Kept,
        (_, T::LBracket) if after.role == Role::Attribute => Kept,
        (T::Ident | T::Int | T::Float, T::Ident | T::Int | T::Float | T::String | T::Char) => Spaces(1),
        (T::RBracket, T::Ident) => Spaces(1),
        (_, T::Hash | T::HashHash | T::At | T::Dollar | T::Backslash) => Kept,
        _ => Kept,
    }
}

/// Returns true if two texts are lexed as the same two tokens when nothing separates them.
fn stay_apart(a: &str, b: &str) -> bool {
    let found = tokens(&format!("{a}{b}"));
    found.len() == 3 && found[0].span.end as usize == a.len()
}
