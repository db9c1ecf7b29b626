//! Implements `call_apply` and `call_pullback`, `call_linearize` and `call_pushforward`: the value now,
//! derivatives later.
//!
//! `(y, r) = apply(x)` and `x̄ = pullback(x, r, ȳ)` are the two halves that reverse mode calls one after the
//! other; `(y, r) = linearize(x)` and `ẏ = pushforward(x, r, ẋ)` are those of forward mode, in which one `r`
//! serves any number of directions. The residuals `r` have the type [`TypeData::Residuals`] until the halves
//! are made and it is known which values they keep. Then every value of that type is replaced by the kept
//! values, in all functions at once ([`expand`]). This happens before anything else is differentiated, so a
//! pullback may be used like any other value: in arrays, cells and structs, and across calls and loops; the
//! functions that use it are differentiated like any others.
//!
//! The residuals have no tangents: a derivative of the pullback is one of `call_bwd` at the same `x`, whose
//! value the pullback has, and that of the pushforward one of `call_fwd`. These run the function again, so it
//! must have no effects then (E0918).
//!
//! If a mode runs the function again anyway (recursion) or calls a user-written derivative, only the
//! arguments are kept. The same goes for a pullback that is an element of an array if one of its residuals
//! would be a stack, which an array cannot hold, and for forward mode if tangents come from elsewhere than
//! the arguments.

mod expand;

use ir::analysis::reach;
use ir::{Builder, Func, Function, Op, Origin, Residuals, Slot, Type, TypeData, Value, Witness};
use rustc_hash::FxHashMap;

use crate::copy::fresh;
use crate::engine::Engine;
use crate::propagate::forget;
use crate::request::Linearized;
use crate::results::Residual;
use crate::shape::{Mask, Mode, tangent_slot};
use crate::witness::{Source, source};

use expand::{Expansion, holds};

/// The functions that replace `call_apply` and `call_pullback`, or `call_linearize` and `call_pushforward`.
struct Split {
    /// `(params…) -> (results…, kept…)`.
    first: Func,
    /// `(params…, kept…, (co)tangents…) -> ((co)tangents…)`.
    second: Func,
    /// The types of the kept values.
    kept: Vec<Type>,
}

/// A function that is linear in its differentials, with the primal half that computes its residuals.
struct LinearHalf {
    /// `(params…) -> (results…, residuals…)`.
    primal: Func,
    residuals: Vec<Residual>,
    /// `(residuals…, differentials…) -> (differentials…)`.
    linear: Func,
    /// The differentials that `linear` takes, among those given, and returns, among those wanted.
    takes: Mask,
    gives: Mask,
}

type Functions = cranelift_entity::PrimaryMap<Func, Function>;

