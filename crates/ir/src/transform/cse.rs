//! Common subexpression elimination, store-to-load forwarding and dead store elimination, in one walk, as in
//! LLVM's EarlyCSE.
//!
//! Pure operations on equal operands give equal results, and a value is visible in the rest of its region and
//! all nested regions. A table of earlier computations, with a scope for each region, therefore finds for
//! every instruction an equal earlier one that is visible. Loads are not pure; they carry the *version* of
//! the memory that they read: a number that every write of that cell (or of any memory) replaces by a fresh
//! one. A loop that writes gives fresh versions before its body, since the next trip sees the writes of the
//! last one, and after it; an `if` that writes gives them before the second arm and after it. Equal versions
//! thus mean that there is no write in between on any path.
//!
//! A store enters the table as the load that would read it back, if its index is certainly in range (a store
//! out of range writes nothing, and a load there gives zero). A store of the value that the table has for its
//! place writes nothing new. A write of a place that the next write in the same region replaces, with nothing
//! in between that may read the cell, is dead: the cell is then again of the version before that write. An
//! `add_to` to a place that holds an absent differential is a store. So the three accesses that `a[i] += x`
//! leaves of a cotangent, which is taken out and put back, vanish together:
//!
//! ```text
//! v = load c, i; store c, i, absent; add_to c, i, v
//! ```
//!
//! (Two places are the same if their operands are the same. A stack is left out, since `add_to` makes it
//! grow.)
//!
//! A control operation without effects is a computation, too: two that hold the same regions, but for the names of the
//! values, give equal results for equal operands. Copies of a function that has branches share what they compute by this.
//!
//! Values that a loop carries and that are equal in every trip are one ([`carried`]).
//!
//! If every arm yields the same values for several results of a control operation, or if several stacks of a
//! loop hold the same values, only the first of them is kept: inlining joins parts of a derivative that keep
//! the same residuals.

use std::collections::hash_map::Entry as MapEntry;
use std::hash::{Hash, Hasher};

use cranelift_entity::{EntitySet, SecondaryMap};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use crate::analysis::points_to::root_cell;
use crate::analysis::{Bounds, Defs, Summaries, Writes};
use crate::entities::{Inst, Region, Value};
use crate::function::Function;
use crate::ops::Op;
use crate::transform::{Subst, carried};
use crate::types::{Type, Types};

/// Merges equal computations; returns true if anything changed.
pub fn run(types: &mut Types, func: &mut Function, summaries: &Summaries) -> bool {
    if !func.has_body() {
        return false;
    }
    let defs = Defs::of(func);
    let stores = func.contains(|op| *op == Op::Store);
    let bounds = if stores { Bounds::of(types, func, &defs) } else { Bounds::default() };
    let writes = Writes::of(func, &defs, summaries);
    let mut cse = Cse {
        types,
        summaries,
        defs,
        bounds,
        writes,
        subst: Subst::default(),
        table: FxHashMap::default(),
        log: Vec::new(),
        cells: SecondaryMap::new(),
        memory: 0,
        fresh: 1,
        last: FxHashMap::default(),
        dead: EntitySet::new(),
        changed: false,
        func,
    };
    let body = cse.func.body();
    cse.region(body);
    cse.changed
}

/// The last write of a cell, if nothing may have read the cell since.
struct Last {
    inst: Inst,
    /// The cell and the indices.
    place: SmallVec<[Value; 4]>,
    /// The cell's version before that write.
    before: u32,
    /// The place holds an absent differential.
    is_absent: bool,
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    op: Op,
    args: SmallVec<[Value; 4]>,
    ty: Option<Type>,
    linear: bool,
    version: u32,
}

/// The version of control operations: their keys are those of no others.
const CONTROL: u32 = u32::MAX;
/// The number of earlier control operations with the same operands that one is compared with.
const CANDIDATES: usize = 4;
/// The maximum number of instructions that two such operations are compared by.
const MOST: usize = 400;

