//! Implements `[ImplicitDerivative(residual)]`, which stands before a function that solves `residual(x, p…) = 0` for `x`.
//!
//! `[ImplicitDerivative(g)] R f(P p…) { … }` means
//!
//! ```text
//! [Continuous] R solver(P p…) { … }
//! [Differentiable] R f(P p…) { return __implied((R x) => g(x, p…), no_diff solver(p…)); }
//! ```
//!
//! where `__implied` is a function of the library's module `implicit`: the value is what the body as written finds,
//! and the derivative that of the root which it is. Both declarations are made as soon as the function is known, so
//! everything after that (types, derivatives of any order, code) sees a function that calls the library. The solver
//! shares the parameters and the generic parameters of the function as they are written, and has its body; whoever asks
//! for the body of the function gets the other one ([`Program::body_of`]).

use syntax::ast::{Attribute, Decl, DeclKind, ExprKind, Modifiers, StmtKind};
use syntax::{DeclId, Diagnostic, ExprId, Message, Severity, Span, StmtId, keywords as kw};

use crate::derivatives::attributes::MARKS;
use crate::exprs::infer::Checker;
use crate::names::enter::last_name;
use crate::names::lookup::{Candidate, Ref};
use crate::program::Program;
use crate::signature::{Level, Signature};
use crate::tables::FuncRef;
use crate::types::follow_up::text;
use crate::types::{Ty, TyKind};
use crate::view::View;

/// The name of the attribute.
pub(crate) const IMPLICIT: &str = "ImplicitDerivative";
/// The library's function that gives a solution its derivative.
const IMPLIED: &str = "__implied";

const ONLY_FUNCTIONS: &str = "only a function or a method has an implicit derivative";
const BODY_IS_SOLVER: &str = "the body is the solver, and the result what it finds";

/// The declarations that are made for a function with an implicit derivative.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Implied {
    /// The function with the body that is written.
    pub(crate) solver: DeclId,
    /// The body that stands in its place.
    pub(crate) body: StmtId,
}

impl Program {
    /// Makes the solver and the new body of a function with an implicit derivative. Returns the solver, which is to be
    /// entered into the same names. What is wrong is reported by [`Program::check_implied`].
    pub(crate) fn make_implied(&mut self, id: DeclId) -> Option<DeclId> {
        let attribute = self.attribute(id, IMPLICIT)?.clone();
        let written = self.ast.decls[id].clone();
        let (&residual, method) = attribute.args.split_first()?;
        let DeclKind::Func { params, result: Some(result), body: Some(_) } = written.kind else {
            return None;
        };
        let span = self.span(residual);
        let name = self.ast.symbols.intern(&format!("solver of {}", self.ast.decl_name(id)));
        let kept = written.attributes.iter().filter(|a| !MARKS.contains(&self.ast.name(a.name)));
        let mut attributes: Vec<_> = kept.cloned().collect();
        // What it iterates over decides nothing that the result does.
        let continuous = self.ast.symbols.intern("Continuous");
        attributes.push(Attribute { name: continuous, args: Vec::new(), ..attribute.clone() });
        let mut modifiers = written.modifiers;
        modifiers.0 &= !(Modifiers::OVERRIDE.0 | Modifiers::EXPORT.0);
        let solver = self.add_decl(Decl { name, attributes, modifiers, ..self.ast.decls[id].clone() });
        // (R x) => residual(x, p…)
        let lambda = self.add_owner(kw::EMPTY, span, id);
        let unknown = self.ast.symbols.intern("$x");
        let kind = DeclKind::Param { ty: Some(result), default: None, semantic: None };
        let unknown_param = self.add_decl(Decl::new(kind, unknown, span, Some(lambda)));
        let names: Vec<_> = params.iter().map(|&p| self.ast.decls[p].name).collect();
        let values = |p: &mut Program| -> Vec<ExprId> {
            names.iter().map(|&name| p.add_expr(ExprKind::Name(name), span)).collect()
        };
        let mut args = vec![self.add_expr(ExprKind::Name(unknown), span)];
        args.extend(values(self));
        let callee = self.add_expr(self.ast.exprs[residual].kind.clone(), span);
        let call = self.add_expr(ExprKind::Call { callee, args }, span);
        let body = Some(self.add_block(StmtKind::Return(Some(call)), span));
        self.complete(lambda, DeclKind::Func { params: vec![unknown_param], result: None, body });
        let lambda = self.add_expr(ExprKind::Lambda(lambda), span);
        // no_diff solver(p…)
        let mut callee = self.add_expr(ExprKind::Name(name), span);
        let generics: Vec<DeclId> = written.generics.iter().flat_map(|g| &g.params).copied().collect();
        if !generics.is_empty() {
            let named = generics.iter().map(|&p| self.ast.decls[p].name).collect::<Vec<_>>();
            let args = named.into_iter().map(|name| self.add_expr(ExprKind::Name(name), span)).collect();
            callee = self.add_expr(ExprKind::Generic { base: callee, args }, span);
        }
        let args = values(self);
        let found = self.add_expr(ExprKind::Call { callee, args }, span);
        let found = self.add_expr(ExprKind::NoDiff(found), span);
        let implied = self.ast.symbols.intern(IMPLIED);
        let callee = self.add_expr(ExprKind::Name(implied), span);
        let args = [lambda, found].into_iter().chain(method.iter().copied()).collect();
        let value = self.add_expr(ExprKind::Call { callee, args }, span);
        let body = self.add_block(StmtKind::Return(Some(value)), span);
        self.made.implied.insert(id, Implied { solver, body });
        Some(solver)
    }

