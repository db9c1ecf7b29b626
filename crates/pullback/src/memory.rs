//! Values for memory, by name: of functions, and of kernels where no type is declared for it.

use driver::bind::{Bind, BindValue};
use driver::module::Number as HostNumber;
use driver::npy;

use crate::numbers::Value;

/// The content of the buffers, uniforms, tensors and textures that a function reads, by name.
///
/// ```
/// use pullback::{Compiler, Memory};
///
/// let module = Compiler::new().text("a.slang", "
///     StructuredBuffer<float> weights;
///     uniform float scale;
///     [Differentiable] float f(float x) { return scale * weights[0] * x * x + weights[1]; }")?;
/// let memory = Memory::new().numbers("weights", &[3.0f32, 1.0]).value("scale", 2.0);
/// let f = module.function_with("f", memory)?;
/// assert_eq!(f.grad([("x", 2.0)])?.number("x")?, 24.0);
/// let why = module.function("f").unwrap_err().to_string();
/// assert!(why.contains("`weights`") && why.contains("`scale`"), "{why}");
/// # Ok::<(), pullback::Failure>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub(crate) binds: Vec<Bind>,
}

/// A number of a host: `f32`, `f64` and integers of 32 and 64 bits.
pub trait Number: HostNumber + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($ty:ty),*) => { $(
        impl sealed::Sealed for $ty {}
        impl Number for $ty {}
    )* };
}
numbers!(f32, f64, i32, u32, i64, u64);

impl Memory {
    /// No memory.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// The elements of a buffer or the value of a uniform: a list, a number, or an object for a struct.
    #[must_use]
    pub fn value(self, name: impl Into<String>, value: impl Into<Value>) -> Memory {
        self.with(name, BindValue::Json(value.into().0))
    }

    /// The numbers of a buffer's elements, one after the other.
    #[must_use]
    pub fn numbers<T: Number>(self, name: impl Into<String>, numbers: &[T]) -> Memory {
        self.with(name, BindValue::Array(array(&[numbers.len()], numbers)))
    }

    /// A tensor or texture with its shape: `[height, width]` or `[height, width, channels]` for a texture.
    #[must_use]
    pub fn shaped<T: Number>(self, name: impl Into<String>, shape: &[usize], numbers: &[T]) -> Memory {
        self.with(name, BindValue::Array(array(shape, numbers)))
    }

    /// So many elements of zeros.
    #[must_use]
    pub fn zeros(self, name: impl Into<String>, elements: usize) -> Memory {
        self.with(name, BindValue::Zeros(elements as u64))
    }

    fn with(mut self, name: impl Into<String>, value: BindValue) -> Memory {
        self.binds.push(Bind { name: name.into(), value });
        self
    }
}

/// Numbers with a shape, which need not fit.
pub(crate) fn array<T: Number>(shape: &[usize], numbers: &[T]) -> npy::Array {
    let mut bytes = Vec::with_capacity(8);
    let bits = numbers.iter().map(|number| {
        bytes.clear();
        number.put(&mut bytes);
        npy::from_le(&bytes)
    });
    npy::Array { scalar: T::SCALAR, shape: shape.to_vec(), bits: bits.collect() }
}
