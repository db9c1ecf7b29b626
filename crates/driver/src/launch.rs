//! A compiled module with its memory: bind, dispatch, read.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ir::{Global, MemData, MemType, MemTypes, Module, Space};
use syntax::Diagnostic;

use crate::behind::{self, Behind};
use crate::bind::Bind;
use crate::error::Error;
use crate::pipeline::{Failure, source_span};
use crate::tensor::{self, Tensor};
use crate::texture::is_sampler;
use crate::watch;

pub use native::Options as CodeOptions;
pub use native::fork;
pub use run::{Console, Foreign, abandon_threads};

/// What executes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The reference interpreter.
    Interp,
    /// Machine code by Cranelift.
    #[cfg_attr(not(feature = "llvm"), default)]
    Cranelift,
    /// Machine code by LLVM, in lanes where it can.
    #[cfg(feature = "llvm")]
    Llvm,
    /// Machine code by Cranelift, and by LLVM as soon as that pays.
    #[cfg(feature = "llvm")]
    #[default]
    Tiers,
    /// A graphics processor, by wgpu.
    #[cfg(feature = "wgpu")]
    Wgpu,
    /// One of NVIDIA's devices, by its driver.
    #[cfg(feature = "cuda")]
    Cuda,
}

impl Backend {
    /// The name that `--backend` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Interp => "interp",
            Backend::Cranelift => "cranelift",
            #[cfg(feature = "llvm")]
            Backend::Llvm => "llvm",
            #[cfg(feature = "llvm")]
            Backend::Tiers => "tiers",
            #[cfg(feature = "wgpu")]
            Backend::Wgpu => "wgpu",
            #[cfg(feature = "cuda")]
            Backend::Cuda => "cuda",
        }
    }

    /// An error where it needs a device that this machine does not have.
    pub fn find(self) -> Result<(), Error> {
        match self {
            Backend::Interp | Backend::Cranelift => Ok(()),
            #[cfg(feature = "llvm")]
            Backend::Llvm | Backend::Tiers => Ok(()),
            #[cfg(feature = "wgpu")]
            Backend::Wgpu => run::gpu::Device::first().map(|_| ()).map_err(Error::Input),
            #[cfg(feature = "cuda")]
            Backend::Cuda => run::cuda::devices().map(|_| ()).map_err(Error::Input),
        }
    }

    /// A device has no pointers in memory, and rounds as it likes.
    pub fn is_device(self) -> bool {
        match self {
            Backend::Interp | Backend::Cranelift => false,
            #[cfg(feature = "llvm")]
            Backend::Llvm | Backend::Tiers => false,
            #[cfg(feature = "wgpu")]
            Backend::Wgpu => true,
            #[cfg(feature = "cuda")]
            Backend::Cuda => true,
        }
    }

    /// Begins what takes time and does not depend on the program. To be called before the program is read.
    pub fn prepare(self) {
        #[cfg(feature = "llvm")]
        if self == Backend::Llvm {
            codegen_llvm::open_early();
        }
    }
}

/// Names LLVM's shared library for backends that need it, before they do. The environment's `PULLBACK_LIBLLVM` goes first.
pub fn llvm_found_at(path: String) {
    #[cfg(feature = "llvm")]
    codegen_llvm::found_at(path);
    #[cfg(not(feature = "llvm"))]
    drop(path);
}

/// Ends the process at once, with that status. Nothing is waited for.
pub fn end(status: u8) -> ! {
    let _ = leave(status);
    std::process::exit(i32::from(status))
}

/// The memory and time that a program may take.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// [`CodeOptions::memory`].
    pub memory: Option<u64>,
    /// [`CodeOptions::seconds`].
    pub seconds: Option<f64>,
}

impl Limits {
    /// Options with these limits, and the defaults else.
    pub fn options(self) -> CodeOptions {
        CodeOptions { memory: self.memory, seconds: self.seconds, ..CodeOptions::default() }
    }
}

