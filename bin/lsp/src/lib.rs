//! Implements the language server protocol; `ide` computes the answers.
//!
//! Messages are handled one after the other; they are read and written on separate threads. Documents are checked on
//! another thread ([`worker`]), which stops when there is a newer edit, and derivatives are run on one of their own
//! ([`lens`]). A panic aborts the request that caused it, not the server.
#![forbid(unsafe_code)]

mod capabilities;
mod config;
mod core_files;
mod diagnostics;
mod document;
mod editing;
mod format;
mod highlight;
mod lens;
mod local;
mod navigation;
mod position;
mod stdio;
mod uri;
mod worker;
mod workspace;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lsp_server::{Connection, ErrorCode, Message, Notification, ProtocolError, Request, RequestId, Response};
use lsp_types::InitializeParams;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use capabilities::Client;
use config::Config;
use document::Documents;
use lens::Lenses;
pub use local::Local;
use position::Encoding;
use worker::{Named, Worker};
use workspace::Workspace;

/// The reason why a server ends other than by `exit`.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Sends a message to the editor, from any thread.
pub(crate) type Say = Arc<dyn Fn(Message) -> Result<(), Failure> + Send + Sync>;

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
    if served.as_ref().is_err_and(is_cut) {
        return Err("the input ended before the editor said `exit`".into());
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
    connection.initialize_finish(id, about(encoding))?;
    let sender = connection.sender.clone();
    let send: Say = Arc::new(move |message| sender.send(message).map_err(Failure::from));
    let worker = Worker::start(send.clone(), encoding)?;
    Server::new(&params, encoding, worker, send).run(&connection)
}

/// The result of `initialize`.
fn about(encoding: Encoding) -> Value {
    json!({
        "capabilities": capabilities::capabilities(encoding),
        "serverInfo": { "name": "pullback", "version": env!("CARGO_PKG_VERSION") },
    })
}

pub(crate) struct Server {
    pub(crate) encoding: Encoding,
    pub(crate) client: Client,
    pub(crate) config: Config,
    pub(crate) documents: Documents,
    pub(crate) workspace: Workspace,
    pub(crate) lenses: Lenses,
    worker: Worker,
    pub(crate) send: Say,
    /// The number of requests to the editor.
    n_asked: u64,
    /// Messages that have been received and not handled.
    queue: VecDeque<Message>,
}

/// The id of the request for settings.
const ASKS_SETTINGS: &str = "pullback-settings";

/// An error of a request.
pub(crate) type Answer = Result<Value, (ErrorCode, String)>;

impl Server {
    fn new(params: &InitializeParams, encoding: Encoding, worker: Worker, send: Say) -> Server {
        let mut server = Server {
            encoding,
            client: Client::of(params),
            config: Config::of(params.initialization_options.as_ref().unwrap_or(&Value::Null)),
            documents: Documents::default(),
            workspace: Workspace::of(params),
            lenses: Lenses::default(),
            worker,
            send,
            n_asked: 0,
            queue: VecDeque::new(),
        };
        server.configure();
        server
    }

    fn run(&mut self, connection: &Connection) -> Result<(), Failure> {
        loop {
            let message = match self.queue.pop_front() {
                Some(message) => message,
                None => match connection.receiver.recv() {
                    Ok(message) => message,
                    Err(_) => return Ok(()),
                },
            };
            match message {
                Message::Request(request) => {
                    if connection.handle_shutdown(&request)? {
                        return Ok(());
                    }
                    self.queue.extend(connection.receiver.try_iter());
                    if let Some(response) = self.request(request) {
                        (self.send)(Message::Response(response))?;
                    }
                }
                Message::Notification(notification) => self.notification(notification),
                Message::Response(response) => self.response(response),
            }
        }
    }

    /// Returns true if the editor no longer wants the answer to a request.
    fn is_cancelled(&self, id: &RequestId) -> bool {
        let wanted = serde_json::to_value(id).unwrap_or_default();
        self.queue.iter().any(|message| match message {
            Message::Notification(said) => said.method == "$/cancelRequest" && said.params["id"] == wanted,
            _ => false,
        })
    }

