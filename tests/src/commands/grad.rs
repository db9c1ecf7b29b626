//! `test grad`: checks that at `; grad: f(0.3, 2)` (with `~ 1e-9` for another tolerance) forward and reverse
//! mode agree with dual numbers in every direction.

use ir::interp::{Memory, Value, call_limited, dual};
use ir::{Func, Module, Scalar, Slot, scalar};

use crate::file::TestFile;
use crate::literal::{close, parse_call, show};

pub(super) fn run(file: &TestFile) -> Result<(), String> {
    let module = super::module(file)?;
    let mut any = false;
    for text in file.all("grad") {
        any = true;
        point(module.clone(), text).map_err(|e| format!("{text}: {e}"))?;
    }
    if any { Ok(()) } else { Err("there is no '; grad:' line".to_string()) }
}

fn point(mut module: Module, text: &str) -> Result<(), String> {
    let at = parse_call(&module, text)?;
    let tolerance = match at.rest.strip_prefix('~') {
        Some(t) => t.trim().parse().map_err(|_| "a tolerance is a number")?,
        None => 1e-9,
    };
    let problems =
        |p: Vec<autodiff::Problem>| p.iter().map(|p| p.message.clone()).collect::<Vec<_>>().join("\n");
    let forward = autodiff::forward(&mut module, at.func).map_err(problems)?;
    let backward = autodiff::backward(&mut module, at.func).map_err(problems)?;
    super::well_formed(&module, "the derivative")?;
    let function = module.funcs[at.func].clone();
    let diff = |slots: &[Slot]| slots.iter().filter(|s| s.diff).cloned().collect::<Vec<_>>();
    let (params, results) = (diff(&function.params), diff(&function.results));
    let ones = |slot: &Slot| {
        let s = module.types.scalar_of(slot.ty).unwrap_or(Scalar::F32);
        Value::filled(&module.types, slot.ty, scalar::one(s))
    };
    let cotangents: Vec<Value> = results.iter().map(ones).collect();
    let gradient = run_on(&module, backward, &[at.args.clone(), cotangents].concat())?;

    // The columns of the Jacobian, one lane of one parameter at a time.
    let mut column_sums: Vec<Vec<f64>> = Vec::new();
    for (idx, slot) in function.params.iter().enumerate().filter(|(_, slot)| slot.diff) {
        let s = module.types.scalar_of(slot.ty).unwrap_or(Scalar::F32);
        let mut sums = Vec::new();
        for lane in 0..at.args[idx].lanes().len() {
            let tangents: Vec<Value> = at
                .args
                .iter()
                .enumerate()
                .map(|(k, arg)| {
                    let mut n = 0;
                    arg.map(&mut |_| {
                        n += 1;
                        if k == idx && n == lane + 1 { scalar::one(s) } else { 0 }
                    })
                })
                .collect();
            let mut memory = Memory::new(&module, |_| 16);
            let (y, dy) = dual::jvp(&module, at.func, &at.args, &tangents, &mut memory, super::LIMITS)
                .map_err(|e| format!("dual numbers: {e}"))?;
            let given: Vec<Value> = function
                .params
                .iter()
                .zip(&tangents)
                .filter(|(slot, _)| slot.diff)
                .map(|(_, tangent)| tangent.clone())
                .collect();
            let found = run_on(&module, forward, &[at.args.clone(), given].concat())?;
            let dy: Vec<Value> = dy
                .into_iter()
                .zip(&function.results)
                .filter(|(_, slot)| slot.diff)
                .map(|(dy, _)| dy)
                .collect();
            let want = [y, dy.clone()].concat();
            let slots = [function.results.clone(), results.clone()].concat();
            if !close(&module, &slots, &found, &want, Some(tolerance)) {
                let (found, want) = (show(&module, &slots, &found), show(&module, &slots, &want));
                return Err(format!("forward, lane {lane} of parameter {idx}: {found} instead of {want}"));
            }
            let lanes = |(dy, slot): (&Value, &Slot)| {
                let s = module.types.scalar_of(slot.ty).unwrap_or(Scalar::F32);
                dy.lanes().into_iter().map(|bits| scalar::to_f64(s, bits)).sum::<f64>()
            };
            sums.push(dy.iter().zip(&results).map(lanes).sum());
        }
        column_sums.push(sums);
    }
    for ((slot, gradient), sums) in params.iter().zip(&gradient).zip(&column_sums) {
        let s = module.types.scalar_of(slot.ty).unwrap_or(Scalar::F32);
        for (lane, (&bits, &want)) in gradient.lanes().iter().zip(sums).enumerate() {
            let found = scalar::to_f64(s, bits);
            let same = found == want || (found.is_nan() && want.is_nan());
            if !same && (found - want).abs() > tolerance * want.abs().max(1.0) {
                return Err(format!("reverse, lane {lane}: {found} instead of {want}"));
            }
        }
    }
    Ok(())
}

fn run_on(module: &Module, func: Func, args: &[Value]) -> Result<Vec<Value>, String> {
    call_limited(module, func, args, &mut Memory::new(module, |_| 16), super::LIMITS)
        .map_err(|e| e.to_string())
}
