//! Computes the outline of a file.

use syntax::ast::DeclKind;
use syntax::{DeclId, Span};

use crate::Analysis;

/// The kind of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SymbolKind {
    Function,
    Method,
    Constructor,
    Struct,
    Interface,
    Enum,
    EnumCase,
    Field,
    Variable,
    Property,
    Namespace,
    Type,
}

/// A declaration in the outline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolNode {
    /// The name.
    pub name: String,
    /// The type or signature.
    pub detail: String,
    /// The kind.
    pub kind: SymbolKind,
    /// The span of the whole declaration.
    pub span: Span,
    /// The span of the name.
    pub name_span: Span,
    /// The declarations inside.
    pub children: Vec<SymbolNode>,
}

impl Analysis {
    /// The declarations of the file, nested as in the source. Bodies are skipped and nothing is checked.
    pub fn symbols(&self) -> Vec<SymbolNode> {
        self.nodes(&self.program.ast.files[self.index].decls, SymbolKind::Namespace)
    }

    /// The nodes of declarations within another one of this kind.
    fn nodes(&self, decls: &[DeclId], within: SymbolKind) -> Vec<SymbolNode> {
        decls.iter().filter_map(|&d| self.node(d, within)).collect()
    }

    fn node(&self, decl: DeclId, within: SymbolKind) -> Option<SymbolNode> {
        let member = within != SymbolKind::Namespace;
        let d = &self.program.ast.decls[decl];
        if d.span.file != self.file {
            return None;
        }
        let none: &[DeclId] = &[];
        let (kind, inside) = match &d.kind {
            DeclKind::Func { .. } if member => (SymbolKind::Method, none),
            DeclKind::Func { .. } => (SymbolKind::Function, none),
            DeclKind::Init { .. } => (SymbolKind::Constructor, none),
            DeclKind::Struct { members, .. } | DeclKind::Extension { members, .. } => {
                (SymbolKind::Struct, &members[..])
            }
            DeclKind::Interface { members, .. } => (SymbolKind::Interface, &members[..]),
            DeclKind::Enum { cases, .. } => (SymbolKind::Enum, &cases[..]),
            DeclKind::EnumCase(_) => (SymbolKind::EnumCase, none),
            DeclKind::Var { .. } if member => (SymbolKind::Field, none),
            DeclKind::Var { .. } => (SymbolKind::Variable, none),
            DeclKind::Property { .. } | DeclKind::Subscript { .. } => (SymbolKind::Property, none),
            DeclKind::Namespace { members } | DeclKind::CBuffer { members } => {
                (SymbolKind::Namespace, &members[..])
            }
            DeclKind::TypeAlias(_) | DeclKind::AssociatedType { .. } => (SymbolKind::Type, none),
            _ => return None,
        };
        let head = self.head(decl);
        let name = match (&d.kind, self.name_of(decl)) {
            (DeclKind::Init { .. }, _) => "__init".to_string(),
            (DeclKind::Subscript { .. }, _) => "__subscript".to_string(),
            (DeclKind::Extension { target, .. }, _) => {
                format!("extension {}", self.text(self.span_of(*target)))
            }
            (_, name) if name.is_empty() || name.starts_with('$') => head.clone(),
            (_, name) => name.to_string(),
        };
        let children = self.nodes(inside, kind);
        let inside = |span: Span| d.span.start <= span.start && span.end <= d.span.end;
        let name_span = if inside(d.name_span) { d.name_span } else { Span { end: d.span.start, ..d.span } };
        Some(SymbolNode { name, detail: head, kind, span: d.span, name_span, children })
    }

    fn span_of(&self, expr: syntax::ExprId) -> Span {
        self.program.ast.exprs[expr].span
    }

    /// The source text of the declaration, up to its body or value, on one line.
    fn head(&self, decl: DeclId) -> String {
        let d = &self.program.ast.decls[decl];
        let start = d.attributes.iter().map(|a| a.span.end + 1).max().unwrap_or(0).max(d.span.start);
        let text = self.text(Span { start: start.min(d.span.end), ..d.span });
        let end = text.find(['{', '=', ';']).unwrap_or(text.len());
        let line: Vec<&str> = text[..end].split_whitespace().collect();
        let line = line.join(" ");
        line.chars().take(120).collect()
    }
}
