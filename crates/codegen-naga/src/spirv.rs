//! Writes SPIR-V, with exact arithmetic and without initialisers of large variables.
//!
//! Each operation on floats is rounded separately, as on the CPU: it is marked so that no driver fuses
//! operations, combines terms, or assumes that infinities do not occur (Mesa's drivers do all of that to
//! unmarked operations).
//!
//! naga initialises each local variable with zeros. Drivers expand such an initialiser number by number, and
//! take minutes for large arrays. The generated code never reads a variable that it has not written, so the
//! initialisers of large types are removed.
//!
//! Mesa's drivers unroll a loop of any size if its counter is the index of an array that has an element for each trip.
//! Where loops nest, the copies multiply: of a perceptron's 32 by 32 products they make a thousand, and compiling does not
//! end. So a loop that holds another one is marked not to be unrolled, and for a driver that is slow for such copies
//! ([`crate::Options::inlines_slowly`]) also one that would have many copies, or whose copies would have several accesses to
//! memory: lavapipe makes a loop over the lanes, and variables, of each number that is read or written.

use naga::back::spv::{self, BindingInfo, ZeroInitializeWorkgroupMemoryMode as ZeroShared};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{Built, Error};

/// A type with more numbers and vectors than this is large.
const SMALL: u64 = 16;

/// Options for naga's SPIR-V writer. Bounds checks are off, because the module already contains checks of
/// indices.
pub fn options(built: &Built) -> spv::Options<'static> {
    let zeros = if built.zeroes_shared { ZeroShared::None } else { ZeroShared::Polyfill };
    let unchecked = BoundsCheckPolicy::Unchecked;
    spv::Options {
        lang_version: (1, 3),
        flags: spv::WriterFlags::DEBUG,
        bounds_check_policies: BoundsCheckPolicies {
            index: unchecked,
            buffer: unchecked,
            image_load: unchecked,
            binding_array: unchecked,
        },
        force_loop_bounding: false,
        zero_initialize_workgroup_memory: zeros,
        ..spv::Options::default()
    }
}

/// Writes the module with all entry points.
pub fn write(built: &Built) -> Result<Vec<u32>, Error> {
    let words = spv::write_vec(&built.module, &built.info, &options(built), None).map_err(failed)?;
    Ok(finished(built, words))
}

/// Writes the module for one entry point, whose bindings are numbered from 0 in order.
pub fn write_entry(built: &Built, entry: usize) -> Result<Vec<u32>, Error> {
    let all = &built.reflection;
    let entry = &all.entries[entry];
    let mut options = options(built);
    for (number, uses) in entry.uses.iter().enumerate() {
        let binding = &all.bindings[uses.binding];
        let place = naga::ResourceBinding { group: binding.set, binding: binding.binding };
        let info = BindingInfo { descriptor_set: 0, binding: number as u32, binding_array_size: None };
        options.binding_map.insert(place, info);
    }
    let stage = built.module.entry_points.iter().find(|e| e.name == entry.name);
    let shader_stage = stage.map_or(naga::ShaderStage::Compute, |e| e.stage);
    let pipeline = spv::PipelineOptions { shader_stage, entry_point: entry.name.clone() };
    let words = spv::write_vec(&built.module, &built.info, &options, Some(&pipeline)).map_err(failed)?;
    Ok(finished(built, words))
}

/// Completes a module of naga's writer: removes first values, and marks loops and operations on floats.
fn finished(built: &Built, words: Vec<u32>) -> Vec<u32> {
    exact(&rolled(without_first_values(words), built.inlines_slowly))
}

fn failed(error: spv::Error) -> Error {
    Error::Internal(format!("naga's writer: {error}"))
}

const HEADER: usize = 5;
const OP_TYPE_VOID: u32 = 19;
const OP_TYPE_FORWARD_POINTER: u32 = 39;
const OP_DECORATE: u32 = 71;
const NO_CONTRACTION: u32 = 42;
/// Operations on floats: negation, sum, difference, product, quotient, remainders, product with a scalar,
/// inner product.
const OF_FLOATS: [u32; 9] = [127, 129, 131, 133, 136, 140, 141, 142, 148];
const OP_TYPE_ARRAY: u32 = 28;
const OP_TYPE_STRUCT: u32 = 30;
const OP_TYPE_POINTER: u32 = 32;
const OP_CONSTANT: u32 = 43;
const OP_VARIABLE: u32 = 59;
const STORAGE_FUNCTION: u32 = 7;

