//! A watchdog that ends the process when a kernel exceeds its time limit.
//!
//! The interpreter checks the clock itself. Machine code and devices do not: a check in every iteration of
//! every loop would undo what loop optimisations gain. Instead, a separate thread wakes twenty times per
//! second, and if a launch has exceeded its time, it calls the installed function, which reports the error
//! and ends the process. The cost per launch is two uncontended locks, less than 100 ns. The thread begins with the
//! first launch; a process that installs nothing, for example one that uses the library, has no such thread.

use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock};
use std::time::{Duration, Instant};

use ir::interp::time_message;
use ir::{Func, Module, Op};
use syntax::{Diagnostic, Sources};

use crate::error::source_span;

/// The interval between two checks of the clock.
const BETWEEN: Duration = Duration::from_millis(50);
/// The maximum number of loops that are named.
const MOST_LOOPS: usize = 3;

/// Reports the error to the user, and ends the process.
type End = fn(&Sources, &Diagnostic) -> !;

static END: OnceLock<End> = OnceLock::new();
static THREAD: Once = Once::new();
static WATCHED: Mutex<Watched> = Mutex::new(Watched { launch: None, sources: Sources { files: Vec::new() } });

struct Watched {
    /// The deadline of the current launch, and the error to report if it is missed.
    launch: Option<(Instant, Arc<Diagnostic>)>,
    /// The files that diagnostics refer to.
    sources: Sources,
}

fn watched() -> MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(|e| e.into_inner())
}

/// Launches are watched from now on; `end` is called when one exceeds its time.
pub fn install(end: End) {
    // In WebAssembly the host keeps the time.
    if cfg!(target_family = "wasm") {
        return;
    }
    // A second function would be another way to report the same.
    let _ = END.set(end);
}

/// Looks at the clock until a launch has exceeded its time.
fn watch(end: End) {
    loop {
        std::thread::sleep(BETWEEN);
        let mut watched = watched();
        if watched.launch.as_ref().is_some_and(|launch| Instant::now() >= launch.0) {
            let (sources, launch) = (std::mem::take(&mut watched.sources), watched.launch.take());
            drop(watched);
            if let Some((_, diagnostic)) = launch {
                end(&sources, &diagnostic);
            }
        }
    }
}

/// Remembers the sources that diagnostics show.
pub(crate) fn remember(sources: &Sources) {
    if END.get().is_some() {
        watched().sources = sources.clone();
    }
}

/// A guard: the launch is watched until the guard is dropped.
pub(crate) struct Launch;

/// Watches a launch that may take the given number of seconds.
pub(crate) fn launch(seconds: f64, diagnostic: &Arc<Diagnostic>) -> Option<Launch> {
    let &end = END.get()?;
    THREAD.call_once(|| drop(std::thread::spawn(move || watch(end))));
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    watched().launch = Some((Instant::now().checked_add(time)?, diagnostic.clone()));
    Some(Launch)
}

impl Drop for Launch {
    fn drop(&mut self) {
        watched().launch = None;
    }
}

/// The error for a launch of an entry point that takes too long: located at the kernel, with the loops that
/// may be the cause.
pub(crate) fn overdue(module: &Module, entry: Func, seconds: f64) -> Diagnostic {
    let (mut loops, mut first) = (Vec::new(), None);
    for func in ir::walk::reachable(module, &[entry]) {
        let f = &module.funcs[func];
        f.walk(f.body(), &mut |inst| {
            let data = &f.insts[inst];
            if data.span == ir::Span::NONE || module.is_library(data.span) {
                return;
            }
            first.get_or_insert(data.span);
            if matches!(data.op, Op::Loop(_)) && !loops.contains(&data.span) && loops.len() < MOST_LOOPS {
                loops.push(data.span);
            }
        });
    }
    let own = module.funcs[entry].span;
    let span = if own == ir::Span::NONE { loops.first().copied().or(first).unwrap_or(own) } else { own };
    let diagnostic = Diagnostic::error("E0801", source_span(span), time_message(seconds))
        .label("the program was stopped here")
        .help("`--seconds` says how long it may take");
    let others = loops.into_iter().filter(|&l| l != span);
    others.fold(diagnostic, |d, l| d.note(source_span(l), "this loop may be the one that does not end"))
}
