//! Measures how long a function and its gradient take within a kernel.
//!
//! Two kernels are generated that call the function from many threads: the first stores a number computed
//! from all results, so that no computation can be eliminated; the second does the same with the cotangents
//! that reverse mode gives for output cotangents of one. The inputs differ slightly from thread to thread, so
//! that nothing is uniform. Arrays are the exception: like weights, they are one table for all threads.
//!
//! A kernel of the program's own is measured as it is, on the memory that the user binds; what it writes is restored
//! before each dispatch, so that all do the same.
//!
//! Each time is that of a whole dispatch, measured after some warm-up dispatches and divided by the number of
//! threads; the median and the quartiles show how reliable it is.

use ir::{Entry, Func, Function, LoopInfo, Module, Op, Path, Scalar, Space, Type, TypeData, Value};
use lower::{FunctionInfo, Request};

use crate::bind::Bind;
use crate::call;
use crate::error::{Error, Failure};
use crate::files;
use crate::inputs;
use crate::launch::{Execution, Runner};
use crate::pipeline::{self, Loaded};
use crate::wrap::{self, Kernel, Row, Tables, is_number};

/// Threads per group.
pub(crate) const GROUP: u32 = 64;
/// The number of warm-up dispatches, which are not counted.
const WARM_UP: usize = 3;

/// The subject of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A function and its gradient, by its name.
    Function(String),
    /// A kernel.
    Kernel(Launch),
}

impl Subject {
    /// The name of the function or kernel.
    pub fn name(&self) -> &str {
        match self {
            Subject::Function(name) => name,
            Subject::Kernel(launch) => &launch.entry,
        }
    }
}

/// A dispatch of a kernel of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The name of the entry point.
    pub entry: String,
    /// Thread groups along each axis.
    pub groups: [u32; 3],
    /// The threads of a group, for a kernel that does not say it itself.
    pub block: Option<[u32; 3]>,
}

/// The options of a measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the kernels are compiled and run.
    pub execution: Execution,
    /// Values of parameters; all other floats are numbers between 0.25 and 0.75, other integers are 4.
    pub at: Vec<(String, serde_json::Value)>,
    /// The memory that functions reach, and its content.
    pub memory: Vec<Bind>,
    /// Threads per dispatch of a function; rounded up to whole groups.
    pub threads: u32,
    /// The duration of the measurement of each kernel.
    pub seconds: f64,
}

/// The times of one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// The median, in nanoseconds per thread.
    pub median: f64,
    /// The quartiles, in nanoseconds per thread.
    pub quartiles: [f64; 2],
    /// The number of dispatches that were counted.
    pub dispatches: usize,
    /// Bytes that the workers hold for stacks and large arrays.
    pub arena_bytes: u64,
    /// The number of threads that run in lanes.
    pub lanes: u32,
    /// The reason why threads do not run in lanes, with its place, if the backend has lanes.
    pub why_single: Option<(String, syntax::Span)>,
}

/// A function or kernel that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The subject.
    pub subject: Subject,
    /// Threads per dispatch.
    pub threads: u64,
    /// The times of the function, or of the kernel.
    pub primal: Times,
    /// The times of its gradient, if it has one.
    pub gradient: Option<Times>,
    /// The memory that the gradient keeps per call.
    pub memory: Option<autodiff::Memory>,
    /// A loop of the function whose number of iterations has no bound.
    pub unbounded: Option<syntax::Span>,
}

/// Measures a function or a kernel of a file.
pub fn measure(loaded: &mut Loaded, subject: &Subject, options: &Options) -> Result<Measured, Failure> {
    let kernels = Kernels::new(loaded, subject, options, &Asked::default())?;
    let mut runner = kernels.runner(loaded, options, &options.execution.code)?;
    let primal = time(&mut runner, PRIMAL, &kernels, options)?;
    let gradient = match kernels.has_gradient {
        true => Some(time(&mut runner, GRADIENT, &kernels, options)?),
        false => None,
    };
    let memory = kernels.memory.filter(|_| gradient.is_some());
    let unbounded = memory.and_then(|m| m.unknown).map(pipeline::source_span);
    Ok(Measured { subject: subject.clone(), threads: kernels.threads(), primal, gradient, memory, unbounded })
}

/// The entry points of the kernels.
pub(crate) const PRIMAL: usize = 0;
/// See [`PRIMAL`].
pub(crate) const GRADIENT: usize = 1;

/// The purpose of the kernels besides timing.
#[derive(Default)]
pub(crate) struct Asked {
    /// Mark the code of derivatives: see [`crate::profile::parts`].
    pub(crate) marks: bool,
    /// The number of the parameter whose cotangent is not needed.
    pub(crate) without: Option<usize>,
    /// A loop to be taken as one with `[Checkpoint]`.
    pub(crate) checkpoint: Option<ir::Span>,
}

