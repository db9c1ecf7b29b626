//! Signatures: the parameters of functions, their directions, and what is differentiable.
//!
//! Differentiability is determined from the *declaration*, before generic arguments are substituted: `T`
//! without an `IDifferentiable` constraint stays non-differentiable even when `T` is `float` at the call.

use syntax::ast::{AccessorKind, Modifiers};
use syntax::{DeclId, ExprId, Span, Symbol, keywords as kw};

use crate::tables::{Arg, FuncRef, SynthesizedMember};
use crate::types::{GenericArg, Ty};

/// How an argument is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the keywords of the language")]
pub enum Direction {
    In,
    Out,
    InOut,
    /// `ref` and `__ref`: the place itself (for atomics).
    Ref,
    /// `__constref`, `borrow`: like `In`.
    ConstRef,
}

impl Direction {
    /// Returns true if the callee writes the argument, which must then be a place.
    pub fn is_written(self) -> bool {
        matches!(self, Direction::Out | Direction::InOut | Direction::Ref)
    }

    /// The modifiers that declare a parameter of this direction.
    pub(crate) fn modifiers(self) -> Modifiers {
        match self {
            Direction::In => Modifiers::default(),
            Direction::Out => Modifiers::OUT,
            Direction::InOut => Modifiers::INOUT,
            Direction::Ref => Modifiers::REF,
            Direction::ConstRef => Modifiers::CONSTREF,
        }
    }

    /// The direction that modifiers declare.
    pub(crate) fn of(modifiers: Modifiers) -> Direction {
        match () {
            () if modifiers.has(Modifiers::INOUT) => Direction::InOut,
            () if modifiers.has(Modifiers::IN) && modifiers.has(Modifiers::OUT) => Direction::InOut,
            () if modifiers.has(Modifiers::OUT) => Direction::Out,
            () if modifiers.has(Modifiers::REF) => Direction::Ref,
            () if modifiers.has(Modifiers::CONSTREF) => Direction::ConstRef,
            () => Direction::In,
        }
    }
}

/// The tangent of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tangent {
    /// There is none.
    #[default]
    None,
    /// A value of the differential.
    Value,
    /// The tangent of an `IDifferentiablePtrType`, with which the place forms a `DifferentialPtrPair`.
    Pointer,
}

/// One parameter, or the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamSig {
    /// The declaration. Derived parameters keep the original's declaration; receivers and cotangents of results
    /// have none.
    pub decl: Option<DeclId>,
    /// Its type.
    pub ty: Ty,
    /// Its direction; `inout` for a receiver that is changed (`[mutating]`, setters, constructors).
    pub dir: Direction,
    /// The parameter is declared `no_diff`.
    pub no_diff: bool,
    /// The tangent: there is one if the declared type is differentiable and the parameter is not `no_diff`.
    pub tangent: Tangent,
}

impl ParamSig {
    /// A parameter without a declaration.
    pub(crate) fn made(ty: Ty, dir: Direction, tangent: Tangent) -> ParamSig {
        ParamSig { decl: None, ty, dir, no_diff: tangent == Tangent::None, tangent }
    }

    /// Returns true if the parameter has a tangent.
    pub fn has_tangent(&self) -> bool {
        self.tangent != Tangent::None
    }

    /// Derivatives take and return a differential of the parameter.
    pub(crate) fn has_differential(&self) -> bool {
        self.tangent == Tangent::Value
    }
}

/// The signature of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The parameters in order, after the receiver.
    pub params: Vec<ParamSig>,
    /// The result's type.
    pub ret: Ty,
    /// The result's tangent.
    pub ret_tangent: Tangent,
    /// The receiver of members that are not static.
    pub this: Option<ParamSig>,
}

impl Signature {
    /// Returns true if the result has a differential.
    pub fn returns_differential(&self) -> bool {
        self.ret_tangent == Tangent::Value
    }

    /// Returns true for a method that changes its object.
    pub fn is_mutating(&self) -> bool {
        self.this.as_ref().is_some_and(|this| this.dir.is_written())
    }

    /// Returns true for a method whose object has a tangent.
    pub fn has_differentiable_this(&self) -> bool {
        self.this.as_ref().is_some_and(ParamSig::has_tangent)
    }

    /// Returns true if another function has the same parameters.
    pub(crate) fn takes_the_same(&self, other: &Signature) -> bool {
        let params = |s: &Signature| s.params.iter().map(|p| (p.ty, p.dir)).collect::<Vec<_>>();
        params(self) == params(other)
    }

    /// The receiver and the parameters.
    pub(crate) fn inputs(&self) -> Vec<ParamSig> {
        let this = self.this.iter().map(|this| ParamSig { no_diff: !this.has_tangent(), ..this.clone() });
        this.chain(self.params.iter().cloned()).collect()
    }
}

/// A substitution for generic parameters and for `This`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subst {
    /// Pairs of parameter and argument. The list is short and is searched from the end.
    pub map: Vec<(DeclId, GenericArg)>,
    /// The conforming type, within an interface's default implementation.
    pub this: Option<Ty>,
    /// The index of the element that `each` denotes.
    pub element: Option<usize>,
}

impl Subst {
    /// The argument of a parameter.
    pub fn get(&self, param: DeclId) -> Option<&GenericArg> {
        self.map.iter().rev().find(|m| m.0 == param).map(|m| &m.1)
    }

    /// Returns true if the substitution replaces nothing.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty() && self.this.is_none() && self.element.is_none()
    }
}

