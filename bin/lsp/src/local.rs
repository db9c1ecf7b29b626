//! A server without threads, for hosts that have none, such as a browser: each message is answered before the call returns.

use std::sync::{Arc, Mutex, PoisonError};

use lsp_server::{ErrorCode, Message, Response};
use lsp_types::InitializeParams;

use crate::position::Encoding;
use crate::worker::Worker;
use crate::{Say, Server, about};

/// A server that is called with messages.
#[derive(Default)]
pub struct Local {
    server: Option<Server>,
    said: Arc<Mutex<Vec<Message>>>,
}

impl Local {
    /// A server that waits for `initialize`.
    pub fn new() -> Local {
        Local::default()
    }

    /// Handles a message, JSON of the protocol. Returns the messages for the editor, in order; none for text that is no
    /// message.
    pub fn receive(&mut self, text: &str) -> Vec<String> {
        if let Ok(message) = serde_json::from_str::<Message>(text) {
            self.handle(message);
        }
        let said = std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner));
        said.iter().filter_map(|message| written(message).ok()).collect()
    }

    fn handle(&mut self, message: Message) {
        let said = self.said.clone();
        let send: Say = Arc::new(move |message| {
            said.lock().unwrap_or_else(PoisonError::into_inner).push(message);
            Ok(())
        });
        let answer = match (&mut self.server, message) {
            (Some(server), Message::Request(request)) if request.method == "shutdown" => {
                server.documents = Default::default();
                Some(Response::new_ok(request.id, ()))
            }
            (Some(server), Message::Request(request)) => server.request(request),
            (Some(server), Message::Notification(notification)) => {
                server.notification(notification);
                None
            }
            (Some(server), Message::Response(response)) => {
                server.response(response);
                None
            }
            (None, Message::Request(request)) if request.method == "initialize" => {
                match serde_json::from_value::<InitializeParams>(request.params) {
                    Ok(params) => {
                        let encoding = Encoding::negotiate(&params);
                        let worker = Worker::here(send.clone(), encoding);
                        // The editor expects this before all else.
                        let _ = send(Message::Response(Response::new_ok(request.id, about(encoding))));
                        self.server = Some(Server::new(&params, encoding, worker, send.clone()));
                        None
                    }
                    Err(error) => {
                        let code = ErrorCode::InvalidParams as i32;
                        Some(Response::new_err(request.id, code, error.to_string()))
                    }
                }
            }
            (None, Message::Request(request)) => {
                let message = "the server is not initialized".to_string();
                Some(Response::new_err(request.id, ErrorCode::ServerNotInitialized as i32, message))
            }
            (None, _) => None,
        };
        if let Some(response) = answer {
            let _ = send(Message::Response(response));
        }
    }
}

/// A message as text.
fn written(message: &Message) -> serde_json::Result<String> {
    let mut message = serde_json::to_value(message)?;
    message["jsonrpc"] = "2.0".into();
    serde_json::to_string(&message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Local;

    fn send(server: &mut Local, message: Value) -> Vec<Value> {
        let said = server.receive(&message.to_string());
        said.iter().map(|text| serde_json::from_str(text).expect("it is JSON")).collect()
    }

    fn opened(server: &mut Local, text: &str) -> Vec<Value> {
        let document = json!({ "uri": "file:///p.slang", "languageId": "slang", "version": 1, "text": text });
        let params = json!({ "textDocument": document });
        send(server, json!({ "jsonrpc": "2.0", "method": "textDocument/didOpen", "params": params }))
    }

    #[test]
    fn each_message_is_answered_before_the_call_returns() {
        let mut server = Local::new();
        let early = send(&mut server, json!({ "jsonrpc": "2.0", "id": 1, "method": "textDocument/hover" }));
        assert_eq!(early[0]["error"]["code"], -32002);
        let begin =
            json!({ "jsonrpc": "2.0", "id": 2, "method": "initialize", "params": { "capabilities": {} } });
        let answers = send(&mut server, begin);
        assert!(answers.iter().any(|answer| answer["result"]["capabilities"]["hoverProvider"] == true));
        let said = opened(&mut server, "[Differentiable] float f(float x) { return x * y; }");
        let published = said.iter().find(|m| m["method"] == "textDocument/publishDiagnostics");
        let diagnostics = &published.expect("diagnostics are published")["params"]["diagnostics"];
        assert_eq!(diagnostics[0]["code"], "E30015");
        assert!(said.iter().any(|m| m["method"] == "$/pullback/checked"));
    }

    #[test]
    fn commands_of_lenses_are_answered_at_once() {
        let mut server = Local::new();
        send(
            &mut server,
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "capabilities": {} } }),
        );
        opened(&mut server, "[Differentiable] float f(float x) { return x * x; }");
        let params = json!({ "command": "pullback.gradcheck", "arguments": ["file:///p.slang", "f"] });
        let said = send(
            &mut server,
            json!({ "jsonrpc": "2.0", "id": 2, "method": "workspace/executeCommand", "params": params }),
        );
        assert!(said.iter().any(|m| m["id"] == 2 && m["result"]["agrees"] == true), "{said:?}");
    }

    #[test]
    fn what_is_no_message_is_ignored() {
        let mut server = Local::new();
        assert!(server.receive("{]").is_empty());
        assert!(server.receive("\u{0}").is_empty());
    }
}
