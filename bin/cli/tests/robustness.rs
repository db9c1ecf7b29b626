//! Tests that extreme inputs give a result or a diagnostic, and never a crash or a hang.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("the test folder is writable");
    path
}

/// Runs the program and fails the test if it is killed, panics or takes minutes.
fn pullback(args: &[&str]) -> Output {
    let started = Instant::now();
    let out = Command::new(env!("CARGO_BIN_EXE_pullback")).args(args).output().expect("the program starts");
    let code = out.status.code();
    assert!(matches!(code, Some(0..=2)), "exit {code:?}: {}", text(&out.stderr));
    assert!(!text(&out.stderr).contains("internal compiler error"), "{}", text(&out.stderr));
    assert!(started.elapsed() < Duration::from_secs(120), "unbounded time");
    out
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(name: &str, source: &str) -> (Option<i32>, String) {
    let path = write(name, source.as_bytes());
    let out = pullback(&["run", path.to_str().expect("a plain path")]);
    let shown = if out.status.success() { text(&out.stdout) } else { text(&out.stderr) };
    (out.status.code(), shown)
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
fn invalid_utf8() {
    let path = write("bytes.slang", b"void main() { printf(\"\xff\xfe\\n\"); \x80 }\n");
    let out = pullback(&["run", path.to_str().expect("a plain path")]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("UTF-8"), "{}", text(&out.stderr));
}

#[test]
fn empty_file() {
    let path = write("empty.slang", b"");
    let path = path.to_str().expect("a plain path");
    assert_eq!(pullback(&["check", path]).status.code(), Some(0));
    assert_eq!(pullback(&["run", path]).status.code(), Some(1));
}

#[test]
fn missing_file() {
    let out = pullback(&["run", "no/such/file.slang"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("no/such/file.slang"), "{}", text(&out.stderr));
}

#[test]
fn endless_recursion() {
    let (code, shown) = run(
        "recursion.slang",
        "int f(int x) { return f(x + 1) + 1; }\nvoid main() { printf(\"%d\\n\", f(0)); }\n",
    );
    assert_eq!(code, Some(1), "{shown}");
}

#[test]
fn a_derivative_of_what_has_no_type_is_an_error_of_the_program() {
    let source = "struct D : IDifferentiable { float n; float m; }\n[Differentiable]\nfloat f(D d, out D a[1.5][2])\n{\n    \
        a[0][0] = d;\n    a[0][1] = d;\n    return a[0][0].m;\n}\n";
    let path = write("size-that-is-no-integer.slang", source.as_bytes());
    for command in ["grad", "gradcheck", "check"] {
        let out = pullback(
            &[command, path.to_str().expect("UTF-8")]
                .into_iter()
                .chain((command != "check").then_some("f"))
                .collect::<Vec<_>>(),
        );
        assert_eq!(out.status.code(), Some(1), "{command}");
        let stderr = text(&out.stderr);
        assert!(stderr.contains("E39001") && stderr.contains(":3:"), "{command}: {stderr}");
    }
}

#[test]
fn memory_has_a_limit_and_the_line_is_named() {
    let reversed = "RWStructuredBuffer<float> o;\n[Differentiable] float f(float x)\n{\n    float s = x;\n    \
         while (s > -1)\n        s = s * 0.99 + 0.01;\n    return s;\n}\n\
         [numthreads(1, 1, 1)] void main() { var p = diffPair(0.5); bwd_diff(f)(p, 1.0); o[0] = p.d; }\n";
    let nested = "RWStructuredBuffer<float> o;\nfloat big(float x, int n)\n{\n    float a[20000];\n    \
         for (int i = 0; i < 20000; i++)\n        a[i] = x * i + n;\n    \
         return n == 0 ? a[int(x)] : a[n] + big(x, n - 1) + a[n + 1];\n}\n\
         [numthreads(1, 1, 1)] void main() { o[0] = big(o[1], 3000); }\n";
    for (name, source, line, backends) in [
        ("reversed.slang", reversed, 5, &["interp", "cranelift"][..]),
        ("nested.slang", nested, 4, &["cranelift"][..]),
    ] {
        let path = write(&format!("memory-{name}"), source.as_bytes());
        let path = path.to_str().expect("a plain path");
        for backend in backends {
            let args = ["run", path, "--bind", "o=zeros:2", "--memory", "20M", "--backend", backend];
            let out = pullback(&args);
            let shown = text(&out.stderr);
            assert_eq!(out.status.code(), Some(1), "{shown}");
            assert!(
                shown.contains("needs more than 20 MiB") && shown.contains(&format!(":{line}:")),
                "{shown}"
            );
        }
    }
}

#[test]
fn elements_of_a_hundred_megabytes_are_refused_at_once() {
    let source = "struct V { bool v[33000000]; }
StructuredBuffer<V> b;
[numthreads(1, 1, 1)] void main() { if (b[0].v[5]) printf(\"x\"); }
";
    let path = write("elements.slang", source.as_bytes());
    let many = format!("b=[{}]", vec!["[1]"; 20_000].join(","));
    for bind in ["b=[1,0]", "b=[[1]]", "b=[{\"v\":[1]}]", "b=[{}]", &many] {
        let started = Instant::now();
        let out = pullback(&["run", path.to_str().expect("a plain path"), "--bind", bind]);
        assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
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
            let path = write(&format!("doubled-{name}-{command}.slang"), source.as_bytes());
            let out = pullback(&[command, path.to_str().expect("a plain path")]);
            let shown = text(&out.stderr) + &text(&out.stdout);
            assert_eq!(out.status.code(), Some(1), "{name} {command}: {shown}");
            assert!(shown.contains("has more than 8,192 parts"), "{name} {command}: {shown}");
            assert!(shown.contains(".slang:"), "a place: {shown}");
        }
    }
}
