//! Compares every function of the library, and its derivatives, with numbers of twenty digits computed by
//! mpmath (tests/precision/table.py): values, slopes by forward and by reverse mode, and second derivatives
//! by forward and by reverse mode over forward mode; in doubles, floats and halves; on every backend of the
//! build.
//!
//! `PULLBACK_REPORT=1` prints the largest errors of each function, in units in the last place.

use driver::launch::{Backend, CodeOptions, Runner};
use driver::pipeline::{Failure, Loaded, Options, on_large_stack};
use driver::session::{FileOptions, Session};
use driver::{Request, render};

/// A floating-point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Float {
    Half,
    Single,
    Double,
}

impl Float {
    const ALL: [Float; 3] = [Float::Double, Float::Single, Float::Half];

    fn name(self) -> &'static str {
        ["half", "float", "double"][self as usize]
    }

    /// The size of a number in bytes; the number of bits of its fraction; its least normal exponent.
    fn format(self) -> (usize, i32, i32) {
        [(2, 10, -14), (4, 23, -126), (8, 52, -1022)][self as usize]
    }

    fn largest(self) -> f64 {
        [65504.0, f64::from(f32::MAX), f64::MAX][self as usize]
    }

    fn bytes(self, x: f64) -> Vec<u8> {
        let bits = ir::build::float_bits(self.scalar(), x);
        bits.to_le_bytes()[..self.format().0].to_vec()
    }

    fn number(self, bytes: &[u8]) -> f64 {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        ir::build::float_value(self.scalar(), u64::from_le_bytes(all))
    }

    fn scalar(self) -> ir::Scalar {
        [ir::Scalar::F16, ir::Scalar::F32, ir::Scalar::F64][self as usize]
    }

    fn is_exact(self, x: f64) -> bool {
        self.number(&self.bytes(x)) == x
    }

    /// The unit in the last place of a number; that of the least normal number for smaller ones.
    fn unit(self, x: f64) -> f64 {
        let (_, fraction, least) = self.format();
        let exponent = if x == 0.0 { least } else { (x.abs().log2().floor() as i32).max(least) };
        // The product is taken in two steps, since the least double has no reciprocal.
        2f64.powi(exponent) * 2f64.powi(-fraction)
    }
}

/// A function of the table.
struct Function {
    name: String,
    arity: usize,
    text: String,
    points: Vec<Point>,
}

/// The arguments, and the expected results: the value, the slope by each argument, the second derivative
/// along [`WAY`].
struct Point {
    args: Vec<f64>,
    wanted: Vec<f64>,
}

const WAY: [f64; 3] = [1.0, 0.5, 0.25];

fn table() -> Vec<Function> {
    let mut functions: Vec<Function> = Vec::new();
    for line in include_str!("precision/table.txt").lines() {
        if let Some(head) = line.strip_prefix("= ") {
            let mut words = head.splitn(3, ' ');
            let mut word = || words.next().expect("three words").to_string();
            let (name, arity, text) = (word(), word().parse().expect("a number"), word());
            functions.push(Function { name, arity, text, points: Vec::new() });
        } else {
            let numbers: Vec<f64> = line.split(' ').map(|x| x.parse().expect("a number")).collect();
            let function = functions.last_mut().expect("a function before its points");
            let (args, wanted) = numbers.split_at(function.arity);
            function.points.push(Point { args: args.to_vec(), wanted: wanted.to_vec() });
        }
    }
    functions
}

