//! Fits: the gradients of the kernels agree with differences of the loss and between the two ways of adding
//! them up, the steps of Adam that kernels make are those that the host makes, and a fit gives the same bits
//! with any number of workers where that is asked for.

use std::path::{Path, PathBuf};

use driver::bind::{BindValue, parse_value};
use driver::fit::batches::Batches;
use driver::fit::descent::{Descent, Settings, Trouble};
use driver::fit::items::Items;
use driver::fit::kernel::Task;
use driver::fit::optimise::Tolerances;
use driver::fit::optimise::bounds::Bounds;
use driver::fit::optimise::least_squares::{Residuals, Robust};
use driver::fit::optimise::rule::{Factors, Means, Method, Rates, Rule};
use driver::fit::optimise::schedule::{Schedule, Shape};
use driver::fit::run::{self, Ending, Observer, Plan, Stopped, Validation, Wish};
use driver::fit::state::State;
use driver::fit::table::Table;
use driver::fit::trouble::{self, Found};
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

const ADAM: Rule = Rule { method: Method::Adam, momentum: 0.9, decay: 0.0 };

fn fit(path: &Path, defines: &[(&str, &str)], inits: &[(&str, &str)], items: Items, how: How) -> Fit {
    fit_by(path, defines, inits, items, how, Task::Loss(ADAM))
}

fn fit_by(
    path: &Path,
    defines: &[(&str, &str)],
    inits: &[(&str, &str)],
    items: Items,
    how: How,
    task: Task,
) -> Fit {
    let defines = defines.iter().map(|&(name, value)| (name.to_string(), value.to_string())).collect();
    let mut session = Session::new(FileOptions { defines, ..FileOptions::default() });
    match Fit::new(&mut session, &setup(path, inits, how, task), items) {
        Ok(fit) => fit,
        Err(_) => panic!("{} fits", path.display()),
    }
}

fn setup(path: &Path, inits: &[(&str, &str)], how: How, task: Task) -> Setup {
    let value = |text: &str| -> BindValue { parse_value(text).expect("a value") };
    let loss = if task == Task::Residuals { "residuals" } else { "loss" };
    Setup {
        path: path.to_path_buf(),
        loss: loss.into(),
        task,
        render: None,
        metrics: Vec::new(),
        inits: inits.iter().map(|&(name, text)| (name.to_string(), Init::Value(value(text)))).collect(),
        memory: Default::default(),
        execution: Execution {
            backend: how.backend,
            threads: how.threads,
            code: CodeOptions { deterministic: how.deterministic, ..CodeOptions::default() },
            ..Execution::default()
        },
        seed: 1,
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

/// The rows of a table.
fn table(text: &str) -> Items {
    Table::parse(text.as_bytes(), b',').and_then(|table| Items::table(&table)).expect("a table")
}

fn points() -> Items {
    let rows = (0..150).map(|k| format!("{},{}\n", k as f64 * 0.01, (k as f64 * 0.07).sin()));
    table(&format!("x,y\n{}", rows.collect::<String>()))
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

/// The settings of a descent with a rate for each field.
fn settings(fit: &Fit, rule: Rule) -> Settings {
    let rates = fit.names.iter().map(|name| 0.001 * name.len() as f64).collect();
    let mut bounds = Bounds::none(fit.start.len());
    // Some numbers meet bounds, and some are fixed.
    for (k, name) in fit.names.iter().enumerate() {
        match &name[..] {
            "gaussians.color" => bounds.high[k] = 0.4,
            "scale" => (bounds.low[k], bounds.high[k]) = (fit.start[k], fit.start[k]),
            _ => {}
        }
    }
    Settings { rule, rates: Rates { rates, bounds }, clip: Some(0.5), loss_scale: 1.0, far: 1e9 }
}

/// The point after some steps by kernels.
fn descend(fit: &mut Fit, steps: u64, rule: Rule) -> (Vec<f64>, Means) {
    let settings = settings(fit, rule);
    let mut x = fit.start.clone();
    settings.rates.bounds.project(&mut x);
    let mut means = Means::new(x.len());
    let mut batches = Batches::new(&fit.items, &fit.order(), 300, 3);
    let mut descent = Descent::new(fit, &x, &means, settings);
    for step in 0..steps {
        let scale = 1.0 / (1 + step) as f64;
        let taken = [2 * step, 2 * step + 1].map(|k| batches.batch(k).to_vec());
        let done = descent.step(fit, (&mut x, &mut means), &taken, scale).expect("it runs");
        assert_eq!(done, None);
    }
    descent.point(fit, &mut x).expect("it runs");
    descent.state(fit, &mut means).expect("it runs");
    (x, means)
}

#[test]
fn kernels_make_the_steps_that_the_host_makes() {
    let rule = |method, momentum, decay| Rule { method, momentum, decay };
    let rules =
        [ADAM, rule(Method::AdamW, 0.8, 0.1), rule(Method::Sgd, 0.7, 0.01), rule(Method::Adam, 0.9, 0.02)];
    for (k, backend) in backends().flat_map(|backend| rules.map(|rule| (rule, backend))) {
        let small = [("COUNT", "20")];
        let how = How::ordered(backend, 1);
        let mut by_kernels = fit_by(&gaussians(), &small, &[], picture(48, 40), how, Task::Loss(k));
        let (found, state) = descend(&mut by_kernels, 8, k);
        let mut fit = fit_by(&gaussians(), &small, &[], picture(48, 40), how, Task::Loss(k));
        let settings = settings(&fit, k);
        let mut x = fit.start.clone();
        settings.rates.bounds.project(&mut x);
        let mut means = Means::new(x.len());
        let mut batches = Batches::new(&fit.items, &fit.order(), 300, 3);
        let mut gradient = vec![0.0; x.len()];
        for step in 0..8 {
            let taken = [2 * step, 2 * step + 1].map(|k| batches.batch(k).to_vec()).concat();
            fit.evaluate(&x, &taken, &mut gradient).expect("it runs");
            let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
            let clip = if norm > 0.5 { 0.5 / norm } else { 1.0 };
            let factors = Factors { rate: 1.0 / (1 + step) as f64, gradient: clip };
            k.update(&mut means, &mut x, &gradient, &settings.rates, factors);
        }
        assert_ne!(x, fit.start);
        // A batch is one dispatch for the kernels and a part of one here, and floats are added in another order.
        let close =
            |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs().max(0.1));
        assert!(close(&found, &x) && close(&state.mean, &means.mean), "{k:?} on {}", backend.name());
        assert!(found.iter().zip(&settings.rates.bounds.high).all(|(x, high)| x <= high));
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
                let (x, _) = descend(&mut fit, 6, ADAM);
                let order = fit.order();
                let mut gradient = vec![0.0; x.len()];
                let loss = fit.evaluate(&x, &order, &mut gradient).expect("it runs");
                (x, loss, gradient)
            });
            let same = points.iter().all(|point| point == &points[0]);
            assert!(same, "{} on {}", path.display(), backend.name());
        }
    }
}

