//! Estimates what each variable of a function contributes to the rounding error of its result, and which variables may
//! have narrower types.
//!
//! # The estimate
//!
//! Every operation `y = f(x)` gives `ŷ = y·(1 + δ)` with `|δ| ≤ u`. To first order in the roundings, the error of a result
//! `r` is the sum of `r̄·y·δ` over all operations that run, where `r̄ = ∂r/∂y` is the cotangent of the operation's result,
//! so that
//!
//! ```text
//! |r̂ - r| ≤ Σ |r̄·y|·u
//! ```
//!
//! (Linnainmaa, "Taylor expansion of the accumulated rounding error", 1976; Iri, "Simultaneous computation of functions,
//! partial derivatives and estimates of rounding errors", 1984; for programs, Menon et al., "ADAPT: Algorithmic
//! Differentiation Applied to Floating-Point Precision Tuning", 2018, and Vassilev et al., "Fast And Automatic Floating
//! Point Error Analysis With CHEF-FP", 2023). One run of reverse mode has all of these terms: see [`observe`]. It runs in
//! doubles, whatever the types of the program are, so that the terms themselves are not rounded.
//!
//! A term belongs to the variable whose value the operation computes: see [`owners`]. The function is also run in its own
//! types and in numbers of twice a double's digits, which gives the error that it really has at the same points.
//!
//! # Narrower types
//!
//! The error of a program in which a variable has a narrower type is the estimate of that program: its source is changed,
//! compiled and observed as the program itself ([`narrow`]). So the types of all operations, and the conversions, are
//! those that the language gives them.
//!
//! The estimate is about the result. The error of a derivative, if it is asked for, is measured.

mod derivative;
pub mod narrow;
pub mod observe;
pub mod owners;
mod structs;

use std::path::{Path, PathBuf};

use ir::interp::precise::{Number as Wide, Precise};
use ir::{Global, Scalar, scalar};
use lower::Request;
use serde_json::Value as Json;
use syntax::{Diagnostic, FileId, Span};

use self::derivative::Derivatives;
use self::observe::Row;
use self::owners::{Owners, Variable};
use crate::bind::{Bind, BindValue};
use crate::call::{Callee, Direction, Number, Point};
use crate::error::{Error, Failure, source_span};
use crate::gradcheck::Random;
use crate::launch::{Backend, CodeOptions};
use crate::oracle::Oracle;
use crate::pipeline::{self, Compiled, Loaded};
use crate::ranges::Ranges;
use crate::session::{Session, core_text};

/// The text of the library with the observation.
const LIBRARY: &str = "core/precision.slang";
/// The observation.
const ROUNDED: &str = "__rounded";
/// The buffer that it adds to, with two numbers for each row.
const TABLE: &str = "__roundingErrors";

/// The options of an estimate.
#[derive(Clone, Debug)]
pub struct Options {
    /// The function.
    pub function: String,
    /// Fixed values of parameters.
    pub at: Vec<(String, Json)>,
    /// The number of points.
    pub points: u32,
    /// The ranges that numbers are drawn from.
    pub ranges: Ranges,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The memory that the function reaches, and its content.
    pub memory: Vec<Bind>,
    /// The backend that runs it.
    pub backend: Backend,
    /// The mode of the derivative whose error counts beside that of the value, if there is one.
    pub derivative: Option<Direction>,
    /// Options of code generation.
    pub code: CodeOptions,
}

/// A program as text.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path, for messages.
    pub name: String,
    /// The text.
    pub text: String,
    /// The folder in which imports are searched.
    pub folder: PathBuf,
}

/// A contributor to the error: a variable, or the operations of a line that are no part of one.
#[derive(Clone, Debug)]
pub struct Contribution {
    /// The variable; its name is empty for operations that belong to none.
    pub variable: Variable,
    /// The error that its operations contribute, relative to the size of the result; the largest over the points and
    /// results.
    pub error: f64,
    /// The number of operations that run, at most.
    pub operations: f64,
    /// For each narrower type, the first one the widest, the estimate for the program with the variable in that type, or
    /// the reason why there is no such program.
    pub narrower: Vec<(Scalar, Result<f64, String>)>,
}

