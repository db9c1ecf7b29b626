//! Estimates of rounding errors have the terms that can be written down by hand, and proposals of narrower types keep what
//! they promise.

use pullback_driver::Request;
use pullback_driver::call::{Callee, Direction};
use pullback_driver::derive::{self, Derivative};
use pullback_driver::launch::{Backend, CodeOptions};
use pullback_driver::pipeline::{self, Failure};
use pullback_driver::precision::narrow::{Proposal, propose};
use pullback_driver::precision::{Contribution, Estimate, Options, Source, estimate, load};
use pullback_driver::ranges::Ranges;
use pullback_driver::session::{FileOptions, Session};
use serde_json::{Value as Json, json};

/// The unit roundoff of a float, and of a half.
const UNIT: f64 = 1.0 / (1 << 24) as f64;
const HALF: f64 = 1.0 / (1 << 11) as f64;

fn options(at: &[(&str, Json)]) -> Options {
    Options {
        function: "f".into(),
        at: at.iter().map(|(name, value)| (name.to_string(), value.clone())).collect(),
        points: 10,
        ranges: Ranges { common: (0.5, 2.0), named: Vec::new() },
        seed: 1,
        memory: Vec::new(),
        backend: Backend::INTERP,
        derivative: None,
        code: CodeOptions::default(),
    }
}

fn source(text: &str) -> Source {
    Source { name: "test.slang".into(), text: text.into(), folder: "".into() }
}

fn estimated(text: &str, options: &Options) -> Estimate {
    let mut session = Session::new(FileOptions::default());
    let found = estimate(&mut session, &source(text), options, &mut Vec::new());
    found.unwrap_or_else(|failure| panic!("{failure:?}"))
}

fn proposed(text: &str, tolerance: f64) -> (Estimate, Proposal) {
    proposed_for(text, tolerance, None)
}

fn proposed_for(text: &str, tolerance: f64, derivative: Option<Direction>) -> (Estimate, Proposal) {
    let options = Options { derivative, ..options(&[]) };
    let mut session = Session::new(FileOptions::default());
    let mut found = estimate(&mut session, &source(text), &options, &mut Vec::new()).expect("an estimate");
    let proposal = propose(&session, &mut found, &options, tolerance).expect("a proposal");
    (found, proposal)
}

fn narrowed<'e>(found: &'e Estimate, proposal: &Proposal) -> Vec<&'e str> {
    let variables = proposal.narrowed.iter().flat_map(|n| &n.variables);
    variables.map(|&k| found.report.contributions[k].variable.name.as_str()).collect()
}

fn of<'e>(estimate: &'e Estimate, name: &str) -> &'e Contribution {
    let mut all = estimate.report.contributions.iter();
    all.find(|c| c.variable.name == name).unwrap_or_else(|| panic!("{name}: {:?}", estimate.report))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * b.abs()
}

#[test]
fn the_terms_are_those_of_each_operation() {
    // a = x y, b = a + x, the result is b b - a, with the sizes 3·2, 6 + 3 and 81, 75.
    let text = "[Differentiable] float f(float x, float y)\n\
                {\n    float a = x * y;\n    float b = a;\n    b += x;\n    return b * b - a;\n}\n";
    let found = estimated(text, &options(&[("x", json!(3.0)), ("y", json!(2.0))]));
    let result = 75.0;
    // The cotangents are 2 b - 1 of a, and 2 b of b.
    for (name, error, operations) in
        [("a", 6.0 * 17.0, 1.0), ("b", 9.0 * 18.0, 1.0), ("return", 81.0 + 75.0, 2.0)]
    {
        let contribution = of(&found, name);
        assert!(near(contribution.error, error * UNIT / result), "{contribution:?}");
        assert_eq!(contribution.operations, operations, "{name}");
    }
    assert!(near(found.report.estimated, (6.0 * 17.0 + 9.0 * 18.0 + 81.0 + 75.0) * UNIT / result));
    // These numbers are small integers, so nothing is rounded.
    assert_eq!(found.report.measured.value, Some(0.0));
    assert!(found.report.enclosed.as_ref().is_ok_and(|&bound| bound > found.report.estimated));
}

