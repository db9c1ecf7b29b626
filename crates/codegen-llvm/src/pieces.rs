//! Splits a long function into several functions, since LLVM's time grows faster than the length of a function.
//!
//! The places of a function are, block by block, the head of the block (its label and parameters) and its
//! instructions. A *piece* is a run of places that control enters at its first one and leaves at its last: no
//! jump has one end inside and the other outside. Each piece becomes a function of its own, and is replaced by
//! a call of it. Pieces nest. A value that one piece makes and another reads is passed in a frame that they
//! share: it is stored where it is made, and loaded at the head of each piece that reads it, or after the call
//! of the piece that made it.
//!
//! # Why this is right
//!
//! Places `p` and `q` bound a piece if the same jumps go past both. Control then reaches a place of the piece
//! only through its first one, so a value made before the piece and read inside it was made before the piece
//! began. Control reaches the places after the piece only through its last one, so a value made inside and
//! read outside was made before the piece ended. Both also hold for the ends of blocks, where jumps read the
//! arguments that they pass.
//! Two such pairs of bounds are disjoint or nested: a jump that goes past `p` and `q` goes past all places
//! between them.
//!
//! The cost is the stores and loads of values that are live between pieces. In functions with so many values,
//! most would be spilled anyway.

use std::cmp::Reverse;
use std::fmt::Write as _;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::text::{Block, Writer};
use crate::unit::{Function, FxIndexMap};

/// The length of a piece: each place counts as [`PLACE`], and each value that is read as one.
pub(crate) const LENGTH: usize = 800;
/// The same on devices, which have little room for frames: only what would take minutes to compile is split there.
pub(crate) const LENGTH_ON_DEVICES: usize = 4 * LENGTH;
const PLACE: usize = 2;
/// A function that is not longer than this number of pieces, values that are made counted, too, is not split, if it has no
/// more than [`BLOCKS`] blocks.
const WHOLE: usize = 40;
/// See [`WHOLE`]; more, if pieces are longer than [`LENGTH`]. Where values live through many blocks, LLVM's time grows with
/// the product.
const BLOCKS: usize = 512;
/// The attribute of pieces without loops, which are compiled in the fastest way if the text is large.
pub(crate) const STRAIGHT: &str = "pullback-straight";

/// A place: an instruction by its number, or the head of its block.
#[derive(Clone, Copy)]
struct Place {
    block: Block,
    inst: Option<usize>,
}

/// A piece, or, as the first element, the places that are in no piece.
struct Piece {
    start: usize,
    end: usize,
    /// The enclosing piece.
    parent: usize,
    text: String,
    /// The block being written.
    block: Block,
    pointers: u32,
    /// The piece contains a backward jump.
    repeats: bool,
    callees: FxIndexMap<String, usize>,
}

/// The functions that a function is split into; `None` if it is left whole. `function` is its head, and `about`
/// holds the attributes of all functions.
pub(crate) fn split(function: &Function, body: &Writer, about: &str, most: usize) -> Option<Vec<Function>> {
    let (insts, reads) = body.size();
    let made = insts;
    let blocks = body.order.len();
    if PLACE * (insts + blocks) + made + reads <= most.saturating_mul(WHOLE)
        && blocks <= BLOCKS.max(most.saturating_mul(BLOCKS) / LENGTH)
    {
        return None;
    }
    let mut cx = Cx::new(&function.name, body);
    let bounds = cx.bounds(most);
    if bounds.is_empty() {
        return None;
    }
    cx.own(bounds);
    cx.share();
    Some(cx.write(function, about))
}

