//! `bench --profile` as text and as JSON.

use std::fmt::Write as _;

use driver::bench::Subject;
use driver::profile::advice::{bytes, number, percent};
use driver::profile::{Counts, KernelProfile, Line, Place, Profile};
use syntax::{FileId, Sources};

/// Lines without figures between two with figures, up to which they are shown.
const GAP: u32 = 3;

/// The text of a line of the source.
pub(crate) fn source(sources: &Sources, place: Place) -> &str {
    let file = sources.files.get(place.file as usize);
    file.and_then(|file| file.text.lines().nth(place.line as usize - 1)).unwrap_or("")
}

/// The path of a file.
pub(crate) fn path(sources: &Sources, file: u32) -> &str {
    let FileId(k) = FileId(file);
    sources.files.get(k as usize).map_or("", |file| file.path.as_str())
}

/// The counts of a line in the gradient; in the function, if that has no gradient.
pub(crate) fn counts(profile: &Profile, line: &Line) -> Counts {
    line.counts[profile.reverse()]
}

/// Returns true if times of derivatives are known apart from those of the program.
pub(crate) fn has_derivatives(profile: &Profile) -> bool {
    profile.kernels.len() > 1 || profile.lines.iter().any(|line| line.gradient.derivative > 0.0)
}

/// The counts of a line in lanes: those in the gradient if that runs in lanes, or else in the function.
fn in_lanes(profile: &Profile, line: &Line) -> Counts {
    let k = profile.kernels.iter().rposition(|kernel| kernel.lanes > 1).unwrap_or(0);
    line.counts[k.min(1)]
}

/// The lines to show, in order: those with figures, and the few between them. `None` stands for others left out.
pub(crate) fn shown(profile: &Profile) -> Vec<Option<(Place, Option<&Line>)>> {
    let mut all = Vec::new();
    let mut before: Option<Place> = None;
    for line in profile.lines.iter().filter(|line| is_shown(line)) {
        let place = line.place;
        match before.filter(|before| before.file == place.file) {
            Some(before) if place.line - before.line - 1 <= GAP => {
                let between = before.line + 1..place.line;
                all.extend(between.map(|line| Some((Place { line, ..place }, None))));
            }
            Some(_) => all.push(None),
            None => {}
        }
        all.push(Some((place, Some(line))));
        before = Some(place);
    }
    all
}

/// Returns true if a line has figures.
fn is_shown(line: &Line) -> bool {
    line.primal + line.gradient.total() > 0.0 || line.counts.iter().any(|counts| counts.instructions > 0.0)
}

/// The sentence about the sum of a kernel's times.
pub(crate) fn sum(kernel: &KernelProfile) -> String {
    let of = |time: f64| percent(time / kernel.total().max(1e-9));
    format!(
        "{} ns measured, {} ns in {} samples ({}): {} in lines, {} in the loop over threads with its arguments and \
         results, {} in dispatch and runtime; {}",
        number(kernel.measured),
        number(kernel.total()),
        kernel.samples,
        percent(kernel.total() / kernel.measured.max(1e-9)),
        of(kernel.lines),
        of(kernel.threads),
        of(kernel.elsewhere),
        if kernel.lanes > 1 { format!("{} lanes", kernel.lanes) } else { "no lanes".to_string() }
    )
}

/// The head of a column, and the text of a line's figure.
pub(crate) type Column<'p> = (&'static str, Box<dyn Fn(&Line) -> String + 'p>);

