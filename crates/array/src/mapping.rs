//! Maps the threads of a call to the numbers in its arrays.
//!
//! A call has dimensions of its own: the leading dimensions of its arrays. Dimensions that are contiguous in
//! every array are merged into one (a dense array of any shape has one), so nearly all calls have a single
//! dimension. What remains are sizes and strides. Those that affect the code (dense, or broadcast) are part
//! of the kernel's [`Key`]; the others are numbers that the kernel reads.

use ir::Scalar;
use smallvec::SmallVec;

use crate::array::Array;
use crate::error::Error;

/// The maximum number of elements that an array may extend over: positions are 32-bit numbers.
const MOST: usize = 1 << 31;

/// An array, with the shape of one value in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand<'a> {
    pub(crate) array: &'a Array,
    /// The lengths of the dimensions of one value.
    pub(crate) dims: &'a [u32],
    pub(crate) is_result: bool,
}

impl Operand<'_> {
    /// The number of the array's dimensions that belong to the call.
    fn n_lead(&self) -> usize {
        self.array.shape().len() - self.dims.len()
    }
}

/// How an operand's position changes along a dimension of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Along {
    /// The position does not change: the operand is broadcast.
    Same,
    /// The position advances by one value.
    Dense,
    /// The position advances by a stride that the kernel reads.
    Stride,
}

/// The properties of an operand that the code depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) kind: Scalar,
    pub(crate) along: SmallVec<[Along; 2]>,
    /// The numbers of a value are contiguous; otherwise the kernel reads their strides.
    pub(crate) is_dense: bool,
    /// The first number is not the first in memory, and the kernel reads its position.
    pub(crate) has_base: bool,
    /// Several threads write to the same position, so they add atomically.
    pub(crate) adds: bool,
}

/// The properties that the code of a kernel depends on.
pub(crate) type Key = SmallVec<[Place; 4]>;

/// The mapping of a call of some shape on some arrays.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// The number of threads.
    pub(crate) n: u32,
    pub(crate) key: Key,
    /// The numbers that the kernel reads: the number of threads, the sizes of all dimensions of the call but
    /// the first, and then for each operand its base, its strides along the dimensions of the call and its
    /// strides within a value, as far as the operand needs them.
    pub(crate) numbers: Vec<u32>,
}

/// Broadcasts shapes together: from the end, lengths must be equal or 1. If they do not fit, returns the two
/// lengths.
pub fn broadcast<'a>(shapes: impl Iterator<Item = &'a [usize]>) -> Result<Vec<usize>, (usize, usize)> {
    let mut all: Vec<usize> = Vec::new();
    for shape in shapes {
        if all.len() < shape.len() {
            all.splice(0..0, std::iter::repeat_n(1, shape.len() - all.len()));
        }
        let skip = all.len() - shape.len();
        for (have, &n) in all[skip..].iter_mut().zip(shape) {
            match (*have, n) {
                (_, 1) => {}
                (1, n) => *have = n,
                (a, b) if a != b => return Err((a, b)),
                _ => {}
            }
        }
    }
    Ok(all)
}

impl Mapping {
    /// The mapping of a call of that shape. Every operand's leading dimensions must broadcast to it.
    pub(crate) fn new(shape: &[usize], operands: &[Operand<'_>]) -> Result<Mapping, Error> {
        let dims = merged(shape, operands)?;
        let n = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).filter(|&n| n < MOST);
        let n =
            n.ok_or_else(|| Error::Value(format!("a call of the shape {shape:?} has too many threads")))?;
        let mut numbers = vec![n as u32];
        numbers.extend(dims.iter().skip(1).map(|d| d.0 as u32));
        let mut key = Key::new();
        for (k, operand) in operands.iter().enumerate() {
            let array = operand.array;
            if array.reach() >= MOST {
                return Err(Error::Value(format!(
                    "an array extends over {} numbers, which are too many: at most {} can be addressed",
                    array.reach(),
                    MOST - 1
                )));
            }
            let size = array.kind().bytes() as isize;
            let inner: SmallVec<[isize; 4]> =
                array.strides()[operand.n_lead()..].iter().map(|s| s / size).collect();
            let count: isize = operand.dims.iter().map(|&d| d as isize).product();
            let is_dense = is_dense(operand.dims, &inner);
            let mut place = Place {
                kind: array.kind(),
                along: SmallVec::new(),
                is_dense,
                has_base: array.base() > 0,
                adds: false,
            };
            if place.has_base {
                numbers.push(array.base() as u32);
            }
            for (d, (_, strides)) in dims.iter().enumerate() {
                let stride = strides[k];
                let along = match stride {
                    0 => Along::Same,
                    _ if stride == count && d + 1 == dims.len() => Along::Dense,
                    _ => Along::Stride,
                };
                place.adds |= along == Along::Same && operand.is_result;
                if along == Along::Stride {
                    numbers.push(stride as i32 as u32);
                }
                place.along.push(along);
            }
            if !is_dense {
                numbers.extend(inner.iter().map(|&s| s as i32 as u32));
            }
            key.push(place);
        }
        Ok(Mapping { n: n as u32, key, numbers })
    }
}

