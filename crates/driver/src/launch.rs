//! A compiled module with its memory: bind, dispatch, read.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ir::{Global, MemData, MemType, MemTypes, Module, Space};
use syntax::Diagnostic;

use crate::behind::{self, Behind};
use crate::bind::{self, Bind, BindValue};
use crate::device::Program;
use crate::error::{Error, Failure, only_kernels, source_span};
use crate::pipeline::{self};
use crate::tensor::{self, Tensor};
use crate::texture::is_sampler;
use crate::watch;

pub use crate::device::Backend;
pub use native::Options as CodeOptions;
pub use native::fork;
pub use run::{Console, Foreign, Output, abandon_threads};

/// Sets the path of LLVM's shared library, before a backend needs it. The environment variable
/// `PULLBACK_LIBLLVM` takes precedence.
pub fn llvm_found_at(path: String) {
    #[cfg(feature = "llvm")]
    codegen_llvm::found_at(path);
    #[cfg(not(feature = "llvm"))]
    drop(path);
}

/// Ends the process at once with the given status, without waiting for anything.
pub fn end(status: u8) -> ! {
    let _ = leave(status);
    std::process::exit(i32::from(status))
}

/// How a program is compiled and run.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    /// Options of the compiler.
    pub compile: pipeline::Options,
    /// The backend that runs the program.
    pub backend: Backend,
    /// Options of code generation, and the limits of memory and time of each launch.
    pub code: CodeOptions,
    /// Worker threads of a dispatch; 0 for one per core.
    pub threads: usize,
}

/// Options of the compiler for the code of a backend.
pub fn options_for(options: &pipeline::Options, backend: Backend) -> pipeline::Options {
    let kind = if backend.name() == "cuda" { pipeline::Kind::Nvidia } else { pipeline::Kind::Other };
    if backend.is_device() { options.for_device(kind) } else { options.for_processor() }
}

impl Execution {
    /// The compiler's options for the kind of device that the backend uses.
    pub fn compile_options(&self) -> pipeline::Options {
        options_for(&self.compile, self.backend)
    }
}

/// The exit status of a process that has finished. Compilation in the background is not waited for.
pub fn leave(status: u8) -> std::process::ExitCode {
    #[cfg(feature = "llvm")]
    return codegen_llvm::leave(status);
    #[cfg(not(feature = "llvm"))]
    std::process::ExitCode::from(status)
}

/// The uniforms of the library that hold the numbers of groups. They are no built-in input of the backends, since some
/// divide a dispatch into several launches.
const GROUP_COUNTS: [&str; 2] = ["gl_NumWorkGroups", "__WorkgroupCount"];

/// A module ready to be dispatched.
pub struct Runner {
    module: Arc<Module>,
    program: Arc<dyn Program>,
    buffers: run::Buffers,
    bound: Vec<bool>,
    /// By global: whether any code refers to it.
    used: Arc<[bool]>,
    /// The options of every dispatch.
    options: run::Options<'static>,
    /// By entry point: the error for a launch that takes too long.
    overdue: Vec<Arc<Diagnostic>>,
    console: Option<Arc<dyn Console>>,
    stop: Option<Arc<AtomicBool>>,
    pub(crate) tensors: Vec<Tensor>,
    behind: Vec<Behind>,
    printed: String,
}

impl Runner {
    /// Compiles a module's entry points.
    pub fn new(module: Module, backend: Backend) -> Result<Runner, Failure> {
        Runner::with_options(module, backend, &CodeOptions::default())
    }

    /// Like [`Self::new`], with all options of code generation.
    pub fn with_options(module: Module, backend: Backend, options: &CodeOptions) -> Result<Runner, Failure> {
        only_kernels(&module)?;
        let module = Arc::new(module);
        let program = backend.compile(&module, options)?;
        Ok(Runner::around(module, program, options))
    }

    /// Like [`Self::with_options`], for memory bound by `binds`: pointers in that memory get names of their
    /// own.
    pub fn with_pointers(
        mut module: Module,
        binds: &[Bind],
        backend: Backend,
        options: &CodeOptions,
    ) -> Result<Runner, Failure> {
        let behind = behind::name_pointers(&mut module, binds, backend)?;
        Runner::with_behind(module, behind, backend, options)
    }

    /// Like [`Self::with_pointers`], with pointers that have been named already.
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

    /// Writes the numbers of bound pointers to the memory that holds them. Memory that consists only of
    /// pointers need not be bound itself.
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

