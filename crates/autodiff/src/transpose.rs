//! Transposes `ḟ(r, ẋ) = ẏ` into `f̄(r, ȳ) = x̄`: a linear program run backwards.
//!
//! A linear program is a product of elementary matrices, one for each instruction, and the transpose of a
//! product is the product of the transposes in reverse order. So each region first computes, forwards, the
//! values that it derives from the residuals, and then goes through its linear instructions from last to
//! first; each one adds its part to the cotangents of its operands.
//!
//! - The cotangents of scalars and vectors accumulate by `add` in SSA form.
//! - An array or stack has a *shadow cell*, which is zero at the start of the region that defines the value:
//!   the transpose of reading one element adds to one element, so it costs as much as the read. The shadow is
//!   read as a whole at the definition of the value. A part of an array is a part of its shadow.
//! - A linear cell has a shadow cell too, with the opposite flow (Dex's duals): `load ↔ add_to`; `store x` ↦
//!   `x̄ += load; store 0`, since the overwritten content is never read again; `local x` ↦ `x̄ += load`.
//! - The arm that ran forwards runs backwards, and yields a cotangent for each free linear value.
//! - A `for` runs its trips from last to first: trip `t` transposes trip `n-1-t`, and as the loop counts the
//!   other way, the counter is the same in both. The cotangents of carried values are carried back; those of
//!   free values are summed as additional carried values; those of stacked values are read from the stack's
//!   shadow; and the stacks that the loop read have shadows that are added to.
//! - A call of a linear function becomes a call of its transpose, and `call_transpose_of g` becomes `call g`.
//!
//! Sums and shadows start from the absent cotangent, and a value that was not read, selected or executed gets
//! the absent cotangent.

use cranelift_entity::{EntitySet, PrimaryMap, SecondaryMap};
use ir::analysis::{Analyses, Use};
use ir::walk::free_values;
use ir::{Builder, Func, Function, Inst, LoopInfo, Op, Origin, Region, Scalar, Slot, Type, TypeData, Value};
use rustc_hash::FxHashMap;

use crate::copy::{Renaming, copy_inst, linear_fresh, mirror};
use crate::engine::Engine;
use crate::propagate::is_big;
use crate::shape::{Shape, linear_tangent_slot, params};

impl Engine<'_> {
    /// Transposes a linear half; see the head of this file. Memoised.
    pub(crate) fn transpose(&mut self, linear: Func) -> Func {
        if let Some(&known) = self.made.transposed.get(&linear) {
            return known;
        }
        let src = &self.module.funcs[linear];
        let (mut callees, mut by_hand) = (Vec::new(), Vec::new());
        src.walk(src.body(), &mut |inst| match src.insts[inst].op {
            Op::Call(callee) if is_linear_call(&self.module.funcs, src, inst) => callees.push(callee),
            Op::CallTransposeOf(vjp) => by_hand.push((vjp, src.insts[inst].results.len())),
            _ => (),
        });
        let mut rules: FxHashMap<Func, Rule> = FxHashMap::default();
        for (vjp, n_cotangents) in by_hand {
            let rule = self.reverse_rule(vjp, n_cotangents);
            rules.insert(vjp, rule);
        }
        // Recursion was rejected earlier.
        for callee in callees {
            self.transpose(callee);
        }
        let src = &self.module.funcs[linear];
        let (tangents, residuals): (Vec<&Slot>, Vec<&Slot>) = src.params.iter().partition(|s| s.linear);
        let mut slots: Vec<Slot> = residuals.into_iter().cloned().collect();
        slots.extend(src.results.iter().map(cotangent_slot));
        let results: Vec<Slot> = tangents.into_iter().map(cotangent_slot).collect();
        let base = src.name.strip_suffix("_linear").unwrap_or(&src.name);
        let made = self.declare(
            format!("{base}_transposed"),
            Origin::Pullback(linear),
            slots.clone(),
            results.clone(),
        );

        let module = &mut *self.module;
        let (types, funcs) = (&mut module.types, &module.funcs);
        let src = &funcs[linear];
        let in_cells = in_cells(types, src);
        let mut pass = Transpose {
            src,
            funcs,
            transposed: &self.made.transposed,
            rules,
            in_cells,
            b: Builder::new(types, String::new()),
            map: Renaming::default(),
            cotangents: Renaming::default(),
            shadows: SecondaryMap::new(),
        };
        let body_params: Vec<Value> = slots.iter().map(|slot| pass.b.param(slot.clone())).collect();
        let n_residuals = slots.len() - src.results.len();
        for (&v, &param) in params(src).iter().filter(|v| !src.is_linear(**v)).zip(&body_params) {
            pass.map.set(v, param);
        }
        let body = src.body();
        pass.enter(body);
        for (&v, &cotangent) in src.regions[body].results.iter().zip(&body_params[n_residuals..]) {
            pass.accumulate(v, cotangent);
        }
        pass.reverse(body);
        let inputs = params(src).iter().filter(|v| src.is_linear(**v));
        let values = inputs.map(|&v| pass.take_or_absent(v)).collect();
        let body = pass.b.finish(values, results);
        self.define(made, body);
        self.made.transposed.insert(linear, made);
        made
    }
}

