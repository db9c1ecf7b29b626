//! `grad` and `gradcheck`: derivatives of one function at points.

use std::fmt::Write as _;
use std::path::Path;

use driver::bind::Bind;
use driver::call::{Callee, Direction, Number, parse_arguments};
use driver::gradcheck::{self, Entry, Random, Verdict};
use driver::launch::CodeOptions;
use driver::output::{number_json, number_text};
use driver::pipeline::{self, Loaded, Options};
use driver::ranges::{Named, Ranges, covers};
use driver::session::Session;
use driver::{Error, Request, Step, render};
use opt::CheckFinite;
use syntax::Sources;

use crate::args::{CallArgs, DrawArgs, GradArgs, GradcheckArgs, Mode};
use crate::fit;
use crate::report::{self, Stop};

/// The maximum number of table rows that are printed.
const MAX_ROWS: usize = 40;

pub(crate) fn grad(args: &GradArgs) -> u8 {
    report::finish(&args.point.call.source, args.point.call.json, |session| {
        let named = parse_arguments("--at", &args.point.at).map_err(report::usage)?;
        let along = parse_arguments("--along", &args.along).map_err(report::usage)?;
        if !along.is_empty() && args.mode != Mode::Hvp {
            return Err(Stop::Usage("`--along` is the direction of `--mode hvp`".into()));
        }
        let derived = match args.mode {
            Mode::Forward | Mode::Reverse => Vec::new(),
            Mode::Hessian | Mode::Hvp => vec![vec![Step::SparseVjp, Step::SparseJvp]],
        };
        let request = Request { derived, ..Request::default() };
        let options = report::options(&args.point.compile);
        let direction = match args.mode {
            Mode::Forward => Direction::Forward,
            Mode::Reverse | Mode::Hessian | Mode::Hvp => Direction::Reverse,
        };
        let Called { mut callee, .. } =
            callee(&args.point.call, session, (request, &options), Some(direction))?;
        let point = callee.point(&named, &mut |_| None)?;
        let value = callee.value(&point)?;
        let names = |numbers: &[Number]| -> Vec<String> {
            numbers.iter().filter(|n| n.diff).map(|n| n.name.clone()).collect()
        };
        let (inputs, outputs) = (names(&callee.inputs), names(&callee.outputs));
        let mut text = format!("value\n{}", list("  ", &callee.output_texts(&value, number_text)));
        let value = object(&callee.output_texts(&value, number_json));
        let mut parts = Vec::new();
        let key = match args.mode {
            Mode::Forward | Mode::Reverse => {
                let rows = match direction {
                    Direction::Forward => callee.forward(&point)?,
                    Direction::Reverse | Direction::Back => callee.reverse(&point)?,
                };
                let is_one = rows.len() == 1;
                for (row, output) in rows.iter().zip(&outputs) {
                    let of = if is_one { String::new() } else { format!(" of {output}") };
                    text +=
                        &format!("gradient{of}\n{}", list("  ", &callee.gradient_texts(row, number_text)));
                    parts.push((output.clone(), object(&callee.gradient_texts(row, number_json))));
                }
                if is_one { "gradient" } else { "jacobian" }
            }
            Mode::Hvp => {
                let along = callee.point(&along, &mut |_| Some(0))?;
                for (k, output) in outputs.iter().enumerate() {
                    let row = callee.hessian_vector(&point, k, &along)?;
                    text += &format!("hessian of {output} times the direction\n");
                    text += &list("  ", &callee.gradient_texts(&row, number_text));
                    parts.push((output.clone(), object(&callee.gradient_texts(&row, number_json))));
                }
                "hvp"
            }
            Mode::Hessian => {
                let gradients = callee.reverse(&point)?;
                for (k, (output, gradient)) in outputs.iter().zip(&gradients).enumerate() {
                    text += &format!("gradient of {output}\n");
                    text += &list("  ", &callee.gradient_texts(gradient, number_text));
                    text += &format!("hessian of {output}\n");
                    let mut rows = Vec::new();
                    for (row, input) in callee.hessian(&point, k)?.iter().zip(&inputs) {
                        text += &format!(
                            "  d/d {input}\n{}",
                            list("    ", &callee.gradient_texts(row, number_text))
                        );
                        rows.push((input.clone(), object(&callee.gradient_texts(row, number_json))));
                    }
                    parts.push((output.clone(), object(&rows)));
                }
                "hessian"
            }
        };
        let derivatives = match &parts[..] {
            [(_, gradient)] if key == "gradient" => gradient.clone(),
            parts => object(parts),
        };
        let json = format!("{{\"value\":{value},\"{key}\":{derivatives}}}\n");
        report::out(if args.point.call.json { &json } else { &text });
        Ok(0)
    })
}

