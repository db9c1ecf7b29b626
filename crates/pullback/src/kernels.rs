//! Kernels with their memory.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use driver::bind::BindValue;
use ir::{Global, Space};
use serde_json::Value as Json;
use syntax::Sources;

use crate::failure::{Diagnostic, Failure, FailureKind};
use crate::layout::{HostType, Layout};
use crate::memory::{Number, array};
use crate::module::{Module, guarded};
use crate::numbers::Value;

/// All kernels of a program, compiled, with their memory, which keeps its place and content from dispatch to dispatch.
///
/// Memory is written and read by handles of Rust types, whose layout is compared once with that of the program
/// ([`Kernels::buffer`], [`HostType`]), as JSON, as bytes, or with a shape (textures and tensors).
///
/// A dispatch blocks its thread until it ends. `Kernels` are [`Send`]: an asynchronous program moves them to a thread for
/// blocking work, and [stops](Kernels::stop_handle) a dispatch that is no longer wanted. Several dispatches at the same
/// time need [copies](Kernels::try_clone) of the memory.
///
/// ```
/// use pullback::Compiler;
///
/// let module = Compiler::new().text("cube.slang", "
///     StructuredBuffer<double> x;
///     RWStructuredBuffer<double> slopes;
///     [Differentiable] double f(double x) { return x * x * x; }
///     [shader(\"compute\")] [numthreads(64, 1, 1)]
///     void slope(uint3 id : SV_DispatchThreadID)
///     {
///         if (id.x >= x.getCount()) return;
///         var p = diffPair(x[id.x]);
///         bwd_diff(f)(p, 1.0);
///         slopes[id.x] = p.d;
///     }")?;
/// let mut kernels = module.kernels()?;
/// let (x, slopes) = (kernels.buffer::<f64>("x")?, kernels.buffer::<f64>("slopes")?);
/// let slope = kernels.kernel("slope")?;
/// kernels.write(x, &[1.0, 2.0, 3.0])?;
/// kernels.resize(slopes, 3)?;
/// kernels.dispatch(slope, slope.groups(3))?;
/// assert_eq!(kernels.read(slopes)?, [3.0, 12.0, 27.0]);
/// # Ok::<(), pullback::Failure>(())
/// ```
pub struct Kernels {
    module: driver::module::Module,
    sources: Arc<Sources>,
    bindings: Arc<[BindingInfo]>,
    warnings: Arc<[Diagnostic]>,
    stop: Arc<AtomicBool>,
    /// Copies have the number of what they are copies of, and share its handles.
    number: u64,
}

/// A kernel of [`Kernels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    kernel: driver::module::Kernel,
    owner: u64,
}

/// A buffer or uniform of [`Kernels`] whose elements have the layout of `T`.
pub struct Buffer<T> {
    global: Global,
    owner: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Buffer<T> {
    fn clone(&self) -> Buffer<T> {
        *self
    }
}

impl<T> Copy for Buffer<T> {}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>", std::any::type_name::<T>())
    }
}

/// Memory that a program's kernels use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BindingInfo {
    /// The name, with a path for what is part of a struct or behind a pointer.
    pub name: String,
    /// The kind of memory.
    pub kind: BindingKind,
    /// Kernels may write it.
    pub is_writable: bool,
    /// The layout of its elements, or of its value.
    pub layout: Layout,
}

/// The kind of memory that a program's kernels use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BindingKind {
    /// Any number of elements.
    Buffer,
    /// One value.
    Uniform,
    /// A texture, which has a shape.
    Texture,
    /// A tensor, which has a shape.
    Tensor,
    /// How textures are sampled; has a default.
    Sampler,
}

/// A dispatch that has ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Dispatched {
    /// The output of `printf`.
    pub printed: String,
    /// How long it took.
    pub time: Duration,
}

/// Ends dispatches of [`Kernels`] early, from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<AtomicBool>);

