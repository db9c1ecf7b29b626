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
use syntax::{Diagnostic, Sources};

use crate::outputs::Outputs;
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
    let given = args;
    let args = merged.as_ref().unwrap_or(args);
    report::finish(&args.source, args.results.json, |session| {
        options::check_once(given)?;
        // The data is looked for beside the program.
        files::expect_readable(&args.source.file)?;
        let optimizer = options::optimizer(args)?;
        let folder = args.source.file.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let (items, inputs) = read_items(args, &folder)?;
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
            memory: report::binds(session, &args.memory)?,
            execution,
            seed: args.seed,
        };
        let out = args.results.out.clone().unwrap_or_else(|| PathBuf::from("target").join("fit"));
        let mut fit = Fit::new(session, &setup, items)?;
        report::warn(session, &fit.warnings);
        if args.show_kernel {
            report::out(&fit.kernel.text());
            return Ok(0);
        }
        prepare(args, &out, &session.sources, &inputs)?;
        if args.results.predict.is_some() && fit.kernel.render.is_none() {
            let why = "`--predict` needs a function `render` of the fitted parameters, or `--render NAME`";
            return Err(Stop::Usage(why.into()));
        }
        let plan = options::plan(args, &fit, optimizer)?;
        let mut start = fit.start.clone();
        plan.rates.bounds.project(&mut start);
        let run = Finished { args, out: &out, plan: &plan, setup: &setup, inputs: &inputs };
        run.spare_all(&fit)?;
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
        let (log, events) = (args.results.log.as_deref(), args.results.tensorboard.as_deref());
        let logs = Logs::new(log, events, &metric_names(&fit, &plan), &state)?;
        progress::heed_interruptions();
        let title = format!("fit of `{}` in {}", setup.loss, args.source.file.display());
        let watch = args.results.watch.map(|port| Watch::new(port, &title)).transpose()?;
        let mut progress = Progress::new((args, &plan), &state, logs, watch);
        let outcome = fit.minimise(&plan, &mut state, &mut progress);
        let (ending, optimum) = match outcome {
            Ok(done) => done,
            Err(stopped) => {
                progress.end();
                return Err(match stopped {
                    Stopped::Diverged(diverged) => run.diverged(session, &mut fit, &state, &diverged),
                    Stopped::Error(error) => error.into(),
                });
            }
        };
        // Whatever cannot be written keeps nothing else from being written.
        let mut lost: Vec<Error> = progress.finish(&mut fit, &state).err().into_iter().collect();
        let saved = args.results.checkpoint.as_ref().map(|path| state.save(path));
        lost.extend(saved.and_then(Result::err));
        state.x.clone_from(&optimum.x);
        let status = run.finish(&mut fit, &state, (&ending, &optimum), lost)?;
        Ok(if ending == Ending::Interrupted { progress::STATUS_INTERRUPTED } else { status })
    })
}

/// Reports outputs that cannot be written before time is spent on the fit.
fn prepare(args: &FitArgs, out: &Path, sources: &Sources, inputs: &Inputs) -> Result<(), Stop> {
    files::prepare_folder(out)?;
    let results = &args.results;
    for path in [&results.checkpoint, &results.predict, &results.log].into_iter().flatten() {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            files::prepare_folder(folder)?;
        }
    }
    let outputs = Outputs::of(sources)
        .reads(inputs.paths.iter().cloned())
        .writes("--checkpoint", results.checkpoint.as_deref())
        .writes("--predict", results.predict.as_deref())
        .writes("--log", results.log.as_deref());
    outputs.check()
}

/// The metrics over the items that are fitted, and over those kept apart.
fn metrics(fit: &mut Fit, plan: &Plan, x: &[f64]) -> Result<Vec<(String, f64)>, Error> {
    if fit.kernel.metrics.is_empty() {
        return Ok(Vec::new());
    }
    let (fitted, apart) = parts(fit, plan);
    let mut found = fit.metrics(x, &fitted)?;
    if !apart.is_empty() {
        let seen = fit.metrics(x, &apart)?.into_iter().zip(&fit.kernel.metrics);
        let seen = seen.filter(|(_, metric)| !metric.is_whole());
        found.extend(seen.map(|((name, x), _)| (format!("validation {name}"), x)));
    }
    Ok(found)
}

