//! Finds where values are defined and which of them are constants.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use smallvec::SmallVec;

use crate::entities::{Inst, Value};
use crate::function::Function;
use crate::ops::Op;
use crate::types::{Scalar, TypeData, Types};

/// The canonical bits of each lane.
pub type Lanes = SmallVec<[u64; 4]>;

/// Maps each value to the instruction that defines it and to its number among that instruction's results;
/// parameters of regions have none.
#[derive(Default)]
pub struct Defs(SecondaryMap<Value, (PackedOption<Inst>, u32)>);

impl Defs {
    /// Collects the definitions of all instructions in the function's body.
    pub fn of(func: &Function) -> Defs {
        let mut defs = Defs(SecondaryMap::new());
        defs.0.resize(func.values.len());
        if func.has_body() {
            func.walk(func.body(), &mut |inst| defs.add(func, inst));
        }
        defs
    }

    /// Records the results of an instruction.
    pub fn add(&mut self, func: &Function, inst: Inst) {
        for (k, &r) in func.insts[inst].results.iter().enumerate() {
            self.0[r] = (inst.into(), k as u32);
        }
    }

    /// The instruction that defines `v`.
    #[inline]
    pub fn inst(&self, v: Value) -> Option<Inst> {
        self.0[v].0.expand()
    }

    /// The instruction that defines `v`, and the number of `v` among its results.
    pub fn result(&self, v: Value) -> Option<(Inst, usize)> {
        let (inst, k) = self.0[v];
        inst.expand().map(|inst| (inst, k as usize))
    }

    /// The op that defines `v`.
    pub fn op<'f>(&self, func: &'f Function, v: Value) -> Option<&'f Op> {
        self.inst(v).map(|inst| &func.insts[inst].op)
    }

    /// The bits of a scalar constant.
    pub fn scalar(&self, types: &Types, func: &Function, v: Value) -> Option<(Scalar, u64)> {
        let TypeData::Scalar(s) = types[func.ty(v)] else { return None };
        match self.op(func, v)? {
            Op::Const(bits) => Some((s, *bits)),
            Op::Zero => Some((s, 0)),
            _ => None,
        }
    }

    /// The lanes of a constant scalar or vector (of at most 16 lanes).
    pub fn lanes(&self, types: &Types, func: &Function, v: Value) -> Option<(Scalar, Lanes)> {
        let inst = self.inst(v)?;
        let (s, n) = match types[func.ty(v)] {
            TypeData::Scalar(s) => (s, 1),
            TypeData::Vector(s, n) if n <= 16 => (s, n),
            _ => return None,
        };
        match &func.insts[inst].op {
            Op::Const(bits) => Some((s, SmallVec::from_elem(*bits, 1))),
            Op::Zero => Some((s, SmallVec::from_elem(0, n as usize))),
            Op::Splat => {
                let (_, bits) = self.scalar(types, func, func.insts[inst].args[0])?;
                Some((s, SmallVec::from_elem(bits, n as usize)))
            }
            Op::Construct => {
                let args = &func.insts[inst].args;
                let lanes: Option<Lanes> =
                    args.iter().map(|&a| self.scalar(types, func, a).map(|c| c.1)).collect();
                Some((s, lanes?))
            }
            _ => None,
        }
    }

    /// The index below `len` that a constant selects: `Some(None)` if it is out of range, `None` if `v` is
    /// not a constant.
    pub fn index(&self, types: &Types, func: &Function, v: Value, len: u32) -> Option<Option<u32>> {
        let (s, bits) = self.scalar(types, func, v)?;
        Some(crate::scalar::index(s, bits, len as usize).map(|i| i as u32))
    }
}
