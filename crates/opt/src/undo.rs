//! Removes writes to cells that undo each other.
//!
//! After AD, the cotangent of a cell is often taken out and put back: `a[i] += x` produces
//!
//! ```text
//! v = load c, i; store c, i, absent; add_to c, i, v
//! ```
//!
//! which leaves the cell as it was. An `add_to` to a place that holds an absent differential is a store, and
//! a store of the value that the place already holds has no effect. (Out of range, none of them has an
//! effect.) Two places are the same if their operands are the same.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use ir::{Function, Inst, Op, Region, TypeData, Types, Value};

use crate::util::{Defs, root_cell};

/// Removes such writes; returns true if there were any.
pub fn run(types: &Types, func: &mut Function) -> bool {
    if !func.has_body() {
        return false;
    }
    let mut any = false;
    func.walk(func.body(), &mut |inst| any |= func.insts[inst].op == Op::AddTo);
    if !any {
        return false;
    }
    let defs = Defs::of(func);
    let regions: Vec<Region> = func.regions.keys().collect();
    let mut changed = false;
    for region in regions {
        changed |= settle(types, func, &defs, region);
    }
    changed
}

/// The last access to a cell.
struct Last {
    /// The cell and the indices.
    place: SmallVec<[Value; 4]>,
    /// The value that the place held before that store, if known.
    holds: Option<Value>,
    /// The index in the new list of a store of an absent differential, if that was the last write.
    zeroed: Option<usize>,
}

fn settle(types: &Types, func: &mut Function, defs: &Defs, region: Region) -> bool {
    let insts = std::mem::take(&mut func.regions[region].insts);
    let mut list: Vec<Option<Inst>> = Vec::with_capacity(insts.len());
    let mut cells: FxHashMap<Value, Last> = FxHashMap::default();
    let mut changed = false;
    for inst in insts {
        let data = &func.insts[inst];
        if !data.regions.is_empty() {
            cells.clear();
        }
        if !matches!(data.op, Op::Load | Op::Store | Op::AddTo) {
            // Any instruction that receives a cell may write it.
            if data.op.callee().is_some() {
                cells.clear();
            }
            for &v in data.args.iter().filter(|&&v| matches!(types[func.ty(v)], TypeData::Cell(_))) {
                cells.remove(&root_cell(func, defs, v));
            }
            list.push(Some(inst));
            continue;
        }
        let root = root_cell(func, defs, data.args[0]);
        let n_place = data.args.len() - usize::from(data.op != Op::Load);
        let (place, x) = (&data.args[..n_place], data.args[n_place..].first().copied());
        let last = cells.remove(&root).filter(|last| last.place.as_slice() == place);
        let place: SmallVec<[Value; 4]> = place.into();
        match (&data.op, x) {
            (Op::Store, Some(x)) => {
                if last.as_ref().is_some_and(|l| l.holds == Some(x) && l.zeroed.is_none()) {
                    changed = true;
                    cells.insert(root, Last { place, holds: Some(x), zeroed: None });
                    continue;
                }
                let is_absent = defs.op(func, x) == Some(&Op::Absent);
                if is_absent && last.as_ref().is_some_and(|l| l.zeroed.is_some()) {
                    // The second such store has no effect.
                    changed = true;
                    cells.extend(last.map(|last| (root, last)));
                    continue;
                }
                let holds = last.and_then(|l| l.holds);
                if is_absent {
                    cells.insert(root, Last { place, holds, zeroed: Some(list.len()) });
                }
                list.push(Some(inst));
            }
            (Op::AddTo, Some(x)) => match last {
                Some(Last { holds, zeroed: Some(at), .. }) => {
                    list[at] = None;
                    changed = true;
                    if holds != Some(x) {
                        func.insts[inst].op = Op::Store;
                        list.push(Some(inst));
                    }
                    cells.insert(root, Last { place, holds: Some(x), zeroed: None });
                }
                _ => list.push(Some(inst)),
            },
            _ => {
                cells.insert(root, Last { place, holds: data.results.first().copied(), zeroed: None });
                list.push(Some(inst));
            }
        }
    }
    func.regions[region].insts = list.into_iter().flatten().collect();
    changed
}