/// The heads of the columns, each with the text of a line's figure; an empty text stands for nothing.
pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    fn shows(x: f64) -> String {
        if x > 0.0 { number(x) } else { String::new() }
    }
    fn share(x: f64, of: Option<&KernelProfile>) -> String {
        let share = of.map_or(0.0, |kernel| x / kernel.total().max(1e-9));
        if share >= 0.005 { percent(share) } else { String::new() }
    }
    let is_lanes = profile.kernels.iter().any(|kernel| kernel.lanes > 1);
    let mut all: Vec<Column<'_>> = vec![
        (profile.names()[0], Box::new(|line| shows(line.primal))),
        ("%", Box::new(|line| share(line.primal, profile.kernels.first()))),
    ];
    if has_derivatives(profile) {
        all.push(("values", Box::new(|line| shows(line.gradient.primal))));
        all.push(("derivs", Box::new(|line| shows(line.gradient.derivative))));
        if profile.kernels.len() > 1 {
            all.push(("%", Box::new(|line| share(line.gradient.total(), profile.kernels.get(1)))));
        }
        all.push((
            "kept",
            Box::new(|line| {
                let kept = counts(profile, line).kept;
                if kept > 0.0 { bytes(kept) } else { String::new() }
            }),
        ));
    }
    if is_lanes {
        all.push((
            "idle",
            Box::new(|line| {
                let lost = in_lanes(profile, line).lost();
                if lost >= 0.005 { percent(lost) } else { String::new() }
            }),
        ));
        all.push(("gathers", Box::new(|line| shows(in_lanes(profile, line).gathers))));
        all.push(("apart", Box::new(|line| shows(in_lanes(profile, line).strided))));
    }
    all.push(("maths", Box::new(|line| shows(counts(profile, line).mathematics))));
    all.push(match profile.has_spills {
        true => ("spills", Box::new(|line| shows(counts(profile, line).spills))),
        false => ("spills", Box::new(|_| "?".to_string())),
    });
    if let Some(rounding) = &profile.rounding {
        all.push((
            "rounding",
            Box::new(|line| match rounding.get(&line.place) {
                Some(&error) if error > 0.0 => format!("{error:.1e}"),
                _ => String::new(),
            }),
        ));
    }
    all
}

/// The share of a kernel's time from which a line is named as one that takes most of it, and how many are.
const NAMED: f64 = 0.05;
/// See `NAMED`.
const MOST_NAMED: usize = 4;

/// The lines that take most of a kernel's time.
pub(crate) fn most(sources: &Sources, profile: &Profile, kernel: usize) -> String {
    let all = profile.hottest(kernel, NAMED);
    let name = |&(place, share): &(Place, f64)| {
        format!("{}:{} {}", path(sources, place.file), place.line, percent(share))
    };
    all.iter().take(MOST_NAMED).map(name).collect::<Vec<_>>().join(", ")
}

/// The legend of the columns.
pub(crate) const LEGEND: &[&str] = &[
    "Times (ns) and counts are for each thread.",
    "primal: time of the function; values, derivs: time of the gradient, for values of the program and for derivatives",
    "(of a kernel, both are parts of its time);",
    "kept: bytes pushed for the reverse pass; idle: lanes that wait for others; gathers, apart: numbers read or written",
    "one by one, at any place or at a constant stride with gaps; maths: calls of mathematical functions;",
    "spills: values moved to the frame and back, for all lanes at a time.",
    "Counts are those of the gradient if there is one; idle, gathers and apart those of the function if only it has lanes.",
];

/// The note on spills, if the backend does not tell.
pub(crate) const NO_SPILLS: &str = "spills are unknown (?): this backend does not tell them.";

/// The note on rounding errors, if they are shown.
pub(crate) const ROUNDING: &str =
    "rounding: what the line contributes to the rounding error of the result, at most, relative to its size.";

/// The profiles beside the source.
pub(crate) fn text(sources: &Sources, all: &[Profile]) -> String {
    let mut out = String::new();
    for profile in all {
        let _ = writeln!(out, "\nprofile of {}", profile.subject.name());
        for (name, kernel) in profile.names().iter().zip(&profile.kernels) {
            let _ = writeln!(out, "{name}: {}", sum(kernel));
        }
        for (k, name) in profile.names().iter().enumerate().take(profile.kernels.len()) {
            let _ = writeln!(out, "most of the {name}: {}", most(sources, profile, k));
        }
        out.push('\n');
        table(&mut out, sources, profile);
        let _ = writeln!(out, "\n{}", LEGEND.join("\n"));
        if !profile.has_spills {
            let _ = writeln!(out, "{NO_SPILLS}");
        }
        if profile.rounding.is_some() {
            let _ = writeln!(out, "{ROUNDING}");
        }
        for (name, kernel) in profile.names().iter().zip(&profile.kernels) {
            if let Some(doubt) = &kernel.doubt {
                let _ = writeln!(out, "warning: {name}: {doubt}");
            }
        }
        for advice in &profile.advice {
            let at = advice
                .place
                .map_or(String::new(), |place| format!("{}:{}: ", path(sources, place.file), place.line));
            let _ = writeln!(out, "advice: {at}{}", advice.text);
        }
    }
    out
}

