//! The compiler as a library: `text → program → IR → derivatives → machine code → numbers`.
//!
//! The only crate that reads files and the only one that turns diagnostics into text. It holds no
//! global state; a [`Session`](session::Session) owns the sources.
#![forbid(unsafe_code)]

pub mod session;
pub mod pipeline;
pub mod widen;
pub mod dump;
pub mod bind;
pub mod launch;
pub mod output;
pub mod call;
pub mod gradcheck;
pub mod fit;
pub mod render;
pub mod npy;
pub mod error;

pub use error::Error;
pub use lower::Request;
pub use pipeline::on_large_stack;
