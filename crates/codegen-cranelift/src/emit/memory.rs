//! Emits accesses of memory: places, loads, stores and copies.
//!
//! An index out of range yields a valid address without meaning: zeros for a read, the sink for a write. So an
//! access needs no branch.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types::*};
use ir::{AtomicOp, Global, InstData, MemType, Scalar, Span, Type, TypeData};
use native::emit::{Access, Fixed, Instructions, Memory, Odds, Stack, UNIFORM, blocks, memory};
use native::runtime::{Helper, Word, offsets};
use native::types::{Shape, is_array, size};

use super::{Emitter, Res, Vals};
use crate::common::{chunks, constant_memory, plain};
use crate::types::{clif, parts};

/// A place in memory.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    addr: Value,
    /// The condition that the place is in range; `None` if it certainly is.
    inside: Option<Value>,
    of_stack: bool,
    /// The host sees the memory.
    is_buffer: bool,
}

impl<'m> Memory<'m> for Emitter<'_, 'm> {
    type Place = Place;

    fn memory(&mut self, bytes: u64, _: bool) -> Value {
        if bytes > self.big {
            let bytes = self.i64(bytes as i64);
            return self.helper_value(Helper::Alloc, &[bytes]);
        }
        self.frame_memory(bytes)
    }

    fn offset(&mut self, address: Value, bytes: Value) -> Value {
        if self.constant_of(bytes) == Some(0) { address } else { self.b.ins().iadd(address, bytes) }
    }

    fn address_bits(&mut self, address: Value) -> Value {
        address
    }

    fn times(&mut self, a: Value, n: u64) -> Value {
        match self.constant_of(a) {
            Some(bits) => self.i64(bits.wrapping_mul(n) as i64),
            None => self.mul_imm(a, n),
        }
    }

    fn index64(&mut self, v: ir::Value) -> Value {
        let s = self.scalar_of(v);
        match self.const_of(v) {
            Some(bits) if s.is_signed_int() => self.i64(ir::scalar::to_i64(s, bits)),
            Some(bits) => self.i64(bits as i64),
            None => self.extend(Scalar::I64, s.is_signed_int(), self.one(v)),
        }
    }

    fn stride(&self, elem: Type, _: Value) -> u64 {
        size(self.ts, elem)
    }

    fn clear(&mut self, to: Value, bytes: u64) {
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

    fn first(&mut self, header: Value, of: Stack) -> Value {
        self.b.ins().load(I64, header_memory(of), header, 0)
    }

    fn len(&mut self, header: Value, of: Stack) -> Value {
        self.b.ins().load(I64, header_memory(of), header, 8)
    }

    fn shape(&mut self, elem: Type, _: bool) -> Value {
        let shape = self.cx.shape(Shape::of(self.ts, elem));
        self.i64(shape)
    }

    /// Allocates header and elements at once, if the arena's chunk has room.
    fn new_stack(&mut self, n: Value, counter: Scalar, bytes: u64) -> (Value, Value) {
        const HEADER: i64 = 32;
        let slow = |e: &mut Self| {
            let bytes = e.i64(bytes as i64);
            let made = e.rare_helper(Helper::StackNew, &[n, bytes]).expect("the helper has a result");
            Ok(Vals::from_slice(&[made, e.first(made, Stack::Cell)]))
        };
        let made = if counter.bits() > 32 || bytes >= 1 << 24 {
            slow(self)
        } else {
            let total = self.mul_imm(n, bytes);
            let total = self.add_imm(total, HEADER + 15);
            let mask = self.i64(!15);
            let total = self.b.ins().band(total, mask);
            let (top, end) = (blocks::mark(self), self.context(Word::I64, offsets::ARENA_END));
            let new = self.b.ins().iadd(top, total);
            let fits = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, new, end);
            let fast = |e: &mut Self| {
                e.set_context(new, offsets::ARENA_TOP);
                let first = e.add_imm(top, HEADER);
                for (k, x) in [first, n, n].into_iter().enumerate() {
                    e.store_word(x, top, k);
                }
                Ok(Vals::from_slice(&[top, first]))
            };
            blocks::either(self, fits, Odds::Likely, fast, slow)
        };
        let made = made.expect("no part of it is unsupported");
        (made[0], made[1])
    }

    fn place(&self, addr: Value) -> Place {
        Place { addr, inside: None, of_stack: false, is_buffer: false }
    }

    fn below(&mut self, array: Value, elem: Type, i: Value, inside: Option<Value>) -> Place {
        let bytes = self.times(i, size(self.ts, elem));
        let addr = self.offset(array, bytes);
        Place { inside, ..self.place(addr) }
    }

    fn of_stack(&self, place: Place) -> Place {
        Place { of_stack: true, ..place }
    }

    fn cell(&self, cell: ir::Value, _: Access) -> Place {
        self.place(self.one(cell))
    }

    fn within(&mut self, outer: Place, elem: Type, idx: ir::Value, n: u64) -> Place {
        let i = self.index64(idx);
        let below = memory::is_below(self, idx, i, n);
        let inside = self.both(outer.inside, below);
        Place { of_stack: outer.of_stack, ..self.below(outer.addr, elem, i, inside) }
    }

    fn buffer_element(&mut self, elem: MemType, _: &[ir::Value], handle: &[Value], i: Value) -> Place {
        let bytes = self.times(i, self.cx.ir.mem.size(elem));
        let addr = self.offset(handle[0], bytes);
        Place { is_buffer: true, ..self.place(addr) }
    }

    fn advance(&mut self, place: Place, bytes: Value, _: Option<Value>) -> Place {
        Place { addr: self.offset(place.addr, bytes), ..place }
    }