/// A cotangent of 1e-9 is none in halves; scaled, the fit reaches the minimum, and what it reports is not scaled.
#[test]
fn a_scaled_loss_keeps_the_cotangents_of_halves() {
    let text = "
        [Differentiable] float loss(float a, no_diff float index)
        {
            half off = half(a) * half(0.5) - half(index);
            return 1e-9 * float(off * off);
        }";
    let program = Program::new("halves", text);
    for backend in backends() {
        let descend = |loss_scale: f64| {
            let begin = [("a", "1.0")];
            let mut fit = fit(&program.1, &[], &begin, Items::indices(5), How::on(backend));
            let mut x = fit.start.clone();
            let mut means = Means::new(1);
            let rates = Rates { rates: vec![0.1], bounds: Bounds::none(1) };
            let rule = Rule { method: Method::Adam, momentum: 0.9, decay: 0.0 };
            let settings = Settings { rule, rates, clip: Some(1.0), loss_scale, far: 100.0 };
            let mut descent = Descent::new(&mut fit, &x, &means, settings);
            let order: Vec<u32> = (0..5).collect();
            for _ in 0..400 {
                let batch = std::slice::from_ref(&order);
                descent.step(&mut fit, (&mut x, &mut means), batch, 1.0).expect("it runs");
            }
            descent.point(&fit, &mut x).expect("it runs");
            let mut gradient = [0.0];
            fit.evaluate(&[1.0], &order, &mut gradient).expect("it runs");
            (x[0], gradient[0])
        };
        assert_eq!(descend(1.0), (1.0, 0.0), "{}", backend.name());
        let (a, slope) = descend(2f64.powi(24));
        assert!((a - 4.0).abs() < 0.1, "{a} on {}", backend.name());
        // The mean of 1e-9 (0.5 - index), by a.
        assert!((slope + 1.5e-9).abs() < 1e-11, "{slope} on {}", backend.name());
    }
}

