//! Reports operations whose result is known to hold nothing of their operands: `x << n` by as many bits as `x` has or
//! more, and the `.value` of an `Optional` that is always `none`.
//!
//! An optional is always `none` if it is a variable that is declared so and never changed, or what a `Conditional`
//! without a value gives. Where the program tests it, the test decides, and nothing is said; the same holds for the side
//! of a condition that is known to be false.

use syntax::ast::{BinaryOp, DeclKind, ExprKind, StmtKind};
use syntax::print::print_expr;
use syntax::{Diagnostic, ExprId, Span};

use super::Code;
use crate::program::Program;
use crate::tables::{Initializer, Meaning};
use crate::types::follow_up::text;
use crate::types::{GenericArg, Ty, TyKind, Val};

impl Program {
    /// Looks over the values in a declaration.
    pub(super) fn lint_values(&mut self, code: &Code) {
        let mut unused = None;
        for &expr in &code.exprs {
            let found = match self.tables.exprs[expr].meaning {
                Meaning::Binary(BinaryOp::Shl, left, right)
                | Meaning::Assign { op: Some(BinaryOp::Shl), target: left, value: right } => {
                    self.shifted_out(expr, left, right)
                }
                Meaning::TupleField { base, idx: 0 } => self.value_of_none(code, expr, base),
                _ => None,
            };
            let Some(diagnostic) = found else { continue };
            let unused = unused.get_or_insert_with(|| self.unused_sides(code));
            if !unused.iter().any(|&side| is_within(diagnostic.primary.span, side)) {
                self.report(diagnostic);
            }
        }
    }

    /// The sides of conditions that are known not to be taken.
    fn unused_sides(&mut self, code: &Code) -> Vec<Span> {
        let mut sides = Vec::new();
        let truth = |p: &mut Program, cond| match p.constant(cond, 0) {
            Some(Val::Int(value)) => Some(value != 0),
            _ => None,
        };
        for &expr in &code.exprs {
            if let ExprKind::Ternary(cond, then, other) = self.ast.exprs[expr].kind
                && let Some(holds) = truth(self, cond)
            {
                sides.push(self.span(if holds { other } else { then }));
            }
        }
        for &stmt in &code.stmts {
            if let StmtKind::If { cond, then, otherwise: other } = self.ast.stmts[stmt].kind
                && let Some(holds) = truth(self, cond)
            {
                let side = if holds { other } else { Some(then) };
                sides.extend(side.map(|side| self.ast.stmts[side].span));
            }
        }
        sides
    }

    fn shifted_out(&mut self, expr: ExprId, left: ExprId, right: ExprId) -> Option<Diagnostic> {
        let info = &self.tables.exprs[left];
        let ty = self.element(info.coerce.unwrap_or(info.ty));
        let TyKind::Scalar(scalar) = self.types[ty] else { return None };
        let Some(Val::Int(amount)) = self.constant(right, 0).filter(|_| scalar.is_int()) else { return None };
        let bits = i64::from(scalar.size()) * 8;
        (amount >= bits).then(|| {
            let message =
                text!("'{}' has {bits} bits: shifted left by {amount}, nothing is left", self.shown(ty));
            Diagnostic::warning("E41030", self.span(expr), message)
        })
    }

    fn value_of_none(&mut self, code: &Code, expr: ExprId, base: ExprId) -> Option<Diagnostic> {
        let ty = self.tables.exprs[base].ty;
        if !matches!(self.types[ty], TyKind::Optional(_)) || !self.is_always_none(code, base) {
            return None;
        }
        let tested = print_expr(&self.ast, base);
        if self.is_tested(code, &tested) {
            return None;
        }
        let message = text!("this '{}' is always 'none': it has no value", self.shown(ty));
        Some(Diagnostic::error("E41027", self.span(expr), message))
    }

    fn is_always_none(&mut self, code: &Code, expr: ExprId) -> bool {
        let expr = self.tables.plain(expr);
        match self.tables.exprs[expr].meaning.clone() {
            Meaning::Var(variable) => {
                let DeclKind::Var { init: Some(init), .. } = self.ast.decls[variable].kind else {
                    return false;
                };
                let is_local = |stmt| self.ast.stmts[stmt].kind.declarations().contains(&variable);
                code.stmts.iter().any(|&stmt| is_local(stmt))
                    && self.is_none(init)
                    && !self.changed_by(code.exprs.clone()).contains(&variable)
            }
            Meaning::Call { func, base: Some(base), .. } => {
                let is_get = func
                    .function()
                    .is_some_and(|f| self.is_core(f.decl) && self.ast.decl_name(f.decl) == "get");
                is_get && self.is_empty_conditional(self.tables.exprs[base].ty)
            }
            _ => false,
        }
    }

    /// Returns true for `none`, also where it becomes the `none` of a type.
    fn is_none(&self, expr: ExprId) -> bool {
        let expr = self.tables.plain(expr);
        match &self.tables.exprs[expr].meaning {
            Meaning::Aggregate(Initializer::Expr(inner)) => self.is_none(*inner),
            Meaning::Cast(inner) => self.is_none(*inner),
            _ => self.tables.exprs[expr].ty == Ty::NONE,
        }
    }

    /// Returns true for a `Conditional<T, false>`.
    fn is_empty_conditional(&self, ty: Ty) -> bool {
        let TyKind::Struct(decl, args) = &self.types[ty] else { return false };
        self.is_core(*decl)
            && self.ast.decl_name(*decl) == "Conditional"
            && matches!(args.get(1), Some(GenericArg::Val(Val::Int(0))))
    }

    /// Returns true if something reads whether the expression of this text has a value.
    fn is_tested(&self, code: &Code, tested: &str) -> bool {
        let is_same = |expr: ExprId| print_expr(&self.ast, expr) == tested;
        let is_bound = code.stmts.iter().any(|&stmt| match self.ast.stmts[stmt].kind {
            StmtKind::IfLet { var, .. } => self.ast.decls[var].kind.init().is_some_and(is_same),
            _ => false,
        });
        is_bound
            || code.exprs.iter().any(|&expr| match self.tables.exprs[expr].meaning {
                Meaning::TupleField { base, idx: 1 } => is_same(base),
                Meaning::Binary(BinaryOp::Eq | BinaryOp::Ne, left, right) => {
                    self.is_none(left) && is_same(right) || self.is_none(right) && is_same(left)
                }
                _ => false,
            })
    }
}

fn is_within(inner: Span, outer: Span) -> bool {
    inner.file == outer.file && outer.start <= inner.start && inner.end <= outer.end
}
