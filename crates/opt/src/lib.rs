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

use std::cell::RefCell;

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

/// Is told what the passes made of each function: see [`before_ad_observed`].
pub trait Observer {
    /// Passes changed a function, which was `before`: `versions` has the name of each pass and the function after it.
    /// The module, which has the last version, is left as it is.
    fn changed(
        &mut self,
        module: &mut Module,
        func: Func,
        before: Function,
        versions: Vec<(&'static str, Function)>,
    );
}

/// The context of a pass besides the function.
struct Context<'a> {
    options: &'a Options,
    summaries: &'a Summaries,
    stage: Stage,
    /// The versions of the function at hand, if there is an observer.
    versions: Option<RefCell<Vec<(&'static str, Function)>>>,
}

/// A pass over one function, which has a body; returns true if anything changed.
#[derive(Clone, Copy)]
struct Pass {
    /// The name by which tests and the command line call it.
    name: &'static str,
    run: fn(&mut Types, &mut Function, &Context) -> bool,
}

const SIMPLIFY: Pass =
    Pass { name: "simplify", run: |types, func, cx| simplify::run(types, func, cx.options) };
const SCALARIZE: Pass = Pass { name: "scalarize", run: |types, func, _| scalarize::run(types, func) };
const CSE: Pass = Pass { name: "cse", run: |types, func, cx| cse::run(types, func, cx.summaries) };
const DCE: Pass = Pass { name: "dce", run: |_, func, cx| dce::run(func, cx.summaries) };
const FUSE_BRANCHES: Pass =
    Pass { name: "fuse-branches", run: |_, func, cx| fuse_branches::run(func, cx.summaries) };
const LICM: Pass = Pass { name: "licm", run: |types, func, cx| licm::run(types, func, cx.summaries) };
const UNROLL: Pass =
    Pass { name: "unroll", run: |types, func, cx| unroll::run(types, func, cx.unrolls_only_forced()) };
const CHAINS: Pass = Pass { name: "chains", run: |types, func, _| chains::run(types, func) };
const SINK_ABSENT: Pass =
    Pass { name: "sink-absent", run: |types, func, _| code_sinking::absent(types, func) };
const ACCUMULATORS: Pass =
    Pass { name: "accumulators", run: |types, func, _| accumulators::merge(types, func) };
const REMATERIALISE: Pass =
    Pass { name: "rematerialise", run: |types, func, cx| rematerialise::run(types, func, cx.summaries) };
const DELIVER: Pass = Pass { name: "deliver", run: |types, func, _| deliver::run(types, func) };
const DIFFERENTIALS: Pass = Pass {
    name: "differentials",
    run: |types, func, cx| differentials::run(types, func, cx.options, Border::Callers) != Lowered::Nothing,
};
const CONTRACT: Pass = Pass { name: "contract", run: |types, func, _| contract::run(types, func) };
const CODE_SINKING: Pass =
    Pass { name: "code-sinking", run: |_, func, cx| code_sinking::run(func, cx.summaries) };
const UNROLL_AND_JAM: Pass =
    Pass { name: "unroll-and-jam", run: |types, func, cx| unroll_and_jam::run(types, func, cx.summaries, 4) };
const COPY_FORWARDING: Pass = Pass {
    name: "copy-forwarding",
    run: |types, func, cx| copy_forwarding::run(types, func, cx.summaries, Unwanted::All),
};
const STRIP_DETACH: Pass = Pass { name: "strip-detach", run: |_, func, _| inline::strip_detach(func) };

/// The passes over functions.
const PASSES: [Pass; 18] = [
    SIMPLIFY,
    SCALARIZE,
    CSE,
    DCE,
    FUSE_BRANCHES,
    LICM,
    UNROLL,
    CHAINS,
    SINK_ABSENT,
    ACCUMULATORS,
    REMATERIALISE,
    DELIVER,
    DIFFERENTIALS,
    CONTRACT,
    CODE_SINKING,
    UNROLL_AND_JAM,
    COPY_FORWARDING,
    STRIP_DETACH,
];

/// The names of the passes over whole modules.
const MODULE_PASSES: [&str; 6] = ["inline", "check-finite", "recursion", "arena", "before-ad", "after-ad"];

/// The names of all passes.
pub fn passes() -> impl Iterator<Item = &'static str> {
    PASSES.iter().map(|pass| pass.name).chain(MODULE_PASSES)
}

