//! The names of a library's functions, parameters and results in C.

use std::fmt::Write as _;
use std::path::Path;

use syntax::{Diagnostic, Span};

use super::c_names;
use crate::error::{Error, Failure};

/// The prefix of a library's generated names, derived from the name of its file.
pub fn prefix(path: &Path) -> Result<String, Error> {
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("pullback");
    let stem = stem.strip_prefix("lib").filter(|s| !s.is_empty()).unwrap_or(stem);
    let prefix: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if !is_beginning(&prefix) {
        return Err(Error::input(format!("the name of `{}` begins no name in C", path.display())));
    }
    Ok(prefix)
}

/// Returns true if names of C may begin with a text, and none that is reserved does.
pub fn is_beginning(prefix: &str) -> bool {
    let is_name = prefix.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name && prefix.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// The functions of a library that have its prefix: all, or only those whose own name C cannot have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefixed {
    /// Where it is needed.
    #[default]
    WhereNeeded,
    /// All.
    Always,
}

/// The C names of the functions and kernels in a library.
pub(super) struct Names {
    prefix: String,
    prefixed: Prefixed,
    /// Each name with a description of its owner.
    taken: Vec<(String, String)>,
    /// The functions and kernels, each with the name that it would have in C by itself.
    own: Vec<(String, String)>,
    /// The names that functions and kernels begin with.
    bases: Vec<String>,
    /// Warnings about names that had to change.
    pub(super) notes: Vec<Diagnostic>,
}

impl Names {
    /// No name is taken but those of the library itself; `all` are the functions and kernels to come.
    pub(super) fn new<'n>(prefix: &str, prefixed: Prefixed, all: impl Iterator<Item = &'n str>) -> Names {
        let message = format!("{prefix}_message");
        let taken = vec![
            (message.clone(), format!("the library's own `{message}`")),
            ("pullback_buffer".to_string(), "the type `pullback_buffer`".to_string()),
        ];
        let (own, bases, notes) = (Vec::new(), Vec::new(), Vec::new());
        let mut names = Names { prefix: prefix.to_string(), prefixed, taken, own, bases, notes };
        names.own = all.map(|name| (name.to_string(), names.base(name))).collect();
        names
    }

    /// The C name for `name`, with the library's prefix if C gives that name another meaning.
    fn base(&self, name: &str) -> String {
        let plain = c_name(name);
        let is_odd = self.prefixed == Prefixed::Always || c_names::is_taken(&plain);
        if is_odd { format!("{}_{plain}", self.prefix) } else { plain }
    }

    /// The C name for `name`: its own, or one with a number if another function has that: an overload before it, or one whose
    /// letters C lacks.
    pub(super) fn free(&mut self, name: &str, span: Span) -> String {
        let base = self.base(name);
        let mut found = base.clone();
        let mut n = 1;
        // What another function is called in the program is that function's, and numbered names are nobody else's.
        let is_of_another = |found: &str, n: u32| {
            self.own.iter().any(|(other, base)| base == found && other != name && (n > 1 || other == found))
        };
        while self.bases.contains(&found) || is_of_another(&found, n) {
            n += 1;
            found = format!("{base}_{n}");
        }
        if n > 1 {
            let message = format!("`{name}` is `{found}` in the library: another function is `{base}` there");
            self.notes.push(Diagnostic::warning("E0904", span, message));
        }
        self.bases.push(found.clone());
        found
    }

    /// Reserves a name; `what` describes its owner. A second use of a name is an error at the line of the
    /// second owner.
    pub(super) fn take(&mut self, name: String, what: String, span: Span) -> Result<String, Failure> {
        if let Some((_, other)) = self.taken.iter().find(|t| t.0 == name) {
            let message = format!("{what} and {other} have one name in C: `{name}`");
            let error = Diagnostic::error("E0902", span, message);
            return Err(Failure::Program(vec![
                error.help("rename one of them, or name what is to be built"),
            ]));
        }
        self.taken.push((name.clone(), what));
        Ok(name)
    }
}

/// Converts a name to one of letters, digits and `_` that C accepts.
pub(super) fn c_name(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => out.push(c),
            c if c.is_ascii() => out.push('_'),
            c => {
                let _ = write!(out, "u{:04x}", c as u32);
            }
        }
    }
    out
}

/// Finds a name for each parameter and result of a function, each once.
#[derive(Default)]
pub(super) struct Parts {
    used: Vec<String>,
}

impl Parts {
    /// The name of a parameter or result that the program calls `name`, or `other` if it has no name.
    pub(super) fn name(&mut self, name: Option<&str>, other: &str, start: &str) -> String {
        let base = name.map_or_else(|| other.to_string(), |name| c_name(name).trim_matches('_').to_string());
        let is_bare = base.is_empty() || base.starts_with(|c: char| c.is_ascii_digit());
        let base = format!("{start}{}{base}", if is_bare { "x" } else { "" });
        let base = if c_names::is_odd(&base) { format!("{base}_") } else { base };
        let mut unique = base.clone();
        let mut n = 1;
        while self.used.contains(&unique) {
            n += 1;
            unique = format!("{base}{n}");
        }
        self.used.push(unique.clone());
        unique
    }
}
