//! Runs entry points: buffers, dispatch over thread groups, and the backends that execute them.
//!
//! A dispatch runs every thread of `groups` thread groups on [`Buffers`], in parallel over cores if
//! requested. All backends give the same buffers, and output in the order of threads: first by group (x
//! fastest), then within the group. (If threads race for the same memory, the order is visible; with one
//! worker thread it is that of the interpreter.)
//!
//! Groups run in any order, with one guarantee: in a kernel with barriers the first group runs after all
//! others have ended. Some programs let that group read, after a barrier for all memory, what the others have
//! accumulated; on hardware that runs all groups at once this happens to work.
//!
//! A [`Program`] is what a backend makes of a module: it executes the entry points. [`Interpreter`] is the
//! reference.
#![cfg_attr(
    target_family = "wasm",
    expect(dead_code, unused_imports, reason = "in WebAssembly there are no threads, which this serves")
)]

#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod arena;
mod buffers;
#[cfg(not(target_family = "wasm"))]
mod compiled;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "wgpu")]
pub mod gpu;
mod interpreted;
mod pool;
mod printed;
mod races;
#[cfg(not(target_family = "wasm"))]
mod sums;
#[cfg(any(feature = "wasmi", all(feature = "host", target_family = "wasm")))]
pub mod wasm;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ir::{Global, Module, Span};
use native::Compiled;
use printed::Printed;

pub use buffers::{Buffers, Foreign};
pub use ir::interp::{AccessKind, RunError};
pub use pool::abandon_threads;
pub use printed::Console;
pub use races::{Race, RaceAccess};

/// Code that executes a module's entry points on some device.
pub trait Program: Send + Sync {
    /// Runs thread groups; the cost, and the duration in seconds if the device measures it.
    fn dispatch(&self, launch: Launch<'_>) -> Result<(Cost, Option<f64>), RunError>;

    /// The machine code in use at the moment, if the program has any.
    fn machine_code(&self) -> Option<&Compiled> {
        None
    }

    /// The number of threads of an entry point that run side by side in lanes; 1 if they run one after the other.
    fn lanes(&self, entry: usize) -> u32 {
        self.machine_code().map_or(1, |code| code.lanes(entry))
    }

    /// Returns true while the code may still be replaced by faster code.
    fn is_first_tier(&self) -> bool {
        false
    }

    /// Returns true if a dispatch ends by itself after [`Options::seconds`].
    fn keeps_time(&self) -> bool {
        false
    }

    /// Returns true if memory on a CUDA device can be bound.
    fn uses_device_memory(&self) -> bool {
        false
    }

    /// The number of threads that keep the device busy if it is a software implementation on the CPU; `None`
    /// otherwise.
    fn threads(&self) -> Option<usize> {
        None
    }
}

/// The arguments of a dispatch.
pub struct Launch<'r> {
    module: &'r Module,
    entry: usize,
    groups: [u32; 3],
    buffers: &'r mut Buffers,
    options: &'r Options<'r>,
    printed: &'r Arc<Printed>,
}

/// The reference interpreter, which runs on one core.
#[derive(Clone, Copy, Debug)]
pub struct Interpreter;

impl Program for Interpreter {
    fn dispatch(&self, launch: Launch<'_>) -> Result<(Cost, Option<f64>), RunError> {
        interpreted::dispatch(launch, None)
    }

    fn keeps_time(&self) -> bool {
        true
    }
}

#[cfg(not(target_family = "wasm"))]
impl Program for Compiled {
    fn dispatch(&self, launch: Launch<'_>) -> Result<(Cost, Option<f64>), RunError> {
        compiled::dispatch((self, None), launch)
    }

    fn machine_code(&self) -> Option<&Compiled> {
        Some(self)
    }
}

/// Code that takes over during a dispatch, between groups. It must give the same bits.
#[cfg(not(target_family = "wasm"))]
pub trait Faster: Sync {
    /// The code, once it is available.
    fn code(&self) -> Option<&Compiled>;
    /// Records that a worker has spent this time on the slower code.
    fn spent(&self, time: Duration);
}

/// Dispatches machine code that is replaced by faster code as soon as that is available.
#[cfg(not(target_family = "wasm"))]
pub fn dispatch_tiers(
    code: &Compiled,
    faster: &dyn Faster,
    launch: Launch<'_>,
) -> Result<(Cost, Option<f64>), RunError> {
    compiled::dispatch((code, Some(faster)), launch)
}

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its name.
    pub name: String,
    /// The kind of device.
    pub kind: String,
    /// The graphics interface by which it is used.
    pub interface: String,
    /// Its driver.
    pub driver: String,
    /// The number types that it supports besides those of 32 bits, and the atomic operations besides those on
    /// 32-bit integers.
    pub numbers: Vec<&'static str>,
    /// The minimum and maximum number of lanes per subgroup.
    pub subgroups: (u32, u32),
}

