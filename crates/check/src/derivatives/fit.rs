//! Decides by its parameters whether a function is a derivative of another.
//!
//! A derivative function fits if its parameters are those of the derived signature, after its own generic
//! arguments are inferred from them. The same search thus serves overloads, generics and members alike.

use syntax::{DeclId, Diagnostic, ExprId, Message};

use crate::exprs::infer::Checker;
use crate::names::enter::last_name;
use crate::names::lookup::Ref;
use crate::program::Program;
use crate::signature::{ParamSig, Role, Signature, Subst};
use crate::tables::{Callable, DiffOp, FuncRef};
use crate::types::conversion::Source;
use crate::types::follow_up::text;
use crate::types::{GenericArg, Ty, TyKind};
use crate::view::ModuleId;

impl Program {
    /// Returns true if the target that a `…Of` attribute names may be this function.
    pub(crate) fn targets(&mut self, derivative: DeclId, target: ExprId, func: &FuncRef, role: Role) -> bool {
        let candidates = self.named_functions(derivative, target);
        let is_method = !self.is_static(derivative);
        for candidate in &candidates {
            if candidate.decl != func.decl {
                continue;
            }
            // A method that uses `this` can only be the derivative of a method.
            if is_method && candidate.self_ty.is_none() {
                return false;
            }
            // If a candidate in an inner scope fits as well, the attribute refers to that one.
            for nearer in candidates.iter().filter(|c| c.rank < candidate.rank) {
                let args = self.identity_args(nearer.decl);
                let other = FuncRef { decl: nearer.decl, args, self_ty: nearer.self_ty };
                if self.fit_derivative(&other, derivative, None, &[], role).is_some() {
                    return false;
                }
            }
            if candidate.explicit.is_empty() {
                return true;
            }
            // `f<float>` means these arguments only; arguments that are the derivative's own parameters match
            // anything.
            let own = self.own_params(derivative);
            let n = self.own_params(func.decl).len().min(candidate.explicit.len());
            let given = &func.args[func.args.len() - n.min(func.args.len())..];
            let mut env = Subst::default();
            return candidate.explicit.iter().zip(given).all(|(a, b)| self.unify_arg(a, b, &own, &mut env));
        }
        false
    }

    /// The function that an attribute of `decl` names.
    pub(crate) fn named_derivative(
        &mut self,
        func: &FuncRef,
        decl: DeclId,
        expr: ExprId,
        role: Role,
    ) -> Option<FuncRef> {
        let before = self.diagnostics.len();
        let mut checker = Checker::new(self, decl);
        let found = checker.resolve(expr);
        let Ref::Funcs(candidates, _) = found else {
            self.diagnostics.truncate(before);
            let span = self.span(expr);
            let name = last_name(&self.ast, expr).map_or("", |n| self.ast.name(n)).to_string();
            let missing = !self.is_told(span);
            if missing {
                self.error("E31148", span, format!("'{name}' is not a function in scope"));
            }
            return None;
        };
        let env = self.subst_of(func);
        for candidate in &candidates {
            let explicit: Vec<_> = candidate.explicit.iter().map(|a| self.substitute_arg(a, &env)).collect();
            let self_ty = candidate.self_ty.map(|ty| self.substitute(ty, &env));
            if let Some(found) = self.fit_derivative(func, candidate.decl, self_ty, &explicit, role) {
                return Some(found);
            }
        }
        let span = self.span(expr);
        let unknown =
            self.has_unknown_bases(func) || candidates.iter().any(|c| self.has_unknown_types(c.decl));
        if !self.is_told(span) && !unknown {
            let name = last_name(&self.ast, expr).map_or("", |n| self.ast.name(n)).to_string();
            let help = self.wanted_text(func, role);
            let throws = |decl| self.ast.throws.contains_key(&decl);
            let throws_other = candidates.iter().all(|c| throws(c.decl) != throws(func.decl));
            let needs_object = candidates.iter().all(|c| !self.is_static(c.decl));
            let (code, message) = if self.is_static(func.decl) && needs_object {
                (
                    "E31156",
                    format!("'{name}' is not static, as the derivative of a static function has to be"),
                )
            } else if throws_other {
                ("E31149", format!("'{name}' has to throw what this function throws"))
            } else {
                let message =
                    format!("'{name}' does not have the parameters of a derivative of this function");
                ("E31149", message)
            };
            self.report(Diagnostic::error(code, span, message).help(help));
        }
        None
    }

    fn wanted_signature(&mut self, func: &FuncRef, role: Role) -> Signature {
        // Rule A.11: the declaration determines which parameters become pairs.
        let op = match role {
            Role::Forward => DiffOp::Fwd,
            Role::Backward => DiffOp::Bwd,
            Role::Substitute | Role::Apply => return self.func_signature(func),
        };
        self.callable_signature(&Callable::of(func.clone(), &[op], ModuleId(0)))
    }

