//! Dispatches on a graphics processor, through wgpu.
//!
//! Pipelines are compiled once, for each entry point with the bindings that it uses. Buffers stay on the
//! device between dispatches: a buffer is copied there if the host has changed it since ([`Buffers::stamp`]),
//! and back after a dispatch that may have written it, if the caller reads it. The layouts of host and device
//! differ; the reflection of the module gives the location of each number. Groups run at once. A kernel whose
//! first group reads, after a barrier, what the others have written is dispatched twice: first all groups,
//! where the first one does nothing, then the first one alone. Printed text is in a log buffer, and errors
//! are in an error word. A dispatch whose threads keep more than their arena has room for is repeated
//! ([`arena`]).

mod arena;
mod device;
mod report;
mod transfer;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use codegen_naga::{Binding, BindingKind, Built};
use ir::interp::RunError;
use ir::{Global, Module, Span};

use crate::{Buffers, Cost, Launch, Options};

pub use device::{Device, devices};

/// A compiled module on a device.
pub struct Program {
    device: wgpu::Device,
    queue: wgpu::Queue,
    name: String,
    built: Built,
    entries: Vec<Entry>,
    /// Errors reported by the device.
    faults: Arc<Mutex<Vec<String>>>,
    limits: wgpu::Limits,
    /// The number of threads that keep the device busy, if it is implemented on the CPU.
    threads: Option<usize>,
    held: Mutex<Held>,
}

/// An entry point.
struct Entry {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

/// The state that stays on the device between dispatches.
struct Held {
    /// By binding.
    buffers: Vec<Option<Resource>>,
    /// By entry point; dropped when one of its buffers is replaced.
    groups: Vec<Option<wgpu::BindGroup>>,
    arenas: arena::Arenas,
}

/// A buffer on the device.
struct Resource {
    buffer: wgpu::Buffer,
    len: u64,
    /// The stamp of the host's buffer when it was copied.
    stamp: u64,
    /// The buffer through which it is read back.
    staging: Option<wgpu::Buffer>,
}

/// The number of words of the log.
const LOG_WORDS: u64 = 1 << 20;

impl crate::Program for Program {
    fn dispatch(&self, launch: Launch<'_>) -> Result<(Cost, Option<f64>), RunError> {
        // The text of a device arrives all at once.
        let (printed, mut text) = (launch.printed, String::new());
        let done = self.run(launch, &mut text);
        printed.all(text);
        done.map(|seconds| (Cost::default(), Some(seconds)))
    }

