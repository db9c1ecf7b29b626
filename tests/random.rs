//! Random programs through the whole compiler.
//!
//! For each program, in double precision: the interpreter and the JIT give the same bits (so does LLVM, with
//! the feature `llvm`, in 1, 4, 8, 16 and 32 lanes); forward and reverse mode agree; both agree with dual numbers
//! on the code before differentiation, and with finite differences where those can be trusted (two step sizes
//! agree, so no branch lies between). The same holds for second derivatives, by forward and by reverse mode
//! over derivatives of either mode. Some programs run on a device through wgpu, if there is one, and some
//! while LLVM takes over from Cranelift (with the features `wgpu` and `llvm`). Programs with numbers of all
//! types print the same bits on the interpreter and the JIT, optimised or not. `PULLBACK_RANDOM` sets the
//! number of programs, `PULLBACK_SEED` the first seed; `PULLBACK_KEEP` names a folder for the programs, and
//! for the output of the latter kind, to compare with other compilers. `PULLBACK_FILE` names a program to
//! check with the points of the seed, which helps to reduce a failure.

use driver::launch::{Backend, CodeOptions, Runner};
use driver::pipeline::{Failure, Loaded, Options, on_large_stack};
use driver::session::{FileOptions, Session};
use driver::{Request, render};
use ir::Module;
use ir::interp::{self, Limits, Value};
use pullback_tests::generate::probe::{INPUTS, NUMBERS, Point, RESULTS, with_probe};
use pullback_tests::generate::{self, Program, Rng, Way, directional};
use pullback_tests::setting;

fn load(session: &mut Session, text: &str) -> Loaded {
    let mut program = session.program();
    let file = session.load_text(&mut program, "random.slang", text.to_string(), ".".as_ref());
    Loaded::new(program, file)
}

fn explain(session: &Session, failure: Failure) -> String {
    match failure {
        Failure::Program(diagnostics) => {
            render::all_to_text(&session.sources, &diagnostics, driver::render::Style::Plain)
        }
        Failure::Other(error) => error.to_string(),
    }
}

/// Binds the initial content of `data`, `state` and `counts`.
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
        let mut runner = Runner::new(compiled.module, backend)?;
        bind(&mut runner);
        Ok(runner.dispatch("main", [1, 1, 1], 1)?.stdout)
    })();
    outcome.map_err(|failure| explain(&session, failure))
}

/// The gradient by dual numbers, on the code before differentiation; if the program itself calls derivatives,
/// these are differentiated first.
fn dual(loaded: &mut Loaded, nested: bool, points: &[Point]) -> Result<Vec<[f64; INPUTS]>, Failure> {
    let function = loaded.function("f")?;
    let request = Request { functions: vec![function], ..Request::default() };
    let options = Options { no_autodiff: true, ..Options::default() };
    let mut compiled = loaded.compile(&request, &options)?;
    let other = |text: String| Failure::Other(driver::Error::input(text));
    if nested {
        // No optimisation follows, since it would lose the places where values are detached.
        let problems = autodiff::differentiate(&mut compiled.module, &autodiff::Options::default());
        if !problems.is_empty() {
            return Err(other(format!("{problems:?}")));
        }
        driver::oracle::stand_in(&mut compiled.module);
    }
    let float = |v: f64| Value::Scalar(v.to_bits());
    let int = |v: i32| Value::Scalar(v as u32 as u64);
    let args = |f: &[f64; INPUTS], k: i32, c: f64, n: i32| {
        let b = Value::Array(vec![float(f[3]), float(f[4]), float(f[5])].into());
        vec![float(f[0]), float(f[1]), float(f[2]), int(k), b, float(c), int(n)]
    };
    let (module, func) = (&compiled.module, compiled.functions[0].func);
    let mut host = interp::Memory::default();
    for (global, _) in module.globals.iter().filter(|(_, g)| g.name == "data") {
        let numbers: [f64; 4] = [0.5, -1.25, 0.75, 2.0];
        host.bind(global, numbers.iter().flat_map(|x| x.to_le_bytes()).collect());
    }
    let mut gradients = Vec::new();
    for point in points {
        let primal = args(&point.floats, point.k, point.c, point.n);
        let mut gradient = [0.0; INPUTS];
        for (input, g) in gradient.iter_mut().enumerate() {
            let tangents = args(&unit(input), 0, 0.0, 0);
            let (_, d) = interp::dual::jvp(module, func, &primal, &tangents, &mut host, Limits::default())
                .map_err(|e| other(e.message))?;
            let Value::Scalar(bits) = &d[0] else { return Err(other(format!("not a number: {:?}", d[0]))) };
            *g = f64::from_bits(*bits);
        }
        gradients.push(gradient);
    }
    Ok(gradients)
}