/// Options of a dispatch.
#[derive(Clone, Copy, Default)]
pub struct Options<'r> {
    /// Worker threads; 0 for one per core.
    pub threads: usize,
    /// Each group is known to take longer than it takes to wake a worker, so that all start at once. Else the first runs
    /// groups alone for a moment, and a dispatch of few groups may end before others come.
    pub at_once: bool,
    /// The buffers that the host reads after the dispatch, and the number of bytes to read of each; `None`
    /// for all. The others are not copied back from a graphics processor.
    pub reads: Option<&'r [(Global, usize)]>,
    /// Produce the same bits in every run and with any number of workers: sums are added in an order that
    /// depends only on the dispatch, and a kernel that depends on the order of threads in any other way runs
    /// on one worker.
    pub deterministic: bool,
    /// Compiled code may flush subnormal numbers to zero.
    pub flush_subnormals: bool,
    /// The bytes that all threads together may hold for large arrays and for what reverse mode keeps; `None`
    /// for [`native::DEFAULT_MEMORY`].
    pub memory: Option<u64>,
    /// The seconds that the interpreter may take; `None` for no limit. Machine code cannot be stopped from
    /// outside.
    pub seconds: Option<f64>,
    /// A flag that, once set, ends the dispatch: it is checked between groups.
    pub stop: Option<&'r AtomicBool>,
    /// Receives the output of `printf` as early as its order allows; if `None`, [`Output::stdout`] holds it
    /// at the end.
    pub console: Option<&'r Arc<dyn Console>>,
}

impl Options<'_> {
    /// Returns true once the dispatch is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// The error of a dispatch that was ended by its flag.
pub(crate) fn interrupted() -> RunError {
    RunError { message: "the run was interrupted".into(), span: Span::NONE, thread: [0; 3] }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// The results of a dispatch other than the contents of buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The text that `printf` wrote and that no [`Console`] took.
    pub stdout: String,
    /// The duration in seconds.
    pub seconds: f64,
    /// Further costs of the dispatch.
    pub cost: Cost,
}

/// A dispatch that stopped with an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Stopped {
    /// The error.
    pub error: RunError,
    /// The text that `printf` had written and that no [`Console`] took.
    pub stdout: String,
}

/// The costs of a dispatch besides time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The number of executed IR instructions, including the ends of regions. Only the interpreter counts
    /// them.
    pub steps: u64,
    /// Bytes allocated for what reverse mode keeps and for large arrays, in chunks of 64 KiB and more, over
    /// all workers. Only compiled code counts them.
    pub arena_bytes: u64,
}

/// Runs `groups` thread groups of the module's entry point number `entry`.
pub fn dispatch(
    program: &dyn Program,
    module: &Module,
    entry: usize,
    groups: [u32; 3],
    buffers: &mut Buffers,
    options: Options<'_>,
) -> Result<Output, Stopped> {
    let start = Instant::now();
    let printed = printed(&options);
    let result = if buffers.any_on_device() && !program.uses_device_memory() {
        let message = "memory on a CUDA device is bound, and the program does not run there".into();
        Err(RunError { message, span: Span::NONE, thread: [0; 3] })
    } else {
        program.dispatch(Launch { module, entry, groups, buffers, options: &options, printed: &printed })
    };
    finished(module, entry, result, start, &printed)
}

/// The text collector for a new dispatch.
fn printed(options: &Options<'_>) -> Arc<Printed> {
    let memory = options.memory.unwrap_or(native::DEFAULT_MEMORY);
    Arc::new(Printed::new(options.console.cloned(), memory))
}

/// The outcome of a dispatch. An error without a line of its own gets that of the kernel.
fn finished(
    module: &Module,
    entry: usize,
    result: Result<(Cost, Option<f64>), RunError>,
    start: Instant,
    printed: &Printed,
) -> Result<Output, Stopped> {
    let elapsed = start.elapsed().as_secs_f64();
    let stdout = printed.finish();
    match result {
        Ok((cost, seconds)) => Ok(Output { stdout, seconds: seconds.unwrap_or(elapsed), cost }),
        Err(mut error) => {
            if error.span == Span::NONE {
                error.span = module.funcs[module.entries[entry].func].span;
            }
            Err(Stopped { error, stdout })
        }
    }
}

/// Runs thread groups on the interpreter, and finds unordered accesses to the same place by several threads.
pub fn find_races(
    module: &Module,
    entry: usize,
    groups: [u32; 3],
    buffers: &mut Buffers,
    options: Options<'_>,
) -> (Result<Output, Stopped>, Vec<Race>) {
    let start = Instant::now();
    let mut races = races::Races::default();
    let printed = printed(&options);
    let launch = Launch { module, entry, groups, buffers, options: &options, printed: &printed };
    let result = interpreted::dispatch(launch, Some(&mut races));
    let found = races.all(|buffer| interpreted::place(module, buffers, buffer));
    (finished(module, entry, result, start, &printed), found)
}

/// The ranges of groups to run one after the other, depending on whether threads wait for each other.
fn phases(n: u64, barrier: bool) -> [std::ops::Range<u64>; 2] {
    let first = u64::from(barrier && n > 1);
    [first..n, 0..first]
}

/// The position of group number `k` of a dispatch, with x fastest.
fn group_at(groups: [u32; 3], k: u64) -> [u32; 3] {
    let [x, y, _] = groups.map(u64::from);
    [(k % x) as u32, (k / x % y) as u32, (k / (x * y)) as u32]
}

/// A thread's position in the order in which the CPU runs threads: its group, then its index within the
/// group.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn thread_order(thread: [u32; 3], groups: [u32; 3], size: [u32; 3]) -> [u64; 2] {
    let group: [u64; 3] = std::array::from_fn(|k| u64::from(thread[k] / size[k]));
    let local: [u64; 3] = std::array::from_fn(|k| u64::from(thread[k] % size[k]));
    let [gx, gy, _] = groups.map(u64::from);
    let [sx, sy, _] = size.map(u64::from);
    [group[0] + gx * (group[1] + gy * group[2]), local[0] + sx * (local[1] + sy * local[2])]
}
