//! Reports lost derivatives: see [`crate::flow`].
//!
//! The diagnostics are errors in a function as declared. In an instance of a generic function they are
//! warnings, since there the derivative is zero according to the declarations.

use syntax::{DeclId, Diagnostic, ExprId};

use crate::flow::Flow;
use crate::signature::{Level, Resolved};
use crate::tables::{Callable, FuncRef};
use crate::types::TyKind;
use crate::types::follow_up::text;

impl Flow<'_> {
    /// Reports a field whose type has derivatives in an object whose type has none.
    pub(crate) fn check_field_of_this(&mut self, expr: ExprId, field: DeclId) {
        let ty = self.p.tables.exprs[expr].ty;
        if self.p.differential(ty).is_none() {
            return;
        }
        let name = self.p.ast.decl_name(field).to_string();
        let message = format!("'{name}' has no derivative here: the type of 'this' is not differentiable");
        let help =
            "write '[NoDiffThis]' before the function if this is meant, or make the type 'IDifferentiable'";
        self.report(Diagnostic::warning("E31159", self.p.span(expr), message).help(help));
    }

    /// Checks a place that is passed for a differentiable output.
    pub(crate) fn check_output(&mut self, arg: ExprId) {
        // A parameter can be assigned to, but a place that is passed on belongs to the caller.
        let variable = self.place(arg).map(|place| place.key.0).filter(|&decl| decl != self.decl);
        let is_plain_param = variable.is_some_and(|decl| self.p.is_no_diff(decl));
        if is_plain_param || !self.has_tangent(arg) {
            let message =
                "the derivative is lost: this place has none, and is passed for a differentiable output";
            let help = "pass a local variable, and assign 'detach' of it";
            self.report(Diagnostic::error("E41025", self.p.span(arg), message).help(help));
        }
    }

    pub(crate) fn lost_in_call(&mut self, expr: ExprId, func: &Callable) {
        let Callable::Func(func @ FuncRef { decl, .. }) = func else { return };
        let decl = *decl;
        if self.is_instance && self.p.is_as_fulfilled(decl) {
            return self.lost_by_fulfilment(expr, func);
        }
        if self.is_instance {
            return self.lost_by_declaration(expr, decl, None);
        }
        self.p.lost.insert(expr);
        let name = self.p.function_name(decl);
        let mode = if self.level == Level::Backward { "backward" } else { "forward" };
        let diagnostic = Diagnostic::error(
            "E41022",
            self.p.span(expr),
            format!("the derivative is lost in this call: '{name}' is not {mode}-differentiable"),
        )
        .help(match self.operand_of_no_diff == Some(expr) {
            true => {
                "'no_diff' concerns what a call returns, not the places that it writes: pass a copy of the place, and assign \
                 'detach' of it afterwards if this is meant"
            }
            false => "write 'no_diff' before the call if this is meant, or mark the function '[Differentiable]'",
        });
        self.report(self.p.declared(decl, diagnostic));
    }

    /// Reports a derivative that is zero since what fulfils a requirement has none.
    fn lost_by_fulfilment(&mut self, expr: ExprId, required: &FuncRef) {
        let own = match self.p.resolve_requirement(required) {
            Resolved::Func(own) if own.decl != required.decl => Some(own.decl),
            _ => None,
        };
        let name = self.p.function_name(required.decl);
        let (whose, help) = match (own, required.self_ty) {
            (Some(_), Some(ty)) => (text!(" of '{}'", self.p.shown(ty)), "mark it '[Differentiable]'"),
            _ => (
                " of a value of interface type".into(),
                "mark what the interface requires '[Differentiable]'",
            ),
        };
        let message = text!("the derivative is zero here: '{name}'{} has none", whose);
        let help = format!("{help}, or write 'detach' or 'no_diff' if zero is meant");
        let warning = Diagnostic::warning("E41033", self.p.span(expr), message).help(help);
        let declared = self.p.name_span(own.unwrap_or(required.decl));
        self.report(warning.note(declared, "declared here"));
    }

    /// Reports a number with a derivative that a method of a buffer writes: what is read there has none.
    pub(crate) fn lost_in_memory(&mut self, expr: ExprId, func: &Callable, base: Option<ExprId>) {
        let (Callable::Func(func), Some(base)) = (func, base) else { return };
        let ty = self.p.tables.exprs[base].ty;
        let is_memory = match self.p.types[ty] {
            TyKind::Buffer(..) | TyKind::Opaque(..) => true,
            TyKind::Struct(decl, _) => self.p.is_core(decl) && !self.is_active_type(ty),
            _ => false,
        };
        if !is_memory || !self.p.is_core(func.decl) {
            return;
        }
        let message = "the derivative is zero where this is read again: memory has none";
        let help = "write 'detach' of the number if zero is meant";
        self.report(Diagnostic::warning("E41033", self.p.span(expr), message).help(help));
    }

    /// Reports a lambda with captures that carry a derivative, passed where only its arguments have one.
    pub(crate) fn lost_by_capture(&mut self, lambda: ExprId) {
        self.p.lost.insert(lambda);
        let message = "the derivative by what this lambda captures is lost in this call";
        let help = "pass it as an argument of the lambda, or capture 'detach' of it if this is meant";
        self.report(Diagnostic::error("E41022", self.p.span(lambda), message).help(help));
    }

    /// Reports a derivative that is zero since a declaration uses a type without one, such as `T` or an
    /// interface, while the value has one: in a parameter, or (without `param`) in the receiver or the
    /// result.
    pub(crate) fn lost_by_declaration(&mut self, expr: ExprId, decl: DeclId, param: Option<DeclId>) {
        if self.p.is_core(decl) {
            return;
        }
        let span = self.p.span(expr);
        // Code that is rejected for all arguments needs no warning for some of them.
        if self.p.is_reported("E41022", span) {
            return;
        }
        let name = self.p.function_name(decl);
        let (at, what) = match param {
            Some(param) => {
                let param_name = self.p.ast.decl_name(param).to_string();
                (param, format!("'{param_name}' of '{name}'"))
            }
            None => (decl, format!("'{name}'")),
        };
        let message =
            format!("the derivative is zero here: {what} has none for the types that it is declared with");
        let declared = self.p.name_span(at);
        self.report(Diagnostic::warning("E41033", span, message).note(declared, "declared here").help("declare it with types that are 'IDifferentiable', or write 'detach' or 'no_diff' if zero is meant"));
    }
}
