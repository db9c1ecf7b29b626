//! Reads arrays that are copies of read-only memory directly from that memory.
//!
//! `for i < n { c[i] = m[i] }; a = load c; a[j]` ↦ `m[j]`, with `n` the length of `c`, and `m` memory that is
//! only read. A parameter that is an array becomes such a copy where a kernel passes the contents of a
//! buffer. A processor reads a copy as fast as the buffer; on a device each thread has its own copy, which
//! does not stay in nearby memory.
//!
//! The rewrite is right because nothing else writes `c`, every read that is replaced comes after the whole
//! loop, and an index that is not certainly below `n` is tested: there may be more memory beyond the array's
//! end.

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use ir::{Function, Inst, InstData, Module, Op, Region, Scalar, Space, Type, TypeData, Types, Value};

use crate::util::{Defs, Subst, dense, make};
use ir::range::Ranges;

/// The minimum length of an array whose copy is worth replacing.
const LEAST: u32 = 8;

/// A cell that is filled by a loop.
#[derive(Clone)]
struct Copy {
    /// The load that produces an element.
    load: Inst,
    /// The load's operand that is the number of the element.
    at: usize,
    n: u32,
    /// The loop that fills the cell.
    fill: Inst,
    /// The position of the end of the loop, in the order of the text.
    end: u32,
}

/// The writes to a cell.
#[derive(Clone)]
struct Cell {
    n: u32,
    home: Region,
    copy: Option<Copy>,
    /// Another instruction writes the cell, or may write it.
    is_other: bool,
}

/// Returns true if a function has arrays that could be such copies.
pub fn may(types: &Types, func: &Function) -> bool {
    let mut found = false;
    func.walk(func.body(), &mut |inst| {
        let data = &func.insts[inst];
        if data.op == Op::Local
            && let TypeData::Cell(content) = types[func.ty(data.results[0])]
        {
            found |= matches!(types[content], TypeData::Array(_, n) if n >= LEAST);
        }
    });
    found
}

/// Replaces the reads of such copies; returns true if there were any. Only valid after AD.
pub fn run(types: &mut Types, func: &mut Function, constants: &Constants) -> bool {
    if !func.has_body() {
        return false;
    }
    let mut survey = Survey {
        types,
        func,
        constants,
        defs: Defs::of(func),
        constant: EntitySet::new(),
        home: dense(func.values.len()),
        cells: FxHashMap::default(),
        loads: Vec::new(),
        order: 0,
        fills: Vec::new(),
        filled: Vec::new(),
    };
    survey.region(func.body());
    let Survey { defs, cells, loads, .. } = survey;
    let copy_of = |cell: Value, order: u32| {
        let cell = cells.get(&cell).filter(|cell| !cell.is_other)?;
        cell.copy.clone().filter(|copy| copy.end < order)
    };
    // The reads to replace: the arrays loaded as values, and elements of the cells.
    let (mut arrays, mut elements) = (FxHashMap::default(), FxHashMap::default());
    for (inst, order) in loads {
        let data = &func.insts[inst];
        match (copy_of(data.args[0], order), data.args.len()) {
            (Some(copy), 1) => arrays.insert(data.results[0], copy),
            (Some(copy), 2) => elements.insert(inst, copy),
            _ => None,
        };
    }
    if arrays.is_empty() && elements.is_empty() {
        return false;
    }
    let ranges = Ranges::of(func);
    let mut subst = Subst::default();
    let mut changed = false;
    let regions: Vec<Region> = func.regions.keys().collect();
    for region in regions {
        let insts = std::mem::take(&mut func.regions[region].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for inst in insts {
            let data = &func.insts[inst];
            let copy = match data.op {
                Op::Index => arrays.get(&data.args[0]),
                Op::Load => elements.get(&inst),
                _ => None,
            };
            let result = data.results.first().copied();
            let known =
                copy.is_some_and(|copy| ranges.below(types, func, &defs, data.args[1], u64::from(copy.n)));
            match copy.and_then(|copy| read(types, func, copy, inst, known)).zip(result) {
                Some(((made, value), result)) => {
                    kept.extend(made);
                    subst.set(result, value);
                    changed = true;
                }
                None => kept.push(inst),
            }
        }
        func.regions[region].insts = kept;
    }
    if changed {
        let regions: Vec<Region> = func.regions.keys().collect();
        regions.into_iter().for_each(|region| subst.apply_results(func, region));
        let all: Vec<Inst> = func.insts.keys().collect();
        all.into_iter().for_each(|inst| subst.apply(func, inst));
    }
    changed
}

/// Makes the instructions that read memory in place of the copy's element that `inst` reads; returns them
/// with their result.
fn read(
    types: &Types,
    func: &mut Function,
    copy: &Copy,
    inst: Inst,
    known: bool,
) -> Option<(SmallVec<[Inst; 6]>, Value)> {
    let InstData { args, results, span, .. } = func.insts[inst].clone();
    let (index, ty) = (args[1], func.ty(results[0]));
    let TypeData::Scalar(s) = types[func.ty(index)] else { return None };
    let mut list = SmallVec::new();
    let mut load = func.insts[copy.load].clone();
    load.args[copy.at] = index;
    let mut add = |made: (Inst, Value)| {
        list.push(made.0);
        made.1
    };
    let value = add(make(func, load.op, &load.args, ty, false, span));
    if known {
        return Some((list, value));
    }
    let unsigned = match s {
        Scalar::I32 => add(make(func, Op::Bitcast, &[index], Type::U32, false, span)),
        Scalar::U32 => index,
        _ => return None,
    };
    let n = add(make(func, Op::Const(u64::from(copy.n)), &[], Type::U32, false, span));
    let inside = add(make(func, Op::Lt, &[unsigned, n], Type::BOOL, false, span));
    let (inst, zero) = make(func, Op::Zero, &[], ty, false, span);
    list.push(inst);
    let (select, value) = make(func, Op::Select, &[inside, value, zero], ty, false, span);
    list.push(select);
    Some((list, value))
}

/// For each global, true if its memory is never written.
pub struct Constants(Vec<bool>);

impl Constants {
    /// Finds the globals of a module that are read-only.
    pub fn of(module: &Module) -> Constants {
        let is_constant = |space: Space| matches!(space, Space::ReadOnly | Space::Uniform);
        Constants(module.globals.values().map(|g| is_constant(g.space)).collect())
    }
}

struct Survey<'a> {
    types: &'a Types,
    func: &'a Function,
    constants: &'a Constants,
    defs: Defs,
    /// Handles of memory that is never written.
    constant: EntitySet<Value>,
    /// The region in which each value is defined.
    home: SecondaryMap<Value, PackedOption<Region>>,
    cells: FxHashMap<Value, Cell>,
    loads: Vec<(Inst, u32)>,
    order: u32,
    /// The loops around the current place, each with the region that contains it.
    fills: Vec<(Inst, Region)>,
    /// The cells that these loops fill.
    filled: Vec<Value>,
}

