//! `fit`: reads the options, minimises the loss, shows the progress and writes the results.

pub(crate) mod args;
mod finish;
mod log;
mod options;
mod picture;
mod plot;
mod progress;
mod watch;

use std::path::{Path, PathBuf};

use driver::fit::items::{Items, MOST_ITEMS};
use driver::fit::kernel::Task;
use driver::fit::run::{Diverged, Ending, Optimum, Plan, Stopped};
use driver::fit::state::State;
use driver::fit::table::Table;
use driver::fit::{Fit, Setup, trouble};
use driver::launch::CodeOptions;
use driver::pipeline::Failure;
use driver::session::Session;
use driver::{Error, files, npy, pictures};
use syntax::Diagnostic;

use crate::report::{self, Stop};
use args::FitArgs;
use log::Logs;
pub(crate) use options::file_options;
use picture::Picture;
use progress::Progress;
use watch::Watch;

pub(crate) fn fit(args: &FitArgs) -> u8 {
    let merged = match options::with_file_options(args) {
        Ok(merged) => merged,
        Err(status) => return status,
    };
    let args = merged.as_ref().unwrap_or(args);
    report::finish(&args.source, args.results.json, |session| {
        let optimizer = options::optimizer(args)?;
        let folder = args.source.file.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let (items, targets) = read_items(args, &folder)?;
        let limits = CodeOptions { deterministic: args.deterministic, ..args.limits.limits(args.seconds) };
        let mut execution = report::execution(&args.compile, (args.backend, &args.lanes), limits);
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
        execution.threads = args.threads.unwrap_or_else(cores);
        let setup = Setup {
            path: args.source.file.clone(),
            loss: options::function(args, optimizer),
            task: options::task(args, optimizer),
            render: args.results.render.clone(),
            metrics: args.results.metric.clone(),
            inits: options::inits(args, &folder)?,
            memory: report::binds(&args.memory)?,
            execution,
            seed: args.seed,
        };
        let out = args.results.out.clone().unwrap_or_else(|| PathBuf::from("target").join("fit"));
        if !args.show_kernel {
            prepare(args, &out)?;
        }
        let mut fit = Fit::new(session, &setup, items)?;
        report::warn(session, &fit.warnings);
        if args.show_kernel {
            report::out(&fit.kernel.text());
            return Ok(0);
        }
        if args.results.predict.is_some() && fit.kernel.render.is_none() {
            let why = "`--predict` needs a function `render` of the fitted parameters, or `--render NAME`";
            return Err(Stop::Usage(why.into()));
        }
        let plan = options::plan(args, &fit, optimizer)?;
        let mut start = fit.start.clone();
        plan.rates.bounds.project(&mut start);
        let of = format!("`{}` by {}", setup.loss, optimizer.name());
        let mut state = State::new(of, start);
        if let (true, Some(path)) = (args.results.resume, &args.results.checkpoint) {
            if path.exists() {
                state = State::load(path, &state.of, fit.start.len())?;
            } else {
                report::err(&format!(
                    "note: there is no checkpoint `{}` yet: the fit begins anew\n",
                    path.display()
                ));
            }
        }
        let logs = Logs::new(args.results.log.as_deref(), args.results.tensorboard.as_deref(), &state)?;
        progress::heed_interruptions();
        let title = format!("fit of `{}` in {}", setup.loss, args.source.file.display());
        let watch = args.results.watch.map(|port| Watch::new(port, &title)).transpose()?;
        let mut progress = Progress::new(args, &state, logs, watch);
        let outcome = fit.minimise(&plan, &mut state, &mut progress);
        progress.finish(&mut fit, &state)?;
        let (ending, optimum) = match outcome {
            Ok(done) => done,
            Err(Stopped::Diverged(diverged)) => {
                let run = Finished { args, out: &out, plan: &plan, setup: &setup, targets: &targets };
                return Err(run.diverged(session, &mut fit, &state, &diverged));
            }
            Err(Stopped::Error(error)) => return Err(error.into()),
        };
        let run = Finished { args, out: &out, plan: &plan, setup: &setup, targets: &targets };
        if let Some(path) = &args.results.checkpoint {
            state.save(path)?;
        }
        state.x.clone_from(&optimum.x);
        run.finish(&mut fit, &state, &ending, &optimum)?;
        Ok(if ending == Ending::Interrupted { progress::STATUS_INTERRUPTED } else { 0 })
    })
}

