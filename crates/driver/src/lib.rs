//! The compiler as a library: `text → program → IR → derivatives → machine code → numbers`.
//!
//! This is the only crate that reads files and the only one that turns diagnostics into text. It holds no
//! global state; a [`Session`](session::Session) owns the sources.
#![forbid(unsafe_code)]

pub mod around;
pub mod arrays;
mod behind;
pub mod bench;
pub mod bind;
#[cfg(feature = "llvm")]
pub mod build;
pub mod cache;
pub mod call;
pub mod checkpoints;
#[cfg(any(feature = "llvm", feature = "wasm"))]
mod chosen;
pub mod derive;
pub mod device;
pub mod dump;
pub mod error;
pub mod files;
mod findings;
pub mod fit;
mod follow_up;
pub mod format;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod gradcheck;
pub mod inputs;
pub mod launch;
mod literate;
pub mod module;
pub mod npy;
pub mod oracle;
pub mod output;
pub mod packed;
pub mod pictures;
pub mod pipeline;
pub mod precision;
pub mod profile;
pub mod ranges;
pub mod recurrence;
pub mod render;
pub mod ruletest;
pub mod session;
pub mod source;
pub mod sparse;
pub mod standard;
pub mod tensor;
pub mod texture;
pub mod validate;
pub mod verify;
#[cfg(feature = "wasm")]
pub mod wasm;
pub mod watch;
pub mod widen;
pub mod witnesses;
pub mod wrap;

pub use error::Error;
pub use lower::{Request, Step};
pub use pipeline::on_large_stack;
