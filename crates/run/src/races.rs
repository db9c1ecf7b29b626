//! Races: accesses of one place by two threads of which at least one writes, with nothing between that orders them.
//!
//! Two threads of a group are ordered by a barrier between their accesses; threads of different groups never are. Atomic
//! operations do not race with each other. A write that leaves what is there is none.
//!
//! For each place it is kept who accessed it last, in each of three ways. Since the interpreter runs one group after the
//! other, and a group's threads from barrier to barrier, that is enough to find a race at every place where there is
//! one: two threads since the last barrier, and any thread of an earlier group.

use ir::interp::AccessKind;
use ir::{Global, Span};
use rustc_hash::{FxHashMap, FxHashSet};

/// Races that are kept.
const MOST: usize = 20;

/// Two accesses of different threads that nothing orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// Whose memory; none if a pointer led there that is no global.
    pub global: Option<Global>,
    /// The number of the element, and the byte in it.
    pub element: u64,
    /// See `element`.
    pub byte: u64,
    /// Who came first, and who then.
    pub accesses: [RaceAccess; 2],
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaceAccess {
    /// The thread, by its place in the dispatch.
    pub thread: [u32; 3],
    /// The kind of access.
    pub kind: AccessKind,
    /// The user's line.
    pub span: Span,
}

/// An access that is kept.
#[derive(Clone, Copy, Debug)]
struct Past {
    access: RaceAccess,
    group: u64,
    /// Barriers that the group had passed.
    epoch: u64,
}

/// Accesses of one kind.
#[derive(Clone, Debug, Default)]
struct Pasts {
    /// Of two threads of a group, since a barrier.
    here: [Option<Past>; 2],
    /// Of another group.
    before: Option<Past>,
}

impl Pasts {
    /// An access that another one does not come after.
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

/// The accesses of all places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Races {
    /// By buffer and byte; one for each way of access.
    places: FxHashMap<(u32, u64), [Pasts; 3]>,
    found: Vec<(u32, u64, [RaceAccess; 2])>,
    seen: FxHashSet<(Span, Span)>,
    /// The group that runs, and how many barriers it has passed.
    group: u64,
    epoch: u64,
}

impl Races {
    /// Another group begins. What its threads share is its own.
    pub(crate) fn next_group(&mut self, is_shared: impl Fn(u32) -> bool) {
        self.group += 1;
        self.epoch = 0;
        self.places.retain(|place, _| !is_shared(place.0));
    }

    /// The threads of the group go on after a barrier.
    pub(crate) fn next_epoch(&mut self) {
        self.epoch += 1;
    }

    /// A thread accesses some bytes.
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

    /// The findings, in order; `place` says whose memory a buffer is, and how large its elements are.
    pub(crate) fn all(&self, place: impl Fn(u32) -> (Option<Global>, u64)) -> Vec<Race> {
        let races = self.found.iter().map(|&(buffer, at, accesses)| {
            let (global, size) = place(buffer);
            let size = size.max(1);
            Race { global, element: at / size, byte: at % size, accesses }
        });
        races.collect()
    }
}
