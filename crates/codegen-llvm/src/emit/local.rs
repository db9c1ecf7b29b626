//! Memory: places, loads, stores, copies and loops over elements.
//!
//! A [`Place`] is where a value lies: an address that may vary, and whether it is in range if that is not certain.
//! What is out of range reads zero and is not written. A uniform access out of range is branched around rather than
//! sent elsewhere, so that LLVM sees addresses that rise evenly; a varying one is masked.
//!
//! Where the address rises from lane to lane by just what is accessed, the lanes are one block of memory: it is loaded
//! or stored as such if all of it is in range, which is tested once. Where it rises by more, each lane has its own load
//! or store then, at a known distance from the first. What is not all in range is rare: helpers do that, since sixteen
//! branches for each such access would take LLVM longer than all else.

use ir::{Scalar, Span, Type, TypeData};
use native::runtime::Helper;
use native::types::{flat, is_array, size};
use smallvec::SmallVec;

use super::{Emitter, Res, el};
use crate::text::{El, Id, Val, Vals};

/// Components or elements up to which a loop over them is written out.
pub(super) const UNROLL: u64 = 16;

/// Whose memory it is. Memory of different kinds, and of different globals, does not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A function's own.
    Local,
    /// The head of a stack.
    Header,
    /// The context of the thread.
    Context,
    /// A buffer: of this global if it is known, and never written if `constant`.
    Buffer { global: Option<ir::Global>, constant: bool },
}

/// Where a value lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The address; `wide` if each number has room for all lanes.
    pub(super) addr: Val,
    /// Whether it may be accessed; always, if `None`.
    pub(super) inside: Option<Val>,
    /// Whose memory it is.
    pub(super) class: Class,
    /// Which lanes write; all, if `None`.
    pub(super) mask: Option<Val>,
    /// The address of lane 0 and by how much it rises, and whether that holds and all lanes are in range.
    pub(super) block: Option<(Val, i64, Val)>,
    /// The same places as elements of a buffer.
    pub(super) elements: Option<Elements>,
}

/// Elements of a buffer, one for each lane, by numbers of 32 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    /// Where the place would be in the first element, how many elements there are, and their size: uniform.
    pub(super) first: Val,
    pub(super) count: Val,
    pub(super) size: u64,
    /// Their numbers; not in range if they are negative.
    pub(super) numbers: Val,
    pub(super) signed: bool,
    /// Whether the place is in the element.
    pub(super) certain: Val,
}

impl Place {
    /// A place in the function's own memory that is certainly there.
    pub(super) fn local(addr: Val) -> Place {
        Place { addr, inside: None, class: Class::Local, mask: None, block: None, elements: None }
    }
}

/// Memory of which nothing is known but that the host, or a helper, sees it.
const ANY_BUFFER: Class = Class::Buffer { global: None, constant: false };

/// The type of a number in memory.
pub(super) fn memory_el(e: El) -> El {
    if e == El::I1 { El::I8 } else { e }
}

impl Emitter<'_, '_> {
    /// Memory for a value, of this instruction.
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

    /// What follows an access: alignment, and what it cannot overlap with.
    pub(super) fn note(&self, class: Class, align: u64) -> String {
        match class {
            Class::Local => format!(", align {align}, !tbaa !5"),
            Class::Header => format!(", align {align}, !tbaa !7"),
            Class::Context => format!(", align {align}, !tbaa !11"),
            Class::Buffer { global, constant } => {
                let mut text = format!(", align {align}, !tbaa !6");
                if let Some(global) = global {
                    let g = global.as_u32();
                    text.push_str(&format!(", !alias.scope !{}, !noalias !{}", 100 + 3 * g, 101 + 3 * g));
                }
                if constant {
                    text.push_str(", !invariant.load !4");
                }
                text
            }
        }
    }