#[test]
fn terms_of_a_loop_do_not_cancel() {
    // The products are 1, -1, 1, -1: their terms have equal sizes, and the sums are 1, 0, 1, 0.
    let text = "[Differentiable] float f(float x)\n\
                {\n    float s = 0.0;\n    for (int i = 0; i < 4; i++)\n    {\n\
                        float p = i % 2 == 0 ? x * x : -x * x;\n        s += p;\n    }\n    return s + x;\n}\n";
    let found = estimated(text, &options(&[("x", json!(1.0))]));
    assert!(near(of(&found, "p").error, 4.0 * UNIT), "{:?}", of(&found, "p"));
    assert!(near(of(&found, "s").error, 2.0 * UNIT), "{:?}", of(&found, "s"));
    assert_eq!(of(&found, "s").operations, 4.0);
}

#[test]
fn each_type_has_its_own_roundoff() {
    let text = "[Differentiable] double f(double x)\n\
                {\n    half h = half(x);\n    float g = float(h) * 3.0f;\n    double d = double(g) * 3.0lf;\n    return d;\n}\n";
    let found = estimated(text, &options(&[("x", json!(1.0))]));
    let double = 1.0 / (1u64 << 53) as f64;
    for (name, unit) in [("h", HALF), ("g", UNIT), ("d", double)] {
        assert!(near(of(&found, name).error, unit), "{:?}", of(&found, name));
    }
    // A half has no number as large as this.
    let found = estimated(text, &options(&[("x", json!(1e5))]));
    assert!(of(&found, "h").error.is_infinite(), "{:?}", of(&found, "h"));
}

#[test]
fn operations_of_the_library_belong_to_the_line_that_calls_it() {
    let text = "[Differentiable] float f(float3 v)\n\
                {\n    float l = length(v);\n    return l;\n}\n";
    let found = estimated(text, &options(&[("v", json!([2.0, 3.0, 6.0]))]));
    // Three squares, their sums 13 and 49, and the root; the cotangent of a square is 1/14.
    let error = (4.0 + 9.0 + 36.0 + 13.0 + 49.0) / 14.0 + 7.0;
    assert!(near(of(&found, "l").error, error * UNIT / 7.0), "{:?}", of(&found, "l"));
    assert_eq!(of(&found, "l").operations, 6.0);
}

#[test]
fn a_condition_that_rounding_decides_has_no_bound_by_intervals() {
    let text = "[Differentiable] float f(float x)\n\
                {\n    float y = x * 0.1f;\n    if (y * 10.0f < x)\n        return y;\n    return x * y;\n}\n";
    let found = estimated(text, &options(&[("x", json!(0.7))]));
    let unbounded = found.report.enclosed.expect_err("the condition is open");
    assert!(unbounded.span.is_some() && unbounded.points == 1, "{unbounded:?}");
    let text = text.replace("y * 10.0f", "y * 20.0f");
    assert!(estimated(&text, &options(&[("x", json!(0.7))])).report.enclosed.is_ok());
}

#[test]
fn proposals_stay_within_the_tolerance() {
    let text = "[Differentiable] float g(float u) { return u * 0.001; }\n\
                [Differentiable] float f(float x, float y)\n\
                {\n    float large = x * y;\n    float small = g(y);\n    let also = small * x;\n    return large + also;\n}\n";
    let (found, proposal) = proposed(text, 1e-5);
    let narrowed = narrowed(&found, &proposal);
    assert!(narrowed.contains(&"small") && narrowed.contains(&"also"), "{proposal:?}");
    assert!(!narrowed.contains(&"large"), "{proposal:?}");
    assert!(proposal.text.contains("half small = g(y);"), "{}", proposal.text);
    assert!(proposal.text.contains("let also = half(small * x);"), "{}", proposal.text);
    assert!(proposal.text.contains("float large = x * y;"), "{}", proposal.text);
    assert!(proposal.predicted <= 1e-5 && proposal.measured.value.is_some_and(|e| e <= proposal.predicted));
    // What a variable costs alone: its value is rounded to a half.
    let cost = of(&found, "large").narrower[0].1.clone().expect("compiles");
    assert!(cost > 0.5 * HALF && cost < 1.5 * HALF, "{cost}");
    // Nothing fits within less than the program's own error.
    assert!(proposed(text, 1e-9).1.narrowed.is_empty());
}

#[test]
fn errors_that_no_derivative_carries_are_measured() {
    let text = "[Differentiable] float f(float x)\n\
                {\n    float scale = detach(x * 1.7f);\n    return scale * x;\n}\n";
    let (found, proposal) = proposed(text, 1e-5);
    assert_eq!(of(&found, "scale").error, 0.0);
    assert!(of(&found, "scale").narrower[0].1.as_ref().is_ok_and(|&e| e > 1e-5), "{:?}", of(&found, "scale"));
    assert!(proposal.narrowed.is_empty(), "{proposal:?}");
}

