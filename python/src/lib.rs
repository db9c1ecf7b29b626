//! `pullback._core`: the native part of the Python package.
//!
//! Arrays are passed without copies; the interpreter's lock is released while anything is compiled or runs.
//! The public API is in `python/pullback`.

mod convert;
mod dlpack;
mod error;
mod ffi;
mod function;
mod interrupt;
mod kernel;
mod program;

use pyo3::prelude::*;

/// Sets the path of LLVM's shared library, for code compiled from now on.
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

/// Waits until no other thread is compiling, so that the child process finds no half-done state. Those
/// threads do not need the interpreter's lock to finish, and must not be blocked by it: it is released while
/// waiting.
#[pyfunction]
fn before_fork(py: Python<'_>) {
    py.detach(driver::launch::fork::hold);
}

/// Lets compilation continue.
#[pyfunction]
fn after_fork() {
    driver::launch::fork::release();
}
