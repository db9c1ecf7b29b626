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

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use ir::{Function, Inst, InstData, Op, Region, Scalar, TypeData, Types, Value};
use rustc_hash::FxHashMap;

use crate::plan::Plan;

/// The depth of nested regions up to which writes of a cell are searched for; beyond it the answer is
/// conservative.
const DEEP: u32 = 64;

/// The structure of one function.
#[derive(Debug)]
pub struct Nesting<'m> {
    f: &'m Function,
    types: &'m Types,
    defs: SecondaryMap<Value, PackedOption<Inst>>,
    homes: SecondaryMap<Inst, PackedOption<Region>>,
    holders: SecondaryMap<Region, PackedOption<Inst>>,
    counters: FxHashMap<Value, u64>,
}

impl<'m> Nesting<'m> {
    /// Analyses `f`.
    pub fn of(f: &'m Function, types: &'m Types) -> Nesting<'m> {
        let mut defs: SecondaryMap<Value, PackedOption<Inst>> = SecondaryMap::new();
        for (inst, data) in f.insts.iter() {
            for &result in &data.results {
                defs[result] = inst.into();
            }
        }
        let mut homes: SecondaryMap<Inst, PackedOption<Region>> = SecondaryMap::new();
        let mut holders: SecondaryMap<Region, PackedOption<Inst>> = SecondaryMap::new();
        for (region, data) in f.regions.iter() {
            for &inst in &data.insts {
                homes[inst] = region.into();
                for &nested in &f.insts[inst].regions {
                    holders[nested] = inst.into();
                }
            }
        }
        Nesting { f, types, defs, homes, holders, counters: FxHashMap::default() }
    }

    // ---- values

    /// The instruction that defines `v`; `None` for a parameter.
    pub fn inst_of(&self, v: Value) -> Option<Inst> {
        self.defs[v].expand()
    }

    /// The data of the instruction that defines `v`; `None` for a parameter.
    pub fn def(&self, v: Value) -> Option<&'m InstData> {
        self.inst_of(v).map(|inst| &self.f.insts[inst])
    }

    /// The bits of `v` if it is a constant scalar.
    pub fn const_of(&self, v: Value) -> Option<u64> {
        match self.def(v)?.op {
            Op::Const(bits) => Some(bits),
            Op::Zero if matches!(self.types[self.f.ty(v)], TypeData::Scalar(_)) => Some(0),
            _ => None,
        }
    }

    /// Records the largest value of a loop's counter.
    pub fn set_largest(&mut self, counter: Value, largest: u64) {
        self.counters.insert(counter, largest);
    }

    fn scalar_of(&self, v: Value) -> Scalar {
        self.types.scalar_of(self.f.ty(v)).unwrap_or(Scalar::U64)
    }

    /// An upper bound of the integer `v`, if a search of at most `depth` steps finds one.
    pub fn upper_bound(&self, v: Value, depth: u32) -> Option<u64> {
        if let Some(&max) = self.counters.get(&v) {
            return Some(max);
        }
        let s = self.scalar_of(v);
        if !s.is_int() || depth == 0 {
            return None;
        }
        let data = self.def(v)?;
        // The bound is small enough that neither signs nor wrapping matter.
        let small = |x: Option<u64>| x.filter(|&x| x < (1u64 << (s.bits() - 1)));
        let arg = |k: usize| self.upper_bound(data.args[k], depth - 1);
        match &data.op {
            Op::Const(bits) => small(Some(*bits)),
            Op::Zero => Some(0),
            Op::Add => small(Some(arg(0)?.checked_add(arg(1)?)?)),
            Op::Mul => small(Some(arg(0)?.checked_mul(arg(1)?)?)),
            Op::Sub => {
                // `c - i` with `i` at most `c`, as in `n - 1 - i`.
                let c = self.const_of(data.args[0])?;
                small(Some(c)).filter(|&c| arg(1).is_some_and(|i| i <= c))
            }
            Op::And => match (arg(0), arg(1)) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            Op::Rem if !s.is_signed_int() => self.const_of(data.args[1])?.checked_sub(1),
            Op::Convert if self.scalar_of(data.args[0]).is_int() => small(arg(0)),
            _ => None,
        }
    }

    // ---- regions

    /// Returns true if `region` is `outer` or nested in it.
    fn within(&self, mut region: Region, outer: Region) -> bool {
        while region != outer {
            let Some(inst) = self.holders[region].expand() else { return false };
            let Some(next) = self.homes[inst].expand() else { return false };
            region = next;
        }
        true
    }

    /// Returns true if the region may grow a stack that a cell outside of it holds.
    pub fn grows_outer(&self, region: Region) -> bool {
        let f = self.f;
        let mut found = false;
        f.walk(region, &mut |inst| {
            let data = &f.insts[inst];
            if matches!(data.op, Op::Store | Op::AddTo) {
                let mut root = data.args[0];
                while let Some(data) = self.def(root)
                    && data.op == Op::SubCell
                {
                    root = data.args[0];
                }
                let holds_stack = self.types.content(f.ty(root)).is_some_and(|t| self.types.has_stack(t));
                let home = self.inst_of(root).and_then(|i| self.homes[i].expand());
                found |= holds_stack && !home.is_some_and(|home| self.within(home, region));
            }
        });
        found
    }

    // ---- cells

    /// Returns true if nothing writes the cell after `inst` while the value that `inst` loads is live: `inst`
    /// and the cell are in the same region, and no instruction that follows there writes the cell.
    pub fn last_use(&self, inst: Inst, cell: Value) -> bool {
        let Some(region) = self.homes[inst].expand() else { return false };
        let insts = &self.f.regions[region].insts;
        let mut rest = insts.iter().rev().take_while(|&&i| i != inst);
        let made = self.inst_of(cell).filter(|&i| self.f.insts[i].op == Op::Local);
        let made_here = made.is_some_and(|i| self.homes[i].expand() == Some(region));
        made_here && rest.all(|&i| !self.writes(i, cell, DEEP))
    }

    /// Returns true if the instruction, or one in its regions, may write the cell.
    fn writes(&self, inst: Inst, cell: Value, depth: u32) -> bool {
        let data = &self.f.insts[inst];
        if depth == 0 {
            return true;
        }
        if matches!(data.op, Op::Store | Op::AddTo)
            && (data.args[0] == cell || self.def(data.args[0]).is_none_or(|d| d.op != Op::Local))
        {
            return true;
        }
        let mut inner = data.regions.iter().flat_map(|&r| &self.f.regions[r].insts);
        inner.any(|&i| self.writes(i, cell, depth - 1))
    }

    // ---- paths

    /// Returns true if the instruction reaches a wave operation or a barrier. Only meaningful in functions
    /// for which [`Plan::converges`] is true.
    fn converges(&self, plan: &Plan, inst: Inst) -> bool {
        let is_one = |inst: Inst| match self.f.insts[inst].op {
            Op::WaveGather | Op::Barrier => true,
            Op::Call(callee) => plan.converges(callee),
            _ => false,
        };
        let mut found = is_one(inst);
        for &region in &self.f.insts[inst].regions {
            self.f.walk(region, &mut |inner| found |= is_one(inner));
        }
        found
    }

    /// The depth of the words of a region's instructions, counted from the depth of the function.
    fn depth(&self, mut region: Region) -> i64 {
        let mut depth = 0;
        while let Some(holder) = self.holders[region].expand() {
            depth += 2;
            match self.homes[holder].expand() {
                Some(outer) => region = outer,
                None => break,
            }
        }
        depth
    }

    /// The words, each with its depth, that record in the path that `inst` is executed next.
    pub fn path_inst(&self, plan: &Plan, inst: Inst) -> Vec<(i64, i64)> {
        let Some(region) = self.homes[inst].expand().filter(|_| self.converges(plan, inst)) else {
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
        let holder = self.holders[region].expand().filter(|&holder| self.converges(plan, holder))?;
        let arm = self.f.insts[holder].regions.iter().position(|&r| r == region).unwrap_or(0);
        Some((self.depth(region) - 1, arm as i64))
    }

    /// The depth of the word that counts the trips of a loop.
    pub fn path_trip(&self, plan: &Plan, region: Region) -> Option<i64> {
        self.holders[region].expand().filter(|&holder| self.converges(plan, holder))?;
        Some(self.depth(region) - 1)
    }
}
