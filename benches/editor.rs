//! Measures how long an editor waits: for the answer to a request after an edit, and for the diagnostics.
//!
//! `cargo bench -p pullback-lsp --bench editor [-- FUNCTIONS]` types into the middle of a file of many differentiable
//! functions, over the protocol, and prints the median and the largest of several times in milliseconds.

#![allow(clippy::print_stdout, reason = "a benchmark prints its times")]

use std::time::{Duration, Instant};

use lsp_server::{Connection, Message, Notification, Request, RequestId};
use serde_json::{Value, json};

const URI: &str = "file:///nowhere/many.slang";
const N_EDITS: usize = 9;

/// Differentiable functions, of which nine in ten call the one before.
fn program(n: usize) -> String {
    let function = |k: usize| {
        let inner = if k.is_multiple_of(10) { "y".to_string() } else { format!("h{}(y)", k - 1) };
        format!(
            "[Differentiable]\nfloat h{k}(float x)\n{{\n    float y = x * {k}.5 + sin(x);\n    \
             for (int i = 0; i < 4; i++)\n    {{\n        y = y * x + {inner};\n    }}\n    return y;\n}}\n\n"
        )
    };
    (0..n).map(function).collect()
}

struct Editor {
    connection: Connection,
    last: i32,
}

impl Editor {
    fn say(&self, method: &str, params: Value) {
        let message = Message::Notification(Notification { method: method.into(), params });
        self.connection.sender.send(message).expect("the server is there");
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = RequestId::from(self.last);
        let request = Request { id: id.clone(), method: method.into(), params };
        self.connection.sender.send(Message::Request(request)).expect("the server is there");
        loop {
            match self.connection.receiver.recv().expect("the server is there") {
                Message::Response(response) if response.id == id => {
                    return serde_json::to_value(&response).expect("it was JSON")["result"].clone();
                }
                _ => {}
            }
        }
    }

    /// Waits for the diagnostics of a version.
    fn wait(&self, version: usize) -> Value {
        loop {
            if let Message::Notification(said) = self.connection.receiver.recv().expect("the server is there")
                && said.method == "textDocument/publishDiagnostics"
                && said.params["version"] == version
            {
                return said.params["diagnostics"].clone();
            }
        }
    }
}

fn main() {
    let n = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(4000);
    let (server, connection) = Connection::memory();
    let work = move || {
        let _ = pullback_lsp::serve(server);
    };
    std::thread::Builder::new().stack_size(1 << 30).spawn(work).expect("a thread");
    let mut editor = Editor { connection, last: 0 };
    editor.ask("initialize", json!({ "capabilities": {}, "processId": null }));
    editor.say("initialized", json!({}));
    let text = program(n);
    let document = json!({ "uri": URI, "languageId": "slang", "version": 1, "text": text });
    let start = Instant::now();
    editor.say("textDocument/didOpen", json!({ "textDocument": document }));
    editor.wait(1);
    println!("{n} functions, {} lines", text.lines().count());
    println!("first check             {:8.0} ms", milliseconds(start.elapsed()));
    // The line `float y = …` of a function in the middle that others call.
    let line = n / 2 * 11 + 14;
    let at = |character: u32| json!({ "line": line, "character": character });
    let mut version = 1;
    let mut edit = |editor: &Editor, text: &str, len: u32| {
        version += 1;
        let range = json!({ "start": at(14), "end": at(14 + len) });
        let changes = json!([{ "range": range, "text": text }]);
        let document = json!({ "uri": URI, "version": version });
        editor.say("textDocument/didChange", json!({ "textDocument": document, "contentChanges": changes }));
        version
    };
    let place = json!({ "textDocument": { "uri": URI }, "position": at(10) });
    let whole = json!({ "textDocument": { "uri": URI } });
    let visible = json!({ "start": { "line": line - 30, "character": 0 }, "end": { "line": line + 30, "character": 0 } });
    let in_range = json!({ "textDocument": { "uri": URI }, "range": visible });
    let requests = [
        ("hover", "textDocument/hover", &place),
        ("completion", "textDocument/completion", &place),
        ("semantic tokens, range", "textDocument/semanticTokens/range", &in_range),
        ("semantic tokens, full", "textDocument/semanticTokens/full", &whole),
        ("inlay hints", "textDocument/inlayHint", &in_range),
        ("document symbols", "textDocument/documentSymbol", &whole),
        ("code lenses", "textDocument/codeLens", &whole),
        ("folding", "textDocument/foldingRange", &whole),
    ];
    for (name, method, params) in requests {
        let mut times = Vec::new();
        for k in 0..=N_EDITS {
            let start = Instant::now();
            edit(&editor, if k % 2 == 0 { "1 + x" } else { "x" }, if k % 2 == 0 { 1 } else { 5 });
            editor.ask(method, params.clone());
            // The first one has to classify everything.
            if k > 0 {
                times.push(start.elapsed());
            }
        }
        report(name, times);
    }
    let mut times = Vec::new();
    for k in 0..N_EDITS {
        let start = Instant::now();
        let version = edit(&editor, if k % 2 == 0 { "x" } else { "1 + x" }, if k % 2 == 0 { 5 } else { 1 });
        editor.wait(version);
        times.push(start.elapsed());
    }
    report("diagnostics", times);
    let start = Instant::now();
    let version = edit(&editor, "missing", 1);
    assert_eq!(editor.wait(version).as_array().map(Vec::len), Some(1), "the error is found");
    println!("an error appears in     {:8.0} ms", milliseconds(start.elapsed()));
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{name:<24}{:8.0} ms, at most {:.0} ms", milliseconds(median), milliseconds(most));
}
