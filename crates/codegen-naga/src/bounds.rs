//! Bounds the values of integers and the trip counts of loops, which determine the sizes of local arrays on a
//! device.
//!
//! [`Bounds::upper`] is sound: `0 ≤ v ≤ bound` always holds. [`Bounds::trips`] is sound as well: it follows
//! from the user's `[MaxIters]`, or from a counter that goes up or down by a constant and is compared with a
//! bound whenever the loop continues. The conditions that hold when the loop continues are derived from the
//! value `again`: if one arm of an `if` would have made `again` false, the other arm was taken.

use std::cell::RefCell;

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use ir::{Builtin, Function, Inst, Math, Op, TypeData, Types, Value};
use rustc_hash::FxHashMap;

/// The definitions of a function's values, with caches of the bounds found so far.
pub(crate) struct Bounds<'m> {
    f: &'m Function,
    types: &'m Types,
    defs: SecondaryMap<Value, PackedOption<Inst>>,
    /// For each parameter of a loop's body, the loop and the parameter's position.
    params: FxHashMap<Value, (Inst, usize)>,
    /// The size of the largest thread group.
    group: [u32; 3],
    /// Results of earlier queries.
    uppers: RefCell<FxHashMap<Value, Option<u64>>>,
    trips: RefCell<FxHashMap<Inst, Option<u64>>>,
}

/// The maximum depth to which definitions are followed where each has two operands, so that each level
/// doubles the work.
const DEPTH: u32 = 8;

/// The maximum length of a chain that is followed where each value leads to a single other value.
const CHAIN: u32 = 64;