/// Reports outputs that cannot be written before time is spent on the fit.
fn prepare(args: &FitArgs, out: &Path) -> Result<(), Error> {
    files::prepare_folder(out)?;
    let results = &args.results;
    for path in [&results.checkpoint, &results.predict, &results.log].into_iter().flatten() {
        if path.is_dir() {
            return Err(Error::write(path, "it is a directory"));
        }
        if let Some(folder) = path.parent() {
            files::prepare_folder(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
        }
    }
    Ok(())
}

/// The items, and the pictures that they are the pixels of.
fn read_items(args: &FitArgs, folder: &Path) -> Result<(Items, Vec<Picture>), Stop> {
    let text = args.items.as_deref().ok_or_else(|| {
        let wanted = "image:FILE.png, images:TABLE.csv, @file.csv, @file.npy or a number";
        Stop::Usage(format!("`--items` is needed: {wanted}"))
    })?;
    if let Some(path) = text.strip_prefix("images:") {
        let path = at(folder, path);
        let table = Table::read(&path)?;
        let names = table.column("image").ok_or_else(|| Error::read(&path, "it has no column `image`"))?;
        let beside = path.parent().unwrap_or(Path::new(""));
        let read: Vec<_> =
            names.iter().map(|name| read_picture(&at(beside, name))).collect::<Result<_, _>>()?;
        return Ok((Items::views(&table, &read)?, read.iter().map(target).collect()));
    }
    if let Some(path) = text.strip_prefix("image:").filter(|path| pictures::is_picture(Path::new(path))) {
        let read = read_picture(&at(folder, path))?;
        let pictures = vec![target(&read)];
        return Ok((Items::pixels(read.0, read.1, read.2), pictures));
    }
    Ok((Items::parse(text, folder)?, Vec::new()))
}

/// Reads a picture: its width, its height and its colours, red, green and blue for each pixel.
fn read_picture(path: &Path) -> Result<(usize, usize, Vec<f64>), Error> {
    let array = pictures::read(path)?;
    let (height, width) = (array.shape[0], array.shape[1]);
    if width * height > MOST_ITEMS {
        return Err(Error::read(
            path,
            format!("the image is too large: at most {MOST_ITEMS} pixels are fitted"),
        ));
    }
    let channels = array.shape.get(2).copied().unwrap_or(1);
    let numbers = array.to_f64();
    let rgb = numbers.chunks_exact(channels).flat_map(|pixel| match channels {
        1 | 2 => [pixel[0]; 3],
        _ => [pixel[0], pixel[1], pixel[2]],
    });
    Ok((width, height, rgb.collect()))
}

/// The picture that a fit is compared with.
fn target((width, height, rgb): &(usize, usize, Vec<f64>)) -> Picture {
    Picture::from_numbers(*width, *height, rgb)
}

/// Resolves a path from the options: beside the program if it exists there, otherwise relative to the current
/// folder.
fn at(folder: &Path, path: &str) -> PathBuf {
    let beside = folder.join(path);
    if beside.exists() { beside } else { path.into() }
}

/// A fit at its end, with what its results are made from.
struct Finished<'a> {
    args: &'a FitArgs,
    out: &'a Path,
    plan: &'a Plan,
    setup: &'a Setup,
    targets: &'a [Picture],
}

impl Finished<'_> {
    /// The path of a result: the program's name, then the suffix.
    fn path(&self, suffix: &str) -> PathBuf {
        let stem = self.args.source.file.file_stem();
        let stem = stem.map_or_else(|| "fit".into(), |s| s.to_string_lossy().into_owned());
        self.out.join(format!("{stem}{suffix}"))
    }

    /// Keeps the best parameters of a fit that diverged, without overwriting those of earlier fits, and finds the item
    /// and the line to blame.
    fn diverged(&self, session: &mut Session, fit: &mut Fit, state: &State, diverged: &Diverged) -> Stop {
        let kept = match self.keep_best(fit, state) {
            Ok(kept) => kept,
            Err(error) => return error.into(),
        };
        let mut message = format!("the fit stopped at step {}: {}", diverged.step, diverged.why);
        let mut line = None;
        if let Some((x, order)) = &diverged.at {
            let found = match fit.find_trouble(x, order) {
                Ok(found) => found,
                Err(error) => return error.into(),
            };
            if let Some(found) = found {
                // A function of whole columns is called once, for all items.
                if !fit.kernel.loss.is_whole() {
                    message += &format!(", at {}", trouble::describe(&fit.items, found.item()));
                }
                line = trouble::find_line(session, self.setup, &fit.items, x, found);
            }
        }
        let help = match self.setup.task {
            _ if state.best.is_none() => "begin elsewhere (`--param`)",
            Task::Loss(_) => "try a smaller `--rate`, `--clip`, or begin elsewhere (`--param`)",
            Task::Residuals => "begin elsewhere (`--param`), or set `--bounds`",
        };
        let failure = match line {
            Some(Failure::Program(found)) if !found.is_empty() => {
                let first = &found[0];
                let message = format!("{message}: {}", first.message);
                let diagnostic = Diagnostic::error("E0801", first.primary.span, message);
                let diagnostic = diagnostic.label("here").help(format!("{help}; {kept}"));
                Failure::Program(vec![diagnostic])
            }
            _ => Error::Stopped(format!("{message}\n  = note: {kept}\n  = help: {help}")).into(),
        };
        Stop::Failure(failure)
    }

    /// Writes the best parameters so far, and says where they are.
    fn keep_best(&self, fit: &mut Fit, state: &State) -> Result<String, Error> {
        let Some(best) = &state.best else { return Ok("nothing was written".into()) };
        let mut kept = Vec::new();
        for (name, array) in fit.arrays(&best.x) {
            let file = self.path(&format!("-{name}-best.npy"));
            npy::write(&file, &array)?;
            kept.push(file.display().to_string());
        }
        let json = self.path("-parameters-best.json");
        finish::write_json(&json, &fit.json(&best.x)?)?;
        kept.push(json.display().to_string());
        let (loss, step) = (best.loss, best.step);
        Ok(format!(
            "the best parameters, of step {step} with the loss {loss}, are in {}; nothing else was written",
            kept.join(", ")
        ))
    }

    fn finish(&self, fit: &mut Fit, state: &State, ending: &Ending, optimum: &Optimum) -> Result<(), Error> {
        finish::Results::write(self, fit, state, optimum)?.print(self, fit, state, ending, optimum)
    }
}
