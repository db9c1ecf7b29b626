//! Functions that Rust calls, with their derivatives.

mod sparse;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use driver::Step;
use driver::call::{Callee, Number, Point};
use driver::gradcheck::Random;
use driver::pipeline;
use driver::{Request, gradcheck};
use ir::scalar;
use serde_json::Value as Json;
use syntax::Sources;

use crate::failure::{Diagnostic, Failure};
use crate::memory::Memory;
use crate::module::{Module, guarded};
use crate::numbers::{Arguments, Entry, Numbers, Value, base, count, entries, steps, value_at};

/// A compiled function with its derivatives.
///
/// A function is cheap to clone, and several threads can call it at the same time: each such call has a copy of the
/// memory that the function reads. Calls leave nothing behind: what a function writes to memory of the host is undone.
///
/// ```
/// use pullback::{Arguments, Compiler};
///
/// let module = Compiler::new().text("a.slang", "
///     [Differentiable] float2 polar(float r, float angle) { return r * float2(cos(angle), sin(angle)); }")?;
/// let polar = module.function("polar")?;
/// let at = Arguments::from([("r", 2.0), ("angle", 0.0)]);
///
/// // The value, and its derivative along a direction.
/// let (value, tangent) = polar.jvp(&at, [("angle", 1.0)])?;
/// assert_eq!((value.list("result")?, tangent.list("result")?), (vec![2.0, 0.0], vec![0.0, 2.0]));
///
/// // What a cotangent of the result is for the parameters.
/// let back = polar.vjp(&at, [("result", [0.0, 1.0])])?;
/// assert_eq!((back.number("r")?, back.number("angle")?), (0.0, 2.0));
///
/// // All derivatives.
/// let jacobian = polar.jacobian(&at)?;
/// assert_eq!(jacobian.inputs(), ["r", "angle"]);
/// assert_eq!(jacobian.rows(), [[1.0, 0.0], [0.0, 2.0]]);
/// # Ok::<(), pullback::Failure>(())
/// ```
#[derive(Clone)]
pub struct Function {
    shared: Arc<Shared>,
}

struct Shared {
    module: Module,
    name: String,
    memory: Memory,
    parameters: Vec<ParameterInfo>,
    result: Option<ParameterInfo>,
    warnings: Vec<Diagnostic>,
    first: Pool,
    /// With second derivatives, once they are asked for.
    second: OnceLock<Result<Pool, Failure>>,
}

/// A compiled function, with copies for threads that call at the same time.
struct Pool {
    made: Callee,
    sources: Sources,
    idle: Mutex<Vec<Callee>>,
}

/// A parameter of a function, or what it returns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParameterInfo {
    /// Its name; `result` for what the function returns.
    pub name: String,
    /// Its type, as programs write it.
    pub ty: String,
    /// A value is passed in.
    pub is_input: bool,
    /// A value is given back.
    pub is_output: bool,
    /// The paths of its numbers, which [`Numbers`] have, each with true if it has derivatives.
    pub numbers: Vec<(String, bool)>,
}

/// The value of a function, and the derivatives of its one number by its parameters, which [`Deref`](std::ops::Deref)
/// gives by name.
///
/// ```
/// let module = pullback::Compiler::new().text("a.slang", "[Differentiable] float f(float x) { return x * x; }")?;
/// let gradient = module.function("f")?.grad([("x", 3.0)])?;
/// assert_eq!((gradient.value(), gradient.number("x")?), (9.0, 6.0));
/// # Ok::<(), pullback::Failure>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient {
    value: f64,
    numbers: Numbers,
}

impl Gradient {
    /// The function's value.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The derivatives, by the paths of the parameters' numbers.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }
}

impl std::ops::Deref for Gradient {
    type Target = Numbers;

    fn deref(&self) -> &Numbers {
        &self.numbers
    }
}

/// A matrix of derivatives, with the names of its rows and columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Jacobian {
    outputs: Vec<String>,
    inputs: Vec<String>,
    rows: Vec<Vec<f64>>,
}

impl Jacobian {
    /// The path of each row.
    pub fn outputs(&self) -> &[String] {
        &self.outputs
    }

    /// The path of each column.
    pub fn inputs(&self) -> &[String] {
        &self.inputs
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<f64>] {
        &self.rows
    }

