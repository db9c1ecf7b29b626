//! Checks `__func_extension __apply(f)(…) -> Tuple<R, C>`: a primal for reverse mode that returns a context.
//!
//! The function takes the parameters of `f` (a receiver is `this` in its body) and returns the result
//! together with a context, or the context alone if `f` returns nothing. `C::operator()` is the backward
//! derivative. Its parameters are, for each differentiable parameter in order, the differential: `out` for an
//! `in` parameter, `inout` for an `inout` one, `in` for an `out` one; then the differential of the result.

use syntax::{DeclId, Diagnostic, ExprId};

use crate::exprs::infer::Checker;
use crate::generics::conformance::FacetKind;
use crate::names::lookup::Ref;
use crate::program::Program;
use crate::signature::{Applied, Direction, Subst, ThisSig};
use crate::tables::FuncRef;
use crate::types::{GenericArg, Ty, TyKind};

impl Program {
    /// The function that an `__apply` extension extends, as named in the extension.
    pub(crate) fn apply_target(&self, decl: DeclId) -> Option<ExprId> {
        let attribute = self.ast.decls[decl].attributes.iter().find(|a| a.name == self.words.apply_of)?;
        attribute.args.first().copied()
    }

    /// The receiver seen by the body of an `__apply` extension: that of the method with as many parameters.
    pub(crate) fn apply_this(&mut self, decl: DeclId) -> Option<ThisSig> {
        let target = self.apply_target(decl)?;
        let n = self.params_of(decl).len();
        let before = self.diagnostics.len();
        let found = Checker::new(self, decl).resolve(target);
        self.diagnostics.truncate(before);
        let Ref::Funcs(candidates, _) = found else { return None };
        for candidate in candidates {
            let raw = self.raw_signature(candidate.decl);
            if raw.params.len() == n
                && let Some(this) = &raw.this
                && let Some(ty) = candidate.self_ty
            {
                return Some(ThisSig { ty, ..this.clone() });
            }
        }
        None
    }

    /// Instantiates an extension with the generic arguments for which it extends this function.
    pub(crate) fn fit_apply(&mut self, func: &FuncRef, decl: DeclId, target: ExprId) -> Option<Applied> {
        let before = self.diagnostics.len();
        let found = Checker::new(self, decl).resolve(target);
        self.diagnostics.truncate(before);
        let Ref::Funcs(candidates, _) = found else { return None };
        for candidate in candidates {
            if candidate.decl != func.decl {
                continue;
            }
            let own = self.own_params(decl);
            let mut env = Subst::default();
            if let (Some(pattern), Some(ty)) = (candidate.self_ty, func.self_ty)
                && !self.unify(pattern, ty, &own, &mut env)
            {
                continue;
            }
            let n = self.own_params(func.decl).len().min(func.args.len());
            let given = func.args[func.args.len() - n..].to_vec();
            let explicit = candidate.explicit.iter().zip(&given).all(|(a, b)| match (a, b) {
                (GenericArg::Type(a), GenericArg::Type(b)) => self.unify(*a, *b, &own, &mut env),
                (GenericArg::Val(a), GenericArg::Val(b)) => self.unify_val(a, b, &own, &mut env),
                _ => false,
            });
            if explicit && let Some(applied) = self.applied(func, decl, &own, env) {
                return Some(applied);
            }
        }
        None
    }

