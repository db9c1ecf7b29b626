//! Least squares by Levenberg–Marquardt: `½ Σ ρ(|rᵢ|²)` over groups of residuals, with bounds, and the covariance
//! of the parameters at a minimum.
//!
//! Each step solves `(JᵀWJ + λD) p = -Jᵀ(Wr)` for the numbers that can move, where `W` has the weights `ρ'` of
//! the groups (iteratively reweighted least squares). With few numbers, `J` is computed column by column and the
//! system is solved by Cholesky's decomposition, with the diagonal of `JᵀWJ` as `D` (Marquardt's scaling). With
//! many, conjugate gradients need no matrix but products with `J` and `Jᵀ`, and `D`, which also scales the numbers for
//! them, is an estimate of that diagonal. Without it, numbers of different units, as angles and pixels, need far more
//! iterations and steps.
//! The damping `λ` follows Nielsen ("Damping Parameter in Marquardt's Method").

use serde::{Deserialize, Serialize};

use super::bounds::Bounds;
use super::{Step, Tolerances, add, dot};
use crate::error::Error;
use crate::gradcheck::Random;

/// A vector of residuals as a function of a point.
pub trait Residuals {
    /// Computes the residuals.
    fn residuals(&mut self, x: &[f64], out: &mut Vec<f64>) -> Result<(), Error>;
    /// Computes `J v`.
    fn jvp(&mut self, x: &[f64], v: &[f64], out: &mut Vec<f64>) -> Result<(), Error>;
    /// Computes `Jᵀ u`.
    fn vjp(&mut self, x: &[f64], u: &[f64], out: &mut [f64]) -> Result<(), Error>;
    /// The number of residuals in a group.
    fn group(&self) -> usize;
}

/// A robust loss `ρ` of the square of a group's norm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Robust {
    /// The square.
    #[default]
    Square,
    /// The square up to a distance, then linear (Huber).
    Huber(f64),
    /// `δ² ln(1 + s/δ²)` (Cauchy).
    Cauchy(f64),
}

impl Robust {
    /// `ρ(s)` and `ρ'(s)`.
    fn of(self, s: f64) -> (f64, f64) {
        match self {
            Robust::Huber(d) if s > d * d => (2.0 * d * s.sqrt() - d * d, d / s.sqrt()),
            Robust::Square | Robust::Huber(_) => (s, 1.0),
            Robust::Cauchy(d) => (d * d * (s / (d * d)).ln_1p(), 1.0 / (1.0 + s / (d * d))),
        }
    }

    /// The value `½ Σ ρ` and the weight of each residual.
    fn weigh(self, residuals: &[f64], group: usize) -> (f64, Vec<f64>) {
        let (mut value, mut weights) = (0.0, Vec::with_capacity(residuals.len()));
        for group in residuals.chunks(group.max(1)) {
            let (rho, weight) = self.of(dot(group, group));
            value += 0.5 * rho;
            weights.extend(std::iter::repeat_n(weight, group.len()));
        }
        (value, weights)
    }
}

/// The state of Levenberg–Marquardt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Marquardt {
    /// Steps made.
    pub step: u64,
    /// The damping.
    pub damping: f64,
    /// The factor by which the damping grows if a step is rejected.
    pub growth: f64,
}

impl Default for Marquardt {
    fn default() -> Marquardt {
        Marquardt { step: 0, damping: 1e-3, growth: 2.0 }
    }
}

/// The most numbers, and the most entries of `J`, for which `J` is computed.
const MOST_DENSE: usize = 200;
const MOST_ENTRIES: usize = 1 << 25;
/// The damping beyond which no step is tried.
const MOST_DAMPING: f64 = 1e20;
/// The most iterations of conjugate gradients, and the share of the residual at which they end.
const MOST_ITERATIONS: usize = 200;
const ENOUGH: f64 = 1e-3;
/// The number of products from which the diagonal is estimated; its relative error is about `√(2 / PROBES)`.
const PROBES: u32 = 16;

/// The residuals near a point: everything that a step needs.
struct Model<'a> {
    x: &'a [f64],
    /// The numbers that can move.
    free: Vec<usize>,
    gradient: Vec<f64>,
    weights: Vec<f64>,
    system: System,
}

/// `JᵀWJ` of the numbers that can move.
enum System {
    /// The matrix, row by row.
    Dense(Vec<f64>),
    /// An estimate of its diagonal, for all numbers; positive for those that can move.
    Implicit(Vec<f64>),
}

