//! Finds places that all threads of a group write without an atomic operation.
//!
//! In `gw[i] += d` where `i` is the same in all threads, the threads race, and it is undetermined whose
//! numbers arrive. A write is reported if its place depends neither on the thread nor on memory that may
//! change, if the written value differs from thread to thread or was read from the same memory, and if no
//! condition around the write may single out a thread: comparisons for equality do, bounds (`tid.x < n`) do
//! not. Anything unknown counts as harmless, so every report is a mistake in the program.

use cranelift_entity::{EntitySet, SecondaryMap};

use crate::function::{Func, Function, Inst, Region, Span, Value};
use crate::module::{Entry, Global, Module, Space};
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

/// Maps each value to the instruction that defines it.
type Definitions = SecondaryMap<Value, Option<Inst>>;

fn definitions(f: &Function) -> Definitions {
    let mut defs = Definitions::new();
    for (inst, data) in f.insts.iter() {
        data.results.iter().for_each(|&r| defs[r] = Some(inst));
    }
    defs
}

impl<'m> Search<'m> {
    // ---- dependence on the thread

    /// Computes the dependences of every value in the reached functions: bits are only added, until a
    /// fixpoint is reached.
    fn settle(&mut self, entry: Func) {
        let mut reached = EntitySet::new();
        let (mut order, mut open) = (Vec::new(), vec![entry]);
        while let Some(func) = open.pop() {
            let f = &self.module.funcs[func];
            if !f.has_body() || !reached.insert(func) {
                continue;
            }
            order.push((func, definitions(f)));
            f.walk(f.body(), &mut |inst| open.extend(f.insts[inst].op.callee()));
        }
        loop {
            let mut changed = false;
            for (func, defs) in &order {
                let f = &self.module.funcs[*func];
                changed |= self.pass(*func, f, defs, f.body());
                let results = f.regions[f.body()].results.iter().map(|&v| self.bits[*func][v]).collect();
                changed |= self.results[*func] != results;
                self.results[*func] = results;
            }
            if !changed {
                return;
            }
        }
    }

    fn rise(&mut self, func: Func, v: Value, bits: u8) -> bool {
        let old = &mut self.bits[func][v];
        let new = *old | bits;
        std::mem::replace(old, new) != new
    }

    fn pass(&mut self, func: Func, f: &'m Function, defs: &Definitions, region: Region) -> bool {
        let mut changed = false;
        for &inst in &f.regions[region].insts {
            let data = &f.insts[inst];
            let of =
                |search: &Self, values: &[Value]| values.iter().fold(0, |all, &v| all | search.bits[func][v]);
            let all = of(self, &data.args);
            match &data.op {
                Op::If | Op::Switch(_) => {
                    for &inner in &data.regions {
                        changed |= self.pass(func, f, defs, inner);
                        for (k, &r) in data.results.iter().enumerate() {
                            let bits = self.bits[func][f.regions[inner].results[k]];
                            changed |= self.rise(func, r, all | bits);
                        }
                    }
                }
                Op::For(_) | Op::Loop(_) => {
                    let inner = data.regions[0];
                    let is_for = matches!(data.op, Op::For(_));
                    let (params, results) = (&f.regions[inner].params, &f.regions[inner].results);
                    let (params, yields) =
                        if is_for { (&params[1..], &results[..]) } else { (&params[..], &results[1..]) };
                    let inits = if is_for { &data.args[1..] } else { &data.args[..] };
                    let trips = if is_for { data.args[0] } else { results[0] };
                    for ((&param, &init), &yielded) in params.iter().zip(inits).zip(yields) {
                        let bits = of(self, &[init, yielded]);
                        changed |= self.rise(func, param, bits);
                    }
                    changed |= self.pass(func, f, defs, inner);
                    for (k, &r) in data.results.iter().enumerate() {
                        let bits =
                            of(self, &[yields[k], trips]) | inits.get(k).map_or(0, |&v| of(self, &[v]));
                        changed |= self.rise(func, r, bits);
                    }
                }
                Op::Call(callee) => {
                    if let Some(callee_f) = Some(&self.module.funcs[*callee]).filter(|f| f.has_body()) {
                        for (&param, &arg) in callee_f.regions[callee_f.body()].params.iter().zip(&data.args)
                        {
                            let bits = self.bits[func][arg];
                            changed |= self.rise(*callee, param, bits);
                        }
                    }
                    let results = self.results[*callee].clone();
                    for (k, &r) in data.results.iter().enumerate() {
                        changed |= self.rise(func, r, results.get(k).copied().unwrap_or(0));
                    }
                }
                Op::Store | Op::AddTo => changed |= self.rise(func, data.args[0], all),
                Op::SubCell => {
                    let bits = all | self.bits[func][data.results[0]];
                    changed |= self.rise(func, data.results[0], bits);
                    changed |= self.rise(func, data.args[0], bits);
                }
                op => {
                    let own = match op {
                        Op::Builtin(builtin) => self.builtin(*builtin, None),
                        Op::Extract(k) => match defs[data.args[0]].map(|d| &f.insts[d].op) {
                            Some(Op::Builtin(builtin)) => {
                                let bits = self.builtin(*builtin, Some(*k as usize));
                                changed |= self.rise(func, data.results[0], bits);
                                continue;
                            }
                            _ => 0,
                        },
                        Op::BufferLoad(_) if self.is_constant(f, defs, data.args[0]) => 0,
                        Op::BufferLoad(_) | Op::WaveGather => MEMORY,
                        Op::Atomic(..) => MEMORY | THREAD,
                        _ => 0,
                    };
                    for &r in &data.results {
                        changed |= self.rise(func, r, all | own);
                    }
                }
            }
        }
        changed
    }

