//! A program that was read: what it offers, and what can be made of it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use driver::launch::{Execution, fork};
use driver::pipeline::Loaded;
use driver::session::{FileOptions, Session};
use driver::source::{Outcome, Source};
use syntax::Sources;

use crate::failure::{Diagnostic, Failure, FailureKind};
use crate::function::Function;
use crate::kernels::Kernels;
use crate::memory::Memory;

/// A program that was read, with its imports: a file of functions and kernels.
///
/// Functions are checked and compiled when they are asked for. A module is cheap to clone, and can be used by several
/// threads.
///
/// ```
/// use pullback::Compiler;
///
/// let module = Compiler::new().text("a.slang", "
///     [Differentiable] float f(float x) { return x * x; }
///     RWStructuredBuffer<float> o;
///     [shader(\"compute\")] [numthreads(1, 1, 1)] void k() { o[0] = f(3); }")?;
/// let f = &module.functions()[0];
/// assert_eq!(f.name, "f");
/// assert_eq!(f.signature, "[Differentiable] float f(float x)");
/// assert!(f.is_differentiable);
/// assert_eq!(module.entry_points(), ["k"]);
/// assert!(module.check()?.is_empty(), "there are no warnings");
/// # Ok::<(), pullback::Failure>(())
/// ```
#[derive(Clone)]
pub struct Module {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) source: Source,
    pub(crate) execution: Execution,
    /// The codes of warnings that are not shown.
    files: FileOptions,
    functions: Vec<FunctionInfo>,
    entries: Vec<String>,
}

/// A function of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionInfo {
    /// Its name, `Type.name` for a member, by which [`Module::function`] finds it.
    pub name: String,
    /// Its declaration without the body; empty for members of types.
    pub signature: String,
    /// It is marked as differentiable.
    pub is_differentiable: bool,
    /// Why a host cannot call it, if it cannot because of what it is: generic, or a requirement of an interface.
    pub why_not: Option<String>,
}

impl Module {
    pub(crate) fn from_text(
        name: &str,
        text: &str,
        files: FileOptions,
        execution: Execution,
    ) -> Result<Module, Failure> {
        let read = || Source::from_text((name, text, Path::new("")), files.clone(), described);
        Module::new(guarded(|| Failure::from_outcome(read()))?, files.clone(), execution)
    }

    pub(crate) fn from_file(
        path: &Path,
        files: FileOptions,
        execution: Execution,
    ) -> Result<Module, Failure> {
        let read = || Source::from_file(path, files.clone(), described);
        Module::new(guarded(|| Failure::from_outcome(read()))?, files.clone(), execution)
    }

    fn new(
        ((source, described), _): ((Source, Described), Sources),
        files: FileOptions,
        execution: Execution,
    ) -> Result<Module, Failure> {
        let (functions, entries) = described;
        Ok(Module { inner: Arc::new(Inner { source, execution, files, functions, entries }) })
    }

    /// The functions of the file, in order, and the differentiable members of its types.
    pub fn functions(&self) -> &[FunctionInfo] {
        &self.inner.functions
    }

    /// The names of the entry points, which are kernels unless they are stages of a graphics pipeline.
    pub fn entry_points(&self) -> &[String] {
        &self.inner.entries
    }

    /// The files that were read, with their texts as they were then.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.inner.source.files()
    }

    /// Checks the whole file, and that everything that is marked as differentiable has its derivatives. Returns warnings;
    /// errors are a [`Failure`] with [diagnostics](Failure::diagnostics).
    pub fn check(&self) -> Result<Vec<Diagnostic>, Failure> {
        let (warnings, sources) = self.with(|_, loaded| Ok(loaded.check(false)?.warnings))?;
        Ok(self.shown(&sources, &warnings))
    }

    /// Compiles a function that reads no memory of the host, with its derivatives.
    pub fn function(&self, name: &str) -> Result<Function, Failure> {
        self.function_with(name, Memory::new())
    }

    /// Compiles a function with its derivatives, and binds the memory that it reads: see [`Memory`].
    pub fn function_with(&self, name: &str, memory: Memory) -> Result<Function, Failure> {
        Function::new(self, name, memory)
    }

    /// Compiles all kernels, with memory of their own to which nothing is bound.
    pub fn kernels(&self) -> Result<Kernels, Failure> {
        Kernels::new(self)
    }

    /// Reads the program anew and applies `work` to it.
    pub(crate) fn with<T: Send>(
        &self,
        work: impl FnOnce(&mut Session, &mut Loaded) -> Result<T, driver::error::Failure> + Send,
    ) -> Result<(T, Sources), Failure> {
        guarded(|| {
            let _work = fork::at_work();
            let outcome: Outcome<T> = self.inner.source.with(work);
            Failure::from_outcome(outcome)
        })
    }

    /// The diagnostics that the options do not hide.
    pub(crate) fn shown(&self, sources: &Sources, list: &[syntax::Diagnostic]) -> Vec<Diagnostic> {
        let session = Session::new(self.inner.files.clone());
        let shown: Vec<_> = list.iter().filter(|d| session.is_shown(d)).cloned().collect();
        Diagnostic::all(sources, &shown)
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.inner.functions.iter().map(|f| f.name.as_str()).collect();
        f.debug_struct("Module")
            .field("functions", &names)
            .field("entry_points", &self.inner.entries)
            .finish_non_exhaustive()
    }
}

/// The functions and entry points of a file.
type Described = (Vec<FunctionInfo>, Vec<String>);

fn described(_: &mut Session, loaded: &mut Loaded) -> Result<Described, driver::error::Failure> {
    let listed = loaded.differentiable_declarations();
    let mut functions: Vec<FunctionInfo> = Vec::new();
    for (name, signature) in loaded.signatures() {
        let found = listed.iter().find(|l| l.name == name);
        functions.push(FunctionInfo {
            name,
            signature,
            is_differentiable: found.is_some(),
            why_not: found.and_then(|l| l.why_not.clone()),
        });
    }
    for member in listed {
        if !functions.iter().any(|f| f.name == member.name) {
            functions.push(FunctionInfo {
                name: member.name,
                signature: String::new(),
                is_differentiable: true,
                why_not: member.why_not,
            });
        }
    }
    loaded.errors()?;
    let entries = loaded.program.entry_points(loaded.file);
    let entries = entries.iter().map(|&entry| loaded.name(entry).to_string()).collect();
    Ok((functions, entries))
}

/// Work whose panic is a failure: a mistake of the compiler must not end its host.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(Failure::new(FailureKind::Internal, format!("internal compiler error: {text}")))
    })
}
