//! Rules are compared with slopes that have all of a double's digits: faults far below what differences in doubles show are
//! found, and what is no fault is accepted.

use std::path::Path;

use pullback_driver::launch::{Backend, CodeOptions};
use pullback_driver::ranges::Ranges;
use pullback_driver::ruletest::{Found, Options, Rules, Tested, test};
use pullback_driver::session::{FileOptions, Session, core_text};

fn options(points: u32) -> Options {
    Options {
        functions: Vec::new(),
        at: Vec::new(),
        points,
        ranges: Ranges { common: (-2.0, 2.0), named: Vec::new() },
        ranged: Vec::new(),
        seed: 1,
        memory: Vec::new(),
        backend: Backend::INTERP,
        code: CodeOptions::default(),
    }
}

fn tested(name: &str, text: &str) -> Vec<Tested> {
    let path = std::env::temp_dir().join(format!("pullback-ruletest-{name}-{}.slang", std::process::id()));
    std::fs::write(&path, text).expect("a file");
    let mut session = Session::new(FileOptions::default());
    let found = test(&mut session, &Rules::File(path.clone()), &options(60), &mut Vec::new());
    std::fs::remove_file(path).expect("is there");
    found.unwrap_or_else(|failure| panic!("{failure:?}"))
}

fn found(tested: &Tested) -> &Found {
    tested.found.as_ref().unwrap_or_else(|why| panic!("{}: {why}", tested.name))
}

/// The errors of both modes, and of second derivatives.
fn errors(found: &Found) -> [f64; 3] {
    let second = found.second.as_ref().and_then(|s| s.as_ref().ok());
    [found.forward.as_ref(), found.reverse.as_ref(), second].map(|worst| worst.map_or(f64::NAN, |w| w.ulps))
}

#[test]
fn every_rule_of_the_library_on_numbers_is_tested() {
    let text = core_text("core/derivatives.slang").expect("a part of the library");
    let primals =
        text.split("[ForwardDerivativeOf(").skip(1).filter_map(|rest| rest.split_once(')')).map(|s| s.0);
    let primals: Vec<&str> = primals.collect();
    assert!(primals.len() >= 38, "{}", primals.len());
    let mut session = Session::new(FileOptions::default());
    let all = test(&mut session, &Rules::Library, &options(12), &mut Vec::new()).expect("rules");
    for primal in primals {
        let of: Vec<_> = all.iter().filter(|tested| tested.name == primal).map(|tested| tested.of).collect();
        assert_eq!(of, ["half", "float", "double"].map(Some), "{primal}");
    }
    for tested in &all {
        let (of, found) = (tested.of, found(tested));
        assert!(
            found.compared > 0 && errors(found).iter().all(|&e| e < 100.0),
            "{} {of:?} {found:?}",
            tested.name
        );
    }
}

#[test]
fn an_error_in_the_twelfth_digit_of_a_double_is_seen() {
    let rule = |slope: &str| {
        format!(
            "[ForwardDerivative(f_fwd)] double f(double x) {{ return x * sin(x); }}\n\
             [Differentiable] DifferentialPair<double> f_fwd(DifferentialPair<double> x)\n\
             {{ return diffPair(x.p * sin(x.p), ({slope}) * x.d); }}\n"
        )
    };
    let right = tested("right", &rule("sin(x.p) + x.p * cos(x.p)"));
    // The slope is a difference near its zeros.
    assert!(errors(found(&right[0])).iter().all(|&e| e < 100.0), "{:?}", right[0]);
    let wrong = tested("wrong", &rule("sin(x.p) + 1.000000000001lf * x.p * cos(x.p)"));
    assert!(errors(found(&wrong[0])).iter().all(|&e| e > 1000.0), "{:?}", wrong[0]);
}

#[test]
fn second_derivatives_of_rules_are_tested() {
    // The value comes from a function whose derivative is cut off.
    let text = "[ForwardDerivative(f_fwd)] float f(float x) { return exp(x); }\n\
                [Differentiable] DifferentialPair<float> f_fwd(DifferentialPair<float> x)\n\
                { float y = detach(exp(x.p)); return diffPair(y, y * x.d); }\n";
    let found = found(&tested("second", text)[0]).clone();
    let [forward, reverse, second] = errors(&found);
    assert!(forward < 2.0 && reverse < 2.0 && second > 1e6, "{found:?}");
}

#[test]
fn a_rule_gives_the_value_and_is_linear() {
    let text = "[ForwardDerivative(f_fwd)] float f(float x) { return x * x; }\n\
                [Differentiable] DifferentialPair<float> f_fwd(DifferentialPair<float> x)\n\
                { return diffPair(x.p * x.p + 0.1, 2 * x.p * x.d); }\n\
                [BackwardDerivative(g_bwd)] float g(float x) { return 2 * x; }\n\
                void g_bwd(inout DifferentialPair<float> x, float d) { x = diffPair(x.p, d > 0 ? 2 * d * d : 0.0); }\n\
                [ForwardDerivative(h_fwd)] float h(float x) { return x * x * x; }\n\
                [Differentiable] DifferentialPair<float> h_fwd(DifferentialPair<float> x)\n\
                { return diffPair(x.p * (x.p * x.p), 3 * x.p * x.p * x.d); }\n";
    let all = tested("linear", text);
    let [f, g, h] = [0, 1, 2].map(|k| errors(found(&all[k])));
    assert!(f[0] > 1e5 && f[1] < 4.0, "{f:?}");
    assert!(g[0] < 4.0 && g[1] > 1e5, "{g:?}");
    assert!(h.iter().all(|&error| error < 4.0), "{h:?}");
}

#[test]
fn a_derivative_at_a_kink_is_between_the_slopes() {
    let rule = |name: &str, at_zero: &str| {
        format!(
            "[BackwardDerivative({name}_bwd)] float {name}(float x) {{ return abs(x) + x; }}\n\
             void {name}_bwd(inout DifferentialPair<float> x, float d)\n\
             {{ x = diffPair(x.p, d * (x.p > 0.0 ? 2.0 : x.p < 0.0 ? 0.0 : {at_zero})); }}\n"
        )
    };
    let all = tested("kink", &(rule("within", "1.5") + &rule("outside", "2.5")));
    let [within, outside] = [found(&all[0]), found(&all[1])];
    assert!(within.kinks > 0 && errors(within)[1] == 0.0, "{within:?}");
    assert!(outside.kinks > 0 && errors(outside)[1] > 1e6, "{outside:?}");
}

#[test]
fn what_cannot_be_tested_says_why() {
    let text = "[ForwardDerivative(f_fwd)] T f<T : IFloat>(T x) { return x; }\n\
                DifferentialPair<T> f_fwd<T : IFloat>(DifferentialPair<T> x) { return x; }\n\
                [Differentiable] float g(float x) { return x; }\n";
    let all = tested("generic", text);
    let [f] = &all[..] else { panic!("{all:?}") };
    assert!(f.name == "f" && f.found.as_ref().is_err_and(|why| why.contains("generic")), "{f:?}");
    let mut session = Session::new(FileOptions::default());
    // A range of what no function has.
    let unknown = Options { ranged: vec!["typo".into()], ..options(1) };
    assert!(test(&mut session, &Rules::Library, &unknown, &mut Vec::new()).is_err());
    let missing = Rules::File(Path::new("no such file.slang").into());
    assert!(test(&mut session, &missing, &options(1), &mut Vec::new()).is_err());
}
