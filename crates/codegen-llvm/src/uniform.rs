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

use cranelift_entity::SecondaryMap;
use ir::analysis::points_to::root_cell;
use ir::analysis::{Defs, Use};
use ir::{Analyses, Builtin, Func, Function, Inst, Module, Op, Region, Space, Span, TypeData, Types, Value};
use native::Reason;
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
        let counted_down = counted_down(&self.module.types, f);
        let mut walk = Walk {
            analysis: self,
            f,
            facts: Facts::default(),
            home: SecondaryMap::new(),
            defs: Defs::of(f),
            counted_down,
            level: 0,
            changed: false,
        };
        let body = f.body();
        for (&v, &varying) in f.regions[body].params.iter().zip(params) {
            walk.vary(v, varying);
        }
        loop {
            walk.changed = false;
            walk.region(body)?;
            if !walk.changed {
                break;
            }
        }
        let mut facts = walk.facts;
        facts.results = f.regions[body].results.iter().map(|&v| facts.varying[v]).collect();
        Ok(facts)
    }
}

/// The state of analysing one function.
struct Walk<'a, 'm> {
    analysis: &'a mut Analysis<'m>,
    f: &'m Function,
    facts: Facts,
    /// The number of divergent regions around the instruction that made each cell.
    home: SecondaryMap<Value, u32>,
    defs: Defs,
    /// The loops that lanes may enter late, by their counters.
    counted_down: SecondaryMap<Value, Option<Left>>,
    level: u32,
    changed: bool,
}

impl Walk<'_, '_> {
    fn varies(&self, v: Value) -> bool {
        self.facts.varying[v]
    }

    fn vary(&mut self, v: Value, if_so: bool) {
        if if_so && !self.facts.varying[v] {
            self.facts.varying[v] = true;
            self.facts.varies = true;
            self.changed = true;
        }
    }

    fn diverge(&mut self, inst: Inst, if_so: bool) -> bool {
        if if_so && !self.facts.divergent[inst] {
            self.facts.divergent[inst] = true;
            self.changed = true;
        }
        self.facts.divergent[inst]
    }

    fn inner(&mut self, region: Region, divergent: bool) -> Result<(), Reason> {
        self.level += u32::from(divergent);
        let result = self.region(region);
        self.level -= u32::from(divergent);
        result
    }

    fn region(&mut self, region: Region) -> Result<(), Reason> {
        let f = self.f;
        for &inst in &f.regions[region].insts {
            self.inst(inst)?;
        }
        Ok(())
    }

    /// The outermost cell that contains a cell.
    fn root(&self, cell: Value) -> Value {
        root_cell(self.f, &self.defs, cell)
    }

    fn inst(&mut self, inst: Inst) -> Result<(), Reason> {
        let f = self.f;
        let data = &f.insts[inst];
        let stop = |what: &str| Err(reason(what, data.span));
        match &data.op {
            Op::Const(_) | Op::Zero => {}
            Op::GlobalRef(global) => {
                let private = self.analysis.module.globals[*global].space == Space::Private;
                self.vary(data.results[0], private);
            }
            Op::Builtin(builtin) => {
                let varies = match builtin {
                    Builtin::DispatchThreadId | Builtin::GroupThreadId | Builtin::GroupIndex => true,
                    Builtin::GroupId => self.analysis.dealing.packed,
                    Builtin::GroupSize => false,
                };
                self.vary(data.results[0], varies);
            }
            Op::Extract(k) => {
                let varies = self.varies(data.args[0]) && !self.same_in_row(data.args[0], *k);
                self.vary(data.results[0], varies);
            }
            Op::Atomic(..) => self.vary(data.results[0], true),
            Op::Barrier if self.level > 0 => return stop("a barrier that not all lanes reach"),
            Op::Barrier => {}
            Op::WaveGather => return stop("a wave operation"),
            Op::Printf(_) => return stop("printf, whose output is in the order of threads"),
            Op::BufferStore(_) | Op::Assert(_) => {}
            Op::Local => {
                let cell = data.results[0];
                self.home[cell] = self.level;
                let varies = self.varies(data.args[0]);
                self.vary(cell, varies);
            }
            Op::Store | Op::AddTo => {
                let root = self.root(data.args[0]);
                let varies = self.level > self.home[root] || data.args[1..].iter().any(|&a| self.varies(a));
                self.vary(root, varies);
                let all = self.varies(root);
                self.vary(data.args[0], all);
                if let Some((_, indices)) = data.args[1..].split_last() {
                    self.stacks_stay(data.args[0], indices, data.span)?;
                }
            }
            Op::SubCell => {
                let root = self.root(data.args[0]);
                if self.varies(data.args[1]) {
                    return stop("a stack of stacks at places that vary");
                }
                let varies = self.varies(root);
                self.vary(data.results[0], varies);
            }
            Op::Load => {
                let root = self.root(data.args[0]);
                let varies = self.varies(root) || data.args[1..].iter().any(|&a| self.varies(a));
                self.vary(data.results[0], varies);
                self.stacks_stay(data.args[0], &data.args[1..], data.span)?;
            }
            Op::Call(callee) => {
                let params: Vec<bool> = data.args.iter().map(|&a| self.varies(a)).collect();
                if self.level > 0 && self.has_barrier(*callee) {
                    return stop("a barrier that not all lanes reach");
                }
                let callee = self.analysis.function(*callee, &params)?;
                let (results, varies) = (callee.results.clone(), callee.varies);
                self.facts.varies |= varies;
                for (&r, varies) in data.results.iter().zip(results) {
                    self.vary(r, varies);
                }
            }
            Op::CallDerivative(..) | Op::CallTransposeOf(_) => {
                return stop("a derivative that was not generated");
            }
            Op::If | Op::Switch(_) => {
                let tag = self.varies(data.args[0]);
                let divergent = self.diverge(inst, tag);
                for &region in &data.regions {
                    self.inner(region, divergent)?;
                    for (&r, &v) in data.results.iter().zip(&f.regions[region].results) {
                        let varies = divergent || self.varies(v);
                        self.vary(r, varies);
                    }
                }
            }
            Op::For(info) => {
                let (region, n) = (data.regions[0], data.args.len() - 1);
                let counted = self.varies(data.args[0]);
                let divergent = self.diverge(inst, counted);
                if divergent {
                    let counter = f.regions[region].params[0];
                    self.facts.late[counter] = self.counted_down[counter];
                    let varies = info.down && self.facts.late[counter].is_none();
                    self.vary(counter, varies);
                }
                let params = f.regions[region].params[1..].to_vec();
                // Lanes that enter late have made fewer trips, so their carried values differ from those of
                // the others.
                let is_late = divergent && self.facts.late[f.regions[region].params[0]].is_some();
                params.iter().for_each(|&param| self.vary(param, is_late));
                self.trips(inst, &data.args[1..], &params, region, 0, n, divergent)?;
            }
            Op::Loop(_) => {
                let region = data.regions[0];
                let params = f.regions[region].params.clone();
                let again = f.regions[region].results[0];
                let left = self.varies(again);
                let divergent = self.diverge(inst, left);
                self.trips(inst, &data.args, &params, region, 1, data.args.len(), divergent)?;
                let left = self.varies(again);
                self.diverge(inst, left);
            }
            Op::Index => {
                let stacks = self.analysis.module.types[f.ty(data.results[0])];
                if matches!(stacks, TypeData::Stack(_)) && self.varies(data.args[1]) {
                    return stop("a stack of stacks at places that vary");
                }
                let varies = data.args.iter().any(|&a| self.varies(a));
                self.vary(data.results[0], varies);
            }
            // The number of trips left is the same for all lanes.
            Op::Sub if self.facts.late[data.args[1]] == Some(Left::Subtracted) => {}
            Op::Select => {
                let varies = data.args.iter().any(|&a| self.varies(a));
                self.vary(data.results[0], varies);
            }
            _ => {
                let varies = data.args.iter().any(|&a| self.varies(a));
                for &r in &data.results {
                    self.vary(r, varies);
                }
            }
        }
        Ok(())
    }

