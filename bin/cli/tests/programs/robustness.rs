//! Tests that extreme inputs give a result or a diagnostic, and never a crash or a hang.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::common::{Out, file};

/// Runs the program and fails the test if it is killed, panics or takes minutes.
fn pullback(args: &[&str]) -> Out {
    let started = Instant::now();
    let out = crate::common::pullback(args);
    assert!(matches!(out.status, Some(0..=2)), "exit {:?}: {}", out.status, out.stderr);
    assert!(!out.stderr.contains("internal compiler error"), "{}", out.stderr);
    assert!(started.elapsed() < Duration::from_secs(120), "unbounded time");
    out
}

fn run(name: &str, source: &str) -> (Option<i32>, String) {
    let out = pullback(&["run", &file(name, source)]);
    (out.status, if out.status == Some(0) { out.stdout } else { out.stderr })
}

#[test]
fn function_of_two_thousand_lines() {
    let mut source = String::from("[Differentiable]\nfloat f(float x)\n{\n    float y = x;\n");
    for _ in 0..2000 {
        source.push_str("    y = y + 0.001 * sin(y);\n");
    }
    source.push_str("    return y;\n}\nvoid main() { var p = diffPair(1.0); bwd_diff(f)(p, 1.0); printf(\"%.3f\\n\", p.d); }\n");
    let (code, shown) = run("long.slang", &source);
    assert_eq!(code, Some(0), "{shown}");
    // For y' = 0.001 sin y over 2000 steps, dy(2)/dy(0) = sin y(2) / sin y(0), up to the discretisation
    // error.
    let slope: f64 = shown.trim().parse().expect("a number");
    assert!((0.1..1.5).contains(&slope), "{slope}");
}

#[test]
fn two_hundred_nested_blocks() {
    let mut source = String::from("[Differentiable]\nfloat f(float x)\n{\n    float y = x;\n");
    for k in 0..200 {
        let _ = writeln!(source, "if (y > -{k}.0) {{ y = y * 1.001;");
    }
    source.push_str(&"}".repeat(200));
    source.push_str("return y; }\nvoid main() { var p = diffPair(1.0); bwd_diff(f)(p, 1.0); printf(\"%.4f\\n\", p.d); }\n");
    let (code, shown) = run("nested.slang", &source);
    assert!(code == Some(1) || shown.trim() == "1.2213", "{shown}");
}

#[test]
fn expression_of_a_megabyte() {
    let mut source = String::from("void main() { float x = 1; float y = x");
    while source.len() < 1 << 20 {
        source.push_str(" + x");
    }
    let n = (source.len() - "void main() { float x = 1; float y = x".len()) / 4 + 1;
    source.push_str("; printf(\"%.0f\\n\", y); }\n");
    let (code, shown) = run("wide.slang", &source);
    assert!(code == Some(1) || shown.trim() == n.to_string(), "{shown}");
}

#[test]
fn parentheses_without_end() {
    let (code, _) = run("deep.slang", &format!("void main() {{ int x = {}1; }}", "(".repeat(100_000)));
    assert_eq!(code, Some(1));
    let (code, _) = run("blocks.slang", &format!("void main() {}", "{".repeat(100_000)));
    assert_eq!(code, Some(1));
}

#[test]
fn chain_of_five_hundred_calls() {
    let mut source = String::from("[Differentiable] float f0(float x) { return x * 1.001; }\n");
    for k in 1..500 {
        let _ =
            writeln!(source, "[Differentiable] float f{k}(float x) {{ return f{}(x) + 0.001 * x; }}", k - 1);
    }
    source.push_str(
        "void main() { var p = diffPair(1.0); bwd_diff(f499)(p, 1.0); printf(\"%.4f\\n\", p.d); }\n",
    );
    let (code, shown) = run("chain.slang", &source);
    assert_eq!((code, shown.trim()), (Some(0), "1.5000"));
}

#[test]
fn calls_that_fan_out() {
    // Each function calls the previous one twice: linear to compile, and 2¹⁶ calls to run.
    let mut source = String::from("[Differentiable] float f0(float x) { return sin(x); }\n");
    for k in 1..=16 {
        let p = k - 1;
        let _ = writeln!(
            source,
            "[Differentiable] float f{k}(float x) {{ return 0.5 * f{p}(x) + 0.5 * f{p}(x); }}"
        );
    }
    source.push_str(
        "void main() { var p = diffPair(0.0); bwd_diff(f16)(p, 1.0); printf(\"%.4f\\n\", p.d); }\n",
    );
    let (code, shown) = run("fan.slang", &source);
    assert_eq!((code, shown.trim()), (Some(0), "1.0000"));
}

