//! Compares the mathematical functions of this backend, one by one, with those of the interpreter: the bits are
//! the same.
#![cfg(feature = "jit")]

use ir::{Math, Scalar, library, scalar};
use native::{Options, Worker};
use pullback_codegen_llvm::compile;

/// A sequence of pseudo-random numbers.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of any relevant magnitude.
    fn number(&mut self) -> f64 {
        let (kind, x) = (self.next(), 2.0 * self.next() - 1.0);
        match kind {
            k if k < 0.3 => x,
            k if k < 0.6 => 20.0 * x,
            k if k < 0.7 => 750.0 * x,
            k if k < 0.8 => 1.25 + 0.75 * x,
            _ => x.signum() * 2f64.powf(90.0 * self.next() - 60.0),
        }
    }
}

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
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -2.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        5e-324,
        1e-310,
        -1e-310,
        1e300,
        -1e300,
        709.9,
        -745.2,
        1024.0,
        3.0,
        1.2e308,
        -1.7e308,
        // Around the end of the shorter path for small angles.
        0.785,
        -0.785,
        0.785_000_1,
        0.784_999_9,
        1e-30,
    ];
    for m in Math::ALL.into_iter().filter(|&m| library::has(m)) {
        for s in [Scalar::F64, Scalar::F32, Scalar::F16] {
            let (module, func) = module(m, s.name());
            let options = Options { functions: vec![func], ..Options::default() };
            let compiled = compile(&module, &options).expect("compiles");
            let mut worker = Worker::new(&compiled);
            let mut rng = Rng(m as u64 + 7);
            let mut inputs: Vec<[f64; 2]> = Vec::new();
            for a in special {
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
