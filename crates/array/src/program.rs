//! A program: a source file whose functions are called with arrays.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use check::tables::FuncRef;
use driver::around::{Generics, Wanted};
use driver::bind::Conformance;
use driver::launch::{Execution, Foreign, fork};
use driver::pipeline::{self, Compiled, Failure, Loaded};
use driver::render::{self, Style};
use driver::session::{FileOptions, Session};
use driver::source::{Outcome, Source};
use driver::{Request, texture, wrap};
use lower::Step;
use syntax::{Diagnostic, Sources};

use crate::error::{Error, Report};
use crate::function::Function;
use crate::interface;
use crate::launch::Kernel;
use crate::reflect::{Asked, Question};

/// Options for how a program is read, compiled and run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Definitions, search folders and warnings.
    pub files: FileOptions,
    /// How the program is compiled and run.
    pub execution: Execution,
}

/// A file and its imports, as they were when they were read.
#[derive(Debug)]
pub struct Program {
    source: Source,
    pub(crate) options: Options,
    /// The names of the entry points.
    pub entries: Vec<String>,
    warnings: Mutex<Vec<String>>,
    asked: OnceLock<Asked>,
}

/// A compilation result, with the sources that its locations refer to.
pub(crate) struct Made {
    pub(crate) compiled: Compiled,
    /// The names of all parameters, in the order of their declaration.
    pub(crate) order: Vec<String>,
    pub(crate) sources: Sources,
}

impl Program {
    /// Reads a file and its imports. Functions are checked on demand.
    pub fn from_file(path: &Path, options: Options) -> Result<Arc<Program>, Error> {
        options.execution.backend.find().map_err(|error| Error::Machine(error.to_string()))?;
        let _work = fork::at_work();
        let read = Source::from_file(path, options.files.clone(), |_, loaded| Ok(entries(loaded)));
        Program::new(read, options)
    }

    /// Reads a program from a text; `name` stands for it in diagnostics, and imports are searched for in
    /// `folder`.
    pub fn from_text(name: &str, text: &str, folder: &Path, options: Options) -> Result<Arc<Program>, Error> {
        options.execution.backend.find().map_err(|error| Error::Machine(error.to_string()))?;
        let _work = fork::at_work();
        let files = options.files.clone();
        let read = Source::from_text((name, text, folder), files, |_, loaded| Ok(entries(loaded)));
        Program::new(read, options)
    }

    fn new(read: Outcome<(Source, Vec<String>)>, options: Options) -> Result<Arc<Program>, Error> {
        let (done, sources) = read;
        let (source, entries) = done.map_err(|failure| Error::of(&sources, failure))?;
        let (warnings, asked) = (Mutex::default(), OnceLock::new());
        Ok(Arc::new(Program { source, options, entries, warnings, asked }))
    }

    /// The files that were read, with their texts.
    pub fn read(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.source.files()
    }

    /// Finds a function by name; members are named `Type.name`.
    pub fn function(self: &Arc<Program>, name: &str) -> Result<Function, Error> {
        self.specialised(&Wanted { name: name.to_string(), ..Wanted::default() })
    }

    /// The requested function, specialised for types if it is generic or takes values of interface types.
    pub fn specialised(self: &Arc<Program>, wanted: &Wanted) -> Result<Function, Error> {
        Function::new(self.clone(), wanted)
    }

    /// The declarations of the file's own functions, each with the function's name.
    pub fn signatures(&self) -> Result<Vec<(String, String)>, Error> {
        self.with(|_, loaded| Ok(loaded.signatures())).map(|found| found.0)
    }

    /// The generic parameters and interface types for which a caller must choose types. `None` if there is no
    /// such function.
    pub fn generics_of(&self, name: &str) -> Result<Option<Generics>, Error> {
        self.with(|_, loaded| Ok(loaded.generics_of(name))).map(|found| found.0)
    }

    /// The entry point with that name, or its derivative as `bwd_diff(name)` or `fwd_diff(name)`. `group` is
    /// the thread group size for an entry point that does not declare one.
    pub fn kernel(self: &Arc<Program>, name: &str, group: Option<[u32; 3]>) -> Result<Kernel, Error> {
        self.kernel_with(name, group, None, &[])
    }

    /// As [`Program::kernel`], for the program with some text appended, which may not import anything, and
    /// with the numbers that identify types in dynamic dispatch.
    pub fn kernel_with(
        self: &Arc<Program>,
        name: &str,
        group: Option<[u32; 3]>,
        addition: Option<&str>,
        conformances: &[Conformance],
    ) -> Result<Kernel, Error> {
        let options = &self.options.execution.compile_options();
        let (compiled, sources) = self.with(|session, loaded| {
            if let Some(text) = addition {
                let index = session.parse_text(&mut loaded.program, "the kernel of a call", text.to_string());
                loaded.program.extend_module(index, loaded.file);
            }
            loaded.errors()?;
            let entry = loaded.entry_or_derivative(session, Some(name))?;
            let conformances = loaded.conformances(session, conformances)?;
            let request =
                Request { entries: vec![entry], group_size: group, conformances, ..Request::default() };
            loaded.compile(&request, options)
        })?;
        self.warn(&compiled.warnings, &sources);
        Kernel::new(self.clone(), name, compiled.module, sources)
    }

