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
//! end. So a loop that holds another one is marked not to be unrolled.

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
    Ok(exact(&rolled(without_first_values(words))))
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
    Ok(exact(&rolled(without_first_values(words))))
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

/// Marks each loop that holds another loop, or calls a function that does, with `DontUnroll`.
fn rolled(mut words: Vec<u32>) -> Vec<u32> {
    // The functions so far that have loops: callees precede callers.
    let mut with_loops: FxHashSet<u32> = FxHashSet::default();
    // The loops around the instruction: the label behind each, and the place of its marks.
    let mut open: Vec<(u32, usize)> = Vec::new();
    let mut function = 0;
    let mut at = HEADER;
    while at < words.len() {
        let (len, op) = ((words[at] >> 16) as usize, words[at] & 0xFFFF);
        let operands = &words[at + 1..(at + len.max(1)).min(words.len())];
        let mut holds = false;
        match (op, operands) {
            (OP_FUNCTION, &[_, id, ..]) => function = id,
            (OP_LABEL, &[id]) => open.truncate(open.iter().position(|of| of.0 == id).unwrap_or(open.len())),
            (OP_FUNCTION_CALL, [_, _, callee, ..]) => holds = with_loops.contains(callee),
            (OP_LOOP_MERGE, _) => holds = true,
            _ => {}
        }
        let behind = operands.first().copied().filter(|_| op == OP_LOOP_MERGE);
        if holds {
            with_loops.insert(function);
            open.iter().for_each(|&(_, marks)| words[marks] |= DONT_UNROLL);
        }
        open.extend(behind.map(|behind| (behind, at + 3)));
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
