//! `fit`: reads the options, minimises the loss, shows the progress and writes the results.

mod picture;
mod plot;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{CommandFactory as _, FromArgMatches as _};
use driver::fit::batches::Batches;
use driver::fit::descent::{Descent, Trouble};
use driver::fit::items::Items;
use driver::fit::optimise::{Adam, Objective};
use driver::fit::state::State;
use driver::fit::{Fit, Init, Setup};
use driver::launch::CodeOptions;
use driver::{Error, bind, files, npy};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::{Cli, Command, FitArgs, Optimizer};
use crate::report::{self, Stop};
use picture::Picture;

/// The number of steps between two values of the loss in the plot.
const LOSS_EVERY: u64 = 10;
/// The number of seconds between two saved checkpoints.
const SAVE_EVERY: f64 = 5.0;

pub(crate) fn fit(args: &FitArgs) -> u8 {
    let merged = match with_file_options(args) {
        Ok(merged) => merged,
        Err(status) => return status,
    };
    let args = merged.as_ref().unwrap_or(args);
    report::finish_in_text(&args.source, |session| {
        let folder = args.source.file.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let (items, target) = read_items(args, &folder)?;
        let limits = CodeOptions { deterministic: args.deterministic, ..args.limits.limits(args.seconds) };
        let mut execution = report::execution(&args.compile, (args.backend, &args.lanes), limits);
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
        execution.threads = args.threads.unwrap_or_else(cores);
        let inits: Result<Vec<_>, Stop> = args.param.iter().map(|p| parse_init(p, &folder)).collect();
        let setup = Setup {
            path: args.source.file.clone(),
            loss: args.loss.clone(),
            render: args.results.render.clone(),
            inits: inits?,
            memory: report::binds(&args.memory)?,
            execution,
            seed: args.seed,
        };
        let out = args.results.out.clone().unwrap_or_else(|| PathBuf::from("target").join("fit"));
        if !args.show_kernel {
            // Report outputs that cannot be written before time is spent on the fit.
            files::prepare_folder(&out)?;
            if let Some(path) = args.results.checkpoint.as_ref().filter(|path| path.is_dir()) {
                return Err(Error::write(path, "it is a directory").into());
            }
            if let Some(folder) = args.results.checkpoint.as_ref().and_then(|c| c.parent()) {
                files::prepare_folder(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
            }
        }
        let mut fit = Fit::new(session, &setup, items)?;
        report::warn(session, &fit.warnings);
        if args.show_kernel {
            report::out(&fit.kernel.text());
            return Ok(0);
        }
        let rates = rates(args, &fit)?;
        let n = fit.start.len();
        let mut state = State { x: fit.start.clone(), adam: Adam::new(n), ..State::default() };
        if let (true, Some(path)) = (args.results.resume, &args.results.checkpoint) {
            if path.exists() {
                state = State::load(path, n)?;
            } else {
                report::err(&format!(
                    "note: there is no checkpoint `{}` yet: the fit begins anew\n",
                    path.display()
                ));
            }
        }
        let mut fate = Progress::new(&mut fit, &state)?;
        let bar = progress(args, state.step);
        let outcome = match args.optimizer {
            Optimizer::Adam => adam(args, &mut fit, &mut state, &mut fate, &rates, &bar),
            Optimizer::Lbfgs => lbfgs(args, &mut fit, &mut state, &mut fate, &bar),
        };
        bar.finish();
        let outcome = outcome.and_then(|()| {
            let loss = fit.loss(&state.x)?;
            fate.end(&fit, &state, loss)?;
            Ok(loss)
        });
        let loss = match outcome {
            Ok(loss) => loss,
            Err(Stopped::Diverged(why)) => return Err(diverged(args, &out, &mut fit, &fate, &why)?.into()),
            Err(Stopped::Error(error)) => return Err(error.into()),
        };
        if let Some(path) = &args.results.checkpoint {
            state.save(path)?;
        }
        finish(args, &out, &mut fit, (&state, loss), target.as_ref())?;
        Ok(0)
    })
}

/// The arguments, preceded by those from the file's `// fit:` comments; `None` if the file has no such
/// comments.
fn with_file_options(args: &FitArgs) -> Result<Option<FitArgs>, u8> {
    let Ok(text) = files::read_text(&args.source.file, files::PROGRAM) else { return Ok(None) };
    let words: Vec<String> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("// fit:"))
        .flat_map(|line| line.split_whitespace().map(String::from).collect::<Vec<_>>())
        .collect();
    if words.is_empty() {
        return Ok(None);
    }
    let given = std::env::args().skip_while(|a| a != "fit").skip(1);
    let all = ["pullback", "fit"].map(String::from).into_iter().chain(words).chain(given);
    // If an option is given twice, the later value is used, so the command line goes last.
    let command = Cli::command().mut_subcommand("fit", |fit| fit.args_override_self(true));
    match command.try_get_matches_from(all).and_then(|found| Cli::from_arg_matches(&found)) {
        Ok(Cli { command: Command::Fit(args) }) => Ok(Some(args)),
        Ok(_) => Ok(None),
        Err(error) => {
            let _ = error.print();
            Err(2)
        }
    }
}

