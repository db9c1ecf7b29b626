//! Derivative operators: `fwd_diff(f)` and `bwd_diff(f)` as functions with the operators' signatures.
//!
//! Their bodies split pairs, apply [`DerivativeOp::Fwd`] or [`DerivativeOp::Bwd`] to the flat leaves, and make pairs
//! again. As they are functions, they can be operands of further operators. The only convention is the order
//! of a function's leaves: see [`FlatSig`](crate::functions::FlatSig).

use std::rc::Rc;

use check::tables::Callable;
use check::types::Ty;
use check::{Direction, ModuleId};
use ir::{DerivativeOp, Function, Op, Residuals, Slot, Type, TypeData, Types, Value};

use crate::body::Body;
use crate::functions::{Declared, FlatParam, FlatSig, Key};
use crate::leaves::DiffMap;
use crate::{Lowerer, Step};
use check::signature::Subst;

impl Body<'_, '_, '_> {
    /// Binds the function's parameters; an empty list for each `out` parameter.
    pub(crate) fn bind_params(&mut self, declared: &Declared) -> Vec<Vec<Value>> {
        let slots = declared.params.clone();
        let mut slots = slots.into_iter();
        let mut bound = Vec::new();
        for param in &declared.sig.params {
            let n = if param.is_input() { self.layout(param.ty).leaves.len() } else { 0 };
            bound.push(slots.by_ref().take(n).map(|slot| self.b.param(slot)).collect());
        }
        bound
    }

    /// Reports a pointer inside a differentiable value: once the value is split, its gradients would be lost.
    fn refuse_pointers_in(&mut self, param: &FlatParam) {
        if param.diff.is_none() {
            return;
        }
        if let Some(field) = self.lw.pointer_within(self.b.types, param.ty, 0) {
            let diagnostic = self.lw.program.pointer_in_value(field);
            if !self.lw.diagnostics.iter().any(|d| d.primary.span == diagnostic.primary.span) {
                self.lw.diagnostics.push(diagnostic);
            }
        }
    }

    /// Distributes tangents (one for each leaf that has one) to the leaves of a differential; the other
    /// leaves are copied from the primal or zero.
    pub(crate) fn spread(&mut self, map: &DiffMap, primal: &[Value], tangents: &[Value]) -> Vec<Value> {
        let layout = self.layout(map.ty);
        let mut leaves: Vec<Option<Value>> = vec![None; layout.leaves.len()];
        let mut tangents = tangents.iter();
        for &to in map.map.iter().flatten() {
            leaves[to] = tangents.next().copied();
        }
        for &(from, to) in &map.same {
            leaves[to] = primal.get(from).copied();
        }
        let leaves = leaves.into_iter().zip(&layout.leaves);
        leaves.map(|(v, leaf)| v.unwrap_or_else(|| self.b.zero(leaf.ty, false))).collect()
    }

    /// Collects the tangents from a differential's leaves, one for each leaf that has one.
    pub(crate) fn gather(&mut self, map: &DiffMap, differential: &[Value]) -> Vec<Value> {
        let layout = self.layout(map.ty);
        let mut tangents = Vec::new();
        for &from in map.map.iter().flatten() {
            tangents.push(match differential.get(from) {
                Some(&v) => v,
                None => self.b.zero(layout.leaves[from].ty, false),
            });
        }
        tangents
    }

    /// The differential's half of a pair of pointer-like values (after `n` leaves of the primal), taken from
    /// the shadow.
    pub(crate) fn shadow_as_differential(&mut self, pair: Ty, shadow: &[Value], n: usize) -> Vec<Value> {
        let layout = self.layout(pair);
        let rest = layout.leaves.get(n + shadow.len()..).unwrap_or_default().to_vec();
        let mut values = shadow.to_vec();
        values.extend(rest.iter().map(|leaf| self.b.zero(leaf.ty, false)));
        values
    }

    /// Splits the leaves of a pair into primal and differential.
    pub(crate) fn split_pair<'v>(&mut self, primal: Ty, pair: &'v [Value]) -> (&'v [Value], &'v [Value]) {
        let n = self.layout(primal).leaves.len().min(pair.len());
        pair.split_at(n)
    }

    /// Converts numbers from the host to a differential that is absent in every component that is zero.
    fn moving(&mut self, given: Value) -> Value {
        let ty = self.b.func.ty(given);
        let absent = self.b.absent(ty, false);
        let found = match self.b.types[ty] {
            TypeData::Array(_, n) => {
                let cell_type = self.b.types.cell(ty);
                let cell = self.b.emit_typed(Op::Local, &[absent], cell_type);
                self.each_element(n, |body, index| {
                    let element = body.b.emit(Op::Index, &[given, index]);
                    let element = body.moving(element);
                    body.b.effect(Op::Store, &[cell, index, element]);
                });
                self.b.emit_typed(Op::Load, &[cell], ty)
            }
            _ => {
                let zero = self.b.zero(ty, false);
                let moves = self.b.emit(Op::Ne, &[given, zero]);
                self.b.emit(Op::Select, &[moves, given, absent])
            }
        };
        self.b.func.values[found].differential = true;
        found
    }
}

