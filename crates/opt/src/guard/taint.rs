//! Which values may be a zero that stands for nothing, and which may be infinite.
//!
//! The conditions of the branches and selections around a cotangent don't tell all: in a loop that was not unrolled, the
//! cotangent of a trip comes through a stack, an array or a carried value, and whether the trip took what it belongs to
//! is not known where it is multiplied. There the zero itself is the guard. That costs a comparison, so it is done
//! where both sides ask for it: the one operand may be such a zero, the other may be infinite or NaN.
//!
//! Both are properties of a function's values, found by going over its instructions until nothing is added.

use cranelift_entity::EntityRef;
use cranelift_entity::SecondaryMap;
use ir::{Func, Function, Inst, Math, Module, Op, Region, Types, Value};

use crate::effects::{Facts, Singular};
use crate::util::{Defs, carried, carried_at, root_cell};

/// What may be said of the values of a function. Of a cell: of what it holds.
pub(super) struct Taint {
    /// May be a zero of something not taken, beyond what a zero arm of the value's own `select` or branch says.
    pub(super) nothing: SecondaryMap<Value, bool>,
    /// May be infinite or NaN where the operands of what computes it are not.
    pub(super) singular: SecondaryMap<Value, bool>,
}

impl Taint {
    /// `name` is what [`Facts`] knows the function by.
    pub(super) fn of(name: Func, types: &Types, func: &Function, defs: &Defs, facts: &Facts) -> Taint {
        let mut taint = Taint { nothing: SecondaryMap::new(), singular: SecondaryMap::new() };
        let known = facts.singular.get(name.index());
        for (k, &param) in func.regions[func.body()].params.iter().enumerate() {
            // A caller may hand in zeros.
            let is_linear = func.linear_from.is_some_and(|from| k >= from as usize);
            taint.nothing[param] = is_linear;
            taint.singular[param] = match known {
                Some(known) => known.params.get(k).copied().unwrap_or(false),
                None => func.linear_from.is_some() && !is_linear,
            };
        }
        let mut insts = Vec::new();
        func.walk(func.body(), &mut |inst| insts.push(inst));
        loop {
            let mut changed = false;
            for &inst in &insts {
                changed |= taint.inst(types, func, defs, facts, inst);
            }
            if !changed {
                return taint;
            }
        }
    }

    fn inst(&mut self, types: &Types, func: &Function, defs: &Defs, facts: &Facts, inst: Inst) -> bool {
        let data = &func.insts[inst];
        let args = &data.args[..];
        let nothing = |k: usize| self.nothing[args[k]];
        let any_singular = || args.iter().any(|&v| self.singular[v]);
        let (n, s) = match &data.op {
            Op::Zero => (true, false),
            Op::Neg
            | Op::Detach
            | Op::Convert
            | Op::Sum
            | Op::Splat
            | Op::Extract(_)
            | Op::CheckFinite(_) => (nothing(0), self.singular[args[0]]),
            Op::Index | Op::Local => (nothing(0), self.singular[args[0]]),
            Op::Insert(_) | Op::Construct => (args.iter().any(|&v| self.nothing[v]), any_singular()),
            Op::Mul => (nothing(0) || nothing(1), any_singular()),
            Op::Div => {
                let is_constant = matches!(defs.op(func, args[1]), Some(Op::Const(_)));
                let s = if is_apart(types, func, defs, args[1]) {
                    self.singular[args[0]]
                } else {
                    !is_constant || any_singular()
                };
                (nothing(0), s)
            }
            Op::Add | Op::Sub => (nothing(0) && nothing(1), any_singular()),
            Op::Math(math) => (false, is_singular(*math) || any_singular()),
            Op::Select => {
                let zero = |k: usize| matches!(defs.op(func, args[k]), Some(Op::Zero));
                let n = nothing(1) && !zero(1) || nothing(2) && !zero(2);
                (n, self.singular[args[1]] || self.singular[args[2]])
            }
            Op::Load => {
                let cell = root_cell(func, defs, args[0]);
                (self.nothing[cell], self.singular[cell])
            }
            Op::Store | Op::AddTo => {
                let (cell, x) = (root_cell(func, defs, args[0]), args[args.len() - 1]);
                let (n, s) = (self.nothing[x], self.singular[x]);
                return self.add(cell, n && data.op == Op::Store, s);
            }
            Op::If | Op::Switch(_) => return self.arms(func, defs, inst),
            Op::For(_) | Op::Loop(_) => return self.carried(func, inst),
            Op::Call(callee) => {
                let linear = facts.linear_from(*callee).and_then(|from| args.get(from..));
                let n = linear.is_some_and(|l| !l.is_empty() && l.iter().all(|&v| self.nothing[v]));
                let known = facts.singular.get(callee.index());
                let mut changed = false;
                for (k, &r) in data.results.iter().enumerate() {
                    let s = known.is_none_or(|known| known.results.get(k).copied().unwrap_or(false));
                    changed |= self.add(r, n, s);
                }
                return changed;
            }
            _ => (false, false),
        };
        data.results.iter().fold(false, |changed, &r| self.add(r, n, s) | changed)
    }

