//! Wave operations: the lanes' values, and where a thread is.
//!
//! A thread with wave operations runs by itself, never in lanes of this backend: which threads are together is found
//! at run time, by the path that each has come. How paths are kept is told in the other backend's file of this name;
//! the words are the same, those of `ir::interp::Machine::path`.

use ir::{Func, Inst, InstData, Op, Region};
use native::runtime::Helper;
use native::types::{is_array, size};

use super::local::Place;
use super::{Emitter, Res};
use crate::text::{El, Val};

impl Emitter<'_, '_> {
    /// Begins a function: if its paths matter, its own depth is asked for.
    pub(super) fn begin_path(&mut self, func: Func) {
        if self.cx.plan.converges(func) {
            self.path_base = Some(self.helper_value(Helper::PathLen, &[]));
        }
    }

    /// Whether a wave operation (or a barrier next to some) is reached from an instruction.
    fn converges(&self, inst: Inst) -> bool {
        let data = &self.f.insts[inst];
        match data.op {
            Op::WaveGather | Op::Barrier => true,
            Op::Call(callee) => self.cx.plan.converges(callee),
            Op::If | Op::Switch(_) | Op::For(_) | Op::Loop(_) => {
                let mut found = false;
                for &region in &data.regions {
                    self.f.walk(region, &mut |inner| {
                        found |= match self.f.insts[inner].op {
                            Op::WaveGather | Op::Barrier => true,
                            Op::Call(callee) => self.cx.plan.converges(callee),
                            _ => false,
                        };
                    });
                }
                found
            }
            _ => false,
        }
    }

    /// The depth of a region's instructions, counted from the function's own.
    fn depth(&self, mut region: Region) -> i64 {
        let mut depth = 0;
        while let Some(holder) = self.holder[region].expand() {
            depth += 2;
            match self.inst_region[holder].expand() {
                Some(outer) => region = outer,
                None => break,
            }
        }
        depth
    }

    /// Says that this instruction of its region comes now.
    pub(super) fn path_inst(&mut self, inst: Inst) {
        let (Some(base), Some(region)) = (self.path_base, self.inst_region[inst].expand()) else { return };
        if !self.converges(inst) {
            return;
        }
        let place = self.f.regions[region].insts.iter().position(|&i| i == inst).unwrap_or(0);
        let depth = self.depth(region);
        self.path_word(base, depth, place as i64);
        if matches!(self.f.insts[inst].op, Op::For(_) | Op::Loop(_)) {
            // The first trip counts from here to 0.
            self.path_word(base, depth + 1, -1);
        }
    }

    /// Says that a region of an `if` or `switch` begins.
    pub(super) fn path_arm(&mut self, region: Region) {
        let (Some(base), Some(holder)) = (self.path_base, self.holder[region].expand()) else { return };
        if !self.converges(holder) {
            return;
        }
        let arm = self.f.insts[holder].regions.iter().position(|&r| r == region).unwrap_or(0);
        let depth = self.depth(region) - 1;
        self.path_word(base, depth, arm as i64);
    }

    /// Says that a trip of a loop begins.
    pub(super) fn path_trip(&mut self, region: Region) {
        let (Some(base), Some(holder)) = (self.path_base, self.holder[region].expand()) else { return };
        if !self.converges(holder) {
            return;
        }
        let depth = self.depth(region) - 1;
        let at = self.w.binary("add", base, Val::i64(depth));
        self.helper(Helper::PathNext, &[at]);
    }

    fn path_word(&mut self, base: Val, depth: i64, word: i64) {
        let at = self.w.binary("add", base, Val::i64(depth));
        self.helper(Helper::PathSet, &[at, Val::i64(word)]);
    }

    /// Waits for the lanes that are here and takes what each gives.
    pub(super) fn wave_gather(&mut self, data: &InstData) -> Res {
        if self.lanes > 1 {
            return self.no_lanes("a wave operation", data.span);
        }
        let own = self.ty(data.args[0]);
        let bytes = size(self.ts, own);
        let vals = self.get(data.args[0]);
        let from = if is_array(self.ts, own) {
            vals[0]
        } else {
            let from = self.memory(bytes.max(1), false);
            self.store(own, &vals, Place::local(from), data.span)?;
            from
        };
        let to = self.memory(bytes.max(1) * u64::from(ir::WAVE_LANES), false);
        let mask = self.helper_value(Helper::Wave, &[from, Val::i64(bytes as i64), to]);
        self.set(data.results[0], &[to]);
        self.set(data.results[1], &[Val { el: El::I32, ..mask }]);
        Ok(())
    }
}
