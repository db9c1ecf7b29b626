//! Tests of the command line that need code: programs that are generated, results that are computed, and commands in
//! all combinations. The other tests of the command line are documents.

mod bad_input;
mod bench;
mod common;
#[cfg(feature = "llvm")]
mod examples;
mod memory;
mod needs;
mod robustness;
mod wording;
