//! Emits accesses to memory: places, loads and stores.
//!
//! A [`Place`] is the location of a value: an address that may vary, and the condition that it is in range,
//! unless that is certain. Reads out of range give zero, and writes out of range are dropped. A uniform
//! access out of range is skipped by a branch, so that LLVM sees addresses with a constant stride; for a backend
//! that gains nothing from these ([`Writer::SKIPS`]), a read is redirected to memory that is zero. A varying access
//! is masked.
//!
//! [`super::blocks`] emits the accesses whose addresses have a constant stride over the lanes,
//! [`super::scattered`] the other varying ones, and [`super::copies`] those of arrays.

use crate::emit::{
    Access, Binary, Cast, Compare, Fixed, Instructions, Memory, Odds, Stack, UNIFORM, Unary, VARYING, blocks,
    memory,
};
use crate::runtime::{Helper, Word, offsets};
use crate::types::{Shape, is_array, size};
use ir::{AtomicOp, Global, InstData, MemType, Scalar, Space, Span, Type, TypeData};
use smallvec::SmallVec;

use super::operand::{El, Id, Val, Vals};
use super::{Backend, Class, Emitter, Res, Writer, el};

/// The location of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The address; `wide` if each number has room for all lanes.
    pub(super) addr: Val,
    /// The condition that the place is in range; `None` if it certainly is.
    pub(super) inside: Option<Val>,
    /// The kind of memory.
    pub(super) class: Class,
    /// The place is within a stack: a float out of range is read as an absent differential, not as zero.
    pub(super) of_stack: bool,
    /// The lanes that write; all if `None`.
    pub(super) mask: Option<Val>,
    /// The address of lane 0, the stride from lane to lane, and the condition that the addresses have this
    /// stride and all lanes are in range.
    pub(super) block: Option<(Val, i64, Val)>,
    /// The same place as elements of a buffer.
    pub(super) elements: Option<Elements>,
}

/// Elements of a buffer, one for each lane, given by 32-bit numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    /// The address that the place would have in the first element, the number of elements, and their size;
    /// all are uniform.
    pub(super) first: Val,
    pub(super) count: Val,
    pub(super) size: u64,
    /// The numbers of the elements; negative numbers are out of range.
    pub(super) numbers: Val,
    pub(super) signed: bool,
    /// The condition that the place is within the element.
    pub(super) certain: Val,
}

impl Place {
    /// A place in the function's own memory that is certainly in range.
    pub(super) fn local(addr: Val) -> Place {
        let (class, of_stack) = (Class::Local, false);
        Place { addr, inside: None, class, of_stack, mask: None, block: None, elements: None }
    }

    /// The bits that a read of a number out of range gives.
    pub(super) fn missing(&self, s: Option<Scalar>) -> u64 {
        s.filter(|s| self.of_stack && s.is_float()).map_or(0, ir::scalar::absent)
    }
}

/// The type of a number in memory.
pub(super) fn memory_el(e: El) -> El {
    if e == El::I1 { El::I8 } else { e }
}

/// Returns true if the numbers of consecutive lanes fill the memory without gaps.
pub(super) fn is_block(words: &[(El, u64)], step: i64) -> bool {
    let bytes: u64 = words.iter().map(|w| memory_el(w.0).bytes()).sum();
    words.len() <= 4 && words.iter().all(|w| w.0 == words[0].0) && step == bytes as i64
}

impl<'m, B: Backend> Memory<'m> for Emitter<'_, 'm, B> {
    type Place = Place;

    fn memory(&mut self, bytes: u64, wide: bool) -> Val {
        let wide = wide && self.lanes > 1;
        let bytes = if wide { bytes.saturating_mul(self.lanes as u64) } else { bytes };
        let at = if bytes > self.big {
            self.helper_value(Helper::Alloc, &[Val::i64(bytes as i64)])
        } else {
            self.w.alloca(bytes, if wide { 64 } else { 16 })
        };
        Val { wide, ..at }
    }

    fn begin_cell(&mut self, cell: ir::Value) {
        self.cell_mask.insert(cell, self.mask);
    }

    fn offset(&mut self, address: Val, bytes: Val) -> Val {
        self.w.offset(address, bytes)
    }

    fn address_bits(&mut self, address: Val) -> Val {
        self.w.cast(Cast::Address, address, El::I64)
    }

    fn times(&mut self, k: Val, n: u64) -> Val {
        match k.constant() {
            Some(c) => Val::i64((c.wrapping_mul(n)) as i64),
            None if n == 1 => k,
            None => self.w.binary(Binary::Mul, k, Val::i64(n as i64)),
        }
    }

