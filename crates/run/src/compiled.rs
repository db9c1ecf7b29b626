//! Dispatches compiled code: workers take runs of groups until none are left.
//!
//! If a dispatch runs on one thread and need not be observed while it runs, it is executed directly
//! (`alone`), so that a small dispatch costs little. Otherwise the calling thread begins alone. If groups are
//! left after a few microseconds, the other threads are woken: they are rayon's and exist already, but waking
//! them takes longer than a small dispatch. The number of groups that a worker takes at once grows from one,
//! so that long-running groups are shared, too.
//!
//! Each worker has a share of neighbouring groups, and takes groups of other shares once its own is done. A
//! kernel that is dispatched repeatedly, as in training, therefore finds in a core's cache the data that this
//! core has written there: cache lines transferred between cores cost as much as memory accesses.
//!
//! If threads only add to a buffer, as to the gradients of shared parameters, each worker adds to a zeroed
//! copy of its own, without locks, and the copies are added to the buffer at the end (`sums`).
//!
//! If the same bits are required in every run, and such additions are all that depends on the order of
//! threads, the groups are split into portions whose number depends only on the dispatch and not on the
//! number of workers. Each portion has its own zeroed copies, and these are added to the buffer in the order
//! of the portions.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ir::Span;
use ir::interp::RunError;
use native::{Budget, Compiled, Desc, Worker};

use crate::printed::{Place, Printed, WorkerPrinter};
use crate::sums::{Sums, Wanted};
use crate::{Cost, Faster, Launch, group_at, interrupted, phases, pool};

/// Other threads are woken after this time, which is about the time that waking one takes.
const ALONE: Duration = Duration::from_micros(10);

/// The number of groups taken at once doubles until a run takes this long, so that faster code can take over
/// soon.
const GLANCE: Duration = Duration::from_micros(500);

/// The results of the workers of a dispatch.
#[derive(Default)]
struct Done {
    failed: Option<(u64, RunError)>,
    arena_bytes: u64,
    /// Sums of portions whose turn has not come, by first group, and the first group of the portion whose
    /// turn it is.
    waiting: BTreeMap<u64, Sums>,
    turn: u64,
}

pub(crate) fn dispatch(
    (code, faster): (&Compiled, Option<&dyn Faster>),
    launch: Launch<'_>,
) -> Result<(Cost, Option<f64>), RunError> {
    let Launch { entry, groups, buffers, options, printed, .. } = launch;
    let descs = buffers.descs();
    let n: u64 = groups.iter().map(|&n| n as u64).product();
    let all_threads = n.saturating_mul(code.group_threads(entry));
    let ordered = options.deterministic && code.is_ordered(entry);
    let portions = || Sums::portions(code, entry, &descs, all_threads).filter(|_| code.sums(entry).only);
    let portions = if ordered { portions() } else { None };
    let in_portions = portions.is_some();
    let threads = if ordered && !in_portions { 1 } else { options.threads };
    // A dispatch of one group needs no thread pool and does not create one.
    let pool = if threads == 1 || n <= 1 { None } else { pool::threads() };
    let threads = if threads == 0 { pool.map_or(1, |pool| pool.current_num_threads()) } else { threads };
    let threads = (threads as u64).min(n).max(1);
    let budget = Budget::new(options.memory.unwrap_or(native::DEFAULT_MEMORY));
    let phases = phases(n, code.has_barrier(entry));
    let is_seen = options.stop.is_some() || code.prints() || in_portions;
    if threads == 1 && !is_seen && (n <= 1 || faster.is_none_or(|f| f.code().is_some())) {
        return alone((code, faster), entry, groups, phases, &descs, budget, options.flush_subnormals);
    }
    let done = Mutex::new(Done::default());
    let failed = AtomicU64::new(u64::MAX);
    let printed = code.prints().then_some(printed);
    // If there are two phases, the first group comes last.
    let may_wait = phases[1].is_empty();
    for range in phases {
        let threads = threads.min(range.end - range.start);
        let work = Work {
            code,
            // All portions are run by the same code.
            faster: faster.filter(|_| !in_portions),
            entry,
            groups,
            descs: &descs,
            all_threads,
            portion: portions.map(|portions| (range.end - range.start).div_ceil(portions).max(1)),
            alone: threads == 1,
            stop: options.stop,
            flush: options.flush_subnormals,
            budget: budget.clone(),
            printed,
            may_wait,
            // Short enough that all workers end at the same time, long enough that the cost of taking a run
            // is negligible.
            run: (n / (threads.max(1) * 16)).clamp(1, 4096),
            shares: Share::of(&range, if in_portions { 1 } else { threads }),
            failed: &failed,
            done: &done,
        };
        if let Ok(mut done) = done.lock() {
            done.turn = range.start;
        }
        match pool {
            Some(pool) if threads > 1 => pool.in_place_scope(|scope| {
                let work = &work;
                let others = || {
                    for own in 1..threads as usize {
                        scope.spawn(move |_| {
                            let _ = work.all(own, || {});
                        });
                    }
                };
                if options.at_once {
                    others();
                    let _ = work.all(0, || {});
                } else {
                    let _ = work.all(0, others);
                }
            }),
            _ if threads > 0 => {
                let _ = work.all(0, || {});
            }
            _ => {}
        }
    }
    if options.is_stopped() {
        return Err(interrupted());
    }
    let Done { failed, arena_bytes, .. } = done.into_inner().unwrap_or_else(|e| e.into_inner());
    match failed {
        Some((_, error)) => Err(error),
        None => Ok((Cost { arena_bytes, ..Cost::default() }, None)),
    }
}

