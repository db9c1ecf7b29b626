//! Random programs at singular points: zeros, ties, bounds, infinities, with singularities in the code that
//! is not executed or selected.
//!
//! The oracle shares no code with the compiler. It runs the generated program, statement by statement, on
//! numbers of its own, and records for each number from which others it was computed, and by which factors. A
//! number that no tangent or cotangent reaches has no derivative (`None`), which differs from the number 0:
//! `None` scaled by infinity is `None`, whereas 0 gives NaN. Forward and reverse mode of every backend and
//! level must give exactly the oracle's numbers, and NaN where it has NaN, whether the program itself calls
//! its derivatives or a host does. `PULLBACK_RANDOM` sets the number of programs, `PULLBACK_SEED` the first
//! seed.

use std::fmt::Write as _;

use driver::call::Callee;
use driver::launch::{Backend, CodeOptions, Runner};
use driver::pipeline::{Failure, Loaded, Options, on_large_stack};
use driver::session::{FileOptions, Session};
use driver::{Request, render};
use pullback_tests::generate::Rng;
use pullback_tests::setting;

/// The number of inputs of the function.
const INPUTS: usize = 3;
/// The number of points at which a program is run.
const POINTS: usize = 6;
/// The number of results at a point: the value, three forward derivatives, three of reverse mode.
const RESULTS: usize = 1 + 2 * INPUTS;
/// Numbers at which some operation is singular.
const NUMBERS: [f64; 8] = [0.0, 1.0, -1.0, 0.5, 2.0, 0.0, 1.0, f64::INFINITY];

/// Operations on `double`s `a` and `b` and a constant.
#[derive(Clone, Copy, Debug)]
enum Scalar {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    /// The maximum of a number and a constant.
    MaxConst,
    Clamp,
    Log,
    Sqrt,
    Abs,
    /// `a > c ? a / b : c`
    Choose,
    /// The same choice by `select`.
    Select,
    /// `if (a > c) t = log(b); else t = a;`
    Branch,
    /// A function that ignores its second argument, given `1 / b`.
    Ignore,
    /// The same with a generic function.
    IgnoreGeneric,
    /// The same through an interface, where the sign of `a` selects the type.
    Dispatch,
    /// The same by recursion.
    Recurse,
    /// A struct of which one field is used.
    Field,
    /// An unused `out` parameter beside a used one.
    Out,
    /// A loop that skips the singular operation by `continue`.
    Continue,
    /// A loop that ends before the singular operation.
    Break,
    /// An array in which the singular element is overwritten.
    Array,
    /// An array that is read at an index known only at run time.
    Index,
}

const SCALARS: [Scalar; 24] = [
    Scalar::Add,
    Scalar::Sub,
    Scalar::Mul,
    Scalar::Div,
    Scalar::Min,
    Scalar::Max,
    Scalar::MaxConst,
    Scalar::Clamp,
    Scalar::Log,
    Scalar::Sqrt,
    Scalar::Abs,
    Scalar::Choose,
    Scalar::Select,
    Scalar::Branch,
    Scalar::Ignore,
    Scalar::IgnoreGeneric,
    Scalar::Dispatch,
    Scalar::Recurse,
    Scalar::Field,
    Scalar::Out,
    Scalar::Continue,
    Scalar::Break,
    Scalar::Array,
    Scalar::Index,
];

/// Operations on vectors `(a, b, c)` and `(b, c, a)`, lane by lane; the result is one lane.
#[derive(Clone, Copy, Debug)]
enum Vector {
    Div,
    Max,
    Select,
    Clamp,
    /// The quotient, with the first lane overwritten.
    Overwrite,
}

const VECTORS: [Vector; 5] = [Vector::Div, Vector::Max, Vector::Select, Vector::Clamp, Vector::Overwrite];

/// A statement computes the next number from existing numbers.
#[derive(Clone, Debug)]
enum Statement {
    Scalar(Scalar, [usize; 2], f64),
    Vector(Vector, [usize; 3], usize, f64),
}