#[test]
fn a_descent_without_an_end_is_noticed() {
    let text = "
        [Differentiable] float loss(float a, float b, no_diff float index)
        {
            return a / (index - 3.0 * DEPTH) + b * index;
        }";
    let program = Program::new("trouble", text);
    for backend in backends() {
        let begin = [("a", "-1.0"), ("b", "0.5")];
        let step = |depth: &str, rate: f64| {
            let how = How::on(backend);
            let mut fit = fit(&program.1, &[("DEPTH", depth)], &begin, Items::indices(5), how);
            let mut x = fit.start.clone();
            let mut means = Means::new(2);
            let rates = Rates { rates: vec![rate; 2], bounds: Bounds::none(2) };
            let settings = Settings { rule: ADAM, rates, clip: None, loss_scale: 1.0, far: 100.0 };
            let mut descent = Descent::new(&mut fit, &x, &means, settings);
            let order: Vec<u32> = (0..5).collect();
            let found = descent
                .step(&mut fit, (&mut x, &mut means), std::slice::from_ref(&order), 1.0)
                .expect("it runs");
            (found, fit.find_trouble(&[-1.0, 0.5], &order).expect("it runs"))
        };
        assert!(matches!(step("2", 0.25), (None, None)));
        let (found, item) = step("2", 1000.0);
        assert!(matches!(found, Some(Trouble::Number(_, x)) if x.abs() > 900.0), "{found:?}");
        assert_eq!(item, None);
        // The loss of one item is infinite, and so is the derivative by one number.
        let (found, item) = step("1", 0.25);
        let Some(Trouble::Derivative(0, value, before)) = found else { panic!("{found:?}") };
        assert!(value.is_infinite() && before == [-1.0, 0.5], "{value} {before:?}");
        assert_eq!(item, Some(Found::Loss(3)));
    }
}

#[test]
fn the_line_of_a_number_that_is_not_finite_is_found() {
    let text = "[Differentiable] float loss(float a, no_diff float x)\n{\n    float b = a * x;\n    return log(b) + 1.0;\n}
[Differentiable] float root(float a, no_diff float x)\n{\n    float b = a - 0.2 * x;\n    return asin(b);\n}";
    let program = Program::new("line", text);
    let items = table("x\n1\n2\n0\n3\n");
    for backend in backends() {
        for (function, wanted, line) in [("loss", Found::Loss(2), 4), ("root", Found::Derivative(2), 9)] {
            let setup = Setup {
                loss: function.into(),
                ..setup(&program.1, &[("a", "1.0")], How::on(backend), Task::Loss(ADAM))
            };
            let mut session = Session::new(FileOptions::default());
            let Ok(mut fit) = Fit::new(&mut session, &setup, items.clone()) else { panic!("it fits") };
            let found = fit.find_trouble(&[1.0], &[0, 1, 2, 3]).expect("it runs");
            assert_eq!(found, Some(wanted), "{function}");
            assert_eq!(trouble::describe(&fit.items, 2), "item 2 (x = 0)");
            let failure = trouble::find_line(&mut session, &setup, &items, &[1.0], wanted);
            let Some(driver::pipeline::Failure::Program(diagnostics)) = failure else {
                panic!("{failure:?}")
            };
            let shown = driver::render::to_json(&session.sources, &diagnostics);
            assert!(shown.contains(&format!("\"line\":{line}")) && shown.contains("not finite"), "{shown}");
        }
    }
}

/// A plan of all items in each step.
fn plan(fit: &Fit, method: run::Method, steps: u64) -> Plan {
    let n = fit.start.len();
    Plan {
        method,
        steps,
        seconds: None,
        batch: 40,
        accumulate: 1,
        schedule: Schedule { shape: Shape::Cosine(0.0), warm_up: 5 },
        rates: Rates { rates: vec![0.02; n], bounds: Bounds::none(n) },
        clip: None,
        loss_scale: 1.0,
        tolerances: Tolerances { decrease: 1e-12, gradient: 0.0 },
        robust: Robust::Square,
        validation: None,
        seed: 5,
    }
}

/// Interrupts at a step.
struct Until(u64);

impl Observer for Until {
    fn step(&mut self, _: &mut Fit, state: &State, _: f64) -> Result<Wish, driver::Error> {
        Ok(if state.step == self.0 { Wish::Interrupt } else { Wish::Continue })
    }

    fn pass(&mut self, fit: &mut Fit, state: &State) -> Result<(), driver::Error> {
        // To look at the point changes nothing.
        let all = fit.order();
        fit.metrics(&state.x, &all).map(|_| ())
    }

    fn save(&mut self, _: &mut Fit, _: &State) -> Result<(), driver::Error> {
        Ok(())
    }
}

