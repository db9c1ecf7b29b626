//! Kernels for a host program: `Session → Module → Kernel`, with persistent buffers.
//!
//! A [`Module`] is a program whose kernels are compiled once. Its buffers keep their location and content
//! from dispatch to dispatch, so a kernel and its gradient can run many times without further overhead.
//!
//! ```
//! use pullback_driver::launch::Execution;
//! use pullback_driver::module::Module;
//! use pullback_driver::session::{FileOptions, Session};
//!
//! let text = "
//!     StructuredBuffer<double> x;
//!     RWStructuredBuffer<double> slopes;
//!     [Differentiable] double f(double x) { return x * x * x; }
//!     [numthreads(64, 1, 1)] void slope(uint3 id : SV_DispatchThreadID)
//!     {
//!         if (id.x >= x.getCount()) return;
//!         var p = diffPair(x[id.x]);
//!         bwd_diff(f)(p, 1.0);
//!         slopes[id.x] = p.d;
//!     }";
//! let mut session = Session::new(FileOptions::default());
//! let mut module = Module::from_text(&mut session, "cube.slang", text, &Execution::default()).expect("compiles");
//! module.write("x", &[1.0, 2.0]).expect("a buffer of doubles");
//! module.allocate("slopes", 2).expect("a buffer");
//! let slope = module.kernel("slope").expect("a kernel");
//! module.dispatch(slope, [1, 1, 1]).expect("runs");
//! assert_eq!(module.read::<f64>("slopes").expect("a buffer of doubles"), [3.0, 12.0]);
//! ```

use std::path::Path;

use ir::{Global, Scalar};
use lower::Request;
use syntax::Diagnostic;

use crate::behind::pointers;
use crate::bind::{self, BindValue};
use crate::error::{Error, Failure};
use crate::files;
use crate::launch::{Execution, Output, Runner};
use crate::npy;
use crate::pipeline::{self, Loaded};
use crate::session::Session;

/// A program with its memory and all its kernels compiled.
pub struct Module {
    runner: Runner,
    threads: usize,
    warnings: Vec<Diagnostic>,
}

/// A kernel of a [`Module`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    entry: usize,
    group: [u32; 3],
}

impl Kernel {
    /// The number of threads per group, by dimension.
    pub fn group(&self) -> [u32; 3] {
        self.group
    }

    /// The number of groups that gives at least `threads` threads along the first dimension.
    pub fn groups(&self, threads: usize) -> [u32; 3] {
        [threads.div_ceil(self.group[0].max(1) as usize) as u32, 1, 1]
    }
}

/// A host number type that a buffer can hold.
pub trait Number: Copy {
    /// The corresponding scalar type of kernels.
    const SCALAR: Scalar;
    /// Appends the number's bytes.
    fn put(self, bytes: &mut Vec<u8>);
    /// Reads the number from exactly its bytes.
    fn take(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($ty:ty => $scalar:ident),*) => { $(
        impl Number for $ty {
            const SCALAR: Scalar = Scalar::$scalar;
            fn put(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn take(bytes: &[u8]) -> $ty {
                let mut own = [0; size_of::<$ty>()];
                own.copy_from_slice(bytes);
                <$ty>::from_le_bytes(own)
            }
        }
    )* };
}
numbers!(f32 => F32, f64 => F64, i32 => I32, u32 => U32, i64 => I64, u64 => U64);

impl Module {
    /// Compiles a file and what it imports.
    pub fn from_file(session: &mut Session, path: &Path, execution: &Execution) -> Result<Module, Failure> {
        Module::compile(&mut pipeline::load(session, path)?, execution)
    }

    /// Compiles a source text; diagnostics show `name` as its file name.
    pub fn from_text(
        session: &mut Session,
        name: &str,
        text: &str,
        execution: &Execution,
    ) -> Result<Module, Failure> {
        let mut program = session.program();
        let file = session.load_text(&mut program, name, text.to_string(), Path::new(""));
        Module::compile(&mut session.loaded(program, file), execution)
    }

    /// Compiles all kernels of a program that was read.
    pub fn compile(loaded: &mut Loaded, execution: &Execution) -> Result<Module, Failure> {
        loaded.errors()?;
        let entries = loaded.program.entry_points(loaded.file);
        if entries.is_empty() {
            loaded.entry(None)?;
        }
        let request = Request { entries, ..Request::default() };
        let compiled = loaded.compile(&request, &execution.compile_options())?;
        let runner = Runner::with_pointers(compiled.module, &[], execution.backend, &execution.code)?;
        Ok(Module { runner, threads: execution.threads, warnings: loaded.warned.clone() })
    }

