//! Tests what helps someone who types, over the protocol.

mod common;

use common::{Editor, URI, codes, offset};
use serde_json::{Value, json};

#[test]
fn diagnostics_follow_incremental_edits_and_state_their_version() {
    let mut editor = Editor::start();
    editor.open(URI, "// 🙂 ä\r\nfloat f(float x)\r\n{\r\n    return lenght(x); // 🙂\r\n}\r\n");
    let found = editor.checked(URI);
    assert_eq!(codes(&found), ["E30015"], "{found}");
    assert_eq!(editor.text_of(URI, &found[0]["range"]), "lenght");
    // A change after characters of two code units, and one that removes them.
    let at = editor.texts[URI].find("lenght").expect("it is there");
    editor.edit(URI, at, at + 6, "length");
    let at = editor.texts[URI].rfind("🙂").expect("it is there");
    editor.edit(URI, at, at + 4, "ok\r\n    // 🙂🙂 z");
    assert_eq!(editor.checked(URI), json!([]));
    let text = editor.texts[URI].clone();
    let at = text.find("z\r\n}").expect("it is there");
    editor.edit(URI, at + 1, text.len(), "\r\n}\r\nfloat g() { return y; }\r\n");
    let found = editor.checked(URI);
    assert_eq!(editor.text_of(URI, &found[0]["range"]), "y", "{found}");
    editor.end();
}

#[test]
fn errors_of_differentiation_come_beside_errors_of_the_checker() {
    let mut editor = Editor::start();
    let text = "float plain(float x) { return x; }\n\
        [ForwardDerivative(g_fwd)] float g(float x) { return x * x; }\n\
        DifferentialPair<float> g_fwd(DifferentialPair<float> x) { return diffPair(x.p * x.p, x.d * x.d); }\n\
        [Differentiable] float f(float x) { return g(x); }\n\
        float h(float x) { return nothing; }\n\
        float broken(float x) { return x + ; }\n";
    editor.open(URI, text);
    let found = editor.checked(URI);
    let mut found = codes(&found);
    found.sort();
    assert_eq!(found, ["E0001", "E0910", "E30015"]);
    editor.change(URI, &text.replace("nothing", "x").replace("x + ;", "x;"));
    assert_eq!(codes(&editor.checked(URI)), ["E0910"]);
    editor.end();
}

#[test]
fn signature_help_follows_the_argument() {
    let mut editor = Editor::start();
    let base = "// Adds.\nfloat add(float first, float second = 1) { return first + second; }\n\
        float add(float3 first) { return first.x; }\n\
        struct Ray { float3 origin; float3 at(float t, int n) { return origin; } __init(float3 o) { origin = o; } }\n\
        [Differentiable] float f(float x, no_diff float k) { return x * k; }\n";
    let mut help = |line: &str| {
        editor.ask_at(
            "textDocument/signatureHelp",
            URI,
            &format!("{base}void main()\n{{\n    Ray ray;\n    {line}\n}}\n"),
        )
    };
    let active = |found: &Value| {
        let signature = &found["signatures"][found["activeSignature"].as_u64().unwrap_or(0) as usize];
        let parameter = &signature["parameters"][found["activeParameter"].as_u64().unwrap_or(0) as usize];
        (
            signature["label"].as_str().unwrap_or("").to_string(),
            parameter["label"].as_str().unwrap_or("").to_string(),
        )
    };
    let found = help("float y = add(1, ¦");
    assert_eq!(
        active(&found),
        ("float add(float first, float second)".into(), "float second".into()),
        "{found}"
    );
    assert_eq!(found["signatures"].as_array().map(Vec::len), Some(2));
    assert_eq!(found["signatures"][0]["documentation"]["value"], "Adds.");
    let found = help("ray.at(sin(1), ¦);");
    assert_eq!(active(&found).1, "int n", "{found}");
    let found = help("bwd_diff(f)(diffPair(1.0), ¦");
    assert!(active(&found).0.starts_with("void bwd_diff(f)(inout DifferentialPair<float> x"), "{found}");
    assert_eq!(active(&found).1, "no_diff float k");
    let found = help("Ray r = Ray(¦");
    assert_eq!(active(&found).1, "float3 o", "{found}");
    let found = help("float y = lerp(1.0, ¦");
    assert!(active(&found).0.contains("lerp"), "{found}");
    for line in ["¦", "if (¦) {}", "ray.origin¦", "undefined_function(¦)"] {
        assert_eq!(help(line), Value::Null, "{line}");
    }
    editor.end();
}