const DECAY: &str = "
[Differentiable] float residuals(float height, float rate, no_diff float x, no_diff float y)
{
    return height * exp(-rate * x) - y;
}
[Differentiable] float loss(float height, float rate, no_diff float x, no_diff float y)
{
    float r = residuals(height, rate, x, y);
    return r * r;
}
";

/// A decay of height 2 and rate 0.7 with disturbances.
fn decay() -> Items {
    let row = |k: i32| {
        let x = k as f64 * 0.05;
        format!("{x},{}\n", 2.0 * (-0.7 * x).exp() + 0.01 * (k as f64 * 2.3).sin())
    };
    table(&format!("x,y\n{}", (0..120).map(row).collect::<String>()))
}

#[test]
fn a_fit_goes_on_to_the_same_bits() {
    let program = Program::new("resume", DECAY);
    let begin = [("height", "1.0"), ("rate", "0.1")];
    for backend in backends() {
        for method in [run::Method::FirstOrder, run::Method::Lbfgs, run::Method::Marquardt] {
            let task = if method == run::Method::Marquardt { Task::Residuals } else { Task::Loss(ADAM) };
            let new = || fit_by(&program.1, &[], &begin, decay(), How::ordered(backend, 1), task);
            let go = |state: &mut State, until: u64| {
                let mut fit = new();
                let mut plan = plan(&fit, method, if method == run::Method::FirstOrder { 60 } else { 6 });
                if method != run::Method::Marquardt {
                    plan.validation = Some(Validation { share: 0.2, patience: 100 });
                }
                fit.minimise(&plan, state, &mut Until(until)).expect("it converges").0
            };
            let start = || State::new("test".into(), new().start);
            let mut whole = start();
            assert_ne!(go(&mut whole, u64::MAX), Ending::Interrupted);
            let mut parts = start();
            let steps = if method == run::Method::FirstOrder { 23 } else { 2 };
            assert_eq!(go(&mut parts, steps), Ending::Interrupted);
            // By way of a file, as `--resume` does.
            let path = program.0.join("checkpoint.json");
            parts.save(&path).expect("it is written");
            let mut parts = State::load(&path, "test", 2).expect("it reads back");
            assert_ne!(go(&mut parts, u64::MAX), Ending::Interrupted);
            (parts.seconds, whole.seconds) = (0.0, 0.0);
            assert_eq!(parts, whole, "{method:?} on {}", backend.name());
            // A fit that was finished goes on from its last point, not from the one that was best.
            if method == run::Method::Lbfgs {
                let mut more = start();
                for steps in [3, 6] {
                    let mut fit = new();
                    let mut plan = plan(&fit, method, steps);
                    plan.validation = Some(Validation { share: 0.2, patience: 100 });
                    fit.minimise(&plan, &mut more, &mut Until(u64::MAX)).expect("it converges");
                }
                more.seconds = 0.0;
                assert_eq!(more, whole, "on {}", backend.name());
            }
        }
    }
}

