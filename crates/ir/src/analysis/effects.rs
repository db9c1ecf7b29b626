//! Summarises the effects of functions and instructions.
//!
//! Every function is a map from values to values except for its effects: accesses to memory that the host
//! sees, output and errors. A summary states which of those a call may have. Summaries are the least fixpoint
//! of "the effects of the instructions and of the callees", found by going over the call graph from callees
//! to callers until nothing changes; so they over-approximate every execution, recursion included. Cells are
//! not in a summary, since they never leave their function.
//!
//! Before AD a call may mean more than its body: a function with a custom derivative must still be called
//! when its value is not used, since the custom function runs in the reverse sweep. At that stage, calls of
//! such functions therefore count as writing.

use cranelift_entity::{EntityRef, EntitySet, SecondaryMap};

use super::flow::{Lattice, join_callees};
use super::points_to::{root_cell, root_global};
use super::{Defs, post_order};
use crate::entities::{Func, Global, Inst, Region, Value};
use crate::function::Function;
use crate::module::{Module, Space};
use crate::ops::Op;

/// The effects that running an instruction may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Reads memory that can change.
    pub reads: bool,
    /// Writes memory, prints, waits or stops the program.
    pub writes: bool,
    /// May run forever, or end in a reported error: may be removed, but not run speculatively.
    pub hangs: bool,
}

impl Effects {
    /// All effects, for code of which nothing is known.
    pub const ANY: Effects = Effects { reads: true, writes: true, hangs: true };
    /// No effects: the code only computes.
    pub const NONE: Effects = Effects { reads: false, writes: false, hangs: false };

    /// The union of two sets of effects.
    #[must_use]
    pub fn or(self, other: Effects) -> Effects {
        Effects {
            reads: self.reads | other.reads,
            writes: self.writes | other.writes,
            hangs: self.hangs | other.hangs,
        }
    }
}

impl Lattice for Effects {
    fn join(&mut self, other: &Effects) -> bool {
        let before = std::mem::replace(self, self.or(*other));
        before != *self
    }
}

/// The stage of compilation, which decides whether calls also stand for their derivatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Derivatives are still to be made.
    BeforeAd,
    /// All derivatives are plain functions.
    AfterAd,
}

/// The effects of all functions of a module, and the memory that is constant. They valid while one of
/// its functions is changed, since passes only remove effects.
#[derive(Clone, Debug, Default)]
pub struct Summaries {
    funcs: SecondaryMap<Func, Effects>,
    constant: Vec<bool>,
}

impl Summaries {
    /// Summaries of all functions of a module.
    pub fn of(module: &Module, stage: Stage) -> Summaries {
        let constant: Vec<bool> =
            module.globals.values().map(|g| matches!(g.space, Space::ReadOnly | Space::Uniform)).collect();
        let mut all = Summaries { funcs: SecondaryMap::new(), constant };
        let order = post_order(module);
        let mut calls: SecondaryMap<Func, Vec<Func>> = SecondaryMap::new();
        let mut done = EntitySet::new();
        for &f in &order {
            let mut own = all.own(&module.funcs[f], stage, &mut calls[f]);
            let witness = module.witness(f);
            if stage == Stage::BeforeAd
                && (witness.vjp.is_some() || witness.jvp.is_some() && !module.funcs[f].has_body())
            {
                own.writes = true;
            }
            // A callee that comes later, or the function itself, is recursion.
            own.hangs |= calls[f].iter().any(|&callee| !done.contains(callee));
            all.funcs[f] = own;
            done.insert(f);
        }
        join_callees(&order, &calls, &mut all.funcs);
        all
    }

    /// The effects of a function by itself; `calls` receives the functions that it calls.
    fn own(&self, func: &Function, stage: Stage, calls: &mut Vec<Func>) -> Effects {
        if !func.has_body() {
            return Effects::ANY;
        }
        let defs = Defs::of(func);
        let mut sum = Effects::NONE;
        func.walk(func.body(), &mut |inst| match func.insts[inst].op {
            Op::Call(f) => calls.push(f),
            Op::CallDerivative(..) if stage == Stage::BeforeAd => sum = Effects::ANY,
            _ => sum = sum.or(self.inst(func, &defs, inst)),
        });
        calls.sort_unstable();
        calls.dedup();
        sum
    }

