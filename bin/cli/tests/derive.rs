//! Tests that the output of `pullback derive` compiles again and gives the same numbers as the derivative
//! operators.

use std::path::PathBuf;
use std::process::Command;

/// Functions, each called both through the derivative operators and through the derived text, which must
/// print the same.
const PROGRAM: &str = r#"
struct Ray : IDifferentiable { float3 origin; float3 direction; }

[Differentiable] float sphere(Ray ray, float radius)
{
    float b = dot(ray.origin, ray.direction);
    float h = b * b - dot(ray.origin, ray.origin) + radius * radius;
    if (h < 0) return -1.0;
    return -b - sqrt(h);
}

[Differentiable] float horner(float x[4], float t, no_diff int n)
{
    float s = 1;
    for (int i = 0; i < 4; i++)
    {
        if (i == n) continue;
        s = s * t + x[i] * sin(s);
    }
    return s;
}

[Differentiable] float decay(float a, float rate)
{
    float sum = 0.0;
    float other = 1.0;
    [MaxIters(64)]
    for (float t = 0.0; t < 6.0; t += 0.5)
    {
        if (sum > 3.0 * a) break;
        sum += a * exp(-rate * t) * other;
        float swap = other * 0.9 + 0.01 * sum;
        other = swap;
    }
    return sum + other;
}

[Differentiable] void both(inout float2 v, float k, out double d)
{
    switch ((int)(k * 2))
    {
    case 1: v *= k; break;
    case 2: v = v.yx * k; break;
    default: v += pow(k, 3.0);
    }
    float cells[3] = { v.x, v.y, k };
    for (int i = 0; i < 6; i++) cells[i % 3] = cells[(i + 1) % 3] * 0.5 + cells[i % 3];
    v.x = cells[0];
    d = (double)cells[2] * v.y;
}
"#;

const OPERATORS: &str = r#"
void main()
{
    Ray r = { float3(0.1, 0.2, -3), float3(0, 0, 1) };
    var p = diffPair(r);
    var s = diffPair(1.0);
    bwd_diff(sphere)(p, s, 2.0);
    printf("%.9g %.9g %.9g %.9g\n", p.d.origin.x, p.d.origin.z, p.d.direction.y, s.d);
    let f = fwd_diff(sphere)(diffPair(r, { float3(1, 0, 0), float3(0, 1, 0) }), diffPair(1.0, 0.5));
    printf("%.9g %.9g\n", f.p, f.d);
    DifferentialPair<float[4]> x = diffPair({ 1.0, 0.5, 0.25, -1.0 });
    var t = diffPair(0.7);
    bwd_diff(horner)(x, t, 2, 1.0);
    printf("%.9g %.9g %.9g\n", x.d[0], x.d[3], t.d);
    var a = diffPair(0.8);
    var q = diffPair(0.3);
    bwd_diff(decay)(a, q, 1.0);
    printf("%.9g %.9g\n", a.d, q.d);
    for (int i = 0; i < 3; i++)
    {
        var v = diffPair(float2(0.3, 0.9), float2(1, 2));
        var k = diffPair(0.5 + 0.5 * i);
        bwd_diff(both)(v, k, 3.0l);
        printf("%.9g %.9g %.9g\n", v.d.x, v.d.y, k.d);
    }
}
"#;

const TEXT: &str = r#"
void main()
{
    float3 d_o; float3 d_d; float d_r; float y; float dy;
    sphere_bwd(float3(0.1, 0.2, -3), float3(0, 0, 1), 1.0, 2.0, d_o, d_d, d_r);
    printf("%.9g %.9g %.9g %.9g\n", d_o.x, d_o.z, d_d.y, d_r);
    sphere_fwd(float3(0.1, 0.2, -3), float3(0, 0, 1), 1.0, float3(1, 0, 0), float3(0, 1, 0), 0.5, y, dy);
    printf("%.9g %.9g\n", y, dy);
    float x[4] = { 1.0, 0.5, 0.25, -1.0 };
    float d_x[4]; float d_t; float kept[4];
    horner_bwd(x, 0.7, 2, 1.0, d_x, d_t);
    printf("%.9g %.9g %.9g\n", d_x[0], d_x[3], d_t);
    float d_a; float d_rate;
    decay_bwd(0.8, 0.3, 1.0, d_a, d_rate);
    printf("%.9g %.9g\n", d_a, d_rate);
    for (int i = 0; i < 3; i++)
    {
        float2 d_v; float d_k;
        both_bwd(float2(0.3, 0.9), 0.5 + 0.5 * i, float2(1, 2), 3.0l, d_v, d_k);
        printf("%.9g %.9g %.9g\n", d_v.x, d_v.y, d_k);
    }
}
"#;

fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the test folder is writable");
    path.to_str().expect("a plain path").to_string()
}

fn pullback(args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_pullback")).args(args).output().expect("the program starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && stderr.is_empty(), "{args:?}: {stderr}");
    String::from_utf8(out.stdout).expect("text")
}

#[test]
fn the_text_gives_the_same_numbers() {
    let program = file("derive.slang", &format!("{PROGRAM}{OPERATORS}"));
    let expected = pullback(&["run", &program]);
    let mut text = String::new();
    for (function, mode) in
        [("sphere", "bwd"), ("sphere", "fwd"), ("horner", "bwd"), ("decay", "bwd"), ("both", "bwd")]
    {
        text += &pullback(&["derive", &program, function, "--mode", mode]);
    }
    let derived = file("derived.slang", &format!("{text}{TEXT}"));
    assert_eq!(pullback(&["run", &derived]), expected, "{text}");
}

