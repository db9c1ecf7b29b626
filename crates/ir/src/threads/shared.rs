//! Finds places that all threads of a group write without an atomic operation.
//!
//! In `gw[i] += d` where `i` is the same in all threads, the threads race, and it is undetermined whose
//! numbers arrive. A write is reported if its place depends neither on the thread nor on memory that may
//! change, if the written value differs from thread to thread or was read from the same memory, and if no
//! condition around the write may single out a thread: comparisons for equality do, bounds (`tid.x < n`) do
//! not. Anything unknown counts as harmless, so every report is a mistake in the program.

use cranelift_entity::{EntitySet, SecondaryMap};

use crate::analysis::Defs;
use crate::analysis::flow::{Direction, Flow};
use crate::analysis::points_to::direct_global;
use crate::entities::{Func, Global, Inst, Region, Value};
use crate::function::{Function, Span};
use crate::module::{Entry, Module, Space};
use crate::ops::{Builtin, Op};
use crate::types::TypeData;

/// A write by all threads of a group to one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedWrite {
    /// The global that is written.
    pub global: Global,
    /// The place is read first, so that the write is an update such as a sum.
    pub is_update: bool,
    /// The user's line.
    pub span: Span,
}

/// The value differs between threads of a group.
const THREAD: u8 = 1;
/// The value comes from memory that may change, or is unknown.
const MEMORY: u8 = 2;
/// The maximum number of operands through which a written value is traced back.
const REACH: usize = 200;

/// The racing writes of an entry point and of all functions that it calls.
pub fn shared_writes(module: &Module, entry: &Entry) -> Vec<SharedWrite> {
    let all: u64 = entry.group_size.iter().map(|&n| u64::from(n)).product();
    if all <= 1 || !module.funcs[entry.func].has_body() {
        return Vec::new();
    }
    let mut search = Search {
        module,
        size: entry.group_size,
        bits: SecondaryMap::new(),
        results: SecondaryMap::new(),
        seen: EntitySet::new(),
        found: Vec::new(),
    };
    search.settle(entry.func);
    search.function(entry.func, &[], None);
    search.found
}

struct Search<'m> {
    module: &'m Module,
    size: [u32; 3],
    /// The dependences of each value, for all callers of its function.
    bits: SecondaryMap<Func, SecondaryMap<Value, u8>>,
    results: SecondaryMap<Func, Vec<u8>>,
    seen: EntitySet<Func>,
    found: Vec<SharedWrite>,
}

impl<'m> Search<'m> {
    // ---- dependence on the thread

    /// Computes the dependences of every value in the reached functions: bits are only added, until a
    /// fixpoint is reached.
    fn settle(&mut self, entry: Func) {
        let reached = crate::walk::reachable(self.module, &[entry]).into_iter();
        let order: Vec<(Func, Defs)> = reached.map(|f| (f, Defs::of(&self.module.funcs[f]))).collect();
        let mut params: SecondaryMap<Func, Vec<u8>> = SecondaryMap::new();
        loop {
            let before = (params.clone(), self.results.clone());
            for (func, defs) in &order {
                let f = &self.module.funcs[*func];
                let mut flow = Flow::new(f, &|_| true);
                let own = f.regions[f.body()].params.iter();
                own.zip(&params[*func]).for_each(|(&param, bits)| flow.join(param, bits));
                flow.settle(Direction::Forward, &mut |flow, inst| {
                    self.transfer(flow, f, defs, inst);
                    if let Op::Call(callee) = f.insts[inst].op {
                        let args = &f.insts[inst].args;
                        let given = &mut params[callee];
                        given.resize(args.len(), 0);
                        given.iter_mut().zip(args).for_each(|(bits, &arg)| *bits |= flow.get(arg));
                    }
                });
                self.bits[*func] = flow.into_facts();
                let results = f.regions[f.body()].results.iter();
                self.results[*func] = results.map(|&v| self.bits[*func][v]).collect();
            }
            if before == (params.clone(), self.results.clone()) {
                return;
            }
        }
    }

