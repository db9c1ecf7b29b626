//! Inlines functions.
//!
//! A function is one region with one entry and one exit, so a call is replaced by the body's instructions,
//! with parameters replaced by the arguments and the call's results by the body's results. Callees are
//! processed first, so a body that is copied is already optimised. Functions on a cycle of calls are never
//! inlined, which together with the size limits bounds the growth. A body is copied if it is small (or, if
//! called twice, not large), if it is called only once, or if it must be (`Inline::Always`), as long as the
//! caller has not grown past its budget. A callee that passes very many values is copied into its only caller
//! even past the budget.
//!
//! A function that is called once only serves its caller, so it is *deferred*: it is not optimised until the
//! caller takes its unoptimised body, including calls of further deferred functions. A chain of such calls is
//! thus copied once, not once for each level. Where the budget is exhausted the call stays, and the callee is
//! optimised as a function of its own after all.
//!
//! Before AD a call is also a border for derivatives: a float parameter or result that is not `diff` has no
//! tangent. There the copy preserves the border by `detach`.

use cranelift_entity::EntityRef;
use smallvec::SmallVec;

use ir::analysis::{Stage, post_order};
use ir::build::{put_back, take};
use ir::walk::{copy_list, function_size};
use ir::{CheckpointPolicy, Cycles, Func, Function, Inline, Inst, Module, Op, Region, Types, Value};

use crate::Options;
use crate::util::{Subst, ValueMap, make_number};

/// Bodies of at most this many instructions are always copied.
const SMALL: usize = 40;
/// Bodies of at most this many instructions are copied if there are two calls, for example of a derivative in
/// two directions, whose copies then share all computations that do not depend on the direction.
const TWICE: usize = 160;
/// A caller may grow to this size, or to four times its original size.
const BUDGET: usize = 4000;
/// A call that passes more values than this costs more than any body: such a callee is inlined at any size if
/// this is its only call. The halves of a large function's derivative pass residuals by the thousand.
const WIDE: usize = 48;
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

/// The decisions made before anything is copied.
pub(crate) struct Plan {
    /// Callees before callers.
    pub(crate) order: Vec<Func>,
    may: Vec<bool>,
    once: Vec<bool>,
    twice: Vec<bool>,
    stage: Stage,
    small: usize,
    deferred: Vec<bool>,
}

