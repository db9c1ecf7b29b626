//! Finds loads `x = load c` after which `c` is not written while `x` is alive. Such an `x` is represented by
//! the cell's variable or memory, without a copy.
//!
//! A cell lives from its `local` until control reaches that instruction again, which is no earlier than the
//! next iteration of the innermost loop around it; values carried to the next iteration have been copied by
//! then. A load therefore needs no copy if all writes to the cell precede the load, and also precede the
//! outermost loop that contains the load but not the cell.

use cranelift_entity::{EntitySet, SecondaryMap};

use crate::entities::{Region, Value};
use crate::function::Function;
use crate::ops::Op;

/// The values loaded from whole cells that are not written after the load.
pub fn lasting(f: &Function) -> EntitySet<Value> {
    let mut walk = Walk { f, order: 0, loops: Vec::new(), cells: SecondaryMap::new(), loads: Vec::new() };
    if f.has_body() {
        walk.region(f.body());
    }
    let mut lasting = EntitySet::new();
    for load in walk.loads.iter().filter(|load| walk.cells[load.cell].written < load.start) {
        lasting.insert(load.result);
    }
    lasting
}

/// Facts about a cell.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// The number of loops around its `local`.
    loops: usize,
    /// The position of the last write, in program order.
    written: u32,
}

struct Load {
    result: Value,
    cell: Value,
    /// The position of the load in program order, or that of the outermost loop that contains the load but
    /// not the cell.
    start: u32,
}

struct Walk<'f> {
    f: &'f Function,
    order: u32,
    loops: Vec<u32>,
    cells: SecondaryMap<Value, Cell>,
    loads: Vec<Load>,
}

impl Walk<'_> {
    fn region(&mut self, region: Region) {
        for &inst in &self.f.regions[region].insts {
            self.order += 1;
            let data = &self.f.insts[inst];
            match (&data.op, &data.args[..]) {
                (Op::Local, _) => {
                    let cell = Cell { loops: self.loops.len(), written: self.order };
                    self.cells[data.results[0]] = cell;
                }
                (Op::Load, &[cell]) => {
                    let start = self.loops.get(self.cells[cell].loops).copied().unwrap_or(self.order);
                    self.loads.push(Load { result: data.results[0], cell, start });
                }
                (Op::Load, _) => {}
                // Parts of the cell are written elsewhere.
                (Op::SubCell, args) => {
                    self.cells[args[0]].written = u32::MAX;
                    self.cells[data.results[0]].written = u32::MAX;
                }
                (_, args) => args.iter().for_each(|&arg| self.write(arg)),
            }
            let is_loop = matches!(data.op, Op::For(_) | Op::Loop(_));
            if is_loop {
                self.loops.push(self.order);
            }
            for &inner in &data.regions {
                self.region(inner);
            }
            if is_loop {
                self.loops.pop();
            }
        }
        for &v in &self.f.regions[region].results {
            self.write(v);
        }
    }

    /// Any use other than a load may write the cell.
    fn write(&mut self, v: Value) {
        let written = &mut self.cells[v].written;
        *written = (*written).max(self.order);
    }
}
