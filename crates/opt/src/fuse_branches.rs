//! Branch fusion: makes one branch of two on the same condition.
//!
//! The two halves of a derivative branch alike, and the reverse half needs what the primal half computed, so after
//! inlining there is:
//!
//! ```text
//! a = if c { A; yield x } else { yield zero }
//! …
//! b = if c { B(a) } else { … }
//! ```
//!
//! Whichever arm of the first branch runs, the same arm of the second does. This pass therefore appends the arms of the
//! second to those of the first, where `a` is `x`: values are no longer passed out of one branch into the next, for which
//! lanes merge both arms' values, and backends without enough registers store them.
//!
//! The second branch moves up to the first, past the instructions in between, which is right because each of these is one
//! of the following:
//!
//! - It does not need the first branch, and the second needs it: it moves before the first.
//! - The second branch needs it, and it needs the first: it only computes, so both arms compute it again. At most [`COPIED`]
//!   do.
//! - The second branch does not need it: it stays behind.
//!
//! An instruction that accesses memory, prints or may not end passes a branch, or an instruction that stays, only if
//! neither writes memory that the other accesses ([`Footprint`]).

use cranelift_entity::EntitySet;
use ir::analysis::points_to::root_cell;
use ir::analysis::{Defs, Effects, Summaries};
use ir::walk::{Renames, ValueMap, for_each_use};
use ir::{Function, Inst, Op, Region, Value, ValueData};
use rustc_hash::FxHashSet;

/// The maximum number of instructions between two branches that become one.
const REACH: usize = 200;

/// The maximum number of instructions that both arms compute again.
const COPIED: usize = 16;

/// Fuses branches; returns true if there were any to fuse.
pub(crate) fn run(func: &mut Function, summaries: &Summaries) -> bool {
    if !func.contains(|op| matches!(op, Op::If | Op::Switch(_))) {
        return false;
    }
    let defs = Defs::of(func);
    let mut fusion = Fusion { func, summaries, defs, changed: false };
    let body = fusion.func.body();
    fusion.region(body);
    fusion.changed
}

struct Fusion<'a> {
    func: &'a mut Function,
    summaries: &'a Summaries,
    defs: Defs,
    changed: bool,
}

/// The memory that instructions access, and their other effects.
#[derive(Default)]
struct Footprint {
    effects: Effects,
    /// The root cells that are read, and those that are written.
    read: FxHashSet<Value>,
    written: FxHashSet<Value>,
}

impl Footprint {
    /// True if the order of two groups of instructions makes a difference.
    fn conflicts(&self, other: &Footprint) -> bool {
        let any = |e: Effects| e.reads || e.writes || e.hangs;
        let (a, b) = (self.effects, other.effects);
        a.writes && any(b)
            || b.writes && any(a)
            || a.hangs && b.hangs
            || !self.written.is_disjoint(&other.written)
            || !self.written.is_disjoint(&other.read)
            || !self.read.is_disjoint(&other.written)
    }

    fn is_empty(&self) -> bool {
        self.effects == Effects::NONE && self.read.is_empty() && self.written.is_empty()
    }

    fn add(&mut self, other: Footprint) {
        self.effects = self.effects.or(other.effects);
        self.read.extend(other.read);
        self.written.extend(other.written);
    }
}

/// Where the instructions between two branches go.
#[derive(Default)]
struct Plan {
    before: Vec<Inst>,
    copied: Vec<Inst>,
    behind: Vec<Inst>,
}

