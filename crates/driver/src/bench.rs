//! How long a function and its gradient take, in a kernel.
//!
//! A function is called in two kernels that are made for it, by so many threads: one stores a number made of all
//! results, so that nothing is left out; the other does so with the cotangents that reverse mode gives for cotangents of
//! one. What threads are given differs a little, so that nothing is the same for all but arrays, which are one table for
//! all threads as weights are.
//!
//! Times are those of whole dispatches after some that are not counted, divided by threads; the median and the quartiles
//! say what to believe of them.

use ir::{
    Builder, Entry, Func, Function, Global, GlobalData, LoopInfo, MemData, Module, Op, Path, Scalar, Slot,
    Space, Span, Type, TypeData, Value,
};
use lower::{FunctionInfo, Request};

use crate::call::Callee;
use crate::error::Error;
use crate::launch::{Backend, CodeOptions, Runner};
use crate::pipeline::{self, Failure, Loaded};

/// Threads of a group.
const GROUP: u32 = 64;
/// Dispatches that are not counted.
const WARM_UP: usize = 3;
/// Arrays are read by loops from this size on.
const LOOP: u32 = 16;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// What runs it.
    pub backend: Backend,
    /// Lanes, for backends that have them; `None`: what suits.
    pub lanes: Option<u32>,
    /// Given to the compiler.
    pub compile: pipeline::Options,
    /// Values of parameters; others are numbers between 0.25 and 0.75, integers are 4.
    pub at: Vec<(String, serde_json::Value)>,
    /// Threads of a dispatch; rounded up to whole groups.
    pub threads: u32,
    /// Threads of the machine.
    pub workers: usize,
    /// Compiled code may take numbers too small to be normal for zeros.
    pub flush_subnormals: bool,
    /// How long to measure each kernel.
    pub seconds: f64,
}

/// Times of one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Nanoseconds per thread: the median.
    pub median: f64,
    /// The quartiles.
    pub quartiles: [f64; 2],
    /// Dispatches that were counted.
    pub dispatches: usize,
    /// Bytes that the workers hold for stacks and large arrays.
    pub arena_bytes: u64,
    /// Threads that ran in lanes.
    pub lanes: u32,
    /// Why they did not, and where, if the backend has lanes.
    pub why_single: Option<(String, syntax::Span)>,
}

/// A function that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// Threads of a dispatch.
    pub threads: u32,
    /// The function.
    pub primal: Times,
    /// Its gradient, if it has one.
    pub gradient: Option<Times>,
    /// What the gradient keeps of a call.
    pub memory: Option<autodiff::Memory>,
    /// Its loop whose trips nothing bounds.
    pub unbounded: Option<syntax::Span>,
}

/// Measures a function of a file.
pub fn measure(loaded: &mut Loaded, name: &str, options: &Options) -> Result<Measured, Failure> {
    let function = loaded.function(name)?;
    let request = Request { functions: vec![function], derivatives: true, ..Request::default() };
    let asked = pipeline::Options { measure_memory: true, ..options.compile.clone() };
    let compiled = loaded.compile(&request, &asked)?;
    let memory = compiled.memory.first().copied().flatten();
    let (mut module, info) = (compiled.module, &compiled.functions[0]);
    if let Some(slot) = info.params.iter().find(|p| p.leaves.iter().any(|l| !is_number(&module, l.1))) {
        let message = format!("`{name}` cannot be measured: its parameter `{}` is no number", slot.name);
        return Err(Error::input(message).into());
    }
    let numbers = numbers(&module, info, options)?;
    let groups = options.threads.div_ceil(GROUP).max(1);
    let number = widest(&module, info);
    let table = global(&mut module, "bench.table", number, Space::ReadOnly);
    let out = global(&mut module, "bench.out", number, Space::ReadWrite);
    module.entries.clear();
    let vjp = info.vjp.filter(|&f| !module.funcs[f].results.is_empty());
    let kernels: Vec<Func> = [Some(info.func), vjp]
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(k, func)| {
            let primals = module.funcs[info.func].params.len();
            let kernel = kernel(&mut module, func, primals, [table, out]);
            let name = if k == 0 { "primal" } else { "gradient" }.to_string();
            module.entries.push(Entry { name, func: kernel, group_size: [GROUP, 1, 1] });
            kernel
        })
        .collect();
    pipeline::verify(&module, "bench")?;
    opt::after_ad(&mut module, &options.compile.optimise, &kernels);
    opt::prune(&mut module, &kernels);
    pipeline::verify(&module, "opt::after_ad")?;

    let threads = groups * GROUP;
    let code = CodeOptions {
        lanes: options.lanes,
        fast_math: options.compile.optimise.fast_math,
        flush_subnormals: options.flush_subnormals,
        ..CodeOptions::default()
    };
    let mut runner = Runner::with_options(module, options.backend, &code)?;
    let bytes = |values: &[f64]| -> Vec<u8> {
        match number {
            Scalar::F64 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            _ => values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
        }
    };
    runner.bind_global(table, &bytes(&numbers));
    runner.bind_global(out, &bytes(&vec![0.0; threads as usize]));
    let primal = time(&mut runner, 0, groups, options)?;
    let gradient = if kernels.len() > 1 { Some(time(&mut runner, 1, groups, options)?) } else { None };
    let memory = memory.filter(|_| gradient.is_some());
    let unbounded = memory.and_then(|m| m.unknown).map(pipeline::source_span);
    Ok(Measured { name: name.to_string(), threads, primal, gradient, memory, unbounded })
}

