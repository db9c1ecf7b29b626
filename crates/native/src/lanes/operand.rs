//! Operands of instructions.
//!
//! A [`Val`] is an operand: a register or a constant, of an element type, *uniform* (one number for all
//! lanes) or *varying* (a vector with one number for each lane).

use smallvec::SmallVec;

/// The type of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum El {
    I1,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
    Ptr,
}

impl El {
    /// The type's text.
    pub fn name(self) -> &'static str {
        match self {
            El::I1 => "i1",
            El::I8 => "i8",
            El::I16 => "i16",
            El::I32 => "i32",
            El::I64 => "i64",
            El::F32 => "float",
            El::F64 => "double",
            El::Ptr => "ptr",
        }
    }

    /// The width in bits; 64 for a pointer.
    pub fn bits(self) -> u32 {
        match self {
            El::I1 => 1,
            El::I8 => 8,
            El::I16 => 16,
            El::I32 | El::F32 => 32,
            El::I64 | El::F64 | El::Ptr => 64,
        }
    }

    /// The size in memory in bytes.
    pub fn bytes(self) -> u64 {
        u64::from(self.bits().div_ceil(8))
    }
}

/// The identity of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Id {
    /// `%rN`.
    Reg(u32),
    /// A constant by its bits; the same in every lane.
    Bits(u64),
    /// The poison value, which may be anything.
    Poison,
    /// The numbers of the lanes: 0, 1, ….
    Iota,
    /// A parameter or symbol by name.
    Name(&'static str),
    /// A shape by its number in `crate::runtime::Tables`.
    Shape(u32),
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Val {
    /// The identity.
    pub id: Id,
    /// The type.
    pub el: El,
    /// The operand has one number for each lane.
    pub var: bool,
    /// The operand is the address of memory in which each number has room for all lanes.
    pub wide: bool,
    /// The operand is known to be `base + lane * step`, wrapped; `base` is a register or constant of the
    /// type.
    pub lin: Option<Lin>,
}

/// A value that increases by the same step from lane to lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lin {
    /// The number of lane 0.
    pub base: Id,
    /// The difference between the numbers of neighbouring lanes.
    pub step: i64,
    /// A truth value: it holds if a widening preserved the form. If it does not hold, nothing is known about
    /// the lanes.
    pub holds: Id,
}

/// Several operands.
pub type Vals = SmallVec<[Val; 4]>;

impl Val {
    /// A vector that may hold anything.
    pub const POISON: Val = Val { id: Id::Poison, el: El::Ptr, var: false, wide: false, lin: None };

    /// A uniform value.
    pub fn uniform(id: Id, el: El) -> Val {
        Val { id, el, var: false, wide: false, lin: None }
    }

    /// A constant.
    pub fn bits(el: El, bits: u64) -> Val {
        Val::uniform(Id::Bits(bits), el)
    }

    /// A constant of 64 bits.
    pub fn i64(n: i64) -> Val {
        Val::bits(El::I64, n as u64)
    }

    /// A constant of 32 bits.
    pub fn i32(n: i64) -> Val {
        Val::bits(El::I32, n as u64)
    }

    /// A constant truth value.
    pub fn bool(b: bool) -> Val {
        Val::bits(El::I1, b as u64)
    }

    /// A parameter or symbol.
    pub fn name(el: El, name: &'static str) -> Val {
        Val::uniform(Id::Name(name), el)
    }

    /// The number of the operand's register.
    pub fn register(self) -> Option<u32> {
        match self.id {
            Id::Reg(n) => Some(n),
            Id::Bits(_) | Id::Poison | Id::Iota | Id::Name(_) | Id::Shape(_) => None,
        }
    }

    /// The bits of the operand, if it is a constant.
    pub fn constant(self) -> Option<u64> {
        match self.id {
            Id::Bits(bits) => Some(bits),
            Id::Reg(_) | Id::Poison | Id::Iota | Id::Name(_) | Id::Shape(_) => None,
        }
    }
}
