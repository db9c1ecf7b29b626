//! Reverse mode of functions whose primal is run again: recursive functions, and those for which the user
//! prefers it.
//!
//! Usually a call is split, and its residuals become residuals of its caller. The residuals of a recursive
//! function would contain themselves without end. So a call that closes a cycle of the call graph is left
//! whole on the primal side, and its transpose is the callee's complete backward derivative, which is
//! declared before its body is built: `f̄(x, ȳ)` runs `f` at `x` once more. Memory grows only with the depth
//! of the recursion; time grows with the work of each call times its depth.
//!
//! The same mechanism serves `[PreferRecompute]` functions, whose residuals are not kept, segments of loops
//! ([`crate::segment`]), and functions whose calls branch so often that the residuals of all calls together
//! would be too many: `f40(x) = f39(x) * f39(x + 1)`, and so on down to `f0`.
//!
//! This is correct if running `f` again gives the same result and has no effects, so such a function may
//! neither write to memory nor read memory that the program writes; its own cells are fine. Custom backward
//! derivatives run once per call, in reverse order: the second run of the primal does not call them.

use cranelift_entity::EntitySet;
use ir::analysis::points_to::{PointsTo, may_alias, root_global};
use ir::analysis::post_order_of;
use ir::{Defs, Func, Function, Inst, Op, Prefer, Space, Span, Type, TypeData, Value};

use crate::engine::Engine;

/// Functions with at most this many instructions in their call trees are not checked for repeated calls.
const MAX_TREE: u64 = 1 << 12;
/// Above this number of instructions the residuals are too many to keep in any case.
const HOPELESS: u64 = 1 << 18;
/// A call tree is a bush if its instructions are repeated at least this many times on average.
const LEAST_REPEATED: u64 = 16;

/// Memory that is read or written: a global, or memory reached through a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Global(ir::Global),
    /// Any memory with elements of this type.
    Handle(Type),
}

/// The instructions before `assert false` in the same region: the program ends there, so they never run a second time,
/// such as what an `abort` prints.
fn ending(src: &Function, defs: &Defs) -> EntitySet<Inst> {
    let mut found = EntitySet::new();
    for region in src.regions.values() {
        let ends = |inst: &Inst| {
            let data = &src.insts[*inst];
            matches!(data.op, Op::Assert(_))
                && matches!(defs.op(src, data.args[0]), Some(Op::Const(0) | Op::Zero))
        };
        let n = region.insts.iter().rposition(ends).unwrap_or(0);
        for &inst in &region.insts[..n] {
            found.insert(inst);
            src.insts[inst]
                .regions
                .iter()
                .for_each(|&inner| src.walk(inner, &mut |inst| _ = found.insert(inst)));
        }
    }
    found
}

/// The reason why a function must not be run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It calls a function that computes a different primal in derivatives.
    OtherValue,
    /// It has the described effect.
    Effect(&'static str),
    /// It reads memory that may have changed by then.
    ReadsWritten,
}

/// A function that must not be run again: the reason and its location.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Once {
    pub(crate) span: Span,
    pub(crate) why: Why,
}

impl Once {
    /// Describes the reason, for a message about reverse mode.
    pub(crate) fn in_reverse(self) -> String {
        match self.why {
            Why::OtherValue => "calls a function that has another value in derivatives".into(),
            Why::Effect(what) => format!("{what}, which reverse mode would make it do twice"),
            Why::ReadsWritten => {
                "reads memory that the program writes, which reverse mode would read again later".into()
            }
        }
    }
}

