//! Warns of implicit conversions that lose what the value means: a truth value that becomes a number with a
//! fraction.

use syntax::ast::{DeclKind, ExprKind, StmtKind, UnaryOp};
use syntax::{Diagnostic, ExprId, Message, StmtId};

use crate::program::Program;
use crate::signature::Subst;
use crate::tables::{Arg, Meaning};
use crate::types::follow_up::text;
use crate::types::{Scalar, Ty, TyKind};

impl Program {
    /// Looks over the values that an expression assigns or passes.
    pub(super) fn lint_assigned(&mut self, expr: ExprId) {
        match &self.tables.exprs[expr].meaning {
            Meaning::Assign { op: None, value, .. } => {
                let value = *value;
                self.lint_conversion(value);
            }
            Meaning::Call { args, func, .. } if func.function().is_some_and(|f| !self.is_core(f.decl)) => {
                let args: Vec<ExprId> =
                    args.iter().filter(|a| matches!(a, Arg::Expr(_))).flat_map(Arg::exprs).collect();
                args.into_iter().for_each(|arg| self.lint_conversion(arg));
            }
            _ => {}
        }
    }

    /// Looks over the values that a statement returns or gives to variables.
    pub(super) fn lint_converted(&mut self, stmt: StmtId) {
        let mut values = Vec::new();
        match &self.ast.stmts[stmt].kind {
            StmtKind::Return(value) => values.extend(value),
            kind => {
                for &local in kind.declarations() {
                    if let DeclKind::Var { ty: Some(_), init: Some(init), .. } = self.ast.decls[local].kind {
                        values.push(init);
                    }
                }
            }
        }
        values.into_iter().for_each(|value| self.lint_conversion(value));
    }

    fn lint_conversion(&mut self, expr: ExprId) {
        let info = &self.tables.exprs[expr];
        let (from, Some(to)) = (info.ty, info.coerce) else { return };
        let scalar = |p: &Program, ty: Ty| match p.types[ty] {
            TyKind::Scalar(scalar) => Some(scalar),
            TyKind::Vector(element, _, _) => match p.types[element] {
                TyKind::Scalar(scalar) => Some(scalar),
                _ => None,
            },
            _ => None,
        };
        let (Some(have), Some(want)) = (scalar(self, from), scalar(self, to)) else { return };
        if have == Scalar::Bool && want.is_float() {
            let message = text!("a '{}' becomes a '{}' here", self.shown(from), self.shown(to));
            self.warn_of_conversion(expr, to, message);
        } else if loses(have, want) && !self.is_kept(expr, have, want) {
            let message = text!(
                "a '{}' becomes a '{}' here, which can lose part of it",
                self.shown(from),
                self.shown(to)
            );
            self.warn_of_conversion(expr, to, message);
        }
    }

    fn warn_of_conversion(&mut self, expr: ExprId, to: Ty, message: Message) {
        let help = text!("if this is intended, say so: '{}(…)'", self.shown(to));
        self.report(Diagnostic::warning("E30081", self.span(expr), message).help(help));
    }

    /// Returns true for a number that is known and that the type can hold: an integer of its range, a literal with a
    /// fraction as any other floating-point number, and one without as an integer.
    fn is_kept(&mut self, expr: ExprId, have: Scalar, want: Scalar) -> bool {
        let (mut inner, mut is_negative) = (expr, false);
        loop {
            match self.ast.exprs[inner].kind {
                ExprKind::Paren(e) => inner = e,
                ExprKind::Unary(UnaryOp::Neg, e) => (inner, is_negative) = (e, !is_negative),
                _ => break,
            }
        }
        if let ExprKind::Float { value, .. } = self.ast.exprs[inner].kind {
            return want.is_float() || value.fract() == 0.0 && !is_negative;
        }
        // Other lints say what a constant is too large for.
        !have.is_float() && self.const_int(expr, &Subst::default()).is_some()
    }
}

/// Returns true if a number of one type may not be one of another: a fraction as an integer, or more bits. Rounding an
/// integer to a floating-point number loses no more than arithmetic does.
fn loses(from: Scalar, to: Scalar) -> bool {
    let is_number = |scalar: Scalar| scalar != Scalar::Bool;
    match (from.is_float(), to.is_float()) {
        (true, false) => true,
        (false, true) => false,
        _ => is_number(from) && is_number(to) && from.size() > to.size(),
    }
}
