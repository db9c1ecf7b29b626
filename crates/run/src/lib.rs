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
mod races;
mod sums;

use std::time::{Duration, Instant};

use ir::{Global, Module};
use native::Compiled;

pub use buffers::Buffers;
pub use ir::interp::{AccessKind, RunError};
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
#[derive(Clone, Copy, Debug, Default)]
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
}

/// What a dispatch gives besides its buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// What `printf` wrote.
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
    /// What `printf` had written.
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
    let mut stdout = String::new();
    let result = match backend {
        Backend::Interp => {
            interpreted::dispatch(module, entry, groups, buffers, &mut stdout, None, options.memory)
        }
        Backend::Compiled(code) => {
            compiled::dispatch((code, None), entry, groups, buffers, &options, &mut stdout)
        }
        Backend::Tiers(code, faster) => {
            compiled::dispatch((code, Some(faster)), entry, groups, buffers, &options, &mut stdout)
        }
        #[cfg(feature = "wgpu")]
        Backend::Gpu(program) => {
            match program.dispatch(module, entry, groups, buffers, options.reads, &mut stdout) {
                Ok(seconds) => return Ok(Output { stdout, seconds, cost: Cost::default() }),
                Err(error) => Err(error),
            }
        }
        #[cfg(feature = "cuda")]
        Backend::Cuda(program) => {
            match program.dispatch(module, entry, groups, buffers, options.reads, &mut stdout) {
                Ok(seconds) => return Ok(Output { stdout, seconds, cost: Cost::default() }),
                Err(error) => Err(error),
            }
        }
    };
    match result {
        Ok(cost) => Ok(Output { stdout, seconds: start.elapsed().as_secs_f64(), cost }),
        Err(error) => Err(Stopped { error, stdout }),
    }
}

/// Runs thread groups on the interpreter, and finds accesses of one place by several threads that nothing orders.
pub fn find_races(
    module: &Module,
    entry: usize,
    groups: [u32; 3],
    buffers: &mut Buffers,
) -> (Result<Output, Stopped>, Vec<Race>) {
    let start = Instant::now();
    let (mut stdout, mut races) = (String::new(), races::Races::default());
    let result = interpreted::dispatch(module, entry, groups, buffers, &mut stdout, Some(&mut races), None);
    let found = races.all(|buffer| interpreted::place(module, buffers, buffer));
    let result = match result {
        Ok(cost) => Ok(Output { stdout, seconds: start.elapsed().as_secs_f64(), cost }),
        Err(error) => Err(Stopped { error, stdout }),
    };
    (result, found)
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
