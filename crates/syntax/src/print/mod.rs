//! Prints the AST as source text, for `emit --stage ast` and for messages that quote an expression.
//!
//! The text parses to the same tree. Parentheses are nodes of the tree, so none need to be added. The left
//! spine of an expression is walked in a loop, so a sum of a million terms needs no stack.

/// Prints some [`Piece`]s, one after the other.
macro_rules! put {
    ($printer:expr $(, $piece:expr)* $(,)?) => {{ $($crate::print::Piece::print($piece, $printer);)* }};
}

mod declarations;
pub(crate) mod expressions;
mod statements;

use crate::ast::*;

/// Prints the declarations of a file.
pub fn print_file(ast: &Ast, file: &FileAst) -> String {
    print(ast, |printer| file.decls.iter().for_each(|&decl| printer.decl(decl)))
}

/// Prints an expression or type.
pub fn print_expr(ast: &Ast, expr: ExprId) -> String {
    print(ast, |printer| printer.expr(expr))
}

/// Prints the type of a generic value parameter: `int` if the source does not name it.
pub fn print_value_type(ast: &Ast, ty: Option<ExprId>) -> String {
    ty.map_or_else(|| "int".to_string(), |ty| print_expr(ast, ty))
}

/// Prints a declaration with its contents.
pub fn print_decl(ast: &Ast, decl: DeclId) -> String {
    print(ast, |printer| printer.decl(decl))
}

fn print(ast: &Ast, node: impl FnOnce(&mut Printer<'_>)) -> String {
    let mut printer = Printer { ast, out: String::new(), indent: 0 };
    node(&mut printer);
    printer.out
}

struct Printer<'a> {
    ast: &'a Ast,
    out: String,
    indent: usize,
}

/// A part of the text: words, a name, or a node of the tree. A statement is printed where it follows
/// something else on the same line, and expressions are separated by commas.
trait Piece {
    fn print(self, printer: &mut Printer<'_>);
}

impl Piece for &str {
    fn print(self, printer: &mut Printer<'_>) {
        printer.out.push_str(self);
    }
}

impl Piece for String {
    fn print(self, printer: &mut Printer<'_>) {
        printer.out += &self;
    }
}

impl Piece for Symbol {
    fn print(self, printer: &mut Printer<'_>) {
        printer.out.push_str(printer.ast.name(self));
    }
}

impl Piece for ExprId {
    fn print(self, printer: &mut Printer<'_>) {
        printer.expr(self);
    }
}

impl Piece for StmtId {
    fn print(self, printer: &mut Printer<'_>) {
        printer.stmt_after(self);
    }
}

impl Piece for &[ExprId] {
    fn print(self, printer: &mut Printer<'_>) {
        printer.separated(self, |printer, &expr| printer.expr(expr));
    }
}

impl<T: Piece + Copy> Piece for &T {
    fn print(self, printer: &mut Printer<'_>) {
        (*self).print(printer);
    }
}

impl<T: Piece> Piece for Option<T> {
    fn print(self, printer: &mut Printer<'_>) {
        self.into_iter().for_each(|piece| piece.print(printer));
    }
}

impl<A: Piece, B: Piece> Piece for (A, B) {
    fn print(self, printer: &mut Printer<'_>) {
        put!(printer, self.0, self.1);
    }
}

impl Printer<'_> {
    /// Starts a line.
    fn line(&mut self) {
        self.out.extend(std::iter::repeat_n("    ", self.indent));
    }

    /// Prints items with commas between them.
    fn separated<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        for (i, one) in items.iter().enumerate() {
            put!(self, if i > 0 { ", " } else { "" });
            item(self, one);
        }
    }

    /// Prints lines in braces.
    fn braces(&mut self, lines: impl FnOnce(&mut Self)) {
        put!(self, "{\n");
        self.indent += 1;
        lines(self);
        self.indent -= 1;
        self.line();
        put!(self, "}");
    }
}
