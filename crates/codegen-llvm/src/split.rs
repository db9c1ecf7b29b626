//! Splits a text into parts that LLVM compiles in parallel.
//!
//! Functions that are not connected by calls, such as the entry points for lanes and for one thread, go to
//! different parts. The functions of a large text are distributed in order, each part up to a certain size. A
//! function that was internal to the module is then visible to all parts, and each part declares the
//! functions of other parts that it calls. Mathematical functions are an exception: they are to be inlined,
//! so each part that calls one has its own copy. Together the parts mean what the text means.

use std::fmt::Write as _;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

/// The size of a part in bytes; and the size up to which a text is only split between functions that no calls
/// connect.
const PART: usize = 256 << 10;
const WHOLE: usize = 384 << 10;
/// The size in bytes up to which a text is never split.
const LITTLE: usize = 8 << 10;
/// The largest number of parts for functions that are not connected by calls.
const APART: usize = 4;

/// A function definition in the text.
struct Definition<'t> {
    name: &'t str,
    /// The text from `define` up to the brace.
    head: &'t str,
    /// The whole text.
    text: &'t str,
}

/// The parts of a text; only the text itself if it is small.
pub(crate) fn parts(text: &str) -> Vec<String> {
    if text.len() <= LITTLE {
        vec![text.to_string()]
    } else if text.len() <= WHOLE {
        apart(text, APART)
    } else {
        parts_of(text, PART)
    }
}

/// The text before the first function, the functions, and their numbers by name.
fn definitions(text: &str) -> (&str, Vec<Definition<'_>>, FxHashMap<&str, usize>) {
    let mut starts: Vec<usize> = text.match_indices("\ndefine ").map(|(at, _)| at + 1).collect();
    let head = &text[..starts.first().copied().unwrap_or(text.len())];
    starts.push(text.len());
    let all: Vec<Definition<'_>> = starts.windows(2).filter_map(|w| definition(&text[w[0]..w[1]])).collect();
    let numbers = all.iter().enumerate().map(|(k, d)| (d.name, k)).collect();
    (head, all, numbers)
}

/// The functions that would take more than `most` bytes of text if each call was replaced by a copy.
pub(crate) fn called_often(text: &str, most: usize) -> FxHashSet<&str> {
    let (_, all, _) = definitions(text);
    let mut mentions: FxHashMap<&str, usize> = FxHashMap::default();
    for name in all.iter().flat_map(|definition| names(definition.text)) {
        *mentions.entry(name).or_default() += 1;
    }
    // One of the mentions is the definition.
    let bytes = |d: &&Definition<'_>| d.text.len() * mentions.get(d.name).map_or(0, |n| n - 1);
    all.iter().filter(|d| bytes(d) > most).map(|d| d.name).collect()
}

/// Splits a text into at most `most` parts, such that no function calls one of another part.
fn apart(text: &str, most: usize) -> Vec<String> {
    let (head, all, numbers) = definitions(text);
    // A union-find forest whose roots are the smallest function numbers of the connected components.
    let mut of: Vec<usize> = (0..all.len()).collect();
    let find = |of: &[usize], mut k: usize| {
        while of[k] != k {
            k = of[k];
        }
        k
    };
    for (k, definition) in all.iter().enumerate().filter(|(_, d)| !is_copied(d)) {
        for other in names(definition.text).filter_map(|name| numbers.get(name).copied()) {
            if !is_copied(&all[other]) {
                let (a, b) = (find(&of, k), find(&of, other));
                of[a.max(b)] = a.min(b);
            }
        }
    }
    let mut bytes = vec![0; all.len()];
    for (k, definition) in all.iter().enumerate().filter(|(_, d)| !is_copied(d)) {
        bytes[find(&of, k)] += definition.text.len();
    }
    // Assign the components to parts, largest first, each to the part that is smallest so far.
    let mut groups: Vec<usize> = (0..all.len()).filter(|&k| bytes[k] > 0).collect();
    groups.sort_by_key(|&k| std::cmp::Reverse(bytes[k]));
    if groups.len() < 2 {
        return vec![text.to_string()];
    }
    let mut sizes = vec![0; most.min(groups.len())];
    let mut part_of = vec![0; all.len()];
    for group in groups {
        let part = (0..sizes.len()).min_by_key(|&p| sizes[p]).unwrap_or(0);
        sizes[part] += bytes[group];
        part_of[group] = part;
    }
    (0..sizes.len())
        .map(|part| {
            let is_own = |k: usize| !is_copied(&all[k]) && part_of[find(&of, k)] == part;
            let mut own: IndexSet<usize, FxBuildHasher> = (0..all.len()).filter(|&k| is_own(k)).collect();
            let mut at = 0;
            while let Some(&k) = own.get_index(at) {
                at += 1;
                own.extend(names(all[k].text).filter_map(|name| numbers.get(name).copied()));
            }
            own.iter().fold(String::from(head), |text, &k| text + all[k].text)
        })
        .collect()
}

