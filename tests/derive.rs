//! The text of `pullback derive` is a program that computes what the compiled derivative computes.
//!
//! Every differentiable function of `tests/run` that takes and gives numbers is written in forward and in backward
//! mode; the text must compile and give the numbers of the derivative that it was written from, at random points.
//! The sign of a zero may differ. So must those of random programs (`generate::steps`), also as two functions;
//! `PULLBACK_RANDOM` sets the number of programs, and `PULLBACK_SEED` the first seed. Texts that print or have
//! memory of the host are left out, since they do more than to compute, and so are functions that cannot be
//! written. A gradient may be NaN where a stack of the text was full.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use check::tables::FuncRef;
use driver::Request;
use driver::call::{Callee, Number, Point};
use driver::derive::{self, Derivative};
use driver::gradcheck::Random;
use driver::launch::{Backend, CodeOptions};
use driver::pipeline::{self, Loaded, Options, on_large_stack};
use driver::session::{FileOptions, Session};
use ir::Scalar;
use pullback_tests::{generate, on_all_cores, setting};
use test_support::programs;

/// The outcomes of the texts.
#[derive(Debug, Default)]
struct Counts {
    agree: usize,
    full: usize,
    refused: usize,
    problems: Vec<String>,
}

/// The numbers of a text that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    /// A derivative that the program has written may come with another value.
    Derivatives,
    /// The value of forward mode, too.
    ValuesToo,
}

/// The options of `derive`, so that both sides start from the same derivative.
fn options() -> Options {
    Options { optimise: opt::Options { level: 1, ..opt::Options::default() }, ..Options::default() }
}

fn callee(loaded: &mut Loaded, function: FuncRef, derivatives: bool) -> Option<Callee> {
    let request = Request { functions: vec![function], derivatives, ..Request::default() };
    let compiled = loaded.compile(&request, &options()).ok()?;
    Callee::new(compiled, Backend::INTERP, &CodeOptions::default(), &[]).ok()
}

/// The bits of `number` for each number that has a tangent.
fn seeds(numbers: &[Number], one: usize) -> Vec<u64> {
    let with_tangent = numbers.iter().filter(|n| n.diff).enumerate();
    with_tangent.map(|(k, n)| ir::scalar::from_f64(n.scalar, if k == one { 1.0 } else { 0.0 })).collect()
}

/// The numbers of floating-point outputs.
fn floats(numbers: &[Number], bits: &[u64]) -> Vec<f64> {
    let float = |(n, bits): (&Number, &u64)| n.scalar.is_float().then(|| ir::scalar::to_f64(n.scalar, *bits));
    numbers.iter().zip(bits).filter_map(float).collect()
}

fn same(a: &[f64], b: &[f64]) -> bool {
    let near =
        |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-6 * a.abs().max(b.abs());
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(*a, *b))
}

/// Compares the text of one derivative with the compiled one.
fn compare(
    own: &mut Callee,
    text: &mut Callee,
    mode: Derivative,
    compared: Compared,
    random: &mut Random,
) -> Option<Result<(), String>> {
    for _ in 0..2 {
        let point: Point = own.inputs.iter().map(|n| random.scalar(n.scalar, 0.1, 1.5)).collect();
        let (wanted, seeded) = match mode {
            Derivative::Backward | Derivative::Apply => {
                let rows = own.reverse(&point).ok()?;
                let seeded = (0..rows.len()).map(|k| seeds(&own.outputs, k)).collect::<Vec<_>>();
                (rows, seeded)
            }
            Derivative::Forward => {
                let rows = own.forward(&point).ok()?;
                let columns = rows.first().map_or(0, Vec::len);
                let bits = own.value(&point).ok()?;
                let mut values = floats(&own.outputs, &bits);
                values.retain(|_| compared == Compared::ValuesToo);
                let tangents = |k: usize| rows.iter().map(move |row| row[k]);
                let column = |k: usize| values.iter().copied().chain(tangents(k)).collect::<Vec<f64>>();
                ((0..columns).map(column).collect(), (0..columns).map(|k| seeds(&own.inputs, k)).collect())
            }
        };
        for (wanted, seeded) in wanted.iter().zip(seeded) {
            let bits = text.value(&[point.clone(), seeded].concat()).ok()?;
            let mut got = floats(&text.outputs, &bits);
            // The values come before the derivatives.
            got.drain(..got.len().saturating_sub(wanted.len()));
            if !same(&got, wanted) {
                return Some(Err(format!("at {point:?}: {got:?}, and compiled {wanted:?}")));
            }
        }
    }
    Some(Ok(()))
}