/// What runs a module.
enum Code {
    Interp,
    Compiled(Box<native::Compiled>),
    #[cfg(feature = "llvm")]
    Tiers(Box<crate::tiers::Tiers>),
    #[cfg(feature = "wgpu")]
    Gpu(Box<run::gpu::Program>),
    #[cfg(feature = "cuda")]
    Cuda(Box<run::cuda::Program>),
}

impl Code {
    /// The machine code that runs now.
    fn compiled(&self) -> Option<&native::Compiled> {
        match self {
            Code::Compiled(code) => Some(code),
            #[cfg(feature = "llvm")]
            Code::Tiers(tiers) => Some(tiers.best()),
            Code::Interp => None,
            #[cfg(feature = "wgpu")]
            Code::Gpu(_) => None,
            #[cfg(feature = "cuda")]
            Code::Cuda(_) => None,
        }
    }
}

/// The status of a process that has nothing left to do. What is still compiled in the background is not waited for.
pub fn leave(status: u8) -> std::process::ExitCode {
    #[cfg(feature = "llvm")]
    return codegen_llvm::leave(status);
    #[cfg(not(feature = "llvm"))]
    std::process::ExitCode::from(status)
}

/// A module ready to be dispatched.
pub struct Runner {
    module: Arc<Module>,
    code: Arc<Code>,
    buffers: run::Buffers,
    bound: Vec<bool>,
    deterministic: bool,
    flush_subnormals: bool,
    memory: Option<u64>,
    seconds: Option<f64>,
    /// By entry point: the error of a launch that takes too long.
    overdue: Vec<Arc<Diagnostic>>,
    console: Option<Arc<dyn Console>>,
    stop: Option<Arc<AtomicBool>>,
    pub(crate) tensors: Vec<Tensor>,
    behind: Vec<Behind>,
    printed: String,
}

/// What a dispatch says.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// What `printf` wrote.
    pub stdout: String,
    /// Seconds of the dispatch alone.
    pub seconds: f64,
    /// What else the dispatch took.
    pub cost: run::Cost,
}

impl Runner {
    /// Compiles a module's entry points. `trap` stops at the first access out of range.
    pub fn new(module: Module, backend: Backend, trap: bool) -> Result<Runner, Failure> {
        Runner::with_options(module, backend, &CodeOptions { trap, ..CodeOptions::default() })
    }

    /// As [`Self::new`], for so many lanes where the backend has them; `None` for what suits.
    pub fn with_lanes(
        module: Module,
        backend: Backend,
        trap: bool,
        lanes: Option<u32>,
    ) -> Result<Runner, Failure> {
        Runner::with_options(module, backend, &CodeOptions { trap, lanes, ..CodeOptions::default() })
    }

    /// As [`Self::new`], with all that can be chosen of machine code.
    pub fn with_options(module: Module, backend: Backend, options: &CodeOptions) -> Result<Runner, Failure> {
        let refused = |unsupported: native::Unsupported| {
            Failure::of_backend(&unsupported, |span| {
                Diagnostic::error("E0902", span, unsupported.to_string())
                    .help("`--backend interp` runs every program")
            })
        };
        let module = Arc::new(module);
        let code = match backend {
            Backend::Interp => Code::Interp,
            #[cfg(feature = "wgpu")]
            Backend::Wgpu => Code::Gpu(Box::new(crate::gpu::program(&module)?)),
            #[cfg(feature = "cuda")]
            Backend::Cuda => Code::Cuda(Box::new(crate::gpu::cuda_program(&module, None)?)),
            Backend::Cranelift => {
                Code::Compiled(Box::new(codegen_cranelift::compile(&module, options).map_err(refused)?))
            }
            #[cfg(feature = "llvm")]
            Backend::Llvm => Code::Compiled(Box::new(crate::tiers::llvm(&module, options).map_err(refused)?)),
            #[cfg(feature = "llvm")]
            Backend::Tiers => match crate::tiers::start(&module, options).map_err(refused)? {
                crate::tiers::Start::Final(code) => Code::Compiled(code),
                crate::tiers::Start::Tiers(tiers) => Code::Tiers(tiers),
            },
        };
        Ok(Runner::around(module, code, options))
    }

