//! Determines where control flow is uniform across all threads of a group.
//!
//! A wave operation goes through group-shared memory, with barriers that all threads of the group must reach.
//! All threads reach them if every enclosing branch and loop depends only on values that are uniform:
//! constants, uniforms, the group's ID, and the results of pure operations on these. Parameters and results
//! of functions count as divergent. A loop-carried value is assumed to be uniform until an iteration shows
//! otherwise, so the result is the greatest fixpoint.
//!
//! On the CPU the lanes of a wave proceed in lockstep after an atomic operation on group-shared memory (a
//! *step* of the lanes). On devices they do so in uniform control flow; in divergent control flow, as in `if
//! (…) InterlockedAdd(bins[k], 1)`, the device determines the order of the lanes.

use cranelift_entity::EntitySet;
use ir::{Builtin, Func, Function, Inst, Module, Op, Region, Space, Span, Value};
use rustc_hash::FxHashMap;

/// Returns the location of the first wave operation in divergent control flow, if there is one, and the steps
/// of lanes in divergent control flow.
pub(crate) fn divergent_wave(
    module: &Module,
    func: Func,
    known: &mut FxHashMap<Func, bool>,
) -> (Option<Span>, EntitySet<Inst>) {
    let f = &module.funcs[func];
    let mut walk = Walk {
        module,
        f,
        same: EntitySet::new(),
        constant: EntitySet::new(),
        known,
        found: None,
        steps: steps(module, f),
        apart: EntitySet::new(),
    };
    walk.region(f.body(), true);
    (walk.found, walk.apart)
}

/// The gathers whose results are unused and that directly follow an atomic operation on group-shared memory.
fn steps(module: &Module, f: &Function) -> EntitySet<Inst> {
    let mut steps = EntitySet::new();
    if !f.has_body() {
        return steps;
    }
    let uses = ir::walk::use_counts(f);
    let mut shared: EntitySet<Value> = EntitySet::new();
    for region in f.regions.values() {
        let mut after = false;
        for &inst in &region.insts {
            let data = &f.insts[inst];
            match data.op {
                Op::GlobalRef(global) if module.globals[global].space == Space::GroupShared => {
                    shared.insert(data.results[0]);
                }
                Op::Atomic(..) => after = shared.contains(data.args[0]),
                Op::WaveGather => {
                    if after && data.results.iter().all(|&v| uses[v] == 0) {
                        steps.insert(inst);
                    }
                    after = false;
                }
                ref op if op.is_pure() => {}
                _ => after = false,
            }
        }
    }
    steps
}

/// Returns true if a function performs a wave operation, directly or through a call.
pub(crate) fn has_waves(module: &Module, func: Func, known: &mut FxHashMap<Func, bool>) -> bool {
    if let Some(&found) = known.get(&func) {
        return found;
    }
    // Recursion is refused elsewhere, so this entry is only a placeholder.
    known.insert(func, false);
    let f = &module.funcs[func];
    let mut callees = Vec::new();
    let mut found = false;
    if f.has_body() {
        let steps = steps(module, f);
        f.walk(f.body(), &mut |inst| match f.insts[inst].op {
            Op::WaveGather => found |= !steps.contains(inst),
            Op::Call(callee) => callees.push(callee),
            _ => {}
        });
    }
    let found = found || callees.into_iter().any(|callee| has_waves(module, callee, known));
    known.insert(func, found);
    found
}

struct Walk<'m, 'k> {
    module: &'m Module,
    f: &'m Function,
    /// Values that are uniform.
    same: EntitySet<Value>,
    /// Handles of memory that no thread writes.
    constant: EntitySet<Value>,
    known: &'k mut FxHashMap<Func, bool>,
    found: Option<Span>,
    steps: EntitySet<Inst>,
    /// Steps in divergent control flow.
    apart: EntitySet<Inst>,
}

impl Walk<'_, '_> {
    fn set(&mut self, v: Value, same: bool) {
        if same {
            self.same.insert(v);
        } else {
            self.same.remove(v);
        }
    }

    fn all(&self, values: &[Value]) -> bool {
        values.iter().all(|&v| self.same.contains(v))
    }

    fn region(&mut self, region: Region, together: bool) {
        for &inst in &self.f.regions[region].insts {
            self.inst(inst, together);
        }
    }

    fn inst(&mut self, inst: Inst, together: bool) {
        let data = &self.f.insts[inst];
        let same = match &data.op {
            Op::If | Op::Switch(_) => {
                let chosen = self.all(&data.args);
                for &arm in &data.regions {
                    self.region(arm, together && chosen);
                }
                for (k, &v) in data.results.iter().enumerate() {
                    let same =
                        chosen && data.regions.iter().all(|&arm| self.all(&[self.f.regions[arm].results[k]]));
                    self.set(v, same);
                }
                return;
            }
            Op::For(_) | Op::Loop(_) => return self.a_loop(inst, together),
            Op::WaveGather if self.steps.contains(inst) => {
                if !together {
                    self.apart.insert(inst);
                }
                false
            }
            Op::WaveGather => {
                self.meet(together, data.span);
                false
            }
            Op::Call(callee) => {
                if has_waves(self.module, *callee, self.known) {
                    self.meet(together, data.span);
                }
                false
            }
            Op::Builtin(builtin) => matches!(builtin, Builtin::GroupId | Builtin::GroupSize),
            Op::GlobalRef(global) => {
                if matches!(self.module.globals[*global].space, Space::Uniform | Space::ReadOnly) {
                    self.constant.insert(data.results[0]);
                }
                true
            }
            Op::BufferLoad(_) => self.constant.contains(data.args[0]) && self.all(&data.args),
            Op::BufferLen => self.all(&data.args),
            op => op.is_pure() && self.all(&data.args),
        };
        for &v in &data.results {
            self.set(v, same);
        }
    }

    fn meet(&mut self, together: bool, span: Span) {
        if !together && self.found.is_none() {
            self.found = Some(span);
        }
    }

    fn a_loop(&mut self, inst: Inst, together: bool) {
        let data = &self.f.insts[inst];
        let body = data.regions[0];
        let region = &self.f.regions[body];
        let counted = matches!(data.op, Op::For(_));
        let (first, skip) = if counted { (1, 0) } else { (0, 1) };
        let mut trips = !counted || self.all(&data.args[..1]);
        let mut carried: Vec<bool> = data.args[first..].iter().map(|&v| self.same.contains(v)).collect();
        let before = self.found;
        loop {
            self.found = before;
            if counted {
                self.set(region.params[0], trips);
            }
            for (&param, &same) in region.params[first..].iter().zip(&carried) {
                // After different numbers of iterations, threads have different values.
                self.set(param, same && trips);
            }
            self.region(body, together && trips);
            let goes_on = counted || self.all(&region.results[..1]);
            let next: Vec<bool> = carried
                .iter()
                .zip(&region.results[skip..])
                .map(|(&same, &v)| same && self.same.contains(v))
                .collect();
            if next == carried && (goes_on || !trips) {
                break;
            }
            carried = next;
            trips &= goes_on;
        }
        for (k, &v) in data.results.iter().enumerate() {
            self.set(v, trips && carried.get(k).copied().unwrap_or(false));
        }
    }
}
