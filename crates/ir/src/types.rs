//! The types of IR values, interned.
//!
//! An IR value is a *leaf*: a scalar, a vector, an array of those, a stack, a cell or a handle of a buffer.
//! Structs do not exist here: `lower` takes them apart, so that a function of a struct becomes a function of
//! its leaves, and an array of structs becomes one array for each leaf. Memory that the host sees keeps its
//! structs: see [`crate::memory`].

use cranelift_entity::entity_impl;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use crate::entities::MemType;
use crate::names::named;

named! {
    /// The kinds of numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u8)]
    #[expect(missing_docs, reason = "the names say it")]
    pub enum Scalar {
        Bool = "bool",
        I8 = "i8",
        I16 = "i16",
        I32 = "i32",
        I64 = "i64",
        U8 = "u8",
        U16 = "u16",
        U32 = "u32",
        U64 = "u64",
        F16 = "f16",
        F32 = "f32",
        F64 = "f64",
    }
}

impl Scalar {
    /// The name in the language of programs.
    pub fn word(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::I8 => "int8_t",
            Scalar::I16 => "int16_t",
            Scalar::I32 => "int",
            Scalar::I64 => "int64_t",
            Scalar::U8 => "uint8_t",
            Scalar::U16 => "uint16_t",
            Scalar::U32 => "uint",
            Scalar::U64 => "uint64_t",
            Scalar::F16 => "half",
            Scalar::F32 => "float",
            Scalar::F64 => "double",
        }
    }

    /// Returns true for a floating-point type; only these have tangents.
    pub fn is_float(self) -> bool {
        matches!(self, Scalar::F16 | Scalar::F32 | Scalar::F64)
    }

    /// Returns true for an integer type (not `bool`).
    pub fn is_int(self) -> bool {
        !self.is_float() && self != Scalar::Bool
    }

    /// Returns true for a signed integer type.
    pub fn is_signed_int(self) -> bool {
        matches!(self, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64)
    }

    /// The size in bytes; `bool` takes one byte in a local value.
    pub fn bytes(self) -> u32 {
        match self {
            Scalar::Bool | Scalar::I8 | Scalar::U8 => 1,
            Scalar::I16 | Scalar::U16 | Scalar::F16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::F64 => 8,
        }
    }

    /// The width in bits.
    pub fn bits(self) -> u32 {
        self.bytes() * 8
    }
}

/// An interned type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Type(u32);
entity_impl!(Type, "ty");

/// The structure of a [`Type`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeData {
    /// One number.
    Scalar(Scalar),
    /// A vector of any length ≥ 1.
    Vector(Scalar, u32),
    /// A fixed-length array. The element is a scalar, a vector, a buffer handle or an array.
    Array(Type, u32),
    /// One element for each trip of the loop that produced it; the length is a run-time value.
    /// The element is any type but a cell.
    Stack(Type),
    /// Function-local mutable memory that holds one value of the type. Never a parameter, a result or an
    /// element: a cell is referred to directly wherever it is visible.
    Cell(Type),
    /// A handle of memory that the host sees: a sequence of elements of the given memory type.
    Buffer(MemType),
    /// The residuals of a run of a function: the state, besides its arguments, that is kept for its linear
    /// part. The number indexes [`crate::Module::residuals`]. Differentiation replaces such a value by the
    /// values that are kept; no backend sees one.
    Residuals(u32),
}

/// The interner of types. Scalars have fixed handles, the associated constants of [`Type`].
#[derive(Clone, Debug)]
pub struct Types {
    set: IndexSet<TypeData, FxBuildHasher>,
}

#[expect(missing_docs, reason = "the names say it")]
impl Type {
    pub const BOOL: Type = Type(Scalar::Bool as u32);
    pub const I32: Type = Type(Scalar::I32 as u32);
    pub const I64: Type = Type(Scalar::I64 as u32);
    pub const U32: Type = Type(Scalar::U32 as u32);
    pub const U64: Type = Type(Scalar::U64 as u32);
    pub const F16: Type = Type(Scalar::F16 as u32);
    pub const F32: Type = Type(Scalar::F32 as u32);
    pub const F64: Type = Type(Scalar::F64 as u32);
}

impl From<Scalar> for Type {
    fn from(scalar: Scalar) -> Type {
        Type(scalar as u32)
    }
}

impl Default for Types {
    fn default() -> Types {
        Types { set: Scalar::ALL.into_iter().map(TypeData::Scalar).collect() }
    }
}

impl std::ops::Index<Type> for Types {
    type Output = TypeData;
    fn index(&self, ty: Type) -> &TypeData {
        &self.set[ty.0 as usize]
    }
}

impl Types {
    /// The handle of `data`.
    pub fn intern(&mut self, data: TypeData) -> Type {
        Type(self.set.insert_full(data).0 as u32)
    }

    /// All types interned so far.
    pub fn iter(&self) -> impl Iterator<Item = (Type, &TypeData)> {
        self.set.iter().enumerate().map(|(n, data)| (Type(n as u32), data))
    }

