//! Represents numbers as sums, to show how far apart the addresses of two threads are.
//!
//! A [`Form`] states that a 32-bit number (or the low half of a wider one) is
//! `constant + lane·(number of the lane) + Σ coefficient·atom + loose`, modulo 2³². An *atom* is a number
//! that is the same for all lanes whenever it is computed, so it cancels where two forms are subtracted. A
//! part that differs from lane to lane, or from trip to trip, in an unknown way is *loose*: any multiple of a
//! power of two within bounds. A form that states too little is never wrong, since forms are only used to
//! prove that two numbers differ.

use smallvec::SmallVec;

/// A number that all lanes share.
pub(super) type Atom = u32;

/// Any multiple of `step`, a power of two, within the bounds, both included; every multiple if there are no
/// bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Loose {
    bounds: Option<(i64, i64)>,
    step: u64,
}

/// A number as a sum; see the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    constant: i64,
    lane: i64,
    atoms: SmallVec<[(Atom, i64); 2]>,
    loose: Option<Loose>,
}

/// The number modulo 2³², nearest to zero.
fn wrapped(x: i64) -> i64 {
    i64::from(x as i32)
}

/// The largest power of two that divides a number modulo 2³².
fn power(x: i64) -> u64 {
    1 << (x as u32).trailing_zeros().min(32)
}

impl Loose {
    fn any(step: u64) -> Loose {
        Loose { bounds: None, step: step.clamp(1, 1 << 32) }
    }

    fn plus(self, other: Loose) -> Loose {
        let bounds = match (self.bounds, other.bounds) {
            (Some(a), Some(b)) => Some((a.0 + b.0, a.1 + b.1)),
            _ => None,
        };
        Loose { bounds, step: self.step.min(other.step) }.bounded()
    }

    fn times(self, by: i64) -> Loose {
        let bounds = self.bounds.and_then(|(low, high)| {
            let (a, b) = (low.checked_mul(by)?, high.checked_mul(by)?);
            Some((a.min(b), a.max(b)))
        });
        Loose { bounds, step: (self.step * power(by)).min(1 << 32) }.bounded()
    }

    /// Drops bounds that are so far apart that they exclude no number.
    fn bounded(self) -> Loose {
        Loose {
            bounds: self.bounds.filter(|b| b.0 > -(1 << 40) && b.1 < 1 << 40 && b.1 - b.0 < 1 << 32),
            ..self
        }
    }
}

impl Form {
    pub(super) fn constant(x: i64) -> Form {
        Form { constant: wrapped(x), lane: 0, atoms: SmallVec::new(), loose: None }
    }

    /// The number of the lane.
    pub(super) fn lane() -> Form {
        Form { lane: 1, ..Form::constant(0) }
    }

    pub(super) fn atom(atom: Atom) -> Form {
        Form { atoms: SmallVec::from_slice(&[(atom, 1)]), ..Form::constant(0) }
    }

    /// A number of which nothing is known.
    pub(super) fn any() -> Form {
        Form { loose: Some(Loose::any(1)), ..Form::constant(0) }
    }

    /// Any number within these bounds, both included.
    pub(super) fn within(low: i64, high: i64) -> Form {
        Form { loose: Some(Loose { bounds: Some((low, high)), step: 1 }.bounded()), ..Form::constant(0) }
    }

    pub(super) fn as_constant(&self) -> Option<i64> {
        (self.is_fixed() && self.atoms.is_empty()).then_some(self.constant)
    }

    /// Returns true if the number is the same in all lanes, at any time.
    pub(super) fn is_fixed(&self) -> bool {
        self.lane == 0 && self.loose.is_none()
    }

    /// Returns true if no two of this many lanes have the same number.
    pub(super) fn tells_lanes_apart(&self, lanes: u32) -> bool {
        self.loose.is_none() && (1..i64::from(lanes)).all(|d| wrapped(self.lane.wrapping_mul(d)) != 0)
    }

    /// Returns true if the loose part lies within bounds, or is a multiple of more than 1.
    pub(super) fn is_bounded(&self) -> bool {
        self.loose.is_none_or(|l| l.bounds.is_some() || l.step > 1)
    }

