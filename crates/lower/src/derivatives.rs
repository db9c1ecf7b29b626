//! Derivative operators: `fwd_diff(f)` and `bwd_diff(f)` as functions with the operators' signatures.
//!
//! Their bodies split pairs, apply [`DerivativeOp::Fwd`] or [`DerivativeOp::Bwd`] to the flat leaves, and make pairs
//! again. As they are functions, they can be operands of further operators. The only convention is the order
//! of a function's leaves: see [`FlatSig`](crate::declared::FlatSig).

use std::rc::Rc;

use check::tables::Callable;
use check::types::Ty;
use check::{Direction, ModuleId};
use ir::{DerivativeOp, Function, Op, Slot, Type, TypeData, Types, Value};
use rustc_hash::FxHashMap;

use crate::body::Body;
use crate::declared::{Declared, FlatParam, Half, Key, Output, Role};
use crate::layout::DiffMap;
use crate::lowerer::{Lowerer, Making};
use crate::request::Step;

impl Body<'_, '_, '_> {
    /// Reports a pointer inside a differentiable value: once the value is split, its gradients would be lost.
    pub(crate) fn refuse_pointers_in(&mut self, param: &FlatParam) {
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

    /// Emits a derivative of a function.
    pub(crate) fn derivative(
        &mut self,
        op: DerivativeOp,
        of: ir::Func,
        args: &[Value],
        results: &[Slot],
    ) -> Vec<Value> {
        self.b.call(Op::CallDerivative(op, of), args, &result_types(results))
    }

    /// Converts numbers from the host to a differential that is absent in every component that is zero.
    fn moving(&mut self, given: Value) -> Value {
        let ty = self.b.func.ty(given);
        let absent = self.b.absent(ty);
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
                let zero = self.b.zero(ty);
                let moves = self.b.emit(Op::Ne, &[given, zero]);
                self.b.emit(Op::Select, &[moves, given, absent])
            }
        };
        self.b.func.values[found].differential = true;
        found
    }
}

/// The number of leaves that have tangents.
fn n_tangents(diff: Option<&DiffMap>) -> usize {
    diff.map_or(0, |d| d.map.iter().flatten().count())
}

/// The types of results, for a call.
fn result_types(slots: &[Slot]) -> Vec<(Type, bool)> {
    slots.iter().map(|s| (s.ty, false)).collect()
}

/// The slots of the tangents of these slots.
pub(crate) fn tangent_slots(slots: &[Slot]) -> Vec<Slot> {
    let diff = slots.iter().filter(|s| s.diff);
    diff.map(|s| Slot { name: s.name.as_ref().map(|n| format!("{n}.d").into()), ..s.clone() }).collect()
}

/// Builds `fwd_diff(inner)` as a function.
pub(crate) fn build_fwd(making: Making<'_, '_>, inner: &Callable) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let f = lw.function(types, inner);
    let (mut body, bound) = Body::with_params(lw, types, declared);
    if bound.len() != f.sig.params.len() {
        body.internal(declared.span, "`fwd_diff` has not the parameters of its operand", Ty::VOID);
        return None;
    }
    let (mut args, mut tangents) = (Vec::new(), Vec::new());
    for (param, values) in f.sig.params.iter().zip(&bound).filter(|p| p.0.is_input()) {
        body.refuse_pointers_in(param);
        let (primal, differential) = body.split_pair(param.ty, values);
        let primal = body.with_shadow(param.ty, primal, differential);
        body.check_differential(param.ty, &primal, differential, declared.span);
        args.extend(primal);
        if let Some(map) = &param.diff {
            tangents.extend(body.gather(map, differential));
        }
    }
    args.extend(tangents);
    let results = body.derivative(DerivativeOp::Fwd, f.func, &args, &jvp_slots(&f).1);
    let (primals, mut tangents) = results.split_at(f.results.len());
    // Results and their tangents become pairs where the operator's signature has pairs.
    let mut packed = Vec::new();
    for ((output, primal), pair) in body.by_output(&f.sig, primals).into_iter().zip(declared.sig.outputs()) {
        if body.lw.pair_of(pair.ty).is_none() {
            packed.extend(primal);
            tangents = &tangents[n_tangents(output.diff.as_deref())..];
            continue;
        }
        packed.extend(body.without_shadow(output.ty, &primal));
        if let Some(map) = &output.diff {
            packed.extend(body.spread(map, &primal, &mut tangents));
        }
        packed.extend(body.shadow_for(output.ty, &primal, pair.ty, primal.len()).into_iter().flatten());
    }
    body.finish(packed, declared)
}

/// Builds `__decisions(inner)` as a function: `(params…, n, out hash, out count) -> (result, level)`.
pub(crate) fn build_decisions(making: Making<'_, '_>, inner: &Callable) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let f = lw.function(types, inner);
    if f.sig.outputs().len() > 1 {
        lw.unsupported(
            declared.span,
            "`__decisions` of a function with `out` parameters, or that throws, is",
        );
        return None;
    }
    let (mut body, bound) = Body::with_params(lw, types, declared);
    let args: Vec<Value> = bound.into_iter().take(f.sig.params.len() + 1).flatten().collect();
    // The level is returned, and the hash and the count are in parameters.
    let (returned, trace) = declared.results.split_at(f.results.len());
    let trace = [&trace[1..], &trace[..1]].concat();
    let mut results = body.derivative(DerivativeOp::Decisions, f.func, &args, &[returned, &trace].concat());
    results[f.results.len()..].rotate_right(1);
    body.finish(results, declared)
}