impl Plan {
    pub(crate) fn of(module: &Module, options: &Options, stage: Stage, keep: &dyn Fn(Func) -> bool) -> Plan {
        let order = post_order(module);
        let mut cycles = Cycles::default();
        let mut calls = vec![0u32; module.funcs.len()];
        let mut of_others = vec![false; module.funcs.len()];
        for func in module.funcs.values().filter(|f| f.has_body()) {
            func.walk(func.body(), &mut |inst| {
                if let Op::Call(f) = func.insts[inst].op {
                    calls[f.index()] += 1;
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
        let once = calls.iter().map(|&n| n == 1 && stage == Stage::AfterAd).collect();
        let twice = calls.iter().map(|&n| n == 2 && stage == Stage::AfterAd && options.level > 0).collect();
        let small = match (stage, options.level) {
            (_, 0) => 0,
            (Stage::BeforeAd, _) => SMALL / 2,
            (Stage::AfterAd, _) => SMALL,
        };
        let deferred = vec![false; module.funcs.len()];
        Plan { order, may, once, twice, stage, small, deferred }
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
        module.funcs[f].contains(may) && expand_calls(module, f, Some(self))
    }
}

/// Inlines calls in a function that has a linear part: calls of small functions without regions and without a
/// linear part, such as those that move pointers, and within loops also calls of larger functions, with a
/// linear part or without. Their values need not be kept where they can be recomputed, or where another call
/// computes them as well.
pub fn small_calls(module: &mut Module, f: Func) -> bool {
    let func = &module.funcs[f];
    let (mut any, mut in_loop) = (false, false);
    func.walk(func.body(), &mut |inst| match func.insts[inst].op {
        Op::Call(g) => any |= is_small(module, g, false) || is_small(module, g, true),
        Op::For(_) | Op::Loop(_) => in_loop = true,
        _ => {}
    });
    let changed = any && expand_calls(module, f, None);
    if changed && in_loop {
        let mut func = take(module, f);
        crate::clean(&mut module.types, &mut func);
        put_back(module, f, func);
    }
    changed
}

/// Returns true if a callee may be inlined under the caller's rules for floats: both have the same rules, or
/// the callee is a function of the library, which has no rules of its own.
fn fits(module: &Module, caller: &Function, callee: Func) -> bool {
    let callee = &module.funcs[callee];
    caller.fast_math == callee.fast_math || caller.fast_math && module.is_library(callee.span)
}

/// Sets `fast_math` on functions that only pass values to functions with `fast_math` and to functions of the
/// library, as the entry functions of a derivative do. Such a function has no float operations of its own,
/// and would prevent inlining between the functions it calls and its callers.
pub(crate) fn pass_rules_on(module: &mut Module) {
    for f in post_order(module) {
        let func = &module.funcs[f];
        if func.fast_math || !func.has_body() || module.is_library(func.span) {
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

/// Returns true if [`small_calls`] inlines a function.
fn is_small(module: &Module, f: Func, in_loop: bool) -> bool {
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
    insts.len() <= if in_loop { TWICE } else { SMALL / 2 }
        && (in_loop || slots().all(|slot| !slot.linear))
        && insts.iter().all(|&inst| func.insts[inst].regions.is_empty())
}

fn expand_calls(module: &mut Module, f: Func, plan: Option<&Plan>) -> bool {
    let func = take(module, f);
    let size = function_size(&func);
    let mut work = Inliner {
        module,
        plan,
        caller: f,
        func,
        subst: Subst::default(),
        size,
        budget: (4 * size).max(BUDGET),
        depth: 0,
        loops: 0,
        changed: false,
    };
    let body = work.func.body();
    work.region(body);
    let Inliner { func, changed, .. } = work;
    put_back(module, f, func);
    changed
}

struct Inliner<'a> {
    module: &'a mut Module,
    /// The plan; `None` for [`small_calls`].
    plan: Option<&'a Plan>,
    caller: Func,
    func: Function,
    subst: Subst,
    size: usize,
    budget: usize,
    /// The nesting depth of deferred functions that are being inlined.
    depth: u32,
    /// The number of loops around the current place.
    loops: u32,
    changed: bool,
}

impl Inliner<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let mut out = Vec::with_capacity(insts.len());
        self.list(insts, &mut out);
        self.func.regions[region].insts = out;
        self.subst.apply_results(&mut self.func, region);
    }

    fn list(&mut self, insts: Vec<Inst>, out: &mut Vec<Inst>) {
        for inst in insts {
            self.subst.apply(&mut self.func, inst);
            let nested: SmallVec<[Region; 2]> = self.func.insts[inst].regions.clone();
            let repeats = u32::from(self.func.insts[inst].op.is_loop());
            self.loops += repeats;
            for r in nested {
                self.region(r);
            }
            self.loops -= repeats;
            let callee = match self.func.insts[inst].op {
                Op::Call(g) => Some(g),
                _ => None,
            };
            match callee {
                Some(g) if self.wanted(g) => self.expand(inst, g, out),
                _ => out.push(inst),
            }
        }
    }

    fn wanted(&mut self, g: Func) -> bool {
        if g == self.caller || self.depth >= DEPTH {
            return false;
        }
        let Some(plan) = self.plan else {
            let small = is_small(self.module, g, self.loops > 0) && fits(self.module, &self.func, g);
            let wanted = small && self.size < self.budget;
            self.size += if wanted { function_size(&self.module.funcs[g]) } else { 0 };
            return wanted;
        };
        if !plan.may[g.index()] {
            return false;
        }
        let callee = &self.module.funcs[g];
        if !callee.has_body() {
            return false;
        }
        let cost = function_size(callee);
        let always = callee.inline == Inline::Always;
        let small = if plan.twice[g.index()] { plan.small.max(TWICE) } else { plan.small };
        if !always && cost > small && !plan.once[g.index()] {
            return false;
        }
        let wide = plan.once[g.index()] && callee.params.len() + callee.results.len() > WIDE;
        if !wide && self.size + cost > if always { 25 * self.budget } else { self.budget } {
            return false;
        }
        self.size += cost;
        true
    }

    fn expand(&mut self, call: Inst, g: Func, out: &mut Vec<Inst>) {
        self.changed = true;
        let callee = &self.module.funcs[g];
        let border = self.plan.is_none_or(|plan| plan.stage == Stage::BeforeAd);
        let data = self.func.insts[call].clone();
        let cut = |types: &Types, func: &mut Function, v: Value, diff: bool, out: &mut Vec<Inst>| {
            if !border || diff || func.is_linear(v) || !types.is_differentiable(func.ty(v)) {
                return v;
            }
            let ty = func.ty(v);
            let (inst, cut) = make_number(func, Op::Detach, &[v], ty, data.span);
            out.push(inst);
            cut
        };
        let mut map = ValueMap::default();
        let body = callee.body();
        for (n, &p) in callee.regions[body].params.iter().enumerate() {
            let arg = cut(&self.module.types, &mut self.func, data.args[n], callee.params[n].diff, out);
            map.insert(p, arg);
        }
        let first_copy = self.func.insts.len();
        let mut copied = Vec::new();
        copy_list(&mut self.func, Some(callee), body, &mut map, &mut copied);
        for at in first_copy..self.func.insts.len() {
            let copy = &mut self.func.insts[Inst::new(at)];
            if self.module.is_library(copy.span) {
                copy.span = data.span;
            }
        }
        if self.plan.is_none_or(|plan| plan.is_deferred(g)) {
            self.depth += 1;
            self.list(copied, out);
            self.depth -= 1;
        } else {
            out.append(&mut copied);
        }
        let callee = &self.module.funcs[g];
        for (n, &r) in callee.regions[body].results.iter().enumerate() {
            // The result of a nested call may have been substituted by now.
            let v = self.subst.get(map[&r]);
            let v = cut(&self.module.types, &mut self.func, v, callee.results[n].diff, out);
            if self.func.values[v].name.is_none() {
                self.func.values[v].name = self.func.values[data.results[n]].name.clone();
            }
            self.subst.set(data.results[n], v);
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
