//! Computes which differentials may be absent, and for which their absence may be tested.
//!
//! These are two properties of the values of one function (for a cell, of its content), each a least fixpoint
//! over the function's instructions. A parameter of a function may be absent, and its caller may test whether
//! a result is, unless the host is the caller, which only passes numbers.

use cranelift_entity::{EntityRef, EntitySet};
use ir::{Function, Inst, Math, Op, Region, Scalar, Types, Value};

use crate::util::{Defs, carried, carried_at, root_cell};

/// The facts about a function's values; see the module's documentation.
pub(super) struct Facts {
    /// Values whose absence may be tested: a value derived from them may be scaled by a number that is not
    /// finite, so absence must be distinguished from zero.
    pub(super) asked: EntitySet<Value>,
    /// Values that may be absent.
    pub(super) absent: EntitySet<Value>,
    /// Values that are neither infinite nor NaN.
    pub(super) finite: EntitySet<Value>,
}

/// The kind of caller of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// Functions of the module, which pass differentials.
    Callers,
    /// The host, which passes numbers.
    Host,
}

/// The state of a fixpoint iteration.
struct Flow<'a> {
    types: &'a Types,
    func: &'a Function,
    defs: &'a Defs,
    set: EntitySet<Value>,
    changed: bool,
}

impl Facts {
    pub(super) fn of(types: &Types, func: &Function, defs: &Defs, border: Border) -> Facts {
        let mut insts = Vec::new();
        order(func, func.body(), &mut insts);
        let finite = finite(types, func, &insts);
        let body = &func.regions[func.body()];
        let flow =
            || Flow { types, func, defs, set: EntitySet::with_capacity(func.values.len()), changed: true };
        let (mut absent, mut asked) = (flow(), flow());
        if border == Border::Callers {
            body.params.iter().for_each(|&v| absent.add(v));
            body.results.iter().for_each(|&v| asked.add(v));
        }
        absent.settle(|flow| insts.iter().for_each(|&inst| flow.absent(inst)));
        let absent = absent.set;
        asked.settle(|flow| insts.iter().rev().for_each(|&inst| flow.asked(inst, &absent, &finite)));
        Facts { asked: asked.set, absent, finite }
    }
}

/// Lists the instructions in the order in which facts propagate: an instruction that holds a region comes
/// after the region, and a loop also before it. One pass thus carries a fact through any number of nested
/// arms.
fn order(func: &Function, region: Region, insts: &mut Vec<Inst>) {
    for &inst in &func.regions[region].insts {
        let data = &func.insts[inst];
        if matches!(data.op, Op::For(_) | Op::Loop(_)) {
            insts.push(inst);
        }
        data.regions.iter().for_each(|&nested| order(func, nested, insts));
        insts.push(inst);
    }
}

