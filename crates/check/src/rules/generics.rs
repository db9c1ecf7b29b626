//! Rules for generic parameters: each may refer to those before it, an extension's parameters follow from the
//! type that it extends, and a constraint is about something that is not known yet.

use rustc_hash::FxHashSet;
use syntax::ast::{Constraint, DeclKind, ExprKind};
use syntax::{DeclId, Diagnostic, ExprId, Symbol, keywords as kw};

use crate::exprs::infer::Checker;
use crate::program::Program;
use crate::types::follow_up::text;
use crate::types::{GenericArg, Ty, TyKind};

impl Program {
    pub(super) fn check_generics(&mut self, decl: DeclId) {
        let Some(generics) = self.ast.decls[decl].generics.clone() else { return };
        let params = generics.params;
        self.check_order(&params);
        self.check_shadows(decl, &params);
        self.check_defaults(decl);
        let is_extension = matches!(self.ast.decls[decl].kind, DeclKind::Extension { .. });
        if is_extension || self.ast.extensions.contains_key(&decl) {
            self.check_extension_params(decl, &params, is_extension);
        }
        for constraint in &generics.constraints {
            if let Constraint::Conforms(left, _) = constraint {
                self.check_subject(decl, *left);
            }
        }
    }

    /// Reports a parameter whose bounds or default name a parameter that is declared after it.
    fn check_order(&mut self, params: &[DeclId]) {
        for (k, &param) in params.iter().enumerate() {
            let (mut bounds, mut default) = (Vec::new(), Vec::new());
            match &self.ast.decls[param].kind {
                DeclKind::TypeParam { bases, default: value } => {
                    bounds.extend(bases);
                    default.extend(value);
                }
                DeclKind::ValueParam { ty, default: value } => {
                    bounds.extend(ty);
                    default.extend(value);
                }
                _ => {}
            }
            for (what, exprs) in [("the constraint", bounds), ("the default", default)] {
                let names = self.names_written_in(exprs);
                let later = params[k + 1..].iter().find(|&&p| names.contains(&self.ast.decls[p].name));
                if let Some(&later) = later {
                    let (own, other) = (self.ast.decl_name(param), self.ast.decl_name(later));
                    let message = format!("{what} of '{own}' names '{other}', which is declared after it");
                    let error = Diagnostic::error("E30122", self.name_span(param), message);
                    let error = error.note(self.name_span(later), "declared here");
                    self.report(error.help(format!("declare '{other}' first")));
                }
            }
        }
    }

    /// The names in expressions.
    fn names_written_in(&self, mut exprs: Vec<ExprId>) -> Vec<Symbol> {
        let (mut names, mut next) = (Vec::new(), 0);
        while let Some(&expr) = exprs.get(next) {
            if let ExprKind::Name(name) = self.ast.exprs[expr].kind {
                names.push(name);
            }
            self.ast.exprs[expr].kind.operands(&mut exprs);
            next += 1;
        }
        names
    }

    /// Warns of a parameter with the name of one that is in scope, where both are types. A number with the name of
    /// another is how a method says that it is for values of the type's own length.
    fn check_shadows(&mut self, decl: DeclId, params: &[DeclId]) {
        let is_type =
            |p: &Program, param: DeclId| matches!(p.ast.decls[param].kind, DeclKind::TypeParam { .. });
        for &param in params {
            if !is_type(self, param) {
                continue;
            }
            let name = self.ast.decls[param].name;
            let outer = self.ast.enclosing(decl).skip(1).find_map(|around| {
                let generics = self.ast.decls[around].generics.as_ref()?;
                generics.params.iter().copied().find(|&p| self.ast.decls[p].name == name && is_type(self, p))
            });
            if let Some(outer) = outer.filter(|_| name != kw::EMPTY) {
                let text = self.ast.name(name);
                let message =
                    format!("the generic parameter '{text}' hides that of an enclosing declaration");
                let warning = Diagnostic::warning("E30515", self.name_span(param), message);
                let warning = warning.note(self.name_span(outer), "this one");
                self.report(warning.help("give it another name, or leave it away to use the outer one"));
            }
        }
    }

    /// Reports a default that does not conform to the bounds of its parameter. Returns false if there is one.
    pub(crate) fn check_defaults(&mut self, decl: DeclId) -> bool {
        let mut all_fit = true;
        for param in self.ast.decls[decl].generics.as_ref().map_or(Vec::new(), |g| g.params.clone()) {
            let DeclKind::TypeParam { default: Some(default), .. } = self.ast.decls[param].kind else {
                continue;
            };
            let GenericArg::Type(ty) = self.quietly(|p| Checker::outside(p, decl).generic_arg(default))
            else {
                continue;
            };
            for &bound in self.bases_of(param).iter() {
                let mut mentioned = Vec::new();
                [ty, bound].iter().for_each(|&ty| self.params_in(ty, &mut mentioned));
                if mentioned.is_empty() && ty != Ty::ERROR && bound != Ty::ERROR && !self.conforms(ty, bound)
                {
                    all_fit = false;
                    let relation = self.relation(bound);
                    let message =
                        text!("the default type '{}' {relation} '{}'", self.shown(ty), self.shown(bound));
                    self.report_once(Diagnostic::error("E38029", self.span(default), message));
                }
            }
        }
        all_fit
    }

