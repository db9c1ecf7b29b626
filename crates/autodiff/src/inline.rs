//! Inlines calls in a marked function before it is split.
//!
//! *Small calls* are inlined so that their values can be weighed one by one: what is kept of a call is all or
//! nothing. Two kinds of functions without regions are small: very small ones without a linear part, such as those
//! that move pointers, and within loops also larger ones, with a linear part or without. Their values need
//! not be kept where they can be recomputed, or where another call computes them as well; so equal values are
//! merged afterwards.
//!
//! *Deep calls* are inlined so that what is kept need not be passed on: of functions that call each other in a chain, the
//! primal half of each would return, and its linear half take, what all functions below it keep, which grows with the
//! square of the chain. A call is deep if the callee computes much, itself or by its callees, and if it is the only call. A
//! marked function is copied into no more than one caller, so this takes time in proportion to the program, whatever else
//! asks for its halves.

use ir::analysis::{Stage, Summaries};
use ir::build::{put_back, take};
use ir::transform::inline::{Call, Choice, calls, fits};
use ir::transform::{cse, dce};
use ir::walk::function_size;
use ir::{CheckpointPolicy, Func, Function, Inline, Module, Op};

use crate::engine::Engine;

/// The maximum number of instructions of a function that is inlined outside of loops.
const SMALL: usize = 20;
/// The same within loops.
const SMALL_IN_LOOP: usize = 160;
/// A caller may grow to this size, or to four times its original size.
const BUDGET: usize = 4000;
/// The maximum depth of calls within calls that are inlined.
const DEPTH: u32 = 256;
/// A call is deep if its callee has more instructions than this, including those of its callees once per call.
const DEEP: u64 = 1000;

impl Engine<'_> {
    /// Inlines the small and the deep calls in a marked function; see the head of this file.
    pub(crate) fn inline_calls(&mut self, f: Func) {
        // A report names the function that keeps a value.
        if self.found.kept.is_none() && self.tree(f) > DEEP {
            self.deep_calls(f);
        }
        small_calls(self.module, f);
    }

    fn deep_calls(&mut self, f: Func) {
        let (trees, unzipped) = (&self.facts.trees, &self.made.unzipped);
        let (marked, copied) = (&self.facts.marked_calls, &mut self.facts.copied);
        calls(self.module, f, Stage::BeforeAd, &mut |module, func, Call { callee, loops, depth }| {
            let is_deep = trees.get(&callee).is_some_and(|&size| size > DEEP);
            let slots = &module.funcs[callee].params;
            // What is called in a loop is weighed with the loop.
            if !is_deep
                || slots.iter().all(|slot| !slot.linear)
                || loops > 0
                || depth >= DEPTH
                || marked[callee] != 1
                || unzipped.contains_key(&callee)
                || !may_inline(module, func, callee)
                || !copied.insert(callee)
            {
                return Choice::Keep;
            }
            Choice::InlineNested
        });
    }

    /// Counts the calls in a marked function.
    pub(crate) fn count_calls(&mut self, f: Func) {
        let (func, counts) = (&self.module.funcs[f], &mut self.facts.marked_calls);
        func.walk(func.body(), &mut |inst| {
            if let Op::Call(callee) = func.insts[inst].op {
                counts[callee] += 1;
            }
        });
    }
}

/// Inlines the small calls in a function; see the head of this file.
fn small_calls(module: &mut Module, f: Func) {
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
            || !may_inline(module, func, callee)
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
    if !func.has_body() {
        return false;
    }
    let insts = &func.regions[func.body()].insts;
    let slots = || func.params.iter().chain(&func.results);
    insts.len() <= if in_loop { SMALL_IN_LOOP } else { SMALL }
        && (in_loop || slots().all(|slot| !slot.linear))
        && insts.iter().all(|&inst| func.insts[inst].regions.is_empty())
}

/// Returns true if a function may be inlined into a caller before it is split.
fn may_inline(module: &Module, caller: &Function, f: Func) -> bool {
    let func = &module.funcs[f];
    func.has_body()
        && func.inline != Inline::Never
        && !func.reruns
        && func.checkpoint == CheckpointPolicy::default()
        && !module.witnesses.contains_key(&f)
        && fits(module, caller, f)
}
