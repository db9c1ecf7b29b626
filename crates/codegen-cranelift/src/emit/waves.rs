//! Emits wave operations, and the code that keeps track of a thread's path.
//!
//! [`native::nesting`] describes paths.

use cranelift_codegen::ir::InstBuilder;
use ir::{Func, InstData};

use super::{Emitter, Res};
use native::emit::Assembler;
use native::runtime::Helper;
use native::types::{is_array, size};

impl Emitter<'_, '_> {
    /// Begins a function: if its paths matter, loads the depth at which its own words begin.
    pub(super) fn begin_path(&mut self, func: Func) {
        if self.cx.plan.converges(func) {
            self.path_base = Some(self.helper_value(Helper::PathLen, &[]));
        }
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
        let mask = self.helper_value(Helper::Wave, &[from, bytes, to]);
        self.set(data.results[0], &[to]);
        self.set(data.results[1], &[mask]);
        Ok(())
    }
}
