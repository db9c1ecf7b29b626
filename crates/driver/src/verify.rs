//! Checks every differentiable function of a file on every backend and at every level of optimisation.
//!
//! At random points, in double precision ([`crate::widen`]), forward mode, reverse mode, dual numbers
//! evaluated on the code before differentiation, and finite differences must agree ([`crate::gradcheck`]).
//! With the number types that the program declares, each backend must give the same value and derivatives as
//! the interpreter gives for the same code: exactly, apart from the rounding of graphics processors.

use std::path::Path;

use ir::{Scalar, scalar};
use lower::Request;
use serde_json::Value as Json;
use syntax::Diagnostic;

use crate::bind::Bind;
use crate::call::{Callee, Point};
use crate::error::{Error, Failure};
use crate::gradcheck::{self, Entry, Random, Reference, Verdict};
use crate::launch::{Backend, CodeOptions};
use crate::oracle::Oracle;
use crate::pipeline::{self, Compiled, Listed, Loaded};
use crate::ranges::{self, Ranges};
use crate::session::Session;

/// The options of a check.
#[derive(Clone, Debug)]
pub struct Options {
    /// The functions to check; if empty, every differentiable one.
    pub functions: Vec<String>,
    /// Fixed values of parameters; the other parameters are random.
    pub at: Vec<(String, Json)>,
    /// The number of random points.
    pub points: u32,
    /// The ranges that random numbers are drawn from.
    pub ranges: Ranges,
    /// The names among them that a function must have an input of.
    pub ranged: Vec<String>,
    /// The seed of the random numbers. A function's points depend on nothing else.
    pub seed: u64,
    /// The largest accepted relative error in double precision.
    pub tolerance: f64,
    /// The memory that the functions reach, and its content.
    pub memory: Vec<Bind>,
    /// The backends to check.
    pub backends: Vec<Backend>,
    /// The levels of optimisation to check.
    pub levels: Vec<u8>,
    /// Options of code generation, and the limits of memory and time of each launch.
    pub code: CodeOptions,
}

/// The number types that a function is evaluated in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// `double` in place of all floating-point types.
    Double,
    /// The types that the program declares.
    Declared,
}

/// A function on one backend, at one level, with one kind of numbers.
#[derive(Clone, Debug)]
pub struct Row {
    /// The backend that runs it.
    pub backend: Backend,
    /// The level of optimisation.
    pub level: u8,
    /// The kind of its numbers.
    pub numbers: Numbers,
    /// The findings, or the reason why the function cannot be compiled there.
    pub found: Result<Found, String>,
}

/// Findings, each with the index of the point.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Comparisons of derivatives.
    pub entries: Vec<(usize, Entry)>,
    /// Other differences: in values, and in whether the function stops.
    pub others: Vec<(usize, String)>,
}

impl Found {
    /// The number of derivatives with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.entries.iter().filter(|e| e.1.verdict == verdict).count()
    }

    /// The number of differences.
    pub fn differ(&self) -> usize {
        self.count(Verdict::Differs) + self.others.len()
    }
}

/// A checked function of the file.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Its name.
    pub name: String,
    /// The points, as text.
    pub points: Vec<String>,
    /// The findings, or the reason why the function is not checked.
    pub rows: Result<Vec<Row>, String>,
}

/// The findings of a file.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Its functions.
    pub functions: Vec<Checked>,
    /// The warnings of the program.
    pub warnings: Vec<Diagnostic>,
}

