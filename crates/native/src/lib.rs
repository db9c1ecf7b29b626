//! The run-time contract that compiled code of every CPU backend keeps, and the types that backends share.
//!
//! A backend turns a module into a [`Compiled`]: the addresses of its code, and the memory that the code
//! refers to. A [`Worker`] runs that code on one core. Code of every backend means what `ir::interp` says,
//! bit for bit (any two NaNs count as equal).
//!
//! # The contract
//!
//! Code is entered through functions of the platform's C calling convention:
//!
//! - an entry point through [`EntryCode::Whole`]: `code(ctx)` runs all threads of the group whose ID is in
//!   the context, one after the other; or, if threads wait for each other (barriers, waves), the one thread
//!   whose IDs are in the context;
//! - or through [`EntryCode::Span`]: `code(ctx, start, end)` runs the threads with these numbers in a row of
//!   groups that begins at the group in the context and continues along x. Code for lanes runs as many
//!   threads at a time as it has lanes, and its span is a multiple of that number. If groups have memory of
//!   their own, a span stays within one group;
//! - a function that the host asked for through `code(ctx, arguments, results)`, with each word (see
//!   [`types::words`]) of its arguments and results in eight bytes. An array argument is a pointer to the
//!   array, an array result a pointer to the memory that receives it.
//!
//! `ctx` is a [`runtime::Context`]. Code accesses its fields at [`runtime::offsets`] and calls the functions
//! that [`runtime::symbols`] lists. It runs inside a coroutine, so that it can wait and can be stopped
//! anywhere.
//!
//! Errors of a running program (a failed assertion, a loop that exceeds the bound its reversal relies on,
//! calls nested too deep) stop it and are reported with the user's line and the thread. An op that a backend
//! cannot express yields an [`Unsupported`] that names it.
//!
//! Unsafe code is confined to where it is needed: entering compiled code (`exec`) and the functions that
//! compiled code calls (`runtime`).
#![cfg_attr(
    target_family = "wasm",
    expect(dead_code, unused_imports, reason = "in WebAssembly there is no machine code, which this serves")
)]

pub mod emit;
#[cfg(not(target_family = "wasm"))]
mod exec;
mod flush;
pub mod fork;
pub mod lanes;
pub mod nesting;
pub mod plan;
pub mod profile;
pub mod runtime;
pub mod types;
mod values;

use std::any::Any;
use std::sync::Arc;

use ir::interp::{RunError, Value};
use ir::{Func, Module, Scalar, Slot, Space, Span, Types};

use plan::Facts;
use profile::{Lines, Notes, Profile};
use runtime::{Context, Header, Tables};

#[cfg(not(target_family = "wasm"))]
pub use exec::Worker;
pub use flush::Subnormals;
pub use runtime::{Budget, DEFAULT_MEMORY, Desc, PRINT_EVERY, Printer};

/// The options that a module is compiled and run with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Report the first buffer access that is out of range, instead of reading zero and writing
    /// nothing.
    pub trap: bool,
    /// The functions that [`Compiled::call`] can call; entry points are always compiled.
    pub functions: Vec<Func>,
    /// Trade the speed of the code for a shorter compile time.
    pub fast_compile: bool,
    /// The number of threads that run in lanes, if the backend has lanes: 1, 4, 8, 16 or 32. `None` chooses what
    /// suits the machine and the program.
    pub lanes: Option<u32>,
    /// Add up the lanes of an atomic sum in lane order, as threads that run one after the other would, rather
    /// than by repeated halving.
    pub lane_order: bool,
    /// Give the same bits in every run and with any number of workers: atomic additions of floats happen in
    /// an order that depends on the dispatch alone.
    pub deterministic: bool,
    /// Allow all operations on floats to be reordered and fused, as in functions that are marked so. Only
    /// LLVM does it.
    pub fast_math: bool,
    /// Allow subnormal numbers to be flushed to zero, since operations on them are slow on many processors.
    /// The code that dispatches must also configure its workers ([`Worker::set_flush`]).
    pub flush_subnormals: bool,
    /// The number of bytes that all threads together may hold in large arrays and in the residuals of reverse
    /// mode; `None` for [`DEFAULT_MEMORY`]. Only the code that dispatches uses the limit: it makes no
    /// difference to the compiled code.
    pub memory: Option<u64>,
    /// The number of seconds that a dispatch may take; `None` for no limit. Like [`Self::memory`], it is only
    /// used by the code that dispatches.
    pub seconds: Option<f64>,
    /// The caller promises that only one dispatch at a time touches the buffers, and only on one thread:
    /// atomic additions of floats are compiled to plain ones from the start.
    pub exclusive: bool,
    /// Functions longer than this are compiled in pieces of this many lines of the backend's text; `None` for
    /// a suitable length. It makes no difference to what the code does.
    pub piece: Option<usize>,
    /// Look the code up in the user's cache and store it there, if the backend caches its code.
    pub cache: bool,
    /// The notes for a profile that the code carries.
    pub profile: Profile,
}