    fn private_place(&mut self, base: Value, offset: u64) -> Place {
        let addr = self.add_imm(base, offset as i64);
        self.place(addr)
    }

    fn address(&self, place: Place) -> Value {
        place.addr
    }

    fn inside(&self, place: Place) -> Option<Value> {
        place.inside
    }

    fn moved(&self, place: Place, addr: Value, inside: Option<Value>) -> Place {
        Place { addr, inside, ..place }
    }

    fn load(&mut self, ty: Type, place: Place, _: Span) -> Res<Vals> {
        let at = self.readable(ty, place);
        let is_bool = self.ts.scalar_of(ty) == Some(Scalar::Bool);
        if is_array(self.ts, ty) {
            if !place.is_buffer {
                return Ok(Vals::from_slice(&[at]));
            }
            let bytes = size(self.ts, ty);
            let to = self.memory(bytes, UNIFORM);
            if is_bool {
                blocks::each(self, bytes, |e, k| {
                    let (from, to) = (e.offset(at, k), e.offset(to, k));
                    let x = e.b.ins().load(I8, plain(), from, 0);
                    let x = e.truth(x);
                    e.b.ins().store(plain(), x, to, 0);
                    Ok(())
                })?;
            } else {
                self.copy(to, at, bytes);
            }
            return Ok(Vals::from_slice(&[to]));
        }
        let mut out = Vals::new();
        let mut offset = 0;
        for part in parts(self.ts, ty) {
            let x = self.b.ins().load(part, plain(), at, offset);
            out.push(if is_bool && place.is_buffer { self.truth(x) } else { x });
            offset += part.bytes() as i32;
        }
        Ok(out)
    }

    fn store(&mut self, ty: Type, vals: &[Value], place: Place, _: Span) -> Res {
        let at = self.writable(place);
        if is_array(self.ts, ty) {
            self.copy(at, vals[0], size(self.ts, ty));
            return Ok(());
        }
        let mut offset = 0;
        for &val in vals {
            self.b.ins().store(plain(), val, at, offset);
            offset += self.b.func.dfg.value_type(val).bytes() as i32;
        }
        Ok(())
    }

    fn load_word(&mut self, s: Option<Scalar>, words: Value, k: usize) -> Value {
        self.b.ins().load(s.map_or(I64, clif), plain(), words, 8 * k as i32)
    }

    fn store_word(&mut self, x: Value, words: Value, k: usize) {
        self.b.ins().store(plain(), x, words, 8 * k as i32);
    }

    fn atomic(
        &mut self,
        _: &InstData,
        op: (AtomicOp, Scalar),
        place: Place,
        (compare, x): (Value, Value),
    ) -> Res<Value> {
        let inside = place.inside;
        let at = self.writable(place);
        let old = memory::atomic_one(self, op, at, compare, x);
        let Some(inside) = inside else { return Ok(old) };
        let zero = self.constant(op.1, 0);
        Ok(self.b.ins().select(inside, old, zero))
    }

    fn global(&mut self, global: Global) -> Vals {
        let at = global.as_u32() as i32 * 16;
        let table = self.context(Word::Ptr, offsets::GLOBALS);
        let ptr = self.b.ins().load(I64, constant_memory(), table, at);
        let count = self.b.ins().load(I64, constant_memory(), table, at + 8);
        let none = self.i64(0);
        Vals::from_slice(&[ptr, count, none, none])
    }

    fn clear_private(&mut self, base: Value, bytes: u64) {
        self.clear(base, bytes);
    }
}

impl Emitter<'_, '_> {
    /// Memory of the frame.
    pub(super) fn frame_memory(&mut self, bytes: u64) -> Value {
        let bytes = (bytes as u32).max(1).next_multiple_of(8);
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
        let slot = self.b.create_sized_stack_slot(slot);
        self.b.ins().stack_addr(I64, slot, 0)
    }

    /// The address that a read of a value of a type uses: if it is out of range, that of absent differentials
    /// within a stack, else of zeros.
    fn readable(&mut self, ty: Type, place: Place) -> Value {
        let Some(inside) = place.inside else { return place.addr };
        let scalar = self.ts.scalar_of(ty);
        let absent = self.cx.absent.iter().find(|(s, _)| place.of_stack && Some(*s) == scalar);
        let otherwise = match (self.ts[ty], absent) {
            (TypeData::Stack(_), _) => self.fixed(Fixed::EmptyAt),
            (_, Some(&(_, at))) => self.i64(at),
            _ => self.fixed(Fixed::Zeros),
        };
        self.b.ins().select(inside, place.addr, otherwise)
    }

    /// The address that a write uses: if it is out of range, that of memory that receives dropped writes.
    fn writable(&mut self, place: Place) -> Value {
        let Some(inside) = place.inside else { return place.addr };
        let sink = self.context(Word::Ptr, offsets::SINK);
        self.b.ins().select(inside, place.addr, sink)
    }

    /// Converts a byte of the host to a `bool`: true if it is nonzero.
    fn truth(&mut self, byte: Value) -> Value {
        let zero = self.b.ins().iconst(I8, 0);
        self.b.ins().icmp(IntCC::NotEqual, byte, zero)
    }

    /// Copies bytes between two places that are identical or do not overlap.
    pub(super) fn copy(&mut self, to: Value, from: Value, bytes: u64) {
        if to == from {
            return;
        }
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
}

/// The memory of a stack's header.
fn header_memory(of: Stack) -> cranelift_codegen::ir::MemFlagsData {
    match of {
        Stack::Value => constant_memory(),
        Stack::Cell => plain(),
    }
}