/// Checks the functions of a file.
pub fn verify(session: &mut Session, path: &Path, options: &Options) -> Result<Verified, Failure> {
    options.backends.iter().try_for_each(|backend| backend.find())?;
    let mut loaded = pipeline::load(session, path)?;
    loaded.errors()?;
    let all = loaded.differentiable_declarations();
    let chosen = match &options.functions[..] {
        [] => all,
        named => {
            let mut chosen = Vec::new();
            for name in named {
                chosen.push(match all.iter().find(|l| l.name == *name) {
                    Some(listed) => listed.clone(),
                    None => Listed {
                        name: name.clone(),
                        function: loaded.function(name)?,
                        is_member: false,
                        why_not: None,
                    },
                });
            }
            chosen
        }
    };
    ranges::are_inputs(&loaded, &options.ranged, &chosen)?;
    let mut verified = Verified::default();
    for listed in chosen {
        let name = listed.name.clone();
        let (points, rows) = match check(session, path, listed, options, &mut verified.warnings) {
            Ok((points, rows)) => (points, Ok(rows)),
            Err(Failure::Other(Error::Input(why) | Error::Stopped(why))) => (Vec::new(), Err(why)),
            Err(failure) => return Err(failure),
        };
        verified.functions.push(Checked { name, points, rows });
    }
    Ok(verified)
}

type Points = Vec<(Point, Reference)>;

/// Checks one function in a program of its own, so that errors in other functions do not interfere.
fn check(
    session: &mut Session,
    path: &Path,
    listed: Listed,
    options: &Options,
    warnings: &mut Vec<Diagnostic>,
) -> Result<(Vec<String>, Vec<Row>), Failure> {
    if let Some(why) = listed.why_not {
        return Err(Error::input(why).into());
    }
    let loaded = pipeline::load(session, path)?;
    let request = Request { functions: vec![listed.function], ..Request::default() };
    let mut check = Check { loaded, request, options };
    let found = check.rows();
    for warning in check.loaded.warned {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    found
}

/// A function that is being checked.
struct Check<'o> {
    loaded: Loaded,
    request: Request,
    options: &'o Options,
}

