//! Random programs through the whole compiler.
//!
//! For each program, in double precision: the interpreter and the JIT print the same digits; forward and reverse mode
//! agree; both agree with dual numbers on the code before differentiation; and with differences where those can be
//! trusted (two step sizes agree, so no branch lies between). So do second derivatives, by forward and by reverse mode
//! over derivatives of either mode. Programs of numbers of all types print the same bits on
//! both, optimised or not. `PULLBACK_RANDOM` sets how many programs are made, `PULLBACK_SEED` the first;
//! `PULLBACK_KEEP` names a folder for the programs, and the output of the latter, to compare with other compilers.

use driver::launch::{Backend, Runner};
use driver::pipeline::{Failure, Loaded, Options, on_large_stack};
use driver::session::{FileOptions, Session};
use driver::{Request, render};
use ir::interp::{self, Limits, Value};
use pullback_tests::generate::{self, Program, Rng, Way, directional};
use pullback_tests::setting;

/// Inputs with a derivative: `x`, `y`, `s.a`, `s.b[0..3]`.
const INPUTS: usize = 6;

/// Where a program is evaluated.
struct Point {
    floats: [f64; INPUTS],
    /// `s.c`, which has no derivative.
    c: f64,
    k: i32,
    n: i32,
}

impl Point {
    fn of(rng: &mut Rng) -> Point {
        Point {
            floats: std::array::from_fn(|_| rng.float() + 0.013),
            c: rng.float(),
            k: rng.below(5) as i32,
            n: rng.below(4) as i32,
        }
    }

    fn call(&self, floats: &[f64; INPUTS]) -> String {
        let [x, y, a, b0, b1, b2] = floats.map(|v| format!("F({v:?}lf)"));
        format!("f({x}, {y}, {{ {a}, {}, {{ {b0}, {b1}, {b2} }}, {:?}lf }}, {})", self.k, self.c, self.n)
    }
}

/// The program with a `main` that prints its value, its gradient both ways, and differences at two step sizes.
fn with_main(text: &str, point: &Point) -> String {
    let mut out = text.to_string();
    let [x, y, a, b0, b1, b2] = point.floats.map(|v| format!("F({v:?}lf)"));
    let s = format!("{{ {a}, {}, {{ {b0}, {b1}, {b2} }}, {:?}lf }}", point.k, point.c);
    out += &format!(
        "void main()\n{{\n    S s0 = {s};\n    printf(\"%.17g\\n\", f({x}, {y}, s0, {}));\n",
        point.n
    );
    for input in 0..INPUTS {
        let d: Vec<&str> = (0..INPUTS).map(|k| if k == input { "1.0" } else { "0.0" }).collect();
        out +=
            &format!("    S.Differential d{input} = {{ {}, {{ {}, {}, {} }} }};\n", d[2], d[3], d[4], d[5]);
        out += &format!(
            "    printf(\"%.17g\\n\", fwd_diff(f)(DifferentialPair<F>({x}, {}), DifferentialPair<F>({y}, {}), \
             DifferentialPair<S>(s0, d{input}), {}).d);\n",
            d[0], d[1], point.n
        );
    }
    out += &format!("    var px = DifferentialPair<F>({x}, 0);\n    var py = DifferentialPair<F>({y}, 0);\n");
    out += &format!("    var ps = diffPair(s0);\n    bwd_diff(f)(px, py, ps, {}, F(1));\n", point.n);
    for place in ["px.d", "py.d", "ps.d.a", "ps.d.b[0]", "ps.d.b[1]", "ps.d.b[2]"] {
        out += &format!("    printf(\"%.17g\\n\", {place});\n");
    }
    for input in 0..INPUTS {
        for h in [1e-5, 2.5e-6] {
            let (mut low, mut high) = (point.floats, point.floats);
            low[input] -= h;
            high[input] += h;
            let (low, high) = (point.call(&low), point.call(&high));
            out += &format!("    printf(\"%.17g\\n\", ({high} - {low}) / {:?}lf);\n", 2.0 * h);
        }
    }
    out + "}\n"
}

fn load(session: &mut Session, text: &str) -> Loaded {
    let mut program = session.program();
    let file = session.load_text(&mut program, "random.slang", text.to_string(), ".".as_ref());
    Loaded { program, file }
}

fn explain(session: &Session, failure: Failure) -> String {
    match failure {
        Failure::Program(diagnostics) => render::all_to_text(&session.sources, &diagnostics, false),
        Failure::Other(error) => error.to_string(),
    }
}

