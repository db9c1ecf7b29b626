//! The interned types of the language.
//!
//! A [`Ty`] may mention generic parameters; [`crate::generics::substitution`] replaces them. Two types are equal if and only
//! if their handles are, provided that both are normalised (aliases resolved, associated types of known types
//! replaced).

pub(crate) mod builtin;
pub(crate) mod constants;
pub(crate) mod conversion;
pub mod data_layout;
pub(crate) mod expressions;
pub(crate) mod follow_up;
pub mod handles;
pub mod limits;
pub(crate) mod pack_parts;
pub(crate) mod packs;
pub(crate) mod pointers;
pub(crate) mod shapes;

use cranelift_entity::entity_impl;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use syntax::DeclId;
use syntax::ast::{BinaryOp, PackPart, ShapeOp};

/// An interned type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ty(u32);
entity_impl!(Ty, "type");

/// The scalar types, as the language names them.
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
    BFloat16,
    FloatE4M3,
    FloatE5M2,
}

/// A compile-time integer that types depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Val {
    /// A known integer.
    Int(i64),
    /// A generic value parameter.
    Param(DeclId),
    /// `a op b` where an operand is unknown.
    Binary(BinaryOp, Box<Val>, Box<Val>),
    /// `c ? a : b` where an operand is unknown.
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
    /// `each N`: the current element of the surrounding expansion.
    Each(Box<Val>),
    /// `expand …` over the elements of a pack.
    Expand(Box<Val>, Box<GenericArg>),
    /// `__first(P)` and the like of a pack that is not known yet; what is left after trimming is a pack.
    PackPart(PackPart, Box<Val>),
    /// `__shapeSwap(P, I, J)` and the like, a pack, where an operand is not known yet.
    Shape(ShapeOp, Vec<Val>),
    /// Already diagnosed.
    Error,
}

/// An argument of a generic declaration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GenericArg {
    /// The argument of a type parameter.
    Type(Ty),
    /// The argument of a value parameter.
    Val(Val),
}

impl GenericArg {
    /// The type; unknown for an integer.
    pub(crate) fn ty(self) -> Ty {
        if let GenericArg::Type(ty) = self { ty } else { Ty::ERROR }
    }

    /// The integer; unknown for a type.
    pub(crate) fn val(self) -> Val {
        if let GenericArg::Val(val) = self { val } else { Val::Error }
    }

    /// Returns true if a generic parameter stands for itself.
    pub(crate) fn is_param(&self, param: DeclId, types: &TyInterner) -> bool {
        match self {
            GenericArg::Type(ty) => types[*ty] == TyKind::Param(param),
            GenericArg::Val(val) => *val == Val::Param(param),
        }
    }
}

/// Arguments of a declaration and of all enclosing generic declarations, outermost first.
pub type Args = Vec<GenericArg>;

/// Built-in buffers and parameter blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names of the language")]
pub enum BufferKind {
    StructuredBuffer,
    RWStructuredBuffer,
    ConstantBuffer,
    ParameterBlock,
}

impl BufferKind {
    /// The name of the buffer type in Slang.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BufferKind::StructuredBuffer => "StructuredBuffer",
            BufferKind::RWStructuredBuffer => "RWStructuredBuffer",
            BufferKind::ConstantBuffer => "ConstantBuffer",
            BufferKind::ParameterBlock => "ParameterBlock",
        }
    }
}

/// The layout of a matrix in memory: the fourth argument of `matrix`.
pub struct Order;

impl Order {
    /// The layout chosen by the host, where the program states none. Also the order of values, which have no
    /// layout.
    pub const HOST: Val = Val::Int(0);
    /// `row_major`.
    pub const ROWS: Val = Val::Int(1);
    /// `column_major`.
    pub const COLUMNS: Val = Val::Int(2);
}

