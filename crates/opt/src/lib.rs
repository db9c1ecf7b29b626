//! Optimises the IR: the same meaning, less work.
//!
//! This file contains the whole pipeline. Every pass is a file that begins with an argument for its
//! correctness; every pass keeps the verifier's rules, the marks of linear values and the spans, and takes
//! time roughly linear in the size of the program.
//!
//! The order follows from the dependences between passes. `simplify` makes constants, which make indices
//! constant, which lets `scalarize` turn cells into values, so that `cse` and `simplify` see through former
//! memory. `unroll` makes counters constant, which enables the same sequence again; so the sequence is
//! repeated while it changes something, up to a few times. `licm` runs once there is nothing left to fold.
#![forbid(unsafe_code)]

pub mod chains;
pub mod countdown;
pub mod cse;
pub mod dce;
pub mod delay;
pub mod deliver;
pub mod differentials;
pub mod effects;
pub mod explode;
mod finite;
pub mod inline;
pub mod licm;
pub mod math;
pub mod pour;
pub mod prune;
pub mod reread;
pub mod scalarize;
pub mod simplify;
pub mod sink;
pub mod through;
pub mod undo;
pub mod unroll;
mod util;

use differentials::{Border, Lowered};
pub use effects::{Effects, Facts, Stage};
pub use prune::prune;

use cranelift_entity::EntityRef;
use ir::build::{put_back, take};
use ir::{Func, Function, Inline, Module, Op, Types};

/// The options of the optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Allows rules that hold for real numbers but may drop a NaN, an infinity or the sign of a zero.
    pub fast_math: bool,
    /// 0: only the passes that later stages rely on; 1: cheap passes; 2: all passes.
    pub level: u8,
    /// Stops the program where a differential becomes infinite or NaN (from level 1 on).
    pub check_finite: bool,
    /// True if the code is for a device; `None` if the target is not known.
    pub on_device: Option<bool>,
}

impl Default for Options {
    fn default() -> Options {
        Options { fast_math: false, level: 2, check_finite: false, on_device: None }
    }
}

/// Optimises before AD: small, clean primal functions make small derivatives. Functions with a custom
/// derivative are neither inlined nor removed.
pub fn before_ad(module: &mut Module, options: &Options) {
    if options.level == 0 {
        for f in module.funcs.keys().collect::<Vec<_>>() {
            edit(module, f, |types, func| {
                chains::run(types, func);
            });
        }
        return;
    }
    inline::pass_rules_on(module);
    let keep: Vec<bool> = module.funcs.keys().map(|f| module.witnesses.contains_key(&f)).collect();
    let keep = |f: Func| keep.get(f.index()).copied().unwrap_or(false);
    let plan = inline::Plan::of(module, options, Stage::BeforeAd, &keep);
    let facts = Facts::of(module, Stage::BeforeAd);
    for &f in &plan.order {
        if !module.funcs[f].has_body() {
            continue;
        }
        plan.caller(module, f);
        edit(module, f, |types, func| {
            circle(types, func, &facts, options);
            if unroll::run(types, func, true) {
                circle(types, func, &facts, options);
            }
            if chains::run(types, func) {
                circle(types, func, &facts, options);
            }
            if licm::run(types, func, &facts) {
                cse::run(types, func, &facts);
            }
        });
    }
}

/// Inlines functions that only wrap derivative operators, so that each operator stands where the program uses
/// it and sees the differentials that it is given.
pub fn place_derivatives(module: &mut Module) {
    let only_asks = |f: &Function| f.inline == Inline::Always && has_derivative_ops(f);
    let keep: Vec<bool> = module.funcs.values().map(|f| !only_asks(f)).collect();
    let keep = |f: Func| keep.get(f.index()).copied().unwrap_or(true);
    inline::inline(module, &Options { level: 0, ..Options::default() }, Stage::BeforeAd, &keep);
}

