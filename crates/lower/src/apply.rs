//! `__apply` extensions as flat functions: the primal with its context, and the context's call operator.
//!
//! `apply : (x) ↦ (y, c)` and `propagate : (c, ȳ) ↦ x̄`, with the leaves of the context as `c`. `propagate`
//! receives what `apply` stores, and nothing of the function itself is run again.
//!
//! `__apply(f)` as an expression yields the same pair: that of the extension, or that of [`DerivativeOp::Apply`],
//! with the arguments and the residuals as the context, which [`DerivativeOp::Pullback`] takes. `__linearize(f)`
//! yields that of [`DerivativeOp::Linearize`] and [`DerivativeOp::Pushforward`].

use check::signature::Subst;
use check::tables::{Callable, FuncRef};
use check::types::{Ty, TyKind};
use check::{Applied, Direction, HalfOf, ModuleId, View};
use ir::{DerivativeOp, Func, Function, Op, Residuals, Slot, Types, Value};

use crate::Lowerer;
use crate::body::Body;
use crate::derivatives::{n_tangents, result_types, vjp_slots};
use crate::functions::{Declared, Key};

impl Lowerer<'_> {
    /// Declares both functions.
    pub(crate) fn request_apply(
        &mut self,
        types: &mut Types,
        f: &FuncRef,
        applied: &Applied,
        declared: &Declared,
    ) -> (Option<Func>, Option<Func>) {
        let Ok(callable) = self.canonical(Callable::Func(applied.apply.clone())) else { return (None, None) };
        let user = self.function(types, &callable);
        let context = self.context_of(declared.sig.ret, user.sig.ret);
        let context: Vec<Slot> = self.slots(types, "context", context, None);
        let mut results = declared.results.clone();
        results.extend(context.iter().cloned());
        let key = Key::WitnessApply(f.clone(), applied.clone());
        let apply = self.flat_once(key, declared, declared.params.clone(), results);
        let (all, cotangents) = vjp_slots(declared);
        let params = context.into_iter().chain(all[declared.params.len()..].iter().cloned()).collect();
        let key = Key::WitnessPropagate(f.clone(), applied.clone());
        let propagate = self.flat_once(key, declared, params, cotangents);
        (Some(apply), Some(propagate))
    }

    /// The type of the residuals in a pullback of this type, which holds them in addition to the arguments.
    pub(crate) fn residuals_in(&mut self, types: &mut Types, ty: Ty) -> Option<ir::Type> {
        let of = self.program.pullbacks_of_type(ty)?;
        let callable = self.canonical(Callable::Func(of.func)).ok()?;
        let func = self.function(types, &callable).func;
        Some(self.residuals_of(types, Residuals { func, forward: of.forward }, of.asks))
    }

    pub(crate) fn residuals_of(&mut self, types: &mut Types, of: Residuals, asks: ModuleId) -> ir::Type {
        let number = self.residuals.insert_full((of, asks), ()).0;
        types.residuals(number as u32)
    }

    /// The type of the context in the result of an `__apply`, for a function with result type `ret`.
    fn context_of(&self, ret: Ty, given: Ty) -> Ty {
        match &self.program.types[given] {
            TyKind::Tuple(parts) if ret != Ty::VOID && parts.len() == 2 => parts[1],
            _ => given,
        }
    }
}

/// Builds a call of the user's `__apply`, with the context after all other results.
pub(crate) fn build_apply(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    applied: &Applied,
    declared: &Declared,
) -> Option<Function> {
    let callable = lw.canonical(Callable::Func(applied.apply.clone())).ok()?;
    let user = lw.function(types, &callable);
    let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
    body.b.span = crate::ir_span(user.span);
    let args: Vec<Value> = declared.params.iter().map(|slot| body.b.param(slot.clone())).collect();
    let results = body.b.call_func(user.func, &user.results, &args);
    // The results are the returned value, the context, and the written parameters.
    let n_returned = body.layout(declared.sig.ret).leaves.len();
    let n_given = body.layout(user.sig.ret).leaves.len();
    let (given, written) = results.split_at(n_given);
    let (returned, context) = given.split_at(n_returned);
    let results = [returned, written, context].concat();
    body.finish(results, declared)
}