fn program(rng: &mut Rng) -> Vec<Statement> {
    let n = 3 + rng.below(6);
    (0..n)
        .map(|k| {
            // Later numbers are preferred, to make chains longer.
            let any = |rng: &mut Rng| {
                let (x, y) = (rng.below(INPUTS + k), rng.below(INPUTS + k));
                x.max(y)
            };
            let constant = [0.0, 1.0, 0.5, -1.0][rng.below(4)];
            if rng.below(4) == 0 {
                let vector = VECTORS[rng.below(VECTORS.len())];
                let args = [any(rng), any(rng), any(rng)];
                Statement::Vector(vector, args, rng.below(3), constant)
            } else {
                let scalar = SCALARS[rng.below(SCALARS.len())];
                Statement::Scalar(scalar, [any(rng), any(rng)], constant)
            }
        })
        .collect()
}

// ---- the program as text

const PRELUDE: &str = "
interface IPick : IDifferentiable { [Differentiable] double pick(double a, double b); }
struct First : IPick { double k; [Differentiable] double pick(double a, double b) { return a * 2; } }
struct Both : IPick { double k; [Differentiable] double pick(double a, double b) { return a * b; } }
struct Two : IDifferentiable { double a; double b; }
[Differentiable] double ignore(double a, double b) { return a * 3; }
[Differentiable] T ignoreAny<T : __BuiltinFloatingPointType>(T a, T b) { return a + a; }
[Differentiable] double recurse(double a, double b, int n) { if (n == 0) return a; return recurse(a * 2, 1 / b, n - 1); }
[Differentiable] Two two(double a, double b) { Two t; t.a = a * a; t.b = log(b); return t; }
[Differentiable] void outs(double a, double b, out double s, out double t) { s = a + 1; t = 1 / b; }
[Differentiable] IPick either(double a, double k) { if (a > 0) { Both b; b.k = k; return b; } First f; f.k = k; return f; }
";

fn text(program: &[Statement]) -> String {
    let mut body = String::new();
    for (k, statement) in program.iter().enumerate() {
        let r = INPUTS + k;
        let line = match statement {
            Statement::Scalar(op, [a, b], c) => scalar_text(*op, r, *a, *b, *c),
            Statement::Vector(op, [a, b, c], lane, constant) => {
                let (x, y) = (format!("double3(v{a}, v{b}, v{c})"), format!("double3(v{b}, v{c}, v{a})"));
                let k = format!("double3({constant:?})");
                let lane = ["x", "y", "z"][*lane];
                match op {
                    Vector::Div => format!("double3 w{r} = {x} / {y}; double v{r} = w{r}.{lane};"),
                    Vector::Max => format!("double3 w{r} = max(log({x}), {k}); double v{r} = w{r}.{lane};"),
                    Vector::Select => {
                        format!("double3 w{r} = select({y} > 0, {x} / {y}, {k}); double v{r} = w{r}.{lane};")
                    }
                    Vector::Clamp => {
                        format!(
                            "double3 w{r} = clamp({x} / {y}, double3(-1.0), double3(1.0)); double v{r} = w{r}.{lane};"
                        )
                    }
                    Vector::Overwrite => {
                        format!("double3 w{r} = {x} / {y}; w{r}.x = {constant:?}; double v{r} = w{r}.{lane};")
                    }
                }
            }
        };
        let _ = writeln!(body, "    {line}");
    }
    let last = INPUTS + program.len() - 1;
    let mut text = PRELUDE.to_string();
    let _ = writeln!(text, "[Differentiable] double f(double v0, double v1, double v2, int n)\n{{\n{body}");
    let _ = writeln!(text, "    return v{last} + v{};\n}}", last - 1);
    text += "RWStructuredBuffer<double> given;\nRWStructuredBuffer<double> found;\n\
             [shader(\"compute\")] [numthreads(1, 1, 1)]\nvoid main(uint3 id : SV_GroupID)\n{\n    \
             uint i = id.x * 3, o = id.x * 7;\n    int n = int(id.x % 2);\n    \
             double x = given[i], y = given[i + 1], z = given[i + 2];\n    \
             found[o] = f(x, y, z, n);\n    \
             found[o + 1] = fwd_diff(f)(diffPair(x, 1.0), diffPair(y, 0.0), diffPair(z, 0.0), n).d;\n    \
             found[o + 2] = fwd_diff(f)(diffPair(x, 0.0), diffPair(y, 1.0), diffPair(z, 0.0), n).d;\n    \
             found[o + 3] = fwd_diff(f)(diffPair(x, 0.0), diffPair(y, 0.0), diffPair(z, 1.0), n).d;\n    \
             var a = diffPair(x, 0.0); var b = diffPair(y, 0.0); var c = diffPair(z, 0.0);\n    \
             bwd_diff(f)(a, b, c, n, 1.0);\n    \
             found[o + 4] = a.d; found[o + 5] = b.d; found[o + 6] = c.d;\n}\n";
    text
}

