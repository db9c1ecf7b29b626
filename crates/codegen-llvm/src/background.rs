//! Work of LLVM's beside the program, and how a process ends while there is such work.
//!
//! When a process ends, LLVM's library takes its tables down; whoever is compiling then would meet them half gone. So the
//! end waits for such work (`at_end`), unless the process leaves by [`leave`], at once.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

/// Stack of a thread; taken only as it is used.
const STACK: usize = 512 << 20;

/// Each with its process: a child of it does not have them.
static THREADS: Mutex<Vec<(u32, JoinHandle<()>)>> = Mutex::new(Vec::new());
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// Counts one who is at work, until it is dropped.
struct Busy;

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The threads that are this process's. Those of its parent must not even be let go of, since they are not there.
fn own(threads: Vec<(u32, JoinHandle<()>)>) -> Vec<(u32, JoinHandle<()>)> {
    let (own, others) = threads.into_iter().partition(|thread| thread.0 == std::process::id());
    let others: Vec<_> = others;
    others.into_iter().for_each(std::mem::forget);
    own
}

/// Does some work on a thread of its own; false if there is none to be had.
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

/// To be called when LLVM's library has been opened: what is registered last is done first.
pub(crate) fn at_end() {
    extern "C" fn wait() {
        let threads = THREADS.lock().map(|mut threads| std::mem::take(&mut *threads)).unwrap_or_default();
        for (_, thread) in own(threads) {
            let _ = thread.join();
        }
    }
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: a function without arguments, which outlives the process.
        unsafe { libc::atexit(wait) };
    });
}

/// The status of a process that has nothing left to do: ends it at once if there is work in the background, which nobody
/// waits for. Standard output is flushed.
pub fn leave(status: u8) -> ExitCode {
    if BUSY.load(Ordering::SeqCst) > 0 {
        use std::io::Write as _;
        let _ = std::io::stdout().flush();
        // SAFETY: ends the process without running what others have registered for its end.
        unsafe { libc::_exit(i32::from(status)) };
    }
    ExitCode::from(status)
}
