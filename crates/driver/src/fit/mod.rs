//! `pullback fit`: minimises the mean of a user's loss over items, or the sum of the squares of residuals.
//!
//! [`Fit`] is the function `x ↦ (mean loss, gradient)`, or the residuals with their derivatives ([`residuals`]), over
//! the flat vector of all fitted numbers; [`descent`] makes the steps of first-order methods where the parameters are, and
//! [`run`] has the loop of all methods. The kernels around the user's function are Slang text ([`kernel`]), compiled
//! like any other program.

pub mod batches;
pub mod descent;
pub mod items;
pub mod kernel;
mod numbers;
pub mod optimise;
mod parameters;
pub mod residuals;
pub mod run;
pub mod shape;
pub mod state;
pub mod table;
pub mod trouble;

use std::path::PathBuf;

use ir::{MemData, MemType, Scalar};
use lower::Request;
use syntax::Diagnostic;

use crate::bind::{self, Bind, BindValue};
use crate::error::{Error, Failure};
use crate::gradcheck::Random;
use crate::inputs;
use crate::launch::{Execution, Runner};
use crate::pipeline::{self};
use crate::ranges::covers;
use crate::session::Session;
use items::Items;
use kernel::{Fitted, Function, GROUP, Kernel, Reduction, Task};
use numbers::{column_bytes, named_scalars, number_bytes, put_number, read_number};
use rustc_hash::FxHashMap;

/// The initial value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    /// The default of the file: see [`Setup::inits`].
    Default,
    /// A function of the file, called for each element.
    Function(String),
    /// Uniformly distributed random numbers from that range.
    Random(f64, f64),
    /// A given value.
    Value(BindValue),
}

/// The description of a fit.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The user's file.
    pub path: PathBuf,
    /// The function to minimise, or whose results are residuals.
    pub loss: String,
    /// The kind of that function.
    pub task: Task,
    /// The function to show; `None` for `render` if there is one.
    pub render: Option<String>,
    /// Functions whose means over the items are reported.
    pub metrics: Vec<String>,
    /// Initial values by parameter or field. A parameter that is not named is initialised by the function `initial`
    /// if its result type fits, otherwise at random; then fields are.
    pub inits: Vec<(String, Init)>,
    /// The memory that the functions reach, and its content.
    pub memory: Vec<Bind>,
    /// How the kernels are compiled and run; `threads` is not 0.
    pub execution: Execution,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// The location of one fitted number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The index of the parameter.
    param: usize,
    /// The offset of its value in the parameter's buffer.
    at: usize,
    scalar: Scalar,
    /// The offset of its gradient in the gradient buffer, or in a worker's share of it.
    gradient_at: usize,
    gradient_scalar: Scalar,
}

/// The maximum number of worker threads on a graphics processor, each of which accumulates gradients of its
/// own: enough to keep the device busy, yet few enough that summing them stays cheap.
const MOST_WORKERS: usize = 2048;
/// The maximum number of bytes of all workers' gradients together.
const MOST_BYTES: usize = 64 << 20;
/// Items per worker of a graphics processor in one dispatch. The number is bounded because a thread keeps
/// data for each item, and because a device may end loops after some number of trips.
const MOST_ITEMS: usize = 8;
/// Workers, and items per worker in one dispatch, on a processor.
const PROCESSOR_WORKERS: (usize, usize) = (32, 1 << 16);
/// The maximum number of items in a dispatch with a thread for each.
const MOST_THREADS: usize = 1 << 20;

/// A compiled function to minimise.
pub struct Fit {
    runner: Runner,
    /// The generated program.
    pub kernel: Kernel,
    /// The items that the loss is summed over.
    pub items: Items,
    places: Vec<Place>,
    /// The field of each fitted number, such as `gaussians.center`.
    pub names: Vec<String>,
    /// The path of each fitted number, such as `gaussians[3].center[0]`.
    pub paths: Vec<String>,
    /// The contents of the parameters' buffers, including the numbers that are not fitted.
    values: Vec<Vec<u8>>,
    /// Bytes of one worker's share of each gradient buffer.
    shares: Vec<usize>,
    /// The number of workers that add up gradients.
    workers: usize,
    /// Items per dispatch that computes gradients.
    per_dispatch: usize,
    threads: usize,
    /// Losses are multiplied by this before they are differentiated, and gradients divided by it.
    loss_scale: f64,
    /// The starting point.
    pub start: Vec<f64>,
    /// Warnings about the user's program.
    pub warnings: Vec<Diagnostic>,
}