fn unit(input: usize) -> [f64; INPUTS] {
    std::array::from_fn(|k| if k == input { 1.0 } else { 0.0 })
}

/// The numbers that the kernel writes for the given numbers.
fn probe(module: &Module, backend: Backend, numbers: &[f64]) -> Result<Vec<f64>, Failure> {
    probe_with(module, backend, &CodeOptions::default(), numbers)
}

/// The numbers that the kernel writes when run by LLVM in lanes, with the interpreter's mathematical
/// functions and in the order of the lanes.
#[cfg(feature = "llvm")]
fn probe_in_lanes(module: &Module, lanes: u32, numbers: &[f64]) -> Result<Vec<f64>, Failure> {
    let options = CodeOptions { lanes: Some(lanes), lane_order: true, ..CodeOptions::default() };
    probe_with(module, Backend::fastest(), &options, numbers)
}

fn probe_with(
    module: &Module,
    backend: Backend,
    options: &CodeOptions,
    numbers: &[f64],
) -> Result<Vec<f64>, Failure> {
    Probe::new(module, backend, options, numbers)?.dispatch()
}

/// The kernel with its numbers, ready to run.
struct Probe {
    runner: Runner,
    results: ir::Global,
    groups: usize,
}

impl Probe {
    fn new(
        module: &Module,
        backend: Backend,
        options: &CodeOptions,
        numbers: &[f64],
    ) -> Result<Probe, Failure> {
        let mut runner = Runner::with_options(module.clone(), backend, options)?;
        bind(&mut runner);
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        if let Some(points) = runner.find("probe_points") {
            runner.bind_global(points, &bytes);
        }
        let results =
            runner.find("probe_results").ok_or_else(|| driver::Error::input("no results".to_string()))?;
        Ok(Probe { runner, results, groups: numbers.len() / NUMBERS })
    }

    /// Runs the kernel and returns the numbers that it writes.
    fn dispatch(&mut self) -> Result<Vec<f64>, Failure> {
        self.runner.bind_global(self.results, &vec![0; self.groups * RESULTS * 8]);
        self.runner.dispatch("probe", [self.groups as u32, 1, 1], 1)?;
        let of = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        Ok(self.runner.bytes_of(self.results).chunks_exact(8).map(of).collect())
    }
}

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * (1.0 + a.abs() + b.abs()) || !a.is_finite() && !b.is_finite()
}

fn check(seed: u64) -> Result<(), String> {
    check_program(seed, &generate::program(seed, "double"), 1e-9, &mut Rng::new(seed ^ 0xABCD)).map(|_| ())
}

/// Checks the second derivatives in four combinations of modes, by dual numbers over either first derivative,
/// and by finite differences of the first derivative.
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

/// Checks a program; returns the value and the gradient at each point.
fn check_program(seed: u64, program: &Program, tolerance: f64, rng: &mut Rng) -> Result<Vec<f64>, String> {
    let points: Vec<Point> = (0..2).map(|_| Point::of(rng)).collect();
    // For some seeds the inputs are constants, which optimisation folds.
    let constants = seed.is_multiple_of(16).then(|| &points[0]);
    let points = if constants.is_some() { &points[..1] } else { &points };
    let whole = with_probe(&program.text, constants);
    if let Ok(folder) = std::env::var("PULLBACK_KEEP") {
        let _ = std::fs::write(format!("{folder}/{seed}.slang"), &whole);
    }
    let mut session = Session::new(FileOptions::default());
    let mut loaded = load(&mut session, &whole);
    let found = match evaluate(seed, &mut loaded, program, points, constants.is_some()) {
        Ok(evaluated) => evaluated.agree(program, points, tolerance),
        Err(failure) => Err(explain(&session, failure)),
    };
    found.map_err(|why| format!("seed {seed}: {why}\n// {points:?}\n{whole}"))
}

