//! Arrays of a host, described.

use driver::launch::Foreign;
use ir::Scalar;
use smallvec::SmallVec;

/// Numbers in a host's memory, at the places that strides lead to.
#[derive(Clone, Debug)]
pub struct Array {
    memory: Foreign,
    /// The bytes of the memory before the first number.
    before: usize,
    kind: Scalar,
    shape: SmallVec<[usize; 4]>,
    strides: SmallVec<[isize; 4]>,
}

/// The bytes before an array's first number, and those from there on, that the array extends over; none where it has no
/// numbers. Strides are in bytes.
pub fn extent(kind: Scalar, shape: &[usize], strides: &[isize]) -> (usize, usize) {
    if shape.contains(&0) {
        return (0, 0);
    }
    let (mut before, mut after) = (0usize, kind.bytes() as usize);
    for (&n, &stride) in shape.iter().zip(strides) {
        let reach = stride.unsigned_abs().saturating_mul(n - 1);
        match stride < 0 {
            true => before = before.saturating_add(reach),
            false => after = after.saturating_add(reach),
        }
    }
    (before, after)
}

impl Array {
    /// An array in memory that is as long as its [`extent`] says; strides are in bytes, and multiples of a number's. `bool`
    /// is a byte that is 0 or not. What lies outside of the memory reads as 0, and is not written.
    pub fn new(memory: Foreign, kind: Scalar, shape: &[usize], strides: &[isize]) -> Array {
        debug_assert_eq!(shape.len(), strides.len());
        let kind = if kind == Scalar::Bool { Scalar::U8 } else { kind };
        let (before, _) = extent(kind, shape, strides);
        Array { memory, before, kind, shape: shape.into(), strides: strides.into() }
    }

    /// The kind of its numbers.
    pub fn kind(&self) -> Scalar {
        self.kind
    }

    /// Its lengths.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Bytes from a number to the next, by dimension.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// The numbers before its first one that it extends over.
    pub(crate) fn base(&self) -> usize {
        self.before / self.kind.bytes() as usize
    }

    /// The numbers that it extends over.
    pub(crate) fn reach(&self) -> usize {
        self.memory.len() / self.kind.bytes() as usize
    }

    /// Whether its numbers lie one after the other, the last dimension's first.
    pub(crate) fn is_dense(&self) -> bool {
        let mut wanted = self.kind.bytes() as isize;
        for (&n, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if n > 1 && stride != wanted {
                return false;
            }
            wanted *= n as isize;
        }
        true
    }

    /// Adds all that there is to say of it but where it is: its kind, how many dimensions it has, how far it extends, and
    /// its lengths and strides.
    pub(crate) fn describe<A: smallvec::Array<Item = isize>>(&self, to: &mut SmallVec<A>) {
        to.extend([self.kind as isize, self.shape.len() as isize, self.memory.len() as isize]);
        to.extend(self.shape.iter().map(|&n| n as isize));
        to.extend_from_slice(&self.strides);
    }

    /// The memory that it extends over.
    pub fn memory(&self) -> Foreign {
        self.memory
    }

    /// Whether two arrays share bytes, as far as their extents say.
    pub(crate) fn overlaps(&self, other: &Array) -> bool {
        let (a, b) = (self.memory.addresses(), other.memory.addresses());
        a.start < b.end && b.start < a.end
    }
}