impl Marquardt {
    /// Makes one step from `x`.
    pub fn update(
        &mut self,
        x: &mut [f64],
        bounds: &Bounds,
        tolerances: Tolerances,
        robust: Robust,
        problem: &mut dyn Residuals,
    ) -> Result<Step, Error> {
        let at = x.to_vec();
        let (before, mut model) = Model::new(&at, bounds, robust, problem)?;
        if let Some(step) = super::no_step(&model.gradient, tolerances) {
            return Ok(step);
        }
        model.prepare(problem)?;
        let mut residuals = Vec::new();
        while self.damping <= MOST_DAMPING {
            let mut to = at.clone();
            if let Some(p) = model.solve(self.damping, problem)? {
                add(&mut to, 1.0, &p);
                bounds.project(&mut to);
                let moved: Vec<f64> = to.iter().zip(&at).map(|(a, b)| a - b).collect();
                if moved.iter().all(|&m| m == 0.0) {
                    return Ok(Step::Stuck);
                }
                let promised =
                    -dot(&model.gradient, &moved) - 0.5 * dot(&moved, &model.times(&moved, problem)?);
                problem.residuals(&to, &mut residuals)?;
                let after = robust.weigh(&residuals, problem.group()).0;
                if after < before {
                    let gain = (before - after) / promised;
                    let factor = 1.0 - (2.0 * gain.min(1.0) - 1.0).powi(3);
                    self.damping *= if gain.is_finite() { factor.max(1.0 / 3.0) } else { 1.0 };
                    (self.growth, self.step) = (2.0, self.step + 1);
                    x.copy_from_slice(&to);
                    return Ok(super::step(before, after, tolerances));
                }
            }
            self.damping *= self.growth;
            self.growth *= 2.0;
        }
        Ok(Step::Stuck)
    }
}

impl<'a> Model<'a> {
    /// The value at a point, and the model without its system.
    fn new(
        x: &'a [f64],
        bounds: &Bounds,
        robust: Robust,
        problem: &mut dyn Residuals,
    ) -> Result<(f64, Model<'a>), Error> {
        let mut residuals = Vec::new();
        problem.residuals(x, &mut residuals)?;
        let (value, weights) = robust.weigh(&residuals, problem.group());
        let pull: Vec<f64> = residuals.iter().zip(&weights).map(|(r, w)| r * w).collect();
        let mut gradient = vec![0.0; x.len()];
        problem.vjp(x, &pull, &mut gradient)?;
        let free = (0..x.len()).filter(|&k| bounds.is_free(k, x[k], gradient[k])).collect();
        let gradient = bounds.reduced(x, &gradient);
        Ok((value, Model { x, free, gradient, weights, system: System::Implicit(Vec::new()) }))
    }

    /// Computes what the system needs.
    fn prepare(&mut self, problem: &mut dyn Residuals) -> Result<(), Error> {
        let n = self.free.len();
        if n <= MOST_DENSE && n * self.weights.len() <= MOST_ENTRIES {
            return self.prepare_dense(problem);
        }
        // With random signs `s`, the mean of `(Jᵀ√W s)²` is the diagonal.
        let mut random = Random::new(self.x.len() as u64);
        let mut diagonal = vec![0.0; self.x.len()];
        let mut probe = vec![0.0; self.x.len()];
        for _ in 0..PROBES {
            let sign = |w: &f64| if random.below(2) == 0 { -w.sqrt() } else { w.sqrt() };
            let signs: Vec<f64> = self.weights.iter().map(sign).collect();
            problem.vjp(self.x, &signs, &mut probe)?;
            diagonal.iter_mut().zip(&probe).for_each(|(d, p)| *d += p * p / f64::from(PROBES));
        }
        // A number that no residual depends on has no diagonal of its own.
        let least = self.free.iter().fold(0.0f64, |most, &k| most.max(diagonal[k])) * 1e-12;
        diagonal.iter_mut().for_each(|d| *d = d.max(least).max(f64::MIN_POSITIVE));
        self.system = System::Implicit(diagonal);
        Ok(())
    }

