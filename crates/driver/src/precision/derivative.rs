//! The error of a derivative: that of a program in its own types, by forward or by reverse mode, compared with that of the
//! original program in doubles.
//!
//! An estimate from cotangents is about the result. A derivative has errors of its own: those of the values that it is
//! computed from, times the second derivatives, and those of its own operations, of which a cotangent that is too small
//! for its type is one. So it is measured.

use super::{Model, Options, larger, widened};
use crate::call::{Callee, Direction, Number, Point};
use crate::error::{Error, Failure};

/// Derivatives of results by inputs: `[result][input]`, over the numbers that have tangents.
type Jacobian = Vec<Vec<f64>>;

/// The derivatives of a program in doubles at some points.
pub(super) struct Derivatives {
    direction: Direction,
    exact: Vec<Jacobian>,
    /// The sizes that errors are relative to: the largest one, over the points of the estimate, of the derivatives of a result by the
    /// parameter that the input is a part of; 1 where it is 0.
    sizes: Jacobian,
}

impl Derivatives {
    /// The derivatives at those points where the value and they are finite, which are returned. The first list of points
    /// is that of the estimate.
    pub(super) fn at(
        model: &mut Model,
        options: &Options,
        direction: Direction,
        inputs: &[Number],
        points: [Vec<Point>; 2],
    ) -> Result<(Derivatives, [Vec<Point>; 2]), Failure> {
        let mut doubles = model.doubles(options, direction)?;
        let mut exact = Vec::new();
        let mut finite = [Vec::new(), Vec::new()];
        for (points, finite) in points.into_iter().zip(&mut finite) {
            for point in points {
                let found = jacobian(&mut doubles, direction, &widened(inputs, &point))?;
                if found.iter().flatten().all(|d| d.is_finite()) {
                    exact.push(found);
                    finite.push(point);
                }
            }
        }
        let leaves: Vec<usize> = doubles.inputs.iter().filter(|n| n.diff).map(|n| n.leaf).collect();
        let sizes = sizes(&exact[..finite[0].len()], &leaves);
        Ok((Derivatives { direction, exact, sizes }, finite))
    }

    /// The largest error of the derivatives of a program at points, of which the first has this number; `None` without
    /// points.
    pub(super) fn error(
        &self,
        own: &mut Callee,
        points: &[Point],
        first: usize,
    ) -> Result<Option<f64>, Error> {
        let mut largest = None;
        for (point, exact) in points.iter().zip(&self.exact[first..]) {
            let found = jacobian(own, self.direction, point)?;
            let entries = found.iter().flatten().zip(exact.iter().flatten());
            for ((found, exact), size) in entries.zip(self.sizes.iter().flatten()) {
                largest = Some(larger(largest.unwrap_or(0.0), (found - exact).abs() / size));
            }
        }
        Ok(largest)
    }
}

fn jacobian(callee: &mut Callee, direction: Direction, point: &Point) -> Result<Jacobian, Error> {
    match direction {
        Direction::Forward => callee.forward(point),
        Direction::Reverse | Direction::Back => callee.reverse(point),
    }
}

/// The sizes of derivatives by inputs that are parts of these leaves.
fn sizes(exact: &[Jacobian], leaves: &[usize]) -> Jacobian {
    let results = exact.first().map_or(0, Vec::len);
    let of = |result: usize, leaf: usize| {
        let entries = exact.iter().flat_map(|jacobian| jacobian[result].iter().zip(leaves));
        let largest = entries.filter(|entry| *entry.1 == leaf).map(|entry| entry.0.abs()).fold(0.0, f64::max);
        if largest > 0.0 { largest } else { 1.0 }
    };
    (0..results).map(|result| leaves.iter().map(|&leaf| of(result, leaf)).collect()).collect()
}
