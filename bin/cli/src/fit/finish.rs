//! Writes what a fit results in, and prints a summary.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use driver::fit::Fit;
use driver::fit::items::Column;
use driver::fit::optimise::least_squares::{Covariance, NoCovariance};
use driver::fit::run::{Ending, Method, Optimum};
use driver::fit::state::{MOST_PLOTTED, State};
use driver::npy::{self, Array};
use driver::{Error, files};
use ir::Scalar;
use serde_json::{Map, Value, json};

use super::Finished;
use super::picture::{self, Picture};
use super::plot::{Curve, Plot};
use crate::report;

/// The most parameters that are printed.
const MOST_PRINTED: usize = 16;

/// The files that were written, and numbers to report.
pub(super) struct Results {
    written: Vec<PathBuf>,
    /// Names and values: the metrics, and the PSNR of a picture.
    metrics: Vec<(String, f64)>,
    /// The covariance of a fit by Levenberg–Marquardt, or the reason why there is none.
    covariance: Option<Result<Covariance, NoCovariance>>,
    /// The results that could not be computed or written, with the reasons.
    lost: Vec<Error>,
}

impl Results {
    /// Writes pictures, predictions, the plot and the parameters. One that cannot be written keeps no other from it.
    pub(super) fn write(
        run: &Finished<'_>,
        fit: &mut Fit,
        state: &State,
        optimum: &Optimum,
        lost: Vec<Error>,
    ) -> Results {
        let mut results = Results { written: Vec::new(), metrics: Vec::new(), covariance: None, lost };
        results.metrics = super::metrics(fit, run.plan, &state.x).unwrap_or_else(|error| {
            results.lost.push(error);
            Vec::new()
        });
        let rendered = results.rendered(run, fit, state);
        results.lost.extend(rendered.err());
        results.plotted(run, fit, state, optimum);
        for (name, array) in fit.arrays(&state.x) {
            results.array(run, run.path(&format!("-{name}.npy")), &array);
        }
        let path = run.path("-parameters.json");
        let json = fit.json(&state.x).and_then(|json| write_json(&path, &json));
        results.note(path, json);
        if run.plan.method == Method::Marquardt {
            match fit.covariance(run.plan, &state.x) {
                Ok(found) => {
                    if let Ok(covariance) = &found {
                        let n = state.x.len();
                        let bits = covariance.matrix.iter().map(|x| x.to_bits()).collect();
                        let array = Array { scalar: Scalar::F64, shape: vec![n, n], bits };
                        results.array(run, run.path("-covariance.npy"), &array);
                    }
                    results.covariance = Some(found);
                }
                Err(error) => results.lost.push(error),
            }
        }
        results
    }

    /// Notes a file that was written, or why it was not.
    fn note(&mut self, path: PathBuf, done: Result<(), Error>) {
        match done {
            Ok(()) => self.written.push(path),
            Err(error) => self.lost.push(error),
        }
    }

    fn array(&mut self, run: &Finished<'_>, path: PathBuf, array: &Array) {
        let done = run.spare(&path).and_then(|()| npy::write(&path, array));
        self.note(path, done);
    }

    fn picture(&mut self, run: &Finished<'_>, path: PathBuf, picture: &Picture) {
        let done = run.spare(&path).and_then(|()| picture.write(&path));
        self.note(path, done);
    }

