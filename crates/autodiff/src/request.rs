//! Replaces requests, `call_fwd f` and `call_bwd f`, by calls of derivatives that the passes make.
//!
//! Functions are resolved callees first, so a function that is differentiated contains only plain calls,
//! including those of derivatives: nothing else is needed for derivatives to nest. Forward mode is
//! `linearize`; reverse mode is `x̄ = transpose(linear)(r, ȳ)` where `(y, r) = primal(x)`.

use cranelift_entity::EntitySet;
use ir::analysis::reach;
use ir::walk::callees;
use ir::{
    Defs, DerivativeOp, Func, Function, Inst, Module, Op, Origin, Slot, Span, Value, ValueData, Witness,
};
use rustc_hash::FxHashMap;

use crate::Stages;
use crate::copy::fresh;
use crate::engine::Engine;
use crate::propagate::forget;
use crate::results::{Halves, Step, Steps};
use crate::second::Layers;
use crate::shape::{Mask, Mode, Shape, select, tangent_slot};
use crate::variant::transposed_variant;
use crate::witness::{Source, source};

/// A forward derivative to be transposed, with the shape of its tangents.
pub(crate) struct Linearized {
    pub(crate) func: Func,
    pub(crate) n_params: usize,
    pub(crate) active_results: Mask,
}

