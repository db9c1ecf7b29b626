//! Turns the options of `fit` into a plan, and reports those that the method would ignore.

use std::path::Path;

use clap::{CommandFactory as _, FromArgMatches as _};
use driver::fit::kernel::Task;
use driver::fit::optimise::Tolerances;
use driver::fit::optimise::bounds::Bounds;
use driver::fit::optimise::least_squares::Robust;
use driver::fit::optimise::rule::{Method as First, Rates, Rule};
use driver::fit::optimise::schedule::{Schedule, Shape};
use driver::fit::run::{Method, Plan, Validation};
use driver::fit::{Fit, Init};
use driver::ranges::covers;
use driver::{Error, bind, files};

use super::args::{FitArgs, Optimizer};
use super::at;
use crate::args::{Cli, Command};
use crate::report::{self, Stop};

/// The options in a file's `// fit:` comments.
pub(crate) fn file_options(file: &Path) -> Vec<String> {
    // A pipe can be read only once.
    let text = file.is_file().then(|| files::read_text(file, files::PROGRAM));
    let Some(Ok(text)) = text else { return Vec::new() };
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("// fit:"));
    lines.flat_map(str::split_whitespace).map(String::from).collect()
}

/// The arguments, preceded by those from the file's `// fit:` comments; `None` if the file has no such
/// comments.
pub(super) fn with_file_options(args: &FitArgs) -> Result<Option<FitArgs>, u8> {
    let words = file_options(&args.source.file);
    if words.is_empty() {
        return Ok(None);
    }
    let given = std::env::args().skip_while(|a| a != "fit").skip(1);
    let all = ["pullback", "fit"].map(String::from).into_iter().chain(words).chain(given);
    // If an option is given twice, the later value is used, so the command line goes last.
    let command = Cli::command().mut_subcommand("fit", |fit| fit.args_override_self(true));
    match command.try_get_matches_from(all).and_then(|found| Cli::from_arg_matches(&found)) {
        Ok(Cli { command: Command::Fit(args) }) => Ok(Some(*args)),
        Ok(_) => Ok(None),
        Err(error) => {
            let _ = error.print();
            Err(2)
        }
    }
}

/// Refuses what is given twice: of two, one would be ignored.
pub(super) fn check_once(args: &FitArgs) -> Result<(), Stop> {
    let (method, results) = (&args.method, &args.results);
    let named = |text: &String| Some(text.split_once('=')?.0.trim().to_string());
    for (option, texts) in [("--param", &args.param), ("--rate", &method.rate), ("--bounds", &method.bounds)]
    {
        // A rate without a name is that of all.
        let names: Vec<String> = texts.iter().map(|text| named(text).unwrap_or_default()).collect();
        let is_file = |k: usize| option == "--param" && names[k].is_empty();
        if let Some(k) = (0..names.len()).find(|&k| !is_file(k) && names[..k].contains(&names[k])) {
            let given = format!("{option} {}", names[k]);
            return Err(Stop::Usage(format!("`{}` is given twice", given.trim_end())));
        }
    }
    for (option, names) in [("--fix", &method.fix), ("--metric", &results.metric)] {
        if let Some(k) = (0..names.len()).find(|&k| names[..k].contains(&names[k])) {
            return Err(Stop::Usage(format!("`{option} {}` is given twice", names[k])));
        }
    }
    Ok(())
}

impl Optimizer {
    /// The name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Optimizer::Adam => "adam",
            Optimizer::Adamw => "adamw",
            Optimizer::Sgd => "sgd",
            Optimizer::Lbfgs => "lbfgs",
            Optimizer::Lm => "lm",
        }
    }

    pub(super) fn method(self) -> Method {
        match self {
            Optimizer::Adam | Optimizer::Adamw | Optimizer::Sgd => Method::FirstOrder,
            Optimizer::Lbfgs => Method::Lbfgs,
            Optimizer::Lm => Method::Marquardt,
        }
    }
}

/// Options and the methods that heed them.
const HEEDED: [(&str, &[Method]); 12] = [
    ("--rate", &[Method::FirstOrder]),
    ("--schedule", &[Method::FirstOrder]),
    ("--warm-up", &[Method::FirstOrder]),
    ("--momentum", &[Method::FirstOrder]),
    ("--weight-decay", &[Method::FirstOrder]),
    ("--clip", &[Method::FirstOrder]),
    ("--loss-scale", &[Method::FirstOrder]),
    ("--batch", &[Method::FirstOrder]),
    ("--accumulate", &[Method::FirstOrder]),
    ("--tolerance", &[Method::Lbfgs, Method::Marquardt]),
    ("--gradient-tolerance", &[Method::Lbfgs, Method::Marquardt]),
    ("--robust", &[Method::Marquardt]),
];
/// Options that a function that is called once has no use for.
const BY_ITEM: [&str; 3] = ["--batch", "--accumulate", "--validation"];

