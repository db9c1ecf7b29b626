//! Prints expressions and types.
//!
//! An expression whose text starts with another (`a + b`, `a.b`, `a[i]`) is printed after that
//! sub-expression, so the left spine is walked in a loop: the leaf is printed first, then the rest of each
//! enclosing expression.

use std::fmt::Write;

use super::Printer;
use crate::ast::*;
use crate::keywords as kw;

impl Printer<'_> {
    pub(super) fn expr(&mut self, expr: ExprId) {
        let mut spine = Vec::new();
        let mut leaf = expr;
        while let Some(left) = self.leftmost(leaf) {
            spine.push(leaf);
            leaf = left;
        }
        self.leaf(leaf);
        while let Some(parent) = spine.pop() {
            self.rest(parent);
        }
    }

    /// The sub-expression that the text of an expression starts with.
    fn leftmost(&self, expr: ExprId) -> Option<ExprId> {
        match self.ast.exprs[expr].kind {
            ExprKind::Member { base, .. } | ExprKind::Static { base, .. } => Some(base),
            ExprKind::Index { base, .. } | ExprKind::Generic { base, .. } => Some(base),
            ExprKind::Call { callee, .. } => Some(callee),
            ExprKind::Postfix(_, left) | ExprKind::Binary(_, left, _) | ExprKind::Assign(_, left, _) => {
                Some(left)
            }
            ExprKind::Ternary(left, _, _) | ExprKind::Is(left, _) | ExprKind::As(left, _) => Some(left),
            ExprKind::Pointer(left) => Some(left),
            _ => None,
        }
    }

    /// Prints the rest of an expression after its leftmost sub-expression.
    fn rest(&mut self, expr: ExprId) {
        let ast = self.ast;
        match &ast.exprs[expr].kind {
            ExprKind::Member { name, arrow, .. } => {
                self.text(if *arrow { "->" } else { "." });
                self.name(*name);
            }
            ExprKind::Static { name, .. } => {
                self.text("::");
                self.name(*name);
            }
            ExprKind::Index { args, .. } => {
                self.text("[");
                self.list(args);
                self.text("]");
            }
            ExprKind::Generic { args, .. } => {
                self.text("<");
                self.list(args);
                self.text(">");
            }
            ExprKind::Call { args, .. } => {
                self.text("(");
                self.list(args);
                self.text(")");
            }
            ExprKind::Postfix(increment, _) => self.text(if *increment { "++" } else { "--" }),
            ExprKind::Binary(op, _, right) => {
                let space = if *op == BinaryOp::Comma { "" } else { " " };
                let _ = write!(self.out, "{space}{} ", op.text());
                self.expr(*right);
            }
            ExprKind::Assign(op, _, right) => {
                let _ = write!(self.out, " {}= ", op.map_or("", BinaryOp::text));
                self.expr(*right);
            }
            ExprKind::Ternary(_, then, otherwise) => {
                self.text(" ? ");
                self.expr(*then);
                self.text(" : ");
                self.expr(*otherwise);
            }
            ExprKind::Is(_, ty) => {
                self.text(" is ");
                self.expr(*ty);
            }
            ExprKind::As(_, ty) => {
                self.text(" as ");
                self.expr(*ty);
            }
            ExprKind::Pointer(_) => self.text("*"),
            _ => {}
        }
    }

    fn leaf(&mut self, expr: ExprId) {
        let ast = self.ast;
        match &ast.exprs[expr].kind {
            ExprKind::Int { value, suffix } => {
                let _ = write!(self.out, "{value}");
                self.name(*suffix);
            }
            ExprKind::Float { value, suffix } => {
                if value.is_infinite() {
                    self.text("1.#INF");
                } else {
                    self.text(&crate::literal::float_text(*value, *suffix));
                }
                self.name(*suffix);
            }
            ExprKind::Bool(value) => self.text(if *value { "true" } else { "false" }),
            ExprKind::String(text) => self.string(text),
            ExprKind::NullPtr => self.text("nullptr"),
            ExprKind::None => self.text("none"),
            ExprKind::GlobalName(name) => {
                self.text("::");
                self.name(*name);
            }
            ExprKind::Name(name) | ExprKind::OperatorName(name) | ExprKind::Opaque(name) => {
                self.name(*name);
                if matches!(*name, kw::SPIRV_ASM) {
                    self.text(" {}");
                }
            }
            ExprKind::This => self.text("this"),
            ExprKind::ThisType => self.text("This"),
            ExprKind::Unary(op, inner) => {
                self.text(op.text());
                // `- -x` must not become `--x`.
                if matches!(ast.exprs[*inner].kind, ExprKind::Unary(..)) {
                    self.text(" ");
                }
                self.expr(*inner);
            }
            ExprKind::Cast(ty, inner) => {
                self.wrapped("(", *ty, ")");
                self.expr(*inner);
            }
            ExprKind::Paren(inner) => self.wrapped("(", *inner, ")"),
            ExprKind::InitList(items) => {
                self.text("{");
                self.list(items);
                self.text("}");
            }
            ExprKind::NoDiff(inner) => self.wrapped("no_diff ", *inner, ""),
            ExprKind::Try(inner) => self.wrapped("try ", *inner, ""),
            ExprKind::Derivative(op, inner) => {
                self.text(op.word());
                self.wrapped("(", *inner, ")");
            }
            ExprKind::SizeOf(SizeOfKind::SizeOf, inner) => self.wrapped("sizeof(", *inner, ")"),
            ExprKind::SizeOf(SizeOfKind::AlignOf, inner) => self.wrapped("alignof(", *inner, ")"),
            ExprKind::SizeOf(SizeOfKind::CountOf, inner) => self.wrapped("countof(", *inner, ")"),
            ExprKind::Expand(inner) => self.wrapped("expand ", *inner, ""),
            ExprKind::Each(inner) => self.wrapped("each ", *inner, ""),
            ExprKind::Modified(modifiers, inner) => {
                self.modifiers(*modifiers);
                self.expr(*inner);
            }
            ExprKind::Lambda(decl) => self.lambda(*decl),
            ExprKind::FuncType(params, result) => {
                self.text("functype(");
                self.list(params);
                self.wrapped(") -> ", *result, "");
            }
            // The other kinds have a leftmost sub-expression.
            _ => self.text("<error>"),
        }
    }

    pub(super) fn wrapped(&mut self, before: &str, inner: ExprId, after: &str) {
        self.text(before);
        self.expr(inner);
        self.text(after);
    }

    pub(super) fn list(&mut self, items: &[ExprId]) {
        for (i, &item) in items.iter().enumerate() {
            self.text(if i > 0 { ", " } else { "" });
            self.expr(item);
        }
    }

    pub(super) fn string(&mut self, text: &str) {
        self.text("\"");
        for c in text.chars() {
            match c {
                '"' | '\\' => self.out.extend(['\\', c]),
                '\n' => self.text("\\n"),
                '\t' => self.text("\\t"),
                '\r' => self.text("\\r"),
                '\0'..='\x1f' => {
                    let _ = write!(self.out, "\\{:03o}", u32::from(c));
                }
                _ => self.out.push(c),
            }
        }
        self.text("\"");
    }

    fn lambda(&mut self, decl: DeclId) {
        if let DeclKind::Func { params, body, .. } = &self.ast.decls[decl].kind {
            self.params(params);
            self.text(" => ");
            if let Some(body) = body {
                self.block_of(*body);
            }
        }
    }
}
