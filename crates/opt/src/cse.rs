//! Common subexpression elimination: merges equal computations.
//!
//! Pure operations on equal operands give equal results, and a value is visible in the rest of its region and
//! all nested regions. A table of earlier computations, with a scope for each region, therefore finds for
//! every instruction an equal earlier one that is visible. Loads are not pure; they carry the *version* of
//! the memory that they read: a number that every write of that cell (or of any memory) replaces by a fresh
//! one. A loop that writes gives fresh versions before its body, since the next trip sees the writes of the
//! last one, and after it; an `if` that writes gives them before the second arm and after it. Equal versions
//! thus mean that there is no write in between on any path.
//!
//! If every arm yields the same values for several results of a control operation, or if several stacks of a
//! loop hold the same values, only the first of them is kept: inlining joins parts of a derivative that keep
//! the same residuals.
//!
//! A store enters the table as the load that would read it back, if its index is certainly in range (a store
//! out of range writes nothing, and a load there gives zero).

use std::collections::hash_map::Entry as MapEntry;
use std::hash::{Hash, Hasher};

use cranelift_entity::SecondaryMap;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use ir::{Function, Inst, Math, Op, Region, Type, Types, Value};

use crate::effects::{Effects, Facts};
use crate::util::{Defs, Subst, carried, carried_at, root_cell};
use ir::range::Ranges;

/// Merges equal computations; returns true if anything was merged.
pub fn run(types: &mut Types, func: &mut Function, facts: &Facts) -> bool {
    if !func.has_body() {
        return false;
    }
    let defs = Defs::of(func);
    let ranges = Ranges::of(func);
    let writes = Writes::of(func, &defs, facts);
    let mut cse = Cse {
        types,
        facts,
        defs,
        ranges,
        writes,
        subst: Subst::default(),
        table: FxHashMap::default(),
        log: Vec::new(),
        cells: SecondaryMap::new(),
        memory: 0,
        fresh: 1,
        changed: false,
        func,
    };
    let body = cse.func.body();
    cse.region(body);
    cse.changed
}

/// The writes of each control operation, including those in nested regions.
pub(crate) struct Writes {
    /// For each region, the root cells that are written in it, sorted.
    pub(crate) cells: SecondaryMap<Region, Vec<Value>>,
    /// For each region, its other effects.
    pub(crate) effects: SecondaryMap<Region, Effects>,
}

impl Writes {
    pub(crate) fn of(func: &Function, defs: &Defs, facts: &Facts) -> Writes {
        let mut writes = Writes { cells: SecondaryMap::new(), effects: SecondaryMap::new() };
        writes.region(func, defs, facts, func.body());
        writes
    }

    fn region(&mut self, func: &Function, defs: &Defs, facts: &Facts, region: Region) {
        let mut cells = Vec::new();
        let mut effects = Effects::NONE;
        for &inst in &func.regions[region].insts {
            if let Op::Store | Op::AddTo = func.insts[inst].op {
                cells.push(root_cell(func, defs, func.insts[inst].args[0]));
            }
            effects = effects.or(facts.inst(func, defs, inst));
            for &nested in &func.insts[inst].regions {
                self.region(func, defs, facts, nested);
                cells.extend(&self.cells[nested]);
                effects = effects.or(self.effects[nested]);
            }
        }
        cells.sort_unstable();
        cells.dedup();
        self.cells[region] = cells;
        self.effects[region] = effects;
    }
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    op: Op,
    args: SmallVec<[Value; 4]>,
    ty: Option<Type>,
    linear: bool,
    version: u32,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.op.hash(state);
        self.args.hash(state);
        self.ty.hash(state);
        self.version.hash(state);
    }
}

/// A computation and its results.
type Entry = (Key, SmallVec<[Value; 2]>);

struct Cse<'a> {
    types: &'a mut Types,
    func: &'a mut Function,
    facts: &'a Facts,
    defs: Defs,
    ranges: Ranges,
    writes: Writes,
    subst: Subst,
    /// The candidates by the hash of their key; a scope ends by truncating them through `log`.
    table: FxHashMap<u64, Vec<Entry>>,
    log: Vec<u64>,
    /// The version of each root cell.
    cells: SecondaryMap<Value, u32>,
    /// The version of all memory that can change.
    memory: u32,
    fresh: u32,
    changed: bool,
}

