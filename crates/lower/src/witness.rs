//! Flat wrapper functions around user-written derivatives. [`crate::views`] determines which are needed.

use std::rc::Rc;

use check::tables::{Callable, FuncRef};
use check::types::Ty;
use check::{Direction, Level, View};
use ir::{Func, Function, Slot, Types, Value, Witness};
use syntax::{Diagnostic, Span};

use crate::body::Body;
use crate::declared::{Declared, Key, Output, Role, Variant};
use crate::derivatives::{jvp_slots, vjp_slots};
use crate::layout::DiffMap;
use crate::lowerer::{Lowerer, Making, ir_span};

impl Lowerer<'_> {
    /// Declares the custom derivatives of a function for one view.
    pub(crate) fn request_witness(
        &mut self,
        types: &mut Types,
        f: &FuncRef,
        declared: &Declared,
        view: View,
    ) -> Witness {
        let derivatives = self.program.derivatives_of(f, view);
        let mut witness =
            Witness { treat_as_differentiable: derivatives.treat_as_differentiable, ..Witness::default() };
        // The derivative is zero, in terms of the user's own `dzero`.
        let sig = &declared.sig;
        let params = sig.params.iter().filter(|p| p.diff.is_some()).map(|p| p.ty);
        let mut with_diff = params.chain(sig.ret_diff.is_some().then_some(sig.ret));
        let own_zero = derivatives.treat_as_differentiable && with_diff.any(|ty| self.has_user_zero(ty));
        if derivatives.fwd.is_some() || own_zero {
            let variant = Variant::Jvp(derivatives.fwd.clone());
            witness.jvp = Some(self.variant(f, variant, declared, jvp_slots(declared)));
        }
        if derivatives.bwd.is_some() || own_zero {
            let variant = Variant::Vjp(derivatives.bwd.clone());
            witness.vjp = Some(self.variant(f, variant, declared, vjp_slots(declared)));
        }
        let loses_error = sig.error.as_ref().is_some_and(|(_, diff)| diff.is_some());
        if loses_error
            && (derivatives.fwd.is_some() || derivatives.bwd.is_some() || derivatives.apply.is_some())
        {
            let what = "a derivative of one's own for a function whose error has a derivative is";
            self.unsupported(declared.span, what);
        }
        if let (None, Some(applied)) = (witness.vjp, &derivatives.apply) {
            (witness.apply, witness.vjp) = self.request_apply(types, f, applied, declared);
        }
        if let Some(substitute) = derivatives.substitute.clone()
            && let Ok(callable) = self.canonical(Callable::Func(substitute))
        {
            let substitute = self.function(types, &callable);
            let same = substitute.params.len() == declared.params.len()
                && substitute.params.iter().zip(&declared.params).all(|(a, b)| a.ty == b.ty);
            if same {
                witness.substitute = Some(substitute.func);
            } else {
                self.unsupported(declared.span, "a primal substitute with other parameters is");
            }
        }
        // This applies to both modes: a forward rule is not transposed, and a backward rule does not make the
        // tangent zero.
        let custom = witness.jvp.is_some() || witness.vjp.is_some();
        let level = if witness.jvp.is_some() { Level::Backward } else { Level::Forward };
        witness.differentiable = custom && derivatives.level >= level;
        if witness == Witness::default() {
            witness.jvp = self.request_twin(types, f, declared);
        } else if witness.vjp.is_some() && witness.apply.is_none() {
            (witness.apply, witness.is_same) = self.request_moved(types, f, &derivatives, declared);
        }
        witness.continuous = self.program.attribute(f.decl, "Continuous").is_some();
        witness.last = self.program.attribute(f.decl, "LastDerivative").is_some();
        witness
    }

    /// A function called under `no_diff` needs no derivative, but a primal substitute replaces it in such a
    /// call, too.
    pub(crate) fn request_quiet(&mut self, types: &mut Types, f: &FuncRef, view: View) -> Witness {
        let mut witness = Witness { treat_as_differentiable: true, ..Witness::default() };
        if let Some(substitute) = self.program.derivatives_of(f, view).substitute
            && let Ok(Callable::Func(substitute)) = self.canonical(Callable::Func(substitute))
        {
            let declared = self.function(types, &Callable::Func(substitute.clone()));
            let slots = (declared.params.clone(), declared.results.clone());
            witness.substitute = Some(self.variant(&substitute, Variant::Quiet, &declared, slots));
        }
        witness
    }

    /// Declares a variant of a function, with parameters and results, if it is new.
    pub(crate) fn variant(
        &mut self,
        f: &FuncRef,
        variant: Variant,
        of: &Declared,
        (params, results): (Vec<Slot>, Vec<Slot>),
    ) -> Func {
        let key = Key::Variant(f.clone(), variant);
        match self.declared.get(&key) {
            Some(declared) => declared.func,
            None => self.declare_flat(key, of.sig.clone(), params, results).func,
        }
    }

    /// Declares the user's derivative of a function.
    pub(crate) fn user_derivative(&mut self, types: &mut Types, user: &FuncRef) -> Option<Rc<Declared>> {
        let callable = self.canonical(Callable::Func(user.clone())).ok()?;
        Some(self.function(types, &callable))
    }
}

