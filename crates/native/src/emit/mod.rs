//! The walk over the IR that the emitters of CPU backends share.
//!
//! A backend is an [`Assembler`]: it offers instructions, memory of the function, and calls of the runtime.
//! The meaning of each op in terms of these is written here once, for Cranelift's instructions, which work on one
//! thread, and for LLVM's, which also work on lanes. An emitter contains a [`Walk`], to which it
//! dereferences: the values of the function, and what is known of its structure.

mod aggregate;
mod assembler;
pub mod cells;
pub mod control;
pub mod functions;
mod loops;
pub mod memory;
pub mod numbers;
pub mod world;

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::{Class, Func, Function, Inst, InstData, Op, Region, Scalar, Span, Type, TypeData, Types};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::nesting::Nesting;
use crate::runtime::Helper;
use crate::types::size;

pub use assembler::{Assembler, Binary, Cast, Compare, Fixed, Instructions, Memory, Odds, Stack, Unary};

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
        self.nesting.analyses.def(v)
    }

    /// The bits of `v` if it is a constant scalar.
    pub fn const_of(&self, v: ir::Value) -> Option<u64> {
        self.nesting.analyses.constant(v)
    }

    /// An upper bound of the integer `v`, if one is easy to find.
    pub fn upper_bound(&self, v: ir::Value) -> Option<u64> {
        self.nesting.analyses.bounds().upper(v)
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

/// The result of emission.
pub type Res<'m, A, T = ()> = Result<T, <A as Instructions<'m>>::Error>;

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
            Class::Call | Class::Control => control::control(e, inst),
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
