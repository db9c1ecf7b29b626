//! `pullback._core`: what the Python package is made of.
//!
//! Arrays come and go without copies; the interpreter's lock is released while anything is compiled or runs. What users
//! call is in `python/pullback`.

mod convert;
mod error;
mod function;
mod kernel;
mod program;

use pyo3::prelude::*;

/// Pullback's compiler for Python.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<program::Program>()?;
    module.add_class::<kernel::Kernel>()?;
    module.add_class::<function::Function>()
}
