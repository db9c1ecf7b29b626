//! Emits operations on vectors and arrays as values, and the address arithmetic that all indexing shares.

use ir::{InstData, Op, Type, TypeData};
use native::emit::{Assembler, UNROLL};
use native::types::size;

use super::local::{Class, Place};
use super::{Emitter, Res};
use crate::text::{El, Val, Vals};

impl Emitter<'_, '_> {
    /// Emits `construct`, `splat`, `extract`, `insert` and `index`.
    pub(super) fn aggregate(&mut self, data: &InstData) -> Res {
        let result = data.results[0];
        let ty = self.ty(result);
        let vals = match &data.op {
            Op::Construct => self.construct(data, ty)?,
            Op::Splat => self.splat(data, ty)?,
            Op::Extract(idx) => self.extract(data, *idx, ty)?,
            Op::Insert(idx) => self.insert(data, *idx, ty)?,
            _ => self.index(data, ty)?,
        };
        self.set(result, &vals);
        Ok(())
    }

    /// The place of the element at a byte offset (without lanes) of an array.
    pub(super) fn part(&mut self, array: Val, bytes: u64) -> Place {
        let scale = if array.wide { self.lanes as u64 } else { 1 };
        Place::local(self.w.offset(array, Val::i64((bytes * scale) as i64)))
    }

    /// The distance in bytes from one element to the next, in wide memory if `wide`.
    pub(super) fn stride(&self, elem: Type, wide: bool) -> u64 {
        let scale = if wide && !matches!(self.ts[elem], TypeData::Stack(_)) { self.lanes as u64 } else { 1 };
        size(self.ts, elem) * scale
    }

    fn construct(&mut self, data: &InstData, ty: Type) -> Res<Vals> {
        let TypeData::Array(elem, _) = self.ts[ty] else {
            return Ok(data.args.iter().map(|&a| self.one(a)).collect());
        };
        let varying = self.varies(data.results[0]);
        let to = self.memory(size(self.ts, ty), varying);
        let step = self.stride(elem, to.wide);
        for (k, &arg) in data.args.iter().enumerate() {
            let vals = self.get(arg);
            let vals = self.fit(elem, vals, varying, data.span)?;
            let at = self.w.offset(to, Val::i64((k as u64 * step) as i64));
            self.store(elem, &vals, Place::local(at), data.span)?;
        }
        Ok(Vals::from_slice(&[to]))
    }

    fn splat(&mut self, data: &InstData, ty: Type) -> Res<Vals> {
        let vals = self.get(data.args[0]);
        let varying = self.varies(data.results[0]);
        match self.ts[ty] {
            TypeData::Vector(_, n) => Ok(Vals::from_elem(vals[0], n as usize)),
            TypeData::Array(elem, n) => {
                let to = self.memory(size(self.ts, ty), varying);
                let vals = self.fit(elem, vals, varying, data.span)?;
                let step = self.stride(elem, to.wide);
                self.each(n as u64, &mut |e, k| {
                    let by = e.times(k, step);
                    let at = e.w.offset(to, by);
                    e.store(elem, &vals, Place::local(at), data.span)
                })?;
                Ok(Vals::from_slice(&[to]))
            }
            _ => Ok(vals),
        }
    }

    fn extract(&mut self, data: &InstData, idx: u32, ty: Type) -> Res<Vals> {
        let whole = data.args[0];
        match self.ts[self.ty(whole)] {
            TypeData::Vector(..) => {
                let x = self.get(whole)[idx as usize];
                debug_assert!(!x.var || self.varies(data.results[0]));
                Ok(Vals::from_slice(&[x]))
            }
            TypeData::Array(elem, _) => {
                let base = self.one(whole);
                let step = self.stride(elem, base.wide);
                let at = self.w.offset(base, Val::i64((idx as u64 * step) as i64));
                self.load(ty, Place::local(at), data.span)
            }
            _ => Ok(self.get(whole)),
        }
    }

    fn insert(&mut self, data: &InstData, idx: u32, ty: Type) -> Res<Vals> {
        let (whole, x) = (self.get(data.args[0]), self.get(data.args[1]));
        let TypeData::Array(elem, _) = self.ts[ty] else {
            let mut whole = whole;
            whole[idx as usize] = x[0];
            return Ok(whole);
        };
        let varying = self.varies(data.results[0]);
        let whole = self.fit(ty, whole, varying, data.span)?;
        let x = self.fit(elem, x, varying, data.span)?;
        let to = self.memory(size(self.ts, ty), varying);
        self.store(ty, &whole, Place::local(to), data.span)?;
        let step = self.stride(elem, to.wide);
        let at = self.w.offset(to, Val::i64((idx as u64 * step) as i64));
        self.store(elem, &x, Place::local(at), data.span)?;
        Ok(Vals::from_slice(&[to]))
    }

