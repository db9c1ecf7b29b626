//! Prints the values that reverse mode keeps: a paragraph for each of the user's functions, a line for each
//! value.

use std::fmt::Write;

use autodiff::KeptValue;
use syntax::Sources;

use crate::error::source_span;

/// The report of `--report-checkpoints`.
pub fn text(sources: &Sources, kept: &[KeptValue]) -> String {
    let mut functions: Vec<&str> = Vec::new();
    let is_library = |value: &KeptValue| {
        let file = sources.files.get(source_span(value.span).file.0 as usize);
        file.is_some_and(|f| f.path.starts_with("core/"))
    };
    for value in kept.iter().filter(|v| !is_library(v)) {
        if !functions.contains(&value.function.as_str()) {
            functions.push(&value.function);
        }
    }
    let mut out = String::new();
    for function in functions {
        let mut values: Vec<&KeptValue> = Vec::new();
        for value in kept.iter().filter(|k| k.function == function) {
            // A function that is differentiated for several sets of parameters keeps the same values for each
            // of them.
            if !values.contains(&value) {
                values.push(value);
            }
        }
        // Writing to a string cannot fail.
        let _ = writeln!(out, "checkpoints of `{function}`");
        let mut per_trip = 0;
        let mut once = 0;
        for value in values {
            let _ = writeln!(out, "  {}", line(sources, value));
            if value.loops.is_empty() { once += value.bytes } else { per_trip += value.bytes }
        }
        let _ = writeln!(out, "  in all: {} once, {} for each trip", bytes(once), bytes(per_trip));
    }
    if out.is_empty() {
        out.push_str(
            "no checkpoints: nothing is differentiated in reverse mode, or nothing is kept for it\n",
        );
    }
    out
}

fn line(sources: &Sources, value: &KeptValue) -> String {
    let at = |span: ir::Span| {
        let span = source_span(span);
        sources.line_column(span.file, span.start).0
    };
    let place = source_span(value.span);
    let file = sources.files.get(place.file.0 as usize).map_or("", |f| f.path.as_str());
    let what = match &value.name {
        Some(name) => format!("`{name}`"),
        None => "a value".into(),
    };
    let mut text = format!("{file}:{}: {what}, {}", at(value.span), bytes(value.bytes));
    for (n, &span) in value.loops.iter().enumerate() {
        let word = if n == 0 { " for each trip of the loop" } else { " and of that" };
        text += &format!("{word} at line {}", at(span));
    }
    if let Some((op, span)) = &value.reader {
        text += &format!("; read by the derivative of `{op}` at line {}", at(*span));
    }
    text + &format!("; kept because {}", value.reason)
}

fn bytes(n: u64) -> String {
    if n == 1 { "1 byte".into() } else { format!("{n} bytes") }
}
