//! Replaces repeated element reads of an array by reads from one copy, so that elements need not be kept one
//! by one.
//!
//! A loop that reads a cell and does not write it reads the same content in each trip. If the linear side
//! needs the elements read, the loop would keep one number per trip. Instead, the content is copied once
//! before the loop, and the reads become reads of that copy, which the linear side can repeat. For example, a
//! layer of a network reads its input for each of its outputs.
//!
//! Each of these reads sees the content from before the loop, so no value changes. The copy is made only
//! where it is not larger than what it saves: outside of all loops, or for small arrays.

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::analysis::{Analyses, Tree, Use};
use ir::{Function, Inst, Op, Region, Type, TypeData, Types, Value, ValueData};
use rustc_hash::FxHashMap;

/// The maximum length of a row that may be read as a whole to get one of its elements.
const MAX_ROW: u64 = 16;
/// The maximum length of an array that may always be copied in each trip of an outer loop.
const ALWAYS: u64 = 8;

/// Rewrites those reads of cells whose results are in `stored`. Returns true if anything changed.
pub(crate) fn snapshot(types: &Types, src: &mut Function, stored: &EntitySet<Value>) -> bool {
    let all = Analyses::of(types, src);
    let load = |v: Value| all.inst(v).filter(|&inst| src.insts[inst].op == Op::Load);
    let found: Vec<(Inst, Inst)> =
        stored.iter().filter_map(|v| load(v).and_then(|load| Some((load, hoist(&all, load)?)))).collect();
    if found.is_empty() {
        return false;
    }
    let mut copies: FxHashMap<(Value, Inst), Value> = FxHashMap::default();
    let mut before: SecondaryMap<Inst, Vec<Inst>> = SecondaryMap::new();
    for (load, outside) in found {
        let cell = src.insts[load].args[0];
        let copy = *copies.entry((cell, outside)).or_insert_with(|| {
            let content = types.content(src.ty(cell)).expect("a cell");
            let span = src.insts[outside].span;
            let (inst, v) = src.make_value(Op::Load, &[cell], ValueData::new(content), span);
            before[outside].push(inst);
            v
        });
        let indices: Vec<Value> = src.insts[load].args[1..].to_vec();
        let (last, rows) = indices.split_last().expect("the read is of a part");
        let mut at = copy;
        for &idx in rows {
            let ty = types.element(src.ty(at)).expect("an array");
            let span = src.insts[load].span;
            let (inst, v) = src.make_value(Op::Index, &[at, idx], ValueData::new(ty), span);
            before[load].push(inst);
            at = v;
        }
        src.insts[load].op = Op::Index;
        src.insts[load].args = [at, *last].into_iter().collect();
    }
    src.rebuild(|_, inst, out| {
        out.append(&mut before[inst]);
        out.push(inst);
    });
    true
}

/// The number of scalars and vectors in a type; `None` if it contains a stack.
fn elements(types: &Types, ty: Type) -> Option<u64> {
    match types[ty] {
        TypeData::Scalar(_) | TypeData::Vector(..) => Some(1),
        TypeData::Array(t, n) => Some(elements(types, t)?.saturating_mul(n as u64)),
        TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => None,
    }
}

/// Finds the outermost loop around a read that lies within the cell's scope and does not write the cell, if a
/// copy before that loop is worthwhile.
fn hoist(all: &Analyses, load: Inst) -> Option<Inst> {
    let (types, src, tree) = (all.types, all.func, all.tree());
    let data = &src.insts[load];
    let cell = data.args[0];
    let local = all.inst(cell)?;
    let of_cell = |is: fn(&Op) -> bool| {
        all.uses().of_value(cell).iter().filter_map(move |at| match *at {
            Use::Operand(inst, 0) if is(&src.insts[inst].op) => all.home(inst),
            Use::Operand(..) | Use::Result(..) => None,
        })
    };
    let is_refused = of_cell(|op| *op == Op::SubCell).next().is_some();
    if data.args.len() < 2 || is_refused || src.insts[local].op != Op::Local {
        return None;
    }
    let mut row = types.content(src.ty(cell))?;
    let size = elements(types, row)?;
    for _ in &data.args[2..] {
        row = types.element(row)?;
        if elements(types, row)? > MAX_ROW {
            return None;
        }
    }
    let home = tree.home(local)?;
    let mut region = tree.home(load)?;
    let mut best = None;
    let mut trips = 1u64;
    while region != home {
        let holder = tree.holder(region)?;
        let outer = tree.home(holder)?;
        if tree.is_loop(region) {
            if of_cell(|op| matches!(op, Op::Store | Op::AddTo)).any(|at| tree.contains(region, at)) {
                break;
            }
            let known = match src.insts[holder].op {
                Op::For(_) => all.constant(src.insts[holder].args[0]),
                _ => None,
            };
            trips = trips.saturating_mul(known.unwrap_or(1));
            if !is_in_loop(tree, outer) || size <= ALWAYS.max(trips) {
                best = Some(holder);
            }
        }
        region = outer;
    }
    best
}

fn is_in_loop(tree: &Tree, region: Region) -> bool {
    tree.is_loop(region) || tree.parent(region).is_some_and(|parent| is_in_loop(tree, parent))
}
