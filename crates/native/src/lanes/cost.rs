//! Estimates how long functions run, before they are compiled, to choose the number of lanes.
//!
//! More lanes pay off by what they share: a value that is the same in all of them is computed once, and vectors that do not
//! wait for each other overlap. They cost where the values of a loop no longer fit the registers, and where a backend has no
//! instruction on vectors for what lanes do, so that it is done lane by lane. Both are seen in the code: an entry point is
//! emitted for each number of lanes that may suit it and for one thread, and the instructions are added up. Those of a loop
//! count [`TRIPS`] times, those of code that hardly ever runs not at all, and a call counts what it calls. Nothing is timed,
//! so the choice is the same in every run.
//!
//! A backend describes its code by [`Sketch`]es, with costs of its own for its instructions.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::Backend;

/// The trips of a loop, whose number is hardly ever known.
const TRIPS: f64 = 8.0;

/// The most lanes that there are.
const MOST: f64 = crate::MOST_LANES as f64;
/// In a loop, code that only some lanes need runs if any lane needs it: for all lanes, this power of their number times as
/// often. If lanes were independent, the power would be 1 as long as few need it; but neighbours are alike.
const ANY: f64 = 0.6;

/// The cost of entering and leaving a function.
const CALL: f64 = 5.0;
/// The cost of a function of the runtime.
pub const HELPER: f64 = 20.0;
/// The cost of a mathematical function for each vector of its results.
const MATHEMATICS: f64 = 30.0;

/// The code of a function, as the estimate sees it.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    /// The number of lanes.
    pub lanes: u32,
    /// The number of loops around all that a thread does: one in a function that runs threads, which may be guarded.
    pub around: u32,
    /// The blocks, in an order in which each comes after one that jumps to it; the first one is the entry.
    pub blocks: Vec<Block>,
}

/// A block of a [`Sketch`].
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The cost of its instructions, without what the functions cost that it calls.
    pub own: f64,
    /// It hardly ever runs.
    pub is_rare: bool,
    /// Lanes have parted before it: it runs if any lane needs it.
    pub is_parted: bool,
    /// The blocks that it jumps to.
    pub to: Vec<usize>,
    /// The functions of the module that it calls, and the number of vectors of their results. One without a sketch is a
    /// mathematical function.
    pub calls: Vec<(String, f64)>,
}

impl Sketch {
    /// The blocks that jump to each block.
    fn preds(&self) -> Vec<Vec<usize>> {
        let mut preds = vec![Vec::new(); self.blocks.len()];
        for (from, block) in self.blocks.iter().enumerate() {
            block.to.iter().for_each(|&to| preds[to].push(from));
        }
        preds
    }

    /// The number of loops around each block: a loop is what leads from a block back to it without leaving the blocks that
    /// are only reached through it.
    pub fn loops(&self) -> Vec<u32> {
        let n = self.blocks.len();
        let (mut levels, preds) = (vec![0; n], self.preds());
        let mut latches: Vec<Vec<usize>> = vec![Vec::new(); n];
        // A depth-first search: a jump to a block on the path is a jump back.
        let (mut seen, mut is_open) = (vec![false; n], vec![false; n]);
        let mut path: Vec<(usize, usize)> = Vec::new();
        if n > 0 {
            (seen[0], is_open[0]) = (true, true);
            path.push((0, 0));
        }
        while let Some((block, next)) = path.last_mut() {
            let Some(&to) = self.blocks[*block].to.get(*next) else {
                is_open[*block] = false;
                path.pop();
                continue;
            };
            *next += 1;
            if is_open[to] {
                latches[to].push(*block);
            } else if !seen[to] {
                (seen[to], is_open[to]) = (true, true);
                path.push((to, 0));
            }
        }
        let mut of = vec![usize::MAX; n];
        for (head, latches) in latches.into_iter().enumerate().filter(|(_, latches)| !latches.is_empty()) {
            let mut left = latches;
            of[head] = head;
            levels[head] += 1;
            while let Some(block) = left.pop() {
                if std::mem::replace(&mut of[block], head) != head {
                    levels[block] += 1;
                    left.extend(&preds[block]);
                }
            }
        }
        levels
    }