/// What `data`, `state` and `counts` hold at first.
fn bind(runner: &mut Runner) {
    let numbers: [f64; 4] = [0.5, -1.25, 0.75, 2.0];
    let doubles: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    let floats: Vec<u8> = (0..8).flat_map(|k| (k as f32 * 0.5 - 1.0).to_le_bytes()).collect();
    let ints: Vec<u8> = (0..8i32).flat_map(|k| (3 * k - 5).to_le_bytes()).collect();
    for (name, bytes) in [("data", doubles), ("state", floats), ("counts", ints)] {
        if let Some(global) = runner.find(name) {
            runner.bind_global(global, &bytes);
        }
    }
}

fn print(text: &str, backend: Backend, level: u8) -> Result<String, String> {
    let mut session = Session::new(FileOptions::default());
    let mut loaded = load(&mut session, text);
    let outcome = (|| {
        let entry = loaded.entry(Some("main"))?;
        let request = Request { entries: vec![entry], ..Request::default() };
        let mut options = Options::default();
        options.optimise.level = level;
        let compiled = loaded.compile(&request, &options)?;
        let mut runner = Runner::new(compiled.module, backend, false)?;
        bind(&mut runner);
        Ok(runner.dispatch("main", [1, 1, 1], 1)?.stdout)
    })();
    outcome.map_err(|failure| explain(&session, failure))
}

/// The gradient by dual numbers, on the code before differentiation; on what differentiation made of the derivatives that
/// the program asks for itself.
fn dual(program: &Program, point: &Point) -> Result<Vec<f64>, String> {
    let mut session = Session::new(FileOptions::default());
    let mut loaded = load(&mut session, &program.text);
    let outcome = (|| {
        let function = loaded.function("f")?;
        let request = Request { functions: vec![function], ..Request::default() };
        loaded.compile(&request, &Options { no_autodiff: true, ..Options::default() })
    })();
    let mut compiled = outcome.map_err(|failure| explain(&session, failure))?;
    if program.nested {
        // And nothing else: optimisation afterwards forgets what is detached.
        let problems = autodiff::differentiate(&mut compiled.module, &autodiff::Options::default());
        if !problems.is_empty() {
            return Err(format!("{problems:?}"));
        }
    }
    let float = |v: f64| Value::Scalar(v.to_bits());
    let int = |v: i32| Value::Scalar(v as u32 as u64);
    let args = |f: &[f64; INPUTS], k: i32, c: f64, n: i32| {
        let b = Value::Array(vec![float(f[3]), float(f[4]), float(f[5])].into());
        vec![float(f[0]), float(f[1]), float(f[2]), int(k), b, float(c), int(n)]
    };
    let primal = args(&point.floats, point.k, point.c, point.n);
    (0..INPUTS)
        .map(|input| {
            let mut direction = [0.0; INPUTS];
            direction[input] = 1.0;
            let tangents = args(&direction, 0, 0.0, 0);
            let (module, func) = (&compiled.module, compiled.functions[0].func);
            let mut host = interp::Memory::default();
            for (global, _) in module.globals.iter().filter(|(_, g)| g.name == "data") {
                let numbers: [f64; 4] = [0.5, -1.25, 0.75, 2.0];
                host.bind(global, numbers.iter().flat_map(|x| x.to_le_bytes()).collect());
            }
            let (_, d) = interp::dual::jvp(module, func, &primal, &tangents, &mut host, Limits::default())
                .map_err(|e| e.message)?;
            match &d[0] {
                Value::Scalar(bits) => Ok(f64::from_bits(*bits)),
                other => Err(format!("not a number: {other:?}")),
            }
        })
        .collect()
}

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * (1.0 + a.abs() + b.abs()) || !a.is_finite() && !b.is_finite()
}

fn check(seed: u64) -> Result<(), String> {
    check_program(seed, &generate::program(seed, "double"), 1e-9, &mut Rng::new(seed ^ 0xABCD)).map(|_| ())
}

/// The second derivatives in four orders, by dual numbers over either of the first, and by differences of it.
fn check_second(seed: u64) -> Result<(), String> {
    let first = generate::program(seed, "double");
    let of = |way| Program { text: directional(&first.text, way), nested: true, ..first };
    let at = || Rng::new(seed ^ 0xABCD);
    let forward = check_program(seed, &of(Way::Forward), 1e-7, &mut at())?;
    let reverse = check_program(seed, &of(Way::Reverse), 1e-7, &mut at())?;
    let tolerance = if first.lossy { 2e-2 } else { 1e-7 };
    for (k, (f, r)) in forward.iter().zip(&reverse).enumerate() {
        if !near(*f, *r, tolerance) {
            return Err(format!(
                "seed {seed}: number {k} is {f} over forward mode and {r} over reverse mode\n{}",
                first.text
            ));
        }
    }
    Ok(())
}