/// Removes the initialisers of large local variables.
fn without_first_values(words: Vec<u32>) -> Vec<u32> {
    // The number of scalars and vectors in each type; a type that is neither array nor struct counts as one.
    let mut leaves: FxHashMap<u32, u64> = FxHashMap::default();
    let mut constants: FxHashMap<u32, u32> = FxHashMap::default();
    let mut pointees: FxHashMap<u32, u32> = FxHashMap::default();
    let mut out = words[..HEADER.min(words.len())].to_vec();
    let mut at = HEADER;
    while at < words.len() {
        let (len, op) = ((words[at] >> 16) as usize, words[at] & 0xFFFF);
        let inst = &words[at..(at + len.max(1)).min(words.len())];
        at += inst.len();
        let of = |leaves: &FxHashMap<u32, u64>, ty: u32| leaves.get(&ty).copied().unwrap_or(1);
        match (op, inst) {
            (OP_TYPE_ARRAY, &[_, id, element, length]) => {
                let n = constants.get(&length).copied().unwrap_or(1);
                leaves.insert(id, of(&leaves, element).saturating_mul(n as u64));
            }
            (OP_TYPE_STRUCT, [_, id, members @ ..]) => {
                let n = members.iter().map(|&m| of(&leaves, m)).sum();
                leaves.insert(*id, n);
            }
            (OP_TYPE_POINTER, &[_, id, _, pointee]) => {
                pointees.insert(id, pointee);
            }
            (OP_CONSTANT, &[_, _, id, value]) => {
                constants.insert(id, value);
            }
            (OP_VARIABLE, &[_, ty, id, STORAGE_FUNCTION, _]) => {
                let pointee = pointees.get(&ty).copied().unwrap_or(0);
                if of(&leaves, pointee) > SMALL {
                    out.extend([4 << 16 | OP_VARIABLE, ty, id, STORAGE_FUNCTION]);
                    continue;
                }
            }
            _ => {}
        }
        out.extend(inst);
    }
    out
}

const OP_FUNCTION: u32 = 54;
const OP_FUNCTION_CALL: u32 = 57;
const OP_LOOP_MERGE: u32 = 246;
const OP_LABEL: u32 = 248;
const DONT_UNROLL: u32 = 2;

const OP_TYPE_VECTOR: u32 = 23;
const OP_LOAD: u32 = 61;
const OP_STORE: u32 = 62;
const OP_ACCESS_CHAIN: u32 = 65;
/// The comparisons of a counter with its end, unsigned and signed.
const AGAINST_END: std::ops::RangeInclusive<u32> = 174..=179;
const ATOMICS: std::ops::RangeInclusive<u32> = 227..=242;
const STORAGE_UNIFORM: u32 = 2;
const STORAGE_WORKGROUP: u32 = 4;
const STORAGE_BUFFER: u32 = 12;

/// The most accesses to numbers in memory of all copies of a loop, and the most copies, for a driver that is slow for
/// them. It may also end a thread after a number of trips, so loops whose copies are cheap are left to it.
const MOST_ACCESSES: u64 = 4;
const MOST_COPIES: u32 = 31;

/// A loop while its instructions are being read.
struct Open {
    /// The label behind the loop.
    behind: u32,
    /// The place of its marks.
    marks: usize,
    /// The number of trips, if the first comparison says it.
    trips: Option<u32>,
    /// A comparison has been read.
    is_compared: bool,
    /// The accesses to numbers in memory of a trip.
    accesses: u64,
}