    fn index(&mut self, data: &InstData, ty: Type) -> Res<Vals> {
        let (whole, idx) = (data.args[0], data.args[1]);
        match self.ts[self.ty(whole)] {
            TypeData::Vector(_, n) => {
                let parts = self.get(whole);
                let at = self.index64(idx);
                Ok(Vals::from_slice(&[self.select_part(&parts, n, at)?]))
            }
            TypeData::Array(elem, n) => {
                let base = self.one(whole);
                let place = self.element(base, elem, idx, n as u64);
                self.load(ty, place, data.span)
            }
            TypeData::Stack(elem) => {
                let header = self.one(whole);
                let certain = self.inside.contains(data.results[0]) && !self.varies(idx);
                let place = self.stack_element(header, elem, idx, certain);
                self.load(ty, place, data.span)
            }
            _ => self.unsupported(&data.op, "operands of this type", data.span),
        }
    }

    /// The place of an element of a stack; if `certain`, the index is known to be in range.
    pub(super) fn stack_element(&mut self, header: Val, elem: Type, idx: ir::Value, certain: bool) -> Place {
        let note = self.note(Class::Header, 8);
        let plain = Val { wide: false, ..header };
        let base = self.w.load(El::Ptr, false, plain, &note);
        let i = self.index64(idx);
        let inside = (!certain).then(|| {
            let at = self.w.offset(plain, Val::i64(8));
            let len = self.w.load(El::I64, false, at, &note);
            self.w.compare("icmp ult", i, len)
        });
        Place { of_stack: true, ..self.below(Val { wide: header.wide, ..base }, elem, i, inside) }
    }

    /// Selects component `at` of a vector in registers; zero if there is no such component.
    fn select_part(&mut self, parts: &[Val], n: u32, at: Val) -> Res<Val> {
        if n as u64 > UNROLL {
            // A long vector is indexed through memory.
            let el = parts[0].el;
            let var = parts.iter().any(|p| p.var);
            let bytes = super::local::memory_el(el).bytes();
            let base = self.memory(n as u64 * bytes, var);
            for (k, &part) in parts.iter().enumerate() {
                let place = self.part(base, k as u64 * bytes);
                self.write(part, place.addr, Class::Local, None);
            }
            let inside = self.w.compare("icmp ult", at, Val::i64(n as i64));
            let zero = Val::i64(0);
            let at = self.w.select(inside, at, zero);
            let by = self.times(at, bytes * if base.wide { self.lanes as u64 } else { 1 });
            let by = self.own_lane(by, base.wide, bytes);
            let from = self.w.offset(base, by);
            let x = self.read(el, from, Class::Local, None);
            return Ok(self.w.select(inside, x, Val::bits(el, 0)));
        }
        let mut found = Val::bits(parts[0].el, 0);
        for (k, &part) in parts.iter().enumerate() {
            let here = self.w.compare("icmp eq", at, Val::i64(k as i64));
            found = self.w.select(here, part, found);
        }
        Ok(found)
    }

    /// The place of element `idx` of `n` elements at `base`.
    pub(super) fn element(&mut self, base: Val, elem: Type, idx: ir::Value, n: u64) -> Place {
        let i = self.index64(idx);
        let certain = self.upper_bound(idx).is_some_and(|max| max < n);
        let inside = (!certain).then(|| self.w.compare("icmp ult", i, Val::i64(n as i64)));
        self.below(base, elem, i, inside)
    }

    /// The place of element `i` at `base`, if it is `inside`.
    fn below(&mut self, base: Val, elem: Type, i: Val, inside: Option<Val>) -> Place {
        let step = self.stride(elem, base.wide);
        let by = self.times(i, step);
        let by = match self.ts.scalar_of(elem) {
            Some(s) => self.own_lane(by, base.wide, s.bytes() as u64),
            None => by,
        };
        let addr = self.w.offset(base, by);
        Place { inside, ..Place::local(addr) }
    }

    /// Adds the offset of each lane's own number to a varying offset in wide memory.
    fn own_lane(&mut self, by: Val, wide: bool, bytes: u64) -> Val {
        if !by.var || !wide {
            return by;
        }
        let lanes = self.iota(El::I64);
        let own = self.w.binary("mul", lanes, Val::i64(bytes as i64));
        self.w.binary("add", by, own)
    }

    /// The numbers 0, 1, … of the lanes.
    pub(super) fn iota(&self, el: El) -> Val {
        Val { id: crate::text::Id::Iota, el, var: true, wide: false, lin: None }
    }
}
