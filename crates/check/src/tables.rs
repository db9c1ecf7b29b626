//! What the checker finds out: side tables over the AST, which `lower` reads.
//!
//! [`Tables::exprs`] says what each expression *means*, its type before and after the implicit
//! conversion that its context asks for. A generic body is checked once; its tables mention the
//! parameters, and `lower` substitutes.

use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use syntax::ast::{BinaryOp, SizeOfKind, UnaryOp};
use syntax::{DeclId, ExprId, StmtId};

use crate::types::{Args, GenericArg, Ty, Val};
use crate::views::ModuleId;

/// The side tables.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Of each checked expression.
    pub exprs: SecondaryMap<ExprId, ExprInfo>,
    /// The type of each checked variable, field, parameter, property, alias, enum case.
    pub decl_types: SecondaryMap<DeclId, Option<Ty>>,
    /// Of each checked `throw` and `try`; looked up only.
    pub throws: FxHashMap<StmtId, Thrown>,
}

/// An error that a statement throws.
#[derive(Clone, Copy, Debug)]
pub struct Thrown {
    /// Its type.
    pub error: Ty,
    /// The level of the `do` that catches it and the number of its `catch`; out of the function if there is none.
    pub target: Option<(u32, u32)>,
}

/// What an expression is.
#[derive(Clone, Debug)]
pub struct ExprInfo {
    /// Its own type.
    pub ty: Ty,
    /// The type that its context converts it to, where that is another one.
    pub coerce: Option<Ty>,
    /// What it means.
    pub meaning: Meaning,
    /// Whether it can be assigned to.
    pub lvalue: bool,
}

impl Default for ExprInfo {
    fn default() -> ExprInfo {
        ExprInfo { ty: Ty::ERROR, coerce: None, meaning: Meaning::Error, lvalue: false }
    }
}

/// A function with the arguments of all generics around and on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FuncRef {
    /// A function, constructor (`__init`), accessor, or a requirement of an interface.
    pub decl: DeclId,
    /// Arguments for [`crate::Program::all_generic_params`] of `decl`, outermost first.
    pub args: Args,
    /// For members: the type that it is a member of, as seen (`T` for a requirement called through
    /// a parameter). A requirement is resolved to the function that fulfils it when this is known.
    pub self_ty: Option<Ty>,
}

/// Something that can be called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Callable {
    /// A function.
    Func(FuncRef),
    /// `fwd_diff(f)`, and the module that asks for it.
    Fwd(Box<Callable>, ModuleId),
    /// `bwd_diff(f)`, and the module that asks for it.
    Bwd(Box<Callable>, ModuleId),
    /// `__apply(f)`, and the module that asks for it.
    Apply(Box<Callable>, ModuleId),
    /// `__linearize(f)`, and the module that asks for it.
    Linearize(Box<Callable>, ModuleId),
    /// A requirement of `IDifferentiable` that is synthesised for the type.
    Synthesized(SynthesizedMember, Ty),
}

/// Members that the compiler provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names of the language")]
pub enum SynthesizedMember {
    DZero,
    DAdd,
}

/// An argument of a call, one for each parameter in order (after the receiver).
#[derive(Clone, Debug)]
pub enum Arg {
    /// Written. For `out` and `inout` it is an l-value of the parameter's type (or its `coerce` says otherwise).
    Expr(ExprId),
    /// The parameter's default, evaluated at the call (the expression belongs to the callee's declaration and is
    /// read under the callee's generic arguments).
    Default(DeclId),
    /// For a parameter that is a pack: its elements in order. One whose type is a pack gives several.
    Pack(Vec<ExprId>),
}

impl Arg {
    /// What is written for it.
    pub fn exprs(&self) -> SmallVec<[ExprId; 4]> {
        match self {
            Arg::Expr(expr) => smallvec::smallvec![*expr],
            Arg::Pack(exprs) => exprs.iter().copied().collect(),
            Arg::Default(_) => SmallVec::new(),
        }
    }
}

