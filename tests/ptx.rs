//! Writes every program of tests/run as PTX: it is written, or refused with a reason; and `ptxas` accepts it
//! if it is installed (on the path, or named by `PULLBACK_PTXAS`).
#![cfg(feature = "llvm")]

use std::path::{Path, PathBuf};
use std::process::Command;

use driver::gpu::{Target, emit_compiled};
use driver::pipeline::{Failure, Kind, Options};
use driver::session::{FileOptions, Session};
use pullback_tests::commands::slang::{compile_with, options};
use pullback_tests::file::{TestFile, programs};
use pullback_tests::{floor, on_all_cores};

/// The result of `ptxas` for a text; `None` if it is not installed.
fn assemble(ptxas: &Path, text: &[u8]) -> Option<Result<(), String>> {
    let path = std::env::temp_dir().join(format!(
        "pullback-{}-{:?}.ptx",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::write(&path, text).expect("the text is written");
    let target = format!("-arch={}", generation(&String::from_utf8_lossy(text)));
    let run = Command::new(ptxas).args([&*target, "-O0", "-o", "/dev/null"]).arg(&path).output();
    std::fs::remove_file(&path).expect("the text is removed");
    let output = run.ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { Ok(()) } else { Err(said) })
}

/// The generation that a text is for.
fn generation(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix(".target ")).expect("there is a target")
}

#[test]
fn programs_are_accepted_or_refused() {
    let (mut written, mut accepted, mut refused, mut faults) = (0, 0, 0, Vec::new());
    let all: Vec<TestFile> = programs().map(|(_, file)| file).collect();
    for (file, outcome) in all.iter().zip(on_all_cores(&all, outcome)) {
        let name = file.path.display();
        match outcome {
            None => {}
            Some(Outcome::Written) => written += 1,
            Some(Outcome::Accepted) => accepted += 1,
            Some(Outcome::Refused(why)) => {
                refused += 1;
                eprintln!("refused: {name}: {why}");
            }
            Some(Outcome::Fault(why)) => faults.push(format!("{name}: {why}")),
        }
    }
    written += accepted;
    eprintln!("{written} written, {accepted} accepted by ptxas, {refused} refused");
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    floor::hold("ptx", written);
    if accepted == 0 {
        floor::say_missing(&["ptxas"]);
    }
}

/// The outcome of writing a program as PTX.
enum Outcome {
    Written,
    Accepted,
    Refused(String),
    Fault(String),
}

/// Writes a program of tests/run as PTX, as `--backend cuda` compiles it; `None` if it does not compile.
fn outcome(file: &TestFile) -> Option<Outcome> {
    outcome_with(file, &options(file, 2))
}

fn outcome_with(file: &TestFile, options: &Options) -> Option<Outcome> {
    let ptxas = std::env::var_os("PULLBACK_PTXAS").map_or_else(|| PathBuf::from("ptxas"), PathBuf::from);
    let mut session = Session::new(FileOptions::default());
    let (_, compiled) = compile_with(file, options, &mut session).ok()?;
    Some(match emit_compiled(&session.sources, &compiled, None, Target::Ptx) {
        Ok(text) => match assemble(&ptxas, &text) {
            None => Outcome::Written,
            Some(Ok(())) => Outcome::Accepted,
            Some(Err(why)) => Outcome::Fault(why),
        },
        Err(Failure::Program(list)) => {
            Outcome::Refused(list.first().map_or("", |d| d.message.as_str()).to_string())
        }
        Err(Failure::Other(error)) => Outcome::Fault(error.to_string()),
    })
}

/// The PTX of a program, written in the same way as by the command line.
fn emit(source: &str) -> String {
    emit_with(source, &Options::default())
}

fn emit_with(source: &str, options: &Options) -> String {
    let Ok(text) = written(source, options) else { panic!("it is written") };
    String::from_utf8(text).expect("it is text")
}

