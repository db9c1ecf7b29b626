//! The names that nearly every file of the checker uses, imported by all of them at once: nodes of the tree,
//! types, signatures and tables.

pub(crate) use rustc_hash::{FxHashMap, FxHashSet};
pub(crate) use smallvec::SmallVec;
pub(crate) use std::rc::Rc;
pub(crate) use syntax::ast::{
    AccessorKind, Attribute, BinaryOp, Case, DeclKind, Expr, ExprKind, Modifiers, SizeOfKind, Stmt, StmtKind,
    UnaryOp,
};
pub(crate) use syntax::keywords as kw;
pub(crate) use syntax::{DeclId, Diagnostic, ExprId, Message, Span, StmtId, Symbol};

pub(crate) use crate::derivatives::precedence::{ModuleId, View};
pub(crate) use crate::exprs::infer::Checker;
pub(crate) use crate::exprs::mismatch::Failure;
pub(crate) use crate::exprs::overload::{Argument, Chosen};
pub(crate) use crate::flow::{Flow, Key, Mark, Places, Purpose};
pub(crate) use crate::generics::conformance::{Facet, FacetKind};
pub(crate) use crate::names::enter::{Names, last_name};
pub(crate) use crate::names::lookup::{Base, Candidate, Ref};
pub(crate) use crate::program::Program;
pub(crate) use crate::signature::{
    Accessors, Applied, Derivatives, DiffFieldTarget, Direction, Level, ParamSig, Resolved, Role, Signature,
    Subst, Tangent,
};
pub(crate) use crate::tables::{
    Arg, Callable, DiffOp, ExprInfo, FuncRef, Initializer, Meaning, SynthesizedMember,
};
pub(crate) use crate::types::builtin::{Magic, NativeGeneric};
pub(crate) use crate::types::conversion::Source;
pub(crate) use crate::types::follow_up::text;
pub(crate) use crate::types::{Args, GenericArg, Order, Scalar, Ty, TyKind, Val};
