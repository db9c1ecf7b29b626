//! Emits operations on handles of buffers. A handle is the address of the first element, the number of
//! elements, an element offset that is added to every index, and the number of bytes that there are of one
//! more, partial element.

use ir::{Global, InstData, Op, Rest, Space, TypeData};
use native::emit::Assembler;
use native::runtime::offsets;

use super::local::Class;
use super::{Emitter, Res};
use crate::text::{El, Val, Vals};

impl Emitter<'_, '_> {
    /// Emits ops that make or inspect handles.
    pub(super) fn handle(&mut self, data: &InstData) -> Res {
        let result = data.results[0];
        let vals = match &data.op {
            Op::GlobalRef(global) => {
                self.roots.insert(result, *global);
                self.global(*global)
            }
            Op::BufferLen => {
                let handle = self.get(data.args[0]);
                let rest = self.w.binary("sub", handle[1], handle[2]);
                let rest = self.w.intrinsic("smax", &[rest, Val::i64(0)], "");
                let rest = self.w.intrinsic("smin", &[rest, Val::i64(u32::MAX as i64)], "");
                Vals::from_slice(&[self.w.cast("trunc", rest, El::I32)])
            }
            Op::BufferOffset => {
                if let Some(&root) = self.roots.get(&data.args[0]) {
                    self.roots.insert(result, root);
                }
                let mut handle = self.get(data.args[0]);
                let by = self.index64(data.args[1]);
                handle[2] = self.add_ints(handle[2], by);
                handle
            }
            Op::BufferCast(rest) => self.buffer_cast(data, *rest)?,
            _ => {
                let handle = self.get(data.args[0]);
                let TypeData::Buffer(elem) = self.ts[self.ty(data.args[0])] else {
                    return self.unsupported(&data.op, "no buffer", data.span);
                };
                let bytes = self.times(handle[2], self.cx.ir.mem.size(elem));
                let address = self.w.offset(handle[0], bytes);
                let address = self.w.cast("ptrtoint", address, El::I64);
                let some = self.w.binary("or", handle[1], handle[3]);
                let empty = self.w.compare("icmp eq", some, Val::i64(0));
                let address = self.w.select(empty, Val::i64(0), address);
                let low = self.w.cast("trunc", address, El::I32);
                let high = self.w.binary("lshr", address, Val::i64(32));
                Vals::from_slice(&[low, self.w.cast("trunc", high, El::I32)])
            }
        };
        self.set(result, &vals);
        Ok(())
    }

    /// Reinterprets memory as elements of another type: the part of the offset that is less than an element
    /// moves the address.
    fn buffer_cast(&mut self, data: &InstData, kind: Rest) -> Res<Vals> {
        let (TypeData::Buffer(from), TypeData::Buffer(to)) =
            (self.ts[self.ty(data.args[0])], self.ts[self.ty(data.results[0])])
        else {
            return self.unsupported(&data.op, "no buffer", data.span);
        };
        if let Some(&root) = self.roots.get(&data.args[0]) {
            self.roots.insert(data.results[0], root);
        }
        let (from, to) = (self.cx.ir.mem.size(from).max(1), self.cx.ir.mem.size(to).max(1) as i64);
        let handle = self.get(data.args[0]);
        let by = self.index64(data.args[1]);
        let at = self.times(handle[2], from);
        let at = self.w.binary("add", at, by);
        let (size, zero) = (Val::i64(to), Val::i64(0));
        // The division rounds down.
        let rest = self.w.binary("srem", at, size);
        let below = self.w.compare("icmp slt", rest, zero);
        let fix = self.w.select(below, size, zero);
        let rest = self.w.binary("add", rest, fix);
        let whole = self.w.binary("sub", at, rest);
        let offset = self.w.binary("sdiv", whole, size);
        let bytes = self.times(handle[1], from);
        let bytes = self.w.binary("add", bytes, handle[3]);
        let some = self.w.compare("icmp uge", bytes, rest);
        let left = self.w.binary("sub", bytes, rest);
        let left = self.w.select(some, left, zero);
        let count = self.w.binary("udiv", left, size);
        let part = match kind {
            Rest::Kept => {
                let counted = self.times(count, to as u64);
                self.w.binary("sub", left, counted)
            }
            Rest::Dropped => zero,
        };
        let ptr = self.w.offset(handle[0], rest);
        Ok(Vals::from_slice(&[ptr, count, offset, part]))
    }

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