struct Cx<'w> {
    name: &'w str,
    body: &'w Writer,
    places: Vec<Place>,
    /// The place that makes each value; parameters of the function are made at the first place.
    made: FxHashMap<u32, usize>,
    /// Each value that is read, and the place that reads it.
    reads: Vec<(u32, usize)>,
    /// The source and target place of each jump; a return jumps to the place after the last.
    jumps: Vec<(usize, usize)>,
    pieces: Vec<Piece>,
    owner: Vec<usize>,
    /// For each place, a hash of all jumps that go past it.
    past: Vec<u64>,
    /// The values that a piece loads before each place.
    loads: FxHashMap<(usize, usize), Vec<u32>>,
    /// The offset of each shared value in the frame.
    offsets: FxIndexMap<u32, u64>,
    frame: u64,
}

impl<'w> Cx<'w> {
    fn new(name: &'w str, body: &'w Writer) -> Cx<'w> {
        let mut cx = Cx {
            name,
            body,
            places: Vec::new(),
            made: FxHashMap::default(),
            reads: Vec::new(),
            jumps: Vec::new(),
            pieces: Vec::new(),
            owner: Vec::new(),
            past: Vec::new(),
            loads: FxHashMap::default(),
            offsets: FxIndexMap::default(),
            frame: 0,
        };
        let mut heads: FxHashMap<Block, usize> = FxHashMap::default();
        let mut ends: FxHashMap<Block, usize> = FxHashMap::default();
        for (k, &block) in body.order.iter().enumerate() {
            heads.insert(block, cx.places.len());
            for param in &body.data(block).params {
                cx.made.extend(param.register().map(|value| (value, cx.places.len())));
            }
            cx.places.push(Place { block, inst: None });
            for inst in body.insts(k) {
                let line = body.inst(inst);
                cx.made.extend(line.makes.map(|value| (value, cx.places.len())));
                cx.reads.extend(line.reads.iter().map(|&value| (value, cx.places.len())));
                cx.places.push(Place { block, inst: Some(inst) });
            }
            ends.insert(block, cx.places.len() - 1);
        }
        let mut returns = ends.clone();
        for &block in &body.order {
            for (from, _) in &body.data(block).jumps {
                cx.jumps.push((ends[from], heads[&block]));
                returns.remove(from);
            }
        }
        let last = cx.places.len();
        cx.jumps.extend(body.order.iter().filter_map(|block| Some((*returns.get(block)?, last))));
        cx
    }

    /// The place that makes a value.
    fn made(&self, value: u32) -> usize {
        self.made.get(&value).copied().unwrap_or(0)
    }

    /// Returns true if instructions may be inserted before a place.
    fn is_within(&self, p: usize) -> bool {
        self.places[p].inst.is_some() && p > 0
    }

    /// The first place of each piece and the place after its last, inner pieces before those that contain them.
    fn bounds(&mut self, most: usize) -> Vec<(usize, usize)> {
        let n = self.places.len();
        // The changes, at each line, of the set of jumps that go past it, and of the number of live odd
        // values.
        let (mut past, mut odd) = (vec![0u64; n + 2], vec![0i64; n + 2]);
        for (k, &(from, to)) in self.jumps.iter().enumerate() {
            let hash = mixed(k as u64 + 1);
            past[from.min(to) + 1] ^= hash;
            past[from.max(to) + 1] ^= hash;
        }
        for &(value, at) in &self.reads {
            let made = self.made(value);
            if made < at && self.body.value(value).is_none() {
                odd[made + 1] += 1;
                odd[at + 1] -= 1;
            }
        }
        // Each open pair of bounds: the hash of the jumps past it, its first place, and the length before
        // it.
        let mut open: Vec<(u64, usize, usize)> = Vec::new();
        let mut known: FxHashMap<u64, usize> = FxHashMap::default();
        let mut found = Vec::new();
        let (mut here, mut alive, mut count) = (0, 0, 0);
        let mut reads = self.reads.iter().peekable();
        self.past = vec![0; n];
        for p in 1..n {
            count += PLACE;
            while reads.next_if(|read| read.1 < p).is_some() {
                count += 1;
            }
            here ^= past[p];
            self.past[p] = here;
            alive += odd[p];
            if alive > 0 || !self.is_within(p) {
                continue;
            }
            match known.get(&here) {
                None => {
                    known.insert(here, open.len());
                    open.push((here, p, count));
                }
                Some(&k) => {
                    for (hash, ..) in open.drain(k + 1..) {
                        known.remove(&hash);
                    }
                    let (_, start, first) = &mut open[k];
                    if count - *first >= most {
                        found.push((*start, p));
                        count = *first + PLACE;
                        (*start, *first) = (p, count);
                    }
                }
            }
        }
        found
    }

    /// Makes the pieces, and finds the innermost piece of each place.
    fn own(&mut self, mut bounds: Vec<(usize, usize)>) {
        let n = self.places.len();
        bounds.push((0, n));
        bounds.sort_by_key(|&(start, end)| (start, Reverse(end)));
        self.owner = vec![0; n];
        let mut inside: Vec<usize> = Vec::new();
        let mut bounds = bounds.into_iter().peekable();
        for place in 0..n {
            while inside.last().is_some_and(|&k: &usize| self.pieces[k].end <= place) {
                inside.pop();
            }
            while let Some((start, end)) = bounds.next_if(|b| b.0 == place) {
                let parent = inside.last().copied().unwrap_or(0);
                inside.push(self.pieces.len());
                self.pieces.push(Piece {
                    start,
                    end,
                    parent,
                    text: String::new(),
                    block: self.places[start].block,
                    pointers: 0,
                    repeats: false,
                    callees: FxIndexMap::default(),
                });
            }
            self.owner[place] = inside.last().copied().unwrap_or(0);
        }
        for &(from, _) in self.jumps.iter().filter(|(from, to)| to <= from) {
            self.pieces[self.owner[from]].repeats = true;
        }
    }

    /// Finds the values that pieces read from other pieces, and assigns their offsets in the frame.
    fn share(&mut self) {
        let trunk = self.trunk();
        let mut seen: FxHashSet<(u32, usize)> = FxHashSet::default();
        for &(value, at) in &self.reads {
            let (reader, made) = (self.owner[at], self.made(value));
            let mut maker = self.owner[made];
            if reader == maker || !seen.insert((value, reader)) {
                continue;
            }
            if !self.offsets.contains_key(&value) {
                let (_, _, bytes) = self.body.value(value).expect("bounds keep other values in one piece");
                let offset = self.frame.next_multiple_of(aligned(bytes));
                self.offsets.insert(value, offset);
                self.frame = offset + bytes;
            }
            let within = &self.pieces[reader];
            let mut at = trunk[at].max(within.start);
            if (within.start..within.end).contains(&made) {
                while self.pieces[maker].parent != reader {
                    maker = self.pieces[maker].parent;
                }
                at = at.max(self.pieces[maker].end);
            }
            self.loads.entry((reader, at)).or_default().push(value);
        }
    }

    /// For each place, the last place up to it that control passes whenever it passes the piece, and before
    /// which instructions may be inserted.
    fn trunk(&self) -> Vec<usize> {
        let mut last: Vec<usize> = self.pieces.iter().map(|p| p.start).collect();
        let up_to = |(at, &own): (usize, &usize)| {
            if self.past[at] == self.past[self.pieces[own].start] && self.is_within(at) {
                last[own] = at;
            }
            last[own]
        };
        self.owner.iter().enumerate().map(up_to).collect()
    }

    /// Emits the address of a value in the frame; returns the text of the address, the value and its type.
    fn pointer(&mut self, piece: usize, value: u32) -> Option<[String; 3]> {
        let (v, ty, bytes) = self.body.value(value)?;
        let offset = self.offsets[&value];
        let into = &mut self.pieces[piece];
        let pointer = format!("%p{}", into.pointers);
        into.pointers += 1;
        let _ = writeln!(into.text, "  {pointer} = getelementptr i8, ptr %frame, i64 {offset}");
        let at = format!("ptr {pointer}, align {}, !tbaa !14", aligned(bytes));
        Some([at, self.body.operand(v, v.var), ty])
    }

    fn load_before(&mut self, piece: usize, place: usize) {
        for value in self.loads.remove(&(piece, place)).unwrap_or_default() {
            if let Some([at, value, ty]) = self.pointer(piece, value) {
                let _ = writeln!(self.pieces[piece].text, "  {value} = load {ty}, {at}");
            }
        }
    }

    /// Stores a value that was just made, if pieces share it.
    fn store(&mut self, piece: usize, value: u32) {
        if self.offsets.contains_key(&value)
            && let Some([at, value, ty]) = self.pointer(piece, value)
        {
            let _ = writeln!(self.pieces[piece].text, "  store {ty} {value}, {at}");
        }
    }

    /// The block in which each block ends after splitting: that of the last piece's end in it, or itself.
    fn last_blocks(&mut self) -> FxHashMap<Block, Block> {
        let mut last = FxHashMap::default();
        let mut next = 1;
        for (at, place) in self.places.iter().enumerate() {
            while self.pieces.get(next).is_some_and(|p| p.start == at) {
                self.pieces[next].block = place.block;
                next += 1;
            }
            let piece = &mut self.pieces[self.owner[at]];
            if place.inst.is_none() {
                piece.block = place.block;
            }
            last.insert(place.block, piece.block);
        }
        last
    }

    fn write(mut self, function: &Function, about: &str) -> Vec<Function> {
        let last = self.last_blocks();
        let mut next = 1;
        let mut inside = vec![0];
        let frame = format!("  %frame = alloca [{} x i8], align 64\n", self.frame.max(1));
        self.pieces[0].text = format!("entry:\n{frame}{}", self.body.entry);
        let mut params: Vec<u32> =
            self.offsets.keys().copied().filter(|v| !self.made.contains_key(v)).collect();
        params.sort_unstable();
        params.into_iter().for_each(|value| self.store(0, value));
        self.pieces[0].text.push_str("  br label %b0\n");
        for at in 0..self.places.len() {
            let Place { block, inst } = self.places[at];
            let mut own = inside.last().copied().unwrap_or(0);
            while own != 0 && self.pieces[own].end == at {
                self.pieces[own].text.push_str("  ret void\n");
                inside.pop();
                own = self.pieces[own].parent;
            }
            self.load_before(own, at);
            while self.pieces.get(next).is_some_and(|p| p.start == at) {
                let callee = format!("{}.{next}", self.name);
                let call = format!("  call fastcc void @{callee}(ptr %ctx, ptr %frame)\n");
                self.pieces[own].text.push_str(&call);
                self.pieces[own].callees.insert(callee, 1);
                self.pieces[next].text = format!("{block}:\n");
                inside.push(next);
                own = next;
                next += 1;
                self.load_before(own, at);
            }
            let Some(inst) = inst else {
                let last = |from| last.get(&from).copied().unwrap_or(from);
                self.body.write_head(&mut self.pieces[own].text, block, &last);
                for param in &self.body.data(block).params {
                    param.register().into_iter().for_each(|value| self.store(own, value));
                }
                continue;
            };
            let line = self.body.inst(inst);
            let piece = &mut self.pieces[own];
            piece.text.push_str(line.text);
            if let Some(callee) = line.callee {
                *piece.callees.entry(callee.to_string()).or_default() += 1;
            }
            line.makes.into_iter().for_each(|value| self.store(own, value));
        }
        let name = self.name;
        let mut pieces = self.pieces.into_iter();
        let whole = pieces.next().map(|piece| Function {
            body: piece.text,
            callees: piece.callees,
            ..function.clone()
        });
        let rest = (1..).zip(pieces).map(|(k, piece)| {
            let straight = if piece.repeats { String::new() } else { format!(" \"{STRAIGHT}\"") };
            Function {
                name: format!("{name}.{k}"),
                result: "fastcc void".to_string(),
                params: "ptr %ctx, ptr %frame".to_string(),
                about: format!("{about} noinline{straight}"),
                body: piece.text,
                callees: piece.callees,
                ..Function::default()
            }
        });
        whole.into_iter().chain(rest).collect()
    }
}

