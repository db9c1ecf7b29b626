//! Emits operations on cells: memory of the function that is written in place.
//!
//! A cell of a stack holds a pointer to a header that it owns (or to the shared empty one), so storing a
//! stack in a cell copies it, and so does loading a whole stack or an array from a cell. The copy on a load
//! is omitted if the cell is not written again while the loaded value is live.
//!
//! A varying cell is wide memory. A write is masked if control has diverged since the cell was made; if it
//! has not, the values that inactive lanes write are never read.

use ir::{Inst, InstData, Op, Type, TypeData};
use native::emit::{Assembler, numbers};
use native::runtime::Helper;
use native::types::{flat, is_array, size};

use super::local::{Class, Place};
use super::{Emitter, Res, el};
use crate::text::{El, Val, Vals};

/// The purpose for which a part of a cell is accessed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    /// A write that may grow a stack.
    Grow,
}

impl Emitter<'_, '_> {
    /// Emits `local`, `load`, `store`, `add_to` and `sub_cell`.
    pub(super) fn cell(&mut self, inst: Inst) -> Res {
        let data = &self.f.insts[inst];
        match &data.op {
            Op::Local => self.local(data)?,
            Op::Load => self.load_cell(inst, data)?,
            Op::Store => {
                let (&x, place) = data.args.split_last().expect("a store has operands");
                let ty = self.ty(x);
                let place = self.cell_place(data, place, Access::Write)?;
                let vals = self.get(x);
                let vals = self.fit(ty, vals, place.addr.wide, data.span)?;
                let vals = self.own(ty, vals, place.mask, data)?;
                self.store(ty, &vals, place, data.span)?;
            }
            Op::AddTo => {
                let (&x, place) = data.args.split_last().expect("an add_to has operands");
                let place = self.cell_place(data, place, Access::Grow)?;
                self.add_to(data, x, place)?;
            }
            _ => {
                // The place is computed again at each use: the outer stack may move when it grows.
                let path = self.cell_path(&data.args);
                self.sub_cells.insert(data.results[0], path);
            }
        }
        Ok(())
    }

    fn local(&mut self, data: &InstData) -> Res {
        let (init, cell) = (data.args[0], data.results[0]);
        let ty = self.ty(init);
        let bytes = size(self.ts, ty);
        let varying = self.varies(cell);
        let at = self.memory(bytes, varying);
        self.cell_mask.insert(cell, self.mask);
        let zero = self.def(init).is_some_and(|d| d.op == Op::Zero);
        if is_array(self.ts, ty) && zero && !self.ts.has_stack(ty) {
            self.clear(at, bytes * if at.wide { self.lanes as u64 } else { 1 });
        } else {
            let vals = self.get(init);
            let vals = self.fit(ty, vals, varying, data.span)?;
            let vals = self.own(ty, vals, None, data)?;
            self.store(ty, &vals, Place::local(at), data.span)?;
        }
        self.set(cell, &[at]);
        Ok(())
    }

    /// Converts a value to one that a cell can own: a stack is copied.
    fn own(&mut self, ty: Type, vals: Vals, mask: Option<Val>, data: &InstData) -> Res<Vals> {
        let TypeData::Stack(elem) = self.ts[ty] else { return Ok(vals) };
        if mask.is_some() {
            return self.no_lanes("a stack that is replaced in some lanes", data.span);
        }
        let shape = self.shape(elem, vals[0].wide);
        let empty = Val::name(El::Ptr, "@rt_empty");
        let copy = self.helper_value(Helper::StackClone, &[vals[0], shape, empty]);
        Ok(Vals::from_slice(&[Val { wide: vals[0].wide, ..copy }]))
    }

    fn load_cell(&mut self, inst: Inst, data: &InstData) -> Res {
        let ty = self.ty(data.results[0]);
        let place = self.cell_place(data, &data.args, Access::Read)?;
        let mut vals = self.load(ty, place, data.span)?;
        let is_stack = matches!(self.ts[ty], TypeData::Stack(_));
        if (is_array(self.ts, ty) || is_stack)
            && !place.addr.var
            && !self.nesting.last_use(inst, data.args[0])
        {
            if is_stack {
                vals = self.own(ty, vals, None, data)?;
            } else {
                let to = self.memory(size(self.ts, ty), vals[0].wide);
                self.store(ty, &vals, Place::local(to), data.span)?;
                vals[0] = to;
            }
        }
        self.set(data.results[0], &vals);
        Ok(())
    }

    /// The path `cell, i…`, where a cell within a cell is replaced by its own path.
    fn cell_path(&self, args: &[ir::Value]) -> Vec<ir::Value> {
        match self.sub_cells.get(&args[0]) {
            Some(path) => path.iter().chain(&args[1..]).copied().collect(),
            None => args.to_vec(),
        }
    }

    /// The place of the part of a cell that `cell, i…` selects.
    fn cell_place(&mut self, data: &InstData, args: &[ir::Value], access: Access) -> Res<Place> {
        let args = &self.cell_path(args)[..];
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

    fn add_to(&mut self, data: &InstData, x: ir::Value, place: Place) -> Res {
        let ty = self.ty(x);
        let vals = self.get(x);
        let vals = self.fit(ty, vals, place.addr.wide, data.span)?;
        if let TypeData::Stack(elem) = self.ts[ty] {
            if place.addr.var || place.mask.is_some() {
                return self.no_lanes("a stack that is added in some lanes", data.span);
            }
            let shape = self.shape(elem, place.addr.wide);
            let empty = Val::name(El::Ptr, "@rt_empty");
            let (yes, join) = (self.w.new_block(), self.w.new_block());
            self.w.branch(place.inside.unwrap_or(Val::bool(true)), yes, join, "");
            self.w.enter(yes);
            let at = Val { wide: false, ..place.addr };
            let x = Val { wide: false, ..vals[0] };
            self.helper(Helper::StackAdd, &[at, x, shape, empty]);
            self.w.jump(join);
            self.w.enter(join);
            return Ok(());
        }
        let Some((s, n)) = flat(self.ts, ty) else {
            return self.unsupported(&data.op, "of this type", data.span);
        };
        if !is_array(self.ts, ty) {
            let old = self.load(ty, place, data.span)?;
            let mut sum = Vals::new();
            for (&a, &b) in old.iter().zip(&vals) {
                sum.push(numbers::combine(self, &Op::Add, s, a, b, data.span)?);
            }
            return self.store(ty, &sum, place, data.span);
        }
        let (inside, addr) = match (place.inside, place.addr.var) {
            (inside, true) => (inside, place.addr),
            (None, false) => (None, place.addr),
            (Some(inside), false) => {
                let (yes, join) = (self.w.new_block(), self.w.new_block());
                self.w.branch(inside, yes, join, "");
                self.w.enter(yes);
                self.add_to(data, x, Place { inside: None, ..place })?;
                self.w.jump(join);
                self.w.enter(join);
                return Ok(());
            }
        };
        let mask = self.both(inside, place.mask);
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
