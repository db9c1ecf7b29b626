//! Watches a fit: the progress bar, logs, checkpoints, and the end that the user asks for.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use driver::Error;
use driver::fit::Fit;
use driver::fit::run::{Observer, Plan, Wish};
use driver::fit::state::State;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::FitArgs;
use super::log::Logs;
use super::watch::Watch;
use crate::report;

/// The number of seconds between two saved checkpoints.
const SAVE_EVERY: f64 = 5.0;

/// Set by the user's interruption.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Has the first Ctrl-C (or SIGTERM) end the fit after the current step, and the second one the process.
pub(super) fn heed_interruptions() {
    #[cfg(not(target_family = "wasm"))]
    let done = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            driver::launch::end(STATUS_INTERRUPTED);
        }
        report::err("\nending the fit after this step; once more ends it at once\n");
    });
    #[cfg(not(target_family = "wasm"))]
    if let Err(error) = done {
        report::err(&format!("warning: Ctrl-C ends the fit without its results: {error}\n"));
    }
}

/// The exit status of a process that SIGINT has ended.
pub(super) const STATUS_INTERRUPTED: u8 = 130;

/// Reports the progress by a bar, or by a line every few seconds if there is no terminal.
pub(super) struct Progress<'a> {
    args: &'a FitArgs,
    plan: &'a Plan,
    checkpoint: Option<&'a Path>,
    logs: Logs,
    watch: Option<Watch>,
    bar: ProgressBar,
    begin: Instant,
    first_step: u64,
    last_line: f64,
    last_save: f64,
}

impl<'a> Progress<'a> {
    /// Watches a fit from a state on.
    pub(super) fn new(
        (args, plan): (&'a FitArgs, &'a Plan),
        state: &State,
        logs: Logs,
        watch: Option<Watch>,
    ) -> Progress<'a> {
        Progress {
            watch,
            args,
            plan,
            checkpoint: args.results.checkpoint.as_deref(),
            logs,
            bar: bar(args, state.step),
            begin: Instant::now(),
            first_step: state.step,
            last_line: -2.0,
            last_save: 0.0,
        }
    }

    /// Ends the bar and writes the rest of the logs; returns the first error of all that was written on the way. The
    /// state is that of the last step.
    pub(super) fn finish(&mut self, fit: &mut Fit, state: &State) -> Result<(), Error> {
        self.bar.finish();
        self.logs.add(state);
        self.pass(fit, state)?;
        self.show(fit, state, 0.0, "finished");
        self.logs.finish()
    }

    /// Ends the bar and writes the rest of the logs of a fit that failed, of which there is more to say.
    pub(super) fn end(&mut self) {
        self.bar.finish();
        self.logs.flush();
    }

    /// Updates the page. A page that fails does not end the fit.
    fn show(&mut self, fit: &mut Fit, state: &State, speed: f64, status: &str) {
        let elapsed = self.begin.elapsed().as_secs_f64();
        let Some(watch) = &mut self.watch else { return };
        if let Err(error) = watch.update(fit, state, (elapsed, speed), status) {
            report::err(&format!("warning: the page ends: {error}\n"));
            self.watch = None;
        }
    }

    /// Returns true if it is time to save a checkpoint.
    fn is_save_due(&self, elapsed: f64) -> bool {
        self.checkpoint.is_some() && elapsed - self.last_save >= SAVE_EVERY
    }

    /// Steps in a second.
    fn speed(&self, state: &State, elapsed: f64) -> f64 {
        (state.step - self.first_step) as f64 / elapsed.max(1e-9)
    }
}

impl Observer for Progress<'_> {
    fn step(&mut self, _: &mut Fit, state: &State, loss: f64) -> Result<Wish, Error> {
        let elapsed = self.begin.elapsed().as_secs_f64();
        let by_steps = state.step as f64 / self.args.steps.max(1) as f64;
        let by_time = self.args.seconds.map_or(0.0, |s| state.seconds / s.max(1e-9));
        let share = by_steps.max(by_time).clamp(1e-9, 1.0);
        let left = (elapsed / share * (1.0 - share)).min(86_400.0);
        let speed = self.speed(state, elapsed);
        self.bar.set_position(state.step);
        self.bar.set_message(format!("loss {loss:.6}  {left:.0} s left"));
        if self.bar.is_hidden() && !self.args.quiet && elapsed - self.last_line >= 2.0 {
            self.last_line = elapsed;
            let steps = self.args.steps;
            report::err(&format!(
                "step {}/{steps}  loss {loss:.6}  {speed:.1} steps/s  {left:.0} s left\n",
                state.step
            ));
        }
        self.logs.add(state);
        if INTERRUPTED.load(Ordering::SeqCst) {
            return Ok(Wish::Interrupt);
        }
        let shows = self.watch.as_ref().is_some_and(|watch| watch.is_due(elapsed));
        Ok(if shows || self.is_save_due(elapsed) { Wish::Save } else { Wish::Continue })
    }

    fn pass(&mut self, fit: &mut Fit, state: &State) -> Result<(), Error> {
        let has_some = !self.args.results.metric.is_empty();
        if has_some && (self.logs.wants_metrics() || self.watch.is_some()) {
            let metrics = super::metrics(fit, self.plan, &state.x)?;
            self.logs.add_metrics(state, &metrics);
            if let Some(watch) = &mut self.watch {
                watch.metrics = metrics;
            }
        }
        Ok(())
    }

    fn save(&mut self, fit: &mut Fit, state: &State) -> Result<(), Error> {
        let elapsed = self.begin.elapsed().as_secs_f64();
        if self.watch.as_ref().is_some_and(|watch| watch.is_due(elapsed)) {
            self.show(fit, state, self.speed(state, elapsed), "running");
        }
        if let Some(path) = self.checkpoint.filter(|_| self.is_save_due(elapsed)) {
            self.last_save = elapsed;
            // A log has the steps of the checkpoint, whenever the process ends.
            self.logs.flush();
            // The next attempt may succeed, and the last one says if none did.
            if let Err(error) = state.save(path) {
                report::err(&format!("warning: {error}; the fit goes on\n"));
            }
        }
        Ok(())
    }
}

fn bar(args: &FitArgs, start: u64) -> ProgressBar {
    let bar = ProgressBar::new(args.steps);
    bar.set_position(start);
    if args.quiet || !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template(
        "{spinner} [{elapsed_precise}] {wide_bar} {pos}/{len} steps  {per_sec}  {msg}",
    );
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
