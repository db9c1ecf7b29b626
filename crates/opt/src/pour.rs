//! Accumulates sums directly in the sum that they are added to.
//!
//! `a = local 0; … add_to a, i, x …; add_to b, load a` ↦ `… add_to b, i, x …`
//!
//! A call's cotangent of an array parameter is a sum of its own, which the caller adds to the array's
//! cotangent. Where the call is inlined, for example in a loop over samples, each trip would clear and add
//! the whole array, however few elements it touches.
//!
//! The rewrite is right up to the order of the additions, which the compiler is free to choose: reverse mode
//! accumulates cotangents by `add_to`. Nothing else may read or write `b` in between. The cells, the load and
//! the addition are in the same region, so each `a` is added once, and all additions to `a` come before.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use rustc_hash::{FxHashMap, FxHashSet};

use ir::{Function, Inst, Op, Region, TypeData, Types, Value};

use crate::util::Defs;

/// The uses of a cell.
#[derive(Default)]
struct Cell {
    /// The position of the cell's definition: its number in the order of the text, and its region.
    order: u32,
    home: PackedOption<Region>,
    is_absent: bool,
    /// The position of the last addition.
    added: Option<u32>,
    /// The load of the whole cell: its position, its region, and its result.
    load: Option<(u32, Region, Value)>,
    /// The positions of all uses that are not additions, in order.
    looks: Vec<u32>,
}

/// The addition of one sum to another.
struct Pour {
    order: u32,
    home: Region,
    inst: Inst,
    to: Value,
}

/// Replaces such sums; returns true if there were any. Only valid after AD.
pub fn run(types: &Types, func: &mut Function) -> bool {
    if !func.has_body() {
        return false;
    }
    let mut survey = Survey {
        types,
        func,
        defs: Defs::of(func),
        order: 0,
        cells: FxHashMap::default(),
        names: Vec::new(),
        uses: SecondaryMap::new(),
        pours: FxHashMap::default(),
    };
    survey.region(func.body());
    let (target, gone) = survey.decide();
    if gone.is_empty() {
        return false;
    }
    let root = |mut cell: Value| {
        while let Some(&next) = target.get(&cell) {
            cell = next;
        }
        cell
    };
    let regions: Vec<Region> = func.regions.keys().collect();
    for region in regions {
        let mut insts = std::mem::take(&mut func.regions[region].insts);
        insts.retain(|inst| !gone.contains(inst));
        for &inst in &insts {
            let data = &mut func.insts[inst];
            if data.op == Op::AddTo {
                data.args[0] = root(data.args[0]);
            }
        }
        func.regions[region].insts = insts;
    }
    true
}

struct Survey<'a> {
    types: &'a Types,
    func: &'a Function,
    defs: Defs,
    order: u32,
    cells: FxHashMap<Value, Cell>,
    /// The cells in program order.
    names: Vec<Value>,
    /// The number of uses of each value.
    uses: SecondaryMap<Value, u32>,
    /// The additions, by the value that is added.
    pours: FxHashMap<Value, Pour>,
}

impl Survey<'_> {
    fn region(&mut self, region: Region) {
        let func = self.func;
        for &inst in &func.regions[region].insts {
            self.order += 1;
            let data = &func.insts[inst];
            for &arg in &data.args {
                self.uses[arg] += 1;
            }
            match (&data.op, &data.args[..]) {
                (Op::Local, &[init]) => self.cell(region, data.results[0], init),
                (Op::AddTo, &[cell, ref rest @ ..]) => {
                    let order = self.order;
                    if let Some(cell) = self.cells.get_mut(&cell) {
                        cell.added = Some(order);
                    }
                    if let &[x] = rest {
                        self.pours.insert(x, Pour { order, home: region, inst, to: cell });
                    }
                    // These operands are looked at as well, although a cell cannot be an addend.
                    rest.iter().for_each(|&arg| self.look(arg));
                }
                (Op::Load, &[cell]) => {
                    self.look(cell);
                    let order = self.order;
                    if let Some(cell) = self.cells.get_mut(&cell) {
                        cell.load = Some((order, region, data.results[0]));
                    }
                }
                (_, args) => args.iter().for_each(|&arg| self.look(arg)),
            }
            for &inner in &data.regions {
                self.region(inner);
            }
        }
        for &v in &func.regions[region].results {
            self.uses[v] += 1;
            self.look(v);
        }
    }

    fn cell(&mut self, region: Region, cell: Value, init: Value) {
        let TypeData::Cell(content) = self.types[self.func.ty(cell)] else { return };
        if let TypeData::Array(..) = self.types[content] {
            let is_absent = self.defs.op(self.func, init) == Some(&Op::Absent);
            let data = Cell { order: self.order, home: region.into(), is_absent, ..Cell::default() };
            self.cells.insert(cell, data);
            self.names.push(cell);
        }
    }

    /// Records a use that is not an addition.
    fn look(&mut self, v: Value) {
        if let Some(cell) = self.cells.get_mut(&v) {
            cell.looks.push(self.order);
        }
    }

    /// Decides which sum each sum is replaced by, and which instructions are no longer needed.
    fn decide(&self) -> (FxHashMap<Value, Value>, FxHashSet<Inst>) {
        let (mut target, mut gone) = (FxHashMap::default(), FxHashSet::default());
        for &name in &self.names {
            let cell = &self.cells[&name];
            let (Some((loaded, region, v)), Some(last)) = (cell.load, cell.added) else { continue };
            let Some(pour) = self.pours.get(&v).filter(|_| self.uses[v] == 1) else { continue };
            let Some(to) = self.cells.get(&pour.to) else { continue };
            let is_one = |other: Region| cell.home.expand() == Some(other);
            let only_added = cell.is_absent && cell.looks.len() == 1 && last < loaded;
            let together = is_one(region) && is_one(pour.home);
            let unseen = !to.looks.iter().any(|look| (cell.order..=pour.order).contains(look));
            let types = (self.func.ty(name), self.func.ty(pour.to));
            if only_added && together && unseen && to.order < cell.order && types.0 == types.1 {
                target.insert(name, pour.to);
                gone.insert(pour.inst);
                gone.extend(self.defs.inst(v));
                gone.extend(self.defs.inst(name));
            }
        }
        (target, gone)
    }
}
