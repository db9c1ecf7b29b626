//! Dispatches on an NVIDIA device, through the driver's own interface.
//!
//! The driver compiles PTX once for a module. Buffers have the CPU's layout on the device and stay there
//! between dispatches. A buffer is copied to the device if the host has changed it since
//! ([`Buffers::stamp`]), and back after a dispatch if the caller reads it. Memory that the host itself has on
//! the device is used in place. The size of a thread's part of the arena is that of [`crate::arena`]: if it was too
//! small, the buffers that the kernel may have written are restored, and the dispatch is repeated with larger parts.

mod driver;
mod plan;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ir::interp::RunError;
use ir::{Global, Module, Space, Span};

use crate::{Buffers, Cost, DeviceInfo, Launch, Options, arena};
use plan::Extent;

pub use plan::{Code, Kernel, Print};

/// The devices that the driver can use, or the reason why there are none; programs run on the first one.
pub fn devices() -> Result<Vec<DeviceInfo>, String> {
    let (driver, count) = driver::open()?;
    (0..count)
        .map(|k| {
            let (name, generation) = driver::describe(k)?;
            Ok(DeviceInfo {
                name,
                kind: format!("sm_{generation}"),
                interface: "CUDA".into(),
                driver: format!("CUDA {}.{}", driver / 1000, driver % 1000 / 10),
                numbers: vec!["f16", "f64", "i64", "atomic i64", "atomic f32"],
                subgroups: (32, 32),
            })
        })
        .collect()
}

/// The limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of groups per launch along each axis.
    pub groups: [u32; 3],
    /// The maximum number of threads per group along each axis.
    pub group_size: [u32; 3],
    /// The maximum number of threads per group.
    pub threads: u32,
}

/// A driver that runs kernels: NVIDIA's driver on one device, or a substitute in tests.
pub trait Driver: Send + Sync {
    /// The device's name.
    fn name(&self) -> &str;
    /// The device's generation, such as 80 for sm_80.
    fn generation(&self) -> u32;
    /// The device's limits.
    fn limits(&self) -> Limits;
    /// The number of bytes of free memory.
    fn free_bytes(&self) -> Result<u64, String>;
    /// Allocates `len` zeroed bytes.
    fn zeros(&self, len: u64) -> Result<Box<dyn Memory>, String>;
    /// Refers to the host's memory on this device, which must live for as long as it is used, and is not
    /// freed.
    fn borrow(&self, address: u64, len: u64) -> Box<dyn Memory>;
    /// Compiles PTX, and looks up the kernels with these names.
    fn load(&self, text: &str, names: &[&str]) -> Result<Box<dyn Kernels>, String>;
}

/// Memory on a device, which is freed on drop.
#[allow(clippy::len_without_is_empty)]
pub trait Memory: Send + Sync {
    /// The address.
    fn address(&self) -> u64;
    /// The number of bytes.
    fn len(&self) -> u64;
    /// Sets the first `len` bytes to zero.
    fn clear(&self, len: u64) -> Result<(), String>;
    /// Writes the first bytes.
    fn write(&self, bytes: &[u8]) -> Result<(), String>;
    /// Reads the first bytes.
    fn read(&self, bytes: &mut [u8]) -> Result<(), String>;
    /// Allocates a copy.
    fn duplicate(&self) -> Result<Box<dyn Memory>, String>;
    /// Overwrites the content with that of a duplicate.
    fn restore(&self, duplicate: &dyn Memory) -> Result<(), String>;
}

/// Compiled kernels on a device.
pub trait Kernels: Send + Sync {
    /// Starts a launch of a kernel, given by its index. There must be as many parameters as the kernel has,
    /// and the memory that they refer to must live until the launch was waited for.
    fn launch(
        &self,
        kernel: usize,
        groups: [u32; 3],
        group_size: [u32; 3],
        parameters: &[u64],
    ) -> Result<(), String>;
    /// Waits for all work on the device that was started by this process.
    fn wait(&self) -> Result<(), String>;
}

/// The first device of this machine.
pub fn first() -> Result<Arc<dyn Driver>, String> {
    driver::first()
}

/// A compiled module on a device.
pub struct Program {
    driver: Arc<dyn Driver>,
    kernels: Box<dyn Kernels>,
    code: Code,
    held: Mutex<Held>,
}

/// The state that stays on the device between dispatches.
struct Held {
    /// By index among the code's globals.
    buffers: Vec<Option<Resource>>,
    /// The error words, and the arena's state.
    reports: Box<dyn Memory>,
    log: Option<Box<dyn Memory>>,
    arena: Option<Box<dyn Memory>>,
    /// Bytes of the arena wanted per thread, by kernel.
    arena_wanted: Vec<u64>,
}

/// Copies of buffers, by index among the code's globals.
type Saved = Vec<(usize, Box<dyn Memory>)>;

