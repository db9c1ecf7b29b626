//! `__apply` extensions as flat functions: the primal with its context, and the context's call operator.
//!
//! `apply : (x) ↦ (y, c)` and `propagate : (c, ȳ) ↦ x̄`, with the leaves of the context as `c`. What `apply`
//! stores is what `propagate` gets; nothing of the function itself is run again.

use check::signature::Subst;
use check::tables::{Callable, FuncRef};
use check::types::{Ty, TyKind};
use check::{Applied, Direction};
use ir::{Func, Function, Slot, Types, Value};

use crate::Lowerer;
use crate::body::Body;
use crate::derivatives::{n_tangents, vjp_slots};
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
        let key = Key::WitnessApply(f.clone());
        let apply = self.declare_flat(key, declared.sig.clone(), declared.params.clone(), results).func;
        let (all, cotangents) = vjp_slots(declared);
        let params = context.into_iter().chain(all[declared.params.len()..].iter().cloned()).collect();
        let key = Key::WitnessPropagate(f.clone());
        let propagate = self.declare_flat(key, declared.sig.clone(), params, cotangents).func;
        (Some(apply), Some(propagate))
    }

    /// The context in what an `__apply` of a function with this result returns.
    fn context_of(&self, ret: Ty, given: Ty) -> Ty {
        match &self.program.types[given] {
            TyKind::Tuple(parts) if ret != Ty::VOID && parts.len() == 2 => parts[1],
            _ => given,
        }
    }
}

/// The user's `__apply`, with the context after all other results.
pub(crate) fn build_apply(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    f: &FuncRef,
    declared: &Declared,
) -> Option<Function> {
    let applied = lw.program.derivatives_of(f).apply?;
    let callable = lw.canonical(Callable::Func(applied.apply)).ok()?;
    let user = lw.function(types, &callable);
    let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
    body.b.span = crate::ir_span(user.span);
    let args: Vec<Value> = declared.params.iter().map(|slot| body.b.param(slot.clone())).collect();
    let results = body.b.call_func(user.func, &user.results, &args);
    // the returned value, the context, what is written
    let n_returned = body.layout(declared.sig.ret).leaves.len();
    let n_given = body.layout(user.sig.ret).leaves.len();
    let (given, written) = results.split_at(n_given);
    let (returned, context) = given.split_at(n_returned);
    let results = [returned, written, context].concat();
    Some(body.b.finish(results, declared.results.clone()))
}

/// The context's call operator, with cotangents as leaves.
pub(crate) fn build_propagate(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    f: &FuncRef,
    declared: &Declared,
) -> Option<Function> {
    let applied = lw.program.derivatives_of(f).apply?;
    let callable = lw.canonical(Callable::Func(applied.propagate)).ok()?;
    let user = lw.function(types, &callable);
    let own = lw.function(types, &Callable::Func(f.clone()));
    let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
    body.b.span = crate::ir_span(user.span);
    let all: Vec<Value> = declared.params.iter().map(|slot| body.b.param(slot.clone())).collect();
    let this = user.sig.params.first()?.ty;
    let n_context = body.layout(this).leaves.len();
    let (context, cotangents) = all.split_at(n_context);
    // the differential of each of the function's outputs
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
    // by number of the user's parameter: the function's parameter that it gives the differential of
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
    Some(body.b.finish(results, declared.results.clone()))
}
