//! Second derivatives, summed over directions, in one forward pass: the Laplacian and its like.
//!
//! For directions `v₁ … vₘ` each active value carries its `m` first tangents and *one* second tangent, the sum over
//! the directions of `d²/dt²` along the curves with the velocities `vₖ`. These are the *layers* of tangents. For
//! `y = f(x)` Faà di Bruno's formula says `ẏₖ = ∂f·ẋₖ` and `s_y = ∂f·s_x + Σₖ ∂²f(ẋₖ, ẋₖ)`: the sum of the second tangents of
//! `x` is all that the linear part needs, so it can be taken at every operation (R. Li and others, "A computational
//! framework for neural network-based variational Monte Carlo with forward Laplacian", 2024; F. Dangel and others,
//! "Collapsing Taylor mode automatic differentiation", 2025). A value takes `m + 2` numbers, where `m` runs of nested forward
//! mode make three each and the value anew each time.
//!
//! So [`crate::linearize`] makes it: what is linear (structure, data movement, memory) does to each layer what it does
//! to a tangent, and [`crate::rules`] adds `Σₖ ∂²f(ẋₖ, ẋₖ)` for products and quotients. A custom forward derivative
//! `J(x, ẋ) = (f(x), ∂f(x)·ẋ)` has the second derivative in itself, as its own forward derivative:
//! `∂J(x, ẋₖ)·(ẋₖ, s) = (…, ∂f·s + ∂²f(ẋₖ, ẋₖ))`, where the first direction takes the sum `s`, and the others zero. So there is no
//! table of second derivatives, and a rule without a derivative has no second derivative here either.
//!
//! The result is a function like any other: reverse mode through it gives the gradient of a Laplacian.

use ir::{Defs, DerivativeOp, Func, Inst, Op, Origin, Slot, Span, Value};

use crate::engine::Engine;
use crate::recursion::{Once, Why};
use crate::shape::{Mask, Mode, Shape, select, tangent_slot};
use crate::witness::Source;

/// The tangents that each active value carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layers {
    /// The number of first tangents.
    directions: usize,
    /// They are followed by a second tangent.
    second: bool,
    /// The parameters have second tangents, too; at first, they move along straight lines.
    second_given: bool,
}

impl Layers {
    /// The tangent of forward mode.
    pub(crate) const ONE: Layers = Layers { directions: 1, second: false, second_given: false };

    /// The number of tangents of a value.
    pub(crate) fn count(self) -> usize {
        self.directions + usize::from(self.second)
    }

    /// The number of tangents of a parameter.
    pub(crate) fn given(self) -> usize {
        self.directions + usize::from(self.second_given)
    }

    /// The layers of a function that is called.
    pub(crate) fn of_callee(self) -> Layers {
        Layers { second_given: self.second, ..self }
    }
}

/// The slots, followed by those of `n` layers of tangents for those that the mask selects.
pub(crate) fn with_tangents(slots: &[Slot], mask: &[bool], n: usize) -> Vec<Slot> {
    let tangents = (0..n).flat_map(|_| select(slots, mask).map(tangent_slot));
    slots.iter().cloned().chain(tangents).collect()
}

