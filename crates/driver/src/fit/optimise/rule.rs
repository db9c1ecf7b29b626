//! First-order methods: SGD with momentum, Adam and AdamW, with a learning rate and bounds for each number.
//!
//! [`Rule::text`] is the same arithmetic in the language, for the kernels that make the steps; both round alike.

use serde::{Deserialize, Serialize};

use super::bounds::Bounds;

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Adam (Kingma and Ba). Decay is a term of the gradient.
    Adam,
    /// Adam with decoupled weight decay (Loshchilov and Hutter).
    AdamW,
    /// Stochastic gradient descent with momentum: `v ← momentum·v + g`, `x ← x − rate·v`. Decay is a term of the
    /// gradient.
    Sgd,
}

/// A method and its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The method.
    pub method: Method,
    /// The share of the running mean (SGD: the velocity) that a step keeps.
    pub momentum: f64,
    /// The weight decay.
    pub decay: f64,
}

/// The share of the mean square that a step of Adam keeps.
pub const BETA_SQUARE: f64 = 0.99;
/// The number added to the root of the mean square, so that a number with no gradient stays where it is.
pub const LEAST_ROOT: f64 = 1e-15;

/// The running means of a first-order method.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Means {
    /// Steps made.
    pub step: u64,
    /// Running mean of the gradient; SGD: the velocity.
    pub mean: Vec<f64>,
    /// Running mean of the gradient's square (Adam and AdamW).
    pub square: Vec<f64>,
}

/// The learning rates and the bounds of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// The learning rate of each number.
    pub rates: Vec<f64>,
    /// The bounds of each number.
    pub bounds: Bounds,
}

/// The factors of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// Of the learning rates (the schedule).
    pub rate: f64,
    /// Of the gradient (clipping).
    pub gradient: f64,
}

impl Means {
    /// The initial state for `n` numbers.
    pub fn new(n: usize) -> Means {
        Means { step: 0, mean: vec![0.0; n], square: vec![0.0; n] }
    }
}

impl Rule {
    /// Moves `x` against the gradient. A number whose gradient is not finite is left unchanged.
    pub fn update(
        &self,
        means: &mut Means,
        x: &mut [f64],
        gradient: &[f64],
        rates: &Rates,
        factors: Factors,
    ) {
        means.step += 1;
        let [bias_mean, bias_square] = self.biases(means.step);
        for k in 0..x.len() {
            if !gradient[k].is_finite() {
                continue;
            }
            let (old, mut g) = (x[k], gradient[k] * factors.gradient);
            if self.decays_gradient() {
                g += self.decay * old;
            }
            let rate = rates.rates[k] * factors.rate;
            let mut new = old;
            if self.method == Method::Sgd {
                let mean = self.momentum * means.mean[k] + g;
                means.mean[k] = mean;
                new -= rate * mean;
            } else {
                let mean = self.momentum * means.mean[k] + (1.0 - self.momentum) * g;
                let square = BETA_SQUARE * means.square[k] + (1.0 - BETA_SQUARE) * g * g;
                (means.mean[k], means.square[k]) = (mean, square);
                if self.method == Method::AdamW {
                    new -= rate * self.decay * old;
                }
                new -= rate * (mean / bias_mean) / ((square / bias_square).sqrt() + LEAST_ROOT);
            }
            x[k] = rates.bounds.nearest(k, new);
        }
    }

    /// Returns true if the decay is a term of the gradient.
    fn decays_gradient(&self) -> bool {
        self.decay != 0.0 && self.method != Method::AdamW
    }

    /// The sums of the weights in both means after some steps.
    pub fn biases(&self, steps: u64) -> [f64; 2] {
        let steps = steps.min(i32::MAX as u64) as i32;
        [1.0 - self.momentum.powi(steps), 1.0 - BETA_SQUARE.powi(steps)]
    }

