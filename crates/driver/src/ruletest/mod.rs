//! Measures the error of derivatives that are written by hand: rules of the library, and custom derivatives of a file.
//!
//! The derivative of a function with a rule is computed as the program declares it, in its own types, forward and reverse,
//! and compared with slopes of the function itself ([`slopes`]). These come from differences of the code before
//! differentiation in numbers of twice a double's digits, so that an error is told in units of the derivative's last digit
//! (ulp), also for doubles. Second derivatives are compared with second differences, in units of the last digit of the
//! largest one and of the slopes at the point, since a single one may be a difference of large numbers.
//!
//! Points are numbers of the parameters' ranges: special ones (0, 1, the ends of the range), random ones, uniform and by
//! magnitude, and numbers equal to each other. Where a function has a kink, its derivative may be any number between the slopes on
//! both sides; where differences do not converge, at the end of the domain, only forward and reverse mode are compared
//! with each other.

mod slopes;

use std::path::{Path, PathBuf};

use ir::interp::precise::Number as Wide;
use ir::{Scalar, scalar};
use lower::{Request, Step};
use serde_json::Value as Json;
use syntax::Diagnostic;

use self::slopes::{Along, Place, Slope};
use crate::bind::Bind;
use crate::call::{Callee, Number, Point};
use crate::error::{Error, Failure};
use crate::gradcheck::Random;
use crate::launch::{Backend, CodeOptions};
use crate::oracle::Oracle;
use crate::pipeline::{self, Listed, Loaded};
use crate::ranges::{self, Ranges};
use crate::session::Session;

/// Functions of the library's rules, one for each, with the ranges where their slopes are those of the function.
const LIBRARY: &str = include_str!("library.slang");
/// The types that the library's rules are tested for.
const TYPES: [&str; 3] = ["half", "float", "double"];

/// The program whose rules are tested.
#[derive(Clone, Debug)]
pub enum Rules {
    /// The library's.
    Library,
    /// Those of functions that a file has.
    File(PathBuf),
}

/// The options of a test.
#[derive(Clone, Debug)]
pub struct Options {
    /// The functions to test; if empty, every one with a rule.
    pub functions: Vec<String>,
    /// Fixed values of parameters.
    pub at: Vec<(String, Json)>,
    /// The number of points.
    pub points: u32,
    /// The ranges that numbers are drawn from.
    pub ranges: Ranges,
    /// The names among them that a function must have an input of.
    pub ranged: Vec<String>,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The memory that the functions reach, and its content.
    pub memory: Vec<Bind>,
    /// The backend that computes the derivatives.
    pub backend: Backend,
    /// Options of code generation.
    pub code: CodeOptions,
}

/// A function whose derivative was tested.
#[derive(Clone, Debug)]
pub struct Tested {
    /// Its name.
    pub name: String,
    /// The type of its numbers, for rules of the library.
    pub of: Option<&'static str>,
    /// The findings, or the reason why it is not tested.
    pub found: Result<Found, String>,
}

/// The findings of a function.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The derivatives (of an output along an input at a point) that were compared with slopes.
    pub compared: usize,
    /// Those at kinks.
    pub kinks: usize,
    /// Those where differences do not converge.
    pub unclear: usize,
    /// The largest error in forward mode.
    pub forward: Option<Worst>,
    /// The largest error in reverse mode.
    pub reverse: Option<Worst>,
    /// The largest error of a second derivative, or the reason why there are none.
    pub second: Option<Result<Worst, String>>,
}

/// An error in units of the last digit of the exact result, and its place.
#[derive(Clone, Debug)]
pub struct Worst {
    /// The error.
    pub ulps: f64,
    /// The derivative: `d result/d x`.
    pub what: String,
    /// The arguments.
    pub at: String,
    /// The derivative that was computed.
    pub found: f64,
    /// The exact derivative; at kinks, the slope on the nearer side, and NaN where only the two modes were compared.
    pub exact: f64,
}

impl Found {
    /// The largest of all errors.
    pub fn worst(&self) -> Option<&Worst> {
        let second = self.second.as_ref().and_then(|s| s.as_ref().ok());
        let all = [self.forward.as_ref(), self.reverse.as_ref(), second].into_iter().flatten();
        all.max_by(|a, b| a.ulps.total_cmp(&b.ulps))
    }
}

