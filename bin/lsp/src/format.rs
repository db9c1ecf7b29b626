//! Answers requests for formatting: of a document, of a range, and while the user types.
//!
//! An `.editorconfig` decides the style, as for `pullback fmt`; where it says nothing of indentation, the editor does.

use fmt::{Changed, Edit, Indent, Style};
use lsp_types::{
    DocumentFormattingParams, DocumentOnTypeFormattingParams, DocumentRangeFormattingParams,
    FormattingOptions, Range, TextEdit, Uri,
};

use crate::Server;

impl Server {
    pub(crate) fn formatting(&mut self, params: DocumentFormattingParams) -> Option<Vec<TextEdit>> {
        self.formatted(&params.text_document.uri, &params.options, fmt::edits)
    }

    pub(crate) fn range_formatting(
        &mut self,
        params: DocumentRangeFormattingParams,
    ) -> Option<Vec<TextEdit>> {
        let encoding = self.encoding;
        self.formatted(&params.text_document.uri, &params.options, |text, style| {
            let offset = |position| encoding.offset(text, position);
            let (start, end) = (offset(params.range.start), offset(params.range.end));
            fmt::edits_in(text, style, start.min(end)..end.max(start))
        })
    }

    pub(crate) fn on_type_formatting(
        &mut self,
        params: DocumentOnTypeFormattingParams,
    ) -> Option<Vec<TextEdit>> {
        let encoding = self.encoding;
        let at = params.text_document_position;
        let typed = params.ch.chars().next()?;
        self.formatted(&at.text_document.uri, &params.options, |text, style| {
            fmt::edits_on_type(text, style, encoding.offset(text, at.position), typed)
        })
    }

    /// The edits that `edits` makes of a document, for the editor. A text that the formatter refuses has none.
    fn formatted(
        &self,
        uri: &Uri,
        options: &FormattingOptions,
        edits: impl FnOnce(&str, &Style) -> Result<Vec<Edit>, Changed>,
    ) -> Option<Vec<TextEdit>> {
        let document = self.documents.get(uri)?;
        let text = &document.text[..];
        let mut style = driver::format::style(&document.path).unwrap_or_default();
        let columns = (options.tab_size as usize).max(1);
        let own = if options.insert_spaces { Indent::Spaces(columns) } else { Indent::Tab(columns) };
        style.indent.get_or_insert(own);
        let edits = edits(text, &style).ok()?;
        let mut sources = syntax::Sources::default();
        sources.add("", text);
        let file = sources.files.first()?;
        let position = |offset: usize| self.encoding.position(file, offset as u32);
        let edit = |e: Edit| TextEdit {
            range: Range { start: position(e.range.start), end: position(e.range.end) },
            new_text: e.text,
        };
        Some(edits.into_iter().map(edit).collect())
    }
}
