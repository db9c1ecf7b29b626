//! Tests that output that cannot be written is an error, and that an existing file is never left partly
//! written.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROGRAM: &str = "
RWStructuredBuffer<float> o;
[shader(\"compute\")] [numthreads(1, 1, 1)] void k(uint3 i : SV_DispatchThreadID) { o[i.x] = i.x + 1; }
[Differentiable] float f(float x) { return x * x; }
";

const LOSSES: &str = "
[Differentiable] float lin(float a) { return -a; }
[Differentiable] float saddle(float a) { return -a * a; }
[Differentiable] float root(float a) { return sqrt(a); }
[Differentiable] float quad(float a) { return (a - 3) * (a - 3); }
[Differentiable] float steep(float a) { return exp(a * a); }
[Differentiable] float log1(float a) { return log(a); }
";

fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("outputs-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("the folder is writable");
    std::fs::write(path.join("k.slang"), PROGRAM).expect("written");
    std::fs::write(path.join("fit.slang"), LOSSES).expect("written");
    path
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
    command.args(args).current_dir(folder);
    command
}

fn run(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let out = command(folder, args).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

const COMMANDS: [&[&str]; 15] = [
    &["run", "k.slang", "--bind", "o=zeros:4"],
    &["run", "k.slang", "--bind", "o=zeros:4", "--json"],
    &["emit", "k.slang"],
    &["emit", "k.slang", "--stage", "opt"],
    &["check", "k.slang", "--json"],
    &["grad", "k.slang", "f", "--at", "x=1"],
    &["gradcheck", "k.slang", "f"],
    &["verify", "k.slang", "--backend", "interp"],
    &["explain", "k.slang", "f"],
    &["derive", "k.slang", "f"],
    &["bench", "k.slang", "--seconds", "0", "--count", "1"],
    &["fit", "fit.slang", "--loss", "quad", "--items", "1", "--steps", "1", "--out", "out"],
    &["--help"],
    &["run", "--help"],
    &["--version"],
];

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_in_every_command() {
    let folder = folder("full");
    for args in COMMANDS {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let out = command(&folder, args).stdout(Stdio::from(full)).output().expect("it starts");
        let err = String::from_utf8_lossy(&out.stderr);
        let says = err.contains("error[E0802]: cannot write to standard output: ");
        assert!(out.status.code() == Some(1) && says, "{args:?}: {err}");
    }
    for args in [
        &["run", "k.slang", "--bind", "o=zeros:4", "--out", "o=@/dev/full"][..],
        &["emit", "k.slang", "-o", "/dev/full"],
    ] {
        let (status, _, err) = run(&folder, args);
        assert!(status == Some(1) && err.contains("cannot write `/dev/full`"), "{args:?}: {err}");
    }
    // A device is written to and not replaced by a file.
    let (status, out, _) = run(&folder, &["emit", "k.slang", "-o", "/dev/stdout"]);
    assert!(status == Some(0) && out.contains("func"), "{out}");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let folder = folder("pipe");
    for args in COMMANDS {
        let mut child =
            command(&folder, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        let out = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&out.stderr);
        let loud = err.contains("error") || err.contains("panic");
        assert!(out.status.code() == Some(0) && !loud, "{args:?}: {err}");
    }
}

#[test]
fn a_file_that_fails_stays_as_it_was() {
    let folder = folder("whole");
    let written = |name: &str| std::fs::read(folder.join(name)).expect("it is there");
    let bind = ["run", "k.slang", "--bind", "o=zeros:4", "--groups", "4", "--out", "o=@o.npy"];
    assert_eq!(run(&folder, &bind).0, Some(0));
    let whole = written("o.npy");
    for path in ["no/o.npy", "k.slang/o.npy", "."] {
        let out = format!("o=@{path}");
        let (status, _, err) = run(&folder, &["run", "k.slang", "--bind", "o=zeros:4", "--out", &out]);
        assert!(status == Some(1) && err.contains("E0802"), "{path}: {err}");
    }
    assert_eq!(written("o.npy"), whole);
    let names: Vec<_> = std::fs::read_dir(&folder).expect("lists").flatten().map(|e| e.file_name()).collect();
    assert_eq!(names.len(), 3, "nothing is left behind: {names:?}");
    #[cfg(unix)]
    {
        // A link stays a link, and its target is replaced.
        std::os::unix::fs::symlink("o.npy", folder.join("link.npy")).expect("links");
        let args = ["run", "k.slang", "--bind", "o=zeros:2", "--groups", "2", "--out", "o=@link.npy"];
        assert_eq!(run(&folder, &args).0, Some(0));
        assert!(folder.join("link.npy").is_symlink() && written("o.npy") != whole);
    }
}

#[test]
fn a_brace_list_of_a_giant_array_is_refused() {
    let folder = folder("giant");
    for text in [
        "struct V { bool v[2147483647]; } float f() { V v = { { true } }; return v.v[0] ? 1 : 0; }",
        "struct V { float v[2147483647]; } float f() { V v = {}; return v.v[0]; }",
        "float f() { float v[2000000000] = { 1, 2 }; return v[1]; }",
        "struct V { float4 v[500000000]; } float f() { V v = { { float4(1), float4(2) } }; return v.v[1].x; }",
    ] {
        let kernel = "[shader(\"compute\")] [numthreads(1, 1, 1)] void k() { o[0] = f(); }";
        let text = format!("RWStructuredBuffer<float> o;\n{text}\n{kernel}\n");
        std::fs::write(folder.join("giant.slang"), text).expect("written");
        let (status, _, err) = run(&folder, &["run", "giant.slang", "--bind", "o=zeros:1"]);
        assert!(status == Some(1) && err.contains("giant.slang:2:"), "{status:?} {err}");
    }
}

#[test]
fn long_words_are_not_quoted_whole() {
    let folder = folder("long");
    let long = "x".repeat(100_000);
    let (_, _, err) = run(&folder, &["run", "k.slang", "--bind", &format!("o={long}")]);
    assert!(err.len() < 2000, "{}", err.len());
    let (_, _, err) = run(&folder, &["grad", "k.slang", "f", "--at", &format!("x={long}")]);
    assert!(err.len() < 2000, "{}", err.len());
    let word = "x".repeat(200_000);
    for text in [
        format!("float f() {{ return {word}; }}"),
        format!("{word} f() {{ return 1; }}"),
        format!("float f() {{ return 1.{}; }}", "z".repeat(200_000)),
        format!("#error {word}"),
        format!("import {word};"),
        format!("#include \"{word}\""),
        format!("float f() {{ f.{word}(); {word} {word}; }}"),
    ] {
        std::fs::write(folder.join("long.slang"), &text).expect("written");
        for args in [&["check", "long.slang"][..], &["check", "long.slang", "--json"]] {
            let (status, out, err) = run(&folder, args);
            let all = out.len() + err.len();
            assert!(status == Some(1) && all < 20_000, "{}…: {all} bytes", &text[..40]);
        }
    }
}

fn fit(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    run(folder, &[&["fit", "fit.slang", "--quiet", "--out", "out"], args].concat())
}

#[test]
fn a_fit_that_diverges_is_an_error_and_keeps_the_best() {
    let folder = folder("fit");
    let (status, _, err) = fit(&folder, &["--loss", "quad", "--items", "2", "--steps", "2000"]);
    assert_eq!(status, Some(0), "{err}");
    let good = std::fs::read(folder.join("out/fit-a.npy")).expect("written");
    for args in [
        &["--loss", "lin", "--rate", "1e9"][..],
        &["--loss", "lin", "--optimizer", "lbfgs"],
        &["--loss", "saddle", "--optimizer", "lbfgs"],
        &["--loss", "quad", "--rate", "1e30"],
        &["--loss", "steep", "--rate", "100", "--param", "a=1"],
        &["--loss", "log1", "--rate", "1", "--param", "a=1"],
    ] {
        let (status, out, err) = fit(&folder, &[args, &["--items", "2", "--checkpoint", "c.json"]].concat());
        let says =
            err.contains("the fit diverged: ") && err.contains("step ") && err.contains("fit-a-best.npy");
        assert!(status == Some(1) && says && out.is_empty(), "{args:?}: {out}{err}");
        assert_eq!(std::fs::read(folder.join("out/fit-a.npy")).expect("stays"), good, "{args:?}");
        let best = std::fs::read(folder.join("out/fit-a-best.npy")).expect("kept");
        let number = f32::from_le_bytes(best[best.len() - 4..].try_into().expect("four bytes"));
        assert!(number.is_finite() && number.abs() < 1e10, "{args:?}: {number}");
        assert!(!folder.join("c.json").exists(), "{args:?}: no checkpoint of what diverged");
    }
    for args in [&["--loss", "root", "--param", "a=-1"][..], &["--loss", "log1", "--param", "a=0"]] {
        let (status, _, err) = fit(&folder, &[args, &["--items", "2"]].concat());
        assert!(status == Some(1) && err.contains("at the start"), "{args:?}: {err}");
    }
    let (status, _, err) = fit(&folder, &["--loss", "quad", "--items", "2", "--rate", "nan"]);
    assert!(status == Some(2) && err.contains("not a number"), "{err}");
}

#[test]
fn a_fit_says_before_it_runs_what_it_cannot_write() {
    let folder = folder("before");
    let long = ["--loss", "quad", "--items", "2", "--steps", "1000000000", "--seconds", "100"];
    let (status, _, err) = run(&folder, &[&["fit", "fit.slang", "--out", "k.slang/out"], &long[..]].concat());
    assert!(status == Some(1) && err.contains("cannot write `k.slang/out`"), "{err}");
    let (status, _, err) = fit(&folder, &[&["--checkpoint", "k.slang/c.json"], &long[..]].concat());
    assert!(status == Some(1) && err.contains("cannot write `k.slang`"), "{err}");
}

#[test]
fn a_checkpoint_does_not_grow_and_need_not_be_there() {
    let folder = folder("checkpoint");
    let size = |steps: &str| {
        let args = ["--loss", "quad", "--items", "2", "--checkpoint", "c.json", "--resume", "--steps", steps];
        let (status, _, err) = fit(&folder, &args);
        assert_eq!(status, Some(0), "{err}");
        (std::fs::metadata(folder.join("c.json")).expect("saved").len(), err)
    };
    let (first, said) = size("20");
    assert!(said.contains("note: there is no checkpoint `c.json` yet"), "{said}");
    let (later, said) = size("40");
    assert!(said.is_empty() && later >= first, "{said}");
    let (most, _) = size("120000");
    assert!(most < 150_000, "{most} bytes");
}
