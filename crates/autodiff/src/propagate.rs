//! Marks the instructions that compute a differential, and checks that they are linear in the differentials.
//!
//! Given a function and the set of its parameters that are tangents, a value is *linear* if it is the result
//! of an op with a linear operand. This is a forward fixpoint like that of `activity`, over
//! [`Op::linearity`]. Then each use is checked: where a linear operand is required, a nonlinear value must be
//! known to be zero (it becomes a linear `zero`); a linear operand anywhere else is an error in the
//! derivative as written.
//!
//! By induction over the program, a function that passes the check is linear in its marked parameters for
//! fixed values of the others, and no unmarked value depends on a marked one. `unzip` and `transpose` rely on
//! nothing else, so user-written rules and generated ones are treated alike.
//!
//! A callee is marked for the operands that are linear at the call: there is one variant for each such set.
//! A variant has the derivatives that are written for the callee, so that a rule that calls its own function on a
//! differential can be differentiated again.

use cranelift_entity::EntitySet;
use ir::analysis::flow::{Direction, Flow};
use ir::build::float_bits;
use ir::{
    Defs, Func, Function, Inst, InstData, Linearity, Module, Op, Origin, Region, Span, TypeData, Value,
    ValueData,
};
use rustc_hash::FxHashMap;

use crate::engine::{Engine, Roles};
use crate::results::Marks;
use crate::shape::{Mask, Shape, params};

/// The parts of the engine that the analysis reads.
struct Context<'a> {
    module: &'a Module,
    roles: &'a Roles,
}

pub(crate) const NONLINEAR: &str = "E0910";

impl Engine<'_> {
    /// Makes the marked variant of a function; see the head of this file. Memoised. Returns `None` if a
    /// problem was found (and reported).
    pub(crate) fn propagate(&mut self, func: Func, tangents: &[bool]) -> Option<Func> {
        let key = (func, Mask::from(tangents));
        if let Some(&known) = self.made.propagated.get(&key) {
            if self.running.contains(&func) {
                let name = self.user_name(func);
                let message =
                    format!("the forward derivative '{name}' calls itself, so it cannot be transposed");
                self.problem(self.module.funcs[func].span, "E0912", message);
            }
            return known;
        }
        self.made.propagated.insert(key.clone(), None);
        self.running.push(func);
        let made = self.marked(func, tangents);
        self.running.pop();
        self.made.propagated.insert(key, made);
        made
    }

    fn marked(&mut self, func: Func, tangents: &[bool]) -> Option<Func> {
        let ctx = Context { module: self.module, roles: &self.roles };
        let linear = self.facts.marks.values(&ctx, func, tangents);
        let mut results = self.facts.marks.results(&ctx, func, tangents);
        let mut dst = self.module.funcs[func].clone();
        let shape = self.roles.shapes.get(&func).copied();
        let is_whole = shape.is_some_and(|s| tangents.iter().enumerate().all(|(k, &t)| t == (k >= s.params)));
        if let Some(shape) = shape.filter(|_| is_whole) {
            // In generated code the error lies in a user-written derivative that is called, and the check of
            // that one finds it.
            let is_written = !self.is_generated(func);
            if is_written && results[..shape.results].iter().any(|&linear| linear) {
                let name = dst.name.trim_end_matches(":jvp");
                let message = format!(
                    "the value in the forward derivative of '{name}' depends on a differential, not on primals alone"
                );
                self.problem(dst.span, NONLINEAR, message);
                return None;
            }
            results[..shape.results].fill(false);
            results[shape.results..].fill(true);
        }
        for v in linear.iter() {
            dst.values[v].linear = true;
            dst.values[v].differential = true;
        }
        for (slot, &linear) in dst.params.iter_mut().zip(tangents) {
            slot.linear = linear;
        }
        for (slot, &linear) in dst.results.iter_mut().zip(&results) {
            slot.linear = linear;
        }
        dst.name = self.unique(format!("{}_marked", dst.name));
        let defs = Defs::of(&dst);
        let body = dst.body();
        let mut check = Check { engine: self, src: func, dst, defs, failed: None, is_below: false };
        check.region(body, &results);
        if check.failed.is_some() {
            return None;
        }
        let mut dst = check.dst;
        dst.origin = Origin::Variant(func);
        let made = self.module.funcs.push(dst);
        self.inherit_derivatives(made, func);
        self.count_calls(made);
        Some(made)
    }
}