    /// Returns true if a global's memory consists only of pointers that have names of their own.
    pub fn of_pointers(&self, global: Global) -> bool {
        let pointers = self.behind.iter().filter(|b| b.holder == global).count();
        let (n, size) = self.with_names(global);
        pointers > 0 && pointers * 8 == n * size
    }

    /// The number of elements of a global that hold named pointers, and the size of an element.
    fn with_names(&self, global: Global) -> (usize, usize) {
        let size = self.module.mem.size(self.element_of(global)) as usize;
        let last = self.behind.iter().filter(|b| b.holder == global).map(|b| b.at / size.max(1)).max();
        (last.map_or(0, |last| last + 1), size)
    }

    /// Creates a runner on a CUDA driver that the caller provides.
    #[cfg(feature = "cuda")]
    pub fn on_cuda(
        module: Module,
        device: Arc<dyn crate::device::cuda::Driver>,
        options: &CodeOptions,
    ) -> Result<Runner, Failure> {
        let program = crate::device::cuda::compile_on(device, &module)?;
        Ok(Runner::around(Arc::new(module), program, options))
    }

    fn around(module: Arc<Module>, program: Box<dyn Program>, options: &CodeOptions) -> Runner {
        let buffers = run::Buffers::new(&module);
        let bound = vec![false; module.globals.len()];
        let tensors = tensor::tensors(&module);
        let mut used = vec![false; module.globals.len()];
        for inst in module.funcs.values().flat_map(|func| func.insts.values()) {
            if let ir::Op::GlobalRef(global) = inst.op {
                used[cranelift_entity::EntityRef::index(global)] = true;
            }
        }
        let overdue = |seconds: f64| {
            let entries = module.entries.iter();
            entries.map(|entry| Arc::new(watch::overdue(&module, entry.func, seconds))).collect()
        };
        let overdue = options.seconds.map_or_else(Vec::new, overdue);
        Runner {
            options: run::Options {
                deterministic: options.deterministic,
                flush_subnormals: options.flush_subnormals,
                memory: options.memory,
                seconds: options.seconds,
                ..run::Options::default()
            },
            overdue,
            console: None,
            stop: None,
            module,
            program: Arc::from(program),
            buffers,
            bound,
            used: used.into(),
            tensors,
            behind: Vec::new(),
            printed: String::new(),
        }
    }

    /// A runner for the same code with memory of its own, to which nothing is bound, so that several threads
    /// can dispatch concurrently.
    pub fn fork(&self) -> Runner {
        Runner {
            module: self.module.clone(),
            program: self.program.clone(),
            buffers: run::Buffers::new(&self.module),
            bound: vec![false; self.module.globals.len()],
            used: self.used.clone(),
            options: self.options,
            overdue: self.overdue.clone(),
            console: self.console.clone(),
            stop: None,
            tensors: self.tensors.clone(),
            behind: self.behind.clone(),
            printed: String::new(),
        }
    }

    /// A runner for the same code with a copy of what is bound to it.
    pub fn duplicate(&self) -> Result<Runner, Error> {
        let mut copy = self.fork();
        for global in self.module.globals.keys().filter(|&g| self.is_bound(g)) {
            copy.bind_global(global, self.buffers.bytes(global));
        }
        copy.bind_pointers()?;
        Ok(copy)
    }

    /// Sets a console that receives the output of `printf` as soon as its turn in the order of threads has
    /// come.
    pub fn set_console(&mut self, console: Arc<dyn Console>) {
        self.console = Some(console);
    }

    /// Sets a flag that, once true, makes dispatches end early; `None` for no such flag.
    pub fn set_stop(&mut self, stop: Option<Arc<AtomicBool>>) {
        self.stop = stop;
    }

    /// Returns true while the code may still be replaced by faster code.
    pub fn is_first_tier(&self) -> bool {
        self.program.is_first_tier()
    }

    /// The content of the memory that a dispatch may write.
    pub(crate) fn snapshot(&self) -> Vec<(Global, Vec<u8>)> {
        let is_written = |g: &Global| {
            let data = &self.module.globals[*g];
            data.space == Space::ReadWrite || data.pointee(&self.module.mem).is_some()
        };
        let written = self.module.globals.keys().filter(is_written).filter(|&g| self.is_bound(g));
        written.map(|g| (g, self.buffers.bytes(g).to_vec())).collect()
    }

