//! Derivatives of the functions that reverse mode makes of a function with a written derivative.
//!
//! A rule that calls a function `f` on a differential runs a marked variant of it ([`crate::propagate`]), which is linear:
//! `y = L(a)·ℓ`. Reverse mode splits and transposes the variant like any other, to `ℓ̄ = L(a)ᵀ·ȳ`. The body shows that it
//! is linear in `ℓ`, but it need not show how `L` depends on `a`: a function that returns what a solver has found, or that
//! solves with factors that are known, does not. So the derivatives of the transpose are not those of its body either, but
//! follow from the written ones of `f`:
//!
//! - A forward derivative of `f` gives `ẏ = L·ℓ̇ + (∂L·ȧ)·ℓ`. For a fixed `ȧ`, `(ℓ, ℓ̇) ↦ (y, ẏ)` is linear, and its transpose
//!   maps `(ȳ̇, ȳ)` to `(L(a)ᵀ·ȳ̇ + (∂L·ȧ)ᵀ·ȳ, L(a)ᵀ·ȳ)`: the tangent of `ℓ̄`, and `ℓ̄`. So the forward derivative of the
//!   transpose is the transpose of the rule, with the cotangents exchanged.
//! - A backward derivative of `f` gives, for a cotangent `u` of `ℓ̄`, the derivative of `u·L(a)ᵀ·ȳ = ȳ·L(a)·u` with respect to
//!   `a`: it is that of `f` at `(a, u)` for `ȳ`. That with respect to `ȳ` is `L(a)·u`, which is `f` itself.
//!
//! Both take all of `a`, also what the body does not read, so the linear half of such a variant is given all parameters of
//! the primal half besides what that half computes ([`crate::unzip`]). The rule computes the latter again.

use ir::{Func, Function, Module, Op, Origin, Slot, Value, Witness};

use crate::engine::Engine;
use crate::results::Residual;
use crate::shape::{Mask, Shape, tangent_slot};

/// Returns true if a function is a marked variant of a function with a written derivative.
pub(crate) fn is_variant_of_written(module: &Module, func: Func) -> bool {
    let Function { params, origin, .. } = &module.funcs[func];
    let witness = module.witness(func);
    matches!(origin, Origin::Variant(_))
        && params.iter().any(|slot| slot.linear)
        && (witness.jvp.is_some() || witness.vjp.is_some())
}

/// The marked variant of a function with a written derivative that a function is the transpose of.
pub(crate) fn transposed_variant(module: &Module, func: Func) -> Option<Func> {
    let Origin::Pullback(linear) = module.funcs[func].origin else { return None };
    let Origin::LinearHalf(variant) = module.funcs[linear].origin else { return None };
    is_variant_of_written(module, variant).then_some(variant)
}

/// The written rule of a variant, transposed with respect to the variant's linear parameters and their tangents.
struct TransposedRule {
    /// `(numbers…) -> (results…, residuals…)`, where the numbers are the other parameters and their tangents.
    primal: Func,
    residuals: Vec<Residual>,
    /// `(residuals…, cotangents of the linear results…) -> (cotangents…)`
    transposed: Func,
    /// The results of the rule that are linear.
    linear: Mask,
}

