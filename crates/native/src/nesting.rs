//! Answers queries of emitters about the structure of a function: which instruction defines a value, which
//! region holds an instruction, how large an index can be, which instructions write a cell, and which words
//! make up the path that a thread takes to a wave operation.
//!
//! # Paths
//!
//! Lanes take part in the same wave operation if they reach it along the same path: the same arms, calls and
//! trips. In functions that reach a wave operation, the code keeps that path in the context as a list of
//! words: the position of an instruction in its region, then the number of the arm or trip, and so on
//! inwards. A word is set by its depth, which is known at compile time except for the depth of the function
//! itself, so nothing has to be removed when a region ends. Compared word by word, paths are ordered as one
//! thread passes them, and they are the paths of [`ir::interp::Machine::path`]. Functions without wave
//! operations have no overhead.

use ir::analysis::Analyses;
use ir::analysis::points_to::root_cell;
use ir::{Function, Inst, Op, Region, Types, Value};

use crate::plan::Plan;

/// The structure of one function.
pub struct Nesting<'m> {
    f: &'m Function,
    /// The analyses of the function.
    pub analyses: Analyses<'m>,
}

impl<'m> Nesting<'m> {
    /// Analyses `f`.
    pub fn of(f: &'m Function, types: &'m Types) -> Nesting<'m> {
        Nesting { f, analyses: Analyses::of(types, f) }
    }

    // ---- regions

    /// Returns true if the region may grow a stack that a cell outside of it holds.
    pub fn grows_outer(&self, region: Region) -> bool {
        let (f, types) = (self.f, self.analyses.types);
        f.any(region, &|inst| {
            let data = &f.insts[inst];
            if !matches!(data.op, Op::Store | Op::AddTo) {
                return false;
            }
            let root = root_cell(f, self.analyses.defs(), data.args[0]);
            types.content(f.ty(root)).is_some_and(|t| types.has_stack(t))
                && !self.analyses.is_defined_in(root, region)
        })
    }

    // ---- cells

    /// Returns true if nothing writes the cell after `inst` while the value that `inst` loads is live: `inst`
    /// and the cell are in the same region, and no instruction that follows there writes the cell.
    pub fn last_use(&self, inst: Inst, cell: Value) -> bool {
        let Some(region) = self.analyses.home(inst) else { return false };
        let f = self.f;
        let mut rest = f.regions[region].insts.iter().rev().take_while(|&&i| i != inst);
        let made = self.analyses.inst(cell).filter(|&i| f.insts[i].op == Op::Local);
        let made_here = made.is_some_and(|i| self.analyses.home(i) == Some(region));
        let writes = |i: Inst| {
            matches!(f.insts[i].op, Op::Store | Op::AddTo)
                && root_cell(f, self.analyses.defs(), f.insts[i].args[0]) == cell
        };
        let may_write = |i: Inst| writes(i) || f.insts[i].regions.iter().any(|&inner| f.any(inner, &writes));
        made_here && rest.all(|&i| !may_write(i))
    }

    // ---- paths

    /// Returns true if the instruction reaches a wave operation or a barrier. Only meaningful in functions
    /// for which [`Plan::converges`] is true.
    fn converges(&self, plan: &Plan, inst: Inst) -> bool {
        let is_one = |inst: Inst| match self.f.insts[inst].op {
            Op::WaveGather | Op::WaveMultiply(_) | Op::Barrier => true,
            Op::Call(callee) => plan.converges(callee),
            _ => false,
        };
        is_one(inst) || self.f.insts[inst].regions.iter().any(|&region| self.f.any(region, &is_one))
    }

    /// The depth of the words of a region's instructions, counted from the depth of the function.
    fn depth(&self, region: Region) -> i64 {
        2 * i64::from(self.analyses.tree().depth(region))
    }

    /// The words, each with its depth, that record in the path that `inst` is executed next.
    pub fn path_inst(&self, plan: &Plan, inst: Inst) -> Vec<(i64, i64)> {
        let Some(region) = self.analyses.home(inst).filter(|_| self.converges(plan, inst)) else {
            return Vec::new();
        };
        let place = self.f.regions[region].insts.iter().position(|&i| i == inst).unwrap_or(0);
        let depth = self.depth(region);
        let mut words = vec![(depth, place as i64)];
        if matches!(self.f.insts[inst].op, Op::For(_) | Op::Loop(_)) {
            // The first trip increments this word to 0.
            words.push((depth + 1, -1));
        }
        words
    }

    /// The word, with its depth, that records in the path that a region of an `if` or `switch` begins.
    pub fn path_arm(&self, plan: &Plan, region: Region) -> Option<(i64, i64)> {
        let holder = self.analyses.tree().holder(region).filter(|&holder| self.converges(plan, holder))?;
        let arm = self.f.insts[holder].regions.iter().position(|&r| r == region).unwrap_or(0);
        Some((self.depth(region) - 1, arm as i64))
    }

    /// The depth of the word that counts the trips of a loop.
    pub fn path_trip(&self, plan: &Plan, region: Region) -> Option<i64> {
        self.analyses.tree().holder(region).filter(|&holder| self.converges(plan, holder))?;
        Some(self.depth(region) - 1)
    }
}