    /// Computes the matrix.
    fn prepare_dense(&mut self, problem: &mut dyn Residuals) -> Result<(), Error> {
        let n = self.free.len();
        let mut columns = Vec::with_capacity(n);
        let mut unit = vec![0.0; self.x.len()];
        for &k in &self.free {
            unit[k] = 1.0;
            let mut column = Vec::new();
            problem.jvp(self.x, &unit, &mut column)?;
            unit[k] = 0.0;
            columns.push(column);
        }
        let mut matrix = vec![0.0; n * n];
        for i in 0..n {
            let weighted: Vec<f64> = columns[i].iter().zip(&self.weights).map(|(a, w)| a * w).collect();
            for j in 0..=i {
                let entry = dot(&weighted, &columns[j]);
                (matrix[i * n + j], matrix[j * n + i]) = (entry, entry);
            }
        }
        self.system = System::Dense(matrix);
        Ok(())
    }

    /// `JᵀWJ v`, for a direction `v` of numbers that can move.
    fn times(&self, v: &[f64], problem: &mut dyn Residuals) -> Result<Vec<f64>, Error> {
        let mut out = vec![0.0; v.len()];
        if let System::Dense(matrix) = &self.system {
            let n = self.free.len();
            for (i, &k) in self.free.iter().enumerate() {
                out[k] = self.free.iter().enumerate().map(|(j, &l)| matrix[i * n + j] * v[l]).sum();
            }
            return Ok(out);
        }
        let mut along = Vec::new();
        problem.jvp(self.x, v, &mut along)?;
        along.iter_mut().zip(&self.weights).for_each(|(a, w)| *a *= w);
        let mut all = vec![0.0; v.len()];
        problem.vjp(self.x, &along, &mut all)?;
        self.free.iter().for_each(|&k| out[k] = all[k]);
        Ok(out)
    }

    /// The step with that damping; `None` if the system has no solution.
    fn solve(&self, damping: f64, problem: &mut dyn Residuals) -> Result<Option<Vec<f64>>, Error> {
        let mut step = vec![0.0; self.x.len()];
        match &self.system {
            System::Dense(matrix) => {
                let n = self.free.len();
                let mut damped = matrix.clone();
                // A number that no residual depends on has no diagonal of its own.
                let least = (0..n).fold(0.0f64, |most, i| most.max(matrix[i * n + i])) * 1e-12;
                (0..n).for_each(|i| damped[i * n + i] += damping * matrix[i * n + i].max(least));
                let right: Vec<f64> = self.free.iter().map(|&k| -self.gradient[k]).collect();
                let Ok(factors) = Cholesky::new(&damped, n, 0.0) else { return Ok(None) };
                let solution = factors.solve(&right);
                self.free.iter().zip(solution).for_each(|(&k, p)| step[k] = p);
            }
            System::Implicit(diagonal) => {
                // Conjugate gradients for numbers in units of `1 / √diagonal`.
                let scaled = |v: &[f64]| -> Vec<f64> { v.iter().zip(diagonal).map(|(v, d)| v / d).collect() };
                let mut left: Vec<f64> = self.gradient.iter().map(|g| -g).collect();
                let mut direction = scaled(&left);
                let mut square = dot(&left, &direction);
                let enough = square * ENOUGH * ENOUGH;
                for _ in 0..MOST_ITERATIONS.min(2 * self.free.len()) {
                    let mut image = self.times(&direction, problem)?;
                    let shifts = direction.iter().zip(diagonal).map(|(p, d)| damping * d * p);
                    image.iter_mut().zip(shifts).for_each(|(i, shift)| *i += shift);
                    let curvature = dot(&direction, &image);
                    if curvature <= 0.0 || !curvature.is_finite() {
                        break;
                    }
                    let length = square / curvature;
                    add(&mut step, length, &direction);
                    add(&mut left, -length, &image);
                    let units = scaled(&left);
                    let next = dot(&left, &units);
                    if next <= enough {
                        break;
                    }
                    direction.iter_mut().zip(&units).for_each(|(d, u)| *d = u + next / square * *d);
                    square = next;
                }
            }
        }
        Ok(Some(step).filter(|step| step.iter().all(|p| p.is_finite())))
    }
}

/// The value at a point.
pub fn value(x: &[f64], robust: Robust, problem: &mut dyn Residuals) -> Result<f64, Error> {
    let mut residuals = Vec::new();
    problem.residuals(x, &mut residuals)?;
    Ok(robust.weigh(&residuals, problem.group()).0)
}

/// The covariance of the parameters at a minimum.
#[derive(Clone, Debug, PartialEq)]
pub struct Covariance {
    /// The matrix, row by row; numbers that are fixed or at a bound have zeros.
    pub matrix: Vec<f64>,
    /// The standard error of each number; `None` where it is fixed or at a bound.
    pub errors: Vec<Option<f64>>,
    /// The standard deviation of a residual, `√(Σ w r² / (m - n))`.
    pub deviation: f64,
}

