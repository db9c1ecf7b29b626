//! IR to IR: the same meaning, less work.
//!
//! The whole pipeline is on this page. Every pass is a file that opens with why it is right; every
//! pass keeps the verifier's rules, marks of linear values and spans, and takes time about linear
//! in the size of the program.
//!
//! The order follows from what feeds what. `simplify` makes constants, which make indices constant,
//! which lets `scalarize` turn cells into values, on which `cse` and `simplify` see through what
//! was memory. `unroll` makes counters constant and feeds the same circle; so the circle runs again
//! while it changes something, at most a few times. `licm` comes once there is nothing left to fold.
#![forbid(unsafe_code)]

pub mod countdown;
pub mod cse;
pub mod dce;
pub mod delay;
pub mod deliver;
pub mod effects;
pub mod explode;
mod finite;
pub mod guard;
pub mod inline;
pub mod licm;
pub mod math;
pub mod pour;
pub mod prune;
mod range;
pub mod reread;
pub mod scalarize;
pub mod simplify;
pub mod sink;
pub mod through;
pub mod undo;
pub mod unroll;
mod util;

pub use effects::{Effects, Facts, Stage};
pub use prune::prune;

use simplify::Zeros;

use cranelift_entity::EntityRef;
use ir::build::{put_back, take};
use ir::{Func, Function, Inline, Module, Op, Types};

/// What the user asks of the optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Rules that hold for real numbers but may drop a NaN, an infinity or the sign of a zero.
    pub fast_math: bool,
    /// 0: only what later stages rely on; 1: cheap; 2: all.
    pub level: u8,
    /// Stop the program where a differential becomes infinite or NaN (from level 1 on).
    pub check_finite: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { fast_math: false, level: 2, check_finite: false }
    }
}

