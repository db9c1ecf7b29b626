//! Arrays of a host, described.

use std::ptr::NonNull;

use driver::launch::Foreign;
use ir::Scalar;
use smallvec::SmallVec;

/// Numbers in a host's memory, at the places that strides lead to.
#[derive(Clone, Debug)]
pub struct Array {
    start: NonNull<u8>,
    kind: Scalar,
    shape: SmallVec<[usize; 4]>,
    strides: SmallVec<[isize; 4]>,
}

impl Array {
    /// An array whose first number is at `start`; `strides` are in bytes. `bool` is a byte that is 0 or not.
    ///
    /// # Safety
    /// Until the array is dropped, every number of it can be read (and written, where it is a result), is aligned, and is
    /// not written by others while a call runs.
    pub unsafe fn new(start: NonNull<u8>, kind: Scalar, shape: &[usize], strides: &[isize]) -> Array {
        debug_assert_eq!(shape.len(), strides.len());
        let kind = if kind == Scalar::Bool { Scalar::U8 } else { kind };
        Array { start, kind, shape: shape.into(), strides: strides.into() }
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

    /// How many numbers it has, counted once for each place in its shape.
    pub fn len(&self) -> usize {
        self.shape.iter().fold(1, |n: usize, &d| n.saturating_mul(d))
    }

    /// True if it has no numbers.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The bytes before its first number and from there on that it extends over; none where it has no numbers.
    fn extent(&self) -> (usize, usize) {
        if self.is_empty() {
            return (0, 0);
        }
        let (mut before, mut after) = (0, self.kind.bytes() as usize);
        for (&n, &stride) in self.shape.iter().zip(&self.strides) {
            let reach = stride.unsigned_abs().saturating_mul(n - 1);
            match stride < 0 {
                true => before += reach,
                false => after += reach,
            }
        }
        (before, after)
    }

    /// The numbers before its first one that it extends over.
    pub(crate) fn base(&self) -> usize {
        self.extent().0 / self.kind.bytes() as usize
    }

    /// The numbers that it extends over.
    pub(crate) fn reach(&self) -> usize {
        let (before, after) = self.extent();
        (before + after) / self.kind.bytes() as usize
    }

    /// The memory that it extends over.
    pub(crate) fn memory(&self) -> Foreign {
        let (before, after) = self.extent();
        // SAFETY: whoever made the array promised that its numbers are there; these are the first and the last.
        unsafe {
            let first = NonNull::new(self.start.as_ptr().wrapping_sub(before)).unwrap_or(self.start);
            Foreign::new(first, before + after)
        }
    }

    /// Whether two arrays share bytes, as far as their extents say.
    pub(crate) fn overlaps(&self, other: &Array) -> bool {
        let range = |array: &Array| {
            let (before, after) = array.extent();
            let first = (array.start.as_ptr() as usize).wrapping_sub(before);
            first..first + before + after
        };
        let (a, b) = (range(self), range(other));
        a.start < b.end && b.start < a.end
    }
}
