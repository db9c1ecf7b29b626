//! Threads of a dispatch, and the memory through which they have to do with each other.
//!
//! - [`conflict`]: may threads that run side by side in lanes give other results than one after the other?
//!
//! # Lanes
//!
//! In lanes, an instruction is executed for all lanes before the next one is; one after the other, a thread runs to its
//! end, or to a barrier, before the next one begins. Both give the same unless some lane `i` accesses a place later than
//! lane `j > i` does in lanes (by a later instruction, or by the same one in a later trip of a loop) and one of the two
//! writes. For each such pair of instructions it is shown that their addresses differ (`form`), that a barrier is
//! between them, or that both run in one and the same lane; else there is a conflict. One instruction writes in the order of the lanes, so a
//! store that no other access meets needs nothing. Atomic operations are in no order among each other.
//!
//! Memory that different globals and pointers are bound to does not overlap.

mod access;
mod form;
mod shared;
mod walk;

pub use shared::{SharedWrite, shared_writes};

use crate::function::{Func, Span};
use crate::module::Module;

/// How threads of groups of a size are dealt out to lanes.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// How many there are.
    pub count: u32,
    /// Threads of a group.
    pub group_size: [u32; 3],
    /// Lanes differ in x only: the group is one row, or its rows are multiples of the lanes.
    pub rows: bool,
    /// Lanes may be of different groups.
    pub packed: bool,
}

/// An access that another one of another thread may meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The name of the memory that is accessed.
    pub what: String,
    /// Where.
    pub span: Span,
}

/// The first conflict of an entry point's threads in lanes. The module is after differentiation, the function does not call itself.
pub fn conflict(module: &Module, entry: Func, lanes: Lanes) -> Option<Conflict> {
    let accesses = match walk::accesses(module, entry, lanes) {
        Ok(accesses) => accesses,
        Err(conflict) => return Some(conflict),
    };
    accesses.conflict(module, lanes.count)
}