impl Function {
    /// A kernel that writes for each point: the value; the slopes by forward mode; the slopes by reverse
    /// mode; the second derivative along the way; and the result of reverse mode over the first derivative
    /// along the way.
    fn kernel(&self, number: usize) -> String {
        let names = &["x", "y", "z"][..self.arity];
        let list = |each: &dyn Fn(&str, usize) -> String| {
            names.iter().enumerate().map(|(k, n)| each(n, k)).collect::<Vec<_>>().join(", ")
        };
        let (f, g) = (format!("f{number}"), format!("g{number}"));
        let params = list(&|n, _| format!("F {n}"));
        let primals = list(&|n, _| n.to_string());
        let along = list(&|n, k| format!("DifferentialPair<F>({n}, F({}))", WAY[k]));
        let mut body = format!("found[o] = {f}({primals});\n");
        for k in 0..self.arity {
            let pairs =
                list(&|n, i| format!("DifferentialPair<F>({n}, F({}))", if i == k { "1" } else { "0" }));
            body += &format!("found[o + {}] = fwd_diff({f})({pairs}).d;\n", 1 + k);
        }
        let mut reverse = |of: &str, first: usize| {
            body += "{\n";
            for n in names {
                body += &format!("DifferentialPair<F> p{n} = DifferentialPair<F>({n}, F(0));\n");
            }
            body += &format!("bwd_diff({of})({}, F(1));\n", list(&|n, _| format!("p{n}")));
            for (k, n) in names.iter().enumerate() {
                body += &format!("found[o + {}] = p{n}.d;\n", first + k);
            }
            body += "}\n";
        };
        reverse(&f, 1 + self.arity);
        reverse(&g, 2 + 2 * self.arity);
        body += &format!("found[o + {}] = fwd_diff({g})({along}).d;\n", 1 + 2 * self.arity);
        let read: String =
            names.iter().enumerate().map(|(k, n)| format!("F {n} = given[i + {k}];\n")).collect();
        format!(
            "[Differentiable] F {f}({params}) {{ return {}; }}\n\
             [Differentiable] F {g}({params}) {{ return fwd_diff({f})({along}).d; }}\n\
             [shader(\"compute\")] [numthreads(1, 1, 1)] void k{number}(uint3 tid : SV_DispatchThreadID)\n{{\n\
             uint i = tid.x * {}; uint o = tid.x * {};\n{read}{body}}}\n",
            self.text,
            self.arity,
            self.results(),
        )
    }

    fn results(&self) -> usize {
        2 + 3 * self.arity
    }

    /// The largest errors of the value, the slopes and the second derivatives in units in the last place,
    /// with their places.
    fn errors(&self, ty: Float, backend: Backend, found: &[f64]) -> [(f64, String); 3] {
        let is_device = most(ty, backend)[0] > 100.0;
        let mut worst = [const { (0.0, String::new()) }; 3];
        for (point, found) in self.points.iter().zip(found.chunks(self.results())) {
            let is_apt = |&x: &f64| ty.is_exact(x) && !(is_device && (x.abs() > 1e5 || x.abs() < 1e-3));
            if !point.args.iter().all(is_apt) {
                continue;
            }
            let n = self.arity;
            let mut compare = |kind: usize, what: &str, found: f64, wanted: f64| {
                // Numbers near the largest finite number may round to infinity.
                if wanted.abs() > 0.5 * ty.largest() {
                    return;
                }
                let off = (found - wanted).abs() / ty.unit(wanted);
                let off = if off.is_nan() { f64::INFINITY } else { off };
                if is_device && (found - wanted).abs() < 1e-6 {
                    return;
                }
                if off > worst[kind].0 {
                    worst[kind] = (off, format!("{what} at {:?}: {found:e}, not {wanted:e}", point.args));
                }
            };
            compare(0, "value", found[0], point.wanted[0]);
            for k in 0..n {
                compare(1, "forward", found[1 + k], point.wanted[1 + k]);
                compare(1, "reverse", found[1 + n + k], point.wanted[1 + k]);
            }
            let second = point.wanted[1 + n];
            compare(2, "forward over forward", found[1 + 2 * n], second);
            let parts = &found[2 + 2 * n..];
            let largest = parts.iter().zip(WAY).map(|(p, w)| (p * w).abs()).fold(0.0, f64::max);
            // A sum of parts that cancel is only as accurate as its parts.
            if ty.unit(largest) <= ty.unit(second) {
                let sum = parts.iter().zip(WAY).map(|(p, w)| p * w).sum();
                compare(2, "reverse over forward", sum, second);
            }
        }
        worst
    }
}

