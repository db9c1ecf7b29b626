//! A test campaign: small random programs of every kind, many in a file, on every backend of the build, at
//! every level of optimisation and in every language of graphics processors, with a table of the results.
//!
//! `PULLBACK_RANDOM=100000 cargo test --release -p pullback-tests --features llvm,wgpu --test campaign --
//! --nocapture`
//!
//! For each program and point: forward and reverse mode agree with each other, and with dual numbers on the
//! code before differentiation; every backend gives the interpreter's bits for the same code (a graphics
//! processor the same numbers), and code at lower levels of optimisation gives the same numbers.
//! `PULLBACK_SEED` sets the first file, `PULLBACK_SECONDS` ends the campaign earlier, `PULLBACK_FAILURES`
//! names a file for failures, `PULLBACK_KEEP` a folder for all programs.
//!
//! A program counts once for each comparison. Programs that a target refuses are counted by reason.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use driver::gpu::{Target, emit_compiled};
use driver::launch::{Backend, CodeOptions, Runner};
use driver::pipeline::{Compiled, Failure, Loaded, Options, on_large_stack};
use driver::session::{FileOptions, Session};
use driver::{Request, render};
use ir::interp::{self, Limits, Value};
use pullback_tests::generate::Rng;
use pullback_tests::generate::small::{self, FOUND, GIVEN, Kind, Small, THREADS, WAY};
#[cfg(feature = "llvm")]
use pullback_tests::library;
use pullback_tests::setting;

/// The number of programs per file.
const BATCH: usize = 36;
/// The number of threads with arbitrary inputs; the inputs of the other threads are zeros and ties, where
/// dual numbers are inconclusive.
const ORDINARY: usize = 6;

/// The results for programs of one kind in one place.
#[derive(Default)]
struct Tally {
    agreed: u64,
    differed: u64,
    refused: BTreeMap<String, u64>,
}

/// The results, by place and kind; and the differences, with the shortest program for each place.
#[derive(Default)]
struct Report {
    programs: u64,
    tallies: BTreeMap<(String, String), Tally>,
    failures: Vec<String>,
}

impl Report {
    fn tally(&mut self, place: &str, kind: Kind) -> &mut Tally {
        self.tallies.entry((place.to_string(), format!("{kind:?}"))).or_default()
    }

    fn differs(&mut self, place: &str, file: &File, number: usize, why: &str) {
        self.tally(place, file.programs[number].kind).differed += 1;
        let program = &file.programs[number];
        self.failures.push(format!(
            "{place}, seed {}, number {number}, {}: {why}\n{}{}// given: {:?}\n",
            file.seed,
            file.scalar,
            small::head(file.scalar),
            program.text,
            file.given
        ));
    }

    fn refused(&mut self, place: &str, kind: Kind, why: &str) {
        // Names and numbers are removed, so that equal reasons are counted together.
        let mut quoted = false;
        let reason: String = why
            .chars()
            .filter(|&c| {
                quoted ^= c == '\'' || c == '`';
                !quoted && !c.is_ascii_digit()
            })
            .take(90)
            .collect();
        *self.tally(place, kind).refused.entry(reason).or_default() += 1;
    }

    /// Records a program that could not be run: as a refusal, or as a fault if the failure is an internal
    /// one.
    fn failed(&mut self, place: &str, file: &File, number: usize, session: &Session, failure: &Failure) {
        let why = reason(session, failure);
        match why.contains("E0999") || matches!(failure, Failure::Other(_)) {
            true => self.differs(place, file, number, &why),
            false => self.refused(place, file.programs[number].kind, &why),
        }
    }

