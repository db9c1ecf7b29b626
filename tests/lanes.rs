//! Runs every program of tests/run on the backends that have lanes, one thread at a time and in 4, 8, 16 and 32 lanes,
//! where 4 and 16 lanes run unoptimised code, and compares it with the interpreter on the same code: the printed
//! text and the buffers must be equal exactly (with the interpreter's mathematical functions, and sums in the order
//! of the lanes). The same holds for random programs with divergent threads, and their derivatives.
//! `PULLBACK_ONLY` restricts the programs to paths that contain a text, `PULLBACK_LANES` selects one width, or `all`,
//! and `PULLBACK_BACKEND` one backend.

use std::collections::BTreeMap;
use std::path::Path;

use driver::launch::{Backend, CodeOptions, Runner};
use driver::pipeline::{Failure, Loaded, Options, on_large_stack};
use driver::session::{FileOptions, Session};
use driver::{Request, render};
use native::profile::Profile;
use pullback_tests::commands::slang::{Outcome, outcome_with};
use pullback_tests::file::{TestFile, programs};
use pullback_tests::generate::{self, Rng};
use pullback_tests::{floor, on_all_cores, setting};

/// Options for the given number of lanes, with mathematical functions as the interpreter computes them: the
/// backend's own differ in the last place and are tested separately.
fn exact(lanes: Option<u32>) -> CodeOptions {
    // With 4 and 8 lanes functions are compiled as a whole, otherwise in pieces.
    let piece = (!matches!(lanes, Some(4 | 8))).then_some(10);
    CodeOptions { lanes, lane_order: true, piece, ..CodeOptions::default() }
}

/// A diagnostic without the thread. In lanes, the reported thread is the first that fails at that place, and
/// not the first of all.
fn without_thread(text: &str) -> String {
    match text.split_once(" (thread ") {
        Some((before, after)) => {
            let rest = after.split_once(')').map_or("", |a| a.1);
            format!("{before}{rest}")
        }
        None => text.to_string(),
    }
}

/// Returns true if a backend names what it does not support.
fn is_refusal(text: &str) -> bool {
    text.contains("E0902") && text.contains("backend does not support")
}

/// The backends that have lanes.
fn backends() -> impl Iterator<Item = Backend> {
    let wanted = std::env::var("PULLBACK_BACKEND").ok();
    let all =
        [Some(Backend::CRANELIFT), Backend::named("llvm"), Backend::named("wasm")].into_iter().flatten();
    all.filter(move |backend| wanted.as_deref().is_none_or(|wanted| wanted == backend.name()))
}

/// The numbers of lanes that a backend has code for.
fn widths(backend: Backend) -> &'static [u32] {
    if backend.name() == "llvm" { &[1, 4, 8, 16, 32] } else { &[1, 4, 8, 16] }
}

/// Each backend with each of its numbers of lanes, which comes with its number among these.
fn ways() -> impl Iterator<Item = (usize, Backend, u32)> {
    backends()
        .flat_map(|backend| widths(backend).iter().enumerate().map(move |(k, &width)| (k, backend, width)))
}

/// The widths in which a program is tested, the `at`th of them: LLVM takes longer than all others, so each of its programs
/// has one, by turns, and one that prints, which does not run in lanes, the first. `PULLBACK_LANES=all` asks for every one.
fn widths_of(backend: Backend, at: usize, prints: bool) -> Vec<u32> {
    let all = if prints { &[1] } else { widths(backend) };
    match std::env::var("PULLBACK_LANES").as_deref() {
        Ok("all") => all.to_vec(),
        Ok(width) => vec![width.parse().expect("a number of lanes")],
        Err(_) if backend.name() == "llvm" => vec![all[at % all.len()]],
        Err(_) => all.to_vec(),
    }
}

/// The runs of programs on a backend in one width.
#[derive(Clone, Debug, Default)]
struct Count {
    same: usize,
    in_lanes: usize,
    refused: usize,
    faults: Vec<String>,
}

