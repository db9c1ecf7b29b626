//! The costs of keeping a value on a stack and of computing it again, for whoever has the choice.
//!
//! Both are in quarters of the time of a scalar addition, so that they can be compared. A kept value is
//! written to a stack and read from it, which costs some bookkeeping, and traffic that grows with its bytes.
//! The figures depend on the processor and need not be exact: every choice gives the same numbers.

use crate::entities::Inst;
use crate::function::Function;
use crate::ops::{Math, Op};
use crate::types::{Type, TypeData, Types};

/// The cost of an operation on one scalar.
pub const OP: u64 = 4;
/// The cost of a value on a stack, apart from its bytes.
const KEEP: u64 = 16;
/// The cost of each byte of such a value.
const KEEP_BYTE: u64 = 6;

/// The cost of keeping a value for each trip of a loop.
pub fn keep(types: &Types, ty: Type) -> u64 {
    let stacks = if types.has_stack(ty) { 1 << 12 } else { 0 };
    KEEP + types.bytes(ty).saturating_mul(KEEP_BYTE).saturating_add(stacks)
}

/// The cost of running an instruction again; `None` if that would never pay off, or if the result might
/// differ as far as the op shows.
pub fn again(types: &Types, func: &Function, inst: Inst) -> Option<u64> {
    let data = &func.insts[inst];
    let &[result] = data.results.as_slice() else { return None };
    let ty = func.ty(result);
    let lanes = lanes(types, ty);
    let float = types.is_differentiable(ty);
    let per_lane = |cost: u64| lanes.map(|n| n * cost * OP);
    match &data.op {
        Op::Const(_) | Op::GlobalRef(_) | Op::Zero | Op::Absent => Some(0),
        op if op.is_elementary() => per_lane(1),
        Op::Select | Op::Construct | Op::Insert(_) | Op::Splat => per_lane(1),
        Op::Detach => lanes.map(|_| 0),
        Op::Extract(_) | Op::Index | Op::Builtin(_) if lanes.is_some() => Some(OP),
        Op::Sum => lanes.and_then(|_| self::lanes(types, func.ty(data.args[0]))).map(|n| n * OP),
        // This is a short row of an array of arrays.
        Op::Index if types.bytes(ty) <= 128 && !types.has_stack(func.ty(data.args[0])) => Some(2 * OP),
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
        Op::BufferOffset
        | Op::BufferCast(_)
        | Op::BufferLen
        | Op::BufferAddress
        | Op::HandleBits
        | Op::HandleOf
        | Op::Clock
        | Op::OnDevice => Some(OP),
        _ => None,
    }
}

/// The number of scalars in a scalar or vector; `None` for other types.
pub fn lanes(types: &Types, ty: Type) -> Option<u64> {
    match types[ty] {
        TypeData::Scalar(_) => Some(1),
        TypeData::Vector(_, n) => Some(n as u64),
        _ => None,
    }
}
