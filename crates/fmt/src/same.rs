//! Checks that two texts differ only in white space.

use std::fmt;

use syntax::token::{Token, TokenKind as T};

use crate::pieces::{Piece, split, tokens};

/// Formatting would have changed the program: a bug of the formatter. The text is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The offset in the original text.
    pub offset: usize,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "formatting would change a token at byte {}; this is a bug of the formatter", self.offset)
    }
}

impl std::error::Error for Changed {}

/// Compares the tokens, comments and directives of two texts.
pub(crate) fn compare(before: &str, after: &str) -> Result<(), Changed> {
    let (old, new) = (tokens(before), tokens(after));
    let text = |t: &Token, of: &'_ str| of[t.span.start as usize..t.span.end as usize].trim_end().to_owned();
    for k in 0..old.len().max(new.len()) {
        let offset = old.get(k).map_or(before.len(), |t| t.span.start as usize);
        let (Some(a), Some(b)) = (old.get(k), new.get(k)) else { return Err(Changed { offset }) };
        // Two `>` that are joined are a shift; a `#` that begins a line, a directive.
        let joins =
            |t: &Token, all: &[Token]| k > 0 && all[k - 1].kind == T::Gt && shifts(t.kind) && t.joined();
        let is_directive = |t: &Token| t.kind == T::Hash && t.at_line_start();
        let same = a.kind == b.kind
            && text(a, before) == text(b, after)
            && joins(a, &old) == joins(b, &new)
            && is_directive(a) == is_directive(b);
        if !same {
            return Err(Changed { offset });
        }
    }
    let (old, new) = (split(before, 4), split(after, 4));
    for k in 0..old.len().max(new.len()) {
        let offset = old.get(k).map_or(before.len(), |p| p.start);
        let same = match (old.get(k), new.get(k)) {
            (Some(a), Some(b)) => a.kind == b.kind && lines(a).eq(lines(b)),
            _ => false,
        };
        if !same {
            return Err(Changed { offset });
        }
    }
    Ok(())
}

fn shifts(kind: T) -> bool {
    matches!(kind, T::Gt | T::Ge | T::ShrEq)
}

fn lines<'a>(piece: &Piece<'a>) -> impl Iterator<Item = &'a str> {
    piece.text.split('\n').map(str::trim_ascii)
}
