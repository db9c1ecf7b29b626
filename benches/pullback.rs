//! Compile times, and what a gradient costs. Run with `cargo bench -p pullback-cli [-- PART…]`; docs/performance.md
//! says what to expect.
//!
//! Whole processes are timed for `check` and `run` of a small kernel, since that is what a user
//! waits for; larger programs are compiled in this process. Each figure is the median of a number
//! of runs after one that is not counted, so no statistics library is needed. Where a figure should
//! grow with the program and no faster, it is given for several sizes.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use driver::launch::{Backend, Runner};
use driver::pipeline::{self, Options};
use driver::session::{FileOptions, Session};
use driver::{Request, on_large_stack};

fn bench_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches").join(name)
}

fn bench_text(name: &str) -> String {
    std::fs::read_to_string(bench_file(name)).expect("is there")
}

fn process(arguments: &[&str], file: &Path) {
    let status = Command::new(env!("CARGO_BIN_EXE_pullback"))
        .arg(arguments[0])
        .arg(file)
        .args(&arguments[1..])
        .stdout(Stdio::null())
        .status()
        .expect("the program starts");
    assert!(status.success());
}

/// The times of `work` in milliseconds: median and best.
fn times(runs: usize, mut work: impl FnMut()) -> (f64, f64) {
    work();
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[runs / 2], times[0])
}

fn measure(name: &str, runs: usize, work: impl FnMut()) {
    let (median, best) = times(runs, work);
    report(&format!("{name:48} {median:10.2} ms  (best {best:.2})"));
}

