//! Suggests names that the user may have misspelt.

/// The number of letters that have to change to turn `a` into `b`, or a number above two if more than two
/// have to. A transposition of two letters counts as one change.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 2 {
        return 3;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let change = row[j] + usize::from(!x.eq_ignore_ascii_case(y));
            let mut least = change.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

/// The length of the common prefix of two words, ignoring case.
fn alike(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(x, y)| x.eq_ignore_ascii_case(y)).count()
}

/// Longer words are unlikely to be misspelt names, and the cost grows with each letter times the number of
/// names.
const LONGEST: usize = 256;

/// The name nearest to the text; ties are broken by the longest common prefix, then by alphabetical order.
pub fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let most = match text.len() {
        0..=2 => return None,
        3..=4 => 1,
        5..=LONGEST => 2,
        _ => return None,
    };
    names
        .filter(|n| *n != text && !n.is_empty() && !n.starts_with("__") && !n.starts_with('$'))
        .map(|n| (distance(text, n), usize::MAX - alike(text, n), n))
        .filter(|n| n.0 <= most)
        .min()
        .map(|n| n.2.to_string())
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_names_that_are_spelt_alike() {
        let names = ["include", "position", "ray", "x"];
        let find = |text: &str| nearest(text, names.into_iter());
        assert_eq!(find("inlcude").as_deref(), Some("include"));
        assert_eq!(find("positon").as_deref(), Some("position"));
        assert_eq!(find("rya").as_deref(), Some("ray"));
        assert_eq!(nearest("sinn", ["sign", "sin"].into_iter()).as_deref(), Some("sin"));
        assert_eq!(find("direction"), None);
        assert_eq!(find("y"), None);
        assert_eq!(find(&"y".repeat(1 << 24)), None);
    }
}
