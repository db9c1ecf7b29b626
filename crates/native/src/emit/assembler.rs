//! The operations that a backend offers to the walk.
//!
//! They come in three traits, which a backend implements side by side: [`Instructions`] work on numbers, calls
//! and blocks, [`Memory`] on places, and an [`Assembler`] adds what depends on the threads that the code runs
//! at a time. A backend that runs one thread at a time needs hardly any of the latter: the default is that no
//! value varies, no lane is inactive, and control never diverges.

use std::ops::DerefMut;

use ir::{AtomicOp, Builtin, Func, Inst, InstData, Math, MemType, Op, Region, Scalar, Span, Type, TypeData};

use super::walk::{Vals, Walk};
use crate::plan::Plan;
use crate::runtime::{Helper, Tables, Word, offsets};
use crate::types::HANDLE_WORDS;
use crate::{Options, Unsupported};

/// The result of emission.
pub type Res<'m, A, T = ()> = Result<T, <A as Instructions<'m>>::Error>;

/// The value, operand or register is one for all lanes.
pub const UNIFORM: bool = false;
/// Each lane has its own.
pub const VARYING: bool = true;

/// The purpose for which a part of a cell is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A write that may grow a stack.
    Grow,
}

/// An instruction with one operand. Those whose names end in F work on floats, the others on integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Unary {
    NegF,
    Neg,
    Not,
    CountBits,
    ReverseBits,
    LeadingZeros,
    TrailingZeros,
}

/// An instruction with two operands of the same type, as [`Unary`]. Amounts of shifts are taken modulo the
/// number of bits; a division has no divisor 0, and no quotient that overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Binary {
    AddF,
    SubF,
    MulF,
    DivF,
    Add,
    /// A sum that does not exceed the largest unsigned integer.
    AddNoWrap,
    Sub,
    Mul,
    DivSigned,
    DivUnsigned,
    RemSigned,
    RemUnsigned,
    And,
    Or,
    Xor,
    Shl,
    ShrSigned,
    ShrUnsigned,
    MinSigned,
    MaxSigned,
    MaxUnsigned,
}

/// A comparison, as [`Unary`]. Only `NotEqualF` and `UnorderedF` are true of a NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Compare {
    EqualF,
    NotEqualF,
    LessF,
    LessOrEqualF,
    MoreF,
    MoreOrEqualF,
    UnorderedF,
    Equal,
    NotEqual,
    LessSigned,
    LessOrEqualSigned,
    MoreSigned,
    MoreOrEqualSigned,
    LessUnsigned,
    LessOrEqualUnsigned,
    MoreUnsigned,
    MoreOrEqualUnsigned,
}

/// A conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// Of a float to a wider one.
    Promote,
    /// Of a double to a float.
    Demote,
    /// Of an integer to a narrower one.
    Truncate,
    /// Of a signed integer to a float.
    OfSigned,
    /// Of an unsigned integer to a float.
    OfUnsigned,
    /// Of bits.
    Bits,
    /// Of an unsigned integer or truth value to a wider one.
    ZeroExtend,
    /// Of a signed integer to a wider one.
    SignExtend,
    /// Of an address to a number.
    Address,
}

/// How often a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Odds {
    /// Nothing is known.
    Even,
    /// Nearly always.
    Likely,
    /// Hardly ever.
    Unlikely,
}

/// Memory at a fixed address: see [`crate::Fixed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixed {
    /// Zeros.
    Zeros,
    /// The header of the empty stack.
    Empty,
    /// A word that holds the address of that header.
    EmptyAt,
    /// The counts of regions, for a profile.
    Counts,
}

/// The kind of a stack whose header is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// The stack is a value, whose header never changes.
    Value,
    /// The stack is in a cell, and may grow.
    Cell,
}

