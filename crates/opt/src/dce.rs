//! Removes instructions that have no influence on results, memory or output.
//!
//! Liveness is a least fixpoint that starts from nothing: the function's results and instructions with
//! effects are live, and liveness spreads to everything they need. What they need follows the structure: a
//! live result of an `if` needs that result of each arm and the condition; a live carried value of a loop
//! needs its initial value and the value that the body yields for it; a live stacked result needs the value
//! that the body yields. A live instruction makes the control operations around it live. A store to a cell is
//! live only if a live load reads that cell. Cycles of values that only feed themselves (such as a counter
//! that is never read) therefore stay dead, and one worklist visits each edge once.
//!
//! A loop that has no effects and whose results are unused is removed even if it might not end: as in C and
//! Rust's own backend, a program may not rely on hanging. The check of `[MaxIters]` is removed along with a
//! loop's stacks, since it only guards the stacks.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use smallvec::SmallVec;

use ir::{Function, Inst, Op, Region, Value};

use crate::effects::Facts;
use crate::util::{Defs, carried, carried_at, dense, root_cell};

/// Removes dead instructions, results and carried values; returns true if anything was removed.
pub fn run(func: &mut Function, facts: &Facts) -> bool {
    if !func.has_body() {
        return false;
    }
    let mut marker = Marker {
        defs: Defs::of(func),
        place: dense(func.insts.len()),
        holder: dense(func.regions.len()),
        param_of: dense(func.values.len()),
        number: dense(func.values.len()),
        writers: SecondaryMap::new(),
        live: dense(func.values.len()),
        live_inst: dense(func.insts.len()),
        todo: Vec::new(),
        func,
    };
    let body = marker.func.body();
    let mut roots = Vec::new();
    marker.index(body, facts, &mut roots);
    for inst in roots {
        marker.inst(inst);
    }
    let results = marker.func.regions[body].results.clone();
    for v in results {
        marker.value(v);
    }
    marker.spread();
    let Marker { live, live_inst, .. } = marker;
    sweep(func, body, &live, &live_inst)
}

struct Marker<'a> {
    func: &'a Function,
    defs: Defs,
    /// The region that lists an instruction.
    place: SecondaryMap<Inst, PackedOption<Region>>,
    /// The instruction that holds a region.
    holder: SecondaryMap<Region, PackedOption<Inst>>,
    /// For parameters of regions: the region and the parameter's number.
    param_of: SecondaryMap<Value, Option<(Region, u32)>>,
    /// The number of a value among its instruction's results.
    number: SecondaryMap<Value, u32>,
    /// Instructions that write a cell, by the root cell.
    writers: SecondaryMap<Value, Vec<Inst>>,
    live: SecondaryMap<Value, bool>,
    live_inst: SecondaryMap<Inst, bool>,
    todo: Vec<Value>,
}

