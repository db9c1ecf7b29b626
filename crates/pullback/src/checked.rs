//! The options and the result of a comparison of derivatives with finite differences.

use std::fmt;

use driver::gradcheck::{self, Entry};
use driver::ranges::Ranges;
use driver::render;
use syntax::Sources;

use crate::numbers::Arguments;

/// Options of [`Function::gradcheck`](crate::Function::gradcheck).
#[derive(Clone, Debug)]
pub struct GradcheckOptions {
    pub(crate) points: u32,
    pub(crate) seed: u64,
    pub(crate) tolerance: f64,
    pub(crate) ranges: Ranges,
    pub(crate) arguments: Arguments,
}

impl Default for GradcheckOptions {
    fn default() -> GradcheckOptions {
        let ranges = Ranges { common: (-2.0, 2.0), named: Vec::new() };
        GradcheckOptions { points: 10, seed: 0, tolerance: 1e-5, ranges, arguments: Arguments::new() }
    }
}

impl GradcheckOptions {
    /// Ten points between -2 and 2.
    pub fn new() -> GradcheckOptions {
        GradcheckOptions::default()
    }

    /// The number of points, at least one.
    #[must_use]
    pub fn points(mut self, points: u32) -> GradcheckOptions {
        self.points = points.max(1);
        self
    }

    /// The seed of the random points.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> GradcheckOptions {
        self.seed = seed;
        self
    }

    /// The largest relative error that counts as agreement.
    #[must_use]
    pub fn tolerance(mut self, tolerance: f64) -> GradcheckOptions {
        self.tolerance = tolerance;
        self
    }

    /// The range of the numbers that a path covers: `p` covers `p.w[0]`.
    #[must_use]
    pub fn range(mut self, path: impl Into<String>, low: f64, high: f64) -> GradcheckOptions {
        self.ranges.named.push((path.into(), (low, high)));
        self
    }

    /// Values of parameters, which are then not random.
    #[must_use]
    pub fn at(mut self, arguments: impl Into<Arguments>) -> GradcheckOptions {
        self.arguments = arguments.into();
        self
    }
}

/// The comparison of one derivative at one point.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GradcheckEntry {
    /// The number of the point.
    pub point: u32,
    /// The path of the result's number.
    pub output: String,
    /// The path of the parameter's number.
    pub input: String,
    /// The derivative by forward mode.
    pub forward: f64,
    /// The derivative by reverse mode.
    pub reverse: f64,
    /// The slope by finite differences.
    pub differences: f64,
    /// The largest error, relative to the size.
    pub error: f64,
    /// The result.
    pub verdict: Verdict,
    /// The place where the program cuts the derivative (`FILE:LINE`), if that is why it differs from the slope.
    pub cut: Option<String>,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// All agree.
    Agrees,
    /// All derivatives at the point are zero, which says little.
    Flat,
    /// The differences are too inaccurate to tell, as at a kink, or the value is NaN.
    Unclear,
    /// The program cuts the derivative on purpose, and everything else agrees.
    Cut,
    /// They do not agree.
    Differs,
}

/// The findings of [`Function::gradcheck`](crate::Function::gradcheck).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Gradcheck {
    /// One entry for each derivative and point.
    pub entries: Vec<GradcheckEntry>,
}

impl Gradcheck {
    /// Returns true if nothing differs and some derivatives agree.
    pub fn agrees(&self) -> bool {
        let of = |verdict| self.entries.iter().filter(|e| e.verdict == verdict).count();
        of(Verdict::Differs) == 0 && of(Verdict::Agrees) + of(Verdict::Cut) > 0
    }
}

impl fmt::Display for Gradcheck {
    /// A line for each derivative that differs, and the number of those that agree.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_wrong = |e: &&GradcheckEntry| e.verdict == Verdict::Differs;
        for e in self.entries.iter().filter(is_wrong) {
            let GradcheckEntry { point, output, input, forward, reverse, differences, .. } = e;
            writeln!(
                f,
                "point {point}: {output} by {input} is {forward} forward, {reverse} in reverse, {differences} by differences"
            )?;
        }
        let wrong = self.entries.iter().filter(is_wrong).count();
        write!(f, "{wrong} of {} derivatives differ", self.entries.len())
    }
}

impl GradcheckEntry {
    pub(crate) fn of(sources: &Sources, point: u32, entry: Entry) -> GradcheckEntry {
        GradcheckEntry {
            point,
            cut: entry.cut.and_then(|span| render::place(sources, span)),
            output: entry.output,
            input: entry.input,
            forward: entry.forward,
            reverse: entry.reverse,
            differences: entry.differences,
            error: entry.error,
            verdict: match entry.verdict {
                gradcheck::Verdict::Agrees => Verdict::Agrees,
                gradcheck::Verdict::Flat => Verdict::Flat,
                gradcheck::Verdict::Unclear => Verdict::Unclear,
                gradcheck::Verdict::Cut => Verdict::Cut,
                gradcheck::Verdict::Differs => Verdict::Differs,
            },
        }
    }
}