    /// For each block, the first and last block of the smallest loop around it. Blocks are in the order of the program.
    fn inner_loops(&self) -> Vec<Option<(usize, usize)>> {
        let jumps =
            |(from, block): (usize, &Block)| block.to.iter().map(|&to| (to, from)).collect::<Vec<_>>();
        let mut loops: Vec<(usize, usize)> = self.blocks.iter().enumerate().flat_map(jumps).collect();
        loops.retain(|(head, latch)| head <= latch);
        loops.sort_unstable_by_key(|(head, latch)| std::cmp::Reverse(latch - head));
        let mut out = vec![None; self.blocks.len()];
        for (head, latch) in loops {
            out[head..=latch].fill(Some((head, latch)));
        }
        out
    }

    /// How often each block runs for each trip of the loops around it.
    fn shares(&self, loops: &[u32]) -> Vec<f64> {
        let preds = self.preds();
        let parted = (f64::from(self.lanes) / MOST).powf(ANY);
        let mut shares = vec![1.0; self.blocks.len()];
        for (k, block) in self.blocks.iter().enumerate() {
            // A jump back from a later block does not count: that block is reached through this one.
            let before = preds[k].iter().filter(|&&from| from < k).map(|&from| shares[from]);
            let before = before.reduce(f64::max).unwrap_or(1.0);
            shares[k] = match () {
                () if block.is_rare => 0.0,
                () if block.is_parted && loops[k] > self.around => before * parted,
                () => before,
            };
        }
        shares
    }
}

/// The cost of a value that is kept in memory since there is no register for it.
const SPILL: f64 = 2.0;

/// The values of a function that are held in registers, noted in the order of its instructions.
#[derive(Debug, Default)]
pub struct Values {
    all: Vec<Held>,
    of: FxHashMap<u32, usize>,
    /// The instructions of the blocks that are begun.
    ends: Vec<usize>,
    next: usize,
}

/// A value that is held in registers.
#[derive(Debug)]
struct Held {
    made: usize,
    block: usize,
    /// The number of registers.
    size: u32,
    /// The last instruction that reads it.
    end: usize,
    /// The blocks that read it.
    reads: Vec<usize>,
}

impl Values {
    /// The next instruction, of this block, makes a value, which needs so many registers.
    pub fn make(&mut self, v: u32, block: usize, size: u32) {
        let made = self.step(block);
        if size > 0 {
            self.of.insert(v, self.all.len());
            self.all.push(Held { made, block, size, end: made, reads: Vec::new() });
        }
    }

    /// The next instruction, of this block, reads a value.
    pub fn read(&mut self, v: u32, block: usize) {
        let at = self.step(block);
        let Some(&v) = self.of.get(&v) else { return };
        self.all[v].end = at;
        if self.all[v].reads.last() != Some(&block) {
            self.all[v].reads.push(block);
        }
    }

    fn step(&mut self, block: usize) -> usize {
        self.next += 1;
        self.ends.resize(self.ends.len().max(block + 1), self.next);
        self.ends[block] = self.next;
        self.next
    }

    /// Adds to each block the cost of the values for which the machine has no register there, by a scan of the
    /// instructions in their order: where there are too many, the value is kept in memory that is needed the longest.
    pub fn spill(self, sketch: &mut Sketch, registers: u32) {
        let loops = sketch.inner_loops();
        let around = |block: usize| loops.get(block).copied().flatten();
        let end = |held: &Held| {
            // A value from before a loop is needed up to its end.
            let latches = held.reads.iter().filter_map(|&k| around(k).filter(|&(head, _)| held.block < head));
            latches.map(|(_, latch)| self.ends.get(latch).copied().unwrap_or(0)).fold(held.end, usize::max)
        };
        let (mut in_use, mut sum) = (BTreeSet::<(usize, usize)>::new(), 0);
        for (v, held) in self.all.iter().enumerate().filter(|(_, held)| !held.reads.is_empty()) {
            while let Some(&(end, other)) = in_use.first().filter(|first| first.0 < held.made) {
                in_use.remove(&(end, other));
                sum -= self.all[other].size;
            }
            in_use.insert((end(held), v));
            sum += held.size;
            while sum > registers
                && let Some((_, other)) = in_use.pop_last()
            {
                let other = &self.all[other];
                sum -= other.size;
                // A value that a loop does not read is stored before it, and loaded after it.
                let is_read =
                    |(head, latch): (usize, usize)| other.reads.iter().any(|k| (head..=latch).contains(k));
                if around(held.block).is_none_or(is_read) {
                    sketch.blocks[held.block].own += SPILL * f64::from(other.size);
                }
            }
        }
    }
}

/// The cost of functions of a backend's module, which call each other by name.
struct Costs<'a, B> {
    backend: &'a B,
    /// The cost of a call of each function; none of those that have no sketch.
    known: FxHashMap<String, Option<f64>>,
}