/// The reason why a program is not written.
fn refusal(source: &str) -> String {
    match written(source, &Options::default()) {
        Err(Failure::Program(list)) => list.first().map_or(String::new(), |d| d.message.to_string()),
        Ok(_) | Err(Failure::Other(_)) => panic!("it is refused"),
    }
}

fn written(source: &str, options: &Options) -> Result<Vec<u8>, Failure> {
    let name = format!("pullback-{}-{:?}.slang", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, source).expect("the program is written");
    let mut session = Session::new(FileOptions::default());
    let mut loaded = driver::pipeline::load(&mut session, &path).unwrap_or_else(|_| panic!("it is read"));
    let made = driver::gpu::emit(&session.sources, &mut loaded, None, Target::Ptx, options);
    std::fs::remove_file(&path).expect("the program is removed");
    made
}

/// Divergent lanes synchronise with each other, but only on the way to a wave operation.
#[test]
fn lanes_part_at_branches_on_the_way_to_waves() {
    let kernel = |body: &str| {
        emit(&format!(
            "RWStructuredBuffer<uint> x;\n[numthreads(48, 1, 1)] void main(uint t : SV_GroupIndex) {{ {body} }}"
        ))
    };
    let count = |text: &str, what: &str| text.matches(what).count();
    let together = kernel("x[t] = WaveActiveSum(x[t]);");
    assert_eq!(count(&together, "match.any.sync"), 0, "{together}");
    assert!(count(&together, "shfl.sync") > 0, "{together}");
    // Only lanes of existing threads take part: 32 in the first wave, 16 in the second.
    assert!(together.contains("shr.u32"), "{together}");
    let branch = kernel("if (x[t] > 3) x[t] = WaveActiveSum(x[t]); if (x[t] > 4) x[t] = 0;");
    assert_eq!(count(&branch, "match.any.sync"), 1, "{branch}");
    // Lanes synchronise on entry to the loop, and at the end of each iteration.
    let loop_ = kernel("for (uint i = 0; i < x[t]; i++) x[t] += WaveActiveSum(i);");
    assert!(count(&loop_, "match.any.sync") >= 2, "{loop_}");
    // The number of iterations is the same for all lanes.
    let fixed = kernel("for (uint i = 0; i < 100; i++) x[t] += WaveActiveSum(i * x[t]);");
    assert_eq!(count(&fixed, "match.any.sync"), 0, "{fixed}");
}

#[test]
fn the_head_says_what_numbers_mean() {
    let text = emit(
        "RWStructuredBuffer<float> x;\n[numthreads(4, 1, 1)] void main(uint t : SV_GroupIndex)\n\
         { printf(\"%d: %f\\n\", t, x[t]); x[t] = 0; }",
    );
    let head: Vec<&str> = text.lines().take_while(|line| line.starts_with("//")).collect();
    assert!(head[0].starts_with("// printf 1: \"%d: %f\\n\" u"), "{head:?}");
    assert_eq!(head[1], "// main: groups of 4 x 1 x 1 threads; parameters:");
    assert_eq!(head[2], "//   x *, uint64_t count");
    assert!(head[3].ends_with("uint32_t *log; uint64_t log words"), "{head:?}");
}

/// Residuals are in the arena that other devices have, too, and arrays are in local memory.
#[test]
fn stacks_are_in_the_arena_and_arrays_in_local_memory() {
    let text = emit(
        "[Differentiable] float f(float x, no_diff int n) { for (int i = 0; i < n; i++) x = sin(x); return x; }\n\
         RWStructuredBuffer<float> x;\n[numthreads(4, 1, 1)] void main(uint t : SV_GroupIndex)\n\
         { var p = diffPair(x[t]); bwd_diff(f)(p, int(t), 1.0); x[t] = p.d; }",
    );
    assert!(text.contains("uint32_t *arena; uint64_t arena words; uint32_t arena state[5]\n"), "{text}");
    let source = |n: u32| {
        format!(
            "RWStructuredBuffer<float> x;\n[numthreads(4, 1, 1)] void main(uint t : SV_GroupIndex)\n\
             {{ float a[{n}]; for (uint i = 0; i < {n}; i++) a[(i * t) % {n}] = x[i]; x[t] = a[uint(x[t])]; }}"
        )
    };
    let text = emit(&source(8000));
    assert!(text.contains("[32000]") && !text.contains("arena"), "{text}");
    let message = refusal(&source(200_000));
    assert!(message.contains("has 524288 bytes of local memory"), "{message}");
}

