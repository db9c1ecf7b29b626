//! Handles calls from XLA: compiled programs of JAX call [`handler`] with their buffers, without Python.
//!
//! XLA describes a call by C structs (`xla/ffi/api/c_api.h`); those declared here are the ones that are read.
//! Each begins with its size, which covers the fields known to XLA: a struct that is smaller than the one
//! declared here is refused. The function to call is found by its name, which is an attribute of the call.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::size_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, PoisonError, RwLock};

use array::{Array, Error, Foreign, Leaf, Scalar};
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

/// The name of the attribute that holds the function's name.
const ATTRIBUTE: &[u8] = b"function";

/// The functions that compiled programs may call. They are never removed, since there is no notification when
/// the last such program is gone.
static FUNCTIONS: RwLock<Option<FxHashMap<String, Arc<array::Function>>>> = RwLock::new(None);

/// Makes a function callable from compiled programs under this name.
pub(crate) fn register(name: String, function: &Arc<array::Function>) {
    let mut functions = FUNCTIONS.write().unwrap_or_else(PoisonError::into_inner);
    functions.get_or_insert_default().entry(name).or_insert_with(|| function.clone());
}

fn find(name: &str) -> Option<Arc<array::Function>> {
    FUNCTIONS.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.get(name).cloned()
}

/// The address of the handler, for registration with XLA.
#[pyfunction]
pub(crate) fn xla_handler() -> usize {
    handler as *const () as usize
}

// ---- what XLA passes

/// The beginning of every struct.
#[repr(C)]
struct Head {
    size: usize,
    extension: *mut Extension,
}

#[repr(C)]
struct Extension {
    size: usize,
    kind: c_int,
    next: *mut Extension,
}

#[repr(C)]
struct Version {
    head: Head,
    major: c_int,
    minor: c_int,
}

/// The extension by which XLA queries the metadata of a handler.
#[repr(C)]
struct MetadataExtension {
    base: Extension,
    metadata: *mut Metadata,
}

#[repr(C)]
struct Metadata {
    size: usize,
    version: Version,
    traits: u32,
}

/// The arguments or the results of a call.
#[repr(C)]
struct Values {
    head: Head,
    n: i64,
    kinds: *const c_int,
    values: *const *const c_void,
}

#[repr(C)]
struct Attributes {
    head: Head,
    n: i64,
    kinds: *const c_int,
    names: *const *const Text,
    values: *const *const c_void,
}

#[repr(C)]
struct Text {
    start: *const u8,
    len: usize,
}

#[repr(C)]
struct Buffer {
    head: Head,
    kind: c_int,
    data: *mut c_void,
    rank: i64,
    dims: *const i64,
}

/// The description of a call.
#[repr(C)]
pub(crate) struct Frame {
    head: Head,
    api: *const Api,
    context: *mut c_void,
    stage: c_int,
    arguments: Values,
    results: Values,
    attributes: Attributes,
}

#[repr(C)]
struct Api {
    head: Head,
    version: Version,
    internal: *const c_void,
    create_error: unsafe extern "C" fn(*mut NewError) -> *mut c_void,
}

#[repr(C)]
struct NewError {
    head: Head,
    message: *const c_char,
    code: c_int,
}

/// The range of versions 0.x of the interface that have these structs. The oldest versions of XLA do not
/// report theirs.
const OLDEST: c_int = 1;
const NEWEST: c_int = 3;
/// The kind of the metadata extension.
const METADATA: c_int = 1;
/// The only kind of arguments and results.
const BUFFER: c_int = 1;
/// The kind of string attributes.
const STRING: c_int = 4;
/// The execution stage in which results are computed.
const EXECUTE: c_int = 3;
/// The kinds of errors that are returned.
const INVALID: c_int = 3;
const ABORTED: c_int = 10;
const INTERNAL: c_int = 13;

/// A failure: the kind of error, and its message.
type Failure = (c_int, String);

fn invalid<T>(what: String) -> Result<T, Failure> {
    Err((INVALID, what))
}

