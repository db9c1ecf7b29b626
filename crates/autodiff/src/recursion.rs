//! Reverse mode of functions that are run again: those that call themselves, and those that the user wants so.
//!
//! A call is usually split: its residuals are among those of its caller. Those of a function that calls itself would
//! contain their own kind without end. So a call that closes a ring is left whole on the primal side, and its
//! transpose is the callee's complete backward derivative, declared before its body is built: `f̄(x, ȳ)` runs `f` at
//! `x` once more. Memory grows with the depth of the recursion only, and time with the work of each call times its
//! depth.
//!
//! The same serves `[PreferRecompute]` functions, whose residuals are not kept, segments of loops
//! ([`crate::segment`]), and functions whose calls branch so often that residuals of all calls together would have no
//! end: `f40(x) = f39(x) * f39(x + 1)`, and so on down to `f0`.
//!
//! This is right if running `f` again gives the same and does nothing else, so such a function may neither write to
//! memory nor read memory that the program writes; cells are its own. Custom backward derivatives run once for
//! each call, in reverse order: the second run of the primal does not call them.

use ir::{Defs, Func, Function, Op, Prefer, Space, Span, Type, TypeData, Value};

use crate::engine::Engine;
use crate::origins::{Origins, may_meet};

/// How many instructions the calls of a function may make before it is looked at whether they repeat each other.
const MAX_TREE: u64 = 1 << 12;
/// How many are too many to be kept, whatever it takes.
const HOPELESS: u64 = 1 << 18;
/// How often they repeat each other then, on average.
const LEAST_REPEATED: u64 = 16;

/// What is read or written: a global, or by way of some handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Global(ir::Global),
    /// Whatever has elements of this type.
    Handle(Type),
}

/// Why a function must not be run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It calls a function whose primal in derivatives is another one.
    OtherValue,
    /// What it does besides computing.
    Effect(&'static str),
    /// It reads memory that may be another by then.
    ReadsWritten,
}

/// A function that must not be run again, and where that is seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Once {
    pub(crate) span: Span,
    pub(crate) why: Why,
}

impl Once {
    /// What it does, and why reverse mode must not.
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
    /// Says where running a function again, some time after it was run, would have effects or read other memory. That the
    /// derivative may be of a substitute is what the user wrote.
    pub(crate) fn check_again(&mut self, of: Func, who: &str) {
        match self.runs_once(of) {
            Some(Once { span, why: Why::Effect(what) }) => self.forbid_again(of, who, span, what),
            Some(Once { span, why: Why::ReadsWritten }) => {
                self.forbid_again(of, who, span, "reads memory that the program writes");
            }
            Some(Once { why: Why::OtherValue, .. }) | None => {}
        }
    }

    /// Says where running a function twice in a row would have effects twice.
    pub(crate) fn check_twice(&mut self, of: Func) {
        if let Some(Once { span, why: Why::Effect(what) }) = self.runs_once(of) {
            self.forbid_again(of, "'__apply' of a function that gives back pointers", span, what);
        }
    }

    fn forbid_again(&mut self, of: Func, who: &str, span: Span, what: &str) {
        let message = format!(
            "{who} would run '{}' again, and it {what}: call 'bwd_diff', or give it an '__apply' extension with a context \
             of its own",
            self.origin_name(of)
        );
        self.problem(span, "E0918", message);
    }

    /// Whether reverse mode runs the callee of a call again instead of keeping its residuals.
    pub(crate) fn is_run_again(&mut self, caller: Func, callee: Func) -> bool {
        if self.cycles.closes(self.module, caller, callee) {
            return true;
        }
        if self.cycles.is_recursive(self.module, callee) {
            return false;
        }
        let is_bush = self.is_bush(callee);
        if self.module.funcs[callee].checkpoint.prefer != Prefer::Recompute && !is_bush {
            return false;
        }
        match self.runs_once(callee) {
            None => true,
            Some(once) => {
                if is_bush && self.tree(callee) > HOPELESS && self.bushes.insert(callee) {
                    let message = format!(
                        "'{}' calls functions that call others, more than {HOPELESS} operations in all, and it {}: what \
                         reverse mode would keep of them has no end",
                        self.origin_name(callee),
                        once.in_reverse()
                    );
                    self.problem(once.span, "E0903", message);
                }
                // A preference that cannot be met costs memory; a request of the user's is answered.
                if self.segments.contains(callee) {
                    self.problem(
                        once.span,
                        "E0914",
                        format!("a loop with [Checkpoint] {}", once.in_reverse()),
                    );
                }
                false
            }
        }
    }

