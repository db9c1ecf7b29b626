//! Holds the open documents of the editor and the analyses of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use driver::session::FileOptions;
use ide::{Analysis, Highlighter};
use lsp_types::{SemanticToken, TextDocumentContentChangeEvent, Uri};

use crate::position::Encoding;
use crate::uri::{to_path, to_uri};

/// The open documents.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    /// How files are read.
    options: FileOptions,
    open: Vec<Document>,
}

/// An open document.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) uri: Uri,
    pub(crate) path: PathBuf,
    pub(crate) text: Arc<str>,
    pub(crate) version: i32,
    /// The analysis of this text in the context of the other documents.
    analysis: Option<Analysis>,
    pub(crate) highlighter: Highlighter,
    /// The tokens that were sent last, and their number.
    pub(crate) sent: (u64, Vec<SemanticToken>),
}

impl Documents {
    pub(crate) fn configure(&mut self, options: FileOptions) {
        self.options = options;
        self.forget();
    }

    /// Opens a document, or replaces its text.
    pub(crate) fn set(&mut self, uri: Uri, version: i32, text: String) {
        self.forget();
        let text: Arc<str> = text.into();
        match self.open.iter_mut().find(|d| d.uri == uri) {
            Some(document) => {
                document.text = text;
                document.version = version;
            }
            None => {
                let path = to_path(uri.as_str());
                let (highlighter, sent) = (Highlighter::default(), (0, Vec::new()));
                self.open.push(Document { uri, path, text, version, analysis: None, highlighter, sent });
            }
        }
    }

    /// Carries out changes of a document, one after the other.
    pub(crate) fn change(
        &mut self,
        uri: &Uri,
        version: i32,
        changes: Vec<TextDocumentContentChangeEvent>,
        encoding: Encoding,
    ) {
        let Some(document) = self.open.iter().find(|d| d.uri == *uri) else { return };
        let mut text = document.text.to_string();
        for change in changes {
            match change.range {
                Some(range) => {
                    let start = encoding.offset(&text, range.start);
                    let end = encoding.offset(&text, range.end).max(start);
                    text.replace_range(start..end, &change.text);
                }
                None => text = change.text,
            }
        }
        self.set(uri.clone(), version, text);
    }

    pub(crate) fn close(&mut self, uri: &Uri) {
        self.forget();
        self.open.retain(|d| d.uri != *uri);
    }

    /// Discards all analyses, since a document may import any other.
    pub(crate) fn forget(&mut self) {
        self.open.iter_mut().for_each(|d| d.analysis = None);
    }

    /// The options for reading files, with the texts of the open documents.
    pub(crate) fn options(&self) -> FileOptions {
        let open = self.open.iter().map(|d| (d.path.clone(), d.text.clone())).collect();
        FileOptions { open, ..self.options.clone() }
    }

    /// All open documents.
    pub(crate) fn all(&self) -> &[Document] {
        &self.open
    }

    pub(crate) fn get(&self, uri: &Uri) -> Option<&Document> {
        self.open.iter().find(|d| d.uri == *uri)
    }

    pub(crate) fn get_mut(&mut self, uri: &Uri) -> Option<&mut Document> {
        self.open.iter_mut().find(|d| d.uri == *uri)
    }

    /// The analysis of a document, computed if necessary.
    pub(crate) fn analysis(&mut self, uri: &Uri) -> Option<&mut Analysis> {
        Some(self.analysed(uri)?.0)
    }

    /// The analysis of a document, and what it keeps about the names.
    pub(crate) fn analysed(&mut self, uri: &Uri) -> Option<(&mut Analysis, &mut Highlighter)> {
        let at = self.open.iter().position(|d| d.uri == *uri)?;
        if self.open[at].analysis.is_none() {
            let options = self.options();
            self.open[at].analysis = Analysis::new(&options, &self.open[at].path).ok();
        }
        let document = &mut self.open[at];
        Some((document.analysis.as_mut()?, &mut document.highlighter))
    }

    /// The URI under which the editor knows a file.
    pub(crate) fn uri(&self, path: &Path) -> Option<Uri> {
        match self.open.iter().find(|d| d.path == path) {
            Some(document) => Some(document.uri.clone()),
            None => to_uri(path).parse().ok(),
        }
    }
}
