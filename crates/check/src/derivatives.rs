//! Where a function's derivatives come from: attributes on it, and `…Of` attributes on other functions.
//!
//! A derivative function fits if its parameters are those that the operator would give, after its own generic
//! arguments are inferred from them. So one search serves overloads, generics and members alike.

use std::rc::Rc;

use syntax::ast::{AccessorKind, DeclKind, ExprKind};
use syntax::{DeclId, ExprId};

use crate::infer::Checker;
use crate::lookup::Ref;
use crate::program::{Program, last_name};
use crate::signature::{Derivatives, Direction, Level, Signature, Subst};
use crate::sigs::DiffOp;
use crate::tables::FuncRef;
use crate::types::Ty;

/// What an attribute's function is to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Forward,
    Backward,
    Substitute,
}

impl Program {
    /// Where a function's derivatives come from: attributes on it and `…Of` attributes elsewhere.
    pub fn derivatives_of(&mut self, func: &FuncRef) -> Derivatives {
        if let Some(found) = self.derivatives.get(func) {
            return (**found).clone();
        }
        if !self.derivatives_busy.insert(func.clone()) {
            return Derivatives::default();
        }
        let mut out = Derivatives::default();
        for decl in self.redeclarations(func.decl) {
            let level = self.level(decl);
            out.level = out.level.max(level);
            out.treat_as_differentiable |= self.attribute(decl, "TreatAsDifferentiable").is_some();
            for (word, role) in [
                ("ForwardDerivative", Role::Forward),
                ("BackwardDerivative", Role::Backward),
                ("PrimalSubstitute", Role::Substitute),
            ] {
                let Some(&arg) = self.attribute(decl, word).and_then(|a| a.args.first()) else { continue };
                let slot = match role {
                    Role::Forward => &mut out.fwd,
                    Role::Backward => &mut out.bwd,
                    Role::Substitute => &mut out.substitute,
                };
                if slot.is_none() {
                    let found = self.named_derivative(func, decl, arg, role);
                    match role {
                        Role::Forward => out.fwd = found,
                        Role::Backward => out.bwd = found,
                        Role::Substitute => out.substitute = found,
                    }
                }
            }
        }
        // An accessor is named by its kind: `S::__subscript::get`.
        let name = match self.ast.decls[func.decl].kind {
            DeclKind::Accessor { kind: AccessorKind::Get, .. } => self.ast.symbols.intern("get"),
            DeclKind::Accessor { kind: AccessorKind::Set, .. } => self.ast.symbols.intern("set"),
            DeclKind::Accessor { kind: AccessorKind::Ref, .. } => self.ast.symbols.intern("ref"),
            _ => self.ast.decls[func.decl].name,
        };
        let registered = self.derivative_of.get(&name).cloned().unwrap_or_default();
        let mut fits: Vec<(Role, FuncRef, ExprId)> = Vec::new();
        for (derivative, idx) in registered {
            let attribute = self.ast.decls[derivative].attributes[idx].clone();
            if attribute.name == self.words.apply_of {
                if let (None, Some(&target)) = (&out.apply, attribute.args.first()) {
                    out.apply = self.fit_apply(func, derivative, target);
                }
                continue;
            }
            let role = if attribute.name == self.words.forward_derivative_of {
                Role::Forward
            } else if attribute.name == self.words.backward_derivative_of {
                Role::Backward
            } else {
                Role::Substitute
            };
            let taken = match role {
                Role::Forward => out.fwd.is_some(),
                Role::Backward => out.bwd.is_some(),
                Role::Substitute => out.substitute.is_some(),
            };
            let Some(&target) = attribute.args.first() else { continue };
            if taken || derivative == func.decl || !self.targets(derivative, target, func, role) {
                continue;
            }
            if let Some(found) = self.fit_derivative(func, derivative, None, &[], role) {
                fits.push((role, found, target));
            }
        }
        out.fwd = out.fwd.or_else(|| self.best_fit(func, &fits, Role::Forward));
        out.bwd = out.bwd.or_else(|| self.best_fit(func, &fits, Role::Backward));
        out.substitute = out.substitute.or_else(|| self.best_fit(func, &fits, Role::Substitute));
        self.derivatives_busy.remove(func);
        self.derivatives.insert(func.clone(), Rc::new(out.clone()));
        out
    }

