//! What was not taken adds nothing, whatever it would have been multiplied with.
//!
//! The cotangent of what a `select`, a branch or a loop did not take is zero: no dependence. Further up it is
//! multiplied with derivatives of operations that were computed nevertheless, `1/x` at zero among them, and zero times
//! infinity is NaN. After AD a float `zero` is symbolic, and the zero times any number is zero; this pass makes that so
//! where the zero is one only at run time.
//!
//! A value has a *guard* if it is such a zero whenever the guard is false: `select(c, x, zero)` has `c`, the result of
//! an `if` with a zero arm its condition, what a `for` adds up from zero that it runs at all. Products, quotients and
//! sums hand guards on. A product with a guard is *dirty*: it may be NaN where it should be zero. It becomes
//! `select(guard, x, zero)` where it leaves the chain of such operations, so a chain costs one selection.
//!
//! A guard is made of values that are visible where the guarded value is, by and large its own operands' operands. Where
//! no condition tells, the zero is its own guard ([`taint`]); not before code is differentiated once more, since the
//! derivative of a product at a factor of zero is not zero, and not of tangents alone: those of what was not taken go
//! nowhere, as the program's selections and branches do not take them either.

mod taint;

use ir::{Func, Function, Inst, InstData, Op, Region, RegionData, Scalar, Type, TypeData, Types, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use cranelift_entity::SecondaryMap;

use crate::effects::Facts;
use crate::util::{Defs, make, number_zero};
use taint::Taint;
pub(crate) use taint::singular;

/// A guard with more parts than this is given up.
const PARTS: u32 = 12;

/// Masks in the function that [`Facts`] knows by `name`; true if anything was. Only after AD: see the head of this file.
pub fn run(types: &mut Types, name: Func, func: &mut Function, facts: &Facts) -> bool {
    masks(types, func, facts, Some(name))
}

/// Masks by conditions only, which derivatives may be taken of.
pub fn run_before_again(types: &mut Types, func: &mut Function, facts: &Facts) -> bool {
    masks(types, func, facts, None)
}

fn masks(types: &mut Types, func: &mut Function, facts: &Facts, name: Option<Func>) -> bool {
    if !func.has_body() {
        return false;
    }
    let mut any = false;
    func.walk(func.body(), &mut |inst| any |= func.insts[inst].op == Op::Zero);
    if !any {
        return false;
    }
    let defs = Defs::of(func);
    let taint = name.filter(|_| func.has_cotangents()).map(|name| Taint::of(name, types, func, &defs, facts));
    let mut uses = SecondaryMap::new();
    if taint.is_some() {
        func.walk(func.body(), &mut |inst| {
            // A selection has a guard of its own, which would come on top: it counts as more than one.
            let by = if func.insts[inst].op == Op::Select { 2 } else { 1 };
            let args = &func.insts[inst].args;
            let new = |k: &usize| !args[..*k].contains(&args[*k]);
            (0..args.len()).filter(new).for_each(|k| uses[args[k]] += by);
        });
    }
    let mut pass = Masks {
        taint,
        uses,
        stand_ins: SecondaryMap::new(),
        types,
        func,
        facts,
        defs,
        guards: Vec::new(),
        marks: SecondaryMap::new(),
        holds: Vec::new(),
        out: Vec::new(),
        any: false,
    };
    let body = pass.func.body();
    pass.region(body);
    pass.any
}

/// Number in [`Masks::guards`].
type GuardId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Guard {
    Is(Value),
    Not(Value),
    /// A tag has this value.
    Case(Value, i64),
    /// A tag has another value.
    NoCase(Value, i64),
    /// A number of trips is not zero.
    Runs(Value),
    /// A value is not zero.
    NonZero(Value),
    And(GuardId, GuardId),
    Or(GuardId, GuardId),
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    guard: Option<GuardId>,
    dirty: bool,
    /// The guard says of a value that it is not zero.
    by_value: bool,
}

struct Masks<'a> {
    /// `None`: only conditions are guards.
    taint: Option<Taint>,
    /// How many instructions each value is an operand of.
    uses: SecondaryMap<Value, u32>,
    /// What stands for a value that is masked where it is made.
    stand_ins: SecondaryMap<Value, Option<Value>>,
    types: &'a mut Types,
    func: &'a mut Function,
    facts: &'a Facts,
    defs: Defs,
    /// With the number of parts, and the lanes of its conditions (0: one for all).
    guards: Vec<(Guard, u32, u32)>,
    marks: SecondaryMap<Value, Mark>,
    /// The guards that hold in the open arms.
    holds: Vec<GuardId>,
    /// The open region's instructions.
    out: Vec<Inst>,
    any: bool,
}

