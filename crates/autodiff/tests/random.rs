//! Random programs: forward mode equals dual numbers, reverse mode is its transpose, and the four ways to
//! compute second derivatives agree.
//!
//! `PULLBACK_RANDOM_PROGRAMS` sets the number of programs, `PULLBACK_RANDOM_SEED` the first seed, and
//! `PULLBACK_RANDOM_SIZE` the size of the programs.

mod generate;

use std::time::Instant;

use generate::{Rng, program};
use ir::interp::{Limits, Memory, Value, call_limited, dual};
use ir::{Func, Module, Op, Prefer, Slot, Type, TypeData, Types};
use pullback_autodiff::{self as autodiff, Mode, backward, forward, stages};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn random_value(rng: &mut Rng, types: &Types, ty: Type, zero: bool) -> Value {
    let template: Value = Value::zero(types, ty);
    let float = types.is_differentiable(ty);
    template.map(&mut |_| match (zero, float) {
        (true, _) => 0,
        (false, true) => rng.number().to_bits(),
        (false, false) => rng.below(4) as u64,
    })
}

fn random_values(rng: &mut Rng, types: &Types, slots: &[&Slot]) -> Vec<Value> {
    slots.iter().map(|slot| random_value(rng, types, slot.ty, false)).collect()
}

fn dot(a: &[Value], b: &[Value]) -> f64 {
    let terms = a.iter().zip(b).flat_map(|(a, b)| {
        a.lanes()
            .into_iter()
            .zip(b.lanes())
            .map(|(x, y)| f64::from_bits(x) * f64::from_bits(y))
            .collect::<Vec<_>>()
    });
    terms.sum()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 + 1e-8 * a.abs().max(b.abs())
        || !a.is_finite() && !b.is_finite()
        || a.abs().max(b.abs()) > 1e12
}

fn all_close(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            let (a, b) = (a.lanes(), b.lanes());
            a.len() == b.len() && a.iter().zip(&b).all(|(&x, &y)| close(f64::from_bits(x), f64::from_bits(y)))
        })
}

fn limits() -> Limits {
    Limits { steps: Some(3_000_000), depth: 1000, ..Limits::default() }
}

struct Case {
    module: Module,
    seed: u64,
    size: usize,
}

impl Case {
    fn fail(&self, what: &str) -> ! {
        let text = ir::print::print_module(&self.module);
        let path = std::env::temp_dir().join("pullback-random-failure.ir");
        let _ = std::fs::write(&path, &text);
        panic!("seed {} size {}: {what}; the module is in {}", self.seed, self.size, path.display());
    }

    fn run(&self, func: Func, args: &[Value]) -> Option<Vec<Value>> {
        match call_limited(&self.module, func, args, &mut Memory::default(), limits()) {
            Ok(results) => Some(results),
            Err(error) if error.message.contains("step") => None,
            Err(error) => self.fail(&format!("`{}` stops: {error}", self.module.funcs[func].name)),
        }
    }

    fn verify(&self, what: &str) {
        let errors = ir::verify::verify_module(&self.module);
        if !errors.is_empty() {
            let all: Vec<String> = errors.iter().take(5).map(|e| e.to_string()).collect();
            self.fail(&format!("after {what}: {}", all.join("\n")));
        }
    }

    fn make(
        &mut self,
        what: &str,
        make: impl FnOnce(&mut Module) -> Result<Func, Vec<autodiff::Problem>>,
    ) -> Func {
        match make(&mut self.module) {
            Ok(func) => {
                self.verify(what);
                func
            }
            Err(problems) => self.fail(&format!("{what}: {problems:?}")),
        }
    }
}

/// Replaces pullbacks by the functions that they are differentiated as. Dual numbers ignore rules, and the
/// residuals of a pullback have no tangents.
fn with_whole_pullbacks(module: &Module) -> Module {
    let mut module = module.clone();
    let Module { funcs, witnesses, .. } = &mut module;
    for func in funcs.values_mut() {
        for inst in func.insts.values_mut() {
            if let Op::Call(callee) = &mut inst.op
                && let Some(whole) = witnesses.get(callee).and_then(|w| w.substitute)
            {
                *callee = whole;
            }
        }
    }
    module
}

/// Returns true if a function calls itself, or a loop is reversed in segments.
fn runs_again(module: &Module) -> bool {
    let mut found = false;
    for (at, func) in module.funcs.iter().filter(|f| f.1.has_body()) {
        func.walk(func.body(), &mut |inst| match &func.insts[inst].op {
            Op::Call(callee) => found |= *callee == at,
            Op::For(info) | Op::Loop(info) => found |= info.checkpoint.is_some(),
            _ => (),
        });
    }
    found
}