/// Runs all groups on this thread, one after the other.
fn alone(
    (code, faster): (&Compiled, Option<&dyn Faster>),
    entry: usize,
    groups: [u32; 3],
    phases: [Range<u64>; 2],
    descs: &[Desc],
    budget: Arc<Budget>,
    flush: bool,
) -> Result<(Cost, Option<f64>), RunError> {
    let best = faster.and_then(|f| f.code());
    // SAFETY: as in `Work::worker`.
    let mut worker = unsafe { Worker::with_buffers(best.unwrap_or(code), descs) };
    worker.set_alone();
    if flush {
        worker.set_flush();
    }
    worker.set_memory(budget);
    let start = faster.filter(|_| best.is_none()).map(|faster| (faster, Instant::now()));
    for range in phases {
        worker.run_groups(entry, range.map(|k| group_at(groups, k)))?;
    }
    if let Some((faster, start)) = start {
        faster.spent(start.elapsed());
    }
    Ok((Cost { arena_bytes: worker.arena_bytes(), ..Cost::default() }, None))
}

/// Neighbouring groups that one worker begins with. Each share has its own cache line, since taking groups
/// writes to it.
#[repr(align(128))]
struct Share {
    next: AtomicU64,
    end: u64,
}

impl Share {
    fn of(range: &Range<u64>, n: u64) -> Vec<Share> {
        let all = range.end - range.start;
        let from = |k: u64| range.start + (u128::from(all) * u128::from(k) / u128::from(n.max(1))) as u64;
        (0..n).map(|k| Share { next: AtomicU64::new(from(k)), end: from(k + 1) }).collect()
    }
}

/// The state that the workers of a dispatch share.
struct Work<'a> {
    code: &'a Compiled,
    /// The code that may replace `code`.
    faster: Option<&'a dyn Faster>,
    entry: usize,
    groups: [u32; 3],
    descs: &'a [Desc],
    /// The number of threads of the whole dispatch.
    all_threads: u64,
    /// The number of groups per portion, if sums have a fixed order.
    portion: Option<u64>,
    /// There is only one worker.
    alone: bool,
    /// A flag that, once set, ends the dispatch.
    stop: Option<&'a AtomicBool>,
    /// Subnormal numbers may be flushed to zero.
    flush: bool,
    /// The memory budget of all workers' threads together.
    budget: Arc<Budget>,
    /// The text collector of the dispatch, if the code prints.
    printed: Option<&'a Arc<Printed>>,
    /// A run's turn to print comes even if its worker waits.
    may_wait: bool,
    /// The maximum number of groups that a worker takes at once.
    run: u64,
    shares: Vec<Share>,
    /// The first group of the lowest run that failed. Groups before it are still run, so that the same
    /// failure is reported each time that the program is run.
    failed: &'a AtomicU64,
    done: &'a Mutex<Done>,
}

