//! Finds where a differential becomes infinite or NaN: `ẋ = op(…)` becomes `ẋ = check_finite(op(…), …)`.
//!
//! A differential is a tangent or cotangent that differentiation made, or a value of a user's derivative that depends
//! on one. The program stops at the first that is not finite, so all differentials that it was made of are finite; what
//! else it was made of is shown. Numbers that are no differentials may be infinite: a rule may divide by an infinite
//! number to get zero.
//!
//! A check is its operand, so it stands and falls with the uses of what it checks, and what nobody reads stops nobody.
//! What only selections read is checked behind them: the side that is not taken may be anything.

use cranelift_entity::EntitySet;
use ir::{Func, Function, Inline, Inst, InstData, Module, Op, Region, Value, ValueData};
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::propagate::linear_values;

impl Engine<'_> {
    /// Marks the differentials in the custom derivatives of a function.
    pub(crate) fn mark_custom(&mut self, func: Func) {
        let witness = self.module.witness(func);
        let results = &self.module.funcs[func].results;
        let n_params = self.module.funcs[func].params.len();
        let n_cotangents = results.iter().filter(|slot| slot.diff).count();
        let n_vjp = witness.vjp.map_or(0, |vjp| self.module.funcs[vjp].params.len());
        let custom = [(witness.jvp, n_params), (witness.vjp, n_vjp.saturating_sub(n_cotangents))];
        for (made, first) in custom {
            let Some(made) = made.filter(|&f| self.module.funcs[f].has_body()) else { continue };
            let n = self.module.funcs[made].params.len();
            let tangents: Vec<bool> = (0..n).map(|k| k >= first).collect();
            for v in linear_values(self, made, &tangents).iter() {
                self.module.funcs[made].values[v].differential = true;
            }
        }
    }
}

/// Puts the checks into every function of a module whose derivatives have been made.
pub(crate) fn check(module: &mut Module) {
    let all: Vec<Func> = module.funcs.keys().collect();
    // Functions that see differentials although they are no derivatives: what a user's derivative calls.
    let is_plain = |func: &Function| func.values.values().all(|v| !v.differential);
    let mut plain: EntitySet<Func> = EntitySet::new();
    plain.extend(all.iter().copied().filter(|&f| is_plain(&module.funcs[f])));
    for f in all {
        if !module.funcs[f].has_body() {
            continue;
        }
        let mut func = ir::build::take(module, f);
        if module.is_library(func.span) && func.inline == Inline::Auto {
            // So that the user's line is known.
            func.inline = Inline::Always;
        }
        let needed = needed(&func);
        let mut checks = Checks { module, plain: &plain, needed, func };
        let body = checks.func.body();
        checks.region(body);
        let func = checks.func;
        ir::build::put_back(module, f, func);
    }
}

/// The values that are read other than by a selection among them.
fn needed(func: &Function) -> EntitySet<Value> {
    let mut needed: EntitySet<Value> = EntitySet::new();
    func.walk(func.body(), &mut |inst| {
        let data = &func.insts[inst];
        match data.op {
            Op::Select => needed.extend(data.args.first().copied()),
            _ => needed.extend(data.args.iter().copied()),
        }
    });
    needed.extend(func.regions.values().flat_map(|region| region.results.iter().copied()));
    needed
}

struct Checks<'a> {
    module: &'a Module,
    plain: &'a EntitySet<Func>,
    needed: EntitySet<Value>,
    func: Function,
}

impl Checks<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let mut checked = Vec::with_capacity(insts.len() * 2);
        for inst in insts {
            for nested in self.func.insts[inst].regions.clone() {
                self.region(nested);
            }
            checked.push(inst);
            for k in 0..self.func.insts[inst].results.len() {
                checked.extend(self.check(inst, k));
            }
        }
        self.func.regions[region].insts = checked;
    }

    /// The check of a result, if it needs one; the instruction gets another result in its place.
    fn check(&mut self, inst: Inst, k: usize) -> Option<Inst> {
        let data = &self.func.insts[inst];
        let v = data.results[k];
        let ValueData { ty, differential, .. } = self.func.values[v];
        let types = &self.module.types;
        let is_shown = |v: &Value| types.is_numeric(self.func.ty(*v));
        if !differential || !types.is_differentiable(ty) || !is_shown(&v) || !self.needed.contains(v) {
            return None;
        }
        let what = match &data.op {
            Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::Rem
            | Op::Math(_)
            | Op::Convert
            | Op::Sum
            | Op::Select => ir::print::op_name(&data.op),
            Op::Load => "a sum in memory".to_string(),
            Op::Call(callee) if self.plain.contains(*callee) => self.module.funcs[*callee].name.clone(),
            _ => return None,
        };
        let shows = !matches!(data.op, Op::Load);
        let operands = data.args.iter().copied().filter(|v| shows && is_shown(v));
        let operands: SmallVec<[Value; 4]> = operands.collect();
        let span = data.span;
        let raw = self.func.values.push(ValueData::new(ty, false));
        let args = std::iter::once(raw).chain(operands).collect();
        self.func.insts[inst].results[k] = raw;
        let results = [v].into_iter().collect();
        let op = Op::CheckFinite(what.into());
        Some(self.func.insts.push(InstData { op, args, results, regions: SmallVec::new(), span }))
    }
}
