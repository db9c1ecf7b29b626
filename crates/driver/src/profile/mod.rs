//! `bench --profile`: what each line of a function costs, in itself and in its gradient, or each line of a kernel.
//!
//! The kernels of `bench` are compiled twice more. Code with locations runs while the program counter is sampled: it
//! is the code that was measured, and its samples are attributed to lines (`attribute`), with the derivatives told from
//! the program (`parts`). Code that counts then runs once: it gives the lanes that were active, the accesses, the calls
//! and the bytes kept, by line.
//!
//! Advice (`advice`) rests on figures. Where a remedy can be tried, it is: a loop is compiled with `[Checkpoint]`, the
//! gradient without one parameter, and both are timed in turns with the gradient as it is.

pub mod advice;
pub mod attribute;
pub mod parts;

use std::path::Path;
use std::time::Duration;

use native::profile::Profile as Form;
use native::profile::sampler::{self, Sampler};
use rustc_hash::FxHashMap;
use syntax::Sources;

use crate::bench::{Asked, GRADIENT, Kernels, Options, PRIMAL, Subject};
use crate::error::{Error, Failure};
use crate::launch::Runner;
use crate::pipeline;
use crate::session::Session;

pub use advice::Advice;
pub use attribute::{Counts, Place, Time};

/// The time between two samples of a thread. A sample takes a virtual machine up to 30 µs, three per cent of it. It is no
/// round time, so that samples do not keep pace with the kernel.
const PERIOD: Duration = Duration::from_nanos(997_001);
/// The number of seconds in which a kernel gets samples enough.
pub const SECONDS: f64 = 1.0;
/// The largest number of samples.
const MOST_SAMPLES: usize = 1 << 20;
/// The smallest number of dispatches that are sampled, and that are timed to compare two kernels.
const LEAST: u32 = 5;
/// The largest number of remedies of a kind that are tried.
const TRIALS: usize = 4;

/// The profile of a function or kernel. All times are nanoseconds for each thread, all counts are for each thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The subject.
    pub subject: Subject,
    /// The kernel of the function, and that of its gradient if it has one; or the kernel of the program.
    pub kernels: Vec<KernelProfile>,
    /// All lines that take time or do something that is counted, in the order of the source.
    pub lines: Vec<Line>,
    /// True if the backend tells which values it spills.
    pub has_spills: bool,
    /// Changes that may make the function faster.
    pub advice: Vec<Advice>,
}

/// The time of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelProfile {
    /// The processor time that was measured without samples.
    pub measured: f64,
    /// The time of all lines.
    pub lines: f64,
    /// The time of compiled code that comes from no line: the loop over threads, arguments and results.
    pub threads: f64,
    /// The time of everything else: dispatching, and the runtime where no line has called it.
    pub elsewhere: f64,
    /// The number of samples.
    pub samples: usize,
    /// The number of threads that run in lanes.
    pub lanes: u32,
}

impl KernelProfile {
    /// The time that is accounted for.
    pub fn total(&self) -> f64 {
        self.lines + self.threads + self.elsewhere
    }
}

impl Profile {
    /// The names of the kernels.
    pub fn names(&self) -> &'static [&'static str] {
        match self.subject {
            Subject::Function(_) => &["primal", "gradient"],
            Subject::Kernel(_) => &["kernel"],
        }
    }

    /// The number of the kernel that reverse mode belongs to: the gradient, or the kernel of the program.
    pub fn reverse(&self) -> usize {
        self.kernels.len().min(2) - 1
    }

    /// The time of a line in a kernel.
    pub fn time(&self, line: &Line, kernel: usize) -> f64 {
        if kernel == PRIMAL { line.primal } else { line.gradient.total() }
    }

    /// The lines that take most of a kernel's time, and the share of it that each takes: those of at least `least`, the
    /// largest first.
    pub fn hottest(&self, kernel: usize, least: f64) -> Vec<(Place, f64)> {
        let Some(of) = self.kernels.get(kernel) else { return Vec::new() };
        let share = |line: &Line| (line.place, self.time(line, kernel) / of.total().max(f64::MIN_POSITIVE));
        let mut all: Vec<(Place, f64)> =
            self.lines.iter().map(share).filter(|line| line.1 >= least).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }
}

/// The costs of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The line.
    pub place: Place,
    /// Its time in the function, or in the kernel of the program.
    pub primal: f64,
    /// Its time in the gradient, or the parts of that in the kernel of the program.
    pub gradient: Time,
    /// Its counts in the function, and in the gradient; the first are those in the kernel of the program.
    pub counts: [Counts; 2],
}