impl Fit {
    /// Reads the file, generates and compiles the kernels, binds the items and finds the starting point.
    pub fn new(session: &mut Session, setup: &Setup, items: Items) -> Result<Fit, Failure> {
        if items.n == 0 {
            return Err(Error::input("`--items`: there are no items to sum over").into());
        }
        let kernel = plan(session, setup, &items)?;
        // The kernels form a program of their own, which includes the user's file.
        *session = session.fresh();
        let mut program = session.program();
        let folder = setup.path.parent().map_or_else(PathBuf::new, PathBuf::from);
        let file = session.load_text(&mut program, "fit-kernel.slang", kernel.text(), &folder);
        let mut loaded = session.loaded(program, file);
        let mut entries = vec![loaded.entry(Some("fit_gradient"))?, loaded.entry(Some("fit_value"))?];
        if kernel.task == Task::Residuals {
            entries.push(loaded.entry(Some("fit_forward"))?);
        }
        for k in 0..kernel.metrics.len() {
            entries.push(loaded.entry(Some(&format!("fit_metric_{k}")))?);
        }
        if kernel.render.is_some() {
            entries.push(loaded.entry(Some("fit_render"))?);
        }
        for f in &kernel.fitted {
            if f.initial.is_some() {
                entries.push(loaded.entry(Some(&format!("fit_initial_{}", f.name)))?);
            }
            let own = match (kernel.reduction, kernel.task) {
                (Reduction::Workers(_), _) => "sum",
                (Reduction::Atomic, Task::Loss(_)) => "step",
                (Reduction::Atomic, Task::Residuals) => continue,
            };
            entries.push(loaded.entry(Some(&format!("fit_{own}_{}", f.name)))?);
        }
        let request = Request { entries, ..Request::default() };
        let Execution { backend, code, threads, .. } = &setup.execution;
        let compiled = loaded.compile(&request, &setup.execution.compile_options())?;
        // Warnings about generated code are dropped, since the user cannot change that code.
        let generated = loaded.program.ast.files[file].file;
        let warnings = loaded.warned.iter().filter(|w| w.primary.span.file != generated).cloned().collect();
        let mut runner = Runner::with_pointers(compiled.module, &setup.memory, *backend, code)?;
        for (name, ty) in kernel.columns() {
            let buffer = kernel.column_buffer(&name, &ty);
            let Some(element) = runner.element(&buffer) else { continue };
            let bytes = column_bytes(runner.mem(), element, &name, &items)?;
            runner.bind(&buffer, &bytes);
        }
        let mut fit = Fit {
            runner,
            kernel,
            items,
            places: Vec::new(),
            names: Vec::new(),
            paths: Vec::new(),
            values: Vec::new(),
            shares: Vec::new(),
            workers: 1,
            per_dispatch: MOST_THREADS,
            threads: *threads,
            loss_scale: 1.0,
            start: Vec::new(),
            warnings,
        };
        fit.find_places()?;
        if let Reduction::Workers(items) = fit.kernel.reduction {
            let bytes: usize = fit.shares.iter().sum();
            let most = match backend.is_device() {
                true => fit.runner.device_threads().unwrap_or(MOST_WORKERS),
                false => PROCESSOR_WORKERS.0,
            };
            fit.workers = most.min(MOST_BYTES / bytes.max(1)).clamp(1, fit.items.n);
            fit.per_dispatch = fit.workers.saturating_mul(items);
        }
        fit.bind_rest();
        inputs::bind(&mut loaded, &mut fit.runner, &setup.memory)?;
        let mut random = Random::new(setup.seed);
        fit.initialise(setup, &mut random)?;
        Ok(fit)
    }

