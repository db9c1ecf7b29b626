//! Determines which instructions of a marked function are linear, and which contain linear instructions.

use cranelift_entity::EntitySet;
use ir::{Function, Inst, Op, Region};

/// The half that each instruction belongs to. An instruction in neither set is primal.
pub(crate) struct Sides {
    /// Instructions that are wholly linear.
    pub(crate) linear: EntitySet<Inst>,
    /// Structured instructions with linear instructions inside or with linear results.
    pub(crate) mixed: EntitySet<Inst>,
}

impl Sides {
    pub(crate) fn new(src: &Function, linear_calls: &EntitySet<Inst>) -> Sides {
        let mut sides = Sides { linear: EntitySet::new(), mixed: EntitySet::new() };
        sides.region(src, src.body(), linear_calls);
        sides
    }

    fn region(&mut self, src: &Function, region: Region, linear_calls: &EntitySet<Inst>) -> bool {
        let mut found = false;
        for &inst in &src.regions[region].insts {
            let data = &src.insts[inst];
            if data.regions.is_empty() {
                let is_linear = data.results.iter().any(|&v| src.is_linear(v))
                    || matches!(data.op, Op::CallTransposeOf(_))
                    || matches!(data.op, Op::Store | Op::AddTo) && src.is_linear(data.args[0])
                    || linear_calls.contains(inst);
                if is_linear {
                    self.linear.insert(inst);
                    found = true;
                }
            } else {
                let mut inside = data.results.iter().any(|&v| src.is_linear(v));
                for &nested in &data.regions {
                    inside |= self.region(src, nested, linear_calls);
                }
                if inside {
                    self.mixed.insert(inst);
                    found = true;
                }
            }
        }
        found
    }
}
