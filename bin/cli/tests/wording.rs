//! Tests the text of diagnostics as it is shown: the wording of the main ones, and that none shows an
//! internal name of the compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The output of `pullback check` for a file, without its path.
fn checked(path: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
    command.arg("check").arg(path);
    let output = command.output().expect("it starts");
    String::from_utf8_lossy(&output.stderr).replace(&path.display().to_string(), "FILE")
}

/// The output of `pullback check` for a program.
fn said(name: &str, program: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("wording-{name}.slang"));
    std::fs::write(&path, program).expect("writable");
    checked(&path)
}

#[track_caller]
fn says(name: &str, program: &str, lines: &[&str]) {
    let text = said(name, program);
    for line in lines {
        assert!(
            text.lines().any(|l| l.trim_start_matches([' ', '=', '|', '-']).starts_with(line)),
            "{line}\n\n{text}"
        );
    }
}

const PRODUCT: &str = "[Differentiable] float g(float x, float y) { return x * y; }\n";

#[test]
fn derivative_operators_are_told_with_their_parameters() {
    let signature = "help: it is 'bwd_diff(g)(inout DifferentialPair<float> x, inout DifferentialPair<float> y, float \
                     resultGradient)': a pair for each input that has a derivative, then the cotangent of the result";
    says(
        "few",
        &format!("{PRODUCT}void f() {{ var p = diffPair(1.0); bwd_diff(g)(p); }}"),
        &["error[E39999]: 'bwd_diff(g)' takes 3 arguments, got 1", signature],
    );
    says(
        "many",
        &format!("{PRODUCT}void f() {{ let p = diffPair(1.0, 1.0); fwd_diff(g)(p, p, p); }}"),
        &[
            "error[E39999]: 'fwd_diff(g)' takes 2 arguments, got 3",
            "help: it is 'fwd_diff(g)(DifferentialPair<float> x, DifferentialPair<float> y)'",
        ],
    );
}

#[test]
fn pairs_are_told_where_numbers_are_given() {
    for call in ["bwd_diff(g)(x, x, 1.0)", "fwd_diff(g)(x, x)"] {
        says(
            "pair",
            &format!("{PRODUCT}void f(float x) {{ {call}; }}"),
            &[
                "error[E30019]: expected an expression of type 'DifferentialPair<float>', got 'float'",
                "help: a pair is made by 'diffPair(x)' or 'diffPair(x, dx)', in a variable of its own",
            ],
        );
    }
    says(
        "plain",
        "struct S { float x; } void f(S s, S ds) { diffPair(s, ds); }",
        &[
            "error[E38029]: type 'S' does not conform to 'IDifferentiable'",
            "help: write 'struct S : IDifferentiable'",
        ],
    );
}

#[test]
fn likely_candidates_come_first() {
    let text = said("mul", "float4 f(float4x4 m, float3 v) { return mul(m, v); }");
    let first = text.lines().find(|line| line.contains("candidate: ")).unwrap_or_default();
    assert!(first.contains("mul(matrix<T, R, C>, vector<T, C>)"), "{text}");
    assert!(first.ends_with("argument 2: 'float3' is no 'float4'"), "{text}");
    assert!(!text.contains("core/"), "{text}");
}

#[test]
fn types_are_suggested_as_other_names_are() {
    for (wrong, right) in [
        ("flaot", "float"),
        ("Flaot3", "float3"),
        ("flot4x4", "float4x4"),
        ("unit", "uint"),
        ("DiferentialPair<float>", "DifferentialPair"),
        ("StructurdBuffer<float>", "StructuredBuffer"),
    ] {
        says("type", &format!("{wrong} x;"), &[&format!("help: did you mean '{right}'?")]);
    }
}

#[test]
fn what_has_no_place_points_nowhere() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wording-nowhere.slang");
    std::fs::write(&path, "[numthreads(1, 1, 1)] void kernel() {}\n").expect("writable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
    let output = command.arg("run").arg(&path).args(["--entry", "other"]).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("there is no entry point `other`"), "{text}");
    assert!(text.contains("the file has kernel") && !text.contains("-->"), "{text}");
    assert_eq!(text.lines().count(), 4, "no lines of the file are shown: {text}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
    let output =
        command.arg("run").arg(&path).args(["--entry", "other", "--json"]).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("E0701") && !text.contains("\"line\"") && !text.contains("column"), "{text}");
}

#[test]
fn places_that_threads_race_for_are_named_as_they_are_written() {
    let program = "RWStructuredBuffer<float> gw;
struct S { float3 b; }
RWStructuredBuffer<S> ss;
[numthreads(64, 1, 1)] void k(uint3 t : SV_DispatchThreadID)
{
    for (int i = 0; i < 4; i++) gw[i] += t.x;
    ss[3].b.y = t.x;
    gw[0]++;
}
";
    let text = said("races", program);
    for (verb, place) in [("change", "gw[i]"), ("write", "ss[3].b.y"), ("change", "gw[0]")] {
        let message = format!("the threads of a group {verb} `{place}` without an atomic operation");
        assert!(text.contains(&message), "{message}\n\n{text}");
    }
}