impl Asked {
    /// Derivatives are marked.
    pub(crate) fn marked() -> Asked {
        Asked { marks: true, ..Asked::default() }
    }

    /// The options of the compiler.
    fn options(&self, options: &Options) -> pipeline::Options {
        pipeline::Options {
            measure_memory: true,
            mark_derivatives: self.marks,
            report_checkpoints: self.marks,
            checkpoint: self.checkpoint,
            ..options.execution.compile_options()
        }
    }
}

/// The kernels that are measured: those of a function and of its gradient, or one of the program.
pub(crate) struct Kernels {
    module: Module,
    /// The memory of kernels that were generated; `None` for a kernel of the program.
    own: Option<OwnMemory>,
    pub(crate) groups: [u32; 3],
    /// The threads of a group.
    size: [u32; 3],
    pub(crate) has_gradient: bool,
    pub(crate) memory: Option<autodiff::Memory>,
    /// The parameters that have cotangents: their names, and the numbers of the vjp's results that belong to each.
    pub(crate) differentiable: Vec<(String, std::ops::Range<usize>)>,
    /// If derivatives are marked: the outermost loops that values are kept of.
    pub(crate) loops: Vec<ir::Span>,
}

/// The memory of kernels that were generated.
struct OwnMemory {
    row: Row,
    tables: Tables,
    numbers: Vec<u64>,
    /// The global of the sums, and the size of one in bytes.
    out: (ir::Global, u64),
}

impl Kernels {
    /// Compiles what is measured to the IR that backends take.
    pub(crate) fn new(
        loaded: &mut Loaded,
        subject: &Subject,
        options: &Options,
        asked: &Asked,
    ) -> Result<Kernels, Failure> {
        match subject {
            Subject::Function(name) => Kernels::of_function(loaded, name, options, asked),
            Subject::Kernel(launch) => Kernels::of_program(loaded, launch, options, asked),
        }
    }

    /// A kernel of the program.
    fn of_program(
        loaded: &mut Loaded,
        launch: &Launch,
        options: &Options,
        asked: &Asked,
    ) -> Result<Kernels, Failure> {
        let entry = loaded.entry(Some(&launch.entry))?;
        let request = Request { entries: vec![entry], group_size: launch.block, ..Request::default() };
        let compiled = loaded.compile(&request, &asked.options(options))?;
        let loops = loops(&compiled);
        let size = compiled.module.entries.first().map_or([1; 3], |entry| entry.group_size);
        Ok(Kernels {
            module: compiled.module,
            own: None,
            groups: launch.groups,
            size,
            has_gradient: false,
            memory: None,
            differentiable: Vec::new(),
            loops,
        })
    }