impl Masks<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let outer = std::mem::replace(&mut self.out, Vec::with_capacity(insts.len()));
        for inst in insts {
            let is_if = self.func.insts[inst].op == Op::If;
            for (k, nested) in self.func.insts[inst].regions.clone().into_iter().enumerate() {
                if is_if {
                    let c = self.func.insts[inst].args[0];
                    let holds = self.leaf(if k == 0 { Guard::Is(c) } else { Guard::Not(c) }, c);
                    self.holds.push(holds);
                }
                self.region(nested);
                if is_if {
                    self.holds.pop();
                }
            }
            self.inst(inst);
        }
        let mut results = std::mem::take(&mut self.func.regions[region].results);
        for v in &mut results {
            *v = self.masked(*v);
        }
        self.func.regions[region].results = results;
        self.func.regions[region].insts = std::mem::replace(&mut self.out, outer);
    }

    fn inst(&mut self, inst: Inst) {
        for v in &mut self.func.insts[inst].args {
            *v = self.stand_ins[*v].unwrap_or(*v);
        }
        if self.is_nothing(inst) {
            let results = std::mem::take(&mut self.func.insts[inst].results);
            let span = self.func.insts[inst].span;
            for v in results {
                let results = SmallVec::from_elem(v, 1);
                let (args, regions) = (SmallVec::new(), SmallVec::new());
                let zero = self.func.insts.push(InstData { op: Op::Zero, args, results, regions, span });
                self.defs.add(self.func, zero);
                self.out.push(zero);
            }
            self.any = true;
            return;
        }
        let args: SmallVec<[Value; 4]> = self.func.insts[inst].args.clone();
        let marks: SmallVec<[Mark; 4]> = args.iter().map(|&v| self.mark(v)).collect();
        let mark = |k: usize| marks[k];
        let zeros: SmallVec<[bool; 4]> = args.iter().map(|&v| self.is_zero(v)).collect();
        // The result's mark, and the operands whose marks it takes over.
        let (made, kept): (Mark, &[usize]) = match self.func.insts[inst].op {
            Op::Neg | Op::Detach => (mark(0), &[0]),
            Op::Convert if self.is_float(args[0]) => (mark(0), &[0]),
            Op::Sum | Op::Splat | Op::Extract(_) | Op::Index if self.is_scalar(mark(0)) => (mark(0), &[0]),
            Op::Mul => {
                let marks = [self.by_value(args[0], args[1]), self.by_value(args[1], args[0])];
                let both = match marks.map(|m| m.guard) {
                    [Some(a), Some(b)] if self.taint.is_some() => self.both(a, Some(b)),
                    _ => None,
                };
                match marks.map(|m| m.guard) {
                    [Some(_), Some(_)] if both.is_some() => {
                        let by_value = marks[0].by_value && marks[1].by_value;
                        (Mark { guard: both, dirty: true, by_value }, &[0, 1])
                    }
                    [Some(_), _] => (self.product(marks[0], args[1]), &[0]),
                    [None, Some(_)] => (self.product(marks[1], args[0]), &[1]),
                    [None, None] => (Mark::default(), &[]),
                }
            }
            Op::Div => match self.by_value(args[0], self.func.insts[inst].results[0]) {
                Mark { guard: None, .. } => (Mark::default(), &[]),
                mark => (self.product(mark, args[1]), &[0]),
            },
            Op::Add | Op::Sub => match (mark(0), mark(1)) {
                (a, b) if a.guard == b.guard => (Mark { dirty: a.dirty || b.dirty, ..a }, &[0, 1]),
                (a, _) if zeros[1] => (a, &[0]),
                (_, b) if zeros[0] => (b, &[1]),
                (a, b) => (Mark { guard: self.either(a.guard, b.guard), ..Mark::default() }, &[]),
            },
            Op::Select => self.select(&args),
            Op::Call(callee) => (self.call(callee, &args), &[]),
            Op::CheckFinite(_) => (Mark { dirty: false, ..mark(0) }, &[]),
            _ => (Mark::default(), &[]),
        };
        let checks = matches!(self.func.insts[inst].op, Op::CheckFinite(_));
        for (k, &arg) in args.iter().enumerate() {
            if !(kept.contains(&k) || checks && k > 0) {
                self.func.insts[inst].args[k] = self.masked(arg);
            }
        }
        if let (Op::Call(callee), Some(guard)) = (&self.func.insts[inst].op, made.guard)
            && !self.facts.func(*callee).writes
        {
            let wrapped = self.wrap(inst, guard);
            self.out.push(wrapped);
            for r in self.func.insts[wrapped].results.clone() {
                if self.is_float(r) {
                    self.marks[r] = Mark { dirty: false, ..made };
                }
            }
            return;
        }
        self.out.push(inst);
        match self.func.insts[inst].op {
            Op::If => self.arms(inst, args[0]),
            Op::Switch(ref cases) => {
                let cases = cases.clone();
                self.cases(inst, args[0], &cases);
            }
            Op::For(_) => self.trips(inst),
            _ if made.guard.is_some() => {
                for r in self.func.insts[inst].results.clone() {
                    if self.is_float(r) {
                        self.marks[r] = made;
                        if made.by_value && made.dirty && self.uses[r] > 1 {
                            // Once, and not in each trip of a loop that uses it.
                            let masked = self.masked(r);
                            self.marks[masked] = Mark { dirty: false, ..made };
                            self.stand_ins[r] = Some(masked);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// What is known of a value here, where the open arms' conditions hold.
    fn mark(&self, v: Value) -> Mark {
        let mark = self.marks[v];
        match mark.guard {
            Some(guard) if !self.holds.is_empty() => match self.left_of(guard) {
                // Always itself: there is nothing to mask.
                None => Mark::default(),
                guard => Mark { guard, ..mark },
            },
            _ => mark,
        }
    }

    /// What is left of a guard where the open arms' conditions hold; `None` if nothing is.
    fn left_of(&self, guard: GuardId) -> Option<GuardId> {
        if self.holds.contains(&guard) {
            return None;
        }
        match self.guards[guard as usize].0 {
            Guard::And(a, b) => match (self.left_of(a), self.left_of(b)) {
                (Some(left), None) | (None, Some(left)) => Some(left),
                (None, None) => None,
                (Some(_), Some(_)) => Some(guard),
            },
            Guard::Or(a, b) if self.left_of(a).is_none() || self.left_of(b).is_none() => None,
            _ => Some(guard),
        }
    }

    /// The mark of a factor, with the factor itself for a guard where no other says enough.
    fn by_value(&mut self, v: Value, other: Value) -> Mark {
        let mark = self.mark(v);
        let Some(taint) = &self.taint else { return mark };
        if mark.by_value || !taint.nothing[v] || !taint.singular[other] || !self.is_float(v) {
            return mark;
        }
        let own = self.leaf(Guard::NonZero(v), v);
        let guard = if mark.dirty { self.both(own, mark.guard).or(mark.guard) } else { Some(own) };
        Mark { guard, by_value: true, ..mark }
    }

    /// A product or quotient of a guarded value.
    fn product(&self, of: Mark, by: Value) -> Mark {
        // A constant is finite and, where it divides, not zero: else it would have been folded.
        let is_constant = match self.defs.op(self.func, by) {
            Some(Op::Const(_)) => true,
            Some(Op::Splat) => {
                let splat = self.defs.inst(by).expect("just found");
                matches!(self.defs.op(self.func, self.func.insts[splat].args[0]), Some(Op::Const(_)))
            }
            _ => false,
        };
        Mark { dirty: of.dirty || !is_constant, ..of }
    }

    /// A call that gives zeros: all that it is linear in is zero.
    fn is_nothing(&self, inst: Inst) -> bool {
        let data = &self.func.insts[inst];
        let Op::Call(callee) = data.op else { return false };
        let tangents = self.facts.linear_from(callee).and_then(|n| data.args.get(n..));
        tangents.is_some_and(|t| t.iter().all(|&v| self.is_zero(v))) && !self.facts.func(callee).writes
    }

    /// A function that is linear in its last parameters, if all these have guards.
    fn call(&mut self, callee: Func, args: &[Value]) -> Mark {
        let Some(tangents) = self.facts.linear_from(callee).and_then(|n| args.get(n..)) else {
            return Mark::default();
        };
        let mut guard = None;
        for &v in tangents {
            if self.is_zero(v) {
                continue;
            }
            let mark = self.mark(v);
            guard = match guard {
                None if self.is_scalar(mark) => mark.guard,
                Some(_) if self.is_scalar(mark) && guard != mark.guard => self.either(guard, mark.guard),
                Some(_) if guard == mark.guard => guard,
                _ => None,
            };
            if guard.is_none() {
                break;
            }
        }
        Mark { guard, dirty: guard.is_some(), by_value: false }
    }

    /// A call that matters only where its guard holds, and does nothing else, is made only there.
    fn wrap(&mut self, call: Inst, guard: GuardId) -> Inst {
        let c = self.condition(guard, &mut FxHashMap::default());
        let span = self.func.insts[call].span;
        let results = self.func.insts[call].results.clone();
        let (mut made, mut zeros) = (Vec::new(), Vec::new());
        let mut otherwise = Vec::new();
        for &r in &results {
            let data = self.func.values[r].clone();
            let (ty, linear) = (data.ty, data.linear);
            made.push(self.func.values.push(data));
            let (inst, zero) = make(self.func, Op::Zero, &[], ty, linear, span);
            self.defs.add(self.func, inst);
            zeros.push(zero);
            otherwise.push(inst);
        }
        self.func.insts[call].results = made.iter().copied().collect();
        self.defs.add(self.func, call);
        let mut region = |insts: Vec<Inst>, results: Vec<Value>| {
            self.func.regions.push(RegionData { params: Vec::new(), insts, results })
        };
        let regions = [region(vec![call], made), region(otherwise, zeros)].into_iter().collect();
        let data = InstData { op: Op::If, args: SmallVec::from_elem(c, 1), results, regions, span };
        let inst = self.func.insts.push(data);
        self.defs.add(self.func, inst);
        self.any = true;
        inst
    }

    fn select(&mut self, args: &[Value]) -> (Mark, &'static [usize]) {
        let (c, a, b) = (args[0], args[1], args[2]);
        if !self.is_float(a) {
            return (Mark::default(), &[]);
        }
        let (ma, mb) = (self.mark(a), self.mark(b));
        match (self.is_zero(a), self.is_zero(b)) {
            (false, true) => {
                let is = self.leaf(Guard::Is(c), c);
                self.chosen(is, ma, &[1])
            }
            (true, false) => {
                let not = self.leaf(Guard::Not(c), c);
                self.chosen(not, mb, &[2])
            }
            (false, false) if ma.guard.is_some() && ma.guard == mb.guard => {
                (Mark { dirty: ma.dirty || mb.dirty, ..ma }, &[1, 2])
            }
            _ => (Mark::default(), &[]),
        }
    }

    /// A selection between a value and zero.
    fn chosen(&mut self, guard: GuardId, of: Mark, operand: &'static [usize]) -> (Mark, &'static [usize]) {
        match self.both(guard, of.guard) {
            Some(both) => (Mark { guard: Some(both), ..of }, operand),
            None => (Mark { guard: Some(guard), ..Mark::default() }, &[]),
        }
    }

    /// Results of a `switch` that are zero in some arms.
    fn cases(&mut self, inst: Inst, tag: Value, cases: &[i64]) {
        let data = &self.func.insts[inst];
        let (results, regions) = (data.results.clone(), data.regions.clone());
        for (k, &r) in results.iter().enumerate() {
            if !self.is_float(r) {
                continue;
            }
            let zero: Vec<bool> =
                regions.iter().map(|&arm| self.is_zero(self.func.regions[arm].results[k])).collect();
            let (in_cases, in_default) = zero.split_at(cases.len());
            let mut guard = None;
            let mut fits = true;
            for (&case, _) in cases.iter().zip(in_cases).filter(|(_, zero)| **zero != in_default[0]) {
                let next = if in_default[0] { Guard::Case(tag, case) } else { Guard::NoCase(tag, case) };
                let next = self.leaf(next, tag);
                guard = match guard {
                    None => Some(next),
                    Some(_) if in_default[0] => self.either(guard, Some(next)),
                    Some(_) => self.both(next, guard),
                };
                fits &= guard.is_some();
            }
            if fits {
                self.marks[r] = Mark { guard, ..Mark::default() };
            }
        }
    }

    /// Results of an `if` that are zero in one arm.
    fn arms(&mut self, inst: Inst, c: Value) {
        let data = &self.func.insts[inst];
        let (results, regions) = (data.results.clone(), data.regions.clone());
        for (k, &r) in results.iter().enumerate() {
            if !self.is_float(r) {
                continue;
            }
            let zero = |arm: usize| self.is_zero(self.func.regions[regions[arm]].results[k]);
            let guard = match (zero(0), zero(1)) {
                (false, true) => self.leaf(Guard::Is(c), c),
                (true, false) => self.leaf(Guard::Not(c), c),
                _ => continue,
            };
            self.marks[r] = Mark { guard: Some(guard), ..Mark::default() };
        }
    }

    /// What a loop carries from zero is zero if it does not run.
    fn trips(&mut self, inst: Inst) {
        let data = &self.func.insts[inst];
        let n = data.args[0];
        let starts: SmallVec<[(Value, Value); 8]> =
            data.results.iter().copied().zip(data.args[1..].iter().copied()).collect();
        for (r, start) in starts {
            if self.is_float(r) && self.is_zero(start) && self.defs.scalar(self.types, self.func, n).is_none()
            {
                let guard = self.leaf(Guard::Runs(n), n);
                self.marks[r] = Mark { guard: Some(guard), ..Mark::default() };
            }
        }
    }

    // ---- guards

    fn leaf(&mut self, guard: Guard, of: Value) -> GuardId {
        let lanes = match self.types[self.func.ty(of)] {
            TypeData::Vector(_, n) => n,
            _ => 0,
        };
        self.intern(guard, 1, lanes)
    }

    fn intern(&mut self, guard: Guard, parts: u32, lanes: u32) -> GuardId {
        // Few: a search from the end is as good as a map.
        let near = self.guards.iter().rev().take(32).position(|g| g.0 == guard);
        if let Some(at) = near {
            return (self.guards.len() - 1 - at) as GuardId;
        }
        self.guards.push((guard, parts, lanes));
        (self.guards.len() - 1) as GuardId
    }

    /// Both hold; `None` if that is too much to say.
    fn both(&mut self, a: GuardId, b: Option<GuardId>) -> Option<GuardId> {
        let Some(b) = b.filter(|&b| b != a) else { return Some(a) };
        let ((_, m, lanes), (_, n, others)) = (self.guards[a as usize], self.guards[b as usize]);
        if lanes != others || m + n > PARTS {
            return None;
        }
        Some(self.intern(Guard::And(a, b), m + n, lanes))
    }

    fn either(&mut self, a: Option<GuardId>, b: Option<GuardId>) -> Option<GuardId> {
        let (a, b) = (a?, b?);
        let ((_, m, lanes), (_, n, others)) = (self.guards[a as usize], self.guards[b as usize]);
        if lanes != others || m + n > PARTS {
            return None;
        }
        Some(self.intern(Guard::Or(a, b), m + n, lanes))
    }

    fn is_scalar(&self, mark: Mark) -> bool {
        mark.guard.is_some_and(|g| self.guards[g as usize].2 == 0)
    }

    /// The value where its guard holds, else zero.
    fn masked(&mut self, v: Value) -> Value {
        let v = self.stand_ins[v].unwrap_or(v);
        let Mark { guard: Some(guard), dirty: true, .. } = self.mark(v) else { return v };
        self.any = true;
        let c = self.condition(guard, &mut FxHashMap::default());
        let ty = self.func.ty(v);
        let zero = self.emit(Op::Zero, &[], ty);
        let masked = self.emit(Op::Select, &[c, v, zero], ty);
        self.func.values[masked].name = self.func.values[v].name.clone();
        masked
    }

    fn condition(&mut self, guard: GuardId, made: &mut FxHashMap<GuardId, Value>) -> Value {
        if let Some(&known) = made.get(&guard) {
            return known;
        }
        let v = match self.guards[guard as usize].0 {
            Guard::Is(c) => c,
            Guard::Not(c) => {
                let ty = self.func.ty(c);
                self.emit(Op::Not, &[c], ty)
            }
            Guard::Case(tag, case) | Guard::NoCase(tag, case) => {
                let ty = self.func.ty(tag);
                let s = self.types.scalar_of(ty).expect("a tag is a number");
                let case = self.emit(Op::Const(ir::scalar::from_i64(s, case)), &[], ty);
                let is = matches!(self.guards[guard as usize].0, Guard::Case(..));
                self.emit(if is { Op::Eq } else { Op::Ne }, &[tag, case], Type::BOOL)
            }
            Guard::NonZero(v) => {
                let zero = self.number_zero(v);
                let ty = match self.types[self.func.ty(v)] {
                    TypeData::Vector(_, n) => self.types.vector(Scalar::Bool, n),
                    _ => Type::BOOL,
                };
                self.emit(Op::Ne, &[v, zero], ty)
            }
            Guard::Runs(n) => {
                let ty = self.func.ty(n);
                let none = self.emit(Op::Const(0), &[], ty);
                self.emit(Op::Ne, &[n, none], Type::BOOL)
            }
            Guard::And(a, b) | Guard::Or(a, b) => {
                let (x, y) = (self.condition(a, made), self.condition(b, made));
                let is_and = matches!(self.guards[guard as usize].0, Guard::And(..));
                let ty = self.func.ty(x);
                self.emit(if is_and { Op::And } else { Op::Or }, &[x, y], ty)
            }
        };
        made.insert(guard, v);
        v
    }

    /// The number zero of a value's type.
    fn number_zero(&mut self, v: Value) -> Value {
        let (ty, span) = (self.func.ty(v), self.func.span);
        let (insts, zero) = number_zero(self.types, self.func, ty, false, span);
        for inst in insts {
            self.defs.add(self.func, inst);
            self.out.push(inst);
        }
        zero
    }

    fn emit(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        let span = self.out.last().map_or(self.func.span, |&inst| self.func.insts[inst].span);
        let (inst, v) = make(self.func, op, args, ty, false, span);
        self.defs.add(self.func, inst);
        self.out.push(inst);
        v
    }

    // ---- values

    fn is_float(&self, v: Value) -> bool {
        let ty = self.func.ty(v);
        self.types.is_numeric(ty) && self.types.scalar_of(ty).is_some_and(Scalar::is_float)
    }

    fn is_zero(&self, v: Value) -> bool {
        match self.defs.op(self.func, v) {
            Some(Op::Zero) => true,
            Some(Op::Splat) => {
                let splat = self.defs.inst(v).expect("just found");
                matches!(self.defs.op(self.func, self.func.insts[splat].args[0]), Some(Op::Zero))
            }
            _ => false,
        }
    }
}
