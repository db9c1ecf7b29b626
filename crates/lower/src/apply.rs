//! `__apply` extensions as flat functions: the primal with its context, and the context's call operator.
//!
//! `apply : (x) ↦ (y, c)` and `propagate : (c, ȳ) ↦ x̄`, with the leaves of the context as `c`. `propagate`
//! receives what `apply` stores, and nothing of the function itself is run again. If the function throws, `c` also
//! says whether it did: then there is no context, and the differentials are absent.
//!
//! `__apply(f)` as an expression yields the same pair: that of the extension, or that of [`DerivativeOp::Apply`],
//! with the arguments and the residuals as the context, which [`DerivativeOp::Pullback`] takes. `__linearize(f)`
//! yields that of [`DerivativeOp::Linearize`] and [`DerivativeOp::Pushforward`].

use check::tables::{Callable, FuncRef};
use check::types::{Ty, TyKind};
use check::{Applied, Direction, HalfOf, ModuleId, View};
use ir::{DerivativeOp, Func, Function, Residuals, Slot, Types, Value};
use rustc_hash::FxHashMap;

use crate::body::Body;
use crate::declared::{Declared, Half, Output, Role, Variant};
use crate::derivatives::{jvp_slots, tangent_slots, vjp_slots};
use crate::flat::take;
use crate::lowerer::{Lowerer, Making, ir_span};

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
        let mut context: Vec<Slot> = self.slots(types, "context", context, None);
        context.extend(declared.sig.error.as_ref().map(|_| Slot {
            ty: ir::Type::BOOL,
            diff: false,
            linear: false,
            name: Some("thrown".into()),
        }));
        let mut results = declared.results.clone();
        results.extend(context.iter().cloned());
        let variant = Variant::Apply(applied.clone());
        let apply = self.variant(f, variant, declared, (declared.params.clone(), results));
        let (all, cotangents) = vjp_slots(declared);
        let params = context.into_iter().chain(all[declared.params.len()..].iter().cloned()).collect();
        let variant = Variant::Propagate(applied.clone());
        let propagate = self.variant(f, variant, declared, (params, cotangents));
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
pub(crate) fn build_apply(making: Making<'_, '_>, applied: &Applied) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let user = lw.user_derivative(types, &applied.apply)?;
    let (mut body, args) = Body::flat(lw, types, declared);
    body.b.span = ir_span(user.span);
    let results = body.b.call_func(user.func, &user.results, &args);
    // The results are the returned value, the context, and the written parameters.
    let mut written = &results[..];
    let mut context = take(&mut written, body.n_leaves(user.sig.ret));
    let returned = take(&mut context, body.n_leaves(declared.sig.ret));
    // The last leaf of an optional tells whether it has a value.
    let thrown = if declared.sig.error.is_some() { written.last().copied() } else { None };
    let thrown: Vec<Value> = thrown.into_iter().collect();
    body.finish([returned, written, context, &thrown].concat(), declared)
}

/// Builds a call of the context's call operator, with the cotangents as leaves.
pub(crate) fn build_propagate(making: Making<'_, '_>, f: &FuncRef, applied: &Applied) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let user = lw.user_derivative(types, &applied.propagate)?;
    let own = lw.function(types, &Callable::Func(f.clone()));
    let (mut body, all) = Body::flat(lw, types, declared);
    body.b.span = ir_span(user.span);
    let mut cotangents = &all[..];
    let this = user.sig.params.first()?.ty;
    let mut args = take(&mut cotangents, body.n_leaves(this)).to_vec();
    let thrown = own.sig.error.as_ref().and_then(|_| cotangents.split_off_first().copied());
    let mut given = body.spread_outputs(&own.sig, &[], &mut cotangents);
    // For each parameter of the user's function: the function's parameter whose differential it returns.
    let mut given_back: Vec<Option<usize>> = vec![None];
    for (k, param) in own.sig.params.iter().enumerate().filter(|p| p.1.diff.is_some()) {
        args.extend(given.remove(&Role::Param(k)).unwrap_or_default());
        given_back.push((param.dir != Direction::Out).then_some(k));
    }
    args.extend(given.remove(&Role::Returned).unwrap_or_default());
    if !body.fit(&args, &user.params) {
        let what = "a context's call operator has not the parameters of a derivative";
        body.internal(declared.span, what, Ty::VOID);
        return None;
    }
    let propagated = |body: &mut Body| {
        let returned = body.b.call_func(user.func, &user.results, &args);
        let returned = body.by_output(&user.sig, &returned);
        let mut results = Vec::new();
        for (k, param) in own.sig.params.iter().enumerate().filter(|p| p.1.is_input()) {
            if let Some(map) = &param.diff {
                let of = |o: &Output| o.role.param().and_then(|p| *given_back.get(p)?);
                let d = returned.iter().find(|(output, _)| of(output) == Some(k));
                results.extend(body.gather(map, d.map_or(&[], |(_, leaves)| leaves)));
            }
        }
        results
    };
    let results = match thrown {
        None => propagated(&mut body),
        Some(thrown) => {
            let types = declared.results.iter().map(|slot| slot.ty);
            body.joined(types.clone(), |body, start| {
                let without = |body: &mut Body| {
                    let absent: Vec<Value> = types.map(|ty| body.b.absent(ty)).collect();
                    body.set_slots(start, absent);
                };
                let with = |body: &mut Body| {
                    let values = propagated(body);
                    body.set_slots(start, values);
                };
                body.branch(thrown, without, with);
            })
        }
    };
    body.finish(results, declared)
}

