//! The operations: one closed enum, with uniform operands.
//!
//! Operands and results are lists on the instruction; an op holds only static data. Walking, copying,
//! printing and dead code elimination therefore never look at the op, and passes that depend on its meaning
//! match it exhaustively.
//!
//! # Total semantics
//!
//! No operation has undefined behaviour. Integers wrap; `x / 0 = x`, `x % 0 = 0`, `MIN / -1 = MIN`,
//! `MIN % -1 = 0`; shift amounts are taken modulo the width; float to integer saturates and NaN gives 0. A
//! read at an index out of range gives zero (beyond the end of a stack: an absent differential), and a write
//! there does nothing. A half computes in `f32` and rounds after each operation.
//!
//! # Differentials
//!
//! If an arm, a selection or a loop does not take a value, that value has no differential: its differential
//! is *absent*. Absence is not the number 0, since an absent differential stays absent whatever it is scaled
//! with, while `0 * inf` is NaN. It is represented as -0, which is the identity of addition in IEEE
//! arithmetic: `x + -0` is `x` for every `x`, `-0` among them. Addition therefore needs no op of its own,
//! sums of differentials start from [`Op::Absent`], and absence passes through memory, loops and calls like
//! any number. Only scaling needs an op of its own: [`Op::Scale`] keeps an absent differential, and never
//! turns a differential that is present into -0.
//!
//! # Linear values
//!
//! A value marked `linear` is a tangent or cotangent. [`Op::spec`] lists the ops that may take or give
//! one; they are the same ops as for numbers, so that derivatives are ordinary code once the marks are
//! dropped.

use crate::entities::{Func, Global};
use crate::names::named;
use crate::types::Scalar;

