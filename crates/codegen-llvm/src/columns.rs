//! Loads and stores of several adjacent numbers of each lane.
//!
//! In memory the numbers of a lane are adjacent; in registers those of all lanes are. Shuffles between the two orders
//! are written for vectors of the machine's width, and for groups of 128 bits where that is possible: LLVM takes
//! wider ones apart number by number.

use native::emit::{UNIFORM, VARYING};
use native::lanes::operand::{El, Val, Vals};
use native::lanes::{Class, Vectors};

use crate::text::{ANY, Writer};

impl Writer {
    /// See `native::lanes::Writer::columns`.
    pub(crate) fn load_columns(&mut self, el: El, n: u32, base: Val, step: i64, class: Class) -> Vals {
        let bytes = i64::from(n) * el.bytes() as i64;
        if step == bytes && !base.var {
            return self.load_dense(el, n, base, class);
        }
        // Register `r` holds the numbers of lanes `r`, `r + n`, `r + 2 n`, …, one lane after the other.
        let registers: Vec<Val> = (0..n)
            .map(|r| {
                let lanes = (r..self.lanes).step_by(n as usize);
                let part = |lane: u32| {
                    let (at, offset) = match base.var {
                        true => (self.lane(base, Val::i32(lane.into())), step),
                        false => (base, i64::from(lane) * step),
                    };
                    self.load_part(el, n, at, offset, class)
                };
                let parts = lanes.map(part).collect();
                self.join(el, parts, n)
            })
            .collect();
        match n {
            1 => registers.into(),
            _ => self.transpose(el, &registers),
        }
    }

    /// See `native::lanes::Writer::store_columns`. All of a lane is stored before the next lane: a processor stores in
    /// the order of the program, and is faster at filling one line of its cache after the other.
    pub(crate) fn write_columns(&mut self, pieces: &[(Vals, i64)], base: Val, step: i64, class: Class) {
        let spread = |w: &mut Self, vals: &Vals| vals.iter().map(|&x| w.spread(x)).collect::<Vec<Val>>();
        let pieces: Vec<(Vec<Val>, i64)> =
            pieces.iter().map(|(vals, by)| (spread(self, vals), *by)).collect();
        // Register `r` of a piece of two or four numbers has those of lanes `r`, `r + n`, `r + 2 n`, …
        let transposed = |w: &mut Self, vals: &[Val]| match vals.len() {
            8 => Vals::new(),
            _ => w.transpose(vals[0].el, vals),
        };
        let registers: Vec<Vals> = pieces.iter().map(|(vals, _)| transposed(self, vals)).collect();
        for first in (0..self.lanes).step_by(8) {
            let squares = |w: &mut Self, vals: &[Val]| match vals.len() {
                8 => w.transpose_squares(vals[0].el, vals, first),
                _ => Vec::new(),
            };
            let squares: Vec<Vec<Val>> = pieces.iter().map(|(vals, _)| squares(self, vals)).collect();
            for lane in first..self.lanes.min(first + 8) {
                for (k, (vals, by)) in pieces.iter().enumerate() {
                    let (el, n) = (vals[0].el, vals.len() as u32);
                    let part = match n {
                        8 => squares[k][(lane - first) as usize],
                        _ => {
                            let (register, from) = (registers[k][(lane % n) as usize], lane / n * n);
                            self.shuffle(el, self.lanes, [register, Val::POISON], from..from + n)
                        }
                    };
                    self.store_part(Val { el, ..part }, n, base, by + i64::from(lane) * step, class);
                }
            }
        }
    }

    /// Stores `n` numbers at an offset in bytes.
    fn store_part(&mut self, part: Val, n: u32, base: Val, offset: i64, class: Class) {
        let to = self.offset(base, Val::i64(offset));
        let (text, at, el) = (self.operand(part, VARYING), self.typed(to), part.el);
        let note = self.note(class, el.bytes());
        self.line(&[part, to], format_args!("store <{n} x {}> {text}, {at}{note}", el.name()));
    }

    /// Transposes the square of the numbers of eight lanes, from the first one on, in eight vectors: three times, each
    /// vector takes half of the groups of 128 bits of two others, of which the first time makes pairs.
    fn transpose_squares(&mut self, el: El, vals: &[Val], first: u32) -> Vec<Val> {
        let lanes = self.lanes;
        let mut pairs = [Vec::new(), Vec::new()];
        for pair in vals.chunks(2) {
            for (odd, pairs) in (0..).zip(&mut pairs) {
                let picks = (0..8).map(|k| first + k / 2 * 2 + odd + k % 2 * lanes);
                pairs.push(self.shuffle(el, lanes, [pair[0], pair[1]], picks));
            }
        }
        let mut groups = |of: [Val; 2], odd: u32| {
            let picks = (0..8).map(|k: u32| (k % 4 / 2 * 2 + odd) * 2 + k % 2 + k / 4 * 8);
            self.shuffle(el, 8, of, picks)
        };
        let mut rows = vec![Val::POISON; 8];
        for (odd, pairs) in pairs.into_iter().enumerate() {
            for second in 0..2 {
                let halves = [0, 2].map(|k| groups([pairs[k], pairs[k + 1]], second));
                for third in 0..2 {
                    let row = groups(halves, third);
                    rows[odd + 2 * second as usize + 4 * third as usize] = Val { el, ..row };
                }
            }
        }
        rows
    }

