//! Rewrites a function whose values may be stacks.

use cranelift_entity::SecondaryMap;
use ir::build::Builder;
use ir::walk::ValueMap;
use ir::{
    Func, Function, Inst, InstData, LoopInfo, Module, Op, Region, Scalar, Type, TypeData, Types, Value,
};
use rustc_hash::FxHashMap;

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
        let facts = Facts::of(f);
        let mut rewriter = Rewriter {
            cx,
            f,
            headers: FxHashMap::default(),
            owned: super::cells::owned(types, f, &facts.defs),
            facts,
            sub_cells: FxHashMap::default(),
            uses,
            stacks,
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
        let values = rewriter.region(&mut b, f.body());
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

    /// Rewrites the instructions of a region into the open one; gives its results.
    fn region(&mut self, b: &mut Builder, region: Region) -> Vec<Value> {
        // A header is only known to stay within a region, between instructions that have none.
        self.headers.clear();
        for &inst in &self.f.regions[region].insts {
            self.inst(b, inst);
            if !self.f.insts[inst].regions.is_empty() {
                self.headers.clear();
            }
        }
        self.headers.clear();
        self.f.regions[region].results.iter().map(|&v| self.get(v)).collect()
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
            Op::For(info) => self.counted(b, data, *info),
            Op::Loop(info) => self.repeated(b, data, *info),
            op => {
                let args: Vec<Value> = data.args.iter().map(|&v| self.get(v)).collect();
                let mut regions = Vec::new();
                for &region in &data.regions {
                    regions.push(b.open());
                    let results = self.region(b, region);
                    b.close(results);
                }
                b.span = data.span;
                let mut results = Vec::new();
                for &v in &data.results {
                    let mut value = self.f.values[v].clone();
                    value.ty = plain(b.types, value.ty);
                    let made = b.func.values.push(value);
                    self.map.set(v, made);
                    results.push(made);
                }
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

    /// The type of the elements of a loop's stack, and their size.
    fn kept(&mut self, b: &mut Builder, stack: Value) -> (Type, u32) {
        let TypeData::Stack(element) = b.types[self.f.ty(stack)] else {
            unreachable!("a loop yields stacks")
        };
        (element, self.cx.size(b.types, element))
    }

    /// The stacks of a loop that have uses, with their numbers.
    fn used_stacks(&self, data: &InstData) -> Vec<(usize, Value)> {
        let stacks = data.results[data.n_carried()..].iter().copied().enumerate();
        stacks.filter(|&(_, v)| self.facts.uses[v] > 0).collect()
    }

    fn counted(&mut self, b: &mut Builder, data: &InstData, info: LoopInfo) {
        let n_carried = data.n_carried();
        let region = data.regions[0];
        let mut args: Vec<Value> = data.args.iter().map(|&v| self.get(v)).collect();
        let stacks = self.used_stacks(data);
        // `trips` is the number as an index, with which the stacks are made.
        let (mut kept, mut trips) = (Vec::new(), None);
        if !stacks.is_empty() {
            if let Some(most) = info.max_iters {
                args[0] = self.at_most(b, args[0], most);
            }
            let n = self.count(b, args[0]);
            trips = Some(n);
            for &(k, stack) in &stacks {
                let (element, bytes) = self.kept(b, stack);
                let size = b.u32(bytes);
                let made = self.cx.call(b, Helper::Make, &[n, size]);
                let length = self.cx.word(b, made, runtime::LENGTH);
                let elements = self.cx.word(b, made, runtime::ELEMENTS);
                kept.push((k, element, bytes, length, elements));
                self.set(b, stack, made);
            }
        }
        let mark = self.releases(data).then(|| self.mark(b));
        let body = b.open();
        self.params(b, region);
        let results = self.region(b, region);
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
            for &(k, element, size, length, elements) in &kept {
                let v = results[n_carried + k];
                let is_there = b.emit(Op::Lt, &[trip, length]);
                self.cx.when(b, Some(is_there), &mut |cx, b| {
                    let place = cx.at(b, elements, trip, size);
                    cx.write(b, place, v, element);
                });
            }
        }
        self.release(b, mark);
        b.close(results[..n_carried].to_vec());
        let info = LoopInfo { max_iters: None, ..info };
        let made = b.nest(Op::For(info), &args, &[body]);
        for (&v, made) in data.results.iter().zip(made) {
            self.set(b, v, made);
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

    fn repeated(&mut self, b: &mut Builder, data: &InstData, info: LoopInfo) {
        let n_carried = data.n_carried();
        let region = data.regions[0];
        let mut args: Vec<Value> = data.args.iter().map(|&v| self.get(v)).collect();
        let stacks = self.used_stacks(data);
        let zero = b.u32(0);
        // Behind the carried values: the stacks, and the number of trips.
        args.extend(stacks.iter().map(|_| zero));
        args.extend((!stacks.is_empty()).then_some(zero));
        let mark = self.releases(data).then(|| self.mark(b));
        let body = b.open();
        self.params(b, region);
        let held: Vec<Value> = stacks.iter().map(|_| b.region_param(Type::U32)).collect();
        let trip = (!stacks.is_empty()).then(|| b.region_param(Type::U32));
        let results = self.region(b, region);
        b.span = data.span;
        let mut again = results[0];
        let mut yields = results[1..=n_carried].to_vec();
        if let Some(trip) = trip {
            let one = b.u32(1);
            let n = b.emit(Op::Add, &[trip, one]);
            for (&(k, stack), held) in stacks.iter().zip(held) {
                let (element, bytes) = self.kept(b, stack);
                yields.push(self.pushed(b, held, (trip, n), results[1 + n_carried + k], (element, bytes)));
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
        let to = data.results[..n_carried].iter().copied().chain(stacks.iter().map(|s| s.1));
        for (v, made) in to.zip(made) {
            self.set(b, v, made);
        }
    }

    /// A stack with a value as its element `trip`, and `n` elements.
    fn pushed(
        &mut self,
        b: &mut Builder,
        stack: Value,
        (trip, n): (Value, Value),
        v: Value,
        (element, bytes): (Type, u32),
    ) -> Value {
        let size = b.u32(bytes);
        let stack = self.cx.call(b, Helper::Room, &[stack, n, size]);
        let capacity = self.cx.word(b, stack, runtime::CAPACITY);
        let has = b.emit(Op::Le, &[n, capacity]);
        self.cx.when(b, Some(has), &mut |cx, b| {
            let elements = cx.word(b, stack, runtime::ELEMENTS);
            let place = cx.at(b, elements, trip, bytes);
            cx.write(b, place, v, element);
            cx.set_word(b, stack, runtime::LENGTH, n);
        });
        stack
    }
}
