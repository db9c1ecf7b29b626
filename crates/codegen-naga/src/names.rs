//! Assigns unique, plain names derived from the names of the source.

use rustc_hash::FxHashMap;

/// Names already in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    taken: FxHashMap<String, u32>,
}

impl Names {
    /// Returns a name that nothing else has yet.
    pub(crate) fn unique(&mut self, wanted: &str) -> String {
        let base = plain(wanted);
        let count = self.taken.entry(base.clone()).or_insert(0);
        *count += 1;
        if *count == 1 {
            return base;
        }
        let n = *count;
        let name = format!("{base}_{}", letters(n - 2));
        self.unique(&name)
    }
}

/// The suffixes `b`, `c`, …: letters, because naga appends `_` to names that end in a digit.
fn letters(n: u32) -> String {
    let last = char::from(b'b' + (n % 25) as u8);
    if n < 25 { last.to_string() } else { format!("{}{last}", letters(n / 25 - 1)) }
}

/// The name reduced to letters, digits and single `_`.
pub(crate) fn plain(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() { c } else { '_' };
        if c != '_' || !out.is_empty() && !out.ends_with('_') {
            out.push(c);
        }
    }
    let out = out.trim_end_matches('_');
    match out.chars().next() {
        None => "unnamed".to_string(),
        Some(c) if c.is_ascii_digit() => format!("n{out}"),
        Some(_) => out.to_string(),
    }
}
