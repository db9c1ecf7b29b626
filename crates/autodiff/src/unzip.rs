//! Splits `f'(x, ẋ)` into `primal : x ↦ (y, r)` and `linear : (r, ẋ) ↦ ẏ`.
//!
//! No primal value depends on a linear one (`propagate` has checked it), so the primal instructions, in
//! order, are a program of their own. A structured instruction that contains both kinds is split in two. The
//! primal values that the linear side reads are kept or recomputed ([`crate::checkpoint`] decides). A kept
//! value leaves an arm as an additional result, and a loop as a stack with one element per trip. On the
//! linear side it is available on entry to the region that corresponds to the one that defined it: the same
//! arm, the same trip. As only one arm runs, arms share these results: there are as many results of a type as
//! the arm with most kept values of that type needs, and an arm with fewer yields zeros, which are never
//! read. So `n` arms do not keep `n` times as much. A `loop` counts its trips on the primal side; on the
//! linear side it is a `for` with that many trips.
//!
//! All effects except those on linear cells stay on the primal side, once and in order.

use cranelift_entity::EntitySet;
use indexmap::IndexSet;
use ir::analysis::Summaries;
use ir::transform::dce;
use ir::{
    Builder, Func, Function, Inst, InstData, LoopInfo, Op, Origin, Prefer, Region, Slot, Type, Types, Value,
    ValueData,
};
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use crate::checkpoint::{Kept, Policy, Sides, inductions, plan};
use crate::copy::{
    Renaming, copy_inst, like, linear_like, linear_region_param_like, mirror, region_param_like,
};
use crate::engine::Engine;
use crate::report::report;
use crate::results::{Residual, Unzipped};
use crate::shape::plain_slot;
use crate::snapshot::snapshot;
use crate::variant::is_variant_of_written;

