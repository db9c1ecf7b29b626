//! Converts Python's numbers and arrays to arrays of Pullback.

use std::ffi::c_int;
use std::ptr::NonNull;

use array::{Array, Foreign, Leaf, Scalar, extent};
use numpy::npyffi::{PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt};

use crate::dlpack;

/// NumPy's name for a kind of number.
pub(crate) fn dtype_name(kind: Scalar) -> &'static str {
    match kind {
        Scalar::Bool => "bool",
        Scalar::I8 => "int8",
        Scalar::U8 => "uint8",
        Scalar::I16 => "int16",
        Scalar::U16 => "uint16",
        Scalar::I32 => "int32",
        Scalar::U32 => "uint32",
        Scalar::I64 => "int64",
        Scalar::U64 => "uint64",
        Scalar::F16 => "float16",
        Scalar::F32 => "float32",
        Scalar::F64 => "float64",
    }
}

/// The arguments of a call. The caller keeps them alive; objects created from them are kept here.
pub(crate) struct Inputs<'f, 'py> {
    /// The name of the called function.
    owner: &'f str,
    /// The maximum number of arguments.
    n: usize,
    pub(crate) arrays: Vec<Array>,
    /// The arguments that are plain numbers. The list never reallocates, since room for all of them is
    /// reserved at the start.
    numbers: Vec<u64>,
    held: Vec<Bound<'py, PyAny>>,
}

impl<'f, 'py> Inputs<'f, 'py> {
    pub(crate) fn new(owner: &'f str, n: usize) -> Inputs<'f, 'py> {
        Inputs { owner, n, arrays: Vec::with_capacity(n), numbers: Vec::new(), held: Vec::new() }
    }

    /// The arrays, the numbers that some of them refer to, and the other objects that hold their memory.
    pub(crate) fn apart(self) -> (Vec<Array>, Vec<u64>, Vec<Bound<'py, PyAny>>) {
        (self.arrays, self.numbers, self.held)
    }

    /// Adds an argument for a leaf.
    pub(crate) fn push(&mut self, py: Python<'py>, leaf: &Leaf, arg: &Bound<'py, PyAny>) -> PyResult<()> {
        if let Some((kind, bits)) = number(leaf, arg)? {
            if self.numbers.is_empty() {
                self.numbers.reserve_exact(self.n);
            }
            debug_assert!(self.numbers.len() < self.numbers.capacity());
            self.numbers.push(bits);
            let at = NonNull::from(self.numbers.last_mut().expect("it was pushed")).cast();
            // SAFETY: the number keeps its address as long as the inputs live, and nothing writes it.
            let memory = unsafe { Foreign::new(at, kind.bytes() as usize) };
            self.arrays.push(Array::new(memory, kind, &[], &[]));
            return Ok(());
        }
        if let Ok(found) = arg.cast::<PyUntypedArray>() {
            return self.push_array(py, leaf, found);
        }
        let read =
            dlpack::tensor(arg).filter(|a| suits(a.kind(), leaf.kind) && !narrows(a.kind(), leaf.kind));
        if let Some(array) = read {
            self.arrays.push(array);
            return Ok(());
        }
        if let Some(array) = on_device(&leaf.path, arg, false)? {
            if !suits(array.kind(), leaf.kind) {
                return Err(wrong_dtype(leaf, arg));
            }
            self.arrays.push(array);
            return Ok(());
        }
        let made = as_array(py, self.owner, leaf, arg)?;
        self.push_array(py, leaf, made.cast::<PyUntypedArray>().map_err(|_| wrong_type(leaf, arg))?)?;
        self.held.push(made);
        Ok(())
    }

