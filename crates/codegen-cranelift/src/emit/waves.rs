//! Emits wave operations, and the code that keeps track of a thread's path.
//!
//! [`native::nesting`] describes paths.

use cranelift_codegen::ir::{InstBuilder, Value};
use ir::{Func, Inst, InstData, Region};

use super::{Emitter, Res};
use native::runtime::Helper;
use native::types::{is_array, size};

impl Emitter<'_, '_> {
    /// Begins a function: if its paths matter, loads the depth at which its own words begin.
    pub(super) fn begin_path(&mut self, func: Func) {
        if self.cx.plan.converges(func) {
            self.path_base = Some(self.helper_value(Helper::PathLen, &[self.ctx]));
        }
    }

    /// Records in the path that `inst` is executed next.
    pub(super) fn path_inst(&mut self, inst: Inst) {
        let Some(base) = self.path_base else { return };
        for (depth, word) in self.nesting.path_inst(&self.cx.plan, inst) {
            self.path_word(base, depth, word);
        }
    }

    /// Records in the path that a region of an `if` or `switch` begins.
    pub(super) fn path_arm(&mut self, region: Region) {
        let Some(base) = self.path_base else { return };
        if let Some((depth, arm)) = self.nesting.path_arm(&self.cx.plan, region) {
            self.path_word(base, depth, arm);
        }
    }

    /// Records in the path that a trip of a loop begins.
    pub(super) fn path_trip(&mut self, region: Region) {
        let Some(base) = self.path_base else { return };
        if let Some(depth) = self.nesting.path_trip(&self.cx.plan, region) {
            let at = self.add_imm(base, depth);
            self.helper(Helper::PathNext, &[self.ctx, at]);
        }
    }

    fn path_word(&mut self, base: Value, depth: i64, word: i64) {
        let at = self.add_imm(base, depth);
        let word = self.i64(word);
        self.helper(Helper::PathSet, &[self.ctx, at, word]);
    }

    /// Waits for the lanes that take part in the operation, and gathers their values.
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
