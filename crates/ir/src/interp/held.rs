//! The memory that a thread holds in arrays and stacks, about.
//!
//! Each frame counts what its names stand for. Values share their elements until they are changed, so the count is too
//! high where a value has many names; only what is over the limit by that count is measured.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::value::{Lane, Value};
use super::{Bound, Machine, memory_message};

/// Bytes of a value's elements, as if it shared none. Elements are alike.
pub(super) fn bytes<L: Lane>(value: &Value<L>) -> u64 {
    match value {
        Value::Scalar(_) | Value::Vector(_) | Value::Buffer(_) => 0,
        Value::Array(elements) | Value::Stack(elements) => {
            let each = size_of::<Value<L>>() as u64 + elements.first().map_or(0, bytes);
            (elements.len() as u64).saturating_mul(each)
        }
    }
}

/// Bytes of a value's elements that were not seen before.
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

/// Bytes of what a name stands for.
pub(super) fn bound_bytes<L: Lane>(bound: &Bound<L>) -> u64 {
    match bound {
        Bound::Nothing | Bound::SubCell(..) => 0,
        Bound::Value(value) | Bound::Cell(value) => bytes(value),
    }
}

impl<L: Lane> Machine<'_, L> {
    /// An error if the thread holds more than it may.
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
        // It can only be over after as much more as it is below.
        self.measure_at = self.held + (self.limits.memory - measured).max(self.limits.memory / 16);
        Ok(())
    }
}
