//! A dispatch of compiled code: workers take runs of groups until there are none.
//!
//! The calling thread begins alone. If groups are left after a few microseconds, the other threads are called: they are
//! rayon's, so they are there already, but waking them takes longer than a small dispatch. What a worker takes at once
//! grows from one group, so that groups that take long are shared, too.
//!
//! What threads only add to, such as the gradients of what they share, each worker adds to zeros of its own, without
//! locks, and in the end to the buffer: if that is small beside the number of threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ir::interp::RunError;
use native::{Compiled, Desc, Worker};

use crate::{Buffers, Cost, Faster, group_at, phases};

/// Other threads are called after so long: about what waking one takes.
const ALONE: Duration = Duration::from_micros(10);

/// Groups are taken one by one, two by two, and so on, until that takes so long: then faster code can take over.
const GLANCE: Duration = Duration::from_micros(500);

/// Bytes of a buffer of sums that workers have copies of, at most; and its numbers for each thread.
const MOST_SUMS: u64 = 256 << 10;
const SUMS_EACH: u64 = 4;

/// A worker's own zeros in the place of a buffer.
struct Sum {
    global: usize,
    bits: u32,
    count: u64,
    memory: Vec<u128>,
}

/// What a worker has done, by the first group it concerns.
#[derive(Default)]
struct Done {
    printed: Vec<(u64, String)>,
    failed: Option<(u64, RunError)>,
    arena_bytes: u64,
}

pub(crate) fn dispatch(
    (code, faster): (&Compiled, Option<&dyn Faster>),
    entry: usize,
    groups: [u32; 3],
    buffers: &mut Buffers,
    threads: usize,
    stdout: &mut String,
) -> Result<Cost, RunError> {
    let descs = buffers.descs();
    let n: u64 = groups.iter().map(|&n| n as u64).product();
    let threads = if threads == 0 { rayon::current_num_threads() } else { threads };
    let threads = (threads as u64).min(n).max(1);
    let done = Mutex::new(Done::default());
    let stop = AtomicBool::new(false);
    for range in phases(n, code.has_barrier(entry)) {
        let threads = threads.min(range.end - range.start);
        let work = Work {
            code,
            faster,
            entry,
            groups,
            descs: &descs,
            end: range.end,
            alone: threads == 1,
            begin: if threads == 1 { n } else { 1 },
            // short enough that all workers end together, long enough that taking one costs nothing
            run: if threads == 1 { n } else { (n / (threads.max(1) * 16)).clamp(1, 4096) },
            next: AtomicU64::new(range.start),
            stop: &stop,
            done: &done,
        };
        if threads == 1 {
            let _ = work.all(|| {});
        } else if threads > 1 {
            rayon::in_place_scope(|scope| {
                let others = || {
                    for _ in 1..threads {
                        scope.spawn(|_| {
                            let _ = work.all(|| {});
                        });
                    }
                };
                let _ = work.all(others);
            });
        }
    }
    let Done { mut printed, failed, arena_bytes } = done.into_inner().unwrap_or_else(|e| e.into_inner());
    printed.sort_by_key(|p| p.0);
    stdout.extend(printed.into_iter().map(|p| p.1));
    match failed {
        Some((_, error)) => Err(error),
        None => Ok(Cost { arena_bytes, ..Cost::default() }),
    }
}

/// What the workers of a dispatch share.
struct Work<'a> {
    code: &'a Compiled,
    /// What replaces it.
    faster: Option<&'a dyn Faster>,
    entry: usize,
    groups: [u32; 3],
    descs: &'a [Desc],
    end: u64,
    /// Whether there is one worker.
    alone: bool,
    /// Groups that a worker takes at once, at first and at most.
    begin: u64,
    run: u64,
    next: AtomicU64,
    stop: &'a AtomicBool,
    done: &'a Mutex<Done>,
}

