//! Wave operations: the lanes' values, and where a thread is.
//!
//! A thread with wave operations runs by itself, never in lanes of this backend: which threads are together is found
//! at run time, by the path that each has come. How that is kept is told in [`native::nesting`].
//!
//! On a machine whose threads are lanes already, the context has the mask of the lanes that are together instead. Regions
//! have one entry and one exit, so before a branch on the way to a wave operation the lanes of the mask tell each other
//! which way they go: the mask becomes those that go the same way, and behind the branch it is again what it was. The same
//! at the end of each trip of a loop.

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
            if self.cx.has_waves {
                self.keeps_mask = true;
                return;
            }
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

    /// Whether it matters who comes to the operation that holds a region.
    pub(super) fn parts_at(&self, region: Region) -> bool {
        self.keeps_mask && self.nesting.path_arm(&self.cx.plan, region).is_some()
    }

    /// Lanes part that go different ways into a region, by the number of the way; gives the mask of those that were
    /// together, for [`Self::rejoin`]. Nothing, where that does not matter.
    pub(super) fn split_lanes(&mut self, region: Region, way: Val) -> Option<Val> {
        if !self.parts_at(region) {
            return None;
        }
        let way = if way.el == El::I1 { self.w.cast("zext", way, El::I32) } else { way };
        self.w.declare("declare i32 @rt_part(ptr, i32) nounwind".to_string());
        self.call_text("rt_part", Some(El::I32), &[Val::name(El::Ptr, "%ctx"), way])
    }

    /// The mask of the lanes that come to the operation that holds a region, for [`Self::rejoin`].
    pub(super) fn together(&mut self, region: Region) -> Option<Val> {
        if !self.parts_at(region) {
            return None;
        }
        self.w.declare("declare i32 @rt_together(ptr) nounwind".to_string());
        self.call_text("rt_together", Some(El::I32), &[Val::name(El::Ptr, "%ctx")])
    }

    /// The lanes of a mask are together again.
    pub(super) fn rejoin(&mut self, mask: Option<Val>) {
        let Some(mask) = mask else { return };
        self.w.declare("declare void @rt_rejoin(ptr, i32) nounwind".to_string());
        self.call_text("rt_rejoin", None, &[Val::name(El::Ptr, "%ctx"), mask]);
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
