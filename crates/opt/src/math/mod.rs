//! Expands `sin`, `exp`, `pow` and similar functions into arithmetic, for backends that lack them, and
//! floating-point remainders into exact ones. Devices have such functions for 32 bits only or not at all, and
//! compute a remainder as `x - y * trunc(x / y)`, rounded.
//!
//! `m(x)` ↦ `m_f64(x)` or `m_f32(x)`, lane by lane; a `half` is computed in `f32`. The functions are IR, so
//! their accuracy can be measured with the reference interpreter, and a backend treats them like any other
//! function. Functions of doubles rely on each operation being rounded by itself, and use 64-bit integers for
//! exponents; remainders rely on neither, and remainders of `half` are computed in `f32`.

mod operations;
mod remainder;

use std::cell::RefCell;

use indexmap::IndexMap;
use ir::analysis::post_order_of;
use ir::build::Builder;
use ir::{Func, Function, InstData, Math, Module, Op, Scalar, Slot, Types, library};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::util::make_number;
use operations::Build;

/// The set of functions to expand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Remainders of `f32` and `f16`.
    Remainders,
    /// All remainders, and functions of doubles, including rounding to whole numbers.
    Doubles,
    /// All remainders, and functions of all floats.
    All,
}

/// A function that is expanded.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Made {
    /// A function of floats of this kind.
    Math(Math, Scalar),
    /// The remainder of floats of this kind.
    Remainder(Scalar),
}

impl Made {
    /// The scalar type of the function's arguments and result.
    fn scalar(self) -> Scalar {
        match self {
            Made::Math(_, s) | Made::Remainder(s) => s,
        }
    }
}

/// Returns true if a mathematical function is expanded.
fn is_made(m: Math, wanted: Wanted) -> bool {
    // Devices have the latter for doubles, but Mesa's lavapipe computes wrong numbers.
    library::has(m) || is_rounding(m) && wanted == Wanted::Doubles
}

fn is_rounding(m: Math) -> bool {
    matches!(m, Math::Floor | Math::Ceil | Math::Round | Math::Trunc)
}

/// Returns the module with such functions replaced by calls, if it contains any.
pub fn expand(module: &Module, wanted: Wanted) -> Option<Module> {
    let mut used: IndexMap<Made, Option<Func>, FxBuildHasher> = IndexMap::default();
    let mut users = Vec::new();
    for (func, f) in module.funcs.iter().filter(|(_, f)| f.has_body()) {
        f.walk(f.body(), &mut |inst| {
            if let Some(m) = made(&module.types, f, &f.insts[inst], wanted) {
                used.insert(m, None);
                if users.last() != Some(&func) {
                    users.push(func);
                }
            }
        });
    }
    if used.is_empty() {
        return None;
    }
    let mut module = module.clone();
    for (&m, func) in &mut used {
        let made = define(&mut module.types, m, wanted == Wanted::All);
        *func = Some(module.funcs.push(made));
    }
    for func in users {
        let mut f = std::mem::take(&mut module.funcs[func]);
        rewrite(&mut module.types, &mut f, wanted, &|m| used.get(&m).copied().flatten());
        module.funcs[func] = f;
    }
    Some(module)
}

/// The number of instructions that a function has after every call is replaced by the callee's body; a
/// recursive call counts as one.
pub fn inlined_size(module: &Module, func: Func) -> u64 {
    let mut known: FxHashMap<Func, u64> = FxHashMap::default();
    for at in post_order_of(module, [func], &|_| false) {
        let (f, mut size) = (&module.funcs[at], 0u64);
        if f.has_body() {
            f.walk(f.body(), &mut |inst| {
                let callee = f.insts[inst].op.callee().and_then(|callee| known.get(&callee));
                size = size.saturating_add(1).saturating_add(callee.copied().unwrap_or(0));
            });
        }
        known.insert(at, size);
    }
    known[&func]
}

/// The expanded function that computes an instruction, if any.
fn made(types: &Types, f: &Function, data: &InstData, wanted: Wanted) -> Option<Made> {
    let s = types.scalar_of(f.ty(*data.args.first()?)).filter(|s| s.is_float())?;
    match data.op {
        Op::Math(m) if wanted != Wanted::Remainders && is_made(m, wanted) => {
            let of = if s == Scalar::F64 { s } else { Scalar::F32 };
            (s == Scalar::F64 || wanted == Wanted::All).then_some(Made::Math(m, of))
        }
        Op::Rem if s != Scalar::F64 => Some(Made::Remainder(Scalar::F32)),
        Op::Rem if wanted != Wanted::Remainders => Some(Made::Remainder(s)),
        _ => None,
    }
}

