//! Dataflow over regions: the least facts about values that agree with all instructions.
//!
//! Control flow is structured, so there are no blocks to iterate over. Values flow through control in a fixed
//! number of ways ([`for_each_copy`]), which are the same for every analysis: out of the arms of an `if` or
//! `switch`, and into, around and out of a loop. An analysis therefore only says how a fact passes an
//! instruction, and [`Flow`] does the rest. Facts only rise in a lattice of finite height, so the iteration
//! ends; what it ends with is the least fixpoint, whatever the order.

use cranelift_entity::{EntitySet, SecondaryMap};

use super::Defs;
use crate::entities::{Func, Inst, Region, Value};
use crate::function::Function;
use crate::ops::Op;

/// Facts that are joined where values meet. The default is the least fact.
pub trait Lattice: Clone + Default {
    /// Joins another fact into this one; returns true if this changed it.
    fn join(&mut self, other: &Self) -> bool;
}

impl Lattice for bool {
    fn join(&mut self, other: &bool) -> bool {
        let rises = *other && !*self;
        *self |= *other;
        rises
    }
}

/// A set of up to eight properties.
impl Lattice for u8 {
    fn join(&mut self, other: &u8) -> bool {
        let rises = *other & !*self != 0;
        *self |= *other;
        rises
    }
}

/// The direction of facts: from operands to results, or from results to operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From operands to results.
    Forward,
    /// From results to operands.
    Backward,
}

/// Calls `visit(from, to)` for each way in which a control instruction passes a value on: from the results of
/// arms to those of the instruction; from the initial and the yielded values of a loop to its carried
/// parameters and results; and from stacked values to stacks.
pub fn for_each_copy(func: &Function, inst: Inst, visit: &mut dyn FnMut(Value, Value)) {
    for_each_copy_in(func, inst, false, visit);
}

/// Like [`for_each_copy`]. A loop that `runs` at least one trip has its results from the last one, never its initial
/// values.
fn for_each_copy_in(func: &Function, inst: Inst, runs: bool, visit: &mut dyn FnMut(Value, Value)) {
    let data = &func.insts[inst];
    let (args, params, yields) = data.op.carried_at();
    let n_carried = data.n_carried();
    for &region in &data.regions {
        let region = &func.regions[region];
        for (k, &result) in data.results.iter().enumerate() {
            let yielded = region.results[yields + k];
            if k < n_carried {
                let param = region.params[params + k];
                for from in [data.args[args + k], yielded] {
                    visit(from, param);
                }
                if !runs {
                    visit(data.args[args + k], result);
                }
                visit(yielded, result);
            } else {
                visit(yielded, result);
            }
        }
    }
}

/// The facts about a function's values; for a cell, about its content.
pub struct Flow<'f, L: Lattice> {
    func: &'f Function,
    /// Returns true for the values that have facts.
    has_facts: &'f dyn Fn(Value) -> bool,
    facts: SecondaryMap<Value, L>,
    /// Loops that are known to run at least one trip.
    running: EntitySet<Inst>,
    changed: bool,
}

