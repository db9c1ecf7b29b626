//! Parsers for the values of options: each returns the value, or a message about what is expected.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use driver::launch::Backend;

/// One of several values, each with its name and a line of help.
pub(crate) fn choice<T: Copy + Send + Sync + 'static>(
    all: &'static [(T, &'static str, &'static str)],
) -> impl TypedValueParser<Value = T> {
    let names = all.iter().map(|&(_, name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(names).try_map(|given| {
        let found = all.iter().find(|&&(_, name, _)| name == given);
        found.map(|&(value, ..)| value).ok_or("no such value")
    })
}

/// A backend of this build.
pub(crate) fn backend() -> impl TypedValueParser<Value = Backend> {
    let names = Backend::ALL.iter().map(|backend| PossibleValue::new(backend.name()).help(backend.about()));
    PossibleValuesParser::new(names).try_map(|name| Backend::named(&name).ok_or("no such backend"))
}

/// The code of a diagnostic, with or without its letter.
pub(crate) fn code(text: &str) -> Result<String, String> {
    match text.trim_start_matches(['E', 'W']).parse::<u32>() {
        Ok(_) => Ok(text.to_string()),
        Err(_) => Err("expected the number of a diagnostic, as 41010".to_string()),
    }
}

/// A whole number above 0.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("expected a whole number above 0".to_string()),
    }
}

/// A finite number that is not negative.
pub(crate) fn amount(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(x) if x >= 0.0 && f64::is_finite(x) => Ok(x),
        _ => Err("expected a finite number, 0 or more".to_string()),
    }
}

/// A power of two, from 1 to 2³⁰.
pub(crate) fn power_of_two(text: &str) -> Result<f64, String> {
    match text.parse::<u32>() {
        Ok(n) if n.is_power_of_two() && n <= 1 << 30 => Ok(f64::from(n)),
        _ => Err("expected a power of two, up to 1073741824".to_string()),
    }
}

/// A share: at least 0 and less than 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(x) if (0.0..1.0).contains(&x) => Ok(x),
        _ => Err("expected a number from 0 to less than 1".to_string()),
    }
}

/// The code of a diagnostic that can be turned into a warning, with or without its letter.
pub(crate) fn lint(text: &str) -> Result<u32, String> {
    match text.strip_prefix('E').unwrap_or(text).parse() {
        Ok(code @ (931 | 38033 | 41022 | 41031)) => Ok(code),
        _ => Err("expected 0931, 38033, 41022 or 41031".to_string()),
    }
}

/// A number of lanes.
pub(crate) fn lanes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n @ (1 | 4 | 8 | 16 | 32)) => Ok(n),
        _ => Err("1, 4, 8, 16 or 32".to_string()),
    }
}

/// A time in seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 => Ok(seconds),
        _ => Err("expected a number of seconds above 0".to_string()),
    }
}

/// A number of bytes, optionally with the unit K, M or G for 1024, 1024² or 1024³ bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.trim_end_matches(['B', 'i']) {
        t if t.ends_with(['K', 'k']) => (&t[..t.len() - 1], 10),
        t if t.ends_with(['M', 'm']) => (&t[..t.len() - 1], 20),
        t if t.ends_with(['G', 'g']) => (&t[..t.len() - 1], 30),
        t => (t, 0),
    };
    let n: u64 = digits.parse().map_err(|_| "expected a size such as 512M or 8G".to_string())?;
    match n.checked_mul(1 << shift) {
        Some(0) => Err("expected a size above 0".to_string()),
        size => size.ok_or_else(|| "the size is too large".to_string()),
    }
}
