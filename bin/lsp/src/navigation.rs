//! Answers requests about what names refer to: hover, definitions, references, renaming and outlines.

use std::path::{Path, PathBuf};

use ide::{Reference, SymbolKind, SymbolNode, Target};
use lsp_types::{
    DocumentHighlight, DocumentHighlightKind, DocumentHighlightParams, DocumentSymbol, DocumentSymbolParams,
    DocumentSymbolResponse, GotoDefinitionParams, GotoDefinitionResponse, Hover, HoverContents, HoverParams,
    Location, MarkupContent, MarkupKind, PrepareRenameResponse, Range, ReferenceParams, RenameParams,
    SymbolInformation, TextDocumentPositionParams, Uri, WorkspaceSymbolParams,
};
use serde_json::{Map, Value, json};
use syntax::{SourceFile, Sources, Span};

use crate::position::Encoding;
use crate::{Server, core_files};

/// The maximum number of symbols of the workspace in an answer.
const MAX_SYMBOLS: usize = 500;

impl Server {
    pub(crate) fn offset(&self, at: &TextDocumentPositionParams) -> Option<u32> {
        let document = self.documents.get(&at.text_document.uri)?;
        Some(self.encoding.offset(&document.text, at.position) as u32)
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
        let (encoding, has_virtual_documents) = (self.encoding, self.client.has_virtual_documents);
        let analysis = self.documents.analysis(&at.text_document.uri)?;
        let span = analysis.definition(offset)?;
        let file = analysis.sources().files.get(span.file.0 as usize)?;
        let range = encoding.range(file, span);
        let path = analysis.path(span.file)?;
        let uri = if !analysis.is_library_file(span.file) {
            self.documents.uri(&path)?
        } else if has_virtual_documents {
            core_files::virtual_uri(&path).parse().ok()?
        } else {
            let copy = core_files::copy(&path, &file.text)?;
            self.documents.uri(&copy)?
        };
        Some(GotoDefinitionResponse::Scalar(Location { uri, range }))
    }

    /// The declaration at a position.
    fn target(&mut self, at: &TextDocumentPositionParams) -> Option<(Target, bool)> {
        let offset = self.offset(at)?;
        let analysis = self.documents.analysis(&at.text_document.uri)?;
        let target = analysis.target(offset)?;
        let is_library = analysis.is_library(&target);
        Some((target, is_library))
    }

    /// The files in which a declaration may be used: those of the workspace, and what is open.
    fn roots(&mut self, target: &Target, document: &Uri) -> Vec<PathBuf> {
        let own = self.documents.get(document).map(|d| d.path.clone());
        if target.is_local {
            return own.into_iter().collect();
        }
        let mut roots: Vec<PathBuf> = own.into_iter().collect();
        let open: Vec<(PathBuf, String)> =
            self.documents.all().iter().map(|d| (d.path.clone(), d.text.to_string())).collect();
        for (path, text) in open.iter().chain(self.workspace.files()) {
            let is_open = open.iter().find(|o| o.0 == *path).map(|o| &o.1);
            if !roots.contains(path) && is_open.unwrap_or(text).contains(&target.name) {
                roots.push(path.clone());
            }
        }
        roots
    }

    pub(crate) fn references(&mut self, params: ReferenceParams) -> Option<Vec<Location>> {
        let at = params.text_document_position;
        let (target, _) = self.target(&at)?;
        let roots = self.roots(&target, &at.text_document.uri);
        let found = ide::references(&self.documents.options(), &roots, &target).ok()?;
        let wanted = |f: &&Reference| params.context.include_declaration || !f.is_declaration;
        Some(found.iter().filter(wanted).filter_map(|f| self.location(f)).collect())
    }

    fn location(&self, reference: &Reference) -> Option<Location> {
        let uri = self.documents.uri(&reference.path)?;
        Some(Location { uri, range: self.range_in(&reference.path, reference.start, reference.end)? })
    }

    /// The range of two offsets of a file.
    fn range_in(&self, path: &Path, start: u32, end: u32) -> Option<Range> {
        let text = match self.documents.all().iter().find(|d| d.path == path) {
            Some(document) => document.text.to_string(),
            None => std::fs::read_to_string(path).ok()?,
        };
        let mut sources = Sources::default();
        let file = sources.add(path.display().to_string(), text);
        Some(self.encoding.range(&sources.files[0], Span { file, start, end }))
    }

    pub(crate) fn highlights(&mut self, params: DocumentHighlightParams) -> Option<Vec<DocumentHighlight>> {
        let at = params.text_document_position_params;
        let (target, _) = self.target(&at)?;
        let encoding = self.encoding;
        let path = self.documents.get(&at.text_document.uri)?.path.clone();
        let analysis = self.documents.analysis(&at.text_document.uri)?;
        let found = analysis.references(&target);
        let sources = analysis.sources();
        let file = sources.files.iter().position(|file| Path::new(&file.path) == path)?;
        let highlight = |f: &Reference| {
            let span = Span { file: syntax::FileId(file as u32), start: f.start, end: f.end };
            let kind = if f.is_write { DocumentHighlightKind::WRITE } else { DocumentHighlightKind::READ };
            DocumentHighlight { range: encoding.range(&sources.files[file], span), kind: Some(kind) }
        };
        Some(found.iter().filter(|f| f.path == path).map(highlight).collect())
    }

