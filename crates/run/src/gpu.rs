//! A dispatch on a graphics processor, by wgpu.
//!
//! Buffers are kept in the CPU's layout and copied to the device's and back for each dispatch; the reflection of the module
//! says where each number is. What a kernel printed is in a log buffer, and what went wrong in an error word.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use codegen_naga::layout::{self, Place};
use codegen_naga::{Binding, BindingKind, Built};
use ir::interp::RunError;
use ir::{Module, Scalar, Span, scalar};

use crate::Buffers;

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its name.
    pub name: String,
    /// What kind of device it is.
    pub kind: String,
    /// The interface by which it is used.
    pub interface: String,
    /// Its driver.
    pub driver: String,
    /// Kinds of number that it has besides those of 32 bits.
    pub numbers: Vec<&'static str>,
    /// Lanes of its subgroups, at least and at most.
    pub subgroups: (u32, u32),
}

/// A compiled module on a device.
pub struct Program {
    device: wgpu::Device,
    queue: wgpu::Queue,
    name: String,
    built: Built,
    pipelines: Vec<wgpu::ComputePipeline>,
    layout: wgpu::BindGroupLayout,
    /// What the device complained about.
    faults: Arc<Mutex<Vec<String>>>,
    limits: wgpu::Limits,
}

/// Words of the log.
const LOG_WORDS: u64 = 1 << 20;

fn instance() -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::VULKAN;
    wgpu::Instance::new(descriptor)
}

/// The devices of this machine, those of hardware first.
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

/// The devices that programs can run on; the first is the one that does.
pub fn devices() -> Vec<DeviceInfo> {
    adapters().iter().map(describe).collect()
}

fn describe(adapter: &wgpu::Adapter) -> DeviceInfo {
    let info = adapter.get_info();
    let features = adapter.features();
    let numbers = [
        (wgpu::Features::SHADER_F16, "f16"),
        (wgpu::Features::SHADER_F64, "f64"),
        (wgpu::Features::SHADER_INT64, "i64"),
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

/// The kinds of number that a module needs, as features of a device.
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
    }
    let functions = module.functions.iter().map(|f| f.1);
    for function in functions.chain(module.entry_points.iter().map(|e| &e.function)) {
        for (_, expression) in function.expressions.iter() {
            all |= match *expression {
                naga::Expression::Literal(literal) => of(literal.scalar().kind, literal.scalar().width),
                naga::Expression::As { kind, convert: Some(width), .. } => of(kind, width),
                // The bits of a 64-bit float are those of a 64-bit integer.
                naga::Expression::As { convert: None, .. } if all.contains(wgpu::Features::SHADER_F64) => {
                    wgpu::Features::SHADER_INT64
                }
                _ => wgpu::Features::empty(),
            };
        }
    }
    all
}

