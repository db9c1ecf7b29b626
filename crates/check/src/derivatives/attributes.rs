//! Reports misplaced statements about derivatives: attributes, `no_diff`, conformances.
//!
//! Without these checks each of them would be ignored, and the derivative would not be the one that the
//! author meant.

use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, Diagnostic, Severity, Span};

use crate::derivatives::implicit::IMPLICIT;
use crate::facts::Magic;
use crate::program::Program;
use crate::signature::{Level, Resolved, Role};
use crate::tables::{DiffOp, FuncRef};
use crate::types::follow_up::text;
use crate::types::{Ty, TyKind};
use crate::view::View;

/// Attributes that describe a function's derivatives.
pub(crate) const MARKS: [&str; 11] = [
    "Differentiable",
    "BackwardDifferentiable",
    "ForwardDifferentiable",
    "TreatAsDifferentiable",
    "ForwardDerivative",
    "BackwardDerivative",
    "PrimalSubstitute",
    "ForwardDerivativeOf",
    "BackwardDerivativeOf",
    "PrimalSubstituteOf",
    IMPLICIT,
];

impl Program {
    /// Returns true if a function's attributes describe its derivatives, or make it a derivative itself.
    fn is_about_derivatives(&self, decl: DeclId) -> bool {
        MARKS.iter().any(|word| self.has_mark(decl, word)) || self.ast.extensions.contains_key(&decl)
    }

    /// Checks the attributes of a function that describe its derivatives.
    pub(crate) fn check_marks(&mut self, decl: DeclId) {
        if self.is_core(decl) || !self.is_about_derivatives(decl) {
            return;
        }
        for word in ["ForwardDerivative", "BackwardDerivative", "PrimalSubstitute", IMPLICIT] {
            let Some(attribute) = self.attribute(decl, word).cloned() else { continue };
            let Some(&target) = attribute.args.first() else { continue };
            if self.is_requirement(decl) {
                let message = "a requirement of an interface cannot have a derivative of its own";
                self.error("E31152", attribute.span, message);
                continue;
            }
            if word == IMPLICIT {
                // `check_implied` has seen to the residual.
                continue;
            }
            let found = self.named_functions(decl, target);
            if !found.is_empty() && found.iter().all(|f| self.is_requirement(f.decl)) {
                self.error(
                    "E31153",
                    self.span(target),
                    "a requirement of an interface cannot be a derivative",
                );
            } else if found.iter().any(|f| self.is_hidden_from_importers(decl, f.decl)) {
                let message = "importers of this function do not see its derivative";
                let error = Diagnostic::error("E31162", attribute.span, message);
                self.report(error.help("import the module of the derivative by '__exported import'"));
            } else if word == "PrimalSubstitute" {
                for substitute in found {
                    self.check_substitute(decl, substitute.decl, self.span(target));
                }
            }
        }
        for (role, target) in self.derivative_targets(decl) {
            if role == Role::Apply {
                continue;
            }
            let found = self.named_functions(decl, target);
            let span = self.span(target);
            if !found.is_empty() && found.iter().all(|f| self.is_requirement(f.decl)) {
                self.error(
                    "E31152",
                    span,
                    "a requirement of an interface cannot have a derivative of its own",
                );
            } else if self.is_requirement(decl) {
                self.error("E31153", span, "a requirement of an interface cannot be a derivative");
            } else if role == Role::Substitute {
                for original in found {
                    self.check_substitute(original.decl, decl, span);
                }
            }
        }
        if self.level(decl) != Level::None {
            self.check_borrowed(decl);
        }
    }

    /// Returns true if a derivative that is declared for a function has been reported as wrong.
    pub(crate) fn has_failed_derivative(&self, decl: DeclId) -> bool {
        let own = self.ast.decls[decl].attributes.iter();
        let mut spans: Vec<Span> =
            own.filter(|a| MARKS.contains(&self.ast.name(a.name))).map(|a| a.span).collect();
        let others = self.registry.derivative_of.get(&self.ast.decls[decl].name);
        spans.extend(others.into_iter().flatten().map(|&(_, _, target)| self.span(target)));
        let is_in =
            |at: Span| spans.iter().any(|s| s.file == at.file && s.start <= at.start && at.end <= s.end);
        self.diagnostics.iter().any(|d| d.severity == Severity::Error && is_in(d.primary.span))
    }