    /// Returns true if a function may be a derivative for some generic arguments, judged by the number of its
    /// parameters and the presence of a result.
    pub(crate) fn may_fit(&mut self, func: &FuncRef, derivative: DeclId, role: Role) -> bool {
        let wanted = self.wanted_signature(func, role);
        let have = self.raw_signature(derivative);
        let with_this = usize::from(self.func_signature(func).this.is_some() && !self.is_static(derivative));
        let has_pack = |p: &crate::ParamSig, this: &Program| this.is_pack(p.ty);
        // Differentiability may be determined by the arguments alone.
        let is_late = self.is_judged_late(func.decl);
        if is_late || wanted.params.iter().chain(&have.params).any(|p| has_pack(p, self)) {
            return true;
        }
        let n = have.params.len() + with_this;
        let counts = n == wanted.params.len() || with_this == 1 && have.params.len() == wanted.params.len();
        counts && (have.ret == Ty::VOID) == (wanted.ret == Ty::VOID)
    }

    /// The signature that a derivative of a function needs, as text.
    pub(crate) fn wanted_text(&mut self, func: &FuncRef, role: Role) -> Message {
        let wanted = self.wanted_signature(func, role);
        let params = self.shown_params(wanted.params.iter().map(|p| (p.dir, p.ty)));
        match self.error_of(func) {
            Some(error) => text!(
                "its signature has to be '({}) throws {} -> {}'",
                params,
                self.shown(error),
                self.shown(wanted.ret)
            ),
            None => text!("its signature has to be '({}) -> {}'", params, self.shown(wanted.ret)),
        }
    }

    /// Returns true if an integer, or a vector of integers, converts to what a derivative takes in its place, as it does
    /// in any call. Numbers with a derivative do not: those of one type are not those of another.
    fn takes_integer(&mut self, have: &ParamSig, want: &ParamSig) -> bool {
        let is_integer = |this: &Program, ty: Ty| match this.types[ty] {
            TyKind::Scalar(scalar) => scalar.is_int(),
            TyKind::Vector(element, _, _) => {
                matches!(this.types[element], TyKind::Scalar(scalar) if scalar.is_int())
            }
            _ => false,
        };
        !have.dir.is_written()
            && !want.dir.is_written()
            && have.ty != want.ty
            && is_integer(self, have.ty)
            && is_integer(self, want.ty)
            && self.conversion(want.ty, have.ty, Source::default()).is_some()
    }

    /// Returns a derivative function with its generic arguments, if its parameters match.
    pub(crate) fn fit_derivative(
        &mut self,
        func: &FuncRef,
        decl: DeclId,
        self_ty: Option<Ty>,
        explicit: &[GenericArg],
        role: Role,
    ) -> Option<FuncRef> {
        let derivative = self.with_pair_receiver(decl);
        let container = self.container_of(decl);
        let has_pair = self.is_deriv_method(decl);
        let is_static = self.is_static(decl);
        let params = self.all_generic_params(decl);
        // The receiver is the explicit first parameter, or the derivative is a member that uses `this` without
        // tangent.
        let wanted = if is_static || has_pair {
            self.wanted_signature(func, role)
        } else if self.is_static(func.decl) {
            // There is no object on which to call the member.
            return None;
        } else {
            let member = Signature { this: None, ..self.func_signature(func) };
            match role {
                Role::Forward => self.apply_op(DiffOp::Fwd, &member),
                Role::Backward => self.apply_op(DiffOp::Bwd, &member),
                Role::Substitute | Role::Apply => member,
            }
        };
        if wanted.params.len() != derivative.params.len() {
            return None;
        }
        let mut env = Subst::default();
        env.map.extend(self.own_params(decl).into_iter().zip(explicit.iter().cloned()));
        // The arguments for the enclosing type, of which the derivative is a member.
        if let Some(container) = container
            && let Some(ty) = self_ty.or(func.self_ty)
        {
            let generic = self.self_type(container);
            self.unify(generic, ty, &params, &mut env);
        }
        let both = derivative.params.iter().zip(&wanted.params);
        let converts: Vec<bool> = both.map(|(have, want)| self.takes_integer(have, want)).collect();
        let pairs = derivative.params.iter().zip(&wanted.params).zip(&converts);
        let pairs = pairs.filter(|pair| !pair.1).map(|((have, want), _)| (have.ty, want.ty));
        if !self.fit_all(pairs, &params, &mut env) {
            return None;
        }
        // For a function without parameters, assign the generic arguments by position.
        if params.len() == func.args.len() {
            self.fill_in(&params, &func.args, &mut env);
        }
        if params.iter().any(|&p| env.get(p).is_none()) {
            return None;
        }
        let fits = |have: Ty, want: Ty| have == want || have == Ty::ERROR || want == Ty::ERROR;
        let mut same =
            derivative.params.iter().zip(&wanted.params).zip(converts).all(|((have, want), converts)| {
                let dir = have.dir == want.dir || !have.dir.is_written() && !want.dir.is_written();
                dir && (converts || fits(self.substitute(have.ty, &env), want.ty))
            });
        same &= fits(self.substitute(derivative.ret, &env), wanted.ret);
        if !same || !self.satisfies(decl, &env) {
            return None;
        }
        let self_ty = match container {
            Some(container) if is_static => {
                let generic = self.self_type(container);
                Some(self.substitute(generic, &env))
            }
            container => func.self_ty.filter(|_| container.is_some()),
        };
        let found = self.func_ref(decl, &env, self_ty);
        // A derivative throws what its function throws: whoever differentiates a `try` relies on it.
        let errors = [func, &found].map(|f| self.error_of(f));
        let same = errors[0] == errors[1] || errors.contains(&Some(Ty::ERROR));
        same.then_some(found)
    }
}
