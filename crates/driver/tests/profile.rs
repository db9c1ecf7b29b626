//! Profiles: lines are named as they are, and counts are exact.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::path::PathBuf;

use driver::bench::{Launch, Options, Subject, measure};
use driver::bind::parse_bind;
use driver::launch::{Backend, Execution};
use driver::pipeline;
use driver::profile::{Line, Profile, profile};
use driver::session::{FileOptions, Session};
use pullback_driver as driver;

const PROGRAM: &str = "\
[Differentiable] float waves(float x, float y)
{
    float s = y;
    for (int k = 0; k < 50; k++)
        s = s + sin(s * x);
    return s * 2.0;
}

[Differentiable] float divergent(float x)
{
    float s = x;
    float f = detach(x) * 1048576.0;
    if (f - floor(f / 4.0) * 4.0 < 0.5)
        s = exp(s * s);
    return s;
}

// Slow, so that cotangents do not become so small that they take longer than values.
[Differentiable] float growth(float x, float y)
{
    float s = y;
    for (int k = 0; k < 500; k++)
        s = s + 0.001 * x * s * (1.0 - s);
    return s;
}

#define RECURRENCE(NAME, STATES) \
    [Differentiable] float NAME(float x) \
    { \
        float y = 1.0; \
        [CheckpointStates(STATES)] for (int i = 0; i < 100; i++) y = y * x + 0.01 * sin(y + i); \
        return y; \
    }
RECURRENCE(two, 2)
RECURRENCE(six, 6)
RECURRENCE(eighteen, 18)

[Differentiable] float nested(float x)
{
    float y = 1.0;
    [CheckpointStates(4)] for (int i = 0; i < 30; i++)
    {
        float z = y;
        [CheckpointStates(3)] for (int j = 0; j < 20; j++) z = z * x + 0.01 * sin(z + j);
        y = y * x + 0.1 * z;
    }
    return y;
}

[Differentiable, CheckpointBudget(300000)] float field(float x, no_diff int n)
{
    float u[500];
    float v[500];
    for (int i = 0; i < 500; i++) { u[i] = 0.001 * i; v[i] = 0.0; }
    for (int s = 0; s < n; s++)
    {
        for (int i = 1; i < 499; i++) v[i] += x * (u[i - 1] - 2.0 * u[i] * u[i] + u[i + 1]);
        for (int i = 1; i < 499; i++) u[i] += 0.01 * v[i];
    }
    return u[250];
}

StructuredBuffer<float> table;
[Differentiable] float looked_up(float x)
{
    uint t = uint(detach(x) * 1048576.0);
    float a = no_diff(table[t * t % 61]);
    float b = no_diff(table[t * 5 % 256]);
    return a * x + b;
}
";

/// The backends with profiles.
fn backends() -> Vec<Backend> {
    let named = ["cranelift", "llvm"].map(Backend::named);
    named.into_iter().flatten().filter(|backend| backend.find().is_ok()).collect()
}