/// Compares a function of a text with the compiled derivative.
fn problem(
    own: &mut Callee,
    source: &str,
    name: &str,
    mode: Derivative,
    compared: Compared,
    random: &mut Random,
) -> Option<Result<(), String>> {
    let open = vec![(PathBuf::from("derived.slang"), Arc::from(source))];
    let mut session = Session::new(FileOptions { open, ..FileOptions::default() });
    let mut text = pipeline::load(&mut session, Path::new("derived.slang")).expect("it is open");
    if let Err(failure) = text.errors() {
        return Some(Err(format!("{failure:?}")));
    }
    let function = text.function(name).ok();
    match function.and_then(|function| callee(&mut text, function, false)) {
        None => Some(Err("it does not compile".into())),
        Some(mut text) => compare(own, &mut text, mode, compared, random),
    }
}

fn check(path: &Path, counts: &mut Counts) {
    let mut session = Session::new(FileOptions::default());
    let Ok(mut loaded) = pipeline::load(&mut session, path) else { return };
    if loaded.errors().is_err() {
        return;
    }
    let mut random = Random::new(5);
    for listed in loaded.differentiable_declarations() {
        if listed.is_member || listed.why_not.is_some() {
            continue;
        }
        for mode in [Derivative::Forward, Derivative::Backward] {
            let Ok(source) = derive::source(&mut loaded, listed.function.clone(), mode, &[]) else {
                counts.refused += 1;
                continue;
            };
            if ["printf", "StructuredBuffer", "uniform ", "groupshared"]
                .iter()
                .any(|part| source.contains(part))
            {
                continue;
            }
            let Some(mut own) = callee(&mut loaded, listed.function.clone(), true) else { continue };
            if own.inputs.iter().any(|n| n.scalar == Scalar::Bool) {
                continue;
            }
            let place = format!("{}: {} {mode:?}", path.display(), listed.name);
            let name = format!("{}_{}", listed.name, if mode == Derivative::Forward { "fwd" } else { "bwd" });
            let problem = problem(&mut own, &source, &name, mode, Compared::Derivatives, &mut random);
            match problem {
                None => {}
                Some(Ok(())) => counts.agree += 1,
                Some(Err(what)) if source.contains("struct Stack") && what.contains("[NaN") => {
                    counts.full += 1
                }
                Some(Err(what)) => counts.problems.push(format!("{place}: {what}\n{source}")),
            }
        }
    }
}

#[test]
fn texts_compute_what_was_compiled() {
    let paths = programs(&["tests/run"]);
    let part = |first: usize| {
        let mut counts = Counts::default();
        paths.iter().skip(first).step_by(4).for_each(|path| check(path, &mut counts));
        counts
    };
    let part = &part;
    let mut counts = Counts::default();
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..4).map(|k| scope.spawn(move || on_large_stack(|| part(k)))).collect();
        for part in parts {
            let part = part.join().expect("a part does not panic");
            counts.agree += part.agree;
            counts.full += part.full;
            counts.refused += part.refused;
            counts.problems.extend(part.problems);
        }
    });
    assert!(
        counts.problems.is_empty(),
        "{} problems:\n{}",
        counts.problems.len(),
        counts.problems.join("\n")
    );
    assert!(counts.agree > 1200 && counts.full < 10, "{counts:?}");
    eprintln!("{counts:?}");
}