/// The number of leaves that have tangents.
pub(crate) fn n_tangents(diff: Option<&DiffMap>) -> usize {
    diff.map_or(0, |d| d.map.iter().flatten().count())
}

/// The types of results, for a call.
pub(crate) fn result_types(slots: &[Slot]) -> Vec<(Type, bool)> {
    slots.iter().map(|s| (s.ty, false)).collect()
}

/// The slots of the tangents of these slots.
fn tangent_slots(slots: &[Slot]) -> Vec<Slot> {
    let diff = slots.iter().filter(|s| s.diff);
    diff.map(|s| Slot { name: s.name.as_ref().map(|n| format!("{n}.d").into()), ..s.clone() }).collect()
}

/// Builds `fwd_diff(inner)` as a function.
pub(crate) fn build_fwd(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    inner: &Callable,
    declared: &Declared,
) -> Option<Function> {
    let f = lw.function(types, inner);
    let mut body = Body::new(lw, types, Subst::default(), declared.sig.ret);
    body.b.span = crate::ir_span(declared.span);
    let bound = body.bind_params(declared);
    if bound.len() != f.sig.params.len() {
        body.internal(declared.span, "`fwd_diff` has not the parameters of its operand", Ty::VOID);
        return None;
    }
    let (mut args, mut tangents) = (Vec::new(), Vec::new());
    for (param, values) in f.sig.params.iter().zip(&bound) {
        if !param.is_input() {
            continue;
        }
        body.refuse_pointers_in(param);
        let (primal, differential) = body.split_pair(param.ty, values);
        let primal = body.with_shadow(param.ty, primal, differential);
        body.check_differential(param.ty, &primal, differential, declared.span);
        args.extend(primal);
        if let Some(map) = &param.diff {
            let t = body.gather(map, differential);
            tangents.extend(t);
        }
    }
    args.extend(tangents);
    let mut results = result_types(&f.results);
    results.extend(result_types(&tangent_slots(&f.results)));
    let results = body.b.call(Op::CallDerivative(DerivativeOp::Fwd, f.func), &args, &results);
    let (primals, tangents) = results.split_at(f.results.len());
    let packed = pack_outputs(&mut body, &f.sig, &declared.sig, primals, tangents);
    body.finish(packed, declared)
}

/// Packs results and their tangents into pairs, for each output that is a pair in the derived signature.
fn pack_outputs(
    body: &mut Body<'_, '_, '_>,
    sig: &FlatSig,
    derived: &FlatSig,
    primals: &[Value],
    tangents: &[Value],
) -> Vec<Value> {
    let (mut at, mut at_tangent) = (0, 0);
    let mut packed = Vec::new();
    for (output, pair) in sig.outputs().iter().zip(derived.outputs()) {
        let n = body.layout(output.ty).leaves.len();
        let primal = &primals[at..at + n];
        if body.lw.pair_of(pair.ty).is_some() {
            packed.extend(body.without_shadow(output.ty, primal));
        } else {
            packed.extend_from_slice(primal);
        }
        at += n;
        let n_tangents = n_tangents(output.diff.as_deref());
        if let Some(map) = &output.diff {
            let own = &tangents[at_tangent..at_tangent + n_tangents];
            if body.lw.pair_of(pair.ty).is_some() {
                let d = body.spread(map, primal, own);
                packed.extend(d);
            }
        }
        at_tangent += n_tangents;
        if body.lw.pair_of(pair.ty).is_some()
            && let Some(shadow) = body.shadow_values(output.ty, primal)
        {
            let d = body.shadow_as_differential(pair.ty, &shadow, n);
            packed.extend(d);
        }
    }
    packed
}