    /// The value and gradient over the items listed in `order`.
    pub fn evaluate(&mut self, x: &[f64], order: &[u32], gradient: &mut [f64]) -> Result<f64, Error> {
        self.put(x);
        let loss = self.loss_of(order)?;
        self.differentiate(order, gradient)?;
        Ok(loss)
    }

    /// The value over the items listed in `order`.
    pub fn loss(&mut self, x: &[f64], order: &[u32]) -> Result<f64, Error> {
        self.put(x);
        self.loss_of(order)
    }

    /// All items in the order in which they are visited, or one that stands for all if the function takes columns as
    /// a whole.
    pub fn order(&self) -> Vec<u32> {
        if self.kernel.loss.is_whole() { vec![0] } else { self.items.near() }
    }

    /// The value at the current point over the items listed in `order`.
    fn loss_of(&mut self, order: &[u32]) -> Result<f64, Error> {
        self.weigh(order.len());
        let mut loss = 0.0;
        for part in order.chunks(MOST_THREADS) {
            self.choose(part);
            self.dispatch("fit_value", part.len(), None)?;
            loss += self.results("fit_loss", part.len())?.iter().sum::<f64>();
        }
        Ok(loss)
    }

    /// The first `n` elements of a buffer of results, each as its numbers.
    fn results(&self, buffer: &str, n: usize) -> Result<Vec<f64>, Error> {
        let missing = || Error::Internal(format!("the buffer `{buffer}` is gone"));
        let element = self.runner.element(buffer).ok_or_else(missing)?;
        let leaves = bind::scalars(self.runner.mem(), element);
        let stride = self.runner.mem().size(element) as usize;
        let elements = self.runner.bytes(buffer)?.chunks_exact(stride.max(1)).take(n);
        Ok(elements.flat_map(|bytes| leaves.iter().map(|&(at, s)| read_number(s, bytes, at))).collect())
    }

    /// The mean of each metric over the items listed in `order`; a metric of whole columns is that of all items.
    pub fn metrics(&mut self, x: &[f64], order: &[u32]) -> Result<Vec<(String, f64)>, Error> {
        self.put(x);
        let mut found = Vec::new();
        for k in 0..self.kernel.metrics.len() {
            let metric = &self.kernel.metrics[k];
            let name = metric.name.clone();
            let order = if metric.is_whole() { &[0][..] } else { order };
            let mut sum = 0.0;
            for part in order.chunks(MOST_THREADS) {
                self.choose(part);
                self.dispatch(&format!("fit_metric_{k}"), part.len(), None)?;
                sum += self.results(&format!("fit_metric_result_{k}"), part.len())?.iter().sum::<f64>();
            }
            found.push((name, sum / order.len() as f64));
        }
        Ok(found)
    }

    /// The gradient at the current point over the items listed in `order`.
    fn differentiate(&mut self, order: &[u32], gradient: &mut [f64]) -> Result<(), Error> {
        gradient.fill(0.0);
        self.weigh_scaled(order.len());
        for part in order.chunks(self.per_dispatch) {
            self.add_up(part)?;
            self.read_gradient(gradient)?;
        }
        Ok(())
    }

    /// Sets the weight of each item for a mean over `n` items.
    fn weigh(&mut self, n: usize) {
        self.weigh_by(1.0 / n.max(1) as f64);
    }

    /// Sets the weight of each item for the gradient of a mean over `n` items, scaled.
    fn weigh_scaled(&mut self, n: usize) {
        self.weigh_by(self.loss_scale / n.max(1) as f64);
    }

    fn weigh_by(&mut self, weight: f64) {
        let real = self.uniform_scalar("fit_weight");
        self.runner.bind("fit_weight", &number_bytes(real, weight));
    }

    /// Selects the items of a dispatch.
    fn choose(&mut self, order: &[u32]) {
        self.runner.bind("fit_order", &order.iter().flat_map(|i| i.to_le_bytes()).collect::<Vec<u8>>());
        self.runner.bind("fit_count", &(order.len() as u32).to_le_bytes());
    }

