//! Makes handles of buffers: see `native::emit::world`.

use ir::{Global, Space};
use native::runtime::offsets;

use super::Emitter;
use super::local::Class;
use crate::text::{El, Val, Vals};

impl Emitter<'_, '_> {
    /// The null handle.
    pub(super) fn null(&self) -> Vals {
        Vals::from_slice(&[Val::bits(El::Ptr, 0), Val::i64(0), Val::i64(0), Val::i64(0)])
    }

    /// The handle of a global; for a private global, each lane has its own memory.
    pub(super) fn global(&mut self, global: Global) -> Vals {
        let at = i64::from(global.as_u32()) * 16;
        let table = self.field(El::Ptr, offsets::GLOBALS);
        let note = self.note(Class::Constant, 8);
        let at_ptr = self.w.offset(table, Val::i64(at));
        let ptr = self.w.load(El::Ptr, false, at_ptr, &note);
        let at_count = self.w.offset(table, Val::i64(at + 8));
        let count = self.w.load(El::I64, false, at_count, &note);
        let data = &self.cx.ir.globals[global];
        let ptr = if self.lanes > 1 && data.space == Space::Private {
            let bytes = private_bytes(self.cx.ir.mem.size(data.ty));
            let lanes = self.iota(El::I64);
            let by = self.w.binary("mul", lanes, Val::i64(bytes as i64));
            self.w.offset(ptr, by)
        } else {
            ptr
        };
        Vals::from_slice(&[ptr, count, Val::i64(0), Val::i64(0)])
    }

    /// The handle for eight bytes in memory, which hold the number of a buffer, from 1.
    pub(super) fn pointee(&mut self, bits: Val) -> Vals {
        let table = self.field(El::Ptr, offsets::HANDLES);
        let count = self.field(El::I64, offsets::HANDLE_COUNT);
        let number = self.w.binary("add", bits, Val::i64(-1));
        let inside = self.w.compare("icmp ult", number, count);
        let bytes = self.w.binary("mul", number, Val::i64(16));
        let at = self.w.offset(table, bytes);
        let at = self.w.select(inside, at, Val::name(El::Ptr, "@rt_zero"));
        let ptr = self.read(El::Ptr, at, Class::Context, None);
        let second = self.w.offset(at, Val::i64(8));
        let count = self.read(El::I64, second, Class::Context, None);
        Vals::from_slice(&[ptr, count, Val::i64(0), Val::i64(0)])
    }
}

/// The distance in bytes between the memory of neighbouring lanes for a private global.
pub(super) fn private_bytes(size: u64) -> u64 {
    size.next_multiple_of(16)
}
