//! Splits the text of a long function into several functions, since LLVM's time grows faster than the length
//! of a function.
//!
//! A *piece* is a run of lines that control enters at its first line and leaves at its last: no jump has one
//! end inside and the other outside. Each piece becomes a function of its own, and is replaced by a call of
//! it. Pieces nest. A value that one piece makes and another reads is passed in a frame that they share: it
//! is stored where it is made, and loaded at the head of each piece that reads it, or after the call of the
//! piece that made it.
//!
//! # Why this is right
//!
//! Lines `p` and `q` bound a piece if the same jumps go past both. Control then reaches a line of the piece
//! only through its first line, so a value made before the piece and read inside it was made before the piece
//! began. Control reaches the lines after the piece only through its last line, so a value made inside and
//! read outside was made before the piece ended. Both also hold for the ends of blocks, where phis read their
//! operands.
//! Two such pairs of bounds are disjoint or nested: a jump that goes past `p` and `q` goes past all lines
//! between them.
//!
//! The cost is the stores and loads of values that are live between pieces. In functions with so many values,
//! most would be spilled anyway.

use std::cmp::Reverse;
use std::fmt::Write as _;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::text::El;
use crate::unit::{Function, FxIndexMap};

/// The length of a piece: each line counts as [`LINE`], and each value that is read as one.
pub(crate) const LENGTH: usize = 800;
const LINE: usize = 2;
/// A function that is not longer than this number of pieces is not split.
const WHOLE: usize = 15;
/// The attribute of pieces without loops, which are compiled in the fastest way if the text is large.
pub(crate) const STRAIGHT: &str = "pullback-straight";

/// The registers of a function.
pub(crate) struct Registers {
    /// The type of each register, and whether it holds a vector with one number for each lane; `None` for a
    /// register of another type, which pieces do not share.
    pub(crate) types: Vec<Option<(El, bool)>>,
    pub(crate) lanes: u32,
}

/// The facts about a line.
struct Line<'t> {
    text: &'t str,
    /// The line of its block's label.
    block: usize,
    is_phi: bool,
    /// The line ends its block.
    ends: bool,
}

/// A piece, or, as the first element, the lines that are in no piece.
struct Piece {
    start: usize,
    end: usize,
    /// The enclosing piece.
    parent: usize,
    text: String,
    /// The label of the block being written.
    label: String,
    /// The results of phis, to be stored after the last phi.
    waiting: Vec<usize>,
    pointers: u32,
    /// The piece contains a backward jump.
    repeats: bool,
    callees: FxIndexMap<String, usize>,
}

/// The text of the functions that a function is split into; `None` if it is left whole. `about` holds the
/// attributes of all functions.
pub(crate) fn split(
    function: &Function,
    registers: &Registers,
    about: &str,
    most: usize,
) -> Option<Vec<Function>> {
    let body = &function.body;
    let length = body.bytes().map(|b| usize::from(b == b'%') + LINE * usize::from(b == b'\n')).sum::<usize>();
    if length <= most.saturating_mul(WHOLE) {
        return None;
    }
    let mut cx = Cx::new(function, registers)?;
    let bounds = cx.bounds(most);
    if bounds.is_empty() {
        return None;
    }
    cx.own(bounds);
    cx.share();
    Some(cx.write(function, about))
}

struct Cx<'t> {
    name: &'t str,
    lines: Vec<Line<'t>>,
    /// The type of each value, registers first, then the named parameters; and its size in bytes, which is 0 if
    /// pieces do not share it.
    types: Vec<(String, u64)>,
    names: FxHashMap<&'t str, usize>,
    /// The line that makes each value; the first line for parameters.
    made: Vec<usize>,
    reads: Vec<(usize, usize)>,
    /// The source and target line of each jump; a return jumps to the line after the last.
    jumps: Vec<(usize, usize)>,
    pieces: Vec<Piece>,
    owner: Vec<usize>,
    /// For each line, a hash of all jumps that go past it.
    past: Vec<u64>,
    /// The values that a piece loads before each line.
    loads: FxHashMap<(usize, usize), Vec<usize>>,
    /// The offset of each shared value in the frame.
    places: FxHashMap<usize, u64>,
    frame: u64,
}

