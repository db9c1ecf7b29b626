//! Lowers differentials to numbers. This is the last step, after which no backend needs to know about
//! differentials.
//!
//! `absent` becomes the constant -0, and `scale d, f` becomes `d is -0 ? -0 : d * f + 0` (see `ir::ops`).
//! That is always right, and it is the cost where nothing is known. But few differentials may be absent, and
//! even fewer are ever scaled by a number that may be infinite or NaN ([`facts`]): all others become plain
//! numbers, scaled by `mul`.
//!
//! A chain of scalings is absent where its first operand was, so one test serves the whole chain. A value in
//! a chain has a *guard*: where the guard holds the value is right, and where it does not hold, the value is
//! anything (*wild*), or a zero of either sign (*loose*). Scalings, sums and conversions propagate guards.
//! `select(c, x, absent)` has the guard `c` in conjunction with that of `x`, so where a condition of the
//! program decides, that condition is tested rather than the bits. Where a value leaves its chain, for
//! memory, a call, or a region's results, it becomes `select(guard, x + 0, -0)`, or `select(guard, x, 0)` if
//! its absence is never tested later.
//!
//! Conditions are computed where they are needed, from values that are visible there, since these were
//! visible where the chain began.
//!
//! With fast mathematics `0 * x` is 0 for every `x`, and all differentials are numbers.

mod facts;
mod guard;

use cranelift_entity::SecondaryMap;
use ir::analysis::Defs;
use ir::analysis::points_to::root_cell;
use ir::build::float_value;
use ir::{Function, Inst, Op, Region, Scalar, Type, TypeData, Types, Value};
use smallvec::SmallVec;

use crate::Options;
use crate::util::make_number;
pub(crate) use facts::Border;
use facts::{Facts, is_sparse};
use guard::{Guard, GuardId, Guards};
use ir::transform::Subst;

/// The depth to which the origin of an array is traced.
const ARRAYS: u32 = 6;

/// The outcome of lowering a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lowered {
    /// The function contains no differentials.
    Nothing,
    /// All differentials became plain numbers: their ops were replaced.
    Replaced,
    /// Some differentials may be absent: tests and selections were inserted.
    Guarded,
}

/// Lowers the differentials of a function.
pub(crate) fn run(types: &mut Types, func: &mut Function, options: &Options, border: Border) -> Lowered {
    if !func.contains(|op| matches!(op, Op::Absent | Op::Scale | Op::Unscale | Op::Mask | Op::Present)) {
        return Lowered::Nothing;
    }
    let defs = Defs::of(func);
    let facts =
        if options.fast_math || func.fast_math { None } else { Some(Facts::of(types, func, &defs, border)) };
    let mut lower = Lower {
        types,
        func,
        defs,
        facts,
        guards: Guards::default(),
        marks: SecondaryMap::new(),
        subst: Subst::default(),
        out: Vec::new(),
        asks: false,
    };
    let body = lower.func.body();
    lower.region(body);
    if lower.asks { Lowered::Guarded } else { Lowered::Replaced }
}

/// How a value differs from the differential that it represents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    /// The condition under which the value is present; `None` if it always is.
    guard: Option<GuardId>,
    /// Where the guard does not hold the value may be anything, rather than a zero.
    wild: bool,
    /// The value may be -0 where it is present, and +0 where it is absent.
    loose: bool,
}

struct Lower<'a> {
    types: &'a mut Types,
    func: &'a mut Function,
    defs: Defs,
    /// The facts about differentials; `None` if all differentials are numbers.
    facts: Option<Facts>,
    guards: Guards,
    /// The mark of each value that differs from its differential; `None` for all other values.
    marks: SecondaryMap<Value, Option<Mark>>,
    subst: Subst,
    /// The instructions of the open region.
    out: Vec<Inst>,
    /// A selection, or memory that a later selection tests, was emitted.
    asks: bool,
}

