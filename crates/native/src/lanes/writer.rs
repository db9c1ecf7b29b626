//! The instructions of a backend, as code for lanes uses them.
//!
//! If an operand of an instruction varies, the instruction works on vectors, and its other operands are
//! broadcast; so the code that emits for lanes and for one thread is written once.

use ir::{AtomicOp, Inline, Math, Scalar};

use super::cost::Sketch;
use super::operand::{El, Val, Vals};
use super::sums::Vectors;
use crate::emit::{Binary, Cast, Compare, Odds, Unary, VARYING};
use crate::runtime::Helper;

/// The kind of memory of an access. Memory of different kinds, and of different globals, does not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Memory of the function.
    Local,
    /// The header of a stack.
    Header,
    /// The context of the thread.
    Context,
    /// Fields of the context that do not change while a function runs.
    Constant,
    /// A buffer.
    Buffer {
        /// The global whose memory it is, if that is known.
        global: Option<ir::Global>,
        /// The memory is never written.
        constant: bool,
    },
}

/// A function that [`Backend::define`] adds to the module.
pub struct Head {
    /// The name that [`Writer::call_own`] calls it by.
    pub name: String,
    /// How it is called.
    pub kind: Kind,
}

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By Rust: `(ctx, start, end)`. The first parameter is `%ctx`, the others `%start` and `%end`.
    Span,
    /// By Rust: `(ctx, args, results)`, which are `%ctx`, `%args` and `%results`.
    Raw,
    /// By functions of the module, with `%ctx` and the parameters that [`Writer::param`] makes.
    Version(Inline),
    /// By functions of the module, with the parameters that [`Writer::param`] makes: a function of the library.
    Math,
    /// As `Math`, for arguments that are rare.
    RareMath,
}

/// A module of a backend, to which functions are added.
pub trait Backend {
    /// A function while it is written.
    type Writer: Writer;
    /// The backend's name in diagnostics.
    const NAME: &'static str;
    /// See [`Instructions::LEAST_BITS`](crate::emit::Instructions::LEAST_BITS).
    const LEAST_BITS: u32;
    /// See [`Instructions::THREADS_JUMPS`](crate::emit::Instructions::THREADS_JUMPS).
    const THREADS_JUMPS: bool;
    /// See [`Instructions::UNROLLS`](crate::emit::Instructions::UNROLLS).
    const UNROLLS: bool;
    /// See [`Instructions::TESTS_BEFORE`](crate::emit::Instructions::TESTS_BEFORE).
    const TESTS_BEFORE: bool;

    /// The sine and the cosine of one number are one call if the results have at most this number of bytes. It is worth
    /// nothing where calls are inlined and merged.
    const PAIRED_BYTES: u32;
    /// Threads that are left over, fewer than there are lanes, run under a mask, rather than one at a time.
    const MASKS_LEFT_OVER: bool;

    /// Begins a function of this kind for a number of lanes; `fast` if operations on floats may be reordered and
    /// fused.
    fn writer(&self, kind: Kind, lanes: u32, fast: bool) -> Self::Writer;
    /// Adds a function to the module.
    fn define(&mut self, head: Head, body: Self::Writer);
    /// The number of functions of the module.
    fn n_functions(&self) -> usize;
    /// Drops all functions but the first `n`.
    fn truncate(&mut self, n: usize);
    /// From now on functions are kept as sketches, too, if a backend needs to know.
    fn start_sketches(&mut self) {}
    /// The end of [`Self::start_sketches`].
    fn stop_sketches(&mut self) {}
    /// The code of a function of the module, if there is one of this name.
    fn sketch(&self, name: &str) -> Option<Sketch>;
    /// Code keeps the mask of the lanes that are together, rather than the path of each thread.
    fn has_waves(&self) -> bool {
        false
    }
    /// Large arrays are in the arena of a context, rather than all in the memory of functions.
    fn has_arena(&self) -> bool {
        true
    }
}

