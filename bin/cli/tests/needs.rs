//! Tests requirements on memory and speed that users of other compilers ask for, each named by its number in
//! the list of such requests. The rest of the list is in `tests/run/needs` and `tests/check/needs`.

use std::path::PathBuf;
use std::process::Command;

use driver::Request;
use driver::launch::{Backend, Runner};
use driver::pipeline::{self, Options};
use driver::session::{FileOptions, Session};

fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the test folder is writable");
    path
}

/// The output of `check --report-checkpoints` for a program.
fn report(name: &str, text: &str) -> String {
    let path = file(name, text);
    let args = ["check", "--report-checkpoints"];
    let out = Command::new(env!("CARGO_BIN_EXE_pullback")).args(args).arg(path).output();
    let out = out.expect("the program starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

/// The number of instructions that a kernel executes, counted by the interpreter and so independent of time.
fn steps(name: &str, text: &str, entry: &str) -> u64 {
    let path = file(name, text);
    let mut session = Session::new(FileOptions::default());
    let mut loaded = pipeline::load(&mut session, &path).expect("is read");
    let entry_point = loaded.entry(Some(entry)).expect("is there");
    let request = Request { entries: vec![entry_point], ..Request::default() };
    let compiled = loaded.compile(&request, &Options::default()).expect("compiles");
    let mut runner = Runner::new(compiled.module, Backend::INTERP, false).expect("runs");
    runner.bind("out", vec![0; 64]).expect("is bound");
    runner.dispatch(entry, [1, 1, 1], 1).expect("runs").cost.steps
}

const BEZIER: &str = "\
RWStructuredBuffer<float> out;
static const int N = 8;
[Differentiable]
float2 curve(float2 points[N], no_diff float t)
{
    for (int level = N - 1; level > 0; level--)
        for (int i = 0; i < level; i++)
            points[i] = lerp(points[i], points[i + 1], float2(t));
    return points[0];
}
[Differentiable]
float error(float2 points[N], no_diff int samples)
{
    float sum = 0;
    for (int s = 0; s < samples; s++)
    {
        float t = (s + 0.5) / samples;
        float2 d = curve(points, t) - float2(t, t * t);
        sum += dot(d, d);
    }
    return sum / samples;
}
float2[N] start()
{
    float2 points[N];
    for (int i = 0; i < N; i++)
        points[i] = float2(i * 0.1, out[0] - i * 0.05);
    return points;
}
[numthreads(1, 1, 1)]
void value() { out[1] = error(start(), 40); }
[numthreads(1, 1, 1)]
void gradient()
{
    var p = diffPair(start());
    bwd_diff(error)(p, 40, 1.0);
    out[1] = p.d[2].x;
    out[2] = p.d[5].y;
}
";

#[test]
fn need_50_what_reverse_mode_keeps_is_said_by_variable_line_and_reason() {
    let text = "[Differentiable]\nfloat f(float x)\n{\n    float y = x;\n    for (int i = 0; i < 9; i++)\n    {\n        \
                float root = sqrt(y + x);\n        y = root * root * y;\n    }\n    return y;\n}\n";
    let said = report("need-50.slang", text);
    assert!(said.contains("need-50.slang:7: `root`"), "{said}");
    assert!(said.contains("for each trip of the loop at line 5"), "{said}");
    assert!(said.contains("line 8") && said.contains("kept because"), "{said}");
}

#[test]
fn need_51_counters_are_computed_again_and_not_stored() {
    let text = "[Differentiable]\nfloat f(float x)\n{\n    float s = 0;\n    for (int i = 3; i < 40; i += 2)\n        \
                s += x * (i * i) + x * (float)i;\n    return s;\n}\n";
    let said = report("need-51.slang", text);
    assert!(said.contains("nothing is kept") || said.contains("0 bytes for each trip"), "{said}");
}

#[test]
fn need_52_no_array_is_copied_for_each_trip() {
    let text = "[Differentiable]\nfloat f(float a[128], no_diff int n)\n{\n    float s = 0;\n    for (int i = 0; i < n; i++)\n    \
                {\n        a[i % 128] = a[(i + 1) % 128] * a[i % 128];\n        s += a[i % 7];\n    }\n    return s;\n}\n";
    let said = report("need-52.slang", text);
    let total = said.lines().find(|line| line.trim().starts_with("in all")).expect("a total");
    let bytes = total.split(", ").nth(1).and_then(|part| part.split(' ').next()).expect("bytes of a trip");
    let bytes: u64 = bytes.parse().expect("a number");
    assert!(bytes <= 16, "{said}");
}

#[test]
fn need_53_nested_loops_of_a_curve_fit_cost_a_small_factor() {
    let (value, gradient) =
        (steps("need-53.slang", BEZIER, "value"), steps("need-53.slang", BEZIER, "gradient"));
    assert!(gradient <= 4 * value, "{gradient} instructions for the gradient, {value} for the value");
}

#[test]
fn need_59_unrolling_does_not_multiply_what_is_executed() {
    let program = |attribute: &str| {
        format!(
            "RWStructuredBuffer<float> out;\n[Differentiable]\nfloat f(float x)\n{{\n    float s = 0;\n    {attribute}\n    \
             for (int i = 0; i < 64; i++)\n        s += sin(x * (i + 1)) * s;\n    return s;\n}}\n[numthreads(1, 1, 1)]\n\
             void gradient() {{ var x = diffPair(out[0]); bwd_diff(f)(x, 1.0); out[1] = x.d; }}\n"
        )
    };
    let rolled = steps("need-59-loop.slang", &program("[MaxIters(64)]"), "gradient");
    let unrolled = steps("need-59-unrolled.slang", &program("[ForceUnroll]"), "gradient");
    assert!(unrolled <= rolled, "{unrolled} instructions unrolled, {rolled} as a loop");
}
