//! Runs LLVM in the background, and controls how a process ends while such work is in progress.
//!
//! When a process ends, LLVM's library destroys its tables, which a compilation in progress would still use.
//! So the end of the process waits for such work, unless the process leaves at once by [`leave`].
//!
//! An exit handler alone comes too late. Such handlers run in the reverse order of their registration, and LLVM registers the
//! destructor of a table when it makes the table: while the library is opened, and when a table is first used. All of these
//! would run before a handler that was registered earlier, during the work. What runs before all exit handlers are the
//! destructors of the thread that ends the process, so the main thread has one that waits (`first`). The handler (`at_end`)
//! is for processes that another thread ends.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

/// The stack size of a thread in bytes; only the part in use becomes memory.
const STACK: usize = 512 << 20;

/// The threads, each with the ID of its process: a forked child does not have the threads of its parent.
static THREADS: Mutex<Vec<(u32, JoinHandle<()>)>> = Mutex::new(Vec::new());
/// No further work is begun, since the process is about to end.
static ENDING: AtomicBool = AtomicBool::new(false);
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

/// Runs `work` on a thread of its own; returns false if no thread can be spawned, or if the process is about to end.
pub fn in_background(work: impl FnOnce() + Send + 'static) -> bool {
    let Ok(mut threads) = THREADS.lock() else { return false };
    if ENDING.load(Ordering::SeqCst) {
        return false;
    }
    BUSY.fetch_add(1, Ordering::SeqCst);
    let busy = Busy;
    let thread = Builder::new().stack_size(STACK).spawn(move || {
        let _busy = busy;
        let _work = native::fork::at_work();
        work();
    });
    let Ok(thread) = thread else { return false };
    *threads = own(std::mem::take(&mut threads));
    threads.retain(|(_, thread)| !thread.is_finished());
    threads.push((std::process::id(), thread));
    true
}

/// Waits for the threads of this process.
fn wait() {
    let threads = THREADS.lock().map(|mut threads| std::mem::take(&mut *threads)).unwrap_or_default();
    for (_, thread) in own(threads) {
        let _ = thread.join();
    }
}

/// The destructor of the main thread. It is registered when the program, or the library that this code is in, is loaded.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod first {
    use std::ffi::{c_int, c_void};
    use std::ptr::null_mut;
    use std::sync::atomic::Ordering;

    unsafe extern "C" {
        fn __cxa_thread_atexit_impl(
            destructor: unsafe extern "C" fn(*mut c_void),
            object: *mut c_void,
            library: *mut c_void,
        ) -> c_int;
        static __dso_handle: u8;
    }

    #[used]
    #[unsafe(link_section = ".init_array")]
    static BEGIN: extern "C" fn() = begin;

    extern "C" fn begin() {
        // SAFETY: both calls only ask. The process has the number of its main thread.
        let is_main = unsafe { libc::getpid() == libc::gettid() };
        if is_main {
            let library = (&raw const __dso_handle).cast_mut().cast();
            // SAFETY: the destructor takes any object, and the handle is that of the library that it is in.
            unsafe { __cxa_thread_atexit_impl(end, null_mut(), library) };
        }
    }

    unsafe extern "C" fn end(_: *mut c_void) {
        super::ENDING.store(true, Ordering::SeqCst);
        super::wait();
    }
}

/// Makes the end of the process wait for work in the background. To be called after LLVM's library has been
/// opened: exit handlers run in the reverse order of their registration.
pub(crate) fn at_end() {
    extern "C" fn at_exit() {
        wait();
    }
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler takes no arguments and exists as long as the process does.
        unsafe { libc::atexit(at_exit) };
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