/// The results of the backends and of dual numbers for a program.
struct Evaluated {
    /// The results of the JIT and of the interpreter, at each point along each input.
    jit: Vec<f64>,
    oracle: Vec<f64>,
    /// The results without optimisation, by the interpreter; for some seeds by the JIT, which takes long for
    /// such code.
    plain: Vec<f64>,
    /// The results of LLVM, with the number of lanes.
    lanes: Vec<(u32, Vec<f64>)>,
    dual: Vec<[f64; INPUTS]>,
    /// Values at distance `h` before and after each point along each input, for both of [`STEPS`].
    around: Vec<f64>,
}

const STEPS: [f64; 2] = [1e-5, 2.5e-6];

fn evaluate(
    seed: u64,
    loaded: &mut Loaded,
    program: &Program,
    points: &[Point],
    constant: bool,
) -> Result<Evaluated, Failure> {
    let mut numbers = Vec::new();
    for point in points {
        (0..INPUTS).for_each(|input| numbers.extend(point.numbers(unit(input))));
    }
    let mut moved = Vec::new();
    for point in points.iter().filter(|_| !constant && !program.lossy && !program.cuts) {
        for input in 0..INPUTS {
            for h in STEPS {
                moved.extend(point.moved(input, -h).numbers([0.0; INPUTS]));
                moved.extend(point.moved(input, h).numbers([0.0; INPUTS]));
            }
        }
    }
    let entry = loaded.entry(Some("probe"))?;
    let request = Request { entries: vec![entry], ..Request::default() };
    let module = loaded.compile(&request, &Options::default())?.module;
    let mut options = Options::default();
    options.optimise.level = 0;
    let plain = loaded.compile(&request, &options)?.module;
    let unoptimised = if seed.is_multiple_of(8) { Backend::CRANELIFT } else { Backend::INTERP };
    let here = numbers.len();
    numbers.append(&mut moved);
    let mut jit = probe(&module, Backend::CRANELIFT, &numbers)?;
    let around = jit.split_off(here / NUMBERS * RESULTS).chunks(RESULTS).map(|r| r[0]).collect();
    #[cfg(feature = "llvm")]
    let lanes = [1, 4, 8, 16, 32].map(|n| Ok((n, probe_in_lanes(&module, n, &numbers[..here])?)));
    #[cfg(not(feature = "llvm"))]
    let lanes: [Result<_, Failure>; 0] = [];
    Ok(Evaluated {
        jit,
        around,
        lanes: lanes.into_iter().collect::<Result<_, Failure>>()?,
        oracle: probe(&module, Backend::INTERP, &numbers[..here])?,
        plain: probe(&plain, unoptimised, &numbers[..here])?,
        dual: dual(loaded, program.nested, points)?,
    })
}

