//! `recurrence`: derivatives of recurrences that are too long for memory.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use driver::Request;
use driver::call::{Direction, parse_arguments};
use driver::npy::{self, Array};
use driver::output::{number_json, number_text};
use driver::recurrence::{Length, Progress, Recurrence};
use ir::{Scalar, scalar};

use crate::args::AtArgs;
use crate::derive::{Called, callee, callee_of, object};
use crate::outputs::Outputs;
use crate::report;

#[derive(Debug, Args)]
pub(crate) struct RecurrenceArgs {
    #[command(flatten)]
    pub(crate) point: AtArgs,
    /// The function of the last state that is differentiated
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) loss: String,
    /// All steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) steps: u64,
    /// Steps between states on disk [default: the square root of all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) segment: Option<u64>,
    /// The folder for states [default: target/recurrence/FUNCTION]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Run at most so many segments, forward or in reverse, and leave the rest to the next run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) run: Option<u64>,
    /// Write the gradient as an array, in the order of the arguments' numbers
    #[arg(long, value_name = "FILE.npy")]
    pub(crate) out: Option<PathBuf>,
}

/// The exit status of a run that `--run` ended.
const PAUSED: u8 = 3;
/// Longer values are cut in the text.
const MOST_TEXT: usize = 160;
/// How often the progress is shown.
const PAUSE: Duration = Duration::from_secs(5);

pub(crate) fn recurrence(args: &RecurrenceArgs) -> u8 {
    report::finish(&args.point.call.source, args.point.call.json, |session| {
        let named = parse_arguments("--at", &args.point.at).map_err(report::usage)?;
        let options = report::options(&args.point.compile);
        let reverse = Some(Direction::Back);
        let Called { callee: mut advance, .. } =
            callee(&args.point.call, session, (Request::default(), &options), reverse)?;
        let asked = (Request::default(), &options);
        let Called { callee: mut loss, .. } =
            callee_of(&args.point.call, &args.loss, session, asked, reverse)?;
        Outputs::of(&session.sources).writes("--out", args.out.as_deref()).check()?;
        // Each segment has its own.
        let is_counter = |name: &str| matches!(name, "first" | "count");
        let point = advance.point(&named, &mut |n| is_counter(&n.name).then_some(0))?;
        let segment = args.segment.unwrap_or_else(|| args.steps.isqrt().max(1)).min(args.steps);
        let length = Length { steps: args.steps, segment };
        let folder = args
            .folder
            .clone()
            .unwrap_or_else(|| PathBuf::from("target/recurrence").join(&args.point.call.function));
        let mut recurrence = Recurrence::new(&mut advance, &mut loss, (length, &folder), point)?;
        let n = length.segments();
        if !args.point.call.json {
            report::err(&format!(
                "{} steps in {n} segments of {segment}; their states take {} in `{}`\n",
                args.steps,
                size(recurrence.bytes()),
                folder.display()
            ));
        }
        let mut begun: Option<(&str, Instant, u64)> = None;
        let mut shown = Instant::now();
        let mut show = |progress: Progress| {
            let (done, word) = match progress {
                Progress::Forward(done) => (done, "forward"),
                Progress::Reverse(done) => (done, "in reverse"),
            };
            let now = Instant::now();
            if begun.is_none_or(|(of, ..)| of != word) {
                begun = Some((word, now, done));
            }
            if args.point.call.json || now.duration_since(shown) < PAUSE {
                return;
            }
            shown = now;
            let (_, since, first) = begun.unwrap_or((word, now, done));
            let each = now.duration_since(since).as_secs_f64() / (done - first).max(1) as f64;
            report::err(&format!("segment {done} of {n} {word}, {:.0} s left\n", each * (n - done) as f64));
        };
        let Some(found) = recurrence.run(args.run.unwrap_or(u64::MAX), &mut show)? else {
            report::err("not at the end yet: the same command goes on\n");
            return Ok(PAUSED);
        };
        if let Some(path) = &args.out {
            let bits = found.gradient.iter().map(|&x| scalar::from_f64(Scalar::F64, x)).collect();
            npy::write(path, &Array { scalar: Scalar::F64, shape: vec![found.gradient.len()], bits })?;
        }
        let value = loss_number(&loss, found.loss);
        let text = if args.point.call.json {
            let gradient = object(&advance.gradient_texts(&found.gradient, number_json));
            format!("{{\"value\":{},\"gradient\":{gradient}}}\n", number_json(value.0, value.1))
        } else {
            let mut text = format!("value\n  result = {}\ngradient\n", number_text(value.0, value.1));
            for (name, value) in advance.gradient_texts(&found.gradient, number_text) {
                let cut = value.char_indices().nth(MOST_TEXT).map(|(at, _)| &value[..at]);
                let _ = match cut {
                    Some(cut) => writeln!(text, "  {name} = {cut}… (`--out` writes all)"),
                    None => writeln!(text, "  {name} = {value}"),
                };
            }
            text
        };
        report::out(&text);
        Ok(0)
    })
}

/// The loss in its own type.
fn loss_number(loss: &driver::call::Callee, value: f64) -> (Scalar, u64) {
    let scalar = loss.outputs[0].scalar;
    (scalar, scalar::from_f64(scalar, value))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