impl Work<'_> {
    /// Takes groups until there are none; calls for help once if that takes long.
    fn all(&self, help: impl FnOnce()) -> Option<()> {
        // SAFETY: the buffers are borrowed uniquely by `dispatch` until all workers have ended, of the
        // sizes that the descriptors say and aligned. What workers do to them at the same time is what
        // the program says; compiled code treats them as bytes, as hardware does.
        let mut descs = self.descs.to_vec();
        let (mut sums, private) = self.own_sums(&mut descs);
        let worker_of = |code| unsafe {
            let mut worker = Worker::with_buffers(code, &descs);
            if self.alone || private {
                worker.set_alone();
            }
            worker
        };
        let mut worker = worker_of(self.code);
        let mut faster = self.faster;
        let start = Instant::now();
        let mut glance = start;
        let mut help = Some(help);
        let mut arena_bytes = 0;
        let mut run = if faster.is_some() { 1 } else { self.begin };
        while !self.stop.load(Ordering::Relaxed) {
            if let Some(code) = faster.and_then(|f| f.code()) {
                arena_bytes += worker.arena_bytes();
                worker = worker_of(code);
                faster = None;
                run = run.max(self.begin);
            }
            let first = self.next.fetch_add(run, Ordering::Relaxed);
            if first >= self.end {
                break;
            }
            let end = (first + run).min(self.end);
            let result = worker.run_groups(self.entry, (first..end).map(|k| group_at(self.groups, k)));
            let printed = worker.take_stdout();
            if !printed.is_empty() || result.is_err() {
                let mut done = self.done.lock().ok()?;
                if !printed.is_empty() {
                    done.printed.push((first, printed));
                }
                if let Err(error) = result {
                    self.stop.store(true, Ordering::Relaxed);
                    if done.failed.as_ref().is_none_or(|f| first < f.0) {
                        done.failed = Some((first, error));
                    }
                }
            }
            if let Some(faster) = faster {
                let now = Instant::now();
                faster.spent(now - glance);
                if now - glance < GLANCE {
                    run = (run * 2).min(self.run);
                }
                glance = now;
            } else {
                run = (run * 2).min(self.run);
            }
            if end < self.end
                && start.elapsed() > ALONE
                && let Some(help) = help.take()
            {
                help();
            }
        }
        arena_bytes += worker.arena_bytes();
        drop(worker);
        let mut done = self.done.lock().ok()?;
        done.arena_bytes += arena_bytes;
        // Under the lock, so that workers add one after the other.
        for sum in &mut sums {
            sum.add_to(&self.descs[sum.global]);
        }
        Some(())
    }

    /// Puts zeros of the worker's own in the place of what is only added to; says whether floats are added to nothing
    /// else.
    fn own_sums(&self, descs: &mut [Desc]) -> (Vec<Sum>, bool) {
        if self.alone {
            return (Vec::new(), false);
        }
        let facts = self.code.sums(self.entry);
        let groups: u64 = self.groups.iter().map(|&n| u64::from(n)).product();
        let most = groups.saturating_mul(self.code.group_threads(self.entry)).saturating_mul(SUMS_EACH);
        let mut sums = Vec::new();
        for &(global, bits) in &facts.globals {
            let count = descs.get(global).map_or(0, |desc| desc.count);
            let bytes = count.saturating_mul(u64::from(bits / 8));
            if count == 0 || count > most || bytes > MOST_SUMS {
                continue;
            }
            // One element more, as every buffer has.
            let mut memory = vec![0u128; bytes as usize / 16 + 2];
            descs[global].ptr = memory.as_mut_ptr().cast();
            sums.push(Sum { global, bits, count, memory });
        }
        let private = facts.all && sums.len() == facts.globals.len();
        (sums, private)
    }
}

impl Sum {
    /// Adds what is not zero to the buffer.
    fn add_to(&mut self, desc: &Desc) {
        let count = self.count as usize;
        // SAFETY: the buffer has so many floats, and no other worker is between here and the lock's end; so has the
        // worker's memory.
        unsafe {
            if self.bits == 64 {
                let to = std::slice::from_raw_parts_mut(desc.ptr.cast::<f64>(), count);
                let from = std::slice::from_raw_parts(self.memory.as_ptr().cast::<f64>(), count);
                to.iter_mut().zip(from).filter(|(_, x)| **x != 0.0).for_each(|(sum, x)| *sum += x);
            } else {
                let to = std::slice::from_raw_parts_mut(desc.ptr.cast::<f32>(), count);
                let from = std::slice::from_raw_parts(self.memory.as_ptr().cast::<f32>(), count);
                to.iter_mut().zip(from).filter(|(_, x)| **x != 0.0).for_each(|(sum, x)| *sum += x);
            }
        }
    }
}
