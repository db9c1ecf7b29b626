//! Derivatives of random programs: compiled code and the interpreter agree bit for bit. These programs cover
//! stacks of every shape, cells that hold them, and loops that consume them in reverse. `PULLBACK_RANDOM=n`
//! runs `n` programs.

#[allow(dead_code, missing_docs, reason = "the generator of another crate's tests")]
#[path = "../../autodiff/tests/generate/mod.rs"]
mod generate;

use generate::{Rng, program};
use ir::interp::{Limits, Memory, Value, call_limited};
use ir::{Func, Module, Scalar, Type, TypeData, Types, scalar};
use native::Options;
use pullback_codegen_cranelift::compile;

fn value(rng: &mut Rng, types: &Types, ty: Type) -> Value {
    let number = |rng: &mut Rng, s: Scalar| match s {
        s if s.is_float() => scalar::from_f64(s, rng.number()),
        Scalar::Bool => rng.below(2) as u64,
        _ => rng.below(5) as u64,
    };
    match types[ty] {
        TypeData::Scalar(s) => Value::Scalar(number(rng, s)),
        TypeData::Vector(s, n) => Value::Vector((0..n).map(|_| number(rng, s)).collect()),
        TypeData::Array(t, n) => Value::array((0..n).map(|_| value(rng, types, t)).collect()),
        TypeData::Stack(t) => Value::stack((0..3).map(|_| value(rng, types, t)).collect()),
        TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => Value::zero(types, ty),
    }
}

fn agree(module: &Module, functions: &[Func], seed: u64) {
    let options = Options { functions: functions.to_vec(), ..Options::default() };
    let compiled = compile(module, &options).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let mut rng = Rng(seed);
    for &func in functions {
        let f = &module.funcs[func];
        for _ in 0..2 {
            let args: Vec<Value> = f.params.iter().map(|p| value(&mut rng, &module.types, p.ty)).collect();
            let limits = Limits { steps: Some(1_000_000), ..Limits::default() };
            let expected = match call_limited(module, func, &args, &mut Memory::default(), limits) {
                Ok(expected) => expected,
                Err(e) if e.message.contains("step") => continue,
                Err(e) => {
                    let got = compiled.call(func, &args).expect_err("fails too");
                    assert_eq!(e.message, got.message, "seed {seed}");
                    continue;
                }
            };
            let got = compiled.call(func, &args).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            for (idx, (slot, (a, b))) in f.results.iter().zip(expected.iter().zip(&got)).enumerate() {
                assert!(
                    a.same(b, &module.types, slot.ty),
                    "seed {seed}, '{}', result {idx}: {} but compiled {}\n{}",
                    f.name,
                    a.display(&module.types, slot.ty),
                    b.display(&module.types, slot.ty),
                    ir::print::print_module(module)
                );
            }
        }
    }
}

#[test]
fn derivatives_agree_with_the_interpreter() {
    let n = std::env::var("PULLBACK_RANDOM").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    for seed in 0..n {
        let (mut module, f) = program(seed, 12 + seed as usize % 30);
        let stages = autodiff::stages(&mut module, f);
        let forward = autodiff::forward(&mut module, f).expect("forward");
        let backward = autodiff::backward(&mut module, f).expect("backward");
        let second = autodiff::backward(&mut module, backward).expect("backward of backward");
        let mut functions = vec![f, forward, backward, second];
        if seed % 3 == 0 {
            functions.push(autodiff::forward(&mut module, backward).expect("forward of backward"));
        }
        // The forward half passes stacks to the reverse half.
        functions.extend(stages.ok().map(|s| s.primal));
        opt::after_ad(&mut module, &opt::Options { level: 0, ..Default::default() }, &functions);
        agree(&module, &functions, seed);
    }
}
