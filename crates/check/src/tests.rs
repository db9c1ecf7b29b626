//! Small programs that are checked with the whole library; each test shows what is accepted, rejected or
//! resolved.

use syntax::{Ast, DeclId, NoIncludes, Sources, parse_file};

use crate::tables::{Callable, DiffOp, FuncRef, Meaning};
use crate::types::Ty;
use crate::{Direction, ModuleId, NoModules, Program, Resolved, View};

const CORE: [&str; 5] = [
    include_str!("../../../core/prelude.slang"),
    include_str!("../../../core/math.slang"),
    include_str!("../../../core/vector.slang"),
    include_str!("../../../core/buffers.slang"),
    include_str!("../../../core/derivatives.slang"),
];

struct Checked {
    program: Program,
    file: usize,
    sources: Sources,
}

fn check(source: &str) -> Checked {
    let mut sources = Sources::default();
    let mut ast = Ast::default();
    let mut diagnostics = Vec::new();
    let mut core = Vec::new();
    for text in CORE {
        let id = sources.add("core", text);
        core.push(parse_file(&mut ast, &mut sources, id, &mut NoIncludes, &[], &mut diagnostics));
    }
    let mut program = Program::new(ast, &core);
    let id = sources.add("test.slang", source);
    let file = parse_file(&mut program.ast, &mut sources, id, &mut NoIncludes, &[], &mut diagnostics);
    program.add_module(file, &mut NoModules);
    program.check_file(file);
    diagnostics.append(&mut program.diagnostics);
    program.diagnostics = diagnostics;
    Checked { program, file, sources }
}

impl Checked {
    /// `line code message` of each error.
    fn errors(&self) -> Vec<String> {
        let errors = self.program.diagnostics.iter().filter(|d| d.severity == syntax::Severity::Error);
        errors
            .map(|d| {
                let line = self.sources.line_column(d.primary.span.file, d.primary.span.start).0;
                format!("{line} {} {}", d.code, d.message)
            })
            .collect()
    }

    fn func(&self, name: &str) -> FuncRef {
        let decl = self.program.find_function(self.file, name)[0];
        FuncRef { decl, args: Vec::new(), self_ty: None }
    }

    /// The last variable of this name in any body.
    fn var(&self, name: &str) -> DeclId {
        let symbol = self.program.ast.symbols.find(name).unwrap();
        let mut found = self.program.ast.decls.iter().filter(|d| d.1.name == symbol).map(|d| d.0);
        found.next_back().unwrap()
    }

    fn type_of(&mut self, name: &str) -> String {
        let var = self.var(name);
        let ty = self.program.decl_type(var);
        self.program.type_name(ty)
    }
}

#[track_caller]
fn accept(source: &str) -> Checked {
    let checked = check(source);
    assert_eq!(checked.errors(), Vec::<String>::new());
    checked
}

/// Asserts the codes of the errors, in order.
#[track_caller]
fn refuse(source: &str, codes: &[&str]) {
    let errors = check(source).errors();
    let found: Vec<&str> = errors.iter().map(|e| e.split(' ').nth(1).unwrap()).collect();
    assert_eq!(found, codes, "{errors:#?}");
}

/// Asserts the types of `let` variables in a function's body.
#[track_caller]
fn types(body: &str, expected: &[(&str, &str)]) {
    let mut checked = accept(&format!("void test(float3 v, float2 w, half h, uint u, float x) {{ {body} }}"));
    for (name, ty) in expected {
        assert_eq!(checked.type_of(name), *ty, "{name}");
    }
}

#[test]
fn the_library_is_correct() {
    let mut checked = check("");
    for file in 0..CORE.len() {
        checked.program.check_file(file);
    }
    assert_eq!(checked.errors(), Vec::<String>::new());
}

