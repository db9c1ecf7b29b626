//! Options, and the backends.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use driver::launch::{self, Execution};
use driver::session::FileOptions;

use crate::failure::{Failure, FailureKind};
use crate::module::Module;

/// How programs are read, compiled and run: options, each with a default, and then a program.
///
/// ```
/// use pullback::{Backend, Compiler};
///
/// let compiler = Compiler::new()
///     .define("SCALE", "2.0")
///     .file("shared.slang", "float scaled(float x) { return SCALE * x; }")
///     .backend(Backend::Cranelift);
/// let module = compiler.text("main.slang", "import shared;\nfloat f(float x) { return scaled(x) + 1; }")?;
/// assert_eq!(module.function("f")?.call([("x", 3.0)])?.number("result")?, 7.0);
/// # Ok::<(), pullback::Failure>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Compiler {
    files: FileOptions,
    execution: Execution,
    backend: Backend,
}

/// A way to run programs.
///
/// All give the same results where the program's arithmetic is exact; graphics processors round differently, as
/// their interfaces allow.
///
/// ```
/// use pullback::Backend;
///
/// assert!(Backend::Interpreter.is_available() && Backend::Cranelift.is_available());
/// assert_eq!("cranelift".parse::<Backend>().ok(), Some(Backend::Cranelift));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// The fastest code for this machine's processor: with the feature `llvm`, and LLVM on the machine, programs start on
    /// Cranelift's code and LLVM's takes over once they run long; otherwise Cranelift.
    #[default]
    Fastest,
    /// The reference interpreter.
    Interpreter,
    /// Machine code by Cranelift, which takes little time to compile.
    Cranelift,
    /// Machine code by LLVM from the start; needs the feature `llvm`.
    Llvm,
    /// Graphics processors, by wgpu; needs the feature `wgpu`.
    Wgpu,
    /// NVIDIA's devices; needs the feature `cuda`.
    Cuda,
}

impl Backend {
    /// All backends, whether or not this build has them.
    pub const ALL: [Backend; 6] = [
        Backend::Fastest,
        Backend::Interpreter,
        Backend::Cranelift,
        Backend::Llvm,
        Backend::Wgpu,
        Backend::Cuda,
    ];

    /// The backend's name, which [`FromStr`] reads.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Fastest => "fastest",
            Backend::Interpreter => "interpreter",
            Backend::Cranelift => "cranelift",
            Backend::Llvm => "llvm",
            Backend::Wgpu => "wgpu",
            Backend::Cuda => "cuda",
        }
    }

    /// Returns true if this build has the backend and this machine has what it runs on.
    pub fn is_available(self) -> bool {
        self.find().is_ok()
    }

    pub(crate) fn find(self) -> Result<launch::Backend, Failure> {
        let name = match self {
            Backend::Fastest => return Ok(launch::Backend::default()),
            Backend::Interpreter => "interp",
            Backend::Cranelift | Backend::Llvm | Backend::Wgpu | Backend::Cuda => self.name(),
        };
        let found = launch::Backend::named(name).ok_or_else(|| {
            let message = format!("this build lacks the backend `{name}`, which the feature `{name}` of the crate `pullback` has");
            Failure::new(FailureKind::Backend, message)
        })?;
        found.find().map_err(|error| Failure::new(FailureKind::Backend, error.to_string()))?;
        Ok(found)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Backend, Failure> {
        let found = Backend::ALL.into_iter().find(|backend| backend.name() == text);
        found.ok_or_else(|| {
            let names = Backend::ALL.map(Backend::name).join(", ");
            Failure::new(FailureKind::Backend, format!("there is no backend `{text}`, but {names}"))
        })
    }
}

impl Compiler {
    /// The options' defaults.
    pub fn new() -> Compiler {
        Compiler::default()
    }

    /// Defines a macro of the preprocessor.
    #[must_use]
    pub fn define(mut self, name: impl Into<String>, value: impl Into<String>) -> Compiler {
        self.files.defines.push((name.into(), value.into()));
        self
    }

    /// The number of resources in an array that is declared without a length, by the name of the variable or field; or
    /// how many resources handles of a type can name, by `TYPE.Handle`.
    #[must_use]
    pub fn length(mut self, name: impl Into<String>, n: u32) -> Compiler {
        self.files.lengths.push((name.into(), n));
        self
    }

    /// A folder in which imported and included files are searched.
    #[must_use]
    pub fn include_folder(mut self, folder: impl Into<PathBuf>) -> Compiler {
        self.files.include_dirs.push(folder.into());
        self
    }

    /// A text that takes the place of the file at that path, which need not exist: for modules that a program carries
    /// with it.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>, text: impl Into<String>) -> Compiler {
        self.files.open.push((path.into(), Arc::from(text.into())));
        self
    }

    /// A code of warnings that are not shown, such as `E41018`.
    #[must_use]
    pub fn allow(mut self, code: impl Into<String>) -> Compiler {
        self.files.allow.push(code.into());
        self
    }

    /// Sets the backend that runs programs.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Compiler {
        self.backend = backend;
        self
    }

    /// The number of threads that a dispatch uses; 0, the default, for one per core.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Compiler {
        self.execution.threads = threads;
        self
    }

    /// The same bits in every run and with any number of threads: sums of floats have one order.
    #[must_use]
    pub fn deterministic(mut self) -> Compiler {
        self.execution.code.deterministic = true;
        self
    }

    /// Operations on floats may be reordered and fused, and numbers are taken as finite.
    #[must_use]
    pub fn fast_math(mut self) -> Compiler {
        self.execution.compile.optimise.fast_math = true;
        self.execution.code.fast_math = true;
        self
    }

    /// An access of a buffer beyond its end stops the program, rather than to read zeros and to write nothing.
    #[must_use]
    pub fn trap_out_of_range(mut self) -> Compiler {
        self.execution.code.trap = true;
        self
    }

    /// The number of seconds that one call or dispatch of the [interpreter](Backend::Interpreter) may take, for programs that
    /// are not trusted. Machine code does not look at the clock; a [`StopHandle`](crate::StopHandle) ends it between groups.
    #[must_use]
    pub fn seconds(mut self, seconds: f64) -> Compiler {
        self.execution.code.seconds = Some(if seconds.is_finite() { seconds.max(0.0) } else { f64::MAX });
        self
    }

    /// The number of bytes that the threads of a dispatch may hold together, beside its buffers.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Compiler {
        self.execution.code.memory = Some(bytes);
        self
    }

    /// Code is kept in the user's cache folder, and found there by the next process.
    #[must_use]
    pub fn cache(mut self) -> Compiler {
        self.execution.code.cache = true;
        self
    }

    /// Reads a program from a text. Diagnostics call it `name`; what it imports are [texts](Compiler::file) and files in
    /// the [folders](Compiler::include_folder).
    pub fn text(&self, name: &str, text: &str) -> Result<Module, Failure> {
        Module::from_text(name, text, self.files.clone(), self.execution()?)
    }

    /// Reads a program from a file, and what it imports.
    pub fn path(&self, path: impl AsRef<Path>) -> Result<Module, Failure> {
        Module::from_file(path.as_ref(), self.files.clone(), self.execution()?)
    }

    fn execution(&self) -> Result<Execution, Failure> {
        Ok(Execution { backend: self.backend.find()?, ..self.execution.clone() })
    }
}