    /// Kernels that call a function, and its gradient.
    fn of_function(
        loaded: &mut Loaded,
        name: &str,
        options: &Options,
        asked: &Asked,
    ) -> Result<Kernels, Failure> {
        let function = loaded.function(name)?;
        let request = Request { functions: vec![function], derivatives: true, ..Request::default() };
        let execution = &options.execution;
        let compiled = loaded.compile(&request, &asked.options(options))?;
        let loops = loops(&compiled);
        let memory = compiled.memory.first().copied().flatten();
        let (mut module, info) = (compiled.module, &compiled.functions[0]);
        let is_memory = |p: &&lower::ParamInfo| p.leaves.iter().any(|l| !is_number(&module.types, l.1));
        if let Some(slot) = info.params.iter().find(is_memory) {
            let message = format!("`{name}` cannot be measured: its parameter `{}` is no number", slot.name);
            return Err(Error::input(message).into());
        }
        let numbers = numbers(&module, info, options)?;
        let groups = options.threads.div_ceil(GROUP).max(1);
        let threads = groups.checked_mul(GROUP).filter(|&n| files::check_room(n as usize * 8).is_ok());
        if threads.is_none() {
            return Err(Error::input(format!("`--count {}`: too many threads", options.threads)).into());
        }
        let mut tables = Tables::new("bench.table", Space::ReadOnly);
        let mut sums = Tables::new("bench.out", Space::ReadWrite);
        let params = module.funcs[info.func].params.clone();
        let row = Row::new(&mut module, &mut tables, &params, 1);
        let number = widest(&module, info);
        let out = sums.add(&mut module, number);
        module.entries.clear();
        let vjp = info.vjp.filter(|&f| !module.funcs[f].results.is_empty());
        let differentiable = vjp.map_or(Vec::new(), |_| differentiable(&module, info));
        let skipped = asked.without.and_then(|k| differentiable.get(k)).map_or(0..0, |d| d.1.clone());
        let kernels: Vec<Func> = [Some(info.func), vjp]
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(k, func)| {
                let skipped = if k == GRADIENT { skipped.clone() } else { 0..0 };
                let kernel = kernel(&mut module, func, (&tables, &row), &sums, skipped);
                let name = if k == PRIMAL { "primal" } else { "gradient" }.to_string();
                module.entries.push(Entry::kernel(name, kernel, [GROUP, 1, 1]));
                kernel
            })
            .collect();
        pipeline::verify(&module, "bench")?;
        opt::after_ad(&mut module, &execution.compile.optimise, &kernels);
        opt::prune(&mut module, &kernels);
        pipeline::verify(&module, "opt::after_ad")?;
        let (kind, out) = sums.globals[out];
        let out = (out, kind.bytes().into());
        let has_gradient = kernels.len() > 1;
        Ok(Kernels {
            module,
            own: Some(OwnMemory { row, tables, numbers, out }),
            groups: [groups, 1, 1],
            size: [GROUP, 1, 1],
            has_gradient,
            memory,
            differentiable,
            loops,
        })
    }

    /// The number of threads of a dispatch.
    pub(crate) fn threads(&self) -> u64 {
        self.groups.iter().chain(&self.size).map(|&n| u64::from(n)).product()
    }

    /// The memory to restore before each dispatch; what generated kernels write does not matter to the next one.
    pub(crate) fn to_restore(&self, runner: &Runner) -> Vec<(ir::Global, Vec<u8>)> {
        if self.own.is_some() { Vec::new() } else { runner.snapshot() }
    }

    /// Compiles the kernels, and binds the memory.
    pub(crate) fn runner(
        &self,
        loaded: &mut Loaded,
        options: &Options,
        code: &native::Options,
    ) -> Result<Runner, Failure> {
        let module = self.module.clone();
        let mut runner = Runner::with_pointers(module, &options.memory, options.execution.backend, code)?;
        if let Some(OwnMemory { row, tables, numbers, out }) = &self.own {
            for (table, &(_, global)) in tables.globals.iter().enumerate() {
                let bytes = runner.zeroed(global, row.size(tables, table, 1));
                row.write(tables, table, bytes, numbers.iter().enumerate().map(|(n, &bits)| (0, n, bits)));
            }
            runner.bind_global(out.0, &vec![0; self.threads() as usize * out.1 as usize]);
        }
        inputs::bind(loaded, &mut runner, &options.memory)?;
        Ok(runner)
    }
}

/// If derivatives are marked: the outermost loops that values are kept of.
fn loops(compiled: &pipeline::Compiled) -> Vec<ir::Span> {
    let mut loops: Vec<ir::Span> =
        compiled.kept.values.iter().filter_map(|kept| kept.loops.first().copied()).collect();
    loops.sort_unstable_by_key(|span| (span.file, span.start));
    loops.dedup();
    loops
}

/// The parameters that have cotangents, and the results of the vjp that belong to each.
fn differentiable(module: &Module, info: &FunctionInfo) -> Vec<(String, std::ops::Range<usize>)> {
    let slots = &module.funcs[info.func].params;
    let (mut all, mut slot, mut result) = (Vec::new(), 0, 0);
    for param in &info.params {
        let own = slots.iter().skip(slot).take(param.leaves.len());
        let n = own.filter(|slot| slot.diff).count();
        if n > 0 {
            all.push((param.name.clone(), result..result + n));
        }
        slot += param.leaves.len();
        result += n;
    }
    all
}

/// The values of all arguments.
fn numbers(module: &Module, info: &FunctionInfo, options: &Options) -> Result<Vec<u64>, Error> {
    let (inputs, _) = call::signature(&module.types, info);
    let mut k = 0u64;
    call::point(&module.types, info, &inputs, &options.at, &mut |number| {
        k += 1;
        let x = 0.25 + 0.5 * ((k * 2_654_435_761) % 1024) as f64 / 1024.0;
        let x = if number.scalar.is_float() { x } else { 4.0 };
        Some(ir::scalar::from_f64(number.scalar, x))
    })
}

/// The type of sums: no wider than the function's own numbers, so that the function runs with its usual
/// number of lanes.
fn widest(module: &Module, info: &FunctionInfo) -> Scalar {
    let f = &module.funcs[info.func];
    let mut scalars = f.params.iter().chain(&f.results).filter_map(|s| module.types.scalar_of(s.ty));
    if scalars.any(|s| s.bytes() == 8) { Scalar::F64 } else { Scalar::F32 }
}

