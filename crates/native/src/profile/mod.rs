//! The parts of a profile of compiled code: the places of the source that instructions come from, how often
//! code ran, and samples of the program counter.
//!
//! Code is compiled for a profile in one of two forms ([`Profile`]), and only then carries anything for it. With
//! [`Profile::Lines`] the instructions are those of ordinary code, and each has a location by which its backend
//! finds it again in the machine code: [`Lines`]. With [`Profile::Counts`] the code also counts. Every region of
//! the IR has one entry and one exit, so its instructions run as often as the region is entered: it is enough to
//! add, at the start of each region, 1 to a number of entries, and the number of active lanes to another. How
//! often an instruction ran, in how many of the lanes, and how many accesses, calls and bytes that makes, follows
//! from these two numbers and from what the emitter noted at the instruction ([`Event`]).
//!
//! A region that is emitted twice (for lanes, and for one thread) has two numbers. Emission is deterministic, so
//! both forms of the code number regions and locations in the same way, and what is known of one form is known of
//! the other.

pub mod sampler;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use indexmap::{IndexMap, IndexSet};
use ir::Span;
use rustc_hash::FxBuildHasher;

/// The form in which code is compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Without anything for a profile.
    #[default]
    Off,
    /// The same code, with the location of each instruction.
    Lines,
    /// Code that counts how often each region runs. Only one worker may run it.
    Counts,
}

/// The largest number of regions that are counted; those beyond it have no number.
pub const MOST: usize = 1 << 16;

/// Something that an instruction does and that a profile counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// An instruction of the IR.
    Instruction,
    /// A load or store at addresses that have no constant stride over the lanes.
    Gather,
    /// A load or store lane by lane, at addresses with a constant stride that leaves gaps.
    Strided,
    /// A call of a mathematical function that is no instruction of the machine.
    Mathematics,
    /// Bytes that are pushed to a stack of residuals.
    Kept,
}

/// A region, as it was emitted once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The number of lanes of the code.
    pub lanes: u32,
}

/// The place that an instruction comes from: a span of the source, and the number of the emitted region that
/// holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The place in the source.
    pub span: Span,
    /// The number of the region; `None` beyond the largest number of regions.
    pub region: Option<u32>,
}

/// The emitter's notes for a profile.
#[derive(Debug, Default)]
pub struct Notes {
    locations: IndexSet<Location, FxBuildHasher>,
    regions: Vec<Counted>,
    events: IndexMap<(u32, Event), u64, FxBuildHasher>,
    /// Two numbers for each region: the entries, and the lanes that were active. Code adds to them.
    counts: Option<Box<[AtomicU64]>>,
}

/// How often a region ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The number of times that it was entered, by all lanes together.
    pub entries: u64,
    /// The number of lanes that were active, over all entries.
    pub active: u64,
    /// The number of lanes that there were, over all entries.
    pub lanes: u64,
}

impl Notes {
    /// The number of a location.
    pub fn location(&mut self, location: Location) -> u32 {
        self.locations.insert_full(location).0 as u32
    }

    /// A number for a region that is emitted for so many lanes.
    pub fn region(&mut self, lanes: u32) -> Option<u32> {
        (self.regions.len() < MOST).then(|| {
            self.regions.push(Counted { lanes });
            self.regions.len() as u32 - 1
        })
    }

    /// Notes that the instructions at a location do something so many times whenever they run.
    pub fn event(&mut self, location: u32, event: Event, times: u64) {
        *self.events.entry((location, event)).or_default() += times;
    }

    /// All locations, by number.
    pub fn locations(&self) -> impl ExactSizeIterator<Item = &Location> {
        self.locations.iter()
    }

    /// All events: the number of the location, what happens, and how many times at each run.
    pub fn events(&self) -> impl Iterator<Item = (u32, Event, u64)> {
        self.events.iter().map(|(&(location, event), &times)| (location, event, times))
    }

    /// The address of the numbers that code adds to, which stays valid: those of region `k` are the words 2·k and
    /// 2·k + 1.
    pub fn counts_at(&mut self) -> i64 {
        let counts = self.counts.get_or_insert_with(|| (0..2 * MOST).map(|_| AtomicU64::new(0)).collect());
        counts.as_ptr() as i64
    }