fn scalar_text(op: Scalar, r: usize, a: usize, b: usize, c: f64) -> String {
    let value = match op {
        Scalar::Add => format!("v{a} + v{b}"),
        Scalar::Sub => format!("v{a} - v{b}"),
        Scalar::Mul => format!("v{a} * v{b}"),
        Scalar::Div => format!("v{a} / v{b}"),
        Scalar::Min => format!("min(v{a}, v{b})"),
        Scalar::Max => format!("max(v{a}, v{b})"),
        Scalar::MaxConst => format!("max(v{a}, {c:?})"),
        Scalar::Clamp => format!("clamp(v{a}, -1.0, 1.0)"),
        Scalar::Log => format!("log(v{a})"),
        Scalar::Sqrt => format!("sqrt(v{a})"),
        Scalar::Abs => format!("abs(v{a})"),
        Scalar::Choose => format!("v{a} > {c:?} ? v{a} / v{b} : {c:?}"),
        Scalar::Select => format!("select(v{a} > {c:?}, v{a} / v{b}, {c:?})"),
        Scalar::Branch => {
            return format!("double v{r}; if (v{a} > {c:?}) v{r} = log(v{b}); else v{r} = v{a};");
        }
        Scalar::Ignore => format!("ignore(v{a}, 1 / v{b})"),
        Scalar::IgnoreGeneric => format!("ignoreAny(v{a}, 1 / v{b})"),
        Scalar::Dispatch => format!("either(v{a}, v{b}).pick(v{a}, 1 / v{b})"),
        Scalar::Recurse => format!("recurse(v{a}, 1 / v{b}, 2)"),
        Scalar::Field => format!("two(v{a}, v{b}).a"),
        Scalar::Out => return format!("double v{r}, t{r}; outs(v{a}, v{b}, v{r}, t{r});"),
        Scalar::Continue => {
            return format!(
                "double v{r} = {c:?}; for (int i = 0; i < 3; i++) {{ double y = v{a} * i; double t = log(y) / y; \
                 if (i == 0) continue; v{r} += t * v{b}; }}"
            );
        }
        Scalar::Break => {
            return format!(
                "double v{r} = v{b}; for (int i = 2; i >= 0; i--) {{ double t = v{a} / double(i); \
                 if (i == n) break; v{r} += t; }}"
            );
        }
        Scalar::Array => {
            return format!(
                "double t{r}[3]; for (int i = 0; i < 3; i++) t{r}[i] = 1 / (v{a} * i); t{r}[0] = v{b}; \
                 double v{r} = t{r}[n];"
            );
        }
        Scalar::Index => {
            return format!("double t{r}[2] = {{ v{a} * 2, 1 / v{b} }}; double v{r} = t{r}[n];");
        }
    };
    format!("double v{r} = {value};")
}

// ---- the oracle

/// The origin of a number.
enum Made {
    /// A sum of other numbers, each with a factor.
    Of(Vec<(usize, f64)>),
    Quotient(usize, usize, f64, f64),
}

/// The numbers of a run, in the order of their computation.
#[derive(Default)]
struct Run {
    values: Vec<f64>,
    made: Vec<Made>,
}

impl Run {
    fn push(&mut self, value: f64, of: Vec<(usize, f64)>) -> usize {
        self.values.push(value);
        self.made.push(Made::Of(of));
        self.values.len() - 1
    }

    fn constant(&mut self, value: f64) -> usize {
        self.push(value, Vec::new())
    }

    fn add(&mut self, a: usize, b: usize) -> usize {
        self.push(self.values[a] + self.values[b], vec![(a, 1.0), (b, 1.0)])
    }

    fn mul(&mut self, a: usize, b: usize) -> usize {
        let (x, y) = (self.values[a], self.values[b]);
        self.push(x * y, vec![(a, y), (b, x)])
    }