/// The values of a function that depend linearly on the given parameters, whether or not the whole function
/// is linear in them.
pub(crate) fn linear_values(engine: &Engine, func: Func, tangents: &[bool]) -> EntitySet<Value> {
    let ctx = Context { module: engine.module, roles: &engine.roles };
    // Facts about calls may still change, so nothing is memoised.
    Marks::default().values(&ctx, func, tangents)
}

/// Returns true if a value is known to be zero from the instructions that define it.
pub(crate) fn is_zero(func: &Function, defs: &Defs, shapes: &FxHashMap<Func, Shape>, v: Value) -> bool {
    let Some(inst) = defs.inst(v) else { return false };
    let data = &func.insts[inst];
    match data.op {
        Op::Zero | Op::Absent => true,
        Op::Const(bits) => {
            let sign = match func.ty(v) {
                ir::Type::F16 => 1 << 15,
                ir::Type::F32 => 1 << 31,
                ir::Type::F64 => 1 << 63,
                _ => 0,
            };
            bits & !sign == 0
        }
        Op::Scale | Op::Unscale => is_zero(func, defs, shapes, data.args[0]),
        Op::Mask => is_zero(func, defs, shapes, data.args[1]),
        Op::Select => data.args[1..].iter().all(|&a| is_zero(func, defs, shapes, a)),
        Op::Convert
        | Op::Splat
        | Op::Neg
        | Op::Present
        | Op::Detach
        | Op::Sum
        | Op::Construct
        | Op::Insert(_) => data.args.iter().all(|&a| is_zero(func, defs, shapes, a)),
        Op::Extract(_) | Op::Index => is_zero(func, defs, shapes, data.args[0]),
        // The tangents returned by a derivative whose tangent operands are zero.
        Op::Call(callee) => shapes.get(&callee).is_some_and(|shape| {
            data.results[shape.results..].contains(&v)
                && data.args[shape.params..].iter().all(|&a| is_zero(func, defs, shapes, a))
        }),
        Op::If => {
            let position = data.results.iter().position(|&r| r == v).expect("a result of its instruction");
            data.regions.iter().all(|&arm| is_zero(func, defs, shapes, func.regions[arm].results[position]))
        }
        _ => false,
    }
}

/// The number of operands of a `call_transpose_of` that are not tangents.
pub(crate) fn n_transposed_params(module: &Module, vjp: Func, n_args: usize) -> usize {
    n_args.saturating_sub(module.funcs[vjp].results.len())
}

impl Marks {
    fn values(&mut self, ctx: &Context, func: Func, tangents: &[bool]) -> EntitySet<Value> {
        let src = &ctx.module.funcs[func];
        let defs = Defs::of(src);
        let mut flow = Flow::new(src, &|_| true);
        params(src).iter().zip(tangents).for_each(|(&v, tangent)| flow.join(v, tangent));
        flow.settle(Direction::Forward, &mut |flow, inst| self.transfer(ctx, func, &defs, flow, inst));
        let facts = flow.into_facts();
        let mut linear = EntitySet::with_capacity(src.values.len());
        linear.extend(src.values.keys().filter(|&v| facts[v]));
        linear
    }

