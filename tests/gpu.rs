//! Runs every program of tests/run on the first graphics processor of this machine (the first that wgpu
//! lists, and the first that NVIDIA's driver lists, depending on the features of the build), and compares it
//! with the interpreter. The text and buffers must be the same, with floats within 4 units in the last place
//! for programs with arithmetic only, and within a tolerance for those with transcendental functions; or the
//! program is refused with a reason. Fits must have the same losses and gradients as on the CPU. Without a
//! device the tests print a message and pass.
#![cfg(any(feature = "wgpu", feature = "cuda"))]

use std::path::Path;

use driver::fit::items::Items;
use driver::fit::kernel::Task;
use driver::fit::optimise::least_squares::Residuals as _;
use driver::fit::optimise::rule::{Method, Rule};
use driver::fit::{Fit, Setup};
use driver::launch::{Backend, CodeOptions, Execution};
use driver::session::{FileOptions, Session};
use pullback_tests::commands::dispatch;
use pullback_tests::commands::slang::{Outcome, has_transcendental, outcome, outcome_with};
use pullback_tests::file::{TestFile, programs, root};
use pullback_tests::{floor, on_all_cores};

/// The largest accepted error of arithmetic, in units in the last place of a float.
const UNITS: u32 = 4;
/// The largest accepted error of transcendental functions, both relative and absolute (docs/gpu.md).
const TOLERANCE: f64 = 1e-6;

/// The devices that run programs here.
fn backends() -> Vec<Backend> {
    let mut all = Vec::new();
    for &backend in Backend::ALL.iter().filter(|backend| backend.is_device()) {
        match backend.devices() {
            Ok(devices) => {
                eprintln!("on {} ({})", devices[0].name, devices[0].driver);
                all.push(backend);
            }
            Err(why) => eprintln!("{why}: skipped"),
        }
    }
    all
}

/// The distance between two numbers in units in the last place of a float.
fn units(x: f32, y: f32) -> u32 {
    // The rank of a float in numerical order, where both zeros are equal.
    let place = |x: f32| {
        let bits = x.to_bits() as i32;
        i64::from(if bits < 0 { i32::MIN.wrapping_sub(bits) } else { bits })
    };
    (place(x) - place(y)).unsigned_abs().min(u64::from(u32::MAX)) as u32
}

/// The unit of the last decimal digit of a number.
fn last_digit(text: &str) -> f64 {
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let after = digits.split_once('.').map_or(0, |d| d.1.len() as i32);
    10f64.powi(exponent.parse::<i32>().unwrap_or(0) - after)
}

/// The largest distance between the numbers of two texts: in units of floats, and relative to the larger
/// number (or to 1, if that is larger); `None` if anything else differs. In printed text with few digits, the
/// last digit may differ by one.
fn distance(a: &str, b: &str, is_printed: bool) -> Option<(u32, f64)> {
    let split = |text: &str| -> Vec<String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
        text.split(|c| !is_part(c)).filter(|t| !t.is_empty()).map(str::to_string).collect()
    };
    let (a, b) = (split(a), split(b));
    if a.len() != b.len() {
        return None;
    }
    let (mut most, mut part) = (0, 0.0f64);
    for (a, b) in a.iter().zip(&b).filter(|(a, b)| a != b) {
        let (Ok(x), Ok(y)) = (a.parse::<f64>(), b.parse::<f64>()) else { return None };
        if x.is_nan() && y.is_nan() {
            continue;
        }
        if is_printed && (x - y).abs() <= 1.01 * last_digit(a).max(last_digit(b)) {
            continue;
        }
        most = most.max(units(x as f32, y as f32));
        part = part.max((x - y).abs() / x.abs().max(y.abs()).max(1.0));
    }
    Some((most, if part.is_nan() { f64::INFINITY } else { part }))
}