/// The parameters of a function of a text.
fn parameters(source: &str, function: &str) -> Vec<String> {
    let rest = source.split_once(&format!(" {function}(")).expect("the text has the function").1;
    let list = rest.split_once(")\n{").expect("the function has a body").0;
    let mut found = vec![String::new()];
    let mut depth = 0;
    for c in list.chars() {
        depth += i32::from(c == '<') - i32::from(c == '>');
        match (c, found.last_mut()) {
            (',', _) if depth == 0 => found.push(String::new()),
            (c, Some(last)) => last.push(c),
            _ => {}
        }
    }
    found.iter().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The name in the declaration of a parameter.
fn parameter_name(mut declaration: &str) -> &str {
    while let Some((rest, _)) = declaration.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        declaration = rest;
    }
    declaration.rsplit(' ').next().unwrap_or(declaration)
}

/// A function that calls the two functions of a text one after the other.
fn joined(source: &str) -> String {
    let [apply, pullback] = ["f_apply", "f_pullback"].map(|function| parameters(source, function));
    let names = |list: &[String]| list.iter().map(|p| parameter_name(p)).collect::<Vec<_>>().join(", ");
    let (outs, inputs): (Vec<_>, Vec<_>) = apply.iter().cloned().partition(|p| p.starts_with("out "));
    let gradients = pullback.iter().filter(|p| p.starts_with("out "));
    let given = ["double d_result".to_owned(), "out double value".to_owned()];
    let signature: Vec<String> = inputs.iter().chain(&given).chain(gradients).cloned().collect();
    let locals: String = outs.iter().map(|p| format!("    {};\n", &p["out ".len()..])).collect();
    let call = match source.contains("double f_apply(") {
        true => format!("double result = f_apply({})", names(&apply)),
        false => format!("f_apply({})", names(&apply)),
    };
    let body = format!("{locals}    {call};\n    value = result;\n    f_pullback({});\n", names(&pullback));
    format!("void f_both({})\n{{\n{body}}}\n", signature.join(", "))
}

/// The problems of the texts of a random program, and the number of those that agree.
fn check_random(seed: u64) -> (usize, Vec<String>) {
    let program = generate::steps(seed);
    let open = vec![(PathBuf::from("random.slang"), Arc::from(program.as_str()))];
    let mut session = Session::new(FileOptions { open, ..FileOptions::default() });
    let mut loaded = pipeline::load(&mut session, Path::new("random.slang")).expect("it is open");
    if let Err(failure) = loaded.errors() {
        return (0, vec![format!("seed {seed}: {failure:?}\n{program}")]);
    }
    let function = loaded.function("f").expect("the program has it");
    let mut own = callee(&mut loaded, function.clone(), true).expect("it compiles");
    let (mut agree, mut problems) = (0, Vec::new());
    for (mode, name) in
        [(Derivative::Forward, "f_fwd"), (Derivative::Backward, "f_bwd"), (Derivative::Apply, "f_both")]
    {
        let Ok(mut source) = derive::source(&mut loaded, function.clone(), mode, &[]) else { continue };
        if mode == Derivative::Apply {
            source += &joined(&source);
        }
        let mut random = Random::new(seed);
        match problem(&mut own, &source, name, mode, Compared::ValuesToo, &mut random) {
            None => {}
            Some(Ok(())) => agree += 1,
            Some(Err(what)) => problems.push(format!("seed {seed} {mode:?}: {what}\n{program}\n{source}")),
        }
    }
    (agree, problems)
}

#[test]
fn texts_of_random_programs_compute_what_was_compiled() {
    let (first, n) = (setting("PULLBACK_SEED", 1), setting("PULLBACK_RANDOM", 60));
    let seeds: Vec<u64> = (first..first + n).collect();
    let found = on_all_cores(&seeds, |&seed| check_random(seed));
    let agree: usize = found.iter().map(|(agree, _)| agree).sum();
    let problems: Vec<&String> = found.iter().flat_map(|(_, problems)| problems).collect();
    for problem in &problems {
        eprintln!("{problem}");
    }
    assert!(problems.is_empty(), "{} problems", problems.len());
    assert!(agree as u64 >= 2 * n, "{agree} texts of {n} programs agree");
}
