//! Faults that are made by hand are found, and the pass that made them is named.

use autodiff::{Step, Steps, Unzipped};
use ir::{Func, Module};
use opt::Observer;

use super::{Validation, Validator, points::Bound};

fn validator() -> Validator {
    Validator {
        validation: Validation::default(),
        bound: Bound::default(),
        is_near: false,
        summary: super::Summary::default(),
        fault: None,
    }
}

fn parse(text: &str) -> Module {
    ir::parse::parse_module(text).unwrap()
}

fn named(module: &Module, name: &str) -> Func {
    module.funcs.iter().find(|(_, func)| func.name == name).unwrap().0
}

/// The message about the passes that turn `f` into `one` and then into `two`.
fn fault(text: &str, passes: [&'static str; 2]) -> Option<String> {
    let mut module = parse(text);
    let all = ["f", "one", "two"].map(|name| module.funcs[named(&module, name)].clone());
    let [before, one, two] = all;
    let f = named(&module, "f");
    module.funcs[f] = two.clone();
    let mut validator = validator();
    validator.changed(&mut module, f, before, vec![(passes[0], one), (passes[1], two)]);
    validator.fault.map(|fault| format!("{}; {}", fault.message, fault.primary.message))
}

const SUMS: &str = "
func f(v0: f32, v1: f32) -> (f32) {
v2 = sub v0, v1
yield v2
}
func one(v0: f32, v1: f32) -> (f32) {
v2 = neg v1
v3 = add v0, v2
yield v3
}
";

#[test]
fn the_pass_that_is_wrong_is_named() {
    let right = format!("{SUMS}func two(v0: f32, v1: f32) -> (f32) {{\n v2 = sub v0, v1\n yield v2\n}}\n");
    assert_eq!(fault(&right, ["simplify", "cse"]), None);
    let wrong = format!("{SUMS}func two(v0: f32, v1: f32) -> (f32) {{\n v2 = sub v1, v0\n yield v2\n}}\n");
    let found = fault(&wrong, ["simplify", "cse"]).unwrap();
    assert!(found.contains("the pass `cse`") && found.contains(" instead of "), "{found}");
}

#[test]
fn signs_of_zero_and_nan_count() {
    let zero = "
func f(v0: f32x4) -> (f32x4) {
v1: f32x4 = zero
v2 = mul v0, v1
yield v2
}
func one(v0: f32x4) -> (f32x4) {
v1: f32x4 = zero
v2 = mul v1, v0
yield v2
}
func two(v0: f32x4) -> (f32x4) {
v1: f32x4 = zero
yield v1
}
";
    let found = fault(zero, ["cse", "simplify"]).unwrap();
    assert!(found.contains("the pass `simplify`"), "{found}");
}

/// The fault of steps whose linear half has a transpose of that body.
fn of_transpose(body: &str) -> Option<String> {
    let module = parse(&format!(
        "
func marked(v0: f64, ~v1: f64) -> (f64, ~f64) {{
v2 = mul v0, v0
~v3 = scale ~v1, v0
yield v2, ~v3
}}
func primal(v0: f64) -> (f64) {{
v2 = mul v0, v0
yield v2
}}
func half(v0: f64, ~v1: f64) -> (~f64) {{
~v3 = scale ~v1, v0
yield ~v3
}}
func transposed(v0: f64, ~v1: f64) -> (~f64) {{
{body}
}}
"
    ));
    let [of, primal, linear, transposed] =
        ["marked", "primal", "half", "transposed"].map(|n| named(&module, n));
    let halves = Unzipped { primal, linear, residuals: vec![autodiff::Residual::Param(0)] };
    let steps = vec![Step::Unzipped { of, halves }, Step::Transposed { linear, transposed }];
    let mut validator = validator();
    validator.differentiated(&Steps { module, steps });
    assert!(validator.fault.is_some() || validator.summary.runs > 2, "{:?}", validator.summary);
    validator.fault.map(|fault| format!("{}; {}", fault.message, fault.primary.message))
}

#[test]
fn a_transpose_that_is_wrong_is_found() {
    assert_eq!(of_transpose("~v2 = scale ~v1, v0\n yield ~v2"), None);
    let found = of_transpose("~v2 = scale ~v1, v0\n ~v3 = add ~v2, ~v2\n yield ~v3").unwrap();
    assert!(found.contains("the pass `transpose`"), "{found}");
}