impl Engine<'_> {
    /// Resolves every function of the module, then empties generated functions that are no longer needed.
    pub(crate) fn resolve_module(&mut self) {
        self.keep_budgets();
        let before = self.module.funcs.len();
        let all: Vec<Func> = self.module.funcs.keys().collect();
        self.split_pullbacks();
        for &func in &all {
            self.resolve(func);
        }
        self.check_rules();
        self.check_lost(&all);
        self.check_memory(&all);
        if self.options.report_steps {
            self.found.steps = Some(self.steps());
        }
        self.sweep(&all, before);
    }

    /// The results of all steps so far.
    fn steps(&mut self) -> Steps {
        let mut steps = Vec::new();
        for ((of, mask, mode, layers), &jvp) in &self.made.linearized {
            if *layers != Layers::ONE {
                continue;
            }
            let results = self.facts.activity.results(self.module, *of, mask, *mode).to_vec();
            steps.push((jvp, Step::Linearized { of: *of, jvp, params: mask.to_vec(), results }));
        }
        for (&of, halves) in &self.made.unzipped {
            if let Some(halves) = halves.clone() {
                steps.push((halves.linear, Step::Unzipped { of, halves }));
            }
        }
        for (&linear, &transposed) in &self.made.transposed {
            steps.push((transposed, Step::Transposed { linear, transposed }));
        }
        steps.sort_by_key(|step| step.0);
        Steps { module: self.module.clone(), steps: steps.into_iter().map(|step| step.1).collect() }
    }

    /// Resolves one function, makes a function from it, and sweeps.
    pub(crate) fn resolve_and(
        &mut self,
        func: Func,
        make: impl FnOnce(&mut Self) -> Option<Func>,
    ) -> Option<Func> {
        self.keep_budgets();
        let before = self.module.funcs.len();
        let all: Vec<Func> = self.module.funcs.keys().collect();
        self.split_pullbacks();
        self.resolve(func);
        let made = make(self).filter(|_| self.found.problems.is_empty());
        let roots: Vec<Func> = all.into_iter().chain(made).collect();
        self.sweep(&roots, before);
        made
    }

    /// Empties the functions from index `first` on that the roots do not reach.
    fn sweep(&mut self, roots: &[Func], first: usize) {
        let mut reached = self.reachable(roots);
        // The substitute of a pullback is needed when a caller of the pullback is differentiated later, as is the variant that
        // a function is the transpose of.
        let of_pullbacks: Vec<Func> = (self.module.witnesses.iter())
            .filter(|(f, _)| f.as_u32() as usize >= first && reached.contains(**f))
            .filter_map(|(_, witness)| witness.substitute)
            .chain(reached.iter().filter_map(|f| transposed_variant(self.module, f)))
            .collect();
        reached.extend(self.reachable(&of_pullbacks).iter());
        let swept: Vec<Func> =
            self.module.funcs.keys().skip(first).filter(|f| !reached.contains(*f)).collect();
        for func in swept {
            let swept = std::mem::take(&mut self.module.funcs[func]);
            // The functions that were made of it keep their chain of origins.
            let (name, origin) = (swept.name, swept.origin);
            self.module.funcs[func] = Function { name, origin, ..Function::default() };
            self.module.witnesses.swap_remove(&func);
        }
    }

    pub(crate) fn reachable(&self, roots: &[Func]) -> EntitySet<Func> {
        self.reachable_but(roots, &EntitySet::new())
    }

    /// The functions that the roots reach without going through the functions in `without`.
    fn reachable_but(&self, roots: &[Func], without: &EntitySet<Func>) -> EntitySet<Func> {
        let others = |all: Vec<Func>| all.into_iter().filter(move |&func| !without.contains(func));
        reach(others(roots.to_vec()), |func| others(callees(&self.module.funcs[func])))
    }

    pub(crate) fn resolve(&mut self, func: Func) {
        if !self.module.funcs[func].has_body() || !self.resolved.insert(func) {
            return;
        }
        self.segment(func);
        let mut first: Vec<Func> = Vec::new();
        let mut requests: Vec<(Inst, DerivativeOp, Func, Span)> = Vec::new();
        let mut traced: Vec<(Inst, Func, Span)> = Vec::new();
        let src = &self.module.funcs[func];
        src.walk(src.body(), &mut |inst| {
            let data = &src.insts[inst];
            first.extend(data.op.callee());
            match data.op {
                Op::CallDerivative(DerivativeOp::Decisions, f) => traced.push((inst, f, data.span)),
                Op::CallDerivative(
                    op @ (DerivativeOp::Fwd | DerivativeOp::Bwd | DerivativeOp::Second),
                    f,
                ) => requests.push((inst, op, f, data.span)),
                _ => (),
            }
        });
        for callee in first {
            self.resolve(callee);
            self.resolve_witnesses(callee);
        }
        self.resolve_witnesses(func);
        let mut failed = Vec::new();
        let mut calls: Vec<(Inst, Shape, bool)> = Vec::new();
        let reruns = self.module.funcs[func].reruns;
        let never_run = self.never_run.contains(func);
        for (inst, op, callee, span) in requests {
            let mode = if op.is_forward() { Mode::Forward } else { Mode::Reverse };
            if reruns {
                self.check_twice(callee);
            }
            if never_run && mode == Mode::Reverse && self.check_backward(callee, span) {
                failed.push(inst);
                continue;
            }
            let before = self.found.problems.len();
            let made = match op {
                _ if self.refuses(callee, span) => None,
                DerivativeOp::Second => self.requested_second(func, inst, callee, span),
                _ if op.is_forward() => self.forward(callee, span),
                _ => self.backward(callee, span),
            };
            self.report_at_call(before, span);
            let Some(made) = made else {
                failed.push(inst);
                continue;
            };
            let differentiated = self.stand_in(callee, mode);
            let witness = self.module.witness(differentiated);
            let slots = &self.module.funcs[callee];
            let (by_hand, results) = match mode {
                Mode::Forward => (witness.jvp, slots.results.len()),
                Mode::Reverse => (witness.vjp, 0),
            };
            calls.push((inst, Shape { params: slots.params.len(), results }, by_hand == Some(made)));
            self.module.funcs[func].insts[inst].op = Op::Call(made);
        }
        for (inst, of, span) in traced {
            match self.decisions(of, span) {
                Some(made) => self.module.funcs[func].insts[inst].op = Op::Call(made),
                None => failed.push(inst),
            }
        }
        if !failed.is_empty() {
            self.zero_results(func, &failed);
        }
        self.enter_differentials(func, &calls);
    }

    /// Converts the program's numbers to differentials at calls of derivatives, and the results back to
    /// numbers. The shapes give the number of operands and results that precede the differentials. A
    /// user-written derivative takes and returns numbers.
    fn enter_differentials(&mut self, func: Func, calls: &[(Inst, Shape, bool)]) {
        if calls.is_empty() {
            return;
        }
        let types = &self.module.types;
        let dst = &mut self.module.funcs[func];
        let defs = Defs::of(dst);
        dst.rebuild(|dst, inst, out| {
            let Some(&(_, shape, by_hand)) = calls.iter().find(|call| call.0 == inst) else {
                return out.push(inst);
            };
            let span = dst.insts[inst].span;
            for k in shape.params..dst.insts[inst].args.len() {
                let given = dst.insts[inst].args[k];
                let as_number = by_hand == has_absent(dst, &defs, given);
                if as_number && types.is_differentiable(dst.ty(given)) {
                    let data = ValueData::new(dst.ty(given));
                    let (present, number) = dst.make_value(Op::Present, &[given], data, span);
                    out.push(present);
                    dst.insts[inst].args[k] = number;
                }
            }
            out.push(inst);
            for k in shape.results..dst.insts[inst].results.len() {
                if by_hand {
                    break;
                }
                let number = dst.insts[inst].results[k];
                let made = dst.value_like(number);
                dst.insts[inst].results[k] = made;
                out.push(dst.make(Op::Present, &[made], &[number], span));
            }
        });
    }

    pub(crate) fn resolve_witnesses(&mut self, func: Func) {
        let witness = self.module.witness(func);
        for custom in [witness.jvp, witness.vjp, witness.apply, witness.substitute].into_iter().flatten() {
            self.resolve(custom);
        }
        if self.options.mark_custom {
            self.mark_custom(func);
        }
        if let Some(jvp) = witness.jvp {
            let src = &self.module.funcs[func];
            let shape = Shape { params: src.params.len(), results: src.results.len() };
            self.note_if_affine(jvp, shape);
        }
    }

    /// Replaces instructions by zeros for their results, so that the module stays well-formed.
    fn zero_results(&mut self, func: Func, insts: &[Inst]) {
        self.module.funcs[func].rebuild(|dst, inst, out| {
            if !insts.contains(&inst) {
                return out.push(inst);
            }
            let span = dst.insts[inst].span;
            for v in std::mem::take(&mut dst.insts[inst].results) {
                out.push(dst.make(Op::Zero, &[], &[v], span));
            }
        });
    }

    /// Returns true if `func` may be differentiated now: no request is left in it or in its callees. A
    /// request that is left belongs to a function that is waiting for this derivative.
    pub(crate) fn is_ready(&mut self, func: Func, span: Span) -> bool {
        if self.n_made > self.most_made {
            if !self.found.problems.iter().any(|p| p.code == "E0916") {
                let message = format!(
                    "the derivatives up to that of '{}' take more than {} operations",
                    self.user_name(func),
                    self.most_made
                );
                self.problem(span, "E0916", message);
            }
            return false;
        }
        let (module, known) = (&*self.module, &self.facts.without_requests);
        let visited = reach([func], |at| {
            callees(&module.funcs[at]).into_iter().filter(move |&callee| !known.contains(callee))
        });
        let has_request = |at: Func| module.funcs[at].contains(|op| matches!(op, Op::CallDerivative(..)));
        if visited.iter().any(has_request) {
            let name = self.user_name(func);
            let message = format!("'{name}' needs a derivative of itself, of ever higher order");
            self.problem(span, "E0911", message);
            return false;
        }
        self.facts.without_requests.extend(visited.iter());
        self.derive_transposes(visited.iter());
        true
    }

    /// Makes `(params…, tangents of diff params…) -> (results…, tangents of diff results…)`.
    pub(crate) fn forward(&mut self, func: Func, span: Span) -> Option<Func> {
        let func = self.stand_in(func, Mode::Forward);
        if !self.is_ready(func, span) {
            return None;
        }
        if let Some(&known) = self.made.forwards.get(&func) {
            return known;
        }
        let made = match self.forward_source(func) {
            Source::Jvp(jvp) => {
                let slots = &self.module.funcs[func];
                let shape = Shape { params: slots.params.len(), results: slots.results.len() };
                Some(self.plain_rule(jvp, shape).unwrap_or(jvp))
            }
            Source::Vjp(_) | Source::Applied { .. } | Source::Zero => Some(self.forward_wrapper(func, None)),
            Source::Body(body) => {
                let n_problems = self.found.problems.len();
                let mask: Mask = self.module.funcs[body].params.iter().map(|s| s.diff).collect();
                let made = self.linearize(body, &mask, Mode::Forward);
                let active = self.facts.activity.results(self.module, body, &mask, Mode::Forward);
                let slots = &self.module.funcs[func].results;
                let is_whole = slots.iter().zip(&active).all(|(slot, &active)| slot.diff == active);
                let made = if is_whole { made } else { self.forward_wrapper(func, Some((made, active))) };
                (self.found.problems.len() == n_problems).then_some(made)
            }
        };
        self.made.forwards.insert(func, made);
        made
    }

    /// The source of a requested forward derivative. A function with only a vjp is then differentiated by its
    /// body.
    pub(crate) fn forward_source(&self, func: Func) -> Source {
        let witness = self.module.witness(func);
        let own = witness.jvp.is_none() && witness.substitute.is_none() && !witness.treat_as_differentiable;
        match source(self.module, func, Mode::Forward) {
            Source::Zero if own && self.module.funcs[func].has_body() => Source::Body(func),
            other => other,
        }
    }

    /// Makes a wrapper that calls the primal, or a derivative with tangents of some results, and returns
    /// zeros for the rest.
    fn forward_wrapper(&mut self, func: Func, derivative: Option<(Func, Mask)>) -> Func {
        let src = &self.module.funcs[func];
        let mut params = src.params.clone();
        params.extend(src.params.iter().filter(|s| s.diff).map(tangent_slot));
        let mut results = src.results.clone();
        results.extend(src.results.iter().filter(|s| s.diff).map(tangent_slot));
        let made = self.declare(format!("{}_fwd", src.name), Origin::Jvp(func), params, results);
        self.wrap(made, |b, funcs, args| {
            let src = &funcs[func];
            let (callee, args, active) = match derivative {
                Some((callee, active)) => (callee, args, active),
                None => (func, &args[..src.params.len()], src.results.iter().map(|_| false).collect()),
            };
            let mut types: Vec<ir::Type> = src.results.iter().map(|s| s.ty).collect();
            types.extend(select(&src.results, &active).map(|s| s.ty));
            let called = fresh(b, types);
            b.push(Op::Call(callee), args, &called, &[]);
            let (values, tangents) = called.split_at(src.results.len());
            let (mut values, mut tangents) = (values.to_vec(), tangents.iter());
            for (slot, &active) in src.results.iter().zip(&active).filter(|(slot, _)| slot.diff) {
                let tangent = if active { tangents.next().copied() } else { None };
                values.push(tangent.unwrap_or_else(|| b.absent(slot.ty)));
            }
            values
        })
    }

    /// Makes `(params…, cotangents of diff results…) -> (cotangents of diff params…)`.
    pub(crate) fn backward(&mut self, func: Func, span: Span) -> Option<Func> {
        let func = self.stand_in(func, Mode::Reverse);
        if !self.is_ready(func, span) {
            return None;
        }
        if let Some(&known) = self.made.backwards.get(&func) {
            return known;
        }
        let made = match source(self.module, func, Mode::Reverse) {
            Source::Vjp(vjp) => Some(vjp),
            Source::Applied { apply, vjp } => Some(self.applied_wrapper(func, apply, vjp)),
            Source::Zero => {
                let declared = self.declare_backward(func);
                Some(self.backward_wrapper(func, declared, None))
            }
            Source::Jvp(_) | Source::Body(_) => self.reverse(func),
        };
        self.made.backwards.insert(func, made);
        made
    }

    /// Runs the passes of reverse mode that may report a problem: all up to the marks. Returns false if the
    /// derivative itself is needed for that.
    fn check_backward(&mut self, func: Func, span: Span) -> bool {
        let func = self.stand_in(func, Mode::Reverse);
        let by_hand = !matches!(source(self.module, func, Mode::Reverse), Source::Jvp(_) | Source::Body(_));
        if by_hand || self.facts.cycles.is_recursive(self.module, func) {
            return false;
        }
        if self.is_ready(func, span)
            && let Some(linearized) = self.linearized_for_transpose(func)
        {
            self.mark_tangents(&linearized);
        }
        true
    }

    fn linearized_for_transpose(&mut self, func: Func) -> Option<Linearized> {
        let mask: Mask = self.module.funcs[func].params.iter().map(|s| s.diff).collect();
        match source(self.module, func, Mode::Reverse) {
            Source::Jvp(jvp) => {
                let results = &self.module.funcs[func].results;
                let shape = Shape { params: mask.len(), results: results.len() };
                let active_results = results.iter().map(|s| s.diff).collect();
                self.roles.shapes.insert(jvp, shape);
                Some(Linearized { func: jvp, n_params: mask.len(), active_results })
            }
            Source::Body(body) => {
                let made = self.linearize(body, &mask, Mode::Reverse);
                let active_results = self.facts.activity.results(self.module, body, &mask, Mode::Reverse);
                Some(Linearized { func: made, n_params: mask.len(), active_results })
            }
            Source::Vjp(_) | Source::Applied { .. } | Source::Zero => None,
        }
    }

    pub(crate) fn mark_tangents(&mut self, linearized: &Linearized) -> Option<Func> {
        let n = self.module.funcs[linearized.func].params.len();
        let tangents: Mask = (0..n).map(|k| k >= linearized.n_params).collect();
        self.propagate(linearized.func, &tangents)
    }

    fn reverse(&mut self, func: Func) -> Option<Func> {
        let n_problems = self.found.problems.len();
        let declared = self.declare_backward(func);
        if self.facts.cycles.is_recursive(self.module, func) {
            if let Some(once) = self.runs_once(func) {
                let (code, message) = match self.is_segment(func) {
                    true => ("E0914", format!("a loop with [CheckpointStates] {}", once.in_reverse())),
                    false => (
                        "E0913",
                        format!("'{}' is recursive and {}", self.user_name(func), once.in_reverse()),
                    ),
                };
                self.problem(once.span, code, message);
                return None;
            }
            self.made.backwards.insert(func, Some(declared));
        }
        let linearized = self.linearized_for_transpose(func)?;
        let marked = self.mark_tangents(&linearized)?;
        let unzipped = self.unzip(marked)?;
        let transposed = self.transpose(unzipped.linear);
        let active = linearized.active_results;
        let halves = Halves { primal: unzipped.primal, residuals: unzipped.residuals, transposed, active };
        let made = self.backward_wrapper(func, declared, Some(&halves));
        self.made.halves.insert(func, halves);
        self.forget_marks(made);
        (self.found.problems.len() == n_problems).then_some(made)
    }

    /// Removes the marks of a function and of all functions it reaches, once for each. Functions that reach
    /// one without a body yet are visited again later, as that body may have marks.
    pub(crate) fn forget_marks(&mut self, made: Func) {
        let reached: Vec<Func> = self.reachable_but(&[made], &self.facts.plain).iter().collect();
        let is_whole = |f: &Func| self.module.funcs[*f].has_body() || !self.is_generated(*f);
        let all_whole = reached.iter().all(is_whole);
        for &func in &reached {
            forget(&mut self.module.funcs[func]);
        }
        if all_whole {
            self.facts.plain.extend(reached);
        }
    }

    /// Makes a wrapper that calls the custom primal, and the vjp with its context.
    fn applied_wrapper(&mut self, func: Func, apply: Func, vjp: Func) -> Func {
        let made = self.declare_backward(func);
        self.wrap(made, |b, funcs, args| {
            let (args, cotangents) = args.split_at(funcs[func].params.len());
            let called = b.call_func(apply, &funcs[apply].results, args);
            let context = &called[funcs[func].results.len()..];
            b.call_func(vjp, &funcs[vjp].results, &[context, cotangents].concat())
        })
    }

    /// Declares a function with the signature of `call_bwd`.
    pub(crate) fn declare_backward(&mut self, func: Func) -> Func {
        let src = &self.module.funcs[func];
        let mut params = src.params.clone();
        params.extend(src.results.iter().filter(|s| s.diff).map(tangent_slot));
        let results: Vec<Slot> = src.params.iter().filter(|s| s.diff).map(tangent_slot).collect();
        self.declare(format!("{}_bwd", src.name), Origin::Pullback(func), params, results)
    }

    /// Makes a wrapper that calls the primal half, then the transposed one; or only the primal function, with
    /// zero cotangents.
    fn backward_wrapper(&mut self, func: Func, made: Func, halves: Option<&Halves>) -> Func {
        self.wrap(made, |b, funcs, args| {
            let (src, results) = (&funcs[func], funcs[made].results.iter());
            let (args, cotangents) = args.split_at(src.params.len());
            let primal = halves.map_or(func, |halves| halves.primal);
            let called = b.call_func(primal, &funcs[primal].results, args);
            let Some(Halves { residuals, transposed, active, .. }) = halves else {
                return results.map(|slot| b.absent(slot.ty)).collect();
            };
            let mut operands: Vec<Value> = residuals.iter().map(|r| r.of(args, &called)).collect();
            let diff = src.results.iter().zip(active.iter()).filter(|(slot, _)| slot.diff);
            operands.extend(diff.zip(cotangents).filter(|((_, active), _)| **active).map(|(_, &v)| v));
            let values = fresh(b, results.map(|s| s.ty));
            b.push(Op::Call(*transposed), &operands, &values, &[]);
            values
        })
    }

    /// See [`crate::stages`].
    pub(crate) fn stages(&mut self, func: Func) -> Option<Stages> {
        self.split_pullbacks();
        self.resolve(func);
        self.resolve_witnesses(func);
        let func = self.stand_in(func, Mode::Reverse);
        self.derive_transposes_in(func);
        let linearized = self.linearized_for_transpose(func)?;
        let propagated = self.mark_tangents(&linearized)?;
        let unzipped = self.unzip(propagated)?;
        let transposed = self.transpose(unzipped.linear);
        // Copies keep their marks.
        let has_marks = |src: &Function| src.params.iter().chain(&src.results).any(|slot| slot.linear);
        let shown =
            self.copy_with_callees(transposed, "shown", &mut FxHashMap::default(), &has_marks, &|_| ());
        let backward = self.backward(func, Span::NONE)?;
        Some(Stages {
            linearized: linearized.func,
            propagated,
            primal: unzipped.primal,
            linear: unzipped.linear,
            transposed: shown,
            residuals: unzipped.residuals,
            backward,
        })
    }
}

