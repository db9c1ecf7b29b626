//! Represents integers as sums of multiples of loop counters, to show that an index takes each value at most
//! once.

use super::Analyses;
use crate::entities::{Inst, Region, Value};
use crate::ops::Op;
use crate::types::{Scalar, TypeData};

/// The maximum number of counters in a sum.
const MOST_TERMS: usize = 8;
/// The maximum depth of operands that are followed.
const DEPTH: u32 = 8;

/// The sum of a constant and of multiples of counters, with its bounds. Neither the sum nor any of its parts
/// wraps.
#[derive(Default)]
pub struct Affine {
    /// Each counter with its factor and its loop's number of trips, which is at least one.
    pub terms: Vec<(Value, i64, u64)>,
    /// The least and the greatest number that the sum can be.
    pub bounds: (i64, i64),
}

impl Affine {
    /// A value as such a sum, if it is one.
    pub fn of(analyses: &Analyses, v: Value) -> Option<Affine> {
        Affine::at(analyses, v, DEPTH)
    }

    fn at(analyses: &Analyses, v: Value, depth: u32) -> Option<Affine> {
        let TypeData::Scalar(s) = analyses.types[analyses.func.ty(v)] else { return None };
        let (least, most) = match s {
            Scalar::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            Scalar::U32 => (0, i64::from(u32::MAX)),
            _ => return None,
        };
        let found = if let Some(trips) = analyses.constant_trips(v) {
            let last = i64::try_from(trips.max(1) - 1).ok()?;
            Affine { terms: vec![(v, 1, trips.max(1))], bounds: (0, last) }
        } else if let Some(bits) = analyses.constant(v) {
            let n = if s == Scalar::I32 { crate::scalar::to_i64(s, bits) } else { bits as i64 };
            Affine { terms: Vec::new(), bounds: (n, n) }
        } else {
            let data = analyses.def(v).filter(|_| depth > 0)?;
            let part = |k: usize| Affine::at(analyses, data.args[k], depth - 1);
            match data.op {
                Op::Add => part(0)?.plus(part(1)?, 1)?,
                Op::Sub => part(0)?.plus(part(1)?, -1)?,
                Op::Mul => {
                    let (a, b) = (part(0)?, part(1)?);
                    let (sum, by) = if b.terms.is_empty() { (a, b) } else { (b, a) };
                    Affine::default().plus(sum, by.terms.is_empty().then_some(by.bounds.0)?)?
                }
                Op::Convert => part(0)?,
                _ => return None,
            }
        };
        (least <= found.bounds.0 && found.bounds.1 <= most).then_some(found)
    }

    /// `self + by * other`.
    fn plus(mut self, other: Affine, by: i64) -> Option<Affine> {
        for (counter, n, trips) in other.terms {
            let n = n.checked_mul(by)?;
            match self.terms.iter_mut().find(|t| t.0 == counter) {
                Some(term) => term.1 = term.1.checked_add(n)?,
                None => self.terms.push((counter, n, trips)),
            }
        }
        self.terms.retain(|t| t.1 != 0);
        let (a, b) = (other.bounds.0.checked_mul(by)?, other.bounds.1.checked_mul(by)?);
        self.bounds = (self.bounds.0.checked_add(a.min(b))?, self.bounds.1.checked_add(a.max(b))?);
        (self.terms.len() <= MOST_TERMS).then_some(self)
    }

    /// Returns true if no two trips of the loops around `inst`, up to the region `outer`, give the same sum.
    pub fn is_injective(&mut self, analyses: &Analyses, mut inst: Inst, outer: Region) -> bool {
        // The counter of every loop must occur in the sum.
        while let Some(region) = analyses.home(inst).filter(|&region| region != outer) {
            let Some(holder) = analyses.tree().holder(region) else { return false };
            inst = holder;
            match analyses.func.insts[inst].op {
                Op::For(_) => {
                    let counter = analyses.func.regions[region].params[0];
                    let Some(trips) = analyses.constant_trips(counter) else { return false };
                    if trips > 1 && !self.terms.iter().any(|t| t.0 == counter) {
                        return false;
                    }
                }
                Op::If | Op::Switch(_) => {}
                _ => return false,
            }
        }
        // Each factor must exceed the range of all smaller terms together.
        self.terms.sort_by_key(|t| t.1.unsigned_abs());
        let mut reach = 0;
        self.terms.iter().all(|&(_, by, trips)| {
            let is_above = by.unsigned_abs() > reach;
            reach += by.unsigned_abs() * (trips - 1);
            is_above
        })
    }
}
