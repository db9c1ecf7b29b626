//! Implements `[Checkpoint(n)]` and `[CheckpointStates(n)]`: splits a loop of many trips into segments, so that
//! reverse mode keeps little of it.
//!
//! The loop becomes an outer loop that calls a function, its *segment*, which runs some of the trips. The
//! call is reversed like that of a recursive function ([`crate::recursion`]): its operands are kept, and its
//! backward derivative runs the trips of one segment again before it goes back through them. So at any time,
//! memory holds the states at the starts of all segments and the residuals of one segment. The primal runs
//! exactly once more.
//!
//! With `n` given, each segment has `n` trips. Without `n`, both the number and the length of segments are
//! about the square root of the number of trips:
//!
//! - If the number `N` of trips is known when the loop starts, the first segment has `m` trips, the next `m -
//!   1` and so on, with `m(m+1)/2 ≥ N`. While the `k`th segment is reversed there are `k` states and its own
//!   `m - k + 1` residuals, so at any time about `m ≈ √(2N)` in all. That is the binomial schedule for two
//!   forward runs of each trip: no other schedule keeps less (A. Griewank, "Achieving logarithmic growth of
//!   temporal and spatial complexity in reverse automatic differentiation", 1992).
//! - Otherwise the `k`th segment has `k` trips: `m` segments make about `m²/2` trips, however many trips
//!   there will be.
//!
//! `[CheckpointStates(s)]` bounds the states instead, and segments have segments of their own ([`binomial`]).
//!
//! Cells outside the loop that the loop uses are part of the state: their contents are passed to the segment
//! and returned from it.

mod binomial;
mod build;

use ir::walk::free_values;
use ir::{
    Builder, Checkpoint, Defs, Func, Function, Inst, Module, Op, Origin, Prefer, Region, TypeData, Value,
};
use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) use self::binomial::Binomial;
pub use self::binomial::{repetitions, runs};
use self::build::{build, repeat};
use crate::checkpoint::known_trips;
use crate::engine::Engine;
use crate::results::SegmentedLoop;

/// A segment, and the outer values that it captures.
struct Segment {
    func: Func,
    /// The maximum number of segments.
    bound: Option<u32>,
    /// The maximum number of trips of one segment.
    trips: Option<u32>,
    /// Captured values that are not cells.
    values: Vec<Value>,
    /// Captured constants, which the segment rematerialises.
    constants: Vec<Inst>,
    /// Captured cells that the loop only reads.
    read: Vec<Value>,
    /// Captured cells that the loop writes.
    written: Vec<Value>,
    /// The function that runs `func` by segments of segments.
    binomial: Option<(Func, u32)>,
}

impl Engine<'_> {
    /// Splits all loops of a function that have a checkpoint attribute.
    pub(crate) fn segment(&mut self, func: Func) {
        let src = &self.module.funcs[func];
        if !src.insts.values().any(|data| checkpoint(&data.op).is_some()) {
            return;
        }
        let src = src.clone();
        let mut found = Vec::new();
        loops(&src, (src.body(), self.is_repeated(func)), &mut found);
        let mut segments: Vec<(Inst, Segment)> = Vec::new();
        for (inst, repeated) in found {
            segments.extend(self.outline(func, &src, inst, repeated).map(|segment| (inst, segment)));
        }
        let function = self.user_name(func).to_string();
        if let Some(report) = &mut self.found.kept {
            let defs = Defs::of(&src);
            report.loops.extend(segments.iter().filter_map(|(inst, segment)| {
                let data = &src.insts[*inst];
                let again = segment.binomial.is_some_and(|(whole, _)| {
                    self.module.funcs[whole].checkpoint.prefer == Prefer::Recompute
                });
                Some(SegmentedLoop {
                    function: function.clone(),
                    span: data.span,
                    checkpoint: checkpoint(&data.op)?,
                    trips: known_trips(&src, &defs, *inst),
                    again,
                })
            }));
        }
        let Module { types, funcs, .. } = &mut *self.module;
        let mut b = Builder::resume(types, src.clone());
        let mut replaced: FxHashMap<Inst, Region> = FxHashMap::default();
        for (inst, segment) in &segments {
            replaced.insert(*inst, b.open());
            match segment.binomial {
                Some(whole) if matches!(src.insts[*inst].op, Op::For(_)) => {
                    binomial::call(&mut b, &src, *inst, segment, whole, &funcs[whole.0].results);
                }
                _ => repeat(&mut b, &src, *inst, segment, &funcs[segment.func].results),
            }
            b.close(Vec::new());
        }
        let mut body = b.func;
        body.rebuild(|body, inst, out| match replaced.get(&inst) {
            Some(&region) => out.append(&mut body.regions[region].insts),
            None => out.push(inst),
        });
        self.define(func, body);
    }

    /// Makes the segment of a loop. Returns `None` if the loop uses a part of a cell as a cell, which no loop
    /// in source code does.
    fn outline(&mut self, func: Func, src: &Function, inst: Inst, repeated: bool) -> Option<Segment> {
        let defs = Defs::of(src);
        let body = src.insts[inst].regions[0];
        let (bound, trips) = bounds(src, &defs, inst);
        let mut segment = Segment {
            func,
            bound,
            trips,
            values: Vec::new(),
            constants: Vec::new(),
            read: Vec::new(),
            written: Vec::new(),
            binomial: None,
        };
        for v in free_values(src, body) {
            let maker = defs.inst(v);
            if let Some(made) = maker
                && matches!(src.insts[made].op, Op::Const(_) | Op::Zero | Op::Absent | Op::GlobalRef(_))
            {
                segment.constants.push(made);
            } else if !matches!(self.module.types[src.ty(v)], TypeData::Cell(_)) {
                segment.values.push(v);
            } else if defs.inst(v).is_some_and(|d| matches!(src.insts[d].op, Op::SubCell)) {
                return None;
            } else if writes(src, body, v) {
                segment.written.push(v);
            } else {
                segment.read.push(v);
            }
        }
        let types = &mut self.module.types;
        let name = format!("{}_segment", src.name);
        let made = build(types, src, inst, &segment);
        let declared = self.declare(name, Origin::Segment(func), made.params.clone(), made.results.clone());
        self.module.funcs[declared].span = src.insts[inst].span;
        self.define(declared, made);
        segment.func = declared;
        match checkpoint(&src.insts[inst].op) {
            Some(Checkpoint::States(states)) => {
                segment.binomial = Some((self.binomial(src, inst, &segment, (states, repeated)), states));
            }
            _ => self.module.funcs[declared].checkpoint.prefer = Prefer::Recompute,
        }
        Some(segment)
    }

    /// Returns true if a function runs in a loop, or calls itself: within a function that is differentiated with it,
    /// or several calls on.
    fn is_repeated(&self, func: Func) -> bool {
        let mut callers: FxHashMap<Func, Vec<(Func, bool)>> = FxHashMap::default();
        for (caller, f) in &self.module.funcs {
            if !f.has_body() {
                continue;
            }
            calls(f, (f.body(), false), &mut |callee, in_loop| {
                callers.entry(callee).or_default().push((caller, in_loop));
            });
        }
        let (mut seen, mut work) = (FxHashSet::default(), vec![func]);
        while let Some(callee) = work.pop() {
            for &(caller, in_loop) in callers.get(&callee).into_iter().flatten() {
                if in_loop || caller == func {
                    return true;
                }
                work.extend(seen.insert(caller).then_some(caller));
            }
        }
        false
    }
}