    fn index64(&mut self, v: ir::Value) -> Val {
        let s = self.scalar_of(v);
        let x = self.one(v);
        let i = self.extend(Scalar::I64, s.is_signed_int(), x);
        // A constant is the same in all lanes even if the analysis does not know it, and so is a place that
        // it selects.
        Val { var: i.var && i.constant().is_none(), ..i }
    }

    fn stride(&self, elem: Type, array: Val) -> u64 {
        let scale = if matches!(self.ts[elem], TypeData::Stack(_)) { 1 } else { self.scale(array) };
        size(self.ts, elem) * scale
    }

    fn is_wide(&self, v: Val) -> bool {
        v.wide
    }

    fn widened(&self, address: Val, wide: bool) -> Val {
        Val { wide: wide && self.lanes > 1, ..address }
    }

    fn clear(&mut self, at: Val, bytes: u64) {
        let bytes = bytes * self.scale(at);
        self.w.clear(at, bytes);
    }

    fn first(&mut self, header: Val, _: Stack) -> Val {
        Val { wide: header.wide, ..self.w.load(El::Ptr, UNIFORM, header, Class::Header) }
    }

    fn len(&mut self, header: Val, _: Stack) -> Val {
        let at = self.w.offset(header, Val::i64(8));
        self.w.load(El::I64, UNIFORM, at, Class::Header)
    }

    fn shape(&mut self, elem: Type, wide: bool) -> Val {
        let shape = Shape::of(self.ts, elem);
        let shape = if wide { widened(shape, self.lanes) } else { shape };
        let (number, address) = self.cx.tables.shape(shape);
        self.w.shape(number, address)
    }

    fn place(&self, address: Val) -> Place {
        Place::local(address)
    }

    fn below(&mut self, array: Val, elem: Type, i: Val, inside: Option<Val>) -> Place {
        let mut by = self.times(i, self.stride(elem, array));
        if let (Some(s), true, true) = (self.ts.scalar_of(elem), by.var, array.wide) {
            // Each lane has its own number in wide memory.
            let lanes = self.iota(El::I64);
            let own = self.w.binary(Binary::Mul, lanes, Val::i64(s.bytes().into()));
            by = self.w.binary(Binary::Add, by, own);
        }
        Place { inside, ..Place::local(self.w.offset(array, by)) }
    }

    fn of_stack(&self, place: Place) -> Place {
        Place { of_stack: true, ..place }
    }

    /// A varying cell is wide memory. A write is masked if control has diverged since the cell was made; if it
    /// has not, the values that inactive lanes write are never read.
    fn cell(&self, cell: ir::Value, access: Access) -> Place {
        let mask = match access {
            Access::Read => None,
            Access::Write | Access::Grow => {
                self.mask.filter(|m| self.cell_mask.get(&cell).copied().flatten() != Some(*m))
            }
        };
        Place { mask, ..Place::local(self.one(cell)) }
    }

    fn within(&mut self, outer: Place, elem: Type, idx: ir::Value, n: u64) -> Place {
        let i = self.index64(idx);
        let below = memory::is_below(self, idx, i, n);
        let inner = if outer.addr.var {
            // The address is already that of each lane.
            let by = self.times(i, self.stride(elem, outer.addr));
            Place::local(self.w.offset(outer.addr, by))
        } else {
            self.below(outer.addr, elem, i, None)
        };
        let inside = self.both(outer.inside, below);
        Place { mask: outer.mask, inside, of_stack: outer.of_stack, ..inner }
    }

    fn in_cell(&self, element: Place, outer: Place) -> Place {
        Place { mask: outer.mask, ..element }
    }