impl StopHandle {
    /// Makes a dispatch that is running, and those to come, end with an error. Groups that have begun are finished.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Allows dispatches again.
    pub fn resume(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Kernel {
    /// The number of threads per group, by dimension.
    pub fn group(self) -> [u32; 3] {
        self.kernel.group()
    }

    /// The number of groups that has at least so many threads along the first dimension.
    pub fn groups(self, threads: usize) -> [u32; 3] {
        self.kernel.groups(threads)
    }
}

impl Kernels {
    pub(crate) fn new(of: &Module) -> Result<Kernels, Failure> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let execution = &of.inner.execution;
        if of.entry_points().is_empty() {
            return Err(Failure::input("the program has no kernel: one is marked `[shader(\"compute\")]`"));
        }
        let (module, sources) = of.with(|_, loaded| driver::module::Module::compile(loaded, execution))?;
        let mut kernels = Kernels {
            bindings: Vec::new().into(),
            warnings: of.shown(&sources, module.warnings()).into(),
            module,
            sources: Arc::new(sources),
            stop: Arc::default(),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        };
        kernels.module.set_stop(Some(kernels.stop.clone()));
        kernels.bindings = kernels.describe().into();
        Ok(kernels)
    }

    fn describe(&self) -> Vec<BindingInfo> {
        let runner = self.module.runner();
        let mut found: Vec<BindingInfo> = Vec::new();
        for (global, data) in runner.globals() {
            let name = runner.name(global).to_string();
            let tensor = runner.tensor(global);
            if found.iter().any(|b| b.name == name) || runner.of_pointers(global) {
                continue;
            }
            let element = runner.element_of(tensor.map_or(global, |t| t.data));
            let layout = Layout::of(runner.mem(), element);
            let is_sampler =
                matches!(&layout, Layout::Struct { name, .. } if driver::texture::is_sampler(name));
            let kind = match tensor {
                Some(tensor) if tensor.texture.is_some() => BindingKind::Texture,
                Some(_) => BindingKind::Tensor,
                None if is_sampler => BindingKind::Sampler,
                None if runner.is_single(global) => BindingKind::Uniform,
                None => BindingKind::Buffer,
            };
            let space = tensor.map_or(data.space, |t| runner.module().globals[t.data].space);
            let is_writable = space == Space::ReadWrite || runner.is_writable(global);
            found.push(BindingInfo { name, kind, is_writable, layout });
        }
        found
    }

    /// The memory that the kernels use.
    pub fn bindings(&self) -> &[BindingInfo] {
        &self.bindings
    }

    /// Warnings about the kernels, above all about derivatives that are lost.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Result<Kernel, Failure> {
        let kernel = self.module.kernel(name).map_err(|error| self.failure(error))?;
        Ok(Kernel { kernel, owner: self.number })
    }

    /// A handle of a buffer or uniform whose elements have the layout of `T`; an error names what differs. For a number
    /// type, elements that consist of such numbers have the layout, too: a buffer of `float3` is a `Buffer<f32>` with
    /// three numbers for each element.
    pub fn buffer<T: HostType>(&self, name: &str) -> Result<Buffer<T>, Failure> {
        let global = self.module.find(name).map_err(|error| self.failure(error))?;
        let runner = self.module.runner();
        let program = Layout::of(runner.mem(), runner.element_of(global));
        let host = T::layout();
        let misfit = |why: String| Failure::new(FailureKind::Layout, format!("`{name}`: {why}"));
        if host.size() != size_of::<T>() || size_of::<T>() == 0 {
            let (ty, n) = (std::any::type_name::<T>(), size_of::<T>());
            return Err(misfit(format!(
                "the layout of `{ty}` has {} bytes, its values have {n}",
                host.size()
            )));
        }
        let is_number = match (&host, program.uniform()) {
            (Layout::Scalar(s), Some((own, _))) => *s == own,
            _ => false,
        };
        if !is_number {
            host.fits(&program).map_err(misfit)?;
        }
        Ok(Buffer { global, owner: self.number, of: PhantomData })
    }

    /// Sets the content of a buffer. It keeps its place in memory as long as its length stays the same.
    pub fn write<T: HostType>(&mut self, buffer: Buffer<T>, elements: &[T]) -> Result<(), Failure> {
        self.owns(buffer.owner)?;
        let done = self.module.write_bytes(buffer.global, bytemuck::cast_slice(elements));
        done.map_err(|error| self.failure(error))
    }

