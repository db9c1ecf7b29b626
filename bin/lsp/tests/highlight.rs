//! Tests semantic tokens, hints, lenses and settings, over the protocol.

mod common;

use common::{Editor, URI};
use serde_json::{Value, json};

const TEXT: &str = "\
// 🙂
struct Ray { float3 origin; float t; }
[Differentiable]
float energy(float3 p, no_diff float scale)
{
    var y = dot(p, p);
    let n = 3;
    return y * scale;
}
namespace tools { float help(Ray ray) { return energy(ray.origin, 2); } }
";

/// The tokens as `name kind modifiers`.
fn tokens(editor: &Editor, data: &Value) -> Vec<(String, String, Vec<String>)> {
    let legend = &editor.capabilities["semanticTokensProvider"]["legend"];
    let numbers: Vec<u64> =
        data.as_array().expect("a list").iter().map(|n| n.as_u64().expect("a number")).collect();
    let (mut line, mut column) = (0, 0);
    let mut found = Vec::new();
    for token in numbers.chunks(5) {
        column = if token[0] == 0 { column + token[1] } else { token[1] };
        line += token[0];
        let start = json!({ "line": line, "character": column });
        let end = json!({ "line": line, "character": column + token[2] });
        let name = editor.text_of(URI, &json!({ "start": start, "end": end }));
        let kind = legend["tokenTypes"][token[3] as usize].as_str().expect("a kind").to_string();
        let modifiers = legend["tokenModifiers"].as_array().expect("a list").iter().enumerate();
        let modifiers = modifiers
            .filter(|(k, _)| token[4] >> k & 1 == 1)
            .map(|(_, m)| m.as_str().unwrap_or("").to_string());
        found.push((name, kind, modifiers.collect()));
    }
    found
}

/// Some attributes have longer names in the tree.
#[test]
fn attributes_are_as_long_as_they_are_written() {
    let mut editor = Editor::start();
    editor.open(
        URI,
        "[vk::binding(2, 0)] RWStructuredBuffer<float> a;\nlayout(binding = 1) buffer B { float b[]; };\n",
    );
    let full = editor.ask("textDocument/semanticTokens/full", json!({ "textDocument": { "uri": URI } }));
    let found = tokens(&editor, &full["data"]);
    let decorators: Vec<&str> = found.iter().filter(|t| t.1 == "decorator").map(|t| &t.0[..]).collect();
    assert_eq!(decorators, ["vk::binding", "binding"]);
}

#[test]
fn names_are_classified_by_what_they_refer_to() {
    let mut editor = Editor::start();
    editor.open(URI, TEXT);
    let document = json!({ "textDocument": { "uri": URI } });
    let full = editor.ask("textDocument/semanticTokens/full", document.clone());
    let found = tokens(&editor, &full["data"]);
    let is = |name: &str, kind: &str, modifier: &str| {
        let has = |m: &Vec<String>| modifier.is_empty() || m.iter().any(|m| m == modifier);
        found.iter().any(|(n, k, m)| n == name && k == kind && has(m))
    };
    for (name, kind, modifier) in [
        ("Ray", "struct", "declaration"),
        ("Ray", "struct", ""),
        ("float3", "type", ""),
        ("origin", "property", "declaration"),
        ("Differentiable", "decorator", ""),
        ("energy", "function", "differentiable"),
        ("p", "parameter", "active"),
        ("dot", "function", "defaultLibrary"),
        ("y", "variable", "active"),
        ("n", "variable", "readonly"),
        ("tools", "namespace", "declaration"),
    ] {
        assert!(is(name, kind, modifier), "{name} {kind} {modifier}: {found:#?}");
    }
    assert!(!is("scale", "parameter", "active") && !is("help", "function", "differentiable"), "{found:#?}");
    // A range has the same tokens.
    let start = TEXT.find("{\n    var").expect("it is there");
    let range = json!({ "start": common::position(TEXT, start), "end": common::position(TEXT, TEXT.find("namespace").expect("it is there")) });
    let part = editor
        .ask("textDocument/semanticTokens/range", json!({ "textDocument": { "uri": URI }, "range": range }));
    let part = tokens(&editor, &part["data"]);
    assert!(part.len() < found.len() && part.iter().all(|token| found.contains(token)), "{part:#?}");
    assert!(part.iter().any(|token| token.0 == "dot"), "{part:#?}");
    // The delta after an edit, applied to what was sent, is what is sent anew.
    let mut data: Vec<Value> = full["data"].as_array().expect("a list").clone();
    let mut id = full["resultId"].clone();
    for (old, new) in
        [("var y", "var yy"), ("let n = 3;", ""), ("struct Ray", "struct New { int a; }\nstruct Ray")]
    {
        let text = editor.texts[URI].replace(old, new);
        editor.change(URI, &text);
        let params = json!({ "textDocument": { "uri": URI }, "previousResultId": id });
        let delta = editor.ask("textDocument/semanticTokens/full/delta", params);
        for edit in delta["edits"].as_array().expect("edits") {
            let (start, n) = (
                edit["start"].as_u64().expect("a number") as usize,
                edit["deleteCount"].as_u64().expect("a number") as usize,
            );
            let new: Vec<Value> = edit["data"].as_array().cloned().unwrap_or_default();
            data.splice(start..start + n, new);
        }
        let full = editor.ask("textDocument/semanticTokens/full", document.clone());
        assert_eq!(&data, full["data"].as_array().expect("a list"), "{old}");
        id = full["resultId"].clone();
    }
    // An unknown id gets everything.
    let all = editor.ask(
        "textDocument/semanticTokens/full/delta",
        json!({ "textDocument": { "uri": URI }, "previousResultId": "x" }),
    );
    assert!(all["data"].is_array());
    editor.end();
}