/// Builds the function.
fn define(types: &mut Types, made: Made, fused: bool) -> Function {
    let (name, n) = match made {
        Made::Math(m, _) => (m.name(), m.arity()),
        Made::Remainder(_) => ("remainder", 2),
    };
    let s = made.scalar();
    let slot =
        |name: Option<&str>| Slot { ty: s.into(), diff: false, linear: false, name: name.map(|n| n.into()) };
    let mut b = Builder::new(types, format!("{name}_{}", s.name()));
    let args: Vec<ir::Value> = ["x", "y"][..n].iter().map(|name| b.param(slot(Some(name)))).collect();
    match made {
        Made::Math(m, s) => {
            let b = RefCell::new(b);
            let r = math(&b, m, s, &args, fused);
            b.into_inner().finish(vec![r], vec![slot(None)])
        }
        Made::Remainder(s) => {
            let r = remainder::remainder(&mut b, s, args[0], args[1]);
            b.finish(vec![r], vec![slot(None)])
        }
    }
}

/// Builds a mathematical function, as `ir::library::double` and `single` evaluate it.
fn math(b: &RefCell<Builder<'_>>, m: Math, s: Scalar, args: &[ir::Value], fused: bool) -> ir::Value {
    let integers = if s == Scalar::F32 { Scalar::I32 } else { Scalar::I64 };
    let build = Build { b, numbers: (s, integers), fused };
    if is_rounding(m) { build.whole_number(m, args[0]) } else { library::function(&build, m, args) }
}

/// Replaces the functions by calls.
fn rewrite(types: &mut Types, f: &mut Function, wanted: Wanted, func: &dyn Fn(Made) -> Option<Func>) {
    f.rebuild(|f, inst, out| {
        let InstData { args, results, span, .. } = f.insts[inst].clone();
        let made = made(types, f, &f.insts[inst], wanted);
        let Some((made, callee)) = made.and_then(|made| Some((made, func(made)?))) else {
            return out.push(inst);
        };
        let result = results[0];
        let s = types.scalar_of(f.ty(result)).unwrap_or(Scalar::F64);
        let lanes = types.lanes(f.ty(result));
        let mut emit = |f: &mut Function, op: Op, args: &[ir::Value], ty: Scalar| {
            let (inst, v) = make_number(f, op, args, ty.into(), span);
            out.push(inst);
            v
        };
        let mut parts = Vec::new();
        for k in 0..lanes.unwrap_or(1) {
            let mut operands = Vec::new();
            for &arg in &args {
                let x = if lanes.is_some() { emit(f, Op::Extract(k), &[arg], s) } else { arg };
                operands.push(if s == made.scalar() { x } else { emit(f, Op::Convert, &[x], made.scalar()) });
            }
            let part = emit(f, Op::Call(callee), &operands, made.scalar());
            parts.push(if s == made.scalar() { part } else { emit(f, Op::Convert, &[part], s) });
        }
        if lanes.is_some() {
            out.push(f.make(Op::Construct, &parts, &[result], span));
        } else if let Some(&last) = out.last() {
            f.insts[last].results[0] = result;
        }
    });
}

#[cfg(test)]
mod tests {
    use ir::interp::{self, Memory, Value};

    use super::*;

    /// The distance between two numbers in units in the last place; for subnormal numbers, the smallest
    /// number is the unit.
    fn distance(a: f64, b: f64) -> u64 {
        if a == b || a.is_nan() && b.is_nan() {
            return 0;
        }
        if a.is_nan() || b.is_nan() || a.is_sign_negative() != b.is_sign_negative() {
            return u64::MAX;
        }
        a.abs().to_bits().abs_diff(b.abs().to_bits())
    }

    /// A pseudo-random number of either sign with a magnitude between these limits; the sequence is always
    /// the same.
    fn random(state: &mut u64, least: f64, most: f64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let part = (*state >> 11) as f64 / (1u64 << 53) as f64;
        let size = (least.ln() + part * (most.ln() - least.ln())).exp();
        if *state & 1024 == 0 { size } else { -size }
    }