    fn buffer_element(&mut self, elem: MemType, args: &[ir::Value], handle: &[Val], i: Val) -> Place {
        let root = self.roots.get(&args[0]).copied();
        let constant =
            root.is_some_and(|g| matches!(self.cx.ir.globals[g].space, Space::ReadOnly | Space::Uniform));
        let bytes = self.cx.ir.mem.size(elem);
        let by = self.times(i, bytes);
        let addr = self.w.offset(handle[0], by);
        let lin = i.lin.filter(|_| !handle[0].var && !handle[1].var && self.lanes > 1);
        let block = lin.and_then(|lin| {
            let base = Val::uniform(lin.base, El::I64);
            let last =
                self.w.binary(Binary::Add, base, Val::i64(lin.step.wrapping_mul(self.lanes as i64 - 1)));
            let first_in = self.w.compare(Compare::LessUnsigned, base, handle[1]);
            let last_in = self.w.compare(Compare::LessUnsigned, last, handle[1]);
            let all = self.w.binary(Binary::And, first_in, last_in);
            let all = self.w.binary(Binary::And, all, Val::uniform(lin.holds, El::I1));
            let by = self.times(base, bytes);
            let at = self.w.offset(handle[0], by);
            lin.step.checked_mul(bytes as i64).map(|step| (at, step, all))
        });
        let number = self.one(args[1]);
        let by_number =
            block.is_some() && number.var && number.el == El::I32 && handle[2].constant() == Some(0);
        let elements = (by_number && !self.cx.plan.partial.contains(&elem)).then(|| Elements {
            first: handle[0],
            count: handle[1],
            size: bytes,
            numbers: Val { lin: None, ..number },
            signed: self.scalar_of(args[1]).is_signed_int(),
            certain: Val::bool(true),
        });
        let class = Class::Buffer { global: root, constant };
        Place { class, mask: self.mask, block, elements, ..Place::local(addr) }
    }

    fn advance(&mut self, place: Place, bytes: Val, below: Option<Val>) -> Place {
        let addr = self.w.offset(place.addr, bytes);
        let and = |e: &mut Self, c: Val| below.map_or(c, |below| e.w.binary(Binary::And, c, below));
        let elements = place.elements.filter(|_| !bytes.var).map(|of| Elements {
            first: self.w.offset(of.first, bytes),
            certain: and(self, of.certain),
            ..of
        });
        let block = place.block.filter(|_| !bytes.var);
        let block = block.map(|(at, step, all)| (self.w.offset(at, bytes), step, and(self, all)));
        Place { addr, block, elements, ..place }
    }

    fn private_place(&mut self, base: Val, offset: u64) -> Place {
        let class = Class::Buffer { global: None, constant: false };
        Place { class, ..Place::local(self.w.offset(base, Val::i64(offset as i64))) }
    }

    fn address(&self, place: Place) -> Val {
        place.addr
    }

    fn inside(&self, place: Place) -> Option<Val> {
        place.inside
    }

    fn moved(&self, place: Place, addr: Val, inside: Option<Val>) -> Place {
        Place { addr, inside, ..place }
    }

    fn is_scattered(&self, place: Place) -> bool {
        place.addr.var
    }

    /// Loads a value of a type from a place. An array in local memory is not copied if its address does not
    /// vary.
    fn load(&mut self, ty: Type, place: Place, span: Span) -> Res<Vals> {
        let place = self.even(place);
        let place = self.readable(ty, place);
        if is_array(self.ts, ty) {
            return self.load_array(ty, place, span);
        }
        let words = self.words(ty);
        if matches!(self.ts[ty], TypeData::Stack(_)) {
            if place.addr.var {
                return self.no_lanes("a stack at a place that varies", span);
            }
            let empty = self.fixed(Fixed::Empty);
            let found = self.guarded(place.inside, &[empty], |e| {
                Ok(Vals::from_slice(&[e.read(El::Ptr, Val { wide: false, ..place.addr }, place.class, None)]))
            })?;
            return Ok(Vals::from_slice(&[Val { wide: place.addr.wide, ..found[0] }]));
        }
        let missing = place.missing(self.ts.scalar_of(ty));
        let var = place.addr.wide;
        let missing: Vals = words.iter().map(|&(e, _)| Val { var, ..Val::bits(e, missing) }).collect();
        if place.addr.var {
            let mask = self.both(place.inside, self.mask);
            let found = self.load_lanes(&words, place, mask)?;
            return Ok(match place.inside.filter(|_| place.of_stack) {
                Some(inside) => {
                    found.iter().zip(&missing).map(|(&x, &m)| self.w.select(inside, x, m)).collect()
                }
                None => found,
            });
        }
        let scale = self.scale(place.addr);
        self.guarded(place.inside, &missing, |e| {
            let mut out = Vals::new();
            for &(el, at) in &words {
                let at = e.w.offset(place.addr, Val::i64((at * scale) as i64));
                out.push(e.read(el, at, place.class, None));
            }
            Ok(out)
        })
    }

