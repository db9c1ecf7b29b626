//! Tests what names refer to, over the protocol.

mod common;

use std::path::PathBuf;

use common::{Editor, URI};
use serde_json::{Value, json};

/// A folder of the test's own with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pullback-{name}-{}", std::process::id()));
    for (file, text) in files {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    folder.canonicalize().expect("it is there")
}

fn places(found: &Value) -> Vec<(String, u64)> {
    let list = found.as_array().expect("a list").iter();
    let mut places: Vec<(String, u64)> = list
        .map(|l| {
            let uri = l["uri"].as_str().unwrap_or("");
            (
                uri.rsplit('/').next().unwrap_or("").to_string(),
                l["range"]["start"]["line"].as_u64().expect("a line"),
            )
        })
        .collect();
    places.sort();
    places
}

fn references(editor: &mut Editor, uri: &str, word: &str) -> Value {
    let at = editor.texts[uri].find(word).expect("it is there");
    let mut params = editor.at(uri, at + 1);
    params["context"] = json!({ "includeDeclaration": true });
    editor.ask("textDocument/references", params)
}

const TOOLS: &str = "module tools;\npublic struct Ray { public float t; public float at(float s) { return t + s; } }\npublic float twice(float x) { return 2 * x; }\n";
const MAIN: &str = "import tools;\nfloat f(Ray ray) { return twice(ray.t) + ray.at(1) + twice(2); }\n";
const OTHER: &str = "import tools;\nfloat twice_more(float x) { return twice(twice(x)); }\n";

#[test]
fn references_are_found_in_all_files_of_the_workspace() {
    let folder = folder(
        "references",
        &[
            ("tools.slang", TOOLS),
            ("main.slang", MAIN),
            ("sub/other.slang", "float twice(float y) { return y; }\nfloat g() { return twice(1); }\n"),
            ("other.slang", OTHER),
        ],
    );
    let mut editor = Editor::with(json!({}), &[&folder]);
    let uri = format!("file://{}/main.slang", folder.display());
    editor.open(&uri, MAIN);
    let found = references(&mut editor, &uri, "twice(ray");
    let expected =
        [("main.slang", 1), ("main.slang", 1), ("other.slang", 1), ("other.slang", 1), ("tools.slang", 2)];
    assert_eq!(places(&found), expected.map(|(f, l)| (f.to_string(), l)));
    let found = references(&mut editor, &uri, "t) +");
    assert_eq!(places(&found).len(), 3, "{found}");
    let found = references(&mut editor, &uri, "Ray ray");
    assert_eq!(places(&found).len(), 2, "{found}");
    // Unsaved text counts, and a file that has been written since.
    editor.change(&uri, &MAIN.replace(" + twice(2)", ""));
    assert_eq!(places(&references(&mut editor, &uri, "twice(ray")).len(), 4);
    std::fs::write(folder.join("other.slang"), "import tools;\n").expect("a file");
    editor.say("workspace/didChangeWatchedFiles", json!({ "changes": [] }));
    assert_eq!(places(&references(&mut editor, &uri, "twice(ray")).len(), 2);
    // Workspace folders come and go.
    let removed = json!({ "uri": format!("file://{}", folder.display()), "name": "folder" });
    editor.say(
        "workspace/didChangeWorkspaceFolders",
        json!({ "event": { "added": [], "removed": [removed] } }),
    );
    assert_eq!(places(&references(&mut editor, &uri, "twice(ray")).len(), 2);
    editor.end();
    std::fs::remove_dir_all(folder).expect("it can be removed");
}

fn rename(editor: &mut Editor, uri: &str, word: &str, new: &str) -> Result<Value, String> {
    let at = editor.texts[uri].find(word).expect("it is there");
    let mut params = editor.at(uri, at);
    params["newName"] = json!(new);
    editor.try_ask("textDocument/rename", params)
}

#[test]
fn renaming_changes_all_uses_and_nothing_else() {
    let folder = folder("rename", &[("tools.slang", TOOLS), ("main.slang", MAIN), ("other.slang", OTHER)]);
    let mut editor = Editor::with(json!({}), &[&folder]);
    let uri = format!("file://{}/main.slang", folder.display());
    editor.open(&uri, MAIN);
    let edit = rename(&mut editor, &uri, "twice(ray", "double_of").expect("it can be renamed");
    let new = editor.applied(&edit);
    assert_eq!(new.len(), 3, "{edit}");
    assert_eq!(new[&uri], MAIN.replace("twice", "double_of"));
    let other = format!("file://{}/other.slang", folder.display());
    assert_eq!(new[&other], OTHER.replace("twice(", "double_of("));
    // Refused: the name is taken, is no name, or belongs to the library.
    let error = rename(&mut editor, &uri, "twice(ray", "Ray").expect_err("the name is taken");
    assert!(error.contains("Ray") || error.contains("errors"), "{error}");
    for name in ["1x", "a b", "", "return", "float"] {
        assert!(rename(&mut editor, &uri, "twice(ray", name).is_err(), "{name}");
    }
    editor.end();
    std::fs::remove_dir_all(folder).expect("it can be removed");
}

