//! Answers the editor's requests: each is forwarded to `ide`, and the result is converted to protocol types.

use ide::{CompletionKind, SymbolKind, SymbolNode};
use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionParams, CompletionResponse, DocumentSymbol,
    DocumentSymbolParams, DocumentSymbolResponse, GotoDefinitionParams, GotoDefinitionResponse, Hover,
    HoverContents, HoverParams, Location, MarkupContent, MarkupKind, TextDocumentPositionParams,
};
use syntax::SourceFile;

use crate::Server;
use crate::position::Encoding;

impl Server {
    fn offset(&self, at: &TextDocumentPositionParams) -> Option<u32> {
        let (_, text) = self.documents.text(&at.text_document.uri)?;
        Some(self.encoding.offset(text, at.position) as u32)
    }

    pub(crate) fn hover(&mut self, params: HoverParams) -> Option<Hover> {
        let at = params.text_document_position_params;
        let offset = self.offset(&at)?;
        let encoding = self.encoding;
        let analysis = self.documents.analysis(&at.text_document.uri)?;
        let hover = analysis.hover(offset)?;
        let file = analysis.sources().files.get(hover.span.file.0 as usize)?;
        Some(Hover {
            range: Some(encoding.range(file, hover.span)),
            contents: HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value: hover.text }),
        })
    }

    pub(crate) fn definition(&mut self, params: GotoDefinitionParams) -> Option<GotoDefinitionResponse> {
        let at = params.text_document_position_params;
        let offset = self.offset(&at)?;
        let encoding = self.encoding;
        let analysis = self.documents.analysis(&at.text_document.uri)?;
        let span = analysis.definition(offset)?;
        let file = analysis.sources().files.get(span.file.0 as usize)?;
        let range = encoding.range(file, span);
        let path = analysis.path(span.file)?;
        let uri = self.documents.uri(&path)?;
        Some(GotoDefinitionResponse::Scalar(Location { uri, range }))
    }

    pub(crate) fn completion(&mut self, params: CompletionParams) -> Option<CompletionResponse> {
        let at = params.text_document_position;
        let offset = self.offset(&at)?;
        let (path, text) = self.documents.text(&at.text_document.uri)?;
        let found = ide::complete(&self.documents.options(), path, text, offset as usize).ok()?;
        let items = found.into_iter().map(|c| CompletionItem {
            kind: Some(match c.kind {
                CompletionKind::Function => CompletionItemKind::FUNCTION,
                CompletionKind::Field => CompletionItemKind::FIELD,
                CompletionKind::Variable => CompletionItemKind::VARIABLE,
                CompletionKind::Type => CompletionItemKind::STRUCT,
                CompletionKind::Namespace => CompletionItemKind::MODULE,
                CompletionKind::EnumCase => CompletionItemKind::ENUM_MEMBER,
                CompletionKind::Property => CompletionItemKind::PROPERTY,
                CompletionKind::Keyword => CompletionItemKind::KEYWORD,
            }),
            detail: (!c.detail.is_empty()).then_some(c.detail),
            sort_text: Some(format!("{}{}", c.rank, c.label)),
            label: c.label,
            ..CompletionItem::default()
        });
        Some(CompletionResponse::Array(items.collect()))
    }

    pub(crate) fn symbols(&mut self, params: DocumentSymbolParams) -> Option<DocumentSymbolResponse> {
        let encoding = self.encoding;
        let analysis = self.documents.analysis(&params.text_document.uri)?;
        let nodes = analysis.symbols();
        let sources = analysis.sources();
        let convert = |node: &SymbolNode| {
            let file = sources.files.get(node.span.file.0 as usize)?;
            Some(symbol(encoding, file, node))
        };
        Some(DocumentSymbolResponse::Nested(nodes.iter().filter_map(convert).collect()))
    }
}

#[expect(deprecated, reason = "a field that the protocol has replaced has to be given a value")]
fn symbol(encoding: Encoding, file: &SourceFile, node: &SymbolNode) -> DocumentSymbol {
    let children: Vec<DocumentSymbol> = node.children.iter().map(|c| symbol(encoding, file, c)).collect();
    DocumentSymbol {
        name: node.name.clone(),
        detail: (!node.detail.is_empty()).then(|| node.detail.clone()),
        kind: match node.kind {
            SymbolKind::Function => lsp_types::SymbolKind::FUNCTION,
            SymbolKind::Method => lsp_types::SymbolKind::METHOD,
            SymbolKind::Constructor => lsp_types::SymbolKind::CONSTRUCTOR,
            SymbolKind::Struct => lsp_types::SymbolKind::STRUCT,
            SymbolKind::Interface => lsp_types::SymbolKind::INTERFACE,
            SymbolKind::Enum => lsp_types::SymbolKind::ENUM,
            SymbolKind::EnumCase => lsp_types::SymbolKind::ENUM_MEMBER,
            SymbolKind::Field => lsp_types::SymbolKind::FIELD,
            SymbolKind::Variable => lsp_types::SymbolKind::VARIABLE,
            SymbolKind::Property => lsp_types::SymbolKind::PROPERTY,
            SymbolKind::Namespace => lsp_types::SymbolKind::NAMESPACE,
            SymbolKind::Type => lsp_types::SymbolKind::CLASS,
        },
        tags: None,
        deprecated: None,
        range: encoding.range(file, node.span),
        selection_range: encoding.range(file, node.name_span),
        children: (!children.is_empty()).then_some(children),
    }
}