/// Calls the function once more for its results if their differentials contain leaves that are not tangents:
/// the type in a value of interface type, or the flag of an optional. Returns an empty list otherwise.
fn primals_for_differentials(body: &mut Body<'_, '_, '_>, own: &Declared, all: &[Value]) -> Vec<Value> {
    let is_needed = |o: &Output| o.diff.as_ref().is_some_and(|map| !map.same.is_empty());
    if !own.sig.outputs().iter().any(is_needed) {
        return Vec::new();
    }
    body.b.call_func(own.func, &own.results, &all[..own.params.len()])
}

/// The values for a parameter of the user's derivative: a pair, or the primal alone.
pub(crate) fn user_input(
    body: &mut Body<'_, '_, '_>,
    user: Ty,
    own: Ty,
    primal: &[Value],
    differential: Option<Vec<Value>>,
    span: Span,
) -> Vec<Value> {
    if body.lw.pair_of(user).is_none() {
        return body.convert(primal.to_vec(), own, user, span);
    }
    if body.lw.is_pointer_like(body.b.types, own) {
        let mut values = body.without_shadow(own, primal);
        values.extend(body.shadow_for(own, primal, user, primal.len()).unwrap_or_default());
        return values;
    }
    let mut values = primal.to_vec();
    match differential {
        Some(d) => values.extend(d),
        None if body.lw.has_user_zero(own) => values.extend(body.dzero(own, span)),
        None => body.fill(&mut values, user),
    }
    values
}

/// Builds the jvp of `f` from the user's forward derivative.
pub(crate) fn build_jvp(making: Making<'_, '_>, f: &FuncRef, user: &FuncRef) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let user = lw.user_derivative(types, user)?;
    let own = lw.function(types, &Callable::Func(f.clone()));
    let (mut body, all) = Body::flat(lw, types, declared);
    body.b.span = ir_span(user.span);
    let mut tangents = &all[..];
    let inputs = body.by_param(&own.sig, &mut tangents);
    if user.sig.params.len() != own.sig.params.len() {
        return mismatch(&mut body, &user, declared);
    }
    let mut args = Vec::new();
    for ((param, theirs), primal) in own.sig.params.iter().zip(&user.sig.params).zip(&inputs) {
        if !param.is_input() {
            args.push((Vec::new(), theirs.ty));
            continue;
        }
        let d = param.diff.as_ref().map(|map| body.spread(map, primal, &mut tangents));
        args.push((user_input(&mut body, theirs.ty, param.ty, primal, d, user.span), theirs.ty));
    }
    let given = call_user(&mut body, &user, &args)?;
    let (mut primals, mut outs) = (Vec::new(), Vec::new());
    for output in own.sig.outputs() {
        let Some((theirs, values)) = given.iter().find(|g| g.0.role == output.role) else {
            return mismatch(&mut body, &user, declared);
        };
        let is_pair = body.lw.pair_of(theirs.ty).is_some();
        let (primal, d) = body.split_pair(output.ty, values);
        primals.extend(if is_pair { body.with_shadow(output.ty, primal, d) } else { primal.to_vec() });
        if let Some(map) = &output.diff {
            outs.extend(body.gather(map, if is_pair { d } else { &[] }));
        }
    }
    primals.extend(outs);
    body.finish(primals, declared)
}

