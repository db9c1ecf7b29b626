//! The functions of numbers of this backend, one by one, against those of the interpreter: in double and in
//! single precision within two units in the last place of them (which are within one of the truth); and their values at
//! zeros, infinities, NaN and numbers that are hardly there.
#![cfg(feature = "jit")]

use ir::{Math, Scalar, scalar};
use native::{Options, Worker};
use pullback_codegen_llvm::compile;

const FUNCTIONS: [Math; 19] = [
    Math::Asinh,
    Math::Acosh,
    Math::Atanh,
    Math::Sin,
    Math::Cos,
    Math::Tan,
    Math::Asin,
    Math::Acos,
    Math::Atan,
    Math::Atan2,
    Math::Sinh,
    Math::Cosh,
    Math::Tanh,
    Math::Exp,
    Math::Exp2,
    Math::Log,
    Math::Log2,
    Math::Log10,
    Math::Pow,
];

/// A sequence of pseudo-random numbers.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Numbers of all sizes that matter.
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

/// A position among all floats, so that neighbours differ by one.
fn order(bits: i64) -> i64 {
    if bits < 0 { i64::MIN - bits } else { bits }
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
fn functions_are_accurate() {
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
    ];
    for m in FUNCTIONS {
        for double in [true, false] {
            let s = if double { Scalar::F64 } else { Scalar::F32 };
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
            if matches!(m, Math::Sin | Math::Cos | Math::Tan) {
                // Around the zeros, where what is left after whole turns is small.
                let turns =
                    (0..3000).map(|k| (k as f64 + 21.0 * (k % 1500) as f64) * std::f64::consts::FRAC_PI_2);
                inputs.extend(turns.map(|x| [x, 0.0]));
                inputs.extend((0..3000).map(|_| [2e5 * (rng.next() - 0.5), 0.0]));
            }
            for [a, b] in inputs {
                let bits: Vec<u64> = [a, b].iter().map(|&x| scalar::from_f64(s, x)).collect();
                let args: Vec<_> = bits[..m.arity()].iter().map(|&b| ir::interp::Value::Scalar(b)).collect();
                let found = match worker.call(func, &args).expect("runs")[0] {
                    ir::interp::Value::Scalar(bits) => bits,
                    ref other => panic!("{other:?}"),
                };
                // The interpreter's own of floats are five units off where they are near zero.
                let is_wide = matches!(m, Math::Asinh | Math::Acosh | Math::Atanh);
                let wanted = if is_wide && !double {
                    let wide = scalar::math_f64(m, scalar::to_f64(s, bits[0]), 0.0, 0.0);
                    scalar::from_f64(s, wide)
                } else {
                    scalar::math(m, s, &bits[..m.arity()]).expect("a float function")
                };
                let (x, y) = (scalar::to_f64(s, found), scalar::to_f64(s, wanted));
                if x.is_nan() && y.is_nan() {
                    continue;
                }
                assert_eq!(x.is_nan(), y.is_nan(), "{m:?} at {a:?}, {b:?} is {x:?} instead of {y:?}");
                let apart = match double {
                    true => order(found as i64).abs_diff(order(wanted as i64)),
                    false => {
                        let order = |bits: u64| order(((bits as u32) as i32 as i64) << 32) >> 32;
                        order(found).abs_diff(order(wanted))
                    }
                };
                assert!(
                    apart <= 2 && (y != 0.0 || x.to_bits() == y.to_bits()),
                    "{m:?} of {} at {a:?}, {b:?} is {x:?} instead of {y:?}, {apart} units apart",
                    s.name()
                );
            }
        }
    }
}
