//! Code sinking: moves computations into the arm that needs them.
//!
//! [`run`] moves a pure operation all of whose uses are within one arm of an `if` or `switch` to the start of
//! that arm, or further in, but never into a loop. Its operands are visible there, and pure operations may be
//! computed at any time. The backend does this for arithmetic by itself, but not for operations that it emits
//! as loads and calls: elements of arrays and stacks, mathematics, functions. Instructions are processed from
//! last to first, so whole chains move.
//!
//! [`absent`] moves work behind an `if` into it where the work has no effect in the other arm. A cotangent
//! that leaves an `if` is often absent in one arm, because the arm's computation does not depend on the input
//! (a sample out of reach, a clamped colour). Scaling leaves it absent, and adding it to memory has no
//! effect. Those instructions therefore move into the arm where the cotangent may be present; in the other
//! arm their results are absent. All operands of an instruction that moves are visible in the arm;
//! independent pure instructions in between move before the `if`, as pure operations may. An `add_to` moves
//! only if no instruction that stays reads or writes its cell in between, so that the additions to every cell
//! keep their order.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use indexmap::IndexMap;
use ir::analysis::points_to::root_cell;
use ir::analysis::{Defs, Effects, Summaries, Tree};
use ir::{Function, Inst, Op, Region, Types, Value, ValueData};
use rustc_hash::{FxBuildHasher, FxHashSet};
use smallvec::SmallVec;

use crate::util::{ValueMap, make};

/// The maximum number of instructions examined behind an `if`.
const REACH: usize = 400;

/// Moves pure operations into the arms that use them; returns true if anything moved.
pub(crate) fn run(func: &mut Function, summaries: &Summaries) -> bool {
    if !func.contains(|op| matches!(op, Op::If | Op::Switch(_))) {
        return false;
    }
    let (defs, tree) = (Defs::of(func), Tree::of(func));
    let mut sink = Sink { summaries, defs, tree, used_in: SecondaryMap::new(), moved: false, func };
    let body = sink.func.body();
    sink.region(body);
    sink.moved
}

struct Sink<'a> {
    func: &'a mut Function,
    summaries: &'a Summaries,
    defs: Defs,
    /// The tree of regions. Where instructions are is not read from it, since they move.
    tree: Tree,
    /// The innermost region that contains all uses seen so far.
    used_in: SecondaryMap<Value, PackedOption<Region>>,
    moved: bool,
}

impl Sink<'_> {
    fn use_in(&mut self, v: Value, region: Region) {
        let other = self.used_in[v].expand();
        self.used_in[v] = other.map_or(region, |other| self.tree.common(region, other)).into();
    }

    /// Processes a region from last to first; instructions that move into an arm are put before the arm's
    /// own.
    fn region(&mut self, region: Region) {
        for v in self.func.regions[region].results.clone() {
            self.use_in(v, region);
        }
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let mut kept = Vec::with_capacity(insts.len());
        let mut leaving: Vec<(Region, Inst)> = Vec::new();
        for inst in insts.into_iter().rev() {
            for nested in self.func.insts[inst].regions.clone() {
                self.region(nested);
            }
            let target = self.target(inst, region);
            for arg in self.func.insts[inst].args.clone() {
                self.use_in(arg, target);
            }
            if target == region {
                kept.push(inst);
            } else {
                self.moved = true;
                leaving.push((target, inst));
            }
        }
        kept.reverse();
        self.func.regions[region].insts = kept;
        // The last instruction found is the first in program order: each goes before those that may use it.
        let mut fronts: IndexMap<Region, Vec<Inst>, FxBuildHasher> = IndexMap::default();
        for (target, inst) in leaving.into_iter().rev() {
            fronts.entry(target).or_default().push(inst);
        }
        for (target, front) in fronts {
            self.func.regions[target].insts.splice(0..0, front);
        }
    }

    /// The region in which an instruction should be computed.
    fn target(&self, inst: Inst, here: Region) -> Region {
        let data = &self.func.insts[inst];
        if !data.regions.is_empty() || data.results.len() != 1 {
            return here;
        }
        let fixed = match data.op {
            Op::Const(_) | Op::Zero | Op::Absent | Op::GlobalRef(_) | Op::Builtin(_) | Op::SubCell => true,
            Op::Call(_) => self.summaries.inst(self.func, &self.defs, inst) != Effects::NONE,
            _ => !data.op.is_pure(),
        };
        if fixed {
            return here;
        }
        let Some(used) = self.used_in[data.results[0]].expand() else { return here };
        // The innermost region on the path to the uses that is not inside a further loop.
        let mut target = used;
        let mut at = used;
        while at != here {
            let Some(parent) = self.tree.parent(at) else { return here };
            if self.tree.is_loop(at) {
                target = parent;
            }
            at = parent;
        }
        target
    }
}