/// A function while it is written: instructions, and blocks with parameters. The block of the entry is open.
pub trait Writer: Vectors {
    /// A block.
    type Block: Copy;
    /// Masked stores are slow, so it is worth testing whether all lanes are active.
    fn slow_masks(&self) -> bool;
    /// Functions of floats may be estimated, by fast mathematics.
    fn estimates(&self) -> bool {
        false
    }
    /// A uniform access out of range is skipped by a branch, rather than redirected to other memory.
    const SKIPS: bool;
    /// Returns true if a function returns results of these types through memory.
    fn is_by_memory(results: &[Val], lanes: u32) -> bool;

    /// The number of lanes.
    fn lanes(&self) -> u32;
    /// Sets the location of the instructions that follow, by its number in the notes for a profile.
    fn locate(&mut self, location: Option<u32>);
    /// Adds a parameter; no other parameter refers to the memory of one that is `alone`.
    fn param(&mut self, el: El, var: bool, alone: bool) -> Val;

    /// Broadcasts a uniform value to a varying one.
    fn spread(&mut self, v: Val) -> Val;
    /// Makes the value varying if `var`.
    fn fit(&mut self, v: Val, var: bool) -> Val {
        if var { self.spread(v) } else { v }
    }
    /// Extracts the number of one lane.
    fn lane(&mut self, v: Val, lane: Val) -> Val;
    /// The same operand for [`Self::lane`], in a loop that follows, of lanes that are known only when the code runs.
    fn indexed(&mut self, v: Val) -> Val {
        v
    }
    /// Inserts the number of one lane into `v`.
    fn with_lane(&mut self, v: Val, lane: Val, x: Val) -> Val;

    /// An instruction with one operand, other than the negation of an integer and the complement.
    fn unary(&mut self, op: Unary, a: Val) -> Val;
    /// An instruction with two operands of the same type. The amount of a shift is in range.
    fn binary(&mut self, op: Binary, a: Val, b: Val) -> Val;
    /// A comparison.
    fn compare(&mut self, op: Compare, a: Val, b: Val) -> Val;
    /// A conversion.
    fn cast(&mut self, op: Cast, a: Val, to: El) -> Val;
    /// The nearest integer that exists.
    fn float_to_int(&mut self, a: Val, to: El, signed: bool) -> Val;
    /// Converts the bits of an `f16` to an `f32`, if the machine has an instruction for it.
    fn widen(&mut self, a: Val) -> Option<Val>;
    /// Rounds an `f32` to the bits of an `f16`, if the machine has an instruction for it.
    fn narrow(&mut self, a: Val) -> Option<Val>;
    /// `c ? a : b`.
    fn select(&mut self, c: Val, a: Val, b: Val) -> Val;
    /// A mathematical function that is one instruction of most machines.
    fn math(&mut self, m: Math, args: &[Val]) -> Val;
    /// The size of `a` with the sign of `b`.
    fn copy_sign(&mut self, a: Val, b: Val) -> Val;

    /// A reduction over the lanes.
    fn reduce(&mut self, op: Binary, a: Val) -> Val;
    /// The sum of the floats of all lanes by repeated halving: the upper half of the lanes is added to the lower
    /// half until one lane is left.
    fn sum_by_halves(&mut self, a: Val) -> Val;
    /// Returns true if the machine has [`Self::scale`] for vectors of these floats.
    fn scales(&self, _: El) -> bool {
        false
    }
    /// `p 2^k` for vectors of floats, where `k` is whole: see [`ir::library::Ops::scale`].
    fn scale(&mut self, _p: Val, _k: Val) -> Val {
        unreachable!("the machine has no such instruction")
    }
    /// The condition that `c` holds for any lane.
    fn any(&mut self, c: Val) -> Val;
    /// The truth values of all lanes as the bits of a 32-bit integer.
    fn mask_bits(&mut self, c: Val) -> Val;

    /// Calls a function of the module; `like` are operands of the types of its results.
    fn call_own(&mut self, name: &str, like: &[Val], args: &[Val]) -> Vals;
    /// Calls a function of the runtime with all its operands.
    fn helper(&mut self, helper: Helper, args: &[Val]) -> Option<Val>;
    /// As [`Self::helper`], in code that hardly ever runs.
    fn rare_helper(&mut self, helper: Helper, args: &[Val]) -> Option<Val> {
        self.helper(helper, args)
    }
    /// Calls a function of the runtime that only accesses memory of this kind, and its operands, in code that
    /// hardly ever runs.
    fn access_helper(&mut self, helper: Helper, args: &[Val], class: Class);
    /// Calls a function of a device.
    fn device_call(&mut self, name: &str, result: Option<El>, args: &[Val]) -> Option<Val>;
    /// Returns from the function.
    fn give(&mut self, results: &[Val]);

