//! Decides which primal values that the linear side reads are kept, and which are recomputed.
//!
//! Keeping a value outside of all loops costs nothing (it is passed on). In a loop it costs memory for each
//! trip, and time to write and read it; recomputing it costs time, and requires its operands to be available.
//! Choosing the values to keep is a minimum cut: for each value `v` there are two propositions, `there(v)`
//! (it is available on the linear side) and `again(v)` (it is recomputed), and
//!
//! - if the linear side reads `v`, then `there(v)`;
//! - `there(v)` without `again(v)` costs as much as keeping `v`;
//! - `again(v)` costs as much as computing `v`, and implies `there(u)` for each operand `u`.
//!
//! Each clause has at most one negative and one positive literal, so each is an edge between two nodes, and
//! the cheapest assignment is the minimum cut between the false and the true propositions. Counters,
//! constants and induction variables ([`induction`]) cost next to nothing. The costs of values defined in
//! inner loops count once per trip.
//!
//! Any choice is correct as long as each recomputed op is a function of values that are available.

mod budget;
mod cost;
mod cut;
mod flow;
mod frequent;
mod induction;
pub(crate) mod measure;
pub(crate) mod sides;

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::analysis::Tree;
use ir::{Defs, Func, Function, Inst, Module, Op, Region, Value};
use rustc_hash::FxHashMap;

pub(crate) use self::induction::{Induction, inductions};
pub(crate) use self::sides::Sides;
use crate::results::ByRegion;
use crate::unzip::trip_count;

/// The decision for a function.
pub(crate) struct Kept {
    /// The values that the primal side passes to the linear side.
    pub(crate) stored: EntitySet<Value>,
    /// `stored`, by the region that defines each value.
    pub(crate) stored_in: ByRegion<Value>,
    /// `stored`, by each loop around the region that defines the value.
    pub(crate) through: SecondaryMap<Inst, Vec<Value>>,
    /// The instructions that the linear side runs again on entry to a region, in order.
    pub(crate) recomputed_in: ByRegion<Inst>,
    /// The first instruction of the linear side that reads a value.
    pub(crate) readers: FxHashMap<Value, Inst>,
}

/// The parameters of a plan.
pub(crate) struct Policy<'a> {
    /// The function is called in loops, so its residuals are kept for each of their trips.
    pub(crate) in_loop: bool,
    /// How to compute induction variables.
    pub(crate) inductions: &'a FxHashMap<Value, Induction>,
    /// The cost of calling a function again; `None` if it must not be called again.
    pub(crate) calls: &'a FxHashMap<Func, Option<u64>>,
    /// The function has the attribute `[PreferCheckpoint]`.
    pub(crate) prefer_kept: bool,
    /// The factor by which memory costs more than usual.
    pub(crate) thrift: u64,
}

/// The loops around a region.
#[derive(Clone, Copy, Default)]
struct Place {
    depth: u32,
    /// An estimate of how often the region is run.
    trips: u64,
}

struct Plan<'a> {
    module: &'a Module,
    src: &'a Function,
    sides: &'a Sides,
    policy: &'a Policy<'a>,
    defs: Defs,
    tree: Tree,
    /// The index of each value in the order of definition.
    position: SecondaryMap<Value, u32>,
    places: SecondaryMap<Region, Place>,
    /// Trip counters, which are available on the linear side anyway.
    counters: EntitySet<Value>,
    needed: Vec<Value>,
    readers: FxHashMap<Value, Inst>,
    next_position: u32,
}

/// The assumed number of trips of a loop whose bound is unknown.
const TRIPS: u64 = 32;
/// The limit on the product of the trips of all loops around a value.
const MAX_TRIPS: u64 = 1 << 20;

/// Makes the decision for all values that the linear side of `src` reads.
pub(crate) fn plan(module: &Module, src: &Function, sides: &Sides, policy: &Policy) -> Kept {
    let plan = Plan::new(module, src, sides, policy);
    let decision = plan.cut();
    plan.kept(decision)
}

/// The maximum number of trips of a loop, if there is a bound.
pub(crate) fn known_trips(src: &Function, defs: &Defs, inst: Inst) -> Option<u64> {
    let data = &src.insts[inst];
    match data.op {
        Op::For(info) => match defs.op(src, data.args[0]) {
            Some(&Op::Const(n)) => Some(n),
            _ => info.max_iters.map(u64::from),
        },
        // The last trip only evaluates the condition.
        Op::Loop(info) => info.max_iters.map(|n| u64::from(n) + 1),
        _ => None,
    }
}

impl<'a> Plan<'a> {
    fn new(module: &'a Module, src: &'a Function, sides: &'a Sides, policy: &'a Policy<'a>) -> Plan<'a> {
        let mut plan = Plan {
            module,
            src,
            sides,
            policy,
            defs: Defs::of(src),
            tree: Tree::of(src),
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

    fn define(&mut self, values: &[Value]) {
        for &v in values {
            self.position[v] = self.next_position;
            self.next_position += 1;
        }
    }

    /// Notes that a linear instruction reads `v`.
    fn read(&mut self, v: Value, by: Inst) {
        if !self.src.is_linear(v) && !self.readers.contains_key(&v) {
            self.readers.insert(v, by);
            self.needed.push(v);
        }
    }

    /// Notes where each value is defined and which values the linear side reads.
    fn survey(&mut self, region: Region) {
        let src = self.src;
        self.define(&src.regions[region].params);
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
            self.define(&data.results);
        }
    }

    /// The region that defines a value.
    fn home(&self, v: Value) -> Region {
        let of_inst = || self.tree.home(self.defs.inst(v)?);
        self.tree.param(v).map(|param| param.0).or_else(of_inst).expect("a value is defined somewhere")
    }

    fn place(&self, v: Value) -> Place {
        self.places[self.home(v)]
    }

    /// The loops around the definition of a value, innermost first.
    fn loops_around(&self, v: Value) -> impl Iterator<Item = Inst> {
        let regions = std::iter::successors(Some(self.home(v)), |&region| self.tree.parent(region));
        regions.filter(|&region| self.tree.is_loop(region)).filter_map(|region| self.tree.holder(region))
    }

    fn known_trips(&self, inst: Inst) -> Option<u64> {
        known_trips(self.src, &self.defs, inst)
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
            kept.stored_in[self.home(v)].push(v);
            self.loops_around(v).for_each(|around| kept.through[around].push(v));
        }
        let mut recomputed = decision.recomputed;
        let mut done = EntitySet::new();
        recomputed.sort_by_key(|&v| self.position[v]);
        for v in recomputed {
            let insts = &mut kept.recomputed_in[self.home(v)];
            match self.policy.inductions.get(&v) {
                Some(induction) => insts.extend(&induction.insts),
                None => {
                    let inst = self.defs.inst(v).expect("an op computes it");
                    // A call may have several results.
                    if done.insert(inst) {
                        insts.push(inst);
                    }
                }
            }
        }
        kept
    }
}