/// Builds `bwd_diff(inner)` as a function.
pub(crate) fn build_bwd(making: Making<'_, '_>, inner: &Callable) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let f = lw.function(types, inner);
    let (mut body, bound) = Body::with_params(lw, types, declared);
    let mut args = Vec::new();
    // The differentials given for the operand's outputs.
    let mut given: FxHashMap<Role, Vec<Value>> = FxHashMap::default();
    // For each parameter of the operand, that of the operator; an `out` parameter without a differential has
    // none.
    let mut positions = Vec::new();
    let mut next = 0..;
    for (k, param) in f.sig.params.iter().enumerate() {
        let is_dropped = param.dir == Direction::Out && param.diff.is_none();
        let position = if is_dropped { None } else { next.next() };
        positions.push(position);
        let Some(at) = position else { continue };
        let Some(values) = bound.get(at) else {
            body.internal(declared.span, "`bwd_diff` has not the parameters of its operand", Ty::VOID);
            return None;
        };
        if param.dir == Direction::Out {
            given.insert(Role::Param(k), values.clone());
            continue;
        }
        body.refuse_pointers_in(param);
        let (primal, differential) = body.split_pair(param.ty, values);
        args.extend(body.with_shadow(param.ty, primal, differential));
        if param.dir == Direction::InOut {
            given.insert(Role::Param(k), differential.to_vec());
        }
    }
    if f.sig.ret_diff.is_some() {
        given.insert(Role::Returned, next.next().and_then(|at| bound.get(at)).cloned().unwrap_or_default());
    }
    // The primal results are needed to check that differentials are of the right types, and for the error.
    let is_needed =
        |o: &Output| o.role == Role::Error || o.diff.is_some() && body.lw.program.is_existential(o.ty);
    let is_needed = f.sig.outputs().iter().any(is_needed);
    let primals = if is_needed { body.b.call_func(f.func, &f.results, &args) } else { Vec::new() };
    let mut error = Vec::new();
    for (output, primal) in body.by_output(&f.sig, &primals) {
        if output.role == Role::Error {
            // A caller that gets the error passes no differential of it.
            args.extend(body.zero_tangents(output.ty, output.diff.as_deref(), declared.span));
            error = primal;
        } else if let (Some(map), Some(d)) = (&output.diff, given.get(&output.role)) {
            body.check_differential(output.ty, &primal, d, declared.span);
            args.extend(body.gather(map, d));
        }
    }
    let cotangents = body.derivative(DerivativeOp::Bwd, f.func, &args, &tangent_slots(&f.params));
    // Primals are returned as they were passed.
    let (mut cotangents, mut results) = (&cotangents[..], Vec::new());
    for (param, position) in f.sig.params.iter().zip(positions).filter(|p| p.0.is_input()) {
        let Some(at) = position else { continue };
        if !declared.sig.params.get(at).is_some_and(|d| d.is_output()) {
            cotangents = &cotangents[n_tangents(param.diff.as_deref())..];
            continue;
        }
        let (primal, _) = body.split_pair(param.ty, &bound[at]);
        results.extend_from_slice(primal);
        if let Some(map) = &param.diff {
            results.extend(body.spread(map, primal, &mut cotangents));
        }
    }
    results.extend(error);
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
pub(crate) fn build_derived(making: Making<'_, '_>, callable: &Callable, steps: &[Step]) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let (last, before) = steps.split_last()?;
    let f = lw.derived(types, callable, before);
    let asks = callable.function().map_or(ModuleId(0), |f| lw.program.asking(f.decl));
    let (mut body, mut args) = Body::flat(lw, types, declared);
    if last.is_sparse() {
        for v in &mut args[f.params.len()..] {
            *v = body.moving(*v);
        }
    }
    let slots = &declared.results;
    let results = match last {
        Step::Jvp | Step::SparseJvp => body.derivative(DerivativeOp::Fwd, f.func, &args, slots),
        Step::Vjp | Step::SparseVjp => body.derivative(DerivativeOp::Bwd, f.func, &args, slots),
        Step::Only(_) => body.b.call_func(f.func, slots, &args),
        Step::JvpBy(chosen) => {
            let (args, tangents) = args.split_at(f.params.len());
            let mut tangents = tangents.iter().copied();
            let mut all = args.to_vec();
            let diff = f.params.iter().filter(|slot| slot.diff);
            for (slot, is_chosen) in diff.zip(chosen_of_diff(&f.params, chosen)) {
                all.push(match is_chosen {
                    true => tangents.next()?,
                    false => body.b.absent(slot.ty),
                });
            }
            let found = body.derivative(DerivativeOp::Fwd, f.func, &all, &jvp_slots(&f).1);
            found[f.results.len()..].to_vec()
        }
        Step::VjpBy(chosen) => {
            let found = body.derivative(DerivativeOp::Bwd, f.func, &args, &tangent_slots(&f.params));
            let is_chosen = chosen_of_diff(&f.params, chosen);
            found.into_iter().zip(is_chosen).filter(|(_, is_chosen)| *is_chosen).map(|(v, _)| v).collect()
        }
        Step::ValueAndVjp => {
            let (args, cotangents) = args.split_at(f.params.len());
            let (values, gradients) = slots.split_at(f.results.len());
            let (mut results, kept) = body.with_residuals(f.func, Half::Pullback, asks, args, values)?;
            let args = [args, &[kept], cotangents].concat();
            results.extend(body.derivative(DerivativeOp::Pullback, f.func, &args, gradients));
            results
        }
    };
    body.finish(results, declared)
}