impl Work<'_> {
    /// Creates a worker on buffers.
    fn worker<'c>(
        &self,
        code: &'c Compiled,
        descs: &[Desc],
        private: bool,
        printer: Option<&Arc<WorkerPrinter>>,
    ) -> Worker<'c> {
        // SAFETY: the buffers are borrowed uniquely by `dispatch` until all workers have ended; they have the
        // sizes given in the descriptors, and are aligned. Concurrent accesses by workers are those of the
        // program; compiled code treats the buffers as bytes, as hardware does. Zeroed copies in their place
        // live as long as the worker runs.
        let mut worker = unsafe { Worker::with_buffers(code, descs) };
        if self.alone || private {
            worker.set_alone();
        }
        if self.flush {
            worker.set_flush();
        }
        worker.set_memory(self.budget.clone());
        if let Some(printer) = printer {
            worker.set_printer(printer.clone());
        }
        worker
    }

    /// Descriptors in which zeroed copies replace the buffers that are only added to, and the copies.
    fn zeros(&self) -> (Vec<Desc>, Sums) {
        let mut descs = self.descs.to_vec();
        // What the sums of portions are must not depend on what pays off on this machine.
        let wanted = if self.portion.is_some() { Wanted::All } else { Wanted::For(self.all_threads) };
        let sums = Sums::new(self.code, self.entry, &mut descs, wanted);
        (descs, sums)
    }

    /// Adds the sums of the portion that begins with group `first`, and of later portions that wait for it,
    /// once it is their turn.
    fn in_turn(&self, first: u64, sums: Sums) -> Option<()> {
        let portion = self.portion?;
        let mut done = self.done.lock().ok()?;
        done.waiting.insert(first, sums);
        let mut turn = done.turn;
        while let Some(sums) = done.waiting.remove(&turn) {
            // SAFETY: the buffers are those that the copies stand for, and additions are made under the lock.
            unsafe { sums.add_to(self.descs) };
            turn += portion;
        }
        done.turn = turn;
        Some(())
    }

    /// Takes at most `groups` of the next groups, from the worker's own share if possible.
    fn take(&self, own: usize, groups: u64) -> Option<Range<u64>> {
        let (before, after) = self.shares.split_at(own.min(self.shares.len()));
        after.iter().chain(before).find_map(|share| {
            let end = share.end.min(self.failed.load(Ordering::Relaxed));
            let left = end.saturating_sub(share.next.load(Ordering::Relaxed));
            if left == 0 {
                return None;
            }
            // Runs become shorter towards the end, so that workers end at the same time.
            let groups = match self.portion {
                Some(portion) => portion,
                None if self.alone => groups,
                None => groups.min((left / 4).max(1 + self.run / 16)),
            };
            let first = share.next.fetch_add(groups, Ordering::Relaxed);
            (first < end).then(|| first..first.saturating_add(groups).min(share.end))
        })
    }

    fn is_done(&self) -> bool {
        self.shares.iter().all(|share| share.next.load(Ordering::Relaxed) >= share.end)
    }

    /// Takes groups until none are left; calls `help` once if that takes long.
    fn all(&self, own: usize, help: impl FnOnce()) -> Option<()> {
        let (mut descs, mut sums) =
            if self.alone { (self.descs.to_vec(), Sums::none()) } else { self.zeros() };
        let printer = self.printed.map(|printed| {
            Arc::new(WorkerPrinter { printed: printed.clone(), place: Place::new(self.may_wait) })
        });
        let mut worker = self.worker(self.code, &descs, sums.all, printer.as_ref());
        let mut faster = self.faster;
        let start = Instant::now();
        let mut glance = start;
        let mut help = Some(help);
        let mut arena_bytes = 0;
        let mut run = 1;
        loop {
            if let Some(code) = faster.and_then(|f| f.code()) {
                arena_bytes += worker.arena_bytes();
                worker = self.worker(code, &descs, sums.all, printer.as_ref());
                faster = None;
            }
            if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                break;
            }
            let Some(Range { start: first, end }) = self.take(own, run) else { break };
            if self.portion.is_some() {
                arena_bytes += worker.arena_bytes();
                drop(worker);
                (descs, sums) = self.zeros();
                worker = self.worker(self.code, &descs, sums.all, printer.as_ref());
            }
            if let Some(printer) = &printer {
                printer.place.begin(first);
            }
            let mut result = worker.run_groups(self.entry, (first..end).map(|k| group_at(self.groups, k)));
            if let Some(printer) = &printer {
                let ended = printer.end(first..end, worker.take_stdout(), result.is_err());
                let error = |message| RunError { message, span: Span::NONE, thread: [0; 3] };
                result = result.and(ended.map_err(error));
            }
            if self.portion.is_some() && result.is_ok() {
                self.in_turn(first, std::mem::replace(&mut sums, Sums::none()))?;
            }
            if let Err(error) = result {
                let mut done = self.done.lock().ok()?;
                self.failed.fetch_min(first, Ordering::Relaxed);
                if done.failed.as_ref().is_none_or(|f| first < f.0) {
                    done.failed = Some((first, error));
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
            if help.is_some()
                && start.elapsed() > ALONE
                && !self.is_done()
                && let Some(help) = help.take()
            {
                help();
            }
        }
        arena_bytes += worker.arena_bytes();
        drop(worker);
        let mut done = self.done.lock().ok()?;
        done.arena_bytes += arena_bytes;
        // SAFETY: the buffers are those that the copies stand for, and additions are made under the lock.
        unsafe { sums.add_to(self.descs) };
        Some(())
    }
}