/// The size of a dimension of the call, and each operand's stride along it, in numbers.
type Dimension = (usize, SmallVec<[isize; 8]>);

/// The dimensions of a call, with dimensions merged that are contiguous in every operand.
fn merged(shape: &[usize], operands: &[Operand<'_>]) -> Result<SmallVec<[Dimension; 2]>, Error> {
    let mut dims: SmallVec<[Dimension; 2]> = SmallVec::new();
    for (d, &n) in shape.iter().enumerate().filter(|d| *d.1 != 1) {
        let mut strides: SmallVec<[isize; 8]> = SmallVec::new();
        for operand in operands {
            let (array, n_lead) = (operand.array, operand.n_lead());
            let from_end = shape.len() - d;
            let at = n_lead.checked_sub(from_end).filter(|&at| array.shape()[at] != 1);
            let size = array.kind().bytes() as isize;
            if let Some(at) = at
                && array.shape()[at] != n
            {
                return Err(Error::Value(format!(
                    "an array of shape {:?} does not fit a call of shape {shape:?}",
                    array.shape()
                )));
            }
            strides.push(at.map_or(0, |at| array.strides()[at] / size));
        }
        match dims.last_mut() {
            Some((size, last)) if last.iter().zip(&strides).all(|(&l, &s)| l == s * n as isize) => {
                *size *= n;
                *last = strides;
            }
            _ => dims.push((n, strides)),
        }
    }
    Ok(dims)
}

fn is_dense(dims: &[u32], strides: &[isize]) -> bool {
    let mut wanted = 1;
    for (&n, &stride) in dims.iter().zip(strides).rev() {
        if n != 1 && stride != wanted {
            return false;
        }
        wanted *= n as isize;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An array without memory, of which nothing is read.
    fn array(shape: &[usize], strides: &[isize]) -> Array {
        Array::new(driver::launch::Foreign::NONE, Scalar::F32, shape, strides)
    }

    fn of<'a>(array: &'a Array, dims: &'a [u32], is_result: bool) -> Operand<'a> {
        Operand { array, dims, is_result }
    }

    #[test]
    fn shapes_are_broadcast_from_the_end() {
        let shape = |shapes: &[&[usize]]| broadcast(shapes.iter().copied());
        assert_eq!(shape(&[&[3, 1], &[4], &[]]), Ok(vec![3, 4]));
        assert_eq!(shape(&[&[], &[0]]), Ok(vec![0]));
        assert_eq!(shape(&[&[3], &[4]]), Err((3, 4)));
    }

    #[test]
    fn dense_arrays_have_one_dimension() {
        let x = array(&[5, 4, 3], &[48, 12, 4]);
        let y = array(&[5, 4], &[16, 4]);
        let mapping = Mapping::new(&[5, 4], &[of(&x, &[3], false), of(&y, &[], true)]).expect("fits");
        assert_eq!(mapping.numbers, [20]);
        assert_eq!(mapping.key[0].along[..], [Along::Dense]);
        assert!(mapping.key[0].is_dense && !mapping.key[1].adds);
    }

    #[test]
    fn other_strides_are_numbers() {
        // Columns of a matrix, read backwards, and a row that is the same for all of them.
        let x = array(&[5, 4], &[4, -20]);
        let y = array(&[4], &[4]);
        let mapping = Mapping::new(&[5, 4], &[of(&x, &[], false), of(&y, &[], true)]).expect("fits");
        assert_eq!(mapping.numbers, [20, 4, 15, 1, (-5i32) as u32]);
        assert_eq!(mapping.key[0].along[..], [Along::Stride, Along::Stride]);
        assert!(mapping.key[0].has_base);
        assert_eq!(mapping.key[1].along[..], [Along::Same, Along::Dense]);
        assert!(mapping.key[1].adds);
    }

    #[test]
    fn arrays_of_another_shape_are_refused() {
        let x = array(&[5], &[4]);
        assert!(Mapping::new(&[4], &[of(&x, &[], false)]).is_err());
    }
}
