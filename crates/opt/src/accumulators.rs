//! Accumulates sums directly where they are added to: in another sum, or in a buffer.
//!
//! `a = local absent; … add_to a, i, x …; add_to b, load a` ↦ `… add_to b, i, x …`
//!
//! `a = local absent; for … { add_to a, i, x }; for n (k) { atomic.add buf, k + c, (load a)[k] }` ↦
//! `for … { atomic.add buf, i + c, x }`
//!
//! A call's cotangent of an array parameter is a sum of its own, which the caller adds to the array's
//! cotangent. Where the call is inlined, for example in a loop over samples, each trip would clear and add
//! the whole array, however few elements it touches. Likewise, the cotangents of weights that a thread keeps
//! in an array are each computed once, stored in an element of their own, and loaded from there to be added
//! to the buffer; the elements of all lanes together exceed a processor's first-level cache.
//!
//! The first rewrite is right up to the order of the additions, which the compiler is free to choose: reverse
//! mode accumulates cotangents by `add_to`. Nothing else may read or write `b` in between. The cells, the
//! load and the addition are in the same region, so each `a` is added once, and all additions to `a` come
//! before.
//!
//! The second is right where at most one number is added to each element, so that this number is added to
//! the buffer: the index is affine in the counters of all loops between the array and the addition, no two
//! trips give the same index, and no index is out of range. An element to which nothing is added would
//! contribute zero. Nothing else may access the buffer in between, except for other atomic additions, whose
//! order is unspecified.

use ir::analysis::affine::Affine;
use ir::analysis::points_to::direct_global;
use ir::analysis::{Analyses, Use};
use ir::{AtomicOp, Function, Global, Inst, Op, Path, Region, Scalar, Span, Type, TypeData, Types, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::util::make_number;

/// The maximum number of arrays that are delivered in a function, since the code in between is scanned for
/// each array.
const MOST_ARRAYS: usize = 64;

/// Replaces sums that are only added to another sum; returns true if there were any. Only valid after AD.
pub(crate) fn merge(types: &Types, func: &mut Function) -> bool {
    if !func.has_body() {
        return false;
    }
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

/// Adds to a buffer directly what is only added to it by way of an array; returns true if there was any. Only
/// valid after AD.
pub(crate) fn deliver(types: &Types, func: &mut Function) -> bool {
    if !func.has_body() {
        return false;
    }
    let analyses = Analyses::of(types, func);
    let deliveries: Vec<Delivery> =
        sums(&analyses).take(MOST_ARRAYS).filter_map(|sum| sum.delivery(&analyses)).collect();
    deliveries.iter().for_each(|delivery| delivery.apply(func));
    !deliveries.is_empty()
}

/// A cell that holds an array of zeros, to which code adds, and which is then loaded once, as a whole.
struct Sum {
    local: Inst,
    load: Inst,
    added: Vec<Inst>,
}

/// The sums of a function, in the order of the text.
fn sums<'a>(analyses: &'a Analyses) -> impl Iterator<Item = Sum> + 'a {
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
        let is_sum = func.insts[add].op == Op::AddTo
            && func.insts[to_local].op == Op::Local
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

    /// The way in which a loop adds this sum's elements to a buffer.
    fn delivery(&self, analyses: &Analyses) -> Option<Delivery> {
        let (types, func, tree, uses) = (analyses.types, analyses.func, analyses.tree(), analyses.uses());
        let &[site] = &self.added[..] else { return None };
        let &[_, index, value] = &func.insts[site].args[..] else { return None };
        let (home, whole) = (tree.home(self.local)?, func.result(self.load));
        // The loop that adds to the buffer: each trip reads one element.
        let read = uses.only_user(whole)?;
        let &[_, counter] = &func.insts[read].args[..] else { return None };
        let atomic = uses.only_user(*func.insts[read].results.first()?)?;
        let (Op::Index, Op::Atomic(path, AtomicOp::Add)) = (&func.insts[read].op, &func.insts[atomic].op)
        else {
            return None;
        };
        let data = &func.insts[atomic];
        let &[handle, place, _] = &data.args[..] else { return None };
        let (body, result) = (tree.home(atomic)?, data.results[0]);
        let delivers = tree.holder(body)?;
        let is_loop = analyses.trips().counter(counter) == Some(delivers)
            && tree.home(delivers) == Some(home)
            && tree.home(self.load) == Some(home);
        let TypeData::Array(element, len) = types[func.ty(whole)] else { return None };
        let is_float = matches!(types[element], TypeData::Scalar(Scalar::F32 | Scalar::F64));
        let fits = func.ty(index) == func.ty(counter) && func.ty(value) == func.ty(result);
        if !is_loop || !is_float || !fits || !path.0.is_empty() || uses.count(result) != 0 {
            return None;
        }
        let global = direct_global(func, analyses.defs(), handle)?;
        let offset = self.offset(analyses, place, counter)?;
        // The addition to the array: at most one to each element, and none to any other place.
        let mut affine = Affine::of(analyses, index)?;
        let (least, most) = affine.bounds;
        let end = analyses.constant_trips(counter)?.min(u64::from(len));
        if least < 0 || most >= i64::try_from(end).ok()? || !affine.is_injective(analyses, site, home) {
            return None;
        }
        let first = tree.ancestor_in(home, site)?;
        if tree.order(self.load) < tree.order(first) {
            return None;
        }
        let between = func.regions[home].insts.iter().skip_while(|&&inst| inst != first);
        let mut between = between.take_while(|&&inst| tree.order(inst) <= tree.order(delivers));
        if !between.all(|&inst| may_pass(analyses, inst, global)) {
            return None;
        }
        Some(Delivery {
            site,
            region: tree.home(site)?,
            index,
            value,
            atomic,
            body,
            global,
            handle: func.ty(handle),
            result: func.ty(result),
            span: data.span,
            offset,
        })
    }

    /// The offset of a place from the counter, if the offset was defined before the cell.
    fn offset(&self, analyses: &Analyses, place: Value, counter: Value) -> Option<Offset> {
        if place == counter {
            return Some(Offset::None);
        }
        let sum = analyses.def(place).filter(|data| data.op == Op::Add)?;
        let rest = match sum.args[..] {
            [a, b] if a == counter && b != counter => b,
            [a, b] if b == counter && a != counter => a,
            _ => return None,
        };
        if let Some(bits) = analyses.constant(rest) {
            return Some(Offset::Const(bits));
        }
        let is_before = analyses.tree().order(analyses.inst(rest)?) < analyses.tree().order(self.local);
        is_before.then_some(Offset::Value(rest))
    }
}

