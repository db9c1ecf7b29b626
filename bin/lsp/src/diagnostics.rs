//! Publishes the diagnostics of the open documents, for all files at once.

use std::path::Path;
use std::sync::mpsc::channel;

use ide::Checked;
use lsp_server::Notification;
use lsp_types::notification::{Notification as _, PublishDiagnostics};
use lsp_types::{
    Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString,
    PublishDiagnosticsParams, Uri,
};
use syntax::{Severity, Sources, Span};

use crate::{Server, guarded};

impl Server {
    /// Sends the checker's diagnostics if there are errors; otherwise checks derivatives on another thread,
    /// since that can take seconds in a large file and requests must be answered meanwhile.
    pub(crate) fn check(&mut self) -> Vec<Notification> {
        let options = self.documents.options();
        let paths = self.documents.paths();
        let quick: Vec<Checked> = paths
            .iter()
            .filter_map(|path| guarded(|| ide::quick_diagnostics(&options, path).ok())?)
            .collect();
        if quick.iter().any(|(_, list)| driver::pipeline::has_errors(list)) {
            return self.publish(&quick);
        }
        let (sender, receiver) = channel();
        let work = move || {
            // Files that cannot be read, or that make the compiler panic, have no diagnostics.
            let found: Vec<Checked> = paths
                .iter()
                .filter_map(|path| {
                    guarded(|| driver::on_large_stack(|| ide::diagnostics(&options, path).ok()))?
                })
                .collect();
            // The receiver is gone if the server has ended.
            let _ = sender.send(found);
        };
        // If no thread can be started, publish the diagnostics found so far.
        match std::thread::Builder::new().name("check".into()).spawn(work) {
            Ok(_) => {
                self.checking = Some(receiver);
                Vec::new()
            }
            Err(_) => self.publish(&quick),
        }
    }

    /// The diagnostics of all open documents. Files without remaining diagnostics get an empty list.
    pub(crate) fn publish(&mut self, checked: &[Checked]) -> Vec<Notification> {
        let mut found: Vec<(Uri, Vec<Diagnostic>)> = Vec::new();
        let paths = self.documents.paths();
        for uri in paths.iter().filter_map(|path| self.documents.uri(path)) {
            found.push((uri, Vec::new()));
        }
        for (sources, diagnostics) in checked {
            for diagnostic in diagnostics {
                let Some((uri, shown)) = self.shown(sources, diagnostic) else { continue };
                match found.iter_mut().find(|f| f.0 == uri) {
                    Some((_, list)) if list.contains(&shown) => {}
                    Some((_, list)) => list.push(shown),
                    None => found.push((uri, vec![shown])),
                }
            }
        }
        for uri in std::mem::take(&mut self.published) {
            if !found.iter().any(|f| f.0 == uri) {
                found.push((uri, Vec::new()));
            }
        }
        self.published = found.iter().filter(|f| !f.1.is_empty()).map(|f| f.0.clone()).collect();
        let message = |(uri, diagnostics)| {
            let params = PublishDiagnosticsParams { uri, diagnostics, version: None };
            Notification::new(PublishDiagnostics::METHOD.to_string(), params)
        };
        found.into_iter().map(message).collect()
    }

    fn shown(&self, sources: &Sources, diagnostic: &syntax::Diagnostic) -> Option<(Uri, Diagnostic)> {
        let place = self.place(sources, diagnostic.primary.span)?;
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
                let location = self.place(sources, note.span)?;
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

    fn place(&self, sources: &Sources, span: Span) -> Option<Location> {
        let file = sources.files.get(span.file.0 as usize)?;
        let uri = self.documents.uri(Path::new(&file.path))?;
        // A diagnostic for a whole file is shown at the file's start, since editors have no other place for
        // it.
        let span = if span.is_place() { span } else { Span { start: 0, end: 0, ..span } };
        Some(Location { uri, range: self.encoding.range(file, span) })
    }
}