fn read_items(args: &FitArgs, folder: &Path) -> Result<(Items, Option<Picture>), Stop> {
    let text = args.items.as_deref().ok_or_else(|| {
        Stop::Usage("`--items` is needed: image:FILE.png, @file.npy, @file.csv or a number".into())
    })?;
    if let Some(path) = text.strip_prefix("image:").filter(|p| p.to_ascii_lowercase().ends_with(".png")) {
        let picture = Picture::read(&at(folder, path))?;
        let items = Items::pixels(picture.width, picture.height, picture.to_numbers());
        return Ok((items, Some(picture)));
    }
    Ok((Items::parse(text, folder)?, None))
}

/// Resolves a path from the options: beside the program if it exists there, otherwise relative to the current
/// folder.
fn at(folder: &Path, path: &str) -> PathBuf {
    let beside = folder.join(path);
    if beside.exists() { beside } else { path.into() }
}

fn parse_init(text: &str, folder: &Path) -> Result<(String, Init), Stop> {
    let (name, init) =
        text.split_once('=').ok_or_else(|| Stop::Usage(format!("`--param {text}`: expected NAME=INIT")))?;
    let init = init.trim();
    let init = if init == "zeros" {
        Init::Random(0.0, 0.0)
    } else if let Some(range) = init.strip_prefix("random:") {
        let (low, high) = report::range(range)
            .ok_or_else(|| Stop::Usage(format!("`--param {text}`: expected random:LO,HI, finite")))?;
        Init::Random(low, high)
    } else if init.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        Init::Function(init.to_string())
    } else if let Some(path) = init.strip_prefix('@') {
        Init::Value(bind::BindValue::Npy(at(folder, path)))
    } else {
        Init::Value(bind::parse_value(init).map_err(|why| Stop::Usage(format!("`--param {name}`: {why}")))?)
    };
    Ok((name.trim().to_string(), init))
}

/// The learning rate of each number: that of the longest matching name, else the common one.
fn rates(args: &FitArgs, fit: &Fit) -> Result<Vec<f64>, Stop> {
    let mut common = 0.01;
    let mut named: Vec<(String, f64)> = Vec::new();
    for text in &args.rate {
        let (name, rate) = text.rsplit_once('=').map_or(("", text.as_str()), |(n, r)| (n.trim(), r));
        let rate: f64 = rate
            .trim()
            .parse()
            .ok()
            .filter(|r: &f64| r.is_finite())
            .ok_or_else(|| Stop::Usage(format!("`--rate {text}`: not a number")))?;
        if name.is_empty() {
            common = rate;
        } else if fit.names.iter().any(|n| covers(name, n)) {
            named.push((name.to_string(), rate));
        } else {
            let mut known = fit.names.clone();
            known.dedup();
            known.sort();
            known.dedup();
            return Err(
                Error::input(format!("`--rate {text}`: what is fitted is {}", known.join(", "))).into()
            );
        }
    }
    named.sort_by_key(|n| n.0.len());
    Ok(fit
        .names
        .iter()
        .map(|n| named.iter().rev().find(|(name, _)| covers(name, n)).map_or(common, |r| r.1))
        .collect())
}

