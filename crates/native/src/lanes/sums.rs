//! Sums over the lanes of several vectors of floats at once.
//!
//! The sum of one vector takes a shuffle and an addition for each halving, of which the last ones use a small part of the
//! machine's vectors. Of two vectors, one shuffle takes the first halves and one the second halves, and one addition adds
//! those of both: so four vectors are summed by half the instructions.
//!
//! ```text
//! a0 a1 a2 a3     a0 b0 a1 b1 + a2 b2 a3 b3 = a02 b02 a13 b13     a02 b02 c02 d02
//! b0 b1 b2 b3                                                   + a13 b13 c13 d13
//! c0 c1 c2 c3     c0 d0 c1 d1 + c2 d2 c3 d3 = c02 d02 c13 d13   = a   b   c   d
//! d0 d1 d2 d3
//! ```
//!
//! A machine shuffles within groups of 128 bits, so this is done in each of the groups of a vector, whose sums are then
//! added by halves. For vectors of 128 bits, the order of additions is that of [`Writer::sum_by_halves`]; for wider ones
//! it is another, which depends on the width of the vectors and the number of lanes alone.

use super::Writer;
use super::operand::{El, Val, Vals};
use crate::emit::Binary;

/// Vectors of a machine, which hold the numbers of several lanes.
pub trait Vectors {
    /// A vector of floats.
    type Vector: Copy;

    /// The sums of the numbers of a varying operand by repeated halving, until they fit in one vector.
    fn vector(&mut self, a: Val) -> Self::Vector;
    /// A vector of which each group of 128 bits has these numbers of the groups of two vectors.
    fn pick(&mut self, el: El, of: [Self::Vector; 2], numbers: &[u32]) -> Self::Vector;
    /// The sums of the numbers of two vectors.
    fn add_vectors(&mut self, el: El, parts: [Self::Vector; 2]) -> Self::Vector;
    /// The sums of the groups of 128 bits of a vector, by repeated halving, each plus the constant `more`.
    fn group(&mut self, el: El, all: Self::Vector, more: Option<Val>) -> Self::Vector;
    /// Number `k` of a group.
    fn number(&mut self, el: El, group: Self::Vector, k: u32) -> Val;
}

/// The sums of the floats of all lanes of several vectors, each plus the constant `more`.
pub(super) fn sums<W: Writer>(w: &mut W, all: &[Val], more: Option<Val>) -> Vals {
    let Some(el) = all.first().map(|a| a.el) else { return Vals::new() };
    let group = 128 / el.bits();
    if all.len() == 1 || w.lanes() < group {
        let sums = all.iter().map(|&a| {
            let sum = w.sum_by_halves(a);
            more.map_or(sum, |more| w.binary(Binary::AddF, sum, more))
        });
        return sums.collect();
    }
    let mut sums = Vals::new();
    for part in all.chunks(group as usize) {
        let mut vectors: Vec<W::Vector> = part.iter().map(|&a| w.vector(a)).collect();
        let n = vectors.len();
        // A vector that is missing is another one again.
        vectors.extend((n..group as usize).map(|k| vectors[k % n]).collect::<Vec<_>>());
        let steps: [[&[u32]; 2]; 2] = [[&[0, 4, 1, 5], &[2, 6, 3, 7]], [&[0, 1, 4, 5], &[2, 3, 6, 7]]];
        let steps = if group == 4 { &steps[..] } else { &[[&[0, 2][..], &[1, 3]]][..] };
        for [low, high] in steps {
            let mut joined = Vec::new();
            for pair in vectors.chunks(2) {
                let parts = [low, high].map(|of| w.pick(el, [pair[0], pair[1]], of));
                joined.push(w.add_vectors(el, parts));
            }
            vectors = joined;
        }
        let sum = w.group(el, vectors[0], more);
        sums.extend((0..n as u32).map(|k| w.number(el, sum, k)));
    }
    sums
}
