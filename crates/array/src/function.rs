//! Implements functions that are called with arrays, their derivatives and their kernels.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use driver::around::Wanted;
use driver::cache;
use driver::launch::{Backend, Execution, Runner, fork};
use driver::pipeline::Failure;
use driver::wrap;
use ir::print::print_module;
use ir::{Func, Module, Scalar, Slot, TypeData, Types};
use lower::{FunctionInfo, ParamInfo, Step};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use syntax::Sources;

use crate::array::Array;
use crate::error::Error;
use crate::kernel::{self, Places};
use crate::launch::{self, Argument, Place};
use crate::mapping::{Key, Mapping, Operand, broadcast};
use crate::program::Program;
use crate::sparse::Prepared;
use crate::written::written;

/// A part of a parameter or result that one array holds: a number, a vector, or an array of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The path within the parameter: `.origin`; empty for the parameter itself.
    pub path: String,
    /// The kind of its numbers.
    pub kind: Scalar,
    /// The length of each dimension; empty for a number.
    pub dims: Vec<u32>,
    /// The leaf has a derivative.
    pub diff: bool,
    /// For an output: the index of the input whose cotangent (or a tangent of that) it is. Its array has the
    /// same leading dimensions as the array of that input.
    pub cotangent_of: Option<usize>,
}

/// A parameter or result as the source declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name; empty for the returned value.
    pub name: String,
    /// Its type, in the syntax of the language.
    pub ty: String,
    /// The caller passes a value in.
    pub is_input: bool,
    /// The caller receives a value.
    pub is_output: bool,
    /// Its type is an interface or contains one.
    pub is_dynamic: bool,
    /// Its leaves, in order.
    pub leaves: Vec<Leaf>,
}

/// A function that is called with an array for each of [`Function::inputs`], and fills one for each of
/// [`Function::outputs`].
pub struct Function {
    pub(crate) program: Arc<Program>,
    /// The function that was requested.
    pub wanted: Wanted,
    /// The name as requested, with generic arguments.
    pub name: String,
    steps: Vec<Step>,
    /// The parameters that the source declares, regardless of derivation steps.
    pub params: Vec<Parameter>,
    /// The returned value.
    pub result: Parameter,
    /// The leaves of all parameters that are passed in, in order, then the inputs added by steps.
    pub inputs: Vec<Leaf>,
    /// The outputs. For the function itself: the leaves of the returned value, then those of parameters that
    /// are written; for derived functions, as [`Step`] specifies.
    pub outputs: Vec<Leaf>,
    /// The names of all parameters in the order of their declaration, including those that are memory.
    pub order: Vec<String>,
    /// The memory that the function accesses: parameters that are memory, and global variables.
    pub memory: Vec<Place>,
    module: Module,
    func: Func,
    /// The duration of a call is not bounded by the number of its threads: the function contains loops or
    /// recursion.
    pub may_be_long: bool,
    sources: Sources,
    kernels: Mutex<FxHashMap<Key, Arc<Kernel>>>,
    /// Kernels prepared for the next calls, the most recently used last.
    ready: Mutex<Vec<Ready>>,
    /// The makers of sparse matrices of first and of second derivatives.
    pub(crate) prepared: [Mutex<Option<Prepared>>; 2],
}

/// A compiled kernel for one kind of array layout.
struct Kernel {
    places: Places,
    runner: Runner,
}

/// The layout of a call: the number of its dimensions and its shape, followed by the [`Array::describe`]
/// entries of each array.
type Layout = SmallVec<[isize; 32]>;

/// A kernel with everything bound that depends on the layout of arrays; only their addresses remain to be
/// bound.
struct Ready {
    layout: Layout,
    kernel: Arc<Kernel>,
    runner: Runner,
    groups: u32,
}