impl Engine<'_> {
    /// Reports a problem if running a function again at a later time would have effects or read changed
    /// memory. It is no problem if the derivative is that of a substitute, as the user asked for that.
    pub(crate) fn check_again(&mut self, of: Func, who: &str) {
        if let Some((span, what)) = self.forbids_again(of) {
            self.forbid_again(of, who, span, what);
        }
    }

    /// The effect that forbids to run a function again at a later time, and its location.
    pub(crate) fn forbids_again(&self, of: Func) -> Option<(Span, &'static str)> {
        match self.runs_once(of)? {
            Once { span, why: Why::Effect(what) } => Some((span, what)),
            Once { span, why: Why::ReadsWritten } => Some((span, "reads memory that the program writes")),
            Once { why: Why::OtherValue, .. } => None,
        }
    }

    /// Reports a problem if running a function twice in a row would have effects twice.
    pub(crate) fn check_twice(&mut self, of: Func) {
        if let Some(Once { span, why: Why::Effect(what) }) = self.runs_once(of) {
            self.forbid_again(of, "'__apply' of a function that gives back pointers", span, what);
        }
    }

    fn forbid_again(&mut self, of: Func, who: &str, span: Span, what: &str) {
        let message = format!(
            "{who} would run '{}' again, and it {what}: call 'bwd_diff', or give it an '__apply' extension with a context \
             of its own",
            self.user_name(of)
        );
        self.problem(span, "E0918", message);
    }

    /// Returns true if reverse mode runs the callee of a call again instead of keeping its residuals.
    pub(crate) fn is_run_again(&mut self, caller: Func, callee: Func) -> bool {
        if self.facts.cycles.closes(self.module, caller, callee) {
            return true;
        }
        let is_preferred = self.module.funcs[callee].checkpoint.prefer == Prefer::Recompute;
        if !is_preferred && self.facts.cycles.is_recursive(self.module, callee) {
            return false;
        }
        let is_bush = self.is_bush(callee);
        if !is_preferred && !is_bush {
            return false;
        }
        match self.runs_once(callee) {
            None => true,
            Some(once) => {
                let is_hopeless = is_bush && self.tree(callee) > HOPELESS;
                if is_hopeless && self.facts.bushes.insert(callee) {
                    let message = format!(
                        "'{}' calls functions that call others, more than {HOPELESS} operations in all, and it {}: what \
                         reverse mode would keep of them has no end",
                        self.user_name(callee),
                        once.in_reverse()
                    );
                    self.problem(once.span, "E0903", message);
                }
                // A preference that cannot be met only costs memory, but an explicit request of the user must
                // be answered.
                if self.is_segment(callee) {
                    self.problem(
                        once.span,
                        "E0914",
                        format!("a loop with [Checkpoint] {}", once.in_reverse()),
                    );
                }
                // The program is refused: what would have no end is not built.
                is_hopeless
            }
        }
    }

    /// Returns true if the same functions are called so often, directly or indirectly, that the residuals of
    /// all these calls are too many to keep: the residuals grow with the call tree, while the values computed
    /// are limited by the size of the distinct functions.
    fn is_bush(&mut self, func: Func) -> bool {
        if self.tree(func) <= MAX_TREE {
            return false;
        }
        let reached: Vec<Func> = self.reachable(&[func]).iter().collect();
        let distinct: usize = reached.iter().map(|&f| self.module.funcs[f].insts.len()).sum();
        self.tree(func) / LEAST_REPEATED > distinct as u64
    }

    /// The number of instructions of a function, including those of its callees once per call.
    pub(crate) fn tree(&mut self, func: Func) -> u64 {
        let trees = &mut self.facts.trees;
        for at in post_order_of(self.module, [func], &|f| trees.contains_key(&f)) {
            let (src, mut size) = (&self.module.funcs[at], 0u64);
            if src.has_body() {
                src.walk(src.body(), &mut |inst| {
                    // The residuals of a recursive callee are handled separately.
                    let callee = src.insts[inst].op.callee().and_then(|callee| trees.get(&callee));
                    size = size.saturating_add(1).saturating_add(callee.copied().unwrap_or(0));
                });
            }
            trees.insert(at, size);
        }
        self.facts.trees[&func]
    }

    /// Returns the reason why a function cannot be run again, if there is one.
    pub(crate) fn runs_once(&self, func: Func) -> Option<Once> {
        let reached: Vec<Func> = self.reachable(&[func]).iter().collect();
        let mut reads = Vec::new();
        let mut other = None;
        let mut effect: Option<(&'static str, Span)> = None;
        for &at in reached.iter().filter(|&&f| self.module.funcs[f].has_body()) {
            let src = &self.module.funcs[at];
            let witness = self.module.witness(at);
            if witness.apply.is_some() && !witness.is_same {
                other = other.or(Some(Once { span: src.span, why: Why::OtherValue }));
            }
            let defs = Defs::of(src);
            let ending = ending(src, &defs);
            src.walk(src.body(), &mut |inst| {
                let data = &src.insts[inst];
                if ending.contains(inst) {
                    return;
                }
                let what = match data.op {
                    Op::BufferStore(_) | Op::Atomic(..) => "writes to memory",
                    Op::Printf(_) => "prints",
                    Op::Barrier | Op::WaveGather | Op::WaveMultiply(_) => "waits for other threads",
                    Op::BufferLoad(_) => {
                        let place = self.place(src, &defs, data.args[0]);
                        reads.extend(place.map(|p| (p, (at, data.args[0]), data.span)));
                        return;
                    }
                    _ => return,
                };
                effect = effect.or(Some((what, data.span)));
            });
        }
        if let Some((what, span)) = effect {
            return Some(Once { span, why: Why::Effect(what) });
        }
        let written = if reads.is_empty() { Vec::new() } else { self.written() };
        let clash = |place: &Place| written.iter().any(|w| self.may_be_same(w.0, *place));
        reads.retain(|(place, ..)| clash(place));
        // Only if that leaves any, the more precise points-to analysis is run.
        if reads.is_empty() {
            return other;
        }
        let points_to = PointsTo::of(self.module, &|f| self.is_generated(f));
        let run = points_to.within(func);
        let written: Vec<_> = written.iter().map(|w| (w.0, points_to.memory(w.1.0, w.1.1))).collect();
        let clash = reads.iter().find(|(place, handle, _)| {
            let read = run.memory(handle.0, handle.1);
            written.iter().any(|w| self.may_be_same(w.0, *place) && may_alias(&w.1, &read))
        });
        clash.map(|&(.., span)| Once { span, why: Why::ReadsWritten }).or(other)
    }

    /// The memory behind a handle; `None` if it is read-only.
    fn place(&self, src: &Function, defs: &Defs, handle: Value) -> Option<Place> {
        let Some(global) = root_global(src, defs, handle) else { return Some(Place::Handle(src.ty(handle))) };
        let is_read_only = matches!(self.module.globals[global].space, Space::ReadOnly | Space::Uniform);
        (!is_read_only).then_some(Place::Global(global))
    }

    /// All memory that any function of the module writes.
    fn written(&self) -> Vec<(Place, (Func, Value))> {
        let mut written = Vec::new();
        for (at, src) in self.module.funcs.iter().filter(|f| f.1.has_body()) {
            let defs = Defs::of(src);
            src.walk(src.body(), &mut |inst| {
                let data = &src.insts[inst];
                if let Op::BufferStore(_) | Op::Atomic(..) = data.op {
                    let place = self.place(src, &defs, data.args[0]);
                    written.extend(place.map(|p| (p, (at, data.args[0]))));
                }
            });
        }
        written
    }

    fn has_casts(&self) -> bool {
        let is_cast = |data: &ir::InstData| matches!(data.op, Op::BufferCast(_) | Op::HandleOf);
        self.module.funcs.values().any(|f| f.insts.values().any(is_cast))
    }

    fn may_be_same(&self, a: Place, b: Place) -> bool {
        let element = |global: ir::Global| self.module.globals[global].ty;
        // A cast can make any memory look like any other.
        if self.has_casts() && !matches!((a, b), (Place::Global(_), Place::Global(_))) {
            return true;
        }
        let holds = |ty: Type, global: ir::Global| match self.module.types[ty] {
            TypeData::Buffer(of) => of == element(global),
            _ => true,
        };
        match (a, b) {
            (Place::Global(a), Place::Global(b)) => a == b,
            (Place::Handle(a), Place::Handle(b)) => a == b,
            (Place::Handle(ty), Place::Global(global)) | (Place::Global(global), Place::Handle(ty)) => {
                holds(ty, global)
            }
        }
    }
}
