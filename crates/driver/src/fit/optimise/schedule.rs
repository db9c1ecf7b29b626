//! Schedules: the factor of all learning rates at each step.

use std::f64::consts::PI;

/// How the learning rates change over a fit. A schedule depends on nothing but the number of the step and that
/// of all steps, so a fit that is resumed goes on as one that was not interrupted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// The shape.
    pub shape: Shape,
    /// The number of steps over which the rates grow from zero, before the shape begins.
    pub warm_up: u64,
}

/// The shape of a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// The full rates.
    Constant,
    /// Half a wave of a cosine, from the full rates to this factor.
    Cosine(f64),
    /// A constant ratio of one step's rates to the next's, from the full rates to this factor.
    Exponential(f64),
    /// A growth from 1/25 over three tenths of the steps, then a decline to this factor, both halves of a
    /// cosine's wave (Smith and Topin, "Super-Convergence").
    OneCycle(f64),
}

/// The factor of the first step of [`Shape::OneCycle`].
const CYCLE_START: f64 = 1.0 / 25.0;
/// The share of the steps over which [`Shape::OneCycle`] grows.
const CYCLE_GROWTH: f64 = 0.3;

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule { shape: Shape::Constant, warm_up: 0 }
    }
}

impl Schedule {
    /// The factor at a step, counted from 0, of `steps` in all.
    pub fn factor(&self, step: u64, steps: u64) -> f64 {
        if step < self.warm_up {
            return (step + 1) as f64 / (self.warm_up as f64 + 1.0);
        }
        let share = (step - self.warm_up) as f64 / steps.saturating_sub(self.warm_up).max(1) as f64;
        self.shape.factor(share.min(1.0))
    }
}

impl Shape {
    /// Reads `constant`, `cosine`, `exponential` or `one-cycle`, which may be followed by `:` and the last factor.
    pub fn parse(text: &str) -> Option<Shape> {
        let (name, end) = match text.split_once(':') {
            Some((name, end)) => (name, Some(end.trim().parse::<f64>().ok()?)),
            None => (text, None),
        };
        let end = |default: f64| Some(end.unwrap_or(default)).filter(|end| (0.0..=1.0).contains(end));
        match name {
            "constant" if !text.contains(':') => Some(Shape::Constant),
            "cosine" => end(0.0).map(Shape::Cosine),
            "exponential" => end(0.01).filter(|&end| end > 0.0).map(Shape::Exponential),
            "one-cycle" => end(1e-4).map(Shape::OneCycle),
            _ => None,
        }
    }

    /// The factor after a share of the steps.
    fn factor(self, share: f64) -> f64 {
        // From `a` to `b` as `share` goes from 0 to 1.
        let half_wave = |a: f64, b: f64, share: f64| b + (a - b) * 0.5 * (1.0 + (PI * share).cos());
        match self {
            Shape::Constant => 1.0,
            Shape::Cosine(end) => half_wave(1.0, end, share),
            Shape::Exponential(end) => end.powf(share),
            Shape::OneCycle(_) if share < CYCLE_GROWTH => half_wave(CYCLE_START, 1.0, share / CYCLE_GROWTH),
            Shape::OneCycle(end) => half_wave(1.0, end, (share - CYCLE_GROWTH) / (1.0 - CYCLE_GROWTH)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_begin_and_end_where_they_should() {
        for (text, first, middle, last) in [
            ("constant", 1.0, 1.0, 1.0),
            ("cosine:0.01", 1.0, 0.505, 0.01),
            ("cosine", 1.0, 0.5, 0.0),
            ("exponential", 1.0, 0.1, 0.01),
            ("one-cycle", 0.04, 0.811_8, 1e-4),
        ] {
            let schedule = Schedule { shape: Shape::parse(text).expect("a shape"), warm_up: 0 };
            let found = [0, 500, 1000].map(|step| schedule.factor(step, 1000));
            for (found, wanted) in found.into_iter().zip([first, middle, last]) {
                assert!((found - wanted).abs() < 1e-3, "{text}: {found} instead of {wanted}");
            }
        }
        for wrong in ["linear", "constant:1", "cosine:x", "cosine:2", "cosine:nan", "exponential:0"] {
            assert_eq!(Shape::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_warm_up_grows_to_the_full_rate() {
        let schedule = Schedule { shape: Shape::Cosine(0.0), warm_up: 9 };
        assert_eq!(schedule.factor(0, 109), 0.1);
        assert_eq!(schedule.factor(8, 109), 0.9);
        assert_eq!(schedule.factor(9, 109), 1.0);
        assert!((schedule.factor(59, 109) - 0.5).abs() < 1e-12);
        // A warm-up beyond the end is no division by zero.
        assert!(schedule.factor(20, 3).is_finite());
    }
}
