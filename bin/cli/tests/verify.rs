//! Tests the findings of `pullback verify`, the functions that it does not check, and its output.

mod common;

use common::{Out, file, pullback};
use serde_json::Value as Json;

fn run(name: &str, text: &str, args: &[&str]) -> Out {
    let path = file(&format!("verify-{name}.slang"), text);
    pullback(&[&[args[0], &path], &args[1..]].concat())
}

/// The entry of a function; fails the test if there is none.
fn function<'j>(json: &'j Json, name: &str) -> &'j Json {
    let all = json["functions"].as_array().expect("a list");
    all.iter().find(|f| f["function"] == name).unwrap_or_else(|| panic!("no `{name}` in {json}"))
}

const GOOD: &str = "
StructuredBuffer<float> w;
struct Q : IDifferentiable
{
    float a; float b;
    [Differentiable] float len() { return sqrt(a * a + b * b + 0.1); }
    [Differentiable] __init(float x) { a = x; b = 1; }
    static [Differentiable] float of(float x) { return x * x; }
}
extension Q { [Differentiable] float twice() { return a * 2 + b * b; } }
namespace ns { [Differentiable] float inner(float x) { return exp(x); } }
interface IShape { [Differentiable] float area(float x); }
[Differentiable] float dynamic(IShape s, float x) { return s.area(x); }
[Differentiable] T generic<T : __BuiltinFloatingPointType>(T x) { return x * x; }
[Differentiable] float takes(no_diff RWStructuredBuffer<float> b, float x) { return b[0] * x; }
[Differentiable] float reads(float x) { return w[0] * x; }
[ForwardDifferentiable] float forward_only(float x) { return x * x * x; }
[Differentiable] float loops(float x, no_diff int n)
{
    float2x2 m = float2x2(x, 1, x, 2);
    for (int i = 0; i < n; i++) { m += m * m[i % 2].x; if (m[0].x > 0.7) break; }
    return m[0].x;
}
[Differentiable] float usual(float x) { return x * x * x; }
[Differentiable] float nested(float x) { return fwd_diff(usual)(diffPair(x, 1.0)).d; }
static float state = 2.0;
[Differentiable] float stateful(float x) { state = state * 2; return x * x * detach(state); }
[Differentiable] half halves(half x, half3 y) { return x * x * y.y + y.z; }
[Differentiable] void both(inout double a, out float2 b, float c) { b = float2(c, float(a)); a = sin(a) * c; }
[Differentiable] float constant(no_diff float x) { return x; }
float plain(float x) { return x; }
";

const QUICK: [&str; 4] = ["--points", "2", "--backend", "interp,cranelift"];

#[test]
fn every_differentiable_function_is_checked_or_said_not_to_be() {
    let out = run("good", GOOD, &[&["verify", "--json", "--bind", "w=[3]"], &QUICK[..]].concat());
    let json = out.json();
    assert!(out.status == Some(0) && json["agrees"] == true, "{json} {}", out.stderr);
    let checked = [
        "Q.len",
        "Q.of",
        "ns.inner",
        "reads",
        "forward_only",
        "loops",
        "usual",
        "nested",
        "stateful",
        "halves",
        "both",
    ];
    for name in checked {
        let rows = function(&json, name)["rows"].as_array().expect("rows");
        // Two backends, three levels, two kinds of numbers.
        assert_eq!(rows.len(), 12, "{name}");
        for row in rows {
            assert!(row["agree"].as_u64() > Some(0) && row["differ"] == 0, "{name}: {row}");
        }
    }
    let not = [
        ("dynamic", "interface"),
        ("generic", "generic"),
        ("takes", "parameter `b`"),
        ("Q.__init", "constructor"),
        ("constant", "no differentiable input"),
    ];
    for (name, why) in not {
        let said = function(&json, name)["not_checked"].as_str().unwrap_or_default();
        assert!(said.contains(why), "{name}: {said}");
    }
    assert!(!out.stdout.contains("plain"));
}