/// The operation that an instruction performs. `a`, `b`, … are its operands in order, `r` its result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    // ---- constants
    /// A scalar, given by its bits (`bool` 0 or 1; floats by IEEE bits of their own width).
    Const(u64),
    /// Zero, false, the empty stack: the default of any type but a cell. May be linear.
    Zero,

    // ---- differentials: floats of which each may be absent, that is, the number -0; see above
    /// The differential that is absent in every component; the empty stack. May be linear.
    Absent,
    /// `a` scaled by the number `b`: absent where `a` is, else `a * b + 0`.
    Scale,
    /// `a` scaled by the inverse of the number `b`: absent where `a` is, else `a / b + 0`.
    Unscale,
    /// Absent where `a` is absent, else `b`. `a` is a number that was a differential.
    Mask,
    /// A differential as a plain number: `a + 0`, so 0 where it is absent. Of any differentiable type.
    Present,

    // ---- arithmetic: scalars and vectors elementwise, operands and result of one type
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`, truncated for integers
    Div,
    /// `a % b`; the sign is that of `a` (floats: `fmod`)
    Rem,
    /// `-a`
    Neg,
    /// bitwise, or logical on `bool`
    And,
    /// bitwise, or logical on `bool`
    Or,
    /// bitwise, or logical on `bool`
    Xor,
    /// bitwise, or logical on `bool`
    Not,
    /// `a << b`
    Shl,
    /// `a >> b`, arithmetic for signed integers
    Shr,
    /// A function of the numbers alone, elementwise.
    Math(Math),

    // ---- comparison: result `bool`, or a vector of it
    /// `a == b`
    Eq,
    /// `a != b` (true if either is NaN)
    Ne,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,

    // ---- between types
    /// Converts the number `a` to the result's scalar type: int/float/bool in any direction, lanes kept. To
    /// `bool`: `a != 0`.
    Convert,
    /// Reinterprets the bits of `a` as a type of the same width and lanes.
    Bitcast,
    /// `a ? b : c`, both computed. `a` is `bool` (then `b`, `c` of any non-cell type) or a `bool`
    /// vector of the lanes of `b` and `c`.
    Select,
    /// `a`, but no derivative flows through.
    Detach,

    // ---- vectors and arrays as values
    /// A vector or array of the operands.
    Construct,
    /// A vector or array with every element `a`.
    Splat,
    /// Element `idx` of the vector or array `a`.
    Extract(u32),
    /// `a` (vector or array) with element `idx` replaced by `b`.
    Insert(u32),
    /// Element `b` (any integer) of the vector, array or stack `a`.
    Index,
    /// The sum of the lanes of vector `a`, first to last.
    Sum,

    // ---- cells
    /// A new cell that holds `a`. Each execution makes a new one.
    Local,
    /// `load(cell, i…)`: the content, or the part of it that the indices (any integers) select.
    Load,
    /// `store(cell, i…, x)`: replaces the selected part of the content. No result.
    Store,
    /// `add_to(cell, i…, x)`: adds `x` to the selected part, elementwise; a stack grows as needed, and the
    /// new elements are absent differentials. No result. `x` is linear, or a number.
    AddTo,
    /// `sub_cell(cell, i)`: the cell of the inner stack at `i` of a cell that holds a stack of
    /// stacks; an alias, not a copy.
    SubCell,

    // ---- memory that the host sees
    /// The handle of a global buffer or uniform block (a uniform is a buffer of one element).
    GlobalRef(Global),
    /// `buffer_load(buf, i, dyn…)`: the leaf at that path of element `i`. Out of range: zero.
    BufferLoad(Path),
    /// `buffer_store(buf, i, dyn…, x)`. Out of range: nothing. No result.
    BufferStore(Path),
    /// `atomic(buf, i, dyn…, x)` (compare-exchange: `…, compare, x`): the leaf's old value.
    Atomic(Path, AtomicOp),
    /// The number of elements, as `u32`.
    BufferLen,
    /// `a` advanced by `b` elements (`i64`): pointer arithmetic.
    BufferOffset,
    /// The memory of handle `a`, from byte `b` (`i64`) on, as elements of the result's type.
    BufferCast(Rest),
    /// The address that `a` points to, as a number in two words (`u32` vector of 2, the low one first). Equal
    /// places have equal addresses, and addresses within one buffer are ordered as the places are; the
    /// address of null is 0.
    BufferAddress,
    /// The number (`u64`) that stands for handle `a` in memory: `(n + 1) << 40` for the buffer with number `n`, plus
    /// the bytes from the buffer's start. A handle without memory is its bytes only, so null is 0.
    HandleBits,
    /// The handle that the number `a` (`u64`) stands for, as one of the result's type. Without memory where there is no
    /// such buffer; `handle_bits` gives the same number again.
    HandleOf,
    /// `bool`: true if the code runs on a device rather than on a processor, where the threads of a group
    /// take turns. The value depends only on where the code runs, and `opt` replaces it by a constant where
    /// the target is known.
    OnDevice,
    /// The time on a clock that only runs forward, in nanoseconds: two words (`u32` vector of 2, the low one first).
    /// Each execution reads the clock anew.
    Clock,
    /// All threads of the group wait for each other; memory is visible afterwards. No result.
    Barrier,
    /// Gathers a value from each lane of the wave: an array of [`WAVE_LANES`] values of the type of `a`, zero
    /// for inactive lanes, and the mask of active lanes as `u32`. A lane is active if it reaches the
    /// instruction along the same path through the regions.
    WaveGather,
    /// A product by the matrix units of a device, `c + a b`, of matrices that the 32 lanes of a wave hold: `a` (`u32`
    /// vector of 4) has 16 rows, `b` (`u32` vector of 2) and `c` (vector of 4, of [`Factors::sum`]) have 8 columns, and
    /// a row of `a` has 32 bytes. Who holds what is as in PTX's `mma.m16n8k16` and `mma.m16n8k32`. All lanes reach the
    /// instruction. Only code for such a device has it.
    WaveMultiply(Factors),
    /// The built-in input of this thread: `u32` vector of 3, or scalar for the group index.
    Builtin(Builtin),
    /// `printf`: format string; operands are scalars. No result.
    Printf(Box<str>),
    /// Stops the program with a message at the user's line if `a` is false. No result.
    Assert(Box<str>),
    /// `check_finite "what", x, operands…`: gives `x`, the result of the operation `what` on the operands,
    /// and reports an error if it contains a NaN or an infinity. All operands are numbers or vectors. The op
    /// serves only the search for differentials that are not finite, so it may be removed together with its
    /// result, but it never runs early.
    CheckFinite(Box<str>),

    // ---- calls
    /// `f(a…)`; results are those of `f`.
    Call(Func),
    /// A derivative operator on `f`. Replaced by `autodiff`.
    CallDerivative(DerivativeOp, Func),
    /// A linear function that is known only by its transpose: operands are the parameters of the primal
    /// function of the custom derivative `f`, then the tangents of its `diff` parameters; results are the
    /// tangents of its `diff` results. `f` is the vjp: see [`crate::module::Witness`]. Exists only between
    /// linearize and transpose.
    CallTransposeOf(Func),

    // ---- control; see `docs/ir.md`
    /// `if(c) { then } { else }`: results are those of the arm taken.
    If,
    /// `switch(tag) { … }`: region `k` for `cases[k]`, the last region for all other tags.
    Switch(Box<[i64]>),
    /// `for(n, carried…) { (i, carried…) -> carried…, stacked… }`: `n` and `i` of one integer type (32 or 64
    /// bits, `n` unsigned in meaning), `i` from 0 to `n-1`, or from `n-1` to 0 if the loop is `down`.
    /// Results: the last carried values, then one stack for each stacked value, trip by trip.
    For(LoopInfo),
    /// `loop(carried…) { (carried…) -> again, carried…, stacked… }`: runs the body and repeats it while
    /// `again` is true. Results: the last carried values, then the stacks. Never linear: the linear side of a
    /// loop is a `for`.
    Loop(LoopInfo),
}

named! {
    /// A derivative operator: which derivative of a function a call asks for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum DerivativeOp {
        /// `fwd_diff(f)`: operands are the parameters, then the tangent of each `diff` parameter; results are the
        /// results, then the tangent of each `diff` result.
        Fwd = "call_fwd",
        /// `bwd_diff(f)`: operands are the parameters, then the cotangent of each `diff` result; results are the
        /// cotangents of the `diff` parameters.
        Bwd = "call_bwd",
        /// `(params…) -> (results…, residuals)`. The residuals are the state that reverse mode keeps of this run,
        /// as a value of the type [`crate::TypeData::Residuals`].
        Apply = "call_apply",
        /// `(params…, residuals, cotangents of diff results…) -> (cotangents of diff params…)`, where the
        /// parameters are those of the run that gave the residuals.
        Pullback = "call_pullback",
        /// Like `Apply`, but the residuals are those that forward mode reads of this run.
        Linearize = "call_linearize",
        /// `(params…, residuals, tangents of diff params…) -> (tangents of diff results…)`, where the parameters
        /// are those of the run that gave the residuals.
        Pushforward = "call_pushforward",
        /// No derivative, but what derivatives of integrals need to know of jumps: `(params…, n) -> (results…, hash, count,
        /// level)`, where `count` is the number of decisions of the run, `hash` depends on the outcomes of the first `n`,
        /// and `level` (alone with a derivative) is the number that decision `n` is about. See `docs/ir.md`.
        Decisions = "call_decisions",
        /// Second derivatives, summed over directions: operands are the parameters, then the tangents of all `diff`
        /// parameters for one direction after another; results are the results, then the tangents of the `diff`
        /// results for one direction after another, then for each `diff` result the sum, over the directions `v`, of
        /// its second derivative along `x + t·v`.
        Second = "call_second",
    }
}

