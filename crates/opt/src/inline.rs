//! Inlines functions.
//!
//! [`ir::transform::inline`] replaces calls by bodies; this file decides which calls. Callees are
//! processed first, so a body that is copied is already optimised. Functions on a cycle of calls are never
//! inlined, which together with the size limits bounds the growth. A body is copied if it is small (or, if
//! called twice or with much the same operands, not large), if its call would pass long arrays, if it is called only once, or if it must be (`Inline::Always`), as long as the
//! caller has not grown past its budget. A callee is copied into its only caller even past the budget if it passes very many
//! values, or if the caller consists of little but calls, such as those of the two halves of a derivative: what one half
//! computes and the other does not need can only be removed where both are in one function.
//!
//! A function that is called once only serves its caller, so it is *deferred*: it is not optimised until the
//! caller takes its unoptimised body, including calls of further deferred functions. A chain of such calls is
//! thus copied once, not once for each level. Where the budget is exhausted the call stays, and the callee is
//! optimised as a function of its own after all.

use cranelift_entity::EntityRef;
use ir::analysis::{Stage, post_order};
use ir::transform::Subst;
use ir::transform::inline::{Choice, calls, fits};
use ir::walk::function_size;
use ir::{CheckpointPolicy, Cycles, Func, Function, Inline, Module, Op, TypeData, Types, Value};

use crate::Options;

/// Bodies of at most this many instructions are always copied.
const SMALL: usize = 40;
/// Bodies of at most this many instructions are copied if there are two calls, for example of a derivative in
/// two directions, whose copies then share all computations that do not depend on the direction.
const TWICE: usize = 160;
/// Bodies of together at most this many instructions are copied if there are a few calls, all in one function, that pass
/// mostly the same values, such as a gradient for each component of a result: all that does not depend on the component
/// is computed once, and what only a component that is known needs is left.
const ALIKE: usize = 1000;
/// The number of such calls.
const MOST_ALIKE: u32 = 4;
/// A caller may grow to this size, or to four times its original size.
const BUDGET: usize = 4000;
/// A call that passes more values than this costs more than any body: such a callee is inlined at any size if
/// this is its only call. The halves of a large function's derivative pass residuals by the thousand.
const WIDE: usize = 48;
/// Bodies of at most this many instructions are copied rather than arrays of twice as many elements, which a
/// call takes or returns. An array that is a copy of memory, or is added to memory, then need not be made.
const COPIES: usize = BUDGET / 4;
/// The depth to which deferred functions are followed within deferred functions.
const DEPTH: u32 = 256;

/// Inlines calls in all functions. `keep` names functions whose calls must stay. Returns true if anything
/// changed.
pub fn inline(module: &mut Module, options: &Options, stage: Stage, keep: &dyn Fn(Func) -> bool) -> bool {
    let plan = Plan::of(module, options, stage, keep);
    let mut changed = false;
    for f in plan.order.clone() {
        changed |= plan.caller(module, f);
    }
    changed
}

/// The calls of a function.
#[derive(Clone, Default)]
struct Calls {
    count: u32,
    /// The function that calls it; none if there are several.
    from: Option<Func>,
    /// The operands that all of the calls have.
    shared: Vec<Option<Value>>,
}

impl Calls {
    fn add(&mut self, caller: Func, args: &[Value]) {
        if self.count == 0 {
            self.from = Some(caller);
            self.shared = args.iter().copied().map(Some).collect();
        }
        self.count += 1;
        self.from = self.from.filter(|&from| from == caller);
        for (shared, &arg) in self.shared.iter_mut().zip(args) {
            *shared = shared.filter(|&shared| shared == arg);
        }
    }

    /// The number of instructions that the function may have to be copied to all of the calls, if they are few.
    fn most(&self) -> usize {
        let shared = self.shared.iter().flatten().count();
        let is_alike = self.from.is_some() && 2 * shared > self.shared.len();
        let twice = if self.count == 2 { TWICE } else { 0 };
        match self.count {
            2..=MOST_ALIKE if is_alike => twice.max(ALIKE / self.count as usize),
            _ => twice,
        }
    }
}

/// The decisions made before anything is copied.
pub(crate) struct Plan {
    /// Callees before callers.
    pub(crate) order: Vec<Func>,
    may: Vec<bool>,
    once: Vec<bool>,
    /// The number of instructions that a function may have to be copied to its few calls; 0 if it has many.
    few: Vec<usize>,
    stage: Stage,
    small: usize,
    deferred: Vec<bool>,
}