/// Whether a type is made of numbers.
fn is_number(module: &Module, ty: Type) -> bool {
    module.types.scalar_of(ty).is_some() && !module.types.has_stack(ty)
}

/// All arguments as one list.
fn numbers(module: &Module, info: &FunctionInfo, options: &Options) -> Result<Vec<f64>, Error> {
    let callee = Callee::new(module, info);
    let mut k = 0u64;
    let point = callee.point(&options.at, &mut |number| {
        k += 1;
        let x = 0.25 + 0.5 * ((k * 2_654_435_761) % 1024) as f64 / 1024.0;
        let x = if number.scalar.is_float() { x } else { 4.0 };
        Some(ir::scalar::from_f64(number.scalar, x))
    })?;
    let bits = callee.input_bits(&point);
    Ok(callee.inputs.iter().zip(bits).map(|(n, bits)| ir::scalar::to_f64(n.scalar, bits)).collect())
}

/// What arguments and sums are held in: nothing wider than what the function works with, so that it has its lanes.
fn widest(module: &Module, info: &FunctionInfo) -> Scalar {
    let f = &module.funcs[info.func];
    let mut scalars = f.params.iter().chain(&f.results).filter_map(|s| module.types.scalar_of(s.ty));
    if scalars.any(|s| s.bytes() == 8) { Scalar::F64 } else { Scalar::F32 }
}

fn global(module: &mut Module, name: &str, scalar: Scalar, space: Space) -> Global {
    let ty = module.mem.intern(MemData::Scalar(scalar));
    module.globals.push(GlobalData { name: name.to_string(), space, ty, init: None, span: Span::NONE })
}

/// A kernel that calls a function, whose parameters after so many are cotangents.
fn kernel(module: &mut Module, func: Func, primals: usize, [table, out]: [Global; 2]) -> Func {
    let Function { params, results, name, .. } = module.funcs[func].clone();
    let mem = module.globals[table].ty;
    let MemData::Scalar(number) = module.mem[mem] else { return func };
    let mut b = Builder::new(&mut module.types, format!("bench of {name}"));
    let id = {
        let ty = b.types.vector(Scalar::U32, 3);
        b.emit_typed(Op::Builtin(ir::Builtin::DispatchThreadId), &[], ty)
    };
    let thread = b.emit(Op::Extract(0), &[id]);
    let handle = b.types.buffer(mem);
    let mut k =
        Kernel { table: b.emit_typed(Op::GlobalRef(table), &[], handle), scale: thread, b, at: 0, number };
    // 1 + thread·2⁻²⁰: threads do not all compute the same
    let x = k.b.emit_typed(Op::Convert, &[thread], number.into());
    let small = k.b.float(number, 2f64.powi(-20));
    let one = k.b.float(number, 1.0);
    let x = k.b.emit(Op::Mul, &[x, small]);
    k.scale = k.b.emit(Op::Add, &[x, one]);
    let args: Vec<Value> = params
        .iter()
        .enumerate()
        .map(|(n, slot): (usize, &Slot)| if n < primals { k.argument(slot.ty) } else { k.ones(slot.ty) })
        .collect();
    let values = k.b.call_func(func, &results, &args);
    let mut sum = k.b.float(number, 0.0);
    for v in values {
        sum = k.add(sum, v);
    }
    let out = k.b.emit_typed(Op::GlobalRef(out), &[], handle);
    k.b.effect(Op::BufferStore(Path::default()), &[out, thread, sum]);
    let function = k.b.finish(Vec::new(), Vec::new());
    module.funcs.push(function)
}

struct Kernel<'a> {
    b: Builder<'a>,
    table: Value,
    /// What floats outside of arrays are multiplied with.
    scale: Value,
    /// The next number of the table.
    at: u32,
    /// What the table and the sum are made of.
    number: Scalar,
}

