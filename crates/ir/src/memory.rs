//! The types of memory that the host sees: buffers and uniforms.
//!
//! Layout is C layout with scalar alignment, as on Slang's CPU target: a vector is as aligned as
//! its scalar (`float3` is 12 bytes), a struct as its most aligned field, `bool` is 1 byte.
//! Matrices are arrays of row vectors (row-major).

use cranelift_entity::entity_impl;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use crate::types::Scalar;

/// An interned memory type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemType(u32);
entity_impl!(MemType, "mem");

/// What a [`MemType`] is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemData {
    /// One number.
    Scalar(Scalar),
    /// A vector, aligned as its scalar.
    Vector(Scalar, u32),
    /// An array without padding between elements other than the element's own.
    Array(MemType, u32),
    /// A matrix of rows and columns; laid out as an array of rows, kept apart for printing.
    Matrix(Scalar, u32, u32),
    /// A struct with named fields in declaration order.
    Struct {
        /// The source's name.
        name: String,
        /// Name and type of each field.
        fields: Vec<(String, MemType)>,
    },
    /// A pointer to, or handle of, another buffer: 8 bytes in a host's view, bound by name.
    Handle(MemType),
}

/// The interner of memory types.
#[derive(Clone, Debug, Default)]
pub struct MemTypes {
    set: IndexSet<MemData, FxBuildHasher>,
}

impl std::ops::Index<MemType> for MemTypes {
    type Output = MemData;
    fn index(&self, ty: MemType) -> &MemData {
        &self.set[ty.0 as usize]
    }
}

impl MemTypes {
    /// The handle of `data`.
    pub fn intern(&mut self, data: MemData) -> MemType {
        MemType(self.set.insert_full(data).0 as u32)
    }

    /// Alignment in bytes.
    pub fn align(&self, ty: MemType) -> u64 {
        match &self[ty] {
            MemData::Scalar(s) | MemData::Vector(s, _) | MemData::Matrix(s, ..) => s.bytes() as u64,
            MemData::Array(t, _) => self.align(*t),
            MemData::Struct { fields, .. } => fields.iter().map(|f| self.align(f.1)).max().unwrap_or(1),
            MemData::Handle(_) => 8,
        }
    }

    /// Size in bytes, a multiple of the alignment.
    pub fn size(&self, ty: MemType) -> u64 {
        match &self[ty] {
            MemData::Scalar(s) => s.bytes() as u64,
            MemData::Vector(s, n) => s.bytes() as u64 * *n as u64,
            MemData::Matrix(s, r, c) => s.bytes() as u64 * *r as u64 * *c as u64,
            MemData::Array(t, n) => self.size(*t).saturating_mul(*n as u64),
            MemData::Struct { fields, .. } => {
                let end = fields.iter().fold(0, |at, f| self.place(at, f.1) + self.size(f.1));
                end.next_multiple_of(self.align(ty))
            }
            MemData::Handle(_) => 8,
        }
    }

    /// The offset of a struct's field `idx`.
    pub fn field_offset(&self, ty: MemType, idx: usize) -> u64 {
        match &self[ty] {
            MemData::Struct { fields, .. } => {
                let before = fields[..idx].iter().fold(0, |at, f| self.place(at, f.1) + self.size(f.1));
                self.place(before, fields[idx].1)
            }
            _ => 0,
        }
    }

    fn place(&self, at: u64, ty: MemType) -> u64 {
        at.next_multiple_of(self.align(ty))
    }
}
