//! Flat wrapper functions around user-written derivatives. [`crate::views`] determines which are needed.

use check::signature::Subst;
use check::tables::{Callable, FuncRef};
use check::types::Ty;
use check::{Direction, Level, View};
use ir::{Func, Function, Slot, Types, Value, Witness};
use syntax::Span;

use crate::Lowerer;
use crate::body::Body;
use crate::derivatives::{jvp_slots, n_tangents, vjp_slots};
use crate::functions::{Declared, Key};

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
        let own_zero = derivatives.treat_as_differentiable
            && declared
                .sig
                .params
                .iter()
                .map(|p| (p.ty, &p.diff))
                .any(|(ty, diff)| diff.is_some() && self.has_user_zero(ty))
            || derivatives.treat_as_differentiable
                && declared.sig.ret_diff.is_some()
                && self.has_user_zero(declared.sig.ret);
        if derivatives.fwd.is_some() || own_zero {
            let (params, results) = jvp_slots(declared);
            let key = Key::WitnessJvp(f.clone(), derivatives.fwd.clone());
            witness.jvp = Some(self.flat_once(key, declared, params, results));
        }
        if derivatives.bwd.is_some() || own_zero {
            let (params, results) = vjp_slots(declared);
            let key = Key::WitnessVjp(f.clone(), derivatives.bwd.clone());
            witness.vjp = Some(self.flat_once(key, declared, params, results));
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
            let (params, results) = (declared.params.clone(), declared.results.clone());
            witness.substitute = Some(self.flat_once(Key::Quiet(substitute), &declared, params, results));
        }
        witness
    }

    /// Declares a flat function if it is new.
    pub(crate) fn flat_once(
        &mut self,
        key: Key,
        of: &Declared,
        params: Vec<Slot>,
        results: Vec<Slot>,
    ) -> Func {
        match self.declared.get(&key) {
            Some(declared) => declared.func,
            None => self.declare_flat(key, of.sig.clone(), params, results).func,
        }
    }

    /// Declares the user's derivative of a function.
    fn user_derivative(&mut self, types: &mut Types, user: &FuncRef) -> Option<std::rc::Rc<Declared>> {
        let callable = self.canonical(Callable::Func(user.clone())).ok()?;
        Some(self.function(types, &callable))
    }
}

/// Splits `all` into the function's own inputs, grouped by parameter, and the remaining values.
fn own_inputs(body: &mut Body<'_, '_, '_>, f: &Declared, all: &[Value]) -> (Vec<Vec<Value>>, Vec<Value>) {
    let mut at = 0;
    let mut inputs = Vec::new();
    for param in &f.sig.params {
        let n = if param.is_input() { body.layout(param.ty).leaves.len() } else { 0 };
        inputs.push(all[at..at + n].to_vec());
        at += n;
    }
    (inputs, all[at..].to_vec())
}