/// The kinds of types.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TyKind {
    /// Already diagnosed; fits everywhere.
    Error,
    /// No value.
    Void,
    /// A scalar.
    Scalar(Scalar),
    /// `vector<T, N>`, or `CoopVec<T, N>`, which is compared as a whole; the element may be a parameter.
    Vector(Ty, Val, Comparison),
    /// `matrix<T, R, C>`, with the order in which it is stored; a value has no order, which is expressed by
    /// [`Order::HOST`].
    Matrix(Ty, Val, Val, Val),
    /// `T[N]`, `Array<T, N>`; without a length for `T[]`.
    Array(Ty, Option<Val>),
    /// A struct of the user's or the library's.
    Struct(DeclId, Args),
    /// An enumeration.
    Enum(DeclId),
    /// A value of some type that conforms to the interface.
    Interface(DeclId, Args),
    /// A generic type parameter.
    Param(DeclId),
    /// `This` within an interface: the conforming type.
    This(DeclId),
    /// An associated type of a type that is not known yet (a parameter, `This`, another associated type).
    Assoc(Ty, DeclId),
    /// `DifferentialPair<T>`.
    DiffPair(Ty),
    /// `DifferentialPtrPair<T>`.
    DiffPtrPair(Ty),
    /// The synthesised `Differential` of a struct where the two differ: it has one field for each
    /// differentiable field, of the same name.
    SynthDiff(Ty),
    /// `Tuple<A, B>`.
    Tuple(Vec<Ty>),
    /// `Optional<T>`.
    Optional(Ty),
    /// `T*`, `Ptr<T, access, space>`, by the numbers of the cases of `Access` and `AddressSpace`.
    Pointer(Ty, Val, Val),
    /// `RWStructuredBuffer<T>` and the like, and their handles.
    Buffer(BufferKind, Ty),
    /// A type as it is stored with a data layout, such as `Std430DataLayout`: the content of a buffer or behind a
    /// pointer. A value has no layout.
    Laid(Ty, Ty),
    /// A built-in type that is known by name but not supported yet (textures, …).
    Opaque(DeclId, Args),
    /// The type of string literals.
    String,
    /// `nullptr`.
    NullPtr,
    /// `none`.
    NoneLiteral,
    /// The type of a value that is known to be a particular function (`f` in `f.bwd_diff`), by the function's
    /// declaration.
    Function(DeclId, Args),
    /// A type pack whose elements are known or are parameters declared with `each`.
    Pack(Vec<Ty>),
    /// `each T`: the current element of the pack in the surrounding expansion.
    Each(Ty),
    /// `expand P` over the elements of a pack, which is the shape.
    Expand(Ty, Box<GenericArg>),
    /// `__first(P)` and the like of a pack that is not known yet; what is left after trimming is a pack.
    PackPart(PackPart, Ty),
    /// `__packBranch(P, A, B)` of a pack that may be empty, as far as is known yet.
    PackBranch(Box<GenericArg>, Ty, Ty),
}

/// A type or integer of which a type or integer is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    Type(Ty),
    Val(&'a Val),
}

impl<'a> From<&'a GenericArg> for Part<'a> {
    fn from(arg: &'a GenericArg) -> Part<'a> {
        match arg {
            GenericArg::Type(ty) => Part::Type(*ty),
            GenericArg::Val(val) => Part::Val(val),
        }
    }
}

/// How many answers a comparison of two vectors has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// One for each component.
    Each,
    /// A single one: such vectors are equal if all components are, and ordered by the first that differ.
    Whole,
}

impl Comparison {
    /// That of the result of an operator on two vectors.
    pub(crate) fn join(self, other: Comparison) -> Comparison {
        if self == Comparison::Whole { self } else { other }
    }
}

impl TyKind {
    /// Visits the types and integers of which a type is made, one level deep.
    pub(crate) fn for_each_part<'a>(&'a self, visit: &mut impl FnMut(Part<'a>)) {
        match self {
            TyKind::Vector(e, n, _) => {
                visit(Part::Type(*e));
                visit(Part::Val(n));
            }
            TyKind::Pointer(e, access, space) => {
                visit(Part::Type(*e));
                [access, space].into_iter().for_each(|n| visit(Part::Val(n)));
            }
            TyKind::Matrix(e, r, c, order) => {
                visit(Part::Type(*e));
                [r, c, order].into_iter().for_each(|n| visit(Part::Val(n)));
            }
            TyKind::Array(e, n) => {
                visit(Part::Type(*e));
                n.iter().for_each(|n| visit(Part::Val(n)));
            }
            TyKind::Struct(_, args)
            | TyKind::Interface(_, args)
            | TyKind::Opaque(_, args)
            | TyKind::Function(_, args) => args.iter().for_each(|arg| visit(arg.into())),
            TyKind::Assoc(e, _)
            | TyKind::DiffPair(e)
            | TyKind::DiffPtrPair(e)
            | TyKind::SynthDiff(e)
            | TyKind::Optional(e)
            | TyKind::Each(e)
            | TyKind::PackPart(_, e)
            | TyKind::Buffer(_, e) => visit(Part::Type(*e)),
            TyKind::Laid(e, layout) => {
                visit(Part::Type(*e));
                visit(Part::Type(*layout));
            }
            TyKind::Expand(e, shape) => {
                visit(Part::Type(*e));
                visit((&**shape).into());
            }
            TyKind::PackBranch(pack, empty, other) => {
                visit((&**pack).into());
                visit(Part::Type(*empty));
                visit(Part::Type(*other));
            }
            TyKind::Tuple(parts) | TyKind::Pack(parts) => parts.iter().for_each(|&e| visit(Part::Type(e))),
            TyKind::Error
            | TyKind::Void
            | TyKind::Scalar(_)
            | TyKind::Enum(_)
            | TyKind::Param(_)
            | TyKind::This(_)
            | TyKind::String
            | TyKind::NullPtr
            | TyKind::NoneLiteral => {}
        }
    }
}

