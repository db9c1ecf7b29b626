//! Makes runs interruptible by the user.
//!
//! Machine code cannot be stopped within a thread group, and Python handles signals on its main thread only.
//! Work that may take long therefore runs on a separate thread, while the main thread waits and checks for
//! signals. When a signal raises an exception, workers stop between groups. Work that has not stopped after a
//! grace period is abandoned: its arrays are kept alive for it, and its threads are replaced.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use driver::launch::abandon_threads;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The interval between two checks for signals.
const BETWEEN: Duration = Duration::from_millis(50);
/// The time that a run has to stop when it is interrupted.
const GRACE: Duration = Duration::from_millis(400);
/// Calls with fewer places than this, and without loops, end before a user could interrupt them.
pub(crate) const MANY: u64 = 4096;
/// The stack size of the thread.
const STACK: usize = 16 << 20;

/// A flag that ends a run when it is set.
pub(crate) type Stop = Arc<AtomicBool>;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs jobs, and the process that it was created in.
struct Helper {
    process: u32,
    jobs: Sender<Job>,
}

thread_local! {
    /// The process, and true if this is Python's main thread in it.
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

/// Takes the idle thread, or creates a new one. A busy thread is not stored, since a signal's handler may
/// start another run.
fn helper() -> std::io::Result<Helper> {
    let process = std::process::id();
    let found = HELPER.take();
    match found {
        Some(helper) if helper.process == process => return Ok(helper),
        // The thread does not exist after the fork, and the queue may be in any state, so it must not be
        // dropped.
        Some(lost) => std::mem::forget(lost),
        None => {}
    }
    let (sender, jobs) = channel::<Job>();
    std::thread::Builder::new().name("pullback".into()).stack_size(STACK).spawn(move || {
        jobs.into_iter().for_each(|job| job());
    })?;
    Ok(Helper { process, jobs: sender })
}

/// Does some work without the interpreter's lock. If `is_long`, signals that arrive during the work raise
/// their exceptions; the work may then continue after the caller has returned, so the objects from `kept`
/// stay alive until it is done.
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
        // The receiver drops the kept objects while holding the interpreter's lock.
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
