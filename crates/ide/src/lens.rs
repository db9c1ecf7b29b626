//! Lists the differentiable functions of a file, writes their derivatives, checks these at random points, and estimates
//! rounding errors there.

use std::fmt::Write as _;
use std::path::Path;

use driver::call::Callee;
use driver::derive::{self, Derivative};
use driver::device::Backend;
use driver::gradcheck::{self, Random, Verdict};
use driver::launch::CodeOptions;
use driver::pipeline::{self, Failure, Options};
use driver::precision;
use driver::ranges::Ranges;
use driver::session::{FileOptions, Session};
use driver::{Request, render};
use syntax::Span;

use crate::Analysis;

/// A differentiable function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lens {
    /// The place of its name.
    pub span: Span,
    /// The name under which the command line finds it: `f`, `Type.f`.
    pub function: String,
    /// The reason why it cannot be derived by itself, if there is one.
    pub why_not: Option<String>,
}

/// The number of points at which derivatives are checked.
const POINTS: u32 = 5;
/// The seconds that a call may take.
const SECONDS: f64 = 10.0;

impl Analysis {
    /// The differentiable functions of the file. Nothing is checked.
    pub fn lenses(&mut self) -> Vec<Lens> {
        let loaded = pipeline::Loaded::new(std::mem::take(&mut self.program), self.index);
        let listed = loaded.differentiable_declarations();
        self.program = loaded.program;
        let lens = |listed: pipeline::Listed| {
            let span = self.program.name_span(listed.function.decl);
            Lens { span, function: listed.name, why_not: listed.why_not }
        };
        listed.into_iter().map(lens).filter(|lens| lens.span.file == self.file).collect()
    }
}

/// The derivative of a function as source: `fwd`, `bwd` or `apply`. An error is a text for the user.
pub fn derivative(options: &FileOptions, path: &Path, function: &str, mode: &str) -> Result<String, String> {
    let Some(&(mode, ..)) = Derivative::ALL.iter().find(|d| d.1 == mode) else {
        return Err(format!("there is no derivative `{mode}`"));
    };
    let mut session = Session::new(options.clone());
    let text = (|| {
        let mut loaded = pipeline::load(&mut session, path)?;
        loaded.errors()?;
        let function = loaded.function(function)?;
        derive::source(&mut loaded, function, mode, &[])
    })();
    text.map_err(|failure| failure_text(&session, failure))
}

/// Checks the derivatives of a function at random points: true if they agree, and a line of text.
pub fn gradcheck(options: &FileOptions, path: &Path, function: &str) -> Result<(bool, String), String> {
    let mut session = Session::new(options.clone());
    check_gradient(&mut session, path, function).map_err(|failure| failure_text(&session, failure))
}

fn check_gradient(session: &mut Session, path: &Path, name: &str) -> Result<(bool, String), Failure> {
    let options = Options { widen: true, ..Options::default() };
    let mut loaded = pipeline::load(session, path)?;
    loaded.errors()?;
    let function = loaded.function(name)?;
    let request =
        Request { functions: vec![function], derivatives: true, sparse: true, ..Request::default() };
    let compiled = loaded.compile(&request, &options)?;
    let code = CodeOptions { seconds: Some(SECONDS), ..CodeOptions::default() };
    let mut callee = Callee::new(compiled, Backend::SOONEST, &code, &[])?;
    callee.bind(&mut loaded, &[])?;
    let mut random = Random::new(0);
    let point = |callee: &Callee, _| {
        let mut draw = |n: &driver::call::Number| Some(random.scalar(n.scalar, -2.0, 2.0));
        Ok(callee.point(&[], &mut draw)?)
    };
    let entries = gradcheck::check_points(&mut callee, (&mut loaded, &request, &[]), POINTS, 1e-4, point)?;
    let count = |verdict: Verdict| entries.iter().filter(|e| e.1.verdict == verdict).count();
    let differ = count(Verdict::Differs);
    let mut text = match entries.len() {
        0 => format!("{name} has no differentiable input and output"),
        n => format!("{name}: {n} derivatives at {POINTS} points"),
    };
    let all = [Verdict::Agrees, Verdict::Flat, Verdict::Cut, Verdict::Unclear, Verdict::Differs];
    for verdict in all.into_iter().filter(|&v| count(v) > 0) {
        let _ = write!(text, ", {} {}", count(verdict), verdict.name());
    }
    if let Some((_, e)) = entries.iter().find(|e| e.1.verdict == Verdict::Differs) {
        let (output, input) = (&e.output, &e.input);
        let _ = write!(
            text,
            "; d {output}/d {input} is {} by forward mode, {} by reverse mode and {} by differences",
            e.forward, e.reverse, e.differences
        );
    }
    Ok((differ == 0 && !entries.is_empty(), text))
}

/// The rounding errors of a function, as they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rounding {
    /// The estimate of the whole function.
    pub title: String,
    /// The figures of the variables, with the ends of their names in the file, and an explanation of each.
    pub hints: Vec<(u32, String, String)>,
}

/// The points at which rounding errors are estimated.
const ESTIMATED: u32 = 10;

/// Estimates what each variable of a function contributes to the rounding error of its result, at random points. An error
/// is a text for the user.
pub fn rounding(options: &FileOptions, path: &Path, function: &str) -> Result<Rounding, String> {
    let mut session = Session::new(options.clone());
    estimate(&mut session, path, function).map_err(|failure| failure_text(&session, failure))
}

fn estimate(session: &mut Session, path: &Path, function: &str) -> Result<Rounding, Failure> {
    let source = precision::read(session, path)?;
    let options = precision::Options {
        function: function.to_string(),
        at: Vec::new(),
        points: ESTIMATED,
        ranges: Ranges { common: (-2.0, 2.0), named: Vec::new() },
        seed: 0,
        memory: Vec::new(),
        backend: Backend::INTERP,
        derivative: None,
        code: CodeOptions { seconds: Some(SECONDS), ..CodeOptions::default() },
    };
    let found = precision::estimate(session, &source, &options, &mut Vec::new())?;
    let number = |error: f64| if error.is_finite() { format!("{error:.1e}") } else { "infinite".to_string() };
    let shown = found
        .report
        .contributions
        .iter()
        .filter(|c| c.error > 0.0 && !c.variable.name.is_empty() && c.variable.span.file == found.root);
    let hint = |c: &precision::Contribution| {
        let text = format!("±{}", number(c.error));
        let why = format!(
            "its {} operations contribute at most {} to the rounding error of `{function}`, relative to the result, at \
             {ESTIMATED} points",
            c.operations,
            number(c.error)
        );
        (c.variable.span.end, text, why)
    };
    let mut hints: Vec<(u32, String, String)> = shown.map(hint).collect();
    hints.sort_by_key(|hint| hint.0);
    Ok(Rounding { title: format!("rounding error {}", number(found.report.estimated)), hints })
}

fn failure_text(session: &Session, failure: Failure) -> String {
    match failure {
        Failure::Program(diagnostics) => {
            render::all_to_text(&session.sources, &diagnostics, render::Style::Plain)
        }
        Failure::Other(error) => error.to_string(),
    }
}
