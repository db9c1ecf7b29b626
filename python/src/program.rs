//! Programs from files and texts.

use std::path::PathBuf;
use std::sync::Arc;

use array::reflect::Question;
use array::{Conformance, Library, Options, Wanted};
use driver::launch::{Backend, CodeOptions, Execution};
use driver::session::FileOptions;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::raised;
use crate::function::Function;
use crate::kernel::Kernel;

/// A program: a file, or a text with the folder in which its imports are searched.
#[pyclass(frozen, module = "pullback._core")]
pub(crate) struct Program {
    inner: Arc<array::Program>,
}

/// The generic parameters, all parameters, and the parameters of interface type.
type GenericsInfo = (Vec<String>, Vec<String>, Vec<String>);

#[pymethods]
impl Program {
    #[new]
    #[pyo3(signature = (path, text=None, *, defines=Vec::new(), include=Vec::new(), lengths=Vec::new(), backend=None, level=None, threads=0, deterministic=false, fast_math=false, fp_contract=false, matrix_units=false, cache=true))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        text: Option<String>,
        defines: Vec<(String, String)>,
        include: Vec<PathBuf>,
        lengths: Vec<(String, u32)>,
        backend: Option<&str>,
        level: Option<u8>,
        threads: usize,
        deterministic: bool,
        fast_math: bool,
        fp_contract: bool,
        matrix_units: bool,
        cache: bool,
    ) -> PyResult<Program> {
        let files = FileOptions { defines, include_dirs: include, lengths, ..FileOptions::default() };
        let code = CodeOptions { fast_math, deterministic, cache, ..CodeOptions::default() };
        let mut execution = Execution { code, threads, ..Execution::default() };
        if let Some(level) = level {
            execution.compile.optimise.level = level;
        }
        if let Some(name) = backend {
            execution.backend = Backend::named(name)
                .ok_or_else(|| PyValueError::new_err(format!("there is no backend `{name}`")))?;
        }
        execution.compile.optimise.fast_math = fast_math;
        execution.compile.optimise.contract = fp_contract;
        execution.compile.matrix_units = matrix_units;
        let options = Options { files, execution };
        let read = py.detach(|| match text {
            None => array::Program::from_file(&path, options),
            Some(text) => {
                let name = path.display().to_string();
                let folder = path.parent().map(PathBuf::from).unwrap_or_default();
                array::Program::from_text(&name, &text, &folder, options)
            }
        });
        Ok(Program { inner: read.map_err(|error| raised(py, error))? })
    }

    /// The function of that name; `generics` are its generic arguments, `types` the types of parameters by
    /// name.
    #[pyo3(signature = (name, generics=Vec::new(), types=Vec::new()))]
    fn function(
        &self,
        py: Python<'_>,
        name: String,
        generics: Vec<String>,
        types: Vec<(String, String)>,
    ) -> PyResult<Function> {
        let found = py.detach(|| self.inner.specialised(&Wanted { name, generics, types }));
        Ok(Function::new(found.map_err(|error| raised(py, error))?))
    }

    /// The generic parameters of a function as declared, the names of all parameters, and the names of those
    /// of interface type; `None` if there is no such function.
    fn generics_of(&self, py: Python<'_>, name: &str) -> PyResult<Option<GenericsInfo>> {
        let found = py.detach(|| self.inner.generics_of(name)).map_err(|error| raised(py, error))?;
        Ok(found.map(|g| (g.generics, g.params, g.dynamic)))
    }

    /// The declarations of the functions in the file itself, each with its name.
    fn signatures(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        py.detach(|| self.inner.signatures()).map_err(|error| raised(py, error))
    }

    /// The files that were read, with their contents.
    #[getter]
    fn files(&self) -> Vec<(PathBuf, String)> {
        self.inner.read().map(|(path, text)| (path.to_path_buf(), text.to_string())).collect()
    }

    /// Writes a library of C functions and its header.
    #[pyo3(signature = (path, header, functions, kernels, native, exclusive))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn build(
        &self,
        py: Python<'_>,
        path: PathBuf,
        header: Option<PathBuf>,
        functions: Vec<String>,
        kernels: Vec<String>,
        native: bool,
        exclusive: bool,
    ) -> PyResult<()> {
        let library = Library { functions, kernels, native, exclusive };
        let done = py.detach(|| self.inner.build(&path, header.as_deref(), &library));
        done.map_err(|error| raised(py, error))
    }

    /// The names of its entry points.
    #[getter]
    fn entries(&self) -> Vec<String> {
        self.inner.entries.clone()
    }

    /// The entry point of that name, or its derivative as `bwd_diff(name)`; `group` is its thread group size,
    /// if the source does not declare one. `addition` is text appended to the program; `conform` lists types,
    /// interfaces and the numbers that identify the types in dynamic dispatch.
    #[pyo3(signature = (name, group=None, addition=None, conform=Vec::new()))]
    fn kernel(
        &self,
        py: Python<'_>,
        name: &str,
        group: Option<[u32; 3]>,
        addition: Option<&str>,
        conform: Vec<(String, String, Option<u32>)>,
    ) -> PyResult<Kernel> {
        let named = conform.into_iter().map(|(ty, interface, id)| Conformance { ty, interface, id });
        let named: Vec<Conformance> = named.collect();
        let found = py.detach(|| self.inner.kernel_with(name, group, addition, &named));
        Ok(Kernel { inner: Arc::new(found.map_err(|error| raised(py, error))?) })
    }

    /// Checks the whole file and describes its interface for a host as JSON: its kernels and host functions,
    /// with types.
    fn interface(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.inner.interface()).map_err(|error| raised(py, error))
    }

    /// The types denoted by these texts, as a JSON list with `null` for texts that denote no type.
    fn types(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<String> {
        self.ask(py, Question::Types(texts))
    }

    /// The functions of a name, or those of a type, optionally with generic arguments, as a JSON list.
    #[pyo3(signature = (name, of=None, args=None))]
    fn functions(
        &self,
        py: Python<'_>,
        name: String,
        of: Option<String>,
        args: Option<String>,
    ) -> PyResult<String> {
        self.ask(py, Question::Functions { name, of, args })
    }

    /// The function called by the only statement of a function, as JSON.
    fn called(&self, py: Python<'_>, text: String) -> PyResult<String> {
        self.ask(py, Question::Call(text))
    }

    /// The declarations of the program's files, as a JSON list of lists.
    fn declarations(&self, py: Python<'_>) -> PyResult<String> {
        self.ask(py, Question::Declarations)
    }

    /// The rendered warnings of everything compiled since the last call.
    fn take_warnings(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| self.inner.take_warnings())
    }
}

impl Program {
    fn ask(&self, py: Python<'_>, question: Question) -> PyResult<String> {
        py.detach(|| self.inner.reflect(question)).map_err(|error| raised(py, error))
    }
}
