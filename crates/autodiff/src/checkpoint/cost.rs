//! The costs of recomputing values that calls give or that come from memory; [`ir::analysis::cost`] has the
//! others.

use ir::analysis::cost::{self, OP};
use ir::analysis::post_order_of;
use ir::{Defs, Func, Function, Inst, Module, Op, Space};

use crate::engine::Engine;

/// The cost of a call and its return.
const CALL: u64 = 5 * OP;
/// Functions with more instructions than this are not run again.
const LARGEST: usize = 1000;
/// The cost of an induction variable: a sum and a product.
pub(crate) const INDUCTION: u64 = 2 * OP;

/// The cost of running an instruction again; `None` if its result might differ, or if that would never pay
/// off.
pub(crate) fn again(module: &Module, src: &Function, defs: &Defs, inst: Inst) -> Option<u64> {
    let Op::BufferLoad(_) = src.insts[inst].op else { return cost::again(&module.types, src, inst) };
    let handle = defs.inst(src.insts[inst].args[0])?;
    let Op::GlobalRef(global) = src.insts[handle].op else { return None };
    let lanes = cost::lanes(&module.types, src.ty(src.result(inst)))?;
    match module.globals[global].space {
        Space::ReadOnly | Space::Uniform => Some(2 * OP * lanes),
        Space::ReadWrite | Space::GroupShared | Space::Private | Space::Arena => None,
    }
}

impl Engine<'_> {
    /// Computes the costs of calling again the functions that `src` calls.
    pub(crate) fn price_calls(&mut self, src: &Function) {
        // Callees come first; a function whose cost is not known yet when it is called is recursive.
        let costs = &self.facts.call_costs;
        for func in post_order_of(self.module, ir::walk::callees(src), &|f| costs.contains_key(&f)) {
            let cost = self.price(func);
            self.facts.call_costs.insert(func, cost);
        }
    }

    /// The sum of the costs of a function's instructions, if all of them can be run again.
    fn price(&self, func: Func) -> Option<u64> {
        let src = &self.module.funcs[func];
        let linear = src.params.iter().chain(&src.results).any(|s| s.linear);
        if !src.has_body() || linear || src.insts.len() > LARGEST {
            return None;
        }
        let defs = Defs::of(src);
        let mut sum = Some(CALL);
        src.walk(src.body(), &mut |inst| {
            let cost = match src.insts[inst].op {
                Op::Call(callee) => self.facts.call_costs.get(&callee).copied().flatten(),
                Op::If | Op::Switch(_) => Some(OP),
                _ => again(self.module, src, &defs, inst),
            };
            sum = sum.zip(cost).map(|(a, b)| a + b);
        });
        sum
    }
}
