//! Answers questions about the tokens ahead without building any nodes.
//!
//! Brackets are paired, and the names of types collected, in one pass before parsing. Whether a `<` opens
//! generic arguments is determined on demand, for all `<` up to its end at once. Each answer is cached, so
//! all queries together take time linear in the size of the file.

use rustc_hash::FxHashSet;

use super::{NONE, Parser, Survey};
use crate::ast::*;
use crate::keywords as kw;
use crate::token::{Token, TokenKind};

impl Parser<'_> {
    /// The `>` that closes the `<` at `open`, if the tokens in between can be generic arguments.
    pub(crate) fn angle_close(&mut self, open: usize) -> Option<usize> {
        if let Some(&known) = self.angles.get(&(open as u32)) {
            return known.map(|close| close as usize);
        }
        self.scan_angles(open);
        self.angles.get(&(open as u32)).copied().flatten().map(|close| close as usize)
    }

    /// Classifies the `<` at `open` and all others up to its end.
    fn scan_angles(&mut self, open: usize) {
        // The `<` that are open, each with the number of brackets that were open before it.
        let mut angles: Vec<(u32, usize)> = vec![(open as u32, 0)];
        let mut brackets = 0usize;
        let mut pos = open + 1;
        while let Some(&(top, level)) = angles.last() {
            match self.at(pos).kind {
                TokenKind::Lt => angles.push((pos as u32, brackets)),
                TokenKind::Gt if level == brackets => {
                    self.angles.insert(top, Some(pos as u32));
                    angles.pop();
                }
                TokenKind::LParen | TokenKind::LBracket => brackets += 1,
                TokenKind::RParen | TokenKind::RBracket => {
                    self.drop_angles(&mut angles, brackets);
                    brackets = brackets.saturating_sub(1);
                }
                TokenKind::Eof | TokenKind::Semi | TokenKind::LBrace | TokenKind::RBrace => {
                    self.drop_angles(&mut angles, 0);
                }
                kind if ends_angles(kind) => self.drop_angles(&mut angles, brackets),
                _ => {}
            }
            pos += 1;
        }
    }

    /// Classifies open `<` at this level of brackets or deeper as operators.
    fn drop_angles(&mut self, angles: &mut Vec<(u32, usize)>, level: usize) {
        while let Some(&(top, at)) = angles.last()
            && at >= level
        {
            self.angles.insert(top, None);
            angles.pop();
        }
    }

    /// The position after a type that starts at `pos`, if there can be one.
    pub(crate) fn skip_type(&mut self, mut pos: usize) -> Option<usize> {
        while self.is_type_modifier(self.word_at(pos)) && self.at(pos + 1).kind == TokenKind::Ident {
            pos += 1;
        }
        if self.at(pos).kind == TokenKind::ColonColon {
            pos += 1;
        }
        if self.word_at(pos) == kw::FUNCTYPE && self.at(pos + 1).kind == TokenKind::LParen {
            let close = self.partner(pos + 1)?;
            return if self.at(close + 1).kind == TokenKind::Arrow {
                self.skip_type(close + 2)
            } else {
                None
            };
        }
        if self.at(pos).kind != TokenKind::Ident {
            return None;
        }
        pos += 1;
        if Self::is_pack_query(self.word_at(pos - 1)) && self.at(pos).kind == TokenKind::LParen {
            pos = self.partner(pos)? + 1;
        }
        if self.word_at(pos - 1) == kw::UNSIGNED && self.word_at(pos) == kw::INT {
            pos += 1;
        }
        loop {
            match self.at(pos).kind {
                TokenKind::Dot | TokenKind::ColonColon if self.at(pos + 1).kind == TokenKind::Ident => {
                    pos += 2
                }
                TokenKind::Lt => pos = self.angle_close(pos)? + 1,
                TokenKind::LBracket => pos = self.partner(pos)? + 1,
                TokenKind::Star => pos += 1,
                _ => return Some(pos),
            }
        }
    }

    pub(crate) fn is_type_modifier(&self, word: Symbol) -> bool {
        matches!(
            word,
            kw::CONST
                | kw::NO_DIFF
                | kw::ROW_MAJOR
                | kw::COLUMN_MAJOR
                | kw::UNORM
                | kw::SNORM
                | kw::VOLATILE
                | kw::EACH
                | kw::EXPAND
                | kw::DYN
                | kw::SOME
        )
    }
}

/// Returns true for tokens that never occur in generic arguments outside brackets.
fn ends_angles(kind: TokenKind) -> bool {
    use TokenKind as T;
    match kind {
        T::AndAnd | T::OrOr | T::Question | T::Colon | T::PlusPlus | T::MinusMinus => true,
        T::Hash | T::At | T::Dollar | T::Backslash => true,
        // Assignments, `<=` and `>=`.
        _ => kind.text().ends_with('=') && !matches!(kind, T::EqEq | T::Ne),
    }
}

/// Scans all tokens once: pairs brackets, and collects the names that are declared as types.
pub(super) fn survey(tokens: &[Token]) -> Survey {
    let mut partners = vec![NONE; tokens.len()];
    let mut types = FxHashSet::default();
    let mut open: Vec<(TokenKind, usize)> = Vec::new();
    let mut last_stray = 0;
    for (pos, token) in tokens.iter().enumerate() {
        match token.kind {
            TokenKind::LParen => open.push((TokenKind::RParen, pos)),
            TokenKind::LBracket => open.push((TokenKind::RBracket, pos)),
            TokenKind::LBrace => open.push((TokenKind::RBrace, pos)),
            TokenKind::RParen | TokenKind::RBracket | TokenKind::RBrace => {
                // A brace closes every bracket left open inside it; other brackets only close their own kind.
                let brace = token.kind == TokenKind::RBrace;
                if brace && open.iter().all(|o| o.0 != TokenKind::RBrace) {
                    last_stray = pos;
                }
                while let Some(&(kind, at)) = open.last() {
                    if kind == token.kind {
                        partners[at] = pos as u32;
                        open.pop();
                        break;
                    }
                    if token.kind != TokenKind::RBrace {
                        break;
                    }
                    open.pop();
                }
            }
            TokenKind::Ident => match token.symbol {
                kw::STRUCT | kw::CLASS | kw::ENUM | kw::INTERFACE | kw::TYPEALIAS | kw::ASSOCIATEDTYPE => {
                    let mut next = pos + 1;
                    if token.symbol == kw::ENUM && tokens.get(next).is_some_and(|t| t.symbol == kw::CLASS) {
                        next += 1;
                    }
                    types.extend(tokens.get(next).filter(|t| t.kind == TokenKind::Ident).map(|t| t.symbol));
                }
                kw::TYPEDEF => {
                    let mut rest = tokens[pos..].iter().take(64);
                    if let Some(length) = rest.position(|t| t.kind == TokenKind::Semi) {
                        let name = &tokens[pos + length - 1];
                        types.extend((name.kind == TokenKind::Ident).then_some(name.symbol));
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
    types.remove(&kw::EMPTY);
    Survey { partners, types, last_stray }
}
