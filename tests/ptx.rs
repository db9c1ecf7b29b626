//! Writes every program of tests/run as PTX: it is written, or refused with a reason; and `ptxas` accepts it
//! if it is installed (on the path, or named by `PULLBACK_PTXAS`).
#![cfg(feature = "llvm")]

use std::path::{Path, PathBuf};
use std::process::Command;

use driver::gpu::{Target, emit_compiled};
use driver::pipeline::Failure;
use driver::session::{FileOptions, Session};
use pullback_tests::commands::slang::compile;
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
    let run = Command::new(ptxas).args(["-arch=sm_70", "-O0", "-o", "/dev/null"]).arg(&path).output();
    std::fs::remove_file(&path).expect("the text is removed");
    let output = run.ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { Ok(()) } else { Err(said) })
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
    let ptxas = std::env::var_os("PULLBACK_PTXAS").map_or_else(|| PathBuf::from("ptxas"), PathBuf::from);
    let mut session = Session::new(FileOptions::default());
    let (_, compiled) = compile(file, 2, &mut session).ok()?;
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
    let Ok(text) = written(source) else { panic!("it is written") };
    String::from_utf8(text).expect("it is text")
}

/// The reason why a program is not written.
fn refusal(source: &str) -> String {
    match written(source) {
        Err(Failure::Program(list)) => list.first().map_or(String::new(), |d| d.message.to_string()),
        Ok(_) | Err(Failure::Other(_)) => panic!("it is refused"),
    }
}

fn written(source: &str) -> Result<Vec<u8>, Failure> {
    let path = std::env::temp_dir().join(format!("pullback-{}-{}.slang", std::process::id(), source.len()));
    std::fs::write(&path, source).expect("the program is written");
    let mut session = Session::new(FileOptions::default());
    let mut loaded = driver::pipeline::load(&mut session, &path).unwrap_or_else(|_| panic!("it is read"));
    let made = driver::gpu::emit(
        &session.sources,
        &mut loaded,
        None,
        Target::Ptx,
        &driver::pipeline::Options::default(),
    );
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
