//! Derives upper bounds of index values from their definitions.
//!
//! The counter of `for(n)` with constant `n` is below `n`. The remainder by a positive constant is below the
//! constant, if it is unsigned or if the dividend is itself bounded. `and` with a constant is at most the
//! constant. Sums and products of bounded numbers are bounded if they cannot wrap. A bound always implies
//! that the number is not negative. The depth of the search is limited, so it is cheap.

use cranelift_entity::SecondaryMap;

use crate::defs::Defs;
use crate::function::{Function, Value};
use crate::ops::Op;
use crate::types::{Scalar, TypeData, Types};

/// Bounds of loop counters.
pub struct Ranges {
    /// For each counter of a `for`, the loop's trip count.
    counter: SecondaryMap<Value, Option<Value>>,
}

impl Ranges {
    /// Finds the counters of all loops in the function.
    pub fn of(func: &Function) -> Ranges {
        let mut counter = SecondaryMap::new();
        func.walk(func.body(), &mut |inst| {
            let data = &func.insts[inst];
            if let Op::For(_) = data.op {
                counter[func.regions[data.regions[0]].params[0]] = Some(data.args[0]);
            }
        });
        Ranges { counter }
    }

    /// Returns true if `0 <= v < len` is certain.
    pub fn below(&self, types: &Types, func: &Function, defs: &Defs, v: Value, len: u64) -> bool {
        self.most(types, func, defs, v, 6).is_some_and(|m| m < len)
    }

    /// The greatest number that `v` can be, if `v` cannot be negative.
    fn most(&self, types: &Types, func: &Function, defs: &Defs, v: Value, depth: u32) -> Option<u64> {
        let TypeData::Scalar(s) = types[func.ty(v)] else { return None };
        if !s.is_int() {
            return None;
        }
        let max = max_of(s);
        if let Some((_, bits)) = defs.scalar(types, func, v) {
            return (bits <= max).then_some(bits);
        }
        let unsigned = (!s.is_signed_int()).then_some(max);
        if depth == 0 {
            return unsigned;
        }
        if let Some(count) = self.counter[v] {
            let (_, n) = defs.scalar(types, func, count)?;
            return if n == 0 { Some(0) } else { (n - 1 <= max).then_some(n - 1) };
        }
        let Some(inst) = defs.inst(v) else { return unsigned };
        let args = &func.insts[inst].args;
        let most = |v| self.most(types, func, defs, v, depth - 1);
        let found = match func.insts[inst].op {
            Op::Convert => most(args[0]).filter(|&m| m <= max),
            Op::Rem => match (most(args[0]), defs.scalar(types, func, args[1])) {
                (Some(a), Some((_, b))) if b > 0 && b <= max => Some(a.min(b - 1)),
                _ => None,
            },
            Op::Div | Op::Shr => most(args[0]),
            Op::And => match (most(args[0]), most(args[1])) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            Op::Add => most(args[0])?.checked_add(most(args[1])?).filter(|&m| m <= max),
            Op::Mul => most(args[0])?.checked_mul(most(args[1])?).filter(|&m| m <= max),
            Op::Sub => self.mirror(types, func, defs, args[0], args[1]),
            Op::Select => Some(most(args[1])?.max(most(args[2])?)),
            _ => None,
        };
        found.or(unsigned)
    }

    /// The bound of `c - i` for a counter `i` of a loop of `n` trips, where `c` is a constant of at least
    /// `n - 1`.
    fn mirror(&self, types: &Types, func: &Function, defs: &Defs, c: Value, i: Value) -> Option<u64> {
        let (_, c) = defs.scalar(types, func, c)?;
        let (_, n) = defs.scalar(types, func, self.counter[i]?)?;
        (c >= n.saturating_sub(1) && c < u32::MAX as u64 / 2).then_some(c)
    }
}

fn max_of(s: Scalar) -> u64 {
    let bits = s.bits() - u32::from(s.is_signed_int());
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}
