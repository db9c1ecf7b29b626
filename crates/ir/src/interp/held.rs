//! Estimates the memory that a thread holds in arrays and stacks.
//!
//! Each frame counts the bytes of the values bound to its names. Values share their elements until they are
//! changed, so the count is too high where a value has several names. Memory is therefore measured exactly
//! only when the count exceeds the limit.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::value::{Lane, Value};
use super::{Bound, Machine, memory_message};

/// The bytes of a value's elements, counted as if no element were shared. All elements are assumed to be of
/// the first one's size.
pub(super) fn bytes<L: Lane>(value: &Value<L>) -> u64 {
    match value {
        Value::Scalar(_) | Value::Vector(_) | Value::Buffer(_) => 0,
        Value::Array(elements) | Value::Stack(elements) => {
            let each = size_of::<Value<L>>() as u64 + elements.first().map_or(0, bytes);
            (elements.len() as u64).saturating_mul(each)
        }
    }
}

/// The bytes of those of a value's elements that are not in `seen`.
fn distinct<L: Lane>(value: &Value<L>, seen: &mut FxHashSet<usize>) -> u64 {
    match value {
        Value::Scalar(_) | Value::Vector(_) | Value::Buffer(_) => 0,
        Value::Array(elements) | Value::Stack(elements) => {
            if !seen.insert(Arc::as_ptr(elements) as usize) {
                return 0;
            }
            let own = size_of_val(&elements[..]) as u64;
            match elements.first() {
                Some(Value::Array(_) | Value::Stack(_)) => {
                    own + elements.iter().map(|e| distinct(e, seen)).sum::<u64>()
                }
                _ => own,
            }
        }
    }
}

/// The bytes of the value bound to a name.
pub(super) fn bound_bytes<L: Lane>(bound: &Bound<L>) -> u64 {
    match bound {
        Bound::Nothing | Bound::SubCell(..) => 0,
        Bound::Value(value) | Bound::Cell(value) => bytes(value),
    }
}

impl<L: Lane> Machine<'_, L> {
    /// Returns an error if the thread holds more memory than its limit.
    pub(super) fn check_memory(&mut self) -> Result<(), String> {
        if self.held <= self.measure_at {
            return Ok(());
        }
        let mut seen = FxHashSet::default();
        let names = self.frames.iter().flat_map(|f| &f.names);
        let measured: u64 = names
            .map(|bound| match bound {
                Bound::Nothing | Bound::SubCell(..) => 0,
                Bound::Value(value) | Bound::Cell(value) => distinct(value, &mut seen),
            })
            .sum();
        if measured > self.limits.memory {
            return Err(memory_message(self.limits.memory));
        }
        // The limit can only be exceeded after the count has grown by as much as the measured size is below
        // the limit.
        self.measure_at = self.held + (self.limits.memory - measured).max(self.limits.memory / 16);
        Ok(())
    }
}