/// Returns true if an outcome agrees with the interpreter's: within [`UNITS`] for a program of arithmetic,
/// within [`TOLERANCE`] for one with transcendental functions.
fn is_same(file: &TestFile, found: &Outcome, wanted: &Outcome) -> bool {
    let printed = distance(&found.printed, &wanted.printed, true);
    let buffers = distance(&found.buffers, &wanted.buffers, false);
    let (Some(a), Some(b)) = (printed, buffers) else { return false };
    let (most, part) = (a.0.max(b.0), a.1.max(b.1));
    if most > UNITS {
        eprintln!("{most} units, {part:.1e}: {}", file.path.display());
    }
    most <= UNITS || has_transcendental(file) && part <= TOLERANCE
}

/// Returns true if a run on the device stopped at the same line for the same reason. The thread may be
/// another one.
fn is_reported_alike(found: &str, wanted: &str) -> bool {
    let place =
        |text: &str| text.lines().find_map(|line| line.trim().strip_prefix("--> ").map(str::to_string));
    let reason =
        |text: &str| text.lines().next().and_then(|line| line.split(" (thread").next().map(str::to_string));
    // A device reports the operation whose result is not finite, without its operands.
    let infinite = |text: &str| reason(text).is_some_and(|why| why.contains("not finite"));
    place(found) == place(wanted) && (reason(found) == reason(wanted) || infinite(found) && infinite(wanted))
}

/// A line about a refused program, with the reason.
fn refusal(name: &str, why: &str) -> String {
    let short = name.rsplit_once("/run/").map_or(name, |n| n.1);
    format!("refused: {short}: {}", why.lines().next().unwrap_or_default())
}

#[test]
fn programs_give_the_same_on_the_device() {
    for backend in backends() {
        let faults = differences(&format!("{backend:?}"), in_software(backend), |file| {
            outcome_with(file, 2, backend, &CodeOptions::default())
        });
        assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    }
}

/// The IR has more than programs contain, such as reads of inner stacks out of range.
#[test]
fn entry_points_of_the_ir_give_the_same_on_the_device() {
    let folder = root().join("ir/dispatch");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").flatten().map(|e| e.path()).collect();
    paths.sort();
    for backend in backends() {
        let (mut same, mut faults) = (0, Vec::new());
        for path in &paths {
            let file = TestFile::read(path).expect("a test");
            // Devices do not trap, name any of the threads that fail, and print nothing if no buffer is bound.
            if file.has_option("trap") || file.has_option("ordered") || path.ends_with("pointers-unbound.ir")
            {
                continue;
            }
            match dispatch::run_on(&file, &[(Backend::INTERP, 1), (backend, 1)]) {
                Ok(()) => same += 1,
                Err(why) if why.contains("E093") => {
                    eprintln!("{}", refusal(&path.display().to_string(), &why))
                }
                Err(why) => faults.push(format!("{}: {why}", path.display())),
            }
        }
        eprintln!("{backend:?}: {same} the same");
        assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    }
}

