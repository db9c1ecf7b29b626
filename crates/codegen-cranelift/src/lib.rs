//! Compiles IR to machine code in memory, with Cranelift, for one thread at a time (`emit`) and for lanes
//! (`threads`, [`lanes`]).
//!
//! [`compile`] compiles a module's entry points and the functions that the host asked for; the crate `native`
//! runs the code and defines how it is entered. Both use the scalar functions of `ir::scalar` where the
//! machine has no exact instruction.
//!
//! Without the feature `jit` there is only what emits code for lanes: `codegen-wasm` makes WebAssembly of that.

mod common;
#[cfg(feature = "jit")]
mod compile;
mod cost;
#[cfg(feature = "jit")]
mod emit;
#[cfg(feature = "jit")]
mod jit;
pub mod lanes;
#[cfg(feature = "jit")]
mod locate;
#[cfg(feature = "jit")]
mod moves;
#[cfg(feature = "jit")]
mod spill;
#[cfg(feature = "jit")]
mod threads;
#[cfg(feature = "jit")]
mod types;

pub use cranelift_codegen::VERSION;
#[cfg(feature = "jit")]
pub use jit::{clif_text, compile};
#[cfg(feature = "jit")]
pub use threads::MOST_LANES;

/// The backend's name in diagnostics.
const NAME: &str = "cranelift";