type Counts = BTreeMap<(&'static str, u32), Count>;

#[test]
fn programs_give_the_same_in_lanes() {
    let all: Vec<(usize, (String, TestFile))> = programs().enumerate().collect();
    let found = on_all_cores(&all, |(at, (name, file))| {
        let mut wanted: BTreeMap<u8, Result<String, String>> = BTreeMap::new();
        let mut counts = Counts::new();
        let prints = std::fs::read_to_string(name).is_ok_and(|text| text.contains("printf"));
        for backend in backends() {
            compare(name, file, backend, &widths_of(backend, *at, prints), &mut wanted, &mut counts);
        }
        counts
    });
    let mut counts = Counts::new();
    for (key, count) in found.into_iter().flatten() {
        let all = counts.entry(key).or_default();
        all.same += count.same;
        all.in_lanes += count.in_lanes;
        all.refused += count.refused;
        all.faults.extend(count.faults);
    }
    for ((backend, width), Count { same, in_lanes, refused, faults }) in &counts {
        let different = faults.len();
        eprintln!(
            "{backend}, {width} lanes: {same} the same, {in_lanes} of them in lanes, {refused} refused, {different} different"
        );
    }
    // A backend whose programs take turns runs each in one width only.
    for backend in backends().filter(|&backend| backend != Backend::CRANELIFT) {
        let of = counts.iter().filter(|((name, _), _)| *name == backend.name());
        let same =
            of.filter(|((_, width), _)| *width == 1 || backend.name() == "llvm").map(|(_, count)| count.same);
        if std::env::var_os("PULLBACK_LANES").is_none() {
            floor::hold(backend.name(), same.sum());
        }
    }
    let faults: Vec<String> = counts.into_values().flat_map(|count| count.faults).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// Compares a program on a backend in some widths with the interpreter, which has run it at some levels of optimisation.
fn compare(
    name: &str,
    file: &TestFile,
    backend: Backend,
    widths: &[u32],
    wanted: &mut BTreeMap<u8, Result<String, String>>,
    counts: &mut Counts,
) {
    for &width in widths {
        let level = if matches!(width, 4 | 16) { 0 } else { 2 };
        let only_optimised = level == 0 && file.command.iter().any(|word| word == "optimised");
        if width > 1 && only_optimised {
            continue;
        }
        let text = |found: Result<Outcome, String>| found.map(|found| found.text());
        let wanted = wanted
            .entry(level)
            .or_insert_with(|| text(outcome_with(file, level, Backend::INTERP, &CodeOptions::default())));
        let start = std::time::Instant::now();
        let found = outcome_with(file, level, backend, &exact(Some(width)));
        if start.elapsed().as_secs() > 3 {
            eprintln!("{name}, {width} lanes: {:.1} s", start.elapsed().as_secs_f64());
        }
        let count = counts.entry((backend.name(), width)).or_default();
        let is_single = found.as_ref().is_ok_and(|found| found.lanes <= 1);
        count.in_lanes += usize::from(found.is_ok() && !is_single);
        match (&*wanted, text(found)) {
            (Ok(a), Ok(b)) if *a == b => count.same += 1,
            (Err(a), Err(b)) if without_thread(a) == without_thread(&b) => count.same += 1,
            (_, Err(why)) if is_refusal(&why) => {
                count.refused += 1;
                if width == 1 {
                    eprintln!("refused: {name}: {}", why.lines().next().unwrap_or_default());
                }
            }
            (wanted, found) => {
                count.faults.push(format!("{name}, {width} lanes:\n{found:?}\ninstead of\n{wanted:?}"));
            }
        }
        // A program that did not run in 4 lanes does not run in more.
        if width > 1 && is_single {
            break;
        }
    }
}

/// The number of inputs of a thread: `x`, `y`, `s.a`, `s.b[0..3]`, `s.c`, `s.k`, `n`.
const INPUTS: usize = 9;
/// The number of results of a thread: the value, and its derivatives by forward and by reverse mode.
const RESULTS: usize = 8;
/// The number of groups that are run.
const GROUPS: u32 = 3;

/// A kernel that calls the random function of `seed`, and its derivatives, with different numbers in each
/// thread.
fn kernel(seed: u64, ty: &str, size: [u32; 3]) -> String {
    let [x, y, z] = size;
    let mut text = generate::program(seed, ty).text;
    text += &format!(
        "RWStructuredBuffer<F> given;\nRWStructuredBuffer<F> found;\nRWStructuredBuffer<F> total;\n\
         [shader(\"compute\")] [numthreads({x}, {y}, {z})]\n\
         void main(uint3 tid : SV_DispatchThreadID)\n{{\n    \
         uint t = (tid.z * {y} + tid.y) * {} + tid.x;\n    uint i = t * {INPUTS};\n    \
         F x = given[i]; F y = given[i + 1];\n    \
         S s = {{ given[i + 2], int(given[i + 7]), {{ given[i + 3], given[i + 4], given[i + 5] }}, given[i + 6] }};\n    \
         int n = int(given[i + 8]);\n    uint o = t * {RESULTS};\n    \
         found[o] = f(x, y, s, n);\n    \
         S.Differential ds = {{ F(1), {{ F(0.5), F(0.25), F(2) }} }};\n    \
         found[o + 1] = fwd_diff(f)(DifferentialPair<F>(x, F(1)), DifferentialPair<F>(y, F(-1)), \
         DifferentialPair<S>(s, ds), n).d;\n    \
         var px = DifferentialPair<F>(x, 0); var py = DifferentialPair<F>(y, 0); var ps = diffPair(s);\n    \
         if (given[i] > F(-1.5)) bwd_diff(f)(px, py, ps, n, F(1));\n    \
         found[o + 2] = px.d; found[o + 3] = py.d; found[o + 4] = ps.d.a;\n    \
         found[o + 5] = ps.d.b[0]; found[o + 6] = ps.d.b[1]; found[o + 7] = ps.d.b[2];\n}}\n",
        x * GROUPS
    );
    text
}

/// The content of `found` afterwards, and the number of lanes.
fn numbers(
    text: &str,
    double: bool,
    threads: u32,
    seed: u64,
    (backend, lanes, profile): (Backend, Option<u32>, Profile),
) -> Result<(Vec<u8>, u32), String> {
    let mut session = Session::new(FileOptions::default());
    let mut program = session.program();
    let file = session.load_text(&mut program, "random.slang", text.to_string(), ".".as_ref());
    let mut loaded = Loaded::new(program, file);
    let outcome = (|| {
        let entry = loaded.entry(Some("main"))?;
        let request = Request { entries: vec![entry], ..Request::default() };
        let compiled = loaded.compile(&request, &Options::default())?;
        let code = CodeOptions { profile, ..exact(lanes) };
        let mut runner = Runner::with_options(compiled.module, backend, &code)?;
        let mut rng = Rng::new(seed ^ 0x1A9E5);
        let mut given: Vec<f64> = Vec::new();
        for _ in 0..threads {
            given.extend((0..INPUTS - 2).map(|_| rng.float() + 0.013));
            given.extend([rng.below(5) as f64, rng.below(4) as f64]);
        }
        let bytes = |numbers: &[f64]| -> Vec<u8> {
            match double {
                true => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
                false => numbers.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
            }
        };
        for (name, content) in [
            ("data", bytes(&[0.5, -1.25, 0.75, 2.0])),
            ("given", bytes(&given)),
            ("found", bytes(&vec![0.0; threads as usize * RESULTS])),
        ] {
            if let Some(global) = runner.find(name) {
                runner.bind_global(global, &content);
            }
        }
        runner.dispatch("main", [GROUPS, 1, 1], 1)?;
        let found = runner.find("found").expect("a global of the program");
        Ok((runner.bytes_of(found).to_vec(), runner.lanes(0)))
    })();
    outcome.map_err(|failure| match failure {
        Failure::Program(diagnostics) => {
            render::all_to_text(&session.sources, &diagnostics, driver::render::Style::Plain)
        }
        Failure::Other(error) => error.to_string(),
    })
}

/// Compares numbers for equal bits, where all NaNs are equal; returns the index of the first difference.
fn same_numbers(a: &[u8], b: &[u8], double: bool) -> Option<usize> {
    let size = if double { 8 } else { 4 };
    let number = |bytes: &[u8]| match double {
        true => f64::from_le_bytes(bytes.try_into().expect("eight bytes")),
        false => f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes"))),
    };
    let pairs = a.chunks(size).zip(b.chunks(size));
    pairs.map(|(x, y)| x == y || number(x).is_nan() && number(y).is_nan()).position(|same| !same)
}

#[test]
fn random_programs_give_the_same_in_lanes() {
    let first = setting("PULLBACK_SEED", 1);
    let n = setting("PULLBACK_RANDOM", 6);
    let sizes = [[64, 1, 1], [5, 1, 1], [8, 4, 1], [3, 3, 2], [16, 2, 1], [1, 1, 1], [4, 8, 1]];
    let mut failures = Vec::new();
    let mut in_lanes = [0; 4];
    on_large_stack(|| {
        for seed in first..first + n {
            let size = sizes[seed as usize % sizes.len()];
            let double = seed % 3 != 0;
            let text = kernel(seed, if double { "double" } else { "float" }, size);
            let threads = size.iter().product::<u32>() * GROUPS;
            let wanted = match numbers(&text, double, threads, seed, (Backend::INTERP, None, Profile::Off)) {
                Ok(wanted) => wanted.0,
                Err(why) => {
                    failures.push(format!("seed {seed}, interpreter: {why}\n{text}"));
                    continue;
                }
            };
            // What code carries for a profile makes no difference to its results.
            let plain = ways().map(|(k, backend, width)| (k, backend, width, Profile::Off));
            let forms =
                [(1, Profile::Lines), (8, Profile::Lines), (1, Profile::Counts), (8, Profile::Counts)];
            let forms = backends().flat_map(|backend| forms.map(|(width, form)| (0, backend, width, form)));
            for (k, backend, width, profile) in plain.chain(forms) {
                match numbers(&text, double, threads, seed, (backend, Some(width), profile)) {
                    Ok((found, lanes)) => {
                        if k > 0 {
                            in_lanes[k - 1] += u32::from(lanes > 1);
                        }
                        if let Some(at) = same_numbers(&found, &wanted, double) {
                            let way = format!("{backend:?}, {width} lanes, {profile:?}");
                            failures.push(format!("seed {seed}, {way}: number {at} differs\n{text}"));
                        }
                    }
                    Err(why) => {
                        failures.push(format!("seed {seed}, {backend:?}, {width} lanes: {why}\n{text}"))
                    }
                }
            }
        }
    });
    eprintln!("{n} programs; in 4, 8, 16, 32 lanes: {in_lanes:?}");
    let shown = failures.iter().min_by_key(|why| why.len()).map_or("", |why| why);
    let reasons: Vec<&str> = failures.iter().filter_map(|why| why.lines().next()).collect();
    assert!(failures.is_empty(), "{}\n\n{shown}", reasons.join("\n"));
}

/// The content of the buffers after a dispatch of a kernel of [`generate::shared`], and the number of lanes.
fn shared_memory(text: &str, backend: Backend, lanes: Option<u32>) -> Result<(Vec<Vec<u8>>, u32), String> {
    let mut session = Session::new(FileOptions::default());
    let mut program = session.program();
    let file = session.load_text(&mut program, "shared.slang", text.to_string(), ".".as_ref());
    let mut loaded = Loaded::new(program, file);
    let outcome = (|| {
        let entry = loaded.entry(Some("main"))?;
        let request = Request { entries: vec![entry], ..Request::default() };
        let compiled = loaded.compile(&request, &Options::default())?;
        let mut runner = Runner::with_options(compiled.module, backend, &exact(lanes))?;
        let floats = |n: usize| -> Vec<u8> {
            (0..n).flat_map(|k| ((k * 7 % 11) as f32 * 0.25 - 1.0).to_le_bytes()).collect()
        };
        let ints: Vec<u8> = (0..16i32).flat_map(|k| (k * 5 % 7).to_le_bytes()).collect();
        let n = generate::ELEMENTS;
        let names = ["a", "b", "p", "c", "d"];
        let given = [floats(n), floats(n), floats(n), floats(3 * n), vec![0; 4 * n]];
        let fixed = [("x", floats(16)), ("k", ints), ("n", vec![3, 0, 0, 0])];
        for (name, content) in names.iter().copied().zip(given).chain(fixed) {
            runner.bind(name, &content);
        }
        runner.dispatch("main", [GROUPS, 1, 1], 1)?;
        let found =
            names.iter().map(|name| runner.find(name).map_or(&[][..], |g| runner.bytes_of(g)).to_vec());
        Ok((found.collect(), runner.lanes(0)))
    })();
    outcome.map_err(|failure| match failure {
        Failure::Program(diagnostics) => {
            render::all_to_text(&session.sources, &diagnostics, driver::render::Style::Plain)
        }
        Failure::Other(error) => error.to_string(),
    })
}

#[test]
fn threads_that_share_memory_give_the_same_in_lanes() {
    let first = setting("PULLBACK_SEED", 1);
    let n = setting("PULLBACK_RANDOM", 25);
    let sizes = [[32, 1, 1], [5, 1, 1], [8, 4, 1], [3, 3, 2], [16, 1, 1], [4, 8, 1]];
    let mut failures = Vec::new();
    let mut in_lanes = [0; 4];
    on_large_stack(|| {
        for seed in first..first + n {
            let text = generate::shared(seed, sizes[seed as usize % sizes.len()]);
            let wanted = match shared_memory(&text, Backend::INTERP, None) {
                Ok(wanted) => wanted.0,
                Err(why) => {
                    failures.push(format!("seed {seed}, interpreter: {why}\n{text}"));
                    continue;
                }
            };
            for (k, backend, width) in ways().chain([(2, Backend::default(), 8)]) {
                match shared_memory(&text, backend, Some(width)) {
                    Ok((found, lanes)) => {
                        if let Some(count) = k.checked_sub(1).and_then(|k| in_lanes.get_mut(k)) {
                            *count += u32::from(lanes > 1);
                        }
                        let names = ["a", "b", "p", "c", "d"].iter().zip(found.iter().zip(&wanted));
                        for (name, (found, wanted)) in names {
                            let differs = if *name == "d" {
                                (found != wanted).then_some(0)
                            } else {
                                same_numbers(found, wanted, false)
                            };
                            if let Some(at) = differs {
                                let way = format!("{backend:?}, {width} lanes");
                                failures.push(format!("seed {seed}, {way}: {name}[{at}] differs\n{text}"));
                            }
                        }
                    }
                    Err(why) => failures.push(format!("seed {seed}, {backend:?}, {width:?}: {why}\n{text}")),
                }
            }
        }
    });
    eprintln!("{n} programs; in 4, 8, 16, 32 lanes: {in_lanes:?}");
    let shown = failures.iter().min_by_key(|why| why.len()).map_or("", |why| why);
    let reasons: Vec<&str> = failures.iter().filter_map(|why| why.lines().next()).collect();
    assert!(failures.is_empty(), "{}\n\n{shown}", reasons.join("\n"));
}

#[test]
fn lanes_and_single_threads_agree_on_functions_of_numbers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("run/lanes/functions-of-numbers.slang");
    let file = TestFile::read(&path).expect("the file is there");
    for (_, backend, width) in ways().filter(|&(_, _, width)| width > 1) {
        let options = CodeOptions { lanes: Some(width), ..CodeOptions::default() };
        let found = outcome_with(&file, 2, backend, &options).expect("runs");
        let (found, lanes) = (found.text(), found.lanes);
        assert_eq!(lanes, width);
        let line =
            found.lines().find_map(|line| line.strip_prefix("found: ")).expect("a buffer of that name");
        let numbers: Vec<&str> = line.split(' ').collect();
        assert_eq!(numbers.len(), 31, "{found}");
        for (i, number) in numbers.iter().enumerate() {
            assert_eq!(*number, numbers[i % 4], "thread {i} in {width} lanes\n{found}");
        }
    }
}

/// Every mathematical function, at numbers of all magnitudes, as bits.
const FUNCTIONS: &str = "
RWStructuredBuffer<uint64_t> found;
uint64_t bits(double x) { uint low; uint high; asuint(x, low, high); return uint64_t(high) << 32 | low; }
uint64_t bits(float x) { return asuint(x); }
[numthreads(16, 1, 1)] void main(uint3 tid : SV_DispatchThreadID)
{
    double x = (double(tid.x) - 500) * 0.013lf;
    if (tid.x % 7 == 0) x = exp(x * 10);
    if (tid.x % 11 == 0) x = -1 / x;
    if (tid.x == 33) x = 1 / 0.0lf;
    if (tid.x == 34) x = -0.0lf;
    if (tid.x == 35) x = 3e7lf;
    if (tid.x > 1000) x = exp2(x * 60 - 200);
    double c = sin(x) * 0.999lf;
    float f = float(x);
    uint64_t all[29] = {
        bits(exp(x)), bits(exp2(x)), bits(log(abs(x))), bits(log2(abs(x))), bits(log10(abs(x))), bits(sin(x)),
        bits(cos(x)), bits(tan(x)), bits(asin(c)), bits(acos(c)), bits(atan(x)), bits(atan2(x, c)), bits(sinh(x)),
        bits(cosh(x)), bits(tanh(x)), bits(exp(f)), bits(log(abs(f))), bits(sin(f)), bits(cos(f)), bits(tan(f)),
        bits(tanh(f)), bits(atan2(f, 0.3f)), bits(pow(abs(f), 1.7f)), bits(pow(f, 3.0f)), bits(pow(abs(x), 0.3lf)),
        bits(fmod(x, 0.7lf)), bits(asinh(f)), bits(acosh(abs(f))), bits(atanh(float(c))) };
    for (int k = 0; k < 29; k++) found[tid.x * 29 + k] = all[k];
}";

/// A kernel that runs long enough for LLVM's code to take over, in groups some of which print.
const LONG: &str = "
RWStructuredBuffer<float> found;
[Differentiable] float f(float x)
{
    float s = x;
    for (int i = 0; i < 60; i++) s = s + 0.01 * sin(s * 3) + exp(-s * s) * 0.001 + pow(abs(s) + 0.1, 0.3) * 0.01;
    return s;
}
[numthreads(32, 1, 1)] void main(uint3 tid : SV_DispatchThreadID)
{
    var p = diffPair(tid.x * 0.001f);
    bwd_diff(f)(p, 1.0f);
    found[tid.x] = p.d + f(p.p);
}";

/// The bytes in `found` after each of some dispatches, and the number of lanes of the last one.
fn left(
    text: &str,
    (bytes, groups, dispatches): (usize, u32, usize),
    backend: Backend,
    options: &CodeOptions,
) -> (Vec<Vec<u8>>, u32) {
    on_large_stack(|| {
        let mut session = Session::new(FileOptions::default());
        let mut program = session.program();
        let file = session.load_text(&mut program, "tiers.slang", text.to_string(), ".".as_ref());
        let mut loaded = Loaded::new(program, file);
        let done = (|| {
            let entry = loaded.entry(Some("main"))?;
            let request = Request { entries: vec![entry], ..Request::default() };
            let compiled = loaded.compile(&request, &Options::default())?;
            let mut runner = Runner::with_options(compiled.module, backend, options)?;
            let mut all = Vec::new();
            for k in 0..dispatches {
                runner.bind("found", &vec![0; bytes]);
                runner.dispatch("main", [groups, 1, 1], 1 + k % 2)?;
                all.push(runner.bytes("found")?.to_vec());
            }
            Ok((all, runner.lanes(0)))
        })();
        done.unwrap_or_else(|failure| match failure {
            Failure::Program(all) => {
                panic!("{}", render::all_to_text(&session.sources, &all, driver::render::Style::Plain))
            }
            Failure::Other(error) => panic!("{error}"),
        })
    })
}

#[test]
fn functions_of_numbers_are_the_same_everywhere() {
    let size = (1024 * 29 * 8, 64, 1);
    let (wanted, _) = left(FUNCTIONS, size, Backend::INTERP, &CodeOptions::default());
    for (backend, lanes) in backends().flat_map(|backend| [1, 4, 8].map(|lanes| (backend, lanes))) {
        let options = CodeOptions { lanes: Some(lanes), ..CodeOptions::default() };
        let (found, _) = left(FUNCTIONS, size, backend, &options);
        // One NaN is as good as another.
        let word = |bytes: &[u8], k: usize| {
            let bits = u64::from_le_bytes(bytes[8 * k..8 * k + 8].try_into().expect("eight bytes"));
            let is_nan = match u32::try_from(bits) {
                Ok(bits) => f32::from_bits(bits).is_nan(),
                Err(_) => f64::from_bits(bits).is_nan(),
            };
            if is_nan { None } else { Some(bits) }
        };
        let apart = (0..1024 * 29).find(|&k| word(&found[0], k) != word(&wanted[0], k));
        let name = backend.name();
        assert_eq!(apart.map(|k| (k / 29, k % 29)), None, "{name}, {lanes} lanes: thread and function");
    }
}

#[test]
fn faster_code_takes_over_and_gives_the_same() {
    let options = CodeOptions::default();
    let (wanted, _) = left(LONG, (4 * 8192, 256, 1), Backend::fastest(), &options);
    let (found, lanes) = left(LONG, (4 * 8192, 256, 60), Backend::default(), &options);
    for (k, bytes) in found.iter().enumerate() {
        assert!(*bytes == wanted[0], "dispatch {k}");
    }
    assert!(lanes > 1, "LLVM's code took over");
}

/// The kernels of benches, which are larger than those of tests/run, compile on every backend in every width.
#[test]
fn kernels_of_benches_compile() {
    let paths = test_support::programs(&["benches"]);
    let compiled = on_all_cores(&paths, |path| {
        let mut session = Session::new(FileOptions::default());
        let Ok(mut loaded) = driver::pipeline::load(&mut session, path) else { return 0 };
        let entries = loaded.program.entry_points(loaded.file);
        // A part of other programs.
        if entries.is_empty() || loaded.errors().is_err() {
            return 0;
        }
        let request = Request { entries, ..Request::default() };
        let done = loaded.compile(&request, &Options::default()).and_then(|compiled| {
            for (_, backend, width) in ways() {
                let code = CodeOptions { lanes: Some(width), ..CodeOptions::default() };
                Runner::with_options(compiled.module.clone(), backend, &code)?;
            }
            Ok(())
        });
        done.unwrap_or_else(|failure| match failure {
            Failure::Program(all) => panic!("{}: {:?}", path.display(), all.first().map(|d| &d.message)),
            Failure::Other(error) => panic!("{}: {error}", path.display()),
        });
        1
    });
    assert!(compiled.iter().sum::<usize>() > 20, "{compiled:?}");
}