/// The functions that neither an entry point nor anything that is differentiated reaches.
pub(crate) fn never_run(module: &Module) -> EntitySet<Func> {
    let mut roots: Vec<Func> = module.entries.iter().map(|entry| entry.func).collect();
    roots.extend(module.globals.values().filter_map(|global| global.init));
    roots.extend(module.residuals.iter().map(|residuals| residuals.func));
    let parts = |w: &Witness| [w.jvp, w.vjp, w.apply, w.substitute].into_iter().flatten();
    roots.extend(module.witnesses.values().flat_map(parts));
    for func in module.funcs.values() {
        let requests = func.insts.values().filter(|data| !matches!(data.op, Op::Call(_)));
        roots.extend(requests.filter_map(|data| data.op.callee()));
    }
    let reached = reach(roots, |func| callees(&module.funcs[func]));
    let mut found = EntitySet::new();
    found.extend(module.funcs.keys().filter(|f| !reached.contains(*f)));
    found
}

/// Returns true if a value is absent, or has parts that are.
fn has_absent(func: &Function, defs: &Defs, v: Value) -> bool {
    if func.values[v].differential {
        return true;
    }
    let Some(inst) = defs.inst(v) else { return false };
    let data = &func.insts[inst];
    match data.op {
        Op::Absent => true,
        Op::Splat | Op::Construct => data.args.iter().any(|&part| has_absent(func, defs, part)),
        _ => false,
    }
}