/// The instructions of a backend: numbers, calls and blocks.
pub trait Instructions<'m>: Sized + DerefMut<Target = Walk<'m, <Self as Instructions<'m>>::V>> {
    /// An operand: a number, or the address of memory.
    type V: Copy;
    /// A block, which may have parameters.
    type Block: Copy;
    /// The reason why there is no code.
    type Error: From<Unsupported>;
    /// The backend's name in diagnostics.
    const NAME: &'static str;
    /// Integers with fewer bits are divided, converted to floats and searched for bits in 32 bits.
    const LEAST_BITS: u32;
    /// The arms of an `if` at the end of a `loop`'s body jump to the next trip or out of the loop themselves,
    /// since no optimiser threads jumps afterwards.
    const THREADS_JUMPS: bool;
    /// The block of a short `for` loop emits several trips, since no optimiser unrolls loops afterwards.
    const UNROLLS: bool;
    /// A loop is emitted twice where a test before it shows that none of its trips has to test an index.
    const TESTS_BEFORE: bool;

    /// The module.
    fn module(&self) -> &'m ir::Module;
    /// The facts about the module.
    fn plan(&self) -> &Plan;
    /// The options that the module is compiled with.
    fn options(&self) -> &Options;
    /// The tables that code refers to by number or address.
    fn tables(&mut self) -> &mut Tables;
    /// Sets the location of the instructions that follow, by its number in the notes for a profile.
    fn locate(&mut self, location: Option<u32>);

    /// The scalar constant with these bits.
    fn constant(&mut self, s: Scalar, bits: u64) -> Self::V;
    /// The bits of an operand that is a constant, if the assembler knows them.
    fn constant_of(&self, v: Self::V) -> Option<u64>;
    /// The null pointer.
    fn null(&mut self) -> Self::V;
    /// The address of fixed memory.
    fn fixed(&mut self, which: Fixed) -> Self::V;
    /// The number of bits in a register of an integer or truth value.
    fn register_bits(s: Scalar) -> u32;
    /// Emits an instruction with one operand.
    fn unary(&mut self, op: Unary, a: Self::V) -> Self::V;
    /// Emits an instruction with two operands.
    fn binary(&mut self, op: Binary, a: Self::V, b: Self::V) -> Self::V;
    /// Emits a comparison.
    fn compare(&mut self, op: Compare, a: Self::V, b: Self::V) -> Self::V;
    /// Emits a conversion.
    fn cast(&mut self, op: Cast, a: Self::V, to: Scalar) -> Self::V;
    /// Extends an integer to a wider one, unless it is as wide.
    fn extend(&mut self, to: Scalar, signed: bool, a: Self::V) -> Self::V;

    /// Extends an unsigned integer to a wider one.
    fn zero_extend(&mut self, to: Scalar, a: Self::V) -> Self::V {
        self.extend(to, false, a)
    }
    /// Converts a float to an integer; the nearest one that exists.
    fn float_to_int(&mut self, a: Self::V, to: Scalar) -> Self::V;
    /// Converts the bits of an `f16` to an `f32`.
    fn widen(&mut self, a: Self::V) -> Self::V;
    /// Rounds an `f32` to the bits of an `f16`.
    fn narrow(&mut self, a: Self::V) -> Self::V;
    /// `c ? a : b`.
    fn select(&mut self, c: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// Emits a mathematical function of floats by one instruction, if the machine has it.
    fn math_instruction(&mut self, m: Math, args: &[Self::V]) -> Option<Self::V>;
    /// Calls a mathematical function of floats.
    fn math_call(&mut self, m: Math, s: Scalar, args: &[Self::V]) -> Self::V;
    /// Emits an atomic op on a number by one instruction, if the machine has it; returns the old number.
    fn atomic_instruction(&mut self, s: Scalar, op: AtomicOp, at: Self::V, x: Self::V) -> Option<Self::V>;
    /// Adds to a float of a buffer that no other thread accesses at the same time; returns the old number.
    fn add_alone(&mut self, s: Scalar, at: Self::V, x: Self::V) -> Self::V;
    /// The address of the stack of machine code.
    fn stack_pointer(&mut self) -> Self::V;

    /// Calls a function of the runtime; the context is added if the function takes one.
    fn helper(&mut self, helper: Helper, args: &[Self::V]) -> Option<Self::V>;
    /// Calls a function of the runtime in code that hardly ever runs.
    fn rare_helper(&mut self, helper: Helper, args: &[Self::V]) -> Option<Self::V> {
        self.helper(helper, args)
    }
    /// Calls the code of a function with the parts of its arguments and the memory for its results that are
    /// arrays; returns the parts of its other results.
    fn call_code(
        &mut self,
        func: Func,
        args: &[ir::Value],
        parts: Vals<Self::V>,
        arrays: &[Self::V],
        varying: &[bool],
    ) -> Vals<Self::V>;
    /// A word of the context.
    fn context(&mut self, word: Word, offset: i32) -> Self::V;
    /// Writes a word of the context.
    fn set_context(&mut self, x: Self::V, offset: i32);

    /// Makes a block with parameters of the types of these operands.
    fn block(&mut self, like: &[Self::V]) -> Self::Block;
    /// Continues in a block; returns its parameters.
    fn enter(&mut self, block: Self::Block) -> Vals<Self::V>;
    /// Emits an unconditional branch.
    fn jump(&mut self, to: Self::Block, args: &[Self::V]);
    /// Emits a conditional branch.
    fn branch(
        &mut self,
        c: Self::V,
        yes: (Self::Block, &[Self::V]),
        no: (Self::Block, &[Self::V]),
        odds: Odds,
    );
    /// Emits a branch to one of several blocks without parameters.
    fn switch(&mut self, tag: Self::V, cases: &[(u64, Self::Block)], otherwise: Self::Block);
    /// Returns from a function without results.
    fn ret(&mut self);

    /// The condition that no other worker runs threads of the dispatch.
    fn alone(&mut self) -> Self::V {
        if self.options().exclusive || self.in_range.as_ref().is_some_and(|known| known.is_alone) {
            return self.constant(Scalar::Bool, 1);
        }
        let flag = self.context(Word::I32, offsets::ALONE);
        let zero = self.constant(Scalar::I32, 0);
        self.compare(Compare::NotEqual, flag, zero)
    }

    /// A constant of 64 bits.
    fn number(&mut self, n: u64) -> Self::V {
        self.constant(Scalar::I64, n)
    }

    /// Calls a function of the runtime that has a result.
    fn helper_value(&mut self, helper: Helper, args: &[Self::V]) -> Self::V {
        self.helper(helper, args).expect("the helper has a result")
    }

    /// The conjunction of two conditions, each of which may be missing.
    fn both(&mut self, a: Option<Self::V>, b: Option<Self::V>) -> Option<Self::V> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.binary(Binary::And, a, b)),
            (a, b) => a.or(b),
        }
    }

    /// The error for an op that the backend cannot express.
    fn unsupported<T>(&self, op: &Op, why: &str, span: Span) -> Res<'m, Self, T> {
        let op = format!("{op:?}: {why}");
        Err(Unsupported { backend: Self::NAME, op, span, internal: true }.into())
    }
}

