//! Tests of source programs, through the driver's library.
//!
//! `test run`: runs the entry point (`main`, or the only kernel) on the interpreter, with and without
//! optimisation, and on the JIT.
//!
//! `// bind: NAME=VALUE`, `// conform: TYPE:INTERFACE=ID`, `// entry: NAME`, `// groups: X,Y,Z` and `//
//! block: X,Y,Z` have the same meaning as on the command line. `// stdout: TEXT` lines are the whole printed
//! text; `// buffer: NAME = VALUES` is the content of a buffer afterwards; `// error: LINE:COLUMN: TEXT` is
//! the place and message of an error, at compile time or at run time. `test run optimised` skips the run
//! without optimisation; `test run check-nan` stops where a differential is not finite; `test run columns`
//! (or `test check columns`) stores matrices column by column; `test run contract` fuses products with sums.
//!
//! `test check`: `//^ error` or `//^ error: TEXT` is below each line that must have an error, and no other
//! line may have one. `//^ warning` likewise, but other warnings are allowed, unless some `//^ warning: CODE`
//! names their code. `// type: NAME TYPE` states the type of a variable.

use driver::bind;
use driver::launch::{Backend, CodeOptions, Runner};
use driver::pipeline::{self, Compiled, Failure, Options};
use driver::session::{FileOptions, Session};
use driver::{Error, Request, output};
use ir::Math;
use opt::CheckFinite;
use syntax::{Diagnostic, Severity};

use crate::file::TestFile;

pub(super) fn run(file: &TestFile) -> Result<(), String> {
    let optimised = file.command.iter().any(|word| word == "optimised");
    for (backend, level) in [(Backend::INTERP, 2), (Backend::CRANELIFT, 2), (Backend::INTERP, 0)] {
        if optimised && level == 0 {
            continue;
        }
        let mut session = session(file);
        let outcome = run_on(file, backend, level, &mut session);
        outcome.map_err(|why| format!("{backend:?}, level {level}: {why}"))?;
    }
    Ok(())
}

fn session(file: &TestFile) -> Session {
    let warn = file.all("warn").filter_map(|code| code.parse().ok()).collect();
    let matrices_in_columns = file.command.iter().any(|word| word == "columns");
    let binds: Vec<_> = file.all("bind").filter_map(|text| bind::parse_bind(text).ok()).collect();
    let lengths = bind::lengths(&binds);
    Session::new(FileOptions { warn, matrices_in_columns, lengths, ..FileOptions::default() })
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The printed text.
    pub printed: String,
    /// The content of the program's buffers afterwards, one line per buffer.
    pub buffers: String,
    /// The number of lanes.
    pub lanes: u32,
}

impl Outcome {
    /// The printed text and the buffers as one text.
    pub fn text(&self) -> String {
        format!("{}{}", self.printed, self.buffers)
    }
}

/// The printed text of a run and the content of the program's buffers afterwards, as text.
pub fn outcome(file: &TestFile, backend: Backend) -> Result<String, String> {
    outcome_with(file, 2, backend, &CodeOptions::default()).map(|outcome| outcome.text())
}

/// The outcome at a level of optimisation and with options of code generation, with text and buffers
/// separate.
pub fn outcome_with(
    file: &TestFile,
    level: u8,
    backend: Backend,
    options: &CodeOptions,
) -> Result<Outcome, String> {
    outcome_by(file, level, &|module| Runner::with_options(module, backend, options))
}

/// The outcome of running a module on the runner that `make` creates for it.
pub fn outcome_by(
    file: &TestFile,
    level: u8,
    make: &dyn Fn(ir::Module) -> Result<Runner, Failure>,
) -> Result<Outcome, String> {
    outcome_of(file, &options(file, level), make)
}

/// The outcome of running a module that is compiled with other options than a test's.
pub fn outcome_of(
    file: &TestFile,
    options: &Options,
    make: &dyn Fn(ir::Module) -> Result<Runner, Failure>,
) -> Result<Outcome, String> {
    let mut session = session(file);
    let mut printed = String::new();
    let runner =
        dispatch(file, (make, options), &mut session, &mut printed).map_err(|f| text(&session, &f))?;
    Ok(Outcome { printed, buffers: buffers(&runner), lanes: runner.lanes(0) })
}

/// The content of the buffers that kernels may write, one line per buffer.
pub(super) fn buffers(runner: &Runner) -> String {
    let all = runner.globals().filter(|(g, _)| runner.is_writable(*g));
    all.map(|(global, data)| format!("{}: {}\n", data.name, values(runner, global))).collect()
}

fn values(runner: &Runner, global: ir::Global) -> String {
    output::buffer_text(runner.mem(), runner.element_of(global), runner.bytes_of(global))
}

