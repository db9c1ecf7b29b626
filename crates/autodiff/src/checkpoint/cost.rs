//! The costs of keeping a value and of recomputing it.
//!
//! Both are in quarters of the time of a scalar addition, so that they can be compared. A kept value is
//! written to a stack and read from it, which costs some bookkeeping, and traffic that grows with its bytes.
//! The figures depend on the processor and need not be exact: every choice gives the same derivative.

use ir::analysis::post_order_of;
use ir::{Defs, Func, Function, Inst, Math, Module, Op, Space, Type, TypeData, Types};

use crate::engine::Engine;

/// The cost of an operation on one scalar.
const OP: u64 = 4;
/// The cost of a value on a stack, apart from its bytes.
const KEEP: u64 = 16;
/// The cost of each byte of such a value.
const KEEP_BYTE: u64 = 6;

/// The cost of a call and its return.
const CALL: u64 = 5 * OP;
/// Functions with more instructions than this are not run again.
const LARGEST: usize = 1000;
/// The cost of an induction variable: a sum and a product.
pub(crate) const INDUCTION: u64 = 2 * OP;

/// The cost of keeping a value for each trip of a loop.
pub(crate) fn keep(types: &Types, ty: Type) -> u64 {
    let stacks = if types.has_stack(ty) { 1 << 12 } else { 0 };
    KEEP + types.bytes(ty).saturating_mul(KEEP_BYTE).saturating_add(stacks)
}

/// The cost of running an instruction again; `None` if its result might differ, or if that would never pay
/// off.
pub(crate) fn again(module: &Module, src: &Function, defs: &Defs, inst: Inst) -> Option<u64> {
    let data = &src.insts[inst];
    let types = &module.types;
    let &[result] = data.results.as_slice() else { return None };
    let ty = src.ty(result);
    let lanes = lanes(types, ty);
    let float = types.is_differentiable(ty);
    let per_lane = |cost: u64| lanes.map(|n| n * cost * OP);
    match &data.op {
        Op::Const(_) | Op::GlobalRef(_) | Op::Zero | Op::Absent => Some(0),
        op if op.is_elementary() => per_lane(1),
        Op::Select | Op::Construct | Op::Insert(_) | Op::Splat => per_lane(1),
        Op::Detach => lanes.map(|_| 0),
        Op::Extract(_) | Op::Index | Op::Builtin(_) if lanes.is_some() => Some(OP),
        Op::Sum => lanes.and_then(|_| self::lanes(types, src.ty(data.args[0]))).map(|n| n * OP),
        // This is a short row of an array of arrays.
        Op::Index if types.bytes(ty) <= 128 && !types.has_stack(src.ty(data.args[0])) => Some(2 * OP),
        Op::Div | Op::Rem if !float => per_lane(6),
        Op::Div | Op::Unscale => per_lane(5),
        Op::Rem => per_lane(20),
        Op::Math(
            Math::Floor
            | Math::Ceil
            | Math::Round
            | Math::Trunc
            | Math::Min
            | Math::Max
            | Math::Abs
            | Math::Fma
            | Math::IsNan
            | Math::IsInf,
        ) => per_lane(2),
        Op::Math(Math::Sqrt) => per_lane(6),
        Op::Math(_) => per_lane(30),
        Op::BufferOffset | Op::BufferCast(_) | Op::BufferLen | Op::BufferAddress | Op::OnDevice => Some(OP),
        Op::BufferLoad(_) => {
            let handle = defs.inst(data.args[0])?;
            let Op::GlobalRef(global) = src.insts[handle].op else { return None };
            match module.globals[global].space {
                Space::ReadOnly | Space::Uniform => per_lane(2),
                Space::ReadWrite | Space::GroupShared | Space::Private => None,
            }
        }
        _ => None,
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

/// The number of scalars in a scalar or vector; `None` for other types.
fn lanes(types: &Types, ty: Type) -> Option<u64> {
    match types[ty] {
        TypeData::Scalar(_) => Some(1),
        TypeData::Vector(_, n) => Some(n as u64),
        _ => None,
    }
}
