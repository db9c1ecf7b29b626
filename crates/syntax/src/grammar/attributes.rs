//! Parses bracketed attributes and the keywords before a declaration.

use crate::ast::*;
use crate::keywords as kw;
use crate::parser::Parser;
use crate::token::TokenKind as T;

/// The attributes, modifiers and generic parameters before a declaration.
#[derive(Default)]
pub(crate) struct Prefix {
    pub(crate) modifiers: Modifiers,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) generics: Option<Generics>,
}

impl Parser<'_> {
    /// Parses all `[A, B(x)]` at the current position, including `[[vk::binding(0)]]`.
    pub(crate) fn attributes(&mut self, list: &mut Vec<Attribute>) {
        while self.is(T::LBracket) {
            let closed = self.partner(self.pos()).is_some();
            let open = self.bump().span;
            let double = self.is(T::LBracket).then(|| self.bump().span);
            while !matches!(self.kind(), T::RBracket | T::Eof) {
                list.push(self.attribute());
                if !(self.eat(T::Comma) || self.is(T::Ident) && closed) {
                    break;
                }
            }
            if let Some(inner) = double {
                self.expect_close(T::RBracket, inner);
            }
            if !self.expect_close(T::RBracket, open) && closed {
                self.skip_past(T::RBracket);
            }
        }
    }

    fn attribute(&mut self) -> Attribute {
        let start = self.span();
        let (mut name, _) = self.expect_name("an attribute's name");
        while self.eat(T::ColonColon) {
            let (part, _) = self.expect_name("an attribute's name");
            let joined = format!("{}::{}", self.ast.name(name), self.ast.name(part));
            name = self.ast.symbols.intern(&joined);
        }
        let args = if self.is(T::LParen) { self.call_args() } else { Vec::new() };
        Attribute { name, args, span: self.span_from(start) }
    }

    /// Attributes, modifiers and `__generic<…>` before the declaration `owner`, in any order.
    pub(crate) fn prefix(&mut self, owner: DeclId) -> Prefix {
        let mut prefix = Prefix::default();
        loop {
            if self.is(T::LBracket) {
                self.attributes(&mut prefix.attributes);
                continue;
            }
            let word = self.word();
            if word == kw::EMPTY {
                break;
            }
            if word == kw::GENERIC && self.nth(1) == T::Lt {
                self.bump();
                let new = self.generic_params(owner);
                merge_generics(&mut prefix.generics, new);
            } else if let Some(modifier) = self.modifier() {
                self.bump();
                prefix.modifiers |= modifier;
            } else if is_word_attribute(word) {
                prefix.attributes.push(self.word_attribute());
            } else if word == kw::LAYOUT && self.nth(1) == T::LParen {
                self.layout(&mut prefix.attributes);
            } else if self.memory_word(&mut prefix.attributes) {
            } else if self.ray_storage() {
                prefix.modifiers |= Modifiers::STATIC;
            } else {
                break;
            }
        }
        for attribute in &prefix.attributes {
            match attribute.name {
                kw::MUTATING => prefix.modifiers |= Modifiers::MUTATING,
                kw::NONMUTATING => prefix.modifiers |= Modifiers::NONMUTATING,
                _ => {}
            }
        }
        prefix
    }

    /// The modifier that the current word stands for.
    fn modifier(&self) -> Option<Modifiers> {
        match self.word() {
            kw::CONSTEXPR => Some(Modifiers(Modifiers::CONST.0 | Modifiers::CONSTEXPR.0)),
            kw::EXTERN_CPP => Some(Modifiers::EXTERN),
            kw::GLOBAL | kw::DYNAMIC_UNIFORM => Some(Modifiers::default()),
            kw::EACH => None,
            word @ (kw::NOINTERPOLATION | kw::NOPERSPECTIVE | kw::LINEAR | kw::SAMPLE | kw::CENTROID) => {
                self.common_name(Modifiers::of(word)?)
            }
            kw::DYN | kw::SOME => self.common_name(Modifiers::DYN),
            kw::PERVERTEX | kw::LINEADJ | kw::TRIANGLEADJ | kw::POINT | kw::LINE_PRIMITIVE | kw::TRIANGLE => {
                self.common_name(Modifiers::default())
            }
            kw::VERTICES => self.common_name(Modifiers::VERTICES),
            kw::INDICES => self.common_name(Modifiers::INDICES),
            kw::PRIMITIVES | kw::PAYLOAD | kw::PARAM | kw::UNORM | kw::SNORM => {
                self.common_name(Modifiers::default())
            }
            // GLSL's word for `groupshared`.
            kw::SHARED if self.parent.is_none() => self.common_name(Modifiers::GROUPSHARED),
            kw::SHARED => self.common_name(Modifiers::default()),
            word => Modifiers::of(word),
        }
    }

    /// A modifier that is also a common name counts as a modifier only before a complete `T x`.
    fn common_name(&self, modifier: Modifiers) -> Option<Modifiers> {
        self.type_follows().then_some(modifier)
    }

    /// `__intrinsic_op(add)`: the arguments are names and literals, even where these words have a meaning
    /// elsewhere.
    fn word_attribute(&mut self) -> Attribute {
        let start = self.span();
        let name = self.bump().symbol;
        let mut args = Vec::new();
        if self.is(T::LParen) {
            let open = self.bump().span;
            args = self.separated(
                |kind| matches!(kind, T::RParen | T::Semi),
                |p| match (p.kind(), p.nth(1)) {
                    (T::Ident, T::Comma | T::RParen) => {
                        let word = p.bump();
                        p.expr_at(word.span, ExprKind::Name(word.symbol))
                    }
                    _ => p.any_expr(),
                },
            );
            self.expect_close(T::RParen, open);
        }
        Attribute { name, args, span: self.span_from(start) }
    }
}

/// Appends parameters and constraints to the existing ones.
pub(crate) fn merge_generics(all: &mut Option<Generics>, new: Generics) {
    let all = all.get_or_insert_default();
    all.params.extend(new.params);
    all.constraints.extend(new.constraints);
}

/// Returns true if a word before a declaration is kept as an attribute.
pub(crate) fn is_word_attribute(word: Symbol) -> bool {
    matches!(
        word,
        kw::BUILTIN_TYPE
            | kw::INTRINSIC_OP
            | kw::MAGIC_TYPE
            | kw::INTRINSIC_TYPE
            | kw::BUILTIN_REQUIREMENT
            | kw::TARGET_INTRINSIC
            | kw::SPECIALIZED_FOR_TARGET
            | kw::GLSL_EXTENSION
            | kw::GLSL_VERSION
            | kw::SPIRV_VERSION
            | kw::WGSL_EXTENSION
            | kw::CUDA_SM_VERSION
            | kw::IMPLICIT_CONVERSION
            | kw::IMPLICIT
            | kw::ATTRIBUTE_TARGET
            | kw::BUILTIN
            | kw::PREFIX
            | kw::POSTFIX
            | kw::UNSAFE_FORCE_INLINE_EARLY
            | kw::READ_NONE
            | kw::REQUIRE_CAPABILITY
    )
}