/// The numbers that the kernels of all functions write.
fn run(
    functions: &[Function],
    ty: Float,
    backend: Backend,
    lanes: Option<u32>,
) -> Result<Vec<Vec<f64>>, String> {
    let mut text = format!(
        "typedef {} F;\nRWStructuredBuffer<F> given;\nRWStructuredBuffer<F> found;\n\
         [Differentiable] F at_sincos_s(F x) {{ F s; F c; sincos(x, s, c); return s; }}\n\
         [Differentiable] F at_sincos_c(F x) {{ F s; F c; sincos(x, s, c); return c; }}\n",
        ty.name()
    );
    functions.iter().enumerate().for_each(|(k, f)| text += &f.kernel(k));
    let mut session = Session::new(FileOptions::default());
    let mut program = session.program();
    let file = session.load_text(&mut program, "precision.slang", text, ".".as_ref());
    let mut loaded = Loaded::new(program, file);
    let outcome = (|| {
        let names = (0..functions.len()).map(|k| format!("k{k}"));
        let entries = names.map(|name| loaded.entry(Some(&name))).collect::<Result<Vec<_>, _>>()?;
        let request = Request { entries, ..Request::default() };
        let compiled = loaded.compile(&request, &Options::default())?;
        let options = CodeOptions { lanes, ..CodeOptions::default() };
        let mut runner = Runner::with_options(compiled.module, backend, &options)?;
        let mut all = Vec::new();
        for (k, function) in functions.iter().enumerate() {
            let given = function.points.iter().flat_map(|p| p.args.iter().flat_map(|&x| ty.bytes(x)));
            let n = function.points.len();
            runner.bind("given", &given.collect::<Vec<u8>>());
            runner.bind("found", &vec![0; n * function.results() * ty.format().0]);
            runner.dispatch(&format!("k{k}"), [n as u32, 1, 1], 1)?;
            all.push(runner.bytes("found")?.chunks(ty.format().0).map(|b| ty.number(b)).collect());
        }
        Ok(all)
    })();
    outcome.map_err(|failure| match failure {
        Failure::Program(all) => render::all_to_text(&session.sources, &all, driver::render::Style::Plain),
        Failure::Other(error) => error.to_string(),
    })
}

/// The largest accepted errors of values, slopes and second derivatives, in units in the last place.
fn most(ty: Float, backend: Backend) -> [f64; 3] {
    // A device has its own mathematical functions, except for doubles, whose functions are generated here.
    if backend.name() == "wgpu" && ty != Float::Double { [4096.0; 3] } else { [2.0, 5.0, 12.0] }
}

#[test]
fn functions_have_the_digits_of_their_type() {
    let backends = Backend::found().filter(|backend| backend.name() != "cuda");
    let backends: Vec<_> = backends.map(|b| (b, (b.name() == "llvm").then_some(4))).collect();
    let report = std::env::var("PULLBACK_REPORT").is_ok();
    let mut functions = table();
    if let Ok(only) = std::env::var("PULLBACK_FUNCTION") {
        functions.retain(|f| f.name == only);
    }
    let mut faults = Vec::new();
    on_large_stack(|| {
        for ty in Float::ALL {
            for &(backend, lanes) in &backends {
                if backend.name() == "wgpu" && ty == Float::Half {
                    // Few devices support these types, and some functions have only a few digits there.
                    continue;
                }
                let found = match run(&functions, ty, backend, lanes) {
                    Ok(found) => found,
                    Err(why) => {
                        faults.push(format!("{} on {backend:?}: {why}", ty.name()));
                        continue;
                    }
                };
                for (function, found) in functions.iter().zip(found) {
                    let errors = function.errors(ty, backend, &found);
                    if report {
                        let [a, b, c] = errors.each_ref().map(|e| e.0);
                        let name = &function.name;
                        eprintln!("{name:12} {:6} {backend:?} {lanes:?}: {a:.2} {b:.2} {c:.2}", ty.name());
                    }
                    for ((off, what), most) in errors.into_iter().zip(most(ty, backend)) {
                        if off > most {
                            let place = format!("{} of {} on {backend:?}", function.name, ty.name());
                            faults.push(format!("{place}: {off:.1} units: {what}"));
                        }
                    }
                }
            }
        }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
