//! Side tables over the AST that hold the checker's results, which `lower` reads.
//!
//! [`Tables::exprs`] records the *meaning* of each expression and its type before and after the implicit
//! conversion that its context requires. A generic body is checked once; its tables mention the parameters,
//! for which `lower` substitutes the arguments.

use std::rc::Rc;

use cranelift_entity::SecondaryMap;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use syntax::ast::{BinaryOp, PackPart, SizeOfKind, UnaryOp};
use syntax::{DeclId, ExprId, StmtId};

use crate::paged::PagedMap;
use crate::types::{Args, GenericArg, Ty, Val};
use crate::view::ModuleId;

pub use syntax::ast::DiffOp;

/// The side tables.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Information on each checked expression.
    pub exprs: PagedMap<ExprId, ExprInfo>,
    /// The type of each checked variable, field, parameter, property, alias, enum case.
    pub decl_types: SecondaryMap<DeclId, Option<Ty>>,
    /// The expressions whose values the checked `__intrinsic_asm`s return. The map is never iterated.
    pub intrinsics: FxHashMap<StmtId, ExprId>,
    /// The errors of checked `try`s, and of the values of `throw`s. The map is never iterated.
    pub throws: FxHashMap<ExprId, Thrown>,
    /// Pointers that are other names of local variables: what leads through them has the meaning of the place.
    pub aliases: FxHashSet<DeclId>,
    /// Pointers that lead to one of several places in local variables. The map is never iterated.
    pub chosen: FxHashMap<DeclId, Rc<Chosen>>,
    /// The addresses of these places.
    pub addresses: FxHashSet<ExprId>,
}

impl Tables {
    /// An expression without its parentheses and the like.
    pub fn plain(&self, mut expr: ExprId) -> ExprId {
        while let Meaning::Same(inner) = self.exprs[expr].meaning {
            expr = inner;
        }
        expr
    }
}

/// The places that a class of pointers may lead to. A pointer of the class is the number of one of them, counted from 1,
/// or 0 for none, and the indices of them all, in order.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The places.
    pub places: Vec<ChosenPlace>,
}

/// A place in a local variable whose address is taken.
#[derive(Clone, Debug)]
pub struct ChosenPlace {
    /// `&v.a[i]`
    pub address: ExprId,
    /// `v.a[i]`
    pub of: ExprId,
    /// The indices in it, which are evaluated where the address is taken.
    pub indices: Vec<ExprId>,
}

/// An error that a `throw` or `try` throws.
#[derive(Clone, Copy, Debug)]
pub struct Thrown {
    /// The type of the error.
    pub error: Ty,
    /// The level of the `do` that catches the error and the index of its `catch`; `None` if the error leaves
    /// the function.
    pub target: Option<(u32, u32)>,
}

/// The type and the meaning of an expression.
#[derive(Clone, Debug)]
pub struct ExprInfo {
    /// The type of the expression itself.
    pub ty: Ty,
    /// The type that the context converts the expression to, if it is a different one.
    pub coerce: Option<Ty>,
    /// The meaning of the expression.
    pub meaning: Meaning,
    /// The expression can be assigned to.
    pub lvalue: bool,
}

impl Default for ExprInfo {
    fn default() -> ExprInfo {
        ExprInfo { ty: Ty::ERROR, coerce: None, meaning: Meaning::Error, lvalue: false }
    }
}

impl ExprInfo {
    /// An expression that cannot be assigned to.
    pub fn value(ty: Ty, meaning: Meaning) -> ExprInfo {
        ExprInfo::new(ty, meaning, false)
    }

    /// An expression that can be assigned to.
    pub fn place(ty: Ty, meaning: Meaning) -> ExprInfo {
        ExprInfo::new(ty, meaning, true)
    }

    /// An expression of this type that its context does not convert.
    pub fn new(ty: Ty, meaning: Meaning, lvalue: bool) -> ExprInfo {
        ExprInfo { ty, coerce: None, meaning, lvalue }
    }
}

/// A function with the arguments of its own and all enclosing generic declarations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FuncRef {
    /// A function, constructor (`__init`), accessor, or a requirement of an interface.
    pub decl: DeclId,
    /// Arguments for [`crate::Program::all_generic_params`] of `decl`, outermost first.
    pub args: Args,
    /// For members: the type of which the function is a member, as seen at the reference (`T` for a
    /// requirement called through a parameter). A requirement is resolved to the function that fulfils it
    /// once that is known.
    pub self_ty: Option<Ty>,
}

/// The callee of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Callable {
    /// A function.
    Func(FuncRef),
    /// A derivative operator applied to a function, and the module that requests it.
    Derived(DiffOp, Box<Callable>, ModuleId),
    /// A requirement of `IDifferentiable` that is synthesised for the type.
    Synthesized(SynthesizedMember, Ty),
}

