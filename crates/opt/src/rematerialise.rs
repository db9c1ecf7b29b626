//! Rematerialises elements of stacks where they are read.
//!
//! Reverse mode keeps on a stack the values that its sweep back through a loop reads. Which values it keeps
//! is decided for one function at a time, where nothing is known about buffers; here, in the whole of a
//! kernel, it is known which buffers are never written, and what else still needs the loop. So `index s, t`,
//! with `s` the stack of the values that the trips of a `for` yield, becomes the computation of trip `t`
//! itself if that computation only uses numbers from before the loop, the number of the trip, and memory that
//! nothing in the function writes. A loop that only served its stack is then dead.
//!
//! The rewrite is right because every operand has the value that it had in trip `t`, and `t` is a trip: it is
//! the counter of a loop with as many trips, or such a counter subtracted from the last trip. (Reading past
//! the end of a stack gives zero.)
//!
//! It is done where computing a value again costs no more than keeping it. A computation that only the stack
//! needed is moved rather than repeated, and costs nothing.

use cranelift_entity::EntitySet;
use ir::analysis::cost::{OP, again, keep, lanes};
use ir::analysis::points_to::{direct_global, root_global};
use ir::analysis::{Analyses, Defs, Summaries, Use, is_last_trip};
use ir::{Function, Global, Inst, InstData, Op, Region, RegionData, TypeData, Types, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::util::ValueMap;
use ir::transform::Subst;

/// The maximum number of instructions in one computation.
const MOST: usize = 32;
/// The maximum depth of operands and arms that are followed.
const DEPTH: u32 = 24;
/// The maximum depth of stacks within stacks.
const LOOPS: usize = 4;

/// Rematerialises elements where it is worthwhile; returns true if anything changed. Only valid after AD.
pub(crate) fn run(types: &Types, func: &mut Function, summaries: &Summaries) -> bool {
    let has_stacks = |inst: Inst| {
        let data = &func.insts[inst];
        matches!(data.op, Op::For(_)) && data.results.len() > data.n_carried()
    };
    if !func.any(func.body(), &has_stacks) {
        return false;
    }
    let mut survey =
        Survey { analyses: Analyses::of(types, func), types, func, written: FxHashSet::default() };
    if !survey.find_writes(summaries) {
        return false;
    }
    let found = survey.decide();
    if found.is_empty() {
        return false;
    }
    let mut list: Vec<Plan> = found;
    let mut subst = Subst::default();
    let defs = Defs::of(func);
    for plan in &mut list {
        let mut map = plan.map.clone();
        let copy = emit(func, &defs, &plan.slice.insts, plan.value, &mut map, &mut plan.copies);
        subst.set(plan.result, copy);
    }
    let mut at: FxHashMap<Inst, usize> = FxHashMap::default();
    at.extend(list.iter().enumerate().map(|(n, plan)| (plan.index, n)));
    func.rebuild(|_, inst, out| match at.get(&inst) {
        Some(&n) if list[n].arm.is_none() => out.append(&mut list[n].copies),
        Some(_) => {}
        None => out.push(inst),
    });
    for plan in &mut list {
        if let Some(arm) = plan.arm {
            let mut insts = std::mem::take(&mut plan.copies);
            insts.append(&mut func.regions[arm].insts);
            func.regions[arm].insts = insts;
        }
    }
    subst.apply_everywhere(func);
    true
}

/// Loops, each with the trip that is read.
type Trips = SmallVec<[(Inst, Value); 2]>;

/// A read that is replaced.
struct Plan {
    index: Inst,
    result: Value,
    /// The value that the innermost loop yields.
    value: Value,
    /// Maps the counters of the loops to the trips that replace them.
    map: ValueMap,
    slice: Slice,
    /// The arm that the copies move to, if only that arm needs them.
    arm: Option<Region>,
    copies: Vec<Inst>,
}

struct Survey<'a> {
    analyses: Analyses<'a>,
    types: &'a Types,
    func: &'a Function,
    /// The globals that the function writes.
    written: FxHashSet<Global>,
}

