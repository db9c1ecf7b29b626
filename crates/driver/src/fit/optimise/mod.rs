//! The optimisers: first-order methods with kernels that make their steps ([`rule`]), L-BFGS ([`lbfgs`]) and
//! Levenberg–Marquardt ([`least_squares`]), over a flat vector of numbers.
//!
//! Their states are plain data that can be stored and read back, so that a fit can be resumed.

pub mod bounds;
pub mod lbfgs;
pub mod least_squares;
mod line_search;
pub mod rule;
pub mod schedule;

/// The function that is minimised: its value and gradient at a point.
pub trait Objective {
    /// Returns the value and writes the gradient to `gradient`, which is as long as `x`.
    fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> Result<f64, crate::Error>;
}

/// The tolerances at which a minimum counts as found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    /// The least decrease that a step must achieve, as a share of the value.
    pub decrease: f64,
    /// The magnitude that some derivative must exceed.
    pub gradient: f64,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// The value has decreased to this.
    Done(f64),
    /// The value has decreased to this, by less than the tolerance.
    Last(f64),
    /// No derivative that matters exceeds the tolerance; the largest has this magnitude. Nothing has changed.
    Flat(f64),
    /// No lower value was found. Nothing has changed.
    Stuck,
    /// The derivative by the number with this index is infinite or NaN. Nothing has changed.
    NotFinite(usize, f64),
}

/// The outcome if there is nothing to gain, given the derivatives of the numbers that can move.
fn no_step(gradient: &[f64], tolerances: Tolerances) -> Option<Step> {
    // A NaN is no maximum for `max`, and must not look like a zero.
    if let Some(k) = gradient.iter().position(|g| !g.is_finite()) {
        return Some(Step::NotFinite(k, gradient[k]));
    }
    let largest = gradient.iter().fold(0.0f64, |most, g| most.max(g.abs()));
    (largest <= tolerances.gradient).then_some(Step::Flat(largest))
}

/// The outcome of a step from `before` to `after`.
fn step(before: f64, after: f64, tolerances: Tolerances) -> Step {
    if before - after <= tolerances.decrease * before.abs() { Step::Last(after) } else { Step::Done(after) }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn add(a: &mut [f64], factor: f64, b: &[f64]) {
    for (x, y) in a.iter_mut().zip(b) {
        *x += factor * y;
    }
}
