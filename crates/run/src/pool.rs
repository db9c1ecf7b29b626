//! The threads of dispatches.
//!
//! Threads do not survive a fork, and one that runs a group without end is lost to others: then there are new ones. Those of
//! before stay as they are, since whoever uses them still does.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rayon::{ThreadPool, ThreadPoolBuilder};

struct Pool {
    /// The process and the generation that it was made in.
    of: (u32, u64),
    threads: Option<ThreadPool>,
}

static CURRENT: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// From now on dispatches have threads of their own: those of before may never be free again.
pub fn abandon_threads() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
}

/// The threads of this process; `None` if there are none to be had.
pub(crate) fn threads() -> Option<&'static ThreadPool> {
    let of = (std::process::id(), GENERATION.load(Ordering::SeqCst));
    let found = CURRENT.load(Ordering::Acquire);
    // SAFETY: what is stored was leaked, so it is there for good.
    if let Some(pool) = unsafe { found.as_ref() }
        && pool.of == of
    {
        return pool.threads.as_ref();
    }
    // No lock: one that another thread held when the process forked would never be free.
    let made = Box::leak(Box::new(Pool { of, threads: ThreadPoolBuilder::new().build().ok() }));
    match CURRENT.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made.threads.as_ref(),
        // Another thread was first. Ours end.
        Err(_) => {
            made.threads = None;
            threads()
        }
    }
}