impl Program {
    /// Compiles a module for the first device.
    pub fn new(built: Built) -> Result<Program, String> {
        let Some(adapter) = adapters().into_iter().next() else {
            return Err("this machine has no device with a Vulkan driver".into());
        };
        let name = adapter.get_info().name;
        let needed = needs(&built.module);
        let missing = needed - adapter.features();
        if !missing.is_empty() {
            let names: Vec<String> =
                missing.iter_names().map(|n| n.0.to_lowercase().replace('_', " ")).collect();
            return Err(format!("the device `{name}` does not have {}", names.join(" and ")));
        }
        let limits = adapter.limits();
        let descriptor = wgpu::DeviceDescriptor {
            label: None,
            required_features: needed,
            required_limits: limits.clone(),
            ..wgpu::DeviceDescriptor::default()
        };
        let (device, queue) =
            pollster::block_on(adapter.request_device(&descriptor)).map_err(|e| format!("`{name}`: {e}"))?;
        let faults = Arc::new(Mutex::new(Vec::new()));
        let list = faults.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            if let Ok(mut list) = list.lock() {
                list.push(error.to_string());
            }
        }));
        let source = wgpu::ShaderSource::Naga(Cow::Owned(built.module.clone()));
        let shader = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
        let entries: Vec<wgpu::BindGroupLayoutEntry> =
            built.reflection.bindings.iter().map(layout_entry).collect();
        let layout = device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipelines = built
            .reflection
            .entries
            .iter()
            .map(|entry| {
                device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                    label: Some(&entry.name),
                    layout: Some(&pipeline_layout),
                    module: &shader,
                    entry_point: Some(&entry.name),
                    compilation_options: wgpu::PipelineCompilationOptions::default(),
                    cache: None,
                })
            })
            .collect();
        let program = Program { device, queue, name, built, pipelines, layout, faults, limits };
        program.fault()?;
        Ok(program)
    }

    /// What the device complained about since it was asked last.
    fn fault(&self) -> Result<(), String> {
        let list = self.faults.lock().map(|mut list| std::mem::take(&mut *list)).unwrap_or_default();
        match list.first() {
            None => Ok(()),
            Some(fault) => Err(format!("the device `{}`: {}", self.name, fault.trim())),
        }
    }

    /// Runs thread groups of entry point number `entry`; adds what was printed. Gives the seconds of the dispatch alone.
    pub fn dispatch(
        &self,
        module: &Module,
        entry: usize,
        groups: [u32; 3],
        buffers: &mut Buffers,
        stdout: &mut String,
    ) -> Result<f64, RunError> {
        let other = |message: String| RunError { message, span: Span::NONE, thread: [0; 3] };
        if let Some(most) = groups.iter().find(|&&n| n > self.limits.max_compute_workgroups_per_dimension) {
            let limit = self.limits.max_compute_workgroups_per_dimension;
            return Err(other(format!(
                "{most} thread groups along an axis; `{}` has at most {limit}",
                self.name
            )));
        }
        let bindings = &self.built.reflection.bindings;
        let mut resources = Vec::new();
        for binding in bindings {
            let bytes = to_device(module, binding, buffers).map_err(other)?;
            let usage = match binding.kind {
                BindingKind::Uniform => wgpu::BufferUsages::UNIFORM,
                _ => wgpu::BufferUsages::STORAGE,
            };
            let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(&binding.name),
                size: bytes.len() as u64,
                usage: usage | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            });
            self.queue.write_buffer(&buffer, 0, &bytes);
            resources.push((buffer, bytes.len() as u64));
        }
        self.fault().map_err(other)?;
        let entries: Vec<wgpu::BindGroupEntry<'_>> = bindings
            .iter()
            .zip(&resources)
            .map(|(b, r)| wgpu::BindGroupEntry { binding: b.binding, resource: r.0.as_entire_binding() })
            .collect();
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.layout,
            entries: &entries,
        });
        self.queue.submit([]);
        self.wait().map_err(other)?;

        let start = Instant::now();
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&self.pipelines[entry]);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(groups[0], groups[1], groups[2]);
        }
        self.queue.submit([encoder.finish()]);
        self.wait().map_err(other)?;
        let seconds = start.elapsed().as_secs_f64();

        let size = self.built.reflection.entries[entry].group_size;
        let mut failed = None;
        for (binding, (buffer, len)) in bindings.iter().zip(&resources) {
            match binding.kind {
                BindingKind::Uniform | BindingKind::ReadOnlyStorage => {}
                BindingKind::Storage => {
                    let bytes = self.read(buffer, *len).map_err(other)?;
                    from_device(module, binding, &bytes, buffers);
                }
                BindingKind::ErrorWord => {
                    let bytes = self.read(buffer, *len).map_err(other)?;
                    failed = self.error(&bytes);
                }
                BindingKind::PrintLog => {
                    let bytes = self.read(buffer, *len).map_err(other)?;
                    self.printed(&bytes, groups, size, stdout).map_err(other)?;
                }
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(seconds),
        }
    }

    fn wait(&self) -> Result<(), String> {
        self.device.poll(wgpu::PollType::wait_indefinitely()).map_err(|e| format!("`{}`: {e}", self.name))?;
        self.fault()
    }

    /// A buffer's bytes.
    fn read(&self, buffer: &wgpu::Buffer, len: u64) -> Result<Vec<u8>, String> {
        let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: len,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, len);
        self.queue.submit([encoder.finish()]);
        staging.map_async(wgpu::MapMode::Read, .., |_| {});
        self.wait()?;
        let view = staging.get_mapped_range(..).map_err(|e| format!("`{}`: {e}", self.name))?;
        Ok(view.to_vec())
    }

    /// What the error word says.
    fn error(&self, bytes: &[u8]) -> Option<RunError> {
        let word = |k: usize| u32::from_le_bytes(bytes[4 * k..4 * k + 4].try_into().unwrap_or_default());
        let site = self.built.reflection.sites.get((word(0) as usize).checked_sub(1)?)?;
        Some(RunError { message: site.message.clone(), span: site.span, thread: [word(4), word(5), word(6)] })
    }

    /// Adds the log's text, in the order of threads.
    fn printed(
        &self,
        bytes: &[u8],
        groups: [u32; 3],
        size: [u32; 3],
        out: &mut String,
    ) -> Result<(), String> {
        let words: Vec<u32> =
            bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap_or_default())).collect();
        let used = words[0] as usize;
        if used + 1 > words.len() {
            return Err(format!("the kernel printed more than {LOG_WORDS} words"));
        }
        let mut lines: Vec<([u64; 2], String)> = Vec::new();
        let mut at = 1;
        while at <= used {
            let Some(print) = self.built.reflection.prints.get(words[at] as usize) else { break };
            let thread = [words[at + 1], words[at + 2], words[at + 3]];
            let group: [u64; 3] = std::array::from_fn(|k| (thread[k] / size[k]) as u64);
            let local: [u64; 3] = std::array::from_fn(|k| (thread[k] % size[k]) as u64);
            let [gx, gy] = [groups[0] as u64, groups[1] as u64];
            let [sx, sy] = [size[0] as u64, size[1] as u64];
            let order =
                [group[0] + gx * (group[1] + gy * group[2]), local[0] + sx * (local[1] + sy * local[2])];
            at += 4;
            let mut args = Vec::new();
            for &(from, shown) in &print.args {
                let mut bits = words[at] as u64;
                at += 1;
                if from.bytes() == 8 {
                    bits |= (words[at] as u64) << 32;
                    at += 1;
                }
                let bits = if from.is_float() { bits } else { scalar::canonical(from, bits) };
                args.push((shown, if from == shown { bits } else { scalar::convert(from, shown, bits) }));
            }
            lines.push((order, ir::interp::format_printf(&print.format, &args)));
        }
        lines.sort_by_key(|l| l.0);
        out.extend(lines.into_iter().map(|l| l.1));
        Ok(())
    }
}