    /// As [`Self::with_options`], for memory that is bound so: pointers in memory have names of their own.
    pub fn with_pointers(
        mut module: Module,
        binds: &[Bind],
        backend: Backend,
        options: &CodeOptions,
    ) -> Result<Runner, Failure> {
        let behind = behind::name_pointers(&mut module, binds, backend);
        Runner::with_behind(module, behind, backend, options)
    }

    /// As [`Self::with_pointers`], where these have got their names.
    pub(crate) fn with_behind(
        module: Module,
        behind: Vec<Behind>,
        backend: Backend,
        options: &CodeOptions,
    ) -> Result<Runner, Failure> {
        let mut runner = Runner::with_options(module, backend, options)?;
        runner.behind = behind;
        Ok(runner)
    }

    /// Puts pointers that have been bound where they are held. What consists of pointers alone needs no content of its own.
    pub(crate) fn bind_pointers(&mut self) -> Result<(), Error> {
        for Behind { holder, at, pointer } in self.behind.clone() {
            let (n, size) = self.with_names(holder);
            let is_plain = self.of_pointers(holder);
            if is_plain && !self.is_bound(holder) {
                self.bind_global(holder, &vec![0; n * size]);
            }
            if !self.is_bound(holder) || !self.is_bound(pointer) {
                continue;
            }
            let bytes = self.buffers.bytes(holder).len();
            if bytes != n * size {
                let (name, field) = (self.name(holder), self.name(pointer));
                let last = (bytes / size.max(1)).saturating_sub(1);
                let field = field.strip_prefix(name).map_or("", |f| f.trim_start_matches(|c| c != '.'));
                let message = format!(
                    "`{name}` has {} elements and holds pointers, which are bound by name for each of them, as `{name}[{last}]{field}`",
                    last + 1
                );
                return Err(Error::input(message));
            }
            let number = self.buffers.pointer(pointer);
            self.buffers.bytes_mut(holder)[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        Ok(())
    }

    /// True if a global's memory holds pointers alone, which have names of their own.
    pub fn of_pointers(&self, global: Global) -> bool {
        let pointers = self.behind.iter().filter(|b| b.holder == global).count();
        let (n, size) = self.with_names(global);
        pointers > 0 && pointers * 8 == n * size
    }

    /// How many elements of a global hold pointers that have names, and the size of one.
    fn with_names(&self, global: Global) -> (usize, usize) {
        let size = self.module.mem.size(self.element_of(global)) as usize;
        let last = self.behind.iter().filter(|b| b.holder == global).map(|b| b.at / size.max(1)).max();
        (last.map_or(0, |last| last + 1), size)
    }

    /// A runner on a CUDA driver that the caller has.
    #[cfg(feature = "cuda")]
    pub fn on_cuda(
        module: Module,
        device: Arc<dyn run::cuda::Driver>,
        options: &CodeOptions,
    ) -> Result<Runner, Failure> {
        let code = Code::Cuda(Box::new(crate::gpu::cuda_program(&module, Some(device))?));
        Ok(Runner::around(Arc::new(module), code, options))
    }

    fn around(module: Arc<Module>, code: Code, options: &CodeOptions) -> Runner {
        let buffers = run::Buffers::new(&module);
        let bound = vec![false; module.globals.len()];
        let tensors = tensor::tensors(&module);
        let overdue = |seconds: f64| {
            let entries = module.entries.iter();
            entries.map(|entry| Arc::new(watch::overdue(&module, entry.func, seconds))).collect()
        };
        let overdue = options.seconds.map_or_else(Vec::new, overdue);
        Runner {
            deterministic: options.deterministic,
            flush_subnormals: options.flush_subnormals,
            memory: options.memory,
            seconds: options.seconds,
            overdue,
            console: None,
            stop: None,
            module,
            code: Arc::new(code),
            buffers,
            bound,
            tensors,
            behind: Vec::new(),
            printed: String::new(),
        }
    }

    /// The same code with memory of its own, to which nothing is bound: so several threads may dispatch at a time.
    pub fn fork(&self) -> Runner {
        Runner {
            module: self.module.clone(),
            code: self.code.clone(),
            buffers: run::Buffers::new(&self.module),
            bound: vec![false; self.module.globals.len()],
            deterministic: self.deterministic,
            flush_subnormals: self.flush_subnormals,
            memory: self.memory,
            seconds: self.seconds,
            overdue: self.overdue.clone(),
            console: self.console.clone(),
            stop: None,
            tensors: self.tensors.clone(),
            behind: self.behind.clone(),
            printed: String::new(),
        }
    }

    /// Gives what `printf` writes to a console, as soon as it is its turn.
    pub fn set_console(&mut self, console: Arc<dyn Console>) {
        self.console = Some(console);
    }

    /// Lets dispatches end early, once this is set; `None`: nothing ends them.
    pub fn set_stop(&mut self, stop: Option<Arc<AtomicBool>>) {
        self.stop = stop;
    }

    /// How to dispatch.
    fn options(&self) -> run::Options<'static> {
        run::Options {
            deterministic: self.deterministic,
            flush_subnormals: self.flush_subnormals,
            memory: self.memory,
            seconds: self.seconds,
            ..run::Options::default()
        }
    }

    /// True while the code may still be replaced by faster code.
    #[cfg(feature = "llvm")]
    pub fn is_first_tier(&self) -> bool {
        matches!(&*self.code, Code::Tiers(tiers) if !tiers.has_taken_over())
    }

    /// How many threads of an entry point, by number, run in lanes.
    pub fn lanes(&self, entry: usize) -> u32 {
        self.code.compiled().map_or(1, |code| code.lanes(entry))
    }

    /// Why the threads of an entry point do not run in lanes, and where, if the backend has lanes.
    pub fn why_single(&self, entry: usize) -> Option<(String, syntax::Span)> {
        let reason = self.code.compiled()?.why_single(entry)?;
        Some((reason.what.clone(), source_span(reason.span)))
    }

    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// What the last dispatch that was stopped had printed.
    pub fn printed(&self) -> &str {
        &self.printed
    }

    /// Its memory types.
    pub fn mem(&self) -> &MemTypes {
        &self.module.mem
    }

    /// The globals that the host binds, in order of declaration.
    pub fn globals(&self) -> impl Iterator<Item = (Global, &ir::GlobalData)> {
        self.module
            .globals
            .iter()
            .filter(|(_, g)| matches!(g.space, Space::ReadWrite | Space::ReadOnly | Space::Uniform))
    }

    /// The type of a global's elements (of what a pointer points to), if there is such a global.
    pub fn element(&self, name: &str) -> Option<MemType> {
        self.find(name).map(|global| self.element_of(global))
    }

    /// As [`Self::element`].
    pub fn element_of(&self, global: Global) -> MemType {
        let data = &self.module.globals[global];
        data.pointee(&self.module.mem).unwrap_or(data.ty)
    }

    /// Whether a global holds a single value rather than any number of elements.
    pub fn is_single(&self, global: Global) -> bool {
        let data = &self.module.globals[global];
        data.space == Space::Uniform && data.pointee(&self.module.mem).is_none()
    }

    /// Whether a kernel may have written it.
    pub fn is_writable(&self, global: Global) -> bool {
        let data = &self.module.globals[global];
        data.space == Space::ReadWrite || data.pointee(&self.module.mem).is_some()
    }

    /// Binds a global's content. A global that the program does not use is ignored.
    pub fn bind(&mut self, name: &str, bytes: Vec<u8>) -> Result<(), Error> {
        if let Some(global) = self.find(name) {
            self.bind_global(global, &bytes);
        }
        Ok(())
    }

    /// Binds a global's content.
    pub fn bind_global(&mut self, global: Global, bytes: &[u8]) {
        self.buffers.bind(&self.module, global, bytes);
        self.bound[cranelift_entity::EntityRef::index(global)] = true;
    }

    /// Binds memory of the host's to a global, which a dispatch reads and writes where it is.
    pub fn bind_foreign(&mut self, global: Global, memory: Foreign) {
        self.buffers.bind_foreign(&self.module, global, memory);
        self.bound[cranelift_entity::EntityRef::index(global)] = true;
    }

    /// The first global that nothing is bound to. A sampler needs nothing.
    pub fn unbound(&self) -> Option<Global> {
        let is_sampler = |mut ty| {
            while let MemData::Array(element, _) = self.module.mem[ty] {
                ty = element;
            }
            matches!(&self.module.mem[ty], MemData::Struct { name, .. } if is_sampler(name))
        };
        let unbound = |g: &(Global, &ir::GlobalData)| !self.is_bound(g.0) && !is_sampler(g.1.ty);
        self.globals().find(unbound).map(|g| g.0)
    }

    /// A global's bytes.
    pub fn bytes(&self, name: &str) -> Result<&[u8], Error> {
        let global = self.find(name).ok_or_else(|| Error::input(format!("there is no global `{name}`")))?;
        Ok(self.buffers.bytes(global))
    }

    /// A global's bytes.
    pub fn bytes_of(&self, global: Global) -> &[u8] {
        self.buffers.bytes(global)
    }

    /// The bytes of all buffers, in the order of their numbers: first one for each global, then what pointers refer to.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.buffers.contents()
    }

