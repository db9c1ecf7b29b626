//! Emits accesses to memory: places, loads and stores.
//!
//! A [`Place`] is the location of a value: an address that may vary, and the condition that it is in range,
//! unless that is certain. Reads out of range give zero, and writes out of range are dropped. A uniform
//! access out of range is skipped by a branch rather than redirected to another address, so that LLVM sees
//! addresses with a constant stride; a varying access is masked.
//!
//! [`super::blocks`] emits the accesses whose addresses have a constant stride over the lanes,
//! [`super::scattered`] the other varying ones, and [`super::copies`] those of arrays.

use ir::{Scalar, Span, Type, TypeData};
use native::emit::Assembler;
use native::runtime::Helper;
use native::types::{is_array, size};
use smallvec::SmallVec;

use super::blocks::is_block;
use super::{Emitter, Res, el};
use crate::text::{El, Id, Val, Vals};

/// The kind of memory of an access. Memory of different kinds, and of different globals, does not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Memory of the function.
    Local,
    /// The header of a stack.
    Header,
    /// The context of the thread, and fields of it that do not change while a function runs.
    Context,
    Constant,
    /// A buffer: that of `global` if it is known, and never written if `constant`.
    Buffer {
        global: Option<ir::Global>,
        constant: bool,
    },
}

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

impl Emitter<'_, '_> {
    /// Memory for a value that the current instruction makes.
    pub(crate) fn memory(&mut self, bytes: u64, wide: bool) -> Val {
        let wide = wide && self.lanes > 1;
        let bytes = if wide { bytes.saturating_mul(self.lanes as u64) } else { bytes };
        let at = if bytes > self.big {
            self.helper_value(Helper::Alloc, &[Val::i64(bytes as i64)])
        } else {
            self.w.alloca(bytes, if wide { 64 } else { 16 })
        };
        Val { wide, ..at }
    }

    /// The text that follows an access: its alignment, and metadata for alias analysis.
    pub(super) fn note(&self, class: Class, align: u64) -> String {
        let invariant = match class {
            Class::Constant => self.cx.constant_context,
            Class::Buffer { constant, .. } => constant,
            Class::Local | Class::Header | Class::Context => false,
        };
        let invariant = if invariant { ", !invariant.load !4" } else { "" };
        format!(", align {align}{}{invariant}", self.call_note(class))
    }

    /// The metadata that follows an access if the access is a call.
    pub(super) fn call_note(&self, class: Class) -> String {
        match class {
            Class::Local => ", !tbaa !5".to_string(),
            Class::Header => ", !tbaa !7".to_string(),
            Class::Context | Class::Constant => ", !tbaa !11".to_string(),
            Class::Buffer { global: None, .. } => ", !tbaa !6".to_string(),
            Class::Buffer { global: Some(global), .. } => {
                let g = 3 * global.as_u32();
                format!(", !tbaa !6, !alias.scope !{}, !noalias !{}", 100 + g, 101 + g)
            }
        }
    }