    /// Writes a value of a type to a place.
    fn store(&mut self, ty: Type, vals: &[Val], place: Place, span: Span) -> Res {
        let place = self.even(place);
        if let (Some(inside), false) = (place.inside, place.addr.var) {
            return blocks::when_ok(self, inside, Odds::Likely, |e| {
                e.store(ty, vals, Place { inside: None, ..place }, span)
            });
        }
        let mask = self.both(place.inside, place.mask);
        if is_array(self.ts, ty) {
            return self.store_array(ty, vals[0], place, mask, span);
        }
        if matches!(self.ts[ty], TypeData::Stack(_)) {
            if place.addr.var {
                return self.no_lanes("a stack at a place that varies", span);
            }
            let x = Val { wide: false, ..vals[0] };
            self.write(x, Val { wide: false, ..place.addr }, place.class, None);
            return Ok(());
        }
        let words = self.words(ty);
        let scale = self.scale(place.addr);
        if let Some((base, step, holds)) = place.block.filter(|_| self.is_row(&words)) {
            let apart = !is_block(&words, step);
            let holds = match place.mask {
                Some(_) if apart => {
                    self.all_active().map_or(holds, |full| self.w.binary(Binary::And, holds, full))
                }
                _ => holds,
            };
            let fast = |e: &mut Self| {
                if apart {
                    e.store_apart(vals, &words, base, step, place.class);
                } else {
                    e.store_block(vals, base, place.class, place.mask);
                }
                Ok(Vals::new())
            };
            let slow = |e: &mut Self| {
                for (&x, &(_, at)) in vals.iter().zip(&words) {
                    e.rare_scatter(x, place, at * scale);
                }
                Ok(Vals::new())
            };
            blocks::either(self, holds, Odds::Likely, fast, slow)?;
            return Ok(());
        }
        for (&x, &(_, at)) in vals.iter().zip(&words) {
            let at = self.w.offset(place.addr, Val::i64((at * scale) as i64));
            self.write(x, at, place.class, mask);
        }
        Ok(())
    }

    fn load_word(&mut self, s: Option<Scalar>, words: Val, k: usize) -> Val {
        let at = self.w.offset(words, Val::i64(8 * k as i64));
        let x = self.read(s.map_or(El::Ptr, el), Val { wide: false, ..at }, Class::Local, None);
        Val { wide: words.wide && s.is_none(), ..x }
    }

    fn store_word(&mut self, x: Val, words: Val, k: usize) {
        let at = self.w.offset(words, Val::i64(8 * k as i64));
        self.write(x, at, Class::Local, None);
    }

    fn atomic(
        &mut self,
        data: &InstData,
        op: (AtomicOp, Scalar),
        place: Place,
        operands: (Val, Val),
    ) -> Res<Val> {
        self.atomic_lanes(data, op, place, operands)
    }

    /// For a private global, each lane has its own memory.
    fn global(&mut self, global: Global) -> Vals {
        let at = i64::from(global.as_u32()) * 16;
        let table = self.context(Word::Ptr, offsets::GLOBALS);
        let at_ptr = self.w.offset(table, Val::i64(at));
        let mut ptr = self.w.load(El::Ptr, UNIFORM, at_ptr, Class::Constant);
        let at_count = self.w.offset(table, Val::i64(at + 8));
        let count = self.w.load(El::I64, UNIFORM, at_count, Class::Constant);
        let data = &self.cx.ir.globals[global];
        if self.lanes > 1 && data.space == Space::Private {
            let bytes = private_bytes(self.cx.ir.mem.size(data.ty));
            let by = self.w.binary(Binary::Mul, self.iota(El::I64), Val::i64(bytes as i64));
            ptr = self.w.offset(ptr, by);
        }
        Vals::from_slice(&[ptr, count, Val::i64(0), Val::i64(0)])
    }

    fn clear_private(&mut self, base: Val, bytes: u64) {
        let first = self.w.lane(base, Val::i32(0));
        self.clear(first, private_bytes(bytes) * self.lanes as u64);
    }
}

/// The distance in bytes between the memory of neighbouring lanes for a private global.
fn private_bytes(size: u64) -> u64 {
    size.next_multiple_of(16)
}

/// The shape of elements that have room for all lanes.
fn widened(shape: Shape, lanes: u32) -> Shape {
    match shape {
        Shape::Flat(s, n) => Shape::Flat(s, n * lanes as u64),
        Shape::Opaque(n) => Shape::Opaque(n * lanes as u64),
        Shape::Stack(inner) => Shape::Stack(Box::new(widened(*inner, lanes))),
    }
}
impl<B: Backend> Emitter<'_, '_, B> {
    /// The numbers and addresses that a value consists of in local memory, each with its byte offset (without
    /// lanes).
    fn words(&self, ty: Type) -> SmallVec<[(El, u64); 4]> {
        match self.ts[ty] {
            TypeData::Scalar(s) => SmallVec::from_slice(&[(el(s), 0)]),
            TypeData::Vector(s, n) => (0..n as u64).map(|k| (el(s), k * s.bytes() as u64)).collect(),
            TypeData::Buffer(_) => {
                SmallVec::from_slice(&[(El::Ptr, 0), (El::I64, 8), (El::I64, 16), (El::I64, 24)])
            }
            _ => SmallVec::from_slice(&[(El::Ptr, 0)]),
        }
    }