    fn builtin(&self, builtin: Builtin, k: Option<usize>) -> u8 {
        let differs = match (builtin, k) {
            (Builtin::GroupId | Builtin::GroupSize, _) => false,
            (Builtin::GroupIndex, _) | (_, None) => true,
            (Builtin::DispatchThreadId | Builtin::GroupThreadId, Some(k)) => self.size[k.min(2)] > 1,
        };
        if differs { THREAD } else { 0 }
    }

    fn is_constant(&self, f: &Function, defs: &Definitions, handle: Value) -> bool {
        let data = defs[handle].map(|inst| &f.insts[inst]);
        matches!(data.map(|d| &d.op), Some(&Op::GlobalRef(g))
            if matches!(self.module.globals[g].space, Space::ReadOnly | Space::Uniform))
    }

    // ---- writes

    fn function(&mut self, func: Func, handles: &[Option<Global>], site: Option<Span>) {
        if !self.seen.insert(func) {
            return;
        }
        let f = &self.module.funcs[func];
        let defs = definitions(f);
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
        defs: &Definitions,
        known: &SecondaryMap<Value, Option<Global>>,
        handle: Value,
    ) -> Option<Global> {
        let mut at = handle;
        loop {
            let Some(inst) = defs[at] else { return known[at] };
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
        defs: &Definitions,
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
    fn singles_out(&self, func: Func, f: &Function, defs: &Definitions, c: Value, left: u32) -> (bool, bool) {
        if self.bits[func][c] == 0 {
            return (false, false);
        }
        let Some(data) = defs[c].map(|inst| &f.insts[inst]).filter(|_| left > 0) else { return (true, true) };
        let of = |v| self.singles_out(func, f, defs, v, left - 1);
        let is_small = |v: Value| match defs[v].map(|inst| &f.insts[inst].op) {
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
        defs: &Definitions,
        known: &SecondaryMap<Value, Option<Global>>,
        x: Value,
        (global, path): (Global, &crate::ops::Path),
    ) -> bool {
        let (mut open, mut seen, mut left) = (vec![x], EntitySet::new(), REACH);
        while let (Some(v), 1..) = (open.pop(), left) {
            let Some(inst) = defs[v].filter(|_| seen.insert(v)) else { continue };
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
                    let k = data.results.iter().position(|&r| r == v).unwrap_or(0);
                    open.extend(data.regions.iter().map(|&region| f.regions[region].results[k]));
                }
                _ => open.extend(&data.args),
            }
        }
        false
    }
}
