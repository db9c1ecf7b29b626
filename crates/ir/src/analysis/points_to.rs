//! Finds the memory that cells and handles refer to.
//!
//! # Within a function
//!
//! Two different cells never share memory, and a cell within a cell is part of its root ([`root_cell`]).
//! Different globals never share memory either, so a handle that is known to refer to a global
//! ([`root_global`]) aliases no handle of another one.
//!
//! # Within a module
//!
//! [`PointsTo`] maps `(function, handle)` to a set of globals, or to anything.
//!
//! The analysis has three steps, each a least fixpoint. Within a function, a handle comes from the function's
//! parameters and from globals, through offsets and casts, `select`, arrays, cells, results of arms,
//! loop-carried values, and results of calls, for which the callee's results are known in terms of its
//! parameters. Then the
//! points-to sets of parameters follow from all calls, and from custom derivatives, which receive the same
//! arguments as the function they belong to; a parameter of a function that is never called may be anything.
//! Finally, for a query about one run of a function, only the calls inside that run count.
//!
//! The analysis is flow-insensitive, so the results also hold for the derivatives of these functions, which
//! pass the same handles around. A handle loaded from memory may be anything.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Defs;
use super::flow::for_each_copy;
use crate::entities::{Func, Global, Inst, Value};
use crate::function::Function;
use crate::module::Module;
use crate::ops::Op;
use crate::types::{Type, TypeData, Types};

/// Sets larger than this become anything.
const MAX_SOURCES: usize = 16;

/// The cell that `local` made and that `cell` is, or is part of.
pub fn root_cell(func: &Function, defs: &Defs, mut cell: Value) -> Value {
    while let Some(data) = defs.inst(cell).map(|inst| &func.insts[inst])
        && data.op == Op::SubCell
    {
        cell = data.args[0];
    }
    cell
}

/// The global whose memory a handle refers to, through any offsets and casts.
pub fn root_global(func: &Function, defs: &Defs, mut handle: Value) -> Option<Global> {
    loop {
        let data = &func.insts[defs.inst(handle)?];
        match data.op {
            Op::GlobalRef(global) => return Some(global),
            Op::BufferOffset | Op::BufferCast(_) => handle = data.args[0],
            _ => return None,
        }
    }
}

/// The global that a handle is, without any offset or cast.
pub fn direct_global(func: &Function, defs: &Defs, handle: Value) -> Option<Global> {
    match defs.op(func, handle)? {
        Op::GlobalRef(global) => Some(*global),
        _ => None,
    }
}

/// Returns true if values of a type contain handles.
pub fn has_handle(types: &Types, ty: Type) -> bool {
    match types[ty] {
        TypeData::Buffer(_) => true,
        TypeData::Array(of, _) | TypeData::Stack(of) | TypeData::Cell(of) => has_handle(types, of),
        TypeData::Scalar(_) | TypeData::Vector(..) | TypeData::Residuals(_) => false,
    }
}

/// The origin of a handle within a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// The function's parameter with this index.
    Param(u32),
    Global(Global),
}

/// Sorted origins; `None` stands for anything.
type Sources = Option<Vec<Source>>;

/// The memory that a handle may point to, sorted; `None` stands for anything.
pub type Memory = Option<Vec<Global>>;

/// The memory that each handle parameter may point to.
type Params = FxHashMap<(Func, u32), Memory>;

/// The points-to sets of all handles in a module.
pub struct PointsTo<'m> {
    module: &'m Module,
    sources: FxHashMap<(Func, Value), Sources>,
    /// Keyed by function and index of the result.
    results: FxHashMap<(Func, u32), Sources>,
    params: Params,
}

