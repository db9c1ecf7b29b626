//! Publishes the diagnostics of the open documents, for all files at once.

use std::path::Path;

use ide::Checked;
use lsp_server::{Message, Notification};
use lsp_types::notification::{Notification as _, PublishDiagnostics};
use lsp_types::{
    Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString,
    PublishDiagnosticsParams, Uri,
};
use serde_json::{Value, json};
use syntax::{Severity, Sources, Span};

use crate::position::Encoding;
use crate::uri::to_uri;
use crate::worker::{Job, Named};

/// Sends diagnostics to the editor.
pub(crate) struct Publisher {
    send: crate::Say,
    encoding: Encoding,
    /// The diagnostics that were sent last, for each file that has some.
    published: Vec<(Uri, Vec<Diagnostic>)>,
}

impl Publisher {
    pub(crate) fn new(send: crate::Say, encoding: Encoding) -> Publisher {
        Publisher { send, encoding, published: Vec::new() }
    }

    /// Sends the diagnostics of all open documents. Files without remaining diagnostics get an empty list, and files
    /// that are `partial`ly checked keep silent about what is no error yet: it may only be missing. Returns false if
    /// the editor is gone.
    pub(crate) fn publish(&mut self, job: &Job, checked: &[Checked], partial: bool) -> bool {
        let mut found: Vec<(Uri, Vec<Diagnostic>)> =
            job.documents.iter().map(|document| (document.uri.clone(), Vec::new())).collect();
        for (sources, diagnostics) in checked {
            for diagnostic in diagnostics {
                let Some((uri, shown)) = self.shown(job, sources, diagnostic) else { continue };
                match found.iter_mut().find(|f| f.0 == uri) {
                    Some((_, list)) if list.contains(&shown) => {}
                    Some((_, list)) => list.push(shown),
                    None => found.push((uri, vec![shown])),
                }
            }
        }
        if partial && found.iter().all(|f| f.1.is_empty()) {
            return true;
        }
        for (uri, _) in std::mem::take(&mut self.published) {
            if !found.iter().any(|f| f.0 == uri) {
                found.push((uri, Vec::new()));
            }
        }
        self.published = found.iter().filter(|f| !f.1.is_empty()).cloned().collect();
        for (uri, diagnostics) in found {
            let version = job.documents.iter().find(|d| d.uri == uri).map(|d| d.version);
            let params = PublishDiagnosticsParams { uri, diagnostics, version };
            let said = Notification::new(PublishDiagnostics::METHOD.to_string(), params);
            if (self.send)(Message::Notification(said)).is_err() {
                return false;
            }
        }
        true
    }

    /// Tells the editor that there is no more to come about these versions. An editor may ignore a notification of
    /// this prefix.
    pub(crate) fn say_checked(&self, job: &Job) -> bool {
        let document = |d: &Named| json!({ "uri": d.uri.as_str(), "version": d.version });
        let documents: Vec<Value> = job.documents.iter().map(document).collect();
        let params = json!({ "documents": documents });
        let said = Notification { method: "$/pullback/checked".into(), params };
        (self.send)(Message::Notification(said)).is_ok()
    }

    fn shown(
        &self,
        job: &Job,
        sources: &Sources,
        diagnostic: &syntax::Diagnostic,
    ) -> Option<(Uri, Diagnostic)> {
        let place = self.place(job, sources, diagnostic.primary.span)?;
        let mut message = diagnostic.message.clone();
        if !diagnostic.primary.message.is_empty() {
            message += &format!(": {}", diagnostic.primary.message);
        }
        if let Some(help) = &diagnostic.help {
            message += &format!("\nhelp: {help}");
        }
        let related: Vec<DiagnosticRelatedInformation> = diagnostic
            .notes
            .iter()
            .filter_map(|note| {
                let location = self.place(job, sources, note.span)?;
                Some(DiagnosticRelatedInformation { location, message: note.message.clone() })
            })
            .collect();
        let shown = Diagnostic {
            range: place.range,
            severity: Some(match diagnostic.severity {
                Severity::Error => DiagnosticSeverity::ERROR,
                Severity::Warning => DiagnosticSeverity::WARNING,
            }),
            code: Some(NumberOrString::String(diagnostic.code.into())),
            source: Some("pullback".into()),
            message,
            related_information: (!related.is_empty()).then_some(related),
            ..Diagnostic::default()
        };
        Some((place.uri, shown))
    }

    fn place(&self, job: &Job, sources: &Sources, span: Span) -> Option<Location> {
        let file = sources.files.get(span.file.0 as usize)?;
        let path = Path::new(&file.path);
        let uri = match job.documents.iter().find(|d| d.path == path) {
            Some(document) => document.uri.clone(),
            None => to_uri(path).parse().ok()?,
        };
        // A diagnostic for a whole file is shown at the file's start, since editors have no other place for
        // it.
        let span = if span.is_place() { span } else { Span { start: 0, end: 0, ..span } };
        Some(Location { uri, range: self.encoding.range(file, span) })
    }
}
