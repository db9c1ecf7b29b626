//! An editor for tests: it speaks the protocol with a server in the same process, applies the edits that it is given,
//! and counts columns in UTF-16 as the protocol demands.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::JoinHandle;

use lsp_server::{Connection, Message, Notification, Request, RequestId, Response};
use serde_json::{Value, json};

pub(crate) const URI: &str = "file:///nowhere/kernel.slang";

pub(crate) struct Editor {
    connection: Connection,
    server: Option<JoinHandle<()>>,
    last: i32,
    version: i32,
    pub(crate) capabilities: Value,
    /// The newest diagnostics of each file.
    pub(crate) diagnostics: BTreeMap<String, Value>,
    /// The version of each document that has been checked completely, until a test has seen it.
    complete: BTreeMap<String, i64>,
    /// The newest version of each document.
    versions: BTreeMap<String, i64>,
    /// The messages and the requests of the server so far.
    pub(crate) said: Vec<(String, Value)>,
    /// The answer when the server asks for settings.
    pub(crate) settings: Value,
    pub(crate) texts: BTreeMap<String, String>,
}

impl Editor {
    pub(crate) fn start() -> Editor {
        Editor::with(json!({}), &[])
    }

    /// An editor with these settings, and with these folders in its workspace.
    pub(crate) fn with(options: Value, folders: &[&Path]) -> Editor {
        let (server, connection) = Connection::memory();
        let work = move || pullback_lsp::serve(server).expect("the server ends as it should");
        let thread = std::thread::Builder::new().stack_size(1 << 30).spawn(work).expect("a thread");
        let mut editor = Editor {
            connection,
            server: Some(thread),
            last: 0,
            version: 1,
            capabilities: Value::Null,
            diagnostics: BTreeMap::new(),
            complete: BTreeMap::new(),
            versions: BTreeMap::new(),
            said: Vec::new(),
            settings: Value::Null,
            texts: BTreeMap::new(),
        };
        let folder = |path: &&Path| json!({ "uri": format!("file://{}", path.display()), "name": "folder" });
        let folders: Vec<Value> = folders.iter().map(folder).collect();
        let found = editor.ask(
            "initialize",
            json!({
                "processId": null,
                "capabilities": {
                    "workspace": {
                        "configuration": true,
                        "codeLens": { "refreshSupport": true },
                        "didChangeConfiguration": { "dynamicRegistration": true },
                        "didChangeWatchedFiles": { "dynamicRegistration": true },
                    },
                    "window": { "showDocument": { "support": true } },
                    "textDocument": { "completion": { "completionItem": { "snippetSupport": true } } },
                    "experimental": { "virtualDocuments": true },
                },
                "initializationOptions": options,
                "workspaceFolders": folders,
            }),
        );
        editor.capabilities = found["capabilities"].clone();
        editor.say("initialized", json!({}));
        editor
    }

