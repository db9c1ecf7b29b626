//! A line search for the strong Wolfe conditions (Nocedal and Wright, "Numerical Optimization", algorithms 3.5
//! and 3.6): a step decreases the value by a share of what the slope promises, and leaves little of the slope.

use crate::error::Error;

/// The share of the promised decrease that a step must achieve.
const DECREASE: f64 = 1e-4;
/// The share of the slope that may be left.
const CURVATURE: f64 = 0.9;
/// The factor by which a step grows while the value goes down.
const GROWTH: f64 = 2.5;
/// The most evaluations.
const MOST: usize = 40;

/// A point on the line.
pub(super) struct Trial {
    /// The length of the step.
    pub t: f64,
    /// The value there.
    pub value: f64,
    /// The derivative of the value along the line.
    pub slope: f64,
    /// The point.
    pub point: Vec<f64>,
    /// The gradient there.
    pub gradient: Vec<f64>,
}

/// Searches from a start with that value and slope; the first step to try has the length `first`. Returns a
/// point with a sufficient decrease, or `None` if none was found.
pub(super) fn search(
    (value, slope): (f64, f64),
    first: f64,
    evaluate: &mut dyn FnMut(f64) -> Result<Trial, Error>,
) -> Result<Option<Trial>, Error> {
    let start = Trial { t: 0.0, value, slope, point: Vec::new(), gradient: Vec::new() };
    let is_too_high = |trial: &Trial, low: &Trial| {
        // A NaN is too high.
        let allowed = value + DECREASE * trial.t * slope;
        !trial.value.is_finite() || trial.value > allowed || trial.value >= low.value
    };
    let is_flat = |trial: &Trial| trial.slope.abs() <= CURVATURE * slope.abs();
    // `low` is the best point with a sufficient decrease, or the start; `high` ends an interval that contains
    // a point wanted.
    let (mut low, mut high, mut t) = (start, None::<Trial>, first);
    for _ in 0..MOST {
        let trial = evaluate(t)?;
        if is_too_high(&trial, &low) {
            high = Some(trial);
        } else if is_flat(&trial) {
            return Ok(Some(trial));
        } else {
            let turns = match &high {
                Some(high) => trial.slope * (high.t - low.t) >= 0.0,
                None => trial.slope >= 0.0,
            };
            let before = std::mem::replace(&mut low, trial);
            if turns {
                high = Some(before);
            }
        }
        t = match &high {
            None => GROWTH * low.t,
            Some(high) => between(&low, high),
        };
        if high.as_ref().is_some_and(|high| (high.t - low.t).abs() <= 1e-14 * low.t.max(high.t)) {
            break;
        }
        if !t.is_finite() {
            break;
        }
    }
    Ok(Some(low).filter(|low| low.t > 0.0))
}

/// The length at which the cubic through two points with these slopes is least, kept away from both ends; the
/// middle if there is no such cubic.
fn between(low: &Trial, high: &Trial) -> f64 {
    let width = high.t - low.t;
    let a = low.slope + high.slope - 3.0 * (high.value - low.value) / width;
    let root = (a * a - low.slope * high.slope).sqrt().copysign(width);
    let share = 1.0 - (high.slope + root - a) / (high.slope - low.slope + 2.0 * root);
    let share = if share.is_finite() { share.clamp(0.1, 0.9) } else { 0.5 };
    low.t + share * width
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches along a function given with its derivative.
    fn along(f: impl Fn(f64) -> (f64, f64), first: f64) -> (Option<f64>, usize) {
        let mut n = 0;
        let found = search(f(0.0), first, &mut |t| {
            n += 1;
            let (value, slope) = f(t);
            Ok(Trial { t, value, slope, point: vec![t], gradient: vec![slope] })
        });
        (found.expect("evaluates").map(|trial| trial.t), n)
    }

    #[test]
    fn both_conditions_hold() {
        // Steps that are far too short and far too long, and a function that is not defined everywhere.
        let functions: [fn(f64) -> (f64, f64); 4] = [
            |t| ((t - 3.0) * (t - 3.0), 2.0 * (t - 3.0)),
            |t| (t.powi(4) - 8.0 * t, 4.0 * t.powi(3) - 8.0),
            |t| (-(-(t - 2.0) * (t - 2.0)).exp(), 2.0 * (t - 2.0) * (-(t - 2.0) * (t - 2.0)).exp()),
            |t| (-(t + 0.1).ln() - (4.0 - t).ln(), -1.0 / (t + 0.1) + 1.0 / (4.0 - t)),
        ];
        for (k, f) in functions.iter().enumerate() {
            for first in [1e-4, 0.5, 1.0, 100.0] {
                let (t, n) = along(f, first);
                let t = t.expect("a point is found");
                let ((value, slope), (start, steep)) = (f(t), f(0.0));
                assert!(value <= start + DECREASE * t * steep, "{k}, {first}: {t}");
                assert!(slope.abs() <= CURVATURE * steep.abs() && n < 30, "{k}, {first}: {t} after {n}");
            }
        }
    }

    #[test]
    fn a_line_that_only_rises_has_no_step() {
        let (t, _) = along(|t| (t, -1.0 + 2.0 * t.min(1e-300)), 1.0);
        assert_eq!(t, None);
    }
}
