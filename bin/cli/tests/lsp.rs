//! Tests the language server from the point of view of an editor: the program, its standard input and output,
//! and the protocol.

use std::io::{BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use lsp_server::{Message, Notification, Request, RequestId};
use serde_json::{Value, json};

struct Editor {
    server: Child,
    to: BufWriter<ChildStdin>,
    from: BufReader<ChildStdout>,
    last: i32,
    /// The lists of diagnostics received so far, each with the name of its file.
    published: Vec<(String, Value)>,
}

impl Editor {
    fn start(options: Value) -> Editor {
        let mut server = Command::new(env!("CARGO_BIN_EXE_pullback"))
            .arg("lsp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let to = BufWriter::new(server.stdin.take().expect("piped"));
        let from = BufReader::new(server.stdout.take().expect("piped"));
        let mut editor = Editor { server, to, from, last: 0, published: Vec::new() };
        let found = editor.ask(
            "initialize",
            json!({ "capabilities": {}, "initializationOptions": options, "processId": null }),
        );
        assert_eq!(found["capabilities"]["hoverProvider"], true);
        editor.say("initialized", json!({}));
        editor
    }

    fn say(&mut self, method: &str, params: Value) {
        Message::Notification(Notification { method: method.into(), params })
            .write(&mut self.to)
            .expect("the server reads");
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = RequestId::from(self.last);
        Message::Request(Request { id: id.clone(), method: method.into(), params })
            .write(&mut self.to)
            .expect("the server reads");
        loop {
            match self.read() {
                Message::Response(response) if response.id == id => {
                    let text = serde_json::to_value(&response).expect("it was JSON");
                    assert!(text.get("error").is_none(), "{method}: {text}");
                    return text["result"].clone();
                }
                _ => {}
            }
        }
    }

    fn read(&mut self) -> Message {
        let message = Message::read(&mut self.from).expect("the server writes").expect("the server is there");
        if let Message::Notification(n) = &message
            && n.method == "textDocument/publishDiagnostics"
        {
            let uri = n.params["uri"].as_str().expect("a name").to_string();
            self.published.push((uri, n.params["diagnostics"].clone()));
        }
        message
    }

    /// The next list of diagnostics for a file.
    fn diagnostics(&mut self, uri: &str) -> Value {
        loop {
            if let Some(at) = self.published.iter().position(|p| p.0 == uri) {
                return self.published.remove(at).1;
            }
            self.read();
        }
    }

    fn open(&mut self, uri: &str, text: &str) {
        let document = json!({ "uri": uri, "languageId": "slang", "version": 1, "text": text });
        self.say("textDocument/didOpen", json!({ "textDocument": document }));
    }

    fn change(&mut self, uri: &str, text: &str) {
        let document = json!({ "uri": uri, "version": 2 });
        let changes = json!([{ "text": text }]);
        self.say("textDocument/didChange", json!({ "textDocument": document, "contentChanges": changes }));
    }

    /// Sends a request about the position of the marker `¦`; the document has the text without the marker.
    fn ask_at(&mut self, method: &str, uri: &str, marked: &str) -> Value {
        let at = marked.find('¦').expect("a marker");
        let line = marked[..at].matches('\n').count();
        let column =
            marked[..at].chars().rev().take_while(|&c| c != '\n').map(char::len_utf16).sum::<usize>();
        let position = json!({ "line": line, "character": column });
        self.ask(method, json!({ "textDocument": { "uri": uri }, "position": position }))
    }

    /// Replaces the document by the text without the marker, and sends a request about the marker's position.
    fn at(&mut self, method: &str, uri: &str, marked: &str) -> Value {
        self.change(uri, &marked.replace('¦', ""));
        self.ask_at(method, uri, marked)
    }

    fn hover(&mut self, uri: &str, marked: &str) -> String {
        self.at("textDocument/hover", uri, marked)["contents"]["value"].as_str().unwrap_or("").to_string()
    }

    fn completions(&mut self, uri: &str, marked: &str) -> Vec<(String, String)> {
        let found = self.at("textDocument/completion", uri, marked);
        let items = found.as_array().expect("a list").iter();
        items
            .map(|i| {
                let text = |key: &str| i[key].as_str().unwrap_or("").to_string();
                (text("label"), text("detail"))
            })
            .collect()
    }

    fn end(mut self) {
        self.ask("shutdown", Value::Null);
        self.say("exit", Value::Null);
        drop(self.to);
        assert!(self.server.wait().expect("it ends").success());
    }
}

const URI: &str = "file:///nowhere/kernel.slang";

#[test]
fn diagnostics_come_and_go_as_one_types() {
    let mut editor = Editor::start(json!({}));
    editor.open(URI, "float f(float x)\n{\n    return lenght(x);\n}\n");
    let found = editor.diagnostics(URI);
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!(found[0]["code"], "E30015");
    assert_eq!(found[0]["range"]["start"], json!({ "line": 2, "character": 11 }));
    assert_eq!(found[0]["range"]["end"], json!({ "line": 2, "character": 17 }));
    assert!(found[0]["message"].as_str().is_some_and(|m| m.contains("length")), "{found}");
    editor.change(URI, "float f(float x)\n{\n    return length(x);\n}\n");
    assert_eq!(editor.diagnostics(URI), json!([]));
    editor.end();
}

#[test]
fn what_is_lost_by_differentiation_is_shown_too() {
    let mut editor = Editor::start(json!({}));
    editor.open(URI, "float g(float x) { return x; }\n[Differentiable] float f(float x) { return g(x); }\n");
    let found = editor.diagnostics(URI);
    assert_eq!(found[0]["range"]["start"]["line"], 1, "{found}");
    editor.end();
}

#[test]
fn hover_shows_types_and_derivatives() {
    let mut editor = Editor::start(json!({}));
    editor.open(URI, "");
    let text = "
// The squared length.
[Differentiable] float energy(float3 p, no_diff float scale) { return dot(p, p) * scale; }
struct Ray { float3 origin; float t; }
void main()
{
    Ray ray = { float3(1), 2 };
    var p = diffPair(ray.origin);
    bwd_diff(energy)(p, 2.0, 1.0);
    float k = energy(ray.origin, 1.0) + 1;
}
";
    let on = |word: &str| {
        let at = text.find(word).expect("it is there");
        format!("{}¦{}", &text[..at + 1], &text[at + 1..])
    };
    let hover = editor.hover(URI, &on("energy)("));
    assert!(hover.contains("void bwd_diff(energy)(inout DifferentialPair<float3> p"), "{hover}");
    assert!(hover.contains("float energy(float3 p, no_diff float scale)"), "{hover}");
    assert!(hover.contains("The squared length."), "{hover}");
    let hover = editor.hover(URI, &on("bwd_diff"));
    assert!(hover.contains("void bwd_diff(energy)"), "{hover}");
    let hover = editor.hover(URI, &on("p = diffPair"));
    assert!(hover.contains("DifferentialPair<float3> p"), "{hover}");
    let hover = editor.hover(URI, &on("origin);"));
    assert!(hover.contains("float3 origin") && hover.contains("field of `Ray`"), "{hover}");
    let hover = editor.hover(URI, &on("Ray ray"));
    assert!(hover.contains("struct Ray"), "{hover}");
    let hover = editor.hover(URI, &on("energy(ray"));
    assert!(hover.contains("fwd_diff(energy)"), "{hover}");
    let hover = editor.hover(URI, &on("scale; }"));
    assert!(hover.contains("no_diff float scale") && hover.contains("parameter of `energy`"), "{hover}");
    let hover = editor.hover(URI, &on("dot("));
    assert!(hover.contains("core library"), "{hover}");
    assert_eq!(editor.hover(URI, &format!("¦{text}")), "");
    editor.end();
}

#[test]
fn definitions_are_found_in_other_files() {
    let folder = std::env::temp_dir().join(format!("pullback-lsp-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("lib")).expect("a folder");
    std::fs::write(
        folder.join("lib/tools.slang"),
        "module tools;\npublic float twice(float x) { return 2 * x; }\n",
    )
    .expect("a file");
    let folder = folder.canonicalize().expect("it is there");
    let mut editor = Editor::start(json!({ "includeDirs": [folder.join("lib")] }));
    let uri = format!("file://{}/main.slang", folder.display());
    let tools = format!("file://{}/lib/tools.slang", folder.display());
    editor.open(&uri, "");
    let found =
        editor.at("textDocument/definition", &uri, "import tools;\nfloat f() { return twi¦ce(3); }\n");
    assert_eq!(found["uri"], tools.as_str(), "{found}");
    assert_eq!(found["range"]["start"], json!({ "line": 1, "character": 13 }));
    let found = editor.at("textDocument/definition", &uri, "import to¦ols;\n");
    assert_eq!(found["uri"], tools.as_str(), "{found}");
    let found = editor.at("textDocument/definition", &uri, "float g(float y) { float z = y; return ¦z; }\n");
    assert_eq!(found["uri"], uri.as_str());
    assert_eq!(found["range"]["start"]["character"], 25);
    // Unsaved text is used as well.
    editor.open(&tools, "module tools;\npublic float thrice(float x) { return 3 * x; }\n");
    let found =
        editor.at("textDocument/definition", &uri, "import tools;\nfloat f() { return ¦thrice(3); }\n");
    assert_eq!(found["uri"], tools.as_str(), "{found}");
    editor.end();
    std::fs::remove_dir_all(folder).expect("it can be removed");
}

#[test]
fn completion_offers_members_and_names() {
    let mut editor = Editor::start(json!({}));
    editor.open(URI, "");
    let labels = |found: &[(String, String)]| found.iter().map(|f| f.0.clone()).collect::<Vec<_>>();
    let text = "
struct Ray { float3 origin; float3 at(float t) { return origin; } static Ray unit() { return {}; } }
enum Kind { Near, Far }
namespace tools { float help(float x) { return x; } }
void main(Ray argument)
{
    Ray ray;
    if (true) { float inner = 1; }
    HERE
}
";
    let mut at = |line: &str| editor.completions(URI, &text.replace("HERE", line));
    let found = at("float3 x = ray.¦");
    assert!(found.contains(&("origin".into(), "float3".into())), "{found:?}");
    assert!(found.iter().any(|f| f.0 == "at" && f.1.contains("float t")), "{found:?}");
    let found = at("float3 x = ray.or¦;");
    assert!(labels(&found).contains(&"origin".to_string()), "{found:?}");
    let found = at("var x = ray.origin.¦");
    assert!(labels(&found).contains(&"xyz".to_string()), "{found:?}");
    let found = at("var p = diffPair(1.0); p.¦");
    assert_eq!(&labels(&found)[..2], ["p", "d"]);
    let found = at("var x = Ray.¦");
    assert_eq!(labels(&found), ["unit"]);
    let found = at("Kind k = Kind::¦");
    assert!(labels(&found).contains(&"Far".to_string()), "{found:?}");
    let found = at("float x = tools::¦");
    assert_eq!(labels(&found), ["help"]);
    let found = labels(&at("ra¦"));
    for name in ["ray", "argument", "main", "Ray", "Kind", "tools", "sin", "return", "bwd_diff"] {
        assert!(found.contains(&name.to_string()), "{name}");
    }
    assert!(!found.contains(&"inner".to_string()), "a name of another block");
    editor.end();
}

#[test]
fn the_outline_is_nested() {
    let mut editor = Editor::start(json!({}));
    editor.open(
        URI,
        "struct S { float a; float f() { return a; } }\nnamespace n { static const int N = 3; }\n",
    );
    let found = editor.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": URI } }));
    assert_eq!(found[0]["name"], "S");
    assert_eq!(found[0]["children"][0]["name"], "a");
    assert_eq!(found[0]["children"][1]["name"], "f");
    assert_eq!(found[0]["children"][1]["detail"], "float f()");
    assert_eq!(found[1]["children"][0]["name"], "N");
    editor.end();
}

#[test]
fn nonsense_does_not_end_the_server() {
    let mut editor = Editor::start(json!({}));
    editor.open(URI, "struct { ( [ < fwd_diff(");
    editor.diagnostics(URI);
    for marked in
        ["¦", "float f(¦", "x.¦", "struct S { S s; }; S s; void f() { s.¦ }", "🙂.¦", "import ¦", "[¦"]
    {
        editor.at("textDocument/completion", URI, marked);
        editor.ask_at("textDocument/hover", URI, marked);
        editor.ask_at("textDocument/definition", URI, marked);
    }
    let far = json!({ "textDocument": { "uri": URI }, "position": { "line": 99, "character": 99 } });
    assert_eq!(editor.ask("textDocument/hover", far), Value::Null);
    let unknown = json!({ "textDocument": { "uri": "file:///other.slang" }, "position": { "line": 0, "character": 0 } });
    assert_eq!(editor.ask("textDocument/hover", unknown), Value::Null);
    editor.end();
}

#[test]
fn a_message_that_is_too_long_ends_the_server_with_an_error() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_pullback"))
        .arg("lsp")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let input = server.stdin.as_mut().expect("piped");
    input.write_all(b"Content-Length: 99999999999999\r\n\r\n{}").expect("the server reads");
    let output = server.wait_with_output().expect("the server ends");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("error: ") && said.contains("99999999999999"), "{said}");
}

#[test]
fn documents_are_formatted() {
    let mut editor = Editor::start(json!({}));
    let text = "float f(float x)\n{\n  float ä=x;\n      return ä*2;\n}\n";
    editor.open(URI, text);
    let options = json!({ "tabSize": 4, "insertSpaces": true });
    let document = json!({ "uri": URI });
    let edits =
        editor.ask("textDocument/formatting", json!({ "textDocument": document, "options": options }));
    assert_eq!(applied(text, &edits), "float f(float x)\n{\n    float ä = x;\n    return ä * 2;\n}\n");
    let range = json!({ "start": { "line": 3, "character": 0 }, "end": { "line": 3, "character": 1 } });
    let edits = editor.ask(
        "textDocument/rangeFormatting",
        json!({ "textDocument": document, "options": options, "range": range }),
    );
    assert_eq!(applied(text, &edits), "float f(float x)\n{\n  float ä=x;\n    return ä * 2;\n}\n");
    let edits = editor.ask(
        "textDocument/onTypeFormatting",
        json!({ "textDocument": document, "options": options, "ch": ";", "position": { "line": 2, "character": 12 } }),
    );
    assert_eq!(applied(text, &edits), "float f(float x)\n{\n    float ä = x;\n      return ä*2;\n}\n");
    editor.end();
}

/// A text of single UTF-16 units after edits.
fn applied(text: &str, edits: &Value) -> String {
    let offset = |position: &Value| {
        let number = |key: &str| position[key].as_u64().expect("a number") as usize;
        let line: usize =
            text.split_inclusive('\n').take(number("line")).map(|line| line.chars().count()).sum();
        line + number("character")
    };
    let mut out: Vec<char> = text.chars().collect();
    for edit in edits.as_array().expect("a list").iter().rev() {
        let range = offset(&edit["range"]["start"])..offset(&edit["range"]["end"]);
        out.splice(range, edit["newText"].as_str().expect("a text").chars());
    }
    out.into_iter().collect()
}
