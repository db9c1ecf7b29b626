//! Kernels, with memory bound by name.

use std::sync::Arc;

use array::{Argument, BindValue, Foreign, Place, Role};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::Value;

use crate::convert::{dtype_name, kind_of, on_device, start, view};
use crate::error::raised;
use crate::interrupt::{MANY, run};

/// An entry point of a program.
#[pyclass(frozen, module = "pullback._core")]
pub(crate) struct Kernel {
    pub(crate) inner: Arc<array::Kernel>,
}

/// The memory of a kernel: its name, its role, the kind of its numbers, the number of numbers in an element,
/// the size of an element in bytes, and whether the kernel may write it.
pub(crate) type PlaceInfo = (String, &'static str, Option<&'static str>, usize, usize, bool);

fn role(place: &Place) -> &'static str {
    match place.role {
        Role::Buffer => "buffer",
        Role::Uniform => "uniform",
        Role::Tensor => "tensor",
        Role::Gradient => "gradient",
        Role::Texture => "texture",
    }
}

pub(crate) fn place_info(p: &Place) -> PlaceInfo {
    (p.name.clone(), role(p), p.kind.map(dtype_name), p.numbers, p.bytes, p.is_writable)
}

#[pymethods]
impl Kernel {
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// The number of threads per group, by dimension.
    #[getter]
    fn group(&self) -> [u32; 3] {
        self.inner.group
    }

    /// The memory that the kernel uses.
    #[getter]
    fn places(&self) -> Vec<PlaceInfo> {
        self.inner.places.iter().map(place_info).collect()
    }

    /// Runs thread groups on arrays and values bound by name; returns the printed text.
    fn launch(&self, py: Python<'_>, bound: &Bound<'_, PyDict>, groups: [u32; 3]) -> PyResult<String> {
        let mut arguments = Vec::with_capacity(bound.len());
        for (name, value) in bound {
            let name: String = name.extract()?;
            let place = self.inner.place(&name).map_err(|error| raised(py, error))?;
            arguments.push((place.clone(), argument(place, &value)?));
        }
        let threads = groups.iter().chain(&self.inner.group).fold(1u64, |n, &m| n.saturating_mul(m.into()));
        let is_long = self.inner.may_be_long() || threads > MANY;
        let (kernel, kept) = (self.inner.clone(), vec![bound.values().into_any().unbind()]);
        let done = run(
            py,
            is_long,
            move || kept,
            move |stop| {
                let arguments: Vec<(&Place, Argument)> =
                    arguments.iter().map(|(p, a)| (p, a.clone())).collect();
                kernel.launch(&arguments, groups, stop)
            },
        );
        done?.map_err(|error| raised(py, error))
    }
}

