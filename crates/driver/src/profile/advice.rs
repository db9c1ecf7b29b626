//! Advice that figures support.

use super::attribute::Place;
use super::{Line, Profile};
use crate::bench::{GRADIENT, PRIMAL};

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

/// A remedy that was tried: the time of the gradient without and with it, and the bytes that it keeps of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The time as it is.
    pub before: f64,
    /// The time with the remedy.
    pub after: f64,
    /// The bytes, in the same order.
    pub kept: [u64; 2],
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
        let [before, after] = trial.kept;
        let is_faster = trial.after < trial.before * (1.0 - WORTH);
        let is_smaller = after as f64 * LESS <= before as f64
            && trial.after <= trial.before * LONGER
            && before as f64 * lanes(profile) >= BEYOND_CACHE;
        if is_faster || is_smaller {
            has_checkpoint = true;
            let text = format!(
                "mark this loop `[Checkpoint]`: the gradient then takes {} instead of {}, and keeps {} of a call \
                 instead of {}",
                nanoseconds(trial.after),
                nanoseconds(trial.before),
                bytes(after as f64),
                bytes(before as f64)
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

/// The number of lanes of the gradient.
fn lanes(profile: &Profile) -> f64 {
    profile.kernels.get(GRADIENT).map_or(1.0, |kernel| f64::from(kernel.lanes))
}

/// The kernel in which a line takes the larger share of the time, and that share.
fn share(profile: &Profile, line: &Line) -> (usize, f64) {
    let of =
        |k: usize, time: f64| profile.kernels.get(k).map_or(0.0, |kernel| time / kernel.total().max(1e-9));
    let (primal, gradient) = (of(PRIMAL, line.primal), of(GRADIENT, line.gradient.total()));
    if gradient >= primal { (GRADIENT, gradient) } else { (PRIMAL, primal) }
}

/// The words for a kernel.
fn kernel(k: usize) -> &'static str {
    if k == PRIMAL { "function" } else { "gradient" }
}

/// Buffers whose numbers are accessed one by one.
fn layout(profile: &Profile, line: &Line) -> Option<Advice> {
    let (k, share) = share(profile, line);
    let counts = line.counts[k];
    let single = counts.gathers + counts.strided;
    if share < MATTERS || single < 1.0 || single < MANY_ACCESSES * counts.active {
        return None;
    }
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
        number(single),
        percent(share),
        kernel(k)
    );
    Some(Advice { place: Some(line.place), remedy: "layout", text })
}

/// Lanes that wait for others.
fn together(profile: &Profile, line: &Line) -> Option<Advice> {
    let (k, share) = share(profile, line);
    let lost = line.counts[k].lost();
    if share < MATTERS || lost < MANY_LANES {
        return None;
    }
    let text = format!(
        "{} of the lanes are idle here, and the line takes {} of the {}: order the threads such that neighbours go the \
         same way, or use fewer `--lanes`",
        percent(lost),
        percent(share),
        kernel(k)
    );
    Some(Advice { place: Some(line.place), remedy: "divergence", text })
}

/// Values that are kept beyond the caches, if `[Checkpoint]` does not help.
fn half(profile: &Profile, line: &Line, has_checkpoint: bool) -> Option<Advice> {
    let kept = line.counts[GRADIENT].kept;
    let (k, share) = share(profile, line);
    if has_checkpoint || k != GRADIENT || share < MATTERS || kept * lanes(profile) < BEYOND_CACHE {
        return None;
    }
    let text = format!(
        "{} of a thread are kept here for the reverse pass, more than the caches hold for all lanes, and the line takes \
         {} of the gradient: where its precision is enough, a value of type `half` takes half of the space of a `float`",
        bytes(kept),
        percent(share)
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
