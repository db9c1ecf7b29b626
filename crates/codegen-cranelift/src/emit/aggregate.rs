//! Emits operations on vectors and arrays as values, and the address arithmetic that all indexing shares.
//!
//! An index out of range yields a valid address without meaning: zeros for a read, the sink for a write. So
//! an access needs no branch.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types::*};
use ir::{InstData, Op, Type, TypeData};

use super::{Emitter, Res, Vals, plain};
use native::emit::{Assembler, UNROLL};
use native::types::size;

/// The elements that an index selects from.
pub(super) struct Indexed {
    /// The address of the first element.
    pub(super) base: Value,
    /// The distance in bytes from one element to the next.
    pub(super) stride: u64,
    /// The address that is accessed instead if the index is out of range.
    pub(super) otherwise: Value,
}

impl Emitter<'_, '_> {
    /// Emits `construct`, `splat`, `extract`, `insert` and `index`.
    pub(super) fn aggregate(&mut self, data: &InstData) -> Res {
        let result = data.results[0];
        let ty = self.ty(result);
        let vals = match &data.op {
            Op::Construct => self.construct(data, ty),
            Op::Splat => self.splat(data, ty)?,
            Op::Extract(idx) => self.extract(data.args[0], *idx, ty),
            Op::Insert(idx) => self.insert(data, *idx, ty),
            _ => self.index(data, ty)?,
        };
        self.set(result, &vals);
        Ok(())
    }

    fn construct(&mut self, data: &InstData, ty: Type) -> Vals {
        let TypeData::Array(elem, _) = self.ts[ty] else {
            return data.args.iter().map(|&a| self.one(a)).collect();
        };
        let step = size(self.ts, elem);
        let to = self.memory(size(self.ts, ty));
        for (k, &arg) in data.args.iter().enumerate() {
            let vals = self.get(arg);
            self.store(elem, &vals, to, k as u64 * step);
        }
        Vals::from_slice(&[to])
    }

    fn splat(&mut self, data: &InstData, ty: Type) -> Res<Vals> {
        let vals = self.get(data.args[0]);
        match self.ts[ty] {
            TypeData::Vector(_, n) => Ok(Vals::from_elem(vals[0], n as usize)),
            TypeData::Array(elem, n) => {
                let to = self.memory(size(self.ts, ty));
                self.each(n as u64, size(self.ts, elem), &mut |e, at| {
                    let place = e.b.ins().iadd(to, at);
                    e.store(elem, &vals, place, 0);
                    Ok(())
                })?;
                Ok(Vals::from_slice(&[to]))
            }
            _ => Ok(vals),
        }
    }

    fn extract(&mut self, whole: ir::Value, idx: u32, ty: Type) -> Vals {
        match self.ts[self.ty(whole)] {
            TypeData::Vector(..) => Vals::from_slice(&[self.get(whole)[idx as usize]]),
            TypeData::Array(elem, _) => {
                let at = idx as u64 * size(self.ts, elem);
                let base = self.one(whole);
                self.load(ty, base, at)
            }
            _ => self.get(whole),
        }
    }

    fn insert(&mut self, data: &InstData, idx: u32, ty: Type) -> Vals {
        let (whole, x) = (self.get(data.args[0]), self.get(data.args[1]));
        let TypeData::Array(elem, _) = self.ts[ty] else {
            let mut whole = whole;
            whole[idx as usize] = x[0];
            return whole;
        };
        let bytes = size(self.ts, ty);
        let to = self.memory(bytes);
        self.copy(to, whole[0], bytes);
        self.store(elem, &x, to, idx as u64 * size(self.ts, elem));
        Vals::from_slice(&[to])
    }