impl<'a> Context<'a> {
    fn new(options: &'a Options, summaries: &'a Summaries, stage: Stage, is_observed: bool) -> Context<'a> {
        Context { options, summaries, stage, versions: is_observed.then(RefCell::default) }
    }

    fn unrolls_only_forced(&self) -> bool {
        self.stage == Stage::BeforeAd || self.options.level < 2
    }

    /// Runs a pass; returns true if anything changed.
    fn run(&self, pass: Pass, types: &mut Types, func: &mut Function) -> bool {
        let changed = (pass.run)(types, func, self);
        self.note(changed, pass.name, func);
        changed
    }

    /// Keeps a version of the function for the observer, if a pass has changed it.
    fn note(&self, changed: bool, pass: &'static str, func: &Function) {
        if let Some(versions) = self.versions.as_ref().filter(|_| changed) {
            versions.borrow_mut().push((pass, func.clone()));
        }
    }
}

/// The observer of a stage, if there is one.
type Observed<'o> = Option<&'o mut dyn Observer>;

/// Changes a function, and tells the observer what each pass made of it.
fn observe(
    module: &mut Module,
    f: Func,
    cx: &Context,
    observer: &mut Observed,
    change: impl FnOnce(&mut Types, &mut Function),
) {
    let before = observer.is_some().then(|| module.funcs[f].clone());
    edit(module, f, change);
    if let (Some(observer), Some(before), Some(versions)) = (observer, before, &cx.versions) {
        observer.changed(module, f, before, versions.take());
    }
}

/// Inlines the calls in a function, and tells the observer.
fn inline_calls(module: &mut Module, f: Func, plan: &inline::Plan, observer: &mut Observed) {
    let before = observer.is_some().then(|| module.funcs[f].clone());
    if plan.caller(module, f)
        && let (Some(observer), Some(before)) = (observer, before)
    {
        let after = module.funcs[f].clone();
        observer.changed(module, f, before, vec![("inline", after)]);
    }
}

/// Optimises before AD: small, clean primal functions make small derivatives. Functions with a custom
/// derivative are neither inlined nor removed.
pub fn before_ad(module: &mut Module, options: &Options) {
    before_ad_observed(module, options, None);
}

/// As [`before_ad`], and tells an observer what each pass did.
pub fn before_ad_observed(module: &mut Module, options: &Options, mut observer: Observed) {
    let stage = Stage::BeforeAd;
    let mut order: Vec<Func> = module.funcs.keys().collect();
    let mut plan = None;
    if options.level > 0 {
        inline::pass_rules_on(module);
        let mut keep: Vec<bool> = module.funcs.keys().map(|f| module.witnesses.contains_key(&f)).collect();
        if options.check_finite != CheckFinite::Nothing {
            // The values of written derivatives are marked where they are written.
            let rules = module.witnesses.values().flat_map(|w| [w.jvp, w.vjp]).flatten();
            let written = rules.flat_map(|rule| ir::walk::callees(&module.funcs[rule]));
            written.for_each(|f| keep[f.index()] = true);
        }
        let keep = |f: Func| keep[f.index()];
        let made = inline::Plan::of(module, options, stage, &keep);
        order.clone_from(&made.order);
        plan = Some(made);
    }
    let summaries = Summaries::of(module, stage);
    let cx = Context::new(options, &summaries, stage, observer.is_some());
    for f in order {
        if module.funcs[f].has_body() {
            if let Some(plan) = &plan {
                inline_calls(module, f, plan, &mut observer);
            }
            observe(module, f, &cx, &mut observer, |types, func| _ = optimise(types, func, &cx));
        }
    }
}

