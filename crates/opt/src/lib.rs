//! Optimises the IR: the same meaning, less work.
//!
//! This file contains the whole pipeline. Every pass is a file that begins with an argument for its
//! correctness; every pass keeps the verifier's rules, the marks of linear values and the spans, and takes
//! time roughly linear in the size of the program. What passes know of a function they ask
//! [`ir::analysis`].
//!
//! # The pipeline
//!
//! Each function goes through the same steps, callees before callers, once before differentiation and once
//! after it ([`optimise`], then [`finish`]); a step that only serves derivatives is left out before.
//!
//! 1. **inline** calls.
//! 2. **fold**, **fuse-branches** (after), **licm**, **unroll**, again and again while they change something, up to a
//!    few times.
//!    *fold* is **simplify**, **scalarize**, **cse**, **dce**: simplify makes constants, which
//!    make indices constant, which lets scalarize turn cells into values, so that cse and simplify see
//!    through former memory. unroll makes counters constant, which enables the same again.
//! 3. Before: **chains** cuts nests of `if`s that would keep too much for reverse mode.
//! 4. After: **sink-absent**, **accumulators** and **rematerialise** change what reverse mode keeps and sums
//!    up, and *fold* cleans up; **deliver** then adds to buffers directly.
//! 5. After: **differentials** turns differentials into numbers. Callers have inlined their callees by then,
//!    since more is known about differentials there.
//! 6. After: **contract** fuses products with sums if the user allows it, **copy-forwarding** removes copies of
//!    memory that are hardly read (all copies, for devices), and **code-sinking** shapes the code for backends.
//!
//! Level 0 has only those steps that later stages rely on, chains and differentials, and contraction.
#![forbid(unsafe_code)]

mod accumulators;
pub mod arena;
mod chains;
mod code_sinking;
mod contract;
mod copy_forwarding;
mod deliver;
mod differentials;
mod finite;
mod fuse_branches;
pub mod inline;
mod licm;
pub mod math;
pub mod prune;
pub mod recursion;
mod rematerialise;
mod scalarize;
mod simplify;
mod unroll;
mod unroll_and_jam;
mod util;

use copy_forwarding::Unwanted;
use cranelift_entity::EntityRef;
use differentials::{Border, Lowered};
use ir::analysis::{Stage, Summaries};
use ir::build::{put_back, take};
use ir::transform::{cse, dce};
use ir::{Func, Function, Inline, Module, Op, Types};
pub use prune::prune;

/// The options of the optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Allows rules that hold for real numbers but may drop a NaN, an infinity or the sign of a zero.
    pub fast_math: bool,
    /// Fuses products with sums, so that they are rounded once.
    pub contract: bool,
    /// 0: only the passes that later stages rely on; 1: cheap passes; 2: all passes.
    pub level: u8,
    /// Stops the program where a number becomes infinite or NaN (from level 1 on).
    pub check_finite: CheckFinite,
    /// True if the code is for a device; `None` if the target is not known.
    pub on_device: Option<bool>,
}

/// The numbers that must be finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckFinite {
    /// None.
    #[default]
    Nothing,
    /// Differentials.
    Differentials,
    /// All that are read, for a program that is known to compute one that is not finite and should not.
    Everything,
}

impl CheckFinite {
    /// Differentials, if they are to be checked.
    pub fn differentials(are_checked: bool) -> CheckFinite {
        if are_checked { CheckFinite::Differentials } else { CheckFinite::Nothing }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            fast_math: false,
            contract: false,
            level: 2,
            check_finite: CheckFinite::Nothing,
            on_device: None,
        }
    }
}

/// The context of a pass besides the function.
struct Context<'a> {
    options: &'a Options,
    summaries: &'a Summaries,
    stage: Stage,
}

/// A pass over one function; returns true if anything changed.
type Pass = fn(&mut Types, &mut Function, &Context) -> bool;

