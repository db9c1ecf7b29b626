//! Pictures of patterns: a point for each number, in the colour of the product that it is from.

use std::path::Path;

use ir::Scalar;

use super::Pattern;
use super::columns::Plan;
use crate::error::Error;
use crate::npy::Array;
use crate::pictures;

/// The most points across.
const MOST: usize = 600;

/// The least points across of a matrix that is not large.
const LEAST: usize = 300;

/// Writes a picture. Where several numbers fall on a point, the last one shows.
pub fn write(path: &Path, pattern: &Pattern, plan: &Plan) -> Result<(), Error> {
    pictures::write(path, &drawn(pattern, plan))
}

fn drawn(pattern: &Pattern, plan: &Plan) -> Array {
    let (n_rows, n_columns) = (pattern.n_rows().max(1), pattern.n_columns.max(1));
    let longest = n_rows.max(n_columns);
    let (height, width) = match longest {
        n if n > MOST => ((n_rows * MOST).div_ceil(n), (n_columns * MOST).div_ceil(n)),
        n => (n_rows * LEAST.div_ceil(n), n_columns * LEAST.div_ceil(n)),
    };
    let mut points = vec![1.0f32; height * width * 3];
    for (row, column) in pattern.places() {
        let colour = match (plan.reverse.of.get(row).copied().flatten(), plan.forward.of[column]) {
            (Some(colour), _) => colour as usize + plan.forward.count,
            (None, colour) => colour.unwrap_or(0) as usize,
        };
        let rgb = hue(colour);
        for y in row * height / n_rows..((row + 1) * height).div_ceil(n_rows) {
            for x in column * width / n_columns..((column + 1) * width).div_ceil(n_columns) {
                points[(y * width + x) * 3..][..3].copy_from_slice(&rgb);
            }
        }
    }
    let bits = points.iter().map(|x| u64::from(x.to_bits())).collect();
    Array { scalar: Scalar::F32, shape: vec![height, width, 3], bits }
}

/// A colour for each number: hues that are far apart for numbers that follow each other.
fn hue(colour: usize) -> [f32; 3] {
    let hue = (colour as f32 * 0.618_034).fract() * 6.0;
    let channel = |shift: f32| {
        let k = (hue + shift) % 6.0;
        0.85 - 0.75 * k.min(4.0 - k).clamp(0.0, 1.0)
    };
    [channel(5.0), channel(3.0), channel(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_product_have_one_colour() {
        let pattern = Pattern::new(3, &[vec![0], vec![1], vec![0, 2]]);
        let plan = Plan::new(&pattern);
        let picture = drawn(&pattern, &plan);
        assert_eq!(picture.shape, [300, 300, 3]);
        let at = |row: usize, column: usize| {
            picture.bits[((row * 100 + 50) * 300 + column * 100 + 50) * 3..][..3].to_vec()
        };
        assert_eq!(at(0, 0), at(1, 1));
        assert_ne!(at(2, 0), at(2, 2));
        assert_eq!(at(0, 2), [u64::from(1f32.to_bits()); 3]);
    }
}
