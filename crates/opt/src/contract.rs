//! Contraction: fuses products with sums, where the user allows it (`--fp-contract`).
//!
//! `a * b + c` ↦ `fma(a, b, c)`, and likewise `a * b - c` and `c - a * b`, for floats, doubles and vectors of
//! them. The result is rounded once rather than twice; this is the only difference, and it is one in the
//! program's IR, so the interpreter and all backends agree on the bits as they do without it.
//!
//! Of a sum of two products the first is fused, and a product only if it is in every use of it: it then is not
//! computed any more, and no part of the program sees it rounded while another sees it exact. The pass comes last, when differentials are numbers: rules for products and sums apply before, and
//! derivatives are fused like any other code.

use cranelift_entity::SecondaryMap;
use ir::analysis::Defs;
use ir::walk::use_counts;
use ir::{Function, Inst, InstData, Math, Op, Scalar, TypeData, Types, Value};

use crate::util::make_number;

/// Fuses products; returns true if anything changed.
pub(crate) fn run(types: &Types, func: &mut Function) -> bool {
    if !func.contains(|op| *op == Op::Mul) {
        return false;
    }
    let defs = Defs::of(func);
    let fused = products(types, func, &defs);
    let product = |v: Value| fused[v].then(|| defs.inst(v)).flatten();
    let mut changed = false;
    func.rebuild(|func, inst, out| {
        let data = &func.insts[inst];
        let sum = match data.op {
            Op::Add | Op::Sub if is_summed(types, func, data) => {
                product(data.args[0]).map(|mul| Sum { mul, other: data.args[1], is_first: true }).or_else(
                    || product(data.args[1]).map(|mul| Sum { mul, other: data.args[0], is_first: false }),
                )
            }
            _ => None,
        };
        if let Some(sum) = sum {
            fuse(func, inst, sum, out);
            changed = true;
        }
        out.push(inst);
    });
    if changed {
        // A product whose sums are all fused is used by nothing now.
        let uses = use_counts(func);
        func.rebuild(|func, inst, out| {
            let InstData { op, results, .. } = &func.insts[inst];
            if *op != Op::Mul || !fused[results[0]] || uses[results[0]] > 0 {
                out.push(inst);
            }
        });
    }
    changed
}

/// A sum or difference of a product and another number.
struct Sum {
    mul: Inst,
    other: Value,
    /// The product is the first operand.
    is_first: bool,
}

/// Turns the sum into a fused multiply-add, with a negation before it where a difference needs one.
fn fuse(func: &mut Function, inst: Inst, Sum { mul, other, is_first }: Sum, out: &mut Vec<Inst>) {
    let InstData { op, span, .. } = func.insts[inst].clone();
    let (a, b) = (func.insts[mul].args[0], func.insts[mul].args[1]);
    let mut negated = |v: Value| {
        let ty = func.ty(v);
        let (neg, v) = make_number(func, Op::Neg, &[v], ty, span);
        out.push(neg);
        v
    };
    let args = match (op, is_first) {
        (Op::Sub, true) => [a, b, negated(other)],
        (Op::Sub, false) => [negated(a), b, other],
        _ => [a, b, other],
    };
    func.insts[inst].op = Op::Math(Math::Fma);
    func.insts[inst].args = args[..].into();
}

/// Returns true if the result is a number, or a vector of numbers, of a kind that is fused.
fn is_summed(types: &Types, func: &Function, data: &InstData) -> bool {
    let result = data.results[0];
    let is_float = match types[func.ty(result)] {
        TypeData::Scalar(s) | TypeData::Vector(s, _) => matches!(s, Scalar::F32 | Scalar::F64),
        _ => false,
    };
    is_float && !func.values[result].linear
}

/// The products that are fused with all that uses them.
fn products(types: &Types, func: &Function, defs: &Defs) -> SecondaryMap<Value, bool> {
    let is_product =
        |v: Value| defs.inst(v).is_some_and(|inst| func.insts[inst].op == Op::Mul && !func.values[v].linear);
    let mut left = use_counts(func);
    let mut found: SecondaryMap<Value, bool> = SecondaryMap::new();
    found.resize(func.values.len());
    func.walk(func.body(), &mut |inst| {
        let data = &func.insts[inst];
        if matches!(data.op, Op::Add | Op::Sub) && is_summed(types, func, data) {
            let [a, b] = [data.args[0], data.args[1]];
            // Twice a product, `p + p`, stays.
            if let Some(&v) = [a, b].iter().find(|&&v| is_product(v) && a != b) {
                left[v] -= 1;
            }
        }
    });
    func.walk(func.body(), &mut |inst| {
        if let (Op::Mul, &[v]) = (&func.insts[inst].op, &func.insts[inst].results[..]) {
            found[v] = is_product(v) && left[v] == 0;
        }
    });
    found
}