/// Returns true if all checks were made; a program that runs too long is abandoned.
fn check(seed: u64, size: usize) -> bool {
    let (mut module, f) = program(seed, size);
    let problems = autodiff::differentiate(&mut module, &autodiff::Options::default());
    assert!(problems.is_empty(), "seed {seed} size {size}: {problems:?}");
    let original = module.clone();
    let mut case = Case { module, seed, size };
    case.verify("generation");
    let mut rng = Rng(seed ^ 0xabcdef);
    let types = case.module.types.clone();
    let params = case.module.funcs[f].params.clone();
    let results = case.module.funcs[f].results.clone();
    let x = random_values(&mut rng, &types, &params.iter().collect::<Vec<_>>());
    let diff_params: Vec<&Slot> = params.iter().filter(|s| s.diff).collect();
    let diff_results: Vec<&Slot> = results.iter().filter(|s| s.diff).collect();
    let v = random_values(&mut rng, &types, &diff_params);
    let w = random_values(&mut rng, &types, &diff_params);
    let ybar = random_values(&mut rng, &types, &diff_results);
    let zeros = |slots: &[&Slot]| slots.iter().map(|s| Value::zero(&types, s.ty)).collect::<Vec<Value>>();
    let concat = |parts: &[&[Value]]| parts.concat();
    // The tangents of all parameters, for the dual numbers.
    let spread = |tangents: &[Value]| {
        let mut rest = tangents.iter();
        params
            .iter()
            .map(|s| {
                if s.diff {
                    rest.next().expect("a tangent for each").clone()
                } else {
                    Value::zero(&types, s.ty)
                }
            })
            .collect::<Vec<Value>>()
    };

    // ---- every stage is well-formed, marks included
    {
        let mut staged = Case { module: original.clone(), seed, size };
        if let Err(problems) = stages(&mut staged.module, f) {
            staged.fail(&format!("stages: {problems:?}"));
        }
        // A function that is run again, or has pullbacks, is reversed as a whole; the functions that it
        // shares with the stages have lost their marks. A user-written vjp never had any.
        let mut verifies = !runs_again(&original) && original.residuals.is_empty();
        for func in staged.module.funcs.values().filter(|f| f.has_body()) {
            func.walk(func.body(), &mut |inst| {
                verifies &= !matches!(func.insts[inst].op, Op::CallTransposeOf(_));
            });
        }
        if verifies {
            staged.verify("stages");
        }
        let mask: Vec<bool> = params.iter().map(|_| rng.chance(50)).collect();
        autodiff::linearize(&mut staged.module, f, &mask, Mode::Forward);
        if verifies {
            staged.verify("linearize with a mask");
        }
    }

    // ---- forward mode is dual numbers
    let Some(y) = case.run(f, &x) else { return false };
    let fwd = case.make("forward", |m| forward(m, f));
    let Some(out) = case.run(fwd, &concat(&[&x, &v])) else { return false };
    let (primal, tangents) = out.split_at(results.len());
    let same = y.iter().zip(primal).zip(&results).all(|((a, b), s)| a.same(b, &types, s.ty));
    if !same {
        case.fail("forward mode changes the primal");
    }
    let dual =
        dual::jvp(&with_whole_pullbacks(&original), f, &x, &spread(&v), &mut Memory::default(), limits());
    let Ok((_, expected)) = dual else { return false };
    let expected: Vec<Value> =
        expected.into_iter().zip(&results).filter(|(_, s)| s.diff).map(|(t, _)| t).collect();
    if !all_close(tangents, &expected) {
        case.fail(&format!("forward mode gives {tangents:?}, dual numbers {expected:?}"));
    }

    // ---- reverse mode is the transpose
    let bwd = case.make("backward", |m| backward(m, f));
    let Some(xbar) = case.run(bwd, &concat(&[&x, &ybar])) else { return false };
    let (left, right) = (dot(&ybar, tangents), dot(&xbar, &v));
    if !close(left, right) {
        case.fail(&format!("<ȳ, Jẋ> = {left}, <Jᵀȳ, ẋ> = {right}"));
    }

    // ---- the choice of kept values changes nothing
    for budget in [None, Some(rng.below(300) as u64)] {
        let mut other = Case { module: original.clone(), seed, size };
        let prefer = if rng.chance(50) { Prefer::Recompute } else { Prefer::Checkpoint };
        for func in other.module.funcs.values_mut() {
            func.checkpoint.prefer = if rng.chance(50) { prefer } else { Prefer::Neither };
        }
        other.module.funcs[f].checkpoint.budget = budget;
        match backward(&mut other.module, f) {
            Ok(bwd) => {
                other.verify("backward with another policy");
                let Some(found) = other.run(bwd, &concat(&[&x, &ybar])) else { return false };
                if !all_close(&found, &xbar) {
                    other.fail(&format!("with budget {budget:?}: {found:?} and not {xbar:?}"));
                }
            }
            Err(problems) if problems.iter().all(|p| budget.is_some() && p.code == "E0921") => (),
            Err(problems) => other.fail(&format!("{problems:?}")),
        }
    }

    // ---- second derivatives, four ways and by dual numbers
    let second = with_whole_pullbacks(&case.module);
    let fwd_fwd = case.make("forward of forward", |m| forward(m, fwd));
    let no_v = zeros(&diff_params);
    let Some(out) = case.run(fwd_fwd, &concat(&[&x, &v, &w, &no_v])) else { return false };
    let expected = dot(&out[out.len() - ybar.len()..], &ybar);
    let by_dual = dual::jvp(
        &second,
        fwd,
        &concat(&[&x, &v]),
        &concat(&[&spread(&w), &no_v]),
        &mut Memory::default(),
        limits(),
    );
    let Ok((_, by_dual)) = by_dual else { return false };
    let by_dual = dot(&by_dual[by_dual.len() - ybar.len()..], &ybar);
    if !close(expected, by_dual) {
        case.fail(&format!("forward of forward gives {expected}, dual numbers {by_dual}"));
    }

    let fwd_bwd = case.make("forward of backward", |m| forward(m, bwd));
    let no_ybar = zeros(&diff_results);
    let Some(out) = case.run(fwd_bwd, &concat(&[&x, &ybar, &w, &no_ybar])) else { return false };
    let found = dot(&out[out.len() - v.len()..], &v);
    if !close(expected, found) {
        case.fail(&format!("forward of backward gives {found}, forward of forward {expected}"));
    }

    let bwd_fwd = case.make("backward of forward", |m| backward(m, fwd));
    let Some(out) = case.run(bwd_fwd, &concat(&[&x, &v, &no_ybar, &ybar])) else { return false };
    let found = dot(&out[..w.len()], &w);
    if !close(expected, found) {
        case.fail(&format!("backward of forward gives {found}, forward of forward {expected}"));
    }

    let bwd_bwd = case.make("backward of backward", |m| backward(m, bwd));
    let Some(out) = case.run(bwd_bwd, &concat(&[&x, &ybar, &v])) else { return false };
    let found = dot(&out[..w.len()], &w);
    if !close(expected, found) {
        case.fail(&format!("backward of backward gives {found}, forward of forward {expected}"));
    }
    let again = &out[w.len()..];
    if !all_close(again, tangents) {
        case.fail("the derivative of Jᵀȳ by ȳ is not J");
    }
    expected != 0.0
}