/// The memory of a backend.
pub trait Memory<'m>: Instructions<'m> {
    /// A place in memory, and the condition that it is in range. A number that is read out of range is zero or,
    /// in a stack, an absent differential. A write out of range has no effect.
    type Place: Copy;

    /// Memory for a value that the current instruction makes.
    fn memory(&mut self, bytes: u64, varying: bool) -> Self::V;
    /// Announces a cell that the current instruction makes.
    fn begin_cell(&mut self, _: ir::Value) {}
    /// `address + bytes`.
    fn offset(&mut self, address: Self::V, bytes: Self::V) -> Self::V;
    /// The address as a number.
    fn address_bits(&mut self, address: Self::V) -> Self::V;
    /// `a * n`.
    fn times(&mut self, a: Self::V, n: u64) -> Self::V;
    /// An integer as an index of 64 bits: negative ones become huge.
    fn index64(&mut self, v: ir::Value) -> Self::V;
    /// The distance in bytes between elements of an array at an address.
    fn stride(&self, elem: Type, array: Self::V) -> u64;
    /// Returns true if each number at the address has room for all lanes.
    fn is_wide(&self, _: Self::V) -> bool {
        false
    }
    /// The address of memory where each number has room for all lanes, if `wide`.
    fn widened(&self, address: Self::V, _wide: bool) -> Self::V {
        address
    }
    /// Writes zeros to memory of the function.
    fn clear(&mut self, at: Self::V, bytes: u64);
    /// The first element of a stack, given its header.
    fn first(&mut self, header: Self::V, of: Stack) -> Self::V;
    /// The length of a stack, given its header.
    fn len(&mut self, header: Self::V, of: Stack) -> Self::V;
    /// The shape of a stack's elements, for helpers, in memory that is wide if `wide`.
    fn shape(&mut self, elem: Type, wide: bool) -> Self::V;
    /// Allocates a stack of `n` uninitialised elements, where `n` is of kind `counter`; returns its header and
    /// the address of its first element.
    fn new_stack(&mut self, n: Self::V, _counter: Scalar, bytes: u64) -> (Self::V, Self::V) {
        let bytes = self.number(bytes);
        let header = self.helper_value(Helper::StackNew, &[n, bytes]);
        (header, self.first(header, Stack::Value))
    }