impl TyKind {
    /// The types and integers of which a type is made.
    pub(crate) fn parts(&self) -> Args {
        let mut parts = Args::new();
        self.for_each_part(&mut |part| {
            parts.push(match part {
                Part::Type(ty) => GenericArg::Type(ty),
                Part::Val(val) => GenericArg::Val(val.clone()),
            });
        });
        parts
    }

    /// A type of the same kind, made of other types and integers.
    pub(crate) fn with_parts(&self, parts: Args) -> TyKind {
        if let TyKind::Struct(..) | TyKind::Interface(..) | TyKind::Opaque(..) | TyKind::Function(..) = self {
            let mut kind = self.clone();
            if let TyKind::Struct(_, args)
            | TyKind::Interface(_, args)
            | TyKind::Opaque(_, args)
            | TyKind::Function(_, args) = &mut kind
            {
                *args = parts;
            }
            return kind;
        }
        let types: Vec<Ty> = types_of(&parts).collect();
        let mut vals = parts.iter().filter_map(|part| match part {
            GenericArg::Val(val) => Some(val.clone()),
            GenericArg::Type(_) => None,
        });
        let mut val = || vals.next().unwrap_or(Val::Error);
        let first = types.first().copied().unwrap_or(Ty::ERROR);
        match self {
            TyKind::Vector(.., comparison) => TyKind::Vector(first, val(), *comparison),
            TyKind::Matrix(..) => TyKind::Matrix(first, val(), val(), val()),
            TyKind::Array(_, n) => TyKind::Array(first, n.as_ref().map(|_| val())),
            TyKind::Assoc(_, decl) => TyKind::Assoc(first, *decl),
            TyKind::DiffPair(_) => TyKind::DiffPair(first),
            TyKind::DiffPtrPair(_) => TyKind::DiffPtrPair(first),
            TyKind::SynthDiff(_) => TyKind::SynthDiff(first),
            TyKind::Optional(_) => TyKind::Optional(first),
            TyKind::Pointer(..) => TyKind::Pointer(first, val(), val()),
            TyKind::Each(_) => TyKind::Each(first),
            TyKind::Buffer(kind, _) => TyKind::Buffer(*kind, first),
            TyKind::Laid(..) => TyKind::Laid(first, types.get(1).copied().unwrap_or(Ty::ERROR)),
            TyKind::Tuple(_) => TyKind::Tuple(types),
            TyKind::Pack(_) => TyKind::Pack(types),
            // An expansion keeps its shape, which `substitute_expand` replaces.
            kind => kind.clone(),
        }
    }
}

/// The types among generic arguments.
pub(crate) fn types_of<'a>(args: impl IntoIterator<Item = &'a GenericArg>) -> impl Iterator<Item = Ty> {
    args.into_iter().filter_map(|arg| match arg {
        GenericArg::Type(ty) => Some(*ty),
        GenericArg::Val(_) => None,
    })
}

impl Val {
    /// Visits the types and integers of which an integer is made, one level deep.
    pub(crate) fn for_each_part<'a>(&'a self, visit: &mut impl FnMut(Part<'a>)) {
        match self {
            Val::Binary(_, a, b) => [a, b].into_iter().for_each(|val| visit(Part::Val(val))),
            Val::Select(parts) => parts.iter().for_each(|val| visit(Part::Val(val))),
            Val::Member(member) => {
                member.args.iter().for_each(|arg| visit(arg.into()));
                member.self_ty.into_iter().for_each(|ty| visit(Part::Type(ty)));
            }
            Val::SizeOf(_, ty) | Val::CountOf(ty) => visit(Part::Type(*ty)),
            Val::CountOfVals(val) | Val::Each(val) | Val::PackPart(_, val) => visit(Part::Val(val)),
            Val::Pack(vals) | Val::Shape(_, vals) => vals.iter().for_each(|val| visit(Part::Val(val))),
            Val::Expand(val, shape) => {
                visit(Part::Val(val));
                visit((&**shape).into());
            }
            Val::Int(_) | Val::Param(_) | Val::Error => {}
        }
    }
}