    /// A vector of `n` scalars.
    pub fn vector(&mut self, scalar: Scalar, n: u32) -> Type {
        self.intern(TypeData::Vector(scalar, n))
    }

    /// An array of `n` elements.
    pub fn array(&mut self, element: Type, n: u32) -> Type {
        self.intern(TypeData::Array(element, n))
    }

    /// A stack of elements.
    pub fn stack(&mut self, element: Type) -> Type {
        self.intern(TypeData::Stack(element))
    }

    /// A cell that holds a `content`.
    pub fn cell(&mut self, content: Type) -> Type {
        self.intern(TypeData::Cell(content))
    }

    /// A handle of a buffer.
    pub fn buffer(&mut self, element: MemType) -> Type {
        self.intern(TypeData::Buffer(element))
    }

    /// The type of the residuals with this number in [`crate::Module::residuals`].
    pub fn residuals(&mut self, number: u32) -> Type {
        self.intern(TypeData::Residuals(number))
    }

    /// The kind of number that a scalar, vector, array, stack or cell is made of.
    pub fn scalar_of(&self, ty: Type) -> Option<Scalar> {
        match self[ty] {
            TypeData::Scalar(s) | TypeData::Vector(s, _) => Some(s),
            TypeData::Array(t, _) | TypeData::Stack(t) | TypeData::Cell(t) => self.scalar_of(t),
            TypeData::Buffer(_) | TypeData::Residuals(_) => None,
        }
    }

    /// Returns true if a value of this type can have a tangent (of the same type).
    pub fn is_differentiable(&self, ty: Type) -> bool {
        self.scalar_of(ty).is_some_and(Scalar::is_float)
    }

    /// Returns true for a scalar or a vector, the types that elementwise ops work on.
    pub fn is_numeric(&self, ty: Type) -> bool {
        matches!(self[ty], TypeData::Scalar(_) | TypeData::Vector(..))
    }

    /// The number of elements of a vector or array.
    pub fn length(&self, ty: Type) -> Option<u32> {
        match self[ty] {
            TypeData::Vector(_, n) | TypeData::Array(_, n) => Some(n),
            TypeData::Scalar(_)
            | TypeData::Stack(_)
            | TypeData::Cell(_)
            | TypeData::Buffer(_)
            | TypeData::Residuals(_) => None,
        }
    }

    /// The number of lanes of a vector; `None` for scalars and all other types.
    pub fn lanes(&self, ty: Type) -> Option<u32> {
        match self[ty] {
            TypeData::Vector(_, n) => Some(n),
            TypeData::Scalar(_)
            | TypeData::Array(..)
            | TypeData::Stack(_)
            | TypeData::Cell(_)
            | TypeData::Buffer(_)
            | TypeData::Residuals(_) => None,
        }
    }

    /// The type that one index selects from a vector, array or stack. `None` for other types.
    pub fn element(&self, ty: Type) -> Option<Type> {
        match self[ty] {
            TypeData::Vector(s, _) => Some(s.into()),
            TypeData::Array(t, _) | TypeData::Stack(t) => Some(t),
            TypeData::Scalar(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => None,
        }
    }

    /// The type of a cell's content. `None` for other types.
    pub fn content(&self, ty: Type) -> Option<Type> {
        match self[ty] {
            TypeData::Cell(t) => Some(t),
            TypeData::Scalar(_)
            | TypeData::Vector(..)
            | TypeData::Array(..)
            | TypeData::Stack(_)
            | TypeData::Buffer(_)
            | TypeData::Residuals(_) => None,
        }
    }

    /// Returns true if a stack occurs anywhere in the type.
    pub fn has_stack(&self, ty: Type) -> bool {
        match self[ty] {
            TypeData::Stack(_) => true,
            TypeData::Array(t, _) | TypeData::Cell(t) => self.has_stack(t),
            TypeData::Scalar(_) | TypeData::Vector(..) | TypeData::Buffer(_) | TypeData::Residuals(_) => {
                false
            }
        }
    }

    /// The size in bytes of a local value (no padding between elements; stacks and buffers take a pointer).
    #[inline]
    pub fn bytes(&self, ty: Type) -> u64 {
        match self[ty] {
            TypeData::Scalar(s) => s.bytes() as u64,
            TypeData::Vector(s, n) => s.bytes() as u64 * n as u64,
            TypeData::Array(t, n) => self.bytes(t).saturating_mul(n as u64),
            TypeData::Cell(t) => self.bytes(t),
            TypeData::Stack(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => 8,
        }
    }

    /// The same shape with the scalar type replaced, e.g. the `bool` vector that a comparison gives.
    pub fn with_scalar(&mut self, ty: Type, scalar: Scalar) -> Type {
        match self[ty] {
            TypeData::Vector(_, n) => self.vector(scalar, n),
            _ => scalar.into(),
        }
    }
}