    /// Returns an error if an argument's memory is not accessible where the program runs.
    pub(crate) fn reaches(&self, name: &str, memory: Foreign) -> Result<(), Error> {
        if memory.is_on_device() && self.options.execution.backend.name() != "cuda" {
            let what = "is on a CUDA device, and the program runs elsewhere: load it with `device=\"cuda\"`";
            return Err(Error::Kind(format!("`{name}` {what}")));
        }
        Ok(())
    }

    /// Checks the whole file, compiles its entry points, and describes as JSON the interface that a host may
    /// use: see [`crate::interface`].
    pub fn interface(&self) -> Result<String, Error> {
        let described = self.with(|session, loaded| {
            loaded.program.check_file(loaded.file);
            loaded.errors()?;
            let request = Request { entries: loaded.program.entry_points(loaded.file), ..Request::default() };
            let options =
                pipeline::Options { only_diagnostics: true, ..self.options.execution.compile_options() };
            let compiled = loaded.compile(&request, &options)?;
            let described = interface::describe(&mut loaded.program, &session.sources, loaded.file);
            Ok((compiled, described.to_string()))
        })?;
        let ((compiled, described), sources) = described;
        self.warn(&compiled.warnings, &sources);
        Ok(described)
    }

    /// Answers a question about types and functions as JSON: see [`crate::reflect`].
    pub fn reflect(&self, question: Question) -> Result<String, Error> {
        let asked = self.asked.get_or_init(|| {
            let source = self.source.clone();
            Asked::new(move || {
                let mut session = source.session();
                let loaded = source.load(&mut session);
                (session, loaded)
            })
        });
        asked.ask(question).map(|answer| answer.to_string())
    }

    /// Takes the rendered warnings of everything compiled since the last call.
    pub fn take_warnings(&self) -> Vec<String> {
        let _work = fork::at_work();
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Compiles a function with derivation steps applied. Parameters that are memory become globals.
    pub(crate) fn compile(&self, wanted: &Wanted, steps: &[Step]) -> Result<Made, Error> {
        let options = &self.options.execution.compile_options();
        let ((compiled, order), sources) = self.with(|session, loaded| {
            loaded.errors()?;
            let (function, order) = plain(session, loaded, wanted)?;
            let derived = if steps.is_empty() { Vec::new() } else { vec![steps.to_vec()] };
            let request = Request { functions: vec![function], derived, ..Request::default() };
            Ok((loaded.compile(&request, options)?, order))
        })?;
        self.warn(&compiled.warnings, &sources);
        Ok(Made { compiled, order, sources })
    }

    pub(crate) fn warn(&self, warnings: &[Diagnostic], sources: &Sources) {
        let _work = fork::at_work();
        let rendered = warnings.iter().map(|w| render::to_text(sources, w, Style::Plain));
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(rendered);
    }

    /// Reads the program anew and applies `work` to it.
    pub(crate) fn with<T: Send>(
        &self,
        work: impl FnOnce(&mut Session, &mut Loaded) -> Result<T, Failure> + Send,
    ) -> Result<(T, Sources), Error> {
        let _work = fork::at_work();
        match self.source.with(work) {
            (Ok(value), sources) => Ok((value, sources)),
            (Err(failure), sources) => Err(Error::of(&sources, failure)),
        }
    }
}

/// The names of the entry points.
fn entries(loaded: &Loaded) -> Vec<String> {
    let entries = loaded.program.entry_points(loaded.file);
    entries.iter().map(|&entry| loaded.name(entry).to_string()).collect()
}

/// The requested function, with globals in place of parameters that are memory, and the names of all its
/// parameters.
pub(crate) fn plain(
    session: &mut Session,
    loaded: &mut Loaded,
    wanted: &Wanted,
) -> Result<(FuncRef, Vec<String>), Failure> {
    let (function, called) = loaded.specialised(session, wanted)?;
    let found = loaded.lowered(&Request { functions: vec![function.clone()], ..Request::default() })?;
    let params = found.functions.first().map_or(&[][..], |info| &info.params);
    let is_number = |leaf: &(String, ir::Type, bool)| wrap::is_number(&found.module.types, leaf.1);
    // A sampler consists of numbers, but its words are bound once for all calls.
    let is_plain = |p: &lower::ParamInfo| p.leaves.iter().all(is_number) && !texture::is_sampler(&p.ty);
    let is_memory: Vec<bool> = params.iter().map(|p| !is_plain(p)).collect();
    let order = params.iter().map(|p| p.name.clone()).collect();
    let function = match is_memory.contains(&true) {
        true => loaded.without_memory(session, (&function, &called), &is_memory)?,
        false => function,
    };
    Ok((function, order))
}

impl Error {
    /// Converts a failure to an error with the message that the user reads.
    pub(crate) fn of(sources: &Sources, failure: Failure) -> Error {
        match failure {
            Failure::Program(list) => Error::Program(report(sources, &list)),
            Failure::Other(driver::Error::Input(message)) => Error::Value(message),
            Failure::Other(error) => {
                let json = render::error_to_json(error.code(), &error.to_string(), "");
                Error::Program(Report { text: error.to_string(), json })
            }
        }
    }
}

fn report(sources: &Sources, list: &[Diagnostic]) -> Report {
    Report { text: render::all_to_text(sources, list, Style::Plain), json: render::to_json(sources, list) }
}