/// An op that a backend cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The backend's name.
    pub backend: &'static str,
    /// The op, and the reason why it is not supported.
    pub op: String,
    /// The user's line.
    pub span: Span,
    /// True if no valid program should cause this error: it is a bug of the backend, described in the
    /// backend's own terms.
    pub internal: bool,
}

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the {} backend does not support {}", self.backend, self.op)
    }
}

impl std::error::Error for Unsupported {}

/// The largest number of stacks whose headers are in one bundle.
pub const MOST_BUNDLED: usize = 64;

/// Memory at fixed addresses that code refers to. It is never written after it is made.
pub struct Fixed {
    zero: Vec<u128>,
    absent: [Vec<u128>; 3],
    /// As many as the largest bundle has.
    empty: Vec<Header>,
    empty_at: Box<*mut Header>,
}

impl Fixed {
    /// The memory for values of the plan's largest size, in the largest number of lanes.
    pub fn new(plan: &plan::Plan) -> Fixed {
        let largest = plan.largest;
        let absent = |s: Scalar| {
            let number = u128::from(ir::scalar::absent(s));
            let numbers = (0..128 / s.bits()).map(|k| number << (k * s.bits()));
            vec![numbers.sum(); plan.largest_stacked as usize / 16 + 1]
        };
        let mut fixed = Fixed {
            absent: [Scalar::F16, Scalar::F32, Scalar::F64].map(absent),
            zero: vec![0; largest as usize / 16 * MOST_LANES as usize + 2 * MOST_LANES as usize],
            empty: Vec::new(),
            empty_at: Box::new(std::ptr::null_mut()),
        };
        let ptr = fixed.zero.as_mut_ptr().cast();
        fixed.empty = vec![Header { ptr, len: 0, cap: 0 }; MOST_BUNDLED];
        *fixed.empty_at = fixed.empty.as_mut_ptr();
        fixed
    }

    /// The address of memory that is always zero.
    pub fn zero(&self) -> usize {
        self.zero.as_ptr() as usize
    }

    /// The address of memory that always holds absent differentials of type `s`, as many as the largest
    /// element of a stack has; zeros if `s` is no float.
    pub fn absent(&self, s: Scalar) -> usize {
        match s {
            Scalar::F16 => self.absent[0].as_ptr() as usize,
            Scalar::F32 => self.absent[1].as_ptr() as usize,
            Scalar::F64 => self.absent[2].as_ptr() as usize,
            _ => self.zero(),
        }
    }

    /// The address of the empty stack's header, after which there are others like it: it is an empty bundle, too.
    pub fn empty(&self) -> usize {
        self.empty.as_ptr() as usize
    }

    /// The address of a word that holds [`Self::empty`].
    pub fn empty_at(&self) -> usize {
        &raw const *self.empty_at as usize
    }
}

/// Code that runs a group, or the one thread that the context names.
pub type EntryFn = unsafe extern "C" fn(*mut Context);

/// Code that runs a span of the threads in a row of groups.
pub type SpanFn = unsafe extern "C" fn(*mut Context, u64, u64);

/// The code of an entry point.
#[derive(Clone, Copy)]
pub enum EntryCode {
    /// All threads of a group, or one thread if they wait for each other.
    Whole(EntryFn),
    /// Any threads of a row of groups: code that runs them one at a time and, optionally, code that runs them
    /// in lanes. If the number of lanes divides the size of a group, no threads are left over, and the first
    /// code is never called.
    Span(SpanFn, Option<Lanes>),
}

/// Code that runs threads in lanes.
#[derive(Clone, Copy)]
pub struct Lanes {
    /// The code.
    pub code: SpanFn,
    /// The number of lanes.
    pub width: u32,
}

/// The reason why an entry point runs one thread at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The obstacle to running it in lanes.
    pub what: String,
    /// The user's line.
    pub span: Span,
}

/// The largest number of lanes.
pub const MOST_LANES: u32 = 32;

/// The code of a function that Rust can call.
pub type RawFn = unsafe extern "C" fn(*mut Context, *const u64, *mut u64);

/// An entry point's code.
#[derive(Clone, Copy)]
struct EntryPoint {
    code: EntryCode,
    size: [u32; 3],
    facts: Facts,
}

/// The code of a function that Rust can call, and its signature.
struct RawCode {
    func: Func,
    code: RawFn,
    params: Vec<Slot>,
    results: Vec<Slot>,
}

/// A global's memory.
#[derive(Clone, Copy)]
struct GlobalShape {
    space: Space,
    bytes: u64,
    /// The number of elements that the code takes read-only memory to have.
    room: u64,
}