/// The instructions by which matrix units multiply in a text, each with its number.
fn products(text: &str) -> Vec<(&str, usize)> {
    let mut found: Vec<(&str, usize)> = Vec::new();
    for line in text.lines() {
        let op = line.split_whitespace().next().unwrap_or_default();
        if !["mma", "wmma"].contains(&op.split('.').next().unwrap_or_default()) {
            continue;
        }
        match found.iter_mut().find(|f| f.0 == op) {
            Some(one) => one.1 += 1,
            None => found.push((op, 1)),
        }
    }
    found
}

/// Matrix units multiply where the option says so, and the shapes and types are theirs.
#[test]
fn matrix_units_multiply_what_fits() {
    let kernel = |of_sum: &str, of_left: &str, of_right: &str, [m, k, n]: [u32; 3]| {
        format!(
            "using namespace linalg;\nRWStructuredBuffer<{of_sum}> x; StructuredBuffer<float> y;\n\
             [numthreads(32, 1, 1)] void main()\n{{\n\
             let a = CoopMat<float, MemoryScope.Subgroup, {m}, {k}, CoopMatMatrixUse.MatrixA>\
             .Load<CoopMatMatrixLayout.RowMajor>(y, 0, {k});\n\
             let b = CoopMat<float, MemoryScope.Subgroup, {k}, {n}, CoopMatMatrixUse.MatrixB>\
             .Load<CoopMatMatrixLayout.RowMajor>(y, 0, {n});\n\
             coopMatMulAdd<{of_sum}, false>(\
             CoopMat<{of_left}, MemoryScope.Subgroup, {m}, {k}, CoopMatMatrixUse.MatrixA>(a), \
             CoopMat<{of_right}, MemoryScope.Subgroup, {k}, {n}, CoopMatMatrixUse.MatrixB>(b), \
             CoopMat<{of_sum}, MemoryScope.Subgroup, {m}, {n}, CoopMatMatrixUse.MatrixAccumulator>(1))\
             .Store<CoopMatMatrixLayout.RowMajor>(x, 0, {n});\n}}"
        )
    };
    let with = Options { matrix_units: true, ..Options::default() };
    let half = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
    let bfloat = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
    let signed = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32";
    let unsigned = "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32";
    for (of_sum, of_left, of_right, shape, wanted) in [
        ("float", "half", "half", [16, 16, 16], vec![(half, 2)]),
        ("half", "half", "half", [32, 32, 8], vec![(half, 4)]),
        ("float", "half", "half", [16, 8, 8], vec![(half, 1)]),
        ("float", "BFloat16", "BFloat16", [16, 24, 8], vec![(bfloat, 2)]),
        ("int", "int8_t", "int8_t", [16, 16, 16], vec![(signed, 2)]),
        ("int", "uint8_t", "uint8_t", [16, 64, 8], vec![(unsigned, 2)]),
        // Too few rows, and types that have no units, or none that make these sums.
        ("float", "half", "half", [8, 16, 16], vec![]),
        ("double", "half", "half", [16, 16, 16], vec![]),
        ("int", "half", "half", [16, 16, 16], vec![]),
        ("float", "half", "BFloat16", [16, 16, 16], vec![]),
        ("float", "float", "float", [16, 16, 16], vec![]),
        ("float", "FloatE4M3", "FloatE4M3", [16, 32, 8], vec![]),
        ("float", "int8_t", "int8_t", [16, 32, 8], vec![]),
        ("int64_t", "int8_t", "int8_t", [16, 32, 8], vec![]),
    ] {
        let source = kernel(of_sum, of_left, of_right, shape);
        let text = emit_with(&source, &with);
        let target = if wanted.is_empty() { "sm_70" } else { "sm_80" };
        assert_eq!((products(&text), generation(&text)), (wanted, target), "{source}");
        let without = emit(&source);
        assert_eq!((products(&without), generation(&without)), (vec![], "sm_70"), "{source}");
        if target == "sm_70" {
            // LLVM numbers calls throughout the process.
            let lines = |text: &str| -> Vec<String> {
                text.lines().filter(|line| !line.contains("callseq")).map(str::to_string).collect()
            };
            assert_eq!(lines(&text), lines(&without), "{source}");
        }
    }
}

