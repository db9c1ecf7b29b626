//! The state of the walk over a function: the values, and what is known of the function's structure.

use std::rc::Rc;

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::analysis::bundles::{Bundle, Bundles, Form};
use ir::{Function, InstData, Op, Region, Scalar, Span, Type, TypeData, Types};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::in_range::InRange;
use crate::nesting::Nesting;
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
    /// The memory of each cell whose final content is a result of the function.
    pub(super) destinations: FxHashMap<ir::Value, V>,
    /// The path of each cell within a cell.
    pub sub_cells: FxHashMap<ir::Value, Vec<ir::Value>>,
    /// The function's structure.
    pub nesting: Nesting<'m>,
    /// The stacks that are passed on together.
    pub bundles: Rc<Bundles>,
    /// The pointer to each bundle.
    held: Vec<Option<V>>,
    /// The reads of stacks that are known to be in range.
    pub inside: EntitySet<ir::Value>,
    /// The global whose memory each handle refers to.
    pub roots: FxHashMap<ir::Value, ir::Global>,
    /// The depth of the function's path, if paths matter.
    pub path_base: Option<V>,
    /// The line of the instruction being emitted.
    pub here: Span,
    /// For a profile: the numbers of that line, of the region that is being emitted and of the one that ended last.
    pub location: Option<u32>,
    /// See `location`.
    pub region_number: Option<u32>,
    /// See `location`.
    pub region_before: Option<u32>,
    /// Memoises which regions allocate in the arena.
    allocates: FxHashMap<Region, bool>,
    /// In a loop of which all indices are in range, what is known of them.
    pub(super) in_range: Option<InRange<V>>,
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
        let nesting = Nesting::of(f, ts);
        let bundles = Rc::new(Bundles::of(&nesting.analyses, Form::Headers(crate::MOST_BUNDLED)));
        Walk {
            f,
            ts,
            map: SecondaryMap::new(),
            pool: Vec::new(),
            big: if crowd.saturating_mul(lanes) > CROWDED { CROWDED_BIG } else { BIG },
            destinations: FxHashMap::default(),
            sub_cells: FxHashMap::default(),
            nesting,
            held: vec![None; bundles.count()],
            bundles,
            inside: ir::analysis::reads_in_range(ts, f),
            roots: FxHashMap::default(),
            path_base: None,
            here: f.span,
            location: None,
            region_number: None,
            region_before: None,
            allocates: FxHashMap::default(),
            in_range: None,
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
        assert!(n >= 1, "{v} has no value in {}", self.f.name);
        self.pool[at as usize]
    }

    /// Sets the operands that hold `v`.
    pub fn set(&mut self, v: ir::Value, vals: &[V]) {
        self.map[v] = (self.pool.len() as u32, vals.len() as u32);
        self.pool.extend_from_slice(vals);
    }

    /// The pointer to a bundle.
    pub fn held(&self, bundle: Bundle) -> V {
        self.held[bundle].expect("a bundle is set before it is used")
    }

    /// Sets the pointer to a bundle.
    pub fn hold(&mut self, bundle: Bundle, pointer: V) {
        self.held[bundle] = Some(pointer);
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
