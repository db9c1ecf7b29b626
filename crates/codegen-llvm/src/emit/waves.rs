//! Wave operations: the lanes' values, and where a thread is.
//!
//! A thread with wave operations runs by itself, never in lanes of this backend: which threads are together is found
//! at run time, by the path that each has come. How that is kept is told in [`native::nesting`].

use ir::{Func, Inst, InstData, Region};
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

    /// Says that this instruction of its region comes now.
    pub(super) fn path_inst(&mut self, inst: Inst) {
        let Some(base) = self.path_base else { return };
        for (depth, word) in self.nesting.path_inst(&self.cx.plan, inst) {
            self.path_word(base, depth, word);
        }
    }

    /// Says that a region of an `if` or `switch` begins.
    pub(super) fn path_arm(&mut self, region: Region) {
        let Some(base) = self.path_base else { return };
        if let Some((depth, arm)) = self.nesting.path_arm(&self.cx.plan, region) {
            self.path_word(base, depth, arm);
        }
    }

    /// Says that a trip of a loop begins.
    pub(super) fn path_trip(&mut self, region: Region) {
        let Some(base) = self.path_base else { return };
        if let Some(depth) = self.nesting.path_trip(&self.cx.plan, region) {
            let at = self.w.binary("add", base, Val::i64(depth));
            self.helper(Helper::PathNext, &[at]);
        }
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
