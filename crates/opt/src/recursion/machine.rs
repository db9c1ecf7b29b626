//! Builds the function that runs the blocks of a group of functions: see the parent module.

use ir::analysis::points_to::has_handle;
use ir::build::Builder;
use ir::walk::{ValueMap, copy_inst};
use ir::{Func, Function, Inline, LoopInfo, Module, Op, Scalar, Type, TypeData, Types, Value};
use rustc_hash::FxHashMap;

use super::blocks::{Blocks, End, Step, held, held_type, identity, released};
use super::places::Apart;

/// The machine of the group's first function, and the types of the module with it; `None` if a handle would
/// have to be kept.
pub(super) fn make(
    module: &Module,
    mut types: Types,
    group: &[Func],
    apart: &Apart,
) -> Option<(Types, Function)> {
    let params = &apart.origins;
    let all: Vec<Blocks> = apart.functions.iter().map(|f| Blocks::of(&mut types, f, group)).collect();
    let is_kept =
        |g: usize, v: Value| has_handle(&types, all[g].f.ty(v)) && !params.contains_key(&(group[g], v));
    for (g, blocks) in all.iter().enumerate() {
        if blocks.blocks.iter().any(|block| block.live.iter().any(|&v| is_kept(g, v))) {
            return None;
        }
    }
    let root = &module.funcs[group[0]];
    let mut b = Builder::new(&mut types, root.name.clone());
    let mut given: Vec<Value> = root.params.iter().map(|slot| b.param(slot.clone())).collect();
    b.span = root.span;
    given.extend(apart.starts.iter().map(|&(s, bits)| b.constant(s, bits)));
    let (mut first, mut total) = (Vec::new(), 0);
    for blocks in &all {
        first.push(total);
        total += blocks.blocks.len();
    }
    let mut machine = Machine {
        b,
        all: &all,
        group,
        params,
        first,
        total,
        given,
        slots: FxHashMap::default(),
        frames: FxHashMap::default(),
        returned: Vec::new(),
        stacks: Vec::new(),
        depth: Value::from_u32(0),
    };
    let results = machine.run();
    let made = machine.b.finish(results, root.results.clone());
    let made = Function {
        inline: Inline::Never,
        reruns: root.reruns,
        fast_math: root.fast_math,
        checkpoint: root.checkpoint,
        origin: root.origin,
        span: root.span,
        ..made
    };
    Some((types, made))
}

/// A stack of values of a type that calls push: the cell of the stack, and that of the number of values.
#[derive(Clone, Copy)]
struct Pushed {
    ty: Type,
    cell: Value,
    count: Value,
    /// The largest number of values that a block pushes.
    most: usize,
}

struct Machine<'a> {
    b: Builder<'a>,
    all: &'a [Blocks],
    group: &'a [Func],
    /// The parameters that hold handles, with the root's parameter that each of them is.
    params: &'a FxHashMap<(Func, Value), Value>,
    /// The number of each function's first block, and the number of all blocks, which means the end.
    first: Vec<usize>,
    total: usize,
    /// The parameters of the first function in a call from outside.
    given: Vec<Value>,
    /// The cell of each value that is live at the start of a block.
    slots: FxHashMap<(usize, Value), Value>,
    /// For each cell of a stack that is live there, the cell of a stack of those of all calls in progress: a
    /// call's own is the element whose number is the depth.
    frames: FxHashMap<(usize, Value), Value>,
    /// The cells of each function's results.
    returned: Vec<Vec<Value>>,
    stacks: Vec<Pushed>,
    /// The cell of the number of calls in progress.
    depth: Value,
}

