//! Compile times, and what a gradient costs. Run with `cargo bench -p pullback-cli`.
//!
//! Whole processes are timed for `check` and `run` of a small kernel, since that is what a user
//! waits for; the thousand functions are compiled in this process. Each figure is the median of a
//! number of runs after one that is not counted, so no statistics library is needed.

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

/// The median time of `work`, in milliseconds.
fn measure(name: &str, runs: usize, mut work: impl FnMut()) -> f64 {
    work();
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let (median, best) = (times[runs / 2], times[0]);
    report(&format!("{name:44} {median:10.2} ms  (best {best:.2})"));
    median
}

fn report(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// So many differentiable functions of 10 lines, and a kernel that differentiates each.
fn many_functions(n: usize) -> String {
    let mut text = String::from("RWStructuredBuffer<float> results;\n");
    for k in 0..n {
        let _ = writeln!(
            text,
            "[Differentiable]\nfloat f{k}(float x, float y)\n{{\n    float a = x * y + {k}.0;\n    float b = sin(a) * x;\n    \
             if (b > y)\n        a = a + b * b;\n    float c = exp(-a * a) + y;\n    float d = c * b - a;\n    return d * c + x;\n}}"
        );
    }
    text.push_str("[numthreads(1, 1, 1)]\nvoid computeMain()\n{\n");
    for k in 0..n {
        let _ = writeln!(
            text,
            "    {{ var x = diffPair(1.5, 0.0); var y = diffPair(0.5, 0.0); bwd_diff(f{k})(x, y, 1.0); results[{k}] = x.d + y.d; }}"
        );
    }
    text.push_str("}\n");
    text
}

fn compile(text: String) -> Runner {
    on_large_stack(|| {
        let mut session = Session::new(FileOptions::default());
        let mut program = session.program();
        let file = session.load_text(&mut program, "many.slang", text, Path::new(""));
        let mut loaded = pipeline::Loaded { program, file };
        let entries = loaded.program.entry_points(file);
        let request = Request { entries, ..Request::default() };
        let compiled = loaded.compile(&request, &Options::default()).expect("compiles");
        Runner::new(compiled.module, Backend::Cranelift, false).expect("has code")
    })
}

fn main() {
    let file = bench_file("kernel40.slang");
    measure("process: check of 40 lines", 40, || process(&["check"], &file));
    let run = ["run", "--bind", "radii=[1,1,1,1,1,1,1,1]", "--bind", "results=zeros:16"];
    measure("process: run of 40 lines", 40, || process(&run, &file));
    for n in [250, 500, 1000] {
        let text = many_functions(n);
        measure(&format!("compile: {n} differentiated functions"), 5, || drop(compile(text.clone())));
    }
    let text = std::fs::read_to_string(bench_file("perceptron.slang")).expect("is there");
    let mut runner = compile(text);
    let weights: Vec<u8> =
        (0..1633).flat_map(|k| (((k * 37 % 101) as f32 - 50.0) / 200.0).to_le_bytes()).collect();
    runner.bind("weights", weights).expect("binds");
    runner.bind("results", vec![0; 4]).expect("binds");
    let mut dispatch = |entry: &str| {
        measure(&format!("perceptron: 1,000 times {entry}"), 20, || {
            runner.dispatch(entry, [1, 1, 1], 1).expect("runs");
        })
    };
    let (primal, gradient) = (dispatch("primal"), dispatch("gradient"));
    report(&format!("{:44} {:10.2}", "perceptron: gradient / primal", gradient / primal));
}