/// The comparison of two regions.
struct Same {
    /// For values of the second region, those of the first one.
    own: FxHashMap<Value, Value>,
    /// The number of instructions that may yet be compared.
    left: usize,
}

impl Same {
    /// Returns true if two regions hold the same but for the names of values, and access no memory that can change.
    fn regions(&mut self, cse: &Cse<'_>, a: Region, b: Region) -> bool {
        let f = &*cse.func;
        let (a, b) = (&f.regions[a], &f.regions[b]);
        // A constant may be one from outside of the region by now.
        let others = |insts: &[Inst]| -> Vec<Inst> {
            insts.iter().copied().filter(|&inst| !cse.is_constant(inst)).collect()
        };
        let insts = [others(&a.insts), others(&b.insts)];
        self.define(f, &a.params, &b.params)
            && insts[0].len() == insts[1].len()
            && insts[0].iter().zip(&insts[1]).all(|(&a, &b)| self.insts(cse, a, b))
            && self.reads(cse, &a.results, &b.results)
    }

    fn insts(&mut self, cse: &Cse<'_>, a: Inst, b: Inst) -> bool {
        let f = &*cse.func;
        let (x, y) = (&f.insts[a], &f.insts[b]);
        let is_cell = |v: &Value| cse.types.content(f.ty(*v)).is_some();
        let effects = cse.summaries.inst(f, &cse.defs, a);
        if self.left == 0 || x.op != y.op || effects.reads || effects.writes || x.args.iter().any(is_cell) {
            return false;
        }
        self.left -= 1;
        self.reads(cse, &x.args, &y.args)
            && x.regions.len() == y.regions.len()
            && x.regions.iter().zip(&y.regions).all(|(&a, &b)| self.regions(cse, a, b))
            && self.define(f, &x.results, &y.results)
    }

    fn reads(&self, cse: &Cse<'_>, a: &[Value], b: &[Value]) -> bool {
        let is_same = |(&a, &b): (&Value, &Value)| {
            let b = cse.subst.get(b);
            let b = self.own.get(&b).copied().unwrap_or(b);
            a == b || cse.are_equal_constants(a, b)
        };
        a.len() == b.len() && a.iter().zip(b).all(is_same)
    }

    fn define(&mut self, f: &Function, a: &[Value], b: &[Value]) -> bool {
        let is_alike = |(&a, &b): (&Value, &Value)| f.ty(a) == f.ty(b) && f.is_linear(a) == f.is_linear(b);
        self.own.extend(b.iter().copied().zip(a.iter().copied()));
        a.len() == b.len() && a.iter().zip(b).all(is_alike)
    }
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
    summaries: &'a Summaries,
    defs: Defs,
    bounds: Bounds,
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
    /// The last writes in the open region, by root cell.
    last: FxHashMap<Value, Last>,
    /// Writes that later ones replace.
    dead: EntitySet<Inst>,
    changed: bool,
}