/// An estimate of the error of a function.
#[derive(Clone, Debug)]
pub struct Report {
    /// The names of the results.
    pub outputs: Vec<String>,
    /// The largest size of each result over the points, which errors are relative to; 1 where it is 0.
    pub sizes: Vec<f64>,
    /// The number of points.
    pub points: usize,
    /// The number of points that were left out because a result, or a derivative that counts, is infinite or NaN
    /// there.
    pub left_out: usize,
    /// The estimate: the largest one over the points and results.
    pub estimated: f64,
    /// The errors that the function has in its own types.
    pub measured: Measured,
    /// A bound of the error that holds to all orders, by intervals, or the first place where there is none.
    pub enclosed: Result<f64, Unbounded>,
    /// The contributions, the largest first.
    pub contributions: Vec<Contribution>,
    /// The contribution of the operations of each line of a file.
    pub lines: Vec<(FileId, u32, f64)>,
}

/// The errors that a function has in its own types, the largest ones over points and results.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// The error of the value; `None` where the function could not be run in numbers of twice a double's digits.
    pub value: Option<f64>,
    /// The error of the derivative, if [`Options::derivative`] asks for it: compared with that of the program in doubles,
    /// and relative to the largest size of the derivatives of the result by the parameter.
    pub derivative: Option<f64>,
}

impl Measured {
    /// Returns true if a known error is larger than a tolerance.
    pub fn exceeds(&self, tolerance: f64) -> bool {
        [self.value, self.derivative].into_iter().flatten().any(|error| error > tolerance)
    }
}

/// Why intervals do not bound the error.
#[derive(Clone, Debug, PartialEq)]
pub struct Unbounded {
    /// The reason why the run stopped.
    pub why: String,
    /// Where.
    pub span: Option<Span>,
    /// The number of points where this or something like it happened.
    pub points: usize,
}

/// A function that is compiled for estimates.
pub struct Model {
    /// In doubles, observed, with its reverse derivative.
    wide: Callee,
    rows: Vec<Row>,
    table: Option<Global>,
    /// The variables.
    pub owners: Owners,
    /// The program's own text.
    pub root: FileId,
    loaded: Loaded,
    request: Request,
    ranges: Ranges,
}

/// The errors of a function at some points.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    /// `[point][result][row]`
    pub errors: Vec<Vec<Vec<f64>>>,
    /// The largest number of operations of each row.
    pub counts: Vec<f64>,
    /// `[point][result]`
    pub values: Vec<Vec<f64>>,
}

impl Errors {
    /// The largest sum of the chosen rows over all points and results, relative to the sizes of the results.
    fn largest(&self, sizes: &[f64], is_chosen: impl Fn(usize) -> bool) -> f64 {
        let mut largest = 0f64;
        for point in &self.errors {
            for (rows, size) in point.iter().zip(sizes) {
                let chosen = rows.iter().enumerate().filter(|(k, _)| is_chosen(*k));
                let sum: f64 = chosen.map(|(_, error)| error).sum();
                largest = larger(largest, sum / size);
            }
        }
        largest
    }
}

/// The larger of two errors; infinite if one of them is not a number.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::INFINITY } else { a.max(b) }
}

