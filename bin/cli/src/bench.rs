//! `bench`: measures the run time of functions and their gradients.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use driver::bench::{self, Launch, Measured, Options, Subject, Times};
use driver::call::parse_arguments;
use driver::launch::Backend;
use driver::pipeline::{self, Listed, Loaded};
use driver::precision;
use driver::profile::{Place, Profile, Rounding};
use driver::ranges::Ranges;
use driver::session::Session;
use driver::{Error, files, render};
use syntax::Sources;

use crate::args::BenchArgs;
use crate::outputs::Outputs;
use crate::report::{self, Stop};
use crate::{page, profile, run};

/// The number of seconds for which a kernel is measured.
const SECONDS: f64 = 0.3;
/// The points at which rounding errors are estimated, and the range of their numbers, which is that of measurements.
const POINTS: u32 = 20;
/// See `POINTS`.
const ARGUMENTS: (f64, f64) = (0.25, 0.75);

pub(crate) fn bench(args: &BenchArgs) -> u8 {
    report::finish(&args.source, args.json, |session| {
        let at = parse_arguments("--at", &args.at).map_err(report::usage)?;
        let seconds = args.seconds.unwrap_or(SECONDS);
        let limits = args.limits.limits(Some(seconds));
        let backend = args.backend.unwrap_or_else(Backend::fastest);
        let mut execution = report::execution(&args.compile, (backend, &args.lanes), limits);
        execution.threads = args.threads;
        execution.code.flush_subnormals = args.flush_subnormals;
        let memory = report::binds(session, &args.memory)?;
        let options = Options { execution, memory, at, threads: args.count, seconds };
        // A word after `--profile` that names no page is a function.
        let word = args.profile.as_ref().and_then(Option::as_ref);
        let page = word.filter(|page| page.extension().is_some_and(|end| end == "html"));
        let word = word.filter(|_| page.is_none());
        let function: Vec<String> =
            word.iter().map(|word| word.display().to_string()).chain(args.function.iter().cloned()).collect();
        if args.entry.is_some() && !function.is_empty() {
            let [name, ..] = &function[..] else { unreachable!("there is one") };
            return Err(Stop::Usage(format!("`--entry` measures a kernel, and `{name}` is a function")));
        }
        let mut loaded = pipeline::load(session, &args.source.file)?;
        Outputs::of(&session.sources).writes("--profile", page.map(PathBuf::as_path)).check()?;
        loaded.errors()?;
        let subjects = subjects(args, &mut loaded, function)?;
        let (mut all, mut profiles) = (Vec::new(), Vec::new());
        for subject in &subjects {
            // Each function is measured in a fresh program, so that functions do not influence each other.
            let mut loaded = pipeline::load(session, &args.source.file)?;
            loaded.errors()?;
            all.push(bench::measure(&mut loaded, subject, &options)?);
            report::warn(session, &loaded.warned);
        }
        if args.profile.is_some() {
            let seconds = args.seconds.unwrap_or(driver::profile::SECONDS);
            let options = Options { seconds, ..options };
            for subject in &subjects {
                let mut profile = driver::profile::profile(session, &args.source.file, subject, &options)?;
                if let (true, Subject::Function(name)) = (args.rounding, subject) {
                    profile.rounding = Some(rounding(session, &args.source.file, name, &options)?);
                }
                profiles.push(profile);
            }
        }
        let sources = &session.sources;
        report::out(&match args.json {
            true => json(sources, &all, &profiles),
            false => text(sources, &all) + &profile::text(sources, &profiles),
        });
        if let Some(path) = page {
            files::write(path, page::page(sources, &profiles).as_bytes())?;
        }
        Ok(0)
    })
}

/// The contribution of each line to the rounding error of a function, at random arguments such as it is measured with.
fn rounding(session: &Session, file: &Path, function: &str, options: &Options) -> Result<Rounding, Stop> {
    let asked = precision::Options {
        function: function.to_string(),
        at: options.at.clone(),
        points: POINTS,
        ranges: Ranges { common: ARGUMENTS, named: Vec::new() },
        seed: 1,
        memory: options.memory.clone(),
        backend: Backend::INTERP,
        derivative: None,
        code: options.execution.code.clone(),
    };
    let lines = precision::by_line(session, file, &asked)?;
    let index = |path: &str| session.sources.files.iter().rposition(|file| file.path == path);
    let place = |(path, line, error): (String, u32, f64)| {
        Some((Place { file: u32::try_from(index(&path)?).ok()?, line }, error))
    };
    Ok(lines.into_iter().filter_map(place).collect())
}

/// The subject of the measurement: a kernel, the functions that are named, or all that are differentiable.
fn subjects(args: &BenchArgs, loaded: &mut Loaded, named: Vec<String>) -> Result<Vec<Subject>, Stop> {
    if args.entry.is_some() {
        let groups = run::triple("--groups", &args.groups)?;
        let block = run::block(args.block.as_deref())?;
        let entry = loaded.entry(args.entry.as_deref())?;
        run::check_groups(groups, block.unwrap_or([1; 3]))?;
        let entry = loaded.name(entry).to_string();
        return Ok(vec![Subject::Kernel(Launch { entry, groups, block })]);
    }
    let named = match named.is_empty() {
        true => {
            let all = loaded.differentiable_declarations();
            all.into_iter().filter(Listed::is_free).map(|listed| listed.name).collect()
        }
        false => named,
    };
    if named.is_empty() {
        let help = "mark one [Differentiable], name functions after the file, or a kernel by `--entry`";
        return Err(Error::input(format!("the file has no differentiable function: {help}")).into());
    }
    Ok(named.into_iter().map(Subject::Function).collect())
}

