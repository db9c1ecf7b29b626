//! Determines where control flow is uniform across all threads of a group.
//!
//! A wave operation goes through group-shared memory, with barriers that all threads of the group must reach.
//! All threads reach them if every enclosing branch and loop depends only on values that are uniform:
//! constants, uniforms, the group's ID, and the results of pure operations on these. Parameters and results
//! of functions count as divergent. All other values are uniform: what varies is the least fixpoint. A number that can
//! only be zero, such as that of a wave in a group of 32 threads, is a constant, and so is a comparison of a number with
//! one beyond its bounds.
//!
//! On the CPU the lanes of a wave proceed in lockstep after an atomic operation on group-shared memory (a
//! *step* of the lanes). On devices they do so in uniform control flow; in divergent control flow, as in `if
//! (…) InterlockedAdd(bins[k], 1)`, the device determines the order of the lanes.

use cranelift_entity::EntitySet;
use ir::analysis::Defs;
use ir::analysis::flow::{Direction, Flow};
use ir::analysis::points_to::direct_global;
use ir::{Builtin, Func, Function, Inst, Module, Op, Region, Space, Span, Value};
use rustc_hash::FxHashMap;

use crate::bounds::Bounds;

/// Returns the location of the first wave operation in divergent control flow, if there is one, and the steps
/// of lanes in divergent control flow, in groups of at most this size.
pub(crate) fn divergent_wave(
    module: &Module,
    func: Func,
    group: [u32; 3],
    known: &mut FxHashMap<Func, bool>,
) -> (Option<Span>, EntitySet<Inst>) {
    let f = &module.funcs[func];
    let mut varying = Flow::new(f, &|_| true);
    f.regions[f.body()].params.iter().for_each(|&v| varying.join(v, &true));
    let defs = Defs::of(f);
    let bounds = Bounds::new(&module.types, f, group);
    varying.settle(Direction::Forward, &mut |flow, inst| vary(module, f, (&defs, &bounds), flow, inst));
    let mut walk = Walk {
        module,
        f,
        varying,
        known,
        found: None,
        steps: steps(module, f),
        apart: EntitySet::new(),
        together: true,
    };
    walk.region(f.body());
    (walk.found, walk.apart)
}

/// Marks the results of an instruction that may differ between threads.
fn vary(
    module: &Module,
    f: &Function,
    (defs, bounds): (&Defs, &Bounds<'_>),
    flow: &mut Flow<bool>,
    inst: Inst,
) {
    let data = &f.insts[inst];
    let any = |flow: &Flow<bool>| data.args.iter().any(|&v| *flow.get(v));
    let is_constant = |handle: Value| {
        direct_global(f, defs, handle)
            .is_some_and(|g| matches!(module.globals[g].space, Space::Uniform | Space::ReadOnly))
    };
    let varies = match &data.op {
        Op::If | Op::Switch(_) => any(flow),
        Op::For(_) | Op::Loop(_) => {
            let trips = f.decides(inst).expect("a loop has trips");
            // After different numbers of trips, threads have different values.
            f.regions[data.regions[0]].params.iter().for_each(|&param| flow.copy(trips, param));
            data.results[data.n_carried()..].iter().for_each(|&stack| flow.join(stack, &true));
            *flow.get(trips)
        }
        Op::Builtin(builtin) => !matches!(builtin, Builtin::GroupId | Builtin::GroupSize),
        Op::GlobalRef(_) => false,
        Op::BufferLoad(_) => any(flow) || !is_constant(data.args[0]),
        op => any(flow) || !op.is_pure(),
    };
    let is_below = |a: Value, b: Value, more: u64| {
        let end = bounds.constant(b).and_then(|b| u64::try_from(b).ok());
        end.is_some_and(|end| bounds.upper(a).is_some_and(|most| most < end.saturating_add(more)))
    };
    let is_known = match (&data.op, &data.args[..]) {
        (Op::Lt | Op::Ge, &[a, b]) => is_below(a, b, 0) || is_below(b, a, 1),
        (Op::Le | Op::Gt, &[a, b]) => is_below(a, b, 1) || is_below(b, a, 0),
        (_, _) => data.results.iter().all(|&v| bounds.upper(v) == Some(0)),
    };
    data.results.iter().for_each(|&v| flow.join(v, &(varies && !is_known)));
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
    varying: Flow<'m, bool>,
    known: &'k mut FxHashMap<Func, bool>,
    found: Option<Span>,
    steps: EntitySet<Inst>,
    /// Steps in divergent control flow.
    apart: EntitySet<Inst>,
    /// All threads of the group reach the current region.
    together: bool,
}

impl Walk<'_, '_> {
    fn region(&mut self, region: Region) {
        for &inst in &self.f.regions[region].insts {
            let data = &self.f.insts[inst];
            let meets = match data.op {
                Op::WaveGather if self.steps.contains(inst) => {
                    if !self.together {
                        self.apart.insert(inst);
                    }
                    false
                }
                Op::WaveGather => true,
                Op::Call(callee) => has_waves(self.module, callee, self.known),
                _ => false,
            };
            if meets && !self.together && self.found.is_none() {
                self.found = Some(data.span);
            }
            for &inner in &data.regions {
                let divergent = self.f.decides(inst).is_some_and(|v| *self.varying.get(v));
                let around = self.together;
                self.together &= !divergent;
                self.region(inner);
                self.together = around;
            }
        }
    }
}