/// The meaning of an expression. `ExprId`s are the AST's own operands unless said otherwise.
#[derive(Clone, Debug, Default)]
pub enum Meaning {
    /// Not checked, or already diagnosed.
    #[default]
    Error,
    /// It denotes a type.
    Type(Ty),
    /// It denotes a namespace or module.
    Namespace(DeclId),
    /// A literal of the AST (`Int Float Bool String NullPtr None`), of the expression's type.
    Literal,
    /// An integer, float or bool known while compiling (`sizeof`, `countof`, enum arithmetic…).
    Const(f64),
    /// A local variable, parameter, or global (also `static const`, uniforms, cbuffer members, static members).
    Var(DeclId),
    /// A static member of a generic type, or one that an interface asks for: as `Var`, read under the arguments of
    /// the reference (and resolved by [`crate::Program::resolve_requirement`] first).
    StaticMember(FuncRef),
    /// A generic value parameter, or arithmetic of them.
    Value(Val),
    /// `sizeof(T)` and its kin where the type has parameters: measured when they are known.
    SizeOf(SizeOfKind, Ty),
    /// A case of an enumeration.
    EnumCase(DeclId),
    /// `this`.
    This,
    /// Names a function: as callee, or operand of `fwd_diff`. `base` is the receiver of a bound method.
    Func {
        /// Which.
        func: Callable,
        /// `a` in `a.f`.
        base: Option<ExprId>,
    },
    /// A field; `base` is `None` for an implicit `this`.
    Field {
        /// The struct.
        base: Option<ExprId>,
        /// The field's declaration.
        field: DeclId,
    },
    /// A field of a [`crate::types::TyKind::SynthDiff`], by the primal field.
    DiffField {
        /// The differential.
        base: ExprId,
        /// The primal field's declaration.
        field: DeclId,
    },
    /// `.p`/`.v` (true) or `.d` (false) of a pair.
    PairField {
        /// The pair.
        base: ExprId,
        /// Which half.
        primal: bool,
    },
    /// `._0` of a tuple; `.value` (0) and `.hasValue` (1) of an optional.
    TupleField {
        /// The tuple.
        base: ExprId,
        /// Which.
        idx: u32,
    },
    /// Components of a vector (or of a scalar, as if it had one). One component gives a scalar.
    Swizzle {
        /// The vector.
        base: ExprId,
        /// Component numbers.
        comps: SmallVec<[u8; 4]>,
    },
    /// `_11`, `_m00` and combinations: rows and columns from 0.
    MatrixSwizzle {
        /// The matrix.
        base: ExprId,
        /// Row and column of each component.
        comps: SmallVec<[(u8, u8); 4]>,
    },
    /// A property; read by its `get`, written by its `set`.
    Property {
        /// The receiver; `None` for an implicit `this` or a static property.
        base: Option<ExprId>,
        /// The property, as a member of the type.
        property: FuncRef,
    },
    /// A user's `__subscript`; read by `get`, written by `set` (or both by `ref`).
    Subscript {
        /// The receiver.
        base: ExprId,
        /// The subscript.
        subscript: FuncRef,
        /// Its arguments.
        args: Vec<Arg>,
    },
    /// Built-in indexing of an array, vector, matrix, buffer or pointer by an integer.
    Index {
        /// What is indexed.
        base: ExprId,
        /// The index, an integer of any type.
        index: ExprId,
    },
    /// `*p`, and the content of a `ConstantBuffer` or pointer that is used like a value (`p->x`, `cb.x`: then the
    /// `Field` has this node's own base with `coerce` to the content).
    Deref(ExprId),
    /// `&e`, `__getAddress(e)`.
    AddressOf(ExprId),
    /// A call.
    Call {
        /// What is called.
        func: Callable,
        /// The receiver; `None` for free and static functions and for an implicit `this`.
        base: Option<ExprId>,
        /// One for each parameter.
        args: Vec<Arg>,
    },
    /// A constructor of the user's: a new value of the expression's type by `__init`.
    Init {
        /// The constructor.
        init: FuncRef,
        /// Its arguments.
        args: Vec<Arg>,
    },
    /// Built-in construction of a scalar, vector, matrix or array from the arguments' components in order
    /// (`float3(v.xy, 1)`); one scalar argument fills all; one argument of the same shape converts.
    Construct(Vec<ExprId>),
    /// `{…}`, a memberwise `S(a, b)`, and `T()`/`{}`: every part of the value.
    Aggregate(Initializer),
    /// `(T)e`, `T(e)` as a conversion of `e` to the expression's type.
    Cast(ExprId),
    /// A built-in operator on numbers; operands are coerced to one type.
    Unary(UnaryOp, ExprId),
    /// A built-in operator on numbers; operands are coerced to one type. `&&` and `||` on scalars short-circuit.
    /// In generic code the operand type may be a parameter: if it turns out to be a user's type, the operator
    /// function of that type is called instead (see [`crate::Program::operator_of`]).
    Binary(BinaryOp, ExprId, ExprId),
    /// `a = b`, `a op= b` with a built-in operator. The right side is coerced (for `op=`: to the operand type, which
    /// is `b`'s coerced type; the result converts back to `a`'s).
    Assign {
        /// For `op=`.
        op: Option<BinaryOp>,
        /// The place.
        target: ExprId,
        /// The new value or right operand.
        value: ExprId,
    },
    /// `a op= b` where the operator is the user's function.
    AssignCall {
        /// `operator op`, or `operator op=`.
        func: FuncRef,
        /// The place.
        target: ExprId,
        /// The right operand.
        value: ExprId,
    },
    /// `++e` and its kin on numbers: the AST says which.
    IncDec(ExprId),
    /// `c ? a : b`. A scalar condition evaluates one side only; a vector condition selects.
    Ternary(ExprId, ExprId, ExprId),
    /// `no_diff e`.
    NoDiff(ExprId),
    /// Stands for its operand: parentheses, unary plus, `each`.
    Same(ExprId),
    /// `diffPair(p, d)`, `DifferentialPair<T>(p, d)`; without `d` the differential is `dzero()`.
    MakePair {
        /// The primal.
        primal: ExprId,
        /// The differential.
        differential: Option<ExprId>,
    },
    /// `makeTuple(a, b)` and `Tuple<A, B>(a, b)`.
    MakeTuple(Vec<ExprId>),
    /// `T is U`, of types.
    TypeIs(Ty, Ty),
    /// `each e`: the element of a pack or tuple that the expansion around it is at.
    Each(ExprId),
    /// `expand e`: the values of `e` for each element of the packs in it. `each` denotes them by
    /// [`crate::Subst::element`].
    Expand {
        /// The pattern.
        inner: ExprId,
        /// A pack that has as many elements.
        shape: GenericArg,
    },
    /// `t._0_2`: elements of a tuple as a tuple.
    TupleSwizzle {
        /// The tuple.
        base: ExprId,
        /// Numbers of the elements.
        comps: Vec<u32>,
    },
    /// `e is T`, `e as T`.
    TypeTest {
        /// The value of interface type.
        value: ExprId,
        /// The type asked for.
        ty: Ty,
        /// `as` gives an optional, `is` a bool.
        cast: bool,
    },
}

/// The parts of an aggregate.
#[derive(Clone, Debug)]
pub enum Initializer {
    /// This expression, with its `coerce`.
    Expr(ExprId),
    /// The type's default: zeros, or its fields' initialisers, or its `__init()`.
    Default(Ty),
    /// A struct (fields in order, bases first), array, vector, matrix, tuple or pair of parts.
    Parts(Ty, Vec<Initializer>),
    /// The user's constructor.
    Init(Ty, FuncRef, Vec<Arg>),
}