/// Returns true if a program, once optimised, has floating-point functions other than arithmetic, such as
/// sines and powers.
pub fn has_transcendental(file: &TestFile) -> bool {
    let mut session = session(file);
    let Ok((_, compiled)) = compile(file, 2, &mut session) else { return false };
    let module = &compiled.module;
    let is_one = |f: &ir::Function, inst: ir::Inst| {
        let data = &f.insts[inst];
        let float = data.args.first().and_then(|&x| module.types.scalar_of(f.ty(x)));
        float.is_some_and(ir::Scalar::is_float)
            && matches!(data.op, ir::Op::Math(m) if !matches!(
                m,
                Math::Sqrt
                    | Math::Floor
                    | Math::Ceil
                    | Math::Round
                    | Math::Trunc
                    | Math::Min
                    | Math::Max
                    | Math::Abs
                    | Math::Fma
                    | Math::IsNan
                    | Math::IsInf
            ))
    };
    module.funcs.iter().filter(|(_, f)| f.has_body()).any(|(_, f)| {
        let mut found = false;
        f.walk(f.body(), &mut |inst| found |= is_one(f, inst));
        found
    })
}

fn run_on(file: &TestFile, backend: Backend, level: u8, session: &mut Session) -> Result<(), String> {
    let mut printed = String::new();
    let make = |module| Runner::with_options(module, backend, &CodeOptions::default());
    let outcome = dispatch(file, (&make, &options(file, level)), session, &mut printed);
    expect(file, session, (outcome, &printed))
}

/// Compares the outcome of a run, and the text that it printed, with the directives of the file.
pub(super) fn expect(
    file: &TestFile,
    session: &Session,
    (outcome, printed): (Result<Runner, Failure>, &str),
) -> Result<(), String> {
    let wanted_error = file.all("error").next();
    let wanted: Vec<&str> = file.all("stdout").collect();
    let printed: Vec<&str> = printed.lines().map(str::trim).collect();
    if printed != wanted && (outcome.is_ok() || !wanted.is_empty()) {
        return Err(format!("printed\n{}\ninstead of\n{}", printed.join("\n"), wanted.join("\n")));
    }
    match (outcome, wanted_error) {
        (Ok(runner), None) => file.all("buffer").try_for_each(|line| buffer(&runner, line)),
        (Ok(_), Some(want)) => Err(format!("it ran, instead of the error '{want}'")),
        (Err(failure), None) => Err(text(session, &failure)),
        (Err(failure), Some(want)) => {
            let found = places(session, &failure);
            let fits = |line: &String| match want.splitn(3, ':').collect::<Vec<_>>()[..] {
                [row, column, message] if row.trim().parse::<u32>().is_ok() => {
                    line.starts_with(&format!("{}:{}:", row.trim(), column.trim()))
                        && line.contains(message.trim())
                }
                _ => line.contains(want),
            };
            match found.iter().any(fits) {
                true => Ok(()),
                false => Err(format!("found\n{}\ninstead of '{want}'", found.join("\n"))),
            }
        }
    }
}

/// The options with which a test is compiled at a level of optimisation.
pub fn options(file: &TestFile, level: u8) -> Options {
    let check_nan = file.has_option("check-nan");
    let mut options = Options { check_finite: CheckFinite::differentials(check_nan), ..Options::default() };
    options.optimise.level = level;
    options.optimise.contract = file.has_option("contract");
    options
}

/// The kernel's name and the compiled program.
pub fn compile(file: &TestFile, level: u8, session: &mut Session) -> Result<(String, Compiled), Failure> {
    compile_with(file, &options(file, level), session)
}

/// Like [`compile`], with other options than a test's.
pub fn compile_with(
    file: &TestFile,
    options: &Options,
    session: &mut Session,
) -> Result<(String, Compiled), Failure> {
    let mut loaded = pipeline::load(session, &file.path)?;
    loaded.errors()?;
    let entry = loaded.entry_or_derivative(session, file.all("entry").next())?;
    let name = loaded.name(entry).to_string();
    let conformances: Result<Vec<_>, Error> = file.all("conform").map(bind::parse_conformance).collect();
    let conformances = loaded.conformances(session, &conformances?)?;
    let group_size = file.all("block").next().map(triple).transpose()?;
    let request = Request { entries: vec![entry], conformances, group_size, ..Request::default() };
    Ok((name, loaded.compile(&request, options)?))
}

fn dispatch(
    file: &TestFile,
    (make, options): (&dyn Fn(ir::Module) -> Result<Runner, Failure>, &Options),
    session: &mut Session,
    printed: &mut String,
) -> Result<Runner, Failure> {
    let (name, compiled) = compile_with(file, options, session)?;
    let mut runner = make(compiled.module)?;
    launch(file, &mut runner, &name, 1, printed)?;
    Ok(runner)
}

/// Binds the file's values, and runs its groups of an entry point.
pub(super) fn launch(
    file: &TestFile,
    runner: &mut Runner,
    entry: &str,
    workers: usize,
    printed: &mut String,
) -> Result<(), Failure> {
    for text in file.all("bind") {
        let bound = bind::parse_bind(text)?;
        if let Some(global) = runner.find(&bound.name) {
            runner.bind_value(global, &bound.value).map_err(Error::input)?;
        }
    }
    runner.bind_gradients()?;
    runner.bind_counters();
    let groups = file.all("groups").next().map_or(Ok([1; 3]), triple)?;
    let done = runner.dispatch(entry, groups, workers);
    *printed = runner.printed().to_string();
    *printed = done?.stdout;
    Ok(())
}

