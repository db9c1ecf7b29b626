//! The walk over the IR that the emitters of CPU backends share.
//!
//! A backend is an [`Assembler`]: it offers instructions, memory of the function, and calls of the runtime.
//! The meaning of each op in terms of these is written here once, for Cranelift's instructions, which work on one
//! thread, and for LLVM's, which also work on lanes. An emitter contains a [`Walk`], to which it
//! dereferences: the values of the function, and what is known of its structure.

mod aggregate;
pub mod cells;
pub mod numbers;
pub mod world;

use std::ops::DerefMut;

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::{
    AtomicOp, Builtin, Class, Func, Function, Inst, InstData, Math, Op, Path, Region, Scalar, Span, Type,
    TypeData, Types,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::Unsupported;
use crate::nesting::Nesting;
use crate::plan::Plan;
use crate::runtime::{Helper, Tables};
use crate::types::size;

/// The operands that hold a value, one for each component.
pub type Vals<V> = SmallVec<[V; 4]>;

/// The number of components or elements up to which loops over them are unrolled.
pub const UNROLL: u64 = 16;

/// Values larger than this number of bytes are allocated in the arena.
const BIG: u64 = 16 << 10;
/// If all arrays of a function together are larger than this, `CROWDED_BIG` is the limit instead.
const CROWDED: u64 = 96 << 10;
const CROWDED_BIG: u64 = 128;

/// The state of the walk over a function.
pub struct Walk<'m, V> {
    /// The function.
    pub f: &'m Function,
    /// The module's types.
    pub ts: &'m Types,
    /// The index in `pool` of the first of the operands that hold each value, and their number.
    map: SecondaryMap<ir::Value, (u32, u32)>,
    pool: Vec<V>,
    /// Values larger than this number of bytes are allocated in the arena.
    pub big: u64,
    /// The path of each cell within a cell.
    pub sub_cells: FxHashMap<ir::Value, Vec<ir::Value>>,
    /// The function's structure.
    pub nesting: Nesting<'m>,
    /// The reads of stacks that are known to be in range.
    pub inside: EntitySet<ir::Value>,
    /// The global whose memory each handle refers to.
    pub roots: FxHashMap<ir::Value, ir::Global>,
    /// The depth of the function's path, if paths matter.
    pub path_base: Option<V>,
    /// The line of the instruction being emitted.
    pub here: Span,
    /// Memoises which regions allocate in the arena.
    allocates: FxHashMap<Region, bool>,
    lanes: u64,
}

impl<'m, V: Copy> Walk<'m, V> {
    /// The walk over a function that so many threads run at a time.
    pub fn new(f: &'m Function, ts: &'m Types, lanes: u32) -> Walk<'m, V> {
        let mut crowd = 0u64;
        for value in f.values.values() {
            match ts[value.ty] {
                TypeData::Array(..) => crowd = crowd.saturating_add(size(ts, value.ty)),
                TypeData::Cell(t) => crowd = crowd.saturating_add(size(ts, t)),
                _ => {}
            }
        }
        let lanes = u64::from(lanes);
        Walk {
            f,
            ts,
            map: SecondaryMap::new(),
            pool: Vec::new(),
            big: if crowd.saturating_mul(lanes) > CROWDED { CROWDED_BIG } else { BIG },
            sub_cells: FxHashMap::default(),
            nesting: Nesting::of(f, ts),
            inside: ir::analysis::reads_in_range(ts, f),
            roots: FxHashMap::default(),
            path_base: None,
            here: f.span,
            allocates: FxHashMap::default(),
            lanes,
        }
    }

    /// The operands that hold `v`.
    pub fn get(&self, v: ir::Value) -> Vals<V> {
        let (at, n) = self.map[v];
        self.pool[at as usize..(at + n) as usize].iter().copied().collect()
    }

    /// The only (or first) operand that holds `v`.
    pub fn one(&self, v: ir::Value) -> V {
        let (at, n) = self.map[v];
        debug_assert!(n >= 1, "{v} has no value in {}", self.f.name);
        self.pool[at as usize]
    }

    /// Sets the operands that hold `v`.
    pub fn set(&mut self, v: ir::Value, vals: &[V]) {
        self.map[v] = (self.pool.len() as u32, vals.len() as u32);
        self.pool.extend_from_slice(vals);
    }

    /// The type of `v`.
    pub fn ty(&self, v: ir::Value) -> Type {
        self.f.ty(v)
    }

    /// The kind of scalar of `v`.
    pub fn scalar_of(&self, v: ir::Value) -> Scalar {
        self.ts.scalar_of(self.f.ty(v)).unwrap_or(Scalar::U64)
    }

    /// The instruction that defines `v`; `None` for a parameter.
    pub fn def(&self, v: ir::Value) -> Option<&'m InstData> {
        self.nesting.def(v)
    }

    /// The bits of `v` if it is a constant scalar.
    pub fn const_of(&self, v: ir::Value) -> Option<u64> {
        self.nesting.const_of(v)
    }

    /// An upper bound of the integer `v`, if one is easy to find.
    pub fn upper_bound(&self, v: ir::Value) -> Option<u64> {
        self.nesting.upper_bound(v)
    }

    /// Returns true if the region may allocate in the arena.
    pub fn allocates(&mut self, region: Region) -> bool {
        if let Some(&known) = self.allocates.get(&region) {
            return known;
        }
        let (f, ts) = (self.f, self.ts);
        let mut found = false;
        for &inst in &f.regions[region].insts {
            let data = &f.insts[inst];
            let stacky = |v: &ir::Value| {
                ts.has_stack(f.ty(*v))
                    || matches!(ts[f.ty(*v)], TypeData::Array(..) | TypeData::Cell(_))
                        && size(ts, f.ty(*v)) * self.lanes > self.big
            };
            found |= match &data.op {
                Op::Zero | Op::Index | Op::Detach => false,
                // One thread's are those of an operand or of an arm.
                Op::Select | Op::If | Op::Switch(_) if self.lanes == 1 => false,
                // The memory of the cell exists already.
                Op::Store | Op::AddTo => ts.has_stack(f.ty(data.args[0])),
                _ => data.results.iter().any(stacky),
            };
            for &nested in &data.regions {
                found |= self.allocates(nested);
            }
        }
        self.allocates.insert(region, found);
        found
    }

    /// Returns true if the allocations of a trip of a loop with this body can be released at its end.
    pub fn releases_trip(&mut self, region: Region) -> bool {
        self.allocates(region) && !self.nesting.grows_outer(region) && !self.hands_on(region)
    }

    /// Returns true if the allocations of a function's body can be released at its end.
    pub fn releases_body(&mut self, region: Region) -> bool {
        !self.hands_on(region) && self.allocates(region)
    }

    /// Returns true if a result of the region may be memory of the arena.
    fn hands_on(&self, region: Region) -> bool {
        self.f.regions[region].results.iter().any(|&v| self.ts.has_stack(self.ty(v)))
    }
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
}