    /// Adds the gradient over the items of one dispatch to the gradient buffers; with workers, those of the
    /// first worker then hold that gradient.
    fn add_up(&mut self, order: &[u32]) -> Result<(), Error> {
        self.choose(order);
        if !self.kernel.has_workers() {
            return self.dispatch("fit_gradient", order.len(), None);
        }
        self.dispatch("fit_gradient", self.workers, Some(&[]))?;
        for param in 0..self.shares.len() {
            let (fitted, share) = (&self.kernel.fitted[param], self.shares[param]);
            let (name, n) = (&fitted.name, fitted.n());
            let read = self.runner.find(&format!("fit_gradient_{name}")).map(|g| (g, share));
            self.dispatch(&format!("fit_sum_{name}"), n, Some(read.as_slice()))?;
        }
        Ok(())
    }

    /// Adds what is in the gradient buffers to `gradient`, and clears them if kernels add to them.
    fn read_gradient(&mut self, gradient: &mut [f64]) -> Result<(), Error> {
        self.each_derivative(|k, g| gradient[k] += g)?;
        for f in self.kernel.fitted.iter().filter(|_| !self.kernel.has_workers()) {
            if let Some(global) = self.runner.find(&format!("fit_gradient_{}", f.name)) {
                self.runner.bytes_mut_of(global).fill(0);
            }
        }
        Ok(())
    }

    /// Copies what is in the gradient buffers to `gradient`.
    fn copy_gradient(&self, gradient: &mut [f64]) -> Result<(), Error> {
        self.each_derivative(|k, g| gradient[k] = g)
    }

    /// Visits the derivative by each number that is in the gradient buffers, without the scale of the loss.
    fn each_derivative(&self, mut visit: impl FnMut(usize, f64)) -> Result<(), Error> {
        let mut places = self.places.iter().enumerate().peekable();
        for (param, &share) in self.shares.iter().enumerate() {
            let name = format!("fit_gradient_{}", self.kernel.fitted[param].name);
            let bytes = &self.runner.bytes(&name)?[..share];
            while let Some((k, place)) = places.next_if(|(_, place)| place.param == param) {
                visit(k, read_number(place.gradient_scalar, bytes, place.gradient_at) / self.loss_scale);
            }
        }
        Ok(())
    }

    /// The render function's result for every item, or its only result if it takes columns as a whole, and the number of
    /// numbers of a result.
    pub fn render(&mut self, x: &[f64]) -> Result<Option<(Vec<f64>, usize)>, Error> {
        let Some(render) = &self.kernel.render else { return Ok(None) };
        let n = if render.is_whole() { 1 } else { self.items.n };
        self.put(x);
        for first in (0..n).step_by(MOST_THREADS) {
            let count = (n - first).min(MOST_THREADS);
            self.runner.bind("fit_first", &(first as u32).to_le_bytes());
            self.runner.bind("fit_count", &(count as u32).to_le_bytes());
            let reads: Option<&[_]> = if first + count < n { Some(&[]) } else { None };
            self.dispatch("fit_render", count, reads)?;
        }
        let numbers = self.results("fit_image", n)?;
        let width = numbers.len() / n.max(1);
        Ok(Some((numbers, width)))
    }

    /// The type of one element of a parameter's buffer.
    fn value_element(&self, f: &Fitted) -> Option<MemType> {
        let ty = self.runner.element(&format!("fit_value_{}", f.name))?;
        match self.runner.mem()[ty] {
            // Arrays that are bound as uniforms are a single value of array type.
            MemData::Array(element, _) if f.length.is_some() && self.kernel.has_workers() => Some(element),
            _ => Some(ty),
        }
    }

    /// Runs an entry point with `n` threads.
    fn dispatch(
        &mut self,
        entry: &str,
        n: usize,
        reads: Option<&[(ir::Global, usize)]>,
    ) -> Result<(), Error> {
        let groups = n.div_ceil(GROUP as usize) as u32;
        self.runner.dispatch_for(entry, [groups, 1, 1], self.threads, reads)?;
        Ok(())
    }

    /// Writes the point `x` into the parameters' buffers.
    fn put(&mut self, x: &[f64]) {
        for (place, &x) in self.places.iter().zip(x) {
            put_number(&mut self.values[place.param], place.at, place.scalar, x);
        }
        for (k, f) in self.kernel.fitted.iter().enumerate() {
            self.runner.bind(&format!("fit_value_{}", f.name), &self.values[k]);
        }
    }