    /// The place at an address in memory of the function.
    fn place(&self, address: Self::V) -> Self::Place;
    /// The place of element `i` of an array, if that is `inside`.
    fn below(&mut self, array: Self::V, elem: Type, i: Self::V, inside: Option<Self::V>) -> Self::Place;
    /// The same place, within a stack.
    fn of_stack(&self, place: Self::Place) -> Self::Place;
    /// The place of a whole cell.
    fn cell(&self, cell: ir::Value, access: Access) -> Self::Place;
    /// The place of element `idx` of `n` elements of an array at a place in a cell.
    fn within(&mut self, outer: Self::Place, elem: Type, idx: ir::Value, n: u64) -> Self::Place;
    /// The place of an element of a stack in the same cell as another place.
    fn in_cell(&self, element: Self::Place, _outer: Self::Place) -> Self::Place {
        element
    }
    /// The place of element `i` of a buffer of elements `elem`, given the operands of the access.
    fn buffer_element(
        &mut self,
        elem: MemType,
        args: &[ir::Value],
        handle: &[Self::V],
        i: Self::V,
    ) -> Self::Place;
    /// The place at `bytes` after a place, as far as `below` holds.
    fn advance(&mut self, place: Self::Place, bytes: Self::V, below: Option<Self::V>) -> Self::Place;
    /// The place at an offset in the memory of a private global.
    fn private_place(&mut self, base: Self::V, offset: u64) -> Self::Place;
    /// The address of a place.
    fn address(&self, place: Self::Place) -> Self::V;
    /// The condition that a place is in range; `None` if it certainly is.
    fn inside(&self, place: Self::Place) -> Option<Self::V>;
    /// The place at an address, and with a condition, in the same memory as another place.
    fn moved(&self, place: Self::Place, address: Self::V, inside: Option<Self::V>) -> Self::Place;
    /// Returns true if the place has an address for each lane.
    fn is_scattered(&self, _: Self::Place) -> bool {
        false
    }

    /// Loads a value of a type from a place. The value of an array or stack in memory of the function is its
    /// address.
    fn load(&mut self, ty: Type, place: Self::Place, span: Span) -> Res<'m, Self, Vals<Self::V>>;
    /// Writes a value of a type to a place.
    fn store(&mut self, ty: Type, vals: &[Self::V], place: Self::Place, span: Span) -> Res<'m, Self>;
    /// Loads the number, or an address, in word `k` of words of eight bytes.
    fn load_word(&mut self, s: Option<Scalar>, words: Self::V, k: usize) -> Self::V;
    /// Writes a number or address to word `k` of words of eight bytes.
    fn store_word(&mut self, x: Self::V, words: Self::V, k: usize);
    /// Emits an atomic op on a number, whose operands are the number that the old one is compared with, if any,
    /// and the new one; returns the old number.
    fn atomic(
        &mut self,
        data: &InstData,
        op: (AtomicOp, Scalar),
        place: Self::Place,
        operands: (Self::V, Self::V),
    ) -> Res<'m, Self, Self::V>;
    /// The handle of a global.
    fn global(&mut self, global: ir::Global) -> Vals<Self::V>;
    /// Writes zeros to the memory of a private global.
    fn clear_private(&mut self, base: Self::V, bytes: u64);
}