    /// Writes what the render function gives.
    fn rendered(&mut self, run: &Finished<'_>, fit: &mut Fit, state: &State) -> Result<(), Error> {
        let Some((numbers, width)) = fit.render(&state.x)? else { return Ok(()) };
        let n = numbers.len() / width.max(1);
        let array = || {
            let bits = numbers.iter().map(|x| x.to_bits()).collect();
            Array { scalar: Scalar::F64, shape: vec![n, width], bits }
        };
        let views = &fit.items.views;
        if matches!(width, 1 | 3 | 4) && n == fit.items.n && !views.is_empty() {
            let mut rest = &numbers[..];
            for (k, &(columns, rows)) in views.iter().enumerate() {
                let (pixels, after) = rest.split_at(columns * rows * width);
                rest = after;
                let fitted = Picture::from_numbers(columns, rows, pixels);
                let of = if views.len() > 1 { format!("-{k}") } else { String::new() };
                self.picture(run, run.path(&format!("{of}.png")), &fitted);
                if let Some(target) = run.inputs.targets.get(k) {
                    let sheet = picture::side_by_side(target, &fitted);
                    self.picture(run, run.path(&format!("{of}-compare.png")), &sheet);
                    self.metrics.push((format!("PSNR{of}"), picture::psnr(target, &fitted)));
                }
            }
        } else {
            self.array(run, run.path("-render.npy"), &array());
            self.compared(run, fit, &numbers);
        }
        if let Some(path) = &run.args.results.predict {
            if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) {
                self.array(run, path.clone(), &array());
                return Ok(());
            }
            let mut text = match width {
                1 => "value\n".to_string(),
                _ => (0..width).map(|k| format!("value{k}")).collect::<Vec<_>>().join(",") + "\n",
            };
            for row in numbers.chunks(width.max(1)) {
                text += &(row.iter().map(f64::to_string).collect::<Vec<_>>().join(",") + "\n");
            }
            self.note(path.clone(), files::write(path, text.as_bytes()));
        }
        Ok(())
    }

    /// Plots the loss, and the way of the parameters if they are few.
    fn plotted(&mut self, run: &Finished<'_>, fit: &Fit, state: &State, optimum: &Optimum) {
        let mut history = state.history.clone();
        // The last value of a batch is not the loss of the result.
        if history.last().is_none_or(|last| last.0 < state.step as f64) {
            history.push((state.step as f64, optimum.fitted));
        }
        let mut curves = vec![Curve::line("fitted", history)];
        if !state.validation.is_empty() {
            curves.push(Curve::line("validation", state.validation.clone()));
        }
        let title = format!("loss: {}", run.setup.loss);
        let plot = Plot { title: &title, axis: "step", curves, may_be_logarithmic: true };
        self.picture(run, run.path("-loss.png"), &plot.draw());
        if fit.paths.len() > MOST_PLOTTED {
            return;
        }
        let steps = || state.history.iter().map(|h| h.0);
        let curve = |(k, path): (usize, &String)| {
            let mut points: Vec<(f64, f64)> = steps().zip(state.path.iter().map(|x| x[k])).collect();
            points.push((state.step as f64, state.x[k]));
            Curve::line(path.clone(), points)
        };
        let curves = fit.paths.iter().enumerate().map(curve).collect();
        let plot = Plot { title: "parameters", axis: "step", curves, may_be_logarithmic: false };
        self.picture(run, run.path("-parameters.png"), &plot.draw());
    }

    /// Plots the data and what `render` gives for it: over the only column that `render` reads, or else the one over the
    /// other. The data are the columns that the loss reads and `render` does not, one for each number of `render`.
    fn compared(&mut self, run: &Finished<'_>, fit: &Fit, numbers: &[f64]) {
        let Some(render) = &fit.kernel.render else { return };
        let single = |name: &str| fit.items.columns.iter().find(|c| c.width == 1 && c.name == name);
        // In the order in which the loss takes them, which is that of the numbers of `render`.
        let data = fit.kernel.loss.columns().filter(|name| !render.reads(name)).filter_map(single);
        let data: Vec<&Column> = data.collect();
        let count = data.len();
        if count == 0 || numbers.len() != count * fit.items.n {
            return;
        }
        let over: Vec<&Column> = render.columns().filter_map(single).collect();
        let fitted = |k: usize| numbers.iter().copied().skip(k).step_by(count);
        let (title, axis, curves) = match (&over[..], &data[..]) {
            ([over], _) => {
                let place = || over.values.iter().copied();
                let both = |(k, data): (usize, &&Column)| {
                    let scattered = place().zip(data.values.iter().copied()).collect();
                    let mut fitted: Vec<(f64, f64)> = place().zip(fitted(k)).collect();
                    fitted.sort_by(|a, b| a.0.total_cmp(&b.0));
                    // Each of several columns has the colour of its fit.
                    let colour = Some(k).filter(|_| count > 1);
                    let name = if count > 1 { format!("{} fit", data.name) } else { "fit".into() };
                    let data = Curve::line(data.name.clone(), scattered);
                    [
                        Curve { is_scattered: true, colour, ..data },
                        Curve { colour, ..Curve::line(name, fitted) },
                    ]
                };
                ("data and fit", over.name.as_str(), data.iter().enumerate().flat_map(both).collect())
            }
            (_, [data]) => {
                let pairs = data.values.iter().copied().zip(fitted(0)).collect();
                let ends = data
                    .values
                    .iter()
                    .fold((f64::INFINITY, f64::NEG_INFINITY), |ends, &x| (x.min(ends.0), x.max(ends.1)));
                let same = Curve::line("equal", vec![(ends.0, ends.0), (ends.1, ends.1)]);
                let pairs = Curve { is_scattered: true, ..Curve::line("fit", pairs) };
                ("fit over data", data.name.as_str(), vec![pairs, same])
            }
            _ => return,
        };
        let plot = Plot { title, axis, curves, may_be_logarithmic: false };
        self.picture(run, run.path("-fit.png"), &plot.draw());
    }

    /// Prints the summary, as text or as JSON, and what is lost; returns the status.
    pub(super) fn print(
        &self,
        run: &Finished<'_>,
        fit: &mut Fit,
        state: &State,
        ending: &Ending,
        optimum: &Optimum,
    ) -> Result<u8, Error> {
        if run.args.results.json {
            let text = self.json(run, fit, state, ending, optimum)?;
            report::out(&format!("{text}\n"));
            return Ok(report::errors(&self.lost));
        }
        let mut text = format!("{} steps in {:.1} s", state.step, state.seconds);
        let what = if run.plan.method == Method::Marquardt { "half the sum of squares" } else { "loss" };
        let _ = write!(text, ", {what} {:.6}", optimum.fitted);
        if let Some(apart) = optimum.apart {
            let _ = write!(text, ", validation loss {apart:.6}");
        }
        for (name, x) in &self.metrics {
            match name.starts_with("PSNR") {
                true => _ = write!(text, ", {name} {x:.2} dB"),
                false => _ = write!(text, ", {name} {x:.6}"),
            }
        }
        let _ = writeln!(text, ": {ending}");
        if fit.paths.len() <= MOST_PRINTED {
            for (k, (path, &x)) in fit.paths.iter().zip(&state.x).enumerate() {
                let _ = write!(text, "  {path} = {}", fit.text_of(k, x));
                match self.error(k) {
                    Some(error) => _ = writeln!(text, " ± {}", three_digits(error)),
                    None => text.push('\n'),
                }
            }
        }
        if let Some(Err(why)) = self.covariance {
            let _ = writeln!(text, "note: there are no standard errors: {}", no_covariance(why, fit));
        }
        for file in &self.written {
            let _ = writeln!(text, "wrote {}", file.display());
        }
        report::out(&text);
        let status = report::errors(&self.lost);
        if *ending == Ending::Interrupted {
            report::err(&format!("{}\n", how_to_resume(run, state)?));
        }
        Ok(status)
    }

    /// The standard error of number `k`.
    fn error(&self, k: usize) -> Option<f64> {
        let Some(Ok(covariance)) = &self.covariance else { return None };
        covariance.errors[k]
    }

    fn json(
        &self,
        run: &Finished<'_>,
        fit: &mut Fit,
        state: &State,
        ending: &Ending,
        optimum: &Optimum,
    ) -> Result<Value, Error> {
        let mut all = json!({
            "function": run.setup.loss,
            "steps": state.step,
            "seconds": state.seconds,
            "ending": ending.to_string(),
            "loss": optimum.fitted,
        });
        let metrics: Map<String, Value> =
            self.metrics.iter().map(|(name, x)| (name.clone(), json!(x))).collect();
        let files: Vec<String> = self.written.iter().map(|path| path.display().to_string()).collect();
        if let Some(apart) = optimum.apart {
            all["validation_loss"] = json!(apart);
        }
        if !metrics.is_empty() {
            all["metrics"] = Value::Object(metrics);
        }
        all["parameters"] = Value::Object(fit.json(&state.x)?);
        match &self.covariance {
            Some(Ok(covariance)) => {
                let errors = fit.paths.iter().zip(&covariance.errors);
                let errors: Map<String, Value> =
                    errors.map(|(path, error)| (path.clone(), json!(error))).collect();
                all["standard_errors"] = Value::Object(errors);
                all["residual_deviation"] = json!(covariance.deviation);
            }
            Some(Err(why)) => all["no_standard_errors"] = json!(no_covariance(*why, fit)),
            None => {}
        }
        all["files"] = json!(files);
        if !self.lost.is_empty() {
            all["errors"] = self.lost.iter().map(Error::to_string).collect();
        }
        Ok(all)
    }
}

