//! Bounds of the fitted numbers; a number whose bounds are equal is fixed.

/// The least and the greatest value of each number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// The least values, which may be `-inf`.
    pub low: Vec<f64>,
    /// The greatest values, which may be `inf`.
    pub high: Vec<f64>,
}

impl Bounds {
    /// No bounds for `n` numbers.
    pub fn none(n: usize) -> Bounds {
        Bounds { low: vec![f64::NEG_INFINITY; n], high: vec![f64::INFINITY; n] }
    }

    /// The value nearest to `x` that number `k` may have; NaN stays.
    pub fn nearest(&self, k: usize, x: f64) -> f64 {
        // `f64::clamp` panics where a bound is NaN, which no caller gives.
        if x < self.low[k] {
            self.low[k]
        } else if x > self.high[k] {
            self.high[k]
        } else {
            x
        }
    }

    /// Moves a point to the nearest one within the bounds.
    pub fn project(&self, x: &mut [f64]) {
        for (k, x) in x.iter_mut().enumerate() {
            *x = self.nearest(k, *x);
        }
    }

    /// Returns true if number `k`, at `x`, can move against its derivative.
    pub fn is_free(&self, k: usize, x: f64, derivative: f64) -> bool {
        if derivative > 0.0 { x > self.low[k] } else { x < self.high[k] }
    }

    /// The derivatives of those numbers that can move against them; zero for the others.
    pub fn reduced(&self, x: &[f64], gradient: &[f64]) -> Vec<f64> {
        let each = x.iter().zip(gradient).enumerate();
        each.map(|(k, (&x, &g))| if self.is_free(k, x, g) { g } else { 0.0 }).collect()
    }
}