/// Builds `__apply(f)` or `__linearize(f)` as a function that returns the value and the pullback or
/// pushforward, on behalf of a module.
pub(crate) fn build_value_and_half(
    making: Making<'_, '_>,
    inner: &Callable,
    (asks, half): (ModuleId, Half),
) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let Callable::Func(f) = inner else {
        lw.unsupported(declared.span, "`__apply` of a derivative is");
        return None;
    };
    let custom = match half {
        Half::Pullback => lw.program.derivatives_of(f, View::of(asks)).apply,
        Half::Pushforward => None,
    };
    let callee = match &custom {
        Some(applied) => lw.user_derivative(types, &applied.apply)?,
        None => lw.function(types, inner),
    };
    let (mut body, bound) = Body::with_params(lw, types, declared);
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
    let mut results = Vec::new();
    let mut kept = None;
    if custom.is_none() {
        let (values, residuals) = body.with_residuals(callee.func, half, asks, &args, &callee.results)?;
        (results, kept) = (values, Some(residuals));
    } else if !moves {
        results = body.b.call_func(callee.func, &callee.results, &args);
    }
    if moves {
        // Only forward mode moves pointers along with their differentials.
        let mut args = args.clone();
        args.extend(tangent_slots(&callee.params).iter().map(|slot| body.b.zero(slot.ty)));
        results = body.derivative(DerivativeOp::Fwd, callee.func, &args, &jvp_slots(&callee).1);
        results.truncate(callee.results.len());
    }
    let mut outputs = body.by_output(&callee.sig, &results).into_iter();
    let mut results = outputs.next()?.1;
    if custom.is_none() {
        // The context follows the returned value.
        results.extend(args);
        results.extend(kept);
    }
    for (output, values) in outputs {
        let pair = output.role.param().map(|k| declared.sig.params[k].ty);
        let differential = pair.and_then(|pair| body.shadow_for(output.ty, &values, pair, values.len()));
        results.extend(values);
        results.extend(differential.into_iter().flatten());
    }
    let mut function = body.finish(results, declared)?;
    function.reruns = moves && custom.is_none();
    Some(function)
}

impl Body<'_, '_, '_> {
    /// Calls a function for its results and the residuals that its pullback or pushforward takes.
    pub(crate) fn with_residuals(
        &mut self,
        func: Func,
        half: Half,
        asks: ModuleId,
        args: &[Value],
        results: &[Slot],
    ) -> Option<(Vec<Value>, Value)> {
        let of = Residuals { func, forward: half == Half::Pushforward };
        let op = match half {
            Half::Pullback => DerivativeOp::Apply,
            Half::Pushforward => DerivativeOp::Linearize,
        };
        let ty = self.lw.residuals_of(self.b.types, of, asks);
        let kept = Slot { ty, diff: false, linear: false, name: None };
        let results: Vec<Slot> = results.iter().cloned().chain([kept]).collect();
        let mut values = self.derivative(op, func, args, &results);
        let kept = values.pop()?;
        Some((values, kept))
    }
}

/// Builds the call operator of a pullback or pushforward of a function.
pub(crate) fn build_half(making: Making<'_, '_>, of: &HalfOf) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let f = lw.user_derivative(types, &of.func)?;
    let (mut body, bound) = Body::with_params(lw, types, declared);
    let mut bound = bound.into_iter();
    let mut args = bound.next()?;
    // The primals are the context's leaves, in the order of the inputs.
    let primals = body.by_param(&f.sig, &mut &args[..]);
    // There is one parameter for each that has a differential, then that of the result.
    let mut given: FxHashMap<Role, Vec<Value>> = FxHashMap::default();
    for (k, _) in f.sig.params.iter().enumerate().filter(|p| p.1.diff.is_some()) {
        given.insert(Role::Param(k), bound.next()?);
    }
    given.insert(Role::Returned, bound.next().unwrap_or_default());
    let mut results = Vec::new();
    if of.forward {
        for (k, param) in f.sig.params.iter().enumerate().filter(|p| p.1.is_input()) {
            if let Some(map) = &param.diff {
                args.extend(body.gather(map, &given[&Role::Param(k)]));
            }
        }
        let tangents = tangent_slots(&f.results);
        let tangents = body.derivative(DerivativeOp::Pushforward, f.func, &args, &tangents);
        let mut tangents = &tangents[..];
        // There is a pushforward only where nothing was thrown.
        let outputs = f.sig.outputs();
        let outputs = outputs.iter().filter(|o| o.role != Role::Error);
        for map in outputs.filter_map(|o| o.diff.as_ref()) {
            if !map.same.is_empty() {
                let what =
                    "`__linearize` of a function that gives a value whose type is known at run time is";
                body.lw.unsupported(f.span, what);
            }
            results.extend(body.spread(map, &[], &mut tangents));
        }
        return body.finish(results, declared);
    }
    for output in f.sig.outputs() {
        if let Some(map) = &output.diff {
            // The error has no cotangent: there is a pullback only where nothing was thrown.
            args.extend(body.gather(map, given.get(&output.role).map_or(&[], Vec::as_slice)));
        }
    }
    let cotangents = tangent_slots(&f.params);
    let cotangents = body.derivative(DerivativeOp::Pullback, f.func, &args, &cotangents);
    let mut cotangents = &cotangents[..];
    for (param, primal) in f.sig.params.iter().zip(primals).filter(|p| p.0.is_input()) {
        if let Some(map) = &param.diff {
            results.extend(body.spread(map, &primal, &mut cotangents));
        }
    }
    body.finish(results, declared)
}
