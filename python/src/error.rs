//! Converts errors to exceptions.

use array::Error;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The exception for an error; `pullback` itself creates those for diagnostics.
pub(crate) fn raised(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Kind(message) => PyTypeError::new_err(message),
        Error::Machine(message) => PyRuntimeError::new_err(message),
        Error::Value(message) => PyValueError::new_err(message),
        Error::Program(report) => {
            let made = py.import("pullback._errors").and_then(|module| {
                module.getattr("from_report")?.call1((report.text.as_str(), report.json.as_str()))
            });
            made.map_or_else(|error| error, PyErr::from_value)
        }
    }
}
