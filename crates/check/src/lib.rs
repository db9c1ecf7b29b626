//! AST to checked program: the same AST plus side tables.
//!
//! Checking never fails: it gives tables and diagnostics. It works on demand: declarations are
//! resolved when they are named, bodies are checked when they are asked for.
#![forbid(unsafe_code)]

pub mod api;
pub mod program;
pub mod signature;
pub mod tables;
pub mod types;

pub use api::{ModuleLoader, NoModules};
pub use program::Program;
pub use signature::{
    Accessors, Derivatives, DiffFieldTarget, Direction, Level, ParamSig, Resolved, Signature, Subst, ThisSig,
};
