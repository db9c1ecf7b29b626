//! Sinks work that has no effect in one arm of an `if` into the other arm.
//!
//! A cotangent that leaves an `if` is often absent in one arm, because the arm's computation does not depend
//! on the input (a sample out of reach, a clamped colour). Scaling leaves it absent, and adding it to memory
//! has no effect. Those instructions therefore move into the arm where the cotangent may be present; in the
//! other arm their results are absent. All operands of an instruction that moves are visible in the arm;
//! independent pure instructions in between move before the `if`, as pure operations may. An `add_to` moves
//! only if no instruction that stays reads or writes its cell in between, so that the additions to every cell
//! keep their order.

use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use ir::{Function, Inst, Op, Region, Types, Value, ValueData};

use crate::util::{Defs, ValueMap, make, root_cell};

/// The maximum number of instructions examined behind an `if`.
const REACH: usize = 400;

/// Sinks instructions; returns true if anything moved.
pub fn run(types: &mut Types, func: &mut Function) -> bool {
    if !func.has_body() {
        return false;
    }
    let mut any = false;
    func.walk(func.body(), &mut |inst| {
        any |= func.insts[inst].op == Op::If && !func.insts[inst].results.is_empty();
    });
    if !any {
        return false;
    }
    let defs = Defs::of(func);
    let mut uses: SecondaryMap<Value, u32> = SecondaryMap::new();
    func.walk(func.body(), &mut |inst| {
        for &a in &func.insts[inst].args {
            uses[a] += 1;
        }
    });
    for region in func.regions.values() {
        for &r in &region.results {
            uses[r] += 1;
        }
    }
    let mut sink = Sink { types, func, defs, uses, changed: false };
    let body = sink.func.body();
    sink.region(body);
    sink.changed
}

struct Sink<'a> {
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

impl Sink<'_> {
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
        match data.op {
            Op::Mask => z(0) || z(1),
            Op::Add => zero(0) && zero(1) && (z(0) || z(1)),
            Op::Scale
            | Op::Unscale
            | Op::Splat
            | Op::Sum
            | Op::Extract(_)
            | Op::Index
            | Op::CheckFinite(_) => z(0),
            Op::Convert => z(0) && self.types.is_differentiable(self.func.ty(data.results[0])),
            Op::Insert(_) => zero(0) && zero(1) && (z(0) || z(1)),
            Op::Select => zero(1) && zero(2) && (z(1) || z(2)),
            Op::Construct => (0..data.args.len()).all(zero) && (0..data.args.len()).any(z),
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
                let own = self.func.values.push(ValueData::new(ty, linear));
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
