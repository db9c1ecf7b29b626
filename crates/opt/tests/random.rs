//! Runs random programs of the IR: every pass keeps them valid and keeps their results, buffers and output,
//! bit for bit (NaNs are equal). `PULLBACK_RANDOM=n` runs `n` programs.

mod generate;

use generate::{Program, Rng, program};
use ir::interp::Memory;
use ir::interp::Value;
use ir::{Func, Module, Scalar, Type, Types};
use opt::Options;
use pullback_opt as opt;

fn count() -> u64 {
    std::env::var("PULLBACK_RANDOM").ok().and_then(|n| n.parse().ok()).unwrap_or(250)
}

#[derive(Debug)]
struct Outcome {
    results: Vec<Value>,
    buffer: Vec<u32>,
    output: String,
}

fn run(program: &Program, module: &Module, seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let func = &module.funcs[program.main];
    let args: Vec<Value> =
        func.params.iter().map(|slot| argument(&module.types, slot.ty, &mut rng)).collect();
    let mut memory = Memory::default();
    for global in module.globals.keys() {
        let bytes: Vec<u8> = (0..8).flat_map(|_| (rng.float() as f32).to_le_bytes()).collect();
        memory.bind(global, bytes);
    }
    let limits = ir::interp::Limits { steps: Some(3_000_000), ..Default::default() };
    let results = ir::interp::call_limited(module, program.main, &args, &mut memory, limits)
        .unwrap_or_else(|e| panic!("{}\n{}", e.message, ir::print::print_module(module)));
    let buffer = memory
        .buffers
        .iter()
        .flat_map(|b| b.chunks(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])))
        .map(|bits| if f32::from_bits(bits).is_nan() { f32::NAN.to_bits() } else { bits })
        .collect();
    Outcome { results, buffer, output: memory.printed.clone() }
}

fn argument(types: &Types, ty: Type, rng: &mut Rng) -> Value {
    let bits = |s: Scalar, rng: &mut Rng| match s {
        Scalar::Bool => rng.below(2) as u64,
        Scalar::F32 => (rng.float() as f32).to_bits() as u64,
        _ => rng.below(6) as u64,
    };
    match types[ty] {
        ir::TypeData::Scalar(s) => Value::Scalar(bits(s, rng)),
        ir::TypeData::Vector(s, n) => Value::Vector((0..n).map(|_| bits(s, rng)).collect()),
        ir::TypeData::Array(t, n) => Value::array((0..n).map(|_| argument(types, t, rng)).collect()),
        _ => Value::zero(types, ty),
    }
}

fn same(types: &Types, ty: Type, a: &Value, b: &Value) -> bool {
    let s = types.scalar_of(ty).unwrap_or(Scalar::U64);
    let (a, b) = (a.lanes(), b.lanes());
    a.len() == b.len() && a.iter().zip(&b).all(|(&x, &y)| ir::scalar::same(s, x, y))
}

fn verify(module: &Module, what: &str, before: &str) {
    let errors = ir::verify::verify_module(module);
    assert!(
        errors.is_empty(),
        "{what}: {errors:#?}\n---- before\n{before}\n---- after\n{}",
        ir::print::print_module(module)
    );
}

fn check(program: &Program, before: &Module, after: &Module, what: &str, seed: u64) {
    let text = ir::print::print_module(before);
    verify(after, what, &text);
    for k in 0..3 {
        let (x, y) = (run(program, before, seed + k), run(program, after, seed + k));
        let func = &before.funcs[program.main];
        let equal = x.buffer == y.buffer
            && x.output == y.output
            && func
                .results
                .iter()
                .zip(x.results.iter().zip(&y.results))
                .all(|(slot, (a, b))| same(&before.types, slot.ty, a, b));
        assert!(
            equal,
            "{what}, seed {seed}:\n{x:?}\n{y:?}\n---- before\n{text}\n---- after\n{}",
            ir::print::print_module(after)
        );
    }
}

fn passes(names: &[&str], count: u64) {
    let options = Options::default();
    for seed in 0..count {
        let program = program(seed);
        let mut module = program.module.clone();
        verify(&module, "generated", "");
        for name in names {
            let before = module.clone();
            opt::run_pass(&mut module, name, &options).expect("a pass of that name");
            check(&program, &before, &module, name, seed);
        }
    }
}

#[test]
fn each_pass_alone() {
    // Only `after-ad` treats the user's zeros as symbolic zeros.
    for name in opt::passes().filter(|&name| name != "after-ad") {
        passes(&[name], count() / 4);
    }
}

#[test]
fn passes_in_turn() {
    passes(
        &[
            "simplify",
            "scalarize",
            "simplify",
            "cse",
            "dce",
            "licm",
            "cse",
            "unroll",
            "simplify",
            "dce",
            "accumulators",
            "rematerialise",
            "deliver",
            "cse",
            "code-sinking",
            "countdown",
            "copy-forwarding",
        ],
        count(),
    );
}

#[test]
fn the_pipelines() {
    passes(&["before-ad", "after-ad"], count());
}

#[test]
fn pruning_keeps_the_roots() {
    for seed in 0..count() / 8 {
        let program = program(seed);
        let mut module = program.module.clone();
        opt::before_ad(&mut module, &Options::default());
        opt::after_ad(&mut module, &Options::default(), &[]);
        opt::prune(&mut module, &[program.main]);
        check(&program, &program.module, &module, "prune", seed);
        let left: Vec<Func> = module.funcs.iter().filter(|f| f.1.has_body()).map(|f| f.0).collect();
        assert!(left.contains(&program.main));
    }
}

/// A second run of the pipeline finds little to do.
#[test]
fn the_pipeline_is_at_rest() {
    let options = Options::default();
    let mut restless = 0;
    for seed in 0..count() / 4 {
        let mut module = program(seed).module;
        opt::before_ad(&mut module, &options);
        opt::before_ad(&mut module, &options);
        let before = ir::print::print_module(&module);
        opt::before_ad(&mut module, &options);
        restless += u64::from(ir::print::print_module(&module) != before);
    }
    assert!(restless * 4 <= count() / 4, "{restless} of {}", count() / 4);
}