impl<'t> Cx<'t> {
    fn new(function: &'t Function, registers: &Registers) -> Option<Cx<'t>> {
        let lanes = u64::from(registers.lanes);
        let text = |ty: &Option<(El, bool)>| match *ty {
            Some((el, true)) => (format!("<{lanes} x {}>", el.name()), el.bytes() * lanes),
            Some((el, false)) => (el.name().to_string(), el.bytes()),
            None => (String::new(), 0),
        };
        let mut cx = Cx {
            name: &function.name,
            lines: Vec::new(),
            types: registers.types.iter().map(text).collect(),
            names: FxHashMap::default(),
            made: Vec::new(),
            reads: Vec::new(),
            jumps: Vec::new(),
            pieces: Vec::new(),
            owner: Vec::new(),
            past: Vec::new(),
            loads: FxHashMap::default(),
            places: FxHashMap::default(),
            frame: 0,
        };
        for param in function.params.split(", ") {
            let name = param.rsplit(' ').next()?.strip_prefix('%')?;
            if name != "ctx" && number(name, 'r').is_none() {
                cx.names.insert(name, cx.types.len());
                cx.types.push((param.split(' ').next()?.to_string(), 8));
            }
        }
        cx.made = vec![0; cx.types.len()];
        cx.scan(&function.body)?;
        Some(cx)
    }

    /// Finds labels, jumps, and the values that each line makes and reads.
    fn scan(&mut self, body: &'t str) -> Option<()> {
        let mut block = 0;
        let mut labels: FxHashMap<&str, usize> = FxHashMap::default();
        for (at, text) in body.lines().enumerate() {
            if let Some(label) = text.strip_suffix(':').filter(|_| !text.starts_with(' ')) {
                labels.insert(label, at);
                block = at;
            }
            let op = text.trim_start();
            let ends = ["br ", "switch ", "ret ", "unreachable"].iter().any(|t| op.starts_with(t));
            self.lines.push(Line { text, block, is_phi: text.contains(" = phi "), ends });
        }
        for at in 0..self.lines.len() {
            let text = self.lines[at].text;
            let makes = text.starts_with("  %");
            if text.starts_with("  ret ") {
                self.jumps.push((at, self.lines.len()));
            }
            for (k, name) in symbols(text).enumerate() {
                if let Some(&label) = labels.get(name) {
                    if self.lines[at].ends {
                        self.jumps.push((at, label));
                    }
                } else if name != "ctx" {
                    let value = number(name, 'r').or_else(|| self.names.get(name).copied())?;
                    if makes && k == 0 {
                        *self.made.get_mut(value)? = at;
                    } else {
                        self.reads.push((value, at));
                    }
                }
            }
        }
        Some(())
    }

    /// Returns true if instructions may be inserted before a line: the line is in a block other than the
    /// first, and after the block's label and phis.
    fn is_within(&self, p: usize) -> bool {
        let line = &self.lines[p];
        !line.is_phi && line.block != 0 && line.block != p
    }

    /// The first line of each piece and the line after its last, inner pieces before those that contain them.
    fn bounds(&mut self, most: usize) -> Vec<(usize, usize)> {
        let n = self.lines.len();
        // The changes, at each line, of the set of jumps that go past it, and of the number of live odd
        // values.
        let (mut past, mut odd) = (vec![0u64; n + 2], vec![0i64; n + 2]);
        for (k, &(from, to)) in self.jumps.iter().enumerate() {
            let hash = mixed(k as u64 + 1);
            past[from.min(to) + 1] ^= hash;
            past[from.max(to) + 1] ^= hash;
        }
        for &(value, at) in &self.reads {
            let made = self.made[value];
            if made < at && self.types[value].1 == 0 {
                odd[made + 1] += 1;
                odd[at + 1] -= 1;
            }
        }
        // Each open pair of bounds: the hash of the jumps past it, its first line, and the length before that
        // line.
        let mut open: Vec<(u64, usize, usize)> = Vec::new();
        let mut known: FxHashMap<u64, usize> = FxHashMap::default();
        let mut found = Vec::new();
        let (mut here, mut alive, mut count) = (0, 0, 0);
        let mut reads = self.reads.iter().peekable();
        self.past = vec![0; n];
        for p in 1..n {
            count += LINE;
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
                        count = *first + LINE;
                        (*start, *first) = (p, count);
                    }
                }
            }
        }
        found
    }

    /// Makes the pieces, and finds the innermost piece of each line.
    fn own(&mut self, mut bounds: Vec<(usize, usize)>) {
        let n = self.lines.len();
        bounds.push((0, n));
        bounds.sort_by_key(|&(start, end)| (start, Reverse(end)));
        self.owner = vec![0; n];
        let mut inside: Vec<usize> = Vec::new();
        let mut bounds = bounds.into_iter().peekable();
        for line in 0..n {
            while inside.last().is_some_and(|&k: &usize| self.pieces[k].end <= line) {
                inside.pop();
            }
            while let Some((start, end)) = bounds.next_if(|b| b.0 == line) {
                let parent = inside.last().copied().unwrap_or(0);
                inside.push(self.pieces.len());
                self.pieces.push(Piece {
                    start,
                    end,
                    parent,
                    text: String::new(),
                    label: String::new(),
                    waiting: Vec::new(),
                    pointers: 0,
                    repeats: false,
                    callees: FxIndexMap::default(),
                });
            }
            self.owner[line] = inside.last().copied().unwrap_or(0);
        }
        for &(from, _) in self.jumps.iter().filter(|(from, to)| to <= from) {
            self.pieces[self.owner[from]].repeats = true;
        }
    }

    /// Finds the values that pieces read from other pieces, and assigns their offsets in the frame.
    fn share(&mut self) {
        let trunk = self.trunk();
        let mut seen: FxHashSet<(usize, usize)> = FxHashSet::default();
        for &(value, at) in &self.reads {
            let (reader, made) = (self.owner[at], self.made[value]);
            let mut maker = self.owner[made];
            if reader == maker || !seen.insert((value, reader)) {
                continue;
            }
            let (ty, bytes) = &self.types[value];
            let align = aligned(*bytes);
            if !self.places.contains_key(&value) {
                debug_assert!(!ty.is_empty());
                let place = self.frame.next_multiple_of(align);
                self.places.insert(value, place);
                self.frame = place + bytes;
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

    /// For each line, the last line up to it that control passes whenever it passes the piece, and before
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

    fn value_text(&self, value: usize) -> String {
        let named = self.names.iter().find(|n| *n.1 == value);
        named.map_or_else(|| format!("%r{value}"), |(name, _)| format!("%{name}"))
    }

    /// Emits the address of a value in the frame; also returns its alignment.
    fn pointer(&mut self, piece: usize, value: usize) -> (String, u64) {
        let (place, align) = (self.places[&value], aligned(self.types[value].1));
        let into = &mut self.pieces[piece];
        let pointer = format!("%p{}", into.pointers);
        into.pointers += 1;
        let _ = writeln!(into.text, "  {pointer} = getelementptr i8, ptr %frame, i64 {place}");
        (pointer, align)
    }

    fn load_before(&mut self, piece: usize, line: usize) {
        for value in self.loads.remove(&(piece, line)).unwrap_or_default() {
            let (pointer, align) = self.pointer(piece, value);
            let (name, ty) = (self.value_text(value), &self.types[value].0);
            let _ = writeln!(
                self.pieces[piece].text,
                "  {name} = load {ty}, ptr {pointer}, align {align}, !tbaa !14"
            );
        }
    }

    fn store(&mut self, piece: usize, value: usize) {
        let (pointer, align) = self.pointer(piece, value);
        let (name, ty) = (self.value_text(value), &self.types[value].0);
        let _ =
            writeln!(self.pieces[piece].text, "  store {ty} {name}, ptr {pointer}, align {align}, !tbaa !14");
    }

    /// The label of the block in which each block ends up after splitting, by its own label.
    fn last_labels(&mut self) -> FxHashMap<&'t str, String> {
        let mut last = FxHashMap::default();
        let mut next = 1;
        for (at, line) in self.lines.iter().enumerate() {
            let label = self.lines[line.block].text.trim_end_matches(':');
            while self.pieces.get(next).is_some_and(|p| p.start == at) {
                self.pieces[next].label = label.to_string();
                next += 1;
            }
            let piece = &mut self.pieces[self.owner[at]];
            if line.block == at {
                piece.label = label.to_string();
            }
            if line.ends {
                last.insert(label, piece.label.clone());
            }
        }
        last
    }

    fn write(mut self, function: &Function, about: &str) -> Vec<Function> {
        let last = self.last_labels();
        let mut next = 1;
        let mut inside = vec![0];
        let mut params: Vec<usize> = self.places.keys().copied().filter(|&v| self.made[v] == 0).collect();
        params.sort_unstable();
        for at in 0..self.lines.len() {
            let Line { text, block, is_phi, .. } = self.lines[at];
            let mut own = inside.last().copied().unwrap_or(0);
            if !is_phi {
                for value in std::mem::take(&mut self.pieces[own].waiting) {
                    self.store(own, value);
                }
            }
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
                self.pieces[next].text = self.lines[block].text.to_string() + "\n";
                inside.push(next);
                own = next;
                next += 1;
                self.load_before(own, at);
            }
            if is_phi {
                let renamed = with_labels(text, &last);
                self.pieces[own].text.push_str(&renamed);
            } else {
                self.pieces[own].text.push_str(text);
                if let Some(callee) = callee(text) {
                    *self.pieces[own].callees.entry(callee.to_string()).or_default() += 1;
                }
            }
            self.pieces[own].text.push('\n');
            if at == 0 {
                let frame = format!("  %frame = alloca [{} x i8], align 64\n", self.frame.max(1));
                self.pieces[0].text.push_str(&frame);
                for &value in &params {
                    self.store(0, value);
                }
            } else if text.starts_with("  %") {
                let made = symbols(text).next().and_then(|name| number(name, 'r'));
                if let Some(value) = made.filter(|value| self.places.contains_key(value)) {
                    match is_phi {
                        true => self.pieces[own].waiting.push(value),
                        false => self.store(own, value),
                    }
                }
            }
        }
        let name = self.name;
        let mut pieces = self.pieces.into_iter();
        let whole = pieces.next().map(|piece| Function {
            body: piece.text,
            callees: piece.callees,
            name: function.name.clone(),
            linkage: function.linkage,
            result: function.result.clone(),
            params: function.params.clone(),
            about: function.about.clone(),
            is_copied: false,
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

/// The text after each `%` of a line.
fn symbols(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('%').map(|(at, _)| {
        let rest = &text[at + 1..];
        &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())]
    })
}

/// The function of the module that a line calls.
fn callee(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("call fastcc ")?;
    rest.split_once('@')?.1.split('(').next()
}

/// The number after the letter of a name.
fn number(name: &str, letter: char) -> Option<usize> {
    name.strip_prefix(letter)?.parse().ok()
}

/// Replaces the labels in a phi's line by those of the blocks in which the predecessors end.
fn with_labels(text: &str, last: &FxHashMap<&str, String>) -> String {
    let mut all = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let name = symbols(rest).next().unwrap_or_default();
        all.push_str(&rest[..=at]);
        all.push_str(last.get(name).map_or(name, |label| label));
        rest = &rest[at + 1 + name.len()..];
    }
    all + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body of a function that squares a value ten times if it is positive, in a loop.
    fn body() -> String {
        let mut text = String::from("entry:\n  br label %b0\nb0:\n  br label %b1\nb1:\n");
        text += "  %r0 = phi i64 [ %start, %b0 ], [ %r1, %b99 ]\n  %r1 = add i64 %r0, 1\n  %r2 = fadd float 1.0, 1.0\n";
        let mut last = (2, "b1".to_string());
        for k in 0..10 {
            let (c, square, next) = (10 + 3 * k, 11 + 3 * k, 12 + 3 * k);
            let (yes, join) = (2 * k + 2, 2 * k + 3);
            let (from, at) = &last;
            text += &format!("  %r{c} = fcmp ogt float %r{from}, 0.0\n");
            text += &format!("  br i1 %r{c}, label %b{yes}, label %b{join}\nb{yes}:\n");
            text += &format!("  %r{square} = fmul float %r{from}, %r2\n  br label %b{join}\nb{join}:\n");
            text += &format!("  %r{next} = phi float [ %r{square}, %b{yes} ], [ %r{from}, %{at} ]\n");
            text += &format!("  %r{} = fadd float %r{next}, %r{next}\n", 50 + k);
            last = (50 + k, format!("b{join}"));
        }
        text +=
            "  %r4 = icmp ult i64 %r1, %end\n  br label %b99\nb99:\n  br i1 %r4, label %b1, label %b100\n";
        text + "b100:\n  ret void\n"
    }

    fn registers() -> Registers {
        let mut types = vec![Some((El::F32, false)); 60];
        types[0] = Some((El::I64, false));
        types[1] = Some((El::I64, false));
        types[4] = Some((El::I1, false));
        (10..40).step_by(3).for_each(|k| types[k] = Some((El::I1, false)));
        Registers { types, lanes: 1 }
    }

    fn function() -> Function {
        let params = "ptr %ctx, i64 %start, i64 %end";
        Function { body: body(), ..Function::external("entry0", params, "nounwind") }
    }

    #[test]
    fn a_loop_is_left_with_calls() {
        let all = split(&function(), &registers(), "nounwind", 10).expect("it is long enough");
        let functions: Vec<&str> = all.iter().map(|f| &f.body[..]).collect();
        assert!(all[0].callees.contains_key("entry0.1") && all[1].name == "entry0.1");
        let call = |k: usize| format!("  call fastcc void @entry0.{k}(ptr %ctx, ptr %frame)\n");
        // The loop itself is a piece.
        assert!(functions[0].contains(&call(1)) && !functions[0].contains("%r0"), "{all:?}");
        assert!(
            (2..=5).all(|k| functions[1].contains(&call(k))) && !functions[1].contains("fmul"),
            "{all:?}"
        );
        assert!(functions[1].contains("[ %start, %b0 ], [ %r1, %b1 ]"), "{all:?}");
        assert!(functions[1].contains("br i1 %r4, label %b1, label %b100"), "{all:?}");
        // Each piece makes or loads the values that it reads.
        for function in functions {
            let lines = || function.lines();
            let made: Vec<&str> =
                lines().filter_map(|l| symbols(l).next().filter(|_| l.starts_with("  %"))).collect();
            for read in lines().flat_map(symbols).filter(|s| number(s, 'r').is_some()) {
                assert_eq!(made.iter().filter(|m| **m == read).count(), 1, "{read} in {function}");
            }
        }
    }

    #[test]
    fn what_is_short_or_has_no_bounds_is_left_whole() {
        assert!(split(&function(), &registers(), "nounwind", 100).is_none());
    }
}
