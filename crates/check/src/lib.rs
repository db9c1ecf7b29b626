//! Turns the AST into a checked program: the same AST plus side tables.
//!
//! Checking never fails: it produces tables and diagnostics. It works on demand: declarations are resolved
//! when they are named, bodies are checked when they are requested.
//!
//! [`Program`] owns the trees and everything known about them; its methods are the queries that later stages
//! make.
#![forbid(unsafe_code)]

pub mod api;
mod apply;
mod assign;
mod bit_casts;
pub mod budget;
mod call;
mod conform;
mod constant;
mod constraints;
mod construct;
mod conversion;
mod cut;
mod declarations;
mod deduce;
mod deriv_methods;
mod derivatives;
mod differential;
mod doubt;
mod exceptions;
mod fit;
mod flow;
mod flow_lost;
mod flow_places;
mod flow_statements;
mod flow_values;
mod fulfil;
mod infer;
mod initialise;
mod interfaces;
mod lambda;
mod listing;
mod locals;
mod lookup;
mod mismatch;
mod misplaced;
mod native;
mod operators;
mod overload;
mod pack;
mod path;
mod pipelines;
pub mod program;
mod pullback;
mod requirements;
pub mod signature;
mod sigs;
mod statements;
mod subst;
mod suggest;
pub mod tables;
mod target;
#[cfg(test)]
mod tests;
mod type_expr;
pub mod types;
mod unset;
mod user_operators;
mod views;
mod visible;

pub use api::{ModuleLoader, NoModules};
pub use listing::{How, Witnessed};
pub use program::Program;
pub use pullback::HalfOf;
pub use signature::{
    Accessors, Applied, Derivatives, DiffFieldTarget, Direction, Level, ParamSig, Resolved, Role, Signature,
    Subst, ThisSig,
};
pub use type_expr::MAX_COOP_VEC;
pub use views::{ModuleId, View};