/// The additions of a backend for threads that its code runs at the same time, in lanes.
pub trait Assembler<'m>: Memory<'m> {
    /// The components of an ID of the threads.
    fn builtin(&mut self, builtin: Builtin, data: &InstData) -> Vals<Self::V>;
    /// The number of threads that the code runs at a time.
    fn lanes(&self) -> u32 {
        1
    }
    /// The number of lanes that are active, in 64 bits.
    fn count_active(&mut self) -> Self::V {
        self.number(1)
    }
    /// Returns true if the code is for a device.
    fn is_device(&self) -> bool {
        false
    }
    /// Waits for the other threads of the group.
    fn barrier(&mut self, _: Span) -> Res<'m, Self> {
        self.helper(Helper::Barrier, &[]);
        Ok(())
    }
    /// Begins a function: if its paths matter, loads the depth at which its own words begin.
    fn begin_path(&mut self, func: Func) {
        begin_path(self, func);
    }
    /// Emits code that hardly ever runs: if `c` holds for a thread, whose lane is passed on.
    fn stop_if(&mut self, c: Self::V, body: &mut dyn FnMut(&mut Self, Self::V)) {
        let (rare, after) = (self.block(&[]), self.block(&[]));
        self.branch(c, (rare, &[]), (after, &[]), Odds::Unlikely);
        self.enter(rare);
        body(self, c);
        self.jump(after, &[]);
        self.enter(after);
    }
    /// Emits an operation that works on one thread; `to` is the type of its result.
    fn by_lane(
        &mut self,
        _to: Scalar,
        args: &[Self::V],
        mut one: impl FnMut(&mut Self, &[Self::V]) -> Self::V,
    ) -> Self::V {
        one(self, args)
    }
    /// The number of a lane.
    fn of_lane(&mut self, x: Self::V, _lane: Self::V) -> Self::V {
        x
    }
    /// Returns an error if several threads run at a time.
    fn check_alone(&self, _what: &str, _: Span) -> Res<'m, Self> {
        Ok(())
    }
    /// Returns an error if a stack at a place cannot be replaced or added to.
    fn check_stack(&self, _: Self::Place, _what: &str, _: Span) -> Res<'m, Self> {
        Ok(())
    }
    /// Returns an error if there is not one stack at a place.
    fn check_stack_place(&self, place: Self::Place, span: Span) -> Res<'m, Self> {
        if self.is_scattered(place) {
            self.check_alone("a stack at a place that varies", span)
        } else {
            Ok(())
        }
    }

    /// Returns true if the value is not the same in all lanes.
    fn varies(&self, _: ir::Value) -> bool {
        false
    }
    /// For each result of a function that is called with these arguments, or of the function itself, true if it
    /// varies.
    fn results_vary(&mut self, func: Option<(Func, &[ir::Value])>) -> Res<'m, Self, Vec<bool>> {
        let n = func.map_or(self.f.results.len(), |(func, _)| self.module().funcs[func].results.len());
        Ok(vec![false; n])
    }
    /// Converts a value to the representation of a varying one, if `varying`; a number may stay as it is.
    fn fit(
        &mut self,
        _ty: Type,
        vals: Vals<Self::V>,
        _varying: bool,
        _: Span,
    ) -> Res<'m, Self, Vals<Self::V>> {
        Ok(vals)
    }
    /// As [`Self::fit`], but numbers are converted, too, as blocks and calls require.
    fn fit_all(
        &mut self,
        _ty: Type,
        vals: Vals<Self::V>,
        _varying: bool,
        _: Span,
    ) -> Res<'m, Self, Vals<Self::V>> {
        Ok(vals)
    }
    /// `c ? a : b` for values in the same representation.
    fn pick(
        &mut self,
        _ty: Type,
        c: Self::V,
        a: &[Self::V],
        b: &[Self::V],
        _: Span,
    ) -> Res<'m, Self, Vals<Self::V>> {
        Ok(a.iter().zip(b).map(|(&a, &b)| self.select(c, a, b)).collect())
    }
    /// Sets the results of an instruction, if they are known already; or leaves its effect to later code.
    fn is_done(&mut self, _: Inst) -> Res<'m, Self, bool> {
        Ok(false)
    }

    /// Returns true if lanes may go different ways at an instruction.
    fn diverges(&self, _: Inst) -> bool {
        false
    }
    /// Emits an `if` or `switch` at which lanes go different ways.
    fn parted(&mut self, data: &'m InstData, _cases: &[i64]) -> Res<'m, Self> {
        self.unsupported(&data.op, "lanes that diverge", data.span)
    }
    /// The lanes that are active, if not all are.
    fn mask(&self) -> Option<Self::V> {
        None
    }
    /// Sets the lanes that are active.
    fn set_mask(&mut self, _: Option<Self::V>) {}
    /// The mask of all lanes that are active.
    fn all_lanes(&mut self) -> Self::V {
        self.constant(Scalar::Bool, 1)
    }
    /// The active lanes for which a condition holds.
    fn active(&mut self, c: Self::V) -> Self::V {
        c
    }
    /// The lanes of a mask for which a condition holds, and whether there is one.
    fn remaining(&mut self, mask: Self::V, c: Self::V) -> (Self::V, Self::V) {
        (mask, c)
    }
    /// The place for writes of some lanes only.
    fn masked(&self, place: Self::Place, _mask: Self::V) -> Self::Place {
        place
    }
    /// The largest count of all active lanes.
    fn most(&mut self, n: Self::V) -> Self::V {
        n
    }
    /// The largest index of all active lanes, negative ones left out.
    fn last_index(&mut self, i: Self::V) -> Self::V {
        i
    }
    /// The value that is kept for lanes that are not active.
    fn blank(&mut self, ty: Type) -> Vals<Self::V> {
        zero(self, ty)
    }
    /// Returns true if lanes enter the loop with this counter at different times, and leave it together.
    fn enters_late(&self, _counter: ir::Value) -> bool {
        false
    }
    /// Notes the number of trips that are left after the current one.
    fn trips_left(&mut self, _counter: ir::Value, _left: Self::V) {}

    /// Returns true if the machine's own lanes may part at the operation that holds a region, and that matters.
    fn parts_at(&self, _: Region) -> bool {
        false
    }
    /// Parts those lanes by the way that each takes; returns those that were together, for [`Self::rejoin`].
    fn split_lanes(&mut self, _: Region, _way: Self::V) -> Option<Self::V> {
        None
    }
    /// The lanes that are together, for [`Self::rejoin`].
    fn together(&mut self, _: Region) -> Option<Self::V> {
        None
    }
    /// Lanes are together again.
    fn rejoin(&mut self, _: Option<Self::V>) {}

    /// Converts a value to one that a cell can own: a stack is copied.
    fn own(&mut self, ty: Type, vals: Vals<Self::V>) -> Vals<Self::V> {
        let TypeData::Stack(elem) = self.ts[ty] else { return vals };
        let wide = self.is_wide(vals[0]);
        let (shape, empty) = (self.shape(elem, wide), self.fixed(Fixed::Empty));
        let copy = self.helper_value(Helper::StackClone, &[vals[0], shape, empty]);
        std::iter::once(self.widened(copy, wide)).collect()
    }
}