    /// The one of several `…Of` derivatives that counts: the program's before the library's, one for these
    /// arguments before one for all. If two are left, that is reported.
    fn best_fit(&mut self, func: &FuncRef, fits: &[(Role, FuncRef, ExprId)], role: Role) -> Option<FuncRef> {
        let mut best: Option<&(Role, FuncRef, ExprId)> = None;
        let mut second: Option<&(Role, FuncRef, ExprId)> = None;
        let key = |program: &Program, f: &FuncRef| {
            (program.is_core(f.decl), !program.own_params(f.decl).is_empty())
        };
        for fit in fits.iter().filter(|f| f.0 == role) {
            match best {
                Some(other) if key(self, &other.1) < key(self, &fit.1) => {}
                Some(other) if key(self, &other.1) == key(self, &fit.1) => {
                    if !self.redeclarations(other.1.decl).contains(&fit.1.decl) {
                        second = Some(fit);
                    }
                }
                _ => (best, second) = (Some(fit), None),
            }
        }
        if let (Some(first), Some(second)) = (best, second) {
            let (span, before) = (self.span(second.2), self.span(first.2));
            if !self.diagnostics.iter().any(|d| d.primary.span == span) {
                let name = self.ast.name(self.ast.decls[func.decl].name).to_string();
                self.report(
                    syntax::Diagnostic::error(
                        "E31149",
                        span,
                        format!("'{name}' has this derivative already"),
                    )
                    .note(before, "here, and neither is nearer"),
                );
            }
        }
        best.map(|f| f.1.clone())
    }

    /// How far a declaration is marked differentiable.
    pub(crate) fn level(&self, decl: DeclId) -> Level {
        let has = |d: DeclId, name: &str| self.attribute(d, name).is_some();
        let parent = match self.ast.decls[decl].kind {
            DeclKind::Accessor { .. } => self.ast.decls[decl].parent,
            _ => None,
        };
        let any = |name: &str| has(decl, name) || parent.is_some_and(|p| has(p, name));
        if any("Differentiable") || any("BackwardDifferentiable") {
            Level::Backward
        } else if any("ForwardDifferentiable") {
            Level::Forward
        } else {
            Level::None
        }
    }

    /// The declaration and others of the same name and parameters beside it (prototypes).
    fn redeclarations(&mut self, decl: DeclId) -> Vec<DeclId> {
        let mut out = vec![decl];
        if self.container_of(decl).is_some() || !matches!(self.ast.decls[decl].kind, DeclKind::Func { .. }) {
            return out;
        }
        let name = self.ast.decls[decl].name;
        let module = self.module_of(decl);
        let mut others: Vec<DeclId> = Vec::new();
        for m in 0..self.modules.len() {
            if m == module
                || self.modules[m].imports.contains(&module)
                || self.modules[module].imports.contains(&m)
            {
                others.extend(self.modules[m].names.get(&name).into_iter().flatten().copied());
            }
        }
        let own = self.raw_signature(decl);
        let generic = self.ast.decls[decl].generics.is_some();
        for other in others {
            if other == decl || generic || self.ast.decls[other].generics.is_some() {
                continue;
            }
            let (DeclKind::Func { body: a, .. }, DeclKind::Func { body: b, .. }) =
                (&self.ast.decls[decl].kind, &self.ast.decls[other].kind)
            else {
                continue;
            };
            if a.is_some() && b.is_some() {
                continue;
            }
            let signature = self.raw_signature(other);
            let same = signature.params.len() == own.params.len()
                && signature.params.iter().zip(&own.params).all(|(a, b)| a.ty == b.ty && a.dir == b.dir);
            if same {
                out.push(other);
            }
        }
        out
    }

