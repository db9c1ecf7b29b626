//! Checks derivatives against finite differences.
//!
//! The function is converted to double precision ([`crate::widen`]) and differentiated there. Then forward
//! mode, reverse mode and central differences with Richardson extrapolation must agree. Two extrapolations
//! with different steps tell how accurate the differences are: where these disagree with each other (at a
//! kink, for example), the differences are inconclusive and do not count against the derivative.
//!
//! Differences cannot see `detach` and other places that cut a derivative. Dual numbers can, and they record
//! the place: a derivative that agrees with the dual numbers differs from the differences for that reason.

use ir::{Scalar, scalar};
use lower::Request;
use serde_json::{Value, json};
use syntax::{Sources, Span};

use crate::bind::Bind;
use crate::call::{Callee, Point};
use crate::error::{Error, Failure};
use crate::oracle::{Jacobian, Oracle};
use crate::pipeline::Loaded;
use crate::render;

/// One entry of the Jacobian.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name of the output number.
    pub output: String,
    /// The name of the input number.
    pub input: String,
    /// The derivative by forward mode.
    pub forward: f64,
    /// The derivative by reverse mode.
    pub reverse: f64,
    /// The derivative by dual numbers, if they were evaluated.
    pub dual: Option<f64>,
    /// The place where the derivative is cut, if that is why it differs from the slope.
    pub cut: Option<Span>,
    /// The slope by finite differences.
    pub differences: f64,
    /// The larger error of the two derivatives, relative to their size; measured against dual numbers where
    /// the derivative is cut.
    pub error: f64,
    /// The result of the comparison.
    pub verdict: Verdict,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All derivatives agree.
    Agrees,
    /// All derivatives and differences at the point are 0, of all outputs and inputs. They agree, but say little: the outputs
    /// may depend on the inputs elsewhere, where a loop has trips or a condition does not leave out what depends on them.
    /// Only [`check_points`] tells this from other agreement.
    Flat,
    /// The differences are too inaccurate to tell, while forward and reverse mode agree; or the value is NaN
    /// here, so that there is no derivative.
    Unclear,
    /// The derivative is cut on the way, and everything but the differences agrees.
    Cut,
    /// The derivatives do not agree.
    Differs,
}

impl Verdict {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Flat => "flat",
            Verdict::Unclear => "unclear",
            Verdict::Cut => "cut",
            Verdict::Differs => "differs",
        }
    }
}

impl Entry {
    /// The entry as JSON, with the number of its point. `dual` and `cut` are left out where they are not known.
    pub fn to_json(&self, sources: &Sources, point: u32) -> Value {
        // JSON has no representation of infinities and NaN.
        let number = |x: f64| if x.is_finite() { json!(x) } else { json!(x.to_string()) };
        let mut json = json!({
            "point": point,
            "output": self.output,
            "input": self.input,
            "forward": number(self.forward),
            "reverse": number(self.reverse),
            "differences": number(self.differences),
            "error": number(self.error),
            "verdict": self.verdict.name(),
        });
        if let Some(dual) = self.dual {
            json["dual"] = number(dual);
        }
        if let Some(cut) = self.cut {
            json["cut"] = json!(render::place(sources, cut));
        }
        json
    }
}

/// A function's values and slopes at a point, computed without differentiating its code.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The value of each output that has derivatives.
    pub values: Vec<f64>,
    /// For each input, the slope of each output, and the distance between two estimates of it.
    pub slopes: Vec<Vec<(f64, f64)>>,
    /// The Jacobian by dual numbers, if it is known.
    pub dual: Option<Jacobian>,
}

/// Computes values and finite differences.
pub fn reference(callee: &mut Callee, point: &Point) -> Result<Reference, Error> {
    let inputs: Vec<usize> = (0..callee.inputs.len()).filter(|&k| callee.inputs[k].diff).collect();
    let value = callee.value(point)?;
    let values = numbers(callee, &value);
    let slopes: Result<Vec<_>, Error> = inputs.iter().map(|&at| differences(callee, point, at)).collect();
    Ok(Reference { values, slopes: slopes?, dual: None })
}