#[test]
fn attributes_are_completed_with_their_documentation() {
    let mut editor = Editor::start();
    let found = editor.ask_at("textDocument/completion", URI, "[Diff¦]\nfloat f(float x) { return x; }\n");
    let item = |label: &str| found.as_array().and_then(|l| l.iter().find(|i| i["label"] == label)).cloned();
    let differentiable = item("Differentiable").expect("it is offered");
    assert!(differentiable["documentation"]["value"].as_str().is_some_and(|t| t.contains("bwd_diff")));
    assert!(differentiable["insertText"].is_null());
    let backward = item("BackwardDerivative").expect("it is offered");
    assert_eq!(backward["insertText"], "BackwardDerivative(${1:name})");
    let rank = |found: &Value, label: &str| {
        found.as_array().and_then(|l| l.iter().find(|i| i["label"] == label)).map(|i| i["sortText"].clone())
    };
    assert!(
        rank(&found, "Differentiable").map(|r| r.to_string())
            < rank(&found, "MaxIters").map(|r| r.to_string())
    );
    let found = editor.ask_at(
        "textDocument/completion",
        URI,
        "void f() {\n    [¦\n    for (int i = 0; i < 3; i++) {}\n}\n",
    );
    assert!(
        rank(&found, "MaxIters").map(|r| r.to_string())
            < rank(&found, "Differentiable").map(|r| r.to_string())
    );
    // Not in an index.
    let found =
        editor.ask_at("textDocument/completion", URI, "void f(float a[3]) { int k = 0; float x = a[¦]; }\n");
    assert!(rank(&found, "MaxIters").is_none() && rank(&found, "k").is_some(), "{found}");
    editor.end();
}

/// Has an action carried out whose title contains `title`; the result must have no more diagnostics of the code.
fn act(editor: &mut Editor, text: &str, on: &str, title: &str) -> String {
    match editor.texts.contains_key(URI) {
        true => editor.change(URI, text),
        false => editor.open(URI, text),
    }
    let diagnostics = editor.checked(URI);
    let start = text.find(on).unwrap_or_else(|| panic!("`{on}` is there"));
    let range =
        json!({ "start": common::position(text, start), "end": common::position(text, start + on.len()) });
    let near: Vec<&Value> = diagnostics
        .as_array()
        .expect("a list")
        .iter()
        .filter(|d| {
            let (from, to) = (offset(text, &d["range"]["start"]), offset(text, &d["range"]["end"]));
            from <= start + on.len() && start <= to
        })
        .collect();
    let params =
        json!({ "textDocument": { "uri": URI }, "range": range, "context": { "diagnostics": near } });
    let actions = editor.ask("textDocument/codeAction", params);
    let is_meant = |a: &&Value| a["title"].as_str().is_some_and(|t| t.contains(title));
    let Some(action) = actions.as_array().and_then(|l| l.iter().find(is_meant)) else {
        panic!("no action `{title}` among {actions}\ndiagnostics {diagnostics}");
    };
    let new = editor.applied(&action["edit"])[URI].clone();
    editor.change(URI, &new);
    let after = editor.checked(URI);
    assert_eq!(after, json!([]), "after `{title}`:\n{new}");
    new
}

