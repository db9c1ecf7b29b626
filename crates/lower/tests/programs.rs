//! Programs through parser, checker, lowering, differentiation and the interpreter.
//!
//! Each test calls a function of a small program and compares the numbers that come out; the IR is
//! verified after lowering and after differentiation. `EMIT_IR=1` prints it.
#![allow(clippy::unwrap_used)]

use check::{NoModules, Program};
use ir::interp::{self, Memory, Value};
use ir::Scalar;
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

/// What `main` prints.
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
