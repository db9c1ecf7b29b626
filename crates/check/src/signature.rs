//! What a function looks like from outside: parameters, directions, what is differentiable.
//!
//! Differentiability is read off the *declaration*, before generic arguments are put in: `T` without an
//! `IDifferentiable` constraint stays plain even when `T` is `float` at the call.

use syntax::{DeclId, ExprId, Span};

use crate::tables::{Arg, FuncRef, SynthesizedMember};
use crate::types::{GenericArg, Ty};

/// How an argument is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the keywords of the language")]
pub enum Direction {
    In,
    Out,
    InOut,
    /// `ref` and `__ref`: the place itself (atomics).
    Ref,
    /// `__constref`, `borrow`: like `In`.
    ConstRef,
}

impl Direction {
    /// Whether the callee writes it (the argument must be a place).
    pub fn is_written(self) -> bool {
        matches!(self, Direction::Out | Direction::InOut | Direction::Ref)
    }
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamSig {
    /// Its declaration; derived parameters keep that of the original, results' cotangents have none.
    pub decl: Option<DeclId>,
    /// Its type.
    pub ty: Ty,
    /// Its direction.
    pub dir: Direction,
    /// Declared `no_diff`.
    pub no_diff: bool,
    /// It has a tangent: its declared type is differentiable and it is not `no_diff`.
    pub differentiable: bool,
    /// The pair that `fwd_diff`/`bwd_diff` makes of it is a `DifferentialPtrPair`.
    pub pointer_like: bool,
}

/// The receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThisSig {
    /// The type of `this`.
    pub ty: Ty,
    /// Passed as `inout` (`[mutating]`, setters, constructors).
    pub mutating: bool,
    /// It has a tangent.
    pub differentiable: bool,
    /// It is of an `IDifferentiablePtrType`.
    pub pointer_like: bool,
}

/// A function from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// In order, after the receiver.
    pub params: Vec<ParamSig>,
    /// The result's type.
    pub ret: Ty,
    /// The result has a tangent.
    pub ret_differentiable: bool,
    /// The result is of an `IDifferentiablePtrType`: `fwd_diff` gives a `DifferentialPtrPair`.
    pub ret_pointer_like: bool,
    /// For members that are not static.
    pub this: Option<ThisSig>,
}

/// Replacement of generic parameters, and of `This`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subst {
    /// Parameter and argument; short, searched from the end.
    pub map: Vec<(DeclId, GenericArg)>,
    /// The type that conforms, within an interface's default implementation.
    pub this: Option<Ty>,
    /// The number of the element that `each` denotes.
    pub element: Option<usize>,
}

impl Subst {
    /// The argument of a parameter.
    pub fn get(&self, param: DeclId) -> Option<&GenericArg> {
        self.map.iter().rev().find(|m| m.0 == param).map(|m| &m.1)
    }

    /// Replaces nothing.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty() && self.this.is_none() && self.element.is_none()
    }
}

/// What fulfils a requirement of an interface for a known type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// This function (a member of the type, of an extension, or the interface's default with `self_ty` as `This`).
    Func(FuncRef),
    /// The compiler's `dzero` or `dadd` of the type.
    Synthesized(SynthesizedMember, Ty),
    /// A built-in type's own operation, by the requirement's name.
    Builtin(String),
    /// Not known (the type is not known) or already diagnosed.
    Unresolved,
}

/// How far a function is differentiable by its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Not.
    #[default]
    None,
    /// `[ForwardDifferentiable]`
    Forward,
    /// `[Differentiable]`, `[BackwardDifferentiable]`
    Backward,
}

/// Where a function's derivatives come from. A member's derivative is either static, with the receiver (or its pair)
/// as explicit first parameter, or a member of the same type that uses `this` without tangent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Derivatives {
    /// The user's forward derivative.
    pub fwd: Option<FuncRef>,
    /// The user's backward derivative.
    pub bwd: Option<FuncRef>,
    /// The user's primal for reverse mode and the backward derivative that takes its context.
    pub apply: Option<Applied>,
    /// Called in its place in derivative code.
    pub substitute: Option<FuncRef>,
    /// `[TreatAsDifferentiable]`: derivatives are zero.
    pub treat_as_differentiable: bool,
    /// By its attributes.
    pub level: Level,
    /// Where each of them says whose it is.
    pub spans: DerivativeSpans,
    /// Where two modules have one, and neither is nearer.
    pub ambiguous: Vec<(Role, Span, Span)>,
}

/// What a derivative function is to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It gives the tangents.
    Forward,
    /// It gives the cotangents.
    Backward,
    /// It stands in the function's place.
    Substitute,
    /// It gives the value and a context for the backward derivative.
    Apply,
}

impl Derivatives {
    /// Which of them a mode uses; `None` if it has the derivative of the body.
    pub fn role(&self, backward: bool) -> Option<Role> {
        let by_body = self.level == Level::Backward;
        match () {
            () if backward && self.bwd.is_some() => Some(Role::Backward),
            () if backward && self.apply.is_some() => Some(Role::Apply),
            () if self.fwd.is_some() && !(backward && by_body) => Some(Role::Forward),
            () if self.substitute.is_some() => Some(Role::Substitute),
            () => None,
        }
    }

    /// The two derivatives of which neither is nearer, in a mode.
    pub fn ambiguity(&self, backward: bool) -> Option<(Span, Span)> {
        let role = self.role(backward)?;
        self.ambiguous.iter().find(|a| a.0 == role).map(|a| (a.1, a.2))
    }
}

/// Where [`Derivatives`] say whose they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as the fields of `Derivatives`")]
pub struct DerivativeSpans {
    pub fwd: Option<Span>,
    pub bwd: Option<Span>,
    pub apply: Option<Span>,
    pub substitute: Option<Span>,
}

/// An `__apply` extension: `(params) -> (result, context)`, and the call operator of the context.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Applied {
    /// The extension; its receiver is that of the function.
    pub apply: FuncRef,
    /// `operator()` of the context.
    pub propagate: FuncRef,
}

/// Where the differential of a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffFieldTarget {
    /// The field of the same declaration in the type itself (it is its own differential).
    Same(DeclId),
    /// The field of the same name in the synthesised differential, by the primal field.
    Synth(DeclId),
    /// A field of a struct that the user wrote.
    Member(DeclId),
}

/// A call that the language makes where nothing is written: the accessors of a property or a subscript.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accessors {
    /// Reads.
    pub get: Option<FuncRef>,
    /// Writes.
    pub set: Option<FuncRef>,
    /// Gives the place.
    pub by_ref: Option<FuncRef>,
}

/// The built-in construction of a value without arguments (see [`crate::Program::default_of`]).
pub type DefaultArgs = Vec<Arg>;

/// The operands of an operator that a user's function implements.
pub type Operands = (ExprId, Option<ExprId>);
