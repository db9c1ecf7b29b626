//! Finds which of a function's numbers depend on which: `x` with the set of seeds that it was computed from.
//!
//! Run on a derivative with the tangents as seeds, this gives the sparsity of a Jacobian along the path that the arguments
//! take (index domains: Griewank and Walther, "Evaluating derivatives", 2008, section 7.1). A tangent is a linear
//! function of the seeds whatever their values are, so the sets say which coefficients can differ from zero. They are
//! never too small: any operation that computes a float from floats joins the sets of its operands.
//!
//! A set is a number in a table, so that joining two takes the same time however large they are: small sets are lists, of
//! which each is stored once, and larger ones are what two others make together.

use std::cell::RefCell;
use std::hash::BuildHasher;
use std::ops::Range;

use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use super::value::{Lane, Value};
use super::{Host, Limits, RunError, call_limited};
use crate::entities::Func;
use crate::function::Span;
use crate::module::Module;
use crate::ops::Op;
use crate::scalar;
use crate::types::Scalar;

/// A number and the seeds that it depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Depends {
    /// Canonical bits of the number.
    pub bits: u64,
    /// Its set in the thread's table.
    set: u32,
}

/// The seeds that each number of a function's results depends on, in ascending order, where the numbers `seeded`, counted
/// over all arguments, are seeds 0, 1, ….
pub fn dependences(
    module: &Module,
    func: Func,
    args: &[Value],
    seeded: Range<usize>,
    host: &mut dyn Host,
    limits: Limits,
) -> Result<Vec<Vec<u32>>, RunError> {
    SETS.set(Sets::new(seeded.len() as u32));
    let mut at = 0;
    let args: Vec<Value<Depends>> = args
        .iter()
        .map(|arg| {
            arg.map(&mut |bits| {
                let set = if seeded.contains(&at) { (at - seeded.start) as u32 + 1 } else { EMPTY };
                at += 1;
                Depends { bits, set }
            })
        })
        .collect();
    let called = call_limited(module, func, &args, host, limits);
    let mut sets = SETS.take();
    let lanes: Vec<Depends> = called?.iter().flat_map(Value::lanes).collect();
    if sets.is_full {
        let message =
            format!("the numbers of '{}' depend on too many sets of seeds", module.funcs[func].name);
        return Err(RunError { message, span: module.funcs[func].span, thread: [0; 3] });
    }
    Ok(lanes.iter().map(|lane| sets.members(lane.set)).collect())
}

impl Lane for Depends {
    fn from_bits(bits: u64) -> Depends {
        Depends { bits, set: EMPTY }
    }

    fn bits(self) -> u64 {
        self.bits
    }

    fn cut_at(self, _here: &dyn Fn() -> Span) -> Option<Span> {
        None
    }

    // What derivatives are cut from is decided by the code that is run, which is differentiated already.
    fn cut(self, _at: Option<Span>) -> Depends {
        self
    }

    fn elementwise(op: &Op, from: Scalar, to: Scalar, args: &[Depends]) -> Option<Depends> {
        let mut bits = [0; 4];
        for (bits, arg) in bits.iter_mut().zip(args) {
            *bits = arg.bits;
        }
        let bits = scalar::elementwise(op, from, to, bits.get(..args.len())?)?;
        if let (Op::Select, &[condition, a, b]) = (op, args) {
            return Some(if condition.bits != 0 { a } else { b });
        }
        let mut set = EMPTY;
        for arg in args.iter().filter(|_| to.is_float()) {
            set = match set {
                EMPTY => arg.set,
                set if arg.set == set || arg.set == EMPTY => set,
                set => SETS.with_borrow_mut(|sets| sets.union(set, arg.set)),
            };
        }
        Some(Depends { bits, set })
    }
}

// ---- sets

/// The number of the empty set; those of the seeds' own sets follow.
const EMPTY: u32 = 0;

/// The most members of a set that is stored as a list.
const FEW: usize = 24;

/// The most sets of a table: about 2 GiB.
const MOST: usize = 1 << 25;

thread_local! {
    static SETS: RefCell<Sets> = RefCell::default();
}

#[derive(Default)]
enum Set {
    #[default]
    Empty,
    /// At most [`FEW`] members in ascending order: where they begin in the table, and their number.
    Few(u32, u32),
    /// The members of two sets.
    Both(u32, u32),
}

