//! The state that compiled code shares with Rust: the context of a thread, its arena and the helpers that
//! code calls.
//!
//! Compiled code is entered only inside a coroutine (see [`crate::exec`]). A helper that finds an error
//! records it in the context and suspends that coroutine for good, so no code runs after an error and nothing
//! has to be unwound: neither the frames of compiled code nor the helpers own anything that must be dropped
//! at that point.
//!
//! # Memory
//!
//! Stacks and large arrays are allocated in the context's [`Arena`], a bump allocator. Code takes its mark at
//! the start of a region whose allocations cannot outlive it, and releases the memory to that mark at the end
//! of the region.

mod arena;
mod helpers;
mod stacks;

use std::ffi::c_void;
use std::sync::Arc;

use ir::interp::{self, RunError};
use ir::{Scalar, Span};
use rustc_hash::FxHashMap;

pub(crate) use arena::Arena;
pub use arena::{Budget, DEFAULT_MEMORY};
pub use helpers::{Helper, Word, atomic_code, math_name, symbols};
pub use stacks::Header;
pub(crate) use stacks::{read, write};

#[cfg(not(target_family = "wasm"))]
use corosensei::Yielder;

use crate::profile::Notes;
use crate::types::Shape;

/// A buffer as compiled code sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Desc {
    /// The address of the first element; memory for one element is readable there even if there is none.
    pub ptr: *mut u8,
    /// The number of elements.
    pub count: u64,
}

// SAFETY: a descriptor is only an address; using it is the responsibility of the caller of
// `Worker::with_buffers`, which is unsafe.
unsafe impl Send for Desc {}
// SAFETY: as above.
unsafe impl Sync for Desc {}

/// In WebAssembly there is no machine code, hence no coroutine that runs it.
#[cfg(target_family = "wasm")]
pub enum Yielder<In, Out> {
    /// Never made.
    Never(std::convert::Infallible, std::marker::PhantomData<(In, Out)>),
}

#[cfg(target_family = "wasm")]
impl<In, Out> Yielder<In, Out> {
    fn suspend(&self, _: Out) -> In {
        match self {
            Yielder::Never(never, _) => match *never {},
        }
    }
}

/// The reason why a coroutine of compiled code was suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The thread waits for its group.
    Barrier,
    /// The thread waits for its wave: see [`Context::exchange`].
    Wave,
    /// An error was recorded in the context; the coroutine is never resumed.
    Failed,
}

/// A place in the program that the runtime may have to report.
#[derive(Clone, Debug)]
pub enum Site {
    /// An `Assert`, with its message.
    Assert(Box<str>, Span),
    /// A loop that may exceed its bound, and the bound.
    MaxIters(u32, Span),
    /// A buffer access, if accesses out of range are reported.
    OutOfRange(Span),
    /// A function that may recurse too deep.
    TooDeep(Span),
    /// A recursive function that may run out of stack before it reaches the depth limit.
    NoStack(Span),
    /// Code that allocates memory for large arrays, or for the residuals of reverse mode.
    Memory(Span),
    /// A `Printf`: its format and the kinds of its operands.
    Printf(Box<str>, Box<[Scalar]>),
    /// A `CheckFinite`, with the kinds and numbers of lanes of its operands.
    NotFinite(Box<str>, Box<[(Scalar, usize)]>, Span),
}

impl Site {
    /// The message of the error that code reports by the number of the place, and the user's line.
    pub fn failure(&self) -> (String, Span) {
        match self {
            Site::Assert(message, span) => (message.to_string(), *span),
            Site::MaxIters(n, span) => (interp::max_iters_message(*n), *span),
            Site::OutOfRange(span) => ("the index is out of the buffer's range".to_string(), *span),
            Site::TooDeep(span) => (interp::depth_message(interp::MAX_DEPTH), *span),
            Site::NoStack(span) => ("calls are nested too deep for the stack".to_string(), *span),
            Site::NotFinite(what, _, span) => {
                (format!("`{what}` gives a derivative that is not finite"), *span)
            }
            Site::Memory(_) | Site::Printf(..) => (String::new(), Span::NONE),
        }
    }
}

/// The tables that compiled code refers to by number or address.
#[derive(Debug, Default)]
pub struct Tables {
    /// The places, by number.
    sites: Vec<Site>,
    /// The numbers of the places that allocate memory.
    memory_sites: FxHashMap<Span, i64>,
    /// Shapes of stack elements, at fixed addresses.
    #[expect(clippy::vec_box, reason = "code holds their addresses while the list grows")]
    shapes: Vec<Box<Shape>>,
    /// The number of each shape.
    numbers: FxHashMap<Shape, u32>,
    /// The notes for a profile.
    pub notes: Notes,
}