    /// Marks the results of an instruction with linear operands. Control passes marks on by itself.
    fn transfer(&mut self, ctx: &Context, func: Func, defs: &Defs, flow: &mut Flow<bool>, inst: Inst) {
        let src = &ctx.module.funcs[func];
        let data = &src.insts[inst];
        let args = &data.args[..];
        match (data.op.linearity(), &data.op) {
            (Linearity::All | Linearity::Either, _) | (_, Op::Scale) => flow.copy_all(args, data.results[0]),
            (Linearity::Only(k), _) => flow.copy(args[k], data.results[0]),
            (Linearity::AllButFirst, _) => flow.copy_all(&args[1..], data.results[0]),
            (_, Op::Store | Op::AddTo) => flow.copy(args[args.len() - 1], args[0]),
            (Linearity::Cell, _) | (_, Op::Detach) => {
                flow.copy(args[0], data.results[0]);
                if data.op == Op::SubCell {
                    flow.copy(data.results[0], args[0]);
                }
            }
            (_, Op::Call(callee)) => {
                let zero = |v| is_zero(src, defs, &ctx.roles.shapes, v);
                let (mask, needed) = self.call(ctx, func, inst, data, &|v| *flow.get(v), &zero);
                if needed {
                    let results = self.call_results(ctx, func, inst, *callee, &mask);
                    data.results.iter().zip(&results).for_each(|(&v, linear)| flow.join(v, linear));
                }
            }
            (_, Op::CallTransposeOf(_)) => data.results.iter().for_each(|&v| flow.join(v, &true)),
            (Linearity::Structure | Linearity::Source | Linearity::Never, _) => (),
        }
    }

    fn results(&mut self, ctx: &Context, func: Func, tangents: &[bool]) -> Mask {
        let src = &ctx.module.funcs[func];
        let key = (func, Mask::from(tangents));
        match self.results.get(&key) {
            Some(Some(known)) => return known.clone(),
            // Recursion is reported when the variant is made.
            Some(None) => return src.results.iter().map(|_| false).collect(),
            None => self.results.insert(key.clone(), None),
        };
        let linear = self.values(ctx, func, tangents);
        let mask: Mask = src.regions[src.body()].results.iter().map(|&v| linear.contains(v)).collect();
        self.results.insert(key, Some(mask.clone()));
        mask
    }

    /// Returns true if a function executes a `call_transpose_of`, directly or in a callee.
    pub(crate) fn transposed_inside(&mut self, module: &Module, func: Func) -> bool {
        if let Some(&known) = self.transposed_inside.get(&func) {
            return known;
        }
        self.transposed_inside.insert(func, false);
        let src = &module.funcs[func];
        let mut found = false;
        let mut callees = Vec::new();
        if src.has_body() {
            src.walk(src.body(), &mut |inst| match src.insts[inst].op {
                Op::CallTransposeOf(_) => found = true,
                Op::Call(callee) => callees.push(callee),
                _ => (),
            });
        }
        found = found || callees.into_iter().any(|callee| self.transposed_inside(module, callee));
        self.transposed_inside.insert(func, found);
        found
    }

    /// The mask of linear operands of a call, and whether the callee needs a marked variant at all.
    fn call(
        &mut self,
        ctx: &Context,
        func: Func,
        inst: Inst,
        data: &InstData,
        is_linear: &dyn Fn(Value) -> bool,
        is_zero: &dyn Fn(Value) -> bool,
    ) -> (Mask, bool) {
        let callee = data.op.callee().expect("a call");
        let mut mask: Mask = data.args.iter().map(|&v| is_linear(v)).collect();
        let any = mask.iter().any(|&m| m);
        if let Some(shape) = ctx.roles.shapes.get(&callee) {
            if ctx.roles.derivative_calls.contains(&(func, inst)) {
                mask[shape.params..].fill(true);
            } else if any {
                for (k, &v) in data.args.iter().enumerate().skip(shape.params) {
                    mask[k] |= is_zero(v);
                }
            }
        }
        let any = mask.iter().any(|&m| m);
        let needed = any || self.transposed_inside(ctx.module, callee);
        (mask, needed)
    }

    /// The linear results of a call, given the mask of its linear operands.
    fn call_results(&mut self, ctx: &Context, func: Func, inst: Inst, callee: Func, mask: &[bool]) -> Mask {
        let mut results = self.results(ctx, callee, mask);
        if let Some(shape) = ctx.roles.shapes.get(&callee) {
            let is_whole = mask.iter().enumerate().all(|(k, &t)| t == (k >= shape.params));
            // The arguments of a derivative of a derivative may be differentials themselves.
            if is_whole || ctx.roles.derivative_calls.contains(&(func, inst)) {
                results[shape.results..].fill(true);
            }
        }
        results
    }
}

