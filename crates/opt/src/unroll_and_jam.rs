//! Runs several trips of a loop side by side in one inner loop (unroll-and-jam).
//!
//! `for i < 4 n { for j < m { s_i += w[i, j] * x[j] } }` ↦ `for i < n { for j < m { s_4i += …; …; s_4i+3 += … } }`. A product of
//! a matrix and a vector then loads each `x[j]` once for several rows, whose sums need not wait for each other; a loop
//! without an inner one that adds to memory is unrolled, so that the sums of several elements are made together.
//!
//! The order of operations on each place in memory stays the same, so the result does, too, bit for bit:
//!
//! - a cell that the loop writes is accessed beside the inner loop only, at `i`, or in the inner loop only, at `j`:
//!   accesses of one place keep their order;
//! - memory that the host sees is only read, or only written: at places of which no two trips of the loops have the
//!   same, by instructions that have none in common.
//!
//! The results that trips yield are collected in a cell.

use ir::analysis::affine::Affine;
use ir::analysis::points_to::{root_cell, root_global};
use ir::analysis::{Analyses, Summaries, Use};
use ir::transform::Subst;
use ir::walk::copy_within;
use ir::{AtomicOp, Function, Global, Inst, InstData, Op, Region, Type, TypeData, Types, Value};
use rustc_hash::FxHashMap;

use crate::util::{ValueMap, make_number};

/// The maximum number of instructions in the copies of a loop's body.
const MOST: usize = 600;

/// The maximum number of trips of a loop whose results are collected in a cell, which is zeroed first.
const MOST_KEPT: u64 = 4096;

/// A loop to transform, and the loop in it.
struct Nest {
    trips: u64,
    inner: Option<Inst>,
}

/// Transforms the loops of a function with a multiple of `ways` trips; returns true if there were any. Only valid after
/// AD.
pub(crate) fn run(types: &mut Types, func: &mut Function, summaries: &Summaries, ways: u64) -> bool {
    if ways < 2 {
        return false;
    }
    let analyses = Analyses::of(types, func);
    let mut nests: FxHashMap<Inst, Nest> = FxHashMap::default();
    func.walk(func.body(), &mut |inst| {
        if let Some(nest) = nest(&analyses, summaries, inst, ways) {
            nests.insert(inst, nest);
        }
    });
    // A loop in a loop that is transformed stays.
    let inner: Vec<Inst> = nests.values().filter_map(|nest| nest.inner).collect();
    nests.retain(|inst, _| !inner.contains(inst));
    if nests.is_empty() {
        return false;
    }
    let mut subst = Subst::default();
    func.rebuild(|func, inst, out| match nests.remove(&inst) {
        Some(nest) => jam(types, func, inst, &nest, ways, &mut subst, out),
        None => out.push(inst),
    });
    subst.apply_everywhere(func);
    true
}

/// A loop that can be transformed, if it pays.
fn nest(analyses: &Analyses, summaries: &Summaries, outer: Inst, ways: u64) -> Option<Nest> {
    let (types, func) = (analyses.types, analyses.func);
    let data = &func.insts[outer];
    let Op::For(info) = data.op else { return None };
    let body = data.regions[0];
    let trips = analyses.constant_trips(func.regions[body].params[0])?;
    if info.max_iters.is_some() || data.n_carried() > 0 || trips % ways != 0 || trips < 2 * ways {
        return None;
    }
    if !data.results.is_empty() && trips > MOST_KEPT {
        return None;
    }
    for &stack in &data.results {
        let TypeData::Stack(element) = types[func.ty(stack)] else { return None };
        let is_read = |at: &Use| match *at {
            Use::Operand(inst, 0) if func.insts[inst].op == Op::Index => {
                analyses.bounds().below(func.insts[inst].args[1], trips)
            }
            Use::Operand(..) | Use::Result(..) => false,
        };
        if !matches!(types[element], TypeData::Scalar(_))
            || !analyses.uses().of_value(stack).iter().all(is_read)
        {
            return None;
        }
    }
    let mut inner = None;
    for &inst in &func.regions[body].insts {
        let data = &func.insts[inst];
        if data.regions.is_empty() {
            continue;
        }
        let Op::For(info) = data.op else { return None };
        let is_plain = info.max_iters.is_none()
            && data.results.len() == data.n_carried()
            && analyses.home_of(data.args[0]) != Some(body)
            && func.regions[data.regions[0]].insts.iter().all(|&inst| func.insts[inst].regions.is_empty());
        if !is_plain || inner.replace(inst).is_some() {
            return None;
        }
    }
    let mut size = func.regions[body].insts.len();
    size += inner.map_or(0, |inst| func.regions[func.insts[inst].regions[0]].insts.len());
    let nest = Nest { trips, inner };
    (size * ways as usize <= MOST
        && pays(func, body, inner)
        && keeps_order(analyses, summaries, outer, inner))
    .then_some(nest)
}

