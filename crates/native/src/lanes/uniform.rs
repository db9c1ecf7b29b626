//! Determines which values are the same in all lanes, and where control diverges.
//!
//! The threads of a kernel run in lanes. A value is *uniform* if it is the same in all lanes that are active
//! where it is computed, else *varying*; control is *divergent* where lanes may take different paths. Every
//! value starts uniform and is made varying where a rule requires it, until a fixpoint is reached: facts only
//! rise, so the analysis terminates.
//!
//! - The ID of a thread varies, the result of an op with a varying operand varies, and the result of an
//!   atomic op differs in each lane.
//! - The results of a divergent `if` or `switch`, and of a loop that lanes leave at different times, vary.
//!   Inside, uniform values stay uniform: inactive lanes do not count.
//! - A cell varies if a varying value is stored in it, or a store is at a varying place, or by lanes that
//!   have diverged since the cell was made.
//! - A function is analysed once for each set of varying parameters.

use crate::Reason;
use cranelift_entity::SecondaryMap;
use ir::analysis::Use;
use ir::analysis::flow::{Direction, Flow};
use ir::analysis::points_to::root_cell;
use ir::{Analyses, Builtin, Func, Function, Inst, Module, Op, Region, Space, Span, Value};
use rustc_hash::FxHashMap;

/// The reason why something cannot run in lanes.
pub(crate) fn reason(what: &str, span: Span) -> Reason {
    Reason { what: what.to_string(), span }
}

/// The assignment of the threads of a group to lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dealing {
    /// Lanes differ in x only: the group is one row, or the length of its rows is a multiple of the number of
    /// lanes.
    pub rows: bool,
    /// The lanes may belong to different groups.
    pub packed: bool,
}

/// The facts about a function.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The values that vary.
    pub varying: SecondaryMap<Value, bool>,
    /// The control ops that are divergent.
    pub divergent: SecondaryMap<Inst, bool>,
    /// For each result, true if it varies.
    pub results: Vec<bool>,
    /// A value varies in the function or in its callees; otherwise all lanes compute the same.
    pub varies: bool,
    /// The counters of divergent loops that lanes enter at different times and leave together; see
    /// [`counted_down`].
    pub late: SecondaryMap<Value, Option<Left>>,
}

/// The way in which a trip of a loop computes the number of trips that are left after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// By `n - 1 - i` from the counter `i`, which has no other use.
    Subtracted,
    /// By the counter itself, which counts down.
    Counter,
}

/// A version of a function: for each parameter, true if it varies.
pub(crate) type Version = (Func, Vec<bool>);

/// The analysis of a module for one assignment of threads to lanes.
pub struct Analysis<'m> {
    module: &'m Module,
    dealing: Dealing,
    known: FxHashMap<Version, Facts>,
    open: Vec<Func>,
}

