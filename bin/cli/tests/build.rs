//! Tests `pullback build` with C programs that link the libraries. Without a C compiler the tests print a
//! message and pass.
#![cfg(feature = "llvm")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&path).expect("the folder is writable");
    path
}

/// Runs a program in a folder; returns true if it succeeded, and all its output.
fn run(folder: &Path, program: &str, args: &[&str]) -> (bool, String) {
    let output = Command::new(program).args(args).current_dir(folder).output().expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn has_cc() -> bool {
    let found = Command::new("cc").arg("--version").output().is_ok();
    if !found {
        eprintln!("there is no C compiler: skipped");
    }
    found
}

fn build(folder: &Path, source: &str, args: &[&str]) -> (bool, String) {
    std::fs::write(folder.join("program.slang"), source).expect("written");
    let all: Vec<&str> = ["build", "program.slang"].iter().chain(args).copied().collect();
    run(folder, env!("CARGO_BIN_EXE_pullback"), &all)
}

const FUNCTIONS: &str = "
struct Point : IDifferentiable { float2 at; half weight; int8_t tag; bool on; }
[Differentiable] float model(Point p, float w[3], no_diff int n, out float2 both)
{
    float s = w[0];
    for (int i = 0; i < n; i++)
        s = sin(s * p.at.x) + w[i % 3] * p.at.y;
    both = p.on ? p.at * s : float2(float(p.weight), float(p.tag));
    return s;
}
[Differentiable] double grow(double x)
{
    double y = x;
    while (detach(y) < 1000.0)
        y = y * y * 1.01 + 0.1;
    return y;
}
[Differentiable] float bounded(float x, no_diff int n)
{
    float y = x;
    [MaxIters(10)]
    for (int i = 0; i < n; i++)
        y = y * x;
    return y;
}
[Differentiable] double deep(double x, no_diff int n) { return n == 0 ? x : deep(x * 1.5, n - 1) * 0.5; }
static float state = 2.0;
[Differentiable] float stateful(float x) { state += 1.0; return x * detach(state); }
RWStructuredBuffer<float> xs;
StructuredBuffer<float> ys;
RWStructuredBuffer<float> sums;
[shader(\"compute\")] [numthreads(8, 1, 1)] void scale(uint3 id : SV_DispatchThreadID)
{
    if (id.x >= 21)
        return;
    var p = diffPair(xs[id.x + 21 * id.y]);
    bwd_diff(bounded)(p, 3, ys[id.x % 2]);
    xs[id.x + 21 * id.y] = p.d;
}
groupshared float last[8];
[shader(\"compute\")] [numthreads(8, 1, 1)] void turn(uint3 id : SV_DispatchThreadID, uint k : SV_GroupIndex)
{
    last[k] += xs[id.x];
    GroupMemoryBarrierWithGroupSync();
    xs[id.x] = last[7 - k];
}
[shader(\"compute\")] [numthreads(8, 1, 1)] void total(uint3 id : SV_DispatchThreadID)
{
    if (id.x >= 21)
        return;
    InterlockedAdd(sums[0], xs[id.x]);
    InterlockedAdd(sums[1 + id.x % 3], xs[id.x]);
    InterlockedAdd(sums[4 + id.x], xs[id.x]);
}
";

const PROGRAM: &str = r#"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "out.h"
static int bad = 0;
static void near(int line, double a, double b)
{
    if (!(fabs(a - b) <= 2e-3 * fmax(1.0, fabs(b)))) { printf("line %d: %g, not %g\n", line, a, b); bad = 1; }
}
#define NEAR(a, b) near(__LINE__, a, b)
int main(void)
{
    float p[2] = {0.7f, 0.3f}, w[3] = {0.5f, -0.25f, 1.0f}, one, two, both[2], dp[2], dw[3], dboth[2] = {0, 0};
    uint16_t half = 0x3c00, dhalf;
    NEAR(model(p, half, 5, 1, w, 9, &one, both), 0);
    NEAR(both[1], p[1] * one);
    NEAR(model_bwd(p, half, 5, 1, w, 9, 1.0f, dboth, dp, &dhalf, dw), 0);
    float q[2] = {0.701f, 0.3f};
    float r[2] = {0.699f, 0.3f};
    model(q, half, 5, 1, w, 9, &two, both);
    model(r, half, 5, 1, w, 9, &one, both);
    NEAR(dp[0], (two - one) / 0.002);
    model(p, half, -3, 0, w, 9, &one, both);
    NEAR(both[0], 1.0);
    NEAR(both[1], -3.0);
    double g, a, b, d;
    NEAR(grow(1.5, &g) + grow(1.5 + 1e-6, &a) + grow(1.5 - 1e-6, &b) + grow_bwd(1.5, 1.0, &d), 0);
    NEAR(d, (a - b) / 2e-6);
    NEAR(grow_fwd(1.5, 1.0, &g, &a), 0);
    NEAR(a, d);
    /* an error leaves the function, which can be called again */
    for (int k = 0; k < 3; k++) {
        float x;
        int status = bounded_bwd(1.1f, 20, 1.0f, &x);
        if (status == 0 || !out_message(status) || !strstr(out_message(status), "MaxIters")) bad = 2;
        NEAR(bounded_bwd(1.1f, 3, 1.0f, &x), 0);
        NEAR(x, 4 * 1.331);
    }
    NEAR(deep_bwd(1.0, 40, 1.0, &d), 0);
    NEAR(d, pow(0.75, 40));
    int status = deep(1.0, 100000000, &d);
    if (status == 0 || !strstr(out_message(status), "deep")) bad = 3;
    float s;
    NEAR(stateful(2.0f, &s) + stateful(2.0f, &s), 0);
    NEAR(s, 6.0);
    if (out_message(0) || out_message(-1) || out_message(12345)) bad = 4;
    float xs[42], ys[2] = {1, 2};
    for (int k = 0; k < 42; k++) xs[k] = k * 0.1f;
    float sums[25] = {0};
    pullback_buffer buffers[3] = {{xs, 42}, {ys, 2}, {sums, 25}};
    NEAR(scale(buffers, 3, 2, 1), 0);
    for (int k = 0; k < 42; k++) NEAR(xs[k], 4 * pow(k * 0.1, 3) * ys[k % 21 % 2]);
    /* nothing to write to, nothing to read */
    pullback_buffer none[3] = {{0, 0}, {0, 0}, {0, 0}};
    NEAR(scale(none, 3, 1, 1) + scale(buffers, 0, 1, 1) + scale(buffers, 1, 0, 1), 0);
    /* groups of as many threads as there are lanes meet at barriers; their memory begins with zeros */
    for (int k = 0; k < 16; k++) xs[k] = k;
    NEAR(turn(buffers, 2, 1, 1), 0);
    for (int k = 0; k < 16; k++) NEAR(xs[k], k / 8 * 8 + 7 - k % 8);
    for (int k = 0; k < 42; k++) xs[k] = k;
    NEAR(total(buffers, 3, 1, 1) + total(buffers, 3, 1, 1), 0);
    NEAR(sums[0], 420);
    for (int k = 0; k < 3; k++) NEAR(sums[1 + k], 2 * (k * 7 + 63));
    for (int k = 0; k < 21; k++) NEAR(sums[4 + k], 2 * k);
    return bad;
}
"#;

#[test]
fn functions_and_kernels_are_called_from_c() {
    if !has_cc() {
        return;
    }
    let folder = folder("build");
    std::fs::write(folder.join("main.c"), PROGRAM).expect("written");
    for (library, link) in [
        ("libout.so", &["-L.", "-lout", "-Wl,-rpath,."][..]),
        ("libout.a", &["libout.a"]),
        ("out.o", &["out.o"]),
    ] {
        for more in [&[][..], &["--native"], &["--exclusive"]] {
            let args: Vec<&str> = ["-o", library, "--header", "out.h"].iter().chain(more).copied().collect();
            let (done, text) = build(&folder, FUNCTIONS, &args);
            assert!(done, "{text}");
            let header = std::fs::read_to_string(folder.join("out.h")).expect("a header");
            assert_eq!(header.contains("No two calls at a time"), more == ["--exclusive"]);
            let args: Vec<&str> = ["-Wall", "-Werror", "main.c", "-o", "main"]
                .iter()
                .chain(link)
                .chain(&["-lm"])
                .copied()
                .collect();
            let (done, text) = run(&folder, "cc", &args);
            assert!(done, "{text}\n{header}");
            let (done, text) = run(&folder, "./main", &[]);
            assert!(done, "{library} {more:?}: {text}\n{header}");
            std::fs::remove_file(folder.join(library)).expect("it was made");
        }
    }
}

/// Second derivatives of unbounded loops: stacks grow, are copied and are added.
#[test]
fn second_derivatives_of_loops_are_called_from_c() {
    if !has_cc() {
        return;
    }
    let folder = folder("second");
    let source = "
[Differentiable] float g(float x, no_diff int n)
{
    float s = x;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            s = s * x * 0.5 + s;
    return s;
}
[Differentiable] float slope(float x, no_diff int n)
{
    DifferentialPair<float> p = diffPair(x, 0.0);
    bwd_diff(g)(p, n, 1.0);
    return p.d;
}
";
    let (done, text) = build(&folder, source, &["slope", "-o", "libsecond.so", "--header", "second.h"]);
    assert!(done, "{text}");
    let main = "
#include \"second.h\"
#include <stdio.h>
int main(void)
{
    float first, second;
    int status = slope(0.7f, 4, &first) | slope_bwd(0.7f, 4, 1.0f, &second);
    printf(\"%d %.4f %.4f\\n\", status, first, second);
    return 0;
}
";
    std::fs::write(folder.join("main.c"), main).expect("written");
    let made = run(&folder, "cc", &["main.c", "-L.", "-lsecond", "-Wl,-rpath,.", "-o", "main"]);
    assert!(made.0, "{}", made.1);
    // The second derivative of x (1 + x/2)^6.
    let (x, y) = (0.7f64, 1.35f64);
    let first = y.powi(6) + x * 3.0 * y.powi(5);
    let second = 6.0 * y.powi(5) + x * 7.5 * y.powi(4);
    let (done, text) = run(&folder, "./main", &[]);
    assert!(done && text == format!("0 {first:.4} {second:.4}\n"), "{text} instead of {first} {second}");
}

#[test]
fn what_no_library_can_have_is_refused() {
    let folder = folder("refused");
    let mut buffer = FUNCTIONS.replace("return x * detach(state)", "return x * ys[0]");
    let (done, text) = build(&folder, &buffer, &["-o", "out.o"]);
    assert!(!done && text.contains("a function that uses the buffer 'ys'"), "{text}");
    buffer = "groupshared float s[32]; RWStructuredBuffer<float> x; [numthreads(32, 1, 1)] void k(uint i : SV_GroupIndex)
        { s[i] = x[i]; GroupMemoryBarrierWithGroupSync(); x[i] = s[31 - i]; }"
        .to_string();
    let (done, text) = build(&folder, &buffer, &["-o", "out.o"]);
    assert!(
        !done && text.contains("a kernel with barriers whose group is not of 4, 8 or 16 threads"),
        "{text}"
    );
    let (done, text) = build(&folder, FUNCTIONS, &["-o", "out.txt"]);
    assert!(!done && text.contains("ends in none of .o, .a and .so"), "{text}");
    let (done, text) = build(&folder, "int f() { return 1; }", &["-o", "out.o"]);
    assert!(!done && text.contains("nothing to build"), "{text}");
    let (done, text) = build(&folder, "void f() { printf(\"x\"); }", &["f", "-o", "out.o"]);
    assert!(
        !done && text.contains("a library cannot have `printf`") && text.contains("program.slang:1:"),
        "{text}"
    );
}

/// Names of functions and of parameters with a meaning in C, in C++, in their libraries or for compilers.
const NAMES: &str = "
[Differentiable] float restrict(float register, float auto, float signed) { return register * auto + signed; }
[Differentiable] float sin(float linux, float unix) { return linux * unix; }
[Differentiable] float malloc(float errno, float delete) { return errno * delete; }
[Differentiable] float memcpy(float template, float new) { return template * new; }
[Differentiable] float main(float union, float xor) { return union * xor; }
[Differentiable] float NAN(float I, float NULL, float INT32_MAX) { return I * NULL * INT32_MAX; }
[Differentiable] float expf(float int32_t, float size_t) { return int32_t * size_t; }
[Differentiable] void two(float out_a, out float a, float a2, inout float asm) { a = out_a * a2 * asm; }
[Differentiable] float \u{3b1}\u{3b2}(float \u{e9}, float \u{fc}) { return \u{e9} * \u{fc}; }
[Differentiable] float \u{3b2}(float x) { return x; }
struct S : IDifferentiable { float typename; float2 goto_; }
[Differentiable] float signal(S this_, float typedef_) { return this_.typename * this_.goto_.x * typedef_; }
namespace std { [Differentiable] float move(float x) { return x; } }
[Differentiable] float far(float near, float stdin) { return near * stdin; }
[Differentiable] float conj(float sa_handler, float st_mtime) { return sa_handler * st_mtime; }
[Differentiable] float fadd(float x) { return x; }
[Differentiable] float j0f(float x) { return x; }
[Differentiable] float drand48(float x) { return x; }
[Differentiable] float sync(float x) { return x; }
[Differentiable] float timezone(float x) { return x; }
[Differentiable] float strtok_r(float x) { return x; }
RWStructuredBuffer<float> o;
[shader(\"compute\")] [numthreads(1, 1, 1)] void free() { o[0] = 1; }
[shader(\"compute\")] [numthreads(1, 1, 1)] void \u{3b3}() { o[0] = 1; }
";

#[test]
fn headers_of_any_names_compile() {
    let folder = folder("names");
    let (ok, text) = build(&folder, NAMES, &["-o", "libint.o", "--header", "int.h"]);
    assert!(ok, "{text}");
    let header = std::fs::read_to_string(folder.join("int.h")).expect("a header");
    for name in ["int_sin(", "int_sin_bwd(", "int_malloc(", "int_main(", "int_free(", "two(", "u03b1u03b2("] {
        assert!(header.contains(&format!("int {name}")), "{name}: {header}");
    }
    let all = "#include <assert.h>\n#include <complex.h>\n#include <errno.h>\n#include <limits.h>\n#include <math.h>\n\
        #include <setjmp.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
        #include <time.h>\n#include <sys/stat.h>\n#include <unistd.h>\n#include \"int.h\"\n";
    let plain = "#include \"int.h\"\n";
    for (file, text) in [
        ("all.c", all),
        ("plain.c", plain),
        ("all.cpp", &all.replace("<complex.h>", "<cmath>")),
        ("plain.cpp", plain),
    ] {
        std::fs::write(folder.join(file), text).expect("written");
        let compiler = if file.ends_with(".c") { "cc" } else { "c++" };
        if Command::new(compiler).arg("--version").output().is_err() {
            eprintln!("there is no {compiler}: skipped");
            continue;
        }
        let (ok, text) = run(&folder, compiler, &["-Wall", "-Werror", "-c", file, "-o", "checked.o"]);
        assert!(ok, "{file}: {text}\n{header}");
    }
}

#[test]
fn names_that_become_one_are_refused_at_the_line() {
    let folder = folder("one-name");
    for (text, line) in [
        (
            "[Differentiable] float f(float x) { return x; }\n[Differentiable] float f_bwd(float x) { return x; }",
            "program.slang:2:",
        ),
        (
            "[Differentiable] float f(float x) { return x; }\n[Differentiable] float f_fwd(float x) { return x; }",
            "program.slang:2:",
        ),
        ("[Differentiable] float one_message(float x) { return x; }", "program.slang:1:"),
        ("[Differentiable] float pullback_buffer(float x) { return x; }", "program.slang:1:"),
        (
            "[Differentiable] float sin(float x) { return x; }\n[Differentiable] float one_sin(float x) { return x; }",
            "program.slang:2:",
        ),
    ] {
        let (ok, said) = build(&folder, text, &["-o", "one.o", "--header", "one.h"]);
        assert!(!ok && said.contains("one name in C") && said.contains(line), "{text}: {said}");
    }
}
