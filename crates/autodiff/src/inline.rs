//! Inlines small calls in a marked function before it is split, so that their values can be weighed one by
//! one: what is kept of a call is all or nothing.
//!
//! Two kinds of functions without regions are inlined: very small ones without a linear part, such as those
//! that move pointers, and within loops also larger ones, with a linear part or without. Their values need
//! not be kept where they can be recomputed, or where another call computes them as well; so equal values are
//! merged afterwards.

use ir::analysis::{Stage, Summaries};
use ir::build::{put_back, take};
use ir::transform::inline::{Call, Choice, calls, fits};
use ir::transform::{cse, dce};
use ir::walk::function_size;
use ir::{CheckpointPolicy, Func, Inline, Module, Op};

/// The maximum number of instructions of a function that is inlined outside of loops.
const SMALL: usize = 20;
/// The same within loops.
const SMALL_IN_LOOP: usize = 160;
/// A caller may grow to this size, or to four times its original size.
const BUDGET: usize = 4000;
/// The maximum depth of calls within calls that are inlined.
const DEPTH: u32 = 256;

/// Inlines the small calls in a function; see the head of this file.
pub(crate) fn small_calls(module: &mut Module, f: Func) {
    let func = &module.funcs[f];
    let mut any = false;
    let has_loop = func.contains(Op::is_loop);
    func.walk(func.body(), &mut |inst| {
        if let Op::Call(g) = func.insts[inst].op {
            any |= is_small(module, g, Around::Nothing) || has_loop && is_small(module, g, Around::Loop);
        }
    });
    if !any {
        return;
    }
    let mut size = function_size(func);
    let budget = (4 * size).max(BUDGET);
    let changed = calls(module, f, Stage::BeforeAd, &mut |module, func, Call { callee, loops, depth }| {
        if callee == f
            || depth >= DEPTH
            || size >= budget
            || !is_small(module, callee, if loops > 0 { Around::Loop } else { Around::Nothing })
            || !fits(module, func, callee)
        {
            return Choice::Keep;
        }
        size += function_size(&module.funcs[callee]);
        Choice::InlineNested
    });
    if changed && has_loop {
        let mut func = take(module, f);
        cse::run(&mut module.types, &mut func, &Summaries::default());
        dce::run(&mut func, &Summaries::default());
        put_back(module, f, func);
    }
}

/// The surroundings of a call.
#[derive(Clone, Copy, PartialEq)]
enum Around {
    Nothing,
    Loop,
}

fn is_small(module: &Module, f: Func, around: Around) -> bool {
    let in_loop = around == Around::Loop;
    let func = &module.funcs[f];
    if !func.has_body()
        || func.inline == Inline::Never
        || func.reruns
        || func.checkpoint != CheckpointPolicy::default()
        || module.witnesses.contains_key(&f)
    {
        return false;
    }
    let insts = &func.regions[func.body()].insts;
    let slots = || func.params.iter().chain(&func.results);
    insts.len() <= if in_loop { SMALL_IN_LOOP } else { SMALL }
        && (in_loop || slots().all(|slot| !slot.linear))
        && insts.iter().all(|&inst| func.insts[inst].regions.is_empty())
}