/// Calls the function once more for its results if their differentials contain leaves that are not tangents:
/// the type in a value of interface type, or the flag of an optional. Returns an empty list otherwise.
fn primals_for_differentials(body: &mut Body<'_, '_, '_>, own: &Declared, all: &[Value]) -> Vec<Value> {
    let needed = own.sig.outputs().iter().any(|o| o.diff.as_ref().is_some_and(|map| !map.same.is_empty()));
    if !needed {
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
    let layout = body.layout(user);
    let mut values = primal.to_vec();
    if let Some(shadow) = body.shadow_values(own, primal) {
        let n = values.len();
        values = body.without_shadow(own, primal);
        let d = body.shadow_as_differential(user, &shadow, n);
        values.extend(d);
        return values;
    }
    let (n, total) = (values.len(), layout.leaves.len());
    match differential {
        Some(d) => values.extend(d),
        None if body.lw.has_user_zero(own) => {
            let zero = body.dzero(own, span);
            values.extend(zero);
        }
        None => values.extend(layout.leaves[n.min(total)..].iter().map(|l| body.b.zero(l.ty, false))),
    }
    values
}

/// Builds the jvp of `f` from the user's forward derivative.
pub(crate) fn build_jvp(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    f: &FuncRef,
    user: Option<&FuncRef>,
    declared: &Declared,
) -> Option<Function> {
    let Some(user) = user else { return build_zero_jvp(lw, types, f, declared) };
    let user = lw.user_derivative(types, user)?;
    let own = lw.function(types, &Callable::Func(f.clone()));
    let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
    body.b.span = crate::ir_span(user.span);
    let all: Vec<Value> = declared.params.iter().map(|slot| body.b.param(slot.clone())).collect();
    let (inputs, tangents) = own_inputs(&mut body, &own, &all);
    if user.sig.params.len() != own.sig.params.len() {
        return mismatch(&mut body, &user, declared);
    }
    let mut at = 0;
    let mut args = Vec::new();
    for ((param, theirs), primal) in own.sig.params.iter().zip(&user.sig.params).zip(&inputs) {
        if !param.is_input() {
            args.push((Vec::new(), theirs.ty));
            continue;
        }
        let n = n_tangents(param.diff.as_deref());
        let d = param.diff.as_ref().map(|map| body.spread(map, primal, &tangents[at..at + n]));
        at += n;
        args.push((user_input(&mut body, theirs.ty, param.ty, primal, d, user.span), theirs.ty));
    }
    let groups = call_groups(&mut body, &user, &args)?;
    // These are the outputs of the user's function, by index of the parameter.
    let (mut primals, mut outs) = (Vec::new(), Vec::new());
    for output in own.sig.outputs() {
        let theirs = user.sig.outputs().iter().position(|o| o.param == output.param);
        let Some(values) = theirs.map(|k| groups[k].clone()) else {
            return mismatch(&mut body, &user, declared);
        };
        let theirs_ty = user.sig.outputs()[theirs.unwrap_or(0)].ty;
        let is_pair = body.lw.pair_of(theirs_ty).is_some();
        let (primal, d) = body.split_pair(output.ty, &values);
        let primal = if is_pair { body.with_shadow(output.ty, primal, d) } else { primal.to_vec() };
        primals.extend(primal);
        if let Some(map) = &output.diff {
            let d = if is_pair { d } else { &[] };
            let t = body.gather(map, d);
            outs.extend(t);
        }
    }
    primals.extend(outs);
    body.finish(primals, declared)
}

/// Builds the vjp of `f` from the user's backward derivative.
pub(crate) fn build_vjp(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    f: &FuncRef,
    user: Option<&FuncRef>,
    declared: &Declared,
) -> Option<Function> {
    let Some(user) = user else { return build_zero_vjp(lw, types, f, declared) };
    let user = lw.user_derivative(types, user)?;
    let own = lw.function(types, &Callable::Func(f.clone()));
    let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
    body.b.span = crate::ir_span(user.span);
    let all: Vec<Value> = declared.params.iter().map(|slot| body.b.param(slot.clone())).collect();
    let (inputs, cotangents) = own_inputs(&mut body, &own, &all);
    // First, the differentials of the outputs are assembled.
    let mut at = 0;
    let mut result = Vec::new();
    let mut given: Vec<Option<Vec<Value>>> = vec![None; own.sig.params.len()];
    let mut primals = primals_for_differentials(&mut body, &own, &all).into_iter();
    for output in own.sig.outputs() {
        let n = n_tangents(output.diff.as_deref());
        let primal: Vec<Value> = primals.by_ref().take(body.layout(output.ty).leaves.len()).collect();
        if let Some(map) = &output.diff {
            let d = body.spread(map, &primal, &cotangents[at..at + n]);
            match output.param {
                None => result = d,
                Some(k) => given[k] = Some(d),
            }
        }
        at += n;
    }
    let mut args = Vec::new();
    let mut positions: Vec<Option<usize>> = Vec::new();
    let mut theirs = user.sig.params.iter();
    for ((param, primal), d) in own.sig.params.iter().zip(&inputs).zip(given) {
        if param.dir == Direction::Out && param.diff.is_none() {
            positions.push(None);
            continue;
        }
        let Some(user_param) = theirs.next() else { return mismatch(&mut body, &user, declared) };
        positions.push(Some(args.len()));
        let values = match param.dir {
            Direction::Out => d.unwrap_or_default(),
            _ => user_input(&mut body, user_param.ty, param.ty, primal, d, user.span),
        };
        args.push((values, user_param.ty));
    }
    if own.sig.ret_diff.is_some() {
        let Some(user_param) = theirs.next() else { return mismatch(&mut body, &user, declared) };
        args.push((result, user_param.ty));
    }
    if theirs.next().is_some() {
        return mismatch(&mut body, &user, declared);
    }
    let groups = call_groups(&mut body, &user, &args)?;
    let mut results = Vec::new();
    for (param, position) in own.sig.params.iter().zip(positions) {
        let (Some(map), true) = (&param.diff, param.is_input()) else { continue };
        let outputs = user.sig.outputs();
        let group = outputs.iter().position(|o| o.param.is_some() && o.param == position);
        let d = match group {
            Some(k) if body.lw.pair_of(outputs[k].ty).is_some() => {
                let values = groups[k].clone();
                body.split_pair(param.ty, &values).1.to_vec()
            }
            _ => Vec::new(),
        };
        let t = body.gather(map, &d);
        results.extend(t);
    }
    body.finish(results, declared)
}

/// Builds the jvp of a `[TreatAsDifferentiable]` function: a call of the function, and the zeros of its
/// result types.
fn build_zero_jvp(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    f: &FuncRef,
    declared: &Declared,
) -> Option<Function> {
    let own = lw.function(types, &Callable::Func(f.clone()));
    let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
    body.b.span = crate::ir_span(own.span);
    let all: Vec<Value> = declared.params.iter().map(|slot| body.b.param(slot.clone())).collect();
    let mut results = body.b.call_func(own.func, &own.results, &all[..own.params.len()]);
    for output in own.sig.outputs() {
        if let Some(map) = &output.diff {
            let zero = body.dzero(output.ty, own.span);
            let tangents = body.gather(map, &zero);
            results.extend(tangents);
        }
    }
    body.finish(results, declared)
}

/// Builds the vjp of a `[TreatAsDifferentiable]` function: the zeros of its parameter types.
fn build_zero_vjp(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    f: &FuncRef,
    declared: &Declared,
) -> Option<Function> {
    let own = lw.function(types, &Callable::Func(f.clone()));
    let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
    body.b.span = crate::ir_span(own.span);
    for slot in &declared.params {
        body.b.param(slot.clone());
    }
    let mut results = Vec::new();
    for param in own.sig.params.iter().filter(|p| p.is_input()) {
        if let Some(map) = &param.diff {
            let zero = body.dzero(param.ty, own.span);
            let cotangents = body.gather(map, &zero);
            results.extend(cotangents);
        }
    }
    body.finish(results, declared)
}

/// Calls the user's function and groups its results by output.
pub(crate) fn call_groups(
    body: &mut Body<'_, '_, '_>,
    user: &Declared,
    args: &[(Vec<Value>, Ty)],
) -> Option<Vec<Vec<Value>>> {
    let mut flat = Vec::new();
    for (param, (values, ty)) in user.sig.params.iter().zip(args) {
        if param.is_input() {
            let values = body.convert(values.clone(), *ty, param.ty, user.span);
            flat.extend(values);
        }
    }
    let fits = flat.len() == user.params.len()
        && flat.iter().zip(&user.params).all(|(&v, slot)| body.b.func.ty(v) == slot.ty);
    if !fits {
        body.lw.diagnostics.push(syntax::Diagnostic::error(
            "E31149",
            user.span,
            "the parameters of this derivative do not fit the function that it belongs to",
        ));
        return None;
    }
    let results = body.b.call_func(user.func, &user.results, &flat);
    let mut at = 0;
    let mut groups = Vec::new();
    for output in user.sig.outputs() {
        let n = body.layout(output.ty).leaves.len();
        groups.push(results[at..at + n].to_vec());
        at += n;
    }
    Some(groups)
}

fn mismatch(body: &mut Body<'_, '_, '_>, user: &Declared, declared: &Declared) -> Option<Function> {
    body.lw.diagnostics.push(
        syntax::Diagnostic::error(
            "E31149",
            user.span,
            "the parameters of this derivative do not fit the function that it belongs to",
        )
        .note(declared.span, "the function"),
    );
    None
}
