//! Generics and interfaces: the arguments of generic declarations, the constraints on them, and what
//! conforms to an interface.

pub(crate) mod conformance;
pub(crate) mod constraints;
mod existentials;
mod fulfilment;
mod inference;
mod requirements;
pub(crate) mod substitution;
