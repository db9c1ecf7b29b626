//! Prints statements: each on its own line, with nested blocks indented.

use super::Printer;
use crate::ast::*;
use crate::keywords as kw;

impl Printer<'_> {
    pub(super) fn stmt(&mut self, stmt: StmtId) {
        self.line();
        self.stmt_here(stmt);
        self.text("\n");
    }

    /// Prints a statement without its indentation and line end.
    fn stmt_here(&mut self, stmt: StmtId) {
        let ast = self.ast;
        let node = &ast.stmts[stmt];
        self.attributes(&node.attributes, " ");
        match &node.kind {
            StmtKind::Empty => self.text(";"),
            StmtKind::Block(_) => self.block_of(stmt),
            StmtKind::Expr(expr) => self.wrapped("", *expr, ";"),
            StmtKind::Decl(decls) => {
                for (i, &decl) in decls.iter().enumerate() {
                    if i > 0 {
                        self.text("\n");
                        self.line();
                    }
                    self.decl_here(decl);
                }
            }
            StmtKind::If { cond, then, otherwise } => {
                self.wrapped("if (", *cond, ") ");
                self.branches(*then, *otherwise);
            }
            StmtKind::IfLet { var, then, otherwise } => {
                self.text("if (");
                self.var_head(*var);
                self.text(") ");
                self.branches(*then, *otherwise);
            }
            StmtKind::For { init, cond, step, body } => {
                self.text("for (");
                self.for_init(*init);
                if let Some(cond) = cond {
                    self.text(" ");
                    self.expr(*cond);
                }
                self.text(";");
                if let Some(step) = step {
                    self.text(" ");
                    self.expr(*step);
                }
                self.text(") ");
                self.block_of(*body);
            }
            StmtKind::While { cond, body } => {
                self.wrapped("while (", *cond, ") ");
                self.block_of(*body);
            }
            StmtKind::DoWhile { body, cond } => {
                self.text("do ");
                self.block_of(*body);
                self.wrapped(" while (", *cond, ");");
            }
            StmtKind::Switch { scrutinee, cases } => {
                self.wrapped("switch (", *scrutinee, ") {\n");
                for case in cases {
                    self.line();
                    for &label in &case.labels {
                        match label {
                            Some(value) => self.wrapped("case ", value, ": "),
                            None => self.text("default: "),
                        }
                    }
                    self.text("\n");
                    self.stmts(&case.body);
                }
                self.line();
                self.text("}");
            }
            StmtKind::Break => self.text("break;"),
            StmtKind::Continue => self.text("continue;"),
            StmtKind::Return(None) => self.text("return;"),
            StmtKind::Return(Some(value)) => self.wrapped("return ", *value, ";"),
            StmtKind::Discard => self.text("discard;"),
            StmtKind::TargetSwitch(cases) => {
                self.text("__target_switch {\n");
                for (names, body) in cases {
                    self.line();
                    for &name in names {
                        self.text(if name == kw::DEFAULT { "" } else { "case " });
                        self.name(name);
                        self.text(": ");
                    }
                    self.text("\n");
                    self.stmts(body);
                }
                self.line();
                self.text("}");
            }
            StmtKind::IntrinsicAsm(text) => {
                self.text("__intrinsic_asm ");
                self.string(text);
                self.text(";");
            }
            StmtKind::Defer(body) => {
                self.text("defer ");
                self.block_of(*body);
            }
            StmtKind::Labeled { label, body, .. } => {
                self.name(*label);
                self.text(": ");
                self.block_of(*body);
            }
            StmtKind::BreakTo { label, .. } => {
                self.text("break ");
                self.name(*label);
                self.text(";");
            }
            StmtKind::Throw(value) => self.wrapped("throw ", *value, ";"),
            StmtKind::DoCatch { body, catches, .. } => {
                self.text("do ");
                self.block_of(*body);
                for &(var, handler) in catches {
                    self.text(" catch ");
                    if let Some(var) = var
                        && let DeclKind::Var { ty: Some(ty), .. } = self.ast.decls[var].kind
                    {
                        let name = self.ast.decls[var].name;
                        self.text("(");
                        self.name(name);
                        self.wrapped(" : ", ty, ") ");
                    }
                    self.block_of(handler);
                }
            }
            StmtKind::Unsupported(name) => match *name {
                kw::SPIRV_ASM => self.text("spirv_asm {}"),
                kw::BREAK | kw::CONTINUE => {
                    self.name(*name);
                    self.text(" label;");
                }
                _ => {
                    self.name(*name);
                    self.text(";");
                }
            },
            StmtKind::Error => self.text("/* error */;"),
        }
    }

    fn stmts(&mut self, stmts: &[StmtId]) {
        self.indent += 1;
        for &stmt in stmts {
            self.stmt(stmt);
        }
        self.indent -= 1;
    }

    /// Prints a statement that follows something else on the same line.
    pub(super) fn block_of(&mut self, stmt: StmtId) {
        let ast = self.ast;
        match &ast.stmts[stmt].kind {
            StmtKind::Block(stmts) if stmts.is_empty() => self.text("{}"),
            StmtKind::Block(stmts) => {
                self.text("{\n");
                self.stmts(stmts);
                self.line();
                self.text("}");
            }
            _ => self.stmt_here(stmt),
        }
    }

    fn branches(&mut self, then: StmtId, otherwise: Option<StmtId>) {
        self.block_of(then);
        if let Some(otherwise) = otherwise {
            self.text(" else ");
            self.block_of(otherwise);
        }
    }

    fn for_init(&mut self, init: Option<StmtId>) {
        let ast = self.ast;
        match init.map(|init| &ast.stmts[init].kind) {
            Some(StmtKind::Decl(decls)) => {
                for (i, &decl) in decls.iter().enumerate() {
                    if i == 0 {
                        self.var_head(decl);
                        continue;
                    }
                    self.text(", ");
                    self.name(ast.decls[decl].name);
                    if let DeclKind::Var { init: Some(init), .. } = ast.decls[decl].kind {
                        self.wrapped(" = ", init, "");
                    }
                }
                self.text(";");
            }
            Some(_) => self.stmt_here(init.expect("matched above")),
            None => self.text(";"),
        }
    }
}