#[test]
fn operands_have_a_common_type() {
    types(
        "let a0 = 1 + 2u; let a1 = h * 2; let a2 = h * 1.0; let a3 = v * 2; let a4 = 1 / 2; let a5 = v < 1;
         let a6 = true ? 1 : 2.5; let a7 = u << 3; let a8 = !v; let a9 = true + true; let b0 = 1.0l * x;
         let b1 = v.xy; let b2 = v.x; let b3 = float2x3(1.0)[1]; let b4 = float2x3(1.0)._11_12; let b5 = -u;",
        &[
            ("a0", "uint"),
            ("a1", "half"),
            ("a2", "float"),
            ("a3", "float3"),
            ("a4", "int"),
            ("a5", "bool3"),
            ("a6", "float"),
            ("a7", "uint"),
            ("a8", "bool3"),
            ("a9", "int"),
            ("b0", "double"),
            ("b1", "float2"),
            ("b2", "float"),
            ("b3", "float3"),
            ("b4", "float2"),
            ("b5", "uint"),
        ],
    );
}

#[test]
fn generic_arguments_are_inferred_and_joined() {
    types(
        "let c0 = max(1, x); let c1 = max(v, 0); let c2 = lerp(v, v, 0.5); let c3 = sin(1); let c4 = max(1, 2);
         let c5 = dot(v, v); let c6 = clamp(u, 0, 3); let c7 = mul(float2x3(1.0), v); let c8 = mul(w, float2x3(1.0));
         let c9 = transpose(float2x3(1.0)); let d0 = abs(-1); let d1 = pow(h, h); let d2 = sqrt(v.xy);",
        &[
            ("c0", "float"),
            ("c1", "float3"),
            ("c2", "float3"),
            ("c3", "float"),
            ("c4", "int"),
            ("c5", "float"),
            ("c6", "uint"),
            ("c7", "float2"),
            ("c8", "float3"),
            ("c9", "float3x2"),
            ("d0", "int"),
            ("d1", "half"),
            ("d2", "float2"),
        ],
    );
}

#[test]
fn pairs_and_derivative_operators_have_types() {
    let mut checked = accept(
        "struct N { float a; int b; } struct S : IDifferentiable { float a; int b; } struct F : IDifferentiable { float a; }
         [Differentiable] float f(float x, S s, N n, no_diff float k, inout float y, out float z) { z = x; return x; }
         void test(S s, F g) {
           let p0 = diffPair(1, 2); let p1 = diffPair(s); let p2 = p1.d; let p3 = diffPair(g).d; let p4 = diffPair(1.0h);
           let p5 = fwd_diff(sin)(p0); let p6 = fwd_diff(fwd_diff(sin))(diffPair(diffPair(1.0), diffPair(1.0)));
           let p7 = float3.dzero(); let p8 = S.dzero();
         }",
    );
    for (name, ty) in [
        ("p0", "DifferentialPair<float>"),
        ("p1", "DifferentialPair<S>"),
        ("p2", "S.Differential"),
        ("p3", "F"),
        ("p4", "DifferentialPair<half>"),
        ("p5", "DifferentialPair<float>"),
        ("p6", "DifferentialPair<DifferentialPair<float>>"),
        ("p7", "float3"),
        ("p8", "S.Differential"),
    ] {
        assert_eq!(checked.type_of(name), ty, "{name}");
    }
    let f = Callable::Func(checked.func("f"));
    let names = |checked: &Checked, callable: &Callable| -> Vec<String> {
        let mut program = checked.program.clone();
        let signature = program.callable_signature(callable);
        signature.params.iter().map(|p| format!("{:?} {}", p.dir, program.type_name(p.ty))).collect()
    };
    assert_eq!(
        names(&checked, &Callable::Derived(DiffOp::Fwd, Box::new(f.clone()), ModuleId(0))),
        [
            "In DifferentialPair<float>",
            "In DifferentialPair<S>",
            "In N",
            "In float",
            "InOut DifferentialPair<float>",
            "Out DifferentialPair<float>"
        ]
    );
    assert_eq!(
        names(&checked, &Callable::Derived(DiffOp::Bwd, Box::new(f), ModuleId(0))),
        [
            "InOut DifferentialPair<float>",
            "InOut DifferentialPair<S>",
            "In N",
            "In float",
            "InOut DifferentialPair<float>",
            "In float",
            "In float"
        ]
    );
}