/// The cost of a call of a function, with all that it calls.
pub fn cost<B: Backend>(backend: &B, name: &str) -> f64 {
    Costs { backend, known: FxHashMap::default() }.of(name).unwrap_or(0.0)
}

impl<B: Backend> Costs<'_, B> {
    fn of(&mut self, name: &str) -> Option<f64> {
        if let Some(&known) = self.known.get(name) {
            return known;
        }
        let sketch = self.backend.sketch(name);
        // What a function costs that calls itself is not known: a call counts nothing.
        self.known.insert(name.to_string(), sketch.as_ref().map(|_| 0.0));
        let sketch = sketch?;
        let levels = sketch.loops();
        let shares = sketch.shares(&levels);
        let mut sum = 0.0;
        for (k, block) in sketch.blocks.iter().enumerate().filter(|(k, _)| shares[*k] > 0.0) {
            let mut here = block.own;
            for (name, vectors) in &block.calls {
                here += CALL + self.of(name).unwrap_or(MATHEMATICS * vectors);
            }
            sum += here * shares[k] * TRIPS.powi(levels[k] as i32);
        }
        self.known.insert(name.to_string(), Some(sum));
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, Sketch, Values};

    fn sketch(jumps: &[&[usize]]) -> Sketch {
        let block = |to: &&[usize]| Block { to: to.to_vec(), ..Block::default() };
        Sketch { lanes: 1, around: 0, blocks: jumps.iter().map(block).collect() }
    }

    #[test]
    fn loops_are_counted_around_each_block() {
        // 1 to 4 are a loop, in which 2 and 3 are one.
        let nested = sketch(&[&[1], &[2, 5], &[3], &[2, 4], &[1], &[]]);
        assert_eq!(nested.loops(), [0, 1, 2, 2, 1, 0]);
        // A block that jumps to itself, two jumps back to one block, and a block without a way to it.
        assert_eq!(sketch(&[&[1], &[1, 2], &[]]).loops(), [0, 1, 0]);
        assert_eq!(sketch(&[&[1], &[2, 3, 4], &[1], &[1], &[], &[4]]).loops(), [0, 1, 1, 1, 0, 0]);
    }

    #[test]
    fn values_beyond_the_registers_cost() {
        // A loop of block 1, which reads `loop_reads` of three values from before it; all are read after it.
        let cost = |registers: u32, loop_reads: &[u32]| {
            let mut sketch = sketch(&[&[1], &[1, 2], &[]]);
            let mut values = Values::default();
            (0..3).for_each(|v| values.make(v, 0, 1));
            values.make(3, 1, 1);
            loop_reads.iter().for_each(|&v| values.read(v, 1));
            values.read(3, 1);
            (0..3).for_each(|v| values.read(v, 2));
            values.spill(&mut sketch, registers);
            sketch.blocks.iter().map(|block| block.own).collect::<Vec<_>>()
        };
        assert_eq!(cost(4, &[0, 1, 2]), [0.0; 3]);
        assert!(cost(3, &[0, 1, 2])[1] > 0.0);
        // One that the loop does not read waits in memory meanwhile.
        assert_eq!(cost(3, &[0, 1]), [0.0; 3]);
    }

    #[test]
    fn rare_blocks_and_what_only_they_lead_to_do_not_count() {
        let mut slow = sketch(&[&[1, 3], &[2], &[4], &[4], &[]]);
        slow.blocks[1].is_rare = true;
        assert_eq!(slow.shares(&[0; 5]), [1.0, 0.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn what_any_lane_needs_runs_more_often_in_more_lanes() {
        // A loop of 1 to 3, in which 2 is for some lanes.
        let shares = |lanes: u32| {
            let mut some = sketch(&[&[1], &[2, 3], &[3], &[1, 4], &[]]);
            (some.lanes, some.blocks[2].is_parted, some.blocks[4].is_parted) = (lanes, true, true);
            some.shares(&some.loops())
        };
        let [few, many] = [8, 16].map(shares);
        assert!(few[2] < many[2] && many[2] < 1.0, "{few:?} {many:?}");
        // A condition outside of loops is a guard, which nearly all lanes pass.
        assert_eq!([few[1], few[3], few[4]], [1.0; 3]);
        let mut guarded = sketch(&[&[1], &[2, 3], &[3], &[1, 4], &[]]);
        (guarded.around, guarded.blocks[2].is_parted) = (1, true);
        assert_eq!(guarded.shares(&guarded.loops()), [1.0; 5]);
    }
}
