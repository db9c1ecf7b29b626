//! Rewrites a function whose values may be stacks.

use cranelift_entity::SecondaryMap;
use ir::build::Builder;
use ir::walk::ValueMap;
use ir::{Func, Function, Inst, InstData, LoopInfo, Module, Op, Region, Scalar, Type, Types, Value};
use rustc_hash::FxHashMap;

use super::records::Pushed;
use super::{Cx, Facts, Helper, plain, runtime};

/// Rewrites one function.
pub(super) struct Rewriter<'a, 'm> {
    pub(super) cx: &'a mut Cx<'m>,
    pub(super) f: &'a Function,
    pub(super) facts: Facts,
    /// Each part of a cell: the cell and the indices that lead to the part.
    pub(super) sub_cells: FxHashMap<Value, Vec<Value>>,
    /// The headers of cells' stacks that are known at this place of the region.
    pub(super) headers: FxHashMap<Value, super::cells::Header>,
    /// How many levels of stacks each cell owns.
    pub(super) owned: FxHashMap<Value, usize>,
    /// The functions that use the arena.
    uses: &'a FxHashMap<Func, bool>,
    /// The values that hold stacks.
    stacks: SecondaryMap<Value, bool>,
    /// The stacks that are passed on together, as records.
    pub(super) records: super::records::Records,
    tree: ir::analysis::Tree,
    map: ValueMap,
}

impl<'a, 'm> Rewriter<'a, 'm> {
    /// The function without stacks.
    pub(super) fn run(
        cx: &'a mut Cx<'m>,
        types: &mut Types,
        module: &'a Module,
        func: Func,
        uses: &'a FxHashMap<Func, bool>,
        is_entry: bool,
    ) -> Function {
        let f = &module.funcs[func];
        let mut stacks = SecondaryMap::new();
        for (v, data) in &f.values {
            stacks[v] = types.has_stack(data.ty);
        }
        let (facts, records) = (Facts::of(f), super::records::Records::of(types, f));
        let mut rewriter = Rewriter {
            cx,
            f,
            headers: FxHashMap::default(),
            owned: super::cells::owned(types, f, &facts.defs),
            facts,
            sub_cells: FxHashMap::default(),
            uses,
            stacks,
            records,
            tree: ir::analysis::Tree::of(f),
            map: ValueMap::new(),
        };
        let mut b = Builder::new(types, f.name.clone());
        let slots = |types: &mut Types, slots: &[ir::Slot]| -> Vec<ir::Slot> {
            let number = |types: &mut Types, slot: &ir::Slot| match plain(types, slot.ty) {
                ty if ty == slot.ty => slot.clone(),
                // The place of a stack has no tangent.
                ty => ir::Slot { ty, diff: false, linear: false, name: slot.name.clone() },
            };
            slots.iter().map(|slot| number(types, slot)).collect()
        };
        let params = slots(b.types, &f.params);
        let results = slots(b.types, &f.results);
        for (&v, slot) in f.regions[f.body()].params.iter().zip(params) {
            let made = b.param(slot);
            rewriter.map.set(v, made);
        }
        let gives = f.regions[f.body()].results.iter().any(|&v| rewriter.stacks[v]);
        let mark = (uses[&func] && !gives && !is_entry).then(|| rewriter.mark(&mut b));
        rewriter.region(&mut b, f.body());
        let values = rewriter.all(&f.regions[f.body()].results);
        rewriter.release(&mut b, mark);
        let made = b.finish(values, results);
        Function {
            inline: f.inline,
            reruns: f.reruns,
            fast_math: f.fast_math,
            checkpoint: f.checkpoint,
            origin: f.origin,
            span: f.span,
            ..made
        }
    }

    pub(super) fn get(&self, v: Value) -> Value {
        self.map.at(v)
    }

    /// Gives a value its counterpart, and that the value's name.
    pub(super) fn set(&mut self, b: &mut Builder, v: Value, made: Value) {
        if let Some(name) = &self.f.values[v].name {
            b.name(made, name);
        }
        self.map.set(v, made);
    }

    pub(super) fn types_have_stack(&self, v: Value) -> bool {
        self.stacks[v]
    }

    /// The front of the free memory.
    fn mark(&mut self, b: &mut Builder) -> Value {
        self.cx.own(b, self.cx.top)
    }

    /// Gives back the memory that was taken since the mark.
    fn release(&mut self, b: &mut Builder, mark: Option<Value>) {
        if let Some(mark) = mark {
            self.cx.set_own(b, self.cx.top, mark);
        }
    }

    /// The counterparts of values.
    fn all(&self, values: &[Value]) -> Vec<Value> {
        values.iter().map(|&v| self.get(v)).collect()
    }

    /// Rewrites the instructions of a region into the open one.
    fn region(&mut self, b: &mut Builder, region: Region) {
        // A header is only known to stay within a region, between instructions that have none.
        self.headers.clear();
        for &inst in &self.f.regions[region].insts {
            self.inst(b, inst);
            if !self.f.insts[inst].regions.is_empty() {
                self.headers.clear();
            }
        }
        self.headers.clear();
    }

