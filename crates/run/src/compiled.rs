//! A dispatch of compiled code: workers take runs of groups until there are none.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ir::interp::RunError;
use native::{Compiled, Desc, Worker};

use crate::{Buffers, Cost, group_at, phases};

/// What a worker has done, by the first group it concerns.
#[derive(Default)]
struct Done {
    printed: Vec<(u64, String)>,
    failed: Option<(u64, RunError)>,
    arena_bytes: u64,
}

pub(crate) fn dispatch(
    code: &Compiled,
    entry: usize,
    groups: [u32; 3],
    buffers: &mut Buffers,
    threads: usize,
    stdout: &mut String,
) -> Result<Cost, RunError> {
    let descs = buffers.descs();
    let n: u64 = groups.iter().map(|&n| n as u64).product();
    let threads = (threads as u64).min(n).max(1);
    // Runs short enough that all workers end together, long enough that taking one costs nothing.
    let run = if threads == 1 { n } else { (n / (threads * 16)).clamp(1, 4096) };
    let stop = AtomicBool::new(false);
    let done = Mutex::new(Done::default());
    for range in phases(n, code.has_barrier(entry)) {
        let next = AtomicU64::new(range.start);
        let work = || {
            let _ = work(code, entry, groups, &descs, range.end, run, &next, &stop, &done);
        };
        let threads = threads.min(range.end - range.start);
        if threads == 1 {
            work();
        } else if threads > 1 {
            std::thread::scope(|scope| {
                for _ in 1..threads {
                    scope.spawn(work);
                }
                work();
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

#[expect(clippy::too_many_arguments, reason = "what the workers share")]
fn work(
    code: &Compiled,
    entry: usize,
    groups: [u32; 3],
    descs: &[Desc],
    n: u64,
    run: u64,
    next: &AtomicU64,
    stop: &AtomicBool,
    done: &Mutex<Done>,
) -> Option<()> {
    // SAFETY: the buffers are borrowed uniquely by `dispatch` until all workers have ended, of the
    // sizes that the descriptors say and aligned. What workers do to them at the same time is what
    // the program says; compiled code treats them as bytes, as hardware does.
    let mut worker = unsafe { Worker::with_buffers(code, descs) };
    while !stop.load(Ordering::Relaxed) {
        let first = next.fetch_add(run, Ordering::Relaxed);
        if first >= n {
            break;
        }
        let end = (first + run).min(n);
        let result = worker.run_groups(entry, (first..end).map(|k| group_at(groups, k)));
        let printed = worker.take_stdout();
        if printed.is_empty() && result.is_ok() {
            continue;
        }
        let mut done = done.lock().ok()?;
        if !printed.is_empty() {
            done.printed.push((first, printed));
        }
        if let Err(error) = result {
            stop.store(true, Ordering::Relaxed);
            if done.failed.as_ref().is_none_or(|f| first < f.0) {
                done.failed = Some((first, error));
            }
        }
    }
    done.lock().ok()?.arena_bytes += worker.arena_bytes();
    Some(())
}