impl Survey<'_> {
    /// Finds the globals that are written. Returns false if that is not known, or if other threads may write
    /// as well.
    fn find_writes(&mut self, summaries: &Summaries) -> bool {
        let (func, mut known) = (self.func, true);
        func.walk(func.body(), &mut |inst| match func.insts[inst].op {
            Op::BufferStore(_) | Op::Atomic(..) => {
                match root_global(func, self.analyses.defs(), func.insts[inst].args[0]) {
                    Some(global) => _ = self.written.insert(global),
                    None => known = false,
                }
            }
            Op::Printf(_) | Op::Assert(_) => {}
            _ => known &= !summaries.inst(func, self.analyses.defs(), inst).writes,
        });
        known
    }

    /// The instructions that use a value; a loop or `if` whose region yields the value counts once for each
    /// such result.
    fn users(&self, v: Value) -> impl Iterator<Item = Inst> {
        self.analyses.uses().of_value(v).iter().filter_map(|&at| match at {
            Use::Operand(inst, _) => Some(inst),
            Use::Result(region, _) => self.analyses.tree().holder(region),
        })
    }

    /// The loops whose stacks an `index` reads, outermost first, with the trips that it reads, and the value
    /// that the innermost loop yields.
    fn chain(&self, index: Inst) -> Option<(Trips, Value)> {
        let func = self.func;
        let mut trips: SmallVec<[Value; 2]> = SmallVec::new();
        let mut stack = func.insts[index].args[0];
        trips.push(func.insts[index].args[1]);
        let mut around = loop {
            let inst = self.analyses.inst(stack)?;
            match func.insts[inst].op {
                Op::Index => {
                    trips.push(func.insts[inst].args[1]);
                    stack = func.insts[inst].args[0];
                }
                Op::For(_) => break inst,
                _ => return None,
            }
            if trips.len() > LOOPS {
                return None;
            }
        };
        let outermost = func.insts[around].regions[0];
        let mut loops = Trips::new();
        loop {
            let data = &func.insts[around];
            let Op::For(info) = data.op else { return None };
            let (_, k) = self.analyses.defs().result(stack)?;
            let trip = trips.pop()?;
            let bounded = info.max_iters.is_some();
            if bounded || k < data.n_carried() || !self.is_trip(trip, data.args[0], outermost) {
                return None;
            }
            loops.push((around, trip));
            // Stacks come after the carried values in both lists, so `k` is the same in both.
            let yielded = func.regions[data.regions[0]].results[k];
            if trips.is_empty() {
                return Some((loops, yielded));
            }
            let inner = self.analyses.inst(yielded)?;
            if self.analyses.home(inner) != Some(data.regions[0]) {
                return None;
            }
            (stack, around) = (yielded, inner);
        }
    }

    /// Returns true if `t` is a trip of a loop of `n` trips: the counter of such a loop, or such a counter
    /// subtracted from the last trip.
    fn is_trip(&self, t: Value, n: Value, outermost: Region) -> bool {
        let (func, all) = (self.func, &self.analyses);
        if all.is_defined_in(n, outermost) && all.constant(n).is_none() {
            return false;
        }
        let same =
            |a: Value, b: Value| a == b || all.constant(a).is_some() && all.constant(a) == all.constant(b);
        let counts = |v: Value| all.trips().counter(v).is_some_and(|of| same(func.insts[of].args[0], n));
        let is_mirrored = |data: &InstData| {
            data.op == Op::Sub
                && counts(data.args[1])
                && is_last_trip(self.types, func, all.defs(), data.args[0], n)
        };
        counts(t) || all.def(t).is_some_and(is_mirrored)
    }

    fn decide(&self) -> Vec<Plan> {
        let func = self.func;
        let mut found: Vec<Plan> = Vec::new();
        func.walk(func.body(), &mut |inst| {
            let data = &func.insts[inst];
            if data.op != Op::Index
                || !matches!(self.types[func.ty(data.args[0])], TypeData::Stack(_))
                || !matches!(self.types[func.ty(data.results[0])], TypeData::Scalar(_) | TypeData::Vector(..))
            {
                return;
            }
            let Some((loops, value)) = self.chain(inst) else { return };
            if !self.in_its_loop(inst, &loops) {
                return;
            }
            let outermost = func.insts[loops[0].0].regions[0];
            let map: ValueMap = loops
                .iter()
                .map(|&(l, trip)| (func.regions[func.insts[l].regions[0]].params[0], trip))
                .collect();
            let mut slice = Slice::default();
            if self.slice(value, outermost, &map, &mut slice, DEPTH) {
                let result = data.results[0];
                let arm = self.only_arm(inst, result);
                found.push(Plan { index: inst, result, value, map, slice, arm, copies: Vec::new() });
            }
        });
        let moved = self.moved(&found);
        found.retain(|plan| {
            let repeated = plan.slice.list.iter().filter(|&&inst| !moved.contains(inst));
            let cost: u64 = repeated.map(|&inst| self.cost(inst).unwrap_or(0)).sum();
            cost <= keep(self.types, func.ty(plan.result))
        });
        found
    }

    /// The arm that contains all reads of an instruction's result, if it belongs to an `if` in the same
    /// region as the instruction.
    fn only_arm(&self, inst: Inst, result: Value) -> Option<Region> {
        let tree = self.analyses.tree();
        let arm = tree.home(self.users(result).next()?)?;
        let holder = tree.holder(arm)?;
        let beside = self.func.insts[holder].op == Op::If && tree.home(holder) == tree.home(inst);
        (beside && self.users(result).all(|user| tree.home(user) == Some(arm))).then_some(arm)
    }

    /// The computations that only the stacks need: instructions whose results are used only by other such
    /// instructions, or yielded to a stack from which they are no longer read.
    fn moved(&self, found: &[Plan]) -> EntitySet<Inst> {
        let func = self.func;
        let mut replaced: EntitySet<Inst> = EntitySet::new();
        replaced.extend(found.iter().map(|plan| plan.index));
        let yielded: FxHashSet<Value> = found
            .iter()
            .filter(|plan| self.is_read_by(func.insts[plan.index].args[0], &replaced))
            .map(|plan| plan.value)
            .collect();
        let mut order: Vec<Inst> = found.iter().flat_map(|plan| plan.slice.list.iter().copied()).collect();
        order.sort_unstable();
        order.dedup();
        let mut moved: EntitySet<Inst> = EntitySet::new();
        moved.extend(order.iter().copied());
        loop {
            let mut changed = false;
            for &inst in &order {
                let stays = func.insts[inst].results.iter().any(|r| {
                    let mut yields = usize::from(yielded.contains(r));
                    self.users(*r).any(|user| {
                        let is_loop = matches!(func.insts[user].op, Op::For(_));
                        if is_loop && yields > 0 {
                            yields -= 1;
                            return false;
                        }
                        !moved.contains(user)
                    })
                });
                if stays && moved.remove(inst) {
                    changed = true;
                }
            }
            if !changed {
                return moved;
            }
        }
    }

    /// Returns true if only the instructions in `replaced` read a stack or its parts.
    fn is_read_by(&self, stack: Value, replaced: &EntitySet<Inst>) -> bool {
        // Look at the whole stack of stacks, starting from its outermost loop.
        let mut whole = stack;
        while let Some(data) = self.analyses.def(whole).filter(|data| data.op == Op::Index) {
            whole = data.args[0];
        }
        self.parts_are_read_by(whole, replaced)
    }

    fn parts_are_read_by(&self, stack: Value, replaced: &EntitySet<Inst>) -> bool {
        self.users(stack).all(|user| {
            replaced.contains(user)
                || self.func.insts[user].op == Op::Index
                    && self.func.insts[user].args[0] == stack
                    && self.parts_are_read_by(self.func.insts[user].results[0], replaced)
        })
    }

    /// Returns true if an `index` runs no more often than the loops that it reads back: the counter of the
    /// innermost loop around it occurs in one of the trips.
    fn in_its_loop(&self, index: Inst, loops: &[(Inst, Value)]) -> bool {
        let mut region = self.analyses.home(index);
        while let Some(at) = region {
            let Some(holder) = self.analyses.tree().holder(at) else { return false };
            match self.func.insts[holder].op {
                Op::For(_) => {
                    let counter = self.func.regions[at].params[0];
                    let is_part = |data: &InstData| data.args.contains(&counter);
                    let reads = |t: Value| t == counter || self.analyses.def(t).is_some_and(is_part);
                    return loops.iter().any(|&(_, t)| reads(t));
                }
                Op::Loop(_) => return false,
                _ => region = self.analyses.home(holder),
            }
        }
        false
    }

    /// Collects the instructions within the loops that compute `v`; returns false if `v` cannot be computed
    /// again.
    fn slice(&self, v: Value, outermost: Region, map: &ValueMap, slice: &mut Slice, depth: u32) -> bool {
        if map.contains_key(&v) || !self.analyses.is_defined_in(v, outermost) {
            return true;
        }
        let Some(inst) = self.analyses.inst(v) else { return false };
        if slice.insts.contains(inst) {
            return true;
        }
        if self.cost(inst).is_none() || depth == 0 || slice.list.len() >= MOST {
            return false;
        }
        let func = self.func;
        let data = &func.insts[inst];
        slice.insts.insert(inst);
        slice.list.push(inst);
        let mut all = data.args.iter().all(|&a| self.slice(a, outermost, map, slice, depth - 1));
        if data.op == Op::If {
            let Some(k) = data.results.iter().position(|&r| r == v) else { return false };
            all &= data.results.len() == 1
                && data
                    .regions
                    .iter()
                    .all(|&arm| self.slice(func.regions[arm].results[k], outermost, map, slice, depth - 1));
        }
        all
    }

    /// The cost of repeating an instruction; `None` if it may give a different value.
    fn cost(&self, inst: Inst) -> Option<u64> {
        let data = &self.func.insts[inst];
        match &data.op {
            Op::If => Some(OP),
            Op::BufferLoad(_) => {
                let global = direct_global(self.func, self.analyses.defs(), data.args[0])?;
                if self.written.contains(&global) {
                    return None;
                }
                // An address that depends on another load may be anywhere in memory.
                let indirect = data.args[1..].iter().any(|&a| self.is_loaded(a, 4));
                let lanes = lanes(self.types, self.func.ty(data.results[0]))?;
                Some(if indirect { 12 } else { 2 } * OP * lanes)
            }
            _ => again(self.types, self.func, inst),
        }
    }

    fn is_loaded(&self, v: Value, depth: u32) -> bool {
        let Some(data) = self.analyses.def(v).filter(|_| depth > 0) else { return false };
        matches!(data.op, Op::BufferLoad(_)) || data.args.iter().any(|&a| self.is_loaded(a, depth - 1))
    }
}

