//! Sends every request about programs that end anywhere, as they do while they are typed. The server must answer all
//! of them: a request that makes the compiler panic is answered by an error that says so.

mod common;

use common::{Editor, URI};
use serde_json::{Value, json};
use test_support::{Random, boundary, programs};

/// Sends every request about a place of a document, and its whole.
fn ask_everything(editor: &mut Editor, uri: &str, at: usize) {
    let text = editor.texts[uri].clone();
    let document = json!({ "uri": uri });
    let whole = json!({ "start": common::position(&text, 0), "end": common::position(&text, text.len()) });
    let here = common::position(&text, at);
    let place = json!({ "textDocument": document, "position": here });
    let with = |key: &str, value: Value| {
        let mut params = place.clone();
        params[key] = value;
        params
    };
    let about_document = json!({ "textDocument": document, "range": whole, "previousResultId": "1" });
    let action = json!({
        "textDocument": document, "range": { "start": here, "end": here }, "context": { "diagnostics": [] },
    });
    let requests = [
        ("textDocument/hover", place.clone()),
        ("textDocument/definition", place.clone()),
        ("textDocument/documentHighlight", place.clone()),
        ("textDocument/prepareRename", place.clone()),
        ("textDocument/completion", place.clone()),
        ("textDocument/signatureHelp", place.clone()),
        ("textDocument/references", with("context", json!({ "includeDeclaration": true }))),
        ("textDocument/rename", with("newName", json!("renamed"))),
        ("textDocument/codeAction", action),
        ("textDocument/documentSymbol", about_document.clone()),
        ("textDocument/foldingRange", about_document.clone()),
        ("textDocument/semanticTokens/full", about_document.clone()),
        ("textDocument/semanticTokens/full/delta", about_document.clone()),
        ("textDocument/semanticTokens/range", about_document.clone()),
        ("textDocument/inlayHint", about_document.clone()),
        ("textDocument/codeLens", about_document),
        ("workspace/symbol", json!({ "query": "a" })),
    ];
    for (method, params) in requests {
        if let Err(error) = editor.try_ask(method, params) {
            assert!(!error.contains("bug"), "{method} at {at} of:\n{text}");
        }
    }
}

/// Each program is cut at random, asked about at random, and continued by a few letters. `PULLBACK_CUTS` sets how often
/// that is done.
#[test]
fn programs_that_end_anywhere_are_answered_about() {
    let n: usize = std::env::var("PULLBACK_CUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let all = programs(&["tests"]);
    assert!(all.len() > 300, "the programs are there");
    let mut random = Random(7);
    let mut editor = Editor::start();
    for _ in 0..n {
        let text = std::fs::read_to_string(&all[random.below(all.len())]).expect("a file of the repository");
        if text.len() > 6000 {
            continue;
        }
        let text = if random.below(3) == 0 { text.replace('\n', "\r\n") } else { text };
        let end = boundary(&text, random.below(text.len() + 1));
        let cut = &text[..end];
        match editor.texts.contains_key(URI) {
            true => editor.change(URI, cut),
            false => editor.open(URI, cut),
        }
        ask_everything(&mut editor, URI, end);
        let at = boundary(cut, random.below(cut.len() + 1));
        for typed in ["(", "x.", "[", "\"", "🙂"] {
            if random.below(4) == 0 {
                editor.edit(URI, at, at, typed);
            }
        }
        let len = editor.texts[URI].len();
        let at = boundary(&editor.texts[URI], random.below(len + 1));
        ask_everything(&mut editor, URI, at);
    }
    editor.end();
}

/// Every prefix of a program that has some of everything.
#[test]
fn every_prefix_of_a_program_is_answered_about() {
    let text = "import x;\r\nstruct S<T> : I { T a; __init(T v) { a = v; } }\n\
        [BackwardDerivative(b)] float f(float x, out S<int> s) { for (int i = 0; i < 3; i++) { x += i; } return x; }\n\
        #define M(a) a\n[Differentiable] float3 g(no_diff float k) { let p = diffPair(k); return f<>(M(k), {1}).xxx; }\n\
        enum E { A = 1, B } /* ä🙂 */ extension S<float> { property q : float { get { return a; } } }\n";
    let mut editor = Editor::start();
    editor.open(URI, "");
    for (end, _) in text.char_indices().step_by(7) {
        editor.change(URI, &text[..end]);
        ask_everything(&mut editor, URI, end);
    }
    editor.end();
}

/// Broken programs are checked, too: diagnostics never end the thread that publishes them.
#[test]
fn broken_programs_are_checked() {
    let all = programs(&["tests"]);
    let mut random = Random(3);
    let mut editor = Editor::start();
    editor.open(URI, "");
    for _ in 0..12 {
        let text = std::fs::read_to_string(&all[random.below(all.len())]).expect("a file of the repository");
        if text.len() > 6000 {
            continue;
        }
        let end = boundary(&text, random.below(text.len() + 1));
        editor.change(URI, &text[..end]);
        editor.checked(URI);
    }
    editor.change(URI, "float f(float x) { return y; }\n");
    assert_eq!(common::codes(&editor.checked(URI)), ["E30015"]);
    editor.end();
}