    /// Passes dependences on through an instruction. Control passes on what it yields by itself; here its
    /// results depend on what decides about it.
    fn transfer(&self, flow: &mut Flow<u8>, f: &Function, defs: &Defs, inst: Inst) {
        let data = &f.insts[inst];
        let own = match &data.op {
            Op::If | Op::Switch(_) | Op::For(_) => {
                return data.results.iter().for_each(|&r| flow.copy(data.args[0], r));
            }
            Op::Loop(_) => {
                let again = f.regions[data.regions[0]].results[0];
                return data.results.iter().for_each(|&r| flow.copy(again, r));
            }
            Op::Call(callee) => {
                let results = data.results.iter().zip(&self.results[*callee]);
                return results.for_each(|(&r, bits)| flow.join(r, bits));
            }
            Op::Store | Op::AddTo => return flow.copy_all(&data.args, data.args[0]),
            Op::SubCell => {
                flow.copy_all(&data.args, data.results[0]);
                return flow.copy(data.results[0], data.args[0]);
            }
            Op::Extract(k) if let Some(Op::Builtin(builtin)) = defs.op(f, data.args[0]) => {
                return flow.join(data.results[0], &self.builtin(*builtin, Some(*k as usize)));
            }
            Op::Builtin(builtin) => self.builtin(*builtin, None),
            Op::BufferLoad(_) if self.is_constant(f, defs, data.args[0]) => 0,
            Op::BufferLoad(_) | Op::WaveGather | Op::WaveMultiply(_) => MEMORY,
            Op::Atomic(..) => MEMORY | THREAD,
            _ => 0,
        };
        for &r in &data.results {
            flow.copy_all(&data.args, r);
            flow.join(r, &own);
        }
    }

    fn builtin(&self, builtin: Builtin, k: Option<usize>) -> u8 {
        let differs = match (builtin, k) {
            (Builtin::GroupId | Builtin::GroupSize, _) => false,
            (Builtin::GroupIndex, _) | (_, None) => true,
            (Builtin::DispatchThreadId | Builtin::GroupThreadId, Some(k)) => self.size[k.min(2)] > 1,
        };
        if differs { THREAD } else { 0 }
    }

    fn is_constant(&self, f: &Function, defs: &Defs, handle: Value) -> bool {
        direct_global(f, defs, handle)
            .is_some_and(|g| matches!(self.module.globals[g].space, Space::ReadOnly | Space::Uniform))
    }

    // ---- writes

    fn function(&mut self, func: Func, handles: &[Option<Global>], site: Option<Span>) {
        if !self.seen.insert(func) {
            return;
        }
        let f = &self.module.funcs[func];
        let defs = Defs::of(f);
        let mut known = SecondaryMap::new();
        for (&param, &handle) in f.regions[f.body()].params.iter().zip(handles) {
            known[param] = handle;
        }
        self.region(func, f, &defs, &known, f.body(), site);
    }

    /// The global that a handle refers to.
    fn root(
        &self,
        f: &Function,
        defs: &Defs,
        known: &SecondaryMap<Value, Option<Global>>,
        handle: Value,
    ) -> Option<Global> {
        let mut at = handle;
        loop {
            let Some(inst) = defs.inst(at) else { return known[at] };
            match &f.insts[inst].op {
                Op::GlobalRef(g) => return Some(*g),
                Op::BufferOffset | Op::BufferCast(_) => at = f.insts[inst].args[0],
                _ => return None,
            }
        }
    }

