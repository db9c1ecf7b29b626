//! Runs programs through the parser, checker, lowering, differentiation and the interpreter.
//!
//! Each test calls a function of a small program and compares the resulting numbers; the IR is verified after
//! lowering and after differentiation. `EMIT_IR=1` prints it.
#![allow(clippy::unwrap_used)]

use check::{NoModules, Program};
use ir::Scalar;
use ir::interp::{self, Memory, Value};
use ir::scalar::{from_f64, from_i64, to_f64, to_i64};
use pullback_lower::{Lowered, Request};
use syntax::{Ast, NoIncludes, Severity, Sources};

const CORE: [&str; 5] = ["prelude", "math", "vector", "derivatives", "buffers"];

fn lower(source: &str, functions: &[&str], entries: bool) -> Lowered {
    let mut ast = Ast::default();
    let mut sources = Sources::default();
    let mut diagnostics = Vec::new();
    let mut core = Vec::new();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../core/");
    for name in CORE {
        let text = std::fs::read_to_string(format!("{root}{name}.slang")).unwrap();
        let file = sources.add(format!("core/{name}.slang"), text);
        core.push(syntax::parse_file(&mut ast, &mut sources, file, &mut NoIncludes, &[], &mut diagnostics));
    }
    let file = sources.add("test.slang", source);
    let user = syntax::parse_file(&mut ast, &mut sources, file, &mut NoIncludes, &[], &mut diagnostics);
    let mut program = Program::new(ast, &core);
    program.add_module(user, &mut NoModules);
    program.check_file(user);
    let mut request = Request { derivatives: true, ..Request::default() };
    for name in functions {
        let found = program.find_function(user, name);
        assert_eq!(found.len(), 1, "`{name}` is found");
        let func = check::tables::FuncRef { decl: found[0], args: Vec::new(), self_ty: None };
        request.functions.push(func);
    }
    if entries {
        request.entries = program.entry_points(user);
        if request.entries.is_empty() {
            request.entries = program.find_function(user, "main");
        }
    }
    let show = |list: &[syntax::Diagnostic]| {
        let errors: Vec<String> = list
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .map(|d| {
                let span = d.primary.span;
                let (line, column) = sources.line_column(span.file, span.start);
                let path = sources.files.get(span.file.0 as usize).map_or("?", |f| f.path.as_str());
                format!("{path}:{line}:{column}: {} {}", d.code, d.message)
            })
            .collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    };
    show(&diagnostics);
    show(&program.diagnostics);
    let mut lowered = pullback_lower::lower(&mut program, &request);
    show(&program.diagnostics);
    show(&lowered.diagnostics);
    if std::env::var("EMIT_IR").is_ok() {
        eprintln!("{}", ir::print::print_module(&lowered.module));
    }
    for func in lowered.module.funcs.values() {
        ir::verify::assert_valid(&lowered.module, func);
    }
    let problems = autodiff::differentiate(&mut lowered.module, &autodiff::Options::default());
    assert!(problems.is_empty(), "{problems:?}");
    for func in lowered.module.funcs.values() {
        ir::verify::assert_valid(&lowered.module, func);
    }
    lowered
}

fn bits(scalar: Scalar, x: f64) -> u64 {
    if scalar.is_float() { from_f64(scalar, x) } else { from_i64(scalar, x as i64) }
}

fn number(scalar: Scalar, bits: u64) -> f64 {
    if scalar.is_float() { to_f64(scalar, bits) } else { to_i64(scalar, bits) as f64 }
}

fn call_func(lowered: &Lowered, func: ir::Func, args: &[f64]) -> Vec<f64> {
    let module = &lowered.module;
    let mut next = args.iter();
    let values: Vec<Value> = module.funcs[func]
        .params
        .iter()
        .map(|slot| {
            let scalar = module.types.scalar_of(slot.ty).unwrap();
            Value::zero(&module.types, slot.ty).map(&mut |_: u64| bits(scalar, *next.next().unwrap()))
        })
        .collect();
    assert!(next.next().is_none(), "too many arguments");
    let mut memory = Memory::new(module, |_| 1);
    let results = interp::call(module, func, &values, &mut memory).unwrap();
    let slots = &module.funcs[func].results;
    results
        .iter()
        .zip(slots)
        .flat_map(|(value, slot)| {
            let scalar = module.types.scalar_of(slot.ty).unwrap();
            value.lanes().into_iter().map(move |bits| number(scalar, bits))
        })
        .collect()
}

/// Calls `f` of the program.
fn call(source: &str, args: &[f64]) -> Vec<f64> {
    let lowered = lower(source, &["f"], false);
    call_func(&lowered, lowered.functions[0].func, args)
}

