//! Expands the residuals of one function, in every function of a module.
//!
//! A value of type [`TypeData::Residuals`] is replaced by the kept values, like a struct in scalar
//! replacement. An array, cell or stack of residuals becomes one array, cell or stack per kept value.

use cranelift_entity::SecondaryMap;
use ir::{DerivativeOp, Function, Inst, InstData, Op, Slot, Type, TypeData, Types, Value, ValueData};

use super::Split;

/// Returns true if a type contains the residuals with the given number, or any residuals if `number` is
/// `None`.
pub(super) fn holds(types: &Types, ty: Type, number: Option<u32>) -> bool {
    match types[ty] {
        TypeData::Residuals(n) => number.is_none_or(|number| n == number),
        TypeData::Array(t, _) | TypeData::Stack(t) | TypeData::Cell(t) => holds(types, t, number),
        TypeData::Scalar(_) | TypeData::Vector(..) | TypeData::Buffer(_) => false,
    }
}

/// Expands the residuals of one function.
pub(super) struct Expansion<'a> {
    pub(super) types: &'a mut Types,
    pub(super) number: u32,
    pub(super) of: ir::Residuals,
    /// The halves; `None` if they could not be made. Then nothing is kept, and results are zero.
    pub(super) split: Option<&'a Split>,
}

/// The values that replace each expanded value.
type Parts = SecondaryMap<Value, Option<Vec<Value>>>;

impl Expansion<'_> {
    pub(super) fn function(&mut self, function: &mut Function) {
        if !function.values.values().any(|v| holds(self.types, v.ty, Some(self.number))) {
            return;
        }
        let mut parts = Parts::new();
        for v in function.values.keys().collect::<Vec<_>>() {
            let data = function.values[v].clone();
            if holds(self.types, data.ty, Some(self.number)) {
                let made = self.parts(data.ty).into_iter().map(|ty| {
                    let part = ValueData { ty, name: data.name.clone(), ..ValueData::new(ty) };
                    function.values.push(part)
                });
                parts[v] = Some(made.collect());
                // The value has no uses any more.
                function.values[v].ty = Type::U32;
            }
        }
        self.slots(&mut function.params);
        self.slots(&mut function.results);
        for region in function.regions.keys().collect::<Vec<_>>() {
            let mut data = std::mem::take(&mut function.regions[region]);
            data.params = flat(&parts, &data.params);
            data.results = flat(&parts, &data.results);
            let insts = std::mem::take(&mut data.insts);
            for inst in insts {
                self.inst(function, &parts, inst, &mut data.insts);
            }
            function.regions[region] = data;
        }
    }

    fn slots(&mut self, slots: &mut Vec<Slot>) {
        for slot in std::mem::take(slots) {
            if holds(self.types, slot.ty, Some(self.number)) {
                slots.extend(self.parts(slot.ty).into_iter().map(|ty| Slot { ty, ..slot.clone() }));
            } else {
                slots.push(slot);
            }
        }
    }

    /// The types of the values that replace a value of a type that holds the residuals.
    fn parts(&mut self, ty: Type) -> Vec<Type> {
        match self.types[ty] {
            TypeData::Array(t, n) => self.parts(t).into_iter().map(|t| self.types.array(t, n)).collect(),
            TypeData::Stack(t) => self.parts(t).into_iter().map(|t| self.types.stack(t)).collect(),
            TypeData::Cell(t) => self.parts(t).into_iter().map(|t| self.types.cell(t)).collect(),
            TypeData::Scalar(_) | TypeData::Vector(..) | TypeData::Buffer(_) | TypeData::Residuals(_) => {
                self.split.map_or_else(Vec::new, |split| split.kept.clone())
            }
        }
    }

    fn inst(&mut self, function: &mut Function, parts: &Parts, inst: Inst, into: &mut Vec<Inst>) {
        let data = &mut function.insts[inst];
        let called = match data.op {
            Op::CallDerivative(op, f) if f == self.of.func && op.is_forward() == self.of.forward => {
                match op {
                    DerivativeOp::Fwd
                    | DerivativeOp::Bwd
                    | DerivativeOp::Decisions
                    | DerivativeOp::Second => None,
                    DerivativeOp::Apply | DerivativeOp::Linearize => {
                        Some(self.split.map_or(Op::Zero, |split| Op::Call(split.first)))
                    }
                    DerivativeOp::Pullback | DerivativeOp::Pushforward => {
                        Some(self.split.map_or(Op::Zero, |split| Op::Call(split.second)))
                    }
                }
            }
            _ => None,
        };
        if let Some(Op::Zero) = called {
            let (results, span) = (flat(parts, &data.results), data.span);
            into.extend(results.into_iter().map(|v| function.make(Op::Zero, &[], &[v], span)));
            return;
        }
        if let Some(op) = called {
            data.op = op;
        }
        let Some(several) = data.args.iter().chain(&data.results).find_map(|&v| parts[v].as_ref()) else {
            into.push(inst);
            return;
        };
        if matches!(data.op, Op::If | Op::Switch(_) | Op::For(_) | Op::Loop(_)) || data.op.callee().is_some()
        {
            data.args = flat(parts, &data.args).into();
            data.results = flat(parts, &data.results).into();
            into.push(inst);
            return;
        }
        // An instruction that only moves values is repeated for each part.
        let part = |v: &Value, k: usize| parts[*v].as_ref().map_or(*v, |parts| parts[k]);
        let data = data.clone();
        for k in 0..several.len() {
            into.push(function.insts.push(InstData {
                op: data.op.clone(),
                args: data.args.iter().map(|v| part(v, k)).collect(),
                results: data.results.iter().map(|v| part(v, k)).collect(),
                regions: data.regions.clone(),
                span: data.span,
            }));
        }
    }
}

fn flat(parts: &Parts, values: &[Value]) -> Vec<Value> {
    let mut all = Vec::with_capacity(values.len());
    for &v in values {
        match &parts[v] {
            Some(parts) => all.extend(parts),
            None => all.push(v),
        }
    }
    all
}
