//! Small programs that are checked with the whole library, and what the checker answers about them. Diagnostics and
//! the types of expressions are in `tests/check`.

use syntax::{Ast, DeclId, NoIncludes, Sources, parse_file};

use crate::tables::{Callable, DiffOp, FuncRef, Meaning};
use crate::types::Ty;
use crate::{Direction, ModuleId, NoModules, Program, Resolved, View};

const CORE: [&str; 5] = [
    include_str!("../../driver/core/prelude.slang"),
    include_str!("../../driver/core/math.slang"),
    include_str!("../../driver/core/vector.slang"),
    include_str!("../../driver/core/buffers.slang"),
    include_str!("../../driver/core/derivatives.slang"),
];

pub(crate) struct Checked {
    pub(crate) program: Program,
    file: usize,
    sources: Sources,
}

/// Checks a program, which must not change any node that the parser made.
fn check(source: &str) -> Checked {
    let mut sources = Sources::default();
    let mut ast = Ast::default();
    let mut diagnostics = Vec::new();
    let mut core = Vec::new();
    for text in CORE {
        let id = sources.add("core", text);
        core.push(parse_file(&mut ast, &mut sources, id, &mut NoIncludes, &[], &mut diagnostics));
    }
    let library = ast.clone();
    let mut program = Program::new(ast, &core);
    assert_kept(&library, &program.ast);
    let id = sources.add("test.slang", source);
    let file = parse_file(&mut program.ast, &mut sources, id, &mut NoIncludes, &[], &mut diagnostics);
    let parsed = program.ast.clone();
    program.add_module(file, &mut NoModules);
    program.check_file(file);
    assert_kept(&parsed, &program.ast);
    diagnostics.append(&mut program.diagnostics);
    program.diagnostics = diagnostics;
    Checked { program, file, sources }
}

/// Asserts that an AST has all nodes that it had before, unchanged.
fn assert_kept(before: &Ast, after: &Ast) {
    fn all<'a, T: std::fmt::Debug + 'a>(
        before: impl Iterator<Item = &'a T>,
        after: impl Iterator<Item = &'a T>,
    ) {
        for (before, after) in before.zip(after) {
            assert_eq!(format!("{after:?}"), format!("{before:?}"));
        }
    }
    all(before.decls.values(), after.decls.values());
    all(before.stmts.values(), after.stmts.values());
    all(before.exprs.values(), after.exprs.values());
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

    pub(crate) fn func(&self, name: &str) -> FuncRef {
        let decl = self.program.find_function(self.file, name)[0];
        FuncRef { decl, args: Vec::new(), self_ty: None }
    }

    /// The last variable of this name in any body.
    fn var(&self, name: &str) -> DeclId {
        let symbol = self.program.ast.symbols.find(name).unwrap();
        let mut found = self.program.ast.decls.iter().filter(|d| d.1.name == symbol).map(|d| d.0);
        found.next_back().unwrap()
    }
}

#[track_caller]
pub(crate) fn accept(source: &str) -> Checked {
    let checked = check(source);
    assert_eq!(checked.errors(), Vec::<String>::new());
    checked
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
fn what_other_source_defines_is_beside_the_tree() {
    let checked = accept(
        "interface IShape { float area(); }
         struct Bits { uint a : 3; int b : 7; uint z : 0; uint c : 30; }
         float of(IShape shape) { return shape.area(); }
         int sum(int a[]) { int s = 0; for (int i = 0; i < a.getCount(); i++) s += a[i]; return s; }
         float twice(functype(float) -> float f, float x) { return f(f(x)); }
         [Differentiable] float square(float x) { return x * x; }
         struct Disk : IShape { float r; float area() { return twice((float x) => x * r, 2.0) + twice(square, r); } }
         [Differentiable] float g(float x) { let (y, pull) = __apply(square)(x); return y; }
         float all(Bits bits) {
             int a[3] = { 1, 2, 3 };
             bits.b = sum(a);
             Disk disk = { 2.0 };
             return of(disk) + bits.b + g(1.0);
         }",
    );
    let symbol = checked.program.ast.symbols.find("Bits").unwrap();
    let found = checked.program.ast.decls.iter().find(|d| d.1.name == symbol).unwrap().0;
    let names = |of: &[DeclId]| of.iter().map(|&d| checked.program.ast.decl_name(d)).collect::<Vec<_>>();
    assert_eq!(names(checked.program.ast.decls[found].kind.members()), ["a", "b", "z", "c"]);
    assert_eq!(names(checked.program.members(found)), ["__bits0", "a", "b", "z", "__bits1", "c"]);
}

#[test]
fn derivative_operators_have_signatures() {
    let checked = accept(
        "struct N { float a; int b; } struct S : IDifferentiable { float a; int b; }
         [Differentiable] float f(float x, S s, N n, no_diff float k, inout float y, out float z) { z = x; return x; }",
    );
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
        .iter()
        .filter_map(|(_, e)| match &e.meaning {
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