    /// The derivative of one number by another.
    pub fn get(&self, output: &str, input: &str) -> Option<f64> {
        let row = self.outputs.iter().position(|name| name == output)?;
        let column = self.inputs.iter().position(|name| name == input)?;
        self.rows.get(row)?.get(column).copied()
    }
}

impl Function {
    pub(crate) fn new(module: &Module, name: &str, memory: Memory) -> Result<Function, Failure> {
        let request = Request { derivatives: true, sparse: true, ..Request::default() };
        let (pool, warnings) = compile(module, (name, &memory), request, None)?;
        let info = &pool.made.info;
        let parameters = info.params.iter().map(|p| parameter(&pool.made, p)).collect();
        let result = (!info.result.leaves.is_empty()).then(|| parameter(&pool.made, &info.result));
        let shared = Shared {
            module: module.clone(),
            name: name.to_string(),
            memory,
            parameters,
            result,
            warnings,
            first: pool,
            second: OnceLock::new(),
        };
        Ok(Function { shared: Arc::new(shared) })
    }

    /// The function's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The parameters, in order.
    pub fn parameters(&self) -> &[ParameterInfo] {
        &self.shared.parameters
    }

    /// The result of the function, unless it returns nothing.
    pub fn result(&self) -> Option<&ParameterInfo> {
        self.shared.result.as_ref()
    }