/// A kernel that was sampled and counted.
struct Sampled {
    of: KernelProfile,
    lines: FxHashMap<Place, Time>,
    counts: FxHashMap<Place, Counts>,
}

/// The forms of the code of a function's kernels.
struct Forms {
    lines: Runner,
    counts: Runner,
}

/// Profiles a function or a kernel of a file.
pub fn profile(
    session: &mut Session,
    file: &Path,
    subject: &Subject,
    options: &Options,
) -> Result<Profile, Failure> {
    let mut loaded = pipeline::load(session, file)?;
    let kernels = Kernels::new(&mut loaded, subject, options, &Asked::marked())?;
    let mut form = |profile: Form| {
        let code = native::Options { profile, cache: false, ..options.execution.code.clone() };
        kernels.runner(&mut loaded, options, &code)
    };
    let mut forms = Forms { lines: form(Form::Lines)?, counts: form(Form::Counts)? };
    let mut sampled = Vec::new();
    for entry in 0..if kernels.has_gradient { 2 } else { 1 } {
        sampled.push(forms.sample(&session.sources, entry, &kernels, options)?);
    }
    let lines = joined(subject, &sampled);
    let code = forms.lines.machine_code().map(|code| code.lines().spills().is_some());
    let mut found = Profile {
        subject: subject.clone(),
        kernels: sampled.into_iter().map(|kernel| kernel.of).collect(),
        lines,
        has_spills: code.unwrap_or(false),
        advice: Vec::new(),
    };
    let trials = try_remedies((session, file), &kernels, &found, options)?;
    found.advice = advice::advice(&found, &trials);
    Ok(found)
}

/// The lines of all kernels, in the order of the source.
fn joined(subject: &Subject, kernels: &[Sampled]) -> Vec<Line> {
    let parted = match subject {
        Subject::Function(_) => GRADIENT,
        Subject::Kernel(_) => PRIMAL,
    };
    let mut places: Vec<Place> =
        kernels.iter().flat_map(|kernel| kernel.lines.keys().chain(kernel.counts.keys())).copied().collect();
    places.sort_unstable();
    places.dedup();
    let line = |place: Place| {
        let time = |k: usize| kernels.get(k).and_then(|kernel| kernel.lines.get(&place)).copied();
        let counts = |k: usize| kernels.get(k).and_then(|kernel| kernel.counts.get(&place)).copied();
        Line {
            place,
            primal: time(PRIMAL).unwrap_or_default().total(),
            gradient: time(parted).unwrap_or_default(),
            counts: [PRIMAL, GRADIENT].map(|k| counts(k).unwrap_or_default()),
        }
    };
    places.into_iter().map(line).collect()
}

impl Forms {
    /// Samples an entry point, and counts what it does.
    fn sample(
        &mut self,
        sources: &Sources,
        entry: usize,
        kernels: &Kernels,
        options: &Options,
    ) -> Result<Sampled, Error> {
        let runner = &mut self.lines;
        let before = kernels.to_restore(runner);
        let none = || {
            let all = "`--backend llvm` and `--backend cranelift`";
            Error::input(format!("only machine code for this processor has a profile: {all}"))
        };
        if runner.is_first_tier() {
            return Err(none());
        }
        let workers = options.execution.threads;
        // Dispatches; returns the seconds, and the processor time in nanoseconds that is no part of it.
        let dispatch = |runner: &mut Runner, workers| -> Result<(f64, u64), Error> {
            let aside = match before.is_empty() {
                true => 0,
                false => sampler::aside(|| runner.restore(&before)),
            };
            let done = runner.dispatch_entry(entry, kernels.groups, workers, None)?;
            Ok((done.seconds, aside))
        };
        dispatch(runner, workers)?;
        // Runs for some time; returns the number of dispatches, and the processor time of each.
        let run = |runner: &mut Runner| -> Result<(f64, f64), Error> {
            let begin = sampler::processor_time();
            let (mut n, mut seconds, mut other) = (0u32, 0.0, 0);
            while n < LEAST || seconds < options.seconds {
                let (took, aside) = dispatch(runner, workers)?;
                seconds += took;
                other += aside;
                n += 1;
            }
            let (n, time) = (f64::from(n), sampler::processor_time().saturating_sub(begin + other));
            Ok((n, time as f64 / n))
        };
        let (_, measured) = run(runner)?;
        let code = runner.machine_code().ok_or_else(none)?;
        let sampler = Sampler::start(code.lines(), PERIOD, MOST_SAMPLES).map_err(Error::input)?;
        let (n, _) = run(runner)?;
        let samples = sampler.stop();
        let code = runner.machine_code().ok_or_else(none)?;
        let locations: Vec<_> = code.notes().locations().copied().collect();
        let place = |span| attribute::place(sources, span);
        let found = attribute::samples(&samples, code.lines(), &locations, place);
        let threads = kernels.threads() as f64;
        let each = |time: f64| time / (threads * n);
        let lines: FxHashMap<Place, Time> = found
            .lines
            .iter()
            .map(|(&place, time)| {
                (place, Time { primal: each(time.primal), derivative: each(time.derivative) })
            })
            .collect();
        let of = KernelProfile {
            measured: measured / threads,
            lines: lines.values().fold(0.0, |sum, time| sum + time.total()),
            threads: each(found.threads),
            elsewhere: each(found.elsewhere),
            samples: samples.len(),
            lanes: runner.lanes(entry),
        };

        // Only one worker may count.
        let counter = self.counts.machine_code().ok_or_else(none)?;
        counter.notes().reset();
        dispatch(&mut self.counts, 1)?;
        let counter = self.counts.machine_code().ok_or_else(none)?;
        let code = self.lines.machine_code().ok_or_else(none)?;
        debug_assert!(counter.notes().locations().eq(code.notes().locations()), "forms differ");
        let counts = attribute::counts(counter.notes(), code.lines(), place);
        let counts = counts.into_iter().map(|(place, counts)| (place, counts.per(threads))).collect();
        Ok(Sampled { of, lines, counts })
    }
}

