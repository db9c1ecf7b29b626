//! Which primal values the linear side reads, and whether each is kept or recomputed: in one place.
//!
//! What is kept outside of all loops costs nothing (it is passed on). In a loop it costs memory for each
//! trip, so a value is recomputed if that takes a few cheap, pure ops on what is there anyway: constants,
//! the loop's own counter, what is kept for other reasons, and values of outer loops. Memory that kernels
//! only read counts as pure. Everything else is stored once, however often it is read; or in its place
//! what it is computed from, if that takes fewer bytes.
//!
//! Any choice is right as long as each recomputed op is a function of values that are there; this one
//! keeps memory within a constant factor of the number of values that the derivative really reads.

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use ir::{Function, Inst, Math, Module, Op, Region, Space, Value};
use rustc_hash::FxHashMap;

use crate::propagate::defs;
use crate::unzip::{ByRegion, trip_count};

/// Which half each instruction belongs to. In neither set: the primal one.
pub(crate) struct Sides {
    /// Wholly linear.
    pub(crate) linear: EntitySet<Inst>,
    /// Structured, with linear instructions inside or linear results.
    pub(crate) mixed: EntitySet<Inst>,
}

impl Sides {
    pub(crate) fn new(src: &Function, linear_calls: &EntitySet<Inst>) -> Sides {
        let mut sides = Sides { linear: EntitySet::new(), mixed: EntitySet::new() };
        sides.region(src, src.body(), linear_calls);
        sides
    }

    fn region(&mut self, src: &Function, region: Region, linear_calls: &EntitySet<Inst>) -> bool {
        let mut found = false;
        for &inst in &src.regions[region].insts {
            let data = &src.insts[inst];
            if data.regions.is_empty() {
                let is_linear = data.results.iter().any(|&v| src.is_linear(v))
                    || matches!(data.op, Op::CallTransposeOf(_))
                    || matches!(data.op, Op::Store | Op::AddTo) && src.is_linear(data.args[0])
                    || linear_calls.contains(inst);
                if is_linear {
                    self.linear.insert(inst);
                    found = true;
                }
            } else {
                let mut inside = data.results.iter().any(|&v| src.is_linear(v));
                for &nested in &data.regions {
                    inside |= self.region(src, nested, linear_calls);
                }
                if inside {
                    self.mixed.insert(inst);
                    found = true;
                }
            }
        }
        found
    }
}

/// The decision.
pub(crate) struct Kept {
    /// The values that the primal side hands over.
    pub(crate) stored: EntitySet<Value>,
    /// The same, by the region that defines them.
    pub(crate) stored_in: ByRegion<Value>,
    /// The same, by each loop around that region.
    pub(crate) through: SecondaryMap<Inst, Vec<Value>>,
    /// What the linear side computes again on entry to a region, in order.
    pub(crate) recomputed_in: ByRegion<Inst>,
    /// The first instruction of the linear side that reads a value.
    pub(crate) readers: FxHashMap<Value, Inst>,
}

/// Where a region stands.
#[derive(Clone, Copy, Default)]
struct Place {
    holder: PackedOption<Inst>,
    outer: PackedOption<Region>,
    depth: u32,
}

struct Plan<'a> {
    module: &'a Module,
    src: &'a Function,
    sides: &'a Sides,
    defs: SecondaryMap<Value, PackedOption<Inst>>,
    region_of: SecondaryMap<Value, PackedOption<Region>>,
    /// The order of definition.
    position: SecondaryMap<Value, u32>,
    places: SecondaryMap<Region, Place>,
    counters: EntitySet<Value>,
    needed: EntitySet<Value>,
    work: Vec<Value>,
    readers: FxHashMap<Value, Inst>,
    stored: EntitySet<Value>,
    recomputed: EntitySet<Value>,
    next_position: u32,
}

/// What is found while it is decided whether to compute a value again.
struct Again {
    /// Loops around the value.
    depth: u32,
    /// What may still be spent.
    budget: u32,
    /// To be computed, operands first.
    tree: Vec<Value>,
    /// To be there.
    leaves: Vec<Value>,
    /// Bytes for each trip of those leaves that would be kept for this alone.
    bytes: u64,
}

/// Cheap enough to do again rather than to keep.
const BUDGET: u32 = 10;