/// Marks with `DontUnroll` each loop that holds another loop, or calls a function that does; for a driver that is slow for
/// them, also loops with many copies.
fn rolled(mut words: Vec<u32>, is_slow: bool) -> Vec<u32> {
    // The functions so far that have loops, and the accesses of each: callees precede callers.
    let mut with_loops: FxHashSet<u32> = FxHashSet::default();
    let mut of_functions: FxHashMap<u32, u64> = FxHashMap::default();
    // The numbers of each type, the storage and the numbers that a type of pointers points to, the pointers' types,
    // and constants.
    let mut numbers: FxHashMap<u32, u64> = FxHashMap::default();
    let mut pointees: FxHashMap<u32, (u32, u64)> = FxHashMap::default();
    let mut pointers: FxHashMap<u32, u32> = FxHashMap::default();
    let mut constants: FxHashMap<u32, u32> = FxHashMap::default();
    let mut open: Vec<Open> = Vec::new();
    let mut function = 0;
    let mut at = HEADER;
    while at < words.len() {
        let (len, op) = ((words[at] >> 16) as usize, words[at] & 0xFFFF);
        let operands = &words[at + 1..(at + len.max(1)).min(words.len())];
        let of = |numbers: &FxHashMap<u32, u64>, ty: &u32| numbers.get(ty).copied().unwrap_or(1);
        let in_memory = |pointer: &u32| match pointers.get(pointer).and_then(|ty| pointees.get(ty)) {
            Some(&(STORAGE_UNIFORM | STORAGE_WORKGROUP | STORAGE_BUFFER, n)) => n,
            _ => 0,
        };
        let (mut holds, mut accesses, mut closed) = (false, 0, open.len());
        match (op, operands) {
            (OP_TYPE_VECTOR, &[id, _, n]) => _ = numbers.insert(id, n.into()),
            (OP_TYPE_ARRAY, [id, element, n]) => {
                let n = constants.get(n).copied().unwrap_or(1);
                numbers.insert(*id, of(&numbers, element).saturating_mul(n.into()));
            }
            (OP_TYPE_STRUCT, [id, members @ ..]) => {
                numbers.insert(*id, members.iter().map(|member| of(&numbers, member)).sum());
            }
            (OP_TYPE_POINTER, [id, storage, pointee]) => {
                pointees.insert(*id, (*storage, of(&numbers, pointee)));
            }
            (OP_CONSTANT, &[_, id, value]) => _ = constants.insert(id, value),
            (OP_VARIABLE | OP_ACCESS_CHAIN, &[ty, id, ..]) => _ = pointers.insert(id, ty),
            (OP_FUNCTION, &[_, id, ..]) => function = id,
            (OP_LABEL, &[id]) => closed = open.iter().position(|of| of.behind == id).unwrap_or(closed),
            (OP_FUNCTION_CALL, [_, _, callee, ..]) => {
                holds = with_loops.contains(callee);
                accesses = of_functions.get(callee).copied().unwrap_or(0);
            }
            (OP_LOAD, [_, _, pointer, ..]) | (OP_STORE, [pointer, ..]) => accesses = in_memory(pointer),
            (OP_LOOP_MERGE, _) => holds = true,
            (op, _) if ATOMICS.contains(&op) => accesses = 1,
            (op, [_, _, a, b]) if AGAINST_END.contains(&op) => {
                if let Some(inner) = open.last_mut().filter(|inner| !inner.is_compared) {
                    inner.is_compared = true;
                    inner.trips = constants.get(b).or(constants.get(a)).copied();
                }
            }
            _ => {}
        }
        let behind = operands.first().copied().filter(|_| op == OP_LOOP_MERGE);
        if holds {
            with_loops.insert(function);
            open.iter().for_each(|of| words[of.marks] |= DONT_UNROLL);
        }
        if accesses > 0 {
            open.iter_mut().for_each(|of| of.accesses += accesses);
            *of_functions.entry(function).or_default() += accesses;
        }
        for done in open.drain(closed..) {
            let trips = done.trips.unwrap_or(0);
            let accesses = done.accesses.saturating_mul(trips.into());
            if is_slow && (accesses > MOST_ACCESSES || trips > MOST_COPIES) {
                words[done.marks] |= DONT_UNROLL;
            }
        }
        open.extend(behind.map(|behind| Open {
            behind,
            marks: at + 3,
            trips: None,
            is_compared: false,
            accesses: 0,
        }));
        at += len.max(1);
    }
    words
}

/// Marks each operation on floats with `NoContraction`.
fn exact(words: &[u32]) -> Vec<u32> {
    let mut marks = Vec::new();
    let mut place = None;
    let mut at = HEADER;
    while at < words.len() {
        let (len, op) = ((words[at] >> 16) as usize, words[at] & 0xFFFF);
        if place.is_none() && (OP_TYPE_VOID..=OP_TYPE_FORWARD_POINTER).contains(&op) {
            place = Some(at);
        }
        if OF_FLOATS.contains(&op) && at + 2 < words.len() {
            marks.extend([3 << 16 | OP_DECORATE, words[at + 2], NO_CONTRACTION]);
        }
        at += len.max(1);
    }
    // Decorations precede types.
    let place = place.unwrap_or(words.len());
    [&words[..place], &marks, &words[place..]].concat()
}