/// Inlines functions that only wrap derivative operators, so that each operator stands where the program uses
/// it and sees the differentials that it is given.
pub fn place_derivatives(module: &mut Module) {
    let only_asks = |f: &Function| f.inline == Inline::Always && has_derivative_ops(f);
    let keep: Vec<bool> = module.funcs.values().map(|f| !only_asks(f)).collect();
    let keep = |f: Func| keep[f.index()];
    inline::inline(module, &Options { level: 0, ..Options::default() }, Stage::BeforeAd, &keep);
}

/// Optimises after AD, when derivatives are plain code. `roots` are the functions that the host may call; any
/// other function that is called once is optimised only within its caller.
pub fn after_ad(module: &mut Module, options: &Options, roots: &[Func]) {
    after_ad_observed(module, options, roots, None);
}

/// As [`after_ad`], and tells an observer what each pass did.
pub fn after_ad_observed(module: &mut Module, options: &Options, roots: &[Func], mut observer: Observed) {
    let stage = Stage::AfterAd;
    module.funcs.values_mut().for_each(|func| _ = inline::strip_detach(func));
    let mut summaries = Summaries::default();
    // Finished functions, and whether each has something new for `cse` to merge.
    let mut done: Vec<(Func, bool)> = Vec::new();
    let mut all_roots = roots.to_vec();
    if options.level == 0 {
        done.extend(with_bodies(module).map(|f| (f, false)));
    } else {
        let plain = (options.check_finite != CheckFinite::Nothing).then(|| finite::prepare(module));
        let mut plan = inline::Plan::of(module, options, stage, &|_| false);
        all_roots.extend(module.entries.iter().map(|e| e.func));
        all_roots.extend(module.globals.values().filter_map(|g| g.init));
        plan.defer(all_roots.iter().copied());
        summaries = Summaries::of(module, stage);
        let cx = Context::new(options, &summaries, stage, observer.is_some());
        let mut called = vec![false; module.funcs.len()];
        let own = plan.order.iter().filter(|&&f| !plan.is_deferred(f));
        // Of the deferred functions, callers come first: only then is it known whether a call is left.
        let deferred = plan.order.iter().rev().filter(|&&f| plan.is_deferred(f));
        for &f in own.chain(deferred) {
            if !module.funcs[f].has_body() || plan.is_deferred(f) && !called[f.index()] {
                continue;
            }
            inline_calls(module, f, &plan, &mut observer);
            if let Some(plain) = &plain {
                if module.funcs[f].inline == Inline::Always && !all_roots.contains(&f) {
                    // The function is checked where it is inlined.
                    continue;
                }
                finite::run(module, f, plain, options.check_finite);
            }
            observe(module, f, &cx, &mut observer, |types, func| {
                done.push((f, optimise(types, func, &cx)));
            });
            ir::walk::callees(&module.funcs[f]).into_iter().for_each(|callee| called[callee.index()] = true);
        }
    }
    let borders = borders(module, &all_roots);
    let cx = Context::new(options, &summaries, stage, observer.is_some());
    for (f, stale) in done {
        let border = borders[f.index()];
        observe(module, f, &cx, &mut observer, |types, func| finish(types, func, &cx, border, stale));
    }
}

/// Steps 2 to 4 of the pipeline. Returns true if the last of them made work for `cse`, which step 5 does after AD.
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
        let folded = fold(types, func, cx) | (is_after && cx.run(FUSE_BRANCHES, types, func));
        stale = cx.run(LICM, types, func);
        changed = cx.run(UNROLL, types, func);
        if !(folded | stale | changed) {
            break;
        }
    }
    if !is_after {
        changed |= cx.run(CHAINS, types, func);
    } else if level > 0 {
        changed |= cx.run(SINK_ABSENT, types, func) | cx.run(ACCUMULATORS, types, func);
        if level >= 2 && cx.run(REMATERIALISE, types, func) {
            fold(types, func, cx);
            cx.run(LICM, types, func);
            changed = true;
        }
    }
    if changed && level > 0 {
        fold(types, func, cx);
    }
    if is_after && level > 0 && cx.run(DELIVER, types, func) {
        // Takes vectors apart that were only made to be added to an array.
        fold(types, func, cx);
    } else if stale && !is_after {
        cx.run(CSE, types, func);
    }
    stale
}

