//! The text of `pullback derive` is a program that computes what the compiled derivative computes.
//!
//! Every differentiable function of `tests/run` that takes and gives numbers is written in forward and in backward
//! mode; the text must compile and give the numbers of the derivative that it was written from, at random points. The
//! sign of a zero may differ. Texts that print or have memory of the host are left out, since they do more than to
//! compute, and so are functions that cannot be written. A gradient may be NaN where a stack of the text was full.

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
use test_support::programs;

/// The outcomes of the texts.
#[derive(Debug, Default)]
struct Counts {
    agree: usize,
    full: usize,
    refused: usize,
    problems: Vec<String>,
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
    random: &mut Random,
) -> Option<Result<(), String>> {
    for _ in 0..2 {
        let point: Point = own.inputs.iter().map(|n| random.scalar(n.scalar, 0.1, 1.5)).collect();
        let (wanted, seeded) = match mode {
            Derivative::Backward => {
                let rows = own.reverse(&point).ok()?;
                let seeded = (0..rows.len()).map(|k| seeds(&own.outputs, k)).collect::<Vec<_>>();
                (rows, seeded)
            }
            _ => {
                let rows = own.forward(&point).ok()?;
                let columns = rows.first().map_or(0, Vec::len);
                let column = |k: usize| rows.iter().map(|row| row[k]).collect::<Vec<f64>>();
                ((0..columns).map(column).collect(), (0..columns).map(|k| seeds(&own.inputs, k)).collect())
            }
        };
        for (wanted, seeded) in wanted.iter().zip(seeded) {
            let bits = text.value(&[point.clone(), seeded].concat()).ok()?;
            let mut got = floats(&text.outputs, &bits);
            // The values come before their tangents.
            got.drain(..got.len().saturating_sub(wanted.len()));
            if !same(&got, wanted) {
                return Some(Err(format!("at {point:?}: {got:?}, and compiled {wanted:?}")));
            }
        }
    }
    Some(Ok(()))
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
            let open = vec![(PathBuf::from("derived.slang"), Arc::from(source.as_str()))];
            let mut session = Session::new(FileOptions { open, ..FileOptions::default() });
            let mut text = pipeline::load(&mut session, Path::new("derived.slang")).expect("it is open");
            let name = format!("{}_{}", listed.name, if mode == Derivative::Forward { "fwd" } else { "bwd" });
            let problem = match text.errors() {
                Err(failure) => Some(Err(format!("{failure:?}"))),
                Ok(()) => text
                    .function(&name)
                    .ok()
                    .and_then(|function| callee(&mut text, function, false))
                    .map_or(Some(Err("it does not compile".into())), |mut text| {
                        compare(&mut own, &mut text, mode, &mut random)
                    }),
            };
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