pub(crate) fn gradcheck(args: &GradcheckArgs) -> u8 {
    report::finish(&args.call.source, args.call.json, |session| {
        let named = parse_arguments("--at", &args.points.draw.at).map_err(report::usage)?;
        let ranges = ranges(&args.points.draw, &args.call.source.file)?;
        let options = Options {
            widen: true,
            check_finite: CheckFinite::differentials(args.check_nan),
            ..Options::default()
        };
        let Called { mut callee, mut loaded, request, memory } =
            callee(&args.call, session, (Request::default(), &options), None)?;
        check_ranges(&args.points.draw, &callee.inputs)?;
        let ranges = ranges.with_declared(&mut loaded.program, &request.functions[0])?;
        let mut random = Random::new(args.points.draw.seed);
        let all_named =
            callee.info.params.iter().filter(|p| p.is_input).all(|p| named.iter().any(|n| n.0 == p.name));
        let points = if all_named { 1 } else { args.points.points.max(1) };
        let point = |callee: &Callee, _| {
            let mut draw = |n: &Number| {
                let (low, high) = ranges.of(&n.name);
                Some(random.scalar(n.scalar, low, high))
            };
            Ok(callee.point(&named, &mut draw)?)
        };
        let dual = (&mut loaded, &request, &memory[..]);
        let entries = gradcheck::check_points(&mut callee, dual, points, args.points.tolerance, point)?;
        if entries.is_empty() {
            return Err(Error::input(format!(
                "`{}` has no differentiable input and output",
                args.call.function
            ))
            .into());
        }
        let count = |v| entries.iter().filter(|e| e.1.verdict == v).count();
        let (agree, unclear, differ) =
            (count(Verdict::Agrees), count(Verdict::Unclear), count(Verdict::Differs));
        let some = |verdict: Verdict| match count(verdict) {
            0 => String::new(),
            n => format!("{n} {}, ", verdict.name()),
        };
        let (flat, cut) = (some(Verdict::Flat), some(Verdict::Cut));
        let informs = |point: u32| {
            entries.iter().any(|e| e.0 == point && !matches!(e.1.verdict, Verdict::Flat | Verdict::Unclear))
        };
        let informative = (0..points).filter(|&point| informs(point)).count();
        let clear = entries.iter().filter(|e| e.1.verdict != Verdict::Unclear);
        let worst = clear.map(|e| e.1.error).fold(0.0, gradcheck::worse);
        if args.call.json {
            let list: Vec<_> = entries.iter().map(|(point, e)| e.to_json(&session.sources, *point)).collect();
            let all = serde_json::json!({
                "agrees": differ == 0,
                "points": points,
                "informative": informative,
                "entries": list,
            });
            report::out(&format!("{all}\n"));
        } else {
            let mut text = table(&entries);
            let _ = writeln!(
                text,
                "\n{} derivative{} at {points} point{}: {agree} agree, {flat}{cut}{unclear} unclear, {differ} differ; \
                 largest relative error {worst:.1e}",
                entries.len(),
                if entries.len() == 1 { "" } else { "s" },
                if points == 1 { "" } else { "s" },
            );
            let is_flat =
                |point: u32| entries.iter().filter(|e| e.0 == point).all(|e| e.1.verdict == Verdict::Flat);
            if (0..points).any(is_flat) {
                text += &uninformative(points, informative);
            }
            text += &cuts(&session.sources, &args.call.function, entries.iter().map(|e| &e.1));
            report::out(&text);
        }
        Ok(u8::from(differ > 0))
    })
}