#[test]
fn a_pullback_has_its_residuals_for_parameters() {
    let program = file("derive-apply.slang", &format!("{PROGRAM}{OPERATORS}"));
    let text = pullback(&["derive", &program, "horner", "--mode", "apply"]);
    assert!(text.contains("void horner_apply(float x[4], float t, int n, out float result"), "{text}");
    let (_, pullback_head) = text.split_once("void horner_pullback(").expect("the second function");
    let head = pullback_head.lines().next().expect("a line");
    assert!(head.contains("float d_result, out float d_x[4], out float d_t)"), "{head}");
    for kept in text.split("out ").filter_map(|p| p.strip_prefix("float kept")) {
        let name = kept.split([',', ')']).next().expect("a name");
        assert!(head.contains(&format!("float kept{name}")), "{name}: {head}");
    }
}

#[test]
fn a_residual_may_be_the_result() {
    let program = file("derive-exp.slang", "[Differentiable] float grow(float x) { return exp(x); }\n");
    let text = pullback(&["derive", &program, "grow", "--mode", "apply"]);
    assert!(text.contains("float grow_pullback(float result, float d_result)\n"), "{text}");
}

/// A function that reads all kinds of memory, counts, and accumulates gradients.
const MEMORY: &str = r#"
struct Sphere { float3 center; float radius; float2x3 turn; }
StructuredBuffer<Sphere> spheres;
RWStructuredBuffer<float> weights;
RWStructuredBuffer<float> gradients;
RWStructuredBuffer<uint> calls;
uniform float scale;

[BackwardDerivative(load_bwd)]
float load(int k) { return weights[k]; }
void load_bwd(int k, float d) { InterlockedAdd(gradients[k], d); }

[Differentiable]
float f(float3 p, int n)
{
    uint before;
    InterlockedAdd(calls[0], 1u, before);
    float s = before == 0u ? 0.0 : 100.0;
    [MaxIters(8)]
    for (int k = 0; k < n; k++)
    {
        Sphere near = spheres[k];
        s += load(k) * length(p - near.center) - near.radius * scale * p.y + dot(mul(near.turn, p), float2(1, -1));
    }
    weights[2] = detach(s);
    uint count, stride;
    weights.GetDimensions(count, stride);
    return s * count;
}
"#;

const MEMORY_BY_OPERATORS: &str = r#"
[numthreads(1, 1, 1)]
void main()
{
    var p = diffPair(float3(0.5, -1.0, 2.0));
    bwd_diff(f)(p, 2, 1.5);
    printf("%.9g %.9g %.9g\n", p.d.x, p.d.y, p.d.z);
    let y = fwd_diff(f)(diffPair(float3(0.5, -1.0, 2.0), float3(1, 2, 3)), 2);
    printf("%.9g %.9g\n", y.p, y.d);
}
"#;

const MEMORY_BY_TEXT: &str = r#"
[numthreads(1, 1, 1)]
void main()
{
    let d = f_bwd(float3(0.5, -1.0, 2.0), 2, 1.5);
    printf("%.9g %.9g %.9g\n", d.x, d.y, d.z);
    float y, dy;
    f_fwd(float3(0.5, -1.0, 2.0), 2, float3(1, 2, 3), y, dy);
    printf("%.9g %.9g\n", y, dy);
}
"#;

#[test]
fn memory_of_the_host_keeps_its_names() {
    let program = file("derive-memory.slang", &format!("{MEMORY}{MEMORY_BY_OPERATORS}"));
    let bwd = pullback(&["derive", &program, "f", "--mode", "bwd"]);
    let fwd = pullback(&["derive", &program, "f", "--mode", "fwd"]);
    // Each text declares what it uses; together they must declare it only once.
    let (declarations, _) = fwd.split_once("void f_fwd").expect("the function");
    let (_, backward) = bwd.split_once("\nfloat3 f_bwd").expect("the function");
    let (_, forward) = fwd.split_once("\nvoid f_fwd").expect("the function");
    let gradients = "RWStructuredBuffer<float> gradients;\n";
    let text = format!("{declarations}{gradients}float3 f_bwd{backward}void f_fwd{forward}{MEMORY_BY_TEXT}");
    let derived = file("derived-memory.slang", &text);
    let spheres = r#"spheres=[{"center":[1,2,3],"radius":0.5,"turn":[[1,2,3],[4,5,6]]},{"center":[-1,0,1],"radius":0.25,"turn":[[0.5,1,0],[2,0,1]]}]"#;
    let bindings = ["--bind", spheres, "--bind", "weights=[0.5,2,0]", "--bind", "gradients=[0,0,0]"];
    let rest = ["--bind", "calls=[0]", "--bind", "scale=0.75"];
    let run = |program: &str| pullback(&[&["run", program][..], &bindings, &rest].concat());
    assert_eq!(run(&derived), run(&program), "{text}");
}

#[test]
fn a_backward_derivative_of_the_users_makes_a_pullback() {
    let source = "RWStructuredBuffer<float> sums;\n[BackwardDerivative(load_bwd)]\nfloat load(int k) { return 1.0; }\n\
        void load_bwd(int k, float d) { sums[k] += d; }\n";
    let program = file("derive-own-pullback.slang", source);
    let text = pullback(&["derive", &program, "load", "--mode", "apply"]);
    assert!(text.contains("float load_apply(int k)\n"), "{text}");
    assert!(text.contains("void load_pullback(int k, float d_result)\n"), "{text}");
    assert!(text.contains("sums[k] = "), "{text}");
}