impl Fusion<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let mut out: Vec<Inst> = Vec::with_capacity(insts.len());
        for inst in insts {
            out.push(inst);
            if let Some(first) = self.first_of(&out)
                && let Some(plan) = self.plan(out[first], &out[first + 1..out.len() - 1], inst)
            {
                let branch = out[first];
                out.truncate(first);
                out.extend(&plan.before);
                out.push(branch);
                // Copies are made of what also stays behind, where no one may use it.
                self.fuse(branch, inst, &plan.copied);
                out.extend(&plan.behind);
                self.changed = true;
            }
        }
        for &inst in &out {
            for nested in self.func.insts[inst].regions.clone() {
                self.region(nested);
            }
        }
        self.func.regions[region].insts = out;
    }

    /// The last branch within reach that the last instruction, if it is one, always follows into the same arm.
    fn first_of(&self, list: &[Inst]) -> Option<usize> {
        let (&last, before) = list.split_last()?;
        let data = &self.func.insts[last];
        if !matches!(data.op, Op::If | Op::Switch(_)) {
            return None;
        }
        let is_alike = |&inst: &Inst| {
            let other = &self.func.insts[inst];
            other.op == data.op && other.args == data.args
        };
        let reach = before.len().saturating_sub(REACH);
        before[reach..].iter().rposition(is_alike).map(|at| at + reach)
    }

    /// Where the instructions between two branches go; `None` if the second cannot move to the first.
    fn plan(&self, first: Inst, between: &[Inst], second: Inst) -> Option<Plan> {
        let mut needed: EntitySet<Value> = EntitySet::new();
        self.for_each_operand(second, &mut |v| _ = needed.insert(v));
        let mut is_needed = vec![false; between.len()];
        for (at, &inst) in between.iter().enumerate().rev() {
            if self.func.insts[inst].results.iter().any(|&r| needed.contains(r)) {
                is_needed[at] = true;
                self.for_each_operand(inst, &mut |v| _ = needed.insert(v));
            }
        }
        let (of_first, of_second) = (self.footprint(first), self.footprint(second));
        let mut plan = Plan::default();
        let mut behind = Footprint::default();
        // What the first branch and the instructions that stay behind it define.
        let mut late: EntitySet<Value> = EntitySet::new();
        late.extend(self.func.insts[first].results.iter().copied());
        for (&inst, needed) in between.iter().zip(is_needed) {
            let data = &self.func.insts[inst];
            let own = self.footprint(inst);
            let mut is_late = false;
            self.for_each_operand(inst, &mut |v| is_late |= late.contains(v));
            let may_rise = !is_late && !own.conflicts(&of_first) && !own.conflicts(&behind);
            let may_stay = !own.conflicts(&of_second);
            if may_rise && (needed || !may_stay) {
                plan.before.push(inst);
                continue;
            }
            if needed {
                if !own.is_empty()
                    || !data.regions.is_empty()
                    || !data.op.is_pure()
                    || plan.copied.len() == COPIED
                {
                    return None;
                }
                plan.copied.push(inst);
            } else if !may_stay {
                return None;
            }
            late.extend(data.results.iter().copied());
            plan.behind.push(inst);
            behind.add(own);
        }
        Some(plan)
    }

    /// Calls `visit` for each use of a value in an instruction and its regions.
    fn for_each_operand(&self, inst: Inst, visit: &mut dyn FnMut(Value)) {
        let data = &self.func.insts[inst];
        data.args.iter().for_each(|&v| visit(v));
        data.regions.iter().for_each(|&region| for_each_use(self.func, region, visit));
    }

    /// The effects of an instruction and its regions.
    fn footprint(&self, inst: Inst) -> Footprint {
        let mut all = Footprint::default();
        let mut visit = |inst: Inst| {
            all.effects = all.effects.or(self.summaries.inst(self.func, &self.defs, inst));
            let data = &self.func.insts[inst];
            let cell = || root_cell(self.func, &self.defs, data.args[0]);
            match data.op {
                Op::Load => _ = all.read.insert(cell()),
                Op::Store | Op::AddTo => _ = all.written.insert(cell()),
                _ => {}
            }
        };
        visit(inst);
        for &region in &self.func.insts[inst].regions {
            self.func.walk(region, &mut visit);
        }
        all
    }

    /// Appends the arms of the second branch, and before each the copies, to those of the first.
    fn fuse(&mut self, first: Inst, second: Inst, copied: &[Inst]) {
        let outer = self.func.insts[first].results.clone();
        let arms = self.func.insts[first].regions.clone();
        for (arm, from) in arms.into_iter().zip(self.func.insts[second].regions.clone()) {
            let mut map = ValueMap::new();
            for (&result, &inner) in outer.iter().zip(&self.func.regions[arm].results) {
                map.set(result, inner);
            }
            for &inst in copied {
                let mut data = self.func.insts[inst].clone();
                data.args.iter_mut().for_each(|v| *v = map.renamed(*v));
                for result in &mut data.results {
                    let ValueData { ty, linear, .. } = self.func.values[*result];
                    let own = self.func.values.push(ValueData::marked(ty, linear));
                    map.set(*result, own);
                    *result = own;
                }
                let copy = self.func.insts.push(data);
                self.defs.add(self.func, copy);
                self.func.regions[arm].insts.push(copy);
            }
            self.rename(from, &map);
            let insts = std::mem::take(&mut self.func.regions[from].insts);
            self.func.regions[arm].insts.extend(insts);
            let results = std::mem::take(&mut self.func.regions[from].results);
            self.func.regions[arm].results.extend(results);
        }
        let results = std::mem::take(&mut self.func.insts[second].results);
        self.func.insts[first].results.extend(results);
        self.defs.add(self.func, first);
    }

    /// Renames the operands in a region and all nested ones.
    fn rename(&mut self, region: Region, map: &ValueMap) {
        let mut insts = Vec::new();
        let mut regions = vec![region];
        self.func.walk(region, &mut |inst| insts.push(inst));
        for inst in insts {
            let data = &mut self.func.insts[inst];
            data.args.iter_mut().for_each(|v| *v = map.renamed(*v));
            regions.extend(&data.regions);
        }
        for region in regions {
            self.func.regions[region].results.iter_mut().for_each(|v| *v = map.renamed(*v));
        }
    }
}