impl Plan {
    pub(crate) fn of(module: &Module, options: &Options, stage: Stage, keep: &dyn Fn(Func) -> bool) -> Plan {
        let order = post_order(module);
        let mut cycles = Cycles::default();
        let mut calls = vec![Calls::default(); module.funcs.len()];
        let mut of_others = vec![false; module.funcs.len()];
        for (caller, func) in module.funcs.iter().filter(|(_, f)| f.has_body()) {
            func.walk(func.body(), &mut |inst| {
                if let Op::Call(f) = func.insts[inst].op {
                    calls[f.index()].add(caller, &func.insts[inst].args);
                    of_others[f.index()] |= !fits(module, func, f);
                }
            });
        }
        let may = module
            .funcs
            .iter()
            .map(|(f, func)| {
                func.has_body()
                    && func.inline != Inline::Never
                    && !of_others[f.index()]
                    && !cycles.is_recursive(module, f)
                    && !(stage == Stage::BeforeAd
                        && (func.reruns || func.checkpoint != CheckpointPolicy::default()))
                    && !keep(f)
            })
            .collect();
        let once = calls.iter().map(|calls| calls.count == 1 && stage == Stage::AfterAd).collect();
        let is_after = stage == Stage::AfterAd && options.level > 0;
        let few = calls.iter().map(|calls| if is_after { calls.most() } else { 0 }).collect();
        let small = match (stage, options.level) {
            (_, 0) => 0,
            (Stage::BeforeAd, _) => SMALL / 2,
            (Stage::AfterAd, _) => SMALL,
        };
        let deferred = vec![false; module.funcs.len()];
        Plan { order, may, once, few, stage, small, deferred }
    }

    /// Returns true if a function need not be optimised before its only caller inlines it.
    pub(crate) fn is_deferred(&self, f: Func) -> bool {
        self.deferred[f.index()]
    }

    /// Defers all functions that are called once, except for `roots`.
    pub(crate) fn defer(&mut self, roots: impl Iterator<Item = Func>) {
        self.deferred = self.once.iter().zip(&self.may).map(|(&once, &may)| once && may).collect();
        for root in roots {
            self.deferred[root.index()] = false;
        }
    }

    /// Inlines the calls in one function; returns true if anything changed.
    pub(crate) fn caller(&self, module: &mut Module, f: Func) -> bool {
        let may = |op: &Op| matches!(*op, Op::Call(g) if self.may[g.index()] && g != f);
        if !module.funcs[f].contains(may) {
            return false;
        }
        let mut size = function_size(&module.funcs[f]);
        let (budget, is_little) = ((4 * size).max(BUDGET), size <= SMALL && self.stage == Stage::AfterAd);
        calls(module, f, self.stage, &mut |module, _, call| {
            let g = call.callee;
            if g == f || call.depth >= DEPTH || !self.may[g.index()] || !module.funcs[g].has_body() {
                return Choice::Keep;
            }
            let callee = &module.funcs[g];
            let cost = function_size(callee);
            let always = callee.inline == Inline::Always;
            let small = self.small.max(self.few[g.index()]);
            let small = if self.stage == Stage::AfterAd && small > 0 {
                small.max((elements(&module.types, callee) / 2).min(COPIES))
            } else {
                small
            };
            let slots = callee.params.len() + callee.results.len();
            let is_part = self.once[g.index()] && (slots > WIDE || is_little);
            let fits = is_part || size + cost <= if always { 25 * budget } else { budget };
            if !fits || !always && cost > small && !self.once[g.index()] {
                return Choice::Keep;
            }
            size += cost;
            if self.is_deferred(g) { Choice::InlineNested } else { Choice::Inline }
        })
    }
}

/// The number of elements of all arrays that a call passes.
fn elements(types: &Types, callee: &Function) -> usize {
    let slots = callee.params.iter().chain(&callee.results);
    let mut n = 0usize;
    for slot in slots {
        let (mut ty, mut len) = (slot.ty, 1usize);
        while let TypeData::Array(element, count) = types[ty] {
            (ty, len) = (element, len.saturating_mul(count as usize));
        }
        n = n.saturating_add(if len > 1 { len } else { 0 });
    }
    n
}

/// Sets `fast_math` on functions that only pass values to functions with `fast_math` and to functions of the
/// library, as the entry functions of a derivative do. Such a function has no float operations of its own,
/// and would prevent inlining between the functions it calls and its callers.
pub(crate) fn pass_rules_on(module: &mut Module) {
    for f in post_order(module) {
        let func = &module.funcs[f];
        if !func.has_body() || module.is_library(func.span) {
            continue;
        }
        let mut calls_fast = false;
        let passes = func.regions[func.body()].insts.iter().all(|&inst| {
            let op = &func.insts[inst].op;
            if let Some(g) = op.callee() {
                let callee = &module.funcs[g];
                calls_fast |= callee.fast_math;
                return callee.fast_math || module.is_library(callee.span);
            }
            matches!(
                op,
                Op::Const(_)
                    | Op::Zero
                    | Op::Absent
                    | Op::Construct
                    | Op::Extract(_)
                    | Op::Insert(_)
                    | Op::Splat
            )
        });
        if passes && calls_fast {
            module.funcs[f].fast_math = true;
        }
    }
}

/// Removes every `detach`, which has no meaning after AD. Returns true if there was one.
pub(crate) fn strip_detach(func: &mut Function) -> bool {
    let any = func.contains(|op| *op == Op::Detach);
    if any {
        let mut subst = Subst::default();
        func.rebuild(|func, inst, out| match func.insts[inst].op {
            Op::Detach => subst.set(func.result(inst), func.insts[inst].args[0]),
            _ => out.push(inst),
        });
        subst.apply_everywhere(func);
    }
    any
}