    /// A global's bytes, to change.
    pub fn bytes_mut_of(&mut self, global: Global) -> &mut [u8] {
        self.buffers.bytes_mut(global)
    }

    /// The global of that name; the elements of the tensor of that name.
    pub fn find(&self, name: &str) -> Option<Global> {
        let tensor = self.tensors.iter().find(|t| t.name == name).map(|t| t.data);
        tensor.or_else(|| self.globals().find(|(_, g)| g.name == name).map(|g| g.0))
    }

    /// The tensor whose elements or layout a global holds.
    pub fn tensor(&self, global: Global) -> Option<&Tensor> {
        self.tensors.iter().find(|t| t.data == global || t.layout == global)
    }

    /// What the user calls a global.
    pub fn name(&self, global: Global) -> &str {
        self.tensor(global).map_or(&self.module.globals[global].name, |t| &t.name)
    }

    /// Whether the host has given a global its content.
    pub fn is_bound(&self, global: Global) -> bool {
        self.bound[cranelift_entity::EntityRef::index(global)]
    }

    /// Threads that keep a graphics processor busy which is a processor of the machine; `None` elsewhere.
    pub fn device_threads(&self) -> Option<usize> {
        match &*self.code {
            #[cfg(feature = "wgpu")]
            Code::Gpu(program) => program.threads,
            _ => None,
        }
    }

