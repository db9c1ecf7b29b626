//! Reports to the user, and the exit status that belongs to them.

use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::sync::OnceLock;

use driver::Error;
use driver::bind::{Bind, parse_bind};
use driver::launch::{Backend, CodeOptions, Console, Execution};
use driver::pipeline::Failure;
use driver::render::{self, Style};
use driver::session::{FileOptions, Session};
use driver::validate::{Summary, Validation};
use syntax::{Diagnostic, Sources};

use crate::args::{BitFields, CompileArgs, LanesArgs, Layout, MemoryArgs, SourceArgs};

/// The reason why a command stops.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Status 1: a diagnostic.
    Failure(Failure),
    /// Status 2: wrong usage.
    Usage(String),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failure(failure)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failure(error.into())
    }
}

/// The error of an option: wrong usage, unless it is about a file that the option names.
pub(crate) fn usage(error: Error) -> Stop {
    match error {
        Error::Input(why) => Stop::Usage(why),
        error => error.into(),
    }
}

/// The first error that occurred while writing to standard output.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Writes to standard output. Failures are reported at the end, by [`lost`].
pub(crate) fn out(text: &str) {
    out_bytes(text.as_bytes());
}

/// Writes bytes to standard output; see [`out`].
pub(crate) fn out_bytes(bytes: &[u8]) {
    let mut stdout = stdout().lock();
    note_lost(stdout.write_all(bytes).and_then(|()| stdout.flush()));
}

/// Records the error of a write to standard output.
pub(crate) fn note_lost(written: io::Result<()>) {
    if let Err(error) = written {
        let _ = LOST.set(error);
    }
}

/// The exit status of a process that would otherwise end with `status`: 1 if some of its output was lost,
/// which is then reported. A reader that has closed the pipe, as `head` does, is not an error.
pub(crate) fn lost(status: u8) -> u8 {
    match LOST.get() {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let why = driver::files::plain(error);
            err(&format!("error[E0802]: cannot write to standard output: {why}\n"));
            status.max(1)
        }
        _ => status,
    }
}

/// A console that shows the output of a program while it runs.
pub(crate) struct Screen;

impl Console for Screen {
    fn print(&self, text: &str) -> Result<(), String> {
        out(text);
        match LOST.get() {
            Some(_) => Err("standard output takes no more".to_string()),
            None => Ok(()),
        }
    }
}

/// Returns true if writing to standard output has failed; [`lost`] reports the reason.
pub(crate) fn is_lost() -> bool {
    LOST.get().is_some()
}

/// Lets a launch that takes too long end the process with status 1.
pub(crate) fn watch(json: bool) {
    let end = if json { end_with_json } else { end_with_text };
    driver::watch::install(end);
}

fn end_with_text(sources: &Sources, diagnostic: &Diagnostic) -> ! {
    let diagnostics = std::slice::from_ref(diagnostic);
    err(&render::all_to_text(sources, diagnostics, style()));
    driver::launch::end(lost(1))
}

fn end_with_json(sources: &Sources, diagnostic: &Diagnostic) -> ! {
    out(&(render::to_json(sources, std::slice::from_ref(diagnostic)) + "\n"));
    end_with_text(sources, diagnostic)
}

/// Writes to standard error.
pub(crate) fn err(text: &str) {
    let _ = stderr().lock().write_all(text.as_bytes());
}

/// Like [`finish`], for a command without `--json`.
pub(crate) fn finish_in_text(source: &SourceArgs, body: impl FnOnce(&mut Session) -> Result<u8, Stop>) -> u8 {
    finish(source, false, body)
}

/// Runs a command's body on a session, reports errors to the user, and returns the exit status.
pub(crate) fn finish(
    source: &SourceArgs,
    json: bool,
    body: impl FnOnce(&mut Session) -> Result<u8, Stop>,
) -> u8 {
    let mut session = session(source);
    let status = match defined_once(&source.defines).and_then(|()| body(&mut session)) {
        Ok(status) => status,
        Err(stop) => tell(&session, source, json, stop),
    };
    if let Some(validation) = session.validation() {
        err(&validated(&validation.summary()));
    }
    status
}

/// Says what has been validated, and what has not.
fn validated(summary: &Summary) -> String {
    let Summary { functions, changes, runs, not_run } = summary;
    let without: usize = not_run.values().sum();
    let mut text = format!(
        "passes: {changes} changes to {functions} functions; {runs} runs before and after them agree; {without} changes not run\n"
    );
    for (why, n) in not_run {
        text += &format!("  {n} not run: {why}\n");
    }
    text
}

/// Refuses a macro that has two replacements.
fn defined_once(defines: &[String]) -> Result<(), Stop> {
    let name = |define: &str| define.split('=').next().unwrap_or_default().to_string();
    let differs = |k: usize| defines[..k].iter().any(|d| name(d) == name(&defines[k]) && *d != defines[k]);
    match (0..defines.len()).find(|&k| differs(k)) {
        Some(k) => Err(Stop::Usage(format!("`-D {}`: the macro has another definition, too", defines[k]))),
        None => Ok(()),
    }
}

