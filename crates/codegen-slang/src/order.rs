//! The order in which a function is written, and where its values are used.
//!
//! Variables of the text change, values do not. An expression that is not written yet must be written before a
//! variable in it changes, if it is used afterwards; positions in the order answer whether it is.

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::{Function, Inst, InstData, Op, Region, TypeData, Types, Value};
use rustc_hash::FxHashMap;

/// Positions of instructions and of the ends of regions, in the order of the text.
#[derive(Debug, Default)]
pub(crate) struct Order {
    at: SecondaryMap<Inst, u32>,
    after: SecondaryMap<Inst, u32>,
    end: SecondaryMap<Region, u32>,
    uses: FxHashMap<Value, Vec<u32>>,
    defined: FxHashMap<Value, u32>,
    /// The innermost loop in which each value is defined, and those in which it is used; 0: none.
    loops: FxHashMap<Value, u32>,
    used_in: FxHashMap<Value, Vec<u32>>,
    /// Values with other uses than to initialise a variable.
    read: EntitySet<Value>,
    /// The branches that have been begun.
    begun: EntitySet<Inst>,
    /// The cells that an instruction and its regions change.
    changed: FxHashMap<Inst, Vec<Value>>,
    /// The cell that each part of a cell belongs to.
    parts: FxHashMap<Value, Value>,
}

impl Order {
    pub(crate) fn new(types: &Types, src: &Function) -> Order {
        let mut order = Order::default();
        let mut next = 1;
        order.region(types, src, src.body(), 0, &mut next);
        order
    }

    fn region(&mut self, types: &Types, src: &Function, region: Region, within: u32, next: &mut u32) {
        for &v in &src.regions[region].params {
            self.loops.insert(v, within);
        }
        for &inst in &src.regions[region].insts {
            let data = &src.insts[inst];
            let at = *next;
            *next += 1;
            self.at[inst] = at;
            let lead = data.op.carried_at().0;
            for (k, &v) in data.args.iter().enumerate() {
                self.used(v, at, within);
                if !(matches!(data.op, Op::Local) || data.op.is_loop() && k >= lead) {
                    self.read.insert(v);
                }
            }
            let inner = if data.op.is_loop() { at } else { within };
            let mut changed = self.changed_by(types, src, data);
            for &nested in &data.regions {
                self.region(types, src, nested, inner, next);
                let insts = &src.regions[nested].insts;
                changed.extend(insts.iter().flat_map(|i| self.changed_cells(*i)));
            }
            changed.sort();
            changed.dedup();
            if !changed.is_empty() {
                self.changed.insert(inst, changed);
            }
            if let (Op::SubCell, [cell, ..]) = (&data.op, &data.args[..]) {
                let whole = self.whole(*cell);
                self.parts.insert(data.results[0], whole);
            }
            if let Op::For(_) = data.op {
                // Each trip of the text reads the number of trips.
                self.uses.entry(data.args[0]).or_default().push(*next);
                *next += 1;
            }
            self.after[inst] = *next - 1;
            for &v in &data.results {
                self.loops.insert(v, within);
                self.defined.insert(v, self.after[inst]);
            }
        }
        let end = *next;
        *next += 1;
        self.end[region] = end;
        for &v in &src.regions[region].results {
            self.used(v, end, within);
            self.read.insert(v);
        }
    }

    /// The cells that an instruction without regions changes.
    fn changed_by(&self, types: &Types, src: &Function, data: &InstData) -> Vec<Value> {
        let is_cell = |v: &&Value| matches!(types[src.ty(**v)], TypeData::Cell(_));
        let changes = data.regions.is_empty() && !data.op.is_pure() && !matches!(data.op, Op::Load);
        data.args.iter().filter(is_cell).filter(|_| changes).map(|&v| self.whole(v)).collect()
    }

    /// The cell that a cell is a part of, or itself.
    fn whole(&self, cell: Value) -> Value {
        self.parts.get(&cell).copied().unwrap_or(cell)
    }

    /// The cells that an instruction and its regions change.
    pub(crate) fn changed_cells(&self, inst: Inst) -> &[Value] {
        self.changed.get(&inst).map_or(&[], Vec::as_slice)
    }

    fn used(&mut self, v: Value, at: u32, within: u32) {
        self.uses.entry(v).or_default().push(at);
        self.used_in.entry(v).or_default().push(within);
    }

    /// Returns true if all uses of a value initialise variables.
    pub(crate) fn only_initialises(&self, v: Value) -> bool {
        !self.read.contains(v)
    }

    /// Notes that a branch is being written.
    pub(crate) fn begin(&mut self, inst: Inst) {
        self.begun.insert(inst);
    }

    pub(crate) fn is_begun(&self, inst: Inst) -> bool {
        self.begun.contains(inst)
    }

    pub(crate) fn at(&self, inst: Inst) -> u32 {
        self.at[inst]
    }

    /// The last position in the regions of an instruction.
    pub(crate) fn after(&self, inst: Inst) -> u32 {
        self.after[inst]
    }

    pub(crate) fn end(&self, region: Region) -> u32 {
        self.end[region]
    }

    /// Returns true if a value is used after a position, up to another one.
    pub(crate) fn is_used_within(&self, v: Value, after: u32, last: u32) -> bool {
        self.uses.get(&v).is_some_and(|uses| uses.iter().any(|&at| at > after && at <= last))
    }

    /// The position of the instruction that defines a value.
    pub(crate) fn after_value(&self, v: Value) -> u32 {
        self.defined.get(&v).copied().unwrap_or(0)
    }

    /// Returns true if a loop would compute the value again and again if it moved to its uses.
    pub(crate) fn is_used_in_inner_loop(&self, v: Value) -> bool {
        let own = self.loops.get(&v).copied().unwrap_or(0);
        self.used_in.get(&v).is_some_and(|all| all.iter().any(|&within| within != own))
    }
}
