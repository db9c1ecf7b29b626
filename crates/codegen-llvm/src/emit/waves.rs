//! Emits wave operations, and the code that keeps track of which threads are together.
//!
//! A thread with wave operations runs by itself, never in lanes of this backend: which threads are together
//! is determined at run time, from the path that each has taken. [`native::nesting`] describes paths.
//!
//! On a machine whose threads are lanes already, the context holds the mask of the lanes that are together
//! instead. Regions have one entry and one exit. So before a branch on the way to a wave operation, the lanes
//! of the mask exchange which way they go, and the mask becomes that of the lanes that go the same way; after
//! the branch the previous mask is restored. The same happens at the end of each trip of a loop.

use ir::{Func, Region};

use super::Emitter;
use crate::text::{El, Val};

impl Emitter<'_, '_> {
    /// Begins a function: if its paths matter, loads the depth at which its own words begin.
    pub(super) fn begin_path(&mut self, func: Func) {
        if self.cx.has_waves {
            self.keeps_mask = self.cx.plan.converges(func);
        } else {
            native::emit::begin_path(self, func);
        }
    }

    /// Returns true if the mask has to be maintained at the operation that holds a region.
    pub(super) fn parts_at(&self, region: Region) -> bool {
        self.keeps_mask && self.nesting.path_arm(&self.cx.plan, region).is_some()
    }

    /// Splits the mask by the number of the way that each lane takes into a region; returns the mask of the
    /// lanes that were together, for [`Self::rejoin`], or `None` if the mask need not be maintained.
    pub(super) fn split_lanes(&mut self, region: Region, way: Val) -> Option<Val> {
        if !self.parts_at(region) {
            return None;
        }
        let way = if way.el == El::I1 { self.w.cast("zext", way, El::I32) } else { way };
        self.w.declare("i32", "rt_part", "ptr, i32", " nounwind");
        self.call_text("rt_part", Some(El::I32), &[Val::name(El::Ptr, "%ctx"), way])
    }

    /// The mask of the lanes that reach the operation that holds a region, for [`Self::rejoin`].
    pub(super) fn together(&mut self, region: Region) -> Option<Val> {
        if !self.parts_at(region) {
            return None;
        }
        self.w.declare("i32", "rt_together", "ptr", " nounwind");
        self.call_text("rt_together", Some(El::I32), &[Val::name(El::Ptr, "%ctx")])
    }

    /// Restores a mask: its lanes are together again.
    pub(super) fn rejoin(&mut self, mask: Option<Val>) {
        let Some(mask) = mask else { return };
        self.w.declare("void", "rt_rejoin", "ptr, i32", " nounwind");
        self.call_text("rt_rejoin", None, &[Val::name(El::Ptr, "%ctx"), mask]);
    }
}