impl DerivativeOp {
    /// Returns true for the operators of forward mode, and false for those of reverse mode.
    pub fn is_forward(self) -> bool {
        use DerivativeOp::{Fwd, Linearize, Pushforward, Second};
        matches!(self, Fwd | Linearize | Pushforward | Second)
    }
}

/// The attributes that the user gave a loop, and the direction in which it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoopInfo {
    /// `[MaxIters(n)]`. Where the loop is reversed (it yields stacks), it is a reported error if a `for` has
    /// more trips or if `again` of a `loop` is true more often.
    pub max_iters: Option<u32>,
    /// `[ForceUnroll]`.
    pub unroll: bool,
    /// The states of which trips reverse mode keeps. Only differentiation looks at it.
    pub checkpoint: Option<Checkpoint>,
    /// The counter of a `for` counts down. Set by the last of the passes, on loops that reverse others.
    pub down: bool,
}

/// The trips of a loop whose states reverse mode keeps, to recompute the trips in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checkpoint {
    /// `[Checkpoint]`: about as many as the square root of the number of trips, so that each trip runs twice.
    Root,
    /// `[Checkpoint(n)]`: every `n`th one.
    Every(u32),
    /// `[CheckpointStates(n)]`: at most `n` at once, so that trips run as often as that takes.
    States(u32),
}

/// A place within an element of memory: from the element's type to a leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path(pub Box<[Step]>);

impl Path {
    /// The number of dynamic operands.
    pub fn n_dynamic(&self) -> usize {
        self.0.iter().filter(|step| **step == Step::Dynamic).count()
    }
}

/// One step of a [`Path`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A struct's field, a matrix's row, an array's element or a vector's lane, by number.
    Static(u32),
    /// An array's element, a matrix's row or a vector's lane: the next dynamic operand.
    Dynamic,
}

/// Threads of a group that form a wave: 32 in the order of [`Builtin::GroupIndex`].
pub const WAVE_LANES: u32 = 32;

named! {
    /// A built-in input that identifies a thread or its group.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[expect(missing_docs, reason = "the names of the semantics")]
    pub enum Builtin {
        DispatchThreadId = "dispatch_thread_id",
        GroupId = "group_id",
        GroupThreadId = "group_thread_id",
        GroupIndex = "group_index",
        /// The number of threads of a group along each axis.
        GroupSize = "group_size",
    }
}

