//! Describes functions to the estimate of how long they run (`native::lanes::cost`).
//!
//! The text is what LLVM reads, not what it makes of it, but the instructions that decide between numbers of lanes are
//! still those: an operation counts each vector of the machine that holds its operands, and what has no vectors counts each
//! lane. LLVM is good at everything but registers: where a loop has more values in use than there are registers, each
//! further one is stored and loaded in every trip.

use native::emit::VARYING;
use native::lanes::Kind;
use native::lanes::cost::{Block, HELPER, Sketch, Values};
use rustc_hash::FxHashMap;

use crate::operand::El;
use crate::text::{Line, NAMED, Writer};

/// The cost of a number that is loaded or stored by itself at a place of its own lane: gathers and scatters are as many
/// accesses as there are lanes on all machines, and more than that.
const APART: f64 = 3.0;

/// The cost of a store of 128 bits of one lane's row: those of the next lanes' rows come before the rest of its line.
const PART: f64 = 2.0;

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
    if w.lanes > 1 && w.size().0 <= LONG {
        values(w).spill(&mut sketch, if w.style.vector_bits >= 512 { 32 } else { 16 });
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
        "shufflevector" => shuffled(w, text),
        "fdiv" => 5.0 * n,
        "sdiv" | "udiv" | "srem" | "urem" => 8.0 * if is_vector { f64::from(w.lanes) } else { 1.0 },
        "atomicrmw" | "cmpxchg" => 18.0,
        "br" if rest.starts_with("label") => 0.0,
        "store" if is_part(w, rest) => PART,
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

/// Returns true if an instruction is on at most 128 bits of one lane's numbers.
fn is_part(w: &Writer, text: &str) -> bool {
    let lanes = || text.strip_prefix('<')?.split_once(" x ")?.0.parse::<u32>().ok();
    lanes().is_some_and(|n| n < w.lanes && bits(text).is_some_and(|bits| bits <= 128))
}

/// The cost of a shuffle: that of its result. A group of 128 bits is taken out of a vector by what stores it.
fn shuffled(w: &Writer, text: &str) -> f64 {
    let bits = |(of, numbers): (&str, &str)| {
        let el = if of.contains(" x double>") || of.contains(" x i64>") || of.contains(" x ptr>") {
            64
        } else {
            32
        };
        numbers.split_once(" x ")?.0.parse::<u32>().ok().map(|n| n * el)
    };
    match text.rsplit_once(", <").and_then(bits) {
        Some(..=128) => 0.5,
        Some(bits) => f64::from(bits.div_ceil(w.style.vector_bits)),
        None => 1.0,
    }
}

/// The number of the machine's registers that hold the first vector in a text, or 1.
fn vectors(w: &Writer, text: &str) -> f64 {
    bits(text).map_or(1.0, |bits| f64::from(bits.div_ceil(w.style.vector_bits).max(1)))
}

/// The number of bits of the first vector in a text.
fn bits(text: &str) -> Option<u32> {
    let (n, rest) = text.split_once('<')?.1.split_once(" x ")?;
    let bits = match rest.split_once('>')?.0 {
        "double" | "i64" | "ptr" => 64,
        "float" | "i32" => 32,
        "i16" | "half" => 16,
        "i8" => 8,
        _ => 1,
    };
    Some(n.parse::<u32>().ok()? * bits)
}

/// The varying values that are held in registers. Masks and addresses are left out: LLVM mostly computes those where they
/// are used.
fn values(w: &Writer) -> Values {
    let mut values = Values::default();
    for (k, &block) in w.order.iter().enumerate() {
        let params = w.data(block).params.iter().filter_map(|v| v.register());
        params.for_each(|v| values.make(v, k, size(w, v)));
        for inst in w.insts(k) {
            let line = w.inst(inst);
            line.reads.iter().for_each(|&v| values.read(v, k));
            line.makes.into_iter().for_each(|v| values.make(v, k, size(w, v)));
        }
    }
    values
}

/// The number of registers that hold a varying number.
fn size(w: &Writer, number: u32) -> u32 {
    let Some((v, ..)) = w.value(number).filter(|_| number < NAMED) else { return 0 };
    let counts = v.var == VARYING && !matches!(v.el, El::I1 | El::Ptr);
    if counts { (v.el.bits() * w.lanes).div_ceil(w.style.vector_bits) } else { 0 }
}