/// So they do in derivatives: backwards if nothing has to be rounded to become a factor.
#[test]
fn matrix_units_multiply_in_derivatives() {
    let kernel = |of_sum: &str, body: &str| {
        format!(
            "using namespace linalg;\n\
             typealias L = CoopMat<half, MemoryScope.Subgroup, 16, 16, CoopMatMatrixUse.MatrixA>;\n\
             typealias R = CoopMat<half, MemoryScope.Subgroup, 16, 16, CoopMatMatrixUse.MatrixB>;\n\
             typealias S = CoopMat<{of_sum}, MemoryScope.Subgroup, 16, 16, CoopMatMatrixUse.MatrixAccumulator>;\n\
             RWStructuredBuffer<half> x; RWStructuredBuffer<{of_sum}> z;\n\
             static const CoopMatMatrixLayout Rows = CoopMatMatrixLayout.RowMajor;\n\
             [Differentiable] S f(L a, R b, S c) {{ return coopMatMulAdd<{of_sum}, false>(a, b, c); }}\n\
             [numthreads(32, 1, 1)] void main()\n{{\n\
             var a = diffPair(L.Load<Rows>(x, 0, 16), L.Load<Rows>(x, 256, 16));\n\
             var b = diffPair(R.Load<Rows>(x, 0, 16), R.Load<Rows>(x, 256, 16));\n\
             var c = diffPair(S.Load<Rows>(z, 0, 16), S.Load<Rows>(z, 256, 16));\n{body}\n}}"
        )
    };
    let back = "bwd_diff(f)(a, b, c, c.p); a.d.Store<Rows>(x, 0, 16); b.d.Store<Rows>(x, 256, 16);";
    let forth = "let y = fwd_diff(f)(a, b, c); y.p.Store<Rows>(z, 0, 16); y.d.Store<Rows>(z, 256, 16);";
    let with = Options { matrix_units: true, ..Options::default() };
    let half = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
    for (of_sum, body, n) in [("half", back, 4), ("float", back, 0), ("half", forth, 6), ("float", forth, 6)]
    {
        let source = kernel(of_sum, body);
        let text = emit_with(&source, &with);
        let wanted = if n == 0 { vec![] } else { vec![(half, n)] };
        assert_eq!(products(&text), wanted, "{source}");
        assert_eq!(products(&emit(&source)), vec![], "{source}");
    }
}

/// `ptxas` accepts the products.
#[test]
fn products_by_matrix_units_are_accepted() {
    for (name, file) in programs().filter(|(name, _)| name.ends_with("/cooperative-units.slang")) {
        let with = Options { matrix_units: true, ..options(&file, 2) }.for_device(Kind::Nvidia);
        match outcome_with(&file, &with) {
            Some(Outcome::Written | Outcome::Accepted) => {}
            Some(Outcome::Refused(why) | Outcome::Fault(why)) => panic!("{name}: {why}"),
            None => panic!("{name} does not compile"),
        }
    }
}