/// The type interner, which holds the fixed types from the start.
#[derive(Clone, Debug)]
pub struct TyInterner {
    set: IndexSet<TyKind, FxBuildHasher>,
    /// For each type, true if it or a part of it is [`Ty::ERROR`].
    unknown: Vec<bool>,
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

impl Default for TyInterner {
    fn default() -> TyInterner {
        let fixed = [TyKind::Error, TyKind::Void, TyKind::String, TyKind::NullPtr, TyKind::NoneLiteral];
        let set: IndexSet<_, _> = fixed.into_iter().chain(Scalar::all().map(TyKind::Scalar)).collect();
        let unknown = (0..set.len()).map(|idx| idx == Ty::ERROR.0 as usize).collect();
        TyInterner { set, unknown }
    }
}

impl TyInterner {
    /// Interns `kind` and returns its handle.
    pub fn intern(&mut self, kind: TyKind) -> Ty {
        let kind = self.without_single(kind);
        let (idx, is_new) = self.set.insert_full(kind);
        if is_new {
            let mut unknown = false;
            self.set[idx].for_each_part(&mut |part| unknown |= self.is_unknown_part(part));
            self.unknown.push(unknown);
        }
        Ty(idx as u32)
    }

    /// A vector of a single vector is a matrix of one row, and one of vectors of one component is a vector of these
    /// components; other vectors have no vectors in them.
    pub(crate) fn without_single(&self, kind: TyKind) -> TyKind {
        let TyKind::Vector(element, n, comparison) = &kind else { return kind };
        match (&self[*element], n) {
            (TyKind::Vector(inner, m, _), Val::Int(1)) => {
                TyKind::Matrix(*inner, Val::Int(1), m.clone(), Order::HOST)
            }
            (TyKind::Vector(inner, Val::Int(1), _), _) => TyKind::Vector(*inner, n.clone(), *comparison),
            _ => kind,
        }
    }

    fn is_unknown_part(&self, part: Part<'_>) -> bool {
        match part {
            Part::Type(ty) => self.is_unknown(ty),
            Part::Val(Val::Error) => true,
            Part::Val(val) => {
                let mut unknown = false;
                val.for_each_part(&mut |part| unknown |= self.is_unknown_part(part));
                unknown
            }
        }
    }

    /// Returns true for a type that is not known yet: a parameter, `This`, an associated type of one, an
    /// element of a pack, or one of two types.
    pub fn is_abstract(&self, ty: Ty) -> bool {
        match self[ty] {
            TyKind::Param(_) | TyKind::This(_) | TyKind::Assoc(..) | TyKind::Each(_) => true,
            TyKind::PackPart(part, _) => part.is_element(),
            TyKind::PackBranch(..) => true,
            _ => false,
        }
    }

    /// Returns true if a type or a part of it is unknown, which has been reported: nothing that mentions the
    /// type is worth telling.
    pub fn is_unknown(&self, ty: Ty) -> bool {
        self.unknown[ty.0 as usize]
    }

    /// The type of a matrix value, which has no order of its own.
    pub(crate) fn matrix(&mut self, element: Ty, rows: Val, columns: Val) -> Ty {
        self.intern(TyKind::Matrix(element, rows, columns, Order::HOST))
    }

    /// A vector of this many components; one is a scalar.
    pub(crate) fn components(&mut self, element: Ty, n: usize) -> Ty {
        if n == 1 {
            element
        } else {
            self.intern(TyKind::Vector(element, Val::Int(n as i64), Comparison::Each))
        }
    }

    /// Returns the matrix type with this order; returns any other type unchanged.
    pub(crate) fn in_order(&mut self, ty: Ty, order: Val) -> Ty {
        match self[ty].clone() {
            TyKind::Matrix(e, r, c, old) if old != order => self.intern(TyKind::Matrix(e, r, c, order)),
            _ => ty,
        }
    }

    /// A type without the data layout that it is stored with.
    pub fn bare(&self, ty: Ty) -> Ty {
        if let TyKind::Laid(content, _) = self[ty] { content } else { ty }
    }

    /// The type of a value that is stored with this type.
    pub(crate) fn of_value(&mut self, ty: Ty) -> Ty {
        if !self.is_ordered(ty) {
            return ty;
        }
        if let TyKind::Matrix(..) = self[ty] {
            return self.in_order(ty, Order::HOST);
        }
        if let TyKind::Laid(content, _) = self[ty] {
            return self.of_value(content);
        }
        let kind = self[ty].clone();
        let parts = kind.parts().into_iter().map(|part| match part {
            GenericArg::Type(ty) => GenericArg::Type(self.of_value(ty)),
            val => val,
        });
        let parts = parts.collect();
        self.intern(kind.with_parts(parts))
    }

    /// Returns true for a matrix whose order the program states, what is stored with a layout, and for an array,
    /// pair, optional or tuple that contains one.
    fn is_ordered(&self, ty: Ty) -> bool {
        match &self[ty] {
            TyKind::Matrix(.., order) => matches!(order, Val::Int(1..)),
            TyKind::Laid(..) => true,
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