    /// Returns true if importers of the module of a public function do not see another function, which that
    /// module imports.
    fn is_hidden_from_importers(&self, public: DeclId, other: DeclId) -> bool {
        let (own, of) = (self.module_of(public), self.module_of(other));
        if own == of || of == 0 || !self.ast.decls[public].modifiers.has(Modifiers::PUBLIC) {
            return false;
        }
        let mut seen = vec![own];
        let mut next = 0;
        while let Some(&module) = seen.get(next) {
            let more = self.modules.all[module].exported.iter().copied();
            seen.extend(more.filter(|m| !seen.contains(m)).collect::<Vec<_>>());
            next += 1;
        }
        !seen.contains(&of)
    }

    /// Reports a substitute that is less differentiable than the function it replaces.
    fn check_substitute(&mut self, original: DeclId, substitute: DeclId, span: Span) {
        let wanted = self.level(original);
        let args = self.identity_args(substitute);
        let func = FuncRef { decl: substitute, args, self_ty: None };
        let view = View::of(self.asking(substitute));
        let counts = self.raw_signature(original).params.len() == self.raw_signature(substitute).params.len();
        if counts && self.differentiable_level(&func, view) < wanted {
            let name = self.ast.decl_name(original).to_string();
            let message = format!("'{name}' is differentiable, but its substitute is not");
            let diagnostic = Diagnostic::error("E31158", span, message);
            self.report(diagnostic.help("mark it '[Differentiable]' or '[TreatAsDifferentiable]'"));
        }
    }

    /// Reports differentiable parameters that are `__constref`: a differentiable parameter is a copy, since
    /// its differential has no place in the caller's variable.
    fn check_borrowed(&mut self, decl: DeclId) {
        for param in self.raw_signature(decl).params.clone() {
            let Some(p) = param.decl.filter(|_| param.has_tangent()) else { continue };
            if self.ast.decls[p].modifiers.has(Modifiers::CONSTREF) {
                let message = "a differentiable parameter cannot be '__constref'";
                let help = "write 'in', or 'no_diff' if it has no derivative";
                self.report(Diagnostic::error("E38034", self.name_span(p), message).help(help));
            }
        }
        let this = self.raw_signature(decl).this.clone();
        let attribute = self.attribute(decl, "constref").map(|a| a.span);
        if let (Some(span), true) = (attribute, this.is_some_and(|t| t.has_tangent())) {
            self.error("E38036", span, "a method whose object is differentiable cannot be '[constref]'");
        }
    }

    /// Reports `no_diff` where no derivatives are computed.
    pub(crate) fn check_no_diff(&mut self, scope: DeclId, span: Span) {
        let Some(decl) = self.ast.enclosing(scope).find(|&d| self.is_function(d)) else { return };
        if !self.is_lambda_call(decl) && !self.is_core(decl) && !self.is_about_derivatives(decl) {
            let message = "'no_diff' has no meaning in a function that is not differentiable";
            let help = "remove it, or mark the function '[Differentiable]'";
            self.report(Diagnostic::error("E38033", span, message).help(help));
        }
    }

    /// Checks `[DerivativeMember(D.f)]`, which belongs on a field of a differentiable type and names a field
    /// of its differential.
    pub(crate) fn check_derivative_member(&mut self, decl: DeclId) {
        let Some(attribute) = self.attribute(decl, "DerivativeMember").cloned() else { return };
        let span = attribute.span;
        let is_field = self.ast.decls[decl].parent.is_some_and(|p| {
            matches!(self.ast.decls[p].kind, DeclKind::Struct { .. } | DeclKind::Extension { .. })
        });
        let Some(container) = self.container_of(decl).filter(|_| is_field) else {
            self.error("E31132", span, "only a field of a type has '[DerivativeMember]'");
            return;
        };
        let ty = self.self_type(container);
        let Some(differential) = self.differential(ty) else {
            let message = text!(
                "'{}' is not differentiable, so its fields have no '[DerivativeMember]'",
                self.shown(ty)
            );
            self.error("E31131", span, message);
            return;
        };
        let field = self.decl_type(decl);
        if self.differential(field).is_none() {
            if field != Ty::ERROR {
                self.error("E30310", span, text!("the type '{}' is not differentiable", self.shown(field)));
            }
        } else if self.derivative_member(decl).is_none() {
            let message = text!("this names no field of the differential '{}'", self.shown(differential));
            self.error("E31130", span, message);
        }
    }

