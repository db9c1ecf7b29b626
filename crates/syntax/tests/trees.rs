//! Tests what printing does not show: the node that a text becomes, parents, spans, modifiers.

use pullback_syntax::ast::{DeclKind, ExprKind, Modifiers, StmtKind};
use pullback_syntax::{Ast, DeclId, ExprId, FileId, IncludeLoader, Sources, parse_file};

fn parse(text: &str) -> (Ast, Vec<DeclId>) {
    let (mut ast, mut sources, mut diagnostics) = (Ast::default(), Sources::default(), Vec::new());
    let file = sources.add("a.slang", text);
    let index = parse_file(&mut ast, &mut sources, file, &mut Files, &[], &mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let decls = ast.files[index].decls.clone();
    (ast, decls)
}

struct Files;

impl IncludeLoader for Files {
    fn include(&mut self, path: &str, _: FileId, sources: &mut Sources) -> Result<FileId, String> {
        if let Some(index) = sources.files.iter().position(|f| f.path == path) {
            return Ok(FileId(index as u32));
        }
        match path {
            "once.h" => Ok(sources.add(path, "#pragma once\nint once;\n")),
            "guard.h" => Ok(sources.add(path, "#ifndef G\n#define G\nint guarded;\n#endif\n")),
            "self.h" => Ok(sources.add(path, "#include \"self.h\"\n")),
            _ => Err(format!("there is no file `{path}`")),
        }
    }
}

/// The initialiser of `let x = …;`
fn initialiser(text: &str) -> (Ast, ExprId) {
    let (ast, decls) = parse(&format!("struct S {{}} let x = {text};"));
    let DeclKind::Var { init: Some(init), .. } = ast.decls[decls[1]].kind else { panic!("{text}") };
    (ast, init)
}

#[test]
fn casts_calls_and_operators() {
    let kind = |text| {
        let (ast, init) = initialiser(text);
        match &ast.exprs[init].kind {
            ExprKind::Cast(..) => "cast",
            ExprKind::Call { .. } => "call",
            ExprKind::Binary(..) => "binary",
            ExprKind::Generic { .. } => "generic",
            _ => "other",
        }
    };
    for text in
        ["(float)-x", "(S)(x)", "(S)-x", "(other)x", "(float3x4)(x)", "(uint64_t)1", "(A.B<int>)(x)", "(T*)p"]
    {
        assert_eq!(kind(text), "cast", "{text}");
    }
    for text in ["(other)(x)", "float(x)", "f<int>(x)", "(f)(g)"] {
        assert_eq!(kind(text), "call", "{text}");
    }
    for text in ["(other)-x", "a < b", "a < b > c", "(a)*b", "a < b && c > (d)", "a < (b && c)"] {
        assert_eq!(kind(text), "binary", "{text}");
    }
    assert_eq!(kind("a<b>"), "generic");
}

#[test]
fn declarators_read_inside_out() {
    let (ast, decls) = parse("D a[1][2]; D[2][1] b;");
    let dims = |decl: DeclId| {
        let DeclKind::Var { ty: Some(ty), .. } = ast.decls[decl].kind else { panic!() };
        let ExprKind::Index { base, ref args } = ast.exprs[ty].kind else { panic!() };
        let ExprKind::Index { args: ref inner, .. } = ast.exprs[base].kind else { panic!() };
        let value = |e: &[ExprId]| match ast.exprs[e[0]].kind {
            ExprKind::Int { value, .. } => value,
            _ => panic!(),
        };
        (value(args), value(inner))
    };
    assert_eq!(dims(decls[0]), (1, 2));
    assert_eq!(dims(decls[1]), (1, 2));
}

#[test]
fn parents() {
    let (ast, decls) =
        parse("struct S<T> { property float p { set(v) { let x = v; } } void f(inout no_diff T a) {} }");
    let s = decls[0];
    let DeclKind::Struct { members, .. } = &ast.decls[s].kind else { panic!() };
    assert_eq!(ast.decls[ast.decls[s].generics.as_ref().expect("has some").params[0]].parent, Some(s));
    let DeclKind::Property { accessors, .. } = &ast.decls[members[0]].kind else { panic!() };
    let DeclKind::Accessor { param: Some(value), body: Some(body), .. } = ast.decls[accessors[0]].kind else {
        panic!()
    };
    assert_eq!(ast.decls[accessors[0]].parent, Some(members[0]));
    assert_eq!(ast.name(ast.decls[value].name), "v");
    assert_eq!(ast.decls[value].parent, Some(accessors[0]));
    let StmtKind::Block(stmts) = &ast.stmts[body].kind else { panic!() };
    let StmtKind::Decl(locals) = &ast.stmts[stmts[0]].kind else { panic!() };
    assert_eq!(ast.decls[locals[0]].parent, Some(accessors[0]));
    let DeclKind::Func { params, .. } = &ast.decls[members[1]].kind else { panic!() };
    let modifiers = ast.decls[params[0]].modifiers;
    assert!(modifiers.has(Modifiers::INOUT) && modifiers.has(Modifiers::NO_DIFF));
    // A parent comes before its members.
    assert!(ast.decls.iter().all(|(id, decl)| decl.parent.is_none_or(|parent| parent < id)));
}

#[test]
fn spans_point_into_the_file() {
    let text = "#define TWO 1 + 1\nfloat f(float x) { return x * TWO; }";
    let (ast, decls) = parse(text);
    let at = |start: u32, end: u32| &text[start as usize..end as usize];
    let decl = &ast.decls[decls[0]];
    assert_eq!(at(decl.name_span.start, decl.name_span.end), "f");
    assert_eq!(at(decl.span.start, decl.span.end), "float f(float x) { return x * TWO; }");
    let ones = ast.exprs.values().filter(|e| matches!(e.kind, ExprKind::Int { .. }));
    assert!(ones.into_iter().all(|e| at(e.span.start, e.span.end) == "TWO"));
}

#[test]
fn includes_and_guards() {
    let text = "#include \"once.h\"\n#include \"once.h\"\n#include <guard.h>\n#include \"guard.h\"\nint own;";
    let (ast, decls) = parse(text);
    let names: Vec<_> =
        decls.iter().map(|&d| (ast.name(ast.decls[d].name), ast.decls[d].span.file.0)).collect();
    assert_eq!(names, [("once", 1), ("guarded", 2), ("own", 0)]);
}

#[test]
fn endless_includes_are_stopped() {
    let (mut ast, mut sources, mut diagnostics) = (Ast::default(), Sources::default(), Vec::new());
    let file = sources.add("a.slang", "#include \"self.h\"\n");
    parse_file(&mut ast, &mut sources, file, &mut Files, &[], &mut diagnostics);
    assert_eq!(diagnostics.len(), 1);
    assert_eq!(diagnostics[0].code, "E0032");
}

#[test]
fn defines_of_the_command_line() {
    let (mut ast, mut sources, mut diagnostics) = (Ast::default(), Sources::default(), Vec::new());
    let file = sources.add("a.slang", "int N; void f() { ADD(1, N); }");
    let defines = [("N".to_owned(), "count".to_owned()), ("ADD(a, b)".to_owned(), "a + b".to_owned())];
    let index = parse_file(&mut ast, &mut sources, file, &mut Files, &defines, &mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let printed = pullback_syntax::print::print_file(&ast, &ast.files[index]);
    assert_eq!(printed, "int count;\nvoid f() {\n    1 + count;\n}\n");
}
