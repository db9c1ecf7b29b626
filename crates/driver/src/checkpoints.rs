//! Prints the values that reverse mode keeps: a paragraph for each of the user's functions, a line for each
//! value and for each loop that is reversed in segments.

use std::fmt::Write;

pub use autodiff::Checkpoints;
use autodiff::{KeptValue, SegmentedLoop, repetitions, runs};
use ir::Checkpoint;
use syntax::Sources;

use crate::error::source_span;

/// The report of `--report-checkpoints`.
pub fn text(sources: &Sources, kept: &Checkpoints) -> String {
    let mut functions: Vec<&str> = Vec::new();
    let is_library = |span: ir::Span| {
        let file = sources.files.get(source_span(span).file.0 as usize);
        file.is_some_and(|f| f.path.starts_with("core/"))
    };
    let values = kept.values.iter().filter(|v| !is_library(v.span)).map(|v| v.function.as_str());
    let loops = kept.loops.iter().filter(|l| !is_library(l.span)).map(|l| l.function.as_str());
    for function in values.chain(loops) {
        if !functions.contains(&function) {
            functions.push(function);
        }
    }
    let mut out = String::new();
    for function in functions {
        // A function that is differentiated for several sets of parameters keeps the same values for each of them.
        let values = distinct(kept.values.iter().filter(|k| k.function == function));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "checkpoints of `{function}`");
        let mut per_trip = 0;
        let mut once = 0;
        for value in values {
            let _ = writeln!(out, "  {}", line(sources, value));
            if value.loops.is_empty() { once += value.bytes } else { per_trip += value.bytes }
        }
        let _ = writeln!(out, "  in all: {} once, {} for each trip", bytes(once), bytes(per_trip));
        for of in distinct(kept.loops.iter().filter(|l| l.function == function)) {
            let _ = writeln!(out, "  {}", segments(sources, of));
        }
    }
    if out.is_empty() {
        out.push_str(
            "no checkpoints: nothing is differentiated in reverse mode, or nothing is kept for it\n",
        );
    }
    out
}

fn distinct<'a, T: PartialEq>(all: impl Iterator<Item = &'a T>) -> Vec<&'a T> {
    let mut list: Vec<&T> = Vec::new();
    for item in all {
        if !list.contains(&item) {
            list.push(item);
        }
    }
    list
}

/// Describes how a loop is reversed in segments.
fn segments(sources: &Sources, of: &SegmentedLoop) -> String {
    let span = source_span(of.span);
    let line = sources.line_column(span.file, span.start).0;
    let how = match of.checkpoint {
        Checkpoint::Every(n) => format!("a state every {n} trips: each trip runs at most twice"),
        Checkpoint::Root => {
            "as many states as the root of twice the number of trips: each trip runs at most twice".into()
        }
        Checkpoint::States(states) => {
            let more = u64::from(of.again);
            let most = |trips: u64| repetitions(states, trips).saturating_add(more);
            let times = match of.trips {
                Some(trips) => format!(
                    "each of {trips} trips runs at most {} times, {:.2} times on average",
                    most(trips),
                    runs(states, trips) as f64 / trips.max(1) as f64 + more as f64
                ),
                None => {
                    let upto: Vec<String> = [1_000, 1_000_000, 1_000_000_000]
                        .map(|trips| format!("{} times of {trips}", most(trips)))
                        .into();
                    format!("a trip runs at most {}", upto.join(", "))
                }
            };
            format!("at most {states} states at a time: {times}")
        }
    };
    format!("the loop at line {line} is reversed in segments, with {how}")
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
