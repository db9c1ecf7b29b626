//! Prints the AST as source text, for `emit --stage ast` and for messages that quote an expression.
//!
//! The text parses to the same tree. Parentheses are nodes of the tree, so none need to be added. The left
//! spine of an expression is walked in a loop, so a sum of a million terms needs no stack.

mod declarations;
mod expressions;
mod statements;

use crate::ast::*;

/// Prints the declarations of a file.
pub fn print_file(ast: &Ast, file: &FileAst) -> String {
    let mut printer = Printer { ast, out: String::new(), indent: 0 };
    for &decl in &file.decls {
        printer.decl(decl);
    }
    printer.out
}

/// Prints an expression or type.
pub fn print_expr(ast: &Ast, expr: ExprId) -> String {
    let mut printer = Printer { ast, out: String::new(), indent: 0 };
    printer.expr(expr);
    printer.out
}

/// Prints a declaration with its contents.
pub fn print_decl(ast: &Ast, decl: DeclId) -> String {
    let mut printer = Printer { ast, out: String::new(), indent: 0 };
    printer.decl(decl);
    printer.out
}

/// Prints a statement with its contents.
pub fn print_stmt(ast: &Ast, stmt: StmtId) -> String {
    let mut printer = Printer { ast, out: String::new(), indent: 0 };
    printer.stmt(stmt);
    printer.out
}

struct Printer<'a> {
    ast: &'a Ast,
    out: String,
    indent: usize,
}

impl Printer<'_> {
    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn name(&mut self, symbol: Symbol) {
        let ast = self.ast;
        self.out.push_str(ast.name(symbol));
    }

    /// Starts a line.
    fn line(&mut self) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
    }
}