    fn push_array(
        &mut self,
        py: Python<'py>,
        leaf: &Leaf,
        found: &Bound<'py, PyUntypedArray>,
    ) -> PyResult<()> {
        let kind = kind_of(found)
            .filter(|&kind| suits(kind, leaf.kind))
            .ok_or_else(|| wrong_dtype(leaf, found.as_any()))?;
        if narrows(kind, leaf.kind) {
            in_range(py, leaf, found)?;
        }
        let array = view(found, kind);
        let size = kind.bytes() as usize;
        let is_aligned = array.strides().iter().all(|s| s.unsigned_abs().is_multiple_of(size))
            && (start(found) as usize).is_multiple_of(size);
        if !is_aligned {
            let copy = found.call_method0("copy")?;
            let copied = copy.cast::<PyUntypedArray>()?;
            self.arrays.push(view(copied, kind));
            self.held.push(copy.clone());
            return Ok(());
        }
        self.arrays.push(array);
        Ok(())
    }
}

pub(crate) fn start(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: the object is a NumPy array.
    unsafe { (*array.as_array_ptr()).fields.data.cast() }
}

/// A NumPy array in place.
pub(crate) fn view(array: &Bound<'_, PyUntypedArray>, kind: Scalar) -> Array {
    let (before, after) = extent(kind, array.shape(), array.strides());
    let memory = match NonNull::new(start(array).wrapping_sub(before)) {
        // SAFETY: the caller keeps the array alive during the call, and NumPy gives the location of its
        // numbers.
        Some(start) => unsafe { Foreign::new(start, before + after) },
        None => Foreign::NONE,
    };
    Array::new(memory, kind, array.shape(), array.strides())
}

/// An array on a CUDA device, if the object supports the protocol `__cuda_array_interface__`. The dispatch
/// waits for all work on the device, so no stream is needed.
pub(crate) fn on_device(name: &str, value: &Bound<'_, PyAny>, written: bool) -> PyResult<Option<Array>> {
    let Some(described) = value.getattr_opt("__cuda_array_interface__")? else { return Ok(None) };
    if let Some(place) = value.getattr_opt("__dlpack_device__")? {
        let (_, number): (i64, i64) = place.call0()?.extract()?;
        if number != 0 {
            let what = format!("`{name}` is on CUDA's device {number}; programs run on device 0");
            return Err(PyTypeError::new_err(what));
        }
    }
    let shape: Vec<usize> = described.get_item("shape")?.extract()?;
    let typestr: String = described.get_item("typestr")?.extract()?;
    let (start, is_read_only): (usize, bool) = described.get_item("data")?.extract()?;
    if written && is_read_only {
        return Err(PyValueError::new_err(format!("`{name}` is written, and the array is read-only")));
    }
    let mut letters = typestr.bytes();
    let (order, letter) = (letters.next(), letters.next());
    let size = typestr.get(2..).and_then(|size| size.parse().ok());
    let kind = order.filter(|&order| order != b'>').and_then(|_| scalar_of(letter?, size?));
    let Some(kind) = kind else {
        return Err(PyTypeError::new_err(format!("`{name}` cannot be an array of {typestr}")));
    };
    let given = described.call_method1("get", ("strides",))?;
    let strides: Vec<isize> = match given.extract()? {
        Some(strides) => strides,
        None => (0..shape.len())
            .map(|d| kind.bytes() as isize * shape[d + 1..].iter().product::<usize>() as isize)
            .collect(),
    };
    if strides.len() != shape.len() || strides.iter().any(|s| s.unsigned_abs() % kind.bytes() as usize != 0) {
        return Err(PyValueError::new_err(format!("`{name}` has strides of {strides:?} bytes")));
    }
    let (before, after) = extent(kind, &shape, &strides);
    if before + after > 0 && (start == 0 || start % kind.bytes() as usize != 0) {
        let what = format!("`{name}` is at the address {start}, where no {} can be", dtype_name(kind));
        return Err(PyValueError::new_err(what));
    }
    let memory = match NonNull::new(std::ptr::without_provenance_mut(start.wrapping_sub(before))) {
        // SAFETY: the caller keeps the array alive during the call, and the protocol gives the location of
        // its numbers.
        Some(at) => unsafe { Foreign::on_device(at, before + after) },
        // SAFETY: there are no numbers.
        None => unsafe { Foreign::on_device(NonNull::dangling(), 0) },
    };
    Ok(Some(Array::new(memory, kind, &shape, &strides)))
}