/// The function that XLA calls. Returns null, or an error created by XLA.
///
/// # Safety
/// The frame and everything that it refers to must be as the interface specifies.
unsafe extern "C" fn handler(frame: *mut Frame) -> *mut c_void {
    // SAFETY: XLA passes a frame that nothing else accesses.
    let frame = unsafe { &*frame };
    let done = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: as above.
        unsafe { answered(frame) }
    }));
    let failure = match done {
        Ok(Ok(())) => return null_mut(),
        Ok(Err(failure)) => failure,
        Err(_) => (INTERNAL, "a bug in Pullback: the call panicked".to_string()),
    };
    // SAFETY: XLA passes its function table with each call.
    unsafe { error(frame, failure) }
}

/// # Safety
/// See [`handler`].
unsafe fn error(frame: &Frame, (code, message): Failure) -> *mut c_void {
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    let head = Head { size: size_of::<NewError>(), extension: null_mut() };
    let mut new = NewError { head, message: message.as_ptr(), code };
    // SAFETY: the function copies the message.
    unsafe { ((*frame.api).create_error)(&raw mut new) }
}

/// # Safety
/// See [`handler`].
unsafe fn answered(frame: &Frame) -> Result<(), Failure> {
    known("frame", frame.head.size, size_of::<Frame>())?;
    // SAFETY: an extension is null or valid and has a kind; one of this kind has metadata to be filled in.
    unsafe {
        if let Some(extension) = frame.head.extension.as_ref()
            && extension.kind == METADATA
        {
            known("metadata", extension.size, size_of::<MetadataExtension>())?;
            let metadata = &mut *(*frame.head.extension.cast::<MetadataExtension>()).metadata;
            known("metadata", metadata.size, std::mem::offset_of!(Metadata, traits) + size_of::<u32>())?;
            let theirs = frame.api.as_ref().map_or(OLDEST, |api| api.version.minor);
            metadata.version.major = 0;
            metadata.version.minor = theirs.min(NEWEST);
            metadata.traits = 0;
            return Ok(());
        }
    }
    if frame.stage != EXECUTE {
        return invalid(format!("a call at stage {}, where nothing is to be computed", frame.stage));
    }
    // SAFETY: guaranteed by the caller.
    unsafe {
        let name = named(&frame.attributes)?;
        let Some(function) = find(name) else {
            return invalid(format!("there is no function `{name}` in this process"));
        };
        let inputs = arrays(&frame.arguments, &function.inputs)?;
        let outputs = arrays(&frame.results, &function.outputs)?;
        run(&function, &inputs, &outputs)
    }
}

fn known(what: &str, size: usize, wanted: usize) -> Result<(), Failure> {
    match size >= wanted {
        true => Ok(()),
        false => invalid(format!("a {what} of {size} bytes: JAX is older than what Pullback knows")),
    }
}

/// The name of the function to call.
///
/// # Safety
/// The attributes must have been passed by XLA.
unsafe fn named(attributes: &Attributes) -> Result<&str, Failure> {
    known("list of attributes", attributes.head.size, size_of::<Attributes>())?;
    for k in 0..attributes.n as usize {
        // SAFETY: there are `n` kinds, names and values, and the value of a string is a text.
        let found = unsafe {
            let name = &**attributes.names.add(k);
            let is_it = std::slice::from_raw_parts(name.start, name.len) == ATTRIBUTE;
            if !is_it || *attributes.kinds.add(k) != STRING {
                continue;
            }
            let text = &*(*attributes.values.add(k)).cast::<Text>();
            std::slice::from_raw_parts(text.start, text.len)
        };
        return std::str::from_utf8(found).or_else(|_| invalid("a function's name is not text".to_string()));
    }
    invalid("a call does not say of which function".to_string())
}