#[test]
fn doubles_become_floats_where_halves_are_too_narrow() {
    let text = "[Differentiable] double f(double x)\n\
                {\n    double a = x * 1e6lf, b = x * 2e6lf;\n    return a * 1e-6lf + b * 1e-20lf;\n}\n";
    let (found, proposal) = proposed(text, 1e-6);
    // Both have one type in the source.
    assert_eq!(proposal.narrowed.len(), 1, "{proposal:?}");
    assert_eq!(proposal.narrowed[0].variables.len(), 2, "{proposal:?}");
    assert!(proposal.text.contains("float a = x * 1e6lf, b = x * 2e6lf;"), "{}", proposal.text);
    assert!(of(&found, "a").narrower[1].1.as_ref().is_ok_and(|e| e.is_infinite()), "{:?}", of(&found, "a"));
}

/// A small wave whose slope is larger by two orders of magnitude.
const WAVE: &str = "[Differentiable] float f(float x)\n\
    {\n    float phase = 100.0 * x;\n    float wave = 0.0001 * sin(phase);\n    return x + wave;\n}\n";

#[test]
fn the_error_of_a_derivative_counts_where_it_is_asked_for() {
    let (found, proposal) = proposed(WAVE, 1e-4);
    assert_eq!(narrowed(&found, &proposal), ["wave", "phase"], "{proposal:?}");
    assert_eq!((found.report.measured.derivative, proposal.measured.derivative), (None, None));
    for direction in [Direction::Forward, Direction::Reverse] {
        let (found, proposal) = proposed_for(WAVE, 1e-4, Some(direction));
        assert_eq!(narrowed(&found, &proposal), ["wave"], "{proposal:?}");
        // The program's own derivative has the digits of a float, and that of the proposal keeps the tolerance.
        assert!(found.report.measured.derivative.is_some_and(|error| error > 0.0 && error < 1e-6));
        assert!(proposal.is_within(1e-4) && proposal.measured.derivative.is_some_and(|error| error < 1e-4));
        let phase = found.report.contributions.iter().position(|c| c.variable.name == "phase");
        let kept = proposal.kept.iter().find(|kept| Some(kept.0) == phase).expect("it is kept");
        assert!(kept.1.contains("gradient") || kept.1.contains("tangent"), "{}", kept.1);
        assert!(of(&found, "phase").narrower[0].1.as_ref().is_ok_and(|&error| error > 1e-4));
    }
}

#[test]
fn derivatives_of_narrowed_programs_compute_in_these_types() {
    for mode in [Derivative::Forward, Derivative::Backward] {
        let (_, proposal) = proposed_for(WAVE, 1e-3, Some(mode.direction()));
        assert!(!proposal.narrowed.is_empty(), "{proposal:?}");
        let mut session = Session::new(FileOptions::default());
        let mut callee = |text: &str, name: &str, derivatives: bool| {
            let mut loaded = load(&mut session, &source(text)).expect("loads");
            let function = loaded.function(name).expect("is there");
            let request = Request { functions: vec![function], derivatives, ..Request::default() };
            let compiled = loaded.compile(&request, &pipeline::Options::default()).expect("compiles");
            Callee::new(compiled, Backend::INTERP, &CodeOptions::default(), &[]).expect("is callable")
        };
        let mut compiled = callee(&proposal.text, "f", true);
        let mut session = Session::new(FileOptions::default());
        let mut loaded = load(&mut session, &source(&proposal.text)).expect("loads");
        let function = loaded.function("f").expect("is there");
        let text = derive::source(&mut loaded, function, mode, &["A note.".into()]).expect("is written");
        assert!(text.lines().nth(1) == Some("// A note.") && text.contains("half"), "{text}");
        let name = if mode == Derivative::Forward { "f_fwd" } else { "f_bwd" };
        let mut written = callee(&text, name, false);
        for x in [0.5f32, 0.7, 1.3, 1.9] {
            let x = u64::from(x.to_bits());
            let found = written.value(&vec![x, u64::from(1f32.to_bits())]).expect("runs");
            let wanted = match mode.direction() {
                Direction::Forward => compiled.forward(&vec![x]),
                _ => compiled.reverse(&vec![x]),
            };
            let wanted = wanted.expect("runs")[0][0];
            let found = found.last().map(|&bits| f64::from(f32::from_bits(bits as u32)));
            assert_eq!(found, Some(wanted), "{text}");
        }
    }
}