    fn add(&mut self, v: Value, nothing: bool, singular: bool) -> bool {
        let changed = nothing && !self.nothing[v] || singular && !self.singular[v];
        if changed {
            self.nothing[v] |= nothing;
            self.singular[v] |= singular;
        }
        changed
    }

    fn flow(&mut self, from: Value, to: Value) -> bool {
        let (n, s) = (self.nothing[from], self.singular[from]);
        self.add(to, n, s)
    }

    /// A zero arm is a guard of its own.
    fn arms(&mut self, func: &Function, defs: &Defs, inst: Inst) -> bool {
        let mut changed = false;
        for &region in &func.insts[inst].regions {
            for (&v, &r) in func.regions[region].results.iter().zip(&func.insts[inst].results) {
                if !matches!(defs.op(func, v), Some(Op::Zero)) {
                    changed |= self.flow(v, r);
                }
            }
        }
        changed
    }

    fn carried(&mut self, func: &Function, inst: Inst) -> bool {
        let data = &func.insts[inst];
        let (n, (arg, param, result)) = (carried(func, inst), carried_at(&data.op));
        let body: Region = data.regions[0];
        let (params, results) = (&func.regions[body].params, &func.regions[body].results);
        let mut changed = false;
        for k in 0..n {
            changed |= self.flow(data.args[arg + k], params[param + k]);
            changed |= self.flow(results[result + k], params[param + k]);
            changed |= self.flow(data.args[arg + k], data.results[k]);
            changed |= self.flow(results[result + k], data.results[k]);
        }
        for (&stacked, &r) in results[result + n..].iter().zip(&data.results[n..]) {
            changed |= self.flow(stacked, r);
        }
        changed
    }
}

/// What is divided by at least this does not become infinite.
const APART: f64 = 1e-10;

/// Whether a value is not NaN and at least a positive constant: `max(c, x)`, or `c < x ? x : c`.
fn is_apart(types: &Types, func: &Function, defs: &Defs, v: Value) -> bool {
    let positive = |v: Value| {
        let constant = match defs.op(func, v) {
            Some(Op::Splat) => defs.inst(v).map(|inst| func.insts[inst].args[0]),
            _ => Some(v),
        };
        let bits = constant.and_then(|v| defs.scalar(types, func, v));
        bits.is_some_and(|(s, bits)| s.is_float() && ir::build::float_value(s, bits) >= APART)
    };
    let Some(inst) = defs.inst(v) else { return false };
    let data = &func.insts[inst];
    match data.op {
        Op::Math(Math::Max) => positive(data.args[0]) || positive(data.args[1]),
        Op::Select if positive(data.args[2]) => {
            let test = defs.inst(data.args[0]).map(|inst| &func.insts[inst]);
            let (least, x) = (data.args[2], data.args[1]);
            test.is_some_and(|test| match test.op {
                Op::Lt => test.args[..] == [least, x],
                Op::Gt => test.args[..] == [x, least],
                _ => false,
            })
        }
        _ => false,
    }
}

/// Finds what may be infinite or NaN among the parameters and results of all functions, callees first, until nothing is
/// added.
pub(crate) fn singular(module: &Module, order: &[Func], facts: &mut Facts) {
    facts.singular = module
        .funcs
        .values()
        .map(|f| Singular { params: vec![false; f.params.len()], results: vec![false; f.results.len()] })
        .collect();
    let mut todo = vec![true; module.funcs.len()];
    let mut callers: Vec<Vec<Func>> = vec![Vec::new(); module.funcs.len()];
    for (f, func) in module.funcs.iter().filter(|(_, func)| func.has_body()) {
        func.walk(func.body(), &mut |inst| {
            if let Op::Call(callee) = func.insts[inst].op {
                callers[callee.index()].push(f);
            }
        });
    }
    while todo.contains(&true) {
        for &f in order {
            let func = &module.funcs[f];
            if !std::mem::take(&mut todo[f.index()]) || !func.has_body() {
                continue;
            }
            let taint = Taint::of(f, &module.types, func, &Defs::of(func), facts);
            let results = func.regions[func.body()].results.iter().map(|&v| taint.singular[v]).collect();
            if facts.singular[f.index()].results != results {
                facts.singular[f.index()].results = results;
                callers[f.index()].iter().for_each(|caller| todo[caller.index()] = true);
            }
            func.walk(func.body(), &mut |inst| {
                let Op::Call(callee) = func.insts[inst].op else { return };
                let params = &mut facts.singular[callee.index()].params;
                for (param, &v) in params.iter_mut().zip(&func.insts[inst].args) {
                    if taint.singular[v] && !*param {
                        *param = true;
                        todo[callee.index()] = true;
                    }
                }
            });
        }
    }
}

/// Whether a function is infinite or NaN somewhere.
fn is_singular(math: Math) -> bool {
    use Math::*;
    let bounded_argument = matches!(math, Asin | Acos | Acosh | Atanh | Log | Log2 | Log10 | Sqrt | Pow);
    let grows = matches!(math, Tan | Sinh | Cosh | Exp | Exp2);
    bounded_argument || grows
}
