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
use native::profile::sampler::{self, Sample, Sampler};
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
/// A kernel runs with samples and without in this many turns, so that both times are of the same conditions.
const ROUNDS: u32 = 12;
/// The least duration of a turn: what comes after the last sample of a thread is lost, half a period.
const SLICE: f64 = 0.04;
/// The smallest number of these turns, and of the dispatches that are timed to compare two kernels.
const LEAST: u32 = 5;
/// The dispatches of a kernel that is too short for a profile, in nanoseconds of processor time: what dispatching costs,
/// and more so a thread that is woken for it, is more than what the kernel does.
const SHORT: f64 = 10_000.0;
/// The largest difference between the sum of a profile and the measured time, as a part of that.
const AGREES: f64 = 0.1;
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
    /// The contribution of each line to the rounding error of the result, if that has been estimated
    /// ([`crate::precision::by_line`]).
    pub rounding: Option<Rounding>,
}

/// Errors of lines; used only for lookups.
pub type Rounding = FxHashMap<Place, f64>;

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
    /// The reason why the profile says little about the kernel, if there is one.
    pub doubt: Option<String>,
}

/// Dispatches one after the other.
struct Slice {
    n: f64,
    /// The processor time in nanoseconds.
    time: f64,
    /// The duration.
    seconds: f64,
}

/// Dispatches without samples, and others with samples.
struct Round {
    plain: Slice,
    sampled: Slice,
    samples: Vec<Sample>,
}

/// The half of the rounds in which dispatches took the least time: the others were disturbed by what else the machine does.
fn quietest(mut rounds: Vec<Round>) -> Vec<Round> {
    let time = |round: &Round| round.plain.time / round.plain.n + round.sampled.time / round.sampled.n;
    rounds.sort_by(|a, b| time(a).total_cmp(&time(b)));
    rounds.truncate(rounds.len().div_ceil(2));
    rounds
}

impl KernelProfile {
    /// The time that is accounted for.
    pub fn total(&self) -> f64 {
        self.lines + self.threads + self.elsewhere
    }

    /// The reason why the profile says little about the kernel, if there is one: a dispatch is too short, or the machine was
    /// so busy that the samples do not add up to the time without them.
    fn find_doubt(&self, threads: u64, subject: &Subject) -> Option<String> {
        let dispatch = self.measured * threads as f64;
        if self.elsewhere > self.total() / 2.0 && dispatch < SHORT {
            let option = match subject {
                Subject::Function(_) => "--count",
                Subject::Kernel(_) => "--groups",
            };
            return Some(format!(
                "a dispatch of {threads} threads takes {:.1} µs, most of it outside of the kernel: too short for a profile; \
                 more threads (`{option}`) make it longer",
                dispatch / 1e3
            ));
        }
        let ratio = self.total() / self.measured;
        (!((1.0 - AGREES)..=1.0 + AGREES).contains(&ratio)).then(|| {
            format!(
                "the samples add up to {:.0} % of the measured time: the machine was busy, or there were too few samples; \
                 more `--seconds` help",
                100.0 * ratio
            )
        })
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
        let mut kernel = forms.sample(&session.sources, entry, &kernels, options)?;
        kernel.of.doubt = kernel.of.find_doubt(kernels.threads(), subject);
        sampled.push(kernel);
    }
    let lines = joined(subject, &sampled);
    let code = forms.lines.machine_code().map(|code| code.lines().spills().is_some());
    let mut found = Profile {
        subject: subject.clone(),
        kernels: sampled.into_iter().map(|kernel| kernel.of).collect(),
        lines,
        has_spills: code.unwrap_or(false),
        advice: Vec::new(),
        rounding: None,
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
        // Runs for a part of the time.
        let slice = (options.seconds / f64::from(ROUNDS)).max(SLICE);
        let run = |runner: &mut Runner| -> Result<Slice, Error> {
            let begin = sampler::processor_time();
            let (mut n, mut seconds, mut other) = (0u32, 0.0, 0);
            while n == 0 || seconds < slice {
                let (took, aside) = dispatch(runner, workers)?;
                seconds += took;
                other += aside;
                n += 1;
            }
            let time = sampler::processor_time().saturating_sub(begin + other) as f64;
            Ok(Slice { n: f64::from(n), time, seconds })
        };
        let mut rounds: Vec<Round> = Vec::new();
        let mut seconds = 0.0;
        while rounds.len() < LEAST as usize
            || rounds.len() < ROUNDS as usize && seconds < 2.0 * options.seconds
        {
            let plain = run(runner)?;
            let lines = runner.machine_code().ok_or_else(none)?.lines();
            let sampler =
                Sampler::start(lines, PERIOD, MOST_SAMPLES / ROUNDS as usize).map_err(Error::input)?;
            let sampled = run(runner)?;
            seconds += plain.seconds + sampled.seconds;
            rounds.push(Round { plain, sampled, samples: sampler.stop() });
        }
        let rounds = quietest(rounds);
        let sum = |of: fn(&Round) -> f64| rounds.iter().map(of).sum::<f64>();
        let measured = sum(|round| round.plain.time) / sum(|round| round.plain.n);
        let n = sum(|round| round.sampled.n);
        let samples: Vec<Sample> = rounds.into_iter().flat_map(|round| round.samples).collect();
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
            doubt: None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Launch;

    fn kernel([measured, lines, elsewhere]: [f64; 3]) -> KernelProfile {
        KernelProfile { measured, lines, threads: 0.0, elsewhere, samples: 100, lanes: 1, doubt: None }
    }

    #[test]
    fn what_does_not_add_up_is_said() {
        let function = Subject::Function("f".to_string());
        let doubt = |times, threads| kernel(times).find_doubt(threads, &function).unwrap_or_default();
        assert_eq!(doubt([100.0, 90.0, 15.0], 1000), "");
        assert!(doubt([100.0, 140.0, 8.0], 1000).starts_with("the samples add up to 148 % of"));
        assert!(doubt([100.0, 50.0, 8.0], 1000).starts_with("the samples add up to 58 % of"));
        // A dispatch of 0.8 µs.
        let short = doubt([12.5, 2.0, 11.0], 64);
        assert!(
            short.starts_with("a dispatch of 64 threads takes 0.8 µs") && short.contains("`--count`"),
            "{short}"
        );
        // As much of a long dispatch is outside of the kernel.
        assert_eq!(doubt([12.5, 2.0, 11.0], 1 << 20), "");
        let launch = Launch { entry: "main".to_string(), groups: [1; 3], block: None };
        let short = kernel([12.5, 2.0, 11.0]).find_doubt(64, &Subject::Kernel(launch));
        assert!(short.is_some_and(|text| text.contains("`--groups`")));
    }

    #[test]
    fn disturbed_rounds_are_left_out() {
        let slice = |n: f64, each: f64| Slice { n, time: n * each, seconds: 0.1 };
        let round = |plain: f64, sampled: f64| Round {
            plain: slice(10.0, plain),
            sampled: slice(20.0, sampled),
            samples: Vec::new(),
        };
        // Another program slows the second half of the first round down, and all of the third.
        let rounds =
            vec![round(4.0, 9.0), round(4.0, 4.1), round(8.0, 8.2), round(4.1, 4.2), round(90.0, 4.0)];
        let kept = quietest(rounds);
        let times: Vec<f64> = kept.iter().map(|round| round.plain.time / round.plain.n).collect();
        assert_eq!(times, [4.0, 4.1, 4.0]);
    }
}
