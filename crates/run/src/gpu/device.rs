//! The devices of this machine and their capabilities.

use crate::DeviceInfo;

/// The reason why there are no devices.
const NONE: &str = "this machine has no device with a Vulkan driver";

/// Creates a wgpu instance without support for windows. The extensions of window systems are not requested:
/// with them, Mesa's drivers choose among devices by asking the compositor, and print to standard error if
/// there is none.
fn instance() -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::VULKAN;
    let hal = wgpu::hal::InstanceDescriptor {
        name: "pullback",
        flags: descriptor.flags,
        memory_budget_thresholds: descriptor.memory_budget_thresholds,
        backend_options: descriptor.backend_options.clone(),
        telemetry: None,
        display: None,
    };
    let without_windows: Box<wgpu::hal::vulkan::CreateInstanceCallback<'_>> =
        Box::new(|args| args.extensions.retain(|name| !name.to_bytes().ends_with(b"wayland_surface")));
    // SAFETY: the list of extensions is the same as with a driver that does not support Wayland, which wgpu
    // allows for; no surface is created.
    let made = unsafe { wgpu::hal::vulkan::Instance::init_with_callback(&hal, Some(without_windows)) };
    match made {
        // SAFETY: the instance was created above and is not used elsewhere.
        Ok(made) => unsafe { wgpu::Instance::from_hal::<wgpu::hal::api::Vulkan>(made) },
        // Without Vulkan, this gives an instance without devices.
        Err(_) => wgpu::Instance::new(descriptor),
    }
}

/// The devices of this machine, hardware first.
fn adapters() -> Vec<wgpu::Adapter> {
    let mut all = pollster::block_on(instance().enumerate_adapters(wgpu::Backends::VULKAN));
    all.sort_by_key(|a| match a.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Cpu => 3,
        wgpu::DeviceType::Other => 4,
    });
    all
}

/// The devices that programs can run on, or the reason why there are none; the first one is used.
pub fn devices() -> Result<Vec<DeviceInfo>, String> {
    let all = adapters();
    if all.is_empty() { Err(NONE.into()) } else { Ok(all.iter().map(describe).collect()) }
}

fn describe(adapter: &wgpu::Adapter) -> DeviceInfo {
    let info = adapter.get_info();
    let features = adapter.features();
    let numbers = [
        (wgpu::Features::SHADER_F16, "f16"),
        (wgpu::Features::SHADER_F64, "f64"),
        (wgpu::Features::SHADER_INT64, "i64"),
        (wgpu::Features::SHADER_INT64_ATOMIC_ALL_OPS, "atomic i64"),
        (wgpu::Features::SHADER_FLOAT32_ATOMIC, "atomic f32"),
    ];
    let kind = match info.device_type {
        wgpu::DeviceType::DiscreteGpu => "discrete GPU",
        wgpu::DeviceType::IntegratedGpu => "integrated GPU",
        wgpu::DeviceType::VirtualGpu => "virtual GPU",
        wgpu::DeviceType::Cpu => "CPU",
        wgpu::DeviceType::Other => "other",
    };
    DeviceInfo {
        name: info.name.clone(),
        kind: kind.into(),
        interface: format!("{:?}", info.backend),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_string(),
        numbers: numbers.iter().filter(|n| features.contains(n.0)).map(|n| n.1).collect(),
        subgroups: (info.subgroup_min_size, info.subgroup_max_size),
    }
}

/// The number types that a module needs, as features of a device.
fn needs(module: &naga::Module) -> wgpu::Features {
    let of = |kind: naga::ScalarKind, width: u8| match (kind, width) {
        (naga::ScalarKind::Float, 2) => wgpu::Features::SHADER_F16,
        (naga::ScalarKind::Float, 8) => wgpu::Features::SHADER_F64,
        (naga::ScalarKind::Sint | naga::ScalarKind::Uint, 8) => wgpu::Features::SHADER_INT64,
        _ => wgpu::Features::empty(),
    };
    let mut all = wgpu::Features::empty();
    for (_, ty) in module.types.iter() {
        if let naga::TypeInner::Scalar(s)
        | naga::TypeInner::Vector { scalar: s, .. }
        | naga::TypeInner::Atomic(s) = ty.inner
        {
            all |= of(s.kind, s.width);
        }
        all |= match ty.inner {
            naga::TypeInner::Atomic(naga::Scalar::F32) => wgpu::Features::SHADER_FLOAT32_ATOMIC,
            naga::TypeInner::Atomic(naga::Scalar { width: 8, .. }) => {
                wgpu::Features::SHADER_INT64_ATOMIC_ALL_OPS
            }
            _ => wgpu::Features::empty(),
        };
    }
    let functions = module.functions.iter().map(|f| f.1);
    for function in functions.chain(module.entry_points.iter().map(|e| &e.function)) {
        for (_, expression) in function.expressions.iter() {
            all |= match *expression {
                naga::Expression::SubgroupBallotResult | naga::Expression::SubgroupOperationResult { .. } => {
                    wgpu::Features::SUBGROUP
                }
                naga::Expression::Literal(literal) => of(literal.scalar().kind, literal.scalar().width),
                naga::Expression::As { kind, convert: Some(width), .. } => of(kind, width),
                // The bits of a 64-bit float are converted through a 64-bit integer type.
                naga::Expression::As { convert: None, .. } if all.contains(wgpu::Features::SHADER_F64) => {
                    wgpu::Features::SHADER_INT64
                }
                _ => wgpu::Features::empty(),
            };
        }
    }
    all
}