impl Tables {
    /// Adds a place and returns its number.
    pub fn site(&mut self, site: Site) -> i64 {
        self.sites.push(site);
        self.sites.len() as i64 - 1
    }

    /// The number of the [`Site::Memory`] for `span`. Consecutive allocations often share one.
    pub fn memory_site(&mut self, span: Span) -> i64 {
        match self.memory_sites.get(&span) {
            Some(&site) => site,
            None => {
                let site = self.site(Site::Memory(span));
                self.memory_sites.insert(span, site);
                site
            }
        }
    }

    /// All places, by number.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The number of a shape and its address, which stays valid.
    pub fn shape(&mut self, shape: Shape) -> (u32, i64) {
        let number = self.numbers.get(&shape).copied().unwrap_or_else(|| {
            let number = self.shapes.len() as u32;
            self.shapes.push(Box::new(shape.clone()));
            self.numbers.insert(shape, number);
            number
        });
        (number, std::ptr::from_ref(&*self.shapes[number as usize]) as i64)
    }

    /// All shapes, by number.
    pub fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.shapes.iter().map(|shape| &**shape)
    }
}

/// The operands of a `wave_gather`.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// The thread's own value.
    pub from: *const u8,
    /// The size of a value in bytes.
    pub bytes: usize,
    /// Room for the values of all lanes.
    pub to: *mut u8,
    /// The lanes that provided a value.
    pub mask: u32,
}

impl Default for Exchange {
    fn default() -> Exchange {
        Exchange { from: std::ptr::null(), bytes: 0, to: std::ptr::null_mut(), mask: 0 }
    }
}

/// A sink for the output of `printf` while a thread runs.
pub trait Printer: Send + Sync {
    /// Removes from `text` the part that can be output now. If `in_order` is true, all output that precedes
    /// the text has been passed on. An error ends the thread.
    fn take(&self, text: &mut String, in_order: bool) -> Result<(), String>;
}

/// Text is offered to the [`Printer`] once this many bytes of it are pending.
pub const PRINT_EVERY: usize = 16 << 10;

/// The IDs of a thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Ids {
    /// `SV_DispatchThreadID`.
    pub thread: [u32; 3],
    /// `SV_GroupID`.
    pub group: [u32; 3],
    /// `SV_GroupThreadID`.
    pub local: [u32; 3],
    /// `SV_GroupIndex`.
    pub index: u32,
    /// The number of threads of a group along each axis.
    pub size: [u32; 3],
}

/// The output of `printf` of a thread.
#[derive(Default)]
pub struct Output {
    /// The pending output.
    pub text: String,
    /// The sink that takes the output while the thread runs, if there is one.
    pub printer: Option<Arc<dyn Printer>>,
    /// True if everything that precedes the thread's output is in `text` or has been passed on.
    pub in_order: bool,
    /// The length of `text` at which it is offered to the printer.
    pub print_at: usize,
}

/// A thread's state. Compiled code accesses the fields before `yielder` at the offsets in [`offsets`]; only
/// Rust accesses the rest.
#[repr(C)]
pub struct Context {
    /// The lowest stack address at which a function that may recurse may still start.
    pub stack_limit: usize,
    /// A descriptor for each global of the module.
    pub globals: *const Desc,
    /// The arena's bump pointer, end and start of the current chunk.
    pub arena: Arena,
    /// Memory that receives writes whose effect is dropped.
    pub sink: *mut u8,
    /// The number of the [`Site::Memory`] that allocated last.
    pub site: u32,
    /// The nesting depth of calls of recursive functions.
    pub depth: u32,
    /// 1 if no other worker runs threads of the dispatch, so that atomic operations may be plain ones.
    pub alone: u32,
    /// The thread that runs.
    pub ids: Ids,
    /// The IDs of the threads in lanes, for functions that are called: for each thread its dispatch ID, its
    /// group and its place there (three rows each), and its index.
    pub lanes: [[u32; crate::MOST_LANES as usize]; 10],
    /// The descriptors that handles in memory refer to by number, from 1.
    pub handles: *const Desc,
    /// The number of these descriptors.
    pub handle_count: u64,
    /// The handle that suspends the thread; set while compiled code runs.
    pub yielder: *const Yielder<(), Signal>,
    /// The path of the thread, maintained in kernels with wave operations.
    pub path: Vec<u64>,
    /// The operands of a `wave_gather` while the thread waits for its wave.
    pub exchange: Exchange,
    /// The output of the thread.
    pub output: Output,
    /// The first error, if any.
    pub failure: Option<RunError>,
    /// The tables of the running code.
    pub tables: Arc<Tables>,
    sink_memory: Vec<u128>,
}