/// The implementation that fulfils a requirement of an interface for a known type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// A function (a member of the type, of an extension, or the interface's default with `self_ty` as
    /// `This`).
    Func(FuncRef),
    /// The compiler's `dzero` or `dadd` for the type.
    Synthesized(SynthesizedMember, Ty),
    /// An operation of a built-in type, by the requirement's name.
    Builtin(String),
    /// Unknown because the type is not known, or already diagnosed.
    Unresolved,
}

impl Resolved {
    /// The function, if there is one.
    pub(crate) fn func(self) -> Option<FuncRef> {
        match self {
            Resolved::Func(func) => Some(func),
            Resolved::Synthesized(..) | Resolved::Builtin(_) | Resolved::Unresolved => None,
        }
    }
}

/// The degree to which a function's attributes make it differentiable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Not differentiable.
    #[default]
    None,
    /// `[ForwardDifferentiable]`
    Forward,
    /// `[Differentiable]`, `[BackwardDifferentiable]`
    Backward,
}

/// The sources of a function's derivatives. A member's derivative is either static, with the receiver (or its
/// pair) as explicit first parameter, or a member of the same type that uses `this` without tangent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Derivatives {
    /// The user's forward derivative.
    pub fwd: Option<FuncRef>,
    /// The user's backward derivative.
    pub bwd: Option<FuncRef>,
    /// The user's primal for reverse mode and the backward derivative that takes its context.
    pub apply: Option<Applied>,
    /// The function that derivative code calls instead.
    pub substitute: Option<FuncRef>,
    /// `[TreatAsDifferentiable]`: derivatives are zero.
    pub treat_as_differentiable: bool,
    /// The level given by the function's attributes.
    pub level: Level,
    /// The spans at which the derivatives are declared as this function's.
    pub spans: DerivativeSpans,
    /// The roles for which two modules have a derivative and neither module is nearer, with the spans of
    /// both.
    pub ambiguous: Vec<(Role, Span, Span)>,
}

/// The role of a derivative function for its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Computes the tangents.
    Forward,
    /// Computes the cotangents.
    Backward,
    /// Replaces the function in derivative code.
    Substitute,
    /// Computes the value and a context for the backward derivative.
    Apply,
}

impl Role {
    /// The role in which an attribute names the function that a derivative belongs to.
    pub(crate) fn of(attribute: Symbol) -> Option<Role> {
        match attribute {
            kw::FORWARD_DERIVATIVE_OF => Some(Role::Forward),
            kw::BACKWARD_DERIVATIVE_OF => Some(Role::Backward),
            kw::PRIMAL_SUBSTITUTE_OF => Some(Role::Substitute),
            _ => None,
        }
    }
}

impl Derivatives {
    /// The role of the derivative that a mode uses; `None` if the mode differentiates the body.
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

    /// The user's derivative of this role, and the span at which it names its target.
    pub(crate) fn of_role(&self, role: Role) -> Option<(&FuncRef, Span)> {
        let (func, span) = match role {
            Role::Forward => (self.fwd.as_ref(), self.spans.fwd),
            Role::Backward => (self.bwd.as_ref(), self.spans.bwd),
            Role::Substitute => (self.substitute.as_ref(), self.spans.substitute),
            Role::Apply => (self.apply.as_ref().map(|applied| &applied.apply), self.spans.apply),
        };
        func.zip(span)
    }

    /// The spans of two derivatives for a mode of which neither is nearer.
    pub fn ambiguity(&self, backward: bool) -> Option<(Span, Span)> {
        let role = self.role(backward)?;
        self.ambiguous.iter().find(|a| a.0 == role).map(|a| (a.1, a.2))
    }
}

/// The spans at which the derivatives in [`Derivatives`] name their target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as the fields of `Derivatives`")]
pub struct DerivativeSpans {
    pub fwd: Option<Span>,
    pub bwd: Option<Span>,
    pub apply: Option<Span>,
    pub substitute: Option<Span>,
}

/// An `__apply` extension, `(params) -> (result, context)`, and the call operator of the context.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Applied {
    /// The extension. Its receiver is the function's receiver.
    pub apply: FuncRef,
    /// `operator()` of the context.
    pub propagate: FuncRef,
}

/// The location of a field's differential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffFieldTarget {
    /// The field of the same declaration in the type itself, which is its own differential.
    Same(DeclId),
    /// The field of the same name in the synthesised differential, identified by the primal field.
    Synth(DeclId),
    /// A field of a struct that the user wrote.
    Member(DeclId),
}

/// The accessors of a property or a subscript, which the language calls implicitly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accessors {
    /// Reads the value.
    pub get: Option<FuncRef>,
    /// Writes the value.
    pub set: Option<FuncRef>,
    /// Returns the place.
    pub by_ref: Option<FuncRef>,
}

impl Accessors {
    /// The accessor of this kind.
    pub fn of(&self, kind: AccessorKind) -> Option<&FuncRef> {
        match kind {
            AccessorKind::Get => self.get.as_ref(),
            AccessorKind::Set => self.set.as_ref(),
            AccessorKind::Ref => self.by_ref.as_ref(),
        }
    }
}

/// The built-in construction of a value without arguments (see [`crate::Program::default_of`]).
pub type DefaultArgs = Vec<Arg>;

/// The operands of an operator that a user's function implements.
pub type Operands = (ExprId, Option<ExprId>);