    /// Whether the target that a `…Of` attribute names may be this function.
    fn targets(&mut self, derivative: DeclId, target: ExprId, func: &FuncRef, role: Role) -> bool {
        let before = self.diagnostics.len();
        let mut checker = Checker::new(self, derivative);
        let found = checker.resolve(target);
        self.diagnostics.truncate(before);
        let Ref::Funcs(candidates, _) = found else { return false };
        let is_method = !self.is_static(derivative);
        for candidate in &candidates {
            if candidate.decl != func.decl {
                continue;
            }
            // A method that uses `this` is the derivative of a method.
            if is_method && candidate.self_ty.is_none() {
                return false;
            }
            // What is further in and fits as well is meant.
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
            // `f<float>`: of these arguments only; arguments that are the derivative's own parameters fit anything.
            let own = self.own_params(derivative);
            let n = self.own_params(func.decl).len().min(candidate.explicit.len());
            let given = &func.args[func.args.len() - n.min(func.args.len())..];
            let mut env = Subst::default();
            return candidate.explicit.iter().zip(given).all(|(a, b)| match (a, b) {
                (crate::types::GenericArg::Type(a), crate::types::GenericArg::Type(b)) => {
                    self.unify(*a, *b, &own, &mut env)
                }
                (crate::types::GenericArg::Val(a), crate::types::GenericArg::Val(b)) => {
                    self.unify_val(a, b, &own, &mut env)
                }
                _ => false,
            });
        }
        false
    }