    /// A field of the context that stays the same while the function runs.
    pub(crate) fn field(&mut self, el: El, offset: i32) -> Val {
        let at = self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64(offset as i64));
        let note = format!("{}, !invariant.load !4", self.note(Class::Context, el.bytes().min(4)));
        self.w.load(el, false, at, &note)
    }

    /// The numbers and addresses that a value is in local memory, and the byte at which each lies (without lanes).
    fn words(&self, ty: Type) -> SmallVec<[(El, u64); 4]> {
        match self.ts[ty] {
            TypeData::Scalar(s) => SmallVec::from_slice(&[(el(s), 0)]),
            TypeData::Vector(s, n) => (0..n as u64).map(|k| (el(s), k * s.bytes() as u64)).collect(),
            TypeData::Buffer(_) => SmallVec::from_slice(&[(El::Ptr, 0), (El::I64, 8), (El::I64, 16)]),
            _ => SmallVec::from_slice(&[(El::Ptr, 0)]),
        }
    }

    // ---- single numbers

    /// One number at an address.
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

    /// The number that was read: of a truth value, memory has a byte.
    fn number_of(&mut self, e: El, x: Val, class: Class) -> Val {
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

    /// The number of the last active lane: what lanes that write one place one after the other leave there.
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

    fn gather(&mut self, e: El, at: Val, class: Class, mask: Option<Val>) -> Val {
        let mask = self.w.spread(mask.unwrap_or(Val::bool(true)));
        let (ty, name, n) = (self.w.ty(e, true), self.w.mangle(e, true), self.lanes);
        let full = format!("llvm.masked.gather.{name}.v{n}p0");
        self.w.declare(format!("declare {ty} @{full}(<{n} x ptr>, i32, <{n} x i1>, {ty})"));
        let out = self.w.reg(e, true);
        let (o, a, m) = (self.w.operand(out, true), self.w.typed(at), self.w.typed(mask));
        let note = self.call_note(class);
        let align = e.bytes();
        self.w
            .line(format_args!("{o} = call {ty} @{full}({a}, i32 {align}, {m}, {ty} zeroinitializer){note}"));
        out
    }

    fn scatter(&mut self, x: Val, at: Val, class: Class, mask: Val) {
        let (x, mask) = (self.w.spread(x), self.w.spread(mask));
        let (ty, name, n) = (self.w.ty(x.el, true), self.w.mangle(x.el, true), self.lanes);
        let full = format!("llvm.masked.scatter.{name}.v{n}p0");
        self.w.declare(format!("declare void @{full}({ty}, <{n} x ptr>, i32, <{n} x i1>)"));
        let (x_text, a, m) = (self.w.typed(x), self.w.typed(at), self.w.typed(mask));
        let note = self.call_note(class);
        let align = x.el.bytes();
        self.w.line(format_args!("call void @{full}({x_text}, {a}, i32 {align}, {m}){note}"));
    }

    /// A gather where it is rare: by a helper, of numbers at so many bytes from a place.
    fn rare_gather(&mut self, e: El, place: Place, at: u64) -> Val {
        let mem = memory_el(e);
        let numbers = self.rare(Helper::Gather, Helper::GatherElements, place, self.mask, at, mem);
        let note = self.note(ANY_BUFFER, mem.bytes());
        let x = self.w.load(mem, true, numbers, &note);
        self.number_of(e, x, place.class)
    }

    /// A scatter where it is rare: by a helper, of numbers to so many bytes from a place.
    fn rare_scatter(&mut self, x: Val, place: Place, at: u64) {
        let x = if x.el == El::I1 { self.w.cast("zext", x, El::I8) } else { x };
        let x = self.w.spread(x);
        let numbers = self.handed().1;
        let note = self.note(ANY_BUFFER, x.el.bytes());
        self.w.store(x, numbers, &note);
        self.rare(Helper::Scatter, Helper::ScatterElements, place, place.mask, at, x.el);
    }

    /// Where helpers find the lanes' addresses or the numbers of elements, and where numbers are.
    fn handed(&mut self) -> (Val, Val) {
        let room = 8 * u64::from(native::MOST_LANES);
        let w = &mut self.w;
        *self.handed.get_or_insert_with(|| (w.alloca(room, 64), w.alloca(room, 64)))
    }

    /// Calls a helper that touches no more than an access at the place does, and what is handed over: one that takes
    /// addresses, or one that takes the numbers of elements, if the place is known so. Gives where numbers are.
    fn rare(
        &mut self,
        any: Helper,
        of_elements: Helper,
        place: Place,
        mask: Option<Val>,
        at: u64,
        el: El,
    ) -> Val {
        let (places, numbers) = self.handed();
        let bytes = Val::i64(el.bytes() as i64);
        let by = Val::i64(at as i64);
        let all = Val::bool(true);
        let (helper, args) = match place.elements {
            Some(elements) => {
                let note = self.note(ANY_BUFFER, 4);
                self.w.store(elements.numbers, places, &note);
                let bits = self.mask_bits(mask.unwrap_or(all));
                let bits = self.w.select(elements.certain, bits, Val::i32(0));
                let first = self.w.offset(elements.first, by);
                let (size, signed) = (Val::i64(elements.size as i64), Val::i32(i64::from(elements.signed)));
                (of_elements, vec![places, numbers, bits, bytes, first, elements.count, size, signed])
            }
            None => {
                let at = self.w.offset(place.addr, by);
                let at = self.w.spread(at);
                let note = self.note(ANY_BUFFER, 8);
                self.w.store(at, places, &note);
                let mask = self.both(place.inside, mask);
                (any, vec![places, numbers, self.mask_bits(mask.unwrap_or(all)), bytes])
            }
        };
        let (types, _) = helper.signature();
        debug_assert_eq!(types.len(), args.len());
        let types: Vec<&str> = args.iter().map(|a| a.el.name()).collect();
        let (name, note) = (helper.name(), self.call_note(place.class));
        let about = "cold nounwind willreturn nofree nosync";
        self.w.declare(format!("declare void @{name}({}) {about}", types.join(", ")));
        let list: Vec<String> = args.iter().map(|&a| self.w.typed(a)).collect();
        self.w.line(format_args!("call void @{name}({}){note}", list.join(", ")));
        numbers
    }

    /// What follows an access that is a call.
    fn call_note(&self, class: Class) -> String {
        let note = self.note(class, 1);
        note.trim_start_matches(", align 1").replace(", !invariant.load !4", "")
    }

    /// Number `k` of an array in local memory.
    pub(super) fn load_local(&mut self, s: Scalar, array: Val, k: Val) -> Val {
        let at = self.number_at(s, array, k);
        self.read(el(s), at, Class::Local, None)
    }

    /// Writes number `k` of an array that is being made.
    pub(super) fn store_local(&mut self, s: Scalar, x: Val, array: Val, k: Val) {
        let at = self.number_at(s, array, k);
        self.write(x, at, Class::Local, None);
    }

    fn number_at(&mut self, s: Scalar, array: Val, k: Val) -> Val {
        let step = s.bytes() as u64 * if array.wide { self.lanes as u64 } else { 1 };
        let by = self.times(k, step);
        self.w.offset(array, by)
    }

    /// `k * n`, an offset within an object.
    pub(super) fn times(&mut self, k: Val, n: u64) -> Val {
        match k.constant() {
            Some(c) => Val::i64((c.wrapping_mul(n)) as i64),
            None if n == 1 => k,
            None => self.w.binary("mul", k, Val::i64(n as i64)),
        }
    }

    // ---- values

    /// The value of a type at a place. An array of local memory is not copied where it does not vary in place.
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
        let zeros: Vals = words.iter().map(|&(e, _)| Val::bits(e, 0)).collect();
        if place.addr.var {
            let mask = self.both(place.inside, self.mask);
            return self.load_lanes(&words, place, mask);
        }
        let scale = self.scale(place.addr);
        self.guarded(place.inside, &zeros, &mut |e| {
            let mut out = Vals::new();
            for &(el, at) in &words {
                let at = e.w.offset(place.addr, Val::i64((at * scale) as i64));
                out.push(e.read(el, at, place.class, None));
            }
            Ok(out)
        })
    }

    /// How many times a number is in memory of this kind.
    fn scale(&self, addr: Val) -> u64 {
        if addr.wide { self.lanes as u64 } else { 1 }
    }

    /// Both masks.
    pub(super) fn both(&mut self, a: Option<Val>, b: Option<Val>) -> Option<Val> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.w.binary("and", a, b)),
            (a, b) => a.or(b),
        }
    }

    /// What `body` gives where `inside` holds, else what `otherwise` says.
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
        for (&x, &zero) in found.iter().zip(otherwise) {
            let (phi, v) = self.w.phi(x.el, x.var, x.wide);
            self.w.flow(phi, zero, before);
            self.w.flow(phi, x, end);
            out.push(v);
        }
        Ok(out)
    }

    /// Numbers at places that vary.
    fn load_lanes(&mut self, words: &[(El, u64)], place: Place, mask: Option<Val>) -> Res<Vals> {
        let scale = self.scale(place.addr);
        let Some((base, step, holds)) = place.block.filter(|_| self.is_row(words)) else {
            let mut out = Vals::new();
            for &(e, at) in words {
                let at = self.w.offset(place.addr, Val::i64((at * scale) as i64));
                out.push(self.read(e, at, place.class, mask));
            }
            return Ok(out);
        };
        let (fast, slow, join) = (self.w.new_block(), self.w.new_block(), self.w.new_block());
        self.w.branch(holds, fast, slow, ", !prof !8");
        self.w.enter(fast);
        let quick = if is_block(words, step) {
            self.load_block(words, base, place.class)
        } else {
            self.load_apart(words, base, step, place.class)
        };
        let fast_end = self.w.block;
        self.w.jump(join);
        self.w.enter(slow);
        let mut other = Vals::new();
        for &(e, at) in words {
            other.push(self.rare_gather(e, place, at * scale));
        }
        let slow_end = self.w.block;
        self.w.jump(join);
        self.w.enter(join);
        let mut out = Vals::new();
        for (&a, &b) in quick.iter().zip(&other) {
            let (phi, v) = self.w.phi(a.el, true, false);
            self.w.flow(phi, a, fast_end);
            self.w.flow(phi, b, slow_end);
            out.push(v);
        }
        Ok(out)
    }

    /// Whether lanes whose addresses rise evenly have so few numbers each that these are loaded or stored one by one.
    fn is_row(&self, words: &[(El, u64)]) -> bool {
        words.len() as u32 * self.lanes <= 64
    }

    /// All lanes' numbers, those of a lane `step` bytes after those of the one before.
    fn load_apart(&mut self, words: &[(El, u64)], base: Val, step: i64, class: Class) -> Vals {
        let mut out = Vals::new();
        for &(e, at) in words {
            let mem = memory_el(e);
            let note = self.note(class, mem.bytes());
            let mut all = Val { var: true, ..Val::uniform(Id::Poison, mem) };
            for k in 0..i64::from(self.lanes) {
                let from = self.w.offset(base, Val::i64(k * step + at as i64));
                let x = self.w.load(mem, false, from, &note);
                all = self.w.with_lane(all, Val::i32(k), x);
            }
            out.push(self.number_of(e, all, class));
        }
        out
    }

    /// Writes all lanes' numbers, those of a lane `step` bytes after those of the one before.
    fn store_apart(&mut self, vals: &[Val], words: &[(El, u64)], base: Val, step: i64, class: Class) {
        for k in 0..self.lanes {
            for (&x, &(_, at)) in vals.iter().zip(words) {
                let x = self.w.lane(x, Val::i32(i64::from(k)));
                let x = if x.el == El::I1 { self.w.cast("zext", x, El::I8) } else { x };
                let to = self.w.offset(base, Val::i64(i64::from(k) * step + at as i64));
                let note = self.note(class, x.el.bytes());
                self.w.store(x, to, &note);
            }
        }
    }

    /// A block of all lanes' numbers, lane after lane.
    fn load_block(&mut self, words: &[(El, u64)], base: Val, class: Class) -> Vals {
        let (n, w, e) = (words.len() as u32, self.lanes, words[0].0);
        let mem = memory_el(e);
        if n == 1 {
            let x = self.read(e, Val { wide: true, ..base }, class, None);
            return Vals::from_slice(&[x]);
        }
        let all = self.w.reg(mem, true);
        let note = self.note(class, mem.bytes());
        let (a, ty, at) = (self.w.operand(all, true), mem.name(), self.w.typed(base));
        let total = n * w;
        self.w.line(format_args!("{a} = load <{total} x {ty}>, {at}{note}"));
        let mut out = Vals::new();
        for k in 0..n {
            let part = self.w.reg(mem, true);
            let p = self.w.operand(part, true);
            let picks: Vec<String> = (0..w).map(|l| format!("i32 {}", l * n + k)).collect();
            self.w.line(format_args!(
                "{p} = shufflevector <{total} x {ty}> {a}, <{total} x {ty}> poison, <{w} x i32> <{}>",
                picks.join(", ")
            ));
            let part = if e == El::I1 { self.w.compare("icmp ne", part, Val::bits(El::I8, 0)) } else { part };
            out.push(part);
        }
        out
    }

    /// Writes all lanes' numbers to a block, lane after lane; there are a power of two of them.
    fn store_block(&mut self, vals: &[Val], base: Val, class: Class, mask: Option<Val>) {
        let (n, w) = (vals.len() as u32, self.lanes);
        let vals: Vals = vals
            .iter()
            .map(|&x| {
                let x = if x.el == El::I1 { self.w.cast("zext", x, El::I8) } else { x };
                self.w.spread(x)
            })
            .collect();
        let (e, total) = (vals[0].el, n * w);
        let ty = format!("<{total} x {}>", e.name());
        // Side by side, then in the order of memory.
        let mut parts: Vec<(String, u32)> = vals.iter().map(|&x| (self.w.operand(x, true), w)).collect();
        let mut padded = n;
        while !padded.is_power_of_two() {
            parts.push(("poison".to_string(), w));
            padded += 1;
        }
        while parts.len() > 1 {
            let mut joined = Vec::new();
            for pair in parts.chunks(2) {
                let len = pair[0].1;
                let both = self.w.reg(e, true);
                let b = self.w.operand(both, true);
                let picks: Vec<String> = (0..2 * len).map(|k| format!("i32 {k}")).collect();
                let half = format!("<{len} x {}>", e.name());
                self.w.line(format_args!(
                    "{b} = shufflevector {half} {}, {half} {}, <{} x i32> <{}>",
                    pair[0].0,
                    pair[1].0,
                    2 * len,
                    picks.join(", ")
                ));
                joined.push((b, 2 * len));
            }
            parts = joined;
        }
        let (side, len) = parts.remove(0);
        let order = |k: u32| (k % n) * w + k / n;
        let x = if n == 1 {
            side
        } else {
            let out = self.w.reg(e, true);
            let o = self.w.operand(out, true);
            let picks: Vec<String> = (0..total).map(|k| format!("i32 {}", order(k))).collect();
            let from = format!("<{len} x {}>", e.name());
            self.w.line(format_args!(
                "{o} = shufflevector {from} {side}, {from} poison, <{total} x i32> <{}>",
                picks.join(", ")
            ));
            o
        };
        let at = self.w.typed(base);
        let Some(mask) = mask else {
            let note = self.note(class, e.bytes());
            return self.w.line(format_args!("store {ty} {x}, {at}{note}"));
        };
        let mask = self.w.spread(mask);
        let full = if self.cx.slow_masks { self.all_active() } else { None };
        if let Some(full) = full {
            // Mostly all lanes are active.
            let note = self.note(class, e.bytes());
            let (all, some, join) = (self.w.new_block(), self.w.new_block(), self.w.new_block());
            self.w.branch(full, all, some, ", !prof !8");
            self.w.enter(all);
            self.w.line(format_args!("store {ty} {x}, {at}{note}"));
            self.w.jump(join);
            self.w.enter(some);
            self.masked_store(&x, &at, n, total, mask, class, e);
            self.w.jump(join);
            self.w.enter(join);
            return;
        }
        self.masked_store(&x, &at, n, total, mask, class, e);
    }

    /// Writes the numbers of the active lanes, `n` of each, to a block.
    #[expect(clippy::too_many_arguments)]
    fn masked_store(&mut self, x: &str, at: &str, n: u32, total: u32, mask: Val, class: Class, e: El) {
        let w = self.lanes;
        let ty = format!("<{total} x {}>", e.name());
        let m = self.w.operand(mask, true);
        let m = if n == 1 {
            m
        } else {
            let out = self.w.reg(El::I1, true);
            let o = self.w.operand(out, true);
            let picks: Vec<String> = (0..total).map(|k| format!("i32 {}", k / n)).collect();
            self.w.line(format_args!(
                "{o} = shufflevector <{w} x i1> {m}, <{w} x i1> poison, <{total} x i32> <{}>",
                picks.join(", ")
            ));
            o
        };
        let full = format!("llvm.masked.store.v{total}{}.p0", self.w.mangle(e, false));
        self.w.declare(format!("declare void @{full}({ty}, ptr, i32, <{total} x i1>)"));
        let (note, align) = (self.call_note(class), e.bytes());
        self.w.line(format_args!("call void @{full}({ty} {x}, {at}, i32 {align}, <{total} x i1> {m}){note}"));
    }

    fn load_array(&mut self, ty: Type, place: Place, span: Span) -> Res<Vals> {
        let buffer = matches!(place.class, Class::Buffer { .. });
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
            let to = self.memory(size(self.ts, ty), true);
            let mask = self.both(place.inside, self.mask);
            self.each(n, &mut |e, k| {
                let from = e.number_at(s, place.addr, k);
                let x = e.read(el(s), from, place.class, mask);
                e.store_local(s, x, to, k);
                Ok(())
            })?;
            return Ok(Vals::from_slice(&[to]));
        }
        let to = self.memory(size(self.ts, ty), false);
        let bytes = size(self.ts, ty);
        let (yes, no, join) = (self.w.new_block(), self.w.new_block(), self.w.new_block());
        self.w.branch(place.inside.unwrap_or(Val::bool(true)), yes, no, ", !prof !8");
        self.w.enter(yes);
        if s == Scalar::Bool {
            self.each(n, &mut |e, k| {
                let from = e.number_at(s, place.addr, k);
                let x = e.read(El::I1, from, place.class, None);
                e.store_local(s, x, to, k);
                Ok(())
            })?;
        } else {
            self.copy_from(to, place.addr, bytes, s.bytes() as u64);
        }
        self.w.jump(join);
        self.w.enter(no);
        self.clear(to, bytes);
        self.w.jump(join);
        self.w.enter(join);
        Ok(Vals::from_slice(&[to]))
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

    fn store_array(&mut self, ty: Type, from: Val, place: Place, mask: Option<Val>, span: Span) -> Res {
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
        self.each(n, &mut |e, k| {
            let x = e.load_local(s, from, k);
            let at = e.number_at(s, place.addr, k);
            e.write(x, at, place.class, mask);
            Ok(())
        })
    }

    /// Copies bytes between places that are equal or do not overlap.
    pub(crate) fn copy_from(&mut self, to: Val, from: Val, bytes: u64, align: u64) {
        if to.id == from.id {
            return;
        }
        self.w.declare("declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)".to_string());
        let (t, f) = (self.w.operand(to, false), self.w.operand(from, false));
        self.w.line(format_args!(
            "call void @llvm.memmove.p0.p0.i64(ptr align {align} {t}, ptr align {align} {f}, i64 {bytes}, i1 false)"
        ));
    }

    /// Writes zeros.
    pub(crate) fn clear(&mut self, to: Val, bytes: u64) {
        self.w.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)".to_string());
        let t = self.w.operand(to, false);
        self.w.line(format_args!("call void @llvm.memset.p0.i64(ptr {t}, i8 0, i64 {bytes}, i1 false)"));
    }

    /// The value as one that varies, where its representation differs; a number is spread where that is needed.
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

    /// As [`Self::fit`], numbers and handles too: what a phi or a call takes.
    pub(super) fn fit_all(&mut self, ty: Type, vals: Vals, varying: bool, span: Span) -> Res<Vals> {
        let vals = self.fit(ty, vals, varying, span)?;
        if !varying || matches!(self.ts[ty], TypeData::Array(..) | TypeData::Stack(_)) {
            return Ok(vals);
        }
        Ok(vals.into_iter().map(|v| Val { lin: None, ..self.w.spread(v) }).collect())
    }

    /// `to[k] = c ? a[k] : b[k]`, in wide memory.
    pub(super) fn blend(&mut self, ty: Type, to: Val, a: Val, b: Val, c: Val) -> Res {
        let Some((s, n)) = flat(self.ts, ty) else {
            return self.no_lanes("an array of handles or stacks that varies", Span::NONE);
        };
        self.each(n, &mut |e, k| {
            let (x, y) = (e.load_local(s, a, k), e.load_local(s, b, k));
            let x = e.w.select(c, x, y);
            e.store_local(s, x, to, k);
            Ok(())
        })
    }

    /// Runs `body` with `0..n`, in a loop if they are many.
    pub(crate) fn each(&mut self, n: u64, body: &mut dyn FnMut(&mut Self, Val) -> Res) -> Res {
        if n <= UNROLL {
            for k in 0..n {
                body(self, Val::i64(k as i64))?;
            }
            return Ok(());
        }
        let before = self.w.block;
        let (head, exit) = (self.w.new_block(), self.w.new_block());
        self.w.jump(head);
        self.w.enter(head);
        let (phi, k) = self.w.phi(El::I64, false, false);
        self.w.flow(phi, Val::i64(0), before);
        body(self, k)?;
        let next = self.w.binary("add nuw nsw", k, Val::i64(1));
        let more = self.w.compare("icmp ult", next, Val::i64(n as i64));
        let end = self.w.block;
        self.w.flow(phi, next, end);
        self.w.branch(more, head, exit, "");
        self.w.enter(exit);
        Ok(())
    }
}

/// Whether these numbers, one lane after the other, fill the memory between.
fn is_block(words: &[(El, u64)], step: i64) -> bool {
    let bytes: u64 = words.iter().map(|w| memory_el(w.0).bytes()).sum();
    words.len() <= 4 && words.iter().all(|w| w.0 == words[0].0) && step == bytes as i64
}
