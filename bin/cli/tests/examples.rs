//! Runs every example: those in the help of each command, on programs that fit them, and every command in the README's
//! table, on the README's own kernel. All must succeed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PULLBACK: &str = env!("CARGO_BIN_EXE_pullback");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The program that most examples are about.
const KERNEL: &str = "\
[Differentiable] float f(float x, float3 y) { return x * x + dot(y, y) * x; }
[Differentiable] float loss(float x) { return exp(-x) * x; }
[Differentiable] float[3] residuals(float p[4])
{
    float r[3];
    for (int k = 0; k < 3; k++) r[k] = p[k] * p[k + 1] - 1.0;
    return r;
}
[Differentiable] float energy(float p[4])
{
    float r[3] = residuals(p);
    return r[0] * r[0] + r[1] * r[1] + r[2] * r[2];
}
StructuredBuffer<float> x;
RWStructuredBuffer<float> out;
[shader(\"compute\")] [numthreads(1, 1, 1)]
void computeMain(uint3 tid : SV_DispatchThreadID) { out[tid.x] = loss(x[tid.x]); }
";

const LINE: &str = "\
[Differentiable] float loss(float slope, float offset, no_diff float x, no_diff float y)
{
    float d = slope * x + offset - y;
    return d * d;
}
";

const DECAY: &str = "\
[Differentiable] float residual(float a, float rate, no_diff float t, no_diff float y)
{
    return a * exp(-rate * t) - y;
}
";

const FIELD: &str = "\
[Differentiable] float3 render(float weights[6], no_diff float2 uv)
{
    return float3(weights[0], weights[1], weights[2]) + weights[3] * uv.x + weights[4] * uv.y + weights[5] * uv.x * uv.y;
}
[Differentiable] float loss(float weights[6], no_diff float2 uv, no_diff float3 color)
{
    float3 d = render(weights, uv) - color;
    return dot(d, d);
}
";

const RULES: &str = "\
[ForwardDerivative(cube_fwd)] float cube(float x) { return x * x * x; }
[Differentiable] DifferentialPair<float> cube_fwd(DifferentialPair<float> x)
{
    return diffPair(x.p * x.p * x.p, 3.0 * x.p * x.p * x.d);
}
";

const WAVE: &str = "\
[Differentiable] float[2] advance(float x[2], float stiffness, no_diff int first, no_diff int count)
{
    [CheckpointStates(10)]
    for (int k = 0; k < count; k++)
    {
        x[1] -= stiffness * x[0];
        x[0] += x[1];
    }
    return x;
}
[Differentiable] float energy(float x[2]) { return x[0] * x[0]; }
";

/// A folder with the programs and data that examples name.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pullback-examples-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    for inner in ["src", "examples", "scratch"] {
        std::fs::create_dir_all(folder.join(inner)).expect("a folder");
    }
    let rows = |f: &dyn Fn(f64) -> f64| -> String {
        (0..20).map(|k| format!("{},{}\n", k as f64 * 0.1, f(k as f64 * 0.1))).collect()
    };
    std::fs::create_dir_all(folder.join("target/site/playground")).expect("a folder");
    for (file, text) in [
        ("target/site/playground/index.html", "<p>".to_string()),
        ("kernel.slang", KERNEL.to_string()),
        ("src/kernel.slang", KERNEL.to_string()),
        ("line.slang", LINE.to_string()),
        ("rules.slang", RULES.to_string()),
        ("points.csv", "x,y\n".to_string() + &rows(&|x| 3.0 * x + 1.0)),
        ("decay.slang", DECAY.to_string()),
        ("decay.csv", "t,y\n".to_string() + &rows(&|t| 2.0 * (-0.7 * t).exp())),
        ("field.slang", FIELD.to_string()),
        ("wave.slang", WAVE.to_string()),
        ("start.json", "{\"x\": [1.0, 0.0], \"stiffness\": 0.01}".to_string()),
        ("point.json", "{\"p\": [0.5, 1.0, 1.5, 2.0]}".to_string()),
    ] {
        std::fs::write(folder.join(file), text).expect("a file");
    }
    let examples = Path::new(ROOT).join("examples");
    for file in ["gaussians.slang", "astronaut-256.png"] {
        std::fs::copy(examples.join(file), folder.join("examples").join(file)).expect("a file");
    }
    std::fs::copy(examples.join("astronaut-256.png"), folder.join("photo.png")).expect("a file");
    folder
}

