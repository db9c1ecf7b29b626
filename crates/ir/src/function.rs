//! Functions as plain data: arenas of values, instructions and regions.
//!
//! An instruction may hold regions; a region is a straight list of instructions with parameters and results,
//! one entry and one exit. There are no terminators, no blocks and no phis: a value is visible in the rest of
//! its region and in every region nested there.

use std::sync::Arc;

use cranelift_entity::PrimaryMap;
use smallvec::SmallVec;

use crate::entities::{Func, Inst, Region, Value};
use crate::ops::Op;
use crate::types::Type;

/// A place in the user's source: a file's number and two byte offsets. The file `u32::MAX` means no place.
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
    /// The span of code that has no place in the source.
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
    /// True for a tangent or cotangent, which only linear operations may use.
    pub linear: bool,
    /// True for a value that differentiation made as a tangent or cotangent. The mark stays when `linear` is
    /// dropped; only the search for the first differential that is not finite reads it.
    pub differential: bool,
    /// The source's name, for printing (`ray.origin`).
    pub name: Option<Arc<str>>,
}

impl ValueData {
    /// A value without a name that is not linear.
    pub fn new(ty: Type) -> ValueData {
        ValueData::marked(ty, false)
    }

    /// A linear value without a name.
    pub fn linear(ty: Type) -> ValueData {
        ValueData::marked(ty, true)
    }

    /// A value without a name, linear if requested.
    pub fn marked(ty: Type, linear: bool) -> ValueData {
        ValueData { ty, linear, differential: linear, name: None }
    }
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct InstData {
    /// The operation.
    pub op: Op,
    /// Operands.
    pub args: SmallVec<[Value; 4]>,
    /// Results.
    pub results: SmallVec<[Value; 2]>,
    /// Nested regions, for the four control ops.
    pub regions: SmallVec<[Region; 2]>,
    /// The place in the user's source.
    pub span: Span,
}

impl InstData {
    /// The number of carried values of a loop; 0 for any other instruction.
    pub fn n_carried(&self) -> usize {
        match self.op {
            Op::For(_) => self.args.len() - 1,
            Op::Loop(_) => self.args.len(),
            _ => 0,
        }
    }
}

/// A list of instructions with parameters and results.
#[derive(Clone, Debug, Default)]
pub struct RegionData {
    /// Values defined on entry.
    pub params: Vec<Value>,
    /// Instructions in order of execution.
    pub insts: Vec<Inst>,
    /// Values passed to the instruction that holds the region (or to the caller).
    pub results: Vec<Value>,
}

/// A parameter or result of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its type. Never a cell.
    pub ty: Type,
    /// Derivatives of the function have a tangent for this slot. Implies a float type.
    pub diff: bool,
    /// The slot is a tangent itself; linear functions only.
    pub linear: bool,
    /// The source's name.
    pub name: Option<Arc<str>>,
}

/// When calls of a function are replaced by its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inline {
    /// Inlined if the cost allows.
    #[default]
    Auto,
    /// Always inlined, unless recursive.
    Always,
    /// Never inlined.
    Never,
}

/// Where a function comes from: the program, or a step of differentiation, with the function that it was made
/// of. All that is asked about a function's past follows from this chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The function was there before differentiation.
    #[default]
    Program,
    /// The forward derivative `(x, ẋ) ↦ (f(x), ∂f(x)·ẋ)`, or the half of it that needs `ẋ`.
    Jvp(Func),
    /// `x ↦ (y, r)`.
    PrimalHalf(Func),
    /// `(r, ẋ) ↦ ẏ`.
    LinearHalf(Func),
    /// `(r, ȳ) ↦ x̄` or `(x, ȳ) ↦ x̄`.
    Pullback(Func),
    /// A number of trips of a loop with `[Checkpoint]`.
    Segment(Func),
    /// The same function in another form, such as with marks or with a context as a further result.
    Variant(Func),
}

impl Origin {
    /// The function that this one was made of.
    pub fn parent(self) -> Option<Func> {
        match self {
            Origin::Program => None,
            Origin::Jvp(of)
            | Origin::PrimalHalf(of)
            | Origin::LinearHalf(of)
            | Origin::Pullback(of)
            | Origin::Segment(of)
            | Origin::Variant(of) => Some(of),
        }
    }
}