impl Check<'_> {
    fn rows(&mut self) -> Result<(Vec<String>, Vec<Row>), Failure> {
        let compiled = self.compile(0, Numbers::Double)?;
        let dynamic = compiled.functions.iter().flat_map(|f| &f.params).find(|p| p.is_dynamic);
        if let Some(param) = dynamic {
            let message = format!(
                "its parameter `{}` has an interface type: check a function that makes its value",
                param.name
            );
            return Err(Error::input(message).into());
        }
        // Differences need many values and nothing else. The interpreter goes first, since it stops in an
        // orderly way if calls do not end.
        let mut first = self.callee(compiled.clone(), Backend::INTERP)?;
        let mut callee = self.callee(compiled, Backend::SOONEST)?;
        if !callee.inputs.iter().any(|n| n.diff) || !callee.outputs.iter().any(|n| n.diff) {
            return Err(Error::input("it has no differentiable input and output").into());
        }
        let oracle = Oracle::new(&mut self.loaded, &self.request, &self.options.memory)?;
        let mut random = Random::new(self.options.seed);
        let function = &self.request.functions[0];
        let ranges = self.options.ranges.with_declared(&mut self.loaded.program, function)?;
        let (mut points, mut texts) = (Points::new(), Vec::new());
        let mut stopped = None;
        for _ in 0..self.options.points.max(1) {
            let point = callee.point(&self.options.at, &mut |n| {
                let (low, high) = ranges.of(&n.name);
                Some(random.scalar(n.scalar, low, high))
            })?;
            match first.value(&point).and_then(|_| gradcheck::reference(&mut callee, &point)) {
                Ok(mut reference) => {
                    reference.dual = oracle.jacobian(&callee, &point);
                    let values = callee.input_texts(&point).into_iter().map(|(n, v)| format!("{n} = {v}"));
                    texts.push(values.collect::<Vec<_>>().join(", "));
                    points.push((point, reference));
                }
                Err(error) => stopped = Some(error),
            }
        }
        if let (Some(error), true) = (stopped, points.is_empty()) {
            return Err(Error::input(format!("it stops at every point: {error}")).into());
        }
        let mut rows = Vec::new();
        for &level in &self.options.levels {
            self.doubles(level, &points, &mut rows)?;
            self.declared(level, &points, &mut rows)?;
        }
        Ok((texts, rows))
    }

    fn compile(&mut self, level: u8, numbers: Numbers) -> Result<Compiled, Failure> {
        let widen = numbers == Numbers::Double;
        let mut options = pipeline::Options { widen, ..pipeline::Options::default() };
        options.optimise.level = level;
        let request = Request { derivatives: true, sparse: true, ..self.request.clone() };
        self.loaded.compile(&request, &options)
    }

    fn callee(&mut self, compiled: Compiled, backend: Backend) -> Result<Callee, Failure> {
        let mut callee = Callee::new(compiled, backend, &self.options.code, &self.options.memory)?;
        callee.bind(&mut self.loaded, &self.options.memory)?;
        Ok(callee)
    }

    /// Runs a compiled function on a backend, and has `judge` compare the results at each point.
    fn row(
        &mut self,
        compiled: &Compiled,
        (backend, level, numbers): (Backend, u8, Numbers),
        judge: impl FnOnce(&mut Callee, &mut Found),
    ) -> Result<Row, Failure> {
        let mut found = Found::default();
        let found = match self.callee(compiled.clone(), backend) {
            Ok(mut callee) => {
                judge(&mut callee, &mut found);
                Ok(found)
            }
            Err(failure) => Err(refused(failure)?),
        };
        Ok(Row { backend, level, numbers, found })
    }

    /// Checks in double precision, against dual numbers and finite differences.
    fn doubles(&mut self, level: u8, points: &Points, rows: &mut Vec<Row>) -> Result<(), Failure> {
        let compiled = self.compile(level, Numbers::Double)?;
        let options = self.options;
        for &backend in options.backends.iter().filter(|&&b| !b.is_device()) {
            rows.push(self.row(&compiled, (backend, level, Numbers::Double), |callee, found| {
                for (k, (point, reference)) in points.iter().enumerate() {
                    match Outcome::of(callee, point) {
                        Ok(o) => {
                            let tolerance = options.tolerance;
                            let entries =
                                gradcheck::entries(callee, &o.forward, &o.reverse, reference, tolerance);
                            found.entries.extend(entries.into_iter().map(|e| (k, e)));
                        }
                        Err(error) => found.others.push((k, format!("it stops: {error}"))),
                    }
                }
            })?);
        }
        Ok(())
    }

    /// Checks with the number types that the program declares, against the interpreter.
    fn declared(&mut self, level: u8, points: &Points, rows: &mut Vec<Row>) -> Result<(), Failure> {
        let compiled = self.compile(level, Numbers::Declared)?;
        let mut interpreter = self.callee(compiled.clone(), Backend::INTERP)?;
        let mut narrowed = Vec::new();
        for (point, _) in points {
            let narrow = |(n, &bits): (&crate::call::Number, &u64)| match n.scalar {
                Scalar::F16 | Scalar::F32 => scalar::convert(Scalar::F64, n.scalar, bits),
                _ => bits,
            };
            let point: Point = interpreter.inputs.iter().zip(point).map(narrow).collect();
            let exact = Outcome::of(&mut interpreter, &point);
            narrowed.push((point, exact));
        }
        for &backend in &self.options.backends {
            rows.push(self.row(&compiled, (backend, level, Numbers::Declared), |callee, found| {
                for (k, ((point, exact), (_, reference))) in narrowed.iter().zip(points).enumerate() {
                    let own = (backend != Backend::INTERP).then(|| Outcome::of(callee, point));
                    compare(
                        callee,
                        (own.as_ref().unwrap_or(exact), exact),
                        (k, reference),
                        backend.is_device(),
                        found,
                    );
                }
            })?);
        }
        Ok(())
    }
}

/// The reason why a backend rejects a program. Errors of the program itself are returned as a failure.
fn refused(failure: Failure) -> Result<String, Failure> {
    match failure {
        Failure::Program(diagnostics) if diagnostics.iter().all(|d| d.code.starts_with("E09")) => {
            Ok(diagnostics.first().map(|d| d.message.clone()).unwrap_or_default())
        }
        failure => Err(failure),
    }
}