/// Returns true if the name covers the number, as `gaussians` and `gaussians.color` cover `gaussians.color`.
fn covers(name: &str, number: &str) -> bool {
    number.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn progress(args: &FitArgs, start: u64) -> ProgressBar {
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

/// Reports the progress: by a bar, or by a line every few seconds if there is no terminal.
struct Reporter<'a> {
    args: &'a FitArgs,
    bar: &'a ProgressBar,
    begin: Instant,
    first_step: u64,
    first_seconds: f64,
    last_line: f64,
    last_save: f64,
}

impl<'a> Reporter<'a> {
    fn new(args: &'a FitArgs, bar: &'a ProgressBar, state: &State) -> Reporter<'a> {
        let (first_step, first_seconds) = (state.step, state.seconds);
        Reporter {
            args,
            bar,
            begin: Instant::now(),
            first_step,
            first_seconds,
            last_line: -2.0,
            last_save: 0.0,
        }
    }

    /// The used share of the budget, from 0 to 1.
    fn share(&self, state: &State) -> f64 {
        let by_steps = state.step as f64 / self.args.steps.max(1) as f64;
        let by_time = self.args.seconds.map_or(0.0, |s| state.seconds / s.max(1e-9));
        by_steps.max(by_time)
    }

    /// Reports a step; returns true if it is time to save the state.
    fn step(&mut self, state: &mut State, loss: f64) -> bool {
        let elapsed = self.begin.elapsed().as_secs_f64();
        state.seconds = self.first_seconds + elapsed;
        let share = self.share(state).clamp(1e-9, 1.0);
        let left = (elapsed / share.max(1e-9) * (1.0 - share)).min(86_400.0);
        let speed = (state.step - self.first_step) as f64 / elapsed.max(1e-9);
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
        let is_due = elapsed - self.last_save >= SAVE_EVERY && self.args.results.checkpoint.is_some();
        if is_due {
            self.last_save = elapsed;
        }
        is_due
    }

    fn save(&self, state: &State) -> Result<(), Error> {
        self.args.results.checkpoint.as_ref().map_or(Ok(()), |path| state.save(path))
    }
}

fn adam(
    args: &FitArgs,
    fit: &mut Fit,
    state: &mut State,
    progress: &mut Progress,
    rates: &[f64],
    bar: &ProgressBar,
) -> Result<(), Stopped> {
    let batch = args.batch.unwrap_or(8192);
    let seed = args.seed ^ state.step.wrapping_mul(0x5851_F42D_4C95_7F2D);
    let mut batches = Batches::new(&fit.items, batch, seed);
    let mut reporter = Reporter::new(args, bar, state);
    let mut loss = state.history.last().map_or(f64::NAN, |h| h.1);
    let mut descent = Descent::new(fit, &state.x, &state.adam, rates, progress.far);
    while reporter.share(state) < 1.0 {
        let items = batches.next_batch();
        if state.step.is_multiple_of(LOSS_EVERY) {
            loss = descent.loss(fit, items)?;
            descent.point(fit, &mut state.x)?;
            progress.step(&state.x, state.step, loss)?;
            state.record(state.step, loss);
        }
        // Cosine schedule: the full rate at the start, a hundredth of it at the end.
        let share = reporter.share(state).min(1.0);
        let scale = 0.01 + 0.99 * 0.5 * (1.0 + (std::f64::consts::PI * share).cos());
        match descent.step(fit, (&mut state.x, &mut state.adam), items, scale)? {
            None => {}
            Some(Trouble::Derivative(value)) => {
                let why = format!("the derivative by `{}` is {value} at step {}", fit.names[0], state.step);
                return Err(Stopped::Diverged(why));
            }
            Some(Trouble::Number(at, x)) => {
                let why = format!("`{}` is {x} at step {}", fit.names[at], state.step + 1);
                return Err(Stopped::Diverged(why));
            }
        }
        state.step += 1;
        if reporter.step(state, loss) {
            descent.point(fit, &mut state.x)?;
            descent.state(fit, &mut state.adam)?;
            reporter.save(state)?;
        }
    }
    descent.point(fit, &mut state.x)?;
    Ok(descent.state(fit, &mut state.adam)?)
}