    /// The function that has the body which is written for a function with an implicit derivative.
    pub(crate) fn solver_of(&self, decl: DeclId) -> Option<DeclId> {
        self.made.implied.get(&decl).map(|made| made.solver)
    }

    /// The residual of a function with an implicit derivative: its name, where that is declared, and its module.
    pub(crate) fn residual_of(&mut self, decl: DeclId) -> Option<(String, Span, Option<String>)> {
        let residual = *self.attribute(decl, IMPLICIT)?.args.first()?;
        let candidates = self.named_functions(decl, residual);
        let found = candidates.iter().find(|c| self.is_residual(decl, c))?.decl;
        Some((self.ast.decl_name(found).to_string(), self.name_span(found), self.module_name(found)))
    }

    /// Reports that a method and a tolerance are not those of the unknowns, where that has kept the body that was made
    /// from being checked.
    pub(crate) fn explain_implied(&mut self, decl: DeclId, n_before: usize) {
        let Some(&[residual, method, _]) = self.attribute(decl, IMPLICIT).map(|a| &a.args[..]) else {
            return;
        };
        let is_about = |d: &Diagnostic, span: Span| d.severity == Severity::Error && d.primary.span == span;
        let span = self.span(residual);
        if !self.diagnostics[n_before..].iter().any(|d| is_about(d, span)) {
            return;
        }
        self.diagnostics.truncate(n_before);
        let ret = self.raw_signature(decl).ret;
        let message = text!(
            "this is no method, or no tolerance follows it, for unknowns of type '{}'",
            self.shown(ret)
        );
        let number = self.unknown_of(ret).unwrap_or(ret);
        let help =
            text!("the method is an 'ILinearMethod<{}>', and the tolerance a number", self.shown(number));
        self.report(Diagnostic::error("E0928", self.span(method), message).help(help));
    }

    /// Reports an `[ImplicitDerivative(residual)]` that cannot be followed. Returns true if there is none.
    pub(crate) fn check_implied(&mut self, decl: DeclId) -> bool {
        let Some(attribute) = self.attribute(decl, IMPLICIT).cloned() else { return true };
        if self.is_requirement(decl) {
            // `check_marks` says so.
            return false;
        }
        let (span, help) = (attribute.span, self.unfit_for_implied(decl, attribute.args.len()));
        if let Some((message, help)) = help {
            self.report_once(Diagnostic::error("E0928", span, message).help(help));
            return false;
        }
        let implied = self.ast.symbols.intern(IMPLIED);
        if matches!(self.quietly(|p| Checker::new(p, decl).lookup(implied)), Ref::NotFound) {
            let message = "an implicit derivative is the library's, by the module 'implicit'";
            self.report_once(Diagnostic::error("E0928", span, message).help("write `import implicit;`"));
            return false;
        }
        self.check_residual(decl, attribute.args[0])
    }

    /// Reports the attribute before something else than a function.
    pub(crate) fn misplaced_implied(&mut self, span: Span) {
        self.report_once(Diagnostic::error("E0928", span, ONLY_FUNCTIONS).help(BODY_IS_SOLVER));
    }

    /// The reason why a function cannot have an implicit derivative, and what to do.
    fn unfit_for_implied(&mut self, decl: DeclId, n_args: usize) -> Option<(Message, Message)> {
        let DeclKind::Func { body, .. } = self.ast.decls[decl].kind else {
            return Some((ONLY_FUNCTIONS.into(), BODY_IS_SOLVER.into()));
        };
        if body.is_none() {
            return Some((
                "an implicit derivative is for a function with a body".into(),
                BODY_IS_SOLVER.into(),
            ));
        }
        let others =
            ["TreatAsDifferentiable", "ForwardDifferentiable", "ForwardDerivative", "BackwardDerivative"];
        if let Some(other) = others.into_iter().chain(["PrimalSubstitute"]).find(|w| self.has_mark(decl, w)) {
            let message = format!("`[{other}]` and `[ImplicitDerivative]` each say what the derivative is");
            return Some((message.into(), "remove one of them".into()));
        }
        if n_args != 1 && n_args != 3 {
            let message =
                "`[ImplicitDerivative]` takes the name of the residual, or that, a method and a tolerance";
            let help = "for example `[ImplicitDerivative(residual, Dense<float>(), 1e-4)]`";
            return Some((message.into(), help.into()));
        }
        let signature = self.raw_signature(decl);
        let is_written = signature.params.iter().any(|p| p.dir.is_written());
        if is_written || signature.is_mutating() || self.ast.throws.contains_key(&decl) {
            let message = "a function with an implicit derivative gives its result and nothing else";
            let help = "it cannot throw, change its object, or have `out` or `inout` parameters";
            return Some((message.into(), help.into()));
        }
        if signature.params.iter().any(|p| self.is_pack(p.ty)) {
            let message = "a function with parameter packs cannot have an implicit derivative";
            return Some((message.into(), "name its parameters".into()));
        }
        let (ret, element) = (signature.ret, self.unknown_of(signature.ret));
        if element.is_none() && ret != Ty::ERROR || !signature.returns_differential() {
            let message =
                text!("the unknowns of a residual are floating-point numbers, not '{}'", self.shown(ret));
            let help = "return a number with a derivative, or a vector or an array of such numbers";
            return Some((message, help.into()));
        }
        None
    }