/// A line about points at which nothing was seen of derivatives.
fn uninformative(points: u32, informative: usize) -> String {
    match (points, informative) {
        (_, 0) => "no point is informative: all derivatives are 0 or unclear; choose others by `--range` or `--at`\n".into(),
        (all, some) => {
            format!("{some} of {all} points are informative; at the others, all derivatives are 0 or unclear\n")
        }
    }
}

/// A function to call, and the inputs that it was compiled from.
pub(crate) struct Called {
    pub(crate) callee: Callee,
    loaded: Loaded,
    request: Request,
    memory: Vec<Bind>,
}

/// Compiles a function, with one derivative or all, and with everything else in the request, and binds the
/// memory that it reaches.
pub(crate) fn callee(
    args: &CallArgs,
    session: &mut Session,
    asked: (Request, &Options),
    direction: Option<Direction>,
) -> Result<Called, Stop> {
    callee_of(args, &args.function, session, asked, direction)
}

/// Like [`callee`], of a function that need not be the one that the arguments name.
pub(crate) fn callee_of(
    args: &CallArgs,
    function: &str,
    session: &mut Session,
    (request, options): (Request, &Options),
    direction: Option<Direction>,
) -> Result<Called, Stop> {
    let memory = report::binds(session, &args.memory)?;
    let backend = args.backend;
    backend.prepare(None);
    let mut loaded = pipeline::load(session, &args.source.file)?;
    loaded.errors()?;
    let function = loaded.function(function)?;
    let request = Request { functions: vec![function], derivatives: true, sparse: true, ..request };
    let compiled = loaded.compile(&request, options)?;
    report::warn(session, &compiled.warnings);
    let code = CodeOptions {
        lanes: args.lanes.lanes,
        fast_math: options.optimise.fast_math,
        ..args.limits.limits()
    };
    let mut callee = match direction {
        Some(direction) => Callee::for_points(compiled, backend, &code, &memory, direction)?,
        None => Callee::new(compiled, backend, &code, &memory)?,
    };
    callee.bind(&mut loaded, &memory)?;
    Ok(Called { callee, loaded, request, memory })
}

/// The ranges that random arguments are drawn from: those of the command line and, for parameters without one, those
/// that the file declares for its fit, in comments such as `// fit: --bounds x=0,1` or `// fit: --param x=random:0,1`.
pub(crate) fn ranges(args: &DrawArgs, file: &Path) -> Result<Ranges, Stop> {
    let mut ranges = Ranges { common: (-2.0, 2.0), named: declared(file) };
    for text in &args.range {
        let (name, range) = text.rsplit_once('=').map_or(("", text.as_str()), |(n, range)| (n.trim(), range));
        let range = report::range(range)
            .ok_or_else(|| Stop::Usage(format!("`--range {text}`: expected [NAME=]LO,HI, finite")))?;
        match name {
            "" => ranges.common = range,
            name => ranges.named.push((name.into(), range)),
        }
    }
    Ok(ranges)
}

/// The names on the command line that have ranges.
pub(crate) fn names_of_ranges(args: &DrawArgs) -> Vec<String> {
    let names = args.range.iter().filter_map(|text| Some(text.rsplit_once('=')?.0.trim()));
    names.filter(|name| !name.is_empty()).map(String::from).collect()
}

/// Refuses ranges on the command line that no number has.
fn check_ranges(args: &DrawArgs, inputs: &[Number]) -> Result<(), Error> {
    let named = args.range.iter().filter_map(|text| Some((text, text.rsplit_once('=')?.0.trim())));
    for (text, name) in named {
        if !name.is_empty() && !inputs.iter().any(|number| covers(name, &number.name)) {
            let known: Vec<&str> = inputs.iter().map(|number| number.name.as_str()).collect();
            return Err(Error::input(format!("`--range {text}`: the inputs are {}", known.join(", "))));
        }
    }
    Ok(())
}