impl<'f, L: Lattice> Flow<'f, L> {
    /// The least facts, about the values for which `has_facts` is true.
    pub fn new(func: &'f Function, has_facts: &'f dyn Fn(Value) -> bool) -> Flow<'f, L> {
        Flow {
            func,
            has_facts,
            facts: super::dense(func.values.len()),
            running: EntitySet::new(),
            changed: false,
        }
    }

    /// Distinguishes the results of loops that run at least one trip from what is carried in them: those of every
    /// `loop`, and of each `for` with a constant number of trips. Otherwise both have the same facts.
    pub fn count_trips(&mut self, defs: &Defs) {
        let func = self.func;
        func.walk(func.body(), &mut |inst| {
            let data = &func.insts[inst];
            let runs = match data.op {
                Op::Loop(_) => true,
                Op::For(_) => matches!(defs.op(func, data.args[0]), Some(Op::Const(n)) if *n != 0),
                _ => false,
            };
            if runs {
                self.running.insert(inst);
            }
        });
    }

    /// The fact about a value.
    pub fn get(&self, v: Value) -> &L {
        &self.facts[v]
    }

    /// Joins a fact into that about a value.
    pub fn join(&mut self, v: Value, fact: &L) {
        if (self.has_facts)(v) {
            self.changed |= self.facts[v].join(fact);
        }
    }

    /// Joins the fact about one value into that about another.
    pub fn copy(&mut self, from: Value, to: Value) {
        let fact = self.facts[from].clone();
        self.join(to, &fact);
    }

    /// Joins the facts about all values in `from` into that about `to`.
    pub fn copy_all(&mut self, from: &[Value], to: Value) {
        from.iter().for_each(|&from| self.copy(from, to));
    }

    /// Applies `transfer` to every instruction, and the copies of control instructions, until nothing changes
    /// any more. Returns the number of turns that were needed, the last of which changed nothing.
    pub fn settle(&mut self, direction: Direction, transfer: &mut dyn FnMut(&mut Self, Inst)) -> usize {
        let mut order = Vec::with_capacity(self.func.insts.len());
        list(self.func, self.func.body(), &mut order);
        if direction == Direction::Backward {
            order.reverse();
        }
        for turn in 1.. {
            self.changed = false;
            for &inst in &order {
                transfer(self, inst);
                let func = self.func;
                if !func.insts[inst].regions.is_empty() {
                    let runs = self.running.contains(inst);
                    for_each_copy_in(func, inst, runs, &mut |from, to| match direction {
                        Direction::Forward => self.copy(from, to),
                        Direction::Backward => self.copy(to, from),
                    });
                }
            }
            if !self.changed {
                return turn;
            }
        }
        0
    }

    /// All facts.
    pub fn into_facts(self) -> SecondaryMap<Value, L> {
        self.facts
    }
}

/// Joins the facts about callees into those about their callers, until nothing changes any more. `order` has
/// callees before callers where there is no recursion, so that one turn is enough there.
pub fn join_callees<L: Lattice>(
    order: &[Func],
    callees: &SecondaryMap<Func, Vec<Func>>,
    facts: &mut SecondaryMap<Func, L>,
) {
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for &func in order {
            for &callee in &callees[func] {
                let fact = facts[callee].clone();
                changed |= facts[func].join(&fact);
            }
        }
    }
}

/// Lists the instructions in the order in which facts pass: an instruction that holds a region comes after
/// the region, and a loop also before it. One turn thus carries a fact through any number of nested arms.
fn list(func: &Function, region: Region, order: &mut Vec<Inst>) {
    for &inst in &func.regions[region].insts {
        let data = &func.insts[inst];
        if data.op.is_loop() {
            order.push(inst);
        }
        data.regions.iter().for_each(|&nested| list(func, nested, order));
        order.push(inst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values after an `if` depend on the values that its arms yield, many times over and also within the
    /// arms.
    #[test]
    fn branches_in_sequence_take_one_turn() {
        let mut text = String::from("func f(v0: bool, v1: f32) -> (f32) {\n");
        for k in 0..50 {
            let (d, r) = (2 * k + 1, 2 * k + 3);
            text += &format!(
                "    v{r} = if v0 {{\n        v{0} = mul v{d}, v{d}\n        yield v{0}\n    }} else {{\n        \
                 yield v{d}\n    }}\n",
                d + 1,
            );
        }
        text += "    yield v101\n}\n";
        let module = crate::parse::parse_module(&text).expect("it is well-formed");
        let func = module.funcs.values().next().expect("there is one");
        let body = &func.regions[func.body()];
        let mut forward: Flow<bool> = Flow::new(func, &|_| true);
        forward.join(body.params[1], &true);
        let turns = forward.settle(Direction::Forward, &mut |flow, inst| {
            let data = &func.insts[inst];
            data.results.iter().for_each(|&r| flow.copy_all(&data.args, r));
        });
        assert_eq!(turns, 2, "one turn finds all, and one that there is no more");
        assert!(*forward.get(body.results[0]));
        let mut backward: Flow<bool> = Flow::new(func, &|_| true);
        backward.join(body.results[0], &true);
        let turns = backward.settle(Direction::Backward, &mut |flow, inst| {
            let data = &func.insts[inst];
            data.results.iter().for_each(|&r| data.args.iter().for_each(|&arg| flow.copy(r, arg)));
        });
        assert_eq!(turns, 2);
        assert!(*backward.get(body.params[1]));
    }
}