/// The alignment in the frame of a value of this many bytes.
fn aligned(bytes: u64) -> u64 {
    bytes.next_power_of_two().min(64)
}

/// A pseudo-random number for `k` (splitmix64).
fn mixed(k: u64) -> u64 {
    let z = k.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use native::emit::Odds;

    use super::*;
    use crate::operand::{El, Val};

    /// The body of a function that squares a value thirty times if it is positive, in a loop.
    fn body() -> Writer {
        let mut w = Writer::new(1);
        let (start, end) = (Val::name(El::I64, "%start"), Val::name(El::I64, "%end"));
        let [zero, one] = [0.0f32, 1.0].map(|x| Val::bits(El::F32, x.to_bits().into()));
        let head = w.block(&[start]);
        w.jump(head, &[start]);
        let i = w.enter(head)[0];
        let next = w.binary("add", i, Val::i64(1));
        let two = w.binary("fadd", one, one);
        let mut x = two;
        for _ in 0..30 {
            let positive = w.binary_to("fcmp ogt", x, zero, El::I1);
            let (yes, join) = (w.block(&[]), w.block(&[x]));
            w.branch(positive, (yes, &[]), (join, &[x]), Odds::Even);
            w.enter(yes);
            let square = w.binary("fmul", x, two);
            w.jump(join, &[square]);
            let joined = w.enter(join)[0];
            x = w.binary("fadd", joined, joined);
        }
        let more = w.binary_to("icmp ult", next, end, El::I1);
        let (last, exit) = (w.block(&[]), w.block(&[]));
        w.jump(last, &[]);
        w.enter(last);
        w.branch(more, (head, &[next]), (exit, &[]), Odds::Even);
        w.enter(exit);
        w.give(&[]);
        w
    }

    fn split(most: usize) -> Option<Vec<Function>> {
        let function = Function::external("entry0", "ptr %ctx, i64 %start, i64 %end", "nounwind");
        super::split(&function, &body(), "nounwind", most)
    }

    /// The registers of a line, the one that it sets first.
    fn registers(line: &str) -> impl Iterator<Item = &str> {
        line.split(|c: char| !c.is_ascii_alphanumeric() && c != '%').filter(|word| word.starts_with("%r"))
    }

    #[test]
    fn a_loop_is_left_with_calls() {
        let all = split(10).expect("it is long enough");
        let functions: Vec<&str> = all.iter().map(|f| &f.body[..]).collect();
        assert!(all[0].callees.contains_key("entry0.1") && all[1].name == "entry0.1");
        let call = |k: usize| format!("  call fastcc void @entry0.{k}(ptr %ctx, ptr %frame)\n");
        // The loop itself is a piece.
        assert!(functions[0].contains(&call(1)) && !functions[0].contains("%r0"), "{all:?}");
        assert!(all.len() > 5, "{all:?}");
        assert!((2..all.len()).all(|k| functions[1].contains(&call(k))), "{all:?}");
        assert!(!functions[1].contains("fmul"), "{all:?}");
        assert!(functions[1].contains("[ %start, %b0 ], [ %r1, %b1 ]"), "{all:?}");
        assert!(functions[1].contains(", label %b1, label %b63"), "{all:?}");
        // Each piece makes or loads the values that it reads.
        for function in functions {
            let lines = || function.lines();
            let made: Vec<&str> =
                lines().filter_map(|l| registers(l).next().filter(|_| l.starts_with("  %"))).collect();
            for read in lines().flat_map(registers) {
                assert_eq!(made.iter().filter(|m| **m == read).count(), 1, "{read} in {function}");
            }
        }
    }

    #[test]
    fn what_is_short_or_has_no_bounds_is_left_whole() {
        assert!(split(100).is_none());
    }
}
