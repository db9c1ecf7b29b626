//! `pullback._core`: what the Python package is made of.
//!
//! Arrays come and go without copies; the interpreter's lock is released while anything is compiled or runs. What users
//! call is in `python/pullback`.

mod convert;
mod dlpack;
mod error;
mod ffi;
mod function;
mod interrupt;
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
    module.add_class::<function::Function>()?;
    module.add_function(wrap_pyfunction!(before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork, module)?)
}

/// Waits for what other threads compile, so that the child finds nothing half done. They do not need the interpreter's lock
/// to end it, and must not hold it while they wait for this: so all such work is without it.
#[pyfunction]
fn before_fork(py: Python<'_>) {
    py.detach(driver::launch::fork::hold);
}

/// Lets compilation go on.
#[pyfunction]
fn after_fork() {
    driver::launch::fork::release();
}