/// Builds the vjp of `f` from the user's backward derivative.
pub(crate) fn build_vjp(making: Making<'_, '_>, f: &FuncRef, user: &FuncRef) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let user = lw.user_derivative(types, user)?;
    let own = lw.function(types, &Callable::Func(f.clone()));
    let (mut body, all) = Body::flat(lw, types, declared);
    body.b.span = ir_span(user.span);
    let mut cotangents = &all[..];
    let inputs = body.by_param(&own.sig, &mut cotangents);
    let primals = primals_for_differentials(&mut body, &own, &all);
    let mut given = body.spread_outputs(&own.sig, &primals, &mut cotangents);
    let mut args = Vec::new();
    let mut positions: Vec<Option<usize>> = Vec::new();
    let mut theirs = user.sig.params.iter();
    for (k, (param, primal)) in own.sig.params.iter().zip(&inputs).enumerate() {
        if param.dir == Direction::Out && param.diff.is_none() {
            positions.push(None);
            continue;
        }
        let Some(user_param) = theirs.next() else { return mismatch(&mut body, &user, declared) };
        positions.push(Some(args.len()));
        let d = given.remove(&Role::Param(k));
        let values = match param.dir {
            Direction::Out => d.unwrap_or_default(),
            _ => user_input(&mut body, user_param.ty, param.ty, primal, d, user.span),
        };
        args.push((values, user_param.ty));
    }
    if own.sig.ret_diff.is_some() {
        let Some(user_param) = theirs.next() else { return mismatch(&mut body, &user, declared) };
        args.push((given.remove(&Role::Returned).unwrap_or_default(), user_param.ty));
    }
    if theirs.next().is_some() {
        return mismatch(&mut body, &user, declared);
    }
    let given = call_user(&mut body, &user, &args)?;
    let mut results = Vec::new();
    for (param, position) in own.sig.params.iter().zip(positions) {
        let (Some(map), true) = (&param.diff, param.is_input()) else { continue };
        let group = given.iter().find(|g| position.is_some() && g.0.role.param() == position);
        let d = match group {
            Some((theirs, values)) if body.lw.pair_of(theirs.ty).is_some() => {
                body.split_pair(param.ty, values).1
            }
            _ => &[],
        };
        results.extend(body.gather(map, d));
    }
    body.finish(results, declared)
}

/// Builds the jvp of a `[TreatAsDifferentiable]` function: a call of the function, and the zeros of its
/// result types.
pub(crate) fn build_zero_jvp(making: Making<'_, '_>, f: &FuncRef) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let own = lw.function(types, &Callable::Func(f.clone()));
    let (mut body, all) = Body::flat(lw, types, declared);
    let mut results = body.b.call_func(own.func, &own.results, &all[..own.params.len()]);
    for output in own.sig.outputs() {
        results.extend(body.zero_tangents(output.ty, output.diff.as_deref(), own.span));
    }
    body.finish(results, declared)
}

/// Builds the vjp of a `[TreatAsDifferentiable]` function: the zeros of its parameter types.
pub(crate) fn build_zero_vjp(making: Making<'_, '_>, f: &FuncRef) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let own = lw.function(types, &Callable::Func(f.clone()));
    let (mut body, _) = Body::flat(lw, types, declared);
    let mut results = Vec::new();
    for param in own.sig.params.iter().filter(|p| p.is_input()) {
        results.extend(body.zero_tangents(param.ty, param.diff.as_deref(), own.span));
    }
    body.finish(results, declared)
}

/// Calls the user's function.
pub(crate) fn call_user(
    body: &mut Body<'_, '_, '_>,
    user: &Declared,
    args: &[(Vec<Value>, Ty)],
) -> Option<Vec<(Output, Vec<Value>)>> {
    let mut flat = Vec::new();
    for (param, (values, ty)) in user.sig.params.iter().zip(args).filter(|p| p.0.is_input()) {
        flat.extend(body.convert(values.clone(), *ty, param.ty, user.span));
    }
    if !body.fit(&flat, &user.params) {
        body.lw.diagnostics.push(misfit(user));
        return None;
    }
    let results = body.b.call_func(user.func, &user.results, &flat);
    Some(body.by_output(&user.sig, &results))
}

fn misfit(user: &Declared) -> Diagnostic {
    let message = "the parameters of this derivative do not fit the function that it belongs to";
    Diagnostic::error("E31149", user.span, message)
}

fn mismatch(body: &mut Body<'_, '_, '_>, user: &Declared, declared: &Declared) -> Option<Function> {
    body.lw.diagnostics.push(misfit(user).note(declared.span, "the function"));
    None
}

impl Body<'_, '_, '_> {
    /// The tangents of the zero of a type.
    pub(crate) fn zero_tangents(&mut self, ty: Ty, diff: Option<&DiffMap>, span: Span) -> Vec<Value> {
        let Some(map) = diff else { return Vec::new() };
        let zero = self.dzero(ty, span);
        self.gather(map, &zero)
    }

    /// Adds zeros for the missing leaves of a type.
    pub(crate) fn fill(&mut self, values: &mut Vec<Value>, ty: Ty) {
        let layout = self.layout(ty);
        let missing = layout.leaves.iter().skip(values.len());
        values.extend(missing.map(|leaf| self.b.zero(leaf.ty)));
    }
}