/// The reason why there is no covariance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCovariance {
    /// There are more numbers than it is computed for.
    Many,
    /// There are no more residuals than numbers.
    Few,
    /// The residuals do not determine the number with this index, given those before it.
    Undetermined(usize),
}

/// The covariance `s² (JᵀWJ)⁻¹` at a minimum.
pub fn covariance(
    x: &[f64],
    bounds: &Bounds,
    robust: Robust,
    problem: &mut dyn Residuals,
) -> Result<Result<Covariance, NoCovariance>, Error> {
    let (_, mut model) = Model::new(x, bounds, robust, problem)?;
    model.free = (0..x.len()).filter(|&k| bounds.low[k] < x[k] && x[k] < bounds.high[k]).collect();
    let (n, m) = (model.free.len(), model.weights.len());
    if n > MOST_DENSE || n * m > MOST_ENTRIES {
        return Ok(Err(NoCovariance::Many));
    }
    if m <= n {
        return Ok(Err(NoCovariance::Few));
    }
    model.prepare_dense(problem)?;
    let mut residuals = Vec::new();
    problem.residuals(x, &mut residuals)?;
    let square: f64 = residuals.iter().zip(&model.weights).map(|(r, w)| w * r * r).sum();
    let variance = square / (m - n) as f64;
    let System::Dense(matrix) = &model.system else { return Ok(Err(NoCovariance::Many)) };
    // Derivatives of floats are right to about seven digits, and so is the matrix.
    let factors = match Cholesky::new(matrix, n, 1e-7) {
        Ok(factors) => factors,
        Err(k) => return Ok(Err(NoCovariance::Undetermined(model.free[k]))),
    };
    let all = x.len();
    let mut covariance =
        Covariance { matrix: vec![0.0; all * all], errors: vec![None; all], deviation: variance.sqrt() };
    let mut unit = vec![0.0; n];
    for (i, &k) in model.free.iter().enumerate() {
        unit[i] = 1.0;
        let column = factors.solve(&unit);
        unit[i] = 0.0;
        for (&l, c) in model.free.iter().zip(&column) {
            covariance.matrix[l * all + k] = variance * c;
        }
        covariance.errors[k] = Some((variance * column[i]).sqrt());
    }
    Ok(Ok(covariance))
}

/// Cholesky's decomposition of a symmetric matrix, scaled to a diagonal of ones.
struct Cholesky {
    n: usize,
    /// The lower triangle, row by row.
    lower: Vec<f64>,
    /// The scale of each row and column.
    scales: Vec<f64>,
}

impl Cholesky {
    /// Decomposes a matrix. Fails with the first row whose part that is independent of the rows before it is no
    /// more than a share `least` of the row.
    fn new(matrix: &[f64], n: usize, least: f64) -> Result<Cholesky, usize> {
        let scales: Vec<f64> = (0..n).map(|i| 1.0 / matrix[i * n + i].sqrt()).collect();
        let mut lower = vec![0.0; n * n];
        for i in 0..n {
            if !scales[i].is_finite() {
                return Err(i);
            }
            for j in 0..=i {
                let entry = matrix[i * n + j] * scales[i] * scales[j];
                let rest = entry - dot(&lower[i * n..i * n + j], &lower[j * n..j * n + j]);
                lower[i * n + j] = match i == j {
                    true if rest > least => rest.sqrt(),
                    true => return Err(i),
                    false => rest / lower[j * n + j],
                };
            }
        }
        Ok(Cholesky { n, lower, scales })
    }

    /// Solves the system for a right side.
    fn solve(&self, right: &[f64]) -> Vec<f64> {
        let (n, lower) = (self.n, &self.lower);
        let mut x: Vec<f64> = right.iter().zip(&self.scales).map(|(b, s)| b * s).collect();
        for i in 0..n {
            x[i] = (x[i] - dot(&lower[i * n..i * n + i], &x[..i])) / lower[i * n + i];
        }
        for i in (0..n).rev() {
            let sum: f64 = (i + 1..n).map(|j| lower[j * n + i] * x[j]).sum();
            x[i] = (x[i] - sum) / lower[i * n + i];
        }
        x.iter_mut().zip(&self.scales).for_each(|(x, s)| *x *= s);
        x
    }
}

#[cfg(test)]
#[path = "least_squares_tests.rs"]
mod tests;
