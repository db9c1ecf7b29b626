//! Shapes a copy of a function for the printer, without changing what it computes.
//!
//! Sums with zero and products with one are left out. Branches that follow each other and test the same value become one branch: each arm of the second sees what the
//! same arm of the first yields. A sum that only adds what a branch yields moves into its arms, of which most add
//! nothing. What is computed after a branch and does not depend on it moves before it, so that
//! the branch that decides whether a loop goes on is the last instruction of its region, and can be written as
//! `break`.

use ir::{Function, Inst, Op, Region, Scalar, Types, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// Shapes all regions of a function.
pub(crate) fn tidy(types: &Types, src: &mut Function) {
    let mut known = FxHashMap::default();
    neutral((types, src), src.body(), &mut known, &mut FxHashMap::default());
    replace(src, src.body(), &known);
    src.rebuild(|src, inst, out| {
        let is_left_out = src.insts[inst].results.first().is_some_and(|v| known.contains_key(v));
        out.extend((!is_left_out).then_some(inst));
    });
    counts(src);
    tidy_region(src, src.body());
}

/// Counts loops up to `n` rather than `0 < n ? n : 0`, where `n` is a parameter: the text compares numbers with their
/// signs, so a loop up to a negative number makes no trip either.
fn counts(src: &mut Function) {
    let mut defined: FxHashMap<Value, Inst> = FxHashMap::default();
    let mut loops = Vec::new();
    src.walk(src.body(), &mut |inst| {
        let data = &src.insts[inst];
        data.results.iter().for_each(|&v| _ = defined.insert(v, inst));
        if matches!(data.op, Op::For(_)) {
            loops.push(inst);
        }
    });
    let params = &src.regions[src.body()].params;
    let op = |v: Value| defined.get(&v).map(|&i| &src.insts[i]);
    let zero = |v: Value| op(v).is_some_and(|d| matches!(d.op, Op::Zero | Op::Const(0)));
    let mut found = Vec::new();
    for inst in loops {
        let Some(select) = op(src.insts[inst].args[0]).filter(|d| matches!(d.op, Op::Select)) else {
            continue;
        };
        let (test, n) = (op(select.args[0]), select.args[1]);
        let tests = test.is_some_and(|d| matches!(d.op, Op::Lt) && zero(d.args[0]) && d.args[1] == n);
        if tests && zero(select.args[2]) && params.contains(&n) {
            found.push((inst, n));
        }
    }
    for (inst, n) in found {
        src.insts[inst].args[0] = n;
    }
    // What nothing uses any more is not written.
    let uses = ir::walk::use_counts(src);
    src.rebuild(|src, inst, out| {
        let data = &src.insts[inst];
        let is_dead = matches!(data.op, Op::Select) && uses[data.results[0]] == 0;
        out.extend((!is_dead).then_some(inst));
    });
}

/// Finds sums with zero and products with one, and what they are equal to but for the sign of a zero.
fn neutral(
    (types, src): (&Types, &Function),
    region: Region,
    known: &mut FxHashMap<Value, Value>,
    constants: &mut FxHashMap<Value, f64>,
) {
    for &inst in &src.regions[region].insts {
        let data = &src.insts[inst];
        for &nested in &data.regions {
            neutral((types, src), nested, known, constants);
        }
        let renamed = |v: Value| known.get(&v).copied().unwrap_or(v);
        let is = |v: Value, number: f64| constants.get(&v) == Some(&number);
        let same = match (&data.op, &data.args[..]) {
            (Op::Add, &[a, b]) if is(b, 0.0) => Some(a),
            (Op::Add, &[a, b]) if is(a, 0.0) => Some(b),
            (Op::Sub, &[a, b]) if is(b, 0.0) => Some(a),
            (Op::Mul, &[a, b]) if is(b, 1.0) => Some(a),
            (Op::Mul, &[a, b]) if is(a, 1.0) => Some(b),
            _ => None,
        };
        if let Some(same) = same.filter(|&v| src.ty(v) == src.ty(data.results[0])) {
            known.insert(data.results[0], renamed(same));
        }
        match data.op {
            Op::Zero => _ = constants.insert(data.results[0], 0.0),
            Op::Const(0) => _ = constants.insert(data.results[0], 0.0),
            Op::Const(bits) => match types.scalar_of(src.ty(data.results[0])) {
                Some(Scalar::F32) if bits == 0x8000_0000 => _ = constants.insert(data.results[0], 0.0),
                Some(Scalar::F64) if bits == 1 << 63 => _ = constants.insert(data.results[0], 0.0),
                Some(Scalar::F32) if bits == 0x3F80_0000 => _ = constants.insert(data.results[0], 1.0),
                Some(Scalar::F64) if bits == 0x3FF0_0000_0000_0000 => {
                    _ = constants.insert(data.results[0], 1.0)
                }
                _ => {}
            },
            _ => {}
        }
    }
}

/// Moves sums of which a branch yields one part into the arms of the branch.
fn sink_sums(src: &mut Function, region: Region, k: usize) {
    let insts = src.regions[region].insts.clone();
    let branch = insts[k];
    if !matches!(src.insts[branch].op, Op::If) {
        return;
    }
    let uses = ir::walk::use_counts(src);
    let mut made: FxHashSet<Value> = src.insts[branch].results.iter().copied().collect();
    for &sum in &insts[k + 1..] {
        let data = src.insts[sum].clone();
        let results = src.insts[branch].results.clone();
        let is_known = |v: &Value| !made.contains(v) || results.contains(v);
        let part = match (&data.op, &data.args[..]) {
            (Op::Add | Op::Sub, &[a, b]) if is_known(&a) && a != b && uses[b] == 1 => Some((1, b)),
            (Op::Add, &[a, b]) if is_known(&b) && a != b && uses[a] == 1 => Some((0, a)),
            _ => None,
        };
        let at = part.and_then(|(_, v)| src.insts[branch].results.iter().position(|&r| r == v));
        let (Some((side, _)), Some(at)) = (part, at) else {
            made.extend(data.results.iter().copied());
            continue;
        };
        for arm in src.insts[branch].regions.clone() {
            let yielded = src.regions[arm].results[at];
            let mut args = data.args.clone();
            args[side] = yielded;
            if let Some(own) = results.iter().position(|&r| r == args[1 - side]) {
                args[1 - side] = src.regions[arm].results[own];
            }
            if is_zero(src, yielded) {
                src.regions[arm].results[at] = args[1 - side];
                continue;
            }
            let result = src.value_like(data.results[0]);
            let inst = src.make(data.op.clone(), &args, &[result], data.span);
            src.regions[arm].insts.push(inst);
            src.regions[arm].results[at] = result;
        }
        src.insts[branch].results[at] = data.results[0];
        made.insert(data.results[0]);
        src.regions[region].insts.retain(|&i| i != sum);
    }
}

fn is_zero(src: &Function, v: Value) -> bool {
    let mut found = false;
    src.walk(src.body(), &mut |inst| {
        let data = &src.insts[inst];
        let is_zero = matches!(data.op, Op::Zero | Op::Const(0));
        found |= is_zero && data.results[0] == v;
    });
    found
}

fn tidy_region(src: &mut Function, region: Region) {
    let mut k = 0;
    while k < src.regions[region].insts.len() {
        while merge_next(src, region, k) {}
        sink_sums(src, region, k);
        let inst = src.regions[region].insts[k];
        for nested in src.insts[inst].regions.clone() {
            tidy_region(src, nested);
        }
        k += 1;
    }
    hoist(src, region);
}

/// Merges the branch at a position with the next one of the region if that tests the same value.
fn merge_next(src: &mut Function, region: Region, k: usize) -> bool {
    let insts = src.regions[region].insts.clone();
    let first = insts[k];
    if !matches!(src.insts[first].op, Op::If) {
        return false;
    }
    let made: FxHashSet<Value> = src.insts[first].results.iter().copied().collect();
    let mut between = made.clone();
    let mut next = None;
    for &inst in &insts[k + 1..] {
        let data = &src.insts[inst];
        let depends = data.args.iter().any(|v| between.contains(v));
        if matches!(data.op, Op::If) && data.args == src.insts[first].args {
            next = Some(inst);
            break;
        }
        if !is_movable(src, inst) {
            return false;
        }
        if depends {
            between.extend(data.results.iter().copied());
        }
    }
    let Some(second) = next else { return false };
    // Nothing that the second branch reads is computed from the first one in between.
    let computed: FxHashSet<Value> = between.difference(&made).copied().collect();
    let mut reads = false;
    for &arm in &src.insts[second].regions {
        ir::walk::for_each_use(src, arm, &mut |v| reads |= computed.contains(&v));
    }
    if reads {
        return false;
    }
    let arms: Vec<(Region, Region)> =
        src.insts[first].regions.iter().copied().zip(src.insts[second].regions.iter().copied()).collect();
    for (to, from) in arms {
        let yielded: FxHashMap<Value, Value> =
            src.insts[first].results.iter().copied().zip(src.regions[to].results.iter().copied()).collect();
        replace(src, from, &yielded);
        let moved = std::mem::take(&mut src.regions[from].insts);
        let results = std::mem::take(&mut src.regions[from].results);
        src.regions[to].insts.extend(moved);
        src.regions[to].results.extend(results);
    }
    let results = std::mem::take(&mut src.insts[second].results);
    src.insts[first].results.extend(results);
    // What stands between them and needs nothing of the first precedes the merged branch.
    let mut order: Vec<Inst> = insts[..k].to_vec();
    let end = insts.iter().position(|&i| i == second).expect("it was found there");
    let is_after = |inst: &Inst| src.insts[*inst].results.iter().any(|v| computed.contains(v));
    order.extend(insts[k + 1..end].iter().filter(|i| !is_after(i)));
    order.push(first);
    order.extend(insts[k + 1..end].iter().filter(|i| is_after(i)));
    order.extend(&insts[end + 1..]);
    let moved = order.iter().position(|&i| i == first) != Some(k);
    src.regions[region].insts = order;
    // The caller looks at the same position again, where another branch may stand now.
    !moved
}

/// Moves what does not depend on the last branch of a region before it.
fn hoist(src: &mut Function, region: Region) {
    let insts = src.regions[region].insts.clone();
    let Some(at) = insts.iter().rposition(|&i| matches!(src.insts[i].op, Op::If)) else { return };
    let mut made: FxHashSet<Value> = src.insts[insts[at]].results.iter().copied().collect();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for &inst in &insts[at + 1..] {
        let data = &src.insts[inst];
        if is_movable(src, inst) && !data.args.iter().any(|v| made.contains(v)) {
            before.push(inst);
        } else {
            made.extend(data.results.iter().copied());
            after.push(inst);
        }
    }
    src.regions[region].insts = [&insts[..at], &before, &insts[at..=at], &after].concat();
}

/// Returns true for expressions, which neither read nor change memory.
fn is_movable(src: &Function, inst: Inst) -> bool {
    let data = &src.insts[inst];
    data.regions.is_empty() && data.results.len() == 1 && data.op.is_pure() && !matches!(data.op, Op::Local)
}

/// Replaces values in a region and what it contains.
fn replace(src: &mut Function, region: Region, map: &FxHashMap<Value, Value>) {
    let renamed = |v: &mut Value| *v = map.get(v).copied().unwrap_or(*v);
    src.regions[region].results.iter_mut().for_each(renamed);
    for inst in src.regions[region].insts.clone() {
        src.insts[inst].args.iter_mut().for_each(renamed);
        for nested in src.insts[inst].regions.clone() {
            replace(src, nested, map);
        }
    }
}
