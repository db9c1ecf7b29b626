//! Answers requests about what an editor shows with the text: the classes of names, and hints between words.

use ide::{Hint, HintKind, Token};
use lsp_types::{
    InlayHint, InlayHintKind, InlayHintLabel, InlayHintParams, InlayHintTooltip, Range, SemanticToken,
    SemanticTokens, SemanticTokensDelta, SemanticTokensDeltaParams, SemanticTokensEdit, SemanticTokensParams,
    SemanticTokensRangeParams, Uri,
};
use serde_json::{Value, json};
use syntax::SourceFile;

use crate::Server;
use crate::position::Encoding;

impl Server {
    pub(crate) fn tokens(&mut self, params: SemanticTokensParams) -> Option<SemanticTokens> {
        let uri = params.text_document.uri;
        let data = self.all_tokens(&uri)?;
        let document = self.documents.get_mut(&uri)?;
        document.sent = (document.sent.0 + 1, data.clone());
        Some(SemanticTokens { result_id: Some(document.sent.0.to_string()), data })
    }

    /// The changes since the tokens that were sent before; all tokens, if others than those are meant.
    pub(crate) fn tokens_delta(&mut self, params: SemanticTokensDeltaParams) -> Option<Value> {
        let uri = params.text_document.uri;
        let data = self.all_tokens(&uri)?;
        let document = self.documents.get_mut(&uri)?;
        let (number, before) = std::mem::take(&mut document.sent);
        document.sent = (number + 1, data.clone());
        let result_id = Some(document.sent.0.to_string());
        if params.previous_result_id != number.to_string() {
            return Some(json!(SemanticTokens { result_id, data }));
        }
        let start = before.iter().zip(&data).take_while(|(a, b)| a == b).count();
        let rest = before.len().min(data.len()) - start;
        let end = before.iter().rev().zip(data.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
        let new = data[start..data.len() - end].to_vec();
        let removed = before.len() - end - start;
        let edit = SemanticTokensEdit {
            start: 5 * start as u32,
            delete_count: 5 * removed as u32,
            data: Some(new).filter(|new| !new.is_empty()),
        };
        let edits = if removed == 0 && edit.data.is_none() { Vec::new() } else { vec![edit] };
        Some(json!(SemanticTokensDelta { result_id, edits }))
    }

    pub(crate) fn tokens_in_range(&mut self, params: SemanticTokensRangeParams) -> Option<SemanticTokens> {
        let uri = params.text_document.uri;
        let (start, end) = self.offsets(&uri, params.range)?;
        let encoding = self.encoding;
        let analysis = self.documents.analysis(&uri)?;
        let tokens = analysis.tokens(start, end);
        let file = tokens.first().and_then(|t| analysis.sources().files.get(t.span.file.0 as usize));
        Some(SemanticTokens {
            result_id: None,
            data: file.map_or(Vec::new(), |f| relative(encoding, f, &tokens)),
        })
    }

    fn all_tokens(&mut self, uri: &Uri) -> Option<Vec<SemanticToken>> {
        let encoding = self.encoding;
        let (analysis, highlighter) = self.documents.analysed(uri)?;
        let tokens = highlighter.tokens(analysis);
        let file = tokens.first().and_then(|t| analysis.sources().files.get(t.span.file.0 as usize));
        Some(file.map_or(Vec::new(), |file| relative(encoding, file, &tokens)))
    }

    pub(crate) fn offsets(&self, uri: &Uri, range: Range) -> Option<(u32, u32)> {
        let text = &self.documents.get(uri)?.text;
        let start = self.encoding.offset(text, range.start) as u32;
        Some((start, (self.encoding.offset(text, range.end) as u32).max(start)))
    }

    pub(crate) fn hints(&mut self, params: InlayHintParams) -> Option<Vec<InlayHint>> {
        let uri = params.text_document.uri;
        let (start, end) = self.offsets(&uri, params.range)?;
        let (encoding, options) = (self.encoding, self.config.hints);
        let document = self.documents.get(&uri)?;
        let mut sources = syntax::Sources::default();
        let text = document.text.clone();
        sources.add("", text.clone());
        let analysis = self.documents.analysis(&uri)?;
        let mut found = analysis.hints(start, end, options);
        // What the lens of a function has found is shown until the text changes.
        let figures = self.lenses.hints(uri.as_str(), &text);
        let shown = figures.into_iter().filter(|figure| (start..=end).contains(&figure.0));
        found.extend(shown.map(|(offset, text, why)| Hint {
            offset,
            text,
            kind: HintKind::Rounding,
            tooltip: Some(why),
        }));
        let hints = found.into_iter().map(|hint| InlayHint {
            position: encoding.position(&sources.files[0], hint.offset),
            label: InlayHintLabel::String(hint.text),
            kind: match hint.kind {
                HintKind::Parameter => Some(InlayHintKind::PARAMETER),
                HintKind::Type => Some(InlayHintKind::TYPE),
                HintKind::Active | HintKind::Rounding => None,
            },
            text_edits: None,
            tooltip: hint.tooltip.map(InlayHintTooltip::String),
            padding_left: (hint.kind == HintKind::Rounding).then_some(true),
            padding_right: (hint.kind == HintKind::Parameter).then_some(true),
            data: None,
        });
        Some(hints.collect())
    }
}

/// Tokens as the protocol has them: each relative to the one before.
fn relative(encoding: Encoding, file: &SourceFile, tokens: &[Token]) -> Vec<SemanticToken> {
    let mut data = Vec::with_capacity(tokens.len());
    let (mut line, mut column) = (0, 0);
    for token in tokens {
        let start = encoding.position(file, token.span.start);
        let end = encoding.position(file, token.span.end);
        if end.line != start.line || (start.line, start.character) < (line, column) {
            continue;
        }
        let delta_line = start.line - line;
        data.push(SemanticToken {
            delta_line,
            delta_start: if delta_line == 0 { start.character - column } else { start.character },
            length: end.character - start.character,
            token_type: token.kind as u32,
            token_modifiers_bitset: token.modifiers,
        });
        (line, column) = (start.line, start.character);
    }
    data
}