/// Builds `bwd_diff(inner)` as a function.
pub(crate) fn build_bwd(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    inner: &Callable,
    declared: &Declared,
) -> Option<Function> {
    let f = lw.function(types, inner);
    let mut body = Body::new(lw, types, Subst::default(), declared.sig.ret);
    body.b.span = crate::ir_span(declared.span);
    let bound = body.bind_params(declared);
    let mut args = Vec::new();
    // The leaves of the differential given for each of the operand's outputs.
    let mut given: Vec<Vec<Value>> = vec![Vec::new(); f.sig.params.len()];
    let mut next = 0;
    let mut take = |skip: bool| {
        let own = next;
        if !skip {
            next += 1;
        }
        own
    };
    let mut positions = Vec::new();
    for (k, param) in f.sig.params.iter().enumerate() {
        let dropped = param.dir == Direction::Out && param.diff.is_none();
        let at = take(dropped);
        positions.push(at);
        if dropped {
            continue;
        }
        let Some(values) = bound.get(at) else {
            body.internal(declared.span, "`bwd_diff` has not the parameters of its operand", Ty::VOID);
            return None;
        };
        if param.dir == Direction::Out {
            given[k].clone_from(values);
            continue;
        }
        body.refuse_pointers_in(param);
        let (primal, differential) = body.split_pair(param.ty, values);
        let primal = body.with_shadow(param.ty, primal, differential);
        args.extend(primal);
        if param.dir == Direction::InOut {
            given[k] = differential.to_vec();
        }
    }
    let result = if f.sig.ret_diff.is_some() { bound.get(take(false)).cloned() } else { None };
    let result = result.unwrap_or_default();
    // The primal results are needed to check that differentials are of the right types.
    let checked = f.sig.outputs().iter().any(|o| o.diff.is_some() && body.lw.program.is_existential(o.ty));
    let primals = if checked { body.b.call_func(f.func, &f.results, &args) } else { Vec::new() };
    let mut primals = primals.into_iter();
    for output in f.sig.outputs() {
        let primal: Vec<Value> = primals.by_ref().take(body.layout(output.ty).leaves.len()).collect();
        if let Some(map) = &output.diff {
            let d = match output.param {
                None => &result,
                Some(k) => &given[k],
            };
            body.check_differential(output.ty, &primal, d, declared.span);
            let cotangents = body.gather(map, d);
            args.extend(cotangents);
        }
    }
    let diff: Vec<Slot> = f.params.iter().filter(|s| s.diff).cloned().collect();
    let cotangents = body.b.call(Op::CallDerivative(DerivativeOp::Bwd, f.func), &args, &result_types(&diff));
    // Primals are returned as they were passed.
    let mut results = Vec::new();
    let mut at = 0;
    for (k, param) in f.sig.params.iter().enumerate() {
        if !param.is_input() {
            continue;
        }
        let n = n_tangents(param.diff.as_deref());
        let own = cotangents[at..at + n].to_vec();
        at += n;
        let derived = declared.sig.params.get(positions[k]);
        if !derived.is_some_and(|d| d.is_output()) {
            continue;
        }
        let values = bound[positions[k]].clone();
        let (primal, _) = body.split_pair(param.ty, &values);
        results.extend_from_slice(primal);
        if let Some(map) = &param.diff {
            let d = body.spread(map, primal, &own);
            results.extend(d);
        }
    }
    body.finish(results, declared)
}

impl Lowerer<'_> {
    /// Declares the function that these steps derive from `of`, for the host. Without steps, it is the
    /// function itself.
    pub(crate) fn derived(&mut self, types: &mut Types, of: &Callable, steps: &[Step]) -> Rc<Declared> {
        let Some((last, before)) = steps.split_last() else { return self.function(types, of) };
        let key = Key::Derived(of.clone(), steps.to_vec());
        if let Some(declared) = self.declared.get(&key) {
            return declared.clone();
        }
        let f = self.derived(types, of, before);
        let (params, results) = match last {
            Step::Jvp | Step::SparseJvp => jvp_slots(&f),
            Step::Vjp | Step::SparseVjp => vjp_slots(&f),
            Step::ValueAndVjp => {
                let (params, cotangents) = vjp_slots(&f);
                (params, f.results.iter().cloned().chain(cotangents).collect())
            }
            Step::Only(chosen) => (only(&f.params, chosen), f.results.clone()),
            Step::JvpBy(chosen) => {
                let tangents = tangent_slots(&only(&f.params, chosen));
                (f.params.iter().cloned().chain(tangents).collect(), tangent_slots(&f.results))
            }
            Step::VjpBy(chosen) => (vjp_slots(&f).0, tangent_slots(&only(&f.params, chosen))),
        };
        self.declare_flat(key, f.sig.clone(), params, results)
    }
}

