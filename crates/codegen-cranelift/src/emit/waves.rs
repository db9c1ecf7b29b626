//! Wave operations: the lanes' values, and where a thread is.
//!
//! Lanes are together at an operation if they reach it along the same path: the same arms, calls and trips. In
//! functions that reach a wave operation the code keeps that path in the context, as words: the place of an
//! instruction in its region, then the number of the arm or trip, and so on inwards. A word is set by its depth,
//! which is known here but for the depth of the function itself, so nothing has to be taken off when a region ends.
//! Compared word by word, paths are in the order in which one thread passes them (see [`crate::exec`]), and
//! they are those of [`ir::interp::Machine::path`]. Functions without wave operations pay nothing.

use cranelift_codegen::ir::{InstBuilder, Value};
use ir::{Func, Inst, InstData, Op, Region};

use super::{Emitter, Res};
use native::runtime::Helper;
use native::types::{is_array, size};

impl Emitter<'_, '_> {
    /// Begins a function: if its paths matter, its own depth is asked for.
    pub(super) fn begin_path(&mut self, func: Func) {
        if self.cx.plan.converges(func) {
            self.path_base = Some(self.helper_value(Helper::PathLen, &[self.ctx]));
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
        let at = self.add_imm(base, depth);
        self.helper(Helper::PathNext, &[self.ctx, at]);
    }

    fn path_word(&mut self, base: Value, depth: i64, word: i64) {
        let at = self.add_imm(base, depth);
        let word = self.i64(word);
        self.helper(Helper::PathSet, &[self.ctx, at, word]);
    }

    /// Waits for the lanes that are here and takes what each gives.
    pub(super) fn wave_gather(&mut self, data: &InstData) -> Res {
        let own = self.ty(data.args[0]);
        let bytes = size(self.ts, own);
        let vals = self.get(data.args[0]);
        let from = if is_array(self.ts, own) {
            vals[0]
        } else {
            let from = self.memory(bytes.max(1));
            self.store(own, &vals, from, 0);
            from
        };
        let to = self.memory(bytes.max(1) * u64::from(ir::WAVE_LANES));
        let bytes = self.b.ins().iconst(cranelift_codegen::ir::types::I64, bytes as i64);
        let mask = self.helper_value(Helper::Wave, &[self.ctx, from, bytes, to]);
        self.set(data.results[0], &[to]);
        self.set(data.results[1], &[mask]);
        Ok(())
    }
}