fn layout_entry(binding: &Binding) -> wgpu::BindGroupLayoutEntry {
    let ty = match binding.kind {
        BindingKind::Uniform => wgpu::BufferBindingType::Uniform,
        BindingKind::ReadOnlyStorage => wgpu::BufferBindingType::Storage { read_only: true },
        BindingKind::Storage | BindingKind::ErrorWord | BindingKind::PrintLog => {
            wgpu::BufferBindingType::Storage { read_only: false }
        }
    };
    wgpu::BindGroupLayoutEntry {
        binding: binding.binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    }
}

/// Where the numbers of an element are, unless both layouts are one.
fn differing(module: &Module, binding: &Binding) -> Option<Vec<Place>> {
    let mem = binding.mem?;
    let all = layout::places(&module.mem, mem, binding.rule);
    let same = module.mem.size(mem) == binding.stride
        && all.iter().all(|p| {
            p.host == p.device && layout::scalar_bytes(p.scalar, binding.rule) == p.scalar.bytes() as u64
        });
    (!same).then_some(all)
}

/// The bytes of a binding for the device.
fn to_device(module: &Module, binding: &Binding, buffers: &Buffers) -> Result<Vec<u8>, String> {
    let (Some(global), Some(mem)) = (binding.global, binding.mem) else {
        let bytes =
            if binding.kind == BindingKind::PrintLog { 4 * LOG_WORDS } else { binding.size.unwrap_or(32) };
        return Ok(vec![0; bytes as usize]);
    };
    let host = buffers.bytes(global);
    let size = module.mem.size(mem).max(1) as usize;
    let stride = binding.size.unwrap_or(binding.stride) as usize;
    let n = if binding.size.is_some() { 1 } else { host.len() / size };
    if n == 0 {
        return Err(format!("`{}` is empty, and devices have no empty buffers", binding.name));
    }
    let mut out = match differing(module, binding) {
        None => host.to_vec(),
        Some(places) => {
            let mut out = vec![0; n * stride];
            for k in 0..n {
                for place in &places {
                    let s = place.scalar;
                    let from = k * size + place.host as usize;
                    let Some(bytes) = host.get(from..from + s.bytes() as usize) else { continue };
                    let mut word = [0; 8];
                    word[..bytes.len()].copy_from_slice(bytes);
                    let mut bits = u64::from_le_bytes(word);
                    if s == Scalar::Bool {
                        bits = u64::from(bits != 0);
                    } else if s.is_signed_int() {
                        let unused = 64 - s.bits();
                        bits = (((bits << unused) as i64) >> unused) as u64;
                    }
                    let len = layout::scalar_bytes(s, binding.rule) as usize;
                    let to = k * stride + place.device as usize;
                    out[to..to + len].copy_from_slice(&bits.to_le_bytes()[..len]);
                }
            }
            out
        }
    };
    let least = if binding.kind == BindingKind::Uniform { 16 } else { 4 };
    out.resize(out.len().max(n * stride).max(least).next_multiple_of(least), 0);
    Ok(out)
}

/// Copies what a device wrote back to the host's layout.
fn from_device(module: &Module, binding: &Binding, bytes: &[u8], buffers: &mut Buffers) {
    let (Some(global), Some(mem)) = (binding.global, binding.mem) else { return };
    let size = module.mem.size(mem).max(1) as usize;
    let stride = binding.size.unwrap_or(binding.stride) as usize;
    let places = differing(module, binding);
    let host = buffers.bytes_mut(global);
    let Some(places) = places else {
        let len = host.len().min(bytes.len());
        host[..len].copy_from_slice(&bytes[..len]);
        return;
    };
    for k in 0..host.len() / size {
        for place in &places {
            let from = k * stride + place.device as usize;
            let len = place.scalar.bytes() as usize;
            let to = k * size + place.host as usize;
            host[to..to + len].copy_from_slice(&bytes[from..from + len]);
        }
    }
}