/// The result of emission.
pub type Res<'m, A, T = ()> = Result<T, <A as Assembler<'m>>::Error>;

/// A backend's instructions.
pub trait Assembler<'m>: DerefMut<Target = Walk<'m, <Self as Assembler<'m>>::V>> {
    /// An operand: a number, or the address of memory.
    type V: Copy;
    /// A place in memory.
    type Place: Copy;
    /// The reason why there is no code.
    type Error: From<Unsupported>;
    /// The backend's name in diagnostics.
    const NAME: &'static str;
    /// Integers with fewer bits are divided, converted to floats and searched for bits in 32 bits.
    const LEAST_BITS: u32;

    /// The module.
    fn module(&self) -> &'m ir::Module;
    /// The facts about the module.
    fn plan(&self) -> &Plan;
    /// The tables that code refers to by number or address.
    fn tables(&mut self) -> &mut Tables;

    /// The scalar constant with these bits.
    fn constant(&mut self, s: Scalar, bits: u64) -> Self::V;
    /// The bits of an operand that is a constant, if the assembler knows them.
    fn constant_of(&self, v: Self::V) -> Option<u64>;
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

    /// Calls a function of the runtime; the context is added if the function takes one.
    fn helper(&mut self, helper: Helper, args: &[Self::V]) -> Option<Self::V>;
    /// Emits an operation that works on one thread; `to` is the type of its result.
    fn by_lane(
        &mut self,
        to: Scalar,
        args: &[Self::V],
        one: impl FnMut(&mut Self, &[Self::V]) -> Self::V,
    ) -> Self::V;

    /// The zero of a type that is no number.
    fn zero_of(&mut self, ty: Type) -> Vals<Self::V>;
    /// Emits a selection.
    fn selection(&mut self, data: &InstData) -> Res<'m, Self, Vals<Self::V>>;
    /// Emits `body` for each of the `n` numbers of arrays of type `s`, and writes its results to an array of
    /// type `to_s`.
    fn map_numbers(
        &mut self,
        n: u64,
        s: Scalar,
        args: &[Self::V],
        to_s: Scalar,
        to: Self::V,
        body: impl FnMut(&mut Self, &[Self::V]) -> Res<'m, Self, Self::V>,
    ) -> Res<'m, Self>;

    /// Returns true if the value is not the same in all lanes.
    fn varies(&self, v: ir::Value) -> bool;
    /// Converts a value to the representation of a varying one, if `varying`.
    fn fit(
        &mut self,
        ty: Type,
        vals: Vals<Self::V>,
        varying: bool,
        span: Span,
    ) -> Res<'m, Self, Vals<Self::V>>;
    /// Memory for a value that the current instruction makes.
    fn memory(&mut self, bytes: u64, varying: bool) -> Self::V;
    /// `address + bytes`.
    fn offset(&mut self, address: Self::V, bytes: Self::V) -> Self::V;
    /// The address as a number.
    fn address_bits(&mut self, address: Self::V) -> Self::V;
    /// `a * n`.
    fn times(&mut self, a: Self::V, n: u64) -> Self::V;
    /// An integer as an index of 64 bits: negative ones become huge.
    fn index64(&mut self, v: ir::Value) -> Self::V;
    /// The place of element number `k` of an array, which exists.
    fn part(&mut self, array: Self::V, elem: Type, k: u64) -> Self::Place;
    /// Emits `body` for the place of each of the `n` elements of an array, in a loop if there are many.
    fn each_part(
        &mut self,
        array: Self::V,
        elem: Type,
        n: u64,
        body: &mut dyn FnMut(&mut Self, Self::Place) -> Res<'m, Self>,
    ) -> Res<'m, Self>;
    /// The place of element `idx` of `n` elements of an array.
    fn element(&mut self, array: Self::V, elem: Type, idx: ir::Value, n: u64) -> Self::Place;
    /// The place of an element of a stack; if `certain`, the index is known to be in range.
    fn stack_element(&mut self, stack: Self::V, elem: Type, idx: ir::Value, certain: bool) -> Self::Place;
    /// Loads a value of a type from a place.
    fn load(&mut self, ty: Type, place: Self::Place, span: Span) -> Res<'m, Self, Vals<Self::V>>;
    /// Writes a value of a type to a place.
    fn store(&mut self, ty: Type, vals: &[Self::V], place: Self::Place, span: Span) -> Res<'m, Self>;
    /// Writes a number to word `k` of the operands of a helper.
    fn store_word(&mut self, x: Self::V, words: Self::V, k: usize);
    /// The handle of a global.
    fn global(&mut self, global: ir::Global) -> Vals<Self::V>;
    /// Writes zeros to the memory of a private global.
    fn clear_private(&mut self, base: Self::V, bytes: u64);
    /// Writes a value to the memory of a private global.
    fn store_private(
        &mut self,
        ty: Type,
        vals: &[Self::V],
        base: Self::V,
        offset: u64,
        span: Span,
    ) -> Res<'m, Self>;
    /// Calls the function that computes the initial value of a global.
    fn call_initial(&mut self, func: Func, span: Span) -> Res<'m, Self, Vec<Vals<Self::V>>>;

    /// The memory for a cell.
    fn cell_memory(&mut self, cell: ir::Value, bytes: u64) -> Self::V;
    /// Writes zeros to the memory of a cell.
    fn clear(&mut self, at: Self::V, bytes: u64);
    /// The place of the part of a cell that `cell, i…` selects.
    fn cell_place(
        &mut self,
        data: &InstData,
        args: &[ir::Value],
        access: cells::Access,
    ) -> Res<'m, Self, Self::Place>;
    /// Returns true if the value of an array or stack at the place is its address.
    fn loads_in_place(&self, place: Self::Place) -> bool;
    /// Converts a value to one that a cell can own: a stack is copied.
    fn own(&mut self, ty: Type, vals: Vals<Self::V>) -> Vals<Self::V>;
    /// As [`Self::own`], for a cell that contains the place.
    fn to_own(
        &mut self,
        ty: Type,
        vals: Vals<Self::V>,
        place: Self::Place,
        span: Span,
    ) -> Res<'m, Self, Vals<Self::V>>;
    /// A copy of an array.
    fn copy_of(&mut self, ty: Type, vals: Vals<Self::V>, span: Span) -> Res<'m, Self, Vals<Self::V>>;
    /// Adds an array or a stack to the one at a place.
    fn add_whole(
        &mut self,
        data: &InstData,
        ty: Type,
        vals: Vals<Self::V>,
        place: Self::Place,
    ) -> Res<'m, Self>;

    /// Loads a value from a buffer.
    fn buffer_load(&mut self, data: &InstData, path: &Path) -> Res<'m, Self>;
    /// Writes a value to a buffer.
    fn buffer_store(&mut self, data: &InstData, path: &Path) -> Res<'m, Self>;
    /// Emits an atomic op.
    fn atomic(&mut self, data: &InstData, path: &Path, op: AtomicOp) -> Res<'m, Self>;
    /// Waits for the other threads of the group.
    fn barrier(&mut self, span: Span) -> Res<'m, Self>;
    /// The components of an ID of the threads.
    fn builtin(&mut self, builtin: Builtin, data: &InstData) -> Vals<Self::V>;
    /// Returns true if the code is for a device.
    fn is_device(&self) -> bool;
    /// Returns an error if several threads run at a time.
    fn check_alone(&self, what: &str, span: Span) -> Res<'m, Self>;
    /// Emits code that hardly ever runs: if `c` holds for a thread, whose lane is passed on.
    fn stop_if(&mut self, c: Self::V, body: &mut dyn FnMut(&mut Self, Self::V));
    /// The number of a lane.
    fn of_lane(&mut self, x: Self::V, lane: Self::V) -> Self::V;
    /// Calls a function of the runtime in code that hardly ever runs.
    fn rare_helper(&mut self, helper: Helper, args: &[Self::V]) -> Option<Self::V>;

    /// Emits calls and the ops that hold regions.
    fn control(&mut self, inst: Inst) -> Res<'m, Self>;

    /// Sets the result of an instruction, if it is known already.
    fn has_value(&mut self, _: &InstData) -> bool {
        false
    }

    /// A constant of 64 bits.
    fn number(&mut self, n: u64) -> Self::V {
        self.constant(Scalar::I64, n)
    }

    /// Calls a function of the runtime that has a result.
    fn helper_value(&mut self, helper: Helper, args: &[Self::V]) -> Self::V {
        self.helper(helper, args).expect("the helper has a result")
    }

    /// The error for an op that the backend cannot express.
    fn unsupported<T>(&self, op: &Op, why: &str, span: Span) -> Res<'m, Self, T> {
        let op = format!("{op:?}: {why}");
        Err(Unsupported { backend: Self::NAME, op, span, internal: true }.into())
    }
}