/// The same slots, of which only the chosen ones are differentiable.
fn only(slots: &[Slot], chosen: &[bool]) -> Vec<Slot> {
    let is_chosen = |k: usize| chosen.get(k).copied().unwrap_or(false);
    slots
        .iter()
        .enumerate()
        .map(|(k, slot)| Slot { diff: slot.diff && is_chosen(k), ..slot.clone() })
        .collect()
}

/// For each differentiable slot: true if it is chosen.
fn chosen_of_diff(slots: &[Slot], chosen: &[bool]) -> Vec<bool> {
    slots.iter().zip(only(slots, chosen)).filter(|(slot, _)| slot.diff).map(|(_, only)| only.diff).collect()
}

/// `(params…, tangents…) -> (results…, tangents…)`.
pub(crate) fn jvp_slots(f: &Declared) -> (Vec<Slot>, Vec<Slot>) {
    let with = |slots: &[Slot]| slots.iter().cloned().chain(tangent_slots(slots)).collect();
    (with(&f.params), with(&f.results))
}

/// `(params…, cotangents…) -> (cotangents…)`.
pub(crate) fn vjp_slots(f: &Declared) -> (Vec<Slot>, Vec<Slot>) {
    let params = f.params.iter().cloned().chain(tangent_slots(&f.results)).collect();
    (params, tangent_slots(&f.params))
}

/// Builds the function that the last of some steps derives.
pub(crate) fn build_derived(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    callable: &Callable,
    steps: &[Step],
    declared: &Declared,
) -> Option<Function> {
    let (last, before) = steps.split_last()?;
    let f = lw.derived(types, callable, before);
    let asks = callable.function().map_or(ModuleId(0), |f| lw.program.asking(f.decl));
    let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
    body.b.span = crate::ir_span(declared.span);
    let mut args: Vec<Value> = declared.params.iter().map(|slot| body.b.param(slot.clone())).collect();
    if last.is_sparse() {
        for v in &mut args[f.params.len()..] {
            *v = body.moving(*v);
        }
    }
    let slots = result_types(&declared.results);
    let results = match last {
        Step::Jvp | Step::SparseJvp => {
            body.b.call(Op::CallDerivative(DerivativeOp::Fwd, f.func), &args, &slots)
        }
        Step::Vjp | Step::SparseVjp => {
            body.b.call(Op::CallDerivative(DerivativeOp::Bwd, f.func), &args, &slots)
        }
        Step::Only(_) => body.b.call(Op::Call(f.func), &args, &slots),
        Step::JvpBy(chosen) => {
            let (args, tangents) = args.split_at(f.params.len());
            let mut tangents = tangents.iter().copied();
            let mut all = args.to_vec();
            let diff = f.params.iter().filter(|slot| slot.diff);
            for (slot, is_chosen) in diff.zip(chosen_of_diff(&f.params, chosen)) {
                all.push(match is_chosen {
                    true => tangents.next()?,
                    false => body.b.absent(slot.ty, false),
                });
            }
            let found = body.b.call(
                Op::CallDerivative(DerivativeOp::Fwd, f.func),
                &all,
                &result_types(&jvp_slots(&f).1),
            );
            found[f.results.len()..].to_vec()
        }
        Step::VjpBy(chosen) => {
            let found = body.b.call(
                Op::CallDerivative(DerivativeOp::Bwd, f.func),
                &args,
                &result_types(&tangent_slots(&f.params)),
            );
            let is_chosen = chosen_of_diff(&f.params, chosen);
            found.into_iter().zip(is_chosen).filter(|(_, is_chosen)| *is_chosen).map(|(v, _)| v).collect()
        }
        Step::ValueAndVjp => {
            let (args, cotangents) = args.split_at(f.params.len());
            let (values, gradients) = slots.split_at(f.results.len());
            let of = Residuals { func: f.func, forward: false };
            let kept = body.lw.residuals_of(body.b.types, of, asks);
            let kept: Vec<(Type, bool)> = values.iter().copied().chain([(kept, false)]).collect();
            let mut results = body.b.call(Op::CallDerivative(DerivativeOp::Apply, f.func), args, &kept);
            let kept = results.pop()?;
            let args = [args, &[kept], cotangents].concat();
            results.extend(body.b.call(Op::CallDerivative(DerivativeOp::Pullback, f.func), &args, gradients));
            results
        }
    };
    body.finish(results, declared)
}