/// The gradient of `f` by the flat backward derivative.
fn grad(source: &str, args: &[f64]) -> Vec<f64> {
    let lowered = lower(source, &["f"], false);
    call_func(&lowered, lowered.functions[0].vjp.unwrap(), args)
}

/// The output of `main`.
fn prints(source: &str) -> String {
    let lowered = lower(source, &[], true);
    let mut memory = Memory::new(&lowered.module, |_| 16);
    interp::call(&lowered.module, lowered.module.entries[0].func, &[], &mut memory).unwrap();
    memory.printed
}

fn close(got: &[f64], want: &[f64]) {
    let fits = got.len() == want.len()
        && got.iter().zip(want).all(|(g, w)| (g - w).abs() <= 1e-5 * w.abs().max(1.0) || g == w);
    assert!(fits, "got {got:?}, want {want:?}");
}

#[test]
fn straight_line() {
    close(
        &call("float f(float x, float y) { float z = x * y; z += 1; return z - x / y; }", &[6., 3.]),
        &[17.],
    );
    close(&call("int f(int x) { int y = x++; return y * 10 + x; }", &[3.]), &[34.]);
}

#[test]
fn vectors_and_matrices() {
    let swizzle = "float f(float3 v) { v.xy = v.yx; v.z *= 2; return v.x * 100 + v.y * 10 + v.z; }";
    close(&call(swizzle, &[1., 2., 3.]), &[216.]);
    let dynamic = "float3 f(float3 v, int i) { v[i] = 9; return v; }";
    close(&call(dynamic, &[1., 2., 3., 1.]), &[1., 9., 3.]);
    let matrix = "float2 f(float2x2 m, float2 v) { m[1].x += 1; m._12 = 5; return mul(m, v); }";
    close(&call(matrix, &[1., 2., 3., 4., 10., 100.]), &[510., 440.]);
}

#[test]
fn early_exits() {
    let nested = "int f(int n) {
        for (int i = 0; i < n; i++) {
            if (i == 2) continue;
            for (int j = 0; ; j++) {
                if (j > i) break;
                if (i * j == 12) return i * 10 + j;
            }
        }
        return -1;
    }";
    close(&call(nested, &[10.]), &[43.]);
    close(&call(nested, &[3.]), &[-1.]);
    let switch =
        "int f(int x) { switch (x) { case 0: return 10; case 1: case 2: x += 100; case 3: x += 1000; break;
        default: x = -1; } return x; }";
    for (x, y) in [(0., 10.), (1., 1101.), (2., 1102.), (3., 1003.), (9., -1.)] {
        close(&call(switch, &[x]), &[y]);
    }
    let later =
        "int f(int x) { int y = 0; while (true) { y++; if (x > 5) { if (y > 3) break; x++; continue; }
        x += 2; if (x == 4) return 77; } return y * 100 + x; }";
    close(&call(later, &[0.]), &[77.]);
    close(&call(later, &[5.]), &[409.]);
}

#[test]
fn counted_loops_have_exact_trips() {
    for (head, want) in [
        ("int i = 0; i < 10; i += 3", 18.),
        ("int i = 10; i > 0; i -= 4", 18.),
        ("int i = 0; i <= 9; i += 3", 18.),
        ("uint i = 3; i < 3; i++", 0.),
        ("int i = -2; i != 2; i++", -2.),
        ("int i = 5; 2 <= i; --i", 14.),
    ] {
        close(&call(&format!("float f() {{ float s = 0; for ({head}) s += i; return s; }}"), &[]), &[want]);
    }
    let after = "int f(int n) { int i; int s = 0; for (i = 1; i < n; i += 2) s += i; return s * 100 + i; }";
    close(&call(after, &[6.]), &[907.]);
    close(&call(after, &[-6.]), &[1.]);
}

#[test]
fn arrays_and_structs() {
    let program = "
    struct P { float2 pos; float w[3]; [mutating] void bump(int i) { w[i] += 1; } float sum() { return w[0] + w[1] + w[2]; } }
    void touch(inout P p[2], int i) { p[i].pos.y = 7; p[i].bump(1); }
    float f(int i) { P p[2] = {}; p[i].w[i] = 5; touch(p, i); P q = p[1]; q.bump(0);
        return p[0].sum() * 1000 + p[1].sum() * 100 + q.sum() * 10 + p[i].pos.y; }";
    close(&call(program, &[1.]), &[0. + 600. + 70. + 7.]);
    close(&call(program, &[0.]), &[6000. + 0. + 10. + 7.]);
}

