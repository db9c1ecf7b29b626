//! What emitters ask of a function's structure: which instruction makes a value, which region it is in, how large an
//! index can be, who writes a cell, and the words of the path that a thread takes to a wave operation.
//!
//! # Paths
//!
//! Lanes are together at a wave operation if they reach it along the same path: the same arms, calls and trips. In
//! functions that reach one the code keeps that path in the context, as words: the place of an instruction in its
//! region, then the number of the arm or trip, and so on inwards. A word is set by its depth, which is known here but
//! for the depth of the function itself, so nothing has to be taken off when a region ends. Compared word by word,
//! paths are in the order in which one thread passes them, and they are those of [`ir::interp::Machine::path`].
//! Functions without wave operations pay nothing.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use ir::{Function, Inst, InstData, Op, Region, Scalar, TypeData, Types, Value};
use rustc_hash::FxHashMap;

use crate::plan::Plan;

/// A cell within a cell, and this far into regions, is looked for; beyond that the answer is the careful one.
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
    /// The structure of `f`.
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

    /// The instruction that defines `v`, if it is no parameter.
    pub fn inst_of(&self, v: Value) -> Option<Inst> {
        self.defs[v].expand()
    }

    /// The same, its data.
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

    /// Says how large a loop's counter gets.
    pub fn set_largest(&mut self, counter: Value, largest: u64) {
        self.counters.insert(counter, largest);
    }

    fn scalar_of(&self, v: Value) -> Scalar {
        self.types.scalar_of(self.f.ty(v)).unwrap_or(Scalar::U64)
    }

    /// The largest integer that `v` can be, where that is easy to see in so many steps.
    pub fn upper_bound(&self, v: Value, depth: u32) -> Option<u64> {
        if let Some(&max) = self.counters.get(&v) {
            return Some(max);
        }
        let s = self.scalar_of(v);
        if !s.is_int() || depth == 0 {
            return None;
        }
        let data = self.def(v)?;
        // Small enough that neither signs nor wrapping come in.
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

    /// Whether a region is within another or the same.
    fn within(&self, mut region: Region, outer: Region) -> bool {
        while region != outer {
            let Some(inst) = self.holders[region].expand() else { return false };
            let Some(next) = self.homes[inst].expand() else { return false };
            region = next;
        }
        true
    }

    /// Whether a region makes a stack in a cell outside of it grow.
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

    /// Whether nothing writes the cell after `inst` while what it loads lives: `inst` and the cell
    /// are of one region and only reads of the cell follow there.
    pub fn last_use(&self, inst: Inst, cell: Value) -> bool {
        let Some(region) = self.homes[inst].expand() else { return false };
        let insts = &self.f.regions[region].insts;
        let mut rest = insts.iter().rev().take_while(|&&i| i != inst);
        let made = self.inst_of(cell).filter(|&i| self.f.insts[i].op == Op::Local);
        let made_here = made.is_some_and(|i| self.homes[i].expand() == Some(region));
        made_here && rest.all(|&i| !self.writes(i, cell, DEEP))
    }

    /// Whether an instruction may write a cell, itself or in its regions.
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

    /// Whether a wave operation (or a barrier next to some) is reached from an instruction.
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

    /// The depth of a region's instructions, counted from the function's own.
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

    /// The words that say that this instruction of its region comes now, each with its depth.
    pub fn path_inst(&self, plan: &Plan, inst: Inst) -> Vec<(i64, i64)> {
        let Some(region) = self.homes[inst].expand().filter(|_| self.converges(plan, inst)) else {
            return Vec::new();
        };
        let place = self.f.regions[region].insts.iter().position(|&i| i == inst).unwrap_or(0);
        let depth = self.depth(region);
        let mut words = vec![(depth, place as i64)];
        if matches!(self.f.insts[inst].op, Op::For(_) | Op::Loop(_)) {
            // The first trip counts from here to 0.
            words.push((depth + 1, -1));
        }
        words
    }

    /// The word that says that a region of an `if` or `switch` begins, with its depth.
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