    /// Warnings for the program's author, above all about derivatives that are lost.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Result<Kernel, Error> {
        let entries = &self.runner.module().entries;
        let found = entries.iter().position(|e| e.name == name);
        let entry = found.ok_or_else(|| Error::input(format!("there is no entry point `{name}`")))?;
        Ok(Kernel { entry, group: entries[entry].group_size })
    }

    /// Sets the content of a buffer (or uniform). A buffer keeps its location as long as its length stays the
    /// same.
    pub fn write<T: Number>(&mut self, name: &str, numbers: &[T]) -> Result<(), Error> {
        let (global, size) = self.buffer::<T>(name)?;
        let mut bytes = Vec::with_capacity(size_of_val(numbers));
        numbers.iter().for_each(|n| n.put(&mut bytes));
        if !self.is_whole(global, bytes.len()) {
            let n = size / size_of::<T>();
            let message =
                format!("`{name}` has elements of {n} numbers, which {} do not fill", numbers.len());
            return Err(Error::input(message));
        }
        self.write_bytes(global, &bytes)
    }

    /// Sets the content of a global to bytes in the layout of its elements.
    pub fn write_bytes(&mut self, global: Global, bytes: &[u8]) -> Result<(), Error> {
        let name = self.runner.name(global);
        if !pointers(self.runner.mem(), self.runner.element_of(global)).is_empty() {
            let message = format!("`{name}` holds pointers, which are bound by their own names");
            return Err(Error::input(message));
        }
        if !self.is_whole(global, bytes.len()) {
            let size = self.runner.mem().size(self.runner.element_of(global));
            let n = bytes.len();
            let message = match self.runner.is_single(global) {
                true => format!("`{name}` is one value of {size} bytes, not {n}"),
                false => format!("`{name}` has elements of {size} bytes, which {n} do not fill"),
            };
            return Err(Error::input(message));
        }
        if self.is_shaped(global) && self.runner.bytes_of(global).len() != bytes.len() {
            return Err(self.needs_shape(name));
        }
        self.runner.bind_global(global, bytes);
        Ok(())
    }

    /// Returns true if that many bytes are whole elements of a global.
    fn is_whole(&self, global: Global, bytes: usize) -> bool {
        let size = self.runner.mem().size(self.runner.element_of(global)) as usize;
        bytes.is_multiple_of(size.max(1)) && (!self.runner.is_single(global) || bytes == size)
    }

    /// Sets the content of a global, and the shape if it has one, to a value of any form.
    pub fn write_value(&mut self, name: &str, value: &BindValue) -> Result<(), Error> {
        let global = self.find(name)?;
        let done = self.runner.bind_value(global, value);
        done.map_err(|why| Error::input(format!("`{name}`: {why}")))
    }

    /// The global of that name, or the one that holds the elements of the tensor or texture of that name.
    pub fn find(&self, name: &str) -> Result<Global, Error> {
        self.runner.find(name).ok_or_else(|| {
            let mut known: Vec<&str> = self.runner.globals().map(|g| self.runner.name(g.0)).collect();
            known.dedup();
            let known = if known.is_empty() { "no buffers".into() } else { known.join(", ") };
            Error::input(format!("there is no buffer `{name}` that a kernel uses; they use {known}"))
        })
    }

    /// The same code with a copy of the memory.
    pub fn duplicate(&self) -> Result<Module, Error> {
        let (threads, warnings) = (self.threads, self.warnings.clone());
        Ok(Module { runner: self.runner.duplicate()?, threads, warnings })
    }

    /// Sets a flag that, once true, makes dispatches end early; `None` for no such flag.
    pub fn set_stop(&mut self, stop: Option<std::sync::Arc<std::sync::atomic::AtomicBool>>) {
        self.runner.set_stop(stop);
    }