    fn div(&mut self, a: usize, b: usize) -> usize {
        let (x, y) = (self.values[a], self.values[b]);
        self.values.push(x / y);
        self.made.push(Made::Quotient(a, b, x / y, 1.0 / y));
        self.values.len() - 1
    }

    fn log(&mut self, a: usize) -> usize {
        let x = self.values[a];
        self.push(x.ln(), vec![(a, 1.0 / x)])
    }

    /// Follows the library's rule: at a tie each operand has half the derivative, and beside a NaN the other
    /// operand has all of it.
    fn extreme(&mut self, a: usize, b: usize, is_max: bool) -> usize {
        let (x, y) = (self.values[a], self.values[b]);
        let (above, below) = if is_max { (x > y, x < y) } else { (x < y, x > y) };
        let (value, of) = if x == y {
            (x, vec![(a, 0.5), (b, 0.5)])
        } else if above || y.is_nan() {
            (x, vec![(a, 1.0)])
        } else {
            debug_assert!(below || x.is_nan());
            (y, vec![(b, 1.0)])
        };
        self.push(value, of)
    }

    /// Clamps between constants; the result for a NaN is the lower one.
    fn clamp(&mut self, a: usize, low: f64, high: f64) -> usize {
        let x = self.values[a];
        if x >= low && x <= high {
            self.push(x, vec![(a, 1.0)])
        } else {
            self.constant(if x > high { high } else { low })
        }
    }

    fn statement(&mut self, statement: &Statement, n: usize, at: &[usize]) -> usize {
        match *statement {
            Statement::Scalar(op, [a, b], c) => self.scalar(op, at[a], at[b], c, n),
            Statement::Vector(op, args, lane, c) => {
                let (a, b) = (at[args[lane]], at[args[(lane + 1) % 3]]);
                match op {
                    Vector::Div => self.div(a, b),
                    Vector::Max => {
                        let (log, c) = (self.log(a), self.constant(c));
                        self.extreme(log, c, true)
                    }
                    Vector::Select if self.values[b] > 0.0 => self.div(a, b),
                    Vector::Select => self.constant(c),
                    Vector::Clamp => {
                        let q = self.div(a, b);
                        self.clamp(q, -1.0, 1.0)
                    }
                    Vector::Overwrite if lane == 0 => self.constant(c),
                    Vector::Overwrite => self.div(a, b),
                }
            }
        }
    }

    fn scalar(&mut self, op: Scalar, a: usize, b: usize, c: f64, n: usize) -> usize {
        let (x, y) = (self.values[a], self.values[b]);
        match op {
            Scalar::Add => self.add(a, b),
            Scalar::Sub => self.push(x - y, vec![(a, 1.0), (b, -1.0)]),
            Scalar::Mul => self.mul(a, b),
            Scalar::Div => self.div(a, b),
            Scalar::Min => self.extreme(a, b, false),
            Scalar::Max => self.extreme(a, b, true),
            Scalar::MaxConst => {
                let c = self.constant(c);
                self.extreme(a, c, true)
            }
            Scalar::Clamp => self.clamp(a, -1.0, 1.0),
            Scalar::Log => self.log(a),
            Scalar::Sqrt => {
                let (root, least) = (x.sqrt(), 1e-7f64.sqrt());
                let slope = 0.5 / if least < root { root } else { least };
                self.push(root, vec![(a, slope)])
            }
            Scalar::Abs => {
                let sign = if x > 0.0 {
                    1.0
                } else if x < 0.0 {
                    -1.0
                } else {
                    0.0
                };
                self.push(x.abs(), vec![(a, sign)])
            }
            Scalar::Choose | Scalar::Select if x > c => self.div(a, b),
            Scalar::Choose | Scalar::Select => self.constant(c),
            Scalar::Branch if x > c => self.log(b),
            Scalar::Branch => a,
            Scalar::Ignore => self.push(x * 3.0, vec![(a, 3.0)]),
            Scalar::IgnoreGeneric => self.add(a, a),
            Scalar::Dispatch if x > 0.0 => {
                let one = self.constant(1.0);
                let q = self.div(one, b);
                self.mul(a, q)
            }
            Scalar::Dispatch => self.push(x * 2.0, vec![(a, 2.0)]),
            Scalar::Recurse => {
                let twice = self.push(x * 2.0, vec![(a, 2.0)]);
                self.push(x * 4.0, vec![(twice, 2.0)])
            }
            Scalar::Field => self.mul(a, a),
            Scalar::Out => self.push(x + 1.0, vec![(a, 1.0)]),
            Scalar::Continue => {
                let mut sum = self.constant(c);
                for i in 1..3 {
                    let y = self.push(x * f64::from(i), vec![(a, f64::from(i))]);
                    let log = self.log(y);
                    let t = self.div(log, y);
                    let t = self.mul(t, b);
                    sum = self.add(sum, t);
                }
                sum
            }
            Scalar::Break => {
                let mut sum = b;
                for i in (n + 1..3).rev() {
                    let i = self.constant(i as f64);
                    let t = self.div(a, i);
                    sum = self.add(sum, t);
                }
                sum
            }
            Scalar::Array if n == 0 => b,
            Scalar::Array => {
                let y = self.push(x * n as f64, vec![(a, n as f64)]);
                let one = self.constant(1.0);
                self.div(one, y)
            }
            Scalar::Index if n == 0 => self.push(x * 2.0, vec![(a, 2.0)]),
            Scalar::Index => {
                let one = self.constant(1.0);
                self.div(one, b)
            }
        }
    }