/// Before AD: small, clean primal functions make small derivatives. Functions with a custom
/// derivative are neither inlined nor removed.
pub fn before_ad(module: &mut Module, options: &Options) {
    if options.level == 0 {
        // A zero of the program's is a number; what differentiation makes is none.
        let all: Vec<Func> = module.funcs.keys().collect();
        for f in all {
            edit(module, f, |types, func| {
                if simplify::has_zeros(types, func) {
                    simplify::run(types, func, options, Zeros::Numbers);
                }
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
            circle(types, func, &facts, options, Zeros::Numbers);
            if unroll::run(types, func, true) {
                circle(types, func, &facts, options, Zeros::Numbers);
            }
            if licm::run(types, func, &facts) {
                cse::run(types, func, &facts);
            }
        });
    }
}

/// Before linear functions that differentiation made are differentiated themselves: what was not taken adds nothing to
/// their derivatives either. Rules of the library are inlined, since they know what is taken.
pub fn before_again(module: &mut Module, made: &[Func]) {
    let is_rule = |f: &Function| f.linear_from.is_some() && module.is_library(f.span);
    let keep: Vec<bool> = module.funcs.values().map(|f| !is_rule(f)).collect();
    let keep = |f: Func| keep.get(f.index()).copied().unwrap_or(true);
    let plan = inline::Plan::of(module, &Options::default(), Stage::BeforeAd, &keep);
    for &f in made {
        plan.caller(module, f);
    }
    let facts = Facts::of(module, Stage::AfterAd);
    for &f in made {
        edit(module, f, |types, func| {
            guard::run_before_again(types, func, &facts);
        });
    }
}

/// After AD: derivatives are plain code; make it fast. `roots` are the functions that the host may
/// call; what is called once otherwise is only worked on within its caller.
pub fn after_ad(module: &mut Module, options: &Options, roots: &[Func]) {
    let all: Vec<Func> = module.funcs.keys().collect();
    for f in all {
        edit(module, f, |types, func| {
            inline::strip_detach(types, func);
        });
    }
    if options.level == 0 {
        return untaken(module, options);
    }
    let plain = options.check_finite.then(|| finite::prepare(module));
    let mut plan = inline::Plan::of(module, options, Stage::AfterAd, &|_| false);
    let entries = module.entries.iter().map(|e| e.func);
    let inits = module.globals.values().filter_map(|g| g.init);
    let roots: Vec<Func> = roots.iter().copied().chain(entries).chain(inits).collect();
    plan.defer(roots.iter().copied());
    let facts = Facts::of(module, Stage::AfterAd);
    let mut called = vec![false; module.funcs.len()];
    // Finished functions, and whether each has something new to merge.
    let mut done: Vec<(Func, bool)> = Vec::new();
    let mut finish = |module: &mut Module, f: Func, called: &mut [bool]| {
        if !module.funcs[f].has_body() {
            return;
        }
        plan.caller(module, f);
        if let Some(plain) = &plain {
            if module.funcs[f].inline == Inline::Always && !roots.contains(&f) {
                // Looked at where it is inlined.
                return;
            }
            // What was not taken is not looked at.
            edit(module, f, |types, func| {
                guard::run(types, f, func, &facts);
            });
            finite::run(module, f, plain);
        }
        edit(module, f, |types, func| done.push((f, rounds(types, f, func, &facts, options))));
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
    // Callers first: only they know whether a call is left.
    for &f in plan.order.iter().rev().filter(|&&f| plan.is_deferred(f)) {
        if called[f.index()] {
            finish(module, f, &mut called);
        }
    }
    // A callee's numbers must still be told from its symbolic zeros when it goes into its caller, so
    // this waits for the last of the callers.
    for (f, stale) in done {
        edit(module, f, |types, func| {
            if simplify::plain_zeros(func) | stale {
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

/// What of [`after_ad`] is no matter of speed: what was not taken adds nothing to a derivative.
fn untaken(module: &mut Module, options: &Options) {
    let is_rule = |f: &Function| f.linear_from.is_some() && module.is_library(f.span);
    let keep: Vec<bool> = module.funcs.values().map(|f| !is_rule(f)).collect();
    let keep = |f: Func| keep.get(f.index()).copied().unwrap_or(true);
    let plan = inline::Plan::of(module, &Options::default(), Stage::BeforeAd, &keep);
    for &f in &plan.order {
        plan.caller(module, f);
    }
    let facts = Facts::of(module, Stage::AfterAd);
    for &f in &plan.order {
        if !module.funcs[f].has_body() {
            continue;
        }
        edit(module, f, |types, func| {
            // A product with a symbolic zero is one.
            simplify::run(types, func, options, Zeros::Symbolic);
            if guard::run(types, f, func, &facts) {
                simplify::run(types, func, options, Zeros::Symbolic);
            }
        });
    }
    for &f in &plan.order {
        edit(module, f, |_, func| {
            simplify::plain_zeros(func);
        });
    }
}

/// The passes that feed each other, on a function whose calls have been replaced where they are to
/// be; true if what came last made work for `cse`.
fn rounds(types: &mut Types, f: Func, func: &mut Function, facts: &Facts, options: &Options) -> bool {
    let most = if options.level >= 2 { 4 } else { 1 };
    let mut stale = false;
    for _ in 0..most {
        let mut changed = circle(types, func, facts, options, Zeros::Symbolic);
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
            circle(types, func, facts, options, Zeros::Symbolic);
            licm::run(types, func, facts);
            changed = true;
        }
        if changed {
            circle(types, func, facts, options, Zeros::Symbolic);
        }
    }
    if guard::run(types, f, func, facts) {
        cse::run(types, func, facts);
        simplify::run(types, func, options, Zeros::Symbolic);
        stale = true;
    }
    if options.level >= 2 {
        stale |= deliver::run(types, func);
    }
    stale
}

/// For devices, whose threads have little memory of their own: arrays that are copies of what nobody writes are read
/// where that is. `None` if nothing changes.
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

/// Cleans one function between the passes of AD: folds, merges, removes. Nothing is known of its
/// callees, so calls stay.
pub fn clean(types: &mut Types, func: &mut Function) {
    let facts = Facts::default();
    simplify::run(types, func, &Options::default(), Zeros::Keep);
    cse::run(types, func, &facts);
    dce::run(func, &facts);
}

/// The full treatment of one function; true if anything changed.
pub fn run_function(types: &mut Types, func: &mut Function, facts: &Facts, options: &Options) -> bool {
    let changed = circle(types, func, facts, options, Zeros::Keep);
    changed | licm::run(types, func, facts)
}

/// One turn of what feeds itself.
fn circle(types: &mut Types, func: &mut Function, facts: &Facts, options: &Options, zeros: Zeros) -> bool {
    let mut changed = simplify::run(types, func, options, zeros);
    if scalarize::run(types, func) | explode::run(types, func) {
        simplify::run(types, func, options, zeros);
        changed = true;
    }
    changed |= cse::run(types, func, facts);
    changed |= dce::run(func, facts);
    changed
}

/// The passes by the names that tests and the command line use.
pub const PASSES: [&str; 20] = [
    "simplify",
    "scalarize",
    "explode",
    "guard",
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

/// Runs one pass by its name on a whole module; `None` if there is none of that name.
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
                        "simplify" => simplify::run(types, func, options, Zeros::Keep),
                        "scalarize" => scalarize::run(types, func),
                        "explode" => explode::run(types, func),
                        "guard" => guard::run(types, f, func, &facts),
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

/// Whether a function still holds a derivative operator.
pub fn has_derivative_ops(func: &Function) -> bool {
    let mut found = false;
    if func.has_body() {
        func.walk(func.body(), &mut |inst| {
            found |= matches!(
                func.insts[inst].op,
                Op::CallFwd(_)
                    | Op::CallBwd(_)
                    | Op::CallApply(_)
                    | Op::CallPullback(_)
                    | Op::CallTransposeOf(_)
            );
        });
    }
    found
}

/// Changes a function with the module's types at hand.
fn edit(module: &mut Module, f: Func, change: impl FnOnce(&mut Types, &mut Function)) {
    let mut func = take(module, f);
    change(&mut module.types, &mut func);
    put_back(module, f, func);
}