/// Tests rules; warnings of the program are added to `warnings`.
pub fn test(
    session: &mut Session,
    rules: &Rules,
    options: &Options,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Vec<Tested>, Failure> {
    options.backend.find()?;
    let programs: Vec<Option<&'static str>> = match rules {
        Rules::Library => TYPES.iter().copied().map(Some).collect(),
        Rules::File(_) => vec![None],
    };
    let mut all = Vec::new();
    for of in programs {
        let mut loaded = load(session, rules, of)?;
        loaded.errors()?;
        let mut listed = match rules {
            Rules::Library => loaded.differentiable_declarations(),
            Rules::File(_) => loaded.declarations_with_rules(),
        };
        // The library's functions cannot have the names of those that they call.
        if let Rules::Library = rules {
            listed.iter_mut().for_each(|l| l.name = l.name.strip_prefix("d_").unwrap_or(&l.name).to_string());
        }
        for name in &options.functions {
            if !listed.iter().any(|l| l.name == *name) {
                if let Rules::File(_) = rules {
                    // An unknown name is another error.
                    loaded.function(name)?;
                }
                let message =
                    format!("`{name}` has no derivative of its own that could be tested; see `gradcheck`");
                return Err(Error::input(message).into());
            }
        }
        let wanted = |l: &Listed| options.functions.is_empty() || options.functions.contains(&l.name);
        listed.retain(wanted);
        ranges::are_inputs(&loaded, &options.ranged, &listed)?;
        for listed in listed {
            let name = listed.name.clone();
            let found = match one(session, (rules, of), listed, options, warnings) {
                Ok(found) => Ok(found),
                Err(Failure::Other(Error::Input(why) | Error::Stopped(why))) => Err(why),
                Err(failure) => return Err(failure),
            };
            all.push(Tested { name, of, found });
        }
    }
    Ok(all)
}

fn load(session: &mut Session, rules: &Rules, of: Option<&str>) -> Result<Loaded, Error> {
    match rules {
        Rules::File(path) => pipeline::load(session, path),
        Rules::Library => {
            let text = format!("typealias T = {};\n{LIBRARY}", of.unwrap_or("float"));
            let mut program = session.program();
            let file = session.load_text(&mut program, "library.slang", text, Path::new(""));
            Ok(session.loaded(program, file))
        }
    }
}

/// Tests one function, in a program of its own.
fn one(
    session: &mut Session,
    (rules, of): (&Rules, Option<&str>),
    listed: Listed,
    options: &Options,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Found, Failure> {
    if let Some(why) = listed.why_not {
        return Err(Error::input(why).into());
    }
    let mut loaded = load(session, rules, of)?;
    let request = Request { functions: vec![listed.function.clone()], ..Request::default() };
    let ranges = options.ranges.with_declared(&mut loaded.program, &listed.function)?;
    let reference = match rules {
        Rules::Library => loaded.function(&format!("r_{}", listed.name)).ok(),
        Rules::File(_) => None,
    };
    let reference = Request {
        functions: reference.map_or_else(|| request.functions.clone(), |f| vec![f]),
        ..Request::default()
    };
    let found = Test { loaded: &mut loaded, request, reference, options, ranges }.run();
    for warning in loaded.warned {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    found
}

/// A function that is being tested.
struct Test<'l> {
    loaded: &'l mut Loaded,
    request: Request,
    /// The function that has the slopes.
    reference: Request,
    options: &'l Options,
    ranges: Ranges,
}

impl Test<'_> {
    fn run(mut self) -> Result<Found, Failure> {
        let mut callee = self.callee(Vec::new())?;
        let is_diff = |numbers: &[Number]| numbers.iter().any(|n| n.diff);
        if !is_diff(&callee.inputs) || !is_diff(&callee.outputs) {
            return Err(Error::input("it has no differentiable input and output").into());
        }
        let oracle = Oracle::new(self.loaded, &self.reference, &self.options.memory)?;
        let mut found = Found::default();
        // A rule that has no derivative itself is no fault of the function.
        let mut second = match self.callee(vec![vec![Step::SparseVjp, Step::SparseJvp]]) {
            Ok(callee) => Ok(callee),
            Err(Failure::Program(diagnostics)) => {
                Err(diagnostics.first().map_or(String::new(), |d| d.message.clone()))
            }
            Err(failure) => return Err(failure),
        };
        let mut random = Random::new(self.options.seed);
        for k in 0..self.options.points as usize {
            let point = self.point(&callee, k, &mut random)?;
            compare(&mut callee, second.as_mut().ok(), &oracle, &point, &mut found)?;
        }
        if let Err(why) = second {
            found.second = Some(Err(why));
        }
        Ok(found)
    }

    fn callee(&mut self, derived: Vec<Vec<Step>>) -> Result<Callee, Failure> {
        let first = derived.is_empty();
        let request = Request { derivatives: first, sparse: first, derived, ..self.request.clone() };
        let compiled = self.loaded.compile(&request, &pipeline::Options::default())?;
        let options = self.options;
        let mut callee = Callee::new(compiled, options.backend, &options.code, &options.memory)?;
        callee.bind(self.loaded, &options.memory)?;
        Ok(callee)
    }

    /// Point number `k`: in the first ones, all numbers are the same special one where their ranges have it.
    fn point(&self, callee: &Callee, k: usize, random: &mut Random) -> Result<Point, Error> {
        let mut before: Vec<f64> = Vec::new();
        callee.point(&self.options.at, &mut |n| {
            let range = self.ranges.of(&n.name);
            if !n.scalar.is_float() {
                return Some(random.scalar(n.scalar, range.0, range.1));
            }
            let special = special(range).get(k).copied().filter(|x| (range.0..=range.1).contains(x));
            let x = special.unwrap_or_else(|| draw(random, range, &before));
            let bits = within(n.scalar, x, range);
            before.push(scalar::to_f64(n.scalar, bits));
            Some(bits)
        })
    }
}

