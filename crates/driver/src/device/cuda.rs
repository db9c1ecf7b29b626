//! NVIDIA's devices, used through their driver: PTX by LLVM, which the driver compiles.

use std::sync::Arc;

use codegen_llvm::aot::MATRIX_UNITS;
use ir::Module;
use syntax::Diagnostic;

use super::interface::{Device, DeviceInfo, Program};
use crate::error::{Error, Failure, source_span};
use crate::gpu::ptx_for_cuda;
use native::Options as CodeOptions;

pub use run::cuda::{Driver, Kernels, Limits, Memory};

/// A device by its own driver.
pub(super) struct Cuda;

impl Device for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn about(&self) -> &'static str {
        "An NVIDIA device, by its own driver"
    }

    fn compile(&self, module: &Arc<Module>, _: &CodeOptions) -> Result<Box<dyn Program>, Failure> {
        // The program is compiled first: its errors are the user's on any machine.
        let code = code(module)?;
        on(run::cuda::first().map_err(Error::Input)?, code)
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>, String> {
        run::cuda::devices()
    }

    fn is_device(&self) -> bool {
        true
    }
}

/// Compiles a module for a driver that the caller provides.
pub(crate) fn compile_on(driver: Arc<dyn Driver>, module: &Module) -> Result<Box<dyn Program>, Failure> {
    on(driver, code(module)?)
}

/// Code, and a product by matrix units in it, which the first devices lack.
type Made = (run::cuda::Code, Option<ir::Span>);

fn on(driver: Arc<dyn Driver>, (code, matrix_units): Made) -> Result<Box<dyn Program>, Failure> {
    if let Some(span) = matrix_units.filter(|_| driver.generation() < MATRIX_UNITS) {
        let message = format!(
            "a product by matrix units needs a device of generation sm_{MATRIX_UNITS} or later, and `{}` is of sm_{}",
            driver.name(),
            driver.generation()
        );
        let help = "without `--matrix-units` (in Python, `matrix_units`), the product is computed element by element";
        return Err(Failure::Program(vec![
            Diagnostic::error("E0930", source_span(span), message).help(help),
        ]));
    }
    Ok(Box::new(run::cuda::Program::new(driver, code).map_err(Error::Input)?))
}

/// The device-independent code of a module's kernels.
fn code(module: &Module) -> Result<Made, Failure> {
    let through = opt::for_devices(module);
    let module = through.as_ref().unwrap_or(module);
    let made = ptx_for_cuda(module)?;
    let kernels = made.entries.iter().zip(&module.entries).map(|(own, entry)| run::cuda::Kernel {
        name: own.name.clone(),
        group_size: entry.group_size,
        first_group_last: own.first_group_last,
        uses_arena: own.uses_arena,
    });
    let prints = made.prints.into_iter().map(|p| run::cuda::Print {
        number: p.number,
        format: p.format,
        kinds: p.kinds,
    });
    let code = run::cuda::Code {
        kernels: kernels.collect(),
        prints: prints.collect(),
        text: made.text,
        globals: made.buffers,
        errors: made.errors,
        has_arena: made.has_arena,
    };
    Ok((code, made.matrix_units))
}