#[test]
fn least_squares_of_items_and_of_whole_columns() {
    let whole = "
[Differentiable] Array<float, 120> residuals(float height, float rate,
    no_diff StructuredBuffer<float> x, no_diff StructuredBuffer<float> y, no_diff uint count)
{
    Array<float, 120> all;
    // A simulation by Euler's method, whose steps are a tenth of those of the data.
    float now = height;
    for (uint k = 0; k < 120; k++)
    {
        all[k] = k < count ? now - y[k] : 0.0;
        for (uint i = 0; i < 10; i++) now -= rate * now * 0.005;
    }
    return all;
}
[Differentiable] float loss(float height, float rate,
    no_diff StructuredBuffer<float> x, no_diff StructuredBuffer<float> y, no_diff uint count)
{
    let all = residuals(height, rate, x, y, count);
    float sum = 0.0;
    for (uint k = 0; k < 120; k++) sum += all[k] * all[k];
    return sum;
}
";
    let begin = [("height", "1.0"), ("rate", "0.1")];
    for (name, text, tolerance) in [("items", DECAY, 4e-3), ("whole", whole, 8e-3)] {
        let program = Program::new(name, text);
        for backend in backends() {
            let mut fit = fit_by(&program.1, &[], &begin, decay(), How::on(backend), Task::Residuals);
            assert_eq!(fit.kernel.loss.is_whole(), name == "whole");
            // `Jᵀ` is the transpose of `J`, and `J` the derivative of the residuals.
            let (x, v) = ([1.3, 0.4], [0.7, -0.2]);
            let (mut at, mut along, mut back) = (Vec::new(), Vec::new(), [0.0; 2]);
            fit.residuals(&x, &mut at).expect("it runs");
            assert_eq!((at.len(), fit.group()), (120, 1));
            fit.jvp(&x, &v, &mut along).expect("it runs");
            fit.vjp(&x, &at, &mut back).expect("it runs");
            let (left, right): (f64, f64) = (
                at.iter().zip(&along).map(|(a, b)| a * b).sum(),
                back.iter().zip(&v).map(|(a, b)| a * b).sum(),
            );
            assert!((left - right).abs() <= 1e-4 * left.abs(), "{left} and {right}");
            let mut near = Vec::new();
            fit.residuals(&[x[0] + 1e-2 * v[0], x[1] + 1e-2 * v[1]], &mut near).expect("it runs");
            let difference = |k: usize| (near[k] - at[k]) / 1e-2;
            assert!((0..120).all(|k| (difference(k) - along[k]).abs() < 0.02), "{along:?}");

            let plan = plan(&fit, run::Method::Marquardt, 100);
            let mut state = State::new("test".into(), fit.start.clone());
            let (ending, losses) =
                fit.minimise(&plan, &mut state, &mut Until(u64::MAX)).expect("it converges");
            assert!(matches!(ending, Ending::Decrease(_) | Ending::Stuck) && state.step < 30, "{ending}");
            let [height, rate] = state.x[..] else { panic!("two numbers") };
            assert!((height - 2.0).abs() < tolerance && (rate - 0.7).abs() < tolerance, "{height} {rate}");
            assert!(losses.fitted < 0.5 * 120.0 * 2e-4, "{losses:?}");
            let found = fit.covariance(&plan, &state.x).expect("it runs").expect("it is determined");
            // Disturbances of 0.01 sin(…) have the deviation 0.01/√2.
            assert!((found.deviation - 0.0071).abs() < 1e-3, "{}", found.deviation);
            assert!(found.errors.iter().all(|e| e.is_some_and(|e| (1e-4..1e-2).contains(&e))), "{found:?}");
        }
    }
    // A loss of whole columns, by L-BFGS.
    let program = Program::new("whole-loss", whole);
    for backend in backends() {
        let mut fit = fit(&program.1, &[], &begin, decay(), How::on(backend));
        let plan = plan(&fit, run::Method::Lbfgs, 100);
        let mut state = State::new("test".into(), fit.start.clone());
        fit.minimise(&plan, &mut state, &mut Until(u64::MAX)).expect("it converges");
        assert!((state.x[0] - 2.0).abs() < 1e-2 && (state.x[1] - 0.7).abs() < 1e-2, "{:?}", state.x);
    }
}

#[test]
fn what_cannot_be_fitted_is_refused() {
    let text = "
[Differentiable] float mixed(float a, no_diff StructuredBuffer<float> x, no_diff float y) { return a * x[0] - y; }
struct S : IDifferentiable { float a; float b; }
[Differentiable] S residuals(float a, no_diff float x) { return { a, x }; }
[Differentiable] float2 loss(float a, no_diff float x) { return float2(a, x); }
";
    let program = Program::new("refused", text);
    for (function, task, wanted) in [
        ("mixed", Task::Loss(ADAM), "takes columns as a whole"),
        ("residuals", Task::Residuals, "a vector or an array of numbers"),
        ("loss", Task::Loss(ADAM), "a loss returns"),
    ] {
        let setup = Setup { loss: function.into(), ..setup(&program.1, &[], How::on(Backend::INTERP), task) };
        let mut session = Session::new(FileOptions::default());
        let items = table("x,y\n1,2\n");
        match Fit::new(&mut session, &setup, items) {
            Err(driver::pipeline::Failure::Other(error)) => {
                assert!(error.to_string().contains(wanted), "{error}");
            }
            _ => panic!("`{function}` is refused"),
        }
    }
}

#[test]
fn a_loss_that_is_not_finite_at_the_start_is_reported() {
    let program = Program::new(
        "start",
        "[Differentiable] float loss(float a, no_diff float index) { return log(a * index); }",
    );
    let mut fit = fit(&program.1, &[], &[("a", "1.0")], Items::indices(3), How::on(Backend::INTERP));
    let plan = plan(&fit, run::Method::Lbfgs, 5);
    let mut state = State::new("test".into(), fit.start.clone());
    match fit.minimise(&plan, &mut state, &mut Until(u64::MAX)) {
        Err(Stopped::Diverged(diverged)) => {
            let (x, order) = diverged.at.expect("a place to look");
            assert_eq!(fit.find_trouble(&x, &order).expect("it runs"), Some(Found::Loss(0)));
        }
        found => panic!("{found:?}"),
    }
}
