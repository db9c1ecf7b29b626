//! `precision`: rounding errors by variable, and narrower types within a tolerance, which `derive` applies, too.

use std::path::{Path, PathBuf};

use clap::Args;
use driver::Error;
use driver::call::{Direction, parse_arguments};
use driver::derive::{self, Derivative};
use driver::files;
use driver::launch::CodeOptions;
use driver::precision::narrow::{self, Narrowed, Proposal};
use driver::precision::owners::name_of;
use driver::precision::{self, Contribution, Estimate, Options, Report, Source};
use driver::render;
use driver::session::Session;
use serde_json::{Value as Json, json};

use crate::args::{CallArgs, DrawArgs};
use crate::derive::{aligned, ranges};
use crate::format::difference;
use crate::report::{self, Stop};
use crate::values::{amount, choice};

/// The number of results whose sizes are shown.
const SHOWN: usize = 4;

pub(crate) const DERIVE_HELP: &str = "\
With `--tolerance`, variables get narrower types first, as by `pullback precision`. The derivative is that of the narrowed \
program, and its error, too, is within the tolerance: it is run at random points, and compared with the derivative of the \
program in doubles.

Examples:
  pullback derive kernel.slang loss --mode bwd
  pullback derive kernel.slang loss --tolerance 1e-3 --range 0,1

Exit status 1 if the errors of the narrowed program are not known.";

pub(crate) const PRECISION_HELP: &str = "\
The first-order error of a result is the sum of what each operation contributes: its roundoff, times its cotangent. The \
terms are summed up by variable, at random points. With `--tolerance`, variables whose narrower types keep the error \
within it get them in the source, which is then run at other points.

Examples:
  pullback precision kernel.slang loss
  pullback precision kernel.slang loss --tolerance 1e-3 --points 50 -o narrow.slang
  pullback precision kernel.slang loss --tolerance 1e-3 --gradient
  pullback precision kernel.slang loss --at 'x=1.5' --json

Exit status 1 if an error of the narrowed program is larger than the tolerance, or not known.";

/// A function, and the points where its rounding errors are estimated.
#[derive(Debug, Args)]
pub(crate) struct RoundingArgs {
    #[command(flatten)]
    pub(crate) call: CallArgs,
    #[command(flatten)]
    pub(crate) draw: DrawArgs,
    /// Random points
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) points: u32,
}