/// Converts a value to an argument for a place. The caller keeps the value alive.
pub(crate) fn argument(place: &Place, value: &Bound<'_, PyAny>) -> PyResult<Argument> {
    let name = &place.name;
    if place.role != Role::Texture
        && let Ok(found) = value.cast::<PyUntypedArray>()
    {
        if place.is_writable && !value.getattr("flags")?.getattr("writeable")?.extract::<bool>()? {
            return Err(PyValueError::new_err(format!("`{name}` is written, and the array is read-only")));
        }
        if found.dtype().kind() == b'V' && found.is_c_contiguous() {
            let bytes = found.dtype().itemsize() * found.len();
            return Ok(Argument::Bytes(match std::ptr::NonNull::new(start(found)) {
                // SAFETY: the caller keeps the array alive, whose elements are contiguous; fields are aligned
                // as NumPy has them.
                Some(at) => unsafe { Foreign::new(at, bytes) },
                None => Foreign::NONE,
            }));
        }
        let kind = kind_of(found).ok_or_else(|| {
            let dtype = value.getattr("dtype").map_or_else(|_| "unknown".to_string(), |d| d.to_string());
            PyTypeError::new_err(format!("`{name}` cannot be an array of {dtype}"))
        })?;
        return Ok(Argument::Array(view(found, kind)));
    }
    if place.role == Role::Texture
        && let Ok((texels, size)) = value.extract::<(Bound<'_, PyUntypedArray>, [u32; 4])>()
    {
        let is_writable = texels.getattr("flags")?.getattr("writeable")?.extract::<bool>()?;
        if !texels.is_c_contiguous() || place.is_writable && !is_writable {
            let why = "needs texels that lie one after the other, in an array that may be written if the kernel writes";
            return Err(PyValueError::new_err(format!("`{name}` {why}")));
        }
        let bytes = texels.dtype().itemsize() * texels.len();
        let at = std::ptr::NonNull::new(start(&texels));
        // SAFETY: the caller keeps the array alive, whose elements are contiguous.
        let memory = at.map_or(Foreign::NONE, |at| unsafe { Foreign::new(at, bytes) });
        return Ok(Argument::Texels(memory, size));
    }
    if place.role != Role::Texture
        && let Some(array) = on_device(name, value, place.is_writable)?
    {
        return Ok(Argument::Array(array));
    }
    let json =
        json(value).map_err(|why| PyTypeError::new_err(format!("`{name}` cannot be bound to {why}")))?;
    Ok(Argument::Value(BindValue::Json(json)))
}

/// Converts a value to JSON as the driver reads it; the error describes the value.
pub(crate) fn json(value: &Bound<'_, PyAny>) -> Result<Value, String> {
    let kind = |value: &Bound<'_, PyAny>| {
        value.get_type().name().map_or_else(|_| "this".to_string(), |name| format!("a `{name}`"))
    };
    let failed = |_| kind(value);
    if value.is_instance_of::<PyBool>() {
        return value.extract::<bool>().map(Value::Bool).map_err(failed);
    }
    if value.is_instance_of::<PyInt>() {
        return match (value.extract::<i64>(), value.extract::<u64>()) {
            (Ok(n), _) => Ok(n.into()),
            (_, Ok(n)) => Ok(n.into()),
            _ => Err(format!("the number {value}")),
        };
    }
    if value.is_instance_of::<PyFloat>() {
        let x: f64 = value.extract().map_err(failed)?;
        // JSON cannot represent infinities and NaN.
        return Ok(serde_json::Number::from_f64(x).map_or_else(|| x.to_string().into(), Value::Number));
    }
    if value.is_instance_of::<PyString>() {
        return value.extract().map(Value::String).map_err(failed);
    }
    if let Ok(list) = value.cast::<PyList>() {
        return list.iter().map(|item| json(&item)).collect::<Result<_, _>>().map(Value::Array);
    }
    if let Ok(list) = value.cast::<PyTuple>()
        && !value.hasattr("_fields").unwrap_or(false)
    {
        return list.iter().map(|item| json(&item)).collect::<Result<_, _>>().map(Value::Array);
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        let entry = |(key, item): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let key: String = key.extract().map_err(|_| format!("a dict with the key {key}"))?;
            Ok((key, json(&item)?))
        };
        return dict.iter().map(entry).collect::<Result<_, String>>().map(Value::Object);
    }
    // Arrays and NumPy's numbers, named tuples and dataclasses are converted.
    if value.hasattr("tolist").unwrap_or(false) {
        return json(&value.call_method0("tolist").map_err(failed)?);
    }
    if value.hasattr("_asdict").unwrap_or(false) {
        return json(&value.call_method0("_asdict").map_err(failed)?);
    }
    if value.hasattr("__dataclass_fields__").unwrap_or(false) {
        let fields = value.getattr("__dataclass_fields__").map_err(failed)?;
        let mut all = serde_json::Map::new();
        for name in fields.try_iter().map_err(failed)? {
            let name: String = name.and_then(|name| name.extract()).map_err(failed)?;
            let field = value.getattr(name.as_str()).map_err(failed)?;
            all.insert(name, json(&field)?);
        }
        return Ok(Value::Object(all));
    }
    Err(kind(value))
}