#[test]
fn loops_without_a_bound_are_warned_of_where_that_is_asked() {
    let program = "[Differentiable] float g(float x)
{
    float y = x;
    while (y < 10.0) { y = y * y + 1; }
    [MaxIters(8)] while (y < 20.0) { y = y * y + 1; }
    for (int i = 0; i < 3; i++) { y = y * y; }
    while (y < 40.0) { y = y * 2; }
    return y;
}
";
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wording-loops.slang");
    std::fs::write(&path, program).expect("writable");
    let lines = |args: &[&str]| -> Vec<String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
        let output = command.arg("check").arg(&path).args(args).output().expect("it starts");
        assert!(output.status.success());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.lines().filter(|l| l.contains("warning[") || l.contains("-->")).map(String::from).collect()
    };
    assert!(lines(&[]).is_empty());
    for code in ["0931", "E0931"] {
        let found = lines(&["--warn", code]);
        assert!(found.len() == 4 && found[0].starts_with("warning[E0931]"), "{found:?}");
        assert!(found[1].ends_with(":4:5") && found[3].ends_with(":7:5"), "{found:?}");
    }
}

#[test]
fn errors_in_what_is_not_run_are_mentioned() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wording-elsewhere.slang");
    let run = |other: &str| {
        let program = format!("{other}\nvoid main() {{ printf(\"%d\\n\", 1); }}\n");
        std::fs::write(&path, program).expect("writable");
        let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
        let output = command.arg("run").arg(&path).output().expect("it starts");
        assert!(output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let broken = run("float f() { return y; }");
    assert_eq!(broken.lines().count(), 1, "{broken}");
    assert!(
        broken.starts_with("note: the file has an error in what was not run: `pullback check "),
        "{broken}"
    );
    assert_eq!(run("float f() { return 1; }"), "");
}

/// Names that occur only in the compiler's sources. A program may use some of them itself.
const INTERNAL: [&str; 11] = [
    "__Builtin",
    "__Elementwise",
    "__FloatElementwise",
    "Elementwise",
    "Unknown",
    "naga",
    "LLVM ERROR",
    "<error>",
    "$lambda",
    "'$",
    "'some ",
];

/// Commands that compile a file, with the arguments after its name; `FUNCTION` stands for the first
/// differentiable function.
const COMMANDS: [&[&str]; 7] = [
    &["check"],
    &["run"],
    &["emit", "--target", "wgsl", "-o", "wording.out"],
    &["build", "-o", "wording.o"],
    &["derive", "FUNCTION"],
    &["grad", "FUNCTION", "--at", "x=1"],
    &["gradcheck", "FUNCTION", "--points", "1"],
];

/// The name of the first function that is marked [Differentiable].
fn differentiable(program: &str) -> Option<&str> {
    let rest = &program[program.find("[Differentiable]")? + "[Differentiable]".len()..];
    rest[..rest.find('(')?].split_whitespace().last()
}

/// The compiler's internal names that commands show for a file, unless the program contains them.
fn internal(path: &Path) -> Vec<String> {
    let Ok(program) = std::fs::read_to_string(path) else { return Vec::new() };
    let function = differentiable(&program);
    let mut shown = Vec::new();
    for words in COMMANDS {
        if words.contains(&"FUNCTION") && function.is_none() || !is_built(words) {
            continue;
        }
        let rest =
            words[1..].iter().map(|&word| if word == "FUNCTION" { function.unwrap_or(word) } else { word });
        let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
        command.current_dir(env!("CARGO_TARGET_TMPDIR")).arg(words[0]).arg(path).args(rest);
        if !matches!(words[0], "check" | "emit" | "build" | "derive") {
            command.args(["--seconds", "5"]);
        }
        let output = command.output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr);
        let found = INTERNAL.iter().find(|name| text.contains(**name) && !program.contains(**name));
        shown.extend(found.map(|name| format!("{name} by {words:?} in {}:\n{text}", path.display())));
    }
    shown
}

/// Returns true if this build has a command.
fn is_built(words: &[&str]) -> bool {
    match words[0] {
        "build" => cfg!(feature = "llvm"),
        "emit" => cfg!(feature = "gpu"),
        _ => true,
    }
}

#[test]
fn no_name_of_the_compilers_own_is_shown() {
    let folders = ["tests/codes", "tests/check", "tests/run/errors"];
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).expect("readable").map(|e| e.expect("readable").path()));
        } else if path.extension().is_some_and(|e| e == "slang") {
            files.push(path);
        }
    }
    assert!(files.len() > 150, "{}", files.len());
    let shown: Vec<String> = std::thread::scope(|scope| {
        let mut parts = Vec::new();
        for files in files.chunks(files.len().div_ceil(4)) {
            parts.push(scope.spawn(move || files.iter().flat_map(|f| internal(f)).collect::<Vec<_>>()));
        }
        parts.into_iter().flat_map(|part| part.join().expect("it ends")).collect()
    });
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}
