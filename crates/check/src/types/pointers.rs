//! Pointer types: `Ptr<T, access, space>`.
//!
//! How what a pointer leads to may be used, and the memory that it is in, are part of the pointer's type. Only through
//! `Access.ReadWrite` is anything written: what a path from any other pointer leads to is no place that can be assigned
//! to, and its address is again such a pointer, so only a cast makes one that writes. An access that is a generic
//! parameter may turn out to be any, so nothing is written through it. An address space distinguishes functions and
//! determines generic arguments; since each pointer knows its memory, pointers that differ in nothing else convert.

use syntax::ast::{DeclKind, Modifiers};
use syntax::{Diagnostic, ExprId};

use crate::exprs::infer::Checker;
use crate::program::Program;
use crate::tables::Meaning;
use crate::types::builtin::NativeGeneric;
use crate::types::{GenericArg, Ty, TyKind, Val};

/// `Access.ReadWrite`, that of `T*`.
pub(crate) const READ_WRITE: Val = Val::Int(0);
/// `AddressSpace.Device`, that of `T*`.
pub(crate) const DEVICE: Val = Val::Int(1);
/// `AddressSpace.GroupShared`.
pub(crate) const GROUP_SHARED: Val = Val::Int(2);

/// The enumerations of the library that a pointer's second and third argument are cases of.
const TRAITS: [&str; 2] = ["Access", "AddressSpace"];

impl TyKind {
    /// `T*`
    pub fn pointer(content: Ty) -> TyKind {
        TyKind::Pointer(content, READ_WRITE, DEVICE)
    }
}

impl Program {
    /// The name of a pointer type. Arguments at the end that are the defaults are left out.
    pub(crate) fn pointer_name(&self, content: Ty, access: &Val, space: &Val) -> String {
        let (content, layout) = match self.types[content] {
            TyKind::Laid(content, layout) => (content, Some(layout)),
            _ => (content, None),
        };
        let written = match (layout, access == &READ_WRITE, space == &DEVICE) {
            (None, true, true) => 0,
            (None, false, true) => 1,
            _ => 2,
        };
        let mut args = vec![self.type_name(content)];
        let traits = TRAITS.into_iter().zip([access, space]).take(written);
        args.extend(traits.map(|(name, val)| self.case_name(name, val)));
        args.extend(layout.map(|layout| self.type_name(layout)));
        format!("Ptr<{}>", args.join(", "))
    }

    /// The case of an enumeration of the library that has this number.
    fn case_name(&self, of: &str, val: &Val) -> String {
        let Val::Int(number) = val else { return self.arg_name(&GenericArg::Val(val.clone())) };
        let symbol = self.ast.symbols.find(of);
        let declared = symbol.map_or_else(Vec::new, |symbol| self.declared_anywhere(symbol));
        let cases = declared.into_iter().find_map(|decl| match &self.ast.decls[decl].kind {
            DeclKind::Enum { cases, .. } if self.is_core(decl) => Some(cases),
            _ => None,
        });
        match cases.and_then(|cases| cases.get(usize::try_from(*number).ok()?)) {
            Some(&case) => format!("{of}.{}", self.ast.decl_name(case)),
            None => number.to_string(),
        }
    }

    /// Returns true if what a pointer of this type leads to can be written through it.
    pub(crate) fn is_writing_pointer(&self, ty: Ty) -> bool {
        matches!(&self.types[ty], TyKind::Pointer(_, access, _) if *access == READ_WRITE)
    }

    /// The type of the last pointer on the path to a place.
    pub(crate) fn pointer_to(&self, place: ExprId) -> Option<Ty> {
        let is_pointer = |ty: &Ty| matches!(self.types[*ty], TyKind::Pointer(..));
        let mut at = place;
        loop {
            let meaning = &self.tables.exprs[at].meaning;
            if let Meaning::Deref(pointer) = *meaning {
                let info = &self.tables.exprs[pointer];
                return info.coerce.into_iter().chain([info.ty]).find(is_pointer);
            }
            let is_same = matches!(meaning, Meaning::Same(_));
            at = meaning.base()?;
            let ty = self.tables.exprs[at].ty;
            if !is_same && is_pointer(&ty) {
                return Some(ty);
            }
        }
    }

    /// Returns true if a path without pointers begins with a `groupshared` variable.
    fn is_in_shared_memory(&self, place: ExprId) -> bool {
        let meaning = &self.tables.exprs[place].meaning;
        match meaning {
            Meaning::Var(decl) => self.ast.decls[*decl].modifiers.has(Modifiers::GROUPSHARED),
            _ => meaning.base().is_some_and(|base| self.is_in_shared_memory(base)),
        }
    }
}

impl Checker<'_> {
    /// Reports arguments of `Ptr` or `Ref` that are no cases of the enumerations for them. Returns true if there is none.
    pub(crate) fn are_pointer_traits(&mut self, native: NativeGeneric, args: &[ExprId]) -> bool {
        for ((idx, &arg), wanted) in args.iter().enumerate().skip(1).zip(TRAITS) {
            let info = &self.p.tables.exprs[arg];
            let is_wanted = match (&info.meaning, &self.p.types[info.ty]) {
                (Meaning::Error, _) => true,
                (_, &TyKind::Enum(decl)) => self.p.is_core(decl) && self.p.ast.decl_name(decl) == wanted,
                _ => false,
            };
            if !is_wanted {
                let (number, name) = (idx + 1, native.name());
                let message = format!("argument {number} of '{name}' has to be a case of '{wanted}'");
                self.p.report(Diagnostic::error("E30019", self.span(arg), message));
                return false;
            }
        }
        true
    }

    /// The type of a place's address. `&e` is a pointer to the device's memory whatever `e` is, as in Slang, and
    /// `__getAddress(e)` one to the memory that `e` is in.
    pub(crate) fn address_type(&mut self, place: ExprId, keeps_space: bool) -> Ty {
        let content = self.stored_type(place);
        let (mut access, mut space) = (READ_WRITE, DEVICE);
        if let Some(pointer) = self.p.pointer_to(place)
            && let TyKind::Pointer(_, own_access, own_space) = &self.p.types[pointer]
        {
            (access, space) = (own_access.clone(), own_space.clone());
        } else if self.p.is_in_shared_memory(place) {
            space = GROUP_SHARED;
        }
        if !keeps_space {
            space = DEVICE;
        }
        self.p.types.intern(TyKind::Pointer(content, access, space))
    }

    /// Help for a place that is not written because of the pointer that leads to it.
    pub(crate) fn only_read(&mut self, place: ExprId) -> Option<String> {
        let pointer = self.p.pointer_to(place).filter(|&pointer| !self.p.is_writing_pointer(pointer))?;
        self.only_read_through(pointer)
    }

    /// Help for a pointer through which nothing can be written.
    pub(crate) fn only_read_through(&mut self, pointer: Ty) -> Option<String> {
        let TyKind::Pointer(content, _, space) = self.p.types[pointer].clone() else { return None };
        let writing = self.p.types.intern(TyKind::Pointer(content, READ_WRITE, space));
        let (pointer, writing) = (self.p.type_name(pointer), self.p.type_name(writing));
        Some(format!("a '{pointer}' is only read through: take a '{writing}'"))
    }
}