    /// Warnings about the function, above all about derivatives that are lost.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.shared.warnings
    }

    /// The value: what the function returns, as `result`, and what it gives back through its parameters.
    pub fn call(&self, arguments: impl Into<Arguments>) -> Result<Numbers, Failure> {
        let arguments = arguments.into();
        self.shared.first.on(|callee| {
            let point = point(callee, &arguments)?;
            let bits = callee.value(&point)?;
            Ok(exact(&callee.outputs, &bits))
        })
    }

    /// Like [`Self::call`], for many arguments, which backends with lanes or many cores compute side by side.
    pub fn call_many(&self, arguments: &[Arguments]) -> Result<Vec<Numbers>, Failure> {
        self.shared.first.on(|callee| {
            let points: Result<Vec<Point>, Problem> = arguments.iter().map(|a| point(callee, a)).collect();
            let all = callee.values(&points?)?;
            Ok(all.iter().map(|bits| exact(&callee.outputs, bits)).collect())
        })
    }

    /// The value and the gradient of a function with one differentiable number as its result, by reverse mode.
    pub fn grad(&self, arguments: impl Into<Arguments>) -> Result<Gradient, Failure> {
        let arguments = arguments.into();
        self.shared.first.on(|callee| {
            let outputs: Vec<usize> = (0..callee.outputs.len()).filter(|&k| callee.outputs[k].diff).collect();
            let [output] = outputs[..] else {
                let (name, n) = (&callee.info.name, outputs.len());
                let message = format!(
                    "`{name}` gives {n} differentiable numbers, and a gradient is that of one: `vjp` takes a cotangent \
                     for each, and `jacobian` has all derivatives"
                );
                return Err(Failure::input(message).into());
            };
            let point = point(callee, &arguments)?;
            let bits = callee.value(&point)?;
            let number = &callee.outputs[output];
            let value = driver::npy::number(number.scalar, bits.get(output).copied().unwrap_or_default());
            let row = callee.back(&point, &[scalar::one(number.scalar)])?;
            let numbers = entries(callee.inputs.iter().filter(|n| n.diff), &row);
            Ok(Gradient { value, numbers })
        })
    }

    /// The cotangents of the parameters for cotangents of the results, which are zero unless they are named.
    pub fn vjp(
        &self,
        arguments: impl Into<Arguments>,
        cotangents: impl Into<Arguments>,
    ) -> Result<Numbers, Failure> {
        let (arguments, cotangents) = (arguments.into(), cotangents.into());
        self.shared.first.on(|callee| {
            let point = point(callee, &arguments)?;
            let bits = differentials(&callee.outputs, &cotangents, "cotangent")?;
            let row = callee.back(&point, &bits)?;
            Ok(entries(callee.inputs.iter().filter(|n| n.diff), &row))
        })
    }

    /// The value, and its derivative along tangents of the parameters, which are zero unless they are named.
    pub fn jvp(
        &self,
        arguments: impl Into<Arguments>,
        tangents: impl Into<Arguments>,
    ) -> Result<(Numbers, Numbers), Failure> {
        let (arguments, tangents) = (arguments.into(), tangents.into());
        self.shared.first.on(|callee| {
            let point = point(callee, &arguments)?;
            let bits = differentials(&callee.inputs, &tangents, "tangent")?;
            let (value, tangents) = callee.along(&point, &bits)?;
            let tangents = entries(callee.outputs.iter().filter(|n| n.diff), &tangents);
            Ok((exact(&callee.outputs, &value), tangents))
        })
    }

    /// All first derivatives, by whichever mode takes fewer calls.
    pub fn jacobian(&self, arguments: impl Into<Arguments>) -> Result<Jacobian, Failure> {
        let arguments = arguments.into();
        self.shared.first.on(|callee| {
            let point = point(callee, &arguments)?;
            let (outputs, inputs) = (differentiable(&callee.outputs), differentiable(&callee.inputs));
            let rows = match outputs.len() <= inputs.len() {
                true => callee.reverse(&point)?,
                false => callee.forward(&point)?,
            };
            Ok(Jacobian { outputs, inputs, rows })
        })
    }

    /// The second derivatives of the result with that path by all numbers of the parameters. They are compiled when they
    /// are first asked for.
    ///
    /// ```
    /// let module = pullback::Compiler::new().text("a.slang", "
    ///     [Differentiable] float f(float x, float y) { return x * x * y; }")?;
    /// let hessian = module.function("f")?.hessian([("x", 3.0), ("y", 2.0)], "result")?;
    /// assert_eq!(hessian.rows(), [[4.0, 6.0], [6.0, 0.0]]);
    /// # Ok::<(), pullback::Failure>(())
    /// ```
    pub fn hessian(&self, arguments: impl Into<Arguments>, output: &str) -> Result<Jacobian, Failure> {
        let arguments = arguments.into();
        self.second()?.on(|callee| {
            let point = point(callee, &arguments)?;
            let inputs = differentiable(&callee.inputs);
            let rows = callee.hessian(&point, place(&callee.outputs, output)?)?;
            Ok(Jacobian { outputs: inputs.clone(), inputs, rows })
        })
    }

    /// The second derivatives of the result with that path, times a direction.
    pub fn hessian_vector(
        &self,
        arguments: impl Into<Arguments>,
        output: &str,
        direction: impl Into<Arguments>,
    ) -> Result<Numbers, Failure> {
        let (arguments, direction) = (arguments.into(), direction.into());
        self.second()?.on(|callee| {
            let point = point(callee, &arguments)?;
            let along = differentials(&callee.inputs, &direction, "tangent")?;
            let mut next = along.into_iter();
            let along: Point =
                callee.inputs.iter().map(|n| if n.diff { next.next().unwrap_or(0) } else { 0 }).collect();
            let row = callee.hessian_vector(&point, place(&callee.outputs, output)?, &along)?;
            Ok(entries(callee.inputs.iter().filter(|n| n.diff), &row))
        })
    }

    /// Compares forward and reverse mode with finite differences, in double precision, at points: arguments that are not
    /// given are random.
    ///
    /// ```
    /// use pullback::GradcheckOptions;
    ///
    /// let module = pullback::Compiler::new().text("a.slang", "
    ///     [Differentiable] float f(float x, float y) { return sin(x) * y; }")?;
    /// let checked = module.function("f")?.gradcheck(&GradcheckOptions::new().points(5).range("x", 0.0, 1.0))?;
    /// assert!(checked.agrees() && checked.entries.len() == 10, "{checked}");
    /// # Ok::<(), pullback::Failure>(())
    /// ```
    pub fn gradcheck(&self, options: &GradcheckOptions) -> Result<Gradcheck, Failure> {
        let module = &self.shared.module;
        let memory = &self.shared.memory;
        let ((entries, inputs), sources) = module.with(|_, loaded| {
            loaded.errors()?;
            let functions = vec![loaded.function(&self.shared.name)?];
            let request = Request { functions, derivatives: true, sparse: true, ..Request::default() };
            let compile = pipeline::Options { widen: true, ..module.inner.execution.compile_options() };
            let compiled = loaded.compile(&request, &compile)?;
            let execution = &module.inner.execution;
            let mut callee = Callee::new(compiled, execution.backend, &execution.code, &memory.binds)?;
            callee.bind(loaded, &memory.binds)?;
            let mut random = Random::new(options.seed);
            let named = &options.arguments.0;
            let point = |callee: &Callee, _| {
                let mut draw = |n: &Number| {
                    let (low, high) = options.ranges.of(&n.name);
                    Some(random.scalar(n.scalar, low, high))
                };
                Ok(callee.point(named, &mut draw)?)
            };
            let dual = (loaded, &request, &memory.binds[..]);
            let tolerance = options.tolerance;
            let entries = gradcheck::check_points(&mut callee, dual, options.points, tolerance, point)?;
            Ok((entries, differentiable(&callee.inputs).len()))
        })?;
        if entries.is_empty() {
            let message = match inputs {
                0 => format!("`{}` has no differentiable input", self.shared.name),
                _ => format!("`{}` has no differentiable output", self.shared.name),
            };
            return Err(Failure::input(message));
        }
        let entries = entries.into_iter().map(|(point, entry)| GradcheckEntry::of(&sources, point, entry));
        Ok(Gradcheck { entries: entries.collect() })
    }

    fn second(&self) -> Result<&Pool, Failure> {
        let made = self.shared.second.get_or_init(|| {
            let derived = vec![vec![Step::SparseVjp, Step::SparseJvp]];
            let request = Request { derivatives: true, sparse: true, derived, ..Request::default() };
            let named = (self.shared.name.as_str(), &self.shared.memory);
            Ok(compile(&self.shared.module, named, request, Some(()))?.0)
        });
        made.as_ref().map_err(Failure::clone)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("name", &self.shared.name)
            .field("parameters", &self.shared.parameters)
            .finish_non_exhaustive()
    }
}