    /// The summary of a function's effects.
    pub fn func(&self, func: Func) -> Effects {
        self.funcs.get(func).copied().unwrap_or(Effects::ANY)
    }

    /// Returns true if no thread of a dispatch can change a global.
    pub fn is_constant(&self, global: Global) -> bool {
        self.constant.get(global.index()).copied().unwrap_or(false)
    }

    /// Returns true if a buffer handle refers to memory that no thread changes.
    fn is_constant_buffer(&self, func: &Function, defs: &Defs, handle: Value) -> bool {
        root_global(func, defs, handle).is_some_and(|global| self.is_constant(global))
    }

    /// The effects of an instruction by itself, without those of its regions and without accesses to cells.
    pub fn inst(&self, func: &Function, defs: &Defs, inst: Inst) -> Effects {
        let data = &func.insts[inst];
        match &data.op {
            Op::Call(f) => self.func(*f),
            Op::CallDerivative(..) | Op::CallTransposeOf(_) => Effects::ANY,
            Op::BufferLoad(_) => {
                Effects { reads: !self.is_constant_buffer(func, defs, data.args[0]), ..Effects::NONE }
            }
            Op::BufferStore(_) => Effects { writes: true, ..Effects::NONE },
            Op::Atomic(..) | Op::Barrier | Op::WaveGather => {
                Effects { reads: true, writes: true, hangs: false }
            }
            // Lanes wait for each other, so it stays where it is; but nobody misses a product that is not used.
            Op::WaveMultiply(_) => Effects { hangs: true, ..Effects::NONE },
            Op::Printf(_) | Op::Assert(_) => Effects { writes: true, ..Effects::NONE },
            // Two readings of a clock are never one.
            Op::Clock => Effects { reads: true, writes: true, hangs: false },
            Op::CheckFinite(_) => Effects { hangs: true, ..Effects::NONE },
            Op::Loop(_) => Effects { hangs: true, ..Effects::NONE },
            Op::For(info) => Effects { hangs: info.max_iters.is_some(), ..Effects::NONE },
            _ => Effects::NONE,
        }
    }
}

/// The writes in each region, including those in nested regions.
pub struct Writes {
    cells: SecondaryMap<Region, Vec<Value>>,
    effects: SecondaryMap<Region, Effects>,
}

impl Writes {
    /// The writes in all regions of a function.
    pub fn of(func: &Function, defs: &Defs, summaries: &Summaries) -> Writes {
        let mut writes = Writes { cells: SecondaryMap::new(), effects: SecondaryMap::new() };
        writes.region(func, defs, summaries, func.body());
        writes
    }

    /// The root cells that are written in a region, sorted.
    pub fn cells(&self, region: Region) -> &[Value] {
        &self.cells[region]
    }

    /// The effects of a region, except for those on cells.
    pub fn effects(&self, region: Region) -> Effects {
        self.effects[region]
    }

    fn region(&mut self, func: &Function, defs: &Defs, summaries: &Summaries, region: Region) {
        let mut cells = Vec::new();
        let mut effects = Effects::NONE;
        for &inst in &func.regions[region].insts {
            if let Op::Store | Op::AddTo = func.insts[inst].op {
                cells.push(root_cell(func, defs, func.insts[inst].args[0]));
            }
            effects = effects.or(summaries.inst(func, defs, inst));
            for &nested in &func.insts[inst].regions {
                self.region(func, defs, summaries, nested);
                cells.extend(&self.cells[nested]);
                effects = effects.or(self.effects[nested]);
            }
        }
        cells.sort_unstable();
        cells.dedup();
        self.cells[region] = cells;
        self.effects[region] = effects;
    }
}