    fn uniform_scalar(&self, name: &str) -> Scalar {
        let element = self.runner.element(name);
        element.and_then(|e| bind::scalars(self.runner.mem(), e).first().map(|l| l.1)).unwrap_or(Scalar::F32)
    }

    /// Finds the numbers to fit: those of floating-point type that have a gradient of the same name.
    fn find_places(&mut self) -> Result<(), Error> {
        for (param, f) in self.kernel.fitted.iter().enumerate() {
            let missing = || Error::Internal(format!("the buffer of `{}` is gone", f.name));
            let value = self.value_element(f).ok_or_else(missing)?;
            let gradient = self.runner.element(&format!("fit_gradient_{}", f.name)).ok_or_else(missing)?;
            let mem = self.runner.mem();
            let (mut values, mut gradients) = (Vec::new(), Vec::new());
            named_scalars(mem, value, 0, f.name.clone(), &mut values);
            named_scalars(mem, gradient, 0, f.name.clone(), &mut gradients);
            let (stride, gradient_stride) = (mem.size(value) as usize, mem.size(gradient) as usize);
            let by_name = |all: &[(String, usize, Scalar)]| -> FxHashMap<String, (usize, Scalar)> {
                all.iter().map(|(name, at, s)| (name.clone(), (*at, *s))).collect()
            };
            let (value_of, gradient_of) = (by_name(&values), by_name(&gradients));
            // In the order in which kernels count them, if they do.
            let names: Vec<String> = match &f.shape {
                Some(shape) => shape.paths().iter().map(|path| format!("{}{path}", f.name)).collect(),
                None => values.into_iter().filter(|v| v.2.is_float()).map(|v| v.0).collect(),
            };
            let mut element = Vec::new();
            for name in names {
                match (value_of.get(&name), gradient_of.get(&name)) {
                    (Some(value), Some(gradient)) => {
                        let end = name.find('[').unwrap_or(name.len());
                        let rest = name[f.name.len()..].to_string();
                        element.push((name[..end].to_string(), rest, *value, *gradient));
                    }
                    _ if f.shape.is_some() => {
                        return Err(Error::Internal(format!("`{name}` has no place in memory")));
                    }
                    _ => {}
                }
            }
            for k in 0..f.n() {
                for (name, rest, (at, scalar), (gradient_at, gradient_scalar)) in &element {
                    self.places.push(Place {
                        param,
                        at: k * stride + at,
                        scalar: *scalar,
                        gradient_at: k * gradient_stride + gradient_at,
                        gradient_scalar: *gradient_scalar,
                    });
                    self.names.push(name.clone());
                    let index = if f.length.is_some() { format!("[{k}]") } else { String::new() };
                    self.paths.push(format!("{}{index}{rest}", f.name));
                }
            }
            self.values.push(vec![0; f.n() * stride]);
            self.shares.push(f.n() * gradient_stride);
        }
        if self.places.is_empty() {
            return Err(Error::input("there is no number to fit"));
        }
        Ok(())
    }

    fn bind_rest(&mut self) {
        let n = self.workers;
        for (k, Fitted { name, initial, .. }) in self.kernel.fitted.iter().enumerate() {
            self.runner.bind(&format!("fit_value_{name}"), &self.values[k]);
            self.runner.bind(&format!("fit_next_{name}"), &self.values[k]);
            self.runner.bind(&format!("fit_gradient_{name}"), &vec![0; self.shares[k] * n]);
            self.runner.bind(&format!("fit_tangent_{name}"), &vec![0; self.shares[k]]);
            if initial.is_some() {
                self.runner.bind(&format!("fit_start_{name}"), &self.values[k]);
            }
        }
        let real = self.uniform_scalar("fit_weight");
        let threads = self.items.n.min(MOST_THREADS);
        let mut results: Vec<String> =
            ["fit_loss", "fit_residual", "fit_change", "fit_cotangent"].map(String::from).to_vec();
        let by_loss = results.len();
        results.extend((0..self.kernel.metrics.len()).map(|k| format!("fit_metric_result_{k}")));
        let one = if self.kernel.loss.is_whole() { 1 } else { threads };
        for (k, name) in results.iter().enumerate() {
            let n = if k < by_loss { one } else { threads };
            if let Some(element) = self.runner.element(name) {
                let size = self.runner.mem().size(element) as usize;
                self.runner.bind(name, &vec![0; n * size]);
            }
        }
        self.runner.bind("fit_order", &[]);
        self.runner.bind("fit_items", &(self.items.n as u32).to_le_bytes());
        for (name, word) in [("fit_first", 0), ("fit_count", 0), ("fit_workers", n as u32)] {
            self.runner.bind(name, &word.to_le_bytes());
        }
        self.runner.bind("fit_weight", &number_bytes(real, 0.0));
        self.bind_descent();
        if let Some(element) = self.runner.element("fit_image") {
            let n =
                if self.kernel.render.as_ref().is_some_and(Function::is_whole) { 1 } else { self.items.n };
            let size = self.runner.mem().size(element) as usize * n;
            self.runner.bind("fit_image", &vec![0; size]);
        }
    }