#[test]
fn elements_of_a_hundred_megabytes_are_refused_at_once() {
    let source = "struct V { bool v[33000000]; }
StructuredBuffer<V> b;
[numthreads(1, 1, 1)] void main() { if (b[0].v[5]) printf(\"x\"); }
";
    let path = file("elements.slang", source);
    let many = format!("b=[{}]", vec!["[1]"; 20_000].join(","));
    for bind in ["b=[1,0]", "b=[[1]]", "b=[{\"v\":[1]}]", "b=[{}]", &many] {
        let started = Instant::now();
        let out = pullback(&["run", &path, "--bind", bind]);
        assert_eq!(out.status, Some(1), "{}", out.stderr);
        assert!(started.elapsed() < Duration::from_secs(5), "{bind:.20}");
    }
}

#[test]
fn structs_that_double_are_refused_wherever_they_stand() {
    let doubled = |first: &str, declared: &str, each: &str| {
        let mut all = format!("{first}\n");
        for k in 1..60 {
            let each = each.replace('#', &(k - 1).to_string());
            let _ = writeln!(all, "{}", declared.replace('#', &k.to_string()).replace("..", &each));
        }
        all
    };
    let plain = doubled("struct S0 { float a; }", "struct S# { .. }", "S# a; S# b;");
    let generic = doubled("struct S0<T> { T a; }", "struct S#<T> { .. }", "S#<T> a; S#<T> b;");
    let diff = ": IDifferentiable";
    let diff = doubled(
        &format!("struct S0 {diff} {{ float a; }}"),
        &format!("struct S# {diff} {{ .. }}"),
        "S# a; S# b;",
    );
    let mixed = doubled("struct S0 { float a; }", "struct S# { .. }", "Optional<S#> a[2]; Tuple<S#, S#> b;");
    let o = "RWStructuredBuffer<float> o;\n";
    let kernel = |body: &str| format!("{o}[numthreads(1, 1, 1)] void main() {{ {body} o[0] = 1; }}\n");
    for (name, types, rest) in [
        ("variable", &plain, kernel("S59 s;")),
        ("copy", &plain, kernel("S59 s; S59 t = s;")),
        ("braces", &plain, kernel("S59 s = {};")),
        ("array", &plain, kernel("S59 s[4]; s[1] = s[0];")),
        ("size", &plain, kernel("int n = sizeof(S59);")),
        ("parameter", &plain, format!("float g(S59 s) {{ return 1; }}\n{}", kernel("S59 s; g(s);"))),
        ("argument", &plain, format!("float g<T>(T s) {{ return 1; }}\n{}", kernel("S59 s; g(s);"))),
        ("uniform", &plain, format!("uniform S59 u;\n{}", kernel("S59 s = u;"))),
        ("block", &plain, format!("ConstantBuffer<S59> u;\n{}", kernel("S59 s = u;"))),
        ("buffer", &plain, format!("RWStructuredBuffer<S59> u;\n{}", kernel("u[0].a = u[1].a;"))),
        ("pointer", &plain, format!("uniform S59* u;\n{}", kernel("*u = *(u + 1);"))),
        ("shared", &plain, format!("groupshared S59 u;\n{}", kernel("S59 s = u;"))),
        ("generic", &generic, kernel("S59<float> s; S59<float> t = s;")),
        ("differential", &diff, kernel("DifferentialPair<S59> s; S59.Differential d = S59.dzero();")),
        ("mixed", &mixed, kernel("S59 s; S59 t = s;")),
    ] {
        for (command, source) in [("check", format!("{types}{rest}")), ("run", format!("{rest}{types}"))] {
            let path = file(&format!("doubled-{name}-{command}.slang"), &source);
            let out = pullback(&[command, &path]);
            let shown = out.stderr + &out.stdout;
            assert_eq!(out.status, Some(1), "{name} {command}: {shown}");
            assert!(shown.contains("has more than 8,192 parts"), "{name} {command}: {shown}");
            assert!(shown.contains(".slang:"), "a place: {shown}");
        }
    }
}
