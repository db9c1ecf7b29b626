//! Folds constants and applies algebraic rules, each directional and each an equality of total functions.
//!
//! The pass is one walk in program order: an instruction whose operands are final is offered to the rules
//! until none fires. A rule replaces the instruction's result by a value that is visible there, or rewrites
//! the instruction in place to a simpler one. Every step therefore shrinks the program or brings it closer to
//! a normal form, and the walk ends.
//!
//! - [`rules`]: arithmetic, comparisons, conversions, as a table. No rule removes a NaN or changes the sign of
//!   a zero, unless the user asked for fast mathematics.
//! - [`algebra`]: what is not in the table. Constants are computed by `ir::scalar`, the same functions that the
//!   interpreter uses.
//! - [`aggregate`]: vectors and arrays: `extract` gives the element that `construct` or `insert` set.
//! - [`control`]: constant conditions, arms that agree, loops that run no times, carried values that never
//!   change. Within the arms of `if(c)` the value of `c` is known.
//! - [`again`]: the condition on which a loop repeats stays an `if` of constants, since a backend turns that
//!   into jumps.

mod again;
mod aggregate;
mod algebra;
mod control;
mod rules;

use cranelift_entity::SecondaryMap;
use ir::analysis::{Defs, Lanes};
use ir::{Class, Function, Inst, Op, Region, Scalar, Span, Type, TypeData, Types, Value};
use smallvec::SmallVec;

use crate::Options;
use crate::util::make;
use ir::transform::Subst;

/// Simplifies a function; returns true if anything changed.
pub(crate) fn run(types: &mut Types, func: &mut Function, options: &Options) -> bool {
    let defs = Defs::of(func);
    let mut negates = false;
    func.walk(func.body(), &mut |inst| negates |= func.insts[inst].op == Op::Neg);
    let uses = negates.then(|| ir::walk::use_counts(func));
    let mut s = Simplify {
        types,
        defs,
        uses,
        fast: options.fast_math || func.fast_math,
        on_device: options.on_device,
        subst: Subst::default(),
        known: SecondaryMap::new(),
        trips: SecondaryMap::new(),
        again: None,
        out: Vec::new(),
        span: Span::NONE,
        changed: false,
        func,
    };
    let body = s.func.body();
    s.region(body);
    s.changed
}

/// The effect of a rule on an instruction.
enum Step {
    /// The instruction did not change.
    Keep,
    /// The instruction was changed in place; try the rules again.
    Again,
    /// The instruction was removed and its results were substituted.
    Gone,
}

struct Simplify<'a> {
    types: &'a mut Types,
    func: &'a mut Function,
    defs: Defs,
    /// The number of uses of each value when the walk began; only computed if the function contains a
    /// negation.
    uses: Option<SecondaryMap<Value, u32>>,
    fast: bool,
    /// See [`Options::on_device`].
    on_device: Option<bool>,
    subst: Subst,
    /// Conditions whose value is known in the arm being walked.
    known: SecondaryMap<Value, Option<bool>>,
    /// For the counters of `for` loops: the number of trips.
    trips: SecondaryMap<Value, Option<Value>>,
    /// The result `again` of the loop body being walked. It is kept as an `if` of constants, which the
    /// backend turns into jumps.
    again: Option<Value>,
    /// The instructions of the region being walked, so far.
    out: Vec<Inst>,
    span: Span,
    changed: bool,
}