    fn forward(&self, input: usize, result: usize) -> f64 {
        let mut tangents: Vec<Option<f64>> = Vec::new();
        for (k, made) in self.made.iter().enumerate() {
            let of = |at: usize| tangents[at];
            let tangent = match made {
                Made::Of(_) if k < INPUTS => (k == input).then_some(1.0),
                Made::Of(parts) => {
                    parts.iter().fold(None, |sum, &(at, by)| plus(sum, of(at).map(|d| d * by)))
                }
                Made::Quotient(a, b, q, r) => plus(of(*a), of(*b).map(|d| -(d * q))).map(|d| d * r),
            };
            tangents.push(tangent);
        }
        tangents[result].unwrap_or(0.0)
    }

    fn reverse(&self, result: usize) -> Vec<f64> {
        let mut cotangents: Vec<Option<f64>> = vec![None; self.made.len()];
        cotangents[result] = Some(1.0);
        for (k, made) in self.made.iter().enumerate().skip(INPUTS).rev() {
            let Some(c) = cotangents[k] else { continue };
            let mut give = |at: usize, part: f64| cotangents[at] = plus(cotangents[at], Some(part));
            match made {
                Made::Of(parts) => parts.iter().for_each(|&(at, by)| give(at, c * by)),
                Made::Quotient(a, b, q, r) => {
                    give(*a, c * r);
                    give(*b, -(c * r) * q);
                }
            }
        }
        cotangents[..INPUTS].iter().map(|d| d.unwrap_or(0.0)).collect()
    }
}