    pub(crate) fn prepare_rename(&mut self, at: TextDocumentPositionParams) -> Option<PrepareRenameResponse> {
        let offset = self.offset(&at)?;
        let (target, is_library) = self.target(&at)?;
        if is_library {
            return None;
        }
        let document = self.documents.get(&at.text_document.uri)?;
        let (path, text) = (document.path.clone(), document.text.clone());
        // The name at the cursor, which is a use of the declaration.
        let is_part = |c: char| c == '_' || c.is_alphanumeric();
        let before = text.get(..offset as usize)?;
        let start = before
            .rfind(|c| !is_part(c))
            .map_or(0, |n| n + before[n..].chars().next().map_or(1, char::len_utf8));
        let end = start + target.name.len();
        if text.get(start..end)? != target.name {
            return None;
        }
        let range = self.range_in(&path, start as u32, end as u32)?;
        Some(PrepareRenameResponse::RangeWithPlaceholder { range, placeholder: target.name })
    }

    pub(crate) fn rename(&mut self, params: RenameParams) -> Result<Value, String> {
        let at = params.text_document_position;
        let nothing = || "there is nothing to rename here".to_string();
        let (target, is_library) = self.target(&at).ok_or_else(nothing)?;
        if is_library {
            return Err(format!("`{}` belongs to the core library", target.name));
        }
        let roots = self.roots(&target, &at.text_document.uri);
        let options = self.documents.options();
        let found = ide::rename(&options, &roots, &target, &params.new_name).map_err(|e| e.to_string())?;
        let found = found.map_err(|refusal| refusal.0)?;
        let mut changes: Map<String, Value> = Map::new();
        for reference in &found {
            let Location { uri, range } = self.location(reference).ok_or_else(nothing)?;
            let edit = json!({ "range": range, "newText": params.new_name });
            match changes.entry(uri.as_str()).or_insert_with(|| json!([])) {
                Value::Array(edits) => edits.push(edit),
                _ => return Err(nothing()),
            }
        }
        Ok(json!({ "changes": changes }))
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

    /// The declarations of the workspace whose names contain the letters that are asked for, in their order.
    #[expect(deprecated, reason = "a field that the protocol has replaced has to be given a value")]
    pub(crate) fn workspace_symbols(
        &mut self,
        params: WorkspaceSymbolParams,
    ) -> Option<Vec<SymbolInformation>> {
        let encoding = self.encoding;
        let open: Vec<(PathBuf, String)> =
            self.documents.all().iter().map(|d| (d.path.clone(), d.text.to_string())).collect();
        let closed: Vec<(PathBuf, String)> = self
            .workspace
            .files()
            .iter()
            .filter(|file| !open.iter().any(|o| o.0 == file.0))
            .cloned()
            .collect();
        let mut found = Vec::new();
        for (path, text) in open.into_iter().chain(closed) {
            let Some(uri) = self.documents.uri(&path) else { continue };
            let analysis = self.workspace.outline(&path, text);
            let Some(file) = analysis.sources().files.first() else { continue };
            let mut work: Vec<(SymbolNode, Option<String>)> =
                analysis.symbols().into_iter().rev().map(|node| (node, None)).collect();
            while let Some((node, container)) = work.pop() {
                if found.len() >= MAX_SYMBOLS {
                    return Some(found);
                }
                let children = node.children.iter().rev().cloned();
                work.extend(children.map(|child| (child, Some(node.name.clone()))));
                if is_subsequence(&params.query, &node.name) {
                    found.push(SymbolInformation {
                        kind: kind_of(node.kind),
                        location: Location { uri: uri.clone(), range: encoding.range(file, node.name_span) },
                        name: node.name,
                        tags: None,
                        deprecated: None,
                        container_name: container,
                    });
                }
            }
        }
        Some(found)
    }
}

/// Returns true if the letters of the query occur in the name in their order, in any case.
fn is_subsequence(query: &str, name: &str) -> bool {
    let mut letters = name.chars().flat_map(char::to_lowercase);
    query.chars().flat_map(char::to_lowercase).all(|wanted| letters.any(|letter| letter == wanted))
}

fn kind_of(kind: SymbolKind) -> lsp_types::SymbolKind {
    match kind {
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
    }
}

#[expect(deprecated, reason = "a field that the protocol has replaced has to be given a value")]
fn symbol(encoding: Encoding, file: &SourceFile, node: &SymbolNode) -> DocumentSymbol {
    let children: Vec<DocumentSymbol> = node.children.iter().map(|c| symbol(encoding, file, c)).collect();
    DocumentSymbol {
        name: node.name.clone(),
        detail: (!node.detail.is_empty()).then(|| node.detail.clone()),
        kind: kind_of(node.kind),
        tags: None,
        deprecated: None,
        range: encoding.range(file, node.span),
        selection_range: encoding.range(file, node.name_span),
        children: (!children.is_empty()).then_some(children),
    }
}
