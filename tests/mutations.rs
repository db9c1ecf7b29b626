//! Compiles valid programs with a few tokens changed: whatever the program has become, the compiler gives a
//! result or a diagnostic, within limits of time and memory.
//!
//! `PULLBACK_RANDOM` sets the number of programs, `PULLBACK_SEED` the first seed, `PULLBACK_MUTATE` further
//! folders of programs, separated by colons. The current program is always in `mutation.slang` of the
//! target's `tmp` folder, so that a program that kills the process can be found.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use driver::Request;
use driver::gpu::{Target, emit_compiled};
use driver::launch::{Backend, Runner};
use driver::pipeline::{Compiled, Failure, Loaded};
use driver::session::{FileOptions, Session};
use ir::Entry;
use pullback_tests::generate::Rng;
use pullback_tests::setting;
use syntax::ast::Symbols;
use syntax::{Diagnostic, FileId, Severity};

/// A program of the corpus, split into tokens.
struct Source {
    path: PathBuf,
    /// The tokens, each preceded by a space or line break if there was one.
    tokens: Vec<String>,
}

/// The time limit per program; a debug build is slow, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 2 });
/// The maximum memory of the process in bytes.
const MEMORY: u64 = 1 << 29;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "slang") {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> Option<Source> {
    let text = std::fs::read_to_string(path).ok().filter(|text| text.len() < 20_000)?;
    let lexed = syntax::token::lex(&mut Symbols::default(), FileId(0), &text);
    let mut tokens = Vec::new();
    for token in &lexed.tokens {
        let (start, end) = (token.span.start as usize, token.span.end as usize);
        let space = match token {
            t if t.at_line_start() => "\n",
            t if t.joined() => "",
            _ => " ",
        };
        tokens.push(format!("{space}{}", text.get(start..end)?));
    }
    Some(Source { path: path.to_path_buf(), tokens })
}

const KEYWORDS: [&str; 36] = [
    "float",
    "double",
    "half",
    "int",
    "uint",
    "int64_t",
    "uint8_t",
    "bool",
    "float3",
    "float2x3",
    "int2",
    "void",
    "in",
    "out",
    "inout",
    "no_diff",
    "const",
    "static",
    "return",
    "break",
    "continue",
    "if",
    "for",
    "while",
    "do",
    "switch",
    "struct",
    "interface",
    "extension",
    "this",
    "This",
    "fwd_diff",
    "bwd_diff",
    "detach",
    "let",
    "var",
];
const OPERATORS: [&str; 24] = [
    "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "&&", "||", "<", ">", "==", "!=", "=", "+=", ".",
    ",", ";", "?", ":", "::",
];
const NUMBERS: [&str; 12] = [
    "0",
    "1",
    "-1",
    "4",
    "0.5",
    "1e39",
    "4294967295u",
    "2147483648",
    "0x8000000000000000",
    "1000000000",
    "3.0h",
    "65",
];

/// The kind of a token, so that it can be replaced by a token of the same kind.
fn class(token: &str) -> usize {
    match token.trim_start().as_bytes() {
        [b, ..] if b.is_ascii_alphabetic() || *b == b'_' => 0,
        [b, ..] if b.is_ascii_digit() => 1,
        _ => 2,
    }
}

fn mutate(source: &Source, rng: &mut Rng) -> String {
    let mut tokens = source.tokens.clone();
    for _ in 0..1 + rng.below(3) {
        if tokens.len() < 2 {
            break;
        }
        let at = rng.below(tokens.len());
        let other = rng.below(tokens.len());
        match rng.below(8) {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, format!(" {}", tokens[other])),
            2 => tokens.swap(at, other),
            3 => {
                let next = (at + 1) % tokens.len();
                tokens.swap(at, next);
            }
            4 => {
                // Duplicates a range of tokens elsewhere.
                let end = (at + 1 + rng.below(12)).min(tokens.len());
                let copy: Vec<String> = tokens[at..end].to_vec();
                tokens.splice(other..other, copy);
            }
            5 => {
                let end = (at + 1 + rng.below(6)).min(tokens.len());
                tokens.drain(at..end);
            }
            6 => {
                // Replaces a token by another of the same kind from the program, which often results in a
                // valid program.
                let same: Vec<usize> =
                    (0..tokens.len()).filter(|&k| class(&tokens[k]) == class(&tokens[at])).collect();
                let from = same[rng.below(same.len())];
                tokens[at] = format!(" {}", tokens[from].trim_start());
            }
            _ => {
                let new = match class(&tokens[at]) {
                    0 => KEYWORDS[rng.below(KEYWORDS.len())],
                    1 => NUMBERS[rng.below(NUMBERS.len())],
                    _ => OPERATORS[rng.below(OPERATORS.len())],
                };
                tokens[at] = format!(" {new}");
            }
        }
    }
    // A token that was adjacent to another may have a new neighbour.
    let mut text = String::new();
    for token in &tokens {
        let glued = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        if text.as_bytes().last().is_some_and(glued) && token.as_bytes().first().is_some_and(glued) {
            text.push(' ');
        }
        text += token;
    }
    text
}

