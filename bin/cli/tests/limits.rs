//! Tests programs that do not end, or that take all memory: they stop with an error at a line, on every
//! backend and in every command.

mod common;

use std::io::Read;
use std::process::{Command, Stdio};

use common::{file, pullback};

/// The backends that run on the processor.
fn backends() -> Vec<&'static str> {
    let mut all = vec!["interp", "cranelift"];
    if cfg!(feature = "llvm") {
        all.extend(["llvm", "tiers"]);
    }
    all
}

const ENDLESS: &str = "RWStructuredBuffer<float> o;
[Differentiable] float ends(float x) { return x * x; }
[Differentiable] float f(float x)
{
    float y = x;
    while (y > -10.0) { y = y * 0.5 + 1; }
    return y;
}
[numthreads(1, 1, 1)]
void main() { o[0] = f(o[0]); }
";

#[test]
fn a_launch_without_an_end_is_stopped_at_a_line() {
    let path = file("limits-endless.slang", ENDLESS);
    for backend in backends() {
        let line = if backend == "interp" { 6 } else { 10 };
        let run = ["run", &path, "--bind", "o=[1]", "--backend", backend, "--seconds", "0.2", "--json"];
        let out = pullback(&run);
        let first = out.json()["diagnostics"][0].clone();
        assert_eq!((out.status, first["line"].as_u64()), (Some(1), Some(line)), "{backend}: {}", out.stderr);
        assert_eq!(first["code"], "E0801");
        let message = first["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("the program runs longer than 0.2 seconds"), "{message}");
        assert!(out.stderr.contains("limits-endless.slang:6:"), "the loop: {}", out.stderr);
        for command in [&["grad", &path, "f", "--at", "x=1"][..], &["gradcheck", &path, "f"]] {
            let out = pullback(&[command, &["--backend", backend, "--seconds", "0.2"]].concat());
            assert!(out.stderr.contains("limits-endless.slang:6:"), "{backend}: {}", out.stderr);
            assert_eq!((out.status, &out.stdout[..]), (Some(1), ""), "{command:?}");
        }
    }
}

#[test]
fn verify_goes_on_with_other_functions() {
    let path = file("limits-verify.slang", ENDLESS);
    let out =
        pullback(&["verify", &path, "--seconds", "0.2", "--points", "1", "-O", "1", "--backend", "interp"]);
    assert!(
        out.stdout.contains("f is not checked: it stops at every point: the program runs longer"),
        "{}",
        out.stdout
    );
    assert!(out.stdout.lines().any(|l| l.starts_with("ends ")), "{}", out.stdout);
}

#[test]
fn a_limit_that_is_not_reached_changes_nothing() {
    let path = file("limits-ends.slang", ENDLESS);
    for backend in backends() {
        let out = pullback(&["grad", &path, "ends", "--at", "x=3", "--backend", backend, "--seconds", "inf"]);
        assert!(out.stdout.contains("x = 6.0"), "{backend}: {}{}", out.stdout, out.stderr);
    }
    for wrong in ["0", "-1", "nan", "x"] {
        let out = pullback(&["run", &path, &format!("--seconds={wrong}")]);
        assert_eq!(out.status, Some(2), "{wrong}");
    }
    let out = pullback(&["run", &path, "--bind", "o=[1]", "--groups", "4294967295,1000,1"]);
    assert!(out.status == Some(2) && out.stderr.contains("no machine runs"), "{}", out.stderr);
}

const PRINTS: &str = "RWStructuredBuffer<int> o;
[numthreads(4, 1, 1)]
void main(uint3 t : SV_DispatchThreadID)
{
    for (int i = 0; i < o[0]; i++) printf(\"%d %d\\n\", int(t.x), i);
}
";

#[test]
fn text_is_shown_while_the_program_runs() {
    let path = file("limits-prints.slang", PRINTS);
    for backend in backends() {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pullback"))
            .args(["run", &path, "--bind", "o=[2000000000]", "--groups", "16", "--backend", backend])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut start = [0; 100_000];
        let mut stdout = child.stdout.take().expect("a pipe");
        stdout.read_exact(&mut start).expect("text");
        assert!(start.starts_with(b"0 0\n0 1\n0 2\n"), "{backend}");
        // A reader that closes the pipe is not an error.
        drop(stdout);
        let out = child.wait_with_output().expect("it ends");
        assert_eq!((out.status.code(), &out.stderr[..]), (Some(0), &b""[..]), "{backend}");
    }
}

#[test]
fn text_of_many_workers_is_in_order_and_takes_little() {
    let path = file("limits-order.slang", PRINTS);
    let lines = |t: i32| (0..200).map(move |i| format!("{t} {i}\n"));
    let expected: String = (0..256).flat_map(lines).collect();
    for backend in backends() {
        let args =
            ["run", &path, "--bind", "o=[200]", "--groups", "64", "--threads", "4", "--memory", "512K"];
        let out = pullback(&[&args[..], &["--out", "none", "--backend", backend]].concat());
        assert!(out.stdout == expected, "{backend}: {} {}", out.stdout.len(), out.stderr);
    }
}

#[test]
fn text_that_nobody_reads_is_bounded() {
    let path = file("limits-held.slang", PRINTS);
    for backend in backends() {
        let args =
            ["run", &path, "--bind", "o=[2000000000]", "--memory", "8M", "--json", "--backend", backend];
        let out = pullback(&args);
        assert_eq!(out.status, Some(1));
        let says = "`printf` wrote more than 1 MiB that could not be shown yet (thread 0, 0, 0)";
        let first = out.json()["diagnostics"][0].clone();
        assert_eq!(first["message"], says, "{backend}");
        assert!(first["line"].as_u64() > Some(1), "{backend}: {first}");
    }
}

#[test]
fn a_recursion_of_arrays_is_bounded_by_memory() {
    let text = "RWStructuredBuffer<float> o;
float r(float x, int n)
{
    float a[20000];
    a[n % 7] = x;
    if (n > 0) a[n % 7] = r(x, n - 1);
    return a[3] + a[n % 11];
}
[numthreads(1, 1, 1)] void main() { o[0] = r(o[0], DEPTH); }
";
    let path = file("limits-recursion.slang", text);
    for backend in backends() {
        let run = |depth: &str, memory: &str| {
            let define = format!("DEPTH={depth}");
            pullback(&[
                "run",
                &path,
                "-D",
                &define,
                "--bind",
                "o=[1]",
                "--backend",
                backend,
                "--memory",
                memory,
            ])
        };
        let out = run("3000", "64M");
        let message = "the program needs more than 64 MiB for large arrays";
        assert!(out.status == Some(1) && out.stderr.contains(message), "{backend}: {}", out.stderr);
        let at_line = out.stderr.contains("limits-recursion.slang:2:") || out.stderr.contains("slang:4:");
        let at_line = at_line || out.stderr.contains("slang:6:");
        assert!(at_line, "{backend}: {}", out.stderr);
        assert_eq!(run("10", "64M").status, Some(0), "{backend}");
    }
}

#[test]
fn arrays_that_are_shared_count_once() {
    let text = "RWStructuredBuffer<float> o;
float r(float a[20000], int n) { return n == 0 ? a[5] : r(a, n - 1); }
[numthreads(1, 1, 1)] void main() { float a[20000]; a[5] = o[0]; o[0] = r(a, 1000); }
";
    let path = file("limits-shared.slang", text);
    let out = pullback(&["run", &path, "--bind", "o=[3]", "--backend", "interp", "--memory", "16M"]);
    assert_eq!((out.status, &out.stdout[..]), (Some(0), "o: 3.0\n"), "{}", out.stderr);
}