impl Callable {
    /// Applies derivative operators, given outermost first, to a function.
    pub fn of(func: FuncRef, ops: &[DiffOp], asks: ModuleId) -> Callable {
        let wrap = |inner, &op: &DiffOp| Callable::Derived(op, Box::new(inner), asks);
        ops.iter().rev().fold(Callable::Func(func), wrap)
    }

    /// The function inside all derivative operators; `None` for a synthesised one.
    pub fn function(&self) -> Option<&FuncRef> {
        match self {
            Callable::Func(func) => Some(func),
            Callable::Derived(_, inner, _) => inner.function(),
            Callable::Synthesized(..) => None,
        }
    }

    /// The derivative operators, outermost first.
    pub fn operators(&self) -> Vec<DiffOp> {
        let mut ops = Vec::new();
        let mut at = self;
        while let Callable::Derived(op, inner, _) = at {
            ops.push(*op);
            at = inner;
        }
        ops
    }
}

/// Members that the compiler provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names of the language")]
pub enum SynthesizedMember {
    DZero,
    DAdd,
}

impl SynthesizedMember {
    /// The name of the member.
    pub fn name(self) -> &'static str {
        match self {
            SynthesizedMember::DZero => "dzero",
            SynthesizedMember::DAdd => "dadd",
        }
    }
}

/// The argument of a call for one parameter; a call has one per parameter in order (after the receiver).
#[derive(Clone, Debug)]
pub enum Arg {
    /// An explicit argument. For `out` and `inout` it is an l-value of the parameter's type (or its `coerce`
    /// says otherwise).
    Expr(ExprId),
    /// The parameter's default, evaluated at the call (the expression belongs to the callee's declaration and
    /// is read under the callee's generic arguments).
    Default(DeclId),
    /// The arguments of a pack parameter: its elements in order. An expression whose type is a pack
    /// contributes several.
    Pack(Vec<ExprId>),
}