impl Engine<'_> {
    /// Gives a variant with the signature of a function the derivatives that a user has written for that: what
    /// the function computes need not show what they are.
    pub(crate) fn inherit_derivatives(&mut self, variant: Func, of: Func) {
        self.derive_transposes([of]);
        if let Some(&witness) = self.module.witnesses.get(&of) {
            self.module.witnesses.insert(variant, witness);
        }
    }

    /// Gives the transposes of variants among functions the derivatives that follow from the written ones; see the head of
    /// this file. So are those given that these derivatives reach, before anything can be inlined into them.
    pub(crate) fn derive_transposes(&mut self, functions: impl IntoIterator<Item = Func>) {
        let mut left: Vec<Func> = functions.into_iter().collect();
        while let Some(func) = left.pop() {
            if self.module.witnesses.contains_key(&func) {
                continue;
            }
            let Some(variant) = transposed_variant(self.module, func) else { continue };
            let Witness { jvp, vjp, differentiable, .. } = self.module.witness(variant);
            let before = self.found.problems.len();
            let jvp = jvp.and_then(|rule| self.jvp_of_transpose(func, variant, rule));
            let by_vjp = jvp.is_none() && vjp.is_some();
            if by_vjp {
                self.found.problems.truncate(before);
            }
            let vjp = if by_vjp { self.vjp_of_transpose(func, variant) } else { None };
            let witness = Witness { jvp, vjp, differentiable, ..Witness::default() };
            self.module.witnesses.insert(func, witness);
            let made: Vec<Func> = jvp.into_iter().chain(vjp).collect();
            left.extend(self.reachable(&made).iter());
        }
    }

    /// Gives such derivatives to all transposes that a function reaches.
    pub(crate) fn derive_transposes_in(&mut self, func: Func) {
        let reached = self.reachable(&[func]);
        self.derive_transposes(reached.iter());
    }

    /// Reports a problem, and returns false, if a function that a derivative of a variant's transpose would run again, at a
    /// later time, must not run then.
    fn may_run_again(&mut self, variant: Func, func: Func, who: &str) -> bool {
        let Some((span, what)) = self.forbids_again(func) else { return true };
        let name = self.user_name(variant);
        let message =
            format!("the derivative of reverse mode through '{name}' would run {who} again, and that {what}");
        self.problem(span, "E0918", message);
        false
    }

    /// Makes the forward derivative of the transpose of a variant from the forward derivative of the function.
    fn jvp_of_transpose(&mut self, func: Func, variant: Func, rule: Func) -> Option<Func> {
        if !self.may_run_again(variant, rule, "its forward derivative") {
            return None;
        }
        let Function { params, results, .. } = self.module.funcs[variant].clone();
        let rule = self.transposed_rule(rule, &params, &results)?;
        let transpose = self.module.funcs[func].clone();
        let n_numbers = params.iter().filter(|slot| !slot.linear).count();
        let n_cotangents = results.iter().filter(|slot| slot.linear).count();
        let mut slots = transpose.params.clone();
        slots.extend(transpose.params.iter().filter(|slot| slot.diff).map(tangent_slot));
        let mut gives = transpose.results.clone();
        gives.extend(transpose.results.iter().map(tangent_slot));
        // Where a result or a parameter has no tangent in the rule, its transpose does not compute the whole value.
        let is_whole = params.iter().chain(&results).all(|slot| slot.diff || !slot.linear);
        let name = format!("{}_fwd", transpose.name);
        let made = self.declare(name, Origin::Jvp(func), slots, gives);
        self.wrap(made, |b, funcs, args| {
            let (args, tangents) = args.split_at(transpose.params.len());
            let (_, cotangents) = args.split_at(args.len() - n_cotangents);
            let (number_tangents, cotangent_tangents) = tangents.split_at(tangents.len() - n_cotangents);
            let numbers = [&args[..n_numbers], number_tangents].concat();
            let called = b.call_func(rule.primal, &funcs[rule.primal].results, &numbers);
            let mut operands: Vec<Value> = rule.residuals.iter().map(|r| r.of(&numbers, &called)).collect();
            let (of_results, of_tangents) = rule.linear.split_at(results.len());
            let mut next = cotangent_tangents.iter();
            for (slot, &is_linear) in results.iter().zip(of_results) {
                let given = slot.linear.then(|| next.next().copied()).flatten();
                if is_linear {
                    operands.push(given.unwrap_or_else(|| b.absent(slot.ty)));
                }
            }
            let mut given = Vec::new();
            let mut next = cotangents.iter();
            for slot in &results {
                let cotangent = slot.linear.then(|| next.next().copied()).flatten();
                given.extend(slot.diff.then_some((slot.ty, cotangent)));
            }
            for ((ty, cotangent), _) in given.into_iter().zip(of_tangents).filter(|(_, linear)| **linear) {
                operands.push(cotangent.unwrap_or_else(|| b.absent(ty)));
            }
            let back = b.call_func(rule.transposed, &funcs[rule.transposed].results, &operands);
            let (tangents, values) = back.split_at(transpose.results.len());
            let values = match is_whole {
                true => values.to_vec(),
                false => b.call_func(func, &transpose.results, args),
            };
            [&values, tangents].concat()
        });
        self.forget_marks(made);
        Some(made)
    }

    /// Transposes a forward derivative with respect to the linear parameters of a variant and their tangents.
    fn transposed_rule(&mut self, rule: Func, params: &[Slot], results: &[Slot]) -> Option<TransposedRule> {
        let shape = Shape { params: params.len(), results: results.len() };
        // The arithmetic of tangents is that of differentials.
        let rule = self.plain_rule(rule, shape).unwrap_or(rule);
        let tangents = params.iter().filter(|slot| slot.diff);
        let linear: Mask = params.iter().chain(tangents).map(|slot| slot.linear).collect();
        let marked = self.propagate(rule, &linear)?;
        let linear = self.module.funcs[marked].results.iter().map(|slot| slot.linear).collect();
        let unzipped = self.unzip(marked)?;
        let transposed = self.transpose(unzipped.linear);
        Some(TransposedRule { primal: unzipped.primal, residuals: unzipped.residuals, transposed, linear })
    }

    /// Makes the backward derivative of the transpose of a variant from the backward derivative of the function.
    fn vjp_of_transpose(&mut self, func: Func, variant: Func) -> Option<Func> {
        let Origin::Variant(plain) = self.module.funcs[variant].origin else { return None };
        if !self.may_run_again(variant, plain, "it") {
            return None;
        }
        let Function { params, results, span, .. } = self.module.funcs[variant].clone();
        let backward = self.backward(variant, span)?;
        let transpose = self.module.funcs[func].clone();
        let n_numbers = params.iter().filter(|slot| !slot.linear).count();
        let n_cotangents = results.iter().filter(|slot| slot.linear).count();
        let mut slots = transpose.params.clone();
        slots.extend(transpose.results.iter().map(tangent_slot));
        let gives = transpose.params.iter().filter(|slot| slot.diff).map(tangent_slot).collect();
        let name = format!("{}_bwd", transpose.name);
        let made = self.declare(name, Origin::Pullback(func), slots, gives);
        Some(self.wrap(made, |b, funcs, args| {
            let (args, directions) = args.split_at(transpose.params.len());
            let (mut numbers, mut directions) = (args[..n_numbers].iter(), directions.iter());
            let mut cotangents = args[args.len() - n_cotangents..].iter();
            let mut at: Vec<Value> = Vec::new();
            for slot in &params {
                let given = if slot.linear { directions.next() } else { numbers.next() };
                let given = *given.expect("the transpose has a parameter or a result for each");
                at.push(if slot.linear { b.emit(Op::Present, &[given]) } else { given });
            }
            let called = b.call_func(plain, &funcs[plain].results, &at);
            for slot in &results {
                let cotangent = slot.linear.then(|| cotangents.next().copied()).flatten();
                if slot.diff {
                    at.push(cotangent.unwrap_or_else(|| b.absent(slot.ty)));
                }
            }
            let back = b.call_func(backward, &funcs[backward].results, &at);
            let given = params.iter().filter(|slot| slot.diff).zip(back);
            let numbers = given.filter(|(slot, _)| !slot.linear).map(|(_, v)| v);
            let moved = results.iter().zip(called).filter(|(slot, _)| slot.linear).map(|(_, v)| v);
            numbers.chain(moved).collect()
        }))
    }
}