#[test]
fn memory_that_is_not_bound_is_said() {
    let out = run("unbound", GOOD, &[&["verify", "reads", "usual"], &QUICK[..]].concat());
    assert_eq!(out.status, Some(0), "{}", out.stderr);
    assert!(out.stdout.contains("reads is not checked: `w` is not bound: `--bind w="), "{}", out.stdout);
    let out = run("unbound", GOOD, &[&["verify", "reads"], &QUICK[..]].concat());
    assert_eq!(out.status, Some(1), "nothing is checked: {}", out.stdout);
}

#[test]
fn every_backend_of_the_build_takes_part() {
    let out = run("backends", GOOD, &["verify", "loops", "halves", "both", "--points", "2", "--json"]);
    let json = out.json();
    assert!(out.status == Some(0), "{json} {}", out.stderr);
    let rows = function(&json, "loops")["rows"].as_array().expect("rows").clone();
    let has = |backend: &str| rows.iter().any(|r| r["backend"] == backend);
    assert!(has("interp") && has("cranelift") && has("llvm") == cfg!(feature = "llvm"), "{json}");
    for lanes in ["1", "4", "16"].iter().filter(|_| cfg!(feature = "llvm")) {
        let out =
            run("lanes", GOOD, &["verify", "loops", "--points", "3", "--backend", "llvm", "--lanes", lanes]);
        assert_eq!(out.status, Some(0), "{}{}", out.stdout, out.stderr);
    }
}

/// Functions with an incorrect custom derivative, and the message that reveals it.
const WRONG: [(&str, &str); 6] = [
    (
        "one mode",
        "[BackwardDerivative(b)] float g(float x) { return x * x; } void b(inout DifferentialPair<float> p, float d) { p = diffPair(p.p, 3 * d); }",
    ),
    (
        "both modes",
        "[ForwardDerivative(f)] float g(float x) { return x * x; } DifferentialPair<float> f(DifferentialPair<float> p) { return diffPair(p.p * p.p, 3 * p.d); }",
    ),
    (
        "value",
        "[ForwardDerivative(f)] float g(float x) { return x * x; } DifferentialPair<float> f(DifferentialPair<float> p) { return diffPair(p.p * p.p, p.p * p.p * p.d); }",
    ),
    (
        "sign",
        "[BackwardDerivative(b)] float g(float x) { return sin(x); } void b(inout DifferentialPair<float> p, float d) { p = diffPair(p.p, -cos(p.p) * d); }",
    ),
    (
        "lost",
        "[ForwardDerivative(f)] float g(float x) { return x * x; } DifferentialPair<float> f(DifferentialPair<float> p) { return diffPair(p.p * p.p, 0 * p.d); }",
    ),
    (
        "nan",
        "[ForwardDerivative(f)] [BackwardDerivative(b)] float g(float x) { return x * x; } DifferentialPair<float> f(DifferentialPair<float> p) { return diffPair(p.p * p.p, 2 * p.p * p.d); } void b(inout DifferentialPair<float> p, float d) { p = diffPair(p.p, 0.0 / (p.p - p.p)); }",
    ),
];

#[test]
fn what_is_wrong_is_found_by_verify_and_gradcheck() {
    for (name, text) in WRONG {
        // A derivative that is cut beside it hides nothing.
        let text = format!("{text}\n[Differentiable] float h(float x) {{ return g(x) * detach(x) + x; }}\n");
        let out = run("wrong", &text, &[&["verify", "h"], &QUICK[..]].concat());
        assert_eq!(out.status, Some(1), "{name}: {}{}", out.stdout, out.stderr);
        let shown = out.stdout.contains("h on cranelift -O0 (double numbers) at x = ");
        assert!(shown && out.stdout.contains("DIFFERS in d result/d x: forward "), "{name}: {}", out.stdout);
        let out = run("wrong", &text, &["gradcheck", "h"]);
        assert_eq!(out.status, Some(1), "{name}: {}", out.stdout);
    }
}