    const ENDS: [f64; 28] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        3.5,
        -4.5,
        -0.3,
        2.0,
        3.0,
        -3.0,
        5e-324,
        1e-310,
        -1e-310,
        1e300,
        -1e300,
        1.2e308,
        f64::MAX,
        f64::MIN,
        709.78,
        709.79,
        -745.2,
        1023.999,
        1024.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];

    #[test]
    fn functions_are_those_of_the_cpu() {
        let mut faults = Vec::new();
        let all = Math::ALL.into_iter().filter(|&m| is_made(m, Wanted::Doubles));
        let ways = [(Scalar::F64, false), (Scalar::F64, true), (Scalar::F32, true)];
        for (m, (s, fused)) in all.flat_map(|m| ways.map(|way| (m, way))) {
            if is_rounding(m) && fused {
                continue;
            }
            let mut module = Module::default();
            let f = define(&mut module.types, Made::Math(m, s), fused);
            let func = module.funcs.push(f);
            let wrong = ir::verify::verify_function(&module, &module.funcs[func]);
            assert!(wrong.is_empty(), "{wrong:?}");
            let mut check = |args: &[f64]| {
                let bits: Vec<u64> = args.iter().map(|&x| ir::scalar::from_f64(s, x)).collect();
                let wanted = ir::scalar::math(m, s, &bits).expect("a function of floats");
                let args: Vec<Value> = bits.iter().map(|&x| Value::Scalar(x)).collect();
                let found = interp::call(&module, func, &args, &mut Memory::default()).expect("it runs");
                let Value::Scalar(found) = found[0] else { panic!("a number") };
                // Without a fused multiply-add, the last place may differ.
                let far = distance(f64::from_bits(found), f64::from_bits(wanted));
                let near = !fused && !is_rounding(m) && far <= 2;
                if !near && !ir::scalar::same(s, found, wanted) {
                    faults.push(format!(
                        "{}_{}({bits:x?}) is {found:x} instead of {wanted:x}",
                        m.name(),
                        s.name()
                    ));
                }
            };
            for &x in &ENDS {
                if m.arity() == 1 {
                    check(&[x]);
                } else {
                    ENDS.iter().for_each(|&y| check(&[x, y]));
                }
            }
            let mut state = 17;
            for k in 0..900 {
                let (least, limit) = [(1e-3, 3.0), (1e-1, 40.0), (1e-300, 1e300)][k % 3];
                let x = random(&mut state, least, limit);
                let y = random(&mut state, least, limit.min(700.0));
                let args = [x, y];
                check(&args[..m.arity()]);
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn remainders_are_exact() {
        for s in [Scalar::F32, Scalar::F64] {
            let mut module = Module::default();
            let f = define(&mut module.types, Made::Remainder(s), false);
            let func = module.funcs.push(f);
            let wrong = ir::verify::verify_function(&module, &module.funcs[func]);
            assert!(wrong.is_empty(), "{wrong:?}");
            let check = |x: f64, y: f64| {
                let bits = |x: f64| if s == Scalar::F32 { (x as f32).to_bits() as u64 } else { x.to_bits() };
                let args = [Value::Scalar(bits(x)), Value::Scalar(bits(y))];
                let found = interp::call(&module, func, &args, &mut Memory::default()).expect("it runs");
                let (found, wanted) = match found[0] {
                    Value::Scalar(b) if s == Scalar::F32 => {
                        (f64::from(f32::from_bits(b as u32)), f64::from(x as f32 % y as f32))
                    }
                    Value::Scalar(b) => (f64::from_bits(b), x % y),
                    _ => panic!("a number"),
                };
                let same = found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan();
                assert!(same, "{x:e} % {y:e} is {found:e} instead of {wanted:e}");
            };
            for x in ENDS {
                ENDS.iter().for_each(|&y| check(x, y));
            }
            let mut state = 5;
            for k in 0..600 {
                let (least, limit) = [(1e-3, 3.0), (1e-1, 1e6), (1e-30, 1e30)][k % 3];
                check(random(&mut state, least, limit), random(&mut state, least, limit));
            }
            check(1e-42, 3e-45);
            check(1e30, 3e-45);
        }
    }
}