/// The passes over functions, by the names that tests and the command line use.
const PASSES: [(&str, Pass); 18] = [
    ("simplify", |types, func, cx| simplify::run(types, func, cx.options)),
    ("scalarize", |types, func, _| scalarize::run(types, func)),
    ("cse", |types, func, cx| cse::run(types, func, cx.summaries)),
    ("dce", |_, func, cx| dce::run(func, cx.summaries)),
    ("fuse-branches", |_, func, cx| fuse_branches::run(func, cx.summaries)),
    ("licm", |types, func, cx| licm::run(types, func, cx.summaries)),
    ("unroll", |types, func, cx| unroll::run(types, func, cx.unrolls_only_forced())),
    ("chains", |types, func, _| chains::run(types, func)),
    ("sink-absent", |types, func, _| code_sinking::absent(types, func)),
    ("accumulators", |types, func, _| accumulators::merge(types, func)),
    ("rematerialise", |types, func, cx| rematerialise::run(types, func, cx.summaries)),
    ("deliver", |types, func, _| deliver::run(types, func)),
    ("differentials", |types, func, cx| {
        differentials::run(types, func, cx.options, Border::Callers) != Lowered::Nothing
    }),
    ("contract", |types, func, _| contract::run(types, func)),
    ("code-sinking", |_, func, cx| code_sinking::run(func, cx.summaries)),
    ("unroll-and-jam", |types, func, cx| unroll_and_jam::run(types, func, cx.summaries, 4)),
    ("copy-forwarding", |types, func, cx| copy_forwarding::run(types, func, cx.summaries, Unwanted::All)),
    ("strip-detach", |_, func, _| inline::strip_detach(func)),
];

/// The names of the passes over whole modules.
const MODULE_PASSES: [&str; 6] = ["inline", "check-finite", "recursion", "arena", "before-ad", "after-ad"];

/// The names of all passes.
pub fn passes() -> impl Iterator<Item = &'static str> {
    PASSES.iter().map(|pass| pass.0).chain(MODULE_PASSES)
}

impl Context<'_> {
    fn unrolls_only_forced(&self) -> bool {
        self.stage == Stage::BeforeAd || self.options.level < 2
    }
}