    /// `address + bytes`.
    fn offset(&mut self, at: Val, bytes: Val) -> Val;
    /// Allocates memory in the function's frame.
    fn alloca(&mut self, bytes: u64, align: u64) -> Val;
    /// A shape, given its number and its address.
    fn shape(&mut self, number: u32, address: i64) -> Val;
    /// The address of a table that is never written. A function refers to one at most.
    fn table(&mut self, table: &'static [f64]) -> Val;
    /// The address of the stack of machine code.
    fn stack_pointer(&mut self) -> Val;
    /// Loads from a uniform address: a number, or the numbers of all lanes.
    fn load(&mut self, el: El, var: bool, at: Val, class: Class) -> Val;
    /// Stores to a uniform address.
    fn store(&mut self, x: Val, at: Val, class: Class);
    /// Loads the numbers of the lanes of a mask; others are zero.
    fn gather(&mut self, el: El, at: Val, class: Class, mask: Val) -> Val;
    /// Stores the numbers of the lanes of a mask, in the order of the lanes.
    fn scatter(&mut self, x: Val, at: Val, class: Class, mask: Val);
    /// Loads `n` adjacent numbers of each lane, at a stride of `step` bytes from lane to lane: up to four without
    /// gaps between the lanes, else as many as fill 128 bits, or two, or one. Where the address varies, each lane has
    /// its own, and the numbers are `step` bytes behind it.
    fn columns(&mut self, el: El, n: u32, at: Val, step: i64, class: Class) -> Vals;
    /// The number of adjacent numbers of each lane that [`Self::store_columns`] takes at most.
    fn most_columns(&self, el: El) -> u32 {
        (16 / el.bytes()) as u32
    }
    /// Stores pieces of each lane at a stride of `step` bytes: each has adjacent numbers, as many as fill 128 bits, or two,
    /// or [`Self::most_columns`], and is some bytes behind the address.
    fn store_columns(&mut self, pieces: &[(Vals, i64)], at: Val, step: i64, class: Class);
    /// Puts vectors of the lanes into the order of a row.
    fn row(&mut self, vals: &[Val]) -> Val;
    /// Stores a row of `n` numbers of type `el` for each lane, in the lanes of a mask.
    fn store_row(&mut self, row: Val, of: (El, u32), at: Val, class: Class, mask: Option<Val>);
    /// Writes zeros.
    fn clear(&mut self, at: Val, bytes: u64);
    /// Copies bytes between places that are identical or do not overlap.
    fn copy(&mut self, to: Val, from: Val, bytes: u64, align: u64);
    /// Emits an atomic op by one instruction, if the machine has it; returns the old number.
    fn atomic(&mut self, s: Scalar, op: AtomicOp, at: Val, x: Val) -> Option<Val>;
    /// Replaces an integer by another if it is `old`; returns what it was, and whether it was that.
    fn exchange(&mut self, at: Val, old: Val, new: Val) -> (Val, Val);

    /// A block to be written later, with parameters of the types of these operands.
    fn block(&mut self, like: &[Val]) -> Self::Block;
    /// Continues in a block; returns its parameters.
    fn enter(&mut self, block: Self::Block) -> Vals;
    /// Emits an unconditional branch.
    fn jump(&mut self, to: Self::Block, args: &[Val]);
    /// Emits a conditional branch.
    fn branch(&mut self, c: Val, yes: (Self::Block, &[Val]), no: (Self::Block, &[Val]), odds: Odds);
    /// Emits a branch to one of several blocks without parameters.
    fn switch(&mut self, tag: Val, cases: &[(u64, Self::Block)], otherwise: Self::Block);

    /// The numbers 0, 1, … of the lanes.
    fn iota(&self, el: El) -> Val {
        Val { var: VARYING, ..Val::uniform(super::operand::Id::Iota, el) }
    }
}
