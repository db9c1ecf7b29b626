//! Work of LLVM's on a thread of its own, so that an error at which LLVM would end the process is the work's result.
//!
//! LLVM calls the handler of such an error (`report_fatal_error`: an operation that the machine cannot have, say) and ends
//! the process once that returns. So ours does not return: it tells whoever waits for the work, and its thread sleeps for
//! good, with all that the work has taken.
//!
//! Other work, at that time or later, is not held up. LLVM calls the handler without a lock of its own. Those that
//! compiling takes (of the tables of passes and targets, of what is made when it is first used, of counters and timers) it
//! holds for a look at a table, in which nothing is fatal; and a context, a module and a machine belong to one piece of
//! work, so what sleeps shares them with nobody. They are never disposed of, so nothing else gets their addresses.

use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, park};

/// Stack of a thread; taken only as it is used.
const STACK: usize = 512 << 20;

thread_local! {
    /// Whom to tell of an error on this thread.
    static WAITING: RefCell<Option<Sender<String>>> = const { RefCell::new(None) };
}

/// Does some work on a thread of its own, and waits for its result or the error that ended it.
pub(crate) fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (sender, errors) = channel();
    let thread = Builder::new().stack_size(STACK).spawn(move || {
        WAITING.set(Some(sender));
        let made = work();
        WAITING.take();
        made
    });
    let thread = thread.map_err(|error| format!("LLVM has no thread to work on: {error}"))?;
    match errors.recv() {
        Ok(why) => Err(why),
        // The thread has dropped its sender, and ends.
        Err(_) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// The handler that LLVM calls before it ends the process.
pub(crate) unsafe extern "C" fn ended(reason: *const c_char) {
    // SAFETY: LLVM's reason is a terminated text.
    let why = unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned();
    match WAITING.take() {
        Some(sender) => {
            // Who waits is there until it hears of the end.
            let _ = sender.send(why);
            loop {
                park();
            }
        }
        // Somebody else's work in this process, to whom LLVM says so itself where there is no handler.
        None => eprintln!("LLVM ERROR: {why}"),
    }
}