/// Runs the programs on a simulated NVIDIA device, which interprets the text that the driver would compile.
#[cfg(feature = "cuda")]
#[test]
fn programs_give_the_same_as_ptx() {
    let faults = differences("PTX", false, as_ptx);
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// A program's outcome on the simulated device.
#[cfg(feature = "cuda")]
fn as_ptx(file: &TestFile) -> Result<Outcome, String> {
    use driver::launch::Runner;
    use pullback_tests::commands::slang::outcome_by;
    let device = || std::sync::Arc::new(pullback_tests::ptx::Device::default());
    outcome_by(file, 2, &|module| Runner::on_cuda(module, device(), &CodeOptions::default()))
}

/// The largest accepted error of sums that matrix units make, relative to the larger number or to 1: four units in the
/// last place of a half. They add products in another order than a processor, and cut off digits in between.
#[cfg(feature = "cuda")]
const UNITS_TOLERANCE: f64 = 4e-3;

/// A device without the matrix units that a product needs is refused by name; without the product it is used.
#[cfg(feature = "cuda")]
#[test]
fn matrix_units_need_a_device_that_has_them() {
    use driver::launch::Runner;
    use driver::pipeline::{Kind, Options};
    use pullback_tests::commands::slang::{options, outcome_of};
    let path = std::env::temp_dir().join(format!("pullback-old-device-{}.slang", std::process::id()));
    std::fs::write(&path, ROUNDED_PRODUCTS).expect("the program is written");
    let file = TestFile::read(&path).expect("it is a test");
    let run = |generation: u32, matrix_units: bool| {
        let options = Options { matrix_units, ..options(&file, 2) }.for_device(Kind::Nvidia);
        let device = || std::sync::Arc::new(pullback_tests::ptx::Device::of_generation(generation));
        outcome_of(&file, &options, &|module| Runner::on_cuda(module, device(), &CodeOptions::default()))
    };
    let why = run(75, true).expect_err("it has none");
    assert!(
        why.contains("needs a device of generation sm_80 or later, and `PTX in tests` is of sm_75"),
        "{why}"
    );
    run(75, false).expect("products by elements run everywhere");
    run(80, true).expect("it has them");
    std::fs::remove_file(&path).expect("the program is removed");
}

/// Products of cooperative matrices are nearly the same with matrix units and without, on NVIDIA's first device from
/// sm_80 on and on the simulated one; the same to the last bit where sums are exact, as in the programs of tests/run.
#[cfg(feature = "cuda")]
#[test]
fn matrix_units_give_nearly_the_same() {
    use driver::launch::Runner;
    use driver::pipeline::{Kind, Options};
    use pullback_tests::commands::slang::{options, outcome_of};
    let run = |file: &TestFile, on_device: Option<Backend>, matrix_units: bool| {
        let options = Options { matrix_units, ..options(file, 2) }.for_device(Kind::Nvidia);
        let device = || std::sync::Arc::new(pullback_tests::ptx::Device::default());
        outcome_of(file, &options, &|module| match on_device {
            Some(backend) => Runner::with_options(module, backend, &CodeOptions::default()),
            None => Runner::on_cuda(module, device(), &CodeOptions::default()),
        })
    };
    let has_units = |backend: &Backend| {
        let devices = backend.devices().unwrap_or_default();
        let kind = devices.first().and_then(|d| d.kind.strip_prefix("sm_")?.parse::<u32>().ok());
        kind.is_some_and(|generation| generation >= 80)
    };
    let real = backends().into_iter().filter(|backend| backend.name() == "cuda" && has_units(backend));
    let devices: Vec<Option<Backend>> = real.map(Some).chain([None]).collect();
    if devices.len() == 1 {
        eprintln!("NOT RUN: matrix units of a device, which exist from sm_80 on");
    }
    let path = std::env::temp_dir().join(format!("pullback-units-{}.slang", std::process::id()));
    std::fs::write(&path, ROUNDED_PRODUCTS).expect("the program is written");
    let rounded = TestFile::read(&path).expect("it is a test");
    for &device in &devices {
        let [with, without] =
            [true, false].map(|units| run(&rounded, device, units).expect("it runs").text());
        let (units, part) = distance(&with, &without, false).expect("there are as many numbers");
        eprintln!("{device:?}: {units} units in the last place, {part:.1e}");
        assert!(part <= UNITS_TOLERANCE, "{part}:\n{with}\ninstead of\n{without}");
    }
    std::fs::remove_file(&path).expect("the program is removed");

    let mut compared = 0;
    for (name, file) in programs().filter(|(name, _)| name.contains("/cooperative-")) {
        let wanted = outcome(&file, Backend::INTERP).expect("it runs");
        for &device in &devices {
            let found = run(&file, device, true).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!(found.text(), wanted, "{name} on {device:?}");
        }
        compared += 1;
    }
    assert!(compared > 0 || std::env::var_os("PULLBACK_ONLY").is_some(), "there are programs");
}

/// Products whose sums are rounded, and their derivatives.
#[cfg(feature = "cuda")]
const ROUNDED_PRODUCTS: &str = "// test run
// bind: x=zeros:1024
// bind: y=zeros:1024
// bind: z=zeros:1024
// bind: h=zeros:1536
using namespace linalg;
RWStructuredBuffer<float> x; RWStructuredBuffer<float> y; RWStructuredBuffer<float> z; RWStructuredBuffer<half> h;
static const CoopMatMatrixLayout Rows = CoopMatMatrixLayout.RowMajor;
typealias L<T : ICoopElement> = CoopMat<T, MemoryScope.Subgroup, 16, 32, CoopMatMatrixUse.MatrixA>;
typealias R<T : ICoopElement> = CoopMat<T, MemoryScope.Subgroup, 32, 16, CoopMatMatrixUse.MatrixB>;
typealias S<T : ICoopElement> = CoopMat<T, MemoryScope.Subgroup, 16, 16, CoopMatMatrixUse.MatrixAccumulator>;
[Differentiable] S<half> f(L<half> a, R<half> b, S<half> c) { return coopMatMulAdd<half, false>(a, b, c); }
[numthreads(32, 1, 1)] void main(uint t : SV_GroupIndex)
{
    for (uint i = t; i < 1024; i += 32)
        x[i] = float(i * 37 % 101) / 101.0 - 0.5;
    GroupMemoryBarrierWithGroupSync();
    let a = L<half>(L<float>.Load<Rows>(x, 0, 32));
    let b = R<half>(R<float>.Load<Rows>(x, 100, 16));
    let c = S<float>.Load<Rows>(x, 200, 16);
    coopMatMulAdd<float, false>(a, b, c).Store<Rows>(y, 0, 16);
    coopMatMulAdd<float, false>(L<BFloat16>(a), R<BFloat16>(b), c).Store<Rows>(z, 0, 16);
    var pa = diffPair(a); var pb = diffPair(b); var pc = diffPair(S<half>(c));
    bwd_diff(f)(pa, pb, pc, S<half>(c));
    pa.d.Store<Rows>(h, 0, 32);
    pb.d.Store<Rows>(h, 512, 16);
    f(a, b, S<half>(c)).Store<Rows>(h, 1024, 16);
    let forward = fwd_diff(f)(diffPair(a, pa.d), diffPair(b, pb.d), diffPair(S<half>(c), S<half>(c)));
    forward.d.Store<Rows>(h, 1280, 16);
}
";

/// Returns true if a device is a software implementation on the CPU, whose compiler takes minutes for some
/// programs.
fn in_software(backend: Backend) -> bool {
    backend.devices().is_ok_and(|devices| devices.first().is_some_and(|device| device.kind == "CPU"))
}

/// How a program ran on a device, beside the interpreter.
enum Verdict {
    Same,
    /// It stopped at the same line for the same reason.
    Stopped,
    /// A device does not define what it does, or it needs one in hardware.
    Left,
    Refused(String),
    Different(String),
}

/// The differences in the programs of tests/run on a device.
fn differences(
    device: &str,
    in_software: bool,
    on_device: impl Fn(&TestFile) -> Result<Outcome, String> + Sync,
) -> Vec<String> {
    let (mut same, mut stopped, mut refused, mut faults) = (0, 0, 0, Vec::new());
    let all: Vec<(String, TestFile)> = programs().collect();
    for verdict in on_all_cores(&all, |(name, file)| verdict(name, file, in_software, &on_device)) {
        match verdict {
            Verdict::Same => same += 1,
            Verdict::Stopped => stopped += 1,
            Verdict::Left => {}
            Verdict::Refused(why) => {
                refused += 1;
                eprintln!("{why}");
            }
            Verdict::Different(why) => faults.push(why),
        }
    }
    let n = faults.len();
    eprintln!("{device}: {same} the same, {stopped} stopped alike, {refused} refused, {n} different");
    floor::hold(if device == "PTX" { "simulated ptx" } else { "device" }, same);
    faults
}

/// Runs a program on a device and in the interpreter.
fn verdict(
    name: &str,
    file: &TestFile,
    in_software: bool,
    on_device: &dyn Fn(&TestFile) -> Result<Outcome, String>,
) -> Verdict {
    // On a device the order of threads that share memory is not defined, nor how often `fma` rounds.
    if ["ordered", "contract", "exact"].iter().any(|option| file.has_option(option)) {
        return Verdict::Left;
    }
    if in_software && file.has_option("hardware") {
        eprintln!("left to devices in hardware: {name}");
        return Verdict::Left;
    }
    let wanted = outcome_with(file, 2, Backend::INTERP, &CodeOptions::default());
    if wanted.as_ref().is_err_and(|why| !why.contains("E0801")) {
        return Verdict::Left;
    }
    let start = std::time::Instant::now();
    let found = on_device(file);
    let seconds = start.elapsed().as_secs_f64();
    if seconds > 3.0 {
        eprintln!("{seconds:.1} s: {name}");
    }
    match (found, wanted) {
        (Ok(found), Ok(wanted)) if is_same(file, &found, &wanted) => Verdict::Same,
        (Ok(found), Ok(wanted)) => {
            Verdict::Different(format!("{name}:\n{}\ninstead of\n{}", found.text(), wanted.text()))
        }
        (Err(found), Err(why)) if is_reported_alike(&found, &why) => Verdict::Stopped,
        (Err(why), _) if why.contains("E093") => Verdict::Refused(refusal(name, &why)),
        (Err(why), Ok(_)) if why.contains("does not have") || why.contains("is empty") => {
            Verdict::Refused(refusal(name, &why))
        }
        (Err(why), Ok(_)) => Verdict::Different(format!("{name}: {why}")),
        (found, Err(why)) => Verdict::Different(format!("{name}: {found:?}\ninstead of\n{why}")),
    }
}

/// The example that trains a hash grid in one dispatch: compares the losses along the way, which may depend
/// on the order of sums.
#[test]
fn the_hash_grid_learns_as_on_the_cpu() {
    let backends = backends();
    let example = root().join("../examples/hash-grid.slang");
    let binds = ["features=zeros:320", "gradients=zeros:320", "losses=zeros:5"];
    let head: String = binds.iter().map(|bind| format!("// bind: {bind}\n")).collect();
    // lavapipe ends loops after 65,535 iterations, so only a fifth of the steps are run.
    let text = std::fs::read_to_string(example).expect("the example is there");
    assert!(text.contains("STEPS = 100;"));
    let text = text.replace("STEPS = 100;", "STEPS = 20;");
    let path = std::env::temp_dir().join(format!("pullback-hash-grid-{}.slang", std::process::id()));
    std::fs::write(&path, format!("// test run\n{head}{text}")).expect("the program is written");
    let file = TestFile::read(&path).expect("it is a test");
    let losses = |found: Result<String, String>| -> Vec<f64> {
        let text = found.expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix("losses: ")).expect("there are losses");
        line.split_whitespace().map(|x| x.parse().expect("a number")).collect()
    };
    let cpu = losses(outcome(&file, Backend::CRANELIFT));
    assert!(cpu.len() == 5 && cpu[4] < 0.1 * cpu[0], "{cpu:?}");
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-4 * a.abs();
    let found = backends.into_iter().map(|b| losses(outcome(&file, b)));
    #[cfg(feature = "cuda")]
    let found = found.chain([losses(as_ptx(&file).map(|outcome| outcome.text()))]);
    for device in found {
        assert!(cpu.len() == device.len() && cpu.iter().zip(&device).all(close), "{device:?}, not {cpu:?}");
    }
    std::fs::remove_file(&path).expect("the program is removed");
}