fn tell(session: &Session, source: &SourceArgs, json: bool, stop: Stop) -> u8 {
    match stop {
        Stop::Usage(message) => {
            let message = render::shortened(&message);
            err(&format!("error: {message}\n\nFor more information, try '--help'.\n"));
            2
        }
        Stop::Failure(Failure::Program(mut diagnostics)) => {
            diagnostics.retain(|d| session.is_shown(d));
            if json {
                out(&(render::to_json(&session.sources, &diagnostics) + "\n"));
            }
            err(&render::all_to_text(&session.sources, &diagnostics, style()));
            1
        }
        Stop::Failure(Failure::Other(error)) => {
            let code = error.code();
            if json {
                let file = source.file.display().to_string();
                out(&(render::error_to_json(code, &error.to_string(), &file) + "\n"));
            }
            err(&format!("error[{code}]: {}\n", render::shortened(&error.to_string())));
            if let Error::Internal(_) = error {
                err(BUG);
            }
            1
        }
    }
}

/// Reports errors that did not end the work, each once; returns the status.
pub(crate) fn errors(errors: &[Error]) -> u8 {
    let mut texts: Vec<String> =
        errors.iter().map(|error| format!("error[{}]: {error}\n", error.code())).collect();
    texts.dedup();
    texts.iter().for_each(|text| err(text));
    u8::from(!texts.is_empty())
}

/// Reports a panic as a diagnostic.
pub(crate) fn internal(place: &str, json: bool, file: &str) -> u8 {
    let message = format!("internal compiler error: {}", place.replace('\n', ": "));
    if json {
        out(&(render::error_to_json("E0999", &message, file) + "\n"));
    }
    err(&format!("error[E0999]: {message}\n{BUG}"));
    1
}

const BUG: &str =
    "  = help: this is a bug of the compiler, not of the program; please report it with the program\n";

/// Shows the warnings of a program without errors.
pub(crate) fn warn(session: &Session, warnings: &[Diagnostic]) {
    let shown: Vec<_> = warnings.iter().filter(|w| session.is_shown(w)).cloned().collect();
    if !shown.is_empty() {
        err(&render::all_to_text(&session.sources, &shown, style()));
    }
}

/// The style of diagnostics on standard error.
pub(crate) fn style() -> Style {
    let coloured = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if coloured { Style::Coloured } else { Style::Plain }
}

/// A session with the options of the command line.
pub(crate) fn session(source: &SourceArgs) -> Session {
    let defines = source
        .defines
        .iter()
        .map(|d| match d.split_once('=') {
            Some((name, value)) => (name.to_string(), value.to_string()),
            None => (d.clone(), "1".to_string()),
        })
        .collect();
    for folder in source.include.iter().filter(|folder| !folder.is_dir()) {
        err(&format!("warning: there is no folder `{}` to look for files in\n", folder.display()));
    }
    Session::new(FileOptions {
        defines,
        include_dirs: source.include.clone(),
        allow: source.allow.clone(),
        warn: source.warn.clone(),
        matrices_in_columns: source.matrix_layout == Layout::Column,
        imports_glsl: source.allow_glsl,
        high_bit_fields: source.bit_fields == BitFields::Msvc,
        links: source.link.clone(),
        lengths: source.length.clone(),
        validation: source.verify_passes.then(Validation::default),
        ..FileOptions::default()
    })
}

/// The bindings of memory given on the command line.
pub(crate) fn binds(session: &mut Session, memory: &MemoryArgs) -> Result<Vec<Bind>, Stop> {
    let binds: Result<Vec<Bind>, Error> = memory.bind.iter().map(|b| parse_bind(b)).collect();
    let binds = binds.map_err(usage)?;
    session.add_lengths(driver::bind::lengths(&binds));
    if let Some(validation) = session.validation() {
        validation.bind(&binds);
    }
    Ok(binds)
}

/// Parses `LO,HI`: finite numbers in order.
pub(crate) fn range(text: &str) -> Option<(f64, f64)> {
    let (low, high) = text.split_once(',')?;
    let (low, high): (f64, f64) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    // The difference between the bounds must be finite, too.
    (low <= high && (high - low).is_finite()).then_some((low, high))
}

/// How a program is compiled and run, as given on the command line; `limits` are those of each launch.
pub(crate) fn execution(
    compile: &CompileArgs,
    (backend, lanes): (Backend, &LanesArgs),
    limits: CodeOptions,
) -> Execution {
    let code = CodeOptions { lanes: lanes.lanes, fast_math: compile.fast_math, ..limits };
    Execution { compile: options(compile), backend, code, threads: 0 }
}

/// The compiler's options, as given on the command line.
pub(crate) fn options(compile: &CompileArgs) -> driver::pipeline::Options {
    driver::pipeline::Options {
        optimise: opt::Options {
            fast_math: compile.fast_math,
            contract: compile.fp_contract,
            level: compile.level,
            ..opt::Options::default()
        },
        matrix_units: compile.matrix_units,
        report_checkpoints: compile.report_checkpoints,
        check_finite: opt::CheckFinite::differentials(compile.check_nan),
        ..Default::default()
    }
}