#[test]
fn fields_of_structs_that_only_the_function_uses_may_be_narrower() {
    let text = "struct Inner : IDifferentiable { float small; }\n\
        struct Hit : IDifferentiable { float large; float low, little; Inner inner; }\n\
        [Differentiable] Hit trace(float x)\n{\n    Hit hit;\n    hit.large = x * x;\n    hit.low = 0.001 * x;\n    \
            hit.little = 0.001;\n    hit.inner = { 0.001 * x };\n    return hit;\n}\n\
        [Differentiable] float f(float x)\n{\n    Hit hit = trace(x);\n    \
            return hit.large + hit.low + hit.little * x + hit.inner.small;\n}\n";
    let (found, proposal) = proposed(text, 1e-5);
    assert_eq!(proposal.narrowed.len(), 2, "{proposal:?}");
    let mut names = narrowed(&found, &proposal);
    names.sort_unstable();
    assert_eq!(names, ["little", "low", "small"], "{proposal:?}");
    assert_eq!(of(&found, "low").variable.path(), "Hit: low");
    assert!(proposal.text.contains("{ float large; half low, little; Inner inner; }"), "{}", proposal.text);
    assert!(proposal.text.contains("{ half small; }"), "{}", proposal.text);
    // What others see keeps its layout.
    for more in [
        "RWStructuredBuffer<Hit> hits;\n",
        "float other(float x) { Hit hit = trace(x); return hit.low; }\n",
        "#define RAY Hit\n",
        "struct Kept { Hit hit; }\nstatic Kept kept;\n",
        "typedef Hit Found;\n",
    ] {
        let proposal = proposed(&format!("{text}{more}"), 1e-5).1;
        assert!(proposal.narrowed.is_empty(), "{more}: {proposal:?}");
    }
    // A struct that contains it and is not used does not see it; neither does a comment.
    for more in ["struct Free { Hit hit; }\n", "// Hit\n"] {
        assert_eq!(proposed(&format!("{text}{more}"), 1e-5).1.narrowed.len(), 2, "{more}");
    }
    let interface = text.replace(
        "[Differentiable] float f(float x)",
        "[Differentiable] float f(float x, no_diff Inner given)",
    );
    let proposal = proposed(&interface, 1e-5).1;
    assert_eq!(proposal.narrowed.len(), 1, "{proposal:?}");
    assert!(proposal.text.contains("{ float small; }"), "{}", proposal.text);
    let loads = text.replace("Hit hit = trace(x);", "Hit hit = trace(x);\n    Array<Hit, 2> hits;");
    assert!(proposed(&loads, 1e-5).1.narrowed.is_empty());
}

#[test]
fn limits_of_memory_do_not_count_for_the_observed_code() {
    let text = "[Differentiable] [CheckpointBudget(96)] float f(float x)\n\
                {\n    float s = x;\n    [Checkpoint(4)] for (int i = 0; i < 16; i++) s = sin(s) + x;\n    return s;\n}\n";
    let found = estimated(text, &options(&[("x", json!(0.5))]));
    assert_eq!(of(&found, "s").operations, 32.0);
    assert!(found.report.measured.value.is_some_and(|error| error <= found.report.estimated));
}

#[test]
fn what_cannot_be_estimated_is_refused() {
    let mut session = Session::new(FileOptions::default());
    let mut refused = |text: &str| {
        let found = estimate(&mut session, &source(text), &options(&[]), &mut Vec::new());
        match found.err() {
            Some(Failure::Program(diagnostics)) => diagnostics[0].code.to_string(),
            Some(Failure::Other(error)) => error.to_string(),
            None => "nothing".into(),
        }
    };
    let nested = "[Differentiable] float g(float x) { return x * x; }\n\
                  [Differentiable] float f(float x) { return fwd_diff(g)(diffPair(x, 1.0)).d; }\n";
    assert_eq!(refused(nested), "E0926");
    let never = "[Differentiable] float f(float x) { return x / 0.0; }\n";
    assert!(refused(never).contains("at every point"), "{}", refused(never));
    let discrete = "[Differentiable] int f(float x) { return int(x); }\n";
    assert!(refused(discrete).contains("no differentiable"), "{}", refused(discrete));
}