/// Begins a function: if its paths matter, loads the depth at which its own words begin.
pub fn begin_path<'m, A: Assembler<'m>>(e: &mut A, func: Func) {
    if e.plan().converges(func) {
        e.path_base = Some(e.helper_value(Helper::PathLen, &[]));
    }
}

/// The zero of a type.
pub fn zero<'m, A: Assembler<'m>>(e: &mut A, ty: Type) -> Vals<A::V> {
    match e.ts[ty] {
        TypeData::Scalar(s) => std::iter::once(e.constant(s, 0)).collect(),
        TypeData::Vector(s, n) => std::iter::repeat_n(e.constant(s, 0), n as usize).collect(),
        TypeData::Residuals(_) => Vals::new(),
        TypeData::Buffer(_) => null_handle(e),
        TypeData::Stack(_) => std::iter::once(e.fixed(Fixed::Empty)).collect(),
        TypeData::Array(..) | TypeData::Cell(_) => std::iter::once(e.fixed(Fixed::Zeros)).collect(),
    }
}

/// The null handle.
fn null_handle<'m, A: Assembler<'m>>(e: &mut A) -> Vals<A::V> {
    let (null, none) = (e.null(), e.number(0));
    std::iter::once(null).chain(std::iter::repeat_n(none, HANDLE_WORDS - 1)).collect()
}