/// Builds a call of the context's call operator, with the cotangents as leaves.
pub(crate) fn build_propagate(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    f: &FuncRef,
    applied: &Applied,
    declared: &Declared,
) -> Option<Function> {
    let callable = lw.canonical(Callable::Func(applied.propagate.clone())).ok()?;
    let user = lw.function(types, &callable);
    let own = lw.function(types, &Callable::Func(f.clone()));
    let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
    body.b.span = crate::ir_span(user.span);
    let all: Vec<Value> = declared.params.iter().map(|slot| body.b.param(slot.clone())).collect();
    let this = user.sig.params.first()?.ty;
    let n_context = body.layout(this).leaves.len();
    let (context, cotangents) = all.split_at(n_context);
    // First, the differential of each of the function's outputs is assembled.
    let mut at = 0;
    let mut result = Vec::new();
    let mut given: Vec<Vec<Value>> = vec![Vec::new(); own.sig.params.len()];
    for output in own.sig.outputs() {
        if let Some(map) = &output.diff {
            let n = n_tangents(Some(map));
            let d = body.spread(map, &[], &cotangents[at..at + n]);
            at += n;
            match output.param {
                None => result = d,
                Some(k) => given[k] = d,
            }
        }
    }
    let mut args = context.to_vec();
    // For each parameter of the user's function: the function's parameter whose differential it returns.
    let mut given_back: Vec<Option<usize>> = vec![None];
    for (k, param) in own.sig.params.iter().enumerate().filter(|p| p.1.diff.is_some()) {
        match param.dir {
            Direction::In | Direction::ConstRef => {}
            Direction::Out | Direction::InOut | Direction::Ref => args.append(&mut given[k]),
        }
        given_back.push((param.dir != Direction::Out).then_some(k));
    }
    args.append(&mut result);
    let fits = args.len() == user.params.len()
        && args.iter().zip(&user.params).all(|(&v, slot)| body.b.func.ty(v) == slot.ty);
    if !fits {
        body.internal(
            declared.span,
            "a context's call operator has not the parameters of a derivative",
            Ty::VOID,
        );
        return None;
    }
    let returned = body.b.call_func(user.func, &user.results, &args);
    let mut differentials: Vec<Vec<Value>> = vec![Vec::new(); own.sig.params.len()];
    let mut at = 0;
    for output in user.sig.outputs() {
        let n = body.layout(output.ty).leaves.len();
        if let Some(Some(k)) = output.param.and_then(|p| given_back.get(p).copied()) {
            differentials[k] = returned[at..at + n].to_vec();
        }
        at += n;
    }
    let mut results = Vec::new();
    for (k, param) in own.sig.params.iter().enumerate() {
        if let (Some(map), true) = (&param.diff, param.is_input()) {
            let t = body.gather(map, &differentials[k]);
            results.extend(t);
        }
    }
    body.finish(results, declared)
}

/// Builds `__apply(f)` or `__linearize(f)` as a function that returns the value and the pullback or
/// pushforward, on behalf of a module.
pub(crate) fn build_value_and_half(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    inner: &Callable,
    (asks, forward): (ModuleId, bool),
    declared: &Declared,
) -> Option<Function> {
    let Callable::Func(f) = inner else {
        lw.unsupported(declared.span, "`__apply` of a derivative is");
        return None;
    };
    let custom = if forward { None } else { lw.program.derivatives_of(f, View::of(asks)).apply };
    let callable = match &custom {
        Some(applied) => lw.canonical(Callable::Func(applied.apply.clone())).ok()?,
        None => inner.clone(),
    };
    let callee = lw.function(types, &callable);
    let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
    body.b.span = crate::ir_span(declared.span);
    let bound = body.bind_params(declared);
    let mut args: Vec<Value> = Vec::new();
    for (param, values) in callee.sig.params.iter().zip(bound).filter(|p| p.0.is_input()) {
        if body.lw.is_pointer_like(body.b.types, param.ty) {
            let (primal, differential) = body.split_pair(param.ty, &values);
            args.extend(body.with_shadow(param.ty, primal, differential));
        } else {
            args.extend(values);
        }
    }
    let moves = callee.sig.outputs().iter().any(|o| body.lw.is_pointer_like(body.b.types, o.ty));
    let mut slots = result_types(&callee.results);
    let mut results = Vec::new();
    let mut kept = None;
    if custom.is_none() {
        let of = Residuals { func: callee.func, forward };
        slots.push((body.lw.residuals_of(body.b.types, of, asks), false));
        let op = if forward { DerivativeOp::Linearize } else { DerivativeOp::Apply };
        results = body.b.call(Op::CallDerivative(op, of.func), &args, &slots);
        kept = results.pop();
    } else if !moves {
        results = body.b.call(Op::Call(callee.func), &args, &slots);
    }
    if moves {
        // Only forward mode moves pointers along with their differentials.
        let diff = |slots: &[Slot]| slots.iter().filter(|s| s.diff).cloned().collect::<Vec<Slot>>();
        let (inputs, outputs) = (diff(&callee.params), diff(&callee.results));
        let mut args = args.clone();
        args.extend(inputs.iter().map(|slot| body.b.zero(slot.ty, false)));
        let all: Vec<Slot> = callee.results.iter().cloned().chain(outputs).collect();
        results = body.b.call(Op::CallDerivative(DerivativeOp::Fwd, callee.func), &args, &result_types(&all));
        results.truncate(callee.results.len());
    }
    let n_returned = body.layout(callee.sig.ret).leaves.len();
    let (returned, mut written) = results.split_at(n_returned);
    let mut results = returned.to_vec();
    if custom.is_none() {
        // The context follows the returned value.
        results.extend(args);
        results.extend(kept);
    }
    for output in callee.sig.outputs().iter().skip(1) {
        let (values, rest) = written.split_at(body.layout(output.ty).leaves.len());
        results.extend_from_slice(values);
        written = rest;
        if let Some(shadow) = body.shadow_values(output.ty, values)
            && let Some(k) = output.param
        {
            let pair = declared.sig.params[k].ty;
            let differential = body.shadow_as_differential(pair, &shadow, values.len());
            results.extend(differential);
        }
    }
    let mut function = body.finish(results, declared)?;
    function.reruns = moves && custom.is_none();
    Some(function)
}