    /// Makes a buffer so many elements long, all zeros.
    pub fn resize<T: HostType>(&mut self, buffer: Buffer<T>, elements: usize) -> Result<(), Failure> {
        self.owns(buffer.owner)?;
        let name = self.module.runner().name(buffer.global).to_string();
        let size = self.module.runner().mem().size(self.module.runner().element_of(buffer.global)) as usize;
        let bytes = elements.checked_mul(size_of::<T>());
        match bytes {
            Some(bytes) if bytes.is_multiple_of(size.max(1)) => {
                let done = self.module.allocate(&name, bytes / size.max(1));
                done.map_err(|error| self.failure(error))
            }
            Some(_) => {
                let n = size / size_of::<T>();
                Err(Failure::input(format!(
                    "`{name}` has elements of {n} numbers, which {elements} do not fill"
                )))
            }
            None => Err(Failure::input(format!("`{name}`: {elements} elements are too many"))),
        }
    }

    /// A buffer's content.
    pub fn read<T: HostType>(&self, buffer: Buffer<T>) -> Result<Vec<T>, Failure> {
        self.owns(buffer.owner)?;
        let bytes = self.module.runner().bytes_of(buffer.global);
        Ok(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect())
    }

    /// Copies a buffer's content to a slice of the same length.
    pub fn read_into<T: HostType>(&self, buffer: Buffer<T>, to: &mut [T]) -> Result<(), Failure> {
        self.owns(buffer.owner)?;
        let bytes = self.module.runner().bytes_of(buffer.global);
        let to: &mut [u8] = bytemuck::cast_slice_mut(to);
        if bytes.len() != to.len() {
            let name = self.module.runner().name(buffer.global);
            let (n, m) = (bytes.len() / size_of::<T>(), to.len() / size_of::<T>());
            return Err(Failure::input(format!("`{name}` has {n} elements, not {m}")));
        }
        to.copy_from_slice(bytes);
        Ok(())
    }

    /// Sets the content of memory of any type: a list of elements, a number, an object for a struct; for a texture or
    /// tensor, nested lists; for a sampler, an object such as `{"filter": "linear", "address": "clamp"}`.
    ///
    /// ```
    /// # use serde_json::json;
    /// # let module = pullback::Compiler::new().text("a.slang", "
    /// #     struct Light { float3 place; float power; }
    /// #     uniform Light light;
    /// #     RWStructuredBuffer<Light> o;
    /// #     [shader(\"compute\")] [numthreads(1, 1, 1)] void k() { o[0] = light; }")?;
    /// # let mut kernels = module.kernels()?;
    /// kernels.write_value("light", json!({ "place": [1.0, 2.0, 3.0], "power": 4.0 }))?;
    /// kernels.write_value("o", json!([{ "place": [0.0, 0.0, 0.0], "power": 0.0 }]))?;
    /// kernels.dispatch(kernels.kernel("k")?, [1, 1, 1])?;
    /// assert_eq!(kernels.read_value("o")?, json!([{ "place": [1.0, 2.0, 3.0], "power": 4.0 }]));
    /// # Ok::<(), pullback::Failure>(())
    /// ```
    pub fn write_value(&mut self, name: &str, value: impl Into<Value>) -> Result<(), Failure> {
        let done = self.module.write_value(name, &BindValue::Json(value.into().0));
        done.map_err(|error| self.failure(error))
    }

    /// The content of memory of any type, as [`Self::write_value`] takes it. Floats that are not finite are `"nan"`, `"inf"`
    /// and `"-inf"`.
    pub fn read_value(&self, name: &str) -> Result<Json, Failure> {
        let global = self.module.find(name).map_err(|error| self.failure(error))?;
        let runner = self.module.runner();
        let layout = Layout::of(runner.mem(), runner.element_of(global));
        let bytes = runner.bytes_of(global);
        if let Some(tensor) = runner.tensor(global) {
            let mut numbers = Vec::new();
            let size = layout.size().max(1);
            bytes.chunks_exact(size).for_each(|element| crate::json::flat(&layout, element, &mut numbers));
            return Ok(crate::json::shaped(&tensor.shape, &mut numbers.into_iter()));
        }
        if runner.is_single(global) {
            return Ok(crate::json::of(&layout, bytes));
        }
        let elements = bytes.chunks_exact(layout.size().max(1));
        Ok(Json::Array(elements.map(|element| crate::json::of(&layout, element)).collect()))
    }

