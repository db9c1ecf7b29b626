//! Compiles and runs differentiable kernels from Rust.
//!
//! A program is text in the [Slang](https://shader-slang.org) language. Its functions can be called, and differentiated by
//! name; its kernels run on buffers that stay. Either a gradient is correct, or there is a [`Diagnostic`] that points to a
//! line of the program.
//!
//! # The first gradient
//!
//! ```
//! # fn main() -> Result<(), pullback::Failure> {
//! let module = pullback::Compiler::new().text("decay.slang", "
//!     [Differentiable] float decay(float a, float rate, no_diff float time)
//!     {
//!         return a * exp(-rate * time);
//!     }")?;
//! let decay = module.function("decay")?;
//! let gradient = decay.grad([("a", 2.0), ("rate", 0.5), ("time", 3.0)])?;
//! println!("{} changes by {} with the rate", gradient.value(), gradient.number("rate")?);
//! # assert!((gradient.number("rate")? + 6.0 * (-1.5f64).exp()).abs() < 1e-6);
//! # Ok(())
//! # }
//! ```
//!
//! # What there is
//!
//! | | |
//! | --- | --- |
//! | [`Compiler`] | options: backend, definitions, folders, texts that are imported, threads, limits |
//! | [`Module`] | a program: its functions, entry points, files and diagnostics |
//! | [`Function`] | [calls](Function::call), [gradients](Function::grad), products with the [Jacobian](Function::jvp) and its [transpose](Function::vjp), second derivatives, [sparse](Function::sparse_jacobian) matrices of derivatives, [checks](Function::gradcheck) by differences |
//! | [`Kernels`] | kernels with their memory: [typed buffers](Kernels::buffer), [JSON](Kernels::write_value), [textures](Kernels::write_shaped), dispatches |
//! | [`HostType`] | Rust structs whose layout is that of the program's |
//! | [`Failure`] | what went wrong, as an error with the lines of the program, and as data |
//!
//! # Backends
//!
//! [`Backend::Fastest`], the default, is Cranelift, and LLVM for what runs long if the feature `llvm` (which is on) is built
//! in and LLVM 19 to 22 is on the machine. There are also the reference [interpreter](Backend::Interpreter), graphics
//! processors (feature `wgpu`) and NVIDIA's devices (feature `cuda`).
//!
//! # Threads and asynchronous programs
//!
//! [`Module`] and [`Function`] are `Send`, `Sync` and cheap to clone, and functions can be called from several threads at
//! the same time. [`Kernels`] are `Send`. Everything that compiles or runs blocks its thread, so asynchronous programs call
//! it where blocking is allowed (`spawn_blocking` of tokio); a [`StopHandle`] ends a dispatch that is no longer wanted.
//!
//! # Errors
//!
//! Nothing here panics: a wrong name, type, length or program is a [`Failure`], and so is a mistake of the compiler itself.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// The derived code names this crate, also where it is used in this crate.
extern crate self as pullback;

mod checked;
mod compiler;
mod failure;
mod function;
mod json;
mod kernels;
mod layout;
mod memory;
mod module;
mod numbers;

pub use bytemuck;
pub use compiler::{Backend, Compiler};
pub use driver::sparse::symmetric::Recovery;
pub use failure::{Diagnostic, Failure, FailureKind, Place, Severity};
pub use function::{
    Function, Gradcheck, GradcheckEntry, GradcheckOptions, Gradient, Jacobian, ParameterInfo, SparseJacobian,
    Verdict,
};
pub use half::f16;
pub use kernels::{BindingInfo, BindingKind, Buffer, Dispatched, Kernel, Kernels, StopHandle};
pub use layout::{Field, HostType, Layout, Scalar};
pub use memory::{Memory, Number};
pub use module::{FunctionInfo, Module};
pub use numbers::{Arguments, Numbers, Value};
pub use pullback_derive::HostType;
pub use serde_json;
