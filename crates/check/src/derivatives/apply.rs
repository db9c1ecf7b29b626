//! Checks `__func_extension __apply(f)(…) -> Tuple<R, C>`: a primal for reverse mode that returns a context.
//!
//! The function takes the parameters of `f` (a receiver is `this` in its body) and returns the result
//! together with a context, or the context alone if `f` returns nothing. `C::operator()` is the backward
//! derivative. Its parameters are, for each differentiable parameter in order, the differential: `out` for an
//! `in` parameter, `inout` for an `inout` one, `in` for an `out` one; then the differential of the result.

use syntax::{DeclId, Diagnostic, ExprId, Message, keywords as kw};

use crate::program::Program;
use crate::signature::{Applied, Direction, ParamSig, Signature, Subst};
use crate::tables::FuncRef;
use crate::types::follow_up::text;
use crate::types::{Ty, TyKind};

impl Program {
    /// The function that an `__apply` extension extends, as named in the extension.
    pub(crate) fn apply_target(&self, decl: DeclId) -> Option<ExprId> {
        let extension = self.ast.extensions.get(&decl)?;
        (extension.op == kw::APPLY).then_some(extension.target)
    }

    /// The receiver seen by the body of an `__apply` extension: that of the method with as many parameters.
    pub(crate) fn apply_this(&mut self, decl: DeclId) -> Option<ParamSig> {
        let target = self.apply_target(decl)?;
        let n = self.params_of(decl).len();
        for candidate in self.named_functions(decl, target) {
            let raw = self.raw_signature(candidate.decl);
            if raw.params.len() == n
                && let Some(this) = &raw.this
                && let Some(ty) = candidate.self_ty
            {
                return Some(ParamSig { ty, ..this.clone() });
            }
        }
        None
    }

    /// Instantiates an extension with the generic arguments for which it extends this function.
    pub(crate) fn fit_apply(&mut self, func: &FuncRef, decl: DeclId, target: ExprId) -> Option<Applied> {
        for candidate in self.named_functions(decl, target) {
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
            let explicit = candidate.explicit.iter().zip(&given);
            let explicit = explicit.fold(true, |fits, (a, b)| fits && self.unify_arg(a, b, &own, &mut env));
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
        let same_way = raw.params.iter().zip(&wanted.params).all(|(have, want)| have.dir == want.dir);
        let pairs = raw.params.iter().zip(&wanted.params).map(|(have, want)| (have.ty, want.ty));
        if !same_way || !self.fit_all(pairs, own, &mut env) || !self.is_solved(decl, own, &env) {
            return None;
        }
        let apply = FuncRef { decl, args: self.known_args(decl, &env), self_ty: None };
        let signature = self.func_signature(&apply);
        if !signature.params.iter().zip(&wanted.params).all(|(a, b)| a.ty == b.ty) {
            return None;
        }
        if !self.throws_alike(func, &apply, &wanted) {
            return None;
        }
        let context = match self.types[signature.ret].clone() {
            _ if wanted.ret == Ty::VOID => signature.ret,
            TyKind::Tuple(parts) if parts.len() == 2 && parts[0] == wanted.ret => parts[1],
            _ => {
                let message =
                    text!("'__apply' of this function has to return 'Tuple<{}, C>'", self.shown(wanted.ret));
                let help = "'C' is a struct of yours whose 'operator()' is the backward derivative";
                self.bad_apply(decl, message, help);
                return None;
            }
        };
        let propagate = self.propagate_of(context, func, decl)?;
        Some(Applied { apply, propagate })
    }

    /// Reports an extension that does not throw what its function throws. One that throws has no context, so no pullback
    /// could take the differential of what a parameter was set to before.
    fn throws_alike(&mut self, func: &FuncRef, apply: &FuncRef, wanted: &Signature) -> bool {
        let [error, own] = [func, apply].map(|f| self.error_of(f));
        if error != own && own != Some(Ty::ERROR) {
            let name = self.ast.decl_name(func.decl).to_string();
            let message = format!("'__apply' of '{name}' has to throw what the function throws").into();
            let help = match error {
                Some(error) => text!("it is declared as 'throws {}'", self.shown(error)),
                None => "the function throws nothing".into(),
            };
            self.bad_apply(apply.decl, message, help);
            return false;
        }
        let writes = |p: &ParamSig| p.dir.is_written() && p.has_differential();
        if error.is_some() && wanted.inputs().iter().any(writes) {
            let message =
                "'__apply' is not for a function that throws and sets a parameter with a derivative";
            let help =
                "a '[BackwardDerivative]' has the parameter's differential where the function throws, too";
            self.bad_apply(apply.decl, message.into(), help);
            return false;
        }
        true
    }

    /// The call operator of a context that has the parameters of a backward derivative.
    fn propagate_of(&mut self, context: Ty, func: &FuncRef, decl: DeclId) -> Option<FuncRef> {
        let wanted = self.propagate_params(func);
        for found in self.methods(context, kw::CALL_OPERATOR) {
            let params = self.func_signature(&found).params;
            if params.iter().map(|p| (p.dir, p.ty)).eq(wanted.iter().copied()) {
                return Some(found);
            }
        }
        let help = text!("it needs 'void operator()({})'", self.shown_params(wanted));
        self.bad_apply(decl, text!("'{}' is no context of this function", self.shown(context)), help);
        None
    }

    /// The parameters of a context's call operator.
    pub(crate) fn propagate_params(&mut self, func: &FuncRef) -> Vec<(Direction, Ty)> {
        let signature = self.func_signature(func);
        let mut wanted = self.differentials_of_inputs(&signature, [Direction::Out, Direction::In]);
        let result = self.differential(signature.ret).filter(|_| signature.returns_differential());
        wanted.extend(result.map(|differential| (Direction::In, differential)));
        wanted
    }

    /// The differentials of a function's inputs, with the directions in which those of `in` and of `out`
    /// parameters are passed.
    pub(crate) fn differentials_of_inputs(
        &mut self,
        signature: &Signature,
        [of_in, of_out]: [Direction; 2],
    ) -> Vec<(Direction, Ty)> {
        let passed = |dir: Direction| match dir {
            Direction::In | Direction::ConstRef => of_in,
            Direction::Out => of_out,
            Direction::InOut | Direction::Ref => Direction::InOut,
        };
        let inputs = signature.inputs().into_iter().filter(ParamSig::has_differential);
        inputs.filter_map(|p| Some((passed(p.dir), self.differential(p.ty)?))).collect()
    }

    fn bad_apply(&mut self, decl: DeclId, message: Message, help: impl Into<Message>) {
        let span = self.name_span(decl);
        if !self.is_told(span) {
            self.report(Diagnostic::error("E31149", span, message).help(help));
        }
    }
}