/// An error in work on a callee: a failure of this crate or of the compiler, whose places need sources.
enum Problem {
    Own(Failure),
    Compiler(driver::error::Failure),
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        Problem::Own(failure)
    }
}

impl From<driver::Error> for Problem {
    fn from(error: driver::Error) -> Problem {
        Problem::Compiler(error.into())
    }
}

impl Pool {
    /// Lends a callee to `work`.
    fn on<T>(&self, work: impl FnOnce(&mut Callee) -> Result<T, Problem>) -> Result<T, Failure> {
        guarded(|| {
            let problem = |problem| match problem {
                Problem::Own(failure) => failure,
                Problem::Compiler(failure) => Failure::of(&self.sources, failure),
            };
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut callee = match idle {
                Some(callee) => callee,
                None => self.made.fork().map_err(|error| problem(error.into()))?,
            };
            let done = work(&mut callee);
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(callee);
            done.map_err(problem)
        })
    }
}

/// Compiles what the request says of a function, and binds its memory.
fn compile(
    module: &Module,
    (name, memory): (&str, &Memory),
    request: Request,
    quiet: Option<()>,
) -> Result<(Pool, Vec<Diagnostic>), Failure> {
    let execution = &module.inner.execution;
    let ((made, warnings), sources) = module.with(|_, loaded| {
        loaded.errors()?;
        let functions = vec![loaded.function(name)?];
        let compiled = loaded.compile(&Request { functions, ..request }, &execution.compile_options())?;
        let warnings = compiled.warnings.clone();
        let mut callee = Callee::new(compiled, execution.backend, &execution.code, &memory.binds)?;
        let unbound: Vec<String> =
            callee.unbound().into_iter().filter(|name| !is_bound(memory, name)).collect();
        if !unbound.is_empty() {
            let message = format!(
                "`{name}` reads memory to which nothing is bound: `{}`; `function_with` takes its content",
                unbound.join("`, `")
            );
            return Err(driver::Error::input(message).into());
        }
        callee.bind(loaded, &memory.binds).map_err(in_own_words)?;
        Ok((callee, warnings))
    })?;
    let warnings = if quiet.is_some() { Vec::new() } else { module.shown(&sources, &warnings) };
    Ok((Pool { made, sources, idle: Mutex::default() }, warnings))
}

/// An error about memory without the option by which the command line gives it.
fn in_own_words(error: driver::Error) -> driver::Error {
    match error {
        driver::Error::Input(message) => driver::Error::Input(message.replace("`--bind ", "`")),
        other => other,
    }
}

/// Returns true if the host gives something for that name, or for the tensor whose gradient it is.
fn is_bound(memory: &Memory, name: &str) -> bool {
    memory.binds.iter().any(|bind| bind.name == name)
}