/// The maximum number of prepared kernels that are kept.
const READY: usize = 8;

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Function {
    pub(crate) fn new(program: Arc<Program>, wanted: &Wanted) -> Result<Function, Error> {
        Function::made(program, wanted, Vec::new())
    }

    fn made(program: Arc<Program>, wanted: &Wanted, steps: Vec<Step>) -> Result<Function, Error> {
        let _work = fork::at_work();
        let made = program.compile(wanted, &steps)?;
        let internal =
            |what: &str| Error::of(&made.sources, Failure::Other(driver::Error::Internal(what.to_string())));
        let module = made.compiled.module;
        let info = made.compiled.functions.into_iter().next().ok_or_else(|| internal("no function"))?;
        let func = info.derived.first().copied().unwrap_or(info.func);
        let (params, result) = parameters(&module.types, &info)?;
        let leaves = |slots: &[Slot]| slots.iter().map(|s| leaf(&module.types, s)).collect::<Vec<Leaf>>();
        let (inputs, mut outputs) = (leaves(&module.funcs[func].params), leaves(&module.funcs[func].results));
        let of = cotangents_of(&module.funcs[info.func], &steps);
        outputs.iter_mut().zip(of).for_each(|(output, of)| output.cotangent_of = of);
        let memory = match module.globals.is_empty() {
            true => Vec::new(),
            false => Runner::new(module.clone(), Backend::INTERP)
                .map(|runner| launch::places(&runner, &written(&module)))
                .map_err(|failure| Error::of(&made.sources, failure))?,
        };
        let generics = wanted.generics.join(", ");
        let name =
            if generics.is_empty() { wanted.name.clone() } else { format!("{}<{generics}>", wanted.name) };
        Ok(Function {
            program,
            wanted: wanted.clone(),
            name,
            steps,
            params,
            result,
            inputs,
            outputs,
            order: made.order,
            memory,
            may_be_long: launch::may_be_long(&module, func),
            module,
            func,
            sources: made.sources,
            kernels: Mutex::default(),
            ready: Mutex::default(),
            prepared: Default::default(),
        })
    }

    /// Applies derivation steps to the function, in order.
    pub fn derive(&self, steps: &[Step]) -> Result<Function, Error> {
        let steps = [&self.steps, steps].concat();
        Function::made(self.program.clone(), &self.wanted, steps)
    }

    /// A name that two functions share only if they behave identically. The name is stable across processes,
    /// so that entries that a host has stored can be found again.
    pub fn fingerprint(&self) -> String {
        let Execution { backend, code, threads, .. } = &self.program.options.execution;
        let how = format!("{backend:?} {code:?} {threads} {:?}", self.steps);
        let text = print_module(&self.module);
        let func = self.func.as_u32().to_le_bytes();
        let key = cache::Key::new(&[how.as_bytes(), text.as_bytes(), &func]);
        format!("{}#{}", self.name, key.digits())
    }

    /// Finds a place of the function's memory by name.
    pub fn place(&self, name: &str) -> Result<&Place, Error> {
        launch::place(&self.memory, name, &self.name)
    }

    /// The shape of a call: the leading dimensions of the arrays, broadcast together.
    pub fn shape<'a>(&self, inputs: impl Iterator<Item = &'a Array>) -> Result<Vec<usize>, Error> {
        let mut leads: SmallVec<[&[usize]; 8]> = SmallVec::new();
        for (leaf, array) in self.inputs.iter().zip(inputs) {
            leads.push(lead(leaf, array.shape())?);
        }
        broadcast(leads.into_iter()).map_err(|(a, b)| {
            Error::Value(format!("the leading dimensions of the arguments do not fit: {a} and {b}"))
        })
    }

    /// Runs the function once for each index into `shape`. A dimension that an array lacks, or that has
    /// length one, is broadcast; an output is accumulated along such a dimension, starting with its initial
    /// contents. Once `stop` is set, the call ends with an error as soon as possible.
    pub fn call(
        &self,
        shape: &[usize],
        inputs: &[Array],
        outputs: &[Array],
        memory: &[(&Place, Argument)],
        stop: Option<&Arc<AtomicBool>>,
    ) -> Result<(), Error> {
        let fits = inputs.len() == self.inputs.len() && outputs.len() == self.outputs.len();
        if !fits {
            let (n, m) = (self.inputs.len(), self.outputs.len());
            return Err(Error::Kind(format!("`{}` takes {n} arrays and fills {m}", self.name)));
        }
        for (leaf, array) in self.inputs.iter().zip(inputs).chain(self.outputs.iter().zip(outputs)) {
            self.program.reaches(&leaf.path, array.memory())?;
        }
        for (k, output) in outputs.iter().enumerate() {
            if outputs[..k].iter().chain(inputs).any(|other| output.overlaps(other)) {
                return Err(Error::Value("an array for a result shares memory with another array".into()));
            }
        }
        launch::are_apart(memory, &[inputs, outputs])?;
        let mut ready = match self.take_ready(shape, inputs, outputs)? {
            Some(ready) => ready,
            None => return Ok(()),
        };
        let runner = &mut ready.runner;
        for (place, argument) in memory {
            launch::bind(&self.program, runner, place, argument)?;
        }
        runner.bind_gradients().map_err(|error| Error::Value(error.to_string()))?;
        for (array, &global) in inputs.iter().chain(outputs).zip(&ready.kernel.places.arrays) {
            runner.bind_foreign(global, array.memory());
        }
        if let Some(global) = runner.unbound() {
            return Err(launch::not_given(&self.name, runner, global));
        }
        let threads = self.program.options.execution.threads;
        runner.set_stop(stop.cloned());
        let done = runner.dispatch_entry(0, [ready.groups, 1, 1], threads, None);
        runner.set_stop(None);
        // Memory that was bound stays bound, so the runner cannot be reused.
        if self.memory.is_empty()
            && let Ok(mut all) = self.ready.try_lock()
        {
            if all.len() == READY {
                all.remove(0);
            }
            all.push(ready);
        }
        done.map(drop).map_err(|error| Error::of(&self.sources, error.into()))
    }

    /// A prepared kernel for a call on arrays of this layout; `None` if the call runs no threads. The caller
    /// binds the arrays, and checks the addresses of their memory.
    fn take_ready(
        &self,
        shape: &[usize],
        inputs: &[Array],
        outputs: &[Array],
    ) -> Result<Option<Ready>, Error> {
        let arrays = || inputs.iter().chain(outputs);
        let mut layout = Layout::new();
        layout.push(shape.len() as isize);
        layout.extend(shape.iter().map(|&n| n as isize));
        arrays().for_each(|array| array.describe(&mut layout));
        // The lock is only tried: if another thread held it when the process forked, that thread no longer
        // exists.
        let ready = self.ready.try_lock().ok().and_then(|mut all| {
            let at = all.iter().rposition(|ready| ready.layout == layout)?;
            Some(all.remove(at))
        });
        if ready.is_some() {
            return Ok(ready);
        }
        let leaves = self.inputs.iter().chain(&self.outputs);
        let mut operands: Vec<Operand<'_>> = Vec::with_capacity(leaves.size_hint().0);
        for (k, (leaf, array)) in leaves.zip(arrays()).enumerate() {
            lead(leaf, array.shape())?;
            operands.push(Operand { array, dims: &leaf.dims, is_result: k >= inputs.len() });
        }
        if shape.contains(&0) {
            return Ok(None);
        }
        let mapping = Mapping::new(shape, &operands)?;
        let kernel = self.kernel(&mapping.key)?;
        let mut runner = kernel.runner.fork();
        let numbers: Vec<u8> = mapping.numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        runner.bind_global(kernel.places.numbers, &numbers);
        let groups = mapping.n.div_ceil(kernel.places.group);
        Ok(Some(Ready { layout, kernel, runner, groups }))
    }

    fn kernel(&self, key: &Key) -> Result<Arc<Kernel>, Error> {
        let _work = fork::at_work();
        if let Some(kernel) = locked(&self.kernels).get(key) {
            return Ok(kernel.clone());
        }
        let mut module = self.module.clone();
        let places = kernel::build(&mut module, self.func, key);
        opt::prune(&mut module, &[]);
        let Execution { backend, code, .. } = &self.program.options.execution;
        let runner = Runner::with_options(module, *backend, code)
            .map_err(|failure| Error::of(&self.sources, failure))?;
        let kernel = Arc::new(Kernel { places, runner });
        Ok(locked(&self.kernels).entry(key.clone()).or_insert(kernel).clone())
    }
}

