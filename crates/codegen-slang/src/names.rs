//! Makes names that are legal in the language and unique within their scope.

use std::sync::LazyLock;

use ir::Math;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::expression::function;

/// Words that cannot name a variable, and functions other than mathematical ones that the printed text calls,
/// with spaces between them.
const RESERVED: &str = "\
    bit_cast bool break case const continue default detach discard do double each else enum expand \
    extension extern false float fmod for func fwd_diff bwd_diff half if import in inout int interface \
    let module namespace no_diff none nullptr out printf property public private return select static \
    struct switch this This true typealias typedef uint uniform var vector matrix void where while \
    interval sample line point triangle linear centroid precise shared volatile groupshared row_major \
    column_major";

/// The reserved words, and the mathematical functions.
static RESERVED_NAMES: LazyLock<FxHashSet<&str>> =
    LazyLock::new(|| RESERVED.split(' ').chain(Math::ALL.into_iter().map(function)).collect());

/// The names used in a scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Each name, and the number from which on a number makes it another one.
    taken: FxHashMap<String, u32>,
    /// The names of the source, which temporaries do not take.
    avoided: FxHashSet<String>,
}

impl Names {
    /// Keeps a name of the source from temporaries.
    pub(crate) fn avoid(&mut self, name: Option<&str>) {
        self.avoided.extend(name.map(str::to_owned));
    }

    /// A unique name for what has none in the source.
    pub(crate) fn temporary(&mut self, like: &str) -> String {
        match self.avoided.contains(like) {
            true => self.fresh(&format!("{like}_")),
            false => self.fresh(like),
        }
    }

    /// A unique name similar to the given one: `ray.origin` becomes `ray_origin`, a second `x` becomes `x2`.
    pub(crate) fn fresh(&mut self, like: &str) -> String {
        let mut base = String::new();
        for c in like.chars() {
            if c.is_ascii_alphanumeric() {
                base.push(c);
            } else if !base.ends_with('_') && !base.is_empty() {
                base.push('_');
            }
        }
        let mut base = base.trim_end_matches('_').to_string();
        if base.is_empty() || base.starts_with(|c: char| c.is_ascii_digit()) {
            base.insert(0, 'v');
        }
        let is_free = |taken: &FxHashMap<String, u32>, name: &str| {
            !RESERVED_NAMES.contains(name) && !taken.contains_key(name)
        };
        let mut name = base.clone();
        if !is_free(&self.taken, &name) {
            let digit = base.ends_with(|c: char| c.is_ascii_digit());
            let mut n = self.taken.get(&base).copied().unwrap_or(2);
            while !is_free(&self.taken, &name) {
                name = if digit { format!("{base}_{n}") } else { format!("{base}{n}") };
                n += 1;
            }
            self.taken.insert(base, n);
        }
        self.taken.insert(name.clone(), 2);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_legal_and_different() {
        let mut names = Names::default();
        let made: Vec<String> = ["ray.origin", "ray_origin", "x", "x", "sin", "f<float>:jvp", "", "v1", "v1"]
            .iter()
            .map(|n| names.fresh(n))
            .collect();
        assert_eq!(made, ["ray_origin", "ray_origin2", "x", "x2", "sin2", "f_float_jvp", "v", "v1", "v1_2"]);
    }
}
