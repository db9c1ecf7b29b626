//! Functions as plain data: arenas of values, instructions and regions.
//!
//! An instruction may hold regions; a region is a straight list of instructions with parameters
//! and results, one entry and one exit. There are no terminators, no blocks and no phis: a value
//! is visible in the rest of its region and in every region nested there.

use std::sync::Arc;

use cranelift_entity::{PrimaryMap, entity_impl};
use smallvec::SmallVec;

use crate::ops::Op;
use crate::types::Type;

/// A function of a module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Func(u32);
entity_impl!(Func, "f");

/// A value of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(u32);
entity_impl!(Value, "v");

/// An instruction of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inst(u32);
entity_impl!(Inst, "inst");

/// A region of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Region(u32);
entity_impl!(Region, "region");

/// A place in the user's source: a file's number and two byte offsets. File `u32::MAX` is nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The driver's number of the file.
    pub file: u32,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// No place in particular.
    pub const NONE: Span = Span { file: u32::MAX, start: 0, end: 0 };
}

impl Default for Span {
    fn default() -> Span {
        Span::NONE
    }
}

/// A value's type and marks.
#[derive(Clone, Debug)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// True for a tangent or cotangent: used by linear operations only.
    pub linear: bool,
    /// Whether differentiation made it as a tangent or cotangent. Stays when `linear` is dropped; means nothing but
    /// to those who look for the first differential that is not finite.
    pub differential: bool,
    /// The source's name, for printing (`ray.origin`).
    pub name: Option<Arc<str>>,
}

impl ValueData {
    /// A value without a name.
    pub fn new(ty: Type, linear: bool) -> ValueData {
        ValueData { ty, linear, differential: linear, name: None }
    }
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct InstData {
    /// What it computes.
    pub op: Op,
    /// Operands.
    pub args: SmallVec<[Value; 4]>,
    /// Results.
    pub results: SmallVec<[Value; 2]>,
    /// Nested regions, for the four control ops.
    pub regions: SmallVec<[Region; 2]>,
    /// The user's line.
    pub span: Span,
}

/// A list of instructions with parameters and results.
#[derive(Clone, Debug, Default)]
pub struct RegionData {
    /// Defined on entry.
    pub params: Vec<Value>,
    /// In order of execution.
    pub insts: Vec<Inst>,
    /// Values handed to the instruction that holds the region (or to the caller).
    pub results: Vec<Value>,
}

/// A parameter or result of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its type. Never a cell.
    pub ty: Type,
    /// Whether a derivative of the function has a tangent for it. Implies a float type.
    pub diff: bool,
    /// Linear functions only: a tangent itself.
    pub linear: bool,
    /// The source's name.
    pub name: Option<Arc<str>>,
}

/// When calls are replaced by the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inline {
    /// By cost.
    #[default]
    Auto,
    /// Always, if not recursive.
    Always,
    /// Never.
    Never,
}

/// A function. Its body is its first region, whose parameters are the function's.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Unique in the module.
    pub name: String,
    /// Parameters; as many as the body's.
    pub params: Vec<Slot>,
    /// Results: the return value's leaves, then those of `out` and `inout` parameters in order.
    pub results: Vec<Slot>,
    /// All values.
    pub values: PrimaryMap<Value, ValueData>,
    /// All instructions; one that no region lists is dead.
    pub insts: PrimaryMap<Inst, InstData>,
    /// All regions.
    pub regions: PrimaryMap<Region, RegionData>,
    /// Inlining.
    pub inline: Inline,
    /// What forward mode is asked of here has been run before: it must not do anything twice.
    pub reruns: bool,
    /// Rules that hold for real numbers hold for its floats, as with `--fast-math`; of it alone, and its derivatives.
    pub fast_math: bool,
    /// What reverse mode is to keep.
    pub checkpoint: CheckpointPolicy,
    /// The primal half of a derivative, or a derivative of one: its results are for the other half.
    pub is_half: bool,
    /// Where it is declared.
    pub span: Span,
}

/// What the user said of what reverse mode keeps. It changes memory and time, never results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointPolicy {
    /// `[PreferRecompute]` or `[PreferCheckpoint]`.
    pub prefer: Prefer,
    /// `[CheckpointBudget(n)]`: so many bytes at most for one call.
    pub budget: Option<u64>,
}

/// Whether a function is run again or its residuals are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefer {
    /// What costs less, value by value.
    #[default]
    Neither,
    /// `[PreferRecompute]`: nothing but the operands of a call is kept.
    Recompute,
    /// `[PreferCheckpoint]`: nothing is computed again but constants and the state of counted loops.
    Checkpoint,
}

impl Function {
    /// The first region.
    pub fn body(&self) -> Region {
        Region::from_u32(0)
    }

    /// Whether a body has been built (a declared function has none yet).
    pub fn has_body(&self) -> bool {
        !self.regions.is_empty()
    }

    /// The type of a value.
    pub fn ty(&self, v: Value) -> Type {
        self.values[v].ty
    }

    /// Whether a value is a tangent or cotangent.
    pub fn is_linear(&self, v: Value) -> bool {
        self.values[v].linear
    }

    /// The one result of an instruction.
    pub fn result(&self, inst: Inst) -> Value {
        self.insts[inst].results[0]
    }

    /// Calls `visit` for the instructions of `region` in order, an instruction before its regions.
    pub fn walk(&self, region: Region, visit: &mut dyn FnMut(Inst)) {
        for &inst in &self.regions[region].insts {
            visit(inst);
            for &nested in &self.insts[inst].regions {
                self.walk(nested, visit);
            }
        }
    }
}
