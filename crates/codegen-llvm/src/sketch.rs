//! Describes functions to the estimate of how long they run (`native::lanes::cost`).
//!
//! The text is what LLVM reads, not what it makes of it, but the instructions that decide between numbers of lanes are
//! still those: an operation counts each vector of the machine that holds its operands, and what has no vectors counts each
//! lane. LLVM is good at everything but registers: where a loop has more values in use than there are registers, each
//! further one is stored and loaded in every trip.

use std::collections::BTreeSet;

use native::emit::VARYING;
use native::lanes::Kind;
use native::lanes::cost::{Block, HELPER, Sketch};
use rustc_hash::FxHashMap;

use crate::operand::El;
use crate::text::{Line, NAMED, Writer};

/// The cost of a number that is loaded or stored by itself at a place of its own lane: gathers and scatters are as many
/// accesses as there are lanes on all machines, and more than that.
const APART: f64 = 3.0;

/// The cost of a value that is kept in memory since there is no register for it.
const SPILL: f64 = 2.0;

/// A function with more instructions than this has no estimate of its registers.
const LONG: usize = 50_000;

/// The code of the function in `w`.
pub(crate) fn sketch(w: &Writer, kind: Kind) -> Sketch {
    let numbers: FxHashMap<_, usize> = w.order.iter().copied().zip(0..).collect();
    let mut blocks: Vec<Block> = vec![Block::default(); w.order.len()];
    for (k, &block) in w.order.iter().enumerate() {
        let data = w.data(block);
        for (from, _) in &data.jumps {
            blocks[numbers[from]].to.push(k);
        }
        (blocks[k].is_rare, blocks[k].is_parted) = (data.is_rare(), data.is_parted());
        for line in w.insts(k).map(|inst| w.inst(inst)) {
            match line.callee {
                Some(name) => blocks[k].calls.push((name.to_string(), vectors(w, line.text))),
                None => blocks[k].own += own(w, &line),
            }
        }
    }
    let mut sketch = Sketch { lanes: w.lanes, around: u32::from(kind == Kind::Span), blocks };
    for (k, spills) in spills(w, &sketch).into_iter().enumerate() {
        sketch.blocks[k].own += SPILL * spills;
    }
    sketch
}

/// The cost of an instruction that calls no function of the module.
fn own(w: &Writer, line: &Line<'_>) -> f64 {
    let text = line.text.trim_start();
    let text = text.split_once(" = ").filter(|_| line.makes.is_some()).map_or(text, |(_, text)| text);
    let (op, rest) = text.split_once(' ').unwrap_or((text, ""));
    let n = vectors(w, text);
    let is_vector = rest.contains('<') && rest.contains(" x ");
    match op {
        "getelementptr" | "bitcast" | "zext" | "sext" | "trunc" | "ptrtoint" if !is_vector => 0.3,
        "bitcast" => 0.5,
        "insertelement" | "extractelement" => 1.0,
        "fdiv" => 5.0 * n,
        "sdiv" | "udiv" | "srem" | "urem" => 8.0 * if is_vector { f64::from(w.lanes) } else { 1.0 },
        "atomicrmw" | "cmpxchg" => 18.0,
        "br" if rest.starts_with("label") => 0.0,
        "call" => {
            let lanes = f64::from(w.lanes);
            match () {
                () if rest.contains("@llvm.masked.gather") || rest.contains("@llvm.masked.scatter") => {
                    APART * lanes
                }
                () if rest.contains("@llvm.sqrt") => 5.0 * n,
                () if rest.contains("@llvm.") => n,
                () => HELPER,
            }
        }
        _ => n,
    }
}

/// The number of the machine's registers that hold the first vector in a text, or 1.
fn vectors(w: &Writer, text: &str) -> f64 {
    let parse = || {
        let (n, rest) = text.split_once('<')?.1.split_once(" x ")?;
        let bits = match rest.split_once('>')?.0 {
            "double" | "i64" | "ptr" => 64,
            "float" | "i32" => 32,
            "i16" | "half" => 16,
            "i8" => 8,
            _ => 1,
        };
        Some(n.parse::<u32>().ok()? * bits)
    };
    parse().map_or(1.0, |bits| f64::from(bits.div_ceil(w.style.vector_bits).max(1)))
}