/// Returns true if trips that run side by side share work: sums that wait for nothing but themselves, or additions to
/// memory.
fn pays(func: &Function, body: Region, inner: Option<Inst>) -> bool {
    let adds = |region: Region| {
        func.regions[region]
            .insts
            .iter()
            .any(|&inst| matches!(func.insts[inst].op, Op::Atomic(_, AtomicOp::Add)))
    };
    match inner {
        Some(inst) => func.insts[inst].n_carried() > 0 || adds(func.insts[inst].regions[0]),
        None => adds(body) && func.regions[body].insts.len() <= 16,
    }
}

/// Returns true if the trips of the outer loop can run side by side.
fn keeps_order(analyses: &Analyses, summaries: &Summaries, outer: Inst, inner: Option<Inst>) -> bool {
    let func = analyses.func;
    let Some(home) = analyses.home(outer) else { return false };
    let body = func.insts[outer].regions[0];
    let counter = |inst: Inst| func.regions[func.insts[inst].regions[0]].params[0];
    // For each cell: whether it is written, and in which loops it is accessed at other places than at the counter.
    let mut cells: FxHashMap<Value, (bool, [bool; 2], bool)> = FxHashMap::default();
    let mut written: Vec<(Option<Global>, (i64, i64))> = Vec::new();
    let (mut reads, mut fits) = (false, true);
    func.walk(body, &mut |inst| {
        let data = &func.insts[inst];
        match &data.op {
            Op::Load | Op::Store | Op::AddTo => {
                let root = root_cell(func, analyses.defs(), data.args[0]);
                let own = analyses.home_of(root);
                if own == Some(body) || inner.is_some_and(|i| own == Some(func.insts[i].regions[0])) {
                    return;
                }
                let is_inner = analyses.home(inst) != Some(body);
                let at = if is_inner { inner.map(counter) } else { Some(counter(outer)) };
                let writes = data.op != Op::Load;
                let places = &data.args[1..data.args.len() - usize::from(writes)];
                let access = cells.entry(root).or_default();
                access.0 |= writes;
                access.1[usize::from(is_inner)] = true;
                access.2 |= root != data.args[0] || places.len() != 1 || Some(places[0]) != at;
            }
            Op::SubCell => fits = false,
            Op::BufferLoad(_) => reads |= summaries.inst(func, analyses.defs(), inst).reads,
            Op::BufferStore(_) | Op::Atomic(_, AtomicOp::Add) => {
                let unused = data.results.iter().all(|&r| analyses.uses().of_value(r).is_empty());
                let places = data.args.len() - 1;
                let sum = Affine::of(analyses, data.args[1]);
                let once = sum
                    .filter(|_| places == 2 && unused)
                    .and_then(|mut sum| sum.is_injective(analyses, inst, home).then_some(sum.bounds));
                match once {
                    Some(bounds) => written.push((root_global(func, analyses.defs(), data.args[0]), bounds)),
                    None => fits = false,
                }
            }
            Op::For(_) => {}
            op => fits &= op.is_pure() || *op == Op::Local,
        }
    });
    let of_cells = cells
        .values()
        .all(|&(writes, [beside, within], elsewhere)| !(writes && (elsewhere || beside && within)));
    let apart = written.iter().enumerate().all(|(k, (global, bounds))| {
        let others =
            written[..k].iter().filter(|(other, _)| other.is_none() || global.is_none() || other == global);
        others.into_iter().all(|(_, other)| bounds.1 < other.0 || other.1 < bounds.0)
    });
    fits && of_cells && apart && (written.is_empty() || !reads)
}