/// The output of a backend for a module.
pub struct Parts {
    /// The code of each entry point, in order, and the reason why it does not run in lanes, if the backend
    /// has lanes.
    pub entries: Vec<(EntryCode, Option<Reason>)>,
    /// The code of the requested functions.
    pub raw: Vec<(Func, RawFn)>,
    /// The tables that the code refers to by number or address.
    pub tables: Tables,
    /// The memory that the code refers to by address.
    pub fixed: Fixed,
    /// The code by location, if it was compiled for a profile.
    pub lines: Lines,
    /// The number of bytes of stack that calls need without recursion.
    pub stack_need: u64,
    /// The number of bytes of stack that recursive calls need: [`plan::Plan::recursion_need`].
    pub recursion_need: u64,
    /// The owner of the executable memory; dropped once the code can no longer run.
    pub memory: Box<dyn Any>,
}

/// The code of a module.
pub struct Compiled {
    entries: Vec<(String, EntryPoint)>,
    reasons: Vec<Option<Reason>>,
    sums: Vec<plan::Sums>,
    raw: Vec<RawCode>,
    globals: Vec<GlobalShape>,
    types: Types,
    tables: Arc<Tables>,
    fixed: Fixed,
    lines: Lines,
    largest: u64,
    /// The number of bytes of stack that calls need without recursion.
    stack_need: usize,
    recursion_need: usize,
    _memory: Box<dyn Any>,
}

// SAFETY: a `Compiled` does not change after compilation: code, tables and the fixed memory are only read
// (`empty` is never grown in place, the zeros are never written), and `_memory` is only kept to be dropped.
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled")
            .field("entries", &self.entries.iter().map(|e| &e.0).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Compiled {
    /// The compiled form of `module`, which a backend compiled according to `plan`.
    ///
    /// # Safety
    /// The code keeps the contract at the head of this crate, means what the module says, and stays in place until
    /// `parts.memory` is dropped.
    pub unsafe fn new(module: &Module, plan: &plan::Plan, parts: Parts) -> Compiled {
        let (codes, reasons): (Vec<EntryCode>, Vec<Option<Reason>>) = parts.entries.into_iter().unzip();
        let entry = |(entry, code): (&ir::Entry, EntryCode)| {
            let facts = plan.facts[entry.func];
            (entry.name.clone(), EntryPoint { code, size: entry.group_size, facts })
        };
        let raw = |(func, code): (Func, RawFn)| {
            let f = &module.funcs[func];
            RawCode { func, code, params: f.params.clone(), results: f.results.clone() }
        };
        let shape = |(global, g): (ir::Global, &ir::GlobalData)| GlobalShape {
            space: g.space,
            bytes: module.mem.size(g.ty),
            room: plan.room[global],
        };
        Compiled {
            entries: module.entries.iter().zip(codes).map(entry).collect(),
            reasons,
            sums: module.entries.iter().map(|entry| plan.sums(module, entry.func)).collect(),
            raw: parts.raw.into_iter().map(raw).collect(),
            globals: module.globals.iter().map(shape).collect(),
            types: module.types.clone(),
            tables: Arc::new(parts.tables),
            fixed: parts.fixed,
            lines: parts.lines,
            largest: plan.largest,
            stack_need: parts.stack_need as usize,
            recursion_need: parts.recursion_need as usize,
            _memory: parts.memory,
        }
    }

    /// The number of threads of an entry point that run in lanes; 1 if they run one after the other.
    pub fn lanes(&self, entry: usize) -> u32 {
        match self.entries[entry].1.code {
            EntryCode::Span(_, Some(lanes)) => lanes.width,
            EntryCode::Span(_, None) | EntryCode::Whole(_) => 1,
        }
    }

    /// The machine code by location, if it was compiled for a profile.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The notes for a profile, if the code was compiled for one.
    pub fn notes(&self) -> &Notes {
        &self.tables.notes
    }

    /// True if the code may print.
    pub fn prints(&self) -> bool {
        self.tables.sites().iter().any(|site| matches!(site, runtime::Site::Printf(..)))
    }

    /// The reason why an entry point's threads do not run in lanes, if it is known.
    pub fn why_single(&self, entry: usize) -> Option<&Reason> {
        self.reasons[entry].as_ref()
    }

    /// The globals that an entry point only adds to.
    pub fn sums(&self, entry: usize) -> &plan::Sums {
        &self.sums[entry]
    }

    /// The number of threads in a group of an entry point.
    pub fn group_threads(&self, entry: usize) -> u64 {
        self.entries[entry].1.size.iter().map(|&n| u64::from(n)).product()
    }

    /// Returns true if an entry point reaches a barrier.
    pub fn has_barrier(&self, entry: usize) -> bool {
        self.entries[entry].1.facts.barrier
    }

    /// Returns true if the results of an entry point depend on the order in which its threads run.
    pub fn is_ordered(&self, entry: usize) -> bool {
        self.entries[entry].1.facts.ordered
    }

    /// The number of the entry point of that name, for [`Worker::run_groups`].
    pub fn entry(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|e| e.0 == name)
    }

    /// Calls a function of [`Options::functions`] with no global bound.
    #[cfg(not(target_family = "wasm"))]
    pub fn call(&self, func: Func, args: &[Value]) -> Result<Vec<Value>, RunError> {
        Worker::new(self).call(func, args)
    }
}
