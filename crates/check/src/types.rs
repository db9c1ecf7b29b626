//! The types of the language, interned.
//!
//! A [`Ty`] may mention generic parameters; [`crate::subst`] replaces them. Two types are equal if
//! and only if their handles are, provided that both are normalised (aliases resolved, associated
//! types of known types replaced).

use cranelift_entity::entity_impl;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use syntax::DeclId;

/// An interned type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ty(u32);
entity_impl!(Ty, "type");

/// The kinds of number, as the language names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scalar {
    Bool,
    Int8,
    Int16,
    Int,
    Int64,
    UInt8,
    UInt16,
    UInt,
    UInt64,
    Half,
    Float,
    Double,
}

/// A compile-time integer that types depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Val {
    /// Known.
    Int(i64),
    /// A generic value parameter.
    Param(DeclId),
    /// `a op b` over unknowns: `+ - * / % & | ^ < > =`, and `l r L G ! a o` for `<< >> <= >= != && ||`.
    Binary(char, Box<Val>, Box<Val>),
    /// `c ? a : b` over unknowns.
    Select(Box<[Val; 3]>),
    /// A constant member of a type that is not known yet.
    Member(Box<crate::tables::FuncRef>),
    /// `sizeof` or `alignof` of a type that is not known yet.
    SizeOf(syntax::ast::SizeOfKind, Ty),
    /// The number of elements of a type pack.
    CountOf(Ty),
    /// The number of elements of a pack of integers.
    CountOfVals(Box<Val>),
    /// A pack of integers.
    Pack(Vec<Val>),
    /// `each N`: the element that the expansion around it is at.
    Each(Box<Val>),
    /// `expand …` over the elements of a pack.
    Expand(Box<Val>, Box<GenericArg>),
    /// Already diagnosed.
    Error,
}

/// An argument of a generic declaration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GenericArg {
    /// For a type parameter.
    Type(Ty),
    /// For a value parameter.
    Val(Val),
}

/// Arguments of a declaration and of all generic declarations around it, outermost first.
pub type Args = Vec<GenericArg>;

/// Buffers and the like that are built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names of the language")]
pub enum BufferKind {
    StructuredBuffer,
    RWStructuredBuffer,
    ConstantBuffer,
    ParameterBlock,
}

impl BufferKind {
    /// As Slang writes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BufferKind::StructuredBuffer => "StructuredBuffer",
            BufferKind::RWStructuredBuffer => "RWStructuredBuffer",
            BufferKind::ConstantBuffer => "ConstantBuffer",
            BufferKind::ParameterBlock => "ParameterBlock",
        }
    }
}

/// How a matrix lies in memory: the fourth argument of `matrix`.
pub struct Order;

impl Order {
    /// As the host says, since the program does not. Also that of a value, which lies nowhere.
    pub const HOST: Val = Val::Int(0);
    /// `row_major`.
    pub const ROWS: Val = Val::Int(1);
    /// `column_major`.
    pub const COLUMNS: Val = Val::Int(2);
}

/// What a type is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TyKind {
    /// Already diagnosed; fits everywhere.
    Error,
    /// No value.
    Void,
    /// One number.
    Scalar(Scalar),
    /// `vector<T, N>`; the element may be a parameter.
    Vector(Ty, Val),
    /// `matrix<T, R, C>`. The order is that of what it is stored as; a value has none, which is
    /// [`Order::HOST`].
    Matrix(Ty, Val, Val, Val),
    /// `T[N]`, `Array<T, N>`; without a length for `T[]`.
    Array(Ty, Option<Val>),
    /// A user's (or the library's) struct.
    Struct(DeclId, Args),
    /// An enumeration.
    Enum(DeclId),
    /// A value of some type that conforms.
    Interface(DeclId, Args),
    /// A generic type parameter.
    Param(DeclId),
    /// `This` within an interface: the type that conforms.
    This(DeclId),
    /// An associated type of a type that is not known yet (a parameter, `This`, another of these).
    Assoc(Ty, DeclId),
    /// `DifferentialPair<T>`.
    DiffPair(Ty),
    /// `DifferentialPtrPair<T>`.
    DiffPtrPair(Ty),
    /// The synthesised `Differential` of a struct whose fields differ from it: one field for each
    /// differentiable field, of the same name.
    SynthDiff(Ty),
    /// `Tuple<A, B>`.
    Tuple(Vec<Ty>),
    /// `Optional<T>`.
    Optional(Ty),
    /// `T*`, `Ptr<T>`.
    Pointer(Ty),
    /// `RWStructuredBuffer<T>` and its kin, and their handles.
    Buffer(BufferKind, Ty),
    /// A built-in type that is known by name and not supported yet (textures, …).
    Opaque(DeclId, Args),
    /// The type of string literals.
    String,
    /// `nullptr`.
    NullPtr,
    /// `none`.
    NoneLiteral,
    /// A value that is known to be of some function's type (`f` in `f.bwd_diff`); by declaration.
    Function(DeclId, Args),
    /// A type pack: elements are known, or a parameter declared with `each`.
    Pack(Vec<Ty>),
    /// `each T`: the element of a pack that the expansion around it is at.
    Each(Ty),
    /// `expand P` over the elements of a pack, the shape.
    Expand(Ty, Box<GenericArg>),
}