/// The mean loss over all items, as an objective.
struct Whole<'a> {
    fit: &'a mut Fit,
    order: &'a [u32],
}

impl Objective for Whole<'_> {
    fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> Result<f64, Error> {
        self.fit.evaluate(x, self.order, gradient)
    }
}

fn lbfgs(
    args: &FitArgs,
    fit: &mut Fit,
    state: &mut State,
    progress: &mut Progress,
    bar: &ProgressBar,
) -> Result<(), Stopped> {
    let order: Vec<u32> = (0..fit.items.n as u32).collect();
    let mut reporter = Reporter::new(args, bar, state);
    while reporter.share(state) < 1.0 {
        let mut objective = Whole { fit, order: &order };
        let value = state.lbfgs.update(&mut state.x, &mut objective)?;
        let Some(value) = value else { break };
        if state.history.is_empty() {
            state.record(0, progress.best.0);
        }
        state.step += 1;
        progress.step(&state.x, state.step, value)?;
        progress.check(fit, &state.x, state.step)?;
        state.record(state.step, value);
        if reporter.step(state, value) {
            reporter.save(state)?;
        }
    }
    Ok(())
}

/// The name of the program's file without its extension.
fn stem(args: &FitArgs) -> String {
    args.source.file.file_stem().map_or_else(|| "fit".into(), |s| s.to_string_lossy().into_owned())
}

/// The reason why a fit stops.
enum Stopped {
    /// The fit diverged.
    Diverged(String),
    Error(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Error(error)
    }
}

/// Numbers that exceed those at the start by this factor are a sign of a fit without a minimum.
const FAR: f64 = 1e8;
/// A loss that exceeds the one at the start by this factor is not noise.
const WORSE: f64 = 1e3;

/// A loss whose magnitude exceeds that at the start by this factor is unbounded, possibly from below.
const BOTTOMLESS: f64 = 1e12;

/// Tracks the progress of a fit, to detect divergence.
struct Progress {
    start: f64,
    /// The largest plausible magnitude of a number.
    far: f64,
    /// The least loss, over all items or a batch, with its point and its step.
    best: (f64, Vec<f64>, u64),
}

impl Progress {
    /// Evaluates the loss at the start, which must be finite.
    fn new(fit: &mut Fit, state: &State) -> Result<Progress, Error> {
        let start = fit.loss(&state.x)?;
        if !start.is_finite() {
            // With `--check-nan`, evaluating the derivative reports the place.
            let order: Vec<u32> = (0..fit.items.n as u32).collect();
            fit.evaluate(&state.x, &order, &mut vec![0.0; state.x.len()])?;
            let message = format!(
                "the loss is {start} at the start: begin elsewhere (`--param`), or mend the loss \
                 (`--check-nan` finds where a derivative becomes infinite or NaN)"
            );
            return Err(Error::input(message));
        }
        let largest = state.x.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
        Ok(Progress { start, far: FAR * largest, best: (start, state.x.clone(), state.step) })
    }

    /// Records the loss at a point; returns an error if the fit has diverged.
    fn step(&mut self, x: &[f64], step: u64, loss: f64) -> Result<(), Stopped> {
        if !loss.is_finite() || loss.abs() > BOTTOMLESS * (1.0 + self.start.abs()) {
            return Err(Stopped::Diverged(format!("the loss is {loss} at step {step}")));
        }
        if loss < self.best.0 {
            self.best.0 = loss;
            self.best.1.copy_from_slice(x);
            self.best.2 = step;
        }
        Ok(())
    }

    /// Returns an error if a number of the point is NaN or too large.
    fn check(&self, fit: &Fit, x: &[f64], step: u64) -> Result<(), Stopped> {
        match x.iter().position(|x| x.is_nan() || x.abs() > self.far) {
            Some(at) => Err(Stopped::Diverged(format!("`{}` is {} at step {step}", fit.names[at], x[at]))),
            None => Ok(()),
        }
    }