#[test]
fn derivative_operators() {
    let fwd = "[Differentiable] float g(float x, float y) { return x * x * y; }
        float f(float x, float y) { return fwd_diff(g)(diffPair(x, 1.0), diffPair(y, 0.0)).d; }";
    close(&call(fwd, &[3., 5.]), &[30.]);
    let bwd = "[Differentiable] float g(float x, no_diff float y) { return sin(x) * y; }
        float f(float x, float y) { var p = diffPair(x, 0.0); bwd_diff(g)(p, y, 2.0); return p.d; }";
    close(&call(bwd, &[0.5, 3.]), &[6. * 0.5f64.cos()]);
    let second = "[Differentiable] float g(float x) { return x * x * x; }
        [Differentiable] float h(float x) { return fwd_diff(g)(diffPair(x, 1.0)).d; }
        float f(float x) { return fwd_diff(h)(diffPair(x, 1.0)).d; }";
    close(&call(second, &[2.]), &[12.]);
}

#[test]
fn gradients_of_structs_and_loops() {
    let program = "
    struct S : IDifferentiable { float a; no_diff float b; int n; float2 c; }
    [Differentiable] float f(S s) { float r = 0; for (int i = 0; i < s.n; i++) r += s.a * s.b + dot(s.c, s.c); return r; }";
    close(&grad(program, &[2., 3., 4., 5., 6., 1.]), &[12., 40., 48.]);
}

#[test]
fn custom_derivatives() {
    let bwd = "[BackwardDerivative(g_bwd)] float g(float x) { return x; }
        void g_bwd(inout DifferentialPair<float> x, float d) { x = diffPair(x.p, d * 100); }
        [Differentiable] float f(float x) { return g(x) * 2; }";
    close(&grad(bwd, &[1., 1.]), &[200.]);
    let fwd = "[ForwardDerivative(g_fwd)] float g(float x) { return x; }
        DifferentialPair<float> g_fwd(DifferentialPair<float> x) { return diffPair(x.p, x.d * 7); }
        [ForwardDifferentiable] float h(float x) { return g(x) * x; }
        float f(float x) { return fwd_diff(h)(diffPair(x, 1.0)).d; }";
    close(&call(fwd, &[2.]), &[16.]);
}

#[test]
fn generics_and_interfaces() {
    let program = "
    interface IShape { float area(); static float scale(); }
    struct Sq : IShape { float s; float area() { return s * s; } static float scale() { return 2; } }
    float total<T : IShape, let N : int>(T t[N]) { float r = 0; for (int i = 0; i < N; i++) r += t[i].area() * T.scale(); return r; }
    float f(float a) { Sq s[2] = { { a }, { 3 } }; return total(s); }";
    close(&call(program, &[2.]), &[26.]);
}

#[test]
fn properties_and_subscripts() {
    let program = "
    struct V { float d[4];
        property float first { get { return d[0]; } set { d[0] = newValue * 2; } }
        __subscript(int i) -> float { get { return d[i]; } set { d[i] = newValue; } } }
    float f(int i) { V v; v.d = { 1, 2, 3, 4 }; v.first = 5; v[i] += 10; return v.first * 100 + v[i]; }";
    close(&call(program, &[2.]), &[1013.]);
}

#[test]
fn short_circuit_and_ternary() {
    let program = "static int count = 0;
        bool touch(bool b) { count++; return b; }
        void main() { bool a = false && touch(true); a = true || touch(a); int k = a ? 1 : (touch(a) ? 2 : 3);
            printf(\"%d %d\\n\", count, k); }";
    assert_eq!(prints(program), "0 1\n");
}

#[test]
fn entry_points_and_buffers() {
    let program = "struct S { float3 a; bool b; float c[2]; }
        RWStructuredBuffer<S> buf;
        [numthreads(1, 1, 1)] void main(uint3 id : SV_DispatchThreadID) {
            buf[id.x].a.y = 3; buf[id.x].c[1] = 4; S s = buf[0]; s.b = true; s.c[0] = s.a.y + s.c[1]; buf[1] = s;
            printf(\"%g %g %d\\n\", buf[1].c[0], buf[1].a.y, (int)buf[1].b); }";
    assert_eq!(prints(program), "7 3 1\n");
}

#[test]
fn exits_through_switches_and_loops() {
    let program = "int f(int n) { int s = 0; for (int i = 0; i < n; i++) { switch (i % 4) { case 0: continue; case 1: s += 1;
        break; case 2: if (s > 2000) return s * 1000; s += 10; default: s += 100; } s += 1000; } return s; }";
    close(&call(program, &[3.]), &[2111.]);
    close(&call(program, &[4.]), &[3211.]);
    close(&call(program, &[9.]), &[4212000.]);
    let endless = "int f(int n) { int i = 0; do { i++; if (i == 3) continue; if (i > n) { break; } } while (i < 10); return i; }";
    close(&call(endless, &[5.]), &[6.]);
    close(&call(endless, &[50.]), &[10.]);
    let guarded = "int f(int x) { int y = 0; if (x > 0) { if (x > 10) return 1; y = 5; } else { y = 7; if (x < -10) return 2; }
        y++; { if (x == 3) return y * 100; } return y; }";
    for (x, y) in [(11., 1.), (-11., 2.), (3., 600.), (1., 6.), (0., 8.)] {
        close(&call(guarded, &[x]), &[y]);
    }
}