impl Evaluated {
    fn agree(&self, program: &Program, points: &[Point], tolerance: f64) -> Result<Vec<f64>, String> {
        let tolerance = if program.lossy { 2e-2 } else { tolerance };
        let mut found = Vec::new();
        let results = |all: &[f64], point: usize, input: usize| -> Vec<f64> {
            all[(point * INPUTS + input) * RESULTS..][..RESULTS].to_vec()
        };
        for point in 0..points.len() {
            found.extend_from_slice(&results(&self.jit, point, 0)[..1]);
            for input in 0..INPUTS {
                let jit = results(&self.jit, point, input);
                let oracle = results(&self.oracle, point, input);
                let plain = results(&self.plain, point, input);
                let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                if !jit.iter().zip(&oracle).all(|(&a, &b)| same(a, b)) {
                    return Err(format!(
                        "point {point}: the JIT gives\n{jit:?} and the interpreter\n{oracle:?}"
                    ));
                }
                for (lanes, all) in &self.lanes {
                    let found = results(all, point, input);
                    if !found.iter().zip(&oracle).all(|(&a, &b)| same(a, b)) {
                        return Err(format!(
                            "point {point}: LLVM gives in {lanes} lanes\n{found:?} and the interpreter\n{oracle:?}"
                        ));
                    }
                }
                if !jit.iter().zip(&plain).all(|(&a, &b)| near(a, b, tolerance)) {
                    return Err(format!("point {point}: {jit:?} and without optimisation\n{plain:?}"));
                }
                let (f, r, d) = (jit[1], jit[2 + input], self.dual[point][input]);
                if !near(f, r, tolerance) || !near(f, d, tolerance) {
                    return Err(format!(
                        "point {point}, input {input}: forward {f}, reverse {r}, dual numbers {d}"
                    ));
                }
                found.push(f);
                if self.around.is_empty() {
                    continue;
                }
                let at = (point * INPUTS + input) * 2 * STEPS.len();
                let slope =
                    |k: usize| (self.around[at + 2 * k + 1] - self.around[at + 2 * k]) / (2.0 * STEPS[k]);
                let (wide, narrow) = (slope(0), slope(1));
                if near(wide, narrow, 1e-7) && !near(f, narrow, 1e-4) {
                    return Err(format!(
                        "point {point}, input {input}: derivative {f}, differences {wide} and {narrow}"
                    ));
                }
            }
        }
        Ok(found)
    }
}

