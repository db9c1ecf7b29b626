//! Emits accesses whose addresses have a constant stride over the lanes.
//!
//! If the stride is the size of the access, the lanes access one block of memory, which is loaded or stored
//! as a whole if all of it is in range; that is tested once. In memory the numbers of one lane are adjacent,
//! while a [`Val`] holds one component of all lanes, so a shuffle converts between the two orders. If the
//! stride is larger, each lane has its own load or store at a constant distance from the first. If the test
//! fails, the helpers of [`super::scattered`] do the access.

use super::local::{Place, is_block, memory_el};
use super::operand::{El, Val, Vals};
use super::{Backend, Class, Emitter, Res, Writer};
use crate::emit::{Cast, Compare, Fixed, Instructions, Odds, blocks, notes};
use crate::profile::Event;

/// The pieces of each lane that are stored together at most: they all wait in registers.
const PIECES: usize = 8;

impl<B: Backend> Emitter<'_, '_, B> {
    /// Loads numbers from a varying place.
    pub(super) fn load_lanes(&mut self, words: &[(El, u64)], place: Place, mask: Option<Val>) -> Res<Vals> {
        let scale = self.scale(place.addr);
        let Some((base, step, holds)) = place.block.filter(|_| self.is_row(words)) else {
            let (mut addr, mut mask) = (place.addr, mask);
            if let (false, Some(lanes)) = (B::Writer::SKIPS, mask) {
                // The lanes that do not read are sent to memory that is zero, once for all words.
                let zeros = self.fixed(Fixed::Zeros);
                addr = Val { wide: addr.wide, ..self.w.select(lanes, addr, zeros) };
                mask = None;
            }
            let mut out = Vals::new();
            for &(e, at) in words {
                let at = self.w.offset(addr, Val::i64((at * scale) as i64));
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
        words.len() <= 4
    }

    /// Loads the numbers at these offsets of each lane, which ascend, where the lanes are `step` bytes apart, or at
    /// addresses of their own.
    pub(super) fn load_near(&mut self, el: El, ats: &[i64], base: Val, step: i64, class: Class) -> Vec<Val> {
        let mut unique = ats.to_vec();
        unique.dedup();
        let mut found: Vec<Val> = Vec::new();
        for run in unique.chunk_by(|a, b| b - a == el.bytes() as i64) {
            for (first, n) in self.pieces(el, run.len(), step) {
                let at = |e: &mut Self| e.w.offset(base, Val::i64(run[first]));
                let columns = match (n, base.var) {
                    (1, true) => {
                        let at = at(self);
                        Vals::from_slice(&[self.gather(el, at, class, None)])
                    }
                    (1, false) => {
                        let at = at(self);
                        self.load_apart(&[(el, 0)], at, step, class)
                    }
                    (_, true) => self.w.columns(el, n as u32, base, run[first], class),
                    (_, false) => {
                        let at = at(self);
                        self.w.columns(el, n as u32, at, step, class)
                    }
                };
                let known = found.len() - unique.iter().position(|&at| at == run[0]).unwrap_or(0);
                found.extend(&columns[known - first..]);
            }
        }
        ats.iter().filter_map(|at| Some(found[unique.binary_search(at).ok()?])).collect()
    }

    /// Stores numbers at offsets of each lane, which ascend; of several at one place, the last. The lanes are
    /// `step` bytes apart.
    pub(super) fn store_near(&mut self, el: El, vals: &[(Val, i64)], base: Val, step: i64, class: Class) {
        let last = vals.iter().enumerate().filter(|(k, v)| vals.get(k + 1).is_none_or(|next| next.1 != v.1));
        let last: Vec<(Val, i64)> = last.map(|(_, &v)| v).collect();
        let mut columns: Vec<(Vals, i64)> = Vec::new();
        for run in last.chunk_by(|a, b| b.1 - a.1 == el.bytes() as i64) {
            for (first, n) in self.store_pieces(el, run.len(), step) {
                let at = Val::i64(run[first].1);
                let vals: Vals = run[first..first + n].iter().map(|v| v.0).collect();
                match n {
                    1 => {
                        let at = self.w.offset(base, at);
                        self.store_apart(&vals, &[(el, 0)], at, step, class);
                    }
                    _ if step == (n as u64 * el.bytes()) as i64 => {
                        let at = self.w.offset(base, at);
                        self.store_block(&vals, at, class, None);
                    }
                    _ => columns.push((vals, run[first].1)),
                }
            }
        }
        for pieces in columns.chunks(PIECES) {
            self.w.store_columns(pieces, base, step, class);
        }
    }

    /// As [`Self::pieces`], for [`Writer::store_columns`]: as many of the largest pieces as there are room for, and one that
    /// overlaps if more than half of it is left.
    fn store_pieces(&self, el: El, n: usize, step: i64) -> Vec<(usize, usize)> {
        let most = self.w.most_columns(el) as usize;
        let left = n % most;
        if most <= (16 / el.bytes()) as usize || n < most || n <= 4 {
            return self.pieces(el, n, step);
        }
        let whole = (0..n / most).map(|k| (k * most, most));
        match left {
            0 => whole.collect(),
            _ if 2 * left > most => whole.chain([(n - most, most)]).collect(),
            _ => {
                let first = n - left.max(2);
                let rest = self.pieces(el, n - first, step).into_iter().map(|(at, n)| (first + at, n));
                whole.chain(rest).collect()
            }
        }
    }

    /// Divides a run of adjacent numbers of each lane into pieces, given by their first numbers and their lengths, for
    /// [`Writer::columns`]; they may overlap.
    fn pieces(&self, el: El, n: usize, step: i64) -> Vec<(usize, usize)> {
        let most = (16 / el.bytes()) as usize;
        if n <= 4 && step == (n as u64 * el.bytes()) as i64 {
            return vec![(0, n)];
        }
        let size = if n >= most { most } else { 2 };
        if n == 1 || self.lanes < size as u32 {
            return (0..n).map(|k| (k, 1)).collect();
        }
        (0..n).step_by(size).map(|first| (first.min(n - size), size)).collect()
    }

    /// Loads the numbers of all lanes one by one, with a stride of `step` bytes from lane to lane.
    fn load_apart(&mut self, words: &[(El, u64)], base: Val, step: i64, class: Class) -> Vals {
        notes::event(self, Event::Strided, words.len() as u64);
        let mut out = Vals::new();
        for &(e, at) in words {
            let from = self.w.offset(base, Val::i64(at as i64));
            let all = self.w.columns(memory_el(e), 1, from, step, class);
            out.push(self.number_of(e, all[0], class));
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
        notes::event(self, Event::Strided, words.len() as u64);
        for k in 0..self.lanes {
            for (&x, &(_, at)) in vals.iter().zip(words) {
                let x = self.w.lane(x, Val::i32(i64::from(k)));
                let x = if x.el == El::I1 { self.w.cast(Cast::ZeroExtend, x, El::I8) } else { x };
                let to = self.w.offset(base, Val::i64(i64::from(k) * step + at as i64));
                self.w.store(x, to, class);
            }
        }
    }

    /// Loads a block that holds the numbers of all lanes, lane after lane.
    fn load_block(&mut self, words: &[(El, u64)], base: Val, class: Class) -> Vals {
        let (n, e) = (words.len() as u32, words[0].0);
        if n == 1 {
            let x = self.read(e, Val { wide: true, ..base }, class, None);
            return Vals::from_slice(&[x]);
        }
        let mem = memory_el(e);
        let step = i64::from(n) * mem.bytes() as i64;
        let all = self.w.columns(mem, n, base, step, class);
        let number = |part: Val| match e {
            El::I1 => self.w.compare(Compare::NotEqual, part, Val::bits(El::I8, 0)),
            _ => part,
        };
        all.into_iter().map(number).collect()
    }

    /// Stores the numbers of all lanes to a block, lane after lane; the number of lanes is a power of two.
    pub(super) fn store_block(&mut self, vals: &[Val], base: Val, class: Class, mask: Option<Val>) {
        let vals: Vals = vals
            .iter()
            .map(|&x| {
                let x = if x.el == El::I1 { self.w.cast(Cast::ZeroExtend, x, El::I8) } else { x };
                self.w.spread(x)
            })
            .collect();
        let of = (vals[0].el, vals.len() as u32);
        let row = self.w.row(&vals);
        let Some(mask) = mask else { return self.w.store_row(row, of, base, class, None) };
        let mask = self.w.spread(mask);
        let masked = |e: &mut Self| e.w.store_row(row, of, base, class, Some(mask));
        let slow = self.w.slow_masks();
        let Some(full) = self.all_active().filter(|_| slow) else { return masked(self) };
        // Usually all lanes are active.
        let all = |e: &mut Self| {
            e.w.store_row(row, of, base, class, None);
            Ok(Vals::new())
        };
        let some = |e: &mut Self| {
            masked(e);
            Ok(Vals::new())
        };
        let done = blocks::either(self, full, Odds::Likely, all, some);
        debug_assert!(done.is_ok());
    }
}