/// Checks a compiled function at points, each made by `point` from its number; dual numbers are evaluated on the
/// program that the function was compiled from. Returns the entries with the numbers of their points.
pub fn check_points(
    callee: &mut Callee,
    (loaded, request, memory): (&mut Loaded, &Request, &[Bind]),
    n: u32,
    tolerance: f64,
    mut point: impl FnMut(&Callee, u32) -> Result<Point, Failure>,
) -> Result<Vec<(u32, Entry)>, Failure> {
    let mut oracle = None;
    let mut dual = |callee: &Callee, point: &Point| {
        let oracle = match &mut oracle {
            Some(oracle) => oracle,
            none => none.insert(Oracle::new(loaded, request, memory)?),
        };
        Ok(oracle.jacobian(callee, point))
    };
    let mut all = Vec::new();
    for k in 0..n {
        let point = point(callee, k)?;
        let mut found = check(callee, &point, tolerance, &mut dual)?;
        let is_zero = |e: &Entry| [e.forward, e.reverse, e.differences].iter().all(|&x| x == 0.0);
        if found.iter().all(|e| e.verdict == Verdict::Agrees && is_zero(e)) {
            found.iter_mut().for_each(|e| e.verdict = Verdict::Flat);
        }
        all.extend(found.into_iter().map(|e| (k, e)));
    }
    Ok(all)
}

/// Compares all entries at one point. If the differences disagree, `dual` is called for the Jacobian by dual
/// numbers.
pub fn check(
    callee: &mut Callee,
    point: &Point,
    tolerance: f64,
    dual: impl FnOnce(&Callee, &Point) -> Result<Option<Jacobian>, Failure>,
) -> Result<Vec<Entry>, Failure> {
    let (forward, reverse) = (callee.forward(point)?, callee.reverse(point)?);
    let mut reference = reference(callee, point)?;
    let found = entries(callee, &forward, &reverse, &reference, tolerance);
    if found.iter().all(|e| e.verdict != Verdict::Differs) {
        return Ok(found);
    }
    reference.dual = dual(callee, point)?;
    Ok(entries(callee, &forward, &reverse, &reference, tolerance))
}

/// Compares two Jacobians with each other and with the reference.
pub fn entries(
    callee: &Callee,
    forward: &[Vec<f64>],
    reverse: &[Vec<f64>],
    reference: &Reference,
    tolerance: f64,
) -> Vec<Entry> {
    let mut all = Vec::new();
    for (column, input) in callee.inputs.iter().filter(|n| n.diff).enumerate() {
        for (row, output) in callee.outputs.iter().filter(|n| n.diff).enumerate() {
            let (forward, reverse) = (forward[row][column], reverse[row][column]);
            let exact = reference.dual.as_ref().map(|d| d[row][column]);
            let dual = exact.map(|e| e.slope);
            let (slope, doubt) = reference.slopes[column][row];
            let size =
                1.0 + forward.abs().max(reverse.abs()).max(if slope.is_finite() { slope.abs() } else { 0.0 });
            let apart = |a: f64, b: f64| {
                if a == b || (a.is_nan() && b.is_nan()) { 0.0 } else { (a - b).abs() / size }
            };
            // The distance is NaN, and the derivatives count as different, if exactly one of them is NaN or
            // infinite.
            let between = apart(forward, reverse);
            // A dual number that is not finite is ignored: where calculus and the language differ, as for the
            // root of 0, it is inconclusive.
            let calculus = dual.filter(|d| d.is_finite()).map_or(0.0, |d| apart(forward, d));
            let cut = exact.and_then(|e| e.cut);
            let rough = !slope.is_finite() || doubt.is_nan() || doubt / size > tolerance;
            let slopes = between.max(apart(forward, slope)).max(apart(reverse, slope));
            // A dual number that lost a derivative on the way says nothing against one that the differences have, or that
            // these cannot tell: a derivative that is written by hand may belong to what was found without one.
            let is_excused = cut.is_some() && (rough || slopes <= tolerance);
            let calculus = if is_excused { 0.0 } else { calculus };
            let error = between.max(calculus);
            let off = error.max(slopes);
            let is_within = |x: f64| x <= tolerance;
            let verdict = if reference.values[row].is_nan() {
                Verdict::Unclear
            } else if !is_within(between) || !is_within(calculus) {
                Verdict::Differs
            } else if rough || dual.is_some_and(|d| !d.is_finite()) {
                Verdict::Unclear
            } else if is_within(off) {
                Verdict::Agrees
            } else if cut.is_some() {
                Verdict::Cut
            } else {
                Verdict::Differs
            };
            let parts = [between, calculus];
            all.push(Entry {
                output: output.name.clone(),
                input: input.name.clone(),
                forward,
                reverse,
                dual,
                cut: cut.filter(|_| verdict == Verdict::Cut),
                differences: slope,
                error: match verdict {
                    _ if parts.iter().any(|e| e.is_nan()) => f64::NAN,
                    Verdict::Cut => error,
                    Verdict::Agrees | Verdict::Flat | Verdict::Unclear | Verdict::Differs => off,
                },
                verdict,
            });
        }
    }
    all
}