    /// Gives memory the content that it had at a snapshot.
    pub(crate) fn restore(&mut self, snapshot: &[(Global, Vec<u8>)]) {
        for (global, bytes) in snapshot {
            self.buffers.bytes_mut(*global).copy_from_slice(bytes);
        }
    }

    /// The number of threads of an entry point that run in lanes.
    pub fn lanes(&self, entry: usize) -> u32 {
        self.program.lanes(entry)
    }

    /// The reason why the threads of an entry point do not run in lanes, with its place, if the backend has
    /// lanes.
    pub fn why_single(&self, entry: usize) -> Option<(String, syntax::Span)> {
        let reason = self.program.machine_code()?.why_single(entry)?;
        Some((reason.what.clone(), source_span(reason.span)))
    }

    /// The machine code of the program, if it is such.
    pub(crate) fn machine_code(&self) -> Option<&native::Compiled> {
        self.program.machine_code()
    }

    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The output of the last dispatch that was stopped.
    pub fn printed(&self) -> &str {
        &self.printed
    }

    /// The module's memory types.
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

    /// The type of a global's elements (or of those that it points to), if there is such a global.
    pub fn element(&self, name: &str) -> Option<MemType> {
        self.find(name).map(|global| self.element_of(global))
    }

    /// Like [`Self::element`], for a known global.
    pub fn element_of(&self, global: Global) -> MemType {
        let data = &self.module.globals[global];
        data.pointee(&self.module.mem).unwrap_or(data.ty)
    }

    /// Returns true if a global holds a single value rather than any number of elements.
    pub fn is_single(&self, global: Global) -> bool {
        let data = &self.module.globals[global];
        data.space == Space::Uniform && data.pointee(&self.module.mem).is_none()
    }

    /// Returns true if kernels may write a global.
    pub fn is_writable(&self, global: Global) -> bool {
        let data = &self.module.globals[global];
        data.space == Space::ReadWrite || data.pointee(&self.module.mem).is_some()
    }

    /// Binds the content of a global by name. The name of a global that the program does not use is ignored.
    pub fn bind(&mut self, name: &str, bytes: &[u8]) {
        if let Some(global) = self.find(name) {
            self.bind_global(global, bytes);
        }
    }

    /// Binds the content of a global.
    pub fn bind_global(&mut self, global: Global, bytes: &[u8]) {
        self.buffers.bind(&self.module, global, bytes);
        self.bound[cranelift_entity::EntityRef::index(global)] = true;
    }

    /// Binds a value to a global: a tensor or texture with its shape, the single value of a uniform, or the elements of
    /// a buffer.
    pub fn bind_value(&mut self, global: Global, value: &BindValue) -> Result<(), String> {
        if let Some(at) = self.tensors.iter().position(|t| t.data == global || t.layout == global) {
            return self.bind_tensor(at, value);
        }
        let element = self.element_of(global);
        let bytes = match (self.is_single(global), value) {
            (true, BindValue::Zeros(n)) if *n != 1 => return Err("a uniform has one element".into()),
            (true, value) => bind::value_bytes(self.mem(), element, value),
            // A pointer, or a block of GLSL, leads to one element or more, of which the host may give the beginning.
            (false, BindValue::Words(words)) if self.module.globals[global].pointee(self.mem()).is_some() => {
                let stride = self.mem().size(element).div_ceil(4).max(1) as usize;
                let mut words = words.clone();
                words.resize(words.len().next_multiple_of(stride), 0);
                bind::buffer_bytes(self.mem(), element, &BindValue::Words(words))
            }
            (false, value) => bind::buffer_bytes(self.mem(), element, value),
        };
        self.bind_global(global, &bytes?);
        Ok(())
    }

    /// Binds the host's memory to a global; dispatches read and write it in place.
    pub fn bind_foreign(&mut self, global: Global, memory: Foreign) {
        self.buffers.bind_foreign(&self.module, global, memory);
        self.bound[cranelift_entity::EntityRef::index(global)] = true;
    }

    /// The first global that nothing is bound to. Samplers need not be bound.
    pub fn unbound(&self) -> Option<Global> {
        self.all_unbound().next()
    }

    fn counts_groups(&self, data: &ir::GlobalData) -> bool {
        let is_vector = matches!(self.module.mem[data.ty], MemData::Vector(ir::Scalar::U32, 3));
        GROUP_COUNTS.contains(&data.name.as_str()) && data.space == Space::Uniform && is_vector
    }