    fn table(&self) -> String {
        let mut out = format!("{} programs\n", self.programs);
        let _ = writeln!(
            out,
            "{:28} {:11} {:>9} {:>9} {:>8} {:>8}",
            "on", "kind", "programs", "agreed", "refused", "differed"
        );
        let mut reasons: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        let mut sums: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
        for ((place, kind), tally) in &self.tallies {
            let refused: u64 = tally.refused.values().sum();
            let all = tally.agreed + tally.differed + refused;
            let row = [all, tally.agreed, refused, tally.differed];
            let _ =
                writeln!(out, "{place:28} {kind:11} {:>9} {:>9} {:>8} {:>8}", row[0], row[1], row[2], row[3]);
            for (sum, x) in sums.entry(place).or_default().iter_mut().zip(row) {
                *sum += x;
            }
            for (why, n) in &tally.refused {
                *reasons.entry((place, why)).or_default() += n;
            }
        }
        for (place, row) in &sums {
            let _ = writeln!(
                out,
                "{place:28} {:11} {:>9} {:>9} {:>8} {:>8}",
                "all", row[0], row[1], row[2], row[3]
            );
        }
        for ((place, why), n) in reasons {
            let _ = writeln!(out, "{n:>9} refused on {place}: {why}");
        }
        out
    }
}

/// Programs that are compiled together.
struct File {
    seed: u64,
    scalar: &'static str,
    programs: Vec<Small>,
    /// The inputs of the threads.
    given: Vec<f64>,
}

impl File {
    fn new(seed: u64) -> File {
        let scalar = ["double", "float", "double", "half", "double", "float"][seed as usize % 6];
        let mut rng = Rng::new(seed ^ 0xCA3_0A16);
        let programs =
            (0..BATCH).map(|k| small::small(rng.bits(), Kind::ALL[k % Kind::ALL.len()], k)).collect();
        let mut given = Vec::new();
        for thread in 0..THREADS {
            let (x, y) = (rng.float() + 0.013, rng.float() - 0.0217);
            let (x, y) = match thread {
                t if t < ORDINARY => (x, y),
                t if t == ORDINARY => (0.0, y),
                _ => (0.125, 0.125),
            };
            // Every number type can represent these values exactly.
            let exact = |x: f64| f64::from((x * 512.0).round() as i32) / 512.0;
            given.extend([exact(x), exact(y), (thread % 4) as f64]);
        }
        File { seed, scalar, programs, given }
    }

    fn text(&self, only: Option<usize>) -> String {
        let mut text = small::head(self.scalar);
        for (k, program) in self.programs.iter().enumerate() {
            if only.is_none_or(|only| only == k) {
                text += &program.text;
            }
        }
        text
    }

    fn ty(&self) -> ir::Scalar {
        match self.scalar {
            "double" => ir::Scalar::F64,
            "float" => ir::Scalar::F32,
            _ => ir::Scalar::F16,
        }
    }

    fn tolerance(&self) -> f64 {
        match self.scalar {
            "double" => 1e-7,
            "float" => 2e-2,
            _ => f64::INFINITY,
        }
    }
}

fn size(ty: ir::Scalar) -> usize {
    (ty.bits() / 8) as usize
}

fn to_bytes(ty: ir::Scalar, numbers: &[f64]) -> Vec<u8> {
    let each = |&x: &f64| ir::build::float_bits(ty, x).to_le_bytes()[..size(ty)].to_vec();
    numbers.iter().flat_map(each).collect()
}

fn to_numbers(ty: ir::Scalar, bytes: &[u8]) -> Vec<f64> {
    let each = |bytes: &[u8]| {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        ir::build::float_value(ty, u64::from_le_bytes(all))
    };
    bytes.chunks(size(ty)).map(each).collect()
}

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || (a - b).abs() <= tolerance * (1.0 + a.abs() + b.abs()) || a.is_nan() && b.is_nan()
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn reason(session: &Session, failure: &Failure) -> String {
    match failure {
        Failure::Program(list) => match list.iter().find(|d| d.code != "E0999") {
            Some(first) => format!("{} {}", first.code, first.message),
            None => render::all_to_text(&session.sources, list, driver::render::Style::Plain),
        },
        Failure::Other(error) => error.to_string(),
    }
}

/// A loaded file, and the indices of its programs.
struct Read {
    session: Session,
    loaded: Loaded,
    numbers: Vec<usize>,
}

fn read(file: &File, only: Option<usize>) -> Read {
    let mut session = Session::new(FileOptions::default());
    let mut program = session.program();
    let text = file.text(only);
    let id = session.load_text(&mut program, "campaign.slang", text, ".".as_ref());
    let numbers = (0..file.programs.len()).filter(|&k| only.is_none_or(|only| only == k)).collect();
    Read { session, loaded: Loaded::new(program, id), numbers }
}

