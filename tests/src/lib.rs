//! Filetests and random tests of Pullback: see `docs/testing.md`.

pub mod commands;
pub mod file;
pub mod generate;
pub mod literal;
