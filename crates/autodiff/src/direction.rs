//! Treats the zeros that a program writes in directions as absent differentials.
//!
//! If a call asks for a derivative in the direction `(1, 0)`, or with the cotangent 0, the zero is not a
//! number but means that there is no differential: a factor that it would be scaled with is not computed, and
//! may be infinite. This holds for zeros written in the source. They are replaced right after lowering and
//! before any optimisation, so the result is the same at every optimisation level.

use ir::{Defs, DerivativeOp, Func, Function, Inst, Module, Op, Span, Value, ValueData};
use smallvec::SmallVec;

/// The maximum depth of calls looked through to find the origin of a value.
const DEPTH: u32 = 4;

/// Replaces zeros that the program writes for differentials by absent differentials.
pub fn enter(module: &mut Module) {
    let all: Vec<Func> = module.funcs.keys().collect();
    for f in all {
        let mut calls: Vec<(Inst, usize)> = Vec::new();
        let func = &module.funcs[f];
        if !func.has_body() {
            continue;
        }
        func.walk(func.body(), &mut |inst| {
            let Op::CallDerivative(op, callee) = func.insts[inst].op else { return };
            let n_kept = match op {
                DerivativeOp::Fwd | DerivativeOp::Bwd | DerivativeOp::Second => 0,
                DerivativeOp::Pullback | DerivativeOp::Pushforward => 1,
                DerivativeOp::Apply | DerivativeOp::Linearize | DerivativeOp::Decisions => return,
            };
            calls.push((inst, module.funcs[callee].params.len() + n_kept));
        });
        if !calls.is_empty() {
            let mut func = ir::build::take(module, f);
            directions(module, &mut func, &calls);
            ir::build::put_back(module, f, func);
        }
    }
}

fn directions(module: &Module, func: &mut Function, calls: &[(Inst, usize)]) {
    let defs = Defs::of(func);
    func.rebuild(|func, inst, out| {
        if let Some(&(_, first)) = calls.iter().find(|call| call.0 == inst) {
            let span = func.insts[inst].span;
            for k in first..func.insts[inst].args.len() {
                let given = func.insts[inst].args[k];
                if let Some(found) = absent(module, func, &defs, given, span, out) {
                    func.insts[inst].args[k] = found;
                }
            }
        }
        out.push(inst);
    });
}

/// Makes the replacement for a differential of which all numbers, or some, are written as zero. Returns
/// `None` if there are no such zeros.
fn absent(
    module: &Module,
    func: &mut Function,
    defs: &Defs,
    v: Value,
    span: Span,
    out: &mut Vec<Inst>,
) -> Option<Value> {
    let ty = func.ty(v);
    if !module.types.is_differentiable(ty) {
        return None;
    }
    let source = source(module, func, defs, v, DEPTH);
    let (op, args): (Op, SmallVec<[Value; 4]>) = match source {
        Source::Zero => (Op::Absent, SmallVec::new()),
        Source::Value(v) => {
            let data = func.insts[defs.inst(v)?].clone();
            match data.op {
                Op::Splat | Op::Construct => {
                    let parts: SmallVec<[Option<Value>; 4]> =
                        data.args.iter().map(|&part| absent(module, func, defs, part, span, out)).collect();
                    if parts.iter().all(Option::is_none) {
                        return None;
                    }
                    let mut parts = parts.into_iter().zip(&data.args);
                    // The other parts are numbers.
                    let args = parts.by_ref().map(|(absent, &part)| {
                        absent.unwrap_or_else(|| push(func, Op::Present, &[part], part, span, out))
                    });
                    (data.op, args.collect())
                }
                _ => return None,
            }
        }
    };
    Some(push(func, op, &args, v, span, out))
}

fn push(func: &mut Function, op: Op, args: &[Value], like: Value, span: Span, out: &mut Vec<Inst>) -> Value {
    let (inst, v) = func.make_value(op, args, ValueData::new(func.ty(like)), span);
    out.push(inst);
    v
}

/// The origin of a value, seen through functions that return a parameter or a zero.
enum Source {
    Zero,
    Value(Value),
}

fn source(module: &Module, func: &Function, defs: &Defs, v: Value, depth: u32) -> Source {
    let Some(inst) = defs.inst(v) else { return Source::Value(v) };
    let data = &func.insts[inst];
    match data.op {
        Op::Zero | Op::Const(0) => Source::Zero,
        Op::Convert | Op::Splat | Op::Detach => match source(module, func, defs, data.args[0], depth) {
            Source::Zero => Source::Zero,
            Source::Value(_) => Source::Value(v),
        },
        Op::Call(callee) if depth > 0 && module.funcs[callee].has_body() => {
            let callee = &module.funcs[callee];
            let body = &callee.regions[callee.body()];
            let position = data.results.iter().position(|&r| r == v).expect("a result of its instruction");
            let inner = Defs::of(callee);
            match source(module, callee, &inner, body.results[position], depth - 1) {
                Source::Zero => Source::Zero,
                Source::Value(given) => match body.params.iter().position(|&param| param == given) {
                    Some(k) => source(module, func, defs, data.args[k], depth),
                    None => Source::Value(v),
                },
            }
        }
        _ => Source::Value(v),
    }
}
