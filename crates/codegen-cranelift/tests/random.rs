//! Random programs: compiled code and the interpreter agree bit for bit (NaNs count as equal) on results,
//! buffers and output. `PULLBACK_RANDOM=n` runs `n` programs.

#[path = "../../opt/tests/generate/mod.rs"]
mod generate;

use generate::{Rng, program};
use ir::interp::{Limits, Memory, Value, call_limited};
use ir::{Scalar, Type, TypeData, Types};
use native::{Desc, Options, Worker};
use pullback_codegen_cranelift::compile;

fn argument(types: &Types, ty: Type, rng: &mut Rng) -> Value {
    let bits = |s: Scalar, rng: &mut Rng| match s {
        Scalar::Bool => rng.below(2) as u64,
        Scalar::F32 => (rng.float() as f32).to_bits() as u64,
        _ => rng.below(6) as u64,
    };
    match types[ty] {
        TypeData::Scalar(s) => Value::Scalar(bits(s, rng)),
        TypeData::Vector(s, n) => Value::Vector((0..n).map(|_| bits(s, rng)).collect()),
        TypeData::Array(t, n) => Value::array((0..n).map(|_| argument(types, t, rng)).collect()),
        _ => Value::zero(types, ty),
    }
}

/// Converts bytes to numbers, with all NaNs replaced by the same one.
fn words(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks(4)
        .map(|c| u32::from_le_bytes(c.try_into().expect("four bytes")))
        .map(|bits| if f32::from_bits(bits).is_nan() { f32::NAN.to_bits() } else { bits })
        .collect()
}

fn one(seed: u64) {
    let program = program(seed);
    let module = &program.module;
    let text = || ir::print::print_module(module);
    let options =
        Options { functions: vec![program.main], fast_compile: seed.is_multiple_of(3), ..Options::default() };
    let compiled = compile(module, &options).unwrap_or_else(|e| panic!("{e}\n{}", text()));
    for k in 0..3 {
        let mut rng = Rng::new(seed + k);
        let func = &module.funcs[program.main];
        let args: Vec<Value> = func.params.iter().map(|p| argument(&module.types, p.ty, &mut rng)).collect();
        let mut memory = Memory::default();
        for global in module.globals.keys() {
            memory.bind(global, (0..8).flat_map(|_| (rng.float() as f32).to_le_bytes()).collect());
        }
        let mut buffers = memory.buffers.clone();
        let limits = Limits { steps: Some(3_000_000), ..Limits::default() };
        let expected = call_limited(module, program.main, &args, &mut memory, limits)
            .unwrap_or_else(|e| panic!("{}\n{}", e.message, text()));
        let descs: Vec<Desc> =
            buffers.iter_mut().map(|b| Desc { ptr: b.as_mut_ptr(), count: b.len() as u64 / 4 }).collect();
        // SAFETY: the buffers outlive the worker, and nothing else uses them.
        let mut worker = unsafe { Worker::with_buffers(&compiled, &descs) };
        let got = worker.call(program.main, &args).unwrap_or_else(|e| panic!("{}\n{}", e.message, text()));
        let printed = worker.take_stdout();
        for (idx, (slot, (a, b))) in func.results.iter().zip(expected.iter().zip(&got)).enumerate() {
            assert!(
                a.same(b, &module.types, slot.ty),
                "seed {seed}.{k}, result {idx}: {} but compiled {}\n{}",
                a.display(&module.types, slot.ty),
                b.display(&module.types, slot.ty),
                text()
            );
        }
        assert_eq!(memory.printed, printed, "seed {seed}.{k}\n{}", text());
        for (a, b) in memory.buffers.iter().zip(&buffers) {
            assert_eq!(words(a), words(b), "seed {seed}.{k}\n{}", text());
        }
    }
}

#[test]
fn compiled_code_agrees_with_the_interpreter() {
    let n = std::env::var("PULLBACK_RANDOM").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    for seed in 0..n {
        one(seed);
    }
}