    /// Sends a request without waiting for its answer.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> RequestId {
        self.last += 1;
        let id = RequestId::from(self.last);
        let request = Request { id: id.clone(), method: method.into(), params };
        self.connection.sender.send(Message::Request(request)).expect("the server reads");
        id
    }

    pub(crate) fn say(&mut self, method: &str, params: Value) {
        let message = Message::Notification(Notification { method: method.into(), params });
        self.connection.sender.send(message).expect("the server reads");
    }

    /// The answer to a request, or its error.
    pub(crate) fn try_ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Waits for the answer to a request.
    pub(crate) fn answer(&mut self, id: RequestId) -> Result<Value, String> {
        loop {
            if let Message::Response(response) = self.read()
                && response.id == id
            {
                let text = serde_json::to_value(&response).expect("it was JSON");
                return match text.get("error") {
                    Some(error) => Err(error["message"].as_str().unwrap_or("").to_string()),
                    None => Ok(text["result"].clone()),
                };
            }
        }
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.try_ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    pub(crate) fn read(&mut self) -> Message {
        let message = self.connection.receiver.recv().expect("the server is there");
        match &message {
            Message::Notification(n) if n.method == "textDocument/publishDiagnostics" => {
                let uri = n.params["uri"].as_str().expect("a name").to_string();
                if let Some(version) = n.params["version"].as_i64() {
                    assert!(version <= self.versions[&uri], "no version is ahead of the document");
                }
                self.diagnostics.insert(uri, n.params["diagnostics"].clone());
            }
            Message::Notification(n) if n.method == "$/pullback/checked" => {
                for document in n.params["documents"].as_array().expect("a list") {
                    let uri = document["uri"].as_str().expect("a name").to_string();
                    self.complete.insert(uri, document["version"].as_i64().expect("a version"));
                }
            }
            Message::Notification(n) => self.said.push((n.method.clone(), n.params.clone())),
            Message::Request(r) => {
                self.said.push((r.method.clone(), r.params.clone()));
                let result = match r.method.as_str() {
                    "workspace/configuration" => json!([self.settings]),
                    _ => Value::Null,
                };
                let answer = Message::Response(Response::new_ok(r.id.clone(), result));
                self.connection.sender.send(answer).expect("the server reads");
            }
            Message::Response(_) => {}
        }
        message
    }

    pub(crate) fn open(&mut self, uri: &str, text: &str) {
        self.version += 1;
        self.texts.insert(uri.to_string(), text.to_string());
        self.versions.insert(uri.to_string(), i64::from(self.version));
        let document = json!({ "uri": uri, "languageId": "slang", "version": self.version, "text": text });
        self.say("textDocument/didOpen", json!({ "textDocument": document }));
    }

    /// Replaces a range of a document.
    pub(crate) fn edit(&mut self, uri: &str, from: usize, to: usize, new: &str) {
        self.version += 1;
        let text = self.texts[uri].clone();
        let range = json!({ "start": position(&text, from), "end": position(&text, to) });
        self.texts.insert(uri.to_string(), format!("{}{new}{}", &text[..from], &text[to..]));
        self.versions.insert(uri.to_string(), i64::from(self.version));
        let document = json!({ "uri": uri, "version": self.version });
        let changes = json!([{ "range": range, "text": new }]);
        self.say("textDocument/didChange", json!({ "textDocument": document, "contentChanges": changes }));
    }

    /// Replaces a document by the smallest edit.
    pub(crate) fn change(&mut self, uri: &str, new: &str) {
        let old = self.texts[uri].clone();
        let same = |a: char, b: char| a == b;
        let start: usize =
            old.chars().zip(new.chars()).take_while(|&(a, b)| same(a, b)).map(|(a, _)| a.len_utf8()).sum();
        // No position is between the two characters that end a line.
        let start = if old[..start].ends_with('\r') { start - 1 } else { start };
        let rest = old[start..].chars().rev().zip(new[start..].chars().rev());
        let end: usize = rest.take_while(|&(a, b)| same(a, b)).map(|(a, _)| a.len_utf8()).sum();
        let is_split = old[..old.len() - end].ends_with('\r') || new[..new.len() - end].ends_with('\r');
        let end = if is_split && end > 0 { end - 1 } else { end };
        self.edit(uri, start, old.len() - end, &new[start..new.len() - end]);
        assert_eq!(self.texts[uri], new);
    }

    /// The diagnostics of the newest version of a document.
    pub(crate) fn checked(&mut self, uri: &str) -> Value {
        let version = self.versions[uri];
        while self.complete.get(uri) != Some(&version) {
            self.read();
        }
        self.complete.remove(uri);
        self.diagnostics[uri].clone()
    }

    /// Parameters for a request about an offset of a document.
    pub(crate) fn at(&self, uri: &str, offset: usize) -> Value {
        json!({ "textDocument": { "uri": uri }, "position": position(&self.texts[uri], offset) })
    }

    /// Sends a request about the position of the marker `¦`; the document becomes the text without the marker.
    pub(crate) fn ask_at(&mut self, method: &str, uri: &str, marked: &str) -> Value {
        let at = marked.find('¦').expect("a marker");
        let text = marked.replace('¦', "");
        match self.texts.contains_key(uri) {
            true => self.change(uri, &text),
            false => self.open(uri, &text),
        }
        let params = self.at(uri, at);
        self.ask(method, params)
    }

    /// The text of a range of a document.
    pub(crate) fn text_of(&self, uri: &str, range: &Value) -> String {
        let text = &self.texts[uri];
        text[offset(text, &range["start"])..offset(text, &range["end"])].to_string()
    }

    /// The documents after an edit of the workspace.
    pub(crate) fn applied(&self, edit: &Value) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for (uri, edits) in edit["changes"].as_object().expect("changes") {
            let text = match self.texts.get(uri) {
                Some(text) => text.clone(),
                None => {
                    std::fs::read_to_string(uri.strip_prefix("file://").expect("a file")).expect("a file")
                }
            };
            let mut list: Vec<(usize, usize, String)> = edits
                .as_array()
                .expect("a list")
                .iter()
                .map(|e| {
                    let new = e["newText"].as_str().expect("a text").to_string();
                    (offset(&text, &e["range"]["start"]), offset(&text, &e["range"]["end"]), new)
                })
                .collect();
            list.sort();
            let mut new = text;
            for (start, end, text) in list.into_iter().rev() {
                new.replace_range(start..end, &text);
            }
            found.insert(uri.clone(), new);
        }
        found
    }

    pub(crate) fn end(mut self) {
        self.ask("shutdown", Value::Null);
        self.say("exit", Value::Null);
        self.server.take().expect("it runs").join().expect("the server does not panic");
    }
}

/// The position of an offset, in lines and UTF-16 code units.
pub(crate) fn position(text: &str, offset: usize) -> Value {
    let before = &text[..offset];
    let line = before.matches('\n').count();
    let start = before.rfind('\n').map_or(0, |n| n + 1);
    let character: usize = before[start..].chars().map(char::len_utf16).sum();
    json!({ "line": line, "character": character })
}

pub(crate) fn offset(text: &str, position: &Value) -> usize {
    let (line, character) =
        (position["line"].as_u64().expect("a line"), position["character"].as_u64().expect("a column"));
    let mut start = 0;
    for _ in 0..line {
        start += text[start..].find('\n').expect("the line is there") + 1;
    }
    let mut units = 0;
    for (at, c) in text[start..].char_indices() {
        if units >= character {
            return start + at;
        }
        units += c.len_utf16() as u64;
    }
    text.len()
}

/// The codes of a list of diagnostics.
pub(crate) fn codes(list: &Value) -> Vec<String> {
    let items = list.as_array().expect("a list").iter();
    items.map(|d| d["code"].as_str().unwrap_or("").to_string()).collect()
}