impl Model {
    /// Compiles the function of a program.
    pub fn new(
        session: &mut Session,
        source: &Source,
        options: &Options,
        warnings: &mut Vec<Diagnostic>,
    ) -> Result<Model, Failure> {
        let mut loaded = load(session, source)?;
        let root = loaded.program.ast.files[loaded.file].file;
        let library = core_text(LIBRARY).ok_or_else(|| Error::Internal(format!("{LIBRARY} is missing")))?;
        let index = session.load_library(&mut loaded.program, LIBRARY, library);
        let found = loaded.program.find_function(index, ROUNDED);
        let rounded = *found.first().ok_or_else(|| Error::Internal(format!("{ROUNDED} is missing")))?;
        loaded.errors()?;
        let function = loaded.function(&options.function)?;
        let ranges = options.ranges.with_declared(&mut loaded.program, &function)?;
        let top = function.decl;
        let rounded = check::tables::FuncRef { decl: rounded, args: Vec::new(), self_ty: None };
        let request = Request {
            functions: vec![function, rounded],
            derivatives: true,
            sparse: true,
            ..Request::default()
        };
        let asked = pipeline::Options { observe: true, widen: true, ..pipeline::Options::default() };
        let mut compiled = loaded.compile(&request, &asked)?;
        let request = Request { functions: request.functions[..1].to_vec(), ..Request::default() };
        compiled.functions.truncate(1);
        let observed = std::mem::take(&mut compiled.observed);
        warnings.append(&mut compiled.warnings);
        let owners = Owners::of(&loaded.program, &session.sources, root, top, &observed.functions);
        let rows = observed.rows;
        let mut memory = options.memory.clone();
        if compiled.module.globals.values().any(|global| global.name == TABLE) {
            let n = 2 * rows.len().max(1) as u64;
            memory.push(Bind { name: TABLE.into(), value: BindValue::Zeros(n) });
        }
        let wide = callee(&mut loaded, compiled, options, &memory, Direction::Reverse)?;
        let table = wide.runner().find(TABLE);
        Ok(Model { wide, rows, table, owners, root, loaded, request, ranges })
    }

    /// The function with the types that the program declares.
    fn own(&mut self, options: &Options) -> Result<Callee, Failure> {
        let direction = options.derivative.unwrap_or(Direction::Reverse);
        self.unobserved(options, direction, &pipeline::Options::default())
    }

    /// The function in doubles.
    fn doubles(&mut self, options: &Options, direction: Direction) -> Result<Callee, Failure> {
        let asked = pipeline::Options { widen: true, ..pipeline::Options::default() };
        self.unobserved(options, direction, &asked)
    }

    fn unobserved(
        &mut self,
        options: &Options,
        direction: Direction,
        asked: &pipeline::Options,
    ) -> Result<Callee, Failure> {
        let derivatives = options.derivative.is_some();
        let request = Request { derivatives, sparse: derivatives, ..self.request.clone() };
        let compiled = self.loaded.compile(&request, asked)?;
        callee(&mut self.loaded, compiled, options, &options.memory, direction)
    }

    /// The names of the results that have derivatives.
    fn outputs(&self) -> Vec<String> {
        self.wide.outputs.iter().filter(|n| n.diff).map(|n| n.name.clone()).collect()
    }

    /// The errors at points, which are in the types of `inputs`.
    fn errors(&mut self, inputs: &[Number], points: &[Point]) -> Result<Errors, Failure> {
        let mut all = Errors { counts: vec![0.0; self.rows.len()], ..Errors::default() };
        let n = self.outputs().len();
        for point in points {
            let point = widened(inputs, point);
            let value = self.wide.value(&point)?;
            let values = self.wide.outputs.iter().zip(&value).filter(|n| n.0.diff);
            all.values.push(values.map(|(_, &bits)| f64::from_bits(bits)).collect());
            let mut of_point = Vec::new();
            for output in 0..n {
                let unit: Vec<u64> = (0..n).map(|k| f64::from(u8::from(k == output)).to_bits()).collect();
                self.wide.back(&point, &unit)?;
                let numbers = self.table.map(|table| doubles(self.wide.runner().bytes_of(table)));
                let numbers = numbers.unwrap_or_default();
                for (count, pair) in all.counts.iter_mut().zip(numbers.chunks_exact(2)) {
                    *count = count.max(pair[1]);
                }
                of_point.push(numbers.chunks_exact(2).map(|pair| pair[0]).collect());
            }
            all.errors.push(of_point);
        }
        Ok(all)
    }
}

/// Reads a program, whose text may then be changed.
pub fn read(session: &mut Session, path: &Path) -> Result<Source, Error> {
    let loaded = pipeline::load(session, path)?;
    let root = loaded.program.ast.files[loaded.file].file;
    let file = &session.sources.files[root.0 as usize];
    if file.module.is_some() {
        return Err(Error::input(format!("`{}` is a compiled module, which has no text", path.display())));
    }
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    Ok(Source { name: file.path.clone(), text: file.text.to_string(), folder })
}