const LOSS: Task = Task::Loss(Rule { method: Method::Adam, momentum: 0.9, decay: 0.0 });

/// A fit of one of the examples or of a program in this file.
fn fit(path: &Path, defines: &[(&str, &str)], items: Items, backend: Backend, task: Task) -> Fit {
    let defines = defines.iter().map(|&(name, value)| (name.to_string(), value.to_string())).collect();
    let mut session = Session::new(FileOptions { defines, ..FileOptions::default() });
    let setup = Setup {
        path: path.to_path_buf(),
        loss: if task == Task::Residuals { "residuals" } else { "loss" }.into(),
        task,
        render: None,
        metrics: Vec::new(),
        inits: Vec::new(),
        memory: Default::default(),
        execution: Execution { backend, threads: 2, ..Execution::default() },
        seed: 1,
    };
    let Ok(fit) = Fit::new(&mut session, &setup, items) else { panic!("{} fits", path.display()) };
    fit
}

/// Compares losses and gradients of a fit on both backends, at the start and along a descent.
fn compare_fits(path: &Path, defines: &[(&str, &str)], items: impl Fn() -> Items, on: Backend) {
    let mut cpu = fit(path, defines, items(), Backend::CRANELIFT, LOSS);
    let mut device = fit(path, defines, items(), on, LOSS);
    assert_eq!(cpu.start.len(), device.start.len());
    let mut x = cpu.start.clone();
    let order: Vec<u32> = (0..cpu.items.n as u32).collect();
    for step in 0..5 {
        // The batches have different sizes.
        let order = &order[..order.len() - step];
        let (mut a, mut b) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        let loss = cpu.evaluate(&x, order, &mut a).expect("it runs");
        let found = device.evaluate(&x, order, &mut b).expect("it runs");
        assert!((loss - found).abs() <= 1e-4 * loss.abs(), "step {step}: {found} instead of {loss}");
        let most = a.iter().fold(0.0f64, |most, g| most.max(g.abs()));
        for (k, (a, b)) in a.iter().zip(&b).enumerate() {
            let error = (a - b).abs();
            assert!(error <= 1e-4 * a.abs().max(1e-2 * most), "step {step}, number {k}: {b} instead of {a}");
        }
        x.iter_mut().zip(&a).for_each(|(x, g)| *x -= 1e-3 / most * g);
    }
    let (a, b) = (cpu.loss(&x, &order).expect("it runs"), device.loss(&x, &order).expect("it runs"));
    assert!((a - b).abs() <= 1e-4 * a.abs(), "{b} instead of {a}");
    let (a, b) = (cpu.render(&x).expect("it runs"), device.render(&x).expect("it runs"));
    let (Some((a, _)), Some((b, _))) = (a, b) else { return };
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-4 * a.abs().max(1.0)));
}