#[test]
fn random_programs() {
    let count = setting("PULLBACK_RANDOM_PROGRAMS", 250);
    let first = setting("PULLBACK_RANDOM_SEED", 1);
    let fixed = std::env::var("PULLBACK_RANDOM_SIZE").ok().and_then(|text| text.parse().ok());
    let start = Instant::now();
    let mut curved = 0;
    for k in 0..count {
        let size = fixed.unwrap_or(3 + (k * 40 / count.max(1)) as usize);
        curved += u64::from(check(first + k, size));
    }
    eprintln!("{count} programs, {curved} with second derivatives, in {:?}", start.elapsed());
    assert!(curved * 3 > count, "most programs are to test something");
}

#[test]
fn the_generator_uses_everything() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let (module, _) = program(seed, 30);
        for func in module.funcs.values() {
            if !func.has_body() {
                continue;
            }
            func.walk(func.body(), &mut |inst| {
                seen.insert(ir::print::op_name(&func.insts[inst].op));
            });
        }
        let has_stack = module
            .funcs
            .values()
            .any(|f| f.values.values().any(|v| matches!(module.types[v.ty], TypeData::Stack(_))));
        if has_stack {
            seen.insert("stacks".to_string());
        }
    }
    for op in [
        "if",
        "for",
        "loop",
        "local",
        "load",
        "store",
        "add_to",
        "call",
        "call_fwd",
        "call_bwd",
        "call_apply",
        "call_pullback",
        "index",
        "stacks",
    ] {
        assert!(seen.iter().any(|name| name.starts_with(op)), "no {op} in {seen:?}");
    }
}
