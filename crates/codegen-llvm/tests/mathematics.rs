//! Compares the mathematical functions of this backend, one by one, with those of the interpreter: the bits are
//! the same.
#![cfg(feature = "jit")]

use ir::{Math, Scalar, library, scalar};
use native::{Options, Worker};
use pullback_codegen_llvm::compile;
use test_support::{Random, SPECIAL};

fn module(m: Math, ty: &str) -> (ir::Module, ir::Func) {
    let (params, args) = match m.arity() {
        1 => (format!("v0: {ty}"), "v0"),
        _ => (format!("v0: {ty}, v1: {ty}"), "v0, v1"),
    };
    let text = format!("func f({params}) -> ({ty}) {{\n    v2 = {} {args}\n    yield v2\n}}\n", m.name());
    let module = ir::parse::parse_module(&text).expect("a module");
    let func = module.find("f").expect("a function");
    (module, func)
}

#[test]
fn functions_give_the_bits_of_the_interpreter() {
    // Around the end of the shorter path for small angles.
    let angles = [0.785, -0.785, 0.785_000_1, 0.784_999_9, 1e-30];
    let special = [&SPECIAL[..], &angles].concat();
    for m in Math::ALL.into_iter().filter(|&m| library::has(m)) {
        for s in [Scalar::F64, Scalar::F32, Scalar::F16] {
            let (module, func) = module(m, s.name());
            let options = Options { functions: vec![func], ..Options::default() };
            let compiled = compile(&module, &options).expect("compiles");
            let mut worker = Worker::new(&compiled);
            let mut rng = Random(m as u64 + 7);
            let mut inputs: Vec<[f64; 2]> = Vec::new();
            for &a in &special {
                inputs.extend(special.iter().map(|&b| [a, b]));
            }
            inputs.extend((0..3000).map(|_| [rng.number(), rng.number()]));
            for args in inputs {
                let bits = &args.map(|x| scalar::from_f64(s, x))[..m.arity()];
                let values: Vec<_> = bits.iter().map(|&b| ir::interp::Value::Scalar(b)).collect();
                let found = worker.call(func, &values).expect("runs");
                let ir::interp::Value::Scalar(found) = found[0] else { panic!("{found:?}") };
                let wanted = scalar::math(m, s, bits).expect("a float function");
                let same = scalar::same(s, found, wanted);
                assert!(same, "{m:?} of {} at {args:?}: {found:x} instead of {wanted:x}", s.name());
            }
        }
    }
}
