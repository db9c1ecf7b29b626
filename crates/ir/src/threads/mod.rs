//! Analyses how the threads of a dispatch interact through shared memory.
//!
//! - [`conflict`]: may threads that run side by side in lanes give different results than threads that run
//!   one after the other?
//!
//! # Lanes
//!
//! In lanes, each instruction is executed for all lanes before the next instruction is; one after the other,
//! a thread runs to its end, or to a barrier, before the next thread begins. Both orders give the same
//! results unless lane `i` accesses a place after lane `j > i` does in lanes (by a later instruction, or by
//! the same instruction in a later trip of a loop) and one of the two accesses writes. For each such pair of
//! instructions the analysis shows that their addresses differ (`form`), that a barrier separates them, or
//! that both run in the same lane; otherwise it reports a conflict. A single instruction writes in the order
//! of the lanes, so a store whose place no other access touches needs no proof. Atomic operations are
//! unordered among each other.
//!
//! Memory that different globals and pointers are bound to does not overlap.

mod access;
mod form;
mod shared;
mod walk;

pub use shared::{SharedWrite, shared_writes};

use crate::entities::Func;
use crate::function::Span;
use crate::module::Module;

/// How the threads of groups of a given size are assigned to lanes.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// The number of lanes.
    pub count: u32,
    /// The number of threads of a group along each axis.
    pub group_size: [u32; 3],
    /// Lanes differ in x only: the group is one row, or the length of its rows is a multiple of the number of
    /// lanes.
    pub rows: bool,
    /// Lanes may belong to different groups.
    pub packed: bool,
}

/// An access that may touch the same place as an access of another thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The name of the memory that is accessed.
    pub what: String,
    /// The place of the access in the user's source.
    pub span: Span,
}

/// Finds the first conflict of an entry point's threads in lanes. The module must be differentiated already,
/// and the function must not be recursive.
pub fn conflict(module: &Module, entry: Func, lanes: Lanes) -> Option<Conflict> {
    let accesses = match walk::accesses(module, entry, lanes) {
        Ok(accesses) => accesses,
        Err(conflict) => return Some(conflict),
    };
    accesses.conflict(module, lanes.count)
}
