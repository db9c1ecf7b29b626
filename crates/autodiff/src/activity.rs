//! Activity analysis: the values that carry a tangent, which are those that depend on an active parameter
//! through differentiable ops.
//!
//! The analysis is a forward dataflow over the whole function ([`ir::analysis::flow`]). Only values of float types are ever
//! active. `detach`, conversions to integers, comparisons, host memory, and parameters or results that are
//! not `diff` cut the flow.
//!
//! A value outside the set has a tangent that is zero for every input, so leaving the tangent out changes
//! nothing.

use cranelift_entity::EntitySet;
use ir::analysis::flow::{Direction, Flow};
use ir::{Func, Function, Inst, Linearity, Module, Op, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::shape::{Mask, Mode};
use crate::witness::{Source, makes_more_than_numbers, source};

/// Memoised facts about functions.
#[derive(Default)]
pub(crate) struct Activity {
    /// The active results of a function, given its active parameters; `None` while they are being computed.
    results: FxHashMap<(Func, Mask, Mode), Option<Mask>>,
    /// Memoised results of [`Activity::calls_custom`].
    calls_custom: FxHashMap<(Func, Mode, bool), bool>,
    /// Memoised results of [`Activity::only_computes`].
    only_computes: FxHashMap<Func, bool>,
    /// Custom forward derivatives whose tangents may be nonzero even if those of their operands are zero.
    pub(crate) affine: FxHashSet<Func>,
}

/// The mask of the parameters of `callee` whose arguments are active.
pub(crate) fn arg_mask(callee: &Function, args: &[Value], active: &EntitySet<Value>) -> Mask {
    callee.params.iter().zip(args).map(|(slot, &v)| slot.diff && active.contains(v)).collect()
}

impl Activity {
    /// The active values of `func`, given its active parameters.
    pub(crate) fn values(
        &mut self,
        module: &Module,
        func: Func,
        mask: &[bool],
        mode: Mode,
    ) -> EntitySet<Value> {
        let src = &module.funcs[func];
        let params = crate::shape::params(src).iter().zip(&src.params).zip(mask);
        let active = params.filter(|((_, slot), named)| **named && slot.diff).map(|((&v, _), _)| v);
        let active: Vec<Value> = active.collect();
        self.values_from(module, func, &active, mode)
    }

    /// The values of `func` that carry a tangent if these do.
    pub(crate) fn values_from(
        &mut self,
        module: &Module,
        func: Func,
        from: &[Value],
        mode: Mode,
    ) -> EntitySet<Value> {
        let src = &module.funcs[func];
        let is_differentiable = |v: Value| module.types.is_differentiable(src.ty(v));
        let mut flow = Flow::new(src, &is_differentiable);
        from.iter().for_each(|&v| flow.join(v, &true));
        let mut transfer = Transfer { activity: self, module, src, mode };
        flow.settle(Direction::Forward, &mut |flow, inst| transfer.inst(flow, inst));
        let facts = flow.into_facts();
        let mut active = EntitySet::with_capacity(src.values.len());
        active.extend(src.values.keys().filter(|&v| facts[v]));
        active
    }

    /// The active results of the body of `func`. While they are being computed, as in recursion: all `diff`
    /// results.
    pub(crate) fn results(&mut self, module: &Module, func: Func, mask: &[bool], mode: Mode) -> Mask {
        let src = &module.funcs[func];
        let key = (func, Mask::from(mask), mode);
        match self.results.get(&key) {
            Some(Some(known)) => return known.clone(),
            Some(None) => return src.results.iter().map(|slot| slot.diff).collect(),
            None => self.results.insert(key.clone(), None),
        };
        let active = self.values(module, func, mask, mode);
        let yielded = &src.regions[src.body()].results;
        let mask: Mask =
            yielded.iter().zip(&src.results).map(|(&v, s)| s.diff && active.contains(v)).collect();
        self.results.insert(key, Some(mask.clone()));
        mask
    }

    /// The active results of a call.
    pub(crate) fn call(&mut self, module: &Module, callee: Func, mask: &[bool], mode: Mode) -> Mask {
        let slots = &module.funcs[callee].results;
        let any = mask.iter().any(|&m| m);
        match source(module, callee, mode) {
            // What its body tells is not to be relied on.
            _ if any && module.witness(callee).last => slots.iter().map(|s| s.diff).collect(),
            Source::Jvp(jvp)
                if any || self.is_source(jvp, mode) || makes_more_than_numbers(&module.funcs[callee]) =>
            {
                slots.iter().map(|s| s.diff).collect()
            }
            Source::Vjp(vjp) if !any && self.only_computes(module, vjp) => {
                slots.iter().map(|_| false).collect()
            }
            Source::Vjp(_) | Source::Applied { .. } => slots.iter().map(|s| s.diff).collect(),
            Source::Body(f) if any || self.calls_custom(module, f, mode, any) => {
                self.results(module, f, mask, mode)
            }
            Source::Jvp(_) | Source::Zero | Source::Body(_) => slots.iter().map(|_| false).collect(),
        }
    }

    /// Returns true if a custom forward derivative yields tangents even if its operands have none.
    pub(crate) fn is_source(&self, jvp: Func, mode: Mode) -> bool {
        mode == Mode::Forward && self.affine.contains(&jvp)
    }

    /// Returns true if all that a custom backward derivative does is to compute its results, which nobody needs
    /// if the operands of the function have no tangents. Waiting for the other lanes of a wave serves that
    /// computation, and so does an assertion.
    pub(crate) fn only_computes(&mut self, module: &Module, vjp: Func) -> bool {
        if let Some(&known) = self.only_computes.get(&vjp) {
            return known;
        }
        // A function that calls itself may run forever.
        self.only_computes.insert(vjp, false);
        let src = &module.funcs[vjp];
        let mut callees = Vec::new();
        let mut has_effects = !src.has_body();
        if src.has_body() {
            src.walk(src.body(), &mut |inst| match src.insts[inst].op {
                Op::Call(callee) => callees.push(callee),
                Op::BufferStore(_)
                | Op::Atomic(..)
                | Op::Barrier
                | Op::Printf(_)
                | Op::Clock
                | Op::CallDerivative(..)
                | Op::CallTransposeOf(_) => has_effects = true,
                _ => (),
            });
        }
        let found = !has_effects && callees.into_iter().all(|callee| self.only_computes(module, callee));
        self.only_computes.insert(vjp, found);
        found
    }

    /// Returns true if a function reaches a custom derivative that must be called, or examined, even if no
    /// active value reaches it: backward derivatives run for their effects, if they have any (and where `any`
    /// operand of the function is active, for the cotangents that they may have of their own), and forward ones may
    /// add tangents of values that are not parameters.
    pub(crate) fn calls_custom(&mut self, module: &Module, func: Func, mode: Mode, any: bool) -> bool {
        if let Some(&known) = self.calls_custom.get(&(func, mode, any)) {
            return known;
        }
        self.calls_custom.insert((func, mode, any), false);
        let src = &module.funcs[func];
        let mut callees = Vec::new();
        if src.has_body() {
            src.walk(src.body(), &mut |inst| callees.extend(src.insts[inst].op.callee()));
        }
        let found = callees.into_iter().any(|callee| match source(module, callee, mode) {
            Source::Vjp(vjp) => any || !self.only_computes(module, vjp),
            Source::Applied { .. } => true,
            Source::Body(f) => self.calls_custom(module, f, mode, any),
            Source::Jvp(jvp) => self.is_source(jvp, mode) || makes_more_than_numbers(&module.funcs[callee]),
            // In forward mode such a call loses its tangent, and `linearize` records a warning at the call.
            Source::Zero => mode == Mode::Forward && module.witness(callee).vjp.is_some(),
        });
        self.calls_custom.insert((func, mode, any), found);
        found
    }
}

/// How facts pass the instructions of one function.
struct Transfer<'a> {
    activity: &'a mut Activity,
    module: &'a Module,
    src: &'a Function,
    mode: Mode,
}

