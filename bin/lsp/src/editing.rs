//! Answers requests of someone who types: completion, signatures, changes of the program, folding.

use ide::{CompletionKind, FoldKind, SignatureText};
use lsp_types::{
    CodeActionParams, CompletionItem, CompletionItemKind, CompletionParams, CompletionResponse,
    Documentation, FoldingRange, FoldingRangeKind, FoldingRangeParams, InsertTextFormat, MarkupContent,
    MarkupKind, NumberOrString, ParameterInformation, ParameterLabel, SignatureHelp, SignatureHelpParams,
    SignatureInformation,
};
use serde_json::{Map, Value, json};
use syntax::{Sources, Span};

use crate::Server;

fn markdown(value: String) -> Documentation {
    Documentation::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value })
}

impl Server {
    pub(crate) fn completion(&mut self, params: CompletionParams) -> Option<CompletionResponse> {
        let at = params.text_document_position;
        let offset = self.offset(&at)?;
        let document = self.documents.get(&at.text_document.uri)?;
        let options = self.documents.options();
        let found = ide::complete(&options, &document.path, &document.text, offset as usize).ok()?;
        let has_snippets = self.client.has_snippets;
        let items = found.into_iter().map(|c| CompletionItem {
            kind: Some(match c.kind {
                CompletionKind::Function => CompletionItemKind::FUNCTION,
                CompletionKind::Field => CompletionItemKind::FIELD,
                CompletionKind::Variable => CompletionItemKind::VARIABLE,
                CompletionKind::Type => CompletionItemKind::STRUCT,
                CompletionKind::Namespace => CompletionItemKind::MODULE,
                CompletionKind::EnumCase => CompletionItemKind::ENUM_MEMBER,
                CompletionKind::Property | CompletionKind::Attribute => CompletionItemKind::PROPERTY,
                CompletionKind::Keyword => CompletionItemKind::KEYWORD,
            }),
            detail: (!c.detail.is_empty()).then_some(c.detail),
            documentation: c.documentation.map(markdown),
            sort_text: Some(format!("{}{}", c.rank, c.label)),
            insert_text_format: c
                .snippet
                .is_some()
                .then_some(InsertTextFormat::SNIPPET)
                .filter(|_| has_snippets),
            insert_text: c.snippet.filter(|_| has_snippets),
            label: c.label,
            ..CompletionItem::default()
        });
        Some(CompletionResponse::Array(items.collect()))
    }

    pub(crate) fn signature_help(&mut self, params: SignatureHelpParams) -> Option<SignatureHelp> {
        let at = params.text_document_position_params;
        let offset = self.offset(&at)?;
        let document = self.documents.get(&at.text_document.uri)?;
        let options = self.documents.options();
        let found = ide::signature_help(&options, &document.path, &document.text, offset as usize).ok()??;
        let signature = |s: SignatureText| {
            let parameter = |&(start, end): &(u32, u32)| ParameterInformation {
                label: ParameterLabel::Simple(s.text[start as usize..end as usize].to_string()),
                documentation: None,
            };
            SignatureInformation {
                parameters: Some(s.params.iter().map(parameter).collect()),
                documentation: s.documentation.clone().map(markdown),
                label: s.text.clone(),
                active_parameter: None,
            }
        };
        Some(SignatureHelp {
            signatures: found.signatures.into_iter().map(signature).collect(),
            active_signature: Some(found.active as u32),
            active_parameter: Some(found.argument as u32),
        })
    }

    pub(crate) fn actions(&mut self, params: CodeActionParams) -> Option<Value> {
        let uri = params.text_document.uri;
        let encoding = self.encoding;
        let text = self.documents.get(&uri)?.text.clone();
        let offsets = |range: lsp_types::Range| {
            let start = encoding.offset(&text, range.start) as u32;
            (start, (encoding.offset(&text, range.end) as u32).max(start))
        };
        let diagnostics: Vec<(String, u32, u32)> = params
            .context
            .diagnostics
            .iter()
            .filter_map(|d| {
                let Some(NumberOrString::String(code)) = &d.code else { return None };
                let (start, end) = offsets(d.range);
                Some((code.clone(), start, end))
            })
            .collect();
        let (start, end) = offsets(params.range);
        let analysis = self.documents.analysis(&uri)?;
        let actions = analysis.actions(start, end, &diagnostics);
        let files: Vec<_> = analysis.sources().files.clone();
        let mut shown = Vec::new();
        for action in actions {
            let mut changes: Map<String, Value> = Map::new();
            for (span, new_text) in &action.edits {
                let file = files.get(span.file.0 as usize)?;
                let uri = self.documents.uri(std::path::Path::new(&file.path))?;
                let edit = json!({ "range": encoding.range(file, *span), "newText": new_text });
                if let Value::Array(edits) = changes.entry(uri.as_str()).or_insert_with(|| json!([])) {
                    edits.push(edit);
                }
            }
            let kind = if action.fixes.is_some() { "quickfix" } else { "refactor.rewrite" };
            let mut value = json!({ "title": action.title, "kind": kind, "edit": { "changes": changes } });
            let fixed = action.fixes.and_then(|f| diagnostics.iter().position(|d| *d == f));
            if let Some(diagnostic) = fixed.and_then(|k| params.context.diagnostics.get(k)) {
                value["diagnostics"] = json!([diagnostic]);
            }
            shown.push(value);
        }
        Some(Value::Array(shown))
    }

    pub(crate) fn folds(&mut self, params: FoldingRangeParams) -> Option<Vec<FoldingRange>> {
        let document = self.documents.get(&params.text_document.uri)?;
        let mut sources = Sources::default();
        let file = sources.add("", document.text.clone());
        let fold = |fold: ide::Fold| {
            let range =
                self.encoding.range(&sources.files[0], Span { file, start: fold.start, end: fold.end });
            // The line of a closing bracket stays visible.
            let end_line = match fold.kind {
                FoldKind::Code => range.end.line.saturating_sub(1).max(range.start.line),
                FoldKind::Comment | FoldKind::Imports | FoldKind::Region => range.end.line,
            };
            FoldingRange {
                start_line: range.start.line,
                end_line,
                kind: match fold.kind {
                    FoldKind::Code => None,
                    FoldKind::Comment => Some(FoldingRangeKind::Comment),
                    FoldKind::Imports => Some(FoldingRangeKind::Imports),
                    FoldKind::Region => Some(FoldingRangeKind::Region),
                },
                ..FoldingRange::default()
            }
        };
        let folds = ide::folds(&document.text).into_iter().map(fold);
        Some(folds.filter(|fold| fold.start_line < fold.end_line).collect())
    }
}