/// The leading dimensions of the array for a leaf.
fn lead<'a>(leaf: &Leaf, shape: &'a [usize]) -> Result<&'a [usize], Error> {
    let split = shape.len().checked_sub(leaf.dims.len()).map(|at| shape.split_at(at));
    match split {
        Some((lead, own)) if own.iter().zip(&leaf.dims).all(|(&a, &b)| a == b as usize) => Ok(lead),
        _ => Err(Error::Value(format!(
            "`{}` needs an array whose last dimensions are {:?}, not one of shape {shape:?}",
            leaf.path, leaf.dims
        ))),
    }
}

fn leaf(types: &Types, slot: &Slot) -> Leaf {
    let path = slot.name.as_deref().unwrap_or_default().to_string();
    let kind = types.scalar_of(slot.ty).unwrap_or(Scalar::U64);
    Leaf { path, kind, dims: wrap::dims(types, slot.ty), diff: slot.diff, cotangent_of: None }
}

/// For each output of the function derived by the given steps, the input whose cotangent it is.
fn cotangents_of(function: &ir::Function, steps: &[Step]) -> Vec<Option<usize>> {
    let mut inputs: Vec<bool> = function.params.iter().map(|slot| slot.diff).collect();
    let mut outputs: Vec<(bool, Option<usize>)> = function.results.iter().map(|s| (s.diff, None)).collect();
    for step in steps {
        let (is_vjp, keeps_outputs, chosen) = match step {
            Step::Only(chosen) => {
                let chosen = chosen.iter().copied().chain(std::iter::repeat(false));
                inputs.iter_mut().zip(chosen).for_each(|(diff, chosen)| *diff &= chosen);
                continue;
            }
            Step::Jvp | Step::SparseJvp => (false, true, None),
            Step::JvpBy(chosen) => (false, false, Some(chosen)),
            Step::Vjp | Step::SparseVjp => (true, false, None),
            Step::VjpBy(chosen) => (true, false, Some(chosen)),
            Step::ValueAndVjp => (true, true, None),
        };
        let is_chosen = |k: &usize| inputs[*k] && chosen.is_none_or(|c| c.get(*k) == Some(&true));
        let by: Vec<usize> = (0..inputs.len()).filter(is_chosen).collect();
        let diff_outputs: Vec<_> = outputs.iter().copied().filter(|o| o.0).collect();
        if !keeps_outputs {
            outputs.clear();
        }
        let n = if is_vjp { diff_outputs.len() } else { by.len() };
        match is_vjp {
            true => outputs.extend(by.into_iter().map(|k| (true, Some(k)))),
            false => outputs.extend(diff_outputs),
        }
        inputs.extend(std::iter::repeat_n(true, n));
    }
    outputs.into_iter().map(|o| o.1).collect()
}

