//! Forward mode: `f ↦ f'`, with `f'(x, ẋ) = (f(x), ∂f(x)·ẋ)`.
//!
//! The structure of the program is preserved. Each instruction is followed by that of its tangent, by the
//! chain rule applied one op at a time. Where an active value crosses the border of a region, so does its
//! tangent: an arm yields it, a loop carries or stacks it. A cell with active content gets a tangent cell,
//! which is stored to and added to at the same indices and at the same times, so at every moment it holds the
//! tangent of the cell's content.
//!
//! The parameters of `f'` are those of `f`, then the tangents of the parameters that the mask selects; its
//! results are those of `f`, then the tangents of the active results. The function is declared before its
//! body is built, so recursion needs no special treatment in forward mode; for reverse mode see
//! [`crate::recursion`].
//!
//! Each value may have several tangents, in *layers*: see [`crate::second`]. All that moves values moves them alike.

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::analysis::Bounds;
use ir::{Builder, Defs, Func, Function, Inst, Op, Origin, Region, Slot, Type, Value};

use crate::activity::arg_mask;
use crate::copy::{Renaming, copy_inst, fresh, like, region_param_like};
use crate::engine::Engine;
use crate::lost::Lost;
use crate::rules;
use crate::second::{Layers, with_tangents};
use crate::shape::{Mask, Mode, Shape, params, select};
use crate::witness::{Source, makes_more_than_numbers, source};

/// How a call is compiled.
#[derive(Clone, Debug, Default)]
enum Plan {
    /// The call has no tangent and is copied.
    #[default]
    Primal,
    /// The call is replaced by a call of `func`: `(params…, tangents of mask…) -> (results…, tangents of
    /// active…)`. With `in_numbers`, the function is not linear, and takes and returns its tangents as
    /// numbers.
    Forward { func: Func, mask: Mask, active: Mask, in_numbers: bool },
    /// `primal` is called, and the linear part is the transpose of `vjp`. With a context, the primal also
    /// returns it, and `vjp` takes it in place of the parameters.
    Transposed { primal: Func, vjp: Func, context: Option<Vec<Type>>, mask: Mask, active: Mask },
}

