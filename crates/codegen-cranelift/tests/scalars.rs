//! Every scalar op on every type agrees with `ir::scalar` on special and random bits.

use ir::interp::Value;
use ir::{Builder, Math, Module, Op, Scalar, Slot, scalar};
use native::Options;
use pullback_codegen_cranelift::compile;

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Random bits of a kind of number: often special, small or of ordinary size.
    fn bits(&mut self, s: Scalar) -> u64 {
        let r = self.next();
        let bits = match r % 8 {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => 1 << (s.bits() - 1),
            4 => (r >> 8) % 5,
            5 if s.is_float() => {
                let special = [1.0, -1.0, 0.5, 2.5, -0.0, f64::INFINITY, f64::NAN, 4294967296.0, -129.0, 3.5];
                scalar::from_f64(s, special[(r >> 8) as usize % special.len()])
            }
            6 if s.is_float() => scalar::from_f64(s, ((r >> 8) as f64 / (1u64 << 56) as f64 - 0.5) * 600.0),
            _ => self.next(),
        };
        scalar::canonical(s, bits)
    }
}

/// An op, its operand types and its result type.
type Case = (Op, Vec<Scalar>, Scalar);

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let values = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem, Op::And, Op::Or, Op::Xor, Op::Shl, Op::Shr];
    let tests = [Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge];
    for s in Scalar::ALL {
        for op in &values {
            if scalar::binary(op, s, 0, 0).is_some() {
                cases.push((op.clone(), vec![s, s], s));
            }
        }
        for op in &tests {
            cases.push((op.clone(), vec![s, s], Scalar::Bool));
        }
        for op in [Op::Neg, Op::Not] {
            if scalar::unary(&op, s, 0).is_some() {
                cases.push((op, vec![s], s));
            }
        }
        for m in Math::ALL {
            if scalar::has_math(m, s) {
                let to = if matches!(m, Math::IsNan | Math::IsInf) { Scalar::Bool } else { s };
                cases.push((Op::Math(m), vec![s; m.arity()], to));
            }
        }
        for to in Scalar::ALL {
            cases.push((Op::Convert, vec![s], to));
            if to.bits() == s.bits() && s != Scalar::Bool && to != Scalar::Bool {
                cases.push((Op::Bitcast, vec![s], to));
            }
        }
        cases.push((Op::Select, vec![Scalar::Bool, s, s], s));
    }
    cases
}

fn slot(s: Scalar) -> Slot {
    Slot { ty: s.into(), diff: false, linear: false, name: None }
}

#[test]
fn every_op_of_every_type() {
    let cases = cases();
    let mut module = Module::default();
    let mut functions = Vec::new();
    for (k, (op, from, to)) in cases.iter().enumerate() {
        let mut types = std::mem::take(&mut module.types);
        let mut b = Builder::new(&mut types, format!("f{k}"));
        let args: Vec<ir::Value> = from.iter().map(|&s| b.param(slot(s))).collect();
        let result = b.emit_typed(op.clone(), &args, (*to).into());
        let function = b.finish(vec![result], vec![slot(*to)]);
        module.types = types;
        functions.push(module.funcs.push(function));
    }
    let options = Options { functions: functions.clone(), ..Options::default() };
    let compiled = compile(&module, &options).expect("compiles");
    let mut worker = native::Worker::new(&compiled);
    let mut rng = Rng(7);
    for (func, (op, from, to)) in functions.iter().zip(&cases) {
        for _ in 0..120 {
            let bits: Vec<u64> = from.iter().map(|&s| rng.bits(s)).collect();
            let kind = from[from.len() - 1];
            let expected = scalar::elementwise(op, kind, *to, &bits).expect("defined");
            let args: Vec<Value> = bits.iter().map(|&b| Value::Scalar(b)).collect();
            let got = worker.call(*func, &args).expect("runs")[0].lane();
            assert!(
                scalar::same(*to, expected, got),
                "{op:?} {from:?} -> {to:?} of {bits:x?}: {expected:#x} but compiled {got:#x}"
            );
        }
    }
}