/// A folder with the program.
fn program(name: &str) -> (PathBuf, PathBuf) {
    let folder = std::env::temp_dir().join(format!("pullback-profile-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let file = folder.join("program.slang");
    std::fs::write(&file, PROGRAM).expect("a file");
    (folder, file)
}

fn of(name: &str, backend: Backend, lanes: Option<u32>, at: &[(&str, f64)]) -> Profile {
    of_memory(name, backend, (lanes, 1, &[]), at)
}

/// The profile of a function that several workers run.
fn of_workers(name: &str, backend: Backend, lanes: Option<u32>, workers: usize) -> Profile {
    of_memory(name, backend, (lanes, workers, &[]), &[])
}

fn of_memory(
    name: &str,
    backend: Backend,
    (lanes, workers, binds): (Option<u32>, usize, &[&str]),
    at: &[(&str, f64)],
) -> Profile {
    let (folder, file) = program(&format!("{name}-{}-{lanes:?}-{workers}", backend.name()));
    let mut session = Session::new(FileOptions::default());
    let mut execution = Execution { backend, threads: workers, ..Execution::default() };
    execution.code.lanes = lanes;
    let at = at.iter().map(|&(name, x)| (name.to_string(), x.into())).collect();
    let memory = binds.iter().map(|bind| parse_bind(bind).expect("a value")).collect();
    let options = Options { execution, at, memory, threads: 1024, seconds: 0.2 };
    let found =
        profile(&mut session, &file, &Subject::Function(name.to_string()), &options).expect("a profile");
    std::fs::remove_dir_all(folder).expect("was made");
    found
}

fn line(profile: &Profile, number: u32) -> &Line {
    profile.lines.iter().find(|line| line.place.line == number).expect("the line is in the profile")
}

#[test]
fn the_line_that_takes_longest_comes_first() {
    for backend in backends() {
        for (lanes, workers) in [(None, 1), (Some(1), 1), (None, 2)] {
            let found = of_workers("waves", backend, lanes, workers);
            assert_eq!(found.kernels.len(), 2);
            for (k, kernel) in found.kernels.iter().enumerate() {
                let hottest = found.hottest(k, 0.0);
                assert_eq!(hottest[0].0.line, 5, "{}: {hottest:?}", backend.name());
                // How much of the time is outside of lines depends on what else the machine does.
                let others: f64 = hottest[1..].iter().map(|line| line.1).sum();
                assert!(hottest[0].1 > others, "{hottest:?}");
                assert!(kernel.samples > 20, "{kernel:?}");
                // What is not in lines is named, so nothing is missing.
                let shares: f64 = hottest.iter().map(|line| line.1).sum();
                let rest = (kernel.threads + kernel.elsewhere) / kernel.total();
                // Both are processor times; far more or less means that samples are missing or weigh too much.
                let ratio = kernel.total() / kernel.measured;
                assert!((0.25..4.0).contains(&ratio), "{kernel:?}");
                assert!((shares + rest - 1.0).abs() < 1e-6, "{shares} {rest}");
            }
            assert_eq!(found.kernels[0].lanes > 1, lanes.is_none());
        }
    }
}

#[test]
fn values_and_derivatives_are_told_apart() {
    for backend in backends() {
        let found = of("growth", backend, None, &[]);
        let number =
            PROGRAM.lines().position(|line| line.contains("(1.0 - s)")).expect("is there") as u32 + 1;
        // Each takes about half of the time.
        let Line { primal, gradient, .. } = line(&found, number);
        assert!(*primal > 0.0 && gradient.primal > 0.0 && gradient.derivative > 0.0, "{gradient:?}");
        let derivative: f64 = found.lines.iter().map(|line| line.gradient.derivative).sum();
        let share = derivative / found.kernels[1].total();
        assert!((0.1..0.9).contains(&share), "{}: {share}", backend.name());
    }
}

#[test]
fn counts_are_exact() {
    for backend in backends() {
        for lanes in [None, Some(1)] {
            let found = of("waves", backend, lanes, &[]);
            let [primal, gradient] = line(&found, 5).counts;
            assert_eq!(primal.mathematics, 50.0, "{}", backend.name());
            assert_eq!((primal.lost(), gradient.lost()), (0.0, 0.0));
            assert_eq!(primal.kept, 0.0);
            // The sines and cosines: the values that the derivatives need are kept or computed again.
            assert!(gradient.mathematics >= 100.0, "{gradient:?}");
            let kept: f64 = found.lines.iter().map(|line| line.counts[1].kept).sum();
            assert!(kept >= 4.0 * 50.0 && kept % 200.0 == 0.0, "{kept}");
            assert!(found.has_spills);
        }
    }
}

#[test]
fn trips_run_as_often_as_the_report_says() {
    let cases = [("two", 2), ("six", 6), ("eighteen", 18)];
    for (backend, (name, states)) in
        backends().into_iter().flat_map(|backend| cases.map(|case| (backend, case)))
    {
        let found = of(name, backend, None, &[("x", 0.5)]);
        let count = |k: usize| found.lines.iter().map(|line| line.counts[k].mathematics).sum::<f64>();
        assert_eq!(count(0), 100.0);
        // A sine for each trip that runs, and a cosine for each that is reversed.
        let reported = autodiff::runs(states, 100) as f64 + 100.0;
        let measured = count(1);
        assert!((measured / reported - 1.0).abs() < 0.1, "{states} states: {measured} of {reported}");
    }
}

/// A loop in a loop runs once more, since a trip around it keeps only what it begins with.
#[test]
fn loops_in_loops_run_as_often_as_the_report_says() {
    for backend in backends() {
        let found = of("nested", backend, None, &[("x", 0.5)]);
        let count = |k: usize| found.lines.iter().map(|line| line.counts[k].mathematics).sum::<f64>();
        assert_eq!(count(0), 600.0);
        let (outer, inner) = (autodiff::runs(4, 30) as f64, autodiff::runs(3, 20) as f64);
        // Sines of both, and the cosines.
        let reported = outer * 20.0 + 30.0 * inner + 600.0;
        let measured = count(1);
        assert!((measured / reported - 1.0).abs() < 0.1, "{}: {measured} of {reported}", backend.name());
    }
}

/// States are freed before the next trip of a loop around them makes others: else these would be ten times as many
/// bytes.
#[test]
fn a_budget_bounds_loops_in_loops() {
    for backend in backends() {
        let (folder, file) = program(&format!("field-{}", backend.name()));
        let mut loaded = pipeline::load(&mut Session::new(FileOptions::default()), &file).expect("a program");
        let mut execution = Execution { backend, threads: 1, ..Execution::default() };
        execution.code.lanes = Some(1);
        let at = vec![("n".to_string(), 100.into())];
        let options = Options { execution, at, memory: Vec::new(), threads: 1, seconds: 0.0 };
        let found = measure(&mut loaded, &Subject::Function("field".into()), &options).expect("times");
        std::fs::remove_dir_all(folder).expect("was made");
        let held = found.gradient.expect("a gradient").arena_bytes;
        // Chunks of memory grow by factors of two, and there are temporaries.
        assert!(held < 4 * 300_000, "{}: {held} bytes", backend.name());
    }
}

#[test]
fn lanes_that_wait_are_counted() {
    for backend in backends() {
        // x · (1 + t · 2⁻²⁰) · 2²⁰ is an integer plus t for x = 1, so every fourth thread takes the branch.
        let found = of("divergent", backend, None, &[("x", 1.0)]);
        let lanes = found.kernels[0].lanes;
        assert!(lanes >= 4, "{found:?}");
        let counts = line(&found, 14).counts[0];
        assert_eq!((counts.mathematics, counts.lost()), (0.25, 0.75), "{}: {counts:?}", backend.name());
        assert_eq!(line(&found, 13).counts[0].lost(), 0.0);
    }
}

#[test]
fn accesses_of_single_lanes_are_counted() {
    for backend in backends() {
        let memory = (None, 1, &["table=zeros:256"][..]);
        let found = of_memory("looked_up", backend, memory, &[("x", 1.0)]);
        assert!(found.kernels[0].lanes >= 4, "{found:?}");
        let number = PROGRAM.lines().position(|line| line.contains("% 61")).expect("is there") as u32 + 1;
        for k in [number, number + 1] {
            let counts = line(&found, k).counts[0];
            assert_eq!((counts.gathers, counts.strided), (1.0, 0.0), "{}: {counts:?}", backend.name());
        }
    }
}

#[test]
fn what_is_no_machine_code_has_no_profile() {
    let (folder, file) = program("none");
    let mut session = Session::new(FileOptions::default());
    let execution = Execution { backend: Backend::INTERP, threads: 1, ..Execution::default() };
    let options = Options { execution, at: Vec::new(), memory: Vec::new(), threads: 64, seconds: 0.0 };
    let why = profile(&mut session, &file, &Subject::Function("waves".to_string()), &options)
        .expect_err("no profile");
    std::fs::remove_dir_all(folder).expect("was made");
    assert!(format!("{why:?}").contains("--backend cranelift"), "{why:?}");
}

/// A kernel of the program: its lines, with values and derivatives apart, and its memory as the user has bound it in each
/// dispatch.
#[test]
fn a_kernel_of_the_program_has_a_profile() {
    const KERNEL: &str = "\
RWStructuredBuffer<float> data;
[Differentiable] float layer(float x, float w)
{
    float s = x;
    for (int i = 0; i < 40; i++)
        s = sin(s * w);
    return s;
}

[numthreads(32, 1, 1)] void computeMain(uint3 t : SV_DispatchThreadID)
{
    var x = diffPair(0.5 + data[t.x]);
    var w = diffPair(1.1);
    bwd_diff(layer)(x, w, 1.0);
    // Were the memory not restored, only the first dispatch would take this way.
    float s = x.d * w.d;
    if (data[t.x] == 0.0)
        for (int i = 0; i < 100; i++)
            s = sin(s) + 1.0;
    data[t.x] = s;
}
";
    for backend in backends() {
        let folder = std::env::temp_dir().join(format!(
            "pullback-profile-{}-kernel-{}",
            std::process::id(),
            backend.name()
        ));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        let file = folder.join("kernel.slang");
        std::fs::write(&file, KERNEL).expect("a file");
        let mut session = Session::new(FileOptions::default());
        let execution = Execution { backend, threads: 1, ..Execution::default() };
        let memory = vec![parse_bind("data=zeros:2048").expect("a value")];
        let options = Options { execution, at: Vec::new(), memory, threads: 1, seconds: 1.0 };
        let launch = Launch { entry: "computeMain".to_string(), groups: [64, 1, 1], block: None };
        let found = profile(&mut session, &file, &Subject::Kernel(launch), &options).expect("a profile");
        std::fs::remove_dir_all(folder).expect("was made");

        let [kernel] = &found.kernels[..] else { panic!("one kernel: {found:?}") };
        // Other work on the machine disturbs the shares of lines, but not which two are far ahead.
        let mut hottest: Vec<u32> = found.hottest(0, 0.0).iter().map(|line| line.0.line).take(2).collect();
        hottest.sort_unstable();
        assert_eq!(hottest, [6, 19], "{}: {found:?}", backend.name());
        let ratio = kernel.total() / kernel.measured;
        assert!((0.25..4.0).contains(&ratio), "{kernel:?}");
        let Line { primal, gradient, .. } = line(&found, 6);
        assert!(gradient.primal > 0.0 && gradient.derivative > 0.0, "{gradient:?}");
        assert!((primal - gradient.total()).abs() < 1e-9 * primal);
        assert!(line(&found, 6).counts[0].mathematics >= 80.0);
        assert_eq!(line(&found, 19).counts[0].mathematics, 100.0, "{}", backend.name());
    }
}