/// Returns true if the option stands on the command line, in contrast to the file's own options: those may be meant
/// for another method than the command line asks for.
fn is_given(option: &str) -> bool {
    std::env::args()
        .any(|a| a.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
}

/// The method; an error if an option is given that it ignores.
pub(super) fn optimizer(args: &FitArgs) -> Result<Optimizer, Stop> {
    let default = if args.residuals.is_some() { Optimizer::Lm } else { Optimizer::Adam };
    let optimizer = args.method.optimizer.unwrap_or(default);
    if args.residuals.is_some() && optimizer != Optimizer::Lm {
        let why = format!("`--residuals` is for `--optimizer lm`; `{}` minimises a loss", optimizer.name());
        return Err(Stop::Usage(why));
    }
    let ignored = |option: &&(&str, &[Method])| is_given(option.0) && !option.1.contains(&optimizer.method());
    if let Some((option, _)) = HEEDED.iter().find(ignored) {
        return Err(Stop::Usage(format!("`{option}` has no meaning for `--optimizer {}`", optimizer.name())));
    }
    if optimizer == Optimizer::Lm && args.method.validation.is_some() {
        return Err(Stop::Usage("`--validation` has no meaning for `--optimizer lm`".into()));
    }
    Ok(optimizer)
}

/// The kind of function that is minimised, and the rule of its steps.
pub(super) fn task(args: &FitArgs, optimizer: Optimizer) -> Task {
    let method = match optimizer {
        Optimizer::Lm => return Task::Residuals,
        // L-BFGS makes no steps by kernels.
        Optimizer::Adam | Optimizer::Lbfgs => First::Adam,
        Optimizer::Adamw => First::AdamW,
        Optimizer::Sgd => First::Sgd,
    };
    let momentum = args.method.momentum.unwrap_or(if method == First::Sgd { 0.0 } else { 0.9 });
    Task::Loss(Rule { method, momentum, decay: args.method.weight_decay.unwrap_or(0.0) })
}

/// The name of the function that is minimised.
pub(super) fn function(args: &FitArgs, optimizer: Optimizer) -> String {
    match (&args.residuals, optimizer) {
        (Some(name), _) => name.clone(),
        (None, Optimizer::Lm) if !is_given("--loss") => "residuals".to_string(),
        (None, _) => args.loss.clone(),
    }
}

/// The plan of the fit.
pub(super) fn plan(args: &FitArgs, fit: &Fit, optimizer: Optimizer) -> Result<Plan, Stop> {
    let method = &args.method;
    if let Some(option) = BY_ITEM.iter().find(|option| fit.kernel.loss.is_whole() && is_given(option)) {
        let name = &fit.kernel.loss.name;
        return Err(Stop::Usage(format!(
            "`{option}` has no meaning for `{name}`, which takes columns as a whole"
        )));
    }
    let shape = Shape::parse(&method.schedule).ok_or_else(|| {
        let text = &method.schedule;
        let wanted = "constant, cosine[:END], exponential[:END] or one-cycle[:END], END from 0 to 1";
        Stop::Usage(format!("`--schedule {text}`: expected {wanted}"))
    })?;
    let robust = match &method.robust {
        None => Robust::Square,
        Some(text) => robust(text).ok_or_else(|| {
            Stop::Usage(format!("`--robust {text}`: expected huber:D or cauchy:D, D above 0"))
        })?,
    };
    Ok(Plan {
        method: optimizer.method(),
        steps: args.steps,
        seconds: args.seconds,
        batch: method.batch.unwrap_or(8192),
        accumulate: method.accumulate.unwrap_or(1),
        schedule: Schedule { shape, warm_up: method.warm_up },
        rates: Rates { rates: rates(args, fit)?, bounds: bounds(args, fit)? },
        clip: method.clip,
        loss_scale: method.loss_scale.unwrap_or(1.0),
        tolerances: Tolerances {
            decrease: method.tolerance.unwrap_or(1e-9),
            gradient: method.gradient_tolerance.unwrap_or(0.0),
        },
        robust,
        validation: method
            .validation
            .filter(|&share| share > 0.0)
            .map(|share| Validation { share, patience: method.patience.unwrap_or(10) }),
        seed: args.seed,
    })
}

fn robust(text: &str) -> Option<Robust> {
    let (name, distance) = text.split_once(':')?;
    let distance: f64 = distance.trim().parse().ok().filter(|&d: &f64| d > 0.0 && d.is_finite())?;
    match name {
        "huber" => Some(Robust::Huber(distance)),
        "cauchy" => Some(Robust::Cauchy(distance)),
        _ => None,
    }
}

/// The learning rate of each number: that of the longest matching name, else the common one.
fn rates(args: &FitArgs, fit: &Fit) -> Result<Vec<f64>, Stop> {
    let mut common = 0.01;
    let mut named: Vec<(String, f64)> = Vec::new();
    for text in &args.method.rate {
        let (name, rate) = text.rsplit_once('=').map_or(("", text.as_str()), |(n, r)| (n.trim(), r));
        let rate: f64 = rate
            .trim()
            .parse()
            .ok()
            .filter(|r: &f64| r.is_finite())
            .ok_or_else(|| Stop::Usage(format!("`--rate {text}`: not a number")))?;
        if name.is_empty() {
            common = rate;
        } else {
            check_name(fit, name, &format!("--rate {text}"))?;
            named.push((name.to_string(), rate));
        }
    }
    named.sort_by_key(|n| n.0.len());
    Ok(fit
        .names
        .iter()
        .map(|n| named.iter().rev().find(|(name, _)| covers(name, n)).map_or(common, |r| r.1))
        .collect())
}

/// The bounds of each number; the start is moved to within them by the caller.
fn bounds(args: &FitArgs, fit: &Fit) -> Result<Bounds, Stop> {
    let mut bounds = Bounds::none(fit.start.len());
    for text in &args.method.bounds {
        let wrong = || Stop::Usage(format!("`--bounds {text}`: expected NAME=LO,HI with LO at most HI"));
        let (name, range) = text.split_once('=').ok_or_else(wrong)?;
        let (low, high) = range.split_once(',').unwrap_or((range, ""));
        let end = |text: &str, none: f64| match text.trim() {
            "" => Some(none),
            text => text.parse().ok().filter(|x: &f64| !x.is_nan()),
        };
        let low = end(low, f64::NEG_INFINITY).ok_or_else(wrong)?;
        let high = end(high, f64::INFINITY).filter(|&high| low <= high).ok_or_else(wrong)?;
        check_name(fit, name.trim(), &format!("--bounds {text}"))?;
        for k in (0..fit.names.len()).filter(|&k| covers(name.trim(), &fit.names[k])) {
            (bounds.low[k], bounds.high[k]) = (low, high);
        }
    }
    for name in &args.method.fix {
        check_name(fit, name, &format!("--fix {name}"))?;
        for k in (0..fit.names.len()).filter(|&k| covers(name, &fit.names[k])) {
            (bounds.low[k], bounds.high[k]) = (fit.start[k], fit.start[k]);
        }
    }
    if (0..fit.start.len()).all(|k| bounds.low[k] == bounds.high[k]) {
        return Err(Stop::Usage("`--fix`: every parameter is fixed".into()));
    }
    Ok(bounds)
}

/// Returns an error if no number is covered by a name.
fn check_name(fit: &Fit, name: &str, option: &str) -> Result<(), Stop> {
    if fit.names.iter().any(|n| covers(name, n)) {
        return Ok(());
    }
    let mut known = fit.names.clone();
    known.sort();
    known.dedup();
    Err(Error::input(format!("`{option}`: what is fitted is {}", known.join(", "))).into())
}

/// The initial values of the parameters: `--param NAME=INIT`, or `--param @FILE.json` for all.
pub(super) fn inits(args: &FitArgs, folder: &Path) -> Result<Vec<(String, Init)>, Stop> {
    let mut inits = Vec::new();
    for text in &args.param {
        match text.strip_prefix('@').filter(|path| path.ends_with(".json")) {
            Some(path) => {
                for (name, value) in files::read_json(&at(folder, path))? {
                    inits.push((name, Init::Value(bind::BindValue::Json(value))));
                }
            }
            None => inits.push(init(text, folder)?),
        }
    }
    Ok(inits)
}

fn init(text: &str, folder: &Path) -> Result<(String, Init), Stop> {
    let (name, init) =
        text.split_once('=').ok_or_else(|| Stop::Usage(format!("`--param {text}`: expected NAME=INIT")))?;
    let init = init.trim();
    let init = if init == "zeros" {
        Init::Random(0.0, 0.0)
    } else if let Some(range) = init.strip_prefix("random:") {
        let (low, high) = report::range(range)
            .ok_or_else(|| Stop::Usage(format!("`--param {text}`: expected random:LO,HI, finite")))?;
        Init::Random(low, high)
    } else if init.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        Init::Function(init.to_string())
    } else if let Some(path) = init.strip_prefix('@') {
        Init::Value(bind::BindValue::Npy(at(folder, path)))
    } else {
        Init::Value(bind::parse_value(init).map_err(|why| Stop::Usage(format!("`--param {name}`: {why}")))?)
    };
    Ok((name.trim().to_string(), init))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_values_are_read() {
        let folder = Path::new("");
        let of = |text: &str| init(text, folder).expect("parses").1;
        assert_eq!(of("x=zeros"), Init::Random(0.0, 0.0));
        assert_eq!(of("x=random:-1,2"), Init::Random(-1.0, 2.0));
        assert_eq!(of("x=start"), Init::Function("start".into()));
        assert!(matches!(of("x=[1,2]"), Init::Value(_)));
        assert!(init("x", folder).is_err());
    }

    #[test]
    fn robust_losses_are_read() {
        assert_eq!(robust("huber:0.5"), Some(Robust::Huber(0.5)));
        assert_eq!(robust("cauchy:2"), Some(Robust::Cauchy(2.0)));
        assert!(["huber", "huber:0", "huber:nan", "tukey:1"].iter().all(|text| robust(text).is_none()));
    }
}
