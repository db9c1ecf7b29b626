//! Cuts the body of a function into blocks at the calls of some functions.
//!
//! Only what contains such a call is taken apart; all other control flow stays within its block. Results of
//! arms, and what loops carry, become variables, which the blocks set: the function is no longer in the form
//! of single definitions, and only [`super::machine`] reads it. The stacks that a loop yields become cells, to
//! which each trip adds.

use std::collections::BTreeSet;

use ir::analysis::points_to::has_handle;
use ir::walk::{for_each_def, free_values};
use ir::{
    Defs, Func, Function, Inst, InstData, LoopInfo, Op, Region, RegionData, Scalar, Span, Type, TypeData,
    Types, Value, ValueData,
};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// A step of a block.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// An instruction.
    Inst(Inst),
    /// Sets each first value to the second, all at once.
    Set(Vec<(Value, Value)>),
}

/// The end of a block.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// Another block follows.
    Jump(usize),
    /// The first block follows if the value is true, otherwise the second.
    Branch(Value, usize, usize),
    /// The block of the case follows, the last one if there is none.
    Switch(Value, Box<[i64]>, Vec<usize>),
    /// A call, after which the block `resume` follows.
    Call {
        /// The function that is called.
        callee: Func,
        /// The operands.
        args: Vec<Value>,
        /// The results.
        results: Vec<Value>,
        /// The block that follows.
        resume: usize,
    },
    /// The function ends with these results.
    Return(Vec<Value>),
}

/// A block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) steps: Vec<Step>,
    pub(super) end: End,
    /// The values that are live at the start of the block, other than those that each block computes again.
    pub(super) live: BTreeSet<Value>,
    /// The place of the call that ends the block.
    pub(super) span: Span,
}

/// The blocks of a function; the first one is where it begins.
pub(super) struct Blocks {
    /// The function, with the values and instructions that were added.
    pub(super) f: Function,
    pub(super) blocks: Vec<Block>,
    defs: Defs,
}

impl Blocks {
    /// Cuts a function at the calls of the group.
    pub(super) fn of(types: &mut Types, f: &Function, group: &[Func]) -> Blocks {
        let mut cutter = Cutter { types, f: f.clone(), group, blocks: Vec::new() };
        let first = cutter.block();
        let body = cutter.f.body();
        let last = cutter.region(body, first);
        cutter.blocks[last].end = End::Return(cutter.f.regions[body].results.clone());
        let Cutter { f, blocks, .. } = cutter;
        let mut defs = Defs::of(&f);
        for (inst, _) in &f.insts {
            defs.add(&f, inst);
        }
        let mut all = Blocks { f, blocks, defs };
        all.find_live(types);
        all
    }

    /// The instruction that each block runs again to have a value that was computed elsewhere: it reads nothing
    /// that may change, and gives a constant, a handle or a part of a cell.
    pub(super) fn again(&self, types: &Types, v: Value) -> Option<Inst> {
        let inst = self.defs.inst(v)?;
        let data = &self.f.insts[inst];
        let is_int = |v: Value| matches!(types[self.f.ty(v)], TypeData::Scalar(s) if s.is_int());
        let is_again = match &data.op {
            Op::Const(_) | Op::Zero | Op::GlobalRef(_) | Op::Builtin(_) | Op::OnDevice | Op::SubCell => true,
            Op::BufferOffset
            | Op::BufferCast(_)
            | Op::BufferLoad(_)
            | Op::Select
            | Op::Detach
            | Op::Construct
            | Op::Splat
            | Op::Extract(_)
            | Op::Insert(_)
            | Op::Index => has_handle(types, self.f.ty(v)),
            // An offset, and the number of a handle's origin.
            Op::Convert => is_int(v) && data.args.iter().all(|&arg| is_int(arg)),
            Op::Eq => {
                matches!(self.defs.op(&self.f, data.args[1]), Some(Op::Const(_))) && is_int(data.args[1])
            }
            _ => false,
        };
        is_again.then_some(inst)
    }

    /// Adds the values that must be kept for a block that uses `v`.
    fn demand(&self, types: &Types, v: Value, live: &mut BTreeSet<Value>) {
        let (mut work, mut seen) = (vec![v], FxHashSet::default());
        while let Some(v) = work.pop() {
            match self.again(types, v) {
                Some(inst) => work.extend(self.f.insts[inst].args.iter().filter(|&&arg| seen.insert(arg))),
                None => _ = live.insert(v),
            }
        }
    }