/// Gives the value and the gradient at each point.
fn check_program(seed: u64, program: &Program, tolerance: f64, rng: &mut Rng) -> Result<Vec<f64>, String> {
    let tolerance = if program.lossy { 2e-2 } else { tolerance };
    let mut found = Vec::new();
    for _ in 0..2 {
        let point = Point::of(rng);
        let whole = with_main(&program.text, &point);
        let fail = |why: String| Err(format!("seed {seed}: {why}\n{whole}"));
        if let Ok(folder) = std::env::var("PULLBACK_KEEP") {
            let _ = std::fs::write(format!("{folder}/{seed}.slang"), &whole);
        }
        let jit = match print(&whole, Backend::Cranelift, 2) {
            Ok(printed) => printed,
            Err(why) => return fail(why),
        };
        let oracle = print(&whole, Backend::Interp, 2).unwrap_or_else(|why| why);
        if jit != oracle {
            return fail(format!("the JIT printed\n{jit}and the interpreter\n{oracle}"));
        }
        let read =
            |text: &str| -> Vec<f64> { text.lines().filter_map(|line| line.trim().parse().ok()).collect() };
        let numbers = read(&jit);
        if numbers.len() != 1 + 4 * INPUTS {
            return fail(format!("printed\n{jit}"));
        }
        let plain = print(&whole, Backend::Cranelift, 0).unwrap_or_else(|why| why);
        let same = |(k, (a, b)): (usize, (&f64, &f64))| k > 2 * INPUTS || near(*a, *b, tolerance);
        let plain_numbers = read(&plain);
        if plain_numbers.len() != numbers.len() || !numbers.iter().zip(&plain_numbers).enumerate().all(same) {
            return fail(format!("printed\n{jit}and without optimisation\n{plain}"));
        }
        let (forward, rest) = numbers[1..].split_at(INPUTS);
        let (reverse, differences) = rest.split_at(INPUTS);
        found.extend_from_slice(&numbers[..1 + INPUTS]);
        let dual = match dual(program, &point) {
            Ok(dual) => dual,
            Err(why) => return fail(format!("dual numbers: {why}")),
        };
        for input in 0..INPUTS {
            let (f, r, d) = (forward[input], reverse[input], dual[input]);
            if !near(f, r, tolerance) || !near(f, d, tolerance) {
                return fail(format!("input {input}: forward {f}, reverse {r}, dual numbers {d}"));
            }
            let (wide, narrow) = (differences[2 * input], differences[2 * input + 1]);
            if !program.lossy && !program.cuts && near(wide, narrow, 1e-7) && !near(f, narrow, 1e-4) {
                return fail(format!("input {input}: derivative {f}, differences {wide} and {narrow}"));
            }
        }
    }
    Ok(found)
}

fn check_kernel(seed: u64) -> Result<(), String> {
    let text = generate::kernel(seed, seed.is_multiple_of(2));
    let fail = |why: String| Err(format!("seed {seed}: {why}\n{text}"));
    let plain = match print(&text, Backend::Interp, 0) {
        Ok(printed) => printed,
        Err(why) => return fail(why),
    };
    if let Ok(folder) = std::env::var("PULLBACK_KEEP") {
        let _ = std::fs::write(format!("{folder}/{seed}.slang"), &text);
        let _ = std::fs::write(format!("{folder}/{seed}.out"), &plain);
    }
    for (backend, level) in [(Backend::Interp, 2), (Backend::Cranelift, 0), (Backend::Cranelift, 2)] {
        let printed = print(&text, backend, level).unwrap_or_else(|why| why);
        if printed != plain {
            return fail(format!("{backend:?} at level {level} printed\n{printed}instead of\n{plain}"));
        }
    }
    Ok(())
}

fn all(check: impl Fn(u64) -> Result<(), String> + Sync, default: u64) {
    let first = setting("PULLBACK_SEED", 1);
    let n = setting("PULLBACK_RANDOM", default);
    let failures: Vec<String> =
        on_large_stack(|| (first..first + n).filter_map(|seed| check(seed).err()).collect());
    if let Ok(path) = std::env::var("PULLBACK_FAILURES") {
        let _ = std::fs::write(path, failures.join("\n=====\n"));
    }
    let reasons: Vec<&str> = failures.iter().filter_map(|why| why.lines().next()).collect();
    let shown = failures.iter().min_by_key(|why| why.len()).map_or("", |why| why);
    assert!(failures.is_empty(), "{} of {n} fail\n{}\n\n{shown}", failures.len(), reasons.join("\n"));
}

#[test]
fn derivatives_of_random_programs() {
    all(check, 10);
}

#[test]
fn second_derivatives_of_random_programs() {
    all(check_second, 3);
}

#[test]
fn random_kernels() {
    all(check_kernel, 40);
}