/// For each block, the number of vectors for which the machine has no register there, by a scan of the instructions in
/// their order: where there are too many, the value is kept in memory that is needed the longest.
fn spills(w: &Writer, sketch: &Sketch) -> Vec<f64> {
    let mut out = vec![0.0; w.order.len()];
    if w.lanes == 1 || w.size().0 > LONG {
        return out;
    }
    let loops = inner_loops(sketch);
    let values = values(w, &loops);
    let registers = if w.style.vector_bits >= 512 { 32 } else { 16 };
    let (mut in_use, mut sum) = (BTreeSet::<(usize, u32, u32)>::new(), 0);
    for (k, &block) in w.order.iter().enumerate() {
        let made = w.data(block).params.iter().filter_map(|v| Some((w.insts(k).start, v.register()?)));
        let made = made.chain(w.insts(k).filter_map(|inst| Some((inst, w.inst(inst).makes?))));
        for (at, (v, value)) in made.filter_map(|(at, v)| Some((at, (v, values.get(&v)?)))) {
            while let Some(&(end, other, size)) = in_use.first().filter(|first| first.0 < at) {
                in_use.remove(&(end, other, size));
                sum -= size;
            }
            in_use.insert((value.end, v, value.size));
            sum += value.size;
            while sum > registers
                && let Some((_, other, size)) = in_use.pop_last()
            {
                sum -= size;
                // A value that a loop does not read is stored before it, and loaded after it.
                let is_read = |&(head, latch): &(usize, usize)| {
                    values[&other].reads.iter().any(|read| (head..=latch).contains(read))
                };
                if loops[k].as_ref().is_none_or(is_read) {
                    out[k] += f64::from(size);
                }
            }
        }
    }
    out
}

/// A varying value that is held in registers.
struct Value {
    /// The last instruction that needs it.
    end: usize,
    /// The number of registers.
    size: u32,
    /// The blocks that read it.
    reads: Vec<usize>,
}

/// The varying values. Masks and addresses are left out: LLVM mostly computes those where they are used.
fn values(w: &Writer, loops: &[Option<(usize, usize)>]) -> FxHashMap<u32, Value> {
    let mut made: FxHashMap<u32, usize> = FxHashMap::default();
    let mut values: FxHashMap<u32, Value> = FxHashMap::default();
    for (k, &block) in w.order.iter().enumerate() {
        made.extend(w.data(block).params.iter().filter_map(|v| Some((v.register()?, k))));
        for inst in w.insts(k) {
            let line = w.inst(inst);
            made.extend(line.makes.map(|v| (v, k)));
            for &v in line.reads {
                let (Some(size), Some(&from)) = (size(w, v), made.get(&v)) else { continue };
                let value = values.entry(v).or_insert(Value { end: 0, size, reads: Vec::new() });
                // A value from before a loop is needed up to its end.
                let end =
                    loops[k].filter(|&(head, _)| from < head).map_or(inst, |(_, latch)| w.insts(latch).end);
                value.end = value.end.max(end);
                if value.reads.last() != Some(&k) {
                    value.reads.push(k);
                }
            }
        }
    }
    values
}

/// The number of registers that hold a varying number.
fn size(w: &Writer, number: u32) -> Option<u32> {
    let (v, ..) = w.value(number).filter(|_| number < NAMED)?;
    let counts = v.var == VARYING && !matches!(v.el, El::I1 | El::Ptr);
    counts.then(|| (v.el.bits() * w.lanes).div_ceil(w.style.vector_bits))
}

/// For each block, the first and last block of the smallest loop around it. Blocks are in the order of the program.
fn inner_loops(sketch: &Sketch) -> Vec<Option<(usize, usize)>> {
    let jumps = |(from, block): (usize, &Block)| block.to.iter().map(|&to| (to, from)).collect::<Vec<_>>();
    let mut loops: Vec<(usize, usize)> = sketch.blocks.iter().enumerate().flat_map(jumps).collect();
    loops.retain(|(head, latch)| head <= latch);
    loops.sort_unstable_by_key(|(head, latch)| std::cmp::Reverse(latch - head));
    let mut out = vec![None; sketch.blocks.len()];
    for (head, latch) in loops {
        out[head..=latch].fill(Some((head, latch)));
    }
    out
}
