//! Slopes and second derivatives by differences in numbers of twice a double's digits.
//!
//! Central differences have an error in even powers of the step; Richardson's extrapolation removes one power for each
//! halving. From five steps, two extrapolations tell how exact they are. Large steps have the error of the function's higher
//! derivatives, and may reach past a kink; small ones have that of rounding, which leaves 20 of 32 digits for the smallest.
//! So the runs of five steps are looked at from the smallest steps on, and the one in which the two extrapolations are
//! closest counts, as long as larger steps agree with smaller ones.

use ir::Scalar;
use ir::interp::precise::{Number, Precise};

use crate::call::Point;
use crate::oracle::Oracle;

/// The largest and smallest step, as powers of two of [`scale`].
const STEPS: std::ops::RangeInclusive<i32> = -30..=-3;
/// The same for second derivatives, whose differences are divided by the square of the step.
const SECOND_STEPS: std::ops::RangeInclusive<i32> = -22..=-3;
/// The number of steps of an extrapolation.
const LEVELS: usize = 5;
/// One-sided slopes of a smooth function approach each other by half for each halving of the step; where they have not
/// done half of that over four halvings, and differ by more than this part of the slope, the function has a kink.
const KINK: f64 = 1e-6;
/// The error of a function's value in numbers of twice the digits.
const NOISE: f64 = 1e-29;

/// Two estimates agree that differ by no more than this times what they may be off.
const AGREE: f64 = 16.0;

/// A derivative in numbers of twice the digits, and how far it may be off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slope {
    /// The derivative.
    pub(super) value: Number,
    /// The distance of two estimates.
    pub(super) doubt: f64,
}

/// The slope of an output along an input.
#[derive(Clone, Copy, Debug)]
pub(super) enum Along {
    /// The function is smooth there.
    Smooth(Slope),
    /// It has a kink, with these slopes below and above.
    Kink(f64, f64),
    /// The differences do not converge: the point is at the end of the domain, or the function jumps.
    Unclear,
}

/// A function at a point: its oracle, the inputs, and which of the outputs have derivatives.
pub(super) struct Place<'o> {
    oracle: &'o Oracle,
    inputs: Vec<Precise>,
    /// Which of the inputs are floats.
    floats: Vec<usize>,
    outputs: Vec<usize>,
}