impl Cse<'_> {
    fn region(&mut self, region: Region) {
        let scope = self.log.len();
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for inst in insts {
            self.subst.apply(self.func, inst);
            if !self.inst(inst) {
                kept.push(inst);
            }
        }
        self.func.regions[region].insts = kept;
        self.subst.apply_results(self.func, region);
        while self.log.len() > scope {
            let hash = self.log.pop().expect("longer than the scope");
            let list = self.table.get_mut(&hash).expect("logged keys are in the table");
            list.pop();
        }
    }

    fn new_version(&mut self) -> u32 {
        self.fresh += 1;
        self.fresh
    }

    /// Gives fresh versions to everything that a region writes.
    fn clobber(&mut self, region: Region) {
        for cell in self.writes.cells[region].clone() {
            self.cells[cell] = self.new_version();
        }
        if self.writes.effects[region].writes {
            self.memory = self.new_version();
        }
    }

    /// Merges results for which every arm yields the same values, and stacks of the same values.
    fn twins(&mut self, inst: Inst) {
        let data = &self.func.insts[inst];
        let (from, at) = match data.op {
            Op::For(_) | Op::Loop(_) => {
                let n = carried(self.func, inst);
                (n, n + carried_at(&data.op).2)
            }
            _ => (0, 0),
        };
        let mut known: FxHashMap<SmallVec<[Value; 2]>, Value> = FxHashMap::default();
        let mut twins = Vec::new();
        for (k, &result) in data.results[from..].iter().enumerate() {
            let given = data.regions.iter().map(|&r| self.func.regions[r].results[at + k]).collect();
            match known.entry(given) {
                MapEntry::Occupied(entry) => twins.push((result, *entry.get())),
                MapEntry::Vacant(entry) => _ = entry.insert(result),
            }
        }
        for (old, new) in twins {
            self.take_name(new, old);
            self.subst.set(old, new);
            self.changed = true;
        }
    }

    /// Processes an instruction; returns true if it is to be removed.
    fn inst(&mut self, inst: Inst) -> bool {
        let data = &self.func.insts[inst];
        if !data.regions.is_empty() {
            let is_loop = matches!(data.op, Op::For(_) | Op::Loop(_));
            let regions: SmallVec<[Region; 2]> = data.regions.clone();
            for (n, &region) in regions.iter().enumerate() {
                if is_loop {
                    self.clobber(region);
                } else if n > 0 {
                    self.clobber(regions[n - 1]);
                }
                self.region(region);
            }
            for region in regions {
                self.clobber(region);
            }
            self.twins(inst);
            return false;
        }
        let version = match &data.op {
            Op::Load => {
                let root = root_cell(self.func, &self.defs, data.args[0]);
                self.cells[root]
            }
            Op::Store | Op::AddTo => {
                self.write(inst);
                return false;
            }
            Op::Local | Op::SubCell => return false,
            _ => {
                let effects = self.facts.inst(self.func, &self.defs, inst);
                if effects.writes {
                    self.memory = self.new_version();
                    return false;
                }
                if data.results.is_empty() {
                    return false;
                }
                if effects.reads { self.memory } else { 0 }
            }
        };
        let key = self.key(inst, version);
        let hash = hash(&key);
        if let Some(list) = self.table.get(&hash)
            && let Some((_, found)) = list.iter().rev().find(|(k, _)| *k == key)
        {
            let found = found.clone();
            let results = self.func.insts[inst].results.clone();
            for (&old, &new) in results.iter().zip(&found) {
                self.take_name(new, old);
                self.subst.set(old, new);
            }
            self.changed = true;
            return true;
        }
        let results = self.func.insts[inst].results.clone();
        self.enter(hash, key, results);
        false
    }

    fn take_name(&mut self, to: Value, from: Value) {
        if self.func.values[to].name.is_none() {
            self.func.values[to].name = self.func.values[from].name.clone();
        }
    }

    fn enter(&mut self, hash: u64, key: Key, results: SmallVec<[Value; 2]>) {
        self.table.entry(hash).or_default().push((key, results));
        self.log.push(hash);
    }

    fn key(&self, inst: Inst, version: u32) -> Key {
        let data = &self.func.insts[inst];
        let mut args = data.args.clone();
        if commutes(&data.op) && args.len() == 2 && args[1] < args[0] {
            args.swap(0, 1);
        }
        let first = data.results.first();
        Key {
            op: data.op.clone(),
            args,
            ty: first.map(|&r| self.func.ty(r)),
            linear: first.is_some_and(|&r| self.func.is_linear(r)),
            version,
        }
    }

    /// Processes a store or `add_to`: gives the cell a fresh version, and records the value that a load would
    /// read.
    fn write(&mut self, inst: Inst) {
        let data = &self.func.insts[inst];
        let args = data.args.clone();
        let is_store = data.op == Op::Store;
        let root = root_cell(self.func, &self.defs, args[0]);
        let version = self.new_version();
        self.cells[root] = version;
        let (&x, place) = args.split_last().expect("a store has a value");
        if !is_store || !self.in_range(place) {
            return;
        }
        let key = Key {
            op: Op::Load,
            args: place.into(),
            ty: Some(self.func.ty(x)),
            linear: self.func.is_linear(x),
            version,
        };
        self.enter(hash(&key), key, SmallVec::from_elem(x, 1));
    }

    fn in_range(&self, place: &[Value]) -> bool {
        let Some(mut ty) = self.types.content(self.func.ty(place[0])) else { return false };
        for &idx in &place[1..] {
            let Some(len) = crate::util::length(self.types, ty) else { return false };
            if !self.ranges.below(self.types, self.func, &self.defs, idx, len as u64) {
                return false;
            }
            let Some(element) = self.types.element(ty) else { return false };
            ty = element;
        }
        true
    }
}

fn hash(key: &Key) -> u64 {
    let mut hasher = FxHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Returns true if the operands of an op can be exchanged without changing the result's bits.
pub(crate) fn commutes(op: &Op) -> bool {
    match op {
        Op::Add | Op::Mul | Op::And | Op::Or | Op::Xor | Op::Eq | Op::Ne => true,
        Op::Math(Math::Min | Math::Max) => false,
        _ => false,
    }
}