/// Builds the call operator of a pullback or pushforward of a function.
pub(crate) fn build_half(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    of: &HalfOf,
    declared: &Declared,
) -> Option<Function> {
    let callable = lw.canonical(Callable::Func(of.func.clone())).ok()?;
    let f = lw.function(types, &callable);
    let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
    body.b.span = crate::ir_span(declared.span);
    let mut bound = body.bind_params(declared).into_iter();
    let mut args = bound.next()?;
    let primals = args.clone();
    // There is one parameter for each that has a differential, then that of the result.
    let mut given: Vec<Vec<Value>> = vec![Vec::new(); f.sig.params.len()];
    for (k, _) in f.sig.params.iter().enumerate().filter(|p| p.1.diff.is_some()) {
        given[k] = bound.next()?;
    }
    let result = bound.next().unwrap_or_default();
    let diff = |slots: &[Slot]| slots.iter().filter(|s| s.diff).cloned().collect::<Vec<Slot>>();
    let mut results = Vec::new();
    let mut at = 0;
    if of.forward {
        for (k, param) in f.sig.params.iter().enumerate().filter(|p| p.1.is_input()) {
            if let Some(map) = &param.diff {
                let tangents = body.gather(map, &given[k]);
                args.extend(tangents);
            }
        }
        let tangents = body.b.call(
            Op::CallDerivative(DerivativeOp::Pushforward, f.func),
            &args,
            &result_types(&diff(&f.results)),
        );
        for output in f.sig.outputs() {
            if let Some(map) = &output.diff {
                let n = n_tangents(Some(map));
                if !map.same.is_empty() {
                    let what =
                        "`__linearize` of a function that gives a value whose type is known at run time is";
                    body.lw.unsupported(f.span, what);
                }
                let d = body.spread(map, &[], &tangents[at..at + n]);
                results.extend(d);
                at += n;
            }
        }
        return body.finish(results, declared);
    }
    for output in f.sig.outputs() {
        if let Some(map) = &output.diff {
            let cotangents = body.gather(map, output.param.map_or(&result, |k| &given[k]));
            args.extend(cotangents);
        }
    }
    let cotangents = body.b.call(
        Op::CallDerivative(DerivativeOp::Pullback, f.func),
        &args,
        &result_types(&diff(&f.params)),
    );
    // The primals are the context's leaves, in the order of the inputs.
    let mut at_primal = 0;
    for param in f.sig.params.iter().filter(|p| p.is_input()) {
        let n_primal = body.layout(param.ty).leaves.len();
        if let Some(map) = &param.diff {
            let n = n_tangents(Some(map));
            let primal = primals[at_primal..at_primal + n_primal].to_vec();
            let d = body.spread(map, &primal, &cotangents[at..at + n]);
            results.extend(d);
            at += n;
        }
        at_primal += n_primal;
    }
    body.finish(results, declared)
}
