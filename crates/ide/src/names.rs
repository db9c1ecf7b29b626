//! Lists the names in parts of a program with what they refer to: for highlighting, references and hints.

use check::types::Ty;
use syntax::ast::{DeclKind, ExprKind};
use syntax::{DeclId, ExprId, FileId, Span};

use crate::Analysis;
use crate::cursor::{Entity, name_part};

/// A name in the text.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) span: Span,
    /// The declaration that the name refers to, or is the name of.
    pub(crate) decl: Option<DeclId>,
    /// The type that the name denotes, if it denotes one.
    pub(crate) ty: Option<Ty>,
    /// The expression; a declaration has none.
    pub(crate) expr: Option<ExprId>,
    /// The name of an attribute.
    pub(crate) is_attribute: bool,
}

impl Analysis {
    /// Checks the declarations that overlap a part of a file.
    pub(crate) fn check_range(&mut self, file: FileId, start: u32, end: u32) {
        let index = (0..self.program.ast.files.len()).filter(|&k| self.has_decls_of(k, file));
        for index in index.collect::<Vec<_>>() {
            for decl in self.program.units_of(index) {
                let d = &self.program.ast.decls[decl];
                if d.span.file == file && d.span.start <= end && start <= d.span.end {
                    self.program.check_declaration(decl);
                }
            }
        }
    }

    /// Returns true if a parsed file is the given one, or may include it.
    fn has_decls_of(&self, index: usize, file: FileId) -> bool {
        let decls = &self.program.ast.files[index].decls;
        self.program.ast.files[index].file == file
            || decls.iter().any(|&d| self.program.ast.decls[d].span.file == file)
    }

    /// The name at the start of an attribute as it is written: some have other names in the tree (`layout(offset = 4)`).
    fn attribute_name(&self, attribute: Span) -> Span {
        let text = self.text(attribute);
        let len = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len());
        Span { end: attribute.start + len as u32, ..attribute }
    }

    /// The names in a part of a file, in order. The declarations there have to have been checked.
    pub(crate) fn names_within(&mut self, file: FileId, start: u32, end: u32) -> Vec<Name> {
        let is_in =
            |span: Span| span.file == file && start <= span.start && span.end <= end && span.start < span.end;
        let parents = self.parents(file);
        let ast = &self.program.ast;
        let exprs: Vec<(ExprId, Span)> = ast
            .exprs
            .iter()
            .filter_map(|(id, e)| Some((id, name_part(&e.kind, e.span).filter(|&s| is_in(s))?)))
            .collect();
        let mut names: Vec<Name> = Vec::new();
        for (id, d) in ast.decls.iter() {
            if is_in(d.name_span)
                && !ast.name(d.name).is_empty()
                && self.text(d.name_span) == ast.name(d.name)
            {
                names.push(Name {
                    span: d.name_span,
                    decl: Some(id),
                    ty: None,
                    expr: None,
                    is_attribute: false,
                });
            }
        }
        let mut arguments: Vec<(DeclId, ExprId)> = Vec::new();
        for (id, d) in ast.decls.iter().filter(|d| d.1.span.file == file) {
            for attribute in &d.attributes {
                let span = self.attribute_name(attribute.span);
                if is_in(span) {
                    names.push(Name { span, decl: None, ty: None, expr: None, is_attribute: true });
                }
                arguments.extend(attribute.args.iter().map(|&arg| (id, arg)));
            }
        }
        for stmt in ast.stmts.values().filter(|s| s.span.file == file) {
            for attribute in &stmt.attributes {
                let span = self.attribute_name(attribute.span);
                if is_in(span) {
                    names.push(Name { span, decl: None, ty: None, expr: None, is_attribute: true });
                }
            }
        }
        for (expr, span) in exprs {
            let entity = self.entity_within(expr, &parents);
            let mut decl = entity.as_ref().and_then(|e| self.declaration_of(e));
            if decl.is_none() {
                let owner = arguments.iter().find(|(_, arg)| *arg == expr).map(|a| a.0);
                decl =
                    owner.and_then(|owner| self.program.functions_in_attribute(owner, expr).first().copied());
            }
            let ty = match entity {
                Some(Entity::Type(ty)) => Some(ty),
                _ => None,
            };
            names.push(Name { span, decl, ty, expr: Some(expr), is_attribute: false });
        }
        names.sort_by_key(|name| (name.span.start, name.expr.is_some()));
        names.dedup_by_key(|name| name.span);
        names
    }

    /// The function, constructor or accessor whose body contains a declaration or is it.
    pub(crate) fn function_around(&self, decl: DeclId) -> Option<DeclId> {
        self.program.ast.enclosing(decl).find(|&d| self.program.ast.decls[d].kind.body().is_some())
    }

    /// The functions, constructors and accessors that overlap a part of a file, with their bodies.
    pub(crate) fn functions_within(&self, file: FileId, start: u32, end: u32) -> Vec<DeclId> {
        let decls = self.program.ast.decls.iter();
        decls
            .filter(|(_, d)| d.span.file == file && d.span.start <= end && start <= d.span.end)
            .filter(|(_, d)| d.kind.body().is_some())
            .map(|(id, _)| id)
            .collect()
    }

    /// Returns true for the expression `this` and other words that are no names.
    pub(crate) fn is_this(&self, expr: ExprId) -> bool {
        matches!(self.program.ast.exprs[expr].kind, ExprKind::This | ExprKind::ThisType)
    }

    /// Returns true for a member of a struct, an extension or an interface.
    pub(crate) fn is_member(&self, decl: DeclId) -> bool {
        self.program.ast.decls[decl].parent.is_some_and(|p| {
            matches!(
                self.program.ast.decls[p].kind,
                DeclKind::Struct { .. } | DeclKind::Extension { .. } | DeclKind::Interface { .. }
            )
        })
    }
}
