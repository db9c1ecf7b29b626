//! Warns of implicit conversions that lose what the value means: a truth value that becomes a number with a
//! fraction.

use syntax::ast::{DeclKind, StmtKind};
use syntax::{Diagnostic, ExprId, StmtId};

use crate::program::Program;
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
            TyKind::Vector(element, _) => match p.types[element] {
                TyKind::Scalar(scalar) => Some(scalar),
                _ => None,
            },
            _ => None,
        };
        if scalar(self, from) == Some(Scalar::Bool) && scalar(self, to).is_some_and(Scalar::is_float) {
            let message = text!("a '{}' becomes a '{}' here", self.shown(from), self.shown(to));
            let help = text!("if this is intended, say so: '{}(…)'", self.shown(to));
            self.report(Diagnostic::warning("E30081", self.span(expr), message).help(help));
        }
    }
}