/// The interner, with the fixed types at hand.
#[derive(Clone, Debug)]
pub struct TyInterner {
    set: IndexSet<TyKind, FxBuildHasher>,
}

#[expect(missing_docs, reason = "the names say it")]
impl Ty {
    pub const ERROR: Ty = Ty(0);
    pub const VOID: Ty = Ty(1);
    pub const STRING: Ty = Ty(2);
    pub const NULLPTR: Ty = Ty(3);
    pub const NONE: Ty = Ty(4);
    pub const BOOL: Ty = Ty(5);
    pub const INT: Ty = Ty(8);
    pub const UINT: Ty = Ty(12);
    pub const HALF: Ty = Ty(14);
    pub const FLOAT: Ty = Ty(15);
    pub const DOUBLE: Ty = Ty(16);
}

impl Scalar {
    /// Every scalar, in order.
    pub const ALL: [Scalar; 12] = [
        Scalar::Bool,
        Scalar::Int8,
        Scalar::Int16,
        Scalar::Int,
        Scalar::Int64,
        Scalar::UInt8,
        Scalar::UInt16,
        Scalar::UInt,
        Scalar::UInt64,
        Scalar::Half,
        Scalar::Float,
        Scalar::Double,
    ];

    /// Whether this is a floating-point number.
    pub fn is_float(self) -> bool {
        matches!(self, Scalar::Half | Scalar::Float | Scalar::Double)
    }

    /// The language's name.
    pub fn name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::Int8 => "int8_t",
            Scalar::Int16 => "int16_t",
            Scalar::Int => "int",
            Scalar::Int64 => "int64_t",
            Scalar::UInt8 => "uint8_t",
            Scalar::UInt16 => "uint16_t",
            Scalar::UInt => "uint",
            Scalar::UInt64 => "uint64_t",
            Scalar::Half => "half",
            Scalar::Float => "float",
            Scalar::Double => "double",
        }
    }
}

impl Default for TyInterner {
    fn default() -> TyInterner {
        let fixed = [TyKind::Error, TyKind::Void, TyKind::String, TyKind::NullPtr, TyKind::NoneLiteral];
        TyInterner { set: fixed.into_iter().chain(Scalar::ALL.into_iter().map(TyKind::Scalar)).collect() }
    }
}

impl TyInterner {
    /// The handle of `kind`.
    pub fn intern(&mut self, kind: TyKind) -> Ty {
        Ty(self.set.insert_full(kind).0 as u32)
    }

    /// The matrix of a value.
    pub(crate) fn matrix(&mut self, element: Ty, rows: Val, columns: Val) -> Ty {
        self.intern(TyKind::Matrix(element, rows, columns, Order::HOST))
    }

    /// A matrix in this order; any other type as it is.
    pub(crate) fn in_order(&mut self, ty: Ty, order: Val) -> Ty {
        match self[ty].clone() {
            TyKind::Matrix(e, r, c, old) if old != order => self.intern(TyKind::Matrix(e, r, c, order)),
            _ => ty,
        }
    }

    /// The type of a value that is stored as this type.
    pub(crate) fn of_value(&mut self, ty: Ty) -> Ty {
        if !self.is_ordered(ty) {
            return ty;
        }
        let kind = match self[ty].clone() {
            TyKind::Array(e, n) => TyKind::Array(self.of_value(e), n),
            TyKind::DiffPair(e) => TyKind::DiffPair(self.of_value(e)),
            TyKind::Optional(e) => TyKind::Optional(self.of_value(e)),
            TyKind::Tuple(parts) => TyKind::Tuple(parts.into_iter().map(|e| self.of_value(e)).collect()),
            _ => return self.in_order(ty, Order::HOST),
        };
        self.intern(kind)
    }

    /// True for a matrix whose order the program says, and for what is no struct and has one in it.
    fn is_ordered(&self, ty: Ty) -> bool {
        match &self[ty] {
            TyKind::Matrix(.., order) => matches!(order, Val::Int(1..)),
            TyKind::Array(e, _) | TyKind::DiffPair(e) | TyKind::Optional(e) => self.is_ordered(*e),
            TyKind::Tuple(parts) => parts.iter().any(|&e| self.is_ordered(e)),
            _ => false,
        }
    }

    /// The type of a scalar.
    pub fn scalar(&self, scalar: Scalar) -> Ty {
        Ty(5 + scalar as u32)
    }
}

impl std::ops::Index<Ty> for TyInterner {
    type Output = TyKind;
    fn index(&self, ty: Ty) -> &TyKind {
        &self.set[ty.0 as usize]
    }
}