/// A user-written backward derivative and how to call it.
struct Rule {
    func: Func,
    /// The rule takes and returns its cotangents as numbers, because it is not linear in them or has effects.
    in_numbers: bool,
}

impl Engine<'_> {
    fn reverse_rule(&mut self, vjp: Func, n_cotangents: usize) -> Rule {
        // The vjp of a recursive function was generated, so its arguments are differentials.
        if self.is_generated(vjp) {
            return Rule { func: vjp, in_numbers: false };
        }
        let shape = Shape { params: self.module.funcs[vjp].params.len() - n_cotangents, results: 0 };
        match self.marked_rule(vjp, shape) {
            Some(func) => Rule { func, in_numbers: false },
            None => Rule { func: vjp, in_numbers: true },
        }
    }
}

fn cotangent_slot(of: &Slot) -> Slot {
    match &of.name {
        Some(name) if name.starts_with("d_") => Slot { linear: true, diff: true, ..of.clone() },
        _ => linear_tangent_slot(of),
    }
}

/// The linear arrays and stacks that need a shadow cell of their own: all but those that are used once, as a
/// whole, in the region that defines them.
fn in_cells(types: &ir::Types, src: &Function) -> EntitySet<Value> {
    let all = Analyses::of(types, src);
    let is_whole = |v: Value, at: &Use| match *at {
        Use::Operand(inst, _) => {
            !matches!(src.insts[inst].op, Op::Index | Op::Extract(_)) && all.home(inst) == all.home_of(v)
        }
        Use::Result(region, _) => Some(region) == all.home_of(v),
    };
    let needs_cell = |v: Value| match all.uses().of_value(v) {
        [] => false,
        [at] => !is_whole(v, at),
        _ => true,
    };
    let is_linear = |v: &Value| src.is_linear(*v) && is_big(types, src.ty(*v));
    let mut found = EntitySet::new();
    found.extend(src.values.keys().filter(is_linear).filter(|&v| needs_cell(v)));
    found
}

/// Returns true if a call in a linear half is a call of another linear half, not one that recomputes a value
/// that was not kept. A linear half may have effects even without any tangents, so the callee is checked as
/// well.
fn is_linear_call(funcs: &PrimaryMap<Func, Function>, src: &Function, inst: Inst) -> bool {
    let data = &src.insts[inst];
    let linear = data.args.iter().chain(&data.results).any(|&v| src.is_linear(v));
    let is_half = |callee: Func| matches!(funcs[callee].origin, Origin::LinearHalf(_));
    linear || data.op.callee().is_some_and(is_half)
}

/// The shadow of a value: a cell, or a part of one.
#[derive(Clone)]
struct Shadow {
    cell: Value,
    path: Vec<Value>,
    /// The shadow is a part of the shadow of another value, so a cotangent added to it needs no further
    /// propagation.
    is_alias: bool,
}