/// Numbers at which functions are singular more often than at others.
fn special((low, high): (f64, f64)) -> [f64; 6] {
    [0.0, 1.0, low, high, -1.0, 0.5]
}

/// A random number of a range: uniform, by magnitude, a special one, or one that was drawn before.
fn draw(random: &mut Random, (low, high): (f64, f64), before: &[f64]) -> f64 {
    let inside = |x: &f64| (low..=high).contains(x);
    let uniform = low + (high - low) * random.unit();
    let chosen = match random.below(8) {
        0 => {
            let special: Vec<f64> = special((low, high)).into_iter().filter(inside).collect();
            Some(special[random.below(special.len())])
        }
        1 if !before.is_empty() => Some(before[random.below(before.len())]),
        2 | 3 => {
            let most = low.abs().max(high.abs());
            let size = most * 2f64.powf(-24.0 * random.unit());
            Some(if random.below(2) == 0 { size } else { -size })
        }
        _ => None,
    };
    chosen.filter(inside).unwrap_or(uniform)
}

/// The bits of the number of a type that is nearest to `x` and in the range.
fn within(s: Scalar, x: f64, (low, high): (f64, f64)) -> u64 {
    let bits = scalar::from_f64(s, x);
    let rounded = scalar::to_f64(s, bits);
    // The next number towards zero, or away from it.
    match () {
        () if rounded > high => {
            if rounded > 0.0 {
                bits - 1
            } else {
                bits + 1
            }
        }
        () if rounded < low => {
            if rounded < 0.0 {
                bits - 1
            } else {
                bits + 1
            }
        }
        () => bits,
    }
}