/// Generates a kernel that calls a function. The parameters that follow those in `row` are cotangents. The results with
/// the numbers in `skipped` are not used.
fn kernel(
    module: &mut Module,
    func: Func,
    (tables, row): (&Tables, &Row),
    sums: &Tables,
    skipped: std::ops::Range<usize>,
) -> Func {
    let Function { params, results, name, .. } = module.funcs[func].clone();
    let places = tables.places(module);
    let (number, out) = sums.places(module)[0];
    let mut kernel = Kernel::new(&mut module.types, format!("bench of {name}"));
    // The factor is 1 + thread·2⁻²⁰, so that threads do not all compute the same values.
    let b = &mut kernel.b;
    let x = b.emit_typed(Op::Convert, &[kernel.thread], number.into());
    let small = b.float(number, 2f64.powi(-20));
    let one = b.float(number, 1.0);
    let x = b.emit(Op::Mul, &[x, small]);
    let scale = b.emit(Op::Add, &[x, one]);
    let mut args = Vec::new();
    for (n, slot) in params.iter().enumerate() {
        let Some((table, at)) = row.leaf(n) else {
            args.push(ones(&mut kernel, slot.ty));
            continue;
        };
        let (kind, place) = places[table];
        let handle = kernel.table(place);
        let at = kernel.b.u32(at);
        let varies = matches!(kernel.b.types[slot.ty], TypeData::Scalar(_) | TypeData::Vector(..));
        kernel.scale = varies.then_some(scale);
        let strides = wrap::dense(kernel.b.types, slot.ty, 1);
        args.push(kernel.read(slot.ty, kind, handle, at, &strides));
    }
    let values = kernel.b.call_func(func, &results, &args);
    let mut sum = kernel.b.float(number, 0.0);
    for (_, v) in values.into_iter().enumerate().filter(|(k, _)| !skipped.contains(k)) {
        sum = add(&mut kernel, sum, v, number);
    }
    let out = kernel.table(out);
    kernel.b.effect(Op::BufferStore(Path::default()), &[out, kernel.thread, sum]);
    let function = kernel.b.finish(Vec::new(), Vec::new());
    module.funcs.push(function)
}

/// A value of type `ty` with one in every float.
fn ones(kernel: &mut Kernel<'_>, ty: Type) -> Value {
    match kernel.b.types[ty] {
        TypeData::Scalar(s) if s.is_float() => kernel.b.float(s, 1.0),
        TypeData::Vector(s, _) if s.is_float() => {
            let one = kernel.b.float(s, 1.0);
            kernel.b.emit_typed(Op::Splat, &[one], ty)
        }
        TypeData::Array(t, _) => {
            let one = ones(kernel, t);
            kernel.b.emit_typed(Op::Splat, &[one], ty)
        }
        _ => kernel.b.zero(ty),
    }
}

/// Emits the sum of `sum` and all numbers of a value, in type `number`.
fn add(kernel: &mut Kernel<'_>, sum: Value, v: Value, number: Scalar) -> Value {
    let ty = kernel.b.func.ty(v);
    match kernel.b.types[ty] {
        TypeData::Scalar(_) => {
            let x = kernel.convert(v, number);
            kernel.b.emit(Op::Add, &[sum, x])
        }
        TypeData::Vector(s, _) if s.is_float() => {
            let total = kernel.b.emit(Op::Sum, &[v]);
            add(kernel, sum, total, number)
        }
        TypeData::Vector(_, n) => (0..n).fold(sum, |sum, k| {
            let lane = kernel.b.emit(Op::Extract(k), &[v]);
            add(kernel, sum, lane, number)
        }),
        TypeData::Array(_, n) => {
            let trips = kernel.b.u32(n);
            let body = kernel.b.open();
            let i = kernel.b.region_param(Type::U32);
            let so_far = kernel.b.region_param(number.into());
            let element = kernel.b.emit(Op::Index, &[v, i]);
            let next = add(kernel, so_far, element, number);
            kernel.b.close(vec![next]);
            kernel.b.nest(Op::For(LoopInfo::default()), &[trips, sum], &[body])[0]
        }
        _ => sum,
    }
}

/// Dispatches until the time is over, at least five times.
pub(crate) fn time(
    runner: &mut Runner,
    entry: usize,
    kernels: &Kernels,
    options: &Options,
) -> Result<Times, Error> {
    let threads = kernels.threads() as f64;
    let before = kernels.to_restore(runner);
    let mut seconds = Vec::new();
    let mut arena_bytes = 0;
    let mut total = 0.0;
    for k in 0.. {
        runner.restore(&before);
        let done = runner.dispatch_entry(entry, kernels.groups, options.execution.threads, None)?;
        arena_bytes = done.cost.arena_bytes;
        if k >= WARM_UP {
            seconds.push(done.seconds * 1e9 / threads);
            total += done.seconds;
            if seconds.len() >= 5 && total >= options.seconds {
                break;
            }
        }
    }
    seconds.sort_by(f64::total_cmp);
    let at = |part: f64| seconds[((seconds.len() - 1) as f64 * part).round() as usize];
    Ok(Times {
        median: at(0.5),
        quartiles: [at(0.25), at(0.75)],
        dispatches: seconds.len(),
        arena_bytes,
        lanes: runner.lanes(entry),
        why_single: runner.why_single(entry),
    })
}