    fn request(&mut self, request: Request) -> Option<Response> {
        let Request { id, method, params } = request;
        if self.is_cancelled(&id) {
            let code = ErrorCode::RequestCanceled as i32;
            return Some(Response::new_err(id, code, "the request was cancelled".into()));
        }
        // Lenses that run a program answer later, from their own threads.
        if method == "workspace/executeCommand" {
            return self.execute(id, params);
        }
        let answer = match method.as_str() {
            "textDocument/hover" => self.answer(params, Server::hover),
            "textDocument/definition" => self.answer(params, Server::definition),
            "textDocument/references" => self.answer(params, Server::references),
            "textDocument/documentHighlight" => self.answer(params, Server::highlights),
            "textDocument/prepareRename" => self.answer(params, Server::prepare_rename),
            "textDocument/rename" => self.try_answer(params, Server::rename),
            "textDocument/documentSymbol" => self.answer(params, Server::symbols),
            "workspace/symbol" => self.answer(params, Server::workspace_symbols),
            "textDocument/completion" => self.answer(params, Server::completion),
            "textDocument/signatureHelp" => self.answer(params, Server::signature_help),
            "textDocument/codeAction" => self.answer(params, Server::actions),
            "textDocument/formatting" => self.answer(params, Server::formatting),
            "textDocument/rangeFormatting" => self.answer(params, Server::range_formatting),
            "textDocument/onTypeFormatting" => self.answer(params, Server::on_type_formatting),
            "textDocument/foldingRange" => self.answer(params, Server::folds),
            "textDocument/semanticTokens/full" => self.answer(params, Server::tokens),
            "textDocument/semanticTokens/full/delta" => self.answer(params, Server::tokens_delta),
            "textDocument/semanticTokens/range" => self.answer(params, Server::tokens_in_range),
            "textDocument/inlayHint" => self.answer(params, Server::hints),
            "textDocument/codeLens" => self.answer(params, Server::lenses),
            "workspace/textDocumentContent" => self.try_answer(params, Server::content),
            _ => {
                let message = format!("the method {method} is not supported");
                return Some(Response::new_err(id, ErrorCode::MethodNotFound as i32, message));
            }
        };
        Some(match answer {
            Ok(value) => Response::new_ok(id, value),
            Err((code, message)) => Response::new_err(id, code as i32, message),
        })
    }

    /// Parses the parameters of a request and answers it.
    fn answer<P: DeserializeOwned, R: serde::Serialize>(
        &mut self,
        params: Value,
        question: fn(&mut Server, P) -> Option<R>,
    ) -> Answer {
        let params = serde_json::from_value(params).map_err(|e| (ErrorCode::InvalidParams, e.to_string()))?;
        let Some(answer) = guarded(|| question(self, params)) else {
            self.documents.forget();
            return Err((ErrorCode::InternalError, "the compiler has failed; this is a bug".into()));
        };
        serde_json::to_value(answer).map_err(|e| (ErrorCode::InternalError, e.to_string()))
    }

    /// Like [`Server::answer`], for requests that are refused with a reason.
    fn try_answer<P: DeserializeOwned>(
        &mut self,
        params: Value,
        question: fn(&mut Server, P) -> Result<Value, String>,
    ) -> Answer {
        let params = serde_json::from_value(params).map_err(|e| (ErrorCode::InvalidParams, e.to_string()))?;
        let Some(answer) = guarded(|| question(self, params)) else {
            self.documents.forget();
            return Err((ErrorCode::InternalError, "the compiler has failed; this is a bug".into()));
        };
        answer.map_err(|reason| (ErrorCode::RequestFailed, reason))
    }