impl Engine<'_> {
    /// Makes what a request for second derivatives calls. Parameters whose tangents are absent in all directions do
    /// not move; these operands are removed from the request.
    pub(crate) fn requested_second(
        &mut self,
        caller: Func,
        inst: Inst,
        func: Func,
        span: Span,
    ) -> Option<Func> {
        let src = &self.module.funcs[func];
        let (n_params, diff) = (src.params.len(), src.params.iter().map(|s| s.diff).collect::<Mask>());
        let n_diff = diff.iter().filter(|&&d| d).count().max(1);
        let asks = &self.module.funcs[caller];
        let args = asks.insts[inst].args.clone();
        let n_directions = DerivativeOp::directions(src, args.len());
        let defs = Defs::of(asks);
        let is_absent = |v: &Value| defs.inst(*v).is_some_and(|inst| asks.insts[inst].op == Op::Absent);
        let (given, tangents) = args.split_at(n_params);
        let moves: Mask =
            (0..n_diff).map(|k| !tangents.iter().skip(k).step_by(n_diff).all(is_absent)).collect();
        let mut each = moves.iter();
        let mask: Mask = diff.iter().map(|&diff| diff && each.next().is_some_and(|&moves| moves)).collect();
        let tangents = tangents.chunks(n_diff).flat_map(|layer| select(layer, &moves));
        let kept = given.iter().chain(tangents).copied().collect();
        let made = self.second(func, &mask, n_directions, span)?;
        self.module.funcs[caller].insts[inst].args = kept;
        Some(made)
    }

    /// Makes `(params…, tangents of mask for each direction…) -> (results…, tangents of diff results for each
    /// direction…, sums of their second derivatives…)`.
    pub(crate) fn second(
        &mut self,
        func: Func,
        mask: &[bool],
        directions: usize,
        span: Span,
    ) -> Option<Func> {
        let layers = Layers { directions, second: true, second_given: false };
        let func = self.stand_in(func, Mode::Forward);
        if !self.is_ready(func, span) {
            return None;
        }
        let n_problems = self.found.problems.len();
        let (made, active) = match self.forward_source(func) {
            Source::Jvp(jvp) => {
                let active = self.module.funcs[func].results.iter().map(|s| s.diff).collect();
                (self.second_of_rule(func, jvp, mask, layers, span)?, active)
            }
            Source::Body(body) => {
                let made = self.linearize_in(body, mask, Mode::Forward, layers);
                (made, self.facts.activity.results(self.module, body, mask, Mode::Forward))
            }
            Source::Vjp(_) | Source::Applied { .. } | Source::Zero => {
                (func, self.module.funcs[func].results.iter().map(|_| false).collect::<Mask>())
            }
        };
        if self.found.problems.len() > n_problems {
            return None;
        }
        let src = &self.module.funcs[func];
        let params = with_tangents(&src.params, mask, layers.given());
        let diff: Mask = src.results.iter().map(|s| s.diff).collect();
        let results = with_tangents(&src.results, &diff, layers.count());
        let wrapper = self.declare(format!("{}_second", src.name), Origin::Jvp(func), params, results);
        Some(self.wrap(wrapper, |b, funcs, args| {
            let results = &funcs[func].results;
            // A function whose derivative is zero takes no tangents.
            let args = &args[..funcs[made].params.len()];
            let called = b.call_func(made, &funcs[made].results, args);
            let (values, tangents) = called.split_at(results.len());
            let (mut all, mut tangents) = (values.to_vec(), tangents.iter());
            for _ in 0..layers.count() {
                for (slot, &active) in results.iter().zip(active.iter()).filter(|(slot, _)| slot.diff) {
                    let tangent = if active { tangents.next().copied() } else { None };
                    all.push(tangent.unwrap_or_else(|| b.absent(slot.ty)));
                }
            }
            all
        }))
    }

    /// Makes the second derivative of a function with a custom forward derivative; see the head of this file. All
    /// results that can have tangents have them. Memoised. Returns `None` if a problem was reported.
    pub(crate) fn second_of_rule(
        &mut self,
        func: Func,
        jvp: Func,
        mask: &[bool],
        layers: Layers,
        span: Span,
    ) -> Option<Func> {
        let once = self.runs_once(jvp).filter(|_| layers.directions > 1);
        if let Some(Once { why: Why::Effect(what), .. }) = once {
            let message = format!(
                "second derivatives along {} directions run the forward derivative of '{}' as many times, and it {what}",
                layers.directions,
                self.user_name(func)
            );
            self.problem(span, "E0927", message);
            return None;
        }
        let key = (func, Mask::from(mask), layers);
        if let Some(&known) = self.made.second_of_rules.get(&key) {
            return known;
        }
        self.made.second_of_rules.insert(key.clone(), None);
        let made = self.make_second_of_rule(func, jvp, mask, layers, span);
        self.made.second_of_rules.insert(key, made);
        made
    }

    fn make_second_of_rule(
        &mut self,
        func: Func,
        jvp: Func,
        mask: &[bool],
        layers: Layers,
        span: Span,
    ) -> Option<Func> {
        let slots = &self.module.funcs[func];
        let (params, results, name) = (slots.params.clone(), slots.results.clone(), slots.name.clone());
        let first = self.rule_along(func, jvp, mask);
        if !self.is_ready(first, span) {
            return None;
        }
        // The derivatives of the rule, along a straight line, and along a curve that the second tangents bend.
        let n_moving = mask.iter().filter(|&&moves| moves).count();
        let mut curves = Vec::new();
        for bends in [layers.second_given, false] {
            let moves: Mask = mask.iter().copied().chain((0..n_moving).map(|_| bends)).collect();
            let made = self.linearize(first, &moves, Mode::Forward);
            curves.push((made, self.facts.activity.results(self.module, first, &moves, Mode::Forward)));
        }
        let diff: Mask = results.iter().map(|s| s.diff).collect();
        let n_diff = diff.iter().filter(|&&d| d).count();
        let takes = with_tangents(&params, mask, layers.given());
        let gives = with_tangents(&results, &diff, layers.count());
        let made = self.declare(format!("{name}_second"), Origin::Jvp(func), takes, gives);
        Some(self.wrap(made, |b, funcs, args| {
            let (given, tangents) = args.split_at(params.len());
            let seconds = &tangents[layers.directions * n_moving..];
            let mut all = Vec::new();
            let mut sums: Vec<Option<Value>> = vec![None; n_diff];
            for k in 0..layers.directions {
                let velocity = &tangents[k * n_moving..][..n_moving];
                let (curve, active) = &curves[usize::from(k > 0)];
                let bends = if k == 0 { seconds } else { &[] };
                let called =
                    b.call_func(*curve, &funcs[*curve].results, &[given, velocity, velocity, bends].concat());
                let (values, moves) = called.split_at(results.len() + n_diff);
                all.extend_from_slice(&values[if k == 0 { 0 } else { results.len() }..]);
                let mut moves = moves.iter().copied();
                for (j, _) in active.iter().enumerate().filter(|(_, active)| **active) {
                    let (Some(tangent), Some(j)) = (moves.next(), j.checked_sub(results.len())) else {
                        continue;
                    };
                    sums[j] = Some(match sums[j] {
                        Some(sum) if b.types.is_numeric(b.func.ty(sum)) => b.emit(Op::Add, &[sum, tangent]),
                        Some(sum) => {
                            let cell = b.emit(Op::Local, &[sum]);
                            b.effect(Op::AddTo, &[cell, tangent]);
                            b.emit(Op::Load, &[cell])
                        }
                        None => tangent,
                    });
                }
            }
            let diff = results.iter().filter(|slot| slot.diff);
            all.extend(diff.zip(sums).map(|(slot, sum)| sum.unwrap_or_else(|| b.absent(slot.ty))));
            all
        }))
    }

    /// Makes the forward derivative of a function with a custom one, with tangents of the parameters that the mask
    /// selects.
    fn rule_along(&mut self, func: Func, jvp: Func, mask: &[bool]) -> Func {
        let slots = &self.module.funcs[func];
        let (params, results) = (slots.params.clone(), slots.results.clone());
        let shape = Shape { params: params.len(), results: results.len() };
        self.roles.shapes.insert(jvp, shape);
        let linear = self.plain_rule(jvp, shape);
        let in_numbers = linear.is_none();
        let rule = linear.unwrap_or(jvp);
        let diff: Mask = results.iter().map(|s| s.diff).collect();
        let takes = with_tangents(&params, mask, 1);
        let gives = with_tangents(&results, &diff, 1);
        let name = format!("{}_fwd", self.module.funcs[func].name);
        let made = self.declare(name, Origin::Jvp(func), takes, gives);
        self.wrap(made, |b, funcs, args| {
            let (given, tangents) = args.split_at(params.len());
            let (mut args, mut tangents) = (given.to_vec(), tangents.iter());
            for (slot, &moves) in params.iter().zip(mask).filter(|(slot, _)| slot.diff) {
                let tangent = if moves { tangents.next().copied() } else { None };
                let tangent = tangent.unwrap_or_else(|| b.absent(slot.ty));
                args.push(if in_numbers { b.emit(Op::Present, &[tangent]) } else { tangent });
            }
            let mut called = b.call_func(rule, &funcs[rule].results, &args);
            for tangent in called[results.len()..].iter_mut().filter(|_| in_numbers) {
                *tangent = b.emit(Op::Present, &[*tangent]);
            }
            called
        })
    }
}