    fn threads(&self) -> Option<usize> {
        self.threads
    }
}

impl Program {
    /// Compiles a module for a device.
    pub fn new(on: &Device, built: Built) -> Result<Program, String> {
        let name = on.name();
        let (device, queue) = on.open(&built.module)?;
        let faults = Arc::new(Mutex::new(Vec::new()));
        let list = faults.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            if let Ok(mut list) = list.lock() {
                list.push(error.to_string());
            }
        }));
        let all = &built.reflection.bindings;
        let entries = built.reflection.entries.iter().enumerate().map(|(k, entry)| {
            let words = codegen_naga::spirv::write_entry(&built, k).map_err(|e| format!("{e:?}"))?;
            let entry_point =
                wgpu::PassthroughShaderEntryPoint { name: (&entry.name).into(), workgroup_size: (0, 0, 0) };
            // SAFETY: naga's validator has accepted the module, codegen-naga checks every index that is not
            // known to be in range, and the layout below has the bindings that the module was written for.
            let shader = unsafe {
                device.create_shader_module_passthrough(wgpu::ShaderModuleDescriptorPassthrough {
                    label: None,
                    entry_points: Cow::Owned(vec![entry_point]),
                    spirv: Some(Cow::Owned(words)),
                    ..Default::default()
                })
            };
            let bindings: Vec<wgpu::BindGroupLayoutEntry> =
                entry.uses.iter().map(|u| layout_entry(&all[u.binding])).collect();
            let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: None,
                entries: &bindings,
            });
            let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            });
            let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(&entry.name),
                layout: Some(&pipeline_layout),
                module: &shader,
                entry_point: Some(&entry.name),
                compilation_options: wgpu::PipelineCompilationOptions::default(),
                cache: None,
            });
            Ok(Entry { pipeline, layout })
        });
        let entries: Vec<Entry> = entries.collect::<Result<_, String>>()?;
        let held = Held {
            buffers: all.iter().map(|_| None).collect(),
            groups: entries.iter().map(|_| None).collect(),
            arenas: arena::Arenas::new(entries.len(), all.len()),
        };
        let held = Mutex::new(held);
        let program = Program {
            device,
            queue,
            name,
            built,
            entries,
            faults,
            limits: on.limits(),
            threads: on.threads(),
            held,
        };
        program.fault()?;
        Ok(program)
    }

    /// Returns an error if the device has reported one since the last call.
    fn fault(&self) -> Result<(), String> {
        let list = self.faults.lock().map(|mut list| std::mem::take(&mut *list)).unwrap_or_default();
        match list.first() {
            None => Ok(()),
            Some(fault) => Err(format!("the device `{}`: {}", self.name, fault.trim())),
        }
    }

    /// Runs thread groups, and appends the printed text to `stdout`. Returns the duration of the dispatch itself
    /// in seconds.
    fn run(&self, launch: Launch<'_>, stdout: &mut String) -> Result<f64, RunError> {
        let Launch { module, entry, groups, buffers, options: Options { reads, .. }, .. } = launch;
        let reads = *reads;
        let other = |message: String| RunError { message, span: Span::NONE, thread: [0; 3] };
        let limit = self.limits.max_compute_workgroups_per_dimension;
        if let Some(most) = groups.iter().find(|&&n| n > limit) {
            return Err(other(format!(
                "{most} thread groups along an axis; `{}` has at most {limit}",
                self.name
            )));
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = &mut *held;
        self.upload(module, entry, groups, buffers, held).map_err(other)?;
        if self.has_arena(entry) {
            self.save(entry, held);
        }
        let mut too_small = 0;
        let seconds = loop {
            let each = self.make_arena(entry, groups, too_small, held).map_err(other)?;
            let seconds = self.submit(entry, groups, held).map_err(other)?;
            if !self.was_short(entry, each, held).map_err(other)? {
                break seconds;
            }
            too_small = each;
        };
        let reflection = &self.built.reflection;
        let size = reflection.entries[entry].group_size;
        let wanted = self.wanted(module, entry, reads, held);
        let found = self.read(&wanted, held).map_err(other)?;
        let mut failed = None;
        for (&(number, _), bytes) in wanted.iter().zip(&found) {
            let binding = &reflection.bindings[number];
            match binding.kind {
                BindingKind::Uniform
                | BindingKind::ReadOnlyStorage
                | BindingKind::Scratch
                | BindingKind::Arena
                | BindingKind::ArenaState => {}
                BindingKind::Storage => {
                    transfer::from_device(module, binding, bytes, buffers);
                    if let (Some(resource), Some(global)) = (&mut held.buffers[number], binding.global) {
                        resource.stamp = buffers.stamp(global);
                    }
                }
                BindingKind::ErrorWord => failed = report::error(reflection, bytes),
                BindingKind::PrintLog => {
                    report::printed(reflection, bytes, groups, size, stdout).map_err(other)?;
                }
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(seconds),
        }
    }

    /// Runs thread groups on what the device holds. Returns the duration in seconds.
    fn submit(&self, entry: usize, groups: [u32; 3], held: &mut Held) -> Result<f64, String> {
        let group = self.group(entry, held);
        let start = Instant::now();
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let alone = self.built.reflection.entries[entry].first_group_last && groups != [1; 3];
        for groups in [Some(groups), alone.then_some([1; 3])].into_iter().flatten() {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&self.entries[entry].pipeline);
            pass.set_bind_group(0, group, &[]);
            pass.dispatch_workgroups(groups[0], groups[1], groups[2]);
        }
        self.queue.submit([encoder.finish()]);
        self.wait()?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Copies to the device the buffers that an entry point needs and the host has changed.
    fn upload(
        &self,
        module: &Module,
        entry: usize,
        groups: [u32; 3],
        buffers: &Buffers,
        held: &mut Held,
    ) -> Result<(), String> {
        for uses in &self.built.reflection.entries[entry].uses {
            let binding = &self.built.reflection.bindings[uses.binding];
            match binding.kind {
                BindingKind::Scratch => {
                    self.make_scratch(entry, groups, uses.binding, held)?;
                    continue;
                }
                BindingKind::Arena | BindingKind::ArenaState => continue,
                BindingKind::Uniform
                | BindingKind::Storage
                | BindingKind::ReadOnlyStorage
                | BindingKind::ErrorWord
                | BindingKind::PrintLog => {}
            }
            let stamp = binding.global.map_or(0, |g| buffers.stamp(g));
            let slot = &mut held.buffers[uses.binding];
            if let Some(resource) = slot
                && resource.stamp == stamp
            {
                if binding.global.is_none() {
                    // For the log it suffices to clear the first word; the error word is cleared as a whole.
                    self.queue.write_buffer(&resource.buffer, 0, &[0; 32]);
                }
                continue;
            }
            let bytes = transfer::to_device(module, binding, buffers)?;
            let len = bytes.len() as u64;
            match slot {
                Some(resource) if resource.len == len => resource.stamp = stamp,
                _ => {
                    *slot = Some(self.resource(binding, len, stamp));
                    held.groups.fill_with(|| None);
                }
            }
            if let Some(resource) = slot {
                self.queue.write_buffer(&resource.buffer, 0, &bytes);
            }
        }
        self.fault()?;
        self.queue.submit([]);
        self.wait()
    }

    fn resource(&self, binding: &Binding, len: u64, stamp: u64) -> Resource {
        let usage = match binding.kind {
            BindingKind::Uniform => wgpu::BufferUsages::UNIFORM,
            _ => wgpu::BufferUsages::STORAGE,
        };
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(&binding.name),
            size: len,
            usage: usage | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        Resource { buffer, len, stamp, staging: None }
    }

    /// Allocates the memory for a large private variable of each thread of a dispatch.
    fn make_scratch(
        &self,
        entry: usize,
        groups: [u32; 3],
        number: usize,
        held: &mut Held,
    ) -> Result<(), String> {
        let binding = &self.built.reflection.bindings[number];
        let size = self.built.reflection.entries[entry].group_size;
        let threads = groups.iter().chain(&size).fold(1u64, |n, &k| n.saturating_mul(k as u64));
        let len = threads.saturating_mul(binding.stride).checked_next_multiple_of(4).unwrap_or(u64::MAX);
        let most = self.limits.max_storage_buffer_binding_size.min(self.limits.max_buffer_size);
        if len > most {
            return Err(format!(
                "`{}` of all {threads} threads takes {len} bytes of storage; `{}` has at most {most}",
                binding.name, self.name
            ));
        }
        self.ensure(number, len, held);
        Ok(())
    }

    /// The bind group of an entry point.
    fn group<'h>(&self, entry: usize, held: &'h mut Held) -> &'h wgpu::BindGroup {
        let Held { buffers, groups, .. } = held;
        groups[entry].get_or_insert_with(|| {
            let all = &self.built.reflection;
            let entries: Vec<wgpu::BindGroupEntry<'_>> = all.entries[entry]
                .uses
                .iter()
                .filter_map(|u| {
                    let resource = buffers[u.binding].as_ref()?.buffer.as_entire_binding();
                    Some(wgpu::BindGroupEntry { binding: all.bindings[u.binding].binding, resource })
                })
                .collect();
            self.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &self.entries[entry].layout,
                entries: &entries,
            })
        })
    }

    /// The bindings that are read back after a dispatch, and the number of bytes of each.
    fn wanted(
        &self,
        module: &Module,
        entry: usize,
        reads: Option<&[(Global, usize)]>,
        held: &Held,
    ) -> Vec<(usize, u64)> {
        let all = &self.built.reflection;
        let mut wanted = Vec::new();
        for uses in all.entries[entry].uses.iter().filter(|u| u.written) {
            let Some(resource) = &held.buffers[uses.binding] else { continue };
            let binding = &all.bindings[uses.binding];
            if matches!(binding.kind, BindingKind::Scratch | BindingKind::Arena | BindingKind::ArenaState) {
                continue;
            }
            let len = match (reads, binding.global) {
                (Some(reads), Some(global)) => match reads.iter().find(|r| r.0 == global) {
                    Some(read) => transfer::device_bytes(module, binding, read.1).min(resource.len),
                    None => continue,
                },
                _ => resource.len,
            };
            wanted.push((uses.binding, len));
        }
        wanted
    }

    fn wait(&self) -> Result<(), String> {
        self.device.poll(wgpu::PollType::wait_indefinitely()).map_err(|e| format!("`{}`: {e}", self.name))?;
        self.fault()
    }

    /// Reads the first bytes of buffers.
    fn read(&self, wanted: &[(usize, u64)], held: &mut Held) -> Result<Vec<Vec<u8>>, String> {
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for &(number, len) in wanted {
            let Some(resource) = &mut held.buffers[number] else { continue };
            let staging = resource.staging.get_or_insert_with(|| {
                self.device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: resource.len,
                    usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                })
            });
            encoder.copy_buffer_to_buffer(&resource.buffer, 0, staging, 0, len);
        }
        self.queue.submit([encoder.finish()]);
        let staging: Vec<(&wgpu::Buffer, u64)> = wanted
            .iter()
            .filter_map(|&(number, len)| Some((held.buffers[number].as_ref()?.staging.as_ref()?, len)))
            .collect();
        for (buffer, len) in &staging {
            buffer.map_async(wgpu::MapMode::Read, ..*len, |_| {});
        }
        self.wait()?;
        let mut found = Vec::new();
        for (buffer, len) in staging {
            let view = buffer.get_mapped_range(..len).map_err(|e| format!("`{}`: {e}", self.name))?;
            found.push(view.to_vec());
            drop(view);
            buffer.unmap();
        }
        Ok(found)
    }
}

fn layout_entry(binding: &Binding) -> wgpu::BindGroupLayoutEntry {
    let ty = match binding.kind {
        BindingKind::Uniform => wgpu::BufferBindingType::Uniform,
        BindingKind::ReadOnlyStorage => wgpu::BufferBindingType::Storage { read_only: true },
        BindingKind::Storage
        | BindingKind::ErrorWord
        | BindingKind::PrintLog
        | BindingKind::Scratch
        | BindingKind::Arena
        | BindingKind::ArenaState => wgpu::BufferBindingType::Storage { read_only: false },
    };
    wgpu::BindGroupLayoutEntry {
        binding: binding.binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    }
}
