//! `ruletest`: measures the error of derivatives that are written by hand, in units of the last digit.

use std::path::Path;

use driver::Error;
use driver::call::parse_arguments;
use driver::launch::CodeOptions;
use driver::output::number_text;
use driver::ruletest::{self, Found, Options, Rules, Tested, Worst};
use ir::Scalar;
use serde_json::{Value as Json, json};

use crate::args::RuletestArgs;
use crate::derive::{aligned, names_of_ranges, ranges};
use crate::report;

/// The word that stands for the library's rules in the place of a file.
const LIBRARY: &str = "core";

pub(crate) fn ruletest(args: &RuletestArgs) -> u8 {
    report::finish(&args.source, args.json, |session| {
        let file = &args.source.file;
        let rules = match file == Path::new(LIBRARY) {
            true => Rules::Library,
            false => Rules::File(file.clone()),
        };
        let options = Options {
            functions: args.function.clone(),
            at: parse_arguments("--at", &args.draw.at).map_err(report::usage)?,
            points: args.points,
            ranges: ranges(&args.draw, file)?,
            ranged: names_of_ranges(&args.draw),
            seed: args.draw.seed,
            memory: report::binds(session, &args.memory)?,
            backend: args.backend,
            code: CodeOptions { lanes: args.lanes.lanes, ..args.limits.limits_of_calls() },
        };
        let mut warnings = Vec::new();
        let all = ruletest::test(session, &rules, &options, &mut warnings)?;
        report::warn(session, &warnings);
        if all.is_empty() {
            let message =
                "the file declares no derivative: there is nothing to test; see `gradcheck` and `verify`";
            return Err(Error::input(message).into());
        }
        let found = || all.iter().filter_map(|tested| tested.found.as_ref().ok());
        let is_fine = found().next().is_some()
            && found().all(|found| found.worst().is_none_or(|worst| worst.ulps <= args.ulps));
        if args.json {
            let list: Vec<Json> = all.iter().map(to_json).collect();
            report::out(&format!("{}\n", json!({ "accurate": is_fine, "functions": list })));
        } else {
            report::out(&text(&all, args.ulps));
        }
        Ok(u8::from(!is_fine))
    })
}

fn text(all: &[Tested], most: f64) -> String {
    let heading =
        ["function", "type", "compared", "kinks", "unclear", "forward", "reverse", "second", "worst at"];
    let mut cells = vec![heading.map(String::from)];
    let mut notes = String::new();
    for tested in all {
        let (name, of) = (tested.name.as_str(), tested.of.unwrap_or_default());
        match &tested.found {
            Err(why) => notes += &format!("{name} is not tested: {why}\n"),
            Ok(found) => {
                let (second, why) = match &found.second {
                    Some(Ok(worst)) => (digits(worst.ulps), None),
                    Some(Err(why)) => (String::new(), Some(why)),
                    None => (String::new(), None),
                };
                notes +=
                    &why.map_or(String::new(), |why| format!("{name} has no second derivative: {why}\n"));
                let of_mode =
                    |worst: &Option<Worst>| worst.as_ref().map_or(String::new(), |w| digits(w.ulps));
                let worst = found.worst();
                cells.push([
                    name.to_string(),
                    of.to_string(),
                    found.compared.to_string(),
                    found.kinks.to_string(),
                    found.unclear.to_string(),
                    of_mode(&found.forward),
                    of_mode(&found.reverse),
                    second,
                    worst.map_or(String::new(), |worst| worst.at.clone()),
                ]);
                if let Some(worst) = worst.filter(|worst| worst.ulps > most) {
                    let exact = match worst.exact.is_nan() {
                        true => "where the other mode differs".to_string(),
                        false => format!("exactly {}", text_of(worst.exact)),
                    };
                    let (what, at, found) = (&worst.what, &worst.at, text_of(worst.found));
                    notes += &format!(
                        "{}: WRONG {what} at {at}: {found}, {exact}\n",
                        [name, of].join(" ").trim_end()
                    );
                }
            }
        }
    }
    let mut text = if cells.len() > 1 { aligned(&cells, 2..8) } else { String::new() };
    if !notes.is_empty() {
        text += if text.is_empty() { "" } else { "\n" };
        text += &notes;
    }
    text
}

fn text_of(x: f64) -> String {
    number_text(Scalar::F64, x.to_bits())
}

/// An error in units of the last digit, as a table shows it.
fn digits(ulps: f64) -> String {
    if ulps < 1e4 { format!("{ulps:.1}") } else { format!("{ulps:.0e}") }
}

fn to_json(tested: &Tested) -> Json {
    let mut json = json!({ "function": tested.name });
    if let Some(of) = tested.of {
        json["type"] = json!(of);
    }
    match &tested.found {
        Err(why) => json["not_tested"] = json!(why),
        Ok(found) => add(&mut json, found),
    }
    json
}

fn add(json: &mut Json, found: &Found) {
    // JSON has no representation of infinities and NaN.
    let number = |x: f64| if x.is_finite() { json!(x) } else { json!(x.to_string()) };
    let of = |worst: &Worst| {
        json!({
            "ulps": number(worst.ulps),
            "derivative": worst.what,
            "at": worst.at,
            "found": number(worst.found),
            "exact": number(worst.exact),
        })
    };
    json["compared"] = json!(found.compared);
    json["kinks"] = json!(found.kinks);
    json["unclear"] = json!(found.unclear);
    json["forward"] = found.forward.as_ref().map_or(Json::Null, of);
    json["reverse"] = found.reverse.as_ref().map_or(Json::Null, of);
    match &found.second {
        Some(Ok(worst)) => json["second"] = of(worst),
        Some(Err(why)) => json["no_second"] = json!(why),
        None => json["second"] = Json::Null,
    }
}