impl Transfer<'_> {
    fn inst(&mut self, flow: &mut Flow<bool>, inst: Inst) {
        let data = &self.src.insts[inst];
        match &data.op {
            Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::Rem
            | Op::Neg
            | Op::Scale
            | Op::Unscale
            | Op::Present
            | Op::Convert
            | Op::Construct
            | Op::Splat
            | Op::Extract(_)
            | Op::Insert(_)
            | Op::Index
            | Op::Sum
            | Op::Select
            | Op::Local
            | Op::Load => {
                flow.copy_all(&data.args, data.results[0]);
            }
            Op::Mask => flow.copy(data.args[1], data.results[0]),
            Op::Store | Op::AddTo => flow.copy(data.args[data.args.len() - 1], data.args[0]),
            Op::SubCell => {
                flow.copy(data.args[0], data.results[0]);
                flow.copy(data.results[0], data.args[0]);
            }
            // Control passes values on by itself.
            Op::If | Op::Switch(_) | Op::For(_) | Op::Loop(_) => (),
            Op::Call(callee) => {
                let slots = self.module.funcs[*callee].params.iter().zip(&data.args);
                let mask: Mask = slots.map(|(slot, &v)| slot.diff && *flow.get(v)).collect();
                let results = self.activity.call(self.module, *callee, &mask, self.mode);
                data.results.iter().zip(&results).for_each(|(&v, active)| flow.join(v, active));
            }
            // Resolved before any function that contains them is differentiated.
            Op::CallDerivative(..) | Op::CallTransposeOf(_) => (),
            op => debug_assert!(matches!(op.linearity(), Linearity::Never | Linearity::Source)),
        }
    }
}
