//! `verify`: checks the derivatives of a whole file, by every method and on every available backend.

use std::fmt::Write as _;

use driver::Error;
use driver::call::parse_arguments;
use driver::gradcheck::{self, Entry, Verdict};
use driver::launch::{Backend, CodeOptions};
use driver::verify::{self, Checked, Found, Numbers, Options, Row};
use serde_json::{Value as Json, json};
use syntax::Sources;

use crate::args::VerifyArgs;
use crate::derive::{aligned, cuts, names_of_ranges, ranges};
use crate::report;

/// The maximum number of differences shown per function.
const MAX_SHOWN: usize = 10;
/// The maximum number of these per backend and level.
const MAX_SHOWN_OF_ROW: usize = 2;

pub(crate) fn verify(args: &VerifyArgs) -> u8 {
    report::finish(&args.source, args.json, |session| {
        let mut backends: Vec<Backend> = args.backend.clone();
        if backends.is_empty() {
            backends = Backend::found().collect();
        }
        let mut levels = args.level.clone();
        levels.sort_unstable();
        levels.dedup();
        let options = Options {
            functions: args.function.clone(),
            at: parse_arguments("--at", &args.points.draw.at).map_err(report::usage)?,
            points: args.points.points,
            ranges: ranges(&args.points.draw, &args.source.file)?,
            ranged: names_of_ranges(&args.points.draw),
            seed: args.points.draw.seed,
            tolerance: args.points.tolerance,
            memory: report::binds(session, &args.memory)?,
            backends,
            levels,
            code: CodeOptions { lanes: args.lanes.lanes, ..args.limits.limits_of_calls() },
        };
        let verified = verify::verify(session, &args.source.file, &options)?;
        report::warn(session, &verified.warnings);
        let functions = &verified.functions;
        let Some(_) = functions.first() else {
            return Err(
                Error::input("the file has no differentiable function: mark one [Differentiable]").into()
            );
        };
        let found =
            || functions.iter().flat_map(|f| f.rows.iter().flatten()).filter_map(|r| r.found.as_ref().ok());
        let differ: usize = found().map(Found::differ).sum();
        let checked: usize = found().map(|f| f.entries.len()).sum();
        let is_fine = differ == 0 && checked > 0;
        if args.json {
            let list: Vec<Json> = functions.iter().map(|f| function_json(&session.sources, f)).collect();
            report::out(&format!("{}\n", json!({ "agrees": is_fine, "functions": list })));
        } else {
            report::out(&text(&session.sources, functions));
        }
        Ok(u8::from(!is_fine))
    })
}

fn numbers(numbers: Numbers) -> &'static str {
    match numbers {
        Numbers::Double => "double",
        Numbers::Declared => "declared",
    }
}

/// The verdicts in the order of their columns.
const VERDICTS: [Verdict; 4] = [Verdict::Agrees, Verdict::Cut, Verdict::Unclear, Verdict::Differs];

/// The totals of one backend, over all levels.
#[derive(Default)]
struct Total {
    levels: Vec<u8>,
    verdicts: [usize; 4],
    others: usize,
    worst: f64,
}

impl Total {
    fn add(&mut self, level: u8, found: &Found) {
        if !self.levels.contains(&level) {
            self.levels.push(level);
        }
        for (k, v) in VERDICTS.into_iter().enumerate() {
            self.verdicts[k] += found.count(v);
        }
        self.others += found.others.len();
        let errors = found.entries.iter().filter(|e| e.1.verdict != Verdict::Unclear).map(|e| e.1.error);
        self.worst = errors.fold(self.worst, gradcheck::worse);
    }
}

fn text(sources: &Sources, functions: &[Checked]) -> String {
    let heading = ["function", "backend", "-O", "derivatives", "agree", "cut", "unclear", "differ", "error"];
    let mut cells = vec![heading.map(String::from)];
    let mut notes = String::new();
    for function in functions {
        match &function.rows {
            Ok(rows) => {
                lines(function, rows, &mut cells);
                notes += &differences(function, rows);
                let found = rows.iter().filter_map(|row| row.found.as_ref().ok());
                let entries = found.flat_map(|found| found.entries.iter().map(|e| &e.1));
                notes += &cuts(sources, &function.name, entries);
            }
            Err(why) => {
                let _ = writeln!(notes, "{} is not checked: {why}", function.name);
            }
        }
    }
    let mut text = if cells.len() > 1 { aligned(&cells, 3..9) } else { String::new() };
    if !notes.is_empty() {
        text += if text.is_empty() { "" } else { "\n" };
        text += &notes;
    }
    text
}

