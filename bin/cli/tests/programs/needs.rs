//! Tests requirements on speed that users of other compilers ask for, each named by its number in
//! the list of such requests. Those on memory are in
//! `documents/check.md`, the rest of the list in `tests/run/needs` and `tests/check/needs`.

use std::path::Path;

use driver::Request;
use driver::launch::{Backend, Runner};
use driver::pipeline::{self, Options};
use driver::session::{FileOptions, Session};

/// The number of instructions that a kernel executes, counted by the interpreter and so independent of time.
fn steps(name: &str, text: &str, entry: &str) -> u64 {
    let path = crate::common::file(name, text);
    let mut session = Session::new(FileOptions::default());
    let mut loaded = pipeline::load(&mut session, Path::new(&path)).expect("is read");
    let entry_point = loaded.entry(Some(entry)).expect("is there");
    let request = Request { entries: vec![entry_point], ..Request::default() };
    let compiled = loaded.compile(&request, &Options::default()).expect("compiles");
    let mut runner = Runner::new(compiled.module, Backend::INTERP).expect("runs");
    runner.bind("out", &[0; 64]);
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