    fn initialise(&mut self, setup: &Setup, random: &mut Random) -> Result<(), Error> {
        for k in 0..self.kernel.fitted.len() {
            let f = self.kernel.fitted[k].clone();
            let init = setup.inits.iter().rev().find(|i| i.0 == f.name).map_or(&Init::Default, |i| &i.1);
            if f.initial.is_some() {
                let order: Vec<u32> = (0..f.n()).map(|i| spread(&self.items, i, f.n(), random)).collect();
                self.choose(&order);
                let (entry, threads) = (format!("fit_initial_{}", f.name), self.threads);
                self.threads = 1;
                self.dispatch(&entry, f.n(), None)?;
                self.threads = threads;
                self.values[k] = self.runner.bytes(&format!("fit_start_{}", f.name))?.to_vec();
                continue;
            }
            match init {
                Init::Value(value) => {
                    let element = self.value_element(&f);
                    let element = element.ok_or_else(|| Error::Internal("a buffer is gone".into()))?;
                    let bytes = match (f.length, value) {
                        (_, BindValue::Zeros(_)) => Ok(vec![0; self.values[k].len()]),
                        (None, value) => bind::value_bytes(self.runner.mem(), element, value),
                        (Some(_), value) => bind::buffer_bytes(self.runner.mem(), element, value),
                    };
                    let bytes = bytes.map_err(|why| Error::input(format!("`--param {}`: {why}", f.name)))?;
                    if bytes.len() != self.values[k].len() {
                        return Err(Error::input(format!("`--param {}`: {} elements wanted", f.name, f.n())));
                    }
                    self.values[k] = bytes;
                }
                Init::Random(..) | Init::Default | Init::Function(_) => {
                    let (low, high) =
                        if let Init::Random(low, high) = init { (*low, *high) } else { (-0.1, 0.1) };
                    for place in self.places.iter().filter(|p| p.param == k) {
                        let x = low + (high - low) * random.unit();
                        put_number(&mut self.values[k], place.at, place.scalar, x);
                    }
                }
            }
        }
        for (name, init) in &setup.inits {
            if !self.kernel.fitted.iter().any(|f| f.name == *name) {
                self.initialise_field(name, init, random)?;
            }
        }
        self.start = self.places.iter().map(|p| read_number(p.scalar, &self.values[p.param], p.at)).collect();
        Ok(())
    }

    /// Gives all numbers of a field a random value, or the same one.
    fn initialise_field(&mut self, name: &str, init: &Init, random: &mut Random) -> Result<(), Error> {
        let (low, high) = match init {
            Init::Random(low, high) => Some((*low, *high)),
            Init::Value(BindValue::Json(value)) => value.as_f64().map(|x| (x, x)),
            _ => None,
        }
        .ok_or_else(|| {
            let wanted = "a field has a number, zeros or random:LO,HI; a parameter may have all";
            Error::input(format!("`--param {name}`: {wanted}"))
        })?;
        let mut found = false;
        for (place, _) in self.places.iter().zip(&self.names).filter(|(_, field)| covers(name, field)) {
            let x = low + (high - low) * random.unit();
            put_number(&mut self.values[place.param], place.at, place.scalar, x);
            found = true;
        }
        match found {
            true => Ok(()),
            false => Err(Error::input(format!("`--param {name}`: there is no such field to fit"))),
        }
    }
}