    /// True if the same functions are called so often, directly and by way of others, that residuals of all these calls
    /// are too many to be kept: the calls of a function are as large as the tree that they span, what they compute is
    /// no larger than the functions in it.
    fn is_bush(&mut self, func: Func) -> bool {
        if self.tree(func) <= MAX_TREE {
            return false;
        }
        let reached: Vec<Func> = self.reachable(&[func]).iter().collect();
        let distinct: usize = reached.iter().map(|&f| self.module.funcs[f].insts.len()).sum();
        self.tree(func) / LEAST_REPEATED > distinct as u64
    }

    /// How many instructions a function has, with those of its callees for each call.
    fn tree(&mut self, func: Func) -> u64 {
        let mut work = vec![func];
        while let Some(&at) = work.last() {
            if self.trees.contains_key(&at) {
                work.pop();
                continue;
            }
            let src = &self.module.funcs[at];
            let mut size = 0u64;
            let mut missing = Vec::new();
            if src.has_body() {
                src.walk(src.body(), &mut |inst| {
                    size = size.saturating_add(1);
                    if let Some(callee) = src.insts[inst].op.callee() {
                        match self.trees.get(&callee) {
                            Some(&known) => size = size.saturating_add(known),
                            None => missing.push(callee),
                        }
                    }
                });
            }
            // Who is met again before it is known calls itself, and has residuals of its own kind.
            missing.retain(|callee| !work.contains(callee));
            if missing.is_empty() {
                self.trees.insert(at, size);
            } else {
                work.extend(missing);
            }
        }
        self.trees.get(&func).copied().unwrap_or(0)
    }

    /// Why a function cannot be run again, and where, if there is a reason.
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
            src.walk(src.body(), &mut |inst| {
                let data = &src.insts[inst];
                let what = match data.op {
                    Op::BufferStore(_) | Op::Atomic(..) => "writes to memory",
                    Op::Printf(_) => "prints",
                    Op::Barrier | Op::WaveGather => "waits for other threads",
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
        // where the handles come from tells more, if it is needed
        if reads.is_empty() {
            return other;
        }
        let origins = Origins::of(self.module, &|f| self.origins.contains_key(&f));
        let run = origins.within(func);
        let written: Vec<_> = written.iter().map(|w| (w.0, origins.memory(w.1.0, w.1.1))).collect();
        let clash = reads.iter().find(|(place, handle, _)| {
            let read = run.memory(handle.0, handle.1);
            written.iter().any(|w| self.may_be_same(w.0, *place) && may_meet(&w.1, &read))
        });
        clash.map(|&(.., span)| Once { span, why: Why::ReadsWritten }).or(other)
    }

    /// The memory behind a handle; `None` if nobody can write it.
    fn place(&self, src: &Function, defs: &Defs, handle: Value) -> Option<Place> {
        let mut at = handle;
        while let Some(inst) = defs.inst(at) {
            match src.insts[inst].op {
                Op::BufferOffset | Op::BufferCast(_) => at = src.insts[inst].args[0],
                Op::GlobalRef(global) => {
                    let read_only =
                        matches!(self.module.globals[global].space, Space::ReadOnly | Space::Uniform);
                    return (!read_only).then_some(Place::Global(global));
                }
                _ => break,
            }
        }
        Some(Place::Handle(src.ty(at)))
    }

    /// All memory that some function of the module writes.
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
        let is_cast = |data: &ir::InstData| matches!(data.op, Op::BufferCast(_));
        self.module.funcs.values().any(|f| f.insts.values().any(is_cast))
    }

    fn may_be_same(&self, a: Place, b: Place) -> bool {
        let element = |global: ir::Global| self.module.globals[global].ty;
        // A cast makes any memory look like any other.
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