fn parameter(callee: &Callee, info: &lower::ParamInfo) -> ParameterInfo {
    let name = if info.name.is_empty() { "result" } else { &info.name };
    let numbers = if info.is_input { &callee.inputs } else { &callee.outputs };
    let own = numbers.iter().filter(|n| base(&n.name) == name);
    ParameterInfo {
        name: name.to_string(),
        ty: info.ty.clone(),
        is_input: info.is_input,
        is_output: info.is_output || info.name.is_empty(),
        numbers: own.map(|n| (n.name.clone(), n.diff)).collect(),
    }
}

fn differentiable(numbers: &[Number]) -> Vec<String> {
    numbers.iter().filter(|n| n.diff).map(|n| n.name.clone()).collect()
}

fn exact(numbers: &[Number], bits: &[u64]) -> Numbers {
    let entry = |(n, &bits): (&Number, &u64)| Entry { path: n.name.clone(), scalar: n.scalar, bits };
    Numbers { list: numbers.iter().zip(bits).map(entry).collect() }
}

/// The index of a result among those with derivatives.
fn place(outputs: &[Number], path: &str) -> Result<usize, Problem> {
    let names = differentiable(outputs);
    names.iter().position(|name| name == path).ok_or_else(|| {
        let names = if names.is_empty() { "none".to_string() } else { names.join(", ") };
        Failure::input(format!("there is no differentiable result `{path}`; there are {names}")).into()
    })
}

/// The numbers that the arguments give to the parameters.
fn point(callee: &Callee, arguments: &Arguments) -> Result<Point, Problem> {
    let missing: Vec<&str> = callee
        .info
        .params
        .iter()
        .filter(|p| p.is_input && !p.leaves.is_empty() && value(arguments, &p.name).is_none())
        .map(|p| p.name.as_str())
        .collect();
    if !missing.is_empty() {
        let message = format!("`{}` needs a value for `{}`", callee.info.name, missing.join("`, `"));
        return Err(Failure::input(message).into());
    }
    for (name, json) in &arguments.0 {
        let wanted = callee.inputs.iter().filter(|n| base(&n.name) == name).count();
        let given = count(json);
        if wanted != given && callee.info.params.iter().any(|p| p.name == *name && p.is_input) {
            let message = format!("`{name}` has {wanted} numbers, and its value has {given}");
            return Err(Failure::input(message).into());
        }
    }
    Ok(callee.point(&arguments.0, &mut |_| None)?)
}

/// The value for a name; of several the last.
fn value<'a>(arguments: &'a Arguments, name: &str) -> Option<&'a Json> {
    arguments.0.iter().rev().find(|given| given.0 == name).map(|given| &given.1)
}

/// The differentials that are given by name, for all numbers that have one; others are zero.
fn differentials(numbers: &[Number], given: &Arguments, what: &str) -> Result<Vec<u64>, Problem> {
    for (name, json) in &given.0 {
        let own: Vec<&Number> = numbers.iter().filter(|n| base(&n.name) == name).collect();
        if !own.iter().any(|n| n.diff) {
            let mut names: Vec<&str> = numbers.iter().filter(|n| n.diff).map(|n| base(&n.name)).collect();
            names.dedup();
            let names = if names.is_empty() { "nothing".to_string() } else { names.join(", ") };
            let message = format!("`{name}` has no {what}; {names} has");
            return Err(Failure::input(message).into());
        }
        let (all, diff) = (own.len(), own.iter().filter(|n| n.diff).count());
        let n = count(json);
        if n != all && n != diff {
            let message = format!("`{name}` has {diff} numbers with a {what}, and its value has {n}");
            return Err(Failure::input(message).into());
        }
    }
    let mut bits = Vec::new();
    for number in numbers.iter().filter(|n| n.diff) {
        let Some(json) = value(given, base(&number.name)) else {
            bits.push(0);
            continue;
        };
        let path = steps(&number.name);
        let found = value_at(json, path.get(1..).unwrap_or_default()).ok_or_else(|| {
            let shown = Value(json.clone()).0;
            Failure::input(format!("the {what} of `{}` is missing in {shown}", number.name))
        })?;
        let read = driver::bind::number(found, number.scalar);
        bits.push(read.map_err(|why| Failure::input(format!("the {what} of `{}`: {why}", number.name)))?);
    }
    Ok(bits)
}

pub use crate::checked::{Gradcheck, GradcheckEntry, GradcheckOptions, Verdict};
pub use sparse::SparseJacobian;