    fn region(
        &mut self,
        func: Func,
        f: &'m Function,
        defs: &Defs,
        known: &SecondaryMap<Value, Option<Global>>,
        region: Region,
        site: Option<Span>,
    ) {
        for &inst in &f.regions[region].insts {
            let data = &f.insts[inst];
            let span = if self.module.is_library(data.span) { site } else { Some(data.span) };
            match &data.op {
                Op::BufferStore(path) => {
                    let (&x, place) = data.args.split_last().expect("a store has operands");
                    let Some(global) = self.root(f, defs, known, place[0]) else { continue };
                    let shared =
                        matches!(self.module.globals[global].space, Space::ReadWrite | Space::GroupShared);
                    let depends = place.iter().fold(0, |all, &v| all | self.bits[func][v]);
                    if !shared || depends != 0 {
                        continue;
                    }
                    let is_update = self.reads(f, defs, known, x, (global, path));
                    if is_update || self.bits[func][x] & THREAD != 0 {
                        let write = SharedWrite { global, is_update, span: span.unwrap_or(f.span) };
                        if !self.found.contains(&write) {
                            self.found.push(write);
                        }
                    }
                }
                Op::If => {
                    let singles = self.singles_out(func, f, defs, data.args[0], 16);
                    for (&inner, single) in data.regions.iter().zip([singles.0, singles.1]) {
                        if !single {
                            self.region(func, f, defs, known, inner, site);
                        }
                    }
                }
                Op::Switch(_) if self.bits[func][data.args[0]] != 0 => {}
                Op::Call(callee) if self.module.funcs[*callee].has_body() => {
                    let handles: Vec<Option<Global>> = data
                        .args
                        .iter()
                        .map(|&a| {
                            let is_handle = matches!(self.module.types[f.ty(a)], TypeData::Buffer(_));
                            is_handle.then(|| self.root(f, defs, known, a)).flatten()
                        })
                        .collect();
                    self.function(*callee, &handles, span);
                }
                _ => {
                    for &inner in &data.regions {
                        self.region(func, f, defs, known, inner, site);
                    }
                }
            }
        }
    }

    /// Returns two flags: true if threads may be singled out where the condition holds, and where it does not
    /// hold.
    fn singles_out(&self, func: Func, f: &Function, defs: &Defs, c: Value, left: u32) -> (bool, bool) {
        if self.bits[func][c] == 0 {
            return (false, false);
        }
        let Some(data) = defs.inst(c).map(|inst| &f.insts[inst]).filter(|_| left > 0) else {
            return (true, true);
        };
        let of = |v| self.singles_out(func, f, defs, v, left - 1);
        let is_small = |v: Value| match defs.op(f, v) {
            Some(Op::Const(bits)) => *bits <= 1,
            Some(Op::Zero) => true,
            _ => false,
        };
        match data.op {
            Op::Eq => (true, false),
            Op::Ne => (false, true),
            Op::Not => {
                let (holds, fails) = of(data.args[0]);
                (fails, holds)
            }
            Op::And => {
                let (a, b) = (of(data.args[0]), of(data.args[1]));
                (a.0 || b.0, a.1 && b.1)
            }
            Op::Or => {
                let (a, b) = (of(data.args[0]), of(data.args[1]));
                (a.0 && b.0, a.1 || b.1)
            }
            Op::Lt | Op::Le | Op::Gt | Op::Ge => {
                let small = data.args.iter().any(|&v| is_small(v)) && !self.is_float(f, data.args[0]);
                (small, small)
            }
            _ => (true, true),
        }
    }

    fn is_float(&self, f: &Function, v: Value) -> bool {
        self.module.types.scalar_of(f.ty(v)).is_some_and(|s| s.is_float())
    }

    /// Returns true if a value is computed from a load of the same global through the same path.
    fn reads(
        &self,
        f: &Function,
        defs: &Defs,
        known: &SecondaryMap<Value, Option<Global>>,
        x: Value,
        (global, path): (Global, &crate::ops::Path),
    ) -> bool {
        let (mut open, mut seen, mut left) = (vec![x], EntitySet::new(), REACH);
        while let (Some(v), 1..) = (open.pop(), left) {
            let Some(inst) = defs.inst(v).filter(|_| seen.insert(v)) else { continue };
            left -= 1;
            let data = &f.insts[inst];
            match &data.op {
                Op::BufferLoad(from) => {
                    if from == path && self.root(f, defs, known, data.args[0]) == Some(global) {
                        return true;
                    }
                }
                Op::Call(_) | Op::For(_) | Op::Loop(_) | Op::Load => {}
                Op::If | Op::Switch(_) => {
                    let k = defs.result(v).map_or(0, |result| result.1);
                    open.extend(data.regions.iter().map(|&region| f.regions[region].results[k]));
                }
                _ => open.extend(&data.args),
            }
        }
        false
    }
}
