//! Delivers the text of `printf` in the order of threads, as early as possible.
//!
//! Runs of groups end in any order. The text of the run whose turn it is is delivered at once, even while it
//! runs; the texts of the other runs wait. The amount of waiting text is bounded: a worker that exceeds the
//! bound sleeps until its turn comes. The group whose turn it is either is running or is the next to be taken
//! by a worker, so there is always a worker that is awake.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use native::Printer;

/// A destination for the output of `printf`.
pub trait Console: Send + Sync {
    /// Takes text; returns an error if the console takes no more.
    fn print(&self, text: &str) -> Result<(), String>;
}

/// The share of a program's memory that undelivered text may take, as a divisor.
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
    /// Runs that ended before their turn, by their first group: the end of the run, and its text.
    waiting: BTreeMap<u64, (u64, String)>,
    /// The approximate number of bytes that wait.
    held: u64,
    /// The text in order, if there is no console.
    out: String,
    /// The lowest run that failed: later runs need not wait.
    failed: Option<u64>,
    /// The reason why the console takes no more text.
    closed: Option<String>,
}

impl Printed {
    pub(crate) fn new(console: Option<Arc<dyn Console>>, memory: u64) -> Printed {
        Printed { console, limit: memory / SHARE, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Delivers the text that the run of `place` has written so far, if it is the run's turn. Otherwise the
    /// text waits, and the worker waits as well if too much text is held. An error ends the run.
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

    /// Waits for the turn of a run while too much text is held.
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

    /// Takes the remaining text of a run that has ended.
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
        // A run whose turn has passed does not wait.
        let state = self.wait(state, place, run.start);
        if place.may_wait && self.console.is_some() {
            return state.closed.clone().map_or(Ok(()), Err);
        }
        self.check(&state)
    }

    /// Returns an error if too much text waits, or if the console takes no more.
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
    #[cfg(any(feature = "wgpu", feature = "cuda", feature = "wasmi", feature = "host"))]
    pub(crate) fn all(&self, text: String) {
        self.emit(&mut self.state(), &text);
    }

    /// Ends the dispatch: delivers the remaining text in order, and returns the text that no console took.
    pub(crate) fn finish(&self) -> String {
        let mut state = self.state();
        let left = std::mem::take(&mut state.waiting);
        for (_, text) in left.into_values() {
            self.emit(&mut state, &text);
        }
        std::mem::take(&mut state.out)
    }
}

/// The position of a worker among the runs.
pub(crate) struct Place {
    first: AtomicU64,
    /// The number of bytes of its text that are counted as held.
    counted: AtomicU64,
    /// Its turn comes even if it sleeps, so it may wait.
    may_wait: bool,
}

impl Place {
    pub(crate) fn new(may_wait: bool) -> Place {
        Place { first: AtomicU64::new(0), counted: AtomicU64::new(0), may_wait }
    }

    /// Records that a run begins.
    pub(crate) fn begin(&self, first: u64) {
        self.first.store(first, Ordering::Relaxed);
    }
}

/// A worker's access to the text of the dispatch.
pub(crate) struct WorkerPrinter {
    pub(crate) printed: Arc<Printed>,
    pub(crate) place: Place,
}

impl WorkerPrinter {
    /// Takes the remaining text of a run that has ended.
    pub(crate) fn end(&self, run: Range<u64>, text: String, failed: bool) -> Result<(), String> {
        self.printed.end(&self.place, run, text, failed)
    }
}

impl Printer for WorkerPrinter {
    fn take(&self, text: &mut String, in_order: bool) -> Result<(), String> {
        self.printed.more(&self.place, text, in_order)
    }
}
