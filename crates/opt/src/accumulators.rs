//! Accumulates sums directly in the sum that they are added to. `deliver` does the same for buffers.
//!
//! `a = local absent; … add_to a, i, x …; add_to b, load a` ↦ `… add_to b, i, x …`
//!
//! A call's cotangent of an array parameter is a sum of its own, which the caller adds to the array's
//! cotangent. Where the call is inlined, for example in a loop over samples, each trip would clear and add
//! the whole array, however few elements it touches.
//!
//! The rewrite is right up to the order of the additions, which the compiler is free to choose: reverse
//! mode accumulates cotangents by `add_to`. Nothing else may read or write `b` in between. The cells, the
//! load and the addition are in the same region, so each `a` is added once, and all additions to `a` come
//! before.

use ir::analysis::{Analyses, Use};
use ir::{Function, Inst, Op, TypeData, Types, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// Replaces sums that are only added to another sum; returns true if there were any. Only valid after AD.
pub(crate) fn merge(types: &Types, func: &mut Function) -> bool {
    let analyses = Analyses::of(types, func);
    let (mut target, mut gone) = (FxHashMap::default(), FxHashSet::default());
    for sum in sums(&analyses) {
        if let Some(merge) = sum.merge(&analyses) {
            target.insert(func.result(sum.local), merge.0);
            gone.extend([sum.local, sum.load, merge.1]);
        }
    }
    if gone.is_empty() {
        return false;
    }
    for data in func.insts.values_mut().filter(|data| data.op == Op::AddTo) {
        while let Some(&next) = target.get(&data.args[0]) {
            data.args[0] = next;
        }
    }
    func.regions.values_mut().for_each(|region| region.insts.retain(|inst| !gone.contains(inst)));
    true
}

/// A cell that holds an array of zeros, to which code adds, and which is then loaded once, as a whole.
pub(crate) struct Sum {
    pub(crate) local: Inst,
    pub(crate) load: Inst,
    pub(crate) added: Vec<Inst>,
}

/// The sums of a function, in the order of the text.
pub(crate) fn sums<'a>(analyses: &'a Analyses) -> impl Iterator<Item = Sum> + 'a {
    let func = analyses.func;
    let mut locals = Vec::new();
    func.walk(func.body(), &mut |inst| {
        let data = &func.insts[inst];
        if data.op == Op::Local && matches!(analyses.op(data.args[0]), Some(Op::Zero | Op::Absent)) {
            locals.push(inst);
        }
    });
    locals.into_iter().filter_map(|local| {
        let (mut added, mut loads) = (Vec::new(), Vec::new());
        for &at in analyses.uses().of_value(func.result(local)) {
            let Use::Operand(inst, 0) = at else { return None };
            match func.insts[inst].op {
                Op::AddTo => added.push(inst),
                Op::Load if func.insts[inst].args.len() == 1 => loads.push(inst),
                _ => return None,
            }
        }
        let &[load] = &loads[..] else { return None };
        let is_array = matches!(analyses.types[func.ty(func.result(load))], TypeData::Array(..));
        is_array.then_some(Sum { local, load, added })
    })
}

impl Sum {
    /// The sum that this one is added to, and the instruction that adds it.
    fn merge(&self, analyses: &Analyses) -> Option<(Value, Inst)> {
        let (func, tree) = (analyses.func, analyses.tree());
        let add = analyses.uses().only_user(func.result(self.load))?;
        let &[to, _] = &func.insts[add].args[..] else { return None };
        let (cell, to_local) = (func.result(self.local), analyses.inst(to)?);
        // What takes a cell and an array is an addition or a store, and the latter is seen below.
        let is_sum = func.insts[to_local].op == Op::Local
            && func.ty(to) == func.ty(cell)
            && analyses.op(func.insts[self.local].args[0]) == Some(&Op::Absent);
        let home = tree.home(self.local);
        let together = home == tree.home(self.load) && home == tree.home(add);
        let (made, end) = (tree.order(self.local), tree.order(add));
        let before = self.added.iter().all(|&inst| tree.order(inst) < tree.order(self.load));
        let is_seen = |at: &Use| match *at {
            Use::Operand(inst, 0) if func.insts[inst].op == Op::AddTo => false,
            Use::Operand(inst, _) => (made..=end).contains(&tree.order(inst)),
            Use::Result(..) => true,
        };
        let unseen = !analyses.uses().of_value(to).iter().any(is_seen);
        (is_sum && together && before && unseen && tree.order(to_local) < made).then_some((to, add))
    }
}