/// Nanoseconds with three significant digits.
fn ns(x: f64) -> String {
    let digits = if x < 10.0 { 2 } else { usize::from(x < 100.0) };
    format!("{x:.digits$}")
}

/// Every kernel that was measured, with its name in a sentence.
fn kernels(all: &[Measured]) -> impl Iterator<Item = (String, &Times)> {
    all.iter().flat_map(|m| {
        let name = m.subject.name();
        let first = match m.subject {
            Subject::Function(_) => format!("the primal of {name}"),
            Subject::Kernel(_) => format!("the kernel {name}"),
        };
        let gradient = m.gradient.as_ref().map(|times| (format!("the gradient of {name}"), times));
        std::iter::once((first, &m.primal)).chain(gradient)
    })
}

/// The reason why threads did not run in lanes, with the line.
fn why(sources: &Sources, times: &Times) -> Option<String> {
    let (what, span) = times.why_single.as_ref()?;
    Some(match render::place(sources, *span) {
        Some(place) => format!("{what} ({place})"),
        None => what.clone(),
    })
}

fn text(sources: &Sources, all: &[Measured]) -> String {
    let width = all.iter().map(|m| m.subject.name().chars().count()).max().unwrap_or(0).max(8);
    let is_kernels = all.iter().all(is_kernel);
    let [first, second, third] =
        if is_kernels { ["kernel", "threads", ""] } else { ["primal", "gradient", "ratio"] };
    let mut out = format!(
        "{:width$}  {:>22}  {:>22}  {:>6}  {:>12}  {:>5}\n",
        "ns/thread", first, second, third, "stacks", "lanes"
    );
    let cell = |t: &Times| format!("{} ({}..{})", ns(t.median), ns(t.quartiles[0]), ns(t.quartiles[1]));
    for m in all {
        let (gradient, ratio, stacks) = match &m.gradient {
            Some(g) => {
                (cell(g), format!("{:.2}", g.median / m.primal.median), format!("{} B", g.arena_bytes))
            }
            None if is_kernels => {
                (m.threads.to_string(), String::new(), format!("{} B", m.primal.arena_bytes))
            }
            None => ("none".to_string(), String::new(), String::new()),
        };
        let primal = cell(&m.primal);
        let lanes = m.gradient.as_ref().map_or(m.primal.lanes, |g| g.lanes.min(m.primal.lanes));
        let _ = writeln!(
            out,
            "{:width$}  {primal:>22}  {gradient:>22}  {ratio:>6}  {stacks:>12}  {lanes:>5}",
            m.subject.name()
        );
    }
    for m in all {
        let Some(memory) = m.memory else { continue };
        let _ = write!(
            out,
            "{} keeps {} B of a call, of {} that must be kept",
            m.subject.name(),
            memory.kept,
            memory.least
        );
        if let Some(place) = m.unbounded.and_then(|span| render::place(sources, span)) {
            let _ = write!(out, ", of one trip of the loop without `[MaxIters]` ({place})");
        }
        out.push('\n');
    }
    for (kernel, times) in kernels(all) {
        if let Some(why) = why(sources, times) {
            let _ = writeln!(out, "{kernel} runs in no lanes: {why}");
        }
    }
    out
}

fn json(sources: &Sources, all: &[Measured], profiles: &[Profile]) -> String {
    let times = |t: &Times| {
        serde_json::json!({
            "ns_per_thread": t.median,
            "quartiles": t.quartiles,
            "dispatches": t.dispatches,
            "arena_bytes": t.arena_bytes,
            "lanes": t.lanes,
            "why_single": why(sources, t),
        })
    };
    let one = |m: &Measured| match &m.subject {
        Subject::Function(name) => serde_json::json!({
            "function": name,
            "threads": m.threads,
            "primal": times(&m.primal),
            "gradient": m.gradient.as_ref().map(times),
            "kept_bytes": m.memory.map(|m| m.kept),
            "least_kept_bytes": m.memory.map(|m| m.least),
        }),
        Subject::Kernel(launch) => serde_json::json!({
            "kernel": launch.entry,
            "groups": launch.groups,
            "threads": m.threads,
            "times": times(&m.primal),
        }),
    };
    let list = all.iter().enumerate().map(|(k, m)| {
        let mut entry = one(m);
        if let Some(profile) = profiles.get(k) {
            entry["profile"] = profile::json(sources, profile);
        }
        entry
    });
    let are = if all.iter().all(is_kernel) { "kernels" } else { "functions" };
    serde_json::json!({ are: list.collect::<Vec<_>>() }).to_string() + "\n"
}

fn is_kernel(m: &Measured) -> bool {
    matches!(m.subject, Subject::Kernel(_))
}