    fn applied(&mut self, func: &FuncRef, decl: DeclId, own: &[DeclId], mut env: Subst) -> Option<Applied> {
        let wanted = self.func_signature(func);
        let raw = self.raw_signature(decl);
        if raw.params.len() != wanted.params.len() {
            return None;
        }
        for (have, want) in raw.params.iter().zip(&wanted.params) {
            let known = self.substitute(have.ty, &env);
            if have.dir != want.dir || known != want.ty && !self.unify(have.ty, want.ty, own, &mut env) {
                return None;
            }
        }
        if own.iter().any(|&p| env.get(p).is_none()) || !self.satisfies(decl, &env) {
            return None;
        }
        let args = own.iter().filter_map(|&p| env.get(p).cloned()).collect();
        let apply = FuncRef { decl, args, self_ty: None };
        let signature = self.func_signature(&apply);
        let fits = signature.params.iter().zip(&wanted.params).all(|(a, b)| a.ty == b.ty);
        if !fits {
            return None;
        }
        let context = match self.types[signature.ret].clone() {
            _ if wanted.ret == Ty::VOID => signature.ret,
            TyKind::Tuple(parts) if parts.len() == 2 && parts[0] == wanted.ret => parts[1],
            _ => {
                let message = format!(
                    "'__apply' of this function has to return 'Tuple<{}, C>'",
                    self.type_name(wanted.ret)
                );
                self.bad_apply(
                    decl,
                    message,
                    "'C' is a struct of yours whose 'operator()' is the backward derivative",
                );
                return None;
            }
        };
        let propagate = self.propagate_of(context, func, decl)?;
        Some(Applied { apply, propagate })
    }

    /// The call operator of a context that has the parameters of a backward derivative.
    fn propagate_of(&mut self, context: Ty, func: &FuncRef, decl: DeclId) -> Option<FuncRef> {
        let wanted = self.propagate_params(func);
        let name = self.words.call;
        for facet in self.facets(context).iter().filter(|f| f.kind != FacetKind::Interface) {
            let Some(decls) = self.names_in(facet.container).and_then(|n| n.get(&name)).cloned() else {
                continue;
            };
            for operator in decls {
                if self.is_static(operator) || self.ast.decls[operator].generics.is_some() {
                    continue;
                }
                let args = self.all_generic_params(operator);
                let args = args.into_iter().filter_map(|p| facet.env.get(p).cloned()).collect();
                let found = FuncRef { decl: operator, args, self_ty: Some(facet.self_ty) };
                let params = self.func_signature(&found).params;
                if params.len() == wanted.len()
                    && params.iter().zip(&wanted).all(|(p, w)| (p.dir, p.ty) == *w)
                {
                    return Some(found);
                }
            }
        }
        let words: Vec<String> = wanted
            .iter()
            .map(|(dir, ty)| match dir {
                Direction::Out => format!("out {}", self.type_name(*ty)),
                Direction::InOut => format!("inout {}", self.type_name(*ty)),
                Direction::In | Direction::Ref | Direction::ConstRef => self.type_name(*ty),
            })
            .collect();
        let message = format!("'{}' is no context of this function", self.type_name(context));
        self.bad_apply(decl, message, &format!("it needs 'void operator()({})'", words.join(", ")));
        None
    }

    /// The parameters of a context's call operator.
    pub(crate) fn propagate_params(&mut self, func: &FuncRef) -> Vec<(Direction, Ty)> {
        let signature = self.func_signature(func);
        let mut inputs = Vec::new();
        if let Some(this) = &signature.this {
            let dir = if this.mutating { Direction::InOut } else { Direction::In };
            inputs.push((this.ty, dir, this.differentiable && !this.pointer_like));
        }
        inputs.extend(signature.params.iter().map(|p| (p.ty, p.dir, p.differentiable && !p.pointer_like)));
        let mut wanted = Vec::new();
        for (ty, dir, differentiable) in inputs {
            if let (true, Some(differential)) = (differentiable, self.differential(ty)) {
                let dir = match dir {
                    Direction::In | Direction::ConstRef => Direction::Out,
                    Direction::Out => Direction::In,
                    Direction::InOut | Direction::Ref => Direction::InOut,
                };
                wanted.push((dir, differential));
            }
        }
        if signature.ret_differentiable
            && let Some(differential) = self.differential(signature.ret)
        {
            wanted.push((Direction::In, differential));
        }
        wanted
    }

    fn bad_apply(&mut self, decl: DeclId, message: String, help: &str) {
        let span = self.ast.decls[decl].name_span;
        if !self.diagnostics.iter().any(|d| d.primary.span == span) {
            self.report(Diagnostic::error("E31149", span, message).help(help));
        }
    }
}