    pub(super) fn plus(&self, other: &Form) -> Form {
        let mut sum = self.clone();
        sum.constant = wrapped(sum.constant.wrapping_add(other.constant));
        sum.lane = wrapped(sum.lane.wrapping_add(other.lane));
        for &(atom, by) in &other.atoms {
            match sum.atoms.binary_search_by_key(&atom, |a| a.0) {
                Ok(at) => sum.atoms[at].1 = wrapped(sum.atoms[at].1.wrapping_add(by)),
                Err(at) => sum.atoms.insert(at, (atom, by)),
            }
        }
        sum.atoms.retain(|a| a.1 != 0);
        sum.loose = match (sum.loose, other.loose) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            (a, b) => a.or(b),
        };
        sum
    }

    pub(super) fn times(&self, by: i64) -> Form {
        let by = wrapped(by);
        if by == 0 {
            return Form::constant(0);
        }
        let mut product = self.clone();
        product.constant = wrapped(product.constant.wrapping_mul(by));
        product.lane = wrapped(product.lane.wrapping_mul(by));
        product.atoms.iter_mut().for_each(|a| a.1 = wrapped(a.1.wrapping_mul(by)));
        product.atoms.retain(|a| a.1 != 0);
        product.loose = product.loose.map(|l| l.times(by));
        product
    }

    pub(super) fn minus(&self, other: &Form) -> Form {
        self.plus(&other.times(-1))
    }

    /// The number plus any multiple of `step`.
    pub(super) fn and_steps(&self, step: i64) -> Form {
        self.plus(&Form { loose: Some(Loose::any(power(step))), ..Form::constant(0) })
    }

    /// A form that holds for both numbers.
    pub(super) fn or(&self, other: &Form) -> Form {
        if self == other {
            return self.clone();
        }
        if self.lane != other.lane || self.atoms != other.atoms {
            return Form::any();
        }
        let zero = Loose { bounds: Some((0, 0)), step: 1 << 32 };
        let (a, b) = (self.loose.unwrap_or(zero), other.loose.unwrap_or(zero));
        let apart = other.constant - self.constant;
        let bounds = match (a.bounds, b.bounds) {
            (Some(a), Some(b)) => Some((a.0.min(b.0 + apart), a.1.max(b.1 + apart))),
            _ => None,
        };
        let step = a.step.min(b.step).min(power(apart)).max(1);
        Form { loose: Some(Loose { bounds, step }.bounded()), ..self.clone() }
    }

    /// Returns true if `size` bytes from `self` in lane `i + d` and `other_size` bytes from `other` in lane
    /// `i` never overlap, for every lane `i` and each `d` in `1..lanes`.
    pub(super) fn is_apart(&self, size: u64, other: &Form, other_size: u64, lanes: u32) -> bool {
        let mut rest = self.minus(other);
        if rest.lane != 0 {
            // The number of the first lane is unknown.
            rest = rest.plus(&Form::within(0, i64::from(lanes) - 1).times(rest.lane));
        }
        // Atoms that do not cancel may be any number.
        for &(_, by) in &rest.atoms {
            let more = Loose::any(power(by));
            rest.loose = Some(rest.loose.map_or(more, |l| l.plus(more)));
        }
        let zero = Loose { bounds: Some((0, 0)), step: 1 << 32 };
        let loose = rest.loose.unwrap_or(zero);
        let (size, other_size) = (size as i64, other_size as i64);
        (1..i64::from(lanes)).all(|d| {
            // The ranges overlap if `at + x` is above `-size` and below `other_size`, for a possible `x`.
            let at = wrapped(rest.constant.wrapping_add(self.lane.wrapping_mul(d)));
            let step = loose.step as i64;
            let left = at.rem_euclid(step);
            if left >= other_size && step - left >= size {
                return true;
            }
            let Some((low, high)) = loose.bounds else { return false };
            // Find the smallest number, from the lower bound on, that makes the sum zero modulo 2³².
            let (low, high) = (low - (other_size - 1), high + (size - 1));
            let first = (-at).wrapping_sub(low).rem_euclid(1 << 32);
            low + first > high
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANES: u32 = 8;

    fn apart(a: &Form, b: &Form) -> bool {
        a.is_apart(4, b, 4, LANES)
    }

    #[test]
    fn lanes_of_one_stride_are_apart() {
        let at = Form::lane().times(4).plus(&Form::atom(3).times(4));
        assert!(apart(&at, &at));
        assert!(!apart(&at.plus(&Form::constant(4)), &at.plus(&Form::constant(8))));
        assert!(apart(&at.plus(&Form::constant(4)), &at), "from the next one's place on");
        assert!(!at.is_apart(8, &at, 8, LANES), "each reaches into the next");
    }

    #[test]
    fn what_is_loose_stays_within_the_stride() {
        let at = Form::lane().times(12);
        let inner = at.plus(&Form::within(0, 2).times(4));
        assert!(apart(&inner, &inner));
        let beyond = at.plus(&Form::within(0, 3).times(4));
        assert!(!apart(&beyond, &beyond));
        let rows = Form::lane().times(4).and_steps(4 * 64);
        assert!(apart(&rows, &rows), "steps of all lanes together");
        let rows = Form::lane().times(4).and_steps(4 * 4);
        assert!(!apart(&rows, &rows), "steps of half of them");
    }

    #[test]
    fn other_atoms_may_be_anything() {
        let at = |atom| Form::lane().times(4).plus(&Form::atom(atom).times(4));
        assert!(!apart(&at(1), &at(2)));
        assert!(!apart(&Form::atom(1), &Form::lane().times(4)));
        assert!(!apart(&Form::constant(0), &Form::constant(0)));
        assert!(apart(&Form::constant(0), &Form::constant(4)));
    }

    #[test]
    fn sums_wrap() {
        let at = Form::lane().times(1 << 30);
        assert!(apart(&at, &at.plus(&Form::constant(4))) && !apart(&at, &at), "four strides make a round");
        let all = Form::lane().times(4).plus(&Form::within(0, u32::MAX.into()));
        assert!(!apart(&all, &all));
    }
}
