//! Pointers to types that contain pointers to themselves: lists and trees.
//!
//! A memory type is a tree, so it cannot contain itself. A pointer to such a type therefore leads to memory that only has
//! the type's name, size and alignment; an access through it casts to the memory type with the fields, in which further
//! pointers are such names again.

use check::types::{Ty, TyKind};
use ir::{MemData, MemType, Op, Placement, Rest, Scalar, TypeData, Types, Value};
use rustc_hash::FxHashSet;

use crate::body::Body;
use crate::lowerer::{KnownTypes, Lowerer};

/// The number of types that are searched for a pointer back: a generic type may lead to ever new ones.
const MOST: usize = 1000;

impl Lowerer<'_> {
    /// The memory that a pointer leads to: of elements, if its content is an array without a length.
    pub(crate) fn target_memory(&mut self, types: &mut Types, content: Ty, depth: u32) -> MemType {
        if let TyKind::Array(element, None) = self.program.types[content] {
            return self.target_memory(types, element, depth);
        }
        let outer = std::mem::take(&mut self.types.data_layout);
        let open = std::mem::take(&mut self.types.open);
        let memory = match self.is_linked(content) {
            false => self.mem_type_at(types, content, depth + 1),
            true if self.types.measuring => self.mem.intern(MemData::Scalar(Scalar::U8)),
            true => self.named_memory(types, content, depth),
        };
        self.types.open = open;
        self.types.data_layout = outer;
        memory
    }

    /// Memory that has only the name and the size of a type.
    fn named_memory(&mut self, types: &mut Types, content: Ty, depth: u32) -> MemType {
        // What is found out about types in the meantime is about other pointers.
        let measuring = KnownTypes { measuring: true, ..KnownTypes::default() };
        let known = std::mem::replace(&mut self.types, measuring);
        let whole = self.mem_type_at(types, content, depth + 1);
        self.types = known;
        let placement =
            Placement { offsets: Vec::new(), size: self.mem.size(whole), align: self.mem.align(whole) };
        let name = self.program.type_name(content);
        let named = MemData::Struct { name, fields: Vec::new(), placement: Some(Box::new(placement)) };
        let memory = self.mem.intern(named);
        self.types.named.insert(memory, content);
        memory
    }

    /// The memory with the fields of a type, for memory that may only have its name.
    pub(crate) fn whole_memory(&mut self, types: &mut Types, memory: MemType) -> MemType {
        match self.types.named.get(&memory).copied() {
            Some(content) => self.mem_type(types, content),
            None => memory,
        }
    }

    /// Returns true if a pointer leads from a type back to it.
    fn is_linked(&mut self, ty: Ty) -> bool {
        let ty = self.program.types.bare(ty);
        if let Some(&known) = self.types.linked.get(&ty) {
            return known;
        }
        let (mut seen, mut work) = (FxHashSet::default(), self.types_within(ty));
        let mut found = false;
        while let Some(next) = work.pop() {
            found |= next == ty;
            if found || seen.len() > MOST {
                break;
            }
            if seen.insert(next) {
                work.extend(self.types_within(next));
            }
        }
        self.types.linked.insert(ty, found);
        found
    }

    /// The types of the parts of a type, and those that its pointers lead to.
    fn types_within(&mut self, ty: Ty) -> Vec<Ty> {
        match self.program.types[ty].clone() {
            TyKind::Struct(..) | TyKind::SynthDiff(_) => {
                self.program.fields(ty).into_iter().map(|field| self.program.types.bare(field.1)).collect()
            }
            TyKind::Tuple(parts) => parts,
            TyKind::Optional(inner)
            | TyKind::Pointer(inner, ..)
            | TyKind::Array(inner, _)
            | TyKind::DiffPair(inner)
            | TyKind::Laid(inner, _) => vec![self.program.types.bare(inner)],
            _ => Vec::new(),
        }
    }
}

impl Body<'_, '_, '_> {
    /// A handle of memory with fields, for one of memory that may only have a type's name.
    pub(crate) fn opened(&mut self, handle: Value) -> Value {
        let TypeData::Buffer(memory) = self.b.types[self.b.func.ty(handle)] else { return handle };
        let whole = self.lw.whole_memory(self.b.types, memory);
        if whole == memory {
            return handle;
        }
        let to = self.b.types.buffer(whole);
        let zero = self.b.constant(Scalar::I64, 0);
        self.b.emit_typed(Op::BufferCast(Rest::Kept), &[handle, zero], to)
    }
}
