//! The ranges that random arguments are drawn from.

/// A range for all numbers, and others for those of some parameters or fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges {
    /// The range of numbers that no name covers.
    pub common: (f64, f64),
    /// Ranges by name; of several names that cover a number, the longest counts, and of equal ones the last.
    pub named: Vec<(String, (f64, f64))>,
}

impl Ranges {
    /// The range of the number with that path.
    pub fn of(&self, number: &str) -> (f64, f64) {
        let covering = self.named.iter().filter(|(name, _)| covers(name, number));
        covering.max_by_key(|(name, _)| name.len()).map_or(self.common, |named| named.1)
    }
}

/// Returns true if a name covers a number, as `p`, `p.w` and `p.w[0]` cover `p.w[0]`.
pub fn covers(name: &str, number: &str) -> bool {
    number.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_counts() {
        let named = [("p", (0.0, 1.0)), ("p.w", (2.0, 3.0)), ("p.w[1]", (4.0, 5.0)), ("p", (6.0, 7.0))];
        let named = named.map(|(name, range)| (name.to_string(), range)).to_vec();
        let ranges = Ranges { common: (-2.0, 2.0), named };
        assert_eq!(ranges.of("q"), (-2.0, 2.0));
        assert_eq!(ranges.of("pw"), (-2.0, 2.0));
        assert_eq!(ranges.of("p.w[0]"), (2.0, 3.0));
        assert_eq!(ranges.of("p.w[1]"), (4.0, 5.0));
        assert_eq!(ranges.of("p.v"), (6.0, 7.0));
    }
}