/// Loads a program from its text.
pub fn load(session: &mut Session, source: &Source) -> Result<Loaded, Error> {
    let mut program = session.program();
    let file = session.load_text(&mut program, &source.name, source.text.clone(), &source.folder);
    session.load_links(&mut program)?;
    Ok(session.loaded(program, file))
}

fn callee(
    loaded: &mut Loaded,
    compiled: Compiled,
    options: &Options,
    memory: &[Bind],
    direction: Direction,
) -> Result<Callee, Failure> {
    let mut callee = Callee::for_points(compiled, options.backend, &options.code, memory, direction)?;
    callee.bind(loaded, memory)?;
    Ok(callee)
}

/// A point in doubles.
fn widened(inputs: &[Number], point: &Point) -> Point {
    let wide = |(n, &bits): (&Number, &u64)| match n.scalar.is_float() {
        true => scalar::to_f64(n.scalar, bits).to_bits(),
        false => bits,
    };
    inputs.iter().zip(point).map(wide).collect()
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    let of = |chunk: &[u8]| chunk.try_into().map(f64::from_le_bytes).unwrap_or(f64::NAN);
    bytes.chunks_exact(8).map(of).collect()
}

/// A function, its points, and its values there in numbers of twice a double's digits.
pub struct Reference {
    /// The inputs in the types of the program.
    inputs: Vec<Number>,
    outputs: Vec<Number>,
    /// The points of the estimate.
    points: Vec<Point>,
    /// Other points, for the check of a proposal.
    others: Vec<Point>,
    /// The exact values of the results that have derivatives, at `points` and then at `others`; without those that could
    /// not be computed.
    exact: Vec<Option<Vec<Wide>>>,
    sizes: Vec<f64>,
    /// The derivatives at these points, if they are asked for.
    derivatives: Option<Derivatives>,
}

impl Reference {
    /// The largest errors of the function at points, of which the first has this number.
    fn errors(&self, own: &mut Callee, points: &[Point], first: usize) -> Result<Measured, Error> {
        let derivative = match &self.derivatives {
            Some(derivatives) => derivatives.error(own, points, first)?,
            None => None,
        };
        let mut largest = None;
        for (k, value) in own.values(points)?.iter().enumerate() {
            let Some(exact) = &self.exact[first + k] else { continue };
            let found = own.outputs.iter().zip(value).filter(|n| n.0.diff);
            for ((number, &bits), (exact, size)) in found.zip(exact.iter().zip(&self.sizes)) {
                let error = Wide::from(scalar::to_f64(number.scalar, bits)) - *exact;
                largest = Some(larger(largest.unwrap_or(0.0), error.hi.abs() / size));
            }
        }
        Ok(Measured { value: largest, derivative })
    }
}

/// The estimate for a function of a program, with what a proposal needs.
pub struct Estimate {
    /// The estimate.
    pub report: Report,
    /// The program.
    pub source: Source,
    /// The program's own text.
    pub root: FileId,
    reference: Reference,
}

