//! Detects data races: unordered accesses to the same place by two threads, of which at least one writes.
//!
//! Accesses by two threads of a group are ordered by a barrier between them; accesses by threads of different
//! groups never are. Atomic operations do not race with each other. A write that leaves the value unchanged
//! does not count.
//!
//! For each place, the last accesses of each of the three kinds are recorded. Since the interpreter runs one
//! group after the other, and the threads of a group from barrier to barrier, this is enough to find a race
//! at every place where there is one: it suffices to keep two threads since the last barrier, and one thread
//! of an earlier group.

use ir::interp::AccessKind;
use ir::{Global, Span};
use rustc_hash::{FxHashMap, FxHashSet};

/// The maximum number of races that are recorded.
const MOST: usize = 20;

/// Two unordered accesses by different threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// The global whose memory it is; `None` if a pointer led to memory that belongs to no global.
    pub global: Option<Global>,
    /// The index of the element.
    pub element: u64,
    /// The byte within the element.
    pub byte: u64,
    /// The earlier access and the later one.
    pub accesses: [RaceAccess; 2],
}

/// One of the two accesses of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaceAccess {
    /// The thread's position in the dispatch.
    pub thread: [u32; 3],
    /// The kind of access.
    pub kind: AccessKind,
    /// The place in the user's source.
    pub span: Span,
}

/// A recorded access.
#[derive(Clone, Copy, Debug)]
struct Past {
    access: RaceAccess,
    group: u64,
    /// The number of barriers that the group had passed.
    epoch: u64,
}

/// Accesses of one kind.
#[derive(Clone, Debug, Default)]
struct Pasts {
    /// By two threads of the current group, since a barrier.
    here: [Option<Past>; 2],
    /// By a thread of an earlier group.
    before: Option<Past>,
}

impl Pasts {
    /// A recorded access that is unordered with respect to `now`.
    fn unordered(&self, now: &Past) -> Option<Past> {
        let is_here =
            |p: &Past| p.group != now.group || p.epoch == now.epoch && p.access.thread != now.access.thread;
        let mut here = self.here.iter().flatten().copied();
        here.find(is_here).or(self.before.filter(|p| p.group != now.group))
    }

    fn add(&mut self, now: Past) {
        match self.here {
            [Some(first), second] if first.group == now.group && first.epoch == now.epoch => {
                if second.is_none() && first.access.thread != now.access.thread {
                    self.here[1] = Some(now);
                }
            }
            [first, _] => {
                self.before = first.filter(|p| p.group != now.group).or(self.before);
                self.here = [Some(now), None];
            }
        }
    }
}

/// The recorded accesses of all places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Races {
    /// By buffer and byte, with one entry for each kind of access.
    places: FxHashMap<(u32, u64), [Pasts; 3]>,
    found: Vec<(u32, u64, [RaceAccess; 2])>,
    seen: FxHashSet<(Span, Span)>,
    /// The current group, and the number of barriers that it has passed.
    group: u64,
    epoch: u64,
}

impl Races {
    /// Begins the next group. Memory selected by `is_shared` belongs to each group separately, so its
    /// accesses are forgotten.
    pub(crate) fn next_group(&mut self, is_shared: impl Fn(u32) -> bool) {
        self.group += 1;
        self.epoch = 0;
        self.places.retain(|place, _| !is_shared(place.0));
    }

    /// Records that the threads of the group have passed a barrier.
    pub(crate) fn next_epoch(&mut self) {
        self.epoch += 1;
    }

    /// Records that a thread accesses some bytes.
    pub(crate) fn access(&mut self, buffer: u32, at: u64, len: u64, access: RaceAccess) {
        let now = Past { access, group: self.group, epoch: self.epoch };
        let others: &[AccessKind] = match access.kind {
            AccessKind::Read => &[AccessKind::Write, AccessKind::Atomic],
            AccessKind::Write => &[AccessKind::Write, AccessKind::Read, AccessKind::Atomic],
            AccessKind::Atomic => &[AccessKind::Write, AccessKind::Read],
        };
        let mut raced = None;
        for byte in at..at + len {
            let place = self.places.entry((buffer, byte)).or_default();
            let found = others.iter().find_map(|&kind| place[kind as usize].unordered(&now));
            raced = raced.or(found.map(|past| (byte, past)));
            place[access.kind as usize].add(now);
        }
        if let Some((at, past)) = raced
            && self.found.len() < MOST
            && self.seen.insert((past.access.span, access.span))
        {
            self.found.push((buffer, at, [past.access, access]));
        }
    }

    /// The races found, in order; `place` maps a buffer to its global and the size of an element.
    pub(crate) fn all(&self, place: impl Fn(u32) -> (Option<Global>, u64)) -> Vec<Race> {
        let races = self.found.iter().map(|&(buffer, at, accesses)| {
            let (global, size) = place(buffer);
            let size = size.max(1);
            Race { global, element: at / size, byte: at % size, accesses }
        });
        races.collect()
    }
}
