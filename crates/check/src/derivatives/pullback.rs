//! Types `__apply(f)(x) ↦ (f(x), pullback)`: the value together with a function that computes the gradient at
//! this point.
//!
//! `pullback(out dx…, dResult)` has the parameters of the call operator of a context (see [`crate::derivatives::apply`]).
//! If `f` has an `__apply` extension, the pullback is its context. Otherwise it is a value of a struct that
//! is made for `f`: the struct holds the arguments and, in unnamed storage, the residuals of reverse mode;
//! its call operator runs the backward half with them. The struct is declared inside `f`, so that it has the
//! generic parameters of `f`. It is its own differential and its call operator is differentiable, so
//! pullbacks can be differentiated like any function.
//!
//! `__linearize(f)(x) ↦ (f(x), pushforward)` does the same for forward mode: `dResult = pushforward(dx…)` can
//! be called any number of times, with `out` for the differentials of `out` parameters and `inout` for those
//! of `inout` parameters.

use std::rc::Rc;

use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, keywords as kw};

use crate::facts::{Magic, Names, Pullback};
use crate::program::Program;
use crate::signature::Direction;
use crate::tables::FuncRef;
use crate::types::{Ty, TyKind};
use crate::view::{ModuleId, View};

/// The function that a pullback or pushforward belongs to, and the module that requested it.
#[derive(Clone, Debug)]
pub struct HalfOf {
    /// The function.
    pub func: FuncRef,
    /// The requesting module.
    pub asks: ModuleId,
    /// The half is a pushforward rather than a pullback.
    pub forward: bool,
}

impl Program {
    /// The return type of `__apply(f)` and `__linearize(f)`: a tuple of the result and the pullback or
    /// pushforward, or the latter alone if `f` returns no value.
    pub(crate) fn apply_result(&mut self, func: &FuncRef, asks: ModuleId, forward: bool) -> Ty {
        if !forward && let Some(applied) = self.derivatives_of(func, View::of(asks)).apply {
            return self.func_signature(&applied.apply).ret;
        }
        let context = self.pullback_struct(func.decl, asks, forward);
        let context = self.types.intern(TyKind::Struct(context, func.args.clone()));
        let ret = self.func_signature(func).ret;
        if ret == Ty::VOID { context } else { self.types.intern(TyKind::Tuple(vec![ret, context])) }
    }

    /// The function whose derivative a pullback's call operator runs, and the module that requested it.
    pub fn pullback_of(&mut self, operator: &FuncRef) -> Option<HalfOf> {
        self.with_pullback(operator.decl, operator.args.clone())
    }

    /// The function whose pullbacks have this type, and the module that requested them.
    pub fn pullbacks_of_type(&mut self, ty: Ty) -> Option<HalfOf> {
        let TyKind::Struct(decl, args) = self.types[ty].clone() else { return None };
        self.with_pullback(decl, args)
    }

    fn with_pullback(&mut self, decl: DeclId, args: crate::types::Args) -> Option<HalfOf> {
        let Pullback { of, asks, forward, .. } = *self.made.pullback_decls.get(&decl)?;
        let self_ty = self.container_of(of).map(|c| self.self_type(c));
        let func = FuncRef { decl: of, args, self_ty: None };
        let env = self.subst_of(&func);
        let self_ty = self_ty.map(|ty| self.substitute(ty, &env));
        Some(HalfOf { func: FuncRef { self_ty, ..func }, asks, forward })
    }

    /// The module that requested the derivative which a pullback's call operator runs.
    pub fn asked_by(&self, operator: &FuncRef) -> Option<ModuleId> {
        self.made.pullback_decls.get(&operator.decl).map(|p| p.asks)
    }

    fn pullback_struct(&mut self, of: DeclId, asks: ModuleId, forward: bool) -> DeclId {
        if let Some(known) = self.made.pullbacks.get(&(of, asks, forward)) {
            return known.context;
        }
        let signature = self.raw_signature(of);
        let span = self.name_span(of);
        let word = if forward { "pushforward" } else { "pullback" };
        let name = format!("{word} of {}", self.ast.decl_name(of));
        let name = self.ast.symbols.intern(&name);
        let context = self.add_owner(name, span, of);
        let mut members = Vec::new();
        for (k, input) in signature.inputs().into_iter().enumerate() {
            if input.dir == Direction::Out {
                continue;
            }
            let name = self.ast.symbols.intern(&format!("x{k}"));
            let modifiers = match input.has_differential() {
                true => Modifiers::default(),
                false => Modifiers::NO_DIFF,
            };
            members.push(self.add_field(name, input.ty, modifiers, context));
        }
        let operator = self.add_owner(kw::CALL_OPERATOR, span, context);
        let func = self.own_ref(of);
        let mut params = Vec::new();
        let wanted = if forward { self.push_params(&func) } else { self.propagate_params(&func) };
        for (k, (dir, ty)) in wanted.into_iter().enumerate() {
            let name = self.ast.symbols.intern(&format!("d{k}"));
            params.push(self.add_param(name, ty, dir.modifiers(), operator));
        }
        self.complete(operator, DeclKind::Func { params, result: None, body: None });
        if forward
            && signature.returns_differential()
            && let Some(differential) = self.differential(signature.ret)
        {
            self.made.results.insert(operator, differential);
        }
        self.made.differentiable.insert(operator);
        members.push(operator);
        let mut names = Names::default();
        names.entry(kw::CALL_OPERATOR).or_default().push(operator);
        self.complete(context, DeclKind::Struct { bases: Vec::new(), members });
        self.scopes.members.insert(context, Rc::new(names));
        let bases: Vec<Ty> = self.magic_type(Magic::Differentiable).into_iter().collect();
        self.queries.bases.insert(context, bases.into());
        let pullback = Pullback { of, asks, context, forward };
        self.made.pullbacks.insert((of, asks, forward), pullback);
        self.made.pullback_decls.insert(operator, pullback);
        self.made.pullback_decls.insert(context, pullback);
        context
    }

    /// The parameters of the call operator of a pushforward.
    fn push_params(&mut self, func: &FuncRef) -> Vec<(Direction, Ty)> {
        let signature = self.func_signature(func);
        self.differentials_of_inputs(&signature, [Direction::In, Direction::Out])
    }
}