/// The instructions that compute a value.
#[derive(Default)]
struct Slice {
    insts: EntitySet<Inst>,
    list: Vec<Inst>,
}

/// Appends copies of the instructions that compute `v` and returns the copy of `v`. A value from before the
/// loops stands for itself.
fn emit(
    func: &mut Function,
    defs: &Defs,
    slice: &EntitySet<Inst>,
    v: Value,
    map: &mut ValueMap,
    out: &mut Vec<Inst>,
) -> Value {
    if let Some(&known) = map.get(&v) {
        return known;
    }
    let Some(inst) = defs.inst(v).filter(|&inst| slice.contains(inst)) else { return v };
    let mut data: InstData = func.insts[inst].clone();
    for arg in &mut data.args {
        *arg = emit(func, defs, slice, *arg, map, out);
    }
    for arm in &mut data.regions {
        let result = func.regions[*arm].results[0];
        let (mut inner, mut insts) = (map.clone(), Vec::new());
        let result = emit(func, defs, slice, result, &mut inner, &mut insts);
        let results = std::iter::once(result).collect();
        *arm = func.regions.push(RegionData { params: Default::default(), insts, results });
    }
    let copy = func.values.push(func.values[v].clone());
    data.results = SmallVec::from_elem(copy, 1);
    map.insert(v, copy);
    out.push(func.insts.push(data));
    copy
}