/// Optimises after AD, when derivatives are plain code. `roots` are the functions that the host may call; any
/// other function that is called once is optimised only within its caller.
pub fn after_ad(module: &mut Module, options: &Options, roots: &[Func]) {
    let all: Vec<Func> = module.funcs.keys().collect();
    for f in all {
        edit(module, f, |types, func| {
            inline::strip_detach(types, func);
        });
    }
    if options.level == 0 {
        let borders = borders(module, roots);
        for f in module.funcs.keys().collect::<Vec<_>>() {
            edit(module, f, |types, func| {
                differentials::run(types, func, options, borders[f.index()]);
            });
        }
        return;
    }
    let plain = options.check_finite.then(|| finite::prepare(module));
    let mut plan = inline::Plan::of(module, options, Stage::AfterAd, &|_| false);
    let entries = module.entries.iter().map(|e| e.func);
    let inits = module.globals.values().filter_map(|g| g.init);
    let roots: Vec<Func> = roots.iter().copied().chain(entries).chain(inits).collect();
    plan.defer(roots.iter().copied());
    let facts = Facts::of(module, Stage::AfterAd);
    let mut called = vec![false; module.funcs.len()];
    // Finished functions, and whether each has something new for `cse` to merge.
    let mut done: Vec<(Func, bool)> = Vec::new();
    let mut finish = |module: &mut Module, f: Func, called: &mut [bool]| {
        if !module.funcs[f].has_body() {
            return;
        }
        plan.caller(module, f);
        if let Some(plain) = &plain {
            if module.funcs[f].inline == Inline::Always && !roots.contains(&f) {
                // The function is checked where it is inlined.
                return;
            }
            finite::run(module, f, plain);
        }
        edit(module, f, |types, func| done.push((f, rounds(types, func, &facts, options))));
        let func = &module.funcs[f];
        func.walk(func.body(), &mut |inst| {
            if let Some(callee) = func.insts[inst].op.callee() {
                called[callee.index()] = true;
            }
        });
    };
    for &f in plan.order.iter().filter(|&&f| !plan.is_deferred(f)) {
        finish(module, f, &mut called);
    }
    // Callers come first: only then is it known whether a call of the function is left.
    for &f in plan.order.iter().rev().filter(|&&f| plan.is_deferred(f)) {
        if called[f.index()] {
            finish(module, f, &mut called);
        }
    }
    let borders = borders(module, &roots);
    // A callee is inlined before its differentials are lowered, since more is known about them in the caller.
    for (f, stale) in done {
        edit(module, f, |types, func| {
            let lowered = differentials::run(types, func, options, borders[f.index()]);
            if lowered != Lowered::Nothing {
                simplify::run(types, func, options);
            }
            if lowered == Lowered::Guarded {
                licm::run(types, func, &facts);
            }
            if stale || lowered != Lowered::Nothing {
                cse::run(types, func, &facts);
                dce::run(func, &facts);
            }
            delay::run(func, &facts);
            if countdown::run(types, func) {
                dce::run(func, &facts);
            }
        });
    }
}

/// Determines who calls each function: the host or other functions.
fn borders(module: &Module, roots: &[Func]) -> Vec<Border> {
    let mut borders = vec![Border::Callers; module.funcs.len()];
    roots.iter().for_each(|root| borders[root.index()] = Border::Host);
    for func in module.funcs.values() {
        if func.has_body() {
            func.walk(func.body(), &mut |inst| {
                if let Some(callee) = func.insts[inst].op.callee() {
                    borders[callee.index()] = Border::Callers;
                }
            });
        }
    }
    borders
}

/// Runs the passes that enable each other, on a function whose calls are already inlined where they should
/// be; returns true if the last passes made work for `cse`.
fn rounds(types: &mut Types, func: &mut Function, facts: &Facts, options: &Options) -> bool {
    let most = if options.level >= 2 { 4 } else { 1 };
    let mut stale = false;
    for _ in 0..most {
        let mut changed = circle(types, func, facts, options);
        stale = licm::run(types, func, facts);
        changed |= unroll::run(types, func, options.level < 2) | stale;
        if !changed {
            break;
        }
    }
    if options.level >= 2 {
        let mut changed = sink::run(types, func);
        changed |= pour::run(types, func);
        changed |= undo::run(types, func);
        if reread::run(types, func, facts) {
            circle(types, func, facts, options);
            licm::run(types, func, facts);
            changed = true;
        }
        if changed {
            circle(types, func, facts, options);
        }
    }
    if options.level >= 2 {
        stale |= deliver::run(types, func);
    }
    stale
}