/// Compiles the program for every backend and in every language of the build, without running it.
fn everywhere(session: &Session, compiled: Compiled) -> Result<(), Failure> {
    // A target's refusal has no influence on the others.
    let all = |outcome: Result<(), Failure>, found: &mut Vec<Diagnostic>| match outcome {
        Err(Failure::Program(refused)) => {
            found.extend(refused);
            Ok(())
        }
        other => other,
    };
    let mut refused = compiled.warnings.clone();
    for target in [Target::Wgsl, Target::Spirv, Target::Msl, Target::Hlsl, Target::Glsl, Target::Reflection] {
        let entries: &[Entry] = &compiled.module.entries;
        let entry = (target == Target::Glsl).then(|| entries.first().map(|e| e.name.as_str())).flatten();
        if target != Target::Glsl || entries.len() == 1 {
            let outcome = emit_compiled(&session.sources, &compiled, entry, target).map(drop);
            all(outcome, &mut refused)?;
        }
    }
    #[cfg(feature = "llvm")]
    {
        all(emit_compiled(&session.sources, &compiled, None, Target::Ptx).map(drop), &mut refused)?;
        all(Runner::new(compiled.module.clone(), Backend::fastest()).map(drop), &mut refused)?;
    }
    all(Runner::new(compiled.module, Backend::CRANELIFT).map(drop), &mut refused)?;
    Err(Failure::Program(refused))
}

/// Compiles a program: all of it, and the functions that its entry point reaches, whose surroundings are not
/// checked then. Returns an internal error or a refusal without a cause, if there is one.
fn compile(text: &str, path: &Path) -> Option<String> {
    let whole = |session: &Session, mut loaded: Loaded| {
        loaded.check(false).and_then(|compiled| everywhere(session, compiled))
    };
    let reached = |_: &Session, mut loaded: Loaded| {
        let request = Request { entries: vec![loaded.entry(None)?], ..Request::default() };
        loaded.lowered(&request).map(drop)
    };
    compile_by(text, path, whole).or_else(|| compile_by(text, path, reached))
}

fn compile_by(
    text: &str,
    path: &Path,
    by: impl FnOnce(&Session, Loaded) -> Result<(), Failure>,
) -> Option<String> {
    let mut session = Session::new(FileOptions::default());
    let mut program = session.program();
    let folder = path.parent().unwrap_or(Path::new("."));
    let file = session.load_text(&mut program, "mutation.slang", text.to_string(), folder);
    match by(&session, Loaded::new(program, file)) {
        Err(Failure::Other(error)) => Some(error.to_string()),
        Err(Failure::Program(diagnostics)) => {
            // Rendering the diagnostics must not crash, either.
            let shown =
                driver::render::all_to_text(&session.sources, &diagnostics, driver::render::Style::Plain);
            // Follow-ups are shown only if their cause is not.
            let is_wrong = |d: &Diagnostic| d.severity == Severity::Error && d.is_follow_up;
            diagnostics.iter().any(|d| d.code == "E0999" || is_wrong(d)).then_some(shown)
        }
        Ok(_) => None,
    }
}

/// The peak memory of the process, if the system reports it.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).map_or(0, |kb| kb * 1024)
}

#[test]
fn changed_programs_are_compiled_or_refused() {
    let mut paths = Vec::new();
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["run", "check"] {
        sources(&own.join(folder), &mut paths);
    }
    for folder in std::env::var("PULLBACK_MUTATE").unwrap_or_default().split(':').filter(|f| !f.is_empty()) {
        sources(Path::new(folder), &mut paths);
    }
    let corpus: Vec<Source> = paths.iter().filter_map(|path| read(path)).collect();
    assert!(!corpus.is_empty());
    let first = setting("PULLBACK_SEED", 1);
    let n = setting("PULLBACK_RANDOM", 500);
    let current = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutation.slang");
    let keep = current.clone();
    let (report, reports) = channel();
    let work = move || {
        let mut most = MEMORY;
        for seed in first..first + n {
            let mut rng = Rng::new(seed);
            let source = &corpus[rng.below(corpus.len())];
            let text = mutate(source, &mut rng);
            let _ = std::fs::write(&keep, format!("// seed {seed} of {}\n{text}", source.path.display()));
            let started = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| compile(&text, &source.path)));
            let why = match outcome {
                Err(_) => Some("a panic".to_string()),
                Ok(Some(why)) => Some(why),
                Ok(None) if started.elapsed() > PATIENCE => Some(format!("{:?}", started.elapsed())),
                Ok(None) if peak() > most => {
                    most = peak();
                    Some(format!("{most} bytes"))
                }
                Ok(None) => None,
            };
            let _ = report.send(why.map(|why| format!("seed {seed}: {why}\n{text}")));
        }
    };
    std::thread::Builder::new().stack_size(1 << 30).spawn(work).expect("the system has a thread");
    let mut failures: Vec<String> = Vec::new();
    for _ in 0..n {
        match reports.recv_timeout(10 * PATIENCE) {
            Ok(outcome) => failures.extend(outcome),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                failures.push(format!("no end: {}", std::fs::read_to_string(&current).unwrap_or_default()));
                break;
            }
        }
    }
    if let Ok(path) = std::env::var("PULLBACK_FAILURES") {
        let _ = std::fs::write(path, failures.join("\n=====\n"));
    }
    let reasons: Vec<&str> = failures.iter().filter_map(|why| why.lines().next()).collect();
    let shown = failures.iter().min_by_key(|why| why.len()).map_or("", |why| why);
    assert!(failures.is_empty(), "{} of {n} fail\n{}\n\n{shown}", failures.len(), reasons.join("\n"));
}