/// The numbers that the kernel writes on the device; `None` if the device's language cannot express the
/// program.
#[cfg(feature = "wgpu")]
fn probe_on_device(module: &Module, numbers: &[f64]) -> Result<Option<Vec<f64>>, Failure> {
    let wgpu =
        Backend::named("wgpu").ok_or_else(|| Failure::Other(driver::Error::Input("no wgpu".into())))?;
    match probe(module, wgpu, numbers) {
        Ok(found) => Ok(Some(found)),
        Err(Failure::Program(list)) if list.iter().any(|d| d.code.starts_with("E093")) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Checks that a random program gives the interpreter's results on `run`, within the tolerance; returns true
/// if it could be run.
#[cfg(any(feature = "wgpu", feature = "llvm"))]
fn check_as(
    seed: u64,
    tolerance: f64,
    run: impl Fn(&Module, &[f64]) -> Result<Option<Vec<f64>>, Failure>,
) -> Result<bool, String> {
    let program = generate::program(seed, "double");
    let mut rng = Rng::new(seed ^ 0xABCD);
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let point = Point::of(&mut rng);
        (0..INPUTS).for_each(|input| numbers.extend(point.numbers(unit(input))));
    }
    let whole = with_probe(&program.text, None);
    let mut session = Session::new(FileOptions::default());
    let mut loaded = load(&mut session, &whole);
    let outcome = (|| {
        let entry = loaded.entry(Some("probe"))?;
        let request = Request { entries: vec![entry], ..Request::default() };
        let module = loaded.compile(&request, &Options::default())?.module;
        Ok((run(&module, &numbers)?, probe(&module, Backend::INTERP, &numbers)?))
    })();
    let fail = |why: String| Err(format!("seed {seed}: {why}\n{whole}"));
    let (found, wanted) = match outcome {
        Ok(outcome) => outcome,
        Err(failure) => return fail(explain(&session, failure)),
    };
    let Some(found) = found else { return Ok(false) };
    if found.len() != wanted.len() {
        return fail(format!("{} numbers instead of {}", found.len(), wanted.len()));
    }
    match found.iter().zip(&wanted).position(|(&a, &b)| !near(a, b, tolerance)) {
        None => Ok(true),
        Some(at) => fail(format!("number {at} is {} and the interpreter gives {}", found[at], wanted[at])),
    }
}

fn check_kernel(seed: u64) -> Result<(), String> {
    let text = generate::kernel(seed, seed.is_multiple_of(2));
    let fail = |why: String| Err(format!("seed {seed}: {why}\n{text}"));
    let plain = match print(&text, Backend::INTERP, 0) {
        Ok(printed) => printed,
        Err(why) => return fail(why),
    };
    if let Ok(folder) = std::env::var("PULLBACK_KEEP") {
        let _ = std::fs::write(format!("{folder}/{seed}.slang"), &text);
        let _ = std::fs::write(format!("{folder}/{seed}.out"), &plain);
    }
    for (backend, level) in [(Backend::INTERP, 2), (Backend::CRANELIFT, 0), (Backend::CRANELIFT, 2)] {
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
    if let Ok(path) = std::env::var("PULLBACK_FILE") {
        let text = std::fs::read_to_string(path).expect("the file of PULLBACK_FILE");
        // The text shown for a failure ends with the kernel, which is generated again.
        let text =
            text.split("RWStructuredBuffer<double> probe_points").next().unwrap_or_default().to_string();
        let seed = setting("PULLBACK_SEED", 1);
        let program = Program { text, lossy: false, cuts: true, nested: true };
        let outcome =
            on_large_stack(|| check_program(seed, &program, 1e-9, &mut Rng::new(seed ^ 0xABCD)).map(|_| ()));
        return outcome.unwrap_or_else(|why| panic!("{why}"));
    }
    all(check, 10);
}

/// Runs on the first device that wgpu lists, if there is one. Its mathematical functions are those of its
/// language.
#[cfg(feature = "wgpu")]
#[test]
fn derivatives_of_random_programs_on_a_device() {
    if !Backend::found().any(|backend| backend.name() == "wgpu") {
        return eprintln!("there is no device with a Vulkan driver: skipped");
    }
    let ran = std::sync::atomic::AtomicU64::new(0);
    let check = |seed| {
        let done = check_as(seed, 1e-6, probe_on_device)?;
        ran.fetch_add(u64::from(done), std::sync::atomic::Ordering::Relaxed);
        Ok(())
    };
    all(check, 6);
    let ran = ran.into_inner();
    eprintln!("{ran} ran, the others its language cannot express");
    assert!(ran > 0);
}

/// Runs until LLVM has taken over from Cranelift, and once more: every round of every dispatch gives the same
/// bits.
#[cfg(feature = "llvm")]
#[test]
fn derivatives_of_random_programs_through_the_tiers() {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};
    let (programs, taken_over) = (AtomicU64::new(0), AtomicU64::new(0));
    let run = |module: &Module, numbers: &[f64]| {
        let many = numbers.repeat(2000);
        let options = CodeOptions { lanes: Some(8), lane_order: true, ..CodeOptions::default() };
        let mut probe = Probe::new(module, Backend::default(), &options, &many)?;
        let bits = |round: &[f64]| round.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let mut first: Option<Vec<f64>> = None;
        let end = Instant::now() + Duration::from_secs(60);
        let mut is_last = false;
        while !is_last {
            is_last = !probe.runner.is_first_tier() || Instant::now() > end;
            let found = probe.dispatch()?;
            let n = found.len() / 2000;
            let wanted = first.get_or_insert_with(|| found[..n].to_vec());
            if let Some(round) = found.chunks(n).position(|round| bits(round) != bits(wanted)) {
                let why = format!("round {round} has other bits than the first");
                return Err(driver::Error::input(why).into());
            }
        }
        programs.fetch_add(1, Ordering::Relaxed);
        taken_over.fetch_add(u64::from(!probe.runner.is_first_tier()), Ordering::Relaxed);
        Ok(first)
    };
    all(|seed| check_as(seed, 1e-9, run).map(|_| ()), 3);
    let (programs, taken_over) = (programs.into_inner(), taken_over.into_inner());
    eprintln!("LLVM took over in {taken_over} of {programs} programs");
    assert_eq!(taken_over, programs);
}

#[test]
fn second_derivatives_of_random_programs() {
    all(check_second, 3);
}

#[test]
fn random_kernels() {
    all(check_kernel, 40);
}
