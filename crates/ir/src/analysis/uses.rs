//! Finds where values are used.

use cranelift_entity::EntityRef;

use crate::entities::{Inst, Region, Value};
use crate::function::Function;

/// A use of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The operand with this number of an instruction.
    Operand(Inst, u32),
    /// The result with this number of a region.
    Result(Region, u32),
}

/// The uses of every value in a function's body, in the order of the text; a region's results come after its
/// instructions.
pub struct Uses {
    /// For each value, the end of its uses in `list`; they begin where those of the value before it end.
    ends: Vec<u32>,
    list: Vec<Use>,
}

impl Uses {
    /// Finds all uses.
    pub fn of(func: &Function) -> Uses {
        let mut ends = vec![0u32; func.values.len()];
        if !func.has_body() {
            return Uses { ends, list: Vec::new() };
        }
        crate::walk::for_each_use(func, func.body(), &mut |v| ends[v.index()] += 1);
        let mut sum = 0;
        for end in &mut ends {
            // The begin, which moves to the end as the list is filled.
            sum += std::mem::replace(end, sum);
        }
        let mut uses = Uses { ends, list: vec![Use::Result(func.body(), 0); sum as usize] };
        uses.region(func, func.body());
        uses
    }

    fn region(&mut self, func: &Function, region: Region) {
        let data = &func.regions[region];
        for &inst in &data.insts {
            for (k, &v) in func.insts[inst].args.iter().enumerate() {
                self.add(v, Use::Operand(inst, k as u32));
            }
            for &nested in &func.insts[inst].regions {
                self.region(func, nested);
            }
        }
        for (k, &v) in data.results.iter().enumerate() {
            self.add(v, Use::Result(region, k as u32));
        }
    }

    fn add(&mut self, v: Value, at: Use) {
        let end = &mut self.ends[v.index()];
        self.list[*end as usize] = at;
        *end += 1;
    }

    /// The uses of a value.
    pub fn of_value(&self, v: Value) -> &[Use] {
        let start = v.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.list[start as usize..self.ends[v.index()] as usize]
    }

    /// The number of uses of a value.
    pub fn count(&self, v: Value) -> usize {
        self.of_value(v).len()
    }

    /// The instruction that uses a value as an operand, if that is its only use.
    pub fn only_user(&self, v: Value) -> Option<Inst> {
        match *self.of_value(v) {
            [Use::Operand(inst, _)] => Some(inst),
            _ => None,
        }
    }
}