    /// The operands of an instruction, and the values that its regions use.
    pub(super) fn operands(&self, inst: Inst) -> Vec<Value> {
        let data = &self.f.insts[inst];
        let mut all = data.args.to_vec();
        data.regions.iter().for_each(|&region| all.extend(free_values(&self.f, region)));
        all
    }

    /// Finds the live values of all blocks, from the last to the first, until nothing changes.
    fn find_live(&mut self, types: &Types) {
        loop {
            let mut changed = false;
            for k in (0..self.blocks.len()).rev() {
                let live = self.live_before(types, k);
                changed |= live != self.blocks[k].live;
                self.blocks[k].live = live;
            }
            if !changed {
                break;
            }
        }
    }

    fn live_before(&self, types: &Types, k: usize) -> BTreeSet<Value> {
        let block = &self.blocks[k];
        let mut live = BTreeSet::new();
        let uses = |live: &mut BTreeSet<Value>, v: Value| self.demand(types, v, live);
        match &block.end {
            End::Jump(to) => live.clone_from(&self.blocks[*to].live),
            End::Branch(c, yes, no) => {
                live.extend(&self.blocks[*yes].live);
                live.extend(&self.blocks[*no].live);
                uses(&mut live, *c);
            }
            End::Switch(tag, _, targets) => {
                targets.iter().for_each(|&to| live.extend(&self.blocks[to].live));
                uses(&mut live, *tag);
            }
            End::Call { args, results, resume, .. } => {
                live.clone_from(&self.blocks[*resume].live);
                results.iter().for_each(|v| _ = live.remove(v));
                args.iter().for_each(|&v| uses(&mut live, v));
            }
            End::Return(results) => results.iter().for_each(|&v| uses(&mut live, v)),
        }
        for step in block.steps.iter().rev() {
            match step {
                Step::Set(pairs) => {
                    pairs.iter().for_each(|(to, _)| _ = live.remove(to));
                    pairs.iter().for_each(|&(_, from)| uses(&mut live, from));
                }
                Step::Inst(inst) => {
                    let data = &self.f.insts[*inst];
                    data.results.iter().for_each(|v| _ = live.remove(v));
                    for &region in &data.regions {
                        for_each_def(&self.f, region, &mut |v| _ = live.remove(&v));
                    }
                    self.operands(*inst).into_iter().for_each(|v| uses(&mut live, v));
                }
            }
        }
        live
    }
}

struct Cutter<'a> {
    types: &'a mut Types,
    f: Function,
    group: &'a [Func],
    blocks: Vec<Block>,
}