impl Cse<'_> {
    fn region(&mut self, region: Region) {
        let scope = self.log.len();
        self.last.clear();
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for inst in insts {
            self.subst.apply(self.func, inst);
            if !self.inst(inst) {
                kept.push(inst);
            }
        }
        self.last.clear();
        kept.retain(|&inst| !self.dead.contains(inst));
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
        for &cell in self.writes.cells(region) {
            self.fresh += 1;
            self.cells[cell] = self.fresh;
        }
        if self.writes.effects(region).writes {
            self.memory = self.new_version();
        }
    }

    /// Merges carried values of a loop that are equal in every trip.
    fn merge_carried(&mut self, inst: Inst) {
        for (k, earlier) in carried::equal(self, inst) {
            let data = &self.func.insts[inst];
            let at = data.op.carried_at().1;
            let params = &self.func.regions[data.regions[0]].params;
            let pairs = [(params[at + k], params[at + earlier]), (data.results[k], data.results[earlier])];
            for (old, new) in pairs {
                self.take_name(new, old);
                self.subst.set(old, new);
            }
            self.changed = true;
        }
    }

    /// Merges results for which every arm yields the same values, and stacks of the same values.
    fn twins(&mut self, inst: Inst) {
        let data = &self.func.insts[inst];
        let from = data.n_carried();
        let at = from + data.op.carried_at().2;
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
            let is_loop = data.op.is_loop();
            let regions: SmallVec<[Region; 2]> = data.regions.clone();
            // Before the regions take anything from outside that the other operation could not.
            if self.same_regions(inst) {
                return true;
            }
            if is_loop {
                self.merge_carried(inst);
            }
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
            if self.same_regions(inst) {
                return true;
            }
            if !self.func.insts[inst].results.is_empty() {
                let (key, results) = (self.key(inst, CONTROL), self.func.insts[inst].results.clone());
                self.enter(hash(&key), key, results);
            }
            return false;
        }
        let version = match &data.op {
            Op::Load => {
                let root = root_cell(self.func, &self.defs, data.args[0]);
                self.cells[root]
            }
            Op::Store | Op::AddTo => return self.write(inst),
            Op::Local | Op::SubCell => return false,
            _ => {
                let effects = self.summaries.inst(self.func, &self.defs, inst);
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
        if let Some(found) = self.find(hash, &key).cloned() {
            self.replace(inst, &found);
            return true;
        }
        let data = &self.func.insts[inst];
        if data.op == Op::Load {
            self.last.remove(&root_cell(self.func, &self.defs, data.args[0]));
        }
        let results = data.results.clone();
        self.enter(hash, key, results);
        false
    }

    /// Merges a control operation with an earlier one that holds the same and has no effects; returns true if it is to be
    /// removed.
    fn same_regions(&mut self, inst: Inst) -> bool {
        if self.func.insts[inst].results.is_empty() {
            return false;
        }
        let key = self.key(inst, CONTROL);
        let hash = hash(&key);
        let known = self.table.get(&hash).into_iter().flatten().rev().filter(|(known, _)| *known == key);
        let mut known = known.take(CANDIDATES).map(|(_, results)| results);
        if let Some(found) = known.find(|found| self.is_same(found[0], inst)).cloned() {
            self.replace(inst, &found);
            return true;
        }
        false
    }

    /// Returns true if an instruction is a number, or the same number in the whole function.
    fn is_constant(&self, inst: Inst) -> bool {
        let data = &self.func.insts[inst];
        let effects = self.summaries.inst(self.func, &self.defs, inst);
        data.args.is_empty()
            && data.regions.is_empty()
            && data.results.len() == 1
            && !(effects.reads || effects.writes || effects.hangs)
    }

    fn are_equal_constants(&self, a: Value, b: Value) -> bool {
        let (f, by) = (&*self.func, |v| self.defs.inst(v).filter(|&inst| self.is_constant(inst)));
        let ops = by(a).zip(by(b)).map(|(a, b)| (&f.insts[a].op, &f.insts[b].op));
        ops.is_some_and(|(a, b)| a == b) && f.ty(a) == f.ty(b) && f.is_linear(a) == f.is_linear(b)
    }

    /// Returns true if the operation with this result holds the same as another one.
    fn is_same(&self, result: Value, inst: Inst) -> bool {
        let f = &*self.func;
        let Some(other) = self.defs.inst(result) else { return false };
        let mut same = Same { own: FxHashMap::default(), left: MOST };
        f.insts[other].regions.len() == f.insts[inst].regions.len()
            && f.insts[other].results.len() == f.insts[inst].results.len()
            && f.insts[other]
                .regions
                .iter()
                .zip(&f.insts[inst].regions)
                .all(|(&a, &b)| same.regions(self, a, b))
    }

    fn replace(&mut self, inst: Inst, by: &[Value]) {
        let results = self.func.insts[inst].results.clone();
        for (&old, &new) in results.iter().zip(by) {
            self.take_name(new, old);
            self.subst.set(old, new);
        }
        self.changed = true;
    }

    fn take_name(&mut self, to: Value, from: Value) {
        if self.func.values[to].name.is_none() {
            self.func.values[to].name = self.func.values[from].name.clone();
        }
    }

    fn find(&self, hash: u64, key: &Key) -> Option<&SmallVec<[Value; 2]>> {
        let list = self.table.get(&hash)?;
        list.iter().rev().find(|(known, _)| known == key).map(|(_, results)| results)
    }

    fn enter(&mut self, hash: u64, key: Key, results: SmallVec<[Value; 2]>) {
        self.table.entry(hash).or_default().push((key, results));
        self.log.push(hash);
    }

    fn key(&self, inst: Inst, version: u32) -> Key {
        let data = &self.func.insts[inst];
        let mut args = data.args.clone();
        if data.op.commutes() && args.len() == 2 && args[1] < args[0] {
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

    /// Processes a store or `add_to`; returns true if it is to be removed.
    fn write(&mut self, inst: Inst) -> bool {
        let args = self.func.insts[inst].args.clone();
        let (&x, place) = args.split_last().expect("a write has a value");
        let root = root_cell(self.func, &self.defs, args[0]);
        let grows = self.types.content(self.func.ty(root)).is_none_or(|ty| self.types.has_stack(ty));
        let last = self.last.remove(&root).filter(|last| last.place.as_slice() == place && !grows);
        if let Some(last) = last
            && (last.is_absent || self.func.insts[inst].op == Op::Store)
        {
            self.dead.insert(last.inst);
            self.cells[root] = last.before;
            self.func.insts[inst].op = Op::Store;
            self.changed = true;
        }
        let before = self.cells[root];
        let is_store = self.func.insts[inst].op == Op::Store;
        let (ty, linear) = (Some(self.func.ty(x)), self.func.is_linear(x));
        let read = |version: u32| {
            let key = Key { op: Op::Load, args: place.into(), ty, linear, version };
            (hash(&key), key)
        };
        let (hash, held) = read(before);
        if is_store && !grows && self.find(hash, &held).is_some_and(|found| found[0] == x) {
            self.changed = true;
            return true;
        }
        let version = self.new_version();
        self.cells[root] = version;
        let is_absent = is_store && self.defs.op(self.func, x) == Some(&Op::Absent);
        self.last.insert(root, Last { inst, place: place.into(), before, is_absent });
        if is_store && self.in_range(place) {
            let (hash, key) = read(version);
            self.enter(hash, key, SmallVec::from_elem(x, 1));
        }
        false
    }

    fn in_range(&self, place: &[Value]) -> bool {
        let Some(mut ty) = self.types.content(self.func.ty(place[0])) else { return false };
        for &idx in &place[1..] {
            let (Some(len), Some(element)) = (self.types.length(ty), self.types.element(ty)) else {
                return false;
            };
            if !self.bounds.below(idx, len.into()) {
                return false;
            }
            ty = element;
        }
        true
    }
}

impl carried::Facts for Cse<'_> {
    fn func(&self) -> &Function {
        self.func
    }

    fn current(&self, v: Value) -> Value {
        self.subst.get(v)
    }

    fn constant(&self, v: Value) -> Option<Inst> {
        self.defs.inst(v).filter(|&inst| self.is_constant(inst))
    }

    fn is_function(&self, inst: Inst) -> bool {
        let effects = self.summaries.inst(self.func, &self.defs, inst);
        let op = &self.func.insts[inst].op;
        !(effects.reads || effects.writes || matches!(op, Op::Load | Op::Local | Op::SubCell))
    }
}

fn hash(key: &Key) -> u64 {
    let mut hasher = FxHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}
