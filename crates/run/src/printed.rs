//! The text of `printf`, in the order of threads, as soon as it is its turn.
//!
//! Runs of groups end in any order. The text of the run whose turn it is goes on at once, also while it runs; the texts of
//! the others wait. What waits is bounded: a worker that holds more sleeps until its turn comes. The group whose turn it
//! is either runs or is the next that a worker takes, so somebody is always awake.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use native::Printer;

/// Takes what `printf` writes.
pub trait Console: Send + Sync {
    /// Takes text; an error if no more will be read.
    fn print(&self, text: &str) -> Result<(), String>;
}

/// The part of a program's memory that text may take which nobody has read: one of so many.
const SHARE: u64 = 8;

/// The text of a dispatch.
pub(crate) struct Printed {
    console: Option<Arc<dyn Console>>,
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The first group whose text is not complete.
    turn: u64,
    /// Runs that ended before their turn, by their first group: where they end, and their text.
    waiting: BTreeMap<u64, (u64, String)>,
    /// Bytes that wait, about.
    held: u64,
    /// Text in order, where there is no console.
    out: String,
    /// The lowest run that failed: those after it need not wait.
    failed: Option<u64>,
    /// The reason for which the console takes no more.
    closed: Option<String>,
}

impl Printed {
    pub(crate) fn new(console: Option<Arc<dyn Console>>, memory: u64) -> Printed {
        Printed { console, limit: memory / SHARE, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Hands on what the run of `place` has written so far, if it is its turn. Else the text waits, and the run does, if
    /// that is too much. An error ends the run.
    pub(crate) fn more(&self, place: &Place, text: &mut String, in_order: bool) -> Result<(), String> {
        let mut state = self.state();
        let new = (text.len() as u64).saturating_sub(place.counted.load(Ordering::Relaxed));
        place.counted.fetch_add(new, Ordering::Relaxed);
        state.held += new;
        let first = place.first.load(Ordering::Relaxed);
        state = self.wait(state, place, first);
        if state.failed.is_some_and(|failed| failed < first) {
            return Err("a thread before this one has failed".to_string());
        }
        if in_order && state.turn == first {
            state.held = state.held.saturating_sub(text.len() as u64);
            place.counted.store(0, Ordering::Relaxed);
            self.emit(&mut state, text);
            text.clear();
            if self.console.is_some() {
                return state.closed.clone().map_or(Ok(()), Err);
            }
        }
        self.check(&state)
    }

    /// Waits for the turn of a run while too much is held.
    fn wait<'s>(&self, mut state: MutexGuard<'s, State>, place: &Place, first: u64) -> MutexGuard<'s, State> {
        while place.may_wait
            && state.turn < first
            && state.held > self.limit
            && state.failed.is_none_or(|failed| failed > first)
            && state.closed.is_none()
        {
            state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        state
    }

    /// Takes the rest of the text of a run that has ended.
    pub(crate) fn end(
        &self,
        place: &Place,
        run: Range<u64>,
        text: String,
        failed: bool,
    ) -> Result<(), String> {
        let mut state = self.state();
        if failed {
            state.failed = Some(state.failed.map_or(run.start, |f| f.min(run.start)));
        }
        let counted = place.counted.swap(0, Ordering::Relaxed);
        state.held = (state.held + text.len() as u64).saturating_sub(counted);
        state.waiting.insert(run.start, (run.end, text));
        loop {
            let turn = state.turn;
            let Some((end, text)) = state.waiting.remove(&turn) else { break };
            state.held = state.held.saturating_sub(text.len() as u64);
            self.emit(&mut state, &text);
            state.turn = end;
        }
        self.changed.notify_all();
        // A run that is past its turn waits for nothing.
        let state = self.wait(state, place, run.start);
        if place.may_wait && self.console.is_some() {
            return state.closed.clone().map_or(Ok(()), Err);
        }
        self.check(&state)
    }

    /// An error if too much waits, or if nobody reads.
    fn check(&self, state: &State) -> Result<(), String> {
        if let Some(why) = &state.closed {
            return Err(why.clone());
        }
        if state.held > self.limit {
            let limit = ir::interp::size_text(self.limit);
            return Err(format!("`printf` wrote more than {limit} that could not be shown yet"));
        }
        Ok(())
    }

    fn emit(&self, state: &mut State, text: &str) {
        match &self.console {
            _ if text.is_empty() => {}
            Some(console) => {
                if let Err(why) = console.print(text) {
                    state.closed.get_or_insert(why);
                }
            }
            None => {
                state.held += text.len() as u64;
                state.out.push_str(text);
            }
        }
    }

    /// Takes all the text of a dispatch at once.
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    pub(crate) fn all(&self, text: String) {
        self.emit(&mut self.state(), &text);
    }

    /// Ends the dispatch: what is left goes on in order, and what no console took is given back.
    pub(crate) fn finish(&self) -> String {
        let mut state = self.state();
        let left = std::mem::take(&mut state.waiting);
        for (_, text) in left.into_values() {
            self.emit(&mut state, &text);
        }
        std::mem::take(&mut state.out)
    }
}

/// The place of a worker among the runs.
pub(crate) struct Place {
    first: AtomicU64,
    /// Bytes of its text that count as held.
    counted: AtomicU64,
    /// True if its turn comes without its doing.
    may_wait: bool,
}

impl Place {
    pub(crate) fn new(may_wait: bool) -> Place {
        Place { first: AtomicU64::new(0), counted: AtomicU64::new(0), may_wait }
    }

    /// Says that a run begins.
    pub(crate) fn begin(&self, first: u64) {
        self.first.store(first, Ordering::Relaxed);
    }
}

/// A worker's way to the text of the dispatch.
pub(crate) struct WorkerPrinter {
    pub(crate) printed: Arc<Printed>,
    pub(crate) place: Place,
}

impl WorkerPrinter {
    /// Takes the rest of the text of a run that has ended.
    pub(crate) fn end(&self, run: Range<u64>, text: String, failed: bool) -> Result<(), String> {
        self.printed.end(&self.place, run, text, failed)
    }
}

impl Printer for WorkerPrinter {
    fn take(&self, text: &mut String, in_order: bool) -> Result<(), String> {
        self.printed.more(&self.place, text, in_order)
    }
}
