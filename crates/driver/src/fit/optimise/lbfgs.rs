//! L-BFGS (Liu and Nocedal) with a line search for the strong Wolfe conditions, and bounds by projection.
//!
//! Numbers at a bound that they would leave stay there for a step, and the direction is that of the others. The
//! search goes along the projected line, whose slope is that of the numbers that have not met a bound yet.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::bounds::Bounds;
use super::line_search::{self, Trial};
use super::{Objective, Step, Tolerances, add, dot};
use crate::error::Error;

/// The state of L-BFGS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lbfgs {
    /// Steps made.
    pub step: u64,
    /// The last changes of the point and of the gradient, oldest first.
    pub pairs: VecDeque<(Vec<f64>, Vec<f64>)>,
    /// The value at the current point, once it is known.
    pub value: Option<f64>,
    /// The gradient at the current point, once it is known.
    pub gradient: Vec<f64>,
}

/// The number of pairs that are kept.
const MEMORY: usize = 12;

impl Lbfgs {
    /// Makes one step from `x`.
    pub fn update(
        &mut self,
        x: &mut [f64],
        bounds: &Bounds,
        tolerances: Tolerances,
        objective: &mut dyn Objective,
    ) -> Result<Step, Error> {
        if self.value.is_none() {
            self.gradient = vec![0.0; x.len()];
            self.value = Some(objective.evaluate(x, &mut self.gradient)?);
        }
        let before = self.value.unwrap_or(f64::INFINITY);
        let reduced = bounds.reduced(x, &self.gradient);
        if let Some(step) = super::no_step(&reduced, tolerances) {
            return Ok(step);
        }
        let mut found = None;
        // Where the direction leads nowhere, the steepest one may.
        for _ in 0..2 {
            let direction = self.direction(x, bounds, &reduced);
            let slope = dot(&direction, &self.gradient);
            if slope < 0.0 && slope.is_finite() {
                let first =
                    if self.pairs.is_empty() { (1.0 / dot(&reduced, &reduced).sqrt()).min(1.0) } else { 1.0 };
                let mut evaluate = |t: f64| trial(t, x, &direction, bounds, objective);
                found = line_search::search((before, slope), first, &mut evaluate)?;
            }
            if found.is_some() || self.pairs.is_empty() {
                break;
            }
            self.pairs.clear();
        }
        let Some(Trial { value, point, gradient, .. }) = found else { return Ok(Step::Stuck) };
        let moved: Vec<f64> = point.iter().zip(x.iter()).map(|(a, b)| a - b).collect();
        let change: Vec<f64> = gradient.iter().zip(&self.gradient).map(|(a, b)| a - b).collect();
        if dot(&moved, &change) > 1e-14 * dot(&change, &change) {
            self.pairs.push_back((moved, change));
            if self.pairs.len() > MEMORY {
                self.pairs.pop_front();
            }
        }
        x.copy_from_slice(&point);
        self.gradient = gradient;
        self.value = Some(value);
        self.step += 1;
        Ok(super::step(before, value, tolerances))
    }

    /// Computes `-H g` of the numbers that can move, by the two-loop recursion.
    fn direction(&self, x: &[f64], bounds: &Bounds, reduced: &[f64]) -> Vec<f64> {
        let is_held = |k: usize| !bounds.is_free(k, x[k], self.gradient[k]);
        let hold = |v: &mut [f64]| {
            v.iter_mut().enumerate().filter(|(k, _)| is_held(*k)).for_each(|(_, v)| *v = 0.0);
        };
        let mut q: Vec<f64> = reduced.iter().map(|g| -g).collect();
        let mut weights = Vec::with_capacity(self.pairs.len());
        for (moved, change) in self.pairs.iter().rev() {
            let a = dot(moved, &q) / dot(moved, change);
            add(&mut q, -a, change);
            weights.push(a);
        }
        if let Some((moved, change)) = self.pairs.back() {
            let scale = dot(moved, change) / dot(change, change);
            q.iter_mut().for_each(|x| *x *= scale);
        }
        for ((moved, change), a) in self.pairs.iter().zip(weights.into_iter().rev()) {
            let b = dot(change, &q) / dot(moved, change);
            add(&mut q, a - b, moved);
        }
        hold(&mut q);
        q
    }
}

