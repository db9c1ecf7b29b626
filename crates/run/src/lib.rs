//! Runs entry points: buffers, dispatch over thread groups, and the two ways to execute.
//!
//! A dispatch runs every thread of `groups` thread groups on [`Buffers`], in parallel over cores if
//! asked for. Both backends give the same buffers, and output in the order of threads: first by
//! group (x fastest), then within the group. (Where threads race for the same memory, order shows;
//! one worker thread makes it that of the interpreter.)
//!
//! Groups run in any order, with one promise: in a kernel with barriers the first group runs when all
//! others have ended. Programs let that group read, after a barrier for all memory, what the others
//! have added up; on hardware that runs all groups at once they get away with it.
//!
//! [`Backend::Interp`] is the reference and runs on one core; [`Backend::Compiled`] runs compiled
//! code.

mod buffers;
mod compiled;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "wgpu")]
pub mod gpu;
mod interpreted;
mod pool;
mod printed;
mod races;
mod sums;

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

/// How code is executed.
#[derive(Clone, Copy)]
pub enum Backend<'c> {
    /// The reference interpreter.
    Interp,
    /// Machine code of the same module.
    Compiled(&'c Compiled),
    /// The same, to be replaced by faster code as soon as there is some.
    Tiers(&'c Compiled, &'c dyn Faster),
    /// A graphics processor, with the same module.
    #[cfg(feature = "wgpu")]
    Gpu(&'c gpu::Program),
    /// One of NVIDIA's devices, with the same module.
    #[cfg(feature = "cuda")]
    Cuda(&'c cuda::Program),
}

/// Code that takes over while a dispatch runs, between groups. It must give the same bits.
pub trait Faster: Sync {
    /// The code, once it is there.
    fn code(&self) -> Option<&Compiled>;
    /// Says that a worker has spent so much time on the slower code.
    fn spent(&self, time: Duration);
}

/// How a dispatch is spread.
#[derive(Clone, Copy, Default)]
pub struct Options<'r> {
    /// Worker threads; 0 for one for each core.
    pub threads: usize,
    /// The buffers that the host reads after the dispatch, and how many bytes of each; `None` for all. A graphics processor
    /// keeps the others to itself.
    pub reads: Option<&'r [(Global, usize)]>,
    /// The same bits in every run and with any number of workers: sums are added up in an order that the dispatch says,
    /// and one worker runs what depends on the order of threads in any other way.
    pub deterministic: bool,
    /// Compiled code may take numbers too small to be normal for zeros.
    pub flush_subnormals: bool,
    /// Bytes that threads may hold together for large arrays and for what reverse mode keeps; `None` for
    /// [`native::DEFAULT_MEMORY`].
    pub memory: Option<u64>,
    /// Seconds that the interpreter may take; `None`: any. Nothing stops machine code from outside.
    pub seconds: Option<f64>,
    /// Set by whoever wants the dispatch to end: it is looked at between groups.
    pub stop: Option<&'r AtomicBool>,
    /// Takes what `printf` writes, as soon as it is its turn; `None`: [`Output::stdout`] has it in the end.
    pub console: Option<&'r Arc<dyn Console>>,
}

impl Options<'_> {
    /// True once the dispatch is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// The error of a dispatch that was told to end.
pub(crate) fn interrupted() -> RunError {
    RunError { message: "the run was interrupted".into(), span: Span::NONE, thread: [0; 3] }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// What a dispatch gives besides its buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The text that `printf` wrote and no [`Console`] took.
    pub stdout: String,
    /// The time it took.
    pub seconds: f64,
    /// What else it took.
    pub cost: Cost,
}

/// A dispatch that did not end.
#[derive(Clone, Debug, PartialEq)]
pub struct Stopped {
    /// Why.
    pub error: RunError,
    /// The text that `printf` had written and no [`Console`] took.
    pub stdout: String,
}

/// What a dispatch took besides time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions of the IR that were executed, the ends of regions among them. Only the interpreter counts.
    pub steps: u64,
    /// Bytes allocated for what reverse mode keeps and for large arrays, in chunks of 64 KiB and more, over all
    /// workers. Only compiled code counts.
    pub arena_bytes: u64,
}