/// The kind of an array's numbers, if it is supported and in this machine's byte order.
pub(crate) fn kind_of(array: &Bound<'_, PyUntypedArray>) -> Option<Scalar> {
    let dtype = array.dtype();
    if dtype.byteorder() == b'>' {
        return None;
    }
    scalar_of(dtype.kind(), dtype.itemsize())
}

/// The kind for NumPy's letter and size.
fn scalar_of(letter: u8, size: usize) -> Option<Scalar> {
    Some(match (letter, size) {
        (b'b', 1) => Scalar::Bool,
        (b'i', 1) => Scalar::I8,
        (b'u', 1) => Scalar::U8,
        (b'i', 2) => Scalar::I16,
        (b'u', 2) => Scalar::U16,
        (b'i', 4) => Scalar::I32,
        (b'u', 4) => Scalar::U32,
        (b'i', 8) => Scalar::I64,
        (b'u', 8) => Scalar::U64,
        (b'f', 2) => Scalar::F16,
        (b'f', 4) => Scalar::F32,
        (b'f', 8) => Scalar::F64,
        _ => return None,
    })
}

/// Returns true if numbers of one kind can be passed where another is wanted: floats for floats, integers (if
/// they are in range) for any numbers, and booleans for everything.
fn suits(given: Scalar, wanted: Scalar) -> bool {
    given == Scalar::Bool || wanted.is_float() || !given.is_float() && wanted != Scalar::Bool
}

/// Returns true if the wanted kind cannot hold every integer of the given kind.
fn narrows(given: Scalar, wanted: Scalar) -> bool {
    let is_int = |s: Scalar| !s.is_float() && s != Scalar::Bool;
    is_int(given) && is_int(wanted) && given != wanted && {
        let (a, b) = (given, wanted);
        b.bytes() < a.bytes() || b.bytes() == a.bytes() || a.is_signed_int() && !b.is_signed_int()
    }
}

/// Returns an error if an array contains integers out of range for a leaf's kind.
fn in_range(py: Python<'_>, leaf: &Leaf, array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    if array.shape().contains(&0) {
        return Ok(());
    }
    for method in ["min", "max"] {
        let extreme = array.call_method0(method)?.call_method0("item")?;
        integer(leaf, &extreme)?;
    }
    let _ = py;
    Ok(())
}

/// Converts an argument that is a Python number to a kind and bits; `None` if it is not a number.
fn number(leaf: &Leaf, arg: &Bound<'_, PyAny>) -> PyResult<Option<(Scalar, u64)>> {
    if arg.is_exact_instance_of::<PyFloat>() {
        if !leaf.kind.is_float() {
            return Err(wrong_type(leaf, arg));
        }
        return Ok(Some(float(leaf.kind, arg.extract()?)));
    }
    if arg.is_exact_instance_of::<PyBool>() {
        return Ok(Some((Scalar::Bool, u64::from(arg.extract::<bool>()?))));
    }
    if arg.is_exact_instance_of::<PyInt>() {
        return match leaf.kind {
            Scalar::Bool => Err(wrong_type(leaf, arg)),
            kind if kind.is_float() => Ok(Some(float(kind, arg.extract()?))),
            _ => integer(leaf, arg).map(Some),
        };
    }
    Ok(None)
}

/// A float as a kind and bits.
fn float(kind: Scalar, x: f64) -> (Scalar, u64) {
    let bits = match kind {
        Scalar::F16 => half::f16::from_f64(x).to_bits().into(),
        Scalar::F32 => (x as f32).to_bits().into(),
        _ => x.to_bits(),
    };
    (kind, bits)
}

/// Converts an integer to a leaf's kind; an error if it is out of range.
fn integer(leaf: &Leaf, arg: &Bound<'_, PyAny>) -> PyResult<(Scalar, u64)> {
    let bits = leaf.kind.bits();
    let found = match leaf.kind.is_signed_int() {
        true => {
            let most = i64::MAX >> (64 - bits);
            arg.extract::<i64>()
                .ok()
                .filter(|x| (-most - 1..=most).contains(x))
                .map(|x| (Scalar::I64, x as u64))
        }
        false => {
            let most = u64::MAX >> (64 - bits);
            arg.extract::<u64>().ok().filter(|x| *x <= most).map(|x| (Scalar::U64, x))
        }
    };
    found.ok_or_else(|| {
        let (path, kind) = (&leaf.path, dtype_name(leaf.kind));
        PyValueError::new_err(format!("`{path}` is of type {kind}, which does not have the number {arg}"))
    })
}

