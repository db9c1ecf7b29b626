//! Produces the tokens for the parser: those of the file, preprocessed if necessary, without malformed ones.
//!
//! A malformed token is diagnosed here, and the text around it counts as *damaged*: there the parser sees
//! other tokens than the user intended, so its errors are consequences of that diagnostic and are suppressed.

use super::MAX_ERRORS;
use crate::ast::*;
use crate::diagnostic::Diagnostic;
use crate::preprocess::{IncludeLoader, Preprocessor};
use crate::source::{FileId, Sources, Span};
use crate::token::{Token, TokenKind, lex};

/// Macros that identify the compiler and the language.
const PREDEFINED: [(&str, &str); 4] =
    [("__SLANG__", "1"), ("__SLANG_COMPILER__", "1"), ("__HLSL__", "0"), ("__HLSL_VERSION", "2018")];

/// The tokens for the parser, without those of `Bad…` kinds; the last is the end of the file. And true for a file with
/// `#version`.
pub(super) fn tokens_of(
    ast: &mut Ast,
    sources: &mut Sources,
    file: FileId,
    loader: &mut dyn IncludeLoader,
    defines: &[(String, String)],
    diagnostics: &mut Vec<Diagnostic>,
) -> (Vec<Token>, bool) {
    let text = sources.files.get(file.0 as usize).map_or_else(|| "".into(), |f| f.text.clone());
    let lexed = lex(&mut ast.symbols, file, &text);
    let mut tokens = lexed.tokens;
    let (mut has_bad, mut has_version) = (lexed.has_bad, false);
    if lexed.needs_preprocessing || !defines.is_empty() {
        let eof = tokens[tokens.len() - 1];
        let mut preprocessor = Preprocessor::new(ast, sources, diagnostics, loader);
        preprocessor.out.reserve(tokens.len());
        for (name, value) in PREDEFINED {
            if !defines.iter().any(|d| d.0 == name) {
                preprocessor.predefine(file, name, value);
            }
        }
        for (name, value) in defines {
            preprocessor.predefine(file, name, value);
        }
        preprocessor.file(&tokens);
        preprocessor.end_pragmas();
        (tokens, has_version) = (preprocessor.out, preprocessor.has_version);
        tokens.push(eof);
        has_bad = true;
    }
    if has_bad {
        tokens.retain_mut(|token| report_bad(&mut ast.symbols, token, diagnostics));
    }
    (tokens, has_version)
}

/// Reports a malformed token; returns false if the parser must not see it. An unterminated literal is
/// terminated, so that no further errors are reported for it.
fn report_bad(symbols: &mut Symbols, token: &mut Token, diagnostics: &mut Vec<Diagnostic>) -> bool {
    let error = match token.kind {
        TokenKind::BadString => {
            let character = symbols.name(token.symbol).starts_with('\'');
            let what = if character { "character" } else { "string" };
            let quote = if character { '\'' } else { '"' };
            token.kind = TokenKind::String;
            token.symbol = symbols.intern("\"\"");
            Diagnostic::error("E0003", token.span, format!("unterminated {what}"))
                .help(format!("add the closing `{quote}` on the same line"))
        }
        TokenKind::BadComment => {
            Diagnostic::error("E0004", token.span, "unterminated comment").help("close it with `*/`")
        }
        TokenKind::BadChar => {
            let text = symbols.name(token.symbol).escape_debug();
            Diagnostic::error("E0005", token.span, format!("unexpected character `{text}`"))
        }
        _ => return true,
    };
    if diagnostics.len() < MAX_ERRORS {
        diagnostics.push(error);
    }
    token.kind == TokenKind::String
}

/// The ranges of damaged text: from a lexical error to the end of its line, or to the end of the file if the
/// error is an unterminated construct.
pub(super) fn damage(sources: &Sources, errors: &[Diagnostic]) -> Vec<Span> {
    let damaged = errors.iter().filter_map(|error| {
        let span = error.primary.span;
        let file = sources.files.get(span.file.0 as usize)?;
        let end = match error.code {
            "E0003" | "E0005" | "E0029" | "E0031" => {
                let next = file.line_starts.partition_point(|&s| s < span.end);
                file.line_starts.get(next).copied().unwrap_or(u32::MAX)
            }
            "E0004" | "E0028" => u32::MAX,
            _ => return None,
        };
        Some(Span { end, ..span })
    });
    damaged.collect()
}
