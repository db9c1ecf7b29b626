//! Advice that figures support.

use super::attribute::{Counts, Place};
use super::{Line, Profile};
use crate::bench::{GRADIENT, PRIMAL, Subject};

/// Bytes kept for each thread from which it may pay to keep less.
pub const MUCH_KEPT: f64 = 1024.0;
/// Bytes kept for all lanes together from which they are not in the fast caches of a core.
const BEYOND_CACHE: f64 = (256 << 10) as f64;
/// The share of a kernel's time from which a line matters.
const MATTERS: f64 = 0.1;
/// The share of lanes that is worth mending.
const MANY_LANES: f64 = 0.3;
/// The share of a line's instructions whose numbers are accessed one by one.
const MANY_ACCESSES: f64 = 0.05;
/// A remedy is worth a change of the program if it saves this share of the time.
const WORTH: f64 = 0.1;
/// Memory is worth more time if there is this much less of it, at this much of the time.
const LESS: f64 = 4.0;
/// See `LESS`.
const LONGER: f64 = 1.5;

/// A remedy that was tried: the time of the gradient, or of the kernel, without and with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The time as it is.
    pub before: f64,
    /// The time with the remedy.
    pub after: f64,
    /// The bytes that the gradient keeps of a call, in the same order.
    pub kept: Option<[u64; 2]>,
}

/// The remedies that were tried.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trials {
    /// Without the derivative with respect to a parameter.
    pub without: Vec<(String, Trial)>,
    /// With `[Checkpoint]` at a loop.
    pub checkpoint: Vec<(Place, Trial)>,
}

/// A remedy, with the figures that support it.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The line that it is about, if it is about one.
    pub place: Option<Place>,
    /// The name of the remedy.
    pub remedy: &'static str,
    /// A sentence.
    pub text: String,
}

/// The advice for a profile, given the remedies that were tried.
pub fn advice(profile: &Profile, trials: &Trials) -> Vec<Advice> {
    let mut all = Vec::new();
    for (name, trial) in &trials.without {
        if trial.after < trial.before * (1.0 - WORTH) {
            let text = format!(
                "if the derivative with respect to `{name}` is not needed, declare it `no_diff`: the gradient takes \
                 {} without it, and {} with it",
                nanoseconds(trial.after),
                nanoseconds(trial.before)
            );
            all.push(Advice { place: None, remedy: "no_diff", text });
        }
    }
    let mut has_checkpoint = false;
    for &(place, trial) in &trials.checkpoint {
        let is_faster = trial.after < trial.before * (1.0 - WORTH);
        let is_smaller = trial.kept.is_some_and(|[before, after]| {
            after as f64 * LESS <= before as f64
                && trial.after <= trial.before * LONGER
                && before as f64 * lanes(profile) >= BEYOND_CACHE
        });
        if is_faster || is_smaller {
            has_checkpoint = true;
            let kept = trial.kept.map_or(String::new(), |[before, after]| {
                format!(", and keeps {} of a call instead of {}", bytes(after as f64), bytes(before as f64))
            });
            let text = format!(
                "mark this loop `[Checkpoint]`: the {} then takes {} instead of {}{kept}",
                kernel(profile, profile.reverse()),
                nanoseconds(trial.after),
                nanoseconds(trial.before),
            );
            all.push(Advice { place: Some(place), remedy: "[Checkpoint]", text });
        }
    }
    for line in &profile.lines {
        all.extend(layout(profile, line));
        all.extend(together(profile, line));
        all.extend(half(profile, line, has_checkpoint));
    }
    all
}

/// The number of lanes of the kernel that reverse mode belongs to.
fn lanes(profile: &Profile) -> f64 {
    profile.kernels.get(profile.reverse()).map_or(1.0, |kernel| f64::from(kernel.lanes))
}

/// The share of a kernel's time that a line takes.
fn share(profile: &Profile, line: &Line, k: usize) -> f64 {
    profile.kernels.get(k).map_or(0.0, |kernel| profile.time(line, k) / kernel.total().max(f64::MIN_POSITIVE))
}