/// Runs the sequence of passes that enable each other once; returns true if anything changed.
fn fold(types: &mut Types, func: &mut Function, cx: &Context) -> bool {
    let mut changed = cx.run(SIMPLIFY, types, func);
    if cx.run(SCALARIZE, types, func) {
        cx.run(SIMPLIFY, types, func);
        changed = true;
    }
    changed |= cx.run(CSE, types, func);
    changed | cx.run(DCE, types, func)
}

/// Steps 5 and 6 of the pipeline.
fn finish(types: &mut Types, func: &mut Function, cx: &Context, border: Border, stale: bool) {
    let lowered = differentials::run(types, func, cx.options, border);
    cx.note(lowered != Lowered::Nothing, DIFFERENTIALS.name, func);
    if cx.options.level > 0 {
        clean_up(types, func, cx, lowered, stale);
    }
    if cx.options.contract {
        cx.run(CONTRACT, types, func);
    }
    if cx.options.level > 0 {
        cx.run(CODE_SINKING, types, func);
    }
}

/// Simplifies the code that *differentials* leaves.
fn clean_up(types: &mut Types, func: &mut Function, cx: &Context, lowered: Lowered, stale: bool) {
    if lowered != Lowered::Nothing {
        cx.run(SIMPLIFY, types, func);
    }
    if lowered == Lowered::Guarded {
        cx.run(LICM, types, func);
    }
    let forwarded = copy_forwarding::run(types, func, cx.summaries, Unwanted::HardlyRead);
    cx.note(forwarded, COPY_FORWARDING.name, func);
    if stale | forwarded || lowered != Lowered::Nothing {
        cx.run(CSE, types, func);
        cx.run(DCE, types, func);
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
    for (f, func) in module.funcs.iter().filter(|(_, func)| func.has_body()) {
        let mut func = func.clone();
        if copy_forwarding::run(&mut types, &mut func, &summaries, Unwanted::All) {
            cse::run(&mut types, &mut func, &summaries);
            dce::run(&mut func, &summaries);
            made.get_or_insert_with(|| module.clone()).funcs[f] = func;
        }
    }
    made.map(|made| Module { types, ..made })
}

/// The functions that have a body.
fn with_bodies(module: &Module) -> impl Iterator<Item = Func> + '_ {
    module.funcs.iter().filter(|(_, func)| func.has_body()).map(|(f, _)| f)
}

/// Determines who calls each function: the host or other functions.
fn borders(module: &Module, roots: &[Func]) -> Vec<Border> {
    let mut borders = vec![Border::Callers; module.funcs.len()];
    roots.iter().for_each(|root| borders[root.index()] = Border::Host);
    let callees = module.funcs.values().flat_map(ir::walk::callees);
    callees.for_each(|callee| borders[callee.index()] = Border::Callers);
    borders
}

/// Runs one pass by its name on a whole module; `None` if no pass has that name. A pass over functions says of each whether it
/// has changed it.
pub fn run_pass(module: &mut Module, name: &str, options: &Options) -> Option<Vec<(Func, bool)>> {
    let mut said = Vec::new();
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
            let pass = PASSES.iter().find(|pass| pass.name == name)?;
            let stage = Stage::AfterAd;
            let summaries = Summaries::of(module, stage);
            let cx = Context::new(options, &summaries, stage, false);
            for f in with_bodies(module).collect::<Vec<_>>() {
                edit(module, f, |types, func| said.push((f, (pass.run)(types, func, &cx))));
            }
        }
    }
    Some(said)
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