impl Engine<'_> {
    /// Splits a marked function; see the head of this file. Memoised.
    pub(crate) fn unzip(&mut self, func: Func) -> Option<Unzipped> {
        if let Some(known) = self.made.unzipped.get(&func) {
            return known.clone();
        }
        self.made.unzipped.insert(func, None);
        let made = self.halves(func);
        self.made.unzipped.insert(func, made.clone());
        made
    }

    fn halves(&mut self, func: Func) -> Option<Unzipped> {
        self.inline_calls(func);
        let mut src = self.module.funcs[func].clone();
        let mut linear_calls = EntitySet::new();
        let body = src.body();
        self.split_calls(&mut src, body, &mut linear_calls)?;
        // No residual is kept for a tangent that is never used.
        dce::run(&mut src, &Summaries::default());
        count_trips(&mut src, &linear_calls);
        let sides = Sides::new(&src, &linear_calls);
        let inductions = inductions(&self.module.types, &mut src, &sides);
        let in_loop = self.is_called_in_loop(func);
        let origin = self.user_function(func);
        self.price_calls(&src);
        let policy = Policy {
            calls: &self.facts.call_costs,
            in_loop,
            inductions: &inductions,
            prefer_kept: self.module.funcs[origin].checkpoint.prefer == Prefer::Checkpoint,
            thrift: self.thrift.get(&origin).copied().unwrap_or(1),
        };
        let mut kept = plan(self.module, &src, &sides, &policy);
        if snapshot(&self.module.types, &mut src, &kept.stored) {
            kept = plan(self.module, &src, &sides, &policy);
        }
        if let Some(list) = &mut self.found.kept {
            let name = &self.module.funcs[origin].name;
            list.values.extend(report(self.module, &src, name, &kept));
        }

        let base = src.name.strip_suffix("_marked").unwrap_or(&src.name).to_string();
        // What is written takes the values of all parameters, and computes all else itself.
        let is_written = is_variant_of_written(self.module, func);
        let types = &mut self.module.types;
        let mut primal =
            Primal { src: &src, sides: &sides, kept: &kept, b: builder(types), map: Renaming::default() };
        let all_params = &src.regions[body].params;
        let mut param_slots = Vec::new();
        let mut residuals = Vec::new();
        let mut residual_slots = Vec::new();
        let mut residual_values = Vec::new();
        for (&v, slot) in all_params.iter().zip(&src.params).filter(|(v, _)| !src.is_linear(**v)) {
            if is_written || kept.stored.contains(v) {
                residuals.push(Residual::Param(param_slots.len()));
                // A parameter that is held constant in the callee stays constant in higher derivatives.
                residual_slots.push(Slot { diff: slot.diff, ..plain_slot(primal.b.types, slot.ty) });
                residual_values.push(v);
            }
            let copy = like(&mut primal.b, &src, v);
            primal.b.func.regions[body].params.push(copy);
            primal.map.set(v, copy);
            param_slots.push(slot.clone());
        }
        let inner = primal.insts(body);
        let mut results = primal.nonlinear(&src.regions[body].results);
        let mut result_slots: Vec<Slot> = src.results.iter().filter(|s| !s.linear).cloned().collect();
        let mut given: FxHashMap<Value, usize> = results
            .iter()
            .zip(&result_slots)
            .enumerate()
            // A result without a tangent would hide the tangent of the residual from the next derivative.
            .filter(|(_, (_, slot))| slot.diff || !primal.b.types.is_differentiable(slot.ty))
            .map(|(n, (&v, _))| (v, n))
            .collect();
        // Kept values of different arms may share one result.
        let mut shared: FxHashMap<Value, usize> = FxHashMap::default();
        let mut sharing = Vec::new();
        for (v, out) in inner {
            if let Some(&number) = shared.get(&out) {
                sharing.push((v, number));
                continue;
            }
            shared.insert(out, residuals.len());
            let ty = primal.b.func.ty(out);
            let slot = plain_slot(primal.b.types, ty);
            residual_values.push(v);
            residual_slots.push(Slot { diff: slot.diff && !is_written, ..slot.clone() });
            // A value that the function returns anyway is not returned twice.
            let idx = *given.entry(out).or_insert(results.len());
            residuals.push(Residual::Result(idx));
            if idx == results.len() {
                results.push(out);
                result_slots.push(slot);
            }
        }
        let primal = primal.b.finish(results, result_slots.clone());

        let mut linear = Linear {
            src: &src,
            sides: &sides,
            kept: &kept,
            b: builder(types),
            map: Renaming::default(),
            stacks: Renaming::default(),
        };
        let mut linear_slots = Vec::new();
        for (&v, slot) in residual_values.iter().zip(residual_slots) {
            let param = linear.b.region_param(slot.ty);
            linear_slots.push(slot);
            linear.stacks.set(v, param);
        }
        for (v, number) in sharing {
            let param = linear.stacks.at(residual_values[number]);
            linear.stacks.set(v, param);
        }
        for (&v, slot) in all_params.iter().zip(&src.params).filter(|(v, _)| src.is_linear(**v)) {
            let param = linear_region_param_like(&mut linear.b, &src, v);
            linear_slots.push(slot.clone());
            linear.map.set(v, param);
        }
        linear.enter(body);
        linear.insts(body);
        let results = linear.linear(&src.regions[body].results);
        let linear_results: Vec<Slot> = src.results.iter().filter(|s| s.linear).cloned().collect();
        let linear = linear.b.finish(results, linear_results.clone());

        let primal_func =
            self.declare(format!("{base}_primal"), Origin::PrimalHalf(func), param_slots, result_slots);
        self.define(primal_func, primal);
        let linear_func =
            self.declare(format!("{base}_linear"), Origin::LinearHalf(func), linear_slots, linear_results);
        self.define(linear_func, linear);
        if self.measuring {
            self.measure(func, &src, &sides, &kept, primal_func);
        }
        Some(Unzipped { primal: primal_func, linear: linear_func, residuals })
    }

    /// Replaces each call of a function with marks by a call of its primal half and a call of its linear
    /// half.
    fn split_calls(
        &mut self,
        src: &mut Function,
        region: Region,
        linear_calls: &mut EntitySet<Inst>,
    ) -> Option<()> {
        let insts = std::mem::take(&mut src.regions[region].insts);
        let mut split = Vec::with_capacity(insts.len());
        for inst in insts {
            for nested in src.insts[inst].regions.clone() {
                self.split_calls(src, nested, linear_calls)?;
            }
            let callee = match src.insts[inst].op {
                Op::Call(callee) if self.has_marks(callee) => callee,
                _ => {
                    split.push(inst);
                    continue;
                }
            };
            let halves = self.unzip(callee)?;
            let data = src.insts[inst].clone();
            let args: SmallVec<[Value; 4]> =
                data.args.iter().copied().filter(|&v| !src.is_linear(v)).collect();
            let mut results: SmallVec<[Value; 2]> =
                data.results.iter().copied().filter(|&v| !src.is_linear(v)).collect();
            for slot in &self.module.funcs[halves.primal].results[results.len()..] {
                results.push(src.values.push(ValueData::new(slot.ty)));
            }
            let mut operands: SmallVec<[Value; 4]> =
                halves.residuals.iter().map(|r| r.of(&args, &results)).collect();
            operands.extend(data.args.iter().copied().filter(|&v| src.is_linear(v)));
            let tangents = data.results.iter().copied().filter(|&v| src.is_linear(v)).collect();
            split.push(src.insts.push(InstData {
                op: Op::Call(halves.primal),
                args,
                results,
                ..data.clone()
            }));
            let linear = src.insts.push(InstData {
                op: Op::Call(halves.linear),
                args: operands,
                results: tangents,
                ..data
            });
            linear_calls.insert(linear);
            split.push(linear);
        }
        src.regions[region].insts = split;
        Some(())
    }

    /// Returns true if a function is a marked variant.
    fn has_marks(&mut self, func: Func) -> bool {
        let callee = &self.module.funcs[func];
        callee.params.iter().chain(&callee.results).any(|s| s.linear)
            || self.facts.marks.transposed_inside(self.module, func)
    }
}