/// Estimates the error of a function; warnings of the program are added to `warnings`.
pub fn estimate(
    session: &mut Session,
    source: &Source,
    options: &Options,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Estimate, Failure> {
    options.backend.find()?;
    let mut model = Model::new(session, source, options, warnings)?;
    let mut own = model.own(options)?;
    let is_diff = |numbers: &[Number]| numbers.iter().any(|n| n.diff);
    if !is_diff(&model.wide.inputs) || !is_diff(&model.wide.outputs) {
        let message = format!("`{}` has no differentiable input and output", options.function);
        return Err(Error::input(message).into());
    }
    let (points, others) = draw(&own, &model.ranges, options)?;
    let inputs = own.inputs.clone();
    let drawn = points.len();
    let is_finite = |model: &mut Model, point: &Point| -> Result<bool, Failure> {
        let value = model.wide.value(&widened(&inputs, point))?;
        let numbers = model.wide.outputs.iter().zip(value).filter(|n| n.0.diff);
        Ok(numbers.into_iter().all(|(_, bits)| f64::from_bits(bits).is_finite()))
    };
    let mut finite = [Vec::new(), Vec::new()];
    for (points, finite) in [points, others].into_iter().zip(&mut finite) {
        for point in points {
            if is_finite(&mut model, &point)? {
                finite.push(point);
            }
        }
    }
    let derivatives = match options.derivative {
        Some(direction) => {
            let (derivatives, points) = Derivatives::at(&mut model, options, direction, &inputs, finite)?;
            finite = points;
            Some(derivatives)
        }
        None => None,
    };
    let [kept, finite_others] = finite;
    if kept.is_empty() {
        let message = match derivatives {
            Some(_) => "a result or derivative is infinite or NaN at every point",
            None => "a result is infinite or NaN at every point",
        };
        return Err(Error::input(format!("{message}; choose others by `--range` or `--at`")).into());
    }
    let errors = model.errors(&inputs, &kept)?;
    let n = model.outputs().len();
    let size = |output: usize| errors.values.iter().map(|v| v[output].abs()).fold(0.0, f64::max);
    let sizes: Vec<f64> = (0..n).map(|k| if size(k) > 0.0 { size(k) } else { 1.0 }).collect();
    let exact = exact(&mut model, options, &inputs, kept.iter().chain(&finite_others))?;
    let reference = Reference {
        inputs,
        outputs: own.outputs.clone(),
        points: kept,
        others: finite_others,
        exact,
        sizes: sizes.clone(),
        derivatives,
    };
    let measured = reference.errors(&mut own, &reference.points, 0)?;
    let enclosed = enclosed(&mut model, options, &reference)?;
    let report = Report {
        outputs: model.outputs(),
        points: reference.points.len(),
        left_out: drawn - reference.points.len(),
        estimated: errors.largest(&sizes, |_| true),
        measured,
        enclosed,
        contributions: contributions(&model, session, &errors, &sizes),
        lines: lines(&model, session, &errors, &sizes),
        sizes,
    };
    Ok(Estimate { report, source: source.clone(), root: model.root, reference })
}

/// The points of the estimate, and as many others.
fn draw(own: &Callee, ranges: &Ranges, options: &Options) -> Result<(Vec<Point>, Vec<Point>), Error> {
    let is_named = |name: &str| options.at.iter().any(|n| n.0 == name);
    let all_named = own.info.params.iter().filter(|p| p.is_input).all(|p| is_named(&p.name));
    let n = if all_named { 1 } else { options.points.max(1) };
    let mut random = Random::new(options.seed);
    let mut points = || -> Result<Vec<Point>, Error> {
        let mut number = |n: &Number| {
            let (low, high) = ranges.of(&n.name);
            Some(random.scalar(n.scalar, low, high))
        };
        (0..n).map(|_| own.point(&options.at, &mut number)).collect()
    };
    Ok((points()?, points()?))
}

/// The results at points in numbers of twice a double's digits.
fn exact<'p>(
    model: &mut Model,
    options: &Options,
    inputs: &[Number],
    points: impl Iterator<Item = &'p Point>,
) -> Result<Vec<Option<Vec<Wide>>>, Failure> {
    let oracle = Oracle::new(&mut model.loaded, &model.request, &options.memory)?;
    let outputs: Vec<usize> = (0..model.wide.outputs.len()).filter(|&k| model.wide.outputs[k].diff).collect();
    let wide = |(n, &bits): (&Number, &u64)| match n.scalar.is_float() {
        true => Precise::from(Wide::from(scalar::to_f64(n.scalar, bits))),
        false => Precise { bits, lo: 0.0 },
    };
    let of = |point: &Point| {
        let numbers: Vec<Precise> = inputs.iter().zip(point).map(wide).collect();
        let found = oracle.precise(&numbers)?;
        outputs.iter().map(|&k| found.get(k).map(|lane| lane.number())).collect()
    };
    Ok(points.map(of).collect())
}

