//! Runs LLVM on a thread of its own, so that an error at which LLVM would end the process becomes the result
//! of the work.
//!
//! LLVM calls a handler for such an error (`report_fatal_error`: for example, an operation that the machine
//! cannot have) and ends the process once the handler returns. So the handler here does not return: it sends
//! the message to the thread that waits for the work, and its own thread sleeps for good, with everything
//! that the work has allocated.
//!
//! Other work, at that time or later, is not held up. LLVM calls the handler without a lock of its own. The
//! locks that compilation takes (for the tables of passes and targets, for objects made on first use, for
//! counters and timers) are only held while a table is read, during which no fatal error occurs. A context, a
//! module and a machine belong to one piece of work, so the sleeping thread shares them with no other. They
//! are never disposed of, so their addresses are not reused.

use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, park};

/// The stack size of the thread in bytes; only the part in use becomes memory.
const STACK: usize = 512 << 20;

thread_local! {
    /// The channel to the thread that waits for the work of this thread.
    static WAITING: RefCell<Option<Sender<String>>> = const { RefCell::new(None) };
}

/// Runs `work` on a thread of its own, and waits for its result or for the error that ended it.
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
        // The thread has dropped its sender and is about to end.
        Err(_) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// The handler that LLVM calls before it ends the process.
pub(crate) unsafe extern "C" fn ended(reason: *const c_char) {
    // SAFETY: LLVM passes a terminated string.
    let why = unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned();
    match WAITING.take() {
        Some(sender) => {
            // The receiver waits until it gets this message.
            let _ = sender.send(why);
            loop {
                park();
            }
        }
        // The error belongs to other work in this process, so it is printed as LLVM prints it without a
        // handler.
        None => eprintln!("LLVM ERROR: {why}"),
    }
}
