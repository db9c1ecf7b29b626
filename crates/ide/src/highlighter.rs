//! Keeps the classes of names from one version of a file to the next, by declaration.

use rustc_hash::FxHashMap;
use syntax::Span;
use syntax::ast::DeclKind;

use crate::units::Units;
use crate::{Analysis, Token, TokenKind, TokenModifier};

/// If more declarations than this are new, all names of the file are classified together.
const FEW: usize = 4;

/// The classes of the names in each declaration, with offsets from its start, by the key of what they depend on.
#[derive(Debug, Default)]
pub struct Highlighter {
    known: FxHashMap<u64, Vec<Token>>,
}

impl Highlighter {
    /// The names of the whole file, in order.
    pub fn tokens(&mut self, analysis: &mut Analysis) -> Vec<Token> {
        let units = Units::of(analysis);
        let own: Vec<(u64, Span)> = units
            .all
            .iter()
            .filter(|unit| unit.span.file == analysis.file)
            .map(|unit| (unit.shallow, unit.span))
            .collect();
        let missing: Vec<(u64, Span)> =
            own.iter().filter(|unit| !self.known.contains_key(&unit.0)).copied().collect();
        if missing.len() > FEW {
            let len =
                analysis.session.sources.files.get(analysis.file.0 as usize).map_or(0, |f| f.text.len());
            let all = analysis.tokens(0, len as u32);
            for &(key, span) in &missing {
                let first = all.partition_point(|token| token.span.start < span.start);
                let inside = all[first..].iter().take_while(|token| token.span.end <= span.end);
                self.known.insert(key, inside.map(|&token| relative(token, span)).collect());
            }
        } else {
            for &(key, span) in &missing {
                let found = analysis.tokens(span.start, span.end);
                self.known.insert(key, found.into_iter().map(|token| relative(token, span)).collect());
            }
        }
        let mut tokens = namespaces(analysis);
        for (key, span) in &own {
            let known = self.known.get(key).map_or(&[][..], Vec::as_slice);
            tokens.extend(known.iter().map(|&token| {
                let (start, end) = (token.span.start + span.start, token.span.end + span.start);
                Token { span: Span { file: span.file, start, end }, ..token }
            }));
        }
        if self.known.len() > 2 * own.len() + 1000 {
            let used: rustc_hash::FxHashSet<u64> = own.iter().map(|unit| unit.0).collect();
            self.known.retain(|key, _| used.contains(key));
        }
        tokens.sort_by_key(|token| token.span.start);
        tokens.dedup_by_key(|token| token.span.start);
        tokens
    }
}

fn relative(token: Token, unit: Span) -> Token {
    let span = Span { start: token.span.start - unit.start, end: token.span.end - unit.start, ..unit };
    Token { span, ..token }
}

/// The names of namespaces, which contain declarations and are none that is checked.
fn namespaces(analysis: &Analysis) -> Vec<Token> {
    let decls = analysis.program.ast.decls.values();
    decls
        .filter(|d| d.name_span.file == analysis.file && matches!(d.kind, DeclKind::Namespace { .. }))
        .filter(|d| analysis.text(d.name_span) == analysis.program.ast.name(d.name))
        .map(|d| Token {
            span: d.name_span,
            kind: TokenKind::Namespace,
            modifiers: 1 << TokenModifier::Declaration as u32,
        })
        .collect()
}
