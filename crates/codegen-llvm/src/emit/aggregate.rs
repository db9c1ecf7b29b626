//! Emits the address arithmetic that all indexing shares.

use ir::{Type, TypeData};
use native::types::size;

use super::Emitter;
use super::local::{Class, Place};
use crate::text::{El, Val};

impl Emitter<'_, '_> {
    /// The distance in bytes from one element to the next, in wide memory if `wide`.
    pub(super) fn stride(&self, elem: Type, wide: bool) -> u64 {
        let scale = if wide && !matches!(self.ts[elem], TypeData::Stack(_)) { self.lanes as u64 } else { 1 };
        size(self.ts, elem) * scale
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
