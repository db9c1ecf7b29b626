//! Runs that a user can interrupt.
//!
//! Machine code cannot be stopped within a thread group, and Python sees signals on its main thread only. So what may take
//! long runs on a thread of its own, while the main thread waits and looks for signals. When one raises an exception, workers
//! stop between groups. What has not stopped then is left alone: its arrays are kept for it, and its threads are replaced.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use driver::launch::abandon_threads;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Between two looks for signals.
const BETWEEN: Duration = Duration::from_millis(50);
/// A run that was told to stop has so much time for it.
const GRACE: Duration = Duration::from_millis(400);
/// Calls with fewer places than this, and no loops, are over before anybody could interrupt them.
pub(crate) const MANY: u64 = 4096;
/// Stack of the thread.
const STACK: usize = 16 << 20;

/// A flag that ends a run.
pub(crate) type Stop = Arc<AtomicBool>;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs jobs, in the process that it was made in.
struct Helper {
    process: u32,
    jobs: Sender<Job>,
}

thread_local! {
    /// The process, and whether this is its main thread for Python.
    static IS_MAIN: Cell<Option<(u32, bool)>> = const { Cell::new(None) };
    static HELPER: RefCell<Option<Helper>> = const { RefCell::new(None) };
}

fn is_main(py: Python<'_>) -> PyResult<bool> {
    let process = std::process::id();
    if let Some((_, is_main)) = IS_MAIN.get().filter(|found| found.0 == process) {
        return Ok(is_main);
    }
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    let is_main = main.eq(threading.call_method0("get_ident")?)?;
    IS_MAIN.set(Some((process, is_main)));
    Ok(is_main)
}

/// The thread that waits for jobs, or a new one. None that works is there: a signal's handler may run something, too.
fn helper() -> std::io::Result<Helper> {
    let process = std::process::id();
    let found = HELPER.take();
    match found {
        Some(helper) if helper.process == process => return Ok(helper),
        // Its thread did not come along with the fork, and may have left the queue as it is at any moment.
        Some(lost) => std::mem::forget(lost),
        None => {}
    }
    let (sender, jobs) = channel::<Job>();
    std::thread::Builder::new().name("pullback".into()).stack_size(STACK).spawn(move || {
        jobs.into_iter().for_each(|job| job());
    })?;
    Ok(Helper { process, jobs: sender })
}

/// Does some work without the interpreter's lock. If `is_long`, signals that come meanwhile raise their exceptions; then the
/// work may go on without the caller, so what `kept` gives stays alive until it is done.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    is_long: bool,
    kept: impl FnOnce() -> Vec<Py<PyAny>>,
    work: impl FnOnce(Option<&Stop>) -> T + Send + 'static,
) -> PyResult<T> {
    if !is_long || !is_main(py)? {
        return Ok(py.detach(|| work(None)));
    }
    let Ok(helper) = helper() else { return Ok(py.detach(|| work(None))) };
    let stop = Stop::default();
    let (sender, mut done) = channel();
    let (own, kept) = (stop.clone(), kept());
    let job = Box::new(move || {
        let found = catch_unwind(AssertUnwindSafe(|| work(Some(&own))));
        // Whoever waits drops what was kept, with the lock.
        let _ = sender.send((found, kept));
    });
    if helper.jobs.send(job).is_err() {
        return Err(PyRuntimeError::new_err("the thread that runs functions has ended"));
    }
    loop {
        match wait(py, &mut done, BETWEEN) {
            Ok((found, _)) => {
                HELPER.set(Some(helper));
                return found.map_err(|panic| resume_unwind(panic));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the thread that runs functions has ended"));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(raised) = py.check_signals() {
                    stop.store(true, Ordering::SeqCst);
                    match wait(py, &mut done, GRACE) {
                        Ok(_) => HELPER.set(Some(helper)),
                        Err(_) => abandon_threads(),
                    }
                    return Err(raised);
                }
            }
        }
    }
}

fn wait<T: Send>(py: Python<'_>, done: &mut Receiver<T>, time: Duration) -> Result<T, RecvTimeoutError> {
    py.detach(move || done.recv_timeout(time))
}