impl Arg {
    /// The explicit expressions of the argument.
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
    /// The expression denotes a type.
    Type(Ty),
    /// The expression denotes a namespace or module.
    Namespace(DeclId),
    /// A literal of the AST (`Int Float Bool String NullPtr None`), of the expression's type.
    Literal,
    /// An integer, float or bool that is known at compile time (`sizeof`, `countof`, enum arithmetic…).
    Const(f64),
    /// A local variable, parameter, or global (also `static const`, uniforms, cbuffer members, static
    /// members).
    Var(DeclId),
    /// A static member of a generic type, or one that an interface requires: like `Var`, but read under the
    /// generic arguments of the reference (and resolved by [`crate::Program::resolve_requirement`] first).
    StaticMember(FuncRef),
    /// A generic value parameter, or arithmetic on such parameters.
    Value(Val),
    /// `sizeof(T)` and the like where the type has parameters: measured when these are known.
    SizeOf(SizeOfKind, Ty),
    /// A case of an enumeration.
    EnumCase(DeclId),
    /// `this`.
    This,
    /// The name of a function: as callee, or as operand of `fwd_diff`. `base` is the receiver of a bound
    /// method.
    Func {
        /// The function.
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
    /// A field of a [`crate::types::TyKind::SynthDiff`], identified by the primal field.
    DiffField {
        /// The differential.
        base: ExprId,
        /// The primal field's declaration.
        field: DeclId,
    },
    /// `.p`/`.v` (`primal`) or `.d` of a pair.
    PairField {
        /// The pair.
        base: ExprId,
        /// The primal half rather than the differential.
        primal: bool,
    },
    /// `._0` of a tuple; `.value` (0) and `.hasValue` (1) of an optional.
    TupleField {
        /// The tuple.
        base: ExprId,
        /// The index of the element.
        idx: u32,
    },
    /// Components of a vector (or of a scalar, as if it were a vector of one). A single component gives a
    /// scalar.
    Swizzle {
        /// The vector.
        base: ExprId,
        /// Indices of the components.
        comps: SmallVec<[u8; 4]>,
    },
    /// `_11`, `_m00` and combinations: rows and columns count from 0.
    MatrixSwizzle {
        /// The matrix.
        base: ExprId,
        /// Row and column of each component.
        comps: SmallVec<[(u8, u8); 4]>,
    },
    /// A property or a `__subscript` of the user's; read by `get`, written by `set` (or both by `ref`).
    Property {
        /// The receiver; `None` for an implicit `this` or a static property.
        base: Option<ExprId>,
        /// The property or subscript, as a member of the type.
        member: FuncRef,
        /// The arguments of the subscript.
        args: Vec<Arg>,
    },
    /// Built-in indexing of an array, vector, matrix, buffer or pointer by an integer.
    Index {
        /// The indexed value.
        base: ExprId,
        /// The index, an integer of any type.
        index: ExprId,
    },
    /// `*p`, and the content of a `ConstantBuffer` or pointer that is used like a value (`p->x`, `cb.x`: then
    /// the `Field` has this node's own base with `coerce` to the content).
    Deref(ExprId),
    /// `&e`, `__getAddress(e)`.
    AddressOf(ExprId),
    /// The place that a pointer in [`Tables::chosen`] leads to.
    Chosen(DeclId),
    /// A call.
    Call {
        /// The callee.
        func: Callable,
        /// The receiver; `None` for free and static functions and for an implicit `this`.
        base: Option<ExprId>,
        /// One argument for each parameter.
        args: Vec<Arg>,
    },
    /// A call of a user's constructor: a new value of the expression's type is made by `__init`.
    Init {
        /// The constructor.
        init: FuncRef,
        /// The arguments of the constructor.
        args: Vec<Arg>,
    },
    /// Built-in construction of a scalar, vector, matrix or array from the components of the arguments in
    /// order (`float3(v.xy, 1)`); a single scalar argument fills all components; a single argument of the
    /// same shape is converted.
    Construct(Vec<ExprId>),
    /// `{…}`, a memberwise `S(a, b)`, and `T()`/`{}`: an initializer for every part of the value.
    Aggregate(Initializer),
    /// `(T)e`, `T(e)` as a conversion of `e` to the expression's type.
    Cast(ExprId),
    /// A built-in operator on numbers; operands are coerced to one type.
    Unary(UnaryOp, ExprId),
    /// A built-in operator on numbers; operands are coerced to one type. `&&` and `||` on scalars
    /// short-circuit. In generic code the operand type may be a parameter: if it turns out to be a user's
    /// type, the operator function of that type is called instead (see [`crate::Program::operator_of`]).
    Binary(BinaryOp, ExprId, ExprId),
    /// `a = b`, `a op= b` with a built-in operator. The right side is coerced (for `op=`: to the operand
    /// type, which is `b`'s coerced type; the result is converted back to `a`'s type).
    Assign {
        /// The operator of `op=`; `None` for `=`.
        op: Option<BinaryOp>,
        /// The assigned place.
        target: ExprId,
        /// The new value, or the right operand of `op=`.
        value: ExprId,
    },
    /// `a op= b` where the operator is a user's function.
    AssignCall {
        /// `operator op`, or `operator op=`.
        func: FuncRef,
        /// The assigned place.
        target: ExprId,
        /// The right operand.
        value: ExprId,
    },
    /// `++e` and the like on numbers: the AST has the operator.
    IncDec(ExprId),
    /// `c ? a : b`. A scalar condition evaluates one side only; a vector condition selects.
    Ternary(ExprId, ExprId, ExprId),
    /// `no_diff e`.
    NoDiff(ExprId),
    /// `try f(x)`: the result of the call, which has run before the statement.
    Try(ExprId),
    /// Means the same as its operand: parentheses, unary plus, `each`.
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
    /// `T is U` between two types.
    TypeIs(Ty, Ty),
    /// `each e`: the current element of the pack or tuple in the surrounding expansion.
    Each(ExprId),
    /// `expand e`: the values of `e` for each element of the packs in it. `each` denotes these elements by
    /// [`crate::Subst::element`].
    Expand {
        /// The pattern.
        inner: ExprId,
        /// A pack with the same number of elements.
        shape: GenericArg,
    },
    /// `__first(e)` and the like: elements of a pack or tuple.
    PackPart(PackPart, ExprId),
    /// `t._0_2`: elements of a tuple as a tuple.
    TupleSwizzle {
        /// The tuple.
        base: ExprId,
        /// Indices of the elements.
        comps: Vec<u32>,
    },
    /// `e is T`, `e as T`.
    TypeTest {
        /// The value of interface type.
        value: ExprId,
        /// The type that the value is tested for.
        ty: Ty,
        /// The operator is `as`, which gives an optional, rather than `is`, which gives a bool.
        cast: bool,
    },
}

impl Meaning {
    /// The value or place of which the expression denotes a part, or the same.
    pub fn base(&self) -> Option<ExprId> {
        match self {
            Meaning::Field { base, .. } | Meaning::Property { base, .. } => *base,
            Meaning::DiffField { base, .. }
            | Meaning::PairField { base, .. }
            | Meaning::TupleField { base, .. }
            | Meaning::Swizzle { base, .. }
            | Meaning::MatrixSwizzle { base, .. }
            | Meaning::TupleSwizzle { base, .. }
            | Meaning::Index { base, .. }
            | Meaning::Same(base)
            | Meaning::Each(base)
            | Meaning::PackPart(_, base)
            | Meaning::Expand { inner: base, .. } => Some(*base),
            _ => None,
        }
    }
}

/// The initial value of an aggregate or of one of its parts.
#[derive(Clone, Debug)]
pub enum Initializer {
    /// An expression, with its `coerce`.
    Expr(ExprId),
    /// The type's default value: zeros, its fields' initialisers, or its `__init()`.
    Default(Ty),
    /// A struct (fields in order, bases first), array, vector, matrix, tuple or pair, given part by part.
    Parts(Ty, Vec<Initializer>),
    /// A call of the user's constructor.
    Init(Ty, FuncRef, Vec<Arg>),
}
