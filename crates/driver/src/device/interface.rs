//! The interface of a backend.

use std::path::Path;
use std::sync::Arc;

use ir::Module;
use native::Options as CodeOptions;
use syntax::Diagnostic;

use crate::error::Failure;

pub use run::{DeviceInfo, Program};

/// A kind of device that modules are compiled for.
pub trait Device: Sync {
    /// The name in `--backend`.
    fn name(&self) -> &'static str;

    /// A line about the backend for the help of `--backend`.
    fn about(&self) -> &'static str;

    /// Compiles a module's entry points.
    fn compile(&self, module: &Arc<Module>, options: &CodeOptions) -> Result<Box<dyn Program>, Failure>;

    /// The devices of this machine that programs can run on, the one in use first, or the reason why there
    /// are none.
    fn devices(&self) -> Result<Vec<DeviceInfo>, String>;

    /// Returns true if programs run on a graphics processor, which has no pointers in memory, rounds
    /// differently, and needs many threads per group to be busy.
    fn is_device(&self) -> bool {
        false
    }

    /// The number of threads that run side by side, in a kernel whose widest numbers have so many bytes.
    fn side_by_side(&self, _options: &CodeOptions, _bytes: u32) -> u32 {
        if self.is_device() { 16 } else { 1 }
    }

    /// Returns true if the backend generates code of its own.
    fn is_distinct(&self) -> bool {
        true
    }

    /// Starts slow work that does not depend on the program. `kept` is the program's file, if code for it may be in the
    /// cache, where that work is not needed.
    fn prepare(&self, _kept: Option<&Path>) {}
}

/// This machine's processor, with code from `interface`.
pub(super) fn processor(interface: String, lanes: u32) -> DeviceInfo {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let name = model.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    DeviceInfo {
        name: name.to_string(),
        kind: "CPU".to_string(),
        interface,
        driver: String::new(),
        numbers: vec!["f16", "f64", "i64", "atomic i64", "atomic f32"],
        subgroups: (1, lanes),
    }
}

/// The diagnostic for an operation that a CPU backend lacks.
pub(super) fn refused(unsupported: native::Unsupported) -> Failure {
    Failure::of_backend(&unsupported, |span| {
        Diagnostic::error("E0902", span, unsupported.to_string())
            .help("`--backend interp` runs every program")
    })
}
