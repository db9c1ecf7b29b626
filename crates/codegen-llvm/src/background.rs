//! Runs LLVM in the background, and controls how a process ends while such work is in progress.
//!
//! When a process ends, LLVM's library destroys its tables, which a compilation in progress would still use.
//! So the end of the process waits for such work (`at_end`), unless the process leaves at once by [`leave`].

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

/// The stack size of a thread in bytes; only the part in use becomes memory.
const STACK: usize = 512 << 20;

/// The threads, each with the ID of its process: a forked child does not have the threads of its parent.
static THREADS: Mutex<Vec<(u32, JoinHandle<()>)>> = Mutex::new(Vec::new());
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// Counts as a piece of work in progress until it is dropped.
struct Busy;

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The threads of this process. The handles of its parent's threads are leaked: they must not even be
/// dropped, since the threads do not exist here.
fn own(threads: Vec<(u32, JoinHandle<()>)>) -> Vec<(u32, JoinHandle<()>)> {
    let (own, others) = threads.into_iter().partition(|thread| thread.0 == std::process::id());
    let others: Vec<_> = others;
    others.into_iter().for_each(std::mem::forget);
    own
}

/// Runs `work` on a thread of its own; returns false if no thread can be spawned.
pub fn in_background(work: impl FnOnce() + Send + 'static) -> bool {
    BUSY.fetch_add(1, Ordering::SeqCst);
    let busy = Busy;
    let thread = Builder::new().stack_size(STACK).spawn(move || {
        let _busy = busy;
        let _work = native::fork::at_work();
        work();
    });
    match (thread, THREADS.lock()) {
        (Ok(thread), Ok(mut threads)) => {
            *threads = own(std::mem::take(&mut threads));
            threads.retain(|(_, thread)| !thread.is_finished());
            threads.push((std::process::id(), thread));
            true
        }
        (thread, _) => thread.is_ok(),
    }
}

/// Makes the end of the process wait for work in the background. To be called after LLVM's library has been
/// opened: exit handlers run in the reverse order of their registration.
pub(crate) fn at_end() {
    extern "C" fn wait() {
        let threads = THREADS.lock().map(|mut threads| std::mem::take(&mut *threads)).unwrap_or_default();
        for (_, thread) in own(threads) {
            let _ = thread.join();
        }
    }
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler takes no arguments and exists as long as the process does.
        unsafe { libc::atexit(wait) };
    });
}

/// Returns the exit status of a process that has nothing left to do. If work is in progress in the
/// background, flushes standard output and ends the process at once.
pub fn leave(status: u8) -> ExitCode {
    if BUSY.load(Ordering::SeqCst) > 0 {
        use std::io::Write as _;
        let _ = std::io::stdout().flush();
        // SAFETY: the call ends the process without running any exit handlers.
        unsafe { libc::_exit(i32::from(status)) };
    }
    ExitCode::from(status)
}
