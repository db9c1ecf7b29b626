//! `x = load c` where nobody writes `c` any more while `x` is alive: `x` is the cell's variable, and nothing is copied.
//!
//! A cell lives from its `local` to the next time that control comes there, which is no earlier than the next trip of the
//! innermost loop around it; what a trip gives to the next is copied by then. So a load is such if all that write the cell
//! stand before it, and before the outermost loop that is around the load and not around the cell.

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::{Function, Op, Region, Value};

/// The values that are whole cells, which nobody writes after they were loaded.
pub(crate) fn lasting(f: &Function) -> EntitySet<Value> {
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

/// What is known of a cell.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// Loops around it.
    loops: usize,
    /// Where it is written last, in the order of the text.
    written: u32,
}

struct Load {
    result: Value,
    cell: Value,
    /// Where it is in the order of the text, or the loop that is around it and not around the cell.
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
                // Its parts are written elsewhere.
                (Op::SubCell, args) => self.cells[args[0]].written = u32::MAX,
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

    /// Any use but a load may write.
    fn write(&mut self, v: Value) {
        let written = &mut self.cells[v].written;
        *written = (*written).max(self.order);
    }
}
