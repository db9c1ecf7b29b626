//! Prints statements: each on its own line, with nested blocks indented.

use super::Printer;
use crate::ast::*;
use crate::keywords as kw;
use crate::literal::quoted;

impl Printer<'_> {
    pub(super) fn stmt(&mut self, stmt: StmtId) {
        self.line();
        self.stmt_here(stmt);
        put!(self, "\n");
    }

    /// Prints a statement without its indentation and line end.
    fn stmt_here(&mut self, stmt: StmtId) {
        let ast = self.ast;
        let node = &ast.stmts[stmt];
        put!(self, &node.attributes[..]);
        match &node.kind {
            StmtKind::Empty => put!(self, ";"),
            StmtKind::Block(_) => self.stmt_after(stmt),
            StmtKind::Expr(expr) => put!(self, expr, ";"),
            StmtKind::Decl(decls) => {
                for (i, &decl) in decls.iter().enumerate() {
                    if i > 0 {
                        put!(self, "\n");
                        self.line();
                    }
                    self.decl_here(decl);
                }
            }
            StmtKind::If { cond, then, otherwise } => {
                put!(self, "if (", cond, ") ", then, otherwise.map(|s| (" else ", s)));
            }
            StmtKind::IfLet { var, then, otherwise } => {
                put!(self, "if (");
                self.var_head(*var);
                put!(self, ") ", then, otherwise.map(|s| (" else ", s)));
            }
            StmtKind::For { init, cond, step, body } => {
                put!(self, "for (");
                self.for_init(*init);
                put!(self, cond.map(|e| (" ", e)), ";", step.map(|e| (" ", e)), ") ", body);
            }
            StmtKind::While { cond, body } => put!(self, "while (", cond, ") ", body),
            StmtKind::DoWhile { body, cond } => put!(self, "do ", body, " while (", cond, ");"),
            StmtKind::Switch { scrutinee, cases } => {
                put!(self, "switch (", scrutinee, ") ");
                self.cases(
                    cases.iter().map(|case| (&case.labels[..], &case.body[..])),
                    |p, label| match label {
                        Some(value) => put!(p, "case ", value, ": "),
                        None => put!(p, "default: "),
                    },
                );
            }
            StmtKind::Break => put!(self, "break;"),
            StmtKind::Continue => put!(self, "continue;"),
            StmtKind::Return(value) => put!(self, "return", value.map(|e| (" ", e)), ";"),
            StmtKind::Discard => put!(self, "discard;"),
            StmtKind::TargetSwitch(cases) => {
                put!(self, "__target_switch ");
                self.cases(cases.iter().map(|(names, body)| (&names[..], &body[..])), |p, &name| {
                    put!(p, (name != kw::DEFAULT).then_some("case "), name, ": ");
                });
            }
            StmtKind::IntrinsicAsm(text) => put!(self, "__intrinsic_asm ", quoted(text), ";"),
            StmtKind::Defer(body) => put!(self, "defer ", body),
            StmtKind::Labeled { label, body, .. } => put!(self, label, ": ", body),
            StmtKind::BreakTo { label, .. } => put!(self, "break ", label, ";"),
            StmtKind::Throw(value) => put!(self, "throw ", value, ";"),
            StmtKind::DoCatch { body, catches, .. } => {
                put!(self, "do ", body);
                for &(var, handler) in catches {
                    put!(self, " catch ");
                    if let Some(var) = var
                        && let DeclKind::Var { ty: Some(ty), .. } = ast.decls[var].kind
                    {
                        put!(self, "(", ast.decls[var].name, " : ", ty, ") ");
                    }
                    put!(self, handler);
                }
            }
            StmtKind::Unsupported(kw::SPIRV_ASM) => put!(self, "spirv_asm {}"),
            StmtKind::Unsupported(name @ (kw::BREAK | kw::CONTINUE)) => put!(self, name, " label;"),
            StmtKind::Unsupported(name) => put!(self, name, ";"),
            StmtKind::Error => put!(self, "/* error */;"),
        }
    }

    /// Prints the labels of each case on a line, and its statements on further ones.
    fn cases<'c, L: 'c>(
        &mut self,
        cases: impl Iterator<Item = (&'c [L], &'c [StmtId])>,
        mut label: impl FnMut(&mut Self, &L),
    ) {
        put!(self, "{\n");
        for (labels, body) in cases {
            self.line();
            labels.iter().for_each(|one| label(self, one));
            put!(self, "\n");
            self.indent += 1;
            body.iter().for_each(|&stmt| self.stmt(stmt));
            self.indent -= 1;
        }
        self.line();
        put!(self, "}");
    }

    /// Prints a statement that follows something else on the same line.
    pub(super) fn stmt_after(&mut self, stmt: StmtId) {
        let ast = self.ast;
        match &ast.stmts[stmt].kind {
            StmtKind::Block(stmts) if stmts.is_empty() => put!(self, "{}"),
            StmtKind::Block(stmts) => self.braces(|p| stmts.iter().for_each(|&stmt| p.stmt(stmt))),
            _ => self.stmt_here(stmt),
        }
    }

    fn for_init(&mut self, init: Option<StmtId>) {
        let ast = self.ast;
        match init.map(|init| (init, &ast.stmts[init].kind)) {
            Some((_, StmtKind::Decl(decls))) => {
                for (i, &decl) in decls.iter().enumerate() {
                    if i == 0 {
                        self.var_head(decl);
                        continue;
                    }
                    put!(self, ", ", ast.decls[decl].name);
                    put!(self, ast.decls[decl].kind.init().map(|e| (" = ", e)));
                }
                put!(self, ";");
            }
            Some((init, _)) => self.stmt_here(init),
            None => put!(self, ";"),
        }
    }
}