impl Lower<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let outer = std::mem::replace(&mut self.out, Vec::with_capacity(insts.len()));
        for inst in insts {
            self.subst.apply(self.func, inst);
            for nested in self.func.insts[inst].regions.clone() {
                self.region(nested);
            }
            self.inst(inst);
        }
        let results = std::mem::take(&mut self.func.regions[region].results);
        let results = results.into_iter().map(|v| self.settled(self.subst.get(v))).collect();
        self.func.regions[region].results = results;
        self.func.regions[region].insts = std::mem::replace(&mut self.out, outer);
    }

    fn inst(&mut self, inst: Inst) {
        if self.facts.is_none() {
            return self.plain(inst);
        }
        let data = &self.func.insts[inst];
        let args: SmallVec<[Value; 4]> = data.args.clone();
        let is_number = data.results.first().is_some_and(|&r| self.is_number(r));
        match data.op {
            Op::Absent => self.absent(inst),
            Op::Scale | Op::Unscale => self.scale(inst, args[0], args[1]),
            Op::Mask => self.mask(inst, args[0], args[1]),
            Op::Present => self.present(inst, args[0]),
            Op::Add if is_number => self.add(inst, args[0], args[1]),
            Op::Select if is_number => self.select(inst, args[0], args[1], args[2]),
            Op::Detach if is_number => {
                let mark = self.marks[args[0]];
                self.push(inst, mark);
            }
            Op::Convert if is_number && self.is_number(args[0]) => {
                // A small number may be rounded to -0.
                let mark = Mark { loose: true, ..self.mark(args[0]) };
                self.push(inst, Some(mark));
            }
            Op::Load | Op::Index if is_number && is_sparse(self.types, self.func, &self.defs, inst) => {
                self.read_sparse(inst);
            }
            Op::Sum | Op::Splat | Op::Extract(_) | Op::Index if is_number && self.is_number(args[0]) => {
                let mark = self.marks[args[0]];
                let is_scalar = |mark: Mark| mark.guard.is_none_or(|guard| self.guards.lanes(guard) == 0);
                if mark.is_some_and(is_scalar) { self.push(inst, mark) } else { self.settle(inst) }
            }
            _ => self.settle(inst),
        }
    }

    /// Lowers an instruction where all differentials are numbers.
    fn plain(&mut self, inst: Inst) {
        let data = &mut self.func.insts[inst];
        match data.op {
            Op::Absent => data.op = Op::Zero,
            Op::Scale => data.op = Op::Mul,
            Op::Unscale => data.op = Op::Div,
            Op::Mask | Op::Present => {
                let by = data.args[data.args.len() - 1];
                return self.subst.set(data.results[0], by);
            }
            _ => (),
        }
        self.out.push(inst);
    }

    /// Appends an instruction whose result represents a differential as `mark` describes.
    fn push(&mut self, inst: Inst, mark: Option<Mark>) {
        let r = self.func.insts[inst].results[0];
        self.marks[r] = mark;
        self.out.push(inst);
    }

    /// Appends an instruction that reads the exact values of its operands.
    fn settle(&mut self, inst: Inst) {
        let args = self.func.insts[inst].args.clone();
        let args = args.into_iter().map(|v| self.settled(v)).collect();
        self.func.insts[inst].args = args;
        self.out.push(inst);
    }

    // ---- facts about values

    fn is_number(&self, v: Value) -> bool {
        let ty = self.func.ty(v);
        self.types.is_numeric(ty) && self.types.is_differentiable(ty)
    }

    fn is_asked(&self, v: Value) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.asked[v])
    }

    fn may_be_absent(&self, v: Value) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.absent[v])
    }

    fn is_finite(&self, v: Value) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.finite.contains(v))
    }

    /// The mark of a value; a value without a mark that may be absent gets a test of its presence as the
    /// guard.
    fn mark(&mut self, v: Value) -> Mark {
        match self.marks[v] {
            Some(mark) => mark,
            None if self.may_be_absent(v) && self.is_number(v) => {
                Mark { guard: Some(self.leaf(Guard::Present(v, self.func.ty(v)), v)), ..Mark::default() }
            }
            None => Mark::default(),
        }
    }

    fn leaf(&mut self, guard: Guard, of: Value) -> GuardId {
        self.guards.leaf(self.types, self.func, guard, of)
    }

    // ---- operations

    fn absent(&mut self, inst: Inst) {
        let r = self.func.insts[inst].results[0];
        let ty = self.func.ty(r);
        if !self.is_asked(r) || self.types.has_stack(ty) {
            self.func.insts[inst].op = Op::Zero;
        } else {
            let (op, args) = self.minus_zero(ty);
            self.func.insts[inst].op = op;
            self.func.insts[inst].args = args;
        }
        self.out.push(inst);
    }

    /// The op, with its operands, that gives a value with -0 in every element.
    fn minus_zero(&mut self, ty: Type) -> (Op, SmallVec<[Value; 4]>) {
        match self.types.element(ty) {
            Some(element) => {
                let (op, args) = self.minus_zero(element);
                let part = self.emit(op, &args, element);
                (Op::Splat, SmallVec::from_elem(part, 1))
            }
            None => {
                let s = self.types.scalar_of(ty).expect("a differentiable type is made of scalars");
                (Op::Const(ir::scalar::absent(s)), SmallVec::new())
            }
        }
    }

    fn scale(&mut self, inst: Inst, d: Value, by: Value) {
        let mark = self.mark(d);
        let by = self.number(by);
        let is_product = self.func.insts[inst].op == Op::Scale;
        let tame = if is_product { self.is_finite(by) } else { self.is_divisor(by) };
        let data = &mut self.func.insts[inst];
        data.op = if is_product { Op::Mul } else { Op::Div };
        data.args = [d, by].into_iter().collect();
        let wild = mark.guard.is_some() && (mark.wild || !tame);
        self.push(inst, Some(Mark { wild, loose: true, ..mark }));
    }

    /// Returns true if a value is a constant that a zero may be divided by.
    fn is_divisor(&self, v: Value) -> bool {
        let lanes = self.defs.lanes(self.types, self.func, v);
        lanes.is_some_and(|(s, lanes)| lanes.iter().all(|&bits| float_value(s, bits).is_normal()))
    }

    fn mask(&mut self, inst: Inst, of: Value, x: Value) {
        let r = self.func.insts[inst].results[0];
        let Some(guard) = self.mark(of).guard else {
            self.marks[r] = self.marks[x];
            return self.subst.set(r, x);
        };
        let x = self.settled_for(x, r);
        let condition = self.condition(guard);
        let nothing = self.nothing(r);
        let data = &mut self.func.insts[inst];
        data.op = Op::Select;
        data.args = [condition, x, nothing].into_iter().collect();
        self.out.push(inst);
    }

    fn present(&mut self, inst: Inst, d: Value) {
        let r = self.func.insts[inst].results[0];
        if !self.is_number(d) {
            return self.present_array(inst, d);
        }
        let mark = self.mark(d);
        // A number of the user's program that is -0 needs no treatment.
        let is_plain = mark == Mark::default() && !self.func.values[d].differential;
        let d = self.number(d);
        if is_plain && !self.is_asked(r) {
            return self.subst.set(r, d);
        }
        let zero = self.emit(Op::Zero, &[], self.func.ty(r));
        let data = &mut self.func.insts[inst];
        data.op = Op::Add;
        data.args = [d, zero].into_iter().collect();
        self.out.push(inst);
    }

    /// Adds an array to zeros.
    fn present_array(&mut self, inst: Inst, d: Value) {
        let r = self.func.insts[inst].results[0];
        if !self.is_asked(r) && !self.may_hold_absent(d, ARRAYS) {
            return self.subst.set(r, d);
        }
        self.asks = true;
        let ty = self.func.ty(r);
        let zero = self.emit(Op::Zero, &[], ty);
        let of = self.types.cell(ty);
        let cell = self.emit(Op::Local, &[zero], of);
        let span = self.func.insts[inst].span;
        self.out.push(self.func.make(Op::AddTo, &[cell, d], &[], span));
        let data = &mut self.func.insts[inst];
        data.op = Op::Load;
        data.args = SmallVec::from_elem(cell, 1);
        self.out.push(inst);
    }

    /// Returns true if an array may contain a -0 that represents an absent differential. Elements whose
    /// absence is never tested are written as zeros.
    fn may_hold_absent(&self, v: Value, depth: u32) -> bool {
        if !self.may_be_absent(v) {
            return false;
        }
        let Some(inst) = self.defs.inst(v).filter(|_| depth > 0 && !self.is_asked(v)) else { return true };
        let data = &self.func.insts[inst];
        let part = |&v: &Value| self.may_hold_absent(self.subst.get(v), depth - 1);
        let position = data.results.iter().position(|&r| r == v).unwrap_or(0);
        match data.op {
            Op::Absent | Op::Zero => false,
            Op::Load => self.is_asked(root_cell(self.func, &self.defs, data.args[0])),
            Op::If | Op::Switch(_) => {
                data.regions.iter().any(|&arm| part(&self.func.regions[arm].results[position]))
            }
            Op::Splat | Op::Construct | Op::Insert(_) | Op::Extract(_) | Op::Detach => {
                data.args.iter().any(part)
            }
            _ => true,
        }
    }

    fn add(&mut self, inst: Inst, a: Value, b: Value) {
        if self.marks[a].is_none() && self.marks[b].is_none() {
            // The sum is -0 exactly where both operands are.
            return self.push(inst, None);
        }
        let (x, y) = (self.mark(a), self.mark(b));
        if x.guard == y.guard {
            // If both are present, an operand that is not -0 makes the sum differ from -0. Where both are
            // absent, an operand that is +0 makes the sum +0.
            let loose = if x.guard.is_some() { x.loose || y.loose } else { x.loose && y.loose };
            let mark = Mark { guard: x.guard, wild: x.wild || y.wild, loose };
            return self.push(inst, Some(mark));
        }
        let guard = match (x.guard, y.guard) {
            (Some(a), Some(b)) => match self.guards.either(a, b) {
                Some(guard) => Some(guard),
                None => return self.settle(inst),
            },
            _ => None,
        };
        // An absent operand contributes a zero of either sign; only a present operand that is not -0 ensures
        // that the sum is not -0.
        let is_there = |mark: Mark| mark.guard.is_none() && !mark.loose;
        let loose = !is_there(x) && !is_there(y);
        let args = [self.number(a), self.number(b)];
        self.func.insts[inst].args = args.into_iter().collect();
        self.push(inst, Some(Mark { guard, wild: false, loose }));
    }

    fn select(&mut self, inst: Inst, c: Value, a: Value, b: Value) {
        let r = self.func.insts[inst].results[0];
        let (x, y) = (self.mark(a), self.mark(b));
        let is_nothing = |this: &Self, v: Value| {
            let lanes = this.defs.lanes(this.types, this.func, v);
            lanes.is_some_and(|(s, lanes)| lanes.iter().all(|&bits| ir::scalar::is_absent(s, bits)))
        };
        let taken = match (is_nothing(self, a), is_nothing(self, b)) {
            (false, true) => Some((Guard::Is(c), x)),
            (true, false) => Some((Guard::Not(c), y)),
            _ => None,
        };
        if let Some((guard, mark)) = taken {
            let own = self.leaf(guard, c);
            let both = match mark.guard {
                Some(of) => self.guards.both(own, of),
                None => Some(own),
            };
            if let Some(guard) = both {
                return self.push(inst, Some(Mark { guard: Some(guard), ..mark }));
            }
        } else if x == y && x != Mark::default() {
            return self.push(inst, Some(x));
        }
        let args = [c, self.settled_for(a, r), self.settled_for(b, r)];
        self.func.insts[inst].args = args.into_iter().collect();
        self.out.push(inst);
    }

    /// Reads a stack in a cell that grows with zeros, where a zero means that nothing was added to the
    /// element.
    fn read_sparse(&mut self, inst: Inst) {
        let r = self.func.insts[inst].results[0];
        if !self.is_asked(r) {
            return self.settle(inst);
        }
        let (ty, read) = (self.func.ty(r), self.func.value_like(r));
        self.func.insts[inst].results[0] = read;
        self.settle(inst);
        let zero = self.emit(Op::Zero, &[], ty);
        let bools = self.types.with_scalar(ty, Scalar::Bool);
        let condition = self.emit(Op::Ne, &[read, zero], bools);
        let nothing = self.nothing(r);
        let span = self.func.insts[inst].span;
        let select = self.func.make(Op::Select, &[condition, read, nothing], &[r], span);
        self.out.push(select);
    }

    // ---- exact values

    /// The exact value of a differential, which code outside of this pass may read.
    fn settled(&mut self, v: Value) -> Value {
        self.settled_for(v, v)
    }

    /// Like [`Self::settled`], for use in the differential `r`.
    fn settled_for(&mut self, v: Value, r: Value) -> Value {
        if !self.is_asked(r) {
            return self.number(v);
        }
        let Some(mark) = self.marks[v].filter(|mark| mark.wild || mark.loose) else { return v };
        let mut settled = v;
        if mark.loose {
            let zero = self.emit(Op::Zero, &[], self.func.ty(v));
            settled = self.emit_like(v, Op::Add, &[v, zero]);
        }
        if let Some(guard) = mark.guard {
            let (condition, nothing) = (self.condition(guard), self.nothing(v));
            settled = self.emit_like(v, Op::Select, &[condition, settled, nothing]);
        }
        settled
    }

    /// A differential as a number: an absent one becomes a zero of either sign.
    fn number(&mut self, v: Value) -> Value {
        let Some(Mark { guard: Some(guard), wild: true, .. }) = self.marks[v] else { return v };
        let condition = self.condition(guard);
        let zero = self.emit(Op::Zero, &[], self.func.ty(v));
        self.emit_like(v, Op::Select, &[condition, v, zero])
    }

    /// Emits the absent differential of a value's type.
    fn nothing(&mut self, v: Value) -> Value {
        self.asks = true;
        let ty = self.func.ty(v);
        let (op, args) = self.minus_zero(ty);
        self.emit(op, &args, ty)
    }

    fn condition(&mut self, guard: GuardId) -> Value {
        self.asks = true;
        let span = self.out.last().map_or(self.func.span, |&inst| self.func.insts[inst].span);
        let guards = std::mem::take(&mut self.guards);
        let (func, out) = (&mut *self.func, &mut self.out);
        let mut emit = |op: Op, args: &[Value], ty: Type| {
            let (inst, v) = make_number(func, op, args, ty, span);
            out.push(inst);
            v
        };
        let v = guards.condition(self.types, guard, &mut emit);
        self.guards = guards;
        v
    }

    fn emit_like(&mut self, like: Value, op: Op, args: &[Value]) -> Value {
        let made = self.emit(op, args, self.func.ty(like));
        self.func.values[made].name = self.func.values[like].name.clone();
        self.func.values[made].differential = self.func.values[like].differential;
        made
    }

    fn emit(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        let span = self.out.last().map_or(self.func.span, |&inst| self.func.insts[inst].span);
        let (inst, v) = make_number(self.func, op, args, ty, span);
        self.defs.add(self.func, inst);
        self.out.push(inst);
        debug_assert!(!matches!(self.types[ty], TypeData::Residuals(_)));
        v
    }
}
