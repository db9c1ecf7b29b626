//! Compares derivatives of random programs before and after optimisation: the numbers are the same up to
//! rounding.
//!
//! Zeros are symbolic here, so this also tests the rules for absent differentials. `PULLBACK_RANDOM=n` runs
//! `n` programs.

#[path = "../../autodiff/tests/generate/mod.rs"]
mod generate;

use generate::{Rng, program};
use ir::interp::{Limits, Memory, Value, call_limited};
use ir::{Func, Module, Type, Types};
use pullback_opt as opt;

fn count() -> u64 {
    std::env::var("PULLBACK_RANDOM").ok().and_then(|n| n.parse().ok()).unwrap_or(150)
}

fn value(rng: &mut Rng, types: &Types, ty: Type) -> Value {
    let float = types.is_differentiable(ty);
    let template: Value = Value::zero(types, ty);
    template.map(&mut |_| if float { rng.number().to_bits() } else { rng.below(4) as u64 })
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 + 1e-7 * a.abs().max(b.abs()) || a.abs().max(b.abs()) > 1e9
}

fn all_close(a: &[Value], b: &[Value]) -> bool {
    a.iter().zip(b).all(|(a, b)| {
        a.lanes().into_iter().zip(b.lanes()).all(|(x, y)| close(f64::from_bits(x), f64::from_bits(y)))
    })
}

fn finite(values: &[Value]) -> bool {
    values.iter().all(|v| v.lanes().into_iter().all(|x| f64::from_bits(x).is_finite()))
}

fn run(module: &Module, func: Func, args: &[Value]) -> Option<Vec<Value>> {
    let limits = Limits { steps: Some(2_000_000), depth: 1000, ..Limits::default() };
    call_limited(module, func, args, &mut Memory::default(), limits).ok()
}

/// The functions to compare: forward, reverse, and forward of reverse.
fn derivatives(module: &mut Module, f: Func) -> Vec<Func> {
    let forward = autodiff::forward(module, f).expect("a derivative");
    let backward = autodiff::backward(module, f).expect("a derivative");
    let second = autodiff::forward(module, backward).expect("a second derivative");
    vec![f, forward, backward, second]
}

#[test]
fn optimised_derivatives_are_the_same() {
    compare(&opt::Options::default());
}

#[test]
fn derivatives_in_fast_mathematics_are_the_same() {
    compare(&opt::Options { fast_math: true, ..opt::Options::default() });
}

fn compare(options: &opt::Options) {
    let mut compared = 0;
    for seed in 0..count() {
        let (mut plain, f) = program(seed + 1, 3 + (seed % 40) as usize);
        let mut fast = plain.clone();
        opt::before_ad(&mut fast, options);
        let before = fast.clone();
        let expected = derivatives(&mut plain, f);
        let found = derivatives(&mut fast, f);
        let made = fast.clone();
        opt::after_ad(&mut fast, options, &[]);
        opt::prune(&mut fast, &found);
        let show = || {
            let print = ir::print::print_module;
            format!("{}\n---- after AD\n{}\n---- at the end\n{}", print(&before), print(&made), print(&fast))
        };
        let errors = ir::verify::verify_module(&fast);
        assert!(errors.is_empty(), "seed {seed}: {errors:?}\n{}", show());
        let mut rng = Rng(seed ^ 0x55);
        for (&a, &b) in expected.iter().zip(&found) {
            let slots: Vec<Type> = plain.funcs[a].params.iter().map(|s| s.ty).collect();
            let args: Vec<Value> = slots.iter().map(|&ty| value(&mut rng, &plain.types, ty)).collect();
            let (Some(x), Some(y)) = (run(&plain, a, &args), run(&fast, b, &args)) else { continue };
            if !finite(&x) {
                continue;
            }
            compared += 1;
            let name = &plain.funcs[a].name;
            assert!(all_close(&x, &y), "seed {seed}, {name}: {x:?} is {y:?}\n{}", show());
        }
    }
    assert!(compared > 2 * count(), "most programs are to test something: {compared}");
}
