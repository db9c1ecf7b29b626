//! The reference interpreter.

use std::sync::Arc;

use ir::Module;

use super::interface::{Device, DeviceInfo, Program, processor};
use crate::error::Failure;
use native::Options as CodeOptions;

/// The reference interpreter.
pub(super) struct Interp;

impl Device for Interp {
    fn name(&self) -> &'static str {
        "interp"
    }

    fn about(&self) -> &'static str {
        "The reference interpreter"
    }

    fn compile(&self, _: &Arc<Module>, _: &CodeOptions) -> Result<Box<dyn Program>, Failure> {
        Ok(Box::new(run::Interpreter))
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>, String> {
        Ok(vec![processor("interpreter".to_string(), 1)])
    }
}