/// Optimises before AD: small, clean primal functions make small derivatives. Functions with a custom
/// derivative are neither inlined nor removed.
pub fn before_ad(module: &mut Module, options: &Options) {
    let stage = Stage::BeforeAd;
    let mut order: Vec<Func> = module.funcs.keys().collect();
    let mut plan = None;
    if options.level > 0 {
        inline::pass_rules_on(module);
        let keep: Vec<bool> = module.funcs.keys().map(|f| module.witnesses.contains_key(&f)).collect();
        let keep = |f: Func| keep.get(f.index()).copied().unwrap_or(false);
        let made = inline::Plan::of(module, options, stage, &keep);
        order.clone_from(&made.order);
        plan = Some(made);
    }
    let summaries = Summaries::of(module, stage);
    let cx = Context { options, summaries: &summaries, stage };
    for f in order {
        if module.funcs[f].has_body() {
            plan.iter().for_each(|plan| _ = plan.caller(module, f));
            edit(module, f, |types, func| _ = optimise(types, func, &cx));
        }
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
    let stage = Stage::AfterAd;
    module.funcs.values_mut().for_each(|func| _ = inline::strip_detach(func));
    let mut summaries = Summaries::default();
    // Finished functions, and whether each has something new for `cse` to merge.
    let mut done: Vec<(Func, bool)> = Vec::new();
    let mut all_roots = roots.to_vec();
    if options.level == 0 {
        done.extend(module.funcs.keys().map(|f| (f, false)));
    } else {
        let plain = (options.check_finite != CheckFinite::Nothing).then(|| finite::prepare(module));
        let mut plan = inline::Plan::of(module, options, stage, &|_| false);
        all_roots.extend(module.entries.iter().map(|e| e.func));
        all_roots.extend(module.globals.values().filter_map(|g| g.init));
        plan.defer(all_roots.iter().copied());
        summaries = Summaries::of(module, stage);
        let cx = Context { options, summaries: &summaries, stage };
        let mut called = vec![false; module.funcs.len()];
        let own = plan.order.iter().filter(|&&f| !plan.is_deferred(f));
        // Of the deferred functions, callers come first: only then is it known whether a call is left.
        let deferred = plan.order.iter().rev().filter(|&&f| plan.is_deferred(f));
        for &f in own.chain(deferred) {
            if !module.funcs[f].has_body() || plan.is_deferred(f) && !called[f.index()] {
                continue;
            }
            plan.caller(module, f);
            if let Some(plain) = &plain {
                if module.funcs[f].inline == Inline::Always && !all_roots.contains(&f) {
                    // The function is checked where it is inlined.
                    continue;
                }
                finite::run(module, f, plain, options.check_finite);
            }
            edit(module, f, |types, func| done.push((f, optimise(types, func, &cx))));
            ir::walk::callees(&module.funcs[f]).into_iter().for_each(|callee| called[callee.index()] = true);
        }
    }
    let borders = borders(module, &all_roots);
    let cx = Context { options, summaries: &summaries, stage };
    for (f, stale) in done {
        edit(module, f, |types, func| finish(types, func, &cx, borders[f.index()], stale));
    }
}

/// Steps 2 to 4 of the pipeline. Returns true if the last of them made work for `cse`.
fn optimise(types: &mut Types, func: &mut Function, cx: &Context) -> bool {
    let (level, is_after) = (cx.options.level, cx.stage == Stage::AfterAd);
    let (mut stale, mut changed) = (false, false);
    for _ in 0..if level == 0 {
        0
    } else if level >= 2 && is_after {
        4
    } else {
        1
    } {
        let folded = fold(types, func, cx) | (is_after && fuse_branches::run(func, cx.summaries));
        stale = licm::run(types, func, cx.summaries);
        changed = unroll::run(types, func, cx.unrolls_only_forced());
        if !(folded | stale | changed) {
            break;
        }
    }
    if !is_after {
        changed |= chains::run(types, func);
    } else if level > 0 {
        changed |= code_sinking::absent(types, func) | accumulators::merge(types, func);
        if level >= 2 && rematerialise::run(types, func, cx.summaries) {
            fold(types, func, cx);
            licm::run(types, func, cx.summaries);
            changed = true;
        }
    }
    if changed && level > 0 {
        fold(types, func, cx);
    }
    if is_after && level > 0 && deliver::run(types, func) {
        // Takes vectors apart that were only made to be added to an array.
        fold(types, func, cx);
    } else if stale && !(is_after && level >= 2) {
        cse::run(types, func, cx.summaries);
    }
    stale
}

/// Runs the sequence of passes that enable each other once; returns true if anything changed.
fn fold(types: &mut Types, func: &mut Function, cx: &Context) -> bool {
    let mut changed = simplify::run(types, func, cx.options);
    if scalarize::run(types, func) {
        simplify::run(types, func, cx.options);
        changed = true;
    }
    changed |= cse::run(types, func, cx.summaries);
    changed | dce::run(func, cx.summaries)
}

/// Steps 5 and 6 of the pipeline.
fn finish(types: &mut Types, func: &mut Function, cx: &Context, border: Border, stale: bool) {
    let lowered = differentials::run(types, func, cx.options, border);
    if cx.options.level > 0 {
        clean_up(types, func, cx, lowered, stale);
    }
    if cx.options.contract {
        contract::run(types, func);
    }
    if cx.options.level > 0 {
        code_sinking::run(func, cx.summaries);
    }
}

/// Simplifies the code that *differentials* leaves.
fn clean_up(types: &mut Types, func: &mut Function, cx: &Context, lowered: Lowered, stale: bool) {
    if lowered != Lowered::Nothing {
        simplify::run(types, func, cx.options);
    }
    if lowered == Lowered::Guarded {
        licm::run(types, func, cx.summaries);
    }
    let stale = stale | copy_forwarding::run(types, func, cx.summaries, Unwanted::HardlyRead);
    if stale || lowered != Lowered::Nothing {
        cse::run(types, func, cx.summaries);
        dce::run(func, cx.summaries);
    }
}

/// Optimises for lanes, which compute several results side by side: `ways` trips of a loop run in one inner loop. `None`
/// if nothing changes.
pub fn for_lanes(module: &Module, ways: u64) -> Option<Module> {
    let summaries = Summaries::of(module, Stage::AfterAd);
    let (mut types, mut made) = (module.types.clone(), None);
    for (f, func) in module.funcs.iter().filter(|(_, func)| func.contains(|op| matches!(op, Op::For(_)))) {
        let mut func = func.clone();
        if unroll_and_jam::run(&mut types, &mut func, &summaries, ways) {
            cse::run(&mut types, &mut func, &summaries);
            dce::run(&mut func, &summaries);
            made.get_or_insert_with(|| module.clone()).funcs[f] = func;
        }
    }
    made.map(|made| Module { types, ..made })
}

/// Optimises for devices, whose threads have little memory of their own: an array that is a copy of memory
/// that is never written is read from that memory instead. `None` if nothing changes.
pub fn for_devices(module: &Module) -> Option<Module> {
    let summaries = Summaries::of(module, Stage::AfterAd);
    let (mut types, mut made) = (module.types.clone(), None);
    for (f, func) in module.funcs.iter().filter(|(_, func)| func.contains(|op| *op == Op::Local)) {
        let mut func = func.clone();
        if copy_forwarding::run(&mut types, &mut func, &summaries, Unwanted::All) {
            cse::run(&mut types, &mut func, &summaries);
            dce::run(&mut func, &summaries);
            made.get_or_insert_with(|| module.clone()).funcs[f] = func;
        }
    }
    made.map(|made| Module { types, ..made })
}

/// Determines who calls each function: the host or other functions.
fn borders(module: &Module, roots: &[Func]) -> Vec<Border> {
    let mut borders = vec![Border::Callers; module.funcs.len()];
    roots.iter().for_each(|root| borders[root.index()] = Border::Host);
    let callees = module.funcs.values().flat_map(ir::walk::callees);
    callees.for_each(|callee| borders[callee.index()] = Border::Callers);
    borders
}

/// Runs one pass by its name on a whole module; `None` if no pass has that name.
pub fn run_pass(module: &mut Module, name: &str, options: &Options) -> Option<()> {
    let all: Vec<Func> = module.funcs.keys().collect();
    match name {
        "inline" => _ = inline::inline(module, options, Stage::AfterAd, &|_| false),
        "check-finite" | "check-values" => {
            // The text of the IR only has marks of linear values, which are dropped before this pass.
            let funcs = module.funcs.values_mut();
            funcs.for_each(|func| func.values.values_mut().for_each(|v| v.linear = false));
            let slots = module.funcs.values_mut().flat_map(|f| f.params.iter_mut().chain(&mut f.results));
            slots.for_each(|slot| slot.linear = false);
            let plain = finite::prepare(module);
            let all_values = name == "check-values";
            let checked = if all_values { CheckFinite::Everything } else { CheckFinite::Differentials };
            all.into_iter().for_each(|f| finite::run(module, f, &plain, checked));
        }
        "recursion" => {
            if let Some(made) = recursion::to_loops(module, &all, ir::Scalar::I64) {
                *module = made;
            }
        }
        "arena" => *module = arena::stacks_to_arena(module, &all),
        "before-ad" => before_ad(module, options),
        "after-ad" => after_ad(module, options, &all),
        _ => {
            let (_, pass) = PASSES.iter().find(|pass| pass.0 == name)?;
            let stage = Stage::AfterAd;
            let summaries = Summaries::of(module, stage);
            let cx = Context { options, summaries: &summaries, stage };
            for f in all {
                edit(module, f, |types, func| _ = pass(types, func, &cx));
            }
        }
    }
    Some(())
}

/// Returns true if a function still contains a derivative operator.
pub fn has_derivative_ops(func: &Function) -> bool {
    func.contains(|op| matches!(op, Op::CallDerivative(..) | Op::CallTransposeOf(_)))
}

/// Changes a function with access to the module's types.
fn edit(module: &mut Module, f: Func, change: impl FnOnce(&mut Types, &mut Function)) {
    let mut func = take(module, f);
    change(&mut module.types, &mut func);
    put_back(module, f, func);
}