/// Runs `groups` thread groups of the module's entry point number `entry`.
pub fn dispatch(
    backend: Backend<'_>,
    module: &Module,
    entry: usize,
    groups: [u32; 3],
    buffers: &mut Buffers,
    options: Options<'_>,
) -> Result<Output, Stopped> {
    let start = Instant::now();
    let printed = printed(&options);
    #[cfg(feature = "cuda")]
    let is_here = matches!(backend, Backend::Cuda(_)) || !buffers.any_on_device();
    #[cfg(not(feature = "cuda"))]
    let is_here = !buffers.any_on_device();
    if !is_here {
        let message = "memory on a CUDA device is bound, and the program does not run there".into();
        let error = RunError { message, span: Span::NONE, thread: [0; 3] };
        return finished(module, entry, Err(error), start, &printed);
    }
    // What a device printed comes at once.
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    let mut text = String::new();
    let result = match backend {
        Backend::Interp => interpreted::dispatch(module, entry, groups, buffers, &options, &printed, None),
        Backend::Compiled(code) => {
            compiled::dispatch((code, None), entry, groups, buffers, &options, &printed)
        }
        Backend::Tiers(code, faster) => {
            compiled::dispatch((code, Some(faster)), entry, groups, buffers, &options, &printed)
        }
        #[cfg(feature = "wgpu")]
        Backend::Gpu(program) => {
            let done = program.dispatch(module, entry, groups, buffers, options.reads, &mut text);
            done.map(|seconds| (Cost::default(), Some(seconds)))
        }
        #[cfg(feature = "cuda")]
        Backend::Cuda(program) => {
            let done = program.dispatch(module, entry, groups, buffers, options.reads, &mut text);
            done.map(|seconds| (Cost::default(), Some(seconds)))
        }
    };
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    printed.all(text);
    finished(module, entry, result, start, &printed)
}

/// The text of a dispatch to come.
fn printed(options: &Options<'_>) -> Arc<Printed> {
    let memory = options.memory.unwrap_or(native::DEFAULT_MEMORY);
    Arc::new(Printed::new(options.console.cloned(), memory))
}

/// How a dispatch ended. An error that names no line of its own has the kernel's.
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

/// Runs thread groups on the interpreter, and finds accesses of one place by several threads that nothing orders.
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
    let result = interpreted::dispatch(module, entry, groups, buffers, &options, &printed, Some(&mut races));
    let found = races.all(|buffer| interpreted::place(module, buffers, buffer));
    (finished(module, entry, result, start, &printed), found)
}

/// The ranges of groups to run one after the other, given whether threads wait for each other.
fn phases(n: u64, barrier: bool) -> [std::ops::Range<u64>; 2] {
    let first = u64::from(barrier && n > 1);
    [first..n, 0..first]
}

/// The place of group number `k` of a dispatch: x fastest.
fn group_at(groups: [u32; 3], k: u64) -> [u32; 3] {
    let [x, y, _] = groups.map(u64::from);
    [(k % x) as u32, (k / x % y) as u32, (k / (x * y)) as u32]
}

/// A thread's place in the order in which the CPU runs threads: its group, then its number there.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn thread_order(thread: [u32; 3], groups: [u32; 3], size: [u32; 3]) -> [u64; 2] {
    let group: [u64; 3] = std::array::from_fn(|k| u64::from(thread[k] / size[k]));
    let local: [u64; 3] = std::array::from_fn(|k| u64::from(thread[k] % size[k]));
    let [gx, gy, _] = groups.map(u64::from);
    let [sx, sy, _] = size.map(u64::from);
    [group[0] + gx * (group[1] + gy * group[2]), local[0] + sx * (local[1] + sy * local[2])]
}