impl Survey<'_> {
    fn region(&mut self, region: Region) {
        let func = self.func;
        for &param in &func.regions[region].params {
            self.home[param] = region.into();
        }
        for &inst in &func.regions[region].insts {
            self.order += 1;
            let data = &func.insts[inst];
            for &result in &data.results {
                self.home[result] = region.into();
            }
            match data.op {
                Op::GlobalRef(global) => {
                    let index = cranelift_entity::EntityRef::index(global);
                    if self.constants.0.get(index).is_some_and(|&constant| constant) {
                        self.constant.insert(data.results[0]);
                    }
                }
                Op::Local => {
                    if let TypeData::Cell(content) = self.types[func.ty(data.results[0])]
                        && let TypeData::Array(_, n) = self.types[content]
                        && n >= LEAST
                    {
                        let cell = Cell { n, home: region, copy: None, is_other: false };
                        self.cells.insert(data.results[0], cell);
                    }
                }
                Op::Load => self.loads.push((inst, self.order)),
                Op::Store => self.store(region, data),
                _ => data.args.iter().for_each(|&arg| self.other(arg)),
            }
            for &inner in &data.regions {
                if let Op::For(_) = data.op {
                    self.fills.push((inst, region));
                    self.region(inner);
                    self.fills.pop();
                } else {
                    self.region(inner);
                }
            }
            if let Op::For(_) = data.op {
                self.end(inst);
            }
        }
        for &v in &func.regions[region].results {
            self.other(v);
        }
    }

    fn other(&mut self, v: Value) {
        if let Some(cell) = self.cells.get_mut(&v) {
            cell.is_other = true;
        }
    }

    /// Processes the end of a loop.
    fn end(&mut self, fill: Inst) {
        while let Some(cell) = self.filled.last() {
            let Some(copy) = self.cells.get_mut(cell).and_then(|cell| cell.copy.as_mut()) else { break };
            if copy.fill != fill {
                break;
            }
            copy.end = self.order;
            self.filled.pop();
        }
    }

    /// Processes a store `c[i] = x` in a region.
    fn store(&mut self, region: Region, data: &InstData) {
        let copy = self.copy(region, data);
        if let Some(cell) = self.cells.get_mut(&data.args[0]) {
            match copy {
                Some(copy) if cell.copy.is_none() => {
                    cell.copy = Some(copy);
                    self.filled.push(data.args[0]);
                }
                _ => cell.is_other = true,
            }
        }
    }

    /// The copy that a store makes, if the store is in a loop over all elements.
    fn copy(&self, region: Region, data: &InstData) -> Option<Copy> {
        let &[cell, index, x] = &data.args[..] else { return None };
        let cell = self.cells.get(&cell)?;
        let &(fill, around) = self.fills.last()?;
        let func = self.func;
        let trips = self.defs.scalar(self.types, func, func.insts[fill].args[0])?.1;
        let counter = *func.regions[region].params.first()?;
        let is_whole = func.insts[fill].regions.first() == Some(&region)
            && around == cell.home
            && index == counter
            && trips == u64::from(cell.n);
        let load = self.defs.inst(x)?;
        let made = &func.insts[load];
        let is_constant = self.constant.contains(*made.args.first()?);
        if !is_whole || !matches!(made.op, Op::BufferLoad(_)) || !is_constant {
            return None;
        }
        // One operand is the number of the element; the others are defined before the loop.
        let mut at = None;
        for (k, &arg) in made.args.iter().enumerate() {
            if arg == counter && at.is_none() {
                at = Some(k);
            } else if self.home[arg].expand()? == region {
                return None;
            }
        }
        Some(Copy { load, at: at?, n: cell.n, fill, end: u32::MAX })
    }
}
