//! Cuts long chains of `if`s into sequences of short ones.
//!
//! Each `break`, `continue` or early `return` puts the code after it into an arm of an `if`:
//!
//! ```text
//! if c1 { … } else { A; if c2 { … } else { B; if c3 … } }
//! ```
//!
//! The residuals of an arm are passed out by every `if` around it, so `n` exits take time and memory in `n²`.
//! This pass moves an arm at depth [`SHORT`] behind the first of these `if`s, as an `if` of its own:
//!
//! ```text
//! r, reached, a = if c1 { …, false, zero } else { A; if c2 { …, false, zero } else { zero, true, a } }
//! if reached { B; if c3 … } else { r }
//! ```
//!
//! That is right because each `if` of the chain is the last instruction of the arm that contains it, up to
//! the first `if`: nothing runs between the arm's old place and its new one, and only its results leave it. A
//! value of the enclosing arms that the moved arm uses (`a`) becomes a result of the `if`s. Where control did
//! not reach the arm, that result is never read: it is zero, a constant, which has no differential.
//! Instructions without operands, and cells, move before the chain; the initial value of a cell is then
//! stored in its old place.
//!
//! Each value is passed out of one short chain, once, and is then visible in the rest of the region. The
//! output is therefore linear in the size of the program, except for the results of the chain itself, which
//! each short chain passes to the next.

use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;

use ir::{Function, Inst, Op, Region, RegionData, Span, Type, TypeData, Types, Value, ValueData};

use crate::util::make;

/// Chains of at most this many `if`s stay as they are.
const LONG: usize = 32;

/// The number of `if`s in one part of a longer chain.
const SHORT: usize = 16;

/// Cuts chains; returns true if there was a long one.
pub(crate) fn run(types: &Types, func: &mut Function) -> bool {
    let mut chains = Chains { types, func, length: SecondaryMap::new(), changed: false };
    let body = chains.func.body();
    chains.measure(body);
    chains.region(body);
    chains.changed
}

struct Chains<'a> {
    types: &'a Types,
    func: &'a mut Function,
    /// The number of `if`s in the chain that ends a region.
    length: SecondaryMap<Region, usize>,
    changed: bool,
}

/// An `if` of a chain.
struct Link {
    inst: Inst,
    /// The arm that ends with the next `if` of the chain.
    arm: Region,
    /// The other arm.
    other: Region,
}