    /// Loads `n` numbers of each lane that are without gaps in memory.
    fn load_dense(&mut self, el: El, n: u32, base: Val, class: Class) -> Vals {
        let width = (self.style.vector_bits / el.bits()).clamp(2, self.lanes);
        let mut columns: Vec<Vec<Val>> = vec![Vec::new(); n as usize];
        for first in (0..self.lanes).step_by(width as usize) {
            let at = |k: u32| i64::from(first * n + k * width) * el.bytes() as i64;
            let parts: Vec<Val> = (0..n).map(|k| self.load_part(el, width, base, at(k), class)).collect();
            for (k, column) in (0..n).zip(&mut columns) {
                // The number of each lane, which is one of the part that holds it.
                let place = |lane: u32| ((lane * n + k) / width, (lane * n + k) % width);
                let mut sum = parts[0];
                for part in 1..n {
                    let pick = |lane: u32| match place(lane) {
                        (0, at) if part == 1 => at,
                        (of, _) if of < part => lane,
                        (of, at) if of == part => width + at,
                        _ => ANY,
                    };
                    sum = self.shuffle(el, width, [sum, parts[part as usize]], (0..width).map(pick));
                }
                column.push(sum);
            }
        }
        columns.into_iter().map(|parts| self.join(el, parts, width)).collect()
    }

    /// Loads `n` numbers at an offset in bytes.
    fn load_part(&mut self, el: El, n: u32, base: Val, offset: i64, class: Class) -> Val {
        let at = self.offset(base, Val::i64(offset));
        let (out, text, note) = (self.of_width(el, n), self.typed(at), self.note(class, el.bytes()));
        self.make(out, &[at], format_args!("load <{n} x {}>, {text}{note}", el.name()));
        out
    }

    /// Concatenates vectors of `n` numbers each; their number is a power of two.
    pub(crate) fn join(&mut self, el: El, mut parts: Vec<Val>, mut n: u32) -> Val {
        while parts.len() > 1 {
            parts = parts.chunks(2).map(|pair| self.shuffle(el, n, [pair[0], pair[1]], 0..2 * n)).collect();
            n *= 2;
        }
        parts[0]
    }

    /// Transposes each square of the `n` numbers that start at a multiple of `n` in `n` vectors; `n` is 2 or 4.
    fn transpose(&mut self, el: El, rows: &[Val]) -> Vals {
        let lanes = self.lanes;
        let mut pick = |a: Val, b: Val, of: &[u32]| self.pick_wide(el, lanes, [a, b], of);
        match *rows {
            [a, b] => [pick(a, b, &[0, 2]), pick(a, b, &[1, 3])].into_iter().collect(),
            [a, b, c, d] => {
                let (low, high) = ([0, 4, 1, 5], [2, 6, 3, 7]);
                let (first, second) = ([0, 1, 4, 5], [2, 3, 6, 7]);
                let (ab, cd) = (pick(a, b, &low), pick(c, d, &low));
                let (ab_high, cd_high) = (pick(a, b, &high), pick(c, d, &high));
                [(ab, cd, first), (ab, cd, second), (ab_high, cd_high, first), (ab_high, cd_high, second)]
                    .into_iter()
                    .map(|(a, b, of)| pick(a, b, &of))
                    .collect()
            }
            _ => unreachable!("two or four vectors"),
        }
    }

    /// A vector of which each group of numbers has these numbers of the groups of two vectors of `width` numbers.
    fn pick_wide(&mut self, el: El, width: u32, of: [Val; 2], numbers: &[u32]) -> Val {
        let n = numbers.len() as u32;
        let picks = (0..width).map(|lane| {
            let k = numbers[(lane % n) as usize];
            lane / n * n + k % n + k / n * width
        });
        self.shuffle(el, width, of, picks)
    }

    /// Adds the upper half of a vector of floats to the lower one until `to` are left.
    pub(crate) fn halve(&mut self, el: El, mut all: Val, mut n: u32, to: u32) -> Val {
        while n > to {
            let half = n / 2;
            let parts = [0, half].map(|from| self.shuffle(el, n, [all, Val::POISON], from..from + half));
            all = self.add_wide(el, half, parts);
            n = half;
        }
        all
    }

    fn add_wide(&mut self, el: El, n: u32, parts: [Val; 2]) -> Val {
        let [a, b] = parts.map(|part| self.operand(part, VARYING));
        let out = self.of_width(el, n);
        self.make(out, &parts, format_args!("fadd <{n} x {}> {a}, {b}", el.name()));
        out
    }

    /// The number of floats in a vector of the machine, or of all lanes if those are fewer.
    fn width(&self, el: El) -> u32 {
        (self.style.vector_bits / el.bits()).clamp(128 / el.bits(), self.lanes)
    }

    /// A register for a vector of `n` numbers.
    pub(crate) fn of_width(&mut self, el: El, n: u32) -> Val {
        if n == self.lanes { self.reg(el, VARYING) } else { self.odd() }
    }
}

impl Vectors for Writer {
    type Vector = Val;

    fn vector(&mut self, a: Val) -> Val {
        self.halve(a.el, a, self.lanes, self.width(a.el))
    }

    fn pick(&mut self, el: El, of: [Val; 2], numbers: &[u32]) -> Val {
        self.pick_wide(el, self.width(el), of, numbers)
    }

    fn add_vectors(&mut self, el: El, parts: [Val; 2]) -> Val {
        self.add_wide(el, self.width(el), parts)
    }

    fn group(&mut self, el: El, all: Val, more: Option<Val>) -> Val {
        let n = 128 / el.bits();
        let sum = self.halve(el, all, self.width(el), n);
        more.map_or(sum, |more| self.add_wide(el, n, [sum, more]))
    }

    fn number(&mut self, el: El, group: Val, k: u32) -> Val {
        let (n, out, text) = (128 / el.bits(), self.reg(el, UNIFORM), self.operand(group, VARYING));
        self.make(out, &[group], format_args!("extractelement <{n} x {}> {text}, i32 {k}", el.name()));
        out
    }
}