impl Engine<'_> {
    /// Makes the forward derivative of a function; see the head of this file. Memoised.
    pub(crate) fn linearize(&mut self, func: Func, mask: &[bool], mode: Mode) -> Func {
        self.linearize_in(func, mask, mode, Layers::ONE)
    }

    /// Like [`Engine::linearize`], with several tangents for each value.
    pub(crate) fn linearize_in(&mut self, func: Func, mask: &[bool], mode: Mode, layers: Layers) -> Func {
        let src = &self.module.funcs[func];
        let mask: Mask = src.params.iter().zip(mask).map(|(slot, &named)| slot.diff && named).collect();
        let key = (func, mask.clone(), mode, layers);
        if let Some(&known) = self.made.linearized.get(&key) {
            return known;
        }
        if self.module.is_whole(func) {
            let of = self.module.funcs[func].origin.parent().unwrap_or(func);
            self.check_again(of, "the derivative of a pullback");
        }
        if mode == Mode::Reverse && self.facts.cycles.is_recursive(self.module, func) {
            // Recursive calls are reversed by the whole backward derivative, so it is made first.
            self.backward(func, self.module.funcs[func].span);
            if let Some(&known) = self.made.linearized.get(&key) {
                return known;
            }
        }
        let active_results = self.facts.activity.results(self.module, func, &mask, mode);
        let src = &self.module.funcs[func];
        let slots = with_tangents(&src.params, &mask, layers.given());
        let results = with_tangents(&src.results, &active_results, layers.count());
        let shape = Shape { params: src.params.len(), results: src.results.len() };
        let name = format!("{}_{}", src.name, if layers == Layers::ONE { "fwd" } else { "second" });
        let made = self.declare(name, Origin::Jvp(func), slots, results.clone());
        self.made.linearized.insert(key, made);
        // Second tangents are not linear in the first ones, so to all that follows such a function is like any other.
        if layers == Layers::ONE {
            self.roles.shapes.insert(made, shape);
        }
        if mode == Mode::Forward {
            self.roles.forward.insert(made, func);
        }

        let active = self.facts.activity.values(self.module, func, &mask, mode);
        let plans = self.plan_calls(func, made, &active, mode, layers);
        let module = &mut *self.module;
        let src = &module.funcs[func];
        let mut pass = Linearize {
            src,
            defs: Defs::of(src),
            bounds: None,
            b: Builder::new(&mut module.types, String::new()),
            active,
            plans,
            primal: Renaming::default(),
            tangents: vec![Renaming::default(); layers.count()],
            layer: 0,
            layers,
            derivative_calls: Vec::new(),
        };
        pass.params(&module.funcs[made].params, &mask);
        pass.region(src.body());
        let yielded = &src.regions[src.body()].results;
        let mut values = pass.primal.all(yielded);
        let yielded: Vec<Value> = select(yielded, &active_results).copied().collect();
        pass.push_tangents(&yielded, &mut values);
        let derivative_calls = std::mem::take(&mut pass.derivative_calls);
        let body = pass.b.finish(values, results);
        self.roles.derivative_calls.extend(derivative_calls.into_iter().map(|inst| (made, inst)));
        self.define(made, body);
        made
    }

    fn plan_calls(
        &mut self,
        func: Func,
        made: Func,
        active: &EntitySet<Value>,
        mode: Mode,
        layers: Layers,
    ) -> SecondaryMap<Inst, Plan> {
        let src = &self.module.funcs[func];
        let mut calls = Vec::new();
        src.walk(src.body(), &mut |inst| {
            let data = &src.insts[inst];
            if let Op::Call(callee) = data.op {
                calls.push((inst, callee, arg_mask(&self.module.funcs[callee], &data.args, active)));
            }
        });
        let mut plans = SecondaryMap::new();
        for (inst, callee, mask) in calls {
            let before = self.found.problems.len();
            if mask.contains(&true) && self.refuses(callee, self.module.funcs[func].insts[inst].span) {
                continue;
            }
            let active = self.facts.activity.call(self.module, callee, &mask, mode);
            let slots = &self.module.funcs[callee];
            plans[inst] = match source(self.module, callee, mode) {
                Source::Vjp(vjp)
                    if mask.contains(&true) || !self.facts.activity.only_computes(self.module, vjp) =>
                {
                    let mask = slots.params.iter().map(|s| s.diff).collect();
                    Plan::Transposed { primal: callee, vjp, context: None, mask, active }
                }
                Source::Applied { apply, vjp } => {
                    let given = &self.module.funcs[apply].results[slots.results.len()..];
                    let context = Some(given.iter().map(|s| s.ty).collect());
                    let mask = slots.params.iter().map(|s| s.diff).collect();
                    Plan::Transposed { primal: apply, vjp, context, mask, active }
                }
                Source::Jvp(jvp)
                    if layers != Layers::ONE
                        && (active.iter().any(|&a| a) || makes_more_than_numbers(slots)) =>
                {
                    let span = self.module.funcs[func].insts[inst].span;
                    match self.second_of_rule(callee, jvp, &mask, layers.of_callee(), span) {
                        Some(made) => Plan::Forward { func: made, mask, active, in_numbers: false },
                        // A problem has been reported.
                        None => Plan::Primal,
                    }
                }
                Source::Jvp(jvp) if active.iter().any(|&a| a) || makes_more_than_numbers(slots) => {
                    let mask: Mask = slots.params.iter().map(|s| s.diff).collect();
                    let shape = Shape { params: mask.len(), results: slots.results.len() };
                    self.roles.shapes.insert(jvp, shape);
                    let linear = match mode {
                        Mode::Forward => self.plain_rule(jvp, shape),
                        Mode::Reverse => Some(jvp),
                    };
                    let in_numbers = linear.is_none();
                    Plan::Forward { func: linear.unwrap_or(jvp), mask, active, in_numbers }
                }
                Source::Body(f)
                    if mode == Mode::Reverse && f == callee && self.is_run_again(func, callee) =>
                {
                    self.plan_again(callee)
                }
                Source::Body(f)
                    if active.iter().any(|&a| a)
                        || self.facts.activity.calls_custom(self.module, f, mode, mask.contains(&true)) =>
                {
                    let func = self.linearize_in(f, &mask, mode, layers.of_callee());
                    Plan::Forward { func, mask, active, in_numbers: false }
                }
                Source::Zero => {
                    let results = &self.module.funcs[callee].results;
                    let is_lost = mask.contains(&true) && results.iter().any(|s| s.diff);
                    if is_lost && self.module.witness(callee).vjp.is_some() {
                        self.found.lost.push(Lost { made, func, inst, callee });
                    }
                    Plan::Primal
                }
                Source::Body(_) | Source::Jvp(_) | Source::Vjp(_) => Plan::Primal,
            };
            self.report_at_call(before, self.module.funcs[func].insts[inst].span);
        }
        plans
    }

    /// Plans to copy the call and to use the whole backward derivative, which runs the callee once more, as
    /// its linear part.
    fn plan_again(&mut self, callee: Func) -> Plan {
        let span = self.module.funcs[callee].span;
        // A problem has been reported.
        let Some(vjp) = self.backward(callee, span) else { return Plan::Primal };
        let slots = &self.module.funcs[callee];
        let mask = slots.params.iter().map(|s| s.diff).collect();
        let active = slots.results.iter().map(|s| s.diff).collect();
        Plan::Transposed { primal: callee, vjp, context: None, mask, active }
    }
}

