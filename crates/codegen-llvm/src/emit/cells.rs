//! Finds the parts of cells, and adds to them: see `native::emit::cells`.
//!
//! A varying cell is wide memory. A write is masked if control has diverged since the cell was made; if it
//! has not, the values that inactive lanes write are never read.

use ir::{InstData, Op, Type, TypeData};
use native::emit::cells::Access;
use native::emit::{Assembler, numbers};
use native::runtime::Helper;
use native::types::flat;

use super::local::{Class, Place};
use super::{Emitter, Res, el};
use crate::text::{El, Val, Vals};

impl Emitter<'_, '_> {
    /// The place of the part of a cell that `cell, i…` selects.
    pub(super) fn cell_place(&mut self, data: &InstData, args: &[ir::Value], access: Access) -> Res<Place> {
        let cell = args[0];
        let mask = match access {
            Access::Read => None,
            // Under the mask that the cell was made with, no mask is needed: values of other lanes are never
            // read.
            _ => self.mask.filter(|m| self.cell_mask.get(&cell).copied().flatten() != Some(*m)),
        };
        let mut place = Place { mask, ..Place::local(self.one(cell)) };
        let Some(mut ty) = self.ts.content(self.ty(cell)) else {
            return self.unsupported(&data.op, "no cell", data.span);
        };
        let wide = place.addr.wide;
        for &idx in &args[1..] {
            let Some(elem) = self.ts.element(ty) else {
                return self.unsupported(&data.op, "an index into a scalar", data.span);
            };
            let outer = place;
            if outer.addr.var && matches!(self.ts[ty], TypeData::Stack(_)) {
                return self.no_lanes("a stack at a place that varies", data.span);
            }
            place = match self.ts[ty] {
                TypeData::Stack(_) => {
                    // A path that is out of range leads to the empty stack, which has no elements.
                    let empty = Val::name(El::Ptr, "@rt_empty_at");
                    let at = Val { wide: false, ..outer.addr };
                    let at = match outer.inside {
                        Some(inside) => self.w.select(inside, at, empty),
                        None => at,
                    };
                    if access == Access::Grow {
                        self.grow_to(at, idx, elem, wide, outer.inside);
                    }
                    let note = self.note(Class::Local, 8);
                    let header = self.w.load(El::Ptr, false, at, &note);
                    let inner = self.stack_element(Val { wide, ..header }, elem, idx, false);
                    Place { mask, ..inner }
                }
                TypeData::Array(_, n) | TypeData::Vector(_, n) => {
                    let inner = if outer.addr.var {
                        // The address is already that of each lane.
                        let step = self.stride(elem, wide);
                        let i = self.index64(idx);
                        let inside = self.w.compare("icmp ult", i, Val::i64(n as i64));
                        let by = self.times(i, step);
                        let addr = self.w.offset(outer.addr, by);
                        Place { inside: Some(inside), ..Place::local(addr) }
                    } else {
                        self.element(outer.addr, elem, idx, n as u64)
                    };
                    let inside = self.both(outer.inside, inner.inside);
                    Place { mask, inside, of_stack: outer.of_stack, ..inner }
                }
                _ => outer,
            };
            ty = elem;
        }
        Ok(place)
    }

    /// Grows the stack at `at` so that it has an element number `idx`, unless the stack itself is out of
    /// range.
    fn grow_to(&mut self, at: Val, idx: ir::Value, elem: Type, wide: bool, inside: Option<Val>) {
        let i = self.index64(idx);
        let i = if i.var {
            // The stack grows to the largest index of an active lane; negative indices are ignored.
            let negative = self.w.compare("icmp slt", i, Val::i64(0));
            let none = Val::i64(-1);
            let i = self.w.select(negative, none, i);
            let i = match self.mask {
                Some(mask) => self.w.select(mask, i, none),
                None => i,
            };
            self.w.reduce("smax", i)
        } else {
            i
        };
        let note = self.note(Class::Local, 8);
        let header = self.w.load(El::Ptr, false, at, &note);
        let len_at = self.w.offset(header, Val::i64(8));
        let note = self.note(Class::Header, 8);
        let len = self.w.load(El::I64, false, len_at, &note);
        let short = self.w.compare("icmp uge", i, len);
        let negative = self.w.compare("icmp sge", i, Val::i64(0));
        let short = self.w.binary("and", short, negative);
        let short = match inside {
            Some(inside) => self.w.binary("and", short, inside),
            None => short,
        };
        let (grow, go) = (self.w.new_block(), self.w.new_block());
        self.w.branch(short, grow, go, ", !prof !9");
        self.w.enter(grow);
        let shape = self.shape(elem, wide);
        let empty = Val::name(El::Ptr, "@rt_empty");
        self.helper(Helper::CellGrow, &[at, i, shape, empty]);
        self.w.jump(go);
        self.w.enter(go);
    }

    /// Adds an array or a stack to the one at a place.
    pub(super) fn add_whole(&mut self, data: &InstData, ty: Type, vals: Vals, place: Place) -> Res {
        let vals = self.fit(ty, vals, place.addr.wide, data.span)?;
        let is_stack = matches!(self.ts[ty], TypeData::Stack(_));
        if is_stack && (place.addr.var || place.mask.is_some()) {
            return self.no_lanes("a stack that is added in some lanes", data.span);
        }
        if let (Some(inside), false) = (place.inside, place.addr.var) {
            let (yes, join) = (self.w.new_block(), self.w.new_block());
            self.w.branch(inside, yes, join, "");
            self.w.enter(yes);
            self.add_whole(data, ty, vals, Place { inside: None, ..place })?;
            self.w.jump(join);
            self.w.enter(join);
            return Ok(());
        }
        if let TypeData::Stack(elem) = self.ts[ty] {
            let shape = self.shape(elem, place.addr.wide);
            let empty = Val::name(El::Ptr, "@rt_empty");
            let (at, x) = (Val { wide: false, ..place.addr }, Val { wide: false, ..vals[0] });
            self.helper(Helper::StackAdd, &[at, x, shape, empty]);
            return Ok(());
        }
        let Some((s, n)) = flat(self.ts, ty) else {
            return self.unsupported(&data.op, "of this type", data.span);
        };
        let mask = self.both(place.inside, place.mask);
        let addr = place.addr;
        self.each(n, &mut |e, k| {
            let step = s.bytes() as u64 * if addr.wide { e.lanes as u64 } else { 1 };
            let by = e.times(k, step);
            let at = e.w.offset(addr, by);
            let a = e.read(el(s), at, Class::Local, mask);
            let b = e.load_local(s, vals[0], k);
            let sum = numbers::combine(e, &Op::Add, s, a, b, data.span)?;
            e.write(sum, at, Class::Local, mask);
            Ok(())
        })
    }
}