fn table(out: &mut String, sources: &Sources, profile: &Profile) {
    let columns = columns(profile);
    let shown = shown(profile);
    let cells = |line: Option<&Line>| -> Vec<String> {
        columns.iter().map(|(_, cell)| line.map_or(String::new(), cell)).collect()
    };
    let rows: Vec<Option<(Place, Vec<String>)>> =
        shown.iter().map(|row| row.map(|(place, line)| (place, cells(line)))).collect();
    let width = |k: usize| {
        let cells = rows.iter().flatten().map(|(_, cells)| cells[k].chars().count());
        cells.chain([columns[k].0.len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let digits = rows.iter().flatten().map(|(place, _)| place.line.to_string().len()).max().unwrap_or(1);
    let write = |out: &mut String, cells: &mut dyn Iterator<Item = &str>, rest: &str| {
        let cells: Vec<String> = cells.zip(&widths).map(|(cell, &width)| format!("{cell:>width$}")).collect();
        let _ = writeln!(out, "{}", format!("{}  {rest}", cells.join("  ")).trim_end());
    };
    let mut file = None;
    for row in &rows {
        let Some((place, cells)) = row else {
            write(out, &mut std::iter::empty(), "");
            continue;
        };
        if file.replace(place.file) != Some(place.file) {
            write(out, &mut columns.iter().map(|column| column.0), path(sources, place.file));
        }
        let text = source(sources, *place);
        write(out, &mut cells.iter().map(String::as_str), &format!("{:>digits$} | {text}", place.line));
    }
}

/// A profile as an object.
pub(crate) fn json(sources: &Sources, profile: &Profile) -> serde_json::Value {
    let kernels = profile.names().iter().zip(&profile.kernels).map(|(name, kernel)| {
        serde_json::json!({
            "kernel": name,
            "measured_ns": kernel.measured,
            "lines_ns": kernel.lines,
            "threads_ns": kernel.threads,
            "elsewhere_ns": kernel.elsewhere,
            "samples": kernel.samples,
            "lanes": kernel.lanes,
            "doubt": kernel.doubt,
        })
    });
    let counted = |counts: &Counts| {
        serde_json::json!({
            "instructions": counts.instructions,
            "idle_lanes": counts.lost(),
            "gathers": counts.gathers,
            "apart": counts.strided,
            "mathematics": counts.mathematics,
            "kept_bytes": counts.kept,
            "spills": profile.has_spills.then_some(counts.spills),
        })
    };
    let lines = profile.lines.iter().map(|line| {
        let mut one = serde_json::json!({
            "file": path(sources, line.place.file),
            "line": line.place.line,
        });
        if let Some(error) = profile.rounding.as_ref().and_then(|rounding| rounding.get(&line.place)) {
            one["rounding"] = (*error).into();
        }
        let parts = line.gradient;
        match profile.subject {
            Subject::Function(_) => {
                one["primal_ns"] = line.primal.into();
                one["gradient_values_ns"] = parts.primal.into();
                one["gradient_derivatives_ns"] = parts.derivative.into();
                one["primal"] = counted(&line.counts[0]);
                one["gradient"] = (profile.kernels.len() > 1).then(|| counted(&line.counts[1])).into();
            }
            Subject::Kernel(_) => {
                one["kernel_ns"] = line.primal.into();
                one["values_ns"] = parts.primal.into();
                one["derivatives_ns"] = parts.derivative.into();
                one["kernel"] = counted(&line.counts[0]);
            }
        }
        one
    });
    let advice = profile.advice.iter().map(|advice| {
        serde_json::json!({
            "file": advice.place.map(|place| path(sources, place.file)),
            "line": advice.place.map(|place| place.line),
            "remedy": advice.remedy,
            "text": advice.text,
        })
    });
    serde_json::json!({
        "kernels": kernels.collect::<Vec<_>>(),
        "lines": lines.collect::<Vec<_>>(),
        "advice": advice.collect::<Vec<_>>(),
    })
}
