//! Tests `--backend cuda` on a machine without NVIDIA's driver, or without a device that it can use: it gives
//! an error, and constructs that PTX cannot express are reported all the same. Where there is a device,
//! `tests/gpu.rs` runs programs on it.
#![cfg(feature = "cuda")]

use std::path::PathBuf;
use std::process::Command;

/// Runs the command line on a program; returns its status, standard output and standard error.
fn pullback(source: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("cuda-{}.slang", source.len()));
    std::fs::write(&path, source).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
    command.args(args.iter().map(|&a| if a == "FILE" { path.as_os_str() } else { a.as_ref() }));
    let output = command.output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

const KERNEL: &str = "
RWStructuredBuffer<float> x;
[numthreads(4, 1, 1)] void main(uint3 t : SV_DispatchThreadID) { x[t.x] *= 2; }
";

/// A folder for outputs.
const OUT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/cuda-out");

const RECURSIVE: &str = "
RWStructuredBuffer<float> x;
float f(float a, int n) { return n == 0 ? a : f(a * 0.5, n - 1) + a; }
[numthreads(4, 1, 1)] void main(uint3 t : SV_DispatchThreadID) { x[t.x] = f(x[t.x], int(t.x)); }
";

#[test]
fn a_machine_without_a_device_says_so() {
    let (status, devices, said) = pullback("", &["devices"]);
    let run = ["run", "FILE", "--bind", "x=[1,2,3,4]", "--backend", "cuda"];
    let (code, out, err) = pullback(KERNEL, &run);
    if devices.contains("CUDA") {
        assert_eq!((code, out.as_str()), (Some(0), "x: 2 4 6 8\n"), "{err}");
        return;
    }
    assert!(said.contains("CUDA driver"), "{said}");
    assert_eq!(status, Some(i32::from(devices.is_empty())));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.starts_with("error[E0800]: this machine") && err.contains("CUDA driver"), "{err}");
    let (code, out, _) = pullback(KERNEL, &[&run[..], &["--json"]].concat());
    assert!(code == Some(1) && out.contains("\"code\":\"E0800\""), "{out}");
    let function = "[Differentiable] float f(float x) { return x * x; }";
    for args in [
        &["grad", "FILE", "f", "--at", "x=1", "--backend", "cuda"][..],
        &["gradcheck", "FILE", "f", "--backend", "cuda"],
        &["verify", "FILE", "--backend", "interp,cuda"],
        &["bench", "FILE", "--backend", "cuda"],
        &["fit", "FILE", "--loss", "f", "--items", "1", "--backend", "cuda", "--out", OUT],
    ] {
        let (code, out, err) = pullback(function, args);
        assert!(code == Some(1) && out.is_empty() && err.contains("CUDA driver"), "{args:?}: {out}{err}");
    }
}

#[test]
fn what_ptx_cannot_express_is_said_first() {
    let (code, _, err) = pullback(RECURSIVE, &["run", "FILE", "--bind", "x=[1,2,3,4]", "--backend", "cuda"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("E0930") && err.contains("the function `f`, which calls itself"), "{err}");
}
