//! Reads tensors of libraries that provide a table of C functions for DLPack 1.2 or later, such as PyTorch
//! from 2.10 on: a single call returns a tensor's memory, shape and strides, without an intermediate object.
//! Tensors that are not plain memory in this process, or that must be refused with a message, are left to the
//! slower paths.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Mutex;

use array::{Array, Foreign, Scalar, extent};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyType};

/// A version of the protocol.
#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

/// `DLTensor`: strides count elements, and are always present except for tensors without dimensions.
#[repr(C)]
struct Tensor {
    data: *mut u8,
    device_type: i32,
    device_id: i32,
    n_dims: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `DLPackExchangeAPI`, of which one function is used. The others are declared as addresses.
#[repr(C)]
struct Table {
    version: Version,
    previous: *const Table,
    allocate: *const c_void,
    managed_from_object: *const c_void,
    managed_to_object: *const c_void,
    tensor_from_object: Option<unsafe extern "C" fn(*mut pyo3::ffi::PyObject, *mut Tensor) -> c_int>,
    current_stream: *const c_void,
}

/// The tables found so far. They live as long as the process; their types are kept alive, so that no other
/// type can have the same address.
static TABLES: Mutex<Vec<(Py<PyType>, usize)>> = Mutex::new(Vec::new());

const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;

/// The table of a type, if it has one with a supported version.
fn table(ty: &Bound<'_, PyType>) -> Option<&'static Table> {
    let known = TABLES.lock().ok()?.iter().find(|known| known.0.as_ptr() == ty.as_ptr()).map(|t| t.1);
    let address = match known {
        Some(address) => address,
        None => {
            // The lock is not held here, since Python code may run.
            let capsule = ty.getattr("__dlpack_c_exchange_api__").ok()?.cast_into::<PyCapsule>().ok()?;
            let at = capsule.pointer_checked(Some(c"dlpack_exchange_api")).ok()?;
            let address = at.as_ptr().expose_provenance();
            TABLES.lock().ok()?.push((ty.clone().unbind(), address));
            address
        }
    };
    // SAFETY: the capsule has the name defined by the protocol, which guarantees that the table is valid for
    // the life of the process.
    let table = unsafe { &*std::ptr::with_exposed_provenance::<Table>(address) };
    (table.version.major == 1).then_some(table)
}

/// A tensor in place, if it is plain memory that a program can access: numbers of a supported kind, aligned,
/// whose values are those in memory. The caller keeps it alive, and does not change its shape.
pub(crate) fn tensor(value: &Bound<'_, PyAny>) -> Option<Array> {
    let table = table(&value.get_type())?;
    let read = table.tensor_from_object?;
    let mut found = std::mem::MaybeUninit::<Tensor>::zeroed();
    // SAFETY: the object is of the type that the table belongs to, the place has the layout that the protocol
    // describes, and the interpreter's lock is held. On failure the function sets an exception, which is
    // taken.
    let tensor = unsafe {
        if read(value.as_ptr(), found.as_mut_ptr()) != 0 {
            drop(PyErr::take(value.py()));
            return None;
        }
        found.assume_init()
    };
    let kind = match (tensor.code, tensor.bits, tensor.lanes) {
        (0, 8, 1) => Scalar::I8,
        (0, 16, 1) => Scalar::I16,
        (0, 32, 1) => Scalar::I32,
        (0, 64, 1) => Scalar::I64,
        (1, 8, 1) => Scalar::U8,
        (1, 16, 1) => Scalar::U16,
        (1, 32, 1) => Scalar::U32,
        (1, 64, 1) => Scalar::U64,
        (2, 16, 1) => Scalar::F16,
        (2, 32, 1) => Scalar::F32,
        (2, 64, 1) => Scalar::F64,
        (6, 8, 1) => Scalar::Bool,
        _ => return None,
    };
    let n = usize::try_from(tensor.n_dims).ok()?;
    let size = kind.bytes() as usize;
    let numbers = |from: *const i64| match n {
        0 => Some(&[][..]),
        // SAFETY: the protocol guarantees as many numbers as the tensor has dimensions, as long as the tensor
        // is not changed.
        _ => (!from.is_null()).then(|| unsafe { std::slice::from_raw_parts(from, n) }),
    };
    let mut shape = smallvec::SmallVec::<[usize; 6]>::new();
    for &length in numbers(tensor.shape)? {
        shape.push(usize::try_from(length).ok()?);
    }
    let mut strides = smallvec::SmallVec::<[isize; 6]>::new();
    for &stride in numbers(tensor.strides)? {
        strides.push(isize::try_from(stride).ok()?.checked_mul(size as isize)?);
    }
    let start = (tensor.data as usize).checked_add(usize::try_from(tensor.byte_offset).ok()?)?;
    if !start.is_multiple_of(size) || is_negated(value) {
        return None;
    }
    let (before, after) = extent(kind, &shape, &strides);
    let memory = match NonNull::new(std::ptr::with_exposed_provenance_mut(start.wrapping_sub(before))) {
        // SAFETY: there are no numbers.
        _ if before + after == 0 && tensor.device_type == CUDA => unsafe {
            Foreign::on_device(NonNull::dangling(), 0)
        },
        _ if before + after == 0 => Foreign::NONE,
        // SAFETY: the caller keeps the tensor alive during the call, and the protocol gives the location of
        // its numbers.
        Some(at) if matches!(tensor.device_type, CPU | CUDA_HOST) => unsafe {
            Foreign::new(at, before + after)
        },
        // SAFETY: as above, for the first device.
        Some(at) if tensor.device_type == CUDA && tensor.device_id == 0 => unsafe {
            Foreign::on_device(at, before + after)
        },
        _ => return None,
    };
    Some(Array::new(memory, kind, &shape, &strides))
}

/// Returns true if a PyTorch tensor's values are those in memory with the opposite sign.
fn is_negated(value: &Bound<'_, PyAny>) -> bool {
    let found = value.call_method0(pyo3::intern!(value.py(), "is_neg"));
    found.and_then(|found| found.is_truthy()).unwrap_or(false)
}