/// Offsets of the fields of [`Context`] that compiled code uses, in bytes.
#[expect(missing_docs, reason = "the names of the fields")]
pub mod offsets {
    use std::mem::offset_of;

    use super::Context;

    /// Where code expects the fields: where they are in [`Context`] on machines whose addresses have 64 bits. Code for
    /// other machines (WebAssembly) has a context of its own, with addresses in eight bytes.
    macro_rules! fields {
        ($($name:ident = $at:literal: $($field:ident).+;)*) => {
            $(pub const $name: i32 = $at;)*
            $(#[cfg(target_pointer_width = "64")]
            const _: () = assert!(offset_of!(Context, $($field).+) == $at);)*
        };
    }

    fields! {
        STACK_LIMIT = 0: stack_limit;
        GLOBALS = 8: globals;
        ARENA_TOP = 16: arena;
        SINK = 80: sink;
        SITE = 88: site;
        DEPTH = 92: depth;
        ALONE = 96: alone;
        THREAD = 100: ids.thread;
        GROUP = 112: ids.group;
        LOCAL = 124: ids.local;
        INDEX = 136: ids.index;
        SIZE = 140: ids.size;
        LANES = 152: lanes;
        HANDLES = 1432: handles;
        HANDLE_COUNT = 1440: handle_count;
        AFTER = 1448: yielder;
    }
    pub const ARENA_END: i32 = ARENA_TOP + 8;
    pub const ARENA_BASE: i32 = ARENA_TOP + 16;

    /// The offset of an ID of the threads, and the number of its components, of four bytes each.
    pub fn of(builtin: ir::Builtin) -> (i32, i32) {
        match builtin {
            ir::Builtin::DispatchThreadId => (THREAD, 3),
            ir::Builtin::GroupId => (GROUP, 3),
            ir::Builtin::GroupThreadId => (LOCAL, 3),
            ir::Builtin::GroupIndex => (INDEX, 1),
            ir::Builtin::GroupSize => (SIZE, 3),
        }
    }

    /// Returns true if the field at an offset does not change while a function runs.
    pub fn is_constant(offset: i32) -> bool {
        matches!(offset, STACK_LIMIT | GLOBALS | SINK | ALONE | HANDLES | HANDLE_COUNT)
    }
}

impl Context {
    /// A context without globals. `sink_bytes` is the size of the largest value that is written.
    pub fn new(tables: Arc<Tables>, sink_bytes: u64, budget: Arc<Budget>) -> Box<Context> {
        let mut sink_memory = vec![0u128; sink_bytes as usize / 16 + 2];
        let sink = sink_memory.as_mut_ptr().cast();
        Box::new(Context {
            stack_limit: 0,
            globals: std::ptr::null(),
            arena: Arena::new(budget),
            sink,
            site: u32::MAX,
            depth: 0,
            alone: 0,
            ids: Ids { size: [1; 3], ..Ids::default() },
            lanes: [[0; crate::MOST_LANES as usize]; 10],
            path: Vec::new(),
            exchange: Exchange::default(),
            handles: std::ptr::null(),
            handle_count: 0,
            yielder: std::ptr::null(),
            output: Output { print_at: PRINT_EVERY, ..Output::default() },
            failure: None,
            tables,
            sink_memory,
        })
    }

    /// Records an error, unless an earlier one is recorded.
    pub fn record(&mut self, message: String, span: Span) {
        let thread = self.ids.thread;
        self.failure.get_or_insert(RunError { message, span, thread });
    }

    /// Stops the thread for good.
    ///
    /// # Safety
    /// Must be called on the coroutine that `yielder` belongs to, from a helper that owns nothing that must
    /// be dropped.
    unsafe fn stop(&mut self) {
        debug_assert!(!self.yielder.is_null() && !self.sink_memory.is_empty());
        // SAFETY: `exec` sets the pointer for as long as compiled code runs. The driver never resumes a
        // coroutine that has failed, so `suspend` does not return.
        unsafe { (*self.yielder).suspend(Signal::Failed) };
    }
}

/// The address of a helper.
pub type Address = *const c_void;
