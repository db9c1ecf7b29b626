//! Makes of a derivative the function that says which tangents its results are made of, for 64 groups of tangents at once.
//!
//! A differential is a linear function of the tangents. In place of each stands a mask, a `u64` with a bit for each group of
//! tangents that the differential may depend on: sums, products with numbers and all other arithmetic become the `or` of the
//! masks (bit vectors of sparsity patterns: Griewank and Walther, "Evaluating derivatives", 2008, section 7.1). Numbers,
//! conditions and indices stay as they are, so a pattern is that of the path that the function takes at a point; what only
//! scaled a differential is dead, and most of the work goes with it.
//!
//! Which values have masks follows from the tangents by dataflow, so rules that a program has written are covered. A value
//! without a mask depends on no tangent, and is an empty mask wherever it meets others. Where a differential is compared, as
//! to see whether it is absent, there is no answer: a value that is selected by one has the masks of both, and where anything
//! else depends on one the function is refused. The interpreter can still find the pattern of one run of it
//! ([`ir::interp::depends`]).

use std::ops::Range;

use cranelift_entity::{EntitySet, SecondaryMap};
use indexmap::IndexMap;
use ir::analysis::flow::{Direction, Flow};
use ir::transform::Subst;
use ir::{
    Class, Func, Function, Inst, InstData, LoopInfo, Module, Op, Region, RegionData, Scalar, Slot, Span,
    Type, TypeData, Types, Value, ValueData,
};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::shape::Mask;

/// Makes the function of masks of a derivative: masks take the place of the tangents, the parameters that `is_tangent`
/// selects, and its only results are the masks of the results from number `from` on. Returns the place of what cannot be
/// followed if there is such a thing.
pub fn sparsity(module: &mut Module, func: Func, is_tangent: &[bool], from: usize) -> Result<Func, Span> {
    if !module.funcs[func].has_body() {
        return Err(module.funcs[func].span);
    }
    let mut maker = Maker { module, made: FxHashMap::default(), results: IndexMap::default() };
    let key = (func, Mask::from(is_tangent));
    maker.settle(&key);
    let n_results = maker.results[&key].len();
    if maker.results[&key][..from].contains(&true) {
        return Err(maker.module.funcs[func].span);
    }
    // A result that depends on nothing has an empty mask. If the function calls itself, that is another one.
    let of_masks = maker.declare(&key, &(0..n_results).map(|k| k >= from).collect());
    maker.define(&key, of_masks)?;
    let made = &mut maker.module.funcs[of_masks];
    made.results.drain(..from);
    let body = made.body();
    made.regions[body].results.drain(..from);
    Ok(of_masks)
}

/// The type with a mask for each number.
fn masks(types: &mut Types, ty: Type) -> Type {
    match types[ty] {
        TypeData::Vector(_, n) => types.vector(Scalar::U64, n),
        TypeData::Array(element, n) => {
            let element = masks(types, element);
            types.intern(TypeData::Array(element, n))
        }
        TypeData::Stack(element) => {
            let element = masks(types, element);
            types.intern(TypeData::Stack(element))
        }
        TypeData::Cell(content) => {
            let content = masks(types, content);
            types.intern(TypeData::Cell(content))
        }
        TypeData::Scalar(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => Type::U64,
    }
}

/// A function, and those of its parameters or results that have masks.
type Key = (Func, Mask);

struct Maker<'m> {
    module: &'m mut Module,
    made: FxHashMap<Key, Func>,
    /// The results that have masks.
    results: IndexMap<Key, Mask, FxBuildHasher>,
}

