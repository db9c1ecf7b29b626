//! Fits: the gradients of the kernels agree with differences of the loss and between the two ways of adding
//! them up, the steps of Adam that kernels make are those that the host makes, and a fit gives the same bits
//! with any number of workers where that is asked for.

use std::path::{Path, PathBuf};

use driver::bind::{BindValue, parse_value};
use driver::fit::batches::Batches;
use driver::fit::descent::{Descent, Trouble};
use driver::fit::items::Items;
use driver::fit::optimise::Adam;
use driver::fit::{Fit, Init, Setup};
use driver::launch::{Backend, CodeOptions, Execution};
use driver::session::{FileOptions, Session};
use pullback_tests::file::root;

/// A folder for the program of one test.
struct Program(PathBuf, PathBuf);

impl Program {
    fn new(name: &str, text: &str) -> Program {
        let folder = std::env::temp_dir().join(format!("pullback-fit-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        let path = folder.join("program.slang");
        std::fs::write(&path, text).expect("the program is written");
        Program(folder, path)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How a test runs a fit.
#[derive(Clone, Copy)]
struct How {
    backend: Backend,
    threads: usize,
    deterministic: bool,
}

impl How {
    fn on(backend: Backend) -> How {
        How { backend, threads: 2, deterministic: false }
    }

    fn ordered(backend: Backend, threads: usize) -> How {
        How { backend, threads, deterministic: true }
    }
}

fn fit(path: &Path, defines: &[(&str, &str)], inits: &[(&str, &str)], items: Items, how: How) -> Fit {
    let defines = defines.iter().map(|&(name, value)| (name.to_string(), value.to_string())).collect();
    let mut session = Session::new(FileOptions { defines, ..FileOptions::default() });
    let value = |text: &str| -> BindValue { parse_value(text).expect("a value") };
    let setup = Setup {
        path: path.to_path_buf(),
        loss: "loss".into(),
        render: None,
        inits: inits.iter().map(|&(name, text)| (name.to_string(), Init::Value(value(text)))).collect(),
        memory: Default::default(),
        execution: Execution {
            backend: how.backend,
            threads: how.threads,
            code: CodeOptions { deterministic: how.deterministic, ..CodeOptions::default() },
            ..Execution::default()
        },
        seed: 1,
    };
    match Fit::new(&mut session, &setup, items) {
        Ok(fit) => fit,
        Err(_) => panic!("{} fits", path.display()),
    }
}

/// Macros, by name and value.
type Defines<'a> = &'a [(&'a str, &'a str)];

/// The backends that run on this machine's processor.
fn backends() -> impl Iterator<Item = Backend> {
    Backend::ALL.iter().copied().filter(|backend| !backend.is_device() && backend.devices().is_ok())
}

fn picture(width: usize, height: usize) -> Items {
    let colors = (0..width * height * 3).map(|k| 0.5 + 0.5 * (0.1 * k as f64).sin()).collect();
    Items::pixels(width, height, colors)
}

/// Parameters of all kinds: structs in arrays and in structs, vectors, matrices in both orders, numbers of all
/// widths, integers and constants among them. With HIDDEN, a part of them cannot be reached by name.
const KINDS: &str = "
struct Part : IDifferentiable
{
    row_major float2x3 rows;
    column_major float2x3 columns;
    half small;
}
struct Model : IDifferentiable
{
    float w[6];
    int kind;
    Part parts[2];
    no_diff float fixed;
#ifdef HIDDEN
    private float3 v;
#else
    float3 v;
#endif
    [Differentiable] float3 hidden() { return v; }
}
[Differentiable]
float loss(Model model, float2 curve[5], double scale, no_diff float x, no_diff float y)
{
    float sum = 0.0;
    for (int i = 0; i < 6; i++) sum += model.w[i] * sin(i * x);
    for (int k = 0; k < 2; k++)
    {
        float3 a = mul(float2(x, 1.0), model.parts[k].rows);
        float2 b = mul(model.parts[k].columns, float3(1.0, x, x * x));
        sum += a.x * model.hidden().y + a.y * a.z + b.x * b.y + float(model.parts[k].small) * x;
    }
    int at = int(x * 4.0) % 5;
    sum += dot(curve[at], float2(1.0, x)) + curve[(at + 1) % 5].x * model.v.z;
    float off = sum * float(scale) - y;
    return off * off;
}
";

fn points() -> Items {
    let rows = (0..150).map(|k| format!("{},{}\n", k as f64 * 0.01, (k as f64 * 0.07).sin()));
    Items::csv(&format!("x,y\n{}", rows.collect::<String>())).expect("a table")
}

#[test]
fn gradients_of_all_kinds_of_parameters() {
    let open = Program::new("kinds", KINDS);
    let order: Vec<u32> = (0..150).collect();
    let mut found: Vec<(Vec<f64>, f64)> = Vec::new();
    for backend in backends() {
        for defines in [&[][..], &[("HIDDEN", "1")]] {
            let mut fit = fit(&open.1, defines, &[("scale", "0.7")], points(), How::on(backend));
            assert_eq!(fit.kernel.has_workers(), !defines.is_empty());
            assert_eq!(fit.start.len(), 6 + 2 * (6 + 6 + 1) + 3 + 10 + 1);
            let mut gradient = vec![0.0; fit.start.len()];
            let x: Vec<f64> = (0..fit.start.len()).map(|k| 0.2 + 0.3 * (k as f64 * 1.3).cos()).collect();
            let loss = fit.evaluate(&x, &order, &mut gradient).expect("it runs");
            // Twice, since the buffers must be clear again.
            let before = gradient.clone();
            fit.evaluate(&x, &order, &mut gradient).expect("it runs");
            let most = gradient.iter().fold(0.0f64, |most, g| most.max(g.abs()));
            let close = |a: f64, b: f64, tolerance: f64| (a - b).abs() <= tolerance * most;
            assert!(gradient.iter().zip(&before).all(|(&a, &b)| close(a, b, 1e-6)));
            for (k, &g) in gradient.iter().enumerate() {
                let step = 0.02;
                let mut at = |step: f64| {
                    let mut x = x.clone();
                    x[k] += step;
                    fit.evaluate(&x, &order, &mut before.clone()).expect("it runs")
                };
                let difference = (at(step) - at(-step)) / (2.0 * step);
                let name = &fit.names[k];
                assert!(close(g, difference, 1e-2), "`{name}`, number {k}: {g} instead of {difference}");
            }
            found.push((gradient, loss));
        }
    }
    let (first, rest) = found.split_first().expect("there is a backend");
    for (gradient, loss) in rest {
        let most = first.0.iter().fold(0.0f64, |most, g| most.max(g.abs()));
        assert!((loss - first.1).abs() <= 1e-5 * first.1.abs());
        // A half has ten bits, and workers add up its gradients as halves.
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 2e-3 * most;
        assert!(gradient.iter().zip(&first.0).all(close), "{gradient:?} instead of {:?}", first.0);
    }
}

fn gaussians() -> PathBuf {
    root().join("../examples/gaussians.slang")
}

/// The point after some steps by kernels.
fn descend(fit: &mut Fit, steps: usize) -> (Vec<f64>, Adam) {
    let mut x = fit.start.clone();
    let (mut adam, rates) = (Adam::new(x.len()), rates(fit));
    let mut batches = Batches::new(&fit.items, 600, 3);
    let mut descent = Descent::new(fit, &x, &adam, &rates, 1e9);
    for step in 0..steps {
        let scale = 1.0 / (1 + step) as f64;
        let done = descent.step(fit, (&mut x, &mut adam), batches.next_batch(), scale).expect("it runs");
        assert_eq!(done, None);
    }
    descent.point(fit, &mut x).expect("it runs");
    descent.state(fit, &mut adam).expect("it runs");
    (x, adam)
}

/// A rate for each field.
fn rates(fit: &Fit) -> Vec<f64> {
    fit.names.iter().map(|name| 0.001 * name.len() as f64).collect()
}

#[test]
fn kernels_make_the_steps_of_adam() {
    for backend in backends() {
        let small = [("COUNT", "20")];
        let mut by_kernels = fit(&gaussians(), &small, &[], picture(48, 40), How::ordered(backend, 1));
        let (found, state) = descend(&mut by_kernels, 8);
        let mut fit = fit(&gaussians(), &small, &[], picture(48, 40), How::ordered(backend, 1));
        let mut x = fit.start.clone();
        let (mut adam, rates) = (Adam::new(x.len()), rates(&fit));
        let mut batches = Batches::new(&fit.items, 600, 3);
        let mut gradient = vec![0.0; x.len()];
        for step in 0..8 {
            fit.evaluate(&x, batches.next_batch(), &mut gradient).expect("it runs");
            adam.update(&mut x, &gradient, &rates, 1.0 / (1 + step) as f64);
        }
        assert_ne!(x, fit.start);
        assert_eq!(found, x, "{}", backend.name());
        assert_eq!(state, adam);
    }
}

#[test]
fn any_number_of_workers_gives_the_same_bits_if_asked() {
    let kinds = Program::new("workers", KINDS);
    let programs: [(&Path, Items, Defines); 3] = [
        (&gaussians(), picture(48, 40), &[("COUNT", "20")]),
        (&kinds.1, points(), &[]),
        (&kinds.1, points(), &[("HIDDEN", "1")]),
    ];
    for backend in backends() {
        for (path, items, defines) in &programs {
            let points = [1, 2, 3, 2].map(|threads| {
                let mut fit = fit(path, defines, &[], items.clone(), How::ordered(backend, threads));
                let (x, _) = descend(&mut fit, 6);
                let order = fit.items.near();
                let mut gradient = vec![0.0; x.len()];
                let loss = fit.evaluate(&x, &order, &mut gradient).expect("it runs");
                (x, loss, gradient)
            });
            let same = points.iter().all(|point| point == &points[0]);
            assert!(same, "{} on {}", path.display(), backend.name());
        }
    }
}

#[test]
fn a_descent_without_an_end_is_noticed() {
    let text = "
        [Differentiable] float loss(float a, float b, no_diff float index) { return a / (0.0 * index) + b * index; }";
    let program = Program::new("trouble", text);
    for backend in backends() {
        let items = || Items::indices(5);
        let begin = [("a", "-1.0"), ("b", "0.5")];
        let step = |fit: &mut Fit, rate: f64| {
            let mut x = fit.start.clone();
            let mut adam = Adam::new(2);
            let mut descent = Descent::new(fit, &x, &adam, &[rate; 2], 100.0);
            let order: Vec<u32> = (0..5).collect();
            let found = descent.step(fit, (&mut x, &mut adam), &order, 1.0).expect("it runs");
            descent.point(fit, &mut x).expect("it runs");
            (found, x)
        };
        // One derivative is infinite, and its number stays; the other one moves.
        let mut fit = fit(&program.1, &[], &begin, items(), How::on(backend));
        let (found, x) = step(&mut fit, 0.25);
        assert!(found.is_none() && x[0] == -1.0 && (x[1] - 0.25).abs() < 1e-6, "{x:?}");
        let (found, _) = step(&mut fit, 1000.0);
        assert!(matches!(found, Some(Trouble::Number(1, x)) if (x + 999.5).abs() < 1e-3), "{found:?}");
    }
    let text = "[Differentiable] float loss(float a, no_diff float index) { return a / (0.0 * index); }";
    let program = Program::new("infinite", text);
    for backend in backends() {
        let mut fit = fit(&program.1, &[], &[("a", "-1.0")], Items::indices(3), How::on(backend));
        let (mut x, mut adam) = (fit.start.clone(), Adam::new(1));
        let mut descent = Descent::new(&mut fit, &x, &adam, &[0.1], 100.0);
        let found = descent.step(&mut fit, (&mut x, &mut adam), &[0, 1, 2], 1.0).expect("it runs");
        assert!(matches!(found, Some(Trouble::Derivative(value)) if value.is_infinite()), "{found:?}");
        assert!(x == [-1.0] && adam == Adam::new(1), "{x:?} {adam:?}");
    }
}