/// The pass over one function.
pub(crate) struct Linearize<'a> {
    pub(crate) src: &'a Function,
    pub(crate) defs: Defs,
    /// Computed when the first index is checked.
    pub(crate) bounds: Option<Bounds>,
    pub(crate) b: Builder<'a>,
    pub(crate) active: EntitySet<Value>,
    plans: SecondaryMap<Inst, Plan>,
    pub(crate) primal: Renaming,
    /// The tangents of source values in each layer, where they are not known to be zero.
    pub(crate) tangents: Vec<Renaming>,
    /// The layer that is being made.
    pub(crate) layer: usize,
    layers: Layers,
    derivative_calls: Vec<Inst>,
}

impl Linearize<'_> {
    fn params(&mut self, slots: &[Slot], mask: &[bool]) {
        let src = params(self.src);
        let (primal, tangents) = slots.split_at(src.len());
        for (&v, slot) in src.iter().zip(primal) {
            let param = self.b.param(slot.clone());
            self.primal.set(v, param);
        }
        let mut tangents = tangents.iter();
        for layer in 0..self.layers.given() {
            for (&v, slot) in select(src, mask).zip(tangents.by_ref()) {
                let param = self.b.param(slot.clone());
                self.tangents[layer].set(v, param);
            }
        }
        self.b.func.params = slots.to_vec();
    }

    /// The tangent of a source value in the current layer, if it is not known to be zero. A value that has one in
    /// any layer has one in the first.
    pub(crate) fn find(&self, v: Value) -> Option<Value> {
        self.tangents[self.layer].find(v)
    }

    pub(crate) fn set_tangent(&mut self, v: Value, tangent: Value) {
        self.tangents[self.layer].set(v, tangent);
    }

    /// The layer of second tangents.
    pub(crate) fn second_layer(&self) -> Option<usize> {
        (self.layers != Layers::ONE).then(|| self.tangents.len() - 1)
    }

    pub(crate) fn tangent_or_absent(&mut self, v: Value) -> Value {
        match self.find(v) {
            Some(tangent) => tangent,
            None => self.b.absent(self.src.ty(v)),
        }
    }

    /// Appends the tangents of source values, layer by layer.
    fn push_tangents(&mut self, of: &[Value], to: &mut Vec<Value>) {
        for layer in 0..self.tangents.len() {
            self.layer = layer;
            to.extend(of.iter().map(|&v| self.tangent_or_absent(v)).collect::<Vec<_>>());
        }
        self.layer = 0;
    }

    /// Marks `tangent` as a differential and names it after the value that it is the tangent of.
    pub(crate) fn name_tangent(&mut self, of: Value, tangent: Value) {
        self.b.func.values[tangent].differential = true;
        if let Some(name) = &self.src.values[of].name
            && self.b.func.values[tangent].name.is_none()
        {
            self.b.func.values[tangent].name = Some(format!("d_{name}").into());
        }
    }

    fn region(&mut self, region: Region) {
        let src = self.src;
        for &inst in &src.regions[region].insts {
            self.inst(inst);
        }
    }

    fn inst(&mut self, inst: Inst) {
        let src = self.src;
        let data = &src.insts[inst];
        self.b.span = data.span;
        match data.op {
            Op::If | Op::Switch(_) => self.branch(inst),
            Op::For(_) => self.repeat(inst, 1),
            Op::Loop(_) => self.repeat(inst, 0),
            Op::Call(_) => self.call(inst),
            _ => {
                copy_inst(&mut self.b, src, inst, &mut self.primal);
                let factor = rules::factor(self, data);
                let first = self.b.func.values.len();
                rules::tangent(self, data, factor);
                self.b.func.values.values_mut().skip(first).for_each(|v| v.differential = true);
            }
        }
    }

    fn copies(&mut self, sources: &[Value]) -> Vec<Value> {
        let copy = |&v: &Value| {
            let copy = like(&mut self.b, self.src, v);
            self.primal.set(v, copy);
            copy
        };
        sources.iter().map(copy).collect()
    }

    /// Defines the results of an instruction: copies of `sources`, then tangents of the active ones.
    fn define(&mut self, sources: &[Value], all: &mut Vec<Value>) {
        all.extend(self.copies(sources));
        let active: Vec<bool> = sources.iter().map(|&v| self.active.contains(v)).collect();
        all.extend(self.tangent_results(sources, &active));
    }

    /// The values of a list whose counterparts in another are active.
    fn paired(&self, values: &[Value], with: &[Value]) -> Vec<Value> {
        let pairs = values.iter().zip(with).filter(|(_, with)| self.active.contains(**with));
        pairs.map(|(&v, _)| v).collect()
    }

    fn branch(&mut self, inst: Inst) {
        let src = self.src;
        let data = &src.insts[inst];
        let args = self.primal.all(&data.args);
        let mut regions = Vec::new();
        for &arm in &data.regions {
            let region = self.b.open();
            self.region(arm);
            let yielded = &src.regions[arm].results;
            let mut results = self.primal.all(yielded);
            let active = self.paired(yielded, &data.results);
            self.push_tangents(&active, &mut results);
            self.b.close(results);
            regions.push(region);
        }
        let mut results = Vec::new();
        self.define(&data.results, &mut results);
        self.b.span = data.span;
        self.b.push(data.op.clone(), &args, &results, &regions);
    }

    /// Linearises a loop. The first `lead` operands and parameters are not carried: they are the count and
    /// the trip of a `for`. A `loop` has none, but its body's first result says whether to go on.
    fn repeat(&mut self, inst: Inst, lead: usize) {
        let src = self.src;
        let data = &src.insts[inst];
        let body = &src.regions[data.regions[0]];
        let n_carried = data.args.len() - lead;
        let carried = &body.params[lead..];

        let mut args = self.primal.all(&data.args);
        let inits = self.paired(&data.args[lead..], carried);
        self.push_tangents(&inits, &mut args);
        let region = self.b.open();
        for &param in &body.params {
            let copy = region_param_like(&mut self.b, src, param);
            self.primal.set(param, copy);
        }
        for layer in 0..self.tangents.len() {
            for param in self.paired(carried, carried) {
                let tangent = self.b.region_param(src.ty(param));
                self.name_tangent(param, tangent);
                self.tangents[layer].set(param, tangent);
            }
        }
        self.region(data.regions[0]);
        let (again, yielded) = body.results.split_at(1 - lead);
        let (next, stacked) = yielded.split_at(n_carried);
        let mut results = self.primal.all(again);
        results.extend(self.primal.all(next));
        let active = self.paired(next, carried);
        self.push_tangents(&active, &mut results);
        results.extend(self.primal.all(stacked));
        let active = self.paired(stacked, &data.results[n_carried..]);
        self.push_tangents(&active, &mut results);
        self.b.close(results);

        let mut results = Vec::new();
        self.define(&data.results[..n_carried], &mut results);
        self.define(&data.results[n_carried..], &mut results);
        self.b.span = data.span;
        self.b.push(data.op.clone(), &args, &results, &[region]);
    }

    fn call(&mut self, inst: Inst) {
        let src = self.src;
        let data = &src.insts[inst];
        match std::mem::take(&mut self.plans[inst]) {
            Plan::Primal => copy_inst(&mut self.b, src, inst, &mut self.primal),
            Plan::Forward { func, mask, active, in_numbers } => {
                let mut args = self.primal.all(&data.args);
                let n_numbers = args.len();
                let moving: Vec<Value> = select(&data.args, &mask).copied().collect();
                self.push_tangents(&moving, &mut args);
                for tangent in args[n_numbers..].iter_mut().filter(|_| in_numbers) {
                    *tangent = self.b.emit(Op::Present, &[*tangent]);
                }
                let mut results = self.copies(&data.results);
                results.extend(self.tangent_results(&data.results, &active));
                let call = self.b.push(Op::Call(func), &args, &results, &[]);
                if self.layers == Layers::ONE {
                    self.derivative_calls.push(call);
                }
                for &v in select(&data.results, &active).filter(|_| in_numbers) {
                    let number = self.tangents[0].at(v);
                    let tangent = self.b.emit(Op::Present, &[number]);
                    self.name_tangent(v, tangent);
                    self.set_tangent(v, tangent);
                }
            }
            Plan::Transposed { primal, vjp, context, mask, active } => {
                let args = self.primal.all(&data.args);
                let mut results = self.copies(&data.results);
                let context = context.map(|types| fresh(&mut self.b, types));
                results.extend(context.iter().flatten());
                let mut operands = context.unwrap_or_else(|| args.clone());
                self.b.push(Op::Call(primal), &args, &results, &[]);
                for &v in select(&data.args, &mask) {
                    operands.push(self.tangent_or_absent(v));
                }
                let results = self.tangent_results(&data.results, &active);
                self.b.push(Op::CallTransposeOf(vjp), &operands, &results, &[]);
            }
        }
    }

    fn tangent_results(&mut self, of: &[Value], active: &[bool]) -> Vec<Value> {
        let sources: Vec<Value> = select(of, active).copied().collect();
        let types: Vec<Type> = sources.iter().map(|&v| self.src.ty(v)).collect();
        let mut all = Vec::new();
        for layer in 0..self.tangents.len() {
            let tangents = fresh(&mut self.b, types.iter().copied());
            for (&v, &tangent) in sources.iter().zip(&tangents) {
                self.name_tangent(v, tangent);
                self.tangents[layer].set(v, tangent);
            }
            all.extend(tangents);
        }
        all
    }
}