/// Checks every use in the marked copy, and inserts linear zeros where they are required.
struct Check<'a, 'm> {
    engine: &'a mut Engine<'m>,
    src: Func,
    dst: Function,
    defs: Defs,
    /// The location of the last error in this function.
    failed: Option<Span>,
    /// A callee failed its own check.
    is_below: bool,
}

impl Check<'_, '_> {
    /// Checks a region. `due` selects the region's results that must be linear.
    fn region(&mut self, region: Region, due: &[bool]) {
        let insts = std::mem::take(&mut self.dst.regions[region].insts);
        let mut checked = Vec::with_capacity(insts.len());
        for inst in insts {
            self.inst(inst, &mut checked);
            checked.push(inst);
        }
        let mut results = std::mem::take(&mut self.dst.regions[region].results);
        let span = checked.last().map_or(self.dst.span, |&inst| self.dst.insts[inst].span);
        for (v, &due) in results.iter_mut().zip(due) {
            if due {
                *v = self.linear(*v, span, &mut checked);
            } else if self.failed.is_none() {
                *v = self.number(*v, span, None);
            }
        }
        self.dst.regions[region].insts = checked;
        self.dst.regions[region].results = results;
    }

    /// Checks that `v`, which must be linear, is; replaces a zero by a linear zero.
    fn linear(&mut self, v: Value, span: Span, before: &mut Vec<Inst>) -> Value {
        if self.dst.is_linear(v) {
            return v;
        }
        if !is_zero(&self.dst, &self.defs, &self.engine.roles.shapes, v) {
            // If that is no error, the rest is checked as if the number were zero.
            if !self.engine.numbers_may_be_added {
                let message = "a derivative adds a number to a differential, so it is not linear in it";
                self.report(span, message.to_owned());
                return v;
            }
        }
        let ty = self.dst.ty(v);
        let (inst, absent) = self.dst.make_value(Op::Absent, &[], ValueData::linear(ty), span);
        before.push(inst);
        self.defs.add(&self.dst, inst);
        absent
    }

    /// Checks that `v` is not linear.
    fn number(&mut self, v: Value, span: Span, op: Option<&Op>) -> Value {
        if self.dst.is_linear(v) {
            let by = op.map_or(String::new(), |op| format!(" by '{}'", word(op)));
            let message =
                format!("a differential is used as a number{by}, so the derivative is not linear in it");
            self.report(span, message);
        }
        v
    }

    /// Reports a problem, but only the first one at each location.
    fn report(&mut self, span: Span, message: String) {
        if self.failed != Some(span) && !self.is_below {
            self.failed = Some(span);
            self.engine.problem(span, NONLINEAR, message);
        }
    }

    fn inst(&mut self, inst: Inst, before: &mut Vec<Inst>) {
        let span = self.dst.insts[inst].span;
        self.exchange(inst, before);
        let op = self.dst.insts[inst].op.clone();
        let mut args = std::mem::take(&mut self.dst.insts[inst].args);
        let result = self.dst.insts[inst].results.first().copied();
        let is_linear = result.is_some_and(|v| self.dst.is_linear(v));
        let last = args.len().wrapping_sub(1);
        // Selects the operands that must be linear.
        let mut due: Mask = args.iter().map(|_| false).collect();
        match op.linearity() {
            Linearity::All => due.fill(is_linear),
            Linearity::Only(k) => due[k] = is_linear,
            Linearity::Either => {
                if is_linear {
                    due[if self.dst.is_linear(args[0]) { 0 } else { 1 }] = true;
                }
            }
            Linearity::AllButFirst => due[1..].fill(is_linear),
            Linearity::Source => (),
            Linearity::Cell => match op {
                Op::Store | Op::AddTo => {
                    due[0] = self.dst.is_linear(args[0]);
                    due[last] = due[0];
                }
                _ => due[0] = is_linear,
            },
            Linearity::Never => {
                let numeric = result.is_some_and(|v| self.engine.module.types.is_numeric(self.dst.ty(v)));
                if op == Op::Detach && is_linear && numeric {
                    // On differentials, `detach` is the identity: which values are held constant has been
                    // decided by now.
                    self.dst.insts[inst].op = Op::Convert;
                    due[0] = true;
                }
            }
            Linearity::Structure => self.structure(inst, &op, &args, &mut due),
        }
        // A value that is only printed or written to memory does not influence any result.
        let is_shown = self.engine.numbers_may_be_added
            && self.dst.insts[inst].results.is_empty()
            && op.linearity() == Linearity::Never;
        for (v, &due) in args.iter_mut().zip(&due) {
            if due {
                *v = self.linear(*v, span, before);
            } else if !is_shown {
                *v = self.number(*v, span, Some(&op));
            }
        }
        self.dst.insts[inst].args = args;
        if is_linear {
            self.scale(inst, before);
        }
    }