/// Optimises for devices, whose threads have little memory of their own: an array that is a copy of memory
/// that is never written is read from that memory instead. `None` if nothing changes.
pub fn for_devices(module: &Module) -> Option<Module> {
    let constants = through::Constants::of(module);
    let may = |f: &&Func| module.funcs[**f].has_body() && through::may(&module.types, &module.funcs[**f]);
    let all: Vec<Func> = module.funcs.keys().collect();
    let some: Vec<Func> = all.iter().filter(may).copied().collect();
    if some.is_empty() {
        return None;
    }
    let mut module = module.clone();
    let facts = Facts::of(&module, Stage::AfterAd);
    for f in some {
        edit(&mut module, f, |types, func| {
            if through::run(types, func, &constants) {
                cse::run(types, func, &facts);
                dce::run(func, &facts);
            }
        });
    }
    Some(module)
}

/// Cleans one function between the passes of AD: folds, merges, removes. Nothing is known about its callees,
/// so calls stay.
pub fn clean(types: &mut Types, func: &mut Function) {
    let facts = Facts::default();
    simplify::run(types, func, &Options::default());
    cse::run(types, func, &facts);
    dce::run(func, &facts);
}

/// Optimises one function fully; returns true if anything changed.
pub fn run_function(types: &mut Types, func: &mut Function, facts: &Facts, options: &Options) -> bool {
    let changed = circle(types, func, facts, options);
    changed | licm::run(types, func, facts)
}

/// Runs the sequence of passes that enable each other once.
fn circle(types: &mut Types, func: &mut Function, facts: &Facts, options: &Options) -> bool {
    let mut changed = simplify::run(types, func, options);
    if scalarize::run(types, func) | explode::run(types, func) {
        simplify::run(types, func, options);
        changed = true;
    }
    changed |= cse::run(types, func, facts);
    changed |= dce::run(func, facts);
    changed
}

/// The names of the passes, as tests and the command line use them.
pub const PASSES: [&str; 21] = [
    "chains",
    "simplify",
    "scalarize",
    "explode",
    "differentials",
    "delay",
    "countdown",
    "cse",
    "dce",
    "licm",
    "unroll",
    "reread",
    "through",
    "pour",
    "deliver",
    "undo",
    "inline",
    "strip-detach",
    "clean",
    "before-ad",
    "after-ad",
];

/// Runs one pass by its name on a whole module; `None` if no pass has that name.
pub fn run_pass(module: &mut Module, name: &str, options: &Options) -> Option<()> {
    if !PASSES.contains(&name) {
        return None;
    }
    match name {
        "inline" => {
            inline::inline(module, options, Stage::AfterAd, &|_| false);
        }
        "before-ad" => before_ad(module, options),
        "after-ad" => {
            let all: Vec<Func> = module.funcs.keys().collect();
            after_ad(module, options, &all);
        }
        _ => {
            let facts = Facts::of(module, Stage::AfterAd);
            let constants = through::Constants::of(module);
            let all: Vec<Func> = module.funcs.keys().collect();
            for f in all {
                edit(module, f, |types, func| {
                    let _changed = match name {
                        "chains" => chains::run(types, func),
                        "simplify" => simplify::run(types, func, options),
                        "scalarize" => scalarize::run(types, func),
                        "explode" => explode::run(types, func),
                        "differentials" => {
                            differentials::run(types, func, options, Border::Callers) != Lowered::Nothing
                        }
                        "delay" => delay::run(func, &facts),
                        "countdown" => countdown::run(types, func),
                        "cse" => cse::run(types, func, &facts),
                        "dce" => dce::run(func, &facts),
                        "licm" => licm::run(types, func, &facts),
                        "reread" => reread::run(types, func, &facts),
                        "pour" => pour::run(types, func),
                        "deliver" => deliver::run(types, func),
                        "through" => through::run(types, func, &constants),
                        "undo" => undo::run(types, func),
                        "unroll" => unroll::run(types, func, false),
                        "strip-detach" => inline::strip_detach(types, func),
                        _ => {
                            clean(types, func);
                            true
                        }
                    };
                });
            }
        }
    }
    Some(())
}

/// Returns true if a function still contains a derivative operator.
pub fn has_derivative_ops(func: &Function) -> bool {
    let mut found = false;
    if func.has_body() {
        func.walk(func.body(), &mut |inst| {
            found |= matches!(func.insts[inst].op, Op::CallDerivative(..) | Op::CallTransposeOf(_));
        });
    }
    found
}

/// Changes a function with access to the module's types.
fn edit(module: &mut Module, f: Func, change: impl FnOnce(&mut Types, &mut Function)) {
    let mut func = take(module, f);
    change(&mut module.types, &mut func);
    put_back(module, f, func);
}
