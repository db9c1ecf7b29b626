//! Functions on a host's arrays: mapped over leading dimensions, by broadcasting, without copies.
//!
//! A [`Program`] is a file; a [`Function`] of it is called with an [`Array`] for each leaf of its parameters. The
//! dimensions of an array that its leaf does not have are those of the call: the function runs once for each place in
//! them, and one that an array lacks, or has once, is the same everywhere, as in NumPy. [`Function::derive`] gives derived
//! functions, which are functions again: so there are derivatives to any order.
//!
//! A [`Kernel`] is an entry point as it is: arrays and values are bound to its memory by name.
//!
//! Every function with its derivatives is compiled once. For each way in which arrays lie (which dimensions are there,
//! whether numbers are dense), there is a kernel around it, which reads and writes the arrays where they are
//! ([`mapping`], `kernel`).

mod array;
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
mod written;

pub use array::{Array, extent};
pub use driver::around::Wanted;
pub use driver::bind::{BindValue, Conformance};
pub use driver::derive::Derivative;
pub use driver::launch::{Foreign, llvm_found_at};
pub use error::{Error, Report};
pub use function::{Function, Leaf, Parameter};
pub use inspect::{Check, Library, Number};
pub use ir::Scalar;
pub use launch::{Argument, Kernel, Place, Role};
pub use lower::Step;
pub use program::{Options, Program};