impl Kernel<'_> {
    /// The next argument of the table.
    fn argument(&mut self, ty: Type) -> Value {
        let at = self.b.u32(self.at);
        self.at += self.count(ty);
        match self.b.types[ty] {
            TypeData::Scalar(_) | TypeData::Vector(..) => self.read(ty, at, true),
            _ => self.read(ty, at, false),
        }
    }

    fn count(&self, ty: Type) -> u32 {
        match self.b.types[ty] {
            TypeData::Vector(_, n) => n,
            TypeData::Array(t, n) => n * self.count(t),
            _ => 1,
        }
    }

    /// A value whose first number is at `at`.
    fn read(&mut self, ty: Type, at: Value, varies: bool) -> Value {
        match self.b.types[ty] {
            TypeData::Scalar(s) => {
                let x =
                    self.b.emit_typed(Op::BufferLoad(Path::default()), &[self.table, at], self.number.into());
                let x = if varies && s.is_float() { self.b.emit(Op::Mul, &[x, self.scale]) } else { x };
                if s == self.number { x } else { self.b.emit_typed(Op::Convert, &[x], ty) }
            }
            TypeData::Vector(s, n) => self.parts(ty, s.into(), n, at, varies),
            TypeData::Array(t, n) if n <= LOOP => self.parts(ty, t, n, at, varies),
            TypeData::Array(t, n) => {
                let empty = self.b.zero(ty, false);
                let cell = self.b.emit(Op::Local, &[empty]);
                let trips = self.b.u32(n);
                let body = self.b.open();
                let i = self.b.region_param(Type::U32, false);
                let each = self.b.u32(self.count(t));
                let offset = self.b.emit(Op::Mul, &[i, each]);
                let at = self.b.emit(Op::Add, &[at, offset]);
                let x = self.read(t, at, varies);
                self.b.effect(Op::Store, &[cell, i, x]);
                self.b.close(Vec::new());
                self.b.nest(Op::For(LoopInfo::default()), &[trips], &[body]);
                self.b.emit(Op::Load, &[cell])
            }
            _ => self.b.zero(ty, false),
        }
    }

    fn parts(&mut self, ty: Type, part: Type, n: u32, at: Value, varies: bool) -> Value {
        let each = self.count(part);
        let parts: Vec<Value> = (0..n)
            .map(|k| {
                let offset = self.b.u32(k * each);
                let at = self.b.emit(Op::Add, &[at, offset]);
                self.read(part, at, varies)
            })
            .collect();
        self.b.emit_typed(Op::Construct, &parts, ty)
    }

    /// One in every float.
    fn ones(&mut self, ty: Type) -> Value {
        match self.b.types[ty] {
            TypeData::Scalar(s) if s.is_float() => self.b.float(s, 1.0),
            TypeData::Vector(s, _) if s.is_float() => {
                let one = self.b.float(s, 1.0);
                self.b.emit_typed(Op::Splat, &[one], ty)
            }
            TypeData::Array(t, _) => {
                let one = self.ones(t);
                self.b.emit_typed(Op::Splat, &[one], ty)
            }
            _ => self.b.zero(ty, false),
        }
    }

    /// A sum and all numbers of a value.
    fn add(&mut self, sum: Value, v: Value) -> Value {
        let ty = self.b.func.ty(v);
        match self.b.types[ty] {
            TypeData::Scalar(s) if s == self.number => self.b.emit(Op::Add, &[sum, v]),
            TypeData::Scalar(_) => {
                let x = self.b.emit_typed(Op::Convert, &[v], self.number.into());
                self.b.emit(Op::Add, &[sum, x])
            }
            TypeData::Vector(s, _) if s.is_float() => {
                let total = self.b.emit(Op::Sum, &[v]);
                self.add(sum, total)
            }
            TypeData::Vector(_, n) => (0..n).fold(sum, |sum, k| {
                let lane = self.b.emit(Op::Extract(k), &[v]);
                self.add(sum, lane)
            }),
            TypeData::Array(_, n) => {
                let trips = self.b.u32(n);
                let body = self.b.open();
                let i = self.b.region_param(Type::U32, false);
                let so_far = self.b.region_param(self.number.into(), false);
                let element = self.b.emit(Op::Index, &[v, i]);
                let next = self.add(so_far, element);
                self.b.close(vec![next]);
                self.b.nest(Op::For(LoopInfo::default()), &[trips, sum], &[body])[0]
            }
            _ => sum,
        }
    }
}

/// Dispatches until the time is over, at least five times.
fn time(runner: &mut Runner, entry: usize, groups: u32, options: &Options) -> Result<Times, Error> {
    let threads = f64::from(groups * GROUP);
    let mut seconds = Vec::new();
    let mut arena_bytes = 0;
    let mut total = 0.0;
    for k in 0.. {
        let done = runner.dispatch_entry(entry, [groups, 1, 1], options.workers, None)?;
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