fn compile(read: &mut Read, level: u8) -> Result<Compiled, Failure> {
    let names: Vec<String> = read.numbers.iter().map(|k| format!("k{k}")).collect();
    let entries = names.iter().map(|name| read.loaded.entry(Some(name))).collect::<Result<Vec<_>, _>>()?;
    let request = Request { entries, ..Request::default() };
    read.loaded.compile(&request, &options(level))
}

fn options(level: u8) -> Options {
    let mut options = Options::default();
    options.optimise.level = level;
    options
}

/// For each kernel, the content of `found` and of `count` afterwards.
type Found = Vec<(Vec<f64>, Vec<u8>)>;

fn run(file: &File, read: &mut Read, compiled: &Compiled, on: On) -> Result<Found, Failure> {
    let (backend, lanes) = match on {
        On::Backend(backend, lanes) => (backend, lanes),
        #[cfg(feature = "llvm")]
        On::Library(level) => return run_library(file, read, level),
    };
    let ty = file.ty();
    // Fifteen of sixteen files are compiled with little effort in the backends, which takes most of the time.
    let fast_compile = !(file.seed / 48).is_multiple_of(16);
    let options = CodeOptions { lanes, lane_order: true, fast_compile, ..CodeOptions::default() };
    let mut runner = Runner::with_options(compiled.module.clone(), backend, &options)?;
    let mut all = Vec::new();
    for &k in &read.numbers {
        runner.bind("given", &to_bytes(ty, &file.given));
        runner.bind("found", &vec![0; THREADS * FOUND * size(ty)]);
        runner.bind("count", &[0; 4 * BATCH]);
        runner.dispatch(&format!("k{k}"), [1, 1, 1], 1)?;
        let count = runner.bytes("count").map(<[u8]>::to_vec).unwrap_or_default();
        all.push((to_numbers(ty, runner.bytes("found")?), count));
    }
    Ok(all)
}

/// Runs the kernels from a library.
#[cfg(feature = "llvm")]
fn run_library(file: &File, read: &mut Read, level: u8) -> Result<Found, Failure> {
    let (ty, mut all) = (file.ty(), Vec::new());
    let names = read.numbers.iter().map(|k| format!("k{k}")).collect();
    let library = library::Library::new(&mut read.loaded, names, &options(level))?;
    for k in &read.numbers {
        let mut given = to_bytes(ty, &file.given);
        let (mut found, mut count) = (vec![0; THREADS * FOUND * size(ty)], vec![0; 4 * BATCH]);
        let mut bound = [
            ("given", &mut given[..], size(ty)),
            ("found", &mut found[..], size(ty)),
            ("count", &mut count[..], 4),
        ];
        library.dispatch(&format!("k{k}"), &mut bound, [1, 1, 1])?;
        let count = if library.has("count") { count } else { Vec::new() };
        all.push((to_numbers(ty, &found), count));
    }
    Ok(all)
}

/// The gradient by dual numbers at each ordinary point, for the programs that dual numbers can evaluate.
fn dual(file: &File, read: &mut Read) -> Vec<(usize, Vec<[f64; 2]>)> {
    let (ty, mut all) = (file.ty(), Vec::new());
    let numbers: Vec<usize> = read
        .numbers
        .iter()
        .copied()
        .filter(|&k| !file.programs[k].nested && !file.programs[k].plain)
        .collect();
    let functions: Result<Vec<_>, _> =
        numbers.iter().map(|k| read.loaded.function(&format!("f{k}"))).collect();
    let Ok(functions) = functions else { return all };
    let request = Request { functions, ..Request::default() };
    let options = Options { no_autodiff: true, ..Options::default() };
    let Ok(compiled) = read.loaded.compile(&request, &options) else { return all };
    let module = &compiled.module;
    let mut host = interp::Memory::default();
    for (global, data) in &module.globals {
        if data.name == "count" {
            host.bind(global, vec![0; 4 * BATCH]);
        }
    }
    let scalar = |x: f64| Value::Scalar(ir::build::float_bits(ty, x));
    'programs: for (&k, function) in numbers.iter().zip(&compiled.functions) {
        let mut gradients = Vec::new();
        for point in file.given.chunks(GIVEN).take(ORDINARY) {
            let primal = vec![scalar(point[0]), scalar(point[1]), Value::Scalar(point[2] as u64)];
            let mut slope = |dx: f64, dy: f64| {
                let tangents = vec![scalar(dx), scalar(dy), Value::Scalar(0)];
                let limits = Limits::default();
                match interp::dual::jvp(module, function.func, &primal, &tangents, &mut host, limits) {
                    Ok((_, d)) => match d.first() {
                        Some(Value::Scalar(bits)) => Some(ir::build::float_value(ty, *bits)),
                        _ => None,
                    },
                    Err(_) => None,
                }
            };
            match (slope(1.0, 0.0), slope(0.0, 1.0)) {
                (Some(dx), Some(dy)) => gradients.push([dx, dy]),
                _ => continue 'programs,
            }
        }
        all.push((k, gradients));
    }
    all
}

