//! Inlines calls; the caller of this file decides which.
//!
//! A function is one region with one entry and one exit, so a call is replaced by the body's instructions,
//! with parameters replaced by the arguments and the call's results by the body's results.
//!
//! Before AD a call is also a border for derivatives: a float parameter or result that is not `diff` has no
//! tangent. There the copy preserves the border by `detach`.

use cranelift_entity::EntityRef;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::analysis::Stage;
use crate::build::{put_back, take};
use crate::entities::{Func, Inst, Region, Value};
use crate::function::{Function, ValueData};
use crate::module::Module;
use crate::ops::Op;
use crate::transform::Subst;
use crate::types::Types;
use crate::walk::copy_list;

/// A call that may be inlined.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The function that is called.
    pub callee: Func,
    /// The number of loops around the call.
    pub loops: u32,
    /// The number of inlined bodies around the call.
    pub depth: u32,
}

/// The treatment of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It stays.
    Keep,
    /// The body takes its place.
    Inline,
    /// The body takes its place, and the calls in the body are chosen from, too.
    InlineNested,
}

/// Inlines those calls in `caller` that `choose` selects, given the module, the caller and the call. Returns
/// true if there were any.
pub fn calls(
    module: &mut Module,
    caller: Func,
    stage: Stage,
    choose: &mut dyn FnMut(&Module, &Function, Call) -> Choice,
) -> bool {
    let func = take(module, caller);
    let subst = Subst::default();
    let mut work = Inliner { module, stage, choose, func, subst, depth: 0, loops: 0, changed: false };
    let body = work.func.body();
    work.region(body);
    let Inliner { func, changed, .. } = work;
    put_back(module, caller, func);
    changed
}

/// Returns true if a callee may be inlined under the caller's rules for floats: both have the same rules, or
/// the callee is a function of the library, which has no rules of its own.
pub fn fits(module: &Module, caller: &Function, callee: Func) -> bool {
    let callee = &module.funcs[callee];
    caller.fast_math == callee.fast_math || caller.fast_math && module.is_library(callee.span)
}

struct Inliner<'a> {
    module: &'a Module,
    stage: Stage,
    choose: &'a mut dyn FnMut(&Module, &Function, Call) -> Choice,
    func: Function,
    subst: Subst,
    depth: u32,
    loops: u32,
    changed: bool,
}

impl Inliner<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let mut out = Vec::with_capacity(insts.len());
        self.list(insts, &mut out);
        self.func.regions[region].insts = out;
        self.subst.apply_results(&mut self.func, region);
    }

    fn list(&mut self, insts: Vec<Inst>, out: &mut Vec<Inst>) {
        for inst in insts {
            self.subst.apply(&mut self.func, inst);
            let nested: SmallVec<[Region; 2]> = self.func.insts[inst].regions.clone();
            let repeats = u32::from(self.func.insts[inst].op.is_loop());
            self.loops += repeats;
            for r in nested {
                self.region(r);
            }
            self.loops -= repeats;
            let Op::Call(callee) = self.func.insts[inst].op else {
                out.push(inst);
                continue;
            };
            let call = Call { callee, loops: self.loops, depth: self.depth };
            match (self.choose)(self.module, &self.func, call) {
                Choice::Keep => out.push(inst),
                choice => self.expand(inst, callee, choice, out),
            }
        }
    }

    fn expand(&mut self, call: Inst, g: Func, choice: Choice, out: &mut Vec<Inst>) {
        self.changed = true;
        let module = self.module;
        let callee = &module.funcs[g];
        let data = self.func.insts[call].clone();
        let is_border = self.stage == Stage::BeforeAd;
        let cut = |types: &Types, func: &mut Function, v: Value, diff: bool, out: &mut Vec<Inst>| {
            if !is_border || diff || func.is_linear(v) || !types.is_differentiable(func.ty(v)) {
                return v;
            }
            let result = ValueData::new(func.ty(v));
            let (inst, cut) = func.make_value(Op::Detach, &[v], result, data.span);
            out.push(inst);
            cut
        };
        let mut map: FxHashMap<Value, Value> = FxHashMap::default();
        let body = callee.body();
        for (n, &p) in callee.regions[body].params.iter().enumerate() {
            let arg = cut(&module.types, &mut self.func, data.args[n], callee.params[n].diff, out);
            map.insert(p, arg);
        }
        let first_copy = self.func.insts.len();
        let mut copied = Vec::new();
        copy_list(&mut self.func, Some(callee), body, &mut map, &mut copied);
        for at in first_copy..self.func.insts.len() {
            let copy = &mut self.func.insts[Inst::new(at)];
            if module.is_library(copy.span) {
                copy.span = data.span;
            }
        }
        if choice == Choice::InlineNested {
            self.depth += 1;
            self.list(copied, out);
            self.depth -= 1;
        } else {
            out.append(&mut copied);
        }
        for (n, &r) in callee.regions[body].results.iter().enumerate() {
            // The result of a nested call may have been substituted by now.
            let v = self.subst.get(map[&r]);
            let v = cut(&module.types, &mut self.func, v, callee.results[n].diff, out);
            if self.func.values[v].name.is_none() {
                self.func.values[v].name = self.func.values[data.results[n]].name.clone();
            }
            self.subst.set(data.results[n], v);
        }
    }
}