    /// The body of the function that moves a number `x` (see `super::super::kernel`): it sets `x`, given `gradient`,
    /// `rate` and the number's `place` in `fit_mean` and `fit_square`.
    pub fn text(&self) -> String {
        let (momentum, decay, square, least) = (self.momentum, self.decay, BETA_SQUARE, LEAST_ROOT);
        let mut t = String::from("gradient *= fit_clip;\n");
        if self.decays_gradient() {
            t += &format!("gradient += {decay:e}L * x;\n");
        }
        t += "rate *= fit_scale;\n";
        if self.method == Method::Sgd {
            t += &format!("double mean = {momentum:e}L * fit_mean[place] + gradient;\n");
            t += "fit_mean[place] = mean;\nx -= rate * mean;\n";
            return t;
        }
        t += &format!("double mean = {momentum:e}L * fit_mean[place] + (1.0L - {momentum:e}L) * gradient;\n");
        t += &format!(
            "double square = {square:e}L * fit_square[place] + (1.0L - {square:e}L) * gradient * gradient;\n"
        );
        t += "fit_mean[place] = mean;\nfit_square[place] = square;\n";
        if self.method == Method::AdamW {
            t += &format!("x -= rate * {decay:e}L * x;\n");
        }
        t += "x -= rate * (mean / fit_bias_mean) / ";
        t += &format!("(sqrt(square / fit_bias_square) + {least:e}L);\n");
        t
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descend(rule: Rule, bounds: Bounds, steps: usize) -> (Vec<f64>, Means) {
        let mut x = vec![3.0, -2.0, 7.0];
        let mut means = Means::new(3);
        let rates = Rates { rates: vec![0.05; 3], bounds };
        for step in 0..steps {
            let gradient = [2.0 * x[0], 2.0 * (x[1] - 1.0), f64::NAN];
            let rate = 1.0 - step as f64 / steps as f64;
            rule.update(&mut means, &mut x, &gradient, &rates, Factors { rate, gradient: 1.0 });
        }
        (x, means)
    }

    #[test]
    fn all_methods_descend_and_ignore_what_is_not_finite() {
        for (method, momentum) in
            [(Method::Adam, 0.9), (Method::AdamW, 0.9), (Method::Sgd, 0.0), (Method::Sgd, 0.9)]
        {
            let (x, _) = descend(Rule { method, momentum, decay: 0.0 }, Bounds::none(3), 2000);
            assert!(x[0].abs() < 1e-3 && (x[1] - 1.0).abs() < 1e-3, "{method:?}: {x:?}");
            assert_eq!(x[2], 7.0);
        }
    }

    #[test]
    fn decay_moves_the_minimum_where_theory_says() {
        // The minimum of (x - 1)² + decay/2 x² is at 2 / (2 + decay).
        let (x, _) = descend(Rule { method: Method::Sgd, momentum: 0.5, decay: 2.0 }, Bounds::none(3), 3000);
        assert!(x[0].abs() < 1e-6 && (x[1] - 0.5).abs() < 1e-6, "{x:?}");
        let (x, _) = descend(Rule { method: Method::Adam, momentum: 0.9, decay: 2.0 }, Bounds::none(3), 3000);
        assert!((x[1] - 0.5).abs() < 1e-3, "{x:?}");
        // One step of AdamW: the decay is a share of the number, whatever the gradient is.
        let rule = Rule { method: Method::AdamW, momentum: 0.9, decay: 0.1 };
        let (mut x, rates) = (vec![2.0], Rates { rates: vec![0.5], bounds: Bounds::none(1) });
        rule.update(&mut Means::new(1), &mut x, &[1e-3], &rates, Factors { rate: 1.0, gradient: 1.0 });
        assert!((x[0] - (2.0 - 0.5 * 0.1 * 2.0 - 0.5)).abs() < 1e-9, "{x:?}");
    }

    #[test]
    fn bounds_hold_and_clipping_scales() {
        let bounds = Bounds { low: vec![0.5, -2.0, 0.0], high: vec![4.0, -2.0, 9.0] };
        let (x, _) = descend(Rule { method: Method::Adam, momentum: 0.9, decay: 0.0 }, bounds, 500);
        assert_eq!(x, [0.5, -2.0, 7.0]);
        let rule = Rule { method: Method::Sgd, momentum: 0.0, decay: 0.0 };
        let (mut x, rates) = (vec![2.0], Rates { rates: vec![0.5], bounds: Bounds::none(1) });
        rule.update(&mut Means::new(1), &mut x, &[8.0], &rates, Factors { rate: 1.0, gradient: 0.25 });
        assert_eq!(x, [1.0]);
    }
}
