//! Computes completions at the cursor.
//!
//! A program that is being edited usually does not parse at the cursor. Therefore an otherwise unused name is
//! inserted there, and the checker is queried for what precedes it: after a dot the members of that type,
//! otherwise everything in scope.

use std::path::Path;

use check::tables::Meaning;
use check::types::{Comparison, Ty, TyKind, Val};
use driver::Error;
use driver::session::FileOptions;
use rustc_hash::FxHashSet;
use syntax::ast::{DeclKind, ExprKind};
use syntax::{DeclId, ExprId};

use crate::Analysis;
use crate::attributes::{ATTRIBUTES, AttributeDoc, is_in_attribute};

/// The placeholder for the name that is being typed.
pub(crate) const PLACEHOLDER: &str = "pullback_completion";

/// Keywords that begin a statement, a type or an expression, with spaces between them.
const KEYWORDS: &str = "\
    bool break bwd_diff const continue detach diffPair do double else extension false float float2 \
    float2x2 float3 float3x3 float4 float4x4 for fwd_diff half if import in inout int int2 int3 int4 \
    interface let no_diff none nullptr out return static struct switch this true typealias uint uint2 \
    uint3 uint4 uniform var void while DifferentialPair RWStructuredBuffer StructuredBuffer Optional \
    Tuple Array vector matrix";

/// Returns true for a word that begins a statement, a type or an expression.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.split_whitespace().any(|keyword| keyword == word)
}

/// The kind of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum CompletionKind {
    Function,
    Field,
    Variable,
    Type,
    Namespace,
    EnumCase,
    Property,
    Keyword,
    Attribute,
}

/// A proposed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The text to insert.
    pub label: String,
    /// The kind of the item.
    pub kind: CompletionKind,
    /// The type or signature of the item.
    pub detail: String,
    /// The distance of the declaration; smaller ranks come first.
    pub rank: u32,
    /// The comment before the declaration, or the documentation of an attribute.
    pub documentation: Option<String>,
    /// The text to insert if it is not the label: a snippet, in which `$1` is the place of the cursor.
    pub snippet: Option<String>,
}

impl Completion {
    fn plain(label: String, kind: CompletionKind, detail: String, rank: u32) -> Completion {
        Completion { label, kind, detail, rank, documentation: None, snippet: None }
    }
}

/// All completions at an offset of a text, regardless of the part of the word that has been typed already.
pub fn complete(
    options: &FileOptions,
    path: &Path,
    text: &str,
    offset: usize,
) -> Result<Vec<Completion>, Error> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let before = text.get(..offset).unwrap_or(text);
    let start = before
        .rfind(|c| !is_word(c))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    if is_in_attribute(text, offset) {
        return Ok(attributes(text, offset));
    }
    let rest = text.get(offset..).unwrap_or("");
    let rest = rest.trim_start_matches(is_word);
    let text = format!("{}{PLACEHOLDER}{rest}", &text[..start]);
    let mut options = options.clone();
    options.open.push((path.to_path_buf(), text.into()));
    let mut analysis = Analysis::new(&options, path)?;
    Ok(analysis.completions(start as u32))
}

/// The attributes, those first that fit what is next in the text: a loop or a declaration.
fn attributes(text: &str, offset: usize) -> Vec<Completion> {
    let rest = text.get(offset..).unwrap_or("");
    let rest = rest.trim_start_matches(|c: char| c == '_' || c.is_ascii_alphanumeric());
    let next = rest.trim_start_matches(|c: char| c == ']' || c.is_whitespace());
    let is_loop = ["for", "while", "do"].iter().any(|word| next.starts_with(word));
    let item = |doc: &AttributeDoc| {
        let of_loop = doc.text.starts_with("On a loop");
        let snippet = match (doc.arguments.strip_prefix('('), doc.arguments.strip_suffix(')')) {
            (Some(inner), Some(_)) => Some(format!("{}(${{1:{}}})", doc.name, &inner[..inner.len() - 1])),
            _ => None,
        };
        Completion {
            label: doc.name.to_string(),
            kind: CompletionKind::Attribute,
            detail: doc.usage(),
            rank: u32::from(of_loop != is_loop),
            documentation: Some(doc.text.to_string()),
            snippet,
        }
    };
    ATTRIBUTES.iter().map(item).collect()
}

