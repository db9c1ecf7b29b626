//! `bench`: measures the run time of functions and their gradients.

use std::fmt::Write as _;

use driver::bench::{self, Measured, Options, Times};
use driver::call::parse_arguments;
use driver::launch::Backend;
use driver::pipeline;
use driver::profile::Profile;
use driver::{Error, render};
use syntax::Sources;

use crate::args::BenchArgs;
use crate::report::{self, Stop};
use crate::{page, profile};

/// The number of seconds for which a kernel is measured.
const SECONDS: f64 = 0.3;

pub(crate) fn bench(args: &BenchArgs) -> u8 {
    report::finish(&args.source, args.json, |session| {
        let at = parse_arguments("--at", &args.at).map_err(|e| Stop::Usage(e.to_string()))?;
        let seconds = args.seconds.unwrap_or(SECONDS);
        let limits = args.limits.limits(Some(seconds));
        let backend = args.backend.unwrap_or_else(Backend::fastest);
        let mut execution = report::execution(&args.compile, (backend, &args.lanes), limits);
        execution.threads = args.threads;
        execution.code.flush_subnormals = args.flush_subnormals;
        let memory = report::binds(&args.memory)?;
        let options = Options { execution, memory, at, threads: args.count, seconds };
        // A word after `--profile` that names no page is a function.
        let word = args.profile.as_ref().and_then(Option::as_ref);
        let page = word.filter(|page| page.extension().is_some_and(|end| end == "html"));
        let word = word.filter(|_| page.is_none());
        let function: Vec<String> =
            word.iter().map(|word| word.display().to_string()).chain(args.function.iter().cloned()).collect();
        let names = match &function[..] {
            [] => {
                let mut loaded = pipeline::load(session, &args.source.file)?;
                loaded.errors()?;
                let all = loaded.differentiable_functions();
                all.iter().map(|f| loaded.name(f.decl).to_string()).collect()
            }
            named => named.to_vec(),
        };
        if names.is_empty() {
            let help = "mark one [Differentiable], or name functions after the file";
            return Err(Error::input(format!("the file has no differentiable function: {help}")).into());
        }
        let (mut all, mut profiles) = (Vec::new(), Vec::new());
        for name in &names {
            // Each function is measured in a fresh program, so that functions do not influence each other.
            let mut loaded = pipeline::load(session, &args.source.file)?;
            loaded.errors()?;
            all.push(bench::measure(&mut loaded, name, &options)?);
            report::warn(session, &loaded.warned);
        }
        if args.profile.is_some() {
            let seconds = args.seconds.unwrap_or(driver::profile::SECONDS);
            let options = Options { seconds, ..options };
            for name in &names {
                profiles.push(driver::profile::profile(session, &args.source.file, name, &options)?);
            }
        }
        if let Some(page) = page {
            let text = page::page(&session.sources, &profiles);
            std::fs::write(page, text).map_err(|e| Error::input(format!("{}: {e}", page.display())))?;
        }
        let sources = &session.sources;
        report::out(&match args.json {
            true => json(sources, &all, &profiles),
            false => text(sources, &all) + &profile::text(sources, &profiles),
        });
        Ok(0)
    })
}

/// Nanoseconds with three significant digits.
fn ns(x: f64) -> String {
    let digits = if x < 10.0 { 2 } else { usize::from(x < 100.0) };
    format!("{x:.digits$}")
}

/// Every kernel that was measured.
fn kernels(all: &[Measured]) -> impl Iterator<Item = (&Measured, &'static str, &Times)> {
    all.iter().flat_map(|m| {
        let gradient = m.gradient.as_ref().map(|times| (m, "gradient", times));
        std::iter::once((m, "primal", &m.primal)).chain(gradient)
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
    let width = all.iter().map(|m| m.name.chars().count()).max().unwrap_or(0).max(8);
    let mut out = format!(
        "{:width$}  {:>22}  {:>22}  {:>6}  {:>12}  {:>5}\n",
        "ns/thread", "primal", "gradient", "ratio", "stacks", "lanes"
    );
    let cell = |t: &Times| format!("{} ({}..{})", ns(t.median), ns(t.quartiles[0]), ns(t.quartiles[1]));
    for m in all {
        let (gradient, ratio, stacks) = match &m.gradient {
            Some(g) => {
                (cell(g), format!("{:.2}", g.median / m.primal.median), format!("{} B", g.arena_bytes))
            }
            None => ("none".to_string(), String::new(), String::new()),
        };
        let primal = cell(&m.primal);
        let lanes = m.gradient.as_ref().map_or(m.primal.lanes, |g| g.lanes.min(m.primal.lanes));
        let _ = writeln!(
            out,
            "{:width$}  {primal:>22}  {gradient:>22}  {ratio:>6}  {stacks:>12}  {lanes:>5}",
            m.name
        );
    }
    for m in all {
        let Some(memory) = m.memory else { continue };
        let _ = write!(
            out,
            "{} keeps {} B of a call, of {} that must be kept",
            m.name, memory.kept, memory.least
        );
        if let Some(place) = m.unbounded.and_then(|span| render::place(sources, span)) {
            let _ = write!(out, ", of one trip of the loop without `[MaxIters]` ({place})");
        }
        out.push('\n');
    }
    for (m, kernel, times) in kernels(all) {
        if let Some(why) = why(sources, times) {
            let _ = writeln!(out, "the {kernel} of {} runs in no lanes: {why}", m.name);
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
    let list: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(k, m)| {
            let mut entry = serde_json::json!({
                "function": m.name,
                "threads": m.threads,
                "primal": times(&m.primal),
                "gradient": m.gradient.as_ref().map(times),
                "kept_bytes": m.memory.map(|m| m.kept),
                "least_kept_bytes": m.memory.map(|m| m.least),
            });
            if let Some(profile) = profiles.get(k) {
                entry["profile"] = profile::json(sources, profile);
            }
            entry
        })
        .collect();
    serde_json::json!({ "functions": list }).to_string() + "\n"
}