    /// Analyses a loop's body: results number `first..first + n` are carried, those after are stacked.
    #[expect(clippy::too_many_arguments, reason = "what both loops have")]
    fn trips(
        &mut self,
        inst: Inst,
        init: &[Value],
        params: &[Value],
        region: Region,
        first: usize,
        n: usize,
        divergent: bool,
    ) -> Result<(), Reason> {
        let f = self.f;
        let data = &f.insts[inst];
        for (&param, &v) in params.iter().zip(init) {
            let varies = self.varies(v);
            self.vary(param, varies);
        }
        self.inner(region, divergent)?;
        let results = &f.regions[region].results;
        for k in 0..n {
            let varies = self.varies(results[first + k]);
            self.vary(params[k], varies);
            let all = divergent || self.varies(params[k]);
            self.vary(data.results[k], all);
        }
        for (&r, &v) in data.results[n..].iter().zip(&results[first + n..]) {
            let varies = divergent || self.varies(v);
            self.vary(r, varies);
        }
        Ok(())
    }

    /// Returns true if component `k` of the thread's ID is the same in all lanes of a row.
    fn same_in_row(&self, v: Value, k: u32) -> bool {
        match self.defs.op(self.f, v) {
            Some(Op::Builtin(Builtin::DispatchThreadId | Builtin::GroupThreadId)) => {
                self.analysis.dealing.rows && k > 0
            }
            Some(Op::Builtin(Builtin::GroupId)) => k > 0,
            _ => false,
        }
    }

    /// Returns an error if a varying index selects from a stack of stacks.
    fn stacks_stay(&self, cell: Value, indices: &[Value], span: Span) -> Result<(), Reason> {
        let types = &self.analysis.module.types;
        let mut ty = types.content(self.f.ty(cell));
        for &idx in indices {
            ty = ty.and_then(|t| types.element(t));
            let stays = ty.is_none_or(|t| !types.has_stack(t));
            if self.varies(idx) && !stays {
                return Err(reason("a stack of stacks at places that vary", span));
            }
        }
        Ok(())
    }

    fn has_barrier(&self, func: Func) -> bool {
        let mut seen = Vec::new();
        let mut left = vec![func];
        while let Some(func) = left.pop() {
            if seen.contains(&func) {
                continue;
            }
            seen.push(func);
            let f = &self.analysis.module.funcs[func];
            for data in f.insts.values() {
                match data.op {
                    Op::Barrier => return true,
                    Op::Call(callee) => left.push(callee),
                    _ => {}
                }
            }
        }
        false
    }
}

/// Finds `for` loops that lanes may enter late, by their counters. Such a loop uses its counter `i` only to
/// compute how many trips are left after this one, as `n - 1 - i` with its count `n`; reversed loops do that.
/// If lanes run such a loop different numbers of times, each lane may begin when as many trips are left as it
/// has to run itself: values read at that place, such as those that the loop before kept, are then read at
/// the same place by all lanes. The same holds for loops whose counter is the number of trips left. Loops
/// with stacks of their own are excluded, since lanes would push elements with different numbers at the same
/// time.
fn counted_down(types: &Types, f: &Function) -> SecondaryMap<Value, Option<Left>> {
    let analyses = Analyses::of(types, f);
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
