//! Suppresses follow-up errors: if a type or function is only partly known, because a name in it is unknown
//! and has been reported, nothing is reported as missing from it.

use syntax::DeclId;

use crate::program::Program;
use crate::tables::FuncRef;
use crate::types::{Ty, TyKind};

impl Program {
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
        if self.unknown_bases.contains(&decl) {
            return true;
        }
        bases.iter().any(|&base| match self.types[base] {
            TyKind::Interface(decl, _) | TyKind::Struct(decl, _) => self.unknown_bases.contains(&decl),
            _ => false,
        })
    }

    /// Returns true if a function's parameters or result have types that have been reported as unknown.
    pub(crate) fn has_unknown_types(&mut self, decl: DeclId) -> bool {
        let signature = self.raw_signature(decl);
        let mut types = signature.params.iter().map(|p| p.ty).chain([signature.ret]);
        types.any(|ty| ty == Ty::ERROR || self.type_name(ty).contains("<error>"))
    }

    /// Returns true if the object, a parameter or the result of a function has an unknown base or type.
    pub(crate) fn has_unknown_bases(&mut self, func: &FuncRef) -> bool {
        let signature = self.func_signature(func);
        let types = signature.params.iter().map(|p| p.ty).chain([signature.ret]).chain(func.self_ty);
        types.collect::<Vec<Ty>>().into_iter().any(|ty| ty == Ty::ERROR || self.has_unknown_base(ty))
    }
}
