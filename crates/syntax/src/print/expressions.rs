//! Prints expressions and types.
//!
//! An expression whose text starts with another (`a + b`, `a.b`, `a[i]`) is printed after that
//! sub-expression, so the left spine is walked in a loop: the leaf is printed first, then the rest of each
//! enclosing expression.

use super::Printer;
use super::declarations::Params;
use crate::ast::*;
use crate::keywords as kw;
use crate::literal::quoted;

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
            ExprKind::Pointer(left) | ExprKind::TypedList(left, _) => Some(left),
            _ => None,
        }
    }

    /// Prints the rest of an expression after its leftmost sub-expression.
    fn rest(&mut self, expr: ExprId) {
        let ast = self.ast;
        match &ast.exprs[expr].kind {
            ExprKind::Member { name, arrow, .. } => put!(self, if *arrow { "->" } else { "." }, name),
            ExprKind::Static { name, .. } => put!(self, "::", name),
            ExprKind::Index { args, .. } => put!(self, "[", &args[..], "]"),
            ExprKind::Generic { args, .. } => put!(self, "<", &args[..], ">"),
            ExprKind::Call { args, .. } => put!(self, "(", &args[..], ")"),
            ExprKind::Postfix(increment, _) => put!(self, if *increment { "++" } else { "--" }),
            ExprKind::Binary(BinaryOp::Comma, _, right) => put!(self, ", ", right),
            ExprKind::Binary(op, _, right) => put!(self, " ", op.text(), " ", right),
            ExprKind::Assign(op, _, right) => put!(self, " ", op.map(BinaryOp::text), "= ", right),
            ExprKind::Ternary(_, then, otherwise) => put!(self, " ? ", then, " : ", otherwise),
            ExprKind::Is(_, ty) => put!(self, " is ", ty),
            ExprKind::As(_, ty) => put!(self, " as ", ty),
            ExprKind::Pointer(_) => put!(self, "*"),
            ExprKind::TypedList(_, list) => put!(self, list),
            _ => {}
        }
    }

    fn leaf(&mut self, expr: ExprId) {
        let ast = self.ast;
        match &ast.exprs[expr].kind {
            ExprKind::Int { value, suffix } => put!(self, value.to_string(), suffix),
            ExprKind::Float { value, suffix } if value.is_infinite() => put!(self, "1.#INF", suffix),
            ExprKind::Float { value, suffix } => {
                put!(self, crate::literal::float_text(*value, *suffix), suffix);
            }
            ExprKind::Bool(value) => put!(self, if *value { "true" } else { "false" }),
            ExprKind::String(text) => put!(self, quoted(text)),
            ExprKind::NullPtr => put!(self, "nullptr"),
            ExprKind::None => put!(self, "none"),
            ExprKind::GlobalName(name) => put!(self, "::", name),
            ExprKind::Opaque(name @ kw::SPIRV_ASM) => put!(self, name, " {}"),
            ExprKind::Name(name) | ExprKind::OperatorName(name) | ExprKind::Opaque(name) => put!(self, name),
            ExprKind::This => put!(self, "this"),
            ExprKind::ThisType => put!(self, "This"),
            ExprKind::Unary(op, inner) => {
                // `- -x` must not become `--x`.
                let is_nested = matches!(ast.exprs[*inner].kind, ExprKind::Unary(..));
                put!(self, op.text(), is_nested.then_some(" "), inner);
            }
            ExprKind::Cast(ty, inner) => put!(self, "(", ty, ")", inner),
            ExprKind::Paren(inner) => put!(self, "(", inner, ")"),
            ExprKind::InitList(items) => put!(self, "{", &items[..], "}"),
            ExprKind::NoDiff(inner) => put!(self, "no_diff ", inner),
            ExprKind::Try(inner) => put!(self, "try ", inner),
            ExprKind::Derivative(op, inner) => put!(self, op.text(), "(", inner, ")"),
            ExprKind::SizeOf(kind, inner, None) => put!(self, kind.text(), "(", inner, ")"),
            ExprKind::SizeOf(kind, inner, Some(layout)) => {
                put!(self, kind.text(), "(", inner, ", ", layout, ")")
            }
            ExprKind::Expand(inner) => put!(self, "expand ", inner),
            ExprKind::Each(inner) => put!(self, "each ", inner),
            ExprKind::PackPart(part, inner) => put!(self, part.text(), "(", inner, ")"),
            ExprKind::Shape(op, parts) => put!(self, op.text(), "(", &parts[..], ")"),
            ExprKind::PackBranch(parts) => put!(self, "__packBranch(", &parts[..], ")"),
            ExprKind::Modified(modifiers, inner) => put!(self, *modifiers, inner),
            ExprKind::Lambda(decl) => {
                if let DeclKind::Func { params, body, .. } = &ast.decls[*decl].kind {
                    put!(self, Params(params), " => ");
                    match body.map(|body| &ast.stmts[body].kind) {
                        Some(StmtKind::Return(value)) => put!(self, value),
                        _ => put!(self, body),
                    }
                }
            }
            ExprKind::FuncType(params, result) => put!(self, "functype(", &params[..], ") -> ", result),
            // The other kinds have a leftmost sub-expression.
            _ => put!(self, "<error>"),
        }
    }
}