impl<'m> PointsTo<'m> {
    /// Analyses all functions of a module. `is_made` identifies derivatives made by the passes. Such a
    /// derivative may have no caller yet; it, and the custom derivatives that it calls, will receive the
    /// arguments of the function that it is the derivative of.
    pub fn of(module: &'m Module, is_made: &dyn Fn(Func) -> bool) -> PointsTo<'m> {
        let mut found = PointsTo {
            module,
            sources: FxHashMap::default(),
            results: FxHashMap::default(),
            params: Params::default(),
        };
        while found.trace_all() {}
        found.bind_params(is_made);
        found
    }

    /// The memory that a handle may point to in any run of its function.
    pub fn memory(&self, func: Func, handle: Value) -> Memory {
        self.resolve(func, self.sources.get(&(func, handle)), &self.params)
    }

    /// The points-to sets of the parameters of all functions called in one run of `func`.
    pub fn within(&self, func: Func) -> Run<'_, 'm> {
        let mut params = Params::default();
        for k in 0..self.module.funcs[func].params.len() as u32 {
            if let Some(memory) = self.params.get(&(func, k)) {
                params.insert((func, k), memory.clone());
            }
        }
        let mut work = vec![func];
        while let Some(at) = work.pop() {
            work.extend(self.pass_on(at, &mut params, &mut |op| matches!(op, Op::Call(_))));
        }
        Run { points_to: self, params }
    }

    fn trace_all(&mut self) -> bool {
        let mut changed = false;
        for (id, func) in self.module.funcs.iter().filter(|f| f.1.has_body()) {
            let body = func.body();
            for (k, &param) in func.regions[body].params.iter().enumerate() {
                if self.is_handle(func, param) {
                    changed |= add(&mut self.sources, (id, param), &Some(vec![Source::Param(k as u32)]));
                }
            }
            let insts: Vec<Inst> = func.insts.keys().collect();
            loop {
                let mut again = false;
                for &inst in &insts {
                    again |= self.trace(id, func, inst);
                }
                changed |= again;
                if !again {
                    break;
                }
            }
            for (k, &result) in func.regions[body].results.iter().enumerate() {
                if self.is_handle(func, result) {
                    let from = self.sources.get(&(id, result)).cloned().unwrap_or_else(|| Some(Vec::new()));
                    changed |= add(&mut self.results, (id, k as u32), &from);
                }
            }
            changed |= self.results_of_derivatives(id, func);
        }
        changed
    }

    /// Adds the results of a function's custom derivatives to its own: a derivative calls them in place of
    /// the function, with the same arguments.
    fn results_of_derivatives(&mut self, id: Func, func: &Function) -> bool {
        let witness = self.module.witness(id);
        let mut changed = false;
        for custom in [witness.jvp, witness.apply, witness.substitute].into_iter().flatten() {
            for k in 0..func.results.len() as u32 {
                if let Some(from) = self.results.get(&(custom, k)).cloned() {
                    changed |= add(&mut self.results, (id, k), &from);
                }
            }
        }
        changed
    }

    fn trace(&mut self, id: Func, func: &Function, inst: Inst) -> bool {
        let data = &func.insts[inst];
        let mut flows: Vec<(Sources, Value)> = Vec::new();
        let handles = |values: &[Value]| -> Vec<Value> {
            values.iter().copied().filter(|&v| self.is_handle(func, v)).collect()
        };
        let of = |v: Value| self.sources.get(&(id, v)).cloned().unwrap_or_else(|| Some(Vec::new()));
        let results = handles(&data.results);
        match data.op {
            Op::GlobalRef(global) => {
                flows.extend(results.iter().map(|&r| (Some(vec![Source::Global(global)]), r)))
            }
            Op::Zero => {}
            Op::BufferOffset
            | Op::BufferCast(_)
            | Op::Select
            | Op::Detach
            | Op::Construct
            | Op::Splat
            | Op::Insert(_)
            | Op::Extract(_)
            | Op::Index
            | Op::Local
            | Op::Load
            | Op::SubCell => {
                for from in handles(&data.args) {
                    flows.extend(results.iter().map(|&to| (of(from), to)));
                }
                if data.op == Op::SubCell {
                    flows.extend(results.iter().map(|&from| (of(from), data.args[0])));
                }
            }
            Op::Store | Op::AddTo => {
                for from in handles(&data.args[data.args.len() - 1..]) {
                    flows.push((of(from), data.args[0]));
                }
            }
            Op::If | Op::Switch(_) | Op::For(_) | Op::Loop(_) => {
                for_each_copy(func, inst, &mut |from, to| {
                    if self.is_handle(func, to) {
                        flows.push((of(from), to));
                    }
                })
            }
            Op::Call(callee) | Op::CallDerivative(_, callee) | Op::CallTransposeOf(callee) => {
                let has_body = self.module.funcs[callee].has_body();
                for (k, &to) in data.results.iter().enumerate().filter(|r| self.is_handle(func, *r.1)) {
                    let given = match self.results.get(&(callee, k as u32)) {
                        Some(given) if has_body => given.clone(),
                        None if has_body => Some(Vec::new()),
                        _ => None,
                    };
                    let mut from: Sources = given.as_ref().map(|_| Vec::new());
                    for source in given.into_iter().flatten() {
                        let part = match source {
                            Source::Param(k) => data.args.get(k as usize).and_then(|&arg| of(arg)),
                            Source::Global(_) => Some(vec![source]),
                        };
                        from = join(&from, &part);
                    }
                    flows.push((from, to));
                }
            }
            _ => flows.extend(results.iter().map(|&r| (None, r))),
        }
        let mut changed = false;
        for (from, to) in flows {
            changed |= add(&mut self.sources, (id, to), &from);
        }
        changed
    }

    /// Computes the points-to sets of parameters from all calls.
    fn bind_params(&mut self, is_made: &dyn Fn(Func) -> bool) {
        let mut called: FxHashSet<Func> = FxHashSet::default();
        for (id, func) in self.module.funcs.iter().filter(|f| f.1.has_body()) {
            called.extend(func.insts.values().filter_map(|i| i.op.callee()));
            called.extend(self.custom(id));
            called.extend(self.module.witness(id).vjp);
        }
        let mut params = Params::default();
        let is_open = |id: Func| !called.contains(&id) && !is_made(id);
        for (id, func) in self.module.funcs.iter().filter(|f| f.1.has_body() && is_open(f.0)) {
            for k in 0..func.params.len() as u32 {
                params.insert((id, k), None);
            }
        }
        let mut work: Vec<Func> = self.module.funcs.keys().collect();
        while let Some(at) = work.pop() {
            work.extend(self.pass_on(at, &mut params, &mut |_| true));
            for custom in self.custom(at) {
                let mut changed = false;
                for k in 0..self.module.funcs[at].params.len() as u32 {
                    if let Some(memory) = params.get(&(at, k)).cloned() {
                        changed |= add(&mut params, (custom, k), &memory);
                    }
                }
                if changed {
                    work.push(custom);
                }
            }
            // A vjp receives the context that its `apply` returns.
            let witness = self.module.witness(at);
            if let (Some(apply), Some(vjp)) = (witness.apply, witness.vjp) {
                let n = self.module.funcs[at].results.len() as u32;
                let mut changed = false;
                for k in 0..self.module.funcs[vjp].params.len() as u32 {
                    if let Some(sources) = self.results.get(&(apply, n + k)) {
                        let memory = self.resolve(apply, Some(sources), &params);
                        changed |= add(&mut params, (vjp, k), &memory);
                    }
                }
                if changed {
                    work.push(vjp);
                }
            }
        }
        self.params = params;
    }

    /// The custom derivatives of a function that take the function's parameters.
    fn custom(&self, func: Func) -> Vec<Func> {
        let witness = self.module.witness(func);
        let vjp = if witness.apply.is_some() { None } else { witness.vjp };
        [witness.jvp, vjp, witness.apply, witness.substitute].into_iter().flatten().collect()
    }

    /// Propagates the points-to sets of a function's parameters to its callees. Returns the callees whose
    /// sets changed.
    fn pass_on(&self, at: Func, params: &mut Params, counts: &mut dyn FnMut(&Op) -> bool) -> Vec<Func> {
        let func = &self.module.funcs[at];
        let mut changed = Vec::new();
        for inst in func.insts.values() {
            let Some(callee) = inst.op.callee().filter(|_| counts(&inst.op)) else { continue };
            let n = self.module.funcs[callee].params.len();
            for (k, &arg) in inst.args.iter().enumerate().take(n).filter(|a| self.is_handle(func, *a.1)) {
                let memory = self.resolve(at, self.sources.get(&(at, arg)), params);
                if add(params, (callee, k as u32), &memory) && !changed.contains(&callee) {
                    changed.push(callee);
                }
            }
        }
        changed
    }

    fn resolve(&self, func: Func, sources: Option<&Sources>, params: &Params) -> Memory {
        let mut memory: Memory = Some(Vec::new());
        // A handle without any source is null.
        let Some(sources) = sources else { return memory };
        for source in sources.as_ref()? {
            let part = match source {
                Source::Param(k) => params.get(&(func, *k)).cloned().unwrap_or_else(|| Some(Vec::new())),
                Source::Global(global) => Some(vec![*global]),
            };
            memory = join(&memory, &part);
        }
        memory
    }

    fn is_handle(&self, func: &Function, value: Value) -> bool {
        has_handle(&self.module.types, func.ty(value))
    }
}

/// The points-to sets of handles in one run of a function.
pub struct Run<'o, 'm> {
    points_to: &'o PointsTo<'m>,
    params: Params,
}

impl Run<'_, '_> {
    /// The memory that a handle may point to in a function that is called in this run.
    pub fn memory(&self, func: Func, handle: Value) -> Memory {
        self.points_to.resolve(func, self.points_to.sources.get(&(func, handle)), &self.params)
    }
}

/// Returns true if two handles may point to the same memory.
pub fn may_alias(a: &Memory, b: &Memory) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.iter().any(|global| b.contains(global)),
        _ => true,
    }
}

fn join<T: Copy + Ord>(a: &Option<Vec<T>>, b: &Option<Vec<T>>) -> Option<Vec<T>> {
    let mut all = a.clone()?;
    all.extend(b.as_ref()?);
    all.sort_unstable();
    all.dedup();
    (all.len() <= MAX_SOURCES).then_some(all)
}

/// Adds to the set under a key. Returns true if the set changed.
fn add<K: Copy + Eq + std::hash::Hash, T: Copy + Ord>(
    map: &mut FxHashMap<K, Option<Vec<T>>>,
    key: K,
    more: &Option<Vec<T>>,
) -> bool {
    let known = map.entry(key).or_insert_with(|| Some(Vec::new()));
    let joined = join(known, more);
    let changed = joined != *known;
    *known = joined;
    changed
}