/// Functions with a derivative that is cut on purpose.
const CUT: [&str; 20] = [
    "[Differentiable] float f(float x, float y) { return detach(x) * y; }",
    "[Differentiable] float f(float x) { return detach(x * x) + x; }",
    "float g(float x) { return x * x * 3; } [Differentiable] float f(float x) { return no_diff(g(x)) * x; }",
    "[Differentiable] float g(no_diff float a, float y) { return a * y; } [Differentiable] float f(float x) { return g(x, x); }",
    "[Differentiable] float f(float x) { return asfloat(asuint(x)) * x; }",
    "[Differentiable] float f(float x) { return asfloat(asuint(x) ^ 0x80000000u) * x; }",
    "[Differentiable] float f(float x) { return float(int(x * 1e9)) / 1e9 + x; }",
    "[Differentiable] float f(float x) { return no_diff(floor(x * 1e7)) / 1e7 + x; }",
    "[Differentiable] float f(float x) { int i = int(floor(x * 1e7)); return float(i) * 1e-7 * x; }",
    "[Differentiable] float f(float x) { int i = int(detach(x) * 1e7); return asfloat(asint(1.0) + i) * x; }",
    "struct P { float v; } [Differentiable] float f(float x) { P p; p.v = detach(x); return p.v * x; }",
    "[Differentiable] float f(float x) { b[0] = detach(x); return detach(b[0]) * x; }",
    "static float s; [Differentiable] float f(float x) { s = detach(x); return s * x; }",
    "[Differentiable] float f(float x) { float s = 0; for (int i = 0; i < 3; i++) { s += detach(s) * x + x; } return s; }",
    "[Differentiable] float f(float x, out float y) { y = detach(x) * x; return x; }",
    "[Differentiable] float3 f(float3 x) { return detach(x.zyx) * x; }",
    "[Differentiable] half f(half x) { return detach(x) * x; }",
    "[Differentiable] float g(float x) { return detach(x) * x * x; } [Differentiable] float f(float x) { return fwd_diff(g)(diffPair(x, 1.0)).d; }",
    "[Differentiable] float f(float x) { return x > -9 ? detach(x) : x; }",
    "[Differentiable] float f(float x, no_diff int n) { if (n <= 0) return x; return f(detach(x) * 1.5 + x, 0); }",
];

#[test]
fn a_derivative_that_is_cut_is_said_to_be() {
    for text in CUT {
        let text = format!("RWStructuredBuffer<float> b;\n{text}\n");
        let bind = ["--bind", "b=zeros:1", "--at"];
        let bind = if text.contains("int n") { [&bind[..], &["n=2"]].concat() } else { bind[..2].to_vec() };
        let out = run("cut", &text, &[&["verify", "f", "--json"], &bind[..], &QUICK[..]].concat());
        let json = out.json();
        assert_eq!(out.status, Some(0), "{text}{json}{}", out.stderr);
        let row = &function(&json, "f")["rows"][0];
        assert!(row["cut"].as_u64() > Some(0) && row["differ"] == 0, "{text}{row}");
        let entries = row["entries"].as_array().expect("entries");
        let is_place = |e: &Json| e["cut"].as_str().is_some_and(|p| p.ends_with("verify-cut.slang:2"));
        assert!(entries.iter().all(|e| is_place(e) || e["verdict"] == "unclear"), "{text}{row}");
        let out = run("cut", &text, &[&["gradcheck", "f"], &bind[..]].concat());
        let says = out.stdout.contains(" is cut at ") && out.stdout.contains(" cut, ");
        assert!(out.status == Some(0) && says, "{text}{}{}", out.stdout, out.stderr);
    }
    let out = run("cut", CUT[0], &[&["verify"], &QUICK[..]].concat());
    let line = "verify-cut.slang:1: differences do not apply\n";
    assert!(
        out.stdout.contains("f: d result/d x is cut at ") && out.stdout.ends_with(line),
        "{}",
        out.stdout
    );
}

