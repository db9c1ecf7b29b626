//! Attributes samples and counts to lines of the source.

use native::profile::sampler::Sample;
use native::profile::{Event, Lines, Location, Notes};
use rustc_hash::FxHashMap;
use syntax::{FileId, Sources};

use super::parts::{self, Part};
use crate::error::source_span;

/// A line of a file, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub file: u32,
    /// The line.
    pub line: u32,
}

/// Time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Time {
    /// Spent on values of the program.
    pub primal: f64,
    /// Spent on differentials.
    pub derivative: f64,
}

impl Time {
    /// The time of both parts.
    pub fn total(self) -> f64 {
        self.primal + self.derivative
    }

    fn add(&mut self, part: Part, time: f64) {
        match part {
            Part::Primal => self.primal += time,
            Part::Derivative => self.derivative += time,
        }
    }
}

/// The time of a kernel, by line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributed {
    /// The time of each line.
    pub lines: FxHashMap<Place, Time>,
    /// The time of compiled code that comes from no line: the loop over threads, their arguments and results.
    pub threads: f64,
    /// The time of everything else: the dispatch, and the runtime where no line has called it.
    pub elsewhere: f64,
}

impl Attributed {
    /// The sum of all times.
    pub fn total(&self) -> f64 {
        self.lines.values().map(|time| time.total()).sum::<f64>() + self.threads + self.elsewhere
    }
}

/// The line of a span, and the part of the code; `None` if it has no line.
pub fn place(sources: &Sources, span: ir::Span) -> Option<(Place, Part)> {
    if span == ir::Span::NONE {
        return None;
    }
    let (span, part) = parts::of(span);
    let own = source_span(span);
    let (line, _) = sources.line_column(own.file, own.start);
    let FileId(file) = own.file;
    (line > 0).then_some((Place { file, line }, part))
}

/// Attributes samples. A sample in a function that was called from a line (of the runtime or of the library) belongs
/// to that line.
pub fn samples(
    samples: &[Sample],
    lines: &Lines,
    locations: &[Location],
    place: impl Fn(ir::Span) -> Option<(Place, Part)>,
) -> Attributed {
    let location = |at: u64| lines.find(at).map(|piece| piece.location.map(|k| locations[k as usize]));
    let mut all = Attributed::default();
    for sample in samples {
        let time = sample.weight as f64;
        let callers = sample.callers.iter().take_while(|&&at| at != 0);
        let known = std::iter::once(&sample.at).chain(callers).find_map(|&at| location(at).flatten());
        match known.map(|location| place(location.span)) {
            Some(Some((place, part))) => all.lines.entry(place).or_default().add(part, time),
            Some(None) => all.threads += time,
            None if location(sample.at).is_some() => all.threads += time,
            None => all.elsewhere += time,
        }
    }
    all
}

/// The counts of a line, over all threads of a dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// The instructions of the IR, counted once for all lanes that run them together.
    pub instructions: f64,
    /// The lanes that there were at these instructions, and those that were active.
    pub lanes: f64,
    /// See `lanes`.
    pub active: f64,
    /// Numbers that are read from or written to addresses without a constant stride.
    pub gathers: f64,
    /// Numbers that are read or written lane by lane, at a constant stride with gaps.
    pub strided: f64,
    /// Calls of mathematical functions.
    pub mathematics: f64,
    /// Bytes kept for the reverse pass.
    pub kept: f64,
    /// Values moved to the frame and back, for all lanes that run together.
    pub spills: f64,
}

impl Counts {
    /// The share of lanes that were not active.
    pub fn lost(&self) -> f64 {
        if self.lanes > 0.0 { 1.0 - self.active / self.lanes } else { 0.0 }
    }

    /// The counts divided by a number of threads.
    #[must_use]
    pub fn per(self, threads: f64) -> Counts {
        Counts {
            instructions: self.instructions / threads,
            lanes: self.lanes / threads,
            active: self.active / threads,
            gathers: self.gathers / threads,
            strided: self.strided / threads,
            mathematics: self.mathematics / threads,
            kept: self.kept / threads,
            spills: self.spills / threads,
        }
    }
}

/// Adds up what each line does, by the notes of code that has counted, and the code whose spills are known. Returns
/// `None` for spills if they are not known.
pub fn counts(
    notes: &Notes,
    lines: &Lines,
    place: impl Fn(ir::Span) -> Option<(Place, Part)>,
) -> FxHashMap<Place, Counts> {
    let locations: Vec<Location> = notes.locations().copied().collect();
    let mut all: FxHashMap<Place, Counts> = FxHashMap::default();
    let mut at = |k: u32, add: &mut dyn FnMut(&mut Counts, native::profile::Count)| {
        let Some(location) = locations.get(k as usize) else { return };
        let count = location.region.and_then(|region| notes.count(region)).filter(|count| count.entries > 0);
        let (Some(count), Some((place, _))) = (count, place(location.span)) else { return };
        add(all.entry(place).or_default(), count);
    };
    for (k, event, times) in notes.events() {
        let times = times as f64;
        at(k, &mut |counts, count| {
            let (entries, active) = (count.entries as f64, count.active as f64);
            match event {
                Event::Instruction => {
                    counts.instructions += times * entries;
                    counts.lanes += times * count.lanes as f64;
                    counts.active += times * active;
                }
                Event::Gather => counts.gathers += times * active,
                Event::Strided => counts.strided += times * active,
                Event::Mathematics => counts.mathematics += times * active,
                Event::Kept => counts.kept += times * entries,
            }
        });
    }
    for spills in lines.spills().unwrap_or(&[]) {
        let moves = f64::from(spills.moves);
        at(spills.location, &mut |counts, count| counts.spills += moves * count.entries as f64);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::Span;
    use native::profile::Line;

    const FIRST: Span = Span { file: 0, start: 1, end: 2 };
    const SECOND: Span = Span { file: 1 << 30, start: 2, end: 3 };

    fn place(span: Span) -> Option<(Place, Part)> {
        let (own, part) = parts::of(span);
        (span != Span::NONE).then_some((Place { file: own.file, line: own.start }, part))
    }

    #[test]
    fn samples_belong_to_lines_or_to_the_lines_that_call() {
        let piece = |start, location| Line { start, end: start + 10, location };
        let lines = Lines::new(
            vec![piece(10, Some(0)), piece(20, Some(1)), piece(30, Some(2)), piece(40, None)],
            None,
        );
        let region = None;
        let locations = [FIRST, SECOND, Span::NONE].map(|span| Location { span, region });
        let sample = |at, callers, weight| Sample { at, callers, weight };
        let found = samples(
            &[
                sample(12, [0; 4], 1),
                sample(25, [12, 0, 0, 0], 2),
                // In the runtime, called from the second line through a function of the library.
                sample(99, [42, 21, 0, 0], 4),
                sample(35, [0; 4], 8),
                sample(45, [0; 4], 16),
                sample(99, [0; 4], 32),
            ],
            &lines,
            &locations,
            place,
        );
        let line = |line| found.lines[&Place { file: 0, line }];
        assert_eq!(line(1), Time { primal: 1.0, derivative: 0.0 });
        assert_eq!(line(2), Time { primal: 0.0, derivative: 6.0 });
        assert_eq!((found.threads, found.elsewhere, found.total()), (24.0, 32.0, 63.0));
    }
}