#[test]
fn renaming_is_refused_where_it_would_change_the_meaning() {
    let mut editor = Editor::start();
    let text = "static float g = 1;\nfloat f(float x)\n{\n    float y = x;\n    { float z = 2; y += z + g; }\n    return y + sin(g);\n}\nfloat h(float w) { return f(w); }\n\
        interface IShape { float area(); }\nstruct Square : IShape { float a; float area() { return a * a; } }\n";
    editor.open(URI, text);
    let new = rename(&mut editor, URI, "y = x", "total").expect("it is free");
    assert_eq!(
        editor.applied(&new)[URI],
        text.replace("y = x", "total = x")
            .replace("y += z", "total += z")
            .replace("return y", "return total")
    );
    // A local variable would hide the global where both are read.
    assert!(rename(&mut editor, URI, "z = 2", "g").is_err());
    assert!(rename(&mut editor, URI, "g = 1", "z").is_err());
    // The member is required under this name.
    assert!(rename(&mut editor, URI, "area() { return", "size").is_err());
    // The library's names stay.
    let at = text.find("sin(").expect("it is there");
    let params = editor.at(URI, at + 1);
    assert_eq!(editor.ask("textDocument/prepareRename", params), Value::Null);
    assert!(rename(&mut editor, URI, "sin(", "sine").is_err());
    let params = editor.at(URI, text.find("y += z").expect("it is there"));
    let found = editor.ask("textDocument/prepareRename", params);
    assert_eq!(
        (found["placeholder"].as_str(), editor.text_of(URI, &found["range"])),
        (Some("y"), "y".to_string())
    );
    editor.end();
}

#[test]
fn derivatives_in_attributes_are_references() {
    let mut editor = Editor::start();
    let text = "[BackwardDerivative(f_bwd)]\nfloat f(float x) { return x * x; }\nvoid f_bwd(inout DifferentialPair<float> x, float d) { x = diffPair(x.p, 2 * x.p * d); }\n[Differentiable] float g(float x) { return f(x); }\n";
    editor.open(URI, text);
    let new = rename(&mut editor, URI, "f_bwd(inout", "f_reverse").expect("it is free");
    assert_eq!(editor.applied(&new)[URI], text.replace("f_bwd", "f_reverse"));
    editor.end();
}

#[test]
fn highlights_tell_reads_from_writes() {
    let mut editor = Editor::start();
    let found = editor.ask_at(
        "textDocument/documentHighlight",
        URI,
        "float f(float x)\n{\n    float y = x;\n    y += 1;\n    y[0] = 2;\n    return ¦y;\n}\nfloat g(float y) { return y; }\n",
    );
    let kinds: Vec<u64> =
        found.as_array().expect("a list").iter().map(|h| h["kind"].as_u64().unwrap_or(0)).collect();
    assert_eq!(kinds, [3, 3, 3, 2], "{found}");
    editor.end();
}

#[test]
fn the_symbols_of_the_workspace_are_found_by_their_letters() {
    let folder = folder(
        "symbols",
        &[
            ("a.slang", "struct Camera { float3 eye; float3 lookAt() { return eye; } }\n"),
            ("b/c.slang", "float look(float x) { return x; }\n"),
            (".hidden/d.slang", "float lookup() { return 1; }\n"),
        ],
    );
    let mut editor = Editor::with(json!({}), &[&folder]);
    let found = editor.ask("workspace/symbol", json!({ "query": "look" }));
    let names: Vec<&str> =
        found.as_array().expect("a list").iter().map(|s| s["name"].as_str().unwrap_or("")).collect();
    assert_eq!(names, ["lookAt", "look"], "{found}");
    assert_eq!(found[0]["containerName"], "Camera");
    let found = editor.ask("workspace/symbol", json!({ "query": "cmr" }));
    assert_eq!(found[0]["name"], "Camera");
    editor.end();
    std::fs::remove_dir_all(folder).expect("it can be removed");
}

#[test]
fn the_core_library_can_be_visited() {
    let mut editor = Editor::start();
    let text = "float f(float x) { return ¦sin(x); }\n";
    let found = editor.ask_at("textDocument/definition", URI, text);
    let uri = found["uri"].as_str().expect("a document").to_string();
    assert_eq!(uri, "pullback-core:/core/math.slang");
    let content = editor.ask("workspace/textDocumentContent", json!({ "uri": uri }));
    let content = content["text"].as_str().expect("a text");
    let line = found["range"]["start"]["line"].as_u64().expect("a line") as usize;
    assert!(
        content.lines().nth(line).is_some_and(|line| line.contains(" sin")),
        "{:?}",
        content.lines().nth(line)
    );
    assert!(
        editor
            .try_ask("workspace/textDocumentContent", json!({ "uri": "pullback-core:/../secret" }))
            .is_err()
    );
    let hover = editor.ask_at("textDocument/hover", URI, "float f(float x) { return ¦clamp(x, 0, 1); }\n");
    let hover = hover["contents"]["value"].as_str().expect("a text").to_string();
    assert!(hover.contains("core library") && hover.contains("clamp"), "{hover}");
    let hover =
        editor.ask_at("textDocument/hover", URI, "[Differ¦entiable] float f(float x) { return x; }\n");
    assert!(hover["contents"]["value"].as_str().is_some_and(|t| t.contains("bwd_diff")), "{hover}");
    editor.end();
}
