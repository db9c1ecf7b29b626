//! Feeds random input to the parser, which must quickly return a tree and diagnostics for any text.

use std::time::{Duration, Instant};

use pullback_syntax::{Ast, Diagnostic, NoIncludes, Sources, parse_file, print::print_file};
use test_support::Random;

fn parse(text: &str) -> Vec<Diagnostic> {
    let (mut ast, mut sources, mut diagnostics) = (Ast::default(), Sources::default(), Vec::new());
    let file = sources.add("random.slang", text);
    let index = parse_file(&mut ast, &mut sources, file, &mut NoIncludes, &[], &mut diagnostics);
    let _ = print_file(&ast, &ast.files[index]);
    for diagnostic in &diagnostics {
        let span = diagnostic.primary.span;
        assert!(span.start <= span.end && span.end as usize <= text.len(), "{diagnostic:?}\n{text}");
    }
    diagnostics
}

/// Deeply nested input needs a stack as large as the driver's.
fn with_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(test).expect("threads start");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn count() -> usize {
    std::env::var("PULLBACK_RANDOM").ok().and_then(|n| n.parse().ok()).unwrap_or(1000)
}

const WORDS: &[&str] = &[
    "float",
    "int",
    "x",
    "y",
    "T",
    "struct",
    "interface",
    "extension",
    "enum",
    "if",
    "else",
    "for",
    "while",
    "do",
    "switch",
    "case",
    "default",
    "return",
    "break",
    "let",
    "var",
    "func",
    "typedef",
    "typealias",
    "property",
    "get",
    "set",
    "__subscript",
    "__init",
    "__generic",
    "where",
    "each",
    "expand",
    "no_diff",
    "fwd_diff",
    "bwd_diff",
    "__apply",
    "__func_extension",
    "operator",
    "namespace",
    "import",
    "module",
    "cbuffer",
    "static",
    "const",
    "inout",
    "is",
    "as",
    "none",
    "this",
    "This",
    "associatedtype",
    "functype",
    "sizeof",
    "__target_switch",
    "spirv_asm",
    "__intrinsic_asm",
    "unsigned",
    "using",
    "new",
    "try",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    ",",
    ";",
    ":",
    "::",
    ".",
    "->",
    "=>",
    "?",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "|",
    "^",
    "~",
    "!",
    "<<",
    ">>=",
    ">=",
    "<=",
    "==",
    "!=",
    "&&",
    "||",
    "++",
    "--",
    "=",
    "+=",
    "1",
    "2.5f",
    "0x1p3",
    "\"s\"",
    "'c'",
    "\n#if 1",
    "\n#if 0\n",
    "\n#else\n",
    "\n#endif\n",
    "\n#define x(a, b) a ## b # a\n",
    "\n#define y x(y, y)\n",
    "\n#undef x\n",
    "\n#include \"y\"\n",
    "\n",
    "##",
    "#",
    "...",
    "__VA_ARGS__",
    "\\\n",
    "/*",
    "*/",
    "//",
    "\"",
    "'",
    "@",
    "é",
    "\0",
];

#[test]
fn token_soup() {
    with_stack(|| {
        let mut random = Random(1);
        for _ in 0..count() {
            let length = random.below(120);
            let mut text = String::new();
            for _ in 0..length {
                text.push_str(WORDS[random.below(WORDS.len())]);
                if random.below(4) > 0 {
                    text.push(' ');
                }
            }
            parse(&text);
            parse(&format!("void f() {{ {text} }} float g;"));
        }
    });
}

#[test]
fn random_bytes() {
    let mut random = Random(2);
    for _ in 0..count() {
        let length = random.below(200);
        let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        parse(&String::from_utf8_lossy(&bytes));
        let ascii: String = bytes.iter().map(|b| char::from(b % 128)).collect();
        parse(&ascii);
    }
}

/// Real files with pieces cut out, duplicated and swapped.
#[test]
fn broken_files() {
    with_stack(|| {
        let sources = [
            include_str!("../../../tests/syntax/ambiguities.slang"),
            include_str!("../../../tests/syntax/declarations.slang"),
            include_str!("../../../tests/syntax/statements.slang"),
            include_str!("../../../tests/syntax/preprocessor.slang"),
        ];
        let mut random = Random(3);
        for i in 0..count() / 4 {
            let mut pieces: Vec<&str> =
                sources[i % 4].split_inclusive([' ', '(', ')', ';', '<', '>', '{', '}']).collect();
            for _ in 0..1 + random.below(6) {
                let (a, b) = (random.below(pieces.len()), random.below(pieces.len()));
                match random.below(3) {
                    0 => drop(pieces.remove(a)),
                    1 => pieces.insert(a, pieces[b]),
                    _ => pieces.swap(a, b),
                }
            }
            parse(&pieces.concat());
        }
    });
}

