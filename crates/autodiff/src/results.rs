//! The results of the passes, which the engine keeps by function.

use cranelift_entity::SecondaryMap;
use ir::{Func, Module, Region, Span, Value};
use rustc_hash::FxHashMap;

use crate::shape::Mask;

/// Memoised facts about functions.
#[derive(Default)]
pub(crate) struct Marks {
    /// The linear results of a function, given its linear parameters; `None` while they are being computed.
    pub(crate) results: FxHashMap<(Func, Mask), Option<Mask>>,
    pub(crate) transposed_inside: FxHashMap<Func, bool>,
}

/// Maps marked functions to their copies without marks.
pub(crate) type Unmarked = FxHashMap<Func, Func>;

/// The source of a residual, for a caller of the primal half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// The argument of the primal half with this index.
    Param(usize),
    /// The result of the primal half with this index.
    Result(usize),
}

impl Residual {
    /// The value of the residual, given the arguments and results of a call of the primal half.
    pub fn of(self, args: &[Value], results: &[Value]) -> Value {
        match self {
            Residual::Param(idx) => args[idx],
            Residual::Result(idx) => results[idx],
        }
    }
}

/// The two halves of a linearised function.
#[derive(Clone, Debug)]
pub struct Unzipped {
    /// `(params…) -> (results…, residuals…)`.
    pub primal: Func,
    /// `(residuals…, tangents…) -> (tangents…)`.
    pub linear: Func,
    /// The sources of the leading parameters of `linear`.
    pub residuals: Vec<Residual>,
}

/// A step of differentiation: what it made, and of what.
#[derive(Clone, Debug)]
pub enum Step {
    /// `f ↦ f'`, with tangents of some parameters and results of `f`.
    Linearized {
        /// The function.
        of: Func,
        /// `(params…, tangents…) -> (results…, tangents…)`.
        jvp: Func,
        /// The parameters that have a tangent.
        params: Vec<bool>,
        /// The results that have a tangent.
        results: Vec<bool>,
    },
    /// `f'` split in two.
    Unzipped {
        /// The function with marks.
        of: Func,
        /// Its halves.
        halves: Unzipped,
    },
    /// `(r, ẋ) ↦ ẏ` run backwards.
    Transposed {
        /// The linear half.
        linear: Func,
        /// `(residuals…, cotangents of results…) -> (cotangents…)`.
        transposed: Func,
    },
}

/// The steps of the differentiation of a module.
#[derive(Clone, Debug)]
pub struct Steps {
    /// The module with all functions that were made, also those that are no longer needed.
    pub module: Module,
    /// The steps, by the function that each made.
    pub steps: Vec<Step>,
}

/// Values or instructions by region.
pub(crate) type ByRegion<T> = SecondaryMap<Region, Vec<T>>;

/// The two functions that a backward derivative calls: the primal half, then the transposed half with its
/// residuals.
#[derive(Clone, Debug)]
pub(crate) struct Halves {
    /// `(params…) -> (results…, residuals…)`.
    pub(crate) primal: Func,
    pub(crate) residuals: Vec<Residual>,
    /// `(residuals…, cotangents of active results…) -> (cotangents of diff params…)`.
    pub(crate) transposed: Func,
    /// The mask of active results.
    pub(crate) active: Mask,
}

/// A value that the primal side passes to the linear side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptValue {
    /// The user's function.
    pub function: String,
    /// The name of the variable, if it has one.
    pub name: Option<String>,
    /// The location of the definition.
    pub span: Span,
    /// The size in bytes; for a value in loops, the size per trip.
    pub bytes: u64,
    /// The loops around the value, outermost first. It is kept for each of their trips.
    pub loops: Vec<Span>,
    /// The first operation in the derivative that reads the value, and its location.
    pub reader: Option<(String, Span)>,
    /// The reason why the value is not recomputed.
    pub reason: &'static str,
}

/// The report of what reverse mode keeps.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints {
    /// The values that are kept.
    pub values: Vec<KeptValue>,
    /// The loops of which some states are kept, and the trips in between run again.
    pub loops: Vec<SegmentedLoop>,
}

/// A loop that is reversed in segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentedLoop {
    /// The user's function.
    pub function: String,
    /// The location of the loop.
    pub span: Span,
    /// The states that are kept.
    pub checkpoint: ir::Checkpoint,
    /// The maximum number of trips, if there is a bound.
    pub trips: Option<u64>,
    /// With a bounded number of states: all trips run once more than their schedule says.
    pub again: bool,
}

/// The parts of the memory that a function keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    pub(crate) parts: Vec<Part>,
    /// Segments of loops; only one of them is reversed at a time.
    pub(crate) segments: Vec<Func>,
}

#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) what: What,
    /// How often the part is kept, if that is known.
    pub(crate) trips: Option<u64>,
    /// The innermost loop around the part whose number of trips is unknown.
    pub(crate) unknown: Option<Span>,
    /// The loops around the part, the innermost one first; that over the trips of a segment only if there is no other.
    pub(crate) around: Vec<Span>,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A value of this size.
    Bytes(u64),
    /// The stacks that the primal half of this function fills.
    Stacks(Func),
}

/// Part of the user's program that cannot be differentiated, or should not be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The location in the source.
    pub span: Span,
    /// The stable error code.
    pub code: &'static str,
    /// The message for the user.
    pub message: String,
}