/// Compares all derivatives at a point.
fn compare(
    callee: &mut Callee,
    second: Option<&mut Callee>,
    oracle: &Oracle,
    point: &Point,
    found: &mut Found,
) -> Result<(), Failure> {
    let scalars: Vec<Scalar> = callee.inputs.iter().map(|n| n.scalar).collect();
    let rows: Vec<usize> = (0..callee.outputs.len()).filter(|&k| callee.outputs[k].diff).collect();
    let columns: Vec<usize> = (0..callee.inputs.len()).filter(|&k| callee.inputs[k].diff).collect();
    compare_values(callee, point, &columns, &rows, found)?;
    let (forward, reverse) =
        (forward(callee, point, &rows, &columns)?, reverse(callee, point, &rows, &columns)?);
    let place = Place::new(oracle, &scalars, point, rows.clone());
    let mut smooth = true;
    for (column, &input) in columns.iter().enumerate() {
        let slopes = place.slopes(input);
        for (row, &output) in rows.iter().enumerate() {
            let (f, r) = (forward[row][column], reverse[row][column]);
            let types = [callee.outputs[output].scalar, callee.inputs[input].scalar];
            let what = || format!("d {}/d {}", callee.outputs[output].name, callee.inputs[input].name);
            let along = slopes.as_ref().map_or(Along::Unclear, |slopes| slopes[row]);
            let judged = |found: f64, other: f64, s: Scalar| match along {
                Along::Smooth(slope) => {
                    let error = ulps(found, slope.value, slope.value.hi, s);
                    is_sure(error, slope.doubt / unit(slope.value.hi, s)).then_some((error, slope.value.hi))
                }
                Along::Kink(below, above) => {
                    let nearer = found.clamp(below.min(above), below.max(above));
                    Some((ulps(found, nearer.into(), nearer, s), nearer))
                }
                Along::Unclear => {
                    let same = found == other || found.is_nan() && other.is_nan();
                    Some((if same { 0.0 } else { ulps(found, other.into(), other, s) }, f64::NAN))
                }
            };
            let results = [judged(f, r, types[0]), judged(r, f, types[1])];
            match along {
                Along::Smooth(_) if results.iter().all(Option::is_some) => found.compared += 1,
                Along::Kink(..) => found.kinks += 1,
                Along::Smooth(_) | Along::Unclear => found.unclear += 1,
            }
            smooth &= matches!(along, Along::Smooth(_));
            for ((worst, value), result) in
                [&mut found.forward, &mut found.reverse].into_iter().zip([f, r]).zip(results)
            {
                if let Some((error, exact)) = result {
                    add(worst, error, || Worst {
                        ulps: error,
                        what: what(),
                        at: text(callee, point),
                        found: value,
                        exact,
                    });
                }
            }
        }
    }
    match second {
        Some(second) if smooth => compare_second(second, &place, point, &forward, found),
        _ => Ok(()),
    }
}

/// The product by which rules are found out that are not linear in their differential.
const FACTOR: f64 = -0.5;

/// The Jacobian by forward mode. Where the product with [`FACTOR`] is another one, it has that instead, divided by the factor.
fn forward(
    callee: &mut Callee,
    point: &Point,
    rows: &[usize],
    columns: &[usize],
) -> Result<Vec<Vec<f64>>, Failure> {
    let mut found = callee.forward(point)?;
    for (column, &input) in columns.iter().enumerate() {
        let one = scalar::from_f64(callee.inputs[input].scalar, FACTOR);
        let tangents: Vec<u64> = columns.iter().map(|&k| if k == input { one } else { 0 }).collect();
        let (_, product) = callee.along(point, &tangents)?;
        for ((row, &output), product) in rows.iter().enumerate().zip(product) {
            let s = callee.outputs[output].scalar;
            found[row][column] = linear(found[row][column], product / FACTOR, s);
        }
    }
    Ok(found)
}

/// The same by reverse mode.
fn reverse(
    callee: &mut Callee,
    point: &Point,
    rows: &[usize],
    columns: &[usize],
) -> Result<Vec<Vec<f64>>, Failure> {
    let mut found = callee.reverse(point)?;
    for (row, &output) in rows.iter().enumerate() {
        let one = scalar::from_f64(callee.outputs[output].scalar, FACTOR);
        let cotangents: Vec<u64> = rows.iter().map(|&k| if k == output { one } else { 0 }).collect();
        let product = callee.back(point, &cotangents)?;
        for ((column, &input), product) in columns.iter().enumerate().zip(product) {
            let s = callee.inputs[input].scalar;
            found[row][column] = linear(found[row][column], product / FACTOR, s);
        }
    }
    Ok(found)
}

/// One of two numbers that are the same for a linear rule: the second one if it differs by more than rounding.
fn linear(one: f64, other: f64, s: Scalar) -> f64 {
    let same = one == other || one.is_nan() && other.is_nan() || ulps(other, one.into(), one, s) <= 4.0;
    if same { one } else { other }
}

/// Compares the values that forward mode gives with those of the function. Their errors are measured by the size of the
/// value, and of its change if all inputs change by their own size.
fn compare_values(
    callee: &mut Callee,
    point: &Point,
    columns: &[usize],
    rows: &[usize],
    found: &mut Found,
) -> Result<(), Failure> {
    let tangents: Vec<u64> = columns.iter().map(|&k| point[k]).collect();
    let (given, change) = callee.along(point, &tangents)?;
    let wanted = callee.value(point)?;
    for (&output, change) in rows.iter().zip(change) {
        let s = callee.outputs[output].scalar;
        let [given, wanted] = [&given, &wanted].map(|values| scalar::to_f64(s, values[output]));
        if given == wanted || given.is_nan() && wanted.is_nan() {
            continue;
        }
        let size = if change.is_finite() { wanted.abs().max(change.abs()) } else { wanted.abs() };
        add(&mut found.forward, ulps(given, wanted.into(), size, s), || Worst {
            ulps: ulps(given, wanted.into(), size, s),
            what: format!("the value {}", callee.outputs[output].name),
            at: text(callee, point),
            found: given,
            exact: wanted,
        });
    }
    Ok(())
}