#[test]
fn fits_agree_with_those_of_the_cpu() {
    for backend in backends() {
        fits_agree(backend);
    }
}

fn fits_agree(on: Backend) {
    let root = root();
    let colors = |n: usize| (0..n * 3).map(|k| 0.5 + 0.5 * (0.1 * k as f64).sin()).collect();
    let picture = |width, height| Items::pixels(width, height, colors(width * height));
    // The example is run as it is, and with few Gaussians and so many pixels that several dispatches are
    // needed.
    compare_fits(&root.join("../examples/gaussians.slang"), &[], || picture(24, 16), on);
    compare_fits(&root.join("../examples/gaussians.slang"), &[("COUNT", "20")], || picture(150, 120), on);
    // Parameters of several kinds, a loop whose number of iterations depends on data, and a loss of type
    // `double`.
    let folder = std::env::temp_dir().join(format!("pullback-fit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let path = folder.join("curve.slang");
    std::fs::write(&path, CURVE).expect("the program is written");
    compare_fits(&path, &[], || Items::parse("100", &folder).expect("a number of items"), on);
    std::fs::write(&path, NAMES).expect("the program is written");
    compare_fits(&path, &[], || Items::parse("50", &folder).expect("a number of items"), on);
    std::fs::write(&path, RESIDUALS).expect("the program is written");
    compare_residuals(&path, || Items::parse("300", &folder).expect("a number of items"), on);
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
}

/// Compares residuals, and products with their Jacobian and its transpose.
fn compare_residuals(path: &Path, items: impl Fn() -> Items, on: Backend) {
    let found = [Backend::CRANELIFT, on].map(|backend| {
        let mut fit = fit(path, &[], items(), backend, Task::Residuals);
        let n = fit.start.len();
        let x: Vec<f64> = (0..n).map(|k| 0.3 + 0.1 * k as f64).collect();
        let v: Vec<f64> = (0..n).map(|k| (1.7 * k as f64).cos()).collect();
        let (mut residuals, mut along, mut back) = (Vec::new(), Vec::new(), vec![0.0; n]);
        fit.residuals(&x, &mut residuals).expect("it runs");
        fit.jvp(&x, &v, &mut along).expect("it runs");
        fit.vjp(&x, &residuals, &mut back).expect("it runs");
        (residuals, along, back)
    });
    let close = |a: &[f64], b: &[f64]| {
        let most = a.iter().fold(0.0f64, |most, a| most.max(a.abs()));
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-4 * most)
    };
    let [cpu, device] = &found;
    assert!(cpu.0.len() == 600 && close(&cpu.0, &device.0));
    assert!(close(&cpu.1, &device.1) && close(&cpu.2, &device.2), "{:?} instead of {:?}", device.2, cpu.2);
}

const RESIDUALS: &str = "
[Differentiable] float2 residuals(float2 scale, float w[3], no_diff uint index)
{
    float x = index * 0.01;
    float wave = w[0] * sin(w[1] * x) + w[index % 3];
    return float2(scale.x * wave - x, scale.y * wave * wave);
}
";

/// The parameters have names that the generated kernels might use.
const NAMES: &str = "
[Differentiable] float loss(float total, float item, float worker[3], float k, no_diff uint index)
{
    float x = index * 0.1;
    float d = total * x + item - worker[index % 3] - k * x * x;
    return d * d;
}
";

const CURVE: &str = "
struct Bend : IDifferentiable { float2x2 turn; no_diff int steps; float3 shift; }
Bend initial(uint index, uint count) { return { float2x2(1.0, 0.1, -0.1, 0.9), int(index) + 2, float3(0.25) }; }
[Differentiable] double loss(Bend bends[3], float scale, no_diff uint index)
{
    double sum = 0.0;
    for (int b = 0; b < 3; b++)
    {
        float2 at = float2(index * 0.01, scale);
        [MaxIters(8)] for (int k = 0; k < bends[b].steps; k++)
            at = mul(bends[b].turn, at) + bends[b].shift.xy * sin(at.yx);
        sum += double(dot(at, at) + bends[b].shift.z);
    }
    return sum;
}
";

/// A loop of very many iterations gives the same result as on the CPU, or the device's limit is reported.
#[test]
fn loops_end_where_they_should_or_are_reported() {
    let counting = "for (int i = 0; i < 80000; i++) n = (n * 5 + 7) & 0x3ffff;";
    let waiting = "uint x = 1; while (x != 5) { x = (x * 5 + 7) & 0x3ffff; n++; if (n > 100000) break; }";
    let within = "for (int k = 0; k < 2; k++) n += count(40000 + k);";
    let called = "n = count(40000) + count(50000);";
    let few = "n = count(20000) + count(30000);";
    for (k, body) in [counting, waiting, within, called, few].into_iter().enumerate() {
        let path = std::env::temp_dir().join(format!("pullback-loop-{}-{k}.slang", std::process::id()));
        let text = format!(
            "// test run\n// bind: out = zeros:1\nRWStructuredBuffer<uint> out;\n\
             [noinline] uint count(uint most) {{ uint x = 1, n = 0; \
             while (x != 5) {{ x = (x * 5 + 7) & 0x3ffff; n++; if (n > most) break; }} return n; }}\n\
             [numthreads(1, 1, 1)] void main() {{ uint n = 0; {body} out[0] = n; }}\n"
        );
        std::fs::write(&path, text).expect("the program is written");
        let file = TestFile::read(&path).expect("it is a test");
        let wanted = outcome(&file, Backend::CRANELIFT);
        for backend in backends() {
            let found = outcome(&file, backend);
            let is_reported = found.as_ref().is_err_and(|why| why.contains("the device ended"));
            assert!(is_reported || found == wanted, "{found:?} instead of {wanted:?}");
            assert!(found == wanted || body != few, "{found:?} instead of {wanted:?}");
        }
        std::fs::remove_file(&path).expect("the program is removed");
    }
}