    /// Runs thread groups of an entry point. `threads` 0: all cores.
    pub fn dispatch(&mut self, entry: &str, groups: [u32; 3], threads: usize) -> Result<Output, Error> {
        self.dispatch_for(entry, groups, threads, None)
    }

    /// As [`Self::dispatch`], where the host reads only so many bytes of some buffers afterwards; `None`: all of all.
    pub fn dispatch_for(
        &mut self,
        entry: &str,
        groups: [u32; 3],
        threads: usize,
        reads: Option<&[(Global, usize)]>,
    ) -> Result<Output, Error> {
        let number = self.module.entries.iter().position(|e| e.name == entry);
        let number = number.ok_or_else(|| Error::input(format!("there is no entry point `{entry}`")))?;
        self.dispatch_entry(number, groups, threads, reads)
    }

    /// [`Self::dispatch_for`] of the module's entry point number `number`.
    pub fn dispatch_entry(
        &mut self,
        number: usize,
        groups: [u32; 3],
        threads: usize,
        reads: Option<&[(Global, usize)]>,
    ) -> Result<Output, Error> {
        self.try_dispatch(number, groups, threads, reads).map_err(with_thread)
    }

    /// Runs so many groups of an entry point whose threads are calls of the host: they have no numbers for the user.
    pub(crate) fn call(&mut self, number: usize, groups: u32) -> Result<Output, Error> {
        let called = self.try_dispatch(number, [groups, 1, 1], 1, None);
        called.map_err(|error| stopped(error.message, error.span))
    }