/// The value and derivatives that a backend gives for a function at a point.
struct Outcome {
    value: Vec<u64>,
    forward: Vec<Vec<f64>>,
    reverse: Vec<Vec<f64>>,
}

impl Outcome {
    fn of(callee: &mut Callee, point: &Point) -> Result<Outcome, Error> {
        Ok(Outcome {
            value: callee.value(point)?,
            forward: callee.forward(point)?,
            reverse: callee.reverse(point)?,
        })
    }
}

/// The largest accepted relative difference from the interpreter: for machine code, and for a graphics
/// processor.
const NEAR: [f64; 2] = [1e-6, 1e-3];
/// If rounding to the program's own number types changes a derivative by more than this, a comparison with a
/// device is meaningless.
const SOUND: f64 = 1e-4;

/// Compares the outcome on a backend with the outcome of the interpreter for the same code.
fn compare(
    callee: &Callee,
    (given, exact): (&Result<Outcome, Error>, &Result<Outcome, Error>),
    (point, reference): (usize, &Reference),
    device: bool,
    found: &mut Found,
) {
    let (given, exact) = match (given, exact) {
        (Ok(given), Ok(exact)) => (given, exact),
        (Err(_), Err(_)) => return,
        (Err(error), Ok(_)) => {
            found.others.push((point, format!("it stops, the interpreter does not: {error}")));
            return;
        }
        (Ok(_), Err(error)) => {
            found.others.push((point, format!("it does not stop, the interpreter does: {error}")));
            return;
        }
    };
    let near = NEAR[usize::from(device)];
    let apart = |a: f64, b: f64| {
        if a == b || a.is_nan() && b.is_nan() { 0.0 } else { (a - b).abs() / (1.0 + b.abs()) }
    };
    let is_near = |a: f64, b: f64, by: f64| apart(a, b) <= by;
    let mut at = 0;
    for (n, (&a, &b)) in callee.outputs.iter().zip(given.value.iter().zip(&exact.value)) {
        let (a, b) = (scalar::to_f64(n.scalar, a), scalar::to_f64(n.scalar, b));
        let double = n.diff.then(|| reference.values[at]);
        at += usize::from(n.diff);
        let unsound = device && double.is_some_and(|d| !is_near(b, d, SOUND));
        if !is_near(a, b, near) && !unsound {
            found.others.push((point, format!("{} is {a}, the interpreter gives {b}", n.name)));
        }
    }
    for (column, input) in callee.inputs.iter().filter(|n| n.diff).enumerate() {
        for (row, output) in callee.outputs.iter().filter(|n| n.diff).enumerate() {
            let [forward, reverse] = [given, exact].map(|o| [o.forward[row][column], o.reverse[row][column]]);
            let [[forward, reverse], [exact_forward, exact_reverse]] = [forward, reverse];
            let errors = [apart(forward, exact_forward), apart(reverse, exact_reverse)];
            let dual = reference.dual.as_ref().map(|d| d[row][column]);
            let double = dual.map_or(reference.slopes[column][row].0, |d| d.slope);
            let sound = is_near(exact_forward, double, SOUND) && is_near(exact_reverse, double, SOUND);
            // Where the value is finite, either both derivatives exist or neither does.
            let lost = forward.is_nan() != reverse.is_nan()
                && given
                    .value
                    .iter()
                    .zip(&callee.outputs)
                    .all(|(&b, n)| scalar::to_f64(n.scalar, b).is_finite());
            let verdict = if errors.iter().all(|&e| e <= near) && !lost {
                Verdict::Agrees
            } else if device && !sound && !lost {
                Verdict::Unclear
            } else {
                Verdict::Differs
            };
            let entry = Entry {
                output: output.name.clone(),
                input: input.name.clone(),
                forward,
                reverse,
                dual: Some(double),
                cut: None,
                differences: reference.slopes[column][row].0,
                error: if errors[0].is_nan() { errors[0] } else { errors[1].max(errors[0]) },
                verdict,
            };
            found.entries.push((point, entry));
        }
    }
}