impl Machine<'_> {
    fn run(&mut self) -> Vec<Value> {
        for g in 0..self.all.len() {
            let blocks = &self.all[g];
            for block in &blocks.blocks {
                for &v in &block.live {
                    let (ty, key) = (blocks.f.ty(v), (g, v));
                    let is_known = self.slots.contains_key(&key) || self.frames.contains_key(&key);
                    if has_handle(self.b.types, ty) || is_known {
                        continue;
                    }
                    let content = self.b.types.content(ty);
                    let cell = match content {
                        Some(stack) if self.b.types.has_stack(stack) => {
                            let all = self.b.types.stack(stack);
                            let cell = self.cell(all);
                            self.frames.insert(key, cell);
                            cell
                        }
                        _ => {
                            let cell = self.cell(content.unwrap_or(ty));
                            self.slots.insert(key, cell);
                            cell
                        }
                    };
                    if let Some(name) = &blocks.f.values[v].name {
                        self.b.name(cell, name);
                    }
                }
            }
            let types: Vec<Type> = blocks.f.results.iter().map(|slot| slot.ty).collect();
            let cells = types.into_iter().map(|ty| self.cell(ty)).collect();
            self.returned.push(cells);
        }
        self.depth = self.cell(Type::U32);
        self.make_stacks();
        // The root's parameters, and the end as the block that its return goes on with.
        let root = &self.all[0].f;
        let params = root.regions[root.body()].params.clone();
        for (k, v) in params.into_iter().enumerate() {
            if let Some(&slot) = self.slots.get(&(0, v)) {
                self.b.effect(Op::Store, &[slot, self.given[k]]);
            }
        }
        let end = self.b.u32(self.total as u32);
        self.make_room();
        self.push(&[end]);
        let one = self.b.u32(1);
        self.b.effect(Op::Store, &[self.depth, one]);
        let start = self.b.u32(0);
        let body = self.b.open();
        let at = self.b.region_param(Type::U32);
        self.make_room();
        let mut cases = Vec::new();
        for g in 0..self.all.len() {
            for k in 0..self.all[g].blocks.len() {
                cases.push(self.block(g, k));
            }
        }
        let numbers: Box<[i64]> = (0..self.total as i64 - 1).collect();
        let next = self.b.nest(Op::Switch(numbers), &[at], &cases)[0];
        let again = self.b.emit(Op::Ne, &[next, end]);
        self.b.close(vec![again, next]);
        self.b.nest(Op::Loop(LoopInfo::default()), &[start], &[body]);
        let cells = self.returned[0].clone();
        cells.into_iter().map(|cell| self.b.emit(Op::Load, &[cell])).collect()
    }

    /// A cell that holds zero.
    fn cell(&mut self, ty: Type) -> Value {
        let zero = self.b.zero(ty);
        self.b.emit(Op::Local, &[zero])
    }

    /// The stacks of all types that calls push.
    fn make_stacks(&mut self) {
        let mut wanted: Vec<(Type, usize)> = vec![(Type::U32, 1)];
        for g in 0..self.all.len() {
            for block in &self.all[g].blocks {
                let End::Call { resume, results, .. } = &block.end else { continue };
                // The number of the block that follows is pushed, too.
                let mut own = vec![Type::U32];
                for v in self.saved(g, *resume, results) {
                    let ty = self.all[g].f.ty(v);
                    let ty = self.b.types.content(ty).unwrap_or(ty);
                    let ty = held_type(self.b.types, ty);
                    own.push(pushed_type(self.b.types, ty));
                }
                for &ty in &own {
                    let n = own.iter().filter(|other| **other == ty).count();
                    match wanted.iter_mut().find(|known| known.0 == ty) {
                        Some(known) => known.1 = known.1.max(n),
                        None => wanted.push((ty, n)),
                    }
                }
            }
        }
        for (ty, most) in wanted {
            let stack = self.b.types.stack(ty);
            let (cell, count) = (self.cell(stack), self.cell(Type::U32));
            self.stacks.push(Pushed { ty, cell, count, most });
        }
    }

    /// Makes each stack as long as any block may need it, in one place.
    fn make_room(&mut self) {
        for Pushed { ty, cell, count, most } in self.stacks.clone() {
            let n = self.b.emit(Op::Load, &[count]);
            let last = self.b.u32(most as u32 - 1);
            let last = self.b.emit(Op::Add, &[n, last]);
            let identity = self.identity(ty);
            self.b.effect(Op::AddTo, &[cell, last, identity]);
        }
    }

    /// The values that a call keeps for the block after it.
    fn saved(&self, g: usize, resume: usize, results: &[Value]) -> Vec<Value> {
        let live = &self.all[g].blocks[resume].live;
        let is_saved = |v: &&Value| self.slots.contains_key(&(g, **v)) && !results.contains(v);
        live.iter().filter(is_saved).copied().collect()
    }

    fn append(&mut self, insts: Vec<ir::Inst>) {
        let region = self.b.region();
        self.b.func.regions[region].insts.extend(insts);
    }

    fn stack_of(&self, ty: Type) -> Pushed {
        *self.stacks.iter().find(|stack| stack.ty == ty).expect("a stack for each type that is pushed")
    }

    /// Pushes values to the stacks of their types.
    fn push(&mut self, values: &[Value]) {
        let span = self.b.span;
        let mut insts = Vec::new();
        let mut pushed: Vec<(Type, Value)> = Vec::new();
        for &v in values {
            let v = held(self.b.types, &mut self.b.func, v, span, &mut insts);
            pushed.push((pushed_type(self.b.types, self.b.func.ty(v)), v));
        }
        self.append(insts);
        for Pushed { ty, cell, count, .. } in self.stacks.clone() {
            let own: Vec<Value> = pushed.iter().filter(|p| p.0 == ty).map(|p| p.1).collect();
            if own.is_empty() {
                continue;
            }
            let n = self.b.emit(Op::Load, &[count]);
            let all = self.b.u32(own.len() as u32);
            for (k, v) in own.into_iter().enumerate() {
                let v = if self.b.func.ty(v) == ty { v } else { self.b.emit_typed(Op::Bitcast, &[v], ty) };
                let k = self.b.u32(k as u32);
                let at = self.b.emit(Op::Add, &[n, k]);
                self.b.effect(Op::Store, &[cell, at, v]);
            }
            let n = self.b.emit(Op::Add, &[n, all]);
            self.b.effect(Op::Store, &[count, n]);
        }
    }

    /// The value that changes nothing when it is added.
    fn identity(&mut self, ty: Type) -> Value {
        let (span, mut insts) = (self.b.span, Vec::new());
        let identity = identity(self.b.types, &mut self.b.func, ty, span, &mut insts);
        self.append(insts);
        identity
    }

    /// Pops a value of a type.
    fn pop(&mut self, ty: Type) -> Value {
        let span = self.b.span;
        let held = held_type(self.b.types, ty);
        let pushed = pushed_type(self.b.types, held);
        let Pushed { cell, count, .. } = self.stack_of(pushed);
        let n = self.b.emit(Op::Load, &[count]);
        let one = self.b.u32(1);
        let n = self.b.emit(Op::Sub, &[n, one]);
        self.b.effect(Op::Store, &[count, n]);
        let v = self.b.emit(Op::Load, &[cell, n]);
        let v = if pushed == held { v } else { self.b.emit_typed(Op::Bitcast, &[v], held) };
        let mut insts = Vec::new();
        let v = released(self.b.types, &mut self.b.func, v, ty, span, &mut insts);
        self.append(insts);
        v
    }

    /// Emits a block; its result is the number of the next one.
    fn block(&mut self, g: usize, k: usize) -> ir::Region {
        let region = self.b.open();
        let all = self.all;
        let blocks = &all[g];
        self.b.span = blocks.f.span;
        let mut map = ValueMap::new();
        self.resume(g, k, &mut map);
        for step in &blocks.blocks[k].steps {
            match step {
                Step::Set(pairs) => {
                    let from: Vec<Value> =
                        pairs.iter().map(|&(_, from)| self.get(g, from, &mut map)).collect();
                    for (&(to, _), from) in pairs.iter().zip(from) {
                        self.define(g, to, from, &mut map);
                    }
                }
                Step::Inst(inst) => self.inst(g, *inst, &mut map),
            }
        }
        self.b.span = blocks.f.span;
        let next = match &blocks.blocks[k].end {
            End::Jump(to) => self.number(g, *to),
            End::Branch(c, yes, no) => {
                let c = self.get(g, *c, &mut map);
                let (yes, no) = (self.number(g, *yes), self.number(g, *no));
                self.b.emit(Op::Select, &[c, yes, no])
            }
            End::Switch(tag, cases, targets) => {
                let tag = self.get(g, *tag, &mut map);
                let mut arms = Vec::new();
                for &to in targets {
                    arms.push(self.b.open());
                    let to = self.number(g, to);
                    self.b.close(vec![to]);
                }
                self.b.nest(Op::Switch(cases.clone()), &[tag], &arms)[0]
            }
            End::Call { callee, args, results, resume } => {
                self.b.span = blocks.blocks[k].span;
                self.call(g, (*callee, args), (results, *resume), &mut map)
            }
            End::Return(results) => {
                for (n, &v) in results.iter().enumerate() {
                    let v = self.get(g, v, &mut map);
                    let cell = self.returned[g][n];
                    self.b.effect(Op::Store, &[cell, v]);
                }
                let depth = self.b.emit(Op::Load, &[self.depth]);
                let one = self.b.u32(1);
                let depth = self.b.emit(Op::Sub, &[depth, one]);
                self.b.effect(Op::Store, &[self.depth, depth]);
                self.pop(Type::U32)
            }
        };
        self.b.close(vec![next]);
        region
    }

    fn number(&mut self, g: usize, k: usize) -> Value {
        self.b.u32((self.first[g] + k) as u32)
    }

    /// The index of a function in the group.
    fn index(&self, func: Func) -> usize {
        self.group.iter().position(|&g| g == func).expect("a call within the group")
    }

    /// Pops what a call pushed before it, if a block follows a call, and reads the call's results.
    fn resume(&mut self, g: usize, k: usize, map: &mut ValueMap) {
        let all = self.all;
        let calls = all[g].blocks.iter().find_map(|block| match &block.end {
            End::Call { callee, results, resume, .. } if *resume == k => Some((*callee, results)),
            _ => None,
        });
        let Some((callee, results)) = calls else { return };
        for v in self.saved(g, k, results).into_iter().rev() {
            let ty = all[g].f.ty(v);
            let content = self.b.types.content(ty);
            let old = self.pop(content.unwrap_or(ty));
            self.b.effect(Op::Store, &[self.slots[&(g, v)], old]);
        }
        let callee = self.index(callee);
        for (n, &v) in results.iter().enumerate() {
            let cell = self.returned[callee][n];
            let result = self.b.emit(Op::Load, &[cell]);
            self.define(g, v, result, map);
        }
    }

    /// Emits a call; gives the number of the callee's first block.
    fn call(
        &mut self,
        g: usize,
        (callee, args): (Func, &[Value]),
        (results, resume): (&[Value], usize),
        map: &mut ValueMap,
    ) -> Value {
        let all = self.all;
        let to = self.index(callee);
        let params = &all[to].f.regions[all[to].f.body()].params;
        let taken: Vec<(Value, Value)> = params
            .iter()
            .zip(args)
            .filter_map(|(&param, &arg)| Some((*self.slots.get(&(to, param))?, self.get(g, arg, map))))
            .collect();
        let mut kept = Vec::new();
        for v in self.saved(g, resume, results) {
            let is_cell = self.b.types.content(all[g].f.ty(v)).is_some();
            kept.push(match is_cell {
                true => self.b.emit(Op::Load, &[self.slots[&(g, v)]]),
                false => self.get(g, v, map),
            });
        }
        kept.push(self.number(g, resume));
        self.push(&kept);
        for (slot, arg) in taken {
            self.b.effect(Op::Store, &[slot, arg]);
        }
        let depth = self.b.emit(Op::Load, &[self.depth]);
        let (one, most) = (self.b.u32(1), self.b.u32(ir::interp::MAX_DEPTH as u32));
        self.b.span = all[to].f.span;
        let fits = self.b.emit(Op::Lt, &[depth, most]);
        let message = ir::interp::depth_message(ir::interp::MAX_DEPTH);
        self.b.effect(Op::Assert(message.into()), &[fits]);
        let depth = self.b.emit(Op::Add, &[depth, one]);
        self.b.effect(Op::Store, &[self.depth, depth]);
        // A device reports an error and goes on; the loop has to end.
        let (start, end) = (self.number(to, 0), self.b.u32(self.total as u32));
        self.b.emit(Op::Select, &[fits, start, end])
    }

    /// Gives a value of a function its value in this block.
    fn define(&mut self, g: usize, v: Value, is: Value, map: &mut ValueMap) {
        map.set(v, is);
        if let Some(&slot) = self.slots.get(&(g, v)) {
            self.b.effect(Op::Store, &[slot, is]);
        }
    }

    /// A function's value in the machine.
    fn get(&mut self, g: usize, v: Value, map: &mut ValueMap) -> Value {
        if let Some(known) = map.find(v) {
            return known;
        }
        let all = self.all;
        if let Some(&param) = self.params.get(&(self.group[g], v)) {
            let root = &all[0].f;
            let at = root.regions[root.body()].params.iter().position(|&p| p == param);
            let is = self.given[at.expect("a parameter of the root")];
            map.set(v, is);
            return is;
        }
        if let Some(inst) = all[g].again(self.b.types, v) {
            self.copy(g, inst, map);
            return map.at(v);
        }
        if let Some(&frames) = self.frames.get(&(g, v)) {
            let depth = self.b.emit(Op::Load, &[self.depth]);
            let is = self.b.emit(Op::SubCell, &[frames, depth]);
            map.set(v, is);
            return is;
        }
        let slot = self.slots[&(g, v)];
        let is = match self.b.types[all[g].f.ty(v)] {
            TypeData::Cell(_) => slot,
            _ => self.b.emit(Op::Load, &[slot]),
        };
        map.set(v, is);
        is
    }

    /// Emits an instruction of a function.
    fn inst(&mut self, g: usize, inst: ir::Inst, map: &mut ValueMap) {
        let data = &self.all[g].f.insts[inst];
        if let (Op::Local, Some(&slot)) =
            (&data.op, data.results.first().and_then(|&v| self.slots.get(&(g, v))))
        {
            let init = self.get(g, data.args[0], map);
            self.b.span = data.span;
            self.b.effect(Op::Store, &[slot, init]);
            map.set(data.results[0], slot);
            return;
        }
        if let (Op::Local, Some(&frames)) =
            (&data.op, data.results.first().and_then(|&v| self.frames.get(&(g, v))))
        {
            let init = self.get(g, data.args[0], map);
            self.b.span = data.span;
            let depth = self.b.emit(Op::Load, &[self.depth]);
            let empty = self.identity(self.b.func.ty(init));
            self.b.effect(Op::AddTo, &[frames, depth, empty]);
            self.b.effect(Op::Store, &[frames, depth, init]);
            let own = self.b.emit(Op::SubCell, &[frames, depth]);
            map.set(data.results[0], own);
            return;
        }
        self.copy(g, inst, map);
        let results = self.all[g].f.insts[inst].results.clone();
        for v in results {
            if self.slots.contains_key(&(g, v)) {
                let is = map.at(v);
                self.define(g, v, is, map);
            }
        }
    }

    fn copy(&mut self, g: usize, inst: ir::Inst, map: &mut ValueMap) {
        let all = self.all;
        for v in all[g].operands(inst) {
            self.get(g, v, map);
        }
        self.b.span = all[g].f.insts[inst].span;
        copy_inst(&all[g].f, inst, &mut self.b, map);
    }
}

/// The type as which a value is pushed: all scalars of 32 bits share a stack.
fn pushed_type(types: &Types, ty: Type) -> Type {
    match types[ty] {
        TypeData::Scalar(Scalar::F32 | Scalar::I32) => Type::U32,
        _ => ty,
    }
}