    /// Reports parameters of an extension that no use of the extension determines, and their defaults, which no
    /// use would need.
    fn check_extension_params(&mut self, decl: DeclId, params: &[DeclId], has_type: bool) {
        for &param in params {
            let default = match self.ast.decls[param].kind {
                DeclKind::TypeParam { default, .. } | DeclKind::ValueParam { default, .. } => default,
                _ => None,
            };
            if let Some(default) = default {
                let name = self.ast.decl_name(param);
                let message = format!("'{name}' follows from what is extended, so it cannot have a default");
                self.error("E20104", self.span(default), message);
            }
        }
        let target = if has_type { self.self_type(decl) } else { Ty::ERROR };
        if target == Ty::ERROR {
            return;
        }
        let (mut by_target, mut by_constraint) = (Vec::new(), Vec::new());
        self.params_in(target, &mut by_target);
        let constraints = self.constraints_of(decl);
        for &(subject, bound) in constraints.conforms.iter().chain(&constraints.equal) {
            self.params_in(bound, &mut by_constraint);
            self.params_in(subject, &mut by_constraint);
        }
        for &param in params {
            let own = self.types.intern(TyKind::Param(param));
            // A bound on the parameter itself determines nothing.
            let is_bound = constraints.equal.iter().any(|&(a, b)| a == own || b == own) || {
                let mut named = Vec::new();
                let others = constraints.conforms.iter().filter(|c| c.0 != own);
                others.for_each(|c| self.params_in(c.1, &mut named));
                named.contains(&param)
            };
            if by_target.contains(&param) {
                continue;
            }
            let span = self.name_span(param);
            let message = text!(
                "'{}' does not occur in the extended type '{}'",
                self.ast.decl_name(param),
                self.shown(target)
            );
            if !is_bound || !by_constraint.contains(&param) {
                let error = Diagnostic::error("E30855", span, message);
                self.report(error.help("nothing determines it: remove it"));
                continue;
            }
            // A constraint determines a parameter as long as a type conforms to the interface once.
            let mut interfaces = Vec::new();
            for &(_, bound) in &constraints.conforms {
                let mut named = Vec::new();
                self.params_in(bound, &mut named);
                if let TyKind::Interface(interface, _) = self.types[bound] {
                    interfaces.extend(named.contains(&param).then_some(interface));
                }
            }
            if let Some(interface) = interfaces.into_iter().find(|&i| self.may_conform_twice(i)) {
                let interface = self.ast.decl_name(interface);
                let help = format!(
                    "only a constraint determines it, and a type may conform to '{interface}' with several arguments"
                );
                self.report(Diagnostic::warning("E30856", span, message).help(help));
            }
        }
    }

    /// Returns true if one type may conform to a generic interface with different arguments.
    fn may_conform_twice(&mut self, interface: DeclId) -> bool {
        let is_type = |d: &DeclId| {
            let kind = &self.ast.decls[*d].kind;
            matches!(kind, DeclKind::Struct { .. } | DeclKind::Enum { .. } | DeclKind::Extension { .. })
        };
        let decls: Vec<DeclId> = self.ast.decls.keys().filter(is_type).collect();
        let (mut heads, mut n_conforming, mut is_any) = (FxHashSet::default(), 0, false);
        for decl in decls {
            let is_named = |p: &Program, &base: &Ty| matches!(p.types[base], TyKind::Interface(of, _) if of == interface);
            let n = self.bases_of(decl).iter().filter(|base| is_named(self, base)).count();
            if n == 0 {
                continue;
            }
            n_conforming += n;
            let ty = self.self_type(decl);
            // An extension with parameters of its base only is one for each of their values.
            let (mut of_type, mut of_base) = (Vec::new(), Vec::new());
            self.params_in(ty, &mut of_type);
            let bases = self.bases_of(decl);
            bases
                .iter()
                .filter(|base| is_named(self, base))
                .for_each(|&base| self.params_in(base, &mut of_base));
            if of_base.iter().any(|param| !of_type.contains(param)) {
                return true;
            }
            let head = match &self.types[ty] {
                TyKind::Struct(of, _) | TyKind::Opaque(of, _) | TyKind::Enum(of) => Ok(*of),
                TyKind::Scalar(_) => Err((None, ty)),
                kind => {
                    is_any |= matches!(kind, TyKind::Param(_));
                    Err((Some(std::mem::discriminant(kind)), Ty::ERROR))
                }
            };
            if n > 1 || !heads.insert(head) {
                return true;
            }
        }
        is_any && n_conforming > 1
    }

    /// Reports a constraint on a type that is known: it says nothing about the parameters.
    fn check_subject(&mut self, decl: DeclId, subject: ExprId) {
        let ty = self.quietly(|p| Checker::outside(p, decl).type_expr(subject));
        let is_known = matches!(
            self.types[ty],
            TyKind::Scalar(_)
                | TyKind::Enum(_)
                | TyKind::Vector(..)
                | TyKind::Matrix(..)
                | TyKind::Struct(..)
        );
        let mut mentioned = Vec::new();
        self.params_in(ty, &mut mentioned);
        if is_known && mentioned.is_empty() && !self.types.is_unknown(ty) {
            let message = text!("a constraint on '{}', which is not a generic parameter", self.shown(ty));
            self.error("E30402", self.span(subject), message);
        }
    }
}
