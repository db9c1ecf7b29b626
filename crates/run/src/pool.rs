//! The thread pool of dispatches.
//!
//! Threads do not survive a fork, and a thread that runs a group without end is never available again: in
//! both cases a new pool is created. The old pool is never freed, since its users still refer to it.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rayon::{ThreadPool, ThreadPoolBuilder};

struct Pool {
    /// The process and the generation that the pool was created in.
    of: (u32, u64),
    threads: Option<ThreadPool>,
}

static CURRENT: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Gives later dispatches new threads, since the current ones may never be free again.
pub fn abandon_threads() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
}

/// The threads of this process; `None` if none can be created.
pub(crate) fn threads() -> Option<&'static ThreadPool> {
    let of = (std::process::id(), GENERATION.load(Ordering::SeqCst));
    let found = CURRENT.load(Ordering::Acquire);
    // SAFETY: stored pools were leaked, so the reference stays valid.
    if let Some(pool) = unsafe { found.as_ref() }
        && pool.of == of
    {
        return pool.threads.as_ref();
    }
    // No lock is used: one held by another thread when the process forks would never be released in the
    // child.
    let made = Box::leak(Box::new(Pool { of, threads: ThreadPoolBuilder::new().build().ok() }));
    match CURRENT.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made.threads.as_ref(),
        // Another thread was faster, so the new pool is dropped.
        Err(_) => {
            made.threads = None;
            threads()
        }
    }
}