/// A positive number with three significant digits.
fn three_digits(x: f64) -> String {
    let exponent = x.log10().floor();
    match exponent {
        -4.0..=3.0 => format!("{x:.*}", (2.0 - exponent).max(0.0) as usize),
        _ => format!("{x:.2e}"),
    }
}

fn no_covariance(why: NoCovariance, fit: &Fit) -> String {
    match why {
        NoCovariance::Many => "there are too many parameters".into(),
        NoCovariance::Few => "there are no more residuals than parameters".into(),
        NoCovariance::Undetermined(k) => {
            format!("the residuals do not determine `{}` besides those before it", fit.paths[k])
        }
    }
}

/// Tells how to go on with an interrupted fit; without a checkpoint, one is written.
fn how_to_resume(run: &Finished<'_>, state: &State) -> Result<String, Error> {
    let go_on = "the same command goes on from here with";
    if let Some(path) = &run.args.results.checkpoint {
        let file = path.display();
        return Ok(match run.args.results.resume {
            true => format!("note: the state is in {file}: the same command goes on from here"),
            false => format!("note: the state is in {file}: {go_on} `--resume`"),
        });
    }
    let path = run.path("-checkpoint.json");
    state.save(&path)?;
    let file = path.display();
    Ok(format!("note: the state is in {file}: {go_on} `--checkpoint {file} --resume`"))
}

/// Writes the parameters as a JSON object.
pub(super) fn write_json(path: &Path, parameters: &Map<String, Value>) -> Result<(), Error> {
    let text = serde_json::to_string(parameters).map_err(|e| Error::write(path, e))?;
    files::write(path, format!("{text}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::three_digits;

    #[test]
    fn errors_have_three_digits() {
        let found = [0.0, 2.386_3, 0.012_345, 123.45, 1234.5, 1e-7].map(three_digits);
        assert_eq!(found, ["0.00e0", "2.39", "0.0123", "123", "1234", "1.00e-7"]);
    }
}