/// The first kernel, the gradient before the function, in which a line matters and something holds of what it does; and
/// its share of the time.
fn kernel_where(profile: &Profile, line: &Line, holds: impl Fn(&Counts) -> bool) -> Option<(usize, f64)> {
    let of = |k: usize| (k, share(profile, line, k));
    [GRADIENT, PRIMAL].map(of).into_iter().find(|&(k, share)| share >= MATTERS && holds(&line.counts[k]))
}

/// The words for a kernel.
fn kernel(profile: &Profile, k: usize) -> &'static str {
    match (&profile.subject, k) {
        (Subject::Kernel(_), _) => "kernel",
        (Subject::Function(_), PRIMAL) => "function",
        _ => "gradient",
    }
}

/// Buffers whose numbers are accessed one by one.
fn layout(profile: &Profile, line: &Line) -> Option<Advice> {
    let single = |counts: &Counts| counts.gathers + counts.strided;
    let is_much = |counts: &Counts| single(counts) >= (MANY_ACCESSES * counts.active).max(1.0);
    let (k, share) = kernel_where(profile, line, is_much)?;
    let counts = line.counts[k];
    let (what, remedy) = if counts.gathers >= counts.strided {
        (
            "at places that follow no pattern over the threads",
            "let neighbouring threads access neighbouring elements",
        )
    } else {
        ("at a distance from those of the next thread", "give each number of a thread an array of its own")
    };
    let text = format!(
        "{} numbers of a thread are read or written one by one here, {what}, and the line takes {} of the {}: {remedy}",
        number(single(&counts)),
        percent(share),
        kernel(profile, k)
    );
    Some(Advice { place: Some(line.place), remedy: "layout", text })
}

/// Lanes that wait for others.
fn together(profile: &Profile, line: &Line) -> Option<Advice> {
    let (k, share) = kernel_where(profile, line, |counts| counts.lost() >= MANY_LANES)?;
    let lost = line.counts[k].lost();
    let text = format!(
        "{} of the lanes are idle here, and the line takes {} of the {}: order the threads such that neighbours go the \
         same way, or use fewer `--lanes`",
        percent(lost),
        percent(share),
        kernel(profile, k)
    );
    Some(Advice { place: Some(line.place), remedy: "divergence", text })
}

/// Values that are kept beyond the caches, if `[Checkpoint]` does not help.
fn half(profile: &Profile, line: &Line, has_checkpoint: bool) -> Option<Advice> {
    let kept = line.counts[profile.reverse()].kept;
    let share = share(profile, line, profile.reverse());
    if has_checkpoint || share < MATTERS || kept * lanes(profile) < BEYOND_CACHE {
        return None;
    }
    let text = format!(
        "{} of a thread are kept here for the reverse pass, more than the caches hold for all lanes, and the line takes \
         {} of the {}: where its precision is enough, a value of type `half` takes half of the space of a `float`",
        bytes(kept),
        percent(share),
        kernel(profile, profile.reverse())
    );
    Some(Advice { place: Some(line.place), remedy: "half", text })
}

fn nanoseconds(x: f64) -> String {
    format!("{} ns", number(x))
}

