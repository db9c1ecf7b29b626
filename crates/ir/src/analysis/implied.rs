//! Derives what follows from the truth of a condition.
//!
//! Above all from the condition on which a loop repeats: if one arm of an `if` would have made it false, the
//! other arm was taken. Where a loop's `again` is true, a value that such an `if` yields is the one that the
//! arm taken yields, and a carried value may be seen to grow by the same step in every trip.

use rustc_hash::FxHashMap;

use super::Defs;
use crate::entities::Value;
use crate::function::Function;
use crate::ops::Op;
use crate::types::Type;

/// The maximum length of a chain of conditions that is followed.
const CHAIN: usize = 64;

/// The conditions that are known to hold, or not to hold.
#[derive(Default)]
pub struct Implied(FxHashMap<Value, bool>);

impl Implied {
    /// All that follows from `v`.
    pub fn by(func: &Function, defs: &Defs, v: Value) -> Implied {
        let mut known = FxHashMap::default();
        let mut open = vec![(v, true)];
        while let Some((v, truth)) = open.pop() {
            if known.insert(v, truth).is_some() {
                continue;
            }
            if let Some((c, yes, no)) = choice(func, defs, v) {
                if boolean(func, defs, yes) == Some(!truth) {
                    open.extend([(c, false), (no, truth)]);
                } else if boolean(func, defs, no) == Some(!truth) {
                    open.extend([(c, true), (yes, truth)]);
                }
                continue;
            }
            let Some(data) = defs.inst(v).map(|inst| &func.insts[inst]) else { continue };
            match data.op {
                Op::Not => open.push((data.args[0], !truth)),
                Op::Detach => open.push((data.args[0], truth)),
                Op::And if truth => open.extend(data.args.iter().map(|&a| (a, true))),
                Op::Or if !truth => open.extend(data.args.iter().map(|&a| (a, false))),
                _ => {}
            }
        }
        Implied(known)
    }

    /// The conditions in a fixed order, each with its truth.
    pub fn facts(&self) -> Vec<(Value, bool)> {
        let mut facts: Vec<(Value, bool)> = self.0.iter().map(|(&v, &truth)| (v, truth)).collect();
        facts.sort_unstable();
        facts
    }

    /// The value that `v` equals under these conditions, as far as they decide.
    pub fn resolve(&self, func: &Function, defs: &Defs, mut v: Value) -> Value {
        for _ in 0..CHAIN {
            v = match choice(func, defs, v) {
                Some((c, yes, no)) => match self.0.get(&c) {
                    Some(true) => yes,
                    Some(false) => no,
                    None => break,
                },
                None => match defs.inst(v).map(|inst| &func.insts[inst]) {
                    Some(data) if data.op == Op::Detach => data.args[0],
                    _ => break,
                },
            };
        }
        v
    }
}

/// Matches `next = param + step` or `next = param - step`.
pub fn step(func: &Function, defs: &Defs, next: Value, param: Value) -> Option<(Op, Value)> {
    let data = &func.insts[defs.inst(next)?];
    match (&data.op, &data.args[..]) {
        (Op::Add, &[a, b]) if a == param => Some((Op::Add, b)),
        (Op::Add, &[a, b]) if b == param => Some((Op::Add, a)),
        (Op::Sub, &[a, b]) if a == param => Some((Op::Sub, b)),
        _ => None,
    }
}

fn boolean(func: &Function, defs: &Defs, v: Value) -> Option<bool> {
    match defs.op(func, v)? {
        Op::Const(bits) if func.ty(v) == Type::BOOL => Some(*bits != 0),
        Op::Zero if func.ty(v) == Type::BOOL => Some(false),
        _ => None,
    }
}

/// The condition of an `if` or `select`, and its value for either outcome.
fn choice(func: &Function, defs: &Defs, v: Value) -> Option<(Value, Value, Value)> {
    let data = &func.insts[defs.inst(v)?];
    match data.op {
        Op::If => {
            let at = data.results.iter().position(|&r| r == v)?;
            let arm = |k: usize| func.regions[data.regions[k]].results[at];
            Some((data.args[0], arm(0), arm(1)))
        }
        Op::Select if func.ty(data.args[0]) == Type::BOOL => Some((data.args[0], data.args[1], data.args[2])),
        _ => None,
    }
}
