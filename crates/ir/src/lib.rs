//! The IR: typed SSA values in structured regions.
//!
//! A [`Module`] holds [`Function`]s. A function is a tree of regions, and a region is a list of instructions.
//! The four ops that hold regions provide all control flow: `if`, `switch`, `for` and `loop` (see
//! [`ops::Op`]). There is no break, no continue, no early return, nothing generic, no struct and no
//! interface. Calls pass values: `in` is a parameter, `out` a result, `inout` both, so every function is a
//! map from values to values, and so is its derivative. Memory exists in two forms that are not values:
//! [cells](types::TypeData::Cell) within a function, and buffers that the host sees.
//!
//! This crate depends on no other crate of the project. `docs/ir.md` is the specification.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod build;
mod entities;
pub mod function;
pub mod interp;
pub mod library;
pub mod memory;
pub mod module;
mod names;
pub mod ops;
pub mod parse;
pub mod pipeline;
pub mod print;
pub mod printf;
pub mod rounding;
pub mod scalar;
mod spec;
pub mod threads;
pub mod transform;
pub mod types;
pub mod verify;
pub mod walk;

pub use analysis::{Analyses, Cycles, Defs};
pub use build::Builder;
pub use entities::{Func, Global, Inst, MemType, Region, Value};
pub use function::{
    CheckpointPolicy, Function, Inline, InstData, Origin, Prefer, RegionData, Slot, Span, ValueData,
};
pub use memory::{MatrixOrder, MemData, MemTypes, Place, Placement, Selection};
pub use module::{Entry, GlobalData, Module, Residuals, Space, Witness};
pub use ops::{
    AtomicOp, Builtin, Checkpoint, DerivativeOp, Factors, LoopInfo, Math, Op, Path, Rest, Step, WAVE_LANES,
};
pub use spec::{Class, Kind, Linearity, Spec, Typing};
pub use types::{Scalar, Type, TypeData, Types};

/// The message of the assertion that `abort` is.
pub const ABORTS: &str = "the program aborts here";

/// The nanoseconds since the clock was first read; in WebAssembly, whose host keeps the time, how often it was read.
pub fn clock() -> u64 {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    static START: OnceLock<Instant> = OnceLock::new();
    static READ: AtomicU64 = AtomicU64::new(0);
    if cfg!(target_family = "wasm") {
        return READ.fetch_add(1, Ordering::Relaxed);
    }
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