impl<'m> Analysis<'m> {
    /// An analysis without any results yet.
    pub fn new(module: &'m Module, dealing: Dealing) -> Analysis<'m> {
        Analysis { module, dealing, known: FxHashMap::default(), open: Vec::new() }
    }

    /// The facts about a function whose parameters vary as given by `params`.
    pub fn function(&mut self, func: Func, params: &[bool]) -> Result<&Facts, Reason> {
        let version = (func, params.to_vec());
        if !self.known.contains_key(&version) {
            let f = &self.module.funcs[func];
            if self.open.contains(&func) {
                return Err(reason("a function that calls itself", f.span));
            }
            if !f.has_body() {
                return Err(reason("a function without a body", f.span));
            }
            self.open.push(func);
            let facts = self.analyse(f, params);
            self.open.pop();
            self.known.insert(version.clone(), facts?);
        }
        Ok(&self.known[&version])
    }

    fn analyse(&mut self, f: &'m Function, params: &[bool]) -> Result<Facts, Reason> {
        let analyses = Analyses::of(&self.module.types, f);
        let counted_down = counted_down(&analyses);
        let mut varying: Flow<'_, bool> = Flow::new(f, &|_| true);
        for (&v, varies) in f.regions[f.body()].params.iter().zip(params) {
            varying.join(v, varies);
        }
        let (mut varies, mut stop) = (false, None);
        varying.settle(Direction::Forward, &mut |flow, inst| {
            let Op::Call(callee) = f.insts[inst].op else {
                return self.vary(&analyses, &counted_down, flow, inst);
            };
            let data = &f.insts[inst];
            let params: Vec<bool> = data.args.iter().map(|&a| *flow.get(a)).collect();
            match self.function(callee, &params) {
                Ok(facts) => {
                    varies |= facts.varies;
                    data.results.iter().zip(&facts.results).for_each(|(&r, varies)| flow.join(r, varies));
                }
                Err(reason) => drop(stop.get_or_insert(reason)),
            }
        });
        let mut facts = Facts { varies, ..Facts::default() };
        f.walk(f.body(), &mut |inst| {
            if stop.is_none() {
                stop = self.obstacle(&analyses, &varying, inst);
            }
            facts.divergent[inst] = diverges(f, &varying, inst);
            if let (Op::For(_), true) = (&f.insts[inst].op, facts.divergent[inst]) {
                let counter = f.regions[f.insts[inst].regions[0]].params[0];
                facts.late[counter] = counted_down[counter];
            }
        });
        if let Some(reason) = stop {
            return Err(reason);
        }
        facts.results = f.regions[f.body()].results.iter().map(|&v| *varying.get(v)).collect();
        facts.varying = varying.into_facts();
        facts.varies |= facts.varying.values().any(|&varies| varies);
        Ok(facts)
    }

    /// Marks the results of an instruction other than a call that vary, and the cells that it writes.
    fn vary(
        &self,
        analyses: &Analyses<'_>,
        counted_down: &SecondaryMap<Value, Option<Left>>,
        flow: &mut Flow<'_, bool>,
        inst: Inst,
    ) {
        let f = analyses.func;
        let data = &f.insts[inst];
        let any = |flow: &Flow<'_, bool>, args: &[Value]| args.iter().any(|&a| *flow.get(a));
        let varies = match &data.op {
            Op::GlobalRef(global) => self.module.globals[*global].space == Space::Private,
            Op::Builtin(Builtin::GroupId) => self.dealing.packed,
            Op::Builtin(builtin) => *builtin != Builtin::GroupSize,
            Op::Extract(k) => any(flow, &data.args) && !self.same_in_row(analyses.op(data.args[0]), *k),
            Op::Atomic(..) => true,
            Op::Store | Op::AddTo => {
                let root = root_cell(f, analyses.defs(), data.args[0]);
                let varies = any(flow, &data.args[1..]) || parted(analyses, flow, inst, root);
                flow.join(root, &varies);
                flow.copy(root, data.args[0]);
                false
            }
            Op::SubCell => *flow.get(root_cell(f, analyses.defs(), data.args[0])),
            Op::Load => {
                let root = root_cell(f, analyses.defs(), data.args[0]);
                *flow.get(root) || any(flow, &data.args[1..])
            }
            Op::For(info) => {
                let divergent = diverges(f, flow, inst);
                let (counter, carried) = f.regions[data.regions[0]].params.split_first().expect("a counter");
                // Lanes that enter late have made fewer trips, so their carried values differ from those of
                // the others.
                let late = counted_down[*counter].is_some();
                carried.iter().for_each(|&param| flow.join(param, &(divergent && late)));
                flow.join(*counter, &(divergent && info.down && !late));
                divergent
            }
            Op::If | Op::Switch(_) | Op::Loop(_) => diverges(f, flow, inst),
            // The number of trips left is the same for all lanes.
            Op::Sub if counted_down[data.args[1]] == Some(Left::Subtracted) => {
                let late = analyses
                    .tree()
                    .param(data.args[1])
                    .and_then(|(region, _)| analyses.tree().holder(region));
                any(flow, &data.args) && !late.is_some_and(|inst| diverges(f, flow, inst))
            }
            _ => any(flow, &data.args),
        };
        data.results.iter().for_each(|&r| flow.join(r, &varies));
    }

    /// The reason why lanes cannot run an instruction, if there is one.
    fn obstacle(&self, analyses: &Analyses<'_>, varying: &Flow<'_, bool>, inst: Inst) -> Option<Reason> {
        let (f, types) = (analyses.func, &self.module.types);
        let data = &f.insts[inst];
        let varies = |v: &Value| *varying.get(*v);
        let has_stack = |v: Value| types.has_stack(f.ty(v));
        let waits = |op: &Op| *op == Op::Barrier;
        let apart = || analyses.home(inst).is_some_and(|home| ends_apart(analyses, varying, home, f.body()));
        let what = match &data.op {
            Op::Barrier if apart() => "a barrier that not all lanes reach",
            Op::Call(callee) if ir::walk::reaches(self.module, *callee, waits) && apart() => {
                "a barrier that not all lanes reach"
            }
            Op::WaveGather | Op::WaveMultiply(_) => "a wave operation",
            Op::Printf(_) => "printf, whose output is in the order of threads",
            Op::CallDerivative(..) | Op::CallTransposeOf(_) => "a derivative that was not generated",
            Op::SubCell if varies(&data.args[1]) => "a stack of stacks at places that vary",
            Op::Index if varies(&data.args[1]) && has_stack(data.results[0]) => {
                "a stack of stacks at places that vary"
            }
            Op::Load | Op::Store | Op::AddTo => {
                let indices = &data.args[1..data.args.len() - usize::from(data.op != Op::Load)];
                let mut ty = types.content(f.ty(data.args[0]));
                let mut selects_stack = |idx: &Value| {
                    ty = ty.and_then(|t| types.element(t));
                    varies(idx) && ty.is_some_and(|t| types.has_stack(t))
                };
                if !indices.iter().any(&mut selects_stack) {
                    return None;
                }
                "a stack of stacks at places that vary"
            }
            _ => return None,
        };
        Some(reason(what, data.span))
    }

    /// Returns true if component `k` of an ID of the threads is the same in all lanes of a row.
    fn same_in_row(&self, id: Option<&Op>, k: u32) -> bool {
        match id {
            Some(Op::Builtin(Builtin::DispatchThreadId | Builtin::GroupThreadId)) => {
                self.dealing.rows && k > 0
            }
            Some(Op::Builtin(Builtin::GroupId)) => k > 0,
            _ => false,
        }
    }
}

/// Returns true if lanes may go different ways at an instruction.
fn diverges(f: &Function, varying: &Flow<'_, bool>, inst: Inst) -> bool {
    f.decides(inst).is_some_and(|v| *varying.get(v))
}

/// Returns true if control diverges on the way from one region to another within it.
fn ends_apart(analyses: &Analyses<'_>, varying: &Flow<'_, bool>, inner: Region, outer: Region) -> bool {
    let mut at = inner;
    while at != outer {
        let Some(holder) = analyses.tree().holder(at) else { break };
        if diverges(analyses.func, varying, holder) {
            return true;
        }
        let Some(home) = analyses.home(holder) else { break };
        at = home;
    }
    false
}

/// Returns true if control has diverged since a cell was made.
fn parted(analyses: &Analyses<'_>, varying: &Flow<'_, bool>, inst: Inst, cell: Value) -> bool {
    let (home, outer) = (analyses.home(inst), analyses.home_of(cell));
    home.zip(outer).is_some_and(|(home, outer)| ends_apart(analyses, varying, home, outer))
}

/// Finds `for` loops that lanes may enter late, by their counters. Such a loop uses its counter `i` only to
/// compute how many trips are left after this one, as `n - 1 - i` with its count `n`; reversed loops do that.
/// If lanes run such a loop different numbers of times, each lane may begin when as many trips are left as it
/// has to run itself: values read at that place, such as those that the loop before kept, are then read at
/// the same place by all lanes. The same holds for loops whose counter is the number of trips left. Loops
/// with stacks of their own are excluded, since lanes would push elements with different numbers at the same
/// time.
fn counted_down(analyses: &Analyses<'_>) -> SecondaryMap<Value, Option<Left>> {
    let f = analyses.func;
    let mut left: SecondaryMap<Value, Option<Left>> = SecondaryMap::new();
    f.walk(f.body(), &mut |inst| {
        let data = &f.insts[inst];
        let Op::For(info) = data.op else { return };
        let i = f.regions[data.regions[0]].params[0];
        // The trip that is left is computed by a subtraction from the last one.
        let is_mirror = |at: &Use| match *at {
            Use::Operand(user, 1) => {
                f.insts[user].op == Op::Sub && analyses.trip(f.insts[user].results[0]) == Some(inst)
            }
            _ => false,
        };
        let uses = analyses.uses().of_value(i);
        let makes_stacks = data.results.len() >= data.args.len();
        left[i] = match info.down {
            _ if makes_stacks => None,
            true => Some(Left::Counter),
            false => (!uses.is_empty() && uses.iter().all(is_mirror)).then_some(Left::Subtracted),
        };
    });
    left
}