impl Maker<'_> {
    /// Finds the results that have masks, of a function and of all that it calls: the least that agree with each other.
    fn settle(&mut self, key: &Key) {
        self.results_of(key);
        let mut changed = true;
        while changed {
            changed = false;
            for at in 0.. {
                let Some((key, before)) = self.results.get_index(at) else { break };
                let (key, before) = (key.clone(), before.clone());
                let src = self.module.funcs[key.0].clone();
                let facts = self.facts(&src, &key.1);
                let found: Mask = src.regions[src.body()].results.iter().map(|&v| facts[v]).collect();
                changed |= found != before;
                self.results[at] = found;
            }
        }
    }

    /// The results of a function that are known by now to depend on its tangents.
    fn results_of(&mut self, key: &Key) -> Mask {
        let none = || vec![false; self.module.funcs[key.0].results.len()].into();
        self.results.entry(key.clone()).or_insert_with(none).clone()
    }

    /// For each value of a function, true if it depends on its tangents.
    fn facts(&mut self, src: &Function, tangents: &Mask) -> SecondaryMap<Value, bool> {
        let mut flow = Flow::new(src, &|_| true);
        let params = src.regions[src.body()].params.iter().zip(tangents);
        params.filter(|param| *param.1).for_each(|(&v, _)| flow.join(v, &true));
        flow.settle(Direction::Forward, &mut |flow, inst| self.pass(src, flow, inst));
        flow.into_facts()
    }

    /// The values of a function that depend on its tangents, if masks tell all that is asked of them.
    fn depend(&mut self, src: &Function, tangents: &Mask) -> Result<Dependent, Span> {
        let facts = self.facts(src, tangents);
        let n = src.values.len();
        let mut found = Dependent { masked: EntitySet::with_capacity(n), open: EntitySet::with_capacity(n) };
        for v in src.values.keys().filter(|&v| facts[v]) {
            let is_float = self.module.types.is_differentiable(src.ty(v));
            if is_float {
                found.masked.insert(v)
            } else {
                found.open.insert(v)
            };
        }
        let mut refused = Ok(());
        src.walk(src.body(), &mut |inst| {
            if !found.is_answered(src, inst) {
                refused = refused.and(Err(src.insts[inst].span));
            }
        });
        refused?;
        let results = &src.regions[src.body()].results;
        if results.iter().any(|&v| found.open.contains(v)) { Err(src.span) } else { Ok(found) }
    }

    /// Passes dependence from the operands of an instruction to its results.
    fn pass(&mut self, src: &Function, flow: &mut Flow<bool>, inst: Inst) {
        let data = &src.insts[inst];
        match &data.op {
            Op::Store | Op::AddTo => flow.copy(data.args[data.args.len() - 1], data.args[0]),
            Op::SubCell => {
                flow.copy(data.args[0], data.results[0]);
                flow.copy(data.results[0], data.args[0]);
            }
            Op::Call(callee) => {
                let tangents: Mask = data.args.iter().map(|&v| *flow.get(v)).collect();
                if tangents.contains(&true) && self.module.funcs[*callee].has_body() {
                    let results = self.results_of(&(*callee, tangents));
                    data.results.iter().zip(&results).for_each(|(&v, has)| flow.join(v, has));
                }
            }
            op if is_arithmetic(op) || moves(op) => flow.copy_all(&data.args, data.results[0]),
            _ => (),
        }
    }

    /// The function of masks for some tangents.
    fn function(&mut self, key: &Key) -> Result<Func, Span> {
        if let Some(&known) = self.made.get(key) {
            return Ok(known);
        }
        let made = self.declare(key, &self.results[key].clone());
        self.made.insert(key.clone(), made);
        self.define(key, made)?;
        Ok(made)
    }

    /// Declares a function with masks for some tangents and for the results that are `wanted`.
    fn declare(&mut self, (func, tangents): &Key, wanted: &Mask) -> Func {
        let src = &self.module.funcs[*func];
        let mut out = Function {
            name: self.module.free_name(&format!("{}_sparsity", src.name)),
            params: src.params.clone(),
            results: src.results.clone(),
            inline: src.inline,
            span: src.span,
            ..Function::default()
        };
        let slots = out.params.iter_mut().zip(tangents).chain(out.results.iter_mut().zip(wanted));
        for (slot, &has_mask) in slots {
            let ty = if has_mask { masks(&mut self.module.types, slot.ty) } else { slot.ty };
            *slot = Slot { ty, diff: false, linear: false, name: slot.name.take() };
        }
        self.module.funcs.push(out)
    }

    /// Makes the body of a function that has been declared.
    fn define(&mut self, (func, tangents): &Key, made: Func) -> Result<(), Span> {
        let src = self.module.funcs[*func].clone();
        if !src.has_body() {
            return Err(src.span);
        }
        let depend = self.depend(&src, tangents)?;
        let declared = &self.module.funcs[made];
        let slots = declared.results.iter().zip(&src.results);
        let wanted: Mask = slots.map(|(masked, slot)| masked.ty != slot.ty).collect();
        let mut out =
            Function { values: src.values, insts: src.insts, regions: src.regions, ..declared.clone() };
        for (v, data) in out.values.iter_mut() {
            data.differential = false;
            if depend.masked.contains(v) {
                data.ty = masks(&mut self.module.types, data.ty);
            }
        }
        let body = out.body();
        let mut rewriter = Rewriter { maker: self, out, depend, subst: Subst::default(), list: Vec::new() };
        rewriter.region(body, &wanted)?;
        let out = rewriter.out;
        self.module.funcs[made] = out;
        Ok(())
    }
}