/// The buffers as arrays, in place.
///
/// # Safety
/// The values must have been passed by XLA, and their memory must stay valid until the call is over.
unsafe fn arrays(values: &Values, leaves: &[Leaf]) -> Result<Vec<Array>, Failure> {
    known("list of buffers", values.head.size, size_of::<Values>())?;
    if values.n as usize != leaves.len() {
        return invalid(format!("{} buffers where {} are wanted", values.n, leaves.len()));
    }
    let made = leaves.iter().enumerate().map(|(k, leaf)| {
        // SAFETY: there are as many kinds and values as leaves.
        let buffer = unsafe {
            if *values.kinds.add(k) != BUFFER {
                return invalid(format!("`{}` is not given as a buffer", leaf.path));
            }
            &*(*values.values.add(k)).cast::<Buffer>()
        };
        known("buffer", buffer.head.size, size_of::<Buffer>())?;
        // SAFETY: guaranteed by the caller.
        unsafe { array(buffer, leaf) }
    });
    made.collect()
}

/// # Safety
/// See [`arrays`].
unsafe fn array(buffer: &Buffer, leaf: &Leaf) -> Result<Array, Failure> {
    let path = &leaf.path;
    let Some(kind) = kind_of(buffer.kind) else {
        return invalid(format!(
            "`{path}` is given numbers of a type that is not supported, XLA's {}",
            buffer.kind
        ));
    };
    let dims = match buffer.rank {
        0 => &[][..],
        // SAFETY: there are `rank` lengths.
        rank => unsafe { std::slice::from_raw_parts(buffer.dims, rank as usize) },
    };
    let shape: Vec<usize> = dims.iter().map(|&n| n as usize).collect();
    let size = kind.bytes() as usize;
    let mut strides = vec![0isize; shape.len()];
    let mut bytes = size;
    for (stride, &n) in strides.iter_mut().zip(&shape).rev() {
        *stride = bytes as isize;
        bytes *= n;
    }
    let memory = match NonNull::new(buffer.data.cast::<u8>()).filter(|_| bytes > 0) {
        None if bytes > 0 => return invalid(format!("`{path}` has no memory")),
        None => Foreign::NONE,
        Some(at) if !(at.as_ptr() as usize).is_multiple_of(size) => {
            return invalid(format!("the memory of `{path}` is not aligned"));
        }
        // SAFETY: XLA's arrays are dense, with the numbers of the last dimension contiguous, and stay valid
        // for the call.
        Some(at) => unsafe { Foreign::new(at, bytes) },
    };
    Ok(Array::new(memory, kind, &shape, &strides))
}

fn kind_of(kind: c_int) -> Option<Scalar> {
    Some(match kind {
        1 => Scalar::Bool,
        2 => Scalar::I8,
        3 => Scalar::I16,
        4 => Scalar::I32,
        5 => Scalar::I64,
        6 => Scalar::U8,
        7 => Scalar::U16,
        8 => Scalar::U32,
        9 => Scalar::U64,
        10 => Scalar::F16,
        11 => Scalar::F32,
        12 => Scalar::F64,
        _ => return None,
    })
}

/// Calls the function. An output with fewer places than the call is accumulated, so it is set to zero first,
/// which XLA has not done.
///
/// # Safety
/// Nothing else may access the memory of the outputs.
unsafe fn run(function: &array::Function, inputs: &[Array], outputs: &[Array]) -> Result<(), Failure> {
    let failure = |error: Error| match error {
        Error::Kind(message) | Error::Value(message) => (INVALID, message),
        Error::Machine(message) => (ABORTED, message),
        Error::Program(report) => (ABORTED, report.text),
    };
    let shape = function.shape(inputs.iter()).map_err(failure)?;
    for (leaf, output) in function.outputs.iter().zip(outputs) {
        let lead = &output.shape()[..output.shape().len().saturating_sub(leaf.dims.len())];
        if lead == shape && leaf.cotangent_of.is_none() {
            continue;
        }
        if lead.len() > shape.len() || !output.kind().is_float() {
            let path = &leaf.path;
            return invalid(format!(
                "`{path}` is of shape {:?} in a call of shape {shape:?}",
                output.shape()
            ));
        }
        let bytes = output.memory().addresses();
        // SAFETY: the range is the output's memory.
        unsafe { std::ptr::write_bytes(bytes.start as *mut u8, 0, bytes.len()) };
    }
    function.call(&shape, inputs, outputs, &[], None).map_err(failure)
}