impl Analysis {
    /// The declarations that the placeholder at an offset could name.
    pub(crate) fn declarations_at(&mut self, offset: u32) -> Vec<DeclId> {
        self.check_around(offset);
        match self.placeholder_base() {
            Some(base) => self.member_decls(base),
            None => {
                let scope = self.scope_at(offset);
                self.program.names_at(scope, self.index)
            }
        }
    }

    /// The expression before the dot before the placeholder.
    fn placeholder_base(&self) -> Option<ExprId> {
        let symbol = self.program.ast.symbols.find(PLACEHOLDER)?;
        let mut base = None;
        for expr in self.program.ast.exprs.values() {
            match expr.kind {
                ExprKind::Member { base: b, name, .. } | ExprKind::Static { base: b, name, .. }
                    if name == symbol =>
                {
                    base = Some(b);
                }
                _ => {}
            }
        }
        base
    }

    fn completions(&mut self, offset: u32) -> Vec<Completion> {
        self.check_around(offset);
        if self.program.ast.symbols.find(PLACEHOLDER).is_none() {
            return Vec::new();
        }
        let base = self.placeholder_base();
        let mut out = match base {
            Some(base) => self.members(base),
            None => self.names(offset),
        };
        let mut seen = FxHashSet::default();
        out.retain(|c| c.label != PLACEHOLDER && seen.insert((c.label.clone(), c.detail.clone())));
        out
    }

    /// The declared members of what an expression denotes: a namespace, a type or a value.
    fn member_decls(&mut self, base: ExprId) -> Vec<DeclId> {
        let info = self.program.tables.exprs[base].clone();
        if let Meaning::Namespace(namespace) = info.meaning {
            return self.program.namespace_members(namespace);
        }
        if matches!(info.meaning, Meaning::Error) {
            return Vec::new();
        }
        let is_type = matches!(info.meaning, Meaning::Type(_));
        let ty = self.content(info.ty);
        let mut decls = self.program.members_of(ty);
        decls.retain(|&d| !self.program.is_deriv_method(d));
        decls.retain(|&d| {
            let is_instance =
                matches!(self.program.ast.decls[d].kind, DeclKind::Var { .. } | DeclKind::Func { .. });
            !(is_type && is_instance) || self.program.is_static(d)
        });
        decls
    }

    fn members(&mut self, base: ExprId) -> Vec<Completion> {
        let decls = self.member_decls(base);
        let info = self.program.tables.exprs[base].clone();
        let mut out = match info.meaning {
            Meaning::Namespace(_) | Meaning::Error => Vec::new(),
            meaning => {
                let ty = self.content(info.ty);
                self.builtin_members(ty, matches!(meaning, Meaning::Type(_)))
            }
        };
        out.extend(self.offered(&decls, 0));
        out
    }

    /// The content of a pointer or constant buffer, through which members are accessed; other types are
    /// returned unchanged.
    fn content(&self, ty: Ty) -> Ty {
        use check::types::BufferKind::{ConstantBuffer, ParameterBlock};
        match self.program.types[ty] {
            TyKind::Pointer(content, ..) | TyKind::Buffer(ConstantBuffer | ParameterBlock, content) => {
                content
            }
            _ => ty,
        }
    }