    /// Sets the content of memory to bytes in the layout that [`Self::bindings`] describes.
    pub fn write_bytes(&mut self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let done = self.module.find(name).and_then(|global| self.module.write_bytes(global, bytes));
        done.map_err(|error| self.failure(error))
    }

    /// The bytes of memory.
    pub fn bytes(&self, name: &str) -> Result<&[u8], Failure> {
        let global = self.module.find(name).map_err(|error| self.failure(error))?;
        Ok(self.module.runner().bytes_of(global))
    }

    /// Sets a texture or tensor, with its shape: `[height, width]` or `[height, width, channels]` for a texture of two
    /// dimensions. Channels that are missing are 0, and a missing alpha is 1.
    ///
    /// ```
    /// # let module = pullback::Compiler::new().text("a.slang", "
    /// #     Texture2D<float> heights; SamplerState linear; RWStructuredBuffer<float> o;
    /// #     [shader(\"compute\")] [numthreads(1, 1, 1)]
    /// #     void k() { o[0] = heights.SampleLevel(linear, float2(0.5, 0.5), 0); }")?;
    /// # let mut kernels = module.kernels()?;
    /// kernels.write_shaped("heights", &[2, 2], &[1.0f32, 2.0, 3.0, 6.0])?;
    /// let o = kernels.buffer::<f32>("o")?;
    /// kernels.resize(o, 1)?;
    /// kernels.dispatch(kernels.kernel("k")?, [1, 1, 1])?;
    /// assert_eq!(kernels.read(o)?, [3.0]);
    /// assert_eq!(kernels.shape("heights")?, [2, 2]);
    /// # Ok::<(), pullback::Failure>(())
    /// ```
    pub fn write_shaped<T: Number>(
        &mut self,
        name: &str,
        shape: &[usize],
        numbers: &[T],
    ) -> Result<(), Failure> {
        let done = self.module.write_value(name, &BindValue::Array(array(shape, numbers)));
        done.map_err(|error| self.failure(error))
    }

    /// The shape of a texture or tensor; empty before it has one.
    pub fn shape(&self, name: &str) -> Result<&[usize], Failure> {
        let global = self.module.find(name).map_err(|error| self.failure(error))?;
        let tensor = self.module.runner().tensor(global);
        let none = || Failure::input(format!("`{name}` is neither a tensor nor a texture: it has no shape"));
        Ok(&tensor.ok_or_else(none)?.shape)
    }

    /// Runs so many groups of a kernel, and waits for them. All memory that any kernel uses must have content.
    pub fn dispatch(&mut self, kernel: Kernel, groups: [u32; 3]) -> Result<Dispatched, Failure> {
        self.owns(kernel.owner)?;
        let module = &mut self.module;
        let done = guarded(|| Ok(module.dispatch(kernel.kernel, groups)))?;
        let output = done.map_err(|error| self.failure(error))?;
        let time = Duration::try_from_secs_f64(output.seconds).unwrap_or_default();
        Ok(Dispatched { printed: output.stdout, time })
    }

    /// The same kernels, with the same handles and a copy of the memory.
    pub fn try_clone(&self) -> Result<Kernels, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut module = self.module.duplicate().map_err(|error| self.failure(error))?;
        module.set_stop(Some(stop.clone()));
        let (sources, bindings, warnings) =
            (self.sources.clone(), self.bindings.clone(), self.warnings.clone());
        Ok(Kernels { module, sources, bindings, warnings, stop, number: self.number })
    }

    /// Ends dispatches early, from any thread.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.stop.clone())
    }

    fn failure(&self, error: driver::Error) -> Failure {
        Failure::of(&self.sources, error.into())
    }

    /// Returns an error for a handle of other kernels.
    fn owns(&self, owner: u64) -> Result<(), Failure> {
        match owner == self.number {
            true => Ok(()),
            false => Err(Failure::input("the handle is one of other kernels")),
        }
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.bindings.iter().map(|b| b.name.as_str()).collect();
        f.debug_struct("Kernels").field("bindings", &names).finish_non_exhaustive()
    }
}