/// The ranges in the file's `// fit:` comments.
fn declared(file: &Path) -> Vec<Named> {
    let words = fit::file_options(file);
    let mut found = Vec::new();
    for (k, word) in words.iter().enumerate() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value)),
            _ => (word.as_str(), words.get(k + 1).map(String::as_str)),
        };
        let named = value.and_then(|value| value.split_once('='));
        let range = named.and_then(|(name, range)| match option {
            "--bounds" => Some((name, report::range(range)?)),
            "--param" => Some((name, report::range(range.strip_prefix("random:")?)?)),
            _ => None,
        });
        found.extend(range.map(|(name, range)| (name.trim().to_string(), range)));
    }
    found
}

fn list(indent: &str, values: &[(String, String)]) -> String {
    match values {
        [] => format!("{indent}(none)\n"),
        values => values.iter().map(|(name, value)| format!("{indent}{name} = {value}\n")).collect(),
    }
}

pub(crate) fn object(values: &[(String, String)]) -> String {
    let fields: Vec<String> = values.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// The worst rows as an aligned table.
fn table(entries: &[(u32, Entry)]) -> String {
    let mut rows: Vec<&(u32, Entry)> = entries.iter().collect();
    if rows.len() > MAX_ROWS {
        let rank = |e: &Entry| {
            (e.verdict == Verdict::Differs, if e.error.is_nan() { f64::INFINITY } else { e.error })
        };
        rows.sort_by(|a, b| {
            let (a, b) = (rank(&a.1), rank(&b.1));
            b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        rows.truncate(MAX_ROWS);
    }
    let mut cells = vec![
        ["point", "output", "input", "forward", "reverse", "differences", "error", ""].map(String::from),
    ];
    for (point, e) in &rows {
        let number = |x: f64| format!("{x:.9}");
        cells.push([
            point.to_string(),
            e.output.clone(),
            e.input.clone(),
            number(e.forward),
            number(e.reverse),
            number(e.differences),
            format!("{:.1e}", e.error),
            match e.verdict {
                // The word that one looks for.
                Verdict::Differs => "DIFFERS".to_string(),
                other => other.name().to_string(),
            },
        ]);
    }
    let mut text = aligned(&cells, 3..7);
    if rows.len() < entries.len() {
        let _ = writeln!(text, "… and {} more that agree better", entries.len() - rows.len());
    }
    text
}

/// Formats rows of cells as aligned text; the columns in `right` are right-aligned.
pub(crate) fn aligned<R: AsRef<[String]>>(cells: &[R], right: std::ops::Range<usize>) -> String {
    let rows = || cells.iter().map(|row| row.as_ref());
    let width = |column: usize| rows().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows().map(<[String]>::len).max().unwrap_or(0)).map(width).collect();
    let mut text = String::new();
    for row in rows() {
        let mut line = String::new();
        for (k, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[k] - cell.chars().count());
            let _ = if right.contains(&k) {
                write!(line, "{pad}{cell}  ")
            } else {
                write!(line, "{cell}{pad}  ")
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// The places where derivatives are cut, each listed once.
pub(crate) fn cuts<'e>(
    sources: &Sources,
    function: &str,
    entries: impl Iterator<Item = &'e Entry>,
) -> String {
    let mut places = Vec::new();
    let mut text = String::new();
    for e in entries {
        let Some(place) = e.cut.and_then(|cut| render::place(sources, cut)) else { continue };
        if !places.contains(&place) {
            let (output, input) = (&e.output, &e.input);
            let _ = writeln!(
                text,
                "{function}: d {output}/d {input} is cut at {place}: differences do not apply"
            );
            places.push(place);
        }
    }
    text
}
