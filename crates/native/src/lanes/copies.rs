//! Emits accesses to arrays in memory: their numbers one by one, copies, and loops over elements.
//!
//! An array at a uniform address outside buffers is not copied when it is loaded: its place is its value.
//! Other arrays are copied, as a whole if both sides have the same layout, else number by number under the
//! mask.

use crate::emit::{Binary, Instructions, Memory, Odds, UNIFORM, VARYING, blocks};
use crate::types::{flat, size};
use ir::{Scalar, Span, Type};

use super::local::Place;
use super::operand::{El, Val, Vals};
use super::{Backend, Class, Emitter, Res, Writer, el};

impl<B: Backend> Emitter<'_, '_, B> {
    /// Loads number `k` of an array in local memory.
    pub(super) fn load_local(&mut self, s: Scalar, array: Val, k: Val) -> Val {
        let at = self.number_at(s, array, k);
        self.read(el(s), at, Class::Local, None)
    }

    /// Writes number `k` of an array that is being constructed.
    pub(super) fn store_local(&mut self, s: Scalar, x: Val, array: Val, k: Val) {
        let at = self.number_at(s, array, k);
        self.write(x, at, Class::Local, None);
    }

    fn number_at(&mut self, s: Scalar, array: Val, k: Val) -> Val {
        let step = s.bytes() as u64 * if array.wide { self.lanes as u64 } else { 1 };
        let by = self.times(k, step);
        self.w.offset(array, by)
    }

    pub(super) fn load_array(&mut self, ty: Type, place: Place, span: Span) -> Res<Vals> {
        let buffer = matches!(place.class, Class::Buffer { .. });
        let scalar = self.ts.scalar_of(ty);
        let missing = place.missing(scalar);
        if let (Some(inside), Some(s), false) =
            (place.inside, scalar.filter(|_| missing != 0), place.addr.var)
        {
            return self.load_present(ty, s, Place { inside: None, ..place }, inside);
        }
        if !place.addr.var && !buffer {
            let zero = Val { wide: place.addr.wide, ..Val::name(El::Ptr, "@rt_zero") };
            let at = match place.inside {
                Some(inside) => Val { wide: place.addr.wide, ..self.w.select(inside, place.addr, zero) },
                None => place.addr,
            };
            return Ok(Vals::from_slice(&[at]));
        }
        let Some((s, n)) = flat(self.ts, ty) else {
            return self.no_lanes("an array of handles or stacks at a place that varies", span);
        };
        if place.addr.var {
            let to = self.memory(size(self.ts, ty), VARYING);
            let mask = self.both(place.inside, self.mask);
            blocks::each(self, n, |e, k| {
                let from = e.number_at(s, place.addr, k);
                let x = e.read(el(s), from, place.class, mask);
                let x = match place.inside.filter(|_| missing != 0) {
                    Some(inside) => e.w.select(inside, x, Val::bits(el(s), missing)),
                    None => x,
                };
                e.store_local(s, x, to, k);
                Ok(())
            })?;
            return Ok(Vals::from_slice(&[to]));
        }
        let bytes = size(self.ts, ty);
        let to = self.memory(bytes, UNIFORM);
        let copy = |e: &mut Self| {
            if s == Scalar::Bool {
                blocks::each(e, n, |e, k| {
                    let from = e.number_at(s, place.addr, k);
                    let x = e.read(El::I1, from, place.class, None);
                    e.store_local(s, x, to, k);
                    Ok(())
                })?;
            } else {
                e.copy_from(to, place.addr, bytes, s.bytes() as u64);
            }
            Ok(Vals::new())
        };
        let clear = |e: &mut Self| {
            e.clear(to, bytes);
            Ok(Vals::new())
        };
        blocks::either(self, place.inside.unwrap_or(Val::bool(true)), Odds::Likely, copy, clear)?;
        Ok(Vals::from_slice(&[to]))
    }

    /// Loads an array that is an element of a stack, if the element exists; else makes one of absent
    /// differentials.
    fn load_present(&mut self, ty: Type, s: Scalar, place: Place, inside: Val) -> Res<Vals> {
        let n = size(self.ts, ty) / s.bytes() as u64;
        let to = self.memory(size(self.ts, ty), place.addr.wide);
        let absent = Val::bits(el(s), place.missing(Some(s)));
        let missing = self.w.binary(Binary::Xor, inside, Val::bool(true));
        blocks::unless(self, missing, Odds::Unlikely, &[place.addr], |e| {
            blocks::each(e, n, |e, k| {
                e.store_local(s, absent, to, k);
                Ok(())
            })?;
            Ok(Vals::from_slice(&[to]))
        })
    }

    pub(super) fn store_array(
        &mut self,
        ty: Type,
        from: Val,
        place: Place,
        mask: Option<Val>,
        span: Span,
    ) -> Res {
        let plain = !from.wide && !place.addr.wide && !place.addr.var;
        if plain || (mask.is_none() && from.wide && place.addr.wide && !place.addr.var) {
            let wide = if from.wide { self.lanes as u64 } else { 1 };
            let align = flat(self.ts, ty).map_or(8, |(s, _)| s.bytes() as u64);
            self.copy_from(place.addr, from, size(self.ts, ty) * wide, align);
            return Ok(());
        }
        let Some((s, n)) = flat(self.ts, ty) else {
            return self.no_lanes("an array of handles or stacks that varies", span);
        };
        blocks::each(self, n, |e, k| {
            let x = e.load_local(s, from, k);
            let at = e.number_at(s, place.addr, k);
            e.write(x, at, place.class, mask);
            Ok(())
        })
    }

    /// Copies bytes between places that are identical or do not overlap.
    pub(crate) fn copy_from(&mut self, to: Val, from: Val, bytes: u64, align: u64) {
        if to.id == from.id {
            return;
        }
        self.w.copy(to, from, bytes, align);
    }

    /// `to[k] = c ? a[k] : b[k]`, in wide memory.
    pub(super) fn blend(&mut self, ty: Type, to: Val, a: Val, b: Val, c: Val) -> Res {
        let Some((s, n)) = flat(self.ts, ty) else {
            return self.no_lanes("an array of handles or stacks that varies", Span::NONE);
        };
        blocks::each(self, n, |e, k| {
            let (x, y) = (e.load_local(s, a, k), e.load_local(s, b, k));
            let x = e.w.select(c, x, y);
            e.store_local(s, x, to, k);
            Ok(())
        })
    }
}