fn builder(types: &mut Types) -> Builder<'_> {
    Builder::new(types, String::new())
}

/// Adds to each `loop` with a linear part a carried `u32` that counts its trips.
fn count_trips(src: &mut Function, linear_calls: &EntitySet<Inst>) {
    let sides = Sides::new(src, linear_calls);
    src.rebuild(|src, inst, out| {
        if matches!(src.insts[inst].op, Op::Loop(_)) && sides.mixed.contains(inst) {
            let span = src.insts[inst].span;
            let [zero, one, param, next, count] =
                [(); 5].map(|()| src.values.push(ValueData::new(Type::U32)));
            out.push(src.make(Op::Const(0), &[], &[zero], span));
            let one_inst = src.make(Op::Const(1), &[], &[one], span);
            let add_inst = src.make(Op::Add, &[param, one], &[next], span);
            let n_carried = src.insts[inst].args.len();
            src.insts[inst].args.push(zero);
            src.insts[inst].results.insert(n_carried, count);
            let body = &mut src.regions[src.insts[inst].regions[0]];
            body.params.push(param);
            body.insts.extend([one_inst, add_inst]);
            body.results.insert(1 + n_carried, next);
        }
        out.push(inst);
    });
}

/// The trip count of a loop that `count_trips` has prepared.
pub(crate) fn trip_count(src: &Function, inst: Inst) -> Value {
    let data = &src.insts[inst];
    match data.op {
        Op::For(_) => data.args[0],
        _ => data.results[data.args.len() - 1],
    }
}

/// Returns true if both halves of a loop that counts down count up instead: the elements of its stacks are in
/// the order of the trips.
fn turns(src: &Function, kept: &Kept, inst: Inst) -> bool {
    let data = &src.insts[inst];
    let has_stacks = !kept.through[inst].is_empty() || data.results.len() > data.n_carried();
    matches!(data.op, Op::For(info) if info.down) && has_stacks
}

struct Primal<'a> {
    src: &'a Function,
    sides: &'a Sides,
    kept: &'a Kept,
    b: Builder<'a>,
    map: Renaming,
}