impl Marker<'_> {
    fn index(&mut self, region: Region, facts: &Facts, roots: &mut Vec<Inst>) {
        let func = self.func;
        for (n, &p) in func.regions[region].params.iter().enumerate() {
            self.param_of[p] = Some((region, n as u32));
        }
        for &inst in &func.regions[region].insts {
            self.place[inst] = region.into();
            for (n, &v) in func.insts[inst].results.iter().enumerate() {
                self.number[v] = n as u32;
            }
            match func.insts[inst].op {
                Op::Store | Op::AddTo => {
                    let root = root_cell(func, &self.defs, func.insts[inst].args[0]);
                    self.writers[root].push(inst);
                }
                _ => {
                    if facts.inst(func, &self.defs, inst).writes {
                        roots.push(inst);
                    }
                }
            }
            for &nested in &func.insts[inst].regions {
                self.holder[nested] = inst.into();
                self.index(nested, facts, roots);
            }
        }
    }

    fn value(&mut self, v: Value) {
        if !self.live[v] {
            self.live[v] = true;
            self.todo.push(v);
        }
    }

    fn inst(&mut self, mut inst: Inst) {
        let func = self.func;
        while !self.live_inst[inst] {
            self.live_inst[inst] = true;
            let data = &func.insts[inst];
            match data.op {
                Op::If | Op::Switch(_) | Op::For(_) => self.value(data.args[0]),
                Op::Loop(_) => self.value(func.regions[data.regions[0]].results[0]),
                Op::Load => {
                    for &a in &data.args {
                        self.value(a);
                    }
                    let root = root_cell(func, &self.defs, data.args[0]);
                    for writer in std::mem::take(&mut self.writers[root]) {
                        self.inst(writer);
                    }
                }
                _ => {
                    for &a in &data.args {
                        self.value(a);
                    }
                }
            }
            let Some(holder) = self.place[inst].expand().and_then(|r| self.holder[r].expand()) else {
                return;
            };
            inst = holder;
        }
    }

    fn spread(&mut self) {
        let func = self.func;
        while let Some(v) = self.todo.pop() {
            if let Some((region, n)) = self.param_of[v] {
                let Some(holder) = self.holder[region].expand() else { continue };
                self.inst(holder);
                let (_, first, _) = carried_at(&func.insts[holder].op);
                if n as usize >= first {
                    self.carried(holder, n as usize - first);
                }
                continue;
            }
            let Some(inst) = self.defs.inst(v) else { continue };
            self.inst(inst);
            let data = &func.insts[inst];
            if data.regions.is_empty() {
                continue;
            }
            let n = self.number[v] as usize;
            match data.op {
                Op::For(_) | Op::Loop(_) => {
                    if n < carried(func, inst) {
                        self.carried(inst, n);
                    } else {
                        let (_, _, yields) = carried_at(&data.op);
                        self.value(func.regions[data.regions[0]].results[yields + n]);
                    }
                }
                _ => {
                    for &region in &data.regions {
                        self.value(func.regions[region].results[n]);
                    }
                }
            }
        }
    }

    /// Marks carried value `k` of a loop, which is needed before, in or after the loop.
    fn carried(&mut self, inst: Inst, k: usize) {
        let data = &self.func.insts[inst];
        let (args, _, yields) = carried_at(&data.op);
        self.value(data.args[args + k]);
        self.value(self.func.regions[data.regions[0]].results[yields + k]);
    }
}

fn sweep(
    func: &mut Function,
    region: Region,
    live: &SecondaryMap<Value, bool>,
    live_inst: &SecondaryMap<Inst, bool>,
) -> bool {
    let mut insts = std::mem::take(&mut func.regions[region].insts);
    let before = insts.len();
    insts.retain(|&inst| live_inst[inst]);
    let mut changed = insts.len() != before;
    for &inst in &insts {
        let regions: SmallVec<[Region; 2]> = func.insts[inst].regions.clone();
        if regions.is_empty() {
            continue;
        }
        changed |= shrink(func, inst, live);
        for nested in regions {
            changed |= sweep(func, nested, live, live_inst);
        }
    }
    func.regions[region].insts = insts;
    changed
}

/// Drops the dead results of a control operation, with the carried values and yields that belong to them.
fn shrink(func: &mut Function, inst: Inst, live: &SecondaryMap<Value, bool>) -> bool {
    let n_carried = carried(func, inst);
    let (args, params, yields) = carried_at(&func.insts[inst].op);
    let is_loop = matches!(func.insts[inst].op, Op::For(_) | Op::Loop(_));
    let regions: SmallVec<[Region; 2]> = func.insts[inst].regions.clone();
    let keep: SmallVec<[bool; 16]> = func.insts[inst]
        .results
        .iter()
        .enumerate()
        .map(|(n, &r)| {
            live[r] || (is_loop && n < n_carried && live[func.regions[regions[0]].params[params + n]])
        })
        .collect();
    if keep.iter().all(|&k| k) {
        return false;
    }
    filter_small(&mut func.insts[inst].results, 0, &keep);
    for &region in &regions {
        filter(&mut func.regions[region].results, yields, &keep);
    }
    if is_loop {
        filter_small(&mut func.insts[inst].args, args, &keep[..n_carried]);
        filter(&mut func.regions[regions[0]].params, params, &keep[..n_carried]);
    }
    true
}

/// Keeps those elements of `list[first..]` that `keep` marks, and all elements beyond the end of `keep`.
pub(crate) fn filter(list: &mut Vec<Value>, first: usize, keep: &[bool]) {
    let mut at = 0;
    list.retain(|_| {
        at += 1;
        at <= first || keep.get(at - 1 - first).copied().unwrap_or(true)
    });
}

/// Like [`filter`], for short lists.
pub(crate) fn filter_small<const N: usize>(list: &mut SmallVec<[Value; N]>, first: usize, keep: &[bool])
where
    [Value; N]: smallvec::Array<Item = Value>,
{
    let mut at = 0;
    list.retain(|_| {
        at += 1;
        at <= first || keep.get(at - 1 - first).copied().unwrap_or(true)
    });
}
