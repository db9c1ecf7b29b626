//! Views of a function besides its values: derivatives that are checked, explained and written as source, and libraries.

use std::path::Path;

use driver::around::MEMORY;
use driver::bind::{Bind, BindValue};
use driver::call::{Callee, Point};
use driver::gradcheck::{self, Verdict};
use driver::launch::Backend;
use driver::oracle::Oracle;
use driver::pipeline::{self, Failure};
use driver::{Request, derive, dump};
use ir::scalar;
use serde_json::{Value, json};
use syntax::{Sources, Span};

use crate::error::Error;
use crate::function::Function;
use crate::program::{Program, plain};

/// A number of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "kinds of number")]
pub enum Number {
    Int(i64),
    Unsigned(u64),
    Float(f64),
}

/// How derivatives are checked.
#[derive(Clone, Debug)]
pub struct Check {
    /// The points: the numbers of all leaves of all inputs, one after the other.
    pub points: Vec<Vec<Number>>,
    /// The largest relative error in double precision that is accepted.
    pub tolerance: f64,
    /// The content of the memory that the function reaches, by name.
    pub memory: Vec<(String, Value)>,
}

/// A library of C functions, as `pullback build` makes it.
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// The functions; none: every differentiable one, unless kernels are named.
    pub functions: Vec<String>,
    /// The kernels; none: all.
    pub kernels: Vec<String>,
    /// Code for this machine only.
    pub native: bool,
    /// No two calls of kernels on the same buffers run at a time.
    pub exclusive: bool,
}

impl Function {
    /// Forward mode, reverse mode and differences at each point, in double precision, as JSON: `{"entries":[…]}`, each with
    /// its point, output, input, the three numbers, their error and a verdict.
    pub fn check(&self, check: &Check) -> Result<String, Error> {
        let done = self.program().with(|session, loaded| {
            loaded.errors()?;
            let (function, _) = plain(session, loaded, self.wanted())?;
            let request =
                Request { functions: vec![function], derivatives: true, sparse: true, ..Request::default() };
            let options = pipeline::Options { widen: true, ..pipeline::Options::default() };
            let compiled = loaded.compile(&request, &options)?;
            let mut memory = Vec::new();
            for (name, value) in &check.memory {
                let own = format!("{MEMORY}{name}");
                let is_param = compiled.module.globals.values().any(|g| {
                    g.name.strip_prefix(&own).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                });
                let name = if is_param { own } else { name.clone() };
                memory.push(Bind { name, value: BindValue::Json(value.clone()) });
            }
            let options = &self.program().options().code;
            let mut callee = Callee::new(compiled.clone(), Backend::Cranelift, options, &memory)?;
            callee.bind(loaded, &memory)?;
            let mut oracle = None;
            let mut dual = |callee: &Callee, point: &Point| {
                let oracle = match &mut oracle {
                    Some(oracle) => oracle,
                    none => none.insert(Oracle::new(loaded, &request, &memory)?),
                };
                Ok(oracle.jacobian(callee, point))
            };
            let mut entries = Vec::new();
            for (k, numbers) in check.points.iter().enumerate() {
                let point = bits(&callee, numbers)?;
                for entry in gradcheck::check(&mut callee, &point, check.tolerance, &mut dual)? {
                    entries.push((k, entry));
                }
            }
            Ok((compiled, entries))
        });
        let ((compiled, entries), sources) = done?;
        self.program().warn(&compiled, &sources);
        let entries: Vec<Value> = entries.iter().map(|(k, entry)| described(&sources, *k, entry)).collect();
        Ok(json!({ "entries": entries }).to_string())
    }

    /// The function after each pass of differentiation, as `pullback explain` prints it.
    pub fn explain(&self) -> Result<String, Error> {
        let options = &self.program().options().compile;
        let done = self.program().with(|session, loaded| {
            loaded.errors()?;
            let (function, _) = plain(session, loaded, self.wanted())?;
            dump::explain(loaded, function, options)
        });
        done.map(|found| found.0)
    }

    /// Its derivative as source, as `pullback derive` prints it.
    pub fn derivative_source(&self, what: derive::Derivative) -> Result<String, Error> {
        let done = self.program().with(|session, loaded| {
            loaded.errors()?;
            let (function, _) = plain(session, loaded, self.wanted())?;
            derive::source(loaded, function, what)
        });
        done.map(|found| found.0)
    }
}

impl Program {
    /// Writes a library of C functions, by the path's ending an object file, an archive or a shared library, and its header.
    #[cfg(feature = "llvm")]
    pub fn build(&self, path: &Path, header: Option<&Path>, library: &Library) -> Result<(), Error> {
        use driver::build;
        let prefix = build::prefix(path).map_err(|error| Error::Value(error.to_string()))?;
        let done = self.with(|_, loaded| {
            loaded.errors()?;
            let options = build::Options {
                compile: self.options().compile.clone(),
                functions: library.functions.clone(),
                kernels: library.kernels.clone(),
                native: library.native,
                exclusive: library.exclusive,
                prefix: prefix.clone(),
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

    /// There are no libraries without LLVM.
    #[cfg(not(feature = "llvm"))]
    pub fn build(&self, _: &Path, _: Option<&Path>, _: &Library) -> Result<(), Error> {
        Err(Error::Value("libraries are made by LLVM, which this build is without".into()))
    }
}

/// A point as the callee takes it.
fn bits(callee: &Callee, numbers: &[Number]) -> Result<Point, Failure> {
    if numbers.len() != callee.inputs.len() {
        let message = format!("a point has {} numbers, not {}", callee.inputs.len(), numbers.len());
        return Err(driver::Error::input(message).into());
    }
    let bits = |(input, &number): (&driver::call::Number, &Number)| match (number, input.scalar) {
        (Number::Float(x), s) => scalar::from_f64(s, x),
        (Number::Int(n), s) if s.is_float() => scalar::from_f64(s, n as f64),
        (Number::Unsigned(n), s) if s.is_float() => scalar::from_f64(s, n as f64),
        (Number::Int(n), s) => scalar::from_i64(s, n),
        (Number::Unsigned(n), s) => scalar::from_i64(s, n as i64),
    };
    Ok(callee.inputs.iter().zip(numbers).map(bits).collect())
}

/// A place as users read it.
fn place(sources: &Sources, span: Span) -> Option<String> {
    let file = sources.files.get(span.file.0 as usize)?;
    let (line, _) = sources.line_column(span.file, span.start);
    Some(format!("{}:{line}", file.path))
}

fn described(sources: &Sources, point: usize, e: &gradcheck::Entry) -> Value {
    // JSON has no word for the others.
    let number = |x: f64| if x.is_finite() { json!(x) } else { json!(x.to_string()) };
    let verdict = match e.verdict {
        Verdict::Agrees => "agrees",
        Verdict::Unclear => "unclear",
        Verdict::Cut => "cut",
        Verdict::Differs => "differs",
    };
    json!({
        "point": point,
        "output": e.output,
        "input": e.input,
        "forward": number(e.forward),
        "reverse": number(e.reverse),
        "differences": number(e.differences),
        "dual": e.dual.map(number),
        "error": number(e.error),
        "verdict": verdict,
        "cut": e.cut.and_then(|span| place(sources, span)),
    })
}