    /// The type of the numbers in a type of unknowns: a floating-point number, a vector or an array of them.
    fn unknown_of(&self, ty: Ty) -> Option<Ty> {
        let is_number = |ty: Ty| match self.types[ty] {
            TyKind::Scalar(scalar) => scalar.is_float(),
            TyKind::Param(_) => true,
            _ => false,
        };
        let element = match self.types[ty] {
            TyKind::Vector(element, ..) | TyKind::Array(element, Some(_)) => element,
            _ => ty,
        };
        is_number(element).then_some(element)
    }

    /// Reports a residual that is no differentiable function `R (R x, P p…)`.
    fn check_residual(&mut self, decl: DeclId, residual: ExprId) -> bool {
        let span = self.span(residual);
        let candidates = self.named_functions(decl, residual);
        let name = last_name(&self.ast, residual).map_or("", |n| self.ast.name(n)).to_string();
        if candidates.is_empty() {
            if !self.is_told(span) {
                let message = match name.as_str() {
                    "" => "this is not the name of a function".to_string(),
                    _ => format!("'{name}' is not a function in scope"),
                };
                self.error("E31148", span, message);
            }
            return false;
        }
        if candidates.iter().any(|c| self.has_unknown_types(c.decl)) || self.has_unknown_types(decl) {
            return false;
        }
        let Some(fitting) = candidates.iter().find(|c| self.is_residual(decl, c)) else {
            let own = self.raw_signature(decl);
            let wanted = std::iter::once((crate::Direction::In, own.ret));
            let wanted: Vec<_> = wanted.chain(own.params.iter().map(|p| (p.dir, p.ty))).collect();
            let params = self.shown_params(wanted);
            let message = format!("'{name}' does not have the parameters of a residual of this function");
            let help = text!("its signature has to be '({}) -> {}'", params, self.shown(own.ret));
            self.report_once(Diagnostic::error("E0928", span, message).help(help));
            return false;
        };
        let (at, args) = (fitting.decl, self.identity_args(fitting.decl));
        let func = FuncRef { decl: at, args, self_ty: fitting.self_ty };
        let view = View::of(self.asking(decl));
        let signature = self.raw_signature(at);
        let has_unknown = signature.params.first().is_some_and(|x| x.has_tangent());
        let (message, help) = if self.differentiable_level(&func, view) != Level::Backward {
            (format!("the residual '{name}' is not differentiable"), "mark it '[Differentiable]'")
        } else if !has_unknown || !signature.returns_differential() {
            let message =
                format!("the residual '{name}' has no derivative in the unknowns, its first parameter");
            (message, "remove 'no_diff'")
        } else if let Some(param) = self.lost_in_residual(decl, &signature) {
            let message = format!(
                "the residual '{name}' has no derivative in '{param}', in which this function has one"
            );
            (message, "remove 'no_diff', or mark the parameter of this function so, too")
        } else {
            return true;
        };
        let declared = self.name_span(at);
        let error = Diagnostic::error("E0928", span, message).note(declared, "declared here");
        self.report_once(error.help(help));
        false
    }

    /// The first parameter in which a function has a derivative, and its residual has none.
    fn lost_in_residual(&mut self, of: DeclId, residual: &Signature) -> Option<String> {
        let own = self.raw_signature(of);
        let lost = own
            .params
            .iter()
            .zip(residual.params.iter().skip(1))
            .find(|(own, other)| own.has_tangent() && !other.has_tangent());
        lost.and_then(|(own, _)| own.decl).map(|param| self.ast.name(self.ast.decls[param].name).to_string())
    }

    /// Returns true if a function has the parameters and the result of the residual of another. Whether the arguments
    /// of a generic one can be found is left to its call.
    fn is_residual(&mut self, of: DeclId, candidate: &Candidate) -> bool {
        let (own, signature) = (self.raw_signature(of), self.raw_signature(candidate.decl));
        if signature.params.len() != own.params.len() + 1
            || signature.params.iter().any(|p| p.dir.is_written())
        {
            return false;
        }
        let known = self.all_generic_params(of);
        if self.all_generic_params(candidate.decl).iter().any(|param| !known.contains(param)) {
            return true;
        }
        let wanted = std::iter::once(own.ret).chain(own.params.iter().map(|p| p.ty));
        signature.ret == own.ret && signature.params.iter().map(|p| p.ty).eq(wanted)
    }
}