    fn builtin_members(&mut self, ty: Ty, is_type: bool) -> Vec<Completion> {
        if is_type {
            return Vec::new();
        }
        let mut names: Vec<(String, Ty)> = Vec::new();
        match self.program.types[ty].clone() {
            TyKind::Vector(element, n, _) => {
                let n = match n {
                    Val::Int(n) => n.clamp(0, 4) as usize,
                    _ => 4,
                };
                names.extend(["x", "y", "z", "w"].iter().take(n).map(|c| (c.to_string(), element)));
                for (len, text) in [(2, "xy"), (3, "xyz")] {
                    if n >= len {
                        let ty = self.program.types.intern(TyKind::Vector(
                            element,
                            Val::Int(len as i64),
                            Comparison::Each,
                        ));
                        names.push((text.to_string(), ty));
                    }
                }
            }
            TyKind::DiffPair(primal) => {
                let differential = self.program.differential(primal).unwrap_or(primal);
                names = vec![("p".into(), primal), ("d".into(), differential)];
            }
            TyKind::DiffPtrPair(primal) => {
                let differential = self.program.pointer_differential(primal).unwrap_or(primal);
                names = vec![("p".into(), primal), ("d".into(), differential)];
            }
            TyKind::Optional(inner) => names = vec![("value".into(), inner), ("hasValue".into(), Ty::BOOL)],
            TyKind::Tuple(parts) => {
                names.extend(parts.iter().enumerate().map(|(i, &t)| (format!("_{i}"), t)));
            }
            _ => {}
        }
        let field = |(label, ty): (String, Ty)| {
            let detail = self.program.type_name(ty);
            Completion::plain(label, CompletionKind::Field, detail, 0)
        };
        names.into_iter().map(field).collect()
    }

    fn names(&mut self, offset: u32) -> Vec<Completion> {
        let scope = self.scope_at(offset);
        let mut locals = scope.map_or(Vec::new(), |s| self.locals_at(s, offset));
        locals.reverse();
        let mut out = self.offered(&locals, 0);
        let visible = self.program.names_at(scope, self.index);
        let (library, own): (Vec<_>, Vec<_>) = visible.into_iter().partition(|&d| self.program.is_core(d));
        out.extend(self.offered(&own, 1));
        out.extend(self.offered(&library, 2));
        let keyword =
            |word: &str| Completion::plain(word.to_string(), CompletionKind::Keyword, String::new(), 3);
        out.extend(KEYWORDS.split(' ').map(keyword));
        out
    }

    fn offered(&mut self, decls: &[DeclId], rank: u32) -> Vec<Completion> {
        let mut out = Vec::new();
        for &decl in decls {
            let name = self.name_of(decl).to_string();
            if name.is_empty() || name.starts_with(['$', '_']) || name.starts_with("operator") {
                continue;
            }
            let (kind, detail) = match self.program.ast.decls[decl].kind {
                DeclKind::Func { .. } => {
                    let callable = self.as_callable(decl);
                    (CompletionKind::Function, self.callable_text(&callable))
                }
                DeclKind::Var { .. } => {
                    let is_field = self.program.ast.decls[decl]
                        .parent
                        .is_some_and(|p| matches!(self.program.ast.decls[p].kind, DeclKind::Struct { .. }));
                    let kind = if is_field { CompletionKind::Field } else { CompletionKind::Variable };
                    (kind, self.type_of(decl))
                }
                DeclKind::Param { .. } | DeclKind::ValueParam { .. } => {
                    (CompletionKind::Variable, self.type_of(decl))
                }
                DeclKind::Property { .. } => (CompletionKind::Property, self.type_of(decl)),
                DeclKind::EnumCase(_) => (CompletionKind::EnumCase, self.type_of(decl)),
                DeclKind::Namespace { .. } => (CompletionKind::Namespace, String::new()),
                DeclKind::Struct { .. }
                | DeclKind::Interface { .. }
                | DeclKind::Enum { .. }
                | DeclKind::TypeAlias(_)
                | DeclKind::TypeParam { .. }
                | DeclKind::AssociatedType { .. } => (CompletionKind::Type, String::new()),
                _ => continue,
            };
            let documentation = self.comment_of(decl);
            out.push(Completion { documentation, ..Completion::plain(name, kind, detail, rank) });
        }
        out
    }

    fn type_of(&mut self, decl: DeclId) -> String {
        let ty = self.program.decl_type(decl);
        self.program.type_name(ty)
    }
}