/// Emits the instructions of a region.
pub fn region<'m, A: Assembler<'m>>(e: &mut A, region: Region) -> Res<'m, A> {
    e.f.regions[region].insts.iter().try_for_each(|&i| inst(e, i))
}

/// Emits one instruction.
pub fn inst<'m, A: Assembler<'m>>(e: &mut A, inst: Inst) -> Res<'m, A> {
    let f = e.f;
    let data = &f.insts[inst];
    e.here = data.span;
    path_inst(e, inst);
    if e.has_value(data) {
        return Ok(());
    }
    match &data.op {
        Op::Zero | Op::Select | Op::Sum => numbers::arithmetic(e, data),
        Op::Detach => {
            let vals = e.get(data.args[0]);
            e.set(data.results[0], &vals);
            Ok(())
        }
        Op::CallDerivative(..) | Op::CallTransposeOf(_) => {
            e.unsupported(&data.op, "a derivative that was not generated", data.span)
        }
        op => match op.spec().class {
            Class::Number => numbers::arithmetic(e, data),
            Class::Aggregate => aggregate::aggregate(e, data),
            Class::Cell => cells::cell(e, inst),
            Class::World => world::world(e, data),
            Class::Call | Class::Control => e.control(inst),
            Class::Differential => e.unsupported(&data.op, "a derivative that was not generated", data.span),
        },
    }
}

