//! Adds nodes to the AST for what the source does not contain.
//!
//! The checked program is the AST, as the parser made it, and side tables; no node of the parser ever changes.
//! Where the language defines something by other source (a lambda is a value of a struct, a bit-field a property,
//! the name of a function a lambda that calls it), the checker adds declarations, expressions and statements,
//! which are checked and lowered like those of the parser, and keeps in its tables what they stand for. Only
//! this file writes to the AST.

use syntax::ast::{Decl, DeclKind, Expr, ExprKind, Modifiers, Stmt, StmtKind};
use syntax::{DeclId, ExprId, Span, StmtId, Symbol, keywords as kw};

use crate::program::Program;
use crate::types::Ty;

impl Program {
    /// The members of a type, extension or namespace: those that were made, where they are not as written.
    pub fn members(&self, decl: DeclId) -> &[DeclId] {
        self.made.members.get(&decl).map_or(self.ast.decls[decl].kind.members(), |made| made)
    }

    /// Adds a declaration.
    pub(crate) fn add_decl(&mut self, decl: Decl) -> DeclId {
        self.ast.decls.push(decl)
    }

    /// Adds a declaration whose kind is set by [`Program::complete`], so that its members can refer to it.
    pub(crate) fn add_owner(&mut self, name: Symbol, span: Span, parent: DeclId) -> DeclId {
        self.add_decl(Decl::new(DeclKind::Empty, name, span, Some(parent)))
    }

    /// Sets the kind of an added declaration.
    pub(crate) fn complete(&mut self, added: DeclId, kind: DeclKind) {
        debug_assert!(matches!(self.ast.decls[added].kind, DeclKind::Empty));
        self.ast.decls[added].kind = kind;
    }

    /// Adds a field of a known type.
    pub(crate) fn add_field(&mut self, name: Symbol, ty: Ty, modifiers: Modifiers, parent: DeclId) -> DeclId {
        let kind = DeclKind::Var { ty: None, init: None, semantic: None };
        self.add_variable(kind, name, ty, modifiers, parent)
    }

    /// Adds a parameter of a known type.
    pub(crate) fn add_param(&mut self, name: Symbol, ty: Ty, modifiers: Modifiers, parent: DeclId) -> DeclId {
        let kind = DeclKind::Param { ty: None, default: None, semantic: None };
        self.add_variable(kind, name, ty, modifiers, parent)
    }

    /// Adds the parameter of a setter that names none; its type is that of the property.
    pub(crate) fn add_new_value(&mut self, setter: DeclId) {
        let kind = DeclKind::Param { ty: None, default: None, semantic: None };
        let param = Decl::new(kind, kw::NEW_VALUE, self.name_span(setter), Some(setter));
        let param = self.add_decl(param);
        self.made.new_values.insert(setter, param);
    }

    fn add_variable(
        &mut self,
        kind: DeclKind,
        name: Symbol,
        ty: Ty,
        modifiers: Modifiers,
        parent: DeclId,
    ) -> DeclId {
        let span = self.ast.decls[parent].span;
        let added = self.add_decl(Decl { modifiers, ..Decl::new(kind, name, span, Some(parent)) });
        self.tables.decl_types[added] = Some(ty);
        added
    }

    /// Adds an expression.
    pub(crate) fn add_expr(&mut self, kind: ExprKind, span: Span) -> ExprId {
        self.ast.exprs.push(Expr { kind, span })
    }

    /// Adds the expression that a text stands for, if it is one.
    pub(crate) fn add_text(&mut self, text: &str, span: Span) -> Option<ExprId> {
        syntax::parse_expression(&mut self.ast, text, span)
    }

    /// Adds a block of one statement.
    pub(crate) fn add_block(&mut self, kind: StmtKind, span: Span) -> StmtId {
        let stmt = self.ast.stmts.push(Stmt { kind, attributes: Vec::new(), span });
        self.ast.stmts.push(Stmt { kind: StmtKind::Block(vec![stmt]), attributes: Vec::new(), span })
    }
}
