//! Checks `throw`, `try` and `catch`: the errors that a function throws, and the targets of thrown errors.
//!
//! An error is caught by the first enclosing `catch` for its type, or for any type; otherwise it leaves the
//! function, which has to declare that type. All of this is determined by types, so each `throw` and each
//! `try` has one target.

use syntax::ast::{DeclKind, ExprKind};
use syntax::{DeclId, ExprId, Span, StmtId};

use crate::exprs::infer::Checker;
use crate::program::Program;
use crate::tables::{Callable, FuncRef, Meaning, Thrown};
use crate::types::Ty;
use crate::types::follow_up::text;

impl Program {
    /// The type of the errors that a function throws.
    pub fn error_of(&mut self, func: &FuncRef) -> Option<Ty> {
        let declared = self.declared_error(func.decl)?;
        let env = self.subst_of(func);
        Some(self.substitute(declared, &env))
    }

    fn declared_error(&mut self, decl: DeclId) -> Option<Ty> {
        let ty = *self.ast.throws.get(&decl)?;
        Some(Checker::new(self, decl).type_expr(ty))
    }
}

impl Checker<'_> {
    /// Records the error type of a function, and reports kinds of functions that cannot throw.
    pub(crate) fn check_throws(&mut self, decl: DeclId) {
        self.throws = self.p.declared_error(decl);
        if self.throws.is_none() {
            return;
        }
        let span = self.p.name_span(decl);
        let is_operator = self.p.ast.decl_name(decl).starts_with("operator");
        if is_operator || !matches!(self.p.ast.decls[decl].kind, DeclKind::Func { .. }) {
            self.unsupported(span, "a constructor, accessor or operator that throws is");
        }
    }

    /// Reports a call of a throwing function outside of a `try`.
    pub(crate) fn check_tried(&mut self, expr: ExprId, callable: &Callable) {
        let Some(decl) = callable.function().map(|f| f.decl) else { return };
        if !self.p.ast.throws.contains_key(&decl) {
            return;
        }
        let span = self.span(expr);
        if self.tried != Some(expr) {
            self.error("E30094", span, "the callee may throw an error: call it with 'try'");
        }
    }

    /// Checks `throw e;`.
    pub(crate) fn throw(&mut self, value: ExprId) {
        if matches!(self.p.ast.exprs[value].kind, ExprKind::InitList(_)) {
            return self.throw_list(value);
        }
        let ty = self.infer(value, None);
        self.thrown(value, ty, self.span(value));
    }

    /// Checks `throw { … };`: the list is an error of the type that is caught here, or else of the function's.
    fn throw_list(&mut self, value: ExprId) {
        let caught = self.catches.iter().rev().flat_map(|(_, clauses)| clauses);
        let ty = match caught.copied().next() {
            Some(clause) => clause,
            None => self.throws,
        };
        match ty {
            Some(ty) => {
                self.check(value, ty);
                self.thrown(value, ty, self.span(value));
            }
            None => {
                let message = "the type of this list is not known here: write it before the list";
                self.error("E30116", self.span(value), message);
            }
        }
    }

    /// Checks `try f(…)`.
    pub(crate) fn try_call(&mut self, expr: ExprId) {
        let ExprKind::Try(call) = self.p.ast.exprs[expr].kind else { return };
        let outer = self.tried.replace(call);
        self.infer(call, None);
        self.tried = outer;
        let ty = self.load(call);
        let span = self.span(call);
        let error = match self.p.tables.exprs[call].meaning.clone() {
            Meaning::Error => {
                self.set_value(expr, ty, Meaning::Error);
                return;
            }
            Meaning::Call { func, .. } => func.function().and_then(|f| self.p.error_of(f)),
            _ => None,
        };
        self.set_value(expr, ty, Meaning::Try(call));
        match error {
            Some(error) => self.thrown(expr, error, span),
            None => self.error("E30091", span, "this does not throw an error, and needs no 'try'"),
        }
    }

    fn thrown(&mut self, expr: ExprId, error: Ty, span: Span) {
        if error == Ty::ERROR {
            return;
        }
        for (level, clauses) in self.catches.iter().rev() {
            let fits = clauses.iter().position(|clause| clause.is_none_or(|ty| ty == error));
            if let Some(clause) = fits {
                let target = Some((*level, clause as u32));
                self.p.tables.throws.insert(expr, Thrown { error, target });
                return;
            }
        }
        match self.throws {
            Some(own) if own == error => {
                self.p.tables.throws.insert(expr, Thrown { error, target: None });
            }
            Some(own) => {
                let message = text!(
                    "an error of type '{}' is thrown, but the function throws '{}'",
                    self.name(error),
                    self.name(own)
                );
                self.error("E30117", span, message);
            }
            None => {
                let message = text!(
                    "an error of type '{}' is not caught, and the function throws none",
                    self.name(error)
                );
                self.error("E30116", span, message);
            }
        }
    }

    /// Checks `do … catch …`.
    pub(crate) fn do_catch(&mut self, body: StmtId, level: u32, catches: &[(Option<DeclId>, StmtId)]) {
        let caught = |checker: &mut Self, var: DeclId| match checker.p.ast.decls[var].kind {
            DeclKind::Var { ty: Some(ty), .. } => checker.type_expr(ty),
            _ => Ty::ERROR,
        };
        let clauses: Vec<Option<Ty>> =
            catches.iter().map(|clause| clause.0.map(|var| caught(self, var))).collect();
        self.catches.push((level, clauses.clone()));
        self.statement(body);
        self.catches.pop();
        for (&(var, handler), ty) in catches.iter().zip(clauses) {
            let depth = self.locals.len();
            if let (Some(var), Some(ty)) = (var, ty) {
                self.p.queries.bodies.insert(var, ());
                self.p.tables.decl_types[var] = Some(ty);
                self.locals.push((self.p.ast.decls[var].name, var));
            }
            self.statement(handler);
            self.locals.truncate(depth);
        }
    }
}
