//! Emits accesses of local memory: slots, loads, stores, copies and loops over elements.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Type as ClifType, Value, types::*};
use ir::Type;

use super::{Emitter, Res, Vals, constant_memory, plain};
use crate::types::parts;
use native::emit::{Assembler, UNROLL};
use native::runtime::{Helper, offsets};
use native::types::{is_array, size};

impl Emitter<'_, '_> {
    /// Memory for a value that the current instruction makes.
    pub(crate) fn memory(&mut self, bytes: u64) -> Value {
        if bytes > self.big {
            let bytes = self.i64(bytes as i64);
            return self.helper_value(Helper::Alloc, &[bytes]);
        }
        let slot =
            StackSlotData::new(StackSlotKind::ExplicitSlot, (bytes as u32).max(1).next_multiple_of(8), 4);
        let slot = self.b.create_sized_stack_slot(slot);
        self.b.ins().stack_addr(I64, slot, 0)
    }

    /// Loads a field of the context that does not change while the function runs.
    pub(crate) fn field(&mut self, ty: ClifType, offset: i32) -> Value {
        self.b.ins().load(ty, constant_memory(), self.ctx, offset)
    }

    /// The memory that receives dropped writes.
    pub(crate) fn sink(&mut self) -> Value {
        self.field(I64, offsets::SINK)
    }

    /// Loads a value of a type from `addr + offset`; an array is not copied.
    pub(crate) fn load(&mut self, ty: Type, addr: Value, offset: u64) -> Vals {
        let mut out = Vals::new();
        if is_array(self.ts, ty) {
            out.push(self.add_imm(addr, offset as i64));
            return out;
        }
        let mut at = offset;
        for part in parts(self.ts, ty) {
            out.push(self.b.ins().load(part, plain(), addr, at as i32));
            at += part.bytes() as u64;
        }
        out
    }

    /// Writes a value of a type to `addr + offset`.
    pub(crate) fn store(&mut self, ty: Type, vals: &[Value], addr: Value, offset: u64) {
        if is_array(self.ts, ty) {
            let to = self.add_imm(addr, offset as i64);
            return self.copy(to, vals[0], size(self.ts, ty));
        }
        let mut at = offset;
        for &val in vals {
            let bytes = self.b.func.dfg.value_type(val).bytes() as u64;
            self.b.ins().store(plain(), val, addr, at as i32);
            at += bytes;
        }
    }

    /// Copies bytes between two places that are identical or do not overlap.
    pub(crate) fn copy(&mut self, to: Value, from: Value, bytes: u64) {
        if bytes > 128 {
            let n = self.i64(bytes as i64);
            self.helper(Helper::Copy, &[to, from, n]);
            return;
        }
        for (at, ty) in chunks(bytes) {
            let x = self.b.ins().load(ty, plain(), from, at);
            self.b.ins().store(plain(), x, to, at);
        }
    }

    /// Writes zeros.
    pub(crate) fn clear(&mut self, to: Value, bytes: u64) {
        if bytes > 128 {
            let n = self.i64(bytes as i64);
            self.helper(Helper::Clear, &[to, n]);
            return;
        }
        for (at, ty) in chunks(bytes) {
            let x = if ty == I8X16 {
                let zero = self.b.ins().iconst(I8, 0);
                self.b.ins().splat(I8X16, zero)
            } else {
                self.b.ins().iconst(ty, 0)
            };
            self.b.ins().store(plain(), x, to, at);
        }
    }

    /// Emits `body` for each byte offset `0, step, …` below `n * step`, in a loop if there are many.
    pub(crate) fn each(&mut self, n: u64, step: u64, body: &mut dyn FnMut(&mut Self, Value) -> Res) -> Res {
        if n <= UNROLL {
            for k in 0..n {
                let at = self.i64((k * step) as i64);
                body(self, at)?;
            }
            return Ok(());
        }
        let (head, exit) = (self.b.create_block(), self.b.create_block());
        let at = self.b.append_block_param(head, I64);
        let zero = self.i64(0);
        self.jump(head, &[zero]);
        self.b.switch_to_block(head);
        body(self, at)?;
        let next = self.add_imm(at, step as i64);
        let end = self.i64((n * step) as i64);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, next, end);
        self.branch(more, (head, &[next]), (exit, &[]));
        self.b.seal_block(head);
        self.enter(exit);
        Ok(())
    }
}

/// The offsets and types of loads that together cover this number of bytes.
fn chunks(bytes: u64) -> impl Iterator<Item = (i32, ClifType)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let ty = match bytes - at {
            0 => return None,
            16.. => I8X16,
            8.. => I64,
            4.. => I32,
            2.. => I16,
            _ => I8,
        };
        let here = at as i32;
        at += ty.bytes() as u64;
        Some((here, ty))
    })
}