impl Cutter<'_> {
    fn block(&mut self) -> usize {
        let (steps, live) = (Vec::new(), BTreeSet::new());
        self.blocks.push(Block { steps, end: End::Jump(0), live, span: Span::NONE });
        self.blocks.len() - 1
    }

    fn set(&mut self, at: usize, to: &[Value], from: &[Value]) {
        let pairs: Vec<(Value, Value)> = to.iter().copied().zip(from.iter().copied()).collect();
        if !pairs.is_empty() {
            self.blocks[at].steps.push(Step::Set(pairs));
        }
    }

    /// Adds an instruction that gives a value.
    fn value(&mut self, at: usize, op: Op, args: &[Value], ty: Type, span: Span) -> Value {
        let (inst, v) = self.f.make_value(op, args, ValueData::new(ty), span);
        self.blocks[at].steps.push(Step::Inst(inst));
        v
    }

    /// Adds an instruction that gives nothing.
    fn effect(&mut self, at: usize, op: Op, args: &[Value], span: Span) {
        let inst = self.f.make(op, args, &[], span);
        self.blocks[at].steps.push(Step::Inst(inst));
    }

    fn constant(&mut self, at: usize, ty: Type, n: u64) -> Value {
        self.value(at, Op::Const(n), &[], ty, Span::NONE)
    }

    fn variable(&mut self, ty: Type) -> Value {
        self.f.values.push(ValueData::new(ty))
    }

    /// Returns true if an instruction is a call of the group, or has one in its regions.
    fn is_cut(&self, inst: Inst) -> bool {
        let is_call =
            |inst: Inst| matches!(self.f.insts[inst].op, Op::Call(callee) if self.group.contains(&callee));
        is_call(inst) || self.f.insts[inst].regions.iter().any(|&region| self.f.any(region, &is_call))
    }

    /// Appends the instructions of a region to a block; returns the block in which they end.
    fn region(&mut self, region: Region, mut at: usize) -> usize {
        for inst in self.f.regions[region].insts.clone() {
            at = self.inst(inst, at);
        }
        at
    }

    fn inst(&mut self, inst: Inst, at: usize) -> usize {
        if !self.is_cut(inst) {
            self.blocks[at].steps.push(Step::Inst(inst));
            return at;
        }
        let data = self.f.insts[inst].clone();
        match data.op {
            Op::Call(callee) => {
                let resume = self.block();
                let (args, results) = (data.args.to_vec(), data.results.to_vec());
                self.blocks[at].end = End::Call { callee, args, results, resume };
                self.blocks[at].span = data.span;
                resume
            }
            Op::For(info) => self.counted(&data, info, at),
            Op::Loop(info) => self.repeated(&data, info, at),
            op => {
                let starts: Vec<usize> = data.regions.iter().map(|_| self.block()).collect();
                let after = self.block();
                for (&arm, &start) in data.regions.iter().zip(&starts) {
                    let end = self.region(arm, start);
                    let results = self.f.regions[arm].results.clone();
                    self.set(end, &data.results, &results);
                    self.blocks[end].end = End::Jump(after);
                }
                self.blocks[at].end = match op {
                    Op::Switch(cases) => End::Switch(data.args[0], cases, starts),
                    _ => End::Branch(data.args[0], starts[0], starts[1]),
                };
                after
            }
        }
    }

    /// Makes the cells of the stacks that a loop yields, and a variable for the number of its trips.
    fn stacks(&mut self, stacks: &[Value], at: usize, span: Span) -> Vec<Value> {
        let mut cells = Vec::new();
        for &stack in stacks {
            let element = self.types.element(self.f.ty(stack)).expect("a stack has elements");
            let held = held_type(self.types, element);
            let ty = self.types.stack(held);
            let cell = self.types.cell(ty);
            let empty = self.value(at, Op::Zero, &[], ty, span);
            cells.push(self.value(at, Op::Local, &[empty], cell, span));
        }
        cells
    }

    /// Adds the values of a trip to the stacks.
    fn keep(&mut self, cells: &[Value], trip: Value, values: &[Value], at: usize, span: Span) {
        for (&cell, &v) in cells.iter().zip(values) {
            let mut steps = Vec::new();
            let v = held(self.types, &mut self.f, v, span, &mut steps);
            let ty = self.f.ty(v);
            let identity = identity(self.types, &mut self.f, ty, span, &mut steps);
            self.blocks[at].steps.extend(steps.into_iter().map(Step::Inst));
            self.effect(at, Op::AddTo, &[cell, trip, identity], span);
            self.effect(at, Op::Store, &[cell, trip, v], span);
        }
    }

    /// Gives the results of a loop of `trips` trips their values.
    fn results(&mut self, data: &InstData, carried: &[Value], cells: &[Value], trips: Value, at: usize) {
        let (mut from, span) = (carried.to_vec(), data.span);
        for (&cell, &result) in cells.iter().zip(&data.results[carried.len()..]) {
            let ty = self.types.content(self.f.ty(cell)).expect("a cell has a content");
            let stack = self.value(at, Op::Load, &[cell], ty, span);
            from.push(if ty == self.f.ty(result) {
                stack
            } else {
                self.released(stack, self.f.ty(result), trips, at, span)
            });
        }
        self.set(at, &data.results, &from);
    }

    /// A stack of `n` elements as one of type `ty`: see [`held`].
    fn released(&mut self, stack: Value, ty: Type, n: Value, at: usize, span: Span) -> Value {
        let element = self.types.element(ty).expect("a stack has elements");
        let inner = self.types.element(self.f.ty(stack)).expect("a stack has elements");
        let i = self.f.values.push(ValueData::new(self.f.ty(n)));
        let (read, v) = self.f.make_value(Op::Index, &[stack, i], ValueData::new(inner), span);
        let mut insts = vec![read];
        let v = released(self.types, &mut self.f, v, element, span, &mut insts);
        let body = self.f.regions.push(RegionData { params: vec![i], insts, results: vec![v] });
        let result = self.value(at, Op::For(LoopInfo::default()), &[n], ty, span);
        let Some(Step::Inst(made)) = self.blocks[at].steps.last() else { unreachable!("just added") };
        self.f.insts[*made].regions.push(body);
        result
    }

    fn counted(&mut self, data: &InstData, info: LoopInfo, at: usize) -> usize {
        let (span, region) = (data.span, data.regions[0]);
        let (n, ty) = (data.args[0], self.f.ty(data.args[0]));
        let n_carried = data.n_carried();
        let params = self.f.regions[region].params.clone();
        let yields = self.f.regions[region].results.clone();
        let cells = self.stacks(&data.results[n_carried..], at, span);
        if let (Some(most), false) = (info.max_iters, cells.is_empty()) {
            self.check_trips(n, most, at, span);
        }
        let (zero, one) = (self.constant(at, ty, 0), self.constant(at, ty, 1));
        // The number of trips that have ended, or that are left.
        let count = self.variable(ty);
        self.set(at, &[count], &[if info.down { n } else { zero }]);
        self.set(at, &params[1..], &data.args[1..]);
        let (head, body, after) = (self.block(), self.block(), self.block());
        self.blocks[at].end = End::Jump(head);
        let end = if info.down { zero } else { n };
        let goes_on = self.value(head, Op::Ne, &[count, end], Type::BOOL, span);
        self.blocks[head].end = End::Branch(goes_on, body, after);
        let (i, trip) = match info.down {
            true => {
                let i = self.value(body, Op::Sub, &[count, one], ty, span);
                (i, self.value(body, Op::Sub, &[n, count], ty, span))
            }
            false => (count, count),
        };
        self.set(body, &params[..1], &[i]);
        let trip = match cells.is_empty() {
            true => trip,
            false => {
                let kept = self.variable(ty);
                self.set(body, &[kept], &[trip]);
                kept
            }
        };
        let last = self.region(region, body);
        self.keep(&cells, trip, &yields[n_carried..], last, span);
        let way = if info.down { Op::Sub } else { Op::Add };
        let next = self.value(last, way, &[count, one], ty, span);
        let to: SmallVec<[Value; 8]> = std::iter::once(count).chain(params[1..].iter().copied()).collect();
        let from: SmallVec<[Value; 8]> =
            std::iter::once(next).chain(yields[..n_carried].iter().copied()).collect();
        self.set(last, &to, &from);
        self.blocks[last].end = End::Jump(head);
        self.results(data, &params[1..], &cells, n, after);
        after
    }

    /// Stops the run if a counted loop would make more trips than its bound.
    fn check_trips(&mut self, n: Value, most: u32, at: usize, span: Span) {
        let unsigned = match self.types[self.f.ty(n)] {
            TypeData::Scalar(Scalar::I64 | Scalar::U64) => Type::U64,
            _ => Type::U32,
        };
        let n = match self.f.ty(n) == unsigned {
            true => n,
            false => self.value(at, Op::Bitcast, &[n], unsigned, span),
        };
        let limit = self.constant(at, unsigned, u64::from(most));
        let fits = self.value(at, Op::Le, &[n, limit], Type::BOOL, span);
        self.effect(at, Op::Assert(ir::interp::max_iters_message(most).into()), &[fits], span);
    }

    fn repeated(&mut self, data: &InstData, info: LoopInfo, at: usize) -> usize {
        let (span, region) = (data.span, data.regions[0]);
        let n_carried = data.n_carried();
        let params = self.f.regions[region].params.clone();
        let yields = self.f.regions[region].results.clone();
        let cells = self.stacks(&data.results[n_carried..], at, span);
        let (zero, one) = (self.constant(at, Type::U32, 0), self.constant(at, Type::U32, 1));
        let trip = self.variable(Type::U32);
        self.set(at, &[trip], &[zero]);
        self.set(at, &params, &data.args);
        let (body, after) = (self.block(), self.block());
        self.blocks[at].end = End::Jump(body);
        let last = self.region(region, body);
        self.keep(&cells, trip, &yields[1 + n_carried..], last, span);
        let mut again = yields[0];
        if let (Some(most), false) = (info.max_iters, cells.is_empty()) {
            let limit = self.constant(last, Type::U32, u64::from(most));
            let fits = self.value(last, Op::Lt, &[trip, limit], Type::BOOL, span);
            let ends = self.value(last, Op::Not, &[again], Type::BOOL, span);
            let holds = self.value(last, Op::Or, &[ends, fits], Type::BOOL, span);
            self.effect(last, Op::Assert(ir::interp::max_iters_message(most).into()), &[holds], span);
            again = self.value(last, Op::And, &[again, fits], Type::BOOL, span);
        }
        let next = self.value(last, Op::Add, &[trip, one], Type::U32, span);
        // The condition is read before what the loop carries is set.
        let goes_on = self.variable(Type::BOOL);
        let to: Vec<Value> = [trip, goes_on].into_iter().chain(params.iter().copied()).collect();
        let from: Vec<Value> =
            [next, again].into_iter().chain(yields[1..=n_carried].iter().copied()).collect();
        self.set(last, &to, &from);
        self.blocks[last].end = End::Branch(goes_on, body, after);
        self.results(data, &params, &cells, trip, after);
        after
    }
}

