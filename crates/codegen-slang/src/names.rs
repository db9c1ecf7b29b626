//! Makes names that are legal in the language and unique within their scope.

use rustc_hash::FxHashSet;

/// Words that cannot name a variable, and functions that the printed text calls.
const RESERVED: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bit_cast",
    "bool",
    "break",
    "case",
    "ceil",
    "const",
    "continue",
    "cos",
    "cosh",
    "countbits",
    "default",
    "detach",
    "discard",
    "do",
    "double",
    "each",
    "else",
    "enum",
    "exp",
    "exp2",
    "expand",
    "extension",
    "extern",
    "false",
    "firstbithigh",
    "firstbitlow",
    "float",
    "floor",
    "fma",
    "fmod",
    "for",
    "func",
    "fwd_diff",
    "bwd_diff",
    "half",
    "if",
    "import",
    "in",
    "inout",
    "int",
    "interface",
    "isinf",
    "isnan",
    "let",
    "log",
    "log10",
    "log2",
    "max",
    "min",
    "module",
    "namespace",
    "no_diff",
    "none",
    "nullptr",
    "out",
    "pow",
    "printf",
    "property",
    "public",
    "private",
    "return",
    "reversebits",
    "round",
    "select",
    "sin",
    "sinh",
    "sqrt",
    "static",
    "struct",
    "switch",
    "tan",
    "tanh",
    "this",
    "This",
    "true",
    "trunc",
    "typealias",
    "typedef",
    "uint",
    "uniform",
    "var",
    "vector",
    "matrix",
    "void",
    "where",
    "while",
    "interval",
    "sample",
    "line",
    "point",
    "triangle",
    "linear",
    "centroid",
    "precise",
    "shared",
    "volatile",
    "groupshared",
    "row_major",
    "column_major",
];

/// The names used in a scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    taken: FxHashSet<String>,
}

impl Names {
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
        let mut name = base.clone();
        let mut n = 2u32;
        let digit = base.ends_with(|c: char| c.is_ascii_digit());
        while RESERVED.contains(&name.as_str()) || !self.taken.insert(name.clone()) {
            name = if digit { format!("{base}_{n}") } else { format!("{base}{n}") };
            n += 1;
        }
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