fn triple(text: &str) -> Result<[u32; 3], Error> {
    let mut triple = [1; 3];
    for (slot, n) in triple.iter_mut().zip(text.split(',')) {
        *slot = n.trim().parse().map_err(|_| Error::input("groups and blocks are numbers"))?;
    }
    Ok(triple)
}

fn buffer(runner: &Runner, line: &str) -> Result<(), String> {
    let (name, want) = line.split_once('=').ok_or("expected '// buffer: NAME = VALUES'")?;
    let global = runner.find(name.trim()).ok_or_else(|| format!("there is no buffer '{}'", name.trim()))?;
    let found = values(runner, global);
    match found == want.trim() {
        true => Ok(()),
        false => Err(format!("{} is\n{found}\ninstead of\n{}", name.trim(), want.trim())),
    }
}

/// The failure as shown to the user.
pub(super) fn text(session: &Session, failure: &Failure) -> String {
    match failure {
        Failure::Program(diagnostics) => {
            driver::render::all_to_text(&session.sources, diagnostics, driver::render::Style::Plain)
        }
        Failure::Other(error) => error.to_string(),
    }
}

/// `LINE:COLUMN: message` of each diagnostic.
pub(super) fn places(session: &Session, failure: &Failure) -> Vec<String> {
    match failure {
        Failure::Program(diagnostics) => diagnostics.iter().map(|d| place(session, d)).collect(),
        Failure::Other(error) => vec![error.to_string()],
    }
}

fn place(session: &Session, diagnostic: &Diagnostic) -> String {
    let span = diagnostic.primary.span;
    let (line, column) = session.sources.line_column(span.file, span.start);
    let help = diagnostic.help.as_deref().unwrap_or_default();
    let Diagnostic { code, message, primary, .. } = diagnostic;
    format!("{line}:{column}: {code} {message} {} {help}", primary.message)
}

/// A `//^` line: the diagnostic expected in the line above.
struct Mark {
    line: usize,
    severity: Severity,
    text: String,
}

fn marks(file: &TestFile) -> Result<Vec<Mark>, String> {
    let (mut marks, mut code) = (Vec::new(), 0);
    for (idx, line) in file.text.lines().enumerate() {
        let Some(rest) = line.trim_start().strip_prefix("//^") else {
            code = idx + 1;
            continue;
        };
        let (severity, text) = rest.trim().split_once(':').unwrap_or((rest.trim(), ""));
        let severity = match severity.trim() {
            "warning" => Severity::Warning,
            "error" => Severity::Error,
            other => return Err(format!("line {}: '{other}' is neither 'error' nor 'warning'", idx + 1)),
        };
        marks.push(Mark { line: code, severity, text: text.trim().to_string() });
    }
    Ok(marks)
}

pub(super) fn check(file: &TestFile) -> Result<(), String> {
    let mut session = session(file);
    let diagnostics = pipeline::check(&mut session, &file.path).map_err(|e| e.to_string())?;
    let marks = marks(file)?;
    let line_of =
        |d: &Diagnostic| session.sources.line_column(d.primary.span.file, d.primary.span.start).0 as usize;
    for mark in &marks {
        let fits = |d: &&Diagnostic| {
            line_of(d) == mark.line && d.severity == mark.severity && place(&session, d).contains(&mark.text)
        };
        if !diagnostics.iter().any(|d| fits(&d)) {
            let all =
                driver::render::all_to_text(&session.sources, &diagnostics, driver::render::Style::Plain);
            return Err(format!("line {} has no {:?} '{}'\n{all}", mark.line, mark.severity, mark.text));
        }
    }
    // Of the warnings, those count whose code some mark names.
    let counts = |d: &&Diagnostic| {
        d.severity == Severity::Error || marks.iter().any(|mark| !mark.text.is_empty() && mark.text == d.code)
    };
    let unmarked =
        diagnostics.iter().filter(counts).find(|d| !marks.iter().any(|mark| mark.line == line_of(d)));
    if let Some(d) = unmarked {
        return Err(driver::render::to_text(&session.sources, d, driver::render::Style::Plain));
    }
    let mut loaded = pipeline::load(&mut session, &file.path).map_err(|e| e.to_string())?;
    loaded.program.check_file(loaded.file);
    file.all("type").try_for_each(|line| variable(&mut loaded.program, line))
}

/// Checks a line `type: NAME TYPE` about the last variable of that name.
fn variable(program: &mut check::Program, line: &str) -> Result<(), String> {
    let (name, wanted) = line.split_once(' ').ok_or("expected '// type: NAME TYPE'")?;
    let symbol = program.ast.symbols.find(name);
    let mut found = program.ast.decls.iter().filter(|d| Some(d.1.name) == symbol).map(|d| d.0);
    let decl = found.next_back().ok_or_else(|| format!("there is no variable '{name}'"))?;
    let ty = program.decl_type(decl);
    match program.type_name(ty) {
        found if found == wanted => Ok(()),
        found => Err(format!("{name} is of type {found} instead of {wanted}")),
    }
}
