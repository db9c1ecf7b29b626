//! Expressions: a type and a meaning for each.

mod assignment;
mod bit_casts;
mod calls;
mod construct;
pub(crate) mod infer;
mod initializers;
pub(crate) mod lambdas;
pub(crate) mod mismatch;
mod operator_functions;
mod operators;
pub(crate) mod overload;
