//! Emits accesses whose addresses have a constant stride over the lanes.
//!
//! If the stride is the size of the access, the lanes access one block of memory, which is loaded or stored
//! as a whole if all of it is in range; that is tested once. In memory the numbers of one lane are adjacent,
//! while a [`Val`] holds one component of all lanes, so a shuffle converts between the two orders. If the
//! stride is larger, each lane has its own load or store at a constant distance from the first. If the test
//! fails, the helpers of [`super::scattered`] do the access.

use super::local::{Class, Place, is_block, memory_el};
use super::{Emitter, Res};
use crate::operand::{El, Id, Val, Vals};
use native::emit::{Odds, UNIFORM, VARYING, blocks};

impl Emitter<'_, '_> {
    /// Loads numbers from a varying place.
    pub(super) fn load_lanes(&mut self, words: &[(El, u64)], place: Place, mask: Option<Val>) -> Res<Vals> {
        let scale = self.scale(place.addr);
        let Some((base, step, holds)) = place.block.filter(|_| self.is_row(words)) else {
            let mut out = Vals::new();
            for &(e, at) in words {
                let at = self.w.offset(place.addr, Val::i64((at * scale) as i64));
                out.push(self.read(e, at, place.class, mask));
            }
            return Ok(out);
        };
        let fast = |e: &mut Self| {
            Ok(match is_block(words, step) {
                true => e.load_block(words, base, place.class),
                false => e.load_apart(words, base, step, place.class),
            })
        };
        let slow =
            |e: &mut Self| Ok(words.iter().map(|&(el, at)| e.rare_gather(el, place, at * scale)).collect());
        blocks::either(self, holds, Odds::Likely, fast, slow)
    }

    /// Returns true if lanes with a constant stride have so few numbers each that these are loaded or stored
    /// one by one.
    pub(super) fn is_row(&self, words: &[(El, u64)]) -> bool {
        words.len() as u32 * self.lanes <= 64
    }

    /// Loads the numbers of all lanes one by one, with a stride of `step` bytes from lane to lane.
    fn load_apart(&mut self, words: &[(El, u64)], base: Val, step: i64, class: Class) -> Vals {
        let mut out = Vals::new();
        for &(e, at) in words {
            let mem = memory_el(e);
            let note = self.note(class, mem.bytes());
            let mut all = Val { var: true, ..Val::uniform(Id::Poison, mem) };
            for k in 0..i64::from(self.lanes) {
                let from = self.w.offset(base, Val::i64(k * step + at as i64));
                let x = self.w.load(mem, UNIFORM, from, &note);
                all = self.w.with_lane(all, Val::i32(k), x);
            }
            out.push(self.number_of(e, all, class));
        }
        out
    }

    /// Stores the numbers of all lanes one by one, with a stride of `step` bytes from lane to lane.
    pub(super) fn store_apart(
        &mut self,
        vals: &[Val],
        words: &[(El, u64)],
        base: Val,
        step: i64,
        class: Class,
    ) {
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

    /// Loads a block that holds the numbers of all lanes, lane after lane.
    fn load_block(&mut self, words: &[(El, u64)], base: Val, class: Class) -> Vals {
        let (n, w, e) = (words.len() as u32, self.lanes, words[0].0);
        let mem = memory_el(e);
        if n == 1 {
            let x = self.read(e, Val { wide: true, ..base }, class, None);
            return Vals::from_slice(&[x]);
        }
        let all = self.w.odd();
        let note = self.note(class, mem.bytes());
        let (ty, at) = (mem.name(), self.w.typed(base));
        let total = n * w;
        self.w.make(all, &[base], format_args!("load <{total} x {ty}>, {at}{note}"));
        let mut out = Vals::new();
        for k in 0..n {
            let part = self.w.shuffle(mem, total, [all, Val::POISON], (0..w).map(|l| l * n + k));
            let part = if e == El::I1 { self.w.compare("icmp ne", part, Val::bits(El::I8, 0)) } else { part };
            out.push(part);
        }
        out
    }

    /// Stores the numbers of all lanes to a block, lane after lane; the number of lanes is a power of two.
    pub(super) fn store_block(&mut self, vals: &[Val], base: Val, class: Class, mask: Option<Val>) {
        let (n, w) = (vals.len() as u32, self.lanes);
        let vals: Vals = vals
            .iter()
            .map(|&x| {
                let x = if x.el == El::I1 { self.w.cast("zext", x, El::I8) } else { x };
                self.w.spread(x)
            })
            .collect();
        let (el, total) = (vals[0].el, n * w);
        // Concatenate the components, then permute them to the order of memory.
        let mut parts: Vec<(Val, u32)> = vals.iter().map(|&x| (x, w)).collect();
        parts.resize(vals.len().next_power_of_two(), (Val::POISON, w));
        while parts.len() > 1 {
            let mut joined = Vec::new();
            for pair in parts.chunks(2) {
                let len = pair[0].1;
                let both = self.w.shuffle(el, len, [pair[0].0, pair[1].0], 0..2 * len);
                joined.push((both, 2 * len));
            }
            parts = joined;
        }
        let (side, len) = parts.remove(0);
        let order = |k: u32| (k % n) * w + k / n;
        let x =
            if n == 1 { side } else { self.w.shuffle(el, len, [side, Val::POISON], (0..total).map(order)) };
        let text = self.w.operand(x, VARYING);
        let text = format!("<{total} x {}> {text}, {}", el.name(), self.w.typed(base));
        let Some(mask) = mask else {
            let note = self.note(class, el.bytes());
            return self.w.line(&[x, base], format_args!("store {text}{note}"));
        };
        let mask = self.w.spread(mask);
        let masked = |e: &mut Self| e.masked_store(&text, [x, base], (n, el), mask, class);
        let Some(full) = self.all_active().filter(|_| self.cx.slow_masks) else { return masked(self) };
        // Usually all lanes are active.
        let note = self.note(class, el.bytes());
        let all = |e: &mut Self| {
            e.w.line(&[x, base], format_args!("store {text}{note}"));
            Ok(Vals::new())
        };
        let some = |e: &mut Self| {
            masked(e);
            Ok(Vals::new())
        };
        let done = blocks::either(self, full, Odds::Likely, all, some);
        debug_assert!(done.is_ok());
    }

    /// Stores the numbers of the active lanes, `n` of each, to a block; `text` is that of the numbers and their
    /// place.
    fn masked_store(&mut self, text: &str, [x, base]: [Val; 2], (n, e): (u32, El), mask: Val, class: Class) {
        let (w, total) = (self.lanes, n * self.lanes);
        let all = match n {
            1 => mask,
            _ => self.w.shuffle(El::I1, w, [mask, Val::POISON], (0..total).map(|k| k / n)),
        };
        let (m, note, align) = (self.w.operand(all, VARYING), self.call_note(class), e.bytes());
        self.w.line(
            &[x, base, all],
            format_args!("call void @llvm.masked.store({text}, i32 {align}, <{total} x i1> {m}){note}"),
        );
    }
}
