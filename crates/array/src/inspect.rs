//! Inspects a function: checks, explains and prints its derivatives, and builds libraries.

use std::path::Path;

use driver::around::MEMORY;
use driver::bind::{Bind, BindValue};
use driver::call::{Callee, Point};
use driver::gradcheck;
use driver::launch::Backend;
use driver::pipeline::{self, Compiled, Failure};
use driver::{Request, derive, dump};
use ir::{Scalar, scalar};
use serde_json::{Value, json};

use crate::error::Error;
use crate::function::Function;
use crate::program::{Program, plain};

/// A number of a point at which derivatives are checked.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "kinds of number")]
pub enum Number {
    Int(i64),
    Unsigned(u64),
    Float(f64),
}

/// Options for checking derivatives.
#[derive(Clone, Debug)]
pub struct Check {
    /// The points; each lists the numbers of all leaves of all inputs, in order.
    pub points: Vec<Vec<Number>>,
    /// The largest accepted relative error in double precision.
    pub tolerance: f64,
    /// The contents of the memory that the function accesses, by name.
    pub memory: Vec<(String, Value)>,
}

/// Options for building a library of C functions, as `pullback build` does.
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// The functions to include; if empty, every differentiable function, unless kernels are named.
    pub functions: Vec<String>,
    /// The kernels to include; if empty, all of them.
    pub kernels: Vec<String>,
    /// Generate code for this machine only.
    pub native: bool,
    /// Calls of kernels on the same buffers never run concurrently.
    pub exclusive: bool,
}

impl Function {
    /// Compares forward mode, reverse mode and finite differences at each point, in double precision. Returns
    /// JSON: `{"entries":[…]}`, each with its point, output, input, the three numbers, their error and a
    /// verdict.
    pub fn check(&self, check: &Check) -> Result<String, Error> {
        let done = self.program.with(|session, loaded| {
            loaded.errors()?;
            let (function, _) = plain(session, loaded, &self.wanted)?;
            let request =
                Request { functions: vec![function], derivatives: true, sparse: true, ..Request::default() };
            let options = pipeline::Options { widen: true, ..pipeline::Options::default() };
            let compiled = loaded.compile(&request, &options)?;
            let memory = binds(&compiled, &check.memory);
            let options = &self.program.options.execution.code;
            let mut callee = Callee::new(compiled.clone(), Backend::SOONEST, options, &memory)?;
            callee.bind(loaded, &memory)?;
            let dual = (loaded, &request, &memory[..]);
            let n = check.points.len() as u32;
            let point = |callee: &Callee, k: u32| bits(callee, &check.points[k as usize]);
            let entries = gradcheck::check_points(&mut callee, dual, n, check.tolerance, point)?;
            Ok((compiled, entries))
        });
        let ((compiled, entries), sources) = done?;
        self.program.warn(&compiled.warnings, &sources);
        let entries: Vec<Value> = entries.iter().map(|(k, entry)| entry.to_json(&sources, *k)).collect();
        Ok(json!({ "entries": entries }).to_string())
    }

    /// The function after each pass of differentiation, as `pullback explain` prints it.
    pub fn explain(&self) -> Result<String, Error> {
        let options = &self.program.options.execution.compile;
        let done = self.program.with(|session, loaded| {
            loaded.errors()?;
            let (function, _) = plain(session, loaded, &self.wanted)?;
            dump::explain(loaded, function, options)
        });
        done.map(|found| found.0)
    }

    /// The source of a derivative of the function, as `pullback derive` prints it.
    pub fn derivative_source(&self, what: derive::Derivative) -> Result<String, Error> {
        let done = self.program.with(|session, loaded| {
            loaded.errors()?;
            let (function, _) = plain(session, loaded, &self.wanted)?;
            derive::source(loaded, function, what, &[])
        });
        done.map(|found| found.0)
    }
}

impl Program {
    /// Builds a library of C functions and its header. The extension of the path selects an object file, an
    /// archive or a shared library.
    #[cfg(feature = "llvm")]
    pub fn build(&self, path: &Path, header: Option<&Path>, library: &Library) -> Result<(), Error> {
        use driver::build;
        let prefix = build::prefix(path).map_err(|error| Error::Value(error.to_string()))?;
        let done = self.with(|_, loaded| {
            loaded.errors()?;
            let options = build::Options {
                compile: self.options.execution.compile.clone(),
                functions: library.functions.clone(),
                kernels: library.kernels.clone(),
                native: library.native,
                exclusive: library.exclusive,
                prefix: prefix.clone(),
                prefixed: build::Prefixed::default(),
            };
            let built = build::build(loaded, &options)?;
            build::write(&built, path)?;
            if let Some(header) = header {
                driver::files::write(header, built.header.as_bytes())?;
            }
            Ok(())
        });
        done.map(|found| found.0)
    }

    /// Returns an error: building libraries requires LLVM.
    #[cfg(not(feature = "llvm"))]
    pub fn build(&self, _: &Path, _: Option<&Path>, _: &Library) -> Result<(), Error> {
        Err(Error::Value("libraries are made by LLVM, which this build is without".into()))
    }
}

/// Memory by name, under the names that it has in a module: a parameter that became a global has its own.
pub(crate) fn binds(compiled: &Compiled, memory: &[(String, Value)]) -> Vec<Bind> {
    let bind = |(name, value): &(String, Value)| {
        let own = format!("{MEMORY}{name}");
        let is_param =
            compiled.module.globals.values().any(|g| {
                g.name.strip_prefix(&own).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            });
        let name = if is_param { own } else { name.clone() };
        Bind { name, value: BindValue::Json(value.clone()) }
    };
    memory.iter().map(bind).collect()
}

/// Converts the numbers of a point to the bits that the callee takes.
pub(crate) fn bits(callee: &Callee, numbers: &[Number]) -> Result<Point, Failure> {
    if numbers.len() != callee.inputs.len() {
        let message = format!("a point has {} numbers, not {}", callee.inputs.len(), numbers.len());
        return Err(driver::Error::input(message).into());
    }
    let bits = |(input, &number): (&driver::call::Number, &Number)| match (number, input.scalar) {
        (Number::Float(x), s) if s.is_float() => scalar::from_f64(s, x),
        (Number::Float(x), s) => scalar::convert(Scalar::F64, s, x.to_bits()),
        (Number::Int(n), s) if s.is_float() => scalar::from_f64(s, n as f64),
        (Number::Unsigned(n), s) if s.is_float() => scalar::from_f64(s, n as f64),
        (Number::Int(n), s) => scalar::from_i64(s, n),
        (Number::Unsigned(n), s) => scalar::from_i64(s, n as i64),
    };
    Ok(callee.inputs.iter().zip(numbers).map(bits).collect())
}
