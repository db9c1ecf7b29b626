//! Checks estimates of rounding errors (`pullback precision`) on random programs: the error that a program really has is
//! within the estimate, and the estimate is within the bound by intervals. Both hold to first order, so for programs of
//! floats, whose errors are small.
//!
//! `PULLBACK_SEEDS` and `PULLBACK_FIRST_SEED` choose more programs.

use driver::bind::{Bind, BindValue};
use driver::launch::{Backend, CodeOptions};
use driver::pipeline::{Failure, on_large_stack};
use driver::precision::{Options, Source, estimate};
use driver::ranges::Ranges;
use driver::session::{FileOptions, Session};
use pullback_tests::{generate, setting};

/// Terms of second order, relative to those of first order.
const SECOND: f64 = 0.01;

fn options(text: &str) -> Options {
    let data =
        || Bind { name: "data".into(), value: BindValue::Json([0.5, -1.25, 2.0, 0.75].as_slice().into()) };
    Options {
        function: "f".into(),
        at: Vec::new(),
        points: 3,
        ranges: Ranges { common: (-2.0, 2.0), named: Vec::new() },
        seed: 1,
        memory: text.contains("> data;").then(data).into_iter().collect(),
        backend: Backend::INTERP,
        derivative: None,
        code: CodeOptions::default(),
    }
}

#[test]
fn errors_of_random_programs_are_within_their_estimates() {
    let (first, n) = (setting("PULLBACK_FIRST_SEED", 1), setting("PULLBACK_SEEDS", 12));
    let (mut compared, mut enclosed) = (0, 0);
    for seed in first..first + n {
        let program = generate::program(seed, "float");
        // An error that passes through what has no derivative is not estimated.
        if program.cuts || program.nested || program.lossy {
            continue;
        }
        let source = Source { name: format!("{seed}.slang"), text: program.text.clone(), folder: "".into() };
        let found = on_large_stack(|| {
            let mut session = Session::new(FileOptions::default());
            Ok::<_, Failure>(
                estimate(&mut session, &source, &options(&program.text), &mut Vec::new())?.report,
            )
        });
        let report = match found {
            Ok(report) => report,
            Err(failure) => panic!("seed {seed}: {failure:?}"),
        };
        // Rounding may decide a condition, and then everything may be otherwise.
        let Ok(bound) = report.enclosed else { continue };
        enclosed += 1;
        let most = bound * (1.0 + SECOND);
        assert!(report.estimated <= most, "seed {seed}: {} > {most}\n{}", report.estimated, program.text);
        if let Some(measured) = report.measured.value {
            let most = report.estimated * (1.0 + SECOND);
            assert!(
                measured <= most && measured <= bound,
                "seed {seed}: {measured} > {most}\n{}",
                program.text
            );
            compared += 1;
        }
    }
    assert!(3 * compared >= n, "{compared} of {n} programs compared, {enclosed} enclosed");
}
