//! Rules about the names of another module that code may use.

use syntax::ast::{DeclKind, ExprKind, StmtKind};
use syntax::{DeclId, Diagnostic, ExprId, StmtId};

use crate::program::Program;
use crate::tables::{Callable, Meaning};
use crate::types::TyKind;

impl Program {
    /// Reports what the expressions within a declaration name without being allowed to.
    pub(crate) fn check_access(&mut self, from: DeclId, expr: ExprId) {
        let mut open = vec![expr];
        while let Some(expr) = open.pop() {
            self.check_access_of(from, expr);
            self.ast.exprs[expr].kind.operands(&mut open);
        }
    }

    /// The same for a statement and those in it.
    pub(crate) fn check_access_in(&mut self, from: DeclId, stmt: StmtId) {
        let mut stmts = vec![stmt];
        while let Some(stmt) = stmts.pop() {
            let kind: StmtKind = self.ast.stmts[stmt].kind.clone();
            let mut exprs = Vec::new();
            kind.expressions(&mut exprs);
            for &local in kind.declarations() {
                exprs.extend(self.ast.decls[local].kind.init());
                if let DeclKind::Var { ty: Some(ty), .. } = self.ast.decls[local].kind {
                    exprs.push(ty);
                }
            }
            for expr in exprs {
                self.check_access(from, expr);
            }
            kind.statements(&mut stmts);
        }
    }

    fn check_access_of(&mut self, from: DeclId, expr: ExprId) {
        let is_path = matches!(
            self.ast.exprs[expr].kind,
            ExprKind::Name(_) | ExprKind::GlobalName(_) | ExprKind::Member { .. } | ExprKind::Static { .. }
        );
        let named = match &self.tables.exprs[expr].meaning {
            Meaning::Init { init, .. } => Some(init.decl),
            _ if !is_path => None,
            Meaning::Var(decl) | Meaning::EnumCase(decl) => Some(*decl),
            Meaning::Field { field, .. } => Some(*field),
            Meaning::Func { func: Callable::Func(func), .. } => Some(func.decl),
            Meaning::StaticMember(func) | Meaning::Property { member: func, .. } => Some(func.decl),
            Meaning::Type(ty) => match self.types[*ty] {
                TyKind::Struct(decl, _) | TyKind::Interface(decl, _) | TyKind::Enum(decl) => {
                    // The type may be named by an alias, which is as visible as it says.
                    let name = crate::names::enter::last_name(&self.ast, expr);
                    (name == Some(self.ast.decls[decl].name)).then_some(decl)
                }
                _ => None,
            },
            _ => None,
        };
        let Some(decl) = named else { return };
        if self.is_accessible(decl, from) {
            return;
        }
        let name = self.function_name(decl);
        let span = match self.ast.exprs[expr].kind {
            ExprKind::Member { name_span, .. } | ExprKind::Static { name_span, .. } => name_span,
            _ => self.span(expr),
        };
        let is_elsewhere = self.module_of(decl) != self.module_of(from);
        let help =
            if is_elsewhere { "its module has to declare it `public`" } else { "only its type may name it" };
        let error = Diagnostic::error("E30600", span, format!("'{name}' is not accessible here"));
        let error = self.declared(decl, error.help(help));
        self.report_once(error);
    }
}