// ---- the path of a thread, if wave operations need it: see `nesting`

/// Begins a function: if its paths matter, loads the depth at which its own words begin.
pub fn begin_path<'m, A: Assembler<'m>>(e: &mut A, func: Func) {
    if e.plan().converges(func) {
        e.path_base = Some(e.helper_value(Helper::PathLen, &[]));
    }
}

/// Records in the path that an instruction is executed next.
pub fn path_inst<'m, A: Assembler<'m>>(e: &mut A, inst: Inst) {
    let Some(base) = e.path_base else { return };
    for (depth, word) in e.nesting.path_inst(e.plan(), inst) {
        path_word(e, base, depth, word);
    }
}

/// Records in the path that a region of an `if` or `switch` begins.
pub fn path_arm<'m, A: Assembler<'m>>(e: &mut A, region: Region) {
    let Some(base) = e.path_base else { return };
    if let Some((depth, arm)) = e.nesting.path_arm(e.plan(), region) {
        path_word(e, base, depth, arm);
    }
}

/// Records in the path that a trip of a loop begins.
pub fn path_trip<'m, A: Assembler<'m>>(e: &mut A, region: Region) {
    let Some(base) = e.path_base else { return };
    if let Some(depth) = e.nesting.path_trip(e.plan(), region) {
        let at = path_at(e, base, depth);
        e.helper(Helper::PathNext, &[at]);
    }
}

fn path_at<'m, A: Assembler<'m>>(e: &mut A, base: A::V, depth: i64) -> A::V {
    let depth = e.number(depth as u64);
    e.binary(Binary::Add, base, depth)
}

fn path_word<'m, A: Assembler<'m>>(e: &mut A, base: A::V, depth: i64, word: i64) {
    let at = path_at(e, base, depth);
    let word = e.number(word as u64);
    e.helper(Helper::PathSet, &[at, word]);
}
