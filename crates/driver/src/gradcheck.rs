//! Derivatives against differences.
//!
//! The function is taken in double precision ([`crate::widen`]) and differentiated there. Then
//! forward mode, reverse mode and central differences, extrapolated after Richardson, must agree.
//! Two extrapolations of different steps tell how good the differences are: where they disagree
//! with each other (at a kink, say), they prove nothing and are not held against the derivative.

use ir::{Scalar, scalar};

use crate::call::{Callee, Point};
use crate::error::Error;

/// One entry of the Jacobian.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The output number.
    pub output: String,
    /// The input number.
    pub input: String,
    /// By forward mode.
    pub forward: f64,
    /// By reverse mode.
    pub reverse: f64,
    /// By differences.
    pub differences: f64,
    /// The larger error of the two derivatives, relative to their size.
    pub error: f64,
    /// What follows.
    pub verdict: Verdict,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They agree.
    Agrees,
    /// The differences are too rough to tell, and forward and reverse agree; or the value is not a number here, so that there
    /// is no derivative.
    Unclear,
    /// They do not agree.
    Differs,
}

/// All entries at one point.
pub fn check(callee: &Callee<'_>, point: &Point, tolerance: f64) -> Result<Vec<Entry>, Error> {
    let forward = callee.forward(point)?;
    let reverse = callee.reverse(point)?;
    let inputs: Vec<(usize, _)> = callee.inputs.iter().enumerate().filter(|n| n.1.diff).collect();
    let outputs: Vec<_> = callee.outputs.iter().filter(|n| n.diff).collect();
    let values = numbers(callee, callee.value(point)?);
    let mut entries = Vec::new();
    for (column, &(at, input)) in inputs.iter().enumerate() {
        let differences = differences(callee, point, at)?;
        for (row, output) in outputs.iter().enumerate() {
            let (forward, reverse) = (forward[row][column], reverse[row][column]);
            let (slope, doubt) = differences[row];
            let size =
                1.0 + forward.abs().max(reverse.abs()).max(if slope.is_finite() { slope.abs() } else { 0.0 });
            let apart = |a: f64, b: f64| {
                if a == b || (a.is_nan() && b.is_nan()) { 0.0 } else { (a - b).abs() / size }
            };
            let between = apart(forward, reverse);
            let error = between.max(apart(forward, slope)).max(apart(reverse, slope));
            let rough = !slope.is_finite() || doubt.is_nan() || doubt / size > tolerance;
            let verdict = if values[row].is_nan() {
                Verdict::Unclear
            } else if between.is_nan() || between > tolerance {
                Verdict::Differs
            } else if rough {
                Verdict::Unclear
            } else if error <= tolerance {
                Verdict::Agrees
            } else {
                Verdict::Differs
            };
            entries.push(Entry {
                output: output.name.clone(),
                input: input.name.clone(),
                forward,
                reverse,
                differences: slope,
                error,
                verdict,
            });
        }
    }
    Ok(entries)
}

/// The outputs that have derivatives, of the bits of all.
fn numbers(callee: &Callee<'_>, bits: Vec<u64>) -> Vec<f64> {
    let numbers = callee.outputs.iter().zip(bits).filter(|n| n.0.diff);
    numbers.map(|(n, b)| scalar::to_f64(n.scalar, b)).collect()
}

/// The slope of each output along one input, and how far two estimates of it are apart.
fn differences(callee: &Callee<'_>, point: &Point, input: usize) -> Result<Vec<(f64, f64)>, Error> {
    let bits = callee.input_bits(point);
    let s = callee.inputs[input].scalar;
    let x = scalar::to_f64(s, bits[input]);
    let central = |h: f64| -> Result<Vec<f64>, Error> {
        let at = |x: f64| -> Result<Vec<f64>, Error> {
            let mut bits = bits.clone();
            bits[input] = scalar::from_f64(s, x);
            Ok(numbers(callee, callee.value(&callee.from_bits(&bits))?))
        };
        let (above, below) = (at(x + h)?, at(x - h)?);
        // The step as it really is after rounding.
        let step =
            scalar::to_f64(s, scalar::from_f64(s, x + h)) - scalar::to_f64(s, scalar::from_f64(s, x - h));
        Ok(above.iter().zip(&below).map(|(a, b)| (a - b) / step).collect())
    };
    let h = if s == Scalar::F64 { 2e-3 } else { 2e-2 } * x.abs().max(1.0);
    let (d1, d2, d4, d8) = (central(h)?, central(h / 2.0)?, central(h / 4.0)?, central(h / 8.0)?);
    Ok((0..d1.len())
        .map(|k| {
            let once = |a: f64, b: f64| (4.0 * b - a) / 3.0;
            let twice = |a: f64, b: f64| (16.0 * b - a) / 15.0;
            let (a, b, c) = (once(d1[k], d2[k]), once(d2[k], d4[k]), once(d4[k], d8[k]));
            let (coarse, fine) = (twice(a, b), twice(b, c));
            (fine, (fine - coarse).abs())
        })
        .collect())
}

/// A point's random numbers: a small generator, so that a seed means the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    /// 64 random bits (splitmix64).
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }

    /// A random value of a scalar type: floats from the range, small integers.
    pub fn scalar(&mut self, s: Scalar, low: f64, high: f64) -> u64 {
        if s.is_float() {
            scalar::from_f64(s, low + (high - low) * self.unit())
        } else if s == Scalar::Bool {
            self.bits() & 1
        } else {
            scalar::from_i64(s, self.below(4) as i64)
        }
    }
}