/// The values of a function that depend on its tangents.
struct Dependent {
    /// Floats, and cells of floats: masks take their places.
    masked: EntitySet<Value>,
    /// Facts about the size of floats, which masks do not tell.
    open: EntitySet<Value>,
}

impl Dependent {
    /// Returns true if masks say all that an instruction asks of its operands.
    fn is_answered(&self, src: &Function, inst: Inst) -> bool {
        let data = &src.insts[inst];
        let is_open = |v: &Value| self.open.contains(*v);
        let has_mask = |v: &Value| self.masked.contains(*v);
        let is_known = !data.args.iter().any(is_open);
        match &data.op {
            // The masks of both take the place of a choice.
            Op::Select => data.args[1..].iter().any(has_mask) || is_known || is_open(&data.results[0]),
            Op::Local | Op::Load | Op::Store | Op::AddTo | Op::SubCell => {
                is_known && !data.results.iter().any(is_open)
            }
            op if is_arithmetic(op) || moves(op) => is_known || is_open(&data.results[0]),
            Op::If | Op::Switch(_) | Op::For(_) | Op::Loop(_) | Op::Call(_) => {
                let inner = data.regions.iter().flat_map(|&region| {
                    let region = &src.regions[region];
                    region.params.iter().chain(&region.results)
                });
                is_known && !data.results.iter().chain(inner).any(is_open)
            }
            _ => is_known && !data.args.iter().any(has_mask),
        }
    }
}

/// Returns true for ops that move values, whose masks move with them.
fn moves(op: &Op) -> bool {
    op.spec().class == Class::Aggregate || matches!(op, Op::Local | Op::Load)
}

/// Returns true for ops that compute numbers from numbers, elementwise.
fn is_arithmetic(op: &Op) -> bool {
    matches!(op.spec().class, Class::Number | Class::Differential) || *op == Op::Detach
}

/// Rewrites the body of a copy, whose values have their new types already.
struct Rewriter<'r, 'm> {
    maker: &'r mut Maker<'m>,
    out: Function,
    depend: Dependent,
    subst: Subst,
    /// The instructions of the innermost region so far.
    list: Vec<Inst>,
}

impl Rewriter<'_, '_> {
    /// Rewrites a region, whose results are masks where they are `wanted` to be.
    fn region(&mut self, region: Region, wanted: &[bool]) -> Result<(), Span> {
        let insts = std::mem::take(&mut self.out.regions[region].insts);
        let outer = std::mem::take(&mut self.list);
        for inst in insts {
            self.inst(inst)?;
        }
        self.subst.apply_results(&mut self.out, region);
        for (k, &has_mask) in wanted.iter().enumerate() {
            let v = self.out.regions[region].results[k];
            self.out.regions[region].results[k] = if has_mask { self.mask(v) } else { v };
        }
        self.out.regions[region].insts = std::mem::replace(&mut self.list, outer);
        Ok(())
    }

    fn emit(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        let result = self.out.values.push(ValueData::new(ty));
        self.depend.masked.insert(result);
        self.push(op, args, &[result], &[]);
        result
    }

    fn push(&mut self, op: Op, args: &[Value], results: &[Value], regions: &[Region]) {
        let data = InstData {
            op,
            args: args.into(),
            results: results.into(),
            regions: regions.into(),
            span: Span::NONE,
        };
        let inst = self.out.insts.push(data);
        self.list.push(inst);
    }

    /// The value itself if it is a mask, else an empty one in its shape.
    fn mask(&mut self, v: Value) -> Value {
        if self.depend.masked.contains(v) {
            return v;
        }
        let ty = masks(&mut self.maker.module.types, self.out.ty(v));
        self.emit(Op::Zero, &[], ty)
    }

    /// Makes these operands masks.
    fn mask_args(&mut self, inst: Inst, which: Range<usize>) {
        for k in which {
            let v = self.out.insts[inst].args[k];
            self.out.insts[inst].args[k] = self.mask(v);
        }
    }

