//! Turns the AST into a checked program: the same AST plus side tables.
//!
//! Checking never fails: it produces tables and diagnostics. It works on demand: declarations are resolved
//! when they are named, bodies are checked when they are requested.
//!
//! [`Program`] owns the trees and everything known about them; its methods are the queries that later stages
//! make. The folders are layers, each in terms of those above it:
//!
//! - `names`: scopes, modules, paths of names, suggestions;
//! - [`types`]: types, built-in types, type expressions, constants, conversions and their costs;
//! - `generics`: substitution, inference of generic arguments, constraints, conformance, requirements;
//! - `exprs`: a type and a meaning for each expression, calls and overload resolution;
//! - `stmts`: the bodies of functions;
//! - `derivatives`: differentials, signatures of derivatives, which derivative of a function applies;
//! - `flow`: dataflow over checked bodies: derivatives that are lost, variables that are not assigned, code that
//!   cannot be reached;
//! - `rules`: what declarations have to follow, whatever uses them;
//! - `lints`: what a declaration says that its author hardly means.
//!
//! `prelude` has the names that nearly all of them use.
#![forbid(unsafe_code)]

mod declarations;
mod derivatives;
mod exprs;
mod facts;
mod flow;
mod generics;
mod lints;
mod made;
mod names;
mod paged;
pub mod program;
mod queries;
mod rules;
pub mod signature;
mod stmts;
pub mod tables;
#[cfg(test)]
mod tests;
pub mod types;
mod view;

pub use derivatives::listing::{How, Witnessed};
pub use derivatives::pullback::HalfOf;
pub use facts::Extent;
pub use names::modules::{ModuleLoader, NoModules};
pub use paged::PagedMap;
pub use program::Program;
pub use signature::{
    Accessors, Applied, Derivatives, DiffFieldTarget, Direction, Level, ParamSig, Resolved, Role, Signature,
    Subst, Tangent,
};
pub use types::expressions::MAX_COOP_VEC;
pub use view::{ModuleId, View};
