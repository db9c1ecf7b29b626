//! Checks the steps of differentiation: each states what the function that it makes computes.
//!
//! - *linearize*: `f'(x, ẋ) = (f(x), ∂f(x)·ẋ)`, where the interpreter computes `∂f(x)·ẋ` by dual numbers. Functions with
//!   a derivative of their own are left out: what they say of it need not be that of their bodies.
//! - *unzip*: the halves after each other compute what the function with marks does.
//! - *transpose*: `⟨ȳ, L·ẋ⟩ = ⟨Lᵀ·ȳ, ẋ⟩`, with the residuals of a primal half.

use autodiff::{Step, Steps, Unzipped};
use ir::interp::{Limits, Memory, Value, dual};
use ir::{Func, Module, Slot, scalar};

use super::points::{Bound, Draw, Inputs, memory_differs};
use super::{IS_LATER, LATER, MOST_STEPS, Outcome, POINTS, Same, rounding, run};

/// The reason why a step is not known to be right.
pub(super) enum Found {
    /// Nothing was run.
    NotRun(String),
    /// It is wrong.
    Fault { pass: &'static str, func: Func, inputs: String, wrong: String },
}

/// Runs what a step made beside what it was made of; returns how often both ran and agreed.
pub(super) fn check(steps: &Steps, step: &Step, bound: &Bound) -> Result<usize, Found> {
    let module = &steps.module;
    let (mut runs, mut not_run) = (0, None);
    for at in 0..POINTS {
        let ran = match step {
            Step::Linearized { of, jvp, params, results } => {
                linearized(module, (*of, *jvp), (params, results), bound, at)
            }
            Step::Unzipped { of, halves } => unzipped(module, *of, halves, bound, at),
            Step::Transposed { linear, transposed } => {
                let of = steps.steps.iter().find_map(|step| match step {
                    Step::Unzipped { of, halves } if halves.linear == *linear => Some((*of, halves)),
                    _ => None,
                });
                match of {
                    Some((of, halves)) => transposes(module, of, halves, *transposed, bound, at),
                    None => Err(Found::NotRun("its residuals are another function's".into())),
                }
            }
        };
        match ran {
            Ok(()) => runs += 1,
            // At other inputs it may run.
            Err(Found::NotRun(why)) => _ = not_run.get_or_insert(why),
            Err(fault) => return Err(fault),
        }
    }
    match not_run {
        Some(why) if runs == 0 => Err(Found::NotRun(why)),
        _ => Ok(runs),
    }
}

/// The results of a run that ended.
fn ended(outcome: Outcome) -> Result<(Vec<Value>, Memory), Found> {
    match outcome {
        Outcome::Done(results, memory) => Ok((results, memory)),
        Outcome::Stopped(why) if why.contains(LATER) => Err(Found::NotRun(IS_LATER.into())),
        Outcome::Stopped(why) => Err(Found::NotRun(format!("it stops: {why}"))),
        Outcome::TooLong => Err(Found::NotRun("it takes too many steps".into())),
    }
}

fn inputs_of(module: &Module, func: Func, bound: &Bound, at: u64) -> Result<Inputs, Found> {
    if !module.funcs[func].has_body() {
        return Err(Found::NotRun("it has no body".into()));
    }
    Inputs::random(module, func, bound, at).map_err(Found::NotRun)
}

fn linearized(
    module: &Module,
    (of, jvp): (Func, Func),
    (params, results): (&[bool], &[bool]),
    bound: &Bound,
    at: u64,
) -> Result<(), Found> {
    // Where a number is not finite, dual numbers have a NaN for what derivatives leave out: 0 · ∞. And they are doubles, so
    // they do not overflow where floats do.
    if !Draw::new(at).is_moderate() {
        return Err(Found::NotRun("its numbers are not finite".into()));
    }
    let reached = ir::analysis::reach(vec![of], |f| ir::walk::callees(&module.funcs[f]));
    let is_own = |f: Func| module.witnesses.contains_key(&f) || module.witness(f) != ir::Witness::default();
    if reached.iter().any(is_own) {
        return Err(Found::NotRun("a function in it has a derivative of its own".into()));
    }
    let inputs = inputs_of(module, jvp, bound, at)?;
    let (x, dx) = inputs.args.split_at(module.funcs[of].params.len());
    let (found, _) = ended(inputs.run(module, jvp))?;
    let mut given = dx.iter();
    let slots = &module.funcs[of].params;
    let tangents: Vec<Value> = slots
        .iter()
        .zip(params)
        .map(|(slot, &has)| match has {
            true => given.next().expect("a tangent for each").clone(),
            false => Value::zero(&module.types, slot.ty),
        })
        .collect();
    let limits = Limits { steps: Some(MOST_STEPS), ..Limits::default() };
    let mut memory = inputs.memory.clone();
    let wanted = dual::call(module, of, x, &tangents, &mut memory, limits)
        .map_err(|error| Found::NotRun(format!("it stops: {}", error.message)))?;
    let fault =
        |wrong: String| Found::Fault { pass: "linearize", func: of, inputs: inputs.show(module, jvp), wrong };
    let mut given = found[wanted.len()..].iter();
    let same = Same::Nearly(rounding(module, jvp));
    for ((wanted, slot), &has) in wanted.iter().zip(&module.funcs[of].results).zip(results) {
        let s = module.types.scalar_of(slot.ty).filter(|s| s.is_float());
        let (Some(s), true) = (s, has) else { continue };
        let found = given.next().expect("a tangent for each").lanes();
        for (found, wanted) in found.into_iter().zip(wanted.lanes()) {
            let slope = scalar::from_f64(s, wanted.tangent);
            let is_finite = scalar::to_f64(s, slope).is_finite();
            if is_finite && wanted.cut.is_none() && !same.agree(s, slope, found) {
                let found = scalar::to_f64(s, found);
                return Err(fault(format!("the tangent is {found:e} instead of {:e}", wanted.tangent)));
            }
        }
    }
    Ok(())
}

/// A run of the halves of a function with marks, which agreed with that of the function.
struct Halved {
    inputs: Inputs,
    residuals: Vec<Value>,
    tangents: Vec<Value>,
    /// The linear half's results.
    linear: Vec<Value>,
    /// The linear half wrote to memory.
    has_effects: bool,
}

fn part<'v>(
    slots: &'v [Slot],
    values: &'v [Value],
    linear: bool,
) -> impl Iterator<Item = (&'v Slot, &'v Value)> {
    slots.iter().zip(values).filter(move |(slot, _)| slot.linear == linear)
}

