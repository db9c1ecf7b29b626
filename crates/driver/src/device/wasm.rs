//! WebAssembly, run by an interpreter of it, or for other hosts.

#[cfg(any(feature = "wasmi", all(feature = "host", target_family = "wasm")))]
use std::sync::Arc;

use codegen_wasm::Features;
use ir::Module;

use super::interface::refused;
#[cfg(any(feature = "wasmi", all(feature = "host", target_family = "wasm")))]
use super::interface::{Device, DeviceInfo, Program, processor};
#[cfg(any(feature = "wasmi", all(feature = "host", target_family = "wasm")))]
use crate::error::Error;
use crate::error::Failure;
use native::Options as CodeOptions;

/// The number of trips of a loop that run side by side in an inner loop.
const WAYS: u64 = 1;

/// The module of WebAssembly.
pub(crate) fn module(
    module: &Module,
    options: &CodeOptions,
    features: Features,
) -> Result<codegen_wasm::Wasm, Failure> {
    let through = opt::for_lanes(module, WAYS);
    codegen_wasm::compile(through.as_ref().unwrap_or(module), options, features).map_err(refused)
}

/// Modules of WebAssembly.
#[cfg(any(feature = "wasmi", all(feature = "host", target_family = "wasm")))]
pub(super) struct Wasm;

#[cfg(any(feature = "wasmi", all(feature = "host", target_family = "wasm")))]
impl Device for Wasm {
    fn name(&self) -> &'static str {
        "wasm"
    }

    fn about(&self) -> &'static str {
        match cfg!(target_family = "wasm") {
            true => "WebAssembly, compiled by the host",
            false => "WebAssembly, in an interpreter of it: slow, to test what browsers run fast",
        }
    }

    fn compile(&self, of: &Arc<Module>, options: &CodeOptions) -> Result<Box<dyn Program>, Failure> {
        let features = Features { relaxed_simd: run::wasm::has_fused() };
        let program = run::wasm::Program::new(module(of, options, features)?);
        Ok(Box::new(program.map_err(|why| Failure::Other(Error::Input(why)))?))
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>, String> {
        Ok(vec![processor("WebAssembly".to_string(), 16)])
    }

    fn side_by_side(&self, options: &CodeOptions, bytes: u32) -> u32 {
        // Four vectors of 128 bits.
        options.lanes.unwrap_or(64 / bytes.max(4))
    }
}
