//! `pullback._core`: what the Python package is made of.
//!
//! Arrays come and go without copies; the interpreter's lock is released while anything is compiled or runs. What users
//! call is in `python/pullback`.

mod convert;
mod error;
mod ffi;
mod function;
mod kernel;
mod program;

use pyo3::prelude::*;

/// Names LLVM's shared library, for code that is not there yet.
#[pyfunction]
fn llvm_found_at(path: String) {
    array::llvm_found_at(path);
}

/// Pullback's compiler for Python.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(llvm_found_at, module)?)?;
    module.add_function(wrap_pyfunction!(ffi::xla_handler, module)?)?;
    module.add_class::<program::Program>()?;
    module.add_class::<kernel::Kernel>()?;
    module.add_class::<function::Function>()
}