#[derive(Debug, Args)]
pub(crate) struct PrecisionArgs {
    #[command(flatten)]
    pub(crate) rounding: RoundingArgs,
    /// Propose narrower types with which errors of results, relative to their largest size, stay within this
    #[arg(long, value_name = "X", value_parser = amount)]
    pub(crate) tolerance: Option<f64>,
    /// Measure the error of the gradient, too; with a tolerance, it stays within that, as well
    #[arg(long)]
    pub(crate) gradient: bool,
    /// Write the program with the narrower types to this file [default: show the lines that change]
    #[arg(long, short = 'o', value_name = "FILE", requires = "tolerance")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(mut_args(only_with_tolerance))]
pub(crate) struct DeriveArgs {
    #[command(flatten)]
    pub(crate) rounding: RoundingArgs,
    /// Which derivative
    #[arg(long, value_parser = choice(Derivative::ALL), default_value = "bwd")]
    pub(crate) mode: Derivative,
    /// Give variables narrower types with which errors of results and of derivatives, relative to their largest size, stay
    /// within this
    #[arg(long, value_name = "X", value_parser = amount)]
    pub(crate) tolerance: Option<f64>,
}

/// Without a tolerance, `derive` runs nothing.
fn only_with_tolerance(arg: clap::Arg) -> clap::Arg {
    let runs = ["bind", "backend", "lanes", "memory", "seconds", "at", "range", "seed", "points"];
    if runs.contains(&arg.get_id().as_str()) { arg.requires("tolerance") } else { arg }
}

pub(crate) fn precision(args: &PrecisionArgs) -> u8 {
    let call = &args.rounding.call;
    report::finish(&call.source, call.json, |session| {
        let options = options(session, &args.rounding, args.gradient.then_some(Direction::Reverse))?;
        options.backend.prepare(None);
        let source = precision::read(session, &call.source.file)?;
        let mut warnings = Vec::new();
        let mut estimate = precision::estimate(session, &source, &options, &mut warnings)?;
        report::warn(session, &warnings);
        let proposal = match args.tolerance {
            Some(tolerance) => Some(narrow::propose(session, &mut estimate, &options, tolerance)?),
            None => {
                narrow::alone(session, &mut estimate, &options)?;
                None
            }
        };
        let fails = match (&proposal, args.tolerance) {
            (Some(proposal), Some(tolerance)) => !proposal.is_within(tolerance),
            _ => false,
        };
        if call.json {
            report::out(&format!("{}\n", to_json(session, &estimate.report, proposal.as_ref())));
        } else {
            report::out(&text(session, &estimate, args.tolerance, proposal.as_ref()));
        }
        if let (Some(path), Some(proposal), false) = (&args.output, &proposal, fails) {
            files::write(path, proposal.text.as_bytes())?;
        } else if let (Some(proposal), None, false) = (&proposal, &args.output, call.json)
            && !proposal.narrowed.is_empty()
        {
            let diff = difference(Path::new(&source.name), &source.text, &proposal.text, "(narrowed)");
            report::out(&format!("\n{diff}"));
        }
        Ok(u8::from(fails))
    })
}

fn options(
    session: &mut Session,
    args: &RoundingArgs,
    derivative: Option<Direction>,
) -> Result<Options, Stop> {
    Ok(Options {
        function: args.call.function.clone(),
        at: parse_arguments("--at", &args.draw.at).map_err(report::usage)?,
        points: args.points,
        ranges: ranges(&args.draw, &args.call.source.file)?,
        seed: args.draw.seed,
        memory: report::binds(session, &args.call.memory)?,
        backend: args.call.backend,
        derivative,
        code: CodeOptions { lanes: args.call.lanes.lanes, ..args.call.limits.limits_of_calls() },
    })
}

/// The derivative of a program with narrower types, as source.
pub(crate) struct NarrowedSource {
    /// The text.
    pub(crate) text: String,
    /// The types, and the errors that were measured, for JSON.
    pub(crate) json: Json,
}

/// Gives variables of a function narrower types within a tolerance, and writes the derivative of that program; an error if
/// the types are not known to keep it, and `None`, with a note for the user, if no variable can be narrower.
pub(crate) fn narrowed_derivative(
    session: &mut Session,
    args: &DeriveArgs,
    tolerance: f64,
) -> Result<Option<NarrowedSource>, Stop> {
    let direction = args.mode.direction();
    let options = options(session, &args.rounding, Some(direction))?;
    options.backend.prepare(None);
    let source = precision::read(session, &args.rounding.call.source.file)?;
    let mut estimate = precision::estimate(session, &source, &options, &mut Vec::new())?;
    let proposal = narrow::propose(session, &mut estimate, &options, tolerance)?;
    let derivative = narrow::derivative_name(direction);
    let own = estimate.report.measured;
    if proposal.narrowed.is_empty() {
        let error = |error: Option<f64>| error.map_or("unknown".to_string(), number);
        report::err(&format!(
            "note: no variable can be narrower within {tolerance:e}; as it is, the program has the errors: value {}, \
             {derivative} {}\n",
            error(own.value),
            error(own.derivative),
        ));
        return Ok(None);
    }
    let (Some(value), Some(of_derivative), true) =
        (proposal.measured.value, proposal.measured.derivative, proposal.is_within(tolerance))
    else {
        let message = match proposal.points {
            0 => {
                "a result or derivative is infinite or NaN at every point where the program with narrower types would be \
                  checked; choose others by `--range` or `--at`"
            }
            _ => {
                "the error of the program with narrower types is not known: it runs too long in numbers of twice the digits"
            }
        };
        return Err(Error::input(message).into());
    };
    let names = |n: &Narrowed| narrow::names(&estimate.report.contributions, n);
    let mut notes = vec![format!("Narrower types within {tolerance:e}:")];
    notes.extend(proposal.narrowed.iter().map(|n| format!("  {} as {}", names(n), name_of(n.to))));
    let plural = if proposal.points == 1 { "" } else { "s" };
    notes.push(format!(
        "Largest errors at {} point{plural}, relative to the sizes: value {}, {derivative} {}.",
        proposal.points,
        number(value),
        number(of_derivative),
    ));
    let types: Vec<Json> = proposal
        .narrowed
        .iter()
        .map(|n| json!({ "variables": names(n).split(", ").collect::<Vec<_>>(), "type": name_of(n.to) }))
        .collect();
    let changed = Source { text: proposal.text, ..source };
    let mut loaded = precision::load(session, &changed)?;
    let function = loaded.function(&options.function)?;
    let text = derive::source(&mut loaded, function, args.mode, &notes)?;
    let json = json!({
        "source": text,
        "narrowed": types,
        "measured": finite(value),
        format!("measured_{derivative}"): finite(of_derivative),
        "points": proposal.points,
    });
    Ok(Some(NarrowedSource { text, json }))
}

fn text(
    session: &Session,
    estimate: &Estimate,
    tolerance: Option<f64>,
    proposal: Option<&Proposal>,
) -> String {
    let report = &estimate.report;
    let mut text = table(session, report);
    let plural = if report.points == 1 { "" } else { "s" };
    text += &format!("\nerror of the result at {} point{plural}, relative to its size", report.points);
    let mut sizes: Vec<String> = report.sizes.iter().take(SHOWN).map(|size| format!("{size:.3e}")).collect();
    if report.sizes.len() > SHOWN {
        sizes.push("…".to_string());
    }
    text += &format!(" {}: at most {}", sizes.join(", "), number(report.estimated));
    text += &match report.measured.value {
        Some(error) => format!(", in fact {}\n", number(error)),
        None => ", in fact unknown: the program runs too long in numbers of twice the digits\n".into(),
    };
    if report.measured.value.is_some_and(|error| error > report.estimated) {
        text += "the estimate lacks the roundings of what has no derivative, such as the steps of a solver\n";
    }
    if let Some(error) = report.measured.derivative {
        text += &format!("error of the gradient, relative to its size: {}\n", number(error));
    }
    text += &match &report.enclosed {
        Ok(bound) => format!("bound by intervals: {}\n", number(*bound)),
        Err(unbounded) => {
            let place = unbounded.span.and_then(|span| render::place(&session.sources, span));
            let place = place.map_or(String::new(), |place| format!("{place}: "));
            format!("no bound by intervals at {} of the points: {place}{}\n", unbounded.points, unbounded.why)
        }
    };
    if report.left_out > 0 {
        let or_gradient = report.measured.derivative.map_or("", |_| " or the gradient");
        text += &format!(
            "{} points are left out: a result{} is infinite or NaN there\n",
            report.left_out, or_gradient
        );
    }
    if let (Some(proposal), Some(tolerance)) = (proposal, tolerance) {
        text += &proposed(report, proposal, tolerance);
    }
    text
}

fn table(session: &Session, report: &Report) -> String {
    let has = |s: ir::Scalar| report.contributions.iter().any(|c| c.narrower.iter().any(|(to, _)| *to == s));
    let (has_float, has_half) = (has(ir::Scalar::F32), has(ir::Scalar::F16));
    let mut heading: Vec<String> =
        ["variable", "type", "line", "operations", "error"].map(String::from).to_vec();
    heading.extend(has_float.then(|| "as float".to_string()));
    heading.extend(has_half.then(|| "as half".to_string()));
    let mut cells = vec![heading];
    for contribution in &report.contributions {
        let variable = &contribution.variable;
        let line = session.sources.line_column(variable.span.file, variable.span.start).0;
        let mut row = vec![
            variable.path(),
            variable.ty.clone(),
            line.to_string(),
            format!("{}", contribution.operations),
            number(contribution.error),
        ];
        let narrower = |s: ir::Scalar| {
            let found = contribution.narrower.iter().find(|(to, _)| *to == s);
            match found {
                Some((_, Ok(error))) => number(*error),
                Some((_, Err(_))) => "no".to_string(),
                None => String::new(),
            }
        };
        row.extend(has_float.then(|| narrower(ir::Scalar::F32)));
        row.extend(has_half.then(|| narrower(ir::Scalar::F16)));
        cells.push(row);
    }
    aligned(&cells, 2..cells[0].len())
}

/// An error.
fn number(error: f64) -> String {
    match error {
        _ if error.is_infinite() => "infinite".to_string(),
        0.0 => "0".to_string(),
        error => format!("{error:.1e}"),
    }
}

fn proposed(report: &Report, proposal: &Proposal, tolerance: f64) -> String {
    let list = |narrowed: &[Narrowed]| {
        let text =
            |n: &Narrowed| format!("  {} as {}\n", narrow::names(&report.contributions, n), name_of(n.to));
        narrowed.iter().map(text).collect::<String>()
    };
    let mut text = match proposal.narrowed.is_empty() {
        true => format!("\nno variable can be narrower within {}\n", number(tolerance)),
        false => format!("\nnarrower within {}\n{}", number(tolerance), list(&proposal.narrowed)),
    };
    if !proposal.narrowed.is_empty() {
        let plural = if proposal.points == 1 { "" } else { "s" };
        text += &format!("error of the result: at most {}", number(proposal.predicted));
        text += &match proposal.measured.value {
            Some(error) => {
                format!(", in fact {} at {} other point{plural}\n", number(error), proposal.points)
            }
            None => ", in fact unknown\n".to_string(),
        };
        if let Some(error) = proposal.measured.derivative {
            text += &format!("error of the gradient there: {}\n", number(error));
        }
    }
    if !proposal.given_up.is_empty() {
        text += &format!("given up, since the error was larger\n{}", list(&proposal.given_up));
    }
    if !proposal.kept.is_empty() {
        text += "as they are\n";
        for (k, why) in &proposal.kept {
            text += &format!("  {}: {why}\n", report.contributions[*k].variable.path());
        }
    }
    text
}

fn to_json(session: &Session, report: &Report, proposal: Option<&Proposal>) -> Json {
    let list: Vec<Json> = report.contributions.iter().map(|c| contribution(session, c)).collect();
    let mut json = json!({
        "points": report.points,
        "left_out": report.left_out,
        "results": report.outputs,
        "sizes": report.sizes,
        "estimated": finite(report.estimated),
        "measured": report.measured.value.map(finite),
        "enclosed": match &report.enclosed {
            Ok(bound) => finite(*bound),
            Err(unbounded) => json!({
                "why": unbounded.why,
                "place": unbounded.span.and_then(|span| render::place(&session.sources, span)),
                "points": unbounded.points,
            }),
        },
        "variables": list,
    });
    if let Some(error) = report.measured.derivative {
        json["measured_gradient"] = finite(error);
    }
    if let Some(proposal) = proposal {
        let of = |narrowed: &[Narrowed]| -> Vec<Json> {
            let one = |n: &Narrowed| json!({ "variables": n.variables, "type": name_of(n.to) });
            narrowed.iter().map(one).collect()
        };
        let kept = |(k, why): &(usize, String)| json!({ "variable": k, "why": why });
        json["proposal"] = json!({
            "narrowed": of(&proposal.narrowed),
            "given_up": of(&proposal.given_up),
            "kept": proposal.kept.iter().map(kept).collect::<Vec<_>>(),
            "predicted": finite(proposal.predicted),
            "measured": proposal.measured.value.map(finite),
            "points": proposal.points,
            "source": proposal.text,
        });
        if let Some(error) = proposal.measured.derivative {
            json["proposal"]["measured_gradient"] = finite(error);
        }
    }
    json
}

fn contribution(session: &Session, contribution: &Contribution) -> Json {
    let variable = &contribution.variable;
    let mut json = json!({
        "name": variable.name,
        "function": variable.function,
        "line": session.sources.line_column(variable.span.file, variable.span.start).0,
        "type": variable.ty,
        "operations": contribution.operations,
        "error": finite(contribution.error),
    });
    for (to, found) in &contribution.narrower {
        json[format!("as_{}", name_of(*to))] = match found {
            Ok(error) => finite(*error),
            Err(why) => json!({ "why": why }),
        };
    }
    json
}

/// JSON has no representation of infinities and NaN.
fn finite(x: f64) -> Json {
    if x.is_finite() { json!(x) } else { json!(x.to_string()) }
}