impl Chains<'_> {
    /// Computes the lengths of chains.
    fn measure(&mut self, region: Region) {
        let mut length = 0;
        for at in 0..self.func.regions[region].insts.len() {
            let inst = self.func.regions[region].insts[at];
            for nested in self.func.insts[inst].regions.clone() {
                self.measure(nested);
            }
            length = self.length_of(inst);
        }
        self.length[region] = length;
    }

    fn length_of(&self, inst: Inst) -> usize {
        let data = &self.func.insts[inst];
        match data.op {
            Op::If => 1 + self.length[data.regions[0]].max(self.length[data.regions[1]]),
            _ => 0,
        }
    }

    fn region(&mut self, region: Region) {
        let mut at = 0;
        while let Some(&inst) = self.func.regions[region].insts.get(at) {
            if self.length_of(inst) > LONG {
                at = self.cut(region, at);
            }
            at += 1;
        }
        for at in 0..self.func.regions[region].insts.len() {
            let inst = self.func.regions[region].insts[at];
            for nested in self.func.insts[inst].regions.clone() {
                self.region(nested);
            }
        }
    }

    fn chain(&self, first: Inst) -> Vec<Link> {
        let mut links = Vec::new();
        let mut next = Some(first);
        while let Some(inst) = next.filter(|&inst| self.func.insts[inst].op == Op::If) {
            let regions = &self.func.insts[inst].regions;
            let (mut arm, mut other) = (regions[0], regions[1]);
            if self.length[other] > self.length[arm] {
                (arm, other) = (other, arm);
            }
            links.push(Link { inst, arm, other });
            next = self.func.regions[arm].insts.last().copied();
        }
        links
    }

    /// Cuts the chain that starts at a position in a region; returns the position of the last part.
    fn cut(&mut self, region: Region, at: usize) -> usize {
        let mut links = self.chain(self.func.regions[region].insts[at]);
        let last_use = self.last_uses(&links);
        let mut before = Before::default();
        let mut parts = vec![links[0].inst];
        let mut start = 0;
        while links.len() - start > LONG {
            let part = &links[start..start + SHORT];
            let moved = start + SHORT - 1;
            let is_used = |v| last_use.get(&v).is_some_and(|&at| at >= moved);
            let Some(leaving) = self.leaving(part, is_used) else { break };
            let mut live = Vec::new();
            for (depth, inst) in leaving {
                if self.func.insts[inst].op == Op::Local {
                    self.make_before(inst, &mut before);
                } else if !self.moves_before(part[depth].arm, inst, &mut before) {
                    let results = self.func.insts[inst].results.iter();
                    live.extend(results.filter(|&&v| is_used(v)).map(|&v| (depth, v)));
                }
            }
            let next = self.part(part, &live, &mut before);
            parts.push(next.inst);
            // The arm now belongs to the new `if`, which begins the next part.
            start = moved;
            links[start] = next;
        }
        let place = at + before.insts.len() + parts.len() - 1;
        self.changed |= parts.len() > 1;
        self.func.regions[region].insts.splice(at..=at, before.insts.into_iter().chain(parts));
        place
    }

    /// For each value, the number of the last arm of a chain that uses it.
    fn last_uses(&self, links: &[Link]) -> FxHashMap<Value, usize> {
        let mut last = FxHashMap::default();
        for (at, link) in links.iter().enumerate() {
            let next = links.get(at + 1).map(|next| next.arm);
            self.uses(link.arm, next, &mut |v| {
                last.insert(v, at);
            });
        }
        last
    }

    /// Visits all operands and results of a region and its nested regions, except for the region `without`.
    fn uses(&self, region: Region, without: Option<Region>, visit: &mut impl FnMut(Value)) {
        for &inst in &self.func.regions[region].insts {
            let data = &self.func.insts[inst];
            data.args.iter().for_each(|&v| visit(v));
            for &nested in data.regions.iter().filter(|&&nested| Some(nested) != without) {
                self.uses(nested, without, visit);
            }
        }
        self.func.regions[region].results.iter().for_each(|&v| visit(v));
    }

    /// The instructions of a part's arms, each with the number of its arm in the part, that define values
    /// used in the part's last arm or further in; `None` if a value cannot be passed there.
    fn leaving(&self, part: &[Link], is_used: impl Fn(Value) -> bool) -> Option<Vec<(usize, Inst)>> {
        let mut leaving = Vec::new();
        for (depth, link) in part[..part.len() - 1].iter().enumerate() {
            for &inst in &self.func.regions[link.arm].insts {
                let data = &self.func.insts[inst];
                for &v in data.results.iter().filter(|&&v| is_used(v)) {
                    let ty = &self.types[self.func.ty(v)];
                    if data.op != Op::Local && matches!(ty, TypeData::Cell(_) | TypeData::Residuals(_)) {
                        return None;
                    }
                }
                if data.results.iter().any(|&v| is_used(v)) {
                    leaving.push((depth, inst));
                }
            }
        }
        Some(leaving)
    }

    /// Moves an instruction without operands from an arm to before the chain; returns true if it is such an
    /// instruction.
    fn moves_before(&mut self, arm: Region, inst: Inst, before: &mut Before) -> bool {
        let op = &self.func.insts[inst].op;
        let moves = matches!(op, Op::Const(_) | Op::Zero | Op::Absent | Op::GlobalRef(_) | Op::Builtin(_));
        if moves {
            self.func.regions[arm].insts.retain(|&other| other != inst);
            before.insts.push(inst);
        }
        moves
    }

    /// Creates a cell before the chain, and stores its initial value in its old place.
    fn make_before(&mut self, inst: Inst, before: &mut Before) {
        let (cell, first) = (self.func.result(inst), self.func.insts[inst].args[0]);
        let mut local = self.func.insts[inst].clone();
        local.args[0] = before.zero(self.func, first);
        before.insts.push(self.func.insts.push(local));
        let data = &mut self.func.insts[inst];
        (data.op, data.args) = (Op::Store, [cell, first].into_iter().collect());
        data.results.clear();
    }

    /// Moves the last arm of a part into an `if` of its own. `live` lists the values that the arm uses, each
    /// with the number of the arm that defines it.
    fn part(&mut self, part: &[Link], live: &[(usize, Value)], before: &mut Before) -> Link {
        let (first, last) = (part[0].inst, &part[part.len() - 1]);
        let traced = self.traced(part);
        let moved = self.func.regions[last.arm].results.clone();
        let given = self.func.regions[last.other].results.clone();
        let given = given.into_iter().map(|v| self.given_instead(last.other, v, before)).collect();
        let stub = self.func.regions.push(RegionData { results: given, ..RegionData::default() });
        for arm in self.func.insts[last.inst].regions.iter_mut().filter(|arm| **arm == last.arm) {
            *arm = stub;
        }

        // Outside, the values of earlier arms are results of the first `if`.
        let inside: FxHashMap<Value, Value> =
            live.iter().map(|&(_, v)| (v, self.func.value_like(v))).collect();
        self.rename(part[0].arm, &inside);
        for &(depth, v) in live {
            let zero = before.zero(self.func, v);
            self.hand_out(part, depth, part[depth].arm, inside[&v], zero, v);
        }
        let [no, yes] = before.flags(self.func);
        let reached = self.func.value_like(no);
        self.hand_out(part, part.len() - 1, stub, yes, no, reached);

        let made = self.func.make(Op::If, &[reached], &[], self.func.insts[last.inst].span);
        let (mut taken, mut not) = (Vec::new(), Vec::new());
        for (number, from) in traced {
            let result = self.func.insts[first].results[number];
            let own = self.func.value_like(result);
            self.func.insts[first].results[number] = own;
            self.func.insts[made].results.push(result);
            taken.push(moved[from]);
            not.push(own);
        }
        self.func.regions[last.arm].results = taken;
        let other = self.func.regions.push(RegionData { results: not, ..RegionData::default() });
        self.func.insts[made].regions = [last.arm, other].into();
        for (left, link) in part[..part.len() - 1].iter().enumerate() {
            self.length[link.arm] = part.len() - 1 - left;
        }
        Link { inst: made, arm: last.arm, other }
    }

    /// The value, never read, to yield where another arm yields `v`: `v` itself, if it is visible there,
    /// which keeps results simple.
    fn given_instead(&mut self, arm: Region, v: Value, before: &mut Before) -> Value {
        let insts = &self.func.regions[arm].insts;
        let def = insts.iter().copied().find(|&inst| self.func.insts[inst].results.contains(&v));
        match def {
            Some(inst) if !self.moves_before(arm, inst, before) => before.zero(self.func, v),
            _ => v,
        }
    }

    /// The results of a part's first `if` that are results of its last arm, with their numbers there.
    fn traced(&self, part: &[Link]) -> Vec<(usize, usize)> {
        let mut traced: Vec<(usize, usize)> =
            (0..self.func.insts[part[0].inst].results.len()).map(|n| (n, n)).collect();
        for pair in part.windows(2) {
            let inner = self.func.insts[pair[1].inst].results.iter();
            let inner: FxHashMap<Value, usize> = inner.enumerate().map(|(n, &v)| (v, n)).collect();
            let given = &self.func.regions[pair[0].arm].results;
            traced = traced
                .into_iter()
                .filter_map(|(n, at)| inner.get(&given[at]).map(|&inner| (n, inner)))
                .collect();
        }
        traced
    }

    /// Passes a value of an arm out as the result `out` of the part's first `if`; other paths give `zero`.
    fn hand_out(&mut self, part: &[Link], depth: usize, arm: Region, value: Value, zero: Value, out: Value) {
        let (mut arm, mut value) = (arm, value);
        for (at, link) in part[..=depth].iter().enumerate().rev() {
            let result = if at == 0 { out } else { self.func.value_like(out) };
            self.func.regions[arm].results.push(value);
            self.func.regions[link.other].results.push(zero);
            self.func.insts[link.inst].results.push(result);
            value = result;
            if at > 0 {
                arm = part[at - 1].arm;
            }
        }
    }

    fn rename(&mut self, region: Region, names: &FxHashMap<Value, Value>) {
        let new = |v: &mut Value| *v = names.get(v).copied().unwrap_or(*v);
        for at in 0..self.func.regions[region].insts.len() {
            let inst = self.func.regions[region].insts[at];
            let data = &mut self.func.insts[inst];
            data.args.iter_mut().chain(&mut data.results).for_each(new);
            for nested in data.regions.clone() {
                self.rename(nested, names);
            }
        }
        self.func.regions[region].results.iter_mut().for_each(new);
    }
}

