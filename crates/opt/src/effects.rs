//! Summarises the effects of functions and instructions.
//!
//! Every function is a map from values to values except for its effects: accesses to memory that the host
//! sees, output and errors. A summary states which of those a call may have. Summaries are the least fixpoint
//! of "the effects of the instructions and of the callees", found by going over the call graph from callees
//! to callers until nothing changes; so they over-approximate every execution, recursion included. Cells are
//! not in a summary, since they never leave their function.
//!
//! Before AD a call may mean more than its body: a function with a custom derivative must still be called
//! when its value is not used, since the custom function runs in the reverse sweep. At that stage, calls of
//! such functions therefore count as writing.

use cranelift_entity::{EntityRef, SecondaryMap};
use ir::{Func, Function, Global, Inst, Module, Op, Space, Value};

use crate::util::Defs;

/// The effects that running an instruction may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Reads memory that can change.
    pub reads: bool,
    /// Writes memory, prints, waits or stops the program.
    pub writes: bool,
    /// May run forever, or end in a reported error: may be removed, but not run speculatively.
    pub hangs: bool,
}

impl Effects {
    /// All effects, for code of which nothing is known.
    pub const ANY: Effects = Effects { reads: true, writes: true, hangs: true };
    /// No effects: the code only computes.
    pub const NONE: Effects = Effects { reads: false, writes: false, hangs: false };

    /// The union of two sets of effects.
    #[must_use]
    pub fn or(self, other: Effects) -> Effects {
        Effects {
            reads: self.reads | other.reads,
            writes: self.writes | other.writes,
            hangs: self.hangs | other.hangs,
        }
    }
}

/// The stage of compilation, which decides whether calls also stand for their derivatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Derivatives are still to be made.
    BeforeAd,
    /// All derivatives are plain functions.
    AfterAd,
}

/// Facts about a module that stay available while one of its functions is changed.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    funcs: Vec<Effects>,
    constant: Vec<bool>,
}

impl Facts {
    /// Summaries of all functions of a module.
    pub fn of(module: &Module, stage: Stage) -> Facts {
        let constant: Vec<bool> =
            module.globals.values().map(|g| matches!(g.space, Space::ReadOnly | Space::Uniform)).collect();
        let funcs = vec![Effects::NONE; module.funcs.len()];
        let mut facts = Facts { funcs, constant };
        let order = post_order(module);
        let mut done = vec![false; module.funcs.len()];
        let mut calls: Vec<Vec<Func>> = vec![Vec::new(); module.funcs.len()];
        for &f in &order {
            let func = &module.funcs[f];
            let mut own = facts.own(func, &mut calls[f.index()], stage);
            let witness = module.witness(f);
            if stage == Stage::BeforeAd
                && (witness.vjp.is_some() || witness.jvp.is_some() && !func.has_body())
            {
                own.writes = true;
            }
            // A callee that comes later, or the function itself, is recursion.
            own.hangs |= calls[f.index()].iter().any(|c| !done[c.index()]);
            facts.funcs[f.index()] = own;
            done[f.index()] = true;
        }
        loop {
            let mut changed = false;
            for &f in &order {
                let mut sum = facts.funcs[f.index()];
                for callee in &calls[f.index()] {
                    sum = sum.or(facts.funcs[callee.index()]);
                }
                changed |= sum != facts.funcs[f.index()];
                facts.funcs[f.index()] = sum;
            }
            if !changed {
                break;
            }
        }
        facts
    }

    fn own(&self, func: &Function, calls: &mut Vec<Func>, stage: Stage) -> Effects {
        if !func.has_body() {
            return Effects::ANY;
        }
        let defs = Defs::of(func);
        let mut sum = Effects::NONE;
        func.walk(func.body(), &mut |inst| {
            if let Op::Call(f) = func.insts[inst].op {
                calls.push(f);
            } else {
                sum = sum.or(self.inst(func, &defs, inst));
            }
            if stage == Stage::BeforeAd && matches!(func.insts[inst].op, Op::CallDerivative(..)) {
                sum = sum.or(Effects::ANY);
            }
        });
        calls.sort_unstable();
        calls.dedup();
        sum
    }

    /// The summary of a function's effects.
    pub fn func(&self, func: Func) -> Effects {
        self.funcs.get(func.index()).copied().unwrap_or(Effects::ANY)
    }

    /// Returns true if no thread of a dispatch can change a global.
    pub fn is_constant(&self, global: Global) -> bool {
        self.constant.get(global.index()).copied().unwrap_or(false)
    }

    /// Returns true if a buffer handle refers to memory that no thread changes.
    pub(crate) fn is_constant_buffer(&self, func: &Function, defs: &Defs, mut handle: Value) -> bool {
        loop {
            let Some(inst) = defs.inst(handle) else { return false };
            match func.insts[inst].op {
                Op::GlobalRef(g) => return self.is_constant(g),
                Op::BufferOffset | Op::BufferCast(_) => handle = func.insts[inst].args[0],
                _ => return false,
            }
        }
    }

    /// The effects of an instruction by itself, without those of its regions and without accesses to cells.
    pub(crate) fn inst(&self, func: &Function, defs: &Defs, inst: Inst) -> Effects {
        let data = &func.insts[inst];
        match &data.op {
            Op::Call(f) => self.func(*f),
            Op::CallDerivative(..) | Op::CallTransposeOf(_) => Effects::ANY,
            Op::BufferLoad(_) => {
                Effects { reads: !self.is_constant_buffer(func, defs, data.args[0]), ..Effects::NONE }
            }
            Op::BufferStore(_) => Effects { writes: true, ..Effects::NONE },
            Op::Atomic(..) | Op::Barrier | Op::WaveGather => {
                Effects { reads: true, writes: true, hangs: false }
            }
            Op::Printf(_) | Op::Assert(_) => Effects { writes: true, ..Effects::NONE },
            Op::CheckFinite(_) => Effects { hangs: true, ..Effects::NONE },
            Op::Loop(_) => Effects { hangs: true, ..Effects::NONE },
            Op::For(info) => Effects { hangs: info.max_iters.is_some(), ..Effects::NONE },
            _ => Effects::NONE,
        }
    }
}

/// All functions, callees before callers where there is no recursion. Computed without recursion in Rust.
pub(crate) fn post_order(module: &Module) -> Vec<Func> {
    let callees: Vec<Vec<Func>> = module
        .funcs
        .values()
        .map(|f| {
            let mut list = Vec::new();
            if f.has_body() {
                f.walk(f.body(), &mut |inst| list.extend(f.insts[inst].op.callee()));
            }
            list
        })
        .collect();
    let mut order = Vec::with_capacity(callees.len());
    let mut seen: SecondaryMap<Func, bool> = SecondaryMap::new();
    let mut stack: Vec<(Func, usize)> = Vec::new();
    for root in module.funcs.keys() {
        if seen[root] {
            continue;
        }
        seen[root] = true;
        stack.push((root, 0));
        while let Some((f, at)) = stack.last_mut() {
            if let Some(&callee) = callees[f.index()].get(*at) {
                *at += 1;
                if !seen[callee] {
                    seen[callee] = true;
                    stack.push((callee, 0));
                }
            } else {
                order.push(*f);
                stack.pop();
            }
        }
    }
    order
}