/// The point after a step of length `t` along the direction, moved to within the bounds.
fn trial(
    t: f64,
    x: &[f64],
    direction: &[f64],
    bounds: &Bounds,
    objective: &mut dyn Objective,
) -> Result<Trial, Error> {
    let (mut point, mut gradient) = (Vec::with_capacity(x.len()), vec![0.0; x.len()]);
    let mut moves = Vec::with_capacity(x.len());
    for (k, (&x, &d)) in x.iter().zip(direction).enumerate() {
        let to = x + t * d;
        point.push(bounds.nearest(k, to));
        moves.push(point[k] == to);
    }
    let value = objective.evaluate(&point, &mut gradient)?;
    let each = direction.iter().zip(&gradient).zip(&moves);
    let slope = each.filter(|(_, moves)| **moves).map(|((d, g), _)| d * g).sum();
    Ok(Trial { t, value, slope, point, gradient })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIGHT: Tolerances = Tolerances { decrease: 0.0, gradient: 1e-9 };

    struct Rosenbrock(usize);

    impl Objective for Rosenbrock {
        fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> Result<f64, Error> {
            self.0 += 1;
            gradient.fill(0.0);
            let mut sum = 0.0;
            for k in 0..x.len() - 1 {
                let (a, b) = (1.0 - x[k], x[k + 1] - x[k] * x[k]);
                sum += a * a + 100.0 * b * b;
                gradient[k] += -2.0 * a - 400.0 * x[k] * b;
                gradient[k + 1] += 200.0 * b;
            }
            Ok(sum)
        }
    }

    /// Minimises from a point; returns the minimum, its derivatives, the last outcome and the evaluations.
    fn minimise(mut x: Vec<f64>, bounds: &Bounds) -> (Vec<f64>, Vec<f64>, Step, usize) {
        let (mut objective, mut lbfgs) = (Rosenbrock(0), Lbfgs::default());
        loop {
            let step = lbfgs.update(&mut x, bounds, TIGHT, &mut objective).expect("evaluates");
            assert!(lbfgs.step < 500);
            if !matches!(step, Step::Done(_)) {
                return (x, lbfgs.gradient, step, objective.0);
            }
        }
    }

    #[test]
    fn rosenbrock_is_solved() {
        let (x, _, step, n) = minimise(vec![-1.2, 1.0, -1.2, 1.0], &Bounds::none(4));
        assert!(x.iter().all(|x| (x - 1.0).abs() < 1e-6), "{x:?}");
        assert!(matches!(step, Step::Flat(_) | Step::Stuck) && n < 300, "{step:?} after {n} evaluations");
    }

    #[test]
    fn a_minimum_at_bounds_fulfils_the_first_order_conditions() {
        let (inf, low) = (f64::INFINITY, [-1.5, 0.5, -2.0, -1.0]);
        for high in [[0.7, inf, inf, inf], [inf, 0.8, inf, 0.1], [0.2, 0.6, -1.0, 2.0], [-1.5, inf, inf, inf]]
        {
            let bounds = Bounds { low: low.to_vec(), high: high.to_vec() };
            let mut x = vec![-1.5, 0.5, -1.2, 0.0];
            bounds.project(&mut x);
            let (x, gradient, ..) = minimise(x, &bounds);
            let left = bounds.reduced(&x, &gradient);
            assert!((0..4).all(|k| bounds.nearest(k, x[k]) == x[k]), "{x:?}");
            assert!(left.iter().all(|g| g.abs() < 1e-5), "{x:?}: {left:?}");
        }
    }
}
