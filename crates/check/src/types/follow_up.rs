//! Suppresses follow-up errors: if a type or function is only partly known, because a name in it is unknown
//! and has been reported, nothing is reported as missing from it.
//!
//! The interner knows of each type if a part of it is unknown. Diagnostics name types by [`Program::shown`],
//! whose result only `text!` can make part of a message: so a message that names such a type is marked as a
//! follow-up, and the driver shows it only if there is no other error.

use syntax::{DeclId, Message};

use crate::program::Program;
use crate::signature::Direction;
use crate::tables::FuncRef;
use crate::types::{Ty, TyKind};

/// Like `format!`, for messages that may name types. Types cannot be captured by name; give them as arguments.
macro_rules! text {
    ($format:literal $(, $name:ident = $part:expr)+ $(,)?) => {{
        use syntax::diagnostic::Part as _;
        let is_follow_up = std::cell::Cell::new(false);
        let text = format!($format $(, $name = (&$part).part(&is_follow_up))*);
        syntax::Message { text, is_follow_up: is_follow_up.get() }
    }};
    ($format:literal $(, $part:expr)+ $(,)?) => {{
        use syntax::diagnostic::Part as _;
        let is_follow_up = std::cell::Cell::new(false);
        let text = format!($format $(, (&$part).part(&is_follow_up))*);
        syntax::Message { text, is_follow_up: is_follow_up.get() }
    }};
}
pub(crate) use text;

impl Program {
    /// The name of a type, for a message.
    pub(crate) fn shown(&self, ty: Ty) -> Message {
        Message { text: self.type_name(ty), is_follow_up: self.types.is_unknown(ty) }
    }

    /// The parameters of a function, for a message.
    pub(crate) fn shown_params(&self, params: impl IntoIterator<Item = (Direction, Ty)>) -> Message {
        Message::list(params.into_iter().map(|(dir, ty)| {
            let word = match dir {
                Direction::Out => "out ",
                Direction::InOut | Direction::Ref => "inout ",
                Direction::In | Direction::ConstRef => "",
            };
            text!("{word}{}", self.shown(ty))
        }))
    }

    /// Returns true if an interface of a type is unknown, which has been reported: that interface may provide
    /// what the type seems to lack.
    pub(crate) fn has_unknown_base(&mut self, ty: Ty) -> bool {
        let decl = match self.types[ty] {
            TyKind::Struct(decl, _)
            | TyKind::Interface(decl, _)
            | TyKind::Param(decl)
            | TyKind::This(decl) => decl,
            TyKind::Assoc(_, decl) => decl,
            TyKind::DiffPair(inner) | TyKind::Array(inner, _) => return self.has_unknown_base(inner),
            _ => return false,
        };
        let bases = self.bases_of(decl);
        if self.scopes.unknown_bases.contains(&decl) {
            return true;
        }
        bases.iter().any(|&base| match self.types[base] {
            TyKind::Interface(decl, _) | TyKind::Struct(decl, _) => self.scopes.unknown_bases.contains(&decl),
            _ => false,
        })
    }

    /// Returns true if a function's parameters or result have types that have been reported as unknown.
    pub(crate) fn has_unknown_types(&mut self, decl: DeclId) -> bool {
        let signature = self.raw_signature(decl);
        let mut types = signature.params.iter().map(|p| p.ty).chain([signature.ret]);
        types.any(|ty| self.types.is_unknown(ty))
    }

    /// Returns true if the object, a parameter or the result of a function has an unknown base or type.
    pub(crate) fn has_unknown_bases(&mut self, func: &FuncRef) -> bool {
        let signature = self.func_signature(func);
        let types = signature.params.iter().map(|p| p.ty).chain([signature.ret]).chain(func.self_ty);
        types.collect::<Vec<Ty>>().into_iter().any(|ty| ty == Ty::ERROR || self.has_unknown_base(ty))
    }
}