/// A function. Its body is its first region, whose parameters are the function's.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Unique in the module.
    pub name: String,
    /// Parameters; as many as the body has.
    pub params: Vec<Slot>,
    /// Results: the return value's leaves, then those of `out` and `inout` parameters in order.
    pub results: Vec<Slot>,
    /// All values.
    pub values: PrimaryMap<Value, ValueData>,
    /// All instructions; one that no region lists is dead.
    pub insts: PrimaryMap<Inst, InstData>,
    /// All regions.
    pub regions: PrimaryMap<Region, RegionData>,
    /// The policy for inlining calls of the function.
    pub inline: Inline,
    /// The functions whose forward derivatives are requested here have already been run, so they must not
    /// have effects that would happen twice.
    pub reruns: bool,
    /// The function's floats may be treated as real numbers, as with `--fast-math`. Applies to this function
    /// and its derivatives only.
    pub fast_math: bool,
    /// The user's policy for what reverse mode keeps.
    pub checkpoint: CheckpointPolicy,
    /// Where the function comes from.
    pub origin: Origin,
    /// Where it is declared.
    pub span: Span,
}

/// The user's policy for what reverse mode keeps. It changes memory and time, never results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointPolicy {
    /// `[PreferRecompute]` or `[PreferCheckpoint]`.
    pub prefer: Prefer,
    /// `[CheckpointBudget(n)]`: at most this many bytes for one call.
    pub budget: Option<u64>,
}

/// The choice between running a function again and keeping its residuals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefer {
    /// The cheaper of the two, value by value.
    #[default]
    Neither,
    /// `[PreferRecompute]`: only the operands of a call are kept.
    Recompute,
    /// `[PreferCheckpoint]`: only constants and the state of counted loops are computed again.
    Checkpoint,
}

impl Function {
    /// The value that decides which arm of a branch runs, or how often a loop does.
    pub fn decides(&self, inst: Inst) -> Option<Value> {
        let data = &self.insts[inst];
        match data.op {
            Op::Loop(_) => self.regions[data.regions[0]].results.first().copied(),
            Op::If | Op::Switch(_) | Op::For(_) => data.args.first().copied(),
            _ => None,
        }
    }

    /// The first region.
    pub fn body(&self) -> Region {
        Region::from_u32(0)
    }

    /// Returns true if a body has been built (a declared function has none yet).
    pub fn has_body(&self) -> bool {
        !self.regions.is_empty()
    }

    /// The type of a value.
    pub fn ty(&self, v: Value) -> Type {
        self.values[v].ty
    }

    /// Returns true if a value is a tangent or cotangent.
    pub fn is_linear(&self, v: Value) -> bool {
        self.values[v].linear
    }

    /// The single result of an instruction.
    pub fn result(&self, inst: Inst) -> Value {
        self.insts[inst].results[0]
    }

    /// Returns true if the body contains an op for which `is` is true.
    pub fn contains(&self, is: impl Fn(&Op) -> bool) -> bool {
        self.has_body() && self.any(self.body(), &|inst| is(&self.insts[inst].op))
    }

    /// Returns true if `is` is true for an instruction in `region` or in a nested region.
    pub fn any(&self, region: Region, is: &dyn Fn(Inst) -> bool) -> bool {
        self.regions[region]
            .insts
            .iter()
            .any(|&inst| is(inst) || self.insts[inst].regions.iter().any(|&nested| self.any(nested, is)))
    }

    /// Makes an instruction without regions; the caller lists it in a region.
    pub fn make(&mut self, op: Op, args: &[Value], results: &[Value], span: Span) -> Inst {
        let (args, results) = (args.into(), results.into());
        self.insts.push(InstData { op, args, results, regions: SmallVec::new(), span })
    }

    /// Makes an instruction with one new result; the caller lists it in a region.
    pub fn make_value(&mut self, op: Op, args: &[Value], result: ValueData, span: Span) -> (Inst, Value) {
        let v = self.values.push(result);
        (self.make(op, args, &[v], span), v)
    }

    /// Makes a value with the type, marks and name of another one.
    pub fn value_like(&mut self, v: Value) -> Value {
        let data = self.values[v].clone();
        self.values.push(data)
    }

    /// Rebuilds the lists of instructions of all regions: `replace` appends what takes an instruction's place.
    pub fn rebuild(&mut self, mut replace: impl FnMut(&mut Function, Inst, &mut Vec<Inst>)) {
        for region in self.regions.keys() {
            let old = std::mem::take(&mut self.regions[region].insts);
            let mut new = Vec::with_capacity(old.len());
            old.into_iter().for_each(|inst| replace(self, inst, &mut new));
            self.regions[region].insts = new;
        }
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