/// How the bytes at the end of memory that do not fill an element are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rest {
    /// They form a partial element; a leaf of it is in range if all its bytes are there.
    Kept,
    /// They are out of range.
    Dropped,
}

named! {
    /// The elements of the factors of a product by matrix units.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[expect(missing_docs, reason = "the names say it")]
    pub enum Factors {
        F16 = "wave_multiply_f16",
        BF16 = "wave_multiply_bf16",
        I8 = "wave_multiply_i8",
        U8 = "wave_multiply_u8",
    }
}

impl Factors {
    /// The type of the sum: products of floats are exact in it, and sums of integers wrap.
    pub fn sum(self) -> Scalar {
        match self {
            Factors::F16 | Factors::BF16 => Scalar::F32,
            Factors::I8 | Factors::U8 => Scalar::I32,
        }
    }
}

named! {
    /// Atomic read-modify-write.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[expect(missing_docs, reason = "the names say it")]
    pub enum AtomicOp {
        Add = "add",
        Min = "min",
        Max = "max",
        And = "and",
        Or = "or",
        Xor = "xor",
        Exchange = "exchange",
        CompareExchange = "compare_exchange",
    }
}

impl AtomicOp {
    /// The number of value operands that follow the place in memory.
    pub fn n_values(self) -> usize {
        if self == AtomicOp::CompareExchange { 2 } else { 1 }
    }
}

named! {
    /// Mathematical functions that a backend knows. Their derivatives are written in the library's source.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[expect(missing_docs, reason = "the names say it")]
    pub enum Math {
        Sin = "sin",
        Cos = "cos",
        Tan = "tan",
        Asin = "asin",
        Acos = "acos",
        Atan = "atan",
        Atan2 = "atan2",
        Sinh = "sinh",
        Cosh = "cosh",
        Tanh = "tanh",
        Asinh = "asinh",
        Acosh = "acosh",
        Atanh = "atanh",
        Exp = "exp",
        Exp2 = "exp2",
        Log = "log",
        Log2 = "log2",
        Log10 = "log10",
        /// `a` to the power `b`, as C's `pow`.
        Pow = "pow",
        Sqrt = "sqrt",
        Floor = "floor",
        Ceil = "ceil",
        /// Rounds to nearest, ties to even.
        Round = "round",
        Trunc = "trunc",
        /// Gives the other operand if one is NaN; also for integers.
        Min = "min",
        /// Gives the other operand if one is NaN; also for integers.
        Max = "max",
        /// Also for integers (wrapping).
        Abs = "abs",
        /// `a * b + c`, rounded once.
        Fma = "fma",
        /// Result `bool`.
        IsNan = "is_nan",
        /// Result `bool`.
        IsInf = "is_inf",
        /// Integers: number of bits set; result of the operand's type.
        CountBits = "count_bits",
        /// Integers: bits in reverse order.
        ReverseBits = "reverse_bits",
        /// Integers: index of the lowest bit set; all ones if none.
        FirstBitLow = "first_bit_low",
        /// Integers: index of the highest bit set (signed: the highest bit that differs from the sign); all ones
        /// if none.
        FirstBitHigh = "first_bit_high",
    }
}

impl Math {
    /// The number of operands.
    pub fn arity(self) -> usize {
        match self {
            Math::Atan2 | Math::Pow | Math::Min | Math::Max => 2,
            Math::Fma => 3,
            _ => 1,
        }
    }
}

impl Op {
    /// The index of a loop's first carried value among its operands, its body's parameters and its body's
    /// results; zeros for any other op.
    pub fn carried_at(&self) -> (usize, usize, usize) {
        match self {
            Op::For(_) => (1, 1, 0),
            Op::Loop(_) => (0, 0, 1),
            _ => (0, 0, 0),
        }
    }

    /// Returns true if the operands can be exchanged without changing the result's bits.
    pub fn commutes(&self) -> bool {
        matches!(self, Op::Add | Op::Mul | Op::And | Op::Or | Op::Xor | Op::Eq | Op::Ne)
    }

    /// Returns true for `for` and `loop`.
    pub fn is_loop(&self) -> bool {
        matches!(self, Op::For(_) | Op::Loop(_))
    }

    /// The callee of any kind of call.
    pub fn callee(&self) -> Option<Func> {
        match self {
            Op::Call(f) | Op::CallDerivative(_, f) | Op::CallTransposeOf(f) => Some(*f),
            _ => None,
        }
    }
}