/// The names of the metrics, as [`metrics`] gives them.
fn metric_names(fit: &Fit, plan: &Plan) -> Vec<String> {
    let all = &fit.kernel.metrics;
    let apart = all.iter().filter(|metric| !metric.is_whole() && !parts(fit, plan).1.is_empty());
    let apart = apart.map(|metric| format!("validation {}", metric.name));
    all.iter().map(|metric| metric.name.clone()).chain(apart).collect()
}

/// The items that are fitted, and those kept apart.
fn parts(fit: &Fit, plan: &Plan) -> (Vec<u32>, Vec<u32>) {
    if fit.kernel.loss.is_whole() { (fit.items.near(), Vec::new()) } else { fit.parts(plan) }
}

/// The files that a fit reads besides the program.
struct Inputs {
    /// The files of the items.
    paths: Vec<PathBuf>,
    /// The pictures that the items are the pixels of.
    targets: Vec<Picture>,
}

/// The items, and where they are from.
fn read_items(args: &FitArgs, folder: &Path) -> Result<(Items, Inputs), Stop> {
    let text = args.items.as_deref().ok_or_else(|| {
        let wanted = "image:FILE.png, images:TABLE.csv, @file.csv, @file.npy or a number";
        Stop::Usage(format!("`--items` is needed: {wanted}"))
    })?;
    if let Some(path) = text.strip_prefix("images:") {
        let path = at(folder, path);
        let table = Table::read(&path)?;
        let names = table.column("image").ok_or_else(|| Error::read(&path, "it has no column `image`"))?;
        let beside = path.parent().unwrap_or(Path::new(""));
        let mut paths: Vec<PathBuf> = names.iter().map(|name| at(beside, name)).collect();
        let read: Vec<_> = paths.iter().map(|path| read_picture(path)).collect::<Result<_, _>>()?;
        let items = Items::views(&table, &read)?;
        paths.push(path);
        return Ok((items, Inputs { paths, targets: read.iter().map(target).collect() }));
    }
    if let Some(path) = text.strip_prefix("image:").filter(|path| pictures::is_picture(Path::new(path))) {
        let path = at(folder, path);
        let read = read_picture(&path)?;
        let inputs = Inputs { targets: vec![target(&read)], paths: vec![path] };
        return Ok((Items::pixels(read.0, read.1, read.2), inputs));
    }
    let paths = text.strip_prefix('@').map(|path| folder.join(path)).into_iter().collect();
    Ok((Items::parse(text, folder)?, Inputs { paths, targets: Vec::new() }))
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
    inputs: &'a Inputs,
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

    /// Writes and prints the results; returns the status. What is lost is reported at the end.
    fn finish(
        &self,
        fit: &mut Fit,
        state: &State,
        (ending, optimum): (&Ending, &Optimum),
        lost: Vec<Error>,
    ) -> Result<u8, Error> {
        finish::Results::write(self, fit, state, optimum, lost).print(self, fit, state, ending, optimum)
    }

    /// Returns an error if any result would replace what the fit reads.
    fn spare_all(&self, fit: &Fit) -> Result<(), Error> {
        let views = match fit.items.views.len() {
            0 | 1 => vec![String::new()],
            n => (0..n).map(|k| format!("-{k}")).collect(),
        };
        let pictures = views.iter().flat_map(|of| ["", "-compare"].map(|which| format!("{of}{which}.png")));
        let fixed = ["-loss.png", "-parameters.png", "-fit.png", "-render.npy", "-covariance.npy"];
        let arrays = fit.kernel.fitted.iter().map(|parameter| format!("-{}.npy", parameter.name));
        let all = pictures.chain(fixed.map(String::from)).chain(arrays);
        all.map(|suffix| self.path(&suffix)).try_for_each(|path| self.spare(&path))
    }

    /// Returns an error if a result would replace what the fit reads.
    fn spare(&self, path: &Path) -> Result<(), Error> {
        match self.inputs.paths.iter().find(|input| files::is_same(input, path)) {
            Some(_) => Err(Error::write(path, "it holds the items; `--out DIR` names another folder")),
            None => Ok(()),
        }
    }
}