fn report(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

// ---- programs of any size

/// So many differentiable functions of 10 lines, and a kernel that differentiates the first `used`.
fn many_functions(n: usize, used: usize) -> String {
    let mut text = String::from("RWStructuredBuffer<float> results;\n");
    for k in 0..n {
        let _ = writeln!(
            text,
            "[Differentiable]\nfloat f{k}(float x, float y)\n{{\n    float a = x * y + {k}.0;\n    float b = sin(a) * x;\n    \
             if (b > y)\n        a = a + b * b;\n    float c = exp(-a * a) + y;\n    float d = c * b - a;\n    return d * c + x;\n}}"
        );
    }
    text.push_str("[numthreads(1, 1, 1)]\nvoid computeMain()\n{\n");
    for k in 0..used {
        let _ = writeln!(
            text,
            "    {{ var x = diffPair(1.5, 0.0); var y = diffPair(0.5, 0.0); bwd_diff(f{k})(x, y, 1.0); results[{k}] = x.d + y.d; }}"
        );
    }
    text.push_str("}\n");
    text
}

/// One function of so many statements, without any control flow.
fn straight_line(n: usize) -> String {
    let mut text = String::from(
        "[Differentiable]\nfloat line(float x, float y)\n{\n    float a = x;\n    float b = y;\n",
    );
    let statements = [
        "a = a * b + 0.5;",
        "b = 0.25 * a - b;",
        "a = a - b * b;",
        "b = b / (1.0 + a * a);",
        "a = sin(a) * b;",
    ];
    for k in 0..n {
        let _ = writeln!(text, "    {}", statements[k % statements.len()]);
    }
    text.push_str("    return a + b;\n}\n");
    text + &kernels("line", 2, 20_000)
}

/// So many functions, each of which calls the one before.
fn chain_of_calls(n: usize) -> String {
    let mut text = String::from("[Differentiable]\nfloat f0(float x)\n{\n    return x * x;\n}\n");
    for k in 1..n {
        let _ = writeln!(
            text,
            "[Differentiable]\nfloat f{k}(float x)\n{{\n    return sin(f{}(x)) * x + {k}.0;\n}}",
            k - 1
        );
    }
    text + &kernels(&format!("f{}", n - 1), 1, 1)
}

/// Kernels that evaluate a function of floats, and its gradient, so many times.
fn kernels(function: &str, arguments: usize, times: usize) -> String {
    let list = |f: &dyn Fn(usize) -> String| (0..arguments).map(f).collect::<Vec<_>>().join(", ");
    let value = |k: usize| format!("0.5 + 0.00001 * (k + {k})");
    let pairs: String =
        (0..arguments).map(|k| format!("        var p{k} = diffPair({});\n", value(k))).collect();
    let sum = (0..arguments).map(|k| format!("p{k}.d")).collect::<Vec<_>>().join(" + ");
    let kernel = |name: &str, body: String| {
        format!(
            "[shader(\"compute\")]\n[numthreads(1, 1, 1)]\nvoid {name}()\n{{\n    float total = 0.0;\n    for (uint k = 0; k < {times}; k++)\n    \
             {{\n{body}    }}\n    results[0] = total;\n}}\n"
        )
    };
    String::from("RWStructuredBuffer<float> results;\n")
        + &kernel("primal", format!("        total += {function}({});\n", list(&value)))
        + &kernel(
            "gradient",
            format!(
                "{pairs}        bwd_diff({function})({}, 1.0);\n        total += {sum};\n",
                list(&|k| format!("p{k}"))
            ),
        )
}

/// A sum over a hundred parameters; its gradient by all of them, and by one.
fn hundred_parameters() -> String {
    let n = 100;
    let list = |f: &dyn Fn(usize) -> String| (0..n).map(f).collect::<Vec<_>>().join(", ");
    let body: String = (0..n).map(|k| format!("    s += sin(p{k} * x) * exp(-p{k} * p{k});\n")).collect();
    let function = |name: &str, active: &dyn Fn(usize) -> bool| {
        let parameters = list(&|k| format!("{}float p{k}", if active(k) { "" } else { "no_diff " }));
        format!(
            "[Differentiable]\nfloat {name}(no_diff float x, {parameters})\n{{\n    float s = 0.0;\n{body}    return s;\n}}\n"
        )
    };
    let kernel = |name: &str, body: String| {
        let load: String = (0..n).map(|k| format!("        float q{k} = weights[{k}];\n")).collect();
        format!(
            "[shader(\"compute\")]\n[numthreads(1, 1, 1)]\nvoid {name}()\n{{\n    float total = 0.0;\n    for (uint k = 0; k < 5000; k++)\n    {{\n        \
             float x = 0.001 * k;\n{load}{body}    }}\n    results[0] = total;\n}}\n"
        )
    };
    let pairs: String = (0..n).map(|k| format!("        var d{k} = diffPair(q{k});\n")).collect();
    let sum = (0..n).map(|k| format!("d{k}.d")).collect::<Vec<_>>().join(" + ");
    let one = list(&|k| if k == 50 { "d".into() } else { format!("q{k}") });
    String::from("RWStructuredBuffer<float> results;\nStructuredBuffer<float> weights;\n")
        + &function("one", &|k| k == 50)
        + &function("all", &|_| true)
        + &kernel("primal", format!("        total += all(x, {});\n", list(&|k| format!("q{k}"))))
        + &kernel(
            "gradientOne",
            format!(
                "        var d = diffPair(q50);\n        bwd_diff(one)(x, {one}, 1.0);\n        total += d.d;\n"
            ),
        )
        + &kernel(
            "gradientAll",
            format!(
                "{pairs}        bwd_diff(all)(x, {}, 1.0);\n        total += {sum};\n",
                list(&|k| format!("d{k}"))
            ),
        )
}

// ---- compiling and running

/// From text to machine code; of one entry point, or of all.
fn compile(text: String, entry: Option<&str>) -> Runner {
    compile_for(Backend::CRANELIFT, text, entry)
}

fn compile_for(backend: Backend, text: String, entry: Option<&str>) -> Runner {
    on_large_stack(|| {
        let mut session = Session::new(FileOptions::default());
        let mut program = session.program();
        let file = session.load_text(&mut program, "bench.slang", text, Path::new(""));
        let mut loaded = pipeline::Loaded::new(program, file);
        let entries = match entry {
            Some(name) => vec![loaded.entry(Some(name)).expect("is there")],
            None => loaded.program.entry_points(file),
        };
        let request = Request { entries, ..Request::default() };
        let compiled = loaded.compile(&request, &Options::default()).expect("compiles");
        Runner::new(compiled.module, backend).expect("has code")
    })
}

fn bind(runner: &mut Runner) {
    let weights: Vec<u8> =
        (0..1633).flat_map(|k| (((k * 37 % 101) as f32 - 50.0) / 200.0).to_le_bytes()).collect();
    for (buffer, bytes) in [("weights", weights), ("gradients", vec![0; 4 * 1633]), ("results", vec![0; 4])] {
        runner.bind(buffer, &bytes);
    }
}

/// A program of kernels with two of the repetitions `uint k` each.
fn few_repetitions(text: &str, few: usize) -> String {
    let mut parts = text.split("(uint k = 0; k < ");
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        text += &format!("(uint k = 0; k < {few}");
        text += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    text
}

/// The instructions of the IR that an entry point executes.
fn steps(text: &str, entry: &str) -> u64 {
    let mut runner = compile_for(Backend::INTERP, text.to_string(), Some(entry));
    bind(&mut runner);
    runner.dispatch(entry, [1, 1, 1], 1).expect("runs").cost.steps
}

/// What each of these gradients costs beside the primal: time on Cranelift, and instructions executed. The
/// kernels repeat their work some thousand times, the interpreter only `few` times.
fn price(name: &str, text: String, few: usize, gradients: &[&str]) {
    let mut runner = compile(text.clone(), None);
    bind(&mut runner);
    let few = few_repetitions(&text, few);
    let primal_steps = steps(&few, "primal");
    let mut dispatch = |entry: &str| {
        times(20, || {
            runner.dispatch(entry, [1, 1, 1], 1).expect("runs");
        })
    };
    let primal = dispatch("primal");
    for entry in gradients {
        let gradient = dispatch(entry);
        let (median, best) = (gradient.0 / primal.0, gradient.1 / primal.1);
        report(&format!(
            "{:48} {:10.2} ms, primal {:.2} ms: {median:.2} times (best by best {best:.2}); instructions {:.2} times",
            format!("{name}: {entry}"),
            gradient.0,
            primal.0,
            steps(&few, entry) as f64 / primal_steps as f64,
        ));
    }
}

/// What the gradient of a recurrence of a million steps holds in memory.
fn memory(checkpoint: &str) {
    let text = bench_text("recurrence.slang")
        .replace("    for (int k = 0; k < 1000;", &format!("    {checkpoint} for (int k = 0; k < 1000000;"))
        .replace("k < 10000;", "k < 1;");
    let mut runner = compile(text, Some("gradient"));
    bind(&mut runner);
    let output = runner.dispatch("gradient", [1, 1, 1], 1).expect("runs");
    let name = format!("recurrence of a million steps {checkpoint}");
    report(&format!("{name:48} {:10.1} KiB kept", output.cost.arena_bytes as f64 / 1024.0));
}

/// What a user waits for.
fn processes() {
    report("-- whole processes");
    let file = bench_file("kernel40.slang");
    measure("check of 40 lines", 40, || process(&["check"], &file));
    let run = ["run", "--bind", "radii=[1,1,1,1,1,1,1,1]", "--bind", "results=zeros:16"];
    measure("run of 40 lines", 40, || process(&run, &file));
}

fn compilation() {
    report("-- text to machine code");
    for n in [250, 500, 1000, 2000] {
        let text = many_functions(n, n);
        measure(&format!("{n} differentiated functions"), 5, || drop(compile(text.clone(), None)));
    }
    let text = many_functions(2000, 1);
    let lines = text.lines().count();
    measure(&format!("{lines} lines, one function used"), 5, || drop(compile(text.clone(), None)));
    for n in [500, 1000, 2000] {
        let text = straight_line(n);
        measure(&format!("gradient of a line of {n} statements"), 5, || {
            drop(compile(text.clone(), Some("gradient")))
        });
    }
    for n in [125, 250, 500, 1000] {
        let text = chain_of_calls(n);
        measure(&format!("gradient of a chain of {n} calls"), 5, || {
            drop(compile(text.clone(), Some("gradient")))
        });
    }
}

/// Programs for graphics processors, whole processes.
fn emission() {
    report("-- text to the languages of graphics processors, whole processes");
    let small = bench_file("kernel40.slang");
    for target in ["wgsl", "spirv", "msl", "hlsl", "glsl", "reflection"] {
        measure(&format!("{target} of 40 lines"), 20, || process(&["emit", "--target", target], &small));
    }
    let large = std::env::temp_dir().join(format!("pullback-bench-{}.slang", std::process::id()));
    for n in [250, 500, 1000, 2000] {
        if std::fs::write(&large, many_functions(n, n)).is_err() {
            continue;
        }
        let name = format!("wgsl of {n} differentiated functions");
        measure(&name, 5, || process(&["emit", "--target", "wgsl"], &large));
    }
    let _ = std::fs::remove_file(&large);
}

fn gradients() {
    report("-- gradient beside primal");
    price("straight line of 1,000 operations", straight_line(455), 2, &["gradient"]);
    price("perceptron, weights in arrays", bench_text("perceptron.slang"), 2, &["gradient"]);
    price("perceptron, weights in a buffer", bench_text("perceptron-buffer.slang"), 2, &["gradient"]);
    let laplacians = ["by_hand", "library", "by_products", "by_nesting", "gradient"];
    price("Laplacian of a network", bench_text("laplacian.slang"), 2, &laplacians);
    price("pendulum, 100 steps", bench_text("ode.slang"), 2, &["gradient"]);
    price("recurrence of 1,000 steps", bench_text("recurrence.slang"), 2, &["gradient"]);
    price("the same, [Checkpoint]", bench_text("recurrence-checkpoint.slang"), 2, &["gradient"]);
    for checkpoint in ["", "[Checkpoint]", "[Checkpoint(1000)]"] {
        memory(checkpoint);
    }
    // Rays of all pixels: the first ones miss.
    price("ray and sphere, shaded", bench_text("sphere.slang"), 10_000, &["gradient"]);
    price("100 parameters", hundred_parameters(), 2, &["gradientAll", "gradientOne"]);
}

/// All of it, or the parts that are named: `cargo bench -p pullback-cli -- gradients`.
fn main() {
    let parts: [(&str, fn()); 4] = [
        ("processes", processes),
        ("compilation", compilation),
        ("emission", emission),
        ("gradients", gradients),
    ];
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    for (name, part) in parts {
        if named.is_empty() || named.iter().any(|n| n == name) {
            part();
        }
    }
}