    /// Checks the point and the loss over all items at the end.
    fn end(&self, fit: &Fit, state: &State, loss: f64) -> Result<(), Stopped> {
        self.check(fit, &state.x, state.step)?;
        if !loss.is_finite() || loss - self.start > WORSE * self.start.abs() + 1.0 {
            let (start, step) = (self.start, state.step);
            let why = format!("the loss is {loss} after {step} steps, and was {start} at the start");
            return Err(Stopped::Diverged(why));
        }
        Ok(())
    }
}

/// Saves the best parameters of a fit that diverged, without overwriting those of earlier fits.
fn diverged(
    args: &FitArgs,
    folder: &Path,
    fit: &mut Fit,
    progress: &Progress,
    why: &str,
) -> Result<Error, Error> {
    let (loss, x, step) = &progress.best;
    let mut kept = Vec::new();
    for (name, array) in fit.arrays(x)? {
        let file = folder.join(format!("{}-{name}-best.npy", stem(args)));
        npy::write(&file, &array)?;
        kept.push(file.display().to_string());
    }
    Ok(Error::Stopped(format!(
        "the fit diverged: {why}; try a smaller `--rate`, or begin elsewhere (`--param`)\n  \
         = note: the best parameters, of step {step} with the loss {loss}, are in {}; nothing else was written",
        kept.join(", ")
    )))
}

/// Writes pictures, plot and parameters, and prints their paths.
fn finish(
    args: &FitArgs,
    folder: &Path,
    fit: &mut Fit,
    (state, loss): (&State, f64),
    target: Option<&Picture>,
) -> Result<(), Error> {
    let stem = stem(args);
    let path = |suffix: &str| folder.join(format!("{stem}{suffix}"));
    let mut written = Vec::new();

    let mut summary = format!("{} steps in {:.1} s, loss {loss:.6}", state.step, state.seconds);
    if let (Some((numbers, channels)), Some((width, height))) = (fit.render(&state.x)?, fit.items.image)
        && matches!(channels, 1 | 3 | 4)
    {
        let fitted = Picture::from_numbers(width, height, &numbers);
        fitted.write(&path(".png"))?;
        written.push(path(".png"));
        if let Some(target) = target {
            picture::side_by_side(target, &fitted).write(&path("-compare.png"))?;
            written.push(path("-compare.png"));
            summary += &format!(", PSNR {:.2} dB", picture::psnr(target, &fitted));
        }
    } else if let Some((numbers, channels)) = fit.render(&state.x)? {
        let bits = numbers.iter().map(|x| x.to_bits()).collect();
        let array = npy::Array { scalar: ir::Scalar::F64, shape: vec![fit.items.n, channels], bits };
        npy::write(&path("-render.npy"), &array)?;
        written.push(path("-render.npy"));
    }
    plot::loss_plot(&format!("loss: {stem}"), &state.history).write(&path("-loss.png"))?;
    written.push(path("-loss.png"));
    for (name, array) in fit.arrays(&state.x)? {
        let file = path(&format!("-{name}.npy"));
        npy::write(&file, &array)?;
        written.push(file);
    }
    let mut text = format!("{summary}\n");
    if state.x.len() <= 16 {
        for (name, x) in fit.names.iter().zip(&state.x) {
            text += &format!("  {name} = {x}\n");
        }
    }
    for file in written {
        text += &format!("wrote {}\n", file.display());
    }
    report::out(&text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cover_their_fields() {
        assert!(covers("g", "g.color") && covers("g.color", "g.color") && covers("g", "g"));
        assert!(!covers("g.col", "g.color") && !covers("h", "g.color"));
    }

    #[test]
    fn initial_values_are_read() {
        let folder = Path::new("");
        let of = |text: &str| parse_init(text, folder).expect("parses").1;
        assert_eq!(of("x=zeros"), Init::Random(0.0, 0.0));
        assert_eq!(of("x=random:-1,2"), Init::Random(-1.0, 2.0));
        assert_eq!(of("x=start"), Init::Function("start".into()));
        assert!(matches!(of("x=[1,2]"), Init::Value(_)));
        assert!(parse_init("x", folder).is_err());
    }
}
