//! The Rust of the documents: their pages are documentation of this module, so their blocks are doc tests.

#[doc = include_str!("../../README.md")]
struct Readme;

#[doc = include_str!("../../docs/how-to/rust.md")]
struct HowToRust;