impl Flow<'_> {
    fn has(&self, v: Value) -> bool {
        self.set.contains(v)
    }

    fn add(&mut self, v: Value) {
        let ty = self.func.ty(v);
        if self.types.is_differentiable(ty) {
            self.changed |= self.set.insert(v);
        }
    }

    /// Iterates until nothing changes; returns the number of iterations.
    fn settle(&mut self, turn: impl Fn(&mut Self)) -> usize {
        let mut turns = 0;
        while std::mem::take(&mut self.changed) {
            turn(self);
            turns += 1;
        }
        turns
    }

    fn flow(&mut self, from: Value, to: Value) {
        if self.has(from) {
            self.add(to);
        }
    }

    fn root(&self, cell: Value) -> Value {
        root_cell(self.func, self.defs, cell)
    }

    /// Propagates tests from an instruction's results to its operands.
    fn asked(&mut self, inst: Inst, absent: &EntitySet<Value>, finite: &EntitySet<Value>) {
        let data = &self.func.insts[inst];
        let args = &data.args[..];
        match &data.op {
            Op::Scale | Op::Unscale => {
                let is_tame = data.op == Op::Scale && finite.contains(args[1]);
                if absent.contains(args[0]) && !is_tame {
                    self.add(args[0]);
                }
                self.flow(data.results[0], args[0]);
            }
            Op::Mask => {
                if absent.contains(args[0]) {
                    self.add(args[0]);
                }
                self.flow(data.results[0], args[1]);
            }
            Op::Add
            | Op::Sum
            | Op::Splat
            | Op::Construct
            | Op::Insert(_)
            | Op::Extract(_)
            | Op::Index
            | Op::Convert
            | Op::Detach
            | Op::CheckFinite(_)
            | Op::Select => args.iter().for_each(|&v| self.flow(data.results[0], v)),
            Op::Local => self.flow(data.results[0], args[0]),
            Op::Load => {
                let cell = self.root(args[0]);
                self.flow(data.results[0], cell);
            }
            Op::Store | Op::AddTo => {
                let cell = self.root(args[0]);
                self.flow(cell, args[args.len() - 1]);
            }
            Op::Call(_) => args.iter().for_each(|&v| self.add(v)),
            Op::If | Op::Switch(_) => {
                for &region in &data.regions {
                    for (k, &v) in self.func.regions[region].results.iter().enumerate() {
                        self.flow(data.results[k], v);
                    }
                }
            }
            Op::For(_) | Op::Loop(_) => {
                let (n, (arg, param, result)) = (carried(self.func, inst), carried_at(&data.op));
                let body = &self.func.regions[data.regions[0]];
                for k in 0..n {
                    for to in [args[arg + k], body.results[result + k]] {
                        self.flow(data.results[k], to);
                        self.flow(body.params[param + k], to);
                    }
                }
                for (&stacked, &r) in body.results[result + n..].iter().zip(&data.results[n..]) {
                    self.flow(r, stacked);
                }
            }
            _ => (),
        }
    }

    /// Propagates absence from an instruction's operands to its results.
    fn absent(&mut self, inst: Inst) {
        let data = &self.func.insts[inst];
        let args = &data.args[..];
        match &data.op {
            Op::Absent => self.add(data.results[0]),
            Op::Const(bits) => {
                let s = self.types.scalar_of(self.func.ty(data.results[0]));
                if s.is_some_and(|s| ir::scalar::is_absent(s, *bits)) {
                    self.add(data.results[0]);
                }
            }
            Op::Add if self.has(args[0]) && self.has(args[1]) => self.add(data.results[0]),
            Op::Mask | Op::Construct | Op::Insert(_) | Op::Select => {
                args.iter().for_each(|&v| self.flow(v, data.results[0]));
            }
            Op::Scale
            | Op::Unscale
            | Op::Sum
            | Op::Splat
            | Op::Extract(_)
            | Op::Convert
            | Op::Detach
            | Op::CheckFinite(_)
            | Op::Local => self.flow(args[0], data.results[0]),
            Op::Index => {
                if is_sparse(self.types, self.func, self.defs, inst) {
                    self.add(data.results[0]);
                }
                self.flow(args[0], data.results[0]);
            }
            Op::Load => {
                let cell = self.root(args[0]);
                if is_sparse(self.types, self.func, self.defs, inst) {
                    self.add(data.results[0]);
                }
                self.flow(cell, data.results[0]);
            }
            Op::Store => {
                let cell = self.root(args[0]);
                self.flow(args[args.len() - 1], cell);
            }
            Op::Call(_) => data.results.iter().for_each(|&v| self.add(v)),
            Op::If | Op::Switch(_) => {
                for &region in &data.regions {
                    for (k, &v) in self.func.regions[region].results.iter().enumerate() {
                        self.flow(v, data.results[k]);
                    }
                }
            }
            Op::For(_) | Op::Loop(_) => {
                let (n, (arg, param, result)) = (carried(self.func, inst), carried_at(&data.op));
                let body = &self.func.regions[data.regions[0]];
                for k in 0..n {
                    for from in [args[arg + k], body.results[result + k]] {
                        self.flow(from, data.results[k]);
                        self.flow(from, body.params[param + k]);
                    }
                }
                for (&stacked, &r) in body.results[result + n..].iter().zip(&data.results[n..]) {
                    self.flow(stacked, r);
                }
            }
            _ => (),
        }
    }
}

