//! Emits accesses of memory that the host sees.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AtomicRmwOp, InstBuilder, Value, types::*};
use ir::{AtomicOp, Builtin, Global, InstData, Path, Scalar, TypeData};

use super::{Emitter, Res, Vals, constant_memory, plain};
use crate::types::clif;
use native::emit::{Assembler, world};
use native::runtime::{Helper, Site, atomic_code, offsets};
use native::types::{HANDLE_BYTES, HANDLE_WORDS, size};

/// A place in a buffer: its address, and the condition that it is in range.
struct Place {
    addr: Value,
    inside: Value,
}

impl Emitter<'_, '_> {
    /// The handle of a global.
    pub(super) fn global(&mut self, global: Global) -> Vals {
        let at = global.as_u32() as i32 * 16;
        let table = self.field(I64, offsets::GLOBALS);
        let ptr = self.b.ins().load(I64, constant_memory(), table, at);
        let count = self.b.ins().load(I64, constant_memory(), table, at + 8);
        let none = self.i64(0);
        Vals::from_slice(&[ptr, count, none, none])
    }

    pub(super) fn builtin(&mut self, builtin: Builtin) -> Vals {
        let (at, n) = match builtin {
            Builtin::DispatchThreadId => (offsets::THREAD, 3),
            Builtin::GroupId => (offsets::GROUP, 3),
            Builtin::GroupThreadId => (offsets::LOCAL, 3),
            Builtin::GroupIndex => (offsets::INDEX, 1),
            Builtin::GroupSize => (offsets::SIZE, 3),
        };
        (0..n).map(|k| self.b.ins().load(I32, plain(), self.ctx, at + 4 * k)).collect()
    }

    /// The conjunction of two conditions.
    fn both(&mut self, a: Option<Value>, b: Value) -> Value {
        match a {
            Some(a) => self.b.ins().band(a, b),
            None => b,
        }
    }

