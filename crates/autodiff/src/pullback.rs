//! `call_apply` and `call_pullback`: the value now, the gradient later.
//!
//! `(y, r) = apply(x)` and `x̄ = pullback(x, r, ȳ)` are the two halves that reverse mode calls one after the other. What is
//! kept, `r`, has the type [`TypeData::Residuals`] until the halves are made and it is known what they keep. Then every
//! value of that type becomes the values that are kept, in every function at once: like a struct that is taken apart.
//! This is done before anything else is differentiated, so a pullback may go wherever a value may: into arrays, cells and
//! structs, through calls and loops, and what uses it is differentiated like any function.
//!
//! The residuals have no tangents: a derivative of the pullback is one of `call_bwd` at the same `x`, whose value the
//! pullback has. That runs the function again, which must do no harm then (E0918).
//!
//! Where reverse mode itself runs the function again (recursion) or calls a derivative of the user's, nothing but the
//! arguments is kept. So it is where a pullback is an element of an array and a residual would be a stack, which no array
//! holds.

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::{Builder, Func, Function, Inst, InstData, Op, Region, Slot, Span, Type, TypeData, Value, ValueData};
use smallvec::SmallVec;

use crate::copy::fresh;
use crate::engine::{Engine, Mode};
use crate::unzip::Residual;
use crate::witness::{Source, source};

/// What takes the place of a function's `call_apply` and `call_pullback`.
struct Split {
    /// `(params…) -> (results…, kept…)`.
    apply: Func,
    /// `(params…, kept…, cotangents of diff results…) -> (cotangents of diff params…)`.
    pullback: Func,
    /// The types of what is kept.
    kept: Vec<Type>,
}

