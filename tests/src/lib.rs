//! Filetests and random tests of Pullback: see `docs/testing.md`.

#![forbid(unsafe_code)]

pub mod arena;
pub mod commands;
#[cfg(doctest)]
mod documents;
pub mod file;
pub mod floor;
pub mod generate;
#[cfg(feature = "llvm")]
pub mod library;
pub mod literal;
#[cfg(feature = "cuda")]
pub mod ptx;

/// A number from an environment variable.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