    fn try_dispatch(
        &mut self,
        number: usize,
        groups: [u32; 3],
        threads: usize,
        reads: Option<&[(Global, usize)]>,
    ) -> Result<Output, run::RunError> {
        let backend = match &*self.code {
            Code::Interp => run::Backend::Interp,
            Code::Compiled(code) => run::Backend::Compiled(code),
            #[cfg(feature = "llvm")]
            Code::Tiers(tiers) => tiers.backend(),
            #[cfg(feature = "wgpu")]
            Code::Gpu(program) => run::Backend::Gpu(program),
            #[cfg(feature = "cuda")]
            Code::Cuda(program) => run::Backend::Cuda(program),
        };
        let (console, stop) = (self.console.clone(), self.stop.clone());
        let options = run::Options {
            threads,
            reads,
            stop: stop.as_deref(),
            console: console.as_ref(),
            ..self.options()
        };
        let _watched = match (&*self.code, self.seconds, self.overdue.get(number)) {
            (Code::Interp, ..) => None,
            (_, Some(seconds), Some(overdue)) => watch::launch(seconds, overdue),
            _ => None,
        };
        // The interpreter runs on this thread, whose host may have it otherwise.
        let _subnormals = native::Subnormals::set(false);
        let done = run::dispatch(backend, &self.module, number, groups, &mut self.buffers, options);
        self.finished(done)
    }

    /// Dispatches on the interpreter; the races that it finds as errors, the first first.
    pub fn find_races(&mut self, entry: &str, groups: [u32; 3]) -> Result<(Output, Vec<Diagnostic>), Error> {
        let number = self.module.entries.iter().position(|e| e.name == entry);
        let number = number.ok_or_else(|| Error::input(format!("there is no entry point `{entry}`")))?;
        let console = self.console.clone();
        let options = run::Options { console: console.as_ref(), ..self.options() };
        let (done, races) = run::find_races(&self.module, number, groups, &mut self.buffers, options);
        let races = races.iter().map(|race| self.race(race)).collect();
        Ok((self.finished(done).map_err(with_thread)?, races))
    }

    fn race(&self, race: &run::Race) -> Diagnostic {
        let [first, second] = race.accesses;
        let name = race.global.map_or("memory behind a pointer".to_string(), |g| {
            let name = self.module.globals[g].name.clone();
            let name = self.tensor(g).map_or(name, |t| t.name.clone());
            format!("`{}[{}]`", name.split_once(".__").map_or(&name[..], |n| n.0), race.element)
        });
        let at = if race.byte == 0 { String::new() } else { format!(", from byte {} on", race.byte) };
        let does = |access: &run::RaceAccess| {
            let [x, y, z] = access.thread;
            let verb = match access.kind {
                run::AccessKind::Read => "reads",
                run::AccessKind::Write => "writes",
                run::AccessKind::Atomic => "changes",
            };
            format!("thread ({x}, {y}, {z}) {verb} it")
        };
        let message = format!("a race for {name}{at}: {}, and {}", does(&first), does(&second));
        let diagnostic = Diagnostic::error("E0951", source_span(second.span), message)
            .label(format!("{} here", does(&second)))
            .help("use atomic operations, a barrier between the accesses, or a place for each thread");
        if first.span == second.span {
            return diagnostic;
        }
        diagnostic.note(source_span(first.span), format!("{} here", does(&first)))
    }

    fn finished(&mut self, done: Result<run::Output, run::Stopped>) -> Result<Output, run::RunError> {
        match done {
            Ok(output) => Ok(Output { stdout: output.stdout, seconds: output.seconds, cost: output.cost }),
            Err(run::Stopped { error, stdout }) => {
                self.printed = stdout;
                Err(error)
            }
        }
    }
}

/// Why a program stopped, and which thread did.
fn with_thread(error: run::RunError) -> Error {
    let [x, y, z] = error.thread;
    stopped(format!("{} (thread {x}, {y}, {z})", error.message), error.span)
}

/// Why a program stopped, with its place if it has one.
fn stopped(message: String, span: ir::Span) -> Error {
    match span {
        ir::Span::NONE => Error::Stopped(message),
        span => Error::StoppedAt { message, span: source_span(span) },
    }
}