impl<'m> Bounds<'m> {
    /// Indexes the definitions of a function.
    pub(crate) fn new(types: &'m Types, f: &'m Function, group: [u32; 3]) -> Bounds<'m> {
        let mut bounds = Bounds {
            f,
            types,
            defs: SecondaryMap::new(),
            params: FxHashMap::default(),
            group,
            uppers: RefCell::default(),
            trips: RefCell::default(),
        };
        for (inst, data) in f.insts.iter() {
            for &result in &data.results {
                bounds.defs[result] = inst.into();
            }
            if let Op::For(_) | Op::Loop(_) = data.op {
                for (k, &param) in f.regions[data.regions[0]].params.iter().enumerate() {
                    bounds.params.insert(param, (inst, k));
                }
            }
        }
        bounds
    }

    /// The instruction that defines a value.
    pub(crate) fn def(&self, v: Value) -> Option<Inst> {
        self.defs[v].expand()
    }

    /// The source name of a value; for a result of a loop or branch without one, the name of a value that it
    /// comes from.
    pub(crate) fn name(&self, v: Value) -> Option<String> {
        self.name_at(v, 4)
    }

    fn name_at(&self, v: Value, depth: u32) -> Option<String> {
        // Equal constants share one value, which carries the name of the first.
        let is_constant =
            self.def(v).is_some_and(|d| matches!(self.f.insts[d].op, Op::Const(_) | Op::Zero | Op::Splat));
        if is_constant || depth == 0 {
            return None;
        }
        if let Some(name) = &self.f.values[v].name {
            return Some(name.to_string());
        }
        if let Some(&(inst, k)) = self.params.get(&v) {
            let data = &self.f.insts[inst];
            let results = &self.f.regions[data.regions[0]].results;
            let (arg, next) = match data.op {
                Op::For(_) if k == 0 => return None,
                Op::For(_) => (data.args[k], results[k - 1]),
                _ => (data.args[k], results[k + 1]),
            };
            return self.name_at(next, depth - 1).or_else(|| self.name_at(arg, depth - 1));
        }
        let data = &self.f.insts[self.def(v)?];
        let at = data.results.iter().position(|&r| r == v)?;
        match data.op {
            Op::If | Op::Switch(_) => {
                let arms = data.regions.iter().map(|&r| self.f.regions[r].results[at]);
                arms.filter_map(|a| self.name_at(a, depth - 1)).next()
            }
            Op::For(_) | Op::Loop(_) => {
                let region = &self.f.regions[data.regions[0]];
                let (first, skip) = if let Op::For(_) = data.op { (1, 0) } else { (0, 1) };
                match region.params.get(at + first) {
                    Some(&param) if at < data.args.len() - first => self.name_at(param, depth - 1),
                    _ => self.name_at(region.results[at + skip], depth - 1).map(|n| format!("kept_{n}")),
                }
            }
            _ => None,
        }
    }

    /// The value of an integer constant.
    pub(crate) fn constant(&self, v: Value) -> Option<i64> {
        let data = &self.f.insts[self.def(v)?];
        let TypeData::Scalar(s) = self.types[self.f.ty(v)] else { return None };
        match data.op {
            Op::Zero => Some(0),
            Op::Const(bits) if s.is_signed_int() => {
                let shift = 64 - s.bits();
                Some(((bits << shift) as i64) >> shift)
            }
            Op::Const(bits) if !s.is_float() => i64::try_from(bits).ok(),
            _ => None,
        }
    }

    /// An upper bound of an integer; if there is one, the integer is not negative.
    pub(crate) fn upper(&self, v: Value) -> Option<u64> {
        if let Some(&known) = self.uppers.borrow().get(&v) {
            return known;
        }
        let found = self.upper_at(v, DEPTH);
        self.uppers.borrow_mut().insert(v, found);
        found
    }

    fn upper_at(&self, v: Value, depth: u32) -> Option<u64> {
        let s = self.types.scalar_of(self.f.ty(v))?;
        if !s.is_int() || depth == 0 {
            return None;
        }
        // Small enough that neither signs nor wrapping matter.
        let small = |x: u64| (x < 1u64 << (s.bits() - 1)).then_some(x);
        if let Some(&(inst, k)) = self.params.get(&v) {
            let data = &self.f.insts[inst];
            return match data.op {
                Op::For(_) if k == 0 => small(self.upper_at(data.args[0], depth - 1)?.checked_sub(1)?),
                _ => None,
            };
        }
        if let Some(c) = self.constant(v) {
            return u64::try_from(c).ok();
        }
        let data = &self.f.insts[self.def(v)?];
        let arg = |k: usize| self.upper_at(data.args[k], depth - 1);
        match data.op {
            Op::Add => small(arg(0)?.checked_add(arg(1)?)?),
            Op::Mul => small(arg(0)?.checked_mul(arg(1)?)?),
            Op::Sub => {
                let c = u64::try_from(self.constant(data.args[0])?).ok()?;
                (arg(1)? <= c).then_some(c)
            }
            Op::And => match (arg(0), arg(1)) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            Op::Shr => {
                let by = u32::try_from(self.constant(data.args[1])?).ok()?;
                arg(0)?.checked_shr(by)
            }
            Op::Rem if !s.is_signed_int() || arg(0).is_some() => {
                u64::try_from(self.constant(data.args[1])?).ok()?.checked_sub(1)
            }
            Op::Convert | Op::Bitcast if self.types.scalar_of(self.f.ty(data.args[0]))?.is_int() => {
                small(arg(0)?)
            }
            Op::Select => Some(self.upper_at(data.args[1], depth - 1)?.max(arg(2)?)),
            Op::Math(Math::Min) => Some(arg(0)?.min(arg(1)?)),
            Op::Math(Math::Max) => Some(arg(0)?.max(arg(1)?)),
            Op::If => {
                let at = data.results.iter().position(|&r| r == v)?;
                let arm = |k: usize| self.upper_at(self.f.regions[data.regions[k]].results[at], depth - 1);
                Some(arm(0)?.max(arm(1)?))
            }
            Op::Builtin(Builtin::GroupIndex) => {
                small(self.group.iter().map(|&n| n as u64).product::<u64>().checked_sub(1)?)
            }
            Op::Extract(k) => {
                let from = &self.f.insts[self.def(data.args[0])?];
                match from.op {
                    Op::Builtin(Builtin::GroupThreadId) => (self.group[k as usize] as u64).checked_sub(1),
                    _ => None,
                }
            }
            // A counter of iterations.
            Op::Loop(_) | Op::For(_) => {
                let at = data.results.iter().position(|&r| r == v)?;
                let first = usize::from(matches!(data.op, Op::For(_)));
                let init = u64::try_from(self.constant(*data.args.get(at + first)?)?).ok()?;
                let region = &self.f.regions[data.regions[0]];
                let skip = usize::from(matches!(data.op, Op::Loop(_)));
                let next = &self.f.insts[self.def(region.results[at + skip])?];
                let by = match next.op {
                    Op::Add if next.args[0] == region.params[at + first] => self.constant(next.args[1])?,
                    Op::Add if next.args[1] == region.params[at + first] => self.constant(next.args[0])?,
                    _ => return None,
                };
                let trips = self.trips_at(self.def(v)?, depth - 1)?;
                small(u64::try_from(by).ok()?.checked_mul(trips)?.checked_add(init)?)
            }
            _ => None,
        }
    }

    /// An estimate of the largest value of an index, used to size memory whose limit is checked at run time.
    pub(crate) fn index_estimate(&self, mut v: Value) -> Option<u64> {
        for _ in 0..CHAIN {
            if let Some(most) = self.upper(v) {
                return Some(most);
            }
            let data = &self.f.insts[self.def(v)?];
            match data.op {
                Op::Sub | Op::Convert | Op::Detach => v = data.args[0],
                _ => return None,
            }
        }
        None
    }

    /// The maximum number of times that the body of a loop runs.
    pub(crate) fn trips(&self, inst: Inst) -> Option<u64> {
        self.trips_at(inst, DEPTH)
    }

    fn trips_at(&self, inst: Inst, depth: u32) -> Option<u64> {
        if let Some(&known) = self.trips.borrow().get(&inst) {
            return known;
        }
        // A loop whose own bound is needed to find its bound has none.
        self.trips.borrow_mut().insert(inst, None);
        let found = self.trips_of(inst, depth);
        if found.is_some() || depth == DEPTH {
            self.trips.borrow_mut().insert(inst, found);
        } else {
            self.trips.borrow_mut().remove(&inst);
        }
        found
    }

    fn trips_of(&self, inst: Inst, depth: u32) -> Option<u64> {
        let data = &self.f.insts[inst];
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        match &data.op {
            Op::For(info) => least(self.upper_at(data.args[0], depth), info.max_iters.map(u64::from)),
            // The iteration in which `again` is false is one more.
            Op::Loop(info) => {
                least(self.counted(inst, depth), info.max_iters.map(u64::from)).map(|n| n.saturating_add(1))
            }
            _ => None,
        }
    }

    /// The maximum number of times that `again` of a `loop` is true.
    fn counted(&self, inst: Inst, depth: u32) -> Option<u64> {
        if depth == 0 {
            return None;
        }
        let data = &self.f.insts[inst];
        let region = &self.f.regions[data.regions[0]];
        let mut known = FxHashMap::default();
        self.assume(region.results[0], true, &mut known);
        if known.get(&region.results[0]) == Some(&true) && self.constant(region.results[0]) == Some(0) {
            return Some(0);
        }
        // Sorted by value, so that the result does not depend on hashing.
        let mut facts: Vec<(Value, bool)> = known.iter().map(|(&v, &b)| (v, b)).collect();
        facts.sort();
        let mut best: Option<u64> = None;
        for (k, &param) in region.params.iter().enumerate() {
            let Some(step) = self.step(region.results[k + 1], param, &known, DEPTH) else { continue };
            let Some(init) = self.constant(data.args[k]) else { continue };
            for &(fact, truth) in &facts {
                let Some(def) = self.def(fact) else { continue };
                let test = &self.f.insts[def];
                let [a, b] = test.args[..] else { continue };
                // A comparison `x < y` or `x <= y`, one side of which is the counter, before or after its
                // step.
                let (x, y, or_equal) = match (&test.op, truth) {
                    (Op::Lt, true) => (a, b, false),
                    (Op::Le, true) => (a, b, true),
                    (Op::Gt, true) => (b, a, false),
                    (Op::Ge, true) => (b, a, true),
                    (Op::Lt, false) => (b, a, true),
                    (Op::Le, false) => (b, a, false),
                    (Op::Gt, false) => (a, b, true),
                    (Op::Ge, false) => (a, b, false),
                    // A counter with a step of one reaches the value that it is compared with.
                    (Op::Ne, true) | (Op::Eq, false) if step.abs() == 1 => {
                        let limit = if a == param { b } else { a };
                        match self.constant(limit) {
                            Some(n) if (n - init).signum() == step => (a.min(b), limit, false),
                            _ => continue,
                        }
                    }
                    _ => continue,
                };
                if matches!(test.op, Op::Ne | Op::Eq) {
                    if a != param && b != param {
                        continue;
                    }
                    let Some(n) = self.constant(y) else { continue };
                    best = Some(best.map_or(n.abs_diff(init), |m| m.min(n.abs_diff(init))));
                    continue;
                }
                let is_counter = |v: Value| {
                    v == param || self.resolve(v, &known) == self.resolve(region.results[k + 1], &known)
                };
                let more = i64::from(or_equal);
                let trips = if step > 0 && is_counter(x) {
                    let Some(limit) = self.upper_at(y, depth - 1).and_then(|n| i64::try_from(n).ok()) else {
                        continue;
                    };
                    (limit.saturating_add(more).saturating_sub(init))
                        .max(0)
                        .unsigned_abs()
                        .div_ceil(step as u64)
                } else if step < 0 && is_counter(y) {
                    let Some(limit) = self.constant(x) else { continue };
                    let down = step.unsigned_abs();
                    (init.saturating_sub(limit).saturating_add(more)).max(0).unsigned_abs().div_ceil(down)
                } else {
                    continue;
                };
                best = Some(best.map_or(trips, |m| m.min(trips)));
            }
        }
        best
    }

    /// The amount by which a carried value changes in an iteration where the known facts hold.
    fn step(&self, next: Value, param: Value, known: &FxHashMap<Value, bool>, depth: u32) -> Option<i64> {
        let next = self.resolve(next, known);
        let s = self.types.scalar_of(self.f.ty(next))?;
        if !s.is_int() || depth == 0 {
            return None;
        }
        let data = &self.f.insts[self.def(next)?];
        let by = match data.op {
            Op::Add if data.args[0] == param => self.constant(data.args[1])?,
            Op::Add if data.args[1] == param => self.constant(data.args[0])?,
            Op::Sub if data.args[0] == param => self.constant(data.args[1])?.checked_neg()?,
            _ => return None,
        };
        // Adding `2^32 - 1` to an unsigned number is a decrement.
        let by = if !s.is_signed_int() && s.bits() < 64 && by >= 1i64 << (s.bits() - 1) {
            by - (1i64 << s.bits())
        } else {
            by
        };
        (by != 0).then_some(by)
    }

    /// The value that an `if` or `select` yields where its condition is known.
    fn resolve(&self, mut v: Value, known: &FxHashMap<Value, bool>) -> Value {
        for _ in 0..CHAIN {
            let Some(def) = self.def(v) else { return v };
            let data = &self.f.insts[def];
            v = match data.op {
                Op::If => match (known.get(&data.args[0]), data.results.iter().position(|&r| r == v)) {
                    (Some(&truth), Some(at)) => self.f.regions[data.regions[usize::from(!truth)]].results[at],
                    _ => return v,
                },
                Op::Select => match known.get(&data.args[0]) {
                    Some(&truth) => data.args[if truth { 1 } else { 2 }],
                    None => return v,
                },
                Op::Detach => data.args[0],
                _ => return v,
            };
        }
        v
    }

    /// Derives the facts that follow from the truth of a value.
    fn assume(&self, v: Value, truth: bool, known: &mut FxHashMap<Value, bool>) {
        let mut open = vec![(v, truth)];
        while let Some((v, truth)) = open.pop() {
            if known.insert(v, truth).is_some() {
                continue;
            }
            let Some(def) = self.def(v) else { continue };
            let data = &self.f.insts[def];
            let is = |v: Value, truth: bool| {
                self.f.ty(v) == ir::Type::BOOL && self.constant(v) == Some(i64::from(truth))
            };
            match data.op {
                Op::Not => open.push((data.args[0], !truth)),
                Op::Detach => open.push((data.args[0], truth)),
                Op::And if truth => open.extend([(data.args[0], true), (data.args[1], true)]),
                Op::Or if !truth => open.extend([(data.args[0], false), (data.args[1], false)]),
                Op::If => {
                    let Some(at) = data.results.iter().position(|&r| r == v) else { continue };
                    let arm = |k: usize| self.f.regions[data.regions[k]].results[at];
                    if is(arm(0), !truth) {
                        open.extend([(data.args[0], false), (arm(1), truth)]);
                    } else if is(arm(1), !truth) {
                        open.extend([(data.args[0], true), (arm(0), truth)]);
                    }
                }
                Op::Select if is(data.args[1], !truth) => {
                    open.extend([(data.args[0], false), (data.args[2], truth)]);
                }
                Op::Select if is(data.args[2], !truth) => {
                    open.extend([(data.args[0], true), (data.args[1], truth)]);
                }
                _ => {}
            }
        }
    }
}