    fn inst(&mut self, b: &mut Builder, inst: Inst) {
        let data = &self.f.insts[inst];
        b.span = data.span;
        if self.cell(b, data) {
            return;
        }
        match &data.op {
            Op::Zero | Op::Absent if self.stacks[data.results[0]] => {
                let zero = b.u32(0);
                self.set(b, data.results[0], zero);
            }
            Op::Index if self.stacks[data.args[0]] => self.index(b, data),
            Op::For(info) => self.counted(b, data, *info, inst),
            Op::Loop(info) => self.repeated(b, data, *info, inst),
            op => {
                let args = self.all(&data.args);
                let mut regions = Vec::new();
                for &region in &data.regions {
                    regions.push(b.open());
                    self.region(b, region);
                    let results = self.results_of_arm(b, data, region);
                    b.close(results);
                }
                b.span = data.span;
                let mut results = Vec::new();
                for &v in data.results.iter().filter(|&&v| self.records.bundles.member(v).is_none()) {
                    let mut value = self.f.values[v].clone();
                    value.ty = plain(b.types, value.ty);
                    let made = b.func.values.push(value);
                    self.map.set(v, made);
                    results.push(made);
                }
                results.extend(self.joined(b, data));
                b.push(op.clone(), &args, &results, &regions);
            }
        }
    }

    /// Returns true if memory that is taken in a loop's body is free again at the end of each trip.
    fn releases(&self, data: &InstData) -> bool {
        let region = data.regions[0];
        let carries = self.f.regions[region].results.iter().any(|&v| self.stacks[v]);
        let keeps = matches!(data.op, Op::Loop(_)) && data.results.len() > data.n_carried();
        let takes = |inst: Inst| {
            let data = &self.f.insts[inst];
            match data.op {
                Op::Call(callee) => self.uses.get(&callee).copied().unwrap_or(false),
                Op::Index => false,
                Op::Store | Op::AddTo => self.stacks[data.args[0]],
                _ => data.results.iter().any(|&v| self.stacks[v]),
            }
        };
        let changes_outer = |inst: Inst| {
            let data = &self.f.insts[inst];
            if !matches!(data.op, Op::Store | Op::AddTo) || !self.stacks[data.args[0]] {
                return false;
            }
            let root = ir::analysis::points_to::root_cell(self.f, &self.facts.defs, data.args[0]);
            let home = self.facts.defs.inst(root).and_then(|inst| self.tree.home(inst));
            home.is_none_or(|home| !self.tree.contains(region, home))
        };
        !carries && !keeps && self.f.any(region, &takes) && !self.f.any(region, &changes_outer)
    }

    /// The parameters of a loop's body.
    fn params(&mut self, b: &mut Builder, region: Region) {
        for &param in &self.f.regions[region].params {
            let ty = plain(b.types, self.f.ty(param));
            let made = b.region_param(ty);
            self.set(b, param, made);
        }
    }

    fn counted(&mut self, b: &mut Builder, data: &InstData, info: LoopInfo, inst: Inst) {
        let n_carried = data.n_carried();
        let region = data.regions[0];
        let mut args = self.all(&data.args);
        let stacks = self.pushed(b.types, inst);
        // `trips` is the number as an index, with which the stacks are made.
        let (mut made, mut trips) = (Vec::new(), None);
        if !stacks.is_empty() {
            if let Some(most) = info.max_iters {
                args[0] = self.at_most(b, args[0], most);
            }
            let n = self.count(b, args[0]);
            trips = Some(n);
            for stack in &stacks {
                let size = b.u32(stack.size);
                let header = self.cx.call(b, Helper::Make, &[n, size]);
                let length = self.cx.word(b, header, runtime::LENGTH);
                let elements = self.cx.word(b, header, runtime::ELEMENTS);
                made.push((header, length, elements));
            }
        }
        let mark = self.releases(data).then(|| self.mark(b));
        let body = b.open();
        self.params(b, region);
        self.region(b, region);
        let results = &self.f.regions[region].results;
        b.span = data.span;
        if let Some(n) = trips {
            let i = self.get(self.f.regions[region].params[0]);
            let i = self.count(b, i);
            let one = b.u32(1);
            let trip = match info.down {
                true => {
                    let left = b.emit(Op::Sub, &[n, i]);
                    b.emit(Op::Sub, &[left, one])
                }
                false => i,
            };
            for (stack, &(_, length, elements)) in stacks.iter().zip(&made) {
                let fields = self.fields(stack, &results[n_carried..]);
                let is_there = b.emit(Op::Lt, &[trip, length]);
                self.cx.when(b, Some(is_there), &mut |cx, b| {
                    let place = cx.at(b, elements, trip, stack.size);
                    cx.write_fields(b, place, &fields);
                });
            }
        }
        self.release(b, mark);
        let yields = self.all(&results[..n_carried]);
        b.close(yields);
        let info = LoopInfo { max_iters: None, ..info };
        let carried = b.nest(Op::For(info), &args, &[body]);
        for (&v, made) in data.results.iter().zip(carried) {
            self.set(b, v, made);
        }
        for (stack, (header, ..)) in stacks.iter().zip(made) {
            self.set_stack(b, data, stack, header);
        }
    }

