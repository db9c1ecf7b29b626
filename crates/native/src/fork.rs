//! Tracks work that must not be in progress when the process forks.
//!
//! The child of a fork has one thread and a copy of the memory, so a lock that another thread held stays
//! locked in the child for ever. Before it forks, a host therefore holds up work that takes locks:
//! compilation (including LLVM's in the background) and accesses to tables that threads share. Dispatches
//! need not wait, since they lock nothing but what they own.

use std::cell::RefCell;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static WORK: RwLock<()> = RwLock::new(());

thread_local! {
    static HELD: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
    static DEPTH: RefCell<(usize, Option<RwLockReadGuard<'static, ()>>)> = const { RefCell::new((0, None)) };
}

/// A guard for work that no fork may interrupt. The work ends when the guard is dropped.
#[derive(Debug)]
pub struct AtWork(std::marker::PhantomData<*const ()>);

/// Begins work that no fork may interrupt. Nested calls on the same thread are part of the outermost work.
pub fn at_work() -> AtWork {
    DEPTH.with_borrow_mut(|(depth, guard)| {
        if *depth == 0 && !HELD.with_borrow(Option::is_some) {
            *guard = Some(WORK.read().unwrap_or_else(PoisonError::into_inner));
        }
        *depth += 1;
    });
    AtWork(std::marker::PhantomData)
}

impl Drop for AtWork {
    fn drop(&mut self) {
        DEPTH.with_borrow_mut(|(depth, guard)| {
            *depth -= 1;
            if *depth == 0 {
                *guard = None;
            }
        });
    }
}

/// Waits until the work of other threads ends, and blocks new work. To be called before a fork.
pub fn hold() {
    let is_held = HELD.with_borrow(Option::is_some) || DEPTH.with_borrow(|(depth, _)| *depth > 0);
    if !is_held {
        let guard = WORK.write().unwrap_or_else(PoisonError::into_inner);
        HELD.with_borrow_mut(|held| *held = Some(guard));
    }
}

/// Allows work again. To be called after a fork, by the thread that forked, in both processes.
pub fn release() {
    HELD.with_borrow_mut(|held| *held = None);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn work_waits_while_a_process_forks() {
        static IS_DONE: AtomicBool = AtomicBool::new(false);
        {
            let _outer = at_work();
            let _inner = at_work();
            // Waiting for work of the same thread would deadlock.
            hold();
            release();
        }
        hold();
        let other = std::thread::spawn(|| {
            let _work = at_work();
            IS_DONE.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!IS_DONE.load(Ordering::SeqCst));
        // The thread that forks may itself do such work.
        drop(at_work());
        release();
        other.join().expect("it ends");
        assert!(IS_DONE.load(Ordering::SeqCst));
    }
}