    /// Reads one number from an address.
    pub(super) fn read(&mut self, e: El, at: Val, class: Class, mask: Option<Val>) -> Val {
        let mem = memory_el(e);
        let x = if at.var { self.gather(mem, at, class, mask) } else { self.w.load(mem, at.wide, at, class) };
        self.number_of(e, x, class)
    }

    /// Converts a number as it was read: a truth value is a byte in memory.
    pub(super) fn number_of(&mut self, e: El, x: Val, class: Class) -> Val {
        if e != El::I1 {
            x
        } else if matches!(class, Class::Buffer { .. }) {
            // A byte of the host may be anything.
            self.w.compare(Compare::NotEqual, x, Val::bits(El::I8, 0))
        } else {
            self.w.cast(Cast::Truncate, x, El::I1)
        }
    }

    /// Writes one number to an address, in the lanes of the mask.
    pub(super) fn write(&mut self, x: Val, at: Val, class: Class, mask: Option<Val>) {
        let x = if x.el == El::I1 { self.w.cast(Cast::ZeroExtend, x, El::I8) } else { x };
        if at.var {
            let mask = mask.unwrap_or(Val::bool(true));
            return self.scatter(x, at, class, mask);
        }
        if !at.wide {
            let x = if x.var { self.last_of(x, mask) } else { x };
            return self.w.store(x, at, class);
        }
        let x = match mask {
            Some(mask) => {
                let old = self.w.load(x.el, VARYING, at, class);
                self.w.select(mask, x, old)
            }
            None => self.w.spread(x),
        };
        self.w.store(x, at, class);
    }

    /// The number of the last active lane: the value that remains if the lanes write to one place one after
    /// the other.
    fn last_of(&mut self, x: Val, mask: Option<Val>) -> Val {
        let lane = match mask {
            None => Val::i32(self.lanes as i64 - 1),
            Some(mask) => {
                let bits = self.w.mask_bits(mask);
                let zeros = self.w.unary(Unary::LeadingZeros, bits);
                self.w.binary(Binary::Sub, Val::i32(31), zeros)
            }
        };
        self.w.lane(x, lane)
    }

    /// The number of lanes that memory at an address has room for in the place of each number.
    pub(super) fn scale(&self, addr: Val) -> u64 {
        if addr.wide { self.lanes as u64 } else { 1 }
    }

    /// Emits `body` under a branch: gives its result if `inside` holds, else `otherwise`.
    fn guarded(
        &mut self,
        inside: Option<Val>,
        otherwise: &[Val],
        body: impl FnOnce(&mut Self) -> Res<Vals>,
    ) -> Res<Vals> {
        match inside {
            Some(inside) => blocks::unless(self, inside, Odds::Likely, otherwise, body),
            None => body(self),
        }
    }

    /// Where the backend prefers that to a branch, reads out of range are redirected to memory that holds what such
    /// a read gives.
    fn readable(&mut self, ty: Type, place: Place) -> Place {
        let missing = place.missing(self.ts.scalar_of(ty));
        let Some(inside) = place.inside.filter(|_| !B::Writer::SKIPS && !place.addr.var && missing == 0)
        else {
            return place;
        };
        let otherwise = self.fixed(match self.ts[ty] {
            TypeData::Stack(_) => Fixed::EmptyAt,
            _ => Fixed::Zeros,
        });
        let wide = place.addr.wide;
        let addr = self.w.select(inside, place.addr, Val { wide, ..otherwise });
        Place { addr: Val { wide, ..addr }, inside: None, ..place }
    }

    /// Makes the address and the condition of a place both uniform or both varying.
    pub(super) fn even(&mut self, place: Place) -> Place {
        match place.inside {
            Some(inside) if place.addr.var && !inside.var => {
                Place { inside: Some(self.w.spread(inside)), ..place }
            }
            Some(inside) if inside.var && !place.addr.var => {
                Place { addr: self.w.spread(place.addr), ..place }
            }
            _ => place,
        }
    }

    /// The numbers 0, 1, … of the lanes.
    pub(super) fn iota(&self, el: El) -> Val {
        Val { id: Id::Iota, el, var: true, wide: false, lin: None }
    }
}