impl Primal<'_> {
    /// Copies the primal instructions of a region. Returns the kept values, each with its copy in the region.
    fn insts(&mut self, region: Region) -> Vec<(Value, Value)> {
        let src = self.src;
        let mut kept = Vec::new();
        if region != src.body() {
            self.keep(&src.regions[region].params, &mut kept);
        }
        for &inst in &src.regions[region].insts {
            let data = &src.insts[inst];
            if self.sides.linear.contains(inst) {
                continue;
            }
            if self.sides.mixed.contains(inst) {
                match data.op {
                    Op::For(_) | Op::Loop(_) => self.repeat(inst, &mut kept),
                    _ => self.branch(inst, &mut kept),
                }
            } else {
                copy_inst(&mut self.b, src, inst, &mut self.map);
            }
            self.keep(&data.results, &mut kept);
        }
        kept
    }

    fn keep(&self, values: &[Value], kept: &mut Vec<(Value, Value)>) {
        for &v in values.iter().filter(|v| self.kept.stored.contains(**v)) {
            kept.push((v, self.map.at(v)));
        }
    }

    fn nonlinear(&self, values: &[Value]) -> Vec<Value> {
        values.iter().filter(|v| !self.src.is_linear(**v)).map(|&v| self.map.at(v)).collect()
    }

    fn define(&mut self, sources: &[Value]) -> Vec<Value> {
        let src = self.src;
        let mut made = Vec::new();
        for &v in sources.iter().filter(|v| !src.is_linear(**v)) {
            let copy = like(&mut self.b, src, v);
            self.map.set(v, copy);
            made.push(copy);
        }
        made
    }

    fn branch(&mut self, inst: Inst, kept: &mut Vec<(Value, Value)>) {
        let src = self.src;
        let data = &src.insts[inst];
        let args = self.nonlinear(&data.args);
        let mut arms = Vec::new();
        // The additional results: the type of each and the value that each arm yields for it. `of_type` has
        // their indices by type.
        let mut further: Vec<(Type, FxHashMap<usize, Value>)> = Vec::new();
        let mut of_type: FxHashMap<Type, Vec<usize>> = FxHashMap::default();
        let mut found: Vec<(Value, usize)> = Vec::new();
        for (arm_idx, &arm) in data.regions.iter().enumerate() {
            let region = self.b.open();
            let inner = self.insts(arm);
            let results = self.nonlinear(&src.regions[arm].results);
            self.b.close(Vec::new());
            arms.push((region, results));
            let mut place: FxHashMap<Value, usize> = FxHashMap::default();
            let mut taken: FxHashMap<Type, usize> = FxHashMap::default();
            for (v, out) in inner {
                let number = *place.entry(out).or_insert_with(|| {
                    let ty = self.b.func.ty(out);
                    let (numbers, nth) = (of_type.entry(ty).or_default(), taken.entry(ty).or_default());
                    if *nth == numbers.len() {
                        numbers.push(further.len());
                        further.push((ty, FxHashMap::default()));
                    }
                    *nth += 1;
                    numbers[*nth - 1]
                });
                further[number].1.insert(arm_idx, out);
                found.push((v, number));
            }
        }
        let mut regions = Vec::new();
        for (idx, (region, mut results)) in arms.into_iter().enumerate() {
            self.b.reopen(region);
            for (ty, by_arm) in &further {
                results.push(by_arm.get(&idx).copied().unwrap_or_else(|| self.b.zero(*ty)));
            }
            self.b.close(results);
            regions.push(region);
        }
        let mut results = self.define(&data.results);
        let first = results.len();
        results.extend(further.iter().map(|&(ty, _)| self.b.value(ty)));
        kept.extend(found.into_iter().map(|(v, number)| (v, results[first + number])));
        self.b.span = data.span;
        self.b.push(data.op.clone(), &args, &results, &regions);
    }

    fn repeat(&mut self, inst: Inst, kept: &mut Vec<(Value, Value)>) {
        let src = self.src;
        let data = &src.insts[inst];
        let body = data.regions[0];
        let args = self.nonlinear(&data.args);
        let region = self.b.open();
        for &param in src.regions[body].params.iter().filter(|v| !src.is_linear(**v)) {
            let copy = region_param_like(&mut self.b, src, param);
            self.map.set(param, copy);
        }
        let op = match data.op {
            Op::For(info) if turns(src, self.kept, inst) => {
                let counter = src.regions[body].params[0];
                let counted = mirror(&mut self.b, args[0], self.map.at(counter));
                self.map.set(counter, counted);
                Op::For(LoopInfo { down: false, ..info })
            }
            _ => data.op.clone(),
        };
        let inner = self.insts(body);
        let mut results = self.nonlinear(&src.regions[body].results);
        let pushed: IndexSet<Value, FxBuildHasher> = inner.iter().map(|&(_, out)| out).collect();
        results.extend(&pushed);
        self.b.close(results);
        let mut results = self.define(&data.results);
        let first = results.len();
        for &out in &pushed {
            let ty = self.b.func.ty(out);
            let ty = self.b.types.stack(ty);
            results.push(self.b.value(ty));
        }
        let stack = |out: &Value| results[first + pushed.get_index_of(out).expect("it is pushed")];
        kept.extend(inner.iter().map(|(v, out)| (*v, stack(out))));
        self.b.span = data.span;
        self.b.push(op, &args, &results, &[region]);
    }
}