/// The kind of code that is run.
#[derive(Clone, Copy, PartialEq)]
enum On {
    /// A backend, with a number of lanes.
    Backend(Backend, Option<u32>),
    /// A library that `pullback build` made at this level.
    #[cfg(feature = "llvm")]
    Library(u8),
}

impl On {
    /// Returns true if mathematical functions do not give the same bits as the interpreter's, as on devices.
    fn has_own_math(self) -> bool {
        match self {
            On::Backend(backend, lanes) => {
                lanes.is_none() && ![Backend::INTERP, Backend::CRANELIFT].contains(&backend)
            }
            #[cfg(feature = "llvm")]
            On::Library(_) => false,
        }
    }
}

/// A place where code runs: its name, the level, and the kind of code.
type Place = (String, u8, On);

/// The kind of code that the others are compared with.
const INTERPRETER: On = On::Backend(Backend::INTERP, None);

/// The levels and backends for a file: all of them in rotation, those that take LLVM longest less often.
fn places(seed: u64) -> Vec<Place> {
    let turn = seed / 6;
    let of = |name: &str, level: u8, backend, lanes| {
        (format!("{name} -O{level}"), level, On::Backend(backend, lanes))
    };
    let level = [2, 0, 2, 1, 2, 2, 2, 2][turn as usize % 8];
    let mut all = vec![of("cranelift", level, Backend::CRANELIFT, None)];
    if level < 2 {
        all.insert(0, of("interpreter", level, Backend::INTERP, None));
    }
    if let Some(llvm) = Backend::named("llvm") {
        let lanes = [4, 1, 8, 1, 4, 1, 16, 1, 32, 1, 8, 4][(seed / 5) as usize % 12];
        all.push(of(&format!("llvm, {lanes:2} lanes,"), level, llvm, Some(lanes)));
        #[cfg(feature = "llvm")]
        if turn.is_multiple_of(setting("PULLBACK_BUILD", 16)) && library::has_compiler() {
            all.push((format!("build -O{level}"), level, On::Library(level)));
        }
    }
    if turn.is_multiple_of(setting("PULLBACK_WGPU", 16))
        && let Some(wgpu) = Backend::found().find(|backend| backend.name() == "wgpu")
    {
        all.push(of("wgpu", 2, wgpu, None));
    }
    all
}

const TARGETS: [(&str, Target); 6] = [
    ("wgsl", Target::Wgsl),
    ("spirv", Target::Spirv),
    ("msl", Target::Msl),
    ("hlsl", Target::Hlsl),
    ("glsl", Target::Glsl),
    ("spirv-asm", Target::SpirvAsm),
];