impl Simplify<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let saved = std::mem::replace(&mut self.out, Vec::with_capacity(insts.len()));
        for inst in insts {
            self.inst(inst);
        }
        self.func.regions[region].insts = std::mem::replace(&mut self.out, saved);
        self.subst.apply_results(self.func, region);
    }

    fn inst(&mut self, inst: Inst) {
        self.subst.apply(self.func, inst);
        self.span = self.func.insts[inst].span;
        // Each rule makes the instruction simpler; the bound limits long chains of `insert`.
        for _ in 0..256 {
            let step = self.step(inst);
            match step {
                Step::Keep => break,
                Step::Again => self.changed = true,
                Step::Gone => {
                    self.changed = true;
                    return;
                }
            }
        }
        self.out.push(inst);
    }

    fn step(&mut self, inst: Inst) -> Step {
        match &self.func.insts[inst].op {
            Op::Const(_) | Op::Absent => Step::Keep,
            Op::Zero => self.zero(inst),
            Op::Select | Op::Detach => self.algebra(inst),
            Op::Assert(_) => match self.boolean(self.func.insts[inst].args[0]) {
                Some(true) => Step::Gone,
                _ => Step::Keep,
            },
            // An absent differential is finite; as an operand that is only reported it is kept.
            Op::CheckFinite(_) if self.is_absent(self.func.insts[inst].args[0]) => {
                let absent = self.func.insts[inst].args[0];
                self.replace(inst, absent)
            }
            Op::CheckFinite(_) => Step::Keep,
            Op::BufferOffset => {
                let args = &self.func.insts[inst].args;
                let (base, by) = (args[0], args[1]);
                match self.scalar(by) {
                    Some((_, 0)) => self.replace(inst, base),
                    _ => Step::Keep,
                }
            }
            // Adding an absent differential has no effect: a stack reads as absent where it does not grow.
            Op::AddTo if self.func.insts[inst].args.last().is_some_and(|&x| self.is_absent(x)) => Step::Gone,
            Op::AddTo | Op::Store => self.write(inst),
            Op::OnDevice => match self.on_device {
                Some(is) => self.rewrite(inst, Op::Const(u64::from(is)), &[]),
                None => Step::Keep,
            },
            Op::HandleBits => {
                let handle = self.func.insts[inst].args[0];
                match self.operands(handle, |op| *op == Op::HandleOf) {
                    Some(args) => self.replace(inst, args[0]),
                    None if self.on_device == Some(true) => self.address(inst, handle),
                    None => Step::Keep,
                }
            }
            op => match op.spec().class {
                Class::Number | Class::Differential => self.algebra(inst),
                Class::Aggregate => self.aggregate(inst),
                Class::Control => self.control(inst),
                Class::Cell | Class::World | Class::Call => Step::Keep,
            },
        }
    }

    /// On a device, where no pointer is made of a number, the number of a handle is its address.
    fn address(&mut self, inst: Inst, handle: Value) -> Step {
        let pair = self.types.vector(Scalar::U32, 2);
        let words = self.emit(Op::BufferAddress, &[handle], pair);
        let halves = [0, 1].map(|k| {
            let word = self.emit(Op::Extract(k), &[words], Type::U32);
            self.emit(Op::Convert, &[word], Type::U64)
        });
        let by = self.constant(Scalar::U64, 32);
        let high = self.emit(Op::Shl, &[halves[1], by], Type::U64);
        self.rewrite(inst, Op::Or, &[high, halves[0]])
    }

    // ---- facts about values

    fn ty(&self, v: Value) -> Type {
        self.func.ty(v)
    }

    fn op(&self, v: Value) -> Option<&Op> {
        self.defs.op(self.func, v)
    }

    /// The operands of the instruction that defines `v`, if its op is the one that `is` accepts.
    fn operands(&self, v: Value, is: impl Fn(&Op) -> bool) -> Option<SmallVec<[Value; 4]>> {
        let inst = self.defs.inst(v)?;
        let data = &self.func.insts[inst];
        is(&data.op).then(|| data.args.iter().map(|&a| self.subst.get(a)).collect())
    }

    /// The operand of the one-operand op that defines `v`.
    fn under(&self, v: Value, op: &Op) -> Option<Value> {
        let inst = self.defs.inst(v)?;
        let data = &self.func.insts[inst];
        (data.op == *op).then(|| self.subst.get(data.args[0]))
    }

    fn scalar(&self, v: Value) -> Option<(Scalar, u64)> {
        if let Some(b) = self.known[v] {
            return Some((Scalar::Bool, b as u64));
        }
        self.defs.scalar(self.types, self.func, v)
    }

    fn lanes(&self, v: Value) -> Option<(Scalar, Lanes)> {
        if let Some(b) = self.known[v] {
            return Some((Scalar::Bool, SmallVec::from_elem(b as u64, 1)));
        }
        self.defs.lanes(self.types, self.func, v)
    }

    /// The bits of a constant all of whose lanes are equal.
    fn uniform(&self, v: Value) -> Option<(Scalar, u64)> {
        let (s, lanes) = self.lanes(v)?;
        lanes.iter().all(|&b| b == lanes[0]).then_some((s, lanes[0]))
    }

    fn boolean(&self, v: Value) -> Option<bool> {
        match self.scalar(v)? {
            (Scalar::Bool, bits) => Some(bits != 0),
            _ => None,
        }
    }

    /// Returns true if `v` is the absent differential.
    fn is_absent(&self, v: Value) -> bool {
        self.op(v) == Some(&Op::Absent)
    }

    fn is_zero_op(&self, v: Value) -> bool {
        self.op(v) == Some(&Op::Zero)
    }

    /// Returns true if two values are the same value, or equal constants.
    fn same(&self, a: Value, b: Value) -> bool {
        if a == b {
            return true;
        }
        if self.ty(a) != self.ty(b) || self.func.is_linear(a) != self.func.is_linear(b) {
            return false;
        }
        match (self.op(a), self.op(b)) {
            (Some(Op::Const(x)), Some(Op::Const(y))) => x == y,
            (Some(Op::Zero), Some(Op::Zero)) | (Some(Op::Absent), Some(Op::Absent)) => true,
            _ => false,
        }
    }

    // ---- actions of rules

    /// Replaces the instruction's only result by a value.
    fn replace(&mut self, inst: Inst, by: Value) -> Step {
        let r = self.func.result(inst);
        debug_assert_eq!(self.ty(r), self.ty(by));
        if self.func.values[by].name.is_none() {
            self.func.values[by].name = self.func.values[r].name.clone();
        }
        self.subst.set(r, by);
        Step::Gone
    }

    /// Turns the instruction into another op.
    fn rewrite(&mut self, inst: Inst, op: Op, args: &[Value]) -> Step {
        let data = &mut self.func.insts[inst];
        data.op = op;
        data.args = args.into();
        Step::Again
    }

    /// Emits a new instruction before the current one, whose result is not linear.
    fn emit(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        self.emit_marked(op, args, ty, false)
    }

    /// Emits a new instruction before the current one.
    fn emit_marked(&mut self, op: Op, args: &[Value], ty: Type, linear: bool) -> Value {
        let (inst, v) = make(self.func, op, args, ty, linear, self.span);
        self.defs.add(self.func, inst);
        self.out.push(inst);
        v
    }

    fn constant(&mut self, s: Scalar, bits: u64) -> Value {
        self.emit(Op::Const(bits), &[], s.into())
    }

    /// Turns the instruction into a constant with these lanes.
    fn be_lanes(&mut self, inst: Inst, s: Scalar, lanes: &[u64]) -> Step {
        let ty = self.ty(self.func.result(inst));
        if self.types.lanes(ty).is_none() {
            return self.rewrite(inst, Op::Const(lanes[0]), &[]);
        }
        if lanes.iter().all(|&b| b == 0) {
            return self.rewrite(inst, Op::Zero, &[]);
        }
        if lanes.iter().all(|&b| b == lanes[0]) {
            let c = self.constant(s, lanes[0]);
            self.rewrite(inst, Op::Splat, &[c]);
        } else {
            let parts: SmallVec<[Value; 4]> = lanes.iter().map(|&b| self.constant(s, b)).collect();
            self.rewrite(inst, Op::Construct, &parts);
        }
        self.changed = true;
        Step::Keep
    }

    /// Turns the instruction into the op `zero`.
    fn be_zero(&mut self, inst: Inst) -> Step {
        self.rewrite(inst, Op::Zero, &[])
    }

    /// Turns a scalar zero into a constant.
    fn zero(&mut self, inst: Inst) -> Step {
        let r = self.func.result(inst);
        match self.types[self.ty(r)] {
            TypeData::Scalar(_) if !self.func.is_linear(r) => self.rewrite(inst, Op::Const(0), &[]),
            _ => Step::Keep,
        }
    }
}
