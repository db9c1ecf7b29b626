//! Finds the values that a loop carries and that are equal in every trip.
//!
//! Two carried values are equal if they start equal, and each trip makes equal values of equal ones. So the values
//! that start equal are assumed to be equal; a numbering of the body then shows which of them differ after a trip,
//! and the assumption is refined until it holds: of all partitions that do, that is the coarsest (B. Alpern,
//! M. N. Wegman, F. K. Zadeck, "Detecting equality of variables in programs", 1988).
//!
//! Nested derivatives in one direction have many of these: of the 2ⁿ tangents that `n` nested `fwd_diff` carry,
//! all of the same order are the same.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::entities::{Inst, Region, Value};
use crate::function::Function;
use crate::ops::Op;
use crate::types::Type;

/// The most refinements; then nothing is merged.
const MOST: usize = 32;

/// The facts about values and instructions that a numbering uses.
pub(super) trait Facts {
    fn func(&self) -> &Function;

    /// The value that has taken the place of another.
    fn current(&self, v: Value) -> Value;

    /// The instruction that makes a value, if it is a constant.
    fn constant(&self, v: Value) -> Option<Inst>;

    /// Returns true if an instruction without regions gives equal results for equal operands.
    fn is_function(&self, inst: Inst) -> bool;
}

/// The carried values of a loop that are equal to earlier ones: pairs of indices among them, the later first.
pub(super) fn equal(facts: &dyn Facts, inst: Inst) -> Vec<(usize, usize)> {
    let f = facts.func();
    let data = &f.insts[inst];
    let (args_at, params_at, results_at) = data.op.carried_at();
    let (body, n) = (data.regions[0], data.n_carried());
    let inputs = &data.args[args_at..args_at + n];
    let params = &f.regions[body].params[params_at..params_at + n];
    let outputs = &f.regions[body].results[results_at..results_at + n];
    let mut start = Numbers::default();
    let first: Vec<_> =
        inputs.iter().zip(params).map(|(&v, &p)| (start.of(facts, v), f.ty(p), f.is_linear(p))).collect();
    let mut classes = partition(&first);
    for _ in 0..MOST {
        let n_classes = classes.iter().max().map_or(0, |&last| last + 1);
        if n_classes as usize == n {
            return Vec::new();
        }
        let mut numbers = Numbers { next: n_classes, ..Numbers::default() };
        numbers.known.extend(params.iter().copied().zip(classes.iter().copied()));
        numbers.region(facts, body);
        let after: Vec<_> =
            outputs.iter().zip(&classes).map(|(&v, &class)| (class, numbers.of(facts, v))).collect();
        let refined = partition(&after);
        if refined == classes {
            let earliest = |k: usize| classes.iter().position(|&class| class == classes[k]);
            return (0..n).filter_map(|k| Some((k, earliest(k).filter(|&e| e < k)?))).collect();
        }
        classes = refined;
    }
    Vec::new()
}

/// Numbers keys in the order in which they come.
fn partition<K: std::hash::Hash + Eq>(keys: &[K]) -> Vec<u32> {
    let mut known: FxHashMap<&K, u32> = FxHashMap::default();
    keys.iter()
        .map(|key| {
            let next = known.len() as u32;
            *known.entry(key).or_insert(next)
        })
        .collect()
}

/// An operation on numbers, and which of its results is meant.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    op: Op,
    args: SmallVec<[u32; 4]>,
    result: usize,
    ty: Type,
    linear: bool,
}

/// Numbers of values: equal ones have equal values.
#[derive(Default)]
struct Numbers {
    known: FxHashMap<Value, u32>,
    made: FxHashMap<Key, u32>,
    next: u32,
}

impl Numbers {
    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn of(&mut self, facts: &dyn Facts, v: Value) -> u32 {
        let v = facts.current(v);
        if let Some(&number) = self.known.get(&v) {
            return number;
        }
        let number = match facts.constant(v) {
            Some(inst) => self.made(facts, inst, v, 0, SmallVec::new()),
            None => self.fresh(),
        };
        self.known.insert(v, number);
        number
    }

    /// The number of a result of an operation on numbers.
    fn made(
        &mut self,
        facts: &dyn Facts,
        inst: Inst,
        v: Value,
        result: usize,
        args: SmallVec<[u32; 4]>,
    ) -> u32 {
        let f = facts.func();
        let key = Key { op: f.insts[inst].op.clone(), args, result, ty: f.ty(v), linear: f.is_linear(v) };
        if let Some(&number) = self.made.get(&key) {
            return number;
        }
        let number = self.fresh();
        self.made.insert(key, number);
        number
    }

    /// Numbers what a region makes. What a loop in it makes is equal to nothing else.
    fn region(&mut self, facts: &dyn Facts, region: Region) {
        let f = facts.func();
        for &inst in &f.regions[region].insts {
            let data = &f.insts[inst];
            if data.op.is_loop() || data.regions.is_empty() && !facts.is_function(inst) {
                continue;
            }
            let mut args: SmallVec<[u32; 4]> = data.args.iter().map(|&v| self.of(facts, v)).collect();
            if data.op.commutes() {
                args.sort_unstable();
            }
            data.regions.iter().for_each(|&arm| self.region(facts, arm));
            for (k, &v) in data.results.iter().enumerate() {
                let mut args = args.clone();
                for &arm in &data.regions {
                    args.push(self.of(facts, f.regions[arm].results[k]));
                }
                // A result of a branch is told by what its arms yield.
                let result = if data.regions.is_empty() { k } else { 0 };
                let number = self.made(facts, inst, v, result, args);
                self.known.insert(v, number);
            }
        }
    }
}