    /// Gives a program the numbers of groups of the next dispatch, unless the host has bound others.
    fn bind_group_counts(&mut self, groups: [u32; 3]) {
        let own =
            self.globals().find(|(g, data)| !self.is_bound(*g) && self.counts_groups(data)).map(|g| g.0);
        if let Some(global) = own {
            let bytes = groups.map(u32::to_le_bytes).concat();
            self.buffers.bind(&self.module, global, &bytes);
        }
    }

    /// Binds zeros to the counters of buffers that have one and for which the host gives no number.
    pub fn bind_counters(&mut self) {
        let is_counter = |runner: &Runner, g: Global| matches!(&runner.mem()[runner.element_of(g)], MemData::Struct { name, .. } if name == "__Counter");
        let counters: Vec<Global> =
            self.globals().map(|g| g.0).filter(|&g| !self.is_bound(g) && is_counter(self, g)).collect();
        for counter in counters {
            self.bind_global(counter, &[0; 4]);
        }
    }

    /// The globals that nothing is bound to, other than samplers, and than those that no code refers to.
    pub fn all_unbound(&self) -> impl Iterator<Item = Global> {
        let is_sampler = |mut ty| {
            while let MemData::Array(element, _) = self.module.mem[ty] {
                ty = element;
            }
            matches!(&self.module.mem[ty], MemData::Struct { name, .. } if is_sampler(name))
        };
        // What pointers in memory lead to is named by the host only, unless the program stores pointers where the host
        // has bound zeros.
        let stores = ir::analysis::room::numbered_handle(&self.module).is_some();
        let is_used = move |global: Global| {
            let mut holders = self.behind.iter().filter(|behind| behind.pointer == global).peekable();
            match holders.peek() {
                Some(_) => !stores || !holders.any(|behind| self.is_bound(behind.holder)),
                None => self.used[cranelift_entity::EntityRef::index(global)],
            }
        };
        let unbound = move |g: &(Global, &ir::GlobalData)| {
            !self.is_bound(g.0) && !is_sampler(g.1.ty) && is_used(g.0) && !self.counts_groups(g.1)
        };
        self.globals().filter(unbound).map(|g| g.0)
    }

    /// The bytes of a global, by name.
    pub fn bytes(&self, name: &str) -> Result<&[u8], Error> {
        let global = self.find(name).ok_or_else(|| Error::input(format!("there is no global `{name}`")))?;
        Ok(self.buffers.bytes(global))
    }

    /// The bytes of a global.
    pub fn bytes_of(&self, global: Global) -> &[u8] {
        self.buffers.bytes(global)
    }