    /// The function that an attribute of `decl` names.
    fn named_derivative(
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
            let missing = !self.diagnostics.iter().any(|d| d.primary.span == span);
            if missing {
                self.error("E31148", span, format!("'{name}' is not a function that is known here"));
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
        if !self.diagnostics.iter().any(|d| d.primary.span == span) && !unknown {
            let name = last_name(&self.ast, expr).map_or("", |n| self.ast.name(n)).to_string();
            let message = format!("'{name}' does not have the parameters of a derivative of this function");
            let help = self.wanted_text(func, role);
            self.report(syntax::Diagnostic::error("E31147", span, message).help(help));
        }
        None
    }

    fn wanted_signature(&mut self, func: &FuncRef, role: Role) -> Signature {
        let base = self.func_signature(func);
        // Rule A.11: which parameters become pairs is read off the declaration.
        let callable = crate::tables::Callable::Func(func.clone());
        match role {
            Role::Forward => self.callable_signature(&crate::tables::Callable::Fwd(Box::new(callable))),
            Role::Backward => self.callable_signature(&crate::tables::Callable::Bwd(Box::new(callable))),
            Role::Substitute => base,
        }
    }

    /// What a derivative of a function has to look like.
    fn wanted_text(&mut self, func: &FuncRef, role: Role) -> String {
        let wanted = self.wanted_signature(func, role);
        let param = |p: &crate::ParamSig| {
            let word = match p.dir {
                Direction::Out => "out ",
                Direction::InOut | Direction::Ref => "inout ",
                Direction::In | Direction::ConstRef => "",
            };
            format!("{word}{}", self.type_name(p.ty))
        };
        let params: Vec<String> = wanted.params.iter().map(param).collect();
        format!("its signature has to be '({}) -> {}'", params.join(", "), self.type_name(wanted.ret))
    }

    /// A derivative function with its generic arguments, if its parameters are the right ones.
    fn fit_derivative(
        &mut self,
        func: &FuncRef,
        decl: DeclId,
        self_ty: Option<Ty>,
        explicit: &[crate::types::GenericArg],
        role: Role,
    ) -> Option<FuncRef> {
        let derivative = self.raw_signature(decl);
        let container = self.container_of(decl);
        let is_static = self.is_static(decl);
        // With the receiver as explicit first parameter, then as a member that uses `this` without tangent.
        let mut shapes = Vec::new();
        if is_static {
            shapes.push(self.wanted_signature(func, role));
        } else {
            let mut member = self.func_signature(func);
            if let Some(this) = &mut member.this {
                this.differentiable = false;
            }
            member.this = None;
            shapes.push(match role {
                Role::Forward => self.apply_op(DiffOp::Fwd, &member),
                Role::Backward => self.apply_op(DiffOp::Bwd, &member),
                Role::Substitute => member,
            });
        }
        let params = self.all_generic_params(decl);
        for wanted in shapes {
            if wanted.params.len() != derivative.params.len() {
                continue;
            }
            let mut env = Subst::default();
            let own = self.own_params(decl);
            env.map.extend(own.iter().copied().zip(explicit.iter().cloned()));
            // What is around it: the arguments of the type that it is a member of.
            let owner = self_ty.or(if is_static { None } else { func.self_ty });
            if let Some(container) = container {
                let generic = self.self_type(container);
                if let Some(ty) = owner.or(func.self_ty) {
                    self.unify(generic, ty, &params, &mut env);
                }
            }
            let mut fits = true;
            for (have, want) in derivative.params.iter().zip(&wanted.params) {
                let known = self.substitute(have.ty, &env);
                if known != want.ty && !self.unify(have.ty, want.ty, &params, &mut env) {
                    fits = false;
                    break;
                }
            }
            // A function without parameters: generic arguments by position.
            if fits && params.iter().any(|&p| env.get(p).is_none()) && params.len() == func.args.len() {
                for (&param, arg) in params.iter().zip(&func.args) {
                    if env.get(param).is_none() {
                        env.map.push((param, arg.clone()));
                    }
                }
            }
            if !fits || params.iter().any(|&p| env.get(p).is_none()) {
                continue;
            }
            let same = derivative.params.iter().zip(&wanted.params).all(|(have, want)| {
                let ty = self.substitute(have.ty, &env);
                let dir = have.dir == want.dir || !have.dir.is_written() && !want.dir.is_written();
                dir && (ty == want.ty || ty == Ty::ERROR || want.ty == Ty::ERROR)
            });
            let ret = self.substitute(derivative.ret, &env);
            let same = same && (ret == wanted.ret || ret == Ty::ERROR || wanted.ret == Ty::ERROR);
            if !same || !self.satisfies(decl, &env) {
                continue;
            }
            let args = params.iter().filter_map(|&p| env.get(p).cloned()).collect();
            let self_ty = match container {
                Some(_) if !is_static => func.self_ty,
                Some(container) => {
                    let generic = self.self_type(container);
                    Some(self.substitute(generic, &env))
                }
                None => None,
            };
            return Some(FuncRef { decl, args, self_ty });
        }
        None
    }

    /// Whether a call of a function inside of a differentiable one carries derivatives, and how far.
    pub(crate) fn differentiable_level(&mut self, func: &FuncRef) -> Level {
        let derivatives = self.derivatives_of(func);
        if derivatives.treat_as_differentiable {
            return Level::Backward;
        }
        // `dzero` and `dadd`.
        let container = self.container_of(func.decl);
        if container.is_some_and(|c| self.magic.get(&c) == Some(&crate::native::Magic::Differentiable)) {
            return Level::Backward;
        }
        let mut level = derivatives.level;
        if derivatives.bwd.is_some() || derivatives.apply.is_some() {
            level = Level::Backward;
        }
        if derivatives.fwd.is_some() {
            // A library rule for the forward mode is transposed.
            let to = if self.is_core(func.decl) { Level::Backward } else { Level::Forward };
            level = level.max(to);
        }
        if let Some(substitute) = derivatives.substitute
            && substitute != *func
        {
            level = level.max(self.differentiable_level(&substitute));
        }
        if let Some(name) = self.intrinsic(func.decl)
            && matches!(name.as_str(), "detach" | "same" | "select" | "sum" | "create_dynamic_object")
        {
            level = Level::Backward;
        }
        level
    }

    /// Whether an operator exists for a function.
    pub(crate) fn has_derivative(&mut self, func: &FuncRef, op: DiffOp) -> bool {
        let derivatives = self.derivatives_of(func);
        if let DeclKind::Accessor { kind: AccessorKind::Ref, .. } = self.ast.decls[func.decl].kind {
            return match op {
                DiffOp::Fwd => derivatives.fwd.is_some(),
                DiffOp::Bwd => derivatives.bwd.is_some(),
                DiffOp::Apply => false,
            };
        }
        let level = self.differentiable_level(func);
        match op {
            DiffOp::Fwd => {
                derivatives.level >= Level::Forward
                    || derivatives.fwd.is_some()
                    || derivatives.treat_as_differentiable
                    || level >= Level::Forward && derivatives.bwd.is_none() && derivatives.apply.is_none()
            }
            DiffOp::Bwd | DiffOp::Apply => level >= Level::Backward,
        }
    }

    /// Looks at the targets of all derivatives that say whose they are: one that is of nothing would go unnoticed.
    pub fn check_derivative_targets(&mut self) {
        for decl in std::mem::take(&mut self.unchecked_targets) {
            self.check_derivative_target(decl);
        }
    }

    /// A derivative that says whose it is (`[ForwardDerivativeOf(f)]`, `__func_extension`) has to name a function
    /// that it fits. Which arguments of a generic function it is for shows where it is used.
    fn check_derivative_target(&mut self, decl: DeclId) {
        for attribute in self.ast.decls[decl].attributes.clone() {
            let role = match attribute.name {
                name if name == self.words.forward_derivative_of => Some(Role::Forward),
                name if name == self.words.backward_derivative_of => Some(Role::Backward),
                name if name == self.words.primal_substitute_of => Some(Role::Substitute),
                name if name == self.words.apply_of => None,
                _ => continue,
            };
            let Some(&target) = attribute.args.first() else { continue };
            let span = self.span(target);
            let found = Checker::new(self, decl).resolve(target);
            let candidates = match found {
                Ref::Funcs(candidates, _) => candidates,
                Ref::Error => continue,
                Ref::NotFound => {
                    Checker::new(self, decl).not_found(target);
                    continue;
                }
                Ref::Type(_) | Ref::Native(_) | Ref::Generic(..) | Ref::Namespace(_) | Ref::Value(_) => {
                    self.error("E31148", span, "this is not a function: a derivative is that of one");
                    continue;
                }
            };
            let before = self.diagnostics.len();
            let mut fits = false;
            let mut first = None;
            for candidate in candidates {
                let args = self.identity_args(candidate.decl);
                let func = FuncRef { decl: candidate.decl, args, self_ty: candidate.self_ty };
                fits |= !func.args.is_empty()
                    || match role {
                        Some(role) => self.fit_derivative(&func, decl, None, &[], role).is_some(),
                        None => self.fit_apply(&func, decl, target).is_some(),
                    };
                first.get_or_insert(func);
            }
            let quiet = fits || self.diagnostics.len() > before || self.has_unknown_types(decl);
            if let Some(func) = first.filter(|func| !quiet && !self.has_unknown_bases(func)) {
                let name = self.ast.name(self.ast.decls[func.decl].name).to_string();
                let message = format!("this does not have the parameters of a derivative of '{name}'");
                let help = match role {
                    Some(role) => self.wanted_text(&func, role),
                    None => "'__apply' takes the parameters of the function itself".to_string(),
                };
                self.report(syntax::Diagnostic::error("E31147", span, message).help(help));
            }
        }
    }

    /// The operation that a library declaration stands for.
    pub fn intrinsic(&self, decl: DeclId) -> Option<String> {
        let attribute = self.attribute(decl, "__intrinsic_op")?;
        let arg = *attribute.args.first()?;
        match &self.ast.exprs[arg].kind {
            ExprKind::Name(name) => Some(self.ast.name(*name).to_string()),
            ExprKind::String(text) => Some(text.clone()),
            _ => None,
        }
    }
}
