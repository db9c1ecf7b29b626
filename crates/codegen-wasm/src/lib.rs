//! Compiles IR to WebAssembly: modules that need nothing from their host, and that run in browsers.
//!
//! The code is that of `codegen-cranelift` for lanes, whose vectors have 128 bits as WebAssembly's do: [`function`]
//! writes it instruction by instruction, and [`control`] finds the structure of its control again. [`runtime`] is what
//! the code calls, and [`layout`] is where memory is. Threads run one after the other, or side by side in the lanes of
//! vectors.
//!
//! # The interface of a module
//!
//! - `memory`: all of its memory.
//! - `buffer(k, n)`: makes memory for `n` elements of global number `k` (see [`Wasm::globals`]), filled with zeros, and
//!   returns its address. The global refers to it from now on. A global without memory has no elements.
//! - `reset()`: frees the memory of all buffers.
//! - one function for each entry point, by its name: `(x, y, z)` runs so many groups.
//! - `error`: a global. If a function traps and it is not zero, it is the number of an error plus 1
//!   ([`Wasm::errors`]), [`NO_MEMORY`] or [`LONG_STACK`].
//! - `most_pages`: a global that can be set to the largest number of pages that memory may have.
//!
//! A program that prints imports `pullback.print(context, number, words)`: the number of the place, and the address of
//! its operands, eight bytes each ([`Wasm::prints`]). Other programs import nothing.

mod control;
mod entry;
mod function;
mod layout;
mod module;
mod runtime;
mod values;

use ir::interp::RunError;
use ir::{Scalar, Space, Span};

pub use module::compile;

/// The backend's name in diagnostics.
const NAME: &str = "wasm";

/// The error of a program that needs more memory than there may be.
pub const NO_MEMORY: u32 = 0x0fff_ffff;
/// The error of a stack with too many elements.
pub const LONG_STACK: u32 = 0x0fff_fffe;
/// The address of the thread's ID, as three 32-bit integers, for messages.
pub const THREAD_AT: u32 = layout::CONTEXT + native::runtime::offsets::THREAD as u32;

/// A global that the host gives memory to.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Its number, for `buffer`.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its kind of memory.
    pub space: Space,
    /// The bytes of an element.
    pub size: u64,
}

/// A place that prints.
#[derive(Clone, Debug)]
pub struct Print {
    /// Its number.
    pub number: u32,
    /// The format.
    pub format: Box<str>,
    /// The kinds of the operands.
    pub kinds: Box<[Scalar]>,
}

/// An entry point.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name of the function that runs it.
    pub name: String,
    /// The number of threads that run side by side.
    pub lanes: u32,
    /// The reason why they run one after the other, if they do.
    pub reason: Option<native::Reason>,
}

/// A module.
#[derive(Clone, Debug)]
pub struct Wasm {
    /// The module's bytes.
    pub bytes: Vec<u8>,
    /// The entry points.
    pub entries: Vec<Entry>,
    /// The globals that the host gives memory to.
    pub globals: Vec<Buffer>,
    /// The messages of errors and the user's lines, by number.
    pub errors: Vec<(String, Span)>,
    /// The places that print.
    pub prints: Vec<Print>,
}

impl Wasm {
    /// The error that a module reports by its global `error`; `thread` is what is at [`THREAD_AT`].
    pub fn failure(&self, error: u32, thread: [u32; 3]) -> RunError {
        let (message, span) = match error {
            NO_MEMORY => ("the program needs more memory than there is".to_string(), Span::NONE),
            LONG_STACK => (format!("a stack grows past {} elements", 1 << 28), Span::NONE),
            _ => match self.errors.get(error.wrapping_sub(1) as usize) {
                Some((message, span)) => (message.clone(), *span),
                None => ("calls are nested too deep for the stack".to_string(), Span::NONE),
            },
        };
        RunError { message, span, thread }
    }
}