/// Converts another object to an array: a tensor, an object that supports DLPack, without a copy, or whatever
/// NumPy makes an array of.
fn as_array<'py>(
    py: Python<'py>,
    owner: &str,
    leaf: &Leaf,
    arg: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    static FUNCTIONS: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();
    let (from_dlpack, asarray) = FUNCTIONS.get_or_try_init(py, || -> PyResult<_> {
        let from_dlpack = py.import("pullback._dlpack")?.getattr("as_array")?;
        Ok((from_dlpack.unbind(), py.import("numpy")?.getattr("asarray")?.unbind()))
    })?;
    match arg.hasattr("__dlpack__")? {
        true => from_dlpack.bind(py).call1((&leaf.path, arg, owner, dtype_name(leaf.kind))),
        false => asarray.bind(py).call1((arg,)),
    }
}

fn wrong_type(leaf: &Leaf, arg: &Bound<'_, PyAny>) -> PyErr {
    let kind = dtype_name(leaf.kind);
    let given = arg.get_type().name().map_or_else(|_| "something else".into(), |name| name.to_string());
    PyTypeError::new_err(format!("`{}` needs numbers of type {kind}, not a `{given}`", leaf.path))
}

fn wrong_dtype(leaf: &Leaf, array: &Bound<'_, PyAny>) -> PyErr {
    let kind = dtype_name(leaf.kind);
    let given = array.getattr("dtype").map_or_else(|_| "unknown".into(), |dtype| dtype.to_string());
    PyTypeError::new_err(format!("`{}` needs numbers of type {kind}, not an array of {given}", leaf.path))
}

/// A new NumPy array, filled with zeros if requested. An array without dimensions is converted to a number
/// when it is returned.
pub(crate) fn new_array<'py>(
    py: Python<'py>,
    kind: Scalar,
    shape: &[usize],
    zeros: bool,
) -> PyResult<(Bound<'py, PyAny>, Array)> {
    let dtype = match kind {
        Scalar::Bool => numpy::dtype::<bool>(py),
        Scalar::I8 => numpy::dtype::<i8>(py),
        Scalar::U8 => numpy::dtype::<u8>(py),
        Scalar::I16 => numpy::dtype::<i16>(py),
        Scalar::U16 => numpy::dtype::<u16>(py),
        Scalar::I32 => numpy::dtype::<i32>(py),
        Scalar::U32 => numpy::dtype::<u32>(py),
        Scalar::I64 => numpy::dtype::<i64>(py),
        Scalar::U64 => numpy::dtype::<u64>(py),
        Scalar::F16 => numpy::dtype::<half::f16>(py),
        Scalar::F32 => numpy::dtype::<f32>(py),
        Scalar::F64 => numpy::dtype::<f64>(py),
    };
    let mut dims: smallvec::SmallVec<[npy_intp; 6]> = shape.iter().map(|&n| n as npy_intp).collect();
    let (n, dims, dtype) = (shape.len() as c_int, dims.as_mut_ptr(), dtype.into_dtype_ptr());
    // SAFETY: there are as many lengths as `n` says, and a new reference to the type is passed. If the array
    // is not filled with zeros, every number is written before it is read, or the array is dropped.
    let made = unsafe {
        let made = match zeros {
            true => PY_ARRAY_API.PyArray_Zeros(py, n, dims, dtype, 0),
            false => PY_ARRAY_API.PyArray_Empty(py, n, dims, dtype, 0),
        };
        Bound::from_owned_ptr_or_err(py, made)?
    };
    let view = view(made.cast::<PyUntypedArray>()?, kind);
    Ok((made, view))
}
