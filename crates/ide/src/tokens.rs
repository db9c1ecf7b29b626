//! Classifies the names of a file for highlighting, by what they refer to.

use check::types::TyKind;
use rustc_hash::FxHashSet;
use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, ExprId, Span};

use crate::Analysis;
use crate::names::Name;

/// Declares the kinds and the modifiers with their names in the protocol of language servers.
macro_rules! legend {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum $name { $($variant),* }

        impl $name {
            /// The names in the order of the variants.
            pub const NAMES: &[&str] = &[$($text),*];
        }
    };
}

legend! {
    /// The kind of a name.
    TokenKind {
        Namespace = "namespace", Struct = "struct", Interface = "interface", Enum = "enum",
        TypeParameter = "typeParameter", Type = "type", Function = "function", Method = "method",
        Property = "property", Variable = "variable", Parameter = "parameter", EnumMember = "enumMember",
        Decorator = "decorator",
    }
}

legend! {
    /// A property of a name.
    TokenModifier {
        Declaration = "declaration", Readonly = "readonly", Static = "static", Library = "defaultLibrary",
        Differentiable = "differentiable", Active = "active",
    }
}

/// A name with its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The name's place.
    pub span: Span,
    /// The kind of the name.
    pub kind: TokenKind,
    /// A bit for each [`TokenModifier`].
    pub modifiers: u32,
}

impl TokenModifier {
    fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl Analysis {
    /// The names between two offsets of the file, in order.
    pub fn tokens(&mut self, start: u32, end: u32) -> Vec<Token> {
        self.check_range(self.file, start, end);
        let active = self.active_within(start, end);
        let names = self.names_within(self.file, start, end);
        names.iter().filter_map(|name| self.token(name, &active)).collect()
    }

    /// The expressions between two offsets of the file that carry a derivative.
    pub(crate) fn active_within(&mut self, start: u32, end: u32) -> FxHashSet<ExprId> {
        let functions = self.functions_within(self.file, start, end);
        functions.into_iter().flat_map(|function| self.program.active_expressions(function)).collect()
    }

    fn token(&mut self, name: &Name, active: &FxHashSet<ExprId>) -> Option<Token> {
        if name.is_attribute {
            return Some(Token { span: name.span, kind: TokenKind::Decorator, modifiers: 0 });
        }
        if name.expr.is_some_and(|expr| self.is_this(expr)) {
            return None;
        }
        let mut modifiers = 0;
        let kind = match name.decl {
            Some(decl) => {
                let kind = self.kind_of(decl)?;
                if name.expr.is_none() {
                    modifiers |= TokenModifier::Declaration.bit();
                }
                if self.program.is_core(decl) {
                    modifiers |= TokenModifier::Library.bit();
                }
                let d = &self.program.ast.decls[decl];
                if d.modifiers.has(Modifiers::CONST) || d.modifiers.has(Modifiers::LET) {
                    modifiers |= TokenModifier::Readonly.bit();
                }
                if d.modifiers.has(Modifiers::STATIC) {
                    modifiers |= TokenModifier::Static.bit();
                }
                if matches!(kind, TokenKind::Function | TokenKind::Method) && self.is_differentiable(decl) {
                    modifiers |= TokenModifier::Differentiable.bit();
                }
                kind
            }
            None => match name.ty.map(|ty| &self.program.types[ty])? {
                TyKind::Error => return None,
                _ => TokenKind::Type,
            },
        };
        if name.expr.is_some_and(|expr| active.contains(&expr)) {
            modifiers |= TokenModifier::Active.bit();
        }
        Some(Token { span: name.span, kind, modifiers })
    }

    fn kind_of(&self, decl: DeclId) -> Option<TokenKind> {
        let d = &self.program.ast.decls[decl];
        Some(match d.kind {
            DeclKind::Namespace { .. } | DeclKind::CBuffer { .. } | DeclKind::Module(_) => {
                TokenKind::Namespace
            }
            DeclKind::Struct { .. } => TokenKind::Struct,
            DeclKind::Interface { .. } => TokenKind::Interface,
            DeclKind::Enum { .. } => TokenKind::Enum,
            DeclKind::EnumCase(_) => TokenKind::EnumMember,
            DeclKind::TypeParam { .. } | DeclKind::ValueParam { .. } => TokenKind::TypeParameter,
            DeclKind::TypeAlias(_) | DeclKind::AssociatedType { .. } => TokenKind::Type,
            DeclKind::Func { .. } if self.is_member(decl) => TokenKind::Method,
            DeclKind::Func { .. } | DeclKind::Init { .. } => TokenKind::Function,
            DeclKind::Property { .. } => TokenKind::Property,
            DeclKind::Var { .. } if self.is_member(decl) => TokenKind::Property,
            DeclKind::Var { .. } => TokenKind::Variable,
            DeclKind::Param { .. } => TokenKind::Parameter,
            _ => return None,
        })
    }

    /// Returns true for a function that has derivatives.
    pub(crate) fn is_differentiable(&mut self, decl: DeclId) -> bool {
        let check::tables::Callable::Func(func) = self.as_callable(decl) else { return false };
        let found = self.program.derivatives_of(&func, check::View::default());
        found.level > check::Level::None || found.fwd.is_some() || found.bwd.is_some()
    }
}