    /// The place that the operands `buf, i, dyn…` and a path denote.
    fn buffer_place(&mut self, data: &InstData, path: &Path, args: &[ir::Value]) -> Res<Place> {
        let TypeData::Buffer(elem) = self.ts[self.ty(args[0])] else {
            return self.unsupported(&data.op, "no buffer", data.span);
        };
        let mem = &self.cx.ir.mem;
        let handle = self.get(args[0]);
        let i = self.index64(args[1]);
        let i = self.b.ins().iadd(i, handle[2]);
        let mut inside = self.b.ins().icmp(IntCC::UnsignedLessThan, i, handle[1]);
        let bytes = self.mul_imm(i, mem.size(elem));
        let first = self.b.ins().iadd(handle[0], bytes);
        let mut addr = first;
        let mut within = None;
        let steps = world::steps(self, data, elem, path, &args[2..])?;
        for (idx, n, stride) in steps.dynamic {
            let k = self.index64(idx);
            if self.upper_bound(idx).is_none_or(|max| max >= n) {
                let len = self.i64(n as i64);
                let below = self.b.ins().icmp(IntCC::UnsignedLessThan, k, len);
                within = Some(self.both(within, below));
            }
            let bytes = self.mul_imm(k, stride);
            addr = self.b.ins().iadd(addr, bytes);
        }
        let addr = self.add_imm(addr, steps.fixed as i64);
        if self.cx.plan.partial.contains(&elem) {
            // The leaf may be in the present part of the partial last element.
            let last = self.b.ins().icmp(IntCC::Equal, i, handle[1]);
            let start = self.b.ins().isub(addr, first);
            let end = self.add_imm(start, steps.bytes as i64);
            let fits = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, handle[3]);
            let here = self.b.ins().band(last, fits);
            inside = self.b.ins().bor(inside, here);
        }
        inside = self.both(within, inside);
        if self.cx.options.trap {
            let zero = self.b.ins().iconst(I8, 0);
            let outside = self.b.ins().icmp(IntCC::Equal, inside, zero);
            world::fail_if(self, outside, Site::OutOfRange(data.span));
        }
        Ok(Place { addr, inside })
    }

    pub(super) fn buffer_load(&mut self, data: &InstData, path: &Path) -> Res {
        let result = data.results[0];
        let ty = self.ty(result);
        let place = self.buffer_place(data, path, &data.args)?;
        let zero = self.i64(self.cx.zero);
        let addr = self.b.ins().select(place.inside, place.addr, zero);
        let vals = match self.ts[ty] {
            TypeData::Buffer(_) => {
                let bits = self.b.ins().load(I64, plain(), addr, 0);
                self.pointee(bits)
            }
            TypeData::Array(..) if self.has_buffers(ty) => {
                let bytes = size(self.ts, ty);
                let to = self.memory(bytes);
                self.each(bytes / HANDLE_BYTES, 8, &mut |e, at| {
                    let from = e.b.ins().iadd(addr, at);
                    let bits = e.b.ins().load(I64, plain(), from, 0);
                    let handle = e.pointee(bits);
                    let at = e.mul_imm(at, HANDLE_WORDS as u64);
                    let place = e.b.ins().iadd(to, at);
                    for (k, &x) in handle.iter().enumerate() {
                        e.b.ins().store(plain(), x, place, 8 * k as i32);
                    }
                    Ok(())
                })?;
                Vals::from_slice(&[to])
            }
            TypeData::Array(..) if self.ts.scalar_of(ty) == Some(Scalar::Bool) => {
                let bytes = size(self.ts, ty);
                let to = self.memory(bytes);
                self.each(bytes, 1, &mut |e, at| {
                    let (from, place) = (e.b.ins().iadd(addr, at), e.b.ins().iadd(to, at));
                    let x = e.b.ins().load(I8, plain(), from, 0);
                    let x = e.truth(x);
                    e.b.ins().store(plain(), x, place, 0);
                    Ok(())
                })?;
                Vals::from_slice(&[to])
            }
            TypeData::Array(..) => {
                let bytes = size(self.ts, ty);
                let to = self.memory(bytes);
                self.copy(to, addr, bytes);
                Vals::from_slice(&[to])
            }
            _ if self.ts.scalar_of(ty) == Some(Scalar::Bool) => {
                let lanes = self.load(ty, addr, 0);
                lanes.into_iter().map(|x| self.truth(x)).collect()
            }
            _ => self.load(ty, addr, 0),
        };
        self.set(result, &vals);
        Ok(())
    }

    /// Converts a byte of the host to a `bool`: true if it is nonzero.
    fn truth(&mut self, byte: Value) -> Value {
        let zero = self.b.ins().iconst(I8, 0);
        self.b.ins().icmp(IntCC::NotEqual, byte, zero)
    }

    /// The handle for eight bytes in memory, which hold the number of a buffer, from 1.
    fn pointee(&mut self, bits: Value) -> Vals {
        let (table, count) = (self.field(I64, offsets::HANDLES), self.field(I64, offsets::HANDLE_COUNT));
        let number = self.add_imm(bits, -1);
        let inside = self.b.ins().icmp(IntCC::UnsignedLessThan, number, count);
        let bytes = self.mul_imm(number, 16);
        let at = self.b.ins().iadd(table, bytes);
        let null = self.i64(self.cx.zero);
        let at = self.b.ins().select(inside, at, null);
        let ptr = self.b.ins().load(I64, plain(), at, 0);
        let count = self.b.ins().load(I64, plain(), at, 8);
        let none = self.i64(0);
        Vals::from_slice(&[ptr, count, none, none])
    }

    fn has_buffers(&self, ty: ir::Type) -> bool {
        self.ts.scalar_of(ty).is_none()
    }

    pub(super) fn buffer_store(&mut self, data: &InstData, path: &Path) -> Res {
        let (&x, args) = data.args.split_last().expect("a store has operands");
        let ty = self.ty(x);
        if self.has_buffers(ty) {
            return self.unsupported(&data.op, "a handle", data.span);
        }
        let place = self.buffer_place(data, path, args)?;
        let sink = self.sink();
        let addr = self.b.ins().select(place.inside, place.addr, sink);
        let vals = self.get(x);
        self.store(ty, &vals, addr, 0);
        Ok(())
    }

    pub(super) fn atomic(&mut self, data: &InstData, path: &Path, op: AtomicOp) -> Res {
        let result = data.results[0];
        let TypeData::Scalar(s) = self.ts[self.ty(result)] else {
            return self.unsupported(&data.op, "on more than a number", data.span);
        };
        let n = op.n_values();
        let (args, values) = data.args.split_at(data.args.len() - n);
        let place = self.buffer_place(data, path, args)?;
        let sink = self.sink();
        let addr = self.b.ins().select(place.inside, place.addr, sink);
        let ty = clif(s);
        let x = self.one(values[n - 1]);
        let signed = s.is_signed_int();
        let native = match op {
            AtomicOp::Add => Some(AtomicRmwOp::Add),
            AtomicOp::And => Some(AtomicRmwOp::And),
            AtomicOp::Or => Some(AtomicRmwOp::Or),
            AtomicOp::Xor => Some(AtomicRmwOp::Xor),
            AtomicOp::Exchange => Some(AtomicRmwOp::Xchg),
            AtomicOp::Min => Some(if signed { AtomicRmwOp::Smin } else { AtomicRmwOp::Umin }),
            AtomicOp::Max => Some(if signed { AtomicRmwOp::Smax } else { AtomicRmwOp::Umax }),
            AtomicOp::CompareExchange => None,
        };
        let old = if let Some(native) = native.filter(|_| s.is_int() && s.bits() >= 32) {
            self.b.ins().atomic_rmw(ty, plain(), native, addr, x)
        } else {
            let word = |e: &mut Self, x: Value| match s {
                Scalar::F32 => {
                    let bits = e.b.ins().bitcast(I32, cranelift_codegen::ir::MemFlagsData::new(), x);
                    e.b.ins().uextend(I64, bits)
                }
                Scalar::F64 => e.b.ins().bitcast(I64, cranelift_codegen::ir::MemFlagsData::new(), x),
                _ => e.extend(I64, false, x),
            };
            let code = self.b.ins().iconst(I32, atomic_code(op, s) as i64);
            let compare = self.one(values[0]);
            let (x, compare) = (word(self, x), word(self, compare));
            let bits = self.helper_value(Helper::Atomic, &[addr, code, x, compare]);
            match s {
                Scalar::F32 => {
                    let bits = self.b.ins().ireduce(I32, bits);
                    self.b.ins().bitcast(F32, cranelift_codegen::ir::MemFlagsData::new(), bits)
                }
                Scalar::F64 => self.b.ins().bitcast(F64, cranelift_codegen::ir::MemFlagsData::new(), bits),
                _ if ty == I64 => bits,
                _ => self.b.ins().ireduce(ty, bits),
            }
        };
        let zero = self.constant(s, 0);
        let old = self.b.ins().select(place.inside, old, zero);
        self.set(result, &[old]);
        Ok(())
    }
}