/// A bound of the error at the points of the estimate, by intervals.
fn enclosed(
    model: &mut Model,
    options: &Options,
    reference: &Reference,
) -> Result<Result<f64, Unbounded>, Failure> {
    // Constants that are folded would be rounded before they have bounds.
    let optimise = opt::Options { level: 0, ..opt::Options::default() };
    let own = pipeline::Options { optimise, ..pipeline::Options::default() };
    let oracle = Oracle::with(&mut model.loaded, &model.request, &options.memory, &own)?;
    let outputs = || reference.outputs.iter().enumerate().filter(|n| n.1.diff);
    let mut largest = 0f64;
    let mut unbounded: Option<Unbounded> = None;
    for point in &reference.points {
        match oracle.intervals(point) {
            Ok(found) => {
                for ((k, number), size) in outputs().zip(&reference.sizes) {
                    let (low, high) = found[k].bounds(number.scalar);
                    largest = larger(largest, (high - low) / size);
                }
            }
            Err(error) => {
                let span = Some(error.span).filter(|&span| span != ir::Span::NONE).map(source_span);
                let first = || Unbounded { why: error.message.clone(), span, points: 0 };
                unbounded.get_or_insert_with(first).points += 1;
            }
        }
    }
    Ok(unbounded.map_or(Ok(largest), Err))
}

/// The contribution of each line of a program to the rounding error of a function, relative to the result: the path of the
/// file, the line, and the error.
pub fn by_line(
    session: &Session,
    path: &Path,
    options: &Options,
) -> Result<Vec<(String, u32, f64)>, Failure> {
    let mut session = session.fresh();
    let source = read(&mut session, path)?;
    let found = estimate(&mut session, &source, options, &mut Vec::new())?;
    let path = |FileId(file): FileId| session.sources.files[file as usize].path.clone();
    Ok(found.report.lines.into_iter().map(|(file, line, error)| (path(file), line, error)).collect())
}

/// The contribution of the operations of each line.
fn lines(model: &Model, session: &Session, errors: &Errors, sizes: &[f64]) -> Vec<(FileId, u32, f64)> {
    let place = |row: &Row| {
        let span = source_span(row.span);
        (span.file, session.sources.line_column(span.file, span.start).0)
    };
    let places: Vec<(FileId, u32)> = model.rows.iter().map(place).collect();
    let mut all = places.clone();
    all.sort();
    all.dedup();
    let of = |at: (FileId, u32)| (at.0, at.1, errors.largest(sizes, |row| places[row] == at));
    all.into_iter().map(of).collect()
}

/// The contributions of variables, and of lines where there is none, the largest first.
fn contributions(model: &Model, session: &Session, errors: &Errors, sizes: &[f64]) -> Vec<Contribution> {
    let line = |span: Span| session.sources.line_column(span.file, span.start).0;
    // Rows without a variable belong to their line.
    let mut owners: Vec<Variable> = model.owners.variables.clone();
    let n_variables = owners.len();
    let mut owner_of = Vec::new();
    for row in &model.rows {
        let span = source_span(row.span);
        let owner = model.owners.owner(span).unwrap_or_else(|| {
            let is_same = |v: &Variable| v.span.file == span.file && line(v.span) == line(span);
            let known = owners[n_variables..].iter().position(is_same);
            known.map_or_else(
                || {
                    owners.push(Variable {
                        name: String::new(),
                        function: String::new(),
                        span,
                        ty: String::new(),
                        change: Err("it is no variable"),
                    });
                    owners.len() - 1
                },
                |k| n_variables + k,
            )
        });
        owner_of.push(owner);
    }
    let mut all = Vec::new();
    for (k, variable) in owners.into_iter().enumerate() {
        let of_row = |(owner, n): (&usize, &f64)| if *owner == k { *n } else { 0.0 };
        let operations = owner_of.iter().zip(&errors.counts).map(of_row).fold(0.0, |a, n| a + n);
        if operations == 0.0 && variable.change.is_err() {
            continue;
        }
        let error = errors.largest(sizes, |row| owner_of[row] == k);
        all.push(Contribution { variable, error, operations, narrower: Vec::new() });
    }
    all.sort_by(|a, b| b.error.total_cmp(&a.error));
    all
}
