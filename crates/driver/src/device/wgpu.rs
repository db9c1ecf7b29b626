//! Graphics processors, used through wgpu.

use std::sync::Arc;

use codegen_naga::{Built, Options, Target};
use ir::Module;
use opt::math;
use syntax::Diagnostic;

use super::interface::{Device, DeviceInfo, Program};
use crate::error::{Error, Failure, source_span};
use crate::gpu::{NAGA_OFFSET, failure, with_arena, without_recursion};
use native::Options as CodeOptions;

/// This machine's first device with a Vulkan driver.
pub(super) struct Wgpu;

impl Device for Wgpu {
    fn name(&self) -> &'static str {
        "wgpu"
    }

    fn about(&self) -> &'static str {
        "A graphics processor"
    }

    fn compile(&self, module: &Arc<Module>, _: &CodeOptions) -> Result<Box<dyn Program>, Failure> {
        Ok(Box::new(program(module)?))
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>, String> {
        run::gpu::devices()
    }

    fn is_device(&self) -> bool {
        true
    }
}

/// The number of instructions from which lavapipe takes minutes to compile a kernel with arithmetic in
/// `double`, or with an arena.
const SLOW: u64 = 6_000;

/// The least number of bytes of a uniform that may stay one where uniforms must not decide control flow: a
/// long array, of which no single element does.
const LONG_ARRAY: u64 = 1 << 10;

/// Refuses those of some kernels that have too many instructions for a driver that inlines all functions.
fn check_size(
    device: &run::gpu::Device,
    module: &Module,
    kernels: &[ir::Func],
    part: &str,
    most: u64,
) -> Result<(), Failure> {
    let wanted = module.entries.iter().filter(|entry| kernels.contains(&entry.func));
    for entry in wanted.filter(|_| device.inlines_slowly()) {
        let size = math::inlined_size(module, entry.func);
        if size > most {
            let message = format!(
                "`{}` cannot run `{}`: with {part} the kernel has {size} instructions, and the driver takes minutes for more than {most}",
                device.name(),
                entry.name
            );
            let span = source_span(module.funcs[entry.func].span);
            return Err(Failure::Program(vec![Diagnostic::error("E0930", span, message)]));
        }
    }
    Ok(())
}

/// Compiles the module for this machine's first device.
fn program(module: &Module) -> Result<run::gpu::Program, Failure> {
    let looping = without_recursion(module, &[], NAGA_OFFSET);
    let module = looping.as_ref().unwrap_or(module);
    let through = opt::for_devices(module);
    let module = through.as_ref().unwrap_or(module);
    let expanded = math::expand(module, math::Wanted::Doubles);
    let module = expanded.as_ref().unwrap_or(module);
    let device = run::gpu::Device::first().map_err(|why| Failure::Other(Error::Input(why)))?;
    if expanded.is_some() {
        let all: Vec<ir::Func> = module.entries.iter().map(|entry| entry.func).collect();
        check_size(&device, module, &all, "its functions of `double`", SLOW)?;
    }
    let with = |module: &Module, max_uniforms: u32, least_uniform: u64| {
        let options = Options {
            target: Target::Spirv,
            functions: &[],
            max_uniforms,
            least_uniform,
            native_float_sums: device.adds_floats(),
            most_private: device.most_private(),
            max_storage: device.max_storage(),
            subgroups: device.subgroups(),
            checks_loops: device.may_end_loops(),
            inlines_slowly: device.inlines_slowly(),
            first_group_last: true,
            place: &|_| None,
        };
        codegen_naga::build(module, &options)
    };
    let first = with(module, device.max_uniforms(), 0);
    let in_arena = with_arena(module, &first, Target::Spirv, &[]);
    if let Some(made) = &in_arena {
        check_size(&device, &made.module, &made.kernels, "what it keeps in an arena", SLOW)?;
    }
    let module = in_arena.as_ref().map_or(module, |made| &made.module);
    let with = |max_uniforms, least_uniform| with(module, max_uniforms, least_uniform).map_err(failure);
    let mut built = match in_arena {
        Some(_) => with(device.max_uniforms(), 0)?,
        None => first.map_err(failure)?,
    };
    let fails = |built: &Built| {
        device.fails_where_uniforms_decide() && codegen_naga::uniform::decides_control(&built.module)
    };
    if fails(&built) {
        built = with(device.max_uniforms(), LONG_ARRAY)?;
    }
    if fails(&built) {
        built = with(0, 0)?;
    }
    run::gpu::Program::new(&device, built).map_err(|why| Failure::Other(Error::Input(why)))
}