    /// The address of these numbers, if the code counts.
    pub fn counts(&self) -> Option<i64> {
        self.counts.as_ref().map(|counts| counts.as_ptr() as i64)
    }

    /// How often a region ran, if the code counts.
    pub fn count(&self, region: u32) -> Option<Count> {
        let counts = self.counts.as_ref()?;
        let Counted { lanes } = *self.regions.get(region as usize)?;
        let [entries, active] = [0, 1].map(|k| counts[2 * region as usize + k].load(Ordering::Relaxed));
        Some(Count { entries, active, lanes: entries * u64::from(lanes) })
    }

    /// Begins to count anew. No code may run meanwhile.
    pub fn reset(&self) {
        self.counts.iter().flatten().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// A piece of machine code: its addresses from `start` to before `end`, and the number of the location that it was
/// made for, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The first address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
    /// The number of the location.
    pub location: Option<u32>,
}

/// Values that a location's code moves to the frame and back because registers do not suffice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spills {
    /// The number of the location.
    pub location: u32,
    /// The number of instructions that store or load such a value.
    pub moves: u32,
}

/// The machine code of a module, by location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    pieces: Vec<Line>,
    spills: Option<Vec<Spills>>,
}

impl Lines {
    /// The code that consists of these pieces, which do not overlap, and its spills, if the backend tells.
    pub fn new(mut pieces: Vec<Line>, spills: Option<Vec<Spills>>) -> Lines {
        pieces.retain(|piece| piece.start < piece.end);
        pieces.sort_by_key(|piece| piece.start);
        Lines { pieces, spills }
    }

    /// The piece that holds an address.
    pub fn find(&self, address: u64) -> Option<Line> {
        let after = self.pieces.partition_point(|piece| piece.start <= address);
        let piece = self.pieces[..after].last()?;
        (address < piece.end).then_some(*piece)
    }

    /// The spills of each location that has some; `None` if the backend does not tell.
    pub fn spills(&self) -> Option<&[Spills]> {
        self.spills.as_deref()
    }

    /// The ranges of addresses that pieces fill, without gaps other than those that align functions.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        /// The largest gap.
        const ALIGNED: u64 = 64;
        let mut all: Vec<Range<u64>> = Vec::new();
        for piece in &self.pieces {
            match all.last_mut().filter(|last| piece.start <= last.end + ALIGNED) {
                Some(last) => last.end = piece.end,
                None => all.push(piece.start..piece.end),
            }
        }
        all
    }

    /// The pieces, in the order of their addresses.
    pub fn pieces(&self) -> &[Line] {
        &self.pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(start: u64, end: u64, location: u32) -> Line {
        Line { start, end, location: Some(location) }
    }

    #[test]
    fn an_address_belongs_to_the_piece_that_holds_it() {
        let lines = Lines::new(vec![line(40, 48, 2), line(16, 24, 0), line(24, 32, 1), line(9, 9, 3)], None);
        let of = |address| lines.find(address).and_then(|piece| piece.location);
        assert_eq!(
            [15, 16, 23, 24, 31, 32, 39, 40, 47, 48].map(of),
            [None, Some(0), Some(0), Some(1), Some(1), None, None, Some(2), Some(2), None]
        );
        assert_eq!(lines.ranges().first(), Some(&(16..48)));
        assert_eq!(lines.ranges().len(), 1);
        assert_eq!(Lines::new(vec![line(16, 24, 0), line(160, 192, 1)], None).ranges(), [16..24, 160..192]);
        assert_eq!(Lines::default().find(0), None);
    }

    #[test]
    fn counts_are_those_of_the_region() {
        let mut notes = Notes::default();
        assert_eq!((notes.region(16), notes.region(1)), (Some(0), Some(1)));
        assert_eq!(notes.count(0), None);
        notes.counts_at();
        let counts = notes.counts.as_ref().expect("was made");
        counts[0].store(3, Ordering::Relaxed);
        counts[1].store(20, Ordering::Relaxed);
        assert_eq!(notes.count(0), Some(Count { entries: 3, active: 20, lanes: 48 }));
        assert_eq!(notes.count(1), Some(Count::default()));
        assert_eq!(notes.count(2), None);
        notes.reset();
        assert_eq!(notes.count(0), Some(Count::default()));
    }
}