impl Engine<'_> {
    /// Takes all values of the type [`TypeData::Residuals`] apart, callees first.
    pub(crate) fn split_pullbacks(&mut self) {
        let mut left: Vec<u32> = (0..self.module.residuals.len() as u32).collect();
        while !left.is_empty() {
            let ready = left.iter().position(|&n| !self.makes_pullbacks(self.module.residuals[n as usize]));
            let number = left.remove(ready.unwrap_or(0));
            let of = self.module.residuals[number as usize];
            let split = if ready.is_some() {
                self.split(number, of)
            } else {
                let message = format!("a pullback of '{}' needs itself", self.origin_name(of));
                self.problem(self.module.funcs[of].span, "E0911", message);
                None
            };
            let module = &mut *self.module;
            for func in module.funcs.keys().collect::<Vec<_>>() {
                let mut function = std::mem::take(&mut module.funcs[func]);
                Expansion { types: &mut module.types, number, of, split: split.as_ref() }
                    .function(&mut function);
                module.funcs[func] = function;
            }
        }
        self.module.residuals.clear();
    }

    /// Whether a function or what it needs has a value of the type [`TypeData::Residuals`].
    fn makes_pullbacks(&self, func: Func) -> bool {
        let mut seen = EntitySet::new();
        let mut left = vec![func];
        while let Some(func) = left.pop() {
            let function = &self.module.funcs[func];
            if !function.has_body() || !seen.insert(func) {
                continue;
            }
            if function.values.values().any(|v| holds(&self.module.types, v.ty, None)) {
                return true;
            }
            function.walk(function.body(), &mut |inst| left.extend(function.insts[inst].op.callee()));
            let ir::Witness { jvp, vjp, apply, substitute, .. } = self.module.witness(func);
            left.extend([jvp, vjp, apply, substitute].into_iter().flatten());
        }
        false
    }

    fn split(&mut self, number: u32, of: Func) -> Option<Split> {
        self.resolve(of);
        self.resolve_witnesses(of);
        self.polish(of);
        let span = self.module.funcs[of].span;
        let whole = self.backward(of, span)?;
        let made = match source(self.module, of, Mode::Reverse) {
            Source::Applied { apply, vjp } => self.from_context(of, apply, vjp),
            Source::Jvp(_) | Source::Body(_) if !self.cycles.is_recursive(self.module, of) => {
                self.from_halves(number, of)
            }
            Source::Jvp(_) | Source::Body(_) | Source::Vjp(_) | Source::Zero => None,
        };
        Some(made.unwrap_or_else(|| self.from_arguments(of, whole)))
    }

    /// Of the halves of the function, unless a residual would be a stack in an array.
    fn from_halves(&mut self, number: u32, of: Func) -> Option<Split> {
        let halves = self.halves.get(&of)?.clone();
        let results: Vec<Slot> = self.module.funcs[halves.primal].results.clone();
        let mut kept: Vec<usize> = Vec::new();
        for residual in &halves.residuals {
            if let Residual::Result(n) = residual
                && !kept.contains(n)
            {
                kept.push(*n);
            }
        }
        let types: Vec<Type> = kept.iter().map(|&n| results[n].ty).collect();
        let interned = &self.module.types;
        let in_array = interned
            .iter()
            .any(|(ty, data)| matches!(data, TypeData::Array(..)) && holds(interned, ty, Some(number)));
        if in_array && types.iter().any(|&ty| interned.has_stack(ty)) {
            self.check_again(of, "a pullback that is an element of an array");
            return None;
        }
        let n_results = self.module.funcs[of].results.len();
        let apply = self.apply_of(of, &types, |b, module, args| {
            let called = b.call_func(halves.primal, &module[halves.primal].results, args);
            let own = called[..n_results].iter();
            own.copied().chain(kept.iter().map(|&n| called[n])).collect()
        });
        let diff = self.module.funcs[of].results.clone();
        let pullback = self.pullback_of(of, &types, |b, module, args, values, cotangents| {
            let mut operands: Vec<Value> = Vec::new();
            for residual in &halves.residuals {
                operands.push(match residual {
                    Residual::Param(n) => args[*n],
                    Residual::Result(n) => values[kept.iter().position(|k| k == n).unwrap_or(0)],
                });
            }
            let flows = diff.iter().zip(&halves.active).filter(|(slot, _)| slot.diff);
            operands.extend(flows.zip(cotangents).filter(|((_, active), _)| **active).map(|(_, &v)| v));
            let made = fresh(b, module[of].params.iter().filter(|s| s.diff).map(|s| s.ty), false);
            b.push(Op::Call(halves.transposed), &operands, &made, &[]);
            made
        });
        self.differentiate_as_whole(of, pullback, types.len());
        Some(Split { apply, pullback, kept: types })
    }

    /// Of the user's `apply`, whose context is kept.
    fn from_context(&mut self, of: Func, custom: Func, vjp: Func) -> Option<Split> {
        let n_results = self.module.funcs[of].results.len();
        let types: Vec<Type> = self.module.funcs[custom].results[n_results..].iter().map(|s| s.ty).collect();
        let apply = self.apply_of(of, &types, |b, module, args| {
            b.call_func(custom, &module[custom].results, args).to_vec()
        });
        let pullback = self.pullback_of(of, &types, |b, module, _, values, cotangents| {
            let operands = [values, cotangents].concat();
            b.call_func(vjp, &module[vjp].results, &operands).to_vec()
        });
        self.differentiate_as_whole(of, pullback, types.len());
        Some(Split { apply, pullback, kept: types })
    }

    /// Of the function itself and its whole derivative.
    fn from_arguments(&mut self, of: Func, whole: Func) -> Split {
        let apply =
            self.apply_of(of, &[], |b, module, args| b.call_func(of, &module[of].results, args).to_vec());
        let pullback = self.pullback_of(of, &[], |b, module, args, _, cotangents| {
            let operands = [args, cotangents].concat();
            b.call_func(whole, &module[whole].results, &operands).to_vec()
        });
        Split { apply, pullback, kept: Vec::new() }
    }

    fn apply_of(
        &mut self,
        of: Func,
        kept: &[Type],
        make: impl FnOnce(&mut Builder<'_>, &Functions, &[Value]) -> Vec<Value>,
    ) -> Func {
        let src = &self.module.funcs[of];
        let (name, params, mut results) =
            (format!("{}_apply", src.name), src.params.clone(), src.results.clone());
        results.extend(kept.iter().map(|&ty| Slot { ty, diff: false, linear: false, name: None }));
        let made = self.declare(name, of, params.clone(), results.clone());
        let module = &mut *self.module;
        let mut b = Builder::new(&mut module.types, String::new());
        b.span = module.funcs[of].span;
        let args: Vec<Value> = params.into_iter().map(|slot| b.param(slot)).collect();
        let values = make(&mut b, &module.funcs, &args);
        let body = b.finish(values, results);
        self.define(made, body);
        made
    }

    fn pullback_of(
        &mut self,
        of: Func,
        kept: &[Type],
        make: impl FnOnce(&mut Builder<'_>, &Functions, &[Value], &[Value], &[Value]) -> Vec<Value>,
    ) -> Func {
        let whole = self.declare_backward(of);
        let n_params = self.module.funcs[of].params.len();
        let declared = &mut self.module.funcs[whole];
        let between = kept.iter().map(|&ty| Slot { ty, diff: false, linear: false, name: None });
        declared.params.splice(n_params..n_params, between);
        let (params, results) = (declared.params.clone(), declared.results.clone());
        let module = &mut *self.module;
        let mut b = Builder::new(&mut module.types, String::new());
        b.span = module.funcs[of].span;
        let all: Vec<Value> = params.into_iter().map(|slot| b.param(slot)).collect();
        let (args, rest) = all.split_at(n_params);
        let (values, cotangents) = rest.split_at(kept.len());
        let values = make(&mut b, &module.funcs, args, values, cotangents);
        let body = b.finish(values, results);
        self.define(whole, body);
        whole
    }

    /// The derivatives of a pullback are those of the whole derivative at the same arguments.
    fn differentiate_as_whole(&mut self, of: Func, pullback: Func, n_kept: usize) {
        let Some(&Some(whole)) = self.backwards.get(&of) else { return };
        let Function { params, results, name, .. } = self.module.funcs[pullback].clone();
        let n_params = self.module.funcs[of].params.len();
        let made = self.declare(format!("{name}_whole"), of, params.clone(), results.clone());
        let module = &mut *self.module;
        let mut b = Builder::new(&mut module.types, String::new());
        b.span = module.funcs[of].span;
        let all: Vec<Value> = params.into_iter().map(|slot| b.param(slot)).collect();
        let operands = [&all[..n_params], &all[n_params + n_kept..]].concat();
        let values = b.call_func(whole, &module.funcs[whole].results, &operands).to_vec();
        let body = b.finish(values, results);
        self.define(made, body);
        self.module.witnesses.insert(
            pullback,
            ir::Witness { substitute: Some(made), is_same: true, ..ir::Witness::default() },
        );
        self.wholes.insert(made, of);
    }
}

type Functions = cranelift_entity::PrimaryMap<Func, Function>;

/// Whether a type holds residuals: those of a number, or any.
fn holds(types: &ir::Types, ty: Type, number: Option<u32>) -> bool {
    match types[ty] {
        TypeData::Residuals(n) => number.is_none_or(|number| n == number),
        TypeData::Array(t, _) | TypeData::Stack(t) | TypeData::Cell(t) => holds(types, t, number),
        TypeData::Scalar(_) | TypeData::Vector(..) | TypeData::Buffer(_) => false,
    }
}

/// Takes the residuals of one function apart.
struct Expansion<'a> {
    types: &'a mut ir::Types,
    number: u32,
    of: Func,
    /// `None` if that could not be made: nothing is kept, and results are zero.
    split: Option<&'a Split>,
}