/// The greater error; NaN counts as the greatest.
pub fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// The outputs that have derivatives, selected from the bits of all outputs.
fn numbers(callee: &Callee, bits: &[u64]) -> Vec<f64> {
    let numbers = callee.outputs.iter().zip(bits).filter(|n| n.0.diff);
    numbers.map(|(n, &b)| scalar::to_f64(n.scalar, b)).collect()
}

/// The slope of each output along one input, and the distance between two estimates of it.
fn differences(callee: &mut Callee, point: &Point, input: usize) -> Result<Vec<(f64, f64)>, Error> {
    let s = callee.inputs[input].scalar;
    let x = scalar::to_f64(s, point[input]);
    let h = if s == Scalar::F64 { 2e-3 } else { 2e-2 } * x.abs().max(1.0);
    let steps = [h, h / 2.0, h / 4.0, h / 8.0];
    let moved = |x: f64| {
        let mut moved = point.clone();
        moved[input] = scalar::from_f64(s, x);
        moved
    };
    let points: Vec<Point> = steps.iter().flat_map(|h| [moved(x + h), moved(x - h)]).collect();
    let values: Vec<Vec<f64>> = callee.values(&points)?.iter().map(|bits| numbers(callee, bits)).collect();
    let central = |k: usize| -> Vec<f64> {
        let (above, below) = (&values[2 * k], &values[2 * k + 1]);
        // The actual step after rounding.
        let at = |k: usize| scalar::to_f64(s, points[k][input]);
        let step = at(2 * k) - at(2 * k + 1);
        above.iter().zip(below).map(|(a, b)| (a - b) / step).collect()
    };
    let (d1, d2, d4, d8) = (central(0), central(1), central(2), central(3));
    // The functions compute in `double`, and the slope is no more exact than the values of the smallest step are.
    let rounding = |k: usize| {
        let [above, below] = [&values[6], &values[7]].map(|values| values[k].abs());
        2.0 * f64::EPSILON * above.max(below) / (h / 4.0)
    };
    Ok((0..d1.len())
        .map(|k| {
            let once = |a: f64, b: f64| (4.0 * b - a) / 3.0;
            let twice = |a: f64, b: f64| (16.0 * b - a) / 15.0;
            let (a, b, c) = (once(d1[k], d2[k]), once(d2[k], d4[k]), once(d4[k], d8[k]));
            let (coarse, fine) = (twice(a, b), twice(b, c));
            (fine, (fine - coarse).abs() + rounding(k))
        })
        .collect())
}

/// A small random number generator, so that a seed gives the same points everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
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

    /// A random number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A random number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }

    /// A random value of a scalar type: a float from the range, or a small integer.
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
