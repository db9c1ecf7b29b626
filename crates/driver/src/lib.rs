//! The compiler as a library: `text → program → IR → derivatives → machine code → numbers`.
//!
//! The only crate that reads files and the only one that turns diagnostics into text. It holds no
//! global state; a [`Session`](session::Session) owns the sources.
#![forbid(unsafe_code)]

pub mod bind;
pub mod error;
pub mod npy;
pub mod output;
pub mod render;

pub use error::Error;
