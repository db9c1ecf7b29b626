//! Adds to a buffer directly what is only added to it by way of an array.
//!
//! `a = local zero; … add_to a, i, x …; for n (k) { atomic.add buf, p(k), (load a)[k] }` ↦
//! `… atomic.add buf, p(i), x …`
//!
//! The cotangents of parameters that a thread reads from a buffer are summed in an array, whose elements are
//! then added to the buffer. If each element is added to about once, the array only costs memory: the
//! elements of all lanes together exceed a processor's first-level cache. If the thread adds to few elements
//! of a large array (a grid, a table), clearing the array and adding all of it takes the whole time.
//!
//! The loop over the elements may be a nest of loops over an array of arrays, may take the components of a
//! vector or the elements of a short array apart, and may compute the place `p(k)` from the counters and from what is defined before the sum.
//! All of that is repeated for each addition to the array, with the addition's indices for the counters. A
//! part of the array that the loops do not reach is added nowhere, so an index that is not certainly within
//! their numbers of trips is tested: zero is then added at index 0.
//!
//! This is right up to the order of additions, which is unspecified for atomic ones, and which the compiler is
//! free to choose for cotangents. Nothing else may access the buffer in between, except for other atomic
//! additions. An element to which nothing is added would contribute zero.

use ir::analysis::affine::Affine;
use ir::analysis::points_to::direct_global;
use ir::analysis::{Analyses, Use};
use ir::{AtomicOp, Function, Global, Inst, Op, Region, Scalar, Type, TypeData, Types, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::accumulators::{Sum, sums};
use crate::util::{make_number, times};

/// The maximum number of arrays that are delivered in a function, since the code in between is scanned for
/// each array.
const MOST_ARRAYS: usize = 64;
/// The maximum number of instructions that are repeated for each addition to an array: a short array that is taken apart
/// has two for each element.
const MOST_REPEATED: usize = 160;
/// The maximum number for all additions to an array together.
const MOST_IN_ALL: usize = 512;

/// Delivers all sums for which that pays; returns true if there were any. Only valid after AD.
pub(crate) fn run(types: &Types, func: &mut Function) -> bool {
    let analyses = Analyses::of(types, func);
    let deliveries: Vec<Delivery> =
        sums(&analyses).take(MOST_ARRAYS).filter_map(|sum| Delivery::of(&analyses, &sum)).collect();
    deliveries.iter().for_each(|delivery| delivery.apply(types, func));
    !deliveries.is_empty()
}

/// An array whose elements loops add to buffers.
struct Delivery {
    /// The counters of the loops, from the outermost to the innermost, with the numbers of trips.
    counters: SmallVec<[(Value, u64); 2]>,
    /// The values that are an element of the array.
    elements: Vec<Value>,
    /// The instructions that add an element, in order: what computes places, parts of elements, and the
    /// atomic additions.
    repeated: Vec<Inst>,
    sites: Vec<Site>,
    /// The addend of the array is a differential, which may be absent.
    is_differential: bool,
}

/// An addition to the array.
struct Site {
    inst: Inst,
    region: Region,
    /// By index: true if the index is certainly within the loop's trips.
    inside: SmallVec<[bool; 2]>,
}

impl Delivery {
    fn of(analyses: &Analyses, sum: &Sum) -> Option<Delivery> {
        let (func, tree) = (analyses.func, analyses.tree());
        let home = tree.home(sum.local)?;
        let mut found = Delivery {
            counters: SmallVec::new(),
            elements: Vec::new(),
            repeated: Vec::new(),
            sites: Vec::new(),
            is_differential: false,
        };
        // A differential becomes numbers before it is added to a buffer.
        let mut whole = func.result(sum.load);
        if let Some(user) = analyses.uses().only_user(whole)
            && func.insts[user].op == Op::Present
        {
            (whole, found.is_differential) = (func.result(user), true);
        }
        let mut ty = func.ty(whole);
        // The loops around the reads of elements, from the outermost.
        let (body, delivers) = found.elements_of(analyses, whole, home)?;
        let mut count: u64 = 1;
        for &(_, trips) in &found.counters {
            let TypeData::Array(element, len) = analyses.types[ty] else { return None };
            (ty, count) = (element, count.saturating_mul(u64::from(len)));
            if trips == 0 || trips > u64::from(len) {
                return None;
            }
        }
        // An element may itself be a short array, which is taken apart.
        while let TypeData::Array(element, _) = analyses.types[ty] {
            ty = element;
        }
        let scalar = match analyses.types[ty] {
            TypeData::Scalar(s) | TypeData::Vector(s, _) => s,
            _ => return None,
        };
        let is_together = |inst| tree.home(inst) == Some(home) && tree.order(inst) < tree.order(delivers);
        if !analyses.inst(whole).is_some_and(is_together) || !matches!(scalar, Scalar::F32 | Scalar::F64) {
            return None;
        }
        let mut additions = 0u64;
        let mut first = delivers;
        for &site in &sum.added {
            let (n, inside) = found.reaches(analyses, site, home)?;
            let ancestor = tree.ancestor_in(home, site)?;
            if tree.order(ancestor) > tree.order(sum.load) {
                return None;
            }
            if tree.order(ancestor) < tree.order(first) {
                first = ancestor;
            }
            additions = additions.saturating_add(n);
            found.sites.push(Site { inst: site, region: tree.home(site)?, inside });
        }
        // Where elements are added to again and again, the array is the better place to do it.
        if found.sites.is_empty() || additions > count.saturating_mul(2) {
            return None;
        }
        let globals = found.repeat(analyses, body, first)?;
        if found.repeated.len() * found.sites.len() > MOST_IN_ALL {
            return None;
        }
        let between = func.regions[home].insts.iter().skip_while(|&&inst| inst != first);
        let mut between = between.take_while(|&&inst| tree.order(inst) <= tree.order(delivers));
        let passes = |inst| globals.iter().all(|&global| may_pass(analyses, inst, global));
        between.all(|&inst| passes(inst)).then_some(found)
    }

    /// Finds the reads of the array's elements, which are all in one nest of loops in `home`. Returns the
    /// body of the innermost loop, and the outermost loop.
    fn elements_of(&mut self, analyses: &Analyses, whole: Value, home: Region) -> Option<(Region, Inst)> {
        let (func, tree) = (analyses.func, analyses.tree());
        let mut parts = vec![whole];
        let is_taken_apart = |parts: &[Value]| {
            parts.iter().flat_map(|&part| analyses.uses().of_value(part)).any(
                |&at| matches!(at, Use::Operand(read, 0) if matches!(func.insts[read].op, Op::Extract(_))),
            )
        };
        while let TypeData::Array(..) = analyses.types[func.ty(*parts.first()?)] {
            if !self.counters.is_empty() && is_taken_apart(&parts) {
                break;
            }
            let mut elements = Vec::new();
            for part in parts {
                for &at in analyses.uses().of_value(part) {
                    let Use::Operand(read, 0) = at else { return None };
                    let &[_, counter] = &func.insts[read].args[..] else { return None };
                    if func.insts[read].op != Op::Index {
                        return None;
                    }
                    let trips = analyses.constant_trips(counter)?;
                    let level = (counter, trips);
                    match elements.is_empty() {
                        true => self.counters.push(level),
                        false if self.counters.last() == Some(&level) => {}
                        false => return None,
                    }
                    elements.push(func.result(read));
                }
            }
            parts = elements;
        }
        self.elements = parts;
        // Each loop is in the body of the one before.
        let mut region = home;
        let mut outermost = None;
        for &(counter, _) in &self.counters {
            let inst = analyses.trips().counter(counter)?;
            if tree.home(inst) != Some(region) {
                return None;
            }
            outermost.get_or_insert(inst);
            region = func.insts[inst].regions[0];
        }
        let reads_inside = |&v: &Value| analyses.home_of(v) == Some(region);
        let all_inside = self.elements.iter().all(reads_inside);
        Some((region, outermost?)).filter(|_| all_inside)
    }

    /// The number of times that an addition to the array is made, and which of its indices are certainly
    /// within the loops' trips.
    fn reaches(&self, analyses: &Analyses, site: Inst, home: Region) -> Option<(u64, SmallVec<[bool; 2]>)> {
        let func = analyses.func;
        let data = &func.insts[site];
        if data.args.len() != self.counters.len() + 2 {
            return None;
        }
        let mut inside = SmallVec::new();
        for (&index, &(counter, trips)) in data.args[1..].iter().zip(&self.counters) {
            let is_word =
                |v: Value| matches!(analyses.types[func.ty(v)], TypeData::Scalar(Scalar::I32 | Scalar::U32));
            if !is_word(index) || !is_word(counter) {
                return None;
            }
            let is_below = |affine: Affine| {
                let (least, most) = affine.bounds;
                least >= 0 && u64::try_from(most).is_ok_and(|most| most < trips)
            };
            let is_affine = Affine::of(analyses, index).is_some_and(is_below);
            inside.push(is_affine || analyses.bounds().below(index, trips));
        }
        Some((times(analyses, site, home)?, inside))
    }

    /// Collects the instructions that add an element, and returns the buffers that they add to. What is not
    /// repeated is defined before `first`, and so before each addition to the array.
    fn repeat(&mut self, analyses: &Analyses, body: Region, first: Inst) -> Option<Vec<Global>> {
        let func = analyses.func;
        // Elements, and parts of them, are only added to buffers.
        let mut parts = self.elements.clone();
        let (mut atomics, mut globals) = (Vec::new(), Vec::new());
        while let Some(part) = parts.pop() {
            for &at in analyses.uses().of_value(part) {
                let Use::Operand(inst, k) = at else { return None };
                let data = &func.insts[inst];
                if analyses.home(inst) != Some(body) {
                    return None;
                }
                match data.op {
                    Op::Extract(_) => parts.push(data.results[0]),
                    Op::Atomic(_, AtomicOp::Add) if k as usize + 1 == data.args.len() => {
                        if analyses.uses().count(data.results[0]) != 0 {
                            return None;
                        }
                        globals.push(direct_global(func, analyses.defs(), data.args[0])?);
                        atomics.push(inst);
                    }
                    _ => return None,
                }
            }
        }
        for &atomic in &atomics {
            self.collect(analyses, atomic, first)?;
        }
        let order = |&inst: &Inst| analyses.tree().order(inst);
        self.repeated.sort_by_key(order);
        (!atomics.is_empty()).then_some(globals)
    }

    /// Collects an instruction, and those of its operands that are not defined before `first`.
    fn collect(&mut self, analyses: &Analyses, inst: Inst, first: Inst) -> Option<()> {
        if self.repeated.contains(&inst) {
            return Some(());
        }
        if self.repeated.len() == MOST_REPEATED {
            return None;
        }
        self.repeated.push(inst);
        for &arg in &analyses.func.insts[inst].args {
            if self.elements.contains(&arg) || self.counters.iter().any(|c| c.0 == arg) {
                continue;
            }
            // Any other parameter of a region that is visible belongs to a region around the sum.
            let Some(made) = analyses.inst(arg) else { continue };
            if analyses.tree().order(made) < analyses.tree().order(first) {
                continue;
            }
            let op = &analyses.func.insts[made].op;
            if !op.is_elementary() && !matches!(op, Op::Const(_) | Op::Extract(_) | Op::GlobalRef(_)) {
                return None;
            }
            self.collect(analyses, made, first)?;
        }
        Some(())
    }

    fn apply(&self, types: &Types, func: &mut Function) {
        for site in &self.sites {
            let new = self.additions(types, func, site);
            let list = &mut func.regions[site.region].insts;
            if let Some(at) = list.iter().position(|&inst| inst == site.inst) {
                list.splice(at..=at, new);
            }
        }
        let is_atomic = |func: &Function, inst: Inst| matches!(func.insts[inst].op, Op::Atomic(..));
        let gone: Vec<Inst> = self.repeated.iter().copied().filter(|&inst| is_atomic(func, inst)).collect();
        func.regions.values_mut().for_each(|region| region.insts.retain(|inst| !gone.contains(inst)));
    }

    /// The instructions that make an addition to the array in the buffers instead.
    fn additions(&self, types: &Types, func: &mut Function, site: &Site) -> Vec<Inst> {
        let (args, span) = (func.insts[site.inst].args.clone(), func.insts[site.inst].span);
        let mut new = Vec::new();
        let mut emit = |func: &mut Function, op: Op, args: &[Value], ty: Type| {
            let (inst, v) = make_number(func, op, args, ty, span);
            new.push(inst);
            v
        };
        let mut map: FxHashMap<Value, Value> = FxHashMap::default();
        let mut all_inside = None;
        let indices = &args[1..args.len() - 1];
        for ((&index, &(counter, trips)), &inside) in indices.iter().zip(&self.counters).zip(&site.inside) {
            let is_unsigned = types[func.ty(index)] == TypeData::Scalar(Scalar::U32);
            if !inside {
                let unsigned = if is_unsigned { index } else { emit(func, Op::Bitcast, &[index], Type::U32) };
                let n = emit(func, Op::Const(trips), &[], Type::U32);
                let inside = emit(func, Op::Lt, &[unsigned, n], Type::BOOL);
                all_inside = Some(match all_inside {
                    None => inside,
                    Some(all) => emit(func, Op::And, &[all, inside], Type::BOOL),
                });
            }
            let ty = func.ty(counter);
            let same = if func.ty(index) == ty { index } else { emit(func, Op::Bitcast, &[index], ty) };
            map.insert(counter, same);
        }
        let mut x = args[args.len() - 1];
        if self.is_differential {
            let ty = func.ty(x);
            x = emit(func, Op::Present, &[x], ty);
        }
        if let Some(inside) = all_inside {
            let mut or_zero = |func: &mut Function, v: Value| {
                let ty = func.ty(v);
                let zero = emit(func, Op::Zero, &[], ty);
                emit(func, Op::Select, &[inside, v, zero], ty)
            };
            x = or_zero(func, x);
            for &(counter, _) in &self.counters {
                let index = or_zero(func, map[&counter]);
                map.insert(counter, index);
            }
        }
        self.elements.iter().for_each(|&element| _ = map.insert(element, x));
        for &inst in &self.repeated {
            let data = func.insts[inst].clone();
            let args: Vec<Value> = data.args.iter().map(|v| map.get(v).copied().unwrap_or(*v)).collect();
            let ty = func.ty(data.results[0]);
            let v = emit(func, data.op, &args, ty);
            map.insert(data.results[0], v);
        }
        new
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
        Op::Barrier | Op::WaveGather | Op::WaveMultiply(_) => false,
        op => op.callee().is_none(),
    };
    let inner = data.regions.iter().flat_map(|&region| &func.regions[region].insts);
    here && inner.copied().all(|inst| may_pass(analyses, inst, global))
}