/// A table of sets. A set without its members is never stored twice as a list.
#[derive(Default)]
struct Sets {
    sets: Vec<Set>,
    /// The members of all lists.
    members: Vec<u32>,
    /// By the hash of its members: the list that was made last, and by list the one before it with the same hash.
    few: FxHashMap<u64, u32>,
    before: FxHashMap<u32, u32>,
    /// The sets that two make together.
    both: FxHashMap<(u32, u32), u32>,
    /// A set was left out, since there are too many.
    is_full: bool,
    /// By set: the number of the last search that found it.
    found: Vec<u32>,
    search: u32,
}

impl Sets {
    fn new(n_seeds: u32) -> Sets {
        let mut sets = Sets { sets: vec![Set::Empty], ..Sets::default() };
        for seed in 0..n_seeds {
            sets.list(&[seed]);
        }
        sets
    }

    fn push(&mut self, set: Set) -> u32 {
        if self.sets.len() >= MOST {
            self.is_full = true;
            return EMPTY;
        }
        self.sets.push(set);
        self.sets.len() as u32 - 1
    }

    /// The members of a list.
    fn few(&self, set: u32) -> Option<&[u32]> {
        let Set::Few(start, count) = self.sets[set as usize] else { return None };
        self.members.get(start as usize..(start + count) as usize)
    }

    fn list(&mut self, members: &[u32]) -> u32 {
        let hash = FxBuildHasher.hash_one(members);
        let last = self.few.get(&hash).copied();
        let mut known = last;
        while let Some(set) = known {
            if self.few(set) == Some(members) {
                return set;
            }
            known = self.before.get(&set).copied();
        }
        let (Ok(start), count) = (u32::try_from(self.members.len()), members.len() as u32) else {
            self.is_full = true;
            return EMPTY;
        };
        let set = self.push(Set::Few(start, count));
        if set != EMPTY {
            self.members.extend_from_slice(members);
            self.few.insert(hash, set);
            self.before.extend(last.map(|last| (set, last)));
        }
        set
    }

    fn union(&mut self, a: u32, b: u32) -> u32 {
        let (a, b) = (a.min(b), a.max(b));
        if a == EMPTY || a == b {
            return b;
        }
        if let Some(&known) = self.both.get(&(a, b)) {
            return known;
        }
        let is_part = |whole: u32, part: u32| matches!(self.sets[whole as usize], Set::Both(c, d) if c == part || d == part);
        let set = match (self.few(a), self.few(b)) {
            (Some(x), Some(y)) => match merged(x, y) {
                Some(members) => self.list(&members),
                None => self.push(Set::Both(a, b)),
            },
            _ if is_part(b, a) => b,
            _ if is_part(a, b) => a,
            _ => self.push(Set::Both(a, b)),
        };
        self.both.insert((a, b), set);
        set
    }

    /// The members of a set in ascending order.
    fn members(&mut self, set: u32) -> Vec<u32> {
        self.found.resize(self.sets.len(), 0);
        self.search += 1;
        let mut members = Vec::new();
        let mut open = vec![set];
        while let Some(set) = open.pop() {
            if std::mem::replace(&mut self.found[set as usize], self.search) == self.search {
                continue;
            }
            match self.sets[set as usize] {
                Set::Empty => {}
                Set::Few(..) => members.extend_from_slice(self.few(set).unwrap_or_default()),
                Set::Both(a, b) => open.extend([a, b]),
            }
        }
        members.sort_unstable();
        members.dedup();
        members
    }
}

/// The members of two lists, unless they are too many for one.
fn merged(mut x: &[u32], mut y: &[u32]) -> Option<SmallVec<[u32; FEW]>> {
    let mut all = SmallVec::new();
    while let Some(next) = [x.first(), y.first()].into_iter().flatten().min().copied() {
        if all.len() == FEW {
            return None;
        }
        all.push(next);
        x = x.strip_prefix(&[next]).unwrap_or(x);
        y = y.strip_prefix(&[next]).unwrap_or(y);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_the_members_of_both() {
        let mut sets = Sets::new(200);
        let (mut whole, mut last) = (EMPTY, EMPTY);
        for seed in (0..200).step_by(3) {
            last = sets.union(seed + 1, 1);
            whole = sets.union(whole, last);
        }
        let expected: Vec<u32> = (0..200).step_by(3).collect();
        assert_eq!(sets.members(whole), expected);
        assert_eq!(sets.union(last, whole), whole, "a part of a set adds nothing");
        let (ab, ba) = (sets.union(5, 9), sets.union(9, 5));
        assert_eq!(ab, ba);
        assert_eq!(sets.members(ab), [4, 8]);
    }
}