/// Tries remedies that can be tried: the gradient without each of its parameters, and loops with `[Checkpoint]`.
fn try_remedies(
    (session, file): (&mut Session, &Path),
    kernels: &Kernels,
    found: &Profile,
    options: &Options,
) -> Result<advice::Trials, Failure> {
    let mut trials = advice::Trials::default();
    let mut loaded = pipeline::load(session, file)?;
    let code = &options.execution.code;
    let mut before = kernels.runner(&mut loaded, options, code)?;
    let mut compare = |session: &mut Session, asked: &Asked| -> Result<advice::Trial, Failure> {
        let mut loaded = pipeline::load(session, file)?;
        let other = Kernels::new(&mut loaded, &found.subject, options, asked)?;
        let mut after = other.runner(&mut loaded, options, code)?;
        let [before, after] = in_turns([&mut before, &mut after], (kernels, found.reverse()), options)?;
        let kept = kernels.memory.zip(other.memory).map(|(before, after)| [before.kept, after.kept]);
        Ok(advice::Trial { before, after, kept })
    };
    // If there is only one parameter, there is no gradient without it.
    if kernels.differentiable.len() > 1 {
        for (k, (name, _)) in kernels.differentiable.iter().enumerate().take(TRIALS) {
            let asked = Asked { without: Some(k), ..Asked::default() };
            trials.without.push((name.clone(), compare(session, &asked)?));
        }
    }
    let kept: f64 = found.lines.iter().map(|line| line.counts[found.reverse()].kept).sum();
    if kept >= advice::MUCH_KEPT {
        for &span in kernels.loops.iter().take(TRIALS) {
            let Some((place, _)) = attribute::place(&session.sources, span) else { continue };
            let asked = Asked { checkpoint: Some(span), ..Asked::default() };
            trials.checkpoint.push((place, compare(session, &asked)?));
        }
    }
    Ok(trials)
}

/// The best processor times of an entry point of two runners, which take turns; in nanoseconds for each thread.
fn in_turns(
    mut runners: [&mut Runner; 2],
    (kernels, entry): (&Kernels, usize),
    options: &Options,
) -> Result<[f64; 2], Error> {
    let threads = kernels.threads() as f64;
    let restored = [0, 1].map(|k| kernels.to_restore(runners[k]));
    let (mut best, mut seconds) = ([f64::INFINITY; 2], 0.0);
    let mut n = 0;
    while n < LEAST || seconds < options.seconds {
        for ((runner, best), restored) in runners.iter_mut().zip(&mut best).zip(&restored) {
            runner.restore(restored);
            let begin = sampler::processor_time();
            let done = runner.dispatch_entry(entry, kernels.groups, options.execution.threads, None)?;
            *best = best.min(sampler::processor_time().saturating_sub(begin) as f64 / threads);
            seconds += done.seconds;
        }
        n += 1;
    }
    Ok(best)
}