    fn notification(&mut self, notification: Notification) {
        let Notification { method, params } = notification;
        // Notifications that do not parse are ignored.
        match method.as_str() {
            "textDocument/didOpen" => {
                let Some(p) = parsed::<lsp_types::DidOpenTextDocumentParams>(params) else { return };
                let document = p.text_document;
                self.documents.set(document.uri, document.version, document.text);
            }
            "textDocument/didChange" => {
                let Some(p) = parsed::<lsp_types::DidChangeTextDocumentParams>(params) else { return };
                let document = p.text_document;
                self.documents.change(&document.uri, document.version, p.content_changes, self.encoding);
            }
            "textDocument/didClose" => {
                let Some(p) = parsed::<lsp_types::DidCloseTextDocumentParams>(params) else { return };
                self.documents.close(&p.text_document.uri);
            }
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => {
                self.documents.forget();
                self.workspace.forget();
            }
            "workspace/didChangeWorkspaceFolders" => {
                let Some(p) = parsed::<lsp_types::DidChangeWorkspaceFoldersParams>(params) else { return };
                self.workspace.change(p.event);
                self.configure();
            }
            "workspace/didChangeConfiguration" => {
                match params["settings"].get("pullback") {
                    Some(settings) => {
                        self.config = Config::of(settings);
                        self.configure();
                    }
                    None => self.ask_settings(),
                }
                return;
            }
            "initialized" => {
                self.register();
                self.ask_settings();
                return;
            }
            _ => return,
        }
        self.check();
    }

    fn response(&mut self, response: Response) {
        if response.id != RequestId::from(ASKS_SETTINGS.to_string()) {
            return;
        }
        let response = serde_json::to_value(response).unwrap_or_default();
        let settings = &response["result"][0];
        if settings.is_object() {
            self.config = Config::of(settings);
            self.configure();
        }
    }

    /// Uses the settings.
    fn configure(&mut self) {
        self.documents.configure(self.config.files(self.workspace.first()));
        self.check();
    }

    /// Has all documents checked in the state that they have now.
    fn check(&mut self) {
        let documents = self.documents.all().iter().map(|d| {
            let (uri, path, version) = (d.uri.clone(), d.path.clone(), d.version);
            Named { uri, path, version }
        });
        // The text of the library is shown in a file, which is no program.
        let documents: Vec<Named> = documents.filter(|d| !core_files::is_copy(&d.path)).collect();
        self.worker.check(self.documents.options(), documents);
    }

    /// Asks for the section `pullback` of the settings.
    fn ask_settings(&mut self) {
        if self.client.has_settings {
            let id = RequestId::from(ASKS_SETTINGS.to_string());
            let params = json!({ "items": [{ "section": "pullback" }] });
            self.ask(id, "workspace/configuration", params);
        }
    }

    /// Asks for notifications about changed settings and files.
    fn register(&mut self) {
        let mut registrations = Vec::new();
        if self.client.registers_settings {
            let options = json!({ "section": "pullback" });
            registrations.push(json!({ "id": "settings", "method": "workspace/didChangeConfiguration", "registerOptions": options }));
        }
        if self.client.registers_files {
            let watchers = json!([{ "globPattern": "**/*.{slang,slangh}" }]);
            registrations.push(json!({
                "id": "files",
                "method": "workspace/didChangeWatchedFiles",
                "registerOptions": { "watchers": watchers },
            }));
        }
        if !registrations.is_empty() {
            let id = self.new_id();
            self.ask(id, "client/registerCapability", json!({ "registrations": registrations }));
        }
    }

    pub(crate) fn new_id(&mut self) -> RequestId {
        self.n_asked += 1;
        RequestId::from(format!("pullback-{}", self.n_asked))
    }

    /// Sends a request to the editor. If the editor is gone, the next message says so.
    pub(crate) fn ask(&self, id: RequestId, method: &str, params: Value) {
        let request = Request { id, method: method.into(), params };
        let _ = (self.send)(Message::Request(request));
    }
}

fn parsed<T: DeserializeOwned>(params: Value) -> Option<T> {
    serde_json::from_value(params).ok()
}

/// Runs the closure; returns `None` if it panics.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}
