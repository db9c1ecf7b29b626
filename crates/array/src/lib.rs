//! Calls functions on a host's arrays: maps them over leading dimensions, with broadcasting and without
//! copies.
//!
//! A [`Program`] is a file; a [`Function`] of it is called with an [`Array`] for each leaf of its parameters.
//! The dimensions of an array beyond those of its leaf are the dimensions of the call: the function runs once
//! for each index into these dimensions, and a dimension that an array lacks, or that has length one, is
//! broadcast, as in NumPy. [`Function::derive`] returns derived functions, which are functions again;
//! derivatives of any order are therefore available.
//!
//! A [`Kernel`] is an entry point in its original form: arrays and values are bound to its memory by name.
//!
//! Every function with its derivatives is compiled once. For each kind of array layout (which dimensions are
//! present, whether numbers are contiguous), a kernel is built around it that reads and writes the arrays in
//! place ([`mapping`], `kernel`).

mod array;
mod declarations;
mod error;
mod function;
mod host;
mod inspect;
mod interface;
mod kernel;
mod launch;
pub mod mapping;
mod program;
pub mod reflect;
mod sparse;
mod written;

pub use array::{Array, extent};
pub use driver::around::Wanted;
pub use driver::bind::{BindValue, Conformance};
pub use driver::derive::Derivative;
pub use driver::launch::{Foreign, llvm_found_at};
pub use driver::sparse::Csr;
pub use driver::sparse::symmetric::Recovery;
pub use error::{Error, Report};
pub use function::{Function, Leaf, Parameter};
pub use inspect::{Check, Library, Number};
pub use ir::Scalar;
pub use launch::{Argument, Kernel, Place, Role};
pub use lower::Step;
pub use program::{Options, Program};
pub use sparse::Order;
