//! Describes the entity under the cursor: its declaration, its type and its derivatives, as Markdown.

use check::tables::Meaning;
use syntax::Span;
use syntax::ast::DeclKind;

use crate::Analysis;
use crate::cursor::{Entity, Under};

/// The description of the entity at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hover {
    /// The span that the description refers to.
    pub span: Span,
    /// The description in Markdown.
    pub text: String,
}

impl Analysis {
    /// The description of the entity at an offset of the file.
    pub fn hover(&mut self, offset: u32) -> Option<Hover> {
        if let Some(hover) = self.attribute_hover(offset) {
            return Some(hover);
        }
        let (under, span) = self.under(offset)?;
        let (code, decl) = match under {
            Under::Declaration(decl) => (self.declaration_text(decl), Some(decl)),
            Under::Expr(expr) => match self.entity(expr) {
                Some(entity) => {
                    let decl = self.declaration_of(&entity);
                    (self.entity_text(&entity), decl)
                }
                None => {
                    let info = self.program.tables.exprs[expr].clone();
                    if matches!(info.meaning, Meaning::Error) {
                        return None;
                    }
                    let mut text = self.program.type_name(info.ty);
                    if let Some(to) = info.coerce {
                        text += &format!(" → {}", self.program.type_name(to));
                    }
                    (text, None)
                }
            },
        };
        if code.is_empty() {
            return None;
        }
        let mut text = format!("```slang\n{code}\n```");
        if let Some(decl) = decl {
            if let Some(origin) = self.origin(decl) {
                text += &format!("\n\n{origin}");
            }
            if let Some(comment) = self.comment_of(decl) {
                text += &format!("\n\n{comment}");
            }
        }
        Some(Hover { span, text })
    }

    /// The documentation of the attribute at an offset.
    fn attribute_hover(&self, offset: u32) -> Option<Hover> {
        let ast = &self.program.ast;
        let of_decls = ast.decls.values().flat_map(|d| &d.attributes);
        let all = of_decls.chain(ast.stmts.values().flat_map(|s| &s.attributes));
        let named = all.filter(|a| a.span.file == self.file).find_map(|a| {
            let span = Span { end: a.span.start + ast.name(a.name).len() as u32, ..a.span };
            (span.start <= offset && offset <= span.end).then_some((ast.name(a.name), span))
        });
        let (name, span) = named?;
        let doc = crate::attributes::attribute(name)?;
        Some(Hover { span, text: format!("```slang\n{}\n```\n\n{}", doc.usage(), doc.text) })
    }

    fn entity_text(&mut self, entity: &Entity) -> String {
        match entity {
            Entity::Decl(decl) => self.declaration_text(*decl),
            Entity::Func(callable) => self.function_lines(callable).join(";\n"),
            Entity::Type(ty) => match self.declaration_of(entity) {
                Some(decl) => self.type_text(*ty, decl),
                None => self.program.type_name(*ty),
            },
        }
    }

    /// The kind of a declaration and its owner: `parameter of f`.
    fn origin(&self, decl: syntax::DeclId) -> Option<String> {
        let d = &self.program.ast.decls[decl];
        let of = |word: &str| match d.parent.map(|p| self.name_of(p)) {
            Some(name) if !name.is_empty() && !name.starts_with('$') => format!("{word} of `{name}`"),
            _ => word.to_string(),
        };
        let text = match d.kind {
            DeclKind::Param { .. } => of("parameter"),
            DeclKind::Var { .. } => match d.parent.map(|p| &self.program.ast.decls[p].kind) {
                Some(DeclKind::Struct { .. } | DeclKind::Extension { .. }) => of("field"),
                Some(DeclKind::Func { .. } | DeclKind::Init { .. } | DeclKind::Accessor { .. }) => {
                    "local variable".to_string()
                }
                _ => "global".to_string(),
            },
            _ => String::new(),
        };
        let library = if self.program.is_core(decl) { "core library" } else { "" };
        let parts: Vec<&str> = [text.as_str(), library].into_iter().filter(|p| !p.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}