/// A buffer on the device.
struct Resource {
    memory: Box<dyn Memory>,
    /// The number of bytes bound by the host, and the size of an element.
    len: usize,
    element: u64,
    /// The stamp of the host's buffer when it was copied.
    stamp: u64,
    /// The memory belongs to the host.
    is_borrowed: bool,
}

impl crate::Program for Program {
    fn dispatch(&self, launch: Launch<'_>) -> Result<(Cost, Option<f64>), RunError> {
        // The text of a device arrives all at once.
        let (printed, mut text) = (launch.printed, String::new());
        let done = self.run(launch, &mut text);
        printed.all(text);
        done.map(|seconds| (Cost::default(), Some(seconds)))
    }

    fn uses_device_memory(&self) -> bool {
        true
    }
}

impl Program {
    /// Has the driver compile a module.
    pub fn new(driver: Arc<dyn Driver>, code: Code) -> Result<Program, String> {
        let names: Vec<&str> = code.kernels.iter().map(|k| k.name.as_str()).collect();
        let kernels = driver.load(&code.text, &names)?;
        let log = !code.prints.is_empty();
        let held = Held {
            buffers: code.globals.iter().map(|_| None).collect(),
            reports: driver.zeros(plan::REPORT_BYTES)?,
            log: log.then(|| driver.zeros(plan::LOG_BYTES)).transpose()?,
            arena: None,
            arena_wanted: code.kernels.iter().map(|_| arena::FIRST).collect(),
        };
        Ok(Program { driver, kernels, code, held: Mutex::new(held) })
    }

    /// Runs thread groups, and appends the printed text to `stdout`. Returns the duration of the dispatch itself
    /// in seconds.
    fn run(&self, launch: Launch<'_>, stdout: &mut String) -> Result<f64, RunError> {
        let Launch { module, entry, groups, buffers, options: Options { reads, .. }, .. } = launch;
        let reads = *reads;
        let other = |message: String| RunError { message, span: Span::NONE, thread: [0; 3] };
        let kernel = &self.code.kernels[entry];
        plan::check(kernel, groups, &self.driver.limits(), self.driver.name()).map_err(other)?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = &mut *held;
        self.upload(buffers, held).map_err(other)?;
        if held.buffers.iter().flatten().any(|resource| resource.is_borrowed) {
            // The owner of the memory may still be using it, on any stream.
            self.kernels.wait().map_err(other)?;
        }
        let (seconds, error) = self.launch(module, entry, groups, held).map_err(other)?;
        self.download(module, buffers, reads, held).map_err(other)?;
        self.printed(kernel, groups, held, stdout).map_err(other)?;
        error.map_or(Ok(seconds), Err)
    }

    /// Copies to the device the buffers that the host has changed.
    fn upload(&self, buffers: &Buffers, held: &mut Held) -> Result<(), String> {
        for (slot, &global) in held.buffers.iter_mut().zip(&self.code.globals) {
            let (bytes, stamp) = (buffers.bytes(global), buffers.stamp(global));
            let element = buffers.element(global).max(1);
            if let Some((address, len)) = buffers.on_device(global) {
                let memory = self.driver.borrow(address, len as u64);
                *slot = Some(Resource { memory, len, element, stamp, is_borrowed: true });
                continue;
            }
            if slot.as_ref().is_some_and(|r| r.stamp == stamp && r.len == bytes.len()) {
                continue;
            }
            if slot.as_ref().is_none_or(|r| r.len != bytes.len() || r.is_borrowed) {
                *slot = None;
                let memory = self.driver.zeros(bytes.len().max(1) as u64)?;
                *slot = Some(Resource { memory, len: bytes.len(), element, stamp, is_borrowed: false });
            }
            if let Some(resource) = slot {
                resource.memory.write(bytes)?;
                resource.stamp = stamp;
            }
        }
        Ok(())
    }