/// Describes a feature in the terms of the language.
fn in_words(feature: wgpu::Features) -> String {
    let known = [
        (wgpu::Features::SHADER_F16, "numbers of type `half`"),
        (wgpu::Features::SHADER_F64, "numbers of type `double`"),
        (wgpu::Features::SHADER_INT64, "integers of 64 bits"),
        (wgpu::Features::SHADER_INT64_ATOMIC_ALL_OPS, "atomic operations on 64 bits"),
        (wgpu::Features::SHADER_FLOAT32_ATOMIC, "atomic sums of floats"),
        (wgpu::Features::SUBGROUP, "operations of subgroups"),
    ];
    match known.iter().find(|k| k.0 == feature) {
        Some(known) => known.1.to_string(),
        None => feature.iter_names().map(|n| n.0.to_lowercase().replace('_', " ")).collect(),
    }
}

/// The device that programs run on.
pub struct Device {
    adapter: wgpu::Adapter,
}

impl Device {
    /// The first device of this machine.
    pub fn first() -> Result<Device, String> {
        match adapters().into_iter().next() {
            Some(adapter) => Ok(Device { adapter }),
            None => Err(NONE.into()),
        }
    }

    /// The device's name.
    pub fn name(&self) -> String {
        self.adapter.get_info().name
    }

    /// The number of lanes per subgroup, if it is the same for all subgroups and subgroup operations are
    /// supported.
    pub fn subgroups(&self) -> Option<u32> {
        let info = self.adapter.get_info();
        let is_fixed = info.subgroup_min_size == info.subgroup_max_size;
        let has = self.adapter.features().contains(wgpu::Features::SUBGROUP);
        (is_fixed && has).then_some(info.subgroup_min_size)
    }

    /// Returns true if the device supports atomic addition of floats in storage buffers.
    pub fn adds_floats(&self) -> bool {
        self.adapter.features().contains(wgpu::Features::SHADER_FLOAT32_ATOMIC)
    }

    /// The maximum number of uniforms of an entry point.
    pub fn max_uniforms(&self) -> u32 {
        self.limits().max_uniform_buffers_per_shader_stage
    }

    /// Returns true if the driver may crash the process when control flow depends on a uniform. Mesa's
    /// lavapipe specialises the program for the values of such uniforms at each dispatch; up to version 23 it
    /// may look for the first one in a buffer before the first.
    pub fn fails_where_uniforms_decide(&self) -> bool {
        let info = self.adapter.get_info();
        let text = info.driver_info.strip_prefix("Mesa ").unwrap_or_default();
        let version: u32 = text.split('.').next().and_then(|v| v.parse().ok()).unwrap_or(0);
        info.driver == "llvmpipe" && version < 24
    }

    /// Returns true if the driver may end loops early: Mesa's lavapipe does so after 65,535 iterations of all
    /// loops of a thread together.
    pub fn may_end_loops(&self) -> bool {
        self.adapter.get_info().driver == "llvmpipe"
    }

    /// The maximum size in bytes of a private variable of a thread: lavapipe initialises each variable with
    /// zeros, number by number, and LLVM takes minutes for a few thousand of these.
    pub fn most_private(&self) -> u64 {
        if self.inlines_slowly() { 512 } else { codegen_naga::LARGEST_PRIVATE }
    }

    /// The maximum number of storage buffers of an entry point.
    pub fn max_storage(&self) -> u32 {
        self.limits().max_storage_buffers_per_shader_stage
    }

    /// The number of threads that keep the device busy, if it is implemented on the CPU.
    pub(super) fn threads(&self) -> Option<usize> {
        let is_processor = self.adapter.get_info().device_type == wgpu::DeviceType::Cpu;
        is_processor.then(|| 128 * std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Returns true if the driver inlines all functions and compiles the result in more than linear time, as
    /// Mesa's lavapipe does.
    pub fn inlines_slowly(&self) -> bool {
        self.adapter.get_info().driver == "llvmpipe"
    }

    pub(super) fn limits(&self) -> wgpu::Limits {
        self.adapter.limits()
    }

    /// Opens the device with the features that a module needs.
    pub(super) fn open(&self, module: &naga::Module) -> Result<(wgpu::Device, wgpu::Queue), String> {
        let name = self.name();
        let needed = needs(module);
        let missing = needed - self.adapter.features();
        if !missing.is_empty() {
            let names: Vec<String> = missing.iter().map(in_words).collect();
            return Err(format!("the device `{name}` does not have {}", names.join(" and ")));
        }
        let descriptor = wgpu::DeviceDescriptor {
            label: None,
            required_features: needed | wgpu::Features::PASSTHROUGH_SHADERS,
            required_limits: self.limits(),
            ..wgpu::DeviceDescriptor::default()
        };
        pollster::block_on(self.adapter.request_device(&descriptor)).map_err(|e| format!("`{name}`: {e}"))
    }
}
