//! A large text as several, so that LLVM works on them side by side.
//!
//! The functions are dealt out in their order, until a part has so much text. A function that only its own module saw is
//! seen by all parts then, and each part declares what it calls of the others; but functions of numbers, which are to be
//! inlined, are in each part that calls them. The parts mean together what the text means.

use std::fmt::Write as _;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

/// Bytes of a part, and of a text that is left in one.
const PART: usize = 256 << 10;
const WHOLE: usize = 384 << 10;

/// A function of the text.
struct Definition<'t> {
    name: &'t str,
    /// From `define` to before the brace.
    head: &'t str,
    /// All of it.
    text: &'t str,
}

/// The parts of a text; itself, if it is not large.
pub(crate) fn parts(text: &str) -> Vec<String> {
    if text.len() <= WHOLE {
        return vec![text.to_string()];
    }
    parts_of(text, PART)
}

fn parts_of(text: &str, size: usize) -> Vec<String> {
    let mut starts: Vec<usize> = text.match_indices("\ndefine ").map(|(at, _)| at + 1).collect();
    let head = &text[..starts.first().copied().unwrap_or(text.len())];
    starts.push(text.len());
    let all: Vec<Definition<'_>> = starts.windows(2).filter_map(|w| definition(&text[w[0]..w[1]])).collect();
    let numbers: FxHashMap<&str, usize> = all.iter().enumerate().map(|(k, d)| (d.name, k)).collect();
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

/// Whether a function is in each part that calls it.
fn is_copied(definition: &Definition<'_>) -> bool {
    definition.name.starts_with("m_")
}

fn definition(text: &str) -> Option<Definition<'_>> {
    let head = &text[..text.find(" {\n")?];
    let name = &head[head.find('@')? + 1..];
    Some(Definition { name: &name[..name.find('(')?], head, text })
}

/// What stands after `define` or `declare`, with a linkage that other parts see.
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
    use super::parts_of;

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
    fn a_part_has_what_fits() {
        assert_eq!(parts_of(TEXT, 1 << 20).len(), 1);
        assert!(!parts_of(TEXT, 1 << 20)[0].contains("declare hidden"));
    }
}