    /// Exchanges the parts of a product of two differentials where the second is the linear one: that one is scaled, where
    /// the other is present. What is masked by a linear value is a part of such a product, which that value will scale, and
    /// so has its absence anyway.
    fn exchange(&mut self, inst: Inst, before: &mut Vec<Inst>) {
        let data = &self.dst.insts[inst];
        let (op, args): (Op, &[Value]) = match (&data.op, &data.args[..]) {
            (Op::Scale, &[a, b]) if self.dst.is_linear(b) && !self.dst.is_linear(a) => {
                let ty = self.dst.ty(a);
                let by = self.emit(inst, Op::Present, &[a], ty, before);
                let b = match self.defs.inst(b).map(|of| &self.dst.insts[of]) {
                    Some(of) if of.op == Op::Present => of.args[0],
                    _ => b,
                };
                (Op::Mask, &[a, self.emit(inst, Op::Scale, &[b, by], ty, before)])
            }
            (Op::Mask, &[a, b]) if self.dst.is_linear(a) => (Op::Convert, &[b]),
            _ => return,
        };
        let data = &mut self.dst.insts[inst];
        data.op = op;
        data.args = args.into();
    }

    /// Replaces ordinary arithmetic in a derivative by the arithmetic of differentials.
    fn scale(&mut self, inst: Inst, before: &mut Vec<Inst>) {
        let data = &self.dst.insts[inst];
        // A call may have no operands: the function that it differentiates is constant.
        let Some(&a) = data.args.first() else { return };
        let b = data.args.get(1).copied();
        let (op, args) = match (&data.op, b) {
            (Op::Mul, Some(b)) if self.dst.is_linear(a) => (Op::Scale, [a, b]),
            (Op::Mul, Some(b)) => (Op::Scale, [b, a]),
            (Op::Div, Some(b)) => (Op::Unscale, [a, b]),
            (Op::Neg, _) => (Op::Scale, [a, self.minus_one(inst, before)]),
            (Op::Sub, Some(b)) => {
                let minus_one = self.minus_one(inst, before);
                let ValueData { ty, .. } = self.dst.values[b];
                (Op::Add, [a, self.emit(inst, Op::Scale, &[b, minus_one], ty, before)])
            }
            _ => return,
        };
        let data = &mut self.dst.insts[inst];
        data.op = op;
        data.args = args.into_iter().collect();
    }

    /// Emits -1 in the type of an instruction's result.
    fn minus_one(&mut self, inst: Inst, before: &mut Vec<Inst>) -> Value {
        let ty = self.dst.ty(self.dst.result(inst));
        let types = &self.engine.module.types;
        let s = types.scalar_of(ty).expect("arithmetic has numbers");
        let is_vector = types.lanes(ty).is_some();
        let c = self.emit(inst, Op::Const(float_bits(s, -1.0)), &[], s.into(), before);
        if is_vector { self.emit(inst, Op::Splat, &[c], ty, before) } else { c }
    }

    /// Emits a new instruction at the location of another. Its result is linear if an operand is.
    fn emit(&mut self, like: Inst, op: Op, args: &[Value], ty: ir::Type, before: &mut Vec<Inst>) -> Value {
        let span = self.dst.insts[like].span;
        let linear = args.iter().any(|&arg| self.dst.is_linear(arg));
        let (inst, v) = self.dst.make_value(op, args, ValueData::marked(ty, linear), span);
        before.push(inst);
        self.defs.add(&self.dst, inst);
        v
    }