    /// Launches until the arena is large enough. Returns the duration of the last launch in seconds, and the
    /// error that stopped a thread.
    fn launch(
        &self,
        module: &Module,
        entry: usize,
        groups: [u32; 3],
        held: &mut Held,
    ) -> Result<(f64, Option<RunError>), String> {
        let kernel = &self.code.kernels[entry];
        let threads = plan::threads(kernel, groups);
        let mut too_small = 0;
        loop {
            let saved = if kernel.uses_arena { self.save(module, held)? } else { Vec::new() };
            held.reports.clear(plan::REPORT_BYTES)?;
            let each = match kernel.uses_arena {
                true => self.make_arena(entry, (groups, threads), too_small, held)?,
                false => 0,
            };
            if let Some(log) = &held.log {
                log.clear(8)?;
            }
            let extent = |slot: &Option<Resource>| match slot {
                Some(r) if r.len > 0 => Extent { at: r.memory.address(), count: r.len as u64 / r.element },
                _ => Extent::default(),
            };
            let extents: Vec<Extent> = held.buffers.iter().map(extent).collect();
            let words = threads.saturating_mul(each / 4);
            let arena = Extent { at: held.arena.as_ref().map_or(0, |a| a.address()), count: words };
            let arena = self.code.has_arena.then_some(arena);
            let log = held.log.as_ref().map(|log| Extent { at: log.address(), count: plan::LOG_WORDS });
            let parameters = plan::parameters(&extents, held.reports.address(), arena, log);
            let start = Instant::now();
            for groups in plan::launches(kernel, groups) {
                // The parameters are those listed at the head of `codegen_llvm::aot::ptx`, for the code's
                // globals in order. Their memory belongs to `held`, which is locked, and the launch is waited
                // for.
                if let Err(why) = self.kernels.launch(entry, groups, kernel.group_size, &parameters) {
                    let _ = self.kernels.wait();
                    return Err(why);
                }
            }
            self.kernels.wait()?;
            let seconds = start.elapsed().as_secs_f64();
            let mut bytes = [0; plan::REPORT_BYTES as usize];
            held.reports.read(&mut bytes)?;
            let (error, state) = bytes.split_at(plan::ERROR_BYTES);
            let (words, _) = error.as_chunks::<4>();
            let words: [u32; 4] = std::array::from_fn(|k| u32::from_le_bytes(words[k]));
            if !arena::was_short(state) {
                return Ok((seconds, plan::error(&self.code, words)));
            }
            for (number, memory) in saved {
                if let Some(resource) = &held.buffers[number] {
                    resource.memory.restore(&*memory)?;
                }
            }
            held.arena_wanted[entry] = arena::larger(each);
            too_small = each;
        }
    }

    /// Copies the buffers that a kernel may write.
    fn save(&self, module: &Module, held: &Held) -> Result<Saved, String> {
        let mut saved = Vec::new();
        for (number, (slot, &global)) in held.buffers.iter().zip(&self.code.globals).enumerate() {
            let Some(resource) = slot else { continue };
            if is_written(module, global) {
                saved.push((number, resource.memory.duplicate()?));
            }
        }
        Ok(saved)
    }

    /// Makes the arena large enough for the threads of a dispatch, and tells them the size of their parts. Returns
    /// that size.
    fn make_arena(
        &self,
        entry: usize,
        (groups, threads): ([u32; 3], u64),
        too_small: u64,
        held: &mut Held,
    ) -> Result<u64, String> {
        let has = held.arena.as_ref().map_or(0, |a| a.len());
        let room = self.driver.free_bytes()?.saturating_add(has).min(plan::MOST_ARENA);
        let each = arena::part(held.arena_wanted[entry], too_small, threads, room).ok_or_else(|| {
            format!(
                "what {threads} threads keep takes more than {too_small} bytes each; `{}` has room for {room} bytes",
                self.driver.name()
            )
        })?;
        let state = arena::state(each, groups, threads);
        held.reports.write(&[&[0; plan::ERROR_BYTES][..], &state].concat())?;
        let bytes = threads * each;
        if bytes > has {
            held.arena = None;
            held.arena = Some(self.driver.zeros(bytes)?);
        }
        Ok(each)
    }

    /// Copies back the buffers that the caller reads.
    fn download(
        &self,
        module: &Module,
        buffers: &mut Buffers,
        reads: Option<&[(Global, usize)]>,
        held: &mut Held,
    ) -> Result<(), String> {
        for (slot, &global) in held.buffers.iter_mut().zip(&self.code.globals) {
            let Some(resource) = slot.as_mut().filter(|r| !r.is_borrowed) else { continue };
            let len = match reads {
                _ if !is_written(module, global) => continue,
                None => resource.len,
                Some(reads) => match reads.iter().find(|r| r.0 == global) {
                    Some(read) => read.1.min(resource.len),
                    None => continue,
                },
            };
            if len > 0 {
                resource.memory.read(&mut buffers.bytes_mut(global)[..len])?;
                resource.stamp = buffers.stamp(global);
            }
        }
        Ok(())
    }

    /// Appends the text of the log to `stdout`.
    fn printed(
        &self,
        kernel: &Kernel,
        groups: [u32; 3],
        held: &Held,
        stdout: &mut String,
    ) -> Result<(), String> {
        let Some(log) = &held.log else { return Ok(()) };
        let mut head = [0; 8];
        log.read(&mut head)?;
        let used = u64::from_le_bytes(head).min(plan::LOG_WORDS);
        let mut bytes = vec![0; 8 + 4 * used as usize];
        log.read(&mut bytes)?;
        let (words, _) = bytes.as_chunks::<4>();
        let words: Vec<u32> = words.iter().map(|w| u32::from_le_bytes(*w)).collect();
        plan::printed(&self.code, &words, groups, kernel.group_size, stdout)
    }
}

/// Returns true if kernels may write the host's memory bound to a global: a buffer, or the memory that a
/// pointer refers to.
fn is_written(module: &Module, global: Global) -> bool {
    let data = &module.globals[global];
    data.space == Space::ReadWrite || data.pointee(&module.mem).is_some()
}
