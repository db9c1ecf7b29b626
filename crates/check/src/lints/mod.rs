//! Warns of code that is valid but hardly means what its author intends.
//!
//! [`Program::lint`] looks over a declaration once its code has been checked, and reads the side tables only:
//! what failed to check has no meaning there, so no warning follows from an error. Code of the library is never
//! looked over.

mod aliases;
mod compile_time;
mod conversions;
mod loops;
mod uses;
mod values;

use syntax::ast::{BinaryOp, DeclKind, ExprKind, StmtKind};
use syntax::{DeclId, Diagnostic, ExprId, Span, StmtId};

use crate::program::Program;
use crate::tables::Meaning;

/// The code of a declaration, in no particular order.
#[derive(Default)]
struct Code {
    stmts: Vec<StmtId>,
    exprs: Vec<ExprId>,
    /// Expressions that stand for types.
    types: Vec<ExprId>,
}

impl Program {
    /// Looks over a function, an accessor, a variable or a field.
    pub(crate) fn lint(&mut self, decl: DeclId) {
        if self.is_core(decl) {
            return;
        }
        let code = self.code_of(decl);
        self.lint_uses(decl, &code);
        self.lint_commas(&code);
        self.lint_constants(decl, &code);
        self.lint_values(&code);
        for &expr in &code.exprs {
            self.lint_aliases(expr);
            self.lint_assigned(expr);
        }
        for &stmt in &code.stmts {
            self.lint_loop(stmt);
            self.lint_converted(stmt);
        }
    }

    /// All statements and expressions of a declaration. Lambdas are declarations of their own.
    fn code_of(&self, decl: DeclId) -> Code {
        let mut code = Code::default();
        let mut open = Vec::new();
        match &self.ast.decls[decl].kind {
            DeclKind::Func { params, result, .. } => {
                code.types.extend(result);
                code.types.extend(params.iter().filter_map(|&p| self.declared_type(p)));
            }
            DeclKind::Init { params, .. } => {
                code.types.extend(params.iter().filter_map(|&p| self.declared_type(p)));
            }
            DeclKind::Var { .. } => code.types.extend(self.declared_type(decl)),
            _ => {}
        }
        code.exprs.extend(self.ast.decls[decl].kind.init());
        open.extend(self.ast.decls[decl].kind.body());
        while let Some(stmt) = open.pop() {
            code.stmts.push(stmt);
            let kind = &self.ast.stmts[stmt].kind;
            kind.statements(&mut open);
            kind.expressions(&mut code.exprs);
            for &local in kind.declarations() {
                code.exprs.extend(self.ast.decls[local].kind.init());
                code.types.extend(self.declared_type(local));
            }
        }
        let mut next = 0;
        while let Some(&expr) = code.exprs.get(next) {
            self.ast.exprs[expr].kind.operands(&mut code.exprs);
            next += 1;
        }
        code
    }

    /// The declarations that the code of a declaration names, with the locations of the names.
    pub(crate) fn names_used_in(&self, decl: DeclId) -> Vec<(DeclId, Span)> {
        let code = self.code_of(decl);
        code.exprs.iter().filter_map(|&expr| self.named_by(expr)).collect()
    }

    /// The variables that a body declares.
    pub(crate) fn variables_in(&self, body: Option<StmtId>) -> Vec<DeclId> {
        let (mut open, mut found) = (Vec::from_iter(body), Vec::new());
        while let Some(stmt) = open.pop() {
            let kind = &self.ast.stmts[stmt].kind;
            kind.statements(&mut open);
            found.extend_from_slice(kind.declarations());
        }
        found
    }

    /// The places at which a function ends its fragment.
    pub(crate) fn discards(&self, decl: DeclId) -> Vec<Span> {
        let (mut open, mut found) = (Vec::from_iter(self.ast.decls[decl].kind.body()), Vec::new());
        while let Some(stmt) = open.pop() {
            let stmt = &self.ast.stmts[stmt];
            stmt.kind.statements(&mut open);
            found.extend(matches!(stmt.kind, StmtKind::Discard).then_some(stmt.span));
        }
        found
    }

    fn declared_type(&self, decl: DeclId) -> Option<ExprId> {
        match self.ast.decls[decl].kind {
            DeclKind::Var { ty, .. } | DeclKind::Param { ty, .. } => ty,
            _ => None,
        }
    }

    /// Warns of a `,` whose left side computes something that nobody reads: `float3 v = (0, 0, 1)`.
    fn lint_commas(&mut self, code: &Code) {
        // Where an expression is a whole statement, commas separate actions.
        let mut actions: Vec<ExprId> = Vec::new();
        for &stmt in &code.stmts {
            match self.ast.stmts[stmt].kind {
                StmtKind::Expr(expr) => actions.push(expr),
                StmtKind::For { step, .. } => actions.extend(step),
                _ => {}
            }
        }
        let mut next = 0;
        while let Some(&action) = actions.get(next) {
            if let ExprKind::Binary(BinaryOp::Comma, left, right) = self.ast.exprs[action].kind {
                actions.extend([left, right]);
            }
            next += 1;
        }
        for &expr in &code.exprs {
            if let Meaning::Binary(BinaryOp::Comma, left, _) = self.tables.exprs[expr].meaning
                && !actions.contains(&expr)
            {
                let message = "the value before this comma is not used: the last one is the result";
                let warning = Diagnostic::warning("E41024", self.span(left), message);
                self.report(warning.help("name the type to make a vector: `float3(…)`"));
            }
        }
    }

    /// The variable that an expression names.
    fn variable_of(&self, expr: ExprId) -> Option<DeclId> {
        match self.tables.exprs[self.tables.plain(expr)].meaning {
            Meaning::Var(decl) => Some(decl),
            _ => None,
        }
    }

    /// The variable that an expression names or names a part of.
    pub(crate) fn root_of(&self, mut expr: ExprId) -> Option<DeclId> {
        while let Some(base) = self.tables.exprs[expr].meaning.base() {
            expr = base;
        }
        self.variable_of(expr)
    }
}