#[test]
fn each_action_gives_a_program_that_compiles() {
    let mut editor = Editor::start();
    let lost = "float g(float x) { return x * x; }\r\n[Differentiable]\r\nfloat f(float x)\r\n{\r\n    return g(x) + 1;\r\n}\r\n";
    let new = act(&mut editor, lost, "g(x)", "Mark `g`");
    assert!(new.starts_with("[Differentiable]\r\nfloat g("), "{new}");
    let new = act(&mut editor, lost, "g(x)", "no_diff");
    assert!(new.contains("return no_diff g(x) + 1;"), "{new}");
    let marked = "struct S\n{\n    [PreferRecompute]\n    static float g(float x) { return x * x; }\n}\n[Differentiable] float f(float x) { return S.g(x); }\n";
    let new = act(&mut editor, marked, "S.g(x)", "Mark `g`");
    assert!(new.contains("    [Differentiable]\n    [PreferRecompute]\n    static float g"), "{new}");
    let assigned = "float f2(float x) { return x; }\nstruct T { no_diff float k; float v; }\n[Differentiable] float f(float x) { T t; t.v = 1; t.k = x; return t.v * x; }\n";
    let new = act(&mut editor, assigned, "t.k = x", "detach");
    assert!(new.contains("t.k = detach(x);"), "{new}");
    let new = act(&mut editor, "float f(float x)\n{\n    return x;\n}\n", "f(float", "Mark `f`");
    assert!(new.starts_with("[Differentiable]\nfloat f"), "{new}");
    let looped = "[Differentiable]\nfloat f(float x)\n{\n    float s = 0;\n    for (int i = 0; i < int(x); i++)\n        s += x * s;\n    return s;\n}\n";
    let new = act(&mut editor, looped, "for (int", "MaxIters");
    assert!(new.contains("    [MaxIters(100)]\n    for (int i"), "{new}");
    let looped = "[Differentiable]\nfloat f(float x)\n{\n    float s = 1;\n    while (s < x) { s *= 2; }\n    return s * x;\n}\n";
    act(&mut editor, looped, "while", "MaxIters");
    let wrong = "[BackwardDerivative(g_bwd)]\nfloat g(float x, no_diff float k, float3 v) { return x * k * v.x; }\nvoid g_bwd(float x, float d) { }\n[Differentiable] float f(float x) { return g(x, 1, float3(2)); }\n";
    let new = act(&mut editor, wrong, "g_bwd", "parameters of a derivative");
    assert!(
        new.contains("void g_bwd(inout DifferentialPair<float> x, float k, inout DifferentialPair<float3> v, float resultGradient)"),
        "{new}"
    );
    let wrong = "float g(float x) { return x; }\n[ForwardDerivativeOf(g)]\nfloat g_fwd(float x) { return diffPair(x.p, x.d); }\n";
    let new = act(&mut editor, wrong, "(g)]", "parameters of a derivative");
    assert!(new.contains("DifferentialPair<float> g_fwd(DifferentialPair<float> x)"), "{new}");
    let pair = "[Differentiable] float f(float x) { return x * x; }\nvoid main()\n{\n    float y = 2;\n    let r = fwd_diff(f)(y);\n}\n";
    let new = act(&mut editor, pair, "(y)", "diffPair");
    assert!(new.contains("fwd_diff(f)(diffPair(y))"), "{new}");
    let pair = "[Differentiable] float f(float x) { return x * x; }\nvoid main()\n{\n    float y = 2;\n    bwd_diff(f)(y, 1.0);\n}\n";
    let new = act(&mut editor, pair, "(y, ", "diffPair");
    assert!(new.contains("    var yPair = diffPair(y);\n    bwd_diff(f)(yPair, 1.0);"), "{new}");
    editor.end();
}

#[test]
fn actions_are_offered_only_where_they_apply() {
    let mut editor = Editor::start();
    let mut titles = |text: &str, on: &str| -> Vec<String> {
        match editor.texts.contains_key(URI) {
            true => editor.change(URI, text),
            false => editor.open(URI, text),
        }
        let at = common::position(text, text.find(on).expect("it is there"));
        let params = json!({
            "textDocument": { "uri": URI }, "range": { "start": at, "end": at }, "context": { "diagnostics": [] },
        });
        let found = editor.ask("textDocument/codeAction", params);
        let list = found.as_array().expect("a list").iter();
        list.map(|a| a["title"].as_str().unwrap_or("").to_string()).collect()
    };
    assert!(titles("[Differentiable] float f(float x) { return x; }\n", "f(").is_empty());
    assert!(titles("int f(int x) { return x; }\n", "f(").is_empty());
    assert!(titles("float f(float x) { while (x > 1) { x -= 1; } return x; }\n", "while").is_empty());
    assert!(
        titles(
            "[Differentiable] float f(float x) { [MaxIters(3)] while (x > 1) { x -= 1; } return x; }\n",
            "while"
        )
        .is_empty()
    );
    assert_eq!(titles("float f(float x) { return x; }\n", "f(").len(), 1);
    editor.end();
}