/// A number with three significant digits.
pub fn number(x: f64) -> String {
    match x {
        _ if x >= 99.95 => format!("{x:.0}"),
        _ if x >= 9.995 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}

/// A share in per cent.
pub fn percent(x: f64) -> String {
    format!("{:.0} %", 100.0 * x)
}

/// A number of bytes.
pub fn bytes(x: f64) -> String {
    match x {
        _ if x >= 1_048_576.0 => format!("{} MiB", number(x / 1_048_576.0)),
        _ if x >= 10_240.0 => format!("{} KiB", number(x / 1024.0)),
        _ => format!("{x:.0} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{KernelProfile, Time};
    use super::*;

    const LINE: Place = Place { file: 0, line: 7 };

    /// A profile with one line, whose gradient takes most of 100 ns.
    fn profile(counts: Counts) -> Profile {
        let kernel = |lines: f64| KernelProfile {
            measured: 100.0,
            lines,
            threads: 100.0 - lines,
            elsewhere: 0.0,
            samples: 1000,
            lanes: 16,
            doubt: None,
        };
        let gradient = Time { primal: 20.0, derivative: 60.0 };
        let line = Line { place: LINE, primal: 5.0, gradient, counts: [Counts::default(), counts] };
        Profile {
            subject: Subject::Function("f".to_string()),
            kernels: vec![kernel(5.0), kernel(80.0)],
            lines: vec![line],
            has_spills: true,
            advice: Vec::new(),
            rounding: None,
        }
    }

    fn remedies(counts: Counts, trials: &Trials) -> Vec<(&'static str, Option<Place>)> {
        advice(&profile(counts), trials).into_iter().map(|advice| (advice.remedy, advice.place)).collect()
    }

    fn counts() -> Counts {
        Counts { instructions: 10.0, lanes: 160.0, active: 160.0, ..Counts::default() }
    }

    #[test]
    fn without_figures_there_is_no_advice() {
        assert_eq!(remedies(counts(), &Trials::default()), []);
        // One access among many instructions, few idle lanes, and few bytes.
        let few = Counts { gathers: 1.0, active: 120.0, kept: 64.0, ..counts() };
        assert_eq!(remedies(few, &Trials::default()), []);
    }

    #[test]
    fn layout_and_divergence_are_about_lines() {
        let single = Counts { gathers: 12.0, ..counts() };
        assert_eq!(remedies(single, &Trials::default()), [("layout", Some(LINE))]);
        let apart = Counts { strided: 12.0, ..counts() };
        let all = advice(&profile(apart), &Trials::default());
        assert!(
            all[0].text.contains("12.0 numbers") && all[0].text.contains("80 % of the gradient"),
            "{all:?}"
        );
        let idle = Counts { active: 40.0, ..counts() };
        assert_eq!(remedies(idle, &Trials::default()), [("divergence", Some(LINE))]);
        // The same, at a line that does not matter.
        let mut cold = profile(Counts { gathers: 12.0, active: 40.0, ..counts() });
        cold.lines[0].gradient = Time { primal: 1.0, derivative: 1.0 };
        assert_eq!(advice(&cold, &Trials::default()), []);
    }

    #[test]
    fn remedies_that_were_tried_must_help() {
        let trial = |after, kept| Trial { before: 100.0, after, kept: Some(kept) };
        let without =
            |after| Trials { without: vec![("w".to_string(), trial(after, [64, 64]))], ..Trials::default() };
        assert_eq!(remedies(counts(), &without(95.0)), []);
        assert_eq!(remedies(counts(), &without(60.0)), [("no_diff", None)]);
        let checkpoint =
            |after, kept| Trials { checkpoint: vec![(LINE, trial(after, kept))], ..Trials::default() };
        let found = |after, kept| remedies(counts(), &checkpoint(after, kept));
        assert_eq!(found(80.0, [100_000, 90_000]), [("[Checkpoint]", Some(LINE))]);
        // Four times less memory is worth a longer time, but not any time, and not if it is in the caches anyway.
        assert_eq!(found(140.0, [100_000, 4_000]), [("[Checkpoint]", Some(LINE))]);
        assert_eq!(found(160.0, [100_000, 4_000]), []);
        assert_eq!(found(140.0, [4_000, 100]), []);
    }

    #[test]
    fn halves_are_for_what_checkpoints_do_not_mend() {
        let kept = Counts { kept: 40_000.0, ..counts() };
        assert_eq!(remedies(kept, &Trials::default()), [("half", Some(LINE))]);
        let trial = Trial { before: 100.0, after: 50.0, kept: Some([40_000, 400]) };
        let mended = Trials { checkpoint: vec![(LINE, trial)], ..Trials::default() };
        assert_eq!(remedies(kept, &mended), [("[Checkpoint]", Some(LINE))]);
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([0.123, 9.996, 12.34, 99.96].map(number), ["0.12", "10.0", "12.3", "100"]);
        assert_eq!([8.0, 20_480.0, 3e6].map(bytes), ["8 B", "20.0 KiB", "2.86 MiB"]);
    }
}