    /// Checks the rules for types that declare themselves differentiable.
    /// Returns false if there is no telling which rules a type means to follow.
    pub(crate) fn check_differentiable_type(&mut self, decl: DeclId, ty: Ty) -> bool {
        let conforms =
            |p: &mut Program, magic| p.magic_type(magic).is_some_and(|interface| p.conforms(ty, interface));
        if conforms(self, Magic::Differentiable) && conforms(self, Magic::DifferentiablePtr) {
            let message = text!(
                "type '{}' conforms to both 'IDifferentiable' and 'IDifferentiablePtrType'",
                self.shown(ty)
            );
            let help =
                "a value has a differential, a pointer is paired with another one: it is one or the other";
            self.report(Diagnostic::error("E30311", self.name_span(decl), message).help(help));
            return false;
        }
        self.check_second_differential(decl, ty);
        true
    }

    /// Reports a differential that is not its own differential. Returns true if it is.
    pub(crate) fn check_second_differential(&mut self, decl: DeclId, ty: Ty) -> bool {
        if let Some(differential) = self.differential(ty)
            && let Some(second) = self.differential(differential)
            && second != differential
        {
            let message = text!(
                "the differential '{}' is not its own differential: that is '{}'",
                self.shown(differential),
                self.shown(second)
            );
            self.report_once(Diagnostic::error("E30096", self.name_span(decl), message));
            return false;
        }
        true
    }

    /// Reports `dzero` and `dadd` functions of the user's that are not differentiable: derivatives call them.
    pub(crate) fn check_own_sum(&mut self, ty: Ty, member: DeclId) {
        if !matches!(self.ast.decls[member].kind, DeclKind::Func { .. }) {
            return;
        }
        let func = FuncRef { decl: member, args: Vec::new(), self_ty: Some(ty) };
        let Resolved::Func(found) = self.resolve_requirement(&func) else {
            self.check_sum_of_name(ty, member);
            return;
        };
        if found.decl == member || self.is_core(found.decl) {
            return;
        }
        if self.func_signature(&found).ret != self.func_signature(&func).ret {
            self.wrong_sum(ty, member, found.decl);
            return;
        }
        let view = View::of(self.asking(found.decl));
        if !self.has_derivative(&found, DiffOp::Fwd, view) {
            let name = self.ast.decl_name(member).to_string();
            let message = format!("'{name}' is not differentiable, as 'IDifferentiable' requires");
            let span = self.name_span(found.decl);
            self.report(Diagnostic::error("E38110", span, message).help("mark it '[Differentiable]'"));
        }
    }

    /// Reports members named `dzero` or `dadd` of a type for which the compiler synthesises that function
    /// nevertheless.
    fn check_sum_of_name(&mut self, ty: Ty, member: DeclId) {
        let TyKind::Struct(decl, _) = self.types[ty] else { return };
        let name = self.ast.decls[member].name;
        let own = self.named(decl, name);
        for found in own {
            if matches!(self.ast.decls[found].kind, DeclKind::Func { .. }) {
                self.wrong_sum(ty, member, found);
            }
        }
    }

    fn wrong_sum(&mut self, ty: Ty, member: DeclId, found: DeclId) {
        let name = self.ast.decl_name(member).to_string();
        let Some(differential) = self.differential(ty) else { return };
        let differential = self.shown(differential);
        let wanted = match name.as_str() {
            "dzero" => text!("static {of} dzero()", of = differential),
            _ => text!("static {of} {name}({of} a, {of} b)", of = differential),
        };
        let span = self.name_span(found);
        let message = format!("this '{name}' is not the one that 'IDifferentiable' requires");
        self.report(Diagnostic::error("E38100", span, message).help(text!("declare it as '{}'", wanted)));
    }
}