    /// The bytes of all buffers, in the order of their numbers: first one for each global, then those that
    /// pointers refer to.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.buffers.contents()
    }

    /// Exchanges the contents of two globals of the same type.
    pub fn exchange(&mut self, a: Global, b: Global) {
        self.buffers.exchange(a, b);
    }

    /// The bytes of a global, for modification.
    pub fn bytes_mut_of(&mut self, global: Global) -> &mut [u8] {
        self.buffers.bytes_mut(global)
    }

    /// The bytes of a global, for modification: `len` zeros.
    pub(crate) fn zeroed(&mut self, global: Global, len: usize) -> &mut [u8] {
        match self.is_bound(global) && self.bytes_of(global).len() == len {
            true => self.bytes_mut_of(global).fill(0),
            false => self.bind_global(global, &vec![0; len]),
        }
        self.bytes_mut_of(global)
    }

    /// The global of that name, or the one that holds the elements of the tensor of that name.
    pub fn find(&self, name: &str) -> Option<Global> {
        let tensor = self.tensors.iter().find(|t| t.name == name).map(|t| t.data);
        tensor.or_else(|| self.globals().find(|(_, g)| g.name == name).map(|g| g.0))
    }

    /// The tensor whose elements or layout a global holds.
    pub fn tensor(&self, global: Global) -> Option<&Tensor> {
        self.tensors.iter().find(|t| t.data == global || t.layout == global)
    }

    /// The user's name for a global.
    pub fn name(&self, global: Global) -> &str {
        self.tensor(global).map_or(&self.module.globals[global].name, |t| &t.name)
    }

    /// Returns true if the host has bound a global.
    pub fn is_bound(&self, global: Global) -> bool {
        self.bound[cranelift_entity::EntityRef::index(global)]
    }

    /// The number of threads that keep the device busy if it is a software implementation on the CPU; `None`
    /// otherwise.
    pub fn device_threads(&self) -> Option<usize> {
        self.program.threads()
    }

    /// Runs thread groups of an entry point. `threads` is 0 for all cores.
    pub fn dispatch(&mut self, entry: &str, groups: [u32; 3], threads: usize) -> Result<Output, Error> {
        self.dispatch_for(entry, groups, threads, None)
    }

    /// Like [`Self::dispatch`], if the host afterwards reads only the given numbers of bytes of some buffers;
    /// `None` for all bytes of all buffers.
    pub fn dispatch_for(
        &mut self,
        entry: &str,
        groups: [u32; 3],
        threads: usize,
        reads: Option<&[(Global, usize)]>,
    ) -> Result<Output, Error> {
        let number = self.entry(entry)?;
        self.dispatch_entry(number, groups, threads, reads)
    }

    /// [`Self::dispatch_for`] for the module's entry point number `number`.
    pub fn dispatch_entry(
        &mut self,
        number: usize,
        groups: [u32; 3],
        threads: usize,
        reads: Option<&[(Global, usize)]>,
    ) -> Result<Output, Error> {
        self.try_dispatch(number, groups, threads, reads).map_err(with_thread)
    }

    /// Runs groups of an entry point whose threads are calls from the host, so error messages do not mention
    /// thread numbers. All cores run them if `is_large`, else the current one does.
    pub(crate) fn call(&mut self, number: usize, groups: u32, is_large: bool) -> Result<Output, Error> {
        let before = std::mem::replace(&mut self.options.at_once, is_large);
        let called = self.try_dispatch(number, [groups, 1, 1], usize::from(!is_large), None);
        self.options.at_once = before;
        called.map_err(|error| {
            // What `abort` was given has been printed last.
            let said = self.printed.trim_end().lines().next_back().filter(|_| error.message == ir::ABORTS);
            let message = said.map_or(error.message.clone(), |said| format!("{}: {said}", error.message));
            stopped(message, error.span)
        })
    }

    /// The number of the entry point of that name.
    fn entry(&self, name: &str) -> Result<usize, Error> {
        let found = self.module.entries.iter().position(|e| e.name == name);
        found.ok_or_else(|| Error::input(format!("there is no entry point `{name}`")))
    }

    fn try_dispatch(
        &mut self,
        number: usize,
        groups: [u32; 3],
        threads: usize,
        reads: Option<&[(Global, usize)]>,
    ) -> Result<Output, run::RunError> {
        self.bind_group_counts(groups);
        let (console, stop) = (self.console.clone(), self.stop.clone());
        let options =
            run::Options { threads, reads, stop: stop.as_deref(), console: console.as_ref(), ..self.options };
        let _watched = match (self.options.seconds, self.overdue.get(number)) {
            (Some(seconds), Some(overdue)) if !self.program.keeps_time() => watch::launch(seconds, overdue),
            _ => None,
        };
        // The interpreter runs on this thread, whose floating-point mode the host may have changed.
        let _subnormals = native::Subnormals::set(false);
        let done = run::dispatch(&*self.program, &self.module, number, groups, &mut self.buffers, options);
        self.finished(done)
    }

    /// Dispatches on the interpreter, and returns the races that it finds as errors, in order of occurrence.
    pub fn find_races(&mut self, entry: &str, groups: [u32; 3]) -> Result<(Output, Vec<Diagnostic>), Error> {
        let number = self.entry(entry)?;
        self.bind_group_counts(groups);
        let console = self.console.clone();
        let options = run::Options { console: console.as_ref(), ..self.options };
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

    fn finished(&mut self, done: Result<Output, run::Stopped>) -> Result<Output, run::RunError> {
        done.map_err(|stopped| {
            self.printed = stopped.stdout;
            stopped.error
        })
    }
}

/// The error of a stopped program, with the thread that stopped.
fn with_thread(error: run::RunError) -> Error {
    let [x, y, z] = error.thread;
    stopped(format!("{} (thread {x}, {y}, {z})", error.message), error.span)
}

/// The error of a stopped program, with its place if it has one.
pub(crate) fn stopped(message: String, span: ir::Span) -> Error {
    match span {
        ir::Span::NONE => Error::Stopped(message),
        span => Error::StoppedAt { message, span: source_span(span) },
    }
}
