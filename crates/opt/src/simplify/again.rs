//! Keeps the condition on which a loop repeats as an `if` of constants.
//!
//! A backend turns an `if` that ends a loop's body into jumps from its arms if a result of that `if` decides
//! whether the loop repeats. A loop that is left by `break` repeats while it was *not* left: the `not` moves
//! into the arms, where it applies to constants. Each arm computes the value that was computed after it, so
//! the result is the same. If a loop repeats on the very condition of that `if`, or on its opposite, the `if`
//! gets a further result that is constant in each arm.

use ir::{Inst, Op, Region, Scalar, Value};

use super::Simplify;
use crate::util::make_number;

impl Simplify<'_> {
    /// Moves each `not` that applies to an `if`'s result, and that gives a region's result number `slot`,
    /// into the arms, also in nested regions. If the result is the condition of the last `if`, it becomes a
    /// result of that `if`. Returns the value that is then the result.
    pub(super) fn negate_arms(&mut self, region: Region, slot: usize) -> Option<Value> {
        let again = self.subst.get(*self.func.regions[region].results.get(slot)?);
        let (flag, negated) = match self.under(again, &Op::Not) {
            Some(x) => (x, true),
            None => (again, false),
        };
        let is_late = |&&inst: &&Inst| matches!(self.func.insts[inst].op, Op::Not | Op::Const(_));
        let tail = self.func.regions[region].insts.iter().rev().find(|inst| !is_late(inst)).copied();
        let Some(tail) = tail.filter(|&tail| self.func.insts[tail].op == Op::If) else { return Some(again) };
        let arms = self.func.insts[tail].regions.clone();
        let of = self.func.insts[tail].results.iter().position(|&r| r == flag);
        match of {
            Some(of) if !negated => {
                for arm in arms {
                    self.negate_arms(arm, of);
                }
                return Some(again);
            }
            Some(of) => {
                for &arm in &arms {
                    let v = self.subst.get(self.func.regions[arm].results[of]);
                    let opposite = self.opposite(v, arm);
                    self.func.regions[arm].results.push(opposite);
                }
            }
            None if self.subst.get(self.func.insts[tail].args[0]) == flag => {
                for (&arm, yes) in arms.iter().zip([true, false]) {
                    let known = self.at_end(arm, Op::Const(u64::from(yes != negated)), &[]);
                    self.func.regions[arm].results.push(known);
                }
            }
            None => return Some(again),
        }
        let again = self.func.values.push(ir::ValueData::new(Scalar::Bool.into()));
        self.func.insts[tail].results.push(again);
        self.defs.add(self.func, tail);
        self.func.regions[region].results[slot] = again;
        self.changed = true;
        let last = self.func.insts[tail].results.len() - 1;
        for arm in arms {
            self.negate_arms(arm, last);
        }
        Some(again)
    }

    /// Emits the opposite of a truth value at the end of a region.
    fn opposite(&mut self, v: Value, region: Region) -> Value {
        if let Some(x) = self.under(v, &Op::Not) {
            return x;
        }
        match self.boolean(v) {
            Some(yes) => self.at_end(region, Op::Const(u64::from(!yes)), &[]),
            None => self.at_end(region, Op::Not, &[v]),
        }
    }

    fn at_end(&mut self, region: Region, op: Op, args: &[Value]) -> Value {
        let (inst, v) = make_number(self.func, op, args, Scalar::Bool.into(), self.span);
        self.defs.add(self.func, inst);
        self.func.regions[region].insts.push(inst);
        v
    }
}