    /// Sets the content and shape of a tensor or texture. The shape is like that of a `numpy` array, so
    /// `[height, width, channels]` for a texture of two dimensions. Afterwards, [`Self::write`] can change
    /// the content.
    pub fn write_shaped<T: Number>(
        &mut self,
        name: &str,
        shape: &[usize],
        numbers: &[T],
    ) -> Result<(), Error> {
        let global = self.find(name)?;
        if !self.is_shaped(global) {
            return Err(Error::input(format!("`{name}` is neither a tensor nor a texture: it has no shape")));
        }
        let n = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        if n != Some(numbers.len()) {
            let message = format!("`{name}`: {} numbers do not fill the shape {shape:?}", numbers.len());
            return Err(Error::input(message));
        }
        let mut word = Vec::new();
        let bits = numbers.iter().map(|number| {
            word.clear();
            number.put(&mut word);
            npy::from_le(&word)
        });
        let array = npy::Array { scalar: T::SCALAR, shape: shape.to_vec(), bits: bits.collect() };
        let done = self.runner.bind_value(global, &BindValue::Array(array));
        done.map_err(|why| Error::input(format!("`{name}`: {why}")))
    }

    /// Returns true if a global is part of a tensor or texture.
    fn is_shaped(&self, global: Global) -> bool {
        self.runner.tensor(global).is_some()
    }

    fn needs_shape(&self, name: &str) -> Error {
        Error::input(format!(
            "`{name}` is a tensor or texture of another size: `write_shaped` gives it its shape"
        ))
    }

    /// Creates a buffer of the given number of elements, all zeros.
    pub fn allocate(&mut self, name: &str, elements: usize) -> Result<(), Error> {
        let global = self.find(name)?;
        if self.is_shaped(global) {
            return Err(self.needs_shape(name));
        }
        let size = self.runner.mem().size(self.runner.element_of(global)) as usize;
        let bytes = elements.checked_mul(size).ok_or_else(|| format!("{elements} elements are too many"));
        let zeros = bytes.and_then(files::zeros).map_err(|why| Error::input(format!("`{name}`: {why}")))?;
        self.runner.bind_global(global, &zeros);
        Ok(())
    }

    /// Sets a buffer's content to zeros.
    pub fn clear(&mut self, name: &str) -> Result<(), Error> {
        let global = self.find(name)?;
        self.runner.bytes_mut_of(global).fill(0);
        Ok(())
    }

    /// A buffer's content.
    pub fn read<T: Number>(&self, name: &str) -> Result<Vec<T>, Error> {
        let (global, _) = self.buffer::<T>(name)?;
        let bytes = self.runner.bytes_of(global);
        Ok(bytes.chunks_exact(size_of::<T>()).map(T::take).collect())
    }

    /// One number of a buffer.
    pub fn read_at<T: Number>(&self, name: &str, index: usize) -> Result<T, Error> {
        let (global, _) = self.buffer::<T>(name)?;
        let at = index.saturating_mul(size_of::<T>());
        let bytes = self.runner.bytes_of(global).get(at..).and_then(|b| b.get(..size_of::<T>()));
        bytes.map(T::take).ok_or_else(|| Error::input(format!("`{name}` has no number {index}")))
    }

    /// Runs the given groups of a kernel on the buffers.
    pub fn dispatch(&mut self, kernel: Kernel, groups: [u32; 3]) -> Result<Output, Error> {
        self.runner.bind_gradients()?;
        self.runner.bind_counters();
        self.runner.bind_pointers()?;
        self.ready()?;
        self.runner.dispatch_entry(kernel.entry, groups, self.threads, None)
    }

    /// The underlying runner.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Returns an error if a buffer has no content yet.
    fn ready(&self) -> Result<(), Error> {
        match self.runner.unbound() {
            Some(global) => Err(Error::input(format!("`{}` has no content yet", self.runner.name(global)))),
            None => Ok(()),
        }
    }

    /// A buffer that consists of numbers of one type, and the size of an element in bytes.
    fn buffer<T: Number>(&self, name: &str) -> Result<(Global, usize), Error> {
        let global = self.find(name)?;
        let element = self.runner.element_of(global);
        let mem = self.runner.mem();
        let is_number = |leaf: &(usize, Scalar)| leaf.1 == T::SCALAR;
        if !pointers(mem, element).is_empty() || !bind::scalars(mem, element).iter().all(is_number) {
            let message = format!("`{name}` does not consist of numbers of type {}", T::SCALAR.name());
            return Err(Error::input(message));
        }
        Ok((global, mem.size(element).max(1) as usize))
    }
}