impl Engine<'_> {
    /// Expands all values of type [`TypeData::Residuals`], callees first.
    pub(crate) fn split_pullbacks(&mut self) {
        let mut left: Vec<u32> = (0..self.module.residuals.len() as u32).collect();
        while !left.is_empty() {
            let ready =
                left.iter().position(|&n| !self.makes_pullbacks(self.module.residuals[n as usize].func));
            let number = left.remove(ready.unwrap_or(0));
            let of = self.module.residuals[number as usize];
            let split = if ready.is_some() {
                self.split(number, of)
            } else {
                let message = format!("a pullback of '{}' needs itself", self.user_name(of.func));
                self.problem(self.module.funcs[of.func].span, "E0911", message);
                None
            };
            let module = &mut *self.module;
            for func in module.funcs.keys().collect::<Vec<_>>() {
                let mut function = std::mem::take(&mut module.funcs[func]);
                Expansion { types: &mut module.types, number, of, split: split.as_ref() }
                    .function(&mut function);
                module.funcs[func] = function;
            }
        }
        self.module.residuals.clear();
    }

    /// Returns true if a function, or a function that it needs, has a value of type [`TypeData::Residuals`].
    fn makes_pullbacks(&self, func: Func) -> bool {
        let module = &*self.module;
        let reached = reach([func], |func| {
            let Witness { jvp, vjp, apply, substitute, .. } = module.witness(func);
            let custom = [jvp, vjp, apply, substitute].into_iter().flatten();
            let callees = ir::walk::callees(&module.funcs[func]);
            callees.into_iter().chain(custom.filter(|_| module.funcs[func].has_body())).collect::<Vec<_>>()
        });
        let mut values = reached.iter().flat_map(|func| module.funcs[func].values.values());
        values.any(|v| holds(&module.types, v.ty, None))
    }

    fn split(&mut self, number: u32, of: Residuals) -> Option<Split> {
        let Residuals { func, forward } = of;
        self.resolve(func);
        self.resolve_witnesses(func);
        let func = self.stand_in(func, if forward { Mode::Forward } else { Mode::Reverse });
        let of = Residuals { func, forward };
        let span = self.module.funcs[func].span;
        let is_recursive = self.facts.cycles.is_recursive(self.module, func);
        if forward {
            let whole = self.forward(func, span)?;
            let half = if is_recursive { None } else { self.forward_half(func) };
            let made = half.and_then(|half| self.split_of_half(number, of, whole, &half));
            return Some(made.unwrap_or_else(|| self.split_of_arguments(of, whole)));
        }
        let whole = self.backward(func, span)?;
        let made = match source(self.module, func, Mode::Reverse) {
            Source::Applied { apply, vjp } => Some(self.split_of_context(of, whole, apply, vjp)),
            Source::Jvp(_) | Source::Body(_) if !is_recursive => {
                let halves = self.made.halves.get(&func)?.clone();
                let half = LinearHalf {
                    primal: halves.primal,
                    residuals: halves.residuals,
                    linear: halves.transposed,
                    takes: halves.active,
                    gives: self.module.funcs[func].params.iter().map(|s| s.diff).collect(),
                };
                self.split_of_half(number, of, whole, &half)
            }
            Source::Jvp(_) | Source::Body(_) | Source::Vjp(_) | Source::Zero => None,
        };
        Some(made.unwrap_or_else(|| self.split_of_arguments(of, whole)))
    }

    /// The halves of forward mode, if all tangents come from the arguments and the user-written derivatives
    /// are linear.
    fn forward_half(&mut self, func: Func) -> Option<LinearHalf> {
        let takes: Mask = self.module.funcs[func].params.iter().map(|s| s.diff).collect();
        let n_params = takes.len();
        let (linearized, gives) = match self.forward_source(func) {
            Source::Jvp(jvp) if !self.facts.activity.is_source(jvp, Mode::Forward) => {
                (jvp, self.module.funcs[func].results.iter().map(|s| s.diff).collect())
            }
            Source::Body(body)
                if !self.facts.activity.calls_custom(self.module, body, Mode::Forward, true) =>
            {
                let made = self.linearize(body, &takes, Mode::Forward);
                (made, self.facts.activity.results(self.module, body, &takes, Mode::Forward))
            }
            _ => return None,
        };
        let n_problems = self.found.problems.len();
        let linearized = Linearized { func: linearized, n_params, active_results: gives };
        let unzipped = self.mark_tangents(&linearized).and_then(|marked| self.unzip(marked));
        // A user-written derivative that is not linear is still allowed, only without these halves.
        let is_linear = self.found.problems.len() == n_problems;
        self.found.problems.truncate(n_problems);
        let unzipped = unzipped.filter(|_| is_linear)?;
        let linear = self.without_marks(unzipped.linear, &mut FxHashMap::default());
        let gives = linearized.active_results;
        Some(LinearHalf { primal: unzipped.primal, residuals: unzipped.residuals, linear, takes, gives })
    }

    /// Splits by means of the function's halves, unless a residual would be a stack in an array.
    fn split_of_half(&mut self, number: u32, of: Residuals, whole: Func, half: &LinearHalf) -> Option<Split> {
        let results: Vec<Slot> = self.module.funcs[half.primal].results.clone();
        let mut kept: Vec<usize> = Vec::new();
        for residual in &half.residuals {
            if let Residual::Result(n) = residual
                && !kept.contains(n)
            {
                kept.push(*n);
            }
        }
        let types: Vec<Type> = kept.iter().map(|&n| results[n].ty).collect();
        let interned = &self.module.types;
        let in_array = interned
            .iter()
            .any(|(ty, data)| matches!(data, TypeData::Array(..)) && holds(interned, ty, Some(number)));
        if in_array && types.iter().any(|&ty| interned.has_stack(ty)) {
            self.check_again(of.func, "a pullback that is an element of an array");
            return None;
        }
        let n_results = self.module.funcs[of.func].results.len();
        let first = self.first_of(of, &types, |b, module, args| {
            let called = b.call_func(half.primal, &module[half.primal].results, args);
            let own = called[..n_results].iter();
            own.copied().chain(kept.iter().map(|&n| called[n])).collect()
        });
        let second = self.second_of(of, &types, |b, (given, wanted), args, values, differentials| {
            let mut operands: Vec<Value> = Vec::new();
            for residual in &half.residuals {
                operands.push(match residual {
                    Residual::Param(n) => args[*n],
                    Residual::Result(n) => values[kept.iter().position(|k| k == n).unwrap_or(0)],
                });
            }
            let taken = given.iter().zip(&half.takes).filter(|(slot, _)| slot.diff);
            operands.extend(taken.zip(differentials).filter(|((_, taken), _)| **taken).map(|(_, &v)| v));
            let gives = || wanted.iter().zip(&half.gives).filter(|(slot, _)| slot.diff);
            let made = fresh(b, gives().filter(|(_, given)| **given).map(|(s, _)| s.ty));
            b.push(Op::Call(half.linear), &operands, &made, &[]);
            let mut made = made.into_iter();
            let mut tangent = |given: bool| if given { made.next() } else { None };
            gives().map(|(slot, &given)| tangent(given).unwrap_or_else(|| b.zero(slot.ty))).collect()
        });
        self.differentiate_as_whole(of, whole, second, types.len());
        Some(Split { first, second, kept: types })
    }

    /// Splits by means of a user-written `apply`, whose context is kept.
    fn split_of_context(&mut self, of: Residuals, whole: Func, custom: Func, vjp: Func) -> Split {
        let n_results = self.module.funcs[of.func].results.len();
        let types: Vec<Type> = self.module.funcs[custom].results[n_results..].iter().map(|s| s.ty).collect();
        let first =
            self.first_of(of, &types, |b, module, args| b.call_func(custom, &module[custom].results, args));
        let results = self.module.funcs[vjp].results.clone();
        let second = self.second_of(of, &types, |b, _, _, values, cotangents| {
            let operands = [values, cotangents].concat();
            b.call_func(vjp, &results, &operands)
        });
        self.differentiate_as_whole(of, whole, second, types.len());
        Split { first, second, kept: types }
    }

    /// Splits into the function itself and its whole derivative; only the arguments are kept.
    fn split_of_arguments(&mut self, of: Residuals, whole: Func) -> Split {
        let first =
            self.first_of(of, &[], |b, module, args| b.call_func(of.func, &module[of.func].results, args));
        let results = self.module.funcs[whole].results.clone();
        let n_primals = if of.forward { self.module.funcs[of.func].results.len() } else { 0 };
        let second = self.second_of(of, &[], |b, _, args, _, differentials| {
            let operands = [args, differentials].concat();
            b.call_func(whole, &results, &operands).split_off(n_primals)
        });
        Split { first, second, kept: Vec::new() }
    }

    fn first_of(
        &mut self,
        of: Residuals,
        kept: &[Type],
        make: impl FnOnce(&mut Builder<'_>, &Functions, &[Value]) -> Vec<Value>,
    ) -> Func {
        let src = &self.module.funcs[of.func];
        let name = format!("{}_{}", src.name, if of.forward { "linearized" } else { "apply" });
        let (params, mut results) = (src.params.clone(), src.results.clone());
        results.extend(kept.iter().map(|&ty| Slot { ty, diff: false, linear: false, name: None }));
        let made = self.declare(name, Origin::Variant(of.func), params, results);
        self.wrap(made, make)
    }

    /// Makes the second half. `make` receives the slots of the differentials given and wanted, and all
    /// operands.
    fn second_of(
        &mut self,
        of: Residuals,
        kept: &[Type],
        make: impl FnOnce(&mut Builder<'_>, (&[Slot], &[Slot]), &[Value], &[Value], &[Value]) -> Vec<Value>,
    ) -> Func {
        let src = self.module.funcs[of.func].clone();
        let (given, wanted) = match of.forward {
            true => (&src.params, &src.results),
            false => (&src.results, &src.params),
        };
        let differentials =
            |slots: &[Slot]| -> Vec<Slot> { slots.iter().filter(|s| s.diff).map(tangent_slot).collect() };
        let mut params = src.params.clone();
        params.extend(kept.iter().map(|&ty| Slot { ty, diff: false, linear: false, name: None }));
        params.extend(differentials(given));
        let results = differentials(wanted);
        let name = format!("{}_{}", src.name, if of.forward { "pushforward" } else { "pullback" });
        let made = self.declare(name, half(of), params, results);
        self.wrap(made, |b, _, args| {
            let (args, rest) = args.split_at(src.params.len());
            let (values, differentials) = rest.split_at(kept.len());
            // The program's numbers become differentials here, and the results become numbers again.
            let differentials = present_all(b, differentials);
            let values = make(b, (given, wanted), args, values, &differentials);
            present_all(b, &values)
        })
    }

    /// Makes the derivatives of the second half those of the whole derivative at the same arguments.
    fn differentiate_as_whole(&mut self, of: Residuals, whole: Func, second: Func, n_kept: usize) {
        let Function { params, results, name, .. } = self.module.funcs[second].clone();
        let n_params = self.module.funcs[of.func].params.len();
        let n_primals = if of.forward { self.module.funcs[of.func].results.len() } else { 0 };
        let made = self.declare(format!("{name}_whole"), half(of), params, results);
        self.wrap(made, |b, funcs, args| {
            let differentials = present_all(b, &args[n_params + n_kept..]);
            let operands = [&args[..n_params], &differentials].concat();
            let values = b.call_func(whole, &funcs[whole].results, &operands).split_off(n_primals);
            present_all(b, &values)
        });
        let witness = Witness { substitute: Some(made), is_same: true, ..Witness::default() };
        self.module.witnesses.insert(second, witness);
    }

    /// Copies a linear function and its callees without marks; reverse mode may still need the originals.
    pub(crate) fn without_marks(&mut self, func: Func, copies: &mut FxHashMap<Func, Func>) -> Func {
        let is_linear = |src: &Function| src.values.values().any(|v| v.linear);
        self.copy_with_callees(func, "map", copies, &is_linear, &forget)
    }
}

/// The origin of the second half of a derivative.
fn half(of: Residuals) -> Origin {
    if of.forward { Origin::Jvp(of.func) } else { Origin::Pullback(of.func) }
}

/// Converts differentials to numbers, or numbers to differentials that are present.
fn present_all(b: &mut Builder<'_>, values: &[Value]) -> Vec<Value> {
    values.iter().map(|&v| b.emit(Op::Present, &[v])).collect()
}