#[test]
fn brackets_comments_and_imports_fold() {
    let mut editor = Editor::start();
    let text = "import a;\nimport b;\n\n// one\n// two\nfloat f(\n    float x)\n{\n    return x;\n}\n/* a\n b */\n#if 1\nint x;\n#endif\n";
    editor.open(URI, text);
    let found = editor.ask("textDocument/foldingRange", json!({ "textDocument": { "uri": URI } }));
    let ranges: Vec<(u64, u64, String)> = found
        .as_array()
        .expect("a list")
        .iter()
        .map(|f| {
            let number = |key: &str| f[key].as_u64().expect("a line");
            (number("startLine"), number("endLine"), f["kind"].as_str().unwrap_or("code").to_string())
        })
        .collect();
    for expected in
        [(0, 1, "imports"), (3, 4, "comment"), (7, 8, "code"), (10, 11, "comment"), (12, 14, "region")]
    {
        let expected = (expected.0, expected.1, expected.2.to_string());
        assert!(ranges.contains(&expected), "{expected:?} in {ranges:?}");
    }
    editor.end();
}

/// A program that takes the server some time.
fn long_program() -> String {
    let function = |k: usize| {
        format!("[Differentiable] float h{k}(float x) {{ float y = x * {k}; return y * sin(y); }}\n")
    };
    (0..1500).map(function).collect()
}

#[test]
fn a_request_that_was_cancelled_is_not_answered() {
    let mut editor = Editor::start();
    editor.open(URI, &long_program());
    // The server is busy with the first request when it gets the others.
    let document = json!({ "textDocument": { "uri": URI } });
    let first = editor.send("textDocument/semanticTokens/full", document.clone());
    let place = editor.at(URI, 25);
    let second = editor.send("textDocument/hover", place.clone());
    let third = editor.send("textDocument/hover", place);
    editor.say("$/cancelRequest", json!({ "id": second }));
    assert!(editor.answer(first).is_ok());
    assert!(editor.answer(second).is_err_and(|error| error.contains("cancelled")));
    assert!(editor.answer(third).is_ok());
    editor.end();
}

#[test]
fn a_check_stops_when_there_is_a_newer_edit() {
    let mut editor = Editor::start();
    editor.open(URI, &long_program());
    // Edits that come while the first version is being checked: the last one counts.
    for name in ["one", "two", "three"] {
        std::thread::sleep(std::time::Duration::from_millis(60));
        let at = editor.texts[URI].len();
        editor.edit(URI, at, at, &format!("float {name}() {{ return {name}_missing; }}\n"));
    }
    let found = editor.checked(URI);
    let messages: Vec<&str> =
        found.as_array().expect("a list").iter().map(|d| d["message"].as_str().unwrap_or("")).collect();
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(messages[2].contains("three_missing"), "{messages:?}");
    editor.end();
}

#[test]
fn an_edit_of_a_module_is_seen_where_it_is_imported() {
    let mut editor = Editor::start();
    let tools = "file:///nowhere/tools.slang";
    let module = "module tools;\n[Differentiable] public float twice(float x) { return 2 * x; }\n";
    editor.open(tools, module);
    editor.open(URI, "import tools;\n[Differentiable] float f(float x) { return twice(x); }\n");
    assert_eq!(editor.checked(URI), json!([]));
    // The function is no longer differentiable, then it is no longer there, then it is again.
    editor.change(tools, &module.replace("[Differentiable] ", ""));
    assert_eq!(codes(&editor.checked(URI)), ["E41022"]);
    editor.change(tools, &module.replace("twice", "thrice"));
    assert_eq!(codes(&editor.checked(URI)), ["E30015"]);
    editor.change(tools, module);
    assert_eq!(editor.checked(URI), json!([]));
    // An error in the body of the module's function is shown in the module.
    editor.change(tools, &module.replace("2 * x", "2 * y"));
    assert_eq!(editor.checked(URI), json!([]));
    assert_eq!(codes(&editor.diagnostics[tools]), ["E30015"]);
    editor.end();
}
