//! Implements the language server protocol; `ide` computes the answers.
//!
//! Messages are handled one after the other; they are read and written on separate threads, and derivatives
//! are checked on another thread. Requests take precedence over diagnostics: a changed document is only
//! checked as a whole once no message has arrived for a moment. A panic aborts the request that caused it,
//! not the server.
#![forbid(unsafe_code)]

mod answer;
mod diagnostics;
mod document;
mod format;
mod position;
mod stdio;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use lsp_server::{Connection, ErrorCode, Message, Notification, ProtocolError, Request, Response};
use lsp_types::notification::{
    DidChangeTextDocument, DidCloseTextDocument, DidOpenTextDocument, DidSaveTextDocument, Notification as _,
};
use lsp_types::request::{
    Completion, DocumentSymbolRequest, Formatting, GotoDefinition, HoverRequest, OnTypeFormatting,
    RangeFormatting, Request as _,
};
use lsp_types::{
    CompletionOptions, HoverProviderCapability, InitializeParams, OneOf, PositionEncodingKind,
    ServerCapabilities, TextDocumentSyncCapability, TextDocumentSyncKind,
};
use serde_json::Value;

use document::Documents;
use position::Encoding;

/// The time without messages after which documents are checked as a whole.
const QUIET: Duration = Duration::from_millis(120);
/// The interval at which the checking thread is polled for completion.
const POLL: Duration = Duration::from_millis(20);

/// The reason why a server ends other than by `exit`.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Serves on standard input and output until the editor says `exit`.
pub fn serve_stdio() -> Result<(), Failure> {
    let (connection, [reader, writer]) = stdio::connect();
    let served = driver::on_large_stack(|| serve(connection));
    let is_cut = |error: &Failure| {
        error.downcast_ref().is_some_and(|error: &ProtocolError| error.channel_is_disconnected())
    };
    if served.as_ref().err().is_none_or(is_cut) {
        // The reader has ended, and its error explains best why there was nothing more to read.
        reader.join().expect("reading does not panic")?;
    }
    served?;
    writer.join().expect("writing does not panic")?;
    Ok(())
}

/// Serves on a connection until the editor says `exit`.
pub fn serve(connection: Connection) -> Result<(), Failure> {
    let (id, params) = connection.initialize_start()?;
    let params: InitializeParams = serde_json::from_value(params)?;
    let encoding = Encoding::negotiate(&params);
    let result = serde_json::json!({
        "capabilities": capabilities(encoding),
        "serverInfo": { "name": "pullback", "version": env!("CARGO_PKG_VERSION") },
    });
    connection.initialize_finish(id, result)?;
    let mut server = Server {
        connection,
        encoding,
        documents: Documents::new(document::options(params.initialization_options.as_ref())),
        published: Vec::new(),
        unchecked: false,
        checking: None,
    };
    server.run()
}

fn capabilities(encoding: Encoding) -> ServerCapabilities {
    ServerCapabilities {
        position_encoding: Some(match encoding {
            Encoding::Utf8 => PositionEncodingKind::UTF8,
            Encoding::Utf16 => PositionEncodingKind::UTF16,
        }),
        text_document_sync: Some(TextDocumentSyncCapability::Kind(TextDocumentSyncKind::FULL)),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        definition_provider: Some(OneOf::Left(true)),
        document_symbol_provider: Some(OneOf::Left(true)),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(vec![".".into(), ":".into(), ">".into()]),
            ..CompletionOptions::default()
        }),
        document_formatting_provider: Some(OneOf::Left(true)),
        document_range_formatting_provider: Some(OneOf::Left(true)),
        document_on_type_formatting_provider: Some(format::on_type()),
        ..ServerCapabilities::default()
    }
}

pub(crate) struct Server {
    connection: Connection,
    pub(crate) encoding: Encoding,
    pub(crate) documents: Documents,
    /// Files for which diagnostics were sent.
    pub(crate) published: Vec<lsp_types::Uri>,
    /// A document has changed since documents were last checked.
    unchecked: bool,
    /// The channel from a thread that is checking documents.
    pub(crate) checking: Option<Receiver<Vec<ide::Checked>>>,
}