fn pullback(args: &[&str]) -> Output {
    Command::new(PULLBACK).args(args).output().expect("it runs")
}

/// Runs a line of a shell in a folder, where `pullback` is the program under test.
fn run(line: &str, folder: &Path) -> Result<(), String> {
    let bin = Path::new(PULLBACK).parent().expect("a folder").display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder).env("PATH", path).env("HOME", folder.join("scratch"));
    let out = command.output().map_err(|error| error.to_string())?;
    match out.status.success() {
        true => Ok(()),
        false => Err(format!("{line}\n{}", String::from_utf8_lossy(&out.stderr))),
    }
}

/// The names of the commands.
fn commands() -> Vec<String> {
    let help = String::from_utf8(pullback(&["--help"]).stdout).expect("text");
    let lines = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let names = lines.take_while(|line| !line.trim().is_empty()).filter(|line| !line.starts_with("    "));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(String::from)
        .collect()
}

/// Fits of examples take a few steps only, and what the machine or the build lacks is left out.
fn prepared(example: &str) -> String {
    let line = example
        .replace("generate |", "cat kernel.slang |")
        .replace("*.slang", "kernel.slang src/kernel.slang");
    let line = line
        .replace("~/", "scratch/")
        .replace("bash > scratch/.local/share/bash-completion/completions/", "bash > scratch/");
    match line.split(' ').nth(1) {
        Some("fit") => line + " --steps 2",
        // A server runs until it is ended.
        Some("playground") => format!("{line} & sleep 0.3; kill $!"),
        _ => line,
    }
}

#[test]
fn examples_in_help_run() {
    let folder = folder("help");
    run("pullback fit examples/gaussians.slang --checkpoint run.json --steps 1", &folder)
        .expect("a checkpoint");
    let (mut faults, mut ran) = (Vec::new(), 0);
    for command in commands() {
        let help = String::from_utf8(pullback(&[&command, "--help"]).stdout).expect("text");
        let examples = help.lines().skip_while(|line| !line.starts_with("Example")).skip(1);
        let examples = examples.take_while(|line| !line.trim().is_empty()).map(str::trim);
        for example in examples.filter(|line| line.contains("pullback ")) {
            // Without LLVM there are no libraries.
            if example.contains("build")
                && !String::from_utf8_lossy(&pullback(&["devices"]).stdout).contains("LLVM")
            {
                continue;
            }
            ran += 1;
            if let Err(fault) = run(&prepared(example), &folder) {
                faults.push(fault);
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(ran >= 20, "only {ran} examples were found");
}

#[test]
fn commands_of_the_readme_run_on_its_kernel() {
    let folder = folder("readme");
    let text = std::fs::read_to_string(Path::new(ROOT).join("README.md")).expect("text");
    let kernel = text.split("```slang decay.slang\n").nth(1).and_then(|rest| rest.split("```").next());
    std::fs::write(folder.join("decay.slang"), kernel.expect("a kernel")).expect("a file");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let commands: Vec<&str> = rows.map(|row| row.0).filter(|row| row.contains("decay.slang")).collect();
    assert!(commands.len() >= 10, "{commands:?}");
    let mut faults = Vec::new();
    for command in commands {
        let has_llvm = || String::from_utf8_lossy(&pullback(&["devices"]).stdout).contains("LLVM");
        if command.starts_with("pullback build") && !has_llvm() {
            continue;
        }
        if let Err(fault) = run(command, &folder) {
            faults.push(fault);
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