    /// Rewrites an instruction, and adds it to the list unless others take its place.
    fn inst(&mut self, inst: Inst) -> Result<(), Span> {
        self.subst.apply(&mut self.out, inst);
        let InstData { op, args, results, regions, span } = self.out.insts[inst].clone();
        let has = |r: &Rewriter, v: &Value| r.depend.masked.contains(*v);
        let is_result = results.first().is_some_and(|v| has(self, v));
        if results.iter().any(|&v| self.depend.open.contains(v)) {
            // Nothing is left that asks for it.
            return Ok(());
        }
        match op {
            Op::If | Op::Switch(_) | Op::For(_) | Op::Loop(_) => {
                let (at, _, yields) = op.carried_at();
                let have_masks: Vec<bool> = results.iter().map(|v| has(self, v)).collect();
                let n_carried = self.out.insts[inst].n_carried();
                for k in (0..n_carried).filter(|&k| have_masks[k]) {
                    self.mask_args(inst, at + k..at + k + 1);
                }
                let wanted = [vec![false; yields], have_masks].concat();
                for region in regions {
                    self.region(region, &wanted)?;
                }
            }
            Op::Call(callee) => {
                let tangents: Mask = args.iter().map(|v| has(self, v)).collect();
                if tangents.contains(&true) {
                    let callee = self.maker.function(&(callee, tangents))?;
                    self.out.insts[inst].op = Op::Call(callee);
                }
            }
            Op::Store if has(self, &args[0]) => self.mask_args(inst, args.len() - 1..args.len()),
            Op::AddTo if has(self, &args[0]) => {
                // A stack grows where it is added to.
                if self.maker.module.types.has_stack(self.out.ty(args[0])) {
                    return Err(span);
                }
                // What has no mask adds nothing.
                if let [place @ .., v] = &args[..]
                    && has(self, v)
                {
                    self.add_to(place, *v);
                }
                return Ok(());
            }
            _ if !is_result => {}
            Op::Index => self.mask_args(inst, 0..1),
            Op::Select if !self.depend.open.contains(args[0]) => self.mask_args(inst, 1..args.len()),
            Op::Construct | Op::Splat | Op::Extract(_) | Op::Insert(_) | Op::Local => {
                self.mask_args(inst, 0..args.len());
            }
            Op::Load | Op::SubCell => {}
            Op::Sum => {
                let TypeData::Vector(_, n) = self.maker.module.types[self.out.ty(args[0])] else {
                    return Err(span);
                };
                let lanes = (0..n).map(|k| self.emit(Op::Extract(k), &[args[0]], Type::U64)).collect();
                self.join(lanes, results[0]);
                return Ok(());
            }
            op if is_arithmetic(&op) || op == Op::Select => {
                let mut operands: Vec<Value> = args.iter().copied().filter(|v| has(self, v)).collect();
                operands.dedup();
                if operands.iter().any(|&v| self.out.ty(v) != self.out.ty(results[0])) {
                    return Err(span);
                }
                self.join(operands, results[0]);
                return Ok(());
            }
            _ => return Err(span),
        }
        self.list.push(inst);
        Ok(())
    }

    /// Makes `result` the mask of all operands.
    fn join(&mut self, operands: Vec<Value>, result: Value) {
        let ty = self.out.ty(result);
        let mut operands = operands.into_iter();
        let Some(first) = operands.next() else {
            let zero = self.emit(Op::Zero, &[], ty);
            return self.subst.set(result, zero);
        };
        let all = operands.fold(first, |all, v| self.emit(Op::Or, &[all, v], ty));
        self.subst.set(result, all);
    }

    /// Adds to a place in a cell: what is read grows by the mask of what is added, element by element in arrays.
    fn add_to(&mut self, place: &[Value], v: Value) {
        let ty = self.out.ty(v);
        if let TypeData::Array(element, n) = self.maker.module.types[ty] {
            let [trips, at] = [(); 2].map(|()| self.out.values.push(ValueData::new(Type::U32)));
            self.push(Op::Const(n.into()), &[], &[trips], &[]);
            let outer = std::mem::take(&mut self.list);
            let element = self.emit(Op::Index, &[v, at], element);
            self.add_to(&[place, &[at]].concat(), element);
            let insts = std::mem::replace(&mut self.list, outer);
            let body = self.out.regions.push(RegionData { params: vec![at], insts, results: Vec::new() });
            self.push(Op::For(LoopInfo::default()), &[trips], &[], &[body]);
            return;
        }
        let old = self.emit(Op::Load, place, ty);
        let new = self.emit(Op::Or, &[old, v], ty);
        self.push(Op::Store, &[place, &[new]].concat(), &[], &[]);
    }
}