/// Compares all second derivatives at a point, where the function has these slopes.
fn compare_second(
    callee: &mut Callee,
    place: &Place<'_>,
    point: &Point,
    slopes: &[Vec<f64>],
    found: &mut Found,
) -> Result<(), Failure> {
    let inputs: Vec<Number> = callee.inputs.iter().filter(|n| n.diff).cloned().collect();
    let columns: Vec<usize> = (0..callee.inputs.len()).filter(|&k| callee.inputs[k].diff).collect();
    let outputs: Vec<String> = callee.outputs.iter().filter(|n| n.diff).map(|n| n.name.clone()).collect();
    let pairs: Vec<(usize, usize)> =
        (0..columns.len()).flat_map(|i| (0..columns.len()).map(move |j| (i, j))).collect();
    let exact: Vec<_> = pairs.iter().map(|&(i, j)| place.second(columns[i], columns[j])).collect();
    let mut worst = found.second.take().and_then(Result::ok);
    for (row, output) in outputs.iter().enumerate() {
        let hessian = callee.hessian(point, row)?;
        let exact: Vec<Option<Slope>> =
            exact.iter().map(|all| all.as_ref().and_then(|all| all[row])).collect();
        let slopes = slopes[row].iter().map(|x| x.abs());
        let largest =
            exact.iter().flatten().map(|slope| slope.value.hi.abs()).chain(slopes).fold(0.0, f64::max);
        for (&(i, j), exact) in pairs.iter().zip(exact) {
            let (Some(exact), value, s) = (exact, hessian[i][j], inputs[i].scalar) else { continue };
            let error = ulps(value, exact.value, largest, s);
            if is_sure(error, exact.doubt / unit(largest, s)) {
                add(&mut worst, error, || Worst {
                    ulps: error,
                    what: format!("d² {output}/d {} d {}", inputs[i].name, inputs[j].name),
                    at: text(callee, point),
                    found: value,
                    exact: exact.value.hi,
                });
            }
        }
    }
    found.second = worst.map(Ok);
    Ok(())
}

/// A difference that is not sure to a quarter of a unit tells only of errors that are much larger.
fn is_sure(error: f64, doubt: f64) -> bool {
    doubt <= 0.25 || error > 16.0 * doubt
}

/// The arguments.
fn text(callee: &Callee, point: &Point) -> String {
    let texts = callee.input_texts(point).into_iter().map(|(n, v)| format!("{n} = {v}"));
    texts.collect::<Vec<_>>().join(", ")
}

fn add(worst: &mut Option<Worst>, error: f64, new: impl FnOnce() -> Worst) {
    if worst.as_ref().is_none_or(|worst| error > worst.ulps) {
        *worst = Some(new());
    }
}

/// The distance of two neighbours of a float type near a number.
fn unit(x: f64, s: Scalar) -> f64 {
    let (digits, least) = match s {
        Scalar::F16 => (10, -14),
        Scalar::F32 => (23, -126),
        _ => (52, -1022),
    };
    let exponent = if x == 0.0 { least } else { (x.abs().log2().floor() as i32).max(least) };
    // Of doubles near zero, the unit itself is no normal number.
    2f64.powi(exponent.max(least + 1)) * 2f64.powi(-digits)
}

/// The error of a derivative in units of the last digit of `largest`, such as the exact one; infinite where it is NaN or
/// infinite and should not be.
fn ulps(found: f64, exact: Wide, largest: f64, s: Scalar) -> f64 {
    // Where that is too large for the type, parts of a smaller one may be, too.
    if !found.is_finite() && !scalar::to_f64(s, scalar::from_f64(s, largest)).is_finite() {
        return 0.0;
    }
    let error = (Wide::from(found) - exact).hi.abs() / unit(largest, s);
    if error.is_nan() { f64::INFINITY } else { error }
}