fn parts_of(text: &str, size: usize) -> Vec<String> {
    let (head, all, numbers) = definitions(text);
    let mut parts = Vec::new();
    let mut rest = all.iter().enumerate().filter(|(_, d)| !is_copied(d)).peekable();
    while rest.peek().is_some() {
        let mut part = String::from(head);
        let mut own: IndexSet<usize, FxBuildHasher> = IndexSet::default();
        let mut bytes = 0;
        while let Some((k, definition)) = rest.next_if(|(_, d)| bytes == 0 || bytes + d.text.len() <= size) {
            bytes += definition.text.len();
            own.insert(k);
        }
        let mut declared: IndexSet<usize, FxBuildHasher> = IndexSet::default();
        let mut at = 0;
        while let Some(&k) = own.get_index(at) {
            at += 1;
            for name in names(all[k].text) {
                match numbers.get(name) {
                    Some(&other) if own.contains(&other) => {}
                    Some(&other) if is_copied(&all[other]) => {
                        own.insert(other);
                    }
                    Some(&other) => {
                        declared.insert(other);
                    }
                    None => {}
                }
            }
        }
        for &k in &declared {
            if !own.contains(&k) {
                let _ = writeln!(part, "declare {}", seen_by_all(all[k].head));
            }
        }
        for &k in &own {
            let Definition { head, text, .. } = &all[k];
            if is_copied(&all[k]) {
                part.push_str(text);
            } else {
                let _ = write!(part, "define {}{}", seen_by_all(head), &text[head.len()..]);
            }
        }
        parts.push(part);
    }
    parts
}

/// Returns true if each part that calls the function has its own copy.
fn is_copied(definition: &Definition<'_>) -> bool {
    definition.name.starts_with("m_")
}

fn definition(text: &str) -> Option<Definition<'_>> {
    let head = &text[..text.find(" {\n")?];
    let name = &head[head.find('@')? + 1..];
    Some(Definition { name: &name[..name.find('(')?], head, text })
}

/// The text after `define` or `declare`, with a linkage that makes the function visible to other parts.
fn seen_by_all(head: &str) -> String {
    let rest = head.strip_prefix("define ").unwrap_or(head);
    match rest.strip_prefix("internal ") {
        Some(rest) => format!("hidden {rest}"),
        None => rest.to_string(),
    }
}

/// The symbols that a text names.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('@').map(|(at, _)| {
        let rest = &text[at + 1..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_.$".contains(c)));
        &rest[..end.unwrap_or(rest.len())]
    })
}

#[cfg(test)]
mod tests {
    use super::{apart, parts_of};

    const TEXT: &str = "\
@rt_zero = external global i8
declare void @rt_fail(ptr)

define internal fastcc i32 @f0(i32 %r0) nounwind {
  %r1 = call fastcc i32 @m_half(i32 %r0)
  ret i32 %r1
}

define internal fastcc i32 @f1(i32 %r0) nounwind {
  %r1 = call fastcc i32 @f0(i32 %r0)
  ret i32 %r1
}

define void @entry0(ptr %ctx) {
  call fastcc i32 @f1(i32 1)
  ret void
}

define internal fastcc i32 @m_half(i32 %r0) {
  ret i32 %r0
}
";

    #[test]
    fn parts_declare_what_they_call() {
        let parts = parts_of(TEXT, 1);
        assert_eq!(parts.len(), 3);
        for part in &parts {
            assert!(part.starts_with("@rt_zero = external global i8\ndeclare void @rt_fail(ptr)\n"));
        }
        assert!(parts[0].contains("define hidden fastcc i32 @f0(i32 %r0) nounwind {"));
        assert!(parts[0].contains("define internal fastcc i32 @m_half"));
        assert!(parts[1].contains("declare hidden fastcc i32 @f0(i32 %r0) nounwind\n"));
        assert!(!parts[1].contains("m_half"));
        assert!(parts[2].contains("declare hidden fastcc i32 @f1(i32 %r0) nounwind\n"));
        assert!(parts[2].contains("define void @entry0(ptr %ctx) {"));
    }

    #[test]
    fn what_does_not_hang_together_goes_apart() {
        let more = TEXT.to_string()
            + "\ndefine void @entry1(ptr %ctx) {\n  call fastcc i32 @f2(i32 1)\n  ret void\n}\n\n\
               define internal fastcc i32 @f2(i32 %r0) {\n  %r1 = call fastcc i32 @m_half(i32 %r0)\n  ret i32 %r1\n}\n";
        let parts = apart(&more, 4);
        assert_eq!(parts.len(), 2);
        assert!(
            parts[0].contains("define void @entry0") && parts[0].contains("define internal fastcc i32 @f0")
        );
        assert!(
            parts[1].contains("define void @entry1") && parts[1].contains("define internal fastcc i32 @f2")
        );
        for part in &parts {
            assert!(part.starts_with("@rt_zero") && part.contains("define internal fastcc i32 @m_half"));
        }
        assert!(!parts[0].contains("f2(") && !parts[1].contains("f0("));
        assert_eq!(apart(TEXT, 4).len(), 1);
        assert_eq!(apart(&more, 1).len(), 1);
    }

    #[test]
    fn a_part_has_what_fits() {
        assert_eq!(parts_of(TEXT, 1 << 20).len(), 1);
        assert!(!parts_of(TEXT, 1 << 20)[0].contains("declare hidden"));
    }
}
