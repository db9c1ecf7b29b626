//! Which primal values the linear side reads, and whether each is kept or recomputed: in one place.
//!
//! What is kept outside of all loops costs nothing (it is passed on). In a loop it costs memory for each trip, and time
//! to write and read it; computing it again costs time, and what it is computed from must be there. Which values to keep
//! is a minimum cut: for each value `v` there are two propositions, `there(v)` and `again(v)`, and
//!
//! - if the linear side reads `v`, then `there(v)`;
//! - `there(v)` without `again(v)` costs what it costs to keep `v`;
//! - `again(v)` costs what it costs to compute `v`, and implies `there(u)` of each operand `u`.
//!
//! Each clause has at most one negative and one positive literal, so each is an edge between the two nodes, and the
//! cheapest assignment is the minimum cut between what is false and what is true. Counters, constants and induction
//! variables ([`induction`]) cost next to nothing. Values that are made in inner loops count once for each trip.
//!
//! Any choice is right as long as each recomputed op is a function of values that are there.

mod budget;
mod cost;
mod cut;
mod flow;
mod frequent;
mod induction;
pub(crate) mod measure;
pub(crate) mod sides;

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use ir::{Defs, Func, Function, Inst, Module, Op, Region, Value};
use rustc_hash::FxHashMap;

pub(crate) use self::induction::{Induction, inductions};
pub(crate) use self::sides::Sides;
use crate::unzip::{ByRegion, trip_count};

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

/// What is asked of a plan.
pub(crate) struct Policy<'a> {
    /// Whether the function is called in loops, so that what it returns is kept for each of their trips.
    pub(crate) in_loop: bool,
    /// How to compute induction variables.
    pub(crate) inductions: &'a FxHashMap<Value, Induction>,
    /// What it costs to call a function again, where that does no harm.
    pub(crate) calls: &'a FxHashMap<Func, Option<u64>>,
    /// `[PreferCheckpoint]`.
    pub(crate) prefer_kept: bool,
    /// How much more than usual memory counts.
    pub(crate) thrift: u64,
}

/// Where a region stands.
#[derive(Clone, Copy, Default)]
struct Place {
    holder: PackedOption<Inst>,
    outer: PackedOption<Region>,
    depth: u32,
    /// How often it is run, as far as one can tell; 0 for once.
    trips: u64,
}

struct Plan<'a> {
    module: &'a Module,
    src: &'a Function,
    sides: &'a Sides,
    policy: &'a Policy<'a>,
    defs: Defs,
    region_of: SecondaryMap<Value, PackedOption<Region>>,
    /// The order of definition.
    position: SecondaryMap<Value, u32>,
    places: SecondaryMap<Region, Place>,
    /// The numbers of trips, which the linear side has anyway.
    counters: EntitySet<Value>,
    needed: Vec<Value>,
    readers: FxHashMap<Value, Inst>,
    next_position: u32,
}

/// Trips of a loop of which nothing is known.
const TRIPS: u64 = 32;
/// Trips of all loops around a value count up to this.
const MAX_TRIPS: u64 = 1 << 20;

/// Decides for all values that the linear side of `src` reads.
pub(crate) fn plan(module: &Module, src: &Function, sides: &Sides, policy: &Policy) -> Kept {
    let plan = Plan::new(module, src, sides, policy);
    let decision = plan.cut();
    plan.kept(decision)
}

impl<'a> Plan<'a> {
    fn new(module: &'a Module, src: &'a Function, sides: &'a Sides, policy: &'a Policy<'a>) -> Plan<'a> {
        let mut plan = Plan {
            module,
            src,
            sides,
            policy,
            defs: Defs::of(src),
            region_of: SecondaryMap::new(),
            position: SecondaryMap::new(),
            places: SecondaryMap::new(),
            counters: EntitySet::new(),
            needed: Vec::new(),
            readers: FxHashMap::default(),
            next_position: 0,
        };
        plan.places[src.body()].trips = 1;
        plan.survey(src.body());
        plan
    }

    fn define(&mut self, v: Value, region: Region) {
        self.region_of[v] = Some(region).into();
        self.position[v] = self.next_position;
        self.next_position += 1;
    }

    /// The linear instruction reads it.
    fn read(&mut self, v: Value, by: Inst) {
        if !self.src.is_linear(v) && !self.readers.contains_key(&v) {
            self.readers.insert(v, by);
            self.needed.push(v);
        }
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
            let trips = if is_loop { self.known_trips(inst).unwrap_or(TRIPS).clamp(1, MAX_TRIPS) } else { 1 };
            for &nested in &data.regions {
                let outer = self.places[region];
                self.places[nested] = Place {
                    holder: Some(inst).into(),
                    outer: Some(region).into(),
                    depth: outer.depth + u32::from(is_loop),
                    trips: outer.trips.saturating_mul(trips).min(MAX_TRIPS),
                };
                let params = &src.regions[nested].params;
                match data.op {
                    Op::For(_) => _ = self.counters.insert(params[0]),
                    Op::Loop(_) if mixed => self.counters.extend(params.last().copied()),
                    _ => (),
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

    fn place(&self, v: Value) -> Place {
        let region = self.region_of[v].expand().expect("a value is defined somewhere");
        self.places[region]
    }

    /// The trips of a loop at most, if there is a bound.
    fn known_trips(&self, inst: Inst) -> Option<u64> {
        let data = &self.src.insts[inst];
        match data.op {
            Op::For(info) => match self.src.insts[self.defs.inst(data.args[0])?].op {
                Op::Const(n) => Some(n),
                _ => info.max_iters.map(u64::from),
            },
            // The last one finds out that it is the last.
            Op::Loop(info) => info.max_iters.map(|n| u64::from(n) + 1),
            _ => None,
        }
    }

    fn kept(mut self, decision: cut::Decision) -> Kept {
        let mut kept = Kept {
            stored: decision.stored,
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
        let mut recomputed = decision.recomputed;
        let mut done = EntitySet::new();
        recomputed.sort_by_key(|&v| self.position[v]);
        for v in recomputed {
            let region = self.region_of[v].expand().expect("a value is defined somewhere");
            let insts = &mut kept.recomputed_in[region];
            match self.policy.inductions.get(&v) {
                Some(induction) => insts.extend(&induction.insts),
                None => {
                    let inst = self.defs.inst(v).expect("an op computes it");
                    // A call gives several values.
                    if done.insert(inst) {
                        insts.push(inst);
                    }
                }
            }
        }
        kept
    }
}