/// The values that take the place of one.
type Parts = SecondaryMap<Value, Option<Vec<Value>>>;

impl Expansion<'_> {
    fn function(&mut self, function: &mut Function) {
        if !function.values.values().any(|v| holds(self.types, v.ty, Some(self.number))) {
            return;
        }
        let mut parts = Parts::new();
        for v in function.values.keys().collect::<Vec<_>>() {
            let data = function.values[v].clone();
            if holds(self.types, data.ty, Some(self.number)) {
                let made = self.parts(data.ty).into_iter().map(|ty| {
                    let part = ValueData { ty, name: data.name.clone(), ..ValueData::new(ty, false) };
                    function.values.push(part)
                });
                parts[v] = Some(made.collect());
                // nothing names it any more
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

    /// The types of the values in place of one of a type that holds the residuals.
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
            Op::CallApply(f) if f == self.of => {
                self.split.map(|split| Op::Call(split.apply)).or(Some(Op::Zero))
            }
            Op::CallPullback(f) if f == self.of => {
                self.split.map(|split| Op::Call(split.pullback)).or(Some(Op::Zero))
            }
            _ => None,
        };
        if let Some(Op::Zero) = called {
            let (results, span) = (flat(parts, &data.results), data.span);
            into.extend(results.into_iter().map(|v| function.insts.push(zero(v, span))));
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
        // what moves values about does it part by part
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

fn zero(v: Value, span: Span) -> InstData {
    let (args, regions): (SmallVec<[Value; 4]>, SmallVec<[Region; 2]>) = Default::default();
    InstData { op: Op::Zero, args, results: [v].into_iter().collect(), regions, span }
}