/// Adds a line for each backend.
fn lines(function: &Checked, rows: &[Row], cells: &mut Vec<[String; 9]>) {
    let mut backends: Vec<Backend> = rows.iter().map(|r| r.backend).collect();
    backends.dedup();
    let mut seen: Vec<Backend> = Vec::new();
    for backend in backends {
        if seen.contains(&backend) {
            continue;
        }
        seen.push(backend);
        let mut total = Total::default();
        for row in rows.iter().filter(|r| r.backend == backend) {
            if let Ok(found) = &row.found {
                total.add(row.level, found);
            }
        }
        let levels: Vec<String> = total.levels.iter().map(u8::to_string).collect();
        let all: usize = total.verdicts.iter().sum();
        let row = if levels.is_empty() {
            ["refused", "", "", "", "", "", ""].map(String::from)
        } else {
            [
                levels.join(","),
                all.to_string(),
                total.verdicts[0].to_string(),
                total.verdicts[1].to_string(),
                total.verdicts[2].to_string(),
                (total.verdicts[3] + total.others).to_string(),
                format!("{:.1e}", total.worst),
            ]
        };
        let [a, b, c, d, e, f, g] = row;
        cells.push([function.name.clone(), backend.name().to_string(), a, b, c, d, e, f, g]);
    }
}

/// The differences and the refusals, each listed once.
fn differences(function: &Checked, rows: &[Row]) -> String {
    let mut text = String::new();
    let (mut shown, mut hidden) = (0, 0);
    let mut refusals: Vec<(Backend, &str)> = Vec::new();
    for row in rows {
        let found = match &row.found {
            Ok(found) => found,
            Err(why) => {
                if !refusals.contains(&(row.backend, why)) {
                    refusals.push((row.backend, why));
                }
                continue;
            }
        };
        let place = |point: &usize| {
            let (on, at) = (row.backend.name(), &function.points[*point]);
            format!("{} on {on} -O{} ({} numbers) at {at}", function.name, row.level, numbers(row.numbers))
        };
        let wrong = found.entries.iter().filter(|e| e.1.verdict == Verdict::Differs);
        let entries = wrong.map(|(point, e)| format!("{}: {}\n", place(point), entry(row.numbers, e)));
        let others = found.others.iter().map(|(point, what)| format!("{}: {what}\n", place(point)));
        for (k, line) in others.chain(entries).enumerate() {
            if shown < MAX_SHOWN && k < MAX_SHOWN_OF_ROW {
                text += &line;
                shown += 1;
            } else {
                hidden += 1;
            }
        }
    }
    if hidden > 0 {
        let _ = writeln!(text, "… and {hidden} more of {}", function.name);
    }
    for (backend, why) in refusals {
        let _ = writeln!(text, "{} is not checked on {}: {why}", function.name, backend.name());
    }
    text
}

fn entry(numbers: Numbers, e: &Entry) -> String {
    let dual = e.dual.map_or(String::new(), |d| match numbers {
        Numbers::Double => format!(", dual numbers {d}"),
        Numbers::Declared => format!(", in doubles {d}"),
    });
    format!(
        "DIFFERS in d {}/d {}: forward {}, reverse {}{dual}, differences {}",
        e.output, e.input, e.forward, e.reverse, e.differences
    )
}

fn function_json(sources: &Sources, function: &Checked) -> Json {
    match &function.rows {
        Err(why) => json!({ "function": function.name, "not_checked": why }),
        Ok(rows) => json!({
            "function": function.name,
            "points": function.points,
            "rows": rows.iter().map(|row| row_json(sources, row)).collect::<Vec<Json>>(),
        }),
    }
}

fn row_json(sources: &Sources, row: &Row) -> Json {
    let mut json = json!({
        "backend": row.backend.name(),
        "level": row.level,
        "numbers": numbers(row.numbers),
    });
    match &row.found {
        Err(why) => json["refused"] = json!(why),
        Ok(found) => {
            json["agree"] = json!(found.count(Verdict::Agrees));
            json["cut"] = json!(found.count(Verdict::Cut));
            json["unclear"] = json!(found.count(Verdict::Unclear));
            json["differ"] = json!(found.differ());
            let wrong = found.entries.iter().filter(|e| e.1.verdict != Verdict::Agrees);
            json["entries"] = wrong.map(|(point, e)| e.to_json(sources, *point as u32)).collect();
            let others = found.others.iter().map(|(point, what)| json!({ "point": point, "what": what }));
            json["others"] = others.collect();
        }
    }
    json
}
