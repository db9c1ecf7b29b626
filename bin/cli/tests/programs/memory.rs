//! Tests the memory that functions reach, in every command that calls functions, and on the backends that
//! call them. `documents/memory.md` shows how pointers in memory are bound.

use crate::common::{Out, file, pullback};

/// Functions that reach different kinds of memory: name, declaration, result, bindings, and the slope at `x =
/// 2` with these bindings.
fn kinds() -> impl Iterator<Item = [&'static str; 5]> {
    let lines = include_str!("memory.txt").lines();
    lines.map(|line| line.split(" | ").map(str::trim).collect::<Vec<_>>().try_into().expect("five columns"))
}

fn write(name: &str, declaration: &str, result: &str) -> String {
    let text = format!("{declaration}\n[Differentiable] float f(float x) {{ return {result}; }}\n");
    file(&format!("memory-{name}.slang"), &text)
}

/// The backends of this build; graphics processors only if there is one.
fn backends() -> Vec<&'static str> {
    let mut all = vec!["interp", "cranelift"];
    if cfg!(feature = "llvm") {
        all.extend(["llvm", "tiers"]);
    }
    if cfg!(feature = "wgpu") && pullback(&["devices"]).status == Some(0) {
        all.push("wgpu");
    }
    all
}

/// Runs a command on a backend; `None` if the backend is a device that reports that it cannot run it.
fn on(backend: &str, args: &[&str], binds: &[&str]) -> Option<Out> {
    let mut args = [args, &["--backend", backend]].concat();
    args.extend(binds.iter().flat_map(|bind| ["--bind", bind]));
    let out = pullback(&args);
    // A device reports features that it lacks (pointers, doubles).
    (backend != "wgpu" || !out.stderr.contains("error[E09")).then_some(out)
}

/// Runs a command on every backend.
fn on_each(args: &[&str], binds: &[&str], judge: impl Fn(&str, &Out)) {
    for backend in backends() {
        if let Some(out) = on(backend, args, binds) {
            judge(backend, &out);
        }
    }
}

/// The commands that call a function, except for `grad`.
fn commands(file: &str) -> [Vec<&str>; 4] {
    [
        vec!["gradcheck", file, "f", "--points", "2"],
        vec!["verify", file, "f", "--points", "1", "--backend", "interp,cranelift", "-O", "2"],
        vec!["bench", file, "--seconds", "0", "--count", "1"],
        vec!["fit", file, "--loss", "f", "--items", "1", "--steps", "1", "--out", "memory-out"],
    ]
}

#[test]
fn what_is_not_bound_is_refused_by_every_command() {
    for [name, declaration, result, _, _] in kinds() {
        let file = write(name, declaration, result);
        let grad = ["grad", &file, "f", "--at", "x=2"];
        let hessian = [&grad[..], &["--backend", "cranelift", "--mode", "hessian"]].concat();
        for command in commands(&file).into_iter().chain([grad.to_vec(), hessian]) {
            let out = pullback(&command);
            let (said, other) = match command[0] {
                "verify" => (&out.stdout, &out.stderr),
                _ => (&out.stderr, &out.stdout),
            };
            let says = said.contains(" is not bound: `--bind ") && other.is_empty();
            assert!(out.status == Some(1) && says, "{name} {command:?}: {}{}", out.stdout, out.stderr);
        }
    }
}

#[test]
fn what_is_bound_is_read_by_every_command() {
    for [name, declaration, result, binds, slope] in kinds() {
        let file = write(&format!("bound-{name}"), declaration, result);
        let binds: Vec<&str> = binds.split(' ').collect();
        on_each(&["grad", &file, "f", "--at", "x=2", "--json"], &binds, |backend, out| {
            let found = out.json()["gradient"]["x"].as_f64();
            assert!(
                out.status == Some(0) && found == slope.parse().ok(),
                "{name} on {backend}: {}",
                out.stdout
            );
        });
        for mut command in commands(&file) {
            command.extend(binds.iter().flat_map(|bind| ["--bind", bind]));
            let out = pullback(&command);
            let fine = out.status == Some(0) && !out.stdout.contains("not checked");
            let fine = fine && (command[0] != "gradcheck" || out.stdout.contains(" 0 unclear"));
            assert!(fine, "{name} {command:?}: {}{}", out.stdout, out.stderr);
        }
    }
}

#[test]
fn each_call_finds_memory_as_it_is_bound() {
    let in_struct = "struct S { float* p; int i; } uniform S s;";
    for (name, declaration, place, binds) in [
        ("state", "RWStructuredBuffer<float> n;", "n[0]", &["n=[2]"][..]),
        ("state-behind", in_struct, "s.p[0]", &["s.p=[2]", r#"s={"i":0}"#]),
    ] {
        let file = write(name, declaration, &format!("x * x * ({place} += 1)"));
        on_each(&["gradcheck", &file, "f", "--json"], binds, |backend, out| {
            let entries = out.json()["entries"].as_array().cloned().unwrap_or_default();
            let agree = entries.len() == 5 && entries.iter().all(|e| e["verdict"] == "agrees");
            assert!(out.status == Some(0) && agree, "{backend}: {}{}", out.stdout, out.stderr);
        });
    }
}