/// Writes the loop with `ways` trips side by side.
fn jam(
    types: &mut Types,
    func: &mut Function,
    outer: Inst,
    nest: &Nest,
    ways: u64,
    subst: &mut Subst,
    out: &mut Vec<Inst>,
) {
    let data = func.insts[outer].clone();
    let Op::For(info) = data.op else { return out.push(outer) };
    let (body, span) = (data.regions[0], data.span);
    let (counter, yields) = (func.regions[body].params[0], func.regions[body].results.clone());
    let ty = func.ty(counter);
    let trips = nest.trips;
    let number = |func: &mut Function, list: &mut Vec<Inst>, op: Op, args: &[Value]| {
        let (inst, v) = make_number(func, op, args, ty, span);
        list.push(inst);
        v
    };
    // What the trips yield is collected in cells.
    let mut cells: Vec<(Value, Type)> = Vec::new();
    for &stack in &data.results {
        let TypeData::Stack(element) = types[func.ty(stack)] else { return out.push(outer) };
        let array = types.array(element, trips as u32);
        let (zero, empty) = make_number(func, Op::Zero, &[], array, span);
        let cell = types.cell(array);
        let (local, cell) = make_number(func, Op::Local, &[empty], cell, span);
        out.extend([zero, local]);
        cells.push((cell, array));
    }
    let fewer = number(func, out, Op::Const(trips / ways), &[]);
    let own = func.value_like(counter);
    let mut list = Vec::new();
    let by = number(func, &mut list, Op::Const(ways), &[]);
    let first = number(func, &mut list, Op::Mul, &[own, by]);
    let mut maps: Vec<ValueMap> = Vec::new();
    for way in 0..ways {
        let at = if info.down { ways - 1 - way } else { way };
        let i = match at {
            0 => first,
            _ => {
                let at = number(func, &mut list, Op::Const(at), &[]);
                number(func, &mut list, Op::Add, &[first, at])
            }
        };
        maps.push([(counter, i)].into_iter().collect());
    }
    let insts = func.regions[body].insts.clone();
    let split =
        nest.inner.and_then(|inner| insts.iter().position(|&inst| inst == inner)).unwrap_or(insts.len());
    let copies = |func: &mut Function, maps: &mut [ValueMap], insts: &[Inst], list: &mut Vec<Inst>| {
        for map in maps {
            list.extend(insts.iter().map(|&inst| copy_within(func, inst, map)));
        }
    };
    copies(func, &mut maps, &insts[..split], &mut list);
    if let Some(inner) = nest.inner {
        list.push(together(func, inner, &mut maps));
        copies(func, &mut maps, &insts[split + 1..], &mut list);
    }
    for map in &maps {
        for (&(cell, _), v) in cells.iter().zip(&yields) {
            let x = map.get(v).copied().unwrap_or(*v);
            list.push(func.make(Op::Store, &[cell, map[&counter], x], &[], span));
        }
    }
    let region = func.regions.push(ir::RegionData { params: vec![own], insts: list, results: Vec::new() });
    let made = InstData {
        args: vec![fewer].into(),
        results: Default::default(),
        regions: [region].into_iter().collect(),
        ..data.clone()
    };
    out.push(func.insts.push(made));
    for (&stack, &(cell, array)) in data.results.iter().zip(&cells) {
        let (load, all) = make_number(func, Op::Load, &[cell], array, span);
        out.push(load);
        subst.set(stack, all);
    }
}

/// The inner loop for several trips of the outer one, given the values of each.
fn together(func: &mut Function, inner: Inst, maps: &mut [ValueMap]) -> Inst {
    let mut data = func.insts[inner].clone();
    let body = func.regions[data.regions[0]].clone();
    let (args, results) = (data.args.clone(), data.results.clone());
    let renamed = |map: &ValueMap, v: &Value| map.get(v).copied().unwrap_or(*v);
    let counter = func.value_like(body.params[0]);
    let mut region = ir::RegionData { params: vec![counter], ..Default::default() };
    data.args.truncate(1);
    data.results.clear();
    for map in maps.iter() {
        data.args.extend(args[1..].iter().map(|v| renamed(map, v)));
    }
    for map in maps.iter_mut() {
        map.insert(body.params[0], counter);
        for &param in &body.params[1..] {
            let own = func.value_like(param);
            map.insert(param, own);
            region.params.push(own);
        }
        region.insts.extend(body.insts.iter().map(|&inst| copy_within(func, inst, map)));
        region.results.extend(body.results.iter().map(|v| renamed(map, v)));
        for &result in &results {
            let own = func.value_like(result);
            map.insert(result, own);
            data.results.push(own);
        }
    }
    data.regions = [func.regions.push(region)].into_iter().collect();
    func.insts.push(data)
}