/// Compares forward mode, reverse mode and dual numbers.
fn modes(file: &File, read: &mut Read, found: &Found, report: &mut Report) {
    let numbers = read.numbers.clone();
    for (&k, (found, _)) in numbers.iter().zip(found) {
        let program = &file.programs[k];
        if program.plain || file.tolerance().is_infinite() {
            continue;
        }
        let mut fault = None;
        for (thread, f) in found.chunks(FOUND).enumerate() {
            let along = WAY[0] * f[2] + WAY[1] * f[3];
            if !near(f[1], along, file.tolerance()) && fault.is_none() {
                fault = Some(format!("thread {thread}: forward {}, reverse {along} ({:?})", f[1], &f[2..]));
            }
        }
        match fault {
            None => report.tally("forward = reverse", program.kind).agreed += 1,
            Some(why) => report.differs("forward = reverse", file, k, &why),
        }
    }
    for (k, gradients) in dual(file, read) {
        if file.tolerance().is_infinite() {
            continue;
        }
        let at = numbers.iter().position(|&n| n == k).expect("a program that was run");
        let mut fault = None;
        for (thread, (f, d)) in found[at].0.chunks(FOUND).zip(&gradients).enumerate() {
            let fits = near(f[2], d[0], file.tolerance()) && near(f[3], d[1], file.tolerance());
            if !fits && fault.is_none() {
                fault = Some(format!("thread {thread}: reverse {:?}, dual numbers {d:?}", &f[2..]));
            }
        }
        match fault {
            None => report.tally("reverse = dual numbers", file.programs[k].kind).agreed += 1,
            Some(why) => report.differs("reverse = dual numbers", file, k, &why),
        }
    }
}

/// Checks a file in all respects; if all its programs are refused together, they are checked one by one.
fn check(file: &File, only: Option<usize>, report: &mut Report) {
    let one_by_one =
        |report: &mut Report| (0..file.programs.len()).for_each(|k| check(file, Some(k), report));
    let mut read = read(file, only);
    let places = places(file.seed);
    let mut levels: BTreeMap<u8, Compiled> = BTreeMap::new();
    for level in [0, 1, 2] {
        if level < 2 && places.iter().all(|place| place.1 != level) {
            continue;
        }
        match compile(&mut read, level) {
            Ok(compiled) => drop(levels.insert(level, compiled)),
            Err(_) if only.is_none() => return one_by_one(report),
            Err(failure) => {
                report.programs += 1;
                return report.failed("compiler", file, only.unwrap_or(0), &read.session, &failure);
            }
        }
    }
    let wanted = match run(file, &mut read, &levels[&2], INTERPRETER) {
        Ok(wanted) => wanted,
        Err(_) if only.is_none() => return one_by_one(report),
        Err(failure) => {
            report.programs += 1;
            let (why, k) = (reason(&read.session, &failure), only.unwrap_or(0));
            return report.differs("interpreter -O2", file, k, &why);
        }
    };
    report.programs += read.numbers.len() as u64;
    let mut by_level: BTreeMap<u8, Found> = BTreeMap::new();
    for (place, level, on) in places {
        let refused = |read: &Read, failure: Failure, report: &mut Report| {
            // Compile the programs one by one, to find the one that fails.
            for &k in &read.numbers {
                match only {
                    Some(_) => report.failed(&place, file, k, &read.session, &failure),
                    None => one_place(file, k, &(place.clone(), level, on), report),
                }
            }
        };
        match run(file, &mut read, &levels[&level], on) {
            Ok(found) => {
                if on == INTERPRETER {
                    by_level.insert(level, found.clone());
                }
                let exact = if level == 2 { Some(&wanted) } else { by_level.get(&level) };
                let exact = exact.filter(|_| !on.has_own_math());
                compare(file, &read.numbers, &place, &found, (&wanted, exact), report);
            }
            Err(failure) => refused(&read, failure, report),
        }
    }
    modes(file, &mut read, &wanted, report);
    if (file.seed / 6).is_multiple_of(setting("PULLBACK_EMIT", 16)) {
        emit(file, &read, &levels[&2], report);
    }
}

/// Checks one program in one place.
fn one_place(file: &File, k: usize, &(ref place, level, on): &Place, report: &mut Report) {
    let mut read = read(file, Some(k));
    let outcome = compile(&mut read, level).and_then(|compiled| {
        let wanted = run(file, &mut read, &compiled, INTERPRETER)?;
        Ok((run(file, &mut read, &compiled, on)?, wanted))
    });
    match outcome {
        Ok((found, wanted)) => {
            let exact = (!on.has_own_math()).then_some(&wanted);
            compare(file, &[k], place, &found, (&wanted, exact), report);
        }
        Err(failure) => report.failed(place, file, k, &read.session, &failure),
    }
}

