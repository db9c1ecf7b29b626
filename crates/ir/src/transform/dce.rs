//! Removes instructions that have no influence on results, memory or output.
//!
//! Liveness is a least fixpoint that starts from nothing: the function's results and instructions with
//! effects are live, and liveness spreads to everything they need. What they need follows the structure: a
//! live result of an `if` needs that result of each arm and the condition; a live carried value of a loop
//! needs its initial value and the value that the body yields for it; a live stacked result needs the value
//! that the body yields. A live instruction makes the control operations around it live. A store to a cell is
//! live only if a live load reads that cell. Cycles of values that only feed themselves (such as a counter
//! that is never read) therefore stay dead, and one worklist visits each edge once.
//!
//! A loop that has no effects and whose results are unused is removed even if it might not end: as in C and
//! Rust's own backend, a program may not rely on hanging. The check of `[MaxIters]` is removed along with a
//! loop's stacks, since it only guards the stacks.

use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

use crate::analysis::points_to::root_cell;
use crate::analysis::{Defs, Summaries, Tree};
use crate::entities::{Inst, Region, Value};
use crate::function::Function;
use crate::ops::Op;
use crate::transform::keep_results;

/// Removes dead instructions, results and carried values; returns true if anything was removed.
pub fn run(func: &mut Function, summaries: &Summaries) -> bool {
    if !func.has_body() {
        return false;
    }
    let (defs, tree) = (Defs::of(func), Tree::of(func));
    let mut roots = Vec::new();
    let mut writers: SecondaryMap<Value, Vec<Inst>> = SecondaryMap::new();
    func.walk(func.body(), &mut |inst| match func.insts[inst].op {
        Op::Store | Op::AddTo => writers[root_cell(func, &defs, func.insts[inst].args[0])].push(inst),
        _ if summaries.inst(func, &defs, inst).writes => roots.push(inst),
        _ => {}
    });
    let (live, live_inst) = (EntitySet::with_capacity(func.values.len()), EntitySet::new());
    let mut marker = Marker { func, defs, tree, writers, live, live_inst, todo: Vec::new() };
    roots.into_iter().for_each(|inst| marker.inst(inst));
    func.regions[func.body()].results.iter().for_each(|&v| marker.value(v));
    marker.spread();
    let Marker { live, live_inst, .. } = marker;
    sweep(func, func.body(), &live, &live_inst)
}

struct Marker<'a> {
    func: &'a Function,
    defs: Defs,
    tree: Tree,
    /// Instructions that write a cell, by the root cell.
    writers: SecondaryMap<Value, Vec<Inst>>,
    live: EntitySet<Value>,
    live_inst: EntitySet<Inst>,
    todo: Vec<Value>,
}

impl Marker<'_> {
    fn value(&mut self, v: Value) {
        if self.live.insert(v) {
            self.todo.push(v);
        }
    }

    fn inst(&mut self, mut inst: Inst) {
        let func = self.func;
        while self.live_inst.insert(inst) {
            let data = &func.insts[inst];
            match data.op {
                Op::If | Op::Switch(_) | Op::For(_) => self.value(data.args[0]),
                Op::Loop(_) => self.value(func.regions[data.regions[0]].results[0]),
                Op::Load => {
                    data.args.iter().for_each(|&v| self.value(v));
                    let root = root_cell(func, &self.defs, data.args[0]);
                    for writer in std::mem::take(&mut self.writers[root]) {
                        self.inst(writer);
                    }
                }
                _ => data.args.iter().for_each(|&v| self.value(v)),
            }
            let Some(holder) = self.tree.home(inst).and_then(|home| self.tree.holder(home)) else { return };
            inst = holder;
        }
    }

    fn spread(&mut self) {
        let func = self.func;
        while let Some(v) = self.todo.pop() {
            if let Some((region, n)) = self.tree.param(v) {
                let Some(holder) = self.tree.holder(region) else { continue };
                self.inst(holder);
                let (_, first, _) = func.insts[holder].op.carried_at();
                if n as usize >= first {
                    self.carried(holder, n as usize - first);
                }
                continue;
            }
            let Some((inst, n)) = self.defs.result(v) else { continue };
            self.inst(inst);
            let data = &func.insts[inst];
            if n < data.n_carried() {
                self.carried(inst, n);
            } else {
                let (_, _, yields) = data.op.carried_at();
                data.regions.iter().for_each(|&region| self.value(func.regions[region].results[yields + n]));
            }
        }
    }

    /// Marks carried value `k` of a loop, which is needed before, in or after the loop.
    fn carried(&mut self, inst: Inst, k: usize) {
        let data = &self.func.insts[inst];
        let (args, _, yields) = data.op.carried_at();
        self.value(data.args[args + k]);
        self.value(self.func.regions[data.regions[0]].results[yields + k]);
    }
}

fn sweep(func: &mut Function, region: Region, live: &EntitySet<Value>, live_inst: &EntitySet<Inst>) -> bool {
    let mut insts = std::mem::take(&mut func.regions[region].insts);
    let before = insts.len();
    insts.retain(|&inst| live_inst.contains(inst));
    let mut changed = insts.len() != before;
    for &inst in &insts {
        let regions: SmallVec<[Region; 2]> = func.insts[inst].regions.clone();
        if regions.is_empty() {
            continue;
        }
        changed |= shrink(func, inst, live);
        for nested in regions {
            changed |= sweep(func, nested, live, live_inst);
        }
    }
    func.regions[region].insts = insts;
    changed
}

/// Drops the dead results of a control operation, with the carried values and yields that belong to them.
fn shrink(func: &mut Function, inst: Inst, live: &EntitySet<Value>) -> bool {
    let n_carried = func.insts[inst].n_carried();
    let (_, params, _) = func.insts[inst].op.carried_at();
    let body = func.insts[inst].regions[0];
    let keep: SmallVec<[bool; 16]> = func.insts[inst]
        .results
        .iter()
        .enumerate()
        .map(|(n, &r)| {
            live.contains(r) || n < n_carried && live.contains(func.regions[body].params[params + n])
        })
        .collect();
    if keep.iter().all(|&k| k) {
        return false;
    }
    keep_results(func, inst, &keep);
    true
}