#[test]
fn places_are_evaluated_once() {
    let program = "static int calls = 0;
        int next() { return calls++; }
        float f() { float a[3] = { 10, 20, 30 }; a[next()] += 1; a[next()]++; float2x2 m = float2x2(1, 2, 3, 4);
            m[next() - 1].y *= 10; return a[0] * 1000 + a[1] + m[1][1] / 100 + calls * 100000; }";
    close(&call(program, &[]), &[300000. + 11000. + 21. + 0.4]);
}

#[test]
fn inout_is_copied_in_and_out() {
    let program = "void swap(inout float a, inout float b) { float t = a; a = b; b = t; }
        void twice(inout float x, inout float y) { x = x + 1; y = y + 10; }
        void give(out float3 v, out int n) { v = float3(1, 2, 3); n = 4; }
        float f(float3 v) { swap(v.x, v.z); float z = 1; twice(z, z); float w[2] = { 5, 6 }; swap(w[0], w[1]); uint k;
            give(v, k); return v.y * 1000 + z * 100 + w[0] * 10 + k; }";
    close(&call(program, &[7., 8., 9.]), &[2000. + 1100. + 60. + 4.]);
}

#[test]
fn constructors_and_defaults() {
    let program = "struct A { float x = 2; float y; __init(float a) { y = a; if (a > 5) return; x += 1; } }
        struct B { A a = A(1); int n[2] = { 4, 5 }; float2 v; }
        float plus(float a, float b = 0.5) { return a + b; }
        float f(float a) { B b; A c = A(a); A d = { 7 }; return b.a.x * 1000 + b.n[1] * 100 + c.x * 10 + d.y + plus(1) + b.v.x; }";
    close(&call(program, &[9.]), &[3000. + 500. + 20. + 7. + 1.5]);
    close(&call(program, &[4.]), &[3000. + 500. + 30. + 7. + 1.5]);
}

#[test]
fn operators_of_the_user() {
    let program = "struct C { float r; float i; [mutating] void turn() { float t = r; r = -i; i = t; } }
        C operator*(C a, C b) { return { a.r * b.r - a.i * b.i, a.r * b.i + a.i * b.r }; }
        C operator-(C a) { return { -a.r, -a.i }; }
        float f(float x) { C c = { x, 1 }; c = c * c; c = -c; C a[2] = { c, c }; a[1].turn(); a[0] *= a[1]; return a[0].r * 100 + a[0].i; }";
    // (x + i)^2 = 8 + 6i; negated; times i; product
    close(&call(program, &[3.]), &[-9600. + 28.]);
}

#[test]
fn gradients_through_control_flow() {
    let program = "[Differentiable] float f(float x, int n) { float a[4]; float r = 1; [MaxIters(8)] for (int i = 0; i < n; i++) {
        if (i == 3) break; a[i] = x * r; r = a[i] + (i == 1 ? x * x : 0); } return r; }";
    // r1 = x; r2 = x^2 + x^2; r3 = 2 x^3
    close(&grad(program, &[2., 9., 1.]), &[24.]);
    close(&grad(program, &[2., 2., 1.]), &[8.]);
    let nan = "[Differentiable] float f(float x) { return x > 0 ? sqrt(x) : 0; }";
    close(&grad(nan, &[-1., 1.]), &[0.]);
    let inout = "[Differentiable] void g(inout float x, float y) { x = x * y; }
        [Differentiable] float f(float x, float y) { float z = x; g(z, y); g(z, y); return z; }";
    close(&grad(inout, &[3., 2., 1.]), &[4., 12.]);
}

#[test]
fn derivatives_that_the_user_wrote_for_members() {
    let program = "struct S : IDifferentiable { float k;
        [BackwardDerivative(b)] float m(float x) { return k * x; }
        static void b(inout DifferentialPair<S> s, inout DifferentialPair<float> x, float d) {
            S.Differential ds; ds.k = d * 10; s = diffPair(s.p, ds); x = diffPair(x.p, d * 100); } }
        [Differentiable] float f(S s, float x) { return s.m(x) * 2; }";
    close(&grad(program, &[3., 4., 1.]), &[20., 200.]);
    let nested = "[Differentiable] float g(float x, no_diff float y) { return x * x * y; }
        [Differentiable] float f(float x) { var p = diffPair(x, 0.0); bwd_diff(g)(p, 3.0, 1.0); return p.d * x; }";
    close(&grad(nested, &[2., 1.]), &[24.]);
}