impl<'o> Place<'o> {
    /// Takes a point in the function's own types, whose numbers doubles hold exactly.
    pub(super) fn new(
        oracle: &'o Oracle,
        scalars: &[Scalar],
        point: &Point,
        outputs: Vec<usize>,
    ) -> Place<'o> {
        let wide = |(&s, &bits): (&Scalar, &u64)| match s.is_float() {
            true => Precise::from(Number::from(ir::scalar::to_f64(s, bits))),
            false => Precise { bits, lo: 0.0 },
        };
        let floats = (0..scalars.len()).filter(|&k| scalars[k].is_float()).collect();
        Place { oracle, inputs: scalars.iter().zip(point).map(wide).collect(), floats, outputs }
    }

    /// The outputs where some inputs are moved.
    fn at(&self, moves: &[(usize, f64)]) -> Option<Vec<Number>> {
        let mut inputs = self.inputs.clone();
        for &(k, by) in moves {
            inputs[k] = (inputs[k].number() + by.into()).into();
        }
        let found = self.oracle.precise(&inputs)?;
        self.outputs.iter().map(|&k| found.get(k).map(|lane| lane.number())).collect()
    }

    /// The size of a number that steps are measured by: its own, if it is within 1, or for 0 that of the smallest other one.
    fn scale(&self, input: usize) -> f64 {
        let size = |k: usize| self.inputs[k].number().hi.abs();
        let own = size(input);
        let others = self.floats.iter().map(|&k| size(k)).filter(|&size| size > 0.0);
        let size = if own > 0.0 { own.min(1.0) } else { others.fold(1.0, f64::min) };
        2f64.powi(size.log2().round() as i32)
    }

    /// The slope of each output along an input.
    pub(super) fn slopes(&self, input: usize) -> Option<Vec<Along>> {
        let here = self.at(&[])?;
        let scale = self.scale(input);
        let steps: Vec<f64> = STEPS.rev().map(|k| scale * 2f64.powi(k)).collect();
        let sides = |h: &f64| Some([self.at(&[(input, *h)])?, self.at(&[(input, -h)])?]);
        let sides: Vec<Option<[Vec<Number>; 2]>> = steps.iter().map(sides).collect();
        let of = |output: usize| {
            let central = |(h, sides): (&f64, &Option<[Vec<Number>; 2]>)| {
                let [above, below] = sides.as_ref()?;
                Some((above[output] - below[output]) / (2.0 * h).into())
            };
            let size = here[output].hi.abs();
            let central: Vec<_> = steps.iter().zip(&sides).map(central).collect();
            let slope = extrapolated(&central, |k| NOISE * size / steps[k]);
            let one_sided = |k: usize| {
                let [above, below] = sides[k].as_ref()?;
                let (h, here) = (Number::from(steps[k]), here[output]);
                Some([((here - below[output]) / h).to_f64(), ((above[output] - here) / h).to_f64()])
            };
            let last = steps.len() - 1;
            let (Some(slope), Some([below, above]), Some([before, after])) =
                (slope, one_sided(last), one_sided(last - 4))
            else {
                return Along::Unclear;
            };
            let (gap, earlier) = ((above - below).abs(), (after - before).abs());
            let (size, size_before) = (above.abs().max(below.abs()), after.abs().max(before.abs()));
            match () {
                // The slopes across a jump grow without end.
                () if !gap.is_finite() || size > 2.0 * size_before => Along::Unclear,
                () if gap <= KINK * size || gap <= earlier / 8.0 => Along::Smooth(slope),
                () => Along::Kink(below, above),
            }
        };
        Some((0..self.outputs.len()).map(of).collect())
    }

    /// The second derivative of each output along two inputs; `None` where the differences do not converge.
    pub(super) fn second(&self, a: usize, b: usize) -> Option<Vec<Option<Slope>>> {
        let here = self.at(&[])?;
        let (of_a, of_b) = (self.scale(a), self.scale(b));
        let difference = |k: i32| -> Option<Vec<Number>> {
            let (g, h) = (of_a * 2f64.powi(k), of_b * 2f64.powi(k));
            let rows = if a == b {
                let (above, below) = (self.at(&[(a, h)])?, self.at(&[(a, -h)])?);
                let over = |k: usize| (above[k] - here[k] - (here[k] - below[k])) / (h * h).into();
                (0..here.len()).map(over).collect()
            } else {
                let [pp, pm, mp, mm] =
                    [(g, h), (g, -h), (-g, h), (-g, -h)].map(|(g, h)| self.at(&[(a, g), (b, h)]));
                let (pp, pm, mp, mm) = (pp?, pm?, mp?, mm?);
                let over = |k: usize| (pp[k] - pm[k] - (mp[k] - mm[k])) / (4.0 * g * h).into();
                (0..here.len()).map(over).collect()
            };
            Some(rows)
        };
        let all: Vec<Option<Vec<Number>>> = SECOND_STEPS.rev().map(difference).collect();
        let of = |output: usize| {
            let all: Vec<_> = all.iter().map(|row| row.as_ref().map(|row| row[output])).collect();
            let noise = 4.0 * NOISE * here[output].hi.abs() / (of_a * of_b);
            extrapolated(&all, |k| noise * 4f64.powi(k as i32 - SECOND_STEPS.end()))
        };
        Some((0..here.len()).map(of).collect())
    }
}

/// Richardson's extrapolation of differences for steps that halve each time; `noise` is the error of each.
fn extrapolated(differences: &[Option<Number>], noise: impl Fn(usize) -> f64) -> Option<Slope> {
    let mut best: Option<Slope> = None;
    for (k, window) in differences.windows(LEVELS).enumerate().rev() {
        let mut row: Vec<Number> = window.iter().copied().collect::<Option<_>>().unwrap_or_default();
        let mut power = 1.0;
        while row.len() > 2 {
            power *= 4.0;
            row = row.windows(2).map(|w| w[1] + (w[1] - w[0]) / (power - 1.0).into()).collect();
        }
        let &[coarse, value] = &row[..] else { continue };
        let doubt = (value - coarse).to_f64().abs() + noise(k + LEVELS - 1);
        let Some(finer) = best else {
            best = doubt.is_finite().then_some(Slope { value, doubt });
            continue;
        };
        let apart = (value - finer.value).to_f64().abs();
        if doubt.is_nan() || apart > AGREE * (doubt + finer.doubt) {
            break;
        }
        if doubt < finer.doubt {
            best = Some(Slope { value, doubt });
        }
    }
    best
}
