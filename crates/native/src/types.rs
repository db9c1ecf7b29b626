//! The representation of IR values in words and in local memory.
//!
//! - A scalar is one word (a `bool` is a byte that holds 0 or 1, an `f16` its bits), and a vector is one word
//!   for each lane.
//! - An array is a pointer to memory that is never written after the array is built, a stack a pointer to a
//!   [`Header`](crate::runtime::Header), a cell a pointer to memory that its function owns.
//! - A buffer handle is four words: the address of the first element, the number of elements, an element
//!   offset that is added to every index, and the number of bytes that there are of one more, partial
//!   element.
//!
//! Local memory packs elements without padding, since all scalars of a local type are of one kind.

use ir::{MemData, MemType, MemTypes, Scalar, Type, TypeData, Types};
use smallvec::SmallVec;

/// The number of words of a handle.
pub const HANDLE_WORDS: usize = 4;

/// The number of bytes of a handle in local memory.
pub const HANDLE_BYTES: u64 = 8 * HANDLE_WORDS as u64;

/// The number of words that hold a value of type `ty` as an argument of `raw` code: one for each number, one
/// for an array, a stack or a cell, and four for a handle.
pub fn words(ts: &Types, ty: Type) -> usize {
    match ts[ty] {
        TypeData::Scalar(_) | TypeData::Array(..) | TypeData::Stack(_) | TypeData::Cell(_) => 1,
        TypeData::Vector(_, n) => n as usize,
        TypeData::Buffer(_) => HANDLE_WORDS,
        TypeData::Residuals(_) => 0,
    }
}

/// The size of a value in local memory, in bytes.
pub fn size(ts: &Types, ty: Type) -> u64 {
    match ts[ty] {
        TypeData::Scalar(s) => s.bytes() as u64,
        TypeData::Vector(s, n) => s.bytes() as u64 * n as u64,
        TypeData::Array(t, n) => size(ts, t).saturating_mul(n as u64),
        TypeData::Cell(t) => size(ts, t),
        TypeData::Stack(_) => 8,
        TypeData::Buffer(_) => HANDLE_BYTES,
        TypeData::Residuals(_) => 0,
    }
}

/// Returns true if values of the type are arrays, which are held as pointers to their elements.
pub fn is_array(ts: &Types, ty: Type) -> bool {
    matches!(ts[ty], TypeData::Array(..))
}

/// The kind and number of the scalars that a scalar, a vector or an array of those consists of.
pub fn flat(ts: &Types, ty: Type) -> Option<(Scalar, u64)> {
    match ts[ty] {
        TypeData::Scalar(s) => Some((s, 1)),
        TypeData::Vector(s, n) => Some((s, n as u64)),
        TypeData::Array(t, n) => flat(ts, t).map(|(s, k)| (s, k * n as u64)),
        TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => None,
    }
}

/// The shape of an element of a stack, as the runtime sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Scalars of one kind: the kind and their number.
    Flat(Scalar, u64),
    /// Bytes that cannot be added, such as handles.
    Opaque(u64),
    /// A stack whose elements have this shape.
    Stack(Box<Shape>),
}

impl Shape {
    /// The shape of values of a type.
    pub fn of(ts: &Types, ty: Type) -> Shape {
        match ts[ty] {
            TypeData::Stack(t) => Shape::Stack(Box::new(Shape::of(ts, t))),
            _ => match flat(ts, ty) {
                Some((s, n)) => Shape::Flat(s, n),
                None => Shape::Opaque(size(ts, ty)),
            },
        }
    }

    /// The size of one element in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Shape::Flat(s, n) => s.bytes() as u64 * n,
            Shape::Opaque(n) => *n,
            Shape::Stack(_) => 8,
        }
    }
}

/// A leaf of a memory type, in the order in which `lower` takes structs apart: the fields in order, with an
/// array of structs as one array for each leaf.
#[derive(Clone, Debug)]
pub struct MemLeaf {
    /// The byte offset of the leaf in the element (of its first part, under arrays of structs).
    pub offset: u64,
    /// The count and stride of each array of structs on the way to the leaf, outermost first.
    pub dims: SmallVec<[(u64, u64); 2]>,
    /// The memory type of one part.
    pub ty: MemType,
}

/// The leaves of a memory type in order.
pub fn mem_leaves(mem: &MemTypes, ty: MemType) -> Vec<MemLeaf> {
    match &mem[ty] {
        MemData::Struct { fields, .. } => {
            let mut out = Vec::new();
            for (idx, field) in fields.iter().enumerate() {
                let at = mem.field_offset(ty, idx);
                for mut leaf in mem_leaves(mem, field.1) {
                    leaf.offset += at;
                    out.push(leaf);
                }
            }
            out
        }
        MemData::Array(elem, n) if has_struct(mem, *elem) => {
            let mut out = mem_leaves(mem, *elem);
            for leaf in &mut out {
                leaf.dims.insert(0, (*n as u64, mem.size(*elem)));
            }
            out
        }
        MemData::Scalar(_)
        | MemData::Vector(..)
        | MemData::Array(..)
        | MemData::Matrix(..)
        | MemData::Handle(_) => vec![MemLeaf { offset: 0, dims: SmallVec::new(), ty }],
    }
}

/// Returns true if the type, or the innermost element of an array type, is a struct.
fn has_struct(mem: &MemTypes, ty: MemType) -> bool {
    match &mem[ty] {
        MemData::Struct { .. } => true,
        MemData::Array(t, _) => has_struct(mem, *t),
        MemData::Scalar(_) | MemData::Vector(..) | MemData::Matrix(..) | MemData::Handle(_) => false,
    }
}

/// Returns true if the memory type contains a handle.
pub fn has_handle(mem: &MemTypes, ty: MemType) -> bool {
    match &mem[ty] {
        MemData::Handle(_) => true,
        MemData::Array(t, _) => has_handle(mem, *t),
        MemData::Struct { fields, .. } => fields.iter().any(|f| has_handle(mem, f.1)),
        MemData::Scalar(_) | MemData::Vector(..) | MemData::Matrix(..) => false,
    }
}