#[test]
fn deep_nesting_is_reported_once() {
    with_stack(|| {
        let inside = |before: &str, n: usize, middle: &str, after: &str| {
            format!("void f() {{ {}{middle}{} }} float g;", before.repeat(n), after.repeat(n))
        };
        let cases = [
            ("x = (", "1", ");", "(", ")"),
            ("", ";", "", "{", "}"),
            ("x = ", "1", ";", "-", ""),
            ("x = ", "1", ";", "(int)", ""),
            ("x = ", "1", ";", "f(", ")"),
            ("x = ", "1", ";", "{", "}"),
            ("x = ", "1", ";", "a[", "]"),
            ("", "{}", "", "if (1) ", ""),
            ("", "{}", "", "if (1) {} else ", ""),
            ("A<", "int", "> x;", "A<", ">"),
            ("x = ", "1", ";", "a = ", ""),
            ("x = ", "1", ";", "a ? b : ", ""),
            ("x = ", "1", ";", "(int a) => ", ""),
            ("x = ", "1", ";", "no_diff ", ""),
            ("struct S { ", "int x;", "}", "struct S {", "}"),
        ];
        for (start, middle, end, open, close) in cases {
            let text = |n: usize| {
                inside("", 0, &format!("{start}{}{middle}{}{end}", open.repeat(n), close.repeat(n)), "")
            };
            let shallow = parse(&text(240));
            assert!(shallow.is_empty(), "{open}: {:?}", shallow[0]);
            for n in [5_000, 50_000] {
                let deep = parse(&text(n));
                assert_eq!(deep.len(), 1, "{open}: {deep:?}");
                assert_eq!(deep[0].code, "E0007", "{open}");
            }
        }
        let macros = format!("#define F(x) x\nint a = {}1{};", "F(".repeat(20_000), ")".repeat(20_000));
        assert!(parse(&macros).iter().any(|d| d.code == "E0031"));
    });
}

/// Each input has a quarter of a megabyte; any quadratic behaviour would take minutes.
#[test]
fn long_input_takes_linear_time() {
    let shapes = [
        ("float x = 0", " + a * 2", ";"),
        ("bool x = 0", " < a", ";"),
        ("bool x = 0", " < a, a > b", ";"),
        ("float x = a", ".b[1](2)", ";"),
        ("float x = f(0", ", a<b", ");"),
        ("void f() { ", "a<b> c; ", "}"),
        ("void f() { ", "x = a < b; ", "}"),
        ("void f() { ", "(a)(b); ", "}"),
        ("", "[A(1)] ", "void f();"),
        ("", "#define A B\n", "int x;"),
        ("#define A B\n", "A ", "int x;"),
        ("", "#if 1\n", ""),
        ("", "}", ""),
        ("", "((", ""),
        ("x = ", "a<", ";"),
        ("", "struct S { float x; } ", ""),
        ("/*", " x ", ""),
        ("\"", "a", ""),
        ("#define F(...) __VA_ARGS__ __VA_ARGS__\nint x = F(", "1,", "1);"),
        ("#define D(x) x x\n int y = ", "D(", ""),
        ("void f() { switch (x) { ", "case 1: ", "} }"),
        ("enum E { ", "A, ", "}"),
        ("float x", "[2]", ";"),
        ("float", "*", " x;"),
    ];
    with_stack(move || {
        for (before, middle, after) in shapes {
            let text = format!("{before}{}{after}", middle.repeat((1 << 18) / middle.len()));
            let start = Instant::now();
            parse(&text);
            let time = start.elapsed();
            assert!(time < Duration::from_secs(20), "{middle:?} took {time:?}");
        }
    });
}

#[test]
fn macros_that_grow_are_stopped() {
    let mut text = String::from("#define A0 x x\n");
    for i in 1..60 {
        text.push_str(&format!("#define A{i} A{} A{}\n", i - 1, i - 1));
    }
    text.push_str("int y = A59;");
    assert!(parse(&text).iter().any(|d| d.code == "E0031"));
}
