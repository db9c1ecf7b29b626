//! What the user is told, and the exit status that goes with it.

use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::sync::OnceLock;

use driver::bind::{Bind, parse_bind};
use driver::launch::Console;
use driver::pipeline::Failure;
use driver::session::{FileOptions, Session};
use driver::{Error, render};
use syntax::{Diagnostic, Sources, Span};

use crate::args::{CompileArgs, Layout, MemoryArgs, SourceArgs};

/// Why a command stops.
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

/// Why standard output does not take what it is given; the first time counts.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Writes to standard output. What is lost there is told at the end, by [`lost`].
pub(crate) fn out(text: &str) {
    out_bytes(text.as_bytes());
}

/// Writes bytes to standard output; as [`out`].
pub(crate) fn out_bytes(bytes: &[u8]) {
    let mut stdout = stdout().lock();
    note_lost(stdout.write_all(bytes).and_then(|()| stdout.flush()));
}

/// Keeps the error of a write to standard output.
pub(crate) fn note_lost(written: io::Result<()>) {
    if let Err(error) = written {
        let _ = LOST.set(error);
    }
}

/// The status of a process that would end with `status`: 1 if some of its output is lost, which is then told. A reader
/// that has gone away, as `head` does, has what it wanted.
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

/// Shows what a program prints while it runs.
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

/// True if standard output does not take what it is given: [`lost`] says why.
pub(crate) fn is_lost() -> bool {
    LOST.get().is_some()
}

/// Lets a launch that takes too long end the process, with status 1.
pub(crate) fn watch(json: bool) {
    let end = if json { end_with_json } else { end_with_text };
    driver::watch::install(end);
}

fn end_with_text(sources: &Sources, diagnostic: &Diagnostic) -> ! {
    let diagnostics = std::slice::from_ref(diagnostic);
    err(&render::all_to_text(sources, diagnostics, colour()));
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

/// Runs a command's body on a session, tells the user what went wrong, and gives the exit status.
pub(crate) fn finish(
    source: &SourceArgs,
    json: bool,
    body: impl FnOnce(&mut Session) -> Result<u8, Stop>,
) -> u8 {
    let mut session = session(source);
    match body(&mut session) {
        Ok(status) => status,
        Err(stop) => tell(&session, source, json, stop),
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
            err(&render::all_to_text(&session.sources, &diagnostics, colour()));
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

/// A panic, as a diagnostic.
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

/// Warnings of a program that is otherwise fine.
pub(crate) fn warn(session: &Session, warnings: &[Diagnostic]) {
    let shown: Vec<_> = warnings.iter().filter(|w| session.is_shown(w)).cloned().collect();
    if !shown.is_empty() {
        err(&render::all_to_text(&session.sources, &shown, colour()));
    }
}

/// The file and the line.
pub(crate) fn place(sources: &Sources, span: Span) -> Option<String> {
    let file = sources.files.get(span.file.0 as usize)?;
    let (line, _) = sources.line_column(span.file, span.start);
    Some(format!("{}:{line}", file.path))
}

/// Whether standard error shows colours.
pub(crate) fn colour() -> bool {
    stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// A session as the command line describes it.
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
        ..FileOptions::default()
    })
}

/// The memory that is bound.
pub(crate) fn binds(memory: &MemoryArgs) -> Result<Vec<Bind>, Stop> {
    let binds: Result<Vec<Bind>, Error> = memory.bind.iter().map(|b| parse_bind(b)).collect();
    binds.map_err(|error| Stop::Usage(error.to_string()))
}

/// `LO,HI`: finite numbers in order.
pub(crate) fn range(text: &str) -> Option<(f64, f64)> {
    let (low, high) = text.split_once(',')?;
    let (low, high): (f64, f64) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    // also what lies between them has to be finite
    (low <= high && (high - low).is_finite()).then_some((low, high))
}

/// The compiler's options.
pub(crate) fn options(compile: &CompileArgs) -> driver::pipeline::Options {
    driver::pipeline::Options {
        optimise: opt::Options {
            fast_math: compile.fast_math,
            level: compile.level,
            ..opt::Options::default()
        },
        report_checkpoints: compile.report_checkpoints,
        check_nan: compile.check_nan,
        ..Default::default()
    }
}
