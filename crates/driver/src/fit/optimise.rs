//! The optimisers Adam and L-BFGS over a flat vector of numbers.
//!
//! Both are plain data that can be stored and read back, so that a fit can be resumed.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// The function that is minimised: its value and gradient at a point.
pub trait Objective {
    /// Returns the value and writes the gradient to `gradient`, which is as long as `x`.
    fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> Result<f64, crate::Error>;
}

/// Adam (Kingma and Ba), with a separate learning rate for each number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    /// Steps made.
    pub step: u64,
    /// Running mean of the gradient.
    pub mean: Vec<f64>,
    /// Running mean of the gradient's square.
    pub square: Vec<f64>,
}

/// The share of the mean that a step keeps.
pub const BETA_MEAN: f64 = 0.9;
/// The share of the mean square that a step keeps.
pub const BETA_SQUARE: f64 = 0.99;
/// The number added to the root of the mean square, so that a number with no gradient stays where it is.
pub const LEAST_ROOT: f64 = 1e-15;

impl Adam {
    /// The initial state for `n` numbers.
    pub fn new(n: usize) -> Adam {
        Adam { step: 0, mean: vec![0.0; n], square: vec![0.0; n] }
    }

    /// Moves `x` against the gradient; `rates` holds a rate for each number, `scale` applies to all of them
    /// (the schedule). A number whose gradient is not finite is left unchanged.
    pub fn update(&mut self, x: &mut [f64], gradient: &[f64], rates: &[f64], scale: f64) {
        self.step += 1;
        let [bias_mean, bias_square] = self.biases();
        for k in 0..x.len() {
            let g = gradient[k];
            if !g.is_finite() {
                continue;
            }
            self.mean[k] = BETA_MEAN * self.mean[k] + (1.0 - BETA_MEAN) * g;
            self.square[k] = BETA_SQUARE * self.square[k] + (1.0 - BETA_SQUARE) * g * g;
            let (mean, square) = (self.mean[k] / bias_mean, self.square[k] / bias_square);
            x[k] -= rates[k] * scale * mean / (square.sqrt() + LEAST_ROOT);
        }
    }

    /// The sums of the weights in both means after the steps made.
    pub fn biases(&self) -> [f64; 2] {
        let steps = self.step.min(i32::MAX as u64) as i32;
        [1.0 - BETA_MEAN.powi(steps), 1.0 - BETA_SQUARE.powi(steps)]
    }
}

/// L-BFGS with a line search that satisfies the weak Wolfe conditions.
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

const MEMORY: usize = 12;

impl Lbfgs {
    /// Makes one step from `x`. Returns `None` if no further descent is possible at this precision.
    pub fn update(
        &mut self,
        x: &mut [f64],
        objective: &mut dyn Objective,
    ) -> Result<Option<f64>, crate::Error> {
        let n = x.len();
        if self.value.is_none() {
            self.gradient = vec![0.0; n];
            self.value = Some(objective.evaluate(x, &mut self.gradient)?);
        }
        let start = self.value.unwrap_or(f64::INFINITY);
        let mut direction = self.direction();
        let mut slope = dot(&direction, &self.gradient);
        if slope >= 0.0 || !slope.is_finite() {
            self.pairs.clear();
            direction = self.gradient.iter().map(|g| -g).collect();
            slope = dot(&direction, &self.gradient);
        }
        if slope == 0.0 || !slope.is_finite() {
            return Ok(None);
        }
        let mut t = if self.pairs.is_empty() { (1.0 / (-slope).sqrt()).min(1.0) } else { 1.0 };
        let (mut low, mut high) = (0.0, f64::INFINITY);
        let mut point = vec![0.0; n];
        let mut gradient = vec![0.0; n];
        // The best point so far with sufficient decrease, in case the search ends early.
        let mut best: Option<(f64, Vec<f64>, Vec<f64>)> = None;
        for _ in 0..30 {
            for k in 0..n {
                point[k] = x[k] + t * direction[k];
            }
            let value = objective.evaluate(&point, &mut gradient)?;
            if !value.is_finite() || value > start + 1e-4 * t * slope {
                high = t;
            } else {
                if best.as_ref().is_none_or(|b| value < b.0) {
                    best = Some((value, point.clone(), gradient.clone()));
                }
                if dot(&direction, &gradient) >= 0.9 * slope {
                    break;
                }
                low = t;
            }
            t = if high.is_finite() { 0.5 * (low + high) } else { 2.0 * t };
        }
        let Some((value, point, gradient)) = best else { return Ok(None) };
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
        Ok(Some(value))
    }

    /// Computes `-H g` by the two-loop recursion.
    fn direction(&self) -> Vec<f64> {
        let mut q: Vec<f64> = self.gradient.iter().map(|g| -g).collect();
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
        q
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn add(a: &mut [f64], factor: f64, b: &[f64]) {
    for (x, y) in a.iter_mut().zip(b) {
        *x += factor * y;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rosenbrock(usize);

    impl Objective for Rosenbrock {
        fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> Result<f64, crate::Error> {
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

    #[test]
    fn lbfgs_solves_rosenbrock() {
        let mut objective = Rosenbrock(0);
        let mut x = vec![-1.2, 1.0, -1.2, 1.0];
        let mut lbfgs = Lbfgs::default();
        while lbfgs.step < 200 && lbfgs.update(&mut x, &mut objective).expect("evaluates").is_some() {}
        assert!(x.iter().all(|x| (x - 1.0).abs() < 1e-6), "{x:?}");
        assert!(objective.0 < 400, "{} evaluations", objective.0);
    }

    #[test]
    fn adam_descends_and_ignores_what_is_not_finite() {
        let mut x = vec![3.0, -2.0, 7.0];
        let mut adam = Adam::new(3);
        for step in 0..2000 {
            let gradient = [2.0 * x[0], 2.0 * (x[1] - 1.0), f64::NAN];
            let scale = 1.0 - step as f64 / 2000.0;
            adam.update(&mut x, &gradient, &[0.05; 3], scale);
        }
        assert!(x[0].abs() < 1e-3 && (x[1] - 1.0).abs() < 1e-3, "{x:?}");
        assert_eq!(x[2], 7.0);
    }
}
