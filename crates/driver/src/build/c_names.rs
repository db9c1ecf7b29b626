//! Names with a meaning in C or C++, which neither a function nor a parameter in a header may have.

/// Lists of names, each below a line with its heading.
const NAMES: &str = include_str!("c_names.txt");

/// Returns true if the list with that heading contains a name.
fn has(heading: &str, name: &str) -> bool {
    let list = NAMES.split("# ").find_map(|list| list.strip_prefix(heading)?.split_once('\n'));
    list.is_some_and(|(_, words)| words.split_whitespace().any(|word| word == name))
}

/// Returns true if a parameter of that name may not compile: keywords, macros, and the names of types and
/// constants.
pub(crate) fn is_odd(name: &str) -> bool {
    let is_constant = name == "I" || name.len() > 1 && !name.chars().any(|c| c.is_ascii_lowercase());
    has("Keywords", name) || has("Macros", name) || name.ends_with("_t") || is_constant
}

/// Returns true for names that C reserves for compilers and libraries: `__f`, `_F`.
fn is_reserved(name: &str) -> bool {
    let rest = name.strip_prefix('_').unwrap_or_default();
    rest == "exit" || rest.starts_with(|c: char| c == '_' || c.is_ascii_uppercase())
}

/// Returns true if a name has a meaning in C or its library, so that no function of a library can have it.
pub(crate) fn is_taken(name: &str) -> bool {
    let variants = ["_unlocked", "_r", "_l", "64"];
    let plain = variants.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    let types = ["f", "l", "f16", "f32", "f64", "f128", "f32x", "f64x"];
    let mut all = vec![name, plain];
    all.extend(types.iter().filter_map(|ending| name.strip_suffix(ending)));
    let is_known = |name: &&str| has("Functions", name) || has("Mathematics", name);
    is_odd(name)
        || all[..2].iter().any(is_known)
        || all[2..].iter().any(|n| has("Mathematics", n))
        || is_reserved(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_c() {
        for name in ["restrict", "template", "linux", "errno", "int32_t", "NAN", "I", "not"] {
            assert!(is_odd(name) && is_taken(name), "{name}");
        }
        for name in [
            "sinf", "malloc", "main", "expl", "memcpy", "y0", "__f", "free", "conj", "fadd", "rsqrtf",
            "qsort_r", "sync",
        ] {
            assert!(is_taken(name), "{name}");
        }
        for name in ["loss", "model", "x", "sine", "f", "mainly", "N", "Q_len", "info"] {
            assert!(!is_odd(name) && !is_taken(name), "{name}");
        }
    }
}
