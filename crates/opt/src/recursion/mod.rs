//! Turns functions that call themselves into loops, for devices, whose languages have no recursion.
//!
//! `f(x) { … f(y) … }` ↦ `f(x) { loop { switch next { … } } }`
//!
//! The functions that call each other become one function, a *machine*. Their bodies are cut into blocks at
//! the calls among them ([`blocks`]), and a loop runs one block after the other: a switch selects the block,
//! which gives the number of the next one ([`machine`]). A call pushes the values that are live after it and
//! the number of the block that follows it, sets the parameters of the callee and goes on with the callee's
//! first block; a return pops that number. The stacks are cells of stacks, as reverse mode has them, so a
//! backend needs no memory of a new kind, and the interpreter runs the result.
//!
//! This is right because a block is executed from its start to its end, so a value that is used in a block
//! is either computed there or is live at its start; every value of the latter kind has a cell, which is set
//! where the value is defined. A nested call may set the same cells, therefore all that are live after a call
//! are pushed before it and popped after it. Blocks run in the order in which the calls ran their parts, and
//! the effects of a block are those of its instructions, in order.
//!
//! Devices have no handles in memory, so handles that differ between calls become numbers first ([`places`]). A
//! function stays as it is if its calls pass on handles that are loaded from memory, cast or given as results,
//! or if it reaches a barrier or an operation of a wave, which all threads of a group must reach together.

mod blocks;
mod machine;
mod places;

use ir::analysis::points_to::has_handle;
use ir::analysis::{Stage, Summaries};
use ir::transform::{cse, dce};
use ir::walk::{callees, reaches};
use ir::{Cycles, Func, Module, Op, Scalar};
use rustc_hash::FxHashSet;

pub(crate) use blocks::identity;

/// Returns the module without recursion among the functions that `roots` and the entry points reach, as far as
/// that is possible; `None` if nothing changes. Offsets of handles are kept as numbers of type `offset`: where
/// only their low halves count, `i32`, otherwise `i64`.
pub fn to_loops(module: &Module, roots: &[Func], offset: Scalar) -> Option<Module> {
    let mut cycles = Cycles::default();
    let recursive: Vec<Func> = module
        .funcs
        .keys()
        .filter(|&f| module.funcs[f].has_body() && cycles.is_recursive(module, f))
        .collect();
    if recursive.is_empty() {
        return None;
    }
    let mut wanted: FxHashSet<Func> = roots.iter().copied().collect();
    wanted.extend(module.entries.iter().map(|e| e.func));
    wanted.extend(module.globals.values().filter_map(|g| g.init));
    for (f, func) in &module.funcs {
        wanted.extend(callees(func).into_iter().filter(|&callee| !cycles.closes(module, f, callee)));
    }
    let (mut made, mut looping): (Option<Module>, Vec<Func>) = (None, Vec::new());
    let wanted: Vec<Func> = recursive.into_iter().filter(|f| wanted.contains(f)).collect();
    for &root in &wanted {
        let group = group(module, &mut cycles, root);
        if !can_loop(module, &group) {
            continue;
        }
        let Some(apart) = places::apart(module, &module.types, &group, offset) else { continue };
        let types = made.as_ref().map_or_else(|| module.types.clone(), |m| m.types.clone());
        if let Some((types, machine)) = machine::make(module, types, &group, &apart) {
            let made = made.get_or_insert_with(|| module.clone());
            made.types = types;
            made.funcs[root] = machine;
            looping.push(root);
        }
    }
    let mut made = made?;
    crate::prune(&mut made, roots);
    // Values are stored to their cells and read from there in the same block.
    let summaries = Summaries::of(&made, Stage::AfterAd);
    for root in looping {
        let mut func = std::mem::take(&mut made.funcs[root]);
        cse::run(&mut made.types, &mut func, &summaries);
        dce::run(&mut func, &summaries);
        made.funcs[root] = func;
    }
    Some(made)
}

/// The functions that a function calls and that call it, beginning with itself.
fn group(module: &Module, cycles: &mut Cycles, root: Func) -> Vec<Func> {
    let (mut group, mut at) = (vec![root], 0);
    while at < group.len() {
        for callee in callees(&module.funcs[group[at]]) {
            if !group.contains(&callee) && cycles.closes(module, group[at], callee) {
                group.push(callee);
            }
        }
        at += 1;
    }
    group
}

/// Returns true if the functions of a group can become parts of one loop.
fn can_loop(module: &Module, group: &[Func]) -> bool {
    let waits = |op: &Op| matches!(op, Op::Barrier | Op::WaveGather | Op::WaveMultiply(_));
    let derives = |op: &Op| matches!(op, Op::CallDerivative(..) | Op::CallTransposeOf(_));
    let first = &module.funcs[group[0]];
    !reaches(module, group[0], |op| waits(op) || derives(op))
        && group.iter().map(|&g| &module.funcs[g]).all(|f| {
            f.fast_math == first.fast_math && !f.results.iter().any(|slot| has_handle(&module.types, slot.ty))
        })
}