fn plus(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

fn wanted(program: &[Statement], point: &[f64], n: usize) -> Vec<f64> {
    let mut run = Run::default();
    let mut at: Vec<usize> = point.iter().map(|&x| run.constant(x)).collect();
    for statement in program {
        let made = run.statement(statement, n, &at);
        at.push(made);
    }
    let result = run.add(at[at.len() - 1], at[at.len() - 2]);
    let mut all = vec![run.values[result]];
    all.extend((0..INPUTS).map(|input| run.forward(input, result)));
    all.extend(run.reverse(result));
    all
}

// ---- the compiler

/// Loads a program and runs `work` on it.
fn with<T>(text: &str, work: impl FnOnce(&mut Loaded) -> Result<T, Failure>) -> Result<T, String> {
    let mut session = Session::new(FileOptions::default());
    let mut program = session.program();
    let file = session.load_text(&mut program, "singular.slang", text.to_string(), ".".as_ref());
    work(&mut Loaded::new(program, file)).map_err(|failure| match failure {
        Failure::Program(diagnostics) => {
            render::all_to_text(&session.sources, &diagnostics, driver::render::Style::Plain)
        }
        Failure::Other(error) => error.to_string(),
    })
}

/// The results at all points, with derivatives called by the program itself.
fn found(text: &str, backend: Backend, options: &Options, given: &[f64]) -> Result<Vec<f64>, String> {
    let bytes = |numbers: &[f64]| -> Vec<u8> { numbers.iter().flat_map(|x| x.to_le_bytes()).collect() };
    with(text, |loaded| {
        let entry = loaded.entry(Some("main"))?;
        let request = Request { entries: vec![entry], ..Request::default() };
        let compiled = loaded.compile(&request, options)?;
        let mut runner = Runner::with_options(compiled.module, backend, &code())?;
        for (name, content) in [("given", bytes(given)), ("found", bytes(&[0.0; POINTS * RESULTS]))] {
            if let Some(global) = runner.find(name) {
                runner.bind_global(global, &content);
            }
        }
        runner.dispatch("main", [POINTS as u32, 1, 1], 1)?;
        let found = runner.find("found").expect("a global of the program");
        let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        Ok(runner.bytes_of(found).chunks_exact(8).map(number).collect())
    })
}

/// The results with derivatives requested by the host, as `grad` does: from tangents and cotangents that the
/// host provides.
fn asked(text: &str, backend: Backend, options: &Options, given: &[f64]) -> Result<Vec<f64>, String> {
    with(text, |loaded| {
        let functions = vec![loaded.function("f")?];
        let request = Request { functions, derivatives: true, sparse: true, ..Request::default() };
        let compiled = loaded.compile(&request, options)?;
        let mut callee = Callee::new(compiled, backend, &code(), &[])?;
        let mut all = Vec::new();
        for (k, numbers) in given.chunks_exact(INPUTS).enumerate() {
            let point = numbers.iter().map(|x| x.to_bits()).chain([k as u64 % 2]).collect();
            all.extend(callee.value(&point)?.into_iter().map(f64::from_bits));
            all.extend(callee.forward(&point)?.concat());
            all.extend(callee.reverse(&point)?.concat());
        }
        Ok(all)
    })
}

fn code() -> CodeOptions {
    CodeOptions::default()
}

fn same(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-7 * a.abs().max(b.abs())
}

#[test]
fn what_is_not_taken_adds_nothing() {
    let (first, n) = (setting("PULLBACK_SEED", 1), setting("PULLBACK_RANDOM", 12));
    let mut failures = Vec::new();
    on_large_stack(|| {
        for seed in first..first + n {
            let mut rng = Rng::new(seed);
            let program = program(&mut rng);
            let given: Vec<f64> = (0..POINTS * INPUTS).map(|_| NUMBERS[rng.below(NUMBERS.len())]).collect();
            let points = given.chunks_exact(INPUTS).enumerate();
            let wanted: Vec<f64> = points.flat_map(|(k, point)| wanted(&program, point, k % 2)).collect();
            let text = text(&program);
            let mut backends = vec![(Backend::INTERP, 0), (Backend::INTERP, 1), (Backend::INTERP, 2)];
            backends.extend([(Backend::CRANELIFT, 0), (Backend::CRANELIFT, 1), (Backend::CRANELIFT, 2)]);
            backends.extend(Backend::named("llvm").into_iter().flat_map(|llvm| [(llvm, 0), (llvm, 2)]));
            for (backend, level) in backends {
                let mut options = Options::default();
                options.optimise.level = level;
                let ways = [
                    ("a program", found(&text, backend, &options, &given)),
                    ("a host", asked(&text, backend, &options, &given)),
                ];
                let fault = ways.into_iter().find_map(|(whose, found)| match found {
                    Ok(found) => {
                        let at = found.iter().zip(&wanted).position(|(&a, &b)| !same(a, b));
                        assert_eq!(found.len(), wanted.len());
                        let at = at?;
                        let point = &given[at / RESULTS * INPUTS..][..INPUTS];
                        let (a, b) = (found[at], wanted[at]);
                        Some(format!("result {} of {whose} at {point:?}: {a} instead of {b}", at % RESULTS))
                    }
                    Err(why) => Some(why),
                });
                if let Some(fault) = fault {
                    failures.push(format!("seed {seed}, {backend:?} -O{level}: {fault}\n{text}"));
                    break;
                }
            }
        }
    });
    let n = failures.len();
    assert!(
        failures.is_empty(),
        "{n} programs:\n{}",
        failures.into_iter().take(3).collect::<Vec<_>>().join("\n\n")
    );
}