/// Returns true if a zero that is read here may be an element to which nothing was added: a stack in a cell
/// grows with zeros.
pub(super) fn is_sparse(types: &Types, func: &Function, defs: &Defs, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let of = data.args[0];
    match data.op {
        Op::Load => types.content(func.ty(root_cell(func, defs, of))).is_some_and(|ty| types.has_stack(ty)),
        Op::Index => {
            types.has_stack(func.ty(of))
                && matches!(defs.op(func, of), Some(Op::Load | Op::Index | Op::If | Op::Switch(_)))
        }
        _ => false,
    }
}

/// The floats that are finite whatever the program computes: constants, converted integers, and values made
/// from these without arithmetic.
fn finite(types: &Types, func: &Function, insts: &[Inst]) -> EntitySet<Value> {
    let mut finite: EntitySet<Value> = EntitySet::new();
    for &inst in insts {
        let data = &func.insts[inst];
        let &[r] = &data.results[..] else { continue };
        let Some(s) = types.scalar_of(func.ty(r)).filter(|s| s.is_float()) else { continue };
        let all = |from: usize| data.args[from..].iter().all(|&v| finite.contains(v));
        let is_finite = match data.op {
            Op::Const(bits) => ir::build::float_value(s, bits).is_finite(),
            Op::Zero => true,
            Op::Convert => {
                let from = types.scalar_of(func.ty(data.args[0]));
                let is_float = from.is_some_and(Scalar::is_float);
                if is_float { all(0) && s == Scalar::F64 } else { s != Scalar::F16 }
            }
            Op::Splat | Op::Construct | Op::Insert(_) | Op::Extract(_) | Op::Neg | Op::Detach => all(0),
            Op::Math(Math::Min | Math::Max | Math::Abs | Math::Floor | Math::Ceil) => all(0),
            Op::Select => all(1),
            _ => false,
        };
        if is_finite {
            finite.insert(r);
        }
    }
    debug_assert!(finite.iter().all(|v| v.index() < func.values.len()));
    finite
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values after an `if` depend on the values that its arms yield, many times over and also within the
    /// arms.
    #[test]
    fn branches_in_sequence_take_one_turn() {
        let mut text = String::from("func f(v0: bool, v1: f32 diff) -> (f32 diff) {\n");
        for k in 0..50 {
            let (d, r) = (2 * k + 1, 2 * k + 3);
            text += &format!(
                "    v{r} = if v0 {{\n        v{} = scale v{d}, v{d}\n        yield v{}\n    }} else {{\n        \
                 yield v{d}\n    }}\n",
                d + 1,
                d + 1
            );
        }
        text += "    yield v101\n}\n";
        let module = ir::parse::parse_module(&text).expect("it is well-formed");
        let func = module.funcs.values().next().expect("there is one");
        let defs = Defs::of(func);
        let mut insts = Vec::new();
        order(func, func.body(), &mut insts);
        let flow = || Flow { types: &module.types, func, defs: &defs, set: EntitySet::new(), changed: true };
        let (mut absent, mut asked) = (flow(), flow());
        func.regions[func.body()].params.iter().for_each(|&v| absent.add(v));
        func.regions[func.body()].results.iter().for_each(|&v| asked.add(v));
        let turns = absent.settle(|flow| insts.iter().for_each(|&inst| flow.absent(inst)));
        assert_eq!(turns, 2, "one turn finds all, and one that there is no more");
        let finite = EntitySet::new();
        let turns =
            asked.settle(|flow| insts.iter().rev().for_each(|&inst| flow.asked(inst, &absent.set, &finite)));
        assert_eq!(turns, 2);
    }
}