fn compare(
    file: &File,
    numbers: &[usize],
    place: &str,
    found: &Found,
    (wanted, exact): (&Found, Option<&Found>),
    report: &mut Report,
) {
    let tolerance = if exact.is_some() { file.tolerance() } else { file.tolerance() * 2.0 };
    for (at, &k) in numbers.iter().enumerate() {
        let program = &file.programs[k];
        let (found, count) = &found[at];
        let mut fault = None;
        for (n, (&a, &b)) in found.iter().zip(&wanted[at].0).enumerate() {
            if !near(a, b, tolerance) && fault.is_none() {
                fault = Some(format!("thread {}, number {}: {a}, not {b}", n / FOUND, n % FOUND));
            }
        }
        if let Some(exact) = exact {
            for (n, (&a, &b)) in found.iter().zip(&exact[at].0).enumerate() {
                if !same(a, b) && fault.is_none() {
                    fault = Some(format!(
                        "thread {}, number {}: the bits of {a:?}, not {b:?}",
                        n / FOUND,
                        n % FOUND
                    ));
                }
            }
        }
        if *count != wanted[at].1 && fault.is_none() {
            let pairs = count.iter().zip(&wanted[at].1).enumerate();
            let apart: Vec<String> = pairs
                .filter(|(_, (a, b))| a != b)
                .map(|(k, (a, b))| format!("byte {k}: {a}, not {b}"))
                .collect();
            fault = Some(format!("effects: {}", apart.join("; ")));
        }
        match fault {
            None => report.tally(place, program.kind).agreed += 1,
            Some(why) => report.differs(place, file, k, &why),
        }
    }
}

fn emit(file: &File, read: &Read, compiled: &Compiled, report: &mut Report) {
    for (name, target) in TARGETS {
        // GLSL allows one kernel per program, and a module is refused as a whole if any of its kernels is.
        let whole = (target != Target::Glsl || read.numbers.len() == 1)
            .then(|| emit_compiled(&read.session.sources, compiled, None, target).ok())
            .flatten();
        for &k in &read.numbers {
            if whole.is_some() {
                report.tally(name, file.programs[k].kind).agreed += 1;
                continue;
            }
            let mut alone = self::read(file, Some(k));
            let outcome = compile(&mut alone, 2)
                .and_then(|compiled| emit_compiled(&alone.session.sources, &compiled, None, target));
            match outcome {
                Ok(_) => report.tally(name, file.programs[k].kind).agreed += 1,
                Err(failure) => report.failed(name, file, k, &alone.session, &failure),
            }
        }
    }
}

#[test]
fn small_programs_give_the_same_everywhere() {
    let first = setting("PULLBACK_SEED", 1);
    let n = setting("PULLBACK_RANDOM", 36).div_ceil(BATCH as u64);
    let end = Instant::now() + Duration::from_secs(setting("PULLBACK_SECONDS", 1 << 30));
    let mut report = Report::default();
    let mut said = Instant::now();
    on_large_stack(|| {
        for seed in first..first + n {
            let file = File::new(seed);
            if let Ok(folder) = std::env::var("PULLBACK_KEEP") {
                let _ = std::fs::write(format!("{folder}/{seed}.slang"), file.text(None));
            }
            check(&file, None, &mut report);
            if said.elapsed().as_secs() > 60 {
                said = Instant::now();
                eprintln!("seed {seed}: {} programs, {} differ", report.programs, report.failures.len());
            }
            if let Ok(path) = std::env::var("PULLBACK_FAILURES") {
                let _ = std::fs::write(path, report.failures.join("\n=====\n"));
            }
            if Instant::now() > end {
                eprintln!("ended at seed {seed}");
                break;
            }
        }
    });
    eprintln!("{}", report.table());
    let reasons: Vec<&str> = report.failures.iter().filter_map(|why| why.lines().next()).take(40).collect();
    let shown = report.failures.iter().min_by_key(|why| why.len()).map_or("", |why| why);
    let failed = report.failures.len();
    assert!(report.failures.is_empty(), "{failed} of {}\n{}\n\n{shown}", report.programs, reasons.join("\n"));
}