fn checkpoint(op: &Op) -> Option<Checkpoint> {
    match op {
        Op::For(info) | Op::Loop(info) => info.checkpoint.filter(|_| !info.down),
        _ => None,
    }
}

/// The maximum number of segments of a loop and the maximum number of trips of a segment.
fn bounds(src: &Function, defs: &Defs, inst: Inst) -> (Option<u32>, Option<u32>) {
    let trips = known_trips(src, defs, inst);
    match checkpoint(&src.insts[inst].op) {
        Some(Checkpoint::Every(n)) => {
            let bound = trips.and_then(|t| u32::try_from(t.div_ceil(u64::from(n))).ok());
            (bound, Some(n))
        }
        Some(Checkpoint::States(states)) => (Some(binomial::MOST_GROWING), Some(states.saturating_add(1))),
        Some(Checkpoint::Root) | None => {
            let root = trips.map(|t| (2.0 * t as f64).sqrt().ceil() as u32 + 1);
            (root, root)
        }
    }
}

/// The number of leading operands of a loop that are not carried.
fn lead(op: &Op) -> usize {
    usize::from(matches!(op, Op::For(_)))
}

/// Collects the loops to be split, and whether they run in a loop: outermost ones only, as the inner ones become
/// part of the segment. A loop that yields stacks was made by differentiation and is skipped.
fn loops(src: &Function, (region, repeated): (Region, bool), found: &mut Vec<(Inst, bool)>) {
    for &inst in &src.regions[region].insts {
        let data = &src.insts[inst];
        if checkpoint(&data.op).is_some() && data.results.len() == data.args.len() - lead(&data.op) {
            found.push((inst, repeated));
        } else {
            let repeated = repeated || matches!(data.op, Op::For(_) | Op::Loop(_));
            data.regions.iter().for_each(|&r| loops(src, (r, repeated), found));
        }
    }
}

/// Visits the calls of a region, and whether they are in a loop.
fn calls(src: &Function, (region, repeated): (Region, bool), visit: &mut dyn FnMut(Func, bool)) {
    for &inst in &src.regions[region].insts {
        let data = &src.insts[inst];
        if let Op::Call(callee) = data.op {
            visit(callee, repeated);
        }
        let repeated = repeated || matches!(data.op, Op::For(_) | Op::Loop(_));
        data.regions.iter().for_each(|&r| calls(src, (r, repeated), visit));
    }
}

fn writes(src: &Function, region: Region, cell: Value) -> bool {
    let mut found = false;
    src.walk(region, &mut |inst| {
        let data = &src.insts[inst];
        found |= matches!(data.op, Op::Store | Op::AddTo | Op::SubCell) && data.args[0] == cell;
    });
    found
}