struct Transpose<'a> {
    src: &'a Function,
    funcs: &'a PrimaryMap<Func, Function>,
    transposed: &'a FxHashMap<Func, Func>,
    rules: FxHashMap<Func, Rule>,
    /// See [`in_cells`].
    in_cells: EntitySet<Value>,
    b: Builder<'a>,
    map: Renaming,
    /// The cotangents of scalars and vectors, and of arrays and stacks without a shadow.
    cotangents: Renaming,
    shadows: SecondaryMap<Value, Option<Shadow>>,
}

impl Transpose<'_> {
    fn is_cell(&self, v: Value) -> bool {
        matches!(self.b.types[self.src.ty(v)], TypeData::Cell(_))
    }

    fn is_linear_inst(&self, inst: Inst) -> bool {
        let data = &self.src.insts[inst];
        match data.op {
            Op::Store | Op::AddTo => self.src.is_linear(data.args[0]),
            Op::CallTransposeOf(_) => true,
            Op::If | Op::Switch(_) | Op::For(_) | Op::Loop(_) => true,
            Op::Call(_) => is_linear_call(self.funcs, self.src, inst),
            _ => data.results.iter().any(|&v| self.src.is_linear(v)),
        }
    }

    // ---- cotangents

    fn accumulate(&mut self, v: Value, cotangent: Value) {
        if !self.src.is_linear(v) {
            return;
        }
        if self.shadows[v].is_some() {
            self.add_at(v, &[], cotangent);
            return;
        }
        let sum = match self.cotangents.take(v) {
            None => cotangent,
            Some(sum) if !is_big(self.b.types, self.src.ty(v)) => self.b.emit(Op::Add, &[sum, cotangent]),
            Some(sum) => {
                let cell = self.b.emit(Op::Local, &[sum]);
                self.b.effect(Op::AddTo, &[cell, cotangent]);
                self.b.emit(Op::Load, &[cell])
            }
        };
        self.cotangents.set(v, sum);
    }

    /// Adds to a part of a value or cell that has a shadow.
    fn add_at(&mut self, v: Value, part: &[Value], cotangent: Value) {
        let args = self.place(v, part, Some(cotangent));
        self.b.effect(Op::AddTo, &args);
    }

    fn load_at(&mut self, v: Value, part: &[Value]) -> Value {
        let args = self.place(v, part, None);
        self.b.emit(Op::Load, &args)
    }

    fn place(&self, v: Value, part: &[Value], x: Option<Value>) -> Vec<Value> {
        let shadow = self.shadows[v].as_ref().expect("a cell, or a value that is read in part, has a shadow");
        let mut args = vec![shadow.cell];
        args.extend(&shadow.path);
        args.extend(part);
        args.extend(x);
        args
    }

    /// Takes the cotangent of a value at its definition; `None` if it is zero.
    fn take(&mut self, v: Value) -> Option<Value> {
        match &self.shadows[v] {
            Some(shadow) if shadow.is_alias => None,
            Some(_) => Some(self.load_at(v, &[])),
            None => self.cotangents.take(v),
        }
    }

    fn absent(&mut self, ty: Type) -> Value {
        self.b.linear_absent(ty)
    }

    fn take_or_absent(&mut self, v: Value) -> Value {
        match self.take(v) {
            Some(cotangent) => cotangent,
            None => self.absent(self.src.ty(v)),
        }
    }

    // ---- regions

    /// Copies the computations of a region that depend only on residuals, and makes the shadows of the values
    /// that the region defines.
    fn enter(&mut self, region: Region) {
        let src = self.src;
        for &inst in &src.regions[region].insts {
            if !self.is_linear_inst(inst) {
                copy_inst(&mut self.b, src, inst, &mut self.map);
            }
        }
        for &param in &src.regions[region].params {
            self.make_shadow(param);
        }
        for &inst in &src.regions[region].insts {
            let data = &src.insts[inst];
            self.b.span = data.span;
            match data.op {
                Op::Local if src.is_linear(data.results[0]) => {
                    let content = self.b.types.content(src.ty(data.results[0])).expect("a cell");
                    self.new_shadow(data.results[0], content);
                }
                Op::SubCell if src.is_linear(data.results[0]) => {
                    let idx = self.map.at(data.args[1]);
                    self.alias(data.results[0], data.args[0], idx);
                }
                Op::Index
                    if src.is_linear(data.results[0]) && is_big(self.b.types, src.ty(data.results[0])) =>
                {
                    let idx = self.map.at(data.args[1]);
                    self.alias(data.results[0], data.args[0], idx);
                }
                Op::Extract(idx)
                    if src.is_linear(data.results[0]) && is_big(self.b.types, src.ty(data.results[0])) =>
                {
                    let idx = self.b.u32(idx);
                    self.alias(data.results[0], data.args[0], idx);
                }
                _ => data.results.iter().for_each(|&v| self.make_shadow(v)),
            }
        }
    }

    fn make_shadow(&mut self, v: Value) {
        if self.in_cells.contains(v) {
            self.new_shadow(v, self.src.ty(v));
        }
    }

    fn new_shadow(&mut self, v: Value, content: Type) {
        let absent = self.absent(content);
        let cell = self.b.emit(Op::Local, &[absent]);
        self.shadows[v] = Some(Shadow { cell, path: Vec::new(), is_alias: false });
    }

    fn alias(&mut self, v: Value, of: Value, idx: Value) {
        let mut shadow = self.shadows[of].clone().expect("what is read in part has a shadow");
        shadow.path.push(idx);
        shadow.is_alias = true;
        self.shadows[v] = Some(shadow);
    }

    fn reverse(&mut self, region: Region) {
        let src = self.src;
        for &inst in src.regions[region].insts.iter().rev() {
            if self.is_linear_inst(inst) {
                self.b.span = src.insts[inst].span;
                self.inst(inst);
            }
        }
    }

    /// Transposes a nested region with the cotangents of the `free` values set aside.
    fn nest(&mut self, free: &[Value], build: impl FnOnce(&mut Self) -> Region) -> Region {
        let saved: Vec<Option<Value>> = free.iter().map(|&v| self.cotangents.take(v)).collect();
        let region = build(self);
        for (&v, cotangent) in free.iter().zip(saved) {
            self.cotangents.take(v);
            if let Some(cotangent) = cotangent {
                self.cotangents.set(v, cotangent);
            }
        }
        region
    }

    /// The linear scalars and vectors that regions read from outside, in order of first use.
    fn free(&self, regions: &[Region]) -> Vec<Value> {
        let (src, mut seen) = (self.src, EntitySet::new());
        let mut used: Vec<Value> = regions.iter().flat_map(|&region| free_values(src, region)).collect();
        let is_number = |v: Value| !self.is_cell(v) && !is_big(self.b.types, src.ty(v));
        used.retain(|&v| src.is_linear(v) && is_number(v) && seen.insert(v));
        used
    }

    // ---- instructions

    fn inst(&mut self, inst: Inst) {
        let src = self.src;
        let data = &src.insts[inst];
        let args = &data.args;
        match &data.op {
            Op::If | Op::Switch(_) => return self.branch(inst),
            Op::For(info) | Op::Loop(info) => return self.repeat(inst, *info),
            Op::Call(callee) => return self.call(inst, *callee),
            Op::CallTransposeOf(vjp) => return self.custom(inst, *vjp),
            Op::Local => {
                let cotangent = self.load_at(data.results[0], &[]);
                return self.accumulate(args[0], cotangent);
            }
            Op::Store => {
                let (part, x) = (self.map.all(&args[1..args.len() - 1]), args[args.len() - 1]);
                let cotangent = self.load_at(args[0], &part);
                self.accumulate(x, cotangent);
                let absent = self.absent(src.ty(x));
                let place = self.place(args[0], &part, Some(absent));
                self.b.effect(Op::Store, &place);
                return;
            }
            Op::AddTo => {
                let (part, x) = (self.map.all(&args[1..args.len() - 1]), args[args.len() - 1]);
                let cotangent = self.load_at(args[0], &part);
                return self.accumulate(x, cotangent);
            }
            Op::SubCell => return,
            _ => (),
        }
        let Some(cotangent) = self.take(data.results[0]) else { return };
        match &data.op {
            Op::Add => {
                self.accumulate(args[0], cotangent);
                self.accumulate(args[1], cotangent);
            }
            Op::Scale | Op::Unscale => {
                let factor = self.map.at(args[1]);
                let scaled = self.b.emit(data.op.clone(), &[cotangent, factor]);
                self.accumulate(args[0], scaled);
            }
            Op::Mask => {
                let of = self.map.at(args[0]);
                let masked = self.b.emit(Op::Mask, &[of, cotangent]);
                self.accumulate(args[1], masked);
            }
            Op::Present => self.accumulate(args[0], cotangent),
            Op::Convert => {
                let converted = self.b.emit_typed(Op::Convert, &[cotangent], src.ty(args[0]));
                self.accumulate(args[0], converted);
            }
            Op::Splat => self.splat(args[0], data.results[0], cotangent),
            Op::Sum => {
                let spread = self.b.emit_typed(Op::Splat, &[cotangent], src.ty(args[0]));
                self.accumulate(args[0], spread);
            }
            Op::Construct => {
                for (k, &x) in args.iter().enumerate() {
                    let part = self.b.emit(Op::Extract(k as u32), &[cotangent]);
                    self.accumulate(x, part);
                }
            }
            Op::Insert(idx) => {
                let part = self.b.emit(Op::Extract(*idx), &[cotangent]);
                self.accumulate(args[1], part);
                let absent = self.absent(src.ty(args[1]));
                let rest = self.b.emit(Op::Insert(*idx), &[cotangent, absent]);
                self.accumulate(args[0], rest);
            }
            Op::Extract(idx) if is_big(self.b.types, src.ty(args[0])) => {
                let idx = self.b.u32(*idx);
                self.add_at(args[0], &[idx], cotangent);
            }
            Op::Extract(idx) => {
                let absent = self.absent(src.ty(args[0]));
                let spread = self.b.emit(Op::Insert(*idx), &[absent, cotangent]);
                self.accumulate(args[0], spread);
            }
            Op::Index if is_big(self.b.types, src.ty(args[0])) => {
                let idx = self.map.at(args[1]);
                self.add_at(args[0], &[idx], cotangent);
            }
            Op::Index => self.lane(args[0], args[1], cotangent),
            Op::Select => {
                let condition = self.map.at(args[0]);
                let absent = self.absent(src.ty(args[1]));
                let first = self.b.emit(Op::Select, &[condition, cotangent, absent]);
                self.accumulate(args[1], first);
                let second = self.b.emit(Op::Select, &[condition, absent, cotangent]);
                self.accumulate(args[2], second);
            }
            Op::Load => {
                let part = self.map.all(&args[1..]);
                self.add_at(args[0], &part, cotangent);
            }
            // A constant has no operands to propagate a cotangent to.
            Op::Zero | Op::Absent => (),
            // Handled above.
            Op::If
            | Op::Switch(_)
            | Op::For(_)
            | Op::Loop(_)
            | Op::Call(_)
            | Op::CallTransposeOf(_)
            | Op::Local
            | Op::Store
            | Op::AddTo
            | Op::SubCell => (),
            // `propagate` has rejected ops that are never linear, and writes differences and products by others.
            _ => unreachable!("{:?} is not linear", data.op),
        }
    }

    /// Transposes a splat: every element is `x`, so its cotangent is the sum of their cotangents.
    fn splat(&mut self, x: Value, result: Value, cotangent: Value) {
        let src = self.src;
        match self.b.types[src.ty(result)] {
            TypeData::Array(element, n) => {
                let numeric = self.b.types.is_numeric(element);
                let count = self.b.u32(n);
                let cell = if numeric {
                    None
                } else {
                    let absent = self.absent(element);
                    Some(self.b.emit(Op::Local, &[absent]))
                };
                let mut args = vec![count];
                if numeric {
                    args.push(self.absent(element));
                }
                let region = self.b.open();
                let trip = self.b.region_param(Type::U32);
                let results = match cell {
                    None => {
                        let sum = self.b.linear_region_param(element);
                        let part = self.b.emit(Op::Index, &[cotangent, trip]);
                        vec![self.b.emit(Op::Add, &[sum, part])]
                    }
                    Some(cell) => {
                        let part = self.b.emit(Op::Index, &[cotangent, trip]);
                        self.b.effect(Op::AddTo, &[cell, part]);
                        Vec::new()
                    }
                };
                self.b.close(results);
                let sums = self.b.nest(Op::For(LoopInfo::default()), &args, &[region]);
                let total = match cell {
                    None => sums[0],
                    Some(cell) => self.b.emit(Op::Load, &[cell]),
                };
                self.accumulate(x, total);
            }
            _ => {
                let sum = self.b.emit(Op::Sum, &[cotangent]);
                self.accumulate(x, sum);
            }
        }
    }

    /// Transposes the read of one lane of a vector at a dynamic index: the other lanes get the absent
    /// cotangent.
    fn lane(&mut self, vector: Value, idx: Value, cotangent: Value) {
        let ty = self.src.ty(vector);
        let n = self.b.types.lanes(ty).unwrap_or(1);
        let idx = self.map.at(idx);
        let idx_ty = self.b.func.ty(idx);
        let scalar = self.b.types.scalar_of(idx_ty).unwrap_or(Scalar::U32);
        let absent = self.absent(self.b.func.ty(cotangent));
        let lanes: Vec<Value> = (0..n)
            .map(|k| {
                let k = self.b.constant(scalar, k as u64);
                let here = self.b.emit(Op::Eq, &[idx, k]);
                self.b.emit(Op::Select, &[here, cotangent, absent])
            })
            .collect();
        let spread = self.b.emit_typed(Op::Construct, &lanes, ty);
        self.accumulate(vector, spread);
    }

    fn branch(&mut self, inst: Inst) {
        let src = self.src;
        let data = &src.insts[inst];
        let cotangents: Vec<Option<Value>> = data.results.iter().map(|&v| self.take(v)).collect();
        let free = self.free(&data.regions);
        let condition = self.map.at(data.args[0]);
        let mut arms = Vec::new();
        for &arm in &data.regions {
            arms.push(self.nest(&free, |this| {
                let region = this.b.open();
                this.enter(arm);
                for (&v, &cotangent) in src.regions[arm].results.iter().zip(&cotangents) {
                    if let Some(cotangent) = cotangent {
                        this.accumulate(v, cotangent);
                    }
                }
                this.reverse(arm);
                let results = free.iter().map(|&v| this.take_or_absent(v)).collect();
                this.b.close(results);
                region
            }));
        }
        self.b.span = data.span;
        let results = self.b.nest(data.op.clone(), &[condition], &arms);
        for (&v, cotangent) in free.iter().zip(results) {
            self.accumulate(v, cotangent);
        }
    }

    fn repeat(&mut self, inst: Inst, info: LoopInfo) {
        let src = self.src;
        let data = &src.insts[inst];
        let body_region = data.regions[0];
        let body = &src.regions[body_region];
        let n_carried = data.args.len() - 1;
        let (carried, stacked) = body.results.split_at(n_carried);
        let (carried_results, stacks) = data.results.split_at(n_carried);
        let free = self.free(&data.regions);
        let n = self.map.at(data.args[0]);
        let count_ty = self.b.func.ty(n);
        let mut args = vec![n];
        for &v in carried_results {
            args.push(self.take_or_absent(v));
        }
        for &v in &free {
            args.push(self.absent(src.ty(v)));
        }
        // The cotangents of stacks without a shadow, as values.
        let whole: Vec<Option<Value>> =
            stacks.iter().map(|&v| if self.shadows[v].is_some() { None } else { self.take(v) }).collect();
        let region = self.nest(&free, |this| {
            let region = this.b.open();
            let counter = this.b.region_param(count_ty);
            this.map.set(body.params[0], counter);
            let cotangents: Vec<Value> =
                carried.iter().map(|&v| this.b.linear_region_param(src.ty(v))).collect();
            let sums: Vec<Value> = free.iter().map(|&v| this.b.linear_region_param(src.ty(v))).collect();
            // The elements of a stack are in the order of the trips.
            let trip =
                if info.down && !stacks.is_empty() { mirror(&mut this.b, n, counter) } else { counter };
            this.enter(body_region);
            for ((&v, &stack), &whole) in stacked.iter().zip(stacks).zip(&whole) {
                let part = match whole {
                    Some(whole) => Some(this.b.emit(Op::Index, &[whole, trip])),
                    None if this.shadows[stack].is_some() => Some(this.load_at(stack, &[trip])),
                    None => None,
                };
                if let Some(part) = part {
                    this.accumulate(v, part);
                }
            }
            for (&v, &cotangent) in carried.iter().zip(&cotangents) {
                this.accumulate(v, cotangent);
            }
            for (&v, &sum) in free.iter().zip(&sums) {
                this.accumulate(v, sum);
            }
            this.reverse(body_region);
            let results = body.params[1..].iter().chain(&free).map(|&v| this.take_or_absent(v)).collect();
            this.b.close(results);
            region
        });
        self.b.span = data.span;
        let info = LoopInfo { max_iters: None, down: !info.down, ..info };
        let results = self.b.nest(Op::For(info), &args, &[region]);
        for (&v, cotangent) in data.args[1..].iter().chain(&free).zip(results) {
            self.accumulate(v, cotangent);
        }
    }

    fn call(&mut self, inst: Inst, callee: Func) {
        let src = self.src;
        let data = &src.insts[inst];
        let mut args: Vec<Value> =
            data.args.iter().filter(|v| !src.is_linear(**v)).map(|&v| self.map.at(v)).collect();
        for &v in &data.results {
            args.push(self.take_or_absent(v));
        }
        let inputs: Vec<Value> = data.args.iter().copied().filter(|&v| src.is_linear(v)).collect();
        let results = linear_fresh(&mut self.b, inputs.iter().map(|&v| src.ty(v)));
        let transposed = self.transposed[&callee];
        debug_assert_eq!(self.funcs[transposed].params.len(), args.len());
        self.b.push(Op::Call(transposed), &args, &results, &[]);
        for (&v, &cotangent) in inputs.iter().zip(&results) {
            self.accumulate(v, cotangent);
        }
    }

    fn custom(&mut self, inst: Inst, vjp: Func) {
        let src = self.src;
        let data = &src.insts[inst];
        let n = data.args.len() - self.funcs[vjp].results.len();
        let rule = &self.rules[&vjp];
        let (callee, in_numbers) = (rule.func, rule.in_numbers);
        let mut args = self.map.all(&data.args[..n]);
        for &v in &data.results {
            let cotangent = self.take_or_absent(v);
            args.push(if in_numbers { self.b.emit(Op::Present, &[cotangent]) } else { cotangent });
        }
        let inputs = &data.args[n..];
        let results = linear_fresh(&mut self.b, inputs.iter().map(|&v| src.ty(v)));
        self.b.push(Op::Call(callee), &args, &results, &[]);
        for (&v, &cotangent) in inputs.iter().zip(&results) {
            let cotangent = if in_numbers { self.b.emit(Op::Present, &[cotangent]) } else { cotangent };
            self.accumulate(v, cotangent);
        }
    }
}