/// The text with its hints in brackets.
fn hinted(editor: &mut Editor, text: &str) -> String {
    match editor.texts.contains_key(URI) {
        true => editor.change(URI, text),
        false => editor.open(URI, text),
    }
    let range = json!({ "start": common::position(text, 0), "end": common::position(text, text.len()) });
    let found =
        editor.ask("textDocument/inlayHint", json!({ "textDocument": { "uri": URI }, "range": range }));
    let mut new = text.to_string();
    for hint in found.as_array().expect("a list").iter().rev() {
        let at = common::offset(text, &hint["position"]);
        new.insert_str(at, &format!("⟨{}⟩", hint["label"].as_str().expect("a text")));
    }
    new
}

/// The checker makes calls at the residual that the attribute names; an editor shows what is written.
#[test]
fn implicit_derivatives_show_what_is_written() {
    let mut editor = Editor::start();
    let text = "import implicit;\n[Differentiable] float balance(float found, float load) { return found * found - load; }\n\
        [ImplicitDerivative(balance)]\nfloat root(float load)\n{\n    return sqrt(load);\n}\n";
    let found = hinted(&mut editor, text);
    assert!(found.contains("[ImplicitDerivative(balance)]"), "{found}");
    let places = [text.find("balance"), text.rfind("load")];
    for at in places.map(|at| at.expect("it is there") + 1) {
        let mut params = editor.at(URI, at);
        params["context"] = json!({ "includeDeclaration": true });
        let places = editor.ask("textDocument/references", params);
        assert_eq!(places.as_array().map(Vec::len), Some(2), "{places}");
    }
    editor.end();
}

#[test]
fn hints_name_parameters_types_and_what_is_active() {
    let mut editor = Editor::start();
    let text = "float mix(float first, float weight) { return first * weight; }\n[Differentiable] float f(float x, no_diff float k)\n{\n    var y = x * k;\n    var n = 2;\n    float weight = mix(3, 4);\n    float z = no_diff mix(k, weight);\n    return y + z;\n}\n";
    let found = hinted(&mut editor, text);
    assert!(found.contains("mix(⟨first:⟩3, ⟨weight:⟩4)"), "{found}");
    assert!(found.contains("mix(⟨first:⟩k, weight)"), "{found}");
    assert!(found.contains("f(float x⟨∂⟩, no_diff float k)"), "{found}");
    assert!(found.contains("var y⟨: float⟩⟨∂⟩ = x * k") && found.contains("var n⟨: int⟩ = 2"), "{found}");
    assert!(found.contains("float z = "), "{found}");
    // Settings that are pushed, and settings that are asked for.
    let settings = json!({ "inlayHints": { "types": false, "parameterNames": false } });
    editor.say("workspace/didChangeConfiguration", json!({ "settings": { "pullback": settings } }));
    let found = hinted(&mut editor, text);
    assert!(!found.contains(":⟩") && !found.contains("⟨:") && found.contains("⟨∂⟩"), "{found}");
    editor.settings = json!({ "inlayHints": { "active": false } });
    editor.said.clear();
    editor.say("workspace/didChangeConfiguration", json!({ "settings": null }));
    while !editor.said.iter().any(|said| said.0 == "workspace/configuration") {
        editor.read();
    }
    let found = hinted(&mut editor, text);
    assert!(found.contains("⟨: int⟩") && !found.contains("∂"), "{found}");
    editor.end();
}

#[test]
fn settings_say_how_files_are_read() {
    let mut editor = Editor::start();
    editor.open(URI, "float f() { return VALUE; }\n");
    assert_eq!(common::codes(&editor.checked(URI)), ["E30015"]);
    editor.say(
        "workspace/didChangeConfiguration",
        json!({ "settings": { "pullback": { "defines": ["VALUE=2"] } } }),
    );
    assert_eq!(editor.checked(URI), json!([]));
    editor.end();
}