impl Server {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            self.take_checked()?;
            let wait = match (&self.checking, self.unchecked) {
                (Some(_), _) => Some(POLL),
                (None, true) => Some(QUIET),
                (None, false) => None,
            };
            let message = if let Some(wait) = wait {
                match self.connection.receiver.recv_timeout(wait) {
                    Ok(message) => message,
                    Err(error) if error.is_timeout() => {
                        if self.unchecked && self.checking.is_none() {
                            self.unchecked = false;
                            let sent = guarded(|| self.check()).unwrap_or_default();
                            self.send(sent)?;
                        }
                        continue;
                    }
                    Err(_) => return Ok(()),
                }
            } else {
                match self.connection.receiver.recv() {
                    Ok(message) => message,
                    Err(_) => return Ok(()),
                }
            };
            match message {
                Message::Request(request) => {
                    if self.connection.handle_shutdown(&request)? {
                        return Ok(());
                    }
                    let response = self.request(request);
                    self.connection.sender.send(Message::Response(response))?;
                }
                Message::Notification(notification) => self.notification(notification),
                Message::Response(_) => {}
            }
        }
    }

    /// Publishes the diagnostics from the checking thread, unless a document has changed since.
    fn take_checked(&mut self) -> Result<(), Failure> {
        let Some(receiver) = &self.checking else { return Ok(()) };
        match receiver.try_recv() {
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Disconnected) => self.checking = None,
            Ok(found) => {
                self.checking = None;
                if !self.unchecked {
                    let sent = self.publish(&found);
                    self.send(sent)?;
                }
            }
        }
        Ok(())
    }

    fn send(&self, notifications: Vec<Notification>) -> Result<(), Failure> {
        for sent in notifications {
            self.connection.sender.send(Message::Notification(sent))?;
        }
        Ok(())
    }

    fn request(&mut self, request: Request) -> Response {
        let Request { id, method, params } = request;
        let answer = match method.as_str() {
            HoverRequest::METHOD => self.answer(params, Server::hover),
            GotoDefinition::METHOD => self.answer(params, Server::definition),
            Completion::METHOD => self.answer(params, Server::completion),
            DocumentSymbolRequest::METHOD => self.answer(params, Server::symbols),
            Formatting::METHOD => self.answer(params, Server::formatting),
            RangeFormatting::METHOD => self.answer(params, Server::range_formatting),
            OnTypeFormatting::METHOD => self.answer(params, Server::on_type_formatting),
            _ => {
                let message = format!("the method {method} is not supported");
                return Response::new_err(id, ErrorCode::MethodNotFound as i32, message);
            }
        };
        match answer {
            Ok(value) => Response::new_ok(id, value),
            Err((code, message)) => Response::new_err(id, code as i32, message),
        }
    }

    /// Parses the parameters of a request and answers it.
    fn answer<P: serde::de::DeserializeOwned, R: serde::Serialize>(
        &mut self,
        params: Value,
        question: fn(&mut Server, P) -> Option<R>,
    ) -> Result<Value, (ErrorCode, String)> {
        let params = serde_json::from_value(params).map_err(|e| (ErrorCode::InvalidParams, e.to_string()))?;
        let Some(answer) = guarded(|| question(self, params)) else {
            self.documents.forget();
            return Err((ErrorCode::InternalError, "the compiler has failed; this is a bug".into()));
        };
        serde_json::to_value(answer).map_err(|e| (ErrorCode::InternalError, e.to_string()))
    }

    fn notification(&mut self, notification: Notification) {
        let Notification { method, params } = notification;
        // Notifications that do not parse are ignored.
        match method.as_str() {
            DidOpenTextDocument::METHOD => {
                if let Ok(p) = serde_json::from_value::<lsp_types::DidOpenTextDocumentParams>(params) {
                    self.documents.set(p.text_document.uri, p.text_document.text);
                }
            }
            DidChangeTextDocument::METHOD => {
                if let Ok(p) = serde_json::from_value::<lsp_types::DidChangeTextDocumentParams>(params)
                    && let Some(change) = p.content_changes.into_iter().next_back()
                {
                    self.documents.set(p.text_document.uri, change.text);
                }
            }
            DidCloseTextDocument::METHOD => {
                if let Ok(p) = serde_json::from_value::<lsp_types::DidCloseTextDocumentParams>(params) {
                    self.documents.close(&p.text_document.uri);
                }
            }
            DidSaveTextDocument::METHOD => self.documents.forget(),
            _ => return,
        }
        self.unchecked = true;
    }
}

/// Runs the closure; returns `None` if it panics.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}