/// Returns true if additions to a buffer may be made before an instruction rather than after it.
fn may_pass(analyses: &Analyses, inst: Inst, global: Global) -> bool {
    let func = analyses.func;
    let data = &func.insts[inst];
    let elsewhere =
        || direct_global(func, analyses.defs(), data.args[0]).is_some_and(|other| other != global);
    let here = match &data.op {
        Op::BufferLoad(_) | Op::BufferStore(_) => elsewhere(),
        Op::Atomic(_, AtomicOp::Add) => elsewhere() || analyses.uses().count(data.results[0]) == 0,
        Op::Atomic(..) => elsewhere(),
        Op::Barrier | Op::WaveGather => false,
        op => op.callee().is_none(),
    };
    let inner = data.regions.iter().flat_map(|&region| &func.regions[region].insts);
    here && inner.copied().all(|inst| may_pass(analyses, inst, global))
}

/// An array whose elements a loop adds to a buffer.
struct Delivery {
    /// The addition to the array, its region, the index and the value added.
    site: Inst,
    region: Region,
    index: Value,
    value: Value,
    /// The addition to the buffer, and the region of that addition.
    atomic: Inst,
    body: Region,
    global: Global,
    handle: Type,
    result: Type,
    span: Span,
    offset: Offset,
}

/// The offset that is added to the index.
#[derive(Clone, Copy)]
enum Offset {
    None,
    Const(u64),
    Value(Value),
}

impl Delivery {
    fn apply(&self, func: &mut Function) {
        let ty = func.ty(self.index);
        let mut new: Vec<Inst> = Vec::new();
        let mut emit = |op: Op, args: &[Value], ty: Type| {
            let (inst, v) = make_number(func, op, args, ty, self.span);
            new.push(inst);
            v
        };
        let offset = match self.offset {
            Offset::None => None,
            Offset::Value(v) => Some(v),
            Offset::Const(bits) => Some(emit(Op::Const(bits), &[], ty)),
        };
        let place = offset.map_or(self.index, |offset| emit(Op::Add, &[self.index, offset], ty));
        let buffer = emit(Op::GlobalRef(self.global), &[], self.handle);
        emit(Op::Atomic(Path::default(), AtomicOp::Add), &[buffer, place, self.value], self.result);
        let list = &mut func.regions[self.region].insts;
        if let Some(at) = list.iter().position(|&inst| inst == self.site) {
            list.splice(at..=at, new);
        }
        func.regions[self.body].insts.retain(|&inst| inst != self.atomic);
    }
}