    /// Loads a field of the context that does not change while the function runs.
    pub(crate) fn field(&mut self, el: El, offset: i32) -> Val {
        let at = self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64(offset as i64));
        let note = self.note(Class::Constant, el.bytes().min(4));
        self.w.load(el, false, at, &note)
    }

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
        let x = if at.var {
            self.gather(mem, at, class, mask)
        } else {
            let note = self.note(class, mem.bytes());
            self.w.load(mem, at.wide, at, &note)
        };
        self.number_of(e, x, class)
    }

    /// Converts a number as it was read: a truth value is a byte in memory.
    pub(super) fn number_of(&mut self, e: El, x: Val, class: Class) -> Val {
        if e != El::I1 {
            x
        } else if matches!(class, Class::Buffer { .. }) {
            // A byte of the host may be anything.
            self.w.compare("icmp ne", x, Val::bits(El::I8, 0))
        } else {
            self.w.cast("trunc", x, El::I1)
        }
    }

    /// Writes one number to an address, in the lanes of the mask.
    pub(super) fn write(&mut self, x: Val, at: Val, class: Class, mask: Option<Val>) {
        let x = if x.el == El::I1 { self.w.cast("zext", x, El::I8) } else { x };
        if at.var {
            let mask = mask.unwrap_or(Val::bool(true));
            return self.scatter(x, at, class, mask);
        }
        let note = self.note(class, x.el.bytes());
        if !at.wide {
            let x = if x.var { self.last_of(x, mask) } else { x };
            return self.w.store(x, at, &note);
        }
        let x = match mask {
            Some(mask) => {
                let old = self.w.load(x.el, true, at, &note);
                self.w.select(mask, x, old)
            }
            None => self.w.spread(x),
        };
        self.w.store(x, at, &note);
    }

    /// The number of the last active lane: the value that remains if the lanes write to one place one after
    /// the other.
    fn last_of(&mut self, x: Val, mask: Option<Val>) -> Val {
        let lane = match mask {
            None => Val::i32(self.lanes as i64 - 1),
            Some(mask) => {
                let bits = self.mask_bits(mask);
                let zeros = self.w.intrinsic("ctlz", &[bits], ", i1 true");
                self.w.binary("sub", Val::i32(31), zeros)
            }
        };
        self.w.lane(x, lane)
    }

    /// `k * n`, an offset within an object.
    pub(super) fn times(&mut self, k: Val, n: u64) -> Val {
        match k.constant() {
            Some(c) => Val::i64((c.wrapping_mul(n)) as i64),
            None if n == 1 => k,
            None => self.w.binary("mul", k, Val::i64(n as i64)),
        }
    }

    /// Loads a value of a type from a place. An array in local memory is not copied if its address does not
    /// vary.
    pub(super) fn load(&mut self, ty: Type, place: Place, span: Span) -> Res<Vals> {
        if is_array(self.ts, ty) {
            return self.load_array(ty, place, span);
        }
        let words = self.words(ty);
        if matches!(self.ts[ty], TypeData::Stack(_)) {
            if place.addr.var {
                return self.no_lanes("a stack at a place that varies", span);
            }
            let empty = Val::name(El::Ptr, "@rt_empty");
            let found = self.guarded(place.inside, &[empty], &mut |e| {
                Ok(Vals::from_slice(&[e.read(El::Ptr, Val { wide: false, ..place.addr }, place.class, None)]))
            })?;
            return Ok(Vals::from_slice(&[Val { wide: place.addr.wide, ..found[0] }]));
        }
        let missing = place.missing(self.ts.scalar_of(ty));
        let missing: Vals = words.iter().map(|&(e, _)| Val::bits(e, missing)).collect();
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
        self.guarded(place.inside, &missing, &mut |e| {
            let mut out = Vals::new();
            for &(el, at) in &words {
                let at = e.w.offset(place.addr, Val::i64((at * scale) as i64));
                out.push(e.read(el, at, place.class, None));
            }
            Ok(out)
        })
    }

    /// The number of lanes that memory at an address has room for in the place of each number.
    pub(super) fn scale(&self, addr: Val) -> u64 {
        if addr.wide { self.lanes as u64 } else { 1 }
    }

    /// The conjunction of two masks.
    pub(super) fn both(&mut self, a: Option<Val>, b: Option<Val>) -> Option<Val> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.w.binary("and", a, b)),
            (a, b) => a.or(b),
        }
    }

    /// Emits `body` under a branch: gives its result if `inside` holds, else `otherwise`.
    fn guarded(
        &mut self,
        inside: Option<Val>,
        otherwise: &[Val],
        body: &mut dyn FnMut(&mut Self) -> Res<Vals>,
    ) -> Res<Vals> {
        let Some(inside) = inside else { return body(self) };
        let before = self.w.block;
        let (yes, join) = (self.w.new_block(), self.w.new_block());
        self.w.branch(inside, yes, join, ", !prof !8");
        self.w.enter(yes);
        let found = body(self)?;
        let end = self.w.block;
        self.w.jump(join);
        self.w.enter(join);
        let mut out = Vals::new();
        for (&x, &missing) in found.iter().zip(otherwise) {
            let (phi, v) = self.w.phi(x.el, x.var, x.wide);
            self.w.flow(phi, missing, before);
            self.w.flow(phi, x, end);
            out.push(v);
        }
        Ok(out)
    }

    /// Writes a value of a type to a place.
    pub(super) fn store(&mut self, ty: Type, vals: &[Val], place: Place, span: Span) -> Res {
        if let (Some(inside), false) = (place.inside, place.addr.var) {
            let (yes, join) = (self.w.new_block(), self.w.new_block());
            self.w.branch(inside, yes, join, ", !prof !8");
            self.w.enter(yes);
            self.store(ty, vals, Place { inside: None, ..place }, span)?;
            self.w.jump(join);
            self.w.enter(join);
            return Ok(());
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
                Some(_) if apart => self.all_active().map_or(holds, |full| self.w.binary("and", holds, full)),
                _ => holds,
            };
            let (fast, slow, join) = (self.w.new_block(), self.w.new_block(), self.w.new_block());
            self.w.branch(holds, fast, slow, ", !prof !8");
            self.w.enter(fast);
            if apart {
                self.store_apart(vals, &words, base, step, place.class);
            } else {
                self.store_block(vals, base, place.class, place.mask);
            }
            self.w.jump(join);
            self.w.enter(slow);
            for (&x, &(_, at)) in vals.iter().zip(&words) {
                self.rare_scatter(x, place, at * scale);
            }
            self.w.jump(join);
            self.w.enter(join);
            return Ok(());
        }
        for (&x, &(_, at)) in vals.iter().zip(&words) {
            let at = self.w.offset(place.addr, Val::i64((at * scale) as i64));
            self.write(x, at, place.class, mask);
        }
        Ok(())
    }

    /// Converts a value to the representation of a varying one, if that differs; a number is broadcast where
    /// it is used.
    pub(super) fn fit(&mut self, ty: Type, vals: Vals, varying: bool, span: Span) -> Res<Vals> {
        if !varying || self.lanes == 1 || vals.first().is_none_or(|v| v.wide) {
            return Ok(vals);
        }
        let known = vals[0].id == Id::Name("@rt_zero") || vals[0].id == Id::Name("@rt_empty");
        match self.ts[ty] {
            TypeData::Array(..) | TypeData::Stack(_) if known => {
                Ok(Vals::from_slice(&[Val { wide: true, ..vals[0] }]))
            }
            TypeData::Stack(_) => self.no_lanes("a uniform stack among varying ones", span),
            TypeData::Array(..) => {
                let to = self.memory(size(self.ts, ty), true);
                self.store_array(ty, vals[0], Place::local(to), None, span)?;
                Ok(Vals::from_slice(&[to]))
            }
            _ => Ok(vals),
        }
    }

    /// As [`Self::fit`], but also broadcasts numbers and handles, as phis and calls require.
    pub(super) fn fit_all(&mut self, ty: Type, vals: Vals, varying: bool, span: Span) -> Res<Vals> {
        let vals = self.fit(ty, vals, varying, span)?;
        if !varying || matches!(self.ts[ty], TypeData::Array(..) | TypeData::Stack(_)) {
            return Ok(vals);
        }
        Ok(vals.into_iter().map(|v| Val { lin: None, ..self.w.spread(v) }).collect())
    }
}
