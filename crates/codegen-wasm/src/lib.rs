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
//! - `pointees(n)`, then `pointee(k, size, n)`: makes memory that pointers in memory refer to; these are numbers of
//!   descriptors, from 1, of which those of globals are the first.
//! - `reset()`: frees the memory of all buffers.
//! - `room(bytes)`: memory for anything, filled with zeros, until `reset`.
//! - one function for each entry point, by its name: `(x, y, z)` runs so many groups.
//! - one for each of [`native::Options::functions`], by its name in the IR: `(arguments, results)` takes addresses of words
//!   of eight bytes, one for each number. The word of an array is its address.
//! - `error`: a global. If a function traps and it is not zero, it is the number of a place plus 1 ([`Wasm::sites`]),
//!   [`NO_MEMORY`], [`LONG_STACK`] or [`NOT_FUSED`]. [`Wasm::failure`] is the message, for which it may need `detail`, another global.
//! - `most_pages`: a global that can be set to the largest number of pages that memory may have.
//!
//! [`Wasm`] describes these to a host, and the description can be a section of the module ([`Wasm::add_section`]).
//!
//! A program that prints imports `pullback.print(context, number, words)`: the number of the place, and the address of
//! its operands, eight bytes each ([`Wasm::printed`]). Other programs import nothing.

mod control;
mod entry;
mod function;
mod layout;
mod module;
mod runtime;
mod values;

use ir::interp::{self, RunError};
use ir::{Scalar, Space, Span, scalar};
use native::runtime::Site;

pub use entry::probe;
pub use module::compile;

/// The backend's name in diagnostics.
const NAME: &str = "wasm";

/// The error of a program that needs more memory than there may be.
pub const NO_MEMORY: u32 = 0x0fff_ffff;
/// The error of a stack with too many elements.
pub const LONG_STACK: u32 = 0x0fff_fffe;
/// The error of a module with relaxed SIMD on a machine that rounds products before it adds.
pub const NOT_FUSED: u32 = 0x0fff_fffd;
/// The address of the thread's ID, as three 32-bit integers, for messages.
pub const THREAD_AT: u32 = layout::CONTEXT + native::runtime::offsets::THREAD as u32;

/// Features of engines that a module may use although not all have them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Features {
    /// Relaxed SIMD, whose product and sum in one instruction is rounded once on machines that have such an instruction.
    /// Results are the same as without, only many times faster: on other machines the module fails with
    /// [`NOT_FUSED`].
    pub relaxed_simd: bool,
}

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
    /// The places of the program that fail or print, by number.
    pub sites: Vec<Site>,
}

impl Wasm {
    /// Adds a custom section to the module.
    pub fn add_section(&mut self, name: &str, contents: &[u8]) {
        let section = wasm_encoder::CustomSection { name: name.into(), data: contents.into() };
        self.bytes.push(wasm_encoder::SectionId::Custom as u8);
        wasm_encoder::Encode::encode(&section, &mut self.bytes);
    }

    /// The text that the place of this number prints; `word` reads the operands, by number.
    pub fn printed(&self, number: u32, word: impl Fn(usize) -> u64) -> String {
        let Some(Site::Printf(format, kinds)) = self.sites.get(number as usize) else { return String::new() };
        let arg = |(k, &s): (usize, &Scalar)| (s, scalar::canonical(s, word(k)));
        let args: Vec<(Scalar, u64)> = kinds.iter().enumerate().map(arg).collect();
        ir::printf::print(format, &args)
    }

    /// The error that a module reports by its global `error`; `thread` is what is at [`THREAD_AT`], and `word` reads the
    /// words at the address in the global `detail`, by number.
    pub fn failure(&self, error: u32, thread: [u32; 3], word: impl Fn(usize) -> u64) -> RunError {
        let (message, span) = match error {
            NO_MEMORY => ("the program needs more memory than there is".to_string(), Span::NONE),
            NOT_FUSED => ("this machine lacks fused multiply-adds".to_string(), Span::NONE),
            LONG_STACK => (format!("a stack grows past {} elements", 1 << 28), Span::NONE),
            _ => match self.sites.get(error.wrapping_sub(1) as usize) {
                Some(Site::NotFinite(what, kinds, span)) => {
                    let mut at = 0..;
                    let mut number = |s: Scalar| scalar::canonical(s, at.next().map_or(0, &word));
                    let value = |&(s, n): &(Scalar, usize)| (s, (0..n).map(|_| number(s)).collect());
                    let values: Vec<_> = kinds.iter().map(value).collect();
                    (interp::not_finite_message(what, &values).unwrap_or_default(), *span)
                }
                Some(site) => site.failure(),
                None => ("calls are nested too deep for the stack".to_string(), Span::NONE),
            },
        };
        RunError { message, span, thread }
    }
}