/// The instructions that are inserted before a chain.
#[derive(Default)]
struct Before {
    insts: Vec<Inst>,
    zeros: FxHashMap<(Type, bool), Value>,
    flags: Option<[Value; 2]>,
}

impl Before {
    fn add(&mut self, func: &mut Function, op: Op, result: ValueData) -> Value {
        let (inst, v) = make(func, op, &[], result.ty, result.linear, Span::NONE);
        self.insts.push(inst);
        v
    }

    /// The constant that stands for a value where it is not defined.
    fn zero(&mut self, func: &mut Function, v: Value) -> Value {
        let (ty, linear) = (func.ty(v), func.is_linear(v));
        if let Some(&zero) = self.zeros.get(&(ty, linear)) {
            return zero;
        }
        let zero = self.add(func, if linear { Op::Absent } else { Op::Zero }, ValueData::marked(ty, linear));
        self.zeros.insert((ty, linear), zero);
        zero
    }

    /// The constants false and true.
    fn flags(&mut self, func: &mut Function) -> [Value; 2] {
        if let Some(flags) = self.flags {
            return flags;
        }
        let flags = [0, 1].map(|bit| self.add(func, Op::Const(bit), ValueData::new(Type::BOOL)));
        self.flags = Some(flags);
        flags
    }
}