fn halve(module: &Module, of: Func, halves: &Unzipped, bound: &Bound, at: u64) -> Result<Halved, Found> {
    let inputs = inputs_of(module, of, bound, at)?;
    let source = &module.funcs[of];
    let values = |linear| part(&source.params, &inputs.args, linear).map(|p| p.1.clone()).collect::<Vec<_>>();
    let (plain, tangents) = (values(false), values(true));
    let (wanted, left) = ended(inputs.run(module, of))?;
    let (given, between) = ended(run(module, halves.primal, &plain, &inputs.memory))?;
    let residuals: Vec<Value> = halves
        .residuals
        .iter()
        .map(|residual| match *residual {
            autodiff::Residual::Param(k) => plain[k].clone(),
            autodiff::Residual::Result(k) => given[k].clone(),
        })
        .collect();
    let args = [residuals.clone(), tangents.clone()].concat();
    let (linear, after) = ended(run(module, halves.linear, &args, &between))?;
    let fault = |wrong| Found::Fault { pass: "unzip", func: of, inputs: inputs.show(module, of), wrong };
    let found = [(false, &given), (true, &linear)];
    for (is_linear, found) in found {
        for ((slot, wanted), found) in part(&source.results, &wanted, is_linear).zip(found) {
            if !wanted.same(found, &module.types, slot.ty) {
                let show = |x: &Value| x.display(&module.types, slot.ty);
                return Err(fault(format!("a result is {} instead of {}", show(found), show(wanted))));
            }
        }
    }
    if let Some(wrong) = memory_differs(module, &left, &after, Same::Nearly(rounding(module, of))) {
        return Err(fault(wrong));
    }
    let has_effects = between.buffers != after.buffers;
    Ok(Halved { inputs, residuals, tangents, linear, has_effects })
}

fn unzipped(module: &Module, of: Func, halves: &Unzipped, bound: &Bound, at: u64) -> Result<(), Found> {
    halve(module, of, halves, bound, at).map(|_| ())
}

fn transposes(
    module: &Module,
    of: Func,
    halves: &Unzipped,
    transposed: Func,
    bound: &Bound,
    at: u64,
) -> Result<(), Found> {
    let halved = halve(module, of, halves, bound, at)?;
    if halved.has_effects {
        return Err(Found::NotRun("its tangents are in memory, too".into()));
    }
    // Numbers that are not finite have no products.
    let mut draw = Draw::new(1 + 4 * at);
    let results = &module.funcs[halves.linear].results;
    let cotangents: Vec<Value> = results
        .iter()
        .zip(&halved.linear)
        .map(|(slot, value)| {
            let s = module.types.scalar_of(slot.ty);
            value.map(&mut |_| s.map_or(0, |s| draw.number(s)))
        })
        .collect();
    let args = [halved.residuals.clone(), cotangents.clone()].concat();
    let (pulled, after) = ended(run(module, transposed, &args, &halved.inputs.memory))?;
    if after.buffers != halved.inputs.memory.buffers {
        return Err(Found::NotRun("its cotangents are in memory, too".into()));
    }
    let dot = |slots: &[Slot], a: &[Value], b: &[Value]| {
        let (mut sum, mut size) = (0.0, 0.0);
        for ((slot, a), b) in slots.iter().zip(a).zip(b) {
            let Some(s) = module.types.scalar_of(slot.ty).filter(|s| s.is_float()) else { continue };
            for (a, b) in a.lanes().into_iter().zip(b.lanes()) {
                let product = scalar::to_f64(s, a) * scalar::to_f64(s, b);
                sum += product;
                size += product.abs();
            }
        }
        (sum, size)
    };
    let scale = rounding(module, halves.linear).max(rounding(module, transposed));
    let (forward, size) = dot(results, &cotangents, &halved.linear);
    let tangent_slots = &module.funcs[transposed].results;
    let (backward, other) = dot(tangent_slots, &halved.tangents, &pulled);
    if !(size + other).is_finite() {
        return Err(Found::NotRun("its numbers are not finite".into()));
    }
    if (forward - backward).abs() > scale * (1.0 + size + other) {
        let wrong =
            format!("the products with its result and with its transpose are {forward:e} and {backward:e}");
        let inputs = halved.inputs.show(module, of);
        return Err(Found::Fault { pass: "transpose", func: of, inputs, wrong });
    }
    Ok(())
}