/// Moves work into the only arm from which a differential may come; returns true if anything moved.
pub(crate) fn absent(types: &mut Types, func: &mut Function) -> bool {
    let (defs, uses) = (Defs::of(func), ir::walk::use_counts(func));
    let mut sink = AbsentSink { types, func, defs, uses, changed: false };
    let body = sink.func.body();
    sink.region(body);
    sink.changed
}

struct AbsentSink<'a> {
    types: &'a mut Types,
    func: &'a mut Function,
    defs: Defs,
    uses: SecondaryMap<Value, u32>,
    changed: bool,
}

/// The plan for the instructions behind one `if`.
#[derive(Default)]
struct Plan {
    /// Instructions that move into the arm.
    moved: Vec<Inst>,
    /// Instructions that move before the `if`.
    before: Vec<Inst>,
}

impl AbsentSink<'_> {
    fn region(&mut self, region: Region) {
        for inst in self.func.regions[region].insts.clone() {
            for nested in self.func.insts[inst].regions.clone() {
                self.region(nested);
            }
        }
        let mut at = 0;
        while let Some(&inst) = self.func.regions[region].insts.get(at) {
            if self.func.insts[inst].op == Op::If
                && let Some((arm, zeros)) = self.absent_arm(inst)
            {
                at = self.r#if(region, at, arm, zeros);
            }
            at += 1;
        }
    }

    /// The arm with a present differential, and the results that are absent in the other arm.
    fn absent_arm(&self, inst: Inst) -> Option<(usize, FxHashSet<Value>)> {
        let data = &self.func.insts[inst];
        let zeros = |arm: usize| -> FxHashSet<Value> {
            let yields = &self.func.regions[data.regions[arm]].results;
            let both = data.results.iter().zip(yields);
            both.filter(|(_, y)| self.is_absent(**y)).map(|(&r, _)| r).collect()
        };
        let (first, second) = (zeros(0), zeros(1));
        match (first.is_empty(), second.is_empty()) {
            (_, false) => Some((0, second)),
            (false, true) => Some((1, first)),
            (true, true) => None,
        }
    }

    fn is_absent(&self, v: Value) -> bool {
        self.defs.op(self.func, v) == Some(&Op::Absent)
    }

    /// Plans the moves and makes them; returns the position of the `if` afterwards.
    fn r#if(&mut self, region: Region, at: usize, arm: usize, zeros: FxHashSet<Value>) -> usize {
        let list = self.func.regions[region].insts.clone();
        let inst = list[at];
        let plan = self.plan(inst, &list[at + 1..list.len().min(at + 1 + REACH)], zeros);
        let adds = plan.moved.iter().any(|&i| self.func.insts[i].op == Op::AddTo);
        if !adds && plan.moved.len() < 3 {
            return at;
        }
        self.changed = true;
        let gone: FxHashSet<Inst> = plan.moved.iter().chain(&plan.before).copied().collect();
        let mut new = list[..at].to_vec();
        new.extend(&plan.before);
        let place = new.len();
        new.push(inst);
        new.extend(list[at + 1..].iter().filter(|i| !gone.contains(i)));
        self.func.regions[region].insts = new;
        self.fill_arm(inst, arm, &plan.moved);
        place
    }

    fn plan(&self, inst: Inst, behind: &[Inst], mut zeros: FxHashSet<Value>) -> Plan {
        let mut plan = Plan::default();
        // Values that are defined behind the `if` by instructions that stay there.
        let mut late: FxHashSet<Value> = FxHashSet::default();
        let results: FxHashSet<Value> = self.func.insts[inst].results.iter().copied().collect();
        let mut moved: FxHashSet<Value> = FxHashSet::default();
        let mut touched: FxHashSet<Value> = FxHashSet::default();
        for &next in behind {
            let data = &self.func.insts[next];
            let visible = data.regions.is_empty() && data.args.iter().all(|a| !late.contains(a));
            if visible && self.vanishes(next, &zeros) {
                if data.op != Op::AddTo {
                    plan.moved.push(next);
                    zeros.extend(&data.results);
                    moved.extend(&data.results);
                    continue;
                }
                let cell = root_cell(self.func, &self.defs, data.args[0]);
                if !touched.contains(&cell) {
                    plan.moved.push(next);
                    continue;
                }
            }
            let depends = data.args.iter().any(|a| results.contains(a) || moved.contains(a));
            if visible && !depends && data.op.is_pure() {
                plan.before.push(next);
                continue;
            }
            late.extend(&data.results);
            self.touch(next, &mut touched);
        }
        plan
    }

    /// Records the cells that an instruction or its nested regions use.
    fn touch(&self, inst: Inst, touched: &mut FxHashSet<Value>) {
        let data = &self.func.insts[inst];
        if let Op::Load | Op::Store | Op::AddTo = data.op {
            touched.insert(root_cell(self.func, &self.defs, data.args[0]));
        }
        for &region in &data.regions {
            for &nested in &self.func.regions[region].insts {
                self.touch(nested, touched);
            }
        }
    }

    /// Returns true if an instruction has no effect, and absent results, where the values in `zeros` are
    /// absent differentials.
    fn vanishes(&self, inst: Inst, zeros: &FxHashSet<Value>) -> bool {
        let data = &self.func.insts[inst];
        let z = |n: usize| zeros.contains(&data.args[n]);
        let zero = |n: usize| z(n) || self.is_absent(data.args[n]);
        let all = |from: usize| (from..data.args.len()).all(zero) && (from..data.args.len()).any(z);
        match data.op {
            Op::Mask => z(0) || z(1),
            Op::Add | Op::Insert(_) | Op::Construct => all(0),
            Op::Select => all(1),
            Op::Scale
            | Op::Unscale
            | Op::Splat
            | Op::Sum
            | Op::Extract(_)
            | Op::Index
            | Op::CheckFinite(_) => z(0),
            Op::Convert => z(0) && self.types.is_differentiable(self.func.ty(data.results[0])),
            Op::AddTo => z(data.args.len() - 1),
            _ => false,
        }
    }

    /// Appends the instructions to the arm; values that other instructions use become results.
    fn fill_arm(&mut self, inst: Inst, arm: usize, moved: &[Inst]) {
        let (region, other) = (self.func.insts[inst].regions[arm], self.func.insts[inst].regions[1 - arm]);
        let mut inside: SecondaryMap<Value, u32> = SecondaryMap::new();
        for &m in moved {
            for &a in &self.func.insts[m].args {
                inside[a] += 1;
            }
        }
        // Within the arm, the results of the `if` are the values that the arm yields.
        let mut map: ValueMap = ValueMap::default();
        let results = self.func.insts[inst].results.clone();
        for (n, &r) in results.iter().enumerate() {
            map.insert(r, self.func.regions[region].results[n]);
        }
        for &m in moved {
            for a in &mut self.func.insts[m].args {
                *a = map.get(a).copied().unwrap_or(*a);
            }
            self.func.regions[region].insts.push(m);
            let outputs: SmallVec<[Value; 2]> = self.func.insts[m].results.clone();
            for (n, v) in outputs.into_iter().enumerate() {
                if self.uses[v] == inside[v] {
                    continue;
                }
                // `v` becomes a result of the `if`, and the arm computes a new value for it.
                let ValueData { ty, linear, .. } = self.func.values[v];
                let own = self.func.values.push(ValueData::marked(ty, linear));
                self.func.insts[m].results[n] = own;
                self.uses[own] = inside[v] + 1;
                map.insert(v, own);
                let span = self.func.insts[m].span;
                let (zero, none) = make(self.func, Op::Absent, &[], ty, linear, span);
                self.defs.add(self.func, zero);
                self.func.regions[other].insts.push(zero);
                self.func.regions[other].results.push(none);
                self.func.regions[region].results.push(own);
                self.func.insts[inst].results.push(v);
            }
            self.defs.add(self.func, m);
        }
        self.defs.add(self.func, inst);
    }
}