#[test]
fn differentiability_is_that_of_the_declaration() {
    let mut checked = accept(
        "[Differentiable] float f<T>(T a, float x) { return x; }
         [Differentiable] float g<T : IDifferentiable>(T a, float x) { return x; }
         void test() { let r0 = fwd_diff(f)(1.0, diffPair(1.0)); let r1 = fwd_diff(g)(diffPair(1.0), diffPair(1.0)); }",
    );
    assert_eq!(checked.type_of("r0"), "DifferentialPair<float>");
    assert_eq!(checked.type_of("r1"), "DifferentialPair<float>");
}

#[test]
fn lost_derivatives_are_refused() {
    let prelude = "RWStructuredBuffer<float> o; struct P { float a; }; struct Q : IDifferentiable { no_diff float n; float a; };
static float sg; float g(float x) { return x * x; } [ForwardDifferentiable] float h(float x) { return x; }
[Differentiable] float nd(no_diff float a, float b) { return a * b; }
";
    let one =
        |body: &str| check(&format!("{prelude}[Differentiable] float f(float x) {{ {body} }}")).errors();
    for body in [
        "return g(x);",
        "float t = g(x); return t;",
        "return h(x);",
        "return floor(x);",
        "o[0] = x; return x;",
        "o[0] += x; return x;",
        "P p; p.a = x; return x;",
        "Q q; q.n = x; q.a = x; return q.a;",
        "sg = x; return x;",
    ] {
        let errors = one(body);
        let lost = errors.len() == 1 && (errors[0].contains("E41022") || errors[0].contains("E41031"));
        assert!(lost, "{body}: {errors:?}");
    }
    for body in [
        "return no_diff g(x);",
        "return no_diff(g(x));",
        "g(x); return x;",
        "float t = g(x); return x;",
        "P p = { x }; return p.a;",
        "return nd(x, x);",
        "if (g(x) > 1) return x; return 2 * x;",
        "return g(2.0) + x;",
        "return o[0] * x;",
        "o[0] = detach(x); return x;",
        "float y = detach(x); return g(y) * x;",
        "return sin(x) + max(x, 1.0) + dot(float2(x), float2(x)) + mul(float2x2(x), float2(x)).x;",
    ] {
        assert_eq!(one(body), Vec::<String>::new(), "{body}");
    }
}

#[test]
fn derivatives_are_found() {
    let mut checked = accept(
        "DifferentialPair<float> f_fwd(DifferentialPair<float> x) { return x; }
         [ForwardDerivative(f_fwd)] float f(float x) { return x; }
         T g<T : __FloatElementwise>(T x) { return x; }
         [BackwardDerivativeOf(g)] void g_bwd<U : __FloatElementwise>(inout DifferentialPair<U> x, U d) {}
         struct S : IDifferentiable { float a;
           [BackwardDerivative(m_bwd)] float m(float x) { return x; }
           static void m_bwd(inout DifferentialPair<S> self, inout DifferentialPair<float> x, float d) {} }
         float3 user(float3 x) { return sin(x) + g(x); }",
    );
    let f = checked.func("f");
    let found = checked.program.derivatives_of(&f, View::default());
    assert_eq!(found.fwd.map(|f| f.decl), Some(checked.func("f_fwd").decl));
    let m = checked.func("S.m");
    let container = checked.program.container_of(m.decl).unwrap();
    let self_ty = checked.program.self_type(container);
    let m = FuncRef { self_ty: Some(self_ty), ..m };
    let found = checked.program.derivatives_of(&m, View::default());
    assert_eq!(found.bwd.map(|f| f.decl), Some(checked.func("S.m_bwd").decl));
    // The calls within `user`: `sin<float3>` and `g<float3>`.
    let calls: Vec<FuncRef> = checked
        .program
        .tables
        .exprs
        .values()
        .filter_map(|e| match &e.meaning {
            Meaning::Call { func: Callable::Func(func), .. }
                if checked.program.type_name(e.ty) == "float3" =>
            {
                Some(func.clone())
            }
            _ => None,
        })
        .collect();
    let mut with = 0;
    for call in calls {
        let found = checked.program.derivatives_of(&call, View::default());
        for derivative in found.fwd.iter().chain(&found.bwd) {
            assert_eq!(derivative.args, call.args);
            with += 1;
        }
    }
    assert!(with >= 2);
}

