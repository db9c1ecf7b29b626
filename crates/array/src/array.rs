//! Describes arrays in a host's memory.

use driver::launch::Foreign;
use ir::Scalar;
use smallvec::SmallVec;

/// An array of numbers in a host's memory, addressed by strides.
#[derive(Clone, Debug)]
pub struct Array {
    memory: Foreign,
    /// The number of bytes of the memory before the first number.
    before: usize,
    kind: Scalar,
    shape: SmallVec<[usize; 4]>,
    strides: SmallVec<[isize; 4]>,
}

/// The number of bytes that an array extends over before its first number, and from its first number on; both
/// are zero for an array without elements. Strides are in bytes.
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
    /// An array in memory that is as long as its [`extent`]; strides are in bytes and must be multiples of
    /// the size of a number. `bool` is a byte that is 0 or nonzero. Elements outside the memory read as 0 and
    /// are not written.
    pub fn new(memory: Foreign, kind: Scalar, shape: &[usize], strides: &[isize]) -> Array {
        debug_assert_eq!(shape.len(), strides.len());
        let kind = if kind == Scalar::Bool { Scalar::U8 } else { kind };
        let (before, _) = extent(kind, shape, strides);
        Array { memory, before, kind, shape: shape.into(), strides: strides.into() }
    }

    /// The kind of the array's numbers.
    pub fn kind(&self) -> Scalar {
        self.kind
    }

    /// The length of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of bytes from one number to the next, for each dimension.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// The number of elements before the first one that the array extends over.
    pub(crate) fn base(&self) -> usize {
        self.before / self.kind.bytes() as usize
    }

    /// The number of elements that the array extends over.
    pub(crate) fn reach(&self) -> usize {
        self.memory.len() / self.kind.bytes() as usize
    }

    /// Returns true if the numbers are contiguous, in row-major order.
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

    /// Appends everything that describes the array except its address: its kind, number of dimensions,
    /// extent, lengths and strides.
    pub(crate) fn describe<A: smallvec::Array<Item = isize>>(&self, to: &mut SmallVec<A>) {
        to.extend([self.kind as isize, self.shape.len() as isize, self.memory.len() as isize]);
        to.extend(self.shape.iter().map(|&n| n as isize));
        to.extend_from_slice(&self.strides);
    }

    /// The memory that the array extends over.
    pub fn memory(&self) -> Foreign {
        self.memory
    }

    /// Returns true if the extents of two arrays share bytes.
    pub(crate) fn overlaps(&self, other: &Array) -> bool {
        let (a, b) = (self.memory.addresses(), other.memory.addresses());
        a.start < b.end && b.start < a.end
    }
}