struct Linear<'a> {
    src: &'a Function,
    sides: &'a Sides,
    kept: &'a Kept,
    b: Builder<'a>,
    map: Renaming,
    /// The holder of each kept value in the open region: the value itself, or a stack of it.
    stacks: Renaming,
}

impl Linear<'_> {
    /// Makes a region's kept values, and the values recomputed from them, available.
    fn enter(&mut self, region: Region) {
        let kept = self.kept;
        for &v in &kept.stored_in[region] {
            let here = self.stacks.at(v);
            self.b.func.values[here].name = self.src.values[v].name.clone();
            self.map.set(v, here);
        }
        for &inst in &kept.recomputed_in[region] {
            copy_inst(&mut self.b, self.src, inst, &mut self.map);
        }
    }

    fn insts(&mut self, region: Region) {
        let src = self.src;
        for &inst in &src.regions[region].insts {
            if self.sides.mixed.contains(inst) {
                match src.insts[inst].op {
                    Op::For(info) | Op::Loop(info) => self.repeat(inst, info),
                    _ => self.branch(inst),
                }
            } else if self.sides.linear.contains(inst) {
                copy_inst(&mut self.b, src, inst, &mut self.map);
            }
        }
    }

    fn linear(&self, values: &[Value]) -> Vec<Value> {
        values.iter().filter(|v| self.src.is_linear(**v)).map(|&v| self.map.at(v)).collect()
    }

    fn define(&mut self, sources: &[Value]) -> Vec<Value> {
        let src = self.src;
        let mut made = Vec::new();
        for &v in sources.iter().filter(|v| src.is_linear(**v)) {
            let copy = linear_like(&mut self.b, src, v);
            self.map.set(v, copy);
            made.push(copy);
        }
        made
    }

    fn branch(&mut self, inst: Inst) {
        let src = self.src;
        let data = &src.insts[inst];
        let cond = self.map.at(data.args[0]);
        let mut regions = Vec::new();
        for &arm in &data.regions {
            let region = self.b.open();
            self.enter(arm);
            self.insts(arm);
            let results = self.linear(&src.regions[arm].results);
            self.b.close(results);
            regions.push(region);
        }
        let results = self.define(&data.results);
        self.b.span = data.span;
        self.b.push(data.op.clone(), &[cond], &results, &regions);
    }

    fn repeat(&mut self, inst: Inst, info: LoopInfo) {
        let src = self.src;
        let data = &src.insts[inst];
        let body = data.regions[0];
        let count = self.map.at(trip_count(src, inst));
        let mut args = vec![count];
        args.extend(self.linear(&data.args));
        let region = self.b.open();
        let trip = self.b.region_param(self.b.func.ty(count));
        let params = &src.regions[body].params;
        let counter = if matches!(data.op, Op::For(_)) { params.first() } else { params.last() };
        let turns = turns(src, self.kept, inst);
        let count = if turns { mirror(&mut self.b, count, trip) } else { trip };
        self.map.set(*counter.expect("a loop counts its trips"), count);
        for &param in src.regions[body].params.iter().filter(|v| src.is_linear(**v)) {
            let copy = linear_region_param_like(&mut self.b, src, param);
            self.map.set(param, copy);
        }
        let kept = self.kept;
        let mut read: FxHashMap<Value, Value> = FxHashMap::default();
        for &v in &kept.through[inst] {
            let stack = self.stacks.at(v);
            let here = *read.entry(stack).or_insert_with(|| self.b.emit(Op::Index, &[stack, trip]));
            self.stacks.set(v, here);
        }
        self.enter(body);
        self.insts(body);
        let results = self.linear(&src.regions[body].results);
        self.b.close(results);
        let results = self.define(&data.results);
        self.b.span = data.span;
        let info = LoopInfo { unroll: info.unroll, down: info.down && !turns, ..LoopInfo::default() };
        self.b.push(Op::For(info), &args, &results, &[region]);
    }
}
