//! Handles of resources: `DescriptorHandle<T>` is a number, and is used like the `T` that it names.
//!
//! The type is a struct of the library, so memory, interface values and casts of bits treat it as the number that it
//! is. What is special is here: `T.Handle` is this type, a handle converts to what it names, and members and subscripts
//! that it lacks are those of what it names.

use syntax::ast::DeclKind;
use syntax::{DeclId, Symbol, keywords as kw};

use crate::program::Program;
use crate::types::{GenericArg, Scalar, Ty, TyKind, Val};

impl Program {
    /// The type of what a handle names; `None` for all other types.
    pub fn handle_target(&self, ty: Ty) -> Option<Ty> {
        let TyKind::Struct(decl, args) = &self.types[ty] else { return None };
        match args.first() {
            Some(&GenericArg::Type(target)) if self.is_of_library_named(*decl, kw::DESCRIPTOR_HANDLE) => {
                Some(target)
            }
            _ => None,
        }
    }

    /// The type of handles of resources of a type.
    pub(crate) fn handle_of(&mut self, ty: Ty) -> Option<Ty> {
        let decl = self.handle_decl()?;
        Some(self.types.intern(TyKind::Struct(decl, vec![GenericArg::Type(ty)])))
    }

    /// The declaration of `DescriptorHandle`.
    pub fn handle_decl(&self) -> Option<DeclId> {
        let all = self.declared_anywhere(kw::DESCRIPTOR_HANDLE);
        all.into_iter()
            .find(|&decl| self.is_core(decl) && matches!(self.ast.decls[decl].kind, DeclKind::Struct { .. }))
    }

    /// Returns true for the type of resources whose kind is not known: `__DynamicResource`.
    pub fn is_dynamic_resource(&self, ty: Ty) -> bool {
        matches!(self.types[ty], TyKind::Struct(decl, _) if self.is_of_library_named(decl, kw::DYNAMIC_RESOURCE))
    }

    /// Returns true for the types of numbers that a handle can be.
    pub fn is_handle_number(&self, ty: Ty) -> bool {
        match self.types[ty] {
            TyKind::Vector(element, Val::Int(2), _) => self.types[element] == TyKind::Scalar(Scalar::UInt),
            TyKind::Scalar(Scalar::UInt64 | Scalar::Int64) => true,
            _ => false,
        }
    }

    /// The functions that a program may have instead of the library's to find the resource of a handle.
    pub fn finders_of_resources(&self) -> Vec<DeclId> {
        let Some(name) = self.ast.symbols.find("getDescriptorFromHandle") else { return Vec::new() };
        let mut all = self.declared_anywhere(name);
        all.retain(|&decl| !self.is_core(decl) && self.ast.decls[decl].kind.body().is_some());
        all
    }

    fn is_of_library_named(&self, decl: DeclId, name: Symbol) -> bool {
        self.ast.decls[decl].name == name && self.is_core(decl)
    }
}