    /// A number of trips as an index.
    fn count(&mut self, b: &mut Builder, n: Value) -> Value {
        match b.types.scalar_of(b.func.ty(n)) {
            Some(Scalar::U32) => n,
            Some(Scalar::I32) => b.emit_typed(Op::Bitcast, &[n], Type::U32),
            _ => {
                let wide = match b.func.ty(n) {
                    Type::U64 => n,
                    _ => b.emit_typed(Op::Bitcast, &[n], Type::U64),
                };
                let far = b.constant(Scalar::U64, 1 << 31);
                let near = b.emit(Op::Lt, &[wide, far]);
                let low = b.emit_typed(Op::Convert, &[wide], Type::U32);
                let beyond = b.u32(u32::MAX);
                b.emit(Op::Select, &[near, low, beyond])
            }
        }
    }

    /// A number of trips, after a check that it is not larger than the bound.
    fn at_most(&mut self, b: &mut Builder, n: Value, most: u32) -> Value {
        let ty = b.func.ty(n);
        let unsigned = if matches!(ty, Type::I64 | Type::U64) { Type::U64 } else { Type::U32 };
        let as_unsigned = if ty == unsigned { n } else { b.emit_typed(Op::Bitcast, &[n], unsigned) };
        let limit = b.emit_typed(Op::Const(most.into()), &[], unsigned);
        let fits = b.emit(Op::Le, &[as_unsigned, limit]);
        b.effect(Op::Assert(ir::interp::max_iters_message(most).into()), &[fits]);
        let limit = b.emit_typed(Op::Const(most.into()), &[], ty);
        b.emit(Op::Select, &[fits, n, limit])
    }

    fn repeated(&mut self, b: &mut Builder, data: &InstData, info: LoopInfo, inst: Inst) {
        let n_carried = data.n_carried();
        let region = data.regions[0];
        let mut args = self.all(&data.args);
        let stacks = self.pushed(b.types, inst);
        let zero = b.u32(0);
        // Behind the carried values: the stacks, and the number of trips.
        args.extend(stacks.iter().map(|_| zero));
        args.extend((!stacks.is_empty()).then_some(zero));
        let mark = self.releases(data).then(|| self.mark(b));
        let body = b.open();
        self.params(b, region);
        let held: Vec<Value> = stacks.iter().map(|_| b.region_param(Type::U32)).collect();
        let trip = (!stacks.is_empty()).then(|| b.region_param(Type::U32));
        self.region(b, region);
        let results = &self.f.regions[region].results;
        b.span = data.span;
        let mut again = self.get(results[0]);
        let mut yields = self.all(&results[1..=n_carried]);
        if let Some(trip) = trip {
            let one = b.u32(1);
            let n = b.emit(Op::Add, &[trip, one]);
            for (stack, held) in stacks.iter().zip(held) {
                yields.push(self.push(b, held, (trip, n), stack, &results[1 + n_carried..]));
            }
            if let Some(most) = info.max_iters {
                let limit = b.u32(most);
                let fits = b.emit(Op::Lt, &[trip, limit]);
                let ends = b.emit(Op::Not, &[again]);
                let holds = b.emit(Op::Or, &[ends, fits]);
                b.effect(Op::Assert(ir::interp::max_iters_message(most).into()), &[holds]);
                again = b.emit(Op::And, &[again, fits]);
            }
            yields.push(n);
        }
        self.release(b, mark);
        // What was lost may be what the condition waits for.
        let lost = self.cx.own(b, self.cx.lost);
        let none = b.u32(0);
        let is_whole = b.emit(Op::Eq, &[lost, none]);
        again = b.emit(Op::And, &[again, is_whole]);
        yields.insert(0, again);
        b.close(yields);
        let info = LoopInfo { max_iters: None, ..info };
        let made = b.nest(Op::Loop(info), &args, &[body]);
        for (&v, &made) in data.results[..n_carried].iter().zip(&made) {
            self.set(b, v, made);
        }
        for (stack, &made) in stacks.iter().zip(&made[n_carried..]) {
            self.set_stack(b, data, stack, made);
        }
    }

    /// A stack with what a trip yields as its element `trip`, and `n` elements.
    fn push(
        &mut self,
        b: &mut Builder,
        header: Value,
        (trip, n): (Value, Value),
        stack: &Pushed,
        stacked: &[Value],
    ) -> Value {
        let (size, fields) = (b.u32(stack.size), self.fields(stack, stacked));
        let header = self.cx.call(b, Helper::Room, &[header, n, size]);
        let capacity = self.cx.word(b, header, runtime::CAPACITY);
        let has = b.emit(Op::Le, &[n, capacity]);
        self.cx.when(b, Some(has), &mut |cx, b| {
            let elements = cx.word(b, header, runtime::ELEMENTS);
            let place = cx.at(b, elements, trip, stack.size);
            cx.write_fields(b, place, &fields);
            cx.set_word(b, header, runtime::LENGTH, n);
        });
        header
    }
}