/// Decides for all values that the linear side of `src` reads.
pub(crate) fn plan(module: &Module, src: &Function, sides: &Sides) -> Kept {
    let mut plan = Plan {
        module,
        src,
        sides,
        defs: defs(src),
        region_of: SecondaryMap::new(),
        position: SecondaryMap::new(),
        places: SecondaryMap::new(),
        counters: EntitySet::new(),
        needed: EntitySet::new(),
        work: Vec::new(),
        readers: FxHashMap::default(),
        stored: EntitySet::new(),
        recomputed: EntitySet::new(),
        next_position: 0,
    };
    plan.survey(src.body());
    let mut direct = std::mem::take(&mut plan.work);
    // What has to be stored in any case comes first, for the rest may be computed from it.
    direct.sort_by_key(|&v| (plan.op_cost(v).is_some(), plan.position[v]));
    for v in direct {
        plan.decide(v);
    }
    while let Some(v) = plan.work.pop() {
        plan.decide(v);
    }
    plan.kept()
}

impl Plan<'_> {
    fn define(&mut self, v: Value, region: Region) {
        self.region_of[v] = Some(region).into();
        self.position[v] = self.next_position;
        self.next_position += 1;
    }

    fn need(&mut self, v: Value) {
        if !self.src.is_linear(v) && self.needed.insert(v) {
            self.work.push(v);
        }
    }

    /// The linear instruction reads it.
    fn read(&mut self, v: Value, by: Inst) {
        if !self.src.is_linear(v) {
            self.readers.entry(v).or_insert(by);
        }
        self.need(v);
    }

    /// Notes where each value is defined and what the linear side reads.
    fn survey(&mut self, region: Region) {
        let src = self.src;
        for &v in &src.regions[region].params {
            self.define(v, region);
        }
        for &inst in &src.regions[region].insts {
            let data = &src.insts[inst];
            let mixed = self.sides.mixed.contains(inst);
            let is_loop = matches!(data.op, Op::For(_) | Op::Loop(_));
            if self.sides.linear.contains(inst) {
                data.args.iter().for_each(|&v| self.read(v, inst));
            } else if mixed && !is_loop {
                self.read(data.args[0], inst);
            }
            for &nested in &data.regions {
                let depth = self.places[region].depth + u32::from(is_loop);
                self.places[nested] = Place { holder: Some(inst).into(), outer: Some(region).into(), depth };
                if matches!(data.op, Op::For(_)) {
                    self.counters.insert(src.regions[nested].params[0]);
                }
                self.survey(nested);
            }
            if mixed && is_loop {
                self.read(trip_count(src, inst), inst);
            }
            for &v in &data.results {
                self.define(v, region);
            }
        }
    }

    fn depth(&self, v: Value) -> u32 {
        let region = self.region_of[v].expand().expect("a value is defined somewhere");
        self.places[region].depth
    }

    fn decide(&mut self, v: Value) {
        if self.is_free(v) || self.stored.contains(v) {
            return;
        }
        let depth = self.depth(v);
        let always = self.defs[v].expand().is_some_and(|inst| {
            matches!(self.src.insts[inst].op, Op::Const(_) | Op::Zero | Op::GlobalRef(_))
        });
        let mut work = Again { depth, budget: BUDGET, tree: Vec::new(), leaves: Vec::new(), bytes: 0 };
        // A few bytes may be kept in the place of more, as the number under a `splat`.
        if (always || depth > 0)
            && self.op_cost(v).is_some()
            && self.expand(v, &mut work)
            && (work.bytes == 0 || work.bytes < self.bytes(v))
        {
            for v in work.tree {
                self.needed.insert(v);
                self.recomputed.insert(v);
            }
            work.leaves.into_iter().for_each(|v| self.need(v));
        } else {
            self.stored.insert(v);
        }
    }

    fn bytes(&self, v: Value) -> u64 {
        self.module.types.bytes(self.src.ty(v))
    }

    /// There on the linear side already.
    fn is_free(&self, v: Value) -> bool {
        self.counters.contains(v) || self.recomputed.contains(v)
    }

    /// What it costs to do the instruction again that defines `v`.
    fn op_cost(&self, v: Value) -> Option<u32> {
        self.defs[v].expand().and_then(|inst| self.cost(inst))
    }

    /// Adds to `work` what has to be computed for `v` or kept in its place; false if that cannot be.
    fn expand(&self, v: Value, work: &mut Again) -> bool {
        if self.is_free(v) || self.stored.contains(v) || work.tree.contains(&v) || work.leaves.contains(&v) {
            return true;
        }
        let cost = self.op_cost(v);
        if self.depth(v) < work.depth && !matches!(cost, Some(0)) {
            work.leaves.push(v);
            return true;
        }
        match (self.defs[v].expand(), cost) {
            (Some(inst), Some(cost)) if cost <= work.budget => {
                work.budget -= cost;
                let args = &self.src.insts[inst].args;
                let all = args.iter().all(|&a| self.expand(a, work));
                work.tree.push(v);
                all
            }
            _ => {
                work.leaves.push(v);
                work.bytes += self.bytes(v);
                !self.module.types.has_stack(self.src.ty(v))
            }
        }
    }

    /// What it costs to do an instruction again; `None` if that cannot or should not be done.
    fn cost(&self, inst: Inst) -> Option<u32> {
        let data = &self.src.insts[inst];
        let ty = |v: Value| self.src.ty(v);
        let types = &self.module.types;
        let is_small = |v: Value| types.is_numeric(ty(v));
        let float = |v: Value| types.is_differentiable(ty(v));
        match &data.op {
            Op::Const(_) | Op::GlobalRef(_) => Some(0),
            Op::Zero => Some(0),
            Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Neg
            | Op::And
            | Op::Or
            | Op::Xor
            | Op::Not
            | Op::Shl
            | Op::Shr
            | Op::Eq
            | Op::Ne
            | Op::Lt
            | Op::Le
            | Op::Gt
            | Op::Ge
            | Op::Convert
            | Op::Bitcast
            | Op::Extract(_)
            | Op::Index
            | Op::Builtin(_)
            | Op::Sum
                if is_small(data.results[0]) =>
            {
                Some(1)
            }
            // A short row of an array of arrays.
            Op::Index if types.bytes(ty(data.results[0])) <= 128 && !types.has_stack(ty(data.args[0])) => {
                Some(2)
            }
            Op::Select | Op::Detach | Op::Construct | Op::Splat | Op::Insert(_)
                if is_small(data.results[0]) =>
            {
                Some(1)
            }
            Op::Div | Op::Rem if !float(data.results[0]) => Some(4),
            Op::Math(Math::Floor | Math::Ceil | Math::Trunc | Math::Min | Math::Max | Math::Abs) => Some(2),
            Op::BufferOffset | Op::BufferCast | Op::BufferLen | Op::BufferAddress => Some(1),
            Op::BufferLoad(_) => {
                let handle = self.defs[data.args[0]].expand()?;
                match self.src.insts[handle].op {
                    Op::GlobalRef(global) => match self.module.globals[global].space {
                        Space::ReadOnly | Space::Uniform if is_small(data.results[0]) => Some(2),
                        Space::ReadOnly | Space::Uniform => None,
                        Space::ReadWrite | Space::GroupShared | Space::Private => None,
                    },
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn kept(mut self) -> Kept {
        let mut kept = Kept {
            stored: std::mem::take(&mut self.stored),
            stored_in: SecondaryMap::new(),
            through: SecondaryMap::new(),
            recomputed_in: SecondaryMap::new(),
            readers: std::mem::take(&mut self.readers),
        };
        let stored: Vec<Value> = kept.stored.iter().collect();
        for v in stored {
            let region = self.region_of[v].expand().expect("a value is defined somewhere");
            kept.stored_in[region].push(v);
            let mut place = self.places[region];
            while let (Some(holder), Some(outer)) = (place.holder.expand(), place.outer.expand()) {
                if matches!(self.src.insts[holder].op, Op::For(_) | Op::Loop(_)) {
                    kept.through[holder].push(v);
                }
                place = self.places[outer];
            }
        }
        let mut recomputed: Vec<Value> = self.recomputed.iter().collect();
        recomputed.sort_by_key(|&v| self.position[v]);
        for v in recomputed {
            let region = self.region_of[v].expand().expect("a value is defined somewhere");
            kept.recomputed_in[region].push(self.defs[v].expand().expect("an op computes it"));
        }
        kept
    }
}