#[test]
fn lenses_show_derivatives_and_check_them() {
    let mut editor = Editor::start();
    let text = "[Differentiable]\nfloat square(float x) { return x * x; }\nfloat plain(float x) { return x; }\n\
        [ForwardDerivative(w_fwd)] [Differentiable]\nfloat wrong(float x) { return x * x; }\n\
        DifferentialPair<float> w_fwd(DifferentialPair<float> x) { return diffPair(x.p * x.p, 3 * x.p * x.d); }\n";
    editor.open(URI, text);
    let document = json!({ "textDocument": { "uri": URI } });
    let lenses = editor.ask("textDocument/codeLens", document.clone());
    let find = |lenses: &Value, function: &str, title: &str| {
        let is_it = |l: &&Value| {
            l["command"]["arguments"][1] == function
                && l["command"]["title"].as_str().is_some_and(|t| t.contains(title))
        };
        lenses.as_array().and_then(|l| l.iter().find(is_it)).cloned()
    };
    assert!(find(&lenses, "plain", "").is_none(), "{lenses}");
    let show = find(&lenses, "square", "backward").expect("a lens");
    let answer = editor.ask("workspace/executeCommand", show["command"].clone());
    assert!(answer["text"].as_str().is_some_and(|t| t.contains("square_bwd")), "{answer}");
    let shown =
        editor.said.iter().find(|said| said.0 == "window/showDocument").cloned().expect("it is shown");
    let content = editor.ask("workspace/textDocumentContent", json!({ "uri": shown.1["uri"] }));
    assert_eq!(content["text"], answer["text"]);
    let run = find(&lenses, "square", "check gradient").expect("a lens");
    let answer = editor.ask("workspace/executeCommand", run["command"].clone());
    assert_eq!(answer["agrees"], true, "{answer}");
    assert!(editor.said.iter().any(|said| said.0 == "window/showMessage" && said.1["type"] == 3));
    let lenses = editor.ask("textDocument/codeLens", document.clone());
    assert!(find(&lenses, "square", "gradient agrees").is_some(), "{lenses}");
    // A derivative that is wrong, and one that cannot be made.
    let run = find(&lenses, "wrong", "check gradient").expect("a lens");
    let answer = editor.ask("workspace/executeCommand", run["command"].clone());
    assert_eq!(answer["agrees"], false, "{answer}");
    editor.change(URI, &text.replace("x * x; }\nfloat plain", "x * missing; }\nfloat plain"));
    let error = editor.try_ask("workspace/executeCommand", show["command"].clone());
    assert!(error.is_err_and(|e| e.contains("missing")));
    // The result was of another text.
    let lenses = editor.ask("textDocument/codeLens", document);
    assert!(find(&lenses, "square", "check gradient").is_some(), "{lenses}");
    editor.end();
}

#[test]
fn rounding_errors_are_shown_beside_variables() {
    let mut editor = Editor::start();
    let text = "[Differentiable]\nfloat cube(float x)\n{\n    float y = x * x;\n    return y * x;\n}\n";
    editor.open(URI, text);
    let document = json!({ "textDocument": { "uri": URI } });
    let titles = |lenses: &Value| -> Vec<String> {
        let all = lenses.as_array().into_iter().flatten();
        all.filter_map(|l| Some(l["command"]["title"].as_str()?.to_string())).collect()
    };
    let shown = |editor: &mut Editor| -> Vec<(u64, String)> {
        let range = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 6, "character": 0 } });
        let asks = json!({ "textDocument": { "uri": URI }, "range": range });
        let hints = editor.ask("textDocument/inlayHint", asks);
        let all = hints.as_array().into_iter().flatten();
        let figure = |h: &Value| {
            let label = h["label"].as_str().filter(|label| label.starts_with('±'))?;
            Some((h["position"]["line"].as_u64()?, label.to_string()))
        };
        all.filter_map(figure).collect()
    };
    assert!(shown(&mut editor).is_empty());
    let run = json!({ "command": "pullback.rounding", "arguments": [URI, "cube"] });
    let answer = editor.ask("workspace/executeCommand", run.clone());
    // Each of the two products has an error of half a unit, and passes it on.
    assert_eq!(answer["text"], "rounding error 1.2e-7", "{answer}");
    let lenses = editor.ask("textDocument/codeLens", document.clone());
    assert!(titles(&lenses).contains(&"rounding error 1.2e-7".to_string()), "{lenses}");
    // The returned value is shown beside the name of the function.
    assert_eq!(shown(&mut editor), [(1, "±6.0e-8".to_string()), (3, "±6.0e-8".to_string())]);
    // They were of another text.
    editor.change(URI, &text.replace("y * x", "y * missing"));
    assert!(shown(&mut editor).is_empty());
    let error = editor.try_ask("workspace/executeCommand", run);
    assert!(error.is_err_and(|e| e.contains("missing")));
    editor.end();
}