    fn structure(&mut self, inst: Inst, op: &Op, args: &[Value], due: &mut [bool]) {
        let results: Mask = self.dst.insts[inst].results.iter().map(|&v| self.dst.is_linear(v)).collect();
        let regions = self.dst.insts[inst].regions.clone();
        match op {
            Op::If | Op::Switch(_) => regions.iter().for_each(|&arm| self.region(arm, &results)),
            Op::For(_) | Op::Loop(_) => {
                let lead = usize::from(matches!(op, Op::For(_)));
                for (due, &v) in due[lead..].iter_mut().zip(&self.dst.regions[regions[0]].params[lead..]) {
                    *due = self.dst.is_linear(v);
                }
                let mut inner = vec![false; 1 - lead];
                inner.extend(&results);
                self.region(regions[0], &inner);
            }
            Op::Call(callee) => {
                let ctx = Context { module: self.engine.module, roles: &self.engine.roles };
                let data = InstData { args: args.into(), ..self.dst.insts[inst].clone() };
                let linear = |v| self.dst.is_linear(v);
                let zero = |v| is_zero(&self.dst, &self.defs, &self.engine.roles.shapes, v);
                let (mask, needed) =
                    self.engine.facts.marks.call(&ctx, self.src, inst, &data, &linear, &zero);
                if needed {
                    due.copy_from_slice(&mask);
                    let before = self.engine.found.problems.len();
                    let variant = self.engine.propagate(*callee, &mask);
                    let span = self.dst.insts[inst].span;
                    self.engine.report_at_call(before, span);
                    if let Some(variant) = variant {
                        self.dst.insts[inst].op = Op::Call(variant);
                    } else {
                        // The error has been reported in the callee; errors that follow from it are
                        // suppressed.
                        self.failed = Some(span);
                        self.is_below = true;
                    }
                }
            }
            Op::CallTransposeOf(vjp) => {
                let n = n_transposed_params(self.engine.module, *vjp, args.len());
                due[n..].fill(true);
            }
            _ => (),
        }
    }
}

impl Engine<'_> {
    /// Notes a forward derivative whose tangents are not zero although those of its operands are. It stands
    /// for parameters that the function does not show, such as textures or the weights of a network.
    pub(crate) fn note_if_affine(&mut self, jvp: Func, shape: Shape) {
        if !self.module.funcs[jvp].has_body() || !self.facts.affine_known.insert(jvp) {
            return;
        }
        self.roles.shapes.insert(jvp, shape);
        let n = self.module.funcs[jvp].params.len();
        let tangents: Mask = (0..n).map(|k| k >= shape.params).collect();
        let ctx = Context { module: self.module, roles: &self.roles };
        let linear = self.facts.marks.results(&ctx, jvp, &tangents);
        let src = &self.module.funcs[jvp];
        let defs = Defs::of(src);
        let yielded = src.regions[src.body()].results.iter().zip(&linear).skip(shape.results);
        if yielded.into_iter().any(|(&v, &linear)| !linear && !is_zero(src, &defs, &self.roles.shapes, v)) {
            self.facts.activity.affine.insert(jvp);
        }
    }
}

/// The name of an operation in the source language, where it has one.
fn word(op: &Op) -> String {
    let name = ir::print::op_name(op);
    let sign = match name.split(' ').next().unwrap_or_default() {
        "mul" => "*",
        "div" => "/",
        "rem" => "%",
        "eq" => "==",
        "ne" => "!=",
        "lt" => "<",
        "le" => "<=",
        "gt" => ">",
        "ge" => ">=",
        "select" => "?:",
        "convert" => "a cast",
        first => first,
    };
    sign.to_owned()
}

/// Removes all marks of a function.
pub(crate) fn forget(func: &mut Function) {
    func.values.values_mut().for_each(|v| v.linear = false);
    func.params.iter_mut().chain(&mut func.results).for_each(|slot| slot.linear = false);
}

/// Returns true if a type is an array or a stack, whose cotangent is accumulated in a cell.
pub(crate) fn is_big(types: &ir::Types, ty: ir::Type) -> bool {
    matches!(types[ty], TypeData::Array(..) | TypeData::Stack(_))
}