/// The parameters and the result as declared in the source; an error if one of them is memory.
fn parameters(types: &Types, info: &FunctionInfo) -> Result<(Vec<Parameter>, Parameter), Error> {
    let of = |param: &ParamInfo| {
        let mut leaves = Vec::new();
        for (path, ty, diff) in &param.leaves {
            if !wrap::is_number(types, *ty) {
                let what = match (&types[*ty], param.name.is_empty()) {
                    (_, true) => "what it returns".to_string(),
                    (TypeData::Buffer(_), _) => format!("parameter `{}{path}`, a buffer,", param.name),
                    _ => format!("parameter `{}{path}`", param.name),
                };
                return Err(Error::Kind(format!(
                    "`{}` cannot be mapped over arrays: {what} of type `{}` is memory",
                    info.name, param.ty
                )));
            }
            let kind = types.scalar_of(*ty).unwrap_or(Scalar::U64);
            leaves.push(Leaf {
                path: path.clone(),
                kind,
                dims: wrap::dims(types, *ty),
                diff: *diff,
                cotangent_of: None,
            });
        }
        Ok(Parameter {
            name: param.name.clone(),
            ty: param.ty.clone(),
            is_input: param.is_input,
            is_output: param.is_output,
            is_dynamic: param.is_dynamic,
            leaves,
        })
    };
    let params = info.params.iter().map(of).collect::<Result<_, _>>()?;
    Ok((params, of(&info.result)?))
}