#[test]
fn requirements_are_resolved() {
    let mut checked = accept(
        "interface IShape { float area(); static float unit(); float twice() { return 2 * area(); } associatedtype P; }
         struct Sq : IShape { float s; float area() { return s; } static float unit() { return 1; } typealias P = int; }
         float total<T : IShape>(T a) { return a.area() + T.unit() + a.twice(); }
         void test(Sq s) { total(s); let z = float.dzero(); }",
    );
    let sq = checked.var("Sq");
    let ty: Ty = checked.program.self_type(sq);
    let required = FuncRef { self_ty: Some(ty), ..checked.func("IShape.area") };
    let own = checked.func("Sq.area").decl;
    assert!(matches!(checked.program.resolve_requirement(&required), Resolved::Func(f) if f.decl == own));
    let required = FuncRef { self_ty: Some(ty), ..checked.func("IShape.twice") };
    assert_eq!(checked.program.resolve_requirement(&required), Resolved::Func(required));
}

#[test]
fn overloads_are_ranked() {
    let source = "int f(float x) { return 1; } float f(int x) { return 1; } half f(float3 x) { return 1; }
        uint g<T>(T x) { return 1; } int g(float x) { return 1; }
        void test(float3 v, uint u, half h) { let q0 = f(1.5); let q1 = f(1); let q2 = f(v); let q3 = f(h); let q4 = g(1.0);
          let q5 = g(1); let q6 = f(u); }";
    let mut checked = accept(source);
    for (name, ty) in [
        ("q0", "int"),
        ("q1", "float"),
        ("q2", "half"),
        ("q3", "int"),
        ("q4", "int"),
        ("q5", "uint"),
        ("q6", "float"),
    ] {
        assert_eq!(checked.type_of(name), ty, "{name}");
    }
    refuse("void f(int a, float b) {} void f(float a, int b) {} void test() { f(1, 1); }", &["E39999"]);
}

#[test]
fn errors_have_codes_and_no_echo() {
    refuse("float f() { return x1 + x1.y; }", &["E30015", "E30015"]);
    refuse("float f(float x) { return f(); }", &["E39999"]);
    refuse("struct S { int a; } void f(S s) { s.b = 1; }", &["E30027"]);
    refuse("void f() { let x = 1; x = 2; }", &["E30011"]);
    refuse("void g(out float x) { x = 1; } void f() { g(1.0); }", &["E30047"]);
    refuse("void f() { break; continue; }", &["E30003", "E30004"]);
    refuse("float f() { return; }", &["E30006"]);
    refuse("void f() { float a; float a; }", &["E30200"]);
    refuse("struct S { int a; } void f(S s) { float x = s; }", &["E30019"]);
    refuse("[Differentiable] float f(float x) { return x * no_diff x; }", &["E38031"]);
    refuse("float f(float x) { return x; } void t() { fwd_diff(f)(diffPair(1.0)); }", &["E30027"]);
    refuse("interface I { float f(); } struct S : I { int g; }", &["E38100"]);
    refuse("interface I {} struct S : I {} void g(inout I i) {} void f() { S s; g(s); }", &["E30077"]);
    refuse("interface I {} struct S {} I f() { S s; return s; }", &["E30019"]);
    refuse("struct S { S s; }", &["E30114"]);
}

#[test]
fn names_are_suggested() {
    let checked = check("void f() { float velocity = 1; float y = velocty; }");
    assert_eq!(checked.program.diagnostics[0].help.as_deref(), Some("did you mean 'velocity'?"));
}

#[test]
fn written_arguments_are_places() {
    let checked = accept("void f(out float a, inout float3 b, in int c) { a = 1; }");
    let mut program = checked.program.clone();
    let signature = program.func_signature(&checked.func("f"));
    let dirs: Vec<Direction> = signature.params.iter().map(|p| p.dir).collect();
    assert_eq!(dirs, [Direction::Out, Direction::InOut, Direction::In]);
}

#[test]
fn long_chains_are_checked_without_recursion() {
    let chain = vec!["x"; 20_000].join(" + ");
    accept(&format!("[Differentiable] float f(float x) {{ return {chain}; }}"));
}
