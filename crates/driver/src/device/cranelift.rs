//! Machine code by Cranelift, which is in every build but those for WebAssembly.

use std::sync::Arc;

use ir::Module;

use super::interface::{Device, DeviceInfo, Program, processor, refused};
use crate::error::Failure;
use native::{Compiled, Options as CodeOptions, Unsupported};

/// The number of trips of a loop that run side by side in an inner loop: more would not leave registers.
const WAYS: u64 = 2;

/// Compiles the module by Cranelift, for lanes where that is possible.
pub(super) fn in_lanes(module: &Module, options: &CodeOptions) -> Result<Compiled, Unsupported> {
    let through = opt::for_lanes(module, WAYS);
    codegen_cranelift::compile(through.as_ref().unwrap_or(module), options)
}

/// Machine code by Cranelift.
pub(super) struct Cranelift;

impl Device for Cranelift {
    fn name(&self) -> &'static str {
        "cranelift"
    }

    fn about(&self) -> &'static str {
        "Machine code, by Cranelift, in lanes where it can"
    }

    fn compile(&self, module: &Arc<Module>, options: &CodeOptions) -> Result<Box<dyn Program>, Failure> {
        Ok(Box::new(in_lanes(module, options).map_err(refused)?))
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>, String> {
        Ok(vec![processor(
            format!("Cranelift {}", codegen_cranelift::VERSION),
            codegen_cranelift::MOST_LANES,
        )])
    }

    fn side_by_side(&self, options: &CodeOptions, bytes: u32) -> u32 {
        // Four vectors of 128 bits.
        options.lanes.unwrap_or(64 / bytes.max(4))
    }
}