/// The type as which a value is held in a stack that grows: `bool` cannot be added, so it is a `u32` there.
pub(super) fn held_type(types: &mut Types, ty: Type) -> Type {
    match types[ty] {
        TypeData::Scalar(Scalar::Bool) => Type::U32,
        TypeData::Vector(Scalar::Bool, n) => types.vector(Scalar::U32, n),
        TypeData::Array(element, n) => {
            let element = held_type(types, element);
            types.array(element, n)
        }
        _ => ty,
    }
}

/// A value as it is held; the instructions that make it are appended.
pub(super) fn held(types: &mut Types, f: &mut Function, v: Value, span: Span, out: &mut Vec<Inst>) -> Value {
    let ty = held_type(types, f.ty(v));
    converted(types, f, v, ty, span, out)
}

/// A value of type `ty` that is held.
pub(super) fn released(
    types: &mut Types,
    f: &mut Function,
    v: Value,
    ty: Type,
    span: Span,
    out: &mut Vec<Inst>,
) -> Value {
    converted(types, f, v, ty, span, out)
}

fn converted(
    types: &mut Types,
    f: &mut Function,
    v: Value,
    to: Type,
    span: Span,
    out: &mut Vec<Inst>,
) -> Value {
    if f.ty(v) == to {
        return v;
    }
    let mut make = |f: &mut Function, op: Op, args: &[Value], ty: Type| {
        let (inst, v) = f.make_value(op, args, ValueData::new(ty), span);
        out.push(inst);
        v
    };
    let (TypeData::Array(element, n), Some(from)) = (types[to], types.element(f.ty(v))) else {
        return make(f, Op::Convert, &[v], to);
    };
    let parts: Vec<Value> = (0..n).map(|k| make(f, Op::Extract(k), &[v], from)).collect();
    let parts: Vec<Value> = parts.into_iter().map(|v| converted(types, f, v, element, span, out)).collect();
    let (inst, v) = f.make_value(Op::Construct, &parts, ValueData::new(to), span);
    out.push(inst);
    v
}

/// The value of a type that changes nothing when it is added: -0 for floats, zero or the empty stack; the
/// instructions that make it are appended.
pub(crate) fn identity(types: &Types, f: &mut Function, ty: Type, span: Span, out: &mut Vec<Inst>) -> Value {
    let mut make = |f: &mut Function, op: Op, args: &[Value], ty: Type| {
        let (inst, v) = f.make_value(op, args, ValueData::new(ty), span);
        out.push(inst);
        v
    };
    let Some(s) = types.scalar_of(ty).filter(|s| s.is_float() && !types.has_stack(ty)) else {
        return make(f, Op::Zero, &[], ty);
    };
    let (mut nested, mut at) = (Vec::new(), ty);
    while let Some(element) = types.element(at) {
        nested.push(at);
        at = element;
    }
    let mut v = make(f, Op::Const(ir::scalar::absent(s)), &[], s.into());
    for ty in nested.into_iter().rev() {
        v = make(f, Op::Splat, &[v], ty);
    }
    v
}
