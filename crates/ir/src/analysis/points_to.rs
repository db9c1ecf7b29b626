//! Finds the memory that a cell or a handle refers to, within one function.
//!
//! Two different cells never share memory, and a cell within a cell is part of its root. Different globals
//! never share memory either, so two handles may alias only if they may refer to the same global. A handle
//! whose global is not known may refer to any.

use super::Defs;
use crate::function::{Function, Value};
use crate::module::Global;
use crate::ops::Op;

/// The cell that `local` made and that `cell` is, or is part of.
pub fn root_cell(func: &Function, defs: &Defs, mut cell: Value) -> Value {
    while let Some(data) = defs.inst(cell).map(|inst| &func.insts[inst])
        && data.op == Op::SubCell
    {
        cell = data.args[0];
    }
    cell
}

/// The global whose memory a handle refers to, through any offsets and casts.
pub fn root_global(func: &Function, defs: &Defs, mut handle: Value) -> Option<Global> {
    loop {
        let data = &func.insts[defs.inst(handle)?];
        match data.op {
            Op::GlobalRef(global) => return Some(global),
            Op::BufferOffset | Op::BufferCast(_) => handle = data.args[0],
            _ => return None,
        }
    }
}

/// The global that a handle is, without any offset or cast.
pub fn direct_global(func: &Function, defs: &Defs, handle: Value) -> Option<Global> {
    match defs.op(func, handle)? {
        Op::GlobalRef(global) => Some(*global),
        _ => None,
    }
}