    fn index(&mut self, data: &InstData, ty: Type) -> Res<Vals> {
        let (whole, idx) = (data.args[0], data.args[1]);
        match self.ts[self.ty(whole)] {
            TypeData::Vector(_, n) => {
                let lanes = self.get(whole);
                let at = self.index64(idx);
                Ok(Vals::from_slice(&[self.select_lane(&lanes, n, at)?]))
            }
            TypeData::Array(elem, n) => {
                let base = self.one(whole);
                let otherwise = self.otherwise(elem, false);
                let from = Indexed { base, stride: size(self.ts, elem), otherwise };
                let at = self.place(&from, idx, n as u64);
                Ok(self.load(ty, at, 0))
            }
            TypeData::Stack(elem) => {
                let header = self.one(whole);
                let base = self.b.ins().load(I64, super::constant_memory(), header, 0);
                if self.inside.contains(data.results[0]) {
                    let at = self.index64(idx);
                    let bytes = self.mul_imm(at, size(self.ts, elem));
                    let at = self.b.ins().iadd(base, bytes);
                    return Ok(self.load(ty, at, 0));
                }
                let len = self.b.ins().load(I64, super::constant_memory(), header, 8);
                let otherwise = self.otherwise(elem, true);
                let from = Indexed { base, stride: size(self.ts, elem), otherwise };
                let at = self.index64(idx);
                let at = self.place_below(&from, at, len);
                Ok(self.load(ty, at, 0))
            }
            TypeData::Scalar(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => {
                self.unsupported(&data.op, "operands of this type", data.span)
            }
        }
    }

    /// Selects lane `at` of a vector in registers; zero if there is no such lane.
    fn select_lane(&mut self, lanes: &[Value], n: u32, at: Value) -> Res<Value> {
        let ty = self.b.func.dfg.value_type(lanes[0]);
        if n as u64 > UNROLL {
            // A long vector is indexed through memory.
            let bytes = ty.bytes() as u64;
            let base = self.memory(n as u64 * bytes);
            for (k, &lane) in lanes.iter().enumerate() {
                self.b.ins().store(plain(), lane, base, (k as u64 * bytes) as i32);
            }
            let otherwise = self.i64(self.cx.zero);
            let len = self.i64(n as i64);
            let at = self.place_below(&Indexed { base, stride: bytes, otherwise }, at, len);
            return Ok(self.b.ins().load(ty, plain(), at, 0));
        }
        let mut out = if ty == F32 {
            self.b.ins().f32const(0.0)
        } else if ty == F64 {
            self.b.ins().f64const(0.0)
        } else {
            self.b.ins().iconst(ty, 0)
        };
        for (k, &lane) in lanes.iter().enumerate() {
            let k = self.i64(k as i64);
            let here = self.b.ins().icmp(IntCC::Equal, at, k);
            out = self.b.ins().select(here, lane, out);
        }
        Ok(out)
    }

    /// The address that a read out of range uses: absent differentials within a stack, else zeros.
    pub(super) fn otherwise(&mut self, elem: Type, of_stack: bool) -> Value {
        let scalar = self.ts.scalar_of(elem);
        let absent = self.cx.absent.iter().find(|(s, _)| of_stack && Some(*s) == scalar);
        let at = match (&self.ts[elem], absent) {
            (TypeData::Stack(_), _) => self.cx.empty_at,
            (_, Some(&(_, at))) => at,
            _ => self.cx.zero,
        };
        self.i64(at)
    }

    /// The address of element `idx` of `len` elements.
    pub(super) fn place(&mut self, from: &Indexed, idx: ir::Value, len: u64) -> Value {
        if let Some(bits) = self.const_of(idx) {
            return if ir::scalar::index(self.scalar_of(idx), bits, len as usize).is_some() {
                self.add_imm(from.base, (bits * from.stride) as i64)
            } else {
                from.otherwise
            };
        }
        let at = self.index64(idx);
        if self.upper_bound(idx).is_some_and(|max| max < len) {
            let bytes = self.mul_imm(at, from.stride);
            return self.b.ins().iadd(from.base, bytes);
        }
        let len = self.i64(len as i64);
        self.place_below(from, at, len)
    }

    /// The address of element `at` of `len` elements, both of 64 bits.
    pub(super) fn place_below(&mut self, from: &Indexed, at: Value, len: Value) -> Value {
        let inside = self.b.ins().icmp(IntCC::UnsignedLessThan, at, len);
        let bytes = self.mul_imm(at, from.stride);
        let place = self.b.ins().iadd(from.base, bytes);
        self.b.ins().select(inside, place, from.otherwise)
    }
}