/// Loads the user's file, looks up the functions named in the setup, and determines the arguments of each.
fn plan(session: &mut Session, setup: &Setup, items: &Items) -> Result<Kernel, Failure> {
    let mut loaded = pipeline::load(session, &setup.path)?;
    loaded.errors()?;
    let loss = loaded.function(&setup.loss)?;
    let (mut fitted, loss) = kernel::objective(&mut loaded.program, &loss, items, setup.task)?;
    for (name, _) in &setup.inits {
        if !fitted.iter().any(|f| covers(&f.name, name)) {
            return Err(
                Error::input(format!("`--param {name}`: the loss has no such parameter to fit")).into()
            );
        }
    }
    for f in &mut fitted {
        let init = setup.inits.iter().rev().find(|i| i.0 == f.name).map_or(&Init::Default, |i| &i.1);
        f.initial = initial(&mut loaded, f, init, items)?;
    }
    let render = match &setup.render {
        Some(name) => Some(loaded.function(name)?),
        None => loaded.function("render").ok(),
    };
    let render = match render {
        Some(func) => Some(kernel::render(&mut loaded.program, &func, items, &fitted)?),
        None => None,
    };
    let mut metrics = Vec::new();
    for name in &setup.metrics {
        let func = loaded.function(name)?;
        metrics.push(kernel::metric(&mut loaded.program, &func, items, &fitted)?);
    }
    loaded.errors()?;
    let include = setup.path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let hidden = fitted.iter().find(|f| f.shape.is_none());
    let reduction = match (setup.execution.backend.is_device(), setup.task, hidden) {
        (_, Task::Residuals, Some(f)) => {
            let why = "has a part that has no name outside of its type, so its residuals have no kernels";
            return Err(Error::input(format!("`{}` {why}", f.name)).into());
        }
        (true, Task::Loss(_), _) => Reduction::Workers(MOST_ITEMS),
        (false, _, Some(_)) => Reduction::Workers(PROCESSOR_WORKERS.1),
        (_, _, None) => Reduction::Atomic,
    };
    Ok(Kernel { include, fitted, loss, task: setup.task, render, metrics, reduction })
}

fn initial(
    loaded: &mut pipeline::Loaded,
    f: &Fitted,
    init: &Init,
    items: &Items,
) -> Result<Option<Function>, Failure> {
    let (name, required) = match init {
        Init::Function(name) => (name.as_str(), true),
        Init::Default => ("initial", false),
        Init::Random(..) | Init::Value(_) => return Ok(None),
    };
    let func = match loaded.function(name) {
        Ok(func) => func,
        Err(failure) if required => return Err(failure),
        Err(_) => return Ok(None),
    };
    let function = kernel::initial(&mut loaded.program, &func, items)?;
    if function.result == f.element {
        return Ok(Some(function));
    }
    if required {
        let (found, wanted) = (&function.result, &f.element);
        return Err(Error::input(format!("`{name}` returns `{found}`, `{}` needs `{wanted}`", f.name)).into());
    }
    Ok(None)
}

/// The item that an element is initialised from: all elements together cover the items evenly.
fn spread(items: &Items, element: usize, n: usize, random: &mut Random) -> u32 {
    if !items.views.is_empty() {
        let view = element % items.views.len();
        let first: usize = items.views[..view].iter().map(|(width, height)| width * height).sum();
        let (width, height) = items.views[view];
        // Two irrational steps give a low-discrepancy sequence of points (R2).
        let (x, y) =
            (0.5 + element as f64 * 0.754_877_666_246_693, 0.5 + element as f64 * 0.569_840_290_998_053);
        let (x, y) = ((x.fract() * width as f64) as usize, (y.fract() * height as f64) as usize);
        return (first + y * width + x) as u32;
    }
    let at = (element as f64 + random.unit()) / n as f64 * items.n as f64;
    (at as usize).min(items.n - 1) as u32
}