/// The slope arises from comparisons alone: nothing is cut, and no derivative includes it.
#[test]
fn a_slope_without_a_derivative_differs() {
    let text = "[Differentiable] float f(float x)
    {
        float low = -8, high = 8;
        for (int i = 0; i < 50; i++)
        {
            float middle = (low + high) / 2;
            if (middle < x) low = middle; else high = middle;
        }
        return low + x;
    }";
    for command in [&["verify", "f", "--points", "2", "--backend", "interp"][..], &["gradcheck", "f"]] {
        let out = run("slope", text, command);
        assert!(out.status == Some(1) && out.stdout.contains("DIFFERS"), "{command:?}: {}", out.stdout);
    }
}

#[test]
fn a_value_that_is_no_number_has_unclear_derivatives() {
    let text = "[Differentiable] float f(float x) { return sqrt(x) + log(x); }";
    let out = run("nan", text, &[&["verify", "--range=-2,-1", "--json"], &QUICK[..]].concat());
    let json = out.json();
    assert_eq!(out.status, Some(0), "{json}");
    let double = &function(&json, "f")["rows"][0];
    assert!(double["unclear"] == 2 && double["agree"] == 0, "{double}");
}

#[test]
fn gradcheck_is_one_row_of_verify() {
    let check = run("same", GOOD, &["gradcheck", "loops", "--json", "--seed", "7"]).json();
    let all = run("same", GOOD, &["verify", "loops", "--json", "--seed", "7", "--backend", "interp"]).json();
    let points = function(&all, "loops")["points"].as_array().expect("points").len();
    let agree =
        check["entries"].as_array().expect("a list").iter().filter(|e| e["verdict"] == "agrees").count();
    assert_eq!(points, 5);
    let rows = function(&all, "loops")["rows"].as_array().expect("rows").clone();
    let row = rows.iter().find(|r| r["numbers"] == "double" && r["level"] == 2).expect("a row");
    assert_eq!(row["agree"], agree, "{row}");
}

#[test]
fn usage_and_files_without_functions() {
    for (args, status) in [
        (&["verify", "-O", "3"][..], 2),
        (&["verify", "--backend", "cobol"], 2),
        (&["verify", "--range", "3"], 2),
        (&["verify", "nothing"], 1),
        (&["verify", "--at", "q=1", "usual"], 1),
        (&["verify", "--bind", "v=[1]", "usual"], 1),
    ] {
        let out = run("usage", GOOD, args);
        assert_eq!(out.status, Some(status), "{args:?}: {}{}", out.stdout, out.stderr);
    }
    let out = run("none", "float f(float x) { return x; }", &["verify"]);
    assert!(out.status == Some(1) && out.stderr.contains("no differentiable function"), "{}", out.stderr);
    let out = run("error", "[Differentiable] float f(float x) { return y; }", &["verify", "--json"]);
    assert!(out.status == Some(1) && out.json()["diagnostics"][0]["line"] == 1, "{}", out.stdout);
}

#[test]
fn functions_of_extensions_have_the_names_of_their_types() {
    let text = "
struct A : IDifferentiable { float a; }
extension A { [Differentiable] float square(float x) { return x * x * a; } }
extension float2 { [Differentiable] float length2() { return dot(this, this); } }
namespace N
{
    struct G<T : IFloat> { T t; }
    extension<T : IFloat> G<T> { [Differentiable] float thrice(float x) { return x * 3; } }
}
extension<T : __BuiltinFloatingPointType, let N : int> Array<T, N> { [Differentiable] T at(int i) { return this[i]; } }
";
    let path = file("verify-extensions.slang", text);
    let out = pullback(&["verify", &path, "--backend", "interp"]);
    let rows =
        ["A.square ", "float2.length2 ", "N.G<T>.thrice is not checked", "Array<T, N>.at is not checked"];
    for row in rows {
        assert!(out.stdout.lines().any(|line| line.starts_with(row)), "{row} in {}", out.stdout);
    }
    let out = pullback(&["grad", &path, "A.square", "--at", "x=3", "--at", "this={\"a\":2}"]);
    assert!(out.stdout.contains("12"), "{} {}", out.stdout, out.stderr);
}
